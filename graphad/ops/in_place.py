"""Elementwise operators that compute into an array that is there: the same numbers, to the bit, as their kernels.

What they do there is read off their arithmetic (``graphad.ops.formulas``): an operator that can be traced can be written so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from graphad.ops.definition import Array, OpDef
from graphad.ops.formulas import Formula, Input, can_write, formula, written
from graphad.ops.inference import aligned

INPLACE = "inplace"  # the attribute: ["Out:X"], the output in slot Out may be computed into the memory of the input in slot X
Write = Callable[[Sequence[Array], Array], None]
_AXIS = "axis"


def takes_required(row: OpDef, slots: Collection[str]) -> bool:
    """Whether the input slots of an operator are those that have to be filled, in order: what the functions here are written for."""
    return [*slots] == [name for name, slot in row.inputs.items() if not slot.optional]


def formula_of(row: OpDef, dtypes: Sequence[Any], attrs: Mapping[str, Any]) -> Formula | None:
    """The arithmetic of an elementwise operator on its required inputs, aligned with each other; None if it is not known.

    Args:
        dtypes: those of the inputs, in the order of the slots.
        attrs: the operator's; what its definition does not have, and ``axis``, are not read.
    """
    required = [slot for slot in row.inputs.values() if not slot.optional]
    variadic = len(required) == 1 and required[0].variadic
    if not row.elementwise or not dtypes or (len(required) != len(dtypes) and not variadic):
        return None
    own = {name: row.attr(name, attrs) for name in row.attrs if name in attrs and name != _AXIS}
    return formula(row.function, [np.dtype(each) for each in dtypes], own, variadic)


def writes_into(row: OpDef, dtypes: Sequence[Any], attrs: Mapping[str, Any]) -> bool:
    """Whether an operator can compute into an array of the dtype of its first input, other than by a copy."""
    return can_write(formula_of(row, dtypes, attrs), np.dtype(dtypes[0])) if dtypes else False


def makes_array(row: OpDef, dtypes: Sequence[Any], attrs: Mapping[str, Any]) -> bool:
    """Whether the result of an elementwise operator is an array of its own, and not its input."""
    found = formula_of(row, dtypes, attrs)
    return found is not None and not isinstance(found.result, Input)


def writer(row: OpDef, attrs: Mapping[str, Any], dtypes: Sequence[Any], out: Any, aliased: Sequence[int] = ()) -> Write | None:
    """The function that computes an operator into an array; None if the arithmetic of the operator is not known.

    Args:
        row: an elementwise operator.
        attrs: its attributes.
        dtypes: those of the arrays it is called with.
        out: the dtype of the array for the result.
        aliased: which of the arrays may be the array for the result.

    The arrays have axes, and one shape or one element; two arrays may be broadcast.
    """
    found = formula_of(row, dtypes, attrs)
    if found is None:
        return None
    function = written(found, np.dtype(out), len(dtypes), aliased)
    axis = row.attr(_AXIS, attrs) if _AXIS in row.attrs and len(dtypes) == 2 else -1
    return _aligning(function, axis) if axis != -1 else lambda arrays, out: function(*arrays, out)


def _aligning(function: Callable[..., None], axis: int) -> Write:
    def write(arrays: Sequence[Array], out: Array) -> None:
        x, y = arrays
        function(x, y.reshape(aligned(x.shape, y.shape, axis)), out)

    return write
