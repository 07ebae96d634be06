"""Layers of images: convolutions, poolings and normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.initializer import Constant, Normal
from graphad.layers.alike import alike
from graphad.layers.checks import checked_flag, checked_float, checked_format, checked_int, listed, padding_attrs
from graphad.layers.helper import AttrLike, LayerHelper, checked_input, emitted, layer
from graphad.program import Variable
from graphad.program.source import at_users_line
from graphad.types import element_count

# -- convolution -----------------------------------------------------------------------------------
# Convolutions, with Fluid's signatures.

Window = int | Sequence[int]
Padding = int | str | Sequence[int] | Sequence[Sequence[int]]
Windows = tuple[Window | Padding, Window | Padding, Window, str]  # padding and stride or the other way round, dilation, data format
Made = tuple[AttrLike, AttrLike, str | None, str | None]  # of a filter and a bias, an activation, a name
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
        raise InvalidValue(f"it takes [{', '.join(order[name] for name in data_format)}] with known channels, not {x!r}")
    return x, channels, count, last


def _finished(helper: LayerHelper, out: Variable, filters: int, bias_attr: AttrLike, act: str | None, last: bool) -> Variable:
    bias = helper.bias(bias_attr, [filters], out.dtype)
    if bias is not None:
        out = helper.append("elementwise_add", {"X": out, "Y": bias}, {"axis": len(out.shape) - 1 if last else 1})
    # Paddle's bias of channels: aligned with axis 1, or the last one where the channels are last.
    return helper.activate(out, act)


def _convolution(
    axes: int, input: Variable, num_filters: int, filter_size: Window, groups: int | None, windows: Windows, parameters: Made
) -> Variable:
    kind = f"conv{axes}d"
    stride, padding, dilation, data_format = windows
    param_attr, bias_attr, act, name = parameters
    with at_users_line(f"layers.{kind}"):
        x, channels, count, last = _checked(kind, input, groups, num_filters, axes, data_format)
        if channels % count or num_filters % count:
            raise InvalidValue(f"{channels} channels and {num_filters} filters do not split into {count} groups")
        window = listed("filter_size", filter_size, axes)
        attrs = {"strides": listed("stride", stride, axes), "dilations": listed("dilation", dilation, axes), "groups": count}
        attrs |= padding_attrs("padding", padding, axes, last) | {"data_format": data_format}
    helper = LayerHelper(kind, name)
    # K. He et al., 2015: the variance 2 / (inputs of a filter) keeps that of activations through ReLUs.
    start = Normal(0.0, (2.0 / (channels // count * element_count(tuple(window)))) ** 0.5)
    w = helper.parameter(param_attr, "w", [num_filters, channels // count, *window], x.dtype, start)
    # Paddle's default layouts are left out, so that texts of programs are the same however the layer was called.
    options = {key: value for key, value in attrs.items() if (key, value) not in (("data_format", "NCHW"), ("data_format", "NCDHW"))}
    out = helper.append(kind, {"Input": x, "Filter": w}, options, out="Output")
    return _finished(helper, out, num_filters, bias_attr, act, last)


@alike
@layer
def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: Window,
    stride: Window = 1,
    padding: Padding = 0,
    dilation: Window = 1,
    groups: int | None = None,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
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
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """A three-dimensional convolution; arguments as ``conv2d``, with an axis for the depth before the height."""
    return _convolution(
        3, input, num_filters, filter_size, groups, (stride, padding, dilation, data_format), (param_attr, bias_attr, act, name)
    )


@layer
def deformable_conv(
    input: Variable,
    offset: Variable,
    mask: Variable | None,
    num_filters: int,
    filter_size: Window,
    stride: Window = 1,
    padding: Padding = 0,
    dilation: Window = 1,
    groups: int | None = None,
    deformable_groups: int | None = None,
    im2col_step: int | None = None,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    modulated: bool = True,
    name: str | None = None,
) -> Variable:
    """A convolution whose windows are moved, element by element (J. Dai et al., 2017), and weighted (X. Zhu et al., 2018).

    Args:
        input: ``[batch, channels, height, width]`` with known channels and extents.
        offset: how far down and how far right each element of each window is moved:
            ``[batch, 2 * deformable_groups * elements, new height, new width]``, elements being those of a window, row by row.
        mask: what each element is multiplied by, ``[batch, deformable_groups * elements, new height, new width]``;
            None unless ``modulated``.
        deformable_groups: so many parts of the channels have offsets of their own; 1 if None.
        im2col_step: a hint without effect.
        param_attr: how the filter is made, of shape ``[num_filters, channels // groups, height, width]``.
        modulated: whether there is a mask.

    Returns:
        ``[batch, num_filters, new height, new width]``.
    """
    with at_users_line("layers.deformable_conv"):
        x, channels, count, _ = _checked("deformable_conv", input, groups, num_filters, 2, "NCHW")
        if channels % count or num_filters % count:
            raise InvalidValue(f"{channels} channels and {num_filters} filters do not split into {count} groups")
        if checked_flag("modulated", modulated) != (mask is not None):
            raise InvalidValue(f"modulated is {modulated}, and mask is {mask!r}: a mask is passed if the windows are weighted")
        parts = 1 if deformable_groups is None else checked_int("deformable_groups", deformable_groups, 1)
        window = listed("filter_size", filter_size, 2)
        attrs: dict[str, object] = {"strides": listed("stride", stride, 2), "dilations": listed("dilation", dilation, 2)}
        attrs |= {"groups": count, "deformable_groups": parts} | padding_attrs("padding", padding, 2, False)
        attrs |= {} if im2col_step is None else {"im2col_step": checked_int("im2col_step", im2col_step, 1)}
        # The operator has numbers for each side, and no rule that follows from the extents.
        if "padding_algorithm" in attrs:
            raise InvalidValue(f"padding is an int or a list of ints, not {padding!r}")
    helper = LayerHelper("deformable_conv", name)
    # He's normal initialization (K. He et al., 2015): the variance is 2 over the elements that a window reads.
    start = Normal(0.0, (2.0 / (channels * element_count(tuple(window)))) ** 0.5)
    w = helper.parameter(param_attr, "w", [num_filters, channels // count, *window], x.dtype, start)
    weights = {} if mask is None else {"Mask": checked_input("deformable_conv", mask)}
    inputs = {"Input": x, "Offset": checked_input("deformable_conv", offset), **weights, "Filter": w}
    out = helper.append("deformable_conv" if weights else "deformable_conv_v1", inputs, attrs, out="Output")
    return _finished(helper, out, num_filters, bias_attr, None, False)


def _transposed(
    axes: int, input: Variable, filters: int, sizes: tuple[object, object], groups: int | None, windows: Windows, parameters: Made
) -> Variable:
    kind = f"conv{axes}d_transpose"
    padding, stride, dilation, data_format = windows
    param_attr, bias_attr, act, name = parameters
    with at_users_line(f"layers.{kind}"):
        x, channels, count, last = _checked(kind, input, groups, filters, axes, data_format)
        if channels % count or filters % count:
            raise InvalidValue(f"{channels} channels and {filters} filters do not split into {count} groups")
        attrs: dict[str, object] = {
            "strides": listed("stride", stride, axes),
            "dilations": listed("dilation", dilation, axes),
            "groups": count,
        }
        attrs |= padding_attrs("padding", padding, axes, last) | {"data_format": data_format}
        output = None if sizes[0] is None else listed("output_size", sizes[0], axes)
        window = _window(x, sizes[1], output, attrs, axes, last)
        attrs |= {} if output is None else {"output_size": output}
    helper = LayerHelper(kind, name)
    # Channels first: a transposed convolution has the filter of the convolution whose gradient it is.
    w = helper.parameter(param_attr, "w", [channels, filters // count, *window], x.dtype)
    out = helper.append(kind, {"Input": x, "Filter": w}, attrs, out="Output")
    return _finished(helper, out, filters, bias_attr, act, last)


def _window(x: Variable, filter_size: object, output: list[int] | None, attrs: dict[str, Any], axes: int, last: bool) -> list[int]:
    """The extents of the filter: as given, or those with which the output has the size that is given."""
    if filter_size is not None:
        return listed("filter_size", filter_size, axes)
    if output is None:
        raise InvalidType("filter_size or output_size is needed, by keyword or in Fluid's order (output_size, filter_size)")
    extents = x.shape[1:-1] if last else x.shape[2:]
    if -1 in extents:
        raise InvalidValue(f"filter_size does not follow from output_size: {x!r} has unknown extents")
    pads = attrs["paddings"] if len(attrs["paddings"]) == 2 * axes else [item for item in attrs["paddings"] for _ in (0, 1)]
    return [
        # Padding at both ends of each axis.
        # The extent of a transposed convolution, solved for the extent of its filter.
        (output[i] - (extents[i] - 1) * attrs["strides"][i] + pads[2 * i] + pads[2 * i + 1] - 1) // attrs["dilations"][i] + 1
        for i in range(axes)
    ]


@alike
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
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
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
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """The transpose of a three-dimensional convolution; arguments as ``conv2d_transpose``."""
    windows = (padding, stride, dilation, data_format)
    return _transposed(3, input, num_filters, (output_size, filter_size), groups, windows, (param_attr, bias_attr, act, name))


# -- pooling ---------------------------------------------------------------------------------------
# Pooling, with Fluid's signatures.


def _checked_type(pool_type: str) -> None:
    if pool_type not in ("max", "avg"):
        raise InvalidValue(f"pool_type is 'max' or 'avg', not {pool_type!r}")


def _pooled(
    axes: int, input: Variable, size: object, windows: tuple[object, object], flags: dict[str, Any], data_format: str, name: str | None
) -> Variable:
    kind = f"pool{axes}d"
    stride, padding = windows
    with at_users_line(f"layers.{kind}"):
        x = checked_input(kind, input)
        last = checked_format("data_format", data_format, _FORMATS[axes])
        _checked_type(flags["pooling_type"])
        for flag in ("global_pooling", "ceil_mode", "exclusive"):
            checked_flag(flag, flags[flag])
        if not flags["global_pooling"] and size in (-1, [-1] * axes):
            raise InvalidValue("pool_size is the extents of the window, or global_pooling=True pools over whole images")
        # Of whole images the window says nothing: its extents are theirs.
        window = [1] * axes if flags["global_pooling"] and size == -1 else listed("pool_size", size, axes)
        attrs = {**flags, "ksize": window, "strides": window if stride is None else listed("pool_stride", stride, axes)}
        attrs |= padding_attrs("pool_padding", padding, axes, last)
        attrs |= {"data_format": data_format} if last else {}
    return LayerHelper(kind, name).append(kind, {"X": x}, attrs)


# Only NHWC is written down: texts of programs are the same however the layer was called.
@layer
def pool2d(
    input: Variable,
    pool_size: Window = -1,
    pool_type: str = "max",
    pool_stride: Window | None = 1,
    pool_padding: object = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """Two-dimensional pooling.

    Args:
        input: ``[batch, channels, height, width]``, or ``[batch, height, width, channels]`` with ``data_format="NHWC"``.
        pool_size: the extents of the window; left out only with ``global_pooling=True``.
        pool_type: "max" or "avg".
        pool_stride: how far the window moves; None moves it by its size.
        pool_padding: a number, one for each axis, ``[top, bottom, left, right]``, pairs for all four axes, "SAME" or "VALID".
        use_cudnn: a hint without effect.
        exclusive: whether averages leave the padding out.
    """
    checked_flag("layers.pool2d: use_cudnn", use_cudnn)
    flags = {"pooling_type": pool_type, "global_pooling": global_pooling, "ceil_mode": ceil_mode, "exclusive": exclusive}
    return _pooled(2, input, pool_size, (pool_stride, pool_padding), flags, data_format, name)


@layer
def pool3d(
    input: Variable,
    pool_size: Window = -1,
    pool_type: str = "max",
    pool_stride: Window | None = 1,
    pool_padding: object = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCDHW",
) -> Variable:
    """Three-dimensional pooling; arguments as ``pool2d``, with an axis for the depth before the height."""
    checked_flag("layers.pool3d: use_cudnn", use_cudnn)
    flags = {"pooling_type": pool_type, "global_pooling": global_pooling, "ceil_mode": ceil_mode, "exclusive": exclusive}
    return _pooled(3, input, pool_size, (pool_stride, pool_padding), flags, data_format, name)


def _adaptive(axes: int, input: Variable, size: object, pool_type: str, with_index: bool, name: str | None) -> Any:
    kind = f"pool{axes}d"
    with at_users_line(f"layers.adaptive_{kind}"):
        x = checked_input(f"adaptive_{kind}", input)
        _checked_type(pool_type)
        if checked_flag("require_index", with_index) and pool_type != "max":
            raise InvalidValue(f"require_index is for pool_type='max', not {pool_type!r}")
        window = listed("pool_size", size, axes)
    helper = LayerHelper(f"adaptive_{kind}", name)
    if with_index:
        slots = ("Out", "Mask")
        return tuple(helper.append_all(f"max_{kind}_with_index", {"X": x}, slots, {"ksize": window, "adaptive": True}, stopped=("Mask",)))
    # As in Paddle, ``ksize`` of an adaptive pooling is the size of the output.
    return helper.append(kind, {"X": x}, {"pooling_type": pool_type, "ksize": window, "adaptive": True})


@layer
def adaptive_pool2d(
    input: Variable, pool_size: Window, pool_type: str = "max", require_index: bool = False, name: str | None = None
) -> Any:
    """Pooling to ``pool_size``, whatever the image's extents; with ``require_index`` the places of the largest elements as well."""
    return _adaptive(2, input, pool_size, pool_type, require_index, name)


@layer
def adaptive_pool3d(
    input: Variable, pool_size: Window, pool_type: str = "max", require_index: bool = False, name: str | None = None
) -> Any:
    """``adaptive_pool2d`` with an axis for the depth before the height."""
    return _adaptive(3, input, pool_size, pool_type, require_index, name)


# -- normalization ---------------------------------------------------------------------------------
# Normalizations, with Fluid's signatures.

_LAYOUTS = ("NCHW", "NHWC")


@alike
@layer
def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Variable:
    """Normalize each channel over the batch, and keep running statistics for inference (S. Ioffe and C. Szegedy, 2015).

    Args:
        input: ``[batch, channels, ...]``, or ``[batch, ..., channels]`` with ``data_layout="NHWC"``.
        is_test: whether this is inference, which takes the running statistics.
        moving_mean_name, moving_variance_name: what the running statistics are called.
        in_place, do_model_average_for_mean_and_var: hints without effect.
        use_global_stats: whether training takes the running statistics, too.
    """
    with at_users_line("layers.batch_norm"):
        x = checked_input("batch_norm", input)
        last = checked_format("data_layout", data_layout, _LAYOUTS)
        checked_flag("is_test", is_test)
        attrs: dict[str, object] = {
            "momentum": checked_float("momentum", momentum),
            "epsilon": checked_float("epsilon", epsilon),
            "is_test": is_test,
        }
        if len(x.shape) < 2 or x.shape[-1 if last else 1] < 1:
            order = "[batch, ..., channels]" if last else "[batch, channels, ...]"
            raise InvalidValue(f"it takes {order} with known channels, not {x!r}")
        attrs |= {"data_layout": data_layout} if last else {}
        attrs |= {"use_global_stats": True} if checked_flag("use_global_stats", use_global_stats) else {}
    helper = LayerHelper("batch_norm", name)
    channels = [x.shape[-1 if last else 1]]
    scale = helper.parameter(param_attr, "w", channels, x.dtype, Constant(1.0))
    bias = helper.parameter(bias_attr, "b", channels, x.dtype, Constant(0.0))
    # Running statistics are read and written in place: MeanOut is Mean, under one name.
    mean = helper.persistable("mean", channels, x.dtype, 0.0, moving_mean_name)
    variance = helper.persistable("variance", channels, x.dtype, 1.0, moving_variance_name)
    out, *_ = helper.append_all(
        "batch_norm",
        {"X": x, "Scale": scale, "Bias": bias, "Mean": mean, "Variance": variance},
        ("Y", "SavedMean", "SavedVariance"),
        attrs,
        written={"MeanOut": mean, "VarianceOut": variance},
        stopped=("SavedMean", "SavedVariance"),
    )
    # Of the statistics of a batch the operator keeps what its gradient reads; they are no results.
    return helper.activate(out, act)


def _scaled(helper: LayerHelper, x: Variable, width: int, param_attr: AttrLike, bias_attr: AttrLike) -> dict[str, Variable]:
    """The inputs of a normalization: what is normalized, the scale and the shift, which False leaves out."""
    inputs = {"X": x}
    if param_attr is not False:
        inputs["Scale"] = helper.parameter(param_attr, "w", [width], x.dtype, Constant(1.0))
    if bias_attr is not False:
        inputs["Bias"] = helper.parameter(bias_attr, "b", [width], x.dtype, Constant(0.0))
    return inputs


@alike
@layer
def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-5,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Normalize over the axes from ``begin_norm_axis`` on (J. L. Ba et al., 2016).

    Args:
        scale, shift: whether the result is scaled and shifted by trained parameters; also off with ``param_attr=False``,
            ``bias_attr=False``.
    """
    with at_users_line("layers.layer_norm"):
        x = checked_input("layer_norm", input)
        has_scale, has_shift = checked_flag("scale", scale), checked_flag("shift", shift)
        begin = checked_int("begin_norm_axis", begin_norm_axis)
        width = element_count(x.shape[begin:])
        if not 0 < begin < len(x.shape) or width < 1:
            raise InvalidValue(f"{x!r} has no known width from axis begin_norm_axis={begin} on")
    helper = LayerHelper("layer_norm", name)
    inputs = _scaled(helper, x, width, param_attr if has_scale else False, bias_attr if has_shift else False)
    attrs = {"begin_norm_axis": begin, "epsilon": float(epsilon)}
    out, *_ = helper.append_all("layer_norm", inputs, ("Y", "Mean", "Variance"), attrs, stopped=("Mean", "Variance"))
    return helper.activate(out, act)


@layer
def instance_norm(
    input: Variable,
    epsilon: float = 1e-5,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    name: str | None = None,
    *,
    data_format: str = "NCHW",
) -> Variable:
    """Normalize each channel of each sample over ``[batch, channels, ...]`` (D. Ulyanov et al., 2016); channels are last with "NHWC"."""
    with at_users_line("layers.instance_norm"):
        x = checked_input("instance_norm", input)
        axes = len(x.shape)
        last = checked_format("data_format", data_format, _LAYOUTS)
        if axes < 3 or x.shape[-1 if last else 1] < 1:
            raise InvalidValue(f"it takes [batch, channels, ...] with known channels, not {x!r}")
    helper = LayerHelper("instance_norm", name)
    if last:  # the operator has channels first
        x = emitted("transpose", [x], axis=[0, axes - 1, *range(1, axes - 1)])
    inputs = _scaled(helper, x, x.shape[1], param_attr, bias_attr)
    slots = ("Y", "SavedMean", "SavedVariance")
    out, *_ = helper.append_all("instance_norm", inputs, slots, {"epsilon": checked_float("epsilon", epsilon)}, stopped=slots[1:])
    return emitted("transpose", [out], axis=[0, *range(2, axes), 1]) if last else out


@layer
def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = 1e-5,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalize groups of the channels of each sample (Y. Wu and K. He, 2018)."""
    with at_users_line("layers.group_norm"):
        x = checked_input("group_norm", input)
        last = checked_format("data_layout", data_layout, _LAYOUTS)
        channels = x.shape[-1 if last else 1] if len(x.shape) > 1 else -1
        if channels < 1 or channels % checked_int("groups", groups, 1):
            raise InvalidValue(f"the channels of {x!r} do not split into {groups} groups")
        attrs = {"groups": groups, "epsilon": checked_float("epsilon", epsilon)}
    helper = LayerHelper("group_norm", name)
    axes = len(x.shape)
    if last:  # the operator has channels first
        x = emitted("transpose", [x], axis=[0, axes - 1, *range(1, axes - 1)])
    inputs = _scaled(helper, x, channels, param_attr, bias_attr)
    out, *_ = helper.append_all("group_norm", inputs, ("Y", "Mean", "Variance"), attrs, stopped=("Mean", "Variance"))
    if last:
        out = emitted("transpose", [out], axis=[0, *range(2, axes), 1])
    return helper.activate(out, act)


@layer
def inplace_abn(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    data_layout: str = "NCHW",
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
    act_alpha: float = 1.0,
) -> Variable:
    """``batch_norm`` and then an activation: None, "identity", "leaky_relu" or "elu", the last two with ``act_alpha``.

    Fluid computes it in the input's buffer; here the pass ``in-place`` decides on buffers.
    """
    with at_users_line("layers.inplace_abn"):
        if act not in (None, "identity", "leaky_relu", "elu"):
            raise InvalidValue(f"act is None, 'identity', 'leaky_relu' or 'elu', not {act!r}")
        slope = checked_float("act_alpha", act_alpha)
    names = (name, moving_mean_name, moving_variance_name)
    flags = (do_model_average_for_mean_and_var, use_global_stats)
    out = batch_norm(input, None, is_test, momentum, epsilon, param_attr, bias_attr, data_layout, False, *names, *flags)
    return out if act in (None, "identity") else emitted(str(act), [out], alpha=slope)


@layer
def spectral_norm(weight: Variable, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, name: str | None = None) -> Variable:
    """A weight over its largest singular value (T. Miyato et al., 2018), which ``power_iters`` steps of the power iteration approach.

    Args:
        dim: the axis that becomes the rows of a matrix; the others are its columns.
    """
    with at_users_line("layers.spectral_norm"):
        x = checked_input("spectral_norm", weight)
        axis, steps, epsilon = checked_int("dim", dim), checked_int("power_iters", power_iters, 0), checked_float("eps", eps)
        if -1 in x.shape or not 0 <= axis < len(x.shape):
            raise InvalidValue(f"it takes a weight of known extents with an axis dim={dim}, not {x!r}")
    helper = LayerHelper("spectral_norm", name)
    rows = x.shape[axis]
    columns = element_count(x.shape) // rows
    axis_first = emitted("transpose", [x], axis=[axis, *(i for i in range(len(x.shape)) if i != axis)])
    matrix = emitted("reshape", [axis_first], shape=[rows, columns])
    vectors = [helper.main.names.generate(f"{helper.name}.{word}") for word in "uv"]
    block = helper.main.global_block()
    # Where the iterations start from: persistent, so that it is the same in each run, and not trained.
    u, v = (
        block.create_var(word, [extent], x.dtype, persistable=True, stop_gradient=True)
        for word, extent in zip(vectors, (rows, columns), strict=True)
    )
    for variable in (u, v):
        helper.initialize(variable, Normal(0.0, 1.0))
    for _ in range(steps):
        v = _unit(emitted("matmul_v2", [matrix, u], trans_x=True), epsilon)
        u = _unit(emitted("matmul_v2", [matrix, v]), epsilon)
    # u' W v approaches the largest singular value; gradients flow through W alone.
    largest = (u * emitted("matmul_v2", [matrix, v])).sum()
    return x / largest  # type: ignore[no-any-return]


def _unit(x: Variable, small: float) -> Variable:
    """A vector over its length; gradients stop at it."""
    out = x / (x.square().sum().sqrt() + small)
    out.stop_gradient = True
    return out


# -- parts of images -----------------------------------------------------------------------------


@layer
def random_crop(x: Variable, shape: Sequence[int], seed: int | None = None) -> Variable:
    """A part of each sample, cut at a place that is drawn for it, at each run.

    Args:
        x: the samples, along the axes in front of those of ``shape``.
        shape: the extents of a part, of the last axes.
        seed: draws the same at each run if it is neither None nor 0.

    Raises:
        ShapeError: an extent of ``x`` along an axis of ``shape`` is unknown, or less than what is cut.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()):
    ...     ga.layers.random_crop(ga.data("image", [None, 3, 32, 32]), shape=[3, 28, 28]).shape
    (-1, 3, 28, 28)
    """
    result = checked_input("random_crop", x)
    with at_users_line("layers.random_crop"):
        extents = [checked_int("shape", extent, 1) for extent in (shape if isinstance(shape, list | tuple) else [shape])]
        first = result.ndim - len(extents)
        have = result.shape[first:] if first >= 0 else ()
        if not have or any(size < extent for size, extent in zip(have, extents, strict=True)):
            raise ShapeError(f"shape={list(shape)} is not a part of the last axes of {result!r}, which are known")
        start = 0 if seed is None else checked_int("seed", seed, 0)
    for axis, (size, extent) in enumerate(zip(have, extents, strict=True), first):
        if size != extent:
            # A seed for each axis, or all axes would be cut at the same share.
            result = _cut(result, axis, extent, first, start + axis if start else 0)
    # A layer returns a new variable, even if nothing was cut.
    return result if have != tuple(extents) else emitted("assign", [result])


def _cut(x: Variable, axis: int, extent: int, samples: int, seed: int) -> Variable:
    """``extent`` elements along an axis, of each sample from a place of its own; samples lie along the first axes."""
    places = x.shape[axis] - extent + 1
    ones = [1] * (x.ndim - samples)
    draw_attrs = {"min": 0.0, "max": 1.0, "seed": seed, "dtype": "float32"}
    if samples:
        share = emitted("uniform_random_batch_size_like", [x], shape=[-1, *x.shape[1:samples], *ones], **draw_attrs)
    else:
        share = emitted("uniform_random", [], shape=ones, **draw_attrs)
    # Of a share that is rounded to 1 the place would be one too far.
    first = emitted("clip", [emitted("floor", [share * float(places)])], min=0.0, max=float(places - 1)).astype("int64")
    index = first + np.arange(extent).reshape([-1 if at == axis else 1 for at in range(x.ndim)])
    part = emitted("slice", [x], axes=[axis], starts=[0], ends=[extent])
    return emitted("take_along_axis", [x, index + emitted("fill_any_like", [part], value=0.0).astype("int64")], Axis=axis)  # type: ignore[no-any-return]
