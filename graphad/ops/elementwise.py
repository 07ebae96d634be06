"""Elementwise arithmetic and functions: sums, products, powers, exponentials, trigonometry, roundings, bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Unpack

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.casting import as_mask, assign
from graphad.ops.comparison import equal, greater_equal, greater_than, isnan_v2, less_equal, less_than, logical_and, logical_not, logical_or
from graphad.ops.definition import OUT_AS_X, OpDef, operator
from graphad.ops.formulas import kernel_of, like, over_axis, raised
from graphad.ops.inference import aligned, arithmetic, broadcast, matched, same, same_dtypes, same_float, same_number
from graphad.ops.like import expand_like, fill_any_like, fill_zeros_like, reshape_like, sum_like, unbroadcast
from graphad.ops.makers import binary, unary
from graphad.ops.selection import where
from graphad.ops.shapes import wide
from graphad.ops.special import error_function
from graphad.ops.traits import ELEMENTWISE, FUNCTION, Declared, Shapes
from graphad.types import FLOATS, Array, Function, Tensor, TensorType, broadcast_shapes, element_count


def _scaled(X: Tensor, *, scale: float) -> Tensor:
    return scale_(X, scale=scale)


@operator(
    "X -> Out",
    name="scale",
    infer=same,
    grad={"X": lambda dOut, *, scale: dOut if scale == 1.0 else _scaled(dOut, scale=scale)},
    **FUNCTION,
    linear="X",
    offset="bias",
    uniform=True,
    flops=2,
)
def scale_(X: Array, *, scale: float = 1.0, bias: float = 0.0, bias_after_scale: bool = True) -> Tensor:
    """``scale * X + bias``, or ``scale * (X + bias)``; the dtype of X is kept."""
    s, b = like(scale, X), like(bias, X)
    return X * s + b if bias_after_scale else (X + b) * s


@operator("X -> Out", infer=same, grad={"X": lambda dOut: assign(dOut)}, **FUNCTION, linear="X", offset="step", passed_on="X", uniform=True)
def increment(X: Array, *, step: float = 1.0) -> Tensor:
    """X + step; programs often write it back to X, which makes a new value under the old name."""
    return X + like(step, X)


# -- sums ----------------------------------------------------------------------------------------


def _sum_type(X: list[TensorType]) -> TensorType:
    if X and X.count(X[0]) == len(X):  # nearly always, also of thousands
        return X[0]
    same_dtypes(**{f"X[{i}]": x for i, x in enumerate(X)})
    for i, x in enumerate(X):
        if len(x.shape) != len(X[0].shape) or not all(map(matched, x.shape, X[0].shape)):
            raise ShapeError(f"X[0] is {X[0]} but X[{i}] is {x}: a sum adds tensors of one shape")
    return TensorType(tuple(max(es) for es in zip(*(x.shape for x in X), strict=True)), X[0].dtype)


def _sum_flops(shapes: Shapes, attrs: Mapping[str, object]) -> int:
    (out,) = shapes["Out"]
    return max(len(shapes.get("X", ())) - 1, 0) * math.prod(out)


@operator(
    "X* -> Out",
    name="sum",
    infer=_sum_type,
    grad={"X": lambda X, dOut: [assign(dOut) for _ in X]},
    partial=True,
    kinds=OUT_AS_X,
    shapes="X",
    **ELEMENTWISE,
    linear="X",
    passed_on="X",
    uniform=True,
    flops=_sum_flops,
)
def sum_(X: list[Array]) -> Array:
    """The elementwise sum of all inputs that have a value, added left to right."""
    arrays = [x for x in X if x is not None]
    total = arrays[0] if arrays else None
    for x in arrays[1:]:
        # Left to right and not by pairs: the order is part of the meaning, to the last bit.
        total = total + x
    return total  # type: ignore[return-value]


# -- arithmetic of two inputs ----------------------------------------------------------------------
# Elementwise operators over two inputs, with Fluid's ``axis`` broadcasting, and comparisons.

elementwise_add = binary(
    "elementwise_add",
    np.add,
    {
        "X": lambda X, dOut: unbroadcast(dOut, X),
        "Y": lambda Y, dOut, *, axis=-1: unbroadcast(dOut, Y, axis),
    },
    shapes="X Y",
    linear="X Y",
    passed_on="X Y",
    uniform=True,
    narrow="follows",
)
elementwise_sub = binary(
    "elementwise_sub",
    np.subtract,
    {
        "X": lambda X, dOut: unbroadcast(dOut, X),
        "Y": lambda Y, dOut, *, axis=-1: unbroadcast(-dOut, Y, axis),
    },
    arithmetic,
    shapes="X Y",
    linear="X Y",
    passed_on="X",
    uniform=True,
    narrow="follows",
)
elementwise_mul: OpDef = binary(
    "elementwise_mul",
    np.multiply,
    {
        "X": lambda X, Y, dOut, *, axis=-1: unbroadcast(elementwise_mul(dOut, Y, axis=axis), X),
        "Y": lambda X, Y, dOut, *, axis=-1: unbroadcast(dOut * X, Y, axis),
    },
    shapes="X:X Y:Y",
    bilinear="X Y",
    uniform=True,
    narrow="follows",
)


def _quotient(X: Array, Y: Array) -> Tensor:
    """X / Y; the quotient of integers is cut to a whole number, as in C, and 0 where Y is 0, as numpy's floor_divide gives."""
    if X.dtype.kind == "f":
        return X / Y
    # Rounding down and cutting differ by one where the quotient is negative and not whole.
    with np.errstate(divide="ignore"):
        down: Array = np.floor_divide(X, Y)
        inexact = (np.mod(X, Y) != 0) & ((X < 0) != (Y < 0))
    return (down + inexact).astype(X.dtype, copy=False)


