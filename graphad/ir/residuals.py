"""Residuals: what each run of a nested graph keeps for gradients. They are results of the forward operator, as those of a scan in JAX.

    while(X=[h, w]) -> (Out=h', StepScopes=s)             { graph (h, w) { t = tanh(h * w) } -> (t), residuals (t, h) }
    while_grad(X=w, StepScopes=s, Out@GRAD=dh') -> (...)  { graph (w, dh', t, h) { ... } -> (dh, dw) }

``Graph.residuals`` are results of a run besides ``Graph.results``. The operator returns those of all runs, stacked, as one value: that in
its slot for residuals (StepScopes, Scope). A gradient operator reads this value, and its graphs have an input for each residual, in
the same order, after the operands and the cotangents. Which gradients a graph has, and what their inputs stand for, follows from
operands and positions; nothing else is stored. A gradient may leave an input unread that another one of the same operator reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from graphad.errors import InvalidGraph
from graphad.ir.clone import input_like
from graphad.ir.nodes import Op, Value
from graphad.ops import REGISTRY, ControlDef

if TYPE_CHECKING:
    from graphad.ir.graph import Graph


# -- from a gradient to its forward operator -----------------------------------------------------


def is_gradient_graph(graph: Graph) -> bool:
    """Whether a graph is nested in the gradient of an operator."""
    return graph.owner is not None and _slot(graph.owner, gradient=True) is not None


def forward_op(op: Op) -> Op:
    """The operator that a gradient with nested graphs is the gradient of: the one that writes the residuals it reads.

    Raises:
        InvalidGraph: it is not in the graph.
    """
    forward = find_forward_op(op)
    if forward is None:
        slot = _slot(op, gradient=True)
        raise InvalidGraph(f"{op!r} is a gradient, but the operator that kept {op.inputs.get(slot or '')} for it is not in the graph")
    return forward


def forward_graph(graph: Graph) -> Graph | None:
    """The graph that a gradient's graph is the backward of; None for any other graph."""
    owner = graph.owner
    forward = None if owner is None else find_forward_op(owner)
    return None if owner is None or forward is None else _counterpart(owner, graph, forward)


def residual_inputs(graph: Graph) -> dict[Value, Value]:
    """For a gradient's graph its last inputs, each with the residual of the forward graph that it receives; empty for any other graph."""
    forward = forward_graph(graph)
    if forward is None or not forward.residuals:
        return {}
    return dict(zip(graph.inputs[-len(forward.residuals) :], forward.residuals, strict=False))


def residual_of(value: Value) -> Value | None:
    """The residual that an input of a gradient's graph stands for, None for any other value."""
    return residual_inputs(value.graph).get(value) if value.given else None


def find_forward_op(op: Op) -> Op | None:
    """As ``forward_op``, but None if it is not in the graph, or the operator is no such gradient."""
    way = [op]  # and the gradients around it, as far as what it reads are residuals of theirs: a loop, since they may be nested deep
    while (residual := _residuals_read(way[-1])) is not None and residual.given and residual.graph.owner is not None:
        way.append(residual.graph.owner)
    forward: Op | None = None
    # From the outermost gradient inwards: its forward operator gives the forward graph, by position, in which the next residual is found.
    for member in reversed(way):
        value = _residuals_read(member)
        if value is not None and value.given:
            value = _stands_for(value, forward)
        forward = None if value is None else value.writer
        if forward is None or _slot(forward, gradient=False) is None:
            return None
    return forward


def _residuals_read(op: Op) -> Value | None:
    """The residuals that a gradient reads, as one value; None of another operator."""
    slot = _slot(op, gradient=True)
    return next(iter(op.inputs.get(slot, ())), None) if slot else None


def _stands_for(value: Value, forward: Op | None) -> Value | None:
    """The residual that an input of a gradient's graph stands for, given the operator that it is the gradient of."""
    graph = value.graph
    around = None if forward is None or graph.owner is None else _counterpart(graph.owner, graph, forward)
    # Residuals are the last inputs, in the order in which the forward graph keeps them: counted from the end, the places agree.
    at = graph.inputs.index(value) - len(graph.inputs)
    return around.residuals[at] if around is not None and -at <= len(around.residuals) else None


def _slot(op: Op, gradient: bool) -> str | None:
    """The slot for residuals of a gradient with nested graphs, or of a forward operator; None if the operator is not one."""
    definition = REGISTRY.get(op.type)
    return definition.scopes if isinstance(definition, ControlDef) and definition.is_grad == gradient else None


def _counterpart(owner: Op, graph: Graph, other: Op) -> Graph | None:
    """The graph of another operator that is in the place of a graph of its owner."""
    place = next((i for i, subgraph in enumerate(owner.graphs.values()) if subgraph is graph), None)
    graphs = list(other.graphs.values())
    return graphs[place] if place is not None and place < len(graphs) else None


# -- from a forward operator to its gradients ----------------------------------------------------


def readings(value: Value) -> Iterator[Value]:
    """A value, and the inputs that stand for it in the graphs of gradients, where it is a residual."""
    yield value
    graph = value.graph
    if value in graph.residuals:
        # Residuals are the last inputs of a gradient's graph, so the place counts from the end.
        at = graph.residuals.index(value) - len(graph.residuals)
        for gradient_graph in gradient_graphs(graph):
            yield from readings(gradient_graph.inputs[at])


