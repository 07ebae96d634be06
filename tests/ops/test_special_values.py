"""Elementwise operators at zeros of both signs, infinities, nan, the largest and smallest numbers, kinks and ties.

Each is compared with a formula in Python's own floats, element by element; at kinks the gradient is the convention that is written here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.ops import GRAD, elementwise, lookup
from graphad.testing.samples import SAMPLES
from graphad.types import Array
from tests.ops.check import run

inf, nan = math.inf, math.nan
MOST, LEAST = 1.7976931348623157e308, 5e-324
VALUES = [0.0, -0.0, inf, -inf, nan, MOST, -MOST, LEAST, -LEAST]
VALUES += [1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, 3.0, -3.0, 6.0, -6.0, 20.5, -20.5, 800.0]
Formula = Callable[[float], float]


def math_or(f: Formula, where_undefined: float = nan, too_large: float = inf) -> Formula:
    """A function of the module math, with numpy's results where Python raises."""

    def formula(x: float) -> float:
        try:
            return f(x)
        except ValueError:
            return where_undefined
        except OverflowError:
            return math.copysign(too_large, x) if f in (math.sinh,) else too_large

    return formula


def signed_step(x: float) -> float:
    return x if math.isnan(x) else float((x > 0) - (x < 0))


def rounded(x: float) -> float:
    return x if not math.isfinite(x) else math.copysign(math.floor(abs(x) + 0.5) if abs(x) < 2**52 else abs(x), x)


def logarithm(f: Formula, at: float = 0.0) -> Formula:
    return lambda x: -inf if x == at else nan if x < at else f(x)


def whole(f: Callable[[float], int]) -> Formula:
    return lambda x: math.copysign(float(f(x)), x) if math.isfinite(x) else x


FORMULAS: dict[str, Formula] = {
    "abs": abs,
    "acos": math_or(math.acos),
    "acosh": math_or(math.acosh),
    "asin": math_or(math.asin),
    "asinh": math.asinh,
    "assign": lambda x: x,
    "atan": math.atan,
    "atanh": lambda x: math.copysign(inf, x) if abs(x) == 1 else math_or(math.atanh)(x),
    "ceil": whole(math.ceil),
    "cos": math_or(math.cos),
    "cosh": math_or(math.cosh),
    "erf": math.erf,
    "exp": math_or(math.exp),
    "expm1": math_or(math.expm1),
    "floor": whole(math.floor),
    "hard_shrink": lambda x: x if not abs(x) <= 0.5 else 0.0,
    "leaky_relu": lambda x: x if x >= 0 else 0.02 * x,
    "log": logarithm(math.log),
    "log10": logarithm(math.log10),
    "log1p": logarithm(math.log1p, -1.0),
    "log2": logarithm(math.log2),
    "logsigmoid": lambda x: min(x, 0.0) - math.log1p(math.exp(-abs(x))) if x == x else x,
    "reciprocal": lambda x: math.copysign(inf, x) if x == 0 or abs(x) == LEAST else 1 / x,
    "relu": lambda x: x if not x <= 0 else 0.0,
    "relu6": lambda x: x if x != x else min(max(x, 0.0), 6.0),
    "round": rounded,
    "rsqrt": lambda x: math.copysign(inf, x) if x == 0 else nan if x < 0 else 1 / math.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)) if not x < -700 else 0.0,
    "sign": signed_step,
    "sin": math_or(math.sin),
    "sinh": math_or(math.sinh),
    "softplus": lambda x: x if not x <= 20 else math.log1p(math.exp(x)),
    "softshrink": lambda x: x if x != x else math.copysign(max(abs(x) - 0.5, 0.0), x),
    "sqrt": math_or(math.sqrt),
    "square": lambda x: x * x,
    "tan": math_or(math.tan),
    "tanh": math.tanh,
    "tanh_shrink": lambda x: x - math.tanh(x),
    "thresholded_relu": lambda x: x if not x <= 1 else 0.0,
    "trunc": lambda x: x if not math.isfinite(x) else math.copysign(float(math.trunc(x)), x),
}
# The gradient at kinks, where both sides differ: as Paddle has it.
KINKS: dict[str, tuple[dict[str, float], dict[float, float]]] = {
    "abs": ({}, {0.0: 0.0}),
    "relu": ({}, {0.0: 0.0}),
    "relu6": ({}, {0.0: 0.0, 6.0: 0.0}),
    "brelu": ({"t_min": -1.0, "t_max": 2.0}, {-1.0: 0.0, 2.0: 0.0}),
    "clip": ({"min": -1.0, "max": 2.0}, {-1.0: 0.0, 2.0: 0.0}),
    "leaky_relu": ({"alpha": 0.1}, {0.0: 1.0}),
    "elu": ({"alpha": 0.5}, {0.0: 0.5}),
    "celu": ({"alpha": 0.5}, {0.0: 1.0}),
    "selu": ({}, {0.0: 1.0507009873554805 * 1.6732632423543772}),
    "hard_shrink": ({}, {0.5: 0.0, -0.5: 0.0}),
    "softshrink": ({}, {0.5: 0.0, -0.5: 0.0}),
    "thresholded_relu": ({}, {1.0: 0.0}),
    "hard_sigmoid": ({"slope": 0.5, "offset": 0.5}, {-1.0: 0.0, 1.0: 0.0}),
    "softplus": ({"threshold": 1.0}, {1.0: 1 / (1 + math.exp(-1.0))}),
    "sign": ({}, {0.0: 0.0}),
    "floor": ({}, {1.0: 0.0}),
    "round": ({}, {0.5: 0.0}),
}
# Where these numbers leave no kink, the slope is one on both sides.
WITHOUT_KINK: dict[str, tuple[dict[str, float], dict[float, float]]] = {
    "hard_shrink": ({"threshold": 0.0}, {0.0: 1.0, 2.0: 1.0}),
    "softshrink": ({"lambda": 0.0}, {0.0: 1.0, -2.0: 1.0}),
}


