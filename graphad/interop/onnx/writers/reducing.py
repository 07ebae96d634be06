"""Reductions, running sums and products, softmax, and what is sorted."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from graphad.interop.onnx.emitting import Nodes
from graphad.interop.onnx.terms import NARROW, Term, on
from graphad.interop.onnx.writers.writer import Call, Result, Writer, writes
from graphad.ops.inference import normal_axis, reduced_axes

_REDUCTIONS = {
    "reduce_sum": "Sum",
    "reduce_mean": "Mean",
    "reduce_max": "Max",
    "reduce_min": "Min",
    "reduce_amax": "Max",
    "reduce_amin": "Min",
    "reduce_prod": "Prod",
    "frobenius_norm": "L2",
}


def _reduction(kind: str) -> Writer:
    def writer(call: Call) -> Result:
        x = call["X"]
        axes = reduced_axes(x.ndim, call.attr("dim"), call.attr("reduce_all"))
        wide = call.nodes.cast(x, "int64") if kind in ("Sum", "Prod") and not x.is_float else x
        return call.nodes.reduce(kind, wide, axes, bool(call.attr("keep_dim")))

    return writer


for _type, _kind in _REDUCTIONS.items():
    writes(_type)(_reduction(_kind))


@writes("reduce_all", "reduce_any")
def _truth(call: Call) -> Result:
    """All or any of truth values: the minimum, or the maximum, of them as numbers."""
    x, nodes = call["X"], call.nodes
    axes = reduced_axes(x.ndim, call.attr("dim"), call.attr("reduce_all"))
    number = nodes.cast(nodes.cast(x, "bool"), "uint8")
    return nodes.cast(nodes.reduce("Min" if call.type == "reduce_all" else "Max", number, axes, bool(call.attr("keep_dim"))), "bool")


@writes("mean")
def _mean(call: Call) -> Result:
    return call.nodes.reduce("Mean", call["X"], range(call["X"].ndim))


@writes("squared_l2_norm")
def _squared(call: Call) -> Result:
    x = call["X"]
    flat = call.nodes.flatten(x)
    return call.nodes.reduce("Sum", flat * flat, [0], keep=True)


@writes("logsumexp")
def _log_sum(call: Call) -> Result:
    """A logsumexp with the largest element taken out, as the operator does it, since some processors add the exponentials as they are."""
    x, nodes, keep = call["X"], call.nodes, bool(call.attr("keepdim"))
    axes = list(reduced_axes(x.ndim, call.attr("axis"), call.attr("reduce_all")))
    top = nodes.reduce("Max", x, axes, keep=True)
    top = on.where(on.isfinite(top), top, 0.0)
    result = on.log(nodes.reduce("Sum", on.exp(x - top), axes, keep=True)) + top
    return result if keep else nodes.squeeze(result, axes)


@writes("p_norm")
def _norm(call: Call) -> Result:
    x, nodes, keep, order = call["X"], call.nodes, bool(call.attr("keepdim")), float(call.attr("porder"))
    axes = reduced_axes(x.ndim, [call.attr("axis")], call.attr("asvector"))
    # The orders with an operator of their own first: it is exact where a power and a root round, and 0 and inf are limits that no power
    # gives.
    if math.isinf(order):
        return nodes.reduce("Max" if order > 0 else "Min", on.abs(x), axes, keep)
    if order == 0:
        return nodes.reduce("Sum", nodes.cast(on.not_equal(x, 0), x.kind), axes, keep)
    if order == 2:
        return nodes.reduce("L2", x, axes, keep)
    if order == 1:
        return nodes.reduce("L1", x, axes, keep)
    total = nodes.reduce("Sum", on.power(on.abs(x), order), axes, keep)
    return on.power(total, 1 / order)


@writes("arg_max", "arg_min")
def _arg(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    kind = "ArgMax" if call.type == "arg_max" else "ArgMin"
    if not x.ndim:
        return nodes.constant(np.zeros((), "int64"))
    if not call.attr("flatten"):
        return nodes.arg(kind, x, call.attr("axis"), bool(call.attr("keepdims")))
    place = nodes.arg(kind, nodes.flatten(x), 0, keep=False)
    return nodes.reshape(place, [1] * x.ndim) if call.attr("keepdims") else place


@writes("softmax", "log_softmax")
def _softmax(call: Call) -> Result:
    x = call["X"]
    if not x.ndim:
        return on.zeros_like(x) + (1.0 if call.type == "softmax" else 0.0)
    return call.nodes.one(
        "Softmax" if call.type == "softmax" else "LogSoftmax", [x], x.kind, x.sizes, axis=normal_axis(call.attr("axis"), x.ndim)
    )


@writes("equal_all", "allclose")
def _all_equal(call: Call) -> Result:
    nodes = call.nodes
    are_equal = on.equal(call["X"], call["Y"]) if call.type == "equal_all" else _close(call)
    number = nodes.cast(are_equal, "int32")
    return nodes.cast(nodes.reduce("Min", number, range(number.ndim)), "bool")


@writes("isclose")
def _is_close(call: Call) -> Result:
    return _close(call)


def _close(call: Call) -> Term:
    x, y, nodes = call["Input"], call["Other"], call.nodes
    relative, absolute = (
        float(call.attr(name)) if (bound := call.get(slot)) is None else nodes.cast(nodes.as_scalar(bound), x.kind)
        for slot, name in (("Rtol", "rtol"), ("Atol", "atol"))
    )
    within = on.less_equal(on.abs(x - y), on.abs(y) * relative + absolute)
    # An infinity is close to itself alone.
    are_close = on.logical_or(on.equal(x, y), on.logical_and(within, on.isfinite(y)))
    if call.attr("equal_nan"):
        are_close = on.logical_or(are_close, on.logical_and(on.isnan(x), on.isnan(y)))
    return are_close


# -- running -------------------------------------------------------------------------------------


def _row(call: Call) -> tuple[Term, int]:
    """The operand of a scan, flattened if the operator says so, and the axis to scan along."""
    x = call["X"]
    if call.attr("flatten") or not x.ndim:
        return call.nodes.flatten(x), 0
    return x, call.attr("axis") % x.ndim


@writes("cumsum")
def _cumsum(call: Call) -> Result:
    nodes, (x, axis) = call.nodes, _row(call)
    wide = nodes.cast(x, "int64") if not x.is_float else x
    attrs = {"exclusive": int(call.attr("exclusive")), "reverse": int(call.attr("reverse"))}
    sums = nodes.one("CumSum", [wide, nodes.constant(np.asarray(axis))], wide.kind, wide.sizes, **attrs)
    sums = nodes.cast(sums, x.kind)
    return sums if call.attr("flatten") or call["X"].ndim else nodes.reshape(sums, [])


def running(
    nodes: Nodes,
    rows: list[Term],
    axis: int,
    step: Callable[..., Term],
    start: float,
    backward: bool,
    exclusive: bool = False,
) -> Term:
    """Scan along an axis: at each place ``step`` of the result so far and the slices there."""
    if 0 in rows[0].shape:  # some processors stop there
        return nodes.copied(rows[0])
    first = nodes.full([size for i, size in enumerate(nodes.dims(rows[0])) if i != axis], start, rows[0].kind)
    if rows[0].shape[axis] == -1:
        return _looped(nodes, rows, axis, step, first, backward, exclusive)

    def body(carried: list[Term], slices: list[Term]) -> tuple[list[Term], list[Term]]:
        result = step(carried[0], *slices)
        return [result], [nodes.copied(carried[0] if exclusive else result)]

    return nodes.scan([first], rows, body, axis, backward)[1]


def _looped(nodes: Nodes, rows: list[Term], axis: int, step: Callable[..., Term], first: Term, backward: bool, exclusive: bool) -> Term:
    """The same by a loop: onnxruntime 1.32 stops the process where a Scan has nothing to run over."""
    count = nodes.as_scalar(nodes.extent(rows[0], axis))

    def body(i: Term, carried: list[Term]) -> tuple[None, list[Term], list[Term]]:
        place = count - 1 - i if backward else i
        result = step(carried[0], *(nodes.gather(row, place, axis) for row in rows))
        return None, [result], [nodes.copied(carried[0] if exclusive else result)]

    results = nodes.loop(count, None, [first], body)[1]
    return nodes.reshape(nodes.moved(nodes.flip(results, [0]) if backward else results, 0, axis), nodes.dims(rows[0]))


@writes("cumprod")
def _cumprod(call: Call) -> Result:
    x, axis = call["X"], call.attr("dim") % call["X"].ndim
    wide = call.nodes.cast(x, "float64") if x.is_float else call.nodes.cast(x, "int64")
    products = running(call.nodes, [wide], axis, lambda total, each: total * each, 1.0, call.attr("reverse"), call.attr("exclusive"))
    return call.nodes.cast(products, x.kind)


@writes("linear_recurrence")
def _recurrence(call: Call) -> Result:
    """Each element is the one before times the factor there, plus the summand there; the first one is 0."""
    a, b, nodes = call["A"], call["B"], call.nodes
    axis = call.attr("axis") % a.ndim
    return running(nodes, [a, b], axis, lambda total, factor, more: total * factor + more, 0.0, call.attr("reverse"), exclusive=True)


@writes("logcumsumexp")
def _log_running(call: Call) -> Result:
    nodes, (x, axis) = call.nodes, _row(call)
    result = running(nodes, [x], axis, lambda total, each: on.logaddexp(total, each), -math.inf, call.attr("reverse"))
    return result if call.attr("flatten") or call["X"].ndim else nodes.reshape(result, [])


@writes("window_sum")
def _windows(call: Call) -> Result:
    """Sums of the array moved by each step, with zeros beyond its ends."""
    x, nodes, half = call["X"], call.nodes, call.attr("n") // 2
    return window_summed(nodes, x, call.attr("axis") % x.ndim, half)


def window_summed(nodes: Nodes, x: Term, axis: int, half: int) -> Term:
    wide = nodes.pad(x, [half], [half], axes=[axis])
    extent = nodes.extent(x, axis)
    parts = [nodes.part(wide, axis, i, extent + i) for i in range(2 * half + 1)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    # Parts of an unknown extent do not say how long they are: as long as x.
    total.sizes, total.shape = x.sizes, x.shape
    return total


# -- order ---------------------------------------------------------------------------------------


@writes("top_k", "top_k_v2")
def _top(call: Call) -> Result:
    x, k = call["X"], int(call.attr("k"))
    axis = call.attr("axis") % x.ndim if call.type == "top_k_v2" else x.ndim - 1
    largest = int(call.attr("largest")) if call.type == "top_k_v2" else 1
    return list(_best(call.nodes, x, call.nodes.integers(k), axis, largest, call.output("Out").shape))


def _best(nodes: Nodes, x: Term, count: Term, axis: int, largest: int, shape: tuple[int, ...]) -> list[Term]:
    wide = nodes.cast(x, "int32") if x.kind in NARROW else x
    values, places = nodes.node("TopK", [wide, count], [(wide.kind, shape), ("int64", shape)], axis=axis, largest=largest)
    return [nodes.cast(values, x.kind), places]


@writes("argsort")
def _sort(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    if not x.ndim:
        return [nodes.copied(x), nodes.constant(np.zeros((), "int64"))]
    axis = call.attr("axis") % x.ndim
    return list(_best(nodes, x, nodes.vector([nodes.extent(x, axis)]), axis, int(call.attr("descending")), x.shape))


@writes("unique")
def _unique(call: Call) -> Result:
    x, nodes, axis = call["X"], call.nodes, call.attr("axis")
    attrs: dict[str, object] = {"sorted": int(call.attr("is_sorted") or bool(axis))}
    if axis:
        attrs["axis"] = axis[0] % x.ndim
    shape = [-1 if i == axis[0] % x.ndim else e for i, e in enumerate(x.shape)] if axis else [-1]
    # onnxruntime has Unique for float, double, int64 and int8 among others; integers all fit into int64.
    wide = x if x.is_float or x.kind == "int64" else nodes.cast(x, "int64")
    out, *places = nodes.node("Unique", [wide], [(wide.kind, shape), *[("int64", [-1])] * 3], **attrs)
    return [nodes.cast(out, x.kind), *places]
