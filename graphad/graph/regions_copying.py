"""Copies of operators from one graph to another: out of a nested graph, or into one.

net { a = tanh(x); b = a * a } -> b     ⇒     a = tanh(x); b = a * a     in the graph around, x and b being values there
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphad.graph.clone import Twins, clone_regions
from graphad.graph.graph import Graph
from graphad.graph.nodes import Op, Value
from graphad.program import EMPTY, Variable


def copy_into(
    nested: Graph,
    around: Graph,
    given: Sequence[Value],
    before: Op | None = None,
    onto: Mapping[Value, Value] | None = None,
    twins: Twins | None = None,
) -> Twins:
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
    twins = Twins() if twins is None else twins
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


def copy_op(op: Op, around: Graph, twins: Twins) -> Op:
    """A copy of an operator over the twins of its values, not yet linked into the graph ``around``."""
    copied = Op(around, op.type, twins.slots(op.inputs), twins.slots(op.outputs), op.attrs)
    copied.role, copied.made_by, copied.source = op.role, op.made_by, op.source
    copied.origin, copied.stream = op.origin, op.stream
    copied.forward = None if op.forward is None else twins.ops.get(op.forward, op.forward)
    copied.graphs = clone_regions(op.graphs, around, twins) if op.graphs else op.graphs
    twins.ops[op] = copied
    return copied


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


def input_like(graph: Graph, like: Value) -> Value:
    """An input for a value of the graph around, not yet among the graph's inputs."""
    name = like.name if not graph.values.taken(like.name) else graph.values.numbered(like.name, "{}@READ@{}")
    made = graph.add_input(name, like.shape, like.dtype, like.var if like.var is not None and like.var.name == name else None)
    made.kind = like.kind
    return graph.inputs.pop()


def _var_named(value: Value, name: str) -> Variable | None:
    """The variable of a value for one of another name: what counts is whether gradients stop there."""
    if value.var is None or value.var.name == name:
        return value.var
    return Variable.trusted(value.var.block, name, value.shape, value.dtype, True, value.kind) if value.stop_gradient else None
