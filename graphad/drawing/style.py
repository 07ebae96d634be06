"""How each kind of node, arrow and legend entry looks; one row a kind."""

from __future__ import annotations

from math import atan2, ceil, degrees, hypot
from typing import Any, NamedTuple

from graphad.drawing.arrows import ADDED, CARRIED, ENTERS, KEPT, LEAVES, SAVED
from graphad.drawing.labels import markup, quoted
from graphad.graph import Node, Op, Value
from graphad.program import BACKWARD, FORWARD, OPTIMIZE, Parameter

Attributes = dict[str, Any]
INK, MUTED, STRONG = "#2b2f36", "#676e79", "#d6005c"


class Look(NamedTuple):
    """The text in the legend, fill and line color, and the number of outlines."""

    text: str
    fill: str
    line: str
    rings: int = 1


# In the order of the legend. The colors keep their distance for color-blind readers too.
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
HIGHLIGHT, LINK, FRAMED, CLOSED = "highlight", "link", "framed", "closed"
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

NOTES = {
    HIGHLIGHT: ("bold outline: {}", STRONG),
    LINK: ("- - - gradient of", LINK_EDGE["color"]),
    "saved": ("- - &gt; saved for the gradient", LINK_EDGE["color"]),
    "carried": ("<b>- - &gt;</b> carried to the next iteration", INK),
    "added": ("+ added up over the iterations", INK),
    CLOSED: ("[+] nested graph not drawn", INK),
}
FRAME: Attributes = {"fontname": "Helvetica", "fontsize": "9", "margin": "8", "penwidth": "1", "style": "rounded,filled"}
FRAME_TINT, FRAME_LINE = "10", "a0"
AMONG_FRAMES: Attributes = {"compound": "true", "newrank": "true"}  # frames do not keep nodes from being level with others outside
FRAME_LOOK = Look("graph of an operator", "#f2f6fb", "#86aacb")
HOLD_EDGE: Attributes = {"style": "invis", "weight": "0"}
JOINT_EDGE: Attributes = {"arrowhead": "none", "penwidth": "1.6", "style": "solid"}
SAVED_EDGE = LINK_EDGE | {"arrowhead": "vee", "class": "saved"}
GROUP: Attributes = {"bgcolor": "transparent", "style": "rounded"}
LEVEL_EDGE: Attributes = {"constraint": "true", "weight": "0"}
ADDED_EDGE: Attributes = {"class": "added", "labelangle": "40", "labeldistance": "1.6", "labelfontsize": "14", "taillabel": "+"}
CARRIED_EDGE: Attributes = {"class": "carried", "penwidth": "2", "style": "dashed", "weight": "1"}

# How an arrow bears on the layout: the main flow is kept straight, side inputs bend, a lookup far away does not count.
ALONG, ASIDE, LOOKUP = "along", "aside", "lookup"
WAYS: dict[str, Attributes] = {ALONG: {"weight": "8"}, ASIDE: {}, LOOKUP: {"constraint": "false"}}

# The mark, the tooltip and the look of arrows of a sort.
SORTS: dict[int, tuple[str, str, Attributes]] = {
    LEAVES: ("", "a result", {}),
    ENTERS: ("", "what the first iteration starts from", {}),
    SAVED: ("saved", "saved for the gradient", SAVED_EDGE),
    KEPT: ("saved", "what is kept for the gradient", SAVED_EDGE | {"arrowhead": "none"}),
    ADDED: ("added", "added up over the iterations", ADDED_EDGE),
    CARRIED: ("carried", "carried to the next iteration", CARRIED_EDGE),
}


def part(role: str) -> str:
    """The row of ``LOOKS`` the operators of a part of a program are drawn by."""
    return role if role in LOOKS else FORWARD


def kind(node: Value, is_gradient: bool) -> str:
    """The row of ``LOOKS`` a value is drawn by."""
    if isinstance(node.var, Parameter):
        return "parameter"
    if node.persistable:
        return "state"
    if is_gradient:
        return "gradient"
    return "data" if node.writer is None and node.graph.parent is None else "variable"


def node_style(node: Node, kind: str, strong: bool, slots: int = 0) -> Attributes:
    """Shape, colors and lines of a node; an operator with many slots is wide."""
    look = LOOKS[kind]
    style = (OPERATOR if isinstance(node, Op) else VALUE) | {"color": look.line, "fillcolor": look.fill}
    if slots > 2:
        style["width"] = f"{WIDTH_OF_SLOT * slots:.2f}"
    style |= {"peripheries": str(look.rings)} if look.rings > 1 else {}
    return style | ({"color": STRONG, "penwidth": "3"} if strong else {})


def arrow_style(part: str, way: str, slot: str, crowded: bool) -> Attributes:
    """Color and weight of an arrow of an operator, and where beside it the name of the slot is."""
    place = LOOKUP if crowded and way == ASIDE else way
    color = LOOKS[part].line + ("70" if way == LOOKUP else "")
    return {"color": color} | WAYS[way] | (_slot_place(place, 2.4 * len(slot)) if slot else {})


def _slot_place(way: str, half: float) -> Attributes:
    """Graphviz wants the middle of the name by angle and distance (in 10 points) from where the arrow ends."""
    along, beside = {ALONG: (8.0, half + 3.0), ASIDE: (12.0, 8.0), LOOKUP: (half + 8.0, 5.0)}[way]
    return {"labelangle": f"{degrees(atan2(beside, along)):.1f}", "labeldistance": f"{hypot(along, beside) / 10:.2f}"}


def frame_style(part: str) -> Attributes:
    """Colors and lines of the frame around a nested graph of an operator."""
    line = LOOKS[part].line
    return FRAME | {"color": line + FRAME_LINE, "fillcolor": line + FRAME_TINT, "fontcolor": line}


def all_quoted(attributes: Attributes) -> Attributes:
    """Attributes with their values quoted."""
    return {name: quoted(value) for name, value in attributes.items()}


def header(title: str | None, kinds: set[str], highlighted: str = "") -> str:
    """The title, and a legend of the kinds and of the highlighting, as one HTML-like label; empty if there is neither."""
    rows = [f'<tr><td align="left" colspan="{WIDEST_ROW}"><b><font point-size="14">{markup(title)}</font></b></td></tr>'] if title else []
    chips = [_chip(look) for name, look in LOOKS.items() if name in kinds]
    notes = [_note(text.format(markup(highlighted)), color) for mark, (text, color) in NOTES.items() if mark in kinds]
    if FRAMED in kinds:
        table = '<table border="0" cellborder="0" cellspacing="0" cellpadding="6">'
        below = notes and [f'<tr><td align="left" colspan="{WIDEST_ROW}">{table}<tr>{"".join(notes)}</tr></table></td></tr>']
        chips.append(_chip(FRAME_LOOK))
    else:
        chips, below = chips + notes, []
    width = ceil(len(chips) / max(1, ceil(len(chips) / WIDEST_ROW)))
    rows += [f"<tr>{''.join(chips[i : i + width])}</tr>" for i in range(0, len(chips), max(1, width))]
    rows += below
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
