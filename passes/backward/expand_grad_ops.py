"""Expand the grad operators on the path into the operators that they are defined by.

    y, y@GRAD ─▶ tanh_grad ─▶ x@GRAD    ⇒    y@GRAD * (1 - y * y) ─▶ x@GRAD

    while { h = f(h) } ... while_grad { f_grad }    ⇒    while { push(tape, h); h = f(h) } ... while { pop(tape) ─▶ f_grad }

What is left on the path are operators with gradient rules of their own, so gradients can be differentiated again,
to any order. Grad operators elsewhere stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphad.ir import Builder, Graph, GraphSymbol, Op, Value
from graphad.ir.edits import insert_carried, insert_results
from graphad.ir.regions import definition_of, is_grad_op, is_loop, operands, results_of
from graphad.ir.residuals import as_read_in, drop_unread_residuals, forward_op, is_read, residual_inputs
from graphad.ops import GRAD, GradOpDef
from graphad.passes.backward.find_op_path import OpPath
from graphad.program import BACKWARD, EMPTY
from graphad.rewriting import OnTrial, Pass
from graphad.types import STEP_SCOPES

# -- gradients of loops and branches ---------------------------------------------------------------
# Gradients of operators with nested graphs as ordinary loops and branches, which have gradients themselves.
#
# The residuals of the forward operator become a tape: each run of its graph pushes them, each run of the gradient's graph pops
# them. Push and pop are each other's gradient, so this can be repeated to any order.
#
#     while(h) -> (h', S) { ... }                        while(h, tape) -> (h', T) { ...; tape' = push(tape, values) }
#     while_grad(S, dh') -> (dh, dw) { ... values }  ⇒   while(T, dh', 0) -> (_, dh, dw) { rest, values = pop(tape); ...; dw' = dw + term }


def expand_region(op: Op) -> None:
    """Put an ordinary loop or branch in the place of the gradient of one; the values it writes stay the same."""
    forward = forward_op(op)
    tape = as_read_in(op.graph, _tape_of_loop(forward, op) if is_loop(op) else _tape_of_branches(forward, op))
    if is_loop(op):
        _loop(op, tape)
    else:
        _branches(op, tape)
    for graph in forward.graphs.values():
        drop_unread_residuals(graph)


def _reads(inner: Graph) -> dict[Value, Value]:
    """The inputs of a gradient's graph that stand for residuals and are read, and the residuals: not those of expanded gradients in it."""
    return {value: residual for value, residual in residual_inputs(inner).items() if is_read(value)}


# -- the forward operator writes a tape ----------------------------------------------------------


def _tape_of_loop(forward: Op, op: Op) -> Value:
    """Make a loop carry a tape, and push what the gradient reads of an iteration; return the tape at the end."""
    around, (body,), (inner,) = forward.graph, forward.graphs.values(), op.graphs.values()
    start = _tape(around, forward)
    end = _next(start)
    around.add_op("create_tape", {}, {"Out": [start]}, before=forward, role=BACKWARD)
    start_value = _like(body, start, start.name, is_input=True)
    next_tape = _next(start_value)
    _push(body, start_value, next_tape, inner)
    # The tape as the loop's operand, as block argument, as result of the body, and as the loop's result.
    insert_carried(forward, [start], [start_value], [next_tape], [end])
    return end


def _tape_of_branches(forward: Op, op: Op) -> Value:
    """Make each branch write a tape with its residuals; return the tape."""
    ends: list[list[Value]] = []
    end = _tape(forward.graph, forward)
    for graph, inner in zip(forward.graphs.values(), op.graphs.values(), strict=True):
        start = _tape(graph, forward)
        next_tape = _next(start)
        graph.add_op("create_tape", {}, {"Out": [start]}, role=BACKWARD)
        _push(graph, start, next_tape, inner)
        ends.append([next_tape])
    insert_results(forward, [end], ends)
    return end


def _push(graph: Graph, tape: Value, pushed: Value, inner: Graph) -> None:
    # The number of entries is the trip count, so each run pushes something.
    # In the order of the inputs of the gradient's graph: ``_pop`` writes those in the same order.
    values = list(_reads(inner).values()) or [_mark(graph, tape)]
    graph.add_op("push_tape", {"Scopes": [tape], "X": values}, {"Out": [pushed]}, {"count": len(values)}, role=BACKWARD)


