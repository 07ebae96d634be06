"""Graphs as text: what a graph is given, then an operator a line, in order, with the types of what it writes.

    graph (x: float32[3]) {
      tanh(X=x) -> (Out=y: float32[3])
    }

The values of a name that is written more than once are told apart as ``x#0``, ``x#1``; a type that nothing has said is ``?``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphad.graph.nodes import Op, Slots, Value

if TYPE_CHECKING:
    from graphad.graph.graph import Graph


def print_graph(graph: Graph) -> str:
    """The text of a graph, the same for equal graphs."""
    given = ", ".join(map(print_value, graph.inputs))
    return "\n".join([f"graph ({given}) {{", *(f"  {print_op(op)}" for op in graph.ops), "}", ""])


def print_op(op: Op) -> str:
    """One line for an operator."""
    attrs = f" {{{', '.join(f'{k}={v!r}' for k, v in op.attrs.items())}}}" if op.attrs else ""
    reads = ", ".join(f"{slot}={v[0]!r}" if len(v) == 1 else f"{slot}={list(v)!r}" for slot, v in op.inputs.items())
    return f"{op.type}({reads}) -> ({_written(op.outputs)}){attrs}"


def print_value(value: Value) -> str:
    """A value with its type."""
    return f"{value!r}: {value.type or '?'}"


def _written(slots: Slots) -> str:
    shown = {slot: ", ".join(map(print_value, values)) for slot, values in slots.items()}
    return ", ".join(f"{slot}={text}" if len(slots[slot]) == 1 else f"{slot}=[{text}]" for slot, text in shown.items())
