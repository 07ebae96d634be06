"""A graph as records of numbers, and what changed between two moments: that is what a page stores of every step.

Operators, values and graphs have a number for as long as they live, so that a record that is the same is the same operator,
whatever it is called by then. A page is the first state, and for every step what is new, what is gone and what has another record.

    operator  [type, role, attributes, inputs, outputs, graphs, forward, source, made by, origin, graph, scope, operands, results, carried]
    value     [name, number, type, marks, gradient of, graph, residual]
    graph     [operator around it, name, inputs, results, residuals]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from graphad.drawing.pairs import gradient_of
from graphad.drawing.scopes import scope_of
from graphad.ir import Graph, Op, Value
from graphad.ir.nodes import Slots
from graphad.ir.regions import LoopLike, control_definition, operands, results_of
from graphad.ir.residuals import find_forward_op, residual_of
from graphad.ops import GRAD, GradOpDef
from graphad.program import ROLES
from graphad.viewing.tables import NOTHING, Json, Tables

GIVEN, PERSISTABLE, STOPPED, TARGET = 1, 2, 4, 8
Record = tuple[Json, ...]


@dataclass
class Delta:
    """The changes of one step: new and changed records by number, removed numbers, and where new operators are."""

    ops: dict[int, Record] = field(default_factory=dict)
    values: dict[int, Record] = field(default_factory=dict)
    graphs: dict[int, Record] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    orders: dict[int, list[int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.ops or self.values or self.graphs or self.gone or self.orders)

    def stored(self) -> dict[str, Json]:
        """As it is written into the page: what is empty is left out."""
        parts = {"o": self.ops, "v": self.values, "g": self.graphs, "x": self.gone, "a": self.after, "r": self.orders}
        return {name: part for name, part in parts.items() if part}


class States:
    """A graph that is followed from step to step.

    Args:
        graph: what is followed, with the graphs nested in it.
        tables: where texts and the like are stored.
    """

    def __init__(self, graph: Graph, tables: Tables) -> None:
        self.graph = graph
        self.tables = tables
        self.numbers: dict[Op | Value | Graph, int] = {}
        self.ops: dict[Op, Record] = {}
        self.values: dict[Value, Record] = {}
        self.graphs: dict[Graph, Record] = {}
        self.orders: dict[Graph, list[int]] = {}
        self._by_name: dict[Graph, dict[tuple[str, str], Op]] = {}

    def number(self, item: Op | Value | Graph) -> int:
        """The number of an operator, a value or a graph."""
        # A number is given once and never again, so that a page can tell what is gone from what is new.
        return self.numbers.setdefault(item, len(self.numbers))

    # -- differences -----------------------------------------------------------------------------

    def everything(self) -> Delta:
        """The changes since the last call, found by comparing all records."""
        delta, graphs = Delta(), list(self.graph.tree())
        ops, values = {op for graph in graphs for op in graph.ops}, {value for graph in graphs for value in graph.values}
        for graph in graphs:
            self._whole(graph, delta)
        self._forget_ops([op for op in self.ops if op not in ops], delta)
        self._forget_values([value for value in self.values if value not in values], delta)
        self._forget_graphs([graph for graph in self.graphs if graph not in set(graphs)], delta)
        return delta

    def around(self, touched: Iterable[Op]) -> Delta:
        """The changes since the last call, at touched operators and the values that they read and write."""
        delta, values = Delta(), dict[Value, None]()
        for op in dict.fromkeys(touched):
            values.update(dict.fromkeys([*op.reads(), *op.writes()]))
            # A touched operator may be gone by now, or its graph with it.
            if self._is_there(op.graph):
                self._put_op(op, delta)
            elif op in self.ops:
                self._forget_ops([op], delta)
        for value in values:
            if self._is_there(value.graph):
                self._put_value(value, delta)
        self._forget_values([value for value in values if not self._is_there(value.graph)], delta)
        return delta

    def _put_op(self, op: Op, delta: Delta) -> None:
        """An operator that may be new, and graphs nested in it that are."""
        if op not in self.ops:
            # With its predecessor, so that the page can insert it without the whole order.
            delta.after += [self.number(op), NOTHING if op.previous is None else self.number(op.previous)]
        self._record_op(op, delta)
        for graph in op.graphs.values():
            for subgraph in graph.tree() if graph not in self.graphs else ():
                self._whole(subgraph, delta)

    def _whole(self, graph: Graph, delta: Delta) -> None:
        """A graph, without those nested in it."""
        for value in graph.values:
            self._put_value(value, delta)
        for op in graph.ops:
            self._record_op(op, delta)
        record = self.graph_record(graph)
        # Only what differs from the last record is stored: the page adds differences up.
        if self.graphs.get(graph) != record:
            self.graphs[graph] = delta.graphs[self.number(graph)] = record
        order = [self.number(op) for op in graph.ops]
        if self.orders.get(graph) != order:
            self.orders[graph] = order
            delta.orders[self.number(graph)] = runs(order)

    def _record_op(self, op: Op, delta: Delta) -> None:
        record = self.op_record(op)
        if self.ops.get(op) != record:
            self.ops[op] = delta.ops[self.number(op)] = record

    def _put_value(self, value: Value, delta: Delta) -> None:
        record = self.value_record(value)
        if self.values.get(value) != record:
            self.values[value] = delta.values[self.number(value)] = record

    def _is_there(self, graph: Graph) -> bool:
        """Whether a graph is this one, or nested in an operator that is in it."""
        while graph is not self.graph:
            # A graph that was taken out has no owner, or is in another tree.
            if graph.owner is None or graph.journal is not self.graph.journal:
                return False
            graph = graph.owner.graph
        return True

    def _forget_ops(self, ops: Iterable[Op], delta: Delta) -> None:
        """Forget operators, with all that was nested in them alone."""
        for op in ops:
            if self.ops.pop(op, None) is None:
                continue
            delta.gone.append(self.number(op))
            # A nested graph that has moved to another operator stays.
            inner = [graph for graph in op.graphs.values() if graph in self.graphs and not self._is_there(graph)]
            self._forget_graphs(inner, delta)
            for graph in inner:
                self._forget_values(graph.values, delta)
                self._forget_ops(graph.ops, delta)

    def _forget_values(self, values: Iterable[Value], delta: Delta) -> None:
        for value in values:
            if self.values.pop(value, None) is not None:
                delta.gone.append(self.number(value))

    def _forget_graphs(self, graphs: Iterable[Graph], delta: Delta) -> None:
        for graph in graphs:
            if self.graphs.pop(graph, None) is not None:
                self.orders.pop(graph, None)
                delta.gone.append(self.number(graph))

    # -- records ---------------------------------------------------------------------------------

    def op_record(self, op: Op) -> Record:
        """The record of an operator."""
        text, forward = self.tables.text, self._forward(op)
        scope = "/".join(scope_of(op))
        return (
            text(op.type),
            ROLES.index(op.role) if op.role in ROLES else 0,
            self.tables.attrs(op.attrs),
            self._slots(op.inputs),
            self._slots(op.outputs),
            [part for name, graph in op.graphs.items() for part in (text(name), self.number(graph))],
            NOTHING if forward is None else self.number(forward),
            self.tables.line(op.source),
            text(op.made_by),
            self.tables.origin(op.origin),
            self.number(op.graph),
            text(scope or None),
            *self._region(op),
        )

    def _region(self, op: Op) -> Record:
        """The operands and results of an operator with nested graphs, and the carried ones among a loop's operands."""
        if control_definition(op) is None:
            return ()
        loop = LoopLike.of(op)
        places = range(0) if loop is None else loop.carried_at
        return (*([self.number(value) for value in part] for part in (operands(op), results_of(op))), [places.start, len(places)])

    def _slots(self, slots: Slots) -> list[Json]:
        return [part for slot, values in slots.items() for part in (self.tables.text(slot), [self.number(value) for value in values])]

    def value_record(self, value: Value) -> Record:
        """The record of a value."""
        graph = value.graph
        number = graph.values.number(value)
        marks = GIVEN * value.given + PERSISTABLE * value.persistable + STOPPED * value.stop_gradient + TARGET * (value in graph.targets)
        of = gradient_of(value)
        return (
            self.tables.text(value.name),
            NOTHING if number is None else number,
            self.tables.text(str(value.type or "?")),
            marks,
            NOTHING if of is None else self.number(of),
            self.number(graph),
            *self._residual(value),
        )

    def _residual(self, value: Value) -> Record:
        """The residual that an input of a gradient's graph stands for."""
        residual = residual_of(value) if value.given and value.graph.owner is not None else None
        return () if residual is None else (self.number(residual),)

    def graph_record(self, graph: Graph) -> Record:
        """The record of a graph, without the order of its operators."""
        name = next((name for name, subgraph in graph.owner.graphs.items() if subgraph is graph), None) if graph.owner is not None else None
        owner = NOTHING if graph.owner is None else self.number(graph.owner)
        return (
            owner,
            self.tables.text(name),
            *([self.number(value) for value in part] for part in (graph.inputs, graph.results, graph.residuals)),
        )

    # -- partners --------------------------------------------------------------------------------

    def _forward(self, op: Op) -> Op | None:
        """The operator that one of the backward belongs to. In a program as written only names say it: ``tanh_grad`` reads ``y@GRAD``."""
        if op.forward is not None or op.role == ROLES[0]:
            return op.forward
        definition = op.definition
        if not isinstance(definition, GradOpDef) or definition.forward is None:
            return find_forward_op(op) if op.graphs else None
        # The gradient of a gradient belongs to an operator of the backward.
        partners = (gradient_of(value) for value in op.reads())
        writer = next((of.writer for of in partners if of is not None and of.writer and of.writer.type == definition.forward.type), None)
        if writer is not None:
            return writer
        writers = self._written(op.graph)
        for value in op.reads():
            # In a program as written a gradient knows its forward operator by names alone.
            stem, mark, _ = value.name.partition(GRAD)
            forward = writers.get((definition.forward.type, stem)) if mark else None
            if forward is not None:
                return forward
        return None

    def _written(self, graph: Graph) -> dict[tuple[str, str], Op]:
        """The operators of the forward by type and by the names that they write."""
        if graph not in self._by_name:
            forward = (op for op in graph.ops if op.role == ROLES[0])
            self._by_name[graph] = {(op.type, value.name): op for op in forward for value in op.writes()}
        return self._by_name[graph]


def runs(numbers: Sequence[int]) -> list[int]:
    """Numbers as runs of consecutive ones: the first of each run, and how many.

    >>> runs([4, 5, 6, 9, 2, 3])
    [4, 3, 9, 1, 2, 2]
    """
    lengths: list[int] = []
    for number in numbers:
        # Pairs one after the other: the last run is the last two numbers.
        if lengths and number == lengths[-2] + lengths[-1]:
            lengths[-1] += 1
        else:
            lengths += [number, 1]
    return lengths
