"""Activations: elementwise functions of one input with attributes, softmax, prelu, maxout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.casting import as_mask
from graphad.ops.definition import GRAD, Attr, GradOpDef, Inputs, Outputs, grad_kernel, lookup, operator
from graphad.ops.dimensions import along_axis
from graphad.ops.elementwise import abs_, between, erf, exp, square, tanh
from graphad.ops.formulas import as_array, like
from graphad.ops.indexing import put_along_axis
from graphad.ops.inference import aligned, normal_axis, same, same_dtypes, same_float
from graphad.ops.like import fill_zeros_like, unbroadcast
from graphad.ops.makers import unary
from graphad.ops.parameters import Parameter, declare
from graphad.ops.reduction import reduce_sum
from graphad.ops.rows import as_rows, in_tiles, many_short, softmax_rows, softmax_rows_grad
from graphad.ops.selection import where
from graphad.ops.shapes import wide
from graphad.ops.summation import summed
from graphad.ops.traits import FUNCTION
from graphad.types import Array, Shape, Tensor, TensorType, broadcast_shapes, joined_shape

relu = unary(
    "relu",
    lambda X: np.maximum(X, like(0, X)),
    lambda Out, dOut: dOut * as_mask(Out > 0.0, dOut),
    infer=same,
    uniform=True,
    narrow="follows",
)


# -- activation ------------------------------------------------------------------------------------
# Activations: elementwise functions of one input with attributes, softmax, and prelu.

# -- sigmoids ------------------------------------------------------------------------------------


@operator("X -> Out", infer=same_float, grad={"X": lambda Out, dOut: dOut * (Out * (1.0 - Out))}, **FUNCTION, narrow="follows", flops=4)
def sigmoid(X: Array) -> Tensor:
    """``1 / (1 + exp(-X))``."""
    # exp overflows to infinity far below 0, and 1 / infinity is the 0 that is meant.
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-X))


def _soft_plus(x: Array) -> Tensor:
    # ``log(1 + exp(x))`` without an exponential that overflows.
    return np.maximum(x, like(0, x)) + np.log1p(np.exp(-np.abs(x)))


@operator("X -> Out", infer=same_float, grad={"X": lambda X, dOut: dOut * sigmoid(-X)}, **FUNCTION, own=True, flops=5)
def logsigmoid(X: Array) -> Tensor:
    """The logarithm of the sigmoid."""
    return -_soft_plus(-X)


def _silu_slope(X: Tensor, beta: float = 1.0) -> Tensor:
    s = sigmoid(X * beta)
    # (x s)' = s + x s', with s' = beta s (1 - s).
    return s * (X * (1.0 - s) * beta + 1.0)


@operator("X -> Out", infer=same_float, grad={"X": lambda X, dOut: dOut * _silu_slope(X)}, **FUNCTION, own=True, flops=5)
def silu(X: Array) -> Tensor:
    """``X * sigmoid(X)``."""
    return X * sigmoid.function(X)


@operator("X -> Out", infer=same_float, grad={"X": lambda X, dOut, *, beta: dOut * _silu_slope(X, beta)}, **FUNCTION, own=True, flops=5)
def swish(X: Array, *, beta: float = 1.0) -> Tensor:
    """``X * sigmoid(beta * X)``."""
    return X * sigmoid.function(X * like(beta, X))


@operator(
    "X -> Out",
    infer=same_float,
    grad={"X": lambda Out, dOut, *, slope: dOut * between(Out, 0.0, 1.0, dOut) * slope},
    **FUNCTION,
    own=True,
    narrow="follows",
    flops=4,
)
def hard_sigmoid(X: Array, *, slope: float = 0.2, offset: float = 0.5) -> Tensor:
    """``slope * X + offset`` kept between 0 and 1."""
    return np.minimum(np.maximum(X * slope + offset, 0.0), 1.0)


def _hard_swish_grad(X: Tensor, dOut: Tensor, *, threshold: float, scale: float, offset: float) -> Tensor:
    if threshold <= 0.0:  # the factor is the threshold everywhere
        return dOut * (threshold / scale)
    slope = (X * 2.0 + offset) * (1.0 / scale) * as_mask(X + offset > 0.0, dOut)
    return where(X + offset < threshold, dOut * slope, dOut * (threshold / scale))


@operator("X -> Out", infer=same_float, grad={"X": _hard_swish_grad}, **FUNCTION, own=True, narrow="follows", flops=5)
def hard_swish(X: Array, *, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0) -> Tensor:
    """``X`` times ``X + offset`` kept between 0 and ``threshold``, over ``scale``."""
    return X * np.minimum(np.maximum(X + offset, 0.0), threshold) / scale


def _stanh_grad(X: Tensor, dOut: Tensor, *, scale_a: float, scale_b: float) -> Tensor:
    t = tanh(X * scale_a)
    return dOut * (1.0 - t * t) * (scale_a * scale_b)


@operator("X -> Out", infer=same_float, grad={"X": _stanh_grad}, **FUNCTION, own=True, flops=2)
def stanh(X: Array, *, scale_a: float = 0.67, scale_b: float = 1.7159) -> Tensor:
    """``scale_b * tanh(scale_a * X)``."""
    return np.tanh(X * scale_a) * scale_b


# -- linear where positive -----------------------------------------------------------------------


@operator(
    "X -> Out",
    infer=same_float,
    grad={"X": lambda Out, dOut, *, threshold: dOut * between(Out, 0.0, threshold, dOut)},
    **FUNCTION,
    own=True,
    narrow="follows",
    flops=2,
)
def relu6(X: Array, *, threshold: float = 6.0) -> Tensor:
    """X kept between 0 and ``threshold``."""
    return np.minimum(np.maximum(X, 0.0), threshold)


@operator(
    "X -> Out",
    infer=same_float,
    grad={"X": lambda X, dOut, *, alpha: where(X >= 0.0, dOut, dOut * alpha)},
    **FUNCTION,
    own=True,
    narrow="follows",
    flops=2,
)
def leaky_relu(X: Array, *, alpha: float = 0.02) -> Tensor:
    """X where it is positive, else ``alpha * X``."""
    return np.where(X >= 0, X, X * like(alpha, X))


@operator(
    "X -> Out",
    infer=same_float,
    # alpha exp(X), written with the result that is there.
    grad={"X": lambda X, Out, dOut, *, alpha: where(X > 0.0, dOut, dOut * (Out + alpha))},
    **FUNCTION,
    own=True,
    flops=4,
)
def elu(X: Array, *, alpha: float = 1.0) -> Tensor:
    """X where it is positive, else ``alpha * (exp(X) - 1)``."""
    # The branch that is not chosen is computed as well: without the minimum it would overflow.
    return np.where(X > 0, X, np.expm1(np.minimum(X, 0.0)) * like(alpha, X))


@operator(
    "X -> Out",
    infer=same_float,
    grad={"X": lambda X, Out, dOut, *, scale, alpha: where(X > 0.0, dOut * scale, dOut * (Out + scale * alpha))},
    **FUNCTION,
    own=True,
    flops=5,
)
# G. Klambauer et al., "Self-normalizing neural networks", 2017: with these two numbers mean 0 and variance 1 are a fixed
# point.
def selu(X: Array, *, scale: float = 1.0507009873554805, alpha: float = 1.6732632423543772) -> Tensor:
    """``scale`` times the elu of X."""
    return elu.function(X, alpha=alpha) * scale


def _celu_type(X: TensorType, *, alpha: float = 1.0) -> TensorType:
    if not alpha:
        raise ShapeError("alpha is 0, by which celu divides")
    return same_float(X)


def _celu_grad(X: Tensor, dOut: Tensor, Out: Tensor = None, *, alpha: float) -> Tensor:
    """Paddle's programs leave the result out, which is computed again then."""
    out = celu(X, alpha=alpha) if Out is None else Out
    return where(X > 0.0, dOut, dOut * (out * (1.0 / alpha) + 1.0))


