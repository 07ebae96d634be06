"""Fluid's way of writing: layers that overwrite a Variable, counters that loops count in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from tests.control import built, layers, ops, ran
from tests.execution.test_executor import run

X = np.array([1.5, -2.0, 0.5], "float32")
Y = np.array([0.5, -2.0, 3.0], "float32")
BIG = 2**53 + 1

# -- what is overwritten -------------------------------------------------------------------------


def test_out_is_overwritten_and_returned() -> None:
    def build(x: Any) -> Any:
        y, before = layers.assign(x), layers.assign(x * 2.0)
        assert layers.assign(before, y) is y
        p = layers.less_than(x, y)
        first = layers.assign(p)
        assert layers.logical_not(p, p) is p
        total = layers.fill_constant([3], "float32", 9.0)
        middle = total * 1.0
        assert layers.fill_constant([3], "float32", 1.0, out=total) is total
        assert layers.sums([total, x], out=total) is total
        return [x, y, first, p, middle, total]

    program, _ = built(build, x=X)
    assert "sum(X=[fill_constant_0.tmp_0, x]) -> (Out=fill_constant_0.tmp_0)" in ops(program.block(0))
    for got, expected in zip(ran(build, x=X), [X, X * 2, X < X * 2, X >= X * 2, np.full(3, 9), X + 1], strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("value", "expected"), [(7, [7.0]), (0.5, [0.5]), (np.float64(2.5), [2.5]), (np.array([4], "float32"), [4.0])], ids=str
)
def test_a_number_takes_the_type_of_what_it_overwrites(value: Any, expected: list[float]) -> None:
    def build() -> Any:
        return layers.assign(value, layers.fill_constant([1], "float32", 0))

    np.testing.assert_array_equal(ran(build), np.array(expected, "float32"), strict=True)


def test_an_array_of_tensors_is_assigned() -> None:
    def build(x: Any) -> Any:
        array = layers.array_write(x, 0)
        kept = layers.assign(array)
        layers.array_write(x, 1, array)
        return [layers.array_length(array), layers.array_length(kept)]

    assert [n.tolist() for n in ran(build, x=X)] == [[2], [1]]


def test_increment_is_in_place_unless_told_otherwise() -> None:
    def build(x: Any) -> Any:
        y, k = layers.assign(x), layers.fill_constant([1], "int64", BIG)
        z = layers.increment(y, in_place=False)
        assert layers.increment(y, 2.5) is y
        assert layers.increment(x=k, value=2) is k
        return [y, z, k]

    program, (_, z, _) = built(build, x=X)
    assert z.name == "increment_0.tmp_0"
    assert ops(program.block(0))[-1] == "increment(X=fill_constant_0.tmp_0) -> (Out=fill_constant_0.tmp_0)"
    for got, expected in zip(ran(build, x=X), [X + 2.5, X + 1, [BIG + 2]], strict=True):
        np.testing.assert_array_equal(got, expected)


def test_sums_takes_one_or_several() -> None:
    got = ran(lambda x, y: [layers.sums(x), layers.sums([x, y, x]), layers.sums((x,))], x=X, y=Y)
    for one, expected in zip(got, [X, X + Y + X, X], strict=True):
        np.testing.assert_array_equal(one, expected)


# -- comparisons and logic -----------------------------------------------------------------------

COMPARED = {
    "less_than": np.less,
    "less_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


@pytest.mark.parametrize("name", COMPARED)
def test_comparisons_and_logic(name: str) -> None:
    layer, numpy, logical = getattr(layers, name), COMPARED[name], name.startswith("logical")
    x, y = (X > 0, Y > 0) if logical else (X, Y)
    slot, one = ("out", True) if logical else ("cond", 0.5)

    def build(x: Any, y: Any) -> Any:
        target = layers.fill_constant([3], "bool", False)
        assert layer(x, y, target) is target
        return [layer(x, y), target, layer(x, one), layer(one, y), layer(y, x, **{slot: layers.zeros([3], "bool")})]

    _, made = built(build, x=x, y=y)
    assert all((var.dtype, var.stop_gradient) == ("bool", True) for var in made)
    assert made[0].name == f"{name}_1.tmp_0"
    for got, expected in zip(ran(build, x=x, y=y), [numpy(x, y), numpy(x, y), numpy(x, one), numpy(one, y), numpy(y, x)], strict=True):
        np.testing.assert_array_equal(got, expected)


def test_an_operand_may_be_an_array_and_axis_is_the_operator_s() -> None:
    got = ran(lambda x: [layers.equal(x, Y), layers.less_than(layers.stack([x, x], axis=1), x, axis=0)], x=X)
    np.testing.assert_array_equal(got[0], X == Y)
    np.testing.assert_array_equal(got[1], np.zeros((3, 2), bool))


# -- loops ---------------------------------------------------------------------------------------


def test_a_fluid_program_counts_and_collects_in_place() -> None:
    def build(x: Any) -> Any:
        i, n = layers.zeros([1], "int64"), layers.fill_constant([1], "int64", 4)
        total, array = layers.fill_constant([3], "float32", 0.0), layers.array_write(x, 0)
        go = layers.less_than(i, n)
        with layers.While(go).block():
            part = layers.array_read(array, i)
            layers.sums([total, part], out=total)
            layers.increment(i)
            layers.array_write(part * x, i, array)
            layers.less_than(i, n, cond=go)
        return [i, total]

    i, total = ran(build, x=X)
    assert i.tolist() == [4]
    np.testing.assert_allclose(total, X + X**2 + X**3 + X**4, rtol=1e-6)


def test_what_a_loop_overwrites_a_constant_with_is_differentiated() -> None:
    """A loop's state that starts as a constant is no reason to lose the gradient of what flows into it."""
    program = ga.Program()
    with ga.program_guard(program):
        x = layers.data("x", [3], append_batch_size=False, stop_gradient=False)
        i, state = layers.zeros([1], "int64"), layers.fill_constant([3], "float32", 1.0)
        go = layers.less_than(i, 3)
        with layers.While(go).block():
            layers.assign(state * x, state)
            layers.less_than(layers.increment(i), 3, cond=go)
        (gradient,) = ga.gradients(layers.reduce_sum(state), x)
    np.testing.assert_allclose(run(program, {"x": X}, [gradient])[0], 3 * X**2, rtol=1e-6)


