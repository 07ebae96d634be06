"""The order of a graph's operators: theirs, unless one reads what a later one writes."""

from __future__ import annotations

import networkx as nx

from graphad.errors import InvalidGraph
from graphad.graph.nodes import Node, Op


def ordered(graph: nx.MultiDiGraph) -> list[Op]:  # type: ignore[type-arg]
    """The operators of a graph so that each stands behind the writers of what it reads; see ``Graph.ordered_ops``."""
    ops = list(graph.ops)  # type: ignore[attr-defined]
    for i, op in enumerate(ops):
        op.order = i
    if _in_order(ops):
        return ops
    try:
        ops = [n for n in nx.lexicographical_topological_sort(graph, key=_place) if isinstance(n, Op)]
    except nx.NetworkXUnfeasible:
        cycle = " -> ".join(repr(edge[0]) for edge in nx.find_cycle(graph))
        raise InvalidGraph(f"operators wait for one another in a cycle: {cycle}") from None
    for i, op in enumerate(ops):
        op.order = i
    return ops


def _in_order(ops: list[Op]) -> bool:
    """Whether every operator stands behind the writers of what it reads."""
    for op in ops:
        order = op.order
        for values in op.inputs.values():
            for value in values:
                for writer in value.writers:
                    if writer.order >= order:
                        return False
    return True


def _place(node: Node) -> int:
    """Where a node stands: values come first."""
    return node.order if isinstance(node, Op) else -1
