"""Normalizations, with Fluid's signatures."""

from __future__ import annotations

from typing import Any

from graphad.errors import InvalidValue
from graphad.initializer import Constant
from graphad.layers.checks import checked_flag, checked_float, checked_format, checked_int
from graphad.layers.helper import LayerHelper, checked_input, layer
from graphad.program import Variable
from graphad.program.source import at_users_line
from graphad.types import element_count

_LAYOUTS = ("NCHW", "NHWC")


@layer
def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    param_attr: Any = None,
    bias_attr: Any = None,
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
        attrs: dict[str, Any] = {
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
    return helper.activate(out, act)


def _scaled(helper: LayerHelper, x: Variable, width: int, param_attr: Any, bias_attr: Any) -> dict[str, Variable]:
    """The inputs of a normalization: what is normalized, the scale and the shift, which False leaves out."""
    inputs = {"X": x}
    if param_attr is not False:
        inputs["Scale"] = helper.parameter(param_attr, "w", [width], x.dtype, Constant(1.0))
    if bias_attr is not False:
        inputs["Bias"] = helper.parameter(bias_attr, "b", [width], x.dtype, Constant(0.0))
    return inputs


@layer
def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-5,
    param_attr: Any = None,
    bias_attr: Any = None,
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
        scaled, shifted = checked_flag("scale", scale), checked_flag("shift", shift)
        begin = checked_int("begin_norm_axis", begin_norm_axis)
        width = element_count(x.shape[begin:])
        if not 0 < begin < len(x.shape) or width < 1:
            raise InvalidValue(f"{x!r} has no known width from axis begin_norm_axis={begin} on")
    helper = LayerHelper("layer_norm", name)
    inputs = _scaled(helper, x, width, param_attr if scaled else False, bias_attr if shifted else False)
    attrs = {"begin_norm_axis": begin, "epsilon": float(epsilon)}
    out, *_ = helper.append_all("layer_norm", inputs, ("Y", "Mean", "Variance"), attrs, stopped=("Mean", "Variance"))
    return helper.activate(out, act)


@layer
def instance_norm(
    input: Variable, epsilon: float = 1e-5, param_attr: Any = None, bias_attr: Any = None, name: str | None = None
) -> Variable:
    """Normalize each channel of each sample over ``[batch, channels, ...]`` (D. Ulyanov et al., 2016)."""
    with at_users_line("layers.instance_norm"):
        x = checked_input("instance_norm", input)
        if len(x.shape) < 3 or x.shape[1] < 1:
            raise InvalidValue(f"it takes [batch, channels, ...] with known channels, not {x!r}")
    helper = LayerHelper("instance_norm", name)
    inputs = _scaled(helper, x, x.shape[1], param_attr, bias_attr)
    slots = ("Y", "SavedMean", "SavedVariance")
    out, *_ = helper.append_all("instance_norm", inputs, slots, {"epsilon": checked_float("epsilon", epsilon)}, stopped=slots[1:])
    return out


@layer
def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = 1e-5,
    param_attr: Any = None,
    bias_attr: Any = None,
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
        attrs = {"groups": groups, "epsilon": checked_float("epsilon", epsilon)} | ({"data_layout": data_layout} if last else {})
    helper = LayerHelper("group_norm", name)
    inputs = _scaled(helper, x, channels, param_attr, bias_attr)
    out, *_ = helper.append_all("group_norm", inputs, ("Y", "Mean", "Variance"), attrs, stopped=("Mean", "Variance"))
    return helper.activate(out, act)
