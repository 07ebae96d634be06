"""A graph as DOT text: nodes have made-up ids, real names stand in quoted labels only.

The backward is drawn upwards beside the forward, each gradient at the height of what it is the gradient of:

    x ┄┄┄┄ x@GRAD
    │        ▲
    tanh   tanh_grad
    ▼        │
    y ┄┄┄┄ y@GRAD
"""

from __future__ import annotations

from collections.abc import Iterator

import pydot

from graphad.drawing.labels import arrow_tooltip, op_label, op_tooltip, quoted, shown, tooltip, value_label, value_tooltip
from graphad.drawing.options import Options
from graphad.drawing.plan import Arrow, Plan, plan
from graphad.drawing.style import (
    ALONG,
    ASIDE,
    EDGE,
    GRAPH,
    HIGHLIGHT,
    LINK,
    LINK_EDGE,
    LOOKUP,
    NODE,
    Attributes,
    arrow_style,
    header,
    kind,
    node_style,
)
from graphad.graph import Graph, Node, Op, Value
from graphad.program import BACKWARD, OPTIMIZE

LARGE, MOST_LINKS, MOST_SLOTS = 400, 200, 3


def dot_text(graph: Graph, options: Options) -> str:
    """The whole drawing as DOT."""
    return _Writer(options).text(graph)


class _Writer:
    """One drawing; ``ids`` of the nodes so far, and the ``kinds`` that the legend has to explain."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.ids: dict[Node, str] = {}
        self.nodes = 0
        self.edges = 0
        self.kinds: set[str] = set()

    def text(self, graph: Graph) -> str:
        dot = pydot.Dot(graph_name="graphad", graph_type="digraph")
        for name, defaults in (("graph", GRAPH), ("node", NODE), ("edge", EDGE)):
            dot.add_node(pydot.Node(name, **_all_quoted(defaults)))
        self.write(graph, dot)
        for name, value in self._whole().items():
            dot.set(name, value)
        return dot.to_string().rstrip() + "\n"

    def _whole(self) -> Attributes:
        label = header(self.options.title, self.kinds if self.options.legend else set())
        limit = f"{LARGE / max(self.nodes, LARGE):.3f}"
        effort = {"nslimit": limit, "nslimit1": limit} if self.nodes > LARGE else {}
        return {"id": self._id("drawing"), "rankdir": self.options.rankdir} | effort | ({"label": label} if label else {})

    def write(self, graph: Graph, container: pydot.Graph) -> None:
        """Draw one graph: into the whole drawing, or into a cluster of it."""
        drawn = plan(graph, self.options)
        for node in drawn.nodes:
            self.ids[node] = self._node(container, node, drawn)
        for arrow in drawn.arrows:
            self._arrow(container, arrow, drawn)
        for pair in drawn.levels:
            self._level(container, *pair)
        for gradient, source in self._links(drawn):
            self._link(container, gradient, source)

    # -- nodes -----------------------------------------------------------------------------------

    def _node(self, container: pydot.Graph, node: Node, drawn: Plan) -> str:
        strong = self.options.highlights(node)
        what = kind(node, node in drawn.gradient_of)
        marks = [what, HIGHLIGHT] if strong else [what]
        self.kinds.update(marks)
        if isinstance(node, Op):
            label, text, group = op_label(node, drawn.kept.get(node, [])), op_tooltip(node), "op"
        else:
            label, text, group = value_label(node), value_tooltip(node, drawn.gradient_of.get(node)), "value"
        name = f"n{self.nodes}"
        self.nodes += 1
        own: Attributes = {"id": self._id(name), "class": quoted(" ".join([group, *marks])), "label": label, "tooltip": text}
        container.add_node(pydot.Node(name, **_all_quoted(node_style(node, what, strong)), **own))
        return name

    def _level(self, container: pydot.Graph, *nodes: Node) -> None:
        level = pydot.Subgraph(rank="same")
        for node in nodes:
            level.add_node(pydot.Node(self.ids[node]))
        container.add_subgraph(level)

    # -- edges -----------------------------------------------------------------------------------

    def _arrow(self, container: pydot.Graph, arrow: Arrow, drawn: Plan) -> None:
        repeated, up = arrow.tail in drawn.repeated, _goes_up(arrow)
        ends = [self._node(container, arrow.value, drawn) if repeated else self.ids[arrow.tail], self.ids[arrow.head]]
        slots = ["", ""] if arrow.folded else [arrow.tail_slot, arrow.head_slot]
        way = ASIDE if repeated else _way(arrow, up)
        crowded = way != LOOKUP and _crowded(arrow, drawn)
        attributes = arrow_style(arrow.op, way, "".join(slots), crowded)
        if crowded:
            slots.reverse()
        if up:
            ends, slots, attributes = ends[::-1], slots[::-1], attributes | {"dir": "back"}
        labels = {end: quoted(shown(slot)) for end, slot in zip(("taillabel", "headlabel"), slots, strict=True) if slot}
        self._line(container, ends, _all_quoted(attributes) | labels, arrow_tooltip(arrow.value, arrow.tail_slot, arrow.head_slot))

    def _links(self, drawn: Plan) -> Iterator[tuple[Value, Value]]:
        pairs = [(a, b) for a, b in drawn.levels if isinstance(a, Value) and isinstance(b, Value)]
        wanted = self.options.links == "all" or (self.options.links == "auto" and len(pairs) <= MOST_LINKS)
        return iter(pairs if wanted else ())

    def _link(self, container: pydot.Graph, gradient: Value, source: Value) -> None:
        self.kinds.add(LINK)
        text = tooltip(f"{shown(repr(gradient))} is the gradient of {shown(repr(source))}")
        self._line(container, [self.ids[source], self.ids[gradient]], _all_quoted(LINK_EDGE), text)

    def _line(self, container: pydot.Graph, ends: list[str], attributes: Attributes, text: str) -> None:
        own: Attributes = {"id": self._id(f"e{self.edges}"), "tooltip": text}
        container.add_edge(pydot.Edge(ends[0], ends[1], **attributes, **own))
        self.edges += 1

    def _id(self, name: str) -> str:
        return quoted(self.options.prefix + name)


def _goes_up(arrow: Arrow) -> bool:
    """Whether the arrow lies within the backward."""
    writer = arrow.value.writer
    return arrow.op.role == BACKWARD and writer is not None and writer.role == BACKWARD


def _way(arrow: Arrow, up: bool) -> str:
    value, reads = arrow.value, isinstance(arrow.head, Op)
    if reads and arrow.op.role == BACKWARD and not up:
        return LOOKUP
    if reads and arrow.op.role == OPTIMIZE and value.persistable and len(value.readers) > 1:
        return LOOKUP
    return ALONG if value.writers and value.readers and not value.persistable else ASIDE


def _crowded(arrow: Arrow, drawn: Plan) -> bool:
    """Whether the names of the slots would cover one another at the operator, so that they go to the values."""
    slots = arrow.op.inputs if isinstance(arrow.head, Op) else arrow.op.outputs
    return len(slots) - len(drawn.kept.get(arrow.op, ())) > MOST_SLOTS


def _all_quoted(attributes: Attributes) -> Attributes:
    return {name: quoted(value) for name, value in attributes.items()}
