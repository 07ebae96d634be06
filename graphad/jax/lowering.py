"""Programs as functions of jax's arrays: operators are traced, loops become ``lax.scan`` or ``lax.while_loop``, branches ``lax.cond``.

    while(X=[h, w], Condition=c) -> (Out=h, StepScopes=s)       lax.scan(body, (h, c), length=n) -> h, s = rows of what it keeps
    while_grad(StepScopes=s, ...)                          ⇒    lax.scan(gradient, dh, s, reverse=True)
    if_else(Cond=c) -> (Out=y)                                  lax.cond(c, one, other) -> y

How often a loop runs is forecast (``forecast``). Where that fails it is a ``lax.while_loop``; then what its gradient reads needs a bound,
which the user gives. A block is traced once: what it makes says which values a loop carries, with which types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import jaxpr_as_fun

from graphad.contexts import binding
from graphad.errors import ExecutionError, GraphadError, NotLowered
from graphad.execution.names import (
    Frame,
    Frames,
    GradientBlock,
    Layout,
    blocks_of,
    depth,
    home,
    saved_names,
    writes_old_array,
    written,
)
from graphad.execution.refusals import failure, missing_value, why_not
from graphad.jax.bounded import Bounded, as_bounded
from graphad.jax.forecast import UNKNOWN, Forecast, TooLong, outlines
from graphad.jax.misfits import described, misfit, named, result_types, why_not_lowered
from graphad.jax.operators import LOWERED, run
from graphad.jax.randoms import draw
from graphad.jax.registry import WATCHER, is_traced
from graphad.jax.stacks import Buffer, Either, Kept, Stack, TapeBuffer, as_buffer, as_tape_buffer, zeros_of
from graphad.jax.xla_array import Known
from graphad.ops import REGISTRY, ControlDef, LoopDef, OpDef
from graphad.ops.aggregates import Aggregate, StepScopes, Tape, TensorArray
from graphad.ops.definition import Inputs, Outputs
from graphad.program import EMPTY, Block, Operator, Program, in_own_form, located, random_streams
from graphad.program.block import check_runnable
from graphad.types import TENSOR_ARRAY, Tensor

UNROLLED = 1  # iterations of a loop that is written out
MOST_UNROLLED = 256  # iterations of a loop whose values change their types, so that it has to be written out

Place = tuple[int, str]


class Untyped(Exception):
    """The values of a loop do not keep their types."""


@dataclass
class Options:
    """The user's options for lowering a program.

    Attributes:
        max_trips: iterations that a loop may take whose trip count is not known and whose gradient, or whose arrays, need one.
        reinitialize: run initialization operators although what they write has a value.
        check_finite: fail at the first operator that makes a nan or an infinity.
    """

    max_trips: int | None = None
    reinitialize: bool = False
    check_finite: bool = False


class Lowering:
    """One tracing of a program.

    Attributes:
        failures: the messages of what operators refuse, by their number minus one.
        failed: the number of the first that was refused, 0 if nothing was.
        key: the numbers that random streams begin with.
        sides: the sides of branches that are being lowered, the innermost last.
        around: of the loops of XLA's that are being lowered, how many frames are around each.
        counted: of the same loops the arrays for which each has found room, by their names in its block.
    """

    def __init__(self, program: Program, options: Options, key: Tensor = None) -> None:
        self.written = program
        program = in_own_form(program)
        self.program, self.block = program, program.global_block()
        self.options, self.key = options, key
        self.saved = saved_names(program)
        self.streams: dict[Operator, str] | None = None
        self.iterations: list[Tensor] = []
        self.around: list[int] = []
        self.counted: list[dict[str, int]] = []
        self.failures: list[str] = []
        self.failed: Tensor = np.int32(0)
        self.bounds: dict[Operator, int | None] = {}
        self.capacity = 1
        self.sides: list[int] = []
        self.op: Operator | None = None

    # -- running ---------------------------------------------------------------------------------

    def run(self, frame: Frame) -> Frame:
        """Run block 0 on the values that there are; the same frame with those that it makes."""
        with binding(WATCHER, self):
            self.body(self.block, (frame,), (self.block.vars,))
        return frame

    def note(self, wrong: Tensor, message: str) -> None:
        """If ``wrong`` holds when the program runs, the operator that is being lowered fails with the message."""
        op = self.op
        assert op is not None
        self.fail_if(wrong, located(f"operator {op.type!r} failed: {message}", op.source))

    def fail_if(self, wrong: Tensor, text: str) -> None:
        """If ``wrong`` holds when the program runs, the run fails with the text."""
        if not is_traced(wrong):
            if not np.asarray(wrong).any():
                return
            # In a branch or a loop it may be that this never runs.
            if not self.sides and not self.around:
                raise ExecutionError(text)
        # A compiled program cannot raise. It carries the number of the first refusal through all loops and branches, and the executor
        # raises after the run.
        self.failures.append(text)
        number = np.int32(len(self.failures))
        self.failed = jnp.where((jnp.asarray(self.failed) == 0) & jnp.any(wrong), number, self.failed)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Within it, an error puts the lowering's position (loops, branches, the operator) back to what it was before."""
        stacks: tuple[list[Any], ...] = (self.iterations, self.around, self.counted, self.sides)
        lengths, failed, op = [len(stack) for stack in stacks], self.failed, self.op
        try:
            yield
        except Exception:
            for stack, length in zip(stacks, lengths, strict=True):
                del stack[length:]
            self.failed, self.op = failed, op
            raise

    def stream(self, op: Operator) -> str:
        """The name of the random stream of an operator."""
        if self.streams is None:
            self.streams = random_streams(self.program)
        return self.streams[op]

    # -- operators -------------------------------------------------------------------------------

    def body(self, block: Block, frames: Frames, layout: Layout) -> None:
        """The operators of a block."""
        for op in block.ops:
            self.operator(op, frames, layout)

    def operator(self, op: Operator, frames: Frames, layout: Layout) -> None:
        """One operator."""
        definition = REGISTRY.get(op.type)
        if definition is None:
            raise NotLowered(located(f"operator {op.type!r} is not registered, so it cannot be lowered: {op!r}", op.source))
        if isinstance(definition, ControlDef):
            check_runnable(op, definition)
            self.op = op
            self.control(op, definition, frames, layout)
            return
        if reason := why_not(op, definition):
            raise NotLowered(located(reason, op.source))
        # An initialization whose result is in the state has run before.
        runs_once = op.attrs.get("run_once") and not self.options.reinitialize
        if not (runs_once and all(name in frames[0] for name in op.output_names())):
            self.plain(op, definition, frames, layout)

    def plain(self, op: Operator, definition: OpDef, frames: Frames, layout: Layout) -> None:
        """An operator without blocks."""
        inputs = self.inputs(op, definition, frames, layout)
        attrs = definition.own_attrs(op.attrs)
        slots = [slot for slot, names in op.outputs.items() if any(n != EMPTY for n in names)]
        before, self.op = self.op, op
        try:
            results = self.made(op, definition, inputs, attrs, slots)
        except NotLowered as error:
            # A form says why, and knows of no line.
            raise error if "written at" in str(error) else NotLowered(located(f"operator {op.type!r}: {error}", op.source)) from error
        except ExecutionError:
            raise
        except GraphadError as error:
            results = self.failed_results(definition, inputs, attrs, slots, failure(op, named(op, inputs), error))
        except Known as error:
            # A kernel needed a number that is known only when the program runs, such as an extent.
            raise NotLowered(why_not_lowered(op, inputs, f"{error}; XLA compiles for shapes that are known", op.source)) from error
        except Exception as error:
            if reason := misfit(definition, inputs, attrs):  # numpy would not compute it either
                raise failure(op, named(op, inputs), reason) from None
            raise NotLowered(why_not_lowered(op, inputs, f"{type(error).__name__}: {error}", op.source)) from error
        finally:
            self.op = before
        if self.options.check_finite:
            self.check_finite(op, results)
        self.bind(op, results, frames, layout)

    def failed_results(
        self,
        definition: OpDef,
        inputs: Mapping[str, Sequence[Tensor]],
        attrs: Mapping[str, Tensor],
        slots: Sequence[str],
        error: ExecutionError,
    ) -> dict[str, list[Tensor]]:
        """Zeros, as results of an operator that is sure to fail in a branch or a loop, which perhaps never runs; elsewhere the error."""
        try:
            types = result_types(definition, inputs, attrs)
        except GraphadError:
            raise error from None
        is_known = all(slot in types and all(-1 not in type.shape for type in types[slot]) for slot in slots)
        if not is_known or not (self.sides or self.around):
            raise error from None
        self.fail_if(True, str(error))
        return {slot: [jnp.zeros(type.shape, type.dtype) for type in types[slot]] for slot in slots}

    def bind(self, op: Operator, results: Mapping[str, Sequence[Tensor]], frames: Frames, layout: Layout) -> None:
        """The outputs of an operator get values."""
        for slot, values in results.items():
            for name, value in zip(op.outputs[slot], values, strict=True):
                if name == EMPTY:
                    continue
                place = frames[home(layout, name) if len(layout) > 1 else 0]
                if value is None:
                    place.pop(name, None)
                    continue
                place[name] = value
                # Its cotangent, which may begin at an index that is not known, needs the same room.
                if isinstance(value, TensorArray | Buffer):
                    self.capacity = max(self.capacity, _length(value))

    def check_finite(self, op: Operator, results: Mapping[str, Sequence[Tensor]]) -> None:
        """An operator that makes a nan or an infinity fails."""
        for slot, values in results.items():
            for name, value in zip(op.outputs[slot], values, strict=True):
                if isinstance(value, jax.Array | np.ndarray) and np.dtype(value.dtype).kind == "f":
                    text = located(f"operator {op.type!r} made a nan or an infinity in {name!r}", op.source)
                    self.fail_if(~(jnp if is_traced(value) else np).isfinite(value).all(), text)

    def made(self, op: Operator, definition: OpDef, inputs: Inputs, attrs: Mapping[str, Tensor], wanted: Sequence[str]) -> Outputs:
        """Compute the results of an operator, by slot."""
        form = LOWERED.get(op.type)
        if form is not None:
            return form(self, op, inputs, attrs)
        if definition.random:
            return draw(self, op, definition, inputs, attrs, wanted)
        return run(definition, inputs, attrs, wanted)

    def inputs(self, op: Operator, definition: OpDef, frames: Frames, layout: Layout) -> dict[str, list[Tensor]]:
        """The operands of an operator, by slot; None for one without a value, where the operator allows it."""
        slots = dict(op.inputs)
        # In Paddle's form an array is written in place: the old one is read under the name of the output.
        if writes_old_array(op):
            slots["Array"] = op.output("Out")
        partial = definition.partial or writes_old_array(op)
        return {slot: [self.value(op, frames, layout, n, partial) for n in names if n != EMPTY] for slot, names in slots.items()}

    def value(self, op: Operator, frames: Frames, layout: Layout, name: str, partial: bool = False) -> Tensor:
        """The value of a name.

        Raises:
            InvalidValue, NoValue: it has none.
        """
        result = frames[depth(layout, name)].get(name)
        if result is None and name in frames[-1]:
            result = frames[-1][name]
        if result is None and not partial:
            raise missing_value(self.block, name, op)
        return result

    # -- operators with blocks -------------------------------------------------------------------

    def control(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout) -> None:
        """An operator with blocks."""
        if isinstance(definition, LoopDef):
            loop = Loop(self, op, definition, frames, layout)
            loop.gradient() if definition.is_grad else loop.forward()
        elif definition.is_grad:
            self.branch_gradient(op, definition, frames, layout)
        else:
            self.branch(op, definition, frames, layout)

    def truth(self, op: Operator, frames: Frames, layout: Layout, name: str) -> Tensor:
        """A condition: one boolean, known or not."""
        value = self.value(op, frames, layout, name)
        if isinstance(value, Aggregate) or value.size != 1 or np.dtype(value.dtype) != bool:
            kind = repr(value) if isinstance(value, Aggregate) else f"{value.dtype}{list(value.shape)}"
            raise ExecutionError(located(f"operator {op.type!r}: condition {name!r} is one boolean, but it is {kind}", op.source))
        return value.reshape(()) if is_traced(value) else bool(value.reshape(-1)[0])

    def taken(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout) -> Tensor:
        """The number of the block that runs, or a traced condition."""
        tests = op.input(definition.condition)
        if not tests:
            return 0
        if not op.attrs.get("is_scalar_condition", True):
            return self.not_empty([self.value(op, frames, layout, name) for name in tests])
        truth = self.truth(op, frames, layout, tests[0])
        if not is_traced(truth):
            return 0 if truth else 1
        # What a loop keeps of each iteration is no longer known in its gradient; that a branch always went one way is, by the tape it left.
        operands = [frames[depth(layout, name)].get(name) for names in op.inputs.values() for name in names if name != EMPTY]
        return next((only for value in operands if isinstance(value, Either) and (only := value.only) is not None), truth)

    def not_empty(self, values: Sequence[Tensor]) -> Tensor:
        """The block that runs where all values have elements: its number, or a traced condition."""
        has_elements = all(np.prod(value.shape) for value in values)
        counts = [value.count > 0 for value in values if isinstance(value, Bounded)]
        return jnp.all(jnp.stack(counts)) if has_elements and counts else 0 if has_elements else 1

    def branch(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout) -> None:
        """``if_else``, ``conditional_block``, ``net``."""
        blocks: list[Block] = [op.attrs[name] for name in definition.blocks]
        choice = self.taken(op, definition, frames, layout)
        keeps = any(block.idx in self.saved for block in blocks)

        # As a function of the frames, since lax.cond traces both branches, each on frames of its own.
        def one(i: int, local: Frames) -> dict[str, Tensor]:
            if i >= len(blocks):
                return {}
            inner: Frames = ({}, *local)
            names = (blocks[i].vars, *layout)
            with self.on_side(i):
                self.body(blocks[i], inner, names)
            values = {n: inner[depth(names, n)].get(n) for n in sorted(self.saved.get(blocks[i].idx, ()))}
            return {n: v for n, v in values.items() if v is not None}

        if isinstance(choice, int):
            residuals = Kept([one(choice, frames) if i == choice else None for i in range(2)])
            self.note_side(choice, op.output("Out") if len(blocks) > 1 else (), frames, layout)
        else:
            residuals = self.decided(op, choice, frames, one)
        for name in op.output(definition.scopes) if keeps else ():
            frames[depth(layout, name)][name] = residuals

    @contextmanager
    def on_side(self, i: int) -> Iterator[None]:
        """While one side of a branch is lowered."""
        self.sides.append(i)
        yield
        self.sides.pop()

    def note_side(self, i: int, names: Sequence[str], frames: Frames, layout: Layout) -> None:
        """The tapes that the only side wrote which can run."""
        for name in names:
            frame = frames[depth(layout, name)] if name != EMPTY else {}
            if isinstance(frame.get(name), Tape):
                frame[name] = Either([frame[name] if i == k else None for k in range(2)])

    def gradient_block(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout, which: int) -> GradientBlock[Tensor]:
        def value(name: str) -> Tensor:
            result = frames[depth(layout, name)].get(name)
            return frames[-1].get(name) if result is None else result

        return GradientBlock(op, definition, which, frames, layout, self.saved, value, self.body)

    def branch_gradient(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout) -> None:
        """The gradient of the branch that ran."""
        choice = self.taken(op, definition, frames, layout)
        sides = [self.gradient_block(op, definition, frames, layout, i) for i in range(len(definition.blocks))]
        residuals = sides[0].kept
        if not isinstance(residuals, Kept):
            raise NotLowered(located(f"operator {op.type!r} reads residuals that no branch kept", op.source))
        # Only one branch could run in the forward, so its gradient is the one that is needed.
        if not isinstance(choice, int) and residuals.only is not None:
            choice = residuals.only

        def one(i: int, local: Frames) -> dict[str, Tensor]:
            if i < len(sides):
                with self.on_side(i):
                    sides[i].write(sides[i].results(residuals.blocks[i] or {}, sides[i].cotangents), local)
            return {}

        if isinstance(choice, int):
            one(choice, frames)
            self.note_side(choice, op.output("X@GRAD") if len(sides) > 1 else (), frames, layout)
        else:
            self.decided(op, choice, frames, one)

    def decided(self, op: Operator, test: Tensor, frames: Frames, one: Callable[[int, Frames], dict[str, Tensor]]) -> Kept:
        """Both branches under ``lax.cond``: what they set becomes what the condition chooses."""

        def side(i: int) -> Callable[[], Tensor]:
            def traced() -> Tensor:
                local: Frames = tuple(dict(frame) for frame in frames)
                before, self.failed = self.failed, jnp.asarray(self.failed)
                residuals = one(i, local)
                updates = {
                    (at, name): value
                    for at, frame in enumerate(local)
                    for name, value in frame.items()
                    if value is not frames[at].get(name)
                }
                fault, self.failed = self.failed, before
                return updates, residuals, jnp.asarray(fault)

            return traced

        # Both sides are traced before lax.cond is, as it takes two functions of one type: what only one of them writes is known then.
        stages = [Stage(side(i)) for i in range(2)]
        (set1, residuals1, _), (set2, residuals2, _) = (stage.shapes for stage in stages)
        places = list(dict.fromkeys([*set1, *set2]))
        types = {
            place: _unified(op, place[1], [_or_old(updates, place, frames) for updates in (set1, set2)], self.capacity) for place in places
        }

        def ends(i: int) -> Tensor:
            updates, residuals, fault = stages[i]()
            values = {place: _on_side(i, _or_old(updates, place, frames), types[place]) for place in places}
            # Only one side keeps residuals, but both have to return them: zeros, which nothing reads, stand for the other's.
            side_residuals = [residuals if i == k else jax.tree.map(_zeros, shapes) for k, shapes in enumerate((residuals1, residuals2))]
            return values, side_residuals, fault

        new_values, residuals, self.failed = lax.cond(test, lambda: ends(0), lambda: ends(1))
        for (at, name), value in new_values.items():
            frames[at][name] = value
        return Kept(residuals)


