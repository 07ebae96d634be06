"""Places for the titles of frames: no line crosses them, and nothing else is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise

from graphad.drawing.boxes import Box
from graphad.drawing.frames import Frame
from graphad.drawing.layout import FRAME_TEXT, Geometry
from graphad.drawing.metrics import text_width
from graphad.drawing.scene import Point, sampled
from graphad.ir import Node

HIGH, STEP, APART = 12.0, 6.0, 3.0
Place = tuple[float, float, float, float]


class Obstacles:
    """The obstacles of titles: lines, nodes, inner frames, and the titles placed before."""

    def __init__(self, geometry: Geometry, boxes: Mapping[Node, Box]) -> None:
        self.geometry = geometry
        self.ways = [sampled(points, 24) for points in (*geometry.curves.values(), *geometry.joints)]
        self.taken: list[Place] = []
        for node, (x, y) in geometry.nodes.items():
            wide, high = boxes[node].width / 2, boxes[node].height / 2
            self.taken.append((x - wide, y - high, x + wide, y + high))

    def title(self, frame: Frame, place: Place) -> tuple[Point, str]:
        """The start of a frame's title, and its text: at the upper edge, else the lower one, else wherever there is room in it, else beside
        it.

        Where there is room for less of it, it is only its last part: which branch it is.
        """
        inner = [item for child in frame.inner for item in self.geometry.frames.get(child, ())]
        left, top, _, _ = place
        # The whole label where there is room, else the part after the last colon.
        for label in dict.fromkeys((frame.label, frame.label.split(": ")[-1])):
            width = text_width(label, FRAME_TEXT)
            at = self._inside(place, width, inner) or self._outside(frame, place, width)
            if at is not None:
                self.taken.append((at[0], at[1], at[0] + width, at[1] + HIGH))
                return (at[0], at[1] + 1 + FRAME_TEXT), label
        return (left + 6, top + 3 + FRAME_TEXT), frame.label

    def _inside(self, place: Place, width: float, inner: Sequence[Place]) -> Point | None:
        left, top, right, bottom = place
        heights = chain((top + 2, bottom - HIGH - 1), _steps(top + 2 + STEP, bottom - HIGH - 1))
        return next((at for high in heights if (at := self._in_row(left + 6, right - 4, high, width, inner)) is not None), None)

    def _outside(self, frame: Frame, place: Place, width: float) -> Point | None:
        left, top, right, bottom = place
        # Frames around this one cover the place beside it, and are no obstacle there.
        items = [
            item
            for neighbor, places in self.geometry.frames.items()
            if neighbor is not frame and frame not in neighbor.inner
            for item in places
        ]
        # Above the frame, else below.
        heights = (top - HIGH - 1, bottom + 2)
        return next((at for high in heights if (at := self._in_row(left, right + width, high, width, items)) is not None), None)

    def _in_row(self, start: float, end: float, high: float, width: float, inner: Sequence[Place]) -> Point | None:
        # A sweep from left to right: whatever overlaps the title pushes its start to the right end of that.
        for low, far in sorted(chain(self._spans(high, high + HIGH), _sides((*self.taken, *inner), high, high + HIGH))):
            if far + APART > start and low - APART < start + width:
                start = far + APART
        return (start, high) if start + width <= end else None

    def _spans(self, top: float, bottom: float) -> Iterator[tuple[float, float]]:
        """The horizontal spans of lines between two heights."""
        for way in self.ways:
            for (x, y), (x2, y2) in pairwise(way):
                if min(y, y2) < bottom and max(y, y2) > top:
                    ends = [_between(x, y, x2, y2, height) for height in (top, bottom)]
                    yield min(ends), max(ends)


def _sides(places: Sequence[Place], top: float, bottom: float) -> Iterator[tuple[float, float]]:
    yield from ((left, right) for left, high, right, low in places if high < bottom and low > top)


def _between(x: float, y: float, x2: float, y2: float, height: float) -> float:
    """The x of a straight line at a height, or of its end that is nearest to it."""
    share = 0.5 if y == y2 else min(max((height - y) / (y2 - y), 0.0), 1.0)
    return x + (x2 - x) * share


def _steps(start: float, end: float) -> Iterator[float]:
    while start < end:
        yield start
        start += STEP
