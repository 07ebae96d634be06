"""Optimizers: five steps of each against the conformance cases, and what ``minimize`` appends, returns and refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.initializer import NumpyArray
from graphad.layers import ParamAttr
from graphad.optimizer import SGD, Adam, ClipByGlobalNorm, ClipByNorm, ClipByValue, L1Decay, L2Decay, Momentum, Optimizer, RMSProp
from tests.conformance.loading import Array, Case, load, program_of
from tests.execution.test_executor import run

MAKE: dict[str, Callable[[float], Optimizer]] = {
    "opt_sgd": SGD,
    "opt_momentum": lambda rate: Momentum(rate, momentum=0.875),
    "opt_adam": lambda rate: Adam(rate, beta1=0.875, beta2=0.96875, epsilon=2.0**-20),
    "opt_rmsprop": lambda rate: RMSProp(rate, rho=0.9375, epsilon=2.0**-20, momentum=0.5),
    "opt_sgd_l2_decay": lambda rate: SGD(rate, regularization=L2Decay(0.125)),
    "opt_sgd_clip_global_norm": lambda rate: SGD(rate, grad_clip=ClipByGlobalNorm(0.25)),
}
W0 = np.array([[1.0], [-2.0], [3.0]])
FEED = {"x": np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 0.0]]), "label": np.zeros((2, 1))}


class Line:
    """cost = mean((x @ w + b)²) with w and b given, in float64."""

    def __init__(self, w: ParamAttr | None = None, b: ParamAttr | None = None) -> None:
        self.main, self.startup = ga.Program(), ga.Program()
        self.scope = ga.Scope()
        options = {"initializer": NumpyArray(W0)}
        with ga.program_guard(self.main, self.startup):
            x, label = ga.layers.data("x", [3], "float64"), ga.layers.data("label", [1], "float64")
            w = ParamAttr("w", **options) if w is None else w  # type: ignore[arg-type]
            self.cost = ga.layers.mse(ga.layers.fc(x, 1, param_attr=w, bias_attr=b or "b"), label)

    @property
    def block(self) -> ga.Block:
        return self.main.global_block()

    def step(self, fetch: list[Any] | None = None, **feed: Any) -> list[Array]:
        run(self.startup, scope=self.scope)
        return run(self.main, {**FEED, **feed}, fetch, self.scope)

    def updates(self) -> list[str]:
        return [op.type for op in self.block.ops if op.role == "optimize"]


def raw_gradients(w: Array = W0, b: float = 0.0) -> tuple[Array, Array]:
    residual = FEED["x"] @ w + b
    return FEED["x"].T @ residual, residual.sum(0)


def after(optimizer: Optimizer, steps: int = 1, **attrs: Any) -> tuple[Array, Array]:
    """w and b after some steps."""
    line = Line(ParamAttr("w", NumpyArray(W0), **attrs))
    optimizer.minimize(line.cost)
    for _ in range(steps):
        line.step()
    return line.scope.get("w"), line.scope.get("b")


# -- conformance ---------------------------------------------------------------------------------


Run = Callable[..., list[Array]]


def trained(case: Case, optimizer: Optimizer, run: Run) -> tuple[ga.Scope, list[float]]:
    program, startup, scope = program_of(case.doc["forward"]), ga.Program(), ga.Scope()
    ops, pairs = optimizer.minimize(program.global_block().var(case.doc["loss"]), startup)
    assert [op.type for op in ops] == [t for t in case.doc["optimize_ops"] if t == optimizer.type]
    assert [[p.name, g.name] for p, g in pairs] == case.doc["params_grads"]
    run(startup, scope=scope)
    for name, value in case.group("param0").items():
        scope.set(name, value)
    feeds = [{"x": case.arrays["x"][i], "y": case.arrays["y"][i]} for i in range(case.doc["steps"])]
    return scope, [float(run(program, feed, [case.doc["loss"]], scope)[0]) for feed in feeds]


@pytest.mark.parametrize("name", MAKE)
def test_five_steps_are_those_of_the_case(name: str) -> None:
    assert_five_steps(name, run)


def assert_five_steps(name: str, run: Run) -> None:
    """Losses, parameters and accumulators are those of the case; ``run`` is called as ``Executor.run``."""
    case = load(name)
    scope, losses = trained(case, MAKE[name](case.doc["learning_rate"]), run)
    np.testing.assert_allclose(losses, case.doc["losses"], rtol=1e-9)
    for parameter, expected in case.group("param5").items():
        np.testing.assert_allclose(scope.get(parameter), expected, rtol=1e-9, atol=1e-12)
    for key, expected in case.group("acc5").items():
        accumulator, parameter = key.split("/")
        stored = scope.get(case.doc["accumulators"][accumulator][parameter])
        np.testing.assert_allclose(stored, expected, rtol=1e-9, atol=1e-12)


# -- what minimize appends and returns -----------------------------------------------------------


def test_minimize_returns_the_updates_and_the_pairs() -> None:
    line = Line()
    ops, pairs = SGD(0.5).minimize(line.cost)
    assert [repr(op) for op in ops] == [
        f"sgd(Param={n}, Grad={n}@GRAD, LearningRate=learning_rate_0) -> (ParamOut={n})" for n in ("w", "b")
    ]
    assert ops == line.block.ops[-2:]
    assert [(p.name, g.name) for p, g in pairs] == [("w", "w@GRAD"), ("b", "b@GRAD")]
    assert [op.role for op in ops] == ["optimize"] * 2


@pytest.mark.parametrize("make", [lambda: Adam(0.1, regularization=L2Decay(0.5)), lambda: SGD(0.1, grad_clip=ClipByGlobalNorm(0.25))])
def test_backward_and_apply_gradients_are_minimize(make: Callable[[], Optimizer]) -> None:
    whole, halves = Line(), Line()
    make().minimize(whole.cost, whole.startup)
    optimizer = make()
    pairs = optimizer.backward(halves.cost, halves.startup)
    ops = optimizer.apply_gradients(pairs)
    assert [op.type for op in ops] == [optimizer.type] * 2
    assert list(map(repr, halves.block.ops)) == list(map(repr, whole.block.ops))
    assert {name: repr(var) for name, var in halves.block.vars.items()} == {name: repr(var) for name, var in whole.block.vars.items()}
    assert str(halves.startup) == str(whole.startup)


def test_gradients_may_be_changed_before_they_are_applied() -> None:
    line = Line()
    with ga.program_guard(line.main, line.startup):
        sgd = SGD(0.5)
        (w, dw), (b, db) = sgd.backward(line.cost)
        sgd.apply_gradients([(w, dw * 2.0), (b, None)])
    line.step()
    np.testing.assert_allclose(line.scope.get("w"), W0 - raw_gradients()[0])
    np.testing.assert_array_equal(line.scope.get("b"), [0.0])
    assert db.name == "b@GRAD"
    assert sgd.apply_gradients([]) == []


def test_one_step_of_sgd() -> None:
    line = Line()
    _, pairs = SGD(0.5).minimize(line.cost)
    fetched = line.step([g for _, g in pairs])
    for name, start, expected, got in zip("wb", (W0, np.zeros(1)), raw_gradients(), fetched, strict=True):
        np.testing.assert_allclose(got, expected)
        np.testing.assert_allclose(line.scope.get(name), start - 0.5 * expected)


@pytest.mark.parametrize(
    "options",
    [
        {"regularization": L2Decay(0.5)},
        {"regularization": L1Decay(0.5)},
        {"grad_clip": ClipByValue(0.1)},
        {"grad_clip": ClipByGlobalNorm(0.1)},
    ],
    ids=str,
)
def test_the_gradient_fetched_after_minimize_is_the_raw_one(options: dict[str, Any]) -> None:
    line = Line()
    _, pairs = SGD(0.5, **options).minimize(line.cost)
    for got, expected in zip(line.step([g for _, g in pairs]), raw_gradients(), strict=True):
        np.testing.assert_allclose(got, expected)


def test_accumulators_are_persistable_and_start_in_the_startup_program() -> None:
    line = Line()
    Adam(0.1, beta1=0.75, beta2=0.5).minimize(line.cost)
    run(line.startup, scope=line.scope)
    starts = {"moment1": 0.0, "moment2": 0.0, "beta1_pow_acc": 0.75, "beta2_pow_acc": 0.5}
    for accumulator, start in starts.items():
        var = line.block.var(f"w_{accumulator}_0")
        assert var.persistable
        assert var.shape == ((1,) if accumulator.endswith("pow_acc") else (3, 1))
        np.testing.assert_array_equal(line.scope.get(var.name), np.full(var.shape, start))
    np.testing.assert_array_equal(line.scope.get("learning_rate_0"), [0.1])


def test_the_state_starts_where_the_caller_says() -> None:
    line, startup = Line(), ga.Program()
    SGD(0.5).minimize(line.cost, startup)
    assert startup.global_block().has_var("learning_rate_0")
    assert not line.startup.global_block().has_var("learning_rate_0")


def test_the_program_of_the_loss_is_extended_outside_its_guard() -> None:
    line, other = Line(), (ga.Program(), ga.Program())
    with ga.program_guard(*other):
        SGD(0.5).minimize(line.cost)
    assert line.updates() == ["sgd", "sgd"]
    assert line.startup.global_block().has_var("learning_rate_0")
    assert not [op for program in other for op in program.global_block().ops]


def test_optimize_is_sgd_unless_told_otherwise() -> None:
    line = Line()
    ga.optimize(line.cost)
    line.step()
    np.testing.assert_allclose(line.scope.get("w"), W0 - 0.01 * raw_gradients()[0])
    other = Line()
    ga.optimize(other.cost, Momentum(0.1))
    assert other.updates() == ["momentum", "momentum"]


# -- learning rate, decay, clipping --------------------------------------------------------------


def test_the_learning_rate_may_be_a_variable_that_is_fed() -> None:
    line = Line()
    rate = line.block.create_var("rate", [1], "float64")
    SGD(rate).minimize(line.cost)
    line.step(rate=[0.25])
    np.testing.assert_allclose(line.scope.get("w"), W0 - 0.25 * raw_gradients()[0])


def test_the_learning_rate_may_be_computed() -> None:
    line = Line()
    with ga.program_guard(line.main, line.startup):
        half = line.block.create_var("base", [1], "float64") * 0.5
    SGD(half).minimize(line.cost)
    line.step(base=[0.5])
    np.testing.assert_allclose(line.scope.get("w"), W0 - 0.25 * raw_gradients()[0])


def test_the_learning_rate_in_the_scope_can_be_changed() -> None:
    line = Line()
    SGD(0.5).minimize(line.cost)
    run(line.startup, scope=line.scope)
    line.scope.set("learning_rate_0", np.array([0.125]))
    line.step()
    np.testing.assert_allclose(line.scope.get("w"), W0 - 0.125 * raw_gradients()[0])


def test_a_parameters_factor_is_on_its_learning_rate_only() -> None:
    w, b = after(SGD(0.5), learning_rate=0.5)
    np.testing.assert_allclose(w, W0 - 0.25 * raw_gradients()[0])
    np.testing.assert_allclose(b, -0.5 * raw_gradients()[1])


def test_a_parameters_decay_replaces_the_optimizers() -> None:
    w, b = after(SGD(0.5, regularization=L2Decay(0.25)), regularizer=L1Decay(0.125))
    np.testing.assert_allclose(w, W0 - 0.5 * (raw_gradients()[0] + 0.125 * np.sign(W0)))
    np.testing.assert_allclose(b, -0.5 * raw_gradients()[1])


def test_clipping_comes_before_decay() -> None:
    w, _ = after(SGD(0.5, regularization=L2Decay(0.25), grad_clip=ClipByValue(0.5)))
    np.testing.assert_allclose(w, W0 - 0.5 * (np.clip(raw_gradients()[0], -0.5, 0.5) + 0.25 * W0))


def test_a_norm_is_bounded_for_each_gradient_or_for_all() -> None:
    gw, gb = raw_gradients()
    w, b = after(SGD(0.5, grad_clip=ClipByNorm(0.5)))
    np.testing.assert_allclose(w, W0 - 0.5 * 0.5 * gw / np.linalg.norm(gw))
    np.testing.assert_allclose(b, -0.5 * 0.5 * gb / np.linalg.norm(gb))
    w, b = after(SGD(0.5, grad_clip=ClipByGlobalNorm(0.5)))
    whole = np.sqrt((gw**2).sum() + (gb**2).sum())
    np.testing.assert_allclose(w, W0 - 0.5 * 0.5 * gw / whole)
    np.testing.assert_allclose(b, -0.5 * 0.5 * gb / whole)


def test_a_norm_within_the_bound_is_left_alone() -> None:
    np.testing.assert_allclose(after(SGD(0.5, grad_clip=ClipByGlobalNorm(1e6)))[0], W0 - 0.5 * raw_gradients()[0])


def test_a_parameter_may_stay_out_of_clipping() -> None:
    gw, gb = raw_gradients()
    w, b = after(SGD(0.5, grad_clip=ClipByGlobalNorm(0.5)), need_clip=False)
    np.testing.assert_allclose(w, W0 - 0.5 * gw)
    np.testing.assert_allclose(b, -0.5 * 0.5 * gb / np.linalg.norm(gb))


def test_parameters_say_how_they_are_clipped_where_the_optimizer_does_not() -> None:
    gw, gb = raw_gradients()
    line = Line()
    ga.clip.set_gradient_clip(ga.clip.GradientClipByGlobalNorm(0.5), program=line.main)
    SGD(0.5).minimize(line.cost)
    line.step()
    np.testing.assert_allclose(line.scope.get("w"), W0 - 0.25 * gw / np.sqrt((gw**2).sum() + (gb**2).sum()))

    line = Line(ParamAttr("w", NumpyArray(W0), gradient_clip=ga.clip.GradientClipByNorm(0.125)))
    ga.clip.set_gradient_clip(ga.clip.GradientClipByValue(0.25, -1.0), ["b"], line.main)
    line.main = ga.Program.parse(str(line.main))
    line.cost = line.main.global_block().var(line.cost.name)
    SGD(0.5).minimize(line.cost, line.startup)
    line.step()
    np.testing.assert_allclose(line.scope.get("w"), W0 - 0.5 * 0.125 * gw / np.linalg.norm(gw))
    np.testing.assert_allclose(line.scope.get("b"), -0.5 * gb.clip(-1.0, 0.25))


def test_the_optimizers_clip_counts_before_those_of_parameters() -> None:
    line = Line()
    ga.clip.set_gradient_clip(ga.clip.GradientClipByValue(1e-3), program=line.main)
    SGD(0.5, grad_clip=ClipByValue(0.5)).minimize(line.cost)
    line.step()
    np.testing.assert_allclose(line.scope.get("w"), W0 - 0.5 * np.clip(raw_gradients()[0], -0.5, 0.5))


def test_the_norm_of_a_group_has_one_bound_and_groups_are_apart() -> None:
    gw, gb = raw_gradients()
    for group, is_right in (("default_group", False), ("other", True)):
        line = Line()
        ga.clip.set_gradient_clip(ga.clip.GradientClipByGlobalNorm(0.5), ["w"], line.main)
        ga.clip.set_gradient_clip(ga.clip.GradientClipByGlobalNorm(0.25, group), ["b"], line.main)
        if not is_right:
            with pytest.raises(ValueError, match=r"All parameters' 'clip_norm' of a same group should be the same.*'w' and 0.25 of 'b'"):
                SGD(0.5).minimize(line.cost)
            continue
        SGD(0.5).minimize(line.cost)
        line.step()
        np.testing.assert_allclose(line.scope.get("w"), W0 - 0.5 * 0.5 * gw / np.linalg.norm(gw))
        np.testing.assert_allclose(line.scope.get("b"), -0.5 * 0.25 * gb / np.linalg.norm(gb))


def test_a_gradient_clip_without_effect_is_refused() -> None:
    line, clip = Line(), ga.clip.GradientClipByValue(0.5)
    with pytest.raises(TypeError, match="clip is a GradientClipByValue"):
        ga.clip.set_gradient_clip(0.5, program=line.main)
    with pytest.raises(TypeError, match=r"x: .* is no parameter"):
        ga.clip.set_gradient_clip(clip, ["x"], line.main)
    SGD(0.5).minimize(line.cost)
    with pytest.raises(ValueError, match="no effect after minimize"):
        ga.clip.set_gradient_clip(clip, program=line.main)


def test_momentum_and_nesterov_over_two_steps() -> None:
    for nesterov in (False, True):
        w, b, vw, vb = W0, np.zeros(1), np.zeros_like(W0), np.zeros(1)
        for _ in range(2):
            gw, gb = raw_gradients(w, float(b[0]))
            vw, vb = 0.5 * vw + gw, 0.5 * vb + gb
            w, b = (w - 0.01 * (gw + 0.5 * vw), b - 0.01 * (gb + 0.5 * vb)) if nesterov else (w - 0.01 * vw, b - 0.01 * vb)
        got = after(Momentum(0.01, momentum=0.5, use_nesterov=nesterov), steps=2)
        np.testing.assert_allclose(got[0], w)
        np.testing.assert_allclose(got[1], b)


# -- which parameters, and twice -----------------------------------------------------------------


def test_only_what_is_in_parameter_list_is_updated() -> None:
    line = Line()
    ops, pairs = SGD(0.5).minimize(line.cost, parameter_list=["b"])
    assert ([op.input("Param") for op in ops], [p.name for p, _ in pairs]) == ([["b"]], ["b"])
    line.step()
    np.testing.assert_array_equal(line.scope.get("w"), W0)


def test_a_parameter_that_is_not_trained_is_not_updated() -> None:
    line = Line(ParamAttr("w", NumpyArray(W0), trainable=False))
    SGD(0.5).minimize(line.cost)
    line.step()
    np.testing.assert_array_equal(line.scope.get("w"), W0)
    assert line.updates() == ["sgd"]


def test_minimize_twice_takes_both_gradients_at_the_old_values() -> None:
    line = Line()
    with ga.program_guard(line.main, line.startup):
        other = line.cost * 3.0
    first, second = SGD(0.125).minimize(line.cost), SGD(0.25).minimize(other)
    assert [g.name for _, g in (*first[1], *second[1])] == ["w@GRAD", "b@GRAD", "w@GRAD_0", "b@GRAD_0"]
    line.step()
    np.testing.assert_allclose(line.scope.get("w"), W0 - (0.125 + 0.25 * 3) * raw_gradients()[0])


def test_the_same_loss_is_not_minimized_twice() -> None:
    line = Line()
    SGD(0.5).minimize(line.cost, parameter_list=["b"])
    Adam(0.5).minimize(line.cost, parameter_list=["w"])
    before = str(line.main), str(line.startup)
    message = r"minimize was called for '.*' before, and 'adam' updates w, b already: every step would update twice(.|\n)*test_optimizer.py"
    with pytest.raises(ValueError, match=message):
        SGD(0.25).minimize(line.cost)
    assert (str(line.main), str(line.startup)) == before


def test_a_loss_on_the_way_of_another_one_can_be_minimized_as_well() -> None:
    line = Line()
    with ga.program_guard(line.main, line.startup):
        other = line.cost * 3.0
    SGD(0.25).minimize(other)
    SGD(0.125).minimize(line.cost)
    line.step()
    np.testing.assert_allclose(line.scope.get("w"), W0 - (0.125 + 0.25 * 3) * raw_gradients()[0])


def test_two_optimizers_have_a_state_each() -> None:
    line = Line()
    optimizers = Adam(0.1, beta1=0.5), Adam(0.1, beta1=0.75)
    with ga.program_guard(line.main, line.startup):
        costs = line.cost, line.cost * 3.0
    states = [{name for op in o.minimize(cost)[0] for name in op.input("Beta1Pow")} for o, cost in zip(optimizers, costs, strict=True)]
    assert not states[0] & states[1]


def test_a_parameter_named_twice_is_updated_once() -> None:
    line = Line()
    SGD(0.5).minimize(line.cost, parameter_list=["w", "w"])
    line.step()
    np.testing.assert_allclose(line.scope.get("w"), W0 - 0.5 * raw_gradients()[0])
