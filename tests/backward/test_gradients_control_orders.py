"""Second and third derivatives through loops and branches: gradients of gradients, against differences of the gradients before."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest

import graphad as ga
from tests.backward.test_gradients_control import rows, tanh, times
from tests.backward.test_gradients_control_layers import loop
from tests.differences import Array, Model, check, close, layers, sound
from tests.nested_programs import Control, Row, add, count_to, if_else, let, net, when

X, W, Y = np.array([0.4, -0.7]), np.array([0.9, 0.6]), np.array([0.3, 0.5])
TAKEN = pytest.mark.parametrize("c", [True, False])


# -- third order ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_a_loop(n: int) -> None:
    check(Model(lambda x, w, n: loop(n, lambda i, y: layers.sin(y) * w, x), {"w": W}, x=X, n=[n]), order=3)


def test_a_loop_in_place() -> None:
    body = [tanh("y", "a"), times("a", "w", "y"), add("y", "a", "y")]
    check(Model(rows(*count_to("n", *body)), {"w": W}, y=Y, n=[2]), order=3)


@TAKEN
def test_a_branch(c: bool) -> None:
    check(Model(lambda c, x, w: layers.cond(c, lambda: layers.tanh(x) * w, lambda: layers.exp(x * w)), {"w": W}, c=[c], x=X), order=3)


@TAKEN
def test_a_block_that_overwrites_if_it_runs(c: bool) -> None:
    check(Model(rows(when("c", tanh("y", "y"), times("y", "w", "y")), times("y", "w", "y")), {"w": W}, y=Y, c=[c]), order=3)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_branch_in_a_loop(n: int) -> None:
    def body(i: Any, y: Any, w: Any) -> Any:
        return [layers.cond(i < 1, lambda: layers.sin(y) * w, lambda: y * y + w), layers.tanh(w)]

    check(Model(lambda x, w, n: loop(n, body, x, w), {"w": W}, x=X, n=[n]), order=3)


@TAKEN
def test_a_loop_in_a_branch(c: bool) -> None:
    def build(c: Any, x: Any, w: Any) -> Any:
        return layers.cond(c, lambda: loop(2, lambda i, y: layers.tanh(y) * w, x), lambda: x * w * w)

    check(Model(build, {"w": W}, c=[c], x=X), order=3)


@pytest.mark.parametrize("n", [0, 2])
def test_a_loop_in_a_loop(n: int) -> None:
    def body(i: Any, y: Any) -> Any:
        return loop(i + 1, lambda j, z: layers.sin(z) * layers.tanh(y), y)

    check(Model(lambda x, w, n: loop(n, body, x * w), x=X, w=W, n=[n]), order=3)


def test_a_net_in_a_loop() -> None:
    check(Model(rows(*count_to("n", net(tanh("y", "y"), times("y", "w", "y")))), w=W, y=Y, n=[2]), order=3)


def test_a_net() -> None:
    check(Model(rows(net(tanh("y", "a"), times("a", "w", "y"), net(times("y", "a", "y")))), {"w": W}, y=Y), order=3)


def test_a_composite_in_a_loop() -> None:
    body = net(tanh("y", "y"), times("y", "w", "y"))
    sealed = Control("composite", {"Input": ["y", "w"]}, body.blocks, (("name", "Twice"),))
    check(Model(rows(*count_to("n", sealed)), {"w": W}, y=Y, n=[2]), order=3)


def test_a_swap() -> None:
    body = [let("c", "a"), times("b", "b", "a"), times("c", "w", "b")]
    check(Model(rows(*count_to("n", *body), out="a b"), {"w": W}, a=X, b=Y, n=[3]), order=3)


def test_a_name_overwritten_where_a_branch_is_taken_in_a_loop() -> None:
    body: list[Row] = [if_else("c", [times("y", "w", "y")], [tanh("y", "y")]), let("k", "y"), when("c", times("k", "k", "y"))]
    check(Model(rows(*count_to("n", *body)), {"w": W}, y=Y, c=[True], n=[2]), order=3)


def test_a_static_rnn() -> None:
    def build(x: Any, w: Any) -> Any:
        rnn, start = layers.StaticRNN(), layers.tanh(w)
        with rnn.step():
            hidden = rnn.memory(start)
            new = layers.tanh(rnn.step_input(x) * w + hidden)
            rnn.update_memory(hidden, new)
            rnn.output(new * hidden)
        return rnn()

    check(Model(build, {"w": W}, x=np.array([X, Y, W])), order=3)


def test_arrays() -> None:
    def body(i: Any, array: Any) -> Any:
        return layers.array_write(layers.sin(layers.array_read(array, i)) * layers.array_read(array, 0), i + 1, array)

    def build(x: Any, w: Any) -> Any:
        filled = loop(3, body, layers.create_array("float64", [x * w]))
        return [layers.array_read(filled, at) for at in (1, 3)]

    check(Model(build, {"w": W}, x=X), order=3)


def test_rows_split_and_merged() -> None:
    def build(x: Any, w: Any) -> Any:
        chosen = layers.IfElse(layers.reduce_sum(x, dim=[1], keep_dim=True) < 0.5)
        with chosen.true_block():
            chosen.output(layers.exp(chosen.input(x) * w))
        with chosen.false_block():
            chosen.output(layers.tanh(chosen.input(x)) * w)
        return chosen()

    check(Model(build, {"w": W}, x=[X, W, Y]), order=3)


def test_a_shape_that_grows() -> None:
    def build(x: Any, w: Any) -> Any:
        def body(i: Any, rows: Any, y: Any) -> Any:
            return [layers.concat([rows, y * w], axis=0), layers.tanh(y)]

        rows, _ = loop(2, body, x, x, shapes=[[-1, 2], [1, 2]])
        return layers.reduce_sum(rows * rows * rows, dim=[0])

    check(Model(build, x=X[None], w=W[None]), order=3)


def test_the_fourth_derivative() -> None:
    check(Model(lambda x, w: loop(2, lambda i, y: layers.sin(y) * w, x), x=X[:1], w=W[:1]), order=4)


# -- gradients of gradients ----------------------------------------------------------------------


def test_powers_have_the_derivatives_of_powers() -> None:
    model = Model(lambda x: loop(3, lambda i, y: y * x, x), x=X)
    target = model.out
    for expected in (4 * X**3, 12 * X**2, 24 * X, np.full(2, 24.0)):
        target = model.gradient("x", target)
        close(model.run([target])[0], expected)
    sound(model.program)


def test_derivatives_of_a_loop_without_iterations() -> None:
    model = Model(lambda x, w, n: loop(n, lambda i, y: y * w, x * x), x=X, w=W, n=[0])
    first = model.gradients(target=model.out)
    second = model.gradients(target=first["x"])
    third = model.gradients(target=first["w"]) if first["w"] is not None else {}
    np.testing.assert_array_equal(model.values(second)["x"], np.full(2, 2.0), strict=True)
    np.testing.assert_array_equal(model.values(second)["w"], np.zeros(2), strict=True)
    for value in model.values(third).values():
        np.testing.assert_array_equal(value, np.zeros(2), strict=True)


def test_a_loss_of_gradients_and_values_of_one_loop() -> None:
    """A gradient penalty: the loss plus the squares of its gradient, as ``append_backward`` differentiates them."""
    model = Model(lambda x, w: loop(3, lambda i, y: layers.tanh(y * w), x), {"w": W}, x=X)
    gradient = model.gradient("x")
    with ga.program_guard(model.program, ga.Program()):
        penalty = layers.reduce_sum(gradient * gradient, reduce_all=True) + model.loss
    ((_, got),) = ga.append_backward(penalty)
    close(model.run([got])[0], model.differences("w", penalty))
    sound(model.program)


def test_gradients_of_gradients_of_two_losses() -> None:
    model = Model(lambda x, w: loop(2, lambda i, a, b: [layers.sin(a) * w, b * a], x, x), x=X, w=W)
    a, b = model.out
    first, other = model.gradient("x", a), model.gradient("w", b)
    with ga.program_guard(model.program, ga.Program()):
        target = layers.reduce_sum(first * other, reduce_all=True)
    for name, got in model.values(model.gradients(target=target)).items():
        close(got, model.differences(name, target))


def twice_differentiated() -> tuple[Model, ga.Variable, Array]:
    """A loop, its gradient with respect to x, and the value of that one's gradient with respect to w."""
    model = Model(lambda x, w: loop(3, lambda i, y: layers.sin(y) * w, x), {"w": W}, x=X)
    first = model.gradient("x")
    same = Model(lambda x, w: loop(3, lambda i, y: layers.sin(y) * w, x), {"w": W}, x=X)
    return model, first, same.run([same.gradient("w", same.gradient("x"))])[0]


