"""Elementwise operators over two inputs beyond arithmetic: bits, extrema that pass over NaN, steps, angles, and whether tensors agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.basic import fill_zeros_like, unbroadcast
from graphad.ops.definition import Array, OpDef, Tensor, operator
from graphad.ops.elementwise import as_mask, equal, greater_equal, less_equal, logical_or
from graphad.ops.formulas import kernel_of, over_axis
from graphad.ops.inference import broadcast, matched, same_dtypes
from graphad.ops.traits import ELEMENTWISE, FUNCTION, Declared
from graphad.ops.unary import isnan_v2, logical_not
from graphad.types import FLOATS, INTS, TensorType, broadcast_shapes, element_count

# -- bits ----------------------------------------------------------------------------------------


def _bits(X: TensorType, Y: TensorType | None = None) -> TensorType:
    if X.dtype not in INTS:
        raise ShapeError(f"X is {X}; integers or booleans are expected")
    return X if Y is None else broadcast(X, Y)


def _bit_row(name: str, function: Callable[..., Any]) -> OpDef:
    kernel = kernel_of(function, "X", "Y", module=__name__)
    return operator("X Y -> Out", name=name, infer=_bits, grad={}, commutative=True, uniform=True, safe_dtypes="all", **ELEMENTWISE)(kernel)


bitwise_and = _bit_row("bitwise_and", np.bitwise_and)
bitwise_or = _bit_row("bitwise_or", np.bitwise_or)
bitwise_xor = _bit_row("bitwise_xor", np.bitwise_xor)


@operator("X -> Out", infer=_bits, grad={}, safe_dtypes="all", **FUNCTION, uniform=True)
def bitwise_not(X: Array) -> Tensor:
    """All bits of X the other way round; the opposite of booleans."""
    return ~X


# -- extrema and steps ---------------------------------------------------------------------------


def _float_broadcast(X: TensorType, Y: TensorType, *, axis: int = -1) -> TensorType:
    if X.dtype not in FLOATS:
        raise ShapeError(f"X is {X}; a floating-point dtype is expected")
    return broadcast(X, Y, axis=axis)


def _row(
    name: str,
    function: Callable[..., Any],
    grad: Mapping[str, Callable[..., Any]],
    infer: Callable[..., Any] = broadcast,
    **traits: Unpack[Declared],
) -> OpDef:
    said: Declared = {**ELEMENTWISE, **traits}
    return operator("X Y -> Out", name=name, infer=infer, grad=grad, **said)(kernel_of(over_axis(function), module=__name__))


def _first(compare: OpDef) -> dict[str, Callable[..., Any]]:
    """The cotangent goes to X where it compares so with Y or Y is not a number, else to Y."""

    def chosen(X: Tensor, Y: Tensor, axis: int) -> Tensor:
        return logical_or(compare(X, Y, axis=axis), isnan_v2(Y), axis=axis)

    def x_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, axis: int) -> Tensor:
        return unbroadcast(dOut * as_mask(chosen(X, Y, axis), dOut), X)

    def y_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, axis: int) -> Tensor:
        return unbroadcast(dOut * as_mask(logical_not(chosen(X, Y, axis)), dOut), Y, axis)

    return {"X": x_grad, "Y": y_grad}


elementwise_fmax = _row("elementwise_fmax", np.fmax, _first(greater_equal), _float_broadcast, uniform=True, narrow="follows")
elementwise_fmin = _row("elementwise_fmin", np.fmin, _first(less_equal), _float_broadcast, uniform=True, narrow="follows")


def _no_step(X: Tensor, dOut: Tensor) -> Tensor:
    return fill_zeros_like(X)


def _at_zero(X: Tensor, Y: Tensor, dOut: Tensor, *, axis: int) -> Tensor:
    return unbroadcast(dOut * as_mask(equal(X, fill_zeros_like(X)), dOut), Y, axis)


elementwise_heaviside = _row("elementwise_heaviside", np.heaviside, {"X": _no_step, "Y": _at_zero}, _float_broadcast, uniform=True)

# -- angles and lines ----------------------------------------------------------------------------


def _angle_type(X1: TensorType, X2: TensorType) -> TensorType:
    return _float_broadcast(X1, X2)


@operator(
    "X1 X2 -> Out",
    infer=_angle_type,
    grad={
        "X1": lambda X1, X2, dOut: unbroadcast(dOut * X2 / (X1 * X1 + X2 * X2), X1),
        "X2": lambda X1, X2, dOut: unbroadcast(-(dOut * X1 / (X1 * X1 + X2 * X2)), X2),
    },
    **ELEMENTWISE,
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


# -- agreement -----------------------------------------------------------------------------------


def _close_type(Input: TensorType, Other: TensorType, Rtol: TensorType | None, Atol: TensorType | None, rtol: str, atol: str) -> TensorType:
    for name, bound in (("rtol", rtol), ("atol", atol)):
        _bound(name, bound, None)
    for name, t in (("Rtol", Rtol), ("Atol", Atol)):
        if t is not None and not matched(element_count(t.shape), 1):
            raise ShapeError(f"{name} is {t}; one element is expected")
    same_dtypes(Input=Input, Other=Other)
    return TensorType(broadcast(Input, Other).shape, "bool")


def _bound(name: str, text: str, tensor: Array | None) -> float:
    """A tolerance, which Paddle writes as text; ShapeError if it is not a number."""
    try:
        return float(text) if tensor is None else float(tensor.reshape(())[()])
    except ValueError:
        raise ShapeError(f"{name}={text!r} is not a number") from None


def _isclose_type(
    Input: TensorType,
    Other: TensorType,
    Rtol: TensorType | None = None,
    Atol: TensorType | None = None,
    *,
    rtol: str = "1e-5",
    atol: str = "1e-8",
    **_: Any,
) -> TensorType:
    return _close_type(Input, Other, Rtol, Atol, rtol, atol)


@operator("Input Other Rtol? Atol? -> Out", infer=_isclose_type, grad={}, elementwise=True)
def isclose(
    Input: Array,
    Other: Array,
    Rtol: Array | None = None,
    Atol: Array | None = None,
    *,
    rtol: str = "1e-5",
    atol: str = "1e-8",
    equal_nan: bool = False,
) -> Array:
    """Whether ``|Input - Other| <= atol + rtol * |Other|``, element by element."""
    return np.asarray(np.isclose(Input, Other, _bound("rtol", rtol, Rtol), _bound("atol", atol, Atol), equal_nan))


@operator("Input Other Rtol? Atol? -> Out", infer=lambda *inputs, **attrs: TensorType((), _isclose_type(*inputs, **attrs).dtype), grad={})
def allclose(
    Input: Array,
    Other: Array,
    Rtol: Array | None = None,
    Atol: Array | None = None,
    *,
    rtol: str = "1e-5",
    atol: str = "1e-8",
    equal_nan: bool = False,
) -> Array:
    """Whether ``isclose`` holds for all elements."""
    return np.asarray(np.all(isclose.kernel(Input, Other, Rtol, Atol, rtol=rtol, atol=atol, equal_nan=equal_nan)))


def _all_equal_type(X: TensorType, Y: TensorType) -> TensorType:
    same_dtypes(X=X, Y=Y)
    return TensorType((), "bool")


@operator("X Y -> Out", infer=_all_equal_type, grad={}, commutative=True)
def equal_all(X: Array, Y: Array) -> Array:
    """Whether X and Y have one shape and equal elements."""
    return np.asarray(np.array_equal(X, Y))
