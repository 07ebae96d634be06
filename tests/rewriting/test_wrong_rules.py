"""Wrong rules are refused when they are defined and right ones are accepted, under all names of their parameters."""

from __future__ import annotations

import itertools
from types import FunctionType
from typing import Any

import pytest

from graphad import ops
from graphad.errors import InvalidValue
from graphad.rewriting import rewrite
from graphad.rewriting.rule_check import _Trial
from graphad.rewriting.rule_inputs import DIFFERENTIABLE, DTYPES, Drawn, contents_of
from tests.rewriting.wrong_rules import RIGHT_AS_EXACT, RIGHT_AS_FAST, WRONG, WRONG_AS_EXACT, Function


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_refused(name: str) -> None:
    with pytest.raises(InvalidValue, match=r"^rule <lambda> is wrong: ") as raised:
        rewrite(WRONG[name])
    assert f"  defined at {WRONG[name].__code__.co_filename}:" in str(raised.value)


@pytest.mark.parametrize("name", WRONG_AS_EXACT)
def test_a_rule_that_rounds_is_refused_as_exact(name: str) -> None:
    with pytest.raises(InvalidValue, match=r"^rule <lambda> is wrong: "):
        rewrite(fast=False)(WRONG_AS_EXACT[name])


@pytest.mark.parametrize("name", RIGHT_AS_EXACT)
def test_a_right_rule_is_accepted_as_exact(name: str) -> None:
    evidence = rewrite(fast=False)(RIGHT_AS_EXACT[name]).evidence
    assert evidence is not None
    assert evidence.compared > 5


@pytest.mark.parametrize("name", RIGHT_AS_FAST)
def test_a_rule_that_rounds_is_accepted_as_fast(name: str) -> None:
    assert rewrite(RIGHT_AS_FAST[name]).evidence is not None


def renamed(function: Function, names: tuple[str, ...]) -> Any:
    """A function with other names for its parameters."""
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    rest = code.co_varnames[count:]
    return FunctionType(code.replace(co_varnames=(*names[:count], *rest)), function.__globals__, function.__name__, function.__defaults__)


@pytest.mark.parametrize("name", ["numbers added in place of multiplied", "a table without padding", "composed the other way"])
def test_a_wrong_rule_is_refused_under_other_names(name: str) -> None:
    for names in (("a", "b", "c", "d"), ("d", "c", "b", "a"), ("padding", "x", "scale", "zz")):
        with pytest.raises(InvalidValue, match="is wrong"):
            rewrite(renamed(WRONG[name], names))


def test_what_is_tried_depends_on_no_name() -> None:
    """The same inputs refuse a rule under each of 56 pairs of names."""
    messages = set()
    for a, b in itertools.permutations("abcdefgh", 2):
        with pytest.raises(InvalidValue) as raised:
            rewrite(renamed(hasty, ("x", a, b)))
        shown = [line.partition(" = ")[2] for line in str(raised.value).splitlines() if " = " in line]
        messages.add(tuple(shown))
    assert len(messages) == 1


def hasty(x: Any, *, p: Any, q: Any) -> Any:
    return ops.scale(ops.scale(x, scale=p), scale=q), ops.scale(x, scale=p * q)


def test_each_content_comes_up_in_each_dtype_with_gradients() -> None:
    """Contents and dtypes come up in steps; in step with each other, a rule over one tensor would meet half of them in float64."""
    seen, compared = set[tuple[str, str]](), set[str]()

    class Listening(_Trial):
        def on(self, sample: Drawn, content: str, main: str) -> None:
            seen.add((main, content))
            count = self.evidence.gradients
            super().on(sample, content, main)
            compared.update({content} if self.evidence.gradients > count else ())

    Listening(rewrite(verify=False)(lambda x: (ops.relu(ops.relu(x)), ops.relu(x))), exact=True, gradients="all").on_hard_inputs()
    assert seen == {(dtype, content) for dtype in DTYPES for content in contents_of(dtype, exact=True)}
    assert compared == set(DIFFERENTIABLE)