elementwise_div: OpDef = binary(
    "elementwise_div",
    _quotient,
    {
        "X": lambda X, Y, dOut, *, axis=-1: unbroadcast(elementwise_div(dOut, Y, axis=axis), X),
        # d(X / Y) / dY = -X / Y^2, which is -Out / Y.
        "Y": lambda Y, Out, dOut, *, axis=-1: unbroadcast(-elementwise_div(dOut * Out, Y, axis=axis), Y, axis),
    },
    shapes="X",
    partly_linear="X",
    safe_dtypes="floats",
    uniform=True,
    steep=True,
)
elementwise_max = binary(
    "elementwise_max",
    np.maximum,
    {
        # Of equal elements Y gets the cotangent, as in Paddle; so below for the minimum.
        "X": lambda X, Y, dOut, *, axis=-1: unbroadcast(dOut * as_mask(greater_than(X, Y, axis=axis), dOut), X),
        "Y": lambda X, Y, dOut, *, axis=-1: unbroadcast(dOut * as_mask(less_equal(X, Y, axis=axis), dOut), Y, axis),
    },
    uniform=True,
    narrow="follows",
)
elementwise_min = binary(
    "elementwise_min",
    np.minimum,
    {
        "X": lambda X, Y, dOut, *, axis=-1: unbroadcast(dOut * as_mask(less_than(X, Y, axis=axis), dOut), X),
        "Y": lambda X, Y, dOut, *, axis=-1: unbroadcast(dOut * as_mask(greater_equal(X, Y, axis=axis), dOut), Y, axis),
    },
    uniform=True,
    narrow="follows",
)


minus = binary(
    "minus",
    np.subtract,
    {"X": lambda X, dOut: unbroadcast(dOut, X), "Y": lambda Y, dOut: unbroadcast(-dOut, Y)},
    arithmetic,
    linear="X Y",
    passed_on="X",
    uniform=True,
    narrow="follows",
)
elementwise_floordiv = binary(
    "elementwise_floordiv",
    np.floor_divide,
    {
        "X": lambda X, dOut: fill_zeros_like(X),
        "Y": lambda Y, dOut: fill_zeros_like(Y),
    },
    arithmetic,
    safe_dtypes="floats",
)
elementwise_mod = binary(
    "elementwise_mod",
    np.mod,
    {
        "X": lambda X, dOut: unbroadcast(dOut, X),
        # The remainder is X - floor(X / Y) Y, and the quotient is a step function.
        "Y": lambda X, Y, dOut, *, axis=-1: unbroadcast(-(dOut * elementwise_floordiv(X, Y, axis=axis)), Y, axis),
    },
    arithmetic,
    safe_dtypes="floats",
    steep=True,
)


