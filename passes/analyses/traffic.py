"""The estimated costs of a step: alpha-beta for collectives, a roofline for operators.

A message of b bytes takes ``alpha + b / beta`` seconds. Collectives go round a ring (Patarasuk and Yuan 2009; Thakur et al. 2005): an
all-reduce of b bytes on n ranks is n - 1 steps that reduce and n - 1 that gather, each of b / n bytes. How many ranks a ring has follows
from the mesh: a ring is the ranks that differ along some of its axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from graphad.errors import InvalidValue
from graphad.ir import Graph, Op, Value
from graphad.ir.regions import has_ordered_effects
from graphad.ops.mesh import ProcessMesh
from graphad.ops.rings import Traveled, collective, communicates, travels
from graphad.passes.analyses.cost import OpCost, bytes_of, extents
from graphad.types import Shape, Sizes


@dataclass(frozen=True)
class Mesh:
    """Machines of one kind, and what connects them.

    Args:
        ranks: how many there are.
        axes: how they lie in a grid, as ``data=8,model=4``, whose size is ``ranks``; "": all in one ring.
        alpha: seconds that a message takes however short it is.
        beta: bytes a second between two neighbours.
        flops: floating-point operations a second of one rank.
        memory: bytes a second between a rank and its memory.

    Raises:
        ValueError: a number is not above 0, or ``alpha`` is below 0.
    """

    ranks: int = 1
    alpha: float = 5e-6
    beta: float = 25e9
    flops: float = 100e12
    memory: float = 2e12
    axes: str = ""

    def __post_init__(self) -> None:
        if self.axes and ProcessMesh.parse(self.axes).size != self.ranks:
            raise InvalidValue(f"a mesh {self.axes} has {ProcessMesh.parse(self.axes).size} ranks, not {self.ranks}")
        if self.ranks < 1 or self.alpha < 0 or min(self.beta, self.flops, self.memory) <= 0:
            raise InvalidValue(f"{self}: ranks are 1 or more, alpha is 0 or more, and rates are above 0")

    @classmethod
    def of(cls, axes: str, **rates: float) -> Mesh:
        """The machines of a grid.

        >>> Mesh.of("data=8,model=4").ranks
        32
        """
        return cls(ranks=ProcessMesh.parse(axes).size, axes=axes, **rates)

    def ring(self, op: Op) -> int:
        """How many ranks take part in a collective."""
        if op.attrs.get("nranks", 1) > 1:
            return int(op.attrs["nranks"])
        number = op.attrs.get("ring_id", 0)
        if not number or not self.axes:
            return self.ranks
        # Bit i of a ring's number says that the ring goes along axis i of the mesh.
        grid = ProcessMesh.parse(self.axes)
        return grid.parts(name for i, name in enumerate(grid.names) if number >> i & 1)


def sends(graph: Graph, mesh: Mesh, shapes: Mapping[Value, Shape]) -> Iterator[tuple[Op, str, int, Traveled]]:
    """The collectives of a graph, outside of loops: each with the type that its cost is, the bytes passed in, and what a rank sends."""
    for op in graph.ops:
        definition = op.definition
        if definition is None or not definition.ordered or not communicates(op.type):
            continue
        size = sum(bytes_of(value, shapes) for value in op.reads())
        type = collective(op.type, op.attrs)
        yield op, type, size, travels(type, size, mesh.ring(op))


def sent_by(graph: Graph, mesh: Mesh, batch: Sizes) -> dict[Op, Traveled]:
    """The bytes that each collective of a graph sends, with unknown extents taken as ``batch``."""
    return {op: traveled for op, _, _, traveled in sends(graph, mesh, extents(graph, batch))}


def roofline(cost: OpCost, mesh: Mesh) -> float:
    """The seconds of an operator: what it computes or what it moves, whichever is longer (Williams et al. 2009)."""
    return max(cost.flops / mesh.flops, cost.moved / mesh.memory)


# -- pipelines -----------------------------------------------------------------------------------

MICRO = "@MICRO@"  # in the names of what a stage computes of a part of the batch, before the part's number


class Pipelined(NamedTuple):
    """A pipeline, as the program of a stage describes it: its number of stages, and of parts of the batch."""

    stages: int
    micro_batches: int


def pipelined(graph: Graph, mesh: Mesh) -> Pipelined | None:
    """The pipeline that a graph is a stage of, as ``pipeline-split`` leaves it; None of any other graph."""
    counts: dict[tuple[str, str], int] = {}
    ranks = 1
    for op in (op for op in graph.ops if "peer" in op.attrs and has_ordered_effects(op)):
        ranks = max(ranks, mesh.ring(op))
        for value in (*op.reads(), *op.writes()):
            # Each message is sent once for each part of the batch, under names that differ in the part's number.
            message = op.type, value.name.rpartition(MICRO)[0] or value.name
            counts[message] = counts.get(message, 0) + 1
    return Pipelined(ranks, max(counts.values())) if counts else None


def bubble(stages: int, micro_batches: int) -> float:
    """The share of a pipeline's time in which a stage waits, for stages of one cost: ``(p - 1) / (m + p - 1)``, by both schedules.

    Huang et al. 2019 (GPipe), Narayanan et al. 2019 (PipeDream).
    """
    return (stages - 1) / (micro_batches + stages - 1)


__all__ = ["MICRO", "Mesh", "Pipelined", "Traveled", "bubble", "pipelined", "roofline", "sends", "sent_by", "travels"]
