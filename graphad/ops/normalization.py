"""Normalizations of one sample: X less its mean, divided by its standard deviation, scaled and shifted.

layer_norm takes the moments over the last axes, instance_norm over the spatial ones, group_norm over the
spatial ones and a group of channels. The rules compute the moments from X again, so they hold at any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.basic import reshape_like, sum_like
from graphad.ops.definition import GRAD, Array, GradOpDef, Inputs, Outputs, Tensor, grad_kernel, lookup, operator
from graphad.ops.moments import Moments, affine, check_vectors, fast_through_moments, moments, through_moments
from graphad.ops.shapes import reshape
from graphad.ops.summation import summed
from graphad.types import TensorType, element_count

# -- layer_norm ----------------------------------------------------------------------------------


def _layer_norm_type(
    X: TensorType, Scale: TensorType | None = None, Bias: TensorType | None = None, *, epsilon: float = 1e-5, begin_norm_axis: int = 1
) -> tuple[TensorType, TensorType, TensorType]:
    if not 0 < begin_norm_axis < len(X.shape):
        raise ShapeError(f"X is {X}: begin_norm_axis={begin_norm_axis} must leave axes on both of its sides")
    check_vectors(X, element_count(X.shape[begin_norm_axis:]), Scale=Scale, Bias=Bias)
    rows = TensorType(X.shape[:begin_norm_axis], X.dtype)
    return X, rows, rows


def _last(X: Tensor, begin: int) -> tuple[int, ...]:
    return tuple(range(begin, X.ndim))


def _layer_x_grad(
    X: Tensor,
    Scale: Tensor,
    dY: Tensor,
    Mean: Tensor = None,
    Variance: Tensor = None,
    dMean: Tensor = None,
    dVariance: Tensor = None,
    *,
    epsilon: float,
    begin_norm_axis: int,
) -> Tensor:
    dim = _last(X, begin_norm_axis)
    d = dY if Scale is None else dY * reshape_like(Scale, X, skip=begin_norm_axis)
    return through_moments(d, moments(X, dim, epsilon), dim, dMean, dVariance)


def _layer_scale_grad(X: Tensor, Scale: Tensor, dY: Tensor, *, epsilon: float, begin_norm_axis: int) -> Tensor:
    m = moments(X, _last(X, begin_norm_axis), epsilon)
    wide = reshape_like(Scale, X, skip=begin_norm_axis)
    return reshape_like(sum_like(dY * (m.centered * m.inverse), wide), Scale)


def _layer_bias_grad(X: Tensor, Bias: Tensor, dY: Tensor, *, begin_norm_axis: int) -> Tensor:
    return reshape_like(sum_like(dY, reshape_like(Bias, X, skip=begin_norm_axis)), Bias)


@operator(
    "X Scale? Bias? -> Y Mean Variance",
    infer=_layer_norm_type,
    grad={"X": _layer_x_grad, "Scale": _layer_scale_grad, "Bias": _layer_bias_grad},
    speculatable="extents",
    rows="X",
    along="begin_norm_axis",
    own=True,
    flops=8,
)
def layer_norm(
    X: Array, Scale: Array | None = None, Bias: Array | None = None, *, epsilon: float = 1e-5, begin_norm_axis: int = 1
) -> tuple[Array, Array, Array]:
    """Every row normalized, a row being the axes from ``begin_norm_axis`` on; Mean and Variance have one element for each row."""
    m = moments(X, _last(X, begin_norm_axis), epsilon)
    y = m.centered * m.inverse
    if Scale is not None:
        y *= Scale.reshape(X.shape[begin_norm_axis:])
    if Bias is not None:
        y += Bias.reshape(X.shape[begin_norm_axis:])
    rows = X.shape[:begin_norm_axis]
    return y, m.mean.reshape(rows), m.variance.reshape(rows)


@grad_kernel("layer_norm")
def _fast_layer_grad(inputs: Inputs, attrs: Mapping[str, Any], wanted: Sequence[str]) -> Outputs:
    """From the moments of the forward operator, where nothing but Y has a cotangent."""
    row = lookup("layer_norm_grad")
    assert isinstance(row, GradOpDef)
    if inputs.get("Mean" + GRAD) or inputs.get("Variance" + GRAD) or not (inputs.get("Mean") and inputs.get("Variance")):
        return row.meaning(inputs, attrs, wanted)
    X, begin = inputs["X"][0], row.attr("begin_norm_axis", attrs)
    rows = X.shape[:begin] + (1,) * (X.ndim - begin)
    inverse = 1 / np.sqrt(inputs["Variance"][0].reshape(rows) + row.attr("epsilon", attrs))
    hat = (X - inputs["Mean"][0].reshape(rows)) * inverse
    return {slot: [_fast_layer_cotangent(slot, hat, inverse, inputs, begin)] for slot in wanted}


def _fast_layer_cotangent(slot: str, hat: Array, inverse: Array, inputs: Inputs, begin: int) -> Array:
    dY, first = inputs["Y" + GRAD][0], tuple(range(begin))
    if slot == "Bias" + GRAD:
        return summed(dY, first).reshape(-1)
    if slot == "Scale" + GRAD:
        return summed(dY * hat, first).reshape(-1)
    scale = inputs.get("Scale")
    d = dY * scale[0].reshape(hat.shape[begin:]) if scale else dY
    return fast_through_moments(d, hat, inverse, tuple(range(begin, hat.ndim)))


# -- instance_norm -------------------------------------------------------------------------------


def _instance_norm_type(
    X: TensorType, Scale: TensorType | None = None, Bias: TensorType | None = None, *, epsilon: float = 1e-5
) -> tuple[TensorType, TensorType, TensorType]:
    if len(X.shape) < 3:
        raise ShapeError(f"X is {X}; samples, channels and a spatial axis are expected")
    check_vectors(X, X.shape[1], Scale=Scale, Bias=Bias)
    planes = TensorType((element_count(X.shape[:2]),), X.dtype)
    return X, planes, planes


def _instance_x_grad(
    X: Tensor, Scale: Tensor, dY: Tensor, dSavedMean: Tensor = None, dSavedVariance: Tensor = None, *, epsilon: float
) -> Tensor:
    m, d = moments(X, _last(X, 2), epsilon), affine(dY, Scale, None, 1)
    d_variance = None
    if dSavedVariance is not None:
        d_variance = reshape_like(dSavedVariance, m.mean) * (m.inverse * m.inverse * m.inverse) * -0.5
    return through_moments(d, m, _last(X, 2), dSavedMean, d_variance)


def _instance_scale_grad(X: Tensor, Scale: Tensor, dY: Tensor, *, epsilon: float) -> Tensor:
    m = moments(X, _last(X, 2), epsilon)
    return sum_like(dY * (m.centered * m.inverse), Scale, axis=1)


@operator(
    "X Scale? Bias? -> Y SavedMean SavedVariance",
    infer=_instance_norm_type,
    grad={"X": _instance_x_grad, "Scale": _instance_scale_grad, "Bias": lambda Bias, dY: sum_like(dY, Bias, axis=1)},
    rows="X",
    flops=8,
)
def instance_norm(X: Array, Scale: Array | None = None, Bias: Array | None = None, *, epsilon: float = 1e-5) -> tuple[Array, Array, Array]:
    """Every channel of every sample normalized; SavedVariance is the inverse of the standard deviation."""
    m = moments(X, _last(X, 2), epsilon)
    return affine(m.centered * m.inverse, Scale, Bias, 1), m.mean.reshape(-1), m.inverse.reshape(-1)


# -- group_norm ----------------------------------------------------------------------------------


def _group_norm_type(
    X: TensorType,
    Scale: TensorType | None = None,
    Bias: TensorType | None = None,
    *,
    groups: int,
    epsilon: float = 1e-5,
    data_layout: str = "NCHW",
) -> tuple[TensorType, TensorType, TensorType]:
    if len(X.shape) < 2 or data_layout not in ("NCHW", "AnyLayout"):
        raise ShapeError(f"X is {X}, data_layout={data_layout!r}: axes of samples and channels in NCHW are expected")
    if groups < 1 or (X.shape[1] != -1 and X.shape[1] % groups):
        raise ShapeError(f"X is {X}: its channels do not divide into groups={groups}")
    check_vectors(X, X.shape[1], Scale=Scale, Bias=Bias)
    rows = TensorType((X.shape[0], groups), X.dtype)
    return X, rows, rows


def _grouped(X: Tensor, groups: int, epsilon: float) -> Moments:
    return moments(reshape(X, shape=[0, groups, -1]), (2,), epsilon)


def _group_x_grad(
    X: Tensor, Scale: Tensor, dY: Tensor, dMean: Tensor = None, dVariance: Tensor = None, *, groups: int, epsilon: float
) -> Tensor:
    m = _grouped(X, groups, epsilon)
    d = reshape_like(affine(dY, Scale, None, 1), m.centered)
    return reshape_like(through_moments(d, m, (2,), dMean, dVariance), X)


def _group_scale_grad(X: Tensor, Scale: Tensor, dY: Tensor, *, groups: int, epsilon: float) -> Tensor:
    m = _grouped(X, groups, epsilon)
    return sum_like(dY * reshape_like(m.centered * m.inverse, X), Scale, axis=1)


@operator(
    "X Scale? Bias? -> Y Mean Variance",
    infer=_group_norm_type,
    grad={"X": _group_x_grad, "Scale": _group_scale_grad, "Bias": lambda Bias, dY: sum_like(dY, Bias, axis=1)},
    rows="X",
    flops=8,
)
def group_norm(
    X: Array,
    Scale: Array | None = None,
    Bias: Array | None = None,
    *,
    groups: int,
    epsilon: float = 1e-5,
    data_layout: str = "NCHW",
) -> tuple[Array, Array, Array]:
    """Every group of channels of every sample normalized; Mean and Variance are ``[N, groups]``."""
    m = _grouped(X, groups, epsilon)
    shape = (len(X), groups)
    return affine((m.centered * m.inverse).reshape(X.shape), Scale, Bias, 1), m.mean.reshape(shape), m.variance.reshape(shape)
