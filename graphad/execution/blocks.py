"""Operators with blocks as steps: loops, branches, nets, fused blocks and their gradients; iterations run again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from math import comb, log2
from typing import Protocol

import numpy as np

from graphad.errors import ExecutionError, InvalidValue
from graphad.execution.steps import (
    Frame,
    Frames,
    Layout,
    Place,
    Reader,
    Step,
    argument_names,
    depth,
    names_around,
    nth,
    settled,
    written,
)
from graphad.ops import ControlDef, LoopDef
from graphad.ops.aggregates import Checkpoints, StepScopes, zeros_like
from graphad.program import EMPTY, Block, Operator, located
from graphad.types import Tensor

# -- iterations run again --------------------------------------------------------------------------
# Iterations of a loop run again for its gradient, from the few starts that were kept.

Body = Callable[[Frames], None]


class Runner(Reader, Protocol):
    """The run that the step of an operator with blocks belongs to."""

    saved: dict[int, frozenset[str]]
    checkpointed: dict[int, int]
    iterations: list[int]
    trips: set[int]
    max_iterations: int | None
    iterations_left: int | None

    def count_iteration(self, op: Operator) -> None:
        """Count one iteration of a loop; an error if there may be no more."""

    def body(self, block: Block, layout: Layout) -> Body:
        """How a block is run."""


class Replay:
    """Runs a loop's block again on two frames: its own, and what it carries and reads.

    From checkpoints at equal distances each stretch is run again once. From the start alone, checkpoints are set again while going
    backwards, as few and as well placed as the binomial schedule says (A. Griewank and A. Walther, "Algorithm 799: revolve",
    2000): for n iterations about 2 log2(n) of them, each iteration being run three or four times.
    """

    def __init__(self, run: Runner, block: Block | None) -> None:
        assert block is not None
        self.run = run
        self.block = block
        self.saved = run.saved.get(block.idx, frozenset())
        self.names = frozenset(names_around(block, run.saved))

    def backwards(self, scopes: Checkpoints) -> Iterator[Frame]:
        """The residuals of each iteration, the last one first."""
        body, outer = self.run.body(self.block, (self.block.vars, self.names)), self.run.iterations
        try:
            yield from _Backwards(self, scopes, body).all()
        finally:
            self.run.iterations = outer


class _Backwards:
    """One going back."""

    def __init__(self, replay: Replay, scopes: Checkpoints, body: Body) -> None:
        self.replay = replay
        self.scopes = scopes
        self.body = body

    def all(self) -> Iterator[Frame]:
        interval, count, starts = self.scopes.every, self.scopes.count, list(self.scopes.steps)
        # Checkpoints at equal distances: the last stretch first, each run again once.
        while interval and starts:
            begin = (len(starts) - 1) * interval
            yield from self._stretch(starts.pop(), begin, min(begin + interval, count))
        if starts:
            yield from self._between(starts[0], 0, count, max(1, 2 * int(log2(count + 1))))

    def _stretch(self, start: Frame, begin: int, end: int) -> Iterator[Frame]:
        """The iterations of a stretch, all run again and kept before the first is returned."""
        frame, frames_ = {**self.scopes.context, **start}, []
        for at in range(begin, end):
            frames_.append(self._iteration(frame, at))
        while frames_:
            yield frames_.pop()

    def _between(self, start: Frame, begin: int, end: int, free: int) -> Iterator[Frame]:
        """The same with at most ``free`` further checkpoints."""
        while end - begin > 1:
            # Run on from the start to the place of the next checkpoint, go back over what is after it, then over the rest with the
            # checkpoint free again.
            middle = begin + _advance(end - begin, free) if free else end - 1
            frame = {**self.scopes.context, **start}
            for at in range(begin, middle):
                self._iteration(frame, at)
            yield from self._between({name: frame[name] for name in start}, middle, end, max(free - 1, 0))
            end = middle
        if end > begin:
            yield from self._stretch(start, begin, end)

    def _iteration(self, frame: Frame, at: int) -> Frame:
        """Run one iteration; ``frame`` then holds what it carries on."""
        local: Frame = {}
        run = self.replay.run
        # Random operators draw by iteration number, so an iteration that is run again draws the same numbers.
        run.iterations, iterations_before = [*self.scopes.path, at], run.iterations_left
        run.iterations_left = None  # the loops in it were counted when they ran first
        self.body((local, frame))
        run.iterations_left = iterations_before
        return {name: frame_[name] for name in self.replay.saved if name in (frame_ := local if name in local else frame)}


def _advance(count: int, free: int) -> int:
    """How far to go before setting the next of ``free`` checkpoints, with ``count`` iterations to go back over."""
    # With c checkpoints and r repetitions, C(c + r, r) iterations can be gone back over (A. Griewank, "Achieving logarithmic growth of
    # temporal and spatial complexity in reverse automatic differentiation", 1992).
    times = 1
    while comb(free + times, times) < count:
        times += 1
    rest = min(comb(free + times - 1, times), count - 1)
    return max(count - rest, 1)


# -- loops, branches, nets -------------------------------------------------------------------------
# Operators with blocks as steps: loops, branches, nets, and their gradients.

_BOOL = np.dtype(bool)


def control_step(run: Runner, op: Operator, definition: ControlDef, layout: Layout, freed: Collection[str]) -> Step:
    """The step of an operator with blocks; ``freed`` are the names that are dead after it."""
    if isinstance(definition, LoopDef):
        return _loop_gradient(run, op, definition, layout, freed) if definition.is_grad else _loop(run, op, definition, layout)
    if definition.is_grad:
        return _branch_gradient(run, op, definition, layout)
    return _branch(run, op, definition, layout)


class _Block:
    """A block of an operator: how it runs, and its residuals."""

    def __init__(self, run: Runner, block: Block, layout: Layout) -> None:
        inner = (block.vars, *layout)
        self.run = run.body(block, inner)
        self.saved = [(depth(inner, name), name) for name in sorted(run.saved.get(block.idx, ()))]

    def keep(self, frames: Frames) -> Frame:
        """The residuals of a run that the gradient of the block reads."""
        try:
            return {name: frames[at][name] for at, name in self.saved}
        except KeyError:
            return {name: frames[at][name] for at, name in self.saved if name in frames[at]}


def _truth(run: Reader, op: Operator, frames: Frames, place: Place) -> bool:
    condition = frames[place[0]].get(place[1])
    if type(condition) is np.ndarray and condition.dtype is _BOOL and condition.size == 1:
        return bool(condition.item())
    value = np.asarray(run.fetch(frames, place, op) if condition is None else condition)
    if value.size != 1 or value.dtype != bool:
        message = f"operator {op.type!r}: condition {place[1]!r} is one boolean, but it is {value.dtype}{list(value.shape)}"
        raise ExecutionError(located(message, op.source))
    return bool(value.reshape(())[()])


# -- loops ---------------------------------------------------------------------------------------


def _loop(run: Runner, op: Operator, definition: ControlDef, layout: Layout) -> Step:
    block: Block = op.attrs[definition.blocks[0]]
    body, condition = _Block(run, block, layout), op.input(definition.condition)[0]
    endless = not any(condition in written(inner) for inner in block.ops)
    test, is_bounded = (depth(layout, condition), condition), run.max_iterations is not None
    scopes = [(depth(layout, name), name) for name in op.output(definition.scopes)]
    interval = run.checkpointed.get(block.idx)
    around = [(depth(layout, name), name) for name in names_around(block, run.saved)]
    result_places = [(depth(layout, name), name) for name in op.output(definition.results)]

    def step(frames: Frames) -> None:
        frames_: list[Frame] = []
        context = {} if interval is None else _values(run, op, frames, around)
        run.iterations.append(0)
        while _truth(run, op, frames, test):
            if endless:
                message = f"operator {op.type!r}: its block never writes the condition {condition!r}, so it would not end"
                raise ExecutionError(located(message, op.source))
            if is_bounded:
                run.count_iteration(op)
            inner: Frames = ({}, *frames)
            # ``interval`` 0 keeps the start alone: no other iteration is a multiple of the largest integer.
            if interval is not None and run.iterations[-1] % (interval or sys.maxsize) == 0:
                frames_.append({name: frames[at][name] for at, name in result_places if name in frames[at]})
            body.run(inner)
            if body.saved and interval is None:
                frames_.append(body.keep(inner))
            run.iterations[-1] += 1
        count = run.iterations.pop()
        run.trips.add(count)
        for at, name in scopes:
            plain = interval is None
            frames[at][name] = (
                StepScopes(frames_, count) if plain else Checkpoints(frames_, count, interval or 0, context, tuple(run.iterations))
            )

    return step


def _values(run: Reader, op: Operator, frames: Frames, places: Sequence[Place]) -> Frame:
    """The values of names, as far as they have any."""
    values = {}
    for at, name in places:
        with suppress(InvalidValue):
            values[name] = run.fetch(frames, (at, name), op)
    return values


def _loop_gradient(run: Runner, op: Operator, definition: ControlDef, layout: Layout, freed: Collection[str]) -> Step:
    body = _Inside(run, op, definition, layout, 0)
    ((at, name),) = body.scopes
    last = name in freed
    block: Block = op.attrs[definition.blocks[0]]
    replay = Replay(run, block.parent) if block.parent_idx in run.checkpointed else None

    def step(frames: Frames) -> None:
        outer, cotangents = body.read(frames)
        scopes = body.kept(frames)
        if last:
            frames[at].pop(name, None)
        sums, operands = _Sums(body.count), body.operands(outer)
        steps = replay.backwards(scopes) if isinstance(scopes, Checkpoints) and replay else _backwards(scopes, last)
        for frame in steps:
            results = body.results(frame, operands, cotangents)
            cotangents = results[: len(cotangents)]
            sums.add(results[len(cotangents) :])
        body.write(frames, [*cotangents, *sums.total(outer)])

    return step


def _backwards(scopes: StepScopes, consume: bool) -> Iterator[Frame]:
    """The residuals of each run, the last one first; they are freed as they are used if ``consume``."""
    if not scopes.steps:
        yield from ({} for _ in range(scopes.count))
    elif not consume:
        yield from reversed(scopes.steps)
    while consume and scopes.steps:
        yield scopes.steps.pop()


class _Sums:
    """Totals over the iterations; the arrays in them are this object's own from the second one on."""

    def __init__(self, count: int) -> None:
        self.totals: list[Tensor] = [None] * count
        self.own = [False] * count

    def add(self, terms: Sequence[Tensor]) -> None:
        """Add what one iteration gives."""
        totals, is_own = self.totals, self.own
        for i, term in enumerate(terms):
            if term is None:
                continue
            # The first term is kept as it is, the second makes an array of our own, and from then on it is added in place.
            if is_own[i]:
                total = totals[i]
                np.add(total, term, total)
            elif totals[i] is None:
                totals[i] = term
            else:
                totals[i] = settled(totals[i] + term)
                is_own[i] = isinstance(totals[i], np.ndarray)

    def total(self, like: Sequence[Tensor]) -> list[Tensor]:
        """The totals; zeros where no iteration gave anything."""
        return [zeros_like(x) if t is None and x is not None else t for t, x in zip(self.totals, like, strict=False)]


