"""The rules of ``simplify``: every one is tried on hard inputs here, and its gradients are compared."""

from __future__ import annotations

from typing import Any

import pytest

import graphad as ga
from graphad.errors import InvalidValue
from graphad.passes.cleanup import Simplify
from graphad.passes.cleanup.rules import TOPICS, Claim, claims
from graphad.passes.cleanup.rules.library import Library
from graphad.rewriting import constant
from graphad.rewriting.rule_check import check_rule
from tests.shares import one_in

NAMES = [claim.rule.name for claim in claims()]


@pytest.mark.parametrize("claim", one_in(3, claims()), ids=NAMES)
def test_a_rule_is_right(claim: Claim) -> None:
    evidence = check_rule(claim.rule, exact=claim.exact, example=claim.example)
    assert evidence.compared >= 5


def test_a_wrong_rule_would_be_found() -> None:
    library = Library()
    library.exact(_wrong_by_rounding)
    library.exact(_wrong_where_it_ties)
    for claim in library.claims:
        with pytest.raises(InvalidValue, match="is wrong"):
            check_rule(claim.rule, exact=claim.exact)


def _wrong_by_rounding(x: Any, y: Any) -> Any:
    return ga.ops.elementwise_sub(ga.ops.elementwise_add(x, y), y), x


def _wrong_where_it_ties(x: Any) -> Any:
    return ga.ops.elementwise_max(constant(0), x), ga.ops.relu(x)


def test_there_are_many_rules_of_each_topic() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 200
    assert all(len(topic.library.claims) >= 10 for topic in TOPICS)


def test_exact_rules_are_among_the_fast() -> None:
    exact, all_rules = Simplify().rules(), Simplify(fast=True).rules()
    assert {rule.name for rule in exact} < {rule.name for rule in all_rules}
    assert "log-of-exp" not in str(exact)
    assert all_rules["add-zero"].text == "elementwise_add(x, constant(0)) ⇒ x"  # type: ignore[attr-defined]
