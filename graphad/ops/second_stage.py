"""Training targets of a detector's second stage: the sampled proposals, with classes and places, and masks of objects.

Proposals of all images follow each other, and ``RoisNum`` says how many each image has; true boxes and polygons are padded. No gradient
goes through a choice.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.definition import operator
from graphad.ops.inference import check_index, matched
from graphad.ops.matching import check_counts, counts_of, encoded, pixel_overlaps
from graphad.types import FLOATS, INTS, Array, TensorType

# -- images ----------------------------------------------------------------------------------------


def _check_rois(name: str, rois: TensorType, RoisNum: TensorType | None, images: int) -> None:
    if len(rois.shape) != 2 or not matched(rois.shape[1], 4) or rois.dtype not in FLOATS:
        raise ShapeError(f"{name} is {rois}: float boxes [boxes, 4] are expected")
    if RoisNum is None:
        if not matched(images, 1):
            raise ShapeError(f"there are {images} images: RoisNum, a number of boxes for each, is expected")
        return
    check_counts("RoisNum", RoisNum, images)


def _check_true(images: TensorType, classes: TensorType, crowd: TensorType) -> None:
    """Refuse integers of true boxes that are not ``[images, boxes]``, and extents that are not three for each image."""
    if len(images.shape) != 2 or not matched(images.shape[1], 3) or images.dtype not in FLOATS:
        raise ShapeError(f"ImInfo is {images}: height, width and scale of each image, floats [images, 3], are expected")
    for name, each in (("GtClasses", classes), ("IsCrowd", crowd)):
        if len(each.shape) != 2 or not matched(each.shape[0], images.shape[0]) or each.dtype not in INTS:
            raise ShapeError(f"{name} is {each}: integers [images, boxes] of {images.shape[0]} images are expected")
    if not matched(classes.shape[1], crowd.shape[1]):
        raise ShapeError(f"GtClasses is {classes} but IsCrowd is {crowd}: both are [images, boxes]")


def _parts(rois: Array, RoisNum: Array | None, images: int) -> list[Array]:
    """The places of each image's boxes."""
    counts = np.array([len(rois)]) if RoisNum is None else RoisNum
    if len(counts) != images or (counts < 0).any() or counts.sum() != len(rois):
        raise InvalidValue(f"RoisNum is {counts.tolist()}: {len(rois)} boxes of {images} images are expected")
    return np.split(np.arange(len(rois)), np.cumsum(counts)[:-1]) if images else []


# -- classes and places ----------------------------------------------------------------------------
# R. Girshick, "Fast R-CNN" (2015), section 2.3: of each image a number of boxes, a share of them objects.


WEIGHTS: list[float] = [0.1, 0.1, 0.2, 0.2]  # no call changes it


def _labelled_types(
    RpnRois: TensorType,
    GtClasses: TensorType,
    IsCrowd: TensorType,
    GtBoxes: TensorType,
    ImInfo: TensorType,
    RoisNum: TensorType | None = None,
    Length: TensorType | None = None,
    MaxOverlap: TensorType | None = None,
    *,
    class_nums: int = 2,
    bbox_reg_weights: list[float] = WEIGHTS,
    **_: object,
) -> tuple[TensorType, ...]:
    _check_true(ImInfo, GtClasses, IsCrowd)
    _check_rois("RpnRois", RpnRois, RoisNum, ImInfo.shape[0])
    if len(GtBoxes.shape) != 3 or not all(map(matched, GtBoxes.shape, (*GtClasses.shape, 4))) or GtBoxes.dtype != RpnRois.dtype:
        raise ShapeError(f"GtBoxes is {GtBoxes}: boxes {[*GtClasses.shape, 4]} of {RpnRois.dtype} are expected")
    if Length is not None:
        check_counts("Length", Length, ImInfo.shape[0])
    if MaxOverlap is not None and (
        len(MaxOverlap.shape) != 1 or not matched(MaxOverlap.shape[0], RpnRois.shape[0]) or MaxOverlap.dtype != RpnRois.dtype
    ):
        raise ShapeError(f"MaxOverlap is {MaxOverlap}: a number of {RpnRois.dtype} for each proposal, [boxes], is expected")
    if class_nums < 2 or len(bbox_reg_weights) != 4 or 0 in bbox_reg_weights:
        raise InvalidValue(f"class_nums={class_nums}, bbox_reg_weights={bbox_reg_weights}: 2 or more, and four numbers but 0, are expected")
    dtype = RpnRois.dtype
    wide = TensorType((-1, 4 * class_nums), dtype)
    outputs = (TensorType((-1, 4), dtype), TensorType((-1, 1), "int32"), wide, wide, wide)
    return *outputs, TensorType((-1,), dtype), TensorType((ImInfo.shape[0],), "int32")


