"""Values of several tensors, as XLA has them: of known length in loops, and as trees of arrays everywhere.

An array of tensors whose indices are known stays a ``TensorArray``. In a loop it is a ``Buffer``: one tensor with a row for each index.
What the iterations keep for a gradient is a ``Stack``, or where ``expand-grad-ops`` made a tape of it, a ``TapeBuffer``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from graphad.errors import InvalidValue
from graphad.jax.bounded import Bounded
from graphad.jax.registry import is_traced, refuse, side
from graphad.ops.aggregates import Aggregate, StepScopes, Tape, TensorArray
from graphad.types import Tensor

Tree = Tensor  # of arrays


class Buffer(Aggregate):
    """An array of tensors of one type: ``data[i]`` is the tensor at index i where ``filled[i]``, else zeros."""

    __slots__ = ("data", "filled", "length")

    def __init__(self, data: Tensor, filled: Tensor, length: Tensor) -> None:
        self.data, self.filled, self.length = data, filled, length

    @classmethod
    def empty(cls, capacity: int) -> Self:
        """A buffer whose elements are not known yet."""
        return cls(None, np.zeros(capacity, bool), np.int64(0))

    @property
    def capacity(self) -> int:
        return int(self.filled.shape[0])

    @property
    def rank(self) -> int:
        """The rank of its tensors.

        Raises:
            InvalidValue: it has none yet.
        """
        if self.data is None:
            raise InvalidValue("nothing was written to the array, so the type of its elements is not known")
        return int(self.data.ndim) - 1

    def typed(self, item: Tensor) -> Buffer:
        """The buffer with room for tensors like one."""
        if self.data is not None:
            return self
        return Buffer(jnp.zeros((self.capacity, *item.shape), item.dtype), self.filled, self.length)

    def sized(self, capacity: int) -> Buffer:
        """The buffer with another capacity, no smaller than it is."""
        more = capacity - self.capacity
        if more <= 0:
            return self
        data = None if self.data is None else jnp.concatenate([self.data, jnp.zeros((more, *self.data.shape[1:]), self.data.dtype)])
        return Buffer(data, jnp.concatenate([jnp.asarray(self.filled), jnp.zeros(more, bool)]), self.length)

    def write(self, index: Tensor, item: Tensor) -> Buffer:
        """With another tensor at an index."""
        item = jnp.asarray(item)
        buffer = self.typed(item)
        if buffer.data.shape[1:] != item.shape:
            raise InvalidValue(
                f"the array holds tensors of the shape {list(buffer.data.shape[1:])}, and one of {list(item.shape)} is written in a loop"
            )
        refuse((index < 0) | (index >= self.capacity), f"the array is written beyond the {self.capacity} elements that there is room for")
        # It is refused after the run; until then nothing may be written beyond the room.
        at = jnp.clip(index, 0, self.capacity - 1)
        length = jnp.maximum(jnp.asarray(self.length), jnp.asarray(index, jnp.int64) + 1)
        # Under a trace nothing changes in place: XLA makes it so where the old buffer has no other reader.
        mask = jnp.asarray(self.filled).at[at].set(True)
        return Buffer(buffer.data.at[at].set(item.astype(buffer.data.dtype)), mask, length)

    def without(self, index: Tensor) -> Buffer:
        """With nothing at an index; the same if it has no place there."""
        if self.data is None:
            return self
        at = jnp.where(jnp.asarray(index) < 0, self.capacity, index)  # beyond the end, where jax drops what is set
        data, mask = self.data.at[at].set(0, mode="drop"), jnp.asarray(self.filled).at[at].set(False, mode="drop")
        return Buffer(data, mask, self.length)

    def erase(self, index: Tensor) -> Buffer:
        """Without the slot at an index, so that later ones move up; the same if there is none."""
        if self.data is None:
            return self
        places = jnp.arange(self.capacity)
        is_there = (jnp.asarray(index) >= 0) & (index < jnp.asarray(self.length))
        stack = self._taken(jnp.where(is_there & (places >= index), places + 1, places))
        return Buffer(stack.data, stack.filled, jnp.asarray(self.length) - is_there)

    def insert(self, index: Tensor, item: Tensor) -> Buffer:
        """With one slot more at an index, which holds a tensor or, of None, nothing; later ones move down."""
        if self.data is None and item is None:
            return self
        length = jnp.maximum(jnp.asarray(self.length), jnp.asarray(index, jnp.int64)) + 1
        refuse((index < 0) | (length > self.capacity), f"the array grows beyond the {self.capacity} elements that there is room for")
        if self.data is None:
            return self.write(index, item)
        places = jnp.arange(self.capacity)
        stack = self._taken(jnp.where(places > index, places - 1, places)).without(index)
        stack = stack if item is None else stack.write(index, item)
        return Buffer(stack.data, stack.filled, length)

    def _taken(self, places: Tensor) -> Buffer:
        """The slots at places, empty ones for those beyond the room; of the same length."""
        # Zeros and not filled: the invariant on which sums and reads of empty places rest.
        data = jnp.take(self.data, places, axis=0, mode="fill", fill_value=0)
        return Buffer(data, jnp.take(jnp.asarray(self.filled), places, mode="fill", fill_value=False), self.length)

    def read(self, index: Tensor) -> Tensor:
        """The tensor at an index; zeros where there is none."""
        if self.data is None:
            raise InvalidValue("nothing was written to the array before the loop, so the type of its elements is not known")
        return jax.lax.dynamic_index_in_dim(self.data, jnp.clip(index, 0, self.capacity - 1), keepdims=False)

    def zeros_like(self) -> Buffer:
        data = None if self.data is None else jnp.zeros_like(self.data)
        return Buffer(data, np.zeros(self.capacity, bool), self.length)

    def parts(self) -> Iterator[Tensor]:
        return iter(() if self.data is None else (self.data,))

    def __add__(self, right: Tensor) -> Buffer:
        right = as_buffer(right, self.capacity)
        # Both ways round, since either may have more room than the other.
        left = self.sized(right.capacity)
        right = right.sized(left.capacity)
        present = [data for data in (left.data, right.data) if data is not None]
        # Empty places hold zeros, so sums of the data are sums of the elements.
        data = sum(present[1:], start=present[0]) if present else None
        return Buffer(data, jnp.logical_or(left.filled, right.filled), jnp.maximum(left.length, right.length))

    def __radd__(self, other: Tensor) -> Buffer:
        return self + other

    def __len__(self) -> int:
        return _known_length(self.length, "array")

    def settled(self, like: TensorArray) -> TensorArray:
        """The array of tensors that has elements where another one has them."""
        items = dict(like.items())
        array = TensorArray([self.data[i] if i in items else None for i in range(len(like))])
        for i in range(len(like)):
            if i not in items:
                array = array.without(i)
        return array


def as_buffer(array: Tensor, capacity: int) -> Buffer:
    """An array of tensors as a buffer of at least a capacity."""
    if isinstance(array, Buffer):
        return array.sized(capacity)
    # At least one place, so that an index that is clipped to the room has one.
    capacity = max(capacity, len(array), 1)
    buffer = Buffer.empty(capacity)
    items = array.items()
    if not items:
        return Buffer(None, buffer.filled, np.int64(len(array)))
    shapes = {tuple(item.shape) for _, item in items}
    if len(shapes) > 1:
        raise InvalidValue(f"a loop reads or writes an array whose tensors have several shapes: {sorted(map(list, shapes))}")
    # Empty places hold zeros, which the mask tells from elements.
    zero = jnp.zeros_like(items[0][1])
    elements = dict(items)
    data = jnp.stack([jnp.asarray(elements.get(i, zero)) for i in range(capacity)])
    mask = np.array([i in elements for i in range(capacity)])
    return Buffer(data, mask, np.int64(len(array)))


class TapeBuffer(Aggregate):
    """A tape as a stack: ``entries`` is a tuple of trees with a row for each entry, None where all entries have none."""

    __slots__ = ("capacity", "entries", "length")

    def __init__(self, entries: tuple[Tree, ...] | None, length: Tensor, capacity: int) -> None:
        self.entries, self.length, self.capacity = entries, length, capacity

    def push(self, items: Tensor) -> TapeBuffer:
        """With one more entry."""
        items = tuple(None if item is None else jax.tree.map(jnp.asarray, item) for item in items)
        entries = self.entries
        if entries is None:
            # The first entry says which types the others have: a scan carries one structure from its first iteration to its last.
            entries = tuple(jax.tree.map(lambda x: jnp.zeros((self.capacity, *x.shape), x.dtype), item) for item in items)
        refuse(jnp.asarray(self.length) >= self.capacity, f"the tape has more than the {self.capacity} entries that there is room for")
        # What is beyond the capacity is written over the last entry, and refused after the run.
        at = jnp.clip(self.length, 0, self.capacity - 1)
        pairs = [_with_slots_of_both(row, item, self.capacity) for row, item in zip(entries, items, strict=True)]
        new_entries = tuple(jax.tree.map(lambda rows, x: rows.at[at].set(x), row, item) for row, item in pairs)
        return TapeBuffer(new_entries, jnp.asarray(self.length) + 1, self.capacity)

    def pop(self) -> tuple[TapeBuffer, list[Tree]]:
        """Without the last entry, and that entry."""
        if self.entries is None:
            raise InvalidValue("the tape is empty: there is nothing left to take from it")
        at = jnp.clip(jnp.asarray(self.length) - 1, 0, self.capacity - 1)
        items = [jax.tree.map(lambda rows: jax.lax.dynamic_index_in_dim(rows, at, keepdims=False), row) for row in self.entries]
        # The row stays, and is written over by the next push: how many there are says the length.
        return TapeBuffer(self.entries, jnp.asarray(self.length) - 1, self.capacity), items

    def zeros_like(self) -> TapeBuffer:
        return TapeBuffer(jax.tree.map(_zero, self.entries), self.length, self.capacity)

    def __add__(self, right: Tensor) -> TapeBuffer:
        right = as_tape_buffer(right, self.capacity)
        if self.entries is None or right.entries is None:
            return self if right.entries is None else right
        pairs = zip(self.entries, right.entries, strict=True)
        entries = tuple(b if a is None else a if b is None else jax.tree.map(jnp.add, a, b) for a, b in pairs)
        return TapeBuffer(entries, self.length, self.capacity)

    def __radd__(self, other: Tensor) -> TapeBuffer:
        return self + other

    def __len__(self) -> int:
        return _known_length(self.length, "tape")

    def parts(self) -> Iterator[Tensor]:
        return iter(jax.tree.leaves(self.entries))


def _with_slots_of_both(row: Tree, item: Tree, capacity: int) -> tuple[Tree, Tree]:
    """The rows of a tape and an entry for them: an array of tensors in one has elements where it has them in the other.

    An array may lack an element in some entries, which no operator reads then; a cotangent lacks those that are zero. So zeros stand
    for it.
    """
    rows = jax.tree.map(lambda own, other: _filled(own, other, lambda x: (capacity, *x.shape)), row, item, is_leaf=_is_array)
    return rows, jax.tree.map(lambda own, other: _filled(own, other, lambda x: x.shape[1:]), item, row, is_leaf=_is_array)


def _is_array(tree: Tree) -> bool:
    return isinstance(tree, TensorArray)


def _filled(tree: Tree, other: Tree, shape: Callable[[Tensor], tuple[int, ...]]) -> Tree:
    """An array with zeros where only another one of the same length has an element; anything else as it is."""
    if not (_is_array(tree) and _is_array(other) and len(tree) == len(other)):
        return tree
    present = dict(tree.items())
    for index, element in other.items():
        if index not in present:
            tree = tree.write(index, jnp.zeros(shape(element), element.dtype))
    return tree


def _zero(x: Tensor) -> Tensor:
    # Indices and counts have no gradient, and are kept so that a pop of it has the same types.
    return jnp.zeros_like(x) if np.dtype(x.dtype).kind == "f" else x


def as_tape_buffer(tape: Tensor, capacity: int) -> TapeBuffer:
    """A tape as a stack of at least a capacity."""
    if isinstance(tape, TapeBuffer):
        return tape
    entries = tape.entries()
    buffer = TapeBuffer(None, np.int64(0), max(capacity, len(entries), 1))
    for entry in entries:
        buffer = buffer.push(entry)
    return TapeBuffer(buffer.entries, np.int64(len(entries)), buffer.capacity)


class Either(Aggregate):
    """The tape that a branch wrote: one for each side, zeros for that which did not run, and None for one that never does.

    Each side pushes what its own gradient reads, so their tapes have different types. The gradient is a branch with the same sides, each
    of which pops what its counterpart pushed.
    """

    __slots__ = ("sides",)

    def __init__(self, sides: Sequence[Tensor]) -> None:
        self.sides = tuple(sides)

    @property
    def only(self) -> int | None:
        """The side that always runs; None if only the run says which does."""
        return next((1 - i for i, tape in enumerate(self.sides) if tape is None), None)

    def pop(self) -> tuple[Tensor, list[Tree]]:
        """The tape of the side that is being lowered without its last entry, and that entry."""
        rest, items = self.sides[side()].pop()
        return rest, list(items)

    def zeros_like(self) -> Either:
        return Either([zeros_of(tape) for tape in self.sides])

    def __add__(self, right: Either) -> Either:
        return Either([None if a is None else a + b for a, b in zip(self.sides, right.sides, strict=True)])

    def parts(self) -> Iterator[Tensor]:
        return iter(jax.tree.leaves(self.sides))


class Stack(Aggregate):
    """The residuals of a loop: trees by name with a row for each iteration, and those that are the same in all iterations."""

    __slots__ = ("count", "fixed", "rows")

    def __init__(self, rows: dict[str, Tree], fixed: dict[str, Tree], count: Tensor) -> None:
        self.rows, self.fixed, self.count = rows, fixed, count

    def at(self, index: Tensor) -> dict[str, Tree]:
        """The residuals of one iteration."""
        rows = jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, index, keepdims=False), self.rows)
        return {**rows, **self.fixed}

    def zeros_like(self) -> Stack:
        raise InvalidValue("what a block keeps for its gradient has no gradient itself: expand-grad-ops makes a tape of it")

    def parts(self) -> Iterator[Tensor]:
        return iter(jax.tree.leaves((self.rows, self.fixed)))


class Kept(Aggregate):
    """The residuals of a branch: for each block of the operator its values by name, zeros for those of the one that did not run.

    None is in the place of a block that never runs, as is known where the branch is, and perhaps not where its gradient is.
    """

    __slots__ = ("blocks",)

    def __init__(self, blocks: Sequence[dict[str, Tree] | None]) -> None:
        self.blocks = list(blocks)

    @property
    def only(self) -> int | None:
        """The block that always runs; None if only the run says which does."""
        return next((1 - i for i, block in enumerate(self.blocks) if block is None), None)

    def zeros_like(self) -> Kept:
        raise InvalidValue("what a block keeps for its gradient has no gradient itself: expand-grad-ops makes a tape of it")

    def parts(self) -> Iterator[Tensor]:
        return iter(jax.tree.leaves(self.blocks))


def zeros_of(value: Tensor) -> Tensor:
    """Zeros like a value, nothing for nothing."""
    if value is None:
        return None
    if isinstance(value, Tape):
        tape = Tape()
        for entry in value.entries():
            tape = tape.push(list(map(zeros_of, entry)))
        return tape
    if isinstance(value, Aggregate):
        return value.zeros_like()
    return np.zeros_like(value) if isinstance(value, np.ndarray) else jnp.zeros_like(value)


def _known_length(length: Tensor, what: str) -> int:
    if is_traced(length):
        raise InvalidValue(f"how long the {what} is, is known only when the program runs")
    return int(length)


# -- trees ---------------------------------------------------------------------------------------


def _register(kind: type, apart: Callable[[Tensor], tuple[Tensor, Tensor]], together: Callable[[Tensor, Tensor], Tensor]) -> None:
    jax.tree_util.register_pytree_node(kind, apart, together)


def _array_together(aux: tuple[tuple[int, ...], int], items: Tensor) -> TensorArray:
    indices, length = aux
    array = TensorArray()
    for index, item in zip(indices, items, strict=True):
        array = array.write(index, item)
    # An array may end with empty places, which no element makes.
    return array if length == len(array) else array._changed(0, array._entries().get(0), length)


def _tape_together(_: int, entries: Tensor) -> Tape:
    tape = Tape()
    for entry in entries:
        tape = tape.push(entry)
    return tape


# Apart into the parts that XLA sees, and the rest, which is of the type: it has to be equal where a loop or a branch joins two values.
_register(TensorArray, lambda a: ([item for _, item in a.items()], (tuple(i for i, _ in a.items()), len(a))), _array_together)
_register(Tape, lambda t: (t.entries(), len(t)), _tape_together)
_register(StepScopes, lambda s: (s.steps, s.count), lambda count, steps: StepScopes(list(steps), count))
_register(Buffer, lambda b: ((b.data, b.filled, b.length), None), lambda _, parts: Buffer(*parts))
_register(TapeBuffer, lambda t: ((t.entries, t.length), t.capacity), lambda capacity, parts: TapeBuffer(parts[0], parts[1], capacity))
_register(Either, lambda e: (e.sides, None), lambda _, sides: Either(sides))
_register(Bounded, lambda b: ((b.data, b.count), b.axis), lambda axis, parts: Bounded(parts[0], parts[1], axis))
_register(Stack, lambda s: ((s.rows, s.fixed, s.count), None), lambda _, parts: Stack(*parts))
_register(Kept, lambda k: ((k.blocks,), None), lambda _, parts: Kept(*parts))
