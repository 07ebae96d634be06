"""Wrong rules of the kinds that people write, each refused when it is defined, and right ones that look like them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from graphad import ops
from graphad.rewriting import compute, constant, is_float, several

Function = Callable[..., Any]


def _where_between(x: Any, low: float, high: float) -> Any:
    return ops.clip(x, min=low, max=high)


def _variance(x: Any) -> Any:
    return ops.reduce_mean(ops.square(ops.elementwise_sub(x, ops.reduce_mean(x, dim=[-1], keep_dim=True))), dim=[-1])


def _composed(first: Any, second: Any) -> Any:
    return [first[a] for a in second]


def _composed_backwards(first: Any, second: Any) -> Any:
    return [second[a] for a in first]


def _added(first: Any, second: Any) -> Any:
    return [a + b for a, b in zip(first, second, strict=True)]


def _sorted_union(first: Any, second: Any) -> Any:
    return sorted({*first, *second})


def _joined(first: Any, second: Any) -> Any:
    return [*first, *second]


def _negative(*lists: Any) -> bool:
    return all(a < 0 for each in lists for a in each)


def _goes_down(first: Any, second: Any) -> bool:
    return len(first) == len(second) == 1 and first[0] > second[0] >= 0


def _nonnegative(*lists: Any) -> bool:
    return all(a >= 0 for each in lists for a in each)


def _is_power_of_two(c: float) -> bool:
    return math.isfinite(c) and math.frexp(abs(c))[0] == 0.5 and 0.001 < abs(c) < 1000


WRONG: dict[str, Function] = {  # as fast rules, which may differ by rounding, and so as exact ones too
    "slices of slices from the end": lambda x, *, axes, first, last, second, until: (
        ops.slice(ops.slice(x, axes=axes, starts=first, ends=last), axes=axes, starts=second, ends=until),
        ops.slice(x, axes=axes, starts=compute(_added, first, second), ends=compute(_added, first, until)),
    ),
    # operands of other numbers of axes
    "the first axis of a batch": lambda x, y: (
        ops.reduce_sum(ops.matmul_v2(x, y), dim=[0]),
        ops.matmul_v2(ops.reduce_sum(x, dim=[0]), y),
    ),
    "a vector added to a matrix": lambda x, y, z: (ops.matmul_v2(x, y) + ops.matmul_v2(x, z), ops.matmul_v2(x, y + z)),
    "a batch times a vector": lambda x, y, z: (ops.matmul_v2(ops.matmul_v2(x, y), z), ops.matmul_v2(x, ops.matmul_v2(y, z))),
    "a shift along one of two axes": lambda x, c, *, e: (
        ops.layer_norm(x + c, None, None, epsilon=e)[0],
        ops.layer_norm(x, None, None, epsilon=e)[0],
        compute(lambda shape: len(shape) > 0 and shape[-1] == 1, c.shape),
    ),
    # rounding, kinks and signs
    "round is not floor of a half more": lambda x: (ops.round(x), ops.floor(x + 0.5)),
    "floor is not round": lambda x: (ops.floor(x), ops.round(x)),
    "trunc is not floor": lambda x: (ops.trunc(x), ops.floor(x), is_float(x)),
    "ceil is not floor plus one": lambda x: (ops.ceil(x), ops.floor(x) + 1.0),
    "hard_shrink keeps nothing at its threshold": lambda x, *, t: (
        ops.hard_shrink(x, threshold=t),
        ops.where(ops.less_than(ops.abs(x), ops.fill_any_like(x, value=t)), ops.fill_zeros_like(x), x),
    ),
    "hard_shrink at its default threshold": lambda x: (
        ops.hard_shrink(x),
        ops.where(ops.less_than(ops.abs(x), ops.fill_any_like(x, value=0.5)), ops.fill_zeros_like(x), x),
    ),
    "thresholded_relu is open": lambda x: (
        ops.thresholded_relu(x),
        ops.where(ops.less_than(x, ops.fill_any_like(x, value=1.0)), ops.fill_zeros_like(x), x),
    ),
    "sign at zero": lambda x: (
        ops.sign(x),
        ops.where(ops.greater_equal(x, ops.fill_zeros_like(x)), ops.fill_any_like(x, value=1.0), ops.fill_any_like(x, value=-1.0)),
        is_float(x),
    ),
    "sign is not x over its size": lambda x: (ops.sign(x), ops.elementwise_div(x, ops.abs(x)), is_float(x)),
    "relu6 is not relu": lambda x: (ops.relu6(x), ops.relu(x)),
    "a wide clip": lambda x: (_where_between(x, -5.0, 5.0), x),
    "a very wide clip": lambda x: (_where_between(x, -10.0, 10.0), x),
    "a maximum far below": lambda x: (ops.elementwise_max(x, ops.fill_any_like(x, value=-100.0)), x, is_float(x)),
    "a minimum far above": lambda x: (ops.elementwise_min(x, constant(1e5)), x, is_float(x)),
    "relu by a comparison of another kind": lambda x: (ops.relu(x), ops.elementwise_mul(x, ops.sign(x))),
    "leaky_relu is no maximum": lambda x, *, a: (ops.leaky_relu(x, alpha=a), ops.elementwise_max(x, ops.scale(x, scale=a))),
    "abs by squares": lambda x: (ops.abs(x), ops.sqrt(ops.elementwise_mul(x, x))),
    "hard_sigmoid of default slope": lambda x, *, s: (ops.hard_sigmoid(x, slope=s), ops.hard_sigmoid(x, offset=0.5)),
    "softplus is not relu far out": lambda x: (ops.softplus(x), ops.relu(x)),
    "gelu is not its approximation": lambda x: (ops.gelu(x), ops.gelu(x, approximate=True)),
    "elu without its number": lambda x, *, a: (ops.elu(x, alpha=a), ops.scale(ops.elu(x), scale=a)),
    "softsign of a negative": lambda x: (ops.softsign(x), ops.elementwise_div(x, x + 1.0)),
    "clips in the other order": lambda x, *, a, b: (
        ops.elementwise_max(ops.elementwise_min(x, constant(a)), constant(b)),
        ops.clip(x, min=b, max=a),
        is_float(x),
    ),
    "clip of clip": lambda x, *, a, b, c, d: (
        ops.clip(ops.clip(x, min=a, max=b), min=c, max=d),
        ops.clip(x, min=compute(max, a, c), max=compute(min, b, d)),
        is_float(x),
    ),
    # small numbers, cancellation
    "a small number is no zero": lambda x: (x + 1e-6, x),
    "a very small number is no zero": lambda x: (x + 1e-10, x),
    "an epsilon under a root": lambda x: (ops.sqrt(ops.scale(ops.square(x), bias=1e-12)), ops.abs(x), is_float(x)),
    "variance by squares": lambda x: (
        _variance(x),
        ops.elementwise_sub(ops.reduce_mean(ops.square(x), dim=[-1]), ops.square(ops.reduce_mean(x, dim=[-1]))),
        is_float(x),
    ),
    "log1p by log": lambda x: (ops.log1p(x), ops.log(x + 1.0)),
    "expm1 by exp": lambda x: (ops.expm1(x), ops.exp(x) - 1.0),
    "softmax without a maximum": lambda x, *, a: (ops.log_softmax(x, axis=a), ops.log_softmax(x, axis=-1)),
    "a detour over a large number": lambda x: (ops.assign(x), (x + 1e7) - 1e7, is_float(x)),
    "difference of squares": lambda x, y: (
        ops.elementwise_mul(ops.elementwise_sub(x, y), ops.elementwise_add(x, y)),
        ops.elementwise_sub(ops.square(x), ops.square(y)),
        is_float(x),
    ),
    # domains
    "exp of log": lambda x: (ops.assign(x), ops.exp(ops.log(x)), is_float(x)),
    "log of a product": lambda x, y: (ops.log(ops.elementwise_mul(x, y)), ops.elementwise_add(ops.log(x), ops.log(y))),
    "root of a square": lambda x: (ops.sqrt(ops.square(x)), x, is_float(x)),
    "root of a product": lambda x, y: (ops.sqrt(ops.elementwise_mul(x, y)), ops.elementwise_mul(ops.sqrt(x), ops.sqrt(y))),
    "a division that was not there": lambda x, y: (
        ops.elementwise_add(x, ops.scale(y, scale=0.0)),
        ops.elementwise_div(ops.elementwise_mul(x, y), y),
        is_float(x),
    ),
    "integers halved": lambda x: (ops.scale(ops.scale(x, scale=0.5), scale=2.0), x),
    "integers scaled twice": lambda x, *, a, b: (ops.scale(ops.scale(x, scale=a), scale=b), ops.scale(x, scale=a * b)),
    "integers divided": lambda x, y: (ops.elementwise_mul(ops.elementwise_div(x, y), y), x),
    "integers divided downwards": lambda x, y: (ops.elementwise_div(x, y), ops.elementwise_floordiv(x, y), ~is_float(x)),
    "an integer through float64": lambda x: (ops.cast(ops.cast(x, out_dtype="float64"), out_dtype="int64"), x, x.dtype == "int64"),
    "a cast and back": lambda x: (ops.cast(ops.cast(x, out_dtype="float32"), out_dtype="float64"), x),
    # attributes forgotten or mixed up
    "a factor taken out of relu": lambda x, *, a: (ops.relu(ops.scale(x, scale=a)), ops.scale(ops.relu(x), scale=a)),
    "a bias forgotten": lambda x, *, a, b: (ops.scale(x, scale=a, bias=b), ops.scale(x, scale=a)),
    "a bias before and after": lambda x, *, a, b: (ops.scale(x, scale=a, bias=b, bias_after_scale=False), ops.scale(x, scale=a, bias=b)),
    "numbers added in place of multiplied": lambda x, *, a, b: (
        ops.scale(ops.scale(x, scale=a), scale=b),
        ops.scale(x, scale=a + b),
        is_float(x),
    ),
    "the bias of an affine map": lambda x, *, a, b, c: (
        ops.scale(ops.scale(x, scale=a, bias=b), scale=c),
        ops.scale(x, scale=a * c, bias=b),
        is_float(x),
    ),
    "relu of concat without the axis": lambda x, y, *, a: (ops.relu(ops.concat([x, y], axis=a)), ops.concat([ops.relu(x), ops.relu(y)])),
    "relu of a list without the axis": lambda xs=several, *, a: (ops.concat([ops.concat([*xs], axis=a)], axis=a), ops.concat([*xs])),
    "softmax without its axis": lambda x, *, a: (ops.softmax(x, axis=a), ops.exp(ops.log_softmax(x))),
    "a table without padding": lambda w, i, *, p: (ops.lookup_table_v2(w, i, padding_idx=p), ops.gather(w, i)),
    "cumsum without its direction": lambda x, *, a, r: (ops.cumsum(x, axis=a, reverse=r), ops.cumsum(x, axis=a)),
    "pow is no square": lambda x, *, f: (ops.pow(x, factor=f), ops.square(x), is_float(x), f > 1.0),
    "flip of another axis": lambda x, *, a: (ops.flip(ops.flip(x, axis=a), axis=[0]), x),
    "roll the other way": lambda x, *, s, a: (
        ops.roll(x, shifts=s, axis=a),
        ops.roll(ops.flip(ops.flip(x, axis=[0]), axis=[0]), shifts=compute(_negated, s), axis=a),
    ),
    "pads in the other order": lambda x, *, p, v: (
        ops.pad(x, paddings=p, pad_value=v),
        ops.pad(x, paddings=compute(_reversed, p), pad_value=v),
    ),
    # axes, shapes, broadcasting
    "composed the other way": lambda x, *, a, b: (
        ops.transpose(ops.transpose(x, axis=a), axis=b),
        ops.transpose(x, axis=compute(_composed_backwards, a, b)),
        compute(_nonnegative, a, b),
    ),
    "an order of axes undone by itself": lambda x, *, a: (ops.transpose(ops.transpose(x, axis=a), axis=a), x),
    "transposed is not reshaped": lambda x: (ops.transpose(x, axis=[1, 0]), x),
    "sums of other axes": lambda x, *, d, e: (
        ops.reduce_sum(ops.reduce_sum(x, dim=d), dim=e),
        ops.reduce_sum(x, dim=compute(_sorted_union, d, e)),
        compute(_nonnegative, d, e),
    ),
    "sums of sums over the axes of both": lambda x, *, d, e: (
        ops.reduce_sum(ops.reduce_sum(x, dim=d), dim=e),
        ops.reduce_sum(x, dim=compute(_joined, d, e)),
    ),
    "sums of sums over axes from the end": lambda x, *, d, e: (
        ops.reduce_sum(ops.reduce_sum(x, dim=d), dim=e),
        ops.reduce_sum(x, dim=compute(_joined, d, e)),
        compute(_negative, d, e),
    ),
    "a product of products over the axes of both": lambda x, *, d, e: (
        ops.reduce_prod(ops.reduce_prod(x, dim=d), dim=e),
        ops.reduce_prod(x, dim=compute(_joined, d, e)),
    ),
    "a sum under another axis": lambda x, *, d, e: (
        ops.reduce_sum(ops.unsqueeze(x, axes=d), dim=e),
        ops.unsqueeze(ops.reduce_sum(x, dim=e), axes=d),
    ),
    "sum over the wrong axis": lambda x: (ops.reduce_sum(x, dim=[0]), ops.reduce_sum(x, dim=[-1])),
    "sums exchanged with products": lambda x: (
        ops.reduce_sum(ops.reduce_prod(x, dim=[0], keep_dim=True), dim=[1], keep_dim=True),
        ops.reduce_prod(ops.reduce_sum(x, dim=[1], keep_dim=True), dim=[0], keep_dim=True),
    ),
    "max exchanged with sum": lambda x: (
        ops.reduce_max(ops.reduce_sum(x, dim=[1]), dim=[0]),
        ops.reduce_sum(ops.reduce_max(x, dim=[0]), dim=[0]),
    ),
    "a mean of means": lambda x: (ops.mean(x), ops.reduce_max(x, reduce_all=True), is_float(x)),
    "a sum that is broadcast": lambda x, y: (
        ops.reduce_sum(ops.elementwise_add(x, y), reduce_all=True),
        ops.elementwise_add(ops.reduce_sum(x, reduce_all=True), ops.reduce_sum(y, reduce_all=True)),
        is_float(x),
    ),
    "a mean of a sum": lambda x, y: (ops.mean(ops.elementwise_mul(x, y)), ops.elementwise_mul(ops.mean(x), ops.mean(y)), is_float(x)),
    "halves exchanged": lambda x: (ops.concat(list(reversed(ops.split(x, num=2, axis=0)[:2])), axis=0), x),
    "matmul commutes": lambda x, y: (ops.matmul_v2(x, y), ops.matmul_v2(y, x)),
    "transposes of a product": lambda x, y: (ops.matmul_v2(x, y, trans_x=True), ops.matmul_v2(x, y, trans_y=True)),
    "a subtraction commutes": lambda x, y: (ops.elementwise_sub(x, y), ops.elementwise_sub(y, x)),
    "a subtraction associates": lambda x, y, z: (
        ops.elementwise_sub(x, ops.elementwise_sub(y, z)),
        ops.elementwise_sub(ops.elementwise_sub(x, y), z),
    ),
    "the other branch": lambda c, x, y: (ops.where(ops.logical_not(c), x, y), ops.where(c, x, y)),
    "not of and": lambda x, y: (ops.logical_not(ops.logical_and(x, y)), ops.logical_and(ops.logical_not(x), ops.logical_not(y))),
    "a list lost": lambda xs=several, ys=several: (ops.sum([*xs, ops.sum([*ys])]), ops.sum([*xs])),
    "results exchanged": lambda x: ((ops.sin(x), ops.cos(x)), (ops.cos(x), ops.sin(x))),
}


def _negated(shifts: Any) -> Any:
    return [-s for s in shifts]


def _reversed(paddings: Any) -> Any:
    return list(reversed(paddings))


WRONG_AS_EXACT: dict[
    str, Function
] = {  # right but for rounding, nan and infinities, kinks and ties of gradients, integers that wrap around
    "sign times size, at zero": lambda x: (ops.sign(x) * ops.abs(x), x),
    "a maximum that shares its gradient": lambda x: (ops.reduce_amax(x, dim=[-1]), ops.reduce_max(x, dim=[-1])),
    "the first of the largest": lambda x: (ops.top_k(x, k=1)[0], ops.reduce_max(x, dim=[-1], keep_dim=True)),
    "a square of integers is not negative": lambda x: (ops.relu(ops.square(x)), ops.square(x)),
    "nor is a product": lambda x: (ops.abs(x * x), x * x),
    "a quotient by a number": lambda x, *, c: (
        ops.elementwise_div(x, constant(c)),
        ops.scale(x, scale=1.0 / c),
        is_float(x) & compute(lambda c: c != 0 and math.isfinite(c) and 1e-3 < abs(c) < 1e3, c),
    ),
    "numbers multiplied": lambda x, *, a, b: (ops.scale(ops.scale(x, scale=a), scale=b), ops.scale(x, scale=a * b), is_float(x)),
    "abs of root of square": lambda x: (ops.sqrt(ops.elementwise_mul(x, x)), ops.abs(x), is_float(x)),
    "x minus x": lambda x: (ops.elementwise_sub(x, x), ops.fill_zeros_like(x), is_float(x)),
    "x over x": lambda x: (ops.elementwise_div(x, x), ops.fill_any_like(x, value=1.0), is_float(x)),
    "x times zero": lambda x: (ops.elementwise_mul(x, constant(0.0)), ops.fill_zeros_like(x)),
    "add and subtract": lambda x, y: (ops.elementwise_sub(ops.elementwise_add(x, y), y), x, is_float(x)),
    "multiply and divide": lambda x, y: (ops.elementwise_mul(ops.elementwise_div(x, y), y), x, is_float(x)),
    "sums associate": lambda x, y, z: (
        ops.elementwise_add(x, ops.elementwise_add(y, z)),
        ops.elementwise_add(ops.elementwise_add(x, y), z),
    ),
    "sums distribute": lambda x, y, z: (
        ops.elementwise_mul(x, ops.elementwise_add(y, z)),
        ops.elementwise_add(ops.elementwise_mul(x, y), ops.elementwise_mul(x, z)),
    ),
    "log of exp": lambda x: (ops.log(ops.exp(x)), x),
    "seven times": lambda x: (ops.sum([x] * 7), ops.scale(x, scale=7.0), is_float(x)),
    "not less": lambda x, y: (ops.logical_not(ops.less_than(x, y)), ops.greater_equal(x, y)),
    "equal to itself": lambda x: (ops.equal(x, x), ops.fill_any_like(x, value=1.0, dtype="bool")),
    "two reciprocals": lambda x: (ops.reciprocal(ops.reciprocal(x)), x),
    "a reciprocal for a quotient": lambda x, y: (ops.elementwise_mul(x, ops.reciprocal(y)), ops.elementwise_div(x, y)),
    "an absolute integer": lambda x: (ops.relu(ops.abs(x)), ops.abs(x)),
}

RIGHT_AS_EXACT: dict[str, Function] = {
    "three times": lambda x: (ops.elementwise_add(ops.elementwise_add(x, x), x), ops.scale(x, scale=3.0), is_float(x)),
    "five times": lambda x: (ops.sum([x] * 5), ops.scale(x, scale=5.0), is_float(x)),
    "added truth": lambda x: (ops.elementwise_add(x, x), ops.scale(x, scale=2.0)),
    "relu twice": lambda x: (ops.relu(ops.relu(x)), ops.relu(x)),
    "add zero": lambda x, *, c: (ops.elementwise_add(x, constant(c)), x, c == 0),
    "multiply by one": lambda x: (ops.elementwise_mul(x, constant(1)), x),
    "a quotient by a power of two": lambda x, *, c: (
        ops.elementwise_div(x, constant(c)),
        ops.scale(x, scale=1.0 / c),
        is_float(x) & compute(_is_power_of_two, c),
    ),
    "twice": lambda x: (ops.elementwise_add(x, x), ops.scale(x, scale=2.0), is_float(x)),
    "square": lambda x: (ops.elementwise_mul(x, x), ops.square(x), is_float(x)),
    "minus minus": lambda x: (ops.scale(ops.scale(x, scale=-1.0), scale=-1.0), x, is_float(x)),
    "subtract a negated": lambda x, y: (ops.elementwise_sub(x, ops.scale(y, scale=-1.0)), ops.elementwise_add(x, y), is_float(x)),
    "abs of abs": lambda x: (ops.abs(ops.abs(x)), ops.abs(x)),
    "abs of negated": lambda x: (ops.abs(ops.scale(x, scale=-1.0)), ops.abs(x), is_float(x)),
    "round of floor": lambda x: (ops.round(ops.floor(x)), ops.floor(x)),
    "floor of ceil": lambda x: (ops.floor(ops.ceil(x)), ops.ceil(x)),
    "clip is two steps": lambda x, *, a, b: (ops.clip(x, min=a, max=b), ops.clip(ops.clip(x, min=a, max=b), min=a, max=b), a <= b),
    "relu of relu6": lambda x: (ops.relu(ops.relu6(x)), ops.relu6(x)),
    "not not": lambda x: (ops.logical_not(ops.logical_not(x)), x),
    "De Morgan": lambda x, y: (ops.logical_and(ops.logical_not(x), ops.logical_not(y)), ops.logical_not(ops.logical_or(x, y))),
    "not equal": lambda x, y: (ops.logical_not(ops.equal(x, y)), ops.not_equal(x, y)),
    "exchanged comparison": lambda x, y: (ops.less_than(x, y), ops.greater_than(y, x)),
    "choose by not": lambda c, x, y: (ops.where(ops.logical_not(c), x, y), ops.where(c, y, x), c.dtype == "bool"),
    "choose the same": lambda c, x: (ops.where(c, x, x), x),
    "transposes composed": lambda x, *, a, b: (
        ops.transpose(ops.transpose(x, axis=a), axis=b),
        ops.transpose(x, axis=compute(_composed, a, b)),
        compute(_nonnegative, a, b),
    ),
    "maxima over one axis, then over one before it": lambda x, *, d, e: (
        ops.reduce_max(ops.reduce_max(x, dim=d), dim=e),
        ops.reduce_max(x, dim=compute(_joined, d, e)),
        compute(_goes_down, d, e),
    ),
    "flip twice": lambda x, *, a: (ops.flip(ops.flip(x, axis=a), axis=a), x),
    "relu of concat": lambda x, y, *, a: (ops.relu(ops.concat([x, y], axis=a)), ops.concat([ops.relu(x), ops.relu(y)], axis=a)),
    "relu of transpose": lambda x, *, a: (ops.relu(ops.transpose(x, axis=a)), ops.transpose(ops.relu(x), axis=a)),
    "relu of reshape": lambda x, *, s: (ops.relu(ops.reshape2(x, shape=s)), ops.reshape2(ops.relu(x), shape=s)),
    "relu times a positive number": lambda x: (ops.relu(ops.scale(x, scale=2.0)), ops.scale(ops.relu(x), scale=2.0), is_float(x)),
    "a table without padding": lambda w, i: (ops.lookup_table_v2(w, i), ops.gather(w, i), i.ndim == 1),
    "sum of one": lambda x: (ops.sum([x]), x),
    "sums joined": lambda xs=several, ys=several: (ops.sum([ops.sum([*xs]), *ys]), ops.sum([*xs, *ys])),
    "a concat of one": lambda x, *, a: (ops.concat([x], axis=a), x),
    "a cast widened": lambda x: (ops.cast(ops.cast(x, out_dtype="float64"), out_dtype="float32"), x, x.dtype == "float32"),
    "max of relu": lambda x: (ops.reduce_max(ops.relu(x), reduce_all=True), ops.relu(ops.reduce_max(x, reduce_all=True))),
    "hard_shrink": lambda x, *, t: (
        ops.hard_shrink(x, threshold=t),
        ops.where(ops.less_equal(ops.abs(x), ops.fill_any_like(x, value=t)), ops.fill_zeros_like(x), x),
        t > 0,
    ),
}

RIGHT_AS_FAST: dict[str, Function] = {
    "log of exp": lambda x: (ops.log(ops.exp(x)), x),
    "softplus": lambda x: (ops.log(ops.exp(x) + 1.0), ops.softplus(x)),
    "numbers multiplied": lambda x, *, a, b: (ops.scale(ops.scale(x, scale=a), scale=b), ops.scale(x, scale=a * b), is_float(x)),
    "variance without cancellation": lambda x: (
        ops.elementwise_sub(ops.reduce_mean(ops.square(x), dim=[-1]), ops.square(ops.reduce_mean(x, dim=[-1]))),
        _variance(x),
        is_float(x),
    ),
    "sums distribute": lambda x, y, z: (
        ops.elementwise_add(ops.elementwise_mul(x, y), ops.elementwise_mul(x, z)),
        ops.elementwise_mul(x, ops.elementwise_add(y, z)),
        is_float(x),
    ),
    "x minus x": lambda x: (ops.elementwise_sub(x, x), ops.fill_zeros_like(x)),
    "divide and multiply": lambda x, y: (ops.elementwise_mul(ops.elementwise_div(x, y), y), x, is_float(x)),
    "log1p": lambda x: (ops.log(x + 1.0), ops.log1p(x)),
    "expm1": lambda x: (ops.exp(x) - 1.0, ops.expm1(x)),
    "log_softmax": lambda x, *, a: (ops.log(ops.softmax(x, axis=a)), ops.log_softmax(x, axis=a)),
    "silu": lambda x: (ops.elementwise_mul(x, ops.sigmoid(x)), ops.silu(x)),
    "tanh by sigmoid": lambda x: (ops.scale(ops.sigmoid(ops.scale(x, scale=2.0)), scale=2.0, bias=-1.0), ops.tanh(x)),
}
