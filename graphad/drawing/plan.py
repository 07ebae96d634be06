"""Which nodes, arrows and nested graphs of a graph get drawn, and which values stand for others."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

from graphad.errors import InvalidType, InvalidValue
from graphad.ir import Graph, Node, Op, Value
from graphad.ir.nodes import Slots
from graphad.ir.regions import (
    OTHERWISE,
    LoopLike,
    added_count,
    control_definition,
    definition_of,
    is_forward_loop,
    is_loop_gradient,
    operands,
    results_of,
)
from graphad.ir.residuals import find_forward_op, forward_graph, is_read, residual_inputs, residual_of
from graphad.ops import GRAD
from graphad.ops.definition import did_you_mean
from graphad.program import BACKWARD, EMPTY, FORWARD, OPTIMIZE, Parameter

# -- options ---------------------------------------------------------------------------------------
# The options of a drawing, checked once.

CHOICES = {
    "values": ("auto", "all", "shared", "none"),
    "links": ("auto", "all", "none"),
    "nested": ("auto", "all", "none"),
    "rankdir": ("TB", "LR"),
}


@dataclass(frozen=True)
class Options:
    """How to draw; see ``graphad.drawing.draw`` for what each option means.

    Raises:
        TypeError: an option of the wrong type.
        ValueError: an option that is none of its choices.
    """

    title: str | None = None
    highlight: Collection[object] = ()
    highlight_means: str = "highlighted"
    values: str = "auto"
    links: str = "auto"
    nested: str = "auto"
    rankdir: str = "TB"
    attributes: bool = False
    legend: bool = True
    prefix: str = ""
    dpi: int = 96
    timeout: float = 60.0

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidValue(f"{name} is one of {', '.join(map(repr, choices))}, not {getattr(self, name)!r}")
        if not (self.title is None or isinstance(self.title, str)):
            raise InvalidType(f"title is a string, not {self.title!r}")
        if isinstance(self.highlight, str) or not isinstance(self.highlight, Collection):
            raise InvalidType(f"highlight is a set of operators and values, not {self.highlight!r}")
        if not isinstance(self.highlight_means, str):
            raise InvalidType(f"highlight_means is a text for the legend, not {self.highlight_means!r}")
        if not isinstance(self.prefix, str) or not re.fullmatch(r"([A-Za-z_][\w-]*)?", self.prefix, re.ASCII):
            raise InvalidValue(f"prefix begins the ids in an SVG: letters, digits, - and _, not {self.prefix!r}")
        for name, number in (("dpi", self.dpi), ("timeout", self.timeout)):
            if isinstance(number, bool) or not isinstance(number, int | float) or number <= 0:
                raise InvalidValue(f"{name} is a number above 0, not {number!r}")

    @cached_property
    def _highlighted(self) -> set[object]:
        return {item if isinstance(item, str) else id(item) for item in self.highlight}

    def highlights(self, node: Node) -> bool:
        """Whether a node is to be highlighted: requested itself, by its operator in the program, or by the name of a value."""
        keys = (id(node), id(node.operator)) if isinstance(node, Op) else (id(node), id(node.var), node.name, repr(node))
        return bool(self._highlighted) and not self._highlighted.isdisjoint(keys)


def checked_options(given: dict[str, Any]) -> Options:
    """Options from keywords; TypeError for one that does not exist."""
    known = [field.name for field in fields(Options)]
    for name in given:
        if name not in known:
            raise InvalidType(f"a drawing has no option {name!r}; its options are {', '.join(known)}{did_you_mean(name, known)}")
    return Options(**given)


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
        """What is above it."""
        return f"{self.op.type}: {_NAMES.get(self.name, self.name)}"


@dataclass(frozen=True)
class Operand:
    """An operand of an operator with graphs: the value outside, its block argument in each graph, and the ``result`` that replaces it."""

    outer: Value
    inner: tuple[Value, ...]
    result: Value | None


class Nesting:
    """A graph with the graphs nested in it, drawn down to a depth.

    Attributes:
        opened: the operators whose nested graphs are drawn, with those that hold an operator.
        regions: the drawn nested graphs, the outer ones first.
    """

    def __init__(self, root: Graph, depth: int) -> None:
        self.root = root
        self.opened: dict[Op, list[Region]] = {}
        self.regions: dict[Graph, Region] = {}
        self._stands: dict[Value, Value] = {}
        self._saved: set[Value] = set()
        self._open(root, depth)
        for value in list(self._stands):
            if not self.is_drawn(self.outer(value).graph):
                del self._stands[value]

    def _open(self, graph: Graph, depth: int) -> None:
        for op in graph.controls if depth else ():
            regions = [Region(op, name, g) for name, g in op.graphs.items() if does_something(g)]
            if not regions or control_definition(op) is None:
                continue
            self.opened[op] = regions
            for operand in operands_of(op):
                if operand.result is None:
                    self._stands.update(dict.fromkeys(operand.inner, operand.outer))
            for region in regions:
                self.regions[region.graph] = region
                kept = residual_inputs(region.graph)
                self._stands.update(kept)
                self._saved.update(kept)
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
        around = self.regions.get(op.graph)
        outer = op.role if around is None else self.role(around.op)
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
                yield from (v for v in region.graph.inputs if self.outer(v) is v and is_read(v))
                yield from self.in_order(region.graph)
            yield from op.writes()


def operands_of(op: Op) -> Iterator[Operand]:
    """What an operator passes to its graphs, in order."""
    given, loop = operands(op), LoopLike.of(op)
    carried = range(0) if loop is None else loop.carried_at
    for i, outer in enumerate(given):
        inner = tuple(g.inputs[i] for g in op.graphs.values() if i < len(g.inputs))
        results = [g.results[carried.index(i)] for g in op.graphs.values() if carried.index(i) < len(g.results)] if i in carried else []
        yield Operand(outer, inner, results[0] if results else None)


def outcomes_of(op: Op) -> Iterator[tuple[Value, list[Value]]]:
    """The results of an operator, and the values of its graphs that they come from."""
    for i, value in enumerate(results_of(op)):
        yield value, [g.results[i] for g in op.graphs.values() if i < len(g.results)]


def is_absent(node: Node) -> bool:
    """Whether a node is the place of a value that is not there."""
    return isinstance(node, Value) and node.name == EMPTY


def does_something(graph: Graph) -> bool:
    """Whether a nested graph is worth a frame."""
    return any(op.type != "undefined" for op in graph.ops)


# -- arrows ----------------------------------------------------------------------------------------
# The arrows of a drawing: along the slots of operators, into nested graphs, around in loops, and out of them.
#
#     h ─▶ while ─▶ h'      ⇒      h ─▶ h ─▶ tanh ─▶ h' ─▶ h'       what is carried enters, loops and leaves
#                                       ▲┄┄┄┄┄┄┄┄┄┄┄┄┘
#
# Nothing here knows Graphviz.

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
        definition = control_definition(op)
        for slot, values in reads.items():
            for index, value in enumerate(values):
                kept = definition is not None and definition.is_grad and slot == definition.scopes
                sort = KEPT if kept else SAVED if self.nesting.is_saved(value) else FLOW
                self._read(self.nesting.outer(value), End(op, op, _slot_text(op.inputs, slot, index), sort))
        for slot, values in writes.items():
            for index, value in enumerate(values):
                self.tails.setdefault(value, []).append(End(op, op, _slot_text(op.outputs, slot, index)))

    def _read(self, value: Value, end: End) -> None:
        self.heads.setdefault(value, []).append(end)

    def _opened(self, op: Op) -> None:
        definition = definition_of(op)
        passed_in = {definition.operands, f"Out{GRAD}"} if definition.is_grad else {definition.operands}
        reads = {slot: values for slot, values in op.inputs.items() if slot not in passed_in}
        self._plain(op, reads, {slot: values for slot, values in op.outputs.items() if slot != definition.results})
        decides = set(op.inputs.get(definition.condition, ()))
        for operand in operands_of(op):
            self._operand(op, operand, operand.outer in decides)
        added = len(results_of(op)) - added_count(op)
        for i, (outer, inner) in enumerate(outcomes_of(op)):
            self._outcome(op, outer, inner, ADDED if i >= added else LEAVES)

    def _operand(self, op: Op, operand: Operand, decides: bool) -> None:
        outer, result = self.nesting.outer(operand.outer), operand.result
        used = [value for value in operand.inner if is_read(value)]
        if not used and not decides and not is_absent(outer):
            self._read(outer, End(op, op, _operand_text(op, operand.outer)))
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


def _operand_text(op: Op, value: Value) -> str:
    return next((_slot_text(op.inputs, slot, values.index(value)) for slot, values in op.inputs.items() if value in values), "")


def _slot_text(slots: Slots, slot: str, index: int) -> str:
    if len(slots) == 1:
        return ""
    return slot if len(slots[slot]) == 1 else f"{slot}[{index}]"


# -- pairs -----------------------------------------------------------------------------------------
# Pairs of gradients and their values, and of grad operators and their operators, also across nested graphs.

_GRADIENT = re.compile(rf"(.+){GRAD}(_\d+)?(@RENAME@\d+)?", re.DOTALL)
_PART = re.compile(r"@RENAME@\d+$")


def gradient_of(value: Value) -> Value | None:
    """The value this is the gradient of, by its name if nothing noted it (a lowered program has names only)."""
    if value.grad_of is not None:
        return value.grad_of
    match = _GRADIENT.fullmatch(value.name)
    return next(_named(value.graph, match[1]), None) if match else None


def is_part(value: Value) -> bool:
    """Whether a value is one of the terms of a gradient."""
    return _PART.search(value.name) is not None


def _named(graph: Graph, name: str) -> Iterator[Value]:
    """The values of a name, the last ones first, then those of the forward graph: a gradient's graph is given what others own."""
    forward = forward_graph(graph)
    for value in reversed(graph.versions(name)):
        if (value.writer is None and forward is None) or (value.writer is not None and value.writer.role != OPTIMIZE):
            yield value
    if forward is not None:
        yield from _named(forward, name)