def _or_old(changed: Mapping[Place, Tensor], place: Place, frames: Frames) -> Tensor:
    at, name = place
    return changed[place] if place in changed else frames[at].get(name)


# -- staging -------------------------------------------------------------------------------------


class Stage:
    """A function of trees of arrays, traced once: its results' types are in ``shapes``, and a call makes the same operations.

    What a tree has besides arrays (known indices, missing values) is found by the tracing, and the same at each call.
    """

    def __init__(self, function: Callable[..., Tensor], *examples: Tensor) -> None:
        leaves, tree = jax.tree.flatten(examples)
        trees: list[Tensor] = []

        # Traced, and not run, so that shapes are known before anything is compiled. A jaxpr has a flat list of results: their structure is
        # noted.
        def flat(*values: Tensor) -> Tensor:
            result = function(*jax.tree.unflatten(tree, values))
            parts, shape = jax.tree.flatten(result)
            trees.append(shape)
            return [jnp.asarray(part) for part in parts]

        specs = [jax.ShapeDtypeStruct(np.shape(leaf), np.dtype(leaf.dtype)) for leaf in leaves]
        jaxpr, shapes = jax.make_jaxpr(flat, return_shape=True)(*specs)
        self.result = trees[-1]
        self.call = jaxpr_as_fun(jaxpr)
        self.shapes = jax.tree.unflatten(self.result, shapes)

    def __call__(self, *args: Tensor) -> Tensor:
        return jax.tree.unflatten(self.result, self.call(*jax.tree.leaves(args)))


