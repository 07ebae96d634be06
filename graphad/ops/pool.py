"""Poolings over windows of an image.

An average is linear: ``pool2d`` and ``pool2d_spread`` are each other's transpose. A maximum picks, while X
stays fixed, one element of every window (the first of the largest): ``pool2d_gather_max`` picks from
another image, ``pool2d_scatter_max`` puts back, and these two are each other's transpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.attributes import applied, attributes
from graphad.ops.definition import GRAD, Array, Inputs, Outputs, Tensor, grad_kernel, operator
from graphad.ops.inference import matched, same_dtypes
from graphad.ops.windows import Axis, axes, check_images, padded, pair
from graphad.types import FLOATS, Shape, TensorType

Bounds = list[tuple[int, int]]


@dataclass(frozen=True)
class Pooling:
    """The attributes of a pooling."""

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

    def axes(self, image: Shape) -> tuple[Axis, Axis] | None:
        """The windows, each with an element of the image in it; None if, being adaptive, they differ in extent."""
        size = image[2:]
        if self.global_pooling:
            return axes(size, size, strides=(1, 1), paddings=(0, 0))
        if self.adaptive:
            counts = pair("ksize", self.ksize)
            extents = [n // k for n, k in zip(size, counts, strict=True)]
            whole = all(n % k == 0 and n > 0 for n, k in zip(size, counts, strict=True))
            return axes(size, extents, strides=extents, paddings=(0, 0)) if whole else None
        return self.sliding(image)

    def sliding(self, image: Shape) -> tuple[Axis, Axis]:
        """The windows of a pooling that is neither global nor adaptive."""
        h, w = axes(
            image[2:],
            pair("ksize", self.ksize),
            strides=self.strides,
            paddings=self.paddings,
            padding_algorithm=self.padding_algorithm,
            ceil_mode=self.ceil_mode,
        )
        for axis in (h, w):
            if axis.before >= axis.kernel or (axis.count - 1) * axis.stride - axis.before >= axis.size >= 0:
                raise ShapeError(f"X has the shape {list(image)}: with {self} there is a window of padding only")
        return h, w

    def bounds(self, image: Shape) -> tuple[Bounds, Bounds]:
        """Where the windows begin and end within the image, along its height and its width."""
        found = self.axes(image)
        if found is None:
            down, across = map(_even_bounds, image[2:], pair("ksize", self.ksize))
        else:
            down, across = map(_axis_bounds, found)
        return down, across


def _even_bounds(size: int, count: int) -> Bounds:
    """The windows of an adaptive pooling."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _axis_bounds(axis: Axis) -> Bounds:
    starts = range(-axis.before, axis.count * axis.stride - axis.before, axis.stride)
    return [(max(s, 0), min(s + axis.kernel, axis.size)) for s in starts]


# -- types ---------------------------------------------------------------------------------------


def _pooled_type(X: TensorType, **attrs: Any) -> TensorType:
    pooling = Pooling(**attrs)
    check_images(pooling.data_format, X=X)
    if pooling.pooling_type not in ("max", "avg"):
        raise ShapeError(f"pooling_type={pooling.pooling_type!r} is not 'max' or 'avg'")
    if pooling.pooling_type == "avg" and X.dtype not in FLOATS:
        raise ShapeError(f"X is {X}: an average is taken of floating-point numbers")
    if pooling.global_pooling:
        return TensorType((*X.shape[:2], 1, 1), X.dtype)
    if pooling.adaptive:
        return TensorType((*X.shape[:2], *pair("ksize", pooling.ksize)), X.dtype)
    h, w = pooling.sliding(X.shape)
    return TensorType((*X.shape[:2], h.count, w.count), X.dtype)


def _spread_type(X: TensorType, Like: TensorType, **attrs: Any) -> TensorType:
    _check_fits("X", X, _pooled_type(Like, **attrs))
    return TensorType(Like.shape, X.dtype)


def _gathered_type(X: TensorType, Image: TensorType, **attrs: Any) -> TensorType:
    _check_fits("Image", Image, X)
    return TensorType(_pooled_type(X, **attrs).shape, same_dtypes(X=X, Image=Image))


