"""How each kind of node, arrow and legend entry looks; names and attributes as text that Graphviz shows as it is."""

from __future__ import annotations

import html
import re
from math import atan2, ceil, degrees, hypot
from typing import Any, NamedTuple

from graphad.drawing.plan import ADDED, CARRIED, ENTERS, KEPT, LEAVES, SAVED
from graphad.ir import Graph, Node, Op, Value
from graphad.program import BACKWARD, FORWARD, OPTIMIZE, Block, Parameter, SourceLine

# -- labels ----------------------------------------------------------------------------------------
# Names and attributes as text that Graphviz shows as it is: names occur in DOT only as quoted here.

LONGEST_NAME, LONGEST_TEXT = 44, 100


def shown(name: str) -> str:
    """A name as readers see it: as it is, or as Python writes it if it has a look that deceives.

    >>> print(shown("fc_0.w_0"), shown("two words"), shown("line" + chr(10)), shown(" "))
    fc_0.w_0 two words 'line\\n' ' '
    """
    return name if name.isprintable() and name and name == name.strip() else repr(name)


def shortened(text: str, limit: int = LONGEST_NAME) -> str:
    """A long text without its middle."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}…{text[len(text) - limit // 2 + 1 :]}"


def quoted(*lines: str) -> str:
    """Lines as one quoted DOT string, nothing in them read as an escape or an entity."""
    text = "\n".join(lines).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return '"' + text.replace("\n", "\\n") + '"'


def tooltip(*lines: str) -> str:
    """Lines as a quoted tooltip.

    Graphviz reads escapes in a tooltip twice; an invisible word joiner after a backslash leaves it nothing to read.
    """
    return quoted(*(line.replace("\\", "\\\u2060") for line in lines))


def markup(text: str) -> str:
    """Text inside an HTML-like label."""
    lines = (shown(line) if line else "" for line in text.split("\n"))
    return "<br/>".join(html.escape(line, quote=False).replace("\\", "&#92;") for line in lines)


def op_label(op: Op, kept: list[str], closed: bool, attributes: list[str]) -> str:
    """An operator's type, a mark if it holds graphs that are not drawn, the slots of its state, attributes."""
    name = shortened(shown(op.type)) + (" [+]" if closed else "")
    return quoted(name, *([f"keeps {', '.join(map(shown, kept))}"] if kept else []), *attributes)


def attr_lines(op: Op) -> list[str]:
    """The attributes of an operator, one a line."""
    return [shortened(f"{shown(name)}={attr_text(value)}") for name, value in op.attrs.items() if not isinstance(value, Block)]


def value_label(value: Value) -> str:
    """A value's name and type."""
    name = shortened(shown(repr(value)))
    return quoted(name) if value.type is None else quoted(name, str(value.type))


def value_tooltip(value: Value, gradient_of: Value | None) -> str:
    """A value's full name, its type, and what is special about it."""
    lines = [f"{shown(repr(value))}: {value.type or 'unknown type'}"]
    lines += ["persistable"] if value.persistable else []
    lines += ["stop_gradient"] if value.stop_gradient else []
    lines += [f"gradient of {shown(repr(gradient_of))}"] if gradient_of is not None else []
    return tooltip(*lines)


def op_tooltip(op: Op) -> str:
    """An operator's type and role, attributes, line in the user's program and the pass that made it."""
    lines = [shown(op.type) if op.role == FORWARD else f"{shown(op.type)} ({op.role})"]
    lines += [f"{shown(name)} = {shortened(attr_text(value), LONGEST_TEXT)}" for name, value in op.attrs.items()]
    lines += [
        f"{shown(slot)}: {shortened(', '.join(shown(repr(v)) for v in values), LONGEST_TEXT)}"
        for slot, values in (*op.inputs.items(), *op.outputs.items())
    ]
    lines += [graph_text(name, graph) for name, graph in op.graphs.items() if len(graph.ops)]
    lines += [f"written at {short_source(op.source)}"] if op.source is not None else []
    lines += [f"made by {shown(op.made_by)}"] if op.made_by else []
    return tooltip(*lines)


def graph_text(name: str, graph: Graph) -> str:
    """A nested graph with its counts."""
    ops, values = (sum(len(each) for each in counted) for counted in zip(*((g.ops, g.values) for g in graph.tree()), strict=True))
    return f"{shown(name)}: {ops} operator{'s' * (ops != 1)}, {values} value{'s' * (values != 1)}"


def frame_tooltip(op: Op, name: str, graph: Graph) -> str:
    """Whose nested graph it is, its counts, and the line in the user's program."""
    lines = [f"{shown(op.type)}, {graph_text(name, graph)}"]
    return tooltip(*lines, *([f"written at {short_source(op.source)}"] if op.source is not None else []))


def arrow_tooltip(value: Value, tail_slot: str, head_slot: str, note: str = "") -> str:
    """The value an arrow carries, the slots it leaves and fills where there are several, and what is special about it."""
    slots = " → ".join(shown(slot) for slot in (tail_slot, head_slot) if slot)
    text = f"{shown(repr(value))} ({slots})" if slots else shown(repr(value))
    return tooltip(f"{text}: {note}" if note else text)


def attr_text(value: object) -> str:
    """An attribute's value, the same in every run."""
    if isinstance(value, Block):
        return f"block {value.idx}"
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(attr_text, value))}]"
    return type(value).__name__


def short_source(source: SourceLine) -> str:
    """A source line with the last two parts of its file's path, so that it is the same on every machine."""
    parts = re.split(r"[/\\]", source.file)
    return f"{shown('/'.join(parts[-2:]))}:{source.line}"


# -- style -----------------------------------------------------------------------------------------
# How each kind of node, arrow and legend entry looks; one row a kind.

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
