"""A scene as PNG or PDF.

PNG is painted by the same Graphviz that lays drawings out, PDF is written here with the fonts that every reader has. Where text
has letters that these lack (Chinese, Japanese, Arabic, ...), a program that finds fonts for them paints instead: rsvg-convert,
resvg, or Graphviz's own dot.
"""

from __future__ import annotations

import subprocess
import zlib
from collections.abc import Iterator
from importlib import import_module
from shutil import which

from graphad.drawing.metrics import helvetica_width, text_width
from graphad.drawing.render import paint
from graphad.drawing.scene import MIDDLE, Curve, Ellipse, Point, Polygon, Rect, Scene, Shape, Text
from graphad.drawing.svg import svg_text
from graphad.errors import RenderError

RSVG, RESVG, DOT = "rsvg-convert", "resvg_py", "dot"
_ROUND = 0.5523  # how far the handles of a Bezier curve are for a quarter of a circle
_PLAIN = "…\N{MULTIPLICATION SIGN}µ±€"


def png_bytes(scene: Scene, dpi: float, timeout: float) -> bytes:
    """The scene as PNG.

    Raises:
        RenderError: there is nothing to paint its letters with.
    """
    if all(map(_is_plain, scene.texts)):
        return paint(_dot_text(scene), "png", timeout, dpi)
    image = _by_rsvg(scene, "png", dpi, timeout) or _by_resvg(scene, dpi) or _by_dot(scene, "png", dpi, timeout)
    if image is None:
        raise RenderError(_no_letters(scene, "PNG", f"install {RSVG} or Graphviz, or `pip install resvg-py`"))
    return image


def pdf_bytes(scene: Scene, timeout: float) -> bytes:
    """The scene as PDF, one page of its size.

    Raises:
        RenderError: there is nothing to write its letters with.
    """
    if all(_is_western(text.text) for text in scene.texts):
        return _pdf(scene)
    document = _by_rsvg(scene, "pdf", 72, timeout) or _by_dot(scene, "pdf", 72, timeout)
    if document is None:
        raise RenderError(_no_letters(scene, "PDF", f"install {RSVG} or Graphviz"))
    return document


def _is_plain(text: Text) -> bool:
    """Whether the fonts that come with graphviz-pure have the letters: Latin, Greek, Cyrillic."""
    return all(ord(char) < 0x250 or 0x370 <= ord(char) < 0x460 or char in _PLAIN for char in text.text)


def _is_western(text: str) -> bool:
    try:
        text.encode("cp1252")
    except UnicodeEncodeError:
        return False
    return True


def _no_letters(scene: Scene, format: str, remedy: str) -> str:
    text = next(text.text for text in scene.texts if not (_is_plain(text) if format == "PNG" else _is_western(text.text)))
    return f"no program was found that can write {text!r} in a {format}: {remedy}; SVG needs none"


# -- other programs --------------------------------------------------------------------------------


def _by_rsvg(scene: Scene, format: str, dpi: float, timeout: float) -> bytes | None:
    program = which(RSVG)
    if program is None:
        return None
    zoom = ["-z", f"{dpi / 96:g}"] if format == "png" else []
    return _converted([program, "-f", format, *zoom, "-"], svg_text(scene), timeout)


def _by_resvg(scene: Scene, dpi: float) -> bytes | None:
    try:
        png: bytes = bytes(import_module(RESVG).svg_to_bytes(svg_string=svg_text(scene), zoom=dpi / 96))
    except ImportError:
        return None
    return png


def _by_dot(scene: Scene, format: str, dpi: float, timeout: float) -> bytes | None:
    program = which(DOT)
    if program is None:
        return None
    return _converted([program, "-Kneato", "-n2", f"-T{format}", f"-Gdpi={dpi:g}"], _dot_text(scene), timeout)


