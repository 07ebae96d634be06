"""The tables of a graph: its operators in order, its values by name, and indexes of operators that read very many values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import NoReturn, overload

from graphad.ir.nodes import Op, Value

# -- wide ------------------------------------------------------------------------------------------
# Operators that read very many values, such as a ``sum`` of thousands: lookups by value there use an index.

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
    the very tuple that the last replacement made. Within ``deferred`` the tuple is made when it is needed (``settle``), instead of
    once for each replacement, which is quadratic still.
    """

    def __init__(self) -> None:
        self._slots: dict[tuple[Op, str], _Slot] = {}
        self._deferring = False
        self._deferred: dict[Op, dict[str, _Slot]] = {}

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Within it, replacements in wide slots of operators without nested graphs may be put off.

        Whoever looks at the operands of such an operator has to ``settle`` it first.
        """
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False
            for op in list(self._deferred):
                self.settle(op)

    def settle(self, op: Op) -> None:
        """Make the replacements in an operator's slots that were put off."""
        for slot, index in self._deferred.pop(op, {}).items():
            index.values = op.inputs[slot] = tuple(index.items)

    def replace(self, op: Op, old: Value, new: Value) -> None:
        """Make an operator read ``new`` in every place of ``old``."""
        for slot, values in op.inputs.items():
            # A sum of thousands of values has an index of places, so that replacing one by one stays linear.
            if len(values) > WIDE:
                op.inputs[slot] = self._replaced(op, slot, old, new)
            elif old in values:
                op.inputs[slot] = tuple([new if v is old else v for v in values])

    def _replaced(self, op: Op, slot: str, old: Value, new: Value) -> tuple[Value, ...]:
        index = self._deferred.get(op, {}).get(slot) or self._slots.pop((op, slot), None)
        # Tuples are never changed in place, so identity says that nothing else has set the slot since.
        if index is None or index.values is not op.inputs[slot]:
            index = _indexed(op.inputs[slot])
        self._slots[op, slot] = index
        if len(self._slots) > _INDEXED:
            del self._slots[next(iter(self._slots))]
        places = index.places.pop(old, None)
        if places:
            for place in places:
                index.items[place] = new
            # ``new`` may fill other places of the slot already; those of ``old`` join them.
            new_places = index.places.setdefault(new, places)
            if new_places is not places:
                new_places += places
            if self._deferring and not op.graphs:
                self._deferred.setdefault(op, {})[slot] = index
            else:
                index.values = tuple(index.items)
        return index.values


def _indexed(values: tuple[Value, ...]) -> _Slot:
    places: dict[Value, list[int]] = {}
    for i, value in enumerate(values):
        places.setdefault(value, []).append(i)
    return _Slot(values, list(values), places)


# -- tables ----------------------------------------------------------------------------------------
# The tables of a graph: its operators in order, and its values by name.


class OpList:
    """The operators of a graph in order; the one being looked at may be removed, others inserted, meanwhile.

    ``in_places`` are the operators by their places, None where some may not know theirs.
    """

    def __init__(self) -> None:
        self.first: Op | None = None
        self.last: Op | None = None
        self.count = 0
        self.in_places: list[Op] | None = None

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Op]:
        op = self.first
        while op is not None:
            # Read before the operator is yielded, since the loop over it may remove it.
            next_op = op.next
            yield op
            op = next_op

    @overload
    def __getitem__(self, place: int) -> Op: ...

    @overload
    def __getitem__(self, place: slice) -> list[Op]: ...

    def __getitem__(self, place: int | slice) -> Op | list[Op]:
        """The operator at a place, counted from the last one if it is negative; of a slice a list.

        A linked list is walked to it, so that a loop over places takes quadratic time: iterate instead.
        """
        if isinstance(place, slice):
            return list(self)[place]
        if not -self.count <= place < self.count:
            raise IndexError(f"operator {place} of a graph that has {self.count}")
        # From the nearer end, so that the last operators are as quick as the first ones.
        forward = place % self.count
        backward = self.count - 1 - forward
        return next(islice(self, forward, None)) if forward <= backward else next(islice(reversed(self), backward, None))

    def numbered(self) -> list[Op]:
        """The operators, each of which knows its place now (``order``)."""
        if self.in_places is None:
            ops, op, place = [], self.first, 0
            while op is not None:
                op.order = place
                ops.append(op)
                op, place = op.next, place + 1
            self.in_places = ops
        return self.in_places.copy()

    def __reversed__(self) -> Iterator[Op]:
        op = self.last
        while op is not None:
            next_op = op.previous
            yield op
            op = next_op

    def insert(self, op: Op, before: Op | None) -> None:
        """Link an operator in before another one, or last."""
        # Only links change: an operator's place among thousands costs nothing, and ``ordered_ops`` numbers them when it is next called.
        previous = self.last if before is None else before.previous
        op.previous, op.next = previous, before
        if previous is None:
            self.first = op
        else:
            previous.next = op
        if before is None:
            self.last = op
        else:
            before.previous = op
        self.count += 1
        self.in_places = None

    def unlink(self, op: Op) -> None:
        """Take an operator out."""
        if op.previous is None:
            self.first = op.next
        else:
            op.previous.next = op.next
        if op.next is None:
            self.last = op.previous
        else:
            op.next.previous = op.previous
        self.count -= 1
        self.in_places = None


