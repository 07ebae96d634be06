"""Layers with parameters, and layers that shape data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphad.errors import InvalidType, InvalidValue
from graphad.initializer import Constant, Normal
from graphad.layers.helper import LayerHelper, checked_input, layer
from graphad.program import Variable, default_main_program
from graphad.types import FLOATS, element_count


def data(name: str, shape: Sequence[int], dtype: Any = "float32", append_batch_size: bool = True, stop_gradient: bool = True) -> Variable:
    """A variable that is fed: ``[-1, *shape]`` of a minibatch, or exactly ``shape`` with ``append_batch_size=False``.

    Args:
        name: what the feed calls it.
        shape: extents of one sample; -1 where unknown. A shape that holds -1 already is not prefixed.
        stop_gradient: False to differentiate with respect to the data.
    """
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        raise InvalidType(f"layers.data: shape is a list of ints, not {shape!r}")
    extents = list(shape)
    if append_batch_size and -1 not in extents:
        extents = [-1, *extents]
    return default_main_program().global_block().create_var(name, extents, dtype, stop_gradient=stop_gradient)


@layer
def fc(
    input: Variable,
    size: int,
    num_flatten_dims: int = 1,
    act: str | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """A fully connected layer: ``act(X @ W + b)``, X flattened to a matrix after ``num_flatten_dims`` axes.

    Args:
        input: of shape ``[n, ..., d]``; the extents after ``num_flatten_dims`` must be known.
        size: the number of outputs.

    Returns:
        A variable of shape ``input.shape[:num_flatten_dims] + [size]``.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()):
    ...     ga.layers.fc(ga.layers.data("x", shape=[4]), size=3, act="relu")
    Variable fc_0.tmp_2: float32[-1, 3]
    """
    x = checked_input("fc", input)
    width = element_count(x.shape[num_flatten_dims:])
    if width <= 0:
        raise InvalidValue(f"layers.fc: {x!r} has no known width after its first {num_flatten_dims} axes")
    if x.dtype not in FLOATS:
        raise InvalidValue(f"layers.fc takes a floating-point variable, not {x!r}; cast it first")
    helper = LayerHelper("fc", name)
    w = helper.parameter(param_attr, "w", [width, size], x.dtype)
    out = helper.append("mul", {"X": x, "Y": w}, {"x_num_col_dims": num_flatten_dims, "y_num_col_dims": 1})
    bias = helper.bias(bias_attr, [size], x.dtype)
    if bias is not None:
        out = helper.append("elementwise_add", {"X": out, "Y": bias}, {"axis": num_flatten_dims})
    return helper.activate(out, act)


@layer
def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    act: str | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """A two-dimensional convolution over ``[batch, channels, height, width]``."""
    x = checked_input("conv2d", input)
    if len(x.shape) != 4 or x.shape[1] < 1:
        raise InvalidValue(f"layers.conv2d takes [batch, channels, height, width] with known channels, not {x!r}")
    if groups < 1 or x.shape[1] % groups or num_filters % groups:
        raise InvalidValue(f"layers.conv2d: {x.shape[1]} channels and {num_filters} filters do not split into {groups} groups")
    helper = LayerHelper("conv2d", name)
    window = _pair(filter_size)
    fan_in = x.shape[1] // groups * window[0] * window[1]
    shape = [num_filters, x.shape[1] // groups, *window]
    w = helper.parameter(param_attr, "w", shape, x.dtype, Normal(0.0, (2.0 / fan_in) ** 0.5))
    attrs = {"strides": _pair(stride), "paddings": _pair(padding), "dilations": _pair(dilation), "groups": groups}
    out = helper.append("conv2d", {"Input": x, "Filter": w}, attrs, out="Output")
    bias = helper.bias(bias_attr, [num_filters], x.dtype)
    if bias is not None:
        out = helper.append("elementwise_add", {"X": out, "Y": bias}, {"axis": 1})
    return helper.activate(out, act)


@layer
def pool2d(
    input: Variable,
    pool_size: int | Sequence[int] = 2,
    pool_type: str = "max",
    pool_stride: int | Sequence[int] | None = None,
    pool_padding: int | Sequence[int] = 0,
    global_pooling: bool = False,
    ceil_mode: bool = False,
    exclusive: bool = True,
    name: str | None = None,
) -> Variable:
    """Two-dimensional pooling, "max" or "avg"; the stride is the window's size if not given."""
    x = checked_input("pool2d", input)
    if pool_type not in ("max", "avg"):
        raise InvalidValue(f"layers.pool2d: pool_type is 'max' or 'avg', not {pool_type!r}")
    size = _pair(pool_size)
    attrs = {
        "pooling_type": pool_type,
        "ksize": size,
        "strides": size if pool_stride is None else _pair(pool_stride),
        "paddings": _pair(pool_padding),
        "global_pooling": global_pooling,
        "ceil_mode": ceil_mode,
        "exclusive": exclusive,
    }
    return LayerHelper("pool2d", name).append("pool2d", {"X": x}, attrs)


