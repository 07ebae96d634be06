"""Convolutions row by row of their outputs compute what the definition says: of any windows, in any tiles, in float32 as well."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from graphad.ops import conv, image_rows
from graphad.ops.conv import Convolution
from graphad.ops.image_rows import (
    correlated_by_rows,
    filter_by_rows,
    kept_by_rows,
    pays_correlated,
    pays_filter,
    pays_spread,
    spread_by_rows,
)
from graphad.ops.windows import Axes, axes, element, extents_of, inside
from graphad.types import Array, Shape

# Image, filter, strides, paddings (top, bottom, left, right), dilation along the width.
CASES: list[tuple[Shape, Shape, list[int], list[int], int]] = [
    ((3, 2, 9, 7), (4, 2, 3, 3), [1, 1], [1, 1, 1, 1], 1),
    ((1, 3, 40, 6), (2, 3, 3, 2), [1, 1], [0, 2, 1, 0], 2),
    ((2, 4, 70, 5), (3, 4, 2, 3), [2, 1], [1, 0, 1, 1], 1),
    ((4, 1, 8, 11), (5, 1, 5, 5), [1, 3], [2, 2, 0, 1], 1),
    ((2, 5, 6, 6), (3, 5, 6, 2), [1, 2], [0, 0, 0, 0], 2),
    ((5, 3, 7, 8), (2, 3, 3, 3), [3, 2], [2, 1, 1, 2], 1),
    ((2, 6, 5, 3), (4, 6, 3, 3), [1, 1], [1, 1, 1, 1], 1),  # a row of a window is longer than one of the output
]
Pair = tuple[Array, Array, Axes]


def pair(case: tuple[Shape, Shape, list[int], list[int], int], channels_last: bool = False) -> Pair:
    image, filter_, strides, paddings, dilation = case
    rng = np.random.default_rng(0)
    x = np.moveaxis(rng.normal(size=(image[0], *image[2:], image[1])), -1, 1) if channels_last else rng.normal(size=image)
    return x, rng.normal(size=filter_), axes(image[2:], filter_[2:], strides=strides, paddings=paddings, dilations=[1, dilation])


def windows_of(x: Array, window_axes: Axes) -> Array:
    """Each element of every window, ``[N, C, kh, kw, *counts]``, taken one by one."""
    wide = np.zeros((*x.shape[:2], *(a.padded for a in window_axes)))
    wide[inside(window_axes)] = x
    down, across = window_axes
    return np.stack([np.stack([wide[element(window_axes, (k, m))] for m in range(across.kernel)], 2) for k in range(down.kernel)], 2)


def image_of(y: Array, filter_: Array, window_axes: Axes) -> Array:
    """Each element of y times the filter, added to its window."""
    wide = np.zeros((len(y), filter_.shape[1], *(a.padded for a in window_axes)))
    for place in np.ndindex(*filter_.shape[2:]):
        wide[element(window_axes, place)] += np.einsum("nfrq,fc->ncrq", y, filter_[(..., *place)])
    return np.asarray(wide[inside(window_axes)])


@pytest.fixture(params=[image_rows.TILE_BYTES, 2000, 1], ids=["one tile", "tiles", "a sample each"])
def tile_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    size: int = request.param
    monkeypatch.setattr(image_rows, "TILE_BYTES", size)
    return size


@pytest.mark.usefixtures("tile_bytes")
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_they_are_sums_over_windows(case: tuple[Shape, Shape, list[int], list[int], int], channels_last: bool) -> None:
    x, f, window_axes = pair(case, channels_last)
    windows = windows_of(x, window_axes)
    output = np.einsum("ncklrq,fckl->nfrq", windows, f)
    np.testing.assert_allclose(correlated_by_rows(x, f, window_axes), output, rtol=1e-12, atol=1e-12)
    memory = np.zeros((*x.shape[:2], *(a.padded for a in window_axes)))
    kept = kept_by_rows(x.shape, f.shape, memory, window_axes)
    for image in (x, -x):
        np.testing.assert_allclose(kept(image, f), output if image is x else -output, rtol=1e-12, atol=1e-12)
    y = np.random.default_rng(1).normal(size=output.shape)
    wanted = np.einsum("ncklrq,nfrq->fckl", windows, y)
    np.testing.assert_allclose(filter_by_rows(x, y, window_axes, f.shape), wanted, rtol=1e-12, atol=1e-11)
    if all(a.stride == 1 for a in window_axes):
        np.testing.assert_allclose(spread_by_rows(f, y, window_axes), image_of(y, f, window_axes), rtol=1e-12, atol=1e-12)


def test_a_tall_image_is_made_of_several_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_rows, "TILE_BYTES", 2000)
    x, _, window_axes = pair(CASES[1])
    view = image_rows._column_view(x, window_axes[1])
    assert len(image_rows._tiles_of(view, window_axes[0])) > 1


WORK: list[tuple[Shape, Shape]] = [((64, 1, 28, 28), (6, 1, 5, 5)), ((64, 6, 14, 14), (16, 6, 5, 5)), ((16, 32, 16, 16), (32, 32, 3, 3))]


@pytest.mark.parametrize(("image", "filter_"), WORK)
def test_errors_of_float32_are_those_of_columns(image: Shape, filter_: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shapes of these networks are worked on by rows; their errors against float64 are not larger than by columns of windows."""
    rng, window_axes = np.random.default_rng(2), axes(image[2:], filter_[2:], strides=[1], paddings=[1])
    x, f = rng.normal(size=image).astype("float32"), rng.normal(size=filter_).astype("float32")
    y = rng.normal(size=(image[0], filter_[0], *extents_of(window_axes))).astype("float32")
    for pays in (pays_correlated, pays_filter, pays_spread):
        assert pays(len(x), filter_, window_axes, np.dtype("float32"))
    works: list[Callable[[type], Array]] = [
        lambda t: conv.correlated(x.astype(t), f.astype(t), window_axes, 1),
        lambda t: conv.filter_cotangent(x.astype(t), y.astype(t), window_axes, filter_, 1),
        lambda t: conv.spread(f.astype(t), y.astype(t), window_axes, 1),
    ]
    by_rows = [work(np.float32) for work in works]
    for name in ("pays_correlated", "pays_filter", "pays_spread"):
        monkeypatch.setattr(conv, name, lambda *_: False)
    for work, got in zip(works, by_rows, strict=True):
        exact, columns = work(np.float64), work(np.float32)
        assert np.linalg.norm(got - exact) <= 1.25 * np.linalg.norm(columns - exact) <= 1e-6 * np.linalg.norm(exact)