def _converted(command: list[str], text: str, timeout: float) -> bytes | None:
    try:
        process = subprocess.run(command, input=text.encode("utf-8", "replace"), capture_output=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout if process.returncode == 0 and process.stdout else None


# -- shapes as curves ------------------------------------------------------------------------------


def outline(shape: Rect | Ellipse) -> list[Point]:
    """A closed Bezier curve around a rectangle with round corners, or an ellipse."""
    if isinstance(shape, Ellipse):
        left, top, width, height, rx, ry = shape.x - shape.rx, shape.y - shape.ry, 2 * shape.rx, 2 * shape.ry, shape.rx, shape.ry
    else:
        left, top, width, height = shape.x, shape.y, shape.width, shape.height
        rx = ry = min(shape.radius, width / 2, height / 2)
    right, bottom, x, y = left + width, top + height, rx * (1 - _ROUND), ry * (1 - _ROUND)
    points = [(left + rx, top)]
    # A quarter of an ellipse as one cubic curve, whose control points are 0.5523 of the radius from the corner's ends, accurate to 0.03 %.
    for corner in (
        [(right - rx, top), (right - x, top), (right, top + y), (right, top + ry)],
        [(right, bottom - ry), (right, bottom - y), (right - x, bottom), (right - rx, bottom)],
        [(left + rx, bottom), (left + x, bottom), (left, bottom - y), (left, bottom - ry)],
        [(left, top + ry), (left, top + y), (left + x, top), (left + rx, top)],
    ):
        points += [points[-1], corner[0], *corner]
    return points


# -- DOT -------------------------------------------------------------------------------------------
# Everything is in the background of a graph, in the language of Graphviz's own drawings (xdot).


def _dot_text(scene: Scene) -> str:
    width, height = scene.width, scene.height
    shapes = [Rect(0, 0, width, height, 0, scene.background)] if scene.background != "none" else []
    drawing = " ".join(part for shape in (*shapes, *(s for item in scene.items for s in item.shapes)) for part in _xdot(shape, height))
    text = drawing.replace("\\", "\\\\").replace('"', '\\"')
    # Graphviz paints the page that its nodes span: two invisible ones at the corners, everything else is background.
    corners = f'a [pos="0,0"]; b [pos="{width:.2f},{height:.2f}"]'
    look = 'node [shape=point style=invis width=0 height=0 label=""]'
    attributes = f'bb="0,0,{width:.2f},{height:.2f}" pad=0 bgcolor=transparent _background="{text}"'
    return f"digraph {{ graph [{attributes}]; {look}; {corners} }}\n"


def _xdot(shape: Shape, height: float) -> Iterator[str]:
    def points(corners: list[Point]) -> str:
        return f"{len(corners)} " + " ".join(f"{x:.2f} {height - y:.2f}" for x, y in corners)

    if isinstance(shape, Text):
        font = "Helvetica-Bold" if shape.bold else "Helvetica"
        wide = text_width(shape.text, shape.size, shape.bold)
        yield f"{_color('c', shape.color)} F {shape.size:g} {len(font)} -{font}"
        side = 0 if shape.anchor == MIDDLE else -1
        # xdot counts bytes, and from the lower edge.
        yield f"T {shape.x:.2f} {height - shape.y:.2f} {side} {wide:.1f} {len(shape.text.encode())} -{shape.text}"
    elif isinstance(shape, Polygon):
        yield f"{_color('c', shape.fill)} {_color('C', shape.fill)} {_style('setlinewidth(0.1)')} P {points(list(shape.points))}"
    elif isinstance(shape, Curve):
        yield f"{_color('c', shape.stroke)} {_pen(shape.weight, shape.dash)} B {points(list(shape.points))}"
    else:
        if shape.fill != "none":
            edge = shape.fill if shape.stroke == "none" else shape.stroke
            pen = _pen(0.1 if shape.stroke == "none" else shape.weight, ())
            yield f"{_color('c', edge)} {_color('C', shape.fill)} {pen} b {points(outline(shape))}"
        if shape.stroke != "none" and (shape.fill == "none" or shape.dash):
            yield f"{_color('c', shape.stroke)} {_pen(shape.weight, shape.dash)} B {points(outline(shape))}"


def _color(what: str, color: str) -> str:
    return f"{what} {len(color)} -{color}"


def _style(style: str) -> str:
    return f"S {len(style)} -{style}"


def _pen(weight: float, dash: tuple[float, ...]) -> str:
    style = "solid" if not dash else "dotted" if dash[0] < 2 else "dashed"
    return f"{_style(f'setlinewidth({weight:g})')} {_style(style)}"


# -- PDF -------------------------------------------------------------------------------------------
# One page; the fonts are two of the fourteen that every reader of PDF has (ISO 32000-1, 9.6.2.2).


def _pdf(scene: Scene) -> bytes:
    content = zlib.compress("\n".join(_operators(scene)).encode("cp1252"), 9)
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /{} /Encoding /WinAnsiEncoding >>"
    box = f"[0 0 {scene.width:.2f} {scene.height:.2f}]"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R /MediaBox {box} /Contents 4 0 R /Resources << /Font << /F0 5 0 R /F1 6 0 R >> >> >>".encode(),
        f"<< /Length {len(content)} /Filter /FlateDecode >>\nstream\n".encode() + content + b"\nendstream",
        font.format("Helvetica").encode(),
        font.format("Helvetica-Bold").encode(),
    ]
    # Four bytes above 127 tell other programs that the file is binary (PDF 1.4, section 3.4.1).
    data = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
    places = []
    for i, item in enumerate(objects, 1):
        places.append(len(data))
        data += f"{i} 0 obj\n".encode() + item + b"\nendobj\n"
    # Entries of the cross-reference table are of 20 bytes each.
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\n"
    return data + end.encode() + f"startxref\n{len(data)}\n%%EOF\n".encode()


