"""The largest elements, and how often they are right."""

from __future__ import annotations

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.along import at, put_along_axis
from graphad.ops.basic import fill_zeros_like
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.inference import matched, normal_axis
from graphad.types import TensorType


def _top_type(X: TensorType, *, k: int = 1, axis: int = -1, largest: bool = True, sorted: bool = True) -> tuple[TensorType, TensorType]:
    place = normal_axis(axis, len(X.shape))
    if not X.shape or not (1 <= k and (X.shape[place] == -1 or k <= X.shape[place])):
        raise ShapeError(f"X is {X}: it has no k={k} elements along axis={axis}")
    shape = (*X.shape[:place], k, *X.shape[place + 1 :])
    return TensorType(shape, X.dtype), TensorType(shape, "int64")


def _order(X: Array, axis: int, largest: bool) -> Array:
    """The indices along the axis in order, ties from the first to the last."""
    if not largest:
        return np.asarray(np.argsort(X, axis=axis, kind="stable"))
    return np.asarray(X.shape[axis] - 1 - np.flip(np.argsort(np.flip(X, axis), axis=axis, kind="stable"), axis))


def _top(X: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    if k == 1:
        indices = np.argmax(X, axis, keepdims=True) if largest else np.argmin(X, axis, keepdims=True)
    else:
        indices = np.take(_order(X, axis, largest), range(k), axis)
    return X[at(indices, axis)], indices.astype(np.int64, copy=False)


def _top_grad(X: Tensor, Indices: Tensor, dOut: Tensor, *, axis: int = -1) -> Tensor:
    return put_along_axis(fill_zeros_like(X), Indices, dOut, Axis=axis)


@operator("X -> Out Indices", infer=_top_type, grad={"X": lambda X, Indices, dOut: _top_grad(X, Indices, dOut)}, shapes="X", rows="X")
def top_k(X: Array, *, k: int = 1) -> tuple[Array, Array]:
    """The k largest elements along the last axis, in falling order; of equal ones the first."""
    return _top(X, k, X.ndim - 1, largest=True)


@operator("X -> Out Indices", infer=_top_type, grad={"X": _top_grad}, shapes="X", rows="X", along="axis", own=True)
def top_k_v2(X: Array, *, k: int = 1, axis: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    """The k largest (or smallest) elements along ``axis``, in order; of equal ones the first."""
    return _top(X, k, normal_axis(axis, X.ndim), largest)


def _accuracy_type(Out: TensorType, Indices: TensorType, Label: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    if len(Indices.shape) != 2 or len(Label.shape) not in (1, 2) or not all(map(matched, Label.shape, (Indices.shape[0], 1))):
        raise ShapeError(f"Indices is {Indices} but Label is {Label}: [N, k] and [N, 1] are expected")
    return TensorType((), Out.dtype), TensorType((), "int32"), TensorType((), "int32")


@operator("Out Indices Label -> Accuracy Correct Total", infer=_accuracy_type, grad={})
def accuracy(Out: Array, Indices: Array, Label: Array) -> tuple[Array, Array, Array]:
    """The part of the rows whose Label ``[N, 1]`` is among Indices ``[N, k]``, the number of these rows, and N."""
    correct = int((Indices == Label.reshape(-1, 1)).any(axis=1).sum())
    share = correct / len(Indices) if len(Indices) else 0.0
    return np.asarray(share, Out.dtype), np.asarray(correct, np.int32), np.asarray(len(Indices), np.int32)
