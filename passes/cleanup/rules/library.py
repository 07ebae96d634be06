"""The rules of ``simplify``, with what each claims, so that a test can check them all.

Trying a rule on its hard inputs takes about a tenth of a second: too long for some hundred rules whenever graphad is imported. So these
are made when they are first needed, without being tried, and ``tests/passes/cleanup/test_rules.py`` tries every one.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from graphad.rewriting import PatternRule, rewrite
from graphad.rewriting.rule_inputs import Example
from graphad.types import Function


class Claim(NamedTuple):
    """A rule, whether it keeps every bit, and what draws inputs that it applies to."""

    rule: PatternRule
    exact: bool
    example: Example | None


class Library:
    """The rules of one topic, in the order in which they are tried.

    ``@library.exact`` makes a rule that agrees with what it replaces to the last bit, for nan and infinities too (zeros of both signs
    are equal), ``@library.fast`` one that may differ by rounding and where something is not finite.
    """

    def __init__(self) -> None:
        self._written: list[tuple[Function, bool, Example | None]] = []

    def exact(self, function: Function | None = None, *, example: Example | None = None) -> Any:
        """A rule that keeps every bit."""
        return self._keep(function, True, example)

    def fast(self, function: Function | None = None, *, example: Example | None = None) -> Any:
        """A rule that may differ by rounding."""
        return self._keep(function, False, example)

    def _keep(self, function: Function | None, exact: bool, example: Example | None) -> Any:
        if function is None:
            return lambda function: self._keep(function, exact, example)
        self._written.append((function, exact, example))
        return function

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """The rules, made the first time."""
        return tuple(Claim(_made(function, exact, example), exact, example) for function, exact, example in self._written)


def _made(function: Function, exact: bool, example: Example | None) -> PatternRule:
    rule: PatternRule = rewrite(fast=not exact, verify=False, example=example)(function)
    return rule