def _zeros(spec: Tensor) -> Tensor:
    return jnp.zeros(spec.shape, spec.dtype)


def _spec(value: Tensor) -> Tensor:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), np.dtype(x.dtype)), value)


def _same(a: Tensor, b: Tensor) -> bool:
    x, tree_x = jax.tree.flatten(_spec(a))
    y, tree_y = jax.tree.flatten(_spec(b))
    return bool(tree_x == tree_y) and all(p.shape == q.shape and p.dtype == q.dtype for p, q in zip(x, y, strict=True))


def _holds(start: Tensor, end: Tensor) -> bool:
    """Whether a value of a loop has the type of another one, or has room for it."""
    if isinstance(start, Bounded) and isinstance(end, Bounded):
        return start.capacity >= end.capacity and _same(start, jax.eval_shape(lambda v: v.sized(start.capacity), end))
    return _same(start, end)


def _unified(op: Operator, name: str, values: Sequence[Tensor], capacity: int) -> Tensor:
    """A type that both of two values can have.

    Raises:
        NotLowered: there is none.
    """
    variants = [value for value in values if value is not None]
    if len(variants) == 1 or _same(*variants):
        return variants[0]
    if all(isinstance(value, TensorArray | Buffer) for value in variants):
        # XLA's arrays do not grow: both become buffers with room for the longer one.
        size = max(capacity, *(value.capacity if isinstance(value, Buffer) else len(value) for value in variants))
        buffers = [jax.eval_shape(lambda v: _buffer_of(v, size), value) for value in variants]
        return next((b for b in buffers if b.data is not None), buffers[0])
    if (axis := _unknown_axis(variants)) is not None:
        most = max(value.data.shape[axis] if isinstance(value, Bounded) else value.shape[axis] for value in variants)
        return jax.eval_shape(lambda v: as_bounded(v, axis, most), variants[0])
    if any(isinstance(value, TapeBuffer) for value in variants) and all(isinstance(value, Tape | TapeBuffer) for value in variants):
        return next(v for v in variants if isinstance(v, TapeBuffer))
    if all(isinstance(value, Tape | TapeBuffer | Either) for value in variants):
        return Either([_tape_of(i, value) for i, value in enumerate(variants)])
    descriptions = " and ".join(described(value) for value in variants)
    raise NotLowered(located(f"operator {op.type!r}: the branches leave {name!r} as {descriptions}; XLA needs one type", op.source))


