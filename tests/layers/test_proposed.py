"""Proposals and detections, and hashed ids: numbers of Paddle 2.6.2's operators, and definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad as ga
from graphad import layers
from graphad.errors import InvalidType, InvalidValue, ShapeError

L: Any = layers  # calls that type checkers refuse are made on purpose
Array = NDArray[Any]


def values(*outputs: Any) -> list[Array]:
    return list(ga.Executor().run(fetch_list=list(outputs)))


def random() -> np.random.Generator:
    return np.random.default_rng(11)


# -- proposals -------------------------------------------------------------------------------------

INFO = np.array([[48, 64, 1.0], [40, 60, 1.25]], "float32")


def proposed() -> list[Array]:
    rng = random()
    scores = rng.uniform(0, 1, (2, 3, 3, 4)).astype("float32")
    deltas = rng.normal(size=(2, 12, 3, 4)).astype("float32") * 0.4
    x, y = np.meshgrid(np.arange(4) * 16.0, np.arange(3) * 16.0)
    centers, sizes = np.stack([x, y], -1)[:, :, None] + 8, np.array([[16, 16], [32, 20], [20, 40]])
    anchors = np.concatenate([centers - sizes / 2, centers + sizes / 2], -1).astype("float32")
    return [scores, deltas.astype("float32"), anchors, np.tile(np.array([0.5, 0.5, 1.0, 1.0], "float32"), (3, 4, 3, 1))]


def test_proposals_are_paddles() -> None:
    scores, deltas, anchors, variances = proposed()
    with ga.program_guard(ga.Program()):
        tensors = [L.assign(each) for each in (scores, deltas, INFO, anchors, variances)]
        rois, probabilities, counts = values(*L.generate_proposals(*tensors, 20, 6, 0.5, 6.0, 0.9, return_rois_num=True))
    assert counts.tolist() == [6, 6]
    expected = [
        0.9809136,
        0.9483284,
        0.928211,
        0.8959443,
        0.8673335,
        0.8167365,
        0.9964359,
        0.9061344,
        0.9014311,
        0.8957577,
        0.8458901,
        0.8391249,
    ]
    np.testing.assert_allclose(probabilities.ravel(), expected, rtol=1e-6)
    some = [[0.0, 26.98948479, 39.02587891, 47.0], [12.81365108, 5.57687187, 24.48603058, 44.08269501]]
    np.testing.assert_allclose(rois[[0, 2]], some, rtol=1e-5)
    np.testing.assert_allclose(rois[-1], [19.33747482, 4.42299843, 42.3985252, 39.0], rtol=1e-5)


def test_proposals_by_places_are_paddles() -> None:
    scores, deltas, anchors, variances = proposed()
    options = {"pre_nms_topN": 20, "post_nms_topN": 6, "nms_thresh": 0.5, "min_size": 6.0, "eta": 0.9, "pixel_offset": False}
    rois, _, counts = ga.ops.generate_proposals_v2(scores, deltas, INFO[:, :2].copy(), anchors, variances, **options)
    assert counts.tolist() == [6, 6]
    np.testing.assert_allclose(rois[0], [0.0, 27.13284302, 38.57054901, 48.0], rtol=1e-5)
    np.testing.assert_allclose(rois[-1], [19.08330917, 4.02243996, 41.99859619, 40.0], rtol=1e-5)


def test_an_image_without_proposals_has_one_box_of_zeros() -> None:
    scores, deltas, anchors, variances = proposed()
    with ga.program_guard(ga.Program()):
        tensors = [L.assign(each) for each in (scores, deltas, INFO, anchors, variances)]
        rois, probabilities = values(*L.generate_proposals(*tensors, min_size=600.0))
    assert rois.tolist() == [[0.0] * 4] * 2
    assert probabilities.tolist() == [[0.0]] * 2


# -- levels ----------------------------------------------------------------------------------------

ROIS = np.array(
    [
        [30.607141, 58.51923, 184.25702, 345.81482],
        [30.82081, 37.92939, 348.71848, 285.378],
        [10.42102, 38.9071, 86.12499, 115.29755],
        [2.523293, 22.396692, 306.9146, 306.59445],
        [90.94704, 28.077648, 449.9772, 341.0987],
        [27.089834, 67.926247, 198.47041, 125.56967],
        [88.29033, 29.584435, 445.02679, 309.32397],
    ],
    "float32",
)


def test_levels_are_paddles() -> None:
    with ga.program_guard(ga.Program()):
        levels, places, counts = L.distribute_fpn_proposals(L.assign(ROIS), 2, 5, 4, 224, rois_num=L.assign(np.array([3, 4], "int32")))
        found = values(*levels, places, *counts)
    for level, rows in enumerate([[2, 5], [0], [1, 3, 4, 6], []]):
        np.testing.assert_array_equal(found[level], ROIS[rows])
    assert found[4].ravel().tolist() == [2, 3, 0, 4, 5, 1, 6]
    np.testing.assert_array_equal(np.concatenate(found[:4])[found[4].ravel()], ROIS)
    assert [each.tolist() for each in found[5:]] == [[1, 1], [1, 0], [1, 3], [0, 0]]


def test_the_best_of_all_levels_are_paddles() -> None:
    scores = [[0.5763754, 0.6818692, 0.385145], [0.3432801, 0.5754387, 0.4827472, 0.7089698]]
    with ga.program_guard(ga.Program()):
        rois = [L.assign(ROIS[:3]), L.assign(ROIS[3:])]
        columns = [L.assign(np.array(each, "float32")[:, None]) for each in scores]
        numbers = [L.assign(np.array(each, "int32")) for each in ([1, 2], [3, 1])]
        found, counts = values(*L.collect_fpn_proposals(rois, columns, 2, 3, 5, rois_num_per_level=numbers))
        (best,) = values(L.collect_fpn_proposals(rois, columns, 2, 3, 2))
    np.testing.assert_array_equal(found, ROIS[[0, 4, 5, 6, 1]])
    assert counts.tolist() == [3, 2]
    np.testing.assert_array_equal(best, ROIS[[6, 1]])


# -- detections ------------------------------------------------------------------------------------

BOXES = np.array(
    [
        [3.8747044, 3.7247665, 9.360931, 8.472948],
        [4.3747044, 4.2247667, 9.860931, 8.972948],
        [4.5110793, 5.162387, 8.088382, 8.776101],
        [1.5265923, 1.5154023, 6.2913957, 6.1715584],
        [1.2265923, 1.2154024, 5.9913955, 5.871558],
        [5.249701, 3.2345173, 6.424751, 6.080746],
    ],
    "float32",
)


def test_merged_boxes_are_paddles() -> None:
    scores = np.array([[[0.5124269, 0.3248563, 0.5039433, 0.3722559, 0.8907801, 0.4615234]]], "float32")
    expected = [
        [0.0, 1.341226577758789, 4.234915733337402, 4.3860321044921875, 9.003896713256836, 8.70795726776123],
        [0.0, 1.2630360126495361, 1.3150115013122559, 1.3038216829299927, 6.079814434051514, 5.959977626800537],
        [0.0, 0.4615234136581421, 5.249701023101807, 3.2345173358917236, 6.424750804901123, 6.080746173858643],
    ]
    for normalized in (True, False):
        with ga.program_guard(ga.Program()):
            (rows,) = values(L.locality_aware_nms(L.assign(BOXES[None]), L.assign(scores), 0.2, 5, 4, 0.3, normalized))
        np.testing.assert_allclose(rows, expected, rtol=1e-6)


def test_detections_of_retinanet_are_decoded_and_chosen() -> None:
    """Level by level, box by box, as the paper's section 4 has it."""
    rng, counts = np.random.default_rng(2), [5, 4]
    codes = [rng.normal(size=(1, count, 4)) * 0.3 for count in counts]
    scores = [rng.uniform(0.1, 1.0, (1, count, 3)) for count in counts]
    corners = [rng.uniform(0, 40, (count, 2)) for count in counts]
    anchors = [np.concatenate([low, low + rng.uniform(10, 30, low.shape)], 1) for low in corners]
    with ga.program_guard(ga.Program()):
        levels = [[L.assign(each) for each in part] for part in (codes, scores, anchors)]
        outs = L.retinanet_detection_output(*levels, L.assign(INFO[1:].astype("float64")), 0.3, 6, 5, return_rois_num=True)
        rows, number = values(*outs)
    found = []
    for level, limit in enumerate((0.3, 0.0)):
        ranked = sorted(((scores[level][0, n, c], n, c) for n in range(counts[level]) for c in range(3)), reverse=True)
        for score, n, label in [each for each in ranked if each[0] > limit][:6]:
            size = anchors[level][n, 2:] - anchors[level][n, :2] + 1
            center = codes[level][0, n, :2] * size + anchors[level][n, :2] + size / 2
            half = np.exp(codes[level][0, n, 2:]) * size / 2
            box = np.concatenate([center - half, center + half - 1]) / 1.25
            found.append((score, label, np.clip(box, 0, np.array([47, 31, 47, 31]))))
    survivors: list[Any] = []
    for score, label, box in sorted(found, key=lambda each: -each[0]):
        if all(other != label or overlap(box, rest) <= 0.3 for _, other, rest in survivors):
            survivors.append((score, label, box))
    expected = [[label + 1, score, *box] for score, label, box in survivors[:5]]
    np.testing.assert_allclose(rows, expected, rtol=1e-9)
    assert number.tolist() == [len(expected)]


