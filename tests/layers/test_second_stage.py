"""Training targets of a detector's second stage, against numbers of Paddle 2.6.2's operators, and against definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad as ga
from graphad import layers
from graphad.errors import ExecutionError, InvalidType, InvalidValue, ShapeError

L: Any = layers  # calls that type checkers refuse are made on purpose
Array = NDArray[Any]

INFO = np.array([[48, 64, 1.0], [60, 80, 1.25]], "float32")
TRUE = np.array([[[4, 5, 20, 22], [10, 2, 40, 30]], [[0, 0, 15, 15], [30, 20, 60, 44]]], "float32")
CLASSES, CROWD = np.array([[3, 1], [2, 1]], "int32"), np.array([[0, 1], [0, 0]], "int32")
COUNTS = np.array([9, 7], "int32")
ROIS = np.array(
    [
        [-4.824563503265381, 0.7253156304359436, 15.70614242553711, 19.726877212524414],
        [30.949935913085938, 21.531639099121094, 55.52064895629883, 50.75818634033203],
        [2.0, 30.0, 12.0, 41.0],
        [-1.9688550233840942, -2.0160441398620605, 16.140567779541016, 14.66982364654541],
        [34.44771194458008, 14.511187553405762, 59.99075698852539, 41.32383346557617],
        [50.0, 1.0, 60.0, 12.0],
        [25.54719352722168, 22.955646514892578, 60.53614044189453, 47.02056884765625],
        [6.877554416656494, 2.060436248779297, 17.606613159179688, 21.390003204345703],
        [12.243879318237305, 4.552901744842529, 37.87094497680664, 28.178407669067383],
        [-2.9918360710144043, -2.1908931732177734, 17.8577880859375, 18.255693435668945],
        [20.21792984008789, 0.6009862422943115, 48.91728210449219, 39.21966552734375],
        [8.925971984863281, 1.1176481246948242, 50.04994201660156, 40.403045654296875],
        [-4.935055732727051, 5.14301061630249, 17.428285598754883, 19.385311126708984],
        [40.676578521728516, 27.47797203063965, 78.97212219238281, 55.64949035644531],
        [-0.07355007529258728, 1.1867945194244385, 15.016067504882812, 23.303203582763672],
        [2.092301607131958, 1.5240854024887085, 32.71153259277344, 26.988332748413086],
    ],
    "float32",
)


def values(*outputs: Any) -> list[Array]:
    return list(ga.Executor().run(fetch_list=list(outputs)))


def labelled(*more: Any, true: Array = TRUE, **options: Any) -> list[Array]:
    with ga.program_guard(ga.Program()):
        tensors = [L.assign(each) for each in (ROIS, CLASSES, CROWD, true, INFO)]
        tensor_options = {name: L.assign(value) if isinstance(value, np.ndarray) else value for name, value in options.items()}
        return values(*L.generate_proposal_labels(*tensors, *more, **{"rois_num": L.assign(COUNTS), **tensor_options}))


# -- classes and places ----------------------------------------------------------------------------


@pytest.mark.parametrize(("agnostic", "classes"), [(False, 4), (True, 2)])
def test_labels_of_proposals_are_paddles(agnostic: bool, classes: int) -> None:
    rois, labels, targets, inside, outside, counts = labelled(
        7, 0.5, 0.5, 0.5, 0.0, class_nums=classes, use_random=False, is_cls_agnostic=agnostic, return_rois_num=True
    )
    assert counts.tolist() == [7, 6]
    # True boxes come first of an image, then its proposals; those of the second are scaled by 1.25.
    np.testing.assert_allclose(rois[[0, 7, 8]], np.array([[4, 5, 20, 22], [0, 0, 18.75, 18.75], [37.5, 25, 75, 55]]))
    np.testing.assert_allclose(rois[[1, 2, 3, 4, 5, 6]], ROIS[[7, 8, 0, 1, 2, 3]])
    np.testing.assert_allclose(rois[9:], ROIS[[9, 10, 11, 15]], rtol=1e-6)
    assert labels.ravel().tolist() == [3, 3, 1, 0, 0, 0, 0, 2, 1, 2, 0, 0, 0]
    sums = [0, 1.9138036966323853, 1.407813310623169, 0, 0, 0, 0, 0, 0, 0.5913110971450806, 0, 0, 0]
    np.testing.assert_allclose(targets.sum(1), sums, rtol=1e-5, atol=1e-6)
    column = np.where(labels.ravel() > 0, 1 if agnostic else labels.ravel(), 0)
    expected = np.zeros((13, classes, 4), "float32")
    expected[np.arange(13), column] = (labels > 0).repeat(4, 1)
    np.testing.assert_array_equal(inside, expected.reshape(13, -1))
    np.testing.assert_array_equal(outside, inside)
    assert not targets[inside == 0].any()


def test_all_boxes_of_a_cascade_are_paddles() -> None:
    shares = np.linspace(0.3, 1.1, 16).astype("float32")
    options: dict[str, Any] = {
        "class_nums": 4,
        "use_random": False,
        "is_cascade_rcnn": True,
        "max_overlap": shares,
        "return_rois_num": True,
    }
    rois, labels, targets, _, _, counts = labelled(7, 0.5, 0.5, 0.5, 0.0, **options)
    assert counts.tolist() == [10, 7]
    assert labels.ravel().tolist() == [3, 3, 1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2, 2, 1, 0, 0]
    np.testing.assert_allclose(
        rois.sum(1)[[1, 7, 13, 16]], [47.934608459472656, 150.27349853515625, 37.02155303955078, 100.49661254882812], rtol=1e-6
    )
    np.testing.assert_allclose(targets.sum(1)[[12, 13, 14]], [0.591311097, -0.0935156345, -1.23549509], rtol=1e-5)


def test_drawn_boxes_are_among_those_that_count() -> None:
    everything = labelled(1000, 1.0, 0.5, 0.5, 0.0, class_nums=4, use_random=False)
    objects = {tuple(row) for row, label in zip(everything[0].tolist(), everything[1], strict=True) if label}
    background = {tuple(row) for row, label in zip(everything[0].tolist(), everything[1], strict=True) if not label}
    seen = set()
    for _ in range(20):
        rois, labels, *_, counts = labelled(4, 0.5, 0.5, 0.5, 0.0, class_nums=4, return_rois_num=True)
        assert counts.tolist() == [4, 4]
        assert (labels > 0).sum() == 4
        rows = [tuple(row) for row in rois.tolist()]
        assert len({*rows}) == 8
        assert {*rows} <= objects | background
        seen |= {*rows}
    assert len(seen) > 12  # of 17: another choice each time


def test_an_image_without_true_boxes_is_background() -> None:
    _, labels, targets, *_ = labelled(7, class_nums=4, use_random=False, length=np.array([0, 2]))
    assert not labels[:7].any()
    assert not targets[:7].any()
    assert labels[7:].any()


# -- masks -----------------------------------------------------------------------------------------

POLYGONS: list[list[list[float]]] = [
    [[4, 5, 20, 6, 18, 22, 5, 20]],
    [[10, 2, 40, 2, 40, 30]],
    [[0, 0, 15, 1, 7, 15], [2, 8, 14, 9, 14, 15, 3, 14]],
    [[30, 20, 60, 24, 58, 44, 31.5, 40]],
]
LABELS = np.array([3, 0, 0, 1, 2, 0, 0, 3, 1, 0, 2, 1, 0, 0, 1, 2], "int32")[:, None]


def masked(labels: Array, resolution: int = 6) -> list[Array]:
    points, counts = np.zeros((4, 2, 4, 2), "float32"), np.zeros((4, 2), "int32")
    for i, polygons in enumerate(POLYGONS):
        for j, polygon in enumerate(polygons):
            counts[i, j] = len(polygon) // 2
            points[i, j, : counts[i, j]] = np.reshape(polygon, (-1, 2))
    arrays = (INFO, CLASSES, CROWD, points.reshape(2, 2, 2, 4, 2), ROIS, labels)
    with ga.program_guard(ga.Program()):
        tensors = [L.assign(each) for each in arrays]
        options = {"points_num": L.assign(counts.reshape(2, 2, 2)), "rois_num": L.assign(COUNTS), "return_rois_num": True}
        return values(*L.generate_mask_labels(*tensors, num_classes=4, resolution=resolution, **options))


def test_masks_of_proposals_are_paddles() -> None:
    rois, places, masks, counts = masked(LABELS)
    assert counts.tolist() == [5, 4]
    np.testing.assert_allclose(rois, ROIS[[0, 3, 4, 7, 8, 10, 11, 14, 15]], rtol=1e-6)
    assert places.ravel().tolist() == [0, 3, 4, 7, 8, 1, 2, 5, 6]
    assert masks.shape == (9, 4 * 36)
    own = masks.reshape(9, 4, 6, 6)
    labels = LABELS[[0, 3, 4, 7, 8, 10, 11, 14, 15], 0]
    found = ["".join(map(str, own[i, label].ravel())) for i, label in enumerate(labels)]
    assert found == [
        "000000" "000110" "000111" "000111" "000111" "000111",
        "000000" "000000" "000000" "001111" "001111" "001111",
        "0" * 36,
        "000000" "111111" "111111" "111111" "111111" "111111",
        "110000" "110000" "110000" "100000" "000000" "000000",
        "000000" "000000" "000000" "000000" "000011" "000011",
        "100000" "100000" "100000" "000000" "000000" "000000",
        "011111" "011111" "011110" "011111" "000111" "000000",
        "111000" "110000" "111000" "111000" "000000" "000000",
    ]  # fmt: skip
    others = np.ones((9, 4), bool)
    others[np.arange(9), labels] = False
    assert (own[others] == -1).all()


def test_an_image_without_objects_has_a_background_box() -> None:
    rois, places, masks, counts = masked(LABELS * 0)
    assert counts.tolist() == [1, 1]
    np.testing.assert_allclose(rois, ROIS[[0, 9]], rtol=1e-6)
    assert places.ravel().tolist() == [0, 0]
    assert (masks == -1).all()


def test_a_fine_mask_is_the_polygon() -> None:
    """The share of elements inside is near the share of the box that the polygon fills."""
    box = np.array([[0.0, 0.0, 20.0, 20.0]])
    outline = np.array([[2.0, 1.0], [18.0, 5.0], [11.0, 19.0], [3.0, 12.0]])
    x, y = outline.T
    area = abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2
    arrays = [np.ones((1, 3)), np.array([[1]]), np.array([[0]]), outline[None, None, None], box, np.array([[1]])]
    found = ga.ops.generate_mask_labels(*arrays, num_classes=2, resolution=200)[2].reshape(2, 200, 200)[1]
    assert found.mean() == pytest.approx(area / 400, abs=4e-3)
    # Turned around the diagonal, the mask is the other one's.
    arrays[3] = outline[None, None, None, ::-1, ::-1].copy()
    turned = ga.ops.generate_mask_labels(*arrays, num_classes=2, resolution=200)[2].reshape(2, 200, 200)[1]
    assert (turned.T != found).mean() < 4e-3


@pytest.mark.parametrize("far", [1e9, np.inf, np.nan])
def test_a_polygon_that_is_too_far_away_is_refused(far: float) -> None:
    """It would be followed step by step, and fill the memory."""
    outline = np.array([[2.0, 1.0], [far, 5.0], [11.0, 19.0]])
    arrays = [np.ones((1, 3)), np.array([[1]]), np.array([[0]]), outline[None, None, None], np.array([[0.0, 0, 9, 9]]), np.array([[1]])]
    with pytest.raises(InvalidValue, match="beyond its box"):
        ga.ops.generate_mask_labels(*arrays, num_classes=2, resolution=4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: labelled(7), InvalidType, "class_nums, the number of classes"),
        (lambda: labelled(7, class_nums=1), InvalidValue, "class_nums"),
        (lambda: labelled(7, class_nums=4, rois_num=None), ShapeError, "there are 2 images"),
        (lambda: labelled(7, class_nums=4, true=TRUE[:, :1].copy()), ShapeError, "GtBoxes is"),
        (lambda: labelled(7, class_nums=4, length=np.array([1])), ShapeError, "Length is"),
        (lambda: labelled(7, class_nums=3), ExecutionError, "classes from 0 to 2 are expected"),
        (lambda: labelled(7, class_nums=4, rois_num=np.array([9, 8], "int32")), ExecutionError, "16 boxes of 2 images are expected"),
        (lambda: masked(LABELS + 1), ExecutionError, "classes from 0 to 3 are expected"),
        (lambda: masked(LABELS[:3]), ShapeError, "LabelsInt32 is"),
        (lambda: masked(LABELS, 0), InvalidValue, "resolution is 1 or more"),
    ],
)
def test_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
