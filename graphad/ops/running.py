"""Running logarithms of sums of exponentials, and slices scaled to the length one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.basic import reshape_like
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.inference import normal_axis, same_float
from graphad.ops.reduce import reduce_sum
from graphad.ops.scan import linear_recurrence
from graphad.ops.summation import power_norm
from graphad.ops.unary import exp, sqrt
from graphad.types import TensorType, element_count


def _running_type(X: TensorType, *, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False) -> TensorType:
    normal_axis(axis, max(len(X.shape), 1))
    if exclusive:
        raise ShapeError("exclusive=True is not supported: the first logarithm would be that of nothing")
    return TensorType((element_count(X.shape),), X.dtype) if flatten else same_float(X)


def _running_grad(X: Tensor, Out: Tensor, dOut: Tensor, *, axis: int, flatten: bool, reverse: bool) -> Tensor:
    """What flows back shrinks from element to element by ``1 - exp(X - Out)``, so nothing can overflow."""
    x = reshape_like(X, Out) if flatten else X
    share = exp(x - Out)
    if not Out.ndim:
        return dOut * share
    left = 1.0 - share
    later = linear_recurrence(left, left * dOut, axis=0 if flatten else axis, reverse=not reverse)
    grad = share * (dOut + later)
    return reshape_like(grad, X) if flatten else grad


@operator("X -> Out", infer=_running_type, grad={"X": _running_grad})
def logcumsumexp(X: Array, *, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False) -> Array:
    """The logarithm of the running sum of exponentials along ``axis``, or over all elements in a row (``flatten``)."""
    x = X.reshape(-1) if flatten or not X.ndim else np.moveaxis(X, axis, 0)
    step = -1 if reverse else 1
    running = np.logaddexp.accumulate(x[::step], axis=0, dtype="float64").astype(X.dtype, copy=False)
    out: Array = np.moveaxis(running[::step], 0, axis if x.ndim > 1 else 0)
    return np.ascontiguousarray(out) if flatten or X.ndim else out.reshape(())


def _unit_types(X: TensorType, *, axis: int, **_: Any) -> tuple[TensorType, TensorType]:
    if not X.shape:
        raise ShapeError(f"X is {X}; at least one axis is expected")
    at = normal_axis(axis, len(X.shape))
    return same_float(X), TensorType((*X.shape[:at], 1, *X.shape[at + 1 :]), X.dtype)


def _unit_grad(X: Tensor, Out: Tensor, dOut: Tensor, Norm: Tensor = None, dNorm: Tensor = None, *, axis: int, epsilon: float) -> Tensor:
    """The length is computed again where the operator does not write it."""
    length = sqrt(reduce_sum(X * X, dim=[axis], keep_dim=True) + epsilon) if Norm is None else Norm
    grad = (dOut - Out * reduce_sum(dOut * Out, dim=[axis], keep_dim=True)) / length
    return grad if dNorm is None else grad + Out * dNorm


@operator("X -> Out Norm?", infer=_unit_types, grad={"X": _unit_grad})
def norm(X: Array, *, axis: int, epsilon: float = 1e-10, is_test: bool = False) -> tuple[Array, Array]:
    """X divided by Norm, the root of the sum of its squares along ``axis`` and ``epsilon``."""
    length = np.hypot(power_norm(X, (axis % X.ndim,), True), X.dtype.type(math.sqrt(epsilon)))
    return np.asarray(X / length), length
