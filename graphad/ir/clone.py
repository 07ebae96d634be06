"""Copies of graphs, with everything nested in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphad.ir.nodes import Op, Slots, Value

if TYPE_CHECKING:
    from graphad.ir.graph import Graph


@dataclass
class ValueMap:
    """The copy of each value, operator and graph copied so far."""

    values: dict[Value, Value] = field(default_factory=dict)
    ops: dict[Op, Op] = field(default_factory=dict)
    graphs: dict[Graph, Graph] = field(default_factory=dict)

    def slots(self, slots: Slots) -> Slots:
        """The same slots of twins."""
        return {slot: tuple(self.values[v] for v in values) for slot, values in slots.items()}


def cloned(graph: Graph, twin: Graph, twins: ValueMap | None = None) -> Graph:
    """Fill an empty graph with a copy of another one, nested graphs included."""
    twins = twins or ValueMap()
    twins.graphs[graph] = twin
    if twin.parent is None:
        twin.properties = set(graph.properties)
        twin.journal.history, twin.journal.asked = list(graph.journal.history), graph.journal.asked
    twin.lost_operators = graph.lost_operators
    for value in graph.values:
        copied = twins.values[value] = twin.add_version(value.name, value.shape, value.dtype, value.var)
        copied.kind = value.kind
    for op in graph.ops:
        _clone_op(op, twin, twins)
    for value in graph.values:
        if value.grad_of is not None:
            twins.values[value].grad_of = twins.values.get(value.grad_of)
    twin.inputs = [twins.values[v] for v in graph.inputs]
    for value in twin.inputs:
        value.given = True
    twin.targets = {twins.values[v]: None for v in graph.targets}
    twin.results = [twins.values[v] for v in graph.results]
    twin.residuals = [twins.values[v] for v in graph.residuals]
    return twin


def keep_marks(graph: Graph, twin: Graph) -> Graph:
    """Let the marks of a copy be true where those of the graph are; return the copy."""
    for each, copied in zip(graph.tree(), twin.tree(), strict=True):
        copied.marked = twin.journal.edits if each.marked == graph.journal.edits else -1
    return twin


def _clone_op(op: Op, twin: Graph, twins: ValueMap) -> None:
    copied = Op(twin, op.type, twins.slots(op.inputs), twins.slots(op.outputs), dict(op.attrs))
    copied.role, copied.made_by, copied.source, copied.operator = op.role, op.made_by, op.source, op.operator
    copied.origin, copied.stream = op.origin, op.stream
    copied.forward = None if op.forward is None else twins.ops.get(op.forward)
    twins.ops[op] = copied
    copied.graphs = clone_regions(op.graphs, twin, twins) if op.graphs else op.graphs
    twin.link(copied)


def clone_regions(graphs: Mapping[str, Graph], around: Graph, twins: ValueMap) -> dict[str, Graph]:
    """Copies of the nested graphs of an operator for one in the graph ``around``."""
    return {name: cloned(graph, around.nested(graph.block), twins) for name, graph in graphs.items()}


def input_like(graph: Graph, like: Value) -> Value:
    """An input for a value of the graph around, not yet among the graph's inputs."""
    name = like.name if not graph.values.taken(like.name) else graph.values.numbered(like.name, "{}@READ@{}")
    made = graph.add_input(name, like.shape, like.dtype, like.var if like.var is not None and like.var.name == name else None)
    made.kind = like.kind
    return graph.inputs.pop()
