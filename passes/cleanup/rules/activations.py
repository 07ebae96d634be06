"""Activations written out in simpler operators, by one operator."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="operator"

from __future__ import annotations

import math

from graphad import ops
from graphad.passes.cleanup.rules.library import Library
from graphad.rewriting import compute, constant, is_float

library = Library()
exact, fast = library.exact, library.fast


@exact
def silu_written_out(x):
    gate = ops.sigmoid(x)
    # x / (1 + exp(-x)). With another use the gate would be computed all the same.
    return ops.elementwise_mul(x, gate), ops.silu(x), gate.uses == 1


@exact
def swish_written_out(x, *, b):
    gate = ops.sigmoid(ops.scale(x, scale=b))
    # x / (1 + exp(-b x)) (P. Ramachandran et al., "Searching for activation functions", 2017).
    return ops.elementwise_mul(x, gate), ops.swish(x, beta=b), gate.uses == 1


@fast
def mish_of_softplus(x):
    gate = ops.tanh(ops.softplus(x))
    # x tanh(log(1 + exp(x))) (D. Misra, "Mish", 2019).
    return ops.elementwise_mul(x, gate), ops.mish(x), gate.uses == 1


@exact
def tanh_shrink_written_out(x):
    return ops.elementwise_sub(x, ops.tanh(x)), ops.tanh_shrink(x)


@exact
def relu_written_out(x):
    return ops.elementwise_max(x, constant(0)), ops.relu(x)


@exact
def relu6_written_out(x, *, t):
    return ops.elementwise_min(ops.relu(x), constant(t)), ops.relu6(x, threshold=t), is_float(x) & compute(math.isfinite, t) & (t > 0)


@exact
def clip_written_out(x, *, a, b):
    inner = ops.elementwise_max(x, constant(a))
    conditions = is_float(x) & compute(math.isfinite, a) & compute(math.isfinite, b) & (a < b)
    return ops.elementwise_min(inner, constant(b)), ops.clip(x, min=a, max=b), conditions


@exact
def sigmoid_written_out(x):
    return ops.reciprocal(ops.scale(ops.exp(ops.scale(x, scale=-1.0)), bias=1.0)), ops.sigmoid(x)


@fast
def sigmoid_of_negated(x):
    # 1 - s(x) = s(-x), which keeps its digits where s(x) is nearly 1.
    return ops.scale(ops.sigmoid(x), scale=-1.0, bias=1.0), ops.sigmoid(ops.scale(x, scale=-1.0))


@fast
def tanh_written_out(x):
    # tanh(x) = 2 s(2 x) - 1.
    return ops.scale(ops.sigmoid(ops.scale(x, scale=2.0)), scale=2.0, bias=-1.0), ops.tanh(x)


@fast
def softplus_written_out(x):
    # Written out it is infinite from where exp overflows; the operator is x there.
    return ops.log(ops.scale(ops.exp(x), bias=1.0)), ops.softplus(x)


@fast
def softplus_of_log1p(x):
    return ops.log1p(ops.exp(x)), ops.softplus(x)


@fast
def log_of_sigmoid(x):
    return ops.log(ops.sigmoid(x)), ops.logsigmoid(x)


@fast
def log_of_softmax(x, *, a):
    # Written out it is -inf where the softmax underflows.
    return ops.log(ops.softmax(x, axis=a)), ops.log_softmax(x, axis=a)


@fast
def exp_of_log_softmax(x, *, a):
    return ops.exp(ops.log_softmax(x, axis=a)), ops.softmax(x, axis=a)
