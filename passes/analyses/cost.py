"""The cost of a graph: floating-point operations, bytes moved, and the peak memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import GraphadError, InvalidValue
from graphad.ir import Graph, Op, Value
from graphad.ir.regions import Edge, is_loop
from graphad.ops import GRAD, GradOpDef, OpDef
from graphad.ops.definition import did_you_mean
from graphad.ops.symbol import TypedSymbol
from graphad.passes.analyses.liveness import Liveness
from graphad.passes.analyses.trip_counts import trip_count
from graphad.program import EMPTY
from graphad.rewriting import Analysis
from graphad.rewriting.dataflow import Dataflow, Facts
from graphad.types import STEP_SCOPES, Extent, Shape, Sizes, Tensor, TensorType

# -- shapes for one size of the batch --------------------------------------------------------------
# The shapes that values have for one size of the batch, or of each extent that has a name.
#
#     x: [-1, 8] ─▶ split into 2 ─▶ a: [-1, 8]  ─▶ mul w: [8, 3] ─▶ y: [-1, 3]         as declared
#     x: [64, 8] ─▶ split into 2 ─▶ a: [32, 8]  ─▶ mul w: [8, 3] ─▶ y: [32, 3]         for a batch of 64
#
# The batch is put in at what is given from outside; the inference of each operator says what becomes of it.

Shapes = Mapping[Value, Shape]


def extents(graph: Graph, batch: Sizes) -> dict[Value, Shape]:
    """The shapes of the values of a graph, and of those nested in it, without unknown extents; values of unknown rank are left out.

    Where inference does not say what an extent is, it is that of its name, or that of an input of the operator that is unknown at the
    same axis, else the batch.

    Raises:
        ValueError: a size is below 1; no value of the graph has an extent of a name.
    """
    shapes: dict[Value, Shape] = {}
    sizes = _sizes(graph, batch)
    facts = Extents(sizes).of(graph)
    for value in (value for subgraph in graph.tree() for value in subgraph.values):
        shape = _filled(value.shape, sizes) if facts[value] is None else facts[value]
        if shape is not None:
            shapes[value] = shape
    return shapes


class _Sizes(NamedTuple):
    """The numbers of extents: by their names, and of those without."""

    batch: int
    named: tuple[tuple[str, int], ...]

    def of(self, extent: int) -> int | None:
        """The number of an extent that has a name, None of another one."""
        return next((size for name, size in self.named if name == extent.name), None) if isinstance(extent, Extent) else None


def _names(graph: Graph) -> set[str]:
    values = (value for subgraph in graph.tree() for value in subgraph.values)
    return {extent.name for value in values for extent in value.shape or () if isinstance(extent, Extent)}


def _sizes(graph: Graph, batch: Sizes) -> _Sizes:
    sizes_by_name = dict(batch) if isinstance(batch, Mapping) else {}
    sizes = _Sizes(sizes_by_name.get("batch", 1) if isinstance(batch, Mapping) else batch, tuple(sorted(sizes_by_name.items())))
    for name, size in [("a batch", sizes.batch), *sizes.named]:
        if size < 1:
            raise InvalidValue(f"{name} has 1 sample at least, not {size}")
    names = _names(graph) if sizes_by_name else set()
    unknown = [name for name in sizes_by_name if name not in names and name != "batch"]
    if unknown:
        raise InvalidValue(f"no extent has the name {unknown[0]!r}{did_you_mean(unknown[0], names)}")
    return sizes


def bytes_of(value: Value, shapes: Shapes) -> int:
    """The bytes of a tensor of these shapes; 0 if its type is not known."""
    return 0 if value not in shapes or value.dtype is None else prod(shapes[value]) * np.dtype(value.dtype).itemsize


def _cotangents(
    definition: GradOpDef, inputs: Mapping[str, Sequence[TensorType]], attrs: Mapping[str, object], slots: Sequence[str]
) -> dict[str, list[TensorType]]:
    """The types of the gradients of what a grad operator does not read: by its rules, applied to types."""
    if definition.forward is None or definition.forward.grads is None:
        return {}
    # Rules are written over operators, so that types go through them as numbers do.
    symbols = {slot: [_Typed(type) for type in types] for slot, types in inputs.items()}
    cotangents = definition.meaning(symbols, attrs, slots)
    return {slot: [v.type for v in values] for slot, values in cotangents.items() if all(isinstance(v, _Typed) for v in values)}


class _Typed(TypedSymbol):
    """A tensor known by its type alone: operators applied to it infer the types of their results."""

    __slots__ = ()

    def emit(self, op: OpDef, inputs: Sequence[object], attrs: Mapping[str, object]) -> Tensor:
        slots = {slot: [v.type for v in _listed(x)] for slot, x in zip(op.inputs, inputs, strict=False) if x is not None}
        types = op.infer_types(slots, attrs)
        outputs = [(slot, [*map(_Typed, types[slot.name])]) for slot in op.outputs.values() if not slot.optional]
        results = [item if slot.variadic else item[0] for slot, item in outputs]
        return results[0] if len(results) == 1 else tuple(results)


def _listed(x: object) -> Sequence[Any]:
    return x if isinstance(x, list | tuple) else [x]


@dataclass(frozen=True)
class Extents(Dataflow[Shape | None]):
    """The shapes of values for one size of the batch. An estimate: of branches the larger one counts, of loops the first iteration."""

    sizes: _Sizes
    # Not a claim but an estimate: with ``delay`` 0 the first iteration's shape stays, whatever comes round.
    bottom, top, delay = None, None, 0

    def join(self, a: Shape | None, b: Shape | None) -> Shape | None:
        return tuple(map(max, a, b)) if a is not None and b is not None and len(a) == len(b) else a

    def widen(self, before: Shape | None, after: Shape | None) -> Shape | None:
        return before

    def along(self, edge: Edge, fact: Shape | None) -> Shape | None:
        return fact

    def boundary(self, value: Value) -> Shape | None:
        return _filled(value.shape, self.sizes)

    def transfer(self, op: Op, facts: Facts[Shape | None]) -> dict[Value, Shape | None]:
        # Declared shapes are cheaper than inference, and right: only what depends on the batch is inferred.
        is_known = not any(value.shape is None or -1 in value.shape for value in op.writes())
        types_by_slot = {} if is_known else _inferred(op, facts)
        beside = [(v.shape, shape) for v in op.reads() if v.shape is not None and (shape := facts[v]) is not None]
        output_shapes: dict[Value, Shape | None] = {}
        for slot, values in op.outputs.items():
            types: Sequence[TensorType | None] = types_by_slot.get(slot) or [None] * len(values)
            for value, type in zip(values, types, strict=False):
                output_shapes[value] = _filled(value.shape if type is None else type.shape, self.sizes, beside)
        return output_shapes


def _inferred(op: Op, facts: Facts[Shape | None]) -> dict[str, list[TensorType]]:
    """The inferred types of the results, empty where the operands do not determine them."""
    definition = op.definition
    input_types = {
        slot: [TensorType(shape, v.dtype) for v in values if (shape := facts[v]) is not None and v.dtype is not None]
        for slot, values in op.inputs.items()
    }
    # A single operand of which the shape is not known makes the results unknown: there is no partial inference.
    if definition is None or any(len(input_types[slot]) < len(values) for slot, values in op.inputs.items()):
        return {}
    attrs = definition.own_attrs(op.attrs)
    try:
        types = definition.infer_types(input_types, attrs)
        if isinstance(definition, GradOpDef):
            types |= _cotangents(definition, input_types, attrs, [slot for slot in op.outputs if slot not in types])
        return types
    except GraphadError:
        return {}


def _filled(shape: Shape | None, given: _Sizes, beside: Sequence[tuple[Shape, Shape]] = ()) -> Shape | None:
    """A shape with numbers for unknown extents: those of their names, or that were put in beside it at the same axis, else the batch."""
    if shape is None or -1 not in shape:
        return shape
    sizes = []
    for axis, extent in enumerate(shape):
        # An unknown extent is, in this order: what its name says; what stood for an unknown extent of an operand at this axis; the batch.
        candidates = (new[axis] for old, new in beside if axis < len(old) and old[axis] == -1)
        number = given.of(extent)
        sizes.append(number or next(candidates, given.batch) if extent == -1 else extent)
    return tuple(sizes)


# -- operations counted ----------------------------------------------------------------------------
# Floating-point operations: what the textbook counts, one for each addition, product, comparison and function value.

ShapeOf = Callable[[Value], Shape]  # the shape of a value, with the batch size in the place of unknown extents


def flops_of(op: Op, shape: ShapeOf) -> int:
    """The floating-point operations of an operator without blocks, as its definition counts them (``Traits.flops``).

    A grad operator has none of its own: it is as many products as it writes gradients, or two operations for each of their elements, since
    it computes a slope and multiplies by it.
    """
    definition = op.definition
    if isinstance(definition, GradOpDef) and definition.forward is not None:
        return _gradient(op, definition.forward, shape)
    # Of what says nothing: an operation for each element that is written.
    if definition is None or definition.flops is None:
        return sum(prod(shape(value)) for value in op.writes())
    if callable(definition.flops):
        shapes = {slot: [shape(value) for value in values] for slot, values in (*op.inputs.items(), *op.outputs.items())}
        return definition.flops(shapes, _attributes(op, definition))
    elements = next(filter(None, (*op.inputs.values(), *op.outputs.values())), ())
    return definition.flops * sum(prod(shape(value)) for value in elements) if definition.flops else 0


def _attributes(op: Op, definition: OpDef) -> dict[str, object]:
    return {name: definition.attr(name, op.attrs) for name in definition.attrs}


def _gradient(op: Op, forward: OpDef, shape: ShapeOf) -> int:
    gradients = [value for value in op.writes() if value.name != EMPTY]
    if forward.flops == 0:
        return 0
    # The gradients of a product are products of as many multiplications, with the operands exchanged.
    if callable(forward.flops) and forward.narrow == "gains":
        shapes = _forward_shapes(op, forward, shape)
        if shapes is not None:
            return len(gradients) * forward.flops(shapes, _attributes(op, forward))
    return sum(2 * prod(shape(value)) for value in gradients)


def _forward_shapes(op: Op, forward: OpDef, shape: ShapeOf) -> dict[str, list[Shape]] | None:
    """The shapes of the forward operator; None where one of them is neither read nor written by the gradient."""
    shapes: dict[str, list[Shape]] = {}
    # A gradient has the shape of its value. So what is not read is known by the gradient that is written of it, or by its cotangent.
    for slot in (*forward.inputs.values(), *forward.outputs.values()):
        values = op.inputs.get(slot.name) or op.outputs.get(slot.name + GRAD) or op.inputs.get(slot.name + GRAD)
        if values:
            shapes[slot.name] = [shape(value) for value in values]
        elif not slot.optional:
            return None
    return shapes


# -- cost ------------------------------------------------------------------------------------------
# What a graph costs: floating-point operations, bytes moved, and the most memory that is needed at once.
#
# mul(X: [64, 32], Y: [32, 10])       2 * 64 * 32 * 10 flops, (64 * 32 + 32 * 10 + 64 * 10) elements moved


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
    """The cost of one graph.

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


