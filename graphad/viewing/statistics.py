"""Statistics of values and times of operators from one run of a graph by the interpreter.

Of a value: smallest, largest, mean, a histogram, and how many numbers are nan or infinite. What a loop computes again and again is
summed up over all its iterations, with the range of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from graphad.errors import InvalidValue
from graphad.execution import Profile, Scope
from graphad.execution.executor import OneRun
from graphad.ir import Graph, Op, Value, schedule
from graphad.ops.definition import did_you_mean
from graphad.program import EMPTY, Operator, SourceLine
from graphad.types import TENSOR, Array
from graphad.viewing.tables import Json

BINS = 24
MOST_KEPT = 1 << 16  # elements of a value that is computed again and again, for its histogram; of more, evenly spread ones
LONG_RUN = 1.0  # seconds; a shorter run is run again for the times of its operators
MOST_RANGES = 48  # iterations whose ranges are shown one by one; of more, the ranges of stretches
_SEED = 0


@dataclass(frozen=True)
class Statistics:
    """Statistics by the number of a value, seconds by the number of an operator, and a note on what they were taken from."""

    found: dict[int, Json] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    note: str = ""

    def joined(self, later: Statistics) -> Statistics:
        """These, and those of a later state for what is new in it."""
        note = " ".join(dict.fromkeys(filter(None, (self.note, later.note))))
        return Statistics({**later.found, **self.found}, {**later.seconds, **self.seconds}, note)


def statistics(graph: Graph, feed: Mapping[str, object] | None, numbers: Mapping[Op | Value | Graph, int]) -> Statistics:
    """Run a graph on a feed; no statistics without one. The graph is not changed. Values within loops and branches are among them.

    Raises:
        ValueError: the feed has a name that the graph has not; an array of another shape or dtype; data is missing.
        ExecutionError: an operator failed.
    """
    if feed is None:
        return Statistics()
    copy = graph.clone()
    random_names, scope, inputs = _given(copy, feed)
    watcher = _Watcher(_marked(graph, copy), numbers)
    program = schedule(copy)
    variables = program.global_block().vars
    data = {name: array for name, array in inputs.items() if name in variables and not variables[name].persistable}
    executor = OneRun(mode="interpreted")
    executor.profile = watcher
    start = perf_counter()
    executor.run(program, data, [], scope)
    for value in graph.values:
        if value.given and value.kind == TENSOR and value.name in inputs:
            watcher.see(numbers[value], inputs[value.name])
    if perf_counter() - start < LONG_RUN:
        watcher.only_time()  # the first run pays for what numpy sets up
        executor.run(program, data, [], scope)
    note = f"Drawn at random, since the feed does not have them: {', '.join(random_names)}." if random_names else ""
    return Statistics({number: summary_of.summary() for number, summary_of in watcher.values.items()}, watcher.spent(), note)


# -- watching a run --------------------------------------------------------------------------------


def _marked(graph: Graph, copy: Graph) -> dict[int, Op]:
    """The operators of a graph by the source of their copies, of which each gets one of its own: ``schedule`` passes it on."""
    ops: dict[int, Op] = {}
    for old, new in zip(graph.tree(), copy.tree(), strict=True):
        for op, op_copy in zip(old.ops, new.ops, strict=True):
            # A copy, even of an equal line: operators are told apart by its identity.
            op_copy.source = SourceLine(*op.source) if op.source else SourceLine("an operator without a line", 0)
            ops[id(op_copy.source)] = op
    return ops


class _Watcher(Profile):
    """Sums up what the operators of a run write, and the arguments of nested graphs that they are the first to read."""

    def __init__(self, ops: Mapping[int, Op], numbers: Mapping[Op | Value | Graph, int]) -> None:
        super().__init__()
        self.ops = ops
        self.numbers = numbers
        self.values: dict[int, _Seen] = {}
        self.looks = True

    def timed(self, op: Operator, step: Callable[..., None]) -> Callable[..., None]:
        """A step whose time is noted, without the time that it takes to look at its values."""
        node = self.ops.get(id(op.source))
        run = super().timed(op, step)
        if node is None:
            return run
        arguments, results = self._arguments(node, op), _numbered(node.outputs, op.outputs, self.numbers)

        def watched(frames: tuple[dict[str, Any], ...]) -> None:
            self._look(arguments, frames)
            run(frames)
            self._look(results, frames)

        return watched

    def _arguments(self, node: Op, op: Operator) -> list[tuple[str, int]]:
        """The block arguments that no operator before this one reads."""
        if node.graph.owner is None:
            return []
        first = {value for value in node.reads() if value.given and next(iter(value.readers)) is node}
        numbers = {value: self.numbers[value] for value in first}
        return _numbered(node.inputs, op.inputs, numbers)

    def only_time(self) -> None:
        """Forget the times so far, and look at no values from here on."""
        self.operators.clear()
        self.looks = False

    def _look(self, places: list[tuple[str, int]], frames: tuple[dict[str, Any], ...]) -> None:
        if not self.looks:
            return
        start = perf_counter()
        for name, number in places:
            array = next((frame[name] for frame in frames if name in frame), None)
            if isinstance(array, np.ndarray):
                self.see(number, array)
        self._nested.seconds = getattr(self._nested, "seconds", 0.0) + perf_counter() - start  # the operator around does not take it

    def see(self, number: int, array: Array) -> None:
        """Count an array in."""
        self.values.setdefault(number, _Seen()).add(array)

    def spent(self) -> dict[int, float]:
        """Seconds by the number of an operator."""
        pairs = [(self.ops.get(id(op.source)), usage.seconds) for op, usage in self.operators.items()]
        return {self.numbers[op]: seconds for op, seconds in pairs if op is not None}


def _numbered(slots: Mapping[str, tuple[Value, ...]], named: Mapping[str, list[str]], numbers: Mapping[Any, int]) -> list[tuple[str, int]]:
    """The names of tensors in slots, with their numbers."""
    pairs = [pair for slot, values in slots.items() for pair in zip(named.get(slot, ()), values, strict=False)]
    named_values = [(name, numbers[value]) for name, value in pairs if name != EMPTY and value.kind == TENSOR and value in numbers]
    return list(dict.fromkeys(named_values))


class _Seen:
    """Statistics of a value over all the times it was computed.

    >>> seen = _Seen()
    >>> seen.add(np.array([1.0, 3.0, np.nan]))
    >>> seen.summary()[:3], seen.summary()[4:]
    ([1.0, 3.0, 2.0], [1, 0, 0, 3])
    """

    def __init__(self) -> None:
        self.times = 0
        self.size = self.nans = self.infinities = self.zeros = 0
        self.total, self.count = 0.0, 0
        self.low, self.high = np.inf, -np.inf
        self.kept: list[Array] = []
        self.stride = 1
        self.ranges: list[tuple[float, float] | None] = []

    def add(self, array: Array) -> None:
        """Count an array in."""
        # In float64, since sums in float16 overflow.
        numbers = np.asarray(array).astype("float64").ravel()
        finite_numbers = numbers[np.isfinite(numbers)]
        self.times += 1
        self.size += numbers.size
        self.nans += int(np.isnan(numbers).sum())
        self.infinities += int(np.isinf(numbers).sum())
        self.zeros += int((numbers == 0).sum())
        ends = (float(finite_numbers.min()), float(finite_numbers.max())) if finite_numbers.size else None
        self.ranges.append(ends)
        if ends is not None:
            self.total, self.count = self.total + float(finite_numbers.sum()), self.count + finite_numbers.size
            self.low, self.high = min(self.low, ends[0]), max(self.high, ends[1])
            # Some of the numbers stay for the histogram, so that long runs take bounded memory.
            self.kept.append(finite_numbers[:: self.stride])
        self._thin()

    def _thin(self) -> None:
        """Keep no more elements than ``MOST_KEPT`` of what is computed again and again: every second, fourth … of all its arrays."""
        # What is kept is thinned as later arrays are: each kept element stands for as many, and the histogram stays true to all of them.
        while self.times > 1 and sum(array.size for array in self.kept) > MOST_KEPT:
            self.stride *= 2
            self.kept = [np.concatenate(self.kept)[::2]]

    def summary(self) -> Json:
        """The smallest, the largest and the mean of the finite numbers, and their histogram; how many are nan, infinite, zero, and in all.

        For values computed more than once, also how often, and the ranges of the times.
        """
        counts: list[Json] = [self.nans, self.infinities, self.zeros, self.size]
        if self.times > 1:
            counts += [self.times, self._stretches()]
        if not self.count:
            return [None, None, None, [], *counts]
        finite = np.concatenate(self.kept)
        bins = np.histogram(finite, BINS, (self.low, self.high))[0].tolist() if self.high > self.low else [int(finite.size)]
        return [_short(self.low), _short(self.high), _short(self.total / self.count), bins, *counts]

    def _stretches(self) -> Json:
        """The ranges, of as many stretches of the times as are shown; null where nothing is finite."""
        bounds = np.linspace(0, self.times, min(self.times, MOST_RANGES) + 1).astype(int)
        stretches = [[ends for ends in self.ranges[a:b] if ends is not None] for a, b in pairwise(bounds)]
        return [
            [_short(min(low for low, _ in ranges)), _short(max(high for _, high in ranges))] if ranges else None for ranges in stretches
        ]


# -- what it runs on -------------------------------------------------------------------------------


def _given(graph: Graph, feed: Mapping[str, object]) -> tuple[list[str], Scope, dict[str, Array]]:
    """The parameters drawn at random, the scope with all parameters, and the arrays of all inputs."""
    names = {value.name for value in graph.inputs}
    for name in feed:
        if name not in names:
            raise InvalidValue(f"the feed has {name!r}, which is no input of the program{did_you_mean(name, names)}")
    rng, scope, random_names = np.random.default_rng(_SEED), Scope(), []
    arrays = {name: np.asarray(array) for name, array in feed.items()}
    for value in graph.inputs:
        if value.persistable:
            if value.name not in arrays:
                arrays[value.name] = _random(value, rng)
                random_names.append(value.name)
            scope.set(value.name, arrays[value.name])
    return random_names, scope, arrays


def _random(value: Value, rng: np.random.Generator) -> Array:
    """Small numbers; what an optimizer divides by stays away from 0."""
    shape = [1 if extent < 0 else extent for extent in value.shape or ()]
    return np.asarray(rng.uniform(0.01, 0.1, shape)).astype(value.dtype or "float32")


def _short(number: float) -> float:
    return float(f"{number:.6g}")
