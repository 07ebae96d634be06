"""A tensor to the power of a tensor."""

from __future__ import annotations

import numpy as np

from graphad.ops.basic import fill_any_like, unbroadcast
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.elementwise import as_mask, logical_and
from graphad.ops.index import where
from graphad.ops.inference import aligned, arithmetic
from graphad.ops.shapes import wide
from graphad.ops.traits import ELEMENTWISE
from graphad.ops.unary import log, whole_numbers


def _base_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, axis: int) -> Tensor:
    """``dOut * Y * X**(Y - 1)``, zero for 0**0: there the exponent is not lowered."""
    exponent = wide(Y, X, axis)
    kept = as_mask(logical_and(X == 0.0, exponent == 0.0), dOut)
    return unbroadcast(dOut * exponent * elementwise_pow(X, exponent - 1.0 + kept), X)


def _exponent_grad(X: Tensor, Y: Tensor, Out: Tensor, dOut: Tensor, *, axis: int) -> Tensor:
    """``dOut * Out * log(X)``, zero where X is zero."""
    return unbroadcast(dOut * Out * log(where(X == 0.0, fill_any_like(X, value=1.0), X)), Y, axis)


@operator(
    "X Y -> Out",
    infer=arithmetic,
    grad={"X": _base_grad, "Y": _exponent_grad},
    safe_dtypes="floats",
    **ELEMENTWISE,
)
def elementwise_pow(X: Array, Y: Array, *, axis: int = -1) -> Tensor:
    """X to the power of Y, Y broadcast from ``axis`` on; of integers the power is rounded to a whole number where Y is below zero."""
    exponent = Y if axis == -1 else Y.reshape(aligned(X.shape, Y.shape, axis))
    if X.dtype.kind == "f" or X.dtype.kind == "u" or not np.any(exponent < 0):
        return np.power(X, exponent)
    with np.errstate(divide="ignore"):
        rounded = whole_numbers(np.rint(np.power(X.astype("float64"), exponent)), X.dtype)
    return np.where(exponent < 0, rounded, np.power(X, np.maximum(exponent, 0)))
