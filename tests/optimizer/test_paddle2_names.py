"""Paddle 2's words for what every optimizer takes: ``weight_decay`` and ``parameters``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from tests.documented_call import Array


def _trained(optimizer: Callable[[list[Any]], Any]) -> list[Array]:
    """Two parameters that start at 1, after one step along their sum."""
    with ga.scope_guard(ga.Scope()), ga.program_guard(ga.Program(), ga.Program()):
        start = ga.initializer.Constant(1.0)
        weights = [ga.layers.create_parameter([1], "float32", name=name, default_initializer=start) for name in "vw"]
        optimizer(weights).minimize(ga.layers.sum(weights[0] + weights[1]))
        executor = ga.Executor()
        executor.run(ga.default_startup_program())
        executor.run()
        return [ga.global_scope().get(name) for name in "vw"]


@pytest.mark.parametrize("decay", [0.5, ga.regularizer.L2Decay(0.5)])
def test_a_decay_is_a_number_or_a_regularizer(decay: Any) -> None:
    for found in _trained(lambda _: ga.optimizer.SGD(0.1, weight_decay=decay)):
        np.testing.assert_allclose(found, 1 - 0.1 * (1 + 0.5), rtol=1e-6)


def test_only_parameters_are_updated() -> None:
    found = _trained(lambda weights: ga.optimizer.SGD(0.1, parameters=weights[1:]))
    np.testing.assert_allclose(found, [[1.0], [0.9]], rtol=1e-6)


def test_the_decay_of_adamw_stays_its_own() -> None:
    first = _trained(lambda _: ga.optimizer.AdamW(0.1, weight_decay=0.0))[0]
    second = _trained(lambda _: ga.optimizer.AdamW(0.1, weight_decay=0.5))[0]
    np.testing.assert_allclose(first - second, 0.1 * 0.5, rtol=1e-5)
