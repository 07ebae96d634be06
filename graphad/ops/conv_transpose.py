"""Transposed convolutions: what the gradient of a convolution with the same attributes does to its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from graphad.errors import ShapeError
from graphad.ops.attributes import applied, attributes
from graphad.ops.conv import ONES3, ZEROS3, Convolution, Convolution3d, bias_grad, check_bias, convolving, with_bias
from graphad.ops.convolution import spread
from graphad.ops.definition import Array, OpDef, Tensor, operator
from graphad.ops.inference import matched, same_dtypes
from graphad.ops.windows import Axes, Axis, channels_first, check_images, laid_out, to_front
from graphad.types import Shape, TensorType

NO_INTS: list[int] = []


@dataclass(eq=False, repr=False)
class TransposedConvolution(Convolution):
    """The attributes of a transposed convolution; Output's extents are larger by ``output_padding``, or are ``output_size``."""

    output_padding: list[int] = field(default_factory=lambda: NO_INTS)
    output_size: list[int] = field(default_factory=lambda: NO_INTS)

    def produced(self, image: Shape, kernel: Shape) -> Axes:
        """The windows in the output, as many as the image has elements."""
        if self.padding_algorithm == "SAME":
            raise ShapeError("padding_algorithm='SAME' leaves the extents of a transposed convolution open; use EXPLICIT or VALID")
        rank = len(image) - 2
        for name, values in (("output_padding", self.output_padding), ("output_size", self.output_size)):
            if len(values) not in (0, rank):
                raise ShapeError(f"{name}={values}; {rank} ints are expected, or none")
        found = self.axes((-1,) * len(image), kernel)
        sizes = self.output_size or list(map(_smallest, image[2:], found, self.output_padding or [0] * rank))
        result = self.axes((*image[:2], *sizes), kernel)
        if not all(matched(a.count, extent) for a, extent in zip(result, image[2:], strict=True)):
            counts = [a.count for a in result]
            raise ShapeError(f"Output of extents {sizes} has {counts} windows, but Input's extents are {list(image[2:])}")
        return result


@dataclass(eq=False, repr=False)
class TransposedConvolution3d(TransposedConvolution):
    """The attributes of a transposed convolution over depth, height and width."""

    strides: list[int] = field(default_factory=lambda: ONES3)
    paddings: list[int] = field(default_factory=lambda: ZEROS3)
    dilations: list[int] = field(default_factory=lambda: ONES3)


def _smallest(windows: int, axis: Axis, extra: int) -> int:
    """The smallest extent with so many windows, and some more."""
    if -1 in (windows, axis.kernel):
        return -1
    extent = (windows - 1) * axis.stride + axis.reach - axis.before - axis.after + extra
    if extent < 0:
        raise ShapeError(f"{windows} windows of {axis.kernel} elements every {axis.stride} do not make an extent of 0 or more: {extent}")
    return extent


def _type(spec: type[TransposedConvolution], rank: int) -> Callable[..., TensorType]:
    def infer(Input: TensorType, Filter: TensorType, Bias: TensorType | None = None, **attrs: Any) -> TensorType:
        conv, dtype = spec(**attrs), same_dtypes(Input=Input, Filter=Filter, Bias=Bias)
        check_images(conv.data_format, rank, Input=Input, Filter=Filter)
        image = channels_first(Input.shape, conv.data_format)
        if not matched(image[1], Filter.shape[0]):
            raise ShapeError(f"Input is {Input} but Filter is {Filter}: Input's channels are Filter's first axis")
        if conv.groups < 1 or (image[1] != -1 and image[1] % conv.groups):
            raise ShapeError(f"Input is {Input}: its channels do not divide into groups={conv.groups}")
        features = -1 if Filter.shape[1] == -1 else Filter.shape[1] * conv.groups
        check_bias(Bias, features)
        sizes = (a.size for a in conv.produced(image, Filter.shape))
        return TensorType(laid_out((image[0], features, *sizes), conv.data_format), dtype)

    return infer


def _row(name: str, spec: type[TransposedConvolution], rank: int, bias: str = "") -> OpDef:
    @attributes(spec)
    def kernel(Input: Array, Filter: Array, Bias: Array | None = None, **attrs: Any) -> Array:
        conv = spec(**attrs)
        image = to_front(Input, conv.data_format)
        out = spread(Filter, image, conv.produced(image.shape, Filter.shape), conv.groups)
        return with_bias(out, Bias, conv.data_format)

    kernel.__doc__ = "``[N, C, ...]`` through a filter ``[C, features / groups, ...]``: what a convolution's gradient does to its output."
    of, shared = ("conv2d", Convolution) if rank == 4 else ("conv3d", Convolution3d)
    grad: dict[str, Callable[..., Tensor]] = {
        "Input": applied(of, "dOutput Filter", shared),
        "Filter": applied(f"{of}_backprop_filter", "dOutput Input Filter", shared),
    }
    if bias:
        grad["Bias"] = bias_grad
    shapes = "Bias Filter:Filter" if bias else "Filter:Filter"
    return operator(f"Input Filter {bias} -> Output", name=name, infer=_type(spec, rank), grad=grad, shapes=shapes, **convolving(bias))(
        kernel
    )


conv2d_transpose = _row("conv2d_transpose", TransposedConvolution, 4, "Bias?")
depthwise_conv2d_transpose = _row("depthwise_conv2d_transpose", TransposedConvolution, 4, "Bias?")
conv3d_transpose = _row("conv3d_transpose", TransposedConvolution3d, 5)
