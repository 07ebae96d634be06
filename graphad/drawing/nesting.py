"""The nested graphs that are drawn, and the arrows between nodes of all of them. Nothing here knows Graphviz."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from graphad.ir import Graph, Node, Op, Value
from graphad.ir.nodes import Slots
from graphad.ir.regions import OTHERWISE, LoopLike, added_count, control_definition, definition_of, operands, results_of
from graphad.ir.residuals import is_read, residual_inputs
from graphad.ops import GRAD
from graphad.program import BACKWARD, EMPTY, FORWARD

# -- nesting ---------------------------------------------------------------------------------------
# Which nested graphs are drawn, and which of their values have no node of their own because an outer one stands for them.
#
# while(X=[h, w]) { graph (h, w) ... }        h is carried: the graph has a node for it
#                                             w is captured: arrows go from the w outside to its readers inside
# while_grad(...) { graph (dy, y saved) ... } y is saved: arrows come from the y of the forward graph

_NAMES = {"sub_block": "body", "true_block": "true", "false_block": "false", OTHERWISE: "otherwise"}


class Region(NamedTuple):
    """A nested graph that is drawn, its operator, and the attribute that holds it."""

    op: Op
    name: str
    graph: Graph

    @property
    def label(self) -> str:
        """The label above the region's frame."""
        return f"{self.op.type}: {_NAMES.get(self.name, self.name)}"


@dataclass(frozen=True)
class Operand:
    """An operand of an operator with graphs: the value outside, its block argument in each graph, and the ``result`` that replaces it."""

    outer: Value
    inner: tuple[Value, ...]
    result: Value | None


class Nesting:
    """A graph with the graphs nested in it, drawn down to a depth; those of ``closed`` operators are not drawn.

    Attributes:
        opened: the operators whose nested graphs are drawn, with those that hold an operator.
        regions: the drawn nested graphs, the outer ones first.
    """

    def __init__(self, root: Graph, depth: int, closed: Collection[Node] = ()) -> None:
        self.root = root
        self.closed = closed
        self.opened: dict[Op, list[Region]] = {}
        self.regions: dict[Graph, Region] = {}
        self._stands: dict[Value, Value] = {}
        self._saved: set[Value] = set()
        self._roles: dict[Graph, str] = {}  # of the operators around them
        self._open(root, depth)
        for value in list(self._stands):
            if not self.is_drawn(self.outer(value).graph):
                del self._stands[value]

    def _open(self, graph: Graph, depth: int) -> None:
        for op in graph.controls if depth else ():
            regions = [Region(op, name, g) for name, g in op.graphs.items() if does_something(g)]
            if not regions or control_definition(op) is None or op in self.closed:
                continue
            self.opened[op] = regions
            for operand in operands_of(op):
                if operand.result is None:
                    # An argument that stays the same in all iterations is drawn as the operand itself; one that is carried has a node of
                    # its own.
                    self._stands.update(dict.fromkeys(operand.inner, operand.outer))
            for region in regions:
                self.regions[region.graph] = region
                residuals = residual_inputs(region.graph)
                self._stands.update(residuals)
                self._saved.update(residuals)
                self._open(region.graph, depth - 1)

    def is_drawn(self, graph: Graph) -> bool:
        """Whether a graph has a place in the drawing."""
        return graph is self.root or graph in self.regions

    def outer(self, value: Value) -> Value:
        """The value whose node stands for a value: what was captured or saved, or itself."""
        while value in self._stands:
            value = self._stands[value]
        return value

    def is_saved(self, value: Value) -> bool:
        """Whether a value is what a run of a forward graph left for its gradient."""
        while value in self._stands:
            if value in self._saved:
                return True
            value = self._stands[value]
        return False

    def home(self, node: Node) -> Graph:
        """The graph in whose frame a node is drawn; an operator with one drawn graph is drawn in that."""
        regions = self.opened.get(node, ()) if isinstance(node, Op) else ()
        return regions[0].graph if len(regions) == 1 else node.graph

    def around(self, graph: Graph) -> Iterator[Graph]:
        """A graph, and the drawn ones it is nested in, the whole drawing excluded."""
        while graph in self.regions:
            yield graph
            graph = self.regions[graph].op.graph

    def role(self, op: Op) -> str:
        """The part of the program an operator belongs to: graphs nested in the backward belong to the backward."""
        graph = op.graph
        # Remembered by graph: all its operators have the same around.
        if graph not in self._roles:
            around = self.regions.get(graph)
            self._roles[graph] = FORWARD if around is None else self.role(around.op)
        outer = self._roles[graph]
        return op.role if outer == FORWARD else outer

    def graphs(self) -> Iterator[Graph]:
        """The drawn graphs, the outer ones first."""
        yield self.root
        yield from self.regions

    def in_order(self, graph: Graph | None = None) -> Iterator[Node]:
        """All operators, preceded by what they read and followed by what they write, as often as they do so."""
        for op in (self.root if graph is None else graph).ops:
            yield from map(self.outer, op.reads())
            yield op
            for region in self.opened.get(op, ()):
                # Arguments that are not drawn as what is passed in have nodes of their own.
                yield from (v for v in region.graph.inputs if self.outer(v) is v and is_read(v))
                yield from self.in_order(region.graph)
            yield from op.writes()


