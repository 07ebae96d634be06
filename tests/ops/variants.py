"""Samples changed so that an operator may or may not take them: without elements, without axes, of other dtypes, of unknown extents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from graphad.ops.sample import Sample, Value
from graphad.testing.values import arrays, remade
from graphad.types import FLOATS, Array, TensorType
from tests.ops.check import Slots, typed

Types = dict[str, list[TensorType]]
Place = tuple[str, int, int]  # an axis: the slot, the place in it, the axis
DTYPES = (*FLOATS, "int32", "int64", "bool")


def places(inputs: Slots) -> list[Place]:
    """The axes of all tensors."""
    tensors = ((s, i, v) for s, values in inputs.items() for i, v in enumerate(values) if isinstance(v, np.ndarray))
    return [(s, i, axis) for s, i, v in tensors for axis in range(v.ndim)]


# -- types whose extents are not known -----------------------------------------------------------


def unknown(sample: Sample) -> Iterator[tuple[list[Place], Types]]:
    """The types of the inputs with one extent of one input unknown, for each of them; then with all of them unknown."""
    inputs = sample.slots()
    every = places(inputs)
    for chosen in (*([place] for place in every), every):
        types = typed(inputs)
        for slot, i, axis in chosen:
            shape, dtype = types[slot][i]
            types[slot][i] = TensorType((*shape[:axis], -1, *shape[axis + 1 :]), dtype)
        yield chosen, types


# -- values --------------------------------------------------------------------------------------


def emptied(sample: Sample) -> Iterator[tuple[str, Slots]]:
    """The inputs without elements along axes: all axes of one extent; the axis of one number; one axis of one input."""
    inputs = sample.slots()
    every = places(inputs)
    extents = {place: inputs[place[0]][place[1]].shape[place[2]] for place in every}
    for extent in sorted(set(extents.values()) - {0}):
        yield f"every extent of {extent} is 0", _cut(inputs, [p for p in every if extents[p] == extent])
    for axis in sorted({axis for _, _, axis in every}):
        yield f"axis {axis} has no elements", _cut(inputs, [p for p in every if p[2] == axis])
    for place in every:
        yield f"axis {place[2]} of {place[0]}[{place[1]}] has no elements", _cut(inputs, [place])


def _cut(inputs: Slots, chosen: list[Place]) -> Slots:
    def without(slot: str, i: int, value: Value) -> Value:
        axes = {axis for s, n, axis in chosen if (s, n) == (slot, i)}
        return value[tuple(slice(0 if a in axes else None) for a in range(value.ndim))] if axes else value

    return {slot: [without(slot, i, v) for i, v in enumerate(values)] for slot, values in inputs.items()}


def single(sample: Sample) -> Iterator[tuple[str, Slots]]:
    """The inputs as single numbers, without axes: all of them; one of them."""
    inputs = sample.slots()
    yield "all are 0-d", {slot: list(map(_first, values)) for slot, values in inputs.items()}
    for slot, values in inputs.items():
        for i in range(len(values)):
            yield f"{slot}[{i}] is 0-d", {**inputs, slot: [_first(v) if n == i else v for n, v in enumerate(values)]}


def _first(value: Value) -> Value:
    return value.reshape(-1)[:1].reshape(()) if isinstance(value, np.ndarray) and value.size else value


# -- dtypes --------------------------------------------------------------------------------------


def numbers_dtype(sample: Sample) -> str:
    """The dtype of the sample's numbers, not that of indices beside them; empty if it has no inputs."""
    found = [array.dtype.name for values in sample.slots().values() for value in values for array in arrays(value)]
    return next((dtype for dtype in found if dtype in FLOATS), found[0] if found else "")


def in_dtype(sample: Sample, dtype: str) -> Sample:
    """The sample with its numbers in another dtype; with another attribute ``dtype`` where it has no inputs."""
    main = numbers_dtype(sample)
    if not main:
        return Sample({}, {**sample.attrs, "dtype": dtype})

    def changed(value: Value) -> Value:
        return remade(value, (_cast(array, dtype) if array.dtype.name == main else array for array in arrays(value)))

    inputs: dict[str, Any] = {slot: list(map(changed, values)) for slot, values in sample.slots().items()}
    return Sample({s: v if isinstance(sample.inputs[s], list) else v[0] for s, v in inputs.items()}, sample.attrs)


def _cast(array: Array, dtype: str) -> Array:
    """The array; where it becomes integers, small ones above zero."""
    if dtype in FLOATS or array.dtype.name == dtype:
        return array.astype(dtype)
    return np.asarray(np.ceil(np.abs(np.nan_to_num(np.asarray(array, "float64"), posinf=1.0, neginf=1.0))), dtype)
