"""Losses that compare samples of a batch, and metrics that count over batches."""

from __future__ import annotations

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.initializer import Xavier
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.helper import AttrLike, LayerHelper, as_param_attr, checked_input, emitted, layer
from graphad.layers.tensor import assign
from graphad.program import Variable
from graphad.program.source import at_users_line


def _labels(layer: str, label: object) -> Variable:
    """Labels ``[batch]`` of labels ``[batch, 1]``."""
    return emitted("reshape", [checked_input(layer, label)], shape=[-1])  # type: ignore[no-any-return]


@layer
def center_loss(
    input: Variable, label: Variable, num_classes: int, alpha: float | Variable, param_attr: AttrLike, update_center: bool = True
) -> Variable:
    """Half the squared distance of each sample from its class's center (Y. Wen et al., 2016): ``[batch, 1]``.

    Args:
        input: ``[batch, features]``.
        label: ``[batch, 1]``.
        alpha: how far the centers follow.
        param_attr: how the centers ``[num_classes, features]`` are made; gradients do not train them.
        update_center: whether each run moves the centers to their samples.
    """
    with at_users_line("layers.center_loss"):
        x = checked_input("center_loss", input)
        count = checked_int("num_classes", num_classes, 1)
        update = checked_flag("update_center", update_center)
        if x.ndim != 2 or x.shape[1] < 1:
            raise ShapeError(f"it takes features [batch, n] with known n, not {x!r}")
    helper, attr = LayerHelper("center_loss"), as_param_attr(param_attr)
    name = attr.name or helper.main.names.generate(f"{helper.name}.w")
    block = helper.main.global_block()
    exists = block.has_var(name)
    centers = block.create_var(name, [count, x.shape[1]], x.dtype, persistable=True, stop_gradient=True)
    if not exists:
        helper.initialize(centers, attr.initializer or Xavier())
    ids = _labels("center_loss", label)
    away = x - emitted("gather", [centers, ids])
    # Centers follow their samples by a rule of their own, not by the gradient: none flows into them.
    if update:
        _follow(centers, ids, away, alpha)
    return away.square().sum(1, keepdims=True) * 0.5  # type: ignore[no-any-return]


def _follow(centers: Variable, ids: Variable, away: Variable, alpha: float | Variable) -> None:
    """Move each center by the sum of its samples' distances over one more than their number."""
    rate = alpha if isinstance(alpha, Variable) else checked_float("layers.center_loss: alpha", alpha)
    zeros = emitted("fill_any_like", [centers], value=0.0)
    places = emitted("unsqueeze", [ids], axes=[1])
    moves = emitted("scatter_nd_add", [zeros, places, away])
    counts = emitted("scatter_nd_add", [zeros, places, emitted("fill_any_like", [away], value=1.0)])
    # Over one more than their number, so that a center without samples stays (Y. Wen et al., 2016, eq. 4).
    new_centers = centers + moves * rate / (counts + 1.0)
    new_centers.stop_gradient = True
    assign(new_centers, centers)


@layer
def npair_loss(anchor: Variable, positive: Variable, labels: Variable, l2_reg: float = 0.002) -> Variable:
    """The loss of pairs among a batch (K. Sohn, 2016): anchors and positives ``[batch, features]``, labels ``[batch, 1]``."""
    first, second = checked_input("npair_loss", anchor), checked_input("npair_loss", positive)
    rate = checked_float("layers.npair_loss: l2_reg", l2_reg)
    ids = emitted("reshape", [checked_input("npair_loss", labels)], shape=[-1, 1])
    is_same_label = (ids == emitted("transpose", [ids], axis=[1, 0])).astype(first.dtype)
    share = is_same_label / is_same_label.sum(1, keepdims=True)
    decay = (first.square().sum(1).mean() + second.square().sum(1).mean()) * (0.25 * rate)
    likely = emitted("log_softmax", [emitted("matmul_v2", [first, second], trans_y=True)], axis=1)
    cost = -(share * likely).sum(1, keepdims=True)
    return (share * cost).sum(0).mean() + decay  # type: ignore[no-any-return]


