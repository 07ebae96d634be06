"""Drawings measured: from an SVG, which labels overlap, which are crossed by a line, how large it is, and how long its lines are.

python -m tests.drawing_geometry 200        measures the pictures of docs/images and so many random programs
"""

from __future__ import annotations

import random
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import hypot
from pathlib import Path

import graphad as ga
from graphad.drawing import to_svg
from graphad.drawing.metrics import text_width
from graphad.drawing.scene import sampled
from tests.source_tree import ROOT

SVG = "{http://www.w3.org/2000/svg}"
Point = tuple[float, float]
TOLERANCE = 0.3  # points: what is nearer than this touches


@dataclass(frozen=True)
class Label:
    """A line of text, and the box that its letters fill; ``line`` is the one that it is written on, on a plate."""

    text: str
    left: float
    top: float
    right: float
    bottom: float
    line: ET.Element | None = field(default=None, compare=False)

    def overlaps(self, other: Label) -> bool:
        across = min(self.right, other.right) - max(self.left, other.left)
        return across > TOLERANCE and min(self.bottom, other.bottom) - max(self.top, other.top) > TOLERANCE

    def is_crossed(self, start: Point, end: Point) -> bool:
        """Whether a straight line passes through the box (Liang and Barsky, 1984)."""
        low, high = 0.0, 1.0
        for a, b, least, most in (
            (start[0], end[0], self.left + TOLERANCE, self.right - TOLERANCE),
            (start[1], end[1], self.top + TOLERANCE, self.bottom - TOLERANCE),
        ):
            if a == b:
                if not least < a < most:
                    return False
                continue
            near, far = sorted(((least - a) / (b - a), (most - a) / (b - a)))
            low, high = max(low, near), min(high, far)
        return low < high


@dataclass
class Geometry:
    """The measurements of a drawing, in points."""

    overlaps: list[tuple[str, str]] = field(default_factory=list)
    crossed: list[tuple[str, str]] = field(default_factory=list)
    labels: int = 0
    area: float = 0.0
    length: float = 0.0


def measured(svg: str) -> Geometry:
    """The geometry of an SVG."""
    root = ET.fromstring(svg)
    plated = [group for _, group in _placed(root, "g") if _is_line(group) and group.find(f"{SVG}rect") is not None]
    own = {text: group for group in plated for text in group.iter(f"{SVG}text")}
    labels = [_label(text, at, own.get(text)) for at, text in _placed(root, "text")]
    size = [float(x) for x in (root.get("viewBox") or "").split()]
    found = Geometry(labels=len(labels), area=size[2] * size[3])
    rows = _rows(labels)
    found.overlaps = sorted({(a.text, b.text) for row in rows.values() for i, a in enumerate(row) for b in row[:i] if a.overlaps(b)})
    for group, name, points in _ways(root):
        way = sampled(points, 24)
        found.length += sum(hypot(x2 - x, y2 - y) for (x, y), (x2, y2) in pairwise(way))
        for start, end in pairwise(way):
            near = {label for row in _near(rows, start, end) for label in row}
            found.crossed += [(name, label.text) for label in near if label.line is not group and label.is_crossed(start, end)]
    found.crossed = sorted(set(found.crossed))
    return found


def _placed(root: ET.Element, tag: str, at: Point = (0.0, 0.0)) -> Iterator[tuple[Point, ET.Element]]:
    """The elements of a kind, with how far drawings in the drawing are moved."""
    for element in root:
        if element.tag == f"{SVG}{tag}":
            yield at, element
        own = (float(element.get("x") or 0), float(element.get("y") or 0)) if element.tag == f"{SVG}svg" else (0.0, 0.0)
        yield from _placed(element, tag, (at[0] + own[0], at[1] + own[1]))


def _label(text: ET.Element, at: Point, line: ET.Element | None) -> Label:
    size, x, y = (float(text.get(name) or 0) for name in ("font-size", "x", "y"))
    x, y = x + at[0], y + at[1]
    width = text_width(text.text or "", size, text.get("font-weight") == "bold")
    left = x if text.get("text-anchor") == "start" else x - width / 2
    return Label(text.text or "", left, y - 0.74 * size, left + width, y + 0.2 * size, line)


