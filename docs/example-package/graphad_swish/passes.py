"""``find-sharp-swish``: a pass made of two rules, each a before and an after."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import graphad as ga
from graphad import ops
from graphad.rewriting import is_float, rewrite_greedily
from graphad_swish.operators import sharp_swish


@cache
def _rules() -> ga.RuleSet:
    @ga.rewrite
    def plain(x: Any) -> Any:
        return ops.elementwise_mul(x, ops.sigmoid(x)), sharp_swish(x), is_float(x)

    @ga.rewrite
    def sharp(x: Any, *, beta: Any) -> Any:
        return ops.elementwise_mul(x, ops.sigmoid(ops.scale(x, scale=beta))), sharp_swish(x, beta=beta), is_float(x)

    return ga.RuleSet(plain, sharp)


@dataclass(frozen=True)
class FindSharpSwish(ga.Pass):
    """Compute x * sigmoid(beta x) with one operator."""

    name = "find-sharp-swish"
    idempotent = True
    tolerance = 1e-5

    @staticmethod
    def rules() -> ga.RuleSet:
        """The rules, made and tested when they are first needed."""
        return _rules()

    def apply(self, graph: ga.Graph) -> bool:
        return rewrite_greedily(graph, _rules(), self)
