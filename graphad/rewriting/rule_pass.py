"""A pass that is a set of rules, applied until none applies."""

from __future__ import annotations

from typing import ClassVar

from graphad.ir import Graph
from graphad.rewriting.passes import Pass
from graphad.rewriting.rewriter import RuleSet, rewrite_greedily


class RulePass(Pass):
    """Base of passes that only apply rules, in the graph and those nested in it.

    @dataclass(frozen=True)
    class Mine(RulePass):
        '''One line that says what it does.'''
        name = "mine"
        rules = RuleSet(log_exp, scale_twice)
    """

    rules: ClassVar[RuleSet] = RuleSet()

    def apply(self, graph: Graph) -> bool:
        return rewrite_greedily(graph, self.rules, follower=self)


def rules_of(pass_: Pass) -> RuleSet:
    """The rules that a pass says it has, as an attribute or by a method; none if it is not made of rules."""
    rules = getattr(pass_, "rules", RuleSet())
    rule_set = rules() if callable(rules) else rules
    return rule_set if isinstance(rule_set, RuleSet) else RuleSet()
