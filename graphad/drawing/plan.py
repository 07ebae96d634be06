"""The nodes and arrows of a graph that are drawn: all, or values folded into arrows between operators; layers once, or each; a part.

    mul ─▶ y ─▶ tanh      ⇒      mul ─▶ tanh          y has one writer and one reader

Nothing here knows Graphviz.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from graphad.drawing.bundles import bundle_inputs
from graphad.drawing.folding import LEAST_SAVED, Folding, fold_repeats
from graphad.drawing.nesting import ADDED, CARRIED, FLOW, KEPT, SAVED, Arrow, Ends, Nesting, contracted, is_absent
from graphad.drawing.options import Options, keys_of
from graphad.drawing.pairs import Pairs, is_part
from graphad.drawing.parts import LEAST, closed_parts
from graphad.drawing.scopes import Group, Groups, closed_ops, scope_of
from graphad.drawing.subset import MUCH_READ, Ways, chosen_part, ends_of
from graphad.drawing.sweeps import Sweeps
from graphad.errors import RenderError
from graphad.ir import Graph, Node, Op, Value
from graphad.ir.regions import control_definition, is_forward_loop, results_of
from graphad.ir.residuals import forward_graph, is_read
from graphad.passes.analyses.shapes_read import shapes_read
from graphad.program import BACKWARD, FORWARD, OPTIMIZE, Parameter

# What is drawn at most: nodes with all values; with only those that several operators read; in frames; with layers drawn one by one.
ALL_BUDGET, SHARED_BUDGET, NODE_BUDGET, FRAMED_BUDGET, UNFOLDED_BUDGET = 150, 300, 1500, 600, 60
REPEATED_FROM, MUCH_WRITTEN = 3, 24
LEAST_FOLDED, MOST_STRAYS = 3, 4  # folding is chosen if one of so many is a copy, and for so many copies at most one other reads them
OVERVIEWED = 20_000  # operators up to which an overview is drawn unless something else is requested
DEEPEST, DEEPEST_AUTO = 1000, 16  # frames in frames: all that there are, and what can still be read


@dataclass(frozen=True)
class Reference:
    """An operand written by name, without an arrow: its slot and value."""

    slot: str
    value: Value


@dataclass
class Plan:
    """The nodes and arrows to draw, in order; ``gradient_of`` maps each drawn gradient to its value.

    ``references`` are what operators read by name: values that so many read that arrows would hide the rest, parameters, where they are
    shown ``inside`` their operators, and values that stand for nothing but ``shapes``. ``sums`` are what is added up over the
    iterations of a loop, with the terms, which are not drawn: the sums have their places. ``levels`` are pairs drawn at one height: a
    gradient and what it is the gradient of, a grad operator and its operator. ``kept`` are the slots of state that one optimizer
    operator alone keeps from run to run, which is not drawn. ``tops`` are the nodes of each nested graph that nothing in it leads to.
    ``highlighted`` are nodes to highlight, and operators that hide some. ``groups`` are the frames of scopes and repetitions, ``faded``
    the surroundings of the part that is drawn, ``orders`` the orders of gradients, ``names`` what some values are called instead of by
    their own names. ``values`` says which values it shows, as the option does.
    """

    nesting: Nesting
    values: str = "all"
    nodes: dict[Node, None] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)
    gradient_of: dict[Value, Value] = field(default_factory=dict)
    references: dict[Op, list[Reference]] = field(default_factory=dict)
    inside: set[Value] = field(default_factory=set)
    shapes: set[Value] = field(default_factory=set)
    sums: dict[Value, Value] = field(default_factory=dict)
    levels: list[tuple[Node, Node]] = field(default_factory=list)
    kept: dict[Op, list[str]] = field(default_factory=dict)
    tops: dict[Graph, list[Node]] = field(default_factory=dict)
    highlighted: set[Node] = field(default_factory=set)
    folding: Folding = field(default_factory=Folding)
    groups: dict[Node, Group] = field(default_factory=dict)
    faded: set[Node] = field(default_factory=set)
    orders: dict[Node, int] = field(default_factory=dict)
    names: dict[Value, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many nodes are drawn."""
        return len(self.nodes)

    @property
    def framed(self) -> int:
        """How many of them are in frames of nested graphs."""
        return sum(self.nesting.home(node) is not self.nesting.root for node in self.nodes)


