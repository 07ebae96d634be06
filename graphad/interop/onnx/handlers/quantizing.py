"""Quantized numbers: scales and zero points, products of integers. Gradients go straight through the rounding."""

from __future__ import annotations

import math

import numpy as np

from graphad.interop.onnx.handlers.convolving import convolved
from graphad.interop.onnx.handlers.handler import Node, handles
from graphad.interop.onnx.handlers.pointwise import cast, dtype_of
from graphad.interop.onnx.operands import NotKnown, UnsupportedModel, Value, as_float

_RANGES = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}


def _along(node: Node, part: Value, x: Value) -> Value:
    """A scale or a zero point as it is broadcast: one for all, one for each place of an axis, or one for each block of an axis."""
    if part.rank == 0 or (part.rank == 1 and part.shape[0] == 1):
        return node.ops.reshape(part, shape=[])
    axis = node.axis(x.rank, 1)
    if part.rank == 1:
        after = x.rank - axis - 1
        return node.ops.unsqueeze(part, axes=list(range(1, 1 + after))) if after else part
    if x.shape[axis] == -1:
        raise NotKnown("blocks of an axis whose extent is not known before the model runs")
    size = int(node.attr("block_size", 0)) or -(-x.shape[axis] // part.shape[axis])
    # Each place of the axis has the scale of its block.
    wide = node.ops.gather(part, Value(np.arange(x.shape[axis], dtype="int64") // size), axis=axis)
    return wide


@handles("QuantizeLinear")
def _quantize(node: Node) -> Value:
    x, scale, zero = node[0], node[1], node.get(2)
    dtype = zero.dtype if zero is not None else dtype_of(int(node.attr("output_dtype", 0)) or 2)
    return quantized(node, x, _along(node, scale, x), None if zero is None else _along(node, zero, x), dtype)


def quantized(node: Node, x: Value, scale: Value, zero: Value | None, dtype: str) -> Value:
    """Integers; the whole numbers that they are made of have gradients, which go straight through the rounding."""
    if dtype not in _RANGES:
        raise UnsupportedModel(f"numbers quantized to {dtype}")
    ops = node.ops
    x = x if x.is_float else ops.cast(x, out_dtype="float32")
    low, high = _RANGES[dtype]
    result = ops.rint(ops.elementwise_div(x, cast(node, scale, x.dtype)), straight_through=True)
    if zero is not None:
        result = ops.elementwise_add(result, ops.cast(as_float(zero), out_dtype=x.dtype))
    return rounded(node, ops.clip(result, min=float(low), max=float(high)), dtype)


def rounded(node: Node, numbers: Value, dtype: str) -> Value:
    """Whole numbers as integers that remember them."""
    out = node.ops.cast(numbers, out_dtype=dtype)
    if out.array is None:
        out.real = numbers
    return out


@handles("DequantizeLinear")
def _dequantize(node: Node) -> Value:
    x, scale, zero = node[0], node[1], node.get(2)
    return dequantized(node, x, _along(node, scale, x), None if zero is None else _along(node, zero, x))


def dequantized(node: Node, x: Value, scale: Value, zero: Value | None) -> Value:
    ops = node.ops
    # It was quantized here: the floats before rounding are known, and gradients go through them.
    if x.real is not None:
        number = ops.cast(x.real, out_dtype=scale.dtype)
        return ops.elementwise_mul(number if zero is None else ops.elementwise_sub(number, cast(node, zero, scale.dtype)), scale)
    number = ops.cast(x, out_dtype="int32")
    if zero is not None:
        number = ops.elementwise_sub(number, ops.cast(zero, out_dtype="int32"))
    return ops.elementwise_mul(ops.cast(number, out_dtype=scale.dtype), scale)


@handles("DynamicQuantizeLinear")
def _dynamic(node: Node) -> list[Value]:
    scale, zero = own_range(node, node[0])
    point = rounded(node, zero, "uint8")
    return [quantized(node, node[0], scale, point, "uint8"), scale, point]


def own_range(node: Node, x: Value) -> tuple[Value, Value]:
    """The scale and the zero point with which 8 bits hold all elements of x, and zero; as floats."""
    ops = node.ops
    # The range has zero in it, so that zero itself is exact: padding and ReLU add no error.
    least = ops.elementwise_min(ops.reduce_min(x, reduce_all=True, keep_dim=False), ops.like(0.0, x))
    most = ops.elementwise_max(ops.reduce_max(x, reduce_all=True, keep_dim=False), ops.like(0.0, x))
    scale = ops.elementwise_div(ops.elementwise_sub(most, least), ops.like(255.0, x))
    scale = ops.where(ops.equal(scale, ops.like(0.0, x)), ops.like(1.0, x), scale)
    zero = ops.rint(ops.scale(ops.elementwise_div(least, scale), scale=-1.0), straight_through=True)
    return scale, ops.clip(zero, min=0.0, max=255.0)


# -- products of integers ------------------------------------------------------------------------

_EXACT = 1 << 24  # whole numbers up to here are float32's


def _less_zero(node: Node, x: Value, zero: Value | None, axis: int | None = None, dtype: str = "float64") -> Value:
    """Integers less the zero point, as floats: by default as float64, which holds sums of their products exactly."""
    ops = node.ops
    wide_x = ops.cast(as_float(x), out_dtype=dtype)
    if zero is None:
        return wide_x
    point = ops.cast(as_float(zero), out_dtype=dtype)
    if axis is not None and point.rank == 1 and point.shape[0] != 1:
        point = ops.unsqueeze(point, axes=[i for i in range(x.rank) if i != axis])
    elif point.rank == 1 and point.shape[0] == 1:
        point = ops.reshape(point, shape=[])
    return ops.elementwise_sub(wide_x, point)


def less_zero(node: Node, w: Value, zero: Value | None, over: tuple[int, ...], axis: int | None = None) -> Value:
    """Weights less the zero point: as float32 where sums over axes of products with 8 bits are exact in it, else as float64."""
    return _less_zero(node, w, zero, axis, "float32" if _is_narrow(w, zero, over, axis) else "float64")


def _is_narrow(w: Value, zero: Value | None, over: tuple[int, ...], axis: int | None) -> bool:
    """Whether no partial sum, in whatever order, is larger than the whole numbers that float32 has."""
    if w.content is None or (zero is not None and zero.content is None):
        return False
    count = math.prod(w.shape[place] for place in over)
    if 255 * 255 * count < _EXACT:
        return True
    numbers = w.content
    if zero is not None and zero.content is not None and zero.content.any():
        point = zero.content.astype("int16")
        is_by_axis = axis is not None and point.ndim == 1 and point.size > 1
        numbers = numbers - (point.reshape([-1 if i == axis else 1 for i in range(w.rank)]) if is_by_axis else point)
    sizes = np.abs(numbers)
    # The absolute value of -128 does not fit into int8: the bits are those of 128.
    sizes = sizes.view("uint8") if sizes.dtype == np.int8 else sizes
    return bool(255 * int(sizes.sum(axis=over, dtype="int32").max(initial=0)) < _EXACT)


@handles("MatMulInteger")
def _matmul_integer(node: Node) -> Value:
    a, b = node[0], node[1]
    y = less_zero(node, b, node.get(3), (max(b.rank - 2, 0),), b.rank - 1)
    x = _less_zero(node, a, node.get(2), a.rank - 2 if a.rank >= 2 else None, y.dtype)
    return rounded(node, node.ops.matmul_v2(x, y), "int32")


@handles("ConvInteger")
def _conv_integer(node: Node) -> Value:
    w = less_zero(node, node[1], node.get(3), tuple(range(1, node[1].rank)), 0)
    x = _less_zero(node, node[0], node.get(2), None, w.dtype)
    return rounded(node, convolved(node, x, w, None), "int32")


@handles("QLinearMatMul")
def _qlinear_matmul(node: Node) -> Value:
    a, b = node[0], node[3]
    x, y = _less_zero(node, a, node[2], a.rank - 2), _less_zero(node, b, node[5], b.rank - 1)
    return _requantized(node, node.ops.matmul_v2(x, y), node[1], node[4], node[6], node[7])


@handles("QLinearConv")
def _qlinear_conv(node: Node) -> Value:
    # Integers in float64: products of 8 bits add up exactly, so that the result is rounded once, when it is quantized.
    x, w = _less_zero(node, node[0], node[2]), _less_zero(node, node[3], node[5], 0)
    bias = None if node.get(8) is None else node.ops.cast(node[8], out_dtype="float64")
    result = convolved(node, x, w, bias)
    scale = node[4]
    if scale.rank == 1 and scale.shape[0] > 1:
        scale = node.ops.unsqueeze(scale, axes=list(range(1, result.rank - 1)))
    return _requantized(node, result, node[1], scale, node[6], node[7])


def _requantized(node: Node, x: Value, unit: Value, other: Value, scale: Value, zero: Value) -> Value:
    ops = node.ops
    flat = [ops.reshape(value, shape=[]) if value.rank == 1 and value.shape[0] == 1 else value for value in (unit, other, scale, zero)]
    factor = ops.elementwise_div(ops.elementwise_mul(flat[0], flat[1]), flat[2])
    result = ops.elementwise_mul(x, ops.cast(factor, out_dtype="float64"))
    return quantized(node, result, Value(np.asarray(1.0)), flat[3], zero.dtype)
