"""Scaling of the loss in mixed precision."""

from __future__ import annotations

from functools import reduce

from graphad.interop.onnx.terms import Term, on
from graphad.interop.onnx.writers.writer import Call, Result, writes


@writes("check_finite_and_unscale")
def _check_finite_and_unscale(call: Call) -> Result:
    nodes, inverse = call.nodes, 1.0 / call.nodes.as_scalar(call["Scale"])
    unscaled = [x * nodes.cast(inverse, x.kind) for x in call.all("X")]
    wrong = [nodes.cast(on.logical_not(on.isfinite(nodes.flatten(x))), "uint8") for x in unscaled]
    flags = [nodes.cast(nodes.reduce("Max", elements, [0], keep=True), "bool") for elements in wrong]
    return [unscaled, reduce(on.logical_or, flags)]


@writes("update_loss_scaling")
def _update_loss_scaling(call: Call) -> Result:
    infinite, scale, good, bad = (call[slot] for slot in ("FoundInfinite", "PrevLossScaling", "InGoodSteps", "InBadSteps"))
    is_infinite = call.nodes.as_scalar(infinite)
    gradients = [on.where(is_infinite, 0.0, x) for x in call.all("X")]
    if call.attr("stop_update"):
        return [gradients, scale, good, bad]
    good, bad = on.where(is_infinite, 0, good + 1), on.where(is_infinite, bad + 1, 0)
    is_up, is_down = on.equal(good, call.attr("incr_every_n_steps")), on.equal(bad, call.attr("decr_every_n_nan_or_inf"))
    larger, smaller = scale * call.attr("incr_ratio"), on.maximum(scale * call.attr("decr_ratio"), 1.0)
    rises = on.logical_and(is_up, on.isfinite(larger))
    new_scale: Term = on.where(rises, larger, on.where(is_down, smaller, scale))
    return [gradients, new_scale, on.where(is_up, 0, good), on.where(is_down, 0, bad)]
