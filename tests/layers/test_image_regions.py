"""Windows of images that are moved or turned: numbers of Paddle 2.6.2, definitions written out, gradients by central differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad as ga
from graphad import layers
from graphad.errors import InvalidType, InvalidValue, ShapeError

L: Any = layers  # calls that type checkers refuse are made on purpose
Array = NDArray[Any]


def value(call: Callable[..., Any], *arrays: Array) -> list[Array]:
    with ga.program_guard(ga.Program()):
        outs = call(*map(L.assign, arrays))
        return list(ga.Executor().run(fetch_list=list(outs) if isinstance(outs, tuple) else [outs]))


def slopes(call: Callable[..., Any], arrays: list[Array], which: int) -> tuple[Array, Array]:
    """The gradient of a weighted sum of what a call gives, and that by central differences."""
    with ga.program_guard(ga.Program()) as program:
        tensors = [ga.data(f"x{i}", list(array.shape), str(array.dtype)) for i, array in enumerate(arrays)]
        tensors[which].stop_gradient = False
        out = call(*tensors)
        weights = np.random.default_rng(1).normal(size=out.shape)
        total = L.reduce_sum(out * weights)
        (gradient,) = ga.gradients(total, tensors[which])
    executor, feed = ga.Executor(), {f"x{i}": array for i, array in enumerate(arrays)}
    (found,) = executor.run(program, feed, [gradient])
    expected = np.zeros(arrays[which].size)
    for place in range(expected.size):
        sides = []
        for step in (1e-5, -1e-5):
            moved = arrays[which].copy()
            moved.flat[place] += step
            sides.append(float(executor.run(program, {**feed, f"x{which}": moved}, [total])[0]))
        expected[place] = (sides[0] - sides[1]) / 2e-5
    return found, expected.reshape(found.shape)


# -- windows that are moved ------------------------------------------------------------------------

rng = np.random.default_rng(4)
X = rng.normal(size=(2, 8, 6, 7)).astype("float32")
ROIS = np.array([[0.4, 1.2, 5.1, 4.3], [2.0, 0.5, 9.6, 7.7], [1.5, 1.5, 2.4, 2.2]], "float32")
TRANS = rng.normal(size=(3, 4, 2, 3)).astype("float32")
COUNTS = np.array([1, 2])


def test_moved_windows_are_paddles() -> None:
    (found,) = value(lambda x, r, t, n: L.deformable_roi_pooling(x, r, t, False, 0.8, [1, 1], 2, 3, [2, 3], 3, 0.4, rois_num=n), *CASE)
    assert found.shape == (3, 8, 2, 3)
    np.testing.assert_allclose(found.ravel()[::7], MOVED, atol=1e-6)


CASE = (X, ROIS, TRANS, COUNTS)
MOVED = [
    -0.5945551991462708, -0.6815225481987, -0.797909677028656, 0.0, -0.23686106503009796, 0.6257983446121216, 0.026424076408147812,
    0.19580209255218506, -0.40783655643463135, -0.5833702087402344, -0.38749560713768005, -2.0835235118865967, 0.6166642308235168,
    0.3222116529941559, 0.9783557057380676, -1.3003796339035034, 0.1019056960940361, 0.868187665939331, -0.815902590751648,
    0.009852389805018902, -0.9834877848625183,
]  # fmt: skip


def test_windows_with_channels_of_their_own_are_paddles() -> None:
    def call(x: Any, rois: Any, trans: Any, counts: Any) -> Any:
        return L.deformable_roi_pooling(x, rois, trans, True, 0.8, (2, 2), 2, 2, None, 2, 0.4, True, rois_num=counts)

    (found,) = value(call, *CASE)
    assert found.shape == (3, 2, 2, 2)
    expected = [
        -0.4585420489311218, 0.44919344782829285, 1.2230842113494873, 0.01854633167386055,
        0.1802567094564438, -0.34994345903396606, -0.16627193987369537, 0.019953470677137375,
    ]  # fmt: skip
    np.testing.assert_allclose(found.ravel()[::3], expected, atol=1e-6)


@pytest.mark.parametrize("which", [0, 2])
def test_slopes_of_moved_windows(which: int) -> None:
    """Of the images and of the shifts: with one group and two classes, and with groups of channels."""
    arrays = [X.astype("float64")[:, :4], ROIS.astype("float64"), TRANS.astype("float64")[:, :, :, :2] * 0.9 + 0.013]

    def plain(x: Any, rois: Any, trans: Any) -> Any:
        return L.deformable_roi_pooling(
            x, rois, trans, spatial_scale=0.8, pooled_height=2, pooled_width=2, sample_per_part=2, rois_num=L.assign(COUNTS)
        )

    def sensitive(x: Any, rois: Any, trans: Any) -> Any:
        options = {"pooled_height": 2, "pooled_width": 2, "group_size": [2, 2], "position_sensitive": True, "sample_per_part": 3}
        return L.deformable_roi_pooling(x, rois, trans[:, :2], rois_num=L.assign(COUNTS), trans_std=0.3, **options)

    for call in (plain, sensitive):
        found, expected = slopes(call, arrays, which)
        assert np.abs(expected).max() > 0.01
        np.testing.assert_allclose(found, expected, atol=1e-7)


def test_any_number_of_boxes() -> None:
    with ga.program_guard(ga.Program()) as program:
        x, rois = ga.data("x", [None, 4, 6, 7], "float64"), ga.data("rois", [None, 4], "float64")
        x.stop_gradient = False
        trans, counts = ga.data("trans", [None, 2, 2, 2], "float64"), ga.data("counts", [None], "int32")
        out = L.deformable_roi_pooling(x, rois, trans, pooled_height=2, pooled_width=2, rois_num=counts)
        loss = L.reduce_sum(out * out)
        (gradient,) = ga.gradients(loss, x)
    assert out.shape == (-1, 4, 2, 2)
    for boxes, images in ((3, 2), (0, 1)):
        feed = {
            "x": X[:images, :4].astype("float64"),
            "rois": ROIS[:boxes].astype("float64"),
            "trans": np.zeros((boxes, 2, 2, 2)),
            "counts": np.array([boxes - (images - 1), *[1] * (images - 1)], "int32"),
        }
        found, slope = ga.Executor().run(program, feed, [out, gradient])
        assert found.shape == (boxes, 4, 2, 2)
        assert slope.shape == (images, 4, 6, 7)
        assert slope.any() == bool(boxes)


# -- windows that are turned -----------------------------------------------------------------------


def inside(x: float, y: float, corners: list[tuple[float, float]]) -> bool:
    """Whether a place is in a convex quadrangle, clockwise in an image whose y goes down."""
    for (x0, y0), (x1, y1) in zip(corners, [*corners[1:], corners[0]], strict=True):
        if (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) < -1e-3:
            return False
    return True


def turned(image: Array, corners: list[tuple[float, float]], height: int, width: int) -> tuple[Array, Array]:
    """Each element of the window by the projective map that takes the window's corners to the quadrangle's, solved as eight equations."""
    lengths = [math.dist(corners[i], corners[(i + 1) % 4]) for i in range(4)]
    tall, wide = (lengths[1] + lengths[3]) / 2, (lengths[0] + lengths[2]) / 2
    columns = min(max(round(wide * (height - 1) / tall) + 1, 2), width)
    window = [(0, 0), (columns - 1, 0), (columns - 1, height - 1), (0, height - 1)]
    rows, right = [], []
    for (a, b), (x, y) in zip(window, corners, strict=True):
        rows += [[a, b, 1, 0, 0, 0, -a * x, -b * x], [0, 0, 0, a, b, 1, -a * y, -b * y]]
        right += [x, y]
    m = np.append(np.linalg.solve(np.array(rows, float), np.array(right, float)), 1).reshape(3, 3)
    out, mask = np.zeros((len(image), height, width)), np.zeros((height, width), int)
    for i in range(height):
        for j in range(width):
            u, v, w = m @ np.array([j, i, 1.0])
            x, y = u / w, v / w
            if not inside(x, y, corners) or not (-0.5 < x < image.shape[2] - 0.5 and -0.5 < y < image.shape[1] - 0.5):
                continue
            mask[i, j] = 1
            x, y = np.clip(x, 0, image.shape[2] - 1), np.clip(y, 0, image.shape[1] - 1)
            hats = [np.maximum(0, 1 - np.abs(np.arange(n) - at)) for n, at in ((image.shape[1], y), (image.shape[2], x))]
            out[:, i, j] = np.einsum("chw,h,w->c", image, *hats)
    return out, mask


QUADS = [
    [(1.0, 1.2), (5.6, 0.9), (6.1, 4.4), (0.7, 4.9)],
    [(3.0, 0.5), (5.5, 2.5), (3.2, 5.1), (0.4, 2.8)],  # on its corner
    [(-1.5, -1.2), (2.0, -0.9), (2.2, 6.4), (-1.1, 6.9)],  # beyond the image, and higher than wide
]


def test_turned_windows_are_projections() -> None:
    images = X[:, :3].astype("float64")
    rois = np.array([np.ravel(quad) for quad in QUADS]) / 0.5
    out, mask, matrix = value(lambda x, r, n: L.roi_perspective_transform(x, r, 5, 8, 0.5, rois_num=n), images, rois, COUNTS)
    assert out.shape == (3, 3, 5, 8)
    assert mask.shape == (3, 1, 5, 8)
    assert mask.dtype == "int32"
    assert matrix.shape == (3, 9)
    for number, (quad, image) in enumerate(zip(QUADS, (0, 1, 1), strict=True)):
        expected, there = turned(images[image], quad, 5, 8)
        np.testing.assert_array_equal(mask[number, 0], there)
        # 1e-5 in a denominator, Paddle's, moves places by about as much.
        np.testing.assert_allclose(out[number], expected, atol=1e-4)
    assert not mask[2, 0, :, 4:].any()
    assert mask[0, 0, :, :7].all()  # as wide as it is high, in the scale of the window's five rows


def test_slopes_of_turned_windows() -> None:
    arrays = [X[:, :2].astype("float64"), np.array([np.ravel(quad) for quad in QUADS])]
    found, expected = slopes(lambda x, r: L.roi_perspective_transform(x, r, 3, 4, rois_num=L.assign(COUNTS))[0], arrays, 0)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, r, t: L.deformable_roi_pooling(x[0], r, t), ShapeError, "images \\[images, channels"),
        (lambda x, r, t: L.deformable_roi_pooling(x, r[:, :3], t), ShapeError, "\\[boxes, 4\\] is expected"),
        (lambda x, r, t: L.deformable_roi_pooling(x, r, t), ShapeError, "trans is"),
        (lambda x, r, t: L.deformable_roi_pooling(x, r, t, group_size=[2, 2]), ShapeError, "input has 4 channels"),
        (lambda x, r, t: L.deformable_roi_pooling(x, r, t, group_size="2"), InvalidType, "group_size is two integers"),
        (lambda x, r, t: L.deformable_roi_pooling(x, r, t, True, pooled_height=0), InvalidValue, "pooled_height is 1 or more"),
        (lambda x, r, t: L.deformable_roi_pooling(x, r, t, True), ShapeError, "there is no RoisNum"),
        (lambda x, r, t: L.roi_perspective_transform(x, r, 2, 2), ShapeError, "\\[boxes, 8\\] is expected"),
        (lambda x, r, t: L.roi_perspective_transform(x, r, 0, 2), ShapeError, "\\[boxes, 8\\] is expected"),
    ],
)
def test_refused(call: Any, error: type[Exception], message: str) -> None:
    with ga.program_guard(ga.Program()):
        x, rois, trans = ga.data("x", [2, 4, 5, 5]), ga.data("rois", [3, 4]), ga.data("trans", [3, 2, 2, 2])
        with pytest.raises(error, match=message):
            call(x, rois, trans)
