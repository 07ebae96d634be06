"""Rules written as before and after, two expressions over operators."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any, overload

from graphad.errors import InvalidType, InvalidValue
from graphad.ir import Op, Value
from graphad.program.source import SourceLine, line_of
from graphad.rewriting.constants import fillers
from graphad.rewriting.evaluation import Instance, keeps_types
from graphad.rewriting.matcher import Choices, Match, Trace, UnknownType, compare_later, match_op, match_roots
from graphad.rewriting.pattern import (
    Attribute,
    Call,
    Constant,
    Result,
    Scalar,
    Several,
    Term,
    Unknown,
    Uses,
    calls_in,
    check_terms,
    leaves,
    parts_of,
)
from graphad.rewriting.proofs import recorded_dtypes
from graphad.rewriting.rewriter import Place, Root, Rule, erase_if_dead
from graphad.rewriting.rule_check import Evidence, Kinks, check_rule
from graphad.rewriting.rule_inputs import Example
from graphad.types import FLOATS, Function

several: object = object()


@dataclass(frozen=True)
class Variant:
    """A pattern with the inputs of its commutative operators in one order. ``writers`` are the types of what its inputs come from."""

    calls: tuple[Call, ...]
    writers: tuple[tuple[Place, frozenset[str]], ...]
    is_simple: bool = True  # one operator to start at, and no list to be split


LIBRARY = "graphad."  # how the modules of the library are called


class PatternRule(Rule):
    """A rule made of terms: see ``rewrite``.

    Attributes:
        before: the pattern, one result or several; after: the replacement, as many.
        conditions: scalars that have to be true.
        text: before ⇒ after, in one line.
        example: draws inputs that the rule applies to, if its author gave one.
        evidence: the inputs that the rule was tested on when it was defined; None if it was not tested.
        source: the file and line of the function that the rule was made of.
        exact: whether the rule claims to keep every bit.
        gradients: whether gradients are compared at kinks and ties too, "all", or only away from them, "smooth".
        module: that of the function that the rule was made of.
        proved: the dtypes of the first tensor for which the values are proved, by ``make proofs`` for the library's rules, by ``prove`` for
            others; "all" where elements are only moved, and none where nothing was proved.
        tested: the other dtypes for which both sides were compared on hard inputs; of a rule that was not tested when it was defined, they
            are compared when this is first read.

    >>> from graphad import ops
    >>> @rewrite
    ... def relu_twice(x):
    ...     return ops.relu(ops.relu(x)), ops.relu(x)
    >>> relu_twice.proved, relu_twice.tested
    ((), ('float64', 'float32', 'int64', 'int32', 'bool'))
    """

    example: Example | None = None
    evidence: Evidence | None = None
    source: SourceLine | None = None
    exact: bool = False
    gradients: Kinks = "all"
    module: str = ""

    @cached_property
    def proved(self) -> tuple[str, ...]:
        # Names and texts are the users' to choose: only the library's own are those that proofs are recorded for.
        return recorded_dtypes(self.name, self.text) if self.module.startswith(LIBRARY) else ()

    @cached_property
    def tested(self) -> tuple[str, ...]:
        evidence = self.evidence or check_rule(self, self.exact, self.example, self.gradients)
        return tuple(dtype for dtype in evidence.dtypes if not {dtype, "all"} & {*self.proved})

    def __repr__(self) -> str:
        return f"<rule {self.name}: {self.text}>"

    def _repr_html_(self) -> str:
        suffix = "" if self.evidence is None else f"<br>tested on {self.evidence.compared} inputs"
        suffix += f"<br>proved for {', '.join(self.proved)}" if self.proved else ""
        return f"<div><b>{escape(self.name)}</b> <code>{escape(self.text)}</code><br>{escape(self.__doc__ or '')}{suffix}</div>"

    def __init__(self, name: str, doc: str, before: Sequence[Result], after: Sequence[Term], conditions: Sequence[Scalar]) -> None:
        self.name = name
        self.__doc__ = doc
        self.before = tuple(before)
        self.after = tuple(after)
        self.conditions = tuple(conditions)
        self.variants = tuple(_variants(self.before))
        # A set of rules finds its candidates by the type of the operator where a match starts.
        self.types = frozenset(variant.calls[0].definition.type for variant in self.variants)
        # A condition on how often an operand is read depends on operators that are not in the pattern: one level more.
        self.depth = max(map(_depth, self.before)) + any(_counts_readers(item) for item in self.conditions)
        self.multi_root = len(self.variants[0].calls) > 1
        suffix = f" where {' and '.join(map(repr, self.conditions))}" if self.conditions else ""
        self.text = f"{_listed(self.before)} ⇒ {_listed(self.after)}{suffix}"

    def match(self, op: Op, trace: Trace | None = None) -> Match | None:
        """The bindings of the rule's tensors and attributes at an operator; None if it does not apply there."""
        return next((match for variant in self.variants if (match := self._match_as(variant, op, trace)) is not None), None)

    def _match_as(self, variant: Variant, op: Op, trace: Trace | None = None) -> Match | None:
        if variant.is_simple:
            match = Match(trace=trace)
            return match if match_op(variant.calls[0], op, match) and self._satisfies(variant, op, match) else None
        choices: Choices | None = Choices()
        # Backtracking: a choice that a condition refuses is not the last one, so the next is tried from the start.
        while choices is not None:
            for match in match_roots(variant.calls, op, Match(trace=trace, choices=choices)):
                if self._satisfies(variant, op, match):
                    return match
            choices = choices.next()
        return None

    def _satisfies(self, variant: Variant, op: Op, match: Match) -> bool:
        # What costs least is asked first, the types of the whole replacement last.
        try:
            is_match = compare_later(match) and self._holds(match) and keeps_types(self.before, self.after, match)
        except UnknownType as error:
            reason = str(error)
            return match.fail(lambda: reason)
        return is_match and self._is_possible(variant, op, match)

    def roots(self) -> Iterable[Root]:
        return [Root(variant.writers, variant) for variant in self.variants]

    def dependencies(self) -> Iterable[tuple[int, frozenset[str] | None]]:
        if any(_counts_readers(condition) for condition in self.conditions):
            return super().dependencies()
        # At distance 0 is the operator where a match starts, which is visited anyway.
        return [(distance, types) for term in self.before for distance, types in _below(term) if distance]

    def rewrite(self, op: Op) -> bool:
        return any(self.rewrite_as(op, variant) for variant in self.variants)

    def rewrite_as(self, op: Op, variant: Variant) -> bool:
        match = self._match_as(variant, op)
        if match is None or not op.graph.allows(self.name, *match.ops.values()):
            return False
        # Found before anything is built: a replacement may use results of the pattern.
        results = [match.value_of(term) for term in self.before]
        instance = Instance(op, match)
        for old, new in zip(results, [instance.value(term) for term in self.after], strict=True):
            # A value that was there keeps what it is; a new one takes over the variable and what it is the gradient of.
            if new is not old:
                if new in instance.made:
                    _take_over(old, new)
                op.graph.substitute(old, new)
        # Operators further below may have other readers: those die with the last one that is removed, or stay.
        for call in dict.fromkeys(term.call for term in self.before):
            erase_if_dead(match.ops[call])
        return True

    def _holds(self, match: Match) -> bool:
        for condition in self.conditions:
            if not condition.value(match):
                return match.fail(lambda condition=condition: f"the condition {condition!r} does not hold")
        return True

    def _is_possible(self, variant: Variant, op: Op, match: Match) -> bool:
        """Whether the rewrite is legal: no value would be requested under two names, and no cycle would arise."""
        # Each of these would leave a graph that computes the same and says something else: no progress, other gradients, a requested name
        # lost, a cycle.
        results = [match.value_of(term) for term in self.before]
        if not any(value.readers or op.graph.is_observed(value) for value in results):
            return match.fail(lambda: "its results are unused: rewriting them would change nothing, again and again")
        result = results[0]
        if not result.stop_gradient and any(
            value.stop_gradient and value.dtype in FLOATS for op in match.ops.values() for values in op.outputs.values() for value in values
        ):
            return match.fail(lambda: "gradients stop inside it")
        if any(value.error_clip is not None and value not in results for op in match.ops.values() for value in op.writes()):
            return match.fail(lambda: "a gradient is clipped inside it")
        if any(
            _would_flow(match.value_of(old), match.values[new])
            for old, new in zip(self.before, self.after, strict=True)
            if new in match.values
        ):
            return match.fail(lambda: "gradients would flow where they stop or are clipped")
        is_copy = op.definition is not None and op.definition.is_copy
        if is_copy and isinstance(self.after[0], Unknown) and result.graph.parent is None and result.graph.is_observed(result):
            return match.fail(lambda: f"{result!r} is requested by name")
        if len(variant.calls) > 1 and _would_wait(match, variant):
            return match.fail(lambda: "an operator would wait for itself")
        return True


