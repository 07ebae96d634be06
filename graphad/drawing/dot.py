"""A drawing as DOT text for other tools: nodes have made-up ids, real names occur in quoted labels only.

Graphviz lays it out much as ``graphad draw`` does, with the names of slots beside the arrows.
"""

from __future__ import annotations

from math import atan2, degrees, hypot
from typing import Any

import pydot

from graphad.drawing.composing import Marks, is_closed, kind_of, with_marks
from graphad.drawing.frames import SEVERAL, Frame, Frames
from graphad.drawing.legend import DASHES, WEIGHTS
from graphad.drawing.lines import ALONG, BESIDE, LOOKUP, TURN, Hold, Line, holds_of, lines_of
from graphad.drawing.options import Options
from graphad.drawing.plan import Plan, plan
from graphad.drawing.texts import op_lines, op_tooltip, reference_text, shown, value_lines, value_tooltip
from graphad.drawing.theme import REMOVED
from graphad.ir import Graph, Node, Op
from graphad.ir.nodes import Slots

Attributes = dict[str, Any]
LARGE, MOST_SLOTS = 400, 3
WAYS: dict[str, Attributes] = {ALONG: {"weight": "8"}, BESIDE: {}, LOOKUP: {"constraint": "false"}, TURN: {"constraint": "false"}}


def quoted(*lines: str) -> str:
    """Lines as one quoted DOT string, nothing in them read as an escape or an entity."""
    # The backslash first: those that escape quotes come after.
    text = "\n".join(lines).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return '"' + text.replace("\n", "\\n") + '"'


def tooltip(*lines: str) -> str:
    """Lines as a quoted tooltip.

    Graphviz reads escapes in a tooltip twice; an invisible word joiner after a backslash leaves it nothing to read.
    """
    return quoted(*(line.replace("\\", "\\\u2060") for line in lines))


def all_quoted(attributes: Attributes) -> Attributes:
    """Attributes with their values quoted."""
    return {name: quoted(value) for name, value in attributes.items()}


def dot_text(graph: Graph, options: Options, marks: Marks | None = None) -> str:
    """The whole drawing as DOT.

    Raises:
        RenderError: there is more to draw than the limit of the options.
    """
    marks = marks or Marks()
    return _Writer(with_marks(plan(graph, options), marks), options, marks).text()


