"""Operators that move elements between channels, space and columns of windows, and affine maps of channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.basic import sum_like
from graphad.ops.conv import channel_axis
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.elementwise import elementwise_mul
from graphad.ops.inference import matched
from graphad.ops.moments import affine, check_vectors
from graphad.ops.windows import Axes, axes, channels_first, check_images, from_front, laid_out, numbers, padded, to_front, windows
from graphad.types import Shape, TensorType, element_count

NO_INTS: list[int] = []

# -- between channels and space ------------------------------------------------------------------


def _divided(X: TensorType, extent: int, divisor: int, what: str) -> int:
    if divisor < 1 or (extent != -1 and extent % divisor):
        raise ShapeError(f"X is {X}: its {what} {extent} does not divide by {divisor}")
    return -1 if extent == -1 else extent // divisor


def _times(extent: int, factor: int) -> int:
    return -1 if extent == -1 else extent * factor


def _shuffled(X: TensorType, *, upscale_factor: int = 1, data_format: str = "NCHW") -> TensorType:
    check_images(data_format, X=X)
    n, c, h, w = channels_first(X.shape, data_format)
    channels = _divided(X, c, upscale_factor**2, "number of channels")
    return TensorType(laid_out((n, channels, _times(h, upscale_factor), _times(w, upscale_factor)), data_format), X.dtype)


def _shuffle_grad(dOut: Tensor, *, upscale_factor: int, data_format: str) -> Tensor:
    return pixel_unshuffle(dOut, downscale_factor=upscale_factor, data_format=data_format)


@operator("X -> Out", infer=_shuffled, grad={"X": _shuffle_grad}, linear="X", rows="X", narrow="follows")
def pixel_shuffle(X: Array, *, upscale_factor: int = 1, data_format: str = "NCHW") -> Array:
    """``[N, C r^2, H, W]`` as ``[N, C, H r, W r]``: each group of r^2 channels becomes a square of r by r elements (Shi et al. 2016)."""
    x, r = to_front(X, data_format), upscale_factor
    n, c, h, w = x.shape
    squares = x.reshape(n, c // r**2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return from_front(squares.reshape(n, c // r**2, h * r, w * r), data_format)


def _unshuffled(X: TensorType, *, downscale_factor: int = 1, data_format: str = "NCHW") -> TensorType:
    check_images(data_format, X=X)
    n, c, h, w = channels_first(X.shape, data_format)
    h, w = (_divided(X, e, downscale_factor, "extent") for e in (h, w))
    return TensorType(laid_out((n, _times(c, downscale_factor**2), h, w), data_format), X.dtype)


def _unshuffle_grad(dOut: Tensor, *, downscale_factor: int, data_format: str) -> Tensor:
    return pixel_shuffle(dOut, upscale_factor=downscale_factor, data_format=data_format)


@operator("X -> Out", infer=_unshuffled, grad={"X": _unshuffle_grad}, linear="X")
def pixel_unshuffle(X: Array, *, downscale_factor: int = 1, data_format: str = "NCHW") -> Array:
    """``[N, C, H r, W r]`` as ``[N, C r^2, H, W]``: what ``pixel_shuffle`` undoes."""
    x, r = to_front(X, data_format), downscale_factor
    n, c, h, w = x.shape
    channels = x.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return from_front(channels.reshape(n, c * r**2, h // r, w // r), data_format)


def _channels_shuffled(X: TensorType, *, group: int = 1) -> TensorType:
    check_images("NCHW", X=X)
    if X.shape[1] == -1:
        raise ShapeError(f"X is {X}: the number of channels must be known")
    _divided(X, X.shape[1], group, "number of channels")
    return X


def _channel_grad(dOut: Tensor, *, group: int) -> Tensor:
    return shuffle_channel(dOut, group=max(dOut.shape[1] // group, 1))


@operator("X -> Out", infer=_channels_shuffled, grad={"X": _channel_grad}, linear="X", rows="X")
def shuffle_channel(X: Array, *, group: int = 1) -> Array:
    """The channels in ``group`` groups, taken from each group in turn (Zhang et al. 2017)."""
    n, c, h, w = X.shape
    return X.reshape(n, group, c // group, h, w).swapaxes(1, 2).reshape(X.shape)


# -- affine maps ---------------------------------------------------------------------------------


def _channels_mapped(X: TensorType, Scale: TensorType, Bias: TensorType, *, data_layout: str = "AnyLayout") -> TensorType:
    if len(X.shape) < 2:
        raise ShapeError(f"X is {X}; axes of samples and channels are expected")
    check_vectors(X, X.shape[channel_axis(data_layout)], Scale=Scale, Bias=Bias)
    return X


def _place(X: Tensor, data_layout: str) -> int:
    return channel_axis(data_layout) % len(X.shape)


@operator(
    "X Scale Bias -> Out",
    infer=_channels_mapped,
    grad={
        "X": lambda X, Scale, dOut, *, data_layout: elementwise_mul(dOut, Scale, axis=_place(X, data_layout)),
        "Scale": lambda X, Scale, dOut, *, data_layout: sum_like(dOut * X, Scale, axis=_place(X, data_layout)),
        "Bias": lambda X, Bias, dOut, *, data_layout: sum_like(dOut, Bias, axis=_place(X, data_layout)),
    },
    shapes="Bias X:X X:Bias Scale:Scale",
    rows="X",
)
def affine_channel(X: Array, Scale: Array, Bias: Array, *, data_layout: str = "AnyLayout") -> Array:
    """Every channel times its Scale, plus its Bias."""
    return np.asarray(affine(X, Scale, Bias, _place(X, data_layout)))


# -- columns of windows --------------------------------------------------------------------------


def _windows(image: Shape, kernel_sizes: Sequence[int], strides: Sequence[int], paddings: Sequence[int], dilations: Sequence[int]) -> Axes:
    """The windows; the paddings are one, two (height, width) or four (top, left, bottom, right) ints."""
    kernel = numbers("kernel_sizes", kernel_sizes, 2)
    around = [paddings[i] for i in (0, 2, 1, 3)] if len(paddings) == 4 else paddings
    return axes(image[2:], kernel, strides=strides, paddings=around, dilations=dilations)


def _unfolded(X: TensorType, *, kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]) -> TensorType:
    check_images("NCHW", X=X)
    found = _windows(X.shape, kernel_sizes, strides, paddings, dilations)
    size, count = element_count(a.kernel for a in found), element_count(a.count for a in found)
    return TensorType((X.shape[0], _times(X.shape[1], size), count), X.dtype)


def _unfold_grad(
    X: Tensor, dY: Tensor, *, kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]
) -> Tensor:
    return fold_like(dY, X, kernel_sizes=kernel_sizes, strides=strides, paddings=paddings, dilations=dilations)


@operator("X -> Y", infer=_unfolded, grad={"X": _unfold_grad}, shapes="X", linear="X", rows="X")
def unfold(X: Array, *, kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]) -> Array:
    """Every window of ``[N, C, H, W]`` as a column: ``[N, C kh kw, windows]``."""
    found = _windows(X.shape, kernel_sizes, strides, paddings, dilations)
    n, c = X.shape[:2]
    count = found[0].count * found[1].count
    return np.asarray(windows(padded(X, found), found)).reshape(n, c * found[0].kernel * found[1].kernel, count)


def _added_up(X: Array, image: Shape, found: Axes) -> Array:
    columns = X.reshape(*image[:2], *(a.kernel for a in found), *(a.count for a in found))
    out = np.zeros((*image[:2], *(a.padded for a in found)), X.dtype)
    for i, j in np.ndindex(found[0].kernel, found[1].kernel):
        out[:, :, found[0].at(i), found[1].at(j)] += columns[:, :, i, j]
    return out[:, :, found[0].inside, found[1].inside]


def _folded_like(
    X: TensorType, Like: TensorType, *, kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]
) -> TensorType:
    columns = _unfolded(Like, kernel_sizes=kernel_sizes, strides=strides, paddings=paddings, dilations=dilations)
    if len(X.shape) != 3 or not all(map(matched, X.shape, columns.shape)):
        raise ShapeError(f"X is {X}; the columns of Like, {columns}, are expected")
    return TensorType(Like.shape, X.dtype)


def _fold_like_grad(dOut: Tensor, *, kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]) -> Tensor:
    return unfold(dOut, kernel_sizes=kernel_sizes, strides=strides, paddings=paddings, dilations=dilations)


@operator("X Like -> Out", infer=_folded_like, grad={"X": _fold_like_grad}, linear="X")
def fold_like(X: Array, Like: Array, *, kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]) -> Array:
    """Columns added up where they overlap, in the shape of Like: the transpose of ``unfold``. Only Like's shape is read."""
    return _added_up(X, Like.shape, _windows(Like.shape, kernel_sizes, strides, paddings, dilations))


