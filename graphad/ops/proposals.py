"""Boxes that a detector proposes and detects: decoded from anchors, chosen, spread over the levels of a pyramid and collected again.

How many there are depends on the values: those of all images follow each other, and an output counts them. No gradient goes through a
choice.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.definition import operator
from graphad.ops.inference import check_index, matched
from graphad.ops.suppression import Box, greedy, kept_types, overlaps, ranked, rows_of
from graphad.types import FLOATS, Array, TensorType

# -- region proposals ------------------------------------------------------------------------------
# S. Ren et al., "Faster R-CNN: Towards real-time object detection with region proposal networks" (2015), section 3.1.

LARGEST = math.log(1000.0 / 16.0)  # the most that the logarithm of an extent counts, as in Paddle and Detectron


def _proposed_types(
    Scores: TensorType, BboxDeltas: TensorType, Im: TensorType, Anchors: TensorType, Variances: TensorType, **_: object
) -> tuple[TensorType, TensorType, TensorType]:
    if len(Scores.shape) != 4 or len(BboxDeltas.shape) != 4 or Scores.dtype not in FLOATS:
        raise ShapeError(f"Scores is {Scores} and BboxDeltas is {BboxDeltas}: floats [N, A, H, W] and [N, 4 A, H, W] are expected")
    anchors = Scores.shape[1]
    expected = (Scores.shape[0], -1 if anchors == -1 else 4 * anchors, *Scores.shape[2:])
    if not all(map(matched, BboxDeltas.shape, expected)):
        raise ShapeError(f"Scores is {Scores} but BboxDeltas is {BboxDeltas}: {list(expected)} is expected")
    for name, tensor in (("Anchors", Anchors), ("Variances", Variances)):
        if not tensor.shape or not matched(tensor.shape[-1], 4):
            raise ShapeError(f"{name} is {tensor}: [H, W, A, 4] is expected")
    if len(Im.shape) != 2 or not matched(Im.shape[0], Scores.shape[0]) or Im.shape[1] not in (-1, 2, 3):
        raise ShapeError(f"the extents of images are {Im}: a row of height and width for each of {Scores.shape[0]} images is expected")
    dtypes = {tensor.dtype for tensor in (Scores, BboxDeltas, Im, Anchors, Variances)}
    if len(dtypes) > 1:
        raise ShapeError(f"one dtype is expected, not {', '.join(sorted(dtypes))}")
    return TensorType((-1, 4), Scores.dtype), TensorType((-1, 1), Scores.dtype), TensorType((Scores.shape[0],), "int32")


def _decoded(codes: Array, anchors: Array, pixel: float, largest: float = math.inf) -> Array:
    """Boxes from shifts of the centers in units of the anchors' extents, and logarithms of how much larger they are."""
    if codes.shape != anchors.shape or codes.shape[1] != 4:
        raise InvalidValue(f"codes are {list(codes.shape)} and anchors {list(anchors.shape)}: four numbers of each box are expected")
    # In double precision, since a corner is the difference of a center and half an extent.
    codes, anchors = codes.astype("float64"), anchors.astype("float64")
    # Equation 2, solved for the box: x = t_x w_a + x_a and w = exp(t_w) w_a; halves are of the new extents.
    sizes = anchors[:, 2:] - anchors[:, :2] + pixel
    centers = codes[:, :2] * sizes + anchors[:, :2] + 0.5 * sizes
    with np.errstate(over="ignore"):  # a network may predict anything
        halves = np.exp(np.minimum(codes[:, 2:], largest)) * sizes * 0.5
    return np.concatenate([centers - halves, centers + halves - pixel], 1)


