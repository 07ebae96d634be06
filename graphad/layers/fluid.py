"""Fluid's older classes: control flow in ``with`` blocks (``While``, ``IfElse``, ``Switch``) and ``StaticRNN``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.arrays import fresh_array
from graphad.layers.blocks import append_holder, atomic, new_block, overwrite, touched_outside
from graphad.layers.helper import LayerHelper, layer
from graphad.layers.values import constant, copied, described, one_boolean, stopped_unless_float
from graphad.program import TENSOR, Block, Variable, default_main_program
from graphad.program.source import at_users_line
from graphad.types import TensorType, checked_shape

# -- fluid blocks ----------------------------------------------------------------------------------
# Fluid's control flow in ``with`` blocks: ``While``, ``IfElse``, ``Switch``.


class While:
    """A loop over a block, which runs again and again while ``cond`` holds and has to write ``cond`` again.

    Args:
        cond: a boolean Variable of one element.
        is_test: say that no gradient will be requested.

    Raises:
        TypeError: ``cond`` is not a Variable.
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
            # When the block is complete, since any of its layers may write the condition.
            with at_users_line("layers.While"):
                if self.cond.name not in touched_outside([block]).writes:
                    raise InvalidValue(f"the block does not write the condition {self.cond.name!r}, so the loop would never end")
            append_holder(around, "while", [self.cond], {"sub_block": block}, attrs={"is_test": self.is_test})
        self._written = True


