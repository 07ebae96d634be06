"""Random operators draw from streams that go by the name they write, so an operator may move to another graph only if that stays.

block 1 { d = dropout(x) }  block 2 { d = dropout(y) }      the second is the second of its name: neither moves
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property

from graphad.graph import Graph, Op, Value
from graphad.graph.regions import outcomes
from graphad.graph.regions_copying import name_in


class Streams:
    """The random operators of a graph and of those nested in it, by the names they write."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @cached_property
    def count(self) -> Counter[str]:
        """How many random operators write a name."""
        return Counter(_name(op) for each in self.graph.tree() for op in each.ops if _is_random(op))

    def may_go(self, nested: Graph) -> bool:
        """Whether a nested graph may vanish without others drawing other numbers."""
        return all(_is_random(op) and self.count[_name(op)] == 1 for op in _bound(nested))

    def may_inline(self, op: Op, nested: Graph) -> bool:
        """Whether the operators of a nested graph draw the same numbers in the place of its operator."""
        if not self.may_go(nested):
            return False
        out = {result: value for value, result in zip(outcomes(op), nested.results, strict=True)}
        here = [next(each.writes()) for each in nested.ops if is_bound(each)]
        return all(_keeps_its_name(value, out.get(value), op.graph) for value in here)


def _keeps_its_name(value: Value, out: Value | None, around: Graph) -> bool:
    if out is None:
        return name_in(around, value) == value.name
    return out.name == value.name and out.stop_gradient == value.stop_gradient and value.graph.results.count(value) == 1


def _bound(nested: Graph) -> Iterator[Op]:
    return (op for each in nested.tree() for op in each.ops if is_bound(op))


def is_bound(op: Op) -> bool:
    """Whether it matters under which name, and where, an operator runs: it is random, or runs once per scope."""
    return _is_random(op) or "run_once" in op.attrs


def holds_bound(graphs: Iterable[Graph]) -> bool:
    """Whether there is such an operator in some graphs, or nested in them."""
    return any(True for graph in graphs for _ in _bound(graph))


def _is_random(op: Op) -> bool:
    return op.row is not None and op.row.random


def _name(op: Op) -> str:
    return next(op.writes()).name
