"""The three products of a depthwise convolution, in which each channel has filters of its own: on arrays ``[N, C, H, W]``.

    image [H, W]                    lines [columns of the filter, H W]          products [rows of the filter, H W]
    a b c        the image, as      . a b . d e         each row of the         each row, from as many rows
    d e f   ⇒    a line, for each   a b c d e f    ⇒    filter times the   ⇒    of the image on, added up
                 column moved       b c . e f .         lines

BLAS has no product for overlapping windows, so they have to be copied: nine numbers for each that a filter of 3x3 reads. Moved lines are
three, and long runs. That takes as many windows along a row as the image has columns, or with a stride one for every so many columns: the
image is then taken apart into *phases*, the elements of which are a stride apart. The other geometries, and several filters for a channel,
copy the windows, in as long runs as there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from graphad.ops.loops import COMPILED, may_compile
from graphad.ops.scratch import KEPT_BYTES, scratch
from graphad.ops.window_loops import can_loop, cotangent_of, product_for, spread_of
from graphad.ops.windows import Axes, Axis, Lines, element, extents_of, inside, kernel_of, last, lines_of, padded, spaced, windows
from graphad.types import Array, Shape

LINE_BYTES = 1 << 19  # of the lines of some channels, which with their products stay in a cache of the second level
CACHED_BYTES = 1 << 18
SMALL = 1 << 8  # elements of an image of which a product takes longer to begin than to compute: those of all samples go into one
LEAST = 1 << 6  # elements of an image from which on the lines pay for each row of the filter
Product = Callable[[Array, Array], Array]

_ALIGNED = 16  # elements that a line of float32 in the cache holds


def is_depthwise(filter_: Shape, groups: int) -> bool:
    """Whether a filter of this shape reads one channel for each feature."""
    return groups > 1 and filter_[1] == 1


def depthwise(x: Array, filter_: Array, window_axes: Axes, groups: int) -> Array:
    """The products of each channel's filters with every window of x: ``[N, features, *counts]``."""
    work = depthwise_product(x.shape, filter_.shape, window_axes, x.dtype) if x.dtype == filter_.dtype else None
    return _by_windows(x, filter_, window_axes, groups) if work is None else work.product(x, filter_)


class Work(NamedTuple):
    """A product of images and filters of some shapes, and whether it may be kept: it is made of views of memory that the thread keeps."""

    product: Product
    lasting: bool


def depthwise_product(image: Shape, filter_: Shape, window_axes: Axes, dtype: np.dtype[np.generic]) -> Work | None:
    """``depthwise`` for images of a shape and one filter for each channel; None for other geometries than those of lines."""
    if len(filter_) != 4 or filter_[0] != image[1] or 0 in image:
        return None
    if COMPILED.get() and dtype.char in "fd" and dtype.isnative and can_loop(window_axes):
        return Work(product_for(image, window_axes, dtype), True)
    geometry = _geometry(window_axes)
    if geometry is None:
        return None
    lines = _ImageLines(image, geometry, window_axes[0].count, dtype)
    if _taps_are_quicker(lines, image, window_axes):
        return Work(_by_taps(image, window_axes, dtype), prod(image) * dtype.itemsize <= KEPT_BYTES)
    return Work(_by_lines(lines, window_axes, dtype), lines.nbytes * lines.step <= LINE_BYTES)


def depthwise_spread(filter_: Array, y: Array, window_axes: Axes, groups: int) -> Array:
    """The image whose windows receive y through the filters: the transpose of ``depthwise``."""
    turned_axes = tuple(around for axis in window_axes if (around := _turned(axis)) is not None)
    # Of stride one the transpose of a convolution is a convolution with the filter turned round.
    if len(filter_) == groups and len(turned_axes) == len(window_axes):
        return depthwise(y, np.ascontiguousarray(np.flip(filter_, tuple(range(2, filter_.ndim)))), turned_axes, groups)
    if len(filter_) == groups and may_compile(filter_, y) and can_loop(window_axes):
        return spread_of(filter_, y, window_axes)
    if len(filter_) == groups and (geometry := _geometry(window_axes)):
        return _spread_by_lines(filter_, y, window_axes, geometry)
    return _spread_by_weights(filter_, y, window_axes, groups)


