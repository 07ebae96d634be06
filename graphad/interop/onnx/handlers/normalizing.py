"""Products of matrices, normalization, softmax, dropout, attention's parts."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from graphad.errors import ParseError
from graphad.interop.onnx.handlers.arranging import padded, padded_at_run_time
from graphad.interop.onnx.handlers.convolving import with_bias
from graphad.interop.onnx.handlers.handler import TO_THE_END, Handler, Node, handles
from graphad.interop.onnx.handlers.pointwise import cast, dtype_of
from graphad.interop.onnx.handlers.reducing import extent, flattened, reshaped_like
from graphad.interop.onnx.handlers.selecting import numbered, split_axis
from graphad.interop.onnx.operands import NotKnown, Value
from graphad.types import same_extent

# -- products ------------------------------------------------------------------------------------


@handles("MatMul")
def _matmul(node: Node) -> Value:
    return node.ops.matmul_v2(node[0], node[1])


@handles("Gemm")
def _gemm(node: Node) -> Value:
    ops = node.ops
    out = ops.matmul_v2(node[0], node[1], trans_x=bool(node.attr("transA", 0)), trans_y=bool(node.attr("transB", 0)))
    out = scaled(node, out, float(node.attr("alpha", 1.0)))
    bias = node.get(2)
    if bias is None:
        return out
    return ops.elementwise_add(out, scaled(node, bias, float(node.attr("beta", 1.0))))


def scaled(node: Node, x: Value, factor: float) -> Value:
    if factor == 1.0:
        return x
    return node.ops.scale(x, scale=factor)


@handles("Einsum")
def _einsum(node: Node) -> Value:
    equation = str(node.required("equation")).replace(" ", "")
    return node.ops.einsum([node[i] for i in range(len(node.inputs))], equation=equation)


@handles("Det")
def _det(node: Node) -> Value:
    return node.ops.determinant(node[0])


# -- softmax -------------------------------------------------------------------------------------


def _softmax(type: str) -> Handler:
    def handler(node: Node) -> Value:
        """Before version 13 over all axes from ``axis`` on."""
        x = node[0]
        if node.version >= 13:
            return node.ops.one(type, x, axis=node.axis(x.rank))
        axis = node.axis(x.rank, 1)
        if axis == x.rank - 1:
            return node.ops.one(type, x, axis=axis)
        return reshaped_like(node, node.ops.one(type, flattened(node, x, axis), axis=1), x)

    return handler


handles("Softmax")(_softmax("softmax"))
handles("LogSoftmax")(_softmax("log_softmax"))


# -- normalization -------------------------------------------------------------------------------


@handles("BatchNormalization")
def _batch_norm(node: Node) -> Value | list[Value]:
    """Batch normalization by the running statistics; in training mode by those of the batch."""
    x, scale, bias, mean, variance = (node[i] for i in range(5))
    epsilon, ops = float(node.attr("epsilon", 1e-5)), node.ops
    training = bool(node.attr("training_mode", 0)) if node.version >= 14 else False
    if training:
        return _trained_batch_norm(node, x, scale, bias, mean, variance, epsilon)
    if len({value.dtype for value in (x, scale, bias, mean, variance)}) > 1:
        # ONNX allows statistics of another dtype than the tensor's.
        scale, bias, mean, variance = (cast(node, value, x.dtype) for value in (scale, bias, mean, variance))
    if x.rank >= 2:
        return ops.several("batch_norm", x, scale, bias, mean, variance, epsilon=epsilon, is_test=True)[:1]
    raise ParseError(f"a tensor with {x.rank} axes has no channels")


def _trained_batch_norm(node: Node, x: Value, scale: Value, bias: Value, mean: Value, variance: Value, epsilon: float) -> list[Value]:
    ops, momentum = node.ops, float(node.attr("momentum", 0.9))
    axes = [0, *range(2, x.rank)]
    batch_mean = ops.reduce_mean(x, dim=axes, keep_dim=True)
    deviations = ops.elementwise_sub(x, batch_mean)
    # By the number of elements, not by one less: the running variance takes the same (BatchNormalization, "population variance").
    batch_variance = ops.reduce_mean(ops.square(deviations), dim=axes, keep_dim=True)
    normal = ops.elementwise_mul(deviations, ops.rsqrt(ops.scale(batch_variance, scale=1.0, bias=epsilon)))
    y = with_bias(node, ops.elementwise_mul(normal, cast(node, scale, x.dtype), axis=1), cast(node, bias, x.dtype))

    def mixed(old: Value, new: Value) -> Value:
        flat = cast(node, ops.reshape(new, shape=[-1]), old.dtype)
        return ops.elementwise_add(ops.scale(old, scale=momentum), ops.scale(flat, scale=1.0 - momentum))

    return [y, mixed(mean, batch_mean), mixed(variance, batch_variance)]


@handles("InstanceNormalization")
def _instance_norm(node: Node) -> Value:
    x = node[0]
    normal, _, _ = normalized(node, x, list(range(2, x.rank)), float(node.attr("epsilon", 1e-5)))
    return with_bias(node, node.ops.elementwise_mul(normal, node[1], axis=1), node[2])


def normalized(node: Node, x: Value, axes: list[int], epsilon: float) -> tuple[Value, Value, Value]:
    """x with mean 0 and variance 1 along axes, its mean, and the reciprocal of its standard deviation."""
    ops = node.ops
    centre = ops.reduce_mean(x, dim=axes, keep_dim=True)
    deviations = ops.elementwise_sub(x, centre)
    factor = ops.rsqrt(ops.scale(ops.reduce_mean(ops.square(deviations), dim=axes, keep_dim=True), scale=1.0, bias=epsilon))
    return ops.elementwise_mul(deviations, factor), centre, factor


@handles("LayerNormalization")
def _layer_norm(node: Node) -> list[Value]:
    x, scale, bias = node[0], node[1], node.get(2)
    axis, epsilon = node.axis(x.rank), float(node.attr("epsilon", 1e-5))
    row = x.shape[axis:]
    # Rows of one axis of a known extent, with scale and bias for all of it, are what ``layer_norm`` has; anything else is written out.
    is_plain = len(row) == 1 and row[0] != -1 and all(value is None or value.shape == row for value in (scale, bias))
    if is_plain and x.dtype in ("float32", "float64") and not node.wants(1) and not node.wants(2):
        return node.ops.several("layer_norm", x, scale, bias, epsilon=epsilon, begin_norm_axis=axis)[:1]
    wide = stash(node, x)
    normal, centre, factor = normalized(node, wide, list(range(axis, x.rank)), epsilon)
    y = node.ops.elementwise_mul(cast(node, normal, x.dtype), scale)
    if bias is not None:
        y = node.ops.elementwise_add(y, bias)
    return [y, centre, factor]


def stash(node: Node, x: Value) -> Value:
    """The tensor in the type in which statistics are computed."""
    number = int(node.attr("stash_type", 1))
    return cast(node, x, dtype_of(number)) if x.dtype == "float16" else x


@handles("RMSNormalization", "SimplifiedLayerNormalization")
def _rms_norm(node: Node) -> Value:
    x, scale, ops = node[0], node[1], node.ops
    axis = node.axis(x.rank)
    wide = stash(node, x)
    mean = ops.reduce_mean(ops.square(wide), dim=list(range(axis, x.rank)), keep_dim=True)
    normal = ops.elementwise_mul(wide, ops.rsqrt(ops.scale(mean, scale=1.0, bias=float(node.attr("epsilon", 1e-5)))))
    return ops.elementwise_mul(cast(node, normal, x.dtype), scale)


@handles("GroupNormalization")
def _group_norm(node: Node) -> Value:
    x, scale, bias, ops = node[0], node[1], node[2], node.ops
    groups = int(node.required("num_groups"))
    batch = x.shape[0]
    wide = stash(node, x)
    apart = ops.reshape(wide, shape=[0 if batch == -1 else batch, groups, -1])
    normal, _, _ = normalized(node, apart, [2], float(node.attr("epsilon", 1e-5)))
    # Before version 21 scale and bias were one a group, since then one a channel.
    if node.version < 21 and scale.shape[0] == groups:
        y = with_bias(node, ops.elementwise_mul(cast(node, normal, x.dtype), scale, axis=1), bias)
        return reshaped_like(node, y, x)
    back = cast(node, reshaped_like(node, normal, x), x.dtype)
    return with_bias(node, ops.elementwise_mul(back, scale, axis=1), bias)


@handles("LpNormalization")
def _lp_norm(node: Node) -> Value:
    x, ops = node[0], node.ops
    axis, p = node.axis(x.rank), int(node.attr("p", 2))
    size = ops.reduce_sum(ops.abs(x), dim=[axis], keep_dim=True) if p == 1 else ops.frobenius_norm(x, dim=[axis], keep_dim=True)
    zero = ops.equal(size, ops.like(0.0, size))
    return ops.elementwise_div(x, ops.where(zero, ops.like(1.0, size), size))


@handles("MeanVarianceNormalization")
def _mvn(node: Node) -> Value:
    x = node[0]
    axes = [int(item) % x.rank for item in node.attr("axes", [0, 2, 3])]
    ops = node.ops
    centre = ops.reduce_mean(x, dim=axes, keep_dim=True)
    # As the function that defines the operator: E[x²] - E[x]², and 1e-9 is added to the deviation, not to the variance.
    variance = ops.elementwise_sub(ops.reduce_mean(ops.square(x), dim=axes, keep_dim=True), ops.square(centre))
    return ops.elementwise_div(ops.elementwise_sub(x, centre), ops.scale(ops.sqrt(variance), scale=1.0, bias=1e-9))


@handles("LRN")
def _lrn(node: Node) -> Value:
    x, size, ops = node[0], int(node.required("size")), node.ops
    alpha, beta, k = float(node.attr("alpha", 1e-4)), float(node.attr("beta", 0.75)), float(node.attr("bias", 1.0))
    # The window of channel c is [c - floor((size - 1) / 2), c + ceil((size - 1) / 2)]: of an even size the longer half comes after.
    before = (size - 1) // 2
    pairs = [0] * (2 * x.rank)
    pairs[2], pairs[3] = before, size - 1 - before
    wide = ops.pad(ops.square(x), paddings=pairs, pad_value=0.0)
    # Counted from the end, as the number of channels may not be known.
    ends = [(i + 1 - size) or TO_THE_END for i in range(size)]
    parts = [ops.slice(wide, axes=[1], starts=[i], ends=[end]) for i, end in enumerate(ends)]
    total = parts[0]
    for part in parts[1:]:
        total = ops.elementwise_add(total, part)
    return ops.elementwise_mul(x, ops.pow(ops.scale(total, scale=alpha / size, bias=k), factor=-beta))


# -- dropout and random numbers ------------------------------------------------------------------


@handles("Dropout")
def _dropout(node: Node) -> list[Value]:
    """Models are read for inference: it passes its input on, unless a training mode is known to be on."""
    x = node[0]
    mask = node.ops.fill_any_like(x, value=1.0, dtype="bool") if node.wants(1) else None
    # Until version 12 the mode is not an input, and models are exported for inference.
    switch = node.known(2, "the training mode")
    drops = switch is not None and bool(switch)
    ratio = node.known(1, "the ratio") if drops else None
    rate = 0.5 if ratio is None else float(ratio)
    if not drops or rate == 0.0:
        return [x, mask] if mask is not None else [x]
    symbol = Value(variable=node.ops.variable(x))
    out, kept_values = node.ops.several(
        "dropout", symbol, dropout_prob=rate, dropout_implementation="upscale_in_train", seed=int(node.attr("seed", 0))
    )
    return [out, node.ops.cast(kept_values, out_dtype="bool")]


@handles("Bernoulli")
def _bernoulli(node: Node) -> Value:
    x = Value(variable=node.ops.variable(node[0]))
    result = node.ops.bernoulli(x, seed=int(node.attr("seed", 0)))
    return cast(node, result, dtype_of(int(node.attrs["dtype"]))) if "dtype" in node.attrs else result


@handles("Multinomial")
def _multinomial(node: Node) -> Value:
    """Places drawn by the logarithms of their probabilities: the largest where each has noise of Gumbel's distribution (1954) added."""
    x, ops = node[0], node.ops
    if -1 in x.shape:
        raise NotKnown("Multinomial of extents that are not known before the model runs")
    shape = [x.shape[0], int(node.attr("sample_size", 1)), x.shape[1]]
    options = {"min": 1e-7, "max": 1.0 - 1e-7, "shape": shape, "dtype": "float32", "seed": int(node.attr("seed", 0))}
    noise = ops.scale(ops.log(ops.scale(ops.log(ops.recorded("uniform_random", options)), scale=-1.0)), scale=-1.0)
    places = ops.arg_max(ops.elementwise_add(ops.unsqueeze(cast(node, x, "float32"), axes=[1]), noise), axis=2)
    return cast(node, places, dtype_of(int(node.attr("dtype", 6))))


