"""The state that a graph shares with the graphs nested in it: the current pass, the changes, the claimed properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from graphad.graph.nodes import Op
from graphad.graph.provenance import Origin, origin_of

# Properties a graph can have; passes require, clear and establish them, the verifier checks those claimed.
SINGLE_WRITER, TYPED = "single_writer", "typed"


@dataclass
class Journal:
    """The current pass, the changes to the graphs, and the properties that they claim.

    ``asked`` are the names requested when the program was lowered, None for all that are unused, ``history`` the passes that ran.
    ``rewrites`` counts single rewrites, of which there may be ``limit``; ``origin`` describes the last one.
    ``touched`` holds, once there is a listener, the operators that changed or may have become dead, in order. ``kept`` are
    tables of passes about the graph, by class: they are dropped when the list is started anew, and entries for changed operators are
    checked again. ``memory`` lasts as long as the graph.
    """

    properties: set[str] = field(default_factory=lambda: {SINGLE_WRITER, TYPED})
    author: str | None = None
    origin: Origin | None = None
    edits: int = 0
    typings: int = 0
    rewrites: int = 0
    limit: int | None = None
    asked: tuple[str, ...] | None = None
    history: list[Any] = field(default_factory=list)
    touched: list[Op] | None = None
    followers: dict[Any, int] = field(default_factory=dict)
    kept: dict[Any, Any] = field(default_factory=dict)
    memory: dict[Any, Any] = field(default_factory=dict)

    @property
    def is_exhausted(self) -> bool:
        """Whether as many rewrites were made as there may be."""
        return self.limit is not None and self.rewrites >= self.limit

    def allows(self, rule: str, ops: Sequence[Op]) -> bool:
        """Count one rewrite of these operators and remember where it comes from; False where the limit is reached."""
        if self.is_exhausted:
            return False
        self.rewrites += 1
        self.origin = origin_of(self.author, rule, ops)
        return True

    def touch(self, *ops: Op) -> None:
        """Remember operators that changed, or that may have become dead, if there is a listener."""
        if self.touched is not None:
            self.touched += ops
