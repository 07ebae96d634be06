"""Which numbers optimizers take."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue


def is_number(value: Any) -> bool:
    """Whether a value is a number, Python's or numpy's; a bool is none."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def number(what: str, value: Any) -> float:
    """The value as a float; TypeError unless it is a number, ValueError unless it is finite."""
    if not is_number(value):
        raise InvalidType(f"{what} is a number, not {value!r}")
    if not math.isfinite(value):
        raise InvalidValue(f"{what} is a finite number, not {value!r}")
    return float(value)


def fraction(what: str, value: Any) -> float:
    """The value as a float; ValueError unless it is in [0, 1)."""
    if not 0 <= number(what, value) < 1:
        raise InvalidValue(f"{what} is from 0 on and below 1, not {value!r}")
    return float(value)


def at_least_zero(what: str, value: Any) -> float:
    """The value as a float; ValueError if it is negative."""
    if number(what, value) < 0:
        raise InvalidValue(f"{what} is 0 or more, not {value!r}")
    return float(value)


def flag(what: str, value: Any) -> bool:
    """The value; TypeError unless it is True or False."""
    if not isinstance(value, bool):
        raise InvalidType(f"{what} is True or False, not {value!r}")
    return value


def function(what: str, value: Any) -> Any:
    """The value; TypeError unless it is None or can be called."""
    if value is not None and not callable(value):
        raise InvalidType(f"{what} is a function or None, not {value!r}")
    return value
