"""Write what operators and values cost at their nodes, where networkx, drawings and users find it.

    mul ─▶ y        ⇒        mul {flops: 48, bytes_read: 72, bytes_written: 32, intensity: 0.462} ─▶ y {bytes: 32}

``print(estimated(graph, batch))`` shows the same as a table.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphad.errors import InvalidValue
from graphad.ir import Graph
from graphad.ir.regions import is_loop
from graphad.passes.analyses import Cost, OpCost, estimated
from graphad.rewriting import Pass


@dataclass(frozen=True)
class AnnotateCost(Pass):
    """Give nodes the attributes ``flops``, ``bytes_read``, ``bytes_written``, ``intensity`` and ``bytes``; the graph stays as it is.

    Loops have ``trips`` as well, None where that is not known; ``graph.graph`` has the totals, and ``peak_memory``.

    Args:
        batch: what unknown extents of the data are taken to be; the others follow by inference.

    Raises:
        ValueError: ``batch`` is below 1.

    >>> import graphad as ga
    >>> text = "program { block 0 { var x: float32[-1, 3] var w: float32[3, 4] var y: float32[-1, 4] mul(X=x, Y=w) -> (Out=y) } }"
    >>> graph = ga.lower(ga.Program.parse(text))
    >>> AnnotateCost(batch=2).run(graph)
    False
    >>> graph.nodes[graph.ops.first]["flops"], graph.nodes[graph.value("y")]["bytes"], graph.graph["peak_memory"]
    (48, 32, 104)
    """

    name = "annotate-cost"
    preserves = (Cost,)
    idempotent = True
    is_analysis = True
    batch: int = 1

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InvalidValue(f"annotate-cost takes a batch of 1 sample at least, not batch={self.batch}")

    def apply(self, graph: Graph) -> bool:
        _annotate(graph, estimated(graph, self.batch))
        return False


def _annotate(graph: Graph, cost: Cost) -> None:
    for op, op_cost in cost.ops.items():
        attributes = graph.nodes[op]
        attributes.update(_attributes(op_cost))
        if is_loop(op):
            attributes["trips"] = op_cost.trips
    for value, size in cost.sizes.items():
        graph.nodes[value]["bytes"] = size
    graph.graph.update(_attributes(cost.total) | {"bytes_given": cost.given, "peak_memory": cost.peak})
    for inner, each_cost in cost.nested.items():
        _annotate(inner, each_cost)


def _attributes(cost: OpCost) -> dict[str, float]:
    return {"flops": cost.flops, "bytes_read": cost.read, "bytes_written": cost.written, "intensity": cost.intensity}
