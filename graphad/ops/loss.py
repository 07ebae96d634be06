"""Losses: element by element, of a choice between classes, and of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.activation import log_softmax, logsigmoid, sigmoid
from graphad.ops.casting import as_mask, cast
from graphad.ops.definition import GRAD, GradOpDef, Inputs, Outputs, grad_kernel, lookup, operator
from graphad.ops.dimensions import classes_with_labels
from graphad.ops.elementwise import clip, elementwise_max, log, log1p, pow_
from graphad.ops.formulas import as_array, like, primitive
from graphad.ops.indexing import at, gather, index_add, one_of, put_along_axis, take_along_axis
from graphad.ops.indices import from_front, require
from graphad.ops.inference import check_index, matched, same_dtypes, same_float
from graphad.ops.like import expand_like, fill_any_like, fill_zeros_like, reshape_like, unbroadcast
from graphad.ops.normalization import total
from graphad.ops.reduction import reduce_sum
from graphad.ops.registry import REGISTRY
from graphad.ops.shapes import reshape, shape_, size, unsqueeze
from graphad.ops.slicing import slice_
from graphad.ops.summation import power_norm, summed
from graphad.ops.traits import ELEMENTWISE
from graphad.types import INTS, Array, Tensor, TensorType, dtype_name, element_count

# -- choices between classes -----------------------------------------------------------------------
# Losses of a choice between classes: negative likelihoods, pairwise ranking, focal loss; and labels made less certain.


def _counted(Label: Tensor, ignore_index: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Ones where a label counts, zeros where it is ignored; and the labels with the ignored ones set to zero."""
    # An ignored label may be any number, outside of the classes too. With 0 in its place every look-up is in range, and
    # the mask takes its share away.
    counts = Label != ignore_index
    return as_mask(counts, like), Label * cast(counts, out_dtype=dtype_name(Label.dtype))


def _known(label: Array, classes: int, ignore_index: int | None = None) -> Array:
    """The labels with the ignored ones set to zero; InvalidValue for one that is not a class."""
    return from_front("Label", label, classes, but=ignore_index)


def _check_column(X: TensorType, Label: TensorType) -> None:
    check_index("Label", Label)
    expected = one_of(same_float(X).shape, -1) if X.shape else ()
    if not X.shape or len(Label.shape) != len(expected) or not all(map(matched, Label.shape, expected)):
        raise ShapeError(f"X is {X} but Label is {Label}: classes [..., C] and their numbers [..., 1] are expected")


# -- negative likelihood -------------------------------------------------------------------------


def _nll_type(
    X: TensorType, Label: TensorType, Weight: TensorType | None = None, *, ignore_index: int = -100, reduction: str = "mean"
) -> tuple[TensorType, TensorType]:
    dtype = same_dtypes(X=same_float(X), Weight=Weight)
    check_index("Label", Label)
    if reduction not in ("none", "mean", "sum"):
        raise ShapeError(f"reduction={reduction!r} is not 'none', 'mean' or 'sum'")
    # Classes are axis 1, as in torch; all other axes are samples.
    samples = (*X.shape[:1], *X.shape[2:])
    if len(X.shape) < 2 or len(Label.shape) != len(samples) or not all(map(matched, Label.shape, samples)):
        raise ShapeError(f"X is {X} but Label is {Label}: [N, C, ...] and [N, ...] are expected")
    if Weight is not None and not (len(Weight.shape) == 1 and matched(Weight.shape[0], X.shape[1])):
        raise ShapeError(f"X is {X} but Weight is {Weight}: a weight for each of the classes is expected")
    return TensorType(tuple(map(max, Label.shape, samples)) if reduction == "none" else (), dtype), TensorType((), dtype)


def _nll_weights(X: Tensor, Label: Tensor, Weight: Tensor, ignore_index: int) -> tuple[Tensor, Tensor, Tensor]:
    """Labels ``[N, 1, ...]``, ones where they count, and the weights of the classes they name."""
    label = unsqueeze(Label, axes=[1])
    counts, classes = _counted(label, ignore_index, X)
    if Weight is None:
        return classes, counts, counts
    return classes, counts, reshape_like(gather(Weight, reshape(classes, shape=[-1])), classes) * counts


def _nll_share(dOut: Tensor, like: Tensor, Total_weight: Tensor, reduction: str) -> Tensor:
    # "none" has a cotangent for each sample, "mean" and "sum" have one number for all of them.
    """The cotangent of the weighted loss of each sample."""
    if reduction == "none":
        return reshape_like(dOut, like)
    return expand_like(dOut / _or_one(Total_weight) if reduction == "mean" else dOut, like)


def _or_one(weight: Tensor) -> Tensor:
    """The total weight, or 1 where it is 0."""
    return weight + as_mask(weight == 0.0, weight)


def _nll_x_grad(
    X: Tensor, Label: Tensor, Weight: Tensor, Total_weight: Tensor, dOut: Tensor, *, ignore_index: int, reduction: str
) -> Tensor:
    classes, _, weights = _nll_weights(X, Label, Weight, ignore_index)
    # Of each sample only the element of its label has a slope.
    return put_along_axis(fill_zeros_like(X), classes, -(weights * _nll_share(dOut, classes, Total_weight, reduction)), Axis=1)


