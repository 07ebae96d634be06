"""Fluid's control flow in ``with`` blocks: ``While``, ``IfElse``, ``Switch``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import Any

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.blocks import append_holder, atomic, new_block, touched_outside
from graphad.layers.helper import LayerHelper, layer
from graphad.layers.values import described, one_boolean, stopped_unless_float
from graphad.program import TENSOR, Block, Variable, default_main_program
from graphad.program.source import at_users_line


class While:
    """A loop over a block, which runs again and again while ``cond`` holds and has to write ``cond`` again.

    Args:
        cond: a boolean Variable of one element.
        is_test: say that no gradient will be requested.

    Raises:
        TypeError: ``cond`` is no Variable.
        ShapeError: it is not one boolean.
        ValueError: the block does not write it; there is a second block.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     i = ga.layers.data("i", shape=[1], dtype="int64", append_batch_size=False)
    ...     go = i < 10
    ...     with ga.layers.While(go).block():
    ...         block = program.current_block()
    ...         _ = block.append_op("scale", {"X": i}, {"Out": i}, {"scale": 2.0})
    ...         _ = block.append_op("assign", {"X": i < 10}, {"Out": go})
    >>> ga.Executor().run(program, feed={"i": [3]}, fetch_list=[i])
    [array([12])]
    """

    def __init__(self, cond: Variable, is_test: bool = False, name: str | None = None) -> None:
        with at_users_line("layers.While"):
            self.cond = one_boolean("cond is", cond)
        self.main = default_main_program()
        self.is_test = is_test
        self._written = False

    @contextmanager
    def block(self) -> Iterator[None]:
        """Within it, layers write into the block; an error takes it back."""
        with at_users_line("layers.While"):
            if self._written:
                raise InvalidValue("the loop has its block already")
        around = self.main.current_block()
        with atomic():
            with new_block(self.main) as block:
                yield
            with at_users_line("layers.While"):
                if self.cond.name not in touched_outside([block]).writes:
                    raise InvalidValue(f"the block does not write the condition {self.cond.name!r}, so the loop would never end")
            append_holder(around, "while", [self.cond], {"sub_block": block}, attrs={"is_test": self.is_test})
        self._written = True


class IfElse:
    """Two blocks, each for some of the rows of a batch: ``true_block`` for those where ``cond`` holds, ``false_block`` for the others.

    A block that gets no rows is not run, but for the first one where the batch has none.

    Args:
        cond: a boolean Variable of shape [N, 1], one element a row.

    Raises:
        TypeError: ``cond``, an input or an output is no Variable.
        ShapeError: ``cond`` is not one boolean a row.
        ValueError: something is done outside or inside of the blocks that has its place elsewhere.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[1])
    ...     rows = ga.layers.IfElse(x < 0.0)
    ...     with rows.true_block():
    ...         rows.output(rows.input(x) * -1.0)
    ...     with rows.false_block():
    ...         rows.output(rows.input(x) * 10.0)
    ...     (y,) = rows()
    >>> ga.Executor().run(program, feed={"x": [[-1.0], [2.0], [-3.0]]}, fetch_list=[y])
    [array([[ 1.], [20.], [ 3.]], dtype=float32)]
    """

    def __init__(self, cond: Variable, name: str | None = None) -> None:
        with at_users_line("layers.IfElse"):
            self.cond = _one_boolean_a_row(cond)
        self._name = name
        self._around = default_main_program().current_block()
        self._block: Block | None = None
        self._side = 0
        self._parts: dict[str, tuple[int, list[Variable]]] = {}
        self._outputs: tuple[list[Variable], list[Variable]] = ([], [])

    def true_block(self) -> AbstractContextManager[None]:
        """Within it, layers write into the block for the rows where the condition holds."""
        return self._branch(0)

    def false_block(self) -> AbstractContextManager[None]:
        """Within it, layers write into the block for the other rows."""
        return self._branch(1)

    @contextmanager
    def _branch(self, side: int) -> Iterator[None]:
        self._check_branch(side)
        before = self._name, dict(self._parts)
        try:
            with atomic():
                self._name = self._name or self._around.program.names.generate("ifelse")
                with new_block(self._around.program) as block:
                    self._block, self._side = block, side
                    yield
                self._complete(block, side)
        except BaseException:
            self._name, self._parts = before
            self._outputs[side].clear()
            raise
        finally:
            self._block = None

    def _check_branch(self, side: int) -> None:
        with at_users_line("layers.IfElse"):
            if self._outputs[side]:
                raise InvalidValue(f"{('true_block', 'false_block')[side]} is written already")
            if self._around.program.current_block() is not self._around:
                raise InvalidValue("true_block and false_block belong where the IfElse was made, not inside another block")

    def _complete(self, block: Block, side: int) -> None:
        """Append the operator that runs the block if there is a row for it."""
        with at_users_line("layers.IfElse"):
            if not self._outputs[side]:
                raise InvalidValue("Must set output inside block: call output(...) in true_block and in false_block")
        read = touched_outside([block]).reads
        taken = [parts[side] for _, parts in self._parts.values() if parts[side].name in read]
        if side:
            condition, is_scalar = taken[0] if taken else self._split(self.cond)[side], False
        else:
            condition, is_scalar = self._has_rows_or_batch_is_empty(), True
        names = [out.name for out in self._outputs[side]]
        attrs = {"is_scalar_condition": is_scalar}
        append_holder(self._around, "conditional_block", [condition], {"sub_block": block}, names, fresh=names, attrs=attrs)

    def _has_rows_or_batch_is_empty(self) -> Variable:
        """Whether the condition holds for a row, or there are none: a block has to run for its outputs to have a shape.

        Of no booleans "all" is true and "any" false; of some, "all" implies "any".
        """
        names = [self._generate("tmp") for _ in range(3)]
        for op_type, name in zip(("reduce_any", "reduce_all"), names[:2], strict=True):
            self._around.append_op(op_type, {"X": self.cond}, {"Out": name}, {"reduce_all": True})
        self._around.append_op("logical_or", {"X": names[0], "Y": names[1]}, {"Out": names[2]})
        for name in names:
            self._around.var(name).stop_gradient = True
        return self._around.var(names[2])

    def input(self, x: Variable) -> Variable:
        """The rows of x that the block is for: of shape ``[-1, *x.shape[1:]]``."""
        with at_users_line("layers.IfElse"):
            self._check_inside("input must in true/false blocks")
            if not isinstance(x, Variable):
                raise InvalidType(f"input takes a Variable, not {x!r}")
            return self._split(x)[self._side]

    def _split(self, x: Variable) -> list[Variable]:
        """Both parts of x, split in front of the blocks; split again if it was overwritten since."""
        around = self._around
        at, parts = self._parts.get(x.name, (0, []))
        if not parts or any(x.name in op.output_names() for op in around.ops[at:]):
            names = [self._generate(side) for side in ("true", "false")]
            around.append_op("split_lod_tensor", {"X": x, "Mask": self.cond}, {"OutTrue": names[0], "OutFalse": names[1]})
            parts = [stopped_unless_float(around.var(name)) for name in names]
            self._parts[x.name] = (len(around.ops), parts)
        return parts

    def output(self, *outs: Variable) -> None:
        """Say what the block gives: Variables with the block's rows, as many in each of the two blocks."""
        with at_users_line("layers.IfElse"):
            self._check_inside("output must in true/false blocks")
            if not outs or not all(isinstance(out, Variable) for out in outs):
                raise InvalidType(f"output takes one or several Variables, not {', '.join(map(repr, outs)) or 'nothing'}")
        for out in outs:
            given = self._around.create_var(self._generate("out"))
            self._around.program.current_block().append_op("assign", {"X": out}, {"Out": given})
            self._outputs[self._side].append(stopped_unless_float(given))

    def _check_inside(self, message: str) -> None:
        if self._block is None or self._around.program.current_block() is not self._block:
            raise InvalidValue(message)

    def _generate(self, key: str) -> str:
        return self._around.program.names.generate(f"{self._name}.{key}")

    def __call__(self) -> list[Variable]:
        """The outputs of both blocks, the rows in the order of the batch."""
        with at_users_line("layers.IfElse"):
            if self._block is not None:
                raise InvalidValue("IfElse::__call__ must be out of sub-block")
            if not all(self._outputs):
                raise InvalidValue("Must invoke true_block/false_block before __call__")
            counts = [len(outs) for outs in self._outputs]
            if counts[0] != counts[1]:
                raise InvalidValue(f"The output side must be same: true_block has {counts[0]} outputs, false_block {counts[1]}")
        with atomic():
            return [self._merged(ours, theirs) for ours, theirs in zip(*self._outputs, strict=True)]

    def _merged(self, ours: Variable, theirs: Variable) -> Variable:
        block, name = self._around.program.current_block(), self._generate("tmp")
        block.append_op("merge_lod_tensor", {"Mask": self.cond, "InTrue": ours, "InFalse": theirs}, {"Out": name})
        return stopped_unless_float(block.var(name))


