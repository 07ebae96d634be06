"""A pass that is a set of rules, applied until none applies."""

from __future__ import annotations

from typing import ClassVar

from graphad.graph import Graph
from graphad.rewriting.passes import Pass
from graphad.rewriting.rules import RuleSet
from graphad.rewriting.worklist import rewrite_greedily


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
