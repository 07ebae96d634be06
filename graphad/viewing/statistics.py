"""What values are when a graph is run: smallest, largest, mean, a histogram, and how many numbers are nan or infinite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from graphad.errors import InvalidValue
from graphad.execution import Executor, Scope
from graphad.ir import Graph, Op, Value, schedule
from graphad.ops.definition import did_you_mean
from graphad.program import EMPTY
from graphad.types import TENSOR, Array
from graphad.viewing.tables import Json

BINS = 24
_SEED = 0


@dataclass(frozen=True)
class Statistics:
    """Statistics by the number of a value, and a note on what they were taken from."""

    found: dict[int, Json] = field(default_factory=dict)
    note: str = ""

    def joined(self, later: Statistics) -> Statistics:
        """These, and those of a later state for values that are new in it."""
        return Statistics({**later.found, **self.found}, " ".join(dict.fromkeys(filter(None, (self.note, later.note)))))


def statistics(graph: Graph, feed: Mapping[str, object] | None, numbers: Mapping[Op | Value | Graph, int]) -> Statistics:
    """Run a graph on a feed; no statistics without one. The graph is not changed. Values in nested graphs are not among them.

    Raises:
        ValueError: the feed has a name that the graph has not; an array of another shape or dtype; data is missing.
        ExecutionError: an operator failed.
    """
    if feed is None:
        return Statistics()
    copy = graph.clone()
    pairs = [(old, new) for old, new in zip(graph.values, copy.values, strict=True) if new.kind == TENSOR]
    drawn, scope, inputs = _given(copy, feed)
    arrays: dict[int, Array] = {numbers[old]: inputs[new.name] for old, new in pairs if new.given and new.name in inputs}
    fetched = [(old, new) for old, new in pairs if not new.given and new.writers and new.name != EMPTY]
    _name_apart(copy, [new for _, new in fetched])
    copy.targets = {new: None for _, new in fetched}
    names = [new.name for _, new in fetched]
    program = schedule(copy)
    data = {
        name: array
        for name, array in inputs.items()
        if name in program.global_block().vars and not program.global_block().var(name).persistable
    }
    results = Executor().run(program, data, names, scope)
    arrays |= {numbers[old]: np.asarray(array) for (old, _), array in zip(fetched, results, strict=True)}
    note = f"Drawn at random, since the feed does not have them: {', '.join(drawn)}." if drawn else ""
    return Statistics({number: summary(array) for number, array in arrays.items()}, note)


def _given(graph: Graph, feed: Mapping[str, object]) -> tuple[list[str], Scope, dict[str, Array]]:
    """The parameters drawn at random, the scope with all parameters, and the arrays of all inputs."""
    known = {value.name for value in graph.inputs}
    for name in feed:
        if name not in known:
            raise InvalidValue(f"the feed has {name!r}, which is no input of the program{did_you_mean(name, known)}")
    rng, scope, drawn = np.random.default_rng(_SEED), Scope(), []
    arrays = {name: np.asarray(array) for name, array in feed.items()}
    for value in graph.inputs:
        if value.persistable:
            if value.name not in arrays:
                arrays[value.name] = _random(value, rng)
                drawn.append(value.name)
            scope.set(value.name, arrays[value.name])
    return drawn, scope, arrays


def _random(value: Value, rng: np.random.Generator) -> Array:
    """Small numbers; what an optimizer divides by stays away from 0."""
    shape = [1 if extent < 0 else extent for extent in value.shape or ()]
    return np.asarray(rng.uniform(0.01, 0.1, shape)).astype(value.dtype or "float32")


def _name_apart(graph: Graph, values: list[Value]) -> None:
    """Give each value a name of its own, so that all can be fetched."""
    for value in values:
        if len(graph.versions(value.name)) > 1:
            graph.rename(value, graph.values.numbered(value.name, "{}@VALUE@{}"))
            value.var = None


def summary(array: Array) -> Json:
    """Of the finite numbers the smallest, the largest, the mean and a histogram; how many are nan, infinite, zero, and in all.

    >>> summary(np.array([1.0, 3.0, np.nan]))[:3], summary(np.array([1.0, 3.0, np.nan]))[4:]
    ([1.0, 3.0, 2.0], [1, 0, 0, 3])
    """
    numbers = np.asarray(array).astype("float64").ravel()
    finite = numbers[np.isfinite(numbers)]
    counts = [int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum()), int((numbers == 0).sum()), int(numbers.size)]
    if not finite.size:
        return [None, None, None, [], *counts]
    low, high = float(finite.min()), float(finite.max())
    bins = np.histogram(finite, BINS, (low, high))[0].tolist() if high > low else [int(finite.size)]
    return [_short(low), _short(high), _short(float(finite.mean())), bins, *counts]


def _short(number: float) -> float:
    return float(f"{number:.6g}")
