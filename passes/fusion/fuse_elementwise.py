"""Fuse connected elementwise operators into one operator.

    x ─▶ scale ─▶ a ─▶ tanh ─▶ b ─▶ elementwise_mul ─▶ z          x, y ─▶ fused_elementwise { scale, tanh, elementwise_mul } ─▶ z
                              y ────────▲                   ⇒

All have the same shape and the same role; other inputs have that shape, or one element. The executor runs such an operator
piece by piece: intermediate values never leave the cache.

Operators get levels, which rise along every edge between two that cannot be fused, and never fall. So two of one level never wait for
each other by way of an outsider, and those that are connected within a level can become one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphad.errors import InvalidValue
from graphad.ir import Graph, Op, Value
from graphad.ops.control_flow import FUSED_ELEMENTWISE
from graphad.ops.out_kernels import takes_required
from graphad.rewriting import Pass
from graphad.types import TENSOR, Shape, element_count

_Class = tuple[Shape, str]  # what the operators of a group have in common: their shape and role


@dataclass(frozen=True)
class FuseElementwise(Pass):
    """Fuse elementwise operators of one shape that are connected.

    Args:
        least: how many operators are worth it.
        smallest: how many elements arrays have at least, where that is known: small ones are in the cache anyway.

    Raises:
        ValueError: ``least`` is below 2.
    """

    name = "fuse-elementwise"
    idempotent = True
    least: int = 2
    smallest: int = 0

    def __post_init__(self) -> None:
        if self.least < 2:
            raise InvalidValue(f"fuse-elementwise makes one operator of 2 at least, not of least={self.least}")

    def apply(self, graph: Graph) -> bool:
        graphs = list(graph.tree(sealed=False))
        inner_graphs = {
            inner for subgraph in graphs for op in subgraph.controls if op.type == FUSED_ELEMENTWISE for inner in op.graphs.values()
        }
        if graph.owner is not None and graph.owner.type == FUSED_ELEMENTWISE:
            return False
        # A list, not a generator: every graph is fused, not only those up to the first that changes.
        return any([self._fuse(subgraph) for subgraph in graphs if subgraph not in inner_graphs])

    def _fuse(self, graph: Graph) -> bool:
        has_changed = False
        for group in _groups(graph.ordered_ops(), self.smallest):
            if len(group) >= self.least and graph.allows(self.name, *group):
                _Fusion(graph, group).run()
                has_changed = True
        return has_changed


# -- which operators -----------------------------------------------------------------------------


def _groups(order: Sequence[Op], smallest: int) -> list[list[Op]]:
    """The operators that can become one, group by group."""
    kinds = {op: _class_of(op, smallest) for op in order}
    levels = _latest(order, kinds, _earliest(order, kinds))
    # Union-find over edges within a level (R. E. Tarjan, "Efficiency of a good but not linear set union algorithm", 1975).
    parent = {op: op for op in order}
    for op in order:
        for writer in _writers(op):
            if kinds[op] is not None and kinds[writer] == kinds[op] and levels[writer] == levels[op]:
                parent[_root(parent, op)] = _root(parent, writer)
    groups: dict[Op, list[Op]] = {}
    for op in order:
        if kinds[op] is not None:
            groups.setdefault(_root(parent, op), []).append(op)
    return list(groups.values())


def _earliest(order: Sequence[Op], kinds: Mapping[Op, _Class | None]) -> dict[Op, int]:
    """The level of each operator as low as it can be."""
    levels: dict[Op, int] = {}
    for op in order:
        levels[op] = max((levels[w] + _step(kinds[w], kinds[op]) for w in _writers(op)), default=0)
    return levels


def _latest(order: Sequence[Op], kinds: Mapping[Op, _Class | None], levels: dict[Op, int]) -> dict[Op, int]:
    """The level of each operator as high as those that read it allow: near to them, since that is whom it can be fused with."""
    # From the end: the readers' levels are final when an operator comes up.
    for op in reversed(order):
        readers = (reader for value in op.writes() for reader in value.readers)
        levels[op] = min((levels[r] - _step(kinds[op], kinds[r]) for r in readers), default=levels[op])
    return levels


def _step(before: _Class | None, after: _Class | None) -> bool:
    """Whether the level rises from one operator to the next: they cannot be fused."""
    return before is None or before != after


def _writers(op: Op) -> list[Op]:
    return [value.writers[0] for value in op.reads() if value.writers]


def _root(parent: dict[Op, Op], op: Op) -> Op:
    """The representative of an operator's group."""
    while parent[op] is not op:
        parent[op] = op = parent[parent[op]]
    return op