Versions = dict[Value, None]


class ValueTable:
    """The values of a graph, by name; a name may have several, its versions, the last of which is its final value.

    ``contested`` holds the names that have, or had, several. ``reserved`` holds names that are taken although no value has them:
    those that the graph's block declares. Adding, removing and looking up the first or last version take constant time, so that a
    name may be written any number of times.
    """

    def __init__(self, reserved: Mapping[str, object]) -> None:
        self.reserved = reserved
        self.by_name: dict[str, Value | Versions] = {}
        self.count = 0
        self.contested: dict[str, None] = {}
        self.suffixes: dict[tuple[str, str], tuple[str, int]] = {}
        self._numbers: dict[str, dict[Value, int]] = {}

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Value]:
        return self._all() if self.contested else iter(self.by_name.values())  # type: ignore[arg-type]  # then each name has one

    def _all(self) -> Iterator[Value]:
        for entry in self.by_name.values():
            if isinstance(entry, Value):
                yield entry
            else:
                yield from entry

    def __getitem__(self, name: object) -> NoReturn:
        # A name may have several values, so the methods of a graph say which one is meant.
        raise TypeError(
            f"a graph's values have no index: graph.value({name!r}) is the last value of a name, graph.versions({name!r}) are all"
        )

    def versions(self, name: str) -> tuple[Value, ...]:
        """All values of a name, oldest first."""
        entry = self.by_name.get(name, ())
        return (entry,) if isinstance(entry, Value) else tuple(entry)

    def first(self, name: str) -> Value | None:
        """The oldest value of a name, None if it has none."""
        entry = self.by_name.get(name)
        return next(iter(entry)) if isinstance(entry, dict) else entry

    def last(self, name: str) -> Value | None:
        """The final value of a name, None if it has none."""
        entry = self.by_name.get(name)
        return next(reversed(entry)) if isinstance(entry, dict) else entry

    def number(self, value: Value) -> int | None:
        """The number of a value among those of its name, from 0; None if it is the only one, or none of them."""
        entry = self.by_name.get(value.name)
        if not isinstance(entry, dict):
            return None
        if value.name not in self._numbers:
            self._numbers[value.name] = {version: i for i, version in enumerate(entry)}
        return self._numbers[value.name].get(value)

    def add(self, value: Value) -> None:
        """Make the value the last version of its name."""
        name = value.name
        if name in self.by_name:
            self._several(name)[value] = None
        else:
            self.by_name[name] = value
        self.count += 1

    def add_first(self, value: Value) -> None:
        """Make the value the first version of its name."""
        if value.name not in self.by_name:
            return self.add(value)
        self.by_name[value.name] = {value: None, **self._several(value.name)}
        self.count += 1

    def _several(self, name: str) -> Versions:
        """The versions of a name that is to have several, to be changed."""
        # Nearly all names have one value, stored as it is; a second one makes a table of versions.
        entry = self.by_name[name]
        if isinstance(entry, Value):
            entry = self.by_name[name] = {entry: None}
        self.contested[name] = None
        self._numbers.pop(name, None)
        return entry

    def exchange(self, old: Value, new: Value) -> None:
        """Put a value that has no name in the place of another one."""
        entry = self.by_name[old.name]
        if isinstance(entry, Value):
            self.by_name[old.name] = new
        elif self.last(old.name) is old:
            versions = self._several(old.name)
            del versions[old]
            versions[new] = None
        else:
            # In the middle: versions are in order, so the dict is built again.
            self.by_name[old.name] = {new if v is old else v: None for v in self._several(old.name)}

    def discard(self, value: Value) -> None:
        """Forget a value."""
        self.count -= 1
        entry = self.by_name[value.name]
        if isinstance(entry, Value):
            if entry is value:
                del self.by_name[value.name]
            return
        entry.pop(value, None)
        self._numbers.pop(value.name, None)
        if len(entry) == 1:
            self.by_name[value.name] = next(iter(entry))

    def taken(self, name: str) -> bool:
        """Whether a value has the name, or the block declares it."""
        return name in self.by_name or name in self.reserved

    def fresh(self, stem: str, pattern: str = "{}_{}") -> str:
        """A name no value has: the stem, or the stem with the next number."""
        if not self.taken(stem):
            return stem
        return self.numbered(stem, pattern)

    def numbered(self, stem: str, pattern: str) -> str:
        """A name no value has, made of the stem and the next number, with which the pattern ends."""
        # The last number is remembered for each pattern: counting from 0 each time is quadratic when a pass makes thousands of names.
        key = stem, pattern
        start, n = self.suffixes.get(key) or (pattern.format(stem, ""), 0)
        while (name := f"{start}{n}") in self.by_name or name in self.reserved:
            n += 1
        self.suffixes[key] = start, n + 1
        return name