def depthwise_cotangent(x: Array, y: Array, window_axes: Axes, shape: Shape, groups: int) -> Array:
    """The cotangent of the filters: products of the output's cotangent y with the windows of x, summed over samples and windows."""
    if shape[0] == groups and may_compile(x, y) and can_loop(window_axes):
        total = cotangent_of(x, y, window_axes)
        if total is not None:
            return total.reshape(shape)
    if shape[0] == groups and prod(x.shape[2:]) >= LEAST and (geometry := _geometry(window_axes)):
        return _cotangent_by_lines(x, y, window_axes, geometry).reshape(shape)
    return _cotangent_by_windows(x, y, window_axes, shape, groups)


# -- lines -----------------------------------------------------------------------------------------


class Taps(NamedTuple):
    """The elements of a window along one axis: the k-th of window o is element ``(o + shifts[k]) * stride + phases[k]`` of the image.

    Attributes:
        size: the extent of the image, divided by the stride and rounded up: that of its first phase.
        period: how far apart neighbors in a phase are.
        step: how far apart their shifts are.
    """

    stride: int
    size: int
    phases: tuple[int, ...]
    shifts: tuple[int, ...]
    period: int
    step: int

    @property
    def used(self) -> list[int]:
        """The phases that windows have elements in."""
        return sorted(set(self.phases))

    def of(self, phase: int) -> range:
        """The elements in a phase."""
        return range(self.phases.index(phase), len(self.phases), self.period) if phase in self.phases else range(0)


