"""The windows of a pooling, and its kernels on arrays ``[N, C, ...]`` over any number of spatial axes.

An average is taken over boxes, so it is a product with one matrix for each axis. A maximum is found element by element of
the window, over all windows at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from math import prod

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.definition import Array
from graphad.ops.windows import Axes, Axis, axes, element, inside, last, numbers, padded
from graphad.types import Shape

Bounds = list[tuple[int, int]]


@dataclass(eq=False, repr=False)
class Pooling:
    """The attributes of a pooling over height and width."""

    pooling_type: str
    ksize: list[int]
    strides: list[int] = field(default_factory=lambda: [1, 1])
    paddings: list[int] = field(default_factory=lambda: [0, 0])
    padding_algorithm: str = "EXPLICIT"
    global_pooling: bool = False
    adaptive: bool = False
    ceil_mode: bool = False
    exclusive: bool = True
    data_format: str = "NCHW"

    def counts(self, image: Shape) -> tuple[int, ...]:
        """The number of windows along every axis, -1 where not known; ShapeError where a window would hold nothing."""
        if 0 in image[2:]:
            raise ShapeError(f"X has the shape {list(image)}: there is nothing to pool along an axis of no elements")
        if self.global_pooling:
            return (1,) * len(image[2:])
        if self.adaptive:
            return numbers("ksize", self.ksize, len(image[2:]))
        return tuple(a.count for a in self.sliding(image))

    def axes(self, image: Shape) -> Axes | None:
        """The windows, each with an element of the image in it; None if, being adaptive, they differ in extent."""
        size = image[2:]
        if self.global_pooling:
            return axes(size, size, strides=(1,), paddings=(0,))
        if self.adaptive:
            counts = numbers("ksize", self.ksize, len(size))
            extents = [n // k for n, k in zip(size, counts, strict=True)]
            whole = all(n % k == 0 and n > 0 for n, k in zip(size, counts, strict=True))
            return axes(size, extents, strides=extents, paddings=(0,)) if whole else None
        return self.sliding(image)

    def sliding(self, image: Shape) -> Axes:
        """The windows of a pooling that is neither global nor adaptive."""
        found = axes(
            image[2:],
            numbers("ksize", self.ksize, len(image[2:])),
            strides=self.strides,
            paddings=self.paddings,
            padding_algorithm=self.padding_algorithm,
            ceil_mode=self.ceil_mode,
        )
        for axis in found:
            if axis.before >= axis.kernel or (axis.count - 1) * axis.stride - axis.before >= axis.size >= 0:
                raise ShapeError(f"X has the shape {list(image)}: with {self} there is a window of padding only")
        return found

    def bounds(self, image: Shape) -> list[Bounds]:
        """Where the windows begin and end within the image, along each of its axes."""
        found = self.axes(image)
        if found is None:
            return list(map(_even_bounds, image[2:], numbers("ksize", self.ksize, len(image[2:]))))
        return list(map(_axis_bounds, found))


def _even_bounds(size: int, count: int) -> Bounds:
    """The windows of an adaptive pooling."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _axis_bounds(axis: Axis) -> Bounds:
    starts = range(-axis.before, axis.count * axis.stride - axis.before, axis.stride)
    return [(max(s, 0), min(s + axis.kernel, axis.size)) for s in starts]


# -- averages ------------------------------------------------------------------------------------


def averaging(pooling: Pooling, image: Shape, dtype: np.dtype[np.generic]) -> list[Array]:
    """Matrices ``[windows, size]`` of the averages along each axis."""
    bounds = pooling.bounds(image)
    divisors: list[list[int]] = [[stop - start for start, stop in each] for each in bounds]
    if not (pooling.exclusive or pooling.adaptive or pooling.global_pooling):
        divisors = [_padded_extents(axis) for axis in pooling.sliding(image)]
    return [_weights(*each, dtype) for each in zip(bounds, image[2:], divisors, strict=True)]


def _padded_extents(axis: Axis) -> list[int]:
    """The extents of the windows, the padding counted but nothing beyond it."""
    last = axis.before + axis.size + axis.after
    return [min(k * axis.stride + axis.kernel, last) - k * axis.stride for k in range(axis.count)]


