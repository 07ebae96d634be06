"""Depthwise convolutions by moved lines: against copies of the windows, over random geometries and dirty memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from graphad.errors import ShapeError
from graphad.ops import depthwise, maxima, vector_moves, window_loops
from graphad.ops.loops import APART, UNCOUNTED
from graphad.ops.pooling import largest
from graphad.ops.scratch import scratch
from graphad.ops.windows import Axes, axes
from graphad.types import Array, Function, Shape


def geometries(count: int) -> Iterator[tuple[Shape, Shape, Axes]]:
    """Shapes of images and filters, and the windows: every second one keeps the extents, or divides them by the stride."""
    rng, made = np.random.default_rng(2026), 0
    while made < count:
        extents, kernel, strides, dilations = (tuple(map(int, rng.integers(1, top, 2))) for top in (13, 6, 4, 3))
        paddings = [int(rng.integers(0, 4)) for _ in range(4)]
        if made % 2:
            paddings = [(k - 1) * d // 2 for k, d in zip(kernel, dilations, strict=True) for _ in range(2)]
        try:
            window_axes = axes(extents, kernel, strides=strides, dilations=dilations, paddings=paddings)
        except ShapeError:
            continue
        made += 1
        samples, channels = map(int, rng.integers((1, 2), (4, 6)))
        yield (samples, channels, *extents), kernel, window_axes


def soil() -> None:
    """Leave numbers in the memory that kernels write to that would show in any result."""
    for use in ("lines", "columns", "product", "total", "number", "shares"):
        scratch(use, (1 << 16,), np.dtype("float64")).fill(np.nan)


def near(actual: Array, wanted: Array) -> None:
    assert actual.shape == wanted.shape
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-12 * max(1.0, float(np.abs(wanted).max(initial=0))))


WAYS = {"joined samples": (1 << 8, 1 << 19, False), "small parts": (1, 1 << 11, False), "taps": (1, 1 << 11, True)}


@pytest.mark.parametrize("way", WAYS)
def test_lines_and_taps_compute_what_windows_do(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    small, line_bytes, taps = WAYS[way]
    monkeypatch.setattr(depthwise, "_taps_are_quicker", lambda *_: taps)
    monkeypatch.setattr(depthwise, "SMALL", small)
    monkeypatch.setattr(depthwise, "LINE_BYTES", line_bytes)
    monkeypatch.setattr(depthwise, "LEAST", 1)
    rng, by_lines = np.random.default_rng(small), 0
    for shape, kernel, window_axes in geometries(80):
        channels = shape[1]
        geometry = depthwise._geometry(window_axes)
        if geometry is None:
            continue
        by_lines += 1
        x, filter_ = rng.standard_normal(shape), rng.standard_normal((channels, 1, *kernel))
        y = rng.standard_normal((*shape[:2], *(axis.count for axis in window_axes)))
        soil()
        near(depthwise.depthwise(x, filter_, window_axes, channels), depthwise._by_windows(x, filter_, window_axes, channels))
        image = depthwise._spread_by_weights(filter_, y, window_axes, channels)
        soil()
        near(depthwise.depthwise_spread(filter_, y, window_axes, channels), image)
        cotangent = depthwise._cotangent_by_windows(x, y, window_axes, filter_.shape, channels)
        soil()
        near(depthwise.depthwise_cotangent(x, y, window_axes, filter_.shape, channels), cotangent)
    assert by_lines > 30


@pytest.fixture
def plain_loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The text of loops as Python, which takes no time to compile."""

    def as_python(text: str) -> Function:
        names: dict[str, Function] = {}
        assert APART in text
        text = text.replace(APART, "apart = lambda: None\n").replace(UNCOUNTED, "uncounted = {}\n")
        text = text.replace("from numba import njit", "njit = lambda *_, **__: lambda function: function")
        exec(text.replace("{cached}", "False"), names)
        return names["loop"]

    monkeypatch.setattr(window_loops, "function_of", as_python)
    monkeypatch.setattr(vector_moves, "MOST", 0)  # no instructions for vectors
    kept = (window_loops._spread, window_loops._maxima)
    for made in kept:
        made.cache_clear()
    yield
    for made in kept:
        made.cache_clear()


def test_loops_over_the_elements_of_an_image(plain_loops: None) -> None:
    """Each is a sum over the windows that it is in: of gradients of convolutions, and of those whose maximum it is."""
    rng, with_strides = np.random.default_rng(0), 0
    for shape, kernel, window_axes in geometries(120):
        filter_ = rng.standard_normal((shape[1], 1, *kernel))
        y = rng.standard_normal((*shape[:2], *(axis.count for axis in window_axes)))
        image = depthwise._spread_by_weights(filter_, y, window_axes, shape[1])
        soil()
        near(window_loops.spread_of(filter_, y, window_axes), image)
        x = np.round(rng.standard_normal(shape))
        peaks = largest(x, window_axes)
        soil()
        np.testing.assert_array_equal(
            window_loops.scattered_by_loop(x, peaks, y, window_axes), maxima._by_elements(x, peaks, y, window_axes, is_apart=False)
        )
        with_strides += any(axis.stride > 1 for axis in window_axes)
    assert with_strides > 60


def test_an_infinite_pixel_reaches_its_own_windows() -> None:
    x = np.ones((2, 3, 7, 7), "float32")
    x[0, 1, 0, 6] = np.inf
    filter_ = np.ones((3, 1, 3, 3), "float32")
    window_axes = axes((7, 7), (3, 3), strides=(1, 1), paddings=(1, 1))
    out = depthwise.depthwise(x, filter_, window_axes, 3)
    reached = np.zeros(out.shape, bool)
    reached[0, 1, :2, 5:] = True
    assert (np.isinf(out) == reached).all()
    assert not np.isnan(out).any()
    image = depthwise.depthwise_spread(filter_, x, window_axes, 3)
    assert (np.isinf(image) == reached).all()
    assert not np.isnan(image).any()