class _Sampled(NamedTuple):
    """The boxes of one image that count: objects, then background; of the objects the true boxes."""

    objects: Array
    background: Array
    true: Array

    @property
    def all(self) -> Array:
        return np.concatenate([self.objects, self.background])


def _sampled(overlaps: Array, crowd: Array, how: dict[str, Any], rng: np.random.Generator) -> _Sampled:
    """Boxes that overlap a true one by ``fg_thresh`` are objects, those between the other two shares are background."""
    most = overlaps.max(1, initial=0.0)
    # True boxes come first among the boxes; that of a crowd is none to learn.
    most[np.flatnonzero(crowd)] = -1.0
    objects = np.flatnonzero((most >= how["fg_thresh"]) & (overlaps.shape[1] > 0))
    background = np.flatnonzero((most < how["fg_thresh"]) & (most >= how["bg_thresh_lo"]) & (most < how["bg_thresh_hi"]))
    # The first true box within 1e-5 of the greatest share, as in Paddle's kernel.
    true = (np.abs(overlaps[objects] - most[objects, None]) < 1e-5).argmax(1) if len(objects) else objects
    if how["is_cascade_rcnn"]:  # all of them count
        return _Sampled(objects, background, true)
    kept = _drawn(len(objects), int(np.float32(how["batch_size_per_im"]) * np.float32(how["fg_fraction"])), how["use_random"], rng)
    rest = _drawn(len(background), how["batch_size_per_im"] - len(kept), how["use_random"], rng)
    return _Sampled(objects[kept], background[rest], true[kept])


def _drawn(count: int, most: int, is_random: bool, rng: np.random.Generator) -> Array:
    """The places of at most so many: the first ones, or any."""
    places = np.arange(count)
    return places[:most] if count <= most or not is_random else rng.permutation(places)[:most]


def _spread(rows: Array, labels: Array, classes: int, agnostic: bool) -> Array:
    """Rows of four in the columns of their class; zeros for the background. Without classes all objects are of class 1."""
    out = np.zeros((len(labels), classes, 4), rows.dtype)
    positive = np.flatnonzero(labels > 0)
    out[positive, 1 if agnostic else labels[positive]] = rows[positive]
    return out.reshape(len(labels), 4 * classes)


