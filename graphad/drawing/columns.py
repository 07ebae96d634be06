"""Long drawings in columns, as a text is in the columns of a newspaper; a line to another column goes on at the same number.

    │ a │                 │ a │  (1)
    │ b │        ⇒        │ b │  │ c │
    │ c │                  (1)   │ d │
    │ d │

Each column is laid out by itself, so that it is as narrow as it can be, and that many operators take no longer than their number says.
"""

from __future__ import annotations

from math import sqrt

from graphad.drawing.nesting import CARRIED
from graphad.drawing.options import Options
from graphad.drawing.plan import Plan
from graphad.ir import Graph, Node, Op
from graphad.program import FORWARD

LONG, SLENDER, SHAPE = 5000.0, 4.0, 0.5  # from this height on, and so slender; with columns about half as wide as high
ROW, FIELD = 62.0, 120.0  # what a node takes, about, in points
PART_ROW, PART_FIELD, SCREEN = 115.0, 180.0, 1.6  # a part; how much wider than high an overview is made


def columns_of(drawn: Plan, options: Options) -> list[frozenset[Node]]:
    """The columns of a drawing; one where it is not long."""
    count = options.columns or _count(drawn, options)
    if count < 2 or options.rankdir != "TB" or len(drawn.nodes) < 2 * count:
        return [frozenset(drawn.nodes)]
    places = _places(drawn)
    order = sorted(drawn.nodes, key=places.__getitem__)
    # Columns of as many nodes each, cut where the forward is: all that has one place along it stays in one column.
    size = len(order) / count
    bounds = [places[order[min(int(size * i), len(order) - 1)]] for i in range(1, count)]
    columns: list[list[Node]] = [[] for _ in range(count)]
    for node in drawn.nodes:
        columns[sum(bound <= places[node] for bound in bounds)].append(node)
    return [frozenset(nodes) for nodes in columns if nodes]


def _count(drawn: Plan, options: Options) -> int:
    depth = _depth(drawn)
    wide = max(len(drawn.nodes) / max(depth, 1), 1)
    if drawn.folding.contents:  # an overview, which is to be seen as a whole
        return max(round(sqrt(depth * PART_ROW * SCREEN / (wide * PART_FIELD))), 1)
    # In c columns it is about height / c high and c * width wide; c = sqrt(SHAPE * height / width) makes the width SHAPE times the height.
    height, width = depth * ROW, wide * FIELD
    if height < LONG or height < SLENDER * width:
        return 1
    return round(sqrt(height * SHAPE / width))


def _depth(drawn: Plan) -> int:
    """How many nodes are above one another, at least: the longest way down."""
    readers_below: dict[Node, list[Node]] = {}
    counts: dict[Node, int] = dict.fromkeys(drawn.nodes, 0)
    for arrow in drawn.arrows:
        if arrow.sort != CARRIED and arrow.tail is not arrow.head:
            upper, lower = (arrow.head, arrow.tail) if arrow.up else (arrow.tail, arrow.head)
            if upper in counts and lower in counts:
                readers_below.setdefault(upper, []).append(lower)
                counts[lower] += 1
    # The longest path by Kahn's topological order; there is no cycle without what loops carry.
    ready_nodes = [node for node, count in counts.items() if not count]
    depths = dict.fromkeys(ready_nodes, 1)
    while ready_nodes:
        node = ready_nodes.pop()
        for neighbor in readers_below.get(node, ()):
            depths[neighbor] = max(depths.get(neighbor, 0), depths[node] + 1)
            counts[neighbor] -= 1
            if not counts[neighbor]:
                ready_nodes.append(neighbor)
    return max(depths.values(), default=0)


def _places(drawn: Plan) -> dict[Node, int]:
    """The place of each node along the forward: a gradient has that of its partner, a nested node that of its operator."""
    places: dict[Node, int] = {}
    ops = [op for op in drawn.nodes if isinstance(op, Op) and op.graph is drawn.nesting.root and drawn.nesting.role(op) == FORWARD]
    for place, op in enumerate(ops):
        places[op] = place
    # The backward runs against the forward: a gradient has the place of what it is the gradient of, so that both are in one column.
    for a, b in drawn.levels:
        for node, partner in ((a, b), (b, a)):
            if partner in places:
                places.setdefault(node, places[partner])
    _spread(places, drawn)
    for node in drawn.nodes:
        owner = _owner(node, drawn)
        places[node] = places.get(node if owner is None else owner, places.get(node, 0))
    return places


def _spread(places: dict[Node, int], drawn: Plan) -> None:
    """Give the rest the places of their neighbors, the nearest first."""
    neighbors: dict[Node, list[Node]] = {}
    for arrow in drawn.arrows:
        neighbors.setdefault(arrow.head, []).append(arrow.tail)
        neighbors.setdefault(arrow.tail, []).append(arrow.head)
    # Breadth first, from all that have a place at once.
    border = list(places)
    while border:
        later: list[Node] = []
        for node in border:
            for neighbor in neighbors.get(node, ()):
                if neighbor not in places:
                    places[neighbor] = places[node]
                    later.append(neighbor)
        border = later


def _owner(node: Node, drawn: Plan) -> Op | None:
    """The operator of the whole drawing's graph that a node is nested in."""
    owner: Op | None = None
    graph: Graph = node.graph
    while graph in drawn.nesting.regions:
        owner = drawn.nesting.regions[graph].op
        graph = owner.graph
    return owner
