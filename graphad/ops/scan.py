"""Running sums and products along an axis, and the recurrence that the gradient of a running product is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.definition import operator
from graphad.ops.dimensions import along_axis
from graphad.ops.elementwise import exp
from graphad.ops.inference import matched, normal_axis, same_dtypes, same_float
from graphad.ops.like import reshape_like
from graphad.types import Array, Tensor, TensorType, element_count

# -- scan ------------------------------------------------------------------------------------------
# Running sums and products along an axis, and the recurrence that the gradient of a running product is.


def _accumulated(accumulate: Callable[..., object], X: Array, axis: int, exclusive: bool, reverse: bool, start: float) -> Array:
    """The running accumulation along an axis; ``exclusive`` leaves out the element, ``reverse`` runs from the end.

    Floats are accumulated in float64: the error does not grow with the place, and an intermediate result may be large.
    """
    # Always along the first axis from the front, whatever axis and direction are meant.
    x = np.moveaxis(X, axis, 0)[:: -1 if reverse else 1]
    # Rounding errors of a running sum grow with its length: it is kept in float64 and rounded once.
    wide = "float64" if X.dtype.kind == "f" else X.dtype
    out = np.asarray(accumulate(x, axis=0, dtype=wide)).astype(X.dtype, copy=False)
    if exclusive and len(x):
        out = np.concatenate((np.full_like(out[:1], start), out[:-1]))
    return np.moveaxis(out[:: -1 if reverse else 1], 0, axis)


# -- running sums --------------------------------------------------------------------------------


def _cumsum_type(X: TensorType, *, axis: int = -1, flatten: bool = False, **_: object) -> TensorType:
    normal_axis(axis, max(len(X.shape), 1))
    return TensorType((element_count(X.shape),), X.dtype) if flatten else X


def _cumsum_grad(X: Tensor, dOut: Tensor, *, axis: int, flatten: bool, exclusive: bool, reverse: bool) -> Tensor:
    # Element i reaches all that follow it, so its cotangent is the sum from the other end.
    grad = cumsum(dOut, axis=0 if flatten else axis, exclusive=exclusive, reverse=not reverse)
    return reshape_like(grad, X) if flatten else grad


@operator("X -> Out", infer=_cumsum_type, grad={"X": _cumsum_grad}, shapes="X", linear="X", own=True, flops=1, dimensions=along_axis)
def cumsum(X: Array, *, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False) -> Array:
    """The running sum along ``axis``, or over all elements in a row (``flatten``)."""
    if flatten or X.ndim == 0:
        row = _accumulated(np.add.accumulate, X.reshape(-1), 0, exclusive, reverse, 0.0)
        return row if flatten else row.reshape(X.shape)
    return _accumulated(np.add.accumulate, X, axis, exclusive, reverse, 0.0)


# -- running products ----------------------------------------------------------------------------


def _cumprod_type(X: TensorType, *, dim: int, **_: object) -> TensorType:
    normal_axis(dim, len(X.shape), "dim")
    return X


def _cumprod_grad(X: Tensor, dOut: Tensor, *, dim: int, exclusive: bool, reverse: bool) -> Tensor:
    """With P the exclusive product: the cotangent of P flows back by the recurrence, without division."""
    before = cumprod(X, dim=dim, exclusive=True, reverse=reverse)
    # dX[i] = P[i] r[i], where r[i] is the sum over j > i of dOut[j] times all X between i and j: r[i] = dOut[i + 1] + X[i + 1] r[i + 1].
    # What is not exclusive has dOut[i] itself too, and a factor X[j] more in each term.
    if exclusive:
        return before * linear_recurrence(X, dOut, axis=dim, reverse=not reverse)
    return before * (dOut + linear_recurrence(X, dOut * X, axis=dim, reverse=not reverse))


@operator("X -> Out", infer=_cumprod_type, grad={"X": _cumprod_grad}, own=True, costly=True, flops=1, dimensions=along_axis)
def cumprod(X: Array, *, dim: int, exclusive: bool = False, reverse: bool = False) -> Array:
    """The running product along ``dim``."""
    return _accumulated(np.multiply.accumulate, X, dim, exclusive, reverse, 1.0)


def _recurrence_type(A: TensorType, B: TensorType, *, axis: int, reverse: bool = False) -> TensorType:
    same_dtypes(A=A, B=B)
    normal_axis(axis, len(A.shape))
    if len(A.shape) != len(B.shape) or not all(map(matched, A.shape, B.shape)):
        raise ShapeError(f"A is {A} but B is {B}: their shapes must agree")
    return TensorType(tuple(map(max, A.shape, B.shape)), A.dtype)


@operator(
    "A B -> Out",
    infer=_recurrence_type,
    grad={
        # The adjoint is l[i] = dOut[i] + A[i] l[i + 1]. dA[i] = Out[i] l[i + 1] and dB[i] = l[i + 1], which the recurrence from the end
        # gives at i.
        "A": lambda A, Out, dOut, *, axis, reverse: Out * linear_recurrence(A, dOut, axis=axis, reverse=not reverse),
        "B": lambda A, dOut, *, axis, reverse: linear_recurrence(A, dOut, axis=axis, reverse=not reverse),
    },
    partly_linear="B",
    costly=True,
    dimensions=along_axis,
)
def linear_recurrence(A: Array, B: Array, *, axis: int, reverse: bool = False) -> Array:
    """``Out[0] = 0`` and ``Out[i + 1] = A[i] * Out[i] + B[i]`` along ``axis``; ``reverse`` runs from the end."""
    step = -1 if reverse else 1
    a, b = np.moveaxis(A, axis, 0)[::step], np.moveaxis(B, axis, 0)[::step]
    out = np.zeros(a.shape, A.dtype)
    # A loop over steps, each of which is a whole slice.
    for i in range(len(a) - 1):
        out[i + 1] = a[i] * out[i] + b[i]
    return np.moveaxis(out[::step], 0, axis)


def _running_type(X: TensorType, *, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False) -> TensorType:
    normal_axis(axis, max(len(X.shape), 1))
    if exclusive:
        raise ShapeError("exclusive=True is not supported: the first logarithm would be that of nothing")
    return TensorType((element_count(X.shape),), X.dtype) if flatten else same_float(X)


def _running_grad(X: Tensor, Out: Tensor, dOut: Tensor, *, axis: int, flatten: bool, reverse: bool) -> Tensor:
    """The cotangent of a running log-sum-exp, by a recurrence whose factors ``1 - exp(X - Out)`` are at most 1, so nothing can overflow."""
    x = reshape_like(X, Out) if flatten else X
    share = exp(x - Out)
    if not Out.ndim:
        return dOut * share
    # complement is what goes on to the element before.
    complement = 1.0 - share
    # Out[i] = log(exp(Out[i-1]) + exp(X[i])): a share exp(X - Out) goes to X[i], the complement on to Out[i-1].
    later = linear_recurrence(complement, complement * dOut, axis=0 if flatten else axis, reverse=not reverse)
    grad = share * (dOut + later)
    return reshape_like(grad, X) if flatten else grad


@operator("X -> Out", infer=_running_type, grad={"X": _running_grad}, costly=True, dimensions=along_axis)
def logcumsumexp(X: Array, *, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False) -> Array:
    """The logarithm of the running sum of exponentials along ``axis``, or over all elements in a row (``flatten``)."""
    x = X.reshape(-1) if flatten or not X.ndim else np.moveaxis(X, axis, 0)
    step = -1 if reverse else 1
    # ``logaddexp`` keeps the largest exponent out of the sum, so that exp does not overflow.
    sums = np.logaddexp.accumulate(x[::step], axis=0, dtype="float64").astype(X.dtype, copy=False)
    out: Array = np.moveaxis(sums[::step], 0, axis if x.ndim > 1 else 0)
    return np.ascontiguousarray(out) if flatten or X.ndim else out.reshape(())
