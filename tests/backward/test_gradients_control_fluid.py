"""Gradients of ``While``, ``IfElse``, ``Switch`` and ``StaticRNN``, and of arrays of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.layers.values import constant
from tests.control import write
from tests.differences import Model, check, layers

X, W, Y = [0.4, -0.7, 1.1], [0.9, 0.6, -0.8], [0.3, 0.5, 0.2]
ITERATIONS = pytest.mark.parametrize("n", [0, 1, 3])
ROWS = [[0.4, -0.7], [1.1, 0.3], [-0.5, 0.9], [0.2, 0.6]]
ZERO = np.zeros(1, "int64")


def in_place(n: Any, *bodies: Any) -> Any:
    """Run functions that write variables there are n times; return the counter."""
    i = made(ZERO)
    go = i < n
    with layers.While(go).block():
        for body in bodies:
            body(i)
        write("increment", i, X=i)
        write("less_than", go, X=i, Y=n)
    return i


def made(value: Any) -> Any:
    """A constant that blocks may write."""
    return constant(ga.default_main_program().current_block(), "made", value)


# -- While ---------------------------------------------------------------------------------------


@ITERATIONS
def test_a_while_writes_what_is_around_it(n: int) -> None:
    def build(x: Any, w: Any, n: Any) -> Any:
        total, y = made(np.zeros(3)), layers.tanh(x)
        in_place(n, lambda i: write("elementwise_mul", y, X=y, Y=w), lambda i: write("elementwise_add", total, X=total, Y=y))
        return [total, y * x]

    check(Model(build, {"w": W}, x=X, n=[n]))


# -- IfElse --------------------------------------------------------------------------------------


def rows_of(x: Any, w: Any, limit: Any) -> Any:
    """exp(x w) where the rows' sum is below a limit, tanh(x) + w elsewhere."""
    chosen = layers.IfElse(layers.reduce_sum(x, dim=[1], keep_dim=True) < limit)
    with chosen.true_block():
        chosen.output(layers.exp(chosen.input(x) * w), chosen.input(x))
    with chosen.false_block():
        chosen.output(layers.tanh(chosen.input(x)) + w, w * chosen.input(x))
    return chosen()


@pytest.mark.parametrize("limit", [-9.0, 0.5, 9.0], ids=["no row is true", "some are", "no row is false"])
def test_if_else_of_rows(limit: float) -> None:
    model = check(Model(rows_of, {"w": [0.7, -0.6]}, x=ROWS, limit=np.array([limit])), ["x", "w"])
    assert len({float(g) for g in model.values(model.gradients(["x"]))["x"].ravel()}) > 2


@pytest.mark.parametrize("limit", [-9.0, 9.0])
def test_what_only_a_branch_without_rows_reads_has_zeros(limit: float) -> None:
    def build(x: Any, a: Any, b: Any, limit: Any) -> Any:
        chosen = layers.IfElse(layers.reduce_sum(x, dim=[1], keep_dim=True) < limit)
        with chosen.true_block():
            chosen.output(chosen.input(x) * a)
        with chosen.false_block():
            chosen.output(chosen.input(x) * b)
        return chosen()

    model = check(Model(build, {"a": [0.7, -0.6], "b": [0.2, 0.3]}, x=ROWS, limit=np.array([limit])), ["x", "a", "b"])
    unread = "a" if limit < 0 else "b"
    np.testing.assert_array_equal(model.values(model.gradients([unread]))[unread], np.zeros(2), strict=True)


def test_a_branch_of_rows_that_hands_its_rows_on() -> None:
    def build(x: Any, limit: Any) -> Any:
        chosen = layers.IfElse(layers.reduce_sum(x, dim=[1], keep_dim=True) < limit)
        with chosen.true_block():
            chosen.output(chosen.input(x))
        with chosen.false_block():
            chosen.output(chosen.input(x) * chosen.input(x))
        return chosen()

    check(Model(build, x=ROWS, limit=[0.5]), ["x"])


@pytest.mark.parametrize("n", [0, 2])
def test_if_else_of_rows_in_a_loop(n: int) -> None:
    def build(x: Any, w: Any, limit: Any, n: Any) -> Any:
        return layers.while_loop(lambda i, y: i < n, lambda i, y: [i + 1, rows_of(y, w, limit)[0]], [ZERO, x])[1]

    check(Model(build, {"w": [0.7, -0.6]}, x=ROWS, limit=[0.5], n=[n]), ["x", "w"])


# -- Switch --------------------------------------------------------------------------------------


@pytest.mark.parametrize("default", [True, False])
@pytest.mark.parametrize("k", [0, 1, 2])
def test_switch_writes_what_is_around_it(k: int, default: bool) -> None:
    def build(k: Any, x: Any, w: Any) -> Any:
        y = layers.tanh(x)
        with layers.Switch() as switch:
            with switch.case(k < 1):
                write("elementwise_mul", y, X=y, Y=w)
            with switch.case(k < 2):
                write("assign", y, X=w)
            if default:
                with switch.default():
                    write("elementwise_add", y, X=y, Y=y)
        return y * x

    check(Model(build, {"w": W}, k=[k], x=X))


# -- StaticRNN -----------------------------------------------------------------------------------