def _nll_weight_grad(
    X: Tensor,
    Label: Tensor,
    Weight: Tensor,
    Out: Tensor,
    Total_weight: Tensor,
    dOut: Tensor = None,
    dTotal_weight: Tensor = None,
    *,
    ignore_index: int,
    reduction: str,
) -> Tensor:
    classes, counts, _ = _nll_weights(X, Label, Weight, ignore_index)
    of_total = None if dTotal_weight is None or reduction == "none" else expand_like(dTotal_weight, classes)
    of_loss = None
    if dOut is not None:
        loss = -take_along_axis(X, classes, Axis=1)
        # The mean is a quotient: its divisor, the sum of the weights, depends on them as well.
        loss = loss - expand_like(Out, classes) if reduction == "mean" else loss
        of_loss = loss * _nll_share(dOut, classes, Total_weight, reduction)
    gradient = total(of_loss, of_total)
    if gradient is None:
        return fill_zeros_like(Weight)
    return index_add(fill_zeros_like(Weight), reshape(classes, shape=[-1]), reshape(gradient * counts, shape=[-1]))


@operator("X Label Weight? -> Out Total_weight", infer=_nll_type, grad={"X": _nll_x_grad, "Weight": _nll_weight_grad}, shapes="X:X")
def nll_loss(
    X: Array, Label: Array, Weight: Array | None = None, *, ignore_index: int = -100, reduction: str = "mean"
) -> tuple[Array, Array]:
    """``-X[label]`` for logarithms X ``[N, C, ...]``, times the Weight of the class: of each sample, their sum, or their average.

    The average is over Total_weight, the sum of the weights; without a "reduction" that stays 0.
    """
    label = np.expand_dims(_known(Label, X.shape[1], ignore_index), 1)
    counts = np.expand_dims(Label != ignore_index, 1).astype(X.dtype)
    weights = counts if Weight is None else Weight[label] * counts
    loss = (-np.take_along_axis(X, label, axis=1) * weights)[:, 0]
    if reduction == "none":
        return loss, np.zeros((), X.dtype)
    # If all labels are ignored the sum of weights is zero; the loss is then 0, not nan.
    divisor = as_array(weights.sum(), X.dtype)
    return as_array(loss.sum() / (divisor if reduction == "mean" and divisor != 0 else 1), X.dtype), divisor


def _cross_entropy2_type(X: TensorType, Label: TensorType, *, ignore_index: int = -100) -> tuple[TensorType, TensorType, TensorType]:
    _check_column(X, Label)
    type_ = TensorType(one_of(X.shape, -1), X.dtype)
    return type_, type_, TensorType((*X.shape, 0), X.dtype)


def _cross_entropy2_grad(
    X: Tensor, Label: Tensor, MatchX: Tensor, dY: Tensor = None, dMatchX: Tensor = None, *, ignore_index: int
) -> Tensor:
    counts, classes = _counted(Label, ignore_index, X)
    # Of ignored labels the count is 0, and the divisor 1 instead of a probability that was never looked up.
    of_loss = None if dY is None else -(dY * counts / (MatchX + (1.0 - counts)))
    of_match = None if dMatchX is None else dMatchX * counts
    return put_along_axis(fill_zeros_like(X), classes, total(of_loss, of_match), Axis=-1)


@operator("X Label -> Y MatchX XShape?", infer=_cross_entropy2_type, grad={"X": _cross_entropy2_grad}, shapes="X", rows="X Label")
def cross_entropy2(X: Array, Label: Array, *, ignore_index: int = -100) -> tuple[Array, Array, Array]:
    """``-log X[label]`` ``[..., 1]`` for probabilities X; MatchX is ``X[label]``, both are 0 where the label is ignored."""
    counts = Label != ignore_index
    match = np.take_along_axis(X, _known(Label, X.shape[-1], ignore_index), axis=-1)
    with np.errstate(divide="ignore"):
        loss = np.where(counts, -np.log(match), X.dtype.type(0))
    return loss, np.where(counts, match, X.dtype.type(0)), np.empty((*X.shape, 0), X.dtype)


# -- pairwise ranking ----------------------------------------------------------------------------


def _bpr_type(X: TensorType, Label: TensorType) -> TensorType:
    _check_column(X, Label)
    # An unknown extent is -1, so it is refused here as well.
    if X.shape[-1] < 2:
        raise ShapeError(f"X is {X}: two classes or more are expected, and their number must be known")
    return TensorType(one_of(X.shape, -1), X.dtype)


def _bpr_grad(X: Tensor, Label: Tensor, dY: Tensor) -> Tensor:
    # Each term depends on the difference ``X[j] - X[label]`` alone. The slope of class j is its sigmoid, and that of the
    # label minus the sum of all others.
    slopes = sigmoid(X - take_along_axis(X, Label, Axis=-1)) * (dY * (1.0 / (X.shape[-1] - 1)))
    slopes = put_along_axis(slopes, Label, fill_zeros_like(dY), Axis=-1)
    return put_along_axis(slopes, Label, -reduce_sum(slopes, dim=[-1], keep_dim=True), Axis=-1)


@operator("X Label -> Y", infer=_bpr_type, grad={"X": _bpr_grad}, rows="X Label")
def bpr_loss(X: Array, Label: Array) -> Array:
    """The average over all other classes j of ``-log sigmoid(X[label] - X[j])``, ``[..., 1]`` (Hidasi et al. 2016)."""
    above = X - np.take_along_axis(X, _known(Label, X.shape[-1]), axis=-1)
    # ``-log sigmoid(-a)`` is ``log(1 + exp(a))``, written so that no exponential overflows.
    costs = np.maximum(above, X.dtype.type(0)) + np.log1p(np.exp(-np.abs(above)))
    np.put_along_axis(costs, Label, X.dtype.type(0), axis=-1)
    return as_array(costs.sum(axis=-1, keepdims=True) / X.dtype.type(X.shape[-1] - 1))


