"""The invariants of graphs between passes: small named rules, each a generator of complaints.

``verify(graph)`` raises on the first complaint. A rule about a property (``single_writer``, ``typed``)
holds only for a graph that claims it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import networkx as nx

from graphad.errors import GraphadError, InvalidGraph
from graphad.ir.graph import SINGLE_WRITER, TYPED, Graph
from graphad.ir.nodes import Node, Op, Slots, Value
from graphad.ir.printer import print_op
from graphad.ir.regions import definition_of, operands, results_of
from graphad.ir.residuals import residual_inputs
from graphad.ops import REGISTRY, ControlDef, LoopDef, OpDef, Slot
from graphad.program import EMPTY, located
from graphad.types import TENSOR, Extent, TensorType, has_names

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
    edges = 0
    # Only between two passes of the backward has a value several writers, perhaps thousands: a set for those.
    writer_sets = {value: set(value.writers) for value in graph.values if len(value.writers) > 1}
    for op in graph.ops:
        operands_read = [value for values in op.inputs.values() for value in values]
        for value in operands_read:
            if op not in value.readers:
                yield op, f"it reads {value!r}, which does not know it as a reader"
        edges += len(operands_read) if len(operands_read) < 2 else len(set(operands_read))
        for values in op.outputs.values():
            edges += len(values)
            for value in values:
                if op not in (writer_sets.get(value, value.writers) if writer_sets else value.writers):
                    yield op, f"it writes {value!r}, which does not know it as a writer"
    # Each operator is known to what it reads and writes. Equal sums then rule out that a value knows an operator which is not
    # there: only where they differ are all values visited.
    if edges != sum(len(v.readers) + len(v.writers) for v in graph.values):
        for value in graph.values:
            yield from _stale(value)


def _stale(value: Value) -> Iterator[Complaint]:
    for op in value.readers:
        if value not in op.reads():
            yield value, f"it is linked to {op!r}, which does not read it"
    for op in value.writers:
        if list(op.writes()).count(value) != value.writers.count(op):
            yield value, f"it is linked to {op!r}, which does not write it as often"


def written(graph: Graph) -> Iterator[Complaint]:
    """A value that is read has a writer, or is given to the graph from outside."""
    for value in graph.inputs:
        if value.writers:
            yield value, "it is given from outside and written inside"
    if SINGLE_WRITER not in graph.properties:
        return
    for value in graph.values:
        if not value.writers and value.readers and not value.given:
            yield value, f"{next(iter(value.readers))!r} reads it, but nothing writes it"


def one_writer(graph: Graph) -> Iterator[Complaint]:
    """A value has at most one writer (a graph that claims ``single_writer``)."""
    if SINGLE_WRITER not in graph.properties:
        return
    for value in graph.values:
        if len(value.writers) > 1:
            yield value, f"it is written {len(value.writers)} times: by " + " and by ".join(map(repr, value.writers))


def distinct_names(graph: Graph) -> Iterator[Complaint]:
    """An operator writes a name once: of two values neither would be the final one."""
    for op in graph.ops:
        # One result cannot be written twice, and nearly all operators have one.
        if len(op.outputs) == 1 and len(next(iter(op.outputs.values()))) == 1:
            continue
        first: dict[str, Value] = {}
        for value in op.writes():
            if value.name != EMPTY and first.setdefault(value.name, value) is not value:
                yield op, f"it writes {value.name} twice, as {first[value.name]!r} and as {value!r}"


def distinct_streams(graph: Graph) -> Iterator[Complaint]:
    """Every random operator of a whole graph draws from a stream of its own: a copy of one would draw the same numbers."""
    if graph.parent is not None:
        return
    owners: dict[str, Op] = {}
    for op in (op for subgraph in graph.tree() for op in subgraph.ops):
        # Independent draws need streams of their own; see ``random_streams``.
        if op.stream is not None and owners.setdefault(op.stream, op) is not op:
            yield op, f"it draws from the random stream {op.stream!r}, as {owners[op.stream]!r} does"


def acyclic(graph: Graph) -> Iterator[Complaint]:
    """No operator waits for itself."""
    try:
        graph.check_order()
    except InvalidGraph as error:
        yield next(node for edge in nx.find_cycle(graph) for node in edge[:2] if isinstance(node, Op)), str(error)


def slots_filled(graph: Graph) -> Iterator[Complaint]:
    """A registered operator has the slots of its definition, and one value in each that takes one."""
    for op in graph.ops:
        definition = REGISTRY.get(op.type)
        if definition is not None:
            required = definition.required
            if not _is_filled(definition.inputs, op.inputs, required["input"]):
                yield op, _unfilled("input", definition.inputs, op.inputs)
            if not _is_filled(definition.outputs, op.outputs, required["output"]):
                yield op, _unfilled("output", definition.outputs, op.outputs)


def _is_filled(slots: Mapping[str, Slot], values_by_slot: Slots, required: int) -> bool:
    for name, values in values_by_slot.items():
        slot = slots.get(name)
        if slot is None or (len(values) != 1 and not (slot.variadic and values)):
            return False
        if not slot.optional:
            required -= 1
    return required == 0


def _unfilled(side: str, slots: Mapping[str, Slot], values_by_slot: Slots) -> str:
    # The same conditions as in ``_is_filled``, which runs for each operator after each pass and so makes no text.
    for name, values in values_by_slot.items():
        slot = slots.get(name)
        if slot is None:
            return f"it has an {side} slot {name}; its definition has {', '.join(slots) or 'none'}"
        if len(values) != 1 and not (slot.variadic and values):
            return f"{side} slot {name} holds {len(values)} values"
    return f"{side} slot {', '.join(s.name for s in slots.values() if not s.optional and s.name not in values_by_slot)} is empty"


def typed(graph: Graph) -> Iterator[Complaint]:
    """A value a pass made of tensors of known types has a shape and a dtype (a graph that claims ``typed``)."""
    if TYPED not in graph.properties:
        return
    for value in graph.values:
        if value.shape is None and value.var is None and value.name != EMPTY and value.kind == TENSOR and _has_known_operands(value):
            yield value, "it has no type"


def _has_known_operands(value: Value) -> bool:
    """Whether a pass made a value, and of tensors whose types are known: what comes from a tape, say, need not have a type."""
    if not value.writers:
        return True
    writer = value.writers[0]
    return writer.operator is None and all(v.kind == TENSOR and v.shape is not None for v in writer.reads() if v.name != EMPTY)


def gradients_fit(graph: Graph) -> Iterator[Complaint]:
    """A gradient has the shape and dtype of its value."""
    for value in graph.values:
        of = value.grad_of
        if of is None or of.shape is None or value.shape is None or value.shape is of.shape:
            continue
        if len(of.shape) != len(value.shape) or any(a != b and -1 not in (a, b) for a, b in zip(of.shape, value.shape, strict=True)):
            yield value, f"it is {value.type}, but what it is the gradient of, {of!r}, is {of.type}"


def extents_agree(graph: Graph) -> Iterator[Complaint]:
    """An extent has one number wherever its name is: what operators infer and what is declared of their results do not contradict it."""
    if graph.parent is not None:  # a name holds in all graphs of a program: they are looked at together
        return
    if not any(map(_has_named_extents, (value for subgraph in graph.tree() for value in subgraph.values))):
        return
    numbers: dict[str, tuple[int, Value]] = {}
    for op in (op for subgraph in graph.tree() for op in subgraph.ops if any(map(_has_named_extents, (*op.reads(), *op.writes())))):
        for value, result_type in _inferred(op):
            if value.shape is None or len(value.shape) != len(result_type.shape):
                continue
            for extent_declared, extent_inferred in zip(value.shape, result_type.shape, strict=True):
                extent, number = (
                    (extent_declared, extent_inferred) if isinstance(extent_declared, Extent) else (extent_inferred, extent_declared)
                )
                if not isinstance(extent, Extent) or number == -1:
                    continue
                first_number, witness = numbers.setdefault(extent.name, (number, value))
                if first_number != number:
                    yield value, f"its extent {extent} is {number}, but {extent} is {first_number} in {witness!r}, which is {witness.type}"


def _has_named_extents(value: Value) -> bool:
    return value.shape is not None and -1 in value.shape and has_names(value.shape)


def _inferred(op: Op) -> Iterator[tuple[Value, TensorType]]:
    """The results of an operator with the types that its definition infers; nothing where it infers none."""
    definition = op.definition
    operands_known = all(value.type is not None for value in op.reads())
    if not isinstance(definition, OpDef) or isinstance(definition, ControlDef) or not operands_known:
        return
    inputs = {slot: [value.type for value in values if value.type is not None] for slot, values in op.inputs.items()}
    try:
        types = definition.infer_types(inputs, definition.own_attrs(op.attrs))
    except GraphadError:  # it is refused where it is recorded
        return
    for slot, values in op.outputs.items():
        for value, result_type in zip(values, types.get(slot, ()), strict=False):
            if result_type is not None:
                yield value, result_type


def nested(graph: Graph) -> Iterator[Complaint]:
    """The arguments and results of a nested graph match its operator's operands and results; a gradient's graph also takes residuals."""
    for op in graph.controls:
        operand_count, result_count = len(operands(op)), len(results_of(op))
        definition = definition_of(op)
        tests = op.inputs[definition.condition] if isinstance(definition, LoopDef) and not definition.is_grad else ()
        # What a loop carries comes first among its operands, as many as it has results; the condition is the last of these.
        if tests and tests != operands(op)[result_count - 1 : result_count]:
            yield op, f"its condition {tests[0]!r} is not the last value it carries"
        for name, inner in op.graphs.items():
            residuals = residual_inputs(inner)
            if len(inner.inputs) != operand_count + len(residuals):
                yield op, f"{name} takes {len(inner.inputs)} values, but {operand_count} are passed in and {len(residuals)} are residuals"
            if len(inner.results) != result_count:
                yield op, f"{name} returns {len(inner.results)} values, but the operator writes {result_count}"
            for value in (*inner.inputs, *inner.results, *inner.residuals):
                if value.graph is not inner:
                    yield op, f"{name} takes or returns {value.name}, which is not in it"
            if inner.owner is not op or inner.parent is not graph:
                yield op, f"{name} says that it is nested in {inner.owner!r}"
            yield from ((op, f"{name} {complaint}") for complaint in _wrong_residuals(inner, residuals))


def _wrong_residuals(inner: Graph, residuals: Mapping[Value, Value]) -> Iterator[str]:
    """A graph keeps each value once; the input for a residual in the graph of a gradient has its type."""
    for i, value in enumerate(inner.residuals):
        if value in inner.residuals[:i]:
            yield f"keeps {value!r} twice"
    for value, residual in residuals.items():
        if value.type != residual.type or value.kind != residual.kind:
            yield f"takes {value!r}, which is {value.type}, as the residual {residual!r}, which is {residual.type}"


RULES: tuple[Rule, ...] = (
    in_graph,
    linked,
    written,
    one_writer,
    distinct_names,
    distinct_streams,
    acyclic,
    slots_filled,
    nested,
    typed,
    gradients_fit,
    extents_agree,
)
CLAIM_RULES: tuple[Rule, ...] = (written, one_writer, typed)  # what depends on the properties a graph claims
TYPE_RULES: tuple[Rule, ...] = (typed, gradients_fit, extents_agree)  # what depends on the types of its values


def verify(graph: Graph, rules: tuple[Rule, ...] = RULES) -> None:
    """Hold a graph, and those nested in it, against rules, all of them if none are given.

    Raises:
        InvalidGraph: the message names the rule, the node, the operators around it and the user's line.
    """
    for subgraph in graph.tree():
        # Rules are generators, so the first complaint ends the work.
        for rule in rules:
            for node, complaint in rule(subgraph):
                raise InvalidGraph(_message(rule, node, complaint))


def _message(rule: Rule, node: Node, complaint: str) -> str:
    subject = f"operator {node.type}" if isinstance(node, Op) else f"value {node!r}"
    near = [node] if isinstance(node, Op) else [*node.writers, *node.readers]
    context = "\n".join(f"  {print_op(op)}" + (f"    made by {op.made_by}" if op.made_by else "") for op in near[:6])
    source = next((op.source for op in near if op.source), None)
    return located(f"{rule.__name__}: {subject}: {complaint}\n{context}", source)
