"""Elementwise calls on large arrays, tile by tile: the same bits, and only where the cost model says that it pays."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from graphad.execution import planning

TILED = "elementwise operations on"


def text_of(build: Callable[[Any, Any], list[Any]], size: int, dtype: str = "float32") -> tuple[str, ga.Program, list[Any]]:
    program = ga.Program()
    with ga.program_guard(program):
        results = build(*(L.data(name, [size], dtype=dtype, append_batch_size=False) for name in "xy"))
    return ga.to_python(program, results), program, results


def chain(length: int) -> Callable[[Any, Any], list[Any]]:
    def build(x: Any, y: Any) -> list[Any]:
        for i in range(length):
            x = x * y if i % 2 else x + y
        return [x]

    return build


@pytest.mark.parametrize(
    ("build", "size", "pays"),
    [
        (chain(20), 1 << 21, True),
        (chain(20), 1 << 16, False),  # both arrays and the result stay in the cache
        (chain(2), 1 << 21, False),  # one array less is read again
        (lambda x, y: [x + y, x * y, x - y], 1 << 21, False),  # all results are written
        (lambda x, y: [L.sqrt(L.abs(x)) + y], 1 << 21, False),  # in place
    ],
)
def test_calls_are_grouped_where_that_saves_more_than_it_costs(build: Any, size: int, pays: bool) -> None:
    assert (TILED in text_of(build, size)[0]) == pays


def mixed(x: Any, y: Any) -> list[Any]:
    t = L.where(L.greater_than(x, y), x * 2.0, L.tanh(y))
    return [t - x, L.cast(L.relu(t), "float64") * 0.5, L.mean(L.square(t - y))]


@pytest.mark.parametrize("build", [chain(5), mixed])
@pytest.mark.parametrize("size", [planning.LARGE, planning.LARGE + 1, 3 * planning.LARGE - 7])
def test_tiles_give_the_same_bits(build: Any, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "pays", lambda group: True)
    text, program, results = text_of(build, size)
    assert TILED in text
    rng = np.random.default_rng(0)
    feed = {name: rng.standard_normal(size).astype("float32") for name in "xy"}
    interpreted = ga.Executor(mode="interpreted").run(program, feed, results)
    executor = ga.Executor()
    for _ in range(3):
        for found, expected in zip(executor.run(program, feed, results), interpreted, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_buffers_begin_at_a_cache_line() -> None:
    text, *_ = text_of(chain(20), 1 << 21)
    (line,) = [line for line in text.splitlines() if line.strip().startswith("tile_float32_0 = ")]
    assert line.strip() == "tile_float32_0 = part(block(131072), 0, (32768,), 'float32')"
