"""Losses element by element: of two tensors of one shape, of probabilities, and of logits."""

from __future__ import annotations

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.activation import sigmoid
from graphad.ops.basic import cast, expand_like, fill_any_like, reshape_like, size
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.elementwise import as_mask, elementwise_max
from graphad.ops.formulas import like
from graphad.ops.inference import matched, same_dtypes, same_float
from graphad.ops.reduce import reduce_sum
from graphad.ops.shapes import shape_
from graphad.ops.slicing import slice_
from graphad.ops.traits import ELEMENTWISE
from graphad.ops.unary import clip, log, log1p
from graphad.types import TensorType, dtype_name


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
    along = dOut * clip(Residual, min=-delta, max=delta)
    return along if dResidual is None else along + dResidual


def _huber_x_grad(Residual: Tensor, dOut: Tensor, dResidual: Tensor = None, *, delta: float) -> Tensor:
    return -_slope(Residual, dOut, dResidual, delta)


def _huber_y_grad(Residual: Tensor, dOut: Tensor, dResidual: Tensor = None, *, delta: float) -> Tensor:
    return _slope(Residual, dOut, dResidual, delta)


def _huber_type(X: TensorType, Y: TensorType, *, delta: float) -> tuple[TensorType, TensorType]:
    if not delta >= 0:
        raise ShapeError(f"huber_loss is quadratic where the residual is at most delta, which is no less than 0, not {delta}")
    return _alike(X, Y), _alike(X, Y)


@operator("X Y -> Residual Out", infer=_huber_type, grad={"X": _huber_x_grad, "Y": _huber_y_grad}, rows="X Y", own=True)
def huber_loss(X: Array, Y: Array, *, delta: float) -> tuple[Array, Array]:
    """``r^2 / 2`` where the residual ``r = Y - X`` is at most delta, else ``delta (|r| - delta / 2)``."""
    residual = np.asarray(Y - X)
    near = np.minimum(np.abs(residual), X.dtype.type(delta))
    return residual, np.asarray(near * (np.abs(residual) - 0.5 * near))


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
    diff = np.asarray(X - Y) if InsideWeight is None else (X - Y) * InsideWeight
    size_, bend = np.abs(diff), 1.0 / sigma**2
    cost = np.where(size_ < bend, 0.5 / bend * np.square(diff), size_ - 0.5 * bend)
    cost = cost if OutsideWeight is None else cost * OutsideWeight
    return diff, cost.reshape(len(X), -1).sum(axis=1, keepdims=True) if X.size else np.zeros((len(X), 1), X.dtype)


def _kl_type(X: TensorType, Target: TensorType, *, reduction: str = "mean") -> TensorType:
    if reduction not in ("none", "sum", "mean", "batchmean"):
        raise ShapeError(f"reduction={reduction!r} is not 'none', 'sum', 'mean' or 'batchmean'")
    whole = _alike(X, Target)
    return whole if reduction == "none" else TensorType((), whole.dtype)


def _kl_share(X: Tensor, dLoss: Tensor, reduction: str) -> Tensor:
    """The cotangent of the loss of every element."""
    if reduction == "none":
        return dLoss
    if reduction == "sum" or (reduction == "batchmean" and not X.ndim):
        return expand_like(dLoss, X)
    count = size(X) if reduction == "mean" else slice_(shape_(X), axes=[0], starts=[0], ends=[1])
    return expand_like(dLoss / cast(count, out_dtype=dtype_name(X.dtype)), X)


def _kl_x_grad(X: Tensor, Target: Tensor, dLoss: Tensor, *, reduction: str) -> Tensor:
    return -(_kl_share(X, dLoss, reduction) * Target * as_mask(Target > 0.0, X))


def _kl_target_grad(X: Tensor, Target: Tensor, dLoss: Tensor, *, reduction: str) -> Tensor:
    positive = as_mask(Target > 0.0, X)
    known = Target * positive + (1.0 - positive)
    return _kl_share(X, dLoss, reduction) * positive * (log(known) + 1.0 - X)