def test_an_infinite_weight_meets_no_zeros_beside_the_output() -> None:
    """The gradient of an image takes no product of the weight with what is not there, which would be nan."""
    f, window_axes = np.ones((6, 4, 3, 3), "float32"), axes((20, 20), (3, 3), strides=[1], paddings=[0])
    f[0, 0, 0, 0] = np.inf
    assert pays_spread(8, f.shape, window_axes, np.dtype("float32"))
    with np.errstate(invalid="ignore"):  # as in a run
        image = conv.spread(f, np.ones((8, 6, 18, 18), "float32"), window_axes, 1)
    assert not np.isnan(image).any()
    assert np.isinf(image[:, 0, :18, :18]).all()
    assert np.isfinite(image[:, 1:]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_windows(bad: float) -> None:
    image, filter_ = np.ones((8, 4, 20, 20), "float32"), np.ones((6, 4, 3, 3), "float32")
    window_axes = axes((20, 20), (3, 3), strides=[1], paddings=[1])
    image[3, 2, 7, 19] = bad
    out = conv.correlated(image, filter_, window_axes, 1)
    reached = np.zeros(out.shape, bool)
    reached[3, :, 6:9, 18:] = True
    np.testing.assert_array_equal(~np.isfinite(out), reached)
    cotangent = np.ones((8, 6, 20, 20), "float32")
    cotangent[3, 2, 7, 19] = bad
    np.testing.assert_array_equal(~np.isfinite(conv.spread(filter_, cotangent, window_axes, 1)), np.repeat(reached[:, :1], 4, axis=1))


def test_layouts_have_the_same_bits() -> None:
    """Channels in front or last: the same products in the same order."""
    kernel, rng = conv.conv2d.kernel, np.random.default_rng(3)
    x, f = rng.normal(size=(4, 8, 16, 16)).astype("float32"), rng.normal(size=(8, 8, 3, 3)).astype("float32")
    attrs = vars(Convolution(paddings=[1, 1]))
    first = kernel(x, f, **attrs)
    last = kernel(np.ascontiguousarray(np.moveaxis(x, 1, -1)), f, **{**attrs, "data_format": "NHWC"})
    np.testing.assert_array_equal(np.moveaxis(last, -1, 1), first)
