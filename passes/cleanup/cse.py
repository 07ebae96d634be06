"""Compute once what several operators compute: common subexpressions.

    x ─▶ tanh ─▶ a ─▶ f                            x ─▶ tanh ─▶ a ─▶ f
    x ─▶ tanh ─▶ b ─▶ g                ⇒                        └───▶ g

    x ─▶ tanh ─▶ a                                 x ─▶ tanh ─▶ a ─┐
    x ─▶ while { h = h * tanh(x) }     ⇒           x ─▶ while { h = h * a }

Operators are equal if their types, inputs and attributes are; inputs of commutative operators may be in either order. The one that
comes first stays. An operator in a nested graph is equal to one around it, before the operator that the graph belongs to, if it
reads the same values from there; if its value is not captured yet, it is captured for operators that compute something, not for
those that only fill or rearrange. Keys of all operators are kept from run to run; entries are checked when they are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graphad.graph import Graph, Op, Value
from graphad.passes.cleanup.captures import Captures
from graphad.passes.cleanup.operator_keys import Key, comparable, key_of
from graphad.passes.cleanup.owners import operators_in
from graphad.rewriting import Follower, Pass
from graphad.rewriting.following import in_graph

Table = dict[Graph, dict[Key, Op]]
_COPIED = frozenset({"assign", "assign_value", "fill_constant"})  # not worth a copy where both are requested


@dataclass(frozen=True)
class Cse(Pass):
    """Replace operators by those before them that compute the same.

    Operators that draw random numbers, have effects or nested graphs are never merged; neither are those that differ in the type
    or ``stop_gradient`` of their results. Where both outputs are requested by name, one becomes a copy of the other.
    """

    name = "cse"
    idempotent = True

    def apply(self, graph: Graph) -> bool:
        follower = Follower(self, graph)
        fresh = follower.fresh()
        tables: dict[Graph, Table] = graph.journal.kept.setdefault(Cse, {})
        if fresh is None or graph not in tables:
            tables[graph] = {}
        search = _Search(graph, tables[graph], in_order=fresh is None)
        changed = search.merge(_all(graph) if fresh is None else _with_nested(fresh))
        while again := follower.fresh():
            search.in_order = False
            changed |= search.merge(_with_nested(again))
        return changed


def _all(graph: Graph) -> Iterator[Op]:
    for op in graph.ops:
        yield op
        if op.graphs:
            yield from operators_in(op)


def _with_nested(fresh: Iterable[Op]) -> Iterator[Op]:
    """The changed operators, and those in their nested graphs, which may read other values now."""
    for op in fresh:
        yield op
        if op.graphs:
            yield from operators_in(op)


class _Search:
    """Operators by key, graph by graph. ``in_order``: they come in the order of the graph, the first one first."""

    def __init__(self, graph: Graph, table: Table, in_order: bool) -> None:
        self.root = graph
        self.table = table
        self.in_order = in_order
        self.captures = Captures(graph)
        self.numbered: set[Graph] = set()

    def merge(self, ops: Iterable[Op]) -> bool:
        """Merge operators with those known; return whether any was."""
        changed = False
        for op in ops:
            if in_graph(op) and comparable(op):
                changed |= self._look_up(op)
        return changed

    def _look_up(self, op: Op) -> bool:
        nested = op.graph is not self.root
        key = key_of(op, self.captures.origin if nested else None)
        known = self.table.setdefault(op.graph, {})
        first = known.get(key)
        if first is not None and first is not op and self._valid(first, key):
            if not self.in_order and self._precedes(op, first):
                op, first = first, op
                known[key] = first
            return _merged(op, first)
        known[key] = op
        return nested and self._look_around(op, key)

    def _valid(self, op: Op, key: Key) -> bool:
        return in_graph(op) and key_of(op, self.captures.origin if op.graph is not self.root else None) == key

    def _look_around(self, op: Op, key: Key) -> bool:
        """Look for an equal operator in the graphs around, before the operators that lead to this one."""
        for owner in self.captures.way_out(op.graph):
            first = self.table.get(owner.graph, {}).get(key)
            if first is not None and self._valid(first, key) and (self.in_order or self._precedes(first, owner)):
                return self._captured_result(op, first)
        return False

    def _captured_result(self, op: Op, first: Op) -> bool:
        """Read what an operator around writes instead."""
        pairs = _pairs(op, first)
        worth = bool(op.inputs) and op.row is not None and not (op.row.cheap or op.row.view)
        if pairs is None or not (worth or all(self.captures.has(new, op.graph) for old, new in pairs if _is_used(old))):
            return False
        if not op.graph.allows("computed-around", op, first):
            return False
        for old, new in pairs:
            if _is_used(old):
                op.graph.replace(old, self.captures.have(new, op.graph))
        op.graph.remove_op(op)
        return True

    def _precedes(self, a: Op, b: Op) -> bool:
        """Whether one operator comes before another one of its graph."""
        if a.graph not in self.numbered:
            self.numbered.add(a.graph)
            for i, op in enumerate(a.graph.ops):
                op.order = i
        return a.order < b.order


def _is_used(value: Value) -> bool:
    return bool(value.readers) or value.graph.is_observed(value)


def _pairs(op: Op, first: Op) -> list[tuple[Value, Value]] | None:
    """The outputs of two equal operators, None if one may not replace the other."""
    pairs = [pair for slot, values in op.outputs.items() for pair in zip(values, first.outputs[slot], strict=True)]
    return pairs if all(a.type == b.type and a.stop_gradient == b.stop_gradient for a, b in pairs) else None


def _merged(op: Op, first: Op) -> bool:
    """Put the outputs of one operator in the place of those of a later one; return whether that was done."""
    graph, pairs = op.graph, _pairs(op, first)
    if pairs is None or (op.type in _COPIED and any(_needs_copy(old, new) for old, new in pairs)):
        return False
    if not graph.allows("equal-operators", op, first):
        return False
    for old, new in pairs:
        if _is_used(old):
            graph.substitute(old, new)
    if graph.is_dead(op):
        graph.remove_op(op)
    return True


def _needs_copy(old: Value, new: Value) -> bool:
    """Whether both values are requested by name."""
    graph = old.graph
    return graph.parent is None and graph.is_observed(old) and (graph.is_observed(new) or new.persistable)
