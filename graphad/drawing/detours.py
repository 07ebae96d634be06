"""Lines that Graphviz leads through the box that they end at: they are led around it.

A slot on the left of a box that is to the left of what it reads: between nodes of one row Graphviz draws the line straight on.

    ┌───────────┐                      ╭──────────────╮
    ▶X──tanh_grad────── y      ⇒       ▶X  tanh_grad  ╰── y
    └───────────┘                       └───────────┘
"""

from __future__ import annotations

from graphad.drawing.scene import Point, sampled

Place = tuple[float, float, float, float]  # left, top, right, bottom
APART = 14.0  # how far before the box a line turns: nodes of a row are 18 points apart
ABOVE = 8.0  # of the 26 points between two rows
EDGE, TIP = 3.0, 8.0
STEPS = 64


def around_its_head(curve: list[Point], tip: Point, place: Place) -> list[Point]:
    """The points of a curve that ends at the left of a box, led around the box if it went through it.

    >>> curve = [(100.0, 10.0), (70.0, 10.0), (30.0, 10.0), (8.0, 10.0)]
    >>> around_its_head(curve, (0.0, 10.0), (0.0, 0.0, 40.0, 20.0))[-1]
    (-8.0, 10.0)
    >>> around_its_head(curve, (0.0, 10.0), (0.0, 40.0, 40.0, 60.0)) == curve
    True
    """
    left, top, right, bottom = place
    goes_through = any(left + EDGE < x < right - EDGE and top + EDGE < y < bottom - EDGE for x, y in sampled(curve))
    if not goes_through or tip[0] > left + EDGE or curve[0][0] <= right + APART:
        return curve
    points = _until(curve, right + APART)
    x, y = points[-1]
    over = top - ABOVE
    end = left - TIP
    # Three cubic pieces: up to the box's upper right, along above it, and down to the slot. Handles go on along the line that they come
    # from, so that there is no kink; the last one is level with the slot, so that the arrow points into it.
    points += [(x - 6, y), (right + 6, over), (right, over)]
    points += [(right - (right - left) / 3, over), (left + (right - left) / 3, over), (left, over)]
    return [*points, (left - 2 * TIP, over), (left - 2 * TIP, tip[1]), (end, tip[1])]


def _until(curve: list[Point], x: float) -> list[Point]:
    """The part of a curve up to where it first comes to ``x`` from the right."""
    points = [curve[0]]
    for i in range(0, len(curve) - 3, 3):
        piece = curve[i : i + 4]
        samples = sampled(piece, STEPS)
        at = next((k for k, sample in enumerate(samples) if sample[0] <= x), None)
        if at is not None:
            return [*points, *_cut(piece, at / STEPS)]
        points += piece[1:]
    return points


def _cut(piece: list[Point], t: float) -> list[Point]:
    """The three points that end the first part of a cubic Bezier curve, by de Casteljau's construction."""
    a, b, c, d = piece
    ab, bc, cd = _between(a, b, t), _between(b, c, t), _between(c, d, t)
    abc, bcd = _between(ab, bc, t), _between(bc, cd, t)
    return [ab, abc, _between(abc, bcd, t)]


def _between(a: Point, b: Point, t: float) -> Point:
    return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t
