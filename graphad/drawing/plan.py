"""Which nodes and arrows of a graph get drawn: all, or values folded into arrows between operators; nested graphs, or not.

    mul ─▶ y ─▶ tanh      ⇒      mul ─▶ tanh          y has one writer and one reader

Nothing here knows Graphviz.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from graphad.drawing.arrows import CARRIED, KEPT, SAVED, Arrow, Ends, contracted
from graphad.drawing.nesting import Nesting, is_absent
from graphad.drawing.options import Options
from graphad.drawing.pairs import Pairs, is_part
from graphad.graph import Graph, Node, Op, Value
from graphad.graph.regions import control_row, is_forward_loop, outcomes
from graphad.graph.residuals import forward_graph, is_read
from graphad.program import OPTIMIZE, Parameter

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
            yield from (v for v in unread if _is_scopes(v) or (is_forward_loop(op) and v is outcomes(op)[-1]))

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
    row = None if writer is None else control_row(writer)
    return writer is not None and row is not None and not row.is_grad and value in writer.outputs.get(row.scopes, ())


def _is_state_of(values: tuple[Value, ...], op: Op) -> bool:
    return len(values) == 1 and is_state(values[0]) and not values[0].writers and list(values[0].readers) == [op]


def is_state(value: Value) -> bool:
    """Whether a value outlives a run without being a parameter."""
    return value.persistable and not isinstance(value.var, Parameter)