@handles("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike")
def _random(node: Node) -> Value:
    """Numbers that are drawn again in each run."""
    template = node.get(0)
    shape = [int(item) for item in node.attr("shape", [])] if template is None else list(template.shape)
    if -1 in shape:
        raise NotKnown("random numbers of extents that are not known before the model runs")
    dtype = dtype_of(int(node.attrs["dtype"])) if "dtype" in node.attrs else "float32" if template is None else template.dtype
    # Drawn in a type that the generators have; others are rounded from that.
    wide = dtype if dtype in ("float32", "float64") else "float32"
    if node.type.startswith("RandomUniform"):
        attrs = {"min": float(node.attr("low", 0.0)), "max": float(node.attr("high", 1.0))}
        result = node.ops.recorded("uniform_random", {**attrs, "shape": shape, "dtype": wide, "seed": int(node.attr("seed", 0))})
    else:
        attrs = {"mean": float(node.attr("mean", 0.0)), "std": float(node.attr("scale", 1.0))}
        result = node.ops.recorded("gaussian_random", {**attrs, "shape": shape, "dtype": wide, "seed": int(node.attr("seed", 0))})
    return cast(node, result, dtype)


# -- attention -----------------------------------------------------------------------------------


@handles("RotaryEmbedding")
def _rotary(node: Node) -> Value:
    """Pairs of elements turned by angles that depend on the position (J. Su et al., RoFormer, 2021)."""
    x, cos, sin, positions, ops = node[0], node[1], node[2], node.get(3), node.ops
    heads = int(node.attr("num_heads", 0))
    has_joined_heads = x.rank == 3
    if has_joined_heads:
        if heads == 0:
            raise ParseError("num_heads is needed for a tensor with 3 axes")
        y = by_heads(node, x, heads)
    else:
        y = x
    size = y.shape[3]
    # Half of the elements that are turned have an angle each.
    rotary_size = int(node.attr("rotary_embedding_dim", 0)) or (2 * cos.shape[-1] if size == -1 != cos.shape[-1] else size)
    if rotary_size == -1:
        raise NotKnown("RotaryEmbedding of heads whose extent is not known before the model runs")
    is_part = bool(node.attr("rotary_embedding_dim", 0)) and rotary_size != size
    if positions is not None:
        cos, sin = (_rows(node, table, positions) for table in (cos, sin))
    cos, sin = (ops.unsqueeze(value, axes=[1]) for value in (cos, sin))
    part = ops.slice(y, axes=[3], starts=[0], ends=[rotary_size]) if is_part else y
    half = rotary_size // 2
    # Pairs are neighbors (2i, 2i + 1), or, as most models have them, an element of the first half and one of the second.
    if node.attr("interleaved", 0):
        a, b = (ops.strided_slice(part, axes=[3], starts=[i], ends=[rotary_size], strides=[2]) for i in (0, 1))
    else:
        a, b = (ops.slice(part, axes=[3], starts=[i * half], ends=[(i + 1) * half]) for i in (0, 1))
    # (a + b i) times (cos + sin i).
    real = ops.elementwise_sub(ops.elementwise_mul(cos, a), ops.elementwise_mul(sin, b))
    imaginary = ops.elementwise_add(ops.elementwise_mul(sin, a), ops.elementwise_mul(cos, b))
    if node.attr("interleaved", 0):
        pair = ops.stack([real, imaginary], axis=4)
        result = ops.flatten_contiguous_range(pair, start_axis=3, stop_axis=4)
    else:
        result = ops.concat([real, imaginary], axis=3)
    if is_part:
        result = ops.concat([result, ops.slice(y, axes=[3], starts=[rotary_size], ends=[TO_THE_END])], axis=3)
    return joined_heads(node, result) if has_joined_heads else result