def _one_boolean_a_row(cond: Any) -> Variable:
    if not isinstance(cond, Variable):
        raise InvalidType(f"cond is {cond!r}; a boolean Variable of shape [N, 1] is expected")
    shape, dtype = cond.declared
    rows = shape is None or (len(shape) > 0 and all(extent in (1, -1) for extent in shape[1:]))
    if cond.type != TENSOR or dtype != "bool" or not rows:
        raise ShapeError(f"cond is {cond.name!r}, {described(cond)}; a boolean Variable of shape [N, 1] is expected")
    return cond


class Switch:
    """Blocks of which the first one runs whose condition holds, else the default one.

    Raises:
        TypeError: a condition is no Variable.
        ShapeError: it is not one boolean.
        ValueError: a block is begun outside of ``with``, or after the default one; the default one is the first.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     step = ga.layers.data("step", shape=[1], append_batch_size=False)
    ...     rate = step * 0.0
    ...     with ga.layers.Switch() as switch:
    ...         with switch.case(step < 10.0):
    ...             _ = program.current_block().append_op("assign", {"X": step * 0.5}, {"Out": rate})
    ...         with switch.default():
    ...             _ = program.current_block().append_op("assign", {"X": step * 0.25}, {"Out": rate})
    >>> [float(ga.Executor().run(program, feed={"step": [s]}, fetch_list=[rate])[0][0]) for s in (4, 20)]
    [2.0, 5.0]
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._helper: LayerHelper | None = None
        self._undo = ExitStack()
        self._rest: Variable | None = None
        self._ended = False

    def __enter__(self) -> Switch:
        self._undo.enter_context(atomic())
        self._helper, self._rest, self._ended = LayerHelper("switch", self._name), None, False
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        self._helper = None
        return bool(self._undo.__exit__(kind, error, traceback))

    def case(self, condition: Variable) -> AbstractContextManager[None]:
        """Within it, layers write into the block for this condition, if none before it holds."""
        with at_users_line("layers.Switch"):
            helper = self._inside("case")
            one_boolean("the condition of a case is", condition)
        return self._branch(*self._tests(helper, condition))

    @layer
    def _tests(self, helper: LayerHelper, condition: Variable) -> tuple[Variable, Variable]:
        """Whether this block runs, and whether neither it nor one before it does."""
        otherwise = _logical(helper, "logical_not", X=condition)
        if self._rest is None:
            return condition, otherwise
        return _logical(helper, "logical_and", X=self._rest, Y=condition), _logical(helper, "logical_and", X=self._rest, Y=otherwise)

    def default(self) -> AbstractContextManager[None]:
        """Within it, layers write into the block for the case that no condition holds."""
        with at_users_line("layers.Switch"):
            self._inside("default")
            if self._rest is None:
                raise InvalidValue("there should be at least one condition: default comes after the cases")
        return self._branch(self._rest, None)

    def _inside(self, what: str) -> LayerHelper:
        if self._helper is None:
            raise InvalidValue(f"{what} should be called inside with: `with Switch() as switch`")
        if self._ended:
            raise InvalidValue(f"{what} comes after default, where no condition is left")
        return self._helper

    @contextmanager
    def _branch(self, test: Variable, rest: Variable | None) -> Iterator[None]:
        assert self._helper is not None
        main = self._helper.main
        around = main.current_block()
        with atomic():
            with new_block(main) as block:
                yield
            append_holder(around, "conditional_block", [test], {"sub_block": block}, attrs={"is_scalar_condition": True})
        self._rest, self._ended = rest, rest is None


def _logical(helper: LayerHelper, op_type: str, **inputs: Variable) -> Variable:
    out = helper.append(op_type, inputs)
    out.stop_gradient = True
    return out
