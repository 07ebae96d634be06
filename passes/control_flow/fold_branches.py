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

from graphad.ir import Graph, Op, Value
from graphad.ir.edits import gradients_of, has_gradient, inline, remove_result, skip
from graphad.ir.nodes import Slots
from graphad.ir.regions import BranchLike, LoopLike, carried_count, definition_of, operands, results_of, types_of
from graphad.ir.residuals import residual_inputs
from graphad.passes.analyses.known_values import KnownValues
from graphad.passes.analyses.speculation import holds_initialization, holds_uncopyable
from graphad.passes.analyses.uninitialized import is_safe
from graphad.rewriting import OnTrial, Pass, Rule, RuleSet, erase_if_dead, rewrite_greedily
from graphad.rewriting.constants import uniform_number
from graphad.types import same_shape

# -- choices by a known mask -----------------------------------------------------------------------
# Rules for operators that choose between values, where the mask is a constant.
#
# select_input(X=[a, b], Mask=1) ⇒ b                     select_output(X=x, Mask=0, Like=[a, b]) ⇒ x, fill_zeros_like(b)
# merge_lod_tensor(Mask=True, InTrue=a, ...) ⇒ a         where(Condition=True, X=a, Y=b) ⇒ a


@dataclass(repr=False)
class _Choice(Rule):
    """A choice by a mask that is a constant."""

    known: KnownValues

    def number(self, op: Op, slot: str) -> int | None:
        """The number that a mask is all over, None if it is not known to be one."""
        value = op.input(slot)
        array = self.known.array(value)
        number = uniform_number(value) if array is None else array.item()
        return None if number is None else int(number)

    def put(self, op: Op, value: Value) -> bool:
        """Replace the operator's result by a value, unless gradients would no longer stop there."""
        out = op.output("Out")
        if (out.stop_gradient and not value.stop_gradient) or out.dtype != value.dtype or not op.graph.allows(self.name, op):
            return False
        op.graph.substitute(out, value)
        return True


class SelectInput(_Choice):
    """One of several values, chosen by a constant: that one."""

    name = "known-select-input"
    types = frozenset(("select_input",))

    def rewrite(self, op: Op) -> bool:
        number = self.number(op, "Mask")
        return number is not None and 0 <= number < len(op.inputs["X"]) and self.put(op, op.inputs["X"][number])


class SelectOutput(_Choice):
    """A ``select_output`` with a constant choice: its input at that place, zeros elsewhere."""

    name = "known-select-output"
    types = frozenset(("select_output",))

    def rewrite(self, op: Op) -> bool:
        number, x, outs = self.number(op, "Mask"), op.input("X"), op.outputs["Out"]
        if number is None or not 0 <= number < len(outs) or (outs[number].stop_gradient and not x.stop_gradient):
            return False
        graph = op.graph
        if not graph.allows(self.name, op):
            return False
        # The gradient of ``select_input``: what was not selected has a gradient of zeros.
        for i, (out, like) in enumerate(zip(outs, op.inputs["Like"], strict=True)):
            if i != number:
                zeros = graph.add_version(graph.values.fresh(out.name), out.shape, out.dtype)
                zeros.kind = out.kind
                graph.add_op("fill_zeros_like", {"X": [like]}, {"Out": [zeros]}, before=op, role=op.role, forward=op.forward)
                graph.substitute(out, zeros)
        graph.substitute(outs[number], x)
        return True


class Merge(_Choice):
    """Rows that all come from one side: that side."""

    name = "known-merge"
    types = frozenset(("merge_lod_tensor",))

    def rewrite(self, op: Op) -> bool:
        number, shape = self.number(op, "Mask"), op.input("Mask").shape
        side = op.inputs.get("InTrue" if number else "InFalse", ())
        if number is None or not side or not shape or min(shape) < 1:
            return False
        return self.put(op, side[0])


class Where(_Choice):
    """Elements that all come from one side: that side, if it need not be broadcast."""

    name = "known-where"
    types = frozenset(("where",))

    def rewrite(self, op: Op) -> bool:
        number = self.number(op, "Condition")
        if number is None:
            return False
        side, shapes = op.input("X" if number else "Y"), [value.shape for value in op.reads()]
        if side.shape is None or not same_shape(side.shape, op.output("Out").shape or ()) or None in shapes:
            return False
        return self.put(op, side)


RULES = (SelectInput, SelectOutput, Merge, Where)

# -- same graphs -----------------------------------------------------------------------------------
# Whether two nested graphs do the same: the same operators in the same order on the same values, whatever those are called.

_Pairs = dict[Value, Value]


def same_graphs(first: Graph, other: Graph) -> bool:
    """Whether two graphs make the same results of the same inputs by the same operators, each in the order of its own."""
    return _same(first, other, {})


def _same(first: Graph, other: Graph, pairs: _Pairs) -> bool:
    if len(first.ops) != len(other.ops) or len(first.inputs) != len(other.inputs) or residual_inputs(first) or residual_inputs(other):
        return False
    pairs.update(zip(first.inputs, other.inputs, strict=True))
    # One walk in step, each value paired with its counterpart: isomorphism of ordered graphs, not of graphs in general.
    for a, b in zip(first.ordered_ops(), other.ordered_ops(), strict=True):
        if not _same_op(a, b, pairs):
            return False
    return [pairs.get(value) for value in first.results] == other.results


