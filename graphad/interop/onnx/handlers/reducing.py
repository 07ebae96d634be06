"""Reductions, positions of extremes, cumulative sums, sorting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphad import layers
from graphad.interop.onnx.handlers.handler import Handler, Node, handles
from graphad.interop.onnx.operands import Value

# -- reductions ----------------------------------------------------------------------------------


def axes_of(node: Node, rank: int) -> list[int] | None:
    """The axes counted from the front, all of them where none are given; None where nothing is reduced."""
    axes = node.integers(1, "axes")
    if not axes:
        return None if node.attr("noop_with_empty_axes", 0) else list(range(rank))
    return sorted(axis % rank for axis in axes)


def reduced(node: Node, type: str, x: Value, axes: list[int], keep: bool = True) -> Value:
    """A reduction of some axes; over none it leaves the elements as they are, and of no elements it gives its neutral one."""
    # numpy has no maximum of nothing; ONNX has: the least number there is.
    if any(x.shape[axis] == 0 for axis in axes) and type in _NEUTRAL:
        shape = [1 if i in axes else e for i, e in enumerate(x.shape) if keep or i not in axes]
        return Value(np.full(shape, _neutral(type, x.dtype), x.dtype))
    if not axes:
        return node.ops.assign(x)
    attrs = {"allow_empty": True} if type in ("reduce_max", "reduce_min") and any(x.shape[axis] == -1 for axis in axes) else {}
    if len(axes) == x.rank and not keep:
        return node.ops.one(type, x, reduce_all=True, keep_dim=False, **attrs)
    return node.ops.one(type, x, dim=axes, keep_dim=keep, **attrs)


_NEUTRAL = {"reduce_max": -1, "reduce_min": 1, "logsumexp": -1}


def _neutral(type: str, dtype: str) -> float:
    """The least or largest number of a dtype."""
    sign = _NEUTRAL[type]
    if dtype.startswith("float"):
        return sign * np.inf
    limits = np.iinfo(dtype)
    return limits.max if sign > 0 else limits.min


def _reduction(type: str) -> Handler:
    def handler(node: Node) -> Value:
        x = node[0]
        axes = axes_of(node, x.rank)
        return x if axes is None else reduced(node, type, x, axes, bool(node.attr("keepdims", 1)))

    return handler


handles("ReduceMean")(_reduction("reduce_mean"))
handles("ReduceProd")(_reduction("reduce_prod"))


@handles("ReduceSum")
def reduce_sum(node: Node) -> Value:
    return _of(node, node[0], "reduce_sum")


def _of(node: Node, x: Value, type: str) -> Value:
    axes = axes_of(node, x.rank)
    return x if axes is None else reduced(node, type, x, axes, bool(node.attr("keepdims", 1)))


def _extreme(type: str, of_booleans: str) -> Handler:
    def handler(node: Node) -> Value:
        x = node[0]
        return _of(node, x, of_booleans if x.dtype == "bool" else type)

    return handler


handles("ReduceMax")(_extreme("reduce_max", "reduce_any"))
handles("ReduceMin")(_extreme("reduce_min", "reduce_all"))


@handles("ReduceL1")
def _l1(node: Node) -> Value:
    return _of(node, node.ops.abs(node[0]), "reduce_sum")


@handles("ReduceSumSquare")
def _sum_square(node: Node) -> Value:
    return _of(node, node.ops.square(node[0]), "reduce_sum")


@handles("ReduceL2")
def _l2(node: Node) -> Value:
    x = node[0]
    axes = axes_of(node, x.rank)
    # As one operator its gradient is 0 where the norm is, of every order; that of a root there is no number.
    if x.is_float and axes and 0 not in x.shape:
        return reduced(node, "frobenius_norm", x, axes, bool(node.attr("keepdims", 1)))
    result = _of(node, node.ops.square(x), "reduce_sum")
    if x.is_float:
        return node.ops.sqrt(result)
    return node.ops.cast(node.ops.sqrt(node.ops.cast(result, out_dtype="float64")), out_dtype=x.dtype)


@handles("ReduceLogSum")
def _log_sum(node: Node) -> Value:
    return _floating(node, lambda x: node.ops.log(_of(node, x, "reduce_sum")))


@handles("ReduceLogSumExp")
def _log_sum_exp(node: Node) -> Value:
    x = node[0]
    axes = axes_of(node, x.rank)
    if axes is None:
        return x
    keep = bool(node.attr("keepdims", 1))
    if 0 in x.shape:
        return reduced(node, "logsumexp", x, axes, keep)
    if not x.rank:
        return node.ops.assign(x)
    return _floating(node, lambda x: node.ops.logsumexp(x, axis=axes, keepdim=keep, reduce_all=len(axes) == x.rank))


def _floating(node: Node, function: Callable[[Value], Value]) -> Value:
    """A function of the first input in floating point; of integers it is cut afterwards."""
    x = node[0]
    if x.is_float:
        return function(x)
    return node.ops.cast(function(node.ops.cast(x, out_dtype="float64")), out_dtype=x.dtype)


# -- positions of extremes -----------------------------------------------------------------------


def _position(type: str) -> Handler:
    def handler(node: Node) -> Value:
        x, ops = node[0], node.ops
        axis, keep = node.axis(x.rank, 0), bool(node.attr("keepdims", 1))
        if not node.attr("select_last_index", 0):
            return ops.one(type, x, axis=axis, keepdims=keep)
        # The first of the flipped axis is the last one, counted from the end.
        result = ops.one(type, ops.flip(x, axis=[axis]), axis=axis, keepdims=keep)
        return ops.elementwise_sub(ops.scale(extent(node, x, axis), scale=1.0, bias=-1.0), result)

    return handler


handles("ArgMax")(_position("arg_max"))
handles("ArgMin")(_position("arg_min"))


def extent(node: Node, x: Value, axis: int) -> Value:
    """An extent as a tensor without axes."""
    if x.shape[axis] != -1:
        return Value(np.asarray(x.shape[axis], "int64"))
    ops = node.ops
    shape = ops.cast(ops.shape(x), out_dtype="int64")
    return ops.reshape(ops.slice(shape, axes=[0], starts=[axis], ends=[axis + 1]), shape=[])


def of_length(node: Node, x: Value, count: int) -> Value:
    """A vector whose length is declared open, and follows from what it is for."""
    return node.ops.reshape(x, shape=[count]) if x.shape == (-1,) else x


@handles("Hardmax")
def _hardmax(node: Node) -> Value:
    x = node[0]
    if node.version < 13:
        axis = node.axis(x.rank, 1)
        flat = flattened(node, x, axis)
        return reshaped_like(node, _first_largest(node, flat, 1), x)
    return _first_largest(node, x, node.axis(x.rank))


def _first_largest(node: Node, x: Value, axis: int) -> Value:
    ops = node.ops
    places = ops.arg_max(x, axis=axis, keepdims=True)
    ones = ops.fill_any_like(places, value=1.0, dtype=x.dtype)
    return ops.put_along_axis(ops.fill_zeros_like(x), places, ones, Axis=axis)


def flattened(node: Node, x: Value, axis: int) -> Value:
    """The axes before ``axis`` as one, and the others as one."""
    return node.ops.flatten(x, axis=axis)


def reshaped_like(node: Node, x: Value, like: Value) -> Value:
    return node.ops.reshape_like(x, like)


# -- cumulative, sorted --------------------------------------------------------------------------


@handles("CumSum", "CumProd")
def _cumulative(node: Node) -> Value:
    x = node[0]
    axes = node.integers(1, "axis")
    axis = (axes[0] if axes else 0) % x.rank
    options = {"exclusive": bool(node.attr("exclusive", 0)), "reverse": bool(node.attr("reverse", 0))}
    return node.ops.cumsum(x, axis=axis, **options) if node.type == "CumSum" else node.ops.cumprod(x, dim=axis, **options)


@handles("TopK")
def _top_k(node: Node) -> tuple[Value, Value]:
    x = node[0]
    axis = node.axis(x.rank)
    if not node.is_decided(1, "k"):
        return _top_of_sorted(node, x, axis)
    counts = node.integers(1, "k")
    assert counts is not None
    values, places = node.ops.several("top_k_v2", x, k=counts[0], axis=axis, largest=bool(node.attr("largest", 1)), sorted=True)
    return values, node.ops.cast(places, out_dtype="int64")


def _top_of_sorted(node: Node, x: Value, axis: int) -> tuple[Value, Value]:
    """As many of the largest as a run says: all are sorted, and the first are taken."""
    ops = node.ops
    ends = ops.cast(ops.reshape(node[1], shape=[1]), out_dtype="int32")
    pair = ops.several("argsort", x, axis=axis, descending=bool(node.attr("largest", 1)))
    values, places = (ops.slice(half, Value(np.asarray([0], "int32")), ends, axes=[axis]) for half in pair)
    return values, places


@handles("Unique")
def _unique(node: Node) -> list[Value]:
    """Distinct elements, or slices along an axis; they are taken by the places where they come first, so that they have gradients."""
    x, ops = node[0], node.ops
    axis = int(node.attrs["axis"]) % x.rank if "axis" in node.attrs else None
    flat = x if axis is not None else ops.reshape(x, shape=[-1])
    first, inverse, counts = _distinct(node, flat, axis or 0)
    if not node.attr("sorted", 1):
        # The operator sorts; unsorted means in the order of first occurrence, into which counts and the inverse are brought.
        first, order = ops.several("argsort", first)
        counts = ops.gather(counts, order, axis=0)
        inverse = ops.gather(ops.several("argsort", order)[1], inverse, axis=0)
    return [ops.gather(flat, first, axis=axis or 0), first, inverse, counts]


def _distinct(node: Node, x: Value, axis: int) -> list[Value]:
    """The first position of each distinct slice, in their order; the number of the distinct slice that each slice is; and their counts."""
    if x.array is None:
        x_var = node.ops.variable(x)
        parts = layers.unique(x_var, return_index=True, return_inverse=True, return_counts=True, axis=axis)
        return [Value(variable=variable) for variable in parts[1:]]
    arrays = np.unique(x.array, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    # numpy says which each slice is in a shape of its own.
    return [Value(np.asarray(array, "int64").ravel()) for array in arrays[1:]]
