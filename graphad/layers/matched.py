"""Training targets of detectors as in Fluid 1.8: matches of true boxes with priors and anchors, SSD's loss.

Where Fluid takes the true boxes of all images with levels of detail (LoD), these take them padded, ``[images, boxes, ...]``, and
``length``, how many of each image there are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.detection import box_coder, iou_similarity
from graphad.layers.helper import LayerHelper, checked_input, emitted, layer
from graphad.layers.tensor import assign
from graphad.program import Variable
from graphad.program.source import at_users_line


def _tensor(layer: str, value: object) -> Variable:
    """A variable, or numbers of the program as one."""
    return assign(value) if isinstance(value, list | np.ndarray) else checked_input(layer, value)


def _stopped(
    layer: str, op: str, inputs: Mapping[str, object], slots: tuple[str, ...], attrs: Mapping[str, object], name: str | None = None
) -> list[Variable]:
    """The outputs of an operator through which no gradient flows; inputs that are None are left out."""
    tensors = {slot: _tensor(layer, value) for slot, value in inputs.items() if value is not None}
    return LayerHelper(layer, name).append_all(op, tensors, slots, attrs, stopped=slots)


# -- matches ---------------------------------------------------------------------------------------


@layer
def bipartite_match(
    dist_matrix: Variable,
    match_type: str | None = None,
    dist_threshold: float | None = None,
    name: str | None = None,
    *,
    length: object = None,
) -> tuple[Variable, Variable]:
    """A row for each column, greedily: the pair of the greatest entry first, then that of the rows and columns that are left.

    Args:
        dist_matrix: ``[rows, columns]``, or ``[images, rows, columns]``: how near true boxes (rows) are to priors (columns).
        match_type: "bipartite", or "per_prediction", where a column that is left over gets the row of its greatest entry.
        dist_threshold: how large that entry has to be; 0.5 if it is left out.
        length: how many rows of each image count, integers ``[images]``; all if it is left out.

    Returns:
        The rows, int32 ``[images, columns]``, -1 for none, and the entries, 0 for none.

    Raises:
        ShapeError: the shapes do not fit.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     rows, near = ga.layers.bipartite_match(ga.layers.assign([[0.25, 0.5, 0.0], [0.75, 1.0, 0.0]]))
    >>> [each.tolist() for each in ga.Executor().run(program, fetch_list=[rows, near])]
    [[[0, 1, -1]], [[0.25, 1.0, 0.0]]]
    """
    attrs: dict[str, object] = {"match_type": match_type or "bipartite"}
    if dist_threshold is not None:
        attrs["dist_threshold"] = checked_float("layers.bipartite_match: dist_threshold", dist_threshold)
    slots = ("ColToRowMatchIndices", "ColToRowMatchDist")
    rows, near = _stopped("bipartite_match", "bipartite_match", {"DistMat": dist_matrix, "Length": length}, slots, attrs, name)
    return rows, near


@layer
def target_assign(
    input: Variable,
    matched_indices: Variable,
    negative_indices: Variable | None = None,
    mismatch_value: int | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """For each prior the row of its true box and the weight 1; ``mismatch_value`` and the weight 0 where it has none.

    Args:
        input: rows of true boxes, ``[images, boxes, width]``, or ``[images, boxes, priors, width]`` where they differ by prior.
        matched_indices: the box of each prior, -1 for none, integers ``[images, priors]``.
        negative_indices: priors that count although they have none: integers ``[images, most]``, filled up with -1. They get
            ``mismatch_value`` with the weight 1.
        mismatch_value: 0 if it is left out.

    Returns:
        The rows ``[images, priors, width]`` and their weights ``[images, priors, 1]``.

    Raises:
        ShapeError: the shapes do not fit.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     labels = ga.layers.assign([[[7], [8]]])
    ...     rows, weights = ga.layers.target_assign(labels, ga.layers.assign([[1, -1, 0]]))
    >>> [each.ravel().tolist() for each in ga.Executor().run(program, fetch_list=[rows, weights])]
    [[8, 0, 7], [1.0, 0.0, 1.0]]
    """
    inputs: dict[str, object] = {"X": input, "MatchIndices": matched_indices, "NegIndices": negative_indices}
    attrs: dict[str, object] = {
        "mismatch_value": 0 if mismatch_value is None else checked_int("layers.target_assign: mismatch_value", mismatch_value)
    }
    rows, weights = _stopped("target_assign", "target_assign", inputs, ("Out", "OutWeight"), attrs, name)
    return rows, weights


# -- single shot multibox detector -----------------------------------------------------------------


@layer
def ssd_loss(
    location: Variable,
    confidence: Variable,
    gt_box: Variable,
    gt_label: Variable,
    prior_box: Variable,
    prior_box_var: object = None,
    background_label: int = 0,
    overlap_threshold: float = 0.5,
    neg_pos_ratio: float = 3.0,
    neg_overlap: float = 0.5,
    loc_loss_weight: float = 1.0,
    conf_loss_weight: float = 1.0,
    match_type: str = "per_prediction",
    mining_type: str = "max_negative",
    normalize: bool = True,
    sample_size: int | None = None,
    *,
    length: object = None,
) -> Variable:
    """SSD's loss (W. Liu et al., 2016, section 2.2): of the classes, and of the places where a prior has a true box.

    Args:
        location: predicted shifts and scales, ``[images, priors, 4]``.
        confidence: of the classes before the softmax, ``[images, priors, classes]``.
        gt_box: true boxes, two corners each, ``[images, boxes, 4]``.
        gt_label: their classes, integers ``[images, boxes]`` or ``[images, boxes, 1]``.
        prior_box, prior_box_var: ``[priors, 4]``, as ``box_coder`` takes them.
        background_label: the class of priors without a box.
        overlap_threshold, match_type: how priors get boxes: ``dist_threshold`` and ``match_type`` of ``bipartite_match``.
        neg_pos_ratio: how many priors without a box count for each that has one, those of the greatest loss first.
        neg_overlap: what the overlap of such a prior has to be below.
        loc_loss_weight, conf_loss_weight: what both losses are multiplied by.
        normalize: whether the sum is divided by the number of priors that have a box.
        mining_type, sample_size: "max_negative", the only one, as in Fluid, with which the size has no effect.
        length: how many boxes each image has, integers ``[images]``; all if it is left out.

    Returns:
        The loss of each image, ``[images, 1]``. Gradients flow to ``location`` and ``confidence``.

    Raises:
        ShapeError: the shapes do not fit.
    """
    with at_users_line("layers.ssd_loss"):
        background = checked_int("background_label", background_label)
        _check_ssd(location, confidence, gt_box, mining_type)
    priors, most = checked_input("ssd_loss", prior_box).shape[0], gt_box.shape[1]
    # All boxes of all images at once, then by image again.
    boxes, labels = gt_box.reshape(-1, 4), checked_input("ssd_loss", gt_label).reshape(-1, most, 1)
    near = iou_similarity(boxes, prior_box).reshape(-1, most, priors)
    pairs = bipartite_match(near, match_type, overlap_threshold, length=length)
    mining = {"neg_pos_ratio": neg_pos_ratio, "neg_dist_threshold": neg_overlap, "sample_size": sample_size or 0}
    negatives, matches = _hard(confidence, labels, *pairs, background, mining)
    codes = box_coder(prior_box, prior_box_var, boxes, "encode_center_size").reshape(-1, most, priors, 4)
    target_codes, code_weights = target_assign(codes, matches, mismatch_value=background)
    place_loss = _place_losses(location, target_codes) * code_weights
    target, class_weights = target_assign(labels, matches, negatives, background)
    class_loss = _class_losses(confidence, target) * class_weights.astype(confidence.dtype)
    loss: Variable = (class_loss * float(conf_loss_weight) + place_loss * float(loc_loss_weight)).sum([1])
    return loss / code_weights.sum() if checked_flag("layers.ssd_loss: normalize", normalize) else loss


def _place_losses(codes: Variable, targets: Variable) -> Variable:
    """The smooth distance of each prior, ``[images, priors, 1]``."""
    _, loss = emitted("smooth_l1_loss", [codes.reshape(-1, 4), targets.reshape(-1, 4)])
    return loss.reshape(-1, targets.shape[1], 1)  # type: ignore[no-any-return]


def _check_ssd(location: object, confidence: object, gt_box: object, mining_type: str) -> None:
    if mining_type != "max_negative":
        raise InvalidValue(f"mining_type is 'max_negative', not {mining_type!r}")
    places, scores, boxes = (checked_input("ssd_loss", item) for item in (location, confidence, gt_box))
    if places.ndim != 3 or scores.ndim != 3 or boxes.ndim != 3 or places.shape[2] != 4 or boxes.shape[2] != 4:
        raise ShapeError(
            "location [images, priors, 4], confidence [images, priors, classes] and gt_box [images, boxes, 4] are expected,"
            f" not {location!r}, {confidence!r} and {gt_box!r}"
        )


def _hard(
    scores: Variable, labels: Variable, matches: Variable, overlaps: Variable, background: int, mining: Mapping[str, object]
) -> list[Variable]:
    """The priors that count as background, and the matches that stay: by the losses if all priors without a box were background."""
    target, _ = target_assign(labels, matches, mismatch_value=background)
    inputs = {"ClsLoss": _class_losses(scores, target).squeeze(2), "MatchIndices": matches, "MatchDist": overlaps}
    return _stopped("ssd_loss", "mine_hard_examples", inputs, ("NegIndices", "UpdatedMatchIndices"), mining)


def _class_losses(scores: Variable, labels: Variable) -> Variable:
    """The cross entropy of each prior, ``[images, priors, 1]``."""
    return emitted("softmax_with_cross_entropy", [scores, labels.astype("int64")])[-1]  # type: ignore[no-any-return]


# -- anchors ---------------------------------------------------------------------------------------


def _predicted(bbox_pred: Variable, cls_logits: Variable, places: Variable, scored: Variable, classes: int) -> tuple[Variable, Variable]:
    """The predictions that count."""
    return cls_logits.reshape(-1, classes).gather(scored), bbox_pred.reshape(-1, 4).gather(places)


@layer
def rpn_target_assign(
    bbox_pred: Variable,
    cls_logits: Variable,
    anchor_box: object,
    anchor_var: Variable | None,
    gt_boxes: object,
    is_crowd: object,
    im_info: object,
    rpn_batch_size_per_im: int = 256,
    rpn_straddle_thresh: float = 0.0,
    rpn_fg_fraction: float = 0.5,
    rpn_positive_overlap: float = 0.7,
    rpn_negative_overlap: float = 0.3,
    use_random: bool = True,
    *,
    length: object = None,
) -> tuple[Variable, Variable, Variable, Variable, Variable]:
    """The predictions of a region proposal network for sampled anchors, and their targets (S. Ren et al., Faster R-CNN, 2015).

    Args:
        bbox_pred: predicted shifts and scales, ``[images, anchors, 4]``.
        cls_logits: whether there is an object, before the sigmoid, ``[images, anchors, 1]``.
        anchor_box, anchor_var: ``[..., 4]``, of one image; the variances have no effect, as in Fluid.
        gt_boxes: true boxes, two corners each, ``[images, boxes, 4]``, as large as before the scale.
        is_crowd: 1 for a box of a crowd, which does not count, integers ``[images, boxes]``.
        im_info: height, width and scale of each image, ``[images, 3]``.
        rpn_batch_size_per_im: how many anchors of an image count.
        rpn_straddle_thresh: how far an anchor may reach out of its image; negative for any distance.
        rpn_fg_fraction: the most of them that are positive.
        rpn_positive_overlap, rpn_negative_overlap: from where an anchor is positive, and below which it is negative.
        use_random: whether they are drawn; the first otherwise.
        length: how many boxes each image has, integers ``[images]``; all if it is left out.

    Returns:
        The predicted scores ``[F + B, 1]`` and places ``[F, 4]``, the true labels ``[F + B, 1]`` and places ``[F, 4]``, and weights of the
        latter ``[F, 4]``, for F positive and B negative anchors of all images.

    Raises:
        ShapeError: the shapes do not fit.
    """
    with at_users_line("layers.rpn_target_assign"):
        attrs: dict[str, object] = {
            "rpn_batch_size_per_im": checked_int("rpn_batch_size_per_im", rpn_batch_size_per_im),
            "rpn_straddle_thresh": checked_float("rpn_straddle_thresh", rpn_straddle_thresh),
            "rpn_positive_overlap": checked_float("rpn_positive_overlap", rpn_positive_overlap),
            "rpn_negative_overlap": checked_float("rpn_negative_overlap", rpn_negative_overlap),
            "rpn_fg_fraction": checked_float("rpn_fg_fraction", rpn_fg_fraction),
            "use_random": checked_flag("use_random", use_random),
        }
    inputs = {"Anchor": anchor_box, "GtBoxes": gt_boxes, "IsCrowd": is_crowd, "ImInfo": im_info, "Length": length}
    slots = ("LocationIndex", "ScoreIndex", "TargetBBox", "TargetLabel", "BBoxInsideWeight")
    places, scored, codes, labels, weights = _stopped("rpn_target_assign", "rpn_target_assign", inputs, slots, attrs)
    codes_of, logits = (checked_input("rpn_target_assign", item) for item in (bbox_pred, cls_logits))
    return (*_predicted(codes_of, logits, places, scored, 1), labels, codes, weights)


@layer
def retinanet_target_assign(
    bbox_pred: Variable,
    cls_logits: Variable,
    anchor_box: object,
    anchor_var: Variable | None,
    gt_boxes: object,
    gt_labels: object,
    is_crowd: object,
    im_info: object,
    num_classes: int = 1,
    positive_overlap: float = 0.5,
    negative_overlap: float = 0.4,
    *,
    length: object = None,
) -> tuple[Variable, Variable, Variable, Variable, Variable, Variable]:
    """As ``rpn_target_assign`` with classes, of all anchors (T.-Y. Lin et al., RetinaNet, 2017).

    Args:
        bbox_pred, anchor_box, anchor_var, gt_boxes, is_crowd, im_info, length: those of ``rpn_target_assign``.
        cls_logits: ``[images, anchors, num_classes]``.
        gt_labels: the classes of the true boxes, from 1, int32 ``[images, boxes]``.
        num_classes: how many classes there are, without the background.
        positive_overlap, negative_overlap: from where an anchor is positive, and below which it is negative.

    Returns:
        The predicted scores ``[F + B, num_classes]`` and places ``[F, 4]``, the true labels (0 is the background) and places, weights of
        the latter, and for each image the number of its positive anchors, and one, ``[images, 1]``.

    Raises:
        ShapeError: the shapes do not fit.
    """
    with at_users_line("layers.retinanet_target_assign"):
        classes = checked_int("num_classes", num_classes, 1)
        attrs: dict[str, object] = {
            "positive_overlap": checked_float("positive_overlap", positive_overlap),
            "negative_overlap": checked_float("negative_overlap", negative_overlap),
        }
    inputs = {"Anchor": anchor_box, "GtBoxes": gt_boxes, "GtLabels": gt_labels, "IsCrowd": is_crowd, "ImInfo": im_info, "Length": length}
    slots = ("LocationIndex", "ScoreIndex", "TargetBBox", "TargetLabel", "BBoxInsideWeight", "ForegroundNumber")
    places, scored, codes, labels, weights, count = _stopped("retinanet_target_assign", "retinanet_target_assign", inputs, slots, attrs)
    codes_of, logits = (checked_input("retinanet_target_assign", item) for item in (bbox_pred, cls_logits))
    return (*_predicted(codes_of, logits, places, scored, classes), labels, codes, weights, count)
