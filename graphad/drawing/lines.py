"""The lines of a drawing: arrows, dashed lines from gradients to what they are gradients of, and lines from operators to their frames.

Each says how it bears on the layout: the main flow is kept straight, side inputs bend, a lookup far away does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphad.drawing.frames import Frame, Frames
from graphad.drawing.nesting import ADDED, BEFORE, CARRIED, ENTERS, FLOW, KEPT, LEAVES, SAVED, Arrow
from graphad.drawing.options import Options
from graphad.drawing.plan import Plan
from graphad.drawing.texts import arrow_tooltip, shown
from graphad.ir import Node, Op, Value
from graphad.program import BACKWARD, OPTIMIZE

MOST_LINKS = 200
ALONG, BESIDE, LOOKUP, TURN = "along", "beside", "lookup", "turn"
NEXT_COPY = "next"

# The mark and the tooltip of arrows of a sort.
SORTS = {
    FLOW: ("", ""),
    LEAVES: ("", "a result"),
    ENTERS: ("", "what the first iteration starts from"),
    SAVED: ("saved", "saved for the gradient"),
    KEPT: ("kept", "what is kept for the gradient"),
    ADDED: ("added", "added up over the iterations"),
    CARRIED: ("carried", "carried to the next iteration"),
    BEFORE: ("", "written in a step before"),
}


@dataclass(frozen=True)
class Line:
    """A line from a node to another: drawn upwards from ``tail`` to ``head`` where ``up`` says so.

    ``mark`` is the class of a special one, ``role`` the part of the program that it belongs to, ``way`` how it bears on the layout.
    """

    tail: Node
    head: Node
    role: str
    way: str
    mark: str = ""
    tooltip: str = ""
    up: bool = False
    level: bool = False
    tail_slot: str = ""
    head_slot: str = ""
    value: Value | None = None

    @property
    def classes(self) -> str:
        """Its class in SVG and DOT: what is kept for the gradient as a whole is saved for it, too."""
        return "saved" if self.mark == "kept" else self.mark


@dataclass(frozen=True)
class Hold:
    """An operator above a node of its nested graph; the line is seen where the graph is one of several, up to their ``frame``."""

    op: Op
    node: Node
    role: str
    frame: Frame | None


def way_of(arrow: Arrow, drawn: Plan) -> str:
    """The kind of line that an arrow is in the layout."""
    value, reads = arrow.value, isinstance(arrow.head, Op)
    role = drawn.nesting.role(arrow.op)
    if arrow.sort == BEFORE:  # the layout is that of what there is
        return LOOKUP
    if arrow.turns:  # neither below the one nor above the other
        return TURN
    # What the backward reads of the forward must not pull the two apart: such lines do not bear on ranks.
    if reads and role == BACKWARD and (not arrow.backward or arrow.sort in (SAVED, KEPT)) and not _is_copied_for_backward(arrow, drawn):
        return LOOKUP
    if reads and role == OPTIMIZE and value.persistable and len(value.readers) > 1:
        return LOOKUP
    if reads and value.graph is not arrow.op.graph:
        return BESIDE
    # A value that is read lies on the way from its writer to its reader; a parameter hangs beside its reader.
    goes_on = value.readers or drawn.nesting.opened
    return ALONG if value.writers and goes_on and not value.persistable else BESIDE


def _is_copied_for_backward(arrow: Arrow, drawn: Plan) -> bool:
    """Whether an operator of the backward is in a graph of the forward: it copies what the backward needs, beside what it copies."""
    region = drawn.nesting.regions.get(arrow.op.graph)
    return region is not None and drawn.nesting.role(region.op) != BACKWARD


def lines_of(drawn: Plan, options: Options) -> Iterator[Line]:
    """The arrows and links, in order."""
    for arrow in drawn.arrows:
        mark, note = (NEXT_COPY, "to the next copy") if arrow.next else SORTS[arrow.sort]
        text = arrow_tooltip(arrow.value, arrow.tail_slot, arrow.head_slot, note)
        role, way = drawn.nesting.role(arrow.op), way_of(arrow, drawn)
        slots = ("", "") if arrow.sort == KEPT else ("" if arrow.folded and way == LOOKUP else arrow.tail_slot, arrow.head_slot)
        yield Line(arrow.tail, arrow.head, role, way, mark, text, arrow.up, arrow.level, *slots, arrow.value)
    pairs = [(a, b) for a, b in drawn.levels if isinstance(a, Value) and isinstance(b, Value)]
    if options.links == "all" or (options.links == "auto" and len(pairs) <= MOST_LINKS):
        for gradient, source in pairs:
            text = f"{shown(repr(gradient))} is the gradient of {shown(repr(source))}"
            # Between frames the links keep the backward to the right of the forward.
            way = BESIDE if drawn.nesting.opened or drawn.groups else LOOKUP
            yield Line(source, gradient, BACKWARD, way, "link", text, value=gradient)


def holds_of(drawn: Plan, frames: Frames) -> Iterator[Hold]:
    """The invisible lines that keep operators above their nested graphs."""
    for op, regions in drawn.nesting.opened.items():
        if op not in drawn.nodes:
            continue
        for region in regions:
            for i, node in enumerate(drawn.tops.get(region.graph, ())):
                has_frame = i == 0 and len(regions) > 1
                yield Hold(op, node, drawn.nesting.role(op), frames.of_region(region) if has_frame else None)
