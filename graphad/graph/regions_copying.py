"""Copies of operators from one graph to another: out of a nested graph, or into one.

net { a = tanh(x); b = a * a } -> b     ⇒     a = tanh(x); b = a * a     in the graph around, x and b being values there
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphad.errors import InvalidGraph
from graphad.graph.clone import ValueMap, clone_regions
from graphad.graph.graph import Graph
from graphad.graph.nodes import Op, Value
from graphad.graph.provenance import note
from graphad.graph.residuals import gradient_ops, residual_inputs
from graphad.program import EMPTY, Variable


def copy_into(
    nested: Graph,
    around: Graph,
    given: Sequence[Value],
    before: Op | None = None,
    onto: Mapping[Value, Value] | None = None,
    twins: ValueMap | None = None,
) -> ValueMap:
    """Copy the operators of a nested graph into another graph, before one of its operators, or last.

    Args:
        nested: the graph to copy; it is not changed.
        around: the graph to copy to.
        given: the values there that its inputs are.
        before: where the copies go.
        onto: values of the nested graph -> those of ``around`` that are to be written in their place.
        twins: a value map, which may hold earlier copies, such as those of the forward graph; the new copies are added.

    Returns:
        The twin of each value, operator and graph.
    """
    twins = ValueMap() if twins is None else twins
    twins.graphs[nested] = around
    twins.values.update(zip(nested.inputs, given, strict=True))
    twins.values.update(onto or {})
    made = [value for value in nested.values if value not in twins.values]
    for value in made:
        twins.values[value] = fresh_like(around, value)
    for op in nested.ordered_ops():
        around.link(copy_op(op, around, twins), before)
    for value in made:
        if value.grad_of is not None:
            twins.values[value].grad_of = twins.values.get(value.grad_of, value.grad_of)
    return twins


def copy_op(op: Op, around: Graph, twins: ValueMap) -> Op:
    """A copy of an operator over the twins of its values, not yet linked into the graph ``around``."""
    copied = Op(around, op.type, twins.slots(op.inputs), twins.slots(op.outputs), op.attrs)
    copied.role, copied.made_by, copied.source = op.role, op.made_by, op.source
    copied.origin, copied.stream = op.origin, op.stream
    copied.forward = None if op.forward is None else twins.ops.get(op.forward, op.forward)
    copied.graphs = clone_regions(op.graphs, around, twins) if op.graphs else op.graphs
    twins.ops[op] = copied
    return copied


def clone_ops(ops: Sequence[Op], around: Graph, values: ValueMap | None = None, before: Op | None = None) -> ValueMap:
    """Copy operators, with the graphs nested in them, over other values or the same.

    Args:
        ops: operators in topological order.
        around: the graph to copy to.
        values: what the copies read in the place of what the operators read. A value that is not in it, and that none of the operators
            writes, is read itself. The copies are added.
        before: where the copies go; last, if it is not given.

    Returns:
        The copy of each value that is written, of each operator, and of each nested graph. A random operator's copy draws other numbers.

    Raises:
        InvalidGraph: a value that is read is neither in the map nor in the graph ``around``; an operator is a gradient of one with nested
            graphs, or has one; it runs once per scope.
    """
    found = ValueMap() if values is None else values
    for op in ops:
        _check_copied(op)
        for value in op.reads():
            if value not in found.values and value.graph is not around:
                raise InvalidGraph(f"{op!r} cannot be copied to {around!r}: it reads {value.name}, which has no value there")
            found.values.setdefault(value, value)
        found.values.update((value, fresh_like(around, value)) for value in op.writes())
        copied = copy_op(op, around, found)
        _draw_anew(copied)
        around.link(copied, before)
    for op in ops:
        note([found.ops[op]])
    return found


def _check_copied(op: Op) -> None:
    if gradient_ops(op) or any(residual_inputs(graph) for graph in op.graphs.values()):
        raise InvalidGraph(f"{op!r} cannot be copied: it has a gradient, or is one, and the two belong together")
    if "run_once" in op.attrs or any("run_once" in inner.attrs for g in op.graphs.values() for each in g.tree() for inner in each.ops):
        raise InvalidGraph(f"{op!r} cannot be copied: it, or an operator in it, runs once per scope, the copy would run again")


def _draw_anew(op: Op) -> None:
    op.stream = None
    for graph in op.graphs.values():
        for each in graph.tree():
            for inner in each.ops:
                inner.stream = None


def fresh_like(graph: Graph, value: Value) -> Value:
    """A new value like one of another graph, under its name or, if that is taken, one with a number."""
    name = name_in(graph, value)
    made = graph.add_version(name, value.shape, value.dtype, _var_named(value, name))
    made.kind = value.kind
    return made


def name_in(graph: Graph, value: Value) -> str:
    """The name that a value of another graph can have in this one: its own, if that is free or declared for it."""
    name, block = value.name, graph.block
    if name == EMPTY or (
        value.var is not None and name not in graph.values.by_name and block is not None and block.vars.get(name) is value.var
    ):
        return name
    return graph.values.fresh(name)


def _var_named(value: Value, name: str) -> Variable | None:
    """The variable of a value for one of another name: what counts is whether gradients stop there."""
    if value.var is None or value.var.name == name:
        return value.var
    return Variable.trusted(value.var.block, name, value.shape, value.dtype, True, value.kind) if value.stop_gradient else None
