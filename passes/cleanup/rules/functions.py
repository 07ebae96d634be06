"""Functions of one operand: exponentials, logarithms, roots, rectifiers, roundings, and activations written out."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="operator"

from __future__ import annotations

from graphad import ops
from graphad.passes.cleanup.rules.library import Library
from graphad.rewriting import compute, constant, is_float

library = Library()
exact, fast = library.exact, library.fast

# -- twice the same ------------------------------------------------------------------------------


@exact
def absolute_of_absolute(x):
    inner = ops.abs(x)
    return ops.abs(inner), inner


@exact
def relu_of_relu(x):
    inner = ops.relu(x)
    return ops.relu(inner), inner


@exact
def sign_of_sign(x):
    inner = ops.sign(x)
    return ops.sign(inner), inner


@exact
def floor_of_floor(x):
    inner = ops.floor(x)
    return ops.floor(inner), inner


@exact
def ceil_of_ceil(x):
    inner = ops.ceil(x)
    return ops.ceil(inner), inner


@exact
def round_of_round(x):
    inner = ops.round(x)
    return ops.round(inner), inner


@exact
def floor_of_ceil(x):
    inner = ops.ceil(x)
    return ops.floor(inner), inner


@exact
def ceil_of_floor(x):
    inner = ops.floor(x)
    return ops.ceil(inner), inner


@exact
def round_of_floor(x):
    inner = ops.floor(x)
    return ops.round(inner), inner


@exact
def round_of_ceil(x):
    inner = ops.ceil(x)
    return ops.round(inner), inner


@exact
def relu6_of_relu(x, *, t):
    # With a negative threshold relu6 is not between 0 and that.
    return ops.relu6(ops.relu(x), threshold=t), ops.relu6(x, threshold=t), compute(float, t) >= 0


@exact
def relu_of_relu6(x, *, t):
    inner = ops.relu6(x, threshold=t)
    # With a negative threshold the minimum is negative, and the relu has something to do.
    return ops.relu(inner), inner, compute(float, t) >= 0


@exact
def clip_of_clip(x, *, a, b, c, d):
    # Of two intervals that do not overlap the later one decides, so that no single clip does.
    after = ops.clip(x, min=compute(max, a, c), max=compute(min, b, d))
    overlap = (a <= b) & (a <= d) & (c <= b) & (c <= d)
    return ops.clip(ops.clip(x, min=a, max=b), min=c, max=d), after, is_float(x) & overlap


@exact
def relu_of_clip(x, *, a, b):
    # Where the interval is below 0 the result is 0 and not b.
    return ops.relu(ops.clip(x, min=a, max=b)), ops.clip(x, min=compute(max, a, 0.0), max=b), is_float(x) & (a < b) & (b > 0)


# -- what is not negative already ----------------------------------------------------------------


@exact
def relu_of_absolute(x):
    """The absolute value of the smallest integer is negative."""
    inner = ops.abs(x)
    return ops.relu(inner), inner, is_float(x)


@exact
def relu_of_square(x):
    # The square of a large integer wraps round, and may be negative.
    inner = ops.square(x)
    return ops.relu(inner), inner, is_float(x)


@exact
def relu_of_exp(x):
    inner = ops.exp(x)
    return ops.relu(inner), inner


@exact
def relu_of_sigmoid(x):
    inner = ops.sigmoid(x)
    return ops.relu(inner), inner


@exact
def relu_of_softmax(x, *, a):
    inner = ops.softmax(x, axis=a)
    return ops.relu(inner), inner


@exact
def absolute_of_square(x):
    inner = ops.square(x)
    return ops.abs(inner), inner, is_float(x)


@exact
def absolute_of_exp(x):
    inner = ops.exp(x)
    return ops.abs(inner), inner


@exact
def absolute_of_sigmoid(x):
    inner = ops.sigmoid(x)
    return ops.abs(inner), inner


@exact
def absolute_of_relu(x):
    inner = ops.relu(x)
    return ops.abs(inner), inner


@exact
def absolute_of_sqrt(x):
    inner = ops.sqrt(x)
    return ops.abs(inner), inner


@exact
def square_of_absolute(x):
    return ops.square(ops.abs(x)), ops.square(x), is_float(x)


@exact
def cos_of_absolute(x):
    return ops.cos(ops.abs(x)), ops.cos(x)


@exact
def cos_of_negated(x):
    return ops.cos(ops.scale(x, scale=-1.0)), ops.cos(x)


# -- powers and roots ----------------------------------------------------------------------------


@exact
def pow_two(x):
    # A scalar's power is computed by another function of numpy than an array's.
    return ops.pow(x, factor=2.0), ops.square(x), is_float(x) & (x.ndim > 0)


@exact
def reciprocal_of_sqrt(x):
    # That is what ``rsqrt`` computes, with the same two roundings.
    return ops.reciprocal(ops.sqrt(x)), ops.rsqrt(x)


@fast
def sqrt_of_reciprocal(x):
    return ops.sqrt(ops.reciprocal(x)), ops.rsqrt(x)


@fast
def pow_half(x):
    # pow(-infinity, 0.5) is infinity, its root is nan; and -0.0 has the root -0.0.
    return ops.pow(x, factor=0.5), ops.sqrt(x), is_float(x)


@fast
def pow_minus_half(x):
    return ops.pow(x, factor=-0.5), ops.rsqrt(x), is_float(x)


@fast
def pow_minus_one(x):
    return ops.pow(x, factor=-1.0), ops.reciprocal(x), is_float(x)


@fast
def power_two(x):
    return ops.elementwise_pow(x, constant(2)), ops.square(x), is_float(x)


@fast
def reciprocal_of_reciprocal(x):
    return ops.reciprocal(ops.reciprocal(x)), x


@fast
def reciprocal_of_rsqrt(x):
    return ops.reciprocal(ops.rsqrt(x)), ops.sqrt(x)


@fast
def square_of_sqrt(x):
    return ops.square(ops.sqrt(x)), x


@fast
def sqrt_of_square(x):
    return ops.sqrt(ops.square(x)), ops.abs(x)


@fast
def reciprocal_of_quotient(x, y):
    quotient = ops.elementwise_div(x, y)
    # Where the quotient has other readers it has to be computed anyway.
    return ops.reciprocal(quotient), ops.elementwise_div(y, x), quotient.uses == 1


# -- exponentials and logarithms -----------------------------------------------------------------


@fast
def log_of_exp(x):
    return ops.log(ops.exp(x)), x


@fast
def exp_of_log(x):
    return ops.exp(ops.log(x)), x


@fast
def product_of_exp(x, y):
    left, right = ops.exp(x), ops.exp(y)
    # Fewer exponentials only if nothing else reads them.
    conditions = (left.uses == 1) & (right.uses == 1)
    return ops.elementwise_mul(left, right), ops.exp(ops.elementwise_add(x, y)), conditions


@fast
def quotient_of_exp(x, y):
    left, right = ops.exp(x), ops.exp(y)
    conditions = (left.uses == 1) & (right.uses == 1)
    return ops.elementwise_div(left, right), ops.exp(ops.elementwise_sub(x, y)), conditions


@fast
def sum_of_log(x, y):
    left, right = ops.log(x), ops.log(y)
    conditions = (left.uses == 1) & (right.uses == 1)
    return ops.elementwise_add(left, right), ops.log(ops.elementwise_mul(x, y)), conditions


@fast
def difference_of_log(x, y):
    left, right = ops.log(x), ops.log(y)
    conditions = (left.uses == 1) & (right.uses == 1)
    return ops.elementwise_sub(left, right), ops.log(ops.elementwise_div(x, y)), conditions


@fast
def reciprocal_of_exp(x):
    return ops.reciprocal(ops.exp(x)), ops.exp(ops.scale(x, scale=-1.0))


@fast
def log_of_reciprocal(x):
    return ops.log(ops.reciprocal(x)), ops.scale(ops.log(x), scale=-1.0)


@fast
def log_of_sqrt(x):
    return ops.log(ops.sqrt(x)), ops.scale(ops.log(x), scale=0.5)


@fast
def log_one_plus(x):
    return ops.log(ops.scale(x, bias=1.0)), ops.log1p(x)


@fast
def exp_minus_one(x):
    return ops.scale(ops.exp(x), bias=-1.0), ops.expm1(x)
