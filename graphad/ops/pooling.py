"""Poolings over windows of an image or a volume, also with the places of the maxima."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from math import prod
from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.attributes import Frozen, applied, attributes, frozen, thawed
from graphad.ops.definition import GRAD, Inputs, OpDef, Outputs, grad_kernel, operator
from graphad.ops.dimensions import pooled
from graphad.ops.inference import matched, same_dtypes, same_number
from graphad.ops.maxima import in_cache, lowest, places, scattered
from graphad.ops.registry import REGISTRY
from graphad.ops.traits import DimensionsRule, Shapes
from graphad.ops.windows import (
    Axes,
    Axis,
    axes,
    channels_first,
    check_images,
    element,
    from_front,
    laid_out,
    last,
    numbers,
    padded,
    to_front,
)
from graphad.types import FLOATS, Array, Shape, Tensor, TensorType

# -- windows ---------------------------------------------------------------------------------------
# The windows of a pooling, and its kernels on arrays ``[N, C, ...]`` over any number of spatial axes.
#
# An average is taken over boxes, so it is a product with one matrix for each axis. A maximum is found element by element of
# the window, over all windows at once.

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
            # Adaptive windows are all alike where the extent is divisible; otherwise they overlap by one, and differ.
            extents = [n // k for n, k in zip(size, counts, strict=True)]
            divides = all(n % k == 0 and n > 0 for n, k in zip(size, counts, strict=True))
            return axes(size, extents, strides=extents, paddings=(0,)) if divides else None
        return self.sliding(image)

    def sliding(self, image: Shape) -> Axes:
        """The windows of a pooling that is neither global nor adaptive."""
        window_axes = axes(
            image[2:],
            numbers("ksize", self.ksize, len(image[2:])),
            strides=self.strides,
            paddings=self.paddings,
            padding_algorithm=self.padding_algorithm,
            ceil_mode=self.ceil_mode,
        )
        for axis in window_axes:
            # Where padding is as wide as a window, the first or last window holds padding alone: it would have no maximum.
            if axis.before >= axis.kernel or (axis.count - 1) * axis.stride - axis.before >= axis.size >= 0:
                raise ShapeError(f"X has the shape {list(image)}: with {self} there is a window of padding only")
        return window_axes

    def bounds(self, image: Shape) -> list[Bounds]:
        """The begin and end of the windows within the image, along each of its axes."""
        window_axes = self.axes(image)
        if window_axes is None:
            return list(map(_even_bounds, image[2:], numbers("ksize", self.ksize, len(image[2:]))))
        return list(map(_axis_bounds, window_axes))


def _even_bounds(size: int, count: int) -> Bounds:
    """The windows of an adaptive pooling."""
    # From floor(i size / count) to ceil((i + 1) size / count), as in Paddle and torch.
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _axis_bounds(axis: Axis) -> Bounds:
    starts = range(-axis.before, axis.count * axis.stride - axis.before, axis.stride)
    return [(max(s, 0), min(s + axis.kernel, axis.size)) for s in starts]


# -- averages ------------------------------------------------------------------------------------


def averaging(pooling: Pooling, image: Shape, dtype: np.dtype[np.generic]) -> list[Array]:
    """Matrices ``[windows, size]`` of the averages along each axis, which are read-only."""
    return list(_averaging(frozen(vars(pooling)), tuple(image), dtype))


@lru_cache(maxsize=256)
def _averaging(attrs: Frozen, image: Shape, dtype: np.dtype[np.generic]) -> tuple[Array, ...]:
    pooling = Pooling(**thawed(attrs))  # all attributes, so that of three dimensions no default matters
    bounds = pooling.bounds(image)
    divisors: list[list[int]] = [[stop - start for start, stop in item] for item in bounds]
    # Padding counts in the divisor unless it is excluded; Paddle excludes it by default.
    if not (pooling.exclusive or pooling.adaptive or pooling.global_pooling):
        divisors = [_padded_extents(axis) for axis in pooling.sliding(image)]
    return tuple(_weights(*item, dtype) for item in zip(bounds, image[2:], divisors, strict=True))


def _padded_extents(axis: Axis) -> list[int]:
    """The extents of the windows, the padding counted but nothing beyond it."""
    # With ceil_mode the last window may reach beyond the padding; what is there does not count.
    last = axis.before + axis.size + axis.after
    return [min(k * axis.stride + axis.kernel, last) - k * axis.stride for k in range(axis.count)]


def _weights(bounds: Bounds, size: int, divisors: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
    matrix = np.zeros((len(bounds), size), dtype)
    for row, (start, stop), divisor in zip(matrix, bounds, divisors, strict=True):
        row[start:stop] = 1.0 / divisor
    matrix.flags.writeable = False
    return matrix


def along_axes(matrices: Sequence[Array], x: Array) -> Array:
    """x multiplied by a matrix ``[new, old]`` along each of its spatial axes, the last one first."""
    lead = x.shape[: x.ndim - len(matrices)]
    # One number of each channel, and one for each: matrix by matrix BLAS would begin again for each row of the image.
    if all(len(matrix) == 1 for matrix in matrices):
        weights = reduce(np.multiply.outer, (matrix[0] for matrix in matrices)).reshape(-1, 1)
        return np.asarray(x.reshape(prod(lead), len(weights)) @ weights).reshape(*lead, *(1 for _ in matrices))
    if all(matrix.shape[1] == 1 for matrix in matrices):
        weights = reduce(np.multiply.outer, (matrix[:, 0] for matrix in matrices))
        # ``matmul`` has no BLAS for an inner extent of one, ``dot`` has.
        return np.asarray(np.dot(x.reshape(prod(lead), 1), weights.reshape(1, -1))).reshape(*lead, *weights.shape)
    for axis, matrix in reversed(list(enumerate(matrices, 2))):
        x = _along(matrix, x, axis)
    return x


def _along(matrix: Array, x: Array, axis: int) -> Array:
    before, (size, *after) = x.shape[:axis], x.shape[axis:]
    new = len(matrix)
    # Along the last axis one product does for all rows.
    if not after:
        return np.asarray(x.reshape(prod(before), size) @ matrix.T).reshape(*before, new)
    return np.asarray(matrix @ x.reshape(*before, size, prod(after))).reshape(*before, new, *after)


# -- maxima --------------------------------------------------------------------------------------


def largest(X: Array, window_axes: Axes) -> Array:
    """The largest element of every window, axis by axis."""
    x = lowest(X, window_axes)
    out = np.empty((*x.shape[:2], *(a.count for a in window_axes)), x.dtype)
    for part in in_cache(x.shape, x.itemsize):
        np.copyto(out[part], reduce(_largest_along, enumerate(window_axes, 2), x[part]))
    return out


def _largest_along(x: Array, numbered: tuple[int, Axis]) -> Array:
    place, axis = numbered
    lead = (slice(None),) * place
    out = x[(*lead, axis.at(0))]
    for k in range(1, axis.kernel):
        out = np.maximum(out, x[(*lead, axis.at(k))])
    return out


def gathered(X: Array, image: Array, window_axes: Axes) -> Array:
    """The element of the image, for every window, at the first place where X is the largest."""
    x, values, peaks = lowest(X, window_axes), padded(image, window_axes), largest(X, window_axes)
    out = np.zeros(peaks.shape, image.dtype)
    # Backwards, so that the first place with the peak is written last, and stays.
    for place in reversed(list(places(window_axes))):
        out = np.where(x[last(place)] == peaks, values[last(place)], out)
    return out


def numbered(X: Array, peaks: Array, window_axes: Axes) -> Array:
    """The number, in its channel, of the first largest element of every window; the windows are of one extent."""
    x, out, todo = lowest(X, window_axes), np.zeros(peaks.shape, np.intp), np.ones(peaks.shape, bool)
    for place in np.ndindex(*(axis.kernel for axis in window_axes)):
        mask = (x[element(window_axes, place)] == peaks) & todo
        # The places along each axis of this element of every window, as an open grid.
        at = np.ix_(*(np.arange(axis.count) * axis.stride + k - axis.before for axis, k in zip(window_axes, place, strict=True)))
        number = sum(along * prod(X.shape[axis + 1 :]) for axis, along in enumerate(at, 2))
        np.copyto(out, number, where=mask)
        # The first place that has the maximum takes it; later ones with the same value are no longer looked at.
        todo ^= mask
    return out


def first_largest(X: Array, pooling: Pooling) -> Array:
    """The number of the first largest element of every window, in the sample's channel ``[N, C, *counts]``."""
    n, c, *size = X.shape
    bounds = pooling.bounds(X.shape)
    out = np.empty((n, c, *map(len, bounds)), np.intp)
    # Adaptive windows have extents of their own, so that there is no common array of places.
    for window in np.ndindex(*out.shape[2:]):
        box = [item[k] for item, k in zip(bounds, window, strict=True)]
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
    # Numbers count within a channel; each channel begins so many elements later.
    channel = np.arange(n * c).reshape(n, c, *(1 for _ in index.shape[2:])) * size
    flat = np.zeros(n * c * size, values.dtype)
    np.add.at(flat, (index + channel).reshape(-1), values.reshape(-1))
    return flat.reshape(shape)


