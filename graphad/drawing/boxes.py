"""The shapes of nodes, in points: an operator is a box with its slots along its sides, a value an ellipse around its name and type.

    ┌──────────────┐         ┌───────────────┐
    │  X   │   Y   │         │ X@GRAD│Y@GRAD │      what a grad operator reads of the forward enters from the side
    │     mul      │         │X              │
    └──────────────┘         │Y   mul_grad   │
                             │   Out@GRAD    │
                             └───────────────┘

The names of the slots are inside, where arrows end, so that no arrow and no other name is drawn over them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, sqrt

from graphad.drawing.metrics import text_width
from graphad.drawing.nesting import KEPT, Arrow
from graphad.drawing.plan import Plan
from graphad.drawing.texts import op_lines, reference_text, shown, value_lines
from graphad.ir import Node, Op, Value

NAME, TEXT, SLOT = 10.0, 9.0, 7.5  # sizes of text
LINE = 1.2
CELL_HEIGHT, CELL_PAD = 11, 3
FEW_SLOTS = 8
TOP, BOTTOM, LEFT, RIGHT = "top", "bottom", "left", "right"
BEFORE, AFTER, ASIDE = 0, 1, 2
SIDES = {"TB": (TOP, BOTTOM, LEFT), "LR": (LEFT, RIGHT, TOP)}


# Told apart by identity: two slots may have one name and place, and one cell may be that of many keys.
@dataclass(eq=False)
class Cell:
    """A slot along a side of a box: its text, and where it is: left, top, width and height from the upper left corner."""

    text: str
    side: str
    place: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def width(self) -> int:
        """The room it needs."""
        return ceil(text_width(self.text, SLOT)) + 2 * CELL_PAD


@dataclass
class Box:
    """A node's shape: its size, lines of text with their sizes, and the cells of its slots, by end and slot."""

    width: int
    height: int
    lines: list[tuple[str, float]]
    middle: tuple[float, float] = (0, 0)
    round: bool = False
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    chips: list[str] = field(default_factory=list)

    def row(self, side: str) -> list[Cell]:
        """The cells along a side."""
        return [cell for cell in dict.fromkeys(self.cells.values()) if cell.side == side]


def boxes_of(
    drawn: Plan, is_closed: Callable[[Op], bool], is_aside: Callable[[Arrow], bool], rankdir: str, attributes: bool
) -> dict[Node, Box]:
    """The shape of each node; ``is_aside`` says which arrows enter from the side."""
    sides = SIDES[rankdir]
    cells: dict[Node, dict[tuple[str, str], Cell]] = {}
    for arrow in drawn.arrows:
        for end, node, slot in (("out", arrow.tail, arrow.tail_slot), ("in", arrow.head, arrow.head_slot)):
            if slot and isinstance(node, Op) and arrow.sort != KEPT:
                # Arrows that go up, such as those of a loop's carried values, leave and enter at the opposite sides.
                place = ASIDE if end == "in" and is_aside(arrow) else BEFORE if (end == "in") != arrow.up else AFTER
                cells.setdefault(node, {}).setdefault((end, slot), Cell(shown(slot), sides[place]))
    boxes: dict[Node, Box] = {}
    for node in drawn.nodes:
        if isinstance(node, Value):
            boxes[node] = _ellipse([(line, TEXT) for line in value_lines(node, drawn)])
        else:
            lines = op_lines(node, drawn, is_closed(node), attributes)
            chips = [reference_text(reference, drawn) for reference in drawn.references.get(node, ())]
            sized_lines = [(line, NAME if i == 0 else TEXT - 1) for i, line in enumerate(lines)]
            boxes[node] = _box(sized_lines, chips, _gathered(cells.get(node, {})))
    return boxes


def _ellipse(lines: list[tuple[str, float]]) -> Box:
    """The flattest ellipse around the lines: their corners lie on it."""
    wide = max(text_width(text, size) for text, size in lines) + 4
    high = sum(size * LINE for _, size in lines)
    # Any height above that of the lines has an ellipse through their corners; the flatter it is, the wider.
    height = high * 1.55
    # A corner (w / 2, h / 2) lies on the ellipse if (w / W)^2 + (h / H)^2 = 1.
    width = max(wide / sqrt(1 - (high / height) ** 2), 46)
    return Box(ceil(width), ceil(height), lines, (ceil(width) / 2, ceil(height) / 2), round=True)


def _gathered(cells: dict[tuple[str, str], Cell]) -> dict[tuple[str, str], Cell]:
    """One cell for a slot of many values."""
    lists: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for (end, slot), cell in cells.items():
        name, bracket, _ = slot.partition("[")
        if bracket:
            lists.setdefault((end, name, cell.side), []).append((end, slot))
    for (_, name, side), keys in lists.items():
        # A sum of many values would be as wide as its operands together.
        if len(keys) > FEW_SLOTS:
            joint_cell = Cell(f"{shown(name)}[{len(keys)}]", side)
            cells.update(dict.fromkeys(keys, joint_cell))
    return cells


def _box(lines: list[tuple[str, float]], chips: list[str], cells: dict[tuple[str, str], Cell]) -> Box:
    box = Box(0, 0, lines, cells=cells, chips=chips)
    top, bottom, left, right = (box.row(side) for side in (TOP, BOTTOM, LEFT, RIGHT))
    side_widths = [max((cell.width for cell in column), default=0) for column in (left, right)]
    names = max(text_width(text, size) for text, size in lines)
    notes = max((text_width(chip, SLOT) + 2 * CELL_PAD for chip in chips), default=0)
    # The middle has to hold the names, the rows above and below their cells, and the box is as wide as the widest of these.
    core = ceil(max(names + 14, notes + 6, 30))
    box.width = max(core + sum(side_widths), *(sum(cell.width for cell in row) for row in (top, bottom)), 42)
    text = sum(size * LINE for _, size in lines) + CELL_HEIGHT * len(chips)
    middle = ceil(max(text + 8, CELL_HEIGHT * max(len(left), len(right)) + 2))
    above = CELL_HEIGHT if top else 0
    box.height = above + middle + (CELL_HEIGHT if bottom else 0)
    box.middle = (side_widths[0] + (box.width - sum(side_widths)) / 2, above + middle / 2)
    _spread(top, box.width, 0)
    _spread(bottom, box.width, above + middle)
    for column, wide, at in ((left, side_widths[0], 0), (right, side_widths[1], box.width - side_widths[1])):
        start = above + (middle - CELL_HEIGHT * len(column)) // 2
        for i, cell in enumerate(column):
            cell.place = (at, start + i * CELL_HEIGHT, wide, CELL_HEIGHT)
    return box


def _spread(cells: list[Cell], wide: int, top: int) -> None:
    """Cells side by side over the whole width."""
    spare, at = wide - sum(cell.width for cell in cells), 0
    for i, cell in enumerate(cells):
        # Whole pixels that add up to the spare width.
        more = spare * (i + 1) // len(cells) - spare * i // len(cells)
        cell.place = (at, top, cell.width + more, CELL_HEIGHT)
        at += cell.width + more
