"""Fluid's recurrent layers over padded sequences: what PaddlePaddle's operators compute, by the equations of Fluid's documentation.

``lstm`` and ``gru`` of PaddlePaddle 2.6.2, which take sequences of different lengths, give the same on these numbers, to 4e-16.
"""

from __future__ import annotations

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from tests.documented_call import Array

BATCH, TIME, WIDTH, OUTWARD = 3, 4, 2, 3
LENGTHS = [4, 2, 3]
RNG = np.random.default_rng(0)
SUMS, GRU_SUMS = RNG.normal(size=(BATCH, TIME, 4 * WIDTH)), RNG.normal(size=(BATCH, TIME, 3 * WIDTH))
WEIGHT, NARROW, BACK = RNG.normal(size=(WIDTH, 4 * WIDTH)), RNG.normal(size=(OUTWARD, 4 * WIDTH)), RNG.normal(size=(WIDTH, OUTWARD))
BIAS, GRU_WEIGHT, GRU_BIAS = RNG.normal(size=(1, 7 * WIDTH)), RNG.normal(size=(WIDTH, 3 * WIDTH)), RNG.normal(size=(1, 3 * WIDTH))


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def lstm_of(x: Array, weight: Array, projection: Array | None) -> tuple[Array, Array]:
    """The hidden states and the cells of one sequence ``[time, 4 * width]``."""
    b, (check_i, check_f, check_o) = BIAS[0, : 4 * WIDTH], BIAS[0, 4 * WIDTH :].reshape(3, WIDTH)
    h, c, out = np.zeros(weight.shape[0]), np.zeros(WIDTH), []
    for step in x:
        candidate, i, f, o = np.split(step + b + h @ weight, 4)
        c_new = sigmoid(f + check_f * c) * c + sigmoid(i + check_i * c) * np.tanh(candidate)
        h = sigmoid(o + check_o * c_new) * np.tanh(c_new)
        h, c = h if projection is None else np.tanh(h @ projection), c_new
        out.append((h, c))
    return np.stack([each for each, _ in out]), np.stack([each for _, each in out])


def gru_of(x: Array, origin_mode: bool) -> Array:
    """The states of one sequence ``[time, 3 * width]``; the weight is two matrices in memory."""
    gates, last = GRU_WEIGHT.ravel()[: 2 * WIDTH * WIDTH].reshape(WIDTH, -1), GRU_WEIGHT.ravel()[2 * WIDTH * WIDTH :].reshape(WIDTH, -1)
    h, out = np.zeros(WIDTH), []
    for step in x + GRU_BIAS:
        update, reset = np.split(sigmoid(step[: 2 * WIDTH] + h @ gates), 2)
        candidate = np.tanh(step[2 * WIDTH :] + (reset * h) @ last)
        h = update * h + (1 - update) * candidate if origin_mode else (1 - update) * h + update * candidate
        out.append(h)
    return np.stack(out)


def attr(value: Array) -> L.ParamAttr:
    return L.ParamAttr(initializer=ga.initializer.NumpyArrayInitializer(value))


def found(reverse: bool) -> list[Array]:
    """Hidden states and cells of both LSTMs, and the states of the GRU in both modes."""
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        x, y, length = L.assign(SUMS), L.assign(GRU_SUMS), L.assign(np.array(LENGTHS))
        lstm = L.dynamic_lstm(x, 4 * WIDTH, param_attr=attr(WEIGHT), bias_attr=attr(BIAS), is_reverse=reverse, length=length)
        own = L.ParamAttr(name="w", initializer=ga.initializer.NumpyArrayInitializer(NARROW))
        lstmp = L.dynamic_lstmp(x, 4 * WIDTH, OUTWARD, param_attr=own, bias_attr=attr(BIAS), is_reverse=reverse, length=length)
        gru = [
            L.dynamic_gru(y, WIDTH, attr(GRU_WEIGHT), attr(GRU_BIAS), is_reverse=reverse, origin_mode=mode, length=length)
            for mode in (False, True)
        ]
    scope, executor = ga.Scope(), ga.Executor()
    executor.run(startup, scope=scope)
    scope.set("w_proj", BACK)
    return executor.run(main, {}, [*lstm, *lstmp, *gru], scope=scope)


@pytest.mark.parametrize("reverse", [False, True])
def test_recurrent_layers_are_those_of_fluid(reverse: bool) -> None:
    order = slice(None, None, -1 if reverse else 1)
    results = found(reverse)
    for sample, count in enumerate(LENGTHS):
        x, y = SUMS[sample, :count][order], GRU_SUMS[sample, :count][order]
        expected = [*lstm_of(x, WEIGHT, None), *lstm_of(x, NARROW, BACK), gru_of(y, False), gru_of(y, True)]
        for result, each in zip(results, expected, strict=True):
            np.testing.assert_allclose(result[sample, :count], each[order], rtol=1e-12, atol=1e-14)


def test_what_is_beyond_the_lengths_has_no_gradient() -> None:
    with ga.program_guard(ga.Program(), ga.Program()) as program:
        x = L.data("x", [2, 3, 8], append_batch_size=False, dtype="float64", stop_gradient=False)
        length = L.assign(np.array([1, 3]))
        hidden, _ = L.dynamic_lstm(x, 8, length=length)
        kinds = [L.sequence_pool(hidden, kind, length=length) for kind in ("sum", "max", "last")]
        (gradient,) = ga.gradients(L.sums([each.sum() for each in kinds]), x)
        start = ga.default_startup_program()
    executor = ga.Executor()
    executor.run(start)
    padded = np.where(np.arange(3)[:, None] < np.array([1, 3])[:, None, None], np.ones((2, 3, 8)), 1e3)
    (result,) = executor.run(program, {"x": padded}, [gradient])
    assert np.all(result[0, 1:] == 0)
    assert np.all((result[1] != 0).any(1))
    assert np.any(result[0, 0] != 0)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("L.sequence_pool(x, 'mean')", "pool_type is 'average'"),
        ("L.sequence_pool(L.assign(1.0), 'sum')", "takes sequences"),
        ("L.sequence_concat(x)", "takes a list of tensors"),
        ("L.sequence_concat([x, x], length=[x])", "length is a list of 2"),
        ("L.sequence_conv(x, 2, filter_stride=2)", "filter_stride is 1"),
        ("L.sequence_expand(x[:, 0], x, 1)", "one level"),
        ("L.sequence_reshape(x, 5)", "whose product 5 divides"),
        ("L.dynamic_lstm(x, 16)", "takes sums"),
        ("L.dynamic_gru(x, 2)", "three times the size"),
        ("L.dynamic_gru(x[:, :, :6], 2, gate_activation='swish')", "activations are"),
    ],
)
def test_what_sequences_refuse(code: str, message: str) -> None:
    with ga.program_guard(ga.Program(), ga.Program()):
        x = L.data("x", [2, 3, 8], append_batch_size=False)
        with pytest.raises((TypeError, ValueError), match=message):
            eval(code, {"L": L, "x": x})
