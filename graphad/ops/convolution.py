"""The three products of a convolution on arrays ``[N, C, ...]``, over any number of spatial axes.

    correlated(image, filter) -> output      spread(filter, output) -> image      filter_cotangent(image, output) -> filter

Windows are laid out as columns, a few samples at a time so that they stay in the cache, and multiplied as matrices.
A filter of one channel (depthwise) is multiplied element by element, one of one element needs no columns.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from graphad.ops.definition import Array
from graphad.ops.windows import Axes, check_fit, element, inside, last, padded, windows
from graphad.types import Shape

COLUMN_BYTES = 1 << 22
KEPT_BYTES = 1 << 24
WASTE, WASTE_OF_COLUMNS = 1.6, 1.3  # windows over the edges for each that is wanted, at most


def _batches(columns: int, samples: int, itemsize: int, folded: bool) -> Iterator[slice]:
    """Samples in turns whose columns take four megabytes, or eight in one matrix; one sample has so many elements of columns."""
    step = max(1, min(samples, COLUMN_BYTES * (2 if folded else 1) // max(columns * itemsize, 1)))
    return (slice(start, min(start + step, samples)) for start in range(0, samples, step))


class _Kept(threading.local):
    """Memory that a thread keeps between calls: asking the system for it takes as long as filling it."""

    def __init__(self) -> None:
        self.memory: dict[str, Array] = {}


_KEPT = _Kept()


def _scratch(use: str, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Memory for what is forgotten within the call, one array for each use at a time."""
    count = prod(shape) * dtype.itemsize
    if count > KEPT_BYTES:
        return np.empty(shape, dtype)
    found = _KEPT.memory.get(use)
    if found is None or len(found) < count:
        found = _KEPT.memory[use] = np.empty(count, np.uint8)
    return found[:count].view(dtype).reshape(shape)


def _extents(found: Axes) -> Shape:
    return tuple(a.count for a in found)


def _kernel(found: Axes) -> Shape:
    return tuple(a.kernel for a in found)


