"""``StaticRNN``: a block that runs for each step of a sequence of known length, as a ``while`` over an index.

with rnn.step():                    xs = x taken apart; ys = []; i = 0; h = h0; go = i < T
    x_t = rnn.step_input(x)         while(go) {
    h = rnn.memory(h0)         ⇒        new = tanh(xs[i] + h); ys[i] = new
    new = tanh(x_t + h)                 h = new; i = i + 1; go = i < T }
    ...                             y = ys stacked: [T, ...]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.arrays import fresh_array
from graphad.layers.blocks import append_holder, atomic, new_block, overwrite
from graphad.layers.values import constant, copied, described, stopped_unless_float
from graphad.program import Block, Variable, default_main_program
from graphad.program.source import at_users_line
from graphad.types import TensorType, checked_shape

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

    def append(self, block: Block, key: str, op_type: str, inputs: dict[str, Any], attrs: dict[str, Any] | None = None) -> Variable:
        """Append an operator with one fresh output; return that."""
        name = block.program.names.generate(f"{self.name}.{key}")
        block.append_op(op_type, inputs, {"Out": name}, attrs)
        return stopped_unless_float(block.var(name))


class StaticRNN:
    """A network that is run for each step of a sequence; ``memory`` passes values from one step to the next.

    Raises:
        TypeError: what is given is no Variable.
        ShapeError: a memory's next value has another shape or dtype.
        ValueError: the step inputs have no known length, or not one; something is done inside or outside of ``step`` that has
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
        around = main.current_block()
        try:
            with atomic():
                name = self._name or main.names.generate("static_rnn")
                index = constant(around, f"{name}.tmp", 0, _SCALAR)
                with new_block(main) as block:
                    step = self._step = _Step(name, around, block, index)
                    yield
                    condition = self._complete(step)
                carried = [*step.memories, index.name, *(array.name for array in step.outputs)]
                append_holder(around, "while", [condition], {"sub_block": block}, carried, attrs={"is_test": False})
                results = [self._stacked(step, array) for array in step.outputs]
        finally:
            self._step = None
        self._results = results

    def _complete(self, step: _Step) -> Variable:
        """Hand the memories on, count, and ask whether there is another step; return the condition."""
        with at_users_line("layers.StaticRNN"):
            if step.length < 0:
                raise InvalidValue("there is no step_input, so nothing says how many steps there are")
            if not step.outputs:
                raise InvalidValue("RNN has no output")
            still = [memory.name for memory, new in step.memories.values() if new is None]
            if still:
                raise InvalidValue(f"no update_memory says what the memory {still[0]!r} is in the next step")
        length = constant(step.around, f"{step.name}.tmp", step.length, _SCALAR)
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
            x: of shape ``[T, ...]``; T is known, and the same for all step inputs.

        Returns:
            A Variable of shape ``x.shape[1:]``.
        """
        with at_users_line("layers.StaticRNN"):
            step = self._inside("step_input")
            length = _checked_length(x, step.length)
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
            whole = step.sources.get(batch_ref.name, batch_ref)
            with at_users_line("layers.StaticRNN"):
                extents = _memory_shape(shape, whole, init_batch_dim_idx, ref_batch_dim_idx)
            var = _filled(step, extents, whole, init_value, init_batch_dim_idx, ref_batch_dim_idx)
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
        array = stopped_unless_float(fresh_array(step.around, f"{step.name}.out", o))
        step.block.append_op("write_to_array", {"X": o, "I": step.index}, {"Out": array})
        step.outputs.append(array)

    def output(self, *outputs: Variable) -> None:
        """``step_output`` for each."""
        for each in outputs:
            self.step_output(each)

    def __call__(self) -> Any:
        """The outputs of all steps, of shape ``[T, ...]``: one Variable, or a list if there are several."""
        with at_users_line("layers.StaticRNN"):
            if self._results is None:
                raise InvalidValue("RNN output can only be retrieved after rnn block")
        return self._results[0] if len(self._results) == 1 else list(self._results)


def _checked_length(x: Any, known: int) -> int:
    if not isinstance(x, Variable):
        raise InvalidType(f"step_input takes a Variable, not {x!r}")
    length = x.shape[0] if x.shape else -1
    if length < 1 or known not in (-1, length):
        wanted = "a known T" if known < 0 else f"T = {known}, as the step input before"
        raise InvalidValue(f"Static RNN only take fix seq_len input: {x.name!r} is {described(x)}; [T, ...] with {wanted} is expected")
    return length


def _memory_shape(shape: Any, ref: Variable, at: int, ref_at: int) -> list[int]:
    """The shape of a memory with the batch's extent in it, -1 if that is not known."""
    extents = list(checked_shape(shape))
    if not 0 <= at < len(extents) or not 0 <= ref_at < len(ref.shape):
        raise InvalidValue(f"axis {at} of the memory {extents} is to be axis {ref_at} of {ref.name!r}, {described(ref)}: there is none")
    extents[at] = ref.shape[ref_at]
    if any(extent == -1 for axis, extent in enumerate(extents) if axis != at):
        raise InvalidValue(f"the shape {extents} of a memory is known but for axis {at}, the batch")
    return extents


def _filled(step: _Step, shape: list[int], ref: Variable, value: float, at: int, ref_at: int) -> Variable:
    """A tensor of one value; an unknown batch is taken from a tensor when the program runs."""
    around = step.around
    if -1 not in shape:
        return step.append(around, "mem", "fill_constant", {}, {"shape": shape, "value": float(value), "dtype": ref.dtype})
    others = [axis for axis in range(len(ref.shape)) if axis != ref_at]
    cut = {"axes": others, "starts": [0] * len(others), "ends": [1] * len(others)}
    row = step.append(around, "tmp", "slice", {"Input": ref}, cut)
    row = step.append(around, "tmp", "fill_any_like", {"X": row}, {"value": float(value)})
    row = step.append(around, "tmp", "reshape", {"X": row}, {"shape": [-1 if axis == at else 1 for axis in range(len(shape))]})
    return step.append(around, "mem", "expand_v2", {"X": row}, {"shape": shape})
