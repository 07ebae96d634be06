"""Losses of a choice between classes: from probabilities (``cross_entropy``) and from logits (with softmax).

A label is hard, the number of a class where the classes' axis has the extent 1, or soft, a weight for each class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.activation import log_softmax
from graphad.ops.along import at, one_of, put_along_axis, take_along_axis
from graphad.ops.basic import cast, fill_zeros_like
from graphad.ops.definition import GRAD, Array, GradOpDef, Inputs, Outputs, Tensor, grad_kernel, lookup, operator
from graphad.ops.elementwise import as_mask
from graphad.ops.indices import from_front
from graphad.ops.inference import matched, same_dtypes, same_float
from graphad.ops.reduce import reduce_sum
from graphad.ops.summation import summed
from graphad.ops.unary import log
from graphad.types import INTS, TensorType, dtype_name


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


def _counts(Label: Tensor, ignore_index: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Ones where a hard label counts, zeros where it is ignored; and the labels with the ignored ones set to zero."""
    counts = Label != ignore_index
    return as_mask(counts, like), Label * cast(counts, out_dtype=dtype_name(Label.dtype))


def _through_logarithm(P: Tensor, Label: Tensor, dLoss: Tensor, soft_label: bool, ignore_index: int, axis: int) -> Tensor:
    """The cotangent of probabilities whose weighted logarithm is the loss."""
    if soft_label:
        return -(dLoss * Label / P)
    counts, label = _counts(Label, ignore_index, P)
    chosen = take_along_axis(P, label, Axis=axis) * counts + (1.0 - counts)
    return put_along_axis(fill_zeros_like(P), label, -(dLoss * counts / chosen), Axis=axis)


def _through_softmax(P: Tensor, Label: Tensor, dLoss: Tensor, soft_label: bool, ignore_index: int, axis: int) -> Tensor:
    """The cotangent of logits with the softmax P whose weighted logarithm is the loss."""
    if soft_label:
        return dLoss * (P * reduce_sum(Label, dim=[axis], keep_dim=True) - Label)
    counts, label = _counts(Label, ignore_index, P)
    weight = dLoss * counts
    return put_along_axis(P * weight, label, -weight, Axis=axis, Reduce="add")


def _x_grad(X: Tensor, Label: Tensor, dY: Tensor, *, soft_label: bool, ignore_index: int) -> Tensor:
    return _through_logarithm(X, Label, dY, soft_label, ignore_index, -1)


def _label_grad(X: Tensor, Label: Tensor, dY: Tensor, *, soft_label: bool) -> Tensor:
    return -(dY * log(X)) if soft_label else fill_zeros_like(Label)


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
        cotangent = _through_logarithm(Softmax, Label, dLoss, soft_label, ignore_index, axis)
        return cotangent if dSoftmax is None else cotangent + dSoftmax
    cotangent = _through_softmax(Softmax, Label, dLoss, soft_label, ignore_index, axis)
    if dSoftmax is None:
        return cotangent
    return cotangent + Softmax * (dSoftmax - reduce_sum(dSoftmax * Softmax, dim=[axis], keep_dim=True))


def _soft_label_grad(Logits: Tensor, Label: Tensor, dLoss: Tensor, *, soft_label: bool, axis: int, use_softmax: bool) -> Tensor:
    if not soft_label:
        return fill_zeros_like(Label)
    return -(dLoss * (log_softmax(Logits, axis=axis) if use_softmax else log(Logits)))


# -- on arrays -----------------------------------------------------------------------------------


def _checked(label: Array, classes: int, ignore_index: int) -> Array:
    """Hard labels with the ignored ones set to zero; InvalidValue for one that is no class."""
    return from_front("Label", label, classes, but=ignore_index)


def _chosen(logarithms: Array, label: Array, soft_label: bool, ignore_index: int, axis: int) -> Array:
    """What is to be lost: the logarithm of the label's probability, with its sign changed."""
    if soft_label:
        return -summed(label * logarithms, axis, True)
    chosen = logarithms[at(_checked(label, logarithms.shape[axis], ignore_index), axis)]
    return np.where(label == ignore_index, logarithms.dtype.type(0), -chosen)


# -- operators -----------------------------------------------------------------------------------


@operator(
    "X Label -> Y",
    infer=lambda X, Label, *, soft_label=False, ignore_index=-100: _chosen_type(X, Label, soft_label, -1),
    grad={"X": _x_grad, "Label": _label_grad},
    rows="X Label",
    own=True,
)
def cross_entropy(X: Array, Label: Array, *, soft_label: bool = False, ignore_index: int = -100) -> Array:
    """``-log X[label]`` ``[..., 1]`` for probabilities X ``[..., classes]``; with soft labels ``-sum(Label log X)``."""
    with np.errstate(divide="ignore"):
        return _chosen(np.log(X), Label, soft_label, ignore_index, X.ndim - 1)


def _softmax_loss_type(
    Logits: TensorType, Label: TensorType, *, soft_label: bool = False, axis: int = -1, **_: Any
) -> tuple[TensorType, TensorType]:
    return Logits, _chosen_type(Logits, Label, soft_label, axis)


@operator(
    "Logits Label -> Softmax Loss",
    infer=_softmax_loss_type,
    grad={"Logits": _logits_grad, "Label": _soft_label_grad},
    rows="Logits Label",
    along="axis",
    flops=6,
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
    shifted = Logits - np.max(Logits, axis=axis, keepdims=True, initial=-np.inf) if Logits.size else Logits
    softmax = np.exp(shifted)
    total = summed(softmax, axis, True)
    softmax /= total
    if soft_label:
        return softmax, _chosen(shifted - np.log(total), Label, True, ignore_index, axis)
    loss = _chosen(shifted, Label, False, ignore_index, axis)
    return softmax, np.where(Label == ignore_index, loss, loss + np.log(total))


@grad_kernel("softmax_with_cross_entropy")
def _fast_softmax_grad(inputs: Inputs, attrs: Mapping[str, Any], wanted: Sequence[str]) -> Outputs:
    """Hard labels through the softmax: one product, and one subtraction for each label."""
    row = lookup("softmax_with_cross_entropy_grad")
    assert isinstance(row, GradOpDef)
    usual = row.attr("use_softmax", attrs) and not row.attr("soft_label", attrs) and not inputs.get("Softmax" + GRAD)
    if not usual or list(wanted) != ["Logits" + GRAD]:
        return row.meaning(inputs, attrs, wanted)
    label, softmax = inputs["Label"][0], inputs["Softmax"][0]
    axis, ignore_index = row.attr("axis", attrs), row.attr("ignore_index", attrs)
    weight = np.where(label == ignore_index, softmax.dtype.type(0), inputs["Loss" + GRAD][0])
    cotangent = softmax * weight
    cotangent[at(_checked(label, softmax.shape[axis], ignore_index), axis)] -= weight
    return {"Logits" + GRAD: [cotangent]}
