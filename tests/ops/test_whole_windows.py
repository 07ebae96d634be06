"""Windows that are the whole image, or beside each other: averages and transposed convolutions without sums that overlap."""

from __future__ import annotations

import numpy as np
import pytest

import graphad as ga
from graphad.ops import lookup
from graphad.ops.pooling import Pooling, averaging
from tests.execution.test_compiled import functions


@pytest.mark.parametrize("shape", [(3, 4, 7, 5), (2, 3, 1, 6), (0, 3, 4, 4)])
def test_the_average_of_a_whole_image_and_its_transpose(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, d = rng.normal(size=shape), rng.normal(size=(*shape[:2], 1, 1))
    attrs = {"pooling_type": "avg", "ksize": [1, 1], "global_pooling": True}
    np.testing.assert_allclose(lookup("pool2d").kernel(x, **attrs), x.mean(axis=(2, 3), keepdims=True), rtol=1e-12)
    shared = lookup("pool2d_spread").kernel(d, x, **attrs)
    np.testing.assert_allclose(shared, np.broadcast_to(d / (shape[2] * shape[3]), shape), rtol=1e-12)


def test_matrices_of_averages_are_shared_and_cannot_be_written() -> None:
    pooling, other = Pooling("avg", [2, 2], [2, 2]), Pooling("avg", [2, 2], [1, 1])
    first, again = (averaging(pooling, (1, 1, 4, 6), np.dtype("float32")) for _ in range(2))
    assert first[0] is again[0]
    assert first[0].shape == (2, 4)
    assert averaging(other, (1, 1, 4, 6), np.dtype("float32"))[0].shape == (3, 4)
    assert averaging(pooling, (1, 1, 4, 6), np.dtype("float64"))[0].dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        first[0][0, 0] = 1


@pytest.mark.parametrize(("n", "channels", "features", "kernel"), [(1, 3, 4, (2, 2)), (3, 1, 5, (3, 2)), (40, 8, 6, (2, 4))])
def test_transposed_convolutions_whose_windows_are_apart(n: int, channels: int, features: int, kernel: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    x, f = rng.normal(size=(n, features, 5, 6)), rng.normal(size=(features, channels, *kernel))
    f[0, 0, 0, 0] = np.inf  # it meets the first place of each window alone
    with np.errstate(invalid="ignore"):
        found = lookup("conv2d_transpose").kernel(x, f, strides=list(kernel))
    wanted = np.zeros((n, channels, 5 * kernel[0], 6 * kernel[1]))
    for i, j in np.ndindex(kernel):
        wanted[:, :, i :: kernel[0], j :: kernel[1]] = np.einsum("nfrq,fc->ncrq", x, f[:, :, i, j])
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert np.isinf(found[:, 0, :: kernel[0], :: kernel[1]]).all()
    assert np.isinf(found).sum() == n * 5 * 6


def test_the_nearest_elements_are_repeated_by_calls_of_numpy() -> None:
    operators = "nearest_interp_v2(X=x) -> (Out=y) {scale=[2.0, 3.0], align_corners=false}"
    program = ga.Program.parse(f"program {{ block 0 {{ var x: float32[2, 3, 4, 5] var y: float32[2, 3, 8, 15] {operators} }} }}")
    executor, x = ga.Executor(), np.arange(120, dtype="float32").reshape(2, 3, 4, 5)
    for _ in range(3):
        (y,) = executor.run(program, {"x": x}, ["y"])
        np.testing.assert_array_equal(y, x.repeat(2, 2).repeat(3, 3))
    (function,) = functions(executor)
    assert function.source.text.count(".repeat(") == 2
