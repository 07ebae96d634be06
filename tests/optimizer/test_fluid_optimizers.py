"""Fluid's optimizers around others, and of large batches: against the same steps in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad
from graphad.errors import GraphadError, InvalidType, InvalidValue

fluid: Any = graphad  # calls that type checkers refuse are made on purpose
Array = NDArray[Any]
X = np.arange(12, dtype="float64").reshape(3, 4) / 10 - 0.5
Y = X[:, :1] + 1
START = np.full((4, 1), 0.1)


def slope(w: Array) -> Array:
    return np.asarray(2 * X.T @ (X @ w - Y) / 3)


def descended(steps: int) -> list[Array]:
    """The parameter after each step of SGD with 0.1."""
    weights = [START]
    for _ in range(steps):
        weights.append(weights[-1] - 0.1 * slope(weights[-1]))
    return weights[1:]


class Training:
    """A line that is fitted, in a scope of its own."""

    def __init__(self, optimizer: Callable[[], Any], attr: graphad.ParamAttr | None = None) -> None:
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(self.main, self.startup):
            x, y = (fluid.data(name, [None, width], "float64") for name, width in (("x", 4), ("y", 1)))
            attr = attr or fluid.ParamAttr("w", initializer=fluid.initializer.Constant(0.1))
            self.loss = fluid.layers.mse_loss(fluid.layers.fc(x, 1, param_attr=attr, bias_attr=False), y)
            self.made = optimizer()
            self.test = self.main.clone(for_test=True)
            self.minimized = (
                self.made.minimize(self.loss) if hasattr(self.made, "minimize") else fluid.optimizer.SGD(0.1).minimize(self.loss)
            )
        self.executor = fluid.Executor()
        self.executor.run(self.startup, scope=self.scope)

    def step(self, times: int = 1) -> Array:
        for _ in range(times):
            self.executor.run(self.main, {"x": X, "y": Y}, scope=self.scope)
        return np.array(self.scope.find_var("w").get_tensor())


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_lookahead_pulls_back_every_k_steps(steps: int) -> None:
    training = Training(lambda: fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.1), alpha=0.4, k=2))
    weight = slow = START
    for step in range(1, steps + 1):
        weight = weight - 0.1 * slope(weight)
        if step % 2 == 0:
            weight = slow = slow + 0.4 * (weight - slow)
    np.testing.assert_allclose(training.step(steps), weight)
    assert [param.name for param, _ in training.minimized[1]] == ["w"]
    # Of the clone for tests nothing is left that trains.
    kept = {op.type for op in training.main.clone(for_test=True).global_block().ops}
    assert not kept & {"sgd", "increment", "where", "assign"}


def averaged(*window: float) -> tuple[Training, Any]:
    training = Training(lambda: fluid.optimizer.SGD(0.1))
    with fluid.program_guard(training.main, training.startup):
        average = fluid.optimizer.ModelAverage(*window)
    training.scope = fluid.Scope()
    training.executor.run(training.startup, scope=training.scope)
    return training, average


def test_a_model_average_is_the_mean_of_all_steps_within_the_window() -> None:
    training, average = averaged(0.15)
    last = training.step(4)
    with fluid.scope_guard(training.scope), average.apply(training.executor):
        np.testing.assert_allclose(training.scope.get("w"), np.mean(descended(4), 0))
    np.testing.assert_array_equal(training.scope.get("w"), last)


def test_a_window_that_is_full_is_followed_by_another() -> None:
    """The averages are over the last full window and what was added since, as in Paddle's ``average_accumulates``."""
    training, average = averaged(0.5, 2, 3)
    new: list[Array] = []
    last: list[Array] = []
    for step, weight in enumerate(descended(9), 1):
        training.step()
        new.append(weight)
        if len(new) >= 2 and len(new) >= min(3, step * 0.5):
            new, last = [], new
        with fluid.scope_guard(training.scope), average.apply(training.executor, need_restore=False):
            np.testing.assert_allclose(training.scope.get("w"), np.mean([*last, *new], 0))
            average.restore(training.executor)
        np.testing.assert_allclose(training.scope.get("w"), weight)


