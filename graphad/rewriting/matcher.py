"""Matching a pattern at an operator: a walk along the edges, from the root, which is the pattern's first result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from graphad.errors import InvalidValue
from graphad.ir import Op, Value
from graphad.rewriting.constants import as_stored, same_number, uniform_number
from graphad.rewriting.pattern import Attribute, Call, Constant, Result, Scalar, Several, Term, Unknown
from graphad.types import FLOATS, TensorType


@dataclass
class Trace:
    """The failure that lay farthest in a pattern, for ``explain``."""

    reached: int = -1
    reason: str = ""

    def failed(self, reached: int, reason: str) -> None:
        """Remember a failure, if none so far lay farther."""
        if reached > self.reached:
            self.reached, self.reason = reached, reason


class Choices:
    """How long the lists of a pattern are taken to be, where that can be chosen: one way after the other."""

    def __init__(self, planned: Sequence[int] = ()) -> None:
        self.planned = planned
        self.made: list[tuple[int, int]] = []

    def choose(self, count: int) -> int:
        """One of so many possibilities: the planned one, else the first."""
        place = len(self.made)
        choice = min(self.planned[place], count - 1) if place < len(self.planned) else 0
        self.made.append((choice, count))
        return choice

    def next(self) -> Choices | None:
        """The next way, None after the last."""
        # Counting with the last choice as the lowest digit; choices after it are made again, as they may be others.
        decisions = list(self.made)
        while decisions:
            choice, count = decisions.pop()
            if choice + 1 < count:
                return Choices([*(number for number, _ in decisions), choice + 1])
        return None


class Check(NamedTuple):
    """An attribute given by an expression: the expression, the attribute in the graph, and its description."""

    wanted: Scalar
    actual: object
    what: str


@dataclass(slots=True)
class Match:
    """The bindings of the tensors, lists, attributes and operators of a pattern in a graph.

    ``later`` are attributes said by expressions, which are compared once everything is known.
    """

    values: dict[Term, Value] = field(default_factory=dict)
    lists: dict[Term, tuple[Value, ...]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    ops: dict[Call, Op] = field(default_factory=dict)
    later: tuple[Check, ...] = ()
    trace: Trace | None = None
    choices: Choices = field(default_factory=Choices)

    def copy(self) -> Match:
        """The same so far; choices and the trace are shared."""
        return Match(dict(self.values), dict(self.lists), dict(self.attrs), dict(self.ops), self.later, self.trace, self.choices)

    def type_of(self, term: Term) -> TensorType:
        """Shape and dtype of the value bound to a term; UnknownType if they are unknown in the graph."""
        return self.value_of(term).type or _untyped(term)

    def uses_of(self, term: Term) -> int:
        """How many operators read it, and one more if something else does."""
        value = self.value_of(term)
        return len(value.readers) + value.graph.is_observed(value)

    def value_of(self, term: Term) -> Value:
        """The value bound to a term."""
        if isinstance(term, Result):
            return self.ops[term.call.key].outputs[term.slot][term.index]
        if term not in self.values:
            raise InvalidValue(f"{term!r} is no tensor of the pattern")
        return self.values[term]

    def fail(self, reason: Callable[..., str]) -> bool:
        """False; record the reason if an explanation was requested."""
        if self.trace is not None:
            self.trace.failed(len(self.ops) + len(self.values), reason())
        return False


class UnknownType(InvalidValue):
    """A rule reads a shape or a dtype that is unknown in the graph."""


def _untyped(term: Term) -> TensorType:
    raise UnknownType(f"the type of {term!r} is not known")


def match_op(call: Call, op: Op, match: Match) -> bool:
    """Whether an operator is a call; if so, the match knows what is in it."""
    # A call that occurs twice in a pattern is one operator, as a tensor that occurs twice is one value.
    earlier_op = match.ops.get(call.key)
    if earlier_op is not None:
        return earlier_op is op or match.fail(lambda: f"{op!r} would have to be {earlier_op!r}")
    if op.type != call.definition.type:
        return match.fail(lambda: f"expected {call.definition.type}, found {op!r}")
    if len(op.inputs) != len(call.inputs):
        return match.fail(lambda: f"expected inputs {', '.join(call.inputs)}, found {op!r}")
    match.ops[call.key] = op
    if not _match_attrs(call, op, match):
        return False
    for slot, terms in call.inputs.items():
        values = op.inputs.get(slot, ())
        if len(terms) == len(values) == 1 and type(terms[0]) is not Several:
            if not match_value(terms[0], values[0], match):
                return False
        elif not _match_list(terms, values, match):
            return match.fail(lambda slot=slot, op=op: f"the list in slot {slot} of {op!r} is not {list(call.inputs[slot])}")
    return True


def match_value(term: Term, value: Value, match: Match) -> bool:
    """Whether a value is what a term describes."""
    if type(term) is Unknown:
        # A term that occurs twice has to be one value: the first occurrence binds it.
        earlier_value = match.values.setdefault(term, value)
        return earlier_value is value or match.fail(lambda: f"{term!r} is {earlier_value!r}, so it cannot be {value!r}")
    if type(term) is Result:
        if not value.writers:
            return match.fail(lambda: f"expected {term.call.definition.type} to write {value!r}, which is given from outside")
        op = value.writers[0]
        if op.type != term.call.definition.type:
            return match.fail(lambda: f"expected {term.call.definition.type} to write {value!r}, found {op!r}")
        results = op.outputs.get(term.slot, ())
        if len(results) <= term.index or results[term.index] is not value:
            return match.fail(lambda: f"expected {value!r} in output slot {term.slot}, found {op!r}")
        return match_op(term.call, op, match)
    assert isinstance(term, Constant)
    return _match_number(term, value, match)


def _match_number(term: Constant, value: Value, match: Match) -> bool:
    number = uniform_number(value)
    if number is None:
        return match.fail(lambda: f"expected {value!r} to be filled with one number")
    match.values.setdefault(term, value)
    # 0.1 in a rule is 0.1 rounded to the dtype of the value that holds it.
    expected = term.number
    if not isinstance(expected, Scalar) and value.dtype in FLOATS:
        expected = as_stored(expected, value.dtype)
    return _bind(expected, number, match, f"the number in {value!r}")


def _bind(expected: object, actual: object, match: Match, what: str) -> bool:
    if isinstance(expected, Attribute):
        earlier_value = match.attrs.setdefault(expected.name, actual)
        return same_number(earlier_value, actual) or match.fail(lambda: f"{expected.name} is {earlier_value!r}, but {what} is {actual!r}")
    if isinstance(expected, Scalar):
        # A computed number may use attributes that are bound further on in the pattern: it is compared when all of it has matched.
        match.later = (*match.later, Check(expected, actual, what))
        return True
    if isinstance(expected, list | tuple):
        return _bind_items(expected, actual, match, what)
    return same_number(expected, actual) or match.fail(lambda: f"expected {what} to be {expected!r}, found {actual!r}")


def _bind_items(expected: Sequence[object], actual: object, match: Match, what: str) -> bool:
    if not isinstance(actual, list | tuple) or len(actual) != len(expected):
        return match.fail(lambda: f"expected {what} to be {list(expected)!r}, found {actual!r}")
    return all(_bind(item, element, match, f"{what}[{i}]") for i, (item, element) in enumerate(zip(expected, actual, strict=True)))


def compare_later(match: Match) -> bool:
    """Whether the attributes that expressions say are what these are."""
    for check in match.later:
        expected = check.wanted.value(match)
        expected = list(expected) if isinstance(expected, tuple) else expected
        if not same_number(expected, check.actual):
            return match.fail(lambda c=check, w=expected: f"expected {c.what} to be {c.wanted!r} = {w!r}, found {c.actual!r}")
    return True


def _match_attrs(call: Call, op: Op, match: Match) -> bool:
    for name, attr in call.definition.attrs.items():
        if name in call.attrs:
            if not _bind(call.attrs[name], op.attrs.get(name, attr.default), match, f"attribute {name} of {op.type}"):
                return False
        # An attribute that a pattern does not mention has its default there.
        elif name in op.attrs and op.attrs[name] != attr.default:
            return match.fail(lambda n=name, a=attr: f"expected attribute {n} of {op.type} to be {a.default!r}, found {op.attrs[n]!r}")
    return True


def _match_list(terms: Sequence[Term], values: Sequence[Value], match: Match, start: int = 0) -> bool:
    """Whether the values from ``start`` on are a list with at most a few parts of any length.

    Values are counted and not cut off: a list is tried at as many places as it has values, and each place must take constant time.
    """
    if not terms:
        return start == len(values)
    first, rest = terms[0], terms[1:]
    if isinstance(first, Several):
        return _match_several(first, rest, values, match, start)
    if start == len(values):
        return False
    return match_value(first, values[start], match) and _match_list(rest, values, match, start + 1)


def _may_be(term: Term, value: Value) -> bool:
    """Whether a value can be what a term describes, as far as its writer says."""
    if type(term) is Constant:
        return uniform_number(value) is not None
    if type(term) is not Result:
        return True
    return bool(value.writers) and value.writers[0].type == term.call.definition.type


def _match_several(first: Several, rest: Sequence[Term], values: Sequence[Value], match: Match, start: int) -> bool:
    # The last list of a pattern takes all values that are left. Each earlier one may have any length: ``choices`` enumerates them, and the
    # caller matches again for the next choice, which is backtracking with the choices kept in one place.
    earlier_list = match.lists.get(first)
    spare = len(values) - start - sum(not isinstance(term, Several) for term in rest)
    if spare < 0:
        return False
    is_last = not any(isinstance(term, Several) for term in rest)
    end = start + (len(earlier_list) if earlier_list is not None else spare if is_last else match.choices.choose(spare + 1))
    if match.trace is None and rest and end < len(values) and not _may_be(rest[0], values[end]):
        return False  # before a list is made
    head = match.lists.setdefault(first, tuple(values[start:end]))
    return head == tuple(values[start:end]) and _match_list(rest, values, match, end)


# -- several roots -------------------------------------------------------------------------------


def match_roots(calls: Sequence[Call], op: Op, match: Match) -> Iterator[Match]:
    """The ways in which the first call is an operator, and the others operators that read what that one reads or writes."""
    if match_op(calls[0], op, match):
        yield from _others(calls[1:], match)


def _others(calls: Sequence[Call], match: Match) -> Iterator[Match]:
    if not calls:
        yield match
        return
    # Depth-first search over the roots. An attempt has bindings of its own, so that a failed one leaves none.
    candidates = _candidates(calls[0], match)
    if not candidates:
        match.fail(lambda: f"no operator is {calls[0]!r}, beside what was found so far")
    for op in candidates:
        attempt = match.copy()
        if (calls[0].key in attempt.ops or op not in attempt.ops.values()) and match_op(calls[0], op, attempt):
            yield from _others(calls[1:], attempt)


def _candidates(call: Call, match: Match) -> list[Op]:
    """Operators of the call's type that read a tensor which is known already, or what is computed of one."""
    if call.key in match.ops:
        return [match.ops[call.key]]
    # Any connected input will do: the operators that read it are few, and the match of the others is checked at each.
    for term in (term for terms in call.inputs.values() for term in terms):
        values = _possible(term, match)
        if values:
            return list(dict.fromkeys(op for value in values for op in value.readers if op.type == call.definition.type))
    return []


def _possible(term: Term, match: Match) -> list[Value]:
    """The candidate values of a term, none if it is not connected to what is matched already."""
    if term in match.values:
        return [match.values[term]]
    if not isinstance(term, Result):
        return []
    results = (op.outputs.get(term.slot, ()) for op in _candidates(term.call, match))
    return [values[term.index] for values in results if len(values) > term.index]