def plan(graph: Graph, options: Options) -> Plan:
    """The plan for a graph; ``auto`` folds and closes no more than needed to stay within the budget of nodes.

    Raises:
        RenderError: there is more to draw than ``limit``.
    """
    return next(plans(graph, options))


def plans(graph: Graph, options: Options) -> Iterator[Plan]:
    """The plan for a graph, then those that show less: without values of one reader, without values, and then with fewer nested graphs.

    Of a part that was chosen, and where the operators would not be the same, there is none that shows less.

    Raises:
        RenderError: there is more to draw than ``limit``.
    """
    # Said before anything is planned, which takes long for as many as these.
    if len(graph.ops) > options.limit and _shows_each(graph, options):
        raise RenderError(_too_much(graph, len(graph.ops), options))
    folding = _folding(graph, options)
    if _is_long(graph, folding, options):
        options = replace(options, fold="parts")
        folding = _folding(graph, options)
    modes = _modes(graph, options)
    # From what shows most to what shows least; the first that fits the budget is taken.
    for depth, mode in ((depth, mode) for depth in _depths(graph, options) for mode in modes):
        result = _Planner(graph, depth, options, mode, folding.copy()).plan()
        if result.size <= min(_budget(mode, options), options.limit) and (result.framed <= FRAMED_BUDGET or options.nested == "all"):
            break
    if result.size > options.limit:
        raise RenderError(_too_much(graph, result.size, options))
    yield result
    if _is_part(options):  # what was chosen to be seen is shown
        return
    for less in modes[modes.index(mode) + 1 :]:
        lesser = _Planner(graph, depth, options, less, folding.copy()).plan()
        if lesser.folding.closed.keys() <= result.folding.closed.keys():  # scopes that are closed would hide operators, too
            yield lesser
    for shallower in range(depth - 1, -1, -1) if options.nested == "auto" else ():
        yield from (_Planner(graph, shallower, options, mode, folding.copy()).plan() for mode in modes)


def _shows_each(graph: Graph, options: Options) -> bool:
    """Whether nothing folds, closes or leaves out operators of the outermost graph, so that a drawing has a node for each."""
    if options.fold != "none" or options.closed or _is_part(options):
        return False
    return options.scopes in ("open", "none") or not any(map(scope_of, graph.ops))


def _is_long(graph: Graph, folding: Folding, options: Options) -> bool:
    """Whether so many operators would be drawn one by one that an overview reads better: nothing else chooses what is drawn of them."""
    is_chosen = options.fold != "auto" or options.values != "auto" or options.closed or options.highlight or _is_part(options)
    if is_chosen or len(graph.ops) > OVERVIEWED:
        return False
    alone = [op for op in graph.ops if op not in folding.representatives]
    # Repetitions and scopes already shorten a drawing; an overview is for what has neither.
    return len(alone) > SHARED_BUDGET and not any(map(scope_of, alone))


def _folding(graph: Graph, options: Options) -> Folding:
    if options.fold == "none":
        return Folding()
    folding = Folding()
    if options.fold != "auto" or sum(len(subgraph.ops) for subgraph in graph.tree()) > UNFOLDED_BUDGET:
        nesting = Nesting(graph, DEEPEST if options.nested != "none" else 0)
        folding = fold_repeats(graph, nesting, LEAST if options.fold == "parts" else LEAST_SAVED)
        if options.fold == "auto" and not _shortens(graph, folding):
            folding = Folding()
    bundle_inputs(graph, folding)
    # What the user wants to see must not be drawn as something else.
    return Folding() if options.fold == "auto" and _is_folded(ends_of(options), folding) else folding


