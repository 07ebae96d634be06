"""Tensors made from nothing: constants, ranges and random numbers are recorded where layers write, and have their value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.ops import REGISTRY
from tests.control import built, layers, ran
from tests.execution.test_executor import run

X = np.array([1.5, -2.0, 0.5], "float32")
Y = np.array([0.5, -2.0, 3.0], "float32")
BIG = 2**53 + 1

MADE: list[tuple[Callable[[], Any], Any]] = [
    (lambda: layers.fill_constant([2, 1], "float32", 0.5), np.full((2, 1), 0.5, "float32")),
    (lambda: layers.fill_constant(value=3, dtype="int64", shape=[1]), np.array([3])),
    (lambda: layers.fill_constant((2,), np.float64, np.float32(0.25)), np.array([0.25, 0.25])),
    (lambda: layers.fill_constant([], 5, -1), np.array(-1, "float32")),
    (lambda: layers.fill_constant([1], "bool", True), np.array([True])),
    (lambda: layers.fill_constant([2], "int64", BIG), np.array([BIG, BIG])),
    (lambda: layers.fill_constant([0, 3], "float32", 1), np.zeros((0, 3), "float32")),
    (lambda: layers.fill_constant([1], "float32", float("inf")), np.array([np.inf], "float32")),
    (lambda: layers.zeros([2, 2], "int32"), np.zeros((2, 2), "int32")),
    (lambda: layers.ones(shape=[3], dtype="float64"), np.ones(3)),
    (lambda: layers.eye(2), np.eye(2, dtype="float32")),
    (lambda: layers.eye(2, 3, dtype="int64"), np.eye(2, 3, dtype="int64")),
    (lambda: layers.range(0, 10, 3, "int64"), np.arange(0, 10, 3)),
    (lambda: layers.range(1.0, -1.0, -0.5, "float64"), np.arange(1.0, -1.0, -0.5)),
    (lambda: layers.range(5, 1, 1, "int32"), np.zeros(0, "int32")),
    (lambda: layers.assign(2), np.array(2)),
    (lambda: layers.assign(0.5), np.array(0.5, "float32")),
    (lambda: layers.assign(np.array([[True, False]])), np.array([[True, False]])),
    (lambda: layers.assign_value(shape=[2], dtype="float32", fp32_values=[1.0, 2.0]), np.array([1, 2], "float32")),
]


@pytest.mark.parametrize(("build", "expected"), MADE)
def test_a_constant_is_recorded_and_has_its_value(build: Callable[[], Any], expected: Any) -> None:
    _, var = built(build)
    assert isinstance(var, ga.Variable)
    assert (var.shape, var.dtype) == (expected.shape, expected.dtype.name)
    assert var.stop_gradient == (var.dtype not in ("float32", "float64"))
    np.testing.assert_array_equal(ran(build), expected, strict=True)


@pytest.mark.parametrize(
    ("build", "low", "high", "dtype"),
    [
        (lambda: layers.uniform_random([400], "float64", 2.0, 3.0, 7), 2.0, 3.0, "float64"),
        (lambda: layers.uniform_random(shape=[400], min=0.0), 0.0, 1.0, "float32"),
        (lambda: layers.gaussian_random([400], 10.0, 0.5, dtype="float64"), 7.0, 13.0, "float64"),
        (lambda: layers.truncated_gaussian_random(shape=[400], std=0.5), -1.0, 1.0, "float32"),
        (lambda: layers.randint(shape=[400], low=3, high=60), 3, 60, "int64"),
    ],
)
def test_random_numbers_are_recorded(build: Callable[[], Any], low: float, high: float, dtype: str) -> None:
    program, var = built(build)
    assert (var.shape, var.dtype, var.stop_gradient) == ((400,), dtype, dtype == "int64")
    (got,) = run(program, {}, [var])
    assert low <= got.min() < low + 0.4 * (high - low) < high - 0.4 * (high - low) < got.max() <= high


def test_no_operator_without_inputs_computes_where_it_is_called() -> None:
    definitions = [name for name, definition in REGISTRY.items() if not definition.inputs or name == "fill_constant"]
    assert {"fill_constant", "randint", "eye", "create_array"} <= {*definitions}
    assert not [name for name in definitions if getattr(layers, name) is REGISTRY[name]]


def test_constants_go_into_the_current_block() -> None:
    def build(x: Any) -> Any:
        return layers.cond(
            layers.mean(x) > 0.0, lambda: x + layers.fill_constant([3], "float32", 2), lambda: x * layers.ones([3], "float32")
        )

    program, _ = built(build, x=X)
    assert [block.ops[0].type for block in program.blocks[1:]] == ["fill_constant", "fill_constant"]
    np.testing.assert_array_equal(ran(build, x=Y), Y + 2)
    np.testing.assert_array_equal(ran(build, x=-Y), -Y)


def test_a_range_takes_variables_too() -> None:
    got = ran(lambda n, x: layers.range(0, n, layers.reduce_max(x, keep_dim=True, dim=[0]), "int64"), n=np.array([5.0]), x=X * 2)
    np.testing.assert_array_equal(got, [0, 3], strict=True)