# -- focal loss ----------------------------------------------------------------------------------


def _focal_type(X: TensorType, Label: TensorType, FgNum: TensorType, *, gamma: float = 2.0, alpha: float = 0.25) -> TensorType:
    _check_column(X, Label)
    check_index("FgNum", FgNum)
    if len(X.shape) != 2 or not matched(element_count(FgNum.shape), 1):
        raise ShapeError(f"X is {X}, FgNum is {FgNum}: logits [N, classes] and one number are expected")
    return X


def _focal_masks(X: Tensor, Label: Tensor, FgNum: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """The weights of being the class and of not being it; classes count from 1, 0 is the background, -1 is ignored."""
    # 1, 2, … along the classes: labels count from 1.
    number = REGISTRY["cumsum"](fill_any_like(X, value=1.0), axis=1)
    label = cast(Label, out_dtype=dtype_name(X.dtype))
    # Without foreground FgNum is 0, and Paddle divides by 1.
    share = 1.0 / elementwise_max(cast(reshape(FgNum, shape=[1]), out_dtype=dtype_name(X.dtype)), fill_any_like(number, value=1.0))
    positive = as_mask(number == label, X)
    return positive * share * alpha, (1.0 - positive) * as_mask(label != -1.0, X) * share * (1.0 - alpha)


def _focal_grad(X: Tensor, Label: Tensor, FgNum: Tensor, dOut: Tensor, *, gamma: float, alpha: float) -> Tensor:
    positive, negative = _focal_masks(X, Label, FgNum, alpha)
    p, q = sigmoid(X), sigmoid(-X)
    # With p' = p q: ``(-q^g log p)' = q^g (g p log p - q)``. The other term is the mirror image, x -> -x.
    of_class = pow_(q, factor=gamma) * (p * logsigmoid(X) * gamma - q)
    of_others = pow_(p, factor=gamma) * (p - q * logsigmoid(-X) * gamma)
    return dOut * (positive * of_class + negative * of_others)


@operator("X Label FgNum -> Out", infer=_focal_type, grad={"X": _focal_grad}, rows="X Label")
def sigmoid_focal_loss(X: Array, Label: Array, FgNum: Array, *, gamma: float = 2.0, alpha: float = 0.25) -> Array:
    """The cross entropy of each class, weighted by the probability that it is wrong to the power ``gamma`` (Lin et al. 2017).

    ``alpha`` weighs the class, ``1 - alpha`` all others; divided by FgNum. Labels count from 1, 0 is the background, -1 is ignored.
    """
    positive, negative = _focal_masks(X, Label, FgNum, alpha)
    p, q = sigmoid.kernel(X), sigmoid.kernel(-X)
    of_class = np.power(q, X.dtype.type(gamma)) * logsigmoid.kernel(X)
    of_others = np.power(p, X.dtype.type(gamma)) * logsigmoid.kernel(-X)
    return as_array(-(positive * of_class) - negative * of_others)


# -- labels --------------------------------------------------------------------------------------


def _smoothed(X: TensorType, PriorDist: TensorType | None = None, *, epsilon: float = 0.0) -> TensorType:
    same_dtypes(X=same_float(X), PriorDist=PriorDist)
    if not X.shape or not 0 <= epsilon <= 1:
        raise ShapeError(f"X is {X}, epsilon={epsilon}: labels [..., K] and a number in [0, 1] are expected")
    if PriorDist is not None and not matched(element_count(PriorDist.shape), X.shape[-1]):
        raise ShapeError(f"X is {X} but PriorDist is {PriorDist}: a value for each of the classes is expected")
    return X


def _prior_grad(X: Tensor, PriorDist: Tensor, dOut: Tensor, *, epsilon: float) -> Tensor:
    rows = reduce_sum(dOut, dim=list(range(X.ndim - 1)), keep_dim=True) if X.ndim > 1 else dOut
    return reshape_like(rows, PriorDist) * epsilon


SMOOTH_GRAD: dict[str, Any] = {"X": lambda dOut, *, epsilon: dOut * (1.0 - epsilon), "PriorDist": _prior_grad}


@operator("X PriorDist? -> Out", infer=_smoothed, grad=SMOOTH_GRAD, shapes="X PriorDist", rows="X")
def label_smooth(X: Array, PriorDist: Array | None = None, *, epsilon: float = 0.0) -> Array:
    """``(1 - epsilon) X + epsilon PriorDist``, the prior being the same for all classes where it is not given (Szegedy et al. 2016)."""
    prior = 1.0 / max(X.shape[-1], 1) if PriorDist is None else PriorDist.reshape(-1)
    return as_array(X * X.dtype.type(1 - epsilon) + X.dtype.type(epsilon) * prior).astype(X.dtype, copy=False)


# -- cross entropy ---------------------------------------------------------------------------------
# Losses of a choice between classes: from probabilities (``cross_entropy``) and from logits (with softmax).
#
# A label is hard, the number of a class where the classes' axis has the extent 1, or soft, a weight for each class.


def _chosen_type(X: TensorType, Label: TensorType, soft_label: bool, axis: int) -> TensorType:
    expected = same_float(X).shape
    expected = expected if soft_label else one_of(expected, axis)
    if soft_label:
        same_dtypes(X=X, Label=Label)
    elif Label.dtype not in INTS:
        raise ShapeError(f"Label is {Label}: the numbers of classes are integers (soft_label=False)")
    if len(Label.shape) != len(expected) or not all(map(matched, Label.shape, expected)):
        raise ShapeError(f"X is {X} but Label is {Label}: the shape {list(expected)} is expected (soft_label={soft_label}, axis={axis})")
    return TensorType(one_of(X.shape, axis), X.dtype)


# -- in terms of operators -----------------------------------------------------------------------


def _through_logarithm(P: Tensor, Label: Tensor, dLoss: Tensor, soft_label: bool, ignore_index: int, axis: int) -> Tensor:
    """The cotangent of probabilities whose weighted logarithm is the loss."""
    if soft_label:
        return -(dLoss * Label / P)
    counts, label = _counted(Label, ignore_index, P)
    # Where the label is ignored the divisor is 1: the probability there may be 0.
    value = take_along_axis(P, label, Axis=axis) * counts + (1.0 - counts)
    return put_along_axis(fill_zeros_like(P), label, -(dLoss * counts / value), Axis=axis)


def _through_softmax(P: Tensor, Label: Tensor, dLoss: Tensor, soft_label: bool, ignore_index: int, axis: int) -> Tensor:
    """The cotangent of logits with the softmax P whose weighted logarithm is the loss."""
    if soft_label:
        # Soft labels need not add up to 1: the softmax counts as often as they add up to.
        return dLoss * (P * reduce_sum(Label, dim=[axis], keep_dim=True) - Label)
    counts, label = _counted(Label, ignore_index, P)
    weight = dLoss * counts
    return put_along_axis(P * weight, label, -weight, Axis=axis, Reduce="add")


def _logits_grad(
    Label: Tensor,
    Softmax: Tensor,
    dLoss: Tensor,
    dSoftmax: Tensor = None,
    *,
    soft_label: bool,
    ignore_index: int,
    axis: int,
    use_softmax: bool,
) -> Tensor:
    if not use_softmax:
        # Without softmax the output "Softmax" is the input itself, so its cotangent passes as it is.
        cotangent = _through_logarithm(Softmax, Label, dLoss, soft_label, ignore_index, axis)
        return cotangent if dSoftmax is None else cotangent + dSoftmax
    cotangent = _through_softmax(Softmax, Label, dLoss, soft_label, ignore_index, axis)
    if dSoftmax is None:
        return cotangent
    # What is made of Softmax itself, through its Jacobian.
    return cotangent + Softmax * (dSoftmax - reduce_sum(dSoftmax * Softmax, dim=[axis], keep_dim=True))


def _soft_label_grad(Logits: Tensor, Label: Tensor, dLoss: Tensor, *, soft_label: bool, axis: int, use_softmax: bool) -> Tensor:
    if not soft_label:
        return fill_zeros_like(Label)
    return -(dLoss * (log_softmax(Logits, axis=axis) if use_softmax else log(Logits)))


# -- on arrays -----------------------------------------------------------------------------------


@primitive
def _checked(label: Array, classes: int, ignore_index: int) -> Array:
    """Hard labels with the ignored ones set to zero; InvalidValue for one that is not a class."""
    return from_front("Label", label, classes, but=ignore_index)


def _chosen(logarithms: Array, label: Array, soft_label: bool, ignore_index: int, axis: int) -> Array:
    """The negative log-likelihood of the labels."""
    if soft_label:
        return -summed(label * logarithms, axis, True)
    values = logarithms[at(_checked(label, logarithms.shape[axis], ignore_index), axis)]
    return np.where(label == ignore_index, logarithms.dtype.type(0), -values)


# -- operators -----------------------------------------------------------------------------------


@operator(
    "X Label -> Y",
    infer=lambda X, Label, *, soft_label=False, ignore_index=-100: _chosen_type(X, Label, soft_label, -1),
    grad={
        "X": lambda X, Label, dY, *, soft_label, ignore_index: _through_logarithm(X, Label, dY, soft_label, ignore_index, -1),
        "Label": lambda X, Label, dY, *, soft_label: -(dY * log(X)) if soft_label else fill_zeros_like(Label),
    },
    rows="X Label",
    partly_linear="Label",
    own=True,
)
def cross_entropy(X: Array, Label: Array, *, soft_label: bool = False, ignore_index: int = -100) -> Array:
    """``-log X[label]`` ``[..., 1]`` for probabilities X ``[..., classes]``; with soft labels ``-sum(Label log X)``."""
    with np.errstate(divide="ignore"):
        return _chosen(np.log(X), Label, soft_label, ignore_index, X.ndim - 1)


@operator(
    "Logits Label -> Softmax Loss",
    infer=lambda Logits, Label, *, soft_label=False, axis=-1, **_: (Logits, _chosen_type(Logits, Label, soft_label, axis)),
    grad={"Logits": _logits_grad, "Label": _soft_label_grad},
    rows="Logits Label",
    along="axis",
    flops=6,
    dimensions=classes_with_labels,
)
def softmax_with_cross_entropy(
    Logits: Array,
    Label: Array,
    *,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    axis: int = -1,
    use_softmax: bool = True,
) -> tuple[Array, Array]:
    """The softmax of Logits along ``axis`` and its cross entropy (extent 1 along the axis).

    Without ``use_softmax`` Logits are probabilities. The computation is always the stable one.
    """
    if not use_softmax:
        with np.errstate(divide="ignore"):
            return Logits, _chosen(np.log(Logits), Label, soft_label, ignore_index, axis)
    # log softmax = differences - log(total): no exponential overflows, and no logarithm is taken of a rounded probability.
    differences = Logits - np.max(Logits, axis=axis, keepdims=True, initial=-np.inf) if Logits.size else Logits
    softmax = np.exp(differences)
    total = summed(softmax, axis, True)
    softmax /= total
    if soft_label:
        return softmax, _chosen(differences - np.log(total), Label, True, ignore_index, axis)
    # One element of each sample is needed: the logarithm of the total is added there, not everywhere.
    loss = _chosen(differences, Label, False, ignore_index, axis)
    return softmax, np.where(Label == ignore_index, loss, loss + np.log(total))


@grad_kernel("softmax_with_cross_entropy")
def _fast_softmax_grad(inputs: Inputs, attrs: Mapping[str, object], slots: Sequence[str]) -> Outputs:
    """Hard labels through the softmax: one product, and one subtraction for each label."""
    definition = lookup("softmax_with_cross_entropy_grad")
    assert isinstance(definition, GradOpDef)
    # The short formula holds for the usual case alone; all others go by the rules.
    usual = definition.attr("use_softmax", attrs) and not definition.attr("soft_label", attrs) and not inputs.get("Softmax" + GRAD)
    if not usual or list(slots) != ["Logits" + GRAD]:
        return definition.meaning(inputs, attrs, slots)
    label, softmax = inputs["Label"][0], inputs["Softmax"][0]
    axis, ignore_index = definition.attr("axis", attrs), definition.attr("ignore_index", attrs)
    # softmax - one_hot(label), each row times its cotangent, which is 0 for an ignored label.
    weight = np.where(label == ignore_index, softmax.dtype.type(0), inputs["Loss" + GRAD][0])
    classes = _checked(label, softmax.shape[axis], ignore_index)
    return {"Logits" + GRAD: [_less_at(as_array(softmax * weight), classes, weight, axis)]}


@primitive
def _less_at(x: Array, index: Array, weight: Array, axis: int) -> Array:
    """A copy, with the weights subtracted where the index says along the axis."""
    less = x.copy()
    less[at(index, axis)] -= weight
    return less


# -- loss ------------------------------------------------------------------------------------------
# Losses element by element: of two tensors of one shape, of probabilities, and of logits.


def _alike(X: TensorType, Y: TensorType, **_: object) -> TensorType:
    """Both inputs are floating point and of one shape."""
    same_float(X)
    same_dtypes(X=X, Y=Y)
    if len(X.shape) != len(Y.shape) or not all(map(matched, X.shape, Y.shape)):
        raise ShapeError(f"the first input is {X} but the second is {Y}: one shape is expected")
    return TensorType(tuple(map(max, X.shape, Y.shape)), X.dtype)


def at_least(X: Tensor, low: float) -> Tensor:
    """The larger of X and a number."""
    return elementwise_max(X, fill_any_like(X, value=low))


# -- of two tensors ------------------------------------------------------------------------------


@operator(
    "X Y -> Out",
    infer=_alike,
    grad={"X": lambda X, Y, dOut: dOut * (X - Y) * 2.0, "Y": lambda X, Y, dOut: dOut * (Y - X) * 2.0},
    **ELEMENTWISE,
    own=True,
    uniform=True,
    flops=2,
)
def square_error_cost(X: Array, Y: Array) -> Tensor:
    """``(X - Y)^2``."""
    return np.square(X - Y)


def _slope(Residual: Tensor, dOut: Tensor, dResidual: Tensor, delta: float) -> Tensor:
    # r near 0, and delta times its sign elsewhere: the residual, clipped.
    along = dOut * clip(Residual, min=-delta, max=delta)
    return along if dResidual is None else along + dResidual


def _huber_type(X: TensorType, Y: TensorType, *, delta: float) -> tuple[TensorType, TensorType]:
    # ``not >=`` refuses nan as well.
    if not delta >= 0:
        raise ShapeError(f"huber_loss is quadratic where the residual is at most delta, which is no less than 0, not {delta}")
    return _alike(X, Y), _alike(X, Y)


@operator(
    "X Y -> Residual Out",
    infer=_huber_type,
    grad={
        "X": lambda Residual, dOut, dResidual=None, *, delta: -_slope(Residual, dOut, dResidual, delta),
        "Y": lambda Residual, dOut, dResidual=None, *, delta: _slope(Residual, dOut, dResidual, delta),
    },
    rows="X Y",
    own=True,
)
def huber_loss(X: Array, Y: Array, *, delta: float) -> tuple[Array, Array]:
    """``r^2 / 2`` where the residual ``r = Y - X`` is at most delta, else ``delta (|r| - delta / 2)``."""
    residual = as_array(Y - X)
    # One formula for both pieces: with near = |r| it is r^2 / 2, with near = delta the line.
    near = np.minimum(np.abs(residual), X.dtype.type(delta))
    return residual, as_array(near * (np.abs(residual) - 0.5 * near))


def _smooth_type(
    X: TensorType, Y: TensorType, InsideWeight: TensorType | None = None, OutsideWeight: TensorType | None = None, *, sigma: float = 1.0
) -> tuple[TensorType, TensorType]:
    diff = _alike(X, Y)
    for weight in (InsideWeight, OutsideWeight):
        if weight is not None:
            _alike(X, weight)
    if len(diff.shape) < 2:
        raise ShapeError(f"X is {X}; two axes or more are expected")
    return diff, TensorType((diff.shape[0], 1), diff.dtype)


def _smooth_grad(
    X: Tensor,
    Diff: Tensor,
    InsideWeight: Tensor,
    OutsideWeight: Tensor,
    dOut: Tensor,
    dDiff: Tensor = None,
    *,
    sigma: float,
) -> Tensor:
    rows = reshape_like(dOut, reduce_sum(Diff, dim=list(range(1, X.ndim)), keep_dim=True))
    # Within 1 / sigma^2 of zero the slope is sigma^2 d, beyond it the sign of d.
    slope = clip(Diff * sigma**2, min=-1.0, max=1.0) * rows
    slope = slope if OutsideWeight is None else slope * OutsideWeight
    slope = slope if dDiff is None else slope + dDiff
    return slope if InsideWeight is None else slope * InsideWeight


def _smooth_y_grad(
    Y: Tensor,
    Diff: Tensor,
    InsideWeight: Tensor,
    OutsideWeight: Tensor,
    dOut: Tensor,
    dDiff: Tensor = None,
    *,
    sigma: float,
) -> Tensor:
    return -_smooth_grad(Y, Diff, InsideWeight, OutsideWeight, dOut, dDiff, sigma=sigma)


@operator(
    "X Y InsideWeight? OutsideWeight? -> Diff Out",
    infer=_smooth_type,
    grad={"X": _smooth_grad, "Y": _smooth_y_grad},
    rows="X Y InsideWeight OutsideWeight",
)
def smooth_l1_loss(
    X: Array, Y: Array, InsideWeight: Array | None = None, OutsideWeight: Array | None = None, *, sigma: float = 1.0
) -> tuple[Array, Array]:
    """The sums over rows ``[N, 1]`` of ``(sigma d)^2 / 2`` near zero and ``|d| - 1 / (2 sigma^2)`` elsewhere.

    ``d`` is ``X - Y``, times InsideWeight if it is there; OutsideWeight multiplies the terms of the sum.
    """
    diff = as_array(X - Y) if InsideWeight is None else (X - Y) * InsideWeight
    # Both pieces meet at 1 / sigma^2, with one slope.
    size_, bend = np.abs(diff), 1.0 / sigma**2
    cost = np.where(size_ < bend, 0.5 / bend * np.square(diff), size_ - 0.5 * bend)
    cost = cost if OutsideWeight is None else cost * OutsideWeight
    return diff, cost.reshape(len(X), -1).sum(axis=1, keepdims=True) if X.size else np.zeros((len(X), 1), X.dtype)


def _kl_type(X: TensorType, Target: TensorType, *, reduction: str = "mean") -> TensorType:
    if reduction not in ("none", "sum", "mean", "batchmean"):
        raise ShapeError(f"reduction={reduction!r} is not 'none', 'sum', 'mean' or 'batchmean'")
    type_ = _alike(X, Target)
    return type_ if reduction == "none" else TensorType((), type_.dtype)


def _kl_share(X: Tensor, dLoss: Tensor, reduction: str) -> Tensor:
    """The cotangent of the loss of every element."""
    if reduction == "none":
        return dLoss
    if reduction == "sum" or (reduction == "batchmean" and not X.ndim):
        return expand_like(dLoss, X)
    count = size(X) if reduction == "mean" else slice_(shape_(X), axes=[0], starts=[0], ends=[1])
    return expand_like(dLoss / cast(count, out_dtype=dtype_name(X.dtype)), X)


def _kl_target_grad(X: Tensor, Target: Tensor, dLoss: Tensor, *, reduction: str) -> Tensor:
    positive = as_mask(Target > 0.0, X)
    # 1 in place of what is not positive: no logarithm of 0, and the mask drops the term.
    safe_target = Target * positive + (1.0 - positive)
    return _kl_share(X, dLoss, reduction) * positive * (log(safe_target) + 1.0 - X)


@operator(
    "X Target -> Loss",
    infer=_kl_type,
    grad={
        "X": lambda X, Target, dLoss, *, reduction: -(_kl_share(X, dLoss, reduction) * Target * as_mask(Target > 0.0, X)),
        "Target": _kl_target_grad,
    },
)
def kldiv_loss(X: Array, Target: Array, *, reduction: str = "mean") -> Array:
    """``Target (log Target - X)``, X being a logarithm; zero where Target is not positive. "batchmean" divides the sum by N."""
    # x log x goes to 0 with x; the inner ``where`` keeps log away from zero.
    loss = np.where(Target > 0, Target * (np.log(np.where(Target > 0, Target, 1)) - X), X.dtype.type(0))
    if reduction == "none":
        return as_array(loss)
    divisor = {"sum": 1, "mean": loss.size, "batchmean": len(loss) if loss.ndim else 1}[reduction]
    return as_array(loss.sum() / divisor, X.dtype)


# -- of probabilities ----------------------------------------------------------------------------


@operator(
    "X Label -> Out",
    infer=_alike,
    grad={
        # 1e-12 is the floor of ``X (1 - X)`` in Paddle and torch.
        "X": lambda X, Label, dOut: dOut * (X - Label) / at_least(X * (1.0 - X), 1e-12),
        "Label": lambda X, dOut: dOut * (clip(log1p(-X), min=-100.0, max=0.0) - clip(log(X), min=-100.0, max=0.0)),
    },
    **ELEMENTWISE,
    steep=True,
)
def bce_loss(X: Array, Label: Array) -> Tensor:
    """``-Label log X - (1 - Label) log(1 - X)`` for X in [0, 1]; the logarithms are kept from falling below -100."""
    with np.errstate(divide="ignore"):
        yes, no = np.maximum(np.log(X), like(-100, X)), np.maximum(np.log1p(-X), like(-100, X))
    return -Label * yes - (1 - Label) * no


def _log_loss_grad(Predicted: Tensor, Labels: Tensor, dLoss: Tensor, *, epsilon: float) -> Tensor:
    return dLoss * ((1.0 - Labels) / (1.0 - Predicted + epsilon) - Labels / (Predicted + epsilon))


@operator(
    "Predicted Labels -> Loss",
    infer=_alike,
    grad={
        "Predicted": _log_loss_grad,
        "Labels": lambda Predicted, dLoss, *, epsilon: dLoss * (log1p(epsilon - Predicted) - log(Predicted + epsilon)),
    },
    **ELEMENTWISE,
    steep=True,
)
def log_loss(Predicted: Array, Labels: Array, *, epsilon: float = 1e-4) -> Tensor:
    """``-Labels log(Predicted + epsilon) - (1 - Labels) log(1 - Predicted + epsilon)``."""
    return -Labels * np.log(Predicted + epsilon) - (1 - Labels) * np.log1p(epsilon - Predicted)


# -- of logits -----------------------------------------------------------------------------------


def _loss_counted(Label: Tensor, dOut: Tensor, ignore_index: int, normalize: bool) -> Tensor:
    """The cotangent, zero where the label is ignored, divided by the number of the others if normalized."""
    mask = as_mask(Label != float(ignore_index), dOut)
    if not normalize:
        return dOut * mask
    count = reduce_sum(mask, reduce_all=True)
    # Paddle's smallest divisor, in the kernel below as well.
    return dOut * mask / at_least(count, 1e-5)


def _logits_x_grad(X: Tensor, Label: Tensor, dOut: Tensor, *, ignore_index: int, normalize: bool) -> Tensor:
    return (sigmoid(X) - Label) * _loss_counted(Label, dOut, ignore_index, normalize)


@operator(
    "X Label -> Out",
    infer=_alike,
    grad={
        "X": _logits_x_grad,
        "Label": lambda X, Label, dOut, *, ignore_index, normalize: -(X * _loss_counted(Label, dOut, ignore_index, normalize)),
    },
    rows="X Label",
    apart=lambda attrs: not attrs["normalize"],
    own=True,
)
def sigmoid_cross_entropy_with_logits(X: Array, Label: Array, *, ignore_index: int = -100, normalize: bool = False) -> Array:
    """``log(1 + exp(X)) - X Label``; zero where Label is ``ignore_index``, divided by the number of the others if ``normalize``."""
    is_counted = Label != ignore_index
    # ``log(1 + exp(x))`` is ``max(x, 0) + log1p(exp(-|x|))``: no exponential overflows.
    loss = np.where(is_counted, np.maximum(X, 0) - X * Label + np.log1p(np.exp(-np.abs(X))), X.dtype.type(0))
    return as_array(loss / X.dtype.type(max(is_counted.sum(), 1e-5)) if normalize else loss)


# -- scores ----------------------------------------------------------------------------------------
# Losses of a score against a sign, and of two scores against their order; the cosine of two rows.


def _one_shape(**inputs: TensorType) -> TensorType:
    """The type that all inputs share; ShapeError naming two that differ."""
    same_dtypes(**inputs)
    (first, like), *rest = inputs.items()
    for name, type_ in rest:
        if len(type_.shape) != len(like.shape) or not all(map(matched, type_.shape, like.shape)):
            raise ShapeError(f"{first} is {like} but {name} is {type_}: one shape is expected")
    return TensorType(tuple(map(max, *(t.shape for t in inputs.values()))), same_float(like).dtype)


# -- a score against a sign ----------------------------------------------------------------------


@operator(
    "Logits Labels -> Loss",
    infer=lambda Logits, Labels: _one_shape(Logits=Logits, Labels=Labels),
    grad={
        "Logits": lambda Labels, Loss, dLoss: dLoss * as_mask(Loss > 0.0, Loss) * (1.0 - Labels * 2.0),
        "Labels": lambda Logits, Loss, dLoss: dLoss * as_mask(Loss > 0.0, Loss) * Logits * -2.0,
    },
    elementwise=True,
)
def hinge_loss(Logits: Array, Labels: Array) -> Tensor:
    """``1 - y Logits`` where that is positive, else 0; y is -1 for the label 0 and 1 for the label 1."""
    return np.maximum(1 - Logits * (2 * Labels - 1), like(0, Logits))


def _modified_grad(Y: Tensor, IntermediateVal: Tensor, dOut: Tensor = None, dIntermediateVal: Tensor = None) -> Tensor:
    return total(_modified_slope(IntermediateVal, dOut), dIntermediateVal) * (Y * 2.0 - 1.0)


def _modified_label_grad(X: Tensor, IntermediateVal: Tensor, dOut: Tensor = None, dIntermediateVal: Tensor = None) -> Tensor:
    return total(_modified_slope(IntermediateVal, dOut), dIntermediateVal) * X * 2.0


def _modified_slope(value: Tensor, dOut: Tensor) -> Tensor:
    if dOut is None:
        return None
    # The three pieces as masks: -4 below -1, 2 (z - 1) up to 1, and 0 from there on.
    linear, square = as_mask(value < -1.0, value), as_mask(value < 1.0, value)
    return dOut * (linear * -4.0 + (square - linear) * (value - 1.0) * 2.0)


@operator(
    "X Y -> IntermediateVal Out",
    infer=lambda X, Y: (_one_shape(X=X, Y=Y), _one_shape(X=X, Y=Y)),
    grad={"X": _modified_grad, "Y": _modified_label_grad},
    rows="X Y",
)
def modified_huber_loss(X: Array, Y: Array) -> tuple[Array, Array]:
    """With ``z = X (2 Y - 1)``: ``-4 z`` below -1, ``(1 - z)^2`` below 1, else 0 (Zhang 2004). Labels Y are 0 or 1."""
    require(np.isin(Y, (0, 1)), "Y has labels other than 0 and 1")
    z = as_array(X * (2 * Y - 1))
    return z, np.where(z < -1, -4 * z, np.square(np.maximum(1 - z, z.dtype.type(0))))


# -- two scores against their order --------------------------------------------------------------


def _order_slope(Label: Tensor, Left: Tensor, Right: Tensor, dOut: Tensor) -> Tensor:
    return dOut * (sigmoid(Left - Right) - Label)


@operator(
    "Label Left Right -> Out",
    infer=lambda Label, Left, Right: _one_shape(Label=Label, Left=Left, Right=Right),
    grad={
        "Label": lambda Left, Right, dOut: dOut * (Right - Left),
        "Left": _order_slope,
        "Right": lambda Label, Left, Right, dOut: -_order_slope(Label, Left, Right, dOut),
    },
    elementwise=True,
)
def rank_loss(Label: Array, Left: Array, Right: Array) -> Tensor:
    """``log(1 + exp(o)) - Label o`` for ``o = Left - Right``; Label is the probability that Left ranks higher (Burges et al. 2005)."""
    o = Left - Right
    return np.maximum(o, like(0, o)) + np.log1p(np.exp(-np.abs(o))) - Label * o


def _margin_type(X1: TensorType, X2: TensorType, Label: TensorType, *, margin: float = 0.0) -> tuple[TensorType, TensorType]:
    type = _one_shape(X1=X1, X2=X2, Label=Label)
    return type, type


@operator(
    "X1 X2 Label -> Activated Out",
    infer=_margin_type,
    grad={
        "X1": lambda Label, Activated, dOut: -(dOut * Label * Activated),
        "X2": lambda Label, Activated, dOut: dOut * Label * Activated,
        "Label": lambda X1, X2, Activated, dOut: dOut * (X2 - X1) * Activated,
    },
)
def margin_rank_loss(X1: Array, X2: Array, Label: Array, *, margin: float = 0.0) -> tuple[Array, Array]:
    """``margin - Label (X1 - X2)`` where that is positive, else 0; Activated has ones where it is. Label is 1 or -1."""
    loss = as_array(np.maximum(X1.dtype.type(margin) - Label * (X1 - X2), X1.dtype.type(0)))
    return (loss > 0).astype(loss.dtype), loss


# -- cosines -------------------------------------------------------------------------------------


def _cosine_type(X: TensorType, Y: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    dtype = same_dtypes(X=same_float(X), Y=Y)
    is_fitting = len(X.shape) == len(Y.shape) >= 2 and all(map(matched, X.shape[1:], Y.shape[1:]))
    if not is_fitting or not (Y.shape[0] == 1 or matched(X.shape[0], Y.shape[0])):
        raise ShapeError(f"X is {X} but Y is {Y}: rows of one shape are expected, as many in both or one in Y")
    row = TensorType((X.shape[0], 1), dtype)
    return row, row, TensorType((Y.shape[0], 1), dtype)


def _rows(column: Tensor, like: Tensor) -> Tensor:
    """``[N, 1]`` with as many axes as the rows."""
    return reshape_like(column, reduce_sum(like, dim=list(range(1, like.ndim)), keep_dim=True))


def _cosine_x_grad(X: Tensor, Y: Tensor, Out: Tensor, XNorm: Tensor, YNorm: Tensor, dOut: Tensor = None, dXNorm: Tensor = None) -> Tensor:
    unit = X / _rows(XNorm, X)
    of_norm = None if dXNorm is None else unit * _rows(dXNorm, X)
    if dOut is None:
        return fill_zeros_like(X) if of_norm is None else of_norm
    # The derivative of x.y / |x||y|: what of y's direction is not x's own, over |x|.
    along = (Y / _rows(YNorm, Y) - unit * _rows(Out, X)) / _rows(XNorm, X)
    return total(along * _rows(dOut, X), of_norm)


def _cosine_y_grad(X: Tensor, Y: Tensor, Out: Tensor, XNorm: Tensor, YNorm: Tensor, dOut: Tensor = None, dYNorm: Tensor = None) -> Tensor:
    unit = Y / _rows(YNorm, Y)
    of_norm = None if dYNorm is None else unit * _rows(dYNorm, Y)
    if dOut is None:
        return fill_zeros_like(Y) if of_norm is None else of_norm
    along = (X / _rows(XNorm, X) - unit * _rows(Out, X)) / _rows(YNorm, Y)
    # Y may be one row for all of X.
    return total(unbroadcast(along * _rows(dOut, X), Y), of_norm)


@operator("X Y -> Out XNorm YNorm", infer=_cosine_type, grad={"X": _cosine_x_grad, "Y": _cosine_y_grad}, rows="X Y")
def cos_sim(X: Array, Y: Array) -> tuple[Array, Array, Array]:
    """The cosine of the angle between the rows of X and Y ``[N, 1]``, and the rows' norms; Y may have one row for all of X."""
    axes = tuple(range(1, X.ndim))
    x, y = (power_norm(a, axes, True) for a in (X, Y))
    cosine = summed((X / x) * (Y / y), axes).reshape(-1, 1)
    return cosine, x.reshape(-1, 1), y.reshape(-1, 1)
