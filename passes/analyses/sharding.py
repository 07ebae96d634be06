"""Sharding propagation: how every value is cut over a mesh of ranks, from annotations on some of them.

    x: "data -"  ─▶ mul ─▶ h ─▶ relu ─▶ ...        h: "data model"    from x's rows and w's columns
    w: "- model" ─╯                                 w@GRAD, its moments: "- model"

GSPMD's propagation (Xu et al. 2021, section 3.5): annotations go forward, from what an operator reads to what it writes, and backward,
in turn until nothing changes; through elementwise operators and reshapes first, through broadcasts next, through products and
reductions last, so that what is certain comes before what is a guess. Which dimensions are one index says ``graphad.ops.dimensions``.
Facts go into loops and branches, and out of them, by the dataflow framework. What an annotation says stays, except for dimensions that it
leaves open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from graphad.errors import InvalidGraph
from graphad.ir import Graph, Op, Value
from graphad.ir.regions import KEPT, Edge, has_ordered_effects
from graphad.ops import GradOpDef
from graphad.ops.dimensions import dimensions
from graphad.ops.mesh import ProcessMesh, Spec, local_shape, merged, parse_spec, spec_text, used_axes
from graphad.ops.traits import Dimensions, Labels
from graphad.program import located
from graphad.rewriting.analysis import Analysis
from graphad.rewriting.dataflow import Dataflow, Facts
from graphad.types import FLOATS, TENSOR, Shape

ANNOTATION = "shard_tensor"
SAME, BROADCAST, REDUCED = 0, 1, 2  # the priorities of operators, the first one first
Fixed = tuple[tuple[str, ...] | None, ...]
Slots = Mapping[str, Sequence[Shape]]


def shapes_of(slots: Mapping[str, Sequence[Value]]) -> dict[str, list[Shape]] | None:
    """The shapes by slot; None if the rank of one is not known, or it is no tensor."""
    if any(value.shape is None or value.kind != TENSOR for values in slots.values() for value in values):
        return None
    return {slot: [value.shape or () for value in values] for slot, values in slots.items()}


class Indices:
    """The indices of the operators of a graph as it was, with those nested in it: a partition changes it while it looks at it."""

    def __init__(self, graph: Graph) -> None:
        self.shapes = {op: (shapes_of(op.inputs), shapes_of(op.outputs)) for subgraph in graph.tree() for op in subgraph.ops}
        self.found: dict[Op, Dimensions | None] = {}

    def __getitem__(self, op: Op) -> Dimensions | None:
        """The indices of an operator; None where it has to have everything whole."""
        if op not in self.found:
            self.found[op] = self._of(op)
        return self.found[op]

    def _of(self, op: Op) -> Dimensions | None:
        inputs, outputs = self.shapes[op]
        definition = op.definition
        if definition is None or inputs is None or outputs is None or op.graphs or has_ordered_effects(op):
            return None
        attrs = definition.own_attrs(op.attrs)
        if not isinstance(definition, GradOpDef):
            dims = dimensions(definition, inputs, outputs, attrs)
            return dims if dims is None or not dims.reduced or all(map(partial(_adds_up, op), op.writes())) else None
        # A gradient may not read what its indices are about: they are those of its forward operator.
        forward_shapes = self.shapes.get(op.forward, (None, None)) if op.forward is not None else (None, None)
        return dimensions(definition, inputs, outputs, attrs, (forward_shapes[0] or {}, forward_shapes[1] or {}))


def _adds_up(op: Op, result: Value) -> bool:
    """Whether a reduction's result is that of the results of parts: not if it is cut to integers, or to booleans, at its end."""
    return result.dtype in FLOATS or (result.dtype != "bool" and all(value.dtype == result.dtype for value in op.reads()))


# -- annotations ---------------------------------------------------------------------------------


def annotation_ops(graph: Graph) -> list[Op]:
    """The annotations of a graph and of those nested in it."""
    return [op for subgraph in graph.tree() for op in subgraph.ops if op.type == ANNOTATION and op.attrs.get("shape") is None]


def mesh_of(graph: Graph) -> ProcessMesh | None:
    """The mesh of the annotations; None if there are none.

    Raises:
        InvalidGraph: they name different meshes.
    """
    ops_by_mesh = {str(ProcessMesh.parse(op.attrs["mesh"])): op for op in annotation_ops(graph)}
    if len(ops_by_mesh) > 1:
        (first_mesh, _), (second_mesh, op) = list(ops_by_mesh.items())[:2]
        raise InvalidGraph(located(f"a program lies on one mesh, but it is annotated with {first_mesh} and with {second_mesh}", op.source))
    return ProcessMesh.parse(next(iter(ops_by_mesh))) if ops_by_mesh else None


