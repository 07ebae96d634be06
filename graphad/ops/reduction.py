"""Reductions: sums, means, extrema, products and norms over axes, and the places of extrema."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.casting import as_mask, cast, in_dtype_of
from graphad.ops.definition import GRAD, Inputs, OpDef, Outputs, grad_kernel, lookup, operator
from graphad.ops.dimensions import mean_of_all, one_axis_less, reduction, sum_of_all
from graphad.ops.elementwise import abs_, exp, pow_, sign
from graphad.ops.formulas import as_array, like
from graphad.ops.inference import reduced, reduced_axes, same_float
from graphad.ops.like import expand_like, fill_any_like, fill_zeros_like, reshape_like
from graphad.ops.scan import cumprod
from graphad.ops.selection import where
from graphad.ops.shapes import size, unsqueeze
from graphad.ops.summation import power_norm, summed
from graphad.ops.traits import Declared
from graphad.types import Array, Tensor, TensorType, dtype_name

DType = str

ALL: list[int] = []
Axes = tuple[int, ...]


def kept(reduced_: Tensor, X: Tensor, dim: list[int], keep_dim: bool, reduce_all: bool) -> Tensor:
    """A reduction's result in a shape that broadcasts against X."""
    axes = reduced_axes(X.ndim, dim, reduce_all)
    return reduced_ if keep_dim or len(axes) == X.ndim else unsqueeze(reduced_, axes=list(axes))


def _reduced_type(X: TensorType, *, dim: list[int] = ALL, keep_dim: bool = False, reduce_all: bool = False, **attrs: Any) -> TensorType:
    return TensorType(reduced(X, dim=dim, keep_dim=keep_dim, reduce_all=reduce_all).shape, attrs.get("out_dtype") or X.dtype)


def _extreme_type(
    X: TensorType, *, dim: list[int] = ALL, keep_dim: bool = False, reduce_all: bool = False, allow_empty: bool = False, **attrs: object
) -> TensorType:
    if not allow_empty and any(X.shape[a] == 0 for a in reduced_axes(len(X.shape), dim, reduce_all)):
        raise ShapeError(f"X is {X}: there is no extremum over an axis without elements (dim={dim})")
    return _reduced_type(X, dim=dim, keep_dim=keep_dim, reduce_all=reduce_all, **attrs)


def _truth_type(X: TensorType, **attrs: Any) -> TensorType:
    return _reduced_type(X, **{**attrs, "out_dtype": "bool"})


def _define(
    name: str,
    function: Callable[..., object],
    grad: Callable[..., object] | None,
    infer: Callable[..., object] = _reduced_type,
    result: str = "",
    shapes: str = "",
    **traits: Unpack[Declared],
) -> OpDef:
    def kernel(
        X: Array, *, dim: list[int] = ALL, keep_dim: bool = False, reduce_all: bool = False, in_dtype: DType = "", out_dtype: DType = ""
    ) -> Array:
        value = function(X, axis=reduced_axes(X.ndim, dim, reduce_all), keepdims=keep_dim)
        return as_array(value, result or out_dtype or X.dtype)

    traits.setdefault("reduction", "other")
    return operator("X -> Out", name=name, infer=infer, grad={} if grad is None else {"X": grad}, shapes=shapes, **traits)(kernel)


# -- sum and mean --------------------------------------------------------------------------------


def _sum_grad(X: Tensor, dOut: Tensor, *, dim: list[int], keep_dim: bool, reduce_all: bool) -> Tensor:
    return expand_like(kept(in_dtype_of(dOut, X), X, dim, keep_dim, reduce_all), X)


def _share(cotangent: Tensor, X: Tensor) -> Tensor:
    """The cotangent of a mean divided by the number of elements of X it is the mean of."""
    dtype = dtype_name(cotangent.dtype)
    # The quotient is taken at run time: an extent of X may be unknown before. It is how many results share how many
    # elements.
    return cotangent * (cast(size(cotangent), out_dtype=dtype) / cast(size(X), out_dtype=dtype))


def _mean_grad(X: Tensor, dOut: Tensor, *, dim: list[int], keep_dim: bool, reduce_all: bool) -> Tensor:
    return expand_like(kept(_share(in_dtype_of(dOut, X), X), X, dim, keep_dim, reduce_all), X)


def _mean(X: Array, axis: Axes, keepdims: bool) -> Array:
    total, count = summed(X, axis, keepdims), math.prod(X.shape[a] for a in axis)
    # The mean of nothing is not a number, as numpy has it.
    return total / count if count else np.full_like(total, np.nan, X.dtype)


