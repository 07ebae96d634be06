"""Dynamic scaling of the loss: thirty steps by hand with overflow in some, every optimizer; what is refused, where the check is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import GraphadError, PassError
from graphad.initializer import NumpyArray
from graphad.layers import ParamAttr
from graphad.optimizer import SGD, Adam, ClipByGlobalNorm, L2Decay, Optimizer, decorate
from graphad.passes.precision import MixedPrecision
from tests.conformance.loading import Array
from tests.optimizer.update_rules import LR, RULES, State

layers: Any = ga.layers
W0 = np.array([[0.5], [-1.0], [2.0]])
GROWTH: dict[str, Any] = {"incr_every_n_steps": 4, "decr_every_n_nan_or_inf": 2, "incr_ratio": 2.0, "decr_ratio": 0.25}
OVERFLOWS = (3, 4, 7, 12, 13, 14, 15, 28)  # steps whose input is 1e36: times the scale that is too much for float32
NAN = 20  # a step whose input is nan
STEPS = 30


def inputs(step: int) -> tuple[Array, Array]:
    numbers = np.random.default_rng(step)
    x, y = numbers.normal(size=(4, 3)), numbers.normal(size=(4, 1))
    return (x * 1e36 if step in OVERFLOWS else np.where(step == NAN, np.nan, x)), y


class Line:
    """``x w + b`` in float64, its product in float32, and its squared distance from y."""

    def __init__(self, optimizer: Optimizer, **options: Any) -> None:
        self.main, self.startup = ga.Program(), ga.Program()
        with ga.program_guard(self.main, self.startup):
            x = layers.data("x", shape=[4, 3], dtype="float64", append_batch_size=False)
            y = layers.data("y", shape=[4, 1], dtype="float64", append_batch_size=False)
            at = layers.fc(x, size=1, param_attr=ParamAttr("w", initializer=NumpyArray(W0)), bias_attr=ParamAttr("b"))
            self.cost = layers.mean(layers.square(layers.elementwise_sub(at, y)))
            options = {"init_loss_scaling": 2.0**15, "dtype": "float32", "keep": ("elementwise_add",), **GROWTH, **options}
            self.optimizer = decorate(optimizer, **options)
            self.updates, self.pairs = self.optimizer.minimize(self.cost)
        self.scope = ga.Scope()
        self.executor = ga.Executor()

    def values(self, mode: str = "compiled", steps: int = STEPS) -> list[dict[str, Array]]:
        """The content of the scope after each step."""
        scope, executor = ga.Scope(), ga.Executor(mode=mode)
        executor.run(self.startup, scope=scope)
        history = []
        for step in range(steps):
            x, y = inputs(step)
            executor.run(self.main, {"x": x, "y": y}, scope=scope)
            history.append({name: scope.get(name) for name in scope.names()})
        return history


def gradients(w: Array, b: Array, x: Array, y: Array, scale: float) -> dict[str, Array]:
    """The gradients by hand, unscaled: the product and its gradient are float32, everything else float64."""
    narrow = x.astype("float32")
    at = (narrow @ w.astype("float32")).astype("float64") + b
    cotangent = 2.0 * (at - y) / 4.0 * scale
    return {"w": (narrow.T @ cotangent.astype("float32")).astype("float64") / scale, "b": cotangent.sum(0) / scale}


def by_hand(name: str) -> list[dict[str, Any]]:
    """Paddle's rules of the scale, with the optimizer's formula in the steps without overflow."""
    rule = RULES[name][1]
    values: dict[str, Array] = {"w": W0, "b": np.zeros(1)}
    kept: dict[str, State] = {"w": {}, "b": {}}
    scale, good, bad, updates = 2.0**15, 0, 0, 0
    history: list[dict[str, Any]] = []
    for step in range(STEPS):
        with np.errstate(all="ignore"):
            found = gradients(values["w"], values["b"], *inputs(step), scale)
        if all(np.isfinite(g).all() for g in found.values()):
            updates, good, bad = updates + 1, good + 1, 0
            values = {p: rule(values[p], found[p], kept[p], updates) for p in values}
            if good == GROWTH["incr_every_n_steps"]:
                scale, good = scale * GROWTH["incr_ratio"], 0
        else:
            good, bad = 0, bad + 1
            if bad == GROWTH["decr_every_n_nan_or_inf"]:
                scale, bad = max(1.0, scale * GROWTH["decr_ratio"]), 0
        history.append({**values, "loss_scaling_0": scale, "num_good_steps_0": good, "num_bad_steps_0": bad})
    return history


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("name", RULES)
def test_thirty_steps_with_overflow_are_those_by_hand(name: str) -> None:
    line, expected = Line(RULES[name][0]()), by_hand(name)
    got = line.values()
    assert len({step["loss_scaling_0"] for step in expected}) > 3
    for step, (one, other) in enumerate(zip(got, expected, strict=True)):
        for what, value in other.items():
            np.testing.assert_allclose(
                one[what].reshape(np.shape(value) or -1), value, rtol=1e-5, atol=1e-7, err_msg=f"{what}, step {step}"
            )
    for step in (*OVERFLOWS, NAN):  # nothing that is kept moves, powers of beta included
        for what in set(got[step]) - {"loss_scaling_0", "num_good_steps_0", "num_bad_steps_0"}:
            assert np.array_equal(got[step][what], got[step - 1][what]), (what, step)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("name", ["sgd", "adam", "adamax"])
def test_compiled_is_interpreted(name: str) -> None:
    line = Line(RULES[name][0]())
    for one, other in zip(line.values(), line.values("interpreted"), strict=True):
        assert all(one[what].tobytes() == other[what].tobytes() for what in other)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_gradients_are_clipped_and_decayed_unscaled_and_a_skipped_step_does_not_decay() -> None:
    line = Line(SGD(LR, regularization=L2Decay(0.5), grad_clip=ClipByGlobalNorm(0.25)))
    history = line.values(steps=8)
    w, b = (history[1][name] for name in "wb")
    raw = gradients(w, b, *inputs(2), 2.0**15)
    factor = 0.25 / max(0.25, float(np.sqrt(sum(np.sum(g**2) for g in raw.values()))))
    assert factor < 1.0
    np.testing.assert_allclose(history[2]["w"], w - LR * (raw["w"] * factor + 0.5 * w), rtol=1e-6)
    np.testing.assert_array_equal(history[3]["w"], history[2]["w"])


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_gradients_that_are_fetched_are_unscaled_and_zero_where_one_overflowed() -> None:
    line, scope, executor = Line(Adam(LR)), ga.Scope(), ga.Executor()
    executor.run(line.startup, scope=scope)
    assert [(p.name, g.name) for p, g in line.pairs] == [("w", "w@GRAD"), ("b", "b@GRAD")]
    assert [op.type for op in line.updates] == ["adam", "adam"]
    x, y = inputs(0)
    got = executor.run(line.main, {"x": x, "y": y}, ["w@GRAD", "b@GRAD", f"{line.cost.name}@GRAD"], scope)
    raw = gradients(W0, np.zeros(1), x, y, 2.0**15)
    np.testing.assert_allclose(got[0], raw["w"], rtol=1e-5)
    np.testing.assert_allclose(got[1], raw["b"], rtol=1e-5)
    assert got[2] == 1.0
    got = executor.run(line.main, {"x": x * 1e36, "y": y}, ["w@GRAD", "b@GRAD"], scope)
    assert not any(gradient.any() for gradient in got)


def test_a_scale_that_is_not_dynamic() -> None:
    line = Line(SGD(LR), use_dynamic_loss_scaling=False, init_loss_scaling=8.0)
    assert line.optimizer.get_loss_scaling() == 8.0
    assert not any(op.type == "update_loss_scaling" for op in line.main.global_block().ops)
    np.testing.assert_allclose(line.values(steps=1)[0]["w"], W0 - LR * gradients(W0, np.zeros(1), *inputs(0), 8.0)["w"], rtol=1e-6)


def test_the_pass_does_nothing_the_second_time() -> None:
    line = Line(Adam(LR))
    assert isinstance(line.optimizer.get_loss_scaling(), ga.Variable)
    graph = ga.lower(line.main)
    assert not line.optimizer.narrowing.run(graph)
    assert sum(op.type == "check_finite_and_unscale" for op in graph.ops) == 1


def test_the_test_program_has_neither_scale_nor_check() -> None:
    line = Line(Adam(LR))
    roles = {op.role for op in line.main.clone(for_test=True).global_block().ops}
    assert not roles & {"backward", "optimize"}


SECOND = """program { block 0 { var x: float32[3] var loss_scaling_0: float32[1] persistable
var num_good_steps_0: int32[1] persistable var num_bad_steps_0: int32[1] persistable
var h@GRAD: float32[3] var g@GRAD: float32[3] var p@GRAD: float32[3] var gx@GRAD: float32[3]
fill_any_like(X=x) -> (Out=g@GRAD) {value=1.0} backward
square_grad(X=x, Out@GRAD=g@GRAD) -> (X@GRAD=h@GRAD) backward
elementwise_mul(X=h@GRAD, Y=h@GRAD) -> (Out=p@GRAD) backward
elementwise_mul(X=h@GRAD, Y=x) -> (Out=gx@GRAD) backward } }"""


def test_gradients_of_gradients_are_divided_where_the_backward_part_reads_them() -> None:
    graph = ga.lower(ga.Program.parse(SECOND), ["p@GRAD", "gx@GRAD"])
    assert MixedPrecision(dynamic_loss_scale=True).run(graph)
    scope = ga.Scope()
    for name, dtype, value in (("loss_scaling_0", "float32", 4), ("num_good_steps_0", "int32", 0), ("num_bad_steps_0", "int32", 0)):
        scope.set(name, np.array([value], dtype))
    feed = {"x": np.array([1.0, 2.0, 3.0], "float32")}
    product, gradient = ga.Executor().run(ga.schedule(graph), feed, ["p@GRAD", "gx@GRAD"], scope)
    assert product.tolist() == [4.0, 16.0, 36.0]
    assert gradient.tolist() == [2.0, 8.0, 18.0]
    assert scope.get("num_good_steps_0").tolist() == [1]


@pytest.mark.parametrize("keep", [(), ("hidden",)])
def test_what_is_narrow_is_fetched_by_its_own_name(keep: tuple[str, ...]) -> None:
    main, startup, scope = ga.Program(), ga.Program(), ga.Scope()
    with ga.program_guard(main, startup):
        x = ga.layers.data("x", [2])
        product = x @ ga.layers.create_parameter([2, 2], "float32", name="w")
        hidden = main.global_block().create_var("hidden", [-1, 2], "float32")
        main.global_block().append_op("relu", {"X": product}, {"Out": hidden})
        decorate(SGD(LR), keep=keep).minimize(ga.layers.mean(ga.layers.fc(hidden, 1)))
    executor, feed = ga.Executor(), {"x": np.ones((3, 2), "float32")}
    executor.run(startup, scope=scope)
    if keep:
        assert executor.run(main, feed, [hidden], scope)[0].dtype == np.float32
    else:
        assert executor.run(main, feed, ["hidden@FLOAT16"], scope)[0].dtype == np.float16
        with pytest.raises(
            ValueError, match=r"no operator writes; in mixed precision there is 'hidden@FLOAT16', and keep=\['hidden'\] leaves"
        ):
            executor.run(main, feed, [hidden], scope)


def test_refusals() -> None:
    with pytest.raises(GraphadError, match=r"is an Optimizer, not 0\.5"):
        decorate(0.5)  # type: ignore[arg-type]
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"init_loss_scaling": 0.5}, "init_loss_scaling is 1 or more, not 0.5"),
        ({"incr_ratio": 1.0}, "incr_ratio is above 1, not 1.0"),
        ({"decr_ratio": 2.0}, "decr_ratio is between 0 and 1, not 2.0"),
        ({"incr_every_n_steps": 0}, "incr_every_n_steps is a number of steps from 1 on, not 0"),
        ({"decr_every_n_nan_or_inf": 1.5}, "decr_every_n_nan_or_inf is a whole number, not 1.5"),
        ({"dtype": "int8"}, "narrow types float16, float32, not int8"),
        ({"keep": "mul"}, "keep is a sequence"),
        ({"use_dynamic_loss_scaling": 1}, "True or False, not 1"),
    )
    for options, message in refused:
        with pytest.raises(GraphadError, match=message):
            decorate(SGD(0.5), **options)
    with pytest.raises(ValueError, match=r"scaled by 8\.0, or dynamically"):
        MixedPrecision(loss_scale=8.0, dynamic_loss_scale=True)
    line = Line(SGD(LR))
    with ga.program_guard(line.main, line.startup), pytest.raises(ValueError, match="has a dynamic scale of its loss already"):
        decorate(SGD(LR)).minimize(line.cost)
    with pytest.raises(PassError, match="the program declares no 'another'"):
        MixedPrecision(dynamic_loss_scale=True, loss_scaling="another").run(ga.lower(line.main))
