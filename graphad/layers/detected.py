"""Non-maximum suppression as Fluid 1.8 has it. The boxes of all images follow each other, and counts say whose they are."""

from __future__ import annotations

from graphad.errors import ShapeError
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.detection import box_coder
from graphad.layers.helper import LayerHelper, checked_input, emitted, layer
from graphad.program import Variable
from graphad.program.source import at_users_line


def _chosen(op: str, layer: str, boxes: object, scores: object, attrs: dict[str, object], name: str | None) -> list[Variable]:
    """The boxes, their places and the counts."""
    inputs = {"BBoxes": checked_input(layer, boxes), "Scores": checked_input(layer, scores)}
    for label, slot, form in (("bboxes", "BBoxes", "[images, boxes, 4]"), ("scores", "Scores", "[images, classes, boxes]")):
        if inputs[slot].ndim != 3:
            raise ShapeError(f"layers.{layer}: {label} is {form}, the same number of boxes for each image, not {inputs[slot]!r}")
    # Paddle's two operators have different names for the counts.
    slots = ("Out", "Index", "RoisNum" if op == "matrix_nms" else "NmsRoisNum")
    outputs = LayerHelper(layer, name).append_all(op, inputs, slots, attrs, stopped=slots)
    return outputs


def _asked(found: list[Variable], return_index: bool, return_rois_num: bool) -> Variable | tuple[Variable, ...]:
    out, index, counts = found
    results = [out, *([index] if return_index else []), *([counts] if return_rois_num else [])]
    return results[0] if len(results) == 1 else tuple(results)


def suppression_attrs(
    score_threshold: object,
    nms_top_k: object,
    keep_top_k: object,
    nms_threshold: object,
    normalized: object,
    nms_eta: object,
    background_label: object,
) -> dict[str, object]:
    """The attributes of greedy suppression, as ``multiclass_nms3`` and ``locality_aware_nms`` have them, checked."""
    return {
        "score_threshold": checked_float("score_threshold", score_threshold),
        # -1: all of them.
        "nms_top_k": checked_int("nms_top_k", nms_top_k, -1),
        "keep_top_k": checked_int("keep_top_k", keep_top_k, -1),
        "nms_threshold": checked_float("nms_threshold", nms_threshold),
        "normalized": checked_flag("normalized", normalized),
        "nms_eta": checked_float("nms_eta", nms_eta),
        "background_label": checked_int("background_label", background_label),
    }


@layer
def multiclass_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
    name: str | None = None,
    *,
    return_index: bool = False,
    return_rois_num: bool = False,
) -> Variable | tuple[Variable, ...]:
    """Non-maximum suppression: the boxes of each class that overlap no better one by more than a share.

    Args:
        bboxes: two corners each, ``[images, boxes, 4]``.
        scores: ``[images, classes, boxes]``.
        score_threshold: what a score has to be above.
        nms_top_k: how many boxes of each class are looked at, the best first; -1 for all.
        keep_top_k: how many boxes of each image stay, the best first; -1 for all.
        nms_threshold: the share, intersection over union.
        normalized: False if corners are pixels, so that a box from 1 to 1 is one wide.
        nms_eta: while the share is above 0.5, each box that stays multiplies it with this.
        background_label: the class of which no boxes are chosen; -1 for none.
        return_index: whether the places of the boxes, int32 ``[boxes, 1]`` among ``images * boxes``, are returned.
        return_rois_num: whether the number of boxes of each image is returned, int32 ``[images]``.

    Returns:
        Rows of label, score and corners, ``[boxes, 6]``; no row where no box stays (Fluid has one element, -1, there). Fluid says in
        levels of detail (LoD) whose they are.

    Raises:
        ShapeError: the shapes do not fit.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     boxes = ga.layers.assign([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.75], [0.5, 0.5, 0.75, 1.0]]])
    ...     scores = ga.layers.assign([[[0.5, 0.75, 0.25]]])
    ...     rows = ga.layers.multiclass_nms(boxes, scores, 0.0, -1, -1, background_label=-1)
    >>> ga.Executor().run(program, fetch_list=[rows])[0].tolist()
    [[0.0, 0.75, 0.0, 0.0, 1.0, 0.75], [0.0, 0.25, 0.5, 0.5, 0.75, 1.0]]
    """
    with at_users_line("layers.multiclass_nms"):
        attrs = suppression_attrs(score_threshold, nms_top_k, keep_top_k, nms_threshold, normalized, nms_eta, background_label)
        flags = checked_flag("return_index", return_index), checked_flag("return_rois_num", return_rois_num)
    return _asked(_chosen("multiclass_nms3", "multiclass_nms", bboxes, scores, attrs, name), *flags)


