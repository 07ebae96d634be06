"""Marks that an operator may compute into the memory of an input: true of a graph as it is, so any change to the graph drops them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphad.graph.nodes import Op
from graphad.ops.in_place import INPLACE

if TYPE_CHECKING:
    from graphad.graph.graph import Graph


def drop_outdated_marks(graph: Graph) -> bool:
    """Take the marks from a graph that was changed since they were made; return whether there were any."""
    found = False
    if graph.marked != graph.journal.edits:
        for op in graph.ops:
            if INPLACE in op.attrs:
                found = True
                op.attrs = {name: value for name, value in op.attrs.items() if name != INPLACE}
    graph.marked = graph.journal.edits
    return found


def mark(op: Op, value: Any) -> None:
    """Mark an operator, or take its mark away (an empty list); no change of the graph itself."""
    drop_outdated_marks(op.graph)
    attrs = {name: old for name, old in op.attrs.items() if name != INPLACE}
    op.attrs = {**attrs, INPLACE: value} if value else attrs
    op.graph.journal.touch(op)


__all__ = ["INPLACE", "drop_outdated_marks", "mark"]