@operator(
    "RpnRois GtClasses IsCrowd GtBoxes ImInfo RoisNum? Length? MaxOverlap? -> "
    "Rois LabelsInt32 BboxTargets BboxInsideWeights BboxOutsideWeights MaxOverlapWithGT OutRoisNum",
    infer=_labelled_types,
    grad={},
    random=True,
    costly=True,
)
def generate_proposal_labels(
    RpnRois: Array,
    GtClasses: Array,
    IsCrowd: Array,
    GtBoxes: Array,
    ImInfo: Array,
    RoisNum: Array | None = None,
    Length: Array | None = None,
    MaxOverlap: Array | None = None,
    *,
    batch_size_per_im: int = 256,
    fg_fraction: float = 0.25,
    fg_thresh: float = 0.25,
    bg_thresh_hi: float = 0.5,
    bg_thresh_lo: float = 0.0,
    bbox_reg_weights: list[float] = WEIGHTS,
    class_nums: int = 2,
    use_random: bool = True,
    is_cls_agnostic: bool = False,
    is_cascade_rcnn: bool = False,
    rng: np.random.Generator,
) -> tuple[Array, ...]:
    """The proposals of which a detector's second stage learns, with their classes and how far true boxes are from them.

    ``RpnRois`` ``[R, 4]`` are in the scaled image, ``GtBoxes`` ``[N, G, 4]``, ``GtClasses`` and ``IsCrowd`` ``[N, G]`` in the image as it
    was; true boxes are proposals, too. ``BboxTargets`` ``[B, 4 * class_nums]`` are codes in the columns of the class, the weights 1 there.
    With ``is_cascade_rcnn`` nothing is drawn, and boxes without area, or that ``MaxOverlap`` says are true ones, are left out.
    """
    how: dict[str, Any] = {
        "batch_size_per_im": batch_size_per_im,
        "fg_fraction": fg_fraction,
        "fg_thresh": fg_thresh,
        "use_random": use_random,
    }
    how |= {
        "fg_thresh": fg_thresh,
        "bg_thresh_hi": bg_thresh_hi,
        "bg_thresh_lo": bg_thresh_lo,
        "is_cascade_rcnn": is_cascade_rcnn,
        "classes": class_nums,
    }
    how |= {"agnostic": is_cls_agnostic, "weights": np.asarray(bbox_reg_weights, RpnRois.dtype)}
    counts, width, dtype = np.zeros(len(ImInfo), "int32"), 4 * class_nums, RpnRois.dtype
    parts = [(np.zeros((0, 4), dtype), np.zeros((0, 1), "int32"), *[np.zeros((0, width), dtype)] * 3, np.zeros(0, dtype))]
    true_counts = counts_of(Length, len(ImInfo), GtBoxes.shape[1])
    for image, places in enumerate(_parts(RpnRois, RoisNum, len(ImInfo))):
        if not len(places):
            continue
        true, scale = slice(0, true_counts[image]), dtype.type(ImInfo[image, 2])
        rois = RpnRois[places] / scale
        if is_cascade_rcnn:
            rois = _with_area(rois, None if MaxOverlap is None else MaxOverlap[places])
        boxes, *told = _labelled(rois, GtClasses[image, true], IsCrowd[image, true], GtBoxes[image, true], how, rng)
        parts.append((boxes * scale, *told))
        counts[image] = len(boxes)
    return *(np.concatenate(column) for column in zip(*parts, strict=True)), counts


def _labelled(rois: Array, classes: Array, crowd: Array, true: Array, how: dict[str, Any], rng: np.random.Generator) -> tuple[Array, ...]:
    """The sampled boxes of one image, their classes, targets, both weights and shares."""
    boxes = np.concatenate([true, rois])
    overlaps = pixel_overlaps(boxes, true)
    chosen = _sampled(overlaps, crowd, how, rng)
    labels = np.zeros(len(chosen.all), "int32")
    labels[: len(chosen.true)] = classes[chosen.true]
    if classes.size and not 0 <= classes.min() <= classes.max() < (np.inf if how["agnostic"] else how["classes"]):
        raise InvalidValue(f"GtClasses has {classes.min()} to {classes.max()}: classes from 0 to {how['classes'] - 1} are expected")
    codes = np.zeros((len(labels), 4), rois.dtype)
    codes[: len(chosen.true)] = encoded(boxes[chosen.objects], true[chosen.true]) / how["weights"]
    targets, weights = (_spread(rows, labels, how["classes"], how["agnostic"]) for rows in (codes, np.ones_like(codes)))
    shares = overlaps.max(1, initial=0.0)[chosen.all].astype(rois.dtype)
    return boxes[chosen.all], labels[:, None], targets, weights, weights, shares


def _with_area(rois: Array, most: Array | None) -> Array:
    """The boxes of pixels with an area that are no true ones; one of zeros if there are none, as in Paddle."""
    fits = (rois[:, 2:] - rois[:, :2] + 1 > 0).all(1)
    if most is not None:
        fits &= most < 1
    return rois[fits] if fits.any() else np.zeros((1, 4), rois.dtype)


# -- masks -----------------------------------------------------------------------------------------
# K. He et al., "Mask R-CNN" (2017), section 3: for each object a small mask, in its box.


