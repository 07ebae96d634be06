"""Normalizations: of a batch, a layer, a group, an instance, of neighboring channels, and to the length one."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.attributes import attributes
from graphad.ops.casting import cast
from graphad.ops.conv import channel_axis
from graphad.ops.definition import GRAD, GradOpDef, Inputs, Outputs, grad_kernel, lookup, operator
from graphad.ops.dimensions import batch_normalized, layer_normalized
from graphad.ops.elementwise import elementwise_add, elementwise_mul, elementwise_sub, pow_, rsqrt, sqrt
from graphad.ops.formulas import Tracer, as_array
from graphad.ops.inference import matched, normal_axis, same_dtypes, same_float
from graphad.ops.like import fill_zeros_like, reshape_like, sum_like
from graphad.ops.reduction import reduce_mean, reduce_sum
from graphad.ops.rows import (
    as_rows,
    inverse_root,
    many,
    many_short,
    normalized_channels,
    normalized_rows,
    through_channels,
    through_rows,
)
from graphad.ops.shapes import reshape, size
from graphad.ops.summation import power_norm, summed
from graphad.ops.windows import check_images
from graphad.types import Array, Shape, Tensor, TensorType, dtype_name, element_count

# -- mean and variance -----------------------------------------------------------------------------
# Mean and variance over some axes, and what a normalization by them sends back: shared by the normalizations.
#
# Everything but ``fast_through_moments`` is in terms of operators, for arrays and symbols alike.


class Moments(NamedTuple):
    """X less its mean, the mean, the variance and its inverse square root, the axes kept with the extent 1."""

    centered: Any
    mean: Any
    variance: Any
    inverse: Any


def moments(X: Tensor, dim: Sequence[int], epsilon: float) -> Moments:
    """The moments of X over the axes ``dim``; epsilon is added to the variance before its root is taken."""
    mean = reduce_mean(X, dim=list(dim), keep_dim=True)
    deviations = X - mean
    if isinstance(deviations, np.ndarray | Tracer):  # what is compiled computes what is interpreted
        deviations = recentered(typing.cast(Array, deviations), tuple(dim))  # a tracer acts as the array that it stands for
    variance = reduce_mean(deviations * deviations, dim=list(dim), keep_dim=True)
    return Moments(deviations, mean, variance, rsqrt(variance + epsilon))


def recentered(deviations: Array, axes: tuple[int, ...]) -> Array:
    """Center deviations once more, in place: the mean that they were taken from is rounded, of float32 numbers around 10,000 by up to
    5e-4."""
    count = max(math.prod([deviations.shape[axis] for axis in axes]), 1)
    deviations -= as_array(summed(deviations, axes, True) / count, deviations.dtype)
    return deviations


def through_moments(d: Tensor, m: Moments, dim: Sequence[int], d_mean: Tensor = None, d_variance: Tensor = None) -> Tensor:
    """The cotangent of X: d is that of ``centered * inverse``, the others, if given, those of the moments."""
    axes = list(dim)
    hat = m.centered * m.inverse
    # Centering and scaling take away two directions, the constant one and hat's: the cotangent is projected away from both (S. Ioffe and C.
    # Szegedy, 2015, section 3).
    cotangent = (d - reduce_mean(d, dim=axes, keep_dim=True) - hat * reduce_mean(d * hat, dim=axes, keep_dim=True)) * m.inverse
    if d_mean is not None:
        cotangent = cotangent + reshape_like(d_mean, m.mean) * _share(m)
    if d_variance is not None:
        cotangent = cotangent + m.centered * (reshape_like(d_variance, m.mean) * _share(m) * 2.0)
    return cotangent


def _share(m: Moments) -> Tensor:
    """One divided by the number of elements each moment is taken of."""
    dtype = dtype_name(m.mean.dtype)
    return cast(size(m.mean), out_dtype=dtype) / cast(size(m.centered), out_dtype=dtype)


def fast_through_moments(d: Array, hat: Array, inverse: Array, axes: tuple[int, ...]) -> Array:
    """``through_moments`` in as few passes as numpy allows; ``hat`` is ``centered * inverse``."""
    count = max(hat.size // max(inverse.size, 1), 1)
    out = hat * (summed(d * hat, axes, True) / -count)
    out += d
    out -= summed(d, axes, True) / count
    out *= inverse
    return out


def total(*terms: Tensor) -> Tensor:
    """The sum of the terms that are there, None if none is."""
    addends = [t for t in terms if t is not None]
    return sum(addends[1:], addends[0]) if addends else None


def times(cotangent: Tensor, factor: object) -> Tensor:
    """The product, None if there is no cotangent."""
    return None if cotangent is None else cotangent * factor


def affine(X: Tensor, Scale: Tensor, Bias: Tensor, axis: int) -> Tensor:
    """X scaled and shifted along an axis, where scale and shift are given."""
    product = X if Scale is None else elementwise_mul(X, Scale, axis=axis)
    return product if Bias is None else elementwise_add(product, Bias, axis=axis)


def check_vectors(X: TensorType, extent: int, **vectors: TensorType | None) -> None:
    """ShapeError unless X is floating point and the vectors given have X's dtype and the extent."""
    same_dtypes(X=same_float(X), **vectors)
    for name, vector in vectors.items():
        if vector is not None and not (len(vector.shape) == 1 and matched(vector.shape[0], extent)):
            raise ShapeError(f"X is {X} but {name} is {vector}: {extent} values are expected")