def gradient_ops(op: Op) -> list[Op]:
    """The gradients of an operator with nested graphs."""
    slot = _slot(op, gradient=False)
    gradients: dict[Op, None] = {}
    for scopes in op.outputs.get(slot, ()) if slot else ():
        # The scopes may go into another region before a gradient reads them.
        for value in readings(scopes):
            for reader in value.readers:
                at = _slot(reader, gradient=True)
                if at is not None and value in reader.inputs.get(at, ()):
                    gradients[reader] = None
    return list(gradients)


def gradient_graphs(graph: Graph) -> list[Graph]:
    """The graphs of gradients that are backwards of a graph; they take its residuals."""
    owner = graph.owner
    if owner is None:
        return []
    return [counterpart for op in gradient_ops(owner) if (counterpart := _counterpart(owner, graph, op)) is not None]


# -- changing ------------------------------------------------------------------------------------


def add_residual(graph: Graph, value: Value) -> dict[Graph, Value]:
    """Keep a value of every run of a graph; return the input that stands for it in the graph of each gradient.

    Raises:
        InvalidGraph: the value is of another graph.
    """
    if value.graph is not graph:
        raise InvalidGraph(f"{value.name} cannot be a residual: it is not in this graph")
    gradients = gradient_graphs(graph)
    if value not in graph.residuals:
        graph.set_residuals([*graph.residuals, value])
        for gradient_graph in gradients:
            gradient_graph.inputs.append(input_like(gradient_graph, value))
    at = graph.residuals.index(value) - len(graph.residuals)
    return {subgraph: subgraph.inputs[at] for subgraph in gradients}


def as_read_in(graph: Graph, value: Value) -> Value:
    """A forward value as a graph reads it: itself where it is, in the graph of a gradient the input for a residual, which it becomes."""
    return value if value.graph is graph else add_residual(value.graph, value)[graph]


def take_residuals(gradient: Graph, forward: Graph, reads: Mapping[Value, Value]) -> None:
    """Give the graph of a new gradient, not yet linked, its inputs for residuals.

    Args:
        gradient: it has its other inputs already.
        forward: the graph that it is the backward of.
        reads: the values of ``forward`` that it reads, and the inputs made for them. They become residuals if they are none yet.
    """
    residuals = set(forward.residuals)
    for value in [value for value in reads if value not in residuals]:
        add_residual(forward, value)
    gradient.inputs += [reads[value] if value in reads else input_like(gradient, value) for value in forward.residuals]


def replace_residual(graph: Graph, old: Value, new: Value) -> None:
    """Keep ``new`` instead of ``old``. If both are kept, gradients read the input for ``new``."""
    if old not in graph.residuals:
        return
    if new not in graph.residuals:
        graph.set_residuals([new if value is old else value for value in graph.residuals])
        return retype_inputs(new)
    # Residuals are the last inputs of a gradient's graph, so they are counted from its end.
    old_at, new_at = (graph.residuals.index(value) - len(graph.residuals) for value in (old, new))
    for gradient_graph in gradient_graphs(graph):
        gradient_graph.replace(gradient_graph.inputs[old_at], gradient_graph.inputs[new_at])
    drop_residuals(graph, [old])


def retype_inputs(residual: Value) -> None:
    """Give the inputs that stand for a residual in the graphs of gradients its type; the residuals that they are themselves pass it on."""
    at = residual.graph.residuals.index(residual) - len(residual.graph.residuals)
    for gradient_graph in gradient_graphs(residual.graph):
        value = gradient_graph.inputs[at]
        # Extents are compared with their names, which equality of numbers does not see.
        if repr((value.shape, value.dtype)) != repr((residual.shape, residual.dtype)):
            gradient_graph.set_type(value, residual.shape, residual.dtype)


def drop_unread_residuals(graph: Graph) -> bool:
    """Keep no longer what no gradient of the graph reads; return whether there was any."""
    if not graph.residuals:
        return False
    live: set[Value] = set()
    for gradient_graph in gradient_graphs(graph):
        inputs = gradient_graph.inputs[-len(graph.residuals) :]
        live.update(value for value, reader_input in zip(graph.residuals, inputs, strict=True) if is_read(reader_input))
    dead_values = [value for value in graph.residuals if value not in live]
    if dead_values:
        drop_residuals(graph, dead_values)
    return bool(dead_values)


def drop_all_unread_residuals(graph: Graph) -> bool:
    """The same for all graphs nested in one, the outer ones first: what a loop keeps of an inner one is a residual, too."""
    return any([drop_unread_residuals(subgraph) for subgraph in graph.tree() if subgraph.residuals])


def is_read(value: Value) -> bool:
    """Whether a value of a nested graph is read, returned or kept for a gradient."""
    return bool(value.readers) or value in value.graph.results or value in value.graph.residuals


def drop_residuals(graph: Graph, values: Collection[Value]) -> None:
    """Keep some values no longer, whose inputs in the graphs of gradients are unread."""
    places = [at - len(graph.residuals) for at, value in enumerate(graph.residuals) if value in values]
    for gradient_graph in gradient_graphs(graph) if places else ():
        # Listed before the first is dropped, which moves the others.
        for value in [gradient_graph.inputs[at] for at in places]:
            gradient_graph.drop(value)
    graph.set_residuals([value for value in graph.residuals if value not in values])