# -- functions of one input ------------------------------------------------------------------------
# Elementwise operators over one input: ``name, kernel, cotangent of X``.


def _zero(dOut: Tensor) -> Tensor:
    return fill_zeros_like(dOut)


def _away_from_zero(X: Array) -> Tensor:
    """Rounded to the nearest integer, halves away from zero."""
    integer = np.trunc(X)
    return np.copysign(integer + np.where(np.abs(X - integer) >= 0.5, np.sign(X), like(0, X)), X)


# -- powers, exponentials, logarithms ------------------------------------------------------------

exp = unary("exp", np.exp, lambda Out, dOut: dOut * Out, steep=True)
expm1 = unary("expm1", np.expm1, lambda Out, dOut: dOut * (Out + 1.0), steep=True)
log = unary("log", np.log, lambda X, dOut: dOut / X, steep=True)
log2 = unary("log2", np.log2, lambda X, dOut: dOut / (X * math.log(2.0)), steep=True)
log10 = unary("log10", np.log10, lambda X, dOut: dOut / (X * math.log(10.0)), steep=True)
log1p = unary("log1p", np.log1p, lambda X, dOut: dOut / (X + 1.0), steep=True)
square = unary("square", np.square, lambda X, dOut: dOut * X * 2.0, infer=same_number, uniform=True)
sqrt = unary("sqrt", np.sqrt, lambda Out, dOut: dOut * 0.5 / Out, uniform=True, steep=True)
rsqrt = unary("rsqrt", lambda X: 1.0 / np.sqrt(X), lambda Out, dOut: dOut * (Out * Out * Out) * -0.5, flops=2, steep=True)
reciprocal = unary("reciprocal", lambda X: 1.0 / X, lambda Out, dOut: -(dOut * Out * Out), steep=True)
erf = unary("erf", error_function, lambda X, dOut: dOut * exp(-(X * X)) * (2.0 / math.sqrt(math.pi)), own=True)


def whole_numbers(X: Array, dtype: np.dtype[Any]) -> Array:
    """Floats that are whole as integers; those that are not finite, or out of range, as the nearest integer there is (nan as 0)."""
    limits = np.iinfo(dtype)
    inside = np.nan_to_num(X, nan=0.0, posinf=np.inf, neginf=-np.inf)
    low, high = inside <= float(limits.min), inside >= float(limits.max)
    return np.where(low, limits.min, np.where(high, limits.max, np.where(low | high, 0, inside).astype(dtype))).astype(dtype)


def _pow_grad(X: Tensor, dOut: Tensor, *, factor: float) -> Tensor:
    # x ** -1 would be infinite at 0, where the derivative of 1 is 0.
    if factor == 0.0:
        return fill_zeros_like(dOut)
    if factor == 1.0:
        return dOut
    return dOut * (X if factor == 2.0 else pow_(X, factor=factor - 1.0)) * factor


@operator("X -> Out", name="pow", infer=same_number, grad={"X": _pow_grad}, safe_dtypes="floats", **FUNCTION, own=True, steep=True)
def pow_(X: Array, *, factor: float = 1.0) -> Tensor:
    """X to the power of a number; of integers the power is cut to a whole number where the exponent is none, or below zero."""
    # Two multiplications instead of a call of the C library's power for each element.
    if factor == 3.0:
        return X * X * X
    if X.dtype.kind == "f":
        return raised(X, factor)
    if factor >= 0 and factor.is_integer():
        return raised(X, int(factor))
    return whole_numbers(np.trunc(np.power(X.astype("float64"), factor)), X.dtype)


# -- trigonometric and hyperbolic ----------------------------------------------------------------