def _take_over(old: Value, new: Value) -> None:
    """Make a new value the gradient of what the old one is, and stop gradients where that does."""
    new.grad_of = old.grad_of
    # A persistable variable stays with the value that the program stores.
    if not old.persistable:
        new.var = old.var


def _would_flow(old: Value, new: Value) -> bool:
    """Whether gradients would flow where they stop or are clipped: through what is read instead, or at a value that gets its name."""
    if old.dtype not in FLOATS or new.gradient_marks == old.gradient_marks:
        return False
    return old.stop_gradient or old.error_clip is not None or (bool(new.writers) and old.graph.is_observed(old))


def _would_wait(match: Match, variant: Variant) -> bool:
    """Whether something that goes in is computed from something that comes out."""
    # Roots that are side by side become one operator, which may not depend on its own results.
    roots = {match.ops[call.key] for call in variant.calls}
    stack = [value for term, value in match.values.items()] + [value for values in match.lists.values() for value in values]
    visits: set[Value] = set()
    while stack:
        value = stack.pop()
        if value in visits:
            continue
        visits.add(value)
        for writer in value.writers:
            if writer in roots:
                return True
            stack += writer.reads()
    return False


# -- the decorator -------------------------------------------------------------------------------


@overload
def rewrite(function: Callable[..., object]) -> PatternRule: ...
@overload
def rewrite(
    *, fast: bool = ..., verify: bool = ..., example: Example | None = ..., gradients: Kinks = ...
) -> Callable[[Function], PatternRule]: ...
def rewrite(
    function: Any = None, *, fast: bool = True, verify: bool = True, example: Example | None = None, gradients: Kinks = "all"
) -> Any:
    """Make a rule of a function that returns ``before, after`` or ``before, after, condition, ...``.

    Args:
        function: its parameters are the unknowns; it is called once, with terms.
        fast: the rule may differ from what it replaces by rounding, and where something is nan, infinite or out of range;
            False: it has to agree to the last bit, there too.
        verify: compare before and after now, on a fixed set of hard inputs; ``rule.evidence`` says which.
        example: ``example(rng) -> {parameter: array or attribute}`` gives shapes and attributes that the rule applies to, where those in
            the fixed set do not fit it. Floating-point elements are tried with other values too: an example narrows no claim.
        gradients: "all" compares gradients at kinks and ties too, "smooth" only away from them.

    Raises:
        ValueError: the rule is wrong, with inputs that show it; or it applied to nothing that was tried.
        TypeError: the function does not return terms.

    >>> from graphad import ops
    >>> @rewrite
    ... def log_exp(x):
    ...     return ops.log(ops.exp(x)), x
    >>> log_exp
    <rule log-exp: log(exp(x)) ⇒ x>
    """
    if function is None:
        return lambda function: rewrite_with(function, fast, verify, example, gradients)
    return rewrite_with(function, fast, verify, example, gradients)


