"""Training targets of a detector's second stage as in Fluid 1.8: classes, places and masks of proposals.

Where Fluid takes true boxes with levels of detail (LoD), these take them padded, ``[images, boxes, ...]``, with ``length``; proposals of
all images follow each other, and ``rois_num`` says how many each image has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphad.errors import InvalidType
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.helper import LayerHelper, checked_input, layer
from graphad.program import Variable
from graphad.program.source import at_users_line


def _told(type: str, inputs: Mapping[str, Variable | None], slots: Sequence[str], attrs: Mapping[str, object]) -> list[Variable]:
    """The outputs of an operator through which no gradient flows; inputs that are None are left out."""
    given = {slot: checked_input(type, value) for slot, value in inputs.items() if value is not None}
    return LayerHelper(type).append_all(type, given, slots, attrs, stopped=slots)


def _checked_classes(class_nums: int | None) -> int:
    if class_nums is None:
        raise InvalidType("class_nums, the number of classes with the background, is expected")
    return checked_int("class_nums", class_nums, 2)


_LABELLED = ("Rois", "LabelsInt32", "BboxTargets", "BboxInsideWeights", "BboxOutsideWeights", "MaxOverlapWithGT", "OutRoisNum")


@layer
def generate_proposal_labels(
    rpn_rois: Variable,
    gt_classes: Variable,
    is_crowd: Variable,
    gt_boxes: Variable,
    im_info: Variable,
    batch_size_per_im: int = 256,
    fg_fraction: float = 0.25,
    fg_thresh: float = 0.25,
    bg_thresh_hi: float = 0.5,
    bg_thresh_lo: float = 0.0,
    bbox_reg_weights: Sequence[float] = [0.1, 0.1, 0.2, 0.2],
    class_nums: int | None = None,
    use_random: bool = True,
    is_cls_agnostic: bool = False,
    is_cascade_rcnn: bool = False,
    *,
    rois_num: Variable | None = None,
    length: Variable | None = None,
    max_overlap: Variable | None = None,
    return_rois_num: bool = False,
) -> tuple[Variable, ...]:
    """The proposals of which a detector's second stage learns, with their classes and how far true boxes are from them
    (R. Girshick, "Fast R-CNN", 2015, section 2.3).

    Args:
        rpn_rois: proposals of all images, two corners each, in the scaled image, ``[proposals, 4]``.
        gt_classes, is_crowd: the class of each true box, from 1, and 1 for one of a crowd, integers ``[images, boxes]``.
        gt_boxes: true boxes, as large as before the scale, ``[images, boxes, 4]``; they are proposals, too, except for crowds.
        im_info, batch_size_per_im, fg_fraction: height, width and scale of each image, ``[images, 3]``; how many of its boxes count, and
            the share of them that are objects, at most.
        fg_thresh, bg_thresh_hi, bg_thresh_lo: from which share, intersection over union, a box is an object; between which background.
        bbox_reg_weights, class_nums, is_cls_agnostic: what the numbers of a code are divided by; how many classes there are, with the
            background; whether all objects share the columns of class 1.
        rois_num, length, return_rois_num: how many proposals, and true boxes, each image has, ``[images]``; whether that is returned.
        use_random, is_cascade_rcnn: whether boxes are drawn; whether all count, but those without area, or whose ``max_overlap`` is 1.

    Returns:
        Boxes ``[B, 4]``, their classes, int32 ``[B, 1]``, codes ``[B, 4 * class_nums]`` in the columns of the class, and twice weights
        of these: 1 there, and 0 elsewhere.

    Raises:
        TypeError, ShapeError: there is no ``class_nums``; the shapes do not fit.
    """
    with at_users_line("layers.generate_proposal_labels"):
        classes = _checked_classes(class_nums)
        shares = {"fg_fraction": fg_fraction, "fg_thresh": fg_thresh, "bg_thresh_hi": bg_thresh_hi, "bg_thresh_lo": bg_thresh_lo}
        flags = {"use_random": use_random, "is_cls_agnostic": is_cls_agnostic, "is_cascade_rcnn": is_cascade_rcnn}
        attrs: dict[str, object] = {
            "batch_size_per_im": checked_int("batch_size_per_im", batch_size_per_im, 1),
            "bbox_reg_weights": [checked_float("bbox_reg_weights", each) for each in bbox_reg_weights],
            "class_nums": classes,
            **{name: checked_float(name, value) for name, value in shares.items()},
            **{name: checked_flag(name, value) for name, value in flags.items()},
        }
        with_counts = checked_flag("return_rois_num", return_rois_num)
    inputs = {"RpnRois": rpn_rois, "GtClasses": gt_classes, "IsCrowd": is_crowd, "GtBoxes": gt_boxes, "ImInfo": im_info}
    optional = {"RoisNum": rois_num, "Length": length, "MaxOverlap": max_overlap}
    told = _told("generate_proposal_labels", {**inputs, **optional}, _LABELLED, attrs)
    return (*told[:5], told[6]) if with_counts else tuple(told[:5])


@layer
def generate_mask_labels(
    im_info: Variable,
    gt_classes: Variable,
    is_crowd: Variable,
    gt_segms: Variable,
    rois: Variable,
    labels_int32: Variable,
    num_classes: int,
    resolution: int,
    *,
    points_num: Variable | None = None,
    rois_num: Variable | None = None,
    return_rois_num: bool = False,
) -> tuple[Variable, ...]:
    """For each proposal of an object the mask of the object in it (K. He et al., "Mask R-CNN", 2017, section 3).

    Args:
        im_info, gt_classes, is_crowd, rois_num, return_rois_num: those of ``generate_proposal_labels``.
        gt_segms: the polygons around each true box's object, by their points, ``[images, boxes, polygons, points, 2]``, before the scale.
        rois, labels_int32: what ``generate_proposal_labels`` gives.
        num_classes: how many classes there are, with the background.
        resolution: of a mask, in elements along each side.
        points_num: how many points of each polygon count, 0 where there is none, integers ``[images, boxes, polygons]``; all if it is
            left out.

    Returns:
        The proposals of objects ``[M, 4]``, the place of each among those of its image, int32 ``[M, 1]``, and masks, int32
        ``[M, num_classes * resolution * resolution]``: 1 inside and 0 outside in the part of the class, -1 in the others. An image
        without objects has its first background, and a mask of -1.

    Raises:
        ShapeError: the shapes do not fit.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     tensor = ga.layers.assign
    ...     info, classes, crowd = tensor([[8.0, 8.0, 1.0]]), tensor([[1]]), tensor([[0]])
    ...     triangle = tensor([[[[[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]]]]])
    ...     masks = ga.layers.generate_mask_labels(info, classes, crowd, triangle, tensor([[0.0, 0.0, 8.0, 8.0]]), tensor([[1]]), 2, 4)[2]
    >>> ga.Executor().run(program, fetch_list=[masks])[0].reshape(2, 4, 4)[1].tolist()
    [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    """
    with at_users_line("layers.generate_mask_labels"):
        attrs: dict[str, object] = {
            "num_classes": checked_int("num_classes", num_classes, 1),
            "resolution": checked_int("resolution", resolution, 1),
        }
        with_counts = checked_flag("return_rois_num", return_rois_num)
    inputs = {"ImInfo": im_info, "GtClasses": gt_classes, "IsCrowd": is_crowd, "GtSegms": gt_segms, "Rois": rois}
    optional = {"LabelsInt32": labels_int32, "PointsNum": points_num, "RoisNum": rois_num}
    slots = ("MaskRois", "RoiHasMaskInt32", "MaskInt32", "MaskRoisNum")
    told = _told("generate_mask_labels", {**inputs, **optional}, slots, attrs)
    return tuple(told if with_counts else told[:3])