reduce_sum = _define(
    "reduce_sum",
    lambda X, axis, keepdims: summed(X, axis, keepdims),
    _sum_grad,
    shapes="X",
    speculatable="types",
    linear="X",
    own=True,
    flops=1,
    reduction="sum",
)
reduce_mean = _define("reduce_mean", _mean, _mean_grad, shapes="X", speculatable="extents", linear="X", own=True, flops=1, reduction="mean")


@operator(
    "X -> Out",
    infer=lambda X: TensorType((), X.dtype),
    grad={"X": lambda X, dOut: expand_like(_share(dOut, X), X)},
    shapes="X",
    speculatable="extents",
    linear="X",
    own=True,
    flops=1,
    dimensions=mean_of_all,
)
def mean(X: Array) -> Array:
    """The mean of all elements, of shape []."""
    return as_array(summed(X, tuple(range(X.ndim))) / X.size if X.size else np.nan, X.dtype)


@grad_kernel("mean")
def _mean_grad_at_once(inputs: Inputs, attrs: Mapping[str, object], slots: Sequence[str]) -> Outputs:
    """The share of each element, all at once."""
    (x,), (cotangent,) = inputs["X"], inputs[f"Out{GRAD}"]
    share = cotangent / like(x.size, cotangent) if x.size else np.zeros_like(cotangent)
    return {f"X{GRAD}": [np.broadcast_to(as_array(share, x.dtype).reshape(()), x.shape)]}


# -- extrema -------------------------------------------------------------------------------------


def _ties(op: OpDef, X: Tensor, Out: Tensor, like: Tensor, dim: list[int], keep_dim: bool, reduce_all: bool, **attrs: object) -> Tensor:
    """1 where X is the extremum, 0 elsewhere; that is found again where the result was rounded to another dtype."""
    is_rounded = dtype_name(Out.dtype) != dtype_name(X.dtype)
    extremum = op(X, dim=dim, keep_dim=keep_dim, reduce_all=reduce_all, **attrs) if is_rounded else Out
    return as_mask(X == kept(extremum, X, dim, keep_dim, reduce_all), like)


def _sharing_rule(op_type: str) -> Callable[..., Tensor]:
    """The rule that splits the cotangent among the elements that are the extremum, as Paddle's amax does."""

    def rule(X: Tensor, Out: Tensor, dOut: Tensor, *, dim: list[int], keep_dim: bool, reduce_all: bool) -> Tensor:
        cotangent = in_dtype_of(dOut, X)
        mask = _ties(lookup(op_type), X, Out, cotangent, dim, keep_dim, reduce_all)
        share = cotangent / reduce_sum(mask, dim=dim, keep_dim=keep_dim, reduce_all=reduce_all)
        return mask * kept(share, X, dim, keep_dim, reduce_all)

    return rule


def _tie_rule(op_type: str) -> Callable[..., Tensor]:
    """The rule that gives the whole cotangent to every element that is the extremum, as Paddle's maximum does."""

    def rule(X: Tensor, Out: Tensor, dOut: Tensor, *, dim: list[int], keep_dim: bool, reduce_all: bool, allow_empty: bool) -> Tensor:
        cotangent = in_dtype_of(dOut, X)
        mask = _ties(lookup(op_type), X, Out, cotangent, dim, keep_dim, reduce_all, allow_empty=allow_empty)
        return mask * kept(cotangent, X, dim, keep_dim, reduce_all)

    return rule


SHORT = 16  # elements of a last axis of which numpy takes long to find the extremum


