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
        """The slots with the copies of their values."""
        copies = self.values
        return {slot: tuple([copies[v] for v in values]) for slot, values in slots.items()}


def cloned(graph: Graph, copy: Graph, mapping: ValueMap | None = None) -> Graph:
    """Fill an empty graph with a copy of another one, nested graphs included."""
    mapping = mapping or ValueMap()
    mapping.graphs[graph] = copy
    # A nested copy shares the journal of the graph that it is put into, properties and history included.
    if copy.parent is None:
        copy.properties = set(graph.properties)
        copy.journal.history, copy.journal.requested = list(graph.journal.history), graph.journal.requested
    copy.lost_operators, copy.redeclared = graph.lost_operators, dict(graph.redeclared)
    for value in graph.values:
        counterpart = mapping.values[value] = copy.add_version(value.name, value.shape, value.dtype, value.var)
        counterpart.kind = value.kind
    for op in graph.ops:
        counterpart_op = copy_op(op, copy, mapping)
        counterpart_op.operator = op.operator
        # An operator that a pass removed has no copy, and a copy of the whole refers to nothing outside of it.
        if op.forward is not None and op.forward not in mapping.ops:
            counterpart_op.forward = None
        copy.link(counterpart_op)
    # Only now: the gradient may have been copied before what it is the gradient of.
    for value in graph.values:
        if value.grad_of is not None:
            mapping.values[value].grad_of = mapping.values.get(value.grad_of)
    copy.inputs = [mapping.values[v] for v in graph.inputs]
    for value in copy.inputs:
        value.given = True
    copy.targets = {mapping.values[v]: None for v in graph.targets}
    copy.results = [mapping.values[v] for v in graph.results]
    copy.residuals = [mapping.values[v] for v in graph.residuals]
    return copy


def keep_marks(graph: Graph, copy: Graph) -> Graph:
    """Let the marks of a copy be true where those of the graph are; return the copy."""
    for subgraph, counterpart in zip(graph.tree(), copy.tree(), strict=True):
        counterpart.marked = copy.journal.edits if subgraph.marked == graph.journal.edits else -1
    return copy


def copy_op(op: Op, around: Graph, mapping: ValueMap) -> Op:
    """A copy of an operator over the copies of its values, not yet linked into the graph ``around``."""
    counterpart = Op(around, op.type, mapping.slots(op.inputs), mapping.slots(op.outputs), op.attrs)
    counterpart.role, counterpart.made_by, counterpart.source = op.role, op.made_by, op.source
    counterpart.origin, counterpart.stream = op.origin, op.stream
    counterpart.forward = None if op.forward is None else mapping.ops.get(op.forward, op.forward)
    mapping.ops[op] = counterpart
    counterpart.graphs = clone_regions(op.graphs, around, mapping) if op.graphs else op.graphs
    return counterpart


def clone_regions(graphs: Mapping[str, Graph], around: Graph, mapping: ValueMap) -> dict[str, Graph]:
    """Copies of the nested graphs of an operator for one in the graph ``around``."""
    return {name: cloned(graph, around.nested(graph.block), mapping) for name, graph in graphs.items()}


def input_like(graph: Graph, like: Value) -> Value:
    """An input for a value of the graph around, not yet among the graph's inputs."""
    # A variable belongs to one name: under another one the input has none.
    name = like.name if not graph.values.taken(like.name) else graph.values.numbered(like.name, "{}@READ@{}")
    result = graph.add_input(name, like.shape, like.dtype, like.var if like.var is not None and like.var.name == name else None)
    result.kind = like.kind
    return graph.inputs.pop()
