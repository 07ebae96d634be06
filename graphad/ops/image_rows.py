"""Products of convolutions, row by row of their outputs: the rows of a window follow each other in memory.

    image [H, W]       columns [H, kw, Q] (kw = 2, Q = 3)     row r of the output
    a b c d            a b c | b c d                           matrix [features, kh kw C] @ columns[r : r + kh]
    e f g h     ⇒      e f g | f g h                    ⇒      as [kh kw C, Q]: a view, of the same memory
    i j k l            i j k | j k l                           as columns[r + 1 : r + 1 + kh] of the next row

Columns of all windows (im2col) copy each element of an image as often as the filter has elements; here it is copied as often as the filter
has columns. Samples are beside each other, so that a product is as wide as their rows together. Filters are not dilated along the height.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from graphad.ops.scratch import scratch
from graphad.ops.windows import Axes, Axis, extents_of, inside, padded
from graphad.types import Array, Shape

TILE_BYTES = 3 << 18  # of columns: with what is made of them they stay in a cache of the second level

Product = Callable[[Array, Array], Array]  # of an image and a filter
Tile = tuple[slice, slice]  # samples, and rows of the output
Dtype = np.dtype[np.generic]


def _together(samples: int, nbytes: int) -> int:
    """How many samples of so many bytes to work on at a time, about as many in each turn."""
    turns = max(1, min(samples, -(-samples * nbytes // TILE_BYTES)))
    return max(1, -(-samples // turns))


def _tiles(samples: int, down: Axis, row: int) -> list[Tile]:
    """Some samples at a time, or of one some rows of its output; a row of a padded image has columns of ``row`` bytes."""
    step, most = _together(samples, down.padded * row), down.count
    if step == 1 and down.padded * row > TILE_BYTES:
        # The rows that two tiles share are copied twice: an eighth of them at most.
        most = max(8 * down.reach, TILE_BYTES // max(row, 1)) // down.stride
    batches = (slice(start, min(start + step, samples)) for start in range(0, samples, step))
    return [(batch, slice(top, min(top + most, down.count))) for batch in batches for top in range(0, down.count, most)]


def _column_view(wide: Array, across: Axis) -> Array:
    """Padded samples ``[n, C, rows, W]`` as a view ``[rows, width of the filter, C, n, windows across]``."""
    n, channels, rows, _ = wide.shape
    sample, channel, row, column = wide.strides
    shape, steps = (
        (rows, across.kernel, channels, n, across.count),
        (row, across.dilation * column, channel, sample, across.stride * column),
    )
    return as_strided(wide, shape, steps, writeable=False)


def _windows(view: Array, tile: Tile, down: Axis) -> Array:
    """The windows of a tile, ``[rows of the output, kh kw C, n * windows across]``: parts of rows that share their memory."""
    batch, rows = tile
    first, count = rows.start * down.stride, rows.stop - rows.start
    part = view[first : first + (count - 1) * down.stride + down.kernel, :, :, batch]
    columns = scratch("columns", part.shape, view.dtype)
    np.copyto(columns, part)
    return _rows_of(columns, count, down)


def _rows_of(lines: Array, count: int, down: Axis) -> Array:
    """The rows of each window, ``[count, kernel a b, n length]``, as a view of contiguous ``[rows, a, b, n, length]``."""
    _, a, b, n, length = lines.shape
    strides = (down.stride * lines.strides[0], lines.strides[2], lines.itemsize)
    return np.ndarray((count, down.kernel * a * b, n * length), lines.dtype, lines.data, 0, strides)


# -- where it is quicker -------------------------------------------------------------------------
# Columns of all windows copy ``C kh kw`` elements for each window. By rows the outputs, which lie in another order, are copied instead, in
# longer runs. Products are narrower: BLAS packs both matrices again for each, unless they are so small that it works on them as they are.

SMALL = 1.5e6  # products of numbers that one product of matrices takes
WIDE = 100  # columns with which packing no longer matters
LONG = 32  # windows of a row, of which the outputs are written quickly
MANY = 48  # features, short rows of which are written slowly
NARROW = 5  # rows of a matrix with which BLAS is slow
POINTS = 400  # of all samples


def pays_correlated(samples: int, filter_: Shape, window_axes: Axes, dtype: Dtype) -> bool:
    """Whether ``correlated_by_rows`` can do it, and is expected to be quicker than columns of all windows."""
    if not _is_possible(samples, filter_, window_axes, dtype):
        return False
    (down, across), (features, channels, height, width) = window_axes, filter_
    wide = _together(samples, down.padded * width * channels * across.count * dtype.itemsize) * across.count
    # Less is copied of the image, and the outputs are written a row of each feature at a time, or copied: how many times as many numbers
    # of a window as features make up for that depends on how long a row is. By 45 shapes on Intel's Emerald Rapids.
    least = 0 if samples == 1 and across.count >= LONG else 0.75 if features < MANY else 4 if wide >= LONG // 2 else 12
    return channels * height * width > least * features and (wide >= WIDE or prod(filter_) * wide <= SMALL)


def pays_spread(samples: int, filter_: Shape, window_axes: Axes, dtype: Dtype) -> bool:
    """Whether ``spread_by_rows`` can do it, if the filter is finite, and is expected to be quicker."""
    if not _is_possible(samples, filter_, window_axes, dtype) or any(a.stride != 1 for a in window_axes):
        return False
    _, channels, _, width = filter_
    wide = _together(samples, _spread_bytes(filter_, window_axes, dtype.itemsize)) * window_axes[1].padded
    return width * channels >= NARROW and (wide >= WIDE or prod(filter_) * wide <= SMALL)


def pays_filter(samples: int, filter_: Shape, window_axes: Axes, dtype: Dtype) -> bool:
    """Whether ``filter_by_rows`` can do it, and is expected to be quicker."""
    if not _is_possible(samples, filter_, window_axes, dtype):
        return False
    (down, across), (features, channels, height, width) = window_axes, filter_
    points = prod(extents_of(window_axes))
    if _are_points_longer(filter_, window_axes):
        return features * channels * width * points <= SMALL or (points > WIDE and points * samples >= POINTS)
    wide = _together(samples, down.padded * width * channels * across.count * dtype.itemsize) * across.count
    # The products of each row of the outputs are added up: there are ``features / wide`` times as many of them as of columns.
    return height * width * channels > 0.75 * features and 4 * features <= wide and prod(filter_) * wide <= SMALL


def _is_possible(samples: int, filter_: Shape, window_axes: Axes, dtype: Dtype) -> bool:
    """Whether there is a second row, next to the first, and floats to multiply."""
    if len(window_axes) != 2 or dtype.kind != "f" or window_axes[0].dilation != 1 or window_axes[0].kernel == 1:
        return False
    return samples * prod(filter_) * prod(extents_of(window_axes)) > 0


def _are_points_longer(filter_: Shape, window_axes: Axes) -> bool:
    """Whether a row of a window, with all its channels, is longer than a row of windows, which begin at each row."""
    return window_axes[0].stride == 1 and filter_[1] * filter_[3] > window_axes[1].count


# -- three products ------------------------------------------------------------------------------


def correlated_by_rows(x: Array, filter_: Array, window_axes: Axes) -> Array:
    """The products of the filter ``[features, C, kh, kw]`` with every window of x: ``[N, features, *counts]``."""
    view = _column_view(padded(x, window_axes), window_axes[1])
    out = np.empty((len(x), len(filter_), *extents_of(window_axes)), x.dtype)
    _multiply(view, filter_, window_axes[0], _tiles_of(view, window_axes[0]), out)
    return out


def kept_by_rows(shape: Shape, filter_: Shape, wide: Array, window_axes: Axes) -> Product:
    """``correlated_by_rows`` of images and filters of these shapes; ``wide`` is memory for an image with zeros around it."""
    view, place = _column_view(wide, window_axes[1]), wide[inside(window_axes)]
    extents, tiles = (shape[0], filter_[0], *extents_of(window_axes)), _tiles_of(view, window_axes[0])

    def product(x: Array, f: Array) -> Array:
        np.copyto(place, x)
        out = np.empty(extents, x.dtype)
        _multiply(view, f, window_axes[0], tiles, out)
        return out

    return product


def _tiles_of(view: Array, down: Axis) -> list[Tile]:
    _, width, channels, samples, count = view.shape
    return _tiles(samples, down, width * channels * count * view.itemsize)


def _multiply(view: Array, filter_: Array, down: Axis, tiles: list[Tile], out: Array) -> None:
    """The products of a filter with the windows of a view, into their outputs ``[N, features, rows, windows across]``."""
    features, across = len(filter_), out.shape[3]
    matrix = np.ascontiguousarray(filter_.transpose(0, 2, 3, 1)).reshape(features, prod(filter_.shape[1:]))
    for batch, rows in tiles:
        windows, n = _windows(view, (batch, rows), down), batch.stop - batch.start
        if n == 1:  # a row of each feature is written to its place
            np.matmul(matrix, windows, out=out[batch.start, :, rows].transpose(1, 0, 2))
            continue
        product = scratch("product", (len(windows), features, n * across), out.dtype)
        np.matmul(matrix, windows, out=product)
        np.copyto(out[batch, :, rows], product.reshape(len(windows), features, n, across).transpose(2, 1, 0, 3))


def spread_by_rows(filter_: Array, y: Array, window_axes: Axes) -> Array:
    """The image whose windows receive y through the filter; windows begin at each element. All elements of the filter are finite.

    The output with zeros around it is what the rows are of: its lines are as long as the padded image, so that what the columns of the
    filter make of them are sums of lines, each begun an element later.
    """
    down, across = window_axes
    features, channels, height, width = filter_.shape
    # Row i of the image is met by row k of the filter from row i - k of the output.
    matrix = np.ascontiguousarray(filter_[:, :, ::-1].transpose(3, 1, 2, 0)).reshape(width * channels, height * features)
    out = np.empty((len(y), channels, down.size, across.size), y.dtype)
    above, place = height - 1, (slice(None), slice(None), *inside(window_axes)[1:])
    step = _together(len(y), _spread_bytes(filter_.shape, window_axes, y.itemsize))
    for batch in (slice(start, start + step) for start in range(0, len(y), step)):
        part = y[batch].transpose(2, 1, 0, 3)
        lines = scratch("lines", (down.padded + above, features, 1, part.shape[2], across.padded), y.dtype)
        lines[:above] = lines[above + down.count :] = lines[..., across.count :] = 0
        np.copyto(lines[above : above + down.count, :, 0, :, : across.count], part)
        length = part.shape[2] * across.padded
        product = scratch("product", (down.padded, width, channels, length), y.dtype)
        np.matmul(matrix, _rows_of(lines, down.padded, down), out=product.reshape(down.padded, width * channels, length))
        total = product[:, 0]
        for k in range(1, width):
            start = k * across.dilation
            total[..., start:] += product[:, k, :, : length - start]
        np.copyto(out[batch], total.reshape(down.padded, channels, part.shape[2], across.padded).transpose(2, 1, 0, 3)[place])
    return out


def _spread_bytes(filter_: Shape, window_axes: Axes, itemsize: int) -> int:
    """The bytes of temporary arrays that ``spread_by_rows`` needs for a sample."""
    (down, across), (features, channels, height, width) = window_axes, filter_
    return (down.padded * width * channels + (down.padded + height - 1) * features) * across.padded * itemsize


def filter_by_rows(x: Array, y: Array, window_axes: Axes, shape: Shape) -> Array:
    """The cotangent of a filter of this shape: products of the output's cotangent y with the windows of x, summed over samples and
    windows."""
    if _are_points_longer(shape, window_axes):
        return _filter_by_points(x, y, window_axes, shape)
    features, channels, height, width = shape
    view, total = _column_view(padded(x, window_axes), window_axes[1]), np.zeros((features, height, width, channels), x.dtype)
    for tile in _tiles_of(view, window_axes[0]):
        windows, part = _windows(view, tile, window_axes[0]), y[tile[0], :, tile[1]].transpose(2, 1, 0, 3)
        rows = scratch("rows", part.shape, x.dtype)
        np.copyto(rows, part)
        _add_products(rows.reshape(len(windows), features, windows.shape[2]), windows.swapaxes(1, 2), total)
    return np.ascontiguousarray(total.transpose(0, 3, 1, 2))


def _add_products(left: Array, right: Array, total: Array) -> None:
    """Add the sum of products of matrices, of which there are as many as a cache holds at a time."""
    step = max(1, TILE_BYTES // max(total.nbytes, 1))
    for start in range(0, len(left), step):
        a, b = left[start : start + step], right[start : start + step]
        products = scratch("products", (len(a), *total.shape), total.dtype)
        np.matmul(a, b, out=products.reshape(*products.shape[: b.ndim - 2], a.shape[-2], b.shape[-1]))
        total += np.add.reduce(products, axis=0)


def _filter_by_points(x: Array, y: Array, window_axes: Axes, shape: Shape) -> Array:
    """The same with channels last, where a row of a window is longer than a row of windows; a product for each row of the filter."""
    down, across = window_axes
    features, channels, height, width = shape
    total = np.zeros((height, features, width, channels), x.dtype)
    extents, points = tuple(a.padded for a in window_axes), prod(extents_of(window_axes))
    step = _together(len(x), down.padded * across.count * width * channels * x.itemsize)
    for batch in (slice(start, start + step) for start in range(0, len(x), step)):
        image = x[batch].transpose(0, 2, 3, 1)
        wide = scratch("image", (len(image), *extents, channels), x.dtype)
        if extents != x.shape[2:]:
            wide[...] = 0
        np.copyto(wide[(slice(None), *inside(window_axes)[1:])], image)
        sample, row, column, channel = wide.strides
        view_shape = (len(image), down.padded, across.count, width, channels)
        view = as_strided(wide, view_shape, (sample, row, column * across.stride, column * across.dilation, channel), writeable=False)
        columns = scratch("columns", view_shape, x.dtype)
        np.copyto(columns, view)
        # The windows' rows k, of all places of the windows, are a run of memory.
        strides = (*columns.strides[:3], x.itemsize)
        rows = np.ndarray((len(image), height, points, width * channels), x.dtype, columns.data, 0, strides)
        _add_products(np.ascontiguousarray(y[batch]).reshape(len(image), 1, features, points), rows, total)
    return np.ascontiguousarray(total.transpose(1, 3, 0, 2))