def _scattered_type(X: TensorType, Pooled: TensorType, **attrs: Any) -> TensorType:
    _check_fits("Pooled", Pooled, _pooled_type(X, **attrs))
    return TensorType(X.shape, same_dtypes(X=X, Pooled=Pooled))


def _check_fits(name: str, got: TensorType, expected: TensorType) -> None:
    if len(got.shape) != len(expected.shape) or not all(map(matched, got.shape, expected.shape)):
        raise ShapeError(f"{name} is {got}; the shape {list(expected.shape)} is expected")


# -- averages: over rectangles, so one matrix for each of the two axes ---------------------------


def _averaging(pooling: Pooling, image: Shape, dtype: Any) -> tuple[Array, Array]:
    """Matrices ``[windows, size]`` of the averages down and across."""
    down, across = pooling.bounds(image)
    divisors = [[stop - start for start, stop in bounds] for bounds in (down, across)]
    if not (pooling.exclusive or pooling.adaptive or pooling.global_pooling):
        divisors = [_extents(axis) for axis in pooling.sliding(image)]
    return _weights(down, image[2], divisors[0], dtype), _weights(across, image[3], divisors[1], dtype)


def _extents(axis: Axis) -> list[int]:
    """The extents of the windows, the padding counted but nothing beyond it."""
    last = axis.before + axis.size + axis.after
    return [min(k * axis.stride + axis.kernel, last) - k * axis.stride for k in range(axis.count)]


def _weights(bounds: Bounds, size: int, divisors: Sequence[int], dtype: Any) -> Array:
    matrix = np.zeros((len(bounds), size), dtype)
    for row, (start, stop), divisor in zip(matrix, bounds, divisors, strict=True):
        row[start:stop] = 1.0 / divisor
    return matrix


def _product(down: Array, image: Array, across: Array) -> Array:
    """``down @ image @ across``, all rows of the images laid under each other for the second product."""
    n, c, height, width = image.shape
    rows = image.reshape(n * c * height, width) @ across
    return np.asarray(down @ rows.reshape(n, c, height, across.shape[1]))


# -- maxima: element by element of the window, over all windows at once --------------------------


def _places(h: Axis, w: Axis) -> Iterator[tuple[slice, slice]]:
    """The elements of a window in row order, each taken of all windows."""
    return ((h.at(i), w.at(j)) for i in range(h.kernel) for j in range(w.kernel))


def _padded(X: Array, h: Axis, w: Axis) -> Array:
    return padded(X, h, w, -np.inf if X.dtype.kind == "f" else np.iinfo(X.dtype).min)


def _largest(X: Array, h: Axis, w: Axis) -> Array:
    """The largest element of every window: down first, then across."""
    x = _padded(X, h, w)
    rows = x[:, :, h.at(0)]
    for i in range(1, h.kernel):
        rows = np.maximum(rows, x[:, :, h.at(i)])
    out = rows[..., w.at(0)]
    for j in range(1, w.kernel):
        out = np.maximum(out, rows[..., w.at(j)])
    return np.ascontiguousarray(out)


def _scatter(X: Array, largest: Array, pooled: Array, h: Axis, w: Axis) -> Array:
    """Every pooled value at the first place of its window where X is the largest."""
    x, todo = _padded(X, h, w), np.ones(largest.shape, bool)
    image = np.zeros(x.shape, pooled.dtype)
    apart = h.stride >= h.kernel and w.stride >= w.kernel
    for down, across in _places(h, w):
        hit, place = (x[:, :, down, across] == largest) & todo, image[:, :, down, across]
        np.multiply(pooled, hit, out=place) if apart else np.add(place, pooled * hit, out=place)
        todo ^= hit
    return image[:, :, h.inside, w.inside]


def _gather(X: Array, image: Array, h: Axis, w: Axis) -> Array:
    """From every window, the image at the first place where X is the largest."""
    x, values, largest = _padded(X, h, w), padded(image, h, w), _largest(X, h, w)
    out = np.zeros_like(largest)
    for down, across in reversed(list(_places(h, w))):
        out = np.where(x[:, :, down, across] == largest, values[:, :, down, across], out)
    return out


