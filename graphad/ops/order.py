"""Operators about the order of elements: sorting, distinct values, the greatest of a group, and which of equal indices is the last."""

from __future__ import annotations

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.along import put_along_axis
from graphad.ops.basic import fill_zeros_like
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.inference import normal_axis
from graphad.types import Shape, TensorType, element_count

DType = str
NO_INTS: list[int] = []

# -- sorting -------------------------------------------------------------------------------------


def _sorted_type(X: TensorType, *, axis: int = -1, descending: bool = False) -> tuple[TensorType, TensorType]:
    normal_axis(axis, max(len(X.shape), 1))
    return X, TensorType(X.shape, "int64")


def _sort_grad(X: Tensor, Indices: Tensor, dOut: Tensor, *, axis: int) -> Tensor:
    return put_along_axis(fill_zeros_like(X), Indices, dOut, Axis=axis, Reduce="add") if X.ndim else dOut


@operator("X -> Out Indices", infer=_sorted_type, grad={"X": _sort_grad}, shapes="X", rows="X", along="axis")
def argsort(X: Array, *, axis: int = -1, descending: bool = False) -> tuple[Array, Array]:
    """X sorted along ``axis``, and where the elements were; equal ones keep their order. NaN counts as greater than all numbers."""
    if not X.ndim:
        return X.copy(), np.zeros((), "int64")
    if descending:
        indices = np.flip(X.shape[axis] - 1 - np.argsort(np.flip(X, axis), axis, kind="stable"), axis)
    else:
        indices = np.argsort(X, axis, kind="stable")
    return np.take_along_axis(X, indices, axis), np.ascontiguousarray(indices, "int64")


# -- distinct values -----------------------------------------------------------------------------


def _distinct_types(
    X: TensorType, *, axis: list[int] = NO_INTS, dtype: DType = "int64", **_: object
) -> tuple[TensorType, TensorType, TensorType, TensorType]:
    if len(axis) > 1:
        raise ShapeError(f"X is {X}: axis={axis} must name one axis, or none")
    at = normal_axis(axis[0], len(X.shape)) if axis else 0
    shape = (*X.shape[:at], -1, *X.shape[at + 1 :]) if axis else (-1,)
    inverse = X.shape[at] if axis else element_count(X.shape)
    index = TensorType((-1,), dtype or "int64")
    return TensorType(shape, X.dtype), index, TensorType((inverse,), index.dtype), index


@operator("X -> Out Indices? Index? Counts?", infer=_distinct_types, grad=None)
def unique(
    X: Array,
    *,
    dtype: DType = "int64",
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: list[int] = NO_INTS,
    is_sorted: bool = False,
) -> tuple[Array, Array, Array, Array]:
    """The distinct values of X, or its distinct slices along ``axis``: sorted, or in the order in which they come first.

    Indices says where each comes first, Index which of them each element is, Counts how often it is there.
    """
    along = axis[0] if axis else None
    out, first, inverse, counts = np.unique(X, return_index=True, return_inverse=True, return_counts=True, axis=along)
    if not is_sorted and not axis:
        order = np.argsort(first, kind="stable")
        out, first, inverse, counts = out[order], first[order], np.argsort(order)[inverse], counts[order]
    kind = dtype or "int64"
    return out, first.astype(kind), inverse.reshape(-1).astype(kind), counts.astype(kind)


# -- the greatest of a group ---------------------------------------------------------------------


def _grouped(shape: Shape, groups: int, axis: int) -> tuple[int, Shape]:
    """The axis, and the shape without ``groups`` along it."""
    at = normal_axis(axis, len(shape))
    if groups < 1 or (shape[at] != -1 and shape[at] % groups):
        raise ShapeError(f"the shape {list(shape)} cannot be taken in groups={groups} along axis={axis}")
    return at, (*shape[:at], -1 if shape[at] == -1 else shape[at] // groups, *shape[at + 1 :])


def _split_groups(X: Array, groups: int, axis: int) -> tuple[int, Array]:
    at, shape = _grouped(X.shape, groups, axis)
    return at, X.reshape(*shape[: at + 1], groups, *shape[at + 1 :])


def _maxout_grad(X: Tensor, dOut: Tensor, *, groups: int, axis: int) -> Tensor:
    return put_along_axis(fill_zeros_like(X), maxout_index(X, groups=groups, axis=axis), dOut, Axis=axis, Reduce="add")


def _maxout_type(X: TensorType, *, groups: int, axis: int = 1) -> TensorType:
    return TensorType(_grouped(X.shape, groups, axis)[1], X.dtype)


@operator("X -> Out", infer=_maxout_type, grad={"X": _maxout_grad}, rows="X", along="axis")
def maxout(X: Array, *, groups: int, axis: int = 1) -> Array:
    """The greatest of every ``groups`` neighbors along ``axis`` (Goodfellow et al., "Maxout networks", 2013); of equal ones the first."""
    at, parts = _split_groups(X, groups, axis)
    return np.asarray(np.max(parts, axis=at + 1))


@operator(
    "X -> Out",
    infer=lambda X, *, groups, axis=1: TensorType(_grouped(X.shape, groups, axis)[1], "int64"),
    grad={},
)
def maxout_index(X: Array, *, groups: int, axis: int = 1) -> Array:
    """The places along ``axis`` of the elements that ``maxout`` chooses."""
    at, parts = _split_groups(X, groups, axis)
    starts = np.arange(parts.shape[at]).reshape(-1, *(1,) * (X.ndim - at - 1))
    return np.asarray(np.argmax(parts, axis=at + 1) + starts * groups, "int64")
