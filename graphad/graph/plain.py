"""Compatibility with networkx: it reads a graph through views, and where it builds graphs of its own, those are plain ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx

from graphad.errors import InvalidGraph


class PlainResults(nx.MultiDiGraph):  # type: ignore[type-arg]
    """A MultiDiGraph that networkx cannot edit: an empty one that it adds to, or makes a view of, becomes a plain one."""

    _node: Any
    _adj: Any
    _pred: Any

    def subgraph(self, nodes: Any) -> Any:
        """networkx's view of some nodes, as a plain networkx graph."""
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

    def _become_view(self, graph: Any) -> None:
        """networkx makes its views of an empty Graph as well, telling it what it is a view of."""
        self.__class__ = nx.MultiDiGraph  # type: ignore[assignment]
        self.__dict__["_graph"] = graph

    _graph = property(fset=_become_view)


def _plain_first(name: str) -> Callable[..., Any]:
    method = getattr(nx.MultiDiGraph, name)

    def changed(self: PlainResults, *args: Any, **kwargs: Any) -> Any:
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
