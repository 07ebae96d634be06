"""Optimizers around another one, against the same steps written out in numpy or made without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import optimizer as O
from graphad.errors import InvalidType, InvalidValue
from graphad.types import Array

fluid: Any = ga  # calls that type checkers refuse are made on purpose
BATCHES = np.random.default_rng(0).normal(size=(6, 5, 4)).astype("float32")


def trained(minimize: Callable[[Any, Any], Any], batches: Array = BATCHES) -> dict[str, Array]:
    """All that outlives a run, after a run for each batch; of the last run the loss."""
    main, startup = ga.Program(), ga.Program()
    main.random_seed = startup.random_seed = 5
    with ga.program_guard(main, startup):
        hidden = ga.layers.fc(fluid.data("x", [None, 4]), 8, act="tanh", param_attr="w", bias_attr="b")
        loss = ga.layers.mean(ga.layers.square(ga.layers.fc(hidden, 1, param_attr="v", bias_attr=False)))
        minimize(loss, hidden)
    scope, executor = ga.Scope(), ga.Executor()
    executor.run(startup, scope=scope)
    last = [executor.run(main, {"x": batch}, [loss.name], scope) for batch in batches][-1]
    return {**{name: scope.get(name) for name in scope.names()}, "loss": last[0]}


def optimizers() -> list[O.Optimizer]:
    clip = O.ClipByGlobalNorm(0.5)
    return [O.SGD(0.5, grad_clip=clip), O.Momentum(0.1, 0.9, regularization=O.L2Decay(0.1)), O.Adam(0.1), O.Adamax(0.1), O.Lamb(0.1)]


@pytest.mark.parametrize("number", range(5), ids=[type(each).__name__ for each in optimizers()])
def test_merged_gradients_are_those_of_a_larger_batch(number: int) -> None:
    """The loss is a mean: two batches of five give what one of ten does."""
    joined = trained(lambda loss, _: optimizers()[number].minimize(loss), BATCHES.reshape(3, 10, 4))
    merged = trained(lambda loss, _: O.GradientMergeOptimizer(optimizers()[number], k_steps=2).minimize(loss))
    assert joined.keys() - {"loss"} <= merged.keys()
    for name in joined.keys() - {"loss"}:
        np.testing.assert_allclose(merged[name], joined[name], rtol=2e-4, atol=1e-6, err_msg=name)


def test_between_steps_nothing_changes() -> None:
    start, waiting = (
        trained(lambda loss, _: O.GradientMergeOptimizer(O.Adam(0.1), 4, avg=False).minimize(loss), BATCHES[:count]) for count in (0 + 1, 3)
    )
    for name in ("w", "b", "v", "w_moment1_0", "w_beta1_pow_acc_0"):
        np.testing.assert_array_equal(start[name], waiting[name])
    assert np.abs(waiting["w@GradientMerge"]).max() > np.abs(start["w@GradientMerge"]).max() / 10
    stepped = trained(lambda loss, _: O.GradientMergeOptimizer(O.Adam(0.1), 4, avg=False).minimize(loss), BATCHES[:4])
    assert not np.array_equal(stepped["w"], start["w"])
    np.testing.assert_array_equal(stepped["w@GradientMerge"], 0)


def test_a_clone_for_tests_does_not_update() -> None:
    with ga.program_guard(ga.Program(), ga.Program()) as program:
        loss = ga.layers.mean(ga.layers.fc(fluid.data("x", [None, 4]), 2))
        O.GradientMergeOptimizer(O.Adam(0.1), 2).minimize(loss)
    assert [op.type for op in program.clone(for_test=True).global_block().ops] == ["mul", "elementwise_add", "mean"]


def test_what_is_computed_again_is_the_same() -> None:
    def recomputed(loss: Any, hidden: Any) -> None:
        optimizer = O.RecomputeOptimizer(O.Adam(0.1))
        optimizer._set_checkpoints([hidden])
        updates, pairs = optimizer.minimize(loss)
        assert [op.type for op in updates] == ["adam"] * 3
        assert [param.name for param, _ in pairs] == ["w", "b", "v"]

    def in_halves(loss: Any, _: Any) -> None:
        optimizer = O.RecomputeOptimizer(O.Adam(0.1))
        assert len(optimizer.apply_gradients(optimizer.backward(loss))) == 3

    plain = trained(lambda loss, _: O.Adam(0.1).minimize(loss))
    for minimize in (recomputed, in_halves):
        again = trained(minimize)
        assert again.keys() == plain.keys()
        for name in plain:
            np.testing.assert_array_equal(again[name], plain[name])


def test_a_decay_beside_the_gradient() -> None:
    decayed = ga.contrib.extend_with_decoupled_weight_decay(O.SGD)
    assert decayed.__name__ == "SGDWithDecoupledWeightDecay"

    def minimize(loss: Any, _: Any) -> None:
        decayed(0.1, weight_decay=0.25, apply_decay_param_fun=lambda name: name != "b").minimize(loss)

    start = trained(lambda loss, _: O.SGD(0.0).minimize(loss), BATCHES[:1])
    plain = trained(lambda loss, _: O.SGD(0.1).minimize(loss), BATCHES[:1])
    found = trained(minimize, BATCHES[:1])
    for name in ("w", "v", "b"):
        # The gradient is that before the decay.
        expected = plain[name] - (0.25 * start[name] if name != "b" else 0)
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fluid.optimizer.GradientMergeOptimizer("sgd"), InvalidType, "is an Optimizer"),
        (lambda: fluid.optimizer.GradientMergeOptimizer(O.SGD(0.1), 0), InvalidValue, "1 or more"),
        (lambda: fluid.optimizer.GradientMergeOptimizer(O.SGD(0.1), 2.0), InvalidType, "number of runs"),
        (lambda: fluid.optimizer.GradientMergeOptimizer(O.SGD(0.1)).minimize(3), InvalidType, "loss is a Variable"),
        (lambda: fluid.optimizer.RecomputeOptimizer(O.SGD), InvalidType, "is an Optimizer"),
        (lambda: fluid.optimizer.RecomputeOptimizer(O.SGD(0.1))._set_checkpoints("h"), InvalidType, "checkpoints is a list"),
        (lambda: fluid.contrib.extend_with_decoupled_weight_decay(O.SGD(0.1)), InvalidType, "a class of optimizers"),
    ],
)
def test_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