def rewrite_with(function: Callable[..., object], fast: bool, verify: bool, example: Example | None, gradients: Kinks) -> PatternRule:
    """Make a rule of a decorated function."""
    if gradients not in ("all", "smooth"):
        raise InvalidValue(f'gradients={gradients!r}: "all" or "smooth" is expected')
    name = function.__name__.strip("_").replace("_", "-")
    # The function is called once, on terms: what it computes of them are the patterns before and after.
    result = function(*_unknowns(function), **_attributes(function))
    if not isinstance(result, tuple) or len(result) < 2:
        raise InvalidType(f"rule {name} returns before, after and perhaps conditions, not {result!r}")
    before, after = _terms(name, "before", result[0]), _terms(name, "after", result[1])
    check_terms(name, before, after, result[2:])
    rule = PatternRule(name, inspect.getdoc(function) or "", before, after, result[2:])  # type: ignore[arg-type]
    rule.source, rule.exact, rule.example, rule.module = line_of(function), not fast, example, function.__module__
    rule.gradients = gradients
    if verify:
        rule.evidence = check_rule(rule, exact=not fast, example=example, gradients=gradients)
    return rule


def _unknowns(function: Callable[..., object]) -> Iterator[Term]:
    for p in inspect.signature(function).parameters.values():
        if p.kind is not p.KEYWORD_ONLY:
            yield Several(p.name) if p.default is several else Unknown(p.name)


def _attributes(function: Callable[..., object]) -> dict[str, Attribute]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: Attribute(p.name) for p in parameters if p.kind is p.KEYWORD_ONLY}


def _terms(name: str, side: str, result: object) -> tuple[Term, ...]:
    items = tuple(result) if isinstance(result, tuple | list) else (result,)
    for item in items:
        if not isinstance(item, Term):
            raise InvalidType(f"{side} of rule {name} is a tensor of the pattern, or several, not {item!r}")
    return items


# -- orders --------------------------------------------------------------------------------------


