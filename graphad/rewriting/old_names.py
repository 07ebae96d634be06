"""Names of this package as they were, for one minor version more. Each gives a ``DeprecationWarning`` with what takes its place."""

from __future__ import annotations

import warnings
from collections.abc import Hashable

from graphad.ir import Graph, Op
from graphad.rewriting.rewriter import ChangeCursor, erase_if_dead


class Follower(ChangeCursor):
    """Deprecated: ``ChangeCursor``, whose ``changed_ops`` was ``fresh`` and whose ``reset`` was ``forget``."""

    def __init__(self, who: Hashable, graph: Graph) -> None:
        _warn("Follower", "ChangeCursor")
        super().__init__(who, graph)

    fresh = ChangeCursor.changed_ops
    forget = ChangeCursor.reset


def sweep(op: Op) -> None:
    """Deprecated: ``erase_if_dead``."""
    _warn("sweep", "erase_if_dead")
    erase_if_dead(op)


def _warn(name: str, instead: str) -> None:
    warnings.warn(f"graphad.rewriting.{name} is deprecated and goes in the next minor version: use {instead}", DeprecationWarning, 3)
