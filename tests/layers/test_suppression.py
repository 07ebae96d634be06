"""Boxes that stay, and YOLO's loss: against loops over boxes as the papers have them, and numbers of Paddle 2.6."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad as ga
from graphad import layers
from graphad.errors import InvalidValue, ShapeError
from graphad.testing.samples.suppression import BOXES, SCORES

L: Any = layers  # calls that type checkers refuse are made on purpose
Array = NDArray[Any]


def overlap(a: Array, b: Array) -> float:
    sides = [min(a[k + 2], b[k + 2]) - max(a[k], b[k]) for k in (0, 1)]
    inner = max(sides[0], 0) * max(sides[1], 0)
    return float(inner / (math.prod(a[2:] - a[:2]) + math.prod(b[2:] - b[:2]) - inner))


def suppressed(boxes: Array, scores: Array, limit: float) -> list[list[float]]:
    """All classes but the first: the best box, then those that overlap none that stays."""
    rows = []
    for label, of_class in list(enumerate(scores))[1:]:
        survivors: list[int] = []
        for place in sorted(range(len(boxes)), key=lambda i: -of_class[i]):
            if of_class[place] > 0.1 and all(overlap(boxes[place], boxes[other]) <= limit for other in survivors):
                survivors.append(place)
        rows += [[label, of_class[place], *boxes[place]] for place in survivors]
    return rows


def test_of_each_class_the_boxes_that_overlap_no_better_one() -> None:
    with ga.program_guard(ga.Program()) as program:
        outs = L.multiclass_nms(L.assign(BOXES), L.assign(SCORES), 0.1, -1, -1, return_index=True, return_rois_num=True)
    rows, places, counts = ga.Executor().run(program, fetch_list=list(outs))
    expected = [suppressed(boxes, scores, 0.3) for boxes, scores in zip(BOXES, SCORES, strict=True)]
    np.testing.assert_array_equal(rows, [row for image in expected for row in image])
    assert counts.tolist() == [len(image) for image in expected]
    np.testing.assert_array_equal(BOXES.reshape(-1, 4)[places[:, 0]], rows[:, 2:])


def test_the_best_of_an_image_stay() -> None:
    with ga.program_guard(ga.Program()) as program:
        every, best = (L.multiclass_nms(L.assign(BOXES), L.assign(SCORES), 0.1, -1, most, return_rois_num=True) for most in (-1, 2))
    rows, counts, survivors, kept = ga.Executor().run(program, fetch_list=[*every, *best])
    images = np.split(rows, counts.cumsum()[:-1])
    # The two best of an image, by class again.
    expected = [row for image in images for row in sorted(sorted(image.tolist(), key=lambda row: -row[1])[:2])]
    assert survivors.tolist() == expected
    assert kept.tolist() == [2, 2]


def test_no_box_is_no_row() -> None:
    with ga.program_guard(ga.Program()) as program:
        rows = L.multiclass_nms(L.assign(BOXES), L.assign(SCORES), 1.0, -1, -1)
    assert ga.Executor().run(program, fetch_list=[rows])[0].shape == (0, 6)


def test_scores_decay_by_the_overlaps() -> None:
    """Solov2's equation 6, box by box."""
    for gaussian in (False, True):
        with ga.program_guard(ga.Program()) as program:
            rows = L.matrix_nms(L.assign(BOXES[:1]), L.assign(SCORES[:1, 1:2]), 0.0, 0.0, -1, -1, gaussian, 2.0, -1)
        found = ga.Executor().run(program, fetch_list=[rows])[0]
        scores = SCORES[0, 1]
        order = sorted(range(4), key=lambda i: -scores[i])
        expected = []
        for rank, i in enumerate(order):
            factors = []
            for at, j in enumerate(order[:rank]):
                worst = max((overlap(BOXES[0, j], BOXES[0, k]) for k in order[:at]), default=0.0)
                own = overlap(BOXES[0, i], BOXES[0, j])
                factors.append(math.exp(2 * (worst**2 - own**2)) if gaussian else (1 - own) / (1 - worst))
            expected.append((scores[i] * min(factors, default=1.0), i))
        expected.sort(reverse=True)
        np.testing.assert_allclose(found[:, 1], [score for score, _ in expected])
        np.testing.assert_array_equal(found[:, 2:], BOXES[0, [i for _, i in expected]])


def test_detection_output_decodes_and_chooses() -> None:
    priors = BOXES[0]
    with ga.program_guard(ga.Program()) as program:
        logits = L.assign(np.log(SCORES / SCORES.sum(1, keepdims=True)).transpose(0, 2, 1))
        rows = L.detection_output(L.assign(np.zeros((2, 4, 4))), logits, L.assign(priors), [0.1, 0.1, 0.2, 0.2])
    found = ga.Executor().run(program, fetch_list=[rows])[0]
    assert len(found)
    for row in found:
        assert np.abs(priors - row[2:]).max(1).min() < 1e-12