class Pairs:
    """The gradients of a drawing.

    Attributes:
        ops: for each operator the first one of the backward that turns a gradient of its outputs into one of its inputs.
    """

    def __init__(self, nesting: Nesting) -> None:
        self._nesting = nesting
        self._passed_in: dict[Value, Value] = {}
        self.ops: dict[Op, Op] = {}
        for graph in nesting.graphs():
            for op in graph.controls:
                self._note_passed_in(op)
        for graph in nesting.graphs():
            for op in graph.ops:
                forward = self.forward(op)
                if forward is not None and forward is not op:
                    self.ops.setdefault(forward, op)

    def gradient_of(self, value: Value) -> Value | None:
        """The value this is the gradient of, in the forward graph."""
        found = value.grad_of or self._passed_in.get(value) or gradient_of(value)
        while found is not None and (kept := residual_of(found)) is not None:
            found = kept
        return found

    def forward(self, op: Op) -> Op | None:
        """The operator that this one is the gradient of."""
        if self._nesting.role(op) != BACKWARD:
            return None
        return _keeper(op) or self._reader(op)

    def _reader(self, op: Op) -> Op | None:
        outputs = (self.gradient_of(value) for value in op.reads())
        writers = {value.writer for value in outputs if value is not None}
        inputs = (self.gradient_of(value) for value in op.writes())
        return next((reader for value in inputs if value is not None for reader in value.readers if reader in writers), None)

    def _note_passed_in(self, op: Op) -> None:
        """The values that the operands and results of a gradient and of its graphs are gradients of, in the order of the operands."""
        forward, definition = _keeper(op), control_definition(op)
        if forward is None or definition is None or not definition.is_grad:
            return
        given, ours = operands(forward), results_of(forward)
        cotangents, wanted = op.inputs.get(f"Out{GRAD}", ()), op.inputs.get("X", ())
        carried = [_place(self.gradient_of(value), ours) for value in cotangents]
        outer = self._nesting.outer
        results = [_place(outer(value), tuple(map(outer, given))) for value in wanted]
        if is_loop_gradient(op):
            results = [*carried, *results]
        self._note(results_of(op), results, given)
        for graph, body in zip(op.graphs.values(), forward.graphs.values(), strict=False):
            self._note(graph.inputs[len(wanted) :], carried, body.results)
            self._note(graph.results, results, body.inputs)

    def _note(self, gradients: Iterable[Value], places: list[int | None], values: tuple[Value, ...] | list[Value]) -> None:
        for gradient, place in zip(gradients, places, strict=False):
            if place is not None and place < len(values):
                self._passed_in[gradient] = values[place]