sin = unary("sin", np.sin, lambda X, dOut: dOut * cos(X))
cos: OpDef = unary("cos", np.cos, lambda X, dOut: -(dOut * sin(X)))
tan = unary("tan", np.tan, lambda Out, dOut: dOut * (Out * Out + 1.0))
asin = unary("asin", np.arcsin, lambda X, dOut: dOut / sqrt(1.0 - X * X), steep=True)
acos = unary("acos", np.arccos, lambda X, dOut: -(dOut / sqrt(1.0 - X * X)), steep=True)
atan = unary("atan", np.arctan, lambda X, dOut: dOut / (X * X + 1.0))
sinh = unary("sinh", np.sinh, lambda X, dOut: dOut * cosh(X), steep=True)
cosh: OpDef = unary("cosh", np.cosh, lambda X, dOut: dOut * sinh(X), steep=True)
tanh = unary("tanh", np.tanh, lambda Out, dOut: dOut * (1.0 - Out * Out), narrow="follows")
asinh = unary("asinh", np.arcsinh, lambda X, dOut: dOut / sqrt(X * X + 1.0))
# (X - 1)(X + 1) keeps the digits near 1 that X * X - 1 would lose.
acosh = unary("acosh", np.arccosh, lambda X, dOut: dOut / sqrt((X - 1.0) * (X + 1.0)), steep=True)
atanh = unary("atanh", np.arctanh, lambda X, dOut: dOut / (1.0 - X * X), steep=True)

# -- kinks and steps -----------------------------------------------------------------------------

abs_ = unary("abs", np.abs, lambda X, dOut: dOut * sign(X), infer=same, uniform=True, narrow="follows")


sign: OpDef = unary("sign", np.sign, _zero, infer=same_number, uniform=True)
floor = unary("floor", np.floor, _zero, uniform=True)
ceil = unary("ceil", np.ceil, _zero, uniform=True)
round_ = unary("round", _away_from_zero, _zero, own=True, uniform=True)


def _rint_grad(dOut: Tensor, *, straight_through: bool) -> Tensor:
    return dOut if straight_through else _zero(dOut)


@operator("X -> Out", name="rint", infer=same_float, grad={"X": _rint_grad}, uniform=True, **FUNCTION)
def rint(X: Array, *, straight_through: bool = False) -> Tensor:
    """X rounded, halves to the even neighbor as in IEEE 754.

    With ``straight_through`` gradients pass as if nothing was rounded (Y. Bengio et al., "Estimating or propagating gradients through
    stochastic neurons", 2013).
    """
    return np.rint(X)


trunc = unary("trunc", np.trunc, _zero, infer=same, uniform=True)


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
    # Where min is above max, the result is max, as in numpy.
    return np.minimum(np.maximum(X, low), high)


# -- angles, steps, lines --------------------------------------------------------------------------
# Elementwise operators over two inputs beyond arithmetic: bits, extrema that pass over NaN, steps, angles, and whether tensors agree.

# -- extrema and steps ---------------------------------------------------------------------------


def _float_broadcast(X: TensorType, Y: TensorType, *, axis: int = -1) -> TensorType:
    if X.dtype not in FLOATS:
        raise ShapeError(f"X is {X}; a floating-point dtype is expected")
    return broadcast(X, Y, axis=axis)


def _plain_binary(
    name: str,
    function: Callable[..., object],
    grad: Mapping[str, Callable[..., object]],
    infer: Callable[..., object] = broadcast,
    **traits: Unpack[Declared],
) -> OpDef:
    all_traits: Declared = {**ELEMENTWISE, **traits}
    return operator("X Y -> Out", name=name, infer=infer, grad=grad, **all_traits)(kernel_of(over_axis(function), module=__name__))


def _first(compare: OpDef) -> dict[str, Function]:
    """The cotangent goes to X where it compares so with Y or Y is not a number, else to Y."""

    def chosen(X: Tensor, Y: Tensor, axis: int) -> Tensor:
        return logical_or(compare(X, Y, axis=axis), isnan_v2(Y), axis=axis)

    def x_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, axis: int) -> Tensor:
        return unbroadcast(dOut * as_mask(chosen(X, Y, axis), dOut), X)

    def y_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, axis: int) -> Tensor:
        return unbroadcast(dOut * as_mask(logical_not(chosen(X, Y, axis)), dOut), Y, axis)

    return {"X": x_grad, "Y": y_grad}


elementwise_fmax = _plain_binary("elementwise_fmax", np.fmax, _first(greater_equal), _float_broadcast, uniform=True, narrow="follows")
elementwise_fmin = _plain_binary("elementwise_fmin", np.fmin, _first(less_equal), _float_broadcast, uniform=True, narrow="follows")


