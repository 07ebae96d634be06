"""Boxes that detectors propose and detect, as Fluid 1.8 has them; those of all images follow each other, and counts say whose they are."""

from __future__ import annotations

from collections.abc import Sequence

from graphad.errors import InvalidType, ShapeError
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.detected import suppression_attrs
from graphad.layers.helper import LayerHelper, checked_input, layer
from graphad.program import Variable
from graphad.program.source import at_users_line


def _levels(layer: str, word: str, values: object) -> list[Variable]:
    if not isinstance(values, list | tuple) or not values:
        raise InvalidType(f"layers.{layer}: {word} is a list of tensors, one a level, not {values!r}")
    return [checked_input(layer, level) for level in values]


@layer
def generate_proposals(
    scores: Variable,
    bbox_deltas: Variable,
    im_info: Variable,
    anchors: Variable,
    variances: Variable,
    pre_nms_top_n: int = 6000,
    post_nms_top_n: int = 1000,
    nms_thresh: float = 0.5,
    min_size: float = 0.1,
    eta: float = 1.0,
    name: str | None = None,
    return_rois_num: bool = False,
) -> tuple[Variable, ...]:
    """The boxes that a region proposal network scores best and that overlap no better one too much (S. Ren et al., Faster R-CNN, 2015).

    Args:
        scores: of the anchors at each place, ``[images, anchors, height, width]``.
        bbox_deltas: predicted shifts and scales, ``[images, 4 * anchors, height, width]``.
        im_info: height, width and scale of each image, ``[images, 3]``.
        anchors, variances: ``[height, width, anchors, 4]``; corners are pixels.
        pre_nms_top_n, post_nms_top_n: how many boxes of an image are looked at, the best first, and how many stay.
        nms_thresh: the share, intersection over union, that boxes which stay have in common at most.
        min_size: the least height and width of a box where the image was not scaled.
        eta: while the share is above 0.5, each box that stays multiplies it with this.
        return_rois_num: whether the number of boxes of each image is returned, int32 ``[images]``.

    Returns:
        The boxes ``[boxes, 4]`` and their scores ``[boxes, 1]``. An image without any has one box of zeros.

    Raises:
        ShapeError: the shapes do not fit.
    """
    with at_users_line("layers.generate_proposals"):
        attrs: dict[str, object] = {
            "pre_nms_topN": checked_int("pre_nms_top_n", pre_nms_top_n),
            "post_nms_topN": checked_int("post_nms_top_n", post_nms_top_n),
            "nms_thresh": checked_float("nms_thresh", nms_thresh),
            "min_size": checked_float("min_size", min_size),
            "eta": checked_float("eta", eta),
        }
        with_counts = checked_flag("return_rois_num", return_rois_num)
    values = {"Scores": scores, "BboxDeltas": bbox_deltas, "ImInfo": im_info, "Anchors": anchors, "Variances": variances}
    inputs = {slot: checked_input("generate_proposals", value) for slot, value in values.items()}
    slots = ("RpnRois", "RpnRoiProbs", "RpnRoisNum")
    outputs = LayerHelper("generate_proposals", name).append_all("generate_proposals", inputs, slots, attrs, stopped=slots)
    return tuple(outputs if with_counts else outputs[:2])


@layer
def distribute_fpn_proposals(
    fpn_rois: Variable,
    min_level: int,
    max_level: int,
    refer_level: int,
    refer_scale: int,
    name: str | None = None,
    *,
    rois_num: Variable | None = None,
) -> tuple[object, ...]:
    """Boxes by the level of a feature pyramid that they belong to (T.-Y. Lin et al., 2017): larger ones to higher levels.

    Args:
        fpn_rois: ``[boxes, 4]``, two corners each, in pixels.
        min_level, max_level: the levels.
        refer_level, refer_scale: the level of boxes whose area is the square of ``refer_scale``.
        rois_num: how many boxes each image has, integers ``[images]``.

    Returns:
        A list of boxes for each level, and where each box is when the levels follow each other, int32 ``[boxes, 1]``; with ``rois_num``
        also a list of the numbers of boxes of each image in each level.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     boxes = ga.layers.assign([[0.0, 0.0, 447.0, 447.0], [0.0, 0.0, 111.0, 111.0]])
    ...     (small, large), places = ga.layers.distribute_fpn_proposals(boxes, 4, 5, 4, 224)
    >>> [each.tolist() for each in ga.Executor().run(program, fetch_list=[large, places])]
    [[[0.0, 0.0, 447.0, 447.0]], [[1], [0]]]
    """
    with at_users_line("layers.distribute_fpn_proposals"):
        attrs: dict[str, object] = {
            "min_level": checked_int("min_level", min_level),
            "max_level": checked_int("max_level", max_level, min_level),
            "refer_level": checked_int("refer_level", refer_level),
            "refer_scale": checked_int("refer_scale", refer_scale, 1),
        }
    helper, count = LayerHelper("distribute_fpn_proposals", name), max_level - min_level + 1
    names = [[helper.main.names.generate(f"{helper.name}.tmp") for _ in range(size)] for size in (count, 1, count)]
    inputs = {"FpnRois": checked_input("distribute_fpn_proposals", fpn_rois)}
    if rois_num is not None:
        inputs["RoisNum"] = checked_input("distribute_fpn_proposals", rois_num)
    block = helper.main.current_block()
    slots = ("MultiFpnRois", "RestoreIndex", "MultiLevelRoIsNum")
    block.append_op("distribute_fpn_proposals", inputs, dict(zip(slots, names, strict=True)), attrs)
    rois, (places,), counts = ([block.vars[key] for key in part] for part in names)
    for variable in (*rois, places, *counts):
        variable.stop_gradient = True
    return (rois, places, counts) if rois_num is not None else (rois, places)


