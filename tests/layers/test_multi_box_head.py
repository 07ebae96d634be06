"""``multi_box_head``: the priors, and what the convolutions of each feature map say of them."""

from __future__ import annotations

import numpy as np
import pytest

import graphad as ga
from graphad import layers as L


def test_places_scores_and_priors_of_two_maps() -> None:
    first = np.arange(16.0, dtype="float32").reshape(1, 2, 2, 4)
    second = first[:, :, ::2, ::2]
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        image = L.ones([1, 3, 8, 16])
        maps = [L.assign(first), L.assign(second)]
        out = L.multi_box_head(maps, image, 8, 3, [[1.0], [1.0]], min_sizes=[4.0, [6.0]], max_sizes=[[9.0], 6.0])
    scope, executor = ga.Scope(), ga.Executor()
    executor.run(startup, scope=scope)
    for param in main.all_parameters():
        scope.set(param.name, np.full(param.shape, 0.5 if len(param.shape) == 4 else 0.0, "float32"))
    places, scores, boxes, variances = executor.run(main, {}, list(out), scope=scope)
    # Two priors at each place: of the least size, and of the mean of both (sqrt(4 * 9) = 6, sqrt(6 * 6) = 6).
    sums = np.concatenate([0.5 * each.sum(1).reshape(-1) for each in (first, second)]).repeat(2)
    np.testing.assert_allclose(places[0], np.repeat(sums[:, None], 4, 1))
    np.testing.assert_allclose(scores[0], np.repeat(sums[:, None], 3, 1))
    centers = [(4 * x + 2, 4 * y + 2) for y in range(2) for x in range(4)] + [(8 * x + 4, 4) for x in range(2)]
    halves = [(2, 3)] * 8 + [(3, 3)] * 2
    corners = [(x - h, y - h, x + h, y + h) for (x, y), pair in zip(centers, halves, strict=True) for h in pair]
    np.testing.assert_allclose(boxes, np.array(corners) / [16, 8, 16, 8], rtol=1e-6)
    np.testing.assert_allclose(variances, np.tile([0.1, 0.1, 0.2, 0.2], (20, 1)), rtol=1e-6)


def test_sizes_are_spread_between_two_percents() -> None:
    with ga.program_guard(ga.Program(), ga.Program()):
        image, maps = L.ones([1, 3, 100, 100]), [L.ones([1, 2, 1, 1]) for _ in range(3)]
        boxes = L.multi_box_head(maps, image, 100, 2, [[1.0]] * 3, 20, 90)[2]
        program = ga.default_main_program().prune([boxes])
    (found,) = ga.Executor().run(program, {}, [boxes])
    widths = (found[:, 2] - found[:, 0]) * 100
    # 10 to 20 percent for the first map; then steps of (90 - 20) // 1 percent.
    np.testing.assert_allclose(widths, [10, np.sqrt(10 * 20), 20, np.sqrt(20 * 90), 90, np.sqrt(90 * 160)], rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "min_sizes and max_sizes are given"),
        ({"min_sizes": [1.0], "max_sizes": [2.0]}, "min_sizes is a list with one item for each of 2 maps"),
    ],
)
def test_what_is_refused(options: dict[str, list[float]], message: str) -> None:
    with ga.program_guard(ga.Program(), ga.Program()):
        image = L.ones([1, 3, 8, 8])
        with pytest.raises((TypeError, ValueError), match=message):
            L.multi_box_head([image, image], image, 8, 2, [[1.0], [1.0]], **options)  # type: ignore[arg-type]