@layer
def teacher_student_sigmoid_loss(
    input: Variable, label: Variable, soft_max_up_bound: float = 15.0, soft_max_lower_bound: float = -15.0
) -> Variable:
    """The loss of a student that learns clicks and a teacher's values: ``[batch, 1]``.

    Args:
        input: sums before the sigmoid, ``[batch, 1]``.
        label: below -1 for no click, from -1 for a click, both without a teacher; from 0 the teacher's value of one that was not
            clicked, from 1 that value plus 1 of one that was.
        soft_max_up_bound, soft_max_lower_bound: beyond them the gradient of the input is zero.
    """
    x, z = checked_input("teacher_student_sigmoid_loss", input), checked_input("teacher_student_sigmoid_loss", label)
    high = checked_float("layers.teacher_student_sigmoid_loss: soft_max_up_bound", soft_max_up_bound)
    low = checked_float("layers.teacher_student_sigmoid_loss: soft_max_lower_bound", soft_max_lower_bound)
    inside = emitted("clip", [x], min=low, max=high)
    beyond = x - inside
    # The value is that of x, the gradient that of the clipped x.
    beyond.stop_gradient = True
    sums = inside + beyond
    base = emitted("softplus", [sums])
    click = ((z >= -1.0) & (z < 0.0) | (z >= 1.0)).astype(x.dtype)
    has_teacher = (z >= 0.0).astype(x.dtype)
    value = z - (z >= 1.0).astype(x.dtype)
    return base - sums * click + has_teacher * (base - sums * value)  # type: ignore[no-any-return]


# -- metrics ---------------------------------------------------------------------------------------


@layer
def mean_iou(input: Variable, label: Variable, num_classes: int) -> tuple[Variable, Variable, Variable]:
    """The mean intersection over union of predicted and true classes.

    Args:
        input, label: classes of one shape.

    Returns:
        The mean, over the classes that occur, of right over right and wrong ones; the wrong and the right ones of each class, int32.
        One that is wrong counts for the class it was taken for and for its own.
    """
    count = checked_int("layers.mean_iou: num_classes", num_classes, 1)
    prediction, true = (
        emitted("one_hot_v2", [emitted("reshape", [checked_input("mean_iou", variable)], shape=[-1])], depth=count, dtype="float32")
        for variable in (input, label)
    )
    right = (prediction * true).sum(0)
    # In one of the two and not in both: the union less the intersection.
    wrong = (prediction + true).sum(0) - right * 2.0
    # A class that is in neither does not count in the mean.
    occurs = (right + wrong > 0.0).astype("float32")
    share = right / emitted("elementwise_max", [right + wrong, emitted("fill_any_like", [right], value=1.0)])
    mean = share.sum() / occurs.sum()
    results = mean, wrong.astype("int32"), right.astype("int32")
    for item in results:
        item.stop_gradient = True
    return results


@layer
def auc(
    input: Variable, label: Variable, curve: str = "ROC", num_thresholds: int = 4095, topk: int = 1, slide_steps: int = 1
) -> tuple[Variable, Variable, list[Variable]]:
    """The area under the curve of true over false positives, over all runs and of this batch.

    Args:
        input: the probabilities of two classes, ``[batch, 2]``.
        label: 0 or 1, ``[batch, 1]``.
        num_thresholds: into how many parts [0, 1] is cut.
        slide_steps: 1: the second result is this batch's.

    Returns:
        The area over all runs, this batch's, and the counts ``[batch positives, batch negatives, positives, negatives]``.
    """
    with at_users_line("layers.auc"):
        x, truth = checked_input("auc", input), _labels("auc", label)
        bins = checked_int("num_thresholds", num_thresholds, 1) + 1
        if curve != "ROC" or topk != 1 or slide_steps != 1:
            raise InvalidValue(f"curve='ROC', topk=1 and slide_steps=1 are there, not {curve!r}, {topk} and {slide_steps}")
        if x.ndim != 2 or x.shape[1] != 2:
            raise ShapeError(f"it takes the probabilities of two classes, [batch, 2], not {x!r}")
    helper = LayerHelper("auc")
    places = emitted("floor", [x[:, 1] * float(bins - 1)]).astype("int64")
    # A histogram of each class over the thresholds, as a sum of one-hot rows; the area follows from the two histograms, which add up over
    # runs.
    hot = emitted("one_hot_v2", [places], depth=bins, dtype="float32")
    positive = (truth > 0).astype("float32").unsqueeze(1)
    batch = [(hot * variable).sum(0, keepdims=True).astype("int64") for variable in (positive, 1.0 - positive)]
    totals = []
    for count, kind in zip(batch, ("stat_pos", "stat_neg"), strict=True):
        stat = helper.persistable(kind, [1, bins], "int64", 0.0)
        assign(stat + count, stat)
        totals.append(stat)
    return _area(*totals), _area(*batch), [*batch, *totals]


def _area(positives: Variable, negatives: Variable) -> Variable:
    """The area by trapezoids, thresholds from the highest down; 0 where there is one class only."""
    up, along = (emitted("cumsum", [variable.astype("float64")], axis=1, reverse=True) for variable in (positives, negatives))
    increments = positives.astype("float64"), negatives.astype("float64")
    # Going down a threshold adds a trapezoid: its width are the negatives of the bin, its height the positives above, and half of its own.
    total = ((up - increments[0] * 0.5) * increments[1]).sum()
    pairs = up[0, 0] * along[0, 0]
    area = total / emitted("elementwise_max", [pairs, assign(np.array(1.0))])
    area.stop_gradient = True
    return area  # type: ignore[no-any-return]