ROW = 40.0


def _rows(labels: Sequence[Label]) -> dict[int, list[Label]]:
    rows: dict[int, list[Label]] = {}
    for label in labels:
        for row in range(int(label.top // ROW), int(label.bottom // ROW) + 1):
            rows.setdefault(row, []).append(label)
    return rows


def _near(rows: dict[int, list[Label]], start: Point, end: Point) -> Iterator[list[Label]]:
    low, high = sorted((start[1], end[1]))
    yield from (rows.get(row, []) for row in range(int(low // ROW), int(high // ROW) + 1))


def _is_line(group: ET.Element) -> bool:
    return "edge" in (group.get("class") or "").split()


def _ways(root: ET.Element) -> Iterator[tuple[ET.Element, str, list[Point]]]:
    """The lines between nodes: their elements, what they are, and the points of their Bezier curves."""
    for (right, down), group in _placed(root, "g"):
        if _is_line(group):
            name = next((title.text or "" for title in group.iter(f"{SVG}title")), "")
            for path in group.iter(f"{SVG}path"):
                numbers = [float(number) for number in re.findall(r"-?[\d.]+", path.get("d") or "")]
                yield group, name, [(x + right, y + down) for x, y in zip(numbers[::2], numbers[1::2], strict=True)]


# -- what is measured ------------------------------------------------------------------------------


def random_program(seed: int) -> ga.Program:
    """A network of a few layers that read one another at random, with its gradients, and a loop or a branch now and then."""
    chance = random.Random(seed)
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        values = [ga.layers.data(f"x{i}", shape=[4, 8], append_batch_size=False, stop_gradient=False) for i in range(2)]
        for _ in range(chance.randrange(2, 14)):
            values.append(_layer(chance, values))
        loss = ga.layers.mean(ga.layers.sums([values[-1], chance.choice(values)]))
        if chance.random() < 0.8:
            ga.append_backward(loss)
    return program


def _layer(chance: random.Random, values: Sequence[ga.Variable]) -> ga.Variable:
    x, y = values[-1], chance.choice(values)
    kind = chance.randrange(8)
    if kind == 0:
        return ga.layers.fc(x, 8)
    if kind == 1:
        return ga.layers.softmax(x)
    if kind == 2:
        return ga.layers.layer_norm(x)
    if kind == 3:
        return ga.layers.concat(ga.layers.split(x, 2, dim=1), axis=1)
    if kind == 4:
        found: ga.Variable = ga.layers.cond(ga.layers.less_than(ga.layers.mean(x), ga.layers.mean(y)), lambda: x + y, lambda: x * y)
        return found
    if kind == 5:
        return _loop(x)
    return x * y if kind == 6 else ga.layers.tanh(x + y)


def _loop(x: ga.Variable) -> ga.Variable:
    start = ga.layers.fill_constant([1], "int64", 0)
    limit = ga.layers.fill_constant([1], "int64", 3)
    found: ga.Variable
    _, found = ga.layers.while_loop(lambda i, h: ga.layers.less_than(i, limit), lambda i, h: [i + 1, ga.layers.tanh(h)], [start, x])
    return found


def pictures() -> list[Path]:
    """The drawings of graphs in the documentation, which also has charts."""
    return [path for path in sorted((ROOT / "docs/images").rglob("*.svg")) if 'class="node' in path.read_text(encoding="utf-8")]


def main(count: int) -> int:
    """Measure, print a line for each drawing and a sum; return 1 if a label overlaps or is crossed."""
    drawings = [(path.name, path.read_text(encoding="utf-8")) for path in pictures()]
    bad = 0
    for name, svg in (*drawings, *((f"random {seed}", to_svg(random_program(seed))) for seed in range(count))):
        found = measured(svg)
        bad += bool(found.overlaps or found.crossed)
        print(
            f"{name}: {found.labels} labels, {found.area / 1e3:.0f}k pt², {found.length:.0f} pt of lines", *found.overlaps, *found.crossed
        )
    print(f"{len(drawings) + count} drawings, {bad} of them with a label that overlaps another one or is crossed")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
