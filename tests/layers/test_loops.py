"""Loops and branches over functions: what they compute, and what they build."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import graphad as ga
from tests.control import built, layers, ops, ran, write
from tests.execution.test_executor import run

X = np.array([1.5, -2.0, 0.5], "float32")
W = np.array([0.5, 2.0, -1.0], "float32")


def same(got: Any, *expected: Any) -> None:
    got = got if isinstance(got, list | tuple) else [got]
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


# -- what a loop builds --------------------------------------------------------------------------


def test_a_loop_is_a_copy_of_each_variable_a_condition_and_a_while() -> None:
    program, _ = built(
        lambda x, w, n: layers.while_loop(lambda i, y: i < n, lambda i, y: [i + 1, y * w], [np.zeros(1, int), x]), x=X, w=W, n=[3]
    )
    assert ops(program.block(0)) == [
        "fill_constant() -> (Out=while_loop_0.tmp_0)",
        "assign(X=x) -> (Out=while_loop_0.tmp_1)",
        "less_than(X=while_loop_0.tmp_0, Y=n) -> (Out=less_than_0.tmp_0)",
        "while(Condition=less_than_0.tmp_0, X=[while_loop_0.tmp_0, while_loop_0.tmp_1, w, n]) -> "
        "(Out=[while_loop_0.tmp_0, while_loop_0.tmp_1, less_than_0.tmp_0], StepScopes=_generated_var_0)",
    ]
    assert ops(program.block(1)) == [
        "scale(X=while_loop_0.tmp_0) -> (Out=scale_0.tmp_0)",
        "elementwise_mul(X=while_loop_0.tmp_1, Y=w) -> (Out=elementwise_mul_0.tmp_0)",
        "less_than(X=scale_0.tmp_0, Y=n) -> (Out=less_than_1.tmp_0)",
        "assign(X=scale_0.tmp_0) -> (Out=while_loop_0.tmp_0)",
        "assign(X=elementwise_mul_0.tmp_0) -> (Out=while_loop_0.tmp_1)",
        "assign(X=less_than_1.tmp_0) -> (Out=less_than_0.tmp_0)",
    ]
    assert program.block(0).ops[-1].attrs == {"sub_block": program.block(1), "is_test": False}
    assert program.block(0).var("_generated_var_0").type == "STEP_SCOPES"


def test_gradients_may_flow_through_what_is_floating_point() -> None:
    program, (i, y) = built(lambda x: layers.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y], [0, x]), x=X)
    assert (i.stop_gradient, y.stop_gradient) == (True, False)
    assert program.block(0).var("x").stop_gradient


def test_a_loop_reads_what_its_inner_blocks_read() -> None:
    def build(x: Any, w: Any, b: Any) -> Any:
        def body(i: Any, y: Any) -> Any:
            return [i + 1, layers.cond(i < 1, lambda: y * w, lambda: layers.while_loop(lambda z: z < b, lambda z: z + b, [y])[0])]

        return layers.while_loop(lambda i, y: i < 2, body, [0, x])

    feed: dict[str, Any] = {"x": np.float32(1), "w": np.float32(2), "b": np.float32(3)}
    program, _ = built(build, **feed)
    assert program.block(0).ops[-1].input("X") == ["while_loop_0.tmp_0", "while_loop_0.tmp_1", "w", "b"]
    same(ran(build, **feed), 2, 5.0)


def test_what_a_body_writes_besides_is_written_by_the_loop() -> None:
    def build(x: Any) -> Any:
        seen, never = layers.scale(x, scale=0.0), x.block.create_var("never", [3], "float32")

        def body(i: Any) -> Any:
            write("assign", seen, X=x)
            write("assign", never, X=seen)
            return i + 1

        return [*layers.while_loop(lambda i: i < 3, body, [0]), seen, never]

    program, _ = built(build, x=X)
    loop = program.block(0).ops[-1]
    assert loop.output("Out") == ["while_loop_0.tmp_0", "scale_0.tmp_0", "never", "less_than_0.tmp_0"]
    assert loop.input("X") == ["x", "scale_0.tmp_0", "while_loop_0.tmp_0"]
    same(ran(build, x=X), 3, X, X)


def test_is_test_and_name_are_handed_on() -> None:
    program, y = built(lambda x: layers.while_loop(lambda y: layers.mean(y) < 9.0, lambda y: y + 1.0, [x], True, "loop"), x=X)
    assert program.block(0).ops[-1].attrs["is_test"] is True
    assert y[0].name == "loop.tmp_0"


# -- what a loop computes ------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 17])
def test_a_loop_runs_as_often_as_its_condition_holds(n: int) -> None:
    got = ran(lambda x, w, n: layers.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * w), [0, x]), x=X, w=W, n=n)
    same(got, n, X * W**n)


def test_a_swap_swaps() -> None:
    got = ran(lambda x, w: layers.while_loop(lambda i, a, b: i < 3, lambda i, a, b: [i + 1, b, a], [0, x, w]), x=X, w=W)
    same(got, 3, W, X)


def test_values_go_around() -> None:
    """Two rings and a chain out of one of them: one variable is put aside for each ring, and nothing else is copied twice."""

    def build(x: Any) -> Any:
        start = [x * float(k) for k in range(7)]
        return layers.while_loop(lambda i, *_: i < 4, lambda i, a, b, c, d, e, f, g: [i + 1, b, c, a, e, d, d, f], [0, *start])

    values = [X * k for k in range(7)]
    for _ in range(4):
        a, b, c, d, e, f, _g = values
        values = [b, c, a, e, d, d, f]
    same(ran(build, x=X), 4, *values)
    program, _ = built(build, x=X)
    assert [op.type for op in program.block(1).ops].count("assign") == 7 + 1 + 1 + 2


@pytest.mark.parametrize("forwards", [True, False])
def test_a_chain_of_loop_variables_needs_no_copies(forwards: bool) -> None:
    def build() -> Any:
        step = (lambda i, a, b: [i + 1, b, a + b]) if forwards else (lambda i, b, a: [i + 1, a + b, b])
        return layers.while_loop(lambda i, *_: i < 10, step, [0, 0, 1] if forwards else [0, 1, 0])

    same(ran(build), 10, *((55, 89) if forwards else (89, 55)))
    assert [op.type for op in built(build)[0].block(1).ops].count("assign") == 4


def test_a_variable_that_is_returned_is_not_copied() -> None:
    program, _ = built(lambda x, w: layers.while_loop(lambda i, a, b: i < 3, lambda i, a, b: [i + 1, a, b + a], [0, x, w]), x=X, w=W)
    loop = program.block(0).ops[-1]
    assert loop.output("Out") == ["while_loop_0.tmp_0", "while_loop_0.tmp_2", "less_than_0.tmp_0"]
    assert [op.type for op in program.block(1).ops].count("assign") == 3


def test_two_variables_that_start_as_one_stay_two() -> None:
    got = ran(lambda x: [*layers.while_loop(lambda i, a, b: i < 3, lambda i, a, b: [i + 1, a + 1.0, b * 2.0], [0, x, x]), x], x=X)
    same(got, 3, X + 3, X * 8, X)


def test_the_body_reads_what_a_variable_started_from() -> None:
    got = ran(lambda x: layers.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * x], [0, x])[1], x=X)
    same(got, X**4)


def test_a_parameter_is_not_overwritten() -> None:
    def build(x: Any) -> Any:
        w = x.block.create_parameter("w", [3], "float32")
        return layers.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * x], [0, w])[1]

    scope = ga.Scope()
    scope.set("w", W)
    same(ran(build, scope, x=X), W * X**3)
    np.testing.assert_array_equal(scope.get("w"), W)


def test_a_condition_from_outside_is_not_overwritten() -> None:
    def build(go: Any, x: Any) -> Any:
        tests = iter([go, layers.mean(x) > 9.0])
        return [layers.while_loop(lambda y: next(tests), lambda y: y + 1.0, [x])[0], go]

    same(ran(build, go=True, x=X), X + 1, True)
    same(ran(build, go=False, x=X), X, False)


def test_a_loop_variable_may_be_the_condition() -> None:
    got = ran(lambda x: layers.while_loop(lambda go, y: go, lambda go, y: [layers.mean(y) < 9.0, y * 2.0], [True, x]), x=np.float32(3.0))
    same(got, False, 24.0)


def test_a_body_may_return_numbers_arrays_and_what_is_outside() -> None:
    got = ran(
        lambda x: layers.while_loop(
            lambda i, a, b, c: i < 1, lambda i, a, b, c: [1, 2, np.array([1, 2, 3], "float32"), x], [0, 0.5, x, x * 2.0]
        ),
        x=X,
    )
    same(got, 1, 2.0, [1, 2, 3], X)
    assert [v.dtype for v in got] == ["int64", "float32", "float32", "float32"]


def test_numbers_take_the_dtype_and_the_one_element_of_the_variable() -> None:
    start = [np.zeros(1, "int32"), np.zeros((1, 1), "float64"), True]
    program, got = built(lambda: layers.while_loop(lambda i, *_: i < 2, lambda i, a, b: [i + 1, 7, False], start))
    constants = [op.attrs for op in program.block(1).ops if op.type == "fill_constant"]
    assert {"shape": [1, 1], "dtype": "float64", "value": 7.0} in constants
    assert [repr(v).split(": ")[1] for v in got] == ["int32[1]", "float64[1, 1]", "bool[]"]


def test_large_integers_stay_exact() -> None:
    big = 2**53 + 1
    same(ran(lambda: layers.while_loop(lambda i: i < big + 2, lambda i: layers.increment(i), [big])), np.int64(big + 2))
    got = ran(lambda: layers.while_loop(lambda i, a: i < 1, lambda i, a: [i + 1, a], [0, np.array([big, -big])]))[1]
    assert got.tolist() == [big, -big]


class State(NamedTuple):
    """The values that a test passes from one iteration to the next."""

    step: Any
    rest: Any


def test_loop_variables_may_be_nested() -> None:
    def body(state: State, pair: Any) -> Any:
        return [State(state.step + 1, {"sum": state.rest["sum"] + pair[0], "none": None}), (pair[1], pair[0])]

    start = [State(0, {"none": None, "sum": 0.0}), (1.0, 10.0)]
    got = ran(lambda: layers.while_loop(lambda state, pair: state.step < 3, body, start))
    assert isinstance(got[0], State)
    assert isinstance(got[1], tuple)
    assert got[0].rest["none"] is None
    same([got[0].step, got[0].rest["sum"], *got[1]], 3, 12.0, 10.0, 1.0)


def test_one_variable_needs_no_list() -> None:
    for body in (lambda y: y * 2.0, lambda y: [y * 2.0], lambda y: (y * 2.0,)):
        got = ran(lambda x, body=body: layers.while_loop(lambda y: layers.mean(y) < 9.0, body, (x,)), x=np.float32(1.0))
        assert isinstance(got, tuple)
        same(got, 16.0)
    got = ran(lambda x: layers.while_loop(lambda p: p[0] < 9.0, lambda p: [p[0] * 2.0, p[0]], [[x, x]]), x=np.float32(1.0))
    same(got[0], 16.0, 8.0)


def test_an_extent_may_change_where_it_is_said() -> None:
    def grown(y: Any) -> Any:
        return layers.concat([y, y], axis=0)

    def build(x: Any, **options: Any) -> Any:
        return layers.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, grown(y)], [0, x], **options)[1]

    program, y = built(lambda x: build(x, shape_invariants=[None, [-1]]), x=X)
    assert y.shape == (-1,)
    same(ran(lambda x: build(x, shape_invariants=[[], [-1]]), x=X), np.tile(X, 8))

    program = ga.Program()
    with ga.program_guard(program):
        result = layers.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, np.ones(5, "float32")], [0, layers.data("x", [])])[1]
    assert result.shape == (-1,)
    same(run(program, {"x": X}, [result]), np.ones(5))
    assert str(ga.Program.parse(str(program))) == str(program)


def test_loops_nest() -> None:
    def outer(i: Any, y: Any, w: Any, x: Any) -> Any:
        _, z = layers.while_loop(lambda j, z: j < i, lambda j, z: [j + 1, z * w + y], [0, y])
        return [i + 1, z + x]

    got = ran(lambda x, w: layers.while_loop(lambda i, y: i < 4, lambda i, y: outer(i, y, w, x), [0, x])[1], x=X, w=W)
    y = X
    for i in range(4):
        z = y
        for _ in range(i):
            z = z * W + y
        y = z + X
    same(got, y)


def test_a_branch_in_a_loop() -> None:
    def body(i: Any, y: Any) -> Any:
        even = layers.elementwise_mod(i, i * 0 + 2) == 0
        return [i + 1, layers.cond(even, lambda: y * 2.0, lambda: layers.sin(y) + 1.0)]

    y = X
    for i in range(4):
        y = y * 2 if i % 2 == 0 else np.sin(y) + 1
    same(ran(lambda x: layers.while_loop(lambda i, y: i < 4, body, [0, x])[1], x=X), y)


def test_a_loop_in_a_branch() -> None:
    def build(p: Any, x: Any) -> Any:
        return layers.cond(p, lambda: layers.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y * x], [0, x])[1], lambda: x)

    same(ran(build, p=True, x=X), X**4)
    same(ran(build, p=False, x=X), X)


def test_a_layer_with_parameters_in_a_loop_has_them_once() -> None:
    def build(x: Any) -> Any:
        return layers.while_loop(lambda i, h: i < 3, lambda i, h: [i + 1, layers.fc(h, 3, bias_attr=False)], [0, x])[1]

    program, result = built(build, x=X[None])
    scope = ga.Scope()
    w = np.arange(9, dtype="float32").reshape(3, 3) / 9
    scope.set("fc_0.w_0", w)
    same(run(program, {"x": X[None]}, [result], scope), X[None] @ w @ w @ w)
    assert [p.name for p in program.all_parameters()] == ["fc_0.w_0"]