@operator(
    "X -> Out",
    infer=_celu_type,
    grad={"X": _celu_grad},
    **FUNCTION,
    own=True,
    flops=4,
)
def celu(X: Array, *, alpha: float = 1.0) -> Tensor:
    """X where it is positive, else ``alpha * (exp(X / alpha) - 1)``."""
    return np.where(X > 0, X, np.expm1(np.minimum(X, 0.0) / like(alpha, X)) * like(alpha, X))


@operator(
    "X -> Out",
    infer=same_float,
    grad={"X": lambda X, dOut, *, t_min, t_max: dOut * between(X, t_min, t_max, dOut)},
    **FUNCTION,
    own=True,
    flops=2,
)
def brelu(X: Array, *, t_min: float = 0.0, t_max: float = 24.0) -> Tensor:
    """X kept between ``t_min`` and ``t_max``."""
    return np.minimum(np.maximum(X, t_min), t_max)


@operator("X -> Out", infer=same_float, grad={"X": lambda X, dOut, *, threshold: dOut * as_mask(X > threshold, dOut)}, **FUNCTION, own=True)
def thresholded_relu(X: Array, *, threshold: float = 1.0) -> Tensor:
    """X where it is above ``threshold``, else 0."""
    return np.where(X <= threshold, like(0, X), X)


