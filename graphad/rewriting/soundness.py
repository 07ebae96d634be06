"""Well-formedness of rules, checked before they are matched or tested: both sides have as many results, and no name is unbound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from graphad.errors import InvalidType, InvalidValue
from graphad.rewriting.terms import Attribute, Call, Constant, Result, Scalar, Term, parts_of


def check_terms(name: str, before: Sequence[Term], after: Sequence[Term], conditions: Sequence[Any]) -> None:
    """Refuse what is no rule.

    Raises:
        ValueError: the sides do not fit together, or the right-hand side or a condition uses a name that the pattern does not bind.
        TypeError: a condition is none.
    """
    if len(before) != len(after):
        raise InvalidValue(f"rule {name} has {len(before)} results before and {len(after)} after")
    for term in before:
        if not isinstance(term, Result):
            raise InvalidValue(f"rule {name} starts from {term!r}, which no operator computes")
    for condition in conditions:
        if not isinstance(condition, Scalar):
            raise InvalidType(f"a condition of rule {name} is made of attributes, shapes and dtypes, not {condition!r}")
    known = {leaf for term in before for leaf in leaves(term)}
    for term in after:
        _check_behind(name, term, known)
    _check_scalars(name, before, [*conditions, *_scalars(before), *_scalars(after)], known)


def _check_behind(name: str, term: Term, known: set[Term]) -> None:
    if isinstance(term, Constant) and term not in known:
        raise InvalidValue(f"rule {name} makes {term!r}, which does not say its shape: ops.fill_any_like(x, value=...) does")
    for leaf in leaves(term):
        if leaf not in known and not isinstance(leaf, Constant):
            raise InvalidValue(f"rule {name} uses {leaf!r} on its right-hand side, which does not occur in its pattern")


def _check_scalars(name: str, before: Sequence[Term], scalars: Sequence[Any], known: set[Term]) -> None:
    calls = {call for term in before for call in calls_in(term)}
    given = {part.name for value in _scalars(before) for part in _bound(value)}
    for part in (part for value in scalars for part in parts_of(value)):
        if isinstance(part, Attribute) and part.name not in given:
            raise InvalidValue(f"rule {name} needs {part!r}, which is no attribute and no number of an operator before")
        if isinstance(part, Term) and (part.call not in calls if isinstance(part, Result) else part not in known):
            raise InvalidValue(f"rule {name} has a condition on {part!r}, which does not occur before: give it a name there")


def _scalars(terms: Sequence[Term]) -> Iterator[Any]:
    """The attributes of the operators of terms, and the numbers in constants."""
    for call in (call for term in terms for call in calls_in(term)):
        yield from call.attrs.values()
        yield from (t.number for each in call.inputs.values() for t in each if isinstance(t, Constant))


def _bound(value: Any) -> Iterator[Attribute]:
    """The attributes of a rule that are known from an attribute of an operator."""
    items = value if isinstance(value, list | tuple) else [value]
    return (item for item in items if isinstance(item, Attribute))


def leaves(term: Term) -> Iterator[Term]:
    """The tensors at the ends of a term."""
    if not isinstance(term, Result):
        yield term
        return
    for terms in term.call.inputs.values():
        for each in terms:
            yield from leaves(each)


def calls_in(term: Term) -> Iterator[Call]:
    """The operators of a term, from its result on, with repetitions."""
    if isinstance(term, Result):
        yield term.call
        for terms in term.call.inputs.values():
            for each in terms:
                yield from calls_in(each)
