"""Graphs as text: the inputs, then an operator a line, in order, with the types of its results.

    graph (x: float32[3]) {
      tanh(X=x) -> (Out=y: float32[3])
    }

Nested graphs are printed below their operator, with their arguments, their results and the residuals of a run; in the graph of a
gradient, ``= residual t`` marks the inputs that stand for those, with the value of the forward graph.

The values of a name that is written more than once are printed as ``x#0``, ``x#1``; an unknown type is ``?``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from graphad.ir.nodes import Op, Slots, Value
from graphad.ir.residuals import residual_inputs

if TYPE_CHECKING:
    from graphad.ir.graph import Graph


def print_graph(graph: Graph) -> str:
    """The text of a graph, the same for equal graphs."""
    return "\n".join(["graph " + line if i == 0 else line for i, line in enumerate(_lines(graph))]) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    yield f"({', '.join(_inputs(graph))}) {{"
    for op in graph.ops:
        yield f"  {print_op(op)}"
        for name, subgraph in op.graphs.items():
            head, *rest = _lines(subgraph)
            yield f"    {name} {head}"
            yield from (f"    {line}" for line in rest)
    yield "}" + _listed(" -> ", graph.results) + _listed(", residuals ", graph.residuals)


def _listed(before: str, values: Sequence[Value]) -> str:
    return f"{before}({', '.join(map(repr, values))})" if values else ""


def _inputs(graph: Graph) -> Iterator[str]:
    residuals = residual_inputs(graph)
    for value in graph.inputs:
        yield print_value(value) + (f" = residual {residuals[value]!r}" if value in residuals else "")


def print_op(op: Op) -> str:
    """One line for an operator."""
    attrs = f" {{{', '.join(f'{k}={v!r}' for k, v in op.attrs.items())}}}" if op.attrs else ""
    reads = ", ".join(f"{slot}={v[0]!r}" if len(v) == 1 else f"{slot}={list(v)!r}" for slot, v in op.inputs.items())
    return f"{op.type}({reads}) -> ({_written(op.outputs)}){attrs}"


def print_value(value: Value) -> str:
    """A value with its type."""
    return f"{value!r}: {value.type or '?'}"


def _written(slots: Slots) -> str:
    texts = {slot: ", ".join(map(print_value, values)) for slot, values in slots.items()}
    return ", ".join(f"{slot}={text}" if len(slots[slot]) == 1 else f"{slot}=[{text}]" for slot, text in texts.items())
