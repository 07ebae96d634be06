"""A tensor that is not there yet: operators applied to it are recorded instead of computed.

The rows of the operator table are written once, over "tensors". Given numpy arrays they compute;
given symbols, each operator asks the symbol to ``emit`` it: into a program (``Variable``), or into a
graph (``graphad.graph.Builder``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphad.errors import ShapeError
from graphad.types import FLOATS, Shape

if TYPE_CHECKING:
    from graphad.ops.definition import OpDef

REGISTRY: dict[str, OpDef] = {}


class Symbol:
    """Base of everything operators can be recorded on; ``+ - * / @ **`` and comparisons build operators."""

    __slots__ = ()
    __hash__ = object.__hash__
    __array_ufunc__ = None  # numpy leaves `array + symbol` to the symbol

    @property
    def shape(self) -> Shape:
        raise NotImplementedError

    @property
    def dtype(self) -> str:
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def emit(self, op: OpDef, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Record ``op`` over the inputs; return a symbol for its output, or a tuple of them."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self!r} has no value before the program runs, so it cannot decide a Python branch; "
            "compare names or use `is`, or build the branch into the program"
        )

    def __add__(self, other: Any) -> Any:
        return _affine(self, bias=other) if _is_number(other) else _binary("elementwise_add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _affine(self, bias=other) if _is_number(other) else _binary("elementwise_add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _affine(self, bias=-other) if _is_number(other) else _binary("elementwise_sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _affine(self, scale=-1.0, bias=other) if _is_number(other) else _binary("elementwise_sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return _affine(self, scale=other) if _is_number(other) else _binary("elementwise_mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _affine(self, scale=other) if _is_number(other) else _binary("elementwise_mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _binary("elementwise_div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _binary("elementwise_div", other, self)

    def __pow__(self, other: Any) -> Any:
        if _is_number(other):
            return REGISTRY["pow"](self, factor=float(other))
        return _binary("elementwise_pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _binary("elementwise_pow", other, self)

    def __matmul__(self, other: Any) -> Any:
        return REGISTRY["matmul_v2"](self, other)

    def __neg__(self) -> Any:
        return _affine(self, scale=-1.0)

    def __lt__(self, other: Any) -> Any:
        return _binary("less_than", self, other)

    def __le__(self, other: Any) -> Any:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return _binary("greater_than", self, other)

    def __ge__(self, other: Any) -> Any:
        return _binary("greater_equal", self, other)

    def __eq__(self, other: Any) -> Any:
        return _binary("equal", self, other) if _is_operand(other) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        return _binary("not_equal", self, other) if _is_operand(other) else NotImplemented


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number)


def _is_operand(value: Any) -> bool:
    return isinstance(value, Symbol) or _is_number(value)


def _affine(x: Symbol, scale: Any = 1.0, bias: Any = 0.0) -> Any:
    _check_number(x, scale)
    _check_number(x, bias)
    return REGISTRY["scale"](x, scale=float(scale), bias=float(bias))


def _binary(op: str, x: Any, y: Any) -> Any:
    like = x if isinstance(x, Symbol) else y
    return REGISTRY[op](_as_tensor(x, like), _as_tensor(y, like))


def _check_number(x: Symbol, value: Any) -> None:
    if x.dtype not in FLOATS and value != int(value):
        raise ShapeError(f"{x!r} cannot be combined with {value}, which is no whole number: cast it first")


def _as_tensor(value: Any, like: Symbol) -> Any:
    """A Python number beside a symbol becomes a constant of its dtype."""
    if isinstance(value, Symbol):
        return value
    if not _is_number(value):
        raise TypeError(f"cannot combine {like!r} with {value!r}: a variable or a number is expected")
    _check_number(like, value)
    return like.emit(REGISTRY["fill_constant"], (), {"shape": [], "value": float(value), "dtype": str(like.dtype)})
