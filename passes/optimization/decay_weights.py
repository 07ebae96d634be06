"""Add the gradient of a weight decay to the gradients.

    w@GRAD ─▶ update          w ─▶ scale (L2) or sign, scale (L1) ─▶ d
                         ⇒    w@GRAD, d ─▶ sum ─▶ w@GRAD@DECAY@0 ─▶ update

``w@GRAD`` itself stays the raw gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphad.errors import InvalidValue
from graphad.graph import Builder, Graph
from graphad.ops import lookup
from graphad.passes.optimization.optimize_parameters import Updates, updates_of
from graphad.program import OPTIMIZE
from graphad.rewriting import Pass


@dataclass(frozen=True)
class DecayWeights(Pass):
    """Add ``coefficient * w`` (kind l2) or ``coefficient * sign(w)`` (kind l1) to the gradients of parameters."""

    name = "decay-weights"
    preserves = (Updates,)
    kind: str = "l2"
    coefficient: float = 0.0
    parameters: tuple[str, ...] = ()

    def apply(self, graph: Graph) -> bool:
        if self.kind not in ("l1", "l2"):
            raise InvalidValue(f"kind of decay is l1 or l2, not {self.kind!r}")
        updates = updates_of(graph, self.parameters)
        for name in self.parameters:
            build = Builder(graph, f"{name}@GRAD@DECAY", role=OPTIMIZE, forward=updates.gradient[name].writer)
            weight, gradient = build.symbol(graph.versions(name)[-1]), build.symbol(updates.gradient[name])
            decay = (weight if self.kind == "l2" else lookup("sign")(weight)) * self.coefficient
            updates.gradient[name] = lookup("sum")([gradient, decay]).value
        return bool(self.parameters)
