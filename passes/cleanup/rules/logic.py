"""Truth: conjunctions, negations, comparisons, choices."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="operator"

from __future__ import annotations

from graphad import ops
from graphad.passes.cleanup.rules.library import Library
from graphad.rewriting import compute, constant, is_float
from graphad.types import INTS

library = Library()
exact, fast = library.exact, library.fast


def is_whole(dtype: str) -> bool:
    """Whether a dtype has no nan."""
    return dtype in INTS


def a_condition(rng):
    """A condition, and two tensors to choose from."""
    return {"c": rng.random((2, 3)) < 0.5, "x": rng.normal(size=(2, 3)), "y": rng.normal(size=(2, 3))}


def whole_numbers(rng):
    """Integers that are often equal."""
    return {"x": rng.integers(-2, 3, (2, 3)), "y": rng.integers(-2, 3, (2, 3))}


# -- and, or, not --------------------------------------------------------------------------------


@exact
def not_of_not(x):
    return ops.logical_not(ops.logical_not(x)), x


@exact
def and_with_itself(x):
    return ops.logical_and(x, x), x


@exact
def or_with_itself(x):
    return ops.logical_or(x, x), x


@exact
def xor_with_itself(x):
    return ops.logical_xor(x, x), ops.fill_zeros_like(x)


@exact
def and_true(x):
    return ops.logical_and(x, constant(True)), x


@exact
def and_false(x):
    return ops.logical_and(x, constant(False)), ops.fill_zeros_like(x)


@exact
def or_false(x):
    return ops.logical_or(x, constant(False)), x


@exact
def or_true(x):
    return ops.logical_or(x, constant(True)), ops.fill_any_like(x, value=1.0)


@exact
def xor_false(x):
    return ops.logical_xor(x, constant(False)), x


@exact
def xor_true(x):
    return ops.logical_xor(x, constant(True)), ops.logical_not(x)


@exact
def and_of_nots(x, y):
    return ops.logical_and(ops.logical_not(x), ops.logical_not(y)), ops.logical_not(ops.logical_or(x, y))


@exact
def or_of_nots(x, y):
    return ops.logical_or(ops.logical_not(x), ops.logical_not(y)), ops.logical_not(ops.logical_and(x, y))


@exact
def and_with_opposite(x):
    return ops.logical_and(x, ops.logical_not(x)), ops.fill_zeros_like(x)


@exact
def or_with_opposite(x):
    return ops.logical_or(x, ops.logical_not(x)), ops.fill_any_like(x, value=1.0)


@exact
def and_absorbs_or(x, y):
    return ops.logical_and(x, ops.logical_or(x, y)), x


@exact
def or_absorbs_and(x, y):
    return ops.logical_or(x, ops.logical_and(x, y)), x


# -- comparisons ---------------------------------------------------------------------------------


@exact
def not_equal_negated(x, y):
    return ops.logical_not(ops.equal(x, y)), ops.not_equal(x, y)


@exact
def equal_negated(x, y):
    return ops.logical_not(ops.not_equal(x, y)), ops.equal(x, y)


@exact(example=whole_numbers)
def not_less(x, y):
    # Floats are left out: neither ``nan < y`` nor ``nan >= y`` holds.
    return ops.logical_not(ops.less_than(x, y)), ops.greater_equal(x, y), compute(is_whole, x.dtype)


@exact(example=whole_numbers)
def not_less_or_equal(x, y):
    return ops.logical_not(ops.less_equal(x, y)), ops.greater_than(x, y), compute(is_whole, x.dtype)


@exact(example=whole_numbers)
def not_greater(x, y):
    return ops.logical_not(ops.greater_than(x, y)), ops.less_equal(x, y), compute(is_whole, x.dtype)


@exact(example=whole_numbers)
def not_greater_or_equal(x, y):
    return ops.logical_not(ops.greater_equal(x, y)), ops.less_than(x, y), compute(is_whole, x.dtype)


@exact
def less_than_itself(x):
    return ops.less_than(x, x), ops.fill_any_like(x, value=0.0, dtype="bool")


@exact
def greater_than_itself(x):
    return ops.greater_than(x, x), ops.fill_any_like(x, value=0.0, dtype="bool")


@exact
def equal_to_itself(x):
    # nan is not equal to itself.
    return ops.equal(x, x), ops.fill_any_like(x, value=1.0, dtype="bool"), compute(is_whole, x.dtype)


@exact
def unequal_to_itself(x):
    return ops.not_equal(x, x), ops.fill_any_like(x, value=0.0, dtype="bool"), compute(is_whole, x.dtype)


@exact
def less_or_equal_to_itself(x):
    return ops.less_equal(x, x), ops.fill_any_like(x, value=1.0, dtype="bool"), compute(is_whole, x.dtype)


@exact
def greater_or_equal_to_itself(x):
    return ops.greater_equal(x, x), ops.fill_any_like(x, value=1.0, dtype="bool"), compute(is_whole, x.dtype)


# -- choices -------------------------------------------------------------------------------------


@exact(example=a_condition)
def choose_between_the_same(c, x):
    return ops.where(c, x, x), x


@exact(example=a_condition)
def choose_by_not(c, x, y):
    # ``where`` takes numbers as conditions, too, and ``logical_not`` makes booleans of them.
    return ops.where(ops.logical_not(c), x, y), ops.where(c, y, x), c.dtype == "bool"


@exact
def choose_always(x, y):
    return ops.where(constant(True), x, y), x


@exact
def choose_never(x, y):
    return ops.where(constant(False), x, y), y


@exact(example=a_condition)
def choose_again(c, x, y, z):
    # Where c holds the inner choice is its first operand, elsewhere it is not read.
    return ops.where(c, ops.where(c, x, y), z), ops.where(c, x, z)


@exact(example=a_condition)
def choose_other_again(c, x, y, z):
    return ops.where(c, x, ops.where(c, y, z)), ops.where(c, x, z)


@fast
def relu_by_choice(x):
    # Not ``where(x > 0, x, 0)``, which takes nan for 0.
    return ops.where(ops.less_equal(x, constant(0)), constant(0), x), ops.relu(x), is_float(x)
