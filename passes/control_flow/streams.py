"""Operators that a pass may not move to another graph, or may not copy.

Random operators draw from streams of their own, wherever they are: they may move, but a copy would draw the same numbers, and in a
loop each iteration draws anew. An operator that runs once per scope looks for what it wrote in the block that it is in.
"""

from __future__ import annotations

from collections.abc import Iterable

from graphad.graph import Graph, Op


def runs_once(graphs: Iterable[Graph]) -> bool:
    """Whether there is an operator in some graphs, or nested in them, that runs once per scope."""
    return any("run_once" in op.attrs for graph in graphs for each in graph.tree() for op in each.ops)


def holds_bound(graphs: Iterable[Graph]) -> bool:
    """Whether there is an operator that may not be copied: a random one, or one that runs once per scope."""
    return any(is_random(op) or "run_once" in op.attrs for graph in graphs for each in graph.tree() for op in each.ops)


def is_random(op: Op) -> bool:
    """Whether an operator draws random numbers."""
    return op.row is not None and op.row.random