def _hard_shrink_grad(X: Tensor, dOut: Tensor, *, threshold: float) -> Tensor:
    if threshold <= 0.0:  # X everywhere, also at 0
        return dOut
    return dOut * as_mask(abs_(X) > threshold, dOut)


@operator("X -> Out", infer=same_float, grad={"X": _hard_shrink_grad}, **FUNCTION, own=True)
def hard_shrink(X: Array, *, threshold: float = 0.5) -> Tensor:
    """X where its absolute value is above ``threshold``, else 0."""
    return np.where(np.abs(X) <= threshold, like(0, X), X)


def _softshrink_grad(Out: Tensor, dOut: Tensor, **attrs: float) -> Tensor:
    if attrs["lambda"] == 0.0:  # X everywhere, also at 0
        return dOut
    return dOut * as_mask(Out != 0.0, dOut)


_LAMBDA = Parameter("lambda", 0.5, "float", keyword_only=True)  # no name that Python lets a function have
declare(_softshrink_grad, [Parameter("Out"), Parameter("dOut"), _LAMBDA])


@operator("X -> Out", infer=same_float, grad={"X": _softshrink_grad}, **FUNCTION, own=True)
def softshrink(X: Array, **attrs: object) -> Tensor:
    """X moved towards 0 by the attribute ``lambda`` (0.5), 0 where its absolute value is not above it."""
    limit = attrs.get("lambda", 0.5)
    return np.sign(X) * np.maximum(np.abs(X) - limit, 0.0)


softshrink.attrs["lambda"] = Attr("lambda", "float", 0.5)


@operator("X -> Out", infer=same_float, grad={"X": lambda X, dOut: dOut * square(tanh(X))}, **FUNCTION, own=True)
def tanh_shrink(X: Array) -> Tensor:
    """``X - tanh(X)``."""
    return X - np.tanh(X)


# -- smooth rectifiers ---------------------------------------------------------------------------


def _gelu_grad(X: Tensor, dOut: Tensor, *, approximate: bool) -> Tensor:
    if not approximate:
        density = exp(X * X * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))
        return dOut * ((erf(X * math.sqrt(0.5)) + 1.0) * 0.5 + X * density)
    # The approximation's own derivative, not that of the exact function: gradients agree with what the forward operator computes.
    c, cubic = math.sqrt(2.0 / math.pi), 0.044715
    t = tanh((X + X * X * X * cubic) * c)
    return dOut * ((t + 1.0) * 0.5 + X * (1.0 - t * t) * (X * X * (3.0 * cubic) + 1.0) * (0.5 * c))


@operator("X -> Out", infer=same_float, grad={"X": _gelu_grad}, **FUNCTION, own=True, flops=8)
def gelu(X: Array, *, approximate: bool = False) -> Tensor:
    """X times the probability that a standard normal variable is below it; ``approximate`` uses tanh."""
    if approximate:
        return 0.5 * X * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (X + 0.044715 * X * X * X)))
    return 0.5 * X * (1.0 + erf.function(X * like(math.sqrt(0.5), X)))


def _mish_grad(X: Tensor, dOut: Tensor) -> Tensor:
    t = tanh(softplus(X))
    return dOut * (t + X * (1.0 - t * t) * sigmoid(X))


