"""How each kind of node, arrow and legend entry looks; one row a kind."""

from __future__ import annotations

from math import atan2, ceil, degrees, hypot
from typing import Any, NamedTuple

from graphad.drawing.labels import markup
from graphad.graph import Node, Op
from graphad.program import BACKWARD, FORWARD, OPTIMIZE, Parameter

Attributes = dict[str, Any]
INK, MUTED, STRONG = "#2b2f36", "#676e79", "#d6005c"


class Look(NamedTuple):
    """What the legend says, fill and line colour, and how many lines go around."""

    text: str
    fill: str
    line: str
    rings: int = 1


# In the order of the legend. The colours keep their distance for colour-blind readers too.
LOOKS = {
    FORWARD: Look("forward operator", "#cfe3f7", "#2f6ea8"),
    BACKWARD: Look("backward operator", "#fbdcc0", "#bf5f12"),
    OPTIMIZE: Look("optimizer operator", "#d9d2ee", "#6a4fae"),
    "data": Look("data", "#fdf3b9", "#a58a12"),
    "parameter": Look("parameter", "#d5ebd0", "#3c8540", 2),
    "state": Look("kept between runs", "#e7e9ec", MUTED, 2),
    "variable": Look("variable", "#ffffff", MUTED),
    "gradient": Look("gradient", "#fff6ee", "#bf5f12"),
}
HIGHLIGHT, LINK = "highlight", "link"
WIDEST_ROW = 5
WIDTH_OF_SLOT = 0.3

GRAPH: Attributes = {
    "bgcolor": "white",
    "fontname": "Helvetica",
    "labeljust": "l",
    "labelloc": "t",
    "nodesep": "0.22",
    "outputorder": "edgesfirst",
    "pad": "0.2",
    "ranksep": "0.34",
}
NODE: Attributes = {"fontcolor": INK, "fontname": "Helvetica", "fontsize": "9", "style": "filled"}
EDGE: Attributes = {
    "arrowsize": "0.6",
    "labelfontcolor": "#4d545e",
    "labelfontname": "Helvetica",
    "labelfontsize": "8",
    "penwidth": "0.9",
}
OPERATOR: Attributes = {
    "fontsize": "10",
    "height": "0.32",
    "margin": "0.12,0.05",
    "shape": "box",
    "style": "rounded,filled",
    "width": "0.6",
}
VALUE: Attributes = {"height": "0.34", "margin": "0.02,0.02", "shape": "ellipse", "width": "0.7"}
LINK_EDGE: Attributes = {
    "arrowhead": "none",
    "class": "link",
    "color": "#c4a184",
    "constraint": "false",
    "penwidth": "0.8",
    "style": "dashed",
}

# How an arrow bears on the layout: what flows along is kept straight, what joins from aside bends, a lookup far away does not count.
ALONG, ASIDE, LOOKUP = "along", "aside", "lookup"
WAYS: dict[str, Attributes] = {ALONG: {"weight": "8"}, ASIDE: {}, LOOKUP: {"constraint": "false"}}


def kind(node: Node, is_gradient: bool = False) -> str:
    """The row of ``LOOKS`` a node is drawn by."""
    if isinstance(node, Op):
        return node.role if node.role in LOOKS else FORWARD
    if isinstance(node.var, Parameter):
        return "parameter"
    if node.persistable:
        return "state"
    if is_gradient:
        return "gradient"
    return "data" if node.writer is None else "variable"


def node_style(node: Node, kind: str, strong: bool) -> Attributes:
    """Shape, colours and lines of a node."""
    look = LOOKS[kind]
    style = (OPERATOR if isinstance(node, Op) else VALUE) | {"color": look.line, "fillcolor": look.fill}
    if isinstance(node, Op) and max(len(node.inputs), len(node.outputs)) > 2:
        style["width"] = f"{WIDTH_OF_SLOT * max(len(node.inputs), len(node.outputs)):.2f}"
    style |= {"peripheries": str(look.rings)} if look.rings > 1 else {}
    return style | ({"color": STRONG, "penwidth": "3"} if strong else {})


def arrow_style(op: Op, way: str, slot: str, crowded: bool) -> Attributes:
    """Colour and weight of an arrow of an operator, and where beside it the name of the slot stands."""
    place = LOOKUP if crowded and way == ASIDE else way
    color = LOOKS[kind(op)].line + ("70" if way == LOOKUP else "")
    return {"color": color} | WAYS[way] | (_slot_place(place, 2.4 * len(slot)) if slot else {})


def _slot_place(way: str, half: float) -> Attributes:
    """Graphviz wants the middle of the name by angle and distance (in 10 points) from where the arrow ends."""
    along, beside = {ALONG: (8.0, half + 3.0), ASIDE: (12.0, 8.0), LOOKUP: (half + 8.0, 5.0)}[way]
    return {"labelangle": f"{degrees(atan2(beside, along)):.1f}", "labeldistance": f"{hypot(along, beside) / 10:.2f}"}


def header(title: str | None, kinds: set[str]) -> str:
    """The title, and a legend of the kinds, as one HTML-like label; empty if there is neither."""
    rows = [f'<tr><td align="left" colspan="{WIDEST_ROW}"><b><font point-size="14">{markup(title)}</font></b></td></tr>'] if title else []
    chips = [_chip(look) for name, look in LOOKS.items() if name in kinds]
    chips += [_note("bold outline: highlighted", STRONG)] if HIGHLIGHT in kinds else []
    chips += [_note("- - - gradient of", LINK_EDGE["color"])] if LINK in kinds else []
    width = ceil(len(chips) / max(1, ceil(len(chips) / WIDEST_ROW)))
    rows += [f"<tr>{''.join(chips[i : i + width])}</tr>" for i in range(0, len(chips), max(1, width))]
    return f'<<table border="0" cellborder="0" cellspacing="4" cellpadding="3">{"".join(rows)}</table>>' if rows else ""


def _chip(look: Look) -> str:
    text = f'<font point-size="8">{look.text}</font>'
    if look.rings > 1:
        ring = f'border="1" color="{look.line}" style="rounded"'
        text = f'<table {ring} cellborder="0" cellpadding="1" cellspacing="0"><tr><td> {text} </td></tr></table>'
    padding = 1 if look.rings > 1 else 3
    return f'<td border="1" cellpadding="{padding}" color="{look.line}" bgcolor="{look.fill}" style="rounded">{text}</td>'


def _note(text: str, color: str) -> str:
    return f'<td align="left"><font point-size="8" color="{color}">{text}</font></td>'