def rnn(x: Any, h: Any, w: Any, u: Any) -> Any:
    """h = tanh(x_t u + h w), and a running sum of squares; both of all steps."""
    net = layers.StaticRNN()
    with net.step():
        part, hidden = net.step_input(x), net.memory(h)
        total = net.memory(shape=[-1, 2], batch_ref=part)
        new = layers.tanh(layers.matmul(part, u) + layers.matmul(hidden, w))
        more = total + new * new
        net.update_memory(hidden, new)
        net.update_memory(total, more)
        net.output(new, more)
    return net()


@pytest.mark.parametrize("steps", [1, 3])
def test_a_static_rnn(steps: int) -> None:
    x, (w, u) = np.linspace(-0.5, 0.8, 4 * steps).reshape(steps, 2, 2), np.linspace(-0.6, 0.9, 8).reshape(2, 2, 2)
    check(Model(rnn, {"w": w, "u": u}, x=x, h=np.array(ROWS[:2])))


def test_a_static_rnn_over_a_parameter_of_which_one_step_is_used() -> None:
    def build(h: Any, x: Any, w: Any, u: Any) -> Any:
        hidden, _ = rnn(x, h, w, u)
        return layers.slice(hidden, axes=[0], starts=[1], ends=[2])

    x, w = np.linspace(-0.5, 0.8, 12).reshape(3, 2, 2), np.array(ROWS[:2])
    model = check(Model(build, {"x": x, "w": w, "u": w.T}, h=w))
    assert not model.values(model.gradients(["x"]))["x"][2].any()


def test_a_static_rnn_on_another() -> None:
    def build(x: Any, h: Any, w: Any, u: Any) -> Any:
        return rnn(rnn(x, h, w, u)[0], h, u, w)[1]

    x, w = np.linspace(-0.5, 0.8, 8).reshape(2, 2, 2), np.array(ROWS[:2])
    check(Model(build, {"w": w, "u": w.T}, x=x, h=w))


# -- arrays --------------------------------------------------------------------------------------


@ITERATIONS
def test_an_array_whose_first_element_is_a_constant(n: int) -> None:
    def build(x: Any, y: Any, w: Any, n: Any) -> Any:
        sums = layers.array_write(made(np.zeros(3)), 0)
        data = layers.array_write(x, 0)
        for at, part in ((1, y), (2, x * y)):
            layers.array_write(part, at, data)
        last = in_place(n, lambda i: layers.array_write(layers.array_read(data, i) * w + layers.array_read(sums, i), i + 1, sums))
        return layers.array_read(sums, last)

    check(Model(build, {"w": W}, x=X, y=Y, n=[n]))


@ITERATIONS
def test_an_array_that_a_loop_carries(n: int) -> None:
    def build(x: Any, w: Any, n: Any) -> Any:
        array = layers.array_write(x, 0)

        def body(i: Any, a: Any) -> Any:
            return [i + 1, layers.array_write(layers.array_read(a, i) * w, i + 1, a)]

        last, filled = layers.while_loop(lambda i, a: i < n, body, [ZERO, array])
        return [layers.array_read(filled, last), layers.tensor_array_to_tensor(filled, axis=0, use_stack=True)[0]]

    check(Model(build, {"w": W}, x=X, n=[n]))


def test_an_array_written_backwards_and_read_out_of_order() -> None:
    def build(x: Any, w: Any, n: Any) -> Any:
        array = layers.create_array("float64", [x, w, x * w, layers.tanh(x)])
        in_place(n, lambda i: layers.array_write(layers.array_read(array, i) * w, n - i, array))
        return [layers.array_read(array, k) for k in (3, 0, 2)]

    check(Model(build, {"w": W}, x=X, n=[3]))


@pytest.mark.parametrize("c", [True, False])
def test_an_array_that_a_branch_returns(c: bool) -> None:
    def build(c: Any, x: Any, w: Any) -> Any:
        first, second = layers.create_array("float64", [x, w]), layers.create_array("float64", [w * x, layers.sin(x)])
        chosen = layers.cond(c, lambda: first, lambda: layers.array_write(w * w, 1, second))
        return layers.array_read(chosen, 0) * layers.array_read(chosen, 1)

    check(Model(build, {"w": W}, c=[c], x=X))


def test_an_element_nothing_reads_has_zeros() -> None:
    def build(x: Any, y: Any, n: Any) -> Any:
        array = layers.create_array("float64", [x, y])
        in_place(n, lambda i: layers.array_write(layers.tanh(layers.array_read(array, 0)), 0, array))
        return layers.array_read(array, 0)

    model = check(Model(build, x=X, y=Y, n=[2]))
    np.testing.assert_array_equal(model.values(model.gradients(["y"]))["y"], np.zeros(3), strict=True)


@ITERATIONS
def test_arrays_in_nested_loops(n: int) -> None:
    def build(x: Any, w: Any, n: Any) -> Any:
        rows = layers.array_write(x, 0)

        def outer(i: Any) -> None:
            inner = layers.create_array("float64", [layers.array_read(rows, i), w])
            in_place(i + 1, lambda j: layers.array_write(layers.array_read(inner, j) * w, j + 1, inner))
            layers.array_write(layers.array_read(inner, i + 1), i + 1, rows)

        return layers.array_read(rows, in_place(n, outer))

    check(Model(build, {"w": W}, x=X, n=[n]))