def _unknown_axis(values: Sequence[Tensor]) -> int | None:
    """The axis along which tensors have, or may have, different extents, if it is one and they have nothing else that differs."""
    if any(isinstance(value, Aggregate) and not isinstance(value, Bounded) for value in values):
        return None
    axes = {value.axis for value in values if isinstance(value, Bounded)}
    if len({(np.dtype(value.dtype), len(value.shape)) for value in values}) != 1:
        return None
    extents = zip(*(value.shape for value in values), strict=True)
    axes |= {i for i, choices in enumerate(extents) if len(set(choices)) > 1}
    return axes.pop() if len(axes) == 1 else None


def _buffer_of(value: Tensor, size: int) -> Buffer:
    buffer = as_buffer(value, size)
    return Buffer(buffer.data, jnp.asarray(buffer.filled), jnp.asarray(buffer.length, jnp.int64))


def _as_type(value: Tensor, like: Tensor) -> Tensor:
    """A value in the type of another one; zeros for none."""
    # Sides of a branch have to have one type in XLA: what one of them does not write is zeros there.
    if value is None:
        return jax.tree.map(_zeros, _spec(like))
    if _same(value, like):
        return jax.tree.map(jnp.asarray, value)
    if isinstance(like, Buffer):
        buffer = _buffer_of(value, like.capacity)
        data = jnp.zeros(like.data.shape, like.data.dtype) if buffer.data is None and like.data is not None else buffer.data
        return Buffer(data, buffer.filled, buffer.length)
    if isinstance(like, Bounded):
        return as_bounded(value, like.axis, like.capacity)
    if isinstance(like, TapeBuffer):
        return _tape_like(as_tape_buffer(value, like.capacity), like)
    return jax.tree.map(jnp.asarray, value)


