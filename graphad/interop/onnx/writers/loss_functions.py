"""Losses, and cells of recurrent networks."""

from __future__ import annotations

from graphad.interop.onnx.emitting import Nodes
from graphad.interop.onnx.terms import Term, on
from graphad.interop.onnx.writers.writer import Call, Result, writes

# -- choices between classes ---------------------------------------------------------------------


def _counted(nodes: Nodes, label: Term, ignore: int) -> tuple[Term, Term]:
    """A mask of the labels that count, and the labels with the others set to 0."""
    counts = on.not_equal(label, ignore)
    return counts, nodes.where(counts, label, nodes.like(0, label))


@writes("nll_loss")
def _nll(call: Call) -> Result:
    x, nodes, weight, reduction = call["X"], call.nodes, call.get("Weight"), call.attr("reduction")
    label = nodes.unsqueeze(call["Label"], [1])
    counts, classes = _counted(nodes, label, call.attr("ignore_index"))
    weights = nodes.cast(counts, x.kind)
    if weight is not None:
        weights = nodes.gather(weight, classes, 0) * weights
    loss = nodes.squeeze(-nodes.take(x, classes, 1) * weights, [1])
    whole = nodes.reduce("Sum", nodes.squeeze(weights, [1]), range(loss.ndim))
    if reduction == "none":
        return [loss, nodes.like(0.0, x)]
    total = nodes.reduce("Sum", loss, range(loss.ndim))
    # If all labels are ignored the weights are 0: the loss is 0 then, not nan.
    return [total / on.where(on.equal(whole, 0.0), 1.0, whole) if reduction == "mean" else total, whole]


@writes("cross_entropy2")
def _cross_entropy2(call: Call) -> Result:
    x, nodes = call["X"], call.nodes
    counts, classes = _counted(nodes, call["Label"], call.attr("ignore_index"))
    match = nodes.take(x, classes, -1)
    zero = nodes.like(0.0, x)
    return [nodes.where(counts, -on.log(match), zero), nodes.where(counts, match, zero), nodes.full([*nodes.dims(x), 0], 0, x.kind)]


def _chosen(call: Call, logarithms: Term, axis: int) -> Term:
    """The logarithm of the label's probability, with its sign changed."""
    nodes, label = call.nodes, call["Label"]
    if call.attr("soft_label"):
        return -nodes.reduce("Sum", label * logarithms, [axis], keep=True)
    counts, classes = _counted(nodes, label, call.attr("ignore_index"))
    return nodes.where(counts, -nodes.take(logarithms, classes, axis), nodes.like(0.0, logarithms))


@writes("cross_entropy")
def _cross_entropy(call: Call) -> Result:
    return _chosen(call, on.log(call["X"]), call["X"].ndim - 1)


@writes("softmax_with_cross_entropy")
def _softmax_loss(call: Call) -> Result:
    x, nodes = call["Logits"], call.nodes
    axis = call.attr("axis") % x.ndim
    if not call.attr("use_softmax"):
        return [nodes.copied(x), _chosen(call, on.log(x), axis)]
    softmax = nodes.one("Softmax", [x], x.kind, x.sizes, axis=axis)
    return [softmax, _chosen(call, nodes.one("LogSoftmax", [x], x.kind, x.sizes, axis=axis), axis)]


@writes("bpr_loss")
def _bpr(call: Call) -> Result:
    x, label, nodes = call["X"], call["Label"], call.nodes
    above = x - nodes.take(x, label, -1)
    costs = on.maximum(above, 0.0) + on.log1p(on.exp(-on.abs(above)))
    costs = nodes.put(costs, label, on.zeros_like(nodes.take(costs, label, -1)), -1)
    return nodes.reduce("Sum", costs, [-1], keep=True) / float(x.shape[-1] - 1)


def _log_sigmoid(x: Term) -> Term:
    return -(on.maximum(-x, 0.0) + on.log1p(on.exp(-on.abs(x))))


@writes("sigmoid_focal_loss")
def _focal(call: Call) -> Result:
    x, nodes, gamma, alpha = call["X"], call.nodes, float(call.attr("gamma")), float(call.attr("alpha"))
    number = nodes.range(nodes.extent(x, 1)) + 1
    label = nodes.cast(call["Label"], "int64")
    # T.-Y. Lin et al., 2017, divided by the number of foreground boxes, at least 1.
    share = 1.0 / on.maximum(nodes.cast(nodes.as_scalar(call["FgNum"]), x.kind), 1.0)
    positive = nodes.cast(on.equal(number, label), x.kind)
    # Labels of -1 are ignored by both terms.
    negative = (1.0 - positive) * nodes.cast(on.not_equal(label, -1), x.kind)
    p, q = (nodes.elementwise("Sigmoid", logit) for logit in (x, -x))
    of_class, of_others = on.power(q, gamma) * _log_sigmoid(x), on.power(p, gamma) * _log_sigmoid(-x)
    return -(positive * share * alpha * of_class) - negative * share * (1.0 - alpha) * of_others


@writes("label_smooth")
def _smooth(call: Call) -> Result:
    x, nodes, epsilon = call["X"], call.nodes, float(call.attr("epsilon"))
    prior = call.get("PriorDist")
    if prior is not None:
        return x * (1 - epsilon) + nodes.flatten(prior) * epsilon
    count = nodes.extent(x, -1)
    share = epsilon / max(count, 1) if isinstance(count, int) else epsilon / nodes.cast(nodes.as_scalar(count), x.kind)
    return x * (1 - epsilon) + share


# -- of two tensors ------------------------------------------------------------------------------


