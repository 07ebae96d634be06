"""Take branches that are known to be taken, and leave those that are not.

if_else(c = True) { y = tanh(x) } else { y = sin(x) } -> y      ⇒      y = tanh(x)
if_else(c) { y = tanh(x) } else { y = tanh(x) } -> y            ⇒      y = tanh(x)
if_else(c) { ...; x } else { ...; x } -> y, ...                 ⇒      x in the place of y
while(c = False, h) -> h'                                       ⇒      h in the place of h'
select_input(X=[a, b], Mask=1)                                  ⇒      b
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from graphad.edit import gradients_of, has_gradient, inline, remove_result, skip
from graphad.graph import Graph, Op, Value
from graphad.graph.regions import BranchLike, LoopLike, carried_count, operands, outcomes, the_row, types_of
from graphad.passes.analyses.known_values import KnownValues
from graphad.passes.control_flow.known_choices import RULES
from graphad.passes.control_flow.missing import is_safe
from graphad.passes.control_flow.same_graphs import same_graphs
from graphad.passes.control_flow.streams import holds_bound, runs_once
from graphad.rewriting import OnTrial, Pass, Rule, RuleSet, rewrite_greedily, sweep


@dataclass(frozen=True)
class FoldBranches(Pass):
    """Fold branches, loops and choices whose condition is a constant, or whose branches are the same.

    A branch that has a gradient is folded together with that. Constants are followed through operators over single elements, and into
    nested graphs. Branches stay that are the same but for the random numbers that they draw, or that hold operators run once per scope.
    """

    name = "fold-branches"
    on_trial = OnTrial(programs=("optimizable", "nested", "any"))
    idempotent = True

    def apply(self, graph: Graph) -> bool:
        facts = _Facts(graph)
        rules = (kind(facts) for kind in (_KnownCondition, _SameBranches, _SameResults, _NeverRuns))
        return rewrite_greedily(graph, RuleSet(rules, (kind(facts.known) for kind in RULES)), follower=self)


@dataclass
class _Facts:
    """Facts about a whole graph that the rules need."""

    graph: Graph
    known: KnownValues = field(init=False)

    def __post_init__(self) -> None:
        self.known = KnownValues(self.graph)

    def fits(self, value: Value, out: Value) -> bool:
        """Whether a value can replace another one: gradients that stop there do so still, and there is a value if it is read."""
        return (value.stop_gradient or not out.stop_gradient) and is_safe(out, value, self.known)

    def inline(self, op: Op, name: str, rule: str) -> bool:
        """Put one of an operator's graphs in its place, if nothing speaks against it."""
        kept = op.graphs[name]
        if gradients_of(op) is None or runs_once(op.graphs.values()):
            return False
        given = dict(zip(kept.inputs, operands(op), strict=False))
        passed = ((out, given[result]) for out, result in zip(outcomes(op), kept.results, strict=True) if result in given)
        if not all(is_safe(out, value, self.known) for out, value in passed) or not op.graph.allows(rule, op):
            return False
        before = list(writers_of(op))
        for made in inline(op, name):
            self.known.note(made)
        for writer in before:
            sweep(writer)
        return True


def writers_of(op: Op) -> Iterator[Op]:
    """The operators that write what an operator reads, which may be dead without it."""
    yield from dict.fromkeys(writer for value in op.reads() for writer in value.writers)


@dataclass(repr=False)
class _KnownCondition(Rule):
    """A branch whose condition is a constant: the one taken in its place."""

    facts: _Facts
    name = "known-condition"
    types: frozenset[str] = field(default_factory=lambda: types_of(BranchLike))

    def rewrite(self, op: Op) -> bool:
        taken = self._taken(op)
        return taken is not None and self.facts.inline(op, list(op.graphs)[0 if taken else 1], self.name)

    def _taken(self, op: Op) -> bool | None:
        tests = op.inputs[the_row(op).condition]
        if op.attrs.get("is_scalar_condition", True):
            return self.facts.known.truth(tests[0])
        return _has_elements(tests)


def _has_elements(tests: Sequence[Value]) -> bool | None:
    """Whether all of some tensors have elements, None if that is not known."""
    shapes = [value.shape for value in tests]
    if any(shape is not None and 0 in shape for shape in shapes):
        return False
    return None if any(shape is None or -1 in shape for shape in shapes) else True


@dataclass(repr=False)
class _SameBranches(Rule):
    """Branches that do the same: one of them in their place."""

    facts: _Facts
    name = "same-branches"
    types: frozenset[str] = field(default_factory=lambda: types_of(BranchLike))

    def rewrite(self, op: Op) -> bool:
        one, other = op.graphs.values()
        if has_gradient(op) or holds_bound((one,)) or not same_graphs(one, other):
            return False
        return self.facts.inline(op, next(iter(op.graphs)), self.name)


@dataclass(repr=False)
class _SameResults(Rule):
    """A result that both branches pass through is the operand itself."""

    facts: _Facts
    name = "same-result"
    types: frozenset[str] = field(default_factory=lambda: types_of(BranchLike))

    def rewrite(self, op: Op) -> bool:
        found = [(k, value) for k, value in _passed_through(op) if self.facts.fits(value, outcomes(op)[k])]
        if not found or not op.graph.allows(self.name, op):
            return False
        for k, value in reversed(found):
            op.graph.substitute(outcomes(op)[k], value)
            remove_result(op, k)
        return True


def _passed_through(op: Op) -> list[tuple[int, Value]]:
    given, found = operands(op), []
    one, other = op.graphs.values()
    place = {value: i for i, value in enumerate(one.inputs)}
    for k, results in enumerate(zip(one.results, other.results, strict=True)):
        a, b = map(_copied, results)
        i = place.get(a)
        if i is not None and other.inputs[i] is b:
            found.append((k, given[i]))
    return found


def _copied(value: Value) -> Value:
    """The value that a value is a copy of."""
    while value.writer is not None and value.writer.type == "assign" and not value.stop_gradient:
        value = value.writer.input("X")
    return value


@dataclass(repr=False)
class _NeverRuns(Rule):
    """A loop whose condition does not hold at its start: what it carries as it is."""

    facts: _Facts
    name = "never-runs"
    types: frozenset[str] = field(default_factory=lambda: types_of(LoopLike))

    def rewrite(self, op: Op) -> bool:
        starts = operands(op)[: carried_count(op)]
        (body,) = op.graphs.values()
        if self.facts.known.truth(op.input(the_row(op).condition)) is not False or gradients_of(op) != [] or runs_once((body,)):
            return False
        if not all(map(self.facts.fits, starts, outcomes(op))) or not op.graph.allows(self.name, op):
            return False
        before = list(writers_of(op))
        skip(op)
        for writer in before:
            sweep(writer)
        return True