def _masked_types(
    ImInfo: TensorType,
    GtClasses: TensorType,
    IsCrowd: TensorType,
    GtSegms: TensorType,
    Rois: TensorType,
    LabelsInt32: TensorType,
    PointsNum: TensorType | None = None,
    RoisNum: TensorType | None = None,
    *,
    num_classes: int,
    resolution: int,
) -> tuple[TensorType, ...]:
    _check_true(ImInfo, GtClasses, IsCrowd)
    _check_rois("Rois", Rois, RoisNum, ImInfo.shape[0])
    if len(GtSegms.shape) != 5 or not all(map(matched, (*GtSegms.shape[:2], GtSegms.shape[4]), (*GtClasses.shape, 2))):
        raise ShapeError(f"GtSegms is {GtSegms}: polygons {[*GtClasses.shape]} + [polygons, points, 2] are expected")
    if PointsNum is not None:
        check_index("PointsNum", PointsNum)
    if PointsNum is not None and (len(PointsNum.shape) != 3 or not all(map(matched, PointsNum.shape, GtSegms.shape))):
        raise ShapeError(f"PointsNum is {PointsNum} but GtSegms is {GtSegms}: a number of points for each polygon is expected")
    if LabelsInt32.dtype not in INTS or len(LabelsInt32.shape) != 2 or not all(map(matched, LabelsInt32.shape, (Rois.shape[0], 1))):
        raise ShapeError(f"LabelsInt32 is {LabelsInt32}: integers {[Rois.shape[0], 1]} are expected")
    if num_classes < 1 or resolution < 1:
        raise InvalidValue(f"num_classes={num_classes}, resolution={resolution}: numbers above 0 are expected")
    masks = TensorType((-1, num_classes * resolution * resolution), "int32")
    return TensorType((-1, 4), Rois.dtype), TensorType((-1, 1), "int32"), masks, TensorType((ImInfo.shape[0],), "int32")


@operator(
    "ImInfo GtClasses IsCrowd GtSegms Rois LabelsInt32 PointsNum? RoisNum? -> MaskRois RoiHasMaskInt32 MaskInt32 MaskRoisNum",
    infer=_masked_types,
    grad={},
    costly=True,
)
def generate_mask_labels(
    ImInfo: Array,
    GtClasses: Array,
    IsCrowd: Array,
    GtSegms: Array,
    Rois: Array,
    LabelsInt32: Array,
    PointsNum: Array | None = None,
    RoisNum: Array | None = None,
    *,
    num_classes: int,
    resolution: int,
) -> tuple[Array, ...]:
    """For each proposal of an object the mask of the object in it: 1 and 0 in the columns of its class, and -1 elsewhere.

    ``GtSegms`` ``[N, G, P, K, 2]`` are the points of polygons, of which ``PointsNum`` ``[N, G, P]`` count (0: no polygon). An object
    belongs to the proposal whose box it overlaps most. ``RoiHasMaskInt32`` is the place of a proposal among those of its image; an image
    without objects has its first background, and a mask of -1.
    """
    counts, points = np.zeros(len(ImInfo), "int32"), np.full(GtSegms.shape[:3], GtSegms.shape[3]) if PointsNum is None else PointsNum
    shape = (num_classes, resolution, resolution)
    parts = [(np.zeros((0, 4), Rois.dtype), np.zeros((0, 1), "int32"), np.zeros((0, *shape), "int32"))]
    for image, places in enumerate(_parts(Rois, RoisNum, len(ImInfo))):
        if not len(places):
            continue
        labels, scale = LabelsInt32[places, 0], Rois.dtype.type(ImInfo[image, 2])
        if labels.max() >= num_classes:
            raise InvalidValue(f"LabelsInt32 has {labels.max()}: classes from 0 to {num_classes - 1} are expected")
        objects = _polygons(GtClasses[image], IsCrowd[image], GtSegms[image], points[image])
        boxes, chosen, masks = _masked(Rois[places] / scale, labels, objects, shape)
        parts.append((boxes * scale, chosen[:, None].astype("int32"), masks))
        counts[image] = len(chosen)
    rows, chosen, found = (np.concatenate(column) for column in zip(*parts, strict=True))
    return rows, chosen, found.reshape(len(found), math.prod(shape)), counts


