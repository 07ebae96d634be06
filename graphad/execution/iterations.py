"""A loop's iterations for its gradient, the last one first: from the residuals that were kept, or run again from a few starts.

From checkpoints at equal distances each stretch is run again once. From the start alone, checkpoints are set again while going
backwards, as few and as well placed as the binomial schedule says (A. Griewank and A. Walther, "Algorithm 799: revolve", 2000): for n
iterations about 2 log2(n) of them, each iteration being run three or four times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import comb, log2

import numpy as np

from graphad.execution.names import Frame
from graphad.ops.aggregates import Checkpoints, StepScopes, settled, zeros_like
from graphad.types import Tensor

Iteration = Callable[[Frame, int], Frame]


def backwards(scopes: StepScopes, consume: bool) -> Iterator[Frame]:
    """The residuals of each run, the last one first; they are freed as they are used if ``consume``."""
    if not scopes.steps:
        yield from ({} for _ in range(scopes.count))
    elif not consume:
        yield from reversed(scopes.steps)
    while consume and scopes.steps:
        yield scopes.steps.pop()


class Replay:
    """One traversal of a loop's iterations from the last to the first.

    Args:
        scopes: what the loop kept: the starts of some iterations.
        iteration: runs an iteration by its number on a frame, which then holds what it carries on; returns its residuals.
    """

    def __init__(self, scopes: Checkpoints, iteration: Iteration) -> None:
        self.scopes = scopes
        self.iteration = iteration

    def residuals(self) -> Iterator[Frame]:
        """The residuals of each iteration, the last one first."""
        interval, count, starts = self.scopes.every, self.scopes.count, list(self.scopes.steps)
        # Checkpoints at equal distances: the last stretch first, each run again once.
        while interval and starts:
            begin = (len(starts) - 1) * interval
            yield from self._stretch(starts.pop(), begin, min(begin + interval, count))
        if starts:
            yield from self._between(starts[0], 0, count, max(1, 2 * int(log2(count + 1))))

    def _stretch(self, start: Frame, begin: int, end: int) -> Iterator[Frame]:
        """The iterations of a stretch, all run again and kept before the first is returned."""
        frame = {**self.scopes.context, **start}
        frames = [self.iteration(frame, number) for number in range(begin, end)]
        while frames:
            yield frames.pop()  # freed as soon as it has been used

    def _between(self, start: Frame, begin: int, end: int, free: int) -> Iterator[Frame]:
        """The same with at most ``free`` further checkpoints."""
        while end - begin > 1:
            # Run on from the start to the place of the next checkpoint, go back over what is after it, then over the rest with the
            # checkpoint free again.
            middle = begin + advance(end - begin, free) if free else end - 1
            frame = {**self.scopes.context, **start}
            for number in range(begin, middle):
                self.iteration(frame, number)
            yield from self._between({name: frame[name] for name in start}, middle, end, max(free - 1, 0))
            end = middle
        if end > begin:
            yield from self._stretch(start, begin, end)


def advance(count: int, free: int) -> int:
    """How far to go before setting the next of ``free`` checkpoints, with ``count`` iterations to go back over."""
    # With c checkpoints and r repetitions, C(c + r, r) iterations can be gone back over (A. Griewank, "Achieving logarithmic growth of
    # temporal and spatial complexity in reverse automatic differentiation", 1992).
    times = 1
    while comb(free + times, times) < count:
        times += 1
    rest = min(comb(free + times - 1, times), count - 1)
    return max(count - rest, 1)


class Sums:
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
