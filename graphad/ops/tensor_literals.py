"""Python numbers and numpy arrays beside symbols: constants of a symbol's dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeGuard

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.registry import REGISTRY
from graphad.types import FLOATS, Array, Tensor, as_float

if TYPE_CHECKING:
    from graphad.ops.definition import OpDef

SLOTS = {"bool": "bool_values", "float64": "fp64_values", "int32": "int32_values", "int64": "int64_values"}


class Emitter(Protocol):
    """An owner of constants, in whose program they are recorded: a symbol."""

    @property
    def dtype(self) -> str: ...

    def emit(self, op: OpDef, inputs: Sequence[Tensor], attrs: Mapping[str, object]) -> Tensor: ...

    def refuse(self, message: str) -> NoReturn: ...


_NUMBERS = (int, float, np.number, np.bool_)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number of Python's or numpy's."""
    # By type: of what is none, isinstance also asks for its ``__class__`` four times, which of variables takes long.
    return issubclass(type(value), _NUMBERS)


def is_literal(value: object) -> bool:
    """Whether a value is a number or an array of numbers."""
    return is_number(value) or (isinstance(value, np.ndarray) and value.dtype.kind in "biuf")


def is_list_of_numbers(value: object) -> bool:
    """Whether a value is a list or a tuple of numbers, or of such lists."""
    return isinstance(value, list | tuple) and bool(value) and all(is_number(item) or is_list_of_numbers(item) for item in value)


def values_slot(dtype: str) -> str:
    """The attribute of ``assign_value`` that holds the values of a dtype."""
    return SLOTS.get(dtype, "fp32_values" if dtype in FLOATS else "int32_values")


def check_number(x: Emitter, value: Tensor) -> None:
    """ShapeError if a number with a fraction meets a tensor of integers."""
    if x.dtype not in FLOATS and value != int(value):
        raise ShapeError(f"{x!r} cannot be combined with {value}, which is no whole number: cast it first, x.astype('float32')")


def constant_like(like: Emitter, value: Tensor) -> Tensor:
    """A number or an array as a constant of a symbol's dtype; ShapeError if that cannot hold it."""
    if isinstance(value, np.ndarray) and value.ndim:
        return array_constant(like, value, str(like.dtype))
    number = value.item() if isinstance(value, np.generic | np.ndarray) else value
    check_number(like, number)
    return like.emit(REGISTRY["fill_constant"], (), {"shape": [], "value": as_float(number), "dtype": str(like.dtype)})


def array_constant(like: Emitter, array: Array, dtype: str) -> Tensor:
    """An array as a constant of a dtype, recorded where a symbol is."""
    if array.dtype.kind == "f" and dtype not in FLOATS and not np.array_equal(array, np.trunc(array)):
        raise ShapeError(f"{like!r} cannot be combined with an array of {array.dtype} that has fractions: cast it first")
    values = array.astype(dtype).ravel().tolist()
    numbers = [*map(int, values)] if dtype == "bool" else values
    attrs = {"shape": list(array.shape), "dtype": dtype, values_slot(dtype): numbers}
    return like.emit(REGISTRY["assign_value"], (), attrs)


def as_tensor(value: object, like: Emitter) -> Tensor:
    """A number, an array or a list of numbers beside a symbol as a constant; a tensor as it is; TypeError for anything else."""
    value = unlisted(value, like)
    if is_literal(value):
        return constant_like(like, value)
    if not hasattr(value, "emit"):
        like.refuse(f"cannot combine {like!r} with {_shown(value)}: a variable, a number or an array is expected")
    return value


def unlisted(value: object, like: Emitter) -> object:
    """A list of numbers as an array, anything else as it is; TypeError if rows differ in length."""
    if not is_list_of_numbers(value):
        return value
    try:
        return np.asarray(value)
    except ValueError:
        like.refuse(f"cannot combine {like!r} with {_shown(value)}, whose rows differ in length")


def _shown(value: object) -> str:
    return f"an array of {value.dtype}" if isinstance(value, np.ndarray) else repr(value)
