"""Hoist loop-invariant operators in front of the loop.

    while(h; w) { t = tanh(w); h = h * t }      ⇒      t = tanh(w); while(h; t) { h = h * t }

    while(h; w) { if(c; w) { t = tanh(w) ... } }      ⇒      t = tanh(w); while(h; t) { if(c; t) { ... } }

The innermost loops come first, so that operators invariant in several are hoisted in front of the outermost. Since the loop may run
zero times, and a branch may not be taken, only operators move that cannot fail (``analyses.speculation``) on values that are there for
certain (``analyses.certain``). While there is no backward yet, those of infinite slopes leave a loop only if that runs, and no branch:
``if x > 0: y = sqrt(x)`` would get a gradient of ``0 * inf`` at 0. Constants stay in the loop unless something that moves reads them;
branches and nets themselves stay.
What a gradient reads of each iteration it reads as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from graphad.ir import Graph, Op, Value
from graphad.ir.clone import ValueMap
from graphad.ir.edits import add_operands, clone_ops
from graphad.ir.regions import BranchLike, CallLike, LoopLike, is_grad_op, is_loop, operands
from graphad.passes.analyses.speculation import keeps_gradients_finite, may_run_early
from graphad.passes.analyses.trip_counts import TripCounts
from graphad.passes.analyses.uninitialized import Certain
from graphad.program import FORWARD
from graphad.rewriting import OnTrial, Pass, erase_if_dead


@dataclass(frozen=True)
class HoistInvariants(Pass):
    """Move operators of a loop's body, and of branches and nets in it, that depend only on captured values in front of the loop."""

    name = "hoist-invariants"
    on_trial = OnTrial(programs=("optimizable", "nested", "any"))
    idempotent = True

    def apply(self, graph: Graph) -> bool:
        loops = [op for subgraph in graph.tree(sealed=False) for op in subgraph.controls if is_loop(op)]
        if not loops:
            return False
        has_backward = any(op.role != FORWARD for subgraph in graph.tree() for op in subgraph.ops)
        facts = _Facts(set(Certain.of(graph).values), TripCounts.of(graph).counts, has_backward)
        # Innermost first (``reversed``): what leaves the inner loop can leave the outer one in the same run.
        return any([_emptied(op, body, facts) for op in reversed(loops) for body in op.graphs.values()])


@dataclass(frozen=True)
class _Facts:
    """The facts about a graph that hoisting needs: the values that certainly exist, to which hoisted ones are added; the trip counts of
    loops; and whether the graph has a backward part already."""

    certain: set[Value]
    trips: Mapping[Op, int]
    has_backward: bool

    def may_leave(self, op: Op, region: Op) -> bool:
        """Whether an operator may run in front of the loop or branch that it is in."""
        return may_run_early(op) and (self.has_backward or self.trips.get(region, 0) > 0 or keeps_gradients_finite(op))


def _emptied(op: Op, body: Graph, facts: _Facts) -> bool:
    """Move what is invariant in front of a loop: first what is in its body itself, then what that leaves in branches."""
    has_changed = False
    while True:
        invariants = _unchanging(op, body)
        has_changed |= _Hoist(op, body, facts, invariants).run()
        if not _out_of_branches(body, set(_unchanging(op, body)), facts):
            return has_changed
        has_changed = True


def _out_of_branches(graph: Graph, invariant: set[Value], facts: _Facts) -> bool:
    """Move what is invariant out of the branches and nets of a loop's body, in front of them."""
    has_changed = False
    for op in list(graph.controls):
        call = CallLike.of(op)
        if is_grad_op(op) or not (BranchLike.of(op) or (call is not None and not call.stays_whole)):
            continue
        for region in op.graphs.values():
            invariants = {inner: value for inner, value in zip(region.inputs, operands(op), strict=False) if value in invariant}
            if invariants:
                # From the inside out: what leaves an inner branch may leave this one next.
                has_changed |= _out_of_branches(region, set(invariants), facts)
                has_changed |= _Hoist(op, region, facts, invariants).run()
    return has_changed


@dataclass
class _Hoist:
    """One loop or branch: ``mapping`` takes invariant values of its body, at first ``known``, to those in front of it, ``constants`` what
    could be one."""

    op: Op
    body: Graph
    facts: _Facts
    known: dict[Value, Value]
    mapping: ValueMap = field(default_factory=ValueMap)
    constants: dict[Value, Op] = field(default_factory=dict)

    def run(self) -> bool:
        """Move what can be moved; return whether anything was."""
        self.mapping.values.update(self.known)
        hoisted: list[Op] = []
        for op in self.body.ordered_ops():
            # A constant alone gains nothing in front of the loop, where it would live as long as the loop: it moves with an operator that
            # reads it.
            if not op.inputs and may_run_early(op):
                self.constants.update(dict.fromkeys(op.writes(), op))
            elif self._is_invariant(op):
                if not self.body.allows("hoist", op):
                    break
                for constant in self._constants_of(op):
                    self._move(constant)
                self._move(op)
                hoisted.append(op)
        self._pass_in(hoisted)
        return bool(hoisted)

    def _is_invariant(self, op: Op) -> bool:
        mapping, constants = self.mapping.values, self.constants
        for value in op.reads():
            copy = mapping.get(value)
            if value not in constants if copy is None else copy not in self.facts.certain:
                return False
        return bool(op.inputs) and self.facts.may_leave(op, self.op)

    def _constants_of(self, op: Op) -> Iterator[Op]:
        constants = (self.constants[value] for value in op.reads() if value not in self.mapping.values)
        yield from dict.fromkeys(constants)

    def _move(self, op: Op) -> None:
        """Put a copy of an operator in front of the loop."""
        clone_ops([op], self.op.graph, self.mapping, before=self.op)
        self.facts.certain.update(self.mapping.ops[op].writes())

    def _pass_in(self, hoisted: list[Op]) -> None:
        """Let the operators left in the loop read the hoisted values, and remove the moved operators."""
        removals = set(hoisted)
        results = [value for op in hoisted for value in op.writes()]
        live = [v for v in results if self.body.is_observed(v) or any(reader not in removals for reader in v.readers)]
        regions = list(self.op.graphs.values())
        # Only values that are still read become operands; those between hoisted operators stay outside.
        inside = add_operands(self.op, [self.mapping.values[v] for v in live])
        for region, inner_values in zip(regions, inside, strict=True):
            for value, inner in zip(live, inner_values, strict=True):
                if region is self.body:
                    region.replace(value, inner)
                if self.mapping.values[value] in self.facts.certain:
                    self.facts.certain.add(inner)
        for op in reversed(hoisted):
            erase_if_dead(op)


def _unchanging(op: Op, body: Graph) -> dict[Value, Value]:
    """The loop-invariant arguments of a loop's body, captured or carried unchanged, with the operands that they are."""
    loop = LoopLike.of(op)
    assert loop is not None
    inputs, at = loop.operands, loop.carried_at
    places = () if loop.is_gradient else at
    # Carried, but yielded as it came: it is the same in all iterations.
    arguments = {body.inputs[i]: inputs[i] for i in places if body.results[i] is body.inputs[i]}
    return arguments | {body.inputs[i]: value for i, value in enumerate(inputs) if i not in at}