def _variants(results: Sequence[Result]) -> Iterator[Variant]:
    """A pattern with the inputs of commutative operators in every order."""
    swappable = list(dict.fromkeys(c for r in results for c in calls_in(r) if c.is_swappable))
    # 2 ** n variants of n commutative operators: patterns are small, and the decision table of the set tries only those that fit the
    # writers.
    for swaps in itertools.product((False, True), repeat=len(swappable)):
        calls_swapped = {call for call, swap in zip(swappable, swaps, strict=True) if swap}
        copies: dict[Call, Call] = {}
        calls = tuple(dict.fromkeys(_ordered(r.call, calls_swapped, copies) for r in results))
        yield Variant(
            calls, tuple(_writers(calls[0])), len(calls) == 1 and not any(isinstance(t, Several) for r in results for t in leaves(r))
        )


def _ordered(call: Call, swapped: set[Call], calls: dict[Call, Call]) -> Call:
    if call not in calls:
        inputs = {slot: tuple(_term_in_order(t, swapped, calls) for t in terms) for slot, terms in call.inputs.items()}
        if call in swapped:
            # A commutative operator with its operands exchanged: another form of the rule, found by the same matcher.
            inputs = dict(zip(inputs, reversed(inputs.values()), strict=True))
        calls[call] = Call(call.definition, inputs, call.attrs, call)
    return calls[call]


def _term_in_order(term: Term, swapped: set[Call], calls: dict[Call, Call]) -> Term:
    return Result(_ordered(term.call, swapped, calls), term.slot, term.index) if isinstance(term, Result) else term


def _writers(call: Call) -> Iterator[tuple[Place, frozenset[str]]]:
    """The types of operators that the inputs of a call may come from, as far as the pattern says."""
    for slot, terms in call.inputs.items():
        for i, term in enumerate(terms):
            if isinstance(term, Several):
                break
            if isinstance(term, Result | Constant):
                yield (slot, i), _types_of(term)


def _types_of(term: Result | Constant) -> frozenset[str]:
    return fillers() if isinstance(term, Constant) else frozenset((term.call.definition.type,))


def _below(term: Term, distance: int = 0) -> Iterator[tuple[int, frozenset[str]]]:
    """The operators of a term, and how many of them precede the one where the match starts."""
    if isinstance(term, Result | Constant):
        yield distance, _types_of(term)
    for terms in term.call.inputs.values() if isinstance(term, Result) else ():
        for leaf in terms:
            yield from _below(leaf, distance + 1)


def _depth(term: Term) -> int:
    if not isinstance(term, Result):
        return int(isinstance(term, Constant))
    return 1 + max((_depth(t) for terms in term.call.inputs.values() for t in terms), default=0)


def _counts_readers(scalar: Scalar) -> bool:
    """Whether a condition is about how many operators read a tensor that comes into the pattern."""
    return any(isinstance(part, Uses) and not isinstance(part.parts[-1], Result) for part in parts_of(scalar))


def _listed(terms: Sequence[Term]) -> str:
    return ", ".join(map(repr, terms))


# -- why not -------------------------------------------------------------------------------------


def explain(rule: Rule, node: Op | Value) -> str:
    """Why a rule does not apply at an operator, or the one that writes a value: how far it matched, and what failed there.

    >>> import graphad as ga
    >>> from graphad import ops
    >>> program = ga.Program()
    >>> with ga.program_guard(program):
    ...     x = ga.layers.data("x", shape=[3])
    ...     y = ga.layers.log(ga.layers.tanh(x))
    >>> @rewrite
    ... def log_exp(x):
    ...     return ops.log(ops.exp(x)), x
    >>> print(explain(log_exp, ga.lower(program).value(y.name)))
    rule log-exp does not apply at log(X=tanh_0.tmp_0) -> (Out=log_0.tmp_0):
      expected exp to write tanh_0.tmp_0, found tanh(X=x) -> (Out=tanh_0.tmp_0)
    """
    if not isinstance(node, Op | Value):
        raise InvalidType(f"a rule is explained at an operator or a value, not at {node!r}")
    op = node if isinstance(node, Op) else node.writer
    if op is None:
        return f"rule {rule.name} does not apply at {node!r}: no operator writes it"
    if not isinstance(rule, PatternRule):
        types = ", ".join(sorted(rule.types)) if rule.types else "any operator"
        return f"rule {rule.name} is written in Python: it starts at {types}"
    trace = Trace()
    if rule.match(op, trace) is not None:
        return f"rule {rule.name} applies at {op!r}"
    return f"rule {rule.name} does not apply at {op!r}:\n  {trace.reason}"
