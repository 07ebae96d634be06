"""Operators about the order of elements: sorting, the largest, distinct values, how many there are of each, running extrema."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.definition import NO_INTS, DType, operator
from graphad.ops.dimensions import along_one_axis
from graphad.ops.indexing import at, gather, put_along_axis
from graphad.ops.inference import matched, normal_axis, same_float
from graphad.ops.like import fill_zeros_like
from graphad.types import INTS, Array, Tensor, TensorType, element_count


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
    # A stable sort of the reversed elements, reversed: largest first, and of equal ones still the first.
    return np.asarray(X.shape[axis] - 1 - np.flip(np.argsort(np.flip(X, axis), axis=axis, kind="stable"), axis))


def _top(X: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    if k == 1:
        # One element is found in linear time.
        indices = np.argmax(X, axis, keepdims=True) if largest else np.argmin(X, axis, keepdims=True)
    else:
        indices = np.take(_order(X, axis, largest), range(k), axis)
    return X[at(indices, axis)], indices.astype(np.int64, copy=False)


def _top_grad(X: Tensor, Indices: Tensor, dOut: Tensor, *, axis: int = -1) -> Tensor:
    return put_along_axis(fill_zeros_like(X), Indices, dOut, Axis=axis)


@operator(
    "X -> Out Indices", infer=_top_type, grad={"X": lambda X, Indices, dOut: _top_grad(X, Indices, dOut)}, shapes="X", rows="X", costly=True
)
def top_k(X: Array, *, k: int = 1) -> tuple[Array, Array]:
    """The k largest elements along the last axis, in falling order; of equal ones the first."""
    return _top(X, k, X.ndim - 1, largest=True)


@operator(
    "X -> Out Indices",
    infer=_top_type,
    grad={"X": _top_grad},
    shapes="X",
    rows="X",
    along="axis",
    own=True,
    costly=True,
    dimensions=along_one_axis,
)
def top_k_v2(X: Array, *, k: int = 1, axis: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    """The k largest (or smallest) elements along ``axis``, in order; of equal ones the first."""
    return _top(X, k, normal_axis(axis, X.ndim), largest)


# -- sorting ---------------------------------------------------------------------------------------
# Operators about the order of elements: sorting, distinct values, the greatest of a group, and which of equal indices is the last.

# -- sorting -------------------------------------------------------------------------------------


def _sorted_type(X: TensorType, *, axis: int = -1, descending: bool = False) -> tuple[TensorType, TensorType]:
    normal_axis(axis, max(len(X.shape), 1))
    return X, TensorType(X.shape, "int64")


def _sort_grad(X: Tensor, Indices: Tensor, dOut: Tensor, *, axis: int) -> Tensor:
    return put_along_axis(fill_zeros_like(X), Indices, dOut, Axis=axis, Reduce="add") if X.ndim else dOut


@operator(
    "X -> Out Indices",
    infer=_sorted_type,
    grad={"X": _sort_grad},
    shapes="X",
    rows="X",
    along="axis",
    costly=True,
    dimensions=along_one_axis,
)
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
    # How many distinct elements there are depends on values.
    shape = (*X.shape[:at], -1, *X.shape[at + 1 :]) if axis else (-1,)
    inverse = X.shape[at] if axis else element_count(X.shape)
    index = TensorType((-1,), dtype or "int64")
    return TensorType(shape, X.dtype), index, TensorType((inverse,), index.dtype), index


@operator("X -> Out Indices? Index? Counts?", infer=_distinct_types, grad=None, costly=True)
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
        # numpy sorts what is distinct; the order of first occurrence is that of the indices.
        order = np.argsort(first, kind="stable")
        out, first, inverse, counts = out[order], first[order], np.argsort(order)[inverse], counts[order]
    kind = dtype or "int64"
    return out, first.astype(kind), inverse.reshape(-1).astype(kind), counts.astype(kind)


# -- counts --------------------------------------------------------------------------------------


def _bins_type(X: TensorType, *, bins: int = 100, min: float = 0.0, max: float = 0.0) -> TensorType:
    if X.dtype == "bool":
        raise ShapeError(f"X is {X}: numbers are expected")
    if bins < 1 or min > max:
        raise ShapeError(f"bins={bins} from min={min} to max={max}: one bin or more is expected, and min no greater than max")
    return TensorType((bins,), "int64")


@operator("X -> Out", infer=_bins_type, grad={}, costly=True)
def histogram(X: Array, *, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Array:
    """The number of elements in each of ``bins`` intervals of one length from ``min`` to ``max``, the last one closed; others are left out.

    Where ``min`` and ``max`` are equal, the least and the greatest element take their place, or 1 below and above if these are equal, too.
    """
    low, high = (float(X.min()), float(X.max())) if min == max and X.size else (min, max)
    low, high = (low - 1, high + 1) if low == high else (low, high)
    return np.histogram(X, bins, (low, high))[0].astype("int64", copy=False)


def _counts_type(X: TensorType, Weights: TensorType | None = None, *, minlength: int = 0) -> TensorType:
    if len(X.shape) != 1 or X.dtype not in INTS or X.dtype == "bool":
        raise ShapeError(f"X is {X}: a vector of integers is expected")
    if Weights is not None and (len(Weights.shape) != 1 or not matched(Weights.shape[0], X.shape[0])):
        raise ShapeError(f"X is {X} but Weights is {Weights}: one weight for each element is expected")
    if minlength < 0:
        raise ShapeError(f"minlength is 0 or more, not {minlength}")
    return TensorType((-1,), "int64" if Weights is None else Weights.dtype)


@operator("X Weights? -> Out", infer=_counts_type, grad={"Weights": lambda X, dOut: gather(dOut, X)}, linear="Weights", costly=True)
def bincount(X: Array, Weights: Array | None = None, *, minlength: int = 0) -> Array:
    """The count of each number from 0 on in X, or the sum of its Weights: up to the greatest, and for ``minlength`` numbers at least."""
    if X.size and X.min() < 0:
        raise InvalidValue(f"X has {X.min()}: integers from 0 on are counted")
    counts = np.bincount(X, Weights, minlength)
    return counts.astype("int64" if Weights is None else Weights.dtype, copy=False)


# -- running extrema -----------------------------------------------------------------------------


def _extremum_type(x: TensorType, *, axis: int = -1, dtype: DType = "int64") -> tuple[TensorType, TensorType]:
    normal_axis(axis, len(x.shape))
    if dtype not in ("int32", "int64"):
        raise InvalidValue(f"dtype={dtype!r}: places are int32 or int64")
    return x, TensorType(x.shape, dtype)


def _extremum_grad(x: Tensor, indices: Tensor, dout: Tensor, *, axis: int) -> Tensor:
    # Each running extremum is one element, which gets the cotangents of all places at which it is the extremum.
    return put_along_axis(fill_zeros_like(x), indices, dout, Axis=axis, Reduce="add", Include_self=True)


def _running_extremum(accumulate: Callable[..., object], x: Array, axis: int, dtype: str) -> tuple[Array, Array]:
    out = np.asarray(accumulate(x, axis=axis))
    # The last of equal elements counts, as in Paddle; a nan stays, and each further nan is a place of its own.
    is_extremum = (x == out) | (x != x)
    shape = [1] * x.ndim
    shape[axis] = -1
    places = np.where(is_extremum, np.arange(x.shape[axis], dtype=dtype).reshape(shape), np.zeros((), dtype))
    return out, np.asarray(np.maximum.accumulate(places, axis=axis))


@operator("x -> out indices", infer=_extremum_type, grad={"x": _extremum_grad}, shapes="x", flops=1)
def cummax(x: Array, *, axis: int = -1, dtype: DType = "int64") -> tuple[Array, Array]:
    """The largest element up to each along ``axis``, and where it is: the last place of equal ones."""
    return _running_extremum(np.maximum.accumulate, x, axis, dtype)


@operator("x -> out indices", infer=_extremum_type, grad={"x": _extremum_grad}, shapes="x", flops=1)
def cummin(x: Array, *, axis: int = -1, dtype: DType = "int64") -> tuple[Array, Array]:
    """The smallest element up to each along ``axis``, and where it is: the last place of equal ones."""
    return _running_extremum(np.minimum.accumulate, x, axis, dtype)


# -- the largest of rows and columns ---------------------------------------------------------------


def _focus_type(X: TensorType, *, axis: int, indexes: list[int]) -> TensorType:
    if len(X.shape) != 4 or axis not in (1, 2, 3) or not indexes:
        raise ShapeError(f"X is {X}, axis={axis}, indexes={indexes}: four axes, one of 1, 2 and 3, and places along it are expected")
    same_float(X)
    if X.shape[axis] != -1 and not all(0 <= place < X.shape[axis] for place in indexes):
        raise ShapeError(f"X is {X}: indexes={indexes} are no places along axis {axis}")
    return X


@operator("X -> Out", infer=_focus_type, grad={}, costly=True)
def similarity_focus(X: Array, *, axis: int, indexes: list[int]) -> Array:
    """Ones where an element of a slice is the largest of those whose row and column have none yet, along the whole of ``axis``.

    X is ``[N, A, B, C]``; the slices are those at ``indexes`` along the axis, each ``min(B, C)`` ones (of the two other axes); what one of
    them has marked stays marked (H. He and J. Lin, "Pairwise word interaction modeling", 2016, section 4.2).
    """
    slices = np.moveaxis(X, axis, 1)
    marks = np.zeros((len(X), *slices.shape[2:]), X.dtype)
    for image, place in ((image, place) for image in range(len(X)) for place in indexes):
        part = slices[image, place]
        rows, columns = np.ones(part.shape[0], bool), np.ones(part.shape[1], bool)
        # From the largest down; of equal ones the first.
        for number in np.argsort(-part, axis=None, kind="stable"):
            row, column = divmod(int(number), part.shape[1])
            if rows[row] and columns[column]:
                marks[image, row, column] = 1
                rows[row] = columns[column] = False
    return np.ascontiguousarray(np.broadcast_to(np.expand_dims(marks, axis), X.shape))
