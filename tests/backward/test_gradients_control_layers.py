"""Gradients of loops and branches over functions: what ``while_loop``, ``cond``, ``case`` and ``switch_case`` return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from tests.differences import Model, check, layers

X, W, Y = [0.4, -0.7, 1.1], [0.9, 0.6, -0.8], [0.3, 0.5, 0.2]
ITERATIONS = pytest.mark.parametrize("n", [0, 1, 3])
TAKEN = pytest.mark.parametrize("c", [True, False])
ZERO = np.zeros(1, "int64")


def loop(n: Any, body: Any, *start: Any, shapes: Any = None) -> Any:
    """The final values after n iterations of ``body(i, *values)`` from ``start``."""
    invariants = None if shapes is None else [[1], *shapes]
    _, *result = layers.while_loop(
        lambda i, *_: i < n, lambda i, *values: [i + 1, *_listed(body(i, *values))], [ZERO, *start], shape_invariants=invariants
    )
    return result[0] if len(result) == 1 else result


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]


# -- what a loop carries and captures ------------------------------------------------------------


@ITERATIONS
def test_what_a_loop_starts_from_is_used_beside_it(n: int) -> None:
    check(Model(lambda x, n, w: [loop(n, lambda i, y: y * w, x), x * w], {"w": W}, x=X, n=[n]))


def test_without_iterations_gradients_are_the_identity_and_zeros() -> None:
    model = Model(lambda x, n, w: loop(n, lambda i, y: y * w, x), {"w": W}, x=X, n=[0])
    got = model.values(model.gradients(target=model.out))
    np.testing.assert_array_equal(got["x"], np.ones(3), strict=True)
    np.testing.assert_array_equal(got["w"], np.zeros(3), strict=True)


@ITERATIONS
def test_a_body_that_overwrites_without_reading(n: int) -> None:
    check(Model(lambda x, y, n: loop(n, lambda i, last: layers.sin(x), y), x=X, y=Y, n=[n]))


@ITERATIONS
def test_a_body_reads_what_its_variable_starts_from(n: int) -> None:
    check(Model(lambda x, n: loop(n, lambda i, y: y * x + layers.tanh(x), x), x=X, n=[n]))


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_a_swap(n: int) -> None:
    check(Model(lambda x, y, w, n: loop(n, lambda i, a, b: [b * w, a], x, y), x=X, y=Y, w=W, n=[n]))


def test_a_rotation_of_three() -> None:
    model = Model(lambda x, y, w, n: loop(n, lambda i, a, b, c: [b, c, a], x, y, w), x=X, y=Y, w=W, n=[4])
    found = model.values(model.gradients(target=model.out[0]))
    assert [found[name].tolist() for name in "xyw"] == [[0] * 3, [1] * 3, [0] * 3]
    check(model)


@ITERATIONS
def test_two_variables_start_from_one_value(n: int) -> None:
    check(Model(lambda x, w, n: loop(n, lambda i, a, b: [a * w, layers.tanh(a) + b], x, x), x=X, w=W, n=[n]))


@ITERATIONS
def test_a_parameter_is_what_a_loop_starts_from(n: int) -> None:
    model = check(Model(lambda x, n, w: [loop(n, lambda i, y: y * w + x, w), w * x], {"w": W}, x=X, n=[n]))
    scope = ga.Scope()
    scope.set("w", W)
    ga.Executor().run(model.program, model.feed, ["w@GRAD"], scope)
    np.testing.assert_array_equal(scope.get("w"), W)


@ITERATIONS
def test_parameters_inside_and_outside(n: int) -> None:
    def build(x: Any, n: Any, w: Any) -> Any:
        return layers.matmul(loop(n, lambda i, h: layers.tanh(layers.matmul(h, w)), layers.matmul(x, w)), w)

    check(Model(build, {"w": np.outer(W, Y)}, x=[X, W], n=[n]))


@pytest.mark.parametrize("n", [0, 4])
def test_a_counter_that_is_a_floating_point_number(n: int) -> None:
    def build(x: Any, t: Any, dt: Any, n: Any) -> Any:
        return loop(n, lambda i, t, y: [t + dt, y + layers.sin(t * y) * dt], t, x)

    check(Model(build, x=X, t=[0.2], dt=[0.25], n=[n]))


def test_as_many_iterations_as_the_data_say() -> None:
    def build(x: Any, w: Any) -> Any:
        return layers.while_loop(lambda y: layers.reduce_sum(y * y) < 20.0, lambda y: y * w, [x])

    check(Model(build, x=X, w=[1.5, 1.4, 1.6]))


@ITERATIONS
def test_a_body_that_returns_one_value_twice_and_another_as_it_is(n: int) -> None:
    def body(i: Any, a: Any, b: Any, w: Any) -> Any:
        both = layers.sin(a) * w + b
        return both, both, w

    check(Model(lambda x, y, w, n: loop(n, body, x, y, w), x=X, y=Y, w=W, n=[n]))


def test_variables_in_structures() -> None:
    def build(x: Any, w: Any) -> Any:
        def body(values: Any) -> Any:
            first, second = values["pair"]
            return [{"i": values["i"] + 1, "pair": (second, first * w)}]

        (found,) = layers.while_loop(lambda values: values["i"] < 3, body, [{"i": ZERO, "pair": (x, w)}])
        return list(found["pair"])

    check(Model(build, {"w": W}, x=X))


def test_results_are_read_by_several_operators() -> None:
    def build(x: Any, w: Any, n: Any) -> Any:
        a, b = loop(n, lambda i, a, b: [a * w, a + b], x, w)
        return [a * b, layers.tanh(a), b + x, a]

    check(Model(build, x=X, w=W, n=[2]))


@ITERATIONS
def test_an_inner_loop_reads_what_the_outer_one_carries(n: int) -> None:
    def outer(i: Any, y: Any, w: Any) -> Any:
        z = loop(i, lambda j, z: z * w + layers.sin(y), y)
        return [z * y, layers.tanh(w)]

    check(Model(lambda x, w, n: loop(n, outer, x, w), x=X, w=W, n=[n]))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_shape_that_grows(n: int) -> None:
    def build(x: Any, w: Any, n: Any) -> Any:
        rows, last = loop(n, lambda i, rows, y: [layers.concat([rows, y * w], axis=0), layers.tanh(y)], x, x, shapes=[[-1, 3], [1, 3]])
        return [rows, layers.reduce_sum(rows * rows, reduce_all=True), last]

    check(Model(build, x=[X], w=[W], n=[n]))


def test_a_batch_of_unknown_size() -> None:
    def build(x: Any, w: Any, n: Any) -> Any:
        batch = layers.data("batch", [-1, 3], "float64", stop_gradient=False)
        return loop(n, lambda i, h: layers.tanh(layers.matmul(h, w)), batch + x)

    model = Model(build, {"w": np.outer(W, Y)}, x=X, n=[2])
    for batch in (np.ones((2, 3)), np.ones((1, 3))):
        model.feed["batch"] = batch
        check(model)


def test_gradients_have_the_dtype_of_what_they_are_of() -> None:
    with ga.program_guard(program := ga.Program()):
        x, w = layers.data("x", [3], "float32", False, False), layers.data("w", [3], "float64", False, False)
        wide = loop(2, lambda i, y: y * w, layers.cast(x, out_dtype="float64"))
        narrow = loop(2, lambda i, y: y * layers.cast(wide, out_dtype="float32"), x)
    dx, dw = ga.gradients(narrow, [x, w])
    x_, w_ = np.array(X, "float32"), np.array(W, "float64")
    got = ga.Executor().run(program, {"x": x_, "w": w_}, [dx, dw], ga.Scope())
    assert [g.dtype.name for g in got] == ["float32", "float64"]
    np.testing.assert_allclose(got[0], 3 * (x_ * w_**2) ** 2, rtol=1e-5)
    np.testing.assert_allclose(got[1], 4 * x_**3 * w_**3, rtol=1e-5)


def test_random_numbers_are_those_of_each_iteration() -> None:
    def body(i: Any, h: Any) -> Any:
        return layers.tanh(layers.dropout(h, 0.5) + h)

    check(Model(lambda x, n: loop(n, body, x), x=np.linspace(0.1, 1, 8), n=[4]))


def test_statistics_kept_by_a_layer_in_a_loop() -> None:
    check(Model(lambda x, n: loop(n, lambda i, h: layers.tanh(layers.batch_norm(h)), x), x=[X, W, Y, [0.1, 0.9, -0.4]], n=[2]))


# -- branches ------------------------------------------------------------------------------------


@TAKEN
def test_cond_returns_what_is_there_or_what_it_computes(c: bool) -> None:
    check(Model(lambda c, x, w: layers.cond(c, lambda: (w, w * x), lambda: (layers.tanh(x), w)), {"w": W}, c=[c], x=X))


@TAKEN
def test_cond_returns_structures(c: bool) -> None:
    def build(c: Any, x: Any, w: Any) -> Any:
        true, false = (lambda: {"a": [x * w, x], "b": (w,)}), (lambda: {"a": [x, x + w], "b": (layers.sin(x),)})
        found = layers.cond(c, true, false)
        return [found["a"][0] * found["b"][0], found["a"][1]]

    check(Model(build, c=[c], x=X, w=W))


@TAKEN
def test_what_only_the_branch_not_taken_reads_has_zeros(c: bool) -> None:
    model = check(Model(lambda c, a, b: layers.cond(c, lambda: layers.tanh(a), lambda: b * b), c=[c], a=X, b=W))
    got = model.values(model.gradients(["b" if c else "a"]))
    np.testing.assert_array_equal([*got.values()], np.zeros((1, 3)), strict=True)


@pytest.mark.parametrize("p", [True, False])
@pytest.mark.parametrize("q", [True, False])
def test_branches_in_branches(p: bool, q: bool) -> None:
    def build(p: Any, q: Any, x: Any, w: Any) -> Any:
        h = layers.tanh(x)
        return layers.cond(p, lambda: layers.cond(q, lambda: h * w, lambda: h + x) * w, lambda: layers.cond(q, lambda: w, lambda: h))

    check(Model(build, {"w": W}, p=[p], q=[q], x=X))


@pytest.mark.parametrize("k", [0, 1, 2, 9])
def test_one_of_several_branches(k: int) -> None:
    def build(k: Any, x: Any, a: Any, b: Any) -> Any:
        chosen = layers.switch_case(k, {0: lambda: x * a, 1: lambda: layers.tanh(x) * b}, default=lambda: a + b)
        return layers.case([(k < 1, lambda: chosen * a), (k < 2, lambda: chosen * x)], default=lambda: layers.sin(chosen))

    check(Model(build, {"a": W, "b": Y}, k=[k], x=X))


def test_a_branch_that_says_nothing_of_a_number() -> None:
    model = check(Model(lambda c, x: layers.cond(c, lambda: np.ones(3), lambda: x), c=[True], x=X))
    np.testing.assert_array_equal(model.values(model.gradients())["x"], np.zeros(3), strict=True)


# -- one in the other ----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 4])
def test_a_branch_in_a_loop_reads_what_the_loop_carries(n: int) -> None:
    def body(i: Any, y: Any, w: Any) -> Any:
        return layers.cond(layers.reduce_sum(y) > 0.2, lambda: y * w, lambda: layers.sin(y) + w), layers.tanh(w)

    check(Model(lambda x, w, n: loop(n, body, x, w), {"w": W}, x=X, n=[n]))


@TAKEN
@pytest.mark.parametrize("n", [0, 3])
def test_a_loop_in_a_branch_in_a_loop_in_a_branch(n: int, c: bool) -> None:
    def body(i: Any, y: Any, w: Any) -> Any:
        return layers.cond(i < 2, lambda: loop(i, lambda j, z: z * y, w), lambda: y * w)

    def build(c: Any, x: Any, n: Any, w: Any) -> Any:
        return layers.cond(c, lambda: loop(n, lambda i, y: body(i, y, w), x), lambda: x * w)

    check(Model(build, {"w": W}, c=[c], x=X, n=[n]))