def overlap(a: Array, b: Array) -> float:
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]) + 1, 0)
    areas = [(each[2:] - each[:2] + 1).prod() for each in (a, b)]
    return float(sides.prod() / (sum(areas) - sides.prod()))


# -- windows ---------------------------------------------------------------------------------------


def test_windows_of_own_channels_are_paddles() -> None:
    rng = random()
    x = rng.normal(size=(2, 12, 6, 7)).astype("float32")
    rois = np.array([[0.4, 1.2, 5.1, 4.3], [2.0, 0.5, 9.6, 7.7], [1.5, 1.5, 2.4, 2.2]], "float32")
    with ga.program_guard(ga.Program()):
        out = L.psroi_pool(L.assign(x), L.assign(rois), 2, 0.8, 2, 3, rois_num=L.assign(np.array([1, 2], "int32")))
        (found,) = values(out)
    assert found.shape == (3, 2, 2, 3)
    np.testing.assert_allclose(found.ravel()[: len(OF_PADDLE)], OF_PADDLE, rtol=1e-5)


OF_PADDLE = [
    0.36146214604377747, -0.08525826781988144, 0.2717599868774414, -0.9231044054031372, -0.20208275318145752, -1.291725516319275,
    0.3858988285064697, 0.13881313800811768, -0.5932230949401855, 0.17633090913295746, -0.14479555189609528, -0.2602437436580658,
    -0.20894771814346313, 0.13557536900043488, 1.0197205543518066, -0.18486809730529785, -0.21678222715854645, -0.46602100133895874,
]  # fmt: skip