def _fixed(graph: Graph, mesh: ProcessMesh) -> dict[Value, Fixed]:
    """The dimensions that annotations fix, for the values that they read and write; an axis of one rank cuts nothing.

    Raises:
        InvalidGraph: an annotation is not of as many dimensions as its value.
    """
    dims_by_value: dict[Value, Fixed] = {}
    for op in annotation_ops(graph):
        words = parse_spec(" ".join(op.attrs.get("spec", ())), mesh)
        dims = tuple(None if axes is None else tuple(axis for axis in axes if mesh.parts([axis]) > 1) for axes in words)
        for value in (op.input("X"), op.output("Out")):
            if value.shape is not None and len(dims) != len(value.shape):
                message = f"spec={op.attrs['spec']} says how {len(dims)} dimensions are cut, but {value.name} has {len(value.shape)}"
                raise InvalidGraph(located(message, op.source))
            dims_by_value[value] = dims
    return dims_by_value


# -- propagation ---------------------------------------------------------------------------------


class _Sides(NamedTuple):
    """The operands and results of an operator with their indices, and when facts pass through it."""

    inputs: list[tuple[Value, Labels]]
    outputs: list[tuple[Value, Labels]]
    priority: int


def _sides(graph: Graph, indices: Indices) -> dict[Op, _Sides]:
    """The sides of the operators that facts go through: all rounds of the propagation ask for them."""
    dims_by_op = {op: dims for subgraph in graph.tree() for op in subgraph.ops if (dims := indices[op]) is not None}
    return {
        op: _Sides(_labeled(op.inputs, dims.inputs), _labeled(op.outputs, dims.outputs), _priority(dims)) for op, dims in dims_by_op.items()
    }


def _labeled(slots: Mapping[str, Sequence[Value]], labels: Mapping[str, Sequence[Labels]]) -> list[tuple[Value, Labels]]:
    return [pair for slot, values in slots.items() for pair in zip(values, labels[slot], strict=True)]


@dataclass(frozen=True, eq=False)
class _Propagation(Dataflow[Spec]):
    """Facts about how values lie on the mesh, in one direction; both directions start from what is known so far."""

    mesh: ProcessMesh
    sides: Mapping[Op, _Sides]
    fixed: Mapping[Value, Fixed]
    known: Mapping[Value, Spec]
    priority: int
    bottom, top, sparse = (), (), True

    def join(self, a: Spec, b: Spec) -> Spec:
        return merged(a, b, self.mesh)

    def boundary(self, value: Value) -> Spec:
        return self.known[value]

    def starts(self, graph: Graph) -> Iterable[Value]:
        return list(self.known)

    def along(self, edge: Edge, fact: Spec) -> Spec:
        if edge.kind == KEPT:
            return ()
        return self.allowed(edge.source if self.backward else edge.target, fact)

    def allowed(self, value: Value, spec: Spec) -> Spec:
        """The part of a spec that a value can adopt: that of dimensions which its annotation leaves open, and which have several
        elements."""
        shape = value.shape
        if shape is None or len(shape) != len(spec) or value.kind != TENSOR:
            return ()
        # A dimension of one element has nothing to cut.
        dims = tuple(() if extent in (0, 1) else axes for extent, axes in zip(shape, spec, strict=True))
        if value in self.fixed:
            annotation = self.fixed[value]
            # An axis cuts one dimension of a value: what the annotation has spent is not taken for an open dimension.
            axes_used = {axis for dim in annotation for axis in dim or ()}
            dims = tuple(
                dim if dim is not None else tuple(a for a in axes if a not in axes_used) for dim, axes in zip(annotation, dims, strict=True)
            )
        # A spec that cuts nothing is no fact: the lattice's bottom.
        return dims if any(dims) else ()

    def derived(self, value: Value, labels: Labels, axes: Mapping[object, tuple[str, ...]]) -> Spec:
        """The spec of a value that follows from the axes of its indices; an axis cuts the first dimension that it can."""
        # One axis cuts one dimension: of x in a product with itself both may have its index.
        axes_used: set[str] = set()
        dims = []
        for label in labels:
            dims.append(tuple(axis for axis in axes.get(label, ()) if axis not in axes_used))
            axes_used.update(dims[-1])
        return self.allowed(value, tuple(dims))

    def axes(self, labeled: Iterable[tuple[Value, Labels]], facts: Facts[Spec]) -> dict[object, tuple[str, ...]]:
        """The axes that cut each index, by the values that are said to be cut along it."""
        axes_by_label: dict[object, tuple[str, ...]] = {}
        for value, value_labels in labeled:
            if value not in facts:
                continue
            for label, axes in zip(value_labels, facts[value], strict=False):
                if label is not None and axes_by_label.get(label) != axes:
                    # In the mesh's order, so that the same cut is written the same whichever value said it.
                    axes_by_label[label] = tuple(sorted({*axes_by_label.get(label, ()), *axes}, key=self.mesh.names.index))
        return axes_by_label

    def transfer(self, op: Op, facts: Facts[Spec]) -> Mapping[Value, Spec]:
        sides = self.sides.get(op)
        if sides is None or sides.priority > self.priority:
            return {}
        # Backward facts come from all sides: what one operand's cut says of an index holds for the others too.
        axes = self.axes((*sides.outputs, *sides.inputs) if self.backward else sides.inputs, facts)
        new: dict[Value, Spec] = {}
        for value, labels in (sides.inputs if self.backward else sides.outputs) if axes else ():
            if spec := self.derived(value, labels, axes):
                new[value] = merged(new.get(value, ()), spec, self.mesh)
        return new


