"""Every optimizer over several steps against its formula in numpy, in float64; its state, what single parameters have otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import GraphadError
from graphad.initializer import NumpyArray
from graphad.layers import ParamAttr
from graphad.ops import lookup, operator
from graphad.optimizer import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    ClipByGlobalNorm,
    ClipByNorm,
    ClipByValue,
    DecayedAdagrad,
    Ftrl,
    L2Decay,
    Lamb,
    Momentum,
    Optimizer,
    ProximalGD,
    RMSProp,
)
from graphad.passes.optimization import OptimizeParameters, accumulators, optimizers
from tests.execution.test_executor import run
from tests.optimizer.test_optimizer import W0, Line, after, raw_gradients
from tests.optimizer.update_rules import BETAS, LR, RULES, adam, adamw, by_hand
from tests.scratch import operators

EACH = pytest.mark.parametrize("name", RULES)


def trained(optimizer: Optimizer, steps: int) -> Line:
    line = Line()
    optimizer.minimize(line.cost)
    for _ in range(steps):
        line.step()
    return line


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-13)


def test_every_optimizer_has_a_formula() -> None:
    assert {make().type for make, _ in RULES.values()} == set(optimizers())


@EACH
def test_steps_are_those_of_the_formula(name: str) -> None:
    make, rule = RULES[name]
    for steps in (1, 2, 6):
        line, (values, kept) = trained(make(), steps), by_hand(rule, steps)
        for parameter, expected in values.items():
            close(line.scope.get(parameter), expected)
        for parameter, state in kept.items():
            for accumulator, expected in state.items():
                close(line.scope.get(f"{parameter}_{accumulator}_0"), expected)


@EACH
def test_a_state_that_is_saved_goes_on(name: str) -> None:
    make, _ = RULES[name]
    whole, first, second = trained(make(), 5), trained(make(), 2), Line()
    make().minimize(second.cost)
    for key, value in first.scope.arrays.items():
        second.scope.set(key, value)
    for _ in range(3):
        second.step()
    assert {*whole.scope.arrays} == {*second.scope.arrays}
    for key, value in whole.scope.arrays.items():
        np.testing.assert_array_equal(second.scope.get(key), value)


@EACH
def test_the_state_is_named_as_paddle_names_it(name: str) -> None:
    make, rule = RULES[name]
    line, (_, kept) = trained(make(), 1), by_hand(rule, 1)
    optimizer = make()
    declared = {v.name for v in line.block.vars.values() if v.persistable} - {"w", "b", "learning_rate_0"}
    assert declared == {f"{p}_{a}_0" for p in "wb" for a in accumulators(optimizer.type).values()}
    assert {f"{p}_{a}_0" for p in "wb" for a in kept[p]} <= declared


@EACH
def test_an_update_writes_what_it_reads(name: str) -> None:
    """Outputs go to the names of the inputs, in Paddle's slots, and the row has just those."""
    line = Line()
    optimizer = RULES[name][0]()
    ops, pairs = optimizer.minimize(line.cost)
    assert [op.type for op in ops] == [optimizer.type] * 2
    for op, (param, gradient) in zip(ops, pairs, strict=True):
        assert op.input("Param") == op.output("ParamOut") == [param.name]
        assert op.input("Grad") == [gradient.name]
        assert set(op.outputs) <= set(lookup(op.type).outputs)
        written = {n for each in line.block.ops if each.role == "optimize" for n in each.output_names()}
        assert set(op.input_names()) - {gradient.name, "learning_rate_0"} <= written


@EACH
def test_what_comes_with_an_optimizer_works_for_each(name: str) -> None:
    """Clipping, decay, a factor on the rate: the rule gets the gradient after the first two, and the rate after the third."""
    make, rule = RULES[name]
    line = Line(ParamAttr("w", NumpyArray(W0), learning_rate=0.5))
    optimizer = make()
    optimizer.learning_rate = 2 * LR
    optimizer.grad_clip, optimizer.regularization = ClipByValue(2.0, min=-1.0), L2Decay(0.125)
    optimizer.minimize(line.cost)
    line.step()
    expected = rule(W0, np.clip(raw_gradients()[0], -1.0, 2.0) + 0.125 * W0, {}, 1)
    close(line.scope.get("w"), expected)


@EACH
def test_float32_is_near_float64(name: str) -> None:
    program, startup, scope = ga.Program(), ga.Program(), ga.Scope()
    with ga.program_guard(program, startup):
        x, label = ga.layers.data("x", [3]), ga.layers.data("label", [1])
        cost = ga.layers.mse(ga.layers.fc(x, 1, param_attr=ParamAttr("w", NumpyArray(W0)), bias_attr="b"), label)
    RULES[name][0]().minimize(cost, startup)
    run(startup, scope=scope)
    feed = {"x": np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 0.0]], "float32"), "label": np.zeros((2, 1), "float32")}
    for _ in range(3):
        run(program, feed, None, scope)
    assert all(value.dtype == "float32" for value in scope.arrays.values())
    np.testing.assert_allclose(scope.get("w"), by_hand(RULES[name][1], 3)[0]["w"], rtol=2e-4, atol=2e-5)


