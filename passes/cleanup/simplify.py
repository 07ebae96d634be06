"""Simplify expressions, by rules with a pattern and a replacement.

    x ─▶ scale 1 ─▶ a ─▶ relu ─▶ b ─▶ relu ─▶ c        ⇒      x ─▶ relu ─▶ c

    x ─▶ transpose2 ─▶ a ─▶ matmul_v2 ─▶ c             ⇒      x ─▶ matmul_v2 {trans_x} ─▶ c

The rules are in ``graphad.passes.cleanup.rules``, by topic; ``Simplify().rules()`` lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from graphad.ir import Graph
from graphad.passes.cleanup.rules import claims
from graphad.passes.cleanup.rules.dropout import DropoutInTest, DropoutOfNothing
from graphad.rewriting import Pass, RuleSet, rewrite_greedily


@dataclass(frozen=True)
class Simplify(Pass):
    """Apply rules that make a graph smaller or cheaper, until none applies.

    Exact rules keep every bit, except for the sign of zeros; gradients stay what they are, ties and kinks included, up to rounding.

    Args:
        fast: also rules after which results differ by rounding, or where something is nan, infinite or out of range: ``x - x ⇒ 0``.

    >>> print(Simplify().rules()["relu-of-relu"].text)
    relu(relu(x)) ⇒ relu(x)
    """

    name = "simplify"
    idempotent = True
    fast: bool = False

    def __post_init__(self) -> None:
        if self.fast:
            object.__setattr__(self, "tolerance", 1e-6)

    def apply(self, graph: Graph) -> bool:
        return rewrite_greedily(graph, self.rules(), self)

    def rules(self) -> RuleSet:
        """The rules in the order in which they are tried at an operator."""
        return _rules(self.fast)


@cache
def _rules(fast: bool) -> RuleSet:
    return RuleSet([DropoutInTest(), DropoutOfNothing(), *(claim.rule for claim in claims() if fast or claim.exact)])
