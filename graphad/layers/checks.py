"""Checks of the arguments of layers: an error names the parameter, and the one that was probably meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphad.errors import InvalidType, InvalidValue
from graphad.layers.values import known
from graphad.program import Variable
from graphad.types import FLOATS, as_float


class DefaultInt(int):
    """A default that is told, by identity, from the same number given: for parameters of which two conventions have two defaults."""


class DefaultFlag(int):
    """A default that is told, by identity, from the same flag given; bool has no subclasses."""

    def __repr__(self) -> str:
        return repr(bool(self))


class DefaultStr(str):
    """A default that is told, by identity, from the same text given."""


def checked_int(what: str, value: object, least: int | None = None) -> int:
    """A whole number; TypeError if it is none, ValueError if it is less than the least."""
    value = known(value)
    # True is an int in Python, and hardly ever meant as 1.
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, int | np.integer)):
        raise InvalidType(f"{what} is an int, not {value!r}{_meant(value)}")
    if least is not None and value < least:
        raise InvalidValue(f"{what} is {least} or more, not {value}")
    return int(value)


def checked_float(what: str, value: object) -> float:
    """A number; TypeError if it is none."""
    value = known(value)
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidType(f"{what} is a number, not {value!r}{_meant(value)}")
    return as_float(value)


def checked_fractions(what: str, x: object, result: object, numbers: Mapping[str, object]) -> None:
    """ValueError if numbers with a fraction have met integers whose result is of integers, without the fraction."""
    if not isinstance(x, Variable) or not isinstance(result, Variable) or x.dtype in FLOATS or result.dtype != x.dtype:
        return
    for name, value in numbers.items():
        if isinstance(value, float) and not value.is_integer():
            raise InvalidValue(f"{what}: {name}={value} with integers, and the result is {result.dtype}: layers.cast(x, 'float32') first")


def checked_flag(what: str, value: object) -> bool:
    """True or False; TypeError for anything else."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidType(f"{what} is True or False, not {value!r}; give what you mean by its keyword{_meant(value)}")
    return bool(value)


def checked_format(what: str, value: object, known: Sequence[str]) -> bool:
    """Whether a layout has its channels last; ValueError if it is not one of those that the layer knows."""
    if value not in known:
        raise InvalidValue(f"{what} is {' or '.join(map(repr, known))}, not {value!r}{_meant(value)}")
    return str(value).endswith("C")


def _meant(value: object) -> str:
    if isinstance(value, Variable):
        return ", whose value is known only when the program runs"
    return f": did you mean act={value!r} or name={value!r}?" if isinstance(value, str) else ""


def listed(what: str, value: object, count: int) -> list[int]:
    """One number for each of the axes of a window: a number stands for all of them."""
    value = known(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return [int(value)] * count
    if isinstance(value, list | tuple) and len(value) == 1:
        return listed(what, value[0], count)
    if not isinstance(value, list | tuple) or len(value) != count or any(isinstance(item, bool | str) for item in value):
        raise InvalidType(f"{what} is an int or a list of {count} ints, not {value!r}{_meant(value)}")
    return [int(item) for item in value]


def padding_attrs(what: str, value: object, axes: int, channels_last: bool) -> dict[str, object]:
    """The attributes of a padding: a number, one for each axis, one for each end, pairs for all axes of the input, or "SAME", "VALID"."""
    if isinstance(value, str):
        if value.upper() not in ("SAME", "VALID"):
            raise InvalidValue(f"{what} is 'SAME', 'VALID', an int or a list of ints, not {value!r}")
        return {"paddings": [0] * axes, "padding_algorithm": value.upper()}
    if isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple):
        # Pairs are for all axes of the input; only those of the window may pad.
        inner = value[1:-1] if channels_last else value[2:]
        rest = [*value[:1], *(value[-1:] if channels_last else value[1:2])]
        if len(inner) != axes or any(any(pair) for pair in rest):
            raise InvalidValue(f"{what} is {value!r}: pairs for {axes + 2} axes are expected, those of the batch and the channels zero")
        return {"paddings": [int(item) for pair in inner for item in pair]}
    if isinstance(value, list | tuple) and len(value) == 2 * axes:
        return {"paddings": [int(item) for item in value]}
    return {"paddings": listed(what, value, axes)}


def has_last_one(x: Variable) -> bool:
    """Whether the last extent is 1, which Fluid 1.8 takes as an axis of its own for ids and labels."""
    return len(x.shape) > 1 and x.shape[-1] == 1