def _weights(bounds: Bounds, size: int, divisors: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
    matrix = np.zeros((len(bounds), size), dtype)
    for row, (start, stop), divisor in zip(matrix, bounds, divisors, strict=True):
        row[start:stop] = 1.0 / divisor
    return matrix


def along_axes(matrices: Sequence[Array], x: Array) -> Array:
    """x multiplied by a matrix ``[new, old]`` along each of its spatial axes, the last one first."""
    for axis, matrix in reversed(list(enumerate(matrices, 2))):
        x = _along(matrix, x, axis)
    return x


def _along(matrix: Array, x: Array, axis: int) -> Array:
    before, (size, *after) = x.shape[:axis], x.shape[axis:]
    new = len(matrix)
    if not after:
        return np.asarray(x.reshape(prod(before), size) @ matrix.T).reshape(*before, new)
    return np.asarray(matrix @ x.reshape(*before, size, prod(after))).reshape(*before, new, *after)


# -- maxima --------------------------------------------------------------------------------------


def _places(found: Axes) -> Iterator[tuple[slice, ...]]:
    """The elements of a window in row order, each taken of all windows."""
    return product(*([axis.at(k) for k in range(axis.kernel)] for axis in found))


def _lowest(X: Array, found: Axes) -> Array:
    """X with the lowest value around it."""
    return padded(X, found, -np.inf if X.dtype.kind == "f" else np.iinfo(X.dtype).min)


def largest(X: Array, found: Axes) -> Array:
    """The largest element of every window, axis by axis."""
    return np.ascontiguousarray(reduce(_largest_along, enumerate(found, 2), _lowest(X, found)))


def _largest_along(x: Array, numbered: tuple[int, Axis]) -> Array:
    place, axis = numbered
    lead = (slice(None),) * place
    out = x[(*lead, axis.at(0))]
    for k in range(1, axis.kernel):
        out = np.maximum(out, x[(*lead, axis.at(k))])
    return out


def scattered(X: Array, peaks: Array, pooled: Array, found: Axes) -> Array:
    """Every pooled value at the first place of its window where X is the largest."""
    x, todo = _lowest(X, found), np.ones(peaks.shape, bool)
    image = np.zeros(x.shape, pooled.dtype)
    apart = all(a.stride >= a.kernel for a in found)
    for where in _places(found):
        hit, place = (x[last(where)] == peaks) & todo, image[last(where)]
        np.multiply(pooled, hit, out=place) if apart else np.add(place, pooled * hit, out=place)
        todo ^= hit
    return np.asarray(image[inside(found)])


def gathered(X: Array, image: Array, found: Axes) -> Array:
    """From every window, the image at the first place where X is the largest."""
    x, values, peaks = _lowest(X, found), padded(image, found), largest(X, found)
    out = np.zeros(peaks.shape, image.dtype)
    for where in reversed(list(_places(found))):
        out = np.where(x[last(where)] == peaks, values[last(where)], out)
    return out


def numbered(X: Array, peaks: Array, found: Axes) -> Array:
    """Where the first largest element of every window is, as its number in its channel; the windows are of one extent."""
    x, out, todo = _lowest(X, found), np.zeros(peaks.shape, np.intp), np.ones(peaks.shape, bool)
    for place in np.ndindex(*(axis.kernel for axis in found)):
        hit = (x[element(found, place)] == peaks) & todo
        at = np.ix_(*(np.arange(axis.count) * axis.stride + k - axis.before for axis, k in zip(found, place, strict=True)))
        number = sum(along * prod(X.shape[axis + 1 :]) for axis, along in enumerate(at, 2))
        np.copyto(out, number, where=hit)
        todo ^= hit
    return out


def first_largest(X: Array, pooling: Pooling) -> Array:
    """Where the first largest element of every window is, as its number in the sample's channel ``[N, C, *counts]``."""
    n, c, *size = X.shape
    bounds = pooling.bounds(X.shape)
    out = np.empty((n, c, *map(len, bounds)), np.intp)
    for window in np.ndindex(*out.shape[2:]):
        box = [each[k] for each, k in zip(bounds, window, strict=True)]
        part = X[last(slice(start, stop) for start, stop in box)]
        inner = np.unravel_index(part.reshape(n, c, prod(part.shape[2:])).argmax(axis=2), part.shape[2:])
        places = [start + along for (start, _), along in zip(box, inner, strict=True)]
        out[last(window)] = np.ravel_multi_index(tuple(places), tuple(size))
    return out


def taken(image: Array, index: Array) -> Array:
    """The elements of every channel at their numbers."""
    n, c = index.shape[:2]
    flat = image.reshape(n, c, prod(image.shape[2:]))
    return np.take_along_axis(flat, index.reshape(n, c, prod(index.shape[2:])), axis=2).reshape(index.shape)


def put(values: Array, index: Array, shape: Shape) -> Array:
    """Zeros with the values added at their numbers in every channel."""
    n, c = shape[:2]
    size = prod(shape[2:])
    channel = np.arange(n * c).reshape(n, c, *(1 for _ in index.shape[2:])) * size
    flat = np.zeros(n * c * size, values.dtype)
    np.add.at(flat, (index + channel).reshape(-1), values.reshape(-1))
    return flat.reshape(shape)