# -- batch normalization ---------------------------------------------------------------------------
# Normalization of every channel over the batch, or by running statistics.
#
# The rules compute the moments from X again. Running statistics they read as MeanOut and VarianceOut, which equal Mean and
# Variance where they are used, because programs write the outputs over the inputs.


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
    m, rate = moments(X, dim, norm.epsilon), 1.0 - norm.momentum
    d_mean = total(dSavedMean, times(dMeanOut, rate))
    d_variance = times(dVarianceOut, rate)
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
    product = sum_like(dY * elementwise_sub(X, MeanOut, axis=axis), VarianceOut, axis=axis) * Scale
    return total(_through_inverse(rsqrt(VarianceOut + norm.epsilon), total(product, dSavedVariance)), dVarianceOut)


# -- the operator --------------------------------------------------------------------------------


_SIGNATURE = "X Scale Bias Mean Variance -> Y MeanOut VarianceOut SavedMean SavedVariance ReserveSpace?"
_STATISTICS = "MeanOut VarianceOut SavedMean SavedVariance"
_GRAD: dict[str, Callable[..., Tensor]] = {
    "X": _x_grad,
    "Scale": _scale_grad,
    "Bias": _bias_grad,
    "Mean": _mean_grad,
    "Variance": _variance_grad,
}


def _is_fixed(attrs: Mapping[str, Any]) -> bool:
    return BatchNorm(**attrs).fixed


@operator(
    _SIGNATURE, infer=_batch_norm_type, grad=_GRAD, flops=8, rows="X", apart=_is_fixed, statistics=_STATISTICS, dimensions=batch_normalized
)
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
    length = math.prod(X.shape[2:])
    if norm.axis(X.ndim) == 1 and many(X, length):
        y, (mean, variance, inverse) = normalized_channels(as_rows(X, *X.shape[:2], length), Scale, Bias, norm.epsilon)
        y = y.reshape(X.shape)
    else:
        m = moments(X, norm.dim(X.ndim), norm.epsilon)
        y = m.centered
        y *= m.inverse * Scale.reshape(m.mean.shape)
        y += Bias.reshape(m.mean.shape)
        mean, variance, inverse = m.mean.reshape(-1), m.variance.reshape(-1), m.inverse.reshape(-1)
    # Paddle's momentum is the share of the old statistics; PyTorch's is that of the new ones.
    momentum, rate = norm.momentum, 1 - norm.momentum
    return y, momentum * Mean + rate * mean, momentum * Variance + rate * variance, mean, inverse, reserve


