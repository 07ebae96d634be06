"""Listeners to the changes of a graph: from its second run on, a pass visits only what changed since the first."""

from __future__ import annotations

from collections.abc import Hashable

from graphad.graph import Graph, Op

_REMEMBERED = 100_000  # changed operators that are kept for later passes, at least


def in_graph(op: Op) -> bool:
    """Whether an operator has not been removed."""
    return op.graph.ops.count > 0


def operator_count(graph: Graph) -> int:
    """How many operators a graph and those nested in it have."""
    return sum(len(each.ops) for each in graph.tree()) if graph.controls else len(graph.ops)


class Follower:
    """A cursor in the list of changed operators. If the list gets too long, its start is dropped: then all operators are
    visited anew, and the tables that passes keep about the graph are dropped.

    Args:
        who: the pass, for instance; its next follower goes on where this one was.
        graph: where it works.
    """

    def __init__(self, who: Hashable, graph: Graph) -> None:
        self.journal = graph.journal
        self.key = (who, graph)
        if self.journal.touched is None or len(self.journal.touched) > _REMEMBERED + 8 * operator_count(graph):
            self.journal.touched, self.journal.followers, self.journal.kept = [], {}, {}
        self.touched = self.journal.touched

    def fresh(self) -> list[Op] | None:
        """The operators touched since the last call that are still there, in order, each once; None the first time, for all."""
        start = self.journal.followers.get(self.key)
        self.catch_up()
        return None if start is None else [op for op in dict.fromkeys(self.touched[start:]) if in_graph(op)]

    def catch_up(self) -> None:
        """Mark all changes so far as seen."""
        self.journal.followers[self.key] = len(self.touched)

    def forget(self) -> None:
        """Look at all the next time."""
        self.journal.followers.pop(self.key, None)
