"""Regions of interest by parts: each window reads channels of its own, or is integrated exactly.

Both are sums over an image ``X[h, w]`` with weights that are products: ``Out[p, q] = sum(Down[p, h] * X[h, w] * Across[q, w])``. So what
is given back to the images, and to the weights, is such a sum too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.activation import relu
from graphad.ops.attributes import attributes
from graphad.ops.casting import cast
from graphad.ops.definition import operator
from graphad.ops.elementwise import abs_
from graphad.ops.indexing import gather, ungather
from graphad.ops.inference import matched, normal_axis, same_float
from graphad.ops.joining import concat
from graphad.ops.like import fill_any_like, reshape_like
from graphad.ops.linalg import einsum
from graphad.ops.reduction import reduce_sum
from graphad.ops.roi import check_boxes, images_of, pooled_type
from graphad.ops.selection import where
from graphad.ops.shapes import reshape, unsqueeze
from graphad.ops.slicing import slice_
from graphad.types import Array, Tensor, TensorType

# -- boxes and images ------------------------------------------------------------------------------


def _images_type(X: TensorType, ROIs: TensorType, RoisNum: TensorType | None = None) -> TensorType:
    check_boxes(X, ROIs, RoisNum)
    return TensorType((ROIs.shape[0],), "int64")


@operator("X ROIs RoisNum? -> Out", infer=_images_type, grad={}, flops=0)
def box_images(X: Array, ROIs: Array, RoisNum: Array | None = None) -> Array:
    """The image of ``X`` that each box is in, by how many each image has. Only shapes are read of X and of the boxes."""
    return np.asarray(images_of(ROIs, RoisNum, len(X)), "int64")


def _rounded(corners: Array) -> Array:
    """Halves away from zero, as C rounds; numpy takes them to even."""
    return np.asarray(np.sign(corners) * np.floor(np.abs(corners) + 0.5))


class Terms(NamedTuple):
    """The letters of the sum: of the images of boxes, the weights down and across, and the windows."""

    image: str
    down: str
    across: str
    out: str

    def total(self, image: Tensor, down: Tensor, across: Tensor) -> Tensor:
        """The windows."""
        return einsum([image, down, across], equation=f"{self.image},{self.down},{self.across}->{self.out}")

    def by_boxes(self, X: Array, images: Array, down: Array, across: Array, shape: list[int]) -> Array:
        """The windows, box by box, so that no image is copied for each of its boxes."""
        parts = [self.total(reshape(X[n : n + 1], shape=shape), down[i : i + 1], across[i : i + 1]) for i, n in enumerate(images)]
        return concat(parts, axis=0) if parts else self.total(reshape(X[:0], shape=[0, *shape[1:]]), down, across)  # type: ignore[no-any-return]

    def image_grad(self, d: Tensor, down: Tensor, across: Tensor) -> Tensor:
        """The cotangent of the images of boxes."""
        return einsum([d, down, across], equation=f"{self.out},{self.down},{self.across}->{self.image}")

    def down_grad(self, d: Tensor, image: Tensor, across: Tensor) -> Tensor:
        """The cotangent of the weights down."""
        return einsum([image, d, across], equation=f"{self.image},{self.out},{self.across}->{self.down}")

    def across_grad(self, d: Tensor, image: Tensor, down: Tensor) -> Tensor:
        """The cotangent of the weights across."""
        return einsum([image, d, down], equation=f"{self.image},{self.out},{self.down}->{self.across}")


def _given_back(X: Tensor, boxes: Tensor, images: Tensor) -> Tensor:
    """Scatter-add values of boxes ``[R, ...]`` to their images: the cotangent of the gather that gives each box its image."""
    # As the images of boxes are at run time: an extent may be open.
    return ungather(reshape_like(boxes, gather(X, images, axis=0)), images, X, axis=0)


# -- windows with channels of their own ------------------------------------------------------------
# J. Dai et al., "R-FCN: Object detection via region-based fully convolutional networks" (2016).


@dataclass(eq=False, repr=False)
class Sensitive:
    """The attributes of ``psroi_pool``."""

    output_channels: int
    pooled_height: int = 1
    pooled_width: int = 1
    spatial_scale: float = 1.0

    @property
    def shape(self) -> list[int]:
        """The extents of a window's channels: first the result's, then the window's row and column."""
        return [self.output_channels, self.pooled_height, self.pooled_width]


_SENSITIVE = Terms("rdpqhw", "rph", "rqw", "rdpq")


def _windows_type(X: TensorType, ROIs: TensorType, *, pooled_height: int, pooled_width: int, **_: object) -> tuple[TensorType, TensorType]:
    pooled_type(X, ROIs, TensorType((X.shape[0],), "int64") if X.shape else None, pooled_height, pooled_width)
    boxes = ROIs.shape[0]
    return TensorType((boxes, pooled_height, X.shape[2]), X.dtype), TensorType((boxes, pooled_width, X.shape[3]), X.dtype)


