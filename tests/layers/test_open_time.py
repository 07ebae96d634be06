"""Recurrent layers over sequences whose number of steps only a run knows: the same as where it is declared, derivatives included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from tests.documented_call import Array

RNG = np.random.default_rng(5)
SEQUENCES, LENGTHS = RNG.normal(size=(2, 4, 12)), np.array([4, 2])


def _start(value: float) -> L.ParamAttr:
    return L.ParamAttr(initializer=ga.initializer.Constant(value))


def _rnn(**options: Any) -> Callable[[Any, Any], Any]:
    def network(x: Any, length: Any) -> Any:
        cell = L.GRUCell(3, dtype="float64", param_attr=_start(0.1))
        out, states = L.rnn(cell, x, sequence_length=length, **options)
        return out + L.unsqueeze(states, [1])

    return network


def _static(x: Any, length: Any) -> Any:
    network, words = L.StaticRNN(), L.transpose(x, [1, 0, 2])
    with network.step():
        word = network.step_input(words)
        total = network.memory(shape=[-1, 12], batch_ref=word)
        network.update_memory(total, L.tanh(total + word))
        network.step_output(total * word)
    return network()


def _dynamic(x: Any, length: Any) -> Any:
    network = L.DynamicRNN(length=length)
    with network.block():
        word = network.step_input(x)
        total = network.memory(shape=[12], value=0.5)
        network.update_memory(total, L.tanh(total + word))
        network.output(total * word)
    return network()


NETWORKS = {
    "rnn": _rnn(),
    "rnn backwards": _rnn(is_reverse=True),
    "dynamic_lstm": lambda x, length: L.dynamic_lstm(x, 12, param_attr=_start(0.1), bias_attr=_start(0.2), length=length)[0],
    "dynamic_lstm without lengths": lambda x, length: L.dynamic_lstm(x, 12, param_attr=_start(0.1), bias_attr=_start(0.2))[0],
    "dynamic_gru": lambda x, length: L.dynamic_gru(x, 4, param_attr=_start(0.1), length=length),
    "StaticRNN": _static,
    "DynamicRNN": _dynamic,
}


def _results(network: Callable[[Any, Any], Any], shape: list[Any], feed: dict[str, Array]) -> list[Array]:
    with ga.scope_guard(ga.Scope()), ga.program_guard(ga.Program(), ga.Program()):
        x, length = ga.data("x", shape, "float64"), ga.data("length", [None], "int64")
        x.stop_gradient = False
        out = network(x, length)
        gradient: Any = ga.gradients(L.reduce_sum(out * out), [x])[0]
        (second,) = ga.gradients(L.reduce_sum(gradient * gradient), [x])
        executor = ga.Executor()
        executor.run(ga.default_startup_program())
        return executor.run(feed=feed, fetch_list=[out, gradient, second])


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_the_number_of_steps_may_be_open(network: Callable[[Any, Any], Any]) -> None:
    feed = {"x": SEQUENCES, "length": LENGTHS}
    for declared, found in zip(_results(network, [2, 4, 12], feed), _results(network, [None, None, 12], feed), strict=True):
        np.testing.assert_array_equal(found, declared)


def test_one_program_runs_over_sequences_of_several_lengths() -> None:
    with ga.scope_guard(ga.Scope()), ga.program_guard(ga.Program(), ga.Program()):
        x = ga.data("x", [None, None, 12], "float64")
        out = _static(x, None)
        executor = ga.Executor()
        for steps in (1, 3, 7, 3):
            values = RNG.normal(size=(2, steps, 12))
            (found,) = executor.run(feed={"x": values}, fetch_list=[out])
            total, expected = np.zeros((2, 12)), list[Array]()
            for word in values.swapaxes(0, 1):
                expected += [total * word]
                total = np.tanh(total + word)
            np.testing.assert_allclose(found, expected)


def test_step_inputs_of_other_lengths_are_refused() -> None:
    with ga.program_guard(ga.Program(), ga.Program()):
        network = L.StaticRNN()
        x, y = ga.data("x", [3, 2]), ga.data("y", [4, 2])
        with pytest.raises(ValueError, match=r"\[T, ...\] with T = 3, as the step input before"), network.step():
            [network.step_input(each) for each in (x, y)]