def _class_of(op: Op, smallest: int) -> _Class | None:
    """The key that an operator shares with those it may be fused with; None if there are none."""
    definition = op.definition
    results = [*op.writes()]
    if definition is None or not definition.elementwise or len(results) != 1 or not takes_required(definition, op.inputs):
        return None
    (out,) = results
    if out.type is None or out.kind != TENSOR or out.shape is None or out.persistable:
        return None
    # Single elements are not worth a loop over pieces; unknown counts (-1) may be large.
    count = element_count(out.shape)
    if count in (0, 1) or 0 < count < smallest:
        return None
    is_fusable = all(value.kind == TENSOR and value.type is not None and _fits(value.shape or (), out.shape) for value in op.reads())
    return (out.shape, op.role) if is_fusable and any(value.shape == out.shape for value in op.reads()) else None


def _fits(shape: Shape, common: Shape) -> bool:
    return shape == common or (element_count(shape) == 1 and len(shape) <= len(common))


# -- how -----------------------------------------------------------------------------------------


class _Fusion:
    """One group becoming one operator."""

    def __init__(self, graph: Graph, group: Sequence[Op]) -> None:
        self.graph = graph
        self.group = group
        self.members = set(group)
        self.inner = graph.nested()
        self.inside: dict[Value, Value] = {}

    def run(self) -> None:
        """Copy the operators into a graph of their own, and put one operator in their place."""
        # In the order of first use, so that the result does not depend on hashes.
        inputs = list(dict.fromkeys(value for op in self.group for value in op.reads() if not self.members.intersection(value.writers)))
        for value in inputs:
            self.inside[value] = self.inner.add_input(value.name, value.shape, value.dtype)
        for op in self.group:
            self.copy(op)
        outs = [value for op in self.group for value in op.writes() if self.is_needed(value)]
        self.inner.results = [self.inside[value] for value in outs]
        self.tell_apart(outs)
        first, place = self.group[0], self.place()
        slots: Mapping[str, list[Value]] = {"X": inputs} if inputs else {}
        self.graph.add_op(
            FUSED_ELEMENTWISE, slots, {"Out": outs}, before=place, role=first.role, forward=first.forward, graphs={"sub_block": self.inner}
        ).source = first.source
        results = set(outs)
        for op in self.group:
            self.detach(op, results)
            self.graph.remove_op(op)

    def tell_apart(self, outs: Sequence[Value]) -> None:
        """Give earlier values of a name that the group writes more than once names of their own."""
        last = {value.name: value for value in outs}
        for value in outs:
            if last[value.name] is not value:
                self.graph.rename(value, self.graph.values.numbered(value.name, "{}@FUSED@{}"))

    def is_needed(self, value: Value) -> bool:
        """Whether a value has uses outside of the group; one that is unused stays, too."""
        readers = value.readers
        return not readers or self.graph.is_observed(value) or any(reader not in self.members for reader in readers)

    def place(self) -> Op | None:
        """The insertion point: after the last of the group, or before that at the first reader of a result of the group."""
        readers = (reader for op in self.group for value in op.writes() for reader in value.readers if reader not in self.members)
        # The first reader of any result may come before the last member of the group: the fused operator has to be there by then.
        reader = min(readers, key=lambda op: op.order, default=None)
        last = self.group[-1]
        writers = (value.writers[0] for op in self.group for value in op.reads() if value.writers)
        ready = max((op.order for op in writers if op not in self.members), default=-1)
        return reader if reader is not None and ready < reader.order < last.order else last.next

    def copy(self, op: Op) -> None:
        """The operator in the inner graph."""
        for value in op.writes():
            inner_value = self.inside[value] = self.inner.add_version(value.name, value.shape, value.dtype, value.var)
            inner_value.kind = value.kind
        inputs, outputs = (dict(self.slots(side)) for side in (op.inputs, op.outputs))
        self.inner.add_op(op.type, inputs, outputs, dict(op.attrs), role=op.role, forward=op.forward).source = op.source

    def slots(self, slots: Mapping[str, Sequence[Value]]) -> Iterator[tuple[str, list[Value]]]:
        for slot, values in slots.items():
            yield slot, [self.inside[value] for value in values]

    def detach(self, op: Op, outs: Collection[Value]) -> None:
        """Detach an old operator from the values that the new one writes instead."""
        ((slot, (value,)),) = op.outputs.items()
        if value in outs:
            spare = self.graph.add_version(self.graph.values.numbered(value.name, "{}@OLD@{}"), value.shape, value.dtype)
            self.graph.set_outputs(op, slot, [spare])