def _proposals(
    Scores: Array, BboxDeltas: Array, Im: Array, Anchors: Array, Variances: Array, pixel: float, scaled: bool, options: dict[str, Any]
) -> tuple[Array, Array, Array]:
    anchors, variances = Anchors.reshape(-1, 4), Variances.reshape(-1, 4)
    rois, probabilities, counts = [], [], []
    for number, extents in enumerate(Im):
        # By place and then by anchor, as the anchors are.
        scores = Scores[number].transpose(1, 2, 0).reshape(-1)
        codes = BboxDeltas[number].reshape(Scores.shape[1], 4, *Scores.shape[2:]).transpose(2, 3, 0, 1).reshape(-1, 4)
        if len(anchors) != len(scores) or len(variances) != len(scores):
            raise InvalidValue(f"there are {len(scores)} scores of an image, but {len(anchors)} anchors and {len(variances)} variances")
        # Section 3.3: the best by score are decoded, cut to the image, left out where too small, and then suppressed.
        order = ranked(scores, -math.inf, options["pre_nms_topN"] if options["pre_nms_topN"] > 0 else -1)
        boxes = _decoded(codes[order] * variances[order], anchors[order], pixel, LARGEST)
        # Extents are height and width, corners x and y: so the order turns. A pixel that is counted ends one before the extent.
        ends = np.array([extents[1], extents[0]] * 2, boxes.dtype) - boxes.dtype.type(pixel)
        boxes = np.clip(boxes, 0, ends)
        fits = _large_enough(boxes, extents, pixel, scaled, max(options["min_size"], 1.0))
        survivors = _survivors(boxes[fits], scores[order][fits], options, not pixel)
        # Where no box is left there is one of zeros, as in Paddle: what follows has a box of each image.
        rois.append(boxes[fits][survivors] if len(fits) else np.zeros((1, 4), boxes.dtype))
        probabilities.append(scores[order][fits][survivors] if len(fits) else np.zeros(1, scores.dtype))
        counts.append(len(rois[-1]))
    joined = (np.concatenate([np.zeros((0, 4)), *rois]), np.concatenate([np.zeros(0), *probabilities])[:, None])
    return joined[0].astype(Scores.dtype), joined[1].astype(Scores.dtype), np.asarray(counts, "int32").reshape(len(Im))


def _large_enough(boxes: Array, extents: Array, pixel: float, scaled: bool, least: float) -> Array:
    """The places of boxes that are not too small where the image was not scaled, and whose center is in it."""
    sizes = boxes[:, 2:] - boxes[:, :2]
    # With the scale the extents are those in the image as it was, where a pixel is one wide again.
    own = sizes / extents[2] + 1 if scaled else sizes + pixel
    fits = (own >= least).all(1)
    if pixel:
        fits &= (boxes[:, :2] + (sizes + pixel) * 0.5 <= [extents[1], extents[0]]).all(1)
    return np.flatnonzero(fits)


def _survivors(boxes: Array, scores: Array, options: dict[str, Any], normalized: bool) -> list[int]:
    # As in Paddle, no limit at all means no suppression, and no most of them either.
    if options["nms_thresh"] <= 0:
        return list(range(len(boxes)))
    survivors = list(greedy(boxes, scores, -math.inf, -1, options["nms_thresh"], options["eta"], normalized))
    return survivors[: options["post_nms_topN"]] if options["post_nms_topN"] > 0 else survivors


@operator("Scores BboxDeltas ImInfo Anchors Variances -> RpnRois RpnRoiProbs RpnRoisNum", infer=_proposed_types, grad={}, costly=True)
def generate_proposals(
    Scores: Array,
    BboxDeltas: Array,
    ImInfo: Array,
    Anchors: Array,
    Variances: Array,
    *,
    pre_nms_topN: int = 6000,
    post_nms_topN: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
) -> tuple[Array, Array, Array]:
    """The boxes that a region proposal network scores best and that overlap no better one too much: of all images, with their scores.

    ``Scores`` are ``[N, A, H, W]``, ``BboxDeltas`` ``[N, 4 A, H, W]``, ``Anchors`` and ``Variances`` ``[H, W, A, 4]``, ``ImInfo`` height,
    width and scale of each image; corners are pixels. An image without any has one box of zeros; ``RpnRoisNum`` counts those of each.
    """
    if ImInfo.shape[1] != 3:
        raise InvalidValue(f"ImInfo is {list(ImInfo.shape)}: height, width and scale of each image are expected")
    options = {"pre_nms_topN": pre_nms_topN, "post_nms_topN": post_nms_topN, "nms_thresh": nms_thresh, "min_size": min_size, "eta": eta}
    return _proposals(Scores, BboxDeltas, ImInfo, Anchors, Variances, 1.0, True, options)


