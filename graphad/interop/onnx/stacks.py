"""Arrays of tensors and tapes, in two forms: as tensors with a row for each element, or as sequences of tensors.

    rows          while(tape) { tape' = push(tape, h) }    ⇒    Loop { ... } -> (..., [n, *h])      a stacked output of the loop
    sequences     elements of shapes that differ           ⇒    SequenceInsert, SequenceAt, SequenceErase

ONNX has no sequences of sequences. Of a tape that is pushed onto a tape the rows are pushed; one that is sequences has them appended to
one sequence, and how many elements each push appended is kept in another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from graphad.interop.onnx.emitting import Dim, Nodes
from graphad.interop.onnx.terms import Term, on


@dataclass(frozen=True)
class Leaf:
    """A tensor in an entry: its dtype, its number of axes, and what is known of its extents."""

    dtype: str
    rank: int
    shape: tuple[int, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Part:
    """One sequence: the dtype of its tensors, and whether they are lengths that a sum leaves as they are."""

    dtype: str
    counts: bool = False


@dataclass(frozen=True)
class Layout:
    """The structure of a tape: for each kind of entry its elements, which are tensors or tapes. An array has one kind of entry, of one
    tensor."""

    entries: tuple[tuple[Leaf | Layout, ...], ...]
    is_array: bool = False
    is_rows: bool = True

    @property
    def rank(self) -> int:
        """The number of axes of an array's elements."""
        ((leaf,),) = self.entries
        assert isinstance(leaf, Leaf)
        return leaf.rank

    def leaves(self) -> list[list[Leaf]]:
        """The tensors that each kind of entry is made of, for rows."""
        return [[leaf for element in entry for leaf in element_leaves(element)] for entry in self.entries]

    def parts(self) -> list[Part]:
        """Its sequences: one that counts entries where they are of several kinds, then those of each kind."""
        marks = [Part("bool", counts=True)] if len(self.entries) > 1 else []
        return [*marks, *(part for entry in self.entries for element in entry for part in element_parts(element))]


def element_leaves(element: Leaf | Layout) -> list[Leaf]:
    """The tensors of one element of an entry."""
    if isinstance(element, Leaf):
        return [element]
    # Pushed onto a tape, rows have one axis more, for the outer tape's entries.
    return [Leaf(leaf.dtype, leaf.rank + 1, (-1, *leaf.shape)) for entry in element.leaves() for leaf in entry]


def element_parts(element: Leaf | Layout) -> list[Part]:
    """The sequences of one element of an entry."""
    if isinstance(element, Leaf) or element.is_rows:
        return [Part(leaf.dtype) for leaf in element_leaves(element)]
    # An inner sequence becomes two: its elements, and how many each push appended.
    return [item for part in element.parts() for item in (part, Part("int64", counts=True))]


@dataclass(frozen=True, eq=False)
class Stack:
    """An array or a tape that is written.

    Attributes:
        layout: what it is made of.
        parts: its tensors, or its sequences; of rows none where there is no entry yet.
        count: of rows, how many entries there are.
        collected: in the body of a loop that stacks what is pushed, what was pushed in an iteration; None elsewhere.
    """

    layout: Layout
    parts: tuple[Term, ...] = ()
    count: Dim = 0
    collected: list[Term] | None = None


class NoRows(Exception):
    """An array or a tape cannot be rows: it has to be written as sequences."""

    def __init__(self, layout: Layout) -> None:
        super().__init__("no rows")
        self.layout = layout


# -- rows ----------------------------------------------------------------------------------------


def tensors_of(value: Term | Stack) -> list[Term]:
    """The tensors that a push of a tensor, or of rows, appends; NoRows for anything else."""
    if isinstance(value, Term):
        return [value]
    if not value.layout.is_rows or not value.parts:
        raise NoRows(value.layout)
    return list(value.parts)


def push_row(nodes: Nodes, stack: Stack, kind: int, values: Sequence[Term | Stack]) -> Stack:
    """Rows with one more: where the body of a loop pushes once they are stacked by the loop."""
    leaves = stack.layout.leaves()
    tensors = [nodes.cast(x, leaf.dtype) for x, leaf in zip((t for v in values for t in tensors_of(v)), leaves[kind], strict=True)]
    if stack.collected is not None:
        # One entry an iteration, since a loop's stacked output has one row for each.
        if len(leaves) > 1 or stack.collected:
            raise NoRows(stack.layout)
        stack.collected.extend(tensors)
        return stack
    if len(leaves) > 1:
        if stack.parts:
            raise NoRows(stack.layout)
        # Rows of an entry that may be of several kinds: one row for each kind, of which one holds the entry and the others zeros.
        none = [nodes.full([1, *(max(size, 0) for size in leaf.shape)], 0, leaf.dtype) for entry in leaves for leaf in entry]
        at = sum(len(entry) for entry in leaves[:kind])
        none[at : at + len(tensors)] = [nodes.unsqueeze(x, [0]) for x in tensors]
        return Stack(stack.layout, tuple(none), 1)
    rows = [nodes.unsqueeze(x, [0]) for x in tensors]
    if not stack.parts:
        return Stack(stack.layout, tuple(rows), 1)
    # The count decides, not the extent: a loop that pops leaves the tensors as they are and lowers the count alone.
    front = [nodes.part(part, 0, 0, stack.count) for part in stack.parts]
    return Stack(stack.layout, tuple(nodes.concat(list(pair), 0) for pair in zip(front, rows, strict=True)), stack.count + 1)


