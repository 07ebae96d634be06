"""Training targets of detectors: numbers of Paddle 2.6.2's operators on the same boxes, and SSD's loss as its paper has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad as ga
from graphad import layers
from graphad.errors import ExecutionError, InvalidValue, ShapeError

L: Any = layers  # calls that type checkers refuse are made on purpose
Array = NDArray[Any]


def values(*outputs: Any) -> list[Array]:
    return list(ga.Executor().run(fetch_list=list(outputs)))


def padded(rows: Any, counts: list[int]) -> Array:
    """Rows that Paddle has one after the other, as rows of images filled up with ones."""
    array = np.asarray(rows)
    out = np.ones((len(counts), max(counts), *array.shape[1:]), array.dtype)
    for image, part in enumerate(np.split(array, np.cumsum(counts)[:-1])):
        out[image, : len(part)] = part
    return out


# -- matches ---------------------------------------------------------------------------------------

NEAR = np.array(
    [
        [0.6369617, 0.26978672, 0.04097353, 0.01652764],
        [0.8132702, 0.91275555, 0.60663575, 0.72949654],
        [0.543625, 0.9350724, 0.81585354, 0.0027385],
        [0.8574043, 0.03358557, 0.72965544, 0.17565562],
        [0.8631789, 0.5414612, 0.29971188, 0.42268723],
    ],
    "float32",
)


@pytest.mark.parametrize(
    ("kind", "rows"),
    [("bipartite", [[1, 2, 0, -1], [1, -1, 0, -1]]), ("per_prediction", [[1, 2, 0, 1], [1, 1, 0, -1]])],
)
def test_matches_are_paddles(kind: str, rows: list[list[int]]) -> None:
    with ga.program_guard(ga.Program()):
        found, near = values(*L.bipartite_match(L.assign(padded(NEAR, [3, 2])), kind, length=L.assign([3, 2])))
    assert found.tolist() == rows
    images = np.split(NEAR, [3])
    expected = [[images[n][row, column] if row >= 0 else 0.0 for column, row in enumerate(line)] for n, line in enumerate(rows)]
    np.testing.assert_array_equal(near, np.array(expected, "float32"))


def test_rows_that_differ_by_prior_are_assigned() -> None:
    x = np.arange(2 * 3 * 4 * 2.0).reshape(2, 3, 4, 2)
    matches, negatives = np.array([[2, -1, 0, -1], [-1, -1, 1, 2]]), np.array([[1, -1], [0, 1]])
    with ga.program_guard(ga.Program()):
        rows, weights = values(*L.target_assign(L.assign(x), L.assign(matches), L.assign(negatives), 9))
    for image in range(2):
        for prior in range(4):
            match = matches[image, prior]
            np.testing.assert_array_equal(rows[image, prior], x[image, match, prior] if match >= 0 else [9, 9])
            assert weights[image, prior, 0] == (match >= 0 or prior in negatives[image])


MATCHES = np.array([[0, -1, -1, 1, -1, -1, -1, -1], [-1, -1, 2, -1, -1, -1, -1, 0]], "int32")


@pytest.mark.parametrize(
    ("options", "negatives", "updated"),
    [
        ({"mining_type": "max_negative"}, [[1, 2, 4, 6], [3, 4, 5, 6]], MATCHES.tolist()),
        (
            {"mining_type": "hard_example", "sample_size": 5},
            [[1, 4, 5, 6], [0, 1, 3, 6]],
            [[0, -1, -1, -1, -1, -1, -1, -1], [-1, -1, 2, -1, -1, -1, -1, -1]],
        ),
    ],
)
def test_hard_examples_are_paddles(options: dict[str, Any], negatives: list[list[int]], updated: list[list[int]]) -> None:
    rng = np.random.default_rng(4)
    classes, places = (rng.uniform(0, 1, (2, 8)).astype("float32") for _ in range(2))
    near = rng.uniform(0, 0.8, (2, 8)).astype("float32")
    with ga.program_guard(ga.Program()):
        tensors = [L.assign(each) for each in (classes, MATCHES, near, places)]
        found, matches = values(*ga.ops.mine_hard_examples(*tensors, neg_pos_ratio=2.0, neg_dist_threshold=0.5, **options))
    assert [row[row >= 0].tolist() for row in found] == negatives
    assert matches.tolist() == updated


# -- the loss --------------------------------------------------------------------------------------


def overlap(a: Array, b: Array) -> float:
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    areas = [(each[2:] - each[:2]).prod() for each in (a, b)]
    return float(sides.prod() / (sum(areas) - sides.prod()))


def code(box: Array, prior: Array, variances: list[float]) -> Array:
    size, target = prior[2:] - prior[:2], box[2:] - box[:2]
    center = ((box[:2] + box[2:]) - (prior[:2] + prior[2:])) / 2 / size
    return np.concatenate([center, np.log(target / size)]) / variances


def ssd(case: dict[str, Array], counts: list[int], variances: list[float]) -> Array:
    """Prior by prior (W. Liu et al., 2016, equations 1 to 3); the matches are those that each prior has alone, as the boxes are apart."""
    losses, positives = [], 0
    for image, count in enumerate(counts):
        scores = case["confidence"][image]
        logs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
        near = np.array([[overlap(box, prior) for prior in case["priors"]] for box in case["boxes"][image, :count]])
        match = np.where(near.max(0) >= 0.5, near.argmax(0), -1)
        for box in range(count):
            match[near[box].argmax()] = box
        loss = 0.0
        for prior in np.flatnonzero(match >= 0):
            loss -= logs[prior, case["labels"][image, match[prior]]]
            off = np.abs(case["location"][image, prior] - code(case["boxes"][image, match[prior]], case["priors"][prior], variances))
            loss += np.where(off < 1, off**2 / 2, off - 0.5).sum()
        free = np.flatnonzero((match < 0) & (near.max(0) < 0.5))
        worst = np.sort(-logs[free, 0])[::-1][: 3 * int((match >= 0).sum())]
        losses.append(loss + worst.sum())
        positives += int((match >= 0).sum())
    return np.array(losses)[:, None] / positives


def case_of_ssd() -> dict[str, Array]:
    rng = np.random.default_rng(6)
    corners = np.stack(np.meshgrid(np.arange(4) / 4, np.arange(3) / 3, indexing="ij"), -1).reshape(-1, 2)
    priors = np.concatenate([corners, corners + np.array([0.25, 1 / 3])], -1)
    boxes = np.stack([priors[[1, 6, 9]], priors[[4, 11, 0]]]) + rng.uniform(-0.03, 0.03, (2, 3, 4))
    return {
        "location": rng.normal(size=(2, 12, 4)),
        "confidence": rng.normal(size=(2, 12, 4)),
        "boxes": boxes,
        "labels": np.array([[1, 3, 2], [2, 1, 1]]),
        "priors": priors,
    }


def test_the_loss_of_ssd_and_its_gradient() -> None:
    case, counts, variances = case_of_ssd(), [3, 2], [0.1, 0.1, 0.2, 0.2]
    with ga.program_guard(ga.Program()) as program:
        tensors = {
            name: L.data(name, list(each.shape), append_batch_size=False, dtype=str(each.dtype), stop_gradient=name not in LEARNED)
            for name, each in case.items()
        }
        x = list(tensors.values())
        loss = L.ssd_loss(*x, variances, length=L.assign(counts))
        slopes = ga.gradients(L.reduce_sum(loss), x[:2])
    found, *gradients = ga.Executor().run(program, case, [loss, *slopes])
    np.testing.assert_allclose(found, ssd(case, counts, variances), rtol=1e-10)
    for name, gradient in zip(LEARNED, gradients, strict=True):
        direction = np.cos(np.arange(gradient.size) * 1.5).reshape(gradient.shape)
        ends = [ssd({**case, name: case[name] + step * direction}, counts, variances).sum() for step in (1e-6, -1e-6)]
        np.testing.assert_allclose((gradient * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


LEARNED = ("location", "confidence")

# -- anchors ---------------------------------------------------------------------------------------


def grid() -> Array:
    x, y = np.meshgrid(np.arange(5) * 16.0 + 8, np.arange(4) * 16.0 + 8)
    centers, sizes = np.stack([x, y], -1)[:, :, None], np.array([[16, 16], [32, 20], [20, 40]])
    return np.concatenate([centers - sizes / 2, centers + sizes / 2], -1).astype("float32")


BOXES = np.array([[2, 3, 20, 22], [30, 10, 60, 40], [40, 30, 70, 60], [5, 5, 30, 50], [20, 20, 44, 44]], "float32")
CROWD, INFO = np.array([0, 1, 0, 0, 0], "int32"), np.array([[64, 80, 1.0], [60, 72, 1.25]], "float32")
CODES = [
    [0.1764705926179886, 0.2647058963775635, 0.11122562736272812, 0.16251897811889648],
    [-0.03030303120613098, 0.2380952388048172, -0.06252036243677139, 0.38946473598480225],
    [-0.0476190485060215, 0.12195122241973877, 0.38946473598480225, -0.2795848548412323],
]


def predictions() -> tuple[Any, Any, Array, Array]:
    """Numbers that say which anchor they are of."""
    codes, scores = np.arange(2 * 60 * 4.0).reshape(2, 60, 4), np.arange(2 * 60 * 1.0).reshape(2, 60, 1)
    return L.assign(codes), L.assign(scores), codes.reshape(-1, 4), scores.reshape(-1, 1)


def test_anchors_of_a_proposal_network_are_paddles() -> None:
    """The numbers are those of ``rpn_target_assign`` of paddle 2.6.2 without chance."""
    with ga.program_guard(ga.Program()):
        pred, logits, codes, scores = predictions()
        boxes, crowd = L.assign(padded(BOXES, [3, 2])), L.assign(padded(CROWD, [3, 2]))
        found = values(
            *L.rpn_target_assign(
                pred, logits, grid(), grid(), boxes, crowd, L.assign(INFO), 12, 0.0, 0.25, 0.5, 0.3, False, length=L.assign([3, 2])
            )
        )
    positive, scored = [0, 40, 41, 80, 97], [0, 40, 41, 3, 6, 9, 15, 18, 19, 20, 21, 22, 80, 97, 60, 63, 66, 69, 75, 78, 81, 82, 83, 84]
    np.testing.assert_array_equal(found[0], scores[scored])
    np.testing.assert_array_equal(found[1], codes[positive])
    assert found[2].ravel().tolist() == [1] * 3 + [0] * 9 + [1] * 2 + [0] * 10
    second = [[-0.1011904776096344, 0.25304877758026123, 0.4289955794811249, 0.3338555693626404], [0, 0, *CODES[1][2:]]]
    np.testing.assert_allclose(found[3], [*CODES, *second], rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(found[4], np.ones((5, 4)))


def test_anchors_of_retinanet_are_paddles() -> None:
    with ga.program_guard(ga.Program()):
        pred, logits, codes, scores = predictions()
        boxes, crowd = L.assign(padded(BOXES, [3, 2])), L.assign(padded(CROWD, [3, 2]))
        labels = L.assign(padded(np.array([2, 1, 3, 1, 2], "int32"), [3, 2]))
        options = {"num_classes": 1, "positive_overlap": 0.5, "negative_overlap": 0.4, "length": L.assign([3, 2])}
        found = values(*L.retinanet_target_assign(pred, logits, L.assign(grid()), None, boxes, labels, crowd, L.assign(INFO), **options))
    positive = [0, 40, 41, 95, 97, 98]
    np.testing.assert_array_equal(found[1], codes[positive])
    # Of the first image all but 0, 40, 41 and 56 are negative, of the second all but 80, 95, 97 and 98.
    first, second = np.setdiff1d(np.arange(60), [0, 40, 41, 56]), np.setdiff1d(np.arange(60, 120), [80, 95, 97, 98])
    np.testing.assert_array_equal(found[0], scores[[0, 40, 41, *first, 95, 97, 98, *second]])
    assert found[2][:3].ravel().tolist() == [2, 3, 3]
    assert found[2][59:62].ravel().tolist() == [1, 2, 2]
    assert found[2].sum() == 13
    rest = [
        [-0.1011904776096344, -0.13719512522220612, 0.4289955794811249, 0.3338555693626404],
        [0, 0, *CODES[1][2:]],
        [0, 0, *CODES[2][2:]],
    ]
    np.testing.assert_allclose(found[3], [*CODES, *rest], rtol=1e-5, atol=1e-7)
    assert found[5].tolist() == [[4], [4]]


def test_drawn_anchors_are_of_their_kind() -> None:
    """Half as many may be positive, and what is drawn changes from run to run."""
    with ga.program_guard(ga.Program()) as program:
        pred, logits, *_ = predictions()
        boxes, crowd = L.assign(padded(BOXES, [3, 2])), L.assign(padded(CROWD, [3, 2]))
        outs = L.rpn_target_assign(
            pred, logits, grid(), grid(), boxes, crowd, L.assign(INFO), 6, 0.0, 0.5, 0.5, 0.3, length=L.assign([3, 2])
        )
    executor = ga.Executor()
    drawn = [executor.run(program, fetch_list=list(outs)) for _ in range(6)]
    assert len({tuple(found[0].ravel().tolist()) for found in drawn}) > 1
    for found in drawn:
        assert len(found[0]) == 12
        assert found[2].sum() == 5


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, y: L.bipartite_match(x, "best"), InvalidValue, "match_type='best'"),
        (lambda x, y: L.bipartite_match(x[0, 0]), ShapeError, "DistMat"),
        (lambda x, y: L.target_assign(x[0], y), ShapeError, r"\[images, boxes, width\]"),
        (lambda x, y: L.target_assign(x, L.cast(y, "float32")), ShapeError, "MatchIndices"),
        (lambda x, y: L.ssd_loss(x, x, x, y, x[0], mining_type="hard_example"), InvalidValue, "'max_negative'"),
        (lambda x, y: L.ssd_loss(x, y, x, y, x[0]), ShapeError, "confidence"),
        (lambda x, y: L.rpn_target_assign(x, x, x[0, :, :3], x, x, y, x[:, 0]), ShapeError, "Anchor"),
        (lambda x, y: L.rpn_target_assign(x, x, x[0], x, x, y, y), ShapeError, "ImInfo"),
        (lambda x, y: L.retinanet_target_assign(x, x, x, x, x, y, y, x, 0), InvalidValue, "num_classes"),
    ],
)
def test_refused(call: Any, error: type[Exception], message: str) -> None:
    with ga.program_guard(ga.Program()):
        x, y = L.data("x", [3, 4]), L.data("y", [3], dtype="int64")
        with pytest.raises(error, match=message):
            call(x, y)


def test_matches_beyond_the_boxes_are_refused() -> None:
    with ga.program_guard(ga.Program()) as program:
        rows, _ = L.target_assign(L.assign(np.ones((1, 2, 3))), L.assign([[2, 0]]))
    with pytest.raises(ExecutionError, match="there are 2 boxes"):
        ga.Executor().run(program, fetch_list=[rows])
