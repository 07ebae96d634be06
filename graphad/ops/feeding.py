"""Feeding and fetching: an executor moves the values, the operators only mark where.

``feed`` writes column ``col`` of what the caller passes in to ``Out``; ``fetch`` keeps X as column ``col`` of the results.
"""

from __future__ import annotations

from graphad.ops.definition import operator
from graphad.ops.inference import same
from graphad.types import Array


@operator("X -> Out", infer=same, grad={}, side_effect=True, view="X", flops=0)
def feed(X: Array, *, col: int = 0) -> Array:
    """The fed value."""
    return X


@operator("X -> Out", infer=same, grad={}, side_effect=True, view="X", flops=0)
def fetch(X: Array, *, col: int = 0) -> Array:
    """The value to return."""
    return X