def _mark(graph: Graph, tape: Value) -> Value:
    """Something to push where a gradient reads nothing of a run: it only counts."""
    mark = graph.add_value(f"{tape.name}@MARK", (), "float32")
    graph.add_op("stand_in", {}, {"Out": [mark]}, {"shape": [], "dtype": "float32"}, role=BACKWARD)
    return mark


def _tape(graph: Graph, forward: Op) -> Value:
    names = [value.name for value in results_of(forward)] or [forward.type]
    tape = graph.add_value(f"{names[0]}@TAPE", (), "float32")
    tape.kind = STEP_SCOPES
    return tape


# -- the gradient reads it -----------------------------------------------------------------------


def _pop(graph: Graph, tape: Value) -> Value:
    """Pop the residuals that the graph reads from the tape; return the rest of the tape."""
    residuals, rest = residual_inputs(graph), _next(tape)
    # What is popped takes the place of the inputs for residuals: the same values, now with a writer.
    values = list(_reads(graph)) or [graph.add_value(f"{tape.name}@MARK", (), "float32")]
    graph.inputs = [value for value in graph.inputs if value not in residuals]
    for value in residuals:
        value.given = False
        if value not in values:
            graph.drop(value)
    outputs = {"Out": [rest], "X": values}
    graph.add_op("pop_tape", {"Scopes": [tape]}, outputs, {"count": len(values)}, before=graph.ops.first, role=BACKWARD)
    return rest


def _loop(op: Op, tape: Value) -> None:
    """A loop that pops the residuals of each iteration, the last one first, and sums the gradients of operands."""
    graph, (inner,) = op.graph, op.graphs.values()
    carried_total, inputs = len(op.inputs[f"Out{GRAD}"]), list(op.inputs.get("X", ()))
    count = len(inputs)
    sum_operands = inputs[: len(results_of(op)) - carried_total]
    outs = _not_empty(graph, results_of(op), inner.results)
    condition = _condition(graph, tape, op)
    totals = [_zeros(graph, value, op) for value in sum_operands]
    # It is no longer the graph of the program's block: ``schedule`` gives it a block of its own.
    inner.block = None
    cotangents, constants = inner.inputs[count : count + carried_total], inner.inputs[:count]
    top, holds = _like(inner, tape, tape.name, is_input=True), _like(inner, condition, condition.name, is_input=True)
    rest = _pop(inner, top)
    sums = [_like(inner, value, f"{value.name}@SUM", is_input=True) for value in sum_operands]
    terms = [_added(inner, a, b) for a, b in zip(sums, inner.results[carried_total:], strict=True)]
    more = _next(holds)
    inner.add_op("tape_has_more", {"Scopes": [rest]}, {"Out": [more]}, role=op.role)
    # Carried, in this order: the tape, the cotangents, the running sums, the condition. Loop-invariant operands follow. The tape is empty
    # when all iterations of the forward loop were popped, so it stands in for the trip count.
    inner.inputs = [top, *cotangents, *sums, holds, *constants]
    inner.results = [rest, *inner.results[:carried_total], *terms, more]
    reads = [tape, *op.inputs[f"Out{GRAD}"], *totals, condition, *inputs]
    writes = [_like(graph, tape, tape.name) if tape.given else _next(tape), *outs, _next(condition)]
    _replace(op, definition_of(op).ordinary, {"X": reads, "Condition": [condition]}, {"Out": writes}, {"sub_block": inner})


def _branches(op: Op, tape: Value) -> None:
    """A branch that pops what the one taken pushed."""
    graph, definition = op.graph, definition_of(op)
    outs = _not_empty(graph, results_of(op), next(iter(op.graphs.values())).results)
    for inner in op.graphs.values():
        inner.block = None
        top = _like(inner, tape, tape.name, is_input=True)
        _pop(inner, top)
        inner.inputs = [*(value for value in inner.inputs if value is not top), top]
    inputs: dict[str, Sequence[Value]] = {definition.condition: op.inputs[definition.condition]} if definition.condition else {}
    inputs["X"] = [*operands(op), tape]
    _replace(op, definition.ordinary, inputs, {"Out": outs}, dict(op.graphs))


def _replace(
    op: Op, op_type: str, inputs: dict[str, Sequence[Value]], outputs: dict[str, Sequence[Value]], graphs: dict[str, Graph]
) -> None:
    graph, before = op.graph, op.next
    op.graphs = {}
    attrs = {name: value for name, value in op.attrs.items() if name == "is_scalar_condition"}
    new_op = graph.add_op(op_type, inputs, outputs, attrs, before=before, role=op.role, graphs=graphs)
    new_op.forward, new_op.source = op.forward, op.source
    for slot in list(op.outputs):
        graph.set_outputs(op, slot, ())
    graph.remove_op(op)