def _matrix(filter_: Array, groups: int) -> Array:
    """The filter as ``[groups, features / groups, C / groups * kernel]``."""
    features, *window = filter_.shape
    return filter_.reshape(groups, features // groups, prod(window))


def _is_pointwise(found: Axes) -> bool:
    return all(a.kernel == 1 and a.padded == a.size for a in found)


def _is_depthwise(filter_: Shape, groups: int) -> bool:
    return groups > 1 and filter_[1] == 1


# -- lines: with a stride of one, windows that follow each other in memory, those over the edges included -----------


class Lines(NamedTuple):
    """How far apart neighbors along each axis are in a padded image laid out as one line, and how long the line of windows is."""

    pitches: Shape
    length: int

    def view(self, line: Array, extents: Shape) -> Array:
        """The windows that are not over an edge, ``[..., *extents]``, of contiguous ``[..., length]``."""
        steps = (pitch * line.itemsize for pitch in self.pitches)
        return as_strided(line, (*line.shape[:-1], *extents), (*line.strides[:-1], *steps))

    def starts(self, found: Axes) -> Iterator[tuple[Shape, slice]]:
        """Every element of the window, and where its line is."""
        for place in np.ndindex(*_kernel(found)):
            start = sum(k * a.dilation * pitch for k, a, pitch in zip(place, found, self.pitches, strict=True))
            yield place, slice(start, start + self.length)


def _lines(found: Axes, waste: float = WASTE) -> Lines | None:
    """None where there are gaps between windows, or too many windows over the edges."""
    pitches = tuple(prod(a.padded for a in found[i + 1 :]) for i in range(len(found)))
    length = 1 + sum((a.count - 1) * pitch for a, pitch in zip(found, pitches, strict=True))
    wanted = prod(_extents(found))
    return Lines(pitches, length) if all(a.stride == 1 for a in found) and 0 < length <= waste * wanted else None


def _columns(wide: Array, found: Axes, lines: Lines | None, folded: bool) -> Array:
    """Every window of padded samples as a column: ``[samples, C, kernel, windows]``, or with the samples last but one."""
    n, c = wide.shape[:2]
    if lines is None:
        view = _by_rows(wide, found) if len(found) == 2 and all(a.stride == 1 for a in found) else windows(wide, found)
    else:
        inner = (a.dilation * pitch * wide.itemsize for a, pitch in zip(found, lines.pitches, strict=True))
        shape = (n, c, *_kernel(found), lines.length)
        view = as_strided(wide, shape, (*wide.strides[:2], *inner, wide.itemsize), writeable=False)
    view = np.moveaxis(view, 0, len(found) + 1) if folded else view
    columns = _scratch("columns", view.shape, view.dtype)
    np.copyto(columns, view)
    return columns


def _by_rows(wide: Array, found: Axes) -> Array:
    """The windows of padded images, out of a copy in which the rows of every column of the window follow each other: long runs to copy."""
    (n, c, height, _), (down, across) = wide.shape, found
    steps = wide.strides
    shifted = as_strided(
        wide, (n, c, across.kernel, height, across.count), (*steps[:2], across.dilation * steps[3], *steps[2:]), writeable=False
    )
    rows = _scratch("rows", shifted.shape, wide.dtype)
    np.copyto(rows, shifted)
    a, b, column, row, element_ = rows.strides
    shape = (n, c, down.kernel, across.kernel, down.count, across.count)
    return as_strided(rows, shape, (a, b, down.dilation * row, column, row, element_), writeable=False)


def _spaced(y: Array, lines: Lines | None) -> Array:
    """An output ``[samples, features, windows]``, as lines with zeros for the windows over the edges."""
    if lines is None:
        return y.reshape(*y.shape[:2], prod(y.shape[2:]))
    line = _scratch("lines", (*y.shape[:2], lines.length), y.dtype)
    line[...] = 0
    lines.view(line, y.shape[2:])[...] = y
    return line


def _fold(y: Array, groups: int) -> Array:
    """``[samples, features, windows]`` as ``[groups, features / groups, samples * windows]``."""
    n, features, count = y.shape
    rows = y.reshape(n, groups, features // groups, count)
    return rows[0] if n == 1 else rows.transpose(1, 2, 0, 3).reshape(groups, features // groups, n * count)


def _check_filter(shape: Shape, found: Axes) -> None:
    check_fit("the filter", shape, (*shape[:2], *_kernel(found)))


# -- image and filter to output ------------------------------------------------------------------


def correlated(x: Array, filter_: Array, found: Axes, groups: int) -> Array:
    """The products of the filter with every window of x: ``[N, features, *counts]``."""
    _check_filter(filter_.shape, found)
    check_fit("X", x.shape, (len(x), groups * filter_.shape[1], *(a.size for a in found)))
    extents, rows = _extents(found), _matrix(filter_, groups)
    if _is_pointwise(found):
        points = x[element(found, (0,) * len(found))].reshape(len(x), groups, rows.shape[2], prod(extents))
        return np.asarray(np.matmul(rows, points)).reshape(len(x), len(filter_), *extents)
    if _is_depthwise(filter_.shape, groups):
        return _depthwise(x, filter_, found, groups)
    wide, out = padded(x, found), np.empty((len(x), len(filter_), *extents), x.dtype)
    folded = rows.shape[1] > prod(extents)
    lines = None if folded else _lines(found, WASTE_OF_COLUMNS)
    wide = np.ascontiguousarray(wide) if lines else wide
    for batch in _batches(groups * rows.shape[2] * prod(extents), len(x), x.itemsize, folded):
        columns = _columns(wide[batch], found, lines, folded)
        _multiply(rows, columns, lines, folded, out[batch])
    return out


def _multiply(rows: Array, columns: Array, lines: Lines | None, folded: bool, out: Array) -> None:
    """The rows of the filter with the columns of some samples, into their outputs."""
    groups, features, depth = rows.shape
    n, *extents = len(out), *out.shape[2:]
    count = prod(extents)
    place = out.reshape(n, groups, features, count)
    if folded:
        product = _scratch("product", (groups, features, n * count), out.dtype)
        np.matmul(rows, columns.reshape(groups, depth, n * count), out=product)
        place[...] = product.reshape(groups, features, n, count).transpose(2, 0, 1, 3)
    elif lines is None:
        np.matmul(rows, columns.reshape(n, groups, depth, count), out=place)
    else:
        product = _scratch("product", (n, groups, features, lines.length), out.dtype)
        np.matmul(rows, columns.reshape(n, groups, depth, lines.length), out=product)
        out[...] = lines.view(product.reshape(*out.shape[:2], lines.length), tuple(extents))


def _depthwise(x: Array, filter_: Array, found: Axes, groups: int) -> Array:
    """Every feature from one channel: sums of shifted images, sample by sample."""
    extents, lines = _extents(found), _lines(found)
    wide, shape = np.ascontiguousarray(padded(x, found)), (groups, len(filter_) // groups, *extents)
    out = np.empty((len(x), *shape), x.dtype)
    inner = extents if lines is None else (lines.length,)
    terms = np.empty((2, *shape[:2], *inner), x.dtype)
    for image, result in zip(wide, out, strict=True):
        terms[1] = 0
        for part, weight in _shifted(image, filter_, found, lines):
            np.multiply(part[:, None], weight.reshape(*shape[:2], *(1 for _ in inner)), out=terms[0])
            terms[1] += terms[0]
        result[...] = terms[1] if lines is None else lines.view(terms[1], extents)
    return out.reshape(len(x), len(filter_), *extents)


def _shifted(image: Array, filter_: Array, found: Axes, lines: Lines | None) -> Iterator[tuple[Array, Array]]:
    """Of every window of a padded sample ``[C, ...]`` one element, as lines if there are any, with what it is multiplied by."""
    if lines is None:
        yield from ((image[element(found, place)], filter_[last(place)]) for place in np.ndindex(*_kernel(found)))
        return
    flat = image.reshape(len(image), prod(image.shape[1:]))
    yield from ((flat[:, line], filter_[last(place)]) for place, line in lines.starts(found))


# -- filter and output to image ------------------------------------------------------------------


def spread(filter_: Array, y: Array, found: Axes, groups: int) -> Array:
    """The image whose windows receive y through the filter: the transpose of ``correlated``."""
    _check_filter(filter_.shape, found)
    check_fit("the output's cotangent", y.shape, (len(y), len(filter_), *_extents(found)))
    channels, extents = groups * filter_.shape[1], _extents(found)
    out = np.zeros((len(y), channels, *(a.size for a in found)), y.dtype)
    rows = _matrix(filter_, groups).transpose(0, 2, 1)
    if _is_pointwise(found):
        points = np.matmul(rows, y.reshape(len(y), groups, rows.shape[2], prod(extents)))
        out[element(found, (0,) * len(found))] = points.reshape(len(y), channels, *extents)
        return out
    if _is_depthwise(filter_.shape, groups):
        return _depthwise_spread(filter_, y, found, out)
    lines = _lines(found) if rows.shape[2] <= prod(extents) else None
    for batch in _batches(groups * rows.shape[1] * prod(extents), len(y), y.itemsize, lines is None):
        n = batch.stop - batch.start
        if lines is None:
            columns = _scratch("columns", (groups, rows.shape[1], n * prod(extents)), y.dtype)
            np.matmul(rows, _fold(_spaced(y[batch], None), groups), out=columns)
            _overlay(columns.reshape(channels, *_kernel(found), n, *extents), found, out[batch])
        else:
            columns = _scratch("columns", (n, groups, rows.shape[1], lines.length), y.dtype)
            np.matmul(rows, _spaced(y[batch], lines).reshape(n, groups, rows.shape[2], lines.length), out=columns)
            _overlay_lines(columns, found, lines, out[batch])
    return out


def _overlay(columns: Array, found: Axes, out: Array) -> None:
    """Columns ``[C, *kernel, samples, *counts]`` added up where their windows overlap, axis by axis."""
    for done, axis in enumerate(found):
        place = columns.ndim - 1 - (len(found) - done)
        image = np.zeros((*columns.shape[:1], *columns.shape[2 : place + 1], axis.padded, *columns.shape[place + 2 :]), columns.dtype)
        into = np.moveaxis(image, place, 0)
        for k in range(axis.kernel):
            into[axis.at(k)] += np.moveaxis(columns[:, k], place, 0)
        columns = image
    out[...] = np.swapaxes(columns[inside(found)], 0, 1)


def _overlay_lines(columns: Array, found: Axes, lines: Lines, out: Array) -> None:
    """Columns ``[samples, groups, C / groups * kernel, length]`` added up, line by line."""
    n, channels = out.shape[:2]
    parts = columns.reshape(n, channels, *_kernel(found), lines.length)
    sizes = tuple(a.padded for a in found)
    image = _scratch("image", (n, channels, prod(sizes)), columns.dtype)
    image[...] = 0
    for place, line in lines.starts(found):
        image[..., line] += parts[last((*place, slice(None)))]
    out[...] = image.reshape(n, channels, *sizes)[inside(found)]


def _depthwise_spread(filter_: Array, y: Array, found: Axes, out: Array) -> Array:
    groups, lines = out.shape[1], _lines(found)
    wide = np.zeros((*out.shape[:2], *(a.padded for a in found)), y.dtype)
    inner = _extents(found) if lines is None else (lines.length,)
    parts = _spaced(y, lines).reshape(len(y), groups, len(filter_) // groups, *inner)
    for image, part in zip(wide, parts, strict=True):
        for place, weight in _shifted(image, filter_, found, lines):
            terms = part * weight.reshape(*part.shape[:2], *(1 for _ in part.shape[2:]))
            np.add(place, np.add.reduce(terms, axis=1) if terms.shape[1] > 1 else terms[:, 0], out=place)
    return np.asarray(wide[inside(found)])


# -- image and output to filter ------------------------------------------------------------------


def filter_cotangent(x: Array, y: Array, found: Axes, shape: Shape, groups: int) -> Array:
    """What every element of the filter multiplies: the products of y with the columns of x, summed over samples and windows."""
    _check_filter(shape, found)
    check_fit("X", x.shape, (len(x), groups * shape[1], *(a.size for a in found)))
    check_fit("the output's cotangent", y.shape, (len(x), shape[0], *_extents(found)))
    count, lines = prod(_extents(found)), None if _is_pointwise(found) else _lines(found, WASTE_OF_COLUMNS)
    if _is_pointwise(found):
        points = x[element(found, (0,) * len(found))].reshape(*x.shape[:2], count)
        products = np.matmul(_fold(_spaced(y, None), groups), _fold(points, groups).transpose(0, 2, 1))
        return np.asarray(products).reshape(shape)
    if _is_depthwise(shape, groups):
        return _depthwise_cotangent(x, y, found, shape, groups)
    depth, features = prod(shape[1:]), shape[0] // groups
    folded = depth * features > count
    wide, total = np.ascontiguousarray(padded(x, found)), np.zeros((groups, depth, features), x.dtype)
    for batch in _batches(groups * depth * count, len(x), x.itemsize, folded):
        columns, given = _columns(wide[batch], found, lines, folded), _spaced(y[batch], lines)
        total += _products(columns, given, groups, depth, folded)
    return total.transpose(0, 2, 1).reshape(shape)


def _products(columns: Array, given: Array, groups: int, depth: int, folded: bool) -> Array:
    """``[groups, C / groups * kernel, features / groups]`` of some samples."""
    n, features, length = given.shape
    if folded:
        return np.asarray(np.matmul(columns.reshape(groups, depth, n * length), _fold(given, groups).transpose(0, 2, 1)))
    by_sample = np.matmul(columns.reshape(n, groups, depth, length), given.reshape(n, groups, features // groups, length).swapaxes(2, 3))
    return np.asarray(np.add.reduce(by_sample, axis=0))


def _depthwise_cotangent(x: Array, y: Array, found: Axes, shape: Shape, groups: int) -> Array:
    wide, out = padded(x, found), np.empty(shape, x.dtype)
    parts = y.reshape(len(y), groups, shape[0] // groups, *_extents(found))
    letters = "xyz"[: len(found)]
    for place in np.ndindex(*_kernel(found)):
        shifted = wide[element(found, place)]
        out[last(place)] = np.einsum(f"ng{letters},ngm{letters}->gm", shifted, parts).reshape(shape[0], 1)
    return out
