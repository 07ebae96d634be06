"""Compute once what several operators compute: common subexpressions.

    x ─▶ tanh ─▶ a ─▶ f                            x ─▶ tanh ─▶ a ─▶ f
    x ─▶ tanh ─▶ b ─▶ g                ⇒                        └───▶ g

    x ─▶ while { h = tanh(h) } ─▶ a ─▶ f           x ─▶ while { h = tanh(h) } ─▶ a ─▶ f
    x ─▶ while { t = tanh(t) } ─▶ b ─▶ g   ⇒                                      └───▶ g

    x ─▶ tanh ─▶ a                                 x ─▶ tanh ─▶ a ─┐
    x ─▶ while { h = h * tanh(x) }     ⇒           x ─▶ while { h = h * a }

Operators are equal if their types, inputs and attributes are; inputs of commutative operators may be in either order. The one that
comes first stays. An operator in a nested graph is equal to one around it, before the operator that the graph belongs to, if it
reads the same values from there; if its value is not captured yet, it is captured for operators that compute something, not for
those that only fill or rearrange, nor for those whose slope may be infinite, since the nested graph may not run. Keys of all operators
are kept from run to run; entries are checked when they are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

from graphad.ir import Graph, Op, Value
from graphad.ir.edits import add_operand
from graphad.ir.regions import definition_of, first_captured, operands
from graphad.passes.analyses.speculation import keeps_gradients_finite
from graphad.passes.cleanup.operator_keys import Key, Owners, comparable, key_of, operators_in, owners_of
from graphad.rewriting import ChangeCursor, Pass
from graphad.rewriting.rewriter import in_graph

# -- captured values -------------------------------------------------------------------------------
# The values that nested graphs capture from the graphs around them.


class Captures:
    """The loop-invariant values that nested graphs capture, and ways to capture more. The graphs of gradients are left alone."""

    def __init__(self, graph: Graph) -> None:
        self.root = graph
        self.owners: Owners = owners_of(graph) if graph.controls else {}

    def way_out(self, graph: Graph) -> Iterator[Op]:
        """The operators that a graph is nested in, the innermost first, as far as none is a gradient."""
        while graph is not self.root and graph in self.owners:
            owner = self.owners[graph]
            if definition_of(owner).is_grad:
                return
            yield owner
            graph = owner.graph

    def origin(self, value: Value) -> Value:
        """The captured value of the outermost graph that a value of a nested graph is equal to, else the value itself."""
        # Captured values only: a carried one is another value in each iteration.
        while value.given and value.graph is not self.root:
            around = self._around(value)
            if around is None:
                break
            value = around
        return value

    def _around(self, value: Value) -> Value | None:
        owner = self.owners.get(value.graph)
        if owner is None or definition_of(owner).is_grad:
            return None
        place, inputs = value.graph.inputs.index(value), operands(owner)
        start = first_captured(owner)
        return inputs[place] if start <= place < len(inputs) else None

    def around(self, ops: Iterable[Op]) -> list[Op]:
        """The operators that others are nested in, the innermost first."""
        owners: dict[Op, None] = {}
        for op in ops:
            owner = self.owners.get(op.graph)
            while owner is not None and owner not in owners:
                owners[owner] = None
                owner = self.owners.get(owner.graph)
        return list(owners)

    def has(self, value: Value, graph: Graph) -> bool:
        """Whether a graph captures a value of a graph around it."""
        for owner, inner in self._way_in(value, graph):
            place = self._place(value, owner)
            if place is None:
                return False
            value = inner.inputs[place]
        return True

    def have(self, value: Value, graph: Graph) -> Value:
        """The block argument for a value of a graph around; it is added to the operators on the way that do not capture the value yet."""
        for owner, inner in self._way_in(value, graph):
            value = dict(zip(owner.graphs.values(), add_operand(owner, value), strict=True))[inner]
        return value

    def _way_in(self, value: Value, graph: Graph) -> list[tuple[Op, Graph]]:
        """The operators between the graph of a value and one nested in it, and their graphs on the way, the outermost first."""
        way = []
        for owner in self.way_out(graph):
            way.append((owner, graph))
            graph = owner.graph
            if graph is value.graph:
                break
        return way[::-1]

    def _place(self, value: Value, owner: Op) -> int | None:
        """The index of a value among the loop-invariant operands of an operator."""
        start = first_captured(owner)
        return next((i for i, v in enumerate(operands(owner)) if i >= start and v is value), None)


# -- the pass --------------------------------------------------------------------------------------

Table = dict[Graph, dict[Key, Op]]


@dataclass(frozen=True)
class Cse(Pass):
    """Replace operators by those before them that compute the same.

    Loops, branches and nets are equal if their graphs are except for names. Operators that draw random numbers or have effects are never
    merged, nor what holds one, nor gradients of loops and branches; neither are those that differ in the type or ``stop_gradient`` of
    their results. Where both outputs are requested by name, one becomes a copy of the other.
    """

    name = "cse"
    idempotent = True

    def apply(self, graph: Graph) -> bool:
        cursor = ChangeCursor(self, graph)
        changed_ops = cursor.changed_ops()
        tables: dict[Graph, Table] = graph.journal.kept.setdefault(Cse, {})
        if changed_ops is None or graph not in tables:
            tables[graph] = {}
        # In the first run operators come in topological order, so the known one precedes; later ones come as they changed, and places
        # decide.
        search = _Search(graph, tables[graph], in_order=changed_ops is None)
        with nullcontext() if graph.journal.watcher else graph.wide.deferred():
            has_changed = search.merge(_with_nested(graph.ops) if changed_ops is None else _with_nested(changed_ops))
            # A merge makes readers equal that were not: to a fixpoint, each round over what the last one touched.
            while new_changes := cursor.changed_ops():
                search.in_order = False
                has_changed |= search.merge(_with_nested([*new_changes, *search.captures.around(new_changes)]))
        return has_changed


def _with_nested(changed_ops: Iterable[Op]) -> Iterator[Op]:
    """The changed operators, after those in their nested graphs, which may read other values now and decide what they are equal to."""
    for op in changed_ops:
        if op.graphs:
            yield from operators_in(op)
        yield op


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
        has_changed = False
        for op in ops:
            if in_graph(op) and comparable(op):
                op.graph.wide.settle(op)
                has_changed |= self._look_up(op)
        return has_changed

    def _look_up(self, op: Op) -> bool:
        is_nested = op.graph is not self.root
        # Hash-consing: operators with one key compute the same (J. Cocke, "Global common subexpression elimination", 1970). Captured
        # values count as what they are equal to outside, so equal operators at different depths have one key.
        key = key_of(op, self.captures.origin if is_nested else None)
        table = self.table.setdefault(op.graph, {})
        first = table.get(key)
        if first is not None and first is not op and self._valid(first, key):
            if not self.in_order and self._precedes(op, first):
                op, first = first, op
                table[key] = first
            return _merged(op, first)
        table[key] = op
        return is_nested and self._look_around(op, key)

    def _valid(self, op: Op, key: Key) -> bool:
        op.graph.wide.settle(op)
        return in_graph(op) and key_of(op, self.captures.origin if op.graph is not self.root else None) == key

    def _look_around(self, op: Op, key: Key) -> bool:
        """Look for an equal operator in the graphs around, before the operators that lead to this one."""
        # What an enclosing graph computes before the operator that leads here dominates this operator, so it may be captured.
        for owner in self.captures.way_out(op.graph):
            first = self.table.get(owner.graph, {}).get(key)
            if first is not None and self._valid(first, key) and (self.in_order or self._precedes(first, owner)):
                return self._captured_result(op, first)
        return False

    def _captured_result(self, op: Op, first: Op) -> bool:
        """Read what an operator around writes instead."""
        pairs = _pairs(op, first)
        # Capturing costs an operand, and memory for as long as the loop runs: not for what a fill or a view gives again for nothing.
        worth = bool(op.inputs) and op.definition is not None and not (op.definition.cheap or op.definition.view)
        if pairs is None or not (worth or all(self.captures.has(new, op.graph) for old, new in pairs if _is_used(old))):
            return False
        # The block may not run: then a gradient of 0 goes through the operator around, which so far got none, and may make nan of it.
        if not keeps_gradients_finite(first):
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
    return pairs if all(a.type == b.type and a.gradient_marks == b.gradient_marks for a, b in pairs) else None


def _merged(op: Op, first: Op) -> bool:
    """Put the outputs of one operator in the place of those of a later one; return whether that was done."""
    graph, pairs = op.graph, _pairs(op, first)
    # Both names requested: one has to become a copy of the other, which gains nothing over filling it again.
    if pairs is None or (_is_like_a_copy(op) and any(_needs_copy(old, new) for old, new in pairs)):
        return False
    if not graph.allows("equal-operators", op, first):
        return False
    for old, new in pairs:
        if _is_used(old):
            graph.substitute(old, new)
    if graph.is_dead(op):
        graph.remove_op(op)
    return True


def _is_like_a_copy(op: Op) -> bool:
    """Whether an operator costs no more than the copy that would take its place: it only fills, or passes its input on."""
    definition = op.definition
    if definition is None or definition.random:
        return False
    return bool(definition.fills) or definition.in_order or not definition.inputs


def _needs_copy(old: Value, new: Value) -> bool:
    """Whether both values are requested by name."""
    graph = old.graph
    return graph.parent is None and graph.is_observed(old) and (graph.is_observed(new) or new.persistable)