@operator("Scores BboxDeltas ImShape Anchors Variances -> RpnRois RpnRoiProbs RpnRoisNum", infer=_proposed_types, grad={}, costly=True)
def generate_proposals_v2(
    Scores: Array,
    BboxDeltas: Array,
    ImShape: Array,
    Anchors: Array,
    Variances: Array,
    *,
    pre_nms_topN: int = 6000,
    post_nms_topN: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
    pixel_offset: bool = True,
) -> tuple[Array, Array, Array]:
    """As ``generate_proposals`` without a scale; corners are places and not pixels without ``pixel_offset``."""
    options = {"pre_nms_topN": pre_nms_topN, "post_nms_topN": post_nms_topN, "nms_thresh": nms_thresh, "min_size": min_size, "eta": eta}
    return _proposals(Scores, BboxDeltas, ImShape, Anchors, Variances, float(pixel_offset), False, options)


# -- levels of a pyramid ---------------------------------------------------------------------------
# T.-Y. Lin et al., "Feature pyramid networks for object detection" (2017), section 4.2.


def _check_counts(name: str, counts: TensorType) -> None:
    check_index(name, counts)
    if len(counts.shape) != 1:
        raise ShapeError(f"{name} is {counts}: a number of boxes for each image is expected")


def _owners(name: str, counts: Array, boxes: int) -> Array:
    """The image of each box."""
    if (counts < 0).any() or counts.sum() != boxes:
        raise InvalidValue(f"{name} is {counts.tolist()}: {boxes} boxes are expected")
    return np.repeat(np.arange(len(counts)), counts)


def _spread_types(
    FpnRois: TensorType, RoisNum: TensorType | None = None, *, min_level: int, max_level: int, **_: object
) -> tuple[list[TensorType], TensorType, list[TensorType]]:
    if len(FpnRois.shape) != 2 or not matched(FpnRois.shape[1], 4) or FpnRois.dtype not in FLOATS:
        raise ShapeError(f"FpnRois is {FpnRois}: float boxes [R, 4] are expected")
    if max_level < min_level:
        raise InvalidValue(f"min_level={min_level} and max_level={max_level}: the first is not above the second")
    if RoisNum is not None:
        _check_counts("RoisNum", RoisNum)
    count, images = max_level - min_level + 1, 1 if RoisNum is None else RoisNum.shape[0]
    rois, numbers = TensorType((-1, 4), FpnRois.dtype), TensorType((images,), "int32")
    return [rois] * count, TensorType((FpnRois.shape[0], 1), "int32"), [numbers] * count


@operator("FpnRois RoisNum? -> MultiFpnRois* RestoreIndex MultiLevelRoIsNum*", infer=_spread_types, grad={}, costly=True)
def distribute_fpn_proposals(
    FpnRois: Array,
    RoisNum: Array | None = None,
    *,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    pixel_offset: bool = True,
) -> tuple[list[Array], Array, list[Array]]:
    """Boxes by the level that they belong to: larger ones to higher levels, ``refer_level`` those of ``refer_scale`` by side.

    ``RestoreIndex`` is where each box is when the levels follow each other, ``MultiLevelRoIsNum`` how many each image has in a level.
    """
    numbers = np.array([len(FpnRois)]) if RoisNum is None else RoisNum
    images = _owners("RoisNum", numbers, len(FpnRois))
    sides = FpnRois[:, 2:] - FpnRois[:, :2]
    # A box of negative extents has no area.
    areas = np.where((sides < 0).any(1), 0, (sides + FpnRois.dtype.type(pixel_offset)).prod(1))
    # Equation 1: k = floor(k_0 + log2(sqrt(w h) / 224)), with refer_level and refer_scale. The 1e-6, Paddle's, keeps the logarithm of an
    # empty box finite, and a side of just a power of two times the scale on its own level.
    levels = np.floor(np.log2(np.sqrt(areas) / refer_scale + 1e-6) + refer_level).clip(min_level, max_level)
    of_level = [np.flatnonzero(levels == level) for level in range(min_level, max_level + 1)]
    # The inverse of the order in which the levels follow each other.
    restore = np.argsort(np.concatenate(of_level), kind="stable").astype("int32")[:, None]
    counts = [np.bincount(images[places], minlength=len(numbers)).astype("int32") for places in of_level]
    return [FpnRois[places] for places in of_level], restore, counts


