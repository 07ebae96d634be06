"""Tangents through a graph and the graphs nested in it.

while(h, i) { h = f(h) }        ⇒    while(h, i, h@TANGENT) { h = f(h); h@TANGENT = f'(h) h@TANGENT }
if_else(c, x) -> y              ⇒    if_else(c, x, x@TANGENT) -> y, y@TANGENT
"""

from __future__ import annotations

from graphad.edit import insert_carried, insert_results
from graphad.graph import Op, Value
from graphad.graph.regions import carried_count, is_forward_loop, operands, outcomes, the_row
from graphad.passes.backward.find_op_path import OpPath
from graphad.passes.differentiation.rules import through_operator
from graphad.passes.differentiation.tangents import Tangents


def follow(made: Tangents, path: OpPath) -> None:
    """Add the tangents of the results of the operators on a path."""
    for op in path.ops:
        if not op.graphs:
            through_operator(made, op, path)
        elif is_forward_loop(op):
            _through_loop(made, op, path)
        else:
            _through_branches(made, op, path)


def _through_loop(made: Tangents, op: Op, path: OpPath) -> None:
    """The loop carries tangents before its condition, and captures those of loop-invariant operands."""
    (body,) = op.graphs.values()
    moving, first = path.carried[op], carried_count(op)
    given, outs = operands(op), outcomes(op)
    starts = [made.of(given[k], op) for k in moving]
    carried = [made.given(body.inputs[k]) for k in moving]
    tangents = _pass_in(made, op, path, first)
    follow(made, path.inner[body])
    ends = [made.of(body.results[k], None) for k in moving]
    found = [made.new(outs[k]) for k in moving]
    slot = the_row(op).operands
    op.graph.set_inputs(op, slot, [*given, *tangents])
    insert_carried(op, starts, carried, ends, found)
    for k, tangent in zip(moving, found, strict=True):
        made.keep(outs[k], tangent)


def _through_branches(made: Tangents, op: Op, path: OpPath) -> None:
    """Every branch takes the same tangents, and returns those of the same results."""
    row, around, given, outs = the_row(op), op.graph, operands(op), outcomes(op)
    moving, tangents = path.carried[op], _pass_in(made, op, path, 0)
    ends: list[list[Value]] = []
    for graph in op.graphs.values():
        follow(made, path.inner[graph])
        ends.append([made.of(graph.results[k], None) for k in moving])
    found = [made.new(outs[k]) for k in moving]
    around.set_inputs(op, row.operands, [*given, *tangents])
    insert_results(op, found, ends)
    for k, tangent in zip(moving, found, strict=True):
        made.keep(outs[k], tangent)


def _pass_in(made: Tangents, op: Op, path: OpPath, first: int) -> list[Value]:
    """Give nested graphs inputs for the tangents of operands, from one on, that they read; return the tangents, each once."""
    first_with: dict[Value, int] = {}
    for i, value in list(enumerate(operands(op)))[first:]:
        tangent = made.tangent.get(value)
        if tangent is None or not any(graph.inputs[i] in path.inner[graph].active for graph in op.graphs.values()):
            continue
        again = first_with.setdefault(tangent, i)
        for graph in op.graphs.values():
            if again == i:
                graph.inputs = [*graph.inputs, made.given(graph.inputs[i])]
            else:
                made.tangent[graph.inputs[i]] = made.tangent[graph.inputs[again]]
    return list(first_with)
