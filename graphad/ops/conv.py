"""Convolutions. Three operators, each linear in a filter, an image or an output, are closed under differentiation:

    Output = conv2d(Input, Filter)
    dInput = conv2d_backprop_input(Filter, dOutput)
    dFilter = conv2d_backprop_filter(Input, dOutput)

The cotangents of any one's operands are the other two, so derivatives of any order stay among them.
The kernels lay windows out as columns and multiply matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.attributes import applied, attributes
from graphad.ops.basic import sum_like
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.inference import matched, same_dtypes
from graphad.ops.windows import Axis, axes, check_images, padded, windows
from graphad.types import Shape, TensorType


@dataclass(frozen=True)
class Convolution:
    """The attributes of a convolution."""

    strides: list[int] = field(default_factory=lambda: [1, 1])
    paddings: list[int] = field(default_factory=lambda: [0, 0])
    padding_algorithm: str = "EXPLICIT"
    dilations: list[int] = field(default_factory=lambda: [1, 1])
    groups: int = 1
    data_format: str = "NCHW"

    def axes(self, image: Shape, kernel: Shape) -> tuple[Axis, Axis]:
        """The windows of a filter's shape in an image's."""
        return axes(
            image[2:],
            kernel[2:],
            strides=self.strides,
            paddings=self.paddings,
            dilations=self.dilations,
            padding_algorithm=self.padding_algorithm,
        )


@dataclass(frozen=True)
class TransposedConvolution(Convolution):
    """The attributes of a transposed convolution; Output's extents are larger by ``output_padding``, or are ``output_size``."""

    output_padding: list[int] = field(default_factory=list)
    output_size: list[int] = field(default_factory=list)

    def produced(self, image: Shape, kernel: Shape) -> tuple[Axis, Axis]:
        """The windows in the output, as many as the image has elements."""
        if self.padding_algorithm == "SAME":
            raise ShapeError("padding_algorithm='SAME' leaves the extents of conv2d_transpose open; use EXPLICIT or VALID")
        sizes = self.output_size or [
            -1 if -1 in (n, a.kernel) else (n - 1) * a.stride + a.reach - a.before - a.after + extra
            for n, a, extra in zip(image[2:], self.axes((-1,) * 4, kernel), self.output_padding or [0, 0], strict=True)
        ]
        h, w = self.axes((*image[:2], *sizes), kernel)
        if not (matched(h.count, image[2]) and matched(w.count, image[3])):
            raise ShapeError(f"Output of extents {sizes} has {[h.count, w.count]} windows, but Input's extents are {list(image[2:])}")
        return h, w


# -- types ---------------------------------------------------------------------------------------


def _conv2d_type(Input: TensorType, Filter: TensorType, Bias: TensorType | None = None, **attrs: Any) -> TensorType:
    conv, dtype = Convolution(**attrs), same_dtypes(Input=Input, Filter=Filter, Bias=Bias)
    check_images(conv.data_format, Input=Input, Filter=Filter)
    features, channels = Filter.shape[:2]
    if -1 not in (Input.shape[1], channels) and Input.shape[1] != channels * conv.groups:
        raise ShapeError(f"Input is {Input} but Filter is {Filter}: groups={conv.groups} of {channels} channels are expected")
    if features != -1 and features % conv.groups:
        raise ShapeError(f"Filter is {Filter}: its {features} features do not divide into groups={conv.groups}")
    _check_bias(Bias, features)
    h, w = conv.axes(Input.shape, Filter.shape)
    return TensorType((Input.shape[0], features, h.count, w.count), dtype)


def _check_bias(Bias: TensorType | None, features: int) -> None:
    if Bias is not None and not (len(Bias.shape) == 1 and matched(Bias.shape[0], features)):
        raise ShapeError(f"Bias is {Bias}: {features} values, one for each feature, are expected")


def _input_type(Filter: TensorType, X: TensorType, Like: TensorType, **attrs: Any) -> TensorType:
    _check_output(X, _conv2d_type(Like, Filter, **attrs))
    return TensorType(Like.shape, X.dtype)


def _filter_type(Input: TensorType, X: TensorType, Like: TensorType, **attrs: Any) -> TensorType:
    _check_output(X, _conv2d_type(Input, Like, **attrs))
    return TensorType(Like.shape, X.dtype)


def _check_output(X: TensorType, output: TensorType) -> None:
    if len(X.shape) != 4 or not all(map(matched, X.shape, output.shape)):
        raise ShapeError(f"X is {X}; an output of the convolution, which is {output}, is expected")


def _transpose_type(Input: TensorType, Filter: TensorType, Bias: TensorType | None = None, **attrs: Any) -> TensorType:
    conv, dtype = TransposedConvolution(**attrs), same_dtypes(Input=Input, Filter=Filter, Bias=Bias)
    check_images(conv.data_format, Input=Input, Filter=Filter)
    if not matched(Input.shape[1], Filter.shape[0]):
        raise ShapeError(f"Input is {Input} but Filter is {Filter}: Input's channels are Filter's first axis")
    features = -1 if Filter.shape[1] == -1 else Filter.shape[1] * conv.groups
    _check_bias(Bias, features)
    h, w = conv.produced(Input.shape, Filter.shape)
    return TensorType((Input.shape[0], features, h.size, w.size), dtype)


# -- columns -------------------------------------------------------------------------------------