def _collected_types(
    MultiLevelRois: list[TensorType], MultiLevelScores: list[TensorType], MultiLevelRoIsNum: list[TensorType] | None = None, **_: object
) -> tuple[TensorType, TensorType]:
    numbers = MultiLevelRoIsNum or []
    if not MultiLevelRois or len(MultiLevelScores) != len(MultiLevelRois) or len(numbers) not in (0, len(MultiLevelRois)):
        raise ShapeError("as many scores, and numbers of boxes, as there are levels of boxes are expected")
    for rois, scores in zip(MultiLevelRois, MultiLevelScores, strict=True):
        if len(rois.shape) != 2 or not matched(rois.shape[1], 4) or rois.dtype not in FLOATS or scores.dtype != rois.dtype:
            raise ShapeError(f"boxes are {rois} and scores are {scores}: floats [R, 4] and [R, 1] are expected")
    for counts in numbers:
        _check_counts("MultiLevelRoIsNum", counts)
    return TensorType((-1, 4), MultiLevelRois[0].dtype), TensorType((numbers[0].shape[0] if numbers else 1,), "int32")


@operator("MultiLevelRois* MultiLevelScores* MultiLevelRoIsNum*? -> FpnRois RoisNum", infer=_collected_types, grad={}, costly=True)
def collect_fpn_proposals(
    MultiLevelRois: list[Array], MultiLevelScores: list[Array], MultiLevelRoIsNum: list[Array] | None = None, *, post_nms_topN: int
) -> tuple[Array, Array]:
    """The boxes with the best scores of all levels, image by image, the best of an image first; ``RoisNum`` counts those of each."""
    numbers = MultiLevelRoIsNum or [np.array([len(part)]) for part in MultiLevelRois]
    images = np.concatenate([_owners("MultiLevelRoIsNum", n, len(part)) for n, part in zip(numbers, MultiLevelRois, strict=True)])
    rois, scores = np.concatenate(MultiLevelRois), np.concatenate([part.reshape(-1) for part in MultiLevelScores])
    if len(rois) != len(scores) or any(len(part) != len(numbers[0]) for part in numbers):
        raise InvalidValue(f"there are {len(rois)} boxes and {len(scores)} scores; each level counts the boxes of each image")
    # The limit is for all images together, as in Paddle: an image whose boxes score low may have none left.
    best = np.argsort(-scores, kind="stable")[: max(post_nms_topN, 0)]
    # Stable: within an image the order by score stays.
    best = best[np.argsort(images[best], kind="stable")]
    return rois[best], np.bincount(images[best], minlength=len(numbers[0])).astype("int32")


# -- detections ------------------------------------------------------------------------------------


def _retina_types(
    BBoxes: list[TensorType], Scores: list[TensorType], Anchors: list[TensorType], ImInfo: TensorType, **_: object
) -> tuple[TensorType, TensorType]:
    if not BBoxes or not len(BBoxes) == len(Scores) == len(Anchors):
        raise ShapeError(f"{len(BBoxes)} BBoxes, {len(Scores)} Scores, {len(Anchors)} Anchors: as many of each are expected, one a level")
    for boxes, scores, anchors in zip(BBoxes, Scores, Anchors, strict=True):
        fits = len(boxes.shape) == len(scores.shape) == 3 and len(anchors.shape) == 2 and matched(boxes.shape[2], 4)
        if not fits or len(ImInfo.shape) != 2 or not matched(ImInfo.shape[0], boxes.shape[0]):
            raise ShapeError(f"boxes are {boxes}, [N, M, 4], and ImInfo is {ImInfo}, [N, 3]: as many images are expected")
        if (
            not matched(boxes.shape[0], scores.shape[0])
            or not matched(boxes.shape[1], scores.shape[1])
            or not matched(anchors.shape[0], boxes.shape[1])
        ):
            raise ShapeError(f"[N, M, 4], [N, M, classes] and [M, 4] are expected in each level, not {boxes}, {scores} and {anchors}")
    if len(ImInfo.shape) != 2 or not matched(ImInfo.shape[1], 3) or BBoxes[0].dtype not in FLOATS:
        raise ShapeError(f"ImInfo is {ImInfo} and BBoxes are {BBoxes[0]}: floats, height, width and scale of each image, are expected")
    return TensorType((-1, 6), BBoxes[0].dtype), TensorType((ImInfo.shape[0],), "int32")


