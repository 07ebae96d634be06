"""Sums, differences, products, quotients, powers and affine maps."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="operator"

from __future__ import annotations

import math

from graphad import ops
from graphad.passes.cleanup.rules.library import Library
from graphad.rewriting import compute, constant, is_float

library = Library()
exact, fast = library.exact, library.fast

# -- one operand that changes nothing ------------------------------------------------------------


@exact
def add_zero(x):
    # Of -0.0 the sum with 0.0 is 0.0: they compare equal, and exact rules are exact up to the sign of a zero.
    return ops.elementwise_add(x, constant(0)), x


@exact
def subtract_zero(x):
    return ops.elementwise_sub(x, constant(0)), x


@exact
def minus_zero(x):
    return ops.minus(x, constant(0)), x


@exact
def multiply_by_one(x):
    return ops.elementwise_mul(x, constant(1)), x


@exact
def divide_by_one(x):
    return ops.elementwise_div(x, constant(1)), x, is_float(x)


@exact
def power_one(x):
    return ops.elementwise_pow(x, constant(1)), x, is_float(x)


@exact
def pow_one(x):
    return ops.pow(x, factor=1.0), x


@exact
def pow_zero(x):
    return ops.pow(x, factor=0.0), ops.fill_any_like(x, value=1.0)


@exact
def scale_by_one(x, *, w):
    return ops.scale(x, scale=1.0, bias=0.0, bias_after_scale=w), x


@exact
def increment_by_zero(x):
    return ops.increment(x, step=0.0), x


@fast
def multiply_by_zero(x):
    # nan and infinity times 0 are nan: true only of finite numbers, which fast rules assume.
    return ops.elementwise_mul(x, constant(0)), ops.fill_zeros_like(x)


@fast
def scale_by_zero(x):
    # As ``multiply_by_zero``.
    return ops.scale(x, scale=0.0), ops.fill_zeros_like(x)


# -- the same operand twice ----------------------------------------------------------------------


@exact
def twice(x):
    # Doubling changes the exponent alone. ``scale`` of integers cuts its factor, so floats only.
    return ops.elementwise_add(x, x), ops.scale(x, scale=2.0), is_float(x)


@exact
def multiply_by_itself(x):
    return ops.elementwise_mul(x, x), ops.square(x), is_float(x)


@exact
def max_of_itself(x):
    # Also of nan: both sides give it.
    return ops.elementwise_max(x, x), x


@exact
def min_of_itself(x):
    return ops.elementwise_min(x, x), x


@fast
def subtract_itself(x):
    # Infinity less infinity is nan.
    return ops.elementwise_sub(x, x), ops.fill_zeros_like(x)


@fast
def divide_by_itself(x):
    # 0 / 0 is nan, and so is infinity by infinity.
    return ops.elementwise_div(x, x), ops.fill_any_like(x, value=1.0), is_float(x)


# -- constants -----------------------------------------------------------------------------------


@exact
def add_number(x, *, c):
    return ops.elementwise_add(x, constant(c)), ops.scale(x, bias=c), is_float(x) & compute(math.isfinite, c)


@exact
def subtract_number(x, *, c):
    return ops.elementwise_sub(x, constant(c)), ops.scale(x, bias=-c), is_float(x) & compute(math.isfinite, c)


@exact
def multiply_by_number(x, *, c):
    return ops.elementwise_mul(x, constant(c)), ops.scale(x, scale=c), is_float(x) & compute(math.isfinite, c)


def is_power_of_two(c: float) -> bool:
    """Whether dividing by a number is exactly multiplying by its inverse, in every dtype."""
    return math.isfinite(c) and math.frexp(abs(c))[0] == 0.5 and 2.0**-10 <= abs(c) <= 2.0**10


@exact
def divide_by_power_of_two(x, *, c):
    return ops.elementwise_div(x, constant(c)), ops.scale(x, scale=1.0 / c), is_float(x) & compute(is_power_of_two, c)


def has_inverse(c: float) -> bool:
    """Whether the inverse of a number is far from the ends of every dtype."""
    return math.isfinite(c) and 1e-3 <= abs(c) <= 1e3


@fast
def divide_by_number(x, *, c):
    # Two roundings instead of one: of the inverse, then of the product.
    return ops.elementwise_div(x, constant(c)), ops.scale(x, scale=1.0 / c), is_float(x) & compute(has_inverse, c)


@exact
def one_divided(x):
    return ops.elementwise_div(constant(1), x), ops.reciprocal(x), is_float(x)


# -- affine maps ---------------------------------------------------------------------------------


@exact
def negate_scale(x, *, a):
    return ops.scale(ops.scale(x, scale=a), scale=-1.0), ops.scale(x, scale=-a), is_float(x)


@exact
def scale_negation(x, *, a):
    return ops.scale(ops.scale(x, scale=-1.0), scale=a), ops.scale(x, scale=-a), is_float(x)


@fast
def affine_of_affine(x, *, a, b, c, d):
    # a * c and b * c + d are rounded before x is known.
    inner = ops.scale(x, scale=a, bias=b)
    return ops.scale(inner, scale=c, bias=d), ops.scale(x, scale=a * c, bias=b * c + d), is_float(x)


@fast
def increment_twice(x, *, a, b):
    return ops.increment(ops.increment(x, step=a), step=b), ops.increment(x, step=a + b), is_float(x)


@fast
def affine_difference(x, *, a, b):
    """A term that is added to both operands of a difference cancels."""
    inner = ops.scale(x, bias=a)
    return ops.elementwise_sub(inner, ops.scale(x, bias=b)), ops.fill_any_like(x, value=a - b), is_float(x)


# -- signs ---------------------------------------------------------------------------------------


@exact
def subtract_negated(x, y):
    return ops.elementwise_sub(x, ops.scale(y, scale=-1.0)), ops.elementwise_add(x, y), is_float(x)


@exact
def add_negated(x, y):
    return ops.elementwise_add(x, ops.scale(y, scale=-1.0)), ops.elementwise_sub(x, y), is_float(x)


@exact
def negate_difference(x, y):
    difference = ops.elementwise_sub(x, y)
    # With another use both differences would be computed.
    return ops.scale(difference, scale=-1.0), ops.elementwise_sub(y, x), is_float(x) & (difference.uses == 1)


@exact
def product_of_negated(x, y):
    product = ops.elementwise_mul(ops.scale(x, scale=-1.0), ops.scale(y, scale=-1.0))
    # The sign of a product is that of its factors, whatever is rounded.
    return product, ops.elementwise_mul(x, y), is_float(x)


@fast
def quotient_of_negated(x, y):
    quotient = ops.elementwise_div(ops.scale(x, scale=-1.0), ops.scale(y, scale=-1.0))
    return quotient, ops.elementwise_div(x, y), is_float(x)


@exact
def square_of_negated(x):
    return ops.square(ops.scale(x, scale=-1.0)), ops.square(x), is_float(x)


@exact
def absolute_of_negated(x):
    return ops.abs(ops.scale(x, scale=-1.0)), ops.abs(x), is_float(x)
