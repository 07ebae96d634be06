"""``append_backward`` and ``gradients`` around loops and branches: cut-off gradients, absent ones, and ones requested twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import NoGradient
from tests.backward.test_gradients_control_layers import loop
from tests.differences import Model, check, close, layers, sound

X, W, Y = np.array([0.4, -0.7, 1.1]), np.array([0.9, 0.6, -0.8]), np.array([0.3, 0.5, 0.2])


def last_op(model: Model, op_type: str) -> ga.Operator:
    return [op for op in model.program.global_block().ops if op.type == op_type][-1]


def inside(model: Model, op_type: str, block: str = "sub_block") -> list[str]:
    """The types of the operators in a block of the last operator of a type, but for copies."""
    return [op.type for op in last_op(model, op_type).attrs[block].ops if op.type != "assign_grad"]


# -- cut off -------------------------------------------------------------------------------------


def scaled(stop: bool) -> Model:
    """y = y * sin(y), twice; the sine stops gradients, or not."""

    def body(i: Any, y: Any) -> Any:
        factor = layers.sin(y)
        factor.stop_gradient = stop
        return y * factor

    return Model(lambda x: loop(2, body, x), x=X)


def name_of_the_sine(model: Model) -> str:
    (name,) = [op.output("Out")[0] for op in model.program.block(1).ops if op.type == "sin"]
    return name


@pytest.mark.parametrize("stop", [True, False], ids=["stop_gradient", "no_grad_set"])
def test_a_value_in_a_body_can_be_taken_for_a_constant(stop: bool) -> None:
    model = scaled(stop)
    options: dict[str, Any] = {} if stop else {"no_grad_set": {name_of_the_sine(model)}}
    got = model.values(model.gradients(target=model.out, **options))["x"]
    first = np.sin(X)
    close(got, first * np.sin(X * first))
    assert "sin_grad" not in inside(model, "while_grad")
    sound(model.program)


def test_no_grad_set_takes_variables_of_blocks() -> None:
    model = scaled(False)
    found = model.gradients(target=model.out, no_grad_set=[model.program.block(1).var(name_of_the_sine(model))])
    close(model.values(found)["x"], np.sin(X) * np.sin(X * np.sin(X)))


def test_stop_gradient_in_a_branch_in_a_loop() -> None:
    def body(i: Any, y: Any, w: Any) -> Any:
        def true() -> Any:
            fixed = layers.tanh(y)
            fixed.stop_gradient = True
            return fixed * w

        return layers.cond(i < 1, true, lambda: y * w), w

    model = Model(lambda x, w: loop(2, body, x, w)[0], x=X, w=W)
    got = model.values(model.gradients(target=model.out))
    np.testing.assert_array_equal(got["x"], np.zeros(3))
    close(got["w"], 2 * np.tanh(X) * W)


def test_one_of_two_outputs_that_stops_gradients_while_both_are_read() -> None:
    def body(i: Any, y: Any, w: Any) -> Any:
        first, second = layers.split(y, num=2, axis=0)
        second.stop_gradient = True
        return layers.concat([first * w, second * w], axis=0), w

    model = Model(lambda x, w: loop(2, body, x, w)[0], x=np.array([1.0, 2.0]), w=np.array([3.0]))
    got = model.values(model.gradients(target=model.out))
    assert [got["x"].tolist(), got["w"].tolist()] == [[9, 0], [2 * 1 * 3 + 2 * 3]]


def test_a_captured_value_without_gradient_gets_none() -> None:
    model = Model(lambda x, a, w: loop(3, lambda i, y: y * w * a, x), {"w": W}, x=X, a=Y)
    model.var("a").stop_gradient = True
    pairs = ga.append_backward(model.loss)
    assert [(p.name, g.name) for p, g in pairs] == [("w", "w@GRAD")]
    assert "a@GRAD" not in str(model.program)
    close(model.run([pairs[0][1]])[0], model.differences("w"))


def test_a_loop_variable_that_stops_gradients() -> None:
    model = Model(lambda x, w: loop(2, lambda i, y: y * w, x), x=X, w=W)
    found = model.gradients(target=model.out, no_grad_set={"x"})
    assert found["x"] is None
    close(model.values(found)["w"], 2 * X * W)


def test_a_loop_cut_off_altogether_is_said_to_be() -> None:
    model = Model(lambda x, w: [loop(2, lambda i, y: y * w, x)], {"w": W}, x=X)
    model.out[0].stop_gradient = True
    with pytest.raises(NoGradient, match=r"parameter 'w' has no gradient: the way to the loss is cut by stop_gradient of "):
        ga.append_backward(model.loss, ["w"])


# -- left out ------------------------------------------------------------------------------------


def two_chains(read_both: bool) -> Model:
    """a = a w in one chain of a loop, b = sin(b) in another."""

    def build(x: Any, y: Any, w: Any) -> Any:
        a, b = loop(3, lambda i, a, b: [a * w, layers.sin(b)], x, y)
        return [a, b] if read_both else [a]

    return Model(build, {"w": W}, x=X, y=Y)


def test_a_chain_that_the_loss_does_not_read_has_no_operators_in_the_backward() -> None:
    both, one = two_chains(True), two_chains(False)
    check(both)
    assert one.gradients()["y"] is None
    assert inside(both, "while_grad") == ["sin_grad", "elementwise_mul_grad"]
    assert inside(one, "while_grad") == ["elementwise_mul_grad"]
    assert len(last_op(one, "while_grad").output("X@GRAD")) == 2
    check(one)


def test_a_chain_that_reaches_the_loss_through_another_stays() -> None:
    model = check(Model(lambda x, y: loop(3, lambda i, a, b: [a * b, layers.sin(b)], x, y)[0], x=X, y=Y))
    assert inside(model, "while_grad").count("sin_grad") == 1


def test_what_a_body_computes_and_nothing_reads_has_no_gradient() -> None:
    def body(i: Any, y: Any) -> Any:
        layers.exp(y)
        return layers.tanh(y)

    model = check(Model(lambda x: loop(2, body, x), x=X))
    assert inside(model, "while_grad") == ["tanh_grad"]


def test_the_branch_without_the_value_has_zeros_and_nothing_else() -> None:
    model = check(Model(lambda c, x, w: layers.cond(c, lambda: layers.tanh(w), lambda: layers.exp(x)), c=[True], x=X, w=W), ["w"])
    assert inside(model, "if_else_grad", "true_block") == ["tanh_grad"]
    assert inside(model, "if_else_grad", "false_block") in (["fill_constant"], ["fill_zeros_like"])


def test_a_loop_without_gradient_is_left_alone() -> None:
    def build(x: Any, w: Any, n: Any) -> Any:
        steps = layers.while_loop(lambda k: k < n, lambda k: k + 1, [np.zeros(1, "int64")])
        return x * w * layers.cast(steps[0] if isinstance(steps, list) else steps, out_dtype="float64")

    model = check(Model(build, {"w": W}, x=X, n=[3]))
    assert "while_grad" not in str(model.program)


# -- requested -----------------------------------------------------------------------------------


def test_two_losses_over_one_loop() -> None:
    model = Model(lambda x, w: loop(3, lambda i, a, b: [a * w, layers.sin(b) * w], x, x), {"w": W}, x=X)
    a, b = model.out
    with ga.program_guard(model.program, ga.Program()):
        losses = [layers.reduce_sum(v * v, reduce_all=True) for v in (a, b, a * b)]
    found = [g for loss in losses for _, g in ga.append_backward(loss)]
    assert len({g.name for g in found}) == 3
    for loss, got in zip(losses, model.run(found), strict=True):
        close(got, model.differences("w", loss))
    sound(model.program)


def test_two_losses_one_before_the_loop() -> None:
    model = Model(lambda x, w: loop(3, lambda i, y: y * w, x * w), {"w": W}, x=X)
    with ga.program_guard(model.program, ga.Program()):
        early = layers.reduce_sum(model.var("x") * model.var("w"), reduce_all=True)
    found = [g for loss in (model.loss, early) for _, g in ga.append_backward(loss)]
    for loss, got in zip((model.loss, early), model.run(found), strict=True):
        close(got, model.differences("w", loss))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_with_respect_to_what_a_loop_reads_and_gives(n: int) -> None:
    """x -> tanh -> h, captured and carried: y; the gradient of an intermediate value is that of a fed one."""

    def from_h(h: Any, w: Any, n: Any) -> Any:
        y, _ = loop(n, lambda i, y, v: [layers.sin(y) * h * v, layers.tanh(v)], h, w)
        return [h, y, y * w]

    model = Model(lambda x, w, n: from_h(layers.tanh(x), w, n), x=X, w=W, n=[n])
    h, y, _ = model.out
    got = model.run(ga.gradients(model.loss, [h, y]))
    close(got[0], Model(from_h, h=np.tanh(X), w=W, n=[n]).differences("h"))
    close(got[1], np.cos(y_ := model.run([y])[0]) + W * np.cos(y_ * W))


def test_target_gradients_start_a_loop_from_its_end() -> None:
    model = Model(lambda x, w, s: loop(2, lambda i, y: y * w, x), x=X, w=W, s=Y)
    found = model.gradients(["x", "w"], model.out, target_gradients=[model.var("s")])
    got = model.values(found)
    close(got["x"], Y * W * W)
    close(got["w"], 2 * Y * X * W)


def test_several_targets_of_one_loop_add_up() -> None:
    model = Model(lambda x, w: loop(2, lambda i, a, b: [a * w, a + b], x, x), x=X, w=W)
    both = model.values(dict(zip("xw", ga.gradients(model.out, [model.var("x"), model.var("w")]), strict=True)))
    close(both["x"], W**2 + 2 + W)
    close(both["w"], 2 * X * W + X)


@pytest.mark.parametrize("optimizer", [ga.optimizer.SGD(0.1), ga.optimizer.Momentum(0.1, 0.9)], ids=["sgd", "momentum"])
def test_training_through_a_loop_follows_the_differences(optimizer: Any) -> None:
    def build(x: Any, w: Any) -> Any:
        return layers.mean(layers.square(loop(3, lambda i, h: layers.tanh(h * w), x)))

    model = Model(build, {"w": W}, scalar=True, x=X)
    with ga.program_guard(model.program, startup := ga.Program()):
        optimizer.minimize(model.loss)
    scope = ga.Scope()
    ga.Executor().run(startup, scope=scope)
    scope.set("w", W)
    (before,) = ga.Executor().run(model.program, model.feed, [model.loss], scope)
    close(scope.get("w"), W - 0.1 * Model(build, {"w": W}, scalar=True, x=X).differences("w"))
    assert ga.Executor().run(model.program, model.feed, [model.loss], scope)[0] < before
