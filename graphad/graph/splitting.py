"""A value that several operators write, as a value for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from graphad.graph.nodes import Op, Value

if TYPE_CHECKING:
    from graphad.graph.graph import Graph


def split_writers(graph: Graph, value: Value, part: Callable[[], Value]) -> list[Value]:
    """Make each operator that writes a value write a ``part()`` of its own instead, and return these; nothing writes the value then.

    All writers are taken at once: taking one after the other out of the list of writers is quadratic in their number.
    """
    parts: list[Value] = []
    writers, value.writers = dict.fromkeys(value.writers), []
    for op in writers:
        for slot, values in op.outputs.items():
            if value in values:
                op.outputs[slot] = tuple([v if v is not value else _written(part(), op, parts) for v in values])
    graph.journal.edits += 1
    graph.journal.touch(*writers)
    return parts


def _written(part: Value, op: Op, parts: list[Value]) -> Value:
    part.writers.append(op)
    parts.append(part)
    return part