def _keeper(op: Op) -> Op | None:
    """Of the gradient of an operator with nested graphs that operator: the one that keeps what it reads."""
    definition = control_definition(op)
    if definition is None or not definition.is_grad:
        return None
    return find_forward_op(op)


def _place(value: Value | None, values: tuple[Value, ...]) -> int | None:
    return next((i for i, each in enumerate(values) if each is value), None)


# -- plan ------------------------------------------------------------------------------------------
# Which nodes and arrows of a graph get drawn: all, or values folded into arrows between operators; nested graphs, or not.
#
#     mul ─▶ y ─▶ tanh      ⇒      mul ─▶ tanh          y has one writer and one reader
#
# Nothing here knows Graphviz.

NODE_BUDGET, FRAMED_BUDGET = 1500, 600
REPEATED_FROM = 3
DEEPEST = 1000


@dataclass
class Plan:
    """The nodes and arrows to draw, in order; ``gradient_of`` maps each drawn gradient to its value.

    ``repeated`` are values that many optimizer operators read: each reader gets a node of its own for them. ``levels`` are pairs
    drawn at one height: a gradient and what it is the gradient of, a grad operator and its operator.
    ``kept`` are the slots of state that one optimizer operator alone keeps from run to run, which is not drawn.
    ``tops`` are the nodes of each nested graph that nothing in it leads to. ``highlighted`` are nodes to highlight, and
    operators that hide some.
    """

    nesting: Nesting
    nodes: dict[Node, None] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)
    gradient_of: dict[Value, Value] = field(default_factory=dict)
    repeated: set[Value] = field(default_factory=set)
    levels: list[tuple[Node, Node]] = field(default_factory=list)
    kept: dict[Op, list[str]] = field(default_factory=dict)
    tops: dict[Graph, list[Node]] = field(default_factory=dict)
    highlighted: set[Node] = field(default_factory=set)

    @property
    def size(self) -> int:
        """How many nodes are drawn."""
        return len(self.nodes) + sum(arrow.tail in self.repeated for arrow in self.arrows)

    @property
    def framed(self) -> int:
        """How many of them are in frames."""
        return sum(self.nesting.home(node) is not self.nesting.root for node in self.nodes)