sync_batch_norm = operator(_SIGNATURE, name="sync_batch_norm", infer=_batch_norm_type, grad=_GRAD)(batch_norm.kernel)


@grad_kernel("sync_batch_norm")
@grad_kernel("batch_norm")
def _fast_grad(inputs: Inputs, attrs: Mapping[str, Any], slots: Sequence[str]) -> Outputs:
    """The cotangents in training from the saved moments, where nothing but Y has a cotangent."""
    definition, norm = lookup("batch_norm_grad"), BatchNorm(**attrs)
    assert isinstance(definition, GradOpDef)
    # The rule computes the moments again from X; with those that were saved it needs fewer passes over X.
    has_saved_moments = inputs.get("SavedMean") and inputs.get("SavedVariance")
    has_more_cotangents = any(inputs.get(s + GRAD) for s in ("MeanOut", "VarianceOut", "SavedMean", "SavedVariance"))
    if norm.fixed or not has_saved_moments or has_more_cotangents or not set(slots) <= {"X" + GRAD, "Scale" + GRAD, "Bias" + GRAD}:
        return definition.meaning(inputs, attrs, slots)
    X, dY = inputs["X"][0], inputs["Y" + GRAD][0]
    length = math.prod(X.shape[2:])
    if norm.axis(X.ndim) == 1 and many_short(X, length):
        x, d = (as_rows(array, *X.shape[:2], length) for array in (X, dY))
        grad = through_channels(x, d, *(inputs[slot][0] for slot in ("SavedMean", "SavedVariance", "Scale")))
        results = {"X" + GRAD: grad.x.reshape(X.shape), "Scale" + GRAD: grad.scale, "Bias" + GRAD: grad.bias}
        return {slot: [results[slot]] for slot in slots}
    dim, wide = norm.dim(X.ndim), tuple(-1 if i == norm.axis(X.ndim) else 1 for i in range(X.ndim))
    mean, inverse = (inputs[s][0].reshape(wide) for s in ("SavedMean", "SavedVariance"))
    hat = recentered(X - mean, dim)
    hat *= inverse
    return {slot: [_fast_cotangent(slot, hat, inverse, dY, inputs, dim)] for slot in slots}


def _fast_cotangent(slot: str, hat: Array, inverse: Array, dY: Array, inputs: Inputs, dim: tuple[int, ...]) -> Array:
    if slot == "Bias" + GRAD:
        return summed(dY, dim)
    if slot == "Scale" + GRAD:
        return summed(dY * hat, dim)
    return fast_through_moments(dY * inputs["Scale"][0].reshape(inverse.shape), hat, inverse, dim)


# -- neighboring channels --------------------------------------------------------------------------
# Local response normalization (Krizhevsky et al. 2012) over neighboring channels.


def _window_type(X: TensorType, *, n: int, axis: int = 1) -> TensorType:
    if n < 1 or n % 2 == 0:
        raise ShapeError(f"n={n}: an odd number above 0 is expected")
    normal_axis(axis, len(X.shape))
    return X