# -- what single parameters have otherwise ---------------------------------------------------------


def test_adamw_decays_what_it_is_told_to() -> None:
    line = trained(AdamW(LR, **BETAS, weight_decay=0.5, apply_decay_param_fun=lambda name: name != "w"), 1)
    close(line.scope.get("w"), adam(W0, raw_gradients()[0], {}, 1))
    assert [op.attrs.get("with_decay", False) for op in line.block.ops if op.type == "adamw"] == [False, True]


def test_adamw_takes_a_factor_on_the_decay_of_each_parameter() -> None:
    """Paddle's kernel for the CPU scales the rate of the decay, and takes Adam's step with the whole rate."""
    ratio = {"w": 0.5, "b": 1.0}
    line = trained(AdamW(LR, **BETAS, weight_decay=1.0, lr_ratio=lambda p: ratio[p.name]), 1)
    close(line.scope.get("w"), adamw(W0, raw_gradients()[0], {}, 1))


def test_without_decay_a_factor_on_it_changes_nothing() -> None:
    options: dict[str, Any] = {**BETAS, "apply_decay_param_fun": lambda name: False}
    line = trained(AdamW(LR, **options, lr_ratio=lambda p: 0.5), 1)
    close(line.scope.get("w"), adam(W0, raw_gradients()[0], {}, 1))


def test_lamb_leaves_out_what_it_is_told_to() -> None:
    """A parameter without decay takes Adam's step as it is, unless its length is always adapted."""
    options: dict[str, Any] = {**BETAS, "exclude_from_weight_decay_fn": lambda p: p.name == "w"}
    g = raw_gradients()[0]
    step = (W0 - adam(W0, g, {}, 1)) / LR
    close(trained(Lamb(LR, 0.5, **options), 1).scope.get("w"), W0 - LR * step)
    adapted = W0 - LR * np.linalg.norm(W0) / np.linalg.norm(step) * step
    close(trained(Lamb(LR, 0.5, always_adapt=True, **options), 1).scope.get("w"), adapted)


def test_proximal_adagrad_stays_where_no_gradient_was() -> None:
    definition = lookup("proximal_adagrad")
    new, moment = definition(np.array([1.0, 2.0]), np.zeros(2), np.array([0.0, 3.0]), np.array([0.1]))
    np.testing.assert_allclose(new, [1.0, 2.0 - 0.1])
    np.testing.assert_allclose(moment, [0.0, 9.0])


def test_ftrl_gives_exact_zeros() -> None:
    line = trained(Ftrl(LR, l1=1e4), 3)
    np.testing.assert_array_equal(line.scope.get("w"), np.zeros((3, 1)))


def test_the_parameters_may_be_given_beforehand() -> None:
    line = Line()
    _, pairs = SGD(LR, parameter_list=["b"]).minimize(line.cost)
    assert [p.name for p, _ in pairs] == ["b"]
    _, pairs = SGD(LR, parameter_list=["b"]).minimize(Line().cost, parameter_list=["w"])
    assert [p.name for p, _ in pairs] == ["w"]


def test_values_are_clipped_from_below_and_above() -> None:
    w, _ = after(SGD(1.0, grad_clip=ClipByValue(2.0, min=0.5)))
    np.testing.assert_allclose(w, W0 - np.clip(raw_gradients()[0], 0.5, 2.0))


def test_the_passes_of_an_optimizer_read_back_from_text() -> None:
    line = Line()
    optimizer = Lamb(LR, grad_clip=ClipByValue(2.0, min=-1.0), exclude_from_weight_decay_fn=lambda p: p.name == "b")
    pipeline = optimizer.pipeline(line.main.all_parameters(), "learning_rate_0")
    assert "own=[[b, weight_decay, 0.0]]" in str(pipeline)
    assert str(ga.Pipeline.parse(str(pipeline))) == str(pipeline)


def test_a_lower_bound_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="low is a number or none, not 'big'"):
        ga.Pipeline.parse("clip-gradients{low=big}")


def test_attributes_of_a_stranger_are_refused() -> None:
    update = OptimizeParameters("lamb", ("w",), own=(("v", "weight_decay", 0.0),))
    with pytest.raises(ValueError, match="attributes are given for 'v', which is none of the parameters w"):
        update.run(ga.lower(Line().main))


