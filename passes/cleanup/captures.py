"""The values that nested graphs capture from the graphs around them."""

from __future__ import annotations

from collections.abc import Iterator

from graphad.edit import add_operand
from graphad.graph import Graph, Op, Value
from graphad.graph.regions import first_captured, operands, the_row
from graphad.passes.cleanup.owners import Owners, owners_of


class Captures:
    """The loop-invariant values that nested graphs capture, and ways to capture more. The graphs of gradients are left alone."""

    def __init__(self, graph: Graph) -> None:
        self.root = graph
        self.owners: Owners = owners_of(graph) if graph.controls else {}

    def way_out(self, graph: Graph) -> Iterator[Op]:
        """The operators that a graph is nested in, the innermost first, as far as none is a gradient."""
        while graph is not self.root and graph in self.owners:
            owner = self.owners[graph]
            if the_row(owner).is_grad:
                return
            yield owner
            graph = owner.graph

    def origin(self, value: Value) -> Value:
        """The captured value of the outermost graph that a value of a nested graph is equal to, else the value itself."""
        while value.given and value.graph is not self.root:
            around = self._around(value)
            if around is None:
                break
            value = around
        return value

    def _around(self, value: Value) -> Value | None:
        owner = self.owners.get(value.graph)
        if owner is None or the_row(owner).is_grad:
            return None
        place, given = value.graph.inputs.index(value), operands(owner)
        start = first_captured(owner)
        return given[place] if start <= place < len(given) else None

    def has(self, value: Value, graph: Graph) -> bool:
        """Whether a graph captures a value of a graph around it."""
        for owner, inner in self._way_in(value, graph):
            place = self._place(value, owner)
            if place is None:
                return False
            value = inner.inputs[place]
        return True

    def have(self, value: Value, graph: Graph) -> Value:
        """The block argument for a value of a graph around; it is added to the operators on the way that do not capture the value yet."""
        for owner, inner in self._way_in(value, graph):
            value = dict(zip(owner.graphs.values(), add_operand(owner, value), strict=True))[inner]
        return value

    def _way_in(self, value: Value, graph: Graph) -> list[tuple[Op, Graph]]:
        """The operators between the graph of a value and one nested in it, and their graphs on the way, the outermost first."""
        way = []
        for owner in self.way_out(graph):
            way.append((owner, graph))
            graph = owner.graph
            if graph is value.graph:
                break
        return way[::-1]

    def _place(self, value: Value, owner: Op) -> int | None:
        """The index of a value among the loop-invariant operands of an operator."""
        start = first_captured(owner)
        return next((i for i, v in enumerate(operands(owner)) if i >= start and v is value), None)