def _not_empty(graph: Graph, values: Sequence[Value], likes: Sequence[Value]) -> list[Value]:
    """The values, with a new one in the place of each that is not wanted (``EMPTY``)."""
    return [_like(graph, like, f"{like.name}@UNUSED") if value.name == EMPTY else value for value, like in zip(values, likes, strict=True)]


def _condition(graph: Graph, tape: Value, op: Op) -> Value:
    more = graph.add_value(f"{tape.name}@MORE", (1,), "bool")
    graph.add_op("tape_has_more", {"Scopes": [tape]}, {"Out": [more]}, before=op, role=op.role)
    return more


def _zeros(graph: Graph, value: Value, op: Op) -> Value:
    zero = _like(graph, value, f"{value.name}@SUM")
    graph.add_op("fill_zeros_like", {"X": [value]}, {"Out": [zero]}, before=op, role=op.role)
    return zero


def _added(graph: Graph, a: Value, b: Value) -> Value:
    total = _next(a)
    graph.add_op("sum", {"X": [a, b]}, {"Out": [total]}, role=BACKWARD)
    return total


def _like(graph: Graph, value: Value, name: str, is_input: bool = False) -> Value:
    """A new value of the same type, under a name that may get a number."""
    fresh = graph.add_value(name, value.shape, value.dtype)
    fresh.kind, fresh.given = value.kind, is_input
    return fresh


def _next(value: Value) -> Value:
    """A new value of the same name and type: what the name stands for from then on."""
    version = value.graph.add_version(value.name, value.shape, value.dtype)
    version.kind = value.kind
    return version


# -- the pass --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExpandGradOps(Pass):
    """Replace grad operators on the path by their definitions in terms of other operators."""

    name = "expand-grad-ops"
    tolerance = 1e-9  # a gradient's own kernel may add up in another order
    on_trial = OnTrial(programs=("with-gradients", "any"), rounds_gradients=True)
    requires = (OpPath,)

    def apply(self, graph: Graph) -> bool:
        path: OpPath = graph.analyses[OpPath]
        return any([_expand_one(op) for op in path.ops])


def expand_all(graph: Graph) -> bool:
    """Expand every gradient in a graph, on the path or not; whether there was any."""
    return any([_expand_one(op) for op in list(graph.ops)])


def _expand_one(op: Op) -> bool:
    """Expand an operator, if it is a gradient, and everything in its nested graphs."""
    has_changed = any([expand_all(graph) for graph in op.graphs.values()])
    if not is_grad_op(op):
        return has_changed
    if op.graphs:
        expand_region(op)
    else:
        expand(op.graph, op)
    return True


def expand(graph: Graph, op: Op) -> None:
    """Put the operators that a grad operator means in its place; the values it writes stay the same."""
    definition = op.definition
    assert isinstance(definition, GradOpDef)
    outputs = {slot: values for slot, values in op.outputs.items() if any(v.name != EMPTY for v in values)}
    stem = next(v.name for values in outputs.values() for v in values if v.name != EMPTY)
    builder = Builder(graph, stem, before=op, role=op.role, forward=op.forward)
    inputs = {slot: [builder.symbol(v) for v in values] for slot, values in op.inputs.items()}
    for slot, values in outputs.items():
        results = definition.meaning(inputs, op.attrs, [slot])[slot]
        for old, new in zip(values, results, strict=True):
            if old.name != EMPTY:
                _take_over(graph, builder, op, old, new)
        graph.set_outputs(op, slot, ())
    for value in builder.made:
        if value.type is None:  # popped from a tape, and unused: it may be anything that a tape holds
            graph.set_type(value, (), "float32")
            value.kind = STEP_SCOPES
    graph.remove_op(op)


def _take_over(graph: Graph, builder: Builder, op: Op, old: Value, new: GraphSymbol) -> None:
    """Make what computes ``new`` write ``old`` instead; a value that was there before, or is taken already, is copied."""
    value = new.value
    if value not in builder.made:
        graph.add_op("assign", {"X": [value]}, {"Out": [old]}, before=op, role=op.role, forward=op.forward)
        return
    builder.made.remove(value)
    writer = value.writers[0]
    graph.replace(value, old)
    graph.replace_output(writer, value, old)
