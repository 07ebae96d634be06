"""Branches over functions: what ``cond``, ``case`` and ``switch_case`` compute, and what they build."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from tests.control import built, layers, ops, ran, write

X = np.array([1.5, -2.0, 0.5], "float32")
Y = np.array([3.0, 0.25, -1.0], "float32")


# -- cond ----------------------------------------------------------------------------------------


def test_cond_is_an_if_else_of_two_blocks() -> None:
    program, result = built(lambda p, x, y: layers.cond(p, lambda: x * y, lambda: y), p=[True], x=X, y=Y)
    assert ops(program.block(0)) == ["if_else(Cond=p, X=[x, y]) -> (Out=cond_0.tmp_0, Scope=_generated_var_0)"]
    assert ops(program.block(1)) == [
        "elementwise_mul(X=x, Y=y) -> (Out=elementwise_mul_0.tmp_0)",
        "assign(X=elementwise_mul_0.tmp_0) -> (Out=cond_0.tmp_0)",
    ]
    assert ops(program.block(2)) == ["assign(X=y) -> (Out=cond_0.tmp_0)"]
    assert program.block(0).ops[0].attrs == {"true_block": program.block(1), "false_block": program.block(2)}
    assert (result.name, result.shape, result.stop_gradient) == ("cond_0.tmp_0", (3,), False)


@pytest.mark.parametrize("p", [True, False])
def test_cond_computes_one_side(p: bool) -> None:
    got = ran(lambda p, x, y: layers.cond(p, lambda: x * y, lambda: x), p=np.array([p]), x=X, y=Y)
    np.testing.assert_array_equal(got, X * Y if p else X)


@pytest.mark.parametrize("p", [True, False])
def test_results_may_be_nested(p: bool) -> None:
    def build(p: Any, x: Any) -> Any:
        return layers.cond(p, lambda: (x, {"a": [x * 2.0], "n": None}), lambda: [x + 1.0, {"n": None, "a": (x,)}])

    got = ran(build, p=p, x=X)
    assert (type(got), type(got[1]["a"]), got[1]["n"]) == (tuple, list, None)
    np.testing.assert_array_equal(got[0], X if p else X + 1)
    np.testing.assert_array_equal(got[1]["a"][0], X * 2 if p else X)


@pytest.mark.parametrize(
    ("true", "false", "dtype", "shape"),
    [
        (1, 2, "int64", ()),
        (1, 2.5, "float32", ()),
        (2.5, 1, "float32", ()),
        (True, False, "bool", ()),
        (np.zeros(3, "float64"), np.ones(3), "float64", (3,)),
        (np.ones(1, "int32"), 4, "int32", (1,)),
        (np.float64(1.5), 2, "float32", ()),
        (np.bool_(True), False, "bool", ()),
        (np.array([True, False]), np.array([False, False]), "bool", (2,)),
        (np.array([0.5, 1.5], "float16"), np.array([2, 4], "float16"), "float16", (2,)),
        (np.array([3, -4], "int8"), np.zeros(2, "int8"), "int8", (2,)),
        (np.zeros((0, 2), "float32"), np.zeros((0, 2), "float32"), "float32", (0, 2)),
        (float("inf"), float("nan"), "float32", ()),
        (np.array([np.nan, np.inf]), np.array([np.nan, np.nan]), "float64", (2,)),
        (2**53 + 1, -(2**63), "int64", ()),
    ],
)
def test_numbers_and_arrays_become_constants(true: Any, false: Any, dtype: str, shape: tuple[int, ...]) -> None:
    for p in (True, False):
        got = ran(lambda p: layers.cond(p, lambda: true, lambda: false), p=p)
        assert (got.dtype, got.shape) == (dtype, shape)
        np.testing.assert_array_equal(got, np.asarray(true if p else false, dtype))


def test_a_number_takes_the_type_of_the_variable_on_the_other_side() -> None:
    program, results = built(
        lambda p, a, b: layers.cond(p, lambda: [a, 1, 2.0], lambda: [0, b, b]), p=True, a=np.ones((1, 1)), b=np.ones(1, "float16")
    )
    assert [repr(r).split(": ")[1] for r in results] == ["float64[1, 1]", "float16[1]", "float16[1]"]
    assert "fill_constant() -> (Out=cond_0.tmp_0)" in ops(program.block(2))


def test_without_results_the_blocks_are_for_what_they_write() -> None:
    def build(p: Any, x: Any, y: Any) -> Any:
        total = x * 1.0
        assert layers.cond(p, lambda: write("assign", total, X=y)) is None
        return total

    program, _ = built(build, p=True, x=X, y=Y)
    assert ops(program.block(0))[-1] == "if_else(Cond=p, X=[y, scale_0.tmp_0]) -> (Out=scale_0.tmp_0, Scope=_generated_var_0)"
    np.testing.assert_array_equal(ran(build, p=True, x=X, y=Y), Y)
    np.testing.assert_array_equal(ran(build, p=False, x=X, y=Y), X)


def test_without_functions_nothing_happens() -> None:
    program, result = built(lambda p: layers.cond(p), p=True)
    assert result is None
    assert ops(program.block(0)) == ["if_else(Cond=p) -> (Scope=_generated_var_0)"]


def test_pruning_keeps_what_a_branch_may_leave_alone() -> None:
    def build(p: Any, x: Any, y: Any) -> Any:
        total = x * 1.0
        layers.cond(p, lambda: write("assign", total, X=y))
        layers.cond(layers.logical_not(p), None, lambda: write("scale", total, {"scale": 2.0}, X=total))
        return total

    program, total = built(build, p=True, x=X, y=Y)
    assert len(program.prune(total).global_block().ops) == len(program.global_block().ops)


def test_an_extent_that_one_side_does_not_know_is_unknown() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x, y, p = layers.data("x", [-1, 3]), layers.data("y", [4, 3], append_batch_size=False), layers.data("p", [], "bool")
        result = layers.cond(p, lambda: x, lambda: y)
        other = layers.cond(p, lambda: y, lambda: x)
    assert (result.shape, other.shape) == ((-1, 3), (-1, 3))
    assert str(ga.Program.parse(str(program))) == str(program)


def test_branches_nest() -> None:
    def build(p: Any, q: Any, x: Any) -> Any:
        return layers.cond(p, lambda: layers.cond(q, lambda: x * 2.0, lambda: x), lambda: layers.cond(q, lambda: x + 1.0, lambda: -x))

    expected = {(True, True): X * 2, (True, False): X, (False, True): X + 1, (False, False): -X}
    for (p, q), value in expected.items():
        np.testing.assert_array_equal(ran(build, p=p, q=q, x=X), value)


# -- case and switch_case ------------------------------------------------------------------------


def chosen(x: float, default: bool) -> float:
    def build(x: Any) -> Any:
        pairs = [(x < 0.0, lambda: x * -1.0), (x < 1.0, lambda: x * 10.0), (x < 2.0, lambda: x * 100.0)]
        return layers.case(pairs, (lambda: x * 0.0) if default else None)

    return float(ran(build, x=np.float32(x)))


@pytest.mark.parametrize(("x", "expected"), [(-2.0, 2.0), (0.5, 5.0), (1.5, 150.0), (4.0, 0.0)])
def test_case_takes_the_first_that_holds(x: float, expected: float) -> None:
    assert chosen(x, default=True) == expected


@pytest.mark.parametrize(("x", "expected"), [(-2.0, 2.0), (0.5, 5.0), (1.5, 150.0), (4.0, 400.0)])
def test_without_default_the_last_case_is_the_default(x: float, expected: float) -> None:
    assert chosen(x, default=False) == expected


def test_one_case_without_default_is_no_branch() -> None:
    program, _ = built(lambda p, x: layers.case([(p, lambda: x * 2.0)]), p=True, x=X)
    assert [op.type for op in program.global_block().ops] == ["scale"]


def test_cases_nest_conds() -> None:
    program, _ = built(lambda p, q, x: layers.case([(p, lambda: x), (q, lambda: x * 2.0)], lambda: x * 3.0), p=True, q=True, x=X)
    assert [(b.idx, b.parent_idx, [op.type for op in b.ops]) for b in program.blocks] == [
        (0, -1, ["if_else"]),
        (1, 0, ["assign"]),
        (2, 0, ["if_else", "assign"]),
        (3, 2, ["scale", "assign"]),
        (4, 2, ["scale", "assign"]),
    ]


FUNCTIONS: list[Any] = [
    {3: lambda: 3.0, 1: lambda: 1.0},
    [(3, lambda: 3.0), (1, lambda: 1.0)],
    ((np.int64(1), lambda: 1.0), (3, lambda: 3.0)),
    [lambda: 0.0, lambda: 1.0, lambda: 2.0, lambda: 3.0],
]


@pytest.mark.parametrize("functions", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_switch_case_takes_the_function_with_the_index(functions: Any, dtype: str) -> None:
    def build(k: Any, default: Any = None) -> Any:
        return layers.switch_case(k, functions, default)

    for k in (1, 3):
        assert ran(build, k=np.array([k], dtype)) == k
        assert ran(lambda k: build(k, lambda: -1.0), k=np.array(k, dtype)) == k
    assert ran(build, k=np.array([9], dtype)) == 3.0
    assert ran(lambda k: build(k, lambda: -1.0), k=np.array([9], dtype)) == -1.0


def test_switch_case_tests_every_index_but_the_default_ones() -> None:
    program, _ = built(lambda k, x: layers.switch_case(k, {0: lambda: x, 1: lambda: x * 2.0, 2: lambda: x * 3.0}), k=[1], x=X)
    types = [op.type for op in program.global_block().ops]
    assert types == ["fill_constant", "equal", "fill_constant", "equal", "if_else"]
    assert [op.attrs["value"] for op in program.global_block().ops if op.type == "fill_constant"] == [0.0, 1.0]