def test_a_body_may_return_the_counter_that_it_counted_in_place() -> None:
    def build(x: Any) -> Any:
        start = layers.zeros([1], "int64")

        def body(i: Any, h: Any) -> Any:
            h = h * x
            i = layers.increment(i)
            return [i, h]

        return [start, *layers.while_loop(lambda i, h: layers.less_than(i, 3), body, [start, x])]

    program, (_, i, h) = built(build, x=X)
    assert ops(program.block(1)) == [
        f"elementwise_mul(X={h.name}, Y=x) -> (Out=elementwise_mul_0.tmp_0)",
        f"increment(X={i.name}) -> (Out={i.name})",
        "fill_constant() -> (Out=less_than.number_1)",
        f"less_than(X={i.name}, Y=less_than.number_1) -> (Out=less_than_1.tmp_0)",
        f"assign(X=elementwise_mul_0.tmp_0) -> (Out={h.name})",
        "assign(X=less_than_1.tmp_0) -> (Out=less_than_0.tmp_0)",
    ]
    assert {i.name, h.name} <= {*program.block(0).ops[-1].output("Out")}
    got = ran(build, x=X)
    assert [count.tolist() for count in got[:2]] == [[0], [3]]
    np.testing.assert_allclose(got[2], X**4, rtol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_loop_variables_counted_in_place_may_change_places(n: int) -> None:
    """The values returned are those that the names hold where the body ends."""

    def build(x: Any, n: Any) -> Any:
        def body(i: Any, a: Any, b: Any) -> Any:
            layers.increment(a)
            layers.increment(b, 10.0)
            layers.increment(a)
            return [layers.increment(i), b, a]

        return layers.while_loop(lambda i, *_: i < n, body, [layers.zeros([1], "int64"), x, x * 2.0])

    a, b = X, X * 2
    for _ in range(n):
        a, b = b + 10, a + 2
    for got, expected in zip(ran(build, x=X, n=[n]), [[n], a, b], strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_variable_overwritten_in_place_may_still_be_returned_as_something_else() -> None:
    def build(x: Any) -> Any:
        def body(i: Any, a: Any) -> Any:
            doubled = a * 2.0
            layers.assign(a * 100.0, a)
            layers.increment(i)
            return [i, doubled]

        return layers.while_loop(lambda i, a: i < 3, body, [0, x])

    i, a = ran(build, x=X)
    assert i == 3
    np.testing.assert_array_equal(a, X * 8)


def recurrence(x: ga.Variable, in_place: bool) -> Any:
    """A loop that counts an integer and a float, which the state depends on."""

    def body(i: Any, t: Any, h: Any) -> Any:
        new = layers.tanh(h * t) + h * x
        i, t = layers.increment(i, in_place=in_place), layers.increment(t, 0.25, in_place=in_place)
        return [i, t, new * t]

    start = [layers.zeros([1], "int64"), layers.reduce_sum(x, dim=[0], keep_dim=True), x]
    return layers.while_loop(lambda i, *_: layers.less_than(i, 3), body, start)


def derivatives(in_place: bool) -> tuple[ga.Program, list[Any]]:
    """The loss of the recurrence, its gradient, and the gradient of the square of that."""
    program = ga.Program()
    with ga.program_guard(program):
        x = layers.data("x", [3], "float64", append_batch_size=False, stop_gradient=False)
        _, t, h = recurrence(x, in_place)
        loss = layers.reduce_sum(h * h * t)
        (first,) = ga.gradients(loss, x)
        (second,) = ga.gradients(layers.reduce_sum(layers.square(first)), x)
    return program, [loss, first, second]


def test_gradients_of_a_loop_in_place_are_those_of_a_loop_that_makes_new_values() -> None:
    (ours, fetch), (other, likewise) = derivatives(True), derivatives(False)
    feed = {"x": X.astype("float64")}
    for got, expected in zip(run(ours, feed, fetch), run(other, feed, likewise), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_gradients_of_a_loop_in_place_are_what_differences_say() -> None:
    program, (loss, first, second) = derivatives(True)
    x = np.array([0.3, -0.5, 0.7])
    _, gradient, curvature = run(program, {"x": x}, [loss, first, second])
    for k, step in enumerate(np.eye(3) * 1e-5):
        (up, up_g), (down, down_g) = (run(program, {"x": x + s}, [loss, first]) for s in (step, -step))
        np.testing.assert_allclose((up - down) / 2e-5, gradient[k], rtol=1e-6)
        np.testing.assert_allclose((np.sum(up_g**2) - np.sum(down_g**2)) / 2e-5, curvature[k], rtol=1e-6)
