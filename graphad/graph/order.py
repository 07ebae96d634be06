"""The order of a graph's operators: theirs where it works, else the closest topological one."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import networkx as nx

from graphad.errors import InvalidGraph
from graphad.graph.nodes import Op


def ordered(graph: nx.MultiDiGraph) -> list[Op]:  # type: ignore[type-arg]
    """The operators of a graph in topological order; see ``Graph.ordered_ops``."""
    ops = list(graph.ops)  # type: ignore[attr-defined]
    for i, op in enumerate(ops):
        op.order = i
    if _in_order(ops):
        return ops
    ops, count = _sorted(ops), len(ops)
    if len(ops) < count:
        cycle = " -> ".join(repr(edge[0]) for edge in nx.find_cycle(graph))
        raise InvalidGraph(f"operators wait for one another in a cycle: {cycle}")
    for i, op in enumerate(ops):
        op.order = i
    return ops


def _in_order(ops: list[Op]) -> bool:
    """Whether every operator comes after the writers of what it reads."""
    for op in ops:
        order = op.order
        for values in op.inputs.values():
            for value in values:
                for writer in value.writers:
                    if writer.order >= order:
                        return False
    return True


def _sorted(ops: list[Op]) -> list[Op]:
    """The lexicographically first topological order (Kahn's algorithm with a heap), without the operators that wait for a cycle.

    A value is complete once all its writers have run, an operator is ready once all it reads is complete.
    """
    writers = {value: len(value.writers) for op in ops for value in op.writes()}
    missing = {op: sum(value in writers for value in dict.fromkeys(op.reads())) for op in ops}
    ready = [op.order for op in ops if not missing[op]]
    heapify(ready)
    result = []
    while ready:
        op = ops[heappop(ready)]
        result.append(op)
        for value in op.writes():
            writers[value] -= 1
            for reader in value.readers if not writers[value] else ():
                missing[reader] -= 1
                if not missing[reader]:
                    heappush(ready, reader.order)
    return result
