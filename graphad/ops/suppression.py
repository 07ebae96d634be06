"""Non-maximum suppression as Paddle has it: boxes chosen among overlapping ones, for all classes of an image together.

``non_max_suppression``, ONNX's, is in ``vision``. How many boxes stay depends on the values, so the rows of all images follow each other,
and an output says how many each image has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.definition import operator
from graphad.ops.inference import matched
from graphad.types import FLOATS, Array, TensorType


def kept_types(BBoxes: TensorType, Scores: TensorType, **_: object) -> tuple[TensorType, TensorType, TensorType]:
    fits = len(BBoxes.shape) == len(Scores.shape) == 3 and matched(BBoxes.shape[2], 4) and matched(BBoxes.shape[0], Scores.shape[0])
    if not fits or not matched(BBoxes.shape[1], Scores.shape[2]) or BBoxes.dtype not in FLOATS or BBoxes.dtype != Scores.dtype:
        raise ShapeError(f"BBoxes is {BBoxes} and Scores is {Scores}; floats [images, boxes, 4] and [images, classes, boxes] are expected")
    return TensorType((-1, 6), BBoxes.dtype), TensorType((-1, 1), "int32"), TensorType((BBoxes.shape[0],), "int32")


class Box(NamedTuple):
    """One that stays: its class, its score, its place in the image."""

    label: int
    score: float
    place: int
    corners: Array | None = None  # where they are not those at the place


def rows_of(BBoxes: Array, Scores: Array, chosen: Callable[[Array, Array], list[Box]]) -> tuple[Array, Array, Array]:
    """Label, score and corners of the boxes of each image, their places in all images together, and how many an image has."""
    rows, places, counts = [], [], []
    for image, (boxes, scores) in enumerate(zip(BBoxes, Scores, strict=True)):
        survivors = chosen(boxes, scores)
        rows += [[box.label, box.score, *(boxes[box.place] if box.corners is None else box.corners)] for box in survivors]
        places += [image * len(boxes) + box.place for box in survivors]
        counts.append(len(survivors))
    table = np.asarray(rows, BBoxes.dtype).reshape(-1, 6)
    return table, np.asarray(places, "int32").reshape(-1, 1), np.asarray(counts, "int32").reshape(len(BBoxes))


def ranked(scores: Array, threshold: float, most: int) -> Array:
    """The places of the scores above a threshold, the best first; of equal ones the first."""
    order = np.argsort(-scores, kind="stable")
    # A nan compares as false, so that a box with such a score is never chosen.
    order = order[scores[order] > threshold]
    return order[:most] if most > -1 else order


def overlaps(box: Array, others: Array, normalized: bool) -> Array:
    """Intersections over unions; a box of pixels has its last row and column."""
    pixel = 0.0 if normalized else 1.0
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    # Two negative sides would have a positive product: boxes that lie apart diagonally share nothing.
    inner = np.where((sides < 0).any(-1), 0.0, (sides + pixel).prod(-1))
    union = _area(box[None], pixel) + _area(others, pixel) - inner
    # Boxes without an area, which a network may predict, overlap nothing; the inner where keeps the division from a warning.
    return np.where(union > 0, inner / np.where(union > 0, union, 1), 0.0)


def _area(boxes: Array, pixel: float) -> Array:
    sides = boxes[:, 2:] - boxes[:, :2]
    return np.asarray(np.where((sides < 0).any(-1), 0.0, (sides + pixel).prod(-1)))


def greedy(boxes: Array, scores: Array, threshold: float, most: int, limit: float, eta: float, normalized: bool) -> Iterator[int]:
    """The places that stay, the best first: those that overlap no better one too much. With ``eta`` the limit falls to one half."""
    survivors: list[int] = []
    # Greedy in the order of the scores: a box that is left out suppresses no others. The cost is boxes times those that stay.
    for place in map(int, ranked(scores, threshold, most)):
        if not (overlaps(boxes[place], boxes[survivors], normalized) > limit).any():
            survivors.append(place)
            yield place
            # Adaptive suppression (Paddle's ``nms_eta``): each box that stays makes the limit stricter, until it is one half or less.
            limit = limit * eta if eta < 1 and limit > 0.5 else limit


@operator("BBoxes Scores -> Out Index NmsRoisNum", infer=kept_types, grad={}, costly=True)
def multiclass_nms3(
    BBoxes: Array,
    Scores: Array,
    *,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
) -> tuple[Array, Array, Array]:
    """The boxes that stay, as rows of label, score and corners: of each class those that overlap no better one by more than a share.

    ``BBoxes`` are ``[N, M, 4]``, two corners each, ``Scores`` ``[N, C, M]``. Of each class the ``nms_top_k`` best are looked at, of each
    image the ``keep_top_k`` best stay (-1: all). ``Index`` is the place of each in ``[N * M]``; ``NmsRoisNum`` counts those of an image.
    """

    def chosen(boxes: Array, scores: Array) -> list[Box]:
        survivors = [
            Box(label, of_class[place], place)
            for label, of_class in enumerate(scores)
            if label != background_label
            for place in greedy(boxes, of_class, score_threshold, nms_top_k, nms_threshold, nms_eta, normalized)
        ]
        if -1 < keep_top_k < len(survivors):
            # The best of all classes, then by class again.
            best = sorted(survivors, key=lambda box: -box.score)[:keep_top_k]
            return sorted(best, key=lambda box: box.label)
        return survivors

    return rows_of(BBoxes, Scores, chosen)


def _decayed(boxes: Array, scores: Array, order: Array, sigma: float, normalized: bool) -> Array:
    """The scores in their order, each less by how much a better box overlaps it (X. Wang et al., SOLOv2, 2020, section 3.3)."""
    # [i, j]: of box i with the better box j; ``worst`` of j with a box better than j. The decay of i is the least f([i, j]) / f(worst[j]).
    shares = np.tril(np.array([overlaps(boxes[place], boxes[order], normalized) for place in order]), -1)
    worst = shares.max(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # f is exp(-sigma iou^2), where sigma is a divisor in the paper and a factor in Paddle, or 1 - iou.
        decay = np.exp((worst**2 - shares**2) * sigma) if sigma >= 0 else (1 - shares) / (1 - worst)
    better = np.tri(len(order), k=-1, dtype=bool)
    return np.asarray(scores[order] * np.where(better, decay, 1.0).min(-1))


@operator("BBoxes Scores -> Out Index RoisNum", infer=kept_types, grad={}, costly=True)
def matrix_nms(
    BBoxes: Array,
    Scores: Array,
    *,
    score_threshold: float,
    post_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
    background_label: int = 0,
    normalized: bool = True,
) -> tuple[Array, Array, Array]:
    """The boxes that stay when each score is less by how much better boxes of its class overlap it: label, score and corners.

    Slots and counts are those of ``multiclass_nms3``; those with a score above ``post_threshold`` stay, the best of an image first.
    """

    def chosen(boxes: Array, scores: Array) -> list[Box]:
        survivors = []
        for label, of_class in enumerate(scores):
            # Classes do not see each other: a cat may lie on a sofa.
            order = ranked(of_class, score_threshold, nms_top_k) if label != background_label else np.zeros(0, "int64")
            if len(order):
                decayed = _decayed(boxes, of_class, order, gaussian_sigma if use_gaussian else -math.inf, normalized)
                survivors += [Box(label, score, int(at)) for score, at in zip(decayed, order, strict=True) if score > post_threshold]
        survivors.sort(key=lambda box: -box.score)
        return survivors[:keep_top_k] if keep_top_k > -1 else survivors

    return rows_of(BBoxes, Scores, chosen)


__all__ = ["Box", "greedy", "kept_types", "matrix_nms", "multiclass_nms3", "overlaps", "ranked", "rows_of"]
