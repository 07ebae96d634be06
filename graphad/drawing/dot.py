"""A graph as DOT text: nodes have made-up ids, real names occur in quoted labels only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pydot

from graphad.drawing.plan import Arrow, Options, Plan, Region, does_something, plan
from graphad.drawing.style import (
    ALONG,
    AMONG_FRAMES,
    ASIDE,
    CLOSED,
    EDGE,
    FRAMED,
    GRAPH,
    GROUP,
    HIGHLIGHT,
    HOLD_EDGE,
    JOINT_EDGE,
    LEVEL_EDGE,
    LINK,
    LINK_EDGE,
    LOOKUP,
    NODE,
    SORTS,
    Attributes,
    all_quoted,
    arrow_style,
    arrow_tooltip,
    attr_lines,
    frame_style,
    frame_tooltip,
    header,
    kind,
    node_style,
    op_label,
    op_tooltip,
    part,
    quoted,
    shortened,
    shown,
    tooltip,
    value_label,
    value_tooltip,
)
from graphad.ir import Graph, Node, Op, Value
from graphad.ir.nodes import Slots
from graphad.program import BACKWARD, OPTIMIZE

# -- frames ----------------------------------------------------------------------------------------
# Frames around nested graphs, joined to their operators, which are above the rest: in the frame of the graph, or around several.
#
# ┌ while: body ──┐      ┌───────────────────┐
# │ while         │      │ if_else           │
# │ h ─▶ tanh ─▶ y│      │ ┌ true ┐┌ false ┐ │
# └───────────────┘      │ └──────┘└───────┘ │
#                        └───────────────────┘


class Frames:
    """The frames of a drawing, each made when the first node in it is drawn."""

    def __init__(self, dot: pydot.Dot, drawn: Plan, prefix: str) -> None:
        self.dot = dot
        self.nesting = drawn.nesting
        self.tops = drawn.tops
        self.prefix = prefix
        self.count = 0
        self._graphs: dict[Graph, pydot.Graph] = {drawn.nesting.root: dot}
        self._groups: dict[Op, pydot.Graph] = {}
        self._names: dict[Graph, str] = {}

    def of(self, node: Node) -> pydot.Graph:
        """The frame that a node is drawn into."""
        if isinstance(node, Op) and node in self.nesting.opened:
            return self._around(node)
        return self._frame(self.nesting.home(node))

    def _around(self, op: Op) -> pydot.Graph:
        """The frame that an operator with drawn graphs is drawn into: that of its graph, or one around the frames of several."""
        regions = self.nesting.opened[op]
        if len(regions) == 1:
            return self._frame(regions[0].graph)
        if op not in self._groups:
            own = {"class": quoted("frame"), "label": '""', "tooltip": quoted(shown(op.type))}
            self._groups[op] = self._added(self._frame(op.graph), all_quoted(self._style(op) | GROUP) | own)
        return self._groups[op]

    def _frame(self, graph: Graph) -> pydot.Graph:
        if graph not in self._graphs:
            region = self.nesting.regions[graph]
            single = len(self.nesting.opened[region.op]) == 1
            around = self._frame(region.op.graph) if single else self._around(region.op)
            self._names[graph] = f"cluster_c{self.count}"
            self._graphs[graph] = self._added(around, self._attributes(region))
        return self._graphs[graph]

    def _added(self, around: pydot.Graph, attributes: Attributes) -> pydot.Graph:
        name = f"c{self.count}"
        self.count += 1
        frame = pydot.Cluster(name, id=quoted(self.prefix + name), **attributes)
        around.add_subgraph(frame)  # type: ignore[arg-type]  # pydot's own stubs: a Cluster is no Subgraph
        return frame

    def _attributes(self, region: Region) -> Attributes:
        own: Attributes = {
            "class": quoted(f"frame {part(self.nesting.role(region.op))}"),
            "label": quoted(shortened(shown(region.label))),
            "tooltip": frame_tooltip(region.op, region.name, region.graph),
        }
        return all_quoted(self._style(region.op)) | own

    def _style(self, op: Op) -> Attributes:
        return frame_style(part(self.nesting.role(op)))

    def join(self, ids: Mapping[Node, str]) -> None:
        """Join the frames to operators outside of them; hold each operator above its graphs."""
        for op, regions in self.nesting.opened.items():
            for region in regions:
                for i, node in enumerate(self.tops.get(region.graph, ())):
                    style = HOLD_EDGE
                    if i == 0 and len(regions) > 1:
                        style = JOINT_EDGE | {"color": self._style(op)["fontcolor"], "lhead": self._names[region.graph]}
                    self.dot.add_edge(pydot.Edge(ids[op], ids[node], **all_quoted(style)))


# -- dot -------------------------------------------------------------------------------------------
# A graph as DOT text: nodes have made-up ids, real names occur in quoted labels only.
#
# The backward is drawn upwards beside the forward, each gradient at the height of what it is the gradient of:
#
#     x ┄┄┄┄ x@GRAD
#     │        ▲
#     tanh   tanh_grad
#     ▼        │
#     y ┄┄┄┄ y@GRAD
#
# So are the graphs nested in the gradients of loops and branches: each is a frame beside the frame of the forward.

LARGE, MOST_LINKS, MOST_SLOTS = 400, 200, 3


def dot_text(graph: Graph, options: Options) -> str:
    """The whole drawing as DOT."""
    return _Writer(plan(graph, options), options).text()


class _Writer:
    """One drawing; ``ids`` of the nodes so far, and the ``kinds`` that the legend has to explain."""

    def __init__(self, drawn: Plan, options: Options) -> None:
        self.drawn = drawn
        self.options = options
        self.dot = pydot.Dot(graph_name="graphad", graph_type="digraph")
        self.frames = Frames(self.dot, drawn, options.prefix)
        self.ids: dict[Node, str] = {}
        self.nodes = 0
        self.edges = 0
        self.kinds: set[str] = set()

    def text(self) -> str:
        for name, defaults in (("graph", GRAPH), ("node", NODE), ("edge", EDGE)):
            self.dot.add_node(pydot.Node(name, **all_quoted(defaults)))
        for node in self.drawn.nodes:
            self.ids[node] = self._node(self.frames.of(node), node)
        for arrow in self.drawn.arrows:
            self._arrow(arrow)
        for pair in self.drawn.levels:
            self._level(*pair)
        for gradient, source in self._links():
            self._link(gradient, source)
        self.frames.join(self.ids)
        for name, value in self._whole().items():
            self.dot.set(name, value)
        return self.dot.to_string().rstrip() + "\n"

    def _whole(self) -> Attributes:
        self.kinds.update([FRAMED] if self.frames.count else [])
        label = header(self.options.title, self.kinds if self.options.legend else set(), self.options.highlight_means)
        limit = f"{LARGE / max(self.nodes, LARGE):.3f}"
        effort = {"nslimit": limit, "nslimit1": limit} if self.nodes > LARGE else {}
        whole = {"id": self._id("drawing"), "rankdir": self.options.rankdir} | effort | ({"label": label} if label else {})
        return whole | (AMONG_FRAMES if self.frames.count else {})

    # -- nodes -----------------------------------------------------------------------------------

    def _node(self, container: pydot.Graph, node: Node) -> str:
        drawn, strong = self.drawn, node in self.drawn.highlighted
        what = part(self._role(node)) if isinstance(node, Op) else kind(node, node in drawn.gradient_of)
        marks = [what, HIGHLIGHT] if strong else [what]
        slots = 0
        if isinstance(node, Op):
            closed, slots = self._is_closed(node), max(self._slots(node, node.inputs), self._slots(node, node.outputs))
            marks += [CLOSED] if closed else []
            label, text, group = self._op_label(node, closed), op_tooltip(node), "op"
        else:
            label, text, group = value_label(node), value_tooltip(node, drawn.gradient_of.get(node)), "value"
        self.kinds.update(marks)
        name = f"n{self.nodes}"
        self.nodes += 1
        own: Attributes = {"id": self._id(name), "class": quoted(" ".join([group, *marks])), "label": label, "tooltip": text}
        container.add_node(pydot.Node(name, **all_quoted(node_style(node, what, strong, slots)), **own))
        return name

    def _op_label(self, op: Op, closed: bool) -> str:
        return op_label(op, self.drawn.kept.get(op, []), closed, attr_lines(op) if self.options.attributes else [])

    def _role(self, op: Op) -> str:
        return self.drawn.nesting.role(op)

    def _is_closed(self, op: Op) -> bool:
        return op not in self.drawn.nesting.opened and any(map(does_something, op.graphs.values()))

    def _slots(self, op: Op, slots: Slots) -> int:
        """How many names of slots there are at an operator."""
        return sum(map(len, slots.values())) if self._is_closed(op) else len(slots)

    def _level(self, *nodes: Node) -> None:
        level = pydot.Subgraph(rank="same")
        for node in nodes:
            level.add_node(pydot.Node(self.ids[node]))
        self.dot.add_subgraph(level)

    # -- edges -----------------------------------------------------------------------------------

    def _arrow(self, arrow: Arrow) -> None:
        repeated = arrow.tail in self.drawn.repeated
        ends = [self._node(self.dot, arrow.value) if repeated else self.ids[arrow.tail], self.ids[arrow.head]]
        slots = ["", ""] if arrow.folded else [arrow.tail_slot, arrow.head_slot]
        way = ASIDE if repeated else self._way(arrow)
        crowded = way != LOOKUP and self._crowded(arrow)
        mark, note, special = SORTS.get(arrow.sort, ("", "", {}))
        self.kinds.update([mark] if mark else [])
        attributes = arrow_style(part(self._role(arrow.op)), way, "".join(slots), crowded) | special
        if arrow.level:
            attributes |= LEVEL_EDGE
        if crowded:
            slots.reverse()
        if arrow.up:
            ends, slots, attributes = ends[::-1], slots[::-1], attributes | {"dir": "back"}
        labels = {end: quoted(shown(slot)) for end, slot in zip(("taillabel", "headlabel"), slots, strict=True) if slot}
        self._line(ends, all_quoted(attributes) | labels, arrow_tooltip(arrow.value, arrow.tail_slot, arrow.head_slot, note))

    def _way(self, arrow: Arrow) -> str:
        value, reads = arrow.value, isinstance(arrow.head, Op)
        if reads and self._role(arrow.op) == BACKWARD and not arrow.backward:
            return LOOKUP
        if reads and self._role(arrow.op) == OPTIMIZE and value.persistable and len(value.readers) > 1:
            return LOOKUP
        if reads and value.graph is not arrow.op.graph:
            return ASIDE
        goes_on = value.readers or self.frames.count
        return ALONG if value.writers and goes_on and not value.persistable else ASIDE

    def _crowded(self, arrow: Arrow) -> bool:
        """Whether the names of the slots would cover one another at the operator, so that they go to the values."""
        slots = arrow.op.inputs if isinstance(arrow.head, Op) else arrow.op.outputs
        return self._slots(arrow.op, slots) - len(self.drawn.kept.get(arrow.op, ())) > MOST_SLOTS

    def _links(self) -> Iterator[tuple[Value, Value]]:
        pairs = [(a, b) for a, b in self.drawn.levels if isinstance(a, Value) and isinstance(b, Value)]
        wanted = self.options.links == "all" or (self.options.links == "auto" and len(pairs) <= MOST_LINKS)
        return iter(pairs if wanted else ())

    def _link(self, gradient: Value, source: Value) -> None:
        self.kinds.add(LINK)
        text = tooltip(f"{shown(repr(gradient))} is the gradient of {shown(repr(source))}")
        # Between frames the links see to it that the backward stands to the right of the forward.
        attributes = LINK_EDGE | {"constraint": "true" if self.frames.count else "false"}
        self._line([self.ids[source], self.ids[gradient]], all_quoted(attributes), text)

    def _line(self, ends: list[str], attributes: Attributes, text: str) -> None:
        own: Attributes = {"id": self._id(f"e{self.edges}"), "tooltip": text}
        self.dot.add_edge(pydot.Edge(ends[0], ends[1], **attributes, **own))
        self.edges += 1

    def _id(self, name: str) -> str:
        return quoted(self.options.prefix + name)