def _greatest(X: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    return _extremum(np.maximum, X, axis, keepdims)


def _least(X: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    return _extremum(np.minimum, X, axis, keepdims)


def _extremum(larger: np.ufunc, X: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    """The extremum over axes; over a short last one place by place, as a loop for each row takes twenty times as long."""
    if axis != (X.ndim - 1,) or not 2 <= X.shape[-1] <= SHORT or X.ndim < 2:
        return as_array(larger.reduce(X, axis=axis, keepdims=keepdims))
    extremum: Array = X[..., 0]
    for i in range(1, X.shape[-1]):
        extremum = larger(extremum, X[..., i])
    return extremum[..., None] if keepdims else extremum


_EXTREMUM: Declared = {"speculatable": "extents", "flops": 1, "reduction": "extremum"}
_MAXIMUM: Declared = {**_EXTREMUM, "dimensions": reduction("max")}
_MINIMUM: Declared = {**_EXTREMUM, "dimensions": reduction("min")}
_WHOLE_MAXIMUM: Declared = {**_MAXIMUM, "own": True, "whole_ties": True}
_WHOLE_MINIMUM: Declared = {**_MINIMUM, "own": True, "whole_ties": True}


def _define_extremum(name: str, larger: np.ufunc, **traits: Unpack[Declared]) -> OpDef:
    """An extremum; with ``allow_empty`` that of no elements is the number of the dtype that is below all others, or above them."""

    def kernel(
        X: Array,
        *,
        dim: list[int] = ALL,
        keep_dim: bool = False,
        reduce_all: bool = False,
        in_dtype: DType = "",
        out_dtype: DType = "",
        allow_empty: bool = False,
    ) -> Array:
        axes = reduced_axes(X.ndim, dim, reduce_all)
        if allow_empty and not X.size:
            return as_array(larger.reduce(X, axis=axes, keepdims=keep_dim, initial=_beyond(larger, X.dtype)), out_dtype or X.dtype)
        return as_array(_extremum(larger, X, axes, keep_dim), out_dtype or X.dtype)

    grad = {"X": _tie_rule(name)}
    return operator("X -> Out", name=name, infer=_extreme_type, grad=grad, shapes="", **traits)(kernel)


def _beyond(larger: np.ufunc, dtype: np.dtype[Any]) -> Any:
    """The number that no other is less than, for a maximum; for a minimum that none is greater than."""
    if dtype.kind == "f":
        return dtype.type(-np.inf if larger is np.maximum else np.inf)
    if dtype.kind == "b":
        return larger is np.minimum
    return np.iinfo(dtype).min if larger is np.maximum else np.iinfo(dtype).max


reduce_max = _define_extremum("reduce_max", np.maximum, **_WHOLE_MAXIMUM)
reduce_min = _define_extremum("reduce_min", np.minimum, **_WHOLE_MINIMUM)
reduce_amax = _define("reduce_amax", _greatest, _sharing_rule("reduce_amax"), _extreme_type, **_MAXIMUM)
reduce_amin = _define("reduce_amin", _least, _sharing_rule("reduce_amin"), _extreme_type, **_MINIMUM)
reduce_all = _define("reduce_all", np.all, None, _truth_type, "bool", speculatable="extents", flops=1)
reduce_any = _define("reduce_any", np.any, None, _truth_type, "bool", speculatable="extents", flops=1)


def _arg_type(X: TensorType, *, axis: int = -1, keepdims: bool = False, flatten: bool = False, dtype: DType = "int64") -> TensorType:
    return _extreme_type(X, dim=[axis], keep_dim=keepdims, reduce_all=flatten)._replace(dtype=dtype or "int64")


def _define_arg(name: str, function: Callable[..., object], **traits: Unpack[Declared]) -> OpDef:
    def kernel(X: Array, *, axis: int = -1, keepdims: bool = False, flatten: bool = False, dtype: DType = "int64") -> Array:
        return as_array(function(X, axis=None if flatten or not X.ndim else axis, keepdims=keepdims), dtype or "int64")

    return operator("X -> Out", name=name, infer=_arg_type, grad={}, **traits)(kernel)


arg_max = _define_arg("arg_max", np.argmax, own=True, flops=1, dimensions=one_axis_less)
arg_min = _define_arg("arg_min", np.argmin, own=True, flops=1, dimensions=one_axis_less)

# -- products ------------------------------------------------------------------------------------


def _prod_grad(X: Tensor, dOut: Tensor, *, dim: list[int], keep_dim: bool, reduce_all: bool) -> Tensor:
    """Axis by axis, the product of all the others: exact where elements are zero."""
    # factors[k] is the product over the first k axes: the chain rule goes through them from the last one back.
    axes = reduced_axes(X.ndim, dim, reduce_all)
    factors = [X]
    for axis in axes[:-1]:
        factors.append(reduce_prod(factors[-1], dim=[axis], keep_dim=True))
    cotangent = kept(in_dtype_of(dOut, X), X, dim, keep_dim, reduce_all)
    for factor, axis in zip(reversed(factors), reversed(axes), strict=False):
        # Exclusive products from both ends: what is before an element times what is after it, without a division by the
        # element.
        before = cumprod(factor, dim=axis, exclusive=True)
        cotangent = cotangent * (before * cumprod(factor, dim=axis, exclusive=True, reverse=True))
    return cotangent


reduce_prod = _define("reduce_prod", np.multiply.reduce, _prod_grad, speculatable="extents", own=True, flops=1, reduction="product")

# -- norms ---------------------------------------------------------------------------------------


def _log_sum_type(X: TensorType, *, axis: list[int] = ALL, keepdim: bool = False, reduce_all: bool = False) -> TensorType:
    return _reduced_type(same_float(X), dim=axis, keep_dim=keepdim, reduce_all=reduce_all)


def _log_sum_grad(X: Tensor, Out: Tensor, dOut: Tensor, *, axis: list[int], keepdim: bool, reduce_all: bool) -> Tensor:
    # The derivative of log(sum(exp(x))) is the softmax, exp(x - out).
    return kept(dOut, X, axis, keepdim, reduce_all) * exp(X - kept(Out, X, axis, keepdim, reduce_all))


@operator("X -> Out", infer=_log_sum_type, grad={"X": _log_sum_grad}, speculatable="extents", own=True, flops=3)
def logsumexp(X: Array, *, axis: list[int] = ALL, keepdim: bool = False, reduce_all: bool = False) -> Array:
    """The logarithm of the sum of exponentials over ``axis`` (all axes if none is named), without overflow; of no elements -inf."""
    axes = reduced_axes(X.ndim, axis, reduce_all)
    top = np.max(X, axis=axes, keepdims=True, initial=-np.inf)
    # An infinite maximum would make inf - inf; where all elements are -inf the logarithm of 0 is right again.
    top = np.where(np.isfinite(top), top, X.dtype.type(0))
    value = np.log(summed(np.exp(X - top), axes, True)) + top
    return as_array(value if keepdim else np.squeeze(value, axes), X.dtype)


def _or_one(norm: Tensor) -> Tensor:
    """A norm to divide by: one where it is zero, since the cotangent there is zero."""
    return where(norm == 0.0, fill_any_like(norm, value=1.0), norm)


def _norm_type(X: TensorType, *, axis: int = -1, keepdim: bool = False, asvector: bool = False, **_: object) -> TensorType:
    return _extreme_type(X, dim=[axis], keep_dim=keepdim, reduce_all=asvector)


def _p_norm_grad(X: Tensor, Out: Tensor, dOut: Tensor, *, porder: float, axis: int, keepdim: bool, asvector: bool) -> Tensor:
    out, d = (kept(t, X, [axis], keepdim, asvector) for t in (Out, dOut))
    # The number of elements that are not zero is a step function.
    if porder == 0.0:
        return fill_zeros_like(X)
    if math.isinf(porder):
        # At the infinite norm each element that attains it counts, as in Paddle.
        return d * sign(X) * as_mask(abs_(X) == out, dOut)
    if porder == 2.0:
        return X * (d / _or_one(out))
    # (|x| / norm)^(p - 1) and not |x|^(p - 1) / norm^(p - 1): neither power can overflow.
    return d * sign(X) * pow_(abs_(X) / _or_one(out), factor=porder - 1.0)


@operator("X -> Out", infer=_norm_type, grad={"X": _p_norm_grad}, flops=3, whole_ties=lambda attrs: math.isinf(attrs["porder"]))
def p_norm(
    X: Array, *, porder: float = 2.0, axis: int = -1, epsilon: float = 1e-12, keepdim: bool = False, asvector: bool = False
) -> Array:
    """The p-norm along ``axis``, or of all elements (``asvector``); ``porder`` may be 0 or infinite."""
    axes = reduced_axes(X.ndim, [axis], asvector)
    if math.isinf(porder):
        return as_array((np.max if porder > 0 else np.min)(np.abs(X), axis=axes, keepdims=keepdim))
    if porder == 0:
        return as_array(np.count_nonzero(X, axis=axes, keepdims=keepdim), X.dtype)
    return power_norm(X, axes, keepdim, porder)


def _frobenius_grad(X: Tensor, Out: Tensor, dOut: Tensor, *, dim: list[int], keep_dim: bool, reduce_all: bool) -> Tensor:
    return X * kept(in_dtype_of(dOut, X) / _or_one(in_dtype_of(Out, X)), X, dim, keep_dim, reduce_all)


frobenius_norm = _define("frobenius_norm", lambda X, axis, keepdims: power_norm(X, axis, keepdims), _frobenius_grad, flops=2)


@operator(
    "X -> Out",
    infer=lambda X: TensorType((1,), X.dtype),
    grad={"X": lambda X, dOut: X * (reshape_like(dOut, X) if X.ndim == 0 else dOut) * 2.0},
    speculatable="types",
    own=True,
    flops=2,
    dimensions=sum_of_all,
)
def squared_l2_norm(X: Array) -> Array:
    """The sum of the squares of all elements, of shape [1]."""
    flat = X.reshape(-1)
    # In float64 BLAS is as exact as can be; integers must not go through floats.
    if X.dtype.kind != "f" or X.dtype.itemsize >= 8:
        return as_array(flat @ flat, X.dtype).reshape(1)
    with np.errstate(over="ignore"):
        # Added up in float64, without a copy of the vector in it.
        return as_array(np.einsum("i,i", flat, flat, dtype="float64"), X.dtype).reshape(1)
