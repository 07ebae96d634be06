"""Convolutions. Three operators, each linear in a filter, an image or an output, are closed under differentiation:

    Output = conv2d(Input, Filter)
    dInput = conv2d_backprop_input(Filter, dOutput)
    dFilter = conv2d_backprop_filter(Input, dOutput)

The cotangents of any one's operands are the other two, so derivatives of any order stay among them; the same in three
dimensions. Paddle writes a convolution over one axis as conv2d with an axis of one element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.attributes import applied, attributes
from graphad.ops.basic import sum_like
from graphad.ops.convolution import correlated, filter_cotangent, spread
from graphad.ops.definition import Array, OpDef, Tensor, operator
from graphad.ops.inference import matched, same_dtypes
from graphad.ops.traits import PRODUCT, Declared
from graphad.ops.windows import CHANNELS_LAST, Axes, axes, channels_first, check_images, from_front, laid_out, to_front
from graphad.types import Shape, TensorType

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
    def infer(Filter: TensorType, X: TensorType, Like: TensorType, **attrs: Any) -> TensorType:
        _check_output(X, forward(Like, Filter, **attrs))
        return TensorType(Like.shape, same_dtypes(Filter=Filter, X=X))

    return infer


def _filter_type(forward: Callable[..., TensorType]) -> Callable[..., TensorType]:
    def infer(Input: TensorType, X: TensorType, Like: TensorType, **attrs: Any) -> TensorType:
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


def convolving(bias: str) -> Declared:
    """The traits of a convolution, and of a transposed one: bilinear only where nothing is added."""
    return {"speculatable": "extents", "rows": "Input", "bilinear": "" if bias else "Input Filter", "own": True, "narrow": "gains"}


def bias_grad(Bias: Tensor, dOutput: Tensor, *, data_format: str) -> Tensor:
    """The cotangent of a bias: the sum over all other axes."""
    return sum_like(dOutput, Bias, axis=channel_axis(data_format))


def with_bias(out: Array, Bias: Array | None, data_format: str) -> Array:
    """An output ``[N, C, ...]``, which may be changed, with the bias of each channel, in its layout."""
    if Bias is not None:
        out += Bias.reshape(-1, *(1 for _ in out.shape[2:]))
    return from_front(out, data_format)


def _forward(spec: type[Convolution]) -> Callable[..., Array]:
    @attributes(spec)
    def kernel(Input: Array, Filter: Array, Bias: Array | None = None, **attrs: Any) -> Array:
        conv = spec(**attrs)
        image = to_front(Input, conv.data_format)
        return with_bias(correlated(image, Filter, conv.axes(image.shape, Filter.shape), conv.groups), Bias, conv.data_format)

    return kernel


def _to_input(spec: type[Convolution]) -> Callable[..., Array]:
    @attributes(spec)
    def kernel(Filter: Array, X: Array, Like: Array, **attrs: Any) -> Array:
        conv = spec(**attrs)
        found = conv.axes(channels_first(Like.shape, conv.data_format), Filter.shape)
        return from_front(spread(Filter, to_front(X, conv.data_format), found, conv.groups), conv.data_format)

    kernel.__doc__ = "The cotangent of a convolution's Input, X being that of its Output. Only Like's shape, the Input's, is read."
    return kernel


def _to_filter(spec: type[Convolution]) -> Callable[..., Array]:
    @attributes(spec)
    def kernel(Input: Array, X: Array, Like: Array, **attrs: Any) -> Array:
        conv = spec(**attrs)
        image, output = to_front(Input, conv.data_format), to_front(X, conv.data_format)
        return np.asarray(filter_cotangent(image, output, conv.axes(image.shape, Like.shape), Like.shape, conv.groups))

    kernel.__doc__ = "The cotangent of a convolution's Filter, X being that of its Output. Only Like's shape, the Filter's, is read."
    return kernel


# -- operators -----------------------------------------------------------------------------------


def _convolution(name: str, spec: type[Convolution], rank: int, of: str, bias: str, doc: str) -> OpDef:
    """The definition of a convolution whose cotangents are ``<of>_backprop_input`` and ``<of>_backprop_filter``."""
    kernel = _forward(spec)
    kernel.__doc__ = doc
    grad: dict[str, Callable[..., Tensor]] = {
        "Input": applied(f"{of}_backprop_input", "Filter dOutput Input", spec),
        "Filter": applied(f"{of}_backprop_filter", "Input dOutput Filter", spec),
    }
    shapes = "Input:Input Filter:Filter"
    if bias:
        grad, shapes = {**grad, "Bias": bias_grad}, f"Bias {shapes}"
    return operator(
        f"Input Filter {bias} -> Output", name=name, infer=forward_type(spec, rank), grad=grad, shapes=shapes, **convolving(bias)
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
        **PRODUCT,
    )(_to_filter(spec))


_IMAGES = "``[N, C, H, W]`` correlated with a filter ``[features, C / groups, kh, kw]``, plus a bias for each feature."
_VOLUMES = "``[N, C, D, H, W]`` correlated with a filter ``[features, C / groups, kd, kh, kw]``."

conv2d = _convolution("conv2d", Convolution, 4, "conv2d", "Bias?", _IMAGES)
depthwise_conv2d = _convolution("depthwise_conv2d", Convolution, 4, "conv2d", "Bias?", _IMAGES)
conv2d_backprop_input = _backprop_input("conv2d", Convolution, 4)
conv2d_backprop_filter = _backprop_filter("conv2d", Convolution, 4)

conv3d = _convolution("conv3d", Convolution3d, 5, "conv3d", "", _VOLUMES)
conv3d_backprop_input = _backprop_input("conv3d", Convolution3d, 5)
conv3d_backprop_filter = _backprop_filter("conv3d", Convolution3d, 5)
