"""Factors and terms that several operands have in common, and sums of several."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="operator"

from __future__ import annotations

from graphad import ops
from graphad.passes.cleanup.rules.library import Library
from graphad.rewriting import constant, is_float, several

library = Library()
exact, fast = library.exact, library.fast


# ``uses == 1``: an operand that something else reads as well stays, and then there is more work than before.
@fast
def sum_of_scaled(x, y, *, a):
    left, right = ops.scale(x, scale=a), ops.scale(y, scale=a)
    conditions = is_float(x) & (left.uses == 1) & (right.uses == 1)
    return ops.elementwise_add(left, right), ops.scale(ops.elementwise_add(x, y), scale=a), conditions


@fast
def difference_of_scaled(x, y, *, a):
    left, right = ops.scale(x, scale=a), ops.scale(y, scale=a)
    conditions = is_float(x) & (left.uses == 1) & (right.uses == 1)
    return ops.elementwise_sub(left, right), ops.scale(ops.elementwise_sub(x, y), scale=a), conditions


@fast
def add_to_scaled(x, *, a):
    return ops.elementwise_add(ops.scale(x, scale=a), x), ops.scale(x, scale=a + 1.0), is_float(x)


@fast
def scaled_twice(x, *, a, b):
    total = ops.elementwise_add(ops.scale(x, scale=a), ops.scale(x, scale=b))
    return total, ops.scale(x, scale=a + b), is_float(x)


@fast
def common_factor(x, y, z):
    left, right = ops.elementwise_mul(x, z), ops.elementwise_mul(y, z)
    conditions = is_float(x) & (left.uses == 1) & (right.uses == 1)
    return ops.elementwise_add(left, right), ops.elementwise_mul(ops.elementwise_add(x, y), z), conditions


@fast
def scaled_product(x, y, *, a, b):
    product = ops.elementwise_mul(ops.scale(x, scale=a), ops.scale(y, scale=b))
    return product, ops.scale(ops.elementwise_mul(x, y), scale=a * b), is_float(x)


@fast
def multiply_and_divide(x, y):
    return ops.elementwise_div(ops.elementwise_mul(x, y), y), x, is_float(x)


@fast
def divide_and_multiply(x, y):
    return ops.elementwise_mul(ops.elementwise_div(x, y), y), x, is_float(x)


@fast
def add_and_subtract(x, y):
    return ops.elementwise_sub(ops.elementwise_add(x, y), y), x, is_float(x)


@fast
def subtract_and_add(x, y):
    return ops.elementwise_add(ops.elementwise_sub(x, y), y), x, is_float(x)


@fast
def multiply_by_reciprocal(x, y):
    return ops.elementwise_mul(x, ops.reciprocal(y)), ops.elementwise_div(x, y)


@fast
def divide_by_reciprocal(x, y):
    return ops.elementwise_div(x, ops.reciprocal(y)), ops.elementwise_mul(x, y)


# -- sums of several -----------------------------------------------------------------------------


@exact
def sum_of_one(x):
    return ops.sum([x]), x


# Exact: doubling changes the exponent alone.
@exact
def sum_of_the_same(x):
    return ops.sum([x, x]), ops.scale(x, scale=2.0), is_float(x)


@exact
def sum_with_zeros(x, xs=several, ys=several):
    return ops.sum([x, *xs, constant(0), *ys]), ops.sum([x, *xs, *ys])


@exact
def sum_from_zeros(x, xs=several):
    return ops.sum([constant(0), x, *xs]), ops.sum([x, *xs])


@exact
def sum_with_zeros_like(x, y, xs=several, ys=several):
    return ops.sum([x, *xs, ops.fill_zeros_like(y), *ys]), ops.sum([x, *xs, *ys])


@exact
def sum_from_zeros_like(x, y, xs=several):
    return ops.sum([ops.fill_zeros_like(y), x, *xs]), ops.sum([x, *xs])


@exact
def sum_begins_with_sum(xs=several, ys=several):
    inner = ops.sum([*xs])
    return ops.sum([inner, *ys]), ops.sum([*xs, *ys]), inner.uses == 1


@fast
def sum_of_sum(xs=several, ys=several, zs=several):
    inner = ops.sum([*ys])
    return ops.sum([*xs, inner, *zs]), ops.sum([*xs, *ys, *zs]), inner.uses == 1