def _operators(scene: Scene) -> Iterator[str]:
    # PDF has y upwards from the lower edge of the page: this matrix turns it round. Joins and ends of lines are round (1 j, 1 J).
    yield f"1 0 0 -1 0 {scene.height:.2f} cm 1 j 1 J"
    if scene.background != "none":
        yield f"{_rgb(scene.background)} rg 0 0 {scene.width:.2f} {scene.height:.2f} re f"
    for item in scene.items:
        for shape in item.shapes:
            yield _painted(shape)


def _painted(shape: Shape) -> str:
    if isinstance(shape, Text):
        font = "F1" if shape.bold else "F0"
        x = shape.x - (helvetica_width(shape.text, shape.size) / 2 if shape.anchor == MIDDLE else 0)
        text = shape.text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
        # The page's y axis goes down, text is turned back by its matrix.
        return f"BT {_rgb(shape.color)} rg /{font} {shape.size:g} Tf 1 0 0 -1 {x:.2f} {shape.y:.2f} Tm ({text}) Tj ET"
    if isinstance(shape, Polygon):
        (x, y), *rest = shape.points
        lines = " ".join(f"{px:.2f} {py:.2f} l" for px, py in rest)
        return f"{_rgb(shape.fill)} rg {x:.2f} {y:.2f} m {lines} f"
    pen = "" if shape.stroke == "none" else f"{_rgb(shape.stroke)} RG {shape.weight:g} w [{' '.join(map(str, shape.dash))}] 0 d "
    if isinstance(shape, Curve):
        return f"{pen}{_bezier(list(shape.points))} S"
    fill = "" if shape.fill == "none" else f"{_rgb(shape.fill)} rg "
    # Path-painting operators (ISO 32000-1, 8.5.3): close, fill and stroke; fill; close and stroke; end without painting.
    operator = {(True, True): "b", (True, False): "f", (False, True): "s"}.get((bool(fill), bool(pen)), "n")
    return f"{pen}{fill}{_bezier(outline(shape))} {operator}"


def _bezier(points: list[Point]) -> str:
    (x, y), *rest = points
    pieces = (rest[i : i + 3] for i in range(0, len(rest), 3))
    return f"{x:.2f} {y:.2f} m " + " ".join(" ".join(f"{px:.2f} {py:.2f}" for px, py in piece) + " c" for piece in pieces)


def _rgb(color: str) -> str:
    return " ".join(f"{int(color[i : i + 2], 16) / 255:.3f}" for i in (1, 3, 5))