def test_precise_windows_are_integrals() -> None:
    """The mean over many points of a window is near the integral."""
    x = np.random.default_rng(3).normal(size=(2, 2, 5, 6))
    rois = np.array([[0.7, 0.4, 4.3, 3.9], [-1.3, 1.1, 5.7, 5.2], [2.0, 2.0, 2.0, 3.0]])
    with ga.program_guard(ga.Program()):
        (found,) = values(L.prroi_pool(L.assign(x), L.assign(rois), 0.9, 2, 3, L.assign([1, 2])))
    padded = np.pad(x, ((0, 0), (0, 0), (9, 9), (9, 9)))
    for number, (x1, y1, x2, y2) in enumerate(rois[:2] * 0.9):
        for p in range(2):
            for q in range(3):
                points = (np.arange(400) + 0.5) / 400
                rows, columns = y1 + (y2 - y1) * (p + points) / 2, x1 + (x2 - x1) * (q + points) / 3
                down, across = (hats(each, extent + 18) for each, extent in ((rows + 9, 5), (columns + 9, 6)))
                np.testing.assert_allclose(found[number, :, p, q], (down @ padded[min(number, 1)] @ across).reshape(2), atol=2e-4)
    np.testing.assert_array_equal(found[2], 0.0)


def hats(places: Array, extent: int) -> Array:
    """The mean weights of elements at places between them."""
    return np.asarray(np.maximum(0, 1 - np.abs(places[:, None] - np.arange(extent))).mean(0))