@writes("huber_loss")
def _huber(call: Call) -> Result:
    residual = call["Y"] - call["X"]
    near = on.minimum(on.abs(residual), float(call.attr("delta")))
    return [residual, near * (on.abs(residual) - near * 0.5)]


@writes("smooth_l1_loss")
def _smooth_l1(call: Call) -> Result:
    x, nodes, bend = call["X"], call.nodes, 1.0 / float(call.attr("sigma")) ** 2
    inside, outside = call.get("InsideWeight"), call.get("OutsideWeight")
    diff = x - call["Y"]
    diff = diff if inside is None else diff * inside
    size = on.abs(diff)
    # Quadratic up to the bend, linear beyond it, of one slope there.
    cost = on.where(on.less(size, bend), diff * diff * (0.5 / bend), size - 0.5 * bend)
    cost = cost if outside is None else cost * outside
    total = nodes.reduce("Sum", cost, range(1, x.ndim))
    return [diff, nodes.unsqueeze(total, [1])]


@writes("kldiv_loss")
def _kl(call: Call) -> Result:
    x, target, nodes, reduction = call["X"], call["Target"], call.nodes, call.attr("reduction")
    positive = on.greater(target, 0.0)
    # 0 log 0 is 0: the logarithm is taken of 1 where the target is not positive, so that no nan reaches the sum.
    loss = on.where(positive, target * (on.log(on.where(positive, target, 1.0)) - x), 0.0)
    if reduction == "none":
        return loss
    total = nodes.reduce("Sum", loss, range(loss.ndim))
    if reduction == "sum" or (reduction == "batchmean" and not x.ndim):
        return total
    count = nodes.size(x) if reduction == "mean" else nodes.as_scalar(nodes.extent(x, 0))
    return total / nodes.cast(count, x.kind)


@writes("sigmoid_cross_entropy_with_logits")
def _logits(call: Call) -> Result:
    x, label, nodes = call["X"], call["Label"], call.nodes
    is_counted = on.not_equal(label, float(call.attr("ignore_index")))
    # max(x, 0) - x z + log(1 + exp(-|x|)): no exponential overflows.
    loss = on.where(is_counted, on.maximum(x, 0.0) - x * label + on.log1p(on.exp(-on.abs(x))), 0.0)
    if not call.attr("normalize"):
        return loss
    number = nodes.cast(is_counted, x.kind)
    return loss / on.maximum(nodes.reduce("Sum", number, range(x.ndim)), 1e-5)


@writes("modified_huber_loss")
def _modified(call: Call) -> Result:
    z = call["X"] * (call["Y"] * 2.0 - 1.0)
    rest = on.maximum(1.0 - z, 0.0)
    return [z, on.where(on.less(z, -1.0), z * -4.0, rest * rest)]


@writes("margin_rank_loss")
def _margin(call: Call) -> Result:
    loss = on.maximum(float(call.attr("margin")) - call["Label"] * (call["X1"] - call["X2"]), 0.0)
    return [call.nodes.cast(on.greater(loss, 0.0), loss.kind), loss]


@writes("cos_sim")
def _cosine(call: Call) -> Result:
    x, y, nodes = call["X"], call["Y"], call.nodes
    axes = list(range(1, x.ndim))
    lengths = [on.sqrt(nodes.reduce("Sum", operand * operand, axes, keep=True)) for operand in (x, y)]
    cosine = nodes.reduce("Sum", (x / lengths[0]) * (y / lengths[1]), axes, keep=True)
    return [nodes.reshape(value, [nodes.extent(value, 0), 1]) for value in (cosine, *lengths)]


# -- cells ---------------------------------------------------------------------------------------


@writes("lstm_unit")
def _lstm(call: Call) -> Result:
    """Gates in the order i, f, o, g."""
    x, nodes = call["X"], call.nodes
    width = nodes.extent(call["C_prev"], 1)
    i, f, o, g = nodes.split(x, [width] * 4, 1)
    i, f, o = (nodes.elementwise("Sigmoid", gate) for gate in (i, f + float(call.attr("forget_bias")), o))
    cell = f * call["C_prev"] + i * on.tanh(g)
    return [cell, o * on.tanh(cell)]


_ACTIVATIONS = {1: "Sigmoid", 2: "Tanh", 3: "Relu"}


def _activated(nodes: Nodes, x: Term, which: int) -> Term:
    return nodes.elementwise(_ACTIVATIONS[which], x) if which in _ACTIVATIONS else x


@writes("gru_unit")
def _gru(call: Call) -> Result:
    """The weights of the gates are the first two thirds of the memory of Weight, those of the candidate the rest."""
    nodes, before, weight, bias = call.nodes, call["HiddenPrev"], call["Weight"], call.get("Bias")
    width = before.shape[1]
    flat = nodes.flatten(weight)
    gates = nodes.reshape(nodes.part(flat, 0, 0, 2 * width * width), [width, 2 * width])
    candidate = nodes.reshape(nodes.part(flat, 0, 2 * width * width, 3 * width * width), [width, width])
    x = call["Input"] if bias is None else call["Input"] + bias
    xs, xc = nodes.split(x, [2 * width, width], 1)
    gate_values = _activated(nodes, xs + nodes.matmul(before, gates), call.attr("gate_activation"))
    u, r = nodes.split(gate_values, [width, width], 1)
    reset = r * before
    c = _activated(nodes, xc + nodes.matmul(reset, candidate), call.attr("activation"))
    hidden = u * before + (1.0 - u) * c if call.attr("origin_mode") else (1.0 - u) * before + u * c
    return [nodes.concat([gate_values, c], 1), reset, hidden]