# -- refusals --------------------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Adagrad(LR, epsilon=-1.0), ValueError, "epsilon is 0 or more, not -1.0"),
    (lambda: Adagrad(LR, initial_accumulator_value=-1), ValueError, "initial_accumulator_value is 0 or more, not -1"),
    (lambda: DecayedAdagrad(LR, decay=1.0), ValueError, "decay is from 0 on and below 1, not 1.0"),
    (lambda: Adadelta(LR, rho=-0.5), ValueError, "rho is from 0 on and below 1, not -0.5"),
    (lambda: RMSProp(LR, centered=1), TypeError, "centered is True or False, not 1"),  # type: ignore[arg-type]
    (lambda: Momentum(LR, momentum="a"), TypeError, "momentum is a number, not 'a'"),  # type: ignore[arg-type]
    (lambda: Adam(LR, beta2=1.5), ValueError, "beta2 is from 0 on and below 1, not 1.5"),
    (lambda: Adamax(LR, beta1=float("nan")), ValueError, "beta1 is a finite number, not nan"),
    (lambda: AdamW(LR, weight_decay=L2Decay(0.1)), TypeError, "weight_decay is a number, not L2Decay"),  # type: ignore[arg-type]
    (lambda: AdamW(LR, lr_ratio=0.5), TypeError, "lr_ratio is a function or None, not 0.5"),  # type: ignore[arg-type]
    (lambda: AdamW(LR, lr_ratio=lambda p: "a").minimize(Line().cost), TypeError, "lr_ratio of 'w' is a number, not 'a'"),  # type: ignore[arg-type, return-value]
    (lambda: Lamb(LR, -0.5), ValueError, "lamb_weight_decay is 0 or more, not -0.5"),
    (lambda: Ftrl(LR, l1=-1.0), ValueError, "l1 is 0 or more, not -1.0"),
    (lambda: Ftrl(LR, lr_power=0.5), ValueError, "lr_power is at most 0, not 0.5"),
    (lambda: ProximalGD(LR, l2=None), TypeError, "l2 is a number, not None"),  # type: ignore[arg-type]
    (lambda: ClipByValue(-1.0), ValueError, r"ClipByValue bounds to \[1.0, -1.0\], which is empty"),
    (lambda: ClipByValue(1.0, min=2.0), ValueError, r"ClipByValue bounds to \[2.0, 1.0\], which is empty"),
    (lambda: ClipByNorm(0.0), ValueError, "the bound of ClipByNorm is a norm above 0, not 0.0"),
    (lambda: ClipByGlobalNorm("a"), TypeError, "the bound of ClipByGlobalNorm is a number, not 'a'"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=[r[2] for r in REFUSED])
def test_what_is_wrong_is_said(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        call()
    assert isinstance(raised.value, GraphadError)


def test_the_names_of_fluid_are_there() -> None:
    fluid = ("SGD", "Momentum", "Adagrad", "Adam", "Adamax", "DecayedAdagrad", "Adadelta", "RMSProp", "Ftrl", "Lamb")
    assert all(getattr(ga.optimizer, f"{name}Optimizer") is getattr(ga.optimizer, name) for name in fluid)


@pytest.mark.parametrize(("kind", "decay"), [("l2", 0.01 * -100.0), ("l1", 0.01 * -1.0)])
def test_weights_decay_without_a_coefficient(kind: str, decay: float) -> None:
    program, scope = ga.Program(), ga.Scope()
    with ga.program_guard(program, ga.Program()):
        w = program.global_block().create_parameter("w", [2], "float64")
        program.global_block().create_var("learning_rate_0", [1], "float64", persistable=True)
        ga.append_backward(ga.layers.reduce_sum(w))
    graph = ga.lower(program)
    ga.Pipeline.parse(f"decay-weights{{kind={kind}}}, optimize-parameters").run(graph)
    scope.set("w", np.full(2, -100.0))
    scope.set("learning_rate_0", np.ones(1))
    ga.Executor().run(ga.schedule(graph), scope=scope)
    close(scope.get("w"), -100.0 - (1.0 + decay))


def test_an_operator_of_another_package_updates_parameters() -> None:
    """Its definition says what it keeps; nothing else has to know it."""

    def heavy_ball(Param: Any, Grad: Any, Speed: Any, LearningRate: Any, *, keep: float = 0.5) -> tuple[Any, Any]:
        new = keep * Speed + Grad
        return Param - LearningRate * new, new

    with operators():
        infer = lambda Param, Grad, Speed, LearningRate: (Param, Speed)  # noqa: E731
        operator("Param Grad Speed LearningRate -> ParamOut SpeedOut", infer=infer, grad=None, state="Speed:speed")(heavy_ball)
        program = ga.Program()
        with ga.program_guard(program):
            w = program.global_block().create_parameter("w", [2])
            ga.append_backward(ga.layers.mean(ga.layers.square(w)))
            for name, shape in (("learning_rate_0", [1]), ("w_speed_0", [2])):
                program.global_block().create_var(name, shape, "float32", persistable=True)
        graph = ga.lower(program)
        OptimizeParameters("heavy_ball").run(graph)
        scope = ga.Scope()
        for name, array in (("w", [1.0, 2.0]), ("w_speed_0", [4.0, 0.0]), ("learning_rate_0", [0.5])):
            scope.set(name, np.array(array, "float32"))
        ga.Executor().run(ga.schedule(graph), scope=scope)
        assert scope.get("w_speed_0").tolist() == [3.0, 2.0]
        assert scope.get("w").tolist() == [-0.5, 1.0]