# -- maxima with their places ----------------------------------------------------------------------
# Maximum poolings that also say where in its channel each maximum is.


@dataclass(eq=False, repr=False)
class MaxPooling:
    """The attributes of a maximum pooling with an index."""

    ksize: list[int]
    strides: list[int] = field(default_factory=lambda: [1, 1])
    paddings: list[int] = field(default_factory=lambda: [0, 0])
    global_pooling: bool = False
    adaptive: bool = False
    ceil_mode: bool = False

    @property
    def shared(self) -> dict[str, Any]:
        """The attributes of the pooling without an index."""
        return {"pooling_type": "max", **vars(self)}


@dataclass(eq=False, repr=False)
class MaxPooling3d(MaxPooling):
    """The same over depth, height and width."""

    strides: list[int] = field(default_factory=lambda: [1, 1, 1])
    paddings: list[int] = field(default_factory=lambda: [0, 0, 0])


def _define(name: str, pool: str, spec: type[MaxPooling], rank: int) -> OpDef:
    def infer(X: TensorType, **attrs: Any) -> tuple[TensorType, TensorType]:
        check_images("NCHW", rank, X=X)
        shape = (*same_number(X).shape[:2], *Pooling(**spec(**attrs).shared).counts(X.shape))
        return TensorType(shape, X.dtype), TensorType(shape, "int32")

    @attributes(spec)
    def rule(X: Tensor, dOut: Tensor, **attrs: Any) -> Tensor:
        return REGISTRY[f"{pool}_scatter_max"](X, dOut, **spec(**attrs).shared)

    @attributes(spec)
    def kernel(X: Array, **attrs: Any) -> tuple[Array, Array]:
        """The largest element of every window of ``[N, C, ...]``, and its number among the elements of its channel."""
        pooling = Pooling(**spec(**attrs).shared)
        window_axes = pooling.axes(X.shape)
        # Windows of several extents, as adaptive ones, have no common axes.
        if window_axes is None or not prod(X.shape):
            index = first_largest(X, pooling)
            return taken(X, index), index.astype(np.int32)
        out = largest(X, window_axes)
        return out, numbered(X, out, window_axes).astype(np.int32)

    rules: dict[str, Callable[..., Tensor]] = {"X": rule}
    return operator("X -> Out Mask", name=name, infer=infer, grad=rules, rows="X")(kernel)


