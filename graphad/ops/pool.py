"""Poolings over windows of an image or a volume.

An average is linear: ``pool2d`` and ``pool2d_spread`` are each other's transpose. A maximum picks, while X
stays fixed, one element of every window (the first of the largest): ``pool2d_gather_max`` picks from
another image, ``pool2d_scatter_max`` puts back, and these two are each other's transpose. The same in three dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.attributes import applied, attributes
from graphad.ops.definition import GRAD, Array, Inputs, OpDef, Outputs, Tensor, grad_kernel, operator
from graphad.ops.inference import matched, same_dtypes, same_number
from graphad.ops.pooling import Pooling, along_axes, averaging, first_largest, gathered, largest, put, scattered, taken
from graphad.ops.symbol import REGISTRY
from graphad.ops.windows import channels_first, check_images, from_front, laid_out, to_front
from graphad.types import FLOATS, TensorType


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
    def infer(X: TensorType, Image: TensorType, **attrs: Any) -> TensorType:
        _check_fits("Image", Image, X)
        return TensorType(pooled(X, **attrs).shape, same_dtypes(X=X, Image=Image))

    return infer


def _scattered_type(pooled: Infer) -> Infer:
    def infer(X: TensorType, Pooled: TensorType, **attrs: Any) -> TensorType:
        _check_fits("Pooled", Pooled, pooled(X, **attrs))
        return TensorType(X.shape, same_dtypes(X=X, Pooled=Pooled))

    return infer


def _check_fits(name: str, got: TensorType, expected: TensorType) -> None:
    if len(got.shape) != len(expected.shape) or not all(map(matched, got.shape, expected.shape)):
        raise ShapeError(f"{name} is {got}; the shape {list(expected.shape)} is expected")


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
        found = pooling.axes(x.shape)
        return from_front(largest(x, found) if found else taken(x, first_largest(x, pooling)), pooling.data_format)

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
        found = pooling.axes(x.shape)
        return from_front(gathered(x, image, found) if found else taken(image, first_largest(x, pooling)), pooling.data_format)

    return kernel


def _scatter_max(spec: Spec) -> Callable[..., Array]:
    @attributes(spec)
    def kernel(X: Array, Pooled: Array, **attrs: Any) -> Array:
        """Zeros but, in every window, Pooled at the first place where X is the largest."""
        pooling = spec(**attrs)
        x, pooled = to_front(X, pooling.data_format), to_front(Pooled, pooling.data_format)
        found = pooling.axes(x.shape)
        image = scattered(x, largest(x, found), pooled, found) if found else put(pooled, first_largest(x, pooling), x.shape)
        return from_front(image, pooling.data_format)

    return kernel


# -- operators -----------------------------------------------------------------------------------


def _pool_rule(name: str, spec: Spec) -> Callable[..., Tensor]:
    @attributes(spec)
    def rule(X: Tensor, Out: Tensor, dOut: Tensor, **attrs: Any) -> Tensor:
        if attrs["pooling_type"] == "max":
            return REGISTRY[f"{name}_scatter_max"](X, dOut, **attrs)
        return REGISTRY[f"{name}_spread"](dOut, X, **attrs)

    return rule


def _rows(name: str, spec: Spec, rank: int) -> OpDef:
    """The pooling and its three helpers."""
    pooled = _pooled_type(spec, rank)
    made = operator(
        "X -> Out",
        name=name,
        infer=pooled,
        grad={"X": _pool_rule(name, spec)},
        speculatable="extents",
        rows="X",
        own=True,
        narrow="follows",
    )(_pool(spec))
    back = {"X": applied(name, "dOut", spec)}
    operator("X Like -> Out", name=f"{name}_spread", infer=_spread_type(spec, pooled), grad=back, linear="X")(_spread(spec))
    of_image = {"Image": applied(f"{name}_scatter_max", "X dOut", spec)}
    operator("X Image -> Out", name=f"{name}_gather_max", infer=_gathered_type(pooled), grad=of_image, linear="Image")(_gather_max(spec))
    of_pooled = {"Pooled": applied(f"{name}_gather_max", "X dOut", spec)}
    operator("X Pooled -> Out", name=f"{name}_scatter_max", infer=_scattered_type(pooled), grad=of_pooled, linear="Pooled")(
        _scatter_max(spec)
    )
    _fast_grad(name, spec)
    return made


def _fast_grad(name: str, spec: Spec) -> None:
    rule = _pool_rule(name, spec)

    @grad_kernel(name)
    def fast(inputs: Inputs, attrs: Mapping[str, Any], wanted: Sequence[str]) -> Outputs:
        """The maxima are not computed again: they are Out."""
        pooling = spec(**attrs)
        X, Out, dOut = (to_front(inputs[slot][0], pooling.data_format) for slot in ("X", "Out", "Out" + GRAD))
        found = pooling.axes(X.shape)
        if pooling.pooling_type == "max" and found:
            return {"X" + GRAD: [np.asarray(from_front(scattered(X, Out, dOut, found), pooling.data_format))]}
        return {"X" + GRAD: [rule(*(inputs[slot][0] for slot in ("X", "Out", "Out" + GRAD)), **attrs)]}


pool2d = _rows("pool2d", Pooling, 4)
pool3d = _rows("pool3d", Pooling3d, 5)
