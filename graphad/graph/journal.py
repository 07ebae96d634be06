"""What a graph and the graphs nested in it have in common: who is at work, what happened, what they claim."""

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
    """Who is at work, how often the graphs were changed, what they claim.

    ``asked`` are the names that the program was lowered for, None for all that are unused, ``history`` the passes that ran.
    ``rewrites`` counts what passes did one by one, of which there may be ``limit``; ``origin`` says what the last one was.
    ``touched`` holds, once there is a listener, the operators that changed or may have become dead, in order. ``kept`` is what passes
    keep of the graph beside it, by their class: it is dropped when the list is begun anew, and what was touched since is checked again.
    ``memory`` is what is to be remembered for as long as there is the graph.
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
