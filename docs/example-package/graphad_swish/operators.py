"""``sharp_swish``: one definition with kernel, types and gradient; ``sharp_swish_grad`` comes of itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.ops import sigmoid
from graphad.ops.definition import operator


def _same(X: Any, **attrs: Any) -> Any:
    return X


def _gradient(X: Any, dOut: Any, *, beta: float) -> Any:
    """Written over operators, so that it can be differentiated again."""
    s = sigmoid(X * beta)
    return dOut * (s + X * beta * s * (1.0 - s))


@operator("X -> Out", infer=_same, grad={"X": _gradient})
def sharp_swish(X: Any, *, beta: float = 1.0) -> Any:
    """``X * sigmoid(beta * X)``."""
    return X / (1 + np.exp(-beta * X))