def computed(op: str, x: Array, **attrs: Any) -> Array:
    return np.asarray(next(iter(run(lookup(op), {"X": [x]}, attrs).values()))[0])


@pytest.mark.parametrize("op", FORMULAS)
def test_the_kernel_is_the_formula_at_special_values(op: str) -> None:
    got = computed(op, np.array(VALUES))
    for x, y in zip(VALUES, got.tolist(), strict=True):
        expected = FORMULAS[op](x)
        assert y == pytest.approx(expected, rel=1e-14, abs=1e-320, nan_ok=True), f"{op}({x}) is {y} instead of {expected}"
        if expected == 0 and op not in ("hard_shrink", "log", "cos", "acos", "logsigmoid", "relu", "relu6", "softshrink", "abs", "sign"):
            assert math.copysign(1, y) == math.copysign(1, expected), f"{op}({x}) is {y} instead of {expected}"


def test_every_operator_of_one_input_and_no_choice_has_a_formula() -> None:
    """Those with attributes of their own have theirs in ``KINKS``, or are compositions tested against torch."""
    plain = [op for op in SAMPLES if lookup(op).kernel.__module__ == elementwise.__name__ and not lookup(op).attrs and _takes_one(op)]
    assert not set(plain) - set(FORMULAS) - {"logical_not", "isnan_v2", "isinf_v2", "isfinite_v2"}


def _takes_one(op: str) -> bool:
    return list(lookup(op).inputs) == ["X"] and not lookup(op).inputs["X"].variadic


@pytest.mark.parametrize("op", WITHOUT_KINK)
def test_the_gradient_where_attributes_leave_no_kink(op: str) -> None:
    _compare(op, *WITHOUT_KINK[op])


@pytest.mark.parametrize("op", KINKS)
def test_the_gradient_at_a_kink(op: str) -> None:
    _compare(op, *KINKS[op])


def _compare(op: str, attrs: dict[str, float], expected: dict[float, float]) -> None:
    """The grad operator, and what it expands to when it is differentiated again, keep one convention."""
    x = np.array(list(expected))
    forward = run(lookup(op), {"X": [x]}, attrs)
    grad = lookup(op).grad
    assert grad is not None
    fast = grad.run({"X": [x], **forward, f"Out{GRAD}": [np.ones_like(x)]}, attrs, [f"X{GRAD}"])[f"X{GRAD}"][0]
    np.testing.assert_allclose(fast, list(expected.values()), rtol=1e-15)
    np.testing.assert_allclose(expanded(op, x, attrs), fast, rtol=1e-15)


def expanded(op: str, x: Array, attrs: dict[str, float]) -> Array:
    """The gradient, written out as operators."""
    program = ga.Program()
    block = program.global_block()
    block.create_var("x", x.shape, "float64")
    block.append_op(op, {"X": "x"}, {"Out": "y"}, attrs)
    (gradient,) = ga.gradients(ga.ops.reduce_sum(block.var("y"), reduce_all=True), [block.var("x")])
    second = ga.gradients(ga.ops.reduce_sum(gradient, reduce_all=True), [block.var("x")])
    fetch = [gradient, *(g for g in second if g is not None)]
    return ga.Executor().run(program, feed={"x": x}, fetch_list=fetch, scope=ga.Scope())[0]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_powers_and_quotients_of_integers(dtype: str) -> None:
    x, y = np.array([7, -7, 7, -7, 5, 0], dtype), np.array([2, 2, -2, -2, 0, 3], dtype)
    np.testing.assert_array_equal(run(lookup("elementwise_div"), {"X": [x], "Y": [y]}, {})["Out"][0], [3, -3, -3, 3, 0, 0])
    base, exponent = np.array([2, 2, -1, 1, 0, 3], dtype), np.array([5, -1, -3, -2, 0, -2], dtype)
    np.testing.assert_array_equal(run(lookup("elementwise_pow"), {"X": [base], "Y": [exponent]}, {})["Out"][0], [32, 0, -1, 1, 1, 0])
    np.testing.assert_array_equal(computed("pow", np.array([4, 9, 10], dtype), factor=0.5), [2, 3, 3])
    np.testing.assert_array_equal(computed("pow", np.array([4, 1, -1], dtype), factor=-1.0), [0, 1, -1])


def test_large_integers_are_divided_exactly() -> None:
    x = np.array([2**62 + 1, -(2**62) - 1])
    np.testing.assert_array_equal(run(lookup("elementwise_div"), {"X": [x], "Y": [np.array([1, 1])]}, {})["Out"][0], x)


@pytest.mark.parametrize("factor", [2.0, 0.5, -1.0, 1.5, 4.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_single_numbers_are_those_of_arrays(dtype: str, factor: float) -> None:
    x = np.random.default_rng(0).uniform(0.1, 3.0, 2000).astype(dtype)
    single = [lookup("pow").kernel(number, factor=factor) for number in x]
    np.testing.assert_array_equal(np.array(single), lookup("pow").kernel(x, factor=factor))
