"""What a graph costs: floating-point operations, bytes moved, and the most memory that is needed at once.

mul(X: [64, 32], Y: [32, 10])       2 * 64 * 32 * 10 flops, (64 * 32 + 32 * 10 + 64 * 10) elements moved
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from graphad.errors import InvalidValue
from graphad.graph import Graph, Op, Value
from graphad.graph.regions import is_loop
from graphad.passes.analyses.extents import Extents, bytes_of, extents
from graphad.passes.analyses.formulas import flops_of
from graphad.passes.analyses.liveness import Liveness
from graphad.passes.analyses.trips import trip_count
from graphad.rewriting import Analysis
from graphad.types import STEP_SCOPES, Shape


class OpCost(NamedTuple):
    """One operator, with all that is nested in it: operations, bytes read and written.

    ``trips`` is how often a loop runs; None for what is no loop, and for a loop of which that is not known: it counts once.
    """

    flops: int = 0
    read: int = 0
    written: int = 0
    trips: int | None = None

    @property
    def moved(self) -> int:
        """Bytes read and written."""
        return self.read + self.written

    @property
    def intensity(self) -> float:
        """Operations for each byte moved; 0 where none is."""
        return self.flops / self.moved if self.moved else 0.0


@dataclass(frozen=True)
class Cost(Analysis):
    """What one graph costs.

    Attributes:
        ops: by operator, in the order of the schedule.
        sizes: the bytes of each value; 0 where its type is not known, and for a view, which lies in the memory of another value.
        nested: the costs of the graphs of its operators, one run of each.
        total: all operators together.
        given: bytes of what the graph is given: data and parameters, there all the time.
        peak: the most bytes there are at once, ``given`` included.
        unknown: how many values have no known type, or loops no known number of iterations: the rest is then a lower bound.

    >>> import graphad as ga
    >>> text = "program { block 0 { var x: float32[2, 3] var w: float32[3, 4] var y: float32[2, 4] mul(X=x, Y=w) -> (Out=y) } }"
    >>> cost = Cost.of(ga.lower(ga.Program.parse(text)))
    >>> cost.total.flops, cost.given, cost.peak
    (48, 72, 104)
    """

    ops: dict[Op, OpCost]
    sizes: dict[Value, int]
    nested: dict[Graph, Cost]
    total: OpCost
    given: int
    peak: int
    unknown: int

    @classmethod
    def compute(cls, graph: Graph) -> Cost:
        return estimated(graph)

    def __str__(self) -> str:
        return "\n".join([*_table(self), ""])


def estimated(graph: Graph, batch: int = 1) -> Cost:
    """The cost of a graph; unknown extents of what it is given are taken to be ``batch``, the others follow by inference.

    Raises:
        ValueError: ``batch`` is below 1.
    """
    if batch < 1:
        raise InvalidValue(f"a batch has 1 sample at least, not {batch}")
    return _Estimate(graph, extents(graph, batch)).cost()


class _Estimate:
    """One graph being looked at."""

    def __init__(self, graph: Graph, shapes: Extents) -> None:
        self.graph = graph
        self.shapes = shapes
        self.live = Liveness.of(graph)
        self.nested: dict[Graph, Cost] = {}
        self.unknown = 0

    def cost(self) -> Cost:
        """Operator by operator."""
        ops = {op: self.operator(op) for op in self.live.order}
        each = ops.values()
        total = OpCost(sum(c.flops for c in each), sum(c.read for c in each), sum(c.written for c in each))
        sizes = {value: self.size(value) for value in self.graph.values}
        given = sum(sizes[value] for value in self.graph.inputs)
        return Cost(ops, sizes, self.nested, total, given, self.peak(sizes, given), self.unknown)

    def shape(self, value: Value) -> Shape:
        """The shape of a value for the size of the batch; () if its rank is not known."""
        return self.shapes.get(value, ())

    def bytes(self, value: Value) -> int:
        """The bytes of a tensor."""
        return bytes_of(value, self.shapes)

    # -- operators -------------------------------------------------------------------------------

    def operator(self, op: Op) -> OpCost:
        """What an operator costs."""
        if op.graphs:
            return self.blocks(op)
        if op.row is not None and op.row.view:
            return OpCost()
        read = sum(self.bytes(value) for value in dict.fromkeys(op.reads()))
        return OpCost(flops_of(op, self.shape), read, sum(self.bytes(value) for value in op.writes()))

    def blocks(self, op: Op) -> OpCost:
        """What an operator with blocks costs: its loop so often, or the dearer of its branches."""
        inner = [self.block(graph) for graph in op.graphs.values()]
        self.unknown += sum(each.unknown for each in inner)
        totals = [each.total for each in inner]
        flops, read, written = max(t.flops for t in totals), max(t.read for t in totals), max(t.written for t in totals)
        if not is_loop(op):
            return OpCost(flops, read, written)
        trips = trip_count(op)
        self.unknown += trips is None
        times = 1 if trips is None else trips
        return OpCost(flops * times, read * times, written * times, trips)

    def block(self, graph: Graph) -> Cost:
        """One run of a nested graph."""
        found = self.nested[graph] = _Estimate(graph, self.shapes).cost()
        return found

    # -- memory ----------------------------------------------------------------------------------

    def size(self, value: Value) -> int:
        """The bytes that a value has of its own."""
        if value.kind == STEP_SCOPES:
            return self.kept(value)
        self.unknown += value not in self.shapes or value.dtype is None
        return 0 if value in self.live.owner or _is_stand_in(value) else self.bytes(value)

    def kept(self, scopes: Value) -> int:
        """What an operator keeps for its gradient: of each run the values that the gradient reads."""
        op = scopes.writer
        if op is None or not op.graphs:
            return 0
        of_a_run = [self.kept_of_run(graph) for graph in op.graphs.values()]
        return max(of_a_run) * (trip_count(op) or 1)

    def kept_of_run(self, graph: Graph) -> int:
        """The bytes that the gradients of a graph read of a run of it, inputs that stay the same included."""
        sizes = self.nested[graph].sizes if graph in self.nested else {}
        return sum(sizes.get(value, 0) for value in graph.residuals)

    def peak(self, sizes: Mapping[Value, int], given: int) -> int:
        """Go through the schedule: what is written comes, what nothing needs any more goes."""
        ends: list[int] = [0] * (len(self.live.order) + 1)
        for value, end in self.live.last.items():
            if value not in self.live.owner and not value.given:
                ends[end] += sizes[value]
        now = most = given
        for place, op in enumerate(self.live.order):
            now += sum(sizes[value] for value in op.writes())
            most = max(most, now + max((self.inside(graph) for graph in op.graphs.values()), default=0))
            now -= ends[place]
        return most

    def inside(self, graph: Graph) -> int:
        """What a nested graph needs beside its arguments, which the graph around has."""
        cost = self.nested[graph]
        return cost.peak - cost.given


def _is_stand_in(value: Value) -> bool:
    """Whether a value only has a shape: one element, repeated without memory."""
    return bool(value.writers) and value.writers[0].type == "stand_in"


# -- as text -------------------------------------------------------------------------------------

_UNITS: Sequence[tuple[str, float]] = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def short(number: float) -> str:
    """A number in three digits: ``12.3 M``."""
    for unit, size in _UNITS:
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.3g}"


def _table(cost: Cost) -> Iterator[str]:
    yield f"{'flops':>8}  {'read':>9}  {'written':>9}  {'flops/byte':>10}  operator"
    yield from _rows(cost, "")
    yield _row(cost.total, "total")
    bound = f"; at least: {cost.unknown} types or loops are not known" if cost.unknown else ""
    yield f"given {short(cost.given)}B, most at once {short(cost.peak)}B{bound}"


def _rows(cost: Cost, indent: str) -> Iterator[str]:
    for op, each in cost.ops.items():
        names = ", ".join(value.name for value in op.writes())
        yield _row(each, f"{indent}{op.type} -> {names}{_times(op, each)}")
        for graph in op.graphs.values():
            yield from _rows(cost.nested[graph], indent + "  ")


def _row(cost: OpCost, what: str) -> str:
    return f"{short(cost.flops):>8}  {short(cost.read):>8}B  {short(cost.written):>8}B  {cost.intensity:>10.3g}  {what}"


def _times(op: Op, cost: OpCost) -> str:
    if not is_loop(op):
        return ""
    return " (times unknown)" if cost.trips is None else f" ({cost.trips} times)"
