"""A tensor that is not there yet: operators applied to it are recorded instead of computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Self, TypeVar

import numpy as np

from graphad.errors import InvalidType
from graphad.ops.array_functions import BINARY, instead_of
from graphad.ops.registry import REGISTRY as REGISTRY
from graphad.ops.subscripts import subscripted
from graphad.ops.tensor_literals import check_number, is_list_of_numbers, is_literal, is_number
from graphad.ops.tensor_methods import TensorMethods
from graphad.types import FLOATS, Shape, Tensor, TensorType, as_float

S = TypeVar("S", bound="Symbol")
_NO_VALUE = "has no value before the program runs"


class Symbol(TensorMethods):
    """Base of everything operators can be recorded on.

    Python's arithmetic, comparisons, ``& | ^ ~``, ``abs`` and subscripts build operators, and so do the methods that arrays have.
    Numbers and numpy arrays beside a symbol become constants of its dtype.
    """

    __slots__ = ()
    # ``==`` records an operator; a class that defines it has no hash unless it says so, and variables are keys of dictionaries.
    __hash__ = object.__hash__

    def refuse(self, message: str) -> NoReturn:
        """Raise TypeError: what was tried needs a value."""
        raise InvalidType(message)

    # -- subscripts ------------------------------------------------------------------------------

    def __getitem__(self, key: object) -> Self:
        part: Self = subscripted(self, key, _is_symbol)
        return part

    def __setitem__(self, key: object, value: object) -> None:
        self.refuse(f"{self!r} is not changed in place: layers.where, layers.scatter or layers.set_value make another tensor")

    def __delitem__(self, key: object) -> None:
        self.refuse(f"{self!r} is not changed in place: a subscript, such as x[1:], makes another tensor of a part")

    # -- arithmetic ------------------------------------------------------------------------------

    def __add__(self, other: object) -> Self:
        return _affine(self, bias=other) if is_number(other) else _binary("elementwise_add", self, other, self)

    def __radd__(self, other: object) -> Self:
        return _affine(self, bias=other) if is_number(other) else _binary("elementwise_add", other, self, self)

    def __sub__(self, other: Any) -> Self:
        return _affine(self, bias=-other) if is_number(other) else _binary("elementwise_sub", self, other, self)

    def __rsub__(self, other: object) -> Self:
        return _affine(self, scale=-1, bias=other) if is_number(other) else _binary("elementwise_sub", other, self, self)

    def __mul__(self, other: object) -> Self:
        return _affine(self, scale=other) if is_number(other) else _binary("elementwise_mul", self, other, self)

    def __rmul__(self, other: object) -> Self:
        return _affine(self, scale=other) if is_number(other) else _binary("elementwise_mul", other, self, self)

    def __truediv__(self, other: object) -> Self:
        return _binary("elementwise_div", self, other, self)

    def __rtruediv__(self, other: object) -> Self:
        return _binary("elementwise_div", other, self, self)

    def __pow__(self, other: Any) -> Self:
        if is_number(other):
            return self._to_power(other)
        return _binary("elementwise_pow", self, other, self)

    def __rpow__(self, other: object) -> Self:
        return _binary("elementwise_pow", other, self, self)

    def __mod__(self, other: object) -> Self:
        return _binary("elementwise_mod", self, other, self)

    def __rmod__(self, other: object) -> Self:
        return _binary("elementwise_mod", other, self, self)

    def __floordiv__(self, other: object) -> Self:
        return _binary("elementwise_floordiv", self, other, self)

    def __rfloordiv__(self, other: object) -> Self:
        return _binary("elementwise_floordiv", other, self, self)

    def __divmod__(self, other: object) -> tuple[Self, Self]:
        return self // other, self % other

    def __rdivmod__(self, other: object) -> tuple[Self, Self]:
        return self.__rfloordiv__(other), self.__rmod__(other)

    def __lshift__(self, other: object) -> Self:
        return self * _power_of_2(self, other)

    def __rshift__(self, other: object) -> Self:
        return self // _power_of_2(self, other)

    def __rlshift__(self, other: object) -> Self:
        return other * _power_of_2(self, self)  # type: ignore[operator, no-any-return]

    def __rrshift__(self, other: object) -> Self:
        return other // _power_of_2(self, self)  # type: ignore[operator, no-any-return]

    def __matmul__(self, other: object) -> Self:
        return _binary("matmul_v2", self, other, self)

    def __rmatmul__(self, other: object) -> Self:
        return _binary("matmul_v2", other, self, self)

    def __neg__(self) -> Self:
        if self.dtype == "bool":
            self.refuse(f"-x of booleans, {self!r}: ~x is the opposite, and x.astype('float32') makes numbers")
        return _affine(self, scale=-1)

    def __pos__(self) -> Self:
        return self._on("assign")

    def __abs__(self) -> Self:
        return self._on("abs")

    def __round__(self, ndigits: int | None = None) -> Self:
        # As of Python's numbers and numpy's arrays: halves go to the even neighbor. Fluid's operator round takes them away from 0.
        return self._on("rint") if not ndigits and self.dtype in FLOATS else self.round(ndigits or 0)

    def __floor__(self) -> Self:
        return self.floor()

    def __ceil__(self) -> Self:
        return self.ceil()

    def __trunc__(self) -> Self:
        return self._on("trunc")

    # -- comparisons and logic -------------------------------------------------------------------

    def __lt__(self, other: object) -> Self:
        return _binary("less_than", self, other, self)

    def __le__(self, other: object) -> Self:
        return _binary("less_equal", self, other, self)

    def __gt__(self, other: object) -> Self:
        return _binary("greater_than", self, other, self)

    def __ge__(self, other: object) -> Self:
        return _binary("greater_equal", self, other, self)

    def __eq__(self, other: object) -> Tensor:
        return _binary("equal", self, other, self) if _is_operand(other) else NotImplemented

    def __ne__(self, other: object) -> Tensor:
        return _binary("not_equal", self, other, self) if _is_operand(other) else NotImplemented

    def __and__(self, other: object) -> Self:
        return _logic("and", self, other)

    def __or__(self, other: object) -> Self:
        return _logic("or", self, other)

    def __xor__(self, other: object) -> Self:
        return _logic("xor", self, other)

    # Bitwise and logical operators commute, so the reflected forms are the same.
    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Self:
        return self._on("logical_not" if self.dtype == "bool" else "bitwise_not")

    # -- what only values can do -----------------------------------------------------------------

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self!r} {_NO_VALUE}, so it cannot decide a Python branch or a Python loop: layers.cond and layers.while_loop put the "
            "choice into the program, `&`, `|` and `~` combine conditions; compare names or use `is` to ask which variable it is"
        )

    def __float__(self) -> float:
        self.refuse(f"{self!r} {_NO_VALUE}, so it is no Python number: {self.how_to_fetch()}")

    def __int__(self) -> int:
        self.refuse(f"{self!r} {_NO_VALUE}, so it is no Python number: layers.cast(x, 'int64') makes integers of it, {self.how_to_fetch()}")

    def __complex__(self) -> complex:
        self.refuse(f"{self!r} {_NO_VALUE}, so it is no Python number: {self.how_to_fetch()}")

    def __index__(self) -> int:
        self.refuse(
            f"{self!r} {_NO_VALUE}, so it is no Python index: layers.while_loop repeats, layers.range makes a tensor, "
            "and tensors, not lists, are indexed by it"
        )

    def __len__(self) -> int:
        if not self.shape:
            self.refuse(f"{self!r} is a scalar, which has no len()")
        if self.shape[0] == -1:
            self.refuse(f"the first extent of {self!r} is not known before the program runs: layers.shape(x)[0] is a tensor of it")
        return self.shape[0]

    # Without this Python would take x[0], x[1], x[2] ... until an IndexError, and each of them would record an operator.
    def __iter__(self) -> Iterator[Self]:
        if not self.shape:
            self.refuse(f"{self!r} is a scalar, which cannot be iterated over")
        if self.shape[0] == -1:
            self.refuse(
                f"the first extent of {self!r} is not known before the program runs, so Python cannot iterate over it: "
                "layers.while_loop over x[i] or layers.StaticRNN does, and most operators work on all rows at once"
            )
        return iter([self[i] for i in range(self.shape[0])])

    def __format__(self, spec: str) -> str:
        if spec:
            self.refuse(f"{self!r} {_NO_VALUE}, so {spec!r} cannot format it: {self.how_to_fetch()}")
        return str(self)

    def __contains__(self, item: object) -> bool:
        self.refuse(f"{self!r} {_NO_VALUE}, so Python cannot search it: layers.reduce_any(x == item) says whether it holds an item")

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        self.refuse(f"{self!r} {_NO_VALUE}, so it is no array: {self.how_to_fetch()}")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> Tensor:
        """``array + symbol``, which numpy leaves to the symbol; other functions of numpy are refused."""
        names = BINARY.get(ufunc.__name__)
        if names is None or method != "__call__" or options or len(inputs) != 2:
            self.refuse(f"np.{ufunc.__name__} computes on arrays, and {self!r} {_NO_VALUE}; use {instead_of(ufunc.__name__, REGISTRY)}")
        first, second = inputs
        # numpy calls this also for ``symbol + array``: the first symbol's method decides, its own or the reflected one.
        return getattr(first, names[0])(second) if isinstance(first, Symbol) else getattr(second, names[1])(first)

    def __array_function__(self, function: Callable[..., object], types: object, args: object, options: object) -> NoReturn:
        name = function.__name__
        self.refuse(f"np.{name} computes on arrays, and {self!r} {_NO_VALUE}; use {instead_of(name, REGISTRY)}")


class TypedSymbol(Symbol):
    """A symbol that holds its type."""

    __slots__ = ("type",)

    def __init__(self, type: TensorType) -> None:
        self.type = type

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype


def _is_symbol(value: object) -> bool:
    return isinstance(value, Symbol)


def _is_operand(value: object) -> bool:
    return isinstance(value, Symbol) or is_literal(value) or is_list_of_numbers(value)


def _affine(x: S, scale: float = 1, bias: float = 0) -> S:
    # First in the dtype in which it meets both numbers, so that 0.5 beside integers makes floats.
    x = x._beside(scale)._beside(bias)
    check_number(x, scale)
    check_number(x, bias)
    result: S = REGISTRY["scale"](x, scale=as_float(scale), bias=as_float(bias))
    return result


def _power_of_2(x: Symbol, count: Any) -> object:
    """The factor ``2 ** count`` that shifts an integer left by ``count`` bits; other dtypes are refused."""
    if x.dtype in FLOATS or x.dtype == "bool":
        x.refuse(f"integers are shifted, not {x!r}; multiply by a power of 2")
    # x << n is x * 2^n, and x >> n is x // 2^n, rounded downwards, as of Python's integers.
    power: object = 2**count
    return power


def _binary(op: str, x: object, y: object, symbol: S) -> S:
    """An operator of two tensors, one of which is the symbol."""
    operands = symbol._operands(x, y)
    first: Any = operands[0] if isinstance(operands[0], Symbol) else symbol
    result: S = first.emit(REGISTRY[op], operands, {})
    return result


def _logic(name: str, x: S, y: object) -> S:
    return _binary(f"logical_{name}" if x.dtype == "bool" else f"bitwise_{name}", x, y, x)
