"""From a plan and its layout to shapes: how each kind of node, line and frame looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from graphad.drawing.boxes import CELL_HEIGHT, CELL_PAD, LINE, SLOT, Box, boxes_of
from graphad.drawing.frame_titles import Obstacles, Place
from graphad.drawing.frames import SEVERAL, Frame, Frames
from graphad.drawing.groups import Groups
from graphad.drawing.layout import FRAME_TEXT, Geometry, laid_out
from graphad.drawing.legend import (
    BREAK,
    CLOSED,
    DASHES,
    FADED,
    FRAMED,
    HIGHLIGHT,
    REPEATED,
    WEIGHTS,
    Header,
    arrow_head,
    header,
    plus,
)
from graphad.drawing.lines import LOOKUP, TURN, Line, holds_of, lines_of, way_of
from graphad.drawing.metrics import text_width
from graphad.drawing.nesting import Arrow, does_something
from graphad.drawing.options import Options
from graphad.drawing.overlays import Overlay, overlay_of
from graphad.drawing.plan import Plan, plan, plans
from graphad.drawing.scene import START, Curve, Ellipse, Item, Point, Polygon, Rect, Scene, Shape, Text, mixed, moved_shape, sampled
from graphad.drawing.texts import op_tooltip, value_tooltip
from graphad.drawing.theme import ADDED, REMOVED, Look
from graphad.ir import Graph, Node, Op, Value
from graphad.program import BACKWARD, FORWARD, Parameter

MARGIN, BELOW_HEADER = 14.0, 6.0
STRONG_WEIGHT = 2.6
PALE = 0.35
# A screen of 1600 x 1000 pixels in points, where the names of operators, of 10 points, have 9 pixels; how many of them a drawing may take
# with these values, if there is another one with fewer; up to how many nodes it is laid out as a whole to know.
SCREEN = 1600 * 10 / 9, 1000 * 10 / 9
SCREENS = {"all": 1, "shared": 2}
WIDEST = 2  # screens beside one another: a wider drawing has nested graphs closed
FEW = 60


@dataclass
class Marks:
    """The marks of a difference on nodes: ``added``, ``removed`` or ``changed``.

    ``gone`` and ``new`` are what changed operators read or write no more, and what they do now; ``arrows`` are those for
    what they do no more, ``names`` what values were called that are there no more.
    """

    nodes: Mapping[Node, str] = field(default_factory=dict)
    gone: frozenset[tuple[Node, Node]] = frozenset()
    new: frozenset[tuple[Node, Node]] = frozenset()
    arrows: tuple[Arrow, ...] = ()
    names: Mapping[Value, str] = field(default_factory=dict)

    def of_line(self, line: Line) -> str:
        """The mark of a line: that of its ends, or its own."""
        ends = {self.nodes.get(line.tail), self.nodes.get(line.head)}
        edges = {(line.value, line.head), (line.tail, line.head)}
        if REMOVED in ends or not edges.isdisjoint(self.gone):
            return REMOVED
        return ADDED if ADDED in ends or not edges.isdisjoint(self.new) else ""


def _legible(graph: Graph, options: Options) -> Composer:
    """The drawing of a graph: of those with all values, with fewer and with none the first that is legible; then nested graphs close."""
    for picture in plans(graph, options):
        composer = Composer(graph, picture, options, Marks())
        is_least = picture.values not in SCREENS and not picture.nesting.opened
        if options.values != "auto" or is_least or composer.is_legible():
            break
    return composer


def with_marks(picture: Plan, marks: Marks) -> Plan:
    """A plan with the arrows and names of a difference."""
    picture.names |= marks.names
    picture.arrows += [arrow for arrow in marks.arrows if arrow.tail in picture.nodes and arrow.head in picture.nodes]
    return picture


def is_closed(op: Op, drawn: Plan) -> bool:
    """Whether an operator holds graphs that are not drawn."""
    return op not in drawn.nesting.opened and any(map(does_something, op.graphs.values()))


def kind_of(node: Node, drawn: Plan) -> str:
    """The row of the theme's looks that a node is drawn by."""
    order = drawn.orders.get(node, 0)
    suffix = "" if order < 2 else str(min(order, 3))
    if isinstance(node, Op):
        role = drawn.nesting.role(node)
        return role + suffix if role == BACKWARD else role
    if isinstance(node.var, Parameter):
        return "parameter"
    if node.persistable:
        return "state"
    if node in drawn.gradient_of or order:
        return "gradient" + suffix
    # In a nested graph what has no writer is an argument, not data.
    return "data" if not node.writers and node.graph.parent is None else "variable"


