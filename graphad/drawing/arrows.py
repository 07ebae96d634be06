"""The arrows of a drawing: along the slots of operators, into nested graphs, around in loops, and out of them.

    h ─▶ while ─▶ h'      ⇒      h ─▶ h ─▶ tanh ─▶ h' ─▶ h'       what is carried enters, loops and leaves
                                      ▲┄┄┄┄┄┄┄┄┄┄┄┄┘

Nothing here knows Graphviz.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from graphad.drawing.nesting import Nesting, Operand, is_absent, operands_of, outcomes_of
from graphad.graph import Node, Op, Value
from graphad.graph.nodes import Slots
from graphad.graph.regions import added_count, control_row, outcomes, the_row
from graphad.graph.residuals import is_read
from graphad.ops import GRAD
from graphad.program import BACKWARD, FORWARD

# The kinds of arrows, the more specific ones last: an arrow that two are folded into is of the later kind.
FLOW, LEAVES, ENTERS, SAVED, KEPT, ADDED, CARRIED = range(7)


class Arrow(NamedTuple):
    """From an operator to a value it writes, from a value to an operator that reads it, or from a value to the same value in another graph.

    A folded value has no node: its arrow goes past it. ``op`` is the operator it belongs to, of two the reader; the slots are empty
    where there is no choice. ``backward`` says that it lies within the backward, ``up`` that it is drawn upwards: there, and back in
    a loop of the forward. ``level`` says that it joins two heights known to be one above the other.
    """

    tail: Node
    head: Node
    op: Op
    value: Value
    tail_slot: str = ""
    head_slot: str = ""
    sort: int = FLOW
    backward: bool = False
    up: bool = False
    level: bool = False

    @property
    def folded(self) -> bool:
        """Whether the value is not drawn."""
        return self.value not in (self.tail, self.head)


class End(NamedTuple):
    """One end of an arrow, which writes or reads a value: an operator in a slot, or for an operator a value of its graphs."""

    node: Node
    op: Op
    slot: str = ""
    sort: int = FLOW


class Ends:
    """For each value that has a node, who writes and who reads it."""

    def __init__(self, nesting: Nesting) -> None:
        self.nesting = nesting
        self.tails: dict[Value, list[End]] = {}
        self.heads: dict[Value, list[End]] = {}
        for graph in nesting.graphs():
            for op in graph.ops:
                self._opened(op) if op in nesting.opened else self._plain(op, op.inputs, op.outputs)

    def arrows(self) -> list[Arrow]:
        """All arrows, value by value."""
        found = []
        for value in dict.fromkeys(n for n in self.nesting.in_order() if isinstance(n, Value) and not is_absent(n)):
            for end in self.tails.get(value, ()):
                carried = end.node if isinstance(end.node, Value) else value
                found.append(self._arrow(end.node, value, end, carried, tail_slot=end.slot))
            for end in self.heads.get(value, ()):
                found.append(self._arrow(value, end.node, end, value, head_slot=end.slot))
        return found

    def _arrow(self, tail: Node, head: Node, end: End, value: Value, tail_slot: str = "", head_slot: str = "") -> Arrow:
        backward = self._role(tail) == self._role(head) == BACKWARD
        return Arrow(tail, head, end.op, value, tail_slot, head_slot, end.sort, backward, backward != (end.sort == CARRIED))

    def _role(self, node: Node) -> str:
        if isinstance(node, Op):
            return self.nesting.role(node)
        if node.writer is not None:
            return self.nesting.role(node.writer)
        region = self.nesting.regions.get(node.graph)
        return FORWARD if region is None else self.nesting.role(region.op)

    # -- ends of operators -----------------------------------------------------------------------

    def _plain(self, op: Op, reads: Slots, writes: Slots) -> None:
        row = control_row(op)
        for slot, values in reads.items():
            for index, value in enumerate(values):
                kept = row is not None and row.is_grad and slot == row.scopes
                sort = KEPT if kept else SAVED if self.nesting.is_saved(value) else FLOW
                self._read(self.nesting.outer(value), End(op, op, _slot_text(op.inputs, slot, index), sort))
        for slot, values in writes.items():
            for index, value in enumerate(values):
                self.tails.setdefault(value, []).append(End(op, op, _slot_text(op.outputs, slot, index)))

    def _read(self, value: Value, end: End) -> None:
        self.heads.setdefault(value, []).append(end)

    def _opened(self, op: Op) -> None:
        row = the_row(op)
        passed_in = {row.operands, f"Out{GRAD}"} if row.is_grad else {row.operands}
        reads = {slot: values for slot, values in op.inputs.items() if slot not in passed_in}
        self._plain(op, reads, {slot: values for slot, values in op.outputs.items() if slot != row.results})
        decides = set(op.inputs.get(row.condition, ()))
        for operand in operands_of(op):
            self._operand(op, operand, operand.outer in decides)
        added = len(outcomes(op)) - added_count(op)
        for i, (outer, inner) in enumerate(outcomes_of(op)):
            self._outcome(op, outer, inner, ADDED if i >= added else LEAVES)

    def _operand(self, op: Op, operand: Operand, decides: bool) -> None:
        outer, result = self.nesting.outer(operand.outer), operand.result
        used = [value for value in operand.inner if is_read(value)]
        if not used and not decides and not is_absent(outer):
            self._read(outer, End(op, op, _handed_text(op, operand.outer)))
        if result is None:
            return
        back = self.nesting.outer(result)
        if decides:
            self._read(back, End(op, op, sort=CARRIED))
        for value in used:
            self._join(value, outer, op, ENTERS)
            self._join(value, back, op, CARRIED)

    def _outcome(self, op: Op, outer: Value, inner: list[Value], sort: int) -> None:
        if is_absent(outer):
            return
        for value in dict.fromkeys(map(self.nesting.outer, inner)):
            self._join(outer, value, op, sort)
        if outer not in self.tails:
            self.tails[outer] = [End(op, op)]

    def _join(self, value: Value, source: Value, op: Op, sort: int) -> None:
        if source is not value and not is_absent(source) and self.nesting.is_drawn(source.graph):
            self.tails.setdefault(value, []).append(End(source, op, "", sort))


def contracted(arrows: list[Arrow], folded: Iterable[Value]) -> list[Arrow]:
    """The arrows without the folded values: each arrow to one goes on along each arrow from it."""
    places: dict[Value, int] = {}
    kept = {i: (places.setdefault(_subject(a), len(places)), a) for i, a in enumerate(arrows)}
    into: dict[Node, dict[int, None]] = {}
    out_of: dict[Node, dict[int, None]] = {}
    for i, (_, arrow) in kept.items():
        out_of.setdefault(arrow.tail, {})[i] = None
        into.setdefault(arrow.head, {})[i] = None
    fresh = len(kept)
    for value in folded:
        before, after = into.pop(value, {}), out_of.pop(value, {})
        made = [_joined(kept[i][1], kept[j][1], value) for i in before for j in after]
        made = [arrow for arrow in made if arrow.tail is not arrow.head or isinstance(arrow.head, Op)]
        for i in before:
            del out_of[kept.pop(i)[1].tail][i]
        for j in after:
            del into[kept.pop(j)[1].head][j]
        for arrow in made:
            kept[fresh] = places.get(value, len(places)), arrow
            out_of.setdefault(arrow.tail, {})[fresh] = None
            into.setdefault(arrow.head, {})[fresh] = None
            fresh += 1
    return [arrow for _, arrow in sorted(kept.values(), key=lambda placed: placed[0])]


def _subject(arrow: Arrow) -> Value:
    """The value at which an arrow was found."""
    return arrow.head if isinstance(arrow.head, Value) else arrow.value


def _joined(first: Arrow, second: Arrow, value: Value) -> Arrow:
    op = second.op if isinstance(second.head, Op) else first.op
    sort, backward = max(first.sort, second.sort), first.backward and second.backward
    return Arrow(first.tail, second.head, op, value, first.tail_slot, second.head_slot, sort, backward, backward != (sort == CARRIED))


def _handed_text(op: Op, value: Value) -> str:
    return next((_slot_text(op.inputs, slot, values.index(value)) for slot, values in op.inputs.items() if value in values), "")


def _slot_text(slots: Slots, slot: str, index: int) -> str:
    if len(slots) == 1:
        return ""
    return slot if len(slots[slot]) == 1 else f"{slot}[{index}]"