def _columns(x: Array, h: Axis, w: Axis, groups: int) -> Array:
    """Every window of x as a column: ``[N, groups, C / groups * kernel, windows]``."""
    n, c = x.shape[:2]
    view = windows(padded(x, h, w), h, w)
    return view.reshape(n, groups, c // groups * h.kernel * w.kernel, h.count * w.count)


def _overlaid(columns: Array, h: Axis, w: Axis) -> Array:
    """Columns ``[N, C, kh, kw, oh, ow]`` added up where their windows overlap: the transpose of ``_columns``."""
    n, c = columns.shape[:2]
    image = np.zeros((n, c, h.padded, w.padded), columns.dtype)
    for j in range(w.kernel):
        rows = np.zeros((n, c, h.padded, w.count), columns.dtype)
        for i in range(h.kernel):
            rows[:, :, h.at(i)] += columns[:, :, i, j]
        image[:, :, :, w.at(j)] += rows
    return image[:, :, h.inside, w.inside]


def _matrix(filter_: Array, groups: int) -> Array:
    """The filter as ``[groups, features / groups, C / groups * kernel]``."""
    features, *window = filter_.shape
    return filter_.reshape(groups, features // groups, prod(window))


def _by_group(y: Array, groups: int) -> Array:
    """An output as ``[N, groups, features / groups, windows]``."""
    n, features, oh, ow = y.shape
    return y.reshape(n, groups, features // groups, oh * ow)


def _spread(filter_: Array, y: Array, h: Axis, w: Axis, groups: int) -> Array:
    """The image whose windows receive y through the filter."""
    columns = _matrix(filter_, groups).transpose(0, 2, 1) @ _by_group(y, groups)
    return _overlaid(columns.reshape(len(y), groups * filter_.shape[1], h.kernel, w.kernel, *y.shape[2:]), h, w)


# -- operators -----------------------------------------------------------------------------------


def _bias_grad(Bias: Tensor, dOutput: Tensor) -> Tensor:
    return sum_like(dOutput, Bias, axis=1)


CONV2D_GRAD = {
    "Input": applied("conv2d_backprop_input", "Filter dOutput Input", Convolution),
    "Filter": applied("conv2d_backprop_filter", "Input dOutput Filter", Convolution),
    "Bias": _bias_grad,
}


@operator("Input Filter Bias? -> Output", infer=_conv2d_type, grad=CONV2D_GRAD, shapes="Bias")
@attributes(Convolution)
def conv2d(Input: Array, Filter: Array, Bias: Array | None = None, **attrs: Any) -> Array:
    """``[N, C, H, W]`` correlated with a filter ``[features, C / groups, kh, kw]``, plus a bias for each feature."""
    conv = Convolution(**attrs)
    h, w = conv.axes(Input.shape, Filter.shape)
    out = _matrix(Filter, conv.groups) @ _columns(Input, h, w, conv.groups)
    if Bias is not None:
        out += Bias.reshape(conv.groups, len(Bias) // conv.groups, 1)
    return np.asarray(out.reshape(len(Input), len(Filter), h.count, w.count))


depthwise_conv2d = operator("Input Filter Bias? -> Output", name="depthwise_conv2d", infer=_conv2d_type, grad=CONV2D_GRAD)(conv2d.kernel)


@operator(
    "Filter X Like -> Out",
    infer=_input_type,
    grad={
        "Filter": applied("conv2d_backprop_filter", "dOut X Filter", Convolution),
        "X": applied("conv2d", "dOut Filter", Convolution),
    },
)
@attributes(Convolution)
def conv2d_backprop_input(Filter: Array, X: Array, Like: Array, **attrs: Any) -> Array:
    """The cotangent of a convolution's Input, X being that of its Output. Only Like's shape, the Input's, is read."""
    conv = Convolution(**attrs)
    return _spread(Filter, X, *conv.axes(Like.shape, Filter.shape), conv.groups)


@operator(
    "Input X Like -> Out",
    infer=_filter_type,
    grad={
        "Input": applied("conv2d_backprop_input", "dOut X Input", Convolution),
        "X": applied("conv2d", "Input dOut", Convolution),
    },
)
@attributes(Convolution)
def conv2d_backprop_filter(Input: Array, X: Array, Like: Array, **attrs: Any) -> Array:
    """The cotangent of a convolution's Filter, X being that of its Output. Only Like's shape, the Filter's, is read."""
    conv = Convolution(**attrs)
    columns = _columns(Input, *conv.axes(Input.shape, Like.shape), conv.groups)
    products = _by_group(X, conv.groups) @ columns.transpose(0, 1, 3, 2)
    return np.asarray(np.add.reduce(products, axis=0)).reshape(Like.shape)


@operator(
    "Input Filter Bias? -> Output",
    infer=_transpose_type,
    grad={
        "Input": applied("conv2d", "dOutput Filter", Convolution),
        "Filter": applied("conv2d_backprop_filter", "dOutput Input Filter", Convolution),
        "Bias": _bias_grad,
    },
)
@attributes(TransposedConvolution)
def conv2d_transpose(Input: Array, Filter: Array, Bias: Array | None = None, **attrs: Any) -> Array:
    """``[N, C, H, W]`` through a filter ``[C, features / groups, kh, kw]``: what a convolution's gradient does to its output."""
    conv = TransposedConvolution(**attrs)
    out = _spread(Filter, Input, *conv.produced(Input.shape, Filter.shape), conv.groups)
    return out if Bias is None else out + Bias.reshape(-1, 1, 1)