max_pool2d_with_index = _define("max_pool2d_with_index", "pool2d", MaxPooling, 4)
max_pool3d_with_index = _define("max_pool3d_with_index", "pool3d", MaxPooling3d, 5)


# -- operators -------------------------------------------------------------------------------------
# Poolings over windows of an image or a volume.
#
# An average is linear: ``pool2d`` and ``pool2d_spread`` are each other's transpose. A maximum picks, while X
# stays fixed, one element of every window (the first of the largest): ``pool2d_gather_max`` picks from
# another image, ``pool2d_scatter_max`` puts back, and these two are each other's transpose. The same in three dimensions.


@dataclass(eq=False, repr=False)
class Pooling3d(Pooling):
    """The attributes of a pooling over depth, height and width."""

    strides: list[int] = field(default_factory=lambda: [1, 1, 1])
    paddings: list[int] = field(default_factory=lambda: [0, 0, 0])
    data_format: str = "NCDHW"


Spec = type[Pooling]
Infer = Callable[..., TensorType]

# -- types ---------------------------------------------------------------------------------------


def _pooled_type(spec: Spec, rank: int) -> Infer:
    def infer(X: TensorType, **attrs: Any) -> TensorType:
        pooling = spec(**attrs)
        check_images(pooling.data_format, rank, X=X)
        if pooling.pooling_type not in ("max", "avg"):
            raise ShapeError(f"pooling_type={pooling.pooling_type!r} is not 'max' or 'avg'")
        if pooling.pooling_type == "avg" and X.dtype not in FLOATS:
            raise ShapeError(f"X is {X}: an average is taken of floating-point numbers")
        image = channels_first(same_number(X).shape, pooling.data_format)
        return TensorType(laid_out((*image[:2], *pooling.counts(image)), pooling.data_format), X.dtype)

    return infer


