"""Which values there are for certain whenever their graph runs.

    if_else(c) { y = tanh(x) } else { y is left as it was } -> y       if there was no y, reading it may fail

What is given to the whole program, data and parameters, is taken to be there; but not if it has the name of something that operators
write, unless one that needs a value reads it: then it may be what a branch would have left as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphad.graph import Graph, Op, Value
from graphad.graph.regions import operands, outcomes, the_row
from graphad.rewriting import Analysis


@dataclass(frozen=True)
class Certain(Analysis):
    """The values of a graph, and of those nested in it, that no run leaves without a value."""

    values: frozenset[Value]

    @classmethod
    def compute(cls, graph: Graph) -> Certain:
        certain: set[Value] = set()
        _fill(graph, [_is_there(value) for value in graph.inputs], certain)
        return cls(frozenset(certain))


def _is_there(value: Value) -> bool:
    if value.persistable or value.graph.values.number(value) is None:
        return True
    return any(op.row is not None and not op.row.partial and not op.graphs for op in value.readers)


def _fill(graph: Graph, given: Sequence[bool], certain: set[Value]) -> None:
    certain.update(value for value, there in zip(graph.inputs, given, strict=True) if there)
    for op in graph.ordered_ops():
        if op.graphs:
            certain.update(_handed_out(op, certain))
        elif _writes_surely(op, certain):
            certain.update(op.writes())


def _writes_surely(op: Op, certain: set[Value]) -> bool:
    """An operator that runs writes all it has to; a partial one may hand on that there is nothing."""
    row = op.row
    if row is None or op.type == "undefined" or "run_once" in op.attrs:
        return False
    return not row.partial or (op.type != "pop_tape" and all(value in certain for value in op.reads()))


def _handed_out(op: Op, certain: set[Value]) -> list[Value]:
    given = [value in certain for value in operands(op)]
    if the_row(op).is_grad:
        handed = len(op.inputs.get("X", ()))
        given[handed:] = [False] * (len(given) - handed)
    carried = len(outcomes(op)) if op.type == "while" else 0
    while True:
        inside: set[Value] = set()
        for graph in op.graphs.values():
            saved = [kept in certain for kept in graph.saved.values()]
            _fill(graph, [*given, *saved], inside)
        there = [all(graph.results[k] in inside for graph in op.graphs.values()) for k in range(len(outcomes(op)))]
        still = [is_given and there[i] if i < carried else is_given for i, is_given in enumerate(given)]
        if still == given:
            break
        given = still
    certain.update(inside)
    return [] if the_row(op).is_grad else [out for out, is_there in zip(outcomes(op), there, strict=True) if is_there]