def _shortens(graph: Graph, folding: Folding) -> bool:
    """Whether what is folded is a good part of a drawing that could do without, and the backward of the copies is folded with them.

    In the steps of an optimizer that is differentiated, operators of the backward read all copies of the forward. Beside one copy
    they would have the lines of all.
    """
    ops = [op for subgraph in graph.tree() for op in subgraph.ops]
    if len(ops) > SHARED_BUDGET:
        return True
    copies = {op for op in ops if op in folding.representatives}
    others = [op for op in ops if op not in copies and op not in folding.repeats_of and op.role == BACKWARD]
    strays = [op for op in others if any(writer in copies for value in op.reads() for writer in value.writers)]
    return len(copies) >= len(ops) / LEAST_FOLDED and len(strays) <= len(copies) / MOST_STRAYS


def _is_folded(items: Collection[object], folding: Folding) -> bool:
    """Whether a node that the user wants to see is one of those that others stand for."""
    keys = {item if isinstance(item, str) else id(item) for item in items}
    return bool(keys) and any(not keys.isdisjoint(keys_of(node)) for node in folding.representatives)


def _budget(mode: str, options: Options) -> int:
    return NODE_BUDGET if options.values != "auto" else {"all": ALL_BUDGET, "shared": SHARED_BUDGET}.get(mode, NODE_BUDGET)


def _depths(graph: Graph, options: Options) -> Sequence[int]:
    if options.nested != "auto":
        return [DEEPEST if options.nested == "all" else 0]
    depth = _depth(graph)
    return range(depth if _is_part(options) else min(depth, DEEPEST_AUTO), -1, -1)


def _is_part(options: Options) -> bool:
    return options.focus is not None or options.path is not None


def _modes(graph: Graph, options: Options) -> tuple[str, ...]:
    """Modes to try at each depth: values fold, and are left out, before graphs close."""
    if options.values == "auto" and not _is_part(options) and options.fold == options.scopes == "none" and len(graph.ops) > SHARED_BUDGET:
        # So many operators would not fit with their values anyway: nothing else is tried.
        return ("none",)
    if options.values == "auto" and options.fold == "parts":
        return ("none",)
    return ("all", "shared", "none") if options.values == "auto" else (options.values,)


def _depth(graph: Graph) -> int:
    return max((1 + _depth(subgraph) for op in graph.controls for subgraph in op.graphs.values()), default=0)


def _too_much(graph: Graph, size: int, options: Options) -> str:
    name = next((repr(value.name) for value in graph.values if value.readers), "'a value'")
    less = [] if options.values in ("auto", "none") else ["values='none'"]
    less += [] if options.fold != "none" else ["fold='repeats'"]
    less += [] if options.fold == "parts" else ["fold='parts'"]
    or_less = f", or less of it ({' or '.join(less)})" if less else ""
    return (
        f"the drawing would have {size} nodes, more than {options.limit}: draw a part of it, what is near a value or an operator "
        f"(focus=({name}, 3), --focus NAME:3) or between two (path=(a, b)){or_less}; "
        "name scopes (ga.name_scope) are closed where there is too much; limit= allows more"
    )


