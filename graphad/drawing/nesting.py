"""Which nested graphs are drawn, and which of their values have no node of their own because an outer one stands for them.

while(X=[h, w]) { graph (h, w) ... }        h is carried: the graph has a node for it
                                            w is captured: arrows go from the w outside to its readers inside
while_grad(...) { graph (dy, y saved) ... } y is saved: arrows come from the y of the forward graph
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from graphad.graph import Graph, Node, Op, Value
from graphad.graph.regions import OTHERWISE, LoopLike, control_row, operands, outcomes
from graphad.graph.residuals import is_read, residual_inputs
from graphad.program import EMPTY, FORWARD

_NAMES = {"sub_block": "body", "true_block": "true", "false_block": "false", OTHERWISE: "otherwise"}


class Region(NamedTuple):
    """A nested graph that is drawn, its operator, and the attribute that holds it."""

    op: Op
    name: str
    graph: Graph

    @property
    def label(self) -> str:
        """What is above it."""
        return f"{self.op.type}: {_NAMES.get(self.name, self.name)}"


@dataclass(frozen=True)
class Operand:
    """An operand of an operator with graphs: the value outside, its block argument in each graph, and the ``result`` that replaces it."""

    outer: Value
    inner: tuple[Value, ...]
    result: Value | None


class Nesting:
    """A graph with the graphs nested in it, drawn down to a depth.

    Attributes:
        opened: the operators whose nested graphs are drawn, with those that hold an operator.
        regions: the drawn nested graphs, the outer ones first.
    """

    def __init__(self, root: Graph, depth: int) -> None:
        self.root = root
        self.opened: dict[Op, list[Region]] = {}
        self.regions: dict[Graph, Region] = {}
        self._stands: dict[Value, Value] = {}
        self._saved: set[Value] = set()
        self._open(root, depth)
        for value in list(self._stands):
            if not self.is_drawn(self.outer(value).graph):
                del self._stands[value]

    def _open(self, graph: Graph, depth: int) -> None:
        for op in graph.controls if depth else ():
            regions = [Region(op, name, g) for name, g in op.graphs.items() if does_something(g)]
            if not regions or control_row(op) is None:
                continue
            self.opened[op] = regions
            for operand in operands_of(op):
                if operand.result is None:
                    self._stands.update(dict.fromkeys(operand.inner, operand.outer))
            for region in regions:
                self.regions[region.graph] = region
                kept = residual_inputs(region.graph)
                self._stands.update(kept)
                self._saved.update(kept)
                self._open(region.graph, depth - 1)

    def is_drawn(self, graph: Graph) -> bool:
        """Whether a graph has a place in the drawing."""
        return graph is self.root or graph in self.regions

    def outer(self, value: Value) -> Value:
        """The value whose node stands for a value: what was captured or saved, or itself."""
        while value in self._stands:
            value = self._stands[value]
        return value

    def is_saved(self, value: Value) -> bool:
        """Whether a value is what a run of a forward graph left for its gradient."""
        while value in self._stands:
            if value in self._saved:
                return True
            value = self._stands[value]
        return False

    def home(self, node: Node) -> Graph:
        """The graph in whose frame a node is drawn; an operator with one drawn graph is drawn in that."""
        regions = self.opened.get(node, ()) if isinstance(node, Op) else ()
        return regions[0].graph if len(regions) == 1 else node.graph

    def around(self, graph: Graph) -> Iterator[Graph]:
        """A graph, and the drawn ones it is nested in, the whole drawing excluded."""
        while graph in self.regions:
            yield graph
            graph = self.regions[graph].op.graph

    def role(self, op: Op) -> str:
        """The part of the program an operator belongs to: graphs nested in the backward belong to the backward."""
        around = self.regions.get(op.graph)
        outer = op.role if around is None else self.role(around.op)
        return op.role if outer == FORWARD else outer

    def graphs(self) -> Iterator[Graph]:
        """The drawn graphs, the outer ones first."""
        yield self.root
        yield from self.regions

    def in_order(self, graph: Graph | None = None) -> Iterator[Node]:
        """All operators, preceded by what they read and followed by what they write, as often as they do so."""
        for op in (self.root if graph is None else graph).ops:
            yield from map(self.outer, op.reads())
            yield op
            for region in self.opened.get(op, ()):
                yield from (v for v in region.graph.inputs if self.outer(v) is v and is_read(v))
                yield from self.in_order(region.graph)
            yield from op.writes()


def operands_of(op: Op) -> Iterator[Operand]:
    """What an operator passes to its graphs, in order."""
    given, loop = operands(op), LoopLike.of(op)
    carried = range(0) if loop is None else loop.carried_at
    for i, outer in enumerate(given):
        inner = tuple(g.inputs[i] for g in op.graphs.values() if i < len(g.inputs))
        results = [g.results[carried.index(i)] for g in op.graphs.values() if carried.index(i) < len(g.results)] if i in carried else []
        yield Operand(outer, inner, results[0] if results else None)


def outcomes_of(op: Op) -> Iterator[tuple[Value, list[Value]]]:
    """The results of an operator, and the values of its graphs that they come from."""
    for i, value in enumerate(outcomes(op)):
        yield value, [g.results[i] for g in op.graphs.values() if i < len(g.results)]


def is_absent(node: Node) -> bool:
    """Whether a node is the place of a value that is not there."""
    return isinstance(node, Value) and node.name == EMPTY


def does_something(graph: Graph) -> bool:
    """Whether a nested graph is worth a frame."""
    return any(op.type != "undefined" for op in graph.ops)
