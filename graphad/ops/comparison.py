"""Comparisons, logic and bits, element by element; whether tensors agree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.definition import OpDef, operator
from graphad.ops.formulas import kernel_of
from graphad.ops.inference import broadcast, compared, matched, same_dtypes
from graphad.ops.makers import binary, unary
from graphad.ops.traits import ELEMENTWISE, FUNCTION
from graphad.types import INTS, Array, Tensor, TensorType, element_count

less_than = binary("less_than", np.less, {}, compared, uniform=True)
less_equal = binary("less_equal", np.less_equal, {}, compared, uniform=True)
greater_than = binary("greater_than", np.greater, {}, compared, uniform=True)
greater_equal = binary("greater_equal", np.greater_equal, {}, compared, uniform=True)
equal = binary("equal", np.equal, {}, compared, safe_dtypes="all", uniform=True)
not_equal = binary("not_equal", np.not_equal, {}, compared, safe_dtypes="all", uniform=True)
logical_and = binary("logical_and", np.logical_and, {}, compared, safe_dtypes="all", uniform=True)
logical_or = binary("logical_or", np.logical_or, {}, compared, safe_dtypes="all", uniform=True)
logical_xor = binary("logical_xor", np.logical_xor, {}, compared, safe_dtypes="all", uniform=True)


def _asked(X: TensorType) -> TensorType:
    return TensorType(X.shape, "bool")


# -- questions -----------------------------------------------------------------------------------

logical_not = unary("logical_not", np.logical_not, None, infer=_asked, safe_dtypes="all", uniform=True)
isnan_v2 = unary("isnan_v2", np.isnan, None, infer=_asked, own=True, uniform=True)
isinf_v2 = unary("isinf_v2", np.isinf, None, infer=_asked, own=True, uniform=True)
isfinite_v2 = unary("isfinite_v2", np.isfinite, None, infer=_asked, own=True, uniform=True)


# -- bits ----------------------------------------------------------------------------------------


def _bits(X: TensorType, Y: TensorType | None = None) -> TensorType:
    if X.dtype not in INTS:
        raise ShapeError(f"X is {X}; integers or booleans are expected")
    return X if Y is None else broadcast(X, Y)


def _define_bitwise(name: str, function: Callable[..., object]) -> OpDef:
    kernel = kernel_of(function, "X", "Y", module=__name__)
    return operator("X Y -> Out", name=name, infer=_bits, grad={}, commutative=True, uniform=True, safe_dtypes="all", **ELEMENTWISE)(kernel)


bitwise_and = _define_bitwise("bitwise_and", np.bitwise_and)
bitwise_or = _define_bitwise("bitwise_or", np.bitwise_or)
bitwise_xor = _define_bitwise("bitwise_xor", np.bitwise_xor)


@operator("X -> Out", infer=_bits, grad={}, safe_dtypes="all", **FUNCTION, uniform=True)
def bitwise_not(X: Array) -> Tensor:
    """All bits of X the other way round; the opposite of booleans."""
    return ~X


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
    **_: object,
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