def plan(graph: Graph, options: Options) -> Plan:
    """The plan for a graph; ``auto`` folds and closes no more than needed to stay within the node budget."""
    for depth, mode in _attempts(graph, options):
        result = _Planner(Nesting(graph, depth), options, mode).plan()
        if result.size <= NODE_BUDGET and (result.framed <= FRAMED_BUDGET or options.nested == "all"):
            break
    return result


def _attempts(graph: Graph, options: Options) -> Iterator[tuple[int, str]]:
    """Depths and modes to try: values fold before graphs close, and are left out only after that."""
    depths = {"all": [DEEPEST], "none": [0]}.get(options.nested) or range(_depth(graph), -1, -1)
    modes = ("all", "shared", "none") if options.values == "auto" else (options.values,)
    yield from ((depth, mode) for depth in depths for mode in modes[:2])
    yield from ((depth, mode) for depth in depths for mode in modes[2:])


def _depth(graph: Graph) -> int:
    return max((1 + _depth(nested) for op in graph.controls for nested in op.graphs.values()), default=0)


class _Planner:
    def __init__(self, nesting: Nesting, options: Options, mode: str) -> None:
        self.nesting = nesting
        self.options = options
        self.mode = mode
        self.result = Plan(nesting, highlighted=set(_highlighted(nesting, options)))
        self.highlighted = self.result.highlighted
        self.ends = Ends(nesting)
        self._count(self.ends.arrows())

    def plan(self) -> Plan:
        values = [value for graph in self.nesting.graphs() for value in graph.values if self._has_node(value)]
        private = self._left_out() if self.options.values != "all" else set()
        folded = {value: None for value in values if self._folds(value)}
        self.result.repeated = {value for value in values if value not in folded and self._repeats(value)}
        hidden = folded.keys() | private | {value for value in self.result.repeated if not value.writers}
        self._add(self.nesting.in_order(), hidden)
        self._add(values, hidden)
        self.result.arrows = contracted(self.arrows, folded)
        pairs = Pairs(self.nesting)
        self._gradients(pairs)
        if self.nesting.opened:
            self.result.arrows = [self._levelled(arrow, pairs) for arrow in self.result.arrows]
        self._tops()
        return self.result

    # -- nodes -----------------------------------------------------------------------------------

    def _has_node(self, value: Value) -> bool:
        if is_absent(value) or self.nesting.outer(value) is not value:
            return False
        return value.graph is self.nesting.root or bool(value.writers) or not value.given or is_read(value)

    def _add(self, nodes: Iterable[Node], hidden: Collection[Node]) -> None:
        self.result.nodes.update((node, None) for node in nodes if node not in hidden and not is_absent(node))

    def _count(self, arrows: list[Arrow]) -> None:
        self.arrows = arrows
        self.into = _counted(arrow.head for arrow in arrows)
        self.out_of = _counted(arrow.tail for arrow in arrows)

    def _left_out(self) -> set[Node]:
        """Private values, whose arrows go with them."""
        private: set[Node] = set(self._private())
        self._count([arrow for arrow in self.arrows if arrow.tail not in private and arrow.head not in private])
        return private

    def _private(self) -> Iterable[Value]:
        """State that one optimizer operator alone keeps from run to run; scopes and the last condition of a loop if they are unused."""
        for op in self.nesting.root.ops:
            own = {slot: values[0] for slot, values in op.inputs.items() if op.role == OPTIMIZE and _is_state_of(values, op)}
            if not self.highlighted.isdisjoint(own.values()):
                continue
            if own:
                self.result.kept[op] = list(own)
            names = {value.name for value in own.values()}
            yield from own.values()
            yield from (v for v in op.writes() if v.name in names and not v.readers and v not in self.highlighted)
        for op in (op for graph in self.nesting.graphs() for op in graph.controls):
            unread = (v for v in op.writes() if v not in self.out_of and v not in self.highlighted)
            yield from (v for v in unread if _is_scopes(v) or (is_forward_loop(op) and v is results_of(op)[-1]))

    def _folds(self, value: Value) -> bool:
        if self.options.values == "all" or value in self.highlighted:
            return False
        if _is_scopes(value):
            return value in self.out_of
        if self.mode == "all":
            return False
        ends = self.into.get(value, 0), self.out_of.get(value, 0)
        return self.mode == "none" or ends == (1, 1)

    def _repeats(self, value: Value) -> bool:
        readers = {end.node for end in self.ends.heads.get(value, ())}
        return len(readers) >= REPEATED_FROM and all(isinstance(op, Op) and op.role == OPTIMIZE for op in readers)

    # -- heights ---------------------------------------------------------------------------------

    def _gradients(self, pairs: Pairs) -> None:
        outer = self.nesting.outer
        for node in self.result.nodes:
            source = pairs.gradient_of(node) if isinstance(node, Value) else None
            if isinstance(node, Value) and source is not None:
                self.result.gradient_of[node] = outer(source)
        for gradient, of in self.result.gradient_of.items():
            if of in self.result.nodes and not is_part(gradient) and _is_beside(gradient.graph, of.graph):
                self.result.levels.append((gradient, of))
        self.result.levels += [(op, forward) for forward, op in pairs.ops.items() if forward in self.result.nodes]

    def _levelled(self, arrow: Arrow, pairs: Pairs) -> Arrow:
        """A grad operator is at the height of its operator: its operands are above it, its results below."""
        forward = pairs.forward(arrow.op) if arrow.head is arrow.op and not arrow.backward else None
        if forward is None or pairs.ops.get(forward) is not arrow.op or arrow.sort == KEPT:
            return arrow
        if arrow.value in map(self.nesting.outer, forward.reads()):
            return arrow._replace(level=True)
        return arrow._replace(level=True, up=True) if arrow.value in forward.writes() else arrow

    def _tops(self) -> None:
        below: dict[Graph, set[Node]] = {graph: set() for graph in self.nesting.regions}
        for arrow in self.result.arrows:
            upper, lower = (arrow.head, arrow.tail) if arrow.up else (arrow.tail, arrow.head)
            if arrow.sort not in (CARRIED, SAVED, KEPT):
                inside = set(self.nesting.around(self.nesting.home(upper)))
                for graph in self.nesting.around(self.nesting.home(lower)):
                    if graph in inside:
                        below[graph].add(lower)
        for node in self.result.nodes:
            for graph in self.nesting.around(self.nesting.home(node)):
                if node not in below[graph] and node is not self.nesting.regions[graph].op:
                    self.result.tops.setdefault(graph, []).append(node)


