"""Convolutions and transposed convolutions, their windows as columns, and the three products that they are made of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from graphad.errors import ShapeError
from graphad.ops.attributes import Frozen, applied, attributes, frozen, thawed
from graphad.ops.definition import NO_INTS, OpDef, operator
from graphad.ops.depthwise import CACHED_BYTES, Product, depthwise, depthwise_cotangent, depthwise_product, depthwise_spread, is_depthwise
from graphad.ops.dimensions import convolved
from graphad.ops.formulas import as_array
from graphad.ops.image_rows import (
    correlated_by_rows,
    filter_by_rows,
    kept_by_rows,
    pays_correlated,
    pays_filter,
    pays_spread,
    spread_by_rows,
)
from graphad.ops.inference import matched, same_dtypes
from graphad.ops.like import sum_like
from graphad.ops.loops import COMPILED
from graphad.ops.products import in_float32, times
from graphad.ops.scratch import scratch
from graphad.ops.traits import PRODUCT, Declared, DimensionsRule, Flops, Shapes, Weights
from graphad.ops.windows import (
    CHANNELS_LAST,
    Axes,
    Axis,
    Lines,
    axes,
    channels_first,
    check_fit,
    check_images,
    divided_extent,
    element,
    extents_of,
    from_front,
    inside,
    kernel_of,
    laid_out,
    last,
    lines_of,
    numbers,
    padded,
    spaced,
    times_extent,
    to_front,
    windows,
)
from graphad.types import Array, Shape, Tensor, TensorType, element_count

# -- three products --------------------------------------------------------------------------------
# The three products of a convolution on arrays ``[N, C, ...]``, over any number of spatial axes.
#
#     correlated(image, filter) -> output      spread(filter, output) -> image      filter_cotangent(image, output) -> filter
#
# Windows are laid out as columns, a few samples at a time so that they stay in the cache, and multiplied as matrices.
# A filter of one channel (depthwise) takes a few channels at a time, one of one element needs no columns; where less is copied so, products
# are of rows of the output (``image_rows``).

COLUMN_BYTES = 1 << 19  # with what is made of them they stay in a cache of the second level
WASTE_OF_COLUMNS = 1.3  # windows over the edges for each that is wanted, where each is met by many features


def _batches(columns: int, samples: int, itemsize: int, folded: bool) -> Iterator[slice]:
    """Samples in turns whose columns take half a megabyte, or one in one matrix; one sample has so many elements of columns."""
    step = max(1, min(samples, COLUMN_BYTES * (2 if folded else 1) // max(columns * itemsize, 1)))
    return (slice(start, min(start + step, samples)) for start in range(0, samples, step))


def _matrix(filter_: Array, groups: int) -> Array:
    """The filter as ``[groups, features / groups, C / groups * kernel]``."""
    features, *window = filter_.shape
    return filter_.reshape(groups, features // groups, prod(window))


def _is_pointwise(window_axes: Axes) -> bool:
    return all(a.kernel == 1 and a.padded == a.size for a in window_axes)


def _columns(wide: Array, window_axes: Axes, lines: Lines | None, folded: bool) -> Array:
    """Every window of padded samples as a column: ``[samples, C, kernel, windows]``, or with the samples last but one."""
    if lines is None:
        view = (
            _by_rows(wide, window_axes) if len(window_axes) == 2 and all(a.stride == 1 for a in window_axes) else windows(wide, window_axes)
        )
    else:
        view = lines.windows(wide, window_axes)
    view = np.moveaxis(view, 0, len(window_axes) + 1) if folded else view
    columns = scratch("columns", view.shape, view.dtype)
    np.copyto(columns, view)
    return columns


def _by_rows(wide: Array, window_axes: Axes) -> Array:
    """The windows of padded images, out of a copy in which the rows of every column of the window follow each other: long runs to copy."""
    (n, c, height, _), (down, across) = wide.shape, window_axes
    steps = wide.strides
    shifts = as_strided(
        wide, (n, c, across.kernel, height, across.count), (*steps[:2], across.dilation * steps[3], *steps[2:]), writeable=False
    )
    rows = scratch("rows", shifts.shape, wide.dtype)
    np.copyto(rows, shifts)
    a, b, column, row, element_ = rows.strides
    shape = (n, c, down.kernel, across.kernel, down.count, across.count)
    return as_strided(rows, shape, (a, b, down.dilation * row, column, row, element_), writeable=False)


def _fold(y: Array, groups: int) -> Array:
    """``[samples, features, windows]`` as ``[groups, features / groups, samples * windows]``."""
    n, features, count = y.shape
    # One sample only loses its axis; several have to be copied.
    rows = y.reshape(n, groups, features // groups, count)
    return rows[0] if n == 1 else rows.transpose(1, 2, 0, 3).reshape(groups, features // groups, n * count)


def _check_filter(shape: Shape, window_axes: Axes) -> None:
    check_fit("the filter", shape, (*shape[:2], *kernel_of(window_axes)))


# -- image and filter to output ------------------------------------------------------------------


def correlated(x: Array, filter_: Array, window_axes: Axes, groups: int) -> Array:
    """The products of the filter with every window of x: ``[N, features, *counts]``."""
    _check_filter(filter_.shape, window_axes)
    check_fit("X", x.shape, (x.shape[0], groups * filter_.shape[1], *(a.size for a in window_axes)))
    # From special to general: a 1x1 filter is a product of matrices, one channel to each group is no product at all; the rest are columns
    # of windows times the filter (im2col; K. Chellapilla, S. Puri and P. Simard, "High performance convolutional neural networks for
    # document processing", 2006).
    extents, rows = extents_of(window_axes), _matrix(filter_, groups)
    if _is_pointwise(window_axes):
        return _pointwise(x, filter_, window_axes, groups)
    if is_depthwise(filter_.shape, groups):
        return depthwise(x, filter_, window_axes, groups)
    if groups == 1 and pays_correlated(len(x), filter_.shape, window_axes, x.dtype):
        return correlated_by_rows(x, filter_, window_axes)
    wide, out = padded(x, window_axes), np.empty((len(x), len(filter_), *extents), x.dtype)
    # Few windows and many features: the samples of a batch go into one product, beside each other.
    is_folded = rows.shape[1] > prod(extents)
    lines = None if is_folded else lines_of(window_axes, WASTE_OF_COLUMNS)
    wide = np.ascontiguousarray(wide) if lines else wide
    for batch in _batches(groups * rows.shape[2] * prod(extents), len(x), x.itemsize, is_folded):
        columns = _columns(wide[batch], window_axes, lines, is_folded)
        _multiply(rows, columns, lines, is_folded, out[batch])
    return out


def _pointwise(x: Array, filter_: Array, window_axes: Axes, groups: int) -> Array:
    """A product of matrices for each sample; it can be traced, too."""
    n, extents, (features, depth) = x.shape[0], extents_of(window_axes), filter_.shape[:2]
    points = x if extents == x.shape[2:] else x[element(window_axes, (0,) * len(window_axes))]
    if n == groups == 1:
        out = times(filter_.reshape(features, depth), points.reshape(depth, prod(extents)))
    else:
        out = as_array(np.matmul(filter_.reshape(groups, features // groups, depth), points.reshape(n, groups, depth, prod(extents))))
    return out.reshape(n, features, *extents)


def _multiply(rows: Array, columns: Array, lines: Lines | None, folded: bool, out: Array) -> None:
    """The rows of the filter with the columns of some samples, into their outputs."""
    groups, features, depth = rows.shape
    n, *extents = len(out), *out.shape[2:]
    count = prod(extents)
    place = out.reshape(n, groups, features, count)
    if folded:
        # One matrix for all samples. What BLAS writes has the samples last, and goes back in front of the features.
        product = scratch("product", (groups, features, n * count), out.dtype)
        np.matmul(rows, columns.reshape(groups, depth, n * count), out=product)
        place[...] = product.reshape(groups, features, n, count).transpose(2, 0, 1, 3)
    elif lines is None:
        np.matmul(rows, columns.reshape(n, groups, depth, count), out=place)
    else:
        product = scratch("product", (n, groups, features, lines.length), out.dtype)
        np.matmul(rows, columns.reshape(n, groups, depth, lines.length), out=product)
        out[...] = lines.view(product.reshape(*out.shape[:2], lines.length), tuple(extents))


# -- small images --------------------------------------------------------------------------------
# Of a small image the views and memory take longer to make than the products: a thread keeps them for the next call of the same shapes.

KEPT_IMAGE = 1 << 18  # bytes of an image with its padding
KEPT_IMAGES = 1 << 25  # bytes of all images that a thread keeps
KEPT_SHAPES = 1024
LEAST_COLUMNS = 1 << 16  # bytes of the windows of a batch from which on they are copied by rows


class _Images(threading.local):
    """The convolutions that a thread keeps, by what they are made for, and the bytes of their images."""

    def __init__(self) -> None:
        self.products: dict[tuple[object, ...], Product] = {}
        self.size = 0


_IMAGES_KEPT = _Images()
_NUMPY = np.ndarray  # the class itself, also where this module is rebound to other arrays


def _product(spec: type[Convolution], image: Array, filter_: Array, attrs: Mapping[str, Any]) -> Product:
    """``correlated`` of an image, channels in front, and a filter of these shapes."""
    if type(image) is not _NUMPY or type(filter_) is not _NUMPY:  # nothing of other arrays, those of XLA, is kept
        convolution = spec(**attrs)
        return lambda x, f: correlated(x, f, convolution.axes(image.shape, filter_.shape), convolution.groups)
    attr_values = (tuple(value) if isinstance(value, list) else value for value in attrs.values())
    key = (COMPILED.get(), spec, image.shape, filter_.shape, image.dtype.char, filter_.dtype.char, *attrs, *attr_values)
    stored_product = _IMAGES_KEPT.products.get(key)
    if stored_product is not None:
        return stored_product
    conv = spec(**attrs)
    window_axes, groups = conv.axes(image.shape, filter_.shape), conv.groups
    wide = (*image.shape[:2], *(a.padded for a in window_axes))
    size, columns = prod(wide) * image.itemsize, prod((image.shape[1], *kernel_of(window_axes), *extents_of(window_axes))) * image.itemsize
    product: Product = lambda x, f: correlated(x, f, window_axes, groups)  # noqa: E731
    apart = is_depthwise(filter_.shape, groups) and image.dtype == filter_.dtype
    work = depthwise_product(image.shape, filter_.shape, window_axes, image.dtype) if apart else None
    most = CACHED_BYTES if apart else COLUMN_BYTES
    # Of the smallest, a few more views take longer than what is not copied.
    is_enough = groups == 1 and columns * len(image) >= LEAST_COLUMNS
    by_rows = is_enough and pays_correlated(len(image), filter_.shape, window_axes, image.dtype)
    if work is not None:
        _check_filter(filter_.shape, window_axes)
        size, product = 0, work.product if work.lasting else product
    elif size <= KEPT_IMAGE and (by_rows or columns * len(image) <= most) and image.dtype == filter_.dtype and prod(wide):
        _check_filter(filter_.shape, window_axes)
        check_fit("X", image.shape, (len(image), groups * filter_.shape[1], *(a.size for a in window_axes)))
        memory = np.zeros(wide, image.dtype)
        if by_rows:
            product = kept_by_rows(image.shape, filter_.shape, memory, window_axes)
        else:
            product = _small(image.shape, filter_.shape, memory, window_axes, groups)
    else:
        size = 0
    # When memory is full all are forgotten: that is cheaper than to know which were used last.
    if len(_IMAGES_KEPT.products) >= KEPT_SHAPES or _IMAGES_KEPT.size + size > KEPT_IMAGES:
        _IMAGES_KEPT.products.clear()
        _IMAGES_KEPT.size = 0
    _IMAGES_KEPT.products[key] = product
    _IMAGES_KEPT.size += size
    return product


def _small(shape: Shape, filter_: Shape, wide: Array, window_axes: Axes, groups: int) -> Product:
    """The product of small images of a shape and filters of a shape; ``wide`` is memory for an image with zeros around it."""
    if _is_pointwise(window_axes):
        return lambda x, f: _pointwise(x, f, window_axes, groups)
    n, extents = len(wide), extents_of(window_axes)
    count, depth = prod(extents), prod(filter_[1:])
    place, view = wide[inside(window_axes)], windows(wide, window_axes)
    # One wide product beats many narrow ones where there are more features than windows; the result then has to be transposed.
    is_folded = n > 1 and filter_[0] // groups > count
    if is_folded:
        view = np.moveaxis(view, 0, len(window_axes) + 1)

    def product(x: Array, f: Array) -> Array:
        np.copyto(place, x)
        columns = scratch("columns", view.shape, view.dtype)
        np.copyto(columns, view)
        rows = f.reshape(groups, filter_[0] // groups, depth)
        out: Array
        if is_folded:
            out = np.matmul(rows, columns.reshape(groups, depth, n * count)).reshape(filter_[0], n, *extents)
            return np.ascontiguousarray(np.swapaxes(out, 0, 1))
        if n == groups == 1:
            out = times(rows[0], columns.reshape(depth, count))
        else:
            out = np.matmul(rows, columns.reshape(n, groups, depth, count))
        return out.reshape(n, filter_[0], *extents)

    return product


# -- filter and output to image ------------------------------------------------------------------


def spread(filter_: Array, y: Array, window_axes: Axes, groups: int) -> Array:
    """The image whose windows receive y through the filter: the transpose of ``correlated``."""
    _check_filter(filter_.shape, window_axes)
    check_fit("the output's cotangent", y.shape, (len(y), len(filter_), *extents_of(window_axes)))
    # The same cases as in ``correlated``, each transposed: columns are made by a product, and added where their windows overlap (col2im).
    if is_depthwise(filter_.shape, groups) and not _is_pointwise(window_axes):
        return depthwise_spread(filter_, y, window_axes, groups)
    channels, extents = groups * filter_.shape[1], extents_of(window_axes)
    out = np.zeros((len(y), channels, *(a.size for a in window_axes)), y.dtype)
    rows = _matrix(filter_, groups).transpose(0, 2, 1)
    if _is_pointwise(window_axes):
        points = np.matmul(rows, y.reshape(len(y), groups, rows.shape[2], prod(extents)))
        out[element(window_axes, (0,) * len(window_axes))] = points.reshape(len(y), channels, *extents)
        return out
    if groups == 1 and _are_apart(window_axes):
        _spread_apart(rows[0], y, window_axes, out)
        return out
    # Zeros between the rows of y meet all elements of the filter, whose products with infinite ones would be nan.
    is_finite = bool(np.isfinite(filter_).all())
    if groups == 1 and is_finite and pays_spread(len(y), filter_.shape, window_axes, y.dtype):
        return spread_by_rows(filter_, y, window_axes)
    lines = lines_of(window_axes) if is_finite and rows.shape[2] <= prod(extents) else None
    if lines is not None and _adds_rows(filter_, window_axes, groups):
        _spread_rows(filter_, y, window_axes, groups, out)
        return out
    for batch in _batches(groups * rows.shape[1] * prod(extents), len(y), y.itemsize, lines is None):
        n = batch.stop - batch.start
        if lines is None:
            columns = scratch("columns", (groups, rows.shape[1], n * prod(extents)), y.dtype)
            np.matmul(rows, _fold(spaced(y[batch], None), groups), out=columns)
            columns = columns.reshape(channels, *kernel_of(window_axes), n, *extents)
            _overlay(columns, window_axes, out[batch])
        else:
            columns = scratch("columns", (n, groups, rows.shape[1], lines.length), y.dtype)
            np.matmul(rows, spaced(y[batch], lines).reshape(n, groups, rows.shape[2], lines.length), out=columns)
            _overlay_lines(columns, window_axes, lines, out[batch])
    return out


def _adds_rows(filter_: Array, window_axes: Axes, groups: int) -> bool:
    """Whether ``_spread_rows`` can do it, and copies less than it saves adding."""
    is_short = len(filter_) // groups <= filter_.shape[1] * filter_.shape[-1]
    return len(window_axes) == 2 and is_short and filter_.size > 0


def _spread_rows(filter_: Array, y: Array, window_axes: Axes, groups: int, out: Array) -> None:
    """``spread`` to images with strides of one: the product adds up over the rows of the filter, so that only its columns overlap.

    For that the output is copied for every row of the filter, with zeros around.
    """
    down, across = window_axes
    n, features, depth, length = *y.shape[:2], len(filter_) // groups * down.kernel, down.padded * across.padded
    shape = (groups, features // groups, filter_.shape[1], down.kernel, across.kernel)
    matrix = np.ascontiguousarray(filter_.reshape(shape).transpose(0, 4, 2, 1, 3)).reshape(groups, -1, depth)
    for batch in _batches((groups * matrix.shape[1] + features * down.kernel) * length, n, y.itemsize, False):
        columns = _rows_above(y[batch], down, across.padded).reshape(-1, groups, depth, length)
        product = scratch("product", (len(columns), groups, matrix.shape[1], length), y.dtype)
        np.matmul(matrix, columns, out=product)
        # Shifted by up to reach - 1 places, the last line ends so much later.
        image = scratch("image", (len(columns), groups, filter_.shape[1], length + across.reach - 1), y.dtype)
        image[...] = 0
        parts = product.reshape(len(columns), groups, across.kernel, filter_.shape[1], length)
        for k in range(across.kernel):
            start = k * across.dilation
            image[..., start : start + length] += parts[:, :, k]
        lines = image[..., :length].reshape(len(columns), -1, down.padded, across.padded)
        out[batch] = lines[inside(window_axes)]


def _rows_above(y: Array, down: Axis, pitch: int) -> Array:
    """For every row of padded images the rows of an output whose windows reach it: ``[samples, features, kernel, rows, pitch]``."""
    n, features, height, width = y.shape
    first = down.reach - 1
    tall = scratch("lines", (n, features, down.padded + first, pitch), y.dtype)
    tall[...] = 0
    tall[:, :, first : first + height, :width] = y
    sample, feature, row, column = tall.strides
    # A negative step: row k of the filter meets the output k dilations further up.
    shape, steps = (n, features, down.kernel, down.padded, pitch), (sample, feature, -down.dilation * row, row, column)
    rows = scratch("columns", shape, y.dtype)
    np.copyto(rows, as_strided(tall[:, :, first:], shape, steps, writeable=False))
    return rows


def _are_apart(window_axes: Axes) -> bool:
    """Whether each element of an image is in one window."""
    return all(a.stride == a.kernel and a.dilation == 1 and a.size == a.padded == a.count * a.stride for a in window_axes)


def _spread_apart(matrix: Array, y: Array, window_axes: Axes, out: Array) -> None:
    """``spread`` where nothing is added up: the columns of windows, ``[C * kernel, features] @ [features, windows]``, beside each other."""
    n, features, points = *y.shape[:2], prod(y.shape[2:])
    for batch in _batches(len(matrix) * points, n, y.itemsize, False):
        part = y[batch]
        columns = scratch("columns", (len(part), len(matrix), points), y.dtype)
        np.matmul(matrix, part.reshape(len(part), features, points), out=columns)
        windows_of = columns.reshape(len(part), out.shape[1], *kernel_of(window_axes), *extents_of(window_axes))
        for place in np.ndindex(*kernel_of(window_axes)):
            out[batch][element(window_axes, place)] = windows_of[(slice(None), slice(None), *place)]


def _overlay(columns: Array, window_axes: Axes, out: Array) -> None:
    """Columns ``[C, *kernel, samples, *counts]`` added up where their windows overlap, axis by axis."""
    for prior, axis in enumerate(window_axes):
        place = columns.ndim - 1 - (len(window_axes) - prior)
        image = np.zeros((*columns.shape[:1], *columns.shape[2 : place + 1], axis.padded, *columns.shape[place + 2 :]), columns.dtype)
        into = np.moveaxis(image, place, 0)
        for k in range(axis.kernel):
            into[axis.at(k)] += np.moveaxis(columns[:, k], place, 0)
        columns = image
    out[...] = np.swapaxes(columns[inside(window_axes)], 0, 1)


def _overlay_lines(columns: Array, window_axes: Axes, lines: Lines, out: Array) -> None:
    """Columns ``[samples, groups, C / groups * kernel, length]`` added up, line by line."""
    n, channels = out.shape[:2]
    parts = columns.reshape(n, channels, *kernel_of(window_axes), lines.length)
    sizes = tuple(a.padded for a in window_axes)
    image = scratch("image", (n, channels, prod(sizes)), columns.dtype)
    image[...] = 0
    for place, line in lines.starts(window_axes):
        image[..., line] += parts[last((*place, slice(None)))]
    out[...] = image.reshape(n, channels, *sizes)[inside(window_axes)]


# -- image and output to filter ------------------------------------------------------------------


def filter_cotangent(x: Array, y: Array, window_axes: Axes, shape: Shape, groups: int) -> Array:
    """The cotangent of the filter: products of the output's cotangent y with the columns of x, summed over samples and windows."""
    _check_filter(shape, window_axes)
    check_fit("X", x.shape, (len(x), groups * shape[1], *(a.size for a in window_axes)))
    check_fit("the output's cotangent", y.shape, (len(x), shape[0], *extents_of(window_axes)))
    count, lines = prod(extents_of(window_axes)), None if _is_pointwise(window_axes) else lines_of(window_axes, WASTE_OF_COLUMNS)
    if _is_pointwise(window_axes):
        points = x[element(window_axes, (0,) * len(window_axes))].reshape(*x.shape[:2], count)
        products = np.matmul(_fold(spaced(y, None), groups), _fold(points, groups).transpose(0, 2, 1))
        return np.asarray(products).reshape(shape)
    if is_depthwise(shape, groups):
        return depthwise_cotangent(x, y, window_axes, shape, groups)
    depth, features = prod(shape[1:]), shape[0] // groups
    if groups == 1 and pays_filter(len(x), shape, window_axes, x.dtype):
        return filter_by_rows(x, y, window_axes, shape)
    # One product over all samples where its result is larger than what a sample adds to it; else a product each, and their sum.
    is_folded = depth * features > count
    wide, total = np.ascontiguousarray(padded(x, window_axes)), np.zeros((groups, depth, features), x.dtype)
    for batch in _batches(groups * depth * count, len(x), x.itemsize, is_folded):
        columns, cotangents = _columns(wide[batch], window_axes, lines, is_folded), spaced(y[batch], lines)
        total += _products(columns, cotangents, groups, depth, is_folded)
    return total.transpose(0, 2, 1).reshape(shape)


