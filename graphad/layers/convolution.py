"""Convolutions, with Fluid's signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphad.errors import InvalidType, InvalidValue
from graphad.initializer import Normal
from graphad.layers.checks import checked_format, checked_int, listed, padding_attrs
from graphad.layers.helper import LayerHelper, checked_input, layer
from graphad.program import Variable
from graphad.program.source import at_users_line
from graphad.types import element_count

Window = int | Sequence[int]
Padding = int | str | Sequence[int] | Sequence[Sequence[int]]
_FORMATS = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def _checked(
    kind: str, input: Variable, groups: int | None, num_filters: int, axes: int, data_format: str
) -> tuple[Variable, int, int, bool]:
    """The input, its channels, the groups, and whether the channels are last."""
    x = checked_input(kind, input)
    last = checked_format("data_format", data_format, _FORMATS[axes])
    checked_int("num_filters", num_filters, 1)
    count = 1 if groups is None else checked_int("groups", groups, 1)
    channels = x.shape[-1 if last else 1] if len(x.shape) == axes + 2 else -1
    if channels < 1:
        order = {"N": "batch", "C": "channels", "D": "depth", "H": "height", "W": "width"}
        raise InvalidValue(f"it takes [{', '.join(order[each] for each in data_format)}] with known channels, not {x!r}")
    return x, channels, count, last


def _finished(helper: LayerHelper, out: Variable, filters: int, bias_attr: Any, act: str | None, last: bool) -> Variable:
    bias = helper.bias(bias_attr, [filters], out.dtype)
    if bias is not None:
        out = helper.append("elementwise_add", {"X": out, "Y": bias}, {"axis": len(out.shape) - 1 if last else 1})
    return helper.activate(out, act)


def _convolution(
    axes: int, input: Variable, num_filters: int, filter_size: Window, groups: int | None, windows: tuple[Any, ...], made: tuple[Any, ...]
) -> Variable:
    kind = f"conv{axes}d"
    stride, padding, dilation, data_format = windows
    param_attr, bias_attr, act, name = made
    with at_users_line(f"layers.{kind}"):
        x, channels, count, last = _checked(kind, input, groups, num_filters, axes, data_format)
        if channels % count or num_filters % count:
            raise InvalidValue(f"{channels} channels and {num_filters} filters do not split into {count} groups")
        window = listed("filter_size", filter_size, axes)
        attrs = {"strides": listed("stride", stride, axes), "dilations": listed("dilation", dilation, axes), "groups": count}
        attrs |= padding_attrs("padding", padding, axes, last) | {"data_format": data_format}
    helper = LayerHelper(kind, name)
    start = Normal(0.0, (2.0 / (channels // count * element_count(tuple(window)))) ** 0.5)
    w = helper.parameter(param_attr, "w", [num_filters, channels // count, *window], x.dtype, start)
    given = {key: value for key, value in attrs.items() if (key, value) not in (("data_format", "NCHW"), ("data_format", "NCDHW"))}
    out = helper.append(kind, {"Input": x, "Filter": w}, given, out="Output")
    return _finished(helper, out, num_filters, bias_attr, act, last)


@layer
def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: Window,
    stride: Window = 1,
    padding: Padding = 0,
    dilation: Window = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """A two-dimensional convolution.

    Args:
        input: ``[batch, channels, height, width]``, or ``[batch, height, width, channels]`` with ``data_format="NHWC"``.
        padding: a number, one for each axis, ``[top, bottom, left, right]``, pairs for all four axes, "SAME" or "VALID".
        groups: 1 if None.
        param_attr: how the filter is made, of shape ``[num_filters, channels // groups, height, width]`` in both formats.
        use_cudnn: a hint without effect.
    """
    return _convolution(
        2, input, num_filters, filter_size, groups, (stride, padding, dilation, data_format), (param_attr, bias_attr, act, name)
    )


@layer
def conv3d(
    input: Variable,
    num_filters: int,
    filter_size: Window,
    stride: Window = 1,
    padding: Padding = 0,
    dilation: Window = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """A three-dimensional convolution; arguments as ``conv2d``, with an axis for the depth before the height."""
    return _convolution(
        3, input, num_filters, filter_size, groups, (stride, padding, dilation, data_format), (param_attr, bias_attr, act, name)
    )


def _transposed(
    axes: int, input: Variable, filters: int, sizes: tuple[Any, Any], groups: int | None, windows: tuple[Any, ...], made: tuple[Any, ...]
) -> Variable:
    kind = f"conv{axes}d_transpose"
    padding, stride, dilation, data_format = windows
    param_attr, bias_attr, act, name = made
    with at_users_line(f"layers.{kind}"):
        x, channels, count, last = _checked(kind, input, groups, filters, axes, data_format)
        if channels % count or filters % count:
            raise InvalidValue(f"{channels} channels and {filters} filters do not split into {count} groups")
        attrs: dict[str, Any] = {
            "strides": listed("stride", stride, axes),
            "dilations": listed("dilation", dilation, axes),
            "groups": count,
        }
        attrs |= padding_attrs("padding", padding, axes, last) | {"data_format": data_format}
        output = None if sizes[0] is None else listed("output_size", sizes[0], axes)
        window = _window(x, sizes[1], output, attrs, axes, last)
        attrs |= {} if output is None else {"output_size": output}
    helper = LayerHelper(kind, name)
    w = helper.parameter(param_attr, "w", [channels, filters // count, *window], x.dtype)
    out = helper.append(kind, {"Input": x, "Filter": w}, attrs, out="Output")
    return _finished(helper, out, filters, bias_attr, act, last)


def _window(x: Variable, filter_size: Any, output: list[int] | None, attrs: dict[str, Any], axes: int, last: bool) -> list[int]:
    """The extents of the filter: as given, or those with which the output has the size that is given."""
    if filter_size is not None:
        return listed("filter_size", filter_size, axes)
    if output is None:
        raise InvalidType("filter_size or output_size is needed, by keyword or in Fluid's order (output_size, filter_size)")
    extents = x.shape[1:-1] if last else x.shape[2:]
    if -1 in extents:
        raise InvalidValue(f"filter_size does not follow from output_size: {x!r} has unknown extents")
    pads = attrs["paddings"] if len(attrs["paddings"]) == 2 * axes else [each for each in attrs["paddings"] for _ in (0, 1)]
    return [
        (output[i] - (extents[i] - 1) * attrs["strides"][i] + pads[2 * i] + pads[2 * i + 1] - 1) // attrs["dilations"][i] + 1
        for i in range(axes)
    ]


@layer
def conv2d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Window | None = None,
    filter_size: Window | None = None,
    padding: Padding = 0,
    stride: Window = 1,
    dilation: Window = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """The transpose of a two-dimensional convolution, which makes images larger.

    Args:
        input: ``[batch, channels, height, width]``, or ``[batch, height, width, channels]`` with ``data_format="NHWC"``.
        output_size: the height and width of the result; from ``filter_size`` if None.
        filter_size: the height and width of the filter; from ``output_size`` if None.
        param_attr: how the filter is made, of shape ``[channels, num_filters // groups, height, width]``.
    """
    windows = (padding, stride, dilation, data_format)
    return _transposed(2, input, num_filters, (output_size, filter_size), groups, windows, (param_attr, bias_attr, act, name))


@layer
def conv3d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Window | None = None,
    filter_size: Window | None = None,
    padding: Padding = 0,
    stride: Window = 1,
    dilation: Window = 1,
    groups: int | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """The transpose of a three-dimensional convolution; arguments as ``conv2d_transpose``."""
    windows = (padding, stride, dilation, data_format)
    return _transposed(3, input, num_filters, (output_size, filter_size), groups, windows, (param_attr, bias_attr, act, name))
