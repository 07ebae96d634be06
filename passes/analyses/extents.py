"""The shapes that values have for one size of the batch.

    x: [-1, 8] ─▶ split into 2 ─▶ a: [-1, 8]  ─▶ mul w: [8, 3] ─▶ y: [-1, 3]         as declared
    x: [64, 8] ─▶ split into 2 ─▶ a: [32, 8]  ─▶ mul w: [8, 3] ─▶ y: [32, 3]         for a batch of 64

The batch is put in at what is given from outside; the inference of each operator says what becomes of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from graphad.errors import GraphadError
from graphad.graph import Graph, Op, Value
from graphad.graph.regions import is_forward_loop, operands, outcomes
from graphad.graph.residuals import residual_inputs
from graphad.ops import GradOpDef, OpDef, Symbol
from graphad.types import Shape, TensorType

Extents = Mapping[Value, Shape]


def extents(graph: Graph, batch: int) -> dict[Value, Shape]:
    """The shapes of the values of a graph, and of those nested in it, without unknown extents; values of unknown rank are left out.

    Where inference does not say what an extent is, it is that of an input of the operator that is unknown at the same axis, else the
    batch.
    """
    return _Extents(batch).of(graph)


def bytes_of(value: Value, shapes: Extents) -> int:
    """The bytes of a tensor of these shapes; 0 if its type is not known."""
    return 0 if value not in shapes or value.dtype is None else prod(shapes[value]) * np.dtype(value.dtype).itemsize


def _cotangents(
    row: GradOpDef, inputs: Mapping[str, Sequence[TensorType]], attrs: Mapping[str, Any], wanted: Sequence[str]
) -> dict[str, list[TensorType]]:
    """The types of the gradients of what a grad operator does not read: by its rules, applied to types."""
    if row.forward is None or row.forward.grads is None:
        return {}
    symbols = {slot: [_Typed(type) for type in types] for slot, types in inputs.items()}
    found = row.meaning(symbols, attrs, wanted)
    return {slot: [v.type for v in values] for slot, values in found.items() if all(isinstance(v, _Typed) for v in values)}


class _Typed(Symbol):
    """A tensor of which nothing is known but its type: operators applied to it infer theirs."""

    __slots__ = ("type",)

    def __init__(self, type: TensorType) -> None:
        self.type = type

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    def emit(self, op: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        slots = {slot: [v.type for v in _listed(x)] for slot, x in zip(op.inputs, inputs, strict=False) if x is not None}
        types = op.infer_types(slots, attrs)
        outputs = [(slot, [*map(_Typed, types[slot.name])]) for slot in op.outputs.values() if not slot.optional]
        results = [each if slot.variadic else each[0] for slot, each in outputs]
        return results[0] if len(results) == 1 else tuple(results)


def _listed(x: Any) -> Sequence[Any]:
    return x if isinstance(x, list | tuple) else [x]


class _Extents:
    """The shapes so far."""

    def __init__(self, batch: int) -> None:
        self.batch = batch
        self.shapes: dict[Value, Shape] = {}

    def of(self, graph: Graph) -> dict[Value, Shape]:
        """Go through a whole graph."""
        self._graph(graph, [])
        return self.shapes

    def _graph(self, graph: Graph, given: Sequence[Value]) -> None:
        """Go through a graph whose first inputs are the values ``given`` around it, and the last of which stand for residuals."""
        around = {**residual_inputs(graph), **dict(zip(graph.inputs, given, strict=False))}
        for value in graph.inputs:
            known = self.shapes.get(around.get(value, value))
            self._put(value, self._filled(value.shape, ()) if known is None else known)
        for op in graph.ordered_ops():
            if op.graphs:
                self._nested(op)
            else:
                self._operator(op)

    def _put(self, value: Value, shape: Shape | None) -> None:
        if shape is not None:
            self.shapes[value] = shape

    def _operator(self, op: Op) -> None:
        values = list(op.writes())
        inferred = self._inferred(op) if any(value.shape is None or -1 in value.shape for value in values) else {}
        for slot, written in op.outputs.items():
            types: Sequence[TensorType | None] = inferred.get(slot) or [None] * len(written)
            for value, type in zip(written, types, strict=False):
                shape = value.shape if type is None else type.shape
                self._put(value, self._filled(shape, list(op.reads())))

    def _inferred(self, op: Op) -> dict[str, list[TensorType]]:
        """What the row says, empty if it says nothing about these inputs."""
        row, inputs = op.row, {slot: [self._type(v) for v in values] for slot, values in op.inputs.items()}
        known = {slot: [t for t in types if t is not None] for slot, types in inputs.items()}
        if row is None or known != inputs:
            return {}
        attrs = {name: value for name, value in op.attrs.items() if name in row.attrs}
        try:
            types = row.infer_types(known, attrs)
            if isinstance(row, GradOpDef):
                types |= _cotangents(row, known, attrs, [slot for slot in op.outputs if slot not in types])
            return types
        except GraphadError:
            return {}

    def _type(self, value: Value) -> TensorType | None:
        shape = self.shapes.get(value)
        return None if shape is None or value.dtype is None else TensorType(shape, value.dtype)

    def _nested(self, op: Op) -> None:
        """An operator with nested graphs: the larger of what they hand out, and of what a loop starts with."""
        for graph in op.graphs.values():
            self._graph(graph, operands(op))
        for i, value in enumerate(outcomes(op)):
            handed_out = [graph.results[i] for graph in op.graphs.values()]
            start = operands(op)[i : i + 1] if is_forward_loop(op) else ()
            shapes = [self.shapes[v] for v in (*handed_out, *start) if v in self.shapes]
            same_rank = shapes and len({len(shape) for shape in shapes}) == 1
            self._put(value, tuple(map(max, *shapes)) if same_rank and len(shapes) > 1 else next(iter(shapes), None))
            if value not in self.shapes:
                self._put(value, self._filled(value.shape, ()))

    def _filled(self, shape: Shape | None, reads: Sequence[Value]) -> Shape | None:
        """A shape with something in the place of every unknown extent."""
        if shape is None or -1 not in shape:
            return shape
        return tuple(self._unknown(axis, reads) if extent == -1 else extent for axis, extent in enumerate(shape))

    def _unknown(self, axis: int, reads: Sequence[Value]) -> int:
        for value in reads:
            declared = value.shape or ()
            if axis < len(declared) and declared[axis] == -1 and value in self.shapes:
                return self.shapes[value][axis]
        return self.batch