def scene_of(graph: Graph, options: Options, marks: Marks | None = None) -> Scene:
    """A graph as shapes.

    Raises:
        RenderError: no renderer, it failed, or it took too long.
    """
    # What changed are often values, which a difference therefore keeps, whatever its size.
    composer = _legible(graph, options) if marks is None else Composer(graph, with_marks(plan(graph, options), marks), options, marks)
    return composer.scene()


class Composer:
    """One drawing; ``kinds`` are those that the legend has to explain."""

    def __init__(self, graph: Graph, drawn: Plan, options: Options, marks: Marks) -> None:
        self.drawn = drawn
        self.options = options
        self.theme = options.look
        self.marks = marks
        self.overlay: Overlay | Groups | None = overlay_of(graph, drawn.folding, options)
        self.kinds: set[str] = set()
        self.frames = Frames(drawn)
        self.lines: list[Line] = list(lines_of(drawn, options))
        self.holds = list(holds_of(drawn, self.frames))
        self.boxes = boxes_of(
            drawn,
            lambda op: is_closed(op, drawn),
            lambda arrow: way_of(arrow, drawn) in (LOOKUP, TURN),
            options.rankdir,
            options.attributes,
        )

    @cached_property
    def places(self) -> Geometry:
        """The places of all nodes, frames and lines."""
        return laid_out(self.drawn, self.boxes, self.frames, self.lines, self.holds, self.options)

    def is_legible(self) -> bool:
        """Whether it is no wider than a screen, and no larger than as many as it may take; without values, whether it is not too wide."""
        if len(self.drawn.nodes) <= FEW:
            places = self.places
        else:  # lines take longest to lay out, and add little to the size
            places = laid_out(self.drawn, self.boxes, self.frames, self.lines, self.holds, self.options, with_lines=False)
        screens = SCREENS.get(self.drawn.values)
        if screens is None:
            return places.width <= WIDEST * SCREEN[0]
        return places.width <= SCREEN[0] and places.width * places.height <= screens * SCREEN[0] * SCREEN[1]

    def scene(self, places: Geometry | None = None) -> Scene:
        """The shapes, at given places, or at those that suit this drawing best; what has no place is not drawn."""
        geometry = self.places if places is None else places
        # In the order of painting: lines are on top of frames, and nodes on top of the ends of lines.
        items = [*self._frames(geometry), *self._lines(geometry), *self._breaks(geometry), *self._nodes(geometry)]
        above = header(self.options, self.kinds, self.overlay, geometry.width)
        return self._put_together(items, geometry, above)

    def _put_together(self, items: list[Item], geometry: Geometry, above: Header) -> Scene:
        theme = self.theme
        down = MARGIN + above.height + (BELOW_HEADER if above.height else 0)
        scene = Scene(0, 0, theme.background, theme.fonts, self.options.title or "graphad")
        scene.items = [moved(item, MARGIN, down) for item in items]
        scene.items += [moved(above.item, MARGIN, MARGIN)] if above.item.shapes else []
        right, bottom = extent(scene.items)
        scene.width = max(right, MARGIN + max(geometry.width, above.width)) + MARGIN
        scene.height = max(bottom, down + geometry.height) + MARGIN
        for item in scene.items:
            # Several drawings in one page need ids of their own.
            item.id = self.options.prefix + item.id
        return scene

    # -- nodes -----------------------------------------------------------------------------------

    def _nodes(self, geometry: Geometry) -> Iterator[Item]:
        for number, (node, box) in enumerate(self.boxes.items()):
            if node not in geometry.nodes:
                continue
            kind = kind_of(node, self.drawn)
            classes = [
                "node",
                "op" if isinstance(node, Op) else "value",
                *(["backward"] if kind.startswith(BACKWARD) and kind != BACKWARD else []),
            ]
            classes += ["gradient"] if kind.startswith("gradient") and kind != "gradient" else []
            marks = [kind, *self._notes(node)]
            self.kinds.update(marks)
            text = op_tooltip(node) if isinstance(node, Op) else value_tooltip(node, self.drawn.gradient_of.get(node))
            item = Item(f"n{number}", " ".join([*classes, *marks]), "\n".join([*text, *self._number(node)]))
            x, y = geometry.nodes[node]
            item.shapes = list(self._shapes(node, box, kind, x - box.width / 2, y - box.height / 2))
            yield item

    def _notes(self, node: Node) -> Iterator[str]:
        if node in self.drawn.highlighted:
            yield HIGHLIGHT
        if isinstance(node, Op) and (is_closed(node, self.drawn) or node in self.drawn.folding.closed):
            yield CLOSED
        if node in self.drawn.faded:
            yield FADED
        if node in self.marks.nodes:
            yield self.marks.nodes[node]

    def _number(self, node: Node) -> list[str]:
        words = None if self.overlay is None else self.overlay.words(node)
        return [] if words is None else [words]

    def _shapes(self, node: Node, box: Box, kind: str, x: float, y: float) -> Iterator[Shape]:
        theme, look = self.theme, self.theme.looks[kind]
        fill, line, ink, weight = look.fill, look.line, theme.ink, 1.0
        dash: tuple[float, ...] = ()
        if self.overlay is not None:
            fill, ink = self.overlay.color(node) or (theme.background, ink)
        if node in self.drawn.highlighted:
            line, weight = theme.strong, STRONG_WEIGHT
        mark = self.marks.nodes.get(node)
        if mark is not None:
            line, weight = theme.changes[mark].color, 2.2
        if mark == REMOVED:
            fill, ink, weight, dash = theme.background, theme.changes[mark].color, 1.2, (3.0, 2.0)
        # Last, so that colors of overlays and changes fade as well.
        if node in self.drawn.faded:
            fill, line, ink = (mixed(color, _ground(theme.background), PALE) for color in (fill, line, ink))
        yield from _outline(box, x, y, Look("", fill, line, look.rings), weight, dash)
        yield from self._words(node, box, x, y, ink)
        yield from self._cells(box, x, y, ink)

    def _cells(self, box: Box, x: float, y: float, ink: str) -> Iterator[Shape]:
        for cell in dict.fromkeys(box.cells.values()):
            # A text is placed by its base line, which is 0.34 of its size below the middle of its letters.
            left, top, width, height = cell.place
            yield Text(
                x + left + width / 2, y + top + height / 2 + SLOT * 0.34, cell.text, SLOT, mixed(ink, _ground(self.theme.background), 0.9)
            )

    def _words(self, node: Node, box: Box, x: float, y: float, ink: str) -> Iterator[Shape]:
        high = sum(size * LINE for _, size in box.lines) + CELL_HEIGHT * len(box.chips)
        at = y + box.middle[1] - high / 2
        for text, size in box.lines:
            yield Text(x + box.middle[0], at + size * (LINE + 0.64) / 2, text, size, ink)
            at += size * LINE
        references = self.drawn.references.get(node, ()) if isinstance(node, Op) else ()
        for reference, text in zip(references, box.chips, strict=True):
            look = self.theme.looks[kind_of(reference.value, self.drawn)]
            width = text_width(text, SLOT) + 2 * CELL_PAD
            yield Rect(x + box.middle[0] - width / 2, at + 0.5, width, CELL_HEIGHT - 1, 3, look.fill, look.line, 0.6)
            yield Text(x + box.middle[0], at + CELL_HEIGHT / 2 + SLOT * 0.34, text, SLOT, self.theme.ink)
            at += CELL_HEIGHT

    # -- lines -----------------------------------------------------------------------------------

    def _lines(self, geometry: Geometry) -> Iterator[Item]:
        for number, line in enumerate(self.lines):
            if number not in geometry.curves:
                continue
            if line.mark:
                self.kinds.add(f"line {line.classes}")
            mark = self.marks.of_line(line)
            self.kinds.update({mark} if mark else ())
            item = Item(f"e{number}", " ".join(["edge", *([line.classes] if line.mark else []), *([mark] if mark else [])]), line.tooltip)
            item.shapes = list(self._line(line, mark, geometry.curves[number], geometry.heads.get(number)))
            yield item
        for i, points in enumerate(geometry.joints):
            yield Item(f"j{i}", "edge joint", "", [Curve(points, self.theme.muted, 1.6)])

    def _line(self, line: Line, mark: str, points: list[Point], tip: Point | None) -> Iterator[Shape]:
        color, message = self._line_color(line, mark), self._message(line)
        weight = 1.6 if mark == ADDED else WEIGHTS["next"] if message else WEIGHTS.get(line.mark, 0.9)
        yield Curve(points, color, weight, (2.0, 2.0) if mark == REMOVED else DASHES.get(line.mark, ()))
        if tip is not None:
            yield Polygon(arrow_head(points[-1], tip, 3.0 if weight > 1.5 else 2.2), color)
        if line.mark == "added":
            # In the middle along the curve, which may be far from the middle between its ends.
            yield from plus(sampled(points)[len(sampled(points)) // 2], color, self.theme.background)
        if message:
            x, y = sampled(points)[len(sampled(points)) // 2]
            wide = text_width(message, SLOT) + 4
            yield Rect(x - wide / 2, y - SLOT * 0.6, wide, SLOT * 1.2, 2, _ground(self.theme.background), color, 0.6)
            yield Text(x, y + SLOT * 0.34, message, SLOT, self.theme.ink)

    def _message(self, line: Line) -> str:
        """The bytes that go along a line from one rank to another."""
        value = line.value if line.value is not None else line.tail
        if not (isinstance(self.overlay, Groups) and isinstance(line.head, Op) and isinstance(value, Value)):
            return ""
        return self.overlay.messages.get((value, line.head), "")

    def _line_color(self, line: Line, mark: str) -> str:
        ground = _ground(self.theme.background)
        if mark:
            return self.theme.changes[mark].color
        special = line.mark in ("link", "saved", "kept")
        color = self.theme.link if special else self.theme.looks[line.role].line
        if line.tail in self.drawn.faded or line.head in self.drawn.faded:
            return mixed(color, ground, PALE)
        # What is only looked up is paler than what flows.
        return mixed(color, ground, 0.5) if line.way == LOOKUP and not special else color

    def _breaks(self, geometry: Geometry) -> Iterator[Item]:
        for i, ((x, y), text) in enumerate(geometry.breaks):
            self.kinds.add(BREAK)
            yield Item(f"b{i}", "break", "", [Text(x, y + SLOT * 0.34, text, SLOT, self.theme.muted)])

    # -- frames ----------------------------------------------------------------------------------

    def _frames(self, geometry: Geometry) -> Iterator[Item]:
        obstacles = Obstacles(geometry, self.boxes) if geometry.frames else None
        for frame in self.frames.all:
            if frame not in geometry.frames or obstacles is None:
                continue
            self.kinds.update({FRAMED} if frame.kind in ("nested", SEVERAL) else {REPEATED} if frame.repeated else set())
            role = frame.role if frame.role in self.theme.looks else FORWARD
            item = Item(f"c{frame.number}", f"frame {role}", "\n".join(frame.tooltip))
            for place in geometry.frames[frame]:
                item.shapes += self._frame(frame, role, place)
                if frame.label:
                    at, label = obstacles.title(frame, place)
                    item.shapes.append(Text(*at, label, FRAME_TEXT, self.theme.looks[role].line, START))
            yield item

    def _frame(self, frame: Frame, role: str, place: Place) -> Iterator[Shape]:
        left, top, right, bottom = place
        line, ground = self.theme.looks[role].line, _ground(self.theme.background)
        edge = mixed(line, ground, 0.6)
        fill = "none" if frame.kind == SEVERAL else mixed(line, ground, self.theme.frame)
        # A pile: edges to the right and below say that the frame is drawn once for several.
        for back in (5.0, 2.5) if frame.repeated else ():
            yield Rect(left + back, top + back, right - left, bottom - top, 7, ground, edge, 0.8)
        yield Rect(left, top, right - left, bottom - top, 7, fill, edge)


def _outline(box: Box, x: float, y: float, look: Look, weight: float, dash: tuple[float, ...]) -> Iterator[Shape]:
    if not box.round:
        yield Rect(x, y, box.width, box.height, 6, look.fill, look.line, weight, dash)
        return
    middle = x + box.width / 2, y + box.height / 2
    yield Ellipse(*middle, box.width / 2, box.height / 2, look.fill, look.line, weight, dash)
    if look.rings > 1:
        yield Ellipse(*middle, box.width / 2 - 3, box.height / 2 - 3, "none", look.line, weight, dash)


def _ground(background: str) -> str:
    # Where the page is transparent, nothing tells its color: pale colors are mixed for white paper.
    return background if background.startswith("#") else "#ffffff"


def moved(item: Item, x: float, y: float) -> Item:
    """An item at another place."""
    return Item(item.id, item.classes, item.tooltip, [moved_shape(shape, x, y) for shape in item.shapes])


def extent(items: Sequence[Item]) -> Point:
    """The greatest coordinates of any shape."""
    corners = [corner(shape) for item in items for shape in item.shapes]
    return max((x for x, _ in corners), default=0.0), max((y for _, y in corners), default=0.0)


def corner(shape: Shape) -> Point:
    """The lower right corner of a shape."""
    if isinstance(shape, Curve | Polygon):
        return max(x for x, _ in shape.points), max(y for _, y in shape.points)
    if isinstance(shape, Rect):
        return shape.x + shape.width, shape.y + shape.height
    if isinstance(shape, Ellipse):
        return shape.x + shape.rx, shape.y + shape.ry
    width = text_width(shape.text, shape.size, shape.bold)
    return shape.x + (width if shape.anchor == START else width / 2), shape.y