@layer
def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """Normalize each channel (axis 1) over the batch, and keep running statistics for inference."""
    x = checked_input("batch_norm", input)
    if len(x.shape) < 2 or x.shape[1] < 1:
        raise InvalidValue(f"layers.batch_norm takes [batch, channels, ...] with known channels, not {x!r}")
    helper = LayerHelper("batch_norm", name)
    channels = [x.shape[1]]
    scale = helper.parameter(param_attr, "w", channels, x.dtype, Constant(1.0))
    bias = helper.parameter(bias_attr, "b", channels, x.dtype, Constant(0.0))
    mean, variance = helper.persistable("mean", channels, x.dtype, 0.0), helper.persistable("variance", channels, x.dtype, 1.0)
    out, *_ = helper.append_all(
        "batch_norm",
        {"X": x, "Scale": scale, "Bias": bias, "Mean": mean, "Variance": variance},
        ("Y", "SavedMean", "SavedVariance"),
        {"momentum": momentum, "epsilon": epsilon, "is_test": is_test},
        written={"MeanOut": mean, "VarianceOut": variance},
        stopped=("SavedMean", "SavedVariance"),
    )
    return helper.activate(out, act)


@layer
def layer_norm(
    input: Variable,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-5,
    act: str | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """Normalize over the axes from ``begin_norm_axis`` on, with a learnt scale and shift (J. L. Ba et al., 2016)."""
    x = checked_input("layer_norm", input)
    width = element_count(x.shape[begin_norm_axis:])
    if not 0 < begin_norm_axis < len(x.shape) or width < 1:
        raise InvalidValue(f"layers.layer_norm: {x!r} has no known width from axis begin_norm_axis={begin_norm_axis} on")
    helper = LayerHelper("layer_norm", name)
    inputs = {"X": x, "Scale": helper.parameter(param_attr, "w", [width], x.dtype, Constant(1.0))}
    bias = helper.bias(bias_attr, [width], x.dtype)
    if bias is not None:
        inputs["Bias"] = bias
    attrs = {"begin_norm_axis": begin_norm_axis, "epsilon": epsilon}
    out, *_ = helper.append_all("layer_norm", inputs, ("Y", "Mean", "Variance"), attrs, stopped=("Mean", "Variance"))
    return helper.activate(out, act)


@layer
def dropout(x: Variable, dropout_prob: float, is_test: bool = False, seed: int = 0, name: str | None = None) -> Variable:
    """Zero each element with a probability, scaling the others up so that inference needs no change (N. Srivastava et al., 2014)."""
    helper = LayerHelper("dropout", name)
    attrs = {"dropout_prob": dropout_prob, "is_test": is_test, "dropout_implementation": "upscale_in_train"}
    if seed:
        attrs |= {"seed": seed, "fix_seed": True}
    out, _ = helper.append_all("dropout", {"X": checked_input("dropout", x)}, ("Out", "Mask"), attrs, stopped=("Mask",))
    return out


@layer
def embedding(
    input: Variable, size: Sequence[int], padding_idx: int = -1, dtype: str = "float32", param_attr: Any = None, name: str | None = None
) -> Variable:
    """Rows of a ``[count, width]`` table by integer ids; the result has the ids' shape and a last axis of ``width``."""
    helper = LayerHelper("embedding", name)
    w = helper.parameter(param_attr, "w", list(size), dtype)
    return helper.append("lookup_table_v2", {"Ids": checked_input("embedding", input), "W": w}, {"padding_idx": padding_idx})


def _pair(value: int | Sequence[int]) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)
