"""Parent operators of nested graphs, and the operators nested in an operator."""

from __future__ import annotations

from collections.abc import Iterator

from graphad.graph import Graph, Op

Owners = dict[Graph, Op]


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
