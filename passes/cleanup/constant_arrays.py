"""Values known before the program runs, as arrays, and arrays as operators that make them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphad.ir import Op, Value
from graphad.ops import lookup
from graphad.types import TENSOR, Array, Shape

_LISTS = {"bool": "bool_values", "float32": "fp32_values", "float64": "fp64_values", "int32": "int32_values", "int64": "int64_values"}


def is_source(op: Op) -> bool:
    """Whether an operator is a constant as it is written down: it reads nothing, and writes the same tensors whenever it runs."""
    definition = op.definition
    if op.inputs or definition is None or definition.random or definition.side_effect or definition.partial or op.graphs:
        return False
    return all(value.kind == TENSOR for value in op.writes())


def known_array(value: Value, small: bool = False) -> Array | None:
    """A value that a constant writes, None if its operator refuses; ``small``: one element in the place of many equal ones."""
    op = value.writers[0]
    slot, at = next((slot, values.index(value)) for slot, values in op.outputs.items() if value in values)
    attrs = {**op.attrs, "shape": [1] * len(op.attrs["shape"])} if small else op.attrs
    try:
        result = lookup(op.type).run({}, attrs, (slot,))[slot][at]
    except Exception:
        return None
    return np.asarray(result)


def element_count(shape: Shape | None) -> int | None:
    """How many elements a tensor of a shape has, None where that is not known."""
    return None if shape is None or -1 in shape else math.prod(shape)


def constant_for(array: Array, shape: tuple[int, ...]) -> tuple[str, dict[str, object]] | None:
    """The operator that makes an array, or one of a shape filled with its only element; None if none makes exactly that.

    >>> constant_for(np.array([2.0, 2.0]), (2,))
    ('fill_constant', {'shape': [2], 'value': 2.0, 'dtype': 'float64'})
    >>> constant_for(np.array([1, 2]), (2,))
    ('assign_value', {'shape': [2], 'dtype': 'int64', 'int64_values': [1, 2]})
    """
    fill = _filled(array, shape)
    return fill or (_listed(array) if array.size and array.shape == shape else None)


def _filled(array: Array, shape: tuple[int, ...]) -> tuple[str, dict[str, object]] | None:
    flat = array.reshape(-1)
    # As bits, so that -0.0 and 0.0 are two numbers, and nan equals itself.
    if flat.size and not (flat.view(f"V{flat.itemsize}") == flat.view(f"V{flat.itemsize}")[0]).all():
        return None
    attrs = {"shape": list(shape), "value": _number(flat), "dtype": array.dtype.name}
    return _checked("fill_constant", {**attrs, "shape": list(array.shape)}, array) and ("fill_constant", attrs)


def _number(flat: Array) -> float:
    try:
        return float(flat[0]) if flat.size else 0.0
    except OverflowError:
        return 0.0


def _listed(array: Array) -> tuple[str, dict[str, Any]] | None:
    name = _LISTS.get(array.dtype.name, "values")
    kind = int if array.dtype.kind in "bui" and name != "values" else float
    attrs = {"shape": list(array.shape), "dtype": array.dtype.name, name: [kind(item) for item in array.reshape(-1).tolist()]}
    return _checked("assign_value", attrs, array)


def _checked(op_type: str, attrs: Mapping[str, object], array: Array) -> tuple[str, dict[str, object]] | None:
    """The operator if it makes exactly the array: the same bits, except for those that tell one nan from another."""
    try:
        result = lookup(op_type).run({}, attrs, ("Out",))["Out"][0]
    except Exception:
        return None
    is_same = (
        result.dtype == array.dtype and result.shape == array.shape and np.array_equal(result, array, equal_nan=array.dtype.kind == "f")
    )
    if is_same and array.dtype.kind == "f":
        # array_equal takes -0.0 for 0.0, which a division tells apart.
        is_same = bool(np.all(np.isnan(array) | (np.signbit(result) == np.signbit(array))))
    return (op_type, dict(attrs)) if is_same else None
