"""Convolutions of small images, whose views and memory a thread keeps, are those of large ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from graphad.ops import lookup
from graphad.ops.conv import _IMAGES_KEPT, KEPT_IMAGES, Convolution, correlated
from graphad.types import Array

CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 4, 7, 5), (6, 4, 3, 3), {"paddings": [1, 1]}),
    ((3, 4, 7, 5), (6, 4, 3, 3), {"strides": [2, 1], "paddings": [0, 1, 2, 0]}),
    ((2, 4, 3, 3), (32, 4, 3, 3), {}),  # more features than windows: all samples as one matrix
    ((2, 6, 6, 7), (9, 2, 2, 3), {"groups": 3, "dilations": [2, 1]}),
    ((2, 5, 6, 7), (10, 1, 3, 3), {"groups": 5, "paddings": [1, 1]}),
    ((1, 5, 6, 7), (8, 5, 1, 1), {}),
    ((2, 4, 6, 7), (8, 2, 1, 1), {"groups": 2, "strides": [2, 3]}),
    ((1, 3, 1, 9), (4, 3, 1, 4), {"padding_algorithm": "SAME"}),
    ((0, 3, 4, 4), (2, 3, 3, 3), {}),
]


def wanted(x: Array, f: Array, attrs: dict[str, Any]) -> Array:
    conv = Convolution(**attrs)
    return correlated(x, f, conv.axes(x.shape, f.shape), conv.groups)


@pytest.mark.parametrize(("image", "filter_", "attrs"), CASES)
def test_they_are_the_same_each_time(image: tuple[int, ...], filter_: tuple[int, ...], attrs: dict[str, Any]) -> None:
    rng, kernel = np.random.default_rng(0), lookup("conv2d").kernel
    earlier = []
    for _ in range(3):
        x, f = rng.normal(size=image), rng.normal(size=filter_)
        earlier.append((kernel(x, f, **attrs), wanted(x, f, attrs)))
    for got, expected in earlier:  # no result lies in the memory that is kept
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_threads_do_not_share_memory() -> None:
    kernel, rng = lookup("conv2d").kernel, np.random.default_rng(1)
    cases = [(rng.normal(size=(1, 8, 16, 16)), rng.normal(size=(8, 8, 3, 3))) for _ in range(64)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda case: kernel(*case, paddings=[1, 1]), cases))
    for got, case in zip(results, cases, strict=True):
        np.testing.assert_allclose(got, wanted(*case, {"paddings": [1, 1]}), rtol=1e-12, atol=1e-12)


def test_what_is_kept_has_a_bound() -> None:
    kernel, f = lookup("conv2d").kernel, np.ones((1, 1, 3, 3))
    for width in range(3, 900):
        kernel(np.ones((1, 1, 6, width)), f, paddings=[1, 1])
    assert 0 < _IMAGES_KEPT.size <= KEPT_IMAGES
    assert len(_IMAGES_KEPT.products) > 10


def test_images_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        lookup("conv2d").kernel(np.ones((1, 1, 2, 2)), np.ones((1, 1, 3, 3)))
    with pytest.raises(ValueError, match="has the shape"):
        lookup("conv2d").kernel(np.ones((1, 2, 4, 4)), np.ones((1, 1, 3, 3)))
