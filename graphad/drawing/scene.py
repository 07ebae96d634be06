"""A drawing as shapes with places and colors, in points, y downwards: what SVG, PDF and PNG are written from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

Point = tuple[float, float]
START, MIDDLE = "start", "middle"


@dataclass(frozen=True)
class Rect:
    """A rectangle from its upper left corner, with round corners."""

    x: float
    y: float
    width: float
    height: float
    radius: float = 0
    fill: str = "none"
    stroke: str = "none"
    weight: float = 1
    dash: tuple[float, ...] = ()


@dataclass(frozen=True)
class Ellipse:
    """An ellipse around a middle."""

    x: float
    y: float
    rx: float
    ry: float
    fill: str = "none"
    stroke: str = "none"
    weight: float = 1
    dash: tuple[float, ...] = ()


@dataclass(frozen=True)
class Curve:
    """A cubic Bezier curve: a point, then three for each piece."""

    points: Sequence[Point]
    stroke: str
    weight: float = 1
    dash: tuple[float, ...] = ()


@dataclass(frozen=True)
class Polygon:
    """A filled polygon, or its outline alone."""

    points: Sequence[Point]
    fill: str


@dataclass(frozen=True)
class Text:
    """A line of text; y is its base line."""

    x: float
    y: float
    text: str
    size: float
    color: str
    anchor: str = MIDDLE
    bold: bool = False


Shape = Rect | Ellipse | Curve | Polygon | Text


@dataclass
class Item:
    """Shapes that belong together: a node, a line, a frame."""

    id: str
    classes: str
    tooltip: str = ""
    shapes: list[Shape] = field(default_factory=list)


@dataclass
class Scene:
    """A whole drawing; what comes later covers what came before."""

    width: float
    height: float
    background: str
    fonts: str
    title: str
    items: list[Item] = field(default_factory=list)

    @property
    def texts(self) -> Iterator[Text]:
        """All lines of text."""
        return (shape for item in self.items for shape in item.shapes if isinstance(shape, Text))


def mixed(color: str, other: str, share: float) -> str:
    """A color between two, each ``#rrggbb``: ``share`` of the first one.

    >>> mixed("#000000", "#ffffff", 0.5)
    '#808080'
    """
    pairs = [(int(color[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in pairs)


def sampled(points: Sequence[Point], steps: int = 8) -> list[Point]:
    """Points along a Bezier curve."""
    samples = [points[0]]
    # Each piece begins where the one before ends: three new points a piece.
    for i in range(0, len(points) - 3, 3):
        a, b, c, d = points[i : i + 4]
        for k in range(1, steps + 1):
            t = k / steps
            samples.append(_at(a, b, c, d, t))
    return samples


def _at(a: Point, b: Point, c: Point, d: Point, t: float) -> Point:
    s = 1 - t
    # The Bernstein polynomials of degree 3.
    u, v, w, z = s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t
    return u * a[0] + v * b[0] + w * c[0] + z * d[0], u * a[1] + v * b[1] + w * c[1] + z * d[1]


def moved_shape(shape: Shape, x: float, y: float) -> Shape:
    """A shape at another place."""
    if isinstance(shape, Curve):
        return Curve([(px + x, py + y) for px, py in shape.points], shape.stroke, shape.weight, shape.dash)
    if isinstance(shape, Polygon):
        return Polygon([(px + x, py + y) for px, py in shape.points], shape.fill)
    return replace(shape, x=shape.x + x, y=shape.y + y)