def _tape_of(i: int, value: Tensor) -> Tensor:
    return value.sides[i] if isinstance(value, Either) else value


def _on_side(i: int, value: Tensor, like: Tensor) -> Tensor:
    """The result of one side of a branch, in the type common to both sides."""
    if isinstance(like, Either) and not _same(value, like):
        tapes = [_tape_of(i, value) if i == k else jax.tree.map(_zeros, _spec(tape)) for k, tape in enumerate(like.sides)]
        return jax.tree.map(jnp.asarray, Either(tapes))
    return _as_type(value, like)


def _tape_like(tape: TapeBuffer, like: TapeBuffer) -> TapeBuffer:
    entries = jax.tree.map(_zeros, _spec(like.entries)) if tape.entries is None else tape.entries
    return TapeBuffer(entries, jnp.asarray(tape.length, np.dtype(like.length.dtype)), tape.capacity)


# -- loops ---------------------------------------------------------------------------------------


class Loop:
    """A loop, or the gradient of one, that is being lowered."""

    def __init__(self, lowering: Lowering, op: Operator, definition: ControlDef, frames: Frames, layout: Layout) -> None:
        self.lowering, self.op, self.definition, self.frames, self.layout = lowering, op, definition, frames, layout
        self.block: Block = op.attrs[definition.blocks[0]]
        self.counted: dict[str, int] = {}

    # -- how often -------------------------------------------------------------------------------

    def forecast(self) -> tuple[int | None, Frames]:
        """The trip count of the loop, None if it is unknown, and the known values after it."""
        forecast, ends = Forecast(), outlines(self.frames)
        try:
            trips = forecast.loop(self.op, self.definition, ends, self.layout)
        except TooLong:
            trips = None
        bounds = self.lowering.bounds
        # A bound of this loop that is there already stays; those of loops in it are as forecast.
        for op, bound in forecast.bounds.items():
            if op is not self.op or op not in bounds:
                bounds[op] = bound
        return trips, ends

    def bound(self, why: str) -> int:
        """The most iterations that the loop may take.

        Raises:
            NotLowered: that is not known.
        """
        forecast = self.lowering.bounds.get(self.op)
        limit = self.lowering.options.max_trips if forecast is None else forecast
        if limit is None:
            condition = self.op.input(self.definition.condition)[0]
            message = (
                f"operator {self.op.type!r}: how often it runs depends on {condition!r}, which is known only when the program runs, "
                f"and {why} needs a bound: say max_trips="
            )
            raise NotLowered(located(message, self.op.source))
        return limit

    # -- forward ---------------------------------------------------------------------------------

    def forward(self) -> None:
        """``while``: as a scan if it is known how often it runs."""
        condition = self.op.input(self.definition.condition)[0]
        self.lowering.truth(self.op, self.frames, self.layout, condition)
        trips, ends = self.forecast()
        if trips is not None and trips <= UNROLLED:
            self.unrolled(trips)
            return
        if not any(condition in written(inner) for inner in self.block.ops):
            message = f"operator {self.op.type!r}: its block never writes the condition {condition!r}, so it would not end"
            raise ExecutionError(located(message, self.op.source))
        is_short = trips is not None and trips <= MOST_UNROLLED
        try:
            with self.lowering.restored():
                self.rolled(trips, condition)
        # Values change shape or dtype from one iteration to the next: scan cannot carry them, written-out iterations can. There the loop's
        # counter is a number as well, which may say the place of a slice.
        except Untyped as error:
            if not is_short:
                raise NotLowered(located(f"operator {self.op.type!r}: {error}", self.op.source)) from None
            self.unrolled(trips or 0)
            return
        except NotLowered as error:
            if not is_short or not isinstance(error.__cause__, Known):
                raise
            self.unrolled(trips or 0)
            return
        if trips is not None:
            self.settle(ends)

    def saved(self) -> list[Place]:
        inner = (self.block.vars, *self.layout)
        return [(depth(inner, name), name) for name in sorted(self.lowering.saved.get(self.block.idx, ()))]

    def unrolled(self, trips: int) -> None:
        """Every iteration written out."""
        steps: list[dict[str, Tensor]] = []
        for i in range(trips):
            inner: Frames = ({}, *self.frames)
            # Random operators ask for the number of the iteration.
            self.lowering.iterations.append(np.int64(i))
            self.lowering.body(self.block, inner, (self.block.vars, *self.layout))
            self.lowering.iterations.pop()
            steps.append({name: inner[at][name] for at, name in self.saved() if inner[at].get(name) is not None})
        self.keep(StepScopes(steps, trips))

    def keep(self, scopes: Tensor) -> None:
        for name in self.op.output(self.definition.scopes):
            self.frames[depth(self.layout, name)][name] = scopes

    def carried(self) -> list[Place]:
        """The places around the loop that its block writes."""
        inner = (self.block.vars, *self.layout)
        places = dict.fromkeys((home(inner, n) - 1, n) for op in self.block.ops for n in sorted(written(op)) if n != EMPTY)
        return [(at, n) for at, n in places if at >= 0]

    def iteration(self, places: Sequence[Place]) -> Callable[..., Tensor]:
        """One iteration, as a function of its number, what it carries and whether something failed."""
        lowering, inner_layout = self.lowering, (self.block.vars, *self.layout)

        def once(i: Tensor, values: dict[Place, Tensor], fault: Tensor) -> Tensor:
            frames_of_body: Frames = ({}, *(dict(frame) for frame in self.frames))
            for (at, name), value in values.items():
                frames_of_body[at + 1][name] = value
            before, lowering.failed = lowering.failed, fault
            lowering.iterations.append(i)
            lowering.around.append(len(self.frames))
            lowering.counted.append(self.counted)
            lowering.body(self.block, frames_of_body, inner_layout)
            lowering.counted.pop()
            lowering.around.pop()
            lowering.iterations.pop()
            fault, lowering.failed = lowering.failed, before
            rows, constant_names = {}, []
            for at, name in self.saved():
                value = frames_of_body[at].get(name)
                # A residual that is the same object in each iteration comes from around the loop: it is kept once, not in rows.
                if at and value is not None and value is self.frames[at - 1].get(name):
                    constant_names.append(name)
                elif value is not None:
                    rows[name] = value
            self.fixed = {name: self.frames[at - 1][name] for at, name in self.saved() if name in constant_names}
            return {place: frames_of_body[place[0] + 1].get(place[1]) for place in places}, rows, jnp.asarray(fault)

        return once

    def rolled(self, trips: int | None, condition: str) -> None:
        """One loop of XLA's."""
        lowering, places = self.lowering, self.carried()
        starts = {place: self.frames[place[0]].get(place[1]) for place in places}
        # Extents are fixed in XLA: an array or a tape that grows becomes a buffer with room for all that the loop can write.
        rooms = self.rooms(trips, starts)
        starts = {place: _in_loop(value, rooms.get(place, 0)) for place, value in starts.items() if value is not None}
        stage, starts = self.staged(places, starts)
        rows_spec = stage.shapes[1]
        first = (starts, jnp.asarray(lowering.failed))
        test = (depth(self.layout, condition), condition)
        if trips is not None:

            def step(state: Tensor, i: Tensor) -> Tensor:
                values, rows, fault = stage(i, *state)
                return ({p: _as_type(values[p], starts[p]) for p in starts}, fault), rows

            (ends, lowering.failed), rows = lax.scan(step, first, jnp.arange(trips))
            stack = Stack(rows, self.fixed, np.int64(trips))
        else:
            ends, stack = self.until(stage, first, test, rows_spec)
        for (at, name), value in ends.items():
            self.frames[at][name] = value
        self.keep(stack)

    def until(self, stage: Stage, first: Tensor, test: Place, rows_spec: Tensor) -> Tensor:
        """A loop whose trip count is known only when it runs."""
        lowering, starts = self.lowering, first[0]
        limit = self.bound("what its gradient reads of each iteration") if jax.tree.leaves(rows_spec) else None
        # lax.while_loop has no stacked outputs and no reverse derivative; neither is needed, as the program brings its own gradient, which
        # reads these rows.
        rows = jax.tree.map(lambda s: jnp.zeros((limit or 0, *s.shape), s.dtype), rows_spec)

        def goes_on(state: Tensor) -> Tensor:
            i, (values, _), _ = state
            holds = values[test].reshape(())
            return holds if limit is None else holds & (i < limit)

        def step(state: Tensor) -> Tensor:
            i, (values, fault), rows = state
            ends, new, fault = stage(i, values, fault)
            rows = jax.tree.map(lambda all_, one: lax.dynamic_update_index_in_dim(all_, one, i, 0), rows, new)
            return i + 1, ({p: _as_type(ends[p], starts[p]) for p in starts}, fault), rows

        count, (ends, lowering.failed), rows = lax.while_loop(goes_on, step, (jnp.zeros((), jnp.int64), first, rows))
        if limit is not None:
            lowering.op = self.op
            lowering.note(ends[test].reshape(()), f"the loop takes more than max_trips={limit} iterations")
        return ends, Stack(rows, self.fixed, count)

    def rooms(self, trips: int | None, starts: Mapping[Place, Tensor]) -> dict[Place, int]:
        """How many elements each array and each tape may have in the loop."""
        aggregates = {place: value for place, value in starts.items() if isinstance(value, Aggregate)}
        rooms: dict[Place, int] = {}
        self.counted = {}
        for place, value in aggregates.items():
            if isinstance(value, Buffer | TapeBuffer) and (self.is_carried_around(place) or self.is_counted(place[1], value)):
                rooms[place] = value.capacity  # the loop around has counted what this one writes, and cannot let it grow
            else:
                count = self.bound("an array or a tape that it writes") if trips is None else trips
                names = _same_array(self.block, place[1])
                rooms[place] = _length(value) + count * max(1, sum(self.writes(self.block, name) for name in names))
                self.counted.update(dict.fromkeys(names, rooms[place]))
        self.lowering.capacity = max(self.lowering.capacity, *rooms.values(), 0)
        return rooms

    def is_counted(self, name: str, value: Tensor) -> bool:
        """Whether a value is, under another name perhaps, an array that a loop around carries."""
        return isinstance(value, Buffer) and any(name in counted and value.capacity >= counted[name] for counted in self.lowering.counted)

    def is_carried_around(self, place: Place) -> bool:
        """Whether a place is outside of a loop of XLA's that this one is in."""
        around = self.lowering.around
        return bool(around) and len(self.frames) - 1 - place[0] < around[-1]

    def writes(self, block: Block, name: str) -> int:
        """How often a run of a block writes a name, at most, as far as that is known."""
        count = 0
        for op in block.ops:
            inner = blocks_of(op)
            if inner:
                bound = self.lowering.bounds.get(op) if isinstance(REGISTRY.get(op.type), LoopDef) else 1
                # Of a loop whose trips are not known at most ``max_trips``.
                bound = (self.lowering.options.max_trips or 1) if bound is None else bound
                count += bound * sum(self.writes(inner_block, name) for inner_block in inner)
            else:
                count += name in op.output_names()
        return count

    def staged(self, places: Sequence[Place], starts: dict[Place, Tensor]) -> tuple[Stage, dict[Place, Tensor]]:
        """The traced iteration, and starts with the types that every iteration leaves."""
        fault = jnp.asarray(self.lowering.failed)
        # The types are a fixed point: what an iteration leaves is what the next one begins with. A place without a type yet, or an array
        # that becomes a buffer, takes a round each; what is not settled then grows in every iteration.
        new_types: Mapping[Place, Tensor] = {}
        for _ in range(len(places) + 2):
            stage = Stage(self.iteration(places), jnp.zeros((), jnp.int64), starts, fault)
            ends = stage.shapes[0]
            new_types = {p: end for p, end in ends.items() if end is not None and not (p in starts and _holds(starts[p], end))}
            if not new_types:
                return stage, starts
            for place, end in new_types.items():
                starts = {**starts, place: self.retyped(place[1], starts.get(place), end)}
        names = ", ".join(repr(name) for _, name in new_types)
        raise Untyped(f"it carries {names}, of which the room that XLA has to know grows in every iteration")

    def retyped(self, name: str, start: Tensor, end: Tensor) -> Tensor:
        """A start in the type of what an iteration leaves."""
        # What only iterations write starts as zeros, which nothing reads.
        if start is None:
            return jax.tree.map(_zeros, end)
        if any(isinstance(value, Buffer | TapeBuffer | Bounded) for value in (start, end)):
            value = _as_type(start, end)
            if _same(value, end):
                return value
        raise Untyped(f"{name!r} is {described(start)} before an iteration and {described(end)} after it; XLA's loops keep types")

    def settle(self, ends: Frames) -> None:
        """Replace counters and the lengths of arrays and tapes by those that the forecast found after the loop."""
        # The forecast ran the same iterations on known values: what it found is a constant, not a traced value.
        for at, name in self.carried():
            final, value = ends[at].get(name, UNKNOWN), self.frames[at].get(name)
            if isinstance(final, np.ndarray):
                self.frames[at][name] = final
            elif isinstance(final, TensorArray) and isinstance(value, Buffer):
                self.frames[at][name] = value.settled(final)
            elif isinstance(final, Tape) and isinstance(value, TapeBuffer):
                self.frames[at][name] = TapeBuffer(value.entries, np.int64(len(final)), value.capacity)

    # -- gradient --------------------------------------------------------------------------------

    def gradient(self) -> None:
        """``while_grad``: its block over what the iterations kept, the last first."""
        inside = self.lowering.gradient_block(self.op, self.definition, self.frames, self.layout, 0)
        if isinstance(inside.kept, StepScopes):
            self.gradient_unrolled(inside, inside.kept)
        elif isinstance(inside.kept, Stack):
            self.gradient_rolled(inside, inside.kept)
        else:
            raise NotLowered(located(f"operator {self.op.type!r} reads residuals that no loop kept", self.op.source))

    def gradient_unrolled(self, inside: GradientBlock[Tensor], kept: StepScopes) -> None:
        cotangents, count = inside.cotangents, len(inside.cotangents)
        sums: list[Tensor] = [None] * (len(inside.targets) - count)
        # Iterations count for random streams: an iteration that is run again draws what it drew.
        for i in reversed(range(kept.count)):
            self.lowering.iterations.append(np.int64(i))
            results = inside.results(kept.steps[i] if kept.steps else {}, cotangents)
            self.lowering.iterations.pop()
            cotangents = results[:count]
            sums = [new if old is None else old if new is None else old + new for old, new in zip(sums, results[count:], strict=True)]
        inside.write([*cotangents, *self.totals(inside, sums)])

    def totals(self, inside: GradientBlock[Tensor], sums: Sequence[Tensor]) -> list[Tensor]:
        return [zeros_of(x) if total is None else total for total, x in zip(sums, inside.outer, strict=False)]

    def gradient_rolled(self, inside: GradientBlock[Tensor], kept: Stack) -> None:
        lowering, count = self.lowering, len(inside.cotangents)

        def once(i: Tensor, row: Tensor, cotangents: list[Tensor], fault: Tensor) -> Tensor:
            before, lowering.failed = lowering.failed, fault
            lowering.iterations.append(i)
            results = inside.results({**row, **kept.fixed}, cotangents)
            lowering.iterations.pop()
            fault, lowering.failed = lowering.failed, before
            return results[:count], results[count:], jnp.asarray(fault)

        room = lowering.capacity
        starts = [None if value is None else _in_loop(value, room) for value in inside.cotangents]
        row = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), kept.rows)
        stage, starts = self.staged_gradient(once, row, starts)
        # Gradients of what all iterations read are sums over the iterations; those of what is carried replace each other.
        sums = jax.tree.map(_zeros, stage.shapes[1])
        first = (starts, sums, jnp.asarray(lowering.failed))

        def add(state: Tensor, i: Tensor, row: Tensor) -> Tensor:
            cotangents, sums, fault = state
            results, terms, fault = stage(i, row, cotangents, fault)
            results = [_as_type(new, old) if old is not None else None for new, old in zip(results, starts, strict=True)]
            return results, [None if t is None else s + t for s, t in zip(sums, terms, strict=True)], fault

        # Where only a run knows how many iterations there were, rows after the last of them are not looked at.
        if is_traced(kept.count):

            def step(state: Tensor) -> Tensor:
                i, inner = state
                return i - 1, add(inner, i - 1, {n: v for n, v in kept.at(i - 1).items() if n in kept.rows})

            _, (ends, sums, lowering.failed) = lax.while_loop(lambda state: state[0] > 0, step, (kept.count, first))
        else:
            order = jnp.arange(int(kept.count))
            (ends, sums, lowering.failed), _ = lax.scan(lambda s, x: (add(s, *x), None), first, (order, kept.rows), reverse=True)
        inside.write([*ends, *self.totals(inside, sums)])

    def staged_gradient(self, once: Callable[..., Tensor], row: Tensor, starts: list[Tensor]) -> tuple[Stage, list[Tensor]]:
        fault = jnp.asarray(self.lowering.failed)
        # A fixpoint over types: a cotangent that starts as nothing, or narrower, takes the type that comes out, which may change others.
        # Each round settles one at least.
        for _ in range(len(starts) + 2):
            stage = Stage(once, jnp.zeros((), jnp.int64), row, starts, fault)
            ends = stage.shapes[0]
            wrong = [i for i, (s, e) in enumerate(zip(starts, ends, strict=True)) if e is not None and (s is None or not _same(s, e))]
            if not wrong:
                return stage, starts
            try:
                starts = [self.retyped("a cotangent", s, ends[i]) if i in wrong else s for i, s in enumerate(starts)]
            except Untyped as error:
                raise NotLowered(located(f"operator {self.op.type!r}: {error}", self.op.source)) from None
        raise NotLowered(located(f"operator {self.op.type!r}: its cotangents do not keep their types", self.op.source))