@operator("X Target -> Loss", infer=_kl_type, grad={"X": _kl_x_grad, "Target": _kl_target_grad})
def kldiv_loss(X: Array, Target: Array, *, reduction: str = "mean") -> Array:
    """``Target (log Target - X)``, X being a logarithm; zero where Target is not positive. "batchmean" divides the sum by N."""
    loss = np.where(Target > 0, Target * (np.log(np.where(Target > 0, Target, 1)) - X), X.dtype.type(0))
    if reduction == "none":
        return np.asarray(loss)
    divisor = {"sum": 1, "mean": loss.size, "batchmean": len(loss) if loss.ndim else 1}[reduction]
    return np.asarray(loss.sum() / divisor, X.dtype)


# -- of probabilities ----------------------------------------------------------------------------


def _bce_label_grad(X: Tensor, dOut: Tensor) -> Tensor:
    return dOut * (clip(log1p(-X), min=-100.0, max=0.0) - clip(log(X), min=-100.0, max=0.0))


@operator(
    "X Label -> Out",
    infer=_alike,
    grad={
        "X": lambda X, Label, dOut: dOut * (X - Label) / at_least(X * (1.0 - X), 1e-12),
        "Label": _bce_label_grad,
    },
    **ELEMENTWISE,
)
def bce_loss(X: Array, Label: Array) -> Tensor:
    """``-Label log X - (1 - Label) log(1 - X)`` for X in [0, 1]; the logarithms are kept from falling below -100."""
    with np.errstate(divide="ignore"):
        yes, no = np.maximum(np.log(X), like(-100, X)), np.maximum(np.log1p(-X), like(-100, X))
    return -Label * yes - (1 - Label) * no


def _log_loss_grad(Predicted: Tensor, Labels: Tensor, dLoss: Tensor, *, epsilon: float) -> Tensor:
    return dLoss * ((1.0 - Labels) / (1.0 - Predicted + epsilon) - Labels / (Predicted + epsilon))


def _log_loss_label_grad(Predicted: Tensor, dLoss: Tensor, *, epsilon: float) -> Tensor:
    return dLoss * (log1p(epsilon - Predicted) - log(Predicted + epsilon))


@operator("Predicted Labels -> Loss", infer=_alike, grad={"Predicted": _log_loss_grad, "Labels": _log_loss_label_grad}, **ELEMENTWISE)
def log_loss(Predicted: Array, Labels: Array, *, epsilon: float = 1e-4) -> Tensor:
    """``-Labels log(Predicted + epsilon) - (1 - Labels) log(1 - Predicted + epsilon)``."""
    return -Labels * np.log(Predicted + epsilon) - (1 - Labels) * np.log1p(epsilon - Predicted)


# -- of logits -----------------------------------------------------------------------------------


def _counted(Label: Tensor, dOut: Tensor, ignore_index: int, normalize: bool) -> Tensor:
    """The cotangent, zero where the label is ignored, divided by the number of the others if normalized."""
    mask = as_mask(Label != float(ignore_index), dOut)
    if not normalize:
        return dOut * mask
    count = reduce_sum(mask, reduce_all=True)
    return dOut * mask / at_least(count, 1e-5)


def _logits_x_grad(X: Tensor, Label: Tensor, dOut: Tensor, *, ignore_index: int, normalize: bool) -> Tensor:
    return (sigmoid(X) - Label) * _counted(Label, dOut, ignore_index, normalize)


def _logits_label_grad(X: Tensor, Label: Tensor, dOut: Tensor, *, ignore_index: int, normalize: bool) -> Tensor:
    return -(X * _counted(Label, dOut, ignore_index, normalize))


@operator("X Label -> Out", infer=_alike, grad={"X": _logits_x_grad, "Label": _logits_label_grad}, own=True)
def sigmoid_cross_entropy_with_logits(X: Array, Label: Array, *, ignore_index: int = -100, normalize: bool = False) -> Array:
    """``log(1 + exp(X)) - X Label``; zero where Label is ``ignore_index``, divided by the number of the others if ``normalize``."""
    counted = Label != ignore_index
    loss = np.where(counted, np.maximum(X, 0) - X * Label + np.log1p(np.exp(-np.abs(X))), X.dtype.type(0))
    return np.asarray(loss / X.dtype.type(max(counted.sum(), 1e-5)) if normalize else loss)