def estimated(graph: Graph, batch: Sizes = 1) -> Cost:
    """The cost of a graph; unknown extents of what it is given are taken to be ``batch``, the others follow by inference.

    Args:
        batch: one number for all of them, or numbers by names: ``{"batch": 32, "sequence": 128}``; those without a name are then as
            the batch, 1 if that is not among them.

    Raises:
        ValueError: a number is below 1; no extent has a name.
    """
    return _Estimate(graph, extents(graph, batch)).cost()


class _Estimate:
    """One graph being looked at."""

    def __init__(self, graph: Graph, shapes: Shapes) -> None:
        self.graph = graph
        self.shapes = shapes
        self.live = Liveness.of(graph)
        self.nested: dict[Graph, Cost] = {}
        self.unknown = 0

    def cost(self) -> Cost:
        """Operator by operator."""
        ops = {op: self.operator(op) for op in self.live.order}
        op_cost = ops.values()
        total = OpCost(sum(c.flops for c in op_cost), sum(c.read for c in op_cost), sum(c.written for c in op_cost))
        sizes = {value: self.size(value) for value in self.graph.values}
        input_bytes = sum(sizes[value] for value in self.graph.inputs)
        return Cost(ops, sizes, self.nested, total, input_bytes, self.peak(sizes, input_bytes), self.unknown)

    def shape(self, value: Value) -> Shape:
        """The shape of a value for the size of the batch; () if its rank is not known."""
        return self.shapes.get(value, ())

    def bytes(self, value: Value) -> int:
        """The bytes of a tensor."""
        return bytes_of(value, self.shapes)

    # -- operators -------------------------------------------------------------------------------

    def operator(self, op: Op) -> OpCost:
        """The cost of an operator."""
        if op.graphs:
            return self.blocks(op)
        if op.definition is not None and op.definition.view:
            return OpCost()
        bytes_read = sum(self.bytes(value) for value in dict.fromkeys(op.reads()))
        return OpCost(flops_of(op, self.shape), bytes_read, sum(self.bytes(value) for value in op.writes()))

    def blocks(self, op: Op) -> OpCost:
        """The cost of an operator with blocks: its body times the trip count, or the more expensive of its branches."""
        inner = [self.block(graph) for graph in op.graphs.values()]
        self.unknown += sum(cost.unknown for cost in inner)
        totals = [cost.total for cost in inner]
        # Each maximum by itself, so an upper bound: the branch with most operations need not move most bytes.
        flops, bytes_read, bytes_written = max(t.flops for t in totals), max(t.read for t in totals), max(t.written for t in totals)
        if not is_loop(op):
            return OpCost(flops, bytes_read, bytes_written)
        trips = trip_count(op)
        self.unknown += trips is None
        times = 1 if trips is None else trips
        return OpCost(flops * times, bytes_read * times, bytes_written * times, trips)

    def block(self, graph: Graph) -> Cost:
        """One run of a nested graph."""
        estimate = self.nested[graph] = _Estimate(graph, self.shapes).cost()
        return estimate

    # -- memory ----------------------------------------------------------------------------------

    def size(self, value: Value) -> int:
        """The bytes that a value has of its own."""
        if value.kind == STEP_SCOPES:
            return self.kept(value)
        self.unknown += value not in self.shapes or value.dtype is None
        return 0 if value in self.live.owner or _is_stand_in(value) else self.bytes(value)

    def kept(self, scopes: Value) -> int:
        """The bytes of the residuals of an operator with blocks: of each run the values that its gradient reads."""
        op = scopes.writer
        if op is None or not op.graphs:
            return 0
        of_a_run = [self.kept_of_run(graph) for graph in op.graphs.values()]
        return max(of_a_run) * (trip_count(op) or 1)

    def kept_of_run(self, graph: Graph) -> int:
        """The bytes that the gradients of a graph read of a run of it, inputs that stay the same included."""
        sizes = self.nested[graph].sizes if graph in self.nested else {}
        return sum(sizes.get(value, 0) for value in graph.residuals)

    def peak(self, sizes: Mapping[Value, int], input_bytes: int) -> int:
        """Go through the schedule: what is written comes, what nothing needs any more goes."""
        ends: list[int] = [0] * (len(self.live.order) + 1)
        for value, end in self.live.last.items():
            if value not in self.live.owner and not value.given:
                ends[end] += sizes[value]
        # A sweep over the schedule: an operator's results come before its operands go.
        size = most = input_bytes
        for place, op in enumerate(self.live.order):
            size += sum(sizes[value] for value in op.writes())
            most = max(most, size + max((self.inside(graph) for graph in op.graphs.values()), default=0))
            size -= ends[place]
        return most

    def inside(self, graph: Graph) -> int:
        """The memory of a nested graph, without its arguments, which count in the graph around."""
        cost = self.nested[graph]
        return cost.peak - cost.given


def _is_stand_in(value: Value) -> bool:
    """Whether a value only has a shape: one element, repeated without memory."""
    definition = value.writers[0].definition if value.writers else None
    return definition is not None and definition.placeholder


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
    for op, op_cost in cost.ops.items():
        names = ", ".join(value.name for value in op.writes())
        yield _row(op_cost, f"{indent}{op.type} -> {names}{_times(op, op_cost)}")
        for graph in op.graphs.values():
            yield from _rows(cost.nested[graph], indent + "  ")


def _row(cost: OpCost, what: str) -> str:
    return f"{short(cost.flops):>8}  {short(cost.read):>8}B  {short(cost.written):>8}B  {cost.intensity:>10.3g}  {what}"


def _times(op: Op, cost: OpCost) -> str:
    if not is_loop(op):
        return ""
    return " (times unknown)" if cost.trips is None else f" ({cost.trips} times)"
