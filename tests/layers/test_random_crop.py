"""``random_crop``: parts of samples, each from a place of its own, every place as likely, and their gradient."""

from __future__ import annotations

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L
from graphad.errors import ShapeError

IMAGES = np.arange(3 * 2 * 5 * 6, dtype="float32").reshape(3, 2, 5, 6)


def test_each_sample_has_a_part_of_its_own() -> None:
    with ga.program_guard(ga.Program()) as program:
        x = ga.data("x", [None, 2, 5, 6])
        x.stop_gradient = False
        y = L.random_crop(x, shape=[2, 4, 4])
        (gradient,) = ga.gradients(L.reduce_sum(y * y), x)
    executor, places = ga.Executor(), set()
    for _ in range(40):
        parts, slopes = executor.run(program, {"x": IMAGES}, [y, gradient])
        for sample in range(3):
            i, j = divmod(int(parts[sample, 0, 0, 0]) - 60 * sample, 6)
            np.testing.assert_array_equal(parts[sample], IMAGES[sample, :, i : i + 4, j : j + 4])
            expected = np.zeros((2, 5, 6))
            expected[:, i : i + 4, j : j + 4] = 2 * parts[sample]
            np.testing.assert_array_equal(slopes[sample], expected)
            places.add((sample, i, j))
    assert places == {(sample, i, j) for sample in range(3) for i in range(2) for j in range(3)}


def test_a_seed_draws_the_same_and_samples_may_have_several_axes() -> None:
    with ga.program_guard(ga.Program()) as program:
        x = ga.data("x", [None, 2, 5, 6])
        parts = [L.random_crop(x, [4, 5], seed=7), L.random_crop(x, [4, 5], seed=7), L.random_crop(ga.data("v", [6]), [2], seed=3)]
    first, second, row = ga.Executor().run(program, {"x": IMAGES, "v": np.arange(6, dtype="float32")}, parts)
    assert first.shape == (3, 2, 4, 5)
    np.testing.assert_array_equal(first, second)
    assert row[1] == row[0] + 1


@pytest.mark.parametrize(("shape", "extents"), [([2, 6, 4], [None, 2, 5, 6]), ([4], [None, -1]), ([1, 1, 1], [2, 3])])
def test_what_is_no_part_is_refused(shape: list[int], extents: list[int]) -> None:
    with ga.program_guard(ga.Program()), pytest.raises(ShapeError, match="is not a part of the last axes"):
        L.random_crop(ga.data("x", extents), shape)