# -- yolov3_loss -----------------------------------------------------------------------------------

ANCHORS, MASK, CLASSES = [10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119], [1, 2, 4], 4


def head(height: int = 4, width: int = 4) -> dict[str, Array]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2, 3 * (5 + CLASSES), height, width)).astype("float32")
    boxes = np.concatenate([rng.uniform(0.05, 0.9, (2, 6, 2)), rng.uniform(0.02, 0.7, (2, 6, 2))], -1).astype("float32")
    boxes[0, 4], boxes[0, 2, :2], boxes[1, 2] = 0, boxes[0, 1, :2], boxes[1, 1]
    labels = rng.integers(0, CLASSES, (2, 6)).astype("int32")
    return {"x": x, "boxes": boxes, "labels": labels, "scores": rng.uniform(0.3, 1, (2, 6)).astype("float32")}


def lost(feed: dict[str, Array], scored: bool, **options: Any) -> tuple[Array, Array]:
    with ga.program_guard(ga.Program()) as program:
        variables = {name: L.data(name, [-1, *array.shape[1:]], append_batch_size=False, dtype=array.dtype) for name, array in feed.items()}
        variables["x"].stop_gradient = False
        x, boxes, labels, scores = variables.values()
        loss = L.yolov3_loss(x, boxes, labels, ANCHORS, MASK, CLASSES, 0.4, 8, scores if scored else None, **options)
        (slope,) = ga.gradients(L.reduce_sum(loss), x)
    return tuple(ga.Executor().run(program, feed, [loss, slope]))  # type: ignore[return-value]


def test_the_loss_that_paddle_gives() -> None:
    """The numbers are those of paddle 2.6.2, ``vision.ops.yolo_loss``: the losses, and the sum of the gradient's absolute values."""
    loss, slope = lost(head(), False)
    np.testing.assert_allclose(loss, [37.96512222, 47.69465637], rtol=1e-6)
    np.testing.assert_allclose(np.abs(slope).sum(), 52.84213257, rtol=1e-6)
    loss, slope = lost(head(), True, use_label_smooth=False, scale_x_y=1.2)
    np.testing.assert_allclose(loss, [37.96512222, 40.04174042], rtol=1e-6)
    np.testing.assert_allclose(np.abs(slope).sum(), 48.70617676, rtol=1e-6)


def test_the_gradient_of_the_loss_is_a_central_difference() -> None:
    feed = {name: array.astype("float64") if array.dtype == "float32" else array for name, array in head(3, 5).items()}
    direction = np.random.default_rng(8).normal(size=feed["x"].shape)
    _, slope = lost(feed, True)
    ends = [lost({**feed, "x": feed["x"] + step * direction}, True)[0].sum() for step in (1e-6, -1e-6)]
    np.testing.assert_allclose((slope * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_right_boxes_keep_the_gradients_that_they_have_elsewhere() -> None:
    feed = {name: array for name, array in head().items() if name != "scores"}
    with ga.program_guard(ga.Program()) as program:
        x, boxes, labels = (
            L.data(name, feed[name].shape, dtype=feed[name].dtype, append_batch_size=False) for name in ("x", "boxes", "labels")
        )
        boxes.stop_gradient = False
        halves = boxes * 0.5
        loss = L.reduce_sum(L.yolov3_loss(x, halves, labels, ANCHORS, MASK, CLASSES, 0.4, 8)) + L.reduce_sum(halves)
        (slope,) = ga.gradients(loss, boxes)
    (found,) = ga.Executor().run(program, feed, [slope])
    np.testing.assert_array_equal(found, np.full_like(found, 0.5))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, y: L.multiclass_nms(x, y, 0.1, -1, -1), ShapeError, r"bboxes is \[images, boxes, 4\]"),
        (lambda x, y: L.multiclass_nms(y, y, 0.1, -1, -1), ShapeError, r"floats \[images, boxes, 4\] and \[images, classes, boxes\]"),
        (lambda x, y: L.multiclass_nms(y, y, 0.1, -2, -1), InvalidValue, "nms_top_k"),
        (lambda x, y: L.detection_output(y, x, x, None), ShapeError, r"scores are \[images, priors, classes\]"),
        (lambda x, y: L.yolov3_loss(x, y, x, [1, 2, 3], [0], 2, 0.5, 8), InvalidValue, "anchors has a width and a height"),
        (lambda x, y: L.yolov3_loss(x, y, x, [1, 2], [1], 2, 0.5, 8), InvalidValue, "anchor_mask has numbers of the 1 anchors"),
        (lambda x, y: L.yolov3_loss(x, y, x, [1, 2], [0], 2, 0.5, 8), ShapeError, r"x is \[batch, 1 \* \(5 \+ 2\), height, width\]"),
    ],
)
def test_refused(call: Any, error: type[Exception], message: str) -> None:
    with ga.program_guard(ga.Program()):
        x, y = L.data("x", [3]), L.data("y", [3, 5])
        with pytest.raises(error, match=message):
            call(x, y)
