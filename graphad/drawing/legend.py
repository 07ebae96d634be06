"""The head of a drawing: its title, the legend of nodes and lines, the color bar."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from graphad.drawing.groups import Groups
from graphad.drawing.metrics import text_width
from graphad.drawing.options import Options
from graphad.drawing.overlays import Overlay
from graphad.drawing.scene import START, Curve, Item, Point, Polygon, Rect, Shape, Text, moved_shape
from graphad.drawing.texts import shown
from graphad.drawing.theme import GROUP_INK, Theme, scale_color

TITLE_SIZE, SIZE, HEIGHT, GAP = 14.0, 8.0, 16.0, 8.0
LEAST_WIDTH = 440.0
HIGHLIGHT, FRAMED, CLOSED, REPEATED, FADED, BREAK = "highlight", "framed", "closed", "repeated", "faded", "break"
NOTES = {
    "link": "gradient of",
    "saved": "saved for the gradient",
    "carried": "carried to the next iteration",
    "next": "to the next copy",
    "added": "added up over the iterations",
}
WORDS = {
    CLOSED: "[+] what is in it is not drawn",
    REPEATED: "\N{MULTIPLICATION SIGN} n: drawn once for n copies",
    FADED: "pale: the surroundings",
    BREAK: "(1) goes on at the same number",
}
DASHES: dict[str, tuple[float, ...]] = {"link": (4, 3), "saved": (4, 3), "kept": (4, 3), "carried": (5, 3), "next": (1.5, 3)}
WEIGHTS = {"carried": 1.8, "next": 2.2, "link": 0.8}


@dataclass
class Header:
    """The head of a drawing, and its size."""

    item: Item
    width: float
    height: float


class _Entry:
    """One entry of the legend: shapes that start at the origin."""

    def __init__(self, width: float, shapes: list[Shape]) -> None:
        self.width = width
        self.shapes = shapes


def header(options: Options, kinds: Collection[str], overlay: Overlay | Groups | None, wide: float) -> Header:
    """The title and the legend of some kinds of nodes and lines, in rows of at most a width; nothing if there is neither."""
    # Each entry begins at the origin, and is moved to its place when its row is known.
    theme = options.look
    item = Item("legend", "legend")
    width = y = 0.0
    for i, line in enumerate((options.title or "").split("\n") if options.title else []):
        text = shown(line) if line else ""
        size = TITLE_SIZE if i == 0 else TITLE_SIZE - 3
        y += size * 1.25
        item.shapes.append(Text(0, y - size * 0.25, text, size, theme.ink, START, bold=i == 0))
        width = max(width, text_width(text, size, bold=i == 0))
    y += 4 if options.title else 0
    entries = list(_entries(theme, kinds, options)) if options.legend else []
    entries += _colors(theme, overlay)
    x = 0.0
    for entry in entries:
        # Entries go on in a new row, never in the middle of one.
        if x and x + entry.width > max(wide, LEAST_WIDTH):
            x, y = 0.0, y + HEIGHT + 5
        item.shapes += [moved_shape(shape, x, y) for shape in entry.shapes]
        x += entry.width + GAP
        width = max(width, x - GAP)
    return Header(item, width, y + (HEIGHT + 10 if entries else 4 if options.title else 0))


def _entries(theme: Theme, kinds: Collection[str], options: Options) -> Iterator[_Entry]:
    for name, look in theme.looks.items():
        if name in kinds:
            yield _chip(theme, look.text, look.fill, look.line, look.rings)
    if FRAMED in kinds:
        look = theme.looks["forward"]
        yield _chip(theme, "graph of an operator", theme.background, look.line, 1)
    for name, change in theme.changes.items():
        if name in kinds:
            yield _chip(theme, change.text, theme.background, change.color, 1, 2.0, (3.0, 2.0) if name == "removed" else ())
    yield from _notes(theme, kinds, options)


def _notes(theme: Theme, kinds: Collection[str], options: Options) -> Iterator[_Entry]:
    if HIGHLIGHT in kinds:
        yield _chip(theme, shown(options.highlight_means), theme.background, theme.strong, 1, 2.4)
    for name, text in NOTES.items():
        if f"line {name}" in kinds:
            yield _note(theme, name, text)
    for name, text in WORDS.items():
        if name in kinds:
            yield _Entry(text_width(text, SIZE) + 4, [Text(2, 11, text, SIZE, theme.muted, START)])


def _chip(
    theme: Theme, text: str, fill: str, line: str, rings: int, weight: float = 1.0, dash: tuple[float, ...] = (), ink: str = ""
) -> _Entry:
    width = text_width(text, SIZE) + 14
    shapes: list[Shape] = [Rect(0, 0, width, HEIGHT, 5, fill, line, weight, dash)]
    # Two rings are a parameter's double line.
    shapes += [Rect(2, 2, width - 4, HEIGHT - 4, 3.5, "none", line)] if rings > 1 else []
    return _Entry(width, [*shapes, Text(width / 2, 11, text, SIZE, ink or theme.ink)])


def _note(theme: Theme, mark: str, text: str) -> _Entry:
    color = theme.link if mark in ("link", "saved") else theme.muted
    shapes: list[Shape] = [Curve([(0, 8), (8, 8), (16, 8), (24, 8)], color, WEIGHTS.get(mark, 1.0), DASHES.get(mark, ()))]
    if mark != "link":
        shapes.append(Polygon(arrow_head((24, 8), (30, 8)), color))
    shapes += plus((13, 8), color, theme.background) if mark == "added" else []
    # A line without an arrow head is shorter.
    at = 28 if mark == "link" else 34
    return _Entry(text_width(text, SIZE) + at + 4, [*shapes, Text(at, 11, text, SIZE, theme.ink, START)])


def _colors(theme: Theme, overlay: Overlay | Groups | None) -> list[_Entry]:
    """The colors of an overlay: a bar, or one chip a group."""
    if not isinstance(overlay, Groups):
        return [] if overlay is None else [_bar(theme, overlay)]
    title = [_Entry(text_width(overlay.title, SIZE), [Text(0, 11, overlay.title, SIZE, theme.ink, START)])] if overlay.title else []
    return [*title, *(_chip(theme, shown(name), color, color, 1, ink=GROUP_INK) for name, color in overlay.colors.items())]


def _bar(theme: Theme, overlay: Overlay) -> _Entry:
    """The color bar: the least number, the scale, the greatest number, and what is measured."""
    low, high = overlay.text(overlay.low), overlay.text(overlay.high)
    at = text_width(overlay.title, SIZE) + 8
    shapes: list[Shape] = [Text(0, 11, overlay.title, SIZE, theme.ink, START), Text(at, 11, low, SIZE, theme.ink, START)]
    at += text_width(low, SIZE) + 4
    # 24 pieces, each a little wider than its place, so that no gap shows between them.
    shapes += [Rect(at + 4 * i, 2, 4.3, HEIGHT - 4, 0, scale_color((i + 0.5) / 24)) for i in range(24)]
    at += 4 * 24 + 4
    return _Entry(at + text_width(high, SIZE), [*shapes, Text(at, 11, high, SIZE, theme.ink, START)])


def arrow_head(start: Point, tip: Point, half: float = 2.2) -> list[Point]:
    """The triangle of an arrow."""
    dx, dy = tip[0] - start[0], tip[1] - start[1]
    # A head of no length has no direction: any will do.
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    x, y = -dy / length * half, dx / length * half
    return [(start[0] + x, start[1] + y), tip, (start[0] - x, start[1] - y)]


def plus(at: Point, color: str, background: str) -> list[Shape]:
    """A plus in a circle."""
    x, y = at
    circle = Rect(x - 4, y - 4, 8, 8, 4, background, color, 1.0)
    across = Curve([(x - 2.4, y), (x - 1, y), (x + 1, y), (x + 2.4, y)], color, 1.0)
    return [circle, across, Curve([(x, y - 2.4), (x, y - 1), (x, y + 1), (x, y + 2.4)], color, 1.0)]
