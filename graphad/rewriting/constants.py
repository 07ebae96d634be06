"""Values known before a program runs: which are filled with one number, and what operators without inputs compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from graphad.ir import Op, Value
from graphad.types import FLOATS, TENSOR

Number = int | float | bool


def _filled(op: Op) -> Number | None:
    return None if op.inputs else _number(op)


def _number(op: Op) -> Number:
    number: Number = op.attrs.get("value", 0.0)
    return number


def _assigned(op: Op) -> Number | None:
    values = next((v for name, v in op.attrs.items() if name.endswith("_values") and v), ())
    return values[0] if values and all(v == values[0] for v in values) else None


_NUMBER: Mapping[str, Callable[[Op], Number | None]] = {
    "fill_constant": _filled,
    "fill_zeros_like": lambda op: 0.0,
    "fill_any_like": _number,
    "assign_value": _assigned,
}
UNIFORM = frozenset(_NUMBER)  # the types of operators that may fill a value with one number


def uniform_number(value: Value) -> Number | None:
    """The number that every element of a value is, None if it is not known to be one."""
    if not value.writers or value.kind != TENSOR:
        return None
    writer = value.writers[0]
    read = _NUMBER.get(writer.type)
    number = None if read is None else read(writer)
    return None if number is None or value.dtype is None else as_stored(number, value.dtype)


def as_stored(number: Number, dtype: str) -> Number:
    """A number as an array of a dtype holds it."""
    if dtype == "bool":
        return bool(number)
    if dtype not in FLOATS:
        return int(number)
    return float(number) if dtype == "float64" else float(np.dtype(dtype).type(number))


def same_number(a: object, b: object) -> bool:
    """Whether two numbers are equal; nan equals nan, and zeros of both signs are equal."""
    return bool(a == b or (a != a and b != b))