def pop_row(nodes: Nodes, stack: Stack, kind: int, shapes: Sequence[Sequence[int]]) -> tuple[Stack, list[Term | Stack]]:
    """Rows without the last entry, which is of a kind, and that entry."""
    if not stack.parts or stack.collected is not None:
        raise NoRows(stack.layout)
    leaves = stack.layout.leaves()
    at = sum(len(entry) for entry in leaves[:kind])
    # A tape whose entries are of several kinds has one of each at most, so there is nothing to count.
    last: Dim = 0 if len(leaves) > 1 else stack.count - 1
    place = nodes.as_scalar(last)
    values: list[Term | Stack] = []
    for member, shape in zip(stack.layout.entries[kind], shapes, strict=True):
        count = len(element_leaves(member))
        tensors = [nodes.gather(part, place, 0) for part in stack.parts[at : at + count]]
        at += count
        if isinstance(member, Layout):
            values.append(Stack(member, tuple(tensors), nodes.extent(tensors[0], 0)))
        else:
            tensors[0].refine(shape)
            # The tensors stay; the count says how many of their rows are entries.
            values.append(tensors[0])
    return Stack(stack.layout, stack.parts, 0 if len(leaves) > 1 else last), values


def as_sequences(nodes: Nodes, stack: Stack, layout: Layout) -> Stack:
    """Rows of an array as a sequence."""
    (part,) = stack.parts
    result = nodes.one("SplitToSequence", [part], part.kind, [], axis=0, keepdims=0)
    result.is_sequence = True
    return Stack(layout, (result,))


# -- sequences -----------------------------------------------------------------------------------


def empty(nodes: Nodes, layout: Layout) -> Stack:
    """Without elements."""
    if layout.is_rows:
        return Stack(layout)
    return Stack(layout, tuple(sequence(nodes, part.dtype) for part in layout.parts()))


def sequence(nodes: Nodes, dtype: str) -> Term:
    """A sequence without elements."""
    result = nodes.one("SequenceEmpty", [], dtype, [], dtype=np.dtype(dtype))
    result.is_sequence = True
    return result


def length(nodes: Nodes, items: Term) -> Term:
    """How many elements a sequence has."""
    return nodes.one("SequenceLength", [items], "int64", [])


def element(nodes: Nodes, items: Term, index: Term | int, shape: Sequence[int] = ()) -> Term:
    """An element of a sequence."""
    place = nodes.constant(np.asarray(index, "int64")) if isinstance(index, int) else index
    # keepdims=0: elements without the axis they were split along.
    return nodes.one("SequenceAt", [items, place], items.kind, shape)


def inserted(nodes: Nodes, items: Term, tensor: Term, index: Term | None = None) -> Term:
    """A sequence with one more element, at the end unless said."""
    return _changed(nodes, "SequenceInsert", items, [tensor, *([] if index is None else [index])])


def erased(nodes: Nodes, items: Term, index: Term | None = None) -> Term:
    """A sequence without an element: without the last unless said."""
    return _changed(nodes, "SequenceErase", items, [] if index is None else [index])


def _changed(nodes: Nodes, type: str, items: Term, others: list[Term]) -> Term:
    result = nodes.one(type, [items, *others], items.kind, [])
    result.is_sequence = True
    return result


# -- tapes ---------------------------------------------------------------------------------------


def push(nodes: Nodes, tape: Stack, kind: int, values: Sequence[Term | Stack]) -> Stack:
    """The tape with one more entry of a kind."""
    if tape.layout.is_rows:
        return push_row(nodes, tape, kind, values)
    parts = list(tape.parts)
    if len(tape.layout.entries) > 1:
        parts[0] = inserted(nodes, parts[0], nodes.constant(np.asarray(True)))
    at = _start(tape.layout, kind)
    for member, value in zip(tape.layout.entries[kind], values, strict=True):
        if isinstance(member, Layout) and not member.is_rows:
            assert isinstance(value, Stack)
            for inner in value.parts:
                # A sequence of sequences as two: all elements one after the other, and how many each push appended.
                parts[at], parts[at + 1] = _appended(nodes, parts[at], inner), inserted(nodes, parts[at + 1], length(nodes, inner))
                at += 2
        else:
            for tensor, leaf in zip(tensors_of(value), element_leaves(member), strict=True):
                parts[at] = inserted(nodes, parts[at], nodes.cast(tensor, leaf.dtype))
                at += 1
    return Stack(tape.layout, tuple(parts))


