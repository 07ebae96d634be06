"""An operator as a function of positional inputs: what compiled programs call where they call a kernel as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphad.ops import OpDef, lookup
from graphad.ops.aggregates import settled
from graphad.types import Function, Tensor

Counts = Mapping[str, int | None]  # of the names in a slot; None: it is left out


def operation(type: str, inputs: Mapping[str, int], outputs: Mapping[str, int], **attrs: object) -> Function:
    """The function of an operator's inputs, slot after slot.

    Args:
        type: the operator's.
        inputs: how many inputs each slot has.
        outputs: the slots that are wanted, and how many outputs each has.
        attrs: its attributes.

    Returns:
        A function of as many arrays as there are inputs, and of ``rng`` for a random operator. It returns the output, or a tuple of all.

    >>> import numpy as np
    >>> operation("scale", {"X": 1}, {"Out": 1}, scale=2.0)(np.array([1.0, 3.0]))
    array([2., 6.])
    """
    definition = lookup(type)
    slots, is_single = list(outputs), sum(outputs.values()) == 1
    # The ordinary case without the tables of slots, which cost more than a small kernel does.
    if list(inputs) == list(definition.inputs)[: len(inputs)] and definition.outputs and _is_plain(definition, inputs, slots):
        kernel = definition.kernel
        return lambda *arrays: settled(kernel(*arrays, **attrs))

    def run(*arrays: Tensor, **random: object) -> Tensor:
        slot_inputs: dict[str, Sequence[Tensor]] = {}
        at = 0
        for slot, count in inputs.items():
            slot_inputs[slot] = arrays[at : at + count]
            at += count
        outputs_by_slot = definition.run(slot_inputs, {**attrs, **random}, slots)
        results = [None if item is None else settled(item) for slot in slots for item in outputs_by_slot[slot]]
        return results[0] if is_single else tuple(results)

    return run


def _is_plain(definition: OpDef, inputs: Mapping[str, int], wanted: Sequence[str]) -> bool:
    """Whether its kernel takes these arrays as positional arguments, and returns the one output."""
    if definition.random or definition.partial or hasattr(definition, "forward") or len(definition.outputs) != 1:
        return False
    slots = [*(definition.inputs[slot] for slot in inputs), *definition.outputs.values()]
    return not any(slot.variadic for slot in slots) and all(count == 1 for count in inputs.values())
