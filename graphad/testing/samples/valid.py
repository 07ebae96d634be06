"""Whether an operator takes a call: inference accepts the types, the kernel runs, and its outputs have the inferred types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from graphad.ops import OpDef
from graphad.ops.aggregates import Aggregate
from graphad.ops.callbacks import silent
from graphad.ops.sample import Sample
from graphad.testing.values import name_of, type_of
from graphad.types import TensorType, joined_shape

Slots = Mapping[str, Sequence[Any]]
Outputs = dict[str, list[Any]]
MOST = 1 << 20  # elements of one output of a call that is drawn
LARGEST = 1 << 10  # the largest number in an operand that may say how many results there are
EXTENTS = 4  # so many integers may be the extents of one output


def runs(op: OpDef, sample: Sample) -> bool:
    """Whether the operator takes a call."""
    return outputs_of(op, sample.slots(), sample.attrs) is not None


def computed(op: OpDef, inputs: Slots, attrs: Mapping[str, object]) -> Outputs | None:
    """The outputs of a call by slot, whatever inference says; None if the kernel does not take it."""
    extra = {"rng": np.random.default_rng(3)} if op.random else {}
    try:
        with np.errstate(all="ignore"):
            if not op.ordered:  # nearly always
                return op.run(inputs, {**attrs, **extra}, list(op.outputs))
            with silent():  # such as print has an effect
                return op.run(inputs, {**attrs, **extra}, list(op.outputs))
    except Exception:  # whatever a kernel raises, of graphad's own or of other packages: it does not take this call
        return None


def outputs_of(op: OpDef, inputs: Slots, attrs: Mapping[str, object]) -> Outputs | None:
    """The outputs of a call by slot; None if the operator does not take it, or they are not of the types that are inferred."""
    try:
        types_by_slot = op.infer_types({slot: [type_of(value) for value in values] for slot, values in inputs.items()}, attrs)
    except Exception:  # as above
        return None
    # Attributes and operands may say how many results there are: numbers meant for others would fill the memory, or take hours.
    shapes = [each.shape or () for types in types_by_slot.values() for each in types if isinstance(each, TensorType)]
    if any(prod(max(extent, 1) for extent in shape) > MOST for shape in shapes):
        return None
    if any(-1 in shape for shape in shapes) and any(_may_say_many(value) for values in inputs.values() for value in values):
        return None
    outputs = computed(op, inputs, attrs)
    if outputs is None or not all(_as_inferred(outputs[slot], types) for slot, types in types_by_slot.items()):
        return None
    return outputs


def _may_say_many(value: object) -> bool:
    """Whether an operand, taken for extents, for numbers of copies or for a step, may say that there are too many results."""
    if not isinstance(value, np.ndarray):
        return False
    if value.dtype.kind == "f":  # an end or a step is one number
        return value.size == 1 and not (value.item() == 0.0 or 1 / LARGEST <= abs(value.item()) <= LARGEST)
    if value.dtype.kind not in "iu":
        return False
    numbers = np.maximum(np.abs(value.astype(np.float64)), 1.0)
    return bool(numbers.max(initial=1.0) > LARGEST or (value.size <= EXTENTS and numbers.prod() > MOST))


def _as_inferred(values: Sequence[object], types: Sequence[TensorType | None]) -> bool:
    return len(values) == len(types) and all(_has_type(value, type) for value, type in zip(values, types, strict=True))


def _has_type(value: object, type: TensorType | None) -> bool:
    if value is None or type is None or isinstance(value, Aggregate):
        return True
    if not isinstance(value, np.ndarray) or name_of(value.dtype) != type.dtype:
        return False
    return joined_shape(value.shape, type.shape) == value.shape if value.shape != type.shape else True
