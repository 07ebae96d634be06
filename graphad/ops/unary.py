"""Elementwise operators over one input: ``name, kernel, cotangent of X``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Unpack

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.basic import expand_like, fill_zeros_like, reshape_like, sum_like
from graphad.ops.definition import Array, OpDef, Tensor, operator
from graphad.ops.elementwise import as_mask
from graphad.ops.error_function import error_function
from graphad.ops.formulas import kernel_of, like, raised
from graphad.ops.inference import matched, same, same_dtypes, same_float, same_number
from graphad.ops.traits import FUNCTION, Declared
from graphad.types import TensorType, element_count


def _row(
    name: str,
    function: Callable[..., Any],
    grad: Callable[..., Any] | None,
    infer: Callable[..., Any] = same_float,
    **traits: Unpack[Declared],
) -> OpDef:
    said: Declared = {**FUNCTION, **traits}
    kernel = kernel_of(function, "X", module=__name__)
    return operator("X -> Out", name=name, infer=infer, grad={} if grad is None else {"X": grad}, **said)(kernel)


def _zero(dOut: Tensor) -> Tensor:
    return fill_zeros_like(dOut)


def _asked(X: TensorType) -> TensorType:
    return TensorType(X.shape, "bool")


def _away_from_zero(X: Array) -> Tensor:
    """Rounded to the nearest integer, halves away from zero."""
    whole = np.trunc(X)
    return np.copysign(whole + np.where(np.abs(X - whole) >= 0.5, np.sign(X), like(0, X)), X)


# -- powers, exponentials, logarithms ------------------------------------------------------------

exp = _row("exp", np.exp, lambda Out, dOut: dOut * Out)
expm1 = _row("expm1", np.expm1, lambda Out, dOut: dOut * (Out + 1.0))
log = _row("log", np.log, lambda X, dOut: dOut / X)
log2 = _row("log2", np.log2, lambda X, dOut: dOut / (X * math.log(2.0)))
log10 = _row("log10", np.log10, lambda X, dOut: dOut / (X * math.log(10.0)))
log1p = _row("log1p", np.log1p, lambda X, dOut: dOut / (X + 1.0))
square = _row("square", np.square, lambda X, dOut: dOut * X * 2.0, infer=same_number, uniform=True)
sqrt = _row("sqrt", np.sqrt, lambda Out, dOut: dOut * 0.5 / Out, uniform=True)
rsqrt = _row("rsqrt", lambda X: 1.0 / np.sqrt(X), lambda Out, dOut: dOut * (Out * Out * Out) * -0.5, flops=2)
reciprocal = _row("reciprocal", lambda X: 1.0 / X, lambda Out, dOut: -(dOut * Out * Out), safe_dtypes="floats")
erf = _row("erf", error_function, lambda X, dOut: dOut * exp(-(X * X)) * (2.0 / math.sqrt(math.pi)), own=True)


def whole_numbers(X: Array, dtype: np.dtype[Any]) -> Array:
    """Floats that are whole as integers; those that are not finite, or out of range, as the nearest integer there is (nan as 0)."""
    limits = np.iinfo(dtype)
    inside = np.nan_to_num(X, nan=0.0, posinf=np.inf, neginf=-np.inf)
    low, high = inside <= float(limits.min), inside >= float(limits.max)
    return np.where(low, limits.min, np.where(high, limits.max, np.where(low | high, 0, inside).astype(dtype))).astype(dtype)


def _pow_grad(X: Tensor, dOut: Tensor, *, factor: float) -> Tensor:
    if factor == 0.0:
        return fill_zeros_like(dOut)
    if factor == 1.0:
        return dOut
    return dOut * (X if factor == 2.0 else pow_(X, factor=factor - 1.0)) * factor


@operator("X -> Out", name="pow", infer=same_number, grad={"X": _pow_grad}, safe_dtypes="floats", **FUNCTION, own=True)
def pow_(X: Array, *, factor: float = 1.0) -> Tensor:
    """X to the power of a number; of integers the power is cut to a whole number where the exponent is none, or below zero."""
    if factor == 3.0:
        return X * X * X
    if X.dtype.kind == "f":
        return raised(X, factor)
    if factor >= 0 and factor.is_integer():
        return raised(X, int(factor))
    return whole_numbers(np.trunc(np.power(X.astype("float64"), factor)), X.dtype)


# -- trigonometric and hyperbolic ----------------------------------------------------------------

sin = _row("sin", np.sin, lambda X, dOut: dOut * cos(X))
cos: OpDef = _row("cos", np.cos, lambda X, dOut: -(dOut * sin(X)))
tan = _row("tan", np.tan, lambda Out, dOut: dOut * (Out * Out + 1.0))
asin = _row("asin", np.arcsin, lambda X, dOut: dOut / sqrt(1.0 - X * X))
acos = _row("acos", np.arccos, lambda X, dOut: -(dOut / sqrt(1.0 - X * X)))
atan = _row("atan", np.arctan, lambda X, dOut: dOut / (X * X + 1.0))
sinh = _row("sinh", np.sinh, lambda X, dOut: dOut * cosh(X))
cosh: OpDef = _row("cosh", np.cosh, lambda X, dOut: dOut * sinh(X))
tanh = _row("tanh", np.tanh, lambda Out, dOut: dOut * (1.0 - Out * Out), narrow="follows")
asinh = _row("asinh", np.arcsinh, lambda X, dOut: dOut / sqrt(X * X + 1.0))
acosh = _row("acosh", np.arccosh, lambda X, dOut: dOut / sqrt((X - 1.0) * (X + 1.0)))
atanh = _row("atanh", np.arctanh, lambda X, dOut: dOut / (1.0 - X * X))

# -- kinks and steps -----------------------------------------------------------------------------

abs_ = _row("abs", np.abs, lambda X, dOut: dOut * sign(X), infer=same, uniform=True, narrow="follows")
relu = _row(
    "relu",
    lambda X: np.maximum(X, like(0, X)),
    lambda Out, dOut: dOut * as_mask(Out > 0.0, dOut),
    infer=same,
    uniform=True,
    narrow="follows",
)
sign: OpDef = _row("sign", np.sign, _zero, infer=same_number, uniform=True)
floor = _row("floor", np.floor, _zero, uniform=True)
ceil = _row("ceil", np.ceil, _zero, uniform=True)
round_ = _row("round", _away_from_zero, _zero, own=True, uniform=True)
trunc = _row("trunc", np.trunc, _zero, infer=same, uniform=True)


def between(X: Tensor, low: float, high: float, like: Tensor) -> Tensor:
    """Ones of ``like``'s dtype where X is strictly between two numbers, else zeros."""
    return as_mask(X > low, like) * as_mask(X < high, like)