class _Writer:
    """One drawing, with the ids of its nodes."""

    def __init__(self, drawn: Plan, options: Options, marks: Marks) -> None:
        self.drawn, self.options, self.theme, self.marks = drawn, options, options.look, marks
        self.dot = pydot.Dot(graph_name="graphad", graph_type="digraph")
        self.frames = Frames(drawn)
        self.ids = {node: f"n{i}" for i, node in enumerate(drawn.nodes)}

    def text(self) -> str:
        for name, defaults in self._defaults().items():
            self.dot.add_node(pydot.Node(name, **all_quoted(defaults)))
        self._fill(self.dot, self.frames.whole)
        for number, line in enumerate(lines_of(self.drawn, self.options)):
            self._line(number, line)
        for pair in self.drawn.levels:
            level = pydot.Subgraph(rank="same")
            for node in pair:
                level.add_node(pydot.Node(self.ids[node]))
            self.dot.add_subgraph(level)
        for hold in holds_of(self.drawn, self.frames):
            self._hold(hold)
        for name, value in self._whole().items():
            self.dot.set(name, value)
        return self.dot.to_string().rstrip() + "\n"

    def _defaults(self) -> dict[str, Attributes]:
        theme = self.theme
        ground = "transparent" if theme.background == "none" else theme.background
        look = {"nodesep": "0.22", "ranksep": "0.34", "outputorder": "edgesfirst", "pad": "0.2", "labelloc": "t", "labeljust": "l"}
        edge = {"arrowsize": "0.6", "penwidth": "0.9", "labelfontsize": "8", "labelfontname": "Helvetica", "labelfontcolor": theme.muted}
        return {
            "graph": look | {"bgcolor": ground, "fontname": "Helvetica", "fontcolor": theme.ink},
            "node": {"fontname": "Helvetica", "fontsize": "9", "style": "filled", "fontcolor": theme.ink},
            "edge": edge,
        }

    def _whole(self) -> Attributes:
        # Network simplex may take very long: its iterations are limited where there are many nodes.
        limit = f"{LARGE / max(len(self.ids), LARGE):.3f}"
        effort = {"nslimit": limit, "nslimit1": limit} if len(self.ids) > LARGE else {}
        label = {"label": quoted(*map(shown, self.options.title.split("\n")))} if self.options.title else {}
        # Lines may end at frames (compound), and nodes in a frame may be level with nodes outside of it (newrank).
        among = {"compound": quoted("true"), "newrank": quoted("true")} if self.frames.all else {}
        return {"id": self._id("drawing"), "rankdir": self.options.rankdir} | effort | label | among

    def _id(self, name: str) -> str:
        return quoted(self.options.prefix + name)

    # -- nodes and frames ------------------------------------------------------------------------

    def _fill(self, container: pydot.Graph, frame: Frame) -> None:
        for item in frame.items:
            if not isinstance(item, Frame):
                container.add_node(self._node(item))
                continue
            inner = pydot.Cluster(f"c{item.number}", id=self._id(f"c{item.number}"), **self._frame(item))
            container.add_subgraph(inner)  # type: ignore[arg-type]  # pydot's own stubs: a Cluster is no Subgraph
            self._fill(inner, item)

    def _frame(self, frame: Frame) -> Attributes:
        line = self.theme.looks[frame.role].line
        look = {"fontsize": "9", "margin": "8", "style": "rounded,filled", "color": line + "a0", "fontcolor": line}
        look["bgcolor" if frame.kind == SEVERAL else "fillcolor"] = "transparent" if frame.kind == SEVERAL else line + "10"
        texts = {"label": quoted(frame.label), "tooltip": tooltip(*frame.tooltip)}
        return all_quoted(look) | {"class": quoted(f"frame {frame.role}")} | texts

    def _node(self, node: Node) -> pydot.Node:
        kind = kind_of(node, self.drawn)
        look = self.theme.looks[kind]
        style: Attributes = {"color": look.line, "fillcolor": look.fill}
        classes = ["op" if isinstance(node, Op) else "value", kind]
        if isinstance(node, Op):
            has_closed_scope = is_closed(node, self.drawn)
            lines = op_lines(node, self.drawn, has_closed_scope, self.options.attributes)
            lines += [reference_text(reference, self.drawn) for reference in self.drawn.references.get(node, ())]
            style |= {"fontsize": "10", "shape": "box", "style": "rounded,filled", "height": "0.32", "margin": "0.12,0.05"}
            text = op_tooltip(node)
        else:
            lines, text = value_lines(node, self.drawn), value_tooltip(node, self.drawn.gradient_of.get(node))
            style |= {"shape": "ellipse", "height": "0.34", "margin": "0.02,0.02"}
        style |= {"peripheries": str(look.rings)} if look.rings > 1 else {}
        mark = self.marks.nodes.get(node)
        if node in self.drawn.highlighted:
            style, classes = style | {"color": self.theme.strong, "penwidth": "3"}, [*classes, "highlight"]
        if mark is not None:
            style, classes = style | {"color": self.theme.changes[mark].color, "penwidth": "2"}, [*classes, mark]
            style |= {"style": "dashed"} if mark == REMOVED else {}
        attributes: Attributes = {
            "id": self._id(self.ids[node]),
            "class": quoted(" ".join(classes)),
            "label": quoted(*lines),
            "tooltip": tooltip(*text),
        }
        return pydot.Node(self.ids[node], **all_quoted(style), **attributes)

    # -- lines -----------------------------------------------------------------------------------

    def _line(self, number: int, line: Line) -> None:
        is_folded = line.value is not None and line.value not in (line.tail, line.head)
        slots = ["", ""] if is_folded else [line.tail_slot, line.head_slot]
        ends = [self.ids[line.tail], self.ids[line.head]]
        is_crowded = line.way != LOOKUP and self._crowded(line)
        place = LOOKUP if is_crowded and line.way == BESIDE else line.way
        style = {"color": self._color(line)} | WAYS[line.way] | self._special(line)
        style |= _slot_place(place, 2.4 * len("".join(slots))) if any(slots) else {}
        # Each name then is at the other end of its line. This comes before ``up`` turns both the ends and the names.
        if is_crowded:
            slots.reverse()
        # Graphviz lays out from tail to head: an arrow that goes up is written the other way round, and drawn backwards.
        if line.up:
            ends, slots, style = ends[::-1], slots[::-1], style | {"dir": "back"}
        labels: Attributes = {end: quoted(shown(slot)) for end, slot in zip(("taillabel", "headlabel"), slots, strict=True) if slot}
        mark = self.marks.of_line(line)
        classes: Attributes = {"class": quoted(" ".join(filter(None, (line.classes, mark))))} if line.mark or mark else {}
        attributes: Attributes = {"id": self._id(f"e{number}"), "tooltip": tooltip(*line.tooltip.split("\n"))}
        self.dot.add_edge(pydot.Edge(ends[0], ends[1], **all_quoted(style), **labels, **classes, **attributes))

    def _color(self, line: Line) -> str:
        mark = self.marks.of_line(line)
        if mark:
            return self.theme.changes[mark].color
        if line.mark in ("link", "saved", "kept"):
            return self.theme.link
        return self.theme.looks[line.role].line + ("70" if line.way == LOOKUP else "")

    def _special(self, line: Line) -> Attributes:
        attributes: Attributes = {"weight": "0", "constraint": "true"} if line.level else {}
        if line.mark in DASHES:
            attributes |= {"style": "dashed", "penwidth": f"{WEIGHTS.get(line.mark, 0.9):g}"}
        if line.mark == "added":
            attributes |= {"labelangle": "40", "labeldistance": "1.6", "labelfontsize": "14", "taillabel": "+"}
        if line.mark in ("link", "kept"):
            attributes |= {"arrowhead": "none"}
        if line.mark in ("carried", "next"):
            attributes |= {"weight": "1"}
        if line.mark in ("saved", "kept"):
            attributes |= {"constraint": "false"}
        return attributes

    def _crowded(self, line: Line) -> bool:
        """Whether the names of the slots would cover one another at the operator, so that they go to the values."""
        op = line.head if isinstance(line.head, Op) else line.tail
        if not isinstance(op, Op) or not (line.tail_slot or line.head_slot):
            return False
        slots = op.inputs if op is line.head else op.outputs
        # The names of residuals are not drawn at the slots.
        return self._slots(op, slots) - len(self.drawn.kept.get(op, ())) > MOST_SLOTS

    def _slots(self, op: Op, slots: Slots) -> int:
        """How many names of slots there are at an operator."""
        return sum(map(len, slots.values())) if is_closed(op, self.drawn) else len(slots)

    def _hold(self, hold: Hold) -> None:
        style: Attributes = {"style": "invis", "weight": "0"}
        if hold.frame is not None:
            style = {"arrowhead": "none", "penwidth": "1.6", "style": "solid", "color": self.theme.looks[hold.role].line}
            style["lhead"] = f"cluster_c{hold.frame.number}"
        self.dot.add_edge(pydot.Edge(self.ids[hold.op], self.ids[hold.node], **all_quoted(style)))


def _slot_place(way: str, half: float) -> Attributes:
    """Graphviz wants the middle of the name by angle and distance (in 10 points) from where the arrow ends."""
    along, beside = {ALONG: (8.0, half + 3.0), BESIDE: (12.0, 8.0), LOOKUP: (half + 8.0, 5.0), TURN: (half + 8.0, 5.0)}[way]
    return {"labelangle": f"{degrees(atan2(beside, along)):.1f}", "labeldistance": f"{hypot(along, beside) / 10:.2f}"}