def operands_of(op: Op) -> Iterator[Operand]:
    """The operands that an operator passes to its graphs, in order."""
    inputs, loop = operands(op), LoopLike.of(op)
    places = range(0) if loop is None else loop.carried_at
    for i, outer in enumerate(inputs):
        inner = tuple(g.inputs[i] for g in op.graphs.values() if i < len(g.inputs))
        results = [g.results[places.index(i)] for g in op.graphs.values() if places.index(i) < len(g.results)] if i in places else []
        yield Operand(outer, inner, results[0] if results else None)


def inner_results_of(op: Op) -> Iterator[tuple[Value, list[Value]]]:
    """The results of an operator, and the values of its graphs that they come from."""
    for i, value in enumerate(results_of(op)):
        yield value, [g.results[i] for g in op.graphs.values() if i < len(g.results)]


def is_absent(node: Node) -> bool:
    """Whether a node is the place of a value that is not there."""
    return isinstance(node, Value) and node.name == EMPTY


def does_something(graph: Graph) -> bool:
    """Whether a nested graph is worth a frame."""
    return not all(op.definition is not None and op.definition.is_absent for op in graph.ops)


# -- arrows ----------------------------------------------------------------------------------------
# The arrows of a drawing: along the slots of operators, into nested graphs, around in loops, and out of them.
#
#     h ─▶ while ─▶ h'      ⇒      h ─▶ h ─▶ tanh ─▶ h' ─▶ h'       what is carried enters, loops and leaves
#                                       ▲┄┄┄┄┄┄┄┄┄┄┄┄┘
#
# Nothing here knows Graphviz.

# The kinds of arrows, the more specific ones last: an arrow that two are folded into is of the later kind.
FLOW, LEAVES, ENTERS, SAVED, KEPT, ADDED, CARRIED, BEFORE = range(8)


