"""Remove dead operators and dead values.

    x ─▶ exp ─▶ a ─▶ sin ─▶ b                          x ─▶ tanh ─▶ y (requested)
    x ─▶ tanh ─▶ y (requested)          ⇒

    while(h, c) -> (h', c') { h = f(h); c = g(c) }     while(h) -> (h') { h = f(h) }         c' is unused

Operators are visited from the last to the first, so that one walk is enough; later runs visit only what changed since.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphad.graph import Graph, Op, Value
from graphad.passes.cleanup.dead_values import without_dead_values
from graphad.passes.cleanup.owners import Owners, owners_of
from graphad.rewriting import Follower, Pass
from graphad.rewriting.following import in_graph


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
        requested = self._request(graph)
        follower = Follower(self, graph)
        fresh = follower.fresh()
        pending = list(graph.ops) if requested or fresh is None else _outermost(graph, fresh)
        changed = _swept(pending)
        follower.catch_up()
        return changed or requested

    def _request(self, graph: Graph) -> bool:
        """Make ``keep`` the targets; return whether they were others."""
        if not self.keep or graph.parent is not None:
            return False
        wanted: dict[Value, None] = dict.fromkeys(graph.given(name) for name in self.keep)
        if wanted == graph.targets or not graph.allows("keep"):
            return False
        graph.targets = wanted
        graph.journal.asked = self.keep
        graph.journal.edits += 1
        return True


def _outermost(graph: Graph, fresh: list[Op]) -> list[Op]:
    """The operators of a graph in which operators were touched."""
    if not graph.controls:
        return fresh
    owners: Owners = owners_of(graph)
    found: dict[Op, None] = {}
    for op in fresh:
        while op.graph is not graph and op.graph in owners:
            op = owners[op.graph]
        if op.graph is graph:
            found[op] = None
    return list(found)


def _swept(pending: list[Op]) -> bool:
    """Go through operators from the last on, and through those that may die with them; return whether anything went."""
    changed = False
    while pending:
        op = pending.pop()
        if _is_read(op) and not op.graphs:
            continue
        writers = [value.writers[0] for values in op.inputs.values() for value in values if value.writers]
        if in_graph(op) and _shrunk(op):
            changed = True
            pending += writers
    return changed


def _is_read(op: Op) -> bool:
    for values in op.outputs.values():
        for value in values:
            if value.readers:
                return True
    return False


def _shrunk(op: Op) -> bool:
    """Remove an operator if it is dead, else the dead values of its nested graphs; return whether anything was removed."""
    if not op.graph.is_dead(op):
        return bool(op.graphs) and without_dead_values(op)
    if not op.graph.allows("dead-operator", op):
        return False
    op.graph.remove_op(op)
    return True
