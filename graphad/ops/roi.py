"""Regions of interest (boxes of images, each as so many windows), and convolutions whose windows are moved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.attributes import applied, attributes
from graphad.ops.conv import Convolution, forward_type, met_weights
from graphad.ops.definition import operator
from graphad.ops.inference import check_index, matched, same_dtypes, same_float
from graphad.ops.joining import concat
from graphad.ops.like import reshape_like
from graphad.ops.linalg import matmul_v2
from graphad.ops.reduction import reduce_sum
from graphad.ops.shapes import reshape
from graphad.ops.slicing import slice_
from graphad.ops.traits import Shapes, Weights
from graphad.ops.vision import Neighbor, moved, neighbors, picked, put_back
from graphad.ops.windows import Axes
from graphad.types import Array, Shape, Tensor, TensorType

# -- boxes in windows ------------------------------------------------------------------------------
# Both poolings take boxes ``[R, 4]``, two corners (x1, y1, x2, y2) each, of all images one after the other: RoisNum says how many each
# image has. Without it there is one image. A gradient flows to the images alone, as in Paddle: the boxes are constants.


def check_boxes(X: TensorType, ROIs: TensorType, RoisNum: TensorType | None) -> None:
    if len(X.shape) != 4 or 0 in X.shape[2:]:
        raise ShapeError(f"X is {X}: images [N, C, H, W], H and W above 0, are expected")
    if len(ROIs.shape) != 2 or not matched(ROIs.shape[1], 4):
        raise ShapeError(f"ROIs is {ROIs}: boxes (x1, y1, x2, y2), [R, 4], are expected")
    if RoisNum is None:
        if not matched(X.shape[0], 1):
            raise ShapeError(f"X is {X}, and there is no RoisNum: which image a box is in is known of one image only")
        return
    check_index("RoisNum", RoisNum)
    if len(RoisNum.shape) != 1 or not matched(RoisNum.shape[0], X.shape[0]):
        raise ShapeError(f"X is {X} but RoisNum is {RoisNum}: a number of boxes for each image is expected")


def images_of(ROIs: Array, RoisNum: Array | None, count: int) -> Array:
    """The image that each box is in; InvalidValue where the numbers of boxes do not add up."""
    if RoisNum is None:
        if count != 1:
            raise InvalidValue(f"there are {count} images, and no RoisNum says which of them a box is in")
        return np.zeros(len(ROIs), np.intp)
    if len(RoisNum) != count or (RoisNum < 0).any() or RoisNum.sum() != len(ROIs):
        raise InvalidValue(f"RoisNum is {RoisNum.tolist()}: {len(ROIs)} boxes of {count} images are expected")
    # Boxes come image by image.
    return np.repeat(np.arange(count), RoisNum)


def pooled_type(X: TensorType, ROIs: TensorType, RoisNum: TensorType | None, pooled_height: int, pooled_width: int) -> TensorType:
    """The type of pooled boxes: so many rows and columns for each box and channel; ShapeError if the boxes are none, or not of these
    images."""
    dtype = same_dtypes(X=same_float(X), ROIs=ROIs)
    check_boxes(X, ROIs, RoisNum)
    if min(pooled_height, pooled_width) < 1:
        raise ShapeError(f"pooled_height={pooled_height}, pooled_width={pooled_width}: numbers above 0 are expected")
    return TensorType((ROIs.shape[0], X.shape[1], pooled_height, pooled_width), dtype)


# -- averages of samples ---------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Aligning:
    """The attributes of ``roi_align``. ``sampling_ratio`` samples lie along each side of a window; -1: as many as it has elements."""

    pooled_height: int = 1
    pooled_width: int = 1
    spatial_scale: float = 1.0
    sampling_ratio: int = -1
    aligned: bool = False

    def matrices(self, boxes: Array, image: Shape) -> tuple[Array, Array]:
        """For each box the matrices ``[windows, elements]`` of the height and the width: its windows are their product with the image."""
        x1, y1, x2, y2 = boxes.T * self.spatial_scale - (0.5 if self.aligned else 0.0)
        return self._along(y1, y2, self.pooled_height, image[0]), self._along(x1, x2, self.pooled_width, image[1])

    def _along(self, low: Array, high: Array, count: int, extent: int) -> Array:
        """``[boxes, count, extent]``: the mean of the samples in each window, each interpolated between two elements."""
        # Without ``aligned`` a box is at least one element wide, as in Paddle.
        side = high - low if self.aligned else np.maximum(high - low, 1.0)
        sample_counts = np.full(len(low), self.sampling_ratio) if self.sampling_ratio > 0 else np.ceil(side / count)
        # Each box may have another number of samples. All get as many as the one that has most, and ``counts`` leaves out
        # those beyond their own.
        most = max(int(sample_counts.max(initial=1)), 1)
        sample, window = np.arange(most), np.arange(count)
        steps = np.maximum(sample_counts, 1)[:, None, None]
        at = low[:, None, None] + (window[:, None] + (sample + 0.5) / steps) * (side / count)[:, None, None]
        # A sample more than one element outside of the image is 0, one less far outside is moved to its edge, as in Paddle's kernel.
        counts = (sample < sample_counts[:, None, None]) & (at >= -1.0) & (at <= extent)
        # Linear interpolation: the weight of an element falls from 1 at the sample to 0 at a distance of 1.
        near = 1.0 - np.abs(np.clip(at, 0.0, extent - 1)[..., None] - np.arange(extent))
        weights = np.maximum(near, 0.0) * (counts / steps)[..., None]
        return np.asarray(weights.sum(axis=2), low.dtype)


def _aligned_type(X: TensorType, ROIs: TensorType, RoisNum: TensorType | None = None, **attrs: Any) -> TensorType:
    aligning = Aligning(**attrs)
    return pooled_type(X, ROIs, RoisNum, aligning.pooled_height, aligning.pooled_width)


def _aligned_flops(shapes: Shapes, attrs: Mapping[str, Any]) -> int:
    """The operations of the products with the two matrices."""
    images = (shapes.get("Like") or shapes["X"])[0]
    boxes, (channels, height, width) = shapes["ROIs"][0][0], images[1:]
    rows, columns = int(attrs["pooled_height"]), int(attrs["pooled_width"])
    return 2 * boxes * channels * width * rows * (height + columns)


@operator(
    "X ROIs RoisNum? -> Out",
    infer=_aligned_type,
    grad={"X": applied("roi_align_spread", "dOut X ROIs RoisNum", Aligning)},
    shapes="X",
    linear="X",
    costly=True,
    flops=_aligned_flops,
)
@attributes(Aligning)
def roi_align(X: Array, ROIs: Array, RoisNum: Array | None = None, **attrs: Any) -> Array:
    """Each box of an image as ``pooled_height`` by ``pooled_width`` windows: the mean of samples that are interpolated (He et al. 2017).

    ``spatial_scale`` takes the boxes to elements of X; ``aligned`` moves them by half an element, so that elements lie at their centers.
    """
    aligning, image = Aligning(**attrs), X.shape[2:]
    down, across = aligning.matrices(ROIs, image)
    # [N, H, C, W]: one product with the matrix of a box's rows serves all channels.
    rows, shape = X.transpose(0, 2, 1, 3), (X.shape[1], aligning.pooled_height, aligning.pooled_width)
    out = np.empty((len(ROIs), *shape), X.dtype)
    for i, number in enumerate(images_of(ROIs, RoisNum, len(X))):
        lines = down[i] @ rows[number].reshape(image[0], -1)
        out[i] = (lines.reshape(-1, image[1]) @ across[i].T).reshape(shape[1], shape[0], shape[2]).swapaxes(0, 1)
    return out


def _aligned_spread_type(X: TensorType, Like: TensorType, ROIs: TensorType, RoisNum: TensorType | None = None, **attrs: Any) -> TensorType:
    expected = _aligned_type(Like, ROIs, RoisNum, **attrs)
    if len(X.shape) != 4 or not all(map(matched, X.shape, expected.shape)):
        raise ShapeError(f"X is {X}; the windows of boxes, {expected}, are expected")
    return TensorType(Like.shape, same_dtypes(X=X, Like=Like))


@operator(
    "X Like ROIs RoisNum? -> Out",
    infer=_aligned_spread_type,
    grad={"X": applied("roi_align", "dOut ROIs RoisNum", Aligning)},
    linear="X",
    costly=True,
    flops=_aligned_flops,
)
@attributes(Aligning)
def roi_align_spread(X: Array, Like: Array, ROIs: Array, RoisNum: Array | None = None, **attrs: Any) -> Array:
    """The transpose of ``roi_align``: what windows give back to the images. Only Like's shape is read."""
    aligning, (n, channels, height, width) = Aligning(**attrs), Like.shape
    down, across = aligning.matrices(ROIs, (height, width))
    total = np.zeros((n, height, channels * width), X.dtype)
    for i, number in enumerate(images_of(ROIs, RoisNum, n)):
        lines = X[i].swapaxes(0, 1).reshape(-1, aligning.pooled_width) @ across[i]
        total[number] += down[i].T @ lines.reshape(aligning.pooled_height, channels * width)
    return np.ascontiguousarray(total.reshape(n, height, channels, width).transpose(0, 2, 1, 3))


