"""Replace nets by their operators.

    net(x) { t = tanh(x); y = t * t } -> y      ⇒      t = tanh(x); y = t * t

A net that has a gradient goes together with that: the operators of ``net_grad`` then read the forward values themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphad.ir import Graph, Op
from graphad.ir.edits import gradients_of, inline
from graphad.ir.regions import CallLike
from graphad.passes.analyses.speculation import holds_initialization
from graphad.rewriting import Pass


@dataclass(frozen=True)
class InlineNet(Pass):
    """Replace nets by their operators, those of nets in nets, loops and branches as well.

    A net stays that holds operators run once per scope, or whose kept values something but its gradient reads.
    """

    name = "inline-net"
    idempotent = True

    def apply(self, graph: Graph) -> bool:
        calls = [
            call for subgraph in graph.tree(sealed=False) for op in subgraph.controls if (call := CallLike.of(op)) and not call.stays_whole
        ]
        return any([_inline(call.op) for call in reversed(calls) if not call.is_gradient])


def _inline(op: Op) -> bool:
    ((name, body),) = op.graphs.items()
    if gradients_of(op) is None or holds_initialization((body,)) or not op.graph.allows("inline", op):
        return False
    inline(op, name)
    return True
