"""``put_along_axis`` and ``grid_sampler`` against loops over elements, written from what Paddle's kernels do."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from graphad.errors import ShapeError
from graphad.ops import GRAD, lookup
from graphad.ops.sample import uniform
from graphad.types import Array
from tests.ops.check import run

REDUCE: dict[str, Callable[[list[float]], float]] = {
    **{"add": sum, "mul": math.prod, "multiply": math.prod, "amin": min, "amax": max},
    "mean": lambda terms: sum(terms) / len(terms),
}
INDEX = np.array([[2, 0, 2, -1], [1, 1, 0, 1]])


def put(array: Array, index: Array, value: Array, reduce: str, include_self: bool) -> Array:
    """Axis 1 of a matrix, place by place."""
    out = array.copy()
    for i, j in product(range(array.shape[0]), range(array.shape[1])):
        terms = [value[i, k] for k in range(index.shape[1]) if index[i, k] % array.shape[1] == j]
        if terms:
            out[i, j] = REDUCE[reduce]([array[i, j], *terms] if include_self else terms)
    return out


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", REDUCE)
def test_values_are_put_as_a_loop_puts_them(reduce: str, include_self: bool) -> None:
    array, value = uniform(2, 3), uniform(2, 4, seed=1)
    attrs = {"Axis": 1, "Reduce": reduce, "Include_self": include_self}
    ((got,),) = run(lookup("put_along_axis"), {"Input": [array], "Index": [INDEX], "Value": [value]}, attrs).values()
    np.testing.assert_allclose(got, put(array, INDEX, value, reduce, include_self), rtol=1e-14)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32"])
def test_integers_have_an_extremum_and_a_mean(dtype: str) -> None:
    array, index, value = np.array([[5, 9]], dtype), np.array([[0, 0]]), np.array([[4, 8]], dtype)
    for reduce, include_self, expected in (("amin", True, 4), ("amax", False, 8), ("mean", False, 6), ("mean", True, 17 / 3)):
        attrs = {"Axis": 1, "Reduce": reduce, "Include_self": include_self}
        ((got,),) = run(lookup("put_along_axis"), {"Input": [array], "Index": [index], "Value": [value]}, attrs).values()
        assert got.dtype == dtype
        np.testing.assert_allclose(got, [[expected if dtype == "float32" else math.floor(expected), 9]], rtol=1e-6)


@pytest.mark.parametrize("reduce", ["amin", "amax"])
def test_ties_share_the_cotangent(reduce: str) -> None:
    """As in Paddle: what is there and every value that attains the extremum have the same share."""
    inputs = {"Input": [np.array([[2.0, 7.0]])], "Index": [np.array([[0, 0, 0]])], "Value": [np.full((1, 3), 2.0)]}
    grad = lookup("put_along_axis").grad
    assert grad is not None
    wanted = [f"Input{GRAD}", f"Value{GRAD}"]
    result = grad.run({**inputs, f"Result{GRAD}": [np.array([[8.0, 3.0]])]}, {"Axis": 1, "Reduce": reduce}, wanted)
    np.testing.assert_array_equal(result[wanted[0]][0], [[2.0, 3.0]])
    np.testing.assert_array_equal(result[wanted[1]][0], [[2.0, 2.0, 2.0]])


# -- grid_sampler --------------------------------------------------------------------------------


def place(g: float, extent: int, align_corners: bool, padding_mode: str) -> float:
    x = (g + 1) / 2 * (extent - 1) if align_corners else ((g + 1) * extent - 1) / 2
    if padding_mode == "reflection":
        low, high = (0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5)
        while high > low and not low <= x <= high:
            x = 2 * low - x if x < low else 2 * high - x
        x = low if high == low else x
    return x if padding_mode == "zeros" else min(max(x, 0.0), extent - 1.0)


def element(image: Array, row: float, column: float) -> float:
    inside = 0 <= row < image.shape[0] and 0 <= column < image.shape[1]
    return float(image[int(row), int(column)]) if inside else 0.0


def away_from_zero(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


def sampled(image: Array, x: float, y: float, mode: str) -> float:
    if mode == "nearest":
        return element(image, away_from_zero(y), away_from_zero(x))
    west, north = math.floor(x), math.floor(y)
    corners = product((north, north + 1), (west, west + 1))
    return sum(element(image, row, column) * (1 - abs(row - y)) * (1 - abs(column - x)) for row, column in corners)


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("shape", [(2, 2, 3, 4), (2, 1, 1, 2), (2, 1, 3, 1)], ids=str)
def test_points_are_sampled_as_a_loop_samples_them(shape: tuple[int, ...], mode: str, padding_mode: str, align_corners: bool) -> None:
    image, grid = uniform(*shape), uniform(2, 5, 4, 2, low=-6.0, high=6.0, seed=1)
    attrs: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    ((got,),) = run(lookup("grid_sampler"), {"X": [image], "Grid": [grid]}, attrs).values()
    expected = np.empty(got.shape)
    for n, c, i, j in np.ndindex(*got.shape):
        x, y = (place(grid[n, i, j, k], shape[3 - k], align_corners, padding_mode) for k in (0, 1))
        expected[n, c, i, j] = sampled(image[n, c], x, y, mode)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_words_that_are_no_choices_are_refused_on_arrays_too() -> None:
    image, grid = uniform(2, 2, 3, 4), uniform(2, 5, 4, 2)
    with pytest.raises(ShapeError, match="mode='cubic', padding_mode='zeros': bilinear, bicubic or nearest"):
        lookup("grid_sampler")(image, grid, mode="cubic")
    with pytest.raises(ShapeError, match="median"):
        lookup("put_along_axis")(image, np.zeros((2, 2, 3, 1), "int64"), image[..., :1], Axis=3, Reduce="median")
    assert lookup("grid_sampler")(image, grid, mode="nearest").shape == (2, 2, 5, 4)
