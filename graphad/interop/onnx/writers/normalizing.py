"""Normalizations by mean and variance, and to the length one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphad.interop.onnx.emitting import Nodes
from graphad.interop.onnx.terms import Term, on
from graphad.interop.onnx.writers.reducing import window_summed
from graphad.interop.onnx.writers.writer import Call, Result, writes
from graphad.ops.conv import channel_axis
from graphad.ops.normalization import BatchNorm


def moments(nodes: Nodes, x: Term, axes: Sequence[int], epsilon: float) -> tuple[Term, Term, Term, Term]:
    """x less its mean, the mean, the variance and its inverse square root, the axes kept."""
    mean = nodes.reduce("Mean", x, axes, keep=True)
    deviations = x - mean
    variance = nodes.reduce("Mean", deviations * deviations, axes, keep=True)
    return deviations, mean, variance, 1.0 / on.sqrt(variance + epsilon)


def _along(nodes: Nodes, x: Term, vector: Term, axis: int) -> Term:
    """A vector with as many axes after it as there are in x."""
    return nodes.unsqueeze(vector, list(range(1, x.ndim - axis % x.ndim)))


def _affine(nodes: Nodes, x: Term, scale: Term | None, bias: Term | None, axis: int) -> Term:
    x = x if scale is None else x * _along(nodes, x, scale, axis)
    return x if bias is None else x + _along(nodes, x, bias, axis)


@writes("batch_norm", "sync_batch_norm")
def _batch_norm(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    norm = BatchNorm(**call.attrs)
    scale, bias, mean, variance = (call[slot] for slot in ("Scale", "Bias", "Mean", "Variance"))
    axis, epsilon = norm.axis(x.ndim), float(norm.epsilon)
    reserve = nodes.constant(np.zeros(0, x.dtype))
    if norm.fixed:
        if axis == 1:
            # ONNX's operator has channels on axis 1; for other layouts it is written out.
            y = nodes.one("BatchNormalization", [x, scale, bias, mean, variance], x.kind, x.sizes, epsilon=epsilon)
        else:
            hat = (x - _along(nodes, x, mean, axis)) / on.sqrt(_along(nodes, x, variance, axis) + epsilon)
            y = _affine(nodes, hat, scale, bias, axis)
        return [y, mean, variance, mean, 1.0 / on.sqrt(variance + epsilon), reserve]
    deviations, batch_mean, batch_variance, inverse = moments(nodes, x, norm.dim(x.ndim), epsilon)
    y = _affine(nodes, deviations * inverse, scale, bias, axis)
    # Moments keep their reduced axes, to be broadcast; as outputs they have one element a channel.
    flat = [nodes.reshape(statistic, nodes.dims(scale)) for statistic in (batch_mean, batch_variance, inverse)]
    momentum, share = float(norm.momentum), 1 - float(norm.momentum)
    return [y, mean * momentum + flat[0] * share, variance * momentum + flat[1] * share, flat[0], flat[2], reserve]


@writes("layer_norm")
def _layer_norm(call: Call) -> Result:
    """As one operator where nothing but its result is read."""
    x, nodes, begin = call["X"], call.nodes, call.attr("begin_norm_axis")
    scale, bias, epsilon = call.get("Scale"), call.get("Bias"), float(call.attr("epsilon"))
    rows = nodes.dims(x)[begin:]
    plain = scale is not None and not any(call.is_read(slot) for slot in ("Mean", "Variance"))
    if plain and scale is not None:
        # ONNX's operator takes scale and bias in the shape of a row.
        operands = [x, nodes.reshape(scale, rows), *([] if bias is None else [nodes.reshape(bias, rows)])]
        return [nodes.one("LayerNormalization", operands, x.kind, x.sizes, axis=begin, epsilon=epsilon), None, None]
    deviations, mean, variance, inverse = moments(nodes, x, range(begin, x.ndim), epsilon)
    y = deviations * inverse
    y = y if scale is None else y * nodes.reshape(scale, rows)
    y = y if bias is None else y + nodes.reshape(bias, rows)
    last = list(range(begin, x.ndim))
    return [y, nodes.squeeze(mean, last), nodes.squeeze(variance, last)]


@writes("instance_norm")
def _instance_norm(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    deviations, mean, _, inverse = moments(nodes, x, range(2, x.ndim), float(call.attr("epsilon")))
    y = _affine(nodes, deviations * inverse, call.get("Scale"), call.get("Bias"), 1)
    return [y, nodes.flatten(mean), nodes.flatten(inverse)]


@writes("group_norm")
def _group_norm(call: Call) -> Result:
    x, nodes, groups = call["X"], call.nodes, int(call.attr("groups"))
    dims = nodes.dims(x)
    rest = nodes.product(dims[1:])
    width = rest // groups if isinstance(rest, int) else on.floor_divide(rest, groups)
    # [batch, groups, channels of a group and their places].
    blocks = nodes.reshape(x, [dims[0], groups, width])
    deviations, mean, variance, inverse = moments(nodes, blocks, [2], float(call.attr("epsilon")))
    y = _affine(nodes, nodes.reshape(deviations * inverse, dims), call.get("Scale"), call.get("Bias"), 1)
    return [y, nodes.squeeze(mean, [2]), nodes.squeeze(variance, [2])]


@writes("lrn")
def _lrn(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    axis = channel_axis(call.attr("data_format")) % 4
    # x / (k + alpha * sum)^beta; ONNX's own LRN divides alpha by the size of the window.
    middle = window_summed(nodes, x * x, axis, call.attr("n") // 2) * float(call.attr("alpha")) + float(call.attr("k"))
    return [x * on.power(middle, -float(call.attr("beta"))), middle]


@writes("norm")
def _norm(call: Call) -> Result:
    """Slices divided by their lengths."""
    x, nodes, axis = call["X"], call.nodes, call.attr("axis") % call["X"].ndim
    length = on.sqrt(nodes.reduce("Sum", x * x, [axis], keep=True) + float(call.attr("epsilon")))
    return [x / length, length]


@writes("affine_channel")
def _affine_channel(call: Call) -> Result:
    x = call["X"]
    return _affine(call.nodes, x, call["Scale"], call["Bias"], channel_axis(call.attr("data_layout")) % x.ndim)


@writes("clip_by_norm")
def _clip_by_norm(call: Call) -> Result:
    """Scaled down to a length where it is longer."""
    x, nodes, most = call["X"], call.nodes, float(call.attr("max_norm"))
    length = on.sqrt(nodes.reduce("Sum", x * x, range(x.ndim)))
    longer = on.greater(length, most)
    factor = on.where(longer, most / on.where(longer, length, 1.0), 1.0)
    return x * nodes.cast(factor, x.kind)
