"""Comparisons, logic and bits, element by element; whether tensors agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.attributes import attributes
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
equal = binary("equal", np.equal, {}, compared, uniform=True)
not_equal = binary("not_equal", np.not_equal, {}, compared, uniform=True)
logical_and = binary("logical_and", np.logical_and, {}, compared, uniform=True)
logical_or = binary("logical_or", np.logical_or, {}, compared, uniform=True)
logical_xor = binary("logical_xor", np.logical_xor, {}, compared, uniform=True)


def _asked(X: TensorType) -> TensorType:
    return TensorType(X.shape, "bool")


# -- questions -----------------------------------------------------------------------------------

logical_not = unary("logical_not", np.logical_not, None, infer=_asked, uniform=True)
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
    return operator("X Y -> Out", name=name, infer=_bits, grad={}, commutative=True, uniform=True, **ELEMENTWISE)(kernel)


bitwise_and = _define_bitwise("bitwise_and", np.bitwise_and)
bitwise_or = _define_bitwise("bitwise_or", np.bitwise_or)
bitwise_xor = _define_bitwise("bitwise_xor", np.bitwise_xor)


@operator("X -> Out", infer=_bits, grad={}, **FUNCTION, uniform=True)
def bitwise_not(X: Array) -> Tensor:
    """All bits of X the other way round; the opposite of booleans."""
    return ~X


# -- agreement -----------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Tolerances:
    """The tolerances of close elements, which Paddle writes as text, and whether nan is close to nan."""

    rtol: str = "1e-5"
    atol: str = "1e-8"
    equal_nan: bool = False


def _bound(name: str, text: str, tensor: Array | None) -> float:
    """A tolerance; ShapeError if it is not a number."""
    try:
        return float(text) if tensor is None else float(tensor.reshape(())[()])
    except ValueError:
        raise ShapeError(f"{name}={text!r} is not a number") from None


def _close_type(
    Input: TensorType, Other: TensorType, Rtol: TensorType | None = None, Atol: TensorType | None = None, **attrs: Any
) -> TensorType:
    limits = Tolerances(**attrs)
    for name, bound in (("rtol", limits.rtol), ("atol", limits.atol)):
        _bound(name, bound, None)
    for name, t in (("Rtol", Rtol), ("Atol", Atol)):
        if t is not None and not matched(element_count(t.shape), 1):
            raise ShapeError(f"{name} is {t}; one element is expected")
    same_dtypes(Input=Input, Other=Other)
    return TensorType(broadcast(Input, Other).shape, "bool")


@operator("Input Other Rtol? Atol? -> Out", infer=_close_type, grad={}, elementwise=True)
@attributes(Tolerances)
def isclose(Input: Array, Other: Array, Rtol: Array | None = None, Atol: Array | None = None, **attrs: Any) -> Array:
    """Whether ``|Input - Other| <= atol + rtol * |Other|``, element by element."""
    limits = Tolerances(**attrs)
    rtol, atol = _bound("rtol", limits.rtol, Rtol), _bound("atol", limits.atol, Atol)
    return np.asarray(np.isclose(Input, Other, rtol, atol, limits.equal_nan))


@operator("Input Other Rtol? Atol? -> Out", infer=lambda *inputs, **attrs: _close_type(*inputs, **attrs)._replace(shape=()), grad={})
@attributes(Tolerances)
def allclose(Input: Array, Other: Array, Rtol: Array | None = None, Atol: Array | None = None, **attrs: Any) -> Array:
    """Whether ``isclose`` holds for all elements."""
    return np.asarray(np.all(isclose.kernel(Input, Other, Rtol, Atol, **attrs)))


def _all_equal_type(X: TensorType, Y: TensorType) -> TensorType:
    same_dtypes(X=X, Y=Y)
    return TensorType((), "bool")


@operator("X Y -> Out", infer=_all_equal_type, grad={}, commutative=True)
def equal_all(X: Array, Y: Array) -> Array:
    """Whether X and Y have one shape and equal elements."""
    return np.asarray(np.array_equal(X, Y))