@pytest.mark.parametrize("again", [lambda p: ga.Program.parse(str(p)), lambda p: p.clone()], ids=["read back", "cloned"])
def test_a_gradient_can_be_differentiated_in_a_copy_of_its_program(again: Callable[[ga.Program], ga.Program]) -> None:
    model, first, expected = twice_differentiated()
    model.program = again(model.program)
    np.testing.assert_array_equal(model.run([model.gradient("w", model.var(first.name))])[0], expected)


def test_pruning_leaves_what_a_second_derivative_needs() -> None:
    model, first, expected = twice_differentiated()
    second = model.gradient("w", first)
    model.program = model.program.prune(second)
    np.testing.assert_array_equal(model.run([second.name])[0], expected)


# -- products with the Hessian -------------------------------------------------------------------


def rnn(x: Any, h: Any, w: Any, u: Any) -> Any:
    """The last of h = tanh(x_t w + h u)."""

    def body(i: Any, h: Any) -> Any:
        part = layers.reshape(layers.gather(x, i), shape=[2, 2])
        return layers.tanh(layers.matmul(part, w) + layers.matmul(h, u))

    return loop(3, body, h)


def recurrent() -> Model:
    rng = np.random.default_rng(3)
    w, u, h = rng.uniform(-1, 1, (3, 2, 2))
    return Model(rnn, {"w": w, "u": u}, x=rng.uniform(-1, 1, (3, 2, 2)), h=h)


