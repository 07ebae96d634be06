"""What every graph keeps between passes: small named rules, each a generator of complaints.

``verify(graph)`` raises on the first complaint. A rule about a property (``single_writer``, ``typed``)
holds only for a graph that claims it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from graphad.errors import InvalidGraph
from graphad.graph.graph import SINGLE_WRITER, TYPED, Graph, print_op
from graphad.graph.nodes import Node, Op, Slots, Value
from graphad.program import EMPTY, located

Complaint = tuple[Node, str]
Rule = Callable[[Graph], Iterator[Complaint]]


def in_graph(graph: Graph) -> Iterator[Complaint]:
    """Every value an operator touches is in the same graph as the operator."""
    for op in graph.ops:
        for values in (*op.inputs.values(), *op.outputs.values()):
            for value in values:
                if value.graph is not graph:
                    yield op, f"it touches {value.name}, which is not in the graph"


def linked(graph: Graph) -> Iterator[Complaint]:
    """Operators and values agree on who reads and writes what."""
    reads, writes = 0, 0
    for op in graph.ops:
        for values in op.inputs.values():
            for value in values:
                if op not in value.readers:
                    yield op, f"it reads {value!r}, which does not know it as a reader"
        reads += len({v for values in op.inputs.values() for v in values})
        writes += sum(map(len, op.outputs.values()))
        for values in op.outputs.values():
            for value in values:
                if op not in value.writers:
                    yield op, f"it writes {value!r}, which does not know it as a writer"
    for value in graph.values if reads != _degree(graph)[0] or writes != _degree(graph)[1] else ():
        yield from _stale(value)


def _degree(graph: Graph) -> tuple[int, int]:
    return sum(len(v.readers) for v in graph.values), sum(len(v.writers) for v in graph.values)


def _stale(value: Value) -> Iterator[Complaint]:
    for op in (*value.readers, *value.writers):
        if value not in (*op.reads(), *op.writes()):
            yield value, f"it is linked to {op!r}, which does not touch it"


def written(graph: Graph) -> Iterator[Complaint]:
    """A value that is read has a writer, or is given to the graph from outside."""
    given = set(graph.inputs)
    for value in graph.values:
        if value.readers and not value.writers and value not in given and _complete(graph):
            yield value, f"{next(iter(value.readers))!r} reads it, but nothing writes it"
        if value.writers and value in given:
            yield value, "it is given from outside and written inside"


def _complete(graph: Graph) -> bool:
    return SINGLE_WRITER in graph.properties


def one_writer(graph: Graph) -> Iterator[Complaint]:
    """A value has at most one writer (a graph that claims ``single_writer``)."""
    if SINGLE_WRITER not in graph.properties:
        return
    for value in graph.values:
        if len(value.writers) > 1:
            yield value, f"it is written {len(value.writers)} times: by " + " and by ".join(map(repr, value.writers))


def acyclic(graph: Graph) -> Iterator[Complaint]:
    """No operator waits for itself."""
    try:
        graph.ordered_ops()
    except InvalidGraph as error:
        yield next(iter(graph.ops)), str(error)


def slots_filled(graph: Graph) -> Iterator[Complaint]:
    """A registered operator has the slots of its row, and one value in each that takes one."""
    for op in graph.ops:
        row = op.row
        if row is None:
            continue
        if len(op.inputs) > len(row.inputs) or not op.inputs.keys() <= row.inputs.keys():
            yield op, f"it has input slots {[*op.inputs]}; its row has {[*row.inputs]}"
        if not op.outputs.keys() <= row.outputs.keys():
            yield op, f"it has output slots {[*op.outputs]}; its row has {[*row.outputs]}"
        for slots, given in ((row.inputs, op.inputs), (row.outputs, op.outputs)):
            for slot in slots.values():
                count = len(given.get(slot.name, ()))
                if count != 1 and ((count > 1 and not slot.variadic) or (count == 0 and not slot.optional)):
                    yield op, f"slot {slot.name} holds {count} values"


def typed(graph: Graph) -> Iterator[Complaint]:
    """A value a pass made has a shape and a dtype (a graph that claims ``typed``)."""
    if TYPED not in graph.properties:
        return
    for value in graph.values:
        if value.shape is None and value.var is None and value.name != EMPTY:
            yield value, "it has no type"


def gradients_fit(graph: Graph) -> Iterator[Complaint]:
    """A gradient has the shape and dtype of what it is the gradient of."""
    for value in graph.values:
        of = value.grad_of
        if of is None or of.shape is None or value.shape is None or value.shape is of.shape:
            continue
        if len(of.shape) != len(value.shape) or any(a != b and -1 not in (a, b) for a, b in zip(of.shape, value.shape, strict=True)):
            yield value, f"it is {value.type}, but what it is the gradient of, {of!r}, is {of.type}"


RULES: tuple[Rule, ...] = (in_graph, linked, written, one_writer, acyclic, slots_filled, typed, gradients_fit)


def verify(graph: Graph) -> None:
    """Hold a graph against every rule.

    Raises:
        InvalidGraph: the message names the rule, the node, the operators around it and the user's line.
    """
    for rule in RULES:
        for node, complaint in rule(graph):
            raise InvalidGraph(_message(rule, node, complaint))


def _message(rule: Rule, node: Node, complaint: str) -> str:
    what = f"operator {node.type}" if isinstance(node, Op) else f"value {node!r}"
    near = [node] if isinstance(node, Op) else [*node.writers, *node.readers]
    shown = "\n".join(f"  {print_op(op)}" + (f"    made by {op.made_by}" if op.made_by else "") for op in near[:6])
    source = next((op.source for op in near if op.source is not None), None)
    return located(f"{rule.__name__}: {what}: {complaint}\n{shown}", source)


__all__ = ["RULES", "Slots", "verify"]