def _masked(boxes: Array, labels: Array, objects: list[list[Array]], shape: tuple[int, int, int]) -> tuple[Array, Array, Array]:
    """The boxes of one image that have masks, their places, and the masks."""
    chosen = np.flatnonzero(labels > 0)
    if not objects or not len(chosen):
        # What follows cannot be empty: the first background box stands in, and none of its mask counts.
        chosen = np.array([(labels == 0).argmax()])
        return boxes[chosen], chosen, np.full((1, *shape), -1, "int32")
    points = [np.concatenate(polygons) for polygons in objects]
    around = np.array([[*each.min(0), *each.max(0)] for each in points])
    masks = np.full((len(chosen), *shape), -1, "int32")
    for row, (place, nearest) in enumerate(zip(chosen, pixel_overlaps(boxes[chosen], around).argmax(1), strict=True)):
        masks[row, labels[place]] = _mask(objects[nearest], boxes[place], shape[1])
    return boxes[chosen], chosen, masks


def _polygons(classes: Array, crowd: Array, points: Array, counts: Array) -> list[list[Array]]:
    """The polygons of each object that is none of a crowd."""
    if counts.size and not 0 <= counts.min() <= counts.max() <= points.shape[2]:
        raise InvalidValue(f"PointsNum has {counts.min()} to {counts.max()}: numbers from 0 to {points.shape[2]} are expected")
    places = np.flatnonzero((classes > 0) & (crowd == 0) & counts.any(1))
    return [[points[place, i, :count] for i, count in enumerate(counts[place]) if count] for place in places]


def _mask(polygons: list[Array], box: Array, resolution: int) -> Array:
    """The union of the polygons as a mask over a box, of so many elements along each side."""
    # In float32, as Paddle computes: which element a corner falls into depends on how its place is rounded.
    low, sides = box[:2].astype("float32"), np.maximum((box[2:] - box[:2]).astype("float32"), np.float32(1))
    inside = np.zeros((resolution, resolution), bool)
    for polygon in polygons:
        inside |= _filled((polygon.astype("float32") - low) * np.float32(resolution) / sides, resolution)
    return inside.astype("int32")


FINER = 5.0  # COCO's masks follow an outline on a grid that is five times as fine
FARTHEST = 1e6  # elements from the box: an outline is followed step by step


def _filled(points: Array, size: int) -> Array:
    """The elements of a square inside of a polygon, as in COCO's annotations: columns change at the rows where the outline crosses."""
    if not (np.abs(points) < FARTHEST).all():
        raise InvalidValue(f"a polygon reaches {np.abs(points).max():g} elements beyond its box: {FARTHEST:g} at most are expected")
    corners = np.trunc(FINER * points.astype("float64") + 0.5).astype("int64")
    lines = [_line(start, end) for start, end in zip(corners, np.roll(corners, -1, 0), strict=True)]
    x, y = np.concatenate(lines, 1)
    # A step to another fine column is a crossing; those in the middle of a column of elements count.
    steps = np.flatnonzero(x[1:] != x[:-1]) + 1
    column = (np.where(x[steps] < x[steps - 1], x[steps], x[steps] - 1) + 0.5) / FINER - 0.5
    row = np.ceil(np.clip((np.minimum(y[steps], y[steps - 1]) + 0.5) / FINER - 0.5, 0, size)).astype("int64")
    fits = (column == np.floor(column)) & (column >= 0) & (column <= size - 1)
    # Column after column: what is inside changes at each crossing.
    turns = np.bincount(column[fits].astype("int64") * size + row[fits], minlength=size * size + 1)
    return np.asarray(np.cumsum(turns)[: size * size].reshape(size, size).T % 2 == 1)


def _line(start: Array, end: Array) -> Array:
    """The points of a line on a grid, ``[2, n]``: one for each step along its longer side."""
    sides = np.abs(end - start)
    axis = 0 if sides[0] >= sides[1] else 1
    # From the lower end on, in the order of the outline: rounding depends on where it begins.
    is_turned = start[axis] > end[axis]
    low, high = (end, start) if is_turned else (start, end)
    steps = np.arange(sides[axis] + 1)
    slope = (high[1 - axis] - low[1 - axis]) / sides[axis] if sides[axis] else 0.0
    along = steps + low[axis]
    beside = np.trunc(low[1 - axis] + slope * steps + 0.5).astype("int64")
    line = np.stack([along, beside] if axis == 0 else [beside, along])
    return line[:, ::-1] if is_turned else line
