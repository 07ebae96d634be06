"""The views of a graph for networkx: tables of nodes and neighbors, read-only, computed from the operators and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx

from graphad.errors import InvalidGraph
from graphad.ir.nodes import Node, Op, Slots, Value
from graphad.ir.tables import WIDE
from graphad.types import Function

if TYPE_CHECKING:
    from graphad.ir.graph import Graph


# -- views -----------------------------------------------------------------------------------------
# The views that networkx has of a graph: its node and adjacency tables, read-only.
#
# Operators hold what they read and write, values who reads and writes them; nothing is stored a second
# time for networkx. An edge has the key ``(slot, index)``, and the slot and index as its data.

Key = tuple[str, int]
Neighbors = dict[Node, dict[Key, dict[str, Any]]]


class NodeTable(Mapping[Node, dict[str, Any]]):
    """node -> its attributes: ``bipartite`` (0 operator, 1 value), and attributes that users add."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.attributes: dict[Node, dict[str, object]] = {}
        self._edits = -1
        self._neighbors: dict[tuple[Op, str], Neighbors] = {}

    def __getitem__(self, node: Node) -> dict[str, object]:
        if node not in self:
            raise KeyError(node)
        return self.attributes.setdefault(node, {"bipartite": 0 if isinstance(node, Op) else 1})

    def __contains__(self, node: object) -> bool:
        return isinstance(node, Op | Value) and node.graph is self.graph

    def __iter__(self) -> Iterator[Node]:
        yield from self.graph.values
        yield from self.graph.ops

    def __len__(self) -> int:
        return len(self.graph.values) + len(self.graph.ops)

    def neighbors(self, op: Op, side: str) -> Neighbors:
        """The values on one side of a wide operator with the keys of their edges; looked up once until the graph is edited."""
        if self._edits != self.graph.journal.edits:
            self._neighbors, self._edits = {}, self.graph.journal.edits
        if (op, side) not in self._neighbors:
            self._neighbors[op, side] = _values(getattr(op, side))
        return self._neighbors[op, side]


class Adjacency(Mapping[Node, Neighbors]):
    """node -> neighbor -> edge key -> edge data, in one direction."""

    def __init__(self, nodes: NodeTable, neighbors: Callable[[Node], Neighbors]) -> None:
        self.nodes = nodes
        self.neighbors = neighbors

    def __getitem__(self, node: Node) -> Neighbors:
        if node not in self.nodes:
            raise KeyError(node)
        return self.neighbors(node)

    def __contains__(self, node: object) -> bool:
        return node in self.nodes

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)


def successors(node: Node) -> Neighbors:
    """The values an operator writes, or the operators that read a value."""
    if isinstance(node, Op):
        return _values(node.outputs)
    return {op: _keys(op, "inputs", node) for op in node.readers}


def predecessors(node: Node) -> Neighbors:
    """The values an operator reads, or the operators that write a value."""
    if isinstance(node, Op):
        return _values(node.inputs)
    return {op: _keys(op, "outputs", node) for op in node.writers}


def _values(slots: Slots) -> Neighbors:
    result: Neighbors = {}
    for slot, index, value in edges(slots):
        result.setdefault(value, {})[slot, index] = {"slot": slot, "index": index}
    return result


def _keys(op: Op, side: str, target: Value) -> dict[Key, dict[str, object]]:
    slots: Slots = getattr(op, side)
    # networkx looks up edge by edge: without the table a sum of n values would be walked n times.
    if sum(map(len, slots.values())) > WIDE:
        nodes: NodeTable = op.graph._node
        return nodes.neighbors(op, side)[target].copy()
    return {(slot, index): {"slot": slot, "index": index} for slot, index, value in edges(slots) if value is target}


def edges(slots: Slots) -> Iterable[tuple[str, int, Value]]:
    """Slot, index and value of every edge on one side of an operator."""
    return ((slot, index, value) for slot, values in slots.items() for index, value in enumerate(values))


# -- plain -----------------------------------------------------------------------------------------
# Compatibility with networkx: it reads a graph through views, and where it builds graphs of its own, those are plain ones.


class PlainResults(nx.MultiDiGraph):  # type: ignore[type-arg]
    """A MultiDiGraph that networkx cannot edit: an empty one that it adds to, or makes a view of, becomes a plain one."""

    _node: Any
    _adj: object
    _pred: object

    def subgraph(self, nodes: object) -> Any:
        """networkx's view of some nodes, as a plain networkx graph."""
        # networkx makes a view in ``type(g)()``, which would be an empty Graph; a plain graph over the same tables can be viewed.
        plain: Any = nx.MultiDiGraph()
        plain._node, plain._adj, plain._pred = self._node, self._adj, self._pred
        return plain.subgraph(nodes)

    def _as_plain(self) -> None:
        """networkx builds results in ``type(g)()``: an empty Graph that it adds to becomes a plain MultiDiGraph."""
        if len(self):
            raise InvalidGraph(
                "a graphad Graph is changed by add_op, remove_op, replace...; nx.MultiDiGraph(graph) is a plain copy to edit"
            )
        self.__class__ = nx.MultiDiGraph  # type: ignore[assignment]
        nx.MultiDiGraph.__init__(self)

    def _become_view(self, graph: object) -> None:
        """networkx makes its views of an empty Graph as well, telling it what it is a view of."""
        self.__class__ = nx.MultiDiGraph  # type: ignore[assignment]
        self.__dict__["_graph"] = graph

    _graph = property(fset=_become_view)


def _plain_first(name: str) -> Function:
    method = getattr(nx.MultiDiGraph, name)

    def changed(self: PlainResults, *args: object, **kwargs: object) -> Any:
        self._as_plain()
        return method(self, *args, **kwargs)

    return changed


for _name in (
    "add_node",
    "add_nodes_from",
    "add_edge",
    "add_edges_from",
    "remove_node",
    "remove_nodes_from",
    "remove_edge",
    "remove_edges_from",
    "clear",
    "clear_edges",
):
    setattr(PlainResults, _name, _plain_first(_name))