def pop(nodes: Nodes, tape: Stack, kind: int, shapes: Sequence[Sequence[int]]) -> tuple[Stack, list[Term | Stack]]:
    """The tape without its last entry, which is of a kind, and that entry."""
    if tape.layout.is_rows:
        return pop_row(nodes, tape, kind, shapes)
    parts, values = list(tape.parts), list[Term | Stack]()
    if len(tape.layout.entries) > 1:
        # The first part says of which kind each entry is.
        parts[0] = erased(nodes, parts[0])
    at = _start(tape.layout, kind)
    for member, shape in zip(tape.layout.entries[kind], shapes, strict=True):
        if isinstance(member, Layout) and member.is_rows:
            rows = []
            for leaf in element_leaves(member):
                rows.append(element(nodes, parts[at], -1, [-1] * leaf.rank))
                parts[at] = erased(nodes, parts[at])
                at += 1
            values.append(Stack(member, tuple(rows), 1 if len(member.entries) > 1 else nodes.extent(rows[0], 0)))
        elif isinstance(member, Layout):
            sequences = []
            for _ in member.parts():
                # Sequences cannot hold sequences: the entries' elements are one sequence, beside one with how many each has.
                parts[at], last = _split(nodes, parts[at], element(nodes, parts[at + 1], -1))
                parts[at + 1] = erased(nodes, parts[at + 1])
                sequences.append(last)
                at += 2
            values.append(Stack(member, tuple(sequences)))
        else:
            values.append(element(nodes, parts[at], -1, shape))
            parts[at] = erased(nodes, parts[at])
            at += 1
    return Stack(tape.layout, tuple(parts)), values


def _start(layout: Layout, kind: int) -> int:
    before = [part for entry in layout.entries[:kind] for member in entry for part in element_parts(member)]
    # The first part says the kinds, where there are several.
    return len(before) + (len(layout.entries) > 1)


def has_more(nodes: Nodes, tape: Stack) -> Term:
    """Whether a tape has an entry, as a vector of one element."""
    if tape.layout.is_rows:
        if isinstance(tape.count, int):
            return nodes.constant(np.asarray([tape.count > 0]))
        return nodes.reshape(on.greater(tape.count, 0), [1])
    if not tape.parts:
        return nodes.constant(np.asarray([False]))
    first = tape.layout.entries[0][0]
    # Of a tape of sequences the first part are elements; the second counts entries.
    flat = isinstance(first, Layout) and not first.is_rows and len(tape.layout.entries) == 1
    items = tape.parts[1] if flat else tape.parts[0]
    return nodes.reshape(on.greater(length(nodes, items), 0), [1])


def _appended(nodes: Nodes, items: Term, more: Term) -> Term:
    """A sequence with all elements of another one after its own."""

    def body(step: Term, carried: list[Term]) -> tuple[None, list[Term], list[Term]]:
        return None, [inserted(nodes, carried[0], element(nodes, more, step))], []

    return nodes.loop(length(nodes, more), None, [items], body)[0]


def _split(nodes: Nodes, items: Term, count: Term) -> tuple[Term, Term]:
    # Erased from the end and inserted at the front, so that the order stays.
    """A sequence without its last elements, and these."""
    front = nodes.constant(np.asarray(0, "int64"))

    def body(step: Term, carried: list[Term]) -> tuple[None, list[Term], list[Term]]:
        rest, tail = carried
        return None, [erased(nodes, rest), inserted(nodes, tail, element(nodes, rest, -1), front)], []

    rest, tail = nodes.loop(count, None, [items, sequence(nodes, items.kind)], body)
    return rest, tail


# -- sums and zeros ------------------------------------------------------------------------------


def zeros(nodes: Nodes, stack: Stack) -> Stack:
    """Zeros for each tensor; of an array its length, with nothing in it."""
    if stack.layout.is_rows:
        return Stack(stack.layout, tuple(on.zeros_like(part) for part in stack.parts), stack.count)

    def zero(x: Term) -> Term:
        if stack.layout.is_array:
            return hole(nodes, x.kind, stack.layout.rank)
        return nodes.one("ConstantOfShape", [nodes.one("Shape", [x], "int64", [-1])], x.kind, [], value=np.zeros(1, x.dtype))

    return Stack(stack.layout, tuple(_mapped(nodes, x, zero, part) for x, part in zip(stack.parts, stack.layout.parts(), strict=True)))


