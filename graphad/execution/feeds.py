"""Values from outside, as a program declares them: arrays that are fed, those of the scope, and the names of what is fetched.

A fed array is taken as it is, and must have the declared dtype. Lists and numbers are converted if that is lossless: whole numbers to any
dtype that holds them, truth values to numbers, other numbers to floating point, and numbers that are 0 or 1 to truth values. What does not
fit is refused with an error that shows both types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphad.errors import InvalidType, InvalidValue
from graphad.ops.aggregates import Aggregate
from graphad.ops.definition import did_you_mean, shortened
from graphad.program import Block, Operator, Program, Variable, located, name_in
from graphad.types import FLOATS, Array, Extent, Shape, Tensor

# -- feeding ---------------------------------------------------------------------------------------


def with_read(program: Program, feed: Mapping[str, object] | None) -> dict[str, object]:
    """A feed, and what the started readers of a program have next for variables that are not fed.

    Raises:
        EndOfData: a reader has no more.
    """
    values = dict(feed or {})
    declared = program.global_block().vars
    for reader in program.identity.family.readers:
        # A clone may have been pruned to what needs no data: then nothing is taken from the reader.
        names = [name for name in reader.names if name in declared and name not in values]
        if names and reader.started:
            row = reader.next_feed()
            values.update((name, row[name]) for name in names)
    return values


def fed_values(block: Block, feed: Mapping[str, object]) -> dict[str, Any]:
    """Fed values as arrays of the types that a block declares; ValueError or TypeError for what does not fit."""
    if not isinstance(feed, Mapping):
        raise InvalidType(f"feed is a dict from name to array, not a {type(feed).__name__}")
    env = {name: fed_array(name, value, *fed_type(block, name)) for name, value in feed.items()}
    _check_extents(block, env)
    return env


def _check_extents(block: Block, env: Mapping[str, Any]) -> None:
    """Refuse arrays that have different sizes for one name of an extent."""
    checked_types: dict[str, tuple[int, str]] = {}  # by name: as numbers all extents that are not known are equal
    for name, array in env.items():
        for extent, size in zip(block.vars[name].declared[0] or (), array.shape, strict=False):
            if type(extent) is Extent:
                first, first_name = checked_types.setdefault(extent.name, (size, name))
                if first != size:
                    first_text, second_text = f"{extent}={first} in feed {first_name!r}", f"{extent}={size} in feed {name!r}"
                    raise InvalidValue(
                        f"{first_text}, {list(env[first_name].shape)}, and {second_text}, {list(array.shape)}: one name has one number"
                    )


def fed_type(block: Block, name: str) -> tuple[Shape | None, str | None]:
    """The declared shape and dtype of what is fed; ValueError for a name that a block does not declare."""
    if name not in block.vars:
        raise InvalidValue(f"feed has {name!r}, which the program does not declare{did_you_mean(str(name), block.vars)}")
    return block.vars[name].declared


def fed_array(name: str, value: object, shape: Shape | None, dtype: str | None) -> Array:
    """The value as an array of the declared shape and dtype (None: not declared).

    Raises:
        TypeError: the value holds something that is not a number.
        ValueError: another shape or dtype than declared; a number that the dtype does not hold; masked elements.
    """
    if _has_mask(value):
        raise InvalidValue(f"feed {name!r} has masked elements, and a tensor has no mask; say what they are with .filled(...)")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InvalidType(f"feed {name!r} cannot become an array of {dtype}: {error}") from None
    # Text, dates, complex numbers and records: numpy would make arrays of them.
    if array.dtype.kind in "USMmcV":
        raise InvalidType(f"feed {name!r} cannot become an array of {dtype or 'numbers'}: it holds {array.dtype}, like {_first(array)!r}")
    check_fed_shape(name, array.shape, shape)
    # An array has a dtype on purpose: it is refused, not converted, where a list of the same numbers would be.
    if isinstance(value, np.ndarray | np.generic):
        if dtype is not None and array.dtype != dtype:
            raise another_dtype(name, array.dtype, dtype)
        return array
    # Python's numbers beyond 64 bits make an array of objects, which is looked at number by number.
    return array if dtype is None and array.dtype.kind != "O" else _converted(name, array, dtype or "numbers")


def check_fed_shape(name: str, found: Shape, shape: Shape | None) -> None:
    """ValueError unless an array of a shape may be fed where another one is declared (None: none is)."""
    if shape is not None and (len(shape) != len(found) or any(e not in (-1, a) for e, a in zip(shape, found, strict=True))):
        raise InvalidValue(f"feed {name!r} has shape {list(found)}, but the variable is declared {list(shape)}")


def another_dtype(name: str, found: object, dtype: str) -> InvalidValue:
    """The error for an array that is fed in another dtype than declared."""
    return InvalidValue(f"feed {name!r} is {found}, but the variable is declared {dtype}; convert it with .astype({dtype!r})")


def _has_mask(value: object) -> bool:
    """Whether elements are masked: of an array, or of the arrays in lists, whose masks numpy drops."""
    if isinstance(value, list | tuple):
        return any(isinstance(item, np.ma.MaskedArray | list | tuple) and _has_mask(item) for item in value)
    return isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value))


def _converted(name: str, array: Array, dtype: str) -> Array:
    """Numbers of a list in the declared dtype; an error for the first one that it does not hold."""
    # True beside such large numbers is an object as well, and is no number here.
    if array.dtype.kind == "O" and (dtype == "numbers" or any(isinstance(x, bool) or not isinstance(x, int | float) for x in array.flat)):
        strange = next((x for x in array.flat if isinstance(x, bool) or not isinstance(x, int | float)), _first(array))
        raise InvalidType(f"feed {name!r} cannot become an array of {dtype}: it holds {shortened(strange)}")
    if dtype in FLOATS:
        wrong = _too_large(array, dtype)
    elif dtype == "bool":
        # A truth value of a list of numbers is exactly 0 or 1.
        wrong = ~np.isin(array, (0, 1)) if array.dtype.kind != "b" else np.zeros(array.shape, bool)
    else:
        wrong = _no_integer(array, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if wrong.any():
        first = shortened(_first(array[wrong]))
        raise InvalidValue(f"feed {name!r} holds {first}, but the variable is declared {dtype}, which has no such number")
    return array.astype(dtype)


def _too_large(array: Array, dtype: str) -> NDArray[np.bool_]:
    """A mask of the finite numbers beyond the range of a floating-point dtype."""
    most = float(np.finfo(dtype).max)
    if array.dtype.kind == "O":
        # Without numpy, whose conversion to float64 would overflow.
        return np.asarray([abs(x) > most and abs(x) != np.inf for x in array.flat], bool).reshape(array.shape)
    return np.asarray(np.isfinite(array) & (np.abs(array.astype("float64")) > most))


def _no_integer(array: Array, low: int, high: int) -> NDArray[np.bool_]:
    """A mask of the numbers that are not whole, or outside of a range."""
    if array.dtype.kind in "biu":
        return np.asarray((array < low) | (array > high))
    # nan and infinity are in no range, and fail the first comparison.
    return np.asarray([not (low <= x <= high and x == int(x)) for x in array.ravel().tolist()], bool).reshape(array.shape)


def _first(array: Array) -> object:
    first = array.reshape(-1)[0] if array.size else None
    return first.item() if isinstance(first, np.generic) else first


# -- the scope -----------------------------------------------------------------------------------


def as_declared(block: Block, name: str, array: Tensor, op: Operator | None) -> Tensor:
    """The scope's value of a name, in the dtype that a block declares; ValueError at the operator that reads it if it does not fit."""
    if isinstance(array, Aggregate):
        return array
    var = block.var_recursive(name) if block.has_var_recursive(name) else None
    shape, dtype = (None, None) if var is None else var.declared
    has_shape = shape is None or (len(shape) == array.ndim and all(e in (-1, a) for e, a in zip(shape, array.shape, strict=True)))
    # Parameters may be stored in another width of floats; integers for floats would hide a mistake.
    kind = dtype is None or array.dtype == dtype or (array.dtype.kind == "f" and dtype in FLOATS)
    if not has_shape or not kind:
        type_text = f"{array.dtype}{list(array.shape)}"
        raise InvalidValue(located(f"the scope has {name!r} as {type_text}, but it is declared {var!r}", op.source if op else None))
    # Floats of another width are converted: a parameter saved in float64 can be read by a program in float32.
    return array if dtype is None else array.astype(dtype, copy=False)


# -- fetching ------------------------------------------------------------------------------------


def fetch_names(block: Block, fetch_list: object) -> list[str]:
    """The names of what is to be fetched; ValueError or TypeError for what is no variable of the program."""
    return [_fetch_name(block, item) for item in _fetch_items(fetch_list)]


def _fetch_items(fetch_list: object) -> Sequence[object]:
    if fetch_list is None:
        return ()
    return fetch_list if isinstance(fetch_list, list | tuple) else [fetch_list]


def _fetch_name(block: Block, item: object) -> str:
    name = name_in("cannot fetch", block, item) if isinstance(item, Variable) else item
    if not isinstance(name, str):
        raise InvalidType(f"fetch_list holds variables or their names, not {item!r}")
    if not block.has_var_recursive(name):
        raise InvalidValue(f"cannot fetch {name!r}: the program has no such variable{did_you_mean(name, block.vars)}")
    return name
