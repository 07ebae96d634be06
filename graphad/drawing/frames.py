"""The frames of a drawing, one in another: around nested graphs, around operators with several of them, around scopes and repetitions.

┌ while: body ──┐      ┌───────────────────┐      ┌ encoder ───────────┐
│ while         │      │ if_else           │      │ ┌ layer, 8 times ┐ │
│ h ─▶ tanh ─▶ y│      │ ┌ true ┐┌ false ┐ │      │ │ mul ─▶ add     │ │
└───────────────┘      │ └──────┘└───────┘ │      │ └────────────────┘ │
                       └───────────────────┘      └────────────────────┘
"""

from __future__ import annotations

from dataclasses import dataclass, field

from graphad.drawing.nesting import Region
from graphad.drawing.plan import Plan
from graphad.drawing.scopes import Group
from graphad.drawing.texts import frame_tooltip, shortened, shown
from graphad.ir import Graph, Node, Op, Value

NESTED, SEVERAL, GROUP = "nested", "several", "group"


# Keys of dictionaries while they are still filled, so compared by identity.
@dataclass(eq=False)
class Frame:
    """A frame, what is directly in it, in order, and the part of the program that it belongs to."""

    number: int
    kind: str = ""
    role: str = ""
    label: str = ""
    tooltip: list[str] = field(default_factory=list)
    items: list[Node | Frame] = field(default_factory=list)
    repeated: bool = False
    column: int | None = None  # the place from left to right of one around all of an order

    @property
    def inner(self) -> list[Frame]:
        """The frames directly in it."""
        return [item for item in self.items if isinstance(item, Frame)]


class Frames:
    """The frames of a plan, each made when the first node in it is drawn; ``whole`` is the drawing itself."""

    def __init__(self, drawn: Plan) -> None:
        self.drawn = drawn
        self.nesting = drawn.nesting
        self.whole = Frame(-1)
        self.all: list[Frame] = []
        self._graphs: dict[Graph, Frame] = {drawn.nesting.root: self.whole}
        self._several: dict[Op, Frame] = {}
        self._groups: dict[Group, Frame] = {}
        # Columns first: Graphviz mostly keeps the order in which they are written.
        places = {group: group.column for group in drawn.groups.values() if group.column is not None}
        for group in sorted(places, key=places.__getitem__):
            self._group(group)
        # In the order of drawing, so that frames come in the order of their first nodes.
        for node in drawn.nodes:
            self._of(node).items.append(node)

    def of_region(self, region: Region) -> Frame | None:
        """The frame of a nested graph, None if nothing in it is drawn."""
        return self._graphs.get(region.graph)

    def _of(self, node: Node) -> Frame:
        if isinstance(node, Op) and node in self.nesting.opened:
            return self._around(node)
        return self._outside(node)

    def _outside(self, node: Node) -> Frame:
        """The frame of a node's graph, or of the group that it is in there."""
        group = self.drawn.groups.get(node)
        if group is None and isinstance(node, Value) and node in self.drawn.sums:
            return self._frame(self.drawn.sums[node].graph)
        return self._frame(node.graph) if group is None else self._group(group)

    def _around(self, op: Op) -> Frame:
        """The frame that an operator with drawn graphs is in: that of its graph, or one around the frames of several."""
        regions = self.nesting.opened[op]
        if len(regions) == 1:
            return self._frame(regions[0].graph)
        # Several graphs of one operator, as of a branch, have a frame around them all.
        if op not in self._several:
            frame = Frame(0, SEVERAL, self.nesting.role(op), "", [shown(op.type)])
            self._several[op] = self._added(self._outside(op), frame)
        return self._several[op]

    def _frame(self, graph: Graph) -> Frame:
        if graph not in self._graphs:
            region = self.nesting.regions[graph]
            single = len(self.nesting.opened[region.op]) == 1
            # One nested graph needs no frame besides its own.
            around = self._outside(region.op) if single else self._around(region.op)
            label = shortened(shown(region.label))
            tooltip = frame_tooltip(region.op, region.name, region.graph)
            self._graphs[graph] = self._added(around, Frame(0, NESTED, self.nesting.role(region.op), label, tooltip))
        return self._graphs[graph]

    def _group(self, group: Group) -> Frame:
        if group not in self._groups:
            around = self._frame(group.graph) if group.around is None else self._group(group.around)
            repeat, label = group.repeat, shortened(group.label)
            tooltip = [label]
            if repeat is not None:
                label += (
                    f" (differ: {', '.join(repeat.differing[:3])}{', …' if len(repeat.differing) > 3 else ''})" if repeat.differing else ""
                )
                tooltip += [f"drawn once, there {repeat.count} times", *repeat.differs[:30]]
            self._groups[group] = self._added(
                around, Frame(0, GROUP, group.role, label, tooltip, repeated=repeat is not None, column=group.column)
            )
        return self._groups[group]

    def _added(self, around: Frame, frame: Frame) -> Frame:
        frame.number = len(self.all)
        self.all.append(frame)
        around.items.append(frame)
        return frame
