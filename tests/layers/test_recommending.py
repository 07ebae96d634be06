"""Features normalized by all that was seen, with Paddle 2.6.2's numbers, and rows chosen by their tags."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers
from graphad.errors import InvalidType, InvalidValue, ShapeError

L: Any = layers  # calls that type checkers refuse are made on purpose
rng = np.random.default_rng(4)
X = rng.normal(size=(5, 4)).astype("float32")
X[1, 0] = X[3, 2] = 0
SIZE, SUM, SQUARE = (np.array(each, "float32") for each in ([10, 20, 30, 40], [1, -2, 3, 4], [5, 60, 70, 80]))
NAMES = ("data_norm_0.batch_size", "data_norm_0.batch_sum", "data_norm_0.batch_square_sum")


def test_data_norm_is_paddles_and_adds_a_batch() -> None:
    for slot, first, news in (
        (-1, [-1.0631933212280273, -0.0431380458176136, 1.0236976146697998, 0.39537712931632996], PLAIN),
        (2, [-1.0631933212280273, -0.0431380458176136, 1.0236976146697998, 0.39537712931632996], SLOTS),
    ):
        with ga.program_guard(ga.Program(), ga.Program()) as program, ga.scope_guard(ga.Scope()):
            x = ga.data("x", [None, 4])
            x.stop_gradient = False
            out = L.data_norm(x, slot_dim=slot, summary_decay_rate=0.5)
            (gradient,) = ga.gradients(L.reduce_sum(out), x)
            executor, scope = ga.Executor(), ga.global_scope()
            executor.run(ga.default_startup_program())
            assert [scope.get(name).tolist() for name in NAMES] == [[1e4] * 4, [0.0] * 4, [1e4] * 4]
            for name, array in zip(NAMES, (SIZE, SUM, SQUARE), strict=True):
                scope.set(name, array)
            test = program.clone(for_test=True)
            (same,) = executor.run(test, {"x": X}, [out])
            assert scope.get(NAMES[0]).tolist() == SIZE.tolist()  # a test adds nothing
            found, slope = executor.run(program, {"x": X}, [out, gradient])
            np.testing.assert_array_equal(found, same)
            np.testing.assert_allclose(found[0], first, rtol=1e-5)
            present = np.ones_like(X)
            if slot > 0:
                present[1, :2] = present[3, 2:] = 0
            np.testing.assert_allclose(slope, np.sqrt(SIZE / SQUARE) * present, rtol=1e-6)
            np.testing.assert_array_equal(found[present == 0], 0)
            for name, before, new in zip(NAMES, (SIZE, SUM, SQUARE), news, strict=True):
                np.testing.assert_allclose(scope.get(name), before * 0.5 + np.array(new), rtol=1e-5, err_msg=name)


# What Paddle's kernel gives as gradients of the statistics.
PLAIN = (
    [5.0] * 4,
    [-3.8589797019958496, 1.6741998195648193, 0.9457370042800903, 3.7554876804351807],
    [7.602907180786133, 1.9485222101211548, 3.1818277835845947, 8.088444709777832],
)
SLOTS = (
    [1.0] * 4,
    [-0.9647449254989624, 0.41985076665878296, 0.23643425107002258, 0.37568968534469604],
    [1.89825439453125, 0.4849114418029785, 0.7929844260215759, 0.8635777831077576],
)


def test_a_network_with_data_norm_trains() -> None:
    main, startup, scope = ga.Program(), ga.Program(), ga.Scope()
    startup.random_seed = 3
    with ga.program_guard(main, startup):
        x, y = ga.data("x", [None, 4]), ga.data("y", [None, 1])
        normed = L.data_norm(x, act="tanh", name="dn", enable_scale_and_shift=True, param_attr={"batch_size": 1.0, "batch_square": 1.0})
        cost = L.mean(L.square(L.fc(normed, 1) - y))
        ga.optimizer.Adam(0.05).minimize(cost)
    assert {p.name for p in main.all_parameters()} >= {"dn.scale_w_0", "dn.bias_0"}
    executor = ga.Executor()
    executor.run(startup, scope=scope)
    data = rng.normal(3.0, 2.0, size=(20, 8, 4)).astype("float32")
    costs = [float(executor.run(main, {"x": d, "y": np.tanh(d[:, :1] - 3)}, [cost], scope)[0]) for _ in range(10) for d in data]
    assert np.mean(costs[-20:]) < 0.2 * np.mean(costs[:20])
    # All samples but the first one that is there from the start have a mean of 3 and a spread of 2.
    size, total, square = (scope.get(f"dn.{name}") for name in ("batch_size", "batch_sum", "batch_square_sum"))
    np.testing.assert_allclose(size, 1601, rtol=1e-3)
    np.testing.assert_allclose(total / size, data.mean((0, 1)), rtol=1e-2)
    np.testing.assert_allclose(np.sqrt(square / size), data.std((0, 1)), rtol=0.05)


ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "float32")
TAGS = np.array([[7, 1], [2, 2], [1, 3]])


@pytest.mark.parametrize(
    ("wanted", "length", "rows", "weights"),
    [
        ([1], None, [0, 2], [1, 1]),
        ([2, 3], None, [1, 2], [1, 1]),
        ([1], [1, 1, 1], [2], [1]),  # the 1 of the first row is padding
        ([9], None, None, [0]),
        ([7, 2, 1], None, [0, 1, 2], [1, 1, 1]),
    ],
)
def test_rows_by_tags(wanted: list[int], length: list[int] | None, rows: list[int] | None, weights: list[float]) -> None:
    with ga.program_guard(ga.Program()) as program:
        x = ga.data("x", [None, 2])
        x.stop_gradient = False
        counts = None if length is None else L.assign(np.array(length))
        chosen, weight = L.filter_by_instag(x, L.assign(TAGS), L.assign(np.array(wanted)), True, out_val_if_empty=5, length=counts)
        (gradient,) = ga.gradients(L.reduce_sum(chosen * chosen * weight), x)
    found, found_weights, slope = ga.Executor().run(program, {"x": ROWS}, [chosen, weight, gradient])
    expected = np.full((1, 2), 5.0) if rows is None else ROWS[rows]
    np.testing.assert_array_equal(found, expected)
    assert found_weights.tolist() == [[each] for each in weights]
    assert found_weights.dtype == "float32"
    np.testing.assert_array_equal(slope, np.isin(np.arange(3), rows or [])[:, None] * 2 * ROWS)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, t: L.data_norm(t), ShapeError, "batch, features"),
        (lambda x, t: L.data_norm(x, slot_dim=3), ShapeError, "no whole number of groups"),
        (lambda x, t: L.data_norm(x, param_attr={"size": 1.0}), InvalidValue, "param_attr has"),
        (lambda x, t: L.data_norm(x, sync_stats=True), InvalidValue, "statistics"),
        (lambda x, t: L.filter_by_instag(x, t, t, False), ShapeError, "are expected"),
        (lambda x, t: L.filter_by_instag(x, x, x[0], False), InvalidType, "integers of one dtype"),
    ],
)
def test_refused(call: Any, error: type[Exception], message: str) -> None:
    with ga.program_guard(ga.Program(), ga.Program()), pytest.raises(error, match=message):
        call(ga.data("x", [3, 4]), ga.data("t", [3], "int64"))