def _spread_type(spec: Spec, pooled: Infer) -> Infer:
    def infer(X: TensorType, Like: TensorType, **attrs: Any) -> TensorType:
        if spec(**attrs).pooling_type != "avg":
            raise ShapeError("this is the transpose of average pooling: pooling_type is 'avg'")
        _check_fits("X", X, pooled(Like, **attrs))
        return TensorType(Like.shape, X.dtype)

    return infer


def _gathered_type(pooled: Infer) -> Infer:
    def infer(X: TensorType, Image: TensorType, **attrs: object) -> TensorType:
        _check_fits("Image", Image, X)
        return TensorType(pooled(X, **attrs).shape, same_dtypes(X=X, Image=Image))

    return infer


def _scattered_type(pooled: Infer) -> Infer:
    def infer(X: TensorType, Pooled: TensorType, **attrs: object) -> TensorType:
        _check_fits("Pooled", Pooled, pooled(X, **attrs))
        return TensorType(X.shape, same_dtypes(X=X, Pooled=Pooled))

    return infer


def _check_fits(name: str, actual: TensorType, expected: TensorType) -> None:
    if len(actual.shape) != len(expected.shape) or not all(map(matched, actual.shape, expected.shape)):
        raise ShapeError(f"{name} is {actual}; the shape {list(expected.shape)} is expected")


# -- kernels -------------------------------------------------------------------------------------


def _pool(spec: Spec) -> Callable[..., Array]:
    @attributes(spec)
    def kernel(X: Array, **attrs: Any) -> Array:
        """The largest element ("max") or the average ("avg") of every window of ``[N, C, ...]``.

        ``adaptive`` takes ``ksize`` as the number of windows; an average that is not ``exclusive`` counts the padding.
        """
        pooling = spec(**attrs)
        x = to_front(X, pooling.data_format)
        if pooling.pooling_type == "avg":
            return from_front(along_axes(averaging(pooling, x.shape, x.dtype), x), pooling.data_format)
        window_axes = pooling.axes(x.shape)
        return from_front(largest(x, window_axes) if window_axes else taken(x, first_largest(x, pooling)), pooling.data_format)

    return kernel


def _spread(spec: Spec) -> Callable[..., Array]:
    @attributes(spec)
    def kernel(X: Array, Like: Array, **attrs: Any) -> Array:
        """The transpose of average pooling: X shared out over the windows. Only Like's shape, the image's, is read."""
        pooling = spec(**attrs)
        matrices = averaging(pooling, channels_first(Like.shape, pooling.data_format), X.dtype)
        return from_front(along_axes([m.T for m in matrices], to_front(X, pooling.data_format)), pooling.data_format)

    return kernel


def _gather_max(spec: Spec) -> Callable[..., Array]:
    @attributes(spec)
    def kernel(X: Array, Image: Array, **attrs: Any) -> Array:
        """From every window, Image at the first place where X is the largest."""
        pooling = spec(**attrs)
        x, image = to_front(X, pooling.data_format), to_front(Image, pooling.data_format)
        window_axes = pooling.axes(x.shape)
        return from_front(gathered(x, image, window_axes) if window_axes else taken(image, first_largest(x, pooling)), pooling.data_format)

    return kernel


