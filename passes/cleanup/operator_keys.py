"""Keys of operators, equal if two compute the same; the operators that hold a graph, and those within."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from graphad.ir import Graph, Op, Value
from graphad.ops import REGISTRY, ControlDef, OpDef
from graphad.types import STEP_SCOPES, TENSOR

# -- operator keys ---------------------------------------------------------------------------------
# Keys of operators, equal if two compute the same: type, inputs, attributes.

Key = tuple[object, ...]


def frozen(value: object) -> Hashable:
    """A hashable that is equal for equal attributes only: 1, 1.0 and True differ, zeros of both signs too; nan equals nan.

    >>> frozen([1, 2.0]) == frozen([1, 2.0]), frozen(1) == frozen(True), frozen(float("nan")) == frozen(float("nan"))
    (True, False, True)
    """
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    # ``hex`` tells 0.0 from -0.0, which compare equal and divide to different infinities.
    if isinstance(value, float):
        return value.hex() if value == value else "nan", float
    return (value, type(value)) if isinstance(value, Hashable) else (repr(value), type(value))


def frozen_attrs(definition: OpDef, attrs: Any) -> Hashable:
    """The attributes that differ from their defaults."""
    if not attrs:
        return ()
    # ``memory`` belongs to the definition: a table by type would outlive a plugin's operator that is registered again.
    defaults = definition.memory.get(frozen)
    if defaults is None:
        defaults = definition.memory[frozen] = {name: frozen(attr.default) for name, attr in definition.attrs.items()}
    items = [(name, frozen(value)) for name, value in attrs.items()]
    return (
        tuple(sorted((name, value) for name, value in items if defaults.get(name) != value)) if len(items) > 1 else _other(items, defaults)
    )


def _other(items: list[tuple[str, Hashable]], known: dict[str, Hashable]) -> Hashable:
    ((name, value),) = items
    return () if known.get(name) == value else ((name, value),)


def comparable(op: Op) -> bool:
    """Whether an operator may be equal to another one: it draws no random numbers, has no effect and writes tensors alone."""
    if op.graphs:
        return _is_comparable_inside(op)
    definition = REGISTRY.get(op.type)
    # Remembered with the definition: the question is put to every operator of every graph.
    if definition is None or not (definition.memory.get(comparable) or _is_repeatable(definition)):
        return False
    for values in op.outputs.values():
        for value in values:
            if value.kind != TENSOR:
                return False
    return bool(op.outputs)


def _is_comparable_inside(op: Op) -> bool:
    """Whether a loop, a branch or a net holds nothing but operators that may be equal to others, and nothing reads its residuals."""
    definition = REGISTRY.get(op.type)
    if not isinstance(definition, ControlDef) or definition.is_grad:
        return False
    if any(
        value.kind != TENSOR and (value.kind != STEP_SCOPES or value.readers or value.graph.is_observed(value)) for value in op.writes()
    ):
        return False
    # What persists is an effect: equal bodies that run twice write it twice.
    inside = (inner for graph in op.graphs.values() for inner in graph.ops)
    return all(comparable(inner) and not any(value.persistable for value in inner.writes()) for inner in inside)


def _is_repeatable(definition: OpDef) -> bool:
    repeatable = definition.memory[comparable] = not (
        definition.random or definition.side_effect or isinstance(definition, ControlDef) or definition.is_absent
    )
    return repeatable


def key_of(op: Op, origin: Callable[[Value], Value] | None = None) -> Key:
    """The key that an operator shares with those that compute the same. ``origin`` maps inputs to captured values."""
    definition = REGISTRY[op.type]
    attrs = frozen_attrs(definition, op.attrs) if op.attrs else ()
    key: list[object] = [op.type, attrs, tuple([(slot, len(values)) for slot, values in op.outputs.items()])]
    if op.graphs:
        key += [(slot, tuple(value if origin is None else origin(value) for value in values)) for slot, values in op.inputs.items()]
        return *key, *map(_graph_key, op.graphs.values())
    if definition.commutative and not attrs:
        values = [value if origin is None else origin(value) for slot in op.inputs.values() for value in slot]
        # By address: any order will do, as long as it is the same within one run; it never shows in a result.
        return *key, *sorted(values, key=id)
    for slot in definition.inputs:
        operands = op.inputs.get(slot, ())
        key.append(operands if origin is None else tuple([origin(value) for value in operands]))
    return tuple(key)


def _graph_key(graph: Graph) -> Key:
    """A key that graphs share if they are the same except for names: values count by the place where they first come up."""
    numbers: dict[Value, int] = {value: i for i, value in enumerate(graph.inputs)}
    key: list[object] = [tuple((value.type, value.gradient_marks) for value in graph.inputs)]
    for op in graph.ordered_ops():
        reads = tuple((slot, tuple(numbers.get(value, value) for value in values)) for slot, values in op.inputs.items())
        for value in op.writes():
            # Alpha-equivalence by numbering: values of the graph by where they come up, values from outside as themselves.
            numbers.setdefault(value, len(numbers))
        writes = tuple((slot, tuple((v.type, v.gradient_marks) for v in values)) for slot, values in op.outputs.items())
        attrs = frozen_attrs(REGISTRY[op.type], op.attrs) if op.attrs else ()
        key.append((op.type, attrs, reads, writes, tuple(map(_graph_key, op.graphs.values()))))
    return *key, tuple(numbers.get(value, value) for value in graph.results)


# -- owners ----------------------------------------------------------------------------------------
# Parent operators of nested graphs, and the operators nested in an operator.

Owners = dict[Graph, Op]


def owners_of(graph: Graph) -> Owners:
    """The operator that each nested graph belongs to."""
    return {inner: op for subgraph in graph.tree() for op in subgraph.controls for inner in op.graphs.values()}


def operators_in(op: Op) -> Iterator[Op]:
    """The operators of the graphs nested in one, to any depth; of what is sealed none."""
    for graph in () if op.is_sealed else op.graphs.values():
        for inner in graph.ops:
            yield inner
            if inner.graphs:
                yield from operators_in(inner)
