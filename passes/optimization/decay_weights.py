"""Add the gradient of a weight decay to the gradients.

    w@GRAD ─▶ update          w ─▶ scale (L2) or sign, scale (L1) ─▶ d
                         ⇒    w@GRAD, d ─▶ sum ─▶ w@GRAD@DECAY@0 ─▶ update

``w@GRAD`` itself stays the raw gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphad.errors import InvalidValue
from graphad.ir import Builder, Graph
from graphad.ops import lookup
from graphad.passes.optimization.optimize_parameters import Updates, applied, as_applied, trained, updates_of
from graphad.program import OPTIMIZE, Program
from graphad.rewriting import OnTrial, Pass


@dataclass(frozen=True)
class DecayWeights(Pass):
    """Add ``coefficient * w`` (kind l2) or ``coefficient * sign(w)`` (kind l1) to the gradients of parameters.

    Args:
        kind: l1 or l2.
        coefficient: what the weights, or their signs, are multiplied with; 0.01 if it is left out. With 0 nothing decays.
        parameters: names of the parameters that decay; empty: all that are trainable and have a gradient.
    """

    name = "decay-weights"
    on_trial = OnTrial(programs=("trainable",), after_backward=True, goes_by_names=True, followed_by="optimize-parameters")
    preserves = (Updates,)
    kind: str = "l2"
    coefficient: float = 0.01
    parameters: tuple[str, ...] = ()

    def apply(self, graph: Graph) -> bool:
        if self.kind not in ("l1", "l2"):
            raise InvalidValue(f"kind of decay is l1 or l2, not {self.kind!r}")
        names = trained(graph, self.parameters)
        updates = updates_of(graph, names)
        for name in names:
            build = Builder(graph, f"{name}@GRAD@DECAY", role=OPTIMIZE, forward=updates.gradient[name].writer)
            weight, gradient = build.symbol(graph.versions(name)[-1]), build.symbol(updates.gradient[name])
            # The slope of |w| is its sign, that of w ** 2 / 2 is w itself.
            decay = (weight if self.kind == "l2" else lookup("sign")(weight)) * self.coefficient
            updates.gradient[name] = lookup("sum")([gradient, decay]).value
        return bool(names)

    def intended(self, program: Program, values: Mapping[str, Any]) -> Mapping[str, Any]:
        decays = np.sign if self.kind == "l1" else np.positive
        gradients = applied(program, values, self.parameters)
        return as_applied({name: np.asarray(g + self.coefficient * decays(values[name])) for name, g in gradients.items()})