elementwise_heaviside = _plain_binary(
    "elementwise_heaviside",
    np.heaviside,
    {
        "X": lambda X, dOut: fill_zeros_like(X),
        # Y is the value at the step, and is read nowhere else.
        "Y": lambda X, Y, dOut, *, axis: unbroadcast(dOut * as_mask(equal(X, fill_zeros_like(X)), dOut), Y, axis),
    },
    _float_broadcast,
    uniform=True,
)

# -- angles and lines ----------------------------------------------------------------------------


@operator(
    "X1 X2 -> Out",
    infer=lambda X1, X2: _float_broadcast(X1, X2),
    grad={
        "X1": lambda X1, X2, dOut: unbroadcast(dOut * X2 / (X1 * X1 + X2 * X2), X1),
        "X2": lambda X1, X2, dOut: unbroadcast(-(dOut * X1 / (X1 * X1 + X2 * X2)), X2),
    },
    **ELEMENTWISE,
    steep=True,
)
def atan2(X1: Array, X2: Array) -> Tensor:
    """The angle of the point (X2, X1)."""
    return np.arctan2(X1, X2)


def _lerp_type(X: TensorType, Y: TensorType, Weight: TensorType) -> TensorType:
    dtype = same_dtypes(X=X, Y=Y, Weight=Weight)
    if dtype not in FLOATS:
        raise ShapeError(f"X is {X}; a floating-point dtype is expected")
    try:
        return TensorType(broadcast_shapes(X.shape, Y.shape, Weight.shape), dtype)
    except ShapeError:
        raise ShapeError(f"X is {X}, Y is {Y}, Weight is {Weight}: they do not broadcast together") from None


@operator(
    "X Y Weight -> Out",
    infer=_lerp_type,
    grad={
        "X": lambda X, Weight, dOut: unbroadcast(dOut * (1.0 - Weight), X),
        "Y": lambda Y, Weight, dOut: unbroadcast(dOut * Weight, Y),
        "Weight": lambda X, Y, Weight, dOut: unbroadcast(dOut * (Y - X), Weight),
    },
    shapes="X:X Y:Y Weight:Weight",
    **ELEMENTWISE,
)
def lerp(X: Array, Y: Array, Weight: Array) -> Tensor:
    """The interpolation between X and Y: ``X + Weight * (Y - X)``."""
    return X + Weight * (Y - X)


# -- powers of tensors -----------------------------------------------------------------------------
# A tensor to the power of a tensor.


def _base_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, axis: int) -> Tensor:
    """``dOut * Y * X**(Y - 1)``, zero for 0**0: there the exponent is not lowered."""
    exponent = wide(Y, X, axis)
    zero_powers = as_mask(logical_and(X == 0.0, exponent == 0.0), dOut)
    return unbroadcast(dOut * exponent * elementwise_pow(X, exponent - 1.0 + zero_powers), X)


def _exponent_grad(X: Tensor, Y: Tensor, Out: Tensor, dOut: Tensor, *, axis: int) -> Tensor:
    """``dOut * Out * log(X)``, zero where X is zero."""
    return unbroadcast(dOut * Out * log(where(X == 0.0, fill_any_like(X, value=1.0), X)), Y, axis)


@operator(
    "X Y -> Out",
    infer=arithmetic,
    grad={"X": _base_grad, "Y": _exponent_grad},
    safe_dtypes="floats",
    **ELEMENTWISE,
    steep=True,
)
def elementwise_pow(X: Array, Y: Array, *, axis: int = -1) -> Tensor:
    """X to the power of Y, Y broadcast from ``axis`` on; of integers the power is rounded to a whole number where Y is below zero."""
    exponent = Y if axis == -1 else Y.reshape(aligned(X.shape, Y.shape, axis))
    if X.dtype.kind == "f" or X.dtype.kind == "u" or not np.any(exponent < 0):
        return np.power(X, exponent)
    # numpy refuses integers to negative powers; in float64 they are right before they are rounded.
    with np.errstate(divide="ignore"):
        whole_powers = whole_numbers(np.rint(np.power(X.astype("float64"), exponent)), X.dtype)
    return np.where(exponent < 0, whole_powers, np.power(X, np.maximum(exponent, 0)))