class _Backwards(_Propagation):
    backward = True


def _priority(dims: Dimensions) -> int:
    """When facts go through an operator: first where everything has the same indices, then where some are broadcast."""
    labels = [
        {label for label in value_labels if label is not None}
        for side in (dims.inputs, dims.outputs)
        for slot_labels in side.values()
        for value_labels in slot_labels
    ]
    if dims.reduced:
        result_labels = [label for slot_labels in dims.outputs.values() for value_labels in slot_labels for label in value_labels]
        # Facts that would cut a sum come last: they cost a reduction, and another fact may have settled the operator before.
        if any(label not in result_labels for label in dims.reduced):
            return REDUCED
    return SAME if all(value_labels == labels[0] for value_labels in labels) else BROADCAST


@dataclass(frozen=True, eq=False)
class Sharding(Analysis):
    """The sharding of every value on the mesh of the annotations; ``sharding[value]`` is its spec, and printed it is a table.

    Attributes:
        graph: the graph it is about.
        mesh: the mesh; None where nothing is annotated.
        specs: the values that are cut.
        annotated: the values that annotations are about.

    >>> import graphad as ga
    >>> text = '''program { block 0 { var x: float32[8, 4] var w: float32[4, 6] var h: float32[8, 6] var v: float32[8, 4]
    ...     shard_tensor(X=x) -> (Out=v) {mesh="data=2", spec=["data", "-"]} mul(X=v, Y=w) -> (Out=h) } }'''
    >>> print(Sharding.of(ga.lower(ga.Program.parse(text))))
    mesh data=2
    x  [8, 4]  data -  -> [4, 4]  annotated
    v  [8, 4]  data -  -> [4, 4]  annotated
    h  [8, 6]  data -  -> [4, 6]
    """

    graph: Graph
    mesh: ProcessMesh | None
    specs: Mapping[Value, Spec]
    annotated: frozenset[Value] = frozenset()

    @classmethod
    def compute(cls, graph: Graph) -> Sharding:
        mesh = mesh_of(graph)
        if mesh is None:
            return cls(graph, None, {})
        dims_annotated = _fixed(graph, mesh)
        return cls(graph, mesh, propagated(graph, mesh, Indices(graph), dims_annotated), frozenset(dims_annotated))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sharding) and (self.mesh, self.specs) == (other.mesh, other.specs)

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, value: Value) -> Spec:
        # Where nothing is said, a value is whole along all dimensions.
        return self.specs.get(value) or ((),) * len(value.shape or ())

    def __str__(self) -> str:
        return "\n".join([f"mesh {self.mesh}", *self._lines(self.graph, "")]) if self.mesh else "nothing is annotated"

    def _lines(self, graph: Graph, indent: str) -> Iterator[str]:
        assert self.mesh is not None
        for value in graph.values:
            if spec := self.specs.get(value):
                shape = value.shape or ()
                suffix = "  annotated" if value in self.annotated else ""
                yield f"{indent}{value.name}  {list(shape)}  {spec_text(spec)}  -> {list(local_shape(shape, spec, self.mesh))}{suffix}"
        for op in graph.controls:
            for name, subgraph in op.graphs.items():
                yield f"{indent}{op.type} {name}:"
                yield from self._lines(subgraph, indent + "  ")


def propagated(graph: Graph, mesh: ProcessMesh, indices: Indices, fixed: Mapping[Value, Fixed]) -> dict[Value, Spec]:
    """The shardings of the values of a graph and of those nested in it, those that are not cut left out.

    Args:
        fixed: by value what is said of its dimensions: the axes that cut it, or None where propagation may.
    """
    specs: dict[Value, Spec] = {value: spec for value, dims in fixed.items() if any(spec := tuple(axes or () for axes in dims))}
    sides = _sides(graph, indices)
    for priority in sorted({side.priority for side in sides.values()} | {SAME}):
        # Facts are joined with what is known, and no axis is taken away again, so this ends.
        before = None
        while before != specs:
            before = dict(specs)
            for kind in (_Propagation, _Backwards):
                specs = dict(kind(mesh, sides, fixed, specs, priority).solve(graph).items())
                _persist(graph, mesh, fixed, specs)
    return {value: spec for value, spec in specs.items() if used_axes(spec)}


def _persist(graph: Graph, mesh: ProcessMesh, fixed: Mapping[Value, Fixed], known: dict[Value, Spec]) -> None:
    """Join the specs of the first and last version of each persistable value: a run starts with what the last one left."""
    for first in graph.inputs:
        # The scope has one value of a name: what a run leaves is what the next one begins with.
        last = graph.versions(first.name)[-1]
        if not first.persistable or last is first or first.shape != last.shape:
            continue
        spec = merged(known.get(first, ()), known.get(last, ()), mesh)
        for value in (first, last):
            if spec and value not in fixed:
                known[value] = spec


__all__ = ["ANNOTATION", "Indices", "Sharding", "annotation_ops", "mesh_of", "propagated", "shapes_of"]
