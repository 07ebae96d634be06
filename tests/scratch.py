"""Passes and operators that only tests know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from graphad.ir import Graph
from graphad.ops import REGISTRY
from graphad.rewriting import PASSES, Pass


@contextmanager
def passes(*also: type[Pass]) -> Iterator[None]:
    """Within it, these passes are known and more can be defined; after it, they are forgotten."""
    before = dict(PASSES)
    PASSES.update({each.name: each for each in also})
    try:
        yield
    finally:
        PASSES.clear()
        PASSES.update(before)


@contextmanager
def operators() -> Iterator[None]:
    """Within it, operators can be defined; after it, they are forgotten."""
    before = dict(REGISTRY)
    try:
        yield
    finally:
        REGISTRY.clear()
        REGISTRY.update(before)


with passes():

    @dataclass(frozen=True)
    class Swap(Pass):
        """Put operators of one type in the place of those of another."""

        name = "swap"
        old: str = "sin"
        new: str = "cos"

        def apply(self, graph: Graph) -> bool:
            found = [op for op in graph.ops if op.type == self.old]
            for op in found:
                graph.add_op(self.new, op.inputs, op.outputs, before=op, forward=op)
                graph.remove_op(op)
            return bool(found)