class _Planner:
    def __init__(self, graph: Graph, depth: int, options: Options, mode: str, folding: Folding) -> None:
        self.options = options
        self.mode = mode
        self.folding = folding
        self.nesting = Nesting(graph, depth, self.folding.representatives)
        marks = _marked(self.nesting.root, None, self.nesting, options) if options.highlight else ()
        self.result = Plan(self.nesting, mode, highlighted=set(map(self.folding.of, marks)), folding=self.folding)
        self.highlighted = self.result.highlighted
        self.ends = Ends(self.nesting)
        self.pairs = Pairs(self.nesting)
        self.sweeps = Sweeps(self.nesting, self.pairs)
        # The operator beside another one, in each sweep the first: there may be more, as where a gradient was expanded.
        self.beside: dict[tuple[Op, int], Op] = {}
        for op, forward in self.pairs.forwards.items():
            self.beside.setdefault((forward, self.sweeps.order(op)), op)
        self.boxes = self._close(graph)
        self._hide_shapes()
        self._count(self._chosen(self.folding.arrows(self.ends.arrows())))
        self.looked_up = self._looked_up()

    def plan(self) -> Plan:
        values = [value for graph in self.nesting.graphs() for value in graph.values if self._has_node(value)]
        private = self._left_out() if self.options.values != "all" else set()
        inside = {value for value in values if value not in private and self._goes_inside(value)}
        self.result.sums = self._sums()
        folded_values = {value: None for value in values if self._folds(value)}
        hidden = folded_values.keys() | private | inside
        self._add(self.nesting.in_order(), hidden)
        self._add(values, hidden)
        self.result.inside = inside
        self.result.arrows = contracted(self._by_name(inside, folded_values), folded_values)
        if self.options.fold == "parts":
            # Several arrows between two parts are one.
            self.result.arrows = list({self._between_parts(arrow): arrow for arrow in self.result.arrows}.values())
        if self.sweeps.deepest > 1:
            self.result.arrows = [self._turned(arrow) for arrow in self.result.arrows]
        self._gradients(self.pairs)
        if self.nesting.opened or self.sweeps.deepest > 1:
            self.result.arrows = [self._levelled(arrow) for arrow in self.result.arrows]
        # A sum of gradients belongs where its terms do.
        terms = {total: term for total, term in self.result.sums.items() if total in self.result.nodes}
        groups = Groups(self.nesting, self.folding, self.options.scopes != "none", self.sweeps.column).of(
            [*self.result.nodes, *terms.values()]
        )
        self.result.groups = {**groups, **{total: groups[term] for total, term in terms.items() if term in groups}}
        self._tops()
        self._orders()
        return self.result

    def _between_parts(self, arrow: Arrow) -> object:
        """The key of an arrow: all arrows between two closed boxes are one."""
        boxes = self.folding.closed
        return (arrow.tail, arrow.head, arrow.sort, arrow.up) if arrow.tail in boxes and arrow.head in boxes else arrow

    # -- shapes ----------------------------------------------------------------------------------

    def _hide_shapes(self) -> None:
        """Hide values that the backward makes for their shapes alone; the operators that read them name the shape instead, without
        arrows."""
        for value in [value for graph in self.nesting.graphs() for value in graph.values if self._is_shape(value)]:
            self.result.shapes.add(value)
            # The value and its operator are hidden; each reader names the shape instead.
            self.folding.hidden.update((value, value.writers[0]))
            for op, slot in dict.fromkeys((end.node, end.slot) for end in self.ends.heads[value]):
                if isinstance(op, Op) and op not in self.folding.representatives:
                    self.result.references.setdefault(op, []).append(Reference(slot, value))

    def _is_shape(self, value: Value) -> bool:
        """Whether an operator made a value that is as cheap as its shape, and only shapes are read of it."""
        writer, ends = value.writer, self.ends.heads.get(value, ())
        definition = None if writer is None else writer.definition
        if (
            self.options.values == "all"
            or writer is None
            or definition is None
            or not (definition.of_shape and definition.cheap)
            or not ends
        ):
            return False
        # What the user highlights is drawn, whatever it is.
        if writer.role != BACKWARD or writer in self.highlighted or value in self.highlighted or len(tuple(writer.writes())) != 1:
            return False
        return all(isinstance(end.node, Op) and _slot(end.slot, end.node) in shapes_read(end.node) for end in ends)

    # -- layers and scopes -----------------------------------------------------------------------

    def _close(self, graph: Graph) -> dict[tuple[str, ...], dict[str, Op]]:
        names = self._closed(graph)
        if not names and self.options.fold != "parts":
            return {}
        roles = {op: self.nesting.role(op) for op in graph.ops}
        boxes = closed_ops(graph.ops, roles, names, self.folding)
        if self.options.fold == "parts":
            boxes |= closed_parts(graph, roles, self.pairs, self.nesting, self.folding)
        # What is hidden has no graphs to show.
        for op in (op for graph in self.nesting.graphs() for op in graph.ops if op in self.folding.representatives):
            self.nesting.opened.pop(op, None)
        return boxes

    def _closed(self, graph: Graph) -> Collection[str]:
        """The scopes to close: those requested; the deepest ones as long as there is too much."""
        if self.options.closed or self.options.scopes in ("open", "none"):
            return self.options.closed
        scopes = [scope_of(op) for op in graph.ops if op not in self.folding.representatives]
        if self.options.scopes == "closed":
            return dict.fromkeys(scope[0] for scope in scopes if scope)
        part = self.options.focus is not None or self.options.path is not None
        if part or self.mode != "none" or len(scopes) <= ALL_BUDGET:
            return ()
        # Deepest first: inner scopes close before those around them.
        for depth in range(max(map(len, scopes)), 0, -1):
            count = sum(len(scope) < depth for scope in scopes) + len({scope[:depth] for scope in scopes if len(scope) >= depth})
            if count <= ALL_BUDGET or depth == 1:
                break
        else:
            return ()
        return dict.fromkeys("/".join(scope[:depth]) for scope in scopes if len(scope) >= depth)

    def _chosen(self, arrows: list[Arrow]) -> list[Arrow]:
        """The arrows of the part that is drawn."""
        self.part: set[Node] | None = None
        if self.options.focus is None and self.options.path is None:
            return arrows
        ways = Ways(dict.fromkeys(node for node in self.nesting.in_order() if self._is_drawn(node)), arrows)
        part = chosen_part(ways, self.options)
        if part is None:
            return arrows
        self.part, self.result.faded = part
        return [arrow for arrow in arrows if arrow.tail in self.part and arrow.head in self.part]

    def _is_drawn(self, node: Node) -> bool:
        return node not in self.folding.representatives and node not in self.folding.hidden and not is_absent(node)

    # -- nodes -----------------------------------------------------------------------------------

    def _has_node(self, value: Value) -> bool:
        if is_absent(value) or self.nesting.outer(value) is not value or not self._is_drawn(value):
            return False
        if self.part is not None and value not in self.part:
            return False
        return value.graph is self.nesting.root or bool(value.writers) or not value.given or is_read(value)

    def _add(self, nodes: Iterable[Node], hidden: Collection[Node]) -> None:
        for node in nodes:
            representative = self.folding.of(node)
            if representative not in hidden and self._is_drawn(representative) and (self.part is None or representative in self.part):
                self.result.nodes[representative] = None

    def _count(self, arrows: list[Arrow]) -> None:
        self.arrows = arrows
        self.into = _counted(arrow.head for arrow in arrows)
        self.out_of = _counted(arrow.tail for arrow in arrows)
        # What goes on as another value: into a nested graph, or out of one. It may be a value of another copy that does.
        self.passed_on = {arrow.tail for arrow in arrows if isinstance(arrow.head, Value)}

    def _left_out(self) -> set[Node]:
        """Private values, whose arrows go with them."""
        private: set[Node] = set(self._private())
        self._count([arrow for arrow in self.arrows if arrow.tail not in private and arrow.head not in private])
        return private

    def _private(self) -> Iterable[Value]:
        """State that one optimizer operator alone keeps from run to run; scopes and the last condition of a loop if they are unused."""
        for op in self.nesting.root.ops:
            state = {slot: values[0] for slot, values in op.inputs.items() if op.role == OPTIMIZE and _is_state_of(values, op)}
            # State that is highlighted is drawn with its operator's other state.
            if not self.highlighted.isdisjoint(state.values()):
                continue
            if state:
                self.result.kept[op] = list(state)
            names = {value.name for value in state.values()}
            yield from state.values()
            yield from (v for v in op.writes() if v.name in names and not v.readers and v not in self.highlighted)
        for op in (op for graph in self.nesting.graphs() for op in graph.controls):
            unread_values = (v for v in op.writes() if v not in self.out_of and v not in self.highlighted)
            yield from (v for v in unread_values if _is_scopes(v) or (is_forward_loop(op) and v is results_of(op)[-1]))

    def _folds(self, value: Value) -> bool:
        if self.options.values == "all" or value in self.highlighted:
            return False
        if value in self.terms:
            return True
        if _is_scopes(value):
            return value in self.out_of
        if value in self.looked_up:
            return self.mode == "none" and not value.writers
        if self.mode == "all" or self._is_much_read(value):
            return self.mode == "none" and not value.writers
        # A value with one writer and one reader is a plain arrow between them.
        ends = self.into.get(value, 0), self.out_of.get(value, 0)
        return self.mode == "none" or ends == (1, 1)

    def _sums(self) -> dict[Value, Value]:
        """The values summed over the iterations of a loop that are results of the backward, each with its one term, which has no other
        use."""
        self.terms: set[Value] = set()
        sums: dict[Value, Value] = {}
        for arrow in self.arrows if self.options.values != "all" else ():
            term, total = arrow.tail, arrow.head
            if arrow.sort != ADDED or not isinstance(term, Value) or not isinstance(total, Value) or term in self.highlighted:
                continue
            if any(end.op.role != OPTIMIZE for end in self.ends.heads.get(total, ())):
                continue  # the backward goes on with it outside
            if self.into.get(total) == 1 and (self.into.get(term, 0), self.out_of.get(term)) == (1, 1):
                self.terms.add(term)
                sums[total] = term
        return sums

    def _goes_inside(self, value: Value) -> bool:
        """Whether a parameter is shown in its operators instead of beside them."""
        if self.options.parameters == "nodes" or value in self.highlighted or value in self.result.faded:
            return False
        if (self.options.parameters == "auto" and self.mode == "all") or self.options.values == "all":
            return False
        # Where no values are drawn, operators still say which parameters they are of.
        if self.options.parameters == "auto" and self.mode == "none" and not isinstance(value.var, Parameter):
            return False
        if value.writers:
            op = value.writers[0]
            return value.persistable and op.role == OPTIMIZE and not value.readers
        # What a loop carries on has arrows that lead to it.
        return value.persistable and not self.into.get(value) and value not in self.passed_on and bool(value.readers)

    def _is_much_read(self, value: Value) -> bool:
        if value in self.passed_on:
            return False
        readers = {self.folding.of(end.node) for end in self.ends.heads.get(value, ())}
        # A learning rate, say, which every update reads.
        if len(readers) >= REPEATED_FROM and all(isinstance(op, Op) and op.role == OPTIMIZE for op in readers):
            return True
        return len(readers) > (MUCH_WRITTEN if value.writers else MUCH_READ)

    def _looked_up(self) -> set[Value]:
        """Values that several operators of later sweeps read: lines to all of them would hide the rest."""
        if self.sweeps.deepest < 2 or self.options.values == "all":
            return set()
        lookups = {(arrow.tail, arrow.head) for arrow in self.arrows if self.sweeps.is_lookup(arrow.tail, arrow.head)}
        counts = _counted(tail for tail, _ in lookups)
        return {value for value, count in counts.items() if isinstance(value, Value) and count >= REPEATED_FROM}

    def _by_name(self, inside: set[Value], folded: Collection[Value]) -> list[Arrow]:
        """The arrows, without those to operators that read a value by name."""
        named_values = inside | {
            value for value in self.out_of if isinstance(value, Value) and self._is_much_read(value) and value not in folded
        }
        others = []
        for arrow in self.arrows:
            if arrow.head in inside:
                continue
            is_named = arrow.tail in named_values or (arrow.tail in self.looked_up and self.sweeps.is_lookup(arrow.tail, arrow.head))
            if not is_named or not isinstance(arrow.head, Op):
                others.append(arrow)
            elif arrow.value not in inside or self.nesting.role(arrow.head) != BACKWARD:
                self.result.references.setdefault(arrow.head, []).append(Reference(arrow.head_slot, arrow.value))
        return others

    # -- heights ---------------------------------------------------------------------------------

    def _gradients(self, pairs: Pairs) -> None:
        outer = self.nesting.outer
        for node in self.result.nodes:
            source = pairs.gradient_of(node) if isinstance(node, Value) else None
            if isinstance(node, Value) and source is not None:
                self.result.gradient_of[node] = self.folding.value(outer(source))
        for gradient, of in self.result.gradient_of.items():
            # Side by side only with the value itself; parts of a gradient are where they are summed.
            if of in self.result.nodes and not is_part(gradient) and _is_beside(gradient.graph, of.graph):
                self.result.levels.append((gradient, of))
        nodes = self.result.nodes
        self.result.levels += [(op, forward) for (forward, _), op in self.beside.items() if forward in nodes and op in nodes]
        for parts in self.boxes.values():
            if FORWARD in parts and BACKWARD in parts:
                self.result.levels.append((parts[BACKWARD], parts[FORWARD]))

    def _turned(self, arrow: Arrow) -> Arrow:
        """An arrow as its sweep goes: down or up, from an earlier sweep as from the forward, or from one that goes the other way."""
        sweeps = self.sweeps
        if sweeps.is_lookup(arrow.tail, arrow.head):
            return arrow._replace(backward=False, up=False)
        if not arrow.backward:
            return arrow
        up = not sweeps.goes_down(arrow.tail)
        turns = sweeps.goes_down(arrow.tail) != sweeps.goes_down(arrow.head) and arrow.sort == FLOW
        return arrow._replace(up=up != (arrow.sort == CARRIED), turns=turns)

    def _levelled(self, arrow: Arrow) -> Arrow:
        """A grad operator is as high as its operator: its operands are above it, its results below; the reverse where that goes up."""
        op = arrow.op
        forward = self.pairs.forwards.get(op) if arrow.head is op and not arrow.backward else None
        if forward is None or self.beside.get((forward, self.sweeps.order(op))) is not op or arrow.sort == KEPT:
            return arrow
        down = self.sweeps.goes_down(forward)
        if arrow.value in map(self.nesting.outer, forward.reads()):
            return arrow._replace(level=True, up=not down)
        # A result of the forward operator lies below it, and so below the gradient operator that reads it: the arrow goes up.
        return arrow._replace(level=True, up=down) if arrow.value in forward.writes() else arrow

    def _tops(self) -> None:
        nodes_below: dict[Graph, set[Node]] = {graph: set() for graph in self.nesting.regions}
        for arrow in self.result.arrows:
            upper, lower = (arrow.head, arrow.tail) if arrow.up else (arrow.tail, arrow.head)
            # Arrows that go back, or to the backward, say nothing of what is above.
            if arrow.sort not in (CARRIED, SAVED, KEPT):
                inside = set(self.nesting.around(self.nesting.home(upper)))
                for graph in self.nesting.around(self.nesting.home(lower)):
                    if graph in inside:
                        nodes_below[graph].add(lower)
        for node in self.result.nodes:
            for graph in self.nesting.around(self.nesting.home(node)):
                if node not in nodes_below[graph] and node is not self.nesting.regions[graph].op:
                    self.result.tops.setdefault(graph, []).append(node)

    def _orders(self) -> None:
        """The orders of gradients, and of the operators of the backward."""
        self.result.orders = dict(self.sweeps.orders)
        for parts in self.boxes.values():
            if BACKWARD in parts:
                self.result.orders[parts[BACKWARD]] = 1


def _marked(graph: Graph, hidden_by: Op | None, nesting: Nesting, options: Options) -> Iterator[Node]:
    for node in (*graph.ops, *graph.values):
        if options.highlights(node) and not (hidden_by and isinstance(node, Value) and node.given):
            yield hidden_by or (nesting.outer(node) if isinstance(node, Value) else node)
    for op in graph.controls:
        for inner in op.graphs.values():
            yield from _marked(inner, hidden_by or (None if nesting.is_drawn(inner) else op), nesting, options)


def _is_beside(graph: Graph, forward: Graph) -> bool:
    return graph is forward or forward_graph(graph) is forward


def _slot(text: str, op: Op) -> str:
    """The slot that the text of an end means, which is empty where an operator has only one."""
    return text.partition("[")[0] or next(iter(op.inputs), "")


def _counted(nodes: Iterable[Node]) -> dict[Node, int]:
    counts: dict[Node, int] = {}
    for node in nodes:
        counts[node] = counts.get(node, 0) + 1
    return counts


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
