"""The layout of drawings: Graphviz is given sizes and lines, no text, and returns places.

The backward is drawn upwards beside the forward, each gradient at the height of what it is the gradient of:

    x ┄┄┄┄ x@GRAD
    │        ▲
    tanh   tanh_grad
    ▼        │
    y ┄┄┄┄ y@GRAD

So are the graphs nested in the gradients of loops and branches: each is a frame beside the frame of the forward.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

from graphad.drawing.boxes import BOTTOM, LEFT, RIGHT, SLOT, TOP, Box
from graphad.drawing.columns import columns_of
from graphad.drawing.detours import around_its_head
from graphad.drawing.frames import Frame, Frames
from graphad.drawing.lines import ALONG, LOOKUP, TURN, Hold, Line
from graphad.drawing.metrics import text_width
from graphad.drawing.options import Options
from graphad.drawing.plan import Plan
from graphad.drawing.render import lay_out
from graphad.ir import Node, Op

LARGE, AT_ONCE = 400, 4
# What to try: the weight of edges that say on which side the backward is, and how lines are written that are not to move anything.
ATTEMPTS = ((0, "constraint=false"), (1, "constraint=false"), (1, "weight=0"))
FRAME_TEXT, GUTTER = 9.0, 40.0
COMPASS = {TOP: "n", BOTTOM: "s", LEFT: "w", RIGHT: "e"}
Point = tuple[float, float]


@dataclass
class Geometry:
    """Places in points, y downwards: middles of nodes, the points of the curves of lines (Bezier, cubic) with where the arrow ends, frames.

    A line that Graphviz found no way for is not in ``curves``. ``breaks`` are the numbers where lines go on in another column.
    """

    width: float
    height: float
    nodes: dict[Node, Point] = field(default_factory=dict)
    curves: dict[int, list[Point]] = field(default_factory=dict)
    heads: dict[int, Point] = field(default_factory=dict)
    joints: list[list[Point]] = field(default_factory=list)
    frames: dict[Frame, list[tuple[float, float, float, float]]] = field(default_factory=dict)
    breaks: list[tuple[Point, str]] = field(default_factory=list)

    def add(self, other: Geometry, right: float) -> None:
        """Put another one in it, moved to the right."""

        def put(point: Point) -> Point:
            return point[0] + right, point[1]

        self.width = right + other.width
        self.nodes.update({node: put(point) for node, point in other.nodes.items()})
        self.curves.update({number: list(map(put, points)) for number, points in other.curves.items()})
        self.heads.update({number: put(point) for number, point in other.heads.items()})
        self.joints += [list(map(put, points)) for points in other.joints]
        self.breaks += [(put(point), text) for point, text in other.breaks]
        for frame, places in other.frames.items():
            self.frames.setdefault(frame, []).extend((x + right, y, x2 + right, y2) for x, y, x2, y2 in places)


def laid_out(
    drawn: Plan,
    boxes: dict[Node, Box],
    frames: Frames,
    lines: Sequence[Line],
    holds: Sequence[Hold],
    options: Options,
    with_lines: bool = True,
) -> Geometry:
    """The places of a plan; without lines it is made in a fraction of the time.

    Raises:
        RenderError: no renderer, it failed, or it took too long.
    """
    if not drawn.nodes:
        return Geometry(0, 0)
    columns = columns_of(drawn, options)
    cuts = _Cuts(lines, columns)
    sketches = [_Sketch(drawn, boxes, frames, lines, holds, options, column, cuts) for column in columns]
    # Each layout is a process of Graphviz, so threads are enough to run several at a time.
    with ThreadPoolExecutor(AT_ONCE) as pool:
        geometries = list(pool.map(lambda column: _best_sides(column, options) if with_lines else _outline(column, options), sketches))
    result = Geometry(0, max(part.height for part in geometries))
    for geometry in geometries:
        result.add(geometry, result.width + (GUTTER if result.width else 0))
    return result


def _best_sides(sketch: _Sketch, options: Options) -> Geometry:
    """The layout of a column with the forward on the left, if one is found.

    Graphviz need not heed on which side of an edge without weight a frame comes; with a weight it rather does, but then lines are longer.
    """
    layouts: list[Geometry] = []
    # Where nothing is between, Graphviz mostly has the forward on the left by itself, since it is written first.
    attempts = [(True, *attempt) for attempt in ATTEMPTS]
    attempts = attempts if sketch.is_framed else [(False, *ATTEMPTS[0]), *attempts]
    # A large drawing is laid out once: each attempt takes as long as the first.
    for attempt in attempts if len(sketch.ids) <= LARGE else attempts[:1]:
        sketch.is_sided, sketch.insistence, sketch.loose = attempt
        layouts.append(_read(lay_out(sketch.text(), options.timeout), sketch))
        # Graphviz cannot be told which of two sides is left: it is asked more and more insistently.
        if sketch.wrong_sides(layouts[-1]) <= 0:
            return layouts[-1]
    return min(layouts, key=sketch.wrong_sides)


def _outline(sketch: _Sketch, options: Options) -> Geometry:
    return _read(lay_out(sketch.text(), options.timeout, with_lines=False), sketch)


class _Cuts:
    """The lines from one column to another: a number for each end that they come from."""

    def __init__(self, lines: Sequence[Line], columns: Sequence[frozenset[Node]]) -> None:
        place = {node: i for i, nodes in enumerate(columns) for node in nodes}
        self.numbers: dict[tuple[Node, str], int] = {}
        self.leaving: dict[int, dict[tuple[Node, str], Line]] = {}
        self.entering: dict[int, list[tuple[int, Line]]] = {}
        for i, line in enumerate(lines):
            start, end = place[line.tail], place[line.head]
            if start != end and line.mark not in ("link", "kept"):
                source = line.tail, line.tail_slot
                # One number for a source, however many columns its lines go to.
                self.numbers.setdefault(source, len(self.numbers) + 1)
                self.leaving.setdefault(start, {}).setdefault(source, line)
                self.entering.setdefault(end, []).append((i, line))
        self.places = {nodes: i for i, nodes in enumerate(columns)}


class _Sketch:
    """The DOT text of a column: ids, sizes and lines alone."""

    def __init__(
        self,
        drawn: Plan,
        boxes: dict[Node, Box],
        frames: Frames,
        lines: Sequence[Line],
        holds: Sequence[Hold],
        options: Options,
        column: frozenset[Node],
        cuts: _Cuts,
    ) -> None:
        self.drawn, self.boxes, self.frames, self.lines, self.options, self.cuts = drawn, boxes, frames, lines, options, cuts
        self.ids = {node: f"n{i}" for i, node in enumerate(drawn.nodes) if node in column}
        self.holds = [hold for hold in holds if hold.op in self.ids and hold.node in self.ids]
        self.joints = {f"j{i}" for i, hold in enumerate(self.holds) if hold.frame is not None}
        place = cuts.places[column]
        self.leaving, self.entering = cuts.leaving.get(place, {}), cuts.entering.get(place, [])
        self.breaks: dict[str, str] = {}
        self.is_framed = self.is_sided = bool(frames.all) or len(self.ids) < len(drawn.nodes)
        self.insistence, self.loose = ATTEMPTS[0]

    def wrong_sides(self, geometry: Geometry) -> int:
        """How many more operators of the backward than not are left of their partners, in loops if there are any; 0 if any side will do."""
        if self.options.rankdir != "TB":
            return 0
        places, nesting = geometry.nodes, self.drawn.nesting
        pairs = [(a, b) for a, b in self.drawn.levels if isinstance(a, Op) and a in places and b in places]
        # Several orders have a column each, from left to right: none of them may be in the wrong place.
        columns = {frame.column: places for frame, places in geometry.frames.items() if frame.column is not None}
        if columns:
            lefts = [columns[column][0][0] for column in sorted(columns)]
            return sum(left > right for left, right in pairwise(lefts))
        # Loops decide where there are any: there the two sides are next to each other.
        pairs = [(a, b) for a, b in pairs if nesting.home(a) is not nesting.root] or pairs
        return sum(1 if places[a][0] < places[b][0] else -1 for a, b in pairs)

    def text(self) -> str:
        edges = [*self._edges(), *self._stubs()]
        sizes = [f"{name} [width={(text_width(text, SLOT) + 4) / 72:.4f} height=0.1528]" for name, text in self.breaks.items()]
        return "\n".join(["digraph {", *self._whole(), *self._inside(self.frames.whole), *sizes, *edges, *self._levels(), "}"]) + "\n"

    def _stubs(self) -> Iterator[str]:
        """The ends of lines that go on in another column."""
        for source, line in self.leaving.items():
            name = self._break(f"o{self.cuts.numbers[source]}", self.cuts.numbers[source])
            ends = [self._end(line.tail, "out", line.tail_slot), name]
            yield f"{' -> '.join(reversed(ends) if line.up else ends)} [id=j{name} arrowhead=none]"
            # The stub is drawn once, for all lines that leave by it.
            self.joints.add(f"j{name}")
        for i, line in self.entering:
            number = self.cuts.numbers[line.tail, line.tail_slot]
            ends = [self._break(f"i{number}", number), self._end(line.head, "in", line.head_slot)]
            yield f"{' -> '.join(reversed(ends) if line.up else ends)} [id=e{i}{' dir=back' if line.up else ''}]"

    def _break(self, name: str, number: int) -> str:
        self.breaks[name] = f"({number})"
        return name

    def _whole(self) -> Iterator[str]:
        # dot ranks nodes and places them by network simplex (E. Gansner et al., A technique for drawing directed graphs, 1993), which may
        # take minutes on a large graph: its iterations are bounded by nslimit times the number of nodes, here always LARGE.
        limit = f"{LARGE / max(len(self.ids), LARGE):.3f}"
        effort = f" nslimit={limit} nslimit1={limit}" if len(self.ids) > LARGE else ""
        # newrank: frames do not keep nodes from being level with others outside; compound: edges may end at frames.
        frame_options = " compound=true newrank=true" if self.frames.all else ""
        yield f"graph [rankdir={self.options.rankdir} nodesep=0.25 ranksep=0.36 pad=0{effort}{frame_options}]"
        yield 'node [fixedsize=true shape=box label=""]'
        yield "edge [arrowsize=0.6]"

    def _inside(self, frame: Frame) -> Iterator[str]:
        for item in frame.items:
            if isinstance(item, Frame):
                wide = 1.5 * text_width(item.label, FRAME_TEXT) + 12  # lines pass beside the title
                label = (
                    f'<<table fixedsize="true" border="0" width="{wide:.0f}" height="13"><tr><td></td></tr></table>>'
                    if item.label
                    else '""'
                )
                inner = list(self._inside(item))
                if not inner:
                    continue
                yield f"subgraph cluster_c{item.number} {{"
                yield f"id=c{item.number} margin=9 label={label} labeljust=l labelloc=t"
                yield from inner
                yield "}"
            elif item in self.ids:
                yield f"{self.ids[item]} [{self._shape(self.boxes[item])}]"

    def _shape(self, box: Box) -> str:
        # Graphviz has sizes of nodes in inches of 72 points, and answers with places in points.
        size = f"width={box.width / 72:.4f} height={box.height / 72:.4f}"
        # Nodes are sizes without text: fonts differ between machines, and Graphviz would fit the boxes to its own. Arrows can end at the
        # cells of a table alone, whose size is then that of the table (shape=plain).
        if box.round:
            return f"shape=ellipse {size}"
        return f"shape=plain fixedsize=false label=<{_table(box)}>" if box.cells else size

    def _edges(self) -> Iterator[str]:
        for i, line in enumerate(self.lines):
            if line.tail not in self.ids or line.head not in self.ids:
                continue
            ends = [self._end(line.tail, "out", line.tail_slot), self._end(line.head, "in", line.head_slot)]
            attributes = [f"id=e{i}", *self._way(line)]
            if line.up:
                # Graphviz puts tails above heads: an arrow that goes up is written the other way round, and drawn backwards.
                ends.reverse()
                attributes.append("dir=back")
            yield f"{ends[0]} -> {ends[1]} [{' '.join(attributes)}]"
        for i, hold in enumerate(self.holds):
            look = "style=invis" if hold.frame is None else f"arrowhead=none lhead=cluster_c{hold.frame.number}"
            yield f"{self.ids[hold.op]} -> {self.ids[hold.node]} [id=j{i} {look} weight={0 if hold.frame is None else 1}]"

    def _way(self, line: Line) -> Iterator[str]:
        # A weight says how short and straight an edge should be; one without constraint has no say in what is above what.
        if line.mark in ("link", "kept"):
            yield "arrowhead=none"
        if line.mark in ("saved", "kept"):
            yield self.loose
        elif line.mark in ("carried", "next"):
            yield "weight=1"
        elif line.level:
            yield "weight=0"
        elif line.way in (LOOKUP, TURN):
            yield "constraint=false"
        elif line.way == ALONG:
            yield "weight=8"

    def _end(self, node: Node, end: str, slot: str) -> str:
        cells = self.boxes[node].cells
        cell = cells.get((end, slot)) if slot else None
        if cell is None:
            return self.ids[node]
        number = list(dict.fromkeys(cells.values())).index(cell)
        return f"{self.ids[node]}:p{number}:{COMPASS[cell.side]}"

    def _levels(self) -> Iterator[str]:
        """Pairs at one height; among frames, and in columns, the forward is on the left."""
        for a, b in self.drawn.levels:
            if a in self.ids and b in self.ids:
                yield f"{{rank=same {self.ids[a]} {self.ids[b]}}}"
                if isinstance(a, Op) and self.is_sided:
                    # An invisible edge within a rank puts its tail on the left.
                    yield f"{self.ids[b]} -> {self.ids[a]} [style=invis weight={self.insistence}]"


def _table(box: Box) -> str:
    """A box with cells as a table of sizes; the arrows end at the cells."""
    numbers = {cell: i for i, cell in enumerate(dict.fromkeys(box.cells.values()))}
    start = '<table border="0" cellborder="0" cellspacing="0" cellpadding="0">'

    def one(width: int, height: int, port: str = "") -> str:
        return f'<td{port} fixedsize="true" width="{width}" height="{height}"></td>'

    def row(side: str) -> str:
        cells = box.row(side)
        inner = "".join(one(cell.place[2], cell.place[3], f' port="p{numbers[cell]}"') for cell in cells)
        return f"<tr><td>{start}<tr>{inner}</tr></table></td></tr>" if cells else ""

    def column(side: str, height: int) -> str:
        cells = box.row(side)
        if not cells:
            return ""
        # A column of cells is centered: empty cells above and below take the rest.
        above = cells[0].place[1] - top
        below = height - above - sum(cell.place[3] for cell in cells)
        rows = [one(cells[0].place[2], above)] if above > 0 else []
        rows += [one(cell.place[2], cell.place[3], f' port="p{numbers[cell]}"') for cell in cells]
        rows += [one(cells[0].place[2], below)] if below > 0 else []
        return f"<td>{start}{''.join(f'<tr>{row}</tr>' for row in rows)}</table></td>"

    top = box.row(TOP)[0].place[3] if box.row(TOP) else 0
    middle = box.height - top - (box.row(BOTTOM)[0].place[3] if box.row(BOTTOM) else 0)
    wide = box.width - sum(box.row(side)[0].place[2] for side in (LEFT, RIGHT) if box.row(side))
    inner = f"{column(LEFT, middle)}{one(wide, middle)}{column(RIGHT, middle)}"
    return f"{start}{row(TOP)}<tr><td>{start}<tr>{inner}</tr></table></td></tr>{row(BOTTOM)}</table>"


# -- what Graphviz says ----------------------------------------------------------------------------


def _read(text: str, sketch: _Sketch) -> Geometry:
    objects = json.loads(text)
    left, bottom, right, top = map(float, objects["bb"].split(","))
    geometry = Geometry(right - left, top - bottom)
    nodes = {name: node for node, name in sketch.ids.items()}
    frames = {f"cluster_c{frame.number}": frame for frame in sketch.frames.all}

    # Graphviz counts y from the bottom upwards, SVG from the top downwards.
    def flip(x: str, y: str) -> Point:
        return float(x) - left, top - float(y)

    for item in objects.get("objects", ()):
        if item["name"] in nodes:
            geometry.nodes[nodes[item["name"]]] = flip(*item["pos"].split(","))
        elif item["name"] in frames:
            x, y, x2, y2 = item["bb"].split(",")
            low, high = flip(x, y), flip(x2, y2)
            geometry.frames[frames[item["name"]]] = [(low[0], high[1], high[0], low[1])]
        elif item["name"] in sketch.breaks:
            geometry.breaks.append((flip(*item["pos"].split(",")), sketch.breaks[item["name"]]))
    for edge in objects.get("edges", ()):
        if "pos" in edge:
            _read_edge(edge.get("id", ""), *_curve(edge["pos"], flip), sketch, geometry)
    return geometry


def _read_edge(name: str, points: list[Point], head: Point | None, sketch: _Sketch, geometry: Geometry) -> None:
    if name in sketch.joints:
        geometry.joints.append(points)
    elif name.startswith("e"):
        number = int(name[1:])
        # An arrow that goes up was written the other way round.
        geometry.curves[number] = points[::-1] if sketch.lines[number].up else points
        if head is not None:
            geometry.heads[number] = head
            _lead_around(number, sketch, geometry)


def _lead_around(number: int, sketch: _Sketch, geometry: Geometry) -> None:
    """Lead a line around the operator that it ends at the left of, if it goes through it."""
    node = sketch.lines[number].head
    if isinstance(node, Op) and node in geometry.nodes and sketch.options.rankdir == "TB":
        (x, y), box = geometry.nodes[node], sketch.boxes[node]
        place = x - box.width / 2, y - box.height / 2, x + box.width / 2, y + box.height / 2
        geometry.curves[number] = around_its_head(geometry.curves[number], geometry.heads[number], place)


def _curve(pos: str, flip: Callable[[str, str], Point]) -> tuple[list[Point], Point | None]:
    points: list[Point] = []
    head: Point | None = None
    # "e,x,y" or "s,x,y" is where the arrow's tip is, at the end or the start; the others are the 3n + 1 points of n cubic Beziers.
    for part in pos.split(";")[0].split():
        if part[0] in "es":
            _, x, y = part.split(",")
            head = flip(x, y)
        else:
            x, y = part.split(",")
            points.append(flip(x, y))
    return points, head