def _rows(node: Node, table: Value, places: Value) -> Value:
    """Rows of a table at places with two axes."""
    flat = node.ops.gather(table, node.ops.reshape(places, shape=[-1]), axis=0)
    return split_axis(node, flat, table, places, 0)


@handles("Attention")
def _attention(node: Node) -> list[Value | None]:
    """softmax(q k' / sqrt(d) + mask) v, by heads (A. Vaswani et al., 2017), with ONNX's options."""
    q, k, v, mask, ops = node[0], node[1], node[2], node.get(3), node.ops
    past_k, past_v = node.get(4), node.get(5)
    lengths = node.get(6)
    has_joined_heads = q.rank == 3
    if has_joined_heads:
        q_heads, kv_heads = int(node.required("q_num_heads")), int(node.required("kv_num_heads"))
        q, k, v = (by_heads(node, x, heads) for x, heads in ((q, q_heads), (k, kv_heads), (v, kv_heads)))
    if past_k is not None:
        k = ops.concat([past_k, k], axis=2)
    if past_v is not None:
        v = ops.concat([past_v, v], axis=2)
    present_states = [k, v]
    # Grouped-query attention (J. Ainslie et al., 2023): query head h reads key head h // repeats, so each head is repeated in place.
    q, k, v = _with_groups(node, q, k, v)
    number = node.attr("softmax_precision")
    # Both factors are scaled by the root, as the standard asks: their product would overflow float16 before it is scaled.
    scores = ops.matmul_v2(*(scaled_by_root(node, x, q) for x in (q, k)), trans_y=True)
    raw = scores
    softcap = float(node.attr("softcap", 0.0))
    capped_scores = ops.scale(ops.tanh(ops.scale(raw, scale=1.0 / softcap)), scale=softcap) if softcap else raw
    bias = _attention_bias(node, q, k, mask, past_k, lengths)
    scores = capped_scores if bias is None else ops.elementwise_add(capped_scores, cast(node, bias, capped_scores.dtype))
    dtype = scores.dtype
    wide = cast(node, scores, dtype_of(int(number))) if number is not None else scores
    weights = cast(node, _guarded_softmax(node, wide, bias is not None), dtype)
    y = ops.matmul_v2(weights, v)
    if has_joined_heads:
        y = joined_heads(node, y)
    mode = int(node.attr("qk_matmul_output_mode", 0))
    qk_output = (raw, capped_scores, scores, weights)[mode] if node.wants(3) else None
    return [y, present_states[0] if node.wants(1) else None, present_states[1] if node.wants(2) else None, qk_output]


