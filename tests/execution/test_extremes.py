"""Maxima and minima with one number in compiled programs: the same bits as the interpreter's, by arrays full of the number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers
from graphad.execution import codegen, extremes, planning

Array = np.ndarray[Any, Any]


def both(program: ga.Program, feed: dict[str, Array], fetches: list[Any]) -> tuple[list[bytes], list[bytes]]:
    """The bytes of what is fetched, compiled (the third run) and interpreted."""
    executors = [ga.Executor(mode=mode) for mode in ("compiled", "interpreted")]
    runs = [[executor.run(program, feed=feed, fetch_list=fetches) for _ in range(3)][-1] for executor in executors]
    compiled, interpreted = ([array.tobytes() for array in run] for run in runs)
    return compiled, interpreted


def special(shape: tuple[int, ...], dtype: str) -> Array:
    x = np.random.default_rng(4).normal(0, 4, shape).astype(dtype)
    flat = x.reshape(-1)
    flat[::7], flat[1::11], flat[2::13], flat[3::17], flat[4::19] = 0.0, -0.0, np.nan, np.inf, -np.inf
    return x


def chosen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the calls in which an array takes the place of a number, as programs are compiled."""
    sizes: list[int] = []

    def noted(call: Any, size: int) -> int | None:
        found = extremes.bound_of(call, size)
        sizes.extend([] if found is None else [size])
        return found

    monkeypatch.setattr(codegen, "bound_of", noted)
    return sizes


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(31, 33), (32, 32), (3, 1000), (517, 509)])
def test_the_same_bits(shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, program = chosen(monkeypatch), ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = layers.data("x", shape=list(shape), dtype=dtype, append_batch_size=False)
        results = [layers.relu(x), layers.relu6(x), layers.clip(x, -0.0, 2.5), layers.clip(x, -1.0, 0.0), layers.leaky_relu(x)]
    compiled, interpreted = both(program, {"x": special(shape, dtype)}, results)
    assert compiled == interpreted
    assert max(sizes, default=0) <= extremes.MOST  # what is larger goes as it is, or tile by tile
    if shape[0] * shape[1] <= extremes.MOST:
        assert bool(sizes) is (shape[0] * shape[1] >= extremes.LEAST)


def test_tiles_the_last_of_which_is_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "pays", lambda group: True)
    sizes, program = chosen(monkeypatch), ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = layers.data("x", shape=[700, 1001], append_batch_size=False)
        y = x
        for _ in range(6):
            y = layers.relu(layers.scale(layers.relu6(layers.scale(y, 1.5)), 2.0, bias=-1.0))
    compiled, interpreted = both(program, {"x": special((700, 1001), "float32")}, [y])
    assert compiled == interpreted
    assert len(sizes) == 12 * 1 + 6  # a maximum and a minimum of each relu6, a maximum of each relu
    assert max(sizes) < 700 * 1001


def test_arrays_in_another_order_and_numbers_of_another_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are left as they are."""
    sizes, program = chosen(monkeypatch), ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = layers.data("x", shape=[60, 50], append_batch_size=False)
        whole = layers.data("n", shape=[60, 50], dtype="int64", append_batch_size=False)
        results = [layers.relu(x), layers.clip(whole, -2, 2)]
    compiled, interpreted = both(program, {"x": special((50, 60), "float32").T, "n": np.arange(3000).reshape(60, 50) - 9}, results)
    assert compiled == interpreted
    assert not sizes


def test_arrays_are_shared_and_not_written() -> None:
    one, other = (extremes.full_of(np.array(2.5, "float32"), shape) for shape in ((3, 500), (1100,)))
    assert np.shares_memory(one, other)
    assert (one == 2.5).all()
    with pytest.raises(ValueError, match="read-only"):
        one[0] = 1
    assert not extremes.full_of(np.array(0.0), (2000,)).view("uint64").any()
    assert extremes.full_of(np.array(-0.0), (2000,)).view("uint64").all()
