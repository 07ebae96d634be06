"""What passes of a cleanup have in common: the operators touched since a pass ran last, and which operators nested graphs belong to."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from graphad.graph import Graph, Op
from graphad.rewriting.rules import in_graph

_REMEMBERED = 100_000
Owners = dict[Graph, Op]


class Follower:
    """Who follows what is touched in a graph: from the second run on, a pass looks at what changed since the first.

    ``fresh()`` are the operators touched since the last call; None the first time, which stands for all.
    """

    def __init__(self, who: Hashable, graph: Graph) -> None:
        self.journal = graph.journal
        self.key = (who, graph)
        if self.journal.touched is None or len(self.journal.touched) > _REMEMBERED + 8 * _count(graph):
            self.journal.touched, self.journal.followers = [], {}

    def fresh(self) -> list[Op] | None:
        """The operators touched since the last call that are still there, in order, each once."""
        touched, start = self.journal.touched or [], self.journal.followers.get(self.key)
        self.catch_up()
        return None if start is None else [op for op in dict.fromkeys(touched[start:]) if in_graph(op)]

    def catch_up(self) -> None:
        """What was touched so far is not fresh any more."""
        self.journal.followers[self.key] = len(self.journal.touched or ())


def _count(graph: Graph) -> int:
    return sum(len(each.ops) for each in graph.tree()) if graph.controls else len(graph.ops)


def owners_of(graph: Graph) -> Owners:
    """The operator that each nested graph belongs to."""
    return {inner: op for each in graph.tree() for op in each.controls for inner in op.graphs.values()}


def operators_in(op: Op) -> Iterator[Op]:
    """The operators of the graphs nested in one, to any depth."""
    for graph in op.graphs.values():
        for inner in graph.ops:
            yield inner
            if inner.graphs:
                yield from operators_in(inner)
