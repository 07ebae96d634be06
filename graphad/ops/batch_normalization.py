"""Normalization of every channel over the batch, or by running statistics.

The rules compute the moments from X again. Running statistics they read as MeanOut and VarianceOut, which equal Mean and
Variance where they are used, because programs write the outputs over the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.attributes import attributes
from graphad.ops.basic import fill_zeros_like, reshape_like, sum_like
from graphad.ops.definition import GRAD, Array, GradOpDef, Inputs, Outputs, Tensor, grad_kernel, lookup, operator
from graphad.ops.elementwise import elementwise_mul, elementwise_sub
from graphad.ops.moments import affine, check_vectors, fast_through_moments, moments, through_moments, times, total
from graphad.ops.summation import summed
from graphad.ops.unary import rsqrt
from graphad.types import TensorType


@dataclass(eq=False, repr=False)
class BatchNorm:
    """The attributes of batch_norm."""

    epsilon: float = 1e-5
    momentum: float = 0.9
    is_test: bool = False
    data_layout: str = "NCHW"
    use_global_stats: bool = False
    trainable_statistics: bool = False

    @property
    def fixed(self) -> bool:
        """Whether X is normalized by the running statistics instead of its own."""
        return self.use_global_stats or (self.is_test and not self.trainable_statistics)

    def axis(self, rank: int) -> int:
        """The axis of the channels."""
        return rank - 1 if self.data_layout == "NHWC" else 1

    def dim(self, rank: int) -> tuple[int, ...]:
        """All other axes."""
        return tuple(i for i in range(rank) if i != self.axis(rank))


def _batch_norm_type(
    X: TensorType, Scale: TensorType, Bias: TensorType, Mean: TensorType, Variance: TensorType, **attrs: Any
) -> tuple[TensorType, ...]:
    norm = BatchNorm(**attrs)
    if len(X.shape) < 2 or norm.data_layout not in ("NCHW", "NHWC", "AnyLayout"):
        raise ShapeError(f"X is {X}, data_layout={norm.data_layout!r}: axes of samples and channels in NCHW or NHWC are expected")
    channels = X.shape[norm.axis(len(X.shape))]
    check_vectors(X, channels, Scale=Scale, Bias=Bias, Mean=Mean, Variance=Variance)
    vector = TensorType((channels,), X.dtype)
    return X, vector, vector, vector, vector, TensorType((0,), X.dtype)


# -- cotangents ----------------------------------------------------------------------------------


def _hat(X: Tensor, Mean: Tensor, Variance: Tensor, norm: BatchNorm) -> Tensor:
    """X normalized, in a test by the running statistics."""
    axis = norm.axis(X.ndim)
    if norm.fixed:
        return elementwise_mul(elementwise_sub(X, Mean, axis=axis), rsqrt(Variance + norm.epsilon), axis=axis)
    m = moments(X, norm.dim(X.ndim), norm.epsilon)
    return m.centered * m.inverse


@attributes(BatchNorm)
def _x_grad(
    X: Tensor,
    Scale: Tensor,
    VarianceOut: Tensor,
    dY: Tensor,
    SavedMean: Tensor = None,
    SavedVariance: Tensor = None,
    dMeanOut: Tensor = None,
    dVarianceOut: Tensor = None,
    dSavedMean: Tensor = None,
    dSavedVariance: Tensor = None,
    **attrs: Any,
) -> Tensor:
    norm = BatchNorm(**attrs)
    axis, dim = norm.axis(X.ndim), norm.dim(X.ndim)
    if norm.fixed:
        return elementwise_mul(dY, Scale * rsqrt(VarianceOut + norm.epsilon), axis=axis)
    m, moved = moments(X, dim, norm.epsilon), 1.0 - norm.momentum
    d_mean = total(dSavedMean, times(dMeanOut, moved))
    d_variance = times(dVarianceOut, moved)
    if dSavedVariance is not None:
        d_variance = total(_through_inverse(reshape_like(m.inverse, Scale), dSavedVariance), d_variance)
    return through_moments(elementwise_mul(dY, Scale, axis=axis), m, dim, d_mean, d_variance)


def _through_inverse(inverse: Tensor, d: Tensor) -> Tensor:
    """The cotangent of a variance from that of its inverse square root."""
    return d * (inverse * inverse * inverse) * -0.5


@attributes(BatchNorm)
def _scale_grad(
    X: Tensor,
    Scale: Tensor,
    MeanOut: Tensor,
    VarianceOut: Tensor,
    dY: Tensor,
    SavedMean: Tensor = None,
    SavedVariance: Tensor = None,
    **attrs: Any,
) -> Tensor:
    norm = BatchNorm(**attrs)
    return sum_like(dY * _hat(X, MeanOut, VarianceOut, norm), Scale, axis=norm.axis(X.ndim))


@attributes(BatchNorm)
def _bias_grad(X: Tensor, Bias: Tensor, dY: Tensor, **attrs: Any) -> Tensor:
    return sum_like(dY, Bias, axis=BatchNorm(**attrs).axis(X.ndim))


@attributes(BatchNorm)
def _mean_grad(
    X: Tensor,
    Scale: Tensor,
    MeanOut: Tensor,
    VarianceOut: Tensor,
    dY: Tensor,
    dMeanOut: Tensor = None,
    dSavedMean: Tensor = None,
    **attrs: Any,
) -> Tensor:
    norm = BatchNorm(**attrs)
    if not norm.fixed:
        return fill_zeros_like(MeanOut) if dMeanOut is None else dMeanOut * norm.momentum
    inverse = rsqrt(VarianceOut + norm.epsilon)
    return total(-(sum_like(dY, MeanOut, axis=norm.axis(X.ndim)) * Scale * inverse), dMeanOut, dSavedMean)


@attributes(BatchNorm)
def _variance_grad(
    X: Tensor,
    Scale: Tensor,
    MeanOut: Tensor,
    VarianceOut: Tensor,
    dY: Tensor,
    dVarianceOut: Tensor = None,
    dSavedVariance: Tensor = None,
    **attrs: Any,
) -> Tensor:
    norm = BatchNorm(**attrs)
    if not norm.fixed:
        return fill_zeros_like(VarianceOut) if dVarianceOut is None else dVarianceOut * norm.momentum
    axis = norm.axis(X.ndim)
    weighted = sum_like(dY * elementwise_sub(X, MeanOut, axis=axis), VarianceOut, axis=axis) * Scale
    return total(_through_inverse(rsqrt(VarianceOut + norm.epsilon), total(weighted, dSavedVariance)), dVarianceOut)


# -- the operator --------------------------------------------------------------------------------


_SIGNATURE = "X Scale Bias Mean Variance -> Y MeanOut VarianceOut SavedMean SavedVariance ReserveSpace?"
_GRAD: dict[str, Callable[..., Tensor]] = {
    "X": _x_grad,
    "Scale": _scale_grad,
    "Bias": _bias_grad,
    "Mean": _mean_grad,
    "Variance": _variance_grad,
}


@operator(_SIGNATURE, infer=_batch_norm_type, grad=_GRAD, flops=8)
@attributes(BatchNorm)
def batch_norm(X: Array, Scale: Array, Bias: Array, Mean: Array, Variance: Array, **attrs: Any) -> tuple[Array, ...]:
    """Every channel normalized over the batch, or in a test by the running statistics Mean and Variance.

    MeanOut and VarianceOut are the running statistics moved towards the batch's by ``1 - momentum`` (in a test, not moved),
    SavedMean is the mean used and SavedVariance the inverse of the standard deviation used.
    """
    norm, reserve = BatchNorm(**attrs), np.empty(0, X.dtype)
    if norm.fixed:
        y = affine(_hat(X, Mean, Variance, norm), Scale, Bias, norm.axis(X.ndim))
        return y, Mean, Variance, Mean, 1 / np.sqrt(Variance + norm.epsilon), reserve
    m = moments(X, norm.dim(X.ndim), norm.epsilon)
    y = m.centered * (m.inverse * Scale.reshape(m.mean.shape))
    y += Bias.reshape(m.mean.shape)
    mean, variance = m.mean.reshape(-1), m.variance.reshape(-1)
    kept, moved = norm.momentum, 1 - norm.momentum
    return y, kept * Mean + moved * mean, kept * Variance + moved * variance, mean, m.inverse.reshape(-1), reserve


sync_batch_norm = operator(_SIGNATURE, name="sync_batch_norm", infer=_batch_norm_type, grad=_GRAD)(batch_norm.kernel)


@grad_kernel("sync_batch_norm")
@grad_kernel("batch_norm")
def _fast_grad(inputs: Inputs, attrs: Mapping[str, Any], wanted: Sequence[str]) -> Outputs:
    """In training, from the saved moments, where nothing but Y has a cotangent."""
    row, norm = lookup("batch_norm_grad"), BatchNorm(**attrs)
    assert isinstance(row, GradOpDef)
    saved = inputs.get("SavedMean") and inputs.get("SavedVariance")
    others = any(inputs.get(s + GRAD) for s in ("MeanOut", "VarianceOut", "SavedMean", "SavedVariance"))
    if norm.fixed or not saved or others or not set(wanted) <= {"X" + GRAD, "Scale" + GRAD, "Bias" + GRAD}:
        return row.meaning(inputs, attrs, wanted)
    X, dY = inputs["X"][0], inputs["Y" + GRAD][0]
    dim, wide = norm.dim(X.ndim), tuple(-1 if i == norm.axis(X.ndim) else 1 for i in range(X.ndim))
    mean, inverse = (inputs[s][0].reshape(wide) for s in ("SavedMean", "SavedVariance"))
    hat = (X - mean) * inverse
    return {slot: [_fast_cotangent(slot, hat, inverse, dY, inputs, dim)] for slot in wanted}


def _fast_cotangent(slot: str, hat: Array, inverse: Array, dY: Array, inputs: Inputs, dim: tuple[int, ...]) -> Array:
    if slot == "Bias" + GRAD:
        return summed(dY, dim)
    if slot == "Scale" + GRAD:
        return summed(dY * hat, dim)
    return fast_through_moments(dY * inputs["Scale"][0].reshape(inverse.shape), hat, inverse, dim)