def _scatter_max(spec: Spec) -> Callable[..., Array]:
    @attributes(spec)
    def kernel(X: Array, Pooled: Array, **attrs: Any) -> Array:
        """Zeros but, in every window, Pooled at the first place where X is the largest."""
        pooling = spec(**attrs)
        x, values = to_front(X, pooling.data_format), to_front(Pooled, pooling.data_format)
        window_axes = pooling.axes(x.shape)
        image = (
            scattered(x, largest(x, window_axes), values, window_axes) if window_axes else put(values, first_largest(x, pooling), x.shape)
        )
        return from_front(image, pooling.data_format)

    return kernel


# -- operators -----------------------------------------------------------------------------------


def _pool_rule(name: str, spec: Spec) -> Callable[..., Tensor]:
    @attributes(spec)
    def rule(X: Tensor, Out: Tensor, dOut: Tensor, **attrs: object) -> Tensor:
        if attrs["pooling_type"] == "max":
            return REGISTRY[f"{name}_scatter_max"](X, dOut, **attrs)
        return REGISTRY[f"{name}_spread"](dOut, X, **attrs)

    return rule


def _flops(shapes: Shapes, attrs: Mapping[str, Any]) -> int:
    """One for each element of each window."""
    (x,), (out,) = shapes["X"], shapes["Out"]
    return prod(x) if attrs["global_pooling"] else prod(out) * prod(attrs["ksize"])


def _rows(name: str, spec: Spec, rank: int, dimensions: DimensionsRule | None = None) -> OpDef:
    """The pooling and its three helpers."""
    pooled_type = _pooled_type(spec, rank)
    definition = operator(
        "X -> Out",
        name=name,
        infer=pooled_type,
        grad={"X": _pool_rule(name, spec)},
        speculatable="extents",
        rows="X",
        own=True,
        narrow="follows",
        flops=_flops,
        dimensions=dimensions,
    )(_pool(spec))
    # Average pooling and ``spread`` are transposes of each other, and so are ``gather_max``, which takes from another image the elements
    # that are maxima in X, and ``scatter_max``: gradients of all orders are made of these.
    back = {"X": applied(name, "dOut", spec)}
    operator("X Like -> Out", name=f"{name}_spread", infer=_spread_type(spec, pooled_type), grad=back, linear="X")(_spread(spec))
    of_image = {"Image": applied(f"{name}_scatter_max", "X dOut", spec)}
    operator("X Image -> Out", name=f"{name}_gather_max", infer=_gathered_type(pooled_type), grad=of_image, linear="Image")(
        _gather_max(spec)
    )
    of_pooled = {"Pooled": applied(f"{name}_gather_max", "X dOut", spec)}
    operator("X Pooled -> Out", name=f"{name}_scatter_max", infer=_scattered_type(pooled_type), grad=of_pooled, linear="Pooled")(
        _scatter_max(spec)
    )
    _fast_grad(name, spec)
    return definition


def _fast_grad(name: str, spec: Spec) -> None:
    rule = _pool_rule(name, spec)

    @grad_kernel(name)
    def fast(inputs: Inputs, attrs: Mapping[str, Any], slots: Sequence[str]) -> Outputs:
        """The maxima are not computed again: they are Out."""
        pooling = spec(**attrs)
        X, Out, dOut = (to_front(inputs[slot][0], pooling.data_format) for slot in ("X", "Out", "Out" + GRAD))
        window_axes = pooling.axes(X.shape)
        # Only sliding windows of a maximum can be compared with Out; means go by the rule.
        if pooling.pooling_type == "max" and window_axes:
            return {"X" + GRAD: [np.asarray(from_front(scattered(X, Out, dOut, window_axes), pooling.data_format))]}
        return {"X" + GRAD: [rule(*(inputs[slot][0] for slot in ("X", "Out", "Out" + GRAD)), **attrs)]}


pool2d = _rows("pool2d", Pooling, 4, dimensions=pooled)
pool3d = _rows("pool3d", Pooling3d, 5)