# -- branches ------------------------------------------------------------------------------------


def _taken(run: Runner, op: Operator, definition: ControlDef, layout: Layout) -> Callable[[Frames], int]:
    """Which block an operator runs: the first one where its condition holds, else the second."""
    tests = [(depth(layout, name), name) for name in op.input(definition.condition)]
    if not tests:
        return lambda frames: 0
    if op.attrs.get("is_scalar_condition", True):
        return lambda frames: 0 if _truth(run, op, frames, tests[0]) else 1
    return lambda frames: 0 if all(np.size(run.fetch(frames, test, op)) for test in tests) else 1


def _branch(run: Runner, op: Operator, definition: ControlDef, layout: Layout) -> Step:
    blocks = [_Block(run, op.attrs[name], layout) for name in definition.blocks]
    branch_number = _taken(run, op, definition, layout)
    scopes = [(depth(layout, name), name) for name in op.output(definition.scopes)]

    def step(frames: Frames) -> None:
        number, residuals = branch_number(frames), {}
        if number < len(blocks):
            inner: Frames = ({}, *frames)
            blocks[number].run(inner)
            residuals = blocks[number].keep(inner)
        for at, name in scopes:
            frames[at][name] = StepScopes([residuals], 1)

    return step


def _branch_gradient(run: Runner, op: Operator, definition: ControlDef, layout: Layout) -> Step:
    branches = [_Inside(run, op, definition, layout, i) for i in range(len(definition.blocks))]
    branch_number = _taken(run, op, definition, layout)

    def step(frames: Frames) -> None:
        inside = branches[branch_number(frames)]
        outer, cotangents = inside.read(frames)
        inside.write(frames, inside.results(inside.kept(frames).steps[0], inside.operands(outer), cotangents))

    return step