def _highlighted(nesting: Nesting, options: Options) -> Iterator[Node]:
    return _marked(nesting.root, None, nesting, options) if options.highlight else iter(())


def _marked(graph: Graph, hidden_by: Op | None, nesting: Nesting, options: Options) -> Iterator[Node]:
    for node in (*graph.ops, *graph.values):
        if options.highlights(node) and not (hidden_by and isinstance(node, Value) and node.given):
            yield hidden_by or (nesting.outer(node) if isinstance(node, Value) else node)
    for op in graph.controls:
        for inner in op.graphs.values():
            yield from _marked(inner, hidden_by or (None if nesting.is_drawn(inner) else op), nesting, options)


def _is_beside(graph: Graph, forward: Graph) -> bool:
    return graph is forward or forward_graph(graph) is forward


def _counted(nodes: Iterable[Node]) -> dict[Node, int]:
    found: dict[Node, int] = {}
    for node in nodes:
        found[node] = found.get(node, 0) + 1
    return found


def _is_scopes(value: Value) -> bool:
    """Whether a value is what a loop or branch keeps for its gradient."""
    writer = value.writer
    definition = None if writer is None else control_definition(writer)
    return writer is not None and definition is not None and not definition.is_grad and value in writer.outputs.get(definition.scopes, ())


def _is_state_of(values: tuple[Value, ...], op: Op) -> bool:
    return len(values) == 1 and is_state(values[0]) and not values[0].writers and list(values[0].readers) == [op]


def is_state(value: Value) -> bool:
    """Whether a value outlives a run without being a parameter."""
    return value.persistable and not isinstance(value.var, Parameter)