def _products(columns: Array, grads: Array, groups: int, depth: int, folded: bool) -> Array:
    """``[groups, C / groups * kernel, features / groups]`` of some samples."""
    n, features, length = grads.shape
    if folded:
        return np.asarray(np.matmul(columns.reshape(groups, depth, n * length), _fold(grads, groups).transpose(0, 2, 1)))
    by_sample = np.matmul(columns.reshape(n, groups, depth, length), grads.reshape(n, groups, features // groups, length).swapaxes(2, 3))
    return np.asarray(np.add.reduce(by_sample, axis=0))


# -- operators -------------------------------------------------------------------------------------
# Convolutions. Three operators, each linear in a filter, an image or an output, are closed under differentiation:
#
#     Output = conv2d(Input, Filter)
#     dInput = conv2d_backprop_input(Filter, dOutput)
#     dFilter = conv2d_backprop_filter(Input, dOutput)
#
# The cotangents of any one's operands are the other two, so derivatives of any order stay among them; the same in three
# dimensions. Paddle writes a convolution over one axis as conv2d with an axis of one element.

ONES2, ZEROS2 = [1, 1], [0, 0]
ONES3, ZEROS3 = [1, 1, 1], [0, 0, 0]


@dataclass(eq=False, repr=False)
class Convolution:
    """The attributes of a convolution over height and width."""

    strides: list[int] = field(default_factory=lambda: ONES2)
    paddings: list[int] = field(default_factory=lambda: ZEROS2)
    padding_algorithm: str = "EXPLICIT"
    dilations: list[int] = field(default_factory=lambda: ONES2)
    groups: int = 1
    data_format: str = "NCHW"

    def axes(self, image: Shape, kernel: Shape) -> Axes:
        """The windows of a filter's shape in an image's, whose channels are in front."""
        return axes(
            image[2:],
            kernel[2:],
            strides=self.strides,
            paddings=self.paddings,
            dilations=self.dilations,
            padding_algorithm=self.padding_algorithm,
        )


@dataclass(eq=False, repr=False)
class Convolution3d(Convolution):
    """The attributes of a convolution over depth, height and width."""

    strides: list[int] = field(default_factory=lambda: ONES3)
    paddings: list[int] = field(default_factory=lambda: ZEROS3)
    dilations: list[int] = field(default_factory=lambda: ONES3)
    data_format: str = "NCDHW"


# -- types ---------------------------------------------------------------------------------------


def forward_type(spec: type[Convolution], rank: int) -> Callable[..., TensorType]:
    """The inference of a convolution of tensors of ``rank`` axes."""

    def infer(Input: TensorType, Filter: TensorType, Bias: TensorType | None = None, **attrs: Any) -> TensorType:
        conv, dtype = spec(**attrs), same_dtypes(Input=Input, Filter=Filter, Bias=Bias)
        check_images(conv.data_format, rank, Input=Input, Filter=Filter)
        image, (features, channels) = channels_first(Input.shape, conv.data_format), Filter.shape[:2]
        if -1 not in (image[1], channels) and image[1] != channels * conv.groups:
            raise ShapeError(f"Input is {Input} but Filter is {Filter}: groups={conv.groups} of {channels} channels are expected")
        if conv.groups < 1 or (features != -1 and features % conv.groups):
            raise ShapeError(f"Filter is {Filter}: its {features} features do not divide into groups={conv.groups}")
        check_bias(Bias, features)
        counts = (a.count for a in conv.axes(image, Filter.shape))
        return TensorType(laid_out((image[0], features, *counts), conv.data_format), dtype)

    return infer


def check_bias(Bias: TensorType | None, features: int) -> None:
    """ShapeError unless there is a value for each feature, or no bias."""
    if Bias is not None and not (len(Bias.shape) == 1 and matched(Bias.shape[0], features)):
        raise ShapeError(f"Bias is {Bias}: {features} values, one for each feature, are expected")


def _input_type(forward: Callable[..., TensorType]) -> Callable[..., TensorType]:
    def infer(Filter: TensorType, X: TensorType, Like: TensorType, **attrs: object) -> TensorType:
        _check_output(X, forward(Like, Filter, **attrs))
        return TensorType(Like.shape, same_dtypes(Filter=Filter, X=X))

    return infer


def _filter_type(forward: Callable[..., TensorType]) -> Callable[..., TensorType]:
    def infer(Input: TensorType, X: TensorType, Like: TensorType, **attrs: object) -> TensorType:
        _check_output(X, forward(Input, Like, **attrs))
        return TensorType(Like.shape, same_dtypes(Input=Input, X=X))

    return infer


def _check_output(X: TensorType, output: TensorType) -> None:
    if len(X.shape) != len(output.shape) or not all(map(matched, X.shape, output.shape)):
        raise ShapeError(f"X is {X}; an output of the convolution, which is {output}, is expected")


# -- kernels -------------------------------------------------------------------------------------


def channel_axis(data_format: str) -> int:
    """The axis of a vector with a value for each channel."""
    return -1 if data_format in CHANNELS_LAST else 1


def convolving(bias: str, outer: str) -> Declared:
    """The traits of a convolution (``outer``: Output), and of a transposed one (Input): bilinear only where nothing is added."""
    bilinear, weights = "" if bias else "Input Filter", Weights("Filter", _features if outer == "Output" else _ungrouped_features)
    traits: Declared = {"speculatable": "extents", "rows": "Input", "bilinear": bilinear, "own": True, "narrow": "gains"}
    return {**traits, "flops": met_weights(outer), "weights": weights}


def _features(attrs: Mapping[str, Any], rank: int, out: int) -> tuple[int, int]:
    return 0, channel_axis(attrs["data_format"]) % out


def _ungrouped_features(attrs: Mapping[str, Any], rank: int, out: int) -> tuple[int, int] | None:
    """The axes of channels of a transposed convolution; None with groups, where slice i of the weights is in a channel of each group."""
    return (1, channel_axis(attrs["data_format"]) % out) if attrs["groups"] == 1 else None


def met_weights(outer: str) -> Flops:
    """A product and a sum for each weight that an element of a tensor, the slot ``outer``, meets; ``Like`` has the shape of the weights."""

    def flops(shapes: Shapes, attrs: Mapping[str, object]) -> int:
        (weights,), (elements,) = shapes.get("Filter") or shapes["Like"], shapes[outer]
        return 2 * prod(elements) * prod(weights[1:])

    return flops


def bias_grad(Bias: Tensor, dOutput: Tensor, *, data_format: str) -> Tensor:
    """The cotangent of a bias: the sum over all other axes."""
    return sum_like(dOutput, Bias, axis=channel_axis(data_format))


def with_bias(out: Array, Bias: Array | None, data_format: str) -> Array:
    """An output ``[N, C, ...]``, which may be changed, with the bias of each channel, in its layout."""
    if Bias is not None:
        out += Bias.reshape(-1, *(1 for _ in out.shape[2:]))
    return from_front(out, data_format)


def _forward(spec: type[Convolution]) -> Callable[..., Array]:
    default_format = spec.data_format

    @attributes(spec)
    def kernel(Input: Array, Filter: Array, Bias: Array | None = None, **attrs: Any) -> Array:
        data_format = attrs.get("data_format", default_format)
        image = to_front(Input, data_format)
        out = in_float32(lambda x, f: _product(spec, x, f, attrs)(x, f), image, Filter)
        return with_bias(out, Bias, data_format)

    return kernel


def _to_input(spec: type[Convolution]) -> Callable[..., Array]:
    @attributes(spec)
    def kernel(Filter: Array, X: Array, Like: Array, **attrs: Any) -> Array:
        conv = spec(**attrs)
        window_axes = conv.axes(channels_first(Like.shape, conv.data_format), Filter.shape)
        image = in_float32(lambda f, y: spread(f, y, window_axes, conv.groups), Filter, to_front(X, conv.data_format))
        return from_front(image, conv.data_format)

    kernel.__doc__ = "The cotangent of a convolution's Input, X being that of its Output. Only Like's shape, the Input's, is read."
    return kernel


def _to_filter(spec: type[Convolution]) -> Callable[..., Array]:
    @attributes(spec)
    def kernel(Input: Array, X: Array, Like: Array, **attrs: Any) -> Array:
        conv = spec(**attrs)
        image, output = to_front(Input, conv.data_format), to_front(X, conv.data_format)
        window_axes = conv.axes(image.shape, Like.shape)
        return in_float32(lambda x, y: filter_cotangent(x, y, window_axes, Like.shape, conv.groups), image, output)

    kernel.__doc__ = "The cotangent of a convolution's Filter, X being that of its Output. Only Like's shape, the Filter's, is read."
    return kernel


# -- operators -----------------------------------------------------------------------------------


def _convolution(
    name: str, spec: type[Convolution], rank: int, of: str, bias: str, doc: str, dimensions: DimensionsRule | None = None
) -> OpDef:
    """The definition of a convolution whose cotangents are ``<of>_backprop_input`` and ``<of>_backprop_filter``."""
    kernel = _forward(spec)
    kernel.__doc__ = doc
    # The output is linear in each input: <conv(x, f), dy> = <x, backprop_input(f, dy)> = <f, backprop_filter(x, dy)>, with <,> the sum of
    # products. The three are each other's transposes, so that derivatives of all orders are made of them.
    grad: dict[str, Callable[..., Tensor]] = {
        "Input": applied(f"{of}_backprop_input", "Filter dOutput Input", spec),
        "Filter": applied(f"{of}_backprop_filter", "Input dOutput Filter", spec),
    }
    shapes = "Input:Input Filter:Filter"
    if bias:
        grad, shapes = {**grad, "Bias": bias_grad}, f"Bias {shapes}"
    traits: Declared = {**convolving(bias, "Output"), "dimensions": dimensions}
    return operator(
        f"Input Filter {bias} -> Output",
        name=name,
        infer=forward_type(spec, rank),
        grad=grad,
        shapes=shapes,
        **traits,
    )(kernel)


def _backprop_input(of: str, spec: type[Convolution], rank: int) -> OpDef:
    grad = {"Filter": applied(f"{of}_backprop_filter", "dOut X Filter", spec), "X": applied(of, "dOut Filter", spec)}
    infer = _input_type(forward_type(spec, rank))
    return operator(
        "Filter X Like -> Out",
        name=f"{of}_backprop_input",
        infer=infer,
        grad=grad,
        shapes="Filter:Filter",
        bilinear="Filter X",
        flops=met_weights("X"),
        **PRODUCT,
    )(_to_input(spec))


def _backprop_filter(of: str, spec: type[Convolution], rank: int) -> OpDef:
    grad = {"Input": applied(f"{of}_backprop_input", "dOut X Input", spec), "X": applied(of, "Input dOut", spec)}
    infer = _filter_type(forward_type(spec, rank))
    return operator(
        "Input X Like -> Out",
        name=f"{of}_backprop_filter",
        infer=infer,
        grad=grad,
        shapes="Input:Input",
        bilinear="Input X",
        flops=met_weights("X"),
        **PRODUCT,
    )(_to_filter(spec))


_IMAGES = "``[N, C, H, W]`` correlated with a filter ``[features, C / groups, kh, kw]``, plus a bias for each feature."
_VOLUMES = "``[N, C, D, H, W]`` correlated with a filter ``[features, C / groups, kd, kh, kw]``."

conv2d = _convolution("conv2d", Convolution, 4, "conv2d", "Bias?", _IMAGES, convolved)
depthwise_conv2d = _convolution("depthwise_conv2d", Convolution, 4, "conv2d", "Bias?", _IMAGES)
conv2d_backprop_input = _backprop_input("conv2d", Convolution, 4)
conv2d_backprop_filter = _backprop_filter("conv2d", Convolution, 4)

conv3d = _convolution("conv3d", Convolution3d, 5, "conv3d", "", _VOLUMES)
conv3d_backprop_input = _backprop_input("conv3d", Convolution3d, 5)
conv3d_backprop_filter = _backprop_filter("conv3d", Convolution3d, 5)


# -- conv transpose --------------------------------------------------------------------------------
# Transposed convolutions: what the gradient of a convolution with the same attributes does to its output.


@dataclass(eq=False, repr=False)
class TransposedConvolution(Convolution):
    """The attributes of a transposed convolution; Output's extents are larger by ``output_padding``, or are ``output_size``."""

    output_padding: list[int] = field(default_factory=lambda: NO_INTS)
    output_size: list[int] = field(default_factory=lambda: NO_INTS)

    def produced(self, image: Shape, kernel: Shape) -> Axes:
        """The windows in the output, as many as the image has elements."""
        if self.padding_algorithm == "SAME":
            raise ShapeError("padding_algorithm='SAME' leaves the extents of a transposed convolution open; use EXPLICIT or VALID")
        rank = len(image) - 2
        for name, values in (("output_padding", self.output_padding), ("output_size", self.output_size)):
            if len(values) not in (0, rank):
                raise ShapeError(f"{name}={values}; {rank} ints are expected, or none")
        # Several extents of Output have as many windows as Input has elements; the smallest one is meant, unless the attributes say more.
        # The extents are not known yet; what is read of these axes are kernels, strides and paddings.
        window_axes = self.axes((-1,) * len(image), kernel)
        sizes = self.output_size or list(map(_smallest, image[2:], window_axes, self.output_padding or [0] * rank))
        result = self.axes((*image[:2], *sizes), kernel)
        if not all(matched(a.count, extent) for a, extent in zip(result, image[2:], strict=True)):
            counts = [a.count for a in result]
            raise ShapeError(f"Output of extents {sizes} has {counts} windows, but Input's extents are {list(image[2:])}")
        return result


@dataclass(eq=False, repr=False)
class TransposedConvolution3d(TransposedConvolution):
    """The attributes of a transposed convolution over depth, height and width."""

    strides: list[int] = field(default_factory=lambda: ONES3)
    paddings: list[int] = field(default_factory=lambda: ZEROS3)
    dilations: list[int] = field(default_factory=lambda: ONES3)


def _smallest(windows: int, axis: Axis, extra: int) -> int:
    """The smallest extent with so many windows, and some more."""
    if -1 in (windows, axis.kernel):
        return -1
    extent = (windows - 1) * axis.stride + axis.reach - axis.before - axis.after + extra
    if extent < 0:
        raise ShapeError(f"{windows} windows of {axis.kernel} elements every {axis.stride} do not make an extent of 0 or more: {extent}")
    return extent


def _type(spec: type[TransposedConvolution], rank: int) -> Callable[..., TensorType]:
    def infer(Input: TensorType, Filter: TensorType, Bias: TensorType | None = None, **attrs: Any) -> TensorType:
        conv, dtype = spec(**attrs), same_dtypes(Input=Input, Filter=Filter, Bias=Bias)
        check_images(conv.data_format, rank, Input=Input, Filter=Filter)
        image = channels_first(Input.shape, conv.data_format)
        if not matched(image[1], Filter.shape[0]):
            raise ShapeError(f"Input is {Input} but Filter is {Filter}: Input's channels are Filter's first axis")
        if conv.groups < 1 or (image[1] != -1 and image[1] % conv.groups):
            raise ShapeError(f"Input is {Input}: its channels do not divide into groups={conv.groups}")
        features = -1 if Filter.shape[1] == -1 else Filter.shape[1] * conv.groups
        check_bias(Bias, features)
        sizes = (a.size for a in conv.produced(image, Filter.shape))
        return TensorType(laid_out((image[0], features, *sizes), conv.data_format), dtype)

    return infer


def _define(name: str, spec: type[TransposedConvolution], rank: int, bias: str = "") -> OpDef:
    @lru_cache(maxsize=256)
    def produced(image: Shape, kernel: Shape, attrs: Frozen) -> Axes:
        return spec(**thawed(attrs)).produced(image, kernel)

    @attributes(spec)
    def kernel(Input: Array, Filter: Array, Bias: Array | None = None, **attrs: Any) -> Array:
        data_format, groups = attrs.get("data_format", spec.data_format), attrs.get("groups", 1)
        image = to_front(Input, data_format)
        window_axes = produced(image.shape, Filter.shape, frozen(attrs))
        out = in_float32(lambda f, y: spread(f, y, window_axes, groups), Filter, image)
        return with_bias(out, Bias, data_format)

    kernel.__doc__ = "``[N, C, ...]`` through a filter ``[C, features / groups, ...]``: what a convolution's gradient does to its output."
    of, base = ("conv2d", Convolution) if rank == 4 else ("conv3d", Convolution3d)
    grad: dict[str, Callable[..., Tensor]] = {
        "Input": applied(of, "dOutput Filter", base),
        "Filter": applied(f"{of}_backprop_filter", "dOutput Input Filter", base),
    }
    if bias:
        grad["Bias"] = bias_grad
    shapes = "Bias Filter:Filter" if bias else "Filter:Filter"
    traits = convolving(bias, "Input")
    return operator(f"Input Filter {bias} -> Output", name=name, infer=_type(spec, rank), grad=grad, shapes=shapes, **traits)(kernel)


conv2d_transpose = _define("conv2d_transpose", TransposedConvolution, 4, "Bias?")
depthwise_conv2d_transpose = _define("depthwise_conv2d_transpose", TransposedConvolution, 4, "Bias?")
conv3d_transpose = _define("conv3d_transpose", TransposedConvolution3d, 5)


# -- columns of windows --------------------------------------------------------------------------


def _windows(image: Shape, kernel_sizes: Sequence[int], strides: Sequence[int], paddings: Sequence[int], dilations: Sequence[int]) -> Axes:
    """The windows; the paddings are one, two (height, width) or four (top, left, bottom, right) ints."""
    kernel = numbers("kernel_sizes", kernel_sizes, 2)
    # Paddle has top, left, bottom, right; ``axes`` takes the two sides of each axis together.
    around = [paddings[i] for i in (0, 2, 1, 3)] if len(paddings) == 4 else paddings
    return axes(image[2:], kernel, strides=strides, paddings=around, dilations=dilations)


def _unfolded(X: TensorType, *, kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]) -> TensorType:
    check_images("NCHW", X=X)
    window_axes = _windows(X.shape, kernel_sizes, strides, paddings, dilations)
    size, count = element_count(a.kernel for a in window_axes), element_count(a.count for a in window_axes)
    return TensorType((X.shape[0], times_extent(X.shape[1], size), count), X.dtype)


def _unfold_grad(
    X: Tensor, dY: Tensor, *, kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]
) -> Tensor:
    return fold_like(dY, X, kernel_sizes=kernel_sizes, strides=strides, paddings=paddings, dilations=dilations)


