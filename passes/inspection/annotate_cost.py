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
from graphad.passes.analyses.traffic import Mesh, bubble, pipelined, roofline, sent_by
from graphad.rewriting import Pass
from graphad.types import Sizes


@dataclass(frozen=True)
class AnnotateCost(Pass):
    """Give nodes the attributes ``flops``, ``bytes_read``, ``bytes_written``, ``intensity`` and ``bytes``; the graph stays as it is.

    Loops have ``trips`` as well, None where that is not known; ``graph.graph`` has the totals, and ``peak_memory``.

    With a mesh, of the graph that one of its ranks runs: collectives have ``messages`` and ``bytes_sent`` (rings: alpha-beta), all
    operators ``seconds`` (a roofline for the others), and ``graph.graph`` has ``compute``, ``communicate``, ``messages``, ``bytes_sent``.
    Of a stage of a pipeline it has ``stages``, ``micro_batches``, ``bubble``, the share of the step in which the stage waits, if all
    take as long, and ``idle``, the seconds of that.

    Args:
        mesh: the grid of ranks, as ``data=8,model=4``, for what they send to each other.
        alpha, beta, flops, memory: the machines, as of ``graphad.distribution.cost.Mesh``.
        batch: what unknown extents of the data are taken to be; the others follow by inference.
        extents: what those with names are, as ``batch=8,sequence=128``; the others are ``batch``.

    Raises:
        ValueError: an extent is below 1, or the graph has none of its name; the extents or the mesh are not written so, or a rate is
            not above 0.

    >>> import graphad as ga
    >>> text = "program { block 0 { var x: float32[-1, 3] var w: float32[3, 4] var y: float32[-1, 4] mul(X=x, Y=w) -> (Out=y) } }"
    >>> graph = ga.lower(ga.Program.parse(text))
    >>> AnnotateCost(batch=2).run(graph)
    False
    >>> graph.nodes[graph.ops.first]["flops"], graph.nodes[graph.value("y")]["bytes"], graph.graph["peak_memory"]
    (48, 32, 104)
    >>> text = text.replace("-1", "rows")
    >>> graph = ga.lower(ga.Program.parse(text))
    >>> AnnotateCost(extents="rows=4").run(graph)
    False
    >>> graph.nodes[graph.ops.first]["flops"]
    96
    """

    name = "annotate-cost"
    preserves = (Cost,)
    idempotent = True
    is_analysis = True
    batch: int = 1
    mesh: str = ""
    alpha: float = 5e-6
    beta: float = 25e9
    flops: float = 100e12
    memory: float = 2e12
    extents: str = ""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InvalidValue(f"annotate-cost takes a batch of 1 sample at least, not batch={self.batch}")
        self.sizes()  # refuses what is not written so
        self.machines()  # refuses rates that there are not

    def sizes(self) -> Sizes:
        """The numbers of unknown extents: by their names, if any is said."""
        if not self.extents:
            return self.batch
        pairs = [pair.partition("=") for pair in self.extents.split(",")]
        if not all(name.strip() and number.strip().isdecimal() and int(number) for name, _, number in pairs):
            raise InvalidValue(f"annotate-cost takes extents as batch=8,sequence=128, not extents={self.extents!r}")
        sizes = {name.strip(): int(number) for name, _, number in pairs}
        return {"batch": self.batch, **sizes}

    def machines(self) -> Mesh | None:
        """The machines; None where no mesh is named."""
        rates = {"alpha": self.alpha, "beta": self.beta, "flops": self.flops, "memory": self.memory}
        return Mesh.of(self.mesh, **rates) if self.mesh else None

    def apply(self, graph: Graph) -> bool:
        cost = estimated(graph, self.sizes())
        _annotate(graph, cost)
        if (mesh := self.machines()) is not None:
            _on_mesh(graph, cost, mesh, self.sizes())
        return False


def _on_mesh(graph: Graph, cost: Cost, mesh: Mesh, batch: Sizes) -> None:
    """The seconds that a rank of a mesh computes and communicates."""
    travels = sent_by(graph, mesh, batch)
    totals = {"compute": 0.0, "communicate": 0.0, "messages": 0, "bytes_sent": 0.0}
    for op, op_cost in cost.ops.items():
        attributes = graph.nodes[op]
        if op in travels:
            seconds = travels[op].seconds(mesh)
            attributes.update({"messages": travels[op].messages, "bytes_sent": travels[op].bytes, "seconds": seconds})
            totals["communicate"] += seconds
            totals["messages"] += travels[op].messages
            totals["bytes_sent"] += travels[op].bytes
        else:
            attributes["seconds"] = roofline(op_cost, mesh)
            totals["compute"] += attributes["seconds"]
    graph.graph.update(totals)
    if (pipeline := pipelined(graph, mesh)) is not None:
        share = bubble(*pipeline)
        busy = totals["compute"] + totals["communicate"]
        # The bubble is a share of the whole time, of which what is busy is the rest.
        graph.graph.update(pipeline._asdict() | {"bubble": share, "idle": busy * share / (1 - share)})


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
