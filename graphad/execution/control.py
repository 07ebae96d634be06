"""Operators with blocks as steps: loops, branches, nets, and their gradients."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from graphad.errors import ExecutionError, InvalidValue
from graphad.execution.fused import fused_step
from graphad.execution.layout import Layout, argument_names, depth, names_around, nth, written
from graphad.execution.replay import Replay, Runner
from graphad.execution.steps import Frame, Frames, Place, Reader, Step, settled
from graphad.ops import ControlDef, LoopDef
from graphad.ops.aggregates import Checkpoints, StepScopes, zeros_like
from graphad.program import EMPTY, Block, Operator, located

_BOOL = np.dtype(bool)


def control_step(run: Runner, op: Operator, row: ControlDef, layout: Layout, freed: Collection[str]) -> Step:
    """The step of an operator with blocks; ``freed`` are the names that are dead after it."""
    if isinstance(row, LoopDef):
        return _loop_gradient(run, op, row, layout, freed) if row.is_grad else _loop(run, op, row, layout)
    if row.is_grad:
        return _branch_gradient(run, op, row, layout)
    return fused_step(run, op, layout, _branch(run, op, row, layout))


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
    found = frames[place[0]].get(place[1])
    if type(found) is np.ndarray and found.dtype is _BOOL and found.size == 1:
        return bool(found.item())
    value = np.asarray(run.fetch(frames, place, op) if found is None else found)
    if value.size != 1 or value.dtype != bool:
        message = f"operator {op.type!r}: condition {place[1]!r} is one boolean, but it is {value.dtype}{list(value.shape)}"
        raise ExecutionError(located(message, op.source))
    return bool(value.reshape(())[()])


# -- loops ---------------------------------------------------------------------------------------


def _loop(run: Runner, op: Operator, row: ControlDef, layout: Layout) -> Step:
    block: Block = op.attrs[row.blocks[0]]
    body, condition = _Block(run, block, layout), op.input(row.condition)[0]
    endless = not any(condition in written(inner) for inner in block.ops)
    test, bounded = (depth(layout, condition), condition), run.max_iterations is not None
    scopes = [(depth(layout, name), name) for name in op.output(row.scopes)]
    every = run.checkpointed.get(block.idx)
    around = [(depth(layout, name), name) for name in names_around(block, run.saved)]
    carried = [(depth(layout, name), name) for name in op.output(row.results)]

    def step(frames: Frames) -> None:
        kept: list[Frame] = []
        context = {} if every is None else _values(run, op, frames, around)
        run.iterations.append(0)
        while _truth(run, op, frames, test):
            if endless:
                message = f"operator {op.type!r}: its block never writes the condition {condition!r}, so it would not end"
                raise ExecutionError(located(message, op.source))
            if bounded:
                run.count_iteration(op)
            inner: Frames = ({}, *frames)
            if every is not None and run.iterations[-1] % (every or sys.maxsize) == 0:
                kept.append({name: frames[at][name] for at, name in carried if name in frames[at]})
            body.run(inner)
            if body.saved and every is None:
                kept.append(body.keep(inner))
            run.iterations[-1] += 1
        count = run.iterations.pop()
        run.trips.add(count)
        for at, name in scopes:
            plain = every is None
            frames[at][name] = StepScopes(kept, count) if plain else Checkpoints(kept, count, every or 0, context, tuple(run.iterations))

    return step


def _values(run: Reader, op: Operator, frames: Frames, places: Sequence[Place]) -> Frame:
    """The values of names, as far as they have any."""
    found = {}
    for at, name in places:
        with suppress(InvalidValue):
            found[name] = run.fetch(frames, (at, name), op)
    return found


def _loop_gradient(run: Runner, op: Operator, row: ControlDef, layout: Layout, freed: Collection[str]) -> Step:
    inside = _Inside(run, op, row, layout, 0)
    ((at, name),) = inside.scopes
    last = name in freed
    block: Block = op.attrs[row.blocks[0]]
    replay = Replay(run, block.parent) if block.parent_idx in run.checkpointed else None

    def step(frames: Frames) -> None:
        outer, cotangents = inside.read(frames)
        scopes = inside.kept(frames)
        if last:
            frames[at].pop(name, None)
        sums, operands = _Sums(inside.count), inside.operands(outer)
        steps = replay.backwards(scopes) if isinstance(scopes, Checkpoints) and replay else _backwards(scopes, last)
        for kept in steps:
            results = inside.results(kept, operands, cotangents)
            cotangents = results[: len(cotangents)]
            sums.add(results[len(cotangents) :])
        inside.write(frames, [*cotangents, *sums.total(outer)])

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
        self.totals: list[Any] = [None] * count
        self.own = [False] * count

    def add(self, terms: Sequence[Any]) -> None:
        """Add what one iteration gives."""
        totals, own = self.totals, self.own
        for i, term in enumerate(terms):
            if term is None:
                continue
            if own[i]:
                total = totals[i]
                np.add(total, term, total)
            elif totals[i] is None:
                totals[i] = term
            else:
                totals[i] = settled(totals[i] + term)
                own[i] = isinstance(totals[i], np.ndarray)

    def total(self, like: Sequence[Any]) -> list[Any]:
        """The totals; zeros where no iteration gave anything."""
        return [zeros_like(x) if t is None and x is not None else t for t, x in zip(self.totals, like, strict=False)]


# -- branches ------------------------------------------------------------------------------------


def _taken(run: Runner, op: Operator, row: ControlDef, layout: Layout) -> Callable[[Frames], int]:
    """Which block an operator runs: the first one where its condition holds, else the second."""
    tests = [(depth(layout, name), name) for name in op.input(row.condition)]
    if not tests:
        return lambda frames: 0
    if op.attrs.get("is_scalar_condition", True):
        return lambda frames: 0 if _truth(run, op, frames, tests[0]) else 1
    return lambda frames: 0 if all(np.size(run.fetch(frames, test, op)) for test in tests) else 1


def _branch(run: Runner, op: Operator, row: ControlDef, layout: Layout) -> Step:
    blocks = [_Block(run, op.attrs[name], layout) for name in row.blocks]
    taken = _taken(run, op, row, layout)
    scopes = [(depth(layout, name), name) for name in op.output(row.scopes)]

    def step(frames: Frames) -> None:
        which, kept = taken(frames), {}
        if which < len(blocks):
            inner: Frames = ({}, *frames)
            blocks[which].run(inner)
            kept = blocks[which].keep(inner)
        for at, name in scopes:
            frames[at][name] = StepScopes([kept], 1)

    return step


def _branch_gradient(run: Runner, op: Operator, row: ControlDef, layout: Layout) -> Step:
    branches = [_Inside(run, op, row, layout, i) for i in range(len(row.blocks))]
    taken = _taken(run, op, row, layout)

    def step(frames: Frames) -> None:
        inside = branches[taken(frames)]
        outer, cotangents = inside.read(frames)
        inside.write(frames, inside.results(inside.kept(frames).steps[0], inside.operands(outer), cotangents))

    return step


# -- gradients of blocks -------------------------------------------------------------------------


class _Inside:
    """One block of a gradient operator: its arguments and results, and their names inside."""

    def __init__(self, run: Runner, op: Operator, row: ControlDef, layout: Layout, which: int) -> None:
        block: Block = op.attrs[row.blocks[which]]
        saved = run.saved.get(block.parent_idx, frozenset()) - {*block.vars, *argument_names(op, which)}
        self.body = run.body(block, (block.vars, saved))
        self.fetch, self.op = run.fetch, op
        self.x = _places(layout, op.input("X"))
        self.out_grad = _places(layout, op.input("Out@GRAD"))
        self.scopes = _places(layout, op.input(row.scopes))
        self.targets = _places(layout, op.output("X@GRAD"))
        self.count = len(self.targets) - len(self.out_grad)
        self.inputs = argument_names(op, which)
        self.cotangents = self.inputs[len(self.x) :]
        self.outputs = nth(op, "original_input_grad", which, len(self.targets))

    def read(self, frames: Frames) -> tuple[list[Any], list[Any]]:
        """The values of X and of Out@GRAD, None where there is none."""
        return [self._value(frames, place) for place in self.x], [self._value(frames, place) for place in self.out_grad]

    def _value(self, frames: Frames, place: Place) -> Any:
        try:
            return self.fetch(frames, place, self.op)
        except (InvalidValue, ExecutionError):
            return None

    def kept(self, frames: Frames) -> StepScopes:
        """The residuals of the forward operator."""
        found = self.fetch(frames, self.scopes[0], self.op)
        if not isinstance(found, StepScopes):
            name = self.scopes[0][1]
            raise InvalidValue(
                located(f"operator {self.op.type!r} reads {name!r}, which is not what a forward operator keeps", self.op.source)
            )
        return found

    def operands(self, outer: Sequence[Any]) -> Frame:
        """The operands X that are passed in, by their names inside."""
        return {name: value for name, value in zip(self.inputs, outer, strict=False) if value is not None}

    def results(self, kept: Frame, operands: Frame, cotangents: Sequence[Any]) -> list[Any]:
        """Run the block once."""
        local = operands.copy()
        for name, value in zip(self.cotangents, cotangents, strict=True):
            if value is not None:
                local[name] = value
        self.body((local, kept))
        try:
            return [local[name] for name in self.outputs]
        except KeyError:
            return [local.get(name, kept.get(name)) for name in self.outputs]

    def write(self, frames: Frames, results: Sequence[Any]) -> None:
        """Hand the results out."""
        for (at, name), result in zip(self.targets, results, strict=True):
            if name != EMPTY and result is not None:
                frames[at][name] = result


def _places(layout: Layout, names: Sequence[str]) -> list[Place]:
    return [(depth(layout, name), name) for name in names]
