"""Iterations of a loop run again for its gradient, from the few starts that were kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import comb, log2
from typing import Protocol

from graphad.execution.layout import Layout, names_around
from graphad.execution.steps import Frame, Frames, Reader
from graphad.ops.aggregates import Checkpoints
from graphad.program import Block, Operator

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

    From checkpoints at equal distances each stretch is run again once. From the start alone, checkpoints are set anew while going
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
        every, count, starts = self.scopes.every, self.scopes.count, list(self.scopes.steps)
        while every and starts:
            begin = (len(starts) - 1) * every
            yield from self._stretch(starts.pop(), begin, min(begin + every, count))
        if starts:
            yield from self._between(starts[0], 0, count, max(1, 2 * int(log2(count + 1))))

    def _stretch(self, start: Frame, begin: int, end: int) -> Iterator[Frame]:
        """The iterations of a stretch, all run again and kept before the first is returned."""
        frame, kept = {**self.scopes.context, **start}, []
        for at in range(begin, end):
            kept.append(self._iteration(frame, at))
        while kept:
            yield kept.pop()

    def _between(self, start: Frame, begin: int, end: int, free: int) -> Iterator[Frame]:
        """The same with at most ``free`` further checkpoints."""
        while end - begin > 1:
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
        run.iterations, left = [*self.scopes.path, at], run.iterations_left
        run.iterations_left = None  # the loops in it were counted when they ran first
        self.body((local, frame))
        run.iterations_left = left
        return {name: found[name] for name in self.replay.saved if name in (found := local if name in local else frame)}


def _advance(count: int, free: int) -> int:
    """How far to go before setting the next of ``free`` checkpoints, with ``count`` iterations to go back over."""
    times = 1
    while comb(free + times, times) < count:
        times += 1
    rest = min(comb(free + times - 1, times), count - 1)
    return max(count - rest, 1)
