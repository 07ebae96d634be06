"""Tensors in the shape of another one, which is known at run time only: filled, summed, expanded, reshaped."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.aggregates import Aggregate
from graphad.ops.definition import OUT_AS_X, DType, Typed, operator
from graphad.ops.dimensions import expanded_like, reshaped, summed_like
from graphad.ops.formulas import as_array, filled
from graphad.ops.inference import aligned, matched, same
from graphad.ops.summation import summed
from graphad.ops.traits import FUNCTION, ZEROS
from graphad.types import (
    FLOATS,
    Array,
    Shape,
    Tensor,
    TensorType,
    broadcast_shapes,
    checked_shape,
    dtype_name,
    element_count,
    joined_shape,
    same_shape,
)


@operator(
    "X -> Out",
    infer=same,
    grad={},
    partial=True,
    kinds=OUT_AS_X,
    **FUNCTION,
    cheap=True,
    fills=ZEROS,
    uniform=True,
    of_shape=True,
    flops=0,
)
def fill_zeros_like(X: Array) -> Array:
    """Zeros in the shape and dtype of X."""
    return X.zeros_like() if isinstance(X, Aggregate) else X if X is None else np.zeros_like(X)


@operator(
    "X -> Out",
    infer=lambda X, *, value, dtype="": TensorType(X.shape, dtype or X.dtype),
    grad={},
    **FUNCTION,
    cheap=True,
    fills="value",
    uniform=True,
    of_shape=True,
    flops=0,
)
def fill_any_like(X: Array, *, value: float, dtype: DType = "") -> Tensor:
    """One value in the shape of X."""
    return filled(X, value, dtype or X.dtype.name)


def _stood_in(X: TensorType | None = None, *, shape: list[int] | None = None, dtype: DType = "float32") -> TensorType:
    return X or TensorType(checked_shape(shape or ()), dtype)


@operator("X? -> Out", infer=_stood_in, grad={}, speculatable="types", cheap=True, placeholder=True, of_shape=True, flops=0)
def stand_in(X: Array | None = None, *, shape: list[int] | None = None, dtype: DType = "float32") -> Array:
    """Zeros in the shape and dtype of X, or as said, that take no memory: for operators that read nothing but those."""
    return _without_memory(tuple(shape or ()), dtype) if X is None else _without_memory(X.shape, X.dtype.name)


@lru_cache(maxsize=4096)
def _without_memory(shape: Shape, dtype: str) -> Array:
    # One element with strides of zero: it has a shape and a dtype, and no memory of that size.
    return np.broadcast_to(np.zeros((), dtype), shape)


def _broadcasts_to(shape: Shape, target: Shape) -> bool:
    try:
        return joined_shape(broadcast_shapes(shape, target), target) is not None
    except ShapeError:
        return False


def _summed_like(X: TensorType, Like: TensorType, *, axis: int = -1) -> TensorType:
    # The sum undoes a broadcast of Like to X: so Like has to broadcast to the very shape of X.
    if not _broadcasts_to(aligned(X.shape, Like.shape, axis), X.shape):
        raise ShapeError(f"X is {X}: it cannot be summed to the shape of Like, which is {Like}")
    return TensorType(Like.shape, X.dtype)


def _summing_like(X: Typed, Like: Typed, *, axis: int = -1) -> Callable[[Array, Array], Array] | None:
    """The function that sums over the axes of one element in Like; None where extents are not known, or a reshape is needed too."""
    if -1 in X.shape or -1 in Like.shape or dtype_name(X.dtype) not in FLOATS:  # numpy adds narrow integers up in a wider type
        return None
    axes, rest = _summed_axes(X.shape, Like.shape, axis)
    # Only sums that leave the very shape of Like need no reshape, and so no kernel of their own.
    return (lambda X, Like: summed(X, axes)) if axes and rest == tuple(Like.shape) else None


def _summed_axes(shape: Shape, like: Shape, axis: int) -> tuple[Shape, Shape]:
    """The axes that are summed, and the extents of the others."""
    wide = aligned(shape, like, axis)
    padded_shape = (1,) * (len(shape) - len(wide)) + wide
    axes = tuple(i for i, (a, b) in enumerate(zip(shape, padded_shape, strict=True)) if a != b)
    return axes, tuple(e for i, e in enumerate(shape) if i not in axes)


@operator(
    "X Like -> Out",
    infer=_summed_like,
    specialize=_summing_like,
    grad={"X": lambda X, dOut, *, axis=-1: expand_like(dOut, X, axis=axis)},
    shapes="X",
    linear="X",
    flops=1,
    dimensions=summed_like,
)
def sum_like(X: Array, Like: Array, *, axis: int = -1) -> Array:
    """X summed over the axes along which Like would be broadcast to it: the transpose of ``expand_like``.

    ``axis`` is where Like's first axis is in X (-1: the last axes are aligned). Only Like's shape is read.
    """
    axes, _ = _summed_axes(X.shape, Like.shape, axis)
    # Where no axis is summed, Like may still have axes of one element more or fewer.
    return as_array(summed(X, axes), X.dtype).reshape(Like.shape) if axes else X.reshape(Like.shape)


def _expanded_like(X: TensorType, Like: TensorType, *, axis: int = -1) -> TensorType:
    if not _broadcasts_to(aligned(Like.shape, X.shape, axis), Like.shape):
        raise ShapeError(f"X is {X}: it does not broadcast to the shape of Like, which is {Like}")
    return TensorType(Like.shape, X.dtype)


@operator(
    "X Like -> Out",
    infer=_expanded_like,
    grad={"X": lambda X, dOut, *, axis=-1: sum_like(dOut, X, axis=axis)},
    shapes="X",
    speculatable="types",
    linear="X",
    view="X",
    flops=0,
    dimensions=expanded_like,
)
def expand_like(X: Array, Like: Array, *, axis: int = -1) -> Array:
    """X broadcast to the shape of Like, ``axis`` being where its first axis is in Like. Only Like's shape is read."""
    return np.broadcast_to(X.reshape(aligned(Like.shape, X.shape, axis)), Like.shape)


def _reshaped_like(X: TensorType, Like: TensorType, *, skip: int = 0) -> TensorType:
    shape = Like.shape[skip:]
    if not matched(element_count(X.shape), element_count(shape)):
        raise ShapeError(f"X is {X}: it cannot be reshaped to {list(shape)}, the shape of Like")
    return TensorType(shape, X.dtype)


@operator(
    "X Like -> Out",
    infer=_reshaped_like,
    grad={"X": lambda X, dOut: reshape_like(dOut, X)},
    shapes="X",
    linear="X",
    view="X",
    flops=0,
    in_order=True,
    dimensions=reshaped,
)
def reshape_like(X: Array, Like: Array, *, skip: int = 0) -> Array:
    """X in the shape of Like without its first ``skip`` axes (1 for an XShape). Only Like's shape is read."""
    return X.reshape(Like.shape[skip:])


def unbroadcast(cotangent: Tensor, like: Tensor, axis: int = -1) -> Tensor:
    """The cotangent of a broadcast input: nothing to do where the shapes are known to agree."""
    if same_shape(tuple(cotangent.shape), tuple(like.shape)):
        return cotangent
    return sum_like(cotangent, like, axis=axis)