def test_what_is_not_to_be_averaged_is_not() -> None:
    attr = fluid.ParamAttr("w", do_model_average=False)
    training = Training(lambda: fluid.optimizer.SGD(0.1), attr)
    with fluid.program_guard(training.main, training.startup), pytest.raises(InvalidValue, match="there is no parameter to average"):
        fluid.optimizer.ModelAverage(0.15)


def test_lars_scales_the_rate_by_the_lengths() -> None:
    training = Training(lambda: fluid.optimizer.LarsMomentum(0.5, momentum=0.9, lars_coeff=0.1, lars_weight_decay=0.02))
    weight, velocity = START, np.zeros_like(START)
    for _ in range(3):
        gradient, length = slope(weight), np.linalg.norm(weight)
        rate = 0.5 * 0.1 * length / (np.linalg.norm(gradient) + 0.02 * length)
        velocity = 0.9 * velocity + rate * (gradient + 0.02 * weight)
        weight = weight - velocity
        np.testing.assert_allclose(training.step(), weight)


@pytest.mark.parametrize("dim", [None, 0, 1, -1])
def test_a_normalized_weight_starts_as_its_direction_and_both_are_trained(dim: int | None) -> None:
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 4])
        attr = fluid.WeightNormParamAttr(dim=dim, name="w", initializer=fluid.initializer.Uniform(0.5, 1.0, seed=3))
        out = fluid.layers.fc(x, 2, param_attr=attr, bias_attr=False)
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(out * out))
    executor, feed = fluid.Executor(), {"x": X.astype("float32")}
    executor.run(startup, scope=scope)
    direction, length = scope.get("w_v"), scope.get("w_g")
    axes = {None: (0, 1), 0: (1,), 1: (0,), -1: (0,)}[dim]
    np.testing.assert_allclose(length, np.sqrt((direction**2).sum(axes)).reshape(length.shape), rtol=1e-6)
    np.testing.assert_allclose(executor.run(main, feed, [out], scope=scope)[0], feed["x"] @ direction, rtol=1e-5)
    # w_g has moved, and the new weight is the new direction at the new length.
    new, g = scope.get("w_v"), scope.get("w_g")
    assert not np.allclose(g, length)
    shape = [1, 1] if dim is None else [4, 1] if dim == 0 else [1, 2]
    expected = feed["x"] @ (new / np.sqrt((new**2).sum(axes, keepdims=True)) * g.reshape(shape))
    np.testing.assert_allclose(executor.run(main, feed, [out], scope=scope)[0], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fluid.optimizer.LookaheadOptimizer(0.1), InvalidType, r"inner_optimizer is an Optimizer, such as SGD\(0.1\), not 0.1"),
        (lambda: fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.1), 1.5), InvalidValue, "alpha is from 0 to 1, not 1.5"),
        (lambda: fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.1), k=0), InvalidValue, "k is 1 or more, not 0"),
        (lambda: fluid.optimizer.ModelAverage(0.1, 5, 3), InvalidValue, "min_average_window=5, max_average_window=3"),
        (lambda: fluid.optimizer.ModelAverage("a"), InvalidType, "average_window_rate is a number, not 'a'"),
        (lambda: fluid.WeightNormParamAttr("w"), InvalidType, "dim is an axis or None, not 'w'"),
        (
            lambda: fluid.layers.create_parameter([2, 3], "float32", attr=fluid.WeightNormParamAttr(dim=2)),
            InvalidValue,
            r"dim=2 is no axis of a parameter \[2, 3\]",
        ),
    ],
)
def test_refused(call: Callable[[], Any], error: type[GraphadError], message: str) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()), pytest.raises(error, match=message):
        call()
