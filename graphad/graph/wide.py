"""Operators that read very many values, such as a ``sum`` of thousands: lookups by value there use an index."""

from __future__ import annotations

from dataclasses import dataclass

from graphad.graph.nodes import Op, Value

WIDE = 32  # values in a slot
_INDEXED = 8  # slots that stay indexed


@dataclass
class _Slot:
    """A slot's values, those values as a list to change, and the places of each."""

    values: tuple[Value, ...]
    items: list[Value]
    places: dict[Value, list[int]]


class WideSlots:
    """The last few wide slots in which values were replaced.

    Replacing one value after the other would look through the whole slot for each of them. An index holds as long as the slot has
    the very tuple that the last replacement made.
    """

    def __init__(self) -> None:
        self._slots: dict[tuple[Op, str], _Slot] = {}

    def replace(self, op: Op, old: Value, new: Value) -> None:
        """Make an operator read ``new`` in every place of ``old``."""
        for slot, values in op.inputs.items():
            if len(values) > WIDE:
                op.inputs[slot] = self._replaced(op, slot, old, new)
            elif old in values:
                op.inputs[slot] = tuple([new if v is old else v for v in values])

    def _replaced(self, op: Op, slot: str, old: Value, new: Value) -> tuple[Value, ...]:
        indexed = self._slots.pop((op, slot), None)
        if indexed is None or indexed.values is not op.inputs[slot]:
            indexed = _indexed(op.inputs[slot])
        self._slots[op, slot] = indexed
        if len(self._slots) > _INDEXED:
            del self._slots[next(iter(self._slots))]
        places = indexed.places.pop(old, None)
        if places:
            for place in places:
                indexed.items[place] = new
            known = indexed.places.setdefault(new, places)
            if known is not places:
                known += places
            indexed.values = tuple(indexed.items)
        return indexed.values


def _indexed(values: tuple[Value, ...]) -> _Slot:
    places: dict[Value, list[int]] = {}
    for i, value in enumerate(values):
        places.setdefault(value, []).append(i)
    return _Slot(values, list(values), places)
