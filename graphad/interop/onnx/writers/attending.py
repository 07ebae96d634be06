"""Attention, and the steps of optimizers that look at values; the other optimizers are written by their formulas."""

from __future__ import annotations

import math

import numpy as np

from graphad.interop.onnx.emitting import Nodes
from graphad.interop.onnx.terms import Term, on
from graphad.interop.onnx.writers.writer import Call, Result, writes
from graphad.ops.attention import FORBIDDEN


def _heads(nodes: Nodes, x: Term) -> Term:
    return nodes.transpose(x, [0, 2, 1, 3])


def _scores(call: Call, q: Term, k: Term) -> Term:
    """The attention scores of q and k; a masked one is far below all others."""
    nodes, mask = call.nodes, call.get("attn_mask")
    product = nodes.matmul(_heads(nodes, q), nodes.swapped(_heads(nodes, k)))
    scores = product * (1.0 / math.sqrt(q.shape[3]))
    scores = scores if mask is None else scores + mask
    if not call.attr("causal"):
        return scores
    rows, columns = nodes.unsqueeze(nodes.range(nodes.extent(q, 1)), [1]), nodes.range(nodes.extent(k, 1))
    # The last rows and the last columns are the same element, so a mask of another height is shifted by the difference.
    a, b = nodes.extent(k, 1), nodes.extent(q, 1)
    shift = a - b if isinstance(a, int) and isinstance(b, int) else nodes.as_scalar(a) - nodes.as_scalar(b)
    return nodes.where(on.less_equal(columns, rows + shift), scores, nodes.like(FORBIDDEN, scores))


@writes("flash_attn")
def _attention(call: Call) -> Result:
    q, k, v, nodes = call["q"], call["k"], call["v"], call.nodes
    scores = _scores(call, q, k)
    weights = nodes.one("Softmax", [scores], scores.kind, scores.sizes, axis=3)
    # The greatest is taken away before the exponential, so that nothing overflows.
    top = on.maximum(nodes.reduce("Max", scores, [3], keep=True), FORBIDDEN)
    logarithms = on.log(nodes.reduce("Sum", on.exp(scores - top), [3], keep=True)) + top
    weights_output = weights if call.attr("return_softmax") else nodes.constant(np.zeros(0, q.dtype))
    out = _heads(nodes, nodes.matmul(weights, _heads(nodes, v)))
    return [out, weights_output, nodes.squeeze(logarithms, [3]), nodes.constant(np.zeros(2, "int64"))]


@writes("lamb")
def _lamb(call: Call) -> Result:
    """Adam's step, as long as the parameter is."""
    p, g, nodes = call["Param"], call["Grad"], call.nodes
    rate, *powers = (nodes.cast(nodes.as_scalar(call[slot]), p.kind) for slot in ("LearningRate", "Beta1Pow", "Beta2Pow"))
    beta1, beta2, decay = (float(call.attr(name)) for name in ("beta1", "beta2", "weight_decay"))
    m1 = call["Moment1"] * beta1 + g * (1 - beta1)
    m2 = call["Moment2"] * beta2 + g * g * (1 - beta2)
    step = m1 / (1.0 - powers[0]) / (on.sqrt(m2 / (1.0 - powers[1])) + float(call.attr("epsilon"))) + p * decay
    if decay > 0 or call.attr("always_adapt"):
        parameter_norm, step_norm = (nodes.reduce("L2", term, range(term.ndim)) for term in (p, step))
        # A norm of zero takes the plain rate. The inner Where keeps the quotient that is not chosen from dividing by zero.
        usual = on.logical_and(on.greater(parameter_norm, 0.0), on.greater(step_norm, 0.0))
        rate = rate * on.where(usual, parameter_norm / on.where(usual, step_norm, 1.0), 1.0)
    return [p - rate * step, m1, m2, call["Beta1Pow"] * beta1, call["Beta2Pow"] * beta2]


@writes("proximal_adagrad")
def _proximal(call: Call) -> Result:
    """A step under a penalty, 0 where the sum of squares is."""
    p, g, nodes = call["Param"], call["Grad"], call.nodes
    rate = nodes.cast(nodes.as_scalar(call["LearningRate"]), p.kind)
    m = call["Moment"] + g * g
    positive = on.greater(m, 0.0)
    q = p - rate * on.where(positive, g / on.sqrt(on.where(positive, m, 1.0)), 0.0)
    # Soft thresholding is the proximal step of l1, the division that of l2 (J. Duchi and Y. Singer, 2009).
    magnitude = on.maximum(on.abs(q) - rate * float(call.attr("l1")), 0.0)
    return [on.sign(q) * magnitude / (rate * float(call.attr("l2")) + 1.0), m]
