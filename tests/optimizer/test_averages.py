"""ExponentialMovingAverage beside the same in numpy: values, what a clone for tests does, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from graphad.errors import InvalidType, InvalidValue

X = np.array([[1.0, -2.0], [0.5, 3.0]], dtype="float32")


@pytest.fixture(autouse=True)
def _own_scope() -> Iterator[None]:
    with ga.program_guard(ga.Program(), ga.Program()), ga.scope_guard(ga.Scope()):
        yield


def _net() -> ga.Variable:
    x = ga.data("x", [None, 2])
    loss = L.mean(L.square(L.fc(x, 3, param_attr="w", bias_attr="b") - 1.0))
    ga.optimizer.SGD(0.1).minimize(loss)
    return loss


@pytest.mark.parametrize("counted", [False, True])
def test_averages_are_numpys_and_are_taken_back(counted: bool) -> None:
    _net()
    steps = L.autoincreased_step_counter(begin=0) if counted else None
    average = ga.optimizer.ExponentialMovingAverage(0.8, thres_steps=steps)
    average.update()
    executor, scope = ga.Executor(), ga.global_scope()
    executor.run(ga.default_startup_program())
    mean, weight = {"w": np.zeros((2, 3)), "b": np.zeros(3)}, 0.0
    for step in range(4):
        executor.run(feed={"x": X})
        decay = min(0.8, (1 + step) / (10 + step)) if counted else 0.8
        mean = {name: decay * value + (1 - decay) * scope.get(name) for name, value in mean.items()}
        weight = decay * weight + 1 - decay
        last = {name: scope.get(name).copy() for name in mean}
        with average.apply(executor):
            for name, value in mean.items():
                np.testing.assert_allclose(scope.get(name), value / weight, rtol=1e-5)
                assert scope.get(name).dtype == np.float32
        for name, value in last.items():
            np.testing.assert_array_equal(scope.get(name), value)
    with average.apply(executor, need_restore=False):
        pass
    np.testing.assert_allclose(scope.get("w"), mean["w"] / weight, rtol=1e-5)
    average.restore(executor)
    np.testing.assert_array_equal(scope.get("w"), last["w"])


def test_a_clone_for_tests_does_not_average() -> None:
    _net()
    ga.optimizer.ExponentialMovingAverage(name="mine").update()
    main = ga.default_main_program()
    assert {"mine.w.ema", "mine.b.ema", "mine.ema_remainder"} <= {var.name for var in main.list_vars()}
    assert not [name for op in main.clone(for_test=True).global_block().ops for name in op.output_names() if "ema" in name]


def test_what_is_too_early_or_twice_is_refused() -> None:
    average = ga.optimizer.ExponentialMovingAverage(0.9)
    with pytest.raises(InvalidValue, match="no trainable parameter"):
        average.update()
    _net()
    with pytest.raises(InvalidValue, match="call update after minimize"), average.apply(ga.Executor()):
        pass
    average.update()
    with pytest.raises(InvalidValue, match="call it once"):
        average.update()
    ga.Executor().run(ga.default_startup_program())
    with pytest.raises(InvalidValue, match="no step has been run"), average.apply(ga.Executor()):
        pass
    with pytest.raises(InvalidValue, match="decay"):
        ga.optimizer.ExponentialMovingAverage(1.0)
    with pytest.raises(InvalidType, match="thres_steps is a Variable"):
        ga.optimizer.ExponentialMovingAverage(0.9, 10)  # type: ignore[arg-type]
