"""Proofs that rules which only move elements move them to the same places, for all extents and dtypes."""

from __future__ import annotations

from typing import Any

from graphad.rewriting.soundness import calls_in
from graphad.rewriting.terms import Result, Term

FLAT = frozenset(  # operators that keep the elements in their order, whatever the shape: row by row
    [
        "assign",
        "reshape",
        "reshape2",
        "squeeze",
        "squeeze2",
        "unsqueeze",
        "unsqueeze2",
        "flatten",
        "flatten2",
        "flatten_contiguous_range",
        "reshape_like",
    ]
)


def keeps_elements(rule: Any) -> tuple[str, ...] | None:
    """The assumptions under which a rule moves all elements to where they were before; None if that is not proved.

    Operators that keep the order of the elements are nothing but a change of shape; and a rule is applied only where both sides have one
    shape. So sides that are the same tensor without such operators are equal.
    """
    flat = [_flat(term) for term in rule.before], [_flat(term) for term in rule.after]
    if None in (*flat[0], *flat[1]) or len(list(calls_in(rule.before[0]))) == 0:
        return None
    return () if all(a is b for a, b in zip(*flat, strict=True)) else None


def _flat(term: Term) -> Term | None:
    """The tensor of which a term has the elements in the same order; None if another operator is in between."""
    while isinstance(term, Result):
        if term.call.row.type not in FLAT or term.slot != "Out":
            return None
        term = term.call.inputs["X"][0]
    return term
