"""How values get into nested graphs, round loops and out again: what an analysis has to know of an operator with blocks.

    while(X = [h#0, w]) -> (Out = h#1) { graph (h, w) { h2 = h * w } -> h2 }

    ENTRY   h#0 -> h, w#0 -> w      operands become block arguments
    BACK    h2  -> h                results are the arguments of the next iteration
    EXIT    h2  -> h#1              results leave; of branches, those of each
    BYPASS  h#0 -> h#1              a loop that runs no iteration leaves what it was given

Gradients have two more: SAVED, from a value of the forward graph to the argument that stands for it, and SUM, from a result to what
adds up over the iterations of a loop (zeros if there is none). MLIR's ``RegionBranchOpInterface`` says the same of its operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from graphad.graph.nodes import Op, Value
from graphad.graph.regions import LoopLike, operands, outcomes, the_row
from graphad.graph.residuals import residual_inputs

ENTRY, BACK, EXIT, BYPASS, SAVED, SUM = "entry", "back", "exit", "bypass", "saved", "sum"


class Edge(NamedTuple):
    """One way that a value may go: what ``target`` is may be what ``source`` is. ``op`` is the operator with the nested graphs."""

    source: Value
    target: Value
    kind: str
    op: Op


def region_edges(op: Op) -> Iterator[Edge]:
    """All ways of values into the nested graphs of an operator, out of them, and around."""
    given, outs, loop = operands(op), outcomes(op), LoopLike.of(op)
    at = range(len(outs)) if loop is None else loop.carried_at
    for graph in op.graphs.values():
        yield from (Edge(value, inner, ENTRY, op) for value, inner in zip(given, graph.inputs, strict=False))
        yield from (Edge(kept, inner, SAVED, op) for inner, kept in residual_inputs(graph).items())
        for k, (result, out) in enumerate(zip(graph.results, outs, strict=True)):
            yield Edge(result, out, EXIT if k < len(at) else SUM, op)
            if loop is not None and k < len(at):
                yield Edge(result, graph.inputs[at[k]], BACK, op)
                yield Edge(given[at[k]], out, BYPASS, op)


def conditions(op: Op) -> tuple[Value, ...]:
    """The values that decide which nested graph of an operator runs, and how often."""
    found = op.inputs.get(the_row(op).condition, ())
    loop = LoopLike.of(op)
    return (*found, loop.goes_on) if loop is not None and not loop.is_gradient else found
