"""Calls as Fluid's and numpy's documentation has them: the value is numpy's, and so is the slope."""

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from tests.documented_call import Array, Call
from tests.documented_fluid import FLUID
from tests.documented_fluid_more import FLUID_MORE
from tests.documented_fluid_rest import FLUID_REST
from tests.documented_numpy import NUMPY
from tests.documented_spellings import SPELLINGS


def values(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list | tuple) else [result]


def weighted(each: Array) -> Array:
    """Weights that tell one element from another."""
    return np.asarray(np.sin(np.arange(each.size) + 1.0).reshape(each.shape))


def slope_of(call: Call, at: int, direction: Array) -> float:
    """The central difference of the reference along a direction, weighted as the program is."""

    def loss(array: Array) -> float:
        outputs = values(call.reference(*call.arrays[:at], array, *call.arrays[at + 1 :]))
        return float(sum((weighted(np.asarray(each)) * each).sum() for each in outputs))

    return (loss(call.arrays[at] + 1e-6 * direction) - loss(call.arrays[at] - 1e-6 * direction)) / 2e-6


@pytest.mark.parametrize("call", [*FLUID, *FLUID_MORE, *FLUID_REST, *SPELLINGS, *NUMPY], ids=str)
def test_a_documented_call_means_what_the_documentation_says(call: Call) -> None:
    main, startup = ga.Program(), ga.Program()
    expected = [np.asarray(each) for each in values(call.reference(*call.arrays))]
    with ga.program_guard(main, startup):
        names = [f"x{at}" for at in range(len(call.arrays))]
        inputs = [
            L.data(name, list(array.shape), append_batch_size=False, dtype=str(array.dtype), stop_gradient=array.dtype != np.float64)
            for name, array in zip(names, call.arrays, strict=True)
        ]
        outputs = values(call.call(*inputs))
        differentiable = (
            [at for at, array in enumerate(call.arrays) if array.dtype == np.float64 and at not in call.fixed] if call.slope else []
        )
        gradients = []
        if differentiable:
            weights = [L.assign(weighted(each)) for each in expected]
            gradients = ga.gradients(outputs, [inputs[at] for at in differentiable], target_gradients=weights)
    executor = ga.Executor()
    scope = ga.Scope()
    executor.run(startup, scope=scope)
    results = executor.run(main, dict(zip(names, call.arrays, strict=True)), [*outputs, *gradients], scope=scope)
    for result, each in zip(results, expected, strict=False):
        assert result.size == each.size
        np.testing.assert_allclose(result.reshape(each.shape), each, rtol=1e-9, atol=1e-12)
        assert result.shape == each.shape or each.shape == ()
    for result, at in zip(results[len(expected) :], differentiable, strict=True):
        for turn in range(4):
            direction = np.cos(np.arange(result.size) * (turn + 1.5)).reshape(result.shape)
            np.testing.assert_allclose((result * direction).sum(), slope_of(call, at, direction), rtol=1e-6, atol=1e-7)
