"""Gradients of maxima over windows: every pooled value goes to the first place of its window that has the maximum.

    a b c d      stride 2: what is two       a c   b d   e g   f h       the windows' first elements are a run of the first
    e f g h   ⇒  places apart is put     ⇒   i k   j l   m o   n p   ⇒   phase, their second ones a run of the second, the
    i j k l      side by side                                            next a later run of the first: ``x != peaks`` of runs
    m n o p

Comparisons of runs are vector operations of the processor, those of elements two apart are not. Places are counted for as long as they
differ from the peak, in bytes, which gives the number of the first that does not. One sum over flat indices does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from graphad.ops.formulas import Tracer, Untraceable
from graphad.ops.loops import may_compile
from graphad.ops.scratch import aligned, scratch
from graphad.ops.window_loops import can_loop, scattered_by_loop
from graphad.ops.windows import Axes, Axis, check_fit, extents_of, inside, kernel_of, last, padded
from graphad.types import Array, Shape

CACHED_BYTES = 1 << 18  # of an image whose windows are visited at a time
LEAST = 1 << 18  # elements of all windows from which on runs pay
LEAST_LOOP, MOST_TAPS = 1 << 12, 49  # the same for compiled loops; elements of a window up to which one is compiled in seconds
TILE = 1 << 17  # elements of the images that are worked on at a time: what is made of them stays in a cache of the second level


def scattered(X: Array, peaks: Array, pooled: Array, window_axes: Axes) -> Array:
    """Every pooled value at the first place of its window where X is the largest, ``[N, C, ...]``; a window with nan has no such place."""
    taps = prod(kernel_of(window_axes))
    visited, is_apart = prod(peaks.shape) * taps, all(a.stride >= a.reach for a in window_axes)
    is_loop = visited >= LEAST_LOOP and taps <= MOST_TAPS and may_compile(X, peaks, pooled) and can_loop(window_axes)
    # Windows that do not overlap write each place once, which is as quick element by element; few would take longer for the tables.
    if not is_loop and (is_apart or visited < LEAST):
        return _by_elements(X, peaks, pooled, window_axes, is_apart)
    if isinstance(X, Tracer):
        raise Untraceable("places of maxima")
    if is_loop:
        return scattered_by_loop(X, peaks, pooled, window_axes)
    return _by_runs(X, peaks, pooled, window_axes)


def lowest(X: Array, window_axes: Axes) -> Array:
    """X with the lowest value around it."""
    return padded(X, window_axes, _least(X.dtype))


def _least(dtype: np.dtype[np.generic]) -> float:
    # Padding is never the largest: it is the lowest number of the dtype.
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype.name).min


# -- element by element of the windows -----------------------------------------------------------


def places(window_axes: Axes) -> Iterator[tuple[slice, ...]]:
    """The elements of a window in row order, each taken of all windows."""
    return product(*([axis.at(k) for k in range(axis.kernel)] for axis in window_axes))


def in_cache(image: Shape, itemsize: int) -> Iterator[slice]:
    """Samples of an image of this shape in turns, a few at a time: all places of their windows are visited while they are in the cache."""
    step = max(1, CACHED_BYTES // max(prod(image[1:]) * itemsize, 1))
    return (slice(start, start + step) for start in range(0, image[0], step))


def _by_elements(X: Array, peaks: Array, pooled: Array, window_axes: Axes, is_apart: bool) -> Array:
    x = lowest(X, window_axes)
    # If windows that do not overlap cover all of it, nothing has to be zero before.
    covering = is_apart and all(a.dilation == 1 and a.padded == a.count * a.kernel for a in window_axes)
    image = np.empty(x.shape, pooled.dtype) if covering else np.zeros(x.shape, pooled.dtype)
    for part in in_cache(x.shape, x.itemsize):
        _scatter(x[part], peaks[part], pooled[part], window_axes, is_apart, image[part])
    return np.asarray(image[inside(window_axes)])


def _scatter(x: Array, peaks: Array, pooled: Array, window_axes: Axes, is_apart: bool, image: Array) -> None:
    todo: Array | None = None  # the windows whose largest element was at none of the places before
    for place in places(window_axes):
        mask, target = x[last(place)] == peaks, image[last(place)]
        mask = mask if todo is None else mask & todo
        # Where windows overlap, a place may be the peak of several: it gets the sum.
        np.multiply(pooled, mask, out=target) if is_apart else np.add(target, pooled * mask, out=target)
        todo = np.logical_not(mask) if todo is None else todo ^ mask


# -- runs of the phases --------------------------------------------------------------------------


def _by_runs(X: Array, peaks: Array, pooled: Array, window_axes: Axes) -> Array:
    check_fit("X", X.shape[2:], tuple(a.size for a in window_axes))
    count, extents = prod(X.shape[:2]), tuple(a.padded for a in window_axes)
    x, tops, values = (np.ascontiguousarray(array).reshape(count, *array.shape[2:]) for array in (X, peaks, pooled))
    out = aligned(x.shape, values.dtype)
    tiles = _Tiles(window_axes, count, x.dtype)
    image = out if extents == x.shape[1:] else scratch("image", (tiles.most, *extents), values.dtype)
    for part in tiles.parts(count):
        number, missing = tiles.first_places(x[part], tops[part])
        some = values[part]
        if missing.any():
            some, number = np.where(missing, values.dtype.type(0), some), np.where(missing, number.dtype.type(0), number)
        into = out[part] if image is out else image[: len(some)]
        into.fill(0)
        # A place may be the peak of several windows. The last of them is added first: the order that ``_by_elements`` adds in.
        np.add.at(into.reshape(-1), tiles.flat(number)[::-1], some.reshape(-1)[::-1])
        if image is not out:
            np.copyto(out[part], into[inside(window_axes)])
    return out.reshape(X.shape)


class _Run(NamedTuple):
    """An element of every window: the phase it is in, and where its run begins in the line of the phase."""

    phase: Shape
    start: int


def _runs(window_axes: Axes, cells: Shape) -> Iterator[_Run]:
    """A run for each element of a window, in row order."""
    for place in np.ndindex(*kernel_of(window_axes)):
        steps = [divmod(k * a.dilation, a.stride) for k, a in zip(place, window_axes, strict=True)]
        yield _Run(tuple(phase for _, phase in steps), int(np.ravel_multi_index([shift for shift, _ in steps], cells)))


def _cut(axis: Axis, phase: int) -> tuple[slice, slice]:
    """The elements of a phase that are in the image, and the elements of the image that these are; the other ones are padding."""
    first = max(0, -(-(axis.before - phase) // axis.stride))
    start = first * axis.stride + phase - axis.before
    count = len(range(start, axis.size, axis.stride))
    return slice(first, first + count), slice(start, axis.size, axis.stride)


class _Tiles:
    """Some of many images ``[images, ...]`` at a time, padded and taken apart into phases; the memory is reused for each tile."""

    def __init__(self, window_axes: Axes, images: int, dtype: np.dtype[np.generic]) -> None:
        # The stride of a single window means nothing: its elements are a phase each.
        window_axes = tuple(replace(a, stride=a.padded) if a.count == 1 else a for a in window_axes)
        extents = tuple(a.padded for a in window_axes)
        self.counts = extents_of(window_axes)
        self.cells = tuple(-(-a.padded // a.stride) for a in window_axes)
        count = -(-images // max(1, -(-images * prod(extents) // TILE)))  # tiles of one size, except for the last
        self.most = max(1, count)
        self.runs = list(_runs(window_axes, self.cells))
        self.phases = scratch("phases", (*(a.stride for a in window_axes), self.most, *self.cells), dtype)
        self.phases.fill(_least(dtype))
        self.copies = []
        for phase in sorted({run.phase for run in self.runs}):
            cuts = [_cut(a, p) for a, p in zip(window_axes, phase, strict=True)]
            self.copies.append((self.phases[phase], (slice(None), *(to for to, _ in cuts)), (slice(None), *(of for _, of in cuts))))
        self.lines = {
            use: scratch(use, (self.most, *self.cells), kind)
            for use, kind in (
                ("peaks", dtype),
                ("differs", np.dtype(bool)),
                ("todo", np.dtype(bool)),
                ("number", np.min_scalar_type(len(self.runs))),
            )
        }
        self.lines["peaks"].fill(0)
        self.index = scratch("index", (self.most, prod(self.counts)), np.dtype(np.intp))
        self._number_places(window_axes, extents)

    def _number_places(self, window_axes: Axes, extents: Shape) -> None:
        """Set the offset of each element of a window from its first, and the starts of the windows, in the line of padded images."""
        pitches = [prod(extents[i + 1 :]) for i in range(len(extents))]
        steps = [a.dilation * pitch for a, pitch in zip(window_axes, pitches, strict=True)]
        self.offsets = np.array([np.dot(place, steps) for place in np.ndindex(*kernel_of(window_axes))], np.intp)
        starts = [np.arange(a.count) * (a.stride * pitch) for a, pitch in zip(window_axes, pitches, strict=True)]
        grid = np.ix_(np.arange(self.most) * prod(extents), *starts)
        self.starts = np.asarray(sum(grid)).reshape(self.most, -1)

    def parts(self, images: int) -> Iterator[slice]:
        """The images of each tile."""
        return (slice(start, min(start + self.most, images)) for start in range(0, images, self.most))

    def first_places(self, x: Array, peaks: Array) -> tuple[Array, Array]:
        """The number of the first element of every window that is its peak, and whether none is, ``[images, *counts]``."""
        windows = (slice(len(x)), *map(slice, self.counts))
        for phase, to, of in self.copies:
            np.copyto(phase[: len(x)][to], x[of])
        np.copyto(self.lines["peaks"][windows], peaks)
        # Windows over the edges of the image are compared as well, with zeros, and left out at the end.
        length = len(x) * prod(self.cells) - max(run.start for run in self.runs)
        tops, differs, todo, number = (line.reshape(-1)[:length] for line in self.lines.values())
        number.fill(0)
        todo.fill(True)
        for run in self.runs:
            np.not_equal(self.phases[run.phase].reshape(-1)[run.start : run.start + length], tops, out=differs)
            np.logical_and(todo, differs, out=todo)
            np.add(number, todo.view(np.uint8), out=number)
        return self.lines["number"][windows], self.lines["todo"][windows]

    def flat(self, number: Array) -> Array:
        """Numbers of places as indices into the line of the padded images of a tile."""
        index = self.index[: len(number)]
        np.take(self.offsets, number.reshape(index.shape), out=index, mode="clip")
        np.add(index, self.starts[: len(number)], out=index)
        return index.reshape(-1)
