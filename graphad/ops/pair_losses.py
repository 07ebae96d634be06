"""Losses of a score against a sign, and of two scores against their order; the cosine of two rows."""

from __future__ import annotations

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.activation import sigmoid
from graphad.ops.basic import fill_zeros_like, reshape_like, unbroadcast
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.elementwise import as_mask
from graphad.ops.formulas import like
from graphad.ops.inference import matched, same_dtypes, same_float
from graphad.ops.moments import total
from graphad.ops.reduce import reduce_sum
from graphad.ops.summation import power_norm, summed
from graphad.types import TensorType


def _one_shape(**inputs: TensorType) -> TensorType:
    """The type that all inputs share; ShapeError naming two that differ."""
    same_dtypes(**inputs)
    (first, like), *others = inputs.items()
    for name, each in others:
        if len(each.shape) != len(like.shape) or not all(map(matched, each.shape, like.shape)):
            raise ShapeError(f"{first} is {like} but {name} is {each}: one shape is expected")
    return TensorType(tuple(map(max, *(t.shape for t in inputs.values()))), same_float(like).dtype)


# -- a score against a sign ----------------------------------------------------------------------


def _hinge_logits_grad(Labels: Tensor, Loss: Tensor, dLoss: Tensor) -> Tensor:
    return dLoss * as_mask(Loss > 0.0, Loss) * (1.0 - Labels * 2.0)


def _hinge_labels_grad(Logits: Tensor, Loss: Tensor, dLoss: Tensor) -> Tensor:
    return dLoss * as_mask(Loss > 0.0, Loss) * Logits * -2.0


@operator(
    "Logits Labels -> Loss",
    infer=lambda Logits, Labels: _one_shape(Logits=Logits, Labels=Labels),
    grad={"Logits": _hinge_logits_grad, "Labels": _hinge_labels_grad},
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
    if not np.isin(Y, (0, 1)).all():
        raise InvalidValue("Y has labels other than 0 and 1")
    z = np.asarray(X * (2 * Y - 1))
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
    found = _one_shape(X1=X1, X2=X2, Label=Label)
    return found, found


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
    loss = np.asarray(np.maximum(X1.dtype.type(margin) - Label * (X1 - X2), X1.dtype.type(0)))
    return (loss > 0).astype(loss.dtype), loss


# -- cosines -------------------------------------------------------------------------------------


def _cosine_type(X: TensorType, Y: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    dtype = same_dtypes(X=same_float(X), Y=Y)
    fits = len(X.shape) == len(Y.shape) >= 2 and all(map(matched, X.shape[1:], Y.shape[1:]))
    if not fits or not (Y.shape[0] == 1 or matched(X.shape[0], Y.shape[0])):
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
    along = (Y / _rows(YNorm, Y) - unit * _rows(Out, X)) / _rows(XNorm, X)
    return total(along * _rows(dOut, X), of_norm)


def _cosine_y_grad(X: Tensor, Y: Tensor, Out: Tensor, XNorm: Tensor, YNorm: Tensor, dOut: Tensor = None, dYNorm: Tensor = None) -> Tensor:
    unit = Y / _rows(YNorm, Y)
    of_norm = None if dYNorm is None else unit * _rows(dYNorm, Y)
    if dOut is None:
        return fill_zeros_like(Y) if of_norm is None else of_norm
    along = (X / _rows(XNorm, X) - unit * _rows(Out, X)) / _rows(YNorm, Y)
    return total(unbroadcast(along * _rows(dOut, X), Y), of_norm)


@operator("X Y -> Out XNorm YNorm", infer=_cosine_type, grad={"X": _cosine_x_grad, "Y": _cosine_y_grad}, rows="X Y")
def cos_sim(X: Array, Y: Array) -> tuple[Array, Array, Array]:
    """The cosine of the angle between the rows of X and Y ``[N, 1]``, and the rows' norms; Y may have one row for all of X."""
    axes = tuple(range(1, X.ndim))
    x, y = (power_norm(a, axes, True) for a in (X, Y))
    cosine = summed((X / x) * (Y / y), axes).reshape(-1, 1)
    return cosine, x.reshape(-1, 1), y.reshape(-1, 1)