# -- largest elements ------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class RoiPooling:
    """The attributes of ``roi_pool``."""

    pooled_height: int = 1
    pooled_width: int = 1
    spatial_scale: float = 1.0

    def windows(self, boxes: Array, image: Shape) -> Iterator[list[list[slice]]]:
        """For each box where its windows are along the height and along the width of the image; halves round away from zero."""
        corners = boxes * boxes.dtype.type(self.spatial_scale)
        # numpy's round takes halves to even; C's, which Paddle uses, away from zero.
        for x1, y1, x2, y2 in (np.sign(corners) * np.floor(np.abs(corners) + 0.5)).astype(int).tolist():
            # The last row and column belong to the box (+ 1), and it has one of each at least.
            sides = ((y1, y2, self.pooled_height, image[0]), (x1, x2, self.pooled_width, image[1]))
            yield [_parts(low, max(high - low + 1, 1), count, extent, boxes.dtype) for low, high, count, extent in sides]


def _parts(low: int, size: int, count: int, extent: int, dtype: np.dtype[np.generic]) -> list[slice]:
    """A side in so many parts, which may overlap, kept within the image."""
    # In the dtype of the boxes, as Paddle: which elements a part has depends on how its ends are rounded.
    part = np.asarray(size, dtype) / np.asarray(count, dtype)
    ends = np.arange(count + 1).astype(dtype) * part
    starts, stops = np.floor(ends[:-1]).astype(int) + low, np.ceil(ends[1:]).astype(int) + low
    return [slice(a, b) for a, b in zip(np.clip(starts, 0, extent).tolist(), np.clip(stops, 0, extent).tolist(), strict=True)]