def product(model: Model, name: str, of: str, v: Array) -> ga.Variable:
    """The product of v with the second derivatives: of the gradient with respect to ``of``, by ``name``."""
    first = model.gradient(of)
    model.feed["v"] = v
    with ga.program_guard(model.program, ga.Program()):
        block = model.program.global_block()
        direction = block.var("v") if block.has_var("v") else layers.data("v", list(v.shape), "float64", False)
        target = layers.reduce_sum(first * direction, reduce_all=True)
    return model.gradient(name, target)


@pytest.mark.parametrize("pair", list(combinations_with_replacement("wuhx", 2)), ids="".join)
def test_products_with_the_hessian_of_an_rnn_are_differences_of_gradients(pair: tuple[str, str]) -> None:
    model, (name, of) = recurrent(), pair
    start = {**model.feed, **model.params}
    v = np.random.default_rng(5).uniform(-1, 1, start[of].shape)
    got = model.run([product(model, name, of, v)])[0]
    step, plain = 1e-5, recurrent()
    gradient = plain.gradient(name)
    up, down = (plain.run([gradient], {of: start[of] + sign * step * v})[0] for sign in (1, -1))
    close(got, (up - down) / (2 * step))


def test_the_hessian_of_an_rnn_is_symmetric() -> None:
    model = recurrent()
    n = model.params["u"].size
    fetch = product(model, "u", "u", np.zeros((2, 2)))
    hessian = np.array([model.run([fetch], {"v": row.reshape(2, 2)})[0].ravel() for row in np.eye(n)])
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-12, atol=1e-14)
    assert np.linalg.matrix_rank(hessian) > 1