@operator("X -> Y", infer=_unfolded, grad={"X": _unfold_grad}, shapes="X", linear="X", rows="X", flops=0)
def unfold(X: Array, *, kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]) -> Array:
    """Every window of ``[N, C, H, W]`` as a column: ``[N, C kh kw, windows]``."""
    window_axes = _windows(X.shape, kernel_sizes, strides, paddings, dilations)
    n, c = X.shape[:2]
    count = window_axes[0].count * window_axes[1].count
    return np.asarray(windows(padded(X, window_axes), window_axes)).reshape(n, c * window_axes[0].kernel * window_axes[1].kernel, count)


def _added_up(X: Array, image: Shape, window_axes: Axes) -> Array:
    columns = X.reshape(*image[:2], *(a.kernel for a in window_axes), *(a.count for a in window_axes))
    out = np.zeros((*image[:2], *(a.padded for a in window_axes)), X.dtype)
    for i, j in np.ndindex(window_axes[0].kernel, window_axes[1].kernel):
        out[:, :, window_axes[0].at(i), window_axes[1].at(j)] += columns[:, :, i, j]
    return out[:, :, window_axes[0].inside, window_axes[1].inside]


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
    window_axes = _windows((0, 0, height, width), kernel_sizes, strides, paddings, dilations)
    if not matched(X.shape[2], element_count(a.count for a in window_axes)):
        raise ShapeError(f"X is {X}, but output_sizes={output_sizes} has {[a.count for a in window_axes]} windows")
    channels = divided_extent(X, X.shape[1], element_count(a.kernel for a in window_axes), "number of rows")
    return TensorType((X.shape[0], channels, height, width), X.dtype)


def _fold_grad(dY: Tensor, *, kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]) -> Tensor:
    return unfold(dY, kernel_sizes=kernel_sizes, strides=strides, paddings=paddings, dilations=dilations)


@operator("X -> Y", infer=_folded, grad={"X": _fold_grad}, linear="X")
def fold(
    X: Array, *, output_sizes: list[int], kernel_sizes: list[int], strides: list[int], paddings: list[int], dilations: list[int]
) -> Array:
    """Columns ``[N, C kh kw, windows]`` added up where they overlap: ``[N, C, *output_sizes]``."""
    size = numbers("output_sizes", output_sizes, 2)
    window_axes = _windows((0, 0, *size), kernel_sizes, strides, paddings, dilations)
    return _added_up(X, (len(X), X.shape[1] // (window_axes[0].kernel * window_axes[1].kernel), *size), window_axes)