@layer
def collect_fpn_proposals(
    multi_rois: Sequence[Variable],
    multi_scores: Sequence[Variable],
    min_level: int,
    max_level: int,
    post_nms_top_n: int,
    name: str | None = None,
    *,
    rois_num_per_level: Sequence[Variable] | None = None,
) -> Variable | tuple[Variable, Variable]:
    """The boxes with the best scores among all levels of a feature pyramid.

    Args:
        multi_rois, multi_scores: for each level boxes ``[boxes, 4]`` and scores ``[boxes, 1]``.
        min_level, max_level: the levels.
        post_nms_top_n: how many boxes stay, of all images together.
        rois_num_per_level: for each level how many boxes each image has.

    Returns:
        The boxes, image by image; with ``rois_num_per_level`` also how many each image has.

    Raises:
        ShapeError: there are not as many tensors as levels.
    """
    rois, scores = (
        _levels("collect_fpn_proposals", word, parts) for word, parts in (("multi_rois", multi_rois), ("multi_scores", multi_scores))
    )
    with at_users_line("layers.collect_fpn_proposals"):
        levels = checked_int("max_level", max_level) - checked_int("min_level", min_level) + 1
        if len(rois) != levels or len(scores) != levels:
            raise ShapeError(f"there are {levels} levels, but {len(rois)} multi_rois and {len(scores)} multi_scores")
        attrs: dict[str, object] = {"post_nms_topN": checked_int("post_nms_top_n", post_nms_top_n, 0)}
    inputs = {"MultiLevelRois": rois, "MultiLevelScores": scores}
    if rois_num_per_level is not None:
        inputs["MultiLevelRoIsNum"] = _levels("collect_fpn_proposals", "rois_num_per_level", rois_num_per_level)
    slots = ("FpnRois", "RoisNum")
    boxes, counts = LayerHelper("collect_fpn_proposals", name).append_all("collect_fpn_proposals", inputs, slots, attrs, stopped=slots)
    return boxes if rois_num_per_level is None else (boxes, counts)


@layer
def retinanet_detection_output(
    bboxes: Sequence[Variable],
    scores: Sequence[Variable],
    anchors: Sequence[Variable],
    im_info: Variable,
    score_threshold: float = 0.05,
    nms_top_k: int = 1000,
    keep_top_k: int = 100,
    nms_threshold: float = 0.3,
    nms_eta: float = 1.0,
    *,
    return_rois_num: bool = False,
) -> Variable | tuple[Variable, Variable]:
    """RetinaNet's boxes (T.-Y. Lin et al., 2017): the best of each level, and of each class those that overlap no better one.

    Args:
        bboxes, scores, anchors: for each level predicted shifts and scales ``[images, boxes, 4]``, probabilities
            ``[images, boxes, classes]`` and anchors ``[boxes, 4]``.
        im_info: height, width and scale of each image, ``[images, 3]``.
        score_threshold: what a score has to be above; in the last level above 0.
        nms_top_k: how many scores of each level are looked at, the best first.
        keep_top_k: how many boxes of each image stay.
        nms_threshold, nms_eta: those of ``multiclass_nms``.
        return_rois_num: whether the number of boxes of each image is returned, int32 ``[images]``.

    Returns:
        Rows of label (from 1), score and corners, ``[boxes, 6]``, the best of an image first, in pixels before the scale.

    Raises:
        ShapeError: the shapes do not fit.
    """
    with at_users_line("layers.retinanet_detection_output"):
        attrs: dict[str, object] = {
            "score_threshold": checked_float("score_threshold", score_threshold),
            "nms_top_k": checked_int("nms_top_k", nms_top_k, -1),
            "keep_top_k": checked_int("keep_top_k", keep_top_k, -1),
            "nms_threshold": checked_float("nms_threshold", nms_threshold),
            "nms_eta": checked_float("nms_eta", nms_eta),
        }
        with_counts = checked_flag("return_rois_num", return_rois_num)
    words = {"BBoxes": ("bboxes", bboxes), "Scores": ("scores", scores), "Anchors": ("anchors", anchors)}
    inputs: dict[str, object] = {slot: _levels("retinanet_detection_output", *argument) for slot, argument in words.items()}
    inputs["ImInfo"] = checked_input("retinanet_detection_output", im_info)
    slots = ("Out", "NmsRoisNum")
    helper = LayerHelper("retinanet_detection_output")
    rows, counts = helper.append_all("retinanet_detection_output", inputs, slots, attrs, stopped=slots)
    return (rows, counts) if with_counts else rows


@layer
def locality_aware_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = -1,
    name: str | None = None,
) -> Variable:
    """As ``multiclass_nms``, after boxes that follow each other and overlap are merged (X. Zhou et al., EAST, 2017, section 3.6).

    Args:
        bboxes: two corners each, ``[images, boxes, 4]``; Fluid takes polygons of more corners, too.
        scores: ``[images, classes, boxes]``; a merged box has the sum of its scores.
        score_threshold, nms_top_k, keep_top_k, nms_threshold, normalized, nms_eta, background_label: those of ``multiclass_nms``.

    Returns:
        Rows of label, score and corners, ``[boxes, 6]``.

    Raises:
        ShapeError: the shapes do not fit.
    """
    with at_users_line("layers.locality_aware_nms"):
        attrs = suppression_attrs(score_threshold, nms_top_k, keep_top_k, nms_threshold, normalized, nms_eta, background_label)
    inputs = {"BBoxes": checked_input("locality_aware_nms", bboxes), "Scores": checked_input("locality_aware_nms", scores)}
    slots = ("Out", "NmsRoisNum")
    rows, _ = LayerHelper("locality_aware_nms", name).append_all("locality_aware_nms", inputs, slots, attrs, stopped=slots)
    return rows
