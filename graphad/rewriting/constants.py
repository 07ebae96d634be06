"""Values known before a program runs: which are filled with one number, and what operators without inputs compute."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from graphad.ir import Op, Value
from graphad.ops import REGISTRY
from graphad.ops.traits import ZEROS
from graphad.types import FLOATS, TENSOR

Number = int | float | bool
LISTED = "assign_value"  # writes the numbers in its attributes, which may all be one


def _assigned(op: Op) -> Number | None:
    values = next((v for name, v in op.attrs.items() if name.endswith("_values") and v), ())
    return values[0] if values and all(v == values[0] for v in values) else None


def _filled(op: Op) -> Number | None:
    """The number that an operator fills its output with, by its trait; None if it does not."""
    definition = op.definition
    if definition is None or not definition.fills or any(op.inputs.get(slot.name) for slot in definition.inputs.values() if slot.optional):
        return None
    number: Number = 0.0 if definition.fills == ZEROS else definition.attr(definition.fills, op.attrs)
    return number


def fillers() -> frozenset[str]:
    """The types of operators that may fill a value with one number."""
    return _fillers(len(REGISTRY))


@lru_cache(maxsize=16)
def _fillers(registered: int) -> frozenset[str]:
    """The same, listed again when operators were registered: sets of rules are made in every run of some passes."""
    return frozenset({LISTED, *(type for type, definition in REGISTRY.items() if definition.fills)})


def uniform_number(value: Value) -> Number | None:
    """The number that every element of a value is, None if it is not known to be one."""
    if not value.writers or value.kind != TENSOR:
        return None
    writer = value.writers[0]
    number = _assigned(writer) if writer.type == LISTED else _filled(writer)
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