@operator("X -> Out", infer=_window_type, grad={"X": lambda dOut, *, n, axis: window_sum(dOut, n=n, axis=axis)}, linear="X")
def window_sum(X: Array, *, n: int, axis: int = 1) -> Array:
    """The sum of every element and its ``n - 1`` nearest neighbors along an axis: its own transpose."""
    x, out = np.moveaxis(X, axis, 0), np.array(X, order="C")
    into = np.moveaxis(out, axis, 0)
    for step in range(1, min(n // 2, len(x) - 1) + 1):
        # Symmetric, so that it is its own transpose, and its gradient.
        into[step:] += x[:-step]
        into[:-step] += x[step:]
    return out


def _lrn_type(
    X: TensorType,
    *,
    n: int = 5,
    k: float = 2.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
    data_format: str = "AnyLayout",
    is_test: bool = False,
) -> tuple[TensorType, TensorType]:
    check_images(data_format, X=same_float(X))
    if min(k, alpha, beta) <= 0:
        raise ShapeError(f"k={k}, alpha={alpha}, beta={beta}: numbers above 0 are expected")
    _window_type(X, n=n)
    return X, X


def _lrn_grad(
    X: Tensor, MidOut: Tensor, dOut: Tensor = None, dMidOut: Tensor = None, *, n: int, alpha: float, beta: float, data_format: str
) -> Tensor:
    direct, through = None, dMidOut
    if dOut is not None:
        # Out = X * MidOut^-beta: X itself, and X through the sum over channels in MidOut.
        direct = dOut * pow_(MidOut, factor=-beta)
        share = direct * X / MidOut * -beta
        through = share if through is None else through + share
    window_share = window_sum(through, n=n, axis=channel_axis(data_format) % 4) * X * (2.0 * alpha)
    return window_share if direct is None else direct + window_share


@operator("X -> Out MidOut", infer=_lrn_type, grad={"X": _lrn_grad}, rows="X")
def lrn(
    X: Array,
    *,
    n: int = 5,
    k: float = 2.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
    data_format: str = "AnyLayout",
    is_test: bool = False,
) -> tuple[Array, Array]:
    """X divided by MidOut to the power ``beta``; MidOut is ``k`` plus ``alpha`` times the squares of ``n`` neighboring channels."""
    squares = window_sum.kernel(np.square(X), n=n, axis=channel_axis(data_format) % 4)
    middle = as_array(squares * X.dtype.type(alpha) + X.dtype.type(k))
    return as_array(X * middle ** X.dtype.type(-beta)), middle


# -- normalization ---------------------------------------------------------------------------------
# Normalizations of one sample: X less its mean, divided by its standard deviation, scaled and shifted.
#
# layer_norm takes the moments over the last axes, instance_norm over the spatial ones, group_norm over the
# spatial ones and a group of channels. The rules compute the moments from X again, so they hold at any order.

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
    dimensions=layer_normalized,
)
def layer_norm(
    X: Array, Scale: Array | None = None, Bias: Array | None = None, *, epsilon: float = 1e-5, begin_norm_axis: int = 1
) -> tuple[Array, Array, Array]:
    """Every row normalized, a row being the axes from ``begin_norm_axis`` on; Mean and Variance have one element for each row."""
    length = math.prod(X.shape[begin_norm_axis:])
    if many(X, length):
        return _layers_in_tiles(as_rows(X, -1, length), Scale, Bias, epsilon, X.shape, begin_norm_axis)
    m = moments(X, _last(X, begin_norm_axis), epsilon)
    # In place: the centered elements are used for nothing else.
    # (x - mean) * inverse * scale + bias, in the memory of x - mean.
    y = m.centered
    y *= m.inverse
    if Scale is not None:
        y *= Scale.reshape(X.shape[begin_norm_axis:])
    if Bias is not None:
        y += Bias.reshape(X.shape[begin_norm_axis:])
    rows = X.shape[:begin_norm_axis]
    return y, m.mean.reshape(rows), m.variance.reshape(rows)


def _layers_in_tiles(
    x: Array, Scale: Array | None, Bias: Array | None, epsilon: float, shape: Shape, begin: int
) -> tuple[Array, Array, Array]:
    """``layer_norm`` of ``[rows, n]``."""
    scale, bias = (None if vector is None else vector.reshape(-1) for vector in (Scale, Bias))
    y, mean, variance = normalized_rows(x, scale, bias, epsilon)
    return y.reshape(shape), mean.reshape(shape[:begin]), variance.reshape(shape[:begin])


@grad_kernel("layer_norm")
def _fast_layer_grad(inputs: Inputs, attrs: Mapping[str, object], slots: Sequence[str]) -> Outputs:
    """The cotangents from the moments of the forward operator, where nothing but Y has a cotangent."""
    definition = lookup("layer_norm_grad")
    assert isinstance(definition, GradOpDef)
    # The moments were computed by the forward operator; where they have cotangents of their own, the general rule adds those.
    if inputs.get("Mean" + GRAD) or inputs.get("Variance" + GRAD) or not (inputs.get("Mean") and inputs.get("Variance")):
        return definition.meaning(inputs, attrs, slots)
    X, begin = inputs["X"][0], definition.attr("begin_norm_axis", attrs)
    length = math.prod(X.shape[begin:])
    if many_short(X, length):
        return _layer_grad_in_tiles(inputs, length, definition.attr("epsilon", attrs), slots)
    rows = X.shape[:begin] + (1,) * (X.ndim - begin)
    inverse = 1 / np.sqrt(inputs["Variance"][0].reshape(rows) + definition.attr("epsilon", attrs))
    hat = recentered(X - inputs["Mean"][0].reshape(rows), tuple(range(begin, X.ndim)))
    hat *= inverse
    return {slot: [_fast_layer_cotangent(slot, hat, inverse, inputs, begin)] for slot in slots}


def _layer_grad_in_tiles(inputs: Inputs, length: int, epsilon: float, slots: Sequence[str]) -> Outputs:
    X, scale = inputs["X"][0], inputs.get("Scale")
    x, d = as_rows(X, -1, length), as_rows(inputs["Y" + GRAD][0], -1, length)
    mean, variance = (inputs[slot][0].reshape(-1) for slot in ("Mean", "Variance"))
    grad = through_rows(x, d, mean, inverse_root(variance, epsilon, X.dtype), scale[0] if scale else None)
    results = {"X" + GRAD: grad.x.reshape(X.shape), "Scale" + GRAD: grad.scale, "Bias" + GRAD: grad.bias}
    return {slot: [results[slot]] for slot in slots}


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


def _instance_bias_grad(dY: Tensor, Bias: Tensor = None) -> Tensor:
    """Paddle's programs leave the bias itself out."""
    return reduce_sum(dY, dim=[0, *range(2, dY.ndim)]) if Bias is None else sum_like(dY, Bias, axis=1)


@operator(
    "X Scale? Bias? -> Y SavedMean SavedVariance",
    infer=_instance_norm_type,
    grad={"X": _instance_x_grad, "Scale": _instance_scale_grad, "Bias": _instance_bias_grad},
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
    m = moments(X.reshape(len(X), groups, math.prod(X.shape[1:]) // groups), (2,), epsilon)
    shape = (len(X), groups)
    return affine((m.centered * m.inverse).reshape(X.shape), Scale, Bias, 1), m.mean.reshape(shape), m.variance.reshape(shape)


# -- to the length one -----------------------------------------------------------------------------
# Running logarithms of sums of exponentials, and slices scaled to the length one.


def _unit_types(X: TensorType, *, axis: int, **_: object) -> tuple[TensorType, TensorType]:
    if not X.shape:
        raise ShapeError(f"X is {X}; at least one axis is expected")
    at = normal_axis(axis, len(X.shape))
    return same_float(X), TensorType((*X.shape[:at], 1, *X.shape[at + 1 :]), X.dtype)


def _unit_grad(X: Tensor, Out: Tensor, dOut: Tensor, Norm: Tensor = None, dNorm: Tensor = None, *, axis: int, epsilon: float) -> Tensor:
    """The length is computed again where the operator does not write it."""
    length = sqrt(reduce_sum(X * X, dim=[axis], keep_dim=True) + epsilon) if Norm is None else Norm
    grad = (dOut - Out * reduce_sum(dOut * Out, dim=[axis], keep_dim=True)) / length
    return grad if dNorm is None else grad + Out * dNorm


@operator("X -> Out Norm?", infer=_unit_types, grad={"X": _unit_grad})
def norm(X: Array, *, axis: int, epsilon: float = 1e-10, is_test: bool = False) -> tuple[Array, Array]:
    """X divided by Norm, the root of the sum of its squares along ``axis`` and ``epsilon``."""
    length = np.hypot(power_norm(X, (axis % X.ndim,), True), X.dtype.type(math.sqrt(epsilon)))
    return as_array(X / length), length
