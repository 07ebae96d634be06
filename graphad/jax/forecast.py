"""Trip counts of loops, found before lowering: a program is run on the values that are known, and on nothing else.

    i = 0; while i < 10: h = tanh(h * w); i += 1          i and the condition are run, h is not: 10 iterations

What is known are constants, shapes, counters, and how long arrays and tapes are; everything else is ``UNKNOWN``, and so is what is made
of it. This finds what the analysis ``TripCounts`` finds, and more, since the shapes of the feeds are known here. Of a loop in a loop it
finds the greatest number of iterations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphad.execution.names import Frame, Frames, Layout, control, depth, home, writes_old_array, written
from graphad.jax.registry import is_traced
from graphad.jax.stacks import Buffer, TapeBuffer
from graphad.ops import REGISTRY, ControlDef, LoopDef, OpDef
from graphad.ops.aggregates import Aggregate, Tape, TensorArray
from graphad.program import EMPTY, Block, Operator
from graphad.types import Tensor

SMALL = 4096  # elements of what is computed
BUDGET = 100_000  # operators that are run, at most


class _Unknown:
    """A value that is known only when the program runs."""

    shape, dtype = (), np.dtype("float32")

    def __add__(self, other: object) -> _Unknown:
        return self

    __radd__ = __add__

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()


class TooLong(Exception):
    """More operators than are worth it."""


def outline(value: Tensor) -> Tensor:
    """The part of a value that forecasts keep: small arrays, and the lengths and gaps of tensor arrays and tapes; UNKNOWN for all else."""
    if isinstance(value, np.ndarray):
        return value if value.size <= SMALL else UNKNOWN
    if isinstance(value, TensorArray):
        # Of arrays and tapes only how long they are, and which slots are empty; that is what loops over them ask.
        array = TensorArray([UNKNOWN] * len(value))
        present = dict(value.items())
        for i in range(len(value)):
            array = array.write(i, outline(present[i])) if i in present else array.without(i)
        return array
    if isinstance(value, Buffer) and not is_traced(value.length, value.filled):
        array = TensorArray([UNKNOWN] * int(value.length))
        for i in range(int(value.length)):
            array = array if value.filled[i] else array.without(i)
        return array
    if isinstance(value, Tape):
        tape = Tape()
        for entry in value.entries():
            tape = tape.push([None if item is None else outline(item) for item in entry])
        return tape
    if isinstance(value, TapeBuffer) and not is_traced(value.length):
        tape = Tape()
        for _ in range(int(value.length)):
            tape = tape.push([UNKNOWN] * len(value.entries or ()))
        return tape
    return UNKNOWN


def outlines(frames: Sequence[Mapping[str, Tensor]]) -> Frames:
    """Frames with the ``outline`` of each value."""
    return tuple({name: outline(value) for name, value in frame.items()} for frame in frames)


class Forecast:
    """One run on what is known.

    Attributes:
        bounds: the greatest number of iterations of each loop that was met; None where it is not known.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self.bounds: dict[Operator, int | None] = {}

    def loop(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout) -> int | None:
        """Run a loop as long as its condition is known; how often it ran, None if that is not known. ``frames`` then holds the results."""
        block: Block = op.attrs[definition.blocks[0]]
        condition = op.input(definition.condition)[0]
        at, count = depth(layout, condition), 0
        if not any(condition in written(inner) for inner in block.ops):
            self._forget(op, frames, layout)
            return None
        # The loop is run on what is known of its values. Every iteration costs what its counters cost; arrays beyond SMALL are not looked
        # at.
        while True:
            holds = frames[at].get(condition, UNKNOWN)
            if not isinstance(holds, np.ndarray):
                self._forget(op, frames, layout)
                return None
            if not holds.reshape(-1)[0]:
                break
            self.body(block, ({}, *frames), (block.vars, *layout))
            count += 1
        self._note(op, count)
        for name in op.output(definition.scopes):
            frames[depth(layout, name)][name] = UNKNOWN
        return count

    def _note(self, op: Operator, count: int | None) -> None:
        old = self.bounds.get(op, 0)
        self.bounds[op] = None if old is None or count is None else max(old, count)

    def _forget(self, op: Operator, frames: Frames, layout: Layout) -> None:
        self._note(op, None)
        self.forget(op, frames, layout)

    def forget(self, op: Operator, frames: Frames, layout: Layout) -> None:
        """Nothing is known any more of what an operator, or one in its blocks, writes."""
        for name in written(op) - {EMPTY}:
            place = home(layout, name)
            frames[place][name] = UNKNOWN
            for frame in frames:
                if name in frame:
                    frame[name] = UNKNOWN

    def body(self, block: Block, frames: Frames, layout: Layout) -> None:
        """The operators of a block."""
        for op in block.ops:
            self.operator(op, frames, layout)

    def operator(self, op: Operator, frames: Frames, layout: Layout) -> None:
        """One operator."""
        # A forecast has to cost little, or it could as well be the run.
        self.budget -= 1
        if self.budget < 0:
            raise TooLong
        definition = REGISTRY.get(op.type)
        if definition is None:
            self.forget(op, frames, layout)
        elif isinstance(definition, ControlDef):
            self._control(op, definition, frames, layout)
        else:
            self._plain(op, definition, frames, layout)

    def _control(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout) -> None:
        if definition.is_grad:
            self.forget(op, frames, layout)
        elif isinstance(definition, LoopDef):
            self.loop(op, definition, frames, layout)
        else:
            self._branch(op, definition, frames, layout)

    def _branch(self, op: Operator, definition: ControlDef, frames: Frames, layout: Layout) -> None:
        blocks: list[Block] = [op.attrs[name] for name in definition.blocks]
        tests = [frames[depth(layout, name)].get(name, UNKNOWN) for name in op.input(definition.condition)]
        scalar = op.attrs.get("is_scalar_condition", True)
        if tests and not (scalar and isinstance(tests[0], np.ndarray)):
            # Both are run on copies, only for the bounds of the loops in them: what they write is unknown afterwards.
            for block in blocks:
                self.body(block, ({}, *map(dict, frames)), (block.vars, *layout))
            self.forget(op, frames, layout)
            return
        choice = 0 if not tests or bool(tests[0].reshape(-1)[0]) else 1
        if choice < len(blocks):
            self.body(blocks[choice], ({}, *frames), (blocks[choice].vars, *layout))
        for name in op.output(definition.scopes):
            frames[depth(layout, name)][name] = UNKNOWN

    def _plain(self, op: Operator, definition: OpDef, frames: Frames, layout: Layout) -> None:
        slots = dict(op.inputs)
        if writes_old_array(op):
            slots["Array"] = op.output("Out")
        inputs = {slot: [frames[depth(layout, n)].get(n) for n in names if n != EMPTY] for slot, names in slots.items()}
        values = [value for group in inputs.values() for value in group]
        holds = any(isinstance(value, Aggregate) for value in values) or bool(definition.kinds)
        # Aggregates are run with unknown elements too: their lengths and counters are what trip counts depend on.
        if definition.random or (not holds and any(value is UNKNOWN or value is None for value in values)):
            self.forget(op, frames, layout)
            return
        out_slots = [slot for slot, names in op.outputs.items() if any(name != EMPTY for name in names)]
        attrs = definition.own_attrs(op.attrs)
        try:
            with np.errstate(all="ignore"):
                results = definition.run(inputs, attrs, out_slots)
        except Exception:  # whatever a kernel does with what is no array
            self.forget(op, frames, layout)
            return
        for slot in out_slots:
            for name, value in zip(op.outputs[slot], results[slot], strict=True):
                if name != EMPTY:
                    self._write(frames[home(layout, name)], name, value)

    def _write(self, frame: Frame, name: str, value: Tensor) -> None:
        if value is None:
            frame.pop(name, None)
            return
        if isinstance(value, np.ndarray | np.generic):
            value = np.asarray(value)
            # Large values are not followed: what decides how often a loop runs are counters and conditions.
            value = UNKNOWN if value.dtype == object or value.size > SMALL else value
        frame[name] = value


__all__ = ["UNKNOWN", "Forecast", "TooLong", "control", "outline", "outlines"]
