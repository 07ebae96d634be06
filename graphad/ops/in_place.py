"""Elementwise operators that compute into an array that is there: the same numbers, to the bit, as their kernels.

``writer(row, attrs)`` gives ``write(arrays, out)``: the result goes to ``out``, which may be the first of the arrays, or for an
operator of one or two inputs any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from graphad.ops.definition import REQUIRED, Array, OpDef, lookup
from graphad.ops.inference import aligned

INPLACE = "inplace"  # the attribute: ["Out:X"], the output in slot Out may be computed into the memory of the input in slot X
Write = Callable[[Sequence[Array], Array], None]
_Attrs = Mapping[str, Any]


def writer(row: OpDef, attrs: _Attrs) -> Write | None:
    """The function that computes an operator into an array; None if there is none for it."""
    special = _SPECIAL.get(row.type)
    if special is not None:
        return special({**_defaults(row), **attrs})
    if not isinstance(row.plain, np.ufunc) or row.plain.signature is not None:
        return None
    return _binary(row.plain, row.attr("axis", attrs)) if row.plain.nin == 2 else _unary(row.plain)


def takes_required(row: OpDef, slots: Collection[str]) -> bool:
    """Whether the input slots of an operator are those that have to be filled, in order: what the functions here are written for."""
    return [*slots] == [name for name, slot in row.inputs.items() if not slot.optional]


def can_write(row: OpDef) -> bool:
    """Whether there is such a function."""
    return row.type in _SPECIAL or (isinstance(row.plain, np.ufunc) and row.plain.signature is None)


def _defaults(row: OpDef) -> dict[str, Any]:
    return {name: attr.default for name, attr in row.attrs.items() if attr.default is not REQUIRED}


def _unary(function: np.ufunc) -> Write:
    def write(arrays: Sequence[Array], out: Array) -> None:
        function(arrays[0], out=out)

    return write


def _binary(function: np.ufunc, axis: int) -> Write:
    def write(arrays: Sequence[Array], out: Array) -> None:
        x, y = arrays
        function(x, y if axis == -1 else y.reshape(aligned(x.shape, y.shape, axis)), out=out)

    return write


# -- operators of more than one function -----------------------------------------------------------


def _scale(attrs: _Attrs) -> Write:
    after = attrs["bias_after_scale"]

    def write(arrays: Sequence[Array], out: Array) -> None:
        kind = out.dtype.type
        s, b = kind(attrs["scale"]), kind(attrs["bias"])
        if after:
            np.add(np.multiply(arrays[0], s, out=out), b, out=out)
        else:
            np.multiply(np.add(arrays[0], b, out=out), s, out=out)

    return write


def _increment(attrs: _Attrs) -> Write:
    def write(arrays: Sequence[Array], out: Array) -> None:
        np.add(arrays[0], out.dtype.type(attrs["step"]), out=out)

    return write


def _relu(attrs: _Attrs) -> Write:
    def write(arrays: Sequence[Array], out: Array) -> None:
        np.maximum(arrays[0], out.dtype.type(0), out=out)

    return write


def _clip(attrs: _Attrs) -> Write:
    def write(arrays: Sequence[Array], out: Array) -> None:
        kind = out.dtype.type
        np.minimum(np.maximum(arrays[0], kind(attrs["min"]), out=out), kind(attrs["max"]), out=out)

    return write


def _reciprocal(attrs: _Attrs) -> Write:
    def write(arrays: Sequence[Array], out: Array) -> None:
        np.divide(1.0, arrays[0], out=out)

    return write


def _rsqrt(attrs: _Attrs) -> Write:
    def write(arrays: Sequence[Array], out: Array) -> None:
        np.divide(1.0, np.sqrt(arrays[0], out=out), out=out)

    return write


def _sigmoid(attrs: _Attrs) -> Write:
    def write(arrays: Sequence[Array], out: Array) -> None:
        np.divide(1.0, np.add(1.0, np.exp(np.negative(arrays[0], out=out), out=out), out=out), out=out)

    return write


def _quotient(attrs: _Attrs) -> Write:
    divide = _binary(np.divide, attrs["axis"])

    def write(arrays: Sequence[Array], out: Array) -> None:
        if out.dtype.kind == "f":
            return divide(arrays, out)
        out[...] = lookup("elementwise_div").kernel(*arrays, axis=attrs["axis"])

    return write


def _power(attrs: _Attrs) -> Write:
    return _binary(np.power, attrs["axis"])


def _sum(attrs: _Attrs) -> Write:
    def write(arrays: Sequence[Array], out: Array) -> None:
        first, *others = arrays
        if not others:
            np.copyto(out, first)
        for other in others:
            np.add(first, other, out=out)
            first = out

    return write


_SPECIAL: Mapping[str, Callable[[_Attrs], Write]] = {
    "scale": _scale,
    "increment": _increment,
    "relu": _relu,
    "clip": _clip,
    "reciprocal": _reciprocal,
    "rsqrt": _rsqrt,
    "sigmoid": _sigmoid,
    "sum": _sum,
    "elementwise_div": _quotient,
    "elementwise_pow": _power,
}
