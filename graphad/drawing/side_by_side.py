"""Two drawings beside each other in one SVG, with an arrow between: before ⇒ after."""

from __future__ import annotations

import re

from graphad.drawing.style import INK, MUTED
from graphad.errors import InvalidValue

GAP, MARGIN = 56.0, 12.0
_SIZE = re.compile(r'<svg\b[^>]*?\bviewBox="([-\d.]+) ([-\d.]+) ([-\d.]+) ([-\d.]+)"')


def joined(before: str, after: str) -> str:
    """One ``<svg>`` of two, in points, vertically centred, on white."""
    (wide, high), (wide_after, high_after) = _size(before), _size(after)
    height = max(high, high_after) + 2 * MARGIN
    width = wide + wide_after + GAP + 2 * MARGIN
    middle, arrow = height / 2, MARGIN + wide
    left = _placed(before, MARGIN, (height - high) / 2, wide, high)
    right = _placed(after, arrow + GAP, (height - high_after) / 2, wide_after, high_after)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{width:.2f}pt" height="{height:.2f}pt" viewBox="0 0 {width:.2f} {height:.2f}">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{left}\n{_arrow(arrow, middle)}\n{right}\n</svg>\n'
    )


def _arrow(x: float, y: float) -> str:
    start, end = x + 12, x + GAP - 12
    lines = "".join(f'<path d="M{start:.2f},{y + d:.2f}H{end - 5:.2f}" stroke="{MUTED}" stroke-width="1.6"/>' for d in (-3, 3))
    head = f"M{end - 8:.2f},{y - 8:.2f}L{end:.2f},{y:.2f}L{end - 8:.2f},{y + 8:.2f}"
    return f'<g fill="none">{lines}<path d="{head}" stroke="{INK}" stroke-width="1.6"/></g>'


def _size(svg: str) -> tuple[float, float]:
    found = _SIZE.search(svg)
    if found is None:
        raise InvalidValue("an SVG without a viewBox cannot be put beside another one")
    return float(found[3]), float(found[4])


def _placed(svg: str, x: float, y: float, width: float, height: float) -> str:
    """The element at a place: what it says of its own size is replaced."""
    head, _, rest = svg[svg.index("<svg") :].partition(">")
    head = re.sub(r'\s(width|height|x|y|xmlns(:\w+)?)="[^"]*"', "", head)
    return f'{head} x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}">{rest.rstrip()}'