def _taps(axis: Axis) -> Taps:
    # Element k of window o is at o * stride + k * dilation - before: over the stride, that is o + shift in its phase. The phase repeats
    # after as many k as make k * dilation a multiple of the stride.
    shifts, phases = zip(*(divmod(k * axis.dilation - axis.before, axis.stride) for k in range(axis.kernel)), strict=True)
    common = gcd(axis.dilation, axis.stride)
    return Taps(axis.stride, -(-axis.size // axis.stride), phases, shifts, axis.stride // common, axis.dilation // common)


def _geometry(window_axes: Axes) -> tuple[Taps, Taps] | None:
    """The elements of the windows along height and width; None where lines of the image cannot be moved over each other."""
    if len(window_axes) != 2 or 0 in (*(a.kernel for a in window_axes), *(a.size for a in window_axes)):
        return None
    down, across = map(_taps, window_axes)
    # A line of the result has the pitch of a line of the image only if a row has as many windows as a phase has columns.
    return (down, across) if across.size == window_axes[1].count else None


class Strip(NamedTuple):
    """Images of one channel below each other in a line, with rows of zeros above, between and below them.

    Attributes:
        samples, height, width: of the images.
        top: rows of zeros above the first one.
        pitch: rows from one to the next.
        rows: of all.
        margin: elements of zeros before and after all that.
    """

    samples: int
    height: int
    width: int
    top: int
    pitch: int
    rows: int
    margin: int

    @property
    def length(self) -> int:
        return self.rows * self.width

    @property
    def room(self) -> int:
        """Elements for the rows."""
        return _whole(self.length)

    @property
    def wide(self) -> int:
        """Elements for the rows and the margins."""
        return self.room + 2 * self.margin

    def images(self, memory: Array) -> Array:
        """The images ``[channels, samples, height, width]`` in contiguous memory ``[channels, wide]``."""
        pitches = (self.wide, self.pitch * self.width, self.width, 1)
        return _view(memory, self.margin + self.top * self.width, (len(memory), self.samples, self.height, self.width), pitches)

    def moved(self, memory: Array, shift: int, step: int, count: int) -> Array:
        """``[channels, count, length]`` in contiguous memory ``[channels, wide]``: the rows ``shift`` later, and again ``step`` later."""
        return _view(memory, self.margin + shift, (len(memory), count, self.length), (self.wide, step, 1))

    def wrapped(self, lines: Array, shift: int) -> Array:
        """The columns that come from the row before or after, in lines ``[..., room]`` that are moved by columns."""
        edge = slice(max(self.width - shift, 0), None) if shift > 0 else slice(None, -shift)
        return lines[..., : self.length].reshape(*lines.shape[:-1], self.rows, self.width)[..., edge]


def _whole(elements: int) -> int:
    """As many elements, or some more, so that a line of the cache begins after them."""
    return -(-elements // _ALIGNED) * _ALIGNED


def _view(memory: Array, start: int, shape: Shape, steps: Sequence[int]) -> Array:
    """Elements of contiguous memory from the ``start``-th on, ``steps`` apart along each axis."""
    return np.ndarray(shape, memory.dtype, memory, start * memory.itemsize, tuple(step * memory.itemsize for step in steps))


def _strip(image: Shape, height: int, width: int, shifts: Sequence[int], outputs: int, columns: Sequence[int]) -> Strip:
    """For images of a shape a strip in which each row of an output finds the rows ``shifts`` below it, and columns beside it."""
    samples = image[0] if prod(image[2:]) < SMALL else 1
    top, lowest = max(0, -min(shifts)), max(height, outputs + max(shifts))
    pitch = max(height + max(top, lowest - height), outputs)
    rows = top + (samples - 1) * pitch + max(lowest, outputs)
    return Strip(samples, height, width, top, pitch, rows, _whole(max(map(abs, columns))))


def _parts(samples: int, channels: int, strip: Strip, nbytes: int) -> Iterator[tuple[slice, slice]]:
    """The samples and channels to take at a time, if the lines of a channel take so many bytes."""
    step = max(1, LINE_BYTES // max(nbytes, 1))
    starts = product(range(0, samples, strip.samples), range(0, channels, step)) if samples else ()
    return ((slice(b, b + strip.samples), slice(c, min(c + step, channels))) for b, c in starts)


class _ImageLines:
    """The lines of images of a shape, some channels at a time: ``[channels, phases of the rows, columns of the filter, room]``.

    Attributes:
        nbytes: of the lines of a channel.
        step: how many channels there are at a time.
    """

    def __init__(self, image: Shape, geometry: tuple[Taps, Taps], outputs: int, dtype: np.dtype[np.generic]) -> None:
        self.down, self.across = down, across = geometry
        self.strip = strip = _strip(image, down.size, across.size, down.shifts, outputs, across.shifts)
        self.nbytes = len(down.used) * len(across.phases) * strip.room * dtype.itemsize
        self.parts = tuple(_parts(image[0], image[1], strip, self.nbytes))
        self.step = min(image[1], max(1, LINE_BYTES // self.nbytes))
        self.phases = tuple(product(down.used, across.used))
        self.memory = scratch("lines", (len(self.phases), self.step, strip.wide), dtype)
        self.columns = scratch("columns", (self.step, len(down.used), len(across.phases), strip.room), dtype)
        self.edges = [strip.wrapped(self.columns[:, :, k], shift) for k, shift in enumerate(across.shifts) if shift]
        self.images = [strip.images(line) for line in self.memory]
        self.moves = [self._move(line, *phase) for line, phase in zip(self.memory, self.phases, strict=True)]

    def _move(self, line: Array, row: int, column: int) -> tuple[Array, Array]:
        """The lines of a phase, and what is copied there."""
        taps = self.across.of(column)
        target = self.columns[:, self.down.used.index(row), taps.start :: taps.step, : self.strip.length]
        return target, self.strip.moved(line, self.across.shifts[taps.start], self.across.step, len(taps))

    def of(self, x: Array) -> Iterator[tuple[slice, slice, Array]]:
        """Samples and channels, and their lines."""
        self.memory.fill(0)  # others have written to it
        self.columns[..., self.strip.length :] = 0
        for samples, some in self.parts:
            count = some.stop - some.start
            for image, (row, column) in zip(self.images, self.phases, strict=True):
                part = x[samples, some, row :: self.down.stride, column :: self.across.stride].swapaxes(0, 1)
                np.copyto(image[:count, :, : part.shape[2], : part.shape[3]], part)
            for target, source in self.moves:
                np.copyto(target[:count], source[:count])
            # A line that is moved takes columns of the row before or after: there the padding is, zeros.
            for edge in self.edges:
                edge[:count] = 0
            yield samples, some, self.columns[:count]


def _by_lines(lines: _ImageLines, window_axes: Axes, dtype: np.dtype[np.generic]) -> Product:
    down, across, strip = lines.down, lines.across, lines.strip
    outputs, width = window_axes[0].count, across.size
    # The products of each row of the filter have a place of their own, in which they lie so that the first ones that count are equally far
    # apart: one reduction adds them up.
    starts = [(strip.top + shift) * width for shift in down.shifts]
    slot = strip.room + _whole(max(starts) - min(starts))
    results = scratch("product", (lines.step, len(starts), slot), dtype)
    places = []
    for taps in map(down.of, down.used):
        # The product of the next row of the filter is a slot later, and so many rows earlier in it: it reads the image further down.
        pitches = (len(starts) * slot, taps.step * slot - down.step * width, 1)
        first = taps.start * slot + max(starts) - starts[taps.start]
        places.append((slice(taps.start, None, taps.step), _view(results, first, (lines.step, len(taps), strip.room), pitches)))
    shape = (lines.step, len(starts), strip.samples, outputs * width)
    terms = _view(results, max(starts), shape, (len(starts) * slot, slot, strip.pitch * width, 1))

    def product(x: Array, filter_: Array) -> Array:
        weights = filter_.reshape(x.shape[1], len(down.phases), len(across.phases))
        out = np.empty((*x.shape[:2], outputs * width), dtype)
        for samples, some, columns in lines.of(x):
            count = len(columns)
            for phase, (rows, place) in enumerate(places):
                np.matmul(weights[some, rows], columns[:, phase], out=place[:count])
            np.add.reduce(terms[:count], axis=1, out=out[samples, some].swapaxes(0, 1))
        return out.reshape(*x.shape[:2], outputs, width)

    return product


def _spread_by_lines(filter_: Array, y: Array, window_axes: Axes, geometry: tuple[Taps, Taps]) -> Array:
    down, across = geometry
    n, channels, height, width = y.shape
    # An element of the image is in the windows before it: all is moved the other way.
    strip = _strip(y.shape, height, width, [-shift for shift in down.shifts], down.size, across.shifts)
    weights = filter_.reshape(channels, len(down.phases), len(across.phases))
    out = np.empty((n, channels, *(a.size for a in window_axes)), y.dtype)
    memory = np.empty(0, y.dtype)
    for samples, some in _parts(n, channels, strip, len(across.phases) * strip.room * y.itemsize):
        count = some.stop - some.start
        if not len(memory):
            memory = scratch("lines", (count, strip.wide), y.dtype)
            memory.fill(0)
            columns = scratch("columns", (count, len(across.phases), strip.room), y.dtype)
            columns[..., strip.length :] = 0
            results = scratch("product", (count, len(down.phases), strip.room), y.dtype)
            images = strip.images(memory)
        np.copyto(images[:count], y[samples, some].swapaxes(0, 1))
        # With a stride, an element is in windows of its own residue alone: each residue has some of the taps, or none.
        for column in range(across.stride):
            taps = across.of(column)
            lines = columns[:count, : len(taps)]
            if taps:
                np.copyto(lines[..., : strip.length], strip.moved(memory[:count], -across.shifts[taps.start], -across.step, len(taps)))
            for place, k in enumerate(taps):
                if across.shifts[k]:
                    strip.wrapped(lines[:, place], -across.shifts[k])[...] = 0
            if len(taps) == 1:  # numpy's product of matrices takes five times as long to multiply a column by a row
                np.multiply(weights[some, :, taps.start : taps.start + 1], lines, out=results[:count])
            elif taps:
                np.matmul(weights[some, :, taps.start :: taps.step], lines, out=results[:count])
            for row in range(down.stride):
                into = out[samples, some, row :: down.stride, column :: across.stride].swapaxes(0, 1)
                _collect(results, down, down.of(row) if taps else range(0), strip, into)
    return out


def _collect(results: Array, down: Taps, taps: range, strip: Strip, out: Array) -> None:
    """The sum of the products of some rows of the filter, ``[channels, rows, room]``, into ``[channels, samples, height, width]``."""
    if not taps:
        out[...] = 0
        return
    row, room = strip.width, strip.room
    pitches = (len(down.phases) * room, taps.step * room - down.step * row, strip.pitch * row, row, 1)
    first = taps.start * room + (strip.top - down.shifts[taps.start]) * row
    terms = _view(results, first, (len(out), len(taps), *out.shape[1:]), pitches)
    if len(taps) == 1:
        np.copyto(out, terms[:, 0])
    elif out.strides[-1] == out.itemsize:
        np.add.reduce(terms, axis=1, out=out)
    else:  # elements of a phase, a stride apart, are copied there in a third of the time that it takes to add them there
        np.copyto(out, np.add.reduce(terms, axis=1, out=scratch("total", out.shape, out.dtype)))


def _cotangent_by_lines(x: Array, y: Array, window_axes: Axes, geometry: tuple[Taps, Taps]) -> Array:
    down, across = geometry
    count = window_axes[0].count * across.size
    total = np.zeros((x.shape[1], len(down.phases), len(across.phases)), x.dtype)
    # A sample at a time: between images in one line a zero of y would meet elements of x, which may be infinite.
    lines = _ImageLines((1, *x.shape[1:]), geometry, window_axes[0].count, x.dtype)
    for sample in range(len(x)):
        for _, some, columns in lines.of(x[sample : sample + 1]):
            cotangents = y[sample, some].reshape(len(columns), count, 1)
            for k, (phase, shift) in enumerate(zip(down.phases, down.shifts, strict=True)):
                start = (lines.strip.top + shift) * across.size
                # [columns of the filter, windows] times [windows, 1] for each channel.
                total[some, k] += np.matmul(columns[:, down.used.index(phase), :, start : start + count], cotangents)[..., 0]
    return total


# -- elements of the window ------------------------------------------------------------------------
# Of a small image lines are short and products small: with the channels last, one element of the window after the other is a product of
# long rows. Where an element would meet padding alone, nothing is computed.


def _met(axis: Axis, k: int) -> tuple[slice, slice]:
    """The windows whose k-th element is in the image, and these elements."""
    start = k * axis.dilation - axis.before
    # The windows o with 0 <= o * stride + start < size.
    first = max(0, -(start // axis.stride))
    count = min(axis.count, (axis.size - 1 - start) // axis.stride + 1) - first
    if count <= 0:
        return slice(0), slice(0)
    begin = first * axis.stride + start
    return slice(first, first + count), slice(begin, begin + (count - 1) * axis.stride + 1, axis.stride)


def _meetings(window_axes: Axes) -> list[tuple[int, tuple[slice, slice], tuple[slice, slice]]]:
    """For each element of the window that is in the image for some windows its number, these windows, and where it is for them."""
    down, across = window_axes
    pairs = product((_met(down, k) for k in range(down.kernel)), (_met(across, k) for k in range(across.kernel)))
    met = ((number, (rows[0], columns[0]), (rows[1], columns[1])) for number, (rows, columns) in enumerate(pairs))
    return [meeting for meeting in met if all(part.stop for part in meeting[1])]


def _taps_are_quicker(lines: _ImageLines, image: Shape, window_axes: Axes) -> bool:
    """Whether taps are quicker than lines, by a model of their times in nanoseconds, fitted to 26 shapes of MobileNet and of RapidOCR's
    networks."""
    n, channels = image[:2]
    down, across = (a.kernel for a in window_axes)
    met = [prod(part.stop - part.start for part in windows_met) for _, windows_met, _ in _meetings(window_axes)]
    outputs = n * channels * prod(extents_of(window_axes))
    by_taps = 2000 * len(met) + 0.33 * n * channels * sum(met) + outputs
    traffic = len(lines.down.used) * channels * lines.strip.room * n // lines.strip.samples
    calls = channels * len(lines.down.used) * n // lines.strip.samples
    by_lines = 250 * calls + (0.35 * across + 0.1) * traffic + (0.15 * down + 0.2) * outputs
    return bool(by_taps < by_lines)


def _by_taps(shape: Shape, window_axes: Axes, dtype: np.dtype[np.generic]) -> Product:
    (n, channels), extents = shape[:2], extents_of(window_axes)
    image = scratch("lines", (n, *shape[2:], channels), dtype)
    total = scratch("columns", (n, *extents, channels), dtype)
    terms = scratch("product", (total.size,), dtype)
    calls = []
    # out[i, j] is the sum over the taps of x, moved by the tap, times its weight. Channels are last, so that the weights of a tap are one
    # row that multiplies neighbors in memory.
    for number, (rows, columns), (down, across) in _meetings(window_axes):
        place = total[:, rows, columns]
        calls.append((number, image[:, down, across], terms[: place.size].reshape(place.shape), place))

    def product(x: Array, filter_: Array) -> Array:
        weights = np.ascontiguousarray(filter_.reshape(channels, -1).T)
        np.copyto(image, x.transpose(0, 2, 3, 1))
        total.fill(0)
        for number, part, term, place in calls:
            np.multiply(part, weights[number], term)
            np.add(place, term, place)
        return np.array(total.transpose(0, 3, 1, 2), order="C")

    return product


# -- windows ---------------------------------------------------------------------------------------


def _by_windows(x: Array, filter_: Array, window_axes: Axes, groups: int) -> Array:
    """Every feature from one channel: a row times the columns of its channel."""
    rows = filter_.reshape(groups, len(filter_) // groups, prod(filter_.shape[1:]))
    extents, lines = extents_of(window_axes), lines_of(window_axes)
    out = np.empty((len(x), groups, rows.shape[1], *extents), x.dtype)
    product = view = np.empty(0, x.dtype)
    for sample, channels, columns in _channel_columns(x, window_axes, lines):
        size = len(columns)
        if len(product) < size:  # the first ones are as many as any
            product = scratch("product", (size, rows.shape[1], columns.shape[2]), x.dtype)
            view = product.reshape(size, rows.shape[1], *extents) if lines is None else lines.view(product, extents)
        np.matmul(rows[channels], columns, out=product[:size])
        out[sample, channels] = view[:size]
    return out.reshape(len(x), len(filter_), *extents)


def _channel_columns(x: Array, window_axes: Axes, lines: Lines | None) -> Iterator[tuple[int, slice, Array]]:
    """The windows of some channels of a sample at a time, so many as the cache holds: which, and ``[channels, kernel, windows]``."""
    wide, groups = padded(x, window_axes), x.shape[1]
    views = windows(wide, window_axes) if lines is None else lines.windows(np.ascontiguousarray(wide), window_axes)
    depth, count = prod(kernel_of(window_axes)), prod(extents_of(window_axes)) if lines is None else lines.length
    step = min(groups, max(1, CACHED_BYTES // max(depth * count * x.itemsize, 1)))
    memory = scratch("columns", (step, *views.shape[2:]), x.dtype)
    for sample, image in enumerate(views):
        for start in range(0, groups, step):
            columns = memory[: min(step, groups - start)]
            np.copyto(columns, image[start : start + step])
            yield sample, slice(start, start + step), columns.reshape(len(columns), depth, count)


def _turned(axis: Axis) -> Axis | None:
    """The windows of an output, one for each element of the image, that hold what the element was multiplied into, with the filter turned
    round; None where they have gaps, as with a stride."""
    # x[i] meets element k of window i + before - k * dilation: with k from the last on, the windows come in their order.
    before = axis.reach - 1 - axis.before
    after = axis.size - 1 + axis.reach - before - axis.count
    if axis.stride > 1 or before < 0 or after < 0:
        return None
    return Axis(axis.count, axis.kernel, 1, axis.dilation, before, after, axis.size)


def _spread_by_weights(filter_: Array, y: Array, window_axes: Axes, groups: int) -> Array:
    extents = extents_of(window_axes)
    padded_image = np.zeros((len(y), groups, *(a.padded for a in window_axes)), y.dtype)
    parts = y.reshape(len(y), groups, len(filter_) // groups, *extents)
    for image, part in zip(padded_image, parts, strict=True):
        # One weight at a time, for all windows at once: as many vector operations as the filter has elements.
        for at in np.ndindex(*kernel_of(window_axes)):
            terms = part * filter_[last(at)].reshape(*part.shape[:2], *(1 for _ in extents))
            place = image[element(window_axes, at)]
            np.add(place, np.add.reduce(terms, axis=1) if terms.shape[1] > 1 else terms[:, 0], out=place)
    return np.asarray(padded_image[inside(window_axes)])


def _cotangent_by_windows(x: Array, y: Array, window_axes: Axes, shape: Shape, groups: int) -> Array:
    lines, total = lines_of(window_axes), np.zeros((groups, prod(shape[1:]), shape[0] // groups), x.dtype)
    cotangents = spaced(y, lines)
    parts = cotangents.reshape(len(y), groups, shape[0] // groups, cotangents.shape[2]).swapaxes(2, 3)
    for sample, channels, columns in _channel_columns(x, window_axes, lines):
        total[channels] += np.matmul(columns, parts[sample, channels])
    return total.swapaxes(1, 2).reshape(shape)
