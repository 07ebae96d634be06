"""Attributes of graphs under the names that they had, for one minor version more."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from graphad.ir.residuals import forward_graph, gradient_graphs, residual_inputs

if TYPE_CHECKING:
    from graphad.ir.graph import Graph
    from graphad.ir.nodes import Value


class OldNames:
    """Deprecated attributes of a graph; each gives a ``DeprecationWarning`` that says what takes its place."""

    @property
    def father(self: Graph) -> Graph | None:  # type: ignore[misc]
        """Deprecated: ``parent``, or for the graph of a gradient ``forward_graph``."""
        _warn("father", "parent, or forward_graph of graphad.ir.residuals for the graph of a gradient")
        return forward_graph(self) or self.parent

    @property
    def saved(self: Graph) -> dict[Value, Value]:  # type: ignore[misc]
        """Deprecated: ``residual_inputs``."""
        _warn("saved", "residual_inputs of graphad.ir.residuals")
        return residual_inputs(self)

    @property
    def gradients(self: Graph) -> list[Graph]:  # type: ignore[misc]
        """Deprecated: ``gradient_graphs``."""
        _warn("gradients", "gradient_graphs of graphad.ir.residuals")
        return gradient_graphs(self)


def _warn(name: str, instead: str) -> None:
    warnings.warn(f"Graph.{name} is deprecated and goes in the next minor version: use {instead}", DeprecationWarning, stacklevel=3)