def _first_largest(X: Array, pooling: Pooling) -> tuple[Array, ...]:
    """The index of the first largest element of every window, where windows differ in extent."""
    n, c = X.shape[:2]
    down, across = pooling.bounds(X.shape)
    rows, columns = np.empty((2, n, c, len(down), len(across)), np.intp)
    for i, (top, bottom) in enumerate(down):
        for j, (left, right) in enumerate(across):
            place = X[:, :, top:bottom, left:right].reshape(n, c, -1).argmax(axis=2)
            rows[:, :, i, j], columns[:, :, i, j] = top + place // (right - left), left + place % (right - left)
    return np.arange(n)[:, None, None, None], np.arange(c)[:, None, None], rows, columns


# -- operators -----------------------------------------------------------------------------------


@attributes(Pooling)
def _pool2d_grad(X: Tensor, Out: Tensor, dOut: Tensor, **attrs: Any) -> Tensor:
    return pool2d_scatter_max(X, dOut, **attrs) if attrs["pooling_type"] == "max" else pool2d_spread(dOut, X, **attrs)


@operator("X -> Out", infer=_pooled_type, grad={"X": _pool2d_grad})
@attributes(Pooling)
def pool2d(X: Array, **attrs: Any) -> Array:
    """The largest element ("max") or the average ("avg") of every window of ``[N, C, H, W]``.

    ``adaptive`` takes ``ksize`` as the number of windows; an average that is not ``exclusive`` counts the padding.
    """
    pooling = Pooling(**attrs)
    if pooling.pooling_type == "avg":
        down, across = _averaging(pooling, X.shape, X.dtype)
        return _product(down, X, across.T)
    found = pooling.axes(X.shape)
    return _largest(X, *found) if found else X[_first_largest(X, pooling)]


@operator("X Like -> Out", infer=_spread_type, grad={"X": applied("pool2d", "dOut", Pooling)})
@attributes(Pooling)
def pool2d_spread(X: Array, Like: Array, **attrs: Any) -> Array:
    """The transpose of average pooling: X shared out over the windows. Only Like's shape, the image's, is read."""
    down, across = _averaging(Pooling(**attrs), Like.shape, X.dtype)
    return _product(down.T, X, across)


@operator("X Image -> Out", infer=_gathered_type, grad={"Image": applied("pool2d_scatter_max", "X dOut", Pooling)})
@attributes(Pooling)
def pool2d_gather_max(X: Array, Image: Array, **attrs: Any) -> Array:
    """From every window, Image at the first place where X is the largest."""
    pooling = Pooling(**attrs)
    found = pooling.axes(X.shape)
    return _gather(X, Image, *found) if found else Image[_first_largest(X, pooling)]


@operator("X Pooled -> Out", infer=_scattered_type, grad={"Pooled": applied("pool2d_gather_max", "X dOut", Pooling)})
@attributes(Pooling)
def pool2d_scatter_max(X: Array, Pooled: Array, **attrs: Any) -> Array:
    """Zeros but, in every window, Pooled at the first place where X is the largest."""
    pooling = Pooling(**attrs)
    found = pooling.axes(X.shape)
    if found:
        return _scatter(X, _largest(X, *found), Pooled, *found)
    image = np.zeros_like(X)
    np.add.at(image, _first_largest(X, pooling), Pooled)
    return image


@grad_kernel("pool2d")
def _fast_pool2d_grad(inputs: Inputs, attrs: Mapping[str, Any], wanted: Sequence[str]) -> Outputs:
    """The maxima are not computed again: they are Out."""
    pooling = Pooling(**attrs)
    X, Out, dOut = inputs["X"][0], inputs["Out"][0], inputs["Out" + GRAD][0]
    found = pooling.axes(X.shape)
    if pooling.pooling_type == "max" and found:
        return {"X" + GRAD: [_scatter(X, Out, dOut, *found)]}
    return {"X" + GRAD: [_pool2d_grad(X, Out, dOut, **attrs)]}