def _bound(tensor: Tensor, number: float, X: Tensor) -> Tensor:
    """A bound that can be compared with X."""
    return number if tensor is None else expand_like(tensor, X) if X.ndim else reshape_like(tensor, X)


def _summed(cotangent: Tensor, bound: Tensor) -> Tensor:
    return sum_like(cotangent, bound) if cotangent.ndim else reshape_like(cotangent, bound)


def _clip_grad(X: Tensor, dOut: Tensor, Min: Tensor, Max: Tensor, *, min: float, max: float) -> Tensor:
    return dOut * as_mask(X > _bound(Min, min, X), dOut) * as_mask(X < _bound(Max, max, X), dOut)


def _low_grad(X: Tensor, Min: Tensor, Max: Tensor, dOut: Tensor, *, max: float) -> Tensor:
    low = _bound(Min, 0.0, X)
    return _summed(dOut * as_mask(X <= low, dOut) * as_mask(low < _bound(Max, max, X), dOut), Min)


def _high_grad(X: Tensor, Min: Tensor, Max: Tensor, dOut: Tensor, *, min: float) -> Tensor:
    high = _bound(Max, 0.0, X)
    below = as_mask(X < high, dOut) * as_mask(_bound(Min, min, X) < high, dOut)
    return _summed(dOut * (1.0 - below), Max)


def _clip_type(X: TensorType, Min: TensorType | None = None, Max: TensorType | None = None, **_: float) -> TensorType:
    for name, bound in (("Min", Min), ("Max", Max)):
        if bound is not None and (len(bound.shape) > 1 or not matched(element_count(bound.shape), 1)):
            raise ShapeError(f"{name} is {bound}; one element is expected")
    same_dtypes(X=X, Min=Min, Max=Max)
    return X


@operator(
    "X Min? Max? -> Out",
    infer=_clip_type,
    grad={"X": _clip_grad, "Min": _low_grad, "Max": _high_grad},
    elementwise=True,
    narrow="follows",
    flops=2,
)
def clip(X: Array, Min: Array | None = None, Max: Array | None = None, *, min: float, max: float) -> Tensor:
    """X, but not below ``min`` and not above ``max``; Min and Max take their place where given. At a bound the cotangent is the bound's."""
    low = like(min, X) if Min is None else Min.reshape(())
    high = like(max, X) if Max is None else Max.reshape(())
    return np.minimum(np.maximum(X, low), high)


# -- questions -----------------------------------------------------------------------------------

logical_not = _row("logical_not", np.logical_not, None, infer=_asked, safe_dtypes="all", uniform=True)
isnan_v2 = _row("isnan_v2", np.isnan, None, infer=_asked, own=True, uniform=True)
isinf_v2 = _row("isinf_v2", np.isinf, None, infer=_asked, own=True, uniform=True)
isfinite_v2 = _row("isfinite_v2", np.isfinite, None, infer=_asked, own=True, uniform=True)
