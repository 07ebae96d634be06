"""A scene as SVG: one element, small, the same bytes for the same scene. Labels are text, tooltips are titles."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from graphad.drawing.scene import MIDDLE, Curve, Ellipse, Item, Polygon, Scene, Shape, Text


def svg_text(scene: Scene) -> str:
    """The ``<svg>`` element."""
    width, height = number(scene.width), number(scene.height)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}pt" height="{height}pt" viewBox="0 0 {width} {height}" '
        f'font-family="{escape(scene.fonts)}" text-anchor="middle">',
        f"<title>{_clean(scene.title)}</title>",
    ]
    if scene.background != "none":
        lines.append(f'<rect width="{width}" height="{height}" fill="{scene.background}"/>')
    for item in scene.items:
        lines += _item(item)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _item(item: Item) -> Iterator[str]:
    yield f'<g id="{item.id}" class="{item.classes}">' + (f"<title>{_clean(item.tooltip)}</title>" if item.tooltip else "")
    for shape in item.shapes:
        yield _shape(shape)
    yield "</g>"


def _shape(shape: Shape) -> str:
    if isinstance(shape, Text):
        look = f' font-size="{number(shape.size)}" fill="{shape.color}"{" font-weight=" + chr(34) + "bold" + chr(34) if shape.bold else ""}'
        anchor = "" if shape.anchor == MIDDLE else f' text-anchor="{shape.anchor}"'
        return f'<text x="{number(shape.x)}" y="{number(shape.y)}"{look}{anchor}>{_clean(shape.text)}</text>'
    if isinstance(shape, Polygon):
        return f'<polygon points="{" ".join(f"{number(x)},{number(y)}" for x, y in shape.points)}" fill="{shape.fill}"/>'
    dash = f' stroke-dasharray="{" ".join(map(number, shape.dash))}"' if shape.dash else ""
    # Defaults of SVG are left out: a drawing has thousands of shapes.
    weight = "" if shape.weight == 1 else f' stroke-width="{number(shape.weight)}"'
    line = "" if shape.stroke == "none" else f' stroke="{shape.stroke}"{weight}{dash}'
    if isinstance(shape, Curve):
        return f'<path d="{_path(shape)}" fill="none"{line}/>'
    if isinstance(shape, Ellipse):
        middle = f'cx="{number(shape.x)}" cy="{number(shape.y)}" rx="{number(shape.rx)}" ry="{number(shape.ry)}"'
        return f'<ellipse {middle} fill="{shape.fill}"{line}/>'
    place = f'x="{number(shape.x)}" y="{number(shape.y)}" width="{number(shape.width)}" height="{number(shape.height)}"'
    radius = f' rx="{number(shape.radius)}"' if shape.radius else ""
    return f'<rect {place}{radius} fill="{shape.fill}"{line}/>'


def _path(curve: Curve) -> str:
    (x, y), *rest = curve.points
    return f"M{number(x)},{number(y)}C" + " ".join(f"{number(x)},{number(y)}" for x, y in rest)


def number(value: float) -> str:
    """A number with one decimal, without what says nothing.

    >>> number(2.0), number(0.25), number(-0.01)
    ('2', '0.2', '0')
    """
    # A tenth of a point is less than a pixel: more digits would only make files larger.
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _clean(text: str) -> str:
    """Text as XML has it: what XML cannot hold is replaced."""
    return escape("".join(char if _is_allowed(char) else "\N{REPLACEMENT CHARACTER}" for char in text), quote=False)


def _is_allowed(char: str) -> bool:
    place = ord(char)
    # The production Char of XML 1.0 (section 2.2); characters outside of it are not allowed even as references.
    return char in "\t\n\r" or (0x20 <= place < 0xD800) or (0xE000 <= place < 0xFFFE) or place >= 0x10000