# -- hashes and marks ------------------------------------------------------------------------------


def test_hashes_are_paddles() -> None:
    ids = np.array([[1, 2], [3, 4], [123456789, 7]])
    with ga.program_guard(ga.Program()):
        narrow, wide = values(L.hash(L.assign(ids.astype("int32")), 1000, num_hash=4), L.hash(L.assign(ids), 100000007, 2))
    assert narrow[..., 0].tolist() == [[722, 407, 337, 395], [603, 590, 386, 901], [142, 841, 975, 504]]
    assert wide[..., 0].tolist() == [[52070868, 35389820], [84329374, 43027082], [33450638, 94783008]]


def test_the_largest_of_rows_and_columns_are_paddles() -> None:
    x = np.array(
        [[[5, 23, 2, 16], [3, 8, 13, 10], [9, 21, 18, 6]], [[12, 22, 11, 20], [4, 7, 15, 14], [0, 17, 19, 1]]],
        "float32",
    )[None]
    with ga.program_guard(ga.Program()):
        first, last = values(L.similarity_focus(L.assign(x), 1, [0]), L.similarity_focus(L.assign(x), axis=3, indexes=[0, 2]))
    assert first[0].tolist() == [[[0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]] * 2
    rows = np.array([[0, 1, 1], [1, 0, 1]])
    np.testing.assert_array_equal(last[0], np.repeat(rows[..., None], 4, -1))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: L.generate_proposals(x, x, x[0, 0], x, x), ShapeError, "BboxDeltas"),
        (lambda x: L.distribute_fpn_proposals(x[0, 0], 3, 2, 2, 1), InvalidValue, "max_level is 3 or more"),
        (lambda x: L.collect_fpn_proposals([x[0, 0]], [x[0, 0, :, :1]], 2, 3, 5), ShapeError, "there are 2 levels"),
        (lambda x: L.collect_fpn_proposals(x, [x], 2, 2, 5), InvalidType, "multi_rois is a list"),
        (lambda x: L.retinanet_detection_output([x[0]], [x[0]], [x[0, 0]], x), ShapeError, "ImInfo"),
        (lambda x: L.locality_aware_nms(x[0], x[0, 0], 0.1, -1, -1), ShapeError, "BBoxes"),
        (lambda x: L.psroi_pool(x, x[0, 0], 2, 1.0, 2, 2), ShapeError, "output_channels"),
        (lambda x: L.prroi_pool(x, x[0, 0], 1.0, 0, 2), InvalidValue, "pooled_height"),
        (lambda x: L.hash(x, 100), ShapeError, "int32 or int64"),
        (lambda x: L.similarity_focus(x, 0, [0]), ShapeError, "axis=0"),
        (lambda x: L.similarity_focus(x, 1, [7]), ShapeError, "no places"),
    ],
)
def test_refused(call: Any, error: type[Exception], message: str) -> None:
    with ga.program_guard(ga.Program()):
        x = L.data("x", [1, 3, 4, 4], append_batch_size=False)
        with pytest.raises(error, match=message):
            call(x)
