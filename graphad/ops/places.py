"""Parts of tensors by position: crops, slices along an axis one by one, and the reverse order."""

from __future__ import annotations

import builtins

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.extents import Types, hinted, how_many, is_given, numbers
from graphad.ops.inference import normal_axis
from graphad.ops.joining import stack
from graphad.ops.shapes import flip, shape_
from graphad.types import Shape, TensorType

NO_INTS: list[int] = []

# -- along one axis ------------------------------------------------------------------------------


def _unbound(X: TensorType, *, axis: int = 0) -> list[TensorType]:
    at = normal_axis(axis, len(X.shape))
    if not X.shape or X.shape[at] == -1:
        raise ShapeError(f"X is {X}: the extent along axis={axis} has to be known, since there is an output for each place")
    return [TensorType(X.shape[:at] + X.shape[at + 1 :], X.dtype)] * X.shape[at]


@operator("X -> Out*", infer=_unbound, grad={"X": lambda dOut, *, axis: stack(dOut, axis=axis)}, linear="X", narrow="follows")
def unbind(X: Array, *, axis: int = 0) -> list[Array]:
    """The slices of X along ``axis``, without that axis."""
    return [part.copy() for part in np.moveaxis(X, axis, 0)]


def _reversed(X: TensorType, *, axis: list[int]) -> TensorType:
    if len({normal_axis(a, len(X.shape)) for a in axis}) < len(axis):
        raise ShapeError(f"X is {X}: axis={axis} names an axis twice")
    return X


@operator("X -> Out", infer=_reversed, grad={"X": lambda dOut, *, axis: flip(dOut, axis=axis)}, linear="X", narrow="follows")
def reverse(X: Array, *, axis: list[int]) -> Array:
    """X in reverse order along each of ``axis``."""
    return np.flip(X, tuple(axis)).copy()


# -- crops ---------------------------------------------------------------------------------------


def _cropped(old: Shape, offsets: list[int], shape: list[int]) -> Shape:
    """The extents of a crop; one of -1 goes to the end."""
    offsets = offsets or [0] * len(old)
    if not len(offsets) == len(shape) == len(old):
        raise ShapeError(f"X has the shape {list(old)}: offsets={offsets} and shape={shape} must have a number for each axis")
    extents = tuple((-1 if e == -1 else e - o) if s == -1 else s for e, o, s in zip(old, offsets, shape, strict=True))
    if any(o < 0 or (e != -1 and (o + max(n, 0) > e or n < 0)) for e, o, n in zip(old, offsets, extents, strict=True)):
        raise ShapeError(f"X has the shape {list(old)}: offsets={offsets} and shape={shape} are not within")
    return extents


def _crop_tensor_type(
    X: TensorType,
    Shape: TensorType | None = None,
    Offsets: TensorType | None = None,
    ShapeTensor: Types | None = None,
    OffsetsTensor: Types | None = None,
    *,
    offsets: list[int] = NO_INTS,
    shape: list[int] = NO_INTS,
) -> TensorType:
    rank = len(X.shape)
    by_tensor = is_given(Shape, ShapeTensor), is_given(Offsets, OffsetsTensor)
    if not any(by_tensor):
        return TensorType(_cropped(X.shape, offsets, shape), X.dtype)
    extents = hinted("Shape", shape, Shape, ShapeTensor)
    if len(extents) != rank or (by_tensor[1] and how_many("Offsets", offsets, Offsets, OffsetsTensor) != rank):
        raise ShapeError(f"X is {X}: a crop takes a number for each axis")
    return TensorType(tuple(e if e > 0 else -1 for e in extents), X.dtype)


def _crop_tensor_grad(X: Tensor, dOut: Tensor, Offsets: Tensor, OffsetsTensor: list[Tensor], *, offsets: list[int]) -> Tensor:
    return uncrop(dOut, X, Offsets, OffsetsTensor, offsets=offsets)


@operator(
    "X Shape? Offsets? ShapeTensor*? OffsetsTensor*? -> Out", infer=_crop_tensor_type, grad={"X": _crop_tensor_grad}, shapes="X", linear="X"
)
def crop_tensor(
    X: Array,
    Shape: Array | None = None,
    Offsets: Array | None = None,
    ShapeTensor: list[Array] | None = None,
    OffsetsTensor: list[Array] | None = None,
    *,
    offsets: list[int] = NO_INTS,
    shape: list[int] = NO_INTS,
) -> Array:
    """The part of X of the extents ``shape`` (-1: to the end) that starts at ``offsets``; tensors take the place of either."""
    start = numbers(offsets, Offsets, OffsetsTensor) or [0] * X.ndim
    extents = _cropped(X.shape, start, numbers(shape, Shape, ShapeTensor))
    return X[tuple(builtins.slice(o, o + e) for o, e in zip(start, extents, strict=True))].copy()


def _crop_type(
    X: TensorType,
    Y: TensorType | None = None,
    Offsets: TensorType | None = None,
    *,
    offsets: list[int] = NO_INTS,
    shape: list[int] = NO_INTS,
) -> TensorType:
    wanted = list(shape if Y is None else Y.shape)
    if Y is not None and -1 in wanted:
        return _crop_tensor_type(X, TensorType((len(wanted),), "int64"), Offsets, offsets=offsets, shape=wanted)
    return _crop_tensor_type(X, None, Offsets, offsets=offsets, shape=wanted)


def _crop_grad(X: Tensor, dOut: Tensor, Offsets: Tensor, *, offsets: list[int]) -> Tensor:
    return uncrop(dOut, X, Offsets, offsets=offsets)


@operator("X Y? Offsets? -> Out", infer=_crop_type, grad={"X": _crop_grad}, shapes="X", linear="X")
def crop(
    X: Array, Y: Array | None = None, Offsets: Array | None = None, *, offsets: list[int] = NO_INTS, shape: list[int] = NO_INTS
) -> Array:
    """The part of X in the shape of Y, or of the extents ``shape``, that starts at ``offsets`` or at what Offsets says."""
    part: Array = crop_tensor.kernel(X, None, Offsets, offsets=offsets, shape=list(shape if Y is None else Y.shape))
    return part


def _uncropped(
    X: TensorType, Like: TensorType, Offsets: TensorType | None = None, OffsetsTensor: Types | None = None, *, offsets: list[int] = NO_INTS
) -> TensorType:
    start = [] if is_given(Offsets, OffsetsTensor) else offsets
    _cropped(Like.shape, start, list(X.shape))
    return TensorType(Like.shape, X.dtype)


def _uncrop_grad(X: Tensor, dOut: Tensor, Offsets: Tensor, OffsetsTensor: list[Tensor], *, offsets: list[int]) -> Tensor:
    return crop_tensor(dOut, shape_(X), Offsets, None, OffsetsTensor, offsets=offsets, shape=list(X.shape))


@operator("X Like Offsets? OffsetsTensor*? -> Out", infer=_uncropped, grad={"X": _uncrop_grad}, shapes="X", linear="X")
def uncrop(
    X: Array, Like: Array, Offsets: Array | None = None, OffsetsTensor: list[Array] | None = None, *, offsets: list[int] = NO_INTS
) -> Array:
    """Zeros in the shape of Like with X at ``offsets``: the transpose of ``crop_tensor``. Only Like's shape is read."""
    start = numbers(offsets, Offsets, OffsetsTensor) or [0] * X.ndim
    _cropped(Like.shape, start, list(X.shape))
    out = np.zeros(Like.shape, X.dtype)
    out[tuple(builtins.slice(o, o + e) for o, e in zip(start, X.shape, strict=True))] = X
    return out