def _with_groups(node: Node, q: Value, k: Value, v: Value) -> tuple[Value, Value, Value]:
    """Keys and values once for each head of queries: those of a group share one."""
    if same_extent(q.shape[1], k.shape[1]):
        return q, k, v
    if q.shape[1] == -1 or k.shape[1] == -1:
        # Head h of n of queries is with head h * m // n of m of keys.
        ops, heads, groups = node.ops, extent(node, q, 1), extent(node, k, 1)
        index = ops.elementwise_floordiv(ops.elementwise_mul(numbered(node, q, 1), groups), heads)
        return q, ops.gather(k, index, axis=1), ops.gather(v, index, axis=1)
    repeats = q.shape[1] // k.shape[1]
    return (q, _repeated(node, k, repeats), _repeated(node, v, repeats)) if repeats > 1 else (q, k, v)


def scaled_by_root(node: Node, x: Value, q: Value) -> Value:
    """Multiplied by the root of the scale, which is one over the root of the size of a head unless it is said."""
    ops, scale = node.ops, float(node.attr("scale", 0.0))
    if scale or q.shape[3] != -1:
        return ops.scale(x, scale=math.sqrt(scale or 1.0 / math.sqrt(q.shape[3])))
    return ops.elementwise_div(x, ops.pow(ops.cast(extent(node, q, 3), out_dtype=x.dtype), factor=0.25))