@operator("X ROIs -> Down Across", infer=_windows_type, grad={})
def psroi_windows(X: Array, ROIs: Array, *, pooled_height: int, pooled_width: int, spatial_scale: float) -> tuple[Array, Array]:
    """For each box the weights of the means of its windows, along the height and along the width of X; zeros for an empty window.

    Corners are rounded before they are scaled, and the last row and column belong to a box, as in Paddle.
    """
    scale = ROIs.dtype.type(spatial_scale)
    x1, y1, x2, y2 = _rounded(ROIs).T
    sides = ((y1, y2, pooled_height, X.shape[2]), (x1, x2, pooled_width, X.shape[3]))
    down, across = (_means(low * scale, (high + 1) * scale, count, extent) for low, high, count, extent in sides)
    return down, across


def _means(low: Array, high: Array, count: int, extent: int) -> Array:
    """``[boxes, count, extent]``: one over the number of elements in each window."""
    part = (np.maximum(high - low, low.dtype.type(0.1)) / low.dtype.type(count))[:, None]
    # In the dtype of the boxes, as Paddle: which elements a window has depends on how its ends are rounded.
    ends = np.arange(count + 1).astype(low.dtype) * part + low[:, None]
    starts, stops = np.clip(np.floor(ends[:, :-1]), 0, extent), np.clip(np.ceil(ends[:, 1:]), 0, extent)
    place = np.arange(extent)
    inside = (place >= starts[..., None]) & (place < stops[..., None])
    return np.asarray(inside / np.maximum(stops - starts, 1)[..., None], low.dtype)


def _sensitive_type(X: TensorType, ROIs: TensorType, RoisNum: TensorType | None = None, **attrs: Any) -> TensorType:
    how = Sensitive(**attrs)
    dtype = pooled_type(X, ROIs, RoisNum, how.pooled_height, how.pooled_width).dtype
    if how.output_channels < 1 or not matched(X.shape[1], math.prod(how.shape)):
        raise ShapeError(f"X is {X}: output_channels * pooled_height * pooled_width channels, {how.shape}, are expected")
    return TensorType((ROIs.shape[0], *how.shape), dtype)


def _sensitive_weights(X: Tensor, ROIs: Tensor, how: Sensitive) -> tuple[Tensor, Tensor]:
    options = {"pooled_height": how.pooled_height, "pooled_width": how.pooled_width, "spatial_scale": how.spatial_scale}
    down, across = psroi_windows(X, ROIs, **options)
    return down, across


@attributes(Sensitive)
def _sensitive_grad(X: Tensor, ROIs: Tensor, RoisNum: Tensor, dOut: Tensor, **attrs: Any) -> Tensor:
    back = _SENSITIVE.image_grad(dOut, *_sensitive_weights(X, ROIs, Sensitive(**attrs)))
    return _given_back(X, back, box_images(X, ROIs, RoisNum))


@operator("X ROIs RoisNum? -> Out", infer=_sensitive_type, grad={"X": _sensitive_grad}, shapes="X", linear="X", costly=True)
@attributes(Sensitive)
def psroi_pool(X: Array, ROIs: Array, RoisNum: Array | None = None, **attrs: Any) -> Array:
    """Each box as ``pooled_height`` by ``pooled_width`` means, each of a channel of its own: X has ``output_channels`` for each window.

    ``ROIs`` ``[R, 4]`` are two corners each, of all images one after the other, ``RoisNum`` of each. A window without elements is 0.
    """
    how = Sensitive(**attrs)
    images = images_of(ROIs, RoisNum, len(X))
    return _SENSITIVE.by_boxes(X, images, *_sensitive_weights(X, ROIs, how), [1, *how.shape, *X.shape[2:]])


# -- exact integrals -------------------------------------------------------------------------------
# B. Jiang et al., "Acquisition of localization confidence for accurate object detection" (2018).


@dataclass(eq=False, repr=False)
class Precise:
    """The attributes of ``prroi_pool``."""

    pooled_height: int = 1
    pooled_width: int = 1
    spatial_scale: float = 1.0


_PRECISE = Terms("rdhw", "rph", "rqw", "rdpq")


class Side(NamedTuple):
    """The windows of boxes along a side of the image: how long each is, how far its ends are from elements, what elements weigh."""

    size: Tensor  # [R, 1, 1]
    distances: Tensor  # [R, count + 1, extent]
    weights: Tensor  # [R, count, extent]


def _column(ROIs: Tensor, at: int, scale: float) -> Tensor:
    return unsqueeze(slice_(ROIs, axes=[1], starts=[at], ends=[at + 1]), axes=[2]) * scale


def _line_type(X: TensorType, *, axis: int) -> TensorType:
    return TensorType((X.shape[normal_axis(axis, len(X.shape))],), same_float(X).dtype)


@operator("X -> Out", infer=_line_type, grad={}, of_shape=True, flops=0)
def element_places(X: Array, *, axis: int) -> Array:
    """0, 1, 2 ... for the elements along an axis, in the dtype of X, of which only the shape is read."""
    return np.arange(X.shape[axis]).astype(X.dtype)


