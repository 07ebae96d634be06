"""Operators recorded into a graph: what gradient rules, written over tensors, expand into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphad.errors import InvalidType
from graphad.ir.graph import Graph
from graphad.ir.nodes import Op, Value
from graphad.ops import OpDef, Symbol
from graphad.ops.definition import AS_INPUT
from graphad.types import TENSOR, Shape, Tensor, TensorType


class Builder:
    """Adds operators to a graph before one of its operators (or last), on behalf of ``forward``.

    ``stem`` is what the values it makes are named after: ``<stem>@TEMP@0``, ``<stem>@TEMP@1``...; ``made`` holds them.
    """

    def __init__(
        self, graph: Graph, stem: str = "made", before: Op | None = None, role: str | None = None, forward: Op | None = None
    ) -> None:
        self.graph = graph
        self.stem = stem
        self.before = before
        self.role = role
        self.forward = forward
        self.made: set[Value] = set()

    def symbol(self, value: Value) -> GraphSymbol:
        """A tensor that stands for a value of the graph."""
        return GraphSymbol(self, value)

    def emit(self, definition: OpDef, inputs: Sequence[object], attrs: Mapping[str, object]) -> Tensor:
        """Add an operator; return symbols for its outputs, the optional ones left out."""
        slots = {slot: _values(definition, x) for slot, x in zip(definition.inputs, inputs, strict=False) if x is not None}
        # Rules read ``shape`` and ``dtype`` as of arrays, so what is unknown is taken for a float number; ``infer_types`` sees the same.
        types = {slot: [TensorType(v.shape or (), v.dtype or "float32") for v in values] for slot, values in slots.items()}
        outputs: dict[str, list[Value]] = {}
        for slot, slot_types in definition.infer_types(types, attrs).items():
            # Rules read what an operator always writes; what it writes on request alone is not made.
            if not definition.outputs[slot].optional:
                outputs[slot] = [self._fresh(t, self._kind(definition, slot, slots)) for t in slot_types]
        options = {name: value for name, value in attrs.items() if not _left_out(value, definition.attrs[name].default)}
        self.graph.add_op(definition.type, slots, outputs, options, self.before, self.role, self.forward)
        results = [[*map(self.symbol, v)] if definition.outputs[slot].variadic else self.symbol(v[0]) for slot, v in outputs.items()]
        return results[0] if len(results) == 1 else tuple(results)

    def _kind(self, definition: OpDef, slot: str, inputs: Mapping[str, Sequence[Value]]) -> str:
        kind = definition.kinds.get(slot, TENSOR)
        return kind if kind != AS_INPUT else next((v.kind for values in inputs.values() for v in values), TENSOR)

    def _fresh(self, type: TensorType | None, kind: str) -> Value:
        name, (shape, dtype) = self.graph.values.numbered(self.stem, "{}@TEMP@{}"), type or (None, None)
        value = self.graph.add_version(name, shape, dtype)
        value.kind = kind
        self.made.add(value)
        return value


class GraphSymbol(Symbol):
    """A value of a graph as a tensor that operators can be applied to."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: Builder, value: Value) -> None:
        self.builder = builder
        self.value = value

    @property
    def shape(self) -> Shape:
        return self.value.shape or ()

    @property
    def dtype(self) -> str:
        return self.value.dtype or "float32"

    def emit(self, op: OpDef, inputs: Sequence[object], attrs: Mapping[str, object]) -> Tensor:
        return self.builder.emit(op, inputs, attrs)

    def __repr__(self) -> str:
        return repr(self.value)


def _left_out(value: object, default: object) -> bool:
    """Whether an attribute says no more than its default. An empty list may: ``shape=[]`` is the shape of a number."""
    return value is default or (value == default and not isinstance(value, list))


def _values(definition: OpDef, argument: Any) -> list[Value]:
    items = argument if isinstance(argument, list | tuple) else [argument]
    for item in items:
        if not isinstance(item, GraphSymbol):
            raise InvalidType(f"operator {definition.type!r} in a graph reads values of the graph, not {item!r}")
    return [item.value for item in items]
