"""Elementwise operators over two inputs, with Fluid's ``axis`` broadcasting, and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

import numpy as np

from graphad.ops.basic import cast, fill_zeros_like, unbroadcast
from graphad.ops.definition import Array, OpDef, Tensor, operator
from graphad.ops.formulas import kernel_of, over_axis
from graphad.ops.inference import arithmetic, broadcast, compared
from graphad.ops.traits import ELEMENTWISE, Declared
from graphad.types import dtype_name

# Where X and Y tie, maximum and minimum give the cotangent to one of them: they are not among these.
_SYMMETRIC = (np.add, np.multiply, np.equal, np.not_equal, np.logical_and, np.logical_or, np.logical_xor)


def _row(
    name: str,
    function: Callable[..., Any],
    grad: Mapping[str, Callable[..., Any]],
    infer: Callable[..., Any] = broadcast,
    shapes: str = "",
    **traits: Unpack[Declared],
) -> OpDef:
    said: Declared = {**ELEMENTWISE, "commutative": function in _SYMMETRIC, **traits}
    return operator("X Y -> Out", name=name, infer=infer, grad=grad, shapes=shapes, **said)(kernel_of(over_axis(function), module=__name__))


def as_mask(condition: Tensor, like: Tensor) -> Tensor:
    """A boolean tensor as zeros and ones of ``like``'s dtype."""
    return cast(condition, out_dtype=dtype_name(like.dtype))


elementwise_add = _row(
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
elementwise_sub = _row(
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
elementwise_mul: OpDef = _row(
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
    with np.errstate(divide="ignore"):
        down: Array = np.floor_divide(X, Y)
        inexact = (np.mod(X, Y) != 0) & ((X < 0) != (Y < 0))
    return (down + inexact).astype(X.dtype, copy=False)


elementwise_div: OpDef = _row(
    "elementwise_div",
    _quotient,
    {
        "X": lambda X, Y, dOut, *, axis=-1: unbroadcast(elementwise_div(dOut, Y, axis=axis), X),
        "Y": lambda Y, Out, dOut, *, axis=-1: unbroadcast(-elementwise_div(dOut * Out, Y, axis=axis), Y, axis),
    },
    shapes="X",
    safe_dtypes="floats",
    uniform=True,
)
elementwise_max = _row(
    "elementwise_max",
    np.maximum,
    {
        "X": lambda X, Y, dOut, *, axis=-1: unbroadcast(dOut * as_mask(greater_than(X, Y, axis=axis), dOut), X),
        "Y": lambda X, Y, dOut, *, axis=-1: unbroadcast(dOut * as_mask(less_equal(X, Y, axis=axis), dOut), Y, axis),
    },
    uniform=True,
    narrow="follows",
)
elementwise_min = _row(
    "elementwise_min",
    np.minimum,
    {
        "X": lambda X, Y, dOut, *, axis=-1: unbroadcast(dOut * as_mask(less_than(X, Y, axis=axis), dOut), X),
        "Y": lambda X, Y, dOut, *, axis=-1: unbroadcast(dOut * as_mask(greater_equal(X, Y, axis=axis), dOut), Y, axis),
    },
    uniform=True,
    narrow="follows",
)

less_than = _row("less_than", np.less, {}, compared, uniform=True)
less_equal = _row("less_equal", np.less_equal, {}, compared, uniform=True)
greater_than = _row("greater_than", np.greater, {}, compared, uniform=True)
greater_equal = _row("greater_equal", np.greater_equal, {}, compared, uniform=True)
equal = _row("equal", np.equal, {}, compared, safe_dtypes="all", uniform=True)
not_equal = _row("not_equal", np.not_equal, {}, compared, safe_dtypes="all", uniform=True)

minus = _row(
    "minus",
    np.subtract,
    {"X": lambda X, dOut: unbroadcast(dOut, X), "Y": lambda Y, dOut: unbroadcast(-dOut, Y)},
    arithmetic,
    linear="X Y",
    passed_on="X",
    uniform=True,
    narrow="follows",
)
elementwise_floordiv = _row(
    "elementwise_floordiv",
    np.floor_divide,
    {
        "X": lambda X, dOut: fill_zeros_like(X),
        "Y": lambda Y, dOut: fill_zeros_like(Y),
    },
    arithmetic,
    safe_dtypes="floats",
)
elementwise_mod = _row(
    "elementwise_mod",
    np.mod,
    {
        "X": lambda X, dOut: unbroadcast(dOut, X),
        "Y": lambda X, Y, dOut, *, axis=-1: unbroadcast(-(dOut * elementwise_floordiv(X, Y, axis=axis)), Y, axis),
    },
    arithmetic,
    safe_dtypes="floats",
)

logical_and = _row("logical_and", np.logical_and, {}, compared, safe_dtypes="all", uniform=True)
logical_or = _row("logical_or", np.logical_or, {}, compared, safe_dtypes="all", uniform=True)
logical_xor = _row("logical_xor", np.logical_xor, {}, compared, safe_dtypes="all", uniform=True)