def _roi_pooled_type(X: TensorType, ROIs: TensorType, RoisNum: TensorType | None = None, **attrs: Any) -> tuple[TensorType, TensorType]:
    pooling = RoiPooling(**attrs)
    out = pooled_type(X, ROIs, RoisNum, pooling.pooled_height, pooling.pooled_width)
    return out, TensorType(out.shape, "int64")


@operator(
    "X ROIs RoisNum? -> Out Argmax",
    infer=_roi_pooled_type,
    grad={"X": lambda X, Argmax, RoisNum, dOut: roi_pool_scatter_max(dOut, Argmax, X, RoisNum)},
    shapes="X",
    costly=True,
)
@attributes(RoiPooling)
def roi_pool(X: Array, ROIs: Array, RoisNum: Array | None = None, **attrs: Any) -> tuple[Array, Array]:
    """The largest element of each of ``pooled_height`` by ``pooled_width`` windows of each box (Girshick 2015), and where it is.

    ``spatial_scale`` takes the boxes to elements of X, where they are rounded; their last row and column are in them. Argmax is the number
    of the element in its channel, the first of the largest. A window without elements is 0, and its Argmax -1.
    """
    pooling, (n, channels, height, width) = RoiPooling(**attrs), X.shape
    out = np.zeros((len(ROIs), channels, pooling.pooled_height, pooling.pooled_width), X.dtype)
    index = np.full(out.shape, -1, "int64")
    images = images_of(ROIs, RoisNum, n)
    for i, (down, across) in enumerate(pooling.windows(ROIs, (height, width))):
        for p, rows in enumerate(down):
            for q, columns in enumerate(across):
                part = X[images[i], :, rows, columns]
                if part.size:
                    flat = part.reshape(channels, -1)
                    best = flat.argmax(axis=1)
                    out[i, :, p, q] = flat[np.arange(channels), best]
                    # From the number in the window to that in the image's channel.
                    index[i, :, p, q] = (rows.start + best // part.shape[2]) * width + columns.start + best % part.shape[2]
    return out, index


def _check_argmax(name: str, pooled: TensorType, Argmax: TensorType, X: TensorType, RoisNum: TensorType | None) -> None:
    check_index("Argmax", Argmax)
    check_boxes(X, TensorType((Argmax.shape[0] if Argmax.shape else -1, 4), X.dtype), RoisNum)
    is_fitting = len(pooled.shape) == len(Argmax.shape) == 4 and all(map(matched, pooled.shape, Argmax.shape))
    if not is_fitting or not matched(Argmax.shape[1], X.shape[1]):
        raise ShapeError(f"{name} is {pooled} and Argmax is {Argmax}: windows [R, C, height, width] of images {X} are expected")


def _roi_gathered_type(X: TensorType, Argmax: TensorType, RoisNum: TensorType | None = None) -> TensorType:
    _check_argmax("Argmax", Argmax, Argmax, X, RoisNum)
    return TensorType(Argmax.shape, same_float(X).dtype)


def _roi_scattered_type(X: TensorType, Argmax: TensorType, Like: TensorType, RoisNum: TensorType | None = None) -> TensorType:
    _check_argmax("X", X, Argmax, Like, RoisNum)
    return TensorType(Like.shape, same_dtypes(X=same_float(X), Like=Like))


def _elements(Argmax: Array, images: Array, image: Shape) -> tuple[Array, Array]:
    """The positions of the elements in all images together, and a mask of those that exist."""
    channels, size = image[0], image[1] * image[2]
    if Argmax.size and not (-1 <= Argmax.min() and Argmax.max() < size):
        raise InvalidValue(f"Argmax has numbers from {Argmax.min()} to {Argmax.max()}; an image has {size} elements, -1 is none of them")
    base = (images[:, None] * channels + np.arange(channels)) * size
    # Where there is none, element 0 is read and then left out by the mask.
    return base[..., None, None] + np.maximum(Argmax, 0), Argmax >= 0


@operator(
    "X Argmax RoisNum? -> Out",
    infer=_roi_gathered_type,
    grad={"X": lambda X, Argmax, RoisNum, dOut: roi_pool_scatter_max(dOut, Argmax, X, RoisNum)},
    shapes="X",
    linear="X",
    flops=0,
)
def roi_pool_gather_max(X: Array, Argmax: Array, RoisNum: Array | None = None) -> Array:
    """The elements of X that ``roi_pool`` found to be the largest of other images; 0 where Argmax is -1."""
    places, has = _elements(Argmax, images_of(Argmax, RoisNum, len(X)), X.shape[1:])
    return np.where(has, X.reshape(-1)[places], X.dtype.type(0)) if X.size else np.zeros(Argmax.shape, X.dtype)


@operator(
    "X Argmax Like RoisNum? -> Out",
    infer=_roi_scattered_type,
    grad={"X": lambda Argmax, RoisNum, dOut: roi_pool_gather_max(dOut, Argmax, RoisNum)},
    linear="X",
)
def roi_pool_scatter_max(X: Array, Argmax: Array, Like: Array, RoisNum: Array | None = None) -> Array:
    """The transpose of ``roi_pool_gather_max``: windows put back where their largest elements were. Only Like's shape is read."""
    places, has = _elements(Argmax, images_of(Argmax, RoisNum, len(Like)), Like.shape[1:])
    total = np.zeros(math.prod(Like.shape), X.dtype)
    np.add.at(total, places[has], X[has])
    return total.reshape(Like.shape)


# -- deformable convolutions -----------------------------------------------------------------------
# A convolution whose every window is moved element by element (Dai et al. 2017), and weighted (Zhu et al. 2018). What is computed is
# written in terms of operators, and so are its gradients.


@dataclass(eq=False, repr=False)
class Deforming:
    """The attributes of a deformable convolution: of the channels, each of ``deformable_groups`` is moved by offsets of its own."""

    strides: list[int] = field(default_factory=lambda: [1, 1])
    paddings: list[int] = field(default_factory=lambda: [0, 0])
    dilations: list[int] = field(default_factory=lambda: [1, 1])
    groups: int = 1
    deformable_groups: int = 1
    # How many images Paddle lays out as columns at a time. Nothing depends on it here.
    im2col_step: int = 64

    def plain(self) -> dict[str, Any]:
        """The attributes of the convolution whose windows are moved."""
        return {"strides": self.strides, "paddings": self.paddings, "dilations": self.dilations, "groups": self.groups}

    def axes(self, image: Shape, kernel: Shape) -> Axes:
        return Convolution(**self.plain()).axes(image, kernel)


PLAIN_TYPE = forward_type(Convolution, 4)
FEATURES = Weights("Filter", lambda attrs, rank, out: (0, 1))


def _deformed_type(Input: TensorType, Offset: TensorType, Mask: TensorType | None, Filter: TensorType, **attrs: Any) -> TensorType:
    deforming, parts = Deforming(**attrs), Deforming(**attrs).deformable_groups
    dtype = same_dtypes(Input=same_float(Input), Offset=Offset, Mask=Mask, Filter=Filter)
    plain_type = PLAIN_TYPE(Input, Filter, **deforming.plain())
    if -1 in Input.shape[1:] or -1 in Filter.shape:
        raise ShapeError(f"Input is {Input} and Filter is {Filter}: only the number of images may be unknown")
    if parts < 1 or Input.shape[1] % parts:
        raise ShapeError(f"Input is {Input}: its channels do not divide into deformable_groups={parts}")
    # Offsets lie as [images, parts x elements x (y, x), H, W], as in Paddle: a pair for each element of each window.
    elements = parts * math.prod(Filter.shape[2:])
    expected = (Input.shape[0], 2 * elements, *plain_type.shape[2:])
    if len(Offset.shape) != 4 or not all(map(matched, Offset.shape, expected)):
        raise ShapeError(f"Offset is {Offset}; (y, x) for each element of each window, {list(expected)}, are expected")
    expected = (Input.shape[0], elements, *plain_type.shape[2:])
    if Mask is not None and (len(Mask.shape) != 4 or not all(map(matched, Mask.shape, expected))):
        raise ShapeError(f"Mask is {Mask}; a weight for each element of each window, {list(expected)}, is expected")
    return TensorType(plain_type.shape, dtype)


def _places_type(Like: TensorType, **_: Any) -> TensorType:
    if len(Like.shape) != 4:
        raise ShapeError(f"Like is {Like}: offsets, [N, parts * elements * 2, H, W], are expected")
    return same_float(Like)


@operator("Like -> Out", infer=_places_type, grad={}, of_shape=True, flops=0)
def window_places(
    Like: Array, *, image: list[int], kernel: list[int], strides: list[int], paddings: list[int], dilations: list[int]
) -> Array:
    """The places (y, x) of the elements of the windows of a convolution in its images, in the shape of the offsets Like."""
    down, across = Convolution(strides=strides, paddings=paddings, dilations=dilations).axes((1, 1, *image), (1, 1, *kernel))
    y, x = (
        np.arange(axis.kernel)[:, None] * axis.dilation + np.arange(axis.count) * axis.stride - axis.before for axis in (down, across)
    )  # [elements, windows] along each axis
    shape = (*kernel, down.count, across.count)
    pairs = [np.broadcast_to(y[:, None, :, None], shape), np.broadcast_to(x[None, :, None, :], shape)]
    image_places = np.stack(pairs, axis=2).reshape(1, 1, -1, down.count, across.count).astype(Like.dtype)
    parts = (len(Like), Like.shape[1] // image_places.shape[2], *image_places.shape[2:])
    return np.broadcast_to(image_places, parts).reshape(Like.shape)


class Deformed(NamedTuple):
    """The operands of a deformable convolution: arrays, or symbols; Mask is None where all weights are 1."""

    Input: Tensor
    Offset: Tensor
    Mask: Tensor
    Filter: Tensor
    how: Deforming

    @property
    def extents(self) -> list[int]:
        """How many windows there are down and across."""
        return [axis.count for axis in self.how.axes(self.Input.shape, self.Filter.shape)]

    @property
    def windows(self) -> int:
        return math.prod(self.extents)

    @property
    def elements(self) -> int:
        """The elements of a window of one channel."""
        return math.prod(self.Filter.shape[2:])

    @property
    def depth(self) -> int:
        """How many weights a feature has."""
        return math.prod(self.Filter.shape[1:])


def _around(conv: Deformed) -> list[Neighbor]:
    """The neighbors of every place ``[N * parts, 1, elements * windows]``; a part of the channels is moved alike."""
    image, kernel, options = conv.Input.shape[2:], conv.Filter.shape[2:], conv.how
    places = window_places(
        conv.Offset, image=list(image), kernel=list(kernel), strides=options.strides, paddings=options.paddings, dilations=options.dilations
    )
    # [N * parts, elements, 2, windows]: the offsets alternate between y and x.
    pairs = reshape(conv.Offset + places, shape=[-1, conv.elements, 2, conv.windows])
    along = (slice_(pairs, axes=[2], starts=[i], ends=[i + 1]) for i in range(2))
    # A point moves as its offset does: the slope is 1.
    points = [(reshape(coordinate, shape=[-1, 1, conv.elements * conv.windows]), 1.0) for coordinate in along]
    return list(neighbors(points, image, "bilinear", "zeros", True))


def _by_parts(conv: Deformed) -> Tensor:
    """The images ``[N * parts, channels, H, W]``."""
    return reshape(conv.Input, shape=[-1, conv.Input.shape[1] // conv.how.deformable_groups, *conv.Input.shape[2:]])


def _features(conv: Deformed) -> Tensor:
    """The filter ``[groups, features, depth]``."""
    return reshape(conv.Filter, shape=[conv.how.groups, conv.Filter.shape[0] // conv.how.groups, conv.depth])


def _sampled(conv: Deformed) -> Tensor:
    """The columns ``[N * parts, channels, elements * windows]`` before the mask."""
    image, total = _by_parts(conv), None
    for neighbor in _around(conv):
        part = picked(image, neighbor.index) * neighbor.weight
        total = part if total is None else total + part
    return total


def _masked(conv: Deformed, columns: Tensor) -> Tensor:
    return columns if conv.Mask is None else columns * reshape(conv.Mask, shape=[-1, 1, conv.elements * conv.windows])


def _columns(conv: Deformed) -> Tensor:
    """The columns by groups: ``[N, groups, depth, windows]``."""
    return reshape(_masked(conv, _sampled(conv)), shape=[-1, conv.how.groups, conv.depth, conv.windows])


def _output(conv: Deformed) -> Tensor:
    product = matmul_v2(_features(conv), _columns(conv))
    return reshape(product, shape=[-1, conv.Filter.shape[0], *conv.extents])


def _by_groups(conv: Deformed, dOutput: Tensor) -> Tensor:
    """The cotangent of the output ``[N, groups, features, windows]``."""
    return reshape(dOutput, shape=[-1, conv.how.groups, conv.Filter.shape[0] // conv.how.groups, conv.windows])


def _column_cotangents(conv: Deformed, dOutput: Tensor) -> Tensor:
    """The cotangent of the columns by parts: ``[N * parts, channels, elements * windows]``."""
    product = matmul_v2(_features(conv), _by_groups(conv, dOutput), trans_x=True)
    return reshape(product, shape=[-1, conv.Input.shape[1] // conv.how.deformable_groups, conv.elements * conv.windows])


def _input_grad(conv: Deformed, dOutput: Tensor) -> Tensor:
    columns = _masked(conv, _column_cotangents(conv, dOutput))
    return reshape_like(put_back(_by_parts(conv), columns, _around(conv)), conv.Input)


def _offset_grad(conv: Deformed, dOutput: Tensor) -> Tensor:
    columns = _masked(conv, _column_cotangents(conv, dOutput))
    along = moved(_by_parts(conv), columns, _around(conv))
    # y and x alternate again.
    pairs = concat([reshape(cotangent, shape=[-1, conv.elements, 1, conv.windows]) for cotangent in along], axis=2)
    return reshape_like(pairs, conv.Offset)


def _mask_grad(conv: Deformed, dOutput: Tensor) -> Tensor:
    return reshape_like(reduce_sum(_sampled(conv) * _column_cotangents(conv, dOutput), dim=[1]), conv.Mask)


def _filter_grad(conv: Deformed, dOutput: Tensor) -> Tensor:
    product = matmul_v2(_by_groups(conv, dOutput), _columns(conv), trans_y=True)
    return reshape_like(reduce_sum(product, dim=[0]), conv.Filter)


GRADIENTS = {"Input": _input_grad, "Offset": _offset_grad, "Mask": _mask_grad, "Filter": _filter_grad}


def _rule(slot: str) -> Callable[..., Tensor]:
    @attributes(Deforming)
    def rule(Input: Tensor, Offset: Tensor, Mask: Tensor, Filter: Tensor, dOutput: Tensor, **attrs: Any) -> Tensor:
        return GRADIENTS[slot](Deformed(Input, Offset, Mask, Filter, Deforming(**attrs)), dOutput)

    return rule


def _first_rule(slot: str) -> Callable[..., Tensor]:
    @attributes(Deforming)
    def rule(Input: Tensor, Offset: Tensor, Filter: Tensor, dOutput: Tensor, **attrs: Any) -> Tensor:
        return GRADIENTS[slot](Deformed(Input, Offset, None, Filter, Deforming(**attrs)), dOutput)

    return rule


@operator(
    "Input Offset Mask Filter -> Output",
    infer=_deformed_type,
    grad={slot: _rule(slot) for slot in GRADIENTS},
    shapes="Input:Input Mask:Mask Filter:Filter",
    rows="Input Offset Mask",
    partly_linear="Input Mask Filter",
    own=True,
    flops=met_weights("Output"),
    weights=FEATURES,
)
@attributes(Deforming)
def deformable_conv(Input: Array, Offset: Array, Mask: Array, Filter: Array, **attrs: Any) -> Array:
    """A convolution whose windows are moved, element by element, and weighted: the second version (Zhu et al. 2018).

    ``Offset`` ``[N, parts * elements * 2, H', W']`` has how far down and how far right each element of each window is moved, ``Mask``
    ``[N, parts * elements, H', W']`` what it is multiplied by. Values are interpolated between four elements, zeros outside of the image.
    """
    return np.asarray(_output(Deformed(Input, Offset, Mask, Filter, Deforming(**attrs))))


def _first_deformed_type(Input: TensorType, Offset: TensorType, Filter: TensorType, **attrs: Any) -> TensorType:
    return _deformed_type(Input, Offset, None, Filter, **attrs)


@operator(
    "Input Offset Filter -> Output",
    infer=_first_deformed_type,
    grad={slot: _first_rule(slot) for slot in GRADIENTS if slot != "Mask"},
    shapes="Input:Input Filter:Filter",
    rows="Input Offset",
    partly_linear="Input Filter",
    own=True,
    flops=met_weights("Output"),
    weights=FEATURES,
)
@attributes(Deforming)
def deformable_conv_v1(Input: Array, Offset: Array, Filter: Array, **attrs: Any) -> Array:
    """The first version (Dai et al. 2017): as ``deformable_conv``, without a mask."""
    return np.asarray(_output(Deformed(Input, Offset, None, Filter, Deforming(**attrs))))