@operator("BBoxes* Scores* Anchors* ImInfo -> Out NmsRoisNum", infer=_retina_types, grad={}, costly=True)
def retinanet_detection_output(
    BBoxes: list[Array],
    Scores: list[Array],
    Anchors: list[Array],
    ImInfo: Array,
    *,
    score_threshold: float,
    nms_top_k: int,
    nms_threshold: float = 0.3,
    nms_eta: float = 1.0,
    keep_top_k: int,
) -> tuple[Array, Array]:
    """RetinaNet's boxes (T.-Y. Lin et al., 2017): the best of each level decoded, then of each class those that overlap no better one.

    A level is ``[N, M, 4]``, ``[N, M, classes]`` and ``[M, 4]``. Rows are label (from 1), score and two corners, the best of an image
    first, in pixels of the image before its scale. ``NmsRoisNum``, which Paddle's has not, counts those of each image.
    """
    rows, counts = [], []
    for image, (height, width, scale) in enumerate(ImInfo):
        boxes, scores, labels = [], [], []
        for level, anchors in enumerate(Anchors):
            flat = Scores[level][image].reshape(-1)
            # Of the last level all count, however low.
            order = ranked(flat, score_threshold if level + 1 < len(Anchors) else 0.0, nms_top_k)
            # Scores are one row of classes for each place, so a number in the flat array is both.
            place, label = np.divmod(order, Scores[level].shape[2])
            decoded = _decoded(BBoxes[level][image, place], anchors[place], 1.0) / scale
            ends = np.round(np.array([width, height] * 2) / scale) - 1
            boxes.append(np.clip(decoded, 0, ends).astype(anchors.dtype))
            scores.append(flat[order])
            labels.append(label)
        detections = _of_classes(np.concatenate(boxes), np.concatenate(scores), np.concatenate(labels), nms_threshold, nms_eta)
        detections = detections[np.argsort(-detections[:, 1], kind="stable")][: keep_top_k if keep_top_k > -1 else None]
        rows.append(detections)
        counts.append(len(detections))
    table = np.concatenate([np.zeros((0, 6)), *rows]).astype(BBoxes[0].dtype)
    return table, np.asarray(counts, "int32").reshape(len(ImInfo))


def _of_classes(boxes: Array, scores: Array, labels: Array, limit: float, eta: float) -> Array:
    """Rows of label, score and corners, class by class, of boxes that are pixels."""
    rows = []
    for label in np.unique(labels):
        # Boxes of other classes do not suppress these.
        own = np.flatnonzero(labels == label)
        for place in greedy(boxes[own], scores[own], -math.inf, -1, limit, eta, False):
            rows.append([label + 1, scores[own[place]], *boxes[own[place]]])
    return np.asarray(rows, "float64").reshape(-1, 6)


@operator("BBoxes Scores -> Out NmsRoisNum", infer=lambda *inputs, **_: kept_types(*inputs)[::2], grad={}, costly=True)
def locality_aware_nms(
    BBoxes: Array,
    Scores: Array,
    *,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = -1,
) -> tuple[Array, Array]:
    """As ``multiclass_nms3``, after boxes that follow each other and overlap are merged, with the sum of their scores (X. Zhou et al.,
    EAST, 2017, section 3.6): along the lines of a text, of which neighbors see the same word.

    Each class merges the boxes that it is given; Paddle's kernel merges those that the class before has merged already.
    """

    def chosen(boxes: Array, scores: Array) -> list[Box]:
        boxes_left = []
        for label, of_class in enumerate(scores):
            if label == background_label:
                continue
            corners, sums = _merged(boxes, of_class, nms_threshold, normalized)
            places = greedy(corners, sums, score_threshold, nms_top_k, nms_threshold, nms_eta, normalized)
            boxes_left += [Box(label, float(sums[place]), place, corners[place]) for place in places]
        if -1 < keep_top_k < len(boxes_left):
            return sorted(sorted(boxes_left, key=lambda box: -box.score)[:keep_top_k], key=lambda box: box.label)
        return boxes_left

    table, _, counts = rows_of(BBoxes, Scores, chosen)
    return table, counts


def _merged(boxes: Array, scores: Array, limit: float, normalized: bool) -> tuple[Array, Array]:
    """Each box that overlaps the one before merged into it, weighted by the scores; what has been merged has no score."""
    out, sums = boxes.copy(), np.full(len(boxes), -np.inf)
    current = -1
    for place, box in enumerate(boxes):
        if current >= 0 and overlaps(out[current], box[None], normalized)[0] > limit:
            total = scores[place] + sums[current]
            # A weighted mean kept up to date: each box counts by its score, in whatever order they come. Linear in boxes, unlike
            # suppression.
            out[current] = (box * scores[place] + out[current] * sums[current]) / total
            sums[current] = total
        else:
            current, sums[place] = place, scores[place]
    return out, sums