class Arrow(NamedTuple):
    """From an operator to a value it writes, from a value to an operator that reads it, or from a value to the same value in another graph.

    A folded value has no node: its arrow goes past it. ``op`` is the operator it belongs to, of two the reader; the slots are empty
    where there is no choice. ``backward`` says that it lies within the backward, ``up`` that it is drawn upwards: there, and back in
    a loop of the forward. ``level`` says that it joins two heights known to be one above the other,
    ``next`` that it leads from one copy of what is drawn once to another, ``turns`` that it leads from what goes down to what goes up,
    or the other way.
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
    next: bool = False
    turns: bool = False

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
        arrows = []
        for value in dict.fromkeys(n for n in self.nesting.in_order() if isinstance(n, Value) and not is_absent(n)):
            for end in self.tails.get(value, ()):
                source = end.node if isinstance(end.node, Value) else value
                arrows.append(self._arrow(end.node, value, end, source, tail_slot=end.slot))
            for end in self.heads.get(value, ()):
                arrows.append(self._arrow(value, end.node, end, value, head_slot=end.slot))
        return arrows

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
        definition = control_definition(op)
        for slot, values in reads.items():
            for index, value in enumerate(values):
                is_residual = definition is not None and definition.is_grad and slot == definition.scopes
                sort = KEPT if is_residual else SAVED if self.nesting.is_saved(value) else FLOW
                self._read(self.nesting.outer(value), End(op, op, _slot_text(op.inputs, slot, index), sort))
        for slot, values in writes.items():
            for index, value in enumerate(values):
                self.tails.setdefault(value, []).append(End(op, op, _slot_text(op.outputs, slot, index)))

    def _read(self, value: Value, end: End) -> None:
        self.heads.setdefault(value, []).append(end)

    def _opened(self, op: Op) -> None:
        definition = definition_of(op)
        # What is passed in is drawn to where it is read inside; the rest, such as a condition, to the operator.
        passed_in = {definition.operands, f"Out{GRAD}"} if definition.is_grad else {definition.operands}
        reads = {slot: values for slot, values in op.inputs.items() if slot not in passed_in}
        self._plain(op, reads, {slot: values for slot, values in op.outputs.items() if slot != definition.results})
        decides = set(op.inputs.get(definition.condition, ()))
        for operand in operands_of(op):
            self._operand(op, operand, operand.outer in decides)
        first_added = len(results_of(op)) - added_count(op)
        for i, (outer, inner) in enumerate(inner_results_of(op)):
            self._outcome(op, outer, inner, ADDED if i >= first_added else LEAVES)

    def _operand(self, op: Op, operand: Operand, decides: bool) -> None:
        outer, result = self.nesting.outer(operand.outer), operand.result
        read_values = [value for value in operand.inner if is_read(value)]
        # Nothing inside reads it: then it ends at the operator, so that its arrow is not lost.
        if not read_values and not decides and not is_absent(outer):
            self._read(outer, End(op, op, _operand_text(op, operand.outer)))
        if result is None:
            return
        back = self.nesting.outer(result)
        # A loop reads its condition again after each iteration, as the value that the body gives it.
        if decides:
            self._read(back, End(op, op, sort=CARRIED))
        for value in read_values:
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
    arrows_by_number = {
        i: (places.setdefault(a.head if isinstance(a.head, Value) else a.value, len(places)), a) for i, a in enumerate(arrows)
    }
    arrows_into: dict[Node, dict[int, None]] = {}
    out_of: dict[Node, dict[int, None]] = {}
    for i, (_, arrow) in arrows_by_number.items():
        out_of.setdefault(arrow.tail, {})[i] = None
        arrows_into.setdefault(arrow.head, {})[i] = None
    # Numbered, and taken out by number, so that each arrow is touched once for each value that it leads through.
    next_number = len(arrows_by_number)
    for value in folded:
        before, after = arrows_into.pop(value, {}), out_of.pop(value, {})
        joins = [_joined(arrows_by_number[i][1], arrows_by_number[j][1], value) for i in before for j in after]
        # An operator that reads what it wrote, in a loop, keeps an arrow to itself; a value that leads only to itself needs none.
        joins = [arrow for arrow in joins if arrow.tail is not arrow.head or isinstance(arrow.head, Op)]
        for i in before:
            del out_of[arrows_by_number.pop(i)[1].tail][i]
        for j in after:
            del arrows_into[arrows_by_number.pop(j)[1].head][j]
        for arrow in joins:
            arrows_by_number[next_number] = places.get(value, len(places)), arrow
            out_of.setdefault(arrow.tail, {})[next_number] = None
            arrows_into.setdefault(arrow.head, {})[next_number] = None
            next_number += 1
    # In the order in which their values first came up: the order of arrows decides the layout, which must not depend on the folding.
    return [arrow for _, arrow in sorted(arrows_by_number.values(), key=lambda placed: placed[0])]


def _joined(first: Arrow, second: Arrow, value: Value) -> Arrow:
    op = second.op if isinstance(second.head, Op) else first.op
    sort, backward = max(first.sort, second.sort), first.backward and second.backward
    up = backward != (sort == CARRIED)
    return Arrow(first.tail, second.head, op, value, first.tail_slot, second.head_slot, sort, backward, up, next=first.next or second.next)


def _operand_text(op: Op, value: Value) -> str:
    return next((_slot_text(op.inputs, slot, values.index(value)) for slot, values in op.inputs.items() if value in values), "")


def _slot_text(slots: Slots, slot: str, index: int) -> str:
    if len(slots) == 1:
        return ""
    return slot if len(slots[slot]) == 1 else f"{slot}[{index}]"
