"""Frames around nested graphs, joined to their operators, which are above the rest: in the frame of the graph, or around several.

┌ while: body ──┐      ┌───────────────────┐
│ while         │      │ if_else           │
│ h ─▶ tanh ─▶ y│      │ ┌ true ┐┌ false ┐ │
└───────────────┘      │ └──────┘└───────┘ │
                       └───────────────────┘
"""

from __future__ import annotations

from collections.abc import Mapping

import pydot

from graphad.drawing.labels import frame_tooltip, quoted, shortened, shown
from graphad.drawing.nesting import Region
from graphad.drawing.plan import Plan
from graphad.drawing.style import GROUP, HOLD_EDGE, JOINT_EDGE, Attributes, all_quoted, frame_style, part
from graphad.graph import Graph, Node, Op


class Frames:
    """The frames of a drawing, each made when the first node in it is drawn."""

    def __init__(self, dot: pydot.Dot, drawn: Plan, prefix: str) -> None:
        self.dot = dot
        self.nesting = drawn.nesting
        self.tops = drawn.tops
        self.prefix = prefix
        self.count = 0
        self._graphs: dict[Graph, pydot.Graph] = {drawn.nesting.root: dot}
        self._groups: dict[Op, pydot.Graph] = {}
        self._names: dict[Graph, str] = {}

    def of(self, node: Node) -> pydot.Graph:
        """The frame that a node is drawn into."""
        if isinstance(node, Op) and node in self.nesting.opened:
            return self._around(node)
        return self._frame(self.nesting.home(node))

    def _around(self, op: Op) -> pydot.Graph:
        """The frame that an operator with drawn graphs is drawn into: that of its graph, or one around the frames of several."""
        regions = self.nesting.opened[op]
        if len(regions) == 1:
            return self._frame(regions[0].graph)
        if op not in self._groups:
            own = {"class": quoted("frame"), "label": '""', "tooltip": quoted(shown(op.type))}
            self._groups[op] = self._added(self._frame(op.graph), all_quoted(self._style(op) | GROUP) | own)
        return self._groups[op]

    def _frame(self, graph: Graph) -> pydot.Graph:
        if graph not in self._graphs:
            region = self.nesting.regions[graph]
            single = len(self.nesting.opened[region.op]) == 1
            around = self._frame(region.op.graph) if single else self._around(region.op)
            self._names[graph] = f"cluster_c{self.count}"
            self._graphs[graph] = self._added(around, self._attributes(region))
        return self._graphs[graph]

    def _added(self, around: pydot.Graph, attributes: Attributes) -> pydot.Graph:
        name = f"c{self.count}"
        self.count += 1
        frame = pydot.Cluster(name, id=quoted(self.prefix + name), **attributes)
        around.add_subgraph(frame)  # type: ignore[arg-type]  # pydot's own stubs: a Cluster is no Subgraph
        return frame

    def _attributes(self, region: Region) -> Attributes:
        own: Attributes = {
            "class": quoted(f"frame {part(self.nesting.role(region.op))}"),
            "label": quoted(shortened(shown(region.label))),
            "tooltip": frame_tooltip(region.op, region.name, region.graph),
        }
        return all_quoted(self._style(region.op)) | own

    def _style(self, op: Op) -> Attributes:
        return frame_style(part(self.nesting.role(op)))

    def join(self, ids: Mapping[Node, str]) -> None:
        """Join the frames to operators outside of them; hold each operator above its graphs."""
        for op, regions in self.nesting.opened.items():
            for region in regions:
                for i, node in enumerate(self.tops.get(region.graph, ())):
                    style = HOLD_EDGE
                    if i == 0 and len(regions) > 1:
                        style = JOINT_EDGE | {"color": self._style(op)["fontcolor"], "lhead": self._names[region.graph]}
                    self.dot.add_edge(pydot.Edge(ids[op], ids[node], **all_quoted(style)))