# -- gradients of blocks -------------------------------------------------------------------------


class _Inside:
    """One block of a gradient operator: its arguments and results, and their names inside."""

    def __init__(self, run: Runner, op: Operator, definition: ControlDef, layout: Layout, which: int) -> None:
        block: Block = op.attrs[definition.blocks[which]]
        residual_names = run.saved.get(block.parent_idx, frozenset()) - {*block.vars, *argument_names(op, which)}
        self.body = run.body(block, (block.vars, residual_names))
        self.fetch, self.op = run.fetch, op
        self.x = _places(layout, op.input("X"))
        self.out_grad = _places(layout, op.input("Out@GRAD"))
        self.scopes = _places(layout, op.input(definition.scopes))
        self.targets = _places(layout, op.output("X@GRAD"))
        self.count = len(self.targets) - len(self.out_grad)
        self.inputs = argument_names(op, which)
        self.cotangents = self.inputs[len(self.x) :]
        self.outputs = nth(op, "original_input_grad", which, len(self.targets))

    def read(self, frames: Frames) -> tuple[list[Tensor], list[Tensor]]:
        """The values of X and of Out@GRAD, None where there is none."""
        return [self._value(frames, place) for place in self.x], [self._value(frames, place) for place in self.out_grad]

    def _value(self, frames: Frames, place: Place) -> Tensor:
        try:
            return self.fetch(frames, place, self.op)
        except (InvalidValue, ExecutionError):
            return None

    def kept(self, frames: Frames) -> StepScopes:
        """The residuals of the forward operator."""
        residuals = self.fetch(frames, self.scopes[0], self.op)
        if not isinstance(residuals, StepScopes):
            name = self.scopes[0][1]
            raise InvalidValue(
                located(f"operator {self.op.type!r} reads {name!r}, which is not what a forward operator keeps", self.op.source)
            )
        return residuals

    def operands(self, outer: Sequence[object]) -> Frame:
        """The operands X that are passed in, by their names inside."""
        return {name: value for name, value in zip(self.inputs, outer, strict=False) if value is not None}

    def results(self, residuals: Frame, operands: Frame, cotangents: Sequence[Tensor]) -> list[Tensor]:
        """Run the block once."""
        frame = operands.copy()
        for name, value in zip(self.cotangents, cotangents, strict=True):
            if value is not None:
                frame[name] = value
        self.body((frame, residuals))
        # The ordinary case: all results are written in the block. A result may also be a residual as it is, or nothing.
        try:
            return [frame[name] for name in self.outputs]
        except KeyError:
            return [frame.get(name, residuals.get(name)) for name in self.outputs]

    def write(self, frames: Frames, results: Sequence[object]) -> None:
        """Hand the results out."""
        for (at, name), result in zip(self.targets, results, strict=True):
            if name != EMPTY and result is not None:
                frames[at][name] = result


def _places(layout: Layout, names: Sequence[str]) -> list[Place]:
    return [(depth(layout, name), name) for name in names]
