"""Bound the gradients before they are applied.

    w@GRAD ─▶ update          w@GRAD ─▶ clip ─▶ w@GRAD@CLIP@... ─▶ update          kind value
                         ⇒    w@GRAD, its norm ─▶ smaller factor ─▶ ... ─▶ update  kinds norm, global-norm

``w@GRAD`` itself stays the raw gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphad.errors import InvalidValue
from graphad.ir import Builder, Graph, GraphSymbol
from graphad.ops import lookup
from graphad.passes.optimization.optimize_parameters import Updates, applied, as_applied, trained, updates_of
from graphad.program import OPTIMIZE, Program
from graphad.rewriting import OnTrial, Pass


@dataclass(frozen=True)
class ClipGradients(Pass):
    """Bound gradients: each element (kind value), each gradient's norm (norm), or the norm of all together (global-norm).

    Args:
        kind: value, norm or global-norm.
        bound: the largest element, or norm.
        parameters: names of the parameters whose gradients are bounded; empty: all that are trainable and have a gradient.
        low: for kind value the smallest element; ``-bound`` if none.
    """

    name = "clip-gradients"
    preserves = (Updates,)
    on_trial = OnTrial(programs=("trainable",), after_backward=True, goes_by_names=True, followed_by="optimize-parameters")
    kind: str = "global-norm"
    bound: float = 1.0
    parameters: tuple[str, ...] = ()
    low: float | None = None

    def __post_init__(self) -> None:
        if self.low is not None and (isinstance(self.low, bool) or not isinstance(self.low, int | float)):
            raise InvalidValue(f"low is a number or none, not {self.low!r}")

    def apply(self, graph: Graph) -> bool:
        if self.kind not in ("value", "norm", "global-norm"):
            raise InvalidValue(f"kind of clipping is value, norm or global-norm, not {self.kind!r}")
        names = trained(graph, self.parameters)
        updates = updates_of(graph, names)
        symbols = {name: self._symbol(graph, name, updates) for name in names}
        # The norm of all is there before the first is clipped: nothing may be clipped on the way.
        factor = self._factor(list(symbols.values())) if self.kind == "global-norm" and symbols else None
        for name, gradient in symbols.items():
            updates.gradient[name] = self._clipped(gradient, factor).value
        return bool(symbols)

    def intended(self, program: Program, values: Mapping[str, object]) -> Mapping[str, Any]:
        gradients = applied(program, values, self.parameters)
        norms = {name: float(np.linalg.norm(g.astype("float64"))) for name, g in gradients.items()}
        if self.kind == "global-norm":
            norms = dict.fromkeys(norms, float(np.linalg.norm(list(norms.values()))))
        low = -self.bound if self.low is None else self.low
        if self.kind == "value":
            return as_applied({name: g.clip(low, self.bound) for name, g in gradients.items()})
        # 1e-300 instead of a norm of 0: the factor is 1 then.
        return as_applied({name: np.asarray(g * min(1.0, self.bound / max(norms[name], 1e-300))) for name, g in gradients.items()})

    def _symbol(self, graph: Graph, name: str, updates: Updates) -> GraphSymbol:
        gradient = updates.gradient[name]
        return Builder(graph, f"{name}@GRAD@CLIP", role=OPTIMIZE, forward=gradient.writer).symbol(gradient)

    def _clipped(self, gradient: GraphSymbol, factor: GraphSymbol | None) -> GraphSymbol:
        if self.kind == "value":
            result: GraphSymbol = lookup("clip")(gradient, min=-self.bound if self.low is None else self.low, max=self.bound)
            return result
        return gradient * (self._factor([gradient]) if factor is None else factor)

    def _factor(self, gradients: list[GraphSymbol]) -> GraphSymbol:
        """``bound / max(norm, bound)``: 1 for a norm within the bound."""
        squares = lookup("sum")([lookup("squared_l2_norm")(g) for g in gradients])
        bound = lookup("fill_any_like")(squares, value=self.bound)
        # A maximum in the denominator instead of a branch: no division by zero, and the gradient stays exact within the bound.
        factor: GraphSymbol = bound / lookup("elementwise_max")(lookup("sqrt")(squares), bound)
        return factor
