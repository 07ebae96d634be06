"""Operators of com.microsoft: what onnxruntime's optimizer makes of several nodes, and what its quantization writes.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. Those on floats are read as what they were fused from, so that
they are written as ONNX's own operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from graphad.errors import ParseError
from graphad.interop.onnx.handlers.convolving import convolved
from graphad.interop.onnx.handlers.handler import MICROSOFT, ONNX, Handler, Node, handler_of, handles
from graphad.interop.onnx.handlers.normalizing import by_heads, joined_heads, scaled, scaled_by_root, steps
from graphad.interop.onnx.handlers.pointwise import cast
from graphad.interop.onnx.handlers.quantizing import dequantized, less_zero, own_range, quantized, rounded
from graphad.interop.onnx.handlers.reducing import extent
from graphad.interop.onnx.operands import NotKnown, Operand, UnsupportedModel, Value

_VERSION = 21  # of ONNX's operators that are read in their place


def _as_onnx(node: Node, type: str, inputs: Sequence[Operand], attrs: Mapping[str, object], version: int = _VERSION) -> list[Value | None]:
    """The results of an operator of ONNX."""
    handler = handler_of(ONNX, type, version)
    if handler is None:
        raise UnsupportedModel(f"there is no operator {type}")
    result = handler(replace(node, type=type, inputs=list(inputs), attrs=attrs, version=version))
    return [result] if isinstance(result, Value) else list(result)


def _first(values: Sequence[Value | None]) -> Value:
    (value, *_) = values
    assert value is not None
    return value


def _alias(type: str, **renamed: str) -> Handler:
    """An operator that ONNX has by the same name, or has by now."""
    return lambda node: _as_onnx(node, type, node.inputs, {renamed.get(name, name): value for name, value in node.attrs.items()})


for _type in ("QuantizeLinear", "DequantizeLinear", "Trilu", "Gelu"):
    handles(_type, domain=MICROSOFT)(_alias(_type))


# -- what onnxruntime fuses ------------------------------------------------------------------------

# The numbers of an activation, in the order of ``activation_params``: those of ``Clip`` are attributes in operator set 6 alone.
_NUMBERS = {
    "LeakyRelu": ["alpha"],
    "Elu": ["alpha"],
    "ThresholdedRelu": ["alpha"],
    "Clip": ["min", "max"],
    "HardSigmoid": ["alpha", "beta"],
}
_NUMBERS["Selu"] = ["alpha", "gamma"]


def _activated(node: Node, x: Value) -> Value:
    activation = str(node.attr("activation", ""))
    if not activation:
        return x
    names = _NUMBERS.get(activation, [])
    params = node.attr("activation_params") or [node.attr(f"activation_{name}") for name in names]
    attrs = {name: float(number) for name, number in zip(names, params, strict=False) if number is not None}
    return _first(_as_onnx(node, activation, [x], attrs, 6 if activation == "Clip" else _VERSION))


@handles("FusedConv", domain=MICROSOFT)
def _fused_conv(node: Node) -> Value:
    out = convolved(node, node[0], node[1], node.get(2))
    more = node.get(3)
    return _activated(node, out if more is None else node.ops.elementwise_add(out, more))


@handles("FusedGemm", domain=MICROSOFT)
def _fused_gemm(node: Node) -> Value:
    return _activated(node, _first(_as_onnx(node, "Gemm", node.inputs, node.attrs)))


@handles("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def _fused_matmul(node: Node) -> Value:
    if node.attr("transBatchA", 0) or node.attr("transBatchB", 0):
        raise UnsupportedModel("a product whose batch is not in front (transBatchA, transBatchB)")
    # As numpy's matmul, a vector has no axes to exchange.
    trans_x, trans_y = (bool(node.attr(name, 0)) and node[i].rank > 1 for i, name in enumerate(("transA", "transB")))
    return scaled(node, node.ops.matmul_v2(node[0], node[1], trans_x=trans_x, trans_y=trans_y), float(node.attr("alpha", 1.0)))


@handles("BiasGelu", domain=MICROSOFT)
def _bias_gelu(node: Node) -> Value:
    return node.ops.gelu(node.ops.elementwise_add(node[0], node[1]))


@handles("FastGelu", domain=MICROSOFT)
def _fast_gelu(node: Node) -> Value:
    bias = node.get(1)
    return node.ops.gelu(node[0] if bias is None else node.ops.elementwise_add(node[0], bias), approximate=True)


@handles("QuickGelu", domain=MICROSOFT)
def _quick_gelu(node: Node) -> Value:
    return node.ops.swish(node[0], beta=float(node.attr("alpha", 1.702)))


@handles("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_norm(node: Node) -> list[Value | None]:
    """The normal form of a sum, and as the last result the sum itself."""
    is_simple = "Simplified" in node.type
    x, skip, gamma = node[0], node[1], node[2]
    beta, bias = (None, node.get(3)) if is_simple else (node.get(3), node.get(4))
    total = reduce(node.ops.elementwise_add, [part for part in (x, skip, bias) if part is not None])
    attrs = {"axis": -1, "epsilon": float(node.attr("epsilon", 1e-12))}
    type = "RMSNormalization" if is_simple else "LayerNormalization"
    results = _as_onnx(node, type, [total, gamma] if is_simple else [total, gamma, beta], attrs, 23)
    return [*results, *[None] * (3 - len(results)), total]


@handles("EmbedLayerNormalization", domain=MICROSOFT)
def _embed(node: Node) -> list[Value | None]:
    """Rows of the tables of words, places and segments, added up and normalized; how long each row of the mask is."""
    ops, words, segments = node.ops, node[0], node.get(1)
    mask, places = node.get(7), node.get(8)
    if places is None:
        places = ops.unsqueeze(ops.squeeze(steps(node, ops.unsqueeze(words, axes=[0]), 0), axes=[1, 2, 3]), axes=[0])
    rows = [(node[2], words), (node[3], places), *([] if segments is None else [(node[4], segments)])]
    total = reduce(ops.elementwise_add, [_first(_as_onnx(node, "Gather", pair, {})) for pair in rows])
    attrs = {"axis": -1, "epsilon": float(node.attr("epsilon", 1e-12))}
    out = _first(_as_onnx(node, "LayerNormalization", [total, node[5], node[6]], attrs))
    count = None if mask is None else ops.reduce_sum(ops.cast(mask, out_dtype="int32"), dim=[1], keep_dim=False)
    return [out, count, total]


# -- attention ---------------------------------------------------------------------------------------


@handles("Attention", domain=MICROSOFT)
def _attention(node: Node) -> list[Value | None]:
    """Queries, keys and values are parts of one product."""
    ops, heads, x = node.ops, int(node.required("num_heads")), node[0]
    if node.get(4) is not None:
        raise UnsupportedModel("Attention with what is past")
    out = ops.matmul_v2(x, node[1])
    out = out if node.get(2) is None else ops.elementwise_add(out, node[2])
    sizes = [int(size) for size in node.attr("qkv_hidden_sizes", [])] or [node[1].shape[1] // 3] * 3
    q, k, v = (by_heads(node, part, heads) for part in ops.several("split", out, sections=sizes, axis=2))
    present = ops.stack([k, v], axis=0) if node.wants(1) else None
    return [_attended(node, q, k, v, node.get(3), node.get(5)), present]


@handles("MultiHeadAttention", domain=MICROSOFT)
def _multi_head(node: Node) -> list[Value | None]:
    ops, heads, bias = node.ops, int(node.required("num_heads")), node.get(3)
    if node[0].rank != 3 or node.get(1) is None or node.get(2) is None:
        raise UnsupportedModel("MultiHeadAttention of queries, keys and values in one tensor")
    parts = [node[0], node[1], node[2]]
    if bias is not None:
        widths = [part.shape[-1] if part.rank == 3 else 0 for part in parts]
        if -1 in widths:
            raise NotKnown("MultiHeadAttention with biases, of a size that is not known before the model runs")
        starts = [sum(widths[:i]) for i in range(3)]
        parts = [
            ops.elementwise_add(part, ops.slice(bias, axes=[0], starts=[start], ends=[start + width])) if width else part
            for part, start, width in zip(parts, starts, widths, strict=True)
        ]
    # Keys and values of four axes are by heads already: those of another sequence.
    q, k, v = (by_heads(node, part, heads) if part.rank == 3 else part for part in parts)
    past_k, past_v = node.get(6), node.get(7)
    if past_k is not None and past_v is not None:
        k, v = ops.concat([past_k, k], axis=2), ops.concat([past_v, v], axis=2)
    return [_attended(node, q, k, v, node.get(4), node.get(5)), k, v]


def _attended(node: Node, q: Value, k: Value, v: Value, mask: Value | None, bias: Value | None) -> Value:
    """softmax(q k' scale + mask + bias) v (A. Vaswani et al., 2017); what is masked has a large number less, not -inf."""
    ops = node.ops
    scores = ops.matmul_v2(scaled_by_root(node, q, q), scaled_by_root(node, k, q), trans_y=True)
    low = float(node.attr("mask_filter_value", -10000.0))
    least = float(np.finfo(q.dtype).min)
    if mask is not None:
        scores = ops.elementwise_add(scores, _mask(node, mask, q, k, low))
    if node.attr("unidirectional", 0):
        rows, columns = (
            ops.elementwise_add(steps(node, q, 2), ops.elementwise_sub(extent(node, k, 2), extent(node, q, 2))),
            steps(node, k, 3),
        )
        scores = ops.elementwise_add(scores, ops.where(ops.less_equal(columns, rows), ops.like(0.0, q), ops.like(least, q)))
    if bias is not None:
        scores = ops.elementwise_add(scores, bias)
    return joined_heads(node, ops.matmul_v2(ops.softmax(scores, axis=-1), v))


def _mask(node: Node, mask: Value, q: Value, k: Value, low: float) -> Value:
    """0 where a key is seen, ``low`` elsewhere, for scores [batch, heads, queries, keys]."""
    ops = node.ops
    if mask.rank == 1 and not (mask.shape[0] == -1 or q.shape[0] in (-1, mask.shape[0])):
        raise UnsupportedModel("a mask of where each row of the batch begins and ends")
    if mask.rank == 1:
        ends = ops.cast(ops.unsqueeze(mask, axes=[1, 2, 3]), out_dtype="int64")
        seen = ops.less_than(steps(node, k, 3), ends)
    elif mask.rank in (2, 3):
        seen = ops.not_equal(ops.unsqueeze(mask, axes=[1, 2] if mask.rank == 2 else [1]), ops.like(0, mask))
    else:
        raise UnsupportedModel(f"a mask of {mask.rank} axes")
    return ops.where(seen, ops.like(0.0, q), ops.like(low, q))


@handles("RotaryEmbedding", domain=MICROSOFT)
def _rotary(node: Node) -> Value:
    x, places = node[0], node[1]
    if places.rank != 2:
        raise UnsupportedModel("RotaryEmbedding with one place for all")
    if x.rank == 3 and not node.attr("num_heads", 0):
        # The table has an element for each two of a head.
        heads = x.shape[2] // (2 * node[2].shape[1])
        return _first(_as_onnx(node, "RotaryEmbedding", [x, node[2], node[3], places], {**node.attrs, "num_heads": heads}, 23))
    return _first(_as_onnx(node, "RotaryEmbedding", [x, node[2], node[3], places], node.attrs, 23))


# -- numbers of few bits -----------------------------------------------------------------------------


@handles("MatMulNBits", domain=MICROSOFT)
def _matmul_bits(node: Node) -> Value:
    """Weights ``[outputs, blocks, bytes]`` of 2, 4 or 8 bits, the lowest bits first, with a scale and a zero point for each block."""
    ops, bits, size = node.ops, int(node.attr("bits", 4)), int(node.required("block_size"))
    rows, columns = int(node.required("N")), int(node.required("K"))
    if bits not in (2, 4, 8) or node.get(4) is not None:
        raise UnsupportedModel(f"weights of {bits} bits" if bits not in (2, 4, 8) else "weights whose rows have another order (g_idx)")
    packed = node.known(1, "the weights")
    if packed is None or size < 1 or columns < 1:
        raise ParseError(f"K={columns} and block_size={size} are above 0, and weights are there")
    blocks = -(-columns // size)
    ops.room([rows, blocks, size], "float32")
    numbers = _unpacked(packed, bits, (rows, blocks), size)
    points = np.full((rows, blocks, 1), 1 << (bits - 1), "float32")
    zeros = node.known(3, "zero points")
    if zeros is not None:
        is_packed = zeros.dtype == np.uint8
        points = (_unpacked(zeros, bits, (rows,), blocks) if is_packed else zeros).reshape(rows, blocks, 1).astype("float32")
    scales = ops.reshape(node[2], shape=[rows, blocks, 1])
    matrix = ops.elementwise_mul(cast(node, Value((numbers - points).astype("float32")), scales.dtype), scales)
    matrix = ops.slice(ops.reshape(matrix, shape=[rows, blocks * size]), axes=[1], starts=[0], ends=[columns])
    out = ops.matmul_v2(node[0], matrix, trans_y=True)
    bias = node.get(5)
    return out if bias is None else ops.elementwise_add(out, bias)


def _unpacked(
    data: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], bits: int, rows: tuple[int, ...], count: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """``count`` numbers for each row of bytes."""
    shifts = np.arange(0, 8, bits, dtype="uint8")
    if data.size % math.prod(rows) or data.size // math.prod(rows) * len(shifts) < count:
        raise ParseError(f"{data.size} bytes for {math.prod(rows)} times {count} numbers of {bits} bits")
    parts = (data.reshape(*rows, -1, 1) >> shifts) & ((1 << bits) - 1)
    return parts.reshape(*rows, -1)[..., :count].astype("float32")


@handles("MatMulIntegerToFloat", domain=MICROSOFT)
def _matmul_to_float(node: Node) -> Value:
    a, b, a_scale, b_scale = node[0], node[1], node[2], node[3]
    whole = _as_onnx(node, "MatMulInteger", [a, b, node.get(4), node.get(5)], {})
    return _with_scales(node, _first(whole), a_scale, b_scale, node.get(6))


@handles("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_matmul(node: Node) -> Value:
    scale, zero = own_range(node, node[0])
    point = rounded(node, zero, "uint8")
    a = quantized(node, node[0], scale, point, "uint8")
    whole = _as_onnx(node, "MatMulInteger", [a, node[1], point, node.get(3)], {})
    return _with_scales(node, _first(whole), scale, node[2], node.get(4))


def _with_scales(node: Node, whole: Value, one: Value, other: Value, bias: Value | None) -> Value:
    ops = node.ops
    one, other = (ops.reshape(part, shape=[]) if part.rank == 1 and part.shape[0] == 1 else part for part in (one, other))
    numbers = ops.cast(whole.real if whole.real is not None else whole, out_dtype=other.dtype)
    out = ops.elementwise_mul(numbers, ops.elementwise_mul(one, other))
    return out if bias is None else ops.elementwise_add(out, bias)


def _flat(node: Node, part: Operand) -> Operand:
    """A scale or a zero point without axes."""
    return part if part is None or part.rank == 0 else node.ops.reshape(part, shape=[])


def _real(node: Node, at: int) -> Value:
    """The number that the three inputs from a place on stand for."""
    scale = _flat(node, node[at + 1])
    assert scale is not None
    return dequantized(node, node[at], scale, _flat(node, node.get(at + 2)))


def _with_bits(node: Node, x: Value, at: int, dtype: str) -> Value:
    """x in as many bits, with the scale and the zero point from a place on."""
    scale, zero = _flat(node, node[at]), _flat(node, node.get(at + 1))
    assert scale is not None
    return quantized(node, x, scale, zero, zero.dtype if zero is not None else dtype)


def _of_one(function: Callable[[Node, Value], Value]) -> Handler:
    return lambda node: _with_bits(node, function(node, _real(node, 0)), 3, node[0].dtype)


handles("QLinearSigmoid", domain=MICROSOFT)(_of_one(lambda node, x: node.ops.sigmoid(x)))
handles("QLinearLeakyRelu", domain=MICROSOFT)(_of_one(lambda node, x: node.ops.leaky_relu(x, alpha=float(node.attr("alpha", 0.01)))))


@handles("QLinearSoftmax", domain=MICROSOFT)
def _qlinear_softmax(node: Node) -> Value:
    version = int(node.required("opset"))
    return _of_one(lambda node, x: _first(_as_onnx(node, "Softmax", [x], {"axis": int(node.attr("axis", -1))}, version)))(node)  # type: ignore[return-value]


@handles("QLinearGlobalAveragePool", "QLinearAveragePool", domain=MICROSOFT)
def _qlinear_pool(node: Node) -> Value:
    """With the channels last, they are put in front and back again."""
    ops, type = node.ops, node.type.removeprefix("QLinear")
    x, is_last = _real(node, 0), bool(node.attr("channels_last", 0))
    order = list(range(x.rank))
    x = ops.transpose(x, axis=[0, order[-1], *order[1:-1]]) if is_last else x
    out = _first(_as_onnx(node, type, [x], {name: value for name, value in node.attrs.items() if name != "channels_last"}))
    return _with_bits(node, ops.transpose(out, axis=[0, *order[2:], 1]) if is_last else out, 3, node[0].dtype)


def _of_two(type: str) -> Handler:
    return lambda node: _with_bits(node, node.ops.one(type, _real(node, 0), _real(node, 3)), 6, node[0].dtype)


handles("QLinearAdd", domain=MICROSOFT)(_of_two("elementwise_add"))
handles("QLinearMul", domain=MICROSOFT)(_of_two("elementwise_mul"))


@handles("QLinearConcat", domain=MICROSOFT)
def _qlinear_concat(node: Node) -> Value:
    parts = [_real(node, at) for at in range(2, len(node.inputs), 3)]
    return _with_bits(node, node.ops.concat(parts, axis=node.axis(parts[0].rank)), 0, node[2].dtype)


@handles("QLinearWhere", domain=MICROSOFT)
def _qlinear_where(node: Node) -> Value:
    return _with_bits(node, node.ops.where(node[0], _real(node, 1), _real(node, 4)), 7, node[1].dtype)


@handles("QGemm", domain=MICROSOFT)
def _q_gemm(node: Node) -> Value:
    """alpha (A - its zero point)(B - its) + C as whole numbers, times both scales: a float, or quantized again."""
    ops, a_zero, b = node.ops, node[2], node[3]
    is_turned = bool(node.attr("transB", 0))
    matrix = less_zero(node, b, node[5], (1 if is_turned else 0,), 0 if is_turned else 1)
    x = ops.elementwise_sub(
        *(ops.cast(part.real if part.real is not None else part, out_dtype="float64") for part in (node[0], _point(node, a_zero)))
    )
    whole = ops.matmul_v2(x, cast(node, matrix, "float64"), trans_x=bool(node.attr("transA", 0)), trans_y=is_turned)
    c, alpha = node.get(6), float(node.attr("alpha", 1.0))
    # C has the scale alpha a_scale b_scale, and its zero point is 0.
    whole = whole if c is None else ops.elementwise_add(whole, ops.cast(c, out_dtype="float64"))
    out = cast(node, scaled(node, _with_scales(node, whole, node[1], node[4], None), alpha), node[1].dtype)
    return out if node.get(7) is None else _with_bits(node, out, 7, node[0].dtype)


def _point(node: Node, zero: Value) -> Value:
    return node.ops.reshape(zero, shape=[]) if zero.rank == 1 else zero
