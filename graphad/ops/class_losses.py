"""Losses of a choice between classes: negative likelihoods, pairwise ranking, focal loss; and labels made less certain."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.activation import logsigmoid, sigmoid
from graphad.ops.along import one_of, put_along_axis, take_along_axis
from graphad.ops.basic import cast, expand_like, fill_any_like, fill_zeros_like, reshape_like
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.elementwise import as_mask, elementwise_max
from graphad.ops.index import gather, index_add
from graphad.ops.indices import from_front
from graphad.ops.inference import check_index, matched, same_dtypes, same_float
from graphad.ops.moments import total
from graphad.ops.reduce import reduce_sum
from graphad.ops.shapes import reshape, unsqueeze
from graphad.ops.symbol import REGISTRY
from graphad.ops.unary import pow_
from graphad.types import TensorType, dtype_name, element_count


def _counted(Label: Tensor, ignore_index: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Ones where a label counts, zeros where it is ignored; and the labels with the ignored ones set to zero."""
    counts = Label != ignore_index
    return as_mask(counts, like), Label * cast(counts, out_dtype=dtype_name(Label.dtype))


def _known(label: Array, classes: int, ignore_index: int | None = None) -> Array:
    """The labels with the ignored ones set to zero; InvalidValue for one that is no class."""
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
        loss = loss - expand_like(Out, classes) if reduction == "mean" else loss
        of_loss = loss * _nll_share(dOut, classes, Total_weight, reduction)
    found = total(of_loss, of_total)
    if found is None:
        return fill_zeros_like(Weight)
    return index_add(fill_zeros_like(Weight), reshape(classes, shape=[-1]), reshape(found * counts, shape=[-1]))


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
    whole = np.asarray(weights.sum(), X.dtype)
    return np.asarray(loss.sum() / (whole if reduction == "mean" and whole != 0 else 1), X.dtype), whole


def _cross_entropy2_type(X: TensorType, Label: TensorType, *, ignore_index: int = -100) -> tuple[TensorType, TensorType, TensorType]:
    _check_column(X, Label)
    chosen = TensorType(one_of(X.shape, -1), X.dtype)
    return chosen, chosen, TensorType((*X.shape, 0), X.dtype)


def _cross_entropy2_grad(
    X: Tensor, Label: Tensor, MatchX: Tensor, dY: Tensor = None, dMatchX: Tensor = None, *, ignore_index: int
) -> Tensor:
    counts, classes = _counted(Label, ignore_index, X)
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
    if X.shape[-1] < 2:
        raise ShapeError(f"X is {X}: two classes or more are expected, and their number must be known")
    return TensorType(one_of(X.shape, -1), X.dtype)


def _bpr_grad(X: Tensor, Label: Tensor, dY: Tensor) -> Tensor:
    slopes = sigmoid(X - take_along_axis(X, Label, Axis=-1)) * (dY * (1.0 / (X.shape[-1] - 1)))
    slopes = put_along_axis(slopes, Label, fill_zeros_like(dY), Axis=-1)
    return put_along_axis(slopes, Label, -reduce_sum(slopes, dim=[-1], keep_dim=True), Axis=-1)


@operator("X Label -> Y", infer=_bpr_type, grad={"X": _bpr_grad}, rows="X Label")
def bpr_loss(X: Array, Label: Array) -> Array:
    """The average over all other classes j of ``-log sigmoid(X[label] - X[j])``, ``[..., 1]`` (Hidasi et al. 2016)."""
    above = X - np.take_along_axis(X, _known(Label, X.shape[-1]), axis=-1)
    costs = np.maximum(above, X.dtype.type(0)) + np.log1p(np.exp(-np.abs(above)))
    np.put_along_axis(costs, Label, X.dtype.type(0), axis=-1)
    return np.asarray(costs.sum(axis=-1, keepdims=True) / X.dtype.type(X.shape[-1] - 1))


# -- focal loss ----------------------------------------------------------------------------------


def _focal_type(X: TensorType, Label: TensorType, FgNum: TensorType, *, gamma: float = 2.0, alpha: float = 0.25) -> TensorType:
    _check_column(X, Label)
    check_index("FgNum", FgNum)
    if len(X.shape) != 2 or not matched(element_count(FgNum.shape), 1):
        raise ShapeError(f"X is {X}, FgNum is {FgNum}: logits [N, classes] and one number are expected")
    return X


def _focal_masks(X: Tensor, Label: Tensor, FgNum: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """The weights of being the class and of not being it; classes count from 1, 0 is the background, -1 is ignored."""
    number = REGISTRY["cumsum"](fill_any_like(X, value=1.0), axis=1)
    label = cast(Label, out_dtype=dtype_name(X.dtype))
    share = 1.0 / elementwise_max(cast(reshape(FgNum, shape=[1]), out_dtype=dtype_name(X.dtype)), fill_any_like(number, value=1.0))
    positive = as_mask(number == label, X)
    return positive * share * alpha, (1.0 - positive) * as_mask(label != -1.0, X) * share * (1.0 - alpha)


def _focal_grad(X: Tensor, Label: Tensor, FgNum: Tensor, dOut: Tensor, *, gamma: float, alpha: float) -> Tensor:
    positive, negative = _focal_masks(X, Label, FgNum, alpha)
    p, q = sigmoid(X), sigmoid(-X)
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
    return np.asarray(-(positive * of_class) - negative * of_others)


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
    return np.asarray(X * X.dtype.type(1 - epsilon) + X.dtype.type(epsilon) * prior).astype(X.dtype, copy=False)
