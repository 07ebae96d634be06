"""The rules of ``simplify`` by topic.

Here belong rules before ⇒ after over operators that hold for any program, tested when they are defined. Rules that need an analysis
(constants, branches, normalizations) are in the file of their pass; what a rule is, is in ``graphad.rewriting.rules``.
"""

from functools import cache

from graphad.passes.cleanup.rules import activations, arithmetic, arrangement, factors, functions, logic, pieces, reductions
from graphad.passes.cleanup.rules.library import Claim, Library

TOPICS = (arrangement, pieces, arithmetic, factors, functions, activations, logic, reductions)


@cache
def claims() -> tuple[Claim, ...]:
    """All rules that are written as before and after, with what they claim."""
    return tuple(claim for topic in TOPICS for claim in topic.library.claims)


__all__ = ["TOPICS", "Claim", "Library", "claims"]