def _mapped(nodes: Nodes, items: Term, function: Callable[[Term], Term], part: Part) -> Term:
    # Lengths are no tensors of the program, and stay in a sum or in zeros.
    if part.counts:
        return items

    def body(step: Term, carried: list[Term]) -> tuple[None, list[Term], list[Term]]:
        return None, [inserted(nodes, carried[0], function(element(nodes, items, step)))], []

    return nodes.loop(length(nodes, items), None, [sequence(nodes, items.kind)], body)[0]


def added(nodes: Nodes, a: Stack, b: Stack) -> Stack:
    """The sum of two arrays or tapes, element by element."""
    if a.layout.is_rows:
        if not a.parts or not b.parts:
            return a if a.parts else b
        return Stack(a.layout, tuple(x + y for x, y in zip(a.parts, b.parts, strict=True)), a.count)
    pairs = zip(a.parts, b.parts, a.layout.parts(), strict=True)
    rank = a.layout.rank if a.layout.is_array else None
    return Stack(a.layout, tuple(x if part.counts else _added(nodes, x, y, rank) for x, y, part in pairs))


def _added(nodes: Nodes, x: Term, y: Term, rank: int | None) -> Term:
    """The sums of the elements of two sequences; with a rank, that of the elements, there may be holes."""

    def total(step: Term) -> Term:
        return element(nodes, x, step) + element(nodes, y, step)

    def body(step: Term, carried: list[Term]) -> tuple[None, list[Term], list[Term]]:
        return None, [inserted(nodes, carried[0], total(step) if rank is None else _either(nodes, x, y, step, rank))], []

    # A gradient array may be shorter: slots beyond its end are zero.
    count = on.maximum(length(nodes, x), length(nodes, y))
    return nodes.loop(count, None, [sequence(nodes, x.kind)], body)[0]


def _either(nodes: Nodes, x: Term, y: Term, step: Term, rank: int) -> Term:
    """The sum of the elements of two arrays, of which each may have none."""
    a, b = (filled(nodes, items, step, [-1] * rank) for items in (x, y))
    return nodes.choose(is_hole(nodes, a), lambda: [b], lambda: nodes.choose(is_hole(nodes, b), lambda: [a], lambda: [a + b]))[0]


# -- arrays --------------------------------------------------------------------------------------
# A slot that nothing was written to holds a tensor without elements.


def hole(nodes: Nodes, dtype: str, rank: int) -> Term:
    """A tensor for an empty slot, of the rank of the other elements, as a sequence needs; beside scalars it is a vector."""
    return nodes.constant(np.zeros((0,) * max(rank, 1), dtype))


def is_hole(nodes: Nodes, x: Term) -> Term:
    """Whether there is nothing in a slot."""
    return on.equal(nodes.one("Size", [x], "int64", []), 0)


def filled(nodes: Nodes, items: Term, index: Term, shape: Sequence[int]) -> Term:
    """The element at an index, nothing beyond the end."""
    result = nodes.choose(
        on.less(index, length(nodes, items)),
        lambda: [element(nodes, items, index)],
        # A node of its own: a branch's result is not a constant of the graph around.
        lambda: [nodes.copied(hole(nodes, items.kind, len(shape)))],
    )[0]
    result.refine(tuple(shape))
    return result


def long_enough(nodes: Nodes, items: Term, index: Term, rank: int) -> Term:
    """The elements, with holes after them up to an index beyond the end."""

    def pad(step: Term, carried: list[Term]) -> tuple[None, list[Term], list[Term]]:
        return None, [inserted(nodes, carried[0], hole(nodes, items.kind, rank))], []

    return nodes.loop(on.maximum(index - length(nodes, items), 0), None, [items], pad)[0]


def write(nodes: Nodes, array: Stack, index: Term, tensor: Term) -> Stack:
    """The array with a tensor at an index, as long as needed."""
    if array.layout.is_rows:
        return push_row(nodes, array, 0, [tensor])
    (items,) = array.parts
    count = length(nodes, items)
    elements = nodes.elements(index)
    # Writing at the end is what most loops do: an insertion, without the question whether the slot is there.
    if elements is not None and elements[0] is count:
        return Stack(array.layout, (inserted(nodes, items, tensor),))

    def within() -> list[Term]:
        return [inserted(nodes, erased(nodes, items, index), tensor, index)]

    def beyond() -> list[Term]:
        return [inserted(nodes, long_enough(nodes, items, index, array.layout.rank), tensor)]

    return Stack(array.layout, (nodes.choose(on.less(index, count), within, beyond)[0],))
