"""Losses."""

from __future__ import annotations

from graphad.interop.onnx.handlers.handler import Node, handles
from graphad.interop.onnx.operands import Value


@handles("NegativeLogLikelihoodLoss")
def _nll(node: Node) -> Value:
    return _negative_likelihood(node, node[0], node[1], node.get(2))


@handles("SoftmaxCrossEntropyLoss")
def _cross_entropy(node: Node) -> list[Value]:
    likelihood = node.ops.log_softmax(node[0], axis=1)
    return [_negative_likelihood(node, likelihood, node[1], node.get(2)), likelihood]


def _negative_likelihood(node: Node, x: Value, labels: Value, weights: Value | None) -> Value:
    """The likelihood of each label, with its weight; ignored labels have the weight 0."""
    ops = node.ops
    ignore_index = node.attr("ignore_index")
    is_ignored = None if ignore_index is None else ops.equal(labels, ops.like(int(ignore_index), labels))
    # Ignored labels may be no index at all: class 0 is looked up in their place, with the weight 0.
    safe = labels if is_ignored is None else ops.where(is_ignored, ops.like(0, labels), labels)
    places = ops.unsqueeze(safe, axes=[1])
    likelihoods = ops.squeeze(ops.take_along_axis(x, places, Axis=1), axes=[1])
    weight = None
    if weights is not None:
        flat = ops.gather(weights, ops.reshape(safe, shape=[-1]), axis=0)
        weight = ops.reshape_like(flat, safe)
    elif is_ignored is not None or node.attr("reduction", "mean") == "mean":
        weight = ops.fill_any_like(likelihoods, value=1.0, dtype=x.dtype)
    if is_ignored is not None and weight is not None:
        weight = ops.where(is_ignored, ops.like(0.0, x), weight)
    loss = ops.scale(likelihoods, scale=-1.0)
    loss = loss if weight is None else ops.elementwise_mul(loss, weight)
    reduction = str(node.attr("reduction", "mean"))
    if reduction == "none":
        return loss
    # The mean is weighted: by the sum of the weights, not by how many labels there are.
    total = ops.reduce_sum(loss, reduce_all=True, keep_dim=False)
    if reduction == "sum":
        return total
    return ops.elementwise_div(total, ops.reduce_sum(weight, reduce_all=True, keep_dim=False))
