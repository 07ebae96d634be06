"""Remove dead operators and dead values.

    x ─▶ exp ─▶ a ─▶ sin ─▶ b                          x ─▶ tanh ─▶ y (requested)
    x ─▶ tanh ─▶ y (requested)          ⇒

    while(h, c) -> (h', c') { h = f(h); c = g(c) }     while(h) -> (h') { h = f(h) }         c' is unused

Operators are visited from the last to the first, so that one walk is enough; later runs visit only what changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graphad.ir import Graph, Op, Value
from graphad.ir.regions import carried_count, definition_of, first_captured, has_effects, is_forward_loop, operands, results_of
from graphad.ir.residuals import drop_residuals, gradient_graphs, is_read, residual_inputs
from graphad.passes.cleanup.operator_keys import Owners, operators_in, owners_of
from graphad.rewriting import ChangeCursor, Pass
from graphad.rewriting.rewriter import in_graph

# -- liveness in nested graphs ---------------------------------------------------------------------
# Liveness of values in the graphs nested in an operator, and the removal of those that are dead.
#
#     while(h, c, n) -> (h', c', n')  { h = f(h); c = g(c) }      ⇒      while(h, n) -> (h', n')  { h = f(h) }
#
# where c' is unused. A carried value is live if its result is, or if the loop's graph needs it for something live: a fixpoint over
# the loop, which one backward walk from the live values finds.


class Needed:
    """The needed values of the graphs nested in an operator, given which of its outputs are read.

    A gradient, and an operator that keeps something for one, keep all operands and results, since the two are matched by position.

    Attributes:
        values: the values that are needed, those around that the operator reads or writes among them.
        ops: the operators that are.
    """

    def __init__(self, op: Op) -> None:
        self.op = op
        self.values: set[Value] = set()
        self.ops: set[Op] = set()
        self.frozen: set[Op] = set()
        self.places: dict[Value, tuple[Op, int]] = {}
        self.pending: list[Value] = []
        self.controls = [op, *(inner for inner in operators_in(op) if inner.graphs and not inner.is_sealed)]
        self.residuals: dict[Value, Value] = {}
        for member in self.controls:
            for graph in member.graphs.values():
                self.places |= {value: (member, i) for i, value in enumerate(graph.inputs)}
                self.residuals |= residual_inputs(graph)
        # Mark and sweep: what has to stay for its own sake, then whatever that needs, through operands, residuals and results of all
        # regions at once, since a loop's values are needed by each other.
        self._need_roots()
        while self.pending:
            self._follow(self.pending.pop())

    def _need_roots(self) -> None:
        graphs = {graph: None for op in self.controls for graph in op.graphs.values()}
        # Gradients outside of the operator are not walked: what they read of its runs is a root.
        for graph in graphs:
            for gradient_graph in gradient_graphs(graph) if graph.residuals else ():
                if gradient_graph not in graphs:
                    self._need(residual for value, residual in residual_inputs(gradient_graph).items() if is_read(value))
        self._run(self.op)
        self._need(value for value in self.op.writes() if value.readers or value.graph.is_observed(value))
        for inner in operators_in(self.op):
            if has_effects(inner):
                self._run(inner)

    def _need(self, values: Iterable[Value]) -> None:
        for value in values:
            if value not in self.values:
                self.values.add(value)
                self.pending.append(value)

    def _follow(self, value: Value) -> None:
        """Mark the writer of a live value, and the positions that it is passed through, as live."""
        for writer in value.writers:
            self._run(writer)
            if writer.graphs and not writer.is_sealed:
                self._need_result(writer, value)
        if value in self.places:
            self._need_operand(value, *self.places[value])

    def _run(self, op: Op) -> None:
        """An operator runs: what decides how is needed, and all it reads if it has no nested graphs."""
        # What is around the operator is not judged here: only it, and what is nested in it.
        if op in self.ops or (op.graph is self.op.graph and op is not self.op):
            return
        self.ops.add(op)
        # What is sealed is one operator to this pass.
        if not op.graphs or op.is_sealed:
            self._need(op.reads())
            return
        definition = definition_of(op)
        # Operands are needed one by one, as the graphs read them; a condition in any case.
        self._need(value for slot, values in op.inputs.items() if slot != definition.operands for value in values)
        if definition.is_grad:
            self._freeze(op)
        elif is_forward_loop(op):
            self._need_place(op, carried_count(op) - 1)

    def _freeze(self, op: Op) -> None:
        self.frozen.add(op)
        self._need([*operands(op), *results_of(op), *(value for graph in op.graphs.values() for value in graph.results)])

    def _need_result(self, op: Op, value: Value) -> None:
        places = [i for i, result in enumerate(results_of(op)) if result is value]
        if not places and op not in self.frozen:
            self._freeze(op)
        for place in places:
            self._need_place(op, place)

    def _need_place(self, op: Op, place: int) -> None:
        """The result in a place is needed, and so is what the graphs compute for it; in a loop also its initial value."""
        self._need([results_of(op)[place], *(graph.results[place] for graph in op.graphs.values())])
        if is_forward_loop(op):
            self._need([operands(op)[place]])

    def _need_operand(self, value: Value, op: Op, place: int) -> None:
        inputs = operands(op)
        if place >= len(inputs):
            self._need([self.residuals[value]])
            return
        self._need([inputs[place]])
        # A carried argument is what the iteration before yields, so that result has to be computed.
        if place < first_captured(op):
            self._need_place(op, place)

    # -- the operator without the rest -----------------------------------------------------------

    def is_all(self) -> bool:
        """Whether everything is needed."""
        return not any(self._spare(op) for op in self.controls if op in self.ops)

    def _spare(self, op: Op) -> bool:
        graphs = op.graphs.values()
        if any(member not in self.ops for graph in graphs for member in graph.ops) or any(map(self._spare_residuals, graphs)):
            return True
        ports = self._kept(op)
        return (len(ports[0]), len(ports[1])) != (len(operands(op)), len(results_of(op)))

    def _spare_residuals(self, graph: Graph) -> list[Value]:
        """The residuals that no gradient reads."""
        live: set[Value] = set()
        for gradient_graph in gradient_graphs(graph) if graph.residuals else ():
            inside = gradient_graph.owner in self.controls
            pairs = residual_inputs(gradient_graph).items()
            # Gradients that the sweep looks into count as far as they need a value; others wherever they read it.
            live.update(residual for value, residual in pairs if (value in self.values if inside else is_read(value)))
        return [value for value in graph.residuals if value not in live]

    def _kept(self, op: Op) -> tuple[list[int], list[int]]:
        """The places of the operands and of the results that stay."""
        inputs, result_places = range(len(operands(op))), range(len(results_of(op)))
        if op in self.frozen:
            return [*inputs], [*result_places]
        results = [i for i in result_places if results_of(op)[i] in self.values]
        carried_places = result_places if is_forward_loop(op) else ()
        # A carried operand goes with its result, a captured one with the last reader in any of the graphs.
        reads = [
            i for i in inputs if (i in results if i in carried_places else any(g.inputs[i] in self.values for g in op.graphs.values()))
        ]
        return reads, results

    def trim(self) -> None:
        """Remove all that is dead."""
        # In three walks: results first, so that operators lose their last readers; then operators; then operands, which are unread by now.
        ports = {op: self._kept(op) for op in self.controls if op in self.ops}
        for op, (_, results) in ports.items():
            for graph in op.graphs.values():
                graph.results = [graph.results[i] for i in results]
        for op in ports:
            for graph in op.graphs.values():
                for member in [candidate for candidate in reversed(graph.ops) if candidate not in self.ops]:
                    graph.remove_op(member)
        for op, (reads, results) in ports.items():
            self._trim_slots(op, reads, results)

    def _trim_slots(self, op: Op, reads: list[int], results: list[int]) -> None:
        definition, inputs, all_results = definition_of(op), operands(op), results_of(op)
        for graph in op.graphs.values():
            stays = {graph.inputs[i] for i in reads}
            for value in [v for v in graph.inputs[: len(inputs)] if v not in stays] if len(reads) < len(inputs) else ():
                graph.drop(value)
            drop_residuals(graph, self._spare_residuals(graph))
        if len(reads) < len(inputs):
            op.graph.set_inputs(op, definition.operands, [inputs[i] for i in reads])
        if len(results) < len(all_results):
            op.graph.set_outputs(op, definition.results, [all_results[i] for i in results])


def without_dead_values(op: Op) -> bool:
    """Drop the dead values of an operator with nested graphs; return whether there were any."""
    if not in_graph(op) or op.is_sealed:
        return False
    liveness = Needed(op)
    if liveness.is_all() or not op.graph.allows("dead-values", op):
        return False
    liveness.trim()
    return True


# -- the pass --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeadCode(Pass):
    """Remove dead operators, and dead operands and results of loops and branches.

    Operators with effects and requested values stay. In nested graphs everything goes that no result needs, such as values that a
    loop carries only for themselves, and unused operands. Gradients, and the operators they belong to, keep their signatures.

    Args:
        keep: the names that are requested from now on, besides persistable variables; empty: those that were.

    Raises:
        ValueError: the graph has no value of a name in ``keep``.
    """

    name = "dead-code"
    idempotent = True
    keep: tuple[str, ...] = ()

    def apply(self, graph: Graph) -> bool:
        has_new_targets = self._request(graph)
        cursor = ChangeCursor(self, graph)
        changed_ops = cursor.changed_ops()
        stack = list(graph.ops) if has_new_targets or changed_ops is None else _outermost(graph, changed_ops)
        has_changed = _swept(stack)
        cursor.catch_up()
        return has_changed or has_new_targets

    def _request(self, graph: Graph) -> bool:
        """Make ``keep`` the targets; return whether they were others."""
        if not self.keep or graph.parent is not None:
            return False
        targets: dict[Value, None] = dict.fromkeys(graph.given(name) for name in self.keep)
        if targets == graph.targets or not graph.allows("keep"):
            return False
        graph.targets = targets
        graph.journal.requested = self.keep
        graph.journal.edits += 1
        return True


def _outermost(graph: Graph, changed_ops: list[Op]) -> list[Op]:
    """The operators of a graph in which operators were touched."""
    if not graph.controls:
        return changed_ops
    owners: Owners = owners_of(graph)
    # What is dead inside depends on what is read outside, so the outermost operator is looked at as a whole.
    outermost: dict[Op, None] = {}
    for op in changed_ops:
        while op.graph is not graph and op.graph in owners:
            op = owners[op.graph]
        if op.graph is graph:
            outermost[op] = None
    return list(outermost)


def _swept(pending: list[Op]) -> bool:
    """Go through operators from the last on, and through those that may die with them; return whether anything went."""
    has_changed = False
    uses = _Uses()
    while pending:
        op = pending.pop()
        # The ordinary case, decided without asking for effects.
        if uses.has(op) and not op.graphs:
            continue
        writers = [value.writers[0] for values in op.inputs.values() for value in values if value.writers]
        if in_graph(op) and _shrunk(op):
            has_changed = True
            pending += writers
    return has_changed


class _Uses:
    """Whether results of an operator are read. An operator of many results is asked again whenever one loses a reader.

    A sweep adds no readers, so that it goes on from the result that was read last time: all of them are looked at once, not once for
    each (as a clause of a SAT solver is watched at one literal; Moskewicz et al., "Chaff", 2001).
    """

    def __init__(self) -> None:
        self._watched: dict[Op, tuple[Value | None, Iterator[Value]]] = {}

    def has(self, op: Op) -> bool:
        if op.graphs:
            return any(value.readers for value in op.writes())
        value, rest = self._watched.get(op) or (None, op.writes())
        # The value that had a reader last is asked first: with many results, all of them would be asked after each change.
        if value is None or not value.readers:
            value = next((value for value in rest if value.readers), None)
            self._watched[op] = value, rest
        return value is not None


def _shrunk(op: Op) -> bool:
    """Remove an operator if it is dead, else the dead values of its nested graphs; return whether anything was removed."""
    if not op.graph.is_dead(op):
        return bool(op.graphs) and without_dead_values(op)
    if not op.graph.allows("dead-operator", op):
        return False
    op.graph.remove_op(op)
    return True
