"""Fluid's ``nets``: layers that are often written one after another, with Fluid's parameters.

>>> import graphad as ga
>>> with ga.program_guard(ga.Program()):
...     image = ga.data("image", [None, 1, 28, 28])
...     ga.nets.simple_img_conv_pool(image, num_filters=20, filter_size=5, pool_size=2, pool_stride=2, act="relu").shape
(-1, 20, 12, 12)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphad import layers
from graphad.errors import InvalidValue, ShapeError
from graphad.layers.helper import AttrLike, checked_input, layer
from graphad.layers.images import Window
from graphad.program import Variable
from graphad.program.source import at_users_line

__all__ = ["glu", "img_conv_group", "scaled_dot_product_attention", "sequence_conv_pool", "simple_img_conv_pool"]


@layer
def simple_img_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: Window,
    pool_size: Window,
    pool_stride: Window,
    pool_padding: Window = 0,
    pool_type: str = "max",
    global_pooling: bool = False,
    conv_stride: Window = 1,
    conv_padding: Window = 0,
    conv_dilation: Window = 1,
    conv_groups: int = 1,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    act: str | None = None,
    use_cudnn: bool = True,
) -> Variable:
    """``conv2d``, then ``pool2d``."""
    features = layers.conv2d(
        input, num_filters, filter_size, conv_stride, conv_padding, conv_dilation, conv_groups, param_attr, bias_attr, act=act
    )
    return layers.pool2d(features, pool_size, pool_type, pool_stride, pool_padding, global_pooling)


@layer
def img_conv_group(
    input: Variable,
    conv_num_filter: Sequence[int],
    pool_size: Window,
    conv_padding: Window | Sequence[Window] = 1,
    conv_filter_size: Window | Sequence[Window] = 3,
    conv_act: str | None = None,
    param_attr: AttrLike | Sequence[AttrLike] = None,
    conv_with_batchnorm: bool | Sequence[bool] = False,
    conv_batchnorm_drop_rate: float | Sequence[float] = 0.0,
    pool_stride: Window = 1,
    pool_type: str = "max",
    use_cudnn: bool = True,
) -> Variable:
    """Convolutions, each with normalization and dropout if asked to, then one ``pool2d``: a group of VGG's (Simonyan and Zisserman, 2015).

    Args:
        input: ``[batch, channels, height, width]``.
        conv_num_filter: the filters of each convolution.
        conv_padding, conv_filter_size, param_attr, conv_with_batchnorm, conv_batchnorm_drop_rate: one for all, or a list of one for each.
        conv_act: the activation of each: after the normalization where there is one.
        use_cudnn: a hint without effect.

    Raises:
        ValueError: a list has another length than ``conv_num_filter``.
    """
    count = len(conv_num_filter)
    with at_users_line("nets.img_conv_group"):
        paddings = _each("conv_padding", conv_padding, count)
        sizes = _each("conv_filter_size", conv_filter_size, count)
        attrs = _each("param_attr", param_attr, count)
        norms = _each("conv_with_batchnorm", conv_with_batchnorm, count)
        rates = _each("conv_batchnorm_drop_rate", conv_batchnorm_drop_rate, count)
    x = input
    for filters, padding, size, attr, norm, rate in zip(conv_num_filter, paddings, sizes, attrs, norms, rates, strict=True):
        # With normalization the activation comes after that.
        x = layers.conv2d(x, filters, size, padding=padding, param_attr=attr, act=None if norm else conv_act)
        if norm:
            x = layers.batch_norm(x, act=conv_act)
            x = layers.dropout(x, rate) if rate else x
    return layers.pool2d(x, pool_size, pool_type, pool_stride)


def _each(what: str, option: Any, count: int) -> list[Any]:
    """One option for each of several layers."""
    if not isinstance(option, list | tuple):
        return [option] * count
    if len(option) != count:
        raise InvalidValue(f"{what} has {len(option)} elements for {count} convolutions: {list(option)}")
    return list(option)


@layer
def sequence_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: int,
    param_attr: AttrLike = None,
    act: str | None = "sigmoid",
    pool_type: str = "max",
    bias_attr: AttrLike = None,
    *,
    length: Variable | None = None,
) -> Variable:
    """A convolution over the steps of padded sequences ``[batch, time, width]``, and one value of each: ``[batch, num_filters]``.

    ``length`` is how many steps each sequence has, ``[batch]``; all of them if None.
    """
    steps = layers.sequence_conv(input, num_filters, filter_size, param_attr=param_attr, bias_attr=bias_attr, act=act, length=length)
    return layers.sequence_pool(steps, pool_type, length=length)


def glu(input: Variable, dim: int = -1) -> Variable:
    """The first half along an axis, times the sigmoid of the second."""
    return layers.glu(input, dim)


@layer
def scaled_dot_product_attention(
    queries: Variable, keys: Variable, values: Variable, num_heads: int = 1, dropout_rate: float = 0.0
) -> Variable:
    """Attention as Fluid has it (Vaswani et al., 2017).

    Args:
        queries: ``[batch, wanted, width]``.
        keys: ``[batch, time, width]``.
        values: ``[batch, time, depth]``.
        num_heads: how many heads; with more than one, each tensor goes through an ``fc`` first.
        dropout_rate: the probability with which a weight is dropped.

    Returns:
        ``[batch, wanted, depth]``.

    Raises:
        ValueError: ranks or widths do not fit, or a width is no multiple of ``num_heads``.
    """
    with at_users_line("nets.scaled_dot_product_attention"):
        for role, x in (("queries", queries), ("keys", keys), ("values", values)):
            checked_input("scaled_dot_product_attention", x)
            if x.ndim != 3 or x.shape[-1] < 1:
                raise ShapeError(f"{role} are [batch, time, width] with a known width, not {x!r}")
            if x.shape[-1] % num_heads:
                raise InvalidValue(f"the width of {role}, {x.shape[-1]}, is no multiple of num_heads={num_heads}")
        if queries.shape[-1] != keys.shape[-1]:
            raise ShapeError(f"queries and keys are of one width, not {queries!r} and {keys!r}")
    # Fluid projects only where there are several heads: one head attends to what it is given.
    if num_heads > 1:
        queries, keys, values = (layers.fc(x, x.shape[-1], num_flatten_dims=2) for x in (queries, keys, values))
    q, k, v = (_heads(x, num_heads) for x in (queries, keys, values))
    # As in Fluid, the queries are scaled and not the products.
    # softmax(q k^T / sqrt(d)) v, [batch, heads, wanted, time].
    scores = layers.matmul(q * (keys.shape[-1] // num_heads) ** -0.5, k, transpose_y=True)
    weights = layers.softmax(scores)
    weights = layers.dropout(weights, dropout_rate) if dropout_rate else weights
    context = weights @ v
    if num_heads == 1:
        return context
    # The heads side by side again: [batch, wanted, heads, depth] to [batch, wanted, heads * depth].
    return layers.reshape(context.transpose(0, 2, 1, 3), [0, 0, values.shape[-1]])


def _heads(x: Variable, count: int) -> Variable:
    """``[batch, time, width]`` as ``[batch, heads, time, width // heads]``; as it is if there is one head."""
    return x if count == 1 else layers.reshape(x, [0, 0, count, x.shape[-1] // count]).transpose(0, 2, 1, 3)


def __dir__() -> list[str]:
    return sorted(__all__)
