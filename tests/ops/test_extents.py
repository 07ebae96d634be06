"""Extents with names: what inference calls by a name is as large as what has that name in the inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from graphad.errors import GraphadError
from graphad.ops import REGISTRY, lookup, operator
from graphad.ops.inference import same
from graphad.ops.sample import Sample, uniform
from graphad.testing.samples import SAMPLES
from graphad.testing.values import type_of
from graphad.types import Extent, TensorType
from tests.ops.check import Slots, on_samples, run

Naming = Callable[[str, int, int], str]  # the name of an extent: by its slot, axis and size

# Each axis has a name of its own, axes of one size share one, axes of one place share one.
NAMINGS: dict[str, Naming] = {
    "axis": lambda slot, axis, size: f"{slot}.{axis}",
    "size": lambda slot, axis, size: f"size.{size}",
    "first": lambda slot, axis, size: f"{slot}.0" if axis == 0 else "",
}


def named(inputs: Slots, naming: Naming) -> tuple[dict[str, list[TensorType]], dict[str, int]]:
    """The types of values with names in place of their extents, and what the names stand for."""
    sizes: dict[str, int] = {}
    types: dict[str, list[TensorType]] = {}
    for slot, values in inputs.items():
        types[slot] = []
        for i, value in enumerate(values):
            shape, dtype = type_of(value)
            names = [naming(f"{slot}.{i}", axis, size) for axis, size in enumerate(shape)]
            sizes |= {name: size for name, size in zip(names, shape, strict=True) if name}
            extents = (Extent(name) if name and size > 1 else size for name, size in zip(names, shape, strict=True))
            types[slot].append(TensorType(tuple(extents), dtype))
    return types, sizes


def wrong(op_type: str, sample: Sample, naming: Naming) -> Iterator[str]:
    """The extents that inference gives and that a run does not have."""
    definition, inputs = lookup(op_type), sample.slots()
    types, sizes = named(inputs, naming)
    try:
        inferred = definition.infer_types(types, sample.attrs)
    except GraphadError:  # it needs a number there
        return
    outputs = run(definition, inputs, sample.attrs)
    for slot, found in inferred.items():
        for type, value in zip(found, outputs.get(slot, []), strict=False):
            if isinstance(value, np.ndarray) and type is not None and len(type.shape) == value.ndim:  # of arrays of tensors little is said
                for extent, size in zip(type.shape, value.shape, strict=True):
                    if isinstance(extent, Extent) and sizes[extent.name] != size:
                        yield f"{slot} is {type}, but {value.shape} of {sizes}"


@pytest.mark.parametrize("op", sorted(SAMPLES))
def test_names_are_right(op: str) -> None:
    def check(op_type: str, sample: Sample) -> None:
        assert not [complaint for naming in NAMINGS.values() for complaint in wrong(op_type, sample, naming)]

    on_samples(check, op)


def test_a_name_that_is_wrong_is_found() -> None:
    operator("X -> Out", name="halved_said_wrongly", infer=same, grad=None)(lambda X: X[::2])
    try:
        assert list(wrong("halved_said_wrongly", Sample({"X": uniform(4)}), NAMINGS["axis"]))
    finally:
        del REGISTRY["halved_said_wrongly"]
