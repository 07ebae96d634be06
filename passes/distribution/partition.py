"""Make the program of each rank of a mesh from annotations: smaller tensors, and the collectives between them.

    x: "data -"  ─▶ mul ─▶ h ─▶ mean ─▶ loss ─▶ ... ─▶ w@GRAD ─▶ sgd ─▶ w

      ⇒    x's part ─▶ mul ─▶ h's part ─▶ mean ─▶ scale ─▶ c_allreduce_sum ─▶ loss ─▶ ... ─▶ w@GRAD's part ─▶ c_allreduce_sum ─▶ sgd ─▶ w

GSPMD's partitioner (Xu et al. 2021, sections 3.3 and 4): every rank runs one program over its parts. For each axis of the mesh an operator
is cut along the index for which the fewest bytes have to move. What it reads comes to lie so by a slice, an all-gather or an all-to-all; an
index that its result does not have leaves parts of a sum, which are all-reduced, or reduce-scattered if the result is to be cut along the
same axis. Where an extent cannot be shared out evenly the parts are padded, and the padding is cleared before it could get into a sum. With
weights cut along columns and then along rows this gives Megatron's tensor parallelism (Shoeybi et al. 2019): one all-reduce for
each pair; with weights cut along the axis of the data it gives ZeRO 3 (Rajbhandari et al. 2020): an all-gather before each use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, lcm, prod

import numpy as np

from graphad.errors import Refused
from graphad.ir import Builder, Graph, Op, Value
from graphad.ir.edits import open_sealed
from graphad.ir.regions import KEPT, Edge, LoopLike, conditions, definition_of, operands, results_of
from graphad.ir.residuals import residual_inputs
from graphad.ops import GRAD, GradOpDef, lookup
from graphad.ops.mesh import SPEC, ProcessMesh, Spec, local_extent, local_shape, spec_text, used_axes, words_of
from graphad.ops.traits import Dimensions, Label, Labels
from graphad.passes.analyses.sharding import ANNOTATION, Indices, Sharding
from graphad.passes.analyses.uninitialized import Certain
from graphad.passes.distribution.ranks import interpose
from graphad.passes.distribution.shard import Shard
from graphad.passes.distribution.shard_optimizer import is_by_element
from graphad.program import EMPTY, located
from graphad.rewriting import OnTrial, Pass
from graphad.rewriting.dataflow import Dataflow, Facts
from graphad.types import FLOATS, TENSOR, Shape, Tensor

Cuts = Mapping[Label, tuple[str, ...]]  # the axes that an operator is cut along, by index
GUESSED = 64  # places of a dimension of which the extent is not known


@dataclass(frozen=True)
class Partition(Pass):
    """Make the program that each rank of the annotations' mesh runs, with its parts of the tensors.

    Each rank is given its part of what is cut (``graphad.distribution.split_arrays``), and keeps its part of what persists
    (``whole_state`` puts parts together). Requested values are whole on every rank. Random numbers are drawn whole, as one process does.
    Of an operator of which nothing is known every rank computes the whole. Extents that are not known have to be the same on all ranks,
    and a dimension of one is cut only where what is fed in parts says that the ranks share it evenly, or an annotation does: the run
    refuses others.

    Args:
        mesh, spec: as of ``shard``, which runs first if a mesh is named.

    Raises:
        Refused: nothing is annotated; there are collectives already, parts, or annotations of another mesh.

    >>> import graphad as ga
    >>> text = "program { block 0 { var x: float32[8, 4] var w: float32[4, 6] var h: float32[8, 6] mul(X=x, Y=w) -> (Out=h) } }"
    >>> graph = ga.lower(ga.Program.parse(text))
    >>> Partition(mesh="model=2", spec=("x: - model",)).run(graph)
    True
    >>> [op.type for op in graph.ordered_ops()]
    ['shard_tensor', 'shard_tensor', 'mul', 'c_allreduce_sum']
    """

    name = "partition"
    tolerance = 1e-5
    on_trial = OnTrial(after_backward=True, goes_by_names=True)
    mesh: str = ""
    spec: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.mesh:
            Shard(self.mesh, self.spec).__post_init__()

    @property
    def group(self) -> int:
        return ProcessMesh.parse(self.mesh).size if self.mesh else 1

    def apply(self, graph: Graph) -> bool:
        open_sealed(graph)
        for op in (op for subgraph in graph.tree() for op in subgraph.ops if op.definition is not None and op.definition.ordered):
            raise Refused(located(f"{op!r} is a collective already: partition takes the program of one process", op.source))
        for op in (op for subgraph in graph.tree() for op in subgraph.ops if op.type == ANNOTATION):
            disagrees = self.mesh and str(ProcessMesh.parse(op.attrs["mesh"])) != str(ProcessMesh.parse(self.mesh))
            if disagrees or op.attrs.get("shape") is not None:
                raise Refused(located(f"{op!r} says how a tensor lies on the mesh {op.attrs['mesh']} already", op.source))
        if self.mesh:
            Shard(self.mesh, self.spec).apply(graph)
        sharding = Sharding.of(graph)
        if sharding.mesh is None:
            raise Refused("nothing is annotated with a mesh: shard{mesh=..., spec=[...]} does so")
        if not graph.allows("partition"):
            return bool(self.mesh)
        _Partition(graph, sharding.mesh, sharding).run()
        return True


class _Partition:
    """A graph while it becomes that of one rank.

    Attributes:
        shape: the shape that a value has in one process.
        spec: how it lies now.
        uncertain: the values that some run may leave without a value.
    """

    def __init__(self, graph: Graph, mesh: ProcessMesh, sharding: Sharding) -> None:
        self.graph, self.mesh = graph, mesh
        self.indices = Indices(graph)
        self.shape: dict[Value, Shape] = {v: v.shape for subgraph in graph.tree() for v in subgraph.values if v.shape is not None}
        self.wanted: dict[Value, Spec] = {v: sharding[v] for subgraph in graph.tree() for v in subgraph.values}
        self.spec: dict[Value, Spec] = {}
        self.laid: dict[tuple[Value, Spec], Value] = {}
        self.names = {value.name for subgraph in graph.tree() for value in subgraph.values}
        # No collective can read what may have no value, so that is whole from the start; and so is what has its name.
        certain = Certain.of(graph).values
        self.uncertain = {value for value in self.wanted if value.kind == TENSOR and value not in certain}
        whole_names = {value.name for value in self.uncertain}
        self.wanted.update((value, self.whole(value)) for value in self.wanted if value.name in whole_names)
        # The cotangent of what is whole too: rows of an unknown number may not be shared out evenly, and what is fed says so first.
        of_whole = (value for value in self.wanted if value.grad_of is not None and value.grad_of.name in whole_names)
        self.wanted.update((value, self.whole(value)) for value in list(of_whole))
        shown = [value for op in graph.ops if op.definition is not None and op.definition.side_effect for value in op.writes()]
        for value in [*graph.targets, *shown, *(v for v in graph.values if v.persistable and graph.is_observed(v))]:
            self.wanted[value] = self._kept(value, sharding)
        self._leave_uneven_whole()

    def _leave_uneven_whole(self) -> None:
        """Cut an extent that is not known only where it is a multiple of the parts: no padding could be told from elements."""
        while any(-1 in self.shape.get(value, ()) and used_axes(spec) for value, spec in self.wanted.items()):
            divisors = _Divisors(self.mesh, self.wanted, self.indices, self.shape, frozenset(self.uncertain)).solve(self.graph)
            evenly = {value: self._evenly(value, divisors[value]) for value in self.wanted}
            uneven = [value for value, spec in self.wanted.items() if evenly[value] != spec]
            if not uneven:
                return
            self.wanted.update(evenly)
            # What is given in parts is left in parts under its name, so it is whole if its last value cannot be cut.
            for value in (value for value in uneven if value.graph is self.graph and not value.given):
                first = self.graph.versions(value.name)[0]
                if first.given and _is_bound(value) and first.shape == value.shape:
                    self.wanted[first] = self.wanted[value]

    def _evenly(self, value: Value, divisors: tuple[int, ...] | None) -> Spec:
        """The requested spec of a value, without the cuts of unknown extents that the ranks may not share evenly."""
        spec, shape = self.wanted[value], self.shape.get(value, ())
        known_divisors = divisors if divisors and len(divisors) == len(shape) else (1,) * len(shape)
        return tuple(
            () if extent == -1 and divisor % self.mesh.parts(axes) else axes
            for axes, extent, divisor in zip(spec, shape, known_divisors, strict=True)
        )

    def _kept(self, value: Value, sharding: Sharding) -> Spec:
        """The spec of a value that is requested, or persists: whole, unless it has the name of an input, whose spec it has then."""
        first = self.graph.versions(value.name)[0]
        if first.given:
            return self.wanted[first] if first.shape == value.shape else self.whole(value)
        return self.wanted[value] if value.persistable and value in sharding.annotated else self.whole(value)

    def run(self) -> None:
        """Go through the graph."""
        graph = self.graph
        first = graph.ops.first
        for value in list(graph.inputs):
            self.settle(value, self.wanted[value])
        self.block(graph)
        # Only when all is cut: until then a sum may still get another reader.
        for subgraph in graph.tree():
            for op in subgraph.ordered_ops():
                _reduce_later(op)
        self.redeclare()
        for value in (value for subgraph in graph.tree() for value in subgraph.values):
            if value.grad_of is not None and value.grad_of.shape != value.shape:
                value.grad_of = None  # a rank may have the whole of one and a part of the other
        for value in list(graph.inputs):
            if used_axes(self.spec[value]) and not _is_declared(value):
                self.declare(value, first)
        for value in (value for subgraph in graph.tree() for value in subgraph.values if value in self.spec):
            value.graph.nodes[value][SPEC] = spec_text(self.spec[value])  # for drawings

    def whole(self, value: Value) -> Spec:
        """The layout of a value that every rank has whole."""
        return ((),) * len(self.shape.get(value, ()))

    def settle(self, value: Value, spec: Spec) -> None:
        """A value lies so from here on."""
        self.spec[value] = spec
        if used_axes(spec):
            value.graph.set_type(value, local_shape(self.shape[value], spec, self.mesh), value.dtype)

    def redeclare(self) -> None:
        """Declare variables as a rank has them. Values of one name that lie in different ways get names of their own."""
        by_variable: dict[tuple[object, str], list[Value]] = {}
        for value in (value for subgraph in self.graph.tree() for value in subgraph.values if value.name != EMPTY):
            # What a pass has made has no variable yet; it gets one, by its name.
            block = value.graph if value.var is None else value.var.block
            by_variable.setdefault((block, value.name), []).append(value)
        for values in by_variable.values():
            bound = [value for value in values if value.graph is self.graph and _is_bound(value)]
            first = (bound or values)[0]
            for value in values:
                graph = value.graph
                # Of an unknown extent the declared shape is that of the whole and of its parts.
                is_other = value.shape != first.shape or self.spec.get(value) != self.spec.get(first)
                if is_other and value not in bound and not value.given:
                    graph.rename(value, self.fresh(value.name))
                    value.var = None
                elif value.var is not None and value.shape is not None and value.var.declared[0] != value.shape:
                    graph.redeclare(value, value.shape, value.dtype)

    def fresh(self, name: str) -> str:
        """A name for a part of a value, which no graph has: a loop writes what its body yields under the name of its result."""
        number = 0
        while f"{name}@PART@{number}" in self.names:
            number += 1
        self.names.add(f"{name}@PART@{number}")
        return f"{name}@PART@{number}"

    def declare(self, value: Value, before: Op | None) -> None:
        """Let the program say what whole this rank's part belongs to."""
        graph = self.graph
        readers = list(value.readers)
        copy = graph.add_value(self.fresh(value.name), value.shape, value.dtype)
        attrs = {"mesh": str(self.mesh), "spec": words_of(self.spec[value]), "shape": list(self.shape[value])}
        op = graph.add_op(ANNOTATION, {"X": [value]}, {"Out": [copy]}, attrs, before)
        for reader in (reader for reader in readers if reader is not op):
            reader.graph.replace_input(reader, value, copy)

    # -- operators -------------------------------------------------------------------------------

    def block(self, graph: Graph) -> None:
        """The operators of a graph, in their order."""
        for op in list(graph.ordered_ops()):
            if op.graphs:
                self.control(op)
            elif op.type == ANNOTATION and op.attrs.get("shape") is None:
                self.annotation(op)
            else:
                self.operator(op)

    def annotation(self, op: Op) -> None:
        """An annotation becomes the declaration of a part."""
        out = op.output("Out")
        op.graph.set_inputs(op, "X", [self.as_laid(op.input("X"), self.wanted[out], op)])
        op.graph.set_attr(op, "spec", words_of(self.wanted[out]))
        op.graph.set_attr(op, "shape", list(self.shape[out]))
        self.settle(out, self.wanted[out])

    def operator(self, op: Op) -> None:
        """An operator without blocks."""
        plan = self.plan(op)
        dims, cuts = plan.found, plan.cuts
        for slot, values in list(op.inputs.items()):
            read_labels = dims.inputs[slot] if dims is not None else [()] * len(values)
            self.read(
                op, slot, [self.operand(op, value, value_labels, plan) for value, value_labels in zip(values, read_labels, strict=True)]
            )
        # Attributes that are shapes say the extents of the whole: each rank has those of its part.
        for name, labels in dims.shapes.items() if dims is not None and cuts else ():
            sizes = op.attrs.get(name)
            if isinstance(sizes, list | tuple) and len(sizes) == len(labels):
                # -1 and 0 are no extents: an operator infers them, or copies them from what it reads, which is a part already.
                local = [e if e < 1 else local_extent(e, self.mesh.parts(cuts.get(i, ()))) for e, i in zip(sizes, labels, strict=True)]
                op.graph.set_attr(op, name, local)
        for slot, values in list(op.outputs.items()):
            labels_of_slot = dims.outputs[slot] if dims is not None else [()] * len(values)
            for value, value_labels in zip(values, labels_of_slot, strict=True):
                if value.name != EMPTY:
                    self.write(op, value, self.lies(value, value_labels, cuts), plan.reduced(value_labels), plan.scale)

    def plan(self, op: Op) -> _Plan:
        """The plan to cut an operator."""
        definition, dims = op.definition, self.indices[op]
        # Random numbers are drawn whole, so that they are those of one process; an update with a norm in it needs the whole as well.
        is_whole = definition is None or definition.random or (definition.state is not None and not is_by_element(op))
        if dims is None or is_whole or not self.uncertain.isdisjoint(op.reads()):
            return _Plan(None, {}, {}, 1.0)
        tensors = _tensors(op, dims)
        extents: dict[Label, set[int]] = {}
        for value, value_labels in tensors:
            for label, extent in zip(value_labels, self.shape[value], strict=True):
                extents.setdefault(label, set()).add(extent)
        cuts = self.chosen(op, dims, extents)
        scale = 1.0
        for label in (label for label in cuts if dims.reduced.get(label) == "mean"):
            parts, extent = self.mesh.parts(cuts[label]), max(extents[label])
            scale *= 1.0 / parts if extent == -1 else local_extent(extent, parts) / extent  # a part's mean counts its padding
        padded_extents = {
            label: max(extents[label]) for label in cuts if any(e % self.mesh.parts(cuts[label]) for e in extents[label] if e != -1)
        }
        lacking = {
            label
            for label in padded_extents
            if any(label not in value_labels for slot_labels in dims.outputs.values() for value_labels in slot_labels)
        }
        return _Plan(dims, cuts, {label: padded_extents[label] for label in lacking}, scale)

    def lies(self, value: Value, labels: Labels, cuts: Cuts) -> Spec:
        """The spec of a value whose dimensions are cut as their indices are."""
        return tuple(cuts.get(label, ()) for label in labels) if labels else self.whole(value)

    def operand(self, op: Op, value: Value, labels: Labels, plan: _Plan) -> Value:
        """A value as an operator reads it: cut along its indices, without padding where that would get into a sum."""
        laid = self.as_laid(value, self.lies(value, labels, plan.cuts), op)
        for axis, label in enumerate(labels):
            if label in plan.cleared and value.dtype != "bool":
                axes = plan.cuts[label]
                attrs = {"axis": axis, "extent": plan.cleared[label], "ring_id": self.mesh.ring(axes), "nranks": self.mesh.parts(axes)}
                laid = lookup("c_clear_padding")(self.build(op, laid).symbol(laid), **attrs).value
        return laid

    # -- what an operator is cut along -----------------------------------------------------------

    def chosen(self, op: Op, dims: Dimensions, extents: Mapping[Label, set[int]]) -> Cuts:
        """For each axis of the mesh the index along which it cuts an operator: that for which the fewest bytes move."""
        cuts: dict[Label, tuple[str, ...]] = {}
        for axis in self.mesh.names:
            is_cut = any(axis in used_axes(self.spec[value]) for value in op.reads() if value in self.spec)
            if not is_cut and not any(axis in used_axes(self.wanted[value]) for value in op.writes() if value in self.wanted):
                continue
            labels = self.along(op, dims, axis)
            able = [label for label in labels if self._may_cut(op, dims, extents[label], label, (*cuts.get(label, ()), axis))]
            costs = {label: self.moved(op, dims, axis, label) for label in [*able, None]}
            # Of equal costs the first one: a cut rather than none.
            best = min(costs, key=lambda label: costs[label])
            if best is not None:
                cuts[best] = (*cuts.get(best, ()), axis)
        return cuts

    def along(self, op: Op, dims: Dimensions, axis: str) -> list[Label]:
        """The indices that an axis cuts in what an operator reads, or in what its results are to be."""
        specs = [
            (self.spec[v], value_labels)
            for slot, values in op.inputs.items()
            for v, value_labels in zip(values, dims.inputs[slot], strict=True)
        ]
        specs += [
            (self.wanted[v], value_labels)
            for slot, values in op.outputs.items()
            for v, value_labels in zip(values, dims.outputs[slot], strict=True)
        ]
        labels = [
            label
            for spec, value_labels in specs
            for axes, label in zip(spec, value_labels, strict=True)
            if axis in axes and label is not None
        ]
        # The mean of integers is cut to a whole number, and so would be that of each part.
        whole = any(value.dtype not in FLOATS for value in op.writes())
        return [label for label in dict.fromkeys(labels) if not (whole and dims.reduced.get(label) == "mean")]

    def _may_cut(self, op: Op, dims: Dimensions, extents: set[int], label: Label, axes: tuple[str, ...]) -> bool:
        parts = self.mesh.parts(axes)
        # Padding must not meet real elements: dimensions of one index are padded alike only if they have one extent. Zeros are no
        # neutral elements of a maximum or minimum, nor in a sum over slopes: 0 / 0 is not 0.
        even = all(extent == -1 or extent % parts == 0 for extent in extents)
        if label in dims.even or dims.reduced.get(label) in ("max", "min") or (label in dims.reduced and _is_steep(op)):
            return even
        return even or len(extents) == 1

    def moved(self, op: Op, dims: Dimensions, axis: str, label: Label | None) -> float:
        """The bytes that an operator moves on each rank if an axis cuts it along an index, and those of work that is not shared."""
        bytes_moved, parts = 0.0, self.mesh.parts([axis])
        for slot, values in op.inputs.items():
            for value, value_labels in zip(values, dims.inputs[slot], strict=True):
                bytes_moved += self.size(value) * _gathered(self.spec[value], axis, value_labels, label, parts)
        for slot, values in op.outputs.items():
            for value, value_labels in zip(values, dims.outputs[slot], strict=True):
                bytes_moved += self.size(value) * self._finished(value, axis, value_labels, label, dims)
        return bytes_moved + (sum(self.size(value) for value, _ in _tensors(op, dims)) if label is None else 0)

    def _finished(self, value: Value, axis: str, labels: Labels, label: Label | None, dims: Dimensions) -> float:
        """The share of a result's bytes that moves until it lies as it is to."""
        parts, target = self.mesh.parts([axis]), self.wanted.get(value, ())
        # In a ring an all-reduce moves 2 (n - 1) / n of the bytes, a reduce-scatter half as many (Patarasuk and Yuan 2009).
        if label is not None and label not in labels and label in dims.reduced:
            return (1 - 1 / parts) * (1 if axis in used_axes(target) else 2)
        if label is None or label not in labels:
            return 0.0
        spec = tuple((axis,) if item == label else () for item in labels)
        return _gathered(spec, axis, [i for i in range(len(target))], _place(target, axis), parts)

    def size(self, value: Value) -> int:
        """The bytes of a tensor in one process."""
        shape = self.shape.get(value, ())
        return prod(GUESSED if extent == -1 else extent for extent in shape) * np.dtype(value.dtype or "float32").itemsize

    # -- reading and writing ---------------------------------------------------------------------

    def build(self, op: Op, value: Value) -> Builder:
        """A builder of operators before another one."""
        return Builder(op.graph, value.name, before=op, role=op.role, forward=op)

    def read(self, op: Op, slot: str, values: Sequence[Value]) -> None:
        if list(op.inputs[slot]) != list(values):
            op.graph.set_inputs(op, slot, values)

    def as_laid(self, value: Value, spec: Spec, op: Op) -> Value:
        """The value in the layout that an operator needs; the operators that move it are added once."""
        if value.kind != TENSOR or self.spec.get(value, spec) == spec:
            return value
        if (value, spec) not in self.laid:
            build = self.build(op, value)
            symbol = self.move(build, build.symbol(value), self.shape[value], self.spec[value], spec)
            self.laid[value, spec] = symbol.value
        return self.laid[value, spec]

    def write(self, op: Op, value: Value, spec: Spec, partial: Mapping[str, str], scale: float) -> None:
        """Bring a result to its final layout from another layout, or from parts of a sum along some axes."""
        target = self.wanted[value]
        if value.kind != TENSOR or value.shape is None:
            self.spec[value] = ()
            return
        graph = op.graph
        if spec == target and not partial and scale == 1.0:
            self.settle(value, target)
            return
        part = graph.add_value(self.fresh(value.name), local_shape(self.shape[value], spec, self.mesh), value.dtype)
        build = Builder(graph, value.name, before=op.next, role=op.role, forward=op)
        symbol = build.symbol(part)
        symbol = symbol if scale == 1.0 else lookup("scale")(symbol, scale=scale)
        # First what is a part of a sum is summed, straight into the cut that is wanted where a reduce-scatter can; then it is moved.
        symbol, spec = self.reduce(build, symbol, self.shape[value], spec, target, partial)
        symbol = self.move(build, symbol, self.shape[value], spec, target)
        self.settle(value, target)
        interpose(value, part, symbol.value)

    def reduce(
        self, build: Builder, tensor: Tensor, shape: Shape, spec: Spec, target: Spec, partial: Mapping[str, str]
    ) -> tuple[Tensor, Spec]:
        """The sum, or the greatest or the least, of parts: in parts, where it is to be cut along the same axes."""
        rest = {axis for axis, kind in partial.items() if kind == "sum"}
        for dim, axes in enumerate(target):
            # Scattered is a dimension that lies as it is to except for axes along which there is a sum to make anyway.
            new_axes = axes[len(spec[dim]) :]
            if not new_axes or spec[dim] != axes[: len(spec[dim])] or not rest.issuperset(new_axes) or not self._is_even(shape[dim], axes):
                continue
            tensor = lookup("c_reducescatter")(tensor, axis=dim, nranks=self.mesh.parts(new_axes), ring_id=self.mesh.ring(new_axes))
            spec = (*spec[:dim], axes, *spec[dim + 1 :])
            rest -= set(new_axes)
        for kind in ("sum", "max", "min"):
            axes_left = [axis for axis in self.mesh.names if partial.get(axis) == kind and (kind != "sum" or axis in rest)]
            if axes_left:
                tensor = lookup(f"c_allreduce_{kind}")(tensor, ring_id=self.mesh.ring(axes_left))
        return tensor, spec

    def _is_even(self, extent: int, *cuts: Sequence[str]) -> bool:
        return extent == -1 or all(extent % self.mesh.parts(axes) == 0 for axes in cuts)

    def move(self, build: Builder, tensor: Tensor, shape: Shape, spec: Spec, target: Spec) -> Tensor:
        """A tensor that lies in one way comes to lie in another one: slices, then all-to-alls, all-gathers, slices."""
        steps = [self._steps(extent, old_axes, goal_axes) for extent, old_axes, goal_axes in zip(shape, spec, target, strict=True)]
        gathered = {axis for axes_left, _ in steps for axis in axes_left}
        position = list(spec)
        # Slices move nothing and make what follows smaller, so they come first, except for axes that another dimension has to give up.
        for dim, (axes_left, new_axes) in enumerate(steps):
            if new_axes and not axes_left and not gathered.intersection(new_axes):
                tensor = self._split(build, tensor, dim, shape[dim], new_axes, position[dim])
                position[dim] = target[dim]
        for dim, (axes_left, _) in enumerate(steps):
            # An axis that goes from one dimension to another: an all-to-all moves 1 / n of what an all-gather would.
            partner = next(
                (
                    d
                    for d, (lost_axes, new_axes) in enumerate(steps)
                    if axes_left and new_axes == axes_left and not lost_axes and position[d] != target[d]
                ),
                None,
            )
            if partner is not None and self._is_even(shape[dim], spec[dim]) and self._is_even(shape[partner], target[partner]):
                attrs = {
                    "split_axis": partner,
                    "concat_axis": dim,
                    "nranks": self.mesh.parts(axes_left),
                    "ring_id": self.mesh.ring(axes_left),
                }
                tensor = lookup("c_recut")(tensor, **attrs)
                position[partner], position[dim] = target[partner], position[dim][: -len(axes_left)]
            elif axes_left:
                tensor = self._gather(build, tensor, dim, shape[dim], axes_left)
                position[dim] = position[dim][: -len(axes_left)]
        for dim, (_, new_axes) in enumerate(steps):
            if new_axes and position[dim] != target[dim]:
                tensor = self._split(build, tensor, dim, shape[dim], new_axes, position[dim])
        return tensor

    def _steps(self, extent: int, one: Sequence[str], other: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The axes along which a dimension is gathered, and those along which it is then cut."""
        common = 0
        while common < min(len(one), len(other)) and one[common] == other[common]:
            common += 1
        if tuple(one) != tuple(other) and not self._is_even(extent, one, other):
            common = 0  # padding lies between the parts
        return tuple(one[common:]), tuple(other[common:])

    def _split(self, build: Builder, tensor: Tensor, dim: int, extent: int, axes: Sequence[str], before: Sequence[str]) -> Tensor:
        parts = self.mesh.parts(axes)
        if extent != -1 and not before and extent % parts:
            padding = local_extent(extent, parts) * parts - extent
            # The ranks' parts are of one size: zeros at the end make the extent divisible.
            amounts = [amount for d in range(len(tensor.shape)) for amount in (0, padding if d == dim else 0)]
            tensor = lookup("pad")(tensor, paddings=amounts)
        return lookup("c_split")(tensor, axis=dim, nranks=parts, ring_id=self.mesh.ring(axes))

    def _gather(self, build: Builder, tensor: Tensor, dim: int, extent: int, axes: Sequence[str]) -> Tensor:
        parts = self.mesh.parts(axes)
        padded_extent = tensor.shape[dim] * parts
        tensor = lookup("c_allgather")(tensor, axis=dim, nranks=parts, ring_id=self.mesh.ring(axes))
        return lookup("slice")(tensor, axes=[dim], starts=[0], ends=[extent]) if -1 != extent < padded_extent else tensor

    # -- operators with blocks -------------------------------------------------------------------

    def control(self, op: Op) -> None:
        """An operator with blocks: what goes in, round and out lies as the analysis says of the block arguments and results."""
        loop, graphs = LoopLike.of(op), list(op.graphs.values())
        places = list(loop.carried_at) if loop is not None else []
        count, outs = len(operands(op)), list(results_of(op))
        arguments = [self.wanted[value] for value in graphs[0].inputs[:count]]
        yielded = [arguments[places[k]] if k < len(places) else self.wanted[out] for k, out in enumerate(outs)]
        if loop is not None and loop.is_gradient:  # what no iteration adds to is zeros in the shape of the operand
            for k, operand in enumerate(op.inputs.get(definition_of(op).operands, ()), len(places)):
                if k < len(outs) and self.shape.get(outs[k]) == self.shape.get(operand):
                    yielded[k] = arguments[k - len(places)]
        self._operands(op, arguments)
        for graph in graphs:
            for value, spec in zip(graph.inputs, arguments, strict=False):
                self.settle(value, spec)
            for value, residual in residual_inputs(graph).items():
                self.settle(value, self.spec[residual])
            inputs = set(graph.inputs)
            self.wanted.update((value, spec) for value, spec in zip(graph.results, yielded, strict=True) if value not in inputs)
            self.block(graph)
            self._results(graph, yielded)
        for out, spec in zip(outs, yielded, strict=True):
            self.write(op, out, spec, {}, 1.0)
        for value in (value for value in op.writes() if value not in self.spec):
            self.spec[value] = ()

    def _operands(self, op: Op, arguments: Sequence[Spec]) -> None:
        """Move the operands of an operator with blocks into the layouts of its block arguments; conditions become whole."""
        definition = definition_of(op)
        # The arguments of the blocks, in order: operands first, and for a gradient the cotangents after them.
        rest = list(arguments)
        for slot in (definition.operands, f"Out{GRAD}") if definition.is_grad else (definition.operands,):
            values = op.inputs.get(slot, ())
            if values:
                self.read(op, slot, [self.as_laid(value, rest.pop(0), op) for value in values])
        deciding = set(conditions(op))
        for slot, values in list(op.inputs.items()):
            if deciding.intersection(values) and slot == definition.condition:
                self.read(op, slot, [self.as_laid(value, self.whole(value), op) for value in values])

    def _results(self, graph: Graph, yielded: Sequence[Spec]) -> None:
        """Move the values that a block yields into the layouts of the results."""
        for place, (value, spec) in enumerate(zip(list(graph.results), yielded, strict=True)):
            if value.kind != TENSOR or self.spec[value] == spec:
                continue
            # The loop or branch expects all that is yielded in one layout, whichever side or iteration it comes from.
            build = Builder(graph, value.name, forward=value.writer)
            result = self.move(build, build.symbol(value), self.shape[value], self.spec[value], spec).value
            self.spec[result], self.shape[result] = spec, self.shape[value]
            graph.journal.edits += 1
            graph.results[place] = result


@dataclass(frozen=True)
class _Divisors(Dataflow[tuple[int, ...]]):
    """The number that divides each unknown extent in all runs, by dimension; 0 where any number divides it so far.

    What is fed in parts is: parts are of one size. An extent of an index is that of whatever else has the index. Of extents that are
    known nothing follows for others: 12 elements may become rows of 4.
    """

    mesh: ProcessMesh
    wanted: Mapping[Value, Spec]
    indices: Indices
    shape: Mapping[Value, Shape]
    uncertain: frozenset[Value]
    bottom, top = None, ()

    def join(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(map(gcd, a, b)) if len(a) == len(b) else ()

    def boundary(self, value: Value) -> tuple[int, ...]:
        return tuple(map(self.mesh.parts, self.wanted[value]))

    def along(self, edge: Edge, fact: tuple[int, ...]) -> tuple[int, ...]:
        # A sum over iterations has the extents of what is added.
        return () if edge.kind == KEPT else fact

    def transfer(self, op: Op, facts: Facts[tuple[int, ...]]) -> Mapping[Value, tuple[int, ...]]:
        dims = self.indices[op]
        if dims is None:
            return {}
        by_label: dict[Label | None, int] = {}
        for slot, values in op.inputs.items():
            for value, labels in zip(values, dims.inputs[slot], strict=True):
                divisors = facts[value] if facts[value] is not None else (0,) * len(labels)
                for label, extent, divisor in zip(labels, self.shape[value], divisors, strict=False):
                    if label is not None and extent == -1:
                        by_label[label] = lcm(by_label.get(label, 1), divisor)
        results = {
            value: tuple(by_label.get(label, 1) for label in labels)
            for slot, values in op.outputs.items()
            for value, labels in zip(values, dims.outputs[slot], strict=True)
        }
        if op.type == ANNOTATION and self.uncertain.isdisjoint(op.reads()):  # it says that the ranks can share what it is about
            out = op.output("Out")
            results[out] = tuple(lcm(one, self.mesh.parts(axes)) for one, axes in zip(results[out], self.wanted[out], strict=True))
        return results


def _is_steep(op: Op) -> bool:
    """Whether an operator is the gradient of one whose slope may be infinite at 0."""
    definition = op.definition
    return isinstance(definition, GradOpDef) and definition.forward is not None and definition.forward.steep


@dataclass(frozen=True)
class _Plan:
    """A plan to cut an operator: along which indices, whose padding is cleared, and what its results are multiplied with."""

    found: Dimensions | None
    cuts: Cuts
    cleared: Mapping[Label, int]
    scale: float

    def reduced(self, labels: Labels) -> dict[str, str]:
        """The axes along which a result is one of several parts, and how these are put together."""
        kinds = self.found.reduced if self.found is not None else {}
        lacking = {label: kinds[label] for label in self.cuts if label not in labels and label in kinds}
        return {axis: "sum" if kind == "mean" else kind for label, kind in lacking.items() for axis in self.cuts[label]}


def _reduce_later(op: Op) -> None:
    """A sum of several all-reduces, of which nothing else reads one, becomes the all-reduce of a sum."""
    definition, reads, results = op.definition, list(op.reads()), list(op.writes())
    if definition is None or len(results) != 1 or not definition.elementwise or definition.offset or len(reads) < 2:
        return
    (out,), writers = results, [value.writer for value in reads]
    first = writers[0]
    # sum f(a, b) = f(sum a, sum b), if f is linear in all that it reads together and adds no constant.
    if first is None or definition.linear != set(op.inputs) or len(set(reads)) < len(reads) or op.type == first.type:
        return
    for value, writer in zip(reads, writers, strict=True):
        alone = (
            len(value.readers) == 1 and not value.graph.is_observed(value) and value not in (*value.graph.results, *value.graph.residuals)
        )
        if writer is None or writer.type != "c_allreduce_sum" or writer.attrs != first.attrs or value.shape != out.shape or not alone:
            return
    parts = {value: writer.input("X") for value, writer in zip(reads, writers, strict=True) if writer is not None}
    for slot, values in list(op.inputs.items()):
        op.graph.set_inputs(op, slot, [parts[value] for value in values])
    total = op.graph.add_value(op.graph.values.numbered(out.name, "{}@PART@{}"), out.shape, out.dtype)
    build = Builder(op.graph, out.name, before=op.next, role=op.role, forward=op)
    interpose(out, total, lookup("c_allreduce_sum")(build.symbol(total), **first.attrs).value)
    for writer in writers:
        if writer is not None:
            op.graph.remove_op(writer)


def _tensors(op: Op, dims: Dimensions) -> list[tuple[Value, Labels]]:
    """The operands and results of an operator, with the indices of each."""
    sides = (op.inputs, dims.inputs), (op.outputs, dims.outputs)
    return [pair for slots, side in sides for slot, values in slots.items() for pair in zip(values, side[slot], strict=True)]


def _place(spec: Spec, axis: str) -> int | None:
    """The dimension that an axis cuts."""
    return next((dim for dim, axes in enumerate(spec) if axis in axes), None)


def _gathered(spec: Spec, axis: str, labels: Sequence[Label | None], label: Label | None, parts: int) -> float:
    """The share of a tensor's bytes that a rank gets from others, if an axis is to cut it along an index, or not at all."""
    place = _place(spec, axis)
    if place is None or (label is not None and labels[place] == label):
        return 0.0
    # An all-to-all sends all but 1 / n of a part; an all-gather gets all the other parts.
    return (1 - 1 / parts) / (parts if label is not None and label in labels else 1)


def _is_bound(value: Value) -> bool:
    """Whether a value of a whole graph has to keep its name."""
    return value.given or value.graph.is_observed(value)


def _is_declared(value: Value) -> bool:
    return any(reader.type == ANNOTATION and reader.attrs.get("shape") is not None for reader in value.readers)


__all__ = ["Partition"]
