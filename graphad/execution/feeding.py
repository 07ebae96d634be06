"""Fed values as arrays of the declared types: converted if that is lossless, else refused with an error that shows both types.

An array is taken as it is, and must have the declared dtype. Lists and numbers are converted: whole numbers to any dtype that holds them,
truth values to numbers, other numbers to floating point, and numbers that are 0 or 1 to truth values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphad.errors import InvalidType, InvalidValue
from graphad.types import FLOATS, Shape

Array = NDArray[Any]


def fed_array(name: str, value: Any, shape: Shape | None, dtype: str | None) -> Array:
    """The value as an array of the declared shape and dtype (None: not declared).

    Raises:
        TypeError: the value holds something that is no number.
        ValueError: another shape or dtype than declared; a number that the dtype does not hold; masked elements.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InvalidValue(f"feed {name!r} has masked elements, and a tensor has no mask; say what they are with .filled(...)")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InvalidType(f"feed {name!r} cannot become an array of {dtype}: {error}") from None
    if array.dtype.kind in "USMmcV":
        raise InvalidType(f"feed {name!r} cannot become an array of {dtype or 'numbers'}: it holds {array.dtype}, like {_first(array)!r}")
    if shape is not None and (len(shape) != array.ndim or any(e not in (-1, a) for e, a in zip(shape, array.shape, strict=True))):
        raise InvalidValue(f"feed {name!r} has shape {list(array.shape)}, but the variable is declared {list(shape)}")
    if isinstance(value, np.ndarray | np.generic):
        if dtype is not None and array.dtype != dtype:
            raise InvalidValue(f"feed {name!r} is {array.dtype}, but the variable is declared {dtype}; convert it with .astype({dtype!r})")
        return array
    return array if dtype is None and array.dtype.kind != "O" else _converted(name, array, dtype or "numbers")


def _converted(name: str, array: Array, dtype: str) -> Array:
    """Numbers of a list in the declared dtype; an error for the first one that it does not hold."""
    if array.dtype.kind == "O" and (dtype == "numbers" or any(isinstance(x, bool) or not isinstance(x, int | float) for x in array.flat)):
        strange = next((x for x in array.flat if isinstance(x, bool) or not isinstance(x, int | float)), _first(array))
        raise InvalidType(f"feed {name!r} cannot become an array of {dtype}: it holds {strange!r}")
    if dtype in FLOATS:
        wrong = _too_large(array, dtype)
    elif dtype == "bool":
        wrong = ~np.isin(array, (0, 1)) if array.dtype.kind != "b" else np.zeros(array.shape, bool)
    else:
        wrong = _no_integer(array, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if wrong.any():
        raise InvalidValue(f"feed {name!r} holds {_first(array[wrong])!r}, but the variable is declared {dtype}, which has no such number")
    return array.astype(dtype)


def _too_large(array: Array, dtype: str) -> NDArray[np.bool_]:
    """Which finite numbers are beyond the range of a floating-point dtype."""
    most = float(np.finfo(dtype).max)
    if array.dtype.kind == "O":
        return np.asarray([abs(x) > most and abs(x) != np.inf for x in array.flat], bool).reshape(array.shape)
    return np.asarray(np.isfinite(array) & (np.abs(array.astype("float64")) > most))


def _no_integer(array: Array, low: int, high: int) -> NDArray[np.bool_]:
    """Which numbers are not whole, or outside of a range."""
    if array.dtype.kind in "biu":
        return np.asarray((array < low) | (array > high))
    return np.asarray([not (low <= x <= high and x == int(x)) for x in array.ravel().tolist()], bool).reshape(array.shape)


def _first(array: Array) -> Any:
    first = array.reshape(-1)[0] if array.size else None
    return first.item() if isinstance(first, np.generic) else first