@operator("X -> Out", infer=same_float, grad={"X": _mish_grad}, **FUNCTION, own=True, flops=8)
def mish(X: Array, *, threshold: float = 20.0) -> Tensor:
    """``X * tanh(softplus(X))``."""
    return X * np.tanh(_soft_plus(X))


@operator(
    "X -> Out",
    infer=same_float,
    grad={"X": lambda X, dOut, *, beta, threshold: where(X * beta > threshold, dOut, dOut * sigmoid(X * beta))},
    **FUNCTION,
    own=True,
    flops=5,
)
def softplus(X: Array, *, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * X)) / beta``; X itself where ``beta * X`` is above ``threshold``."""
    z = X * like(beta, X)
    return np.where(z > threshold, X, _soft_plus(z) / like(beta, X))


@operator("X -> Out", infer=same_float, grad={"X": lambda X, dOut: dOut / square(abs_(X) + 1.0)}, **FUNCTION, own=True, flops=4)
def softsign(X: Array) -> Tensor:
    """``X / (1 + |X|)``."""
    return X / (1.0 + np.abs(X))


# -- softmax -------------------------------------------------------------------------------------


def _along(X: TensorType, *, axis: int = -1, **_: object) -> TensorType:
    normal_axis(axis, max(len(X.shape), 1))
    return same_float(X)


def _softmax_grad(Out: Tensor, dOut: Tensor, *, axis: int) -> Tensor:
    product = dOut * Out
    return product - Out * reduce_sum(product, dim=[axis], keep_dim=True)


@operator(
    "X -> Out",
    infer=_along,
    grad={"X": _softmax_grad},
    speculatable="extents",
    symmetric=True,
    rows="X",
    along="axis",
    own=True,
    flops=5,
    dimensions=along_axis,
)
def softmax(X: Array, *, axis: int = -1, data_format: str = "AnyLayout") -> Array:
    """Exponentials along ``axis`` scaled to the sum 1."""
    if X.ndim and axis % X.ndim == X.ndim - 1 and in_tiles(X, X.shape[-1]):
        out = softmax_rows(as_rows(X, -1, X.shape[-1]))
        return out if X.ndim == 2 else out.reshape(X.shape)
    out = np.empty_like(X, order="C")
    if X.size:
        np.subtract(X, np.maximum.reduce(X, axis=axis, keepdims=True), out=out)
        np.exp(out, out=out)
        out /= summed(out, axis, True)
    return out


@grad_kernel("softmax")
def _fast_softmax_grad(inputs: Inputs, attrs: Mapping[str, Any], slots: Sequence[str]) -> Outputs:
    """Many rows in tiles."""
    definition = lookup("softmax_grad")
    assert isinstance(definition, GradOpDef)
    (out,), (d,) = inputs["Out"], inputs["Out" + GRAD]
    if not out.ndim or definition.attr("axis", attrs) % out.ndim != out.ndim - 1 or not many_short(out, out.shape[-1]):
        return definition.meaning(inputs, attrs, slots)
    rows = softmax_rows_grad(as_rows(out, -1, out.shape[-1]), as_rows(d, -1, out.shape[-1]))
    return {"X" + GRAD: [rows.reshape(out.shape)]}


@operator(
    "X -> Out",
    infer=_along,
    grad={"X": lambda Out, dOut, *, axis: dOut - exp(Out) * reduce_sum(dOut, dim=[axis], keep_dim=True)},
    speculatable="extents",
    rows="X",
    along="axis",
    own=True,
    flops=5,
    dimensions=along_axis,
)
def log_softmax(X: Array, *, axis: int = -1) -> Array:
    """The logarithm of the softmax along ``axis``."""
    differences = as_array(X - np.max(X, axis=axis, keepdims=True)) if X.size else X
    return as_array(differences - np.log(summed(np.exp(differences), axis, True)))


# -- prelu ---------------------------------------------------------------------------------------


def _slope_axis(x_rank: int, alpha_rank: int, mode: str, data_format: str) -> int:
    """The axis of X that the first axis of Alpha is aligned with (-1: the last axes are aligned)."""
    return 1 if mode == "channel" and alpha_rank == 1 < x_rank and data_format == "NCHW" else -1


def _prelu_type(X: TensorType, Alpha: TensorType, *, mode: str = "all", data_format: str = "NCHW") -> TensorType:
    same_dtypes(X=same_float(X), Alpha=Alpha)
    axis = _slope_axis(len(X.shape), len(Alpha.shape), mode, data_format)
    slopes = (1,) if Alpha.shape == (1,) else aligned(X.shape, Alpha.shape, axis)
    if mode not in ("all", "channel", "element") or joined_shape(broadcast_shapes(X.shape, slopes), X.shape) is None:
        raise ShapeError(f"X is {X}, Alpha is {Alpha}: Alpha does not broadcast to X with mode={mode!r}, data_format={data_format!r}")
    return X


def _prelu_x_grad(X: Tensor, Alpha: Tensor, dOut: Tensor, *, mode: str, data_format: str) -> Tensor:
    slopes = wide(Alpha, X, _slope_axis(X.ndim, Alpha.ndim, mode, data_format))
    return where(X > 0.0, dOut, dOut * slopes)


def _prelu_alpha_grad(X: Tensor, Alpha: Tensor, dOut: Tensor, *, mode: str, data_format: str) -> Tensor:
    grad = where(X > 0.0, fill_zeros_like(dOut), dOut * X)
    return unbroadcast(grad, Alpha, _slope_axis(X.ndim, Alpha.ndim, mode, data_format))


@operator("X Alpha -> Out", infer=_prelu_type, grad={"X": _prelu_x_grad, "Alpha": _prelu_alpha_grad}, rows="X", own=True, narrow="follows")
def prelu(X: Array, Alpha: Array, *, mode: str = "all", data_format: str = "NCHW") -> Array:
    """X where it is positive, else Alpha times X; Alpha is one number, one a channel, or one an element."""
    slopes = Alpha.reshape(aligned(X.shape, Alpha.shape, _slope_axis(X.ndim, Alpha.ndim, mode, data_format)))
    return np.where(X > 0, X, X * slopes)


# -- the greatest of a group ---------------------------------------------------------------------


def _grouped(shape: Shape, groups: int, axis: int) -> tuple[int, Shape]:
    """The axis, and the shape without ``groups`` along it."""
    at = normal_axis(axis, len(shape))
    if groups < 1 or (shape[at] != -1 and shape[at] % groups):
        raise ShapeError(f"the shape {list(shape)} cannot be taken in groups={groups} along axis={axis}")
    return at, (*shape[:at], -1 if shape[at] == -1 else shape[at] // groups, *shape[at + 1 :])


def _split_groups(X: Array, groups: int, axis: int) -> tuple[int, Array]:
    at, shape = _grouped(X.shape, groups, axis)
    return at, X.reshape(*shape[: at + 1], groups, *shape[at + 1 :])


def _maxout_grad(X: Tensor, dOut: Tensor, *, groups: int, axis: int) -> Tensor:
    return put_along_axis(fill_zeros_like(X), maxout_index(X, groups=groups, axis=axis), dOut, Axis=axis, Reduce="add")


@operator(
    "X -> Out",
    infer=lambda X, *, groups, axis=1: TensorType(_grouped(X.shape, groups, axis)[1], X.dtype),
    grad={"X": _maxout_grad},
    rows="X",
    along="axis",
)
def maxout(X: Array, *, groups: int, axis: int = 1) -> Array:
    """The greatest of every ``groups`` neighbors along ``axis`` (Goodfellow et al., "Maxout networks", 2013); of equal ones the first."""
    at, parts = _split_groups(X, groups, axis)
    return as_array(np.max(parts, axis=at + 1))


@operator(
    "X -> Out",
    infer=lambda X, *, groups, axis=1: TensorType(_grouped(X.shape, groups, axis)[1], "int64"),
    grad={},
)
def maxout_index(X: Array, *, groups: int, axis: int = 1) -> Array:
    """The places along ``axis`` of the elements that ``maxout`` chooses."""
    at, parts = _split_groups(X, groups, axis)
    # Places are numbered through the groups; group i begins at i * groups.
    starts = np.arange(parts.shape[at]).reshape(-1, *(1,) * (X.ndim - at - 1))
    return as_array(np.argmax(parts, axis=at + 1) + starts * groups, "int64")