def _folded(
    X: TensorType,
    *,
    output_sizes: list[int],
    kernel_sizes: list[int],
    strides: list[int],
    paddings: list[int],
    dilations: list[int],
) -> TensorType:
    if len(X.shape) != 3:
        raise ShapeError(f"X is {X}; columns [N, C kh kw, windows] are expected")
    height, width = numbers("output_sizes", output_sizes, 2)
    found = _windows((0, 0, height, width), kernel_sizes, strides, paddings, dilations)
    if not matched(X.shape[2], element_count(a.count for a in found)):
        raise ShapeError(f"X is {X}, but output_sizes={output_sizes} has {[a.count for a in found]} windows")
    channels = _divided(X, X.shape[1], element_count(a.kernel for a in found), "number of rows")
    return TensorType((X.shape[0], channels, height, width), X.dtype)


def _fold_grad(dY: Tensor, *, kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]) -> Tensor:
    return unfold(dY, kernel_sizes=kernel_sizes, strides=strides, paddings=paddings, dilations=dilations)


@operator("X -> Y", infer=_folded, grad={"X": _fold_grad}, linear="X")
def fold(
    X: Array, *, output_sizes: list[int], kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]
) -> Array:
    """Columns ``[N, C kh kw, windows]`` added up where they overlap: ``[N, C, *output_sizes]``."""
    size = numbers("output_sizes", output_sizes, 2)
    found = _windows((0, 0, *size), kernel_sizes, strides, paddings, dilations)
    return _added_up(X, (len(X), X.shape[1] // (found[0].kernel * found[1].kernel), *size), found)
