"""Products that are made in parts, and convolutions that add up rows, are those that are made at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers
from graphad.ops import conv, lookup
from graphad.ops.conv import Convolution, correlated
from graphad.ops.image_rows import pays_correlated
from graphad.ops.products import times

# Rows, depth and columns, and how the second matrix lies: each way of dividing, the last part shorter, and none.
PRODUCTS = [
    (2, 600, 1100, "C"),
    (7, 515, 401, "C"),
    (12, 70, 1205, "C"),
    (3, 130, 700, "F"),
    (12, 1001, 103, "F"),
    (401, 700, 5, "C"),
    (2, 5, 20_000, "C"),
    (1, 600, 1100, "C"),
    (13, 300, 400, "F"),
    (2, 0, 70_000, "C"),
]


@pytest.mark.parametrize(("rows", "depth", "columns", "order"), PRODUCTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_make_the_whole(rows: int, depth: int, columns: int, order: Any, dtype: str) -> None:
    rng = np.random.default_rng(rows)
    x, y = rng.integers(-8, 9, (rows, depth)).astype(dtype), np.asarray(rng.integers(-8, 9, (depth, columns)), dtype, order=order)
    assert (times(x, y) == np.dot(x, y)).all()  # sums of whole numbers are exact in any order
    assert times(x, y).dtype == dtype


def test_a_nan_stays_where_it_is() -> None:
    x, y = np.ones((2, 600), "float32"), np.ones((600, 1100), "float32")
    x[1, 599], y[0, 3] = np.nan, np.inf
    for order in ("C", "F"):
        found = times(x, np.asarray(y, order=order))
        assert np.isnan(found[1]).all()
        assert found[0, 3] == np.inf
        assert (np.delete(found[0], 3) == 600).all()


def test_programs_run_such_products_alike() -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x, w = layers.data("x", shape=[3, 600], append_batch_size=False), layers.data("w", shape=[600, 1100], append_batch_size=False)
        y = layers.reduce_sum(layers.tanh(layers.matmul(x, w)))
        (dx,) = ga.gradients([y], [x])
    rng = np.random.default_rng(0)
    fed = {"x": rng.normal(size=(3, 600)).astype("float32"), "w": rng.normal(size=(600, 1100)).astype("float32")}
    interpreted = ga.Executor(mode="interpreted").run(program, fed, [y, dx])
    executor = ga.Executor()
    for _ in range(3):
        for found, wanted in zip(executor.run(program, fed, [y, dx]), interpreted, strict=True):
            assert (found == wanted).all()


@pytest.mark.parametrize("op", ["matmul_v2", "bmm", "conv2d"])
def test_float16_is_added_up_in_float32_and_rounded_once(op: str) -> None:
    rng = np.random.default_rng(1)
    shapes = {"matmul_v2": ((3, 50), (50, 40)), "bmm": ((2, 3, 50), (2, 50, 4)), "conv2d": ((2, 8, 6, 6), (5, 8, 3, 3))}[op]
    x, y = (rng.normal(size=shape).astype("float16") for shape in shapes)
    kernel = lookup(op).kernel
    found, wide = kernel(x, y), kernel(x.astype("float32"), y.astype("float32"))
    assert found.dtype == np.float16
    assert (found == wide.astype("float16")).all()


# Few features, tall filters and steps; the first takes several turns over its rows.
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 24, 70, 80), (2, 24, 5, 3), {"paddings": [2, 1]}),
    ((1, 3, 60, 50), (1, 3, 7, 3), {"paddings": [0, 3, 2, 0], "dilations": [1, 2]}),
    ((1, 8, 40, 90), (2, 8, 3, 9), {"strides": [1, 3]}),
    ((3, 4, 30, 30), (1, 4, 5, 5), {"padding_algorithm": "SAME"}),
]


@pytest.mark.parametrize(("image", "filter_", "attrs"), CASES)
def test_rows_add_up_to_windows(image: tuple[int, ...], filter_: tuple[int, ...], attrs: dict[str, Any], monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    x, f = rng.normal(size=image), rng.normal(size=filter_)
    window_axes = Convolution(**attrs).axes(image, filter_)
    assert pays_correlated(image[0], filter_, window_axes, x.dtype)
    found = correlated(x, f, window_axes, 1)
    monkeypatch.setattr(conv, "pays_correlated", lambda *_: False)
    np.testing.assert_allclose(found, correlated(x, f, window_axes, 1), rtol=1e-11, atol=1e-11)