def _same_array(block: Block, name: str) -> list[str]:
    """The names that an array has in a block: a copy of it, or the array with another element, may have a name of its own."""
    names, groups = {name}, list(_arrays_of(block))
    while new := [group for group in groups if names & group and group - names]:
        names.update(*new)
    return sorted(names)


def _arrays_of(block: Block) -> Iterator[set[str]]:
    """The tensor arrays that each operator reads and writes, for the operators without blocks in a block and in those within."""
    for op in block.ops:
        inner = blocks_of(op)
        for child in inner:
            yield from _arrays_of(child)
        names = {*op.input_names(), *op.output_names()} - {EMPTY} if not inner else set()
        yield {name for name in names if (var := block.find_var(name)) is not None and var.type == TENSOR_ARRAY}


def _in_loop(value: Tensor, room: int) -> Tensor:
    """A value as a loop carries it."""
    if isinstance(value, TensorArray | Buffer):
        return _buffer_of(value, room)
    if isinstance(value, Tape | TapeBuffer):
        tape = as_tape_buffer(value, room)
        return TapeBuffer(tape.entries, jnp.asarray(tape.length, jnp.int64), tape.capacity)
    return jax.tree.map(jnp.asarray, value)


def _length(value: Tensor) -> int:
    if isinstance(value, Buffer | TapeBuffer):
        return value.capacity
    return len(value) if isinstance(value, TensorArray | Tape) else 0