def _guarded_softmax(node: Node, x: Value, masked: bool) -> Value:
    """A row that is masked as a whole gives zeros."""
    ops = node.ops
    if not masked:
        return ops.softmax(x, axis=-1)
    # softmax of -inf alone is 0 / 0. The standard gives zeros, so the row is zeros before and after.
    all_masked = ops.equal(ops.reduce_max(x, dim=[x.rank - 1], keep_dim=True), ops.like(-np.inf, x))
    zero = ops.like(0.0, x)
    return ops.where(all_masked, zero, ops.softmax(ops.where(all_masked, zero, x), axis=-1))


def by_heads(node: Node, x: Value, heads: int) -> Value:
    b, s, size = x.shape
    apart = node.ops.reshape(x, shape=[0 if b == -1 else b, 0 if s == -1 else s, heads, -1 if size == -1 else size // heads])
    return node.ops.transpose(apart, axis=[0, 2, 1, 3])


def joined_heads(node: Node, x: Value) -> Value:
    """The heads one after the other along the last axis."""
    b, h, s, d = x.shape
    rows = node.ops.transpose(x, axis=[0, 2, 1, 3])
    return node.ops.reshape(rows, shape=[0 if b == -1 else b, 0 if s == -1 else s, -1 if -1 in (h, d) else h * d])


def _repeated(node: Node, x: Value, times: int) -> Value:
    """Each head several times, one after the other."""
    return node.ops.gather(x, Value(np.repeat(np.arange(x.shape[1]), times)), axis=1)


def _attention_bias(node: Node, q: Value, k: Value, mask: Value | None, past: Value | None, lengths: Value | None) -> Value | None:
    """The bias added to the scores: the mask, and -inf at positions that must not be seen; None if there is neither."""
    ops = node.ops
    bias = _visible(node, q, k, past, lengths)
    if mask is None:
        return bias
    argument = ops.where(mask, ops.like(0.0, q), ops.like(-np.inf, q)) if mask.dtype == "bool" else mask
    argument = cast(node, _as_long_as(node, argument, k), q.dtype)
    return argument if bias is None else ops.elementwise_add(bias, argument)


def _as_long_as(node: Node, mask: Value, k: Value) -> Value:
    """A mask shorter than the keys forbids those that it does not reach."""
    ops, size, columns = node.ops, mask.shape[-1], k.shape[2]
    if same_extent(size, columns) or (-1 not in (size, columns) and size >= columns):
        return mask
    if -1 not in (size, columns):
        pairs = [0] * (2 * mask.rank)
        pairs[-1] = columns - size
        return ops.pad(mask, paddings=pairs, pad_value=-np.inf)
    axis, none = mask.rank - 1, Value(np.asarray([0], "int64"))
    missing = ops.elementwise_sub(ops.reshape(extent(node, k, 2), shape=[1]), ops.reshape(extent(node, mask, axis), shape=[1]))
    return padded_at_run_time(node, mask, {axis: (none, ops.elementwise_max(missing, none))}, filler=ops.like(-np.inf, mask))


def _visible(node: Node, q: Value, k: Value, past: Value | None, lengths: Value | None) -> Value | None:
    """A mask of the visible positions: not after the query where it is causal, not beyond the windows, not beyond the lengths of the
    keys."""
    ops = node.ops
    causal = bool(node.attr("is_causal", 0))
    left, right = int(node.attr("left_window_size", -1)), int(node.attr("right_window_size", -1))
    right = 0 if causal else right
    if right < 0 and left < 0 and lengths is None:
        return None
    rows, columns = (steps(node, x, axis) for x, axis in ((q, 2), (k, 3)))
    conditions: list[Value] = []
    ends = None if lengths is None else ops.cast(ops.unsqueeze(lengths, axes=[1, 2, 3]), out_dtype="int64")
    if past is not None:
        # Query i is at position i after what the cache holds; with lengths of keys instead, the queries are the last ones of each.
        rows = ops.elementwise_add(rows, extent(node, past, 2))
    elif ends is not None:
        rows = ops.elementwise_add(rows, ops.elementwise_sub(ends, extent(node, q, 2)))
    if right >= 0:
        conditions.append(ops.less_equal(columns, ops.scale(rows, scale=1.0, bias=float(right))))
    if left >= 0:
        conditions.append(ops.greater_equal(columns, ops.scale(rows, scale=1.0, bias=float(-left))))
    if ends is not None:
        conditions.append(ops.less_than(columns, ends))
    return ops.where(reduce(ops.logical_and, conditions), ops.like(0.0, q), ops.like(-np.inf, q))


def steps(node: Node, x: Value, axis: int) -> Value:
    """0, 1, 2 ... as many as x has along axis 2, along an axis of four."""
    ops = node.ops
    size = extent(node, x, 2)
    if size.array is not None:
        result = Value(np.arange(int(size.array), dtype="int64"))
    else:
        zero, unit = (Value(np.asarray([number], "int64")) for number in (0, 1))
        result = ops.range(zero, ops.reshape(size, shape=[1]), unit)
    return ops.unsqueeze(result, axes=[i for i in range(4) if i != axis])


# -- linear attention ----------------------------------------------------------------------------


@handles("LinearAttention")
def _linear_attention(node: Node) -> list[Value]:
    """A state that every step updates by an outer product (S. Yang et al., Gated Delta Networks, 2024)."""
    ops, rule = node.ops, str(node.attr("update_rule", "gated_delta"))
    heads, kv_heads = int(node.required("q_num_heads")), int(node.required("kv_num_heads"))
    q, k, v = (by_heads(node, node[i], count) for i, count in ((0, heads), (1, kv_heads), (2, kv_heads)))
    steps = q.shape[2]
    if steps == -1:
        raise NotKnown("LinearAttention over a length that is not known before the model runs")
    scale = float(node.attr("scale", 0.0)) or 1.0 / math.sqrt(q.shape[3])
    decay, beta = (None if node.get(i) is None else by_heads(node, node[i], kv_heads if node[i].shape[2] != 1 else 1) for i in (4, 5))
    state = node.get(3)
    if state is None:
        state = Value(np.zeros((q.shape[0], kv_heads, k.shape[3], v.shape[3]), q.dtype))
    group = heads // kv_heads
    rows = []
    # The recurrence is written out: each step reads the state that the one before has left.
    for t in range(steps):
        slices = [None if x is None else ops.slice(x, axes=[2], starts=[t], ends=[t + 1]) for x in (q, k, v, decay, beta)]
        state = _next_state(node, rule, state, *slices[1:])
        # Several heads of queries share one of keys and values (grouped queries): each sees its group's state.
        state_by_head = _repeated(node, state, group) if group > 1 else state
        rows.append(ops.scale(ops.matmul_v2(slices[0], state_by_head), scale=scale))
    y = ops.transpose(ops.concat(rows, axis=2) if steps > 1 else rows[0], axis=[0, 2, 1, 3])
    return [ops.reshape(y, shape=[0, steps, heads * v.shape[3]]), state]


def _next_state(node: Node, rule: str, state: Value, k: Value | None, v: Value | None, decay: Value | None, beta: Value | None) -> Value:
    """The next state by the rule of the update; k and v are rows."""
    ops = node.ops
    if rule in ("gated", "gated_delta") and decay is not None:
        state = ops.elementwise_mul(ops.transpose(ops.exp(decay), axis=[0, 1, 3, 2]), state)
    if rule in ("delta", "gated_delta"):
        # The delta rule (B. Widrow, M. Hoff, 1960): what the state already answers to k is taken off, and only the rest is written.
        v = ops.elementwise_sub(v, ops.matmul_v2(k, state))
        v = ops.elementwise_mul(v, beta) if beta is not None else v
    return ops.elementwise_add(state, ops.matmul_v2(k, v, trans_x=True))


@handles("CausalConvWithState")
def _causal_conv(node: Node) -> list[Value]:
    """A convolution of each channel that looks back only; the last elements are what the next call begins with."""
    x, kernel, bias, past, ops = node[0], node[1], node.get(2), node.get(3), node.ops
    node.extents("an extent of the filter", kernel.shape[0], kernel.shape[2])
    back = kernel.shape[2] - 1
    # ``back`` elements before and none after: an output then sees no later input.
    pairs = [(0, 0), (0, 0), (back, 0)]
    wide = padded(node, x, pairs) if past is None else ops.concat([past, x], axis=2)
    image, filters = ops.unsqueeze(wide, axes=[2]), ops.unsqueeze(kernel, axes=[2])
    result = ops.squeeze(ops.conv2d(image, filters, groups=kernel.shape[0]), axes=[2])
    result = with_bias(node, result, bias)
    if str(node.attr("activation", "none")) in ("silu", "swish"):
        result = ops.silu(result)
    size = wide.shape[2]
    state = ops.slice(wide, axes=[2], starts=[size - back if size != -1 else -back], ends=[size if size != -1 else TO_THE_END])
    return [result, state]
