"""Values of attributes, checked against the kinds that kernels declare, in the form in which programs store them."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue
from graphad.ops.definition import Attr
from graphad.ops.literals import fits_64_bits, shortened
from graphad.types import dtype_name

_LISTS = {"list[int]": int, "list[float]": float, "list[str]": str, "list[bool]": bool}
_SCALARS = {"int": int, "float": float, "str": str, "bool": bool}


def checked_attr(attr: Attr, value: Any) -> Any:
    """The value in its canonical form; TypeError if it is not of the attribute's kind."""
    if attr.kind == "DType":
        return "" if isinstance(value, int | str) and value in (-1, "") else dtype_name(value)
    if attr.kind in _SCALARS:
        return _scalar(attr, value, _SCALARS[attr.kind])
    if attr.kind in _LISTS:
        if isinstance(value, str) or not isinstance(value, list | tuple | np.ndarray):
            raise InvalidType(_wrong_kind(attr, value))
        return [_scalar(attr, item, _LISTS[attr.kind]) for item in value]
    return value


def _scalar(attr: Attr, value: Any, kind: type) -> Any:
    if type(value) is kind and kind is not int:
        return value
    if kind is float and isinstance(value, int | float | np.number) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise InvalidValue(f"attribute {attr.name!r} is {attr.kind}, which has no number as large as {shortened(value)}") from None
    if kind is int and isinstance(value, int | np.integer) and not isinstance(value, bool):
        if not fits_64_bits(int(value)):
            raise InvalidValue(f"attribute {attr.name!r} is {attr.kind}, of 64 bits at most, got {shortened(value)}")
        return int(value)
    if kind is bool and isinstance(value, bool | np.bool_):
        return bool(value)
    if kind is str and isinstance(value, str):
        return value
    raise InvalidType(_wrong_kind(attr, value))


def _wrong_kind(attr: Attr, value: Any) -> str:
    return f"attribute {attr.name!r} is {attr.kind}, got {type(value).__name__} {shortened(value)}"