def _side(X: Tensor, ROIs: Tensor, axis: int, count: int, scale: float) -> Side:
    """The integral of ``max(0, 1 - |t - h|)``, the weight of element h at t, over each window, by the window's length."""
    # In double precision: the integral of a small window is the difference of two that are nearly the same.
    wide = cast(ROIs, out_dtype="float64")
    low, high = _column(wide, 1 - axis, scale), _column(wide, 3 - axis, scale)
    size = relu(high - low) * (1.0 / count)
    ends = low + size * np.arange(count + 1.0).reshape(1, -1, 1)
    distances = ends - cast(element_places(X, axis=2 + axis), out_dtype="float64")
    # From -1 to 1: the integral up to there is 0.5 + u - u |u| / 2; it is 0 before and 1 after.
    u = relu(2.0 - relu(1.0 - distances)) - 1.0
    integral = 0.5 + u - u * abs_(u) * 0.5
    parts = slice_(integral, axes=[1], starts=[1], ends=[count + 1]) - slice_(integral, axes=[1], starts=[0], ends=[count])
    return Side(size, distances, parts * _inverse(size))


def _inverse(size: Tensor) -> Tensor:
    """One over a length, and 0 for a box without any."""
    ones = fill_any_like(size, value=1.0)
    return where(size > 0.0, ones / where(size > 0.0, size, ones), ones * 0.0)


def _corner_grads(side: Side, d: Tensor, count: int, scale: float) -> tuple[Tensor, Tensor]:
    """The cotangents of a box's lower and upper corner along a side, ``[R, 1]`` each, from that of the weights."""
    share = _inverse(side.size)
    # An end is that of one window and the start of the next; the integral's slope is the weight there.
    none = fill_any_like(slice_(d, axes=[1], starts=[0], ends=[1]), value=0.0)
    slope = (concat([none, d], axis=1) - concat([d, none], axis=1)) * relu(1.0 - abs_(side.distances))
    by_end = reduce_sum(slope, dim=[2], keep_dim=True) * share
    part = np.arange(count + 1).reshape(1, -1, 1) / count
    # A longer window weighs less: weights are divided by its length.
    longer = reduce_sum(d * side.weights, dim=[1, 2], keep_dim=True) * share * (1.0 / count)
    high = reduce_sum(by_end * part, dim=[1], keep_dim=True) - longer
    both = reduce_sum(by_end, dim=[1], keep_dim=True)
    low_grad, high_grad = (reshape(cotangent * scale, shape=[-1, 1]) for cotangent in (both - high, high))
    return low_grad, high_grad


def _precise_type(X: TensorType, ROIs: TensorType, BatchRoINums: TensorType | None = None, **attrs: Any) -> TensorType:
    how = Precise(**attrs)
    return pooled_type(X, ROIs, BatchRoINums, how.pooled_height, how.pooled_width)


def _sides(X: Tensor, ROIs: Tensor, how: Precise) -> tuple[Side, Side]:
    counts = (how.pooled_height, how.pooled_width)
    down, across = (_side(X, ROIs, axis, count, how.spatial_scale) for axis, count in enumerate(counts))
    return down, across


@attributes(Precise)
def _precise_grad(X: Tensor, ROIs: Tensor, BatchRoINums: Tensor, dOut: Tensor, **attrs: Any) -> Tensor:
    down, across = (_narrow(side.weights, X) for side in _sides(X, ROIs, Precise(**attrs)))
    return _given_back(X, _PRECISE.image_grad(dOut, down, across), box_images(X, ROIs, BatchRoINums))


@attributes(Precise)
def _precise_box_grad(X: Tensor, ROIs: Tensor, BatchRoINums: Tensor, dOut: Tensor, **attrs: Any) -> Tensor:
    how = Precise(**attrs)
    down, across = _sides(X, ROIs, how)
    image = cast(gather(X, box_images(X, ROIs, BatchRoINums), axis=0), out_dtype="float64")
    dOut = cast(dOut, out_dtype="float64")
    y = _corner_grads(down, _PRECISE.down_grad(dOut, image, across.weights), how.pooled_height, how.spatial_scale)
    x = _corner_grads(across, _PRECISE.across_grad(dOut, image, down.weights), how.pooled_width, how.spatial_scale)
    return _narrow(concat([x[0], y[0], x[1], y[1]], axis=1), ROIs)


def _narrow(wide: Tensor, like: Tensor) -> Tensor:
    return cast(wide, out_dtype=str(like.dtype))


@operator(
    "X ROIs BatchRoINums? -> Out",
    infer=_precise_type,
    grad={"X": _precise_grad, "ROIs": _precise_box_grad},
    shapes="X:X",
    partly_linear="X",
    costly=True,
)
@attributes(Precise)
def prroi_pool(X: Array, ROIs: Array, BatchRoINums: Array | None = None, **attrs: Any) -> Array:
    """Each box as ``pooled_height`` by ``pooled_width`` windows: the integral of the interpolated image over each, by the window's area.

    Nothing is rounded, so that the boxes have a gradient. The image is zero outside, and a box without area is zero.
    """
    down, across = (_narrow(side.weights, X) for side in _sides(X, ROIs, Precise(**attrs)))
    return _PRECISE.by_boxes(X, images_of(ROIs, BatchRoINums, len(X)), down, across, [1, *X.shape[1:]])