def _same_op(a: Op, b: Op, pairs: _Pairs) -> bool:
    if a.type != b.type or a.definition is None or a.attrs != b.attrs or list(a.graphs) != list(b.graphs):
        return False
    if not _same_slots(a.inputs, b.inputs, pairs) or list(a.outputs) != list(b.outputs):
        return False
    if not all(_same(a.graphs[name], b.graphs[name], pairs) for name in a.graphs):
        return False
    for slot, values in a.outputs.items():
        if len(values) != len(b.outputs[slot]) or any(
            v.gradient_marks != w.gradient_marks for v, w in zip(values, b.outputs[slot], strict=True)
        ):
            return False
        # Results correspond from here on: operators come in one order in both graphs, so that one pass decides.
        pairs.update(zip(values, b.outputs[slot], strict=True))
    return True


def _same_slots(a: Slots, b: Slots, pairs: _Pairs) -> bool:
    return list(a) == list(b) and all(tuple(pairs.get(v) for v in values) == b[slot] for slot, values in a.items())


# -- the pass --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoldBranches(Pass):
    """Fold branches, loops and choices whose condition is a constant, or whose branches are the same.

    A branch that has a gradient is folded together with that. Constants are followed through operators over single elements, and into
    nested graphs. Branches stay that are the same except for the random numbers that they draw, or that hold operators run once per scope.
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
        return (value.stop_gradient or not out.stop_gradient) and is_safe(out, value)

    def inline(self, op: Op, name: str, rule: str) -> bool:
        """Put one of an operator's graphs in its place, if nothing speaks against it."""
        branch = op.graphs[name]
        if gradients_of(op) is None or holds_initialization(op.graphs.values()):
            return False
        arguments = dict(zip(branch.inputs, operands(op), strict=False))
        # A branch may pass on that there is nothing, given or undefined; without an operator that may write it the program could not run.
        pairs = ((out, arguments.get(result, result)) for out, result in zip(results_of(op), branch.results, strict=True))
        if not all(is_safe(out, value) for out, value in pairs) or not op.graph.allows(rule, op):
            return False
        before = list(writers_of(op))
        self.known.note(inline(op, name))
        for writer in before:
            erase_if_dead(writer)
        return True


def writers_of(op: Op) -> Iterator[Op]:
    """The operators that write what an operator reads, which may be dead without it."""
    yield from dict.fromkeys(writer for value in op.reads() for writer in value.writers)


@dataclass(repr=False)
class _KnownCondition(Rule):
    """Replace a branch whose condition is a constant by the graph that runs."""

    facts: _Facts
    name = "known-condition"
    types: frozenset[str] = field(default_factory=lambda: types_of(BranchLike))

    def rewrite(self, op: Op) -> bool:
        holds = self._taken(op)
        return holds is not None and self.facts.inline(op, list(op.graphs)[0 if holds else 1], self.name)

    def _taken(self, op: Op) -> bool | None:
        tests = op.inputs[definition_of(op).condition]
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
        first, branch = op.graphs.values()
        if has_gradient(op) or holds_uncopyable((first,)) or not same_graphs(first, branch):
            return False
        return self.facts.inline(op, next(iter(op.graphs)), self.name)


@dataclass(repr=False)
class _SameResults(Rule):
    """A result that both branches pass through is the operand itself."""

    facts: _Facts
    name = "same-result"
    types: frozenset[str] = field(default_factory=lambda: types_of(BranchLike))

    def rewrite(self, op: Op) -> bool:
        passed_through = [(k, value) for k, value in _passed_through(op) if self.facts.fits(value, results_of(op)[k])]
        if not passed_through or not op.graph.allows(self.name, op):
            return False
        # From the last on, since removing a result moves those after it.
        for k, value in reversed(passed_through):
            op.graph.substitute(results_of(op)[k], value)
            remove_result(op, k)
        return True


def _passed_through(op: Op) -> list[tuple[int, Value]]:
    inputs, pairs = operands(op), []
    first, second = op.graphs.values()
    place = {value: i for i, value in enumerate(first.inputs)}
    for k, results in enumerate(zip(first.results, second.results, strict=True)):
        a, b = map(_copied, results)
        i = place.get(a)
        # Both branches yield the same argument, so the result is its operand whichever runs.
        if i is not None and second.inputs[i] is b:
            pairs.append((k, inputs[i]))
    return pairs


def _copied(value: Value) -> Value:
    """The value that a value is a copy of."""
    while (writer := value.writer) is not None and writer.definition is not None and writer.definition.is_copy:
        if any(value.gradient_marks):
            break
        value = next(writer.reads())
    return value


@dataclass(repr=False)
class _NeverRuns(Rule):
    """Replace the results of a loop that never runs by its initial operands."""

    facts: _Facts
    name = "never-runs"
    types: frozenset[str] = field(default_factory=lambda: types_of(LoopLike))

    def rewrite(self, op: Op) -> bool:
        starts = operands(op)[: carried_count(op)]
        (body,) = op.graphs.values()
        if (
            self.facts.known.truth(op.input(definition_of(op).condition)) is not False
            or gradients_of(op) != []
            or holds_initialization((body,))
        ):
            return False
        if not all(map(self.facts.fits, starts, results_of(op))) or not op.graph.allows(self.name, op):
            return False
        before = list(writers_of(op))
        skip(op)
        for writer in before:
            erase_if_dead(writer)
        return True
