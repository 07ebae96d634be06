"""Gradients of maximum pooling, by elements of the windows and by runs of the phases, against a loop over windows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import graphad as ga
from graphad.errors import ShapeError
from graphad.ops import lookup, maxima
from graphad.ops.pooling import largest
from graphad.ops.windows import Axes, axes, extents_of, inside, kernel_of
from graphad.types import Array
from tests.benchmarks.kernels import drawn

COUNT = 300


def geometries() -> Iterator[tuple[Axes, np.random.Generator]]:
    """Windows of images and volumes, with padding, gaps and a last window that is not filled; of each a generator of numbers."""
    rng = np.random.default_rng(14)
    while True:
        rank = int(rng.integers(2, 4))
        size, kernel, strides, dilations = (rng.integers(1, most, rank).tolist() for most in (9, 5, 5, 3))
        options = {"strides": strides, "dilations": dilations, "paddings": rng.integers(0, 3, 2 * rank).tolist()}
        try:
            yield axes(size, kernel, **options, ceil_mode=bool(rng.integers(2))), rng
        except ShapeError:  # no window fits
            continue


def by_windows(x: Array, pooled: Array, window_axes: Axes) -> Array:
    """Each pooled value at the first largest element of its window, one after the other, in float64."""
    wide = maxima.lowest(x, window_axes)
    out = np.zeros(wide.shape)
    for sample in np.ndindex(*x.shape[:2]):
        for window in np.ndindex(*extents_of(window_axes)):
            starts = [k * a.stride for k, a in zip(window, window_axes, strict=True)]
            inner = [slice(start, start + a.reach, a.dilation) for start, a in zip(starts, window_axes, strict=True)]
            part = wide[sample][tuple(inner)]
            if np.isnan(part).any():
                continue
            place = np.unravel_index(part.argmax(), kernel_of(window_axes))
            at = tuple(start + k * a.dilation for start, k, a in zip(starts, place, window_axes, strict=True))
            out[sample][at] += pooled[(*sample, *window)]
    return np.asarray(out[inside(window_axes)])


def test_both_ways_send_each_value_to_the_first_largest_element(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = 0
    for number, (window_axes, rng) in zip(range(COUNT), geometries(), strict=False):
        shape = (*rng.integers(1, 4, 2), *(a.size for a in window_axes))
        x = rng.integers(-2, 3, shape).astype(["float32", "float64", "float16"][number % 3])  # with many equal ones
        if number % 5 == 0:
            x[rng.random(shape) < 0.1] = rng.choice([np.nan, np.inf, -np.inf])
        peaks = largest(x, window_axes)
        pooled = rng.integers(-9, 10, peaks.shape).astype(x.dtype)  # sums of such numbers are exact
        expected = by_windows(x, pooled, window_axes)
        for least in (0, 1 << 30):
            monkeypatch.setattr(maxima, "LEAST", least)
            actual = maxima.scattered(x, peaks, pooled, window_axes)
            assert actual.dtype == x.dtype
            np.testing.assert_array_equal(actual, expected, str((window_axes, least)))
        ways += any(a.stride < a.reach for a in window_axes)
    assert ways > COUNT // 3  # only windows that overlap go by runs


def test_both_ways_add_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    window_axes = axes([31, 29], [5, 4], strides=[1, 2], paddings=[2])
    x = drawn([3, 100, 31, 29]).round(1)
    peaks = largest(x, window_axes)
    pooled = drawn(list(peaks.shape))
    by_runs = maxima.scattered(x, peaks, pooled, window_axes)
    monkeypatch.setattr(maxima, "LEAST", 1 << 30)
    np.testing.assert_array_equal(by_runs, maxima.scattered(x, peaks, pooled, window_axes))


def test_more_places_than_a_byte_counts() -> None:
    window_axes = axes([40, 40], [17, 17], strides=[1], paddings=[8])
    x = np.zeros((1, 2, 40, 40), "float32")
    x[..., ::13, ::11] = drawn([1, 2, 4, 4])
    peaks = largest(x, window_axes)
    pooled = np.ones_like(peaks)
    np.testing.assert_array_equal(maxima.scattered(x, peaks, pooled, window_axes), by_windows(x, pooled, window_axes))


def test_an_infinite_gradient_stays_where_it_belongs() -> None:
    x = drawn([2, 64, 32, 32])
    attrs = {"pooling_type": "max", "ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1]}
    d = np.full(lookup("pool2d")(x, **attrs).shape, np.inf, "float32")
    image = lookup("pool2d_scatter_max")(x, d, **attrs)
    assert set(np.unique(image)) == {0.0, np.inf}


def test_compiled_programs_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = ga.layers.data("x", shape=[4, 32, 33, 33], append_batch_size=False, stop_gradient=False)
        loss = ga.layers.reduce_sum(ga.layers.square(ga.layers.pool2d(x, 3, "max", 2, 1)))
        (grad,) = ga.gradients(loss, x)
    feed = {"x": drawn([4, 32, 33, 33])}
    compiled, interpreted = (ga.Executor(mode=mode) for mode in ("compiled", "interpreted"))
    (expected,) = interpreted.run(program, feed=feed, fetch_list=[grad])
    for _ in range(3):
        np.testing.assert_array_equal(compiled.run(program, feed=feed, fetch_list=[grad])[0], expected)
    monkeypatch.setattr(maxima, "LEAST", 1 << 30)
    np.testing.assert_array_equal(interpreted.run(program, feed=feed, fetch_list=[grad])[0], expected)