@layer
def matrix_nms(
    bboxes: Variable,
    scores: Variable,
    score_threshold: float,
    post_threshold: float,
    nms_top_k: int,
    keep_top_k: int,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
    background_label: int = 0,
    normalized: bool = True,
    return_index: bool = False,
    name: str | None = None,
    *,
    return_rois_num: bool = False,
) -> Variable | tuple[Variable, ...]:
    """Boxes with scores that are less by how much better boxes of their class overlap them (X. Wang et al., SOLOv2, 2020).

    Args:
        bboxes, scores, score_threshold, nms_top_k, keep_top_k, background_label, normalized: those of ``multiclass_nms``.
        post_threshold: what a score has to be above then.
        use_gaussian: whether it is less by a Gaussian of the overlap, of width ``gaussian_sigma``, rather than linearly.
        return_index, return_rois_num: whether places and counts are returned, as of ``multiclass_nms``.

    Returns:
        Rows of label, score and corners, ``[boxes, 6]``, the best of an image first.

    Raises:
        ShapeError: the shapes do not fit.
    """
    with at_users_line("layers.matrix_nms"):
        attrs: dict[str, object] = {
            "score_threshold": checked_float("score_threshold", score_threshold),
            "post_threshold": checked_float("post_threshold", post_threshold),
            "nms_top_k": checked_int("nms_top_k", nms_top_k, -1),
            "keep_top_k": checked_int("keep_top_k", keep_top_k, -1),
            "use_gaussian": checked_flag("use_gaussian", use_gaussian),
            "gaussian_sigma": checked_float("gaussian_sigma", gaussian_sigma),
            "background_label": checked_int("background_label", background_label),
            "normalized": checked_flag("normalized", normalized),
        }
        flags = checked_flag("return_index", return_index), checked_flag("return_rois_num", return_rois_num)
    return _asked(_chosen("matrix_nms", "matrix_nms", bboxes, scores, attrs, name), *flags)


@layer
def detection_output(
    loc: Variable,
    scores: Variable,
    prior_box: Variable,
    prior_box_var: object,
    background_label: int = 0,
    nms_threshold: float = 0.3,
    nms_top_k: int = 400,
    keep_top_k: int = 200,
    score_threshold: float = 0.01,
    nms_eta: float = 1.0,
    return_index: bool = False,
    *,
    return_rois_num: bool = False,
) -> Variable | tuple[Variable, ...]:
    """SSD's boxes (W. Liu et al., 2016): shifts of prior boxes decoded, and of each class those that overlap no better one.

    Args:
        loc: the shifts and scales ``[images, priors, 4]``.
        scores: of the classes before the softmax, ``[images, priors, classes]``.
        prior_box, prior_box_var: ``[priors, 4]``, as ``box_coder`` takes them.
        background_label, nms_threshold, nms_top_k, keep_top_k, score_threshold, nms_eta, return_index, return_rois_num: those of
            ``multiclass_nms``.

    Returns:
        Rows of label, score and corners, ``[boxes, 6]``.

    Raises:
        ShapeError: the shapes do not fit.
    """
    x = checked_input("detection_output", scores)
    if x.ndim != 3:
        raise ShapeError(f"layers.detection_output: scores are [images, priors, classes], not {scores!r}")
    boxes = box_coder(prior_box, prior_box_var, loc, "decode_center_size")
    # [images, classes, priors], in which suppression takes class by class.
    by_class = emitted("transpose", [emitted("softmax", [x], axis=-1)], axis=[0, 2, 1])
    return multiclass_nms(
        boxes,
        by_class,
        score_threshold,
        nms_top_k,
        keep_top_k,
        nms_threshold,
        nms_eta=nms_eta,
        background_label=background_label,
        return_index=return_index,
        return_rois_num=return_rois_num,
    )