class IfElse:
    """Two blocks, each for some of the rows of a batch: ``true_block`` for those where ``cond`` holds, ``false_block`` for the others.

    A block that gets no rows is not run, except for the first one where the batch has none.

    Args:
        cond: a boolean Variable of shape [N, 1], one element a row.

    Raises:
        TypeError: ``cond``, an input or an output is not a Variable.
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
            # As before the block: after an error there are no parts that its operators would have made.
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
        read_names = touched_outside([block]).reads
        parts_read = [parts[side] for _, parts in self._parts.values() if parts[side].name in read_names]
        # The second block runs where its part has rows; the first one also where the batch is empty, since one has to run for the outputs
        # to have a shape.
        if side:
            condition, is_scalar = parts_read[0] if parts_read else self._split(self.cond)[side], False
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
        # Split once for all reads, unless an operator after the split has written x.
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
            # It belongs to the block around: what a block declares is not seen outside.
            variable = self._around.create_var(self._generate("out"))
            self._around.program.current_block().append_op("assign", {"X": out}, {"Out": variable})
            self._outputs[self._side].append(stopped_unless_float(variable))

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
            return [self._merged(true_out, false_out) for true_out, false_out in zip(*self._outputs, strict=True)]

    def _merged(self, ours: Variable, theirs: Variable) -> Variable:
        block, name = self._around.program.current_block(), self._generate("tmp")
        block.append_op("merge_lod_tensor", {"Mask": self.cond, "InTrue": ours, "InFalse": theirs}, {"Out": name})
        return stopped_unless_float(block.var(name))


def _one_boolean_a_row(cond: object) -> Variable:
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
        TypeError: a condition is not a Variable.
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
        # Later cases run where no test was true so far; after the default there are none.
        self._rest, self._ended = rest, rest is None


def _logical(helper: LayerHelper, op_type: str, **inputs: Variable) -> Variable:
    out = helper.append(op_type, inputs)
    out.stop_gradient = True
    return out


# -- static rnn ------------------------------------------------------------------------------------
# ``StaticRNN``: a block that runs for each step of a sequence of known length, as a ``while`` over an index.
#
# with rnn.step():                    xs = x taken apart; ys = []; i = 0; h = h0; go = i < T
#     x_t = rnn.step_input(x)         while(go) {
#     h = rnn.memory(h0)         ⇒        new = tanh(xs[i] + h); ys[i] = new
#     new = tanh(x_t + h)                 h = new; i = i + 1; go = i < T }
#     ...                             y = ys stacked: [T, ...]

_SCALAR = TensorType((1,), "int64")


@dataclass
class _Step:
    """The state of the block while it is written."""

    name: str
    around: Block
    block: Block
    index: Variable
    length: int = -1
    sources: dict[str, Variable] = field(default_factory=dict)  # step input -> the whole sequence
    memories: dict[str, tuple[Variable, Variable | None]] = field(default_factory=dict)  # memory, its next value
    outputs: list[Variable] = field(default_factory=list)  # arrays

    def steps(self) -> Variable:
        """How many steps there are: a constant, or the first extent of the first sequence where only a run knows it."""
        if self.length >= 0:
            return constant(self.around, f"{self.name}.tmp", self.length, _SCALAR)
        return self._extent(next(iter(self.sources.values())), 0)

    def numbers(self, x: Variable, axis: int) -> Variable:
        """The numbers of the steps of sequences, from 0, int64 ``[time, 1]``; computed before the loop."""
        count = x.shape[axis]
        if count >= 0:
            values = {"shape": [count, 1], "dtype": "int64", "int64_values": list(range(count))}
            return self.append(self.around, "tmp", "assign_value", {}, values)
        zero, one = (constant(self.around, f"{self.name}.tmp", bound, _SCALAR) for bound in (0, 1))
        row = self.append(self.around, "tmp", "range", {"Start": zero, "End": self._extent(x, axis), "Step": one})
        return self.append(self.around, "tmp", "reshape", {"X": row}, {"shape": [-1, 1]})

    def _extent(self, x: Variable, axis: int) -> Variable:
        """An extent that only a run knows, int64 ``[1]``."""
        extents = self.append(self.around, "tmp", "shape", {"Input": x})
        one = self.append(self.around, "tmp", "slice", {"Input": extents}, {"axes": [0], "starts": [axis], "ends": [axis + 1]})
        return self.append(self.around, "tmp", "cast", {"X": one}, {"out_dtype": "int64"})

    def append(self, block: Block, key: str, op_type: str, inputs: dict[str, Any], attrs: dict[str, Any] | None = None) -> Variable:
        """Append an operator with one fresh output; return that."""
        name = block.program.names.generate(f"{self.name}.{key}")
        block.append_op(op_type, inputs, {"Out": name}, attrs)
        return stopped_unless_float(block.var(name))


class StaticRNN:
    """A network that is run for each step of a sequence; ``memory`` passes values from one step to the next.

    Raises:
        TypeError: what is given is not a Variable.
        ShapeError: a memory's next value has another shape or dtype.
        ValueError: the step inputs have no steps, or not as many; something is done inside or outside of ``step`` that has
            its place elsewhere.

    >>> import graphad as ga
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[3, -1, 2])
    ...     rnn = ga.layers.StaticRNN()
    ...     with rnn.step():
    ...         word = rnn.step_input(x)
    ...         total = rnn.memory(shape=[-1, 2], batch_ref=word)
    ...         rnn.update_memory(total, total + word)
    ...         rnn.step_output(total + word)
    ...     sums = rnn()
    >>> sums.shape
    (3, -1, 2)
    >>> ga.Executor().run(program, feed={"x": [[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]}, fetch_list=[sums])
    [array([[[ 1., 2.]], [[ 4., 6.]], [[ 9., 12.]]], dtype=float32)]
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._step: _Step | None = None
        self._results: list[Variable] | None = None

    # -- the block -------------------------------------------------------------------------------

    @contextmanager
    def step(self) -> Iterator[None]:
        """Within it, layers write into the block that is run for each step; an error takes it back."""
        with at_users_line("layers.StaticRNN"):
            if self._results is not None or self._step is not None:
                raise InvalidValue("the network has its step already")
        main = default_main_program()
        outer_block = main.current_block()
        try:
            with atomic():
                name = self._name or main.names.generate("static_rnn")
                # An array of outputs is written at the counter; block, counter and memories are one loop when the step ends.
                index = constant(outer_block, f"{name}.tmp", 0, _SCALAR)
                with new_block(main) as block:
                    step = self._step = _Step(name, outer_block, block, index)
                    yield
                    condition = self._complete(step)
                result_names = [*step.memories, index.name, *(array.name for array in step.outputs)]
                append_holder(outer_block, "while", [condition], {"sub_block": block}, result_names, attrs={"is_test": False})
                results = [self._stacked(step, array) for array in step.outputs]
        finally:
            self._step = None
        self._results = results

    def _complete(self, step: _Step) -> Variable:
        """Pass the memories on, count, and compute whether there is another step; return the condition."""
        with at_users_line("layers.StaticRNN"):
            if not step.sources:
                raise InvalidValue("there is no step_input, so nothing says how many steps there are")
            if not step.outputs:
                raise InvalidValue("RNN has no output")
            memory_names = [memory.name for memory, new in step.memories.values() if new is None]
            if memory_names:
                raise InvalidValue(f"no update_memory says what the memory {memory_names[0]!r} is in the next step")
        length = step.steps()
        # Computed before the first step, and again at the end of each.
        condition = step.append(step.around, "tmp", "less_than", {"X": step.index, "Y": length})
        overwrite(step.block, f"{step.name}.tmp", [(memory, new) for memory, new in step.memories.values() if new is not None])
        step.block.append_op("increment", {"X": step.index}, {"Out": step.index}, {"step": 1.0})
        step.block.append_op("less_than", {"X": step.index, "Y": length}, {"Out": condition})
        return condition

    def _stacked(self, step: _Step, array: Variable) -> Variable:
        """The outputs of all steps in one tensor."""
        out = step.append(step.around, "tmp", "tensor_array_to_tensor", {"X": array}, {"axis": 0, "use_stack": True})
        if out.tensor_type is not None:
            out.declare((step.length, *out.shape[1:]), out.dtype)
        return out

    def _inside(self, method: str) -> _Step:
        if self._step is None or self._step.around.program.current_block() is not self._step.block:
            raise InvalidValue(f"You must invoke {method} in rnn block")
        return self._step

    # -- what the block reads --------------------------------------------------------------------

    def step_input(self, x: Variable) -> Variable:
        """The step's part of a sequence.

        Args:
            x: of shape ``[T, ...]``; T is the same for all step inputs. Where none of them knows it, the first one says it in each run.

        Returns:
            A Variable of shape ``x.shape[1:]``.
        """
        with at_users_line("layers.StaticRNN"):
            step = self._inside("step_input")
            length = _checked_length(x, step.length)
            if x.block is step.block:
                raise InvalidValue(f"{x!r} is made in the step; step_input takes a sequence that is made before it")
        # Taken apart once, before the loop.
        steps = step.append(step.around, "steps", "tensor_to_tensor_array", {"X": x}, {"axis": 0, "use_stack": True})
        part = step.append(step.block, "tmp", "read_from_array", {"X": steps, "I": step.index})
        step.length, step.sources[part.name] = length, x
        return part

    def memory(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        batch_ref: Variable | None = None,
        init_value: float = 0.0,
        init_batch_dim_idx: int = 0,
        ref_batch_dim_idx: int = 1,
    ) -> Variable:
        """A value that each step passes to the next one (see ``update_memory``).

        Args:
            init: what the first step finds, or None.
            shape: without ``init``, its shape; the extent at ``init_batch_dim_idx`` is that of ``batch_ref``.
            batch_ref: a step input, which stands for its whole sequence, or a Variable from outside with the batch at
                ``ref_batch_dim_idx``. The memory has its dtype.
            init_value: what ``shape`` is filled with.
        """
        with at_users_line("layers.StaticRNN"):
            step = self._inside("memory")
            if init is not None and not isinstance(init, Variable):
                raise InvalidType(f"init is a Variable, not {init!r}")
            if init is None and (shape is None or not isinstance(batch_ref, Variable)):
                raise InvalidValue("if init is None, memory at least need shape and batch_ref")
        if init is not None:
            var = copied(step.around, f"{step.name}.mem", init)
        else:
            assert shape is not None and batch_ref is not None
            # The reference may be a step's part; outside of the loop it is the sequence that has the batch.
            source = step.sources.get(batch_ref.name, batch_ref)
            with at_users_line("layers.StaticRNN"):
                extents = _memory_shape(shape, source, init_batch_dim_idx, ref_batch_dim_idx)
            var = _filled(step, extents, source, init_value, init_batch_dim_idx, ref_batch_dim_idx)
        step.memories[var.name] = (var, None)
        return var

    # -- what the block gives --------------------------------------------------------------------

    def update_memory(self, mem: Variable, new: Variable) -> None:
        """Say what a memory is in the next step: a Variable of the same shape and dtype."""
        with at_users_line("layers.StaticRNN"):
            step = self._inside("update_memory")
            if not isinstance(mem, Variable) or not isinstance(new, Variable):
                raise InvalidType(f"update_memory takes two Variables, not {mem!r} and {new!r}")
            if mem.name not in step.memories:
                raise InvalidValue(f"{mem.name!r} is no memory of this network")
            if step.memories[mem.name][1] is not None:
                raise InvalidValue(f"the memory {mem.name!r} is updated twice")
            if mem.tensor_type is not None and new.tensor_type not in (None, mem.tensor_type):
                raise ShapeError(f"the memory {mem.name!r} is {described(mem)}, but its next value {new.name!r} is {described(new)}")
        step.memories[mem.name] = (mem, new)

    def step_output(self, o: Variable) -> None:
        """Say what a step gives; the network gives those of all steps, stacked along a new first axis."""
        with at_users_line("layers.StaticRNN"):
            step = self._inside("step_output")
            if not isinstance(o, Variable):
                raise InvalidType(f"step_output takes a Variable, not {o!r}")
        # Made before the loop, and written to at each step: its rows are stacked when the loop has ended.
        array = stopped_unless_float(fresh_array(step.around, f"{step.name}.out", o))
        step.block.append_op("write_to_array", {"X": o, "I": step.index}, {"Out": array})
        step.outputs.append(array)

    def output(self, *outputs: Variable) -> None:
        """``step_output`` for each."""
        for variable in outputs:
            self.step_output(variable)

    def __call__(self) -> Any:
        """The outputs of all steps, of shape ``[T, ...]``: one Variable, or a list if there are several."""
        with at_users_line("layers.StaticRNN"):
            if self._results is None:
                raise InvalidValue("RNN output can only be retrieved after rnn block")
        return self._results[0] if len(self._results) == 1 else list(self._results)


def _checked_length(x: object, known: int) -> int:
    if not isinstance(x, Variable):
        raise InvalidType(f"step_input takes a Variable, not {x!r}")
    length = x.shape[0] if x.shape else 0
    if length == -1:
        return known
    if length < 1 or known not in (-1, length):
        expected = "T of 1 or more" if known < 0 else f"T = {known}, as the step input before"
        raise InvalidValue(f"Static RNN only take fix seq_len input: {x.name!r} is {described(x)}; [T, ...] with {expected} is expected")
    return length


def _memory_shape(shape: Any, ref: Variable, at: int, ref_at: int) -> list[int]:
    """The shape of a memory with the batch's extent in it, -1 if that is not known."""
    extents = list(checked_shape(shape))
    if not 0 <= at < len(extents) or not 0 <= ref_at < len(ref.shape):
        raise InvalidValue(f"axis {at} of the memory {extents} is to be axis {ref_at} of {ref.name!r}, {described(ref)}: there is none")
    extents[at] = ref.shape[ref_at]
    if any(extent == -1 for axis, extent in enumerate(extents) if axis != at):
        raise InvalidValue(f"the shape {extents} of a memory is known except for axis {at}, the batch")
    return extents


def _filled(step: _Step, shape: list[int], ref: Variable, value: float, at: int, ref_at: int) -> Variable:
    """A tensor of one value; an unknown batch is taken from a tensor when the program runs."""
    outer_block = step.around
    if -1 not in shape:
        return step.append(outer_block, "mem", "fill_constant", {}, {"shape": shape, "value": float(value), "dtype": ref.dtype})
    # Cut to extent 1 along all axes but the batch, filled, reshaped and expanded: the extent of the batch never has to be known here.
    axes = [axis for axis in range(len(ref.shape)) if axis != ref_at]
    bounds = {"axes": axes, "starts": [0] * len(axes), "ends": [1] * len(axes)}
    row = step.append(outer_block, "tmp", "slice", {"Input": ref}, bounds)
    row = step.append(outer_block, "tmp", "fill_any_like", {"X": row}, {"value": float(value)})
    row = step.append(outer_block, "tmp", "reshape", {"X": row}, {"shape": [-1 if axis == at else 1 for axis in range(len(shape))]})
    return step.append(outer_block, "mem", "expand_v2", {"X": row}, {"shape": shape})
