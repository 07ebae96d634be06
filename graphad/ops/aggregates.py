"""Values that are not one array: arrays of tensors, tapes, and the residuals of blocks. None of them ever changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np

from graphad.errors import InvalidValue
from graphad.types import Tensor


class Aggregate:
    """Several tensors as one value; gradients of it are added with ``+``."""

    __slots__ = ()
    # numpy leaves ``array + aggregate`` to the aggregate, instead of adding it to each of the elements.
    __array_ufunc__ = None

    def zeros_like(self) -> Self:
        """The zero of the gradients of this value."""
        raise NotImplementedError

    def parts(self) -> Iterator[Tensor]:
        """The tensors (and aggregates) in it."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """The bytes of the tensors in it."""
        return sum(part.nbytes for part in self.parts() if part is not None)


class TensorArray(Aggregate):
    """Tensors by index; a slot that was not written is empty (in a gradient: zero). ``write`` makes a new array and leaves this one.

    All versions share one dict; the newest holds it, an older one what differs, so that reading and writing the newest take
    constant time, also when the versions are visited backwards (H. Baker, "Shallow binding makes functional arrays fast",
    1991).
    """

    __slots__ = ("_state", "length")

    def __init__(self, items: Sequence[Tensor] = ()) -> None:
        self._state: dict[int, Tensor] | tuple[int, Tensor, TensorArray] = dict(enumerate(items))
        self.length = len(items)

    def _entries(self) -> dict[int, Tensor]:
        """The shared dict, made to show this version."""
        if type(self._state) is dict:
            return self._state
        # Versions are a tree of differences whose root has the dict. From the root to here the path is turned around, step by step, so that
        # the dict shows this version and those on the way hold the differences to it.
        path = [self]
        while not isinstance(path[-1]._state, dict):
            path.append(path[-1]._state[2])
        entries: dict[int, Tensor] = path[-1]._state
        for newer, older in zip(path[:0:-1], path[-2::-1], strict=True):
            index, item, _ = older._state
            newer._state = (index, entries.get(index), older)
            if item is None:
                entries.pop(index, None)
            else:
                entries[index] = item
            older._state = entries
        return entries

    def _changed(self, index: int, item: Tensor, length: int) -> TensorArray:
        entries = self._entries()
        newer = TensorArray.__new__(TensorArray)
        newer._state, newer.length = entries, length
        self._state = (index, entries.get(index), newer)
        if item is None:
            entries.pop(index, None)
        else:
            entries[index] = item
        return newer

    def write(self, index: int, item: Tensor) -> TensorArray:
        """This array with another tensor at an index, as long as needed."""
        if index < 0:
            raise InvalidValue(f"an array is written at an index from 0 on, not at {index}")
        return self._changed(index, item, max(self.length, index + 1))

    def without(self, index: int) -> TensorArray:
        """This array with nothing at an index."""
        return self._changed(index, None, self.length)

    def erase(self, index: int) -> TensorArray:
        """This array without the slot at an index, so that later ones move up; the same beyond the end.

        Of the last slot it takes constant time: loops that go backwards take one tensor after the other from the end.
        """
        if not 0 <= index < self.length:
            return self
        array, last = self, self.length - 1
        for i in range(index, last):
            array = array._changed(i, array._entries().get(i + 1), self.length)
        return array._changed(last, None, last)

    def insert(self, index: int, item: Tensor) -> TensorArray:
        """This array with one slot more at an index, which holds a tensor or, of None, nothing; later ones move down."""
        if index < 0:
            raise InvalidValue(f"an array gets a slot at an index from 0 on, not at {index}")
        array, length = self, max(self.length, index) + 1
        for i in range(self.length, index, -1):
            array = array._changed(i, array._entries().get(i - 1), length)
        return array._changed(index, item, length)

    def read(self, index: int) -> Tensor:
        """The tensor at an index, None if the slot is empty; ValueError beyond the end."""
        if not 0 <= index < self.length:
            raise InvalidValue(f"index {index} is out of range for an array of {self.length}")
        return self._entries().get(index)

    def items(self) -> list[tuple[int, Tensor]]:
        """Index and tensor of every slot that is not empty, in order."""
        return sorted(self._entries().items())

    def parts(self) -> Iterator[Tensor]:
        return iter([item for _, item in self.items()])

    def zeros_like(self) -> TensorArray:
        zero = TensorArray()
        zero.length = self.length
        return zero

    def __add__(self, other: TensorArray) -> TensorArray:
        if not isinstance(other, TensorArray):
            return NotImplemented  # an engine may have arrays of its own
        # The larger one is extended by what the smaller one has: fewer writes.
        few, many = sorted((other, self), key=lambda array: len(array._entries()))
        total = many
        for index, item in few.items():
            old = total._entries().get(index)
            total = total.write(index, item if old is None else old + item)
        return total._resized(max(self.length, other.length))

    def _resized(self, length: int) -> TensorArray:
        # A write of what is there already makes a version with another length.
        return self if length == self.length else self._changed(0, self._entries().get(0), length)

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"TensorArray({[getattr(x, 'tolist', lambda x=x: x)() for x in map(self.read, range(self.length))]})"


class Tape(Aggregate):
    """A stack of tuples: what a loop saved, the last iteration on top."""

    __slots__ = ("length", "rest", "top")

    # A linked list: pushing and popping take constant time, and all tapes share what is below their top.
    def __init__(self, top: tuple[Tensor, ...] = (), rest: Tape | None = None) -> None:
        self.top = top
        self.rest = rest
        self.length: int = 0 if rest is None else rest.length + 1

    def push(self, items: Sequence[Tensor]) -> Tape:
        """The tape with one more entry."""
        return Tape(tuple(items), self)

    def pop(self) -> tuple[Tape, list[Tensor]]:
        """The tape below the last entry, and that entry."""
        if self.rest is None:
            raise InvalidValue("the tape is empty: there is nothing left to take from it")
        return self.rest, list(self.top)

    def entries(self) -> list[tuple[Tensor, ...]]:
        """The entries, the oldest first."""
        entries, tape = [], self
        while tape.rest is not None:
            entries.append(tape.top)
            tape = tape.rest
        return entries[::-1]

    def parts(self) -> Iterator[Tensor]:
        return (item for entry in self.entries() for item in entry)

    def zeros_like(self) -> Tape:
        return _tape([tuple(map(zeros_like, entry)) for entry in self.entries()])

    def __add__(self, other: Tape) -> Tape:
        if not isinstance(other, Tape):
            return NotImplemented
        # Strict: two gradients of one loop have as many entries as it ran iterations.
        pairs = zip(self.entries(), other.entries(), strict=True)
        return _tape([tuple(map(_added, x, y)) for x, y in pairs])

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"<Tape of {self.length}>"


class StepScopes(Aggregate):
    """The residuals of the runs of a block: the values of each run by name, the last run last.

    ``count`` says for a loop that keeps only some of its iterations how many it ran.
    """

    __slots__ = ("count", "steps")

    def __init__(self, steps: list[dict[str, object]], count: int) -> None:
        self.steps = steps
        self.count = count

    def parts(self) -> Iterator[Tensor]:
        return (value for step in self.steps for value in step.values())

    def zeros_like(self) -> StepScopes:
        raise InvalidValue("what a block keeps for its gradient has no gradient itself: expand-grad-ops makes a tape of it")

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        return f"<StepScopes of {self.count} runs, {self.nbytes} bytes>"


class Checkpoints(StepScopes):
    """The starts of some iterations of a loop: what it carried at iterations 0, ``every``, 2 ``every``... (0: at the first alone).

    ``context`` is what else its block reads, ``path`` the iterations of the loops around it.
    """

    __slots__ = ("context", "every", "path")

    def __init__(self, steps: list[dict[str, object]], count: int, every: int, context: dict[str, object], path: tuple[int, ...]) -> None:
        super().__init__(steps, count)
        self.every = every
        self.context = context
        self.path = path


def _tape(entries: list[tuple[Tensor, ...]]) -> Tape:
    tape = Tape()
    for entry in entries:
        tape = tape.push(entry)
    return tape


def _added(a: Tensor, b: Tensor) -> Tensor:
    return b if a is None else a if b is None else a + b


def zeros_like(value: object) -> Tensor:
    """Zeros for an array or an aggregate, nothing for nothing."""
    return value if value is None else value.zeros_like() if isinstance(value, Aggregate) else np.zeros_like(value)


def settled(value: Tensor) -> Tensor:
    """The result of a kernel, as an array or an aggregate."""
    return value if isinstance(value, np.ndarray | Aggregate) else np.asarray(value)
