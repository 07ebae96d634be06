"""Replace residuals of which a gradient reads only the shape by placeholders of that shape, which take no memory.

saved h ─▶ elementwise_add_grad          stand_in{shape} ─▶ elementwise_add_grad          (the shape is known)
                                  ⇒      h ─▶ stand_in, saved ─▶ elementwise_add_grad     (it is not)
"""

from __future__ import annotations

from graphad.graph import Graph, Op, Value
from graphad.graph.residuals import add_residual, drop_unread_residuals, forward_op, residual_inputs
from graphad.ops import GRAD, GradOpDef
from graphad.program import BACKWARD, EMPTY
from graphad.types import TENSOR


def keep_shapes_only(op: Op) -> bool:
    """Do so for the graphs nested in a gradient operator; return whether anything changed."""
    changed = False
    for inner in op.graphs.values():
        for value, kept in residual_inputs(inner).items():
            if value.kind != TENSOR or not _read_for_shape(value):
                continue
            changed = True
            if value.shape is None or -1 in value.shape:
                _keep_shape(inner, value, kept)
            else:
                _pass_in_shape(op, inner, value)
    for forward in forward_op(op).graphs.values() if changed else ():
        drop_unread_residuals(forward)
    return changed


def _read_for_shape(value: Value) -> bool:
    if value in value.graph.results or not value.readers:
        return False
    return all(slot in _shapes(op) for op in value.readers for slot, values in op.inputs.items() if value in values)


def _shapes(op: Op) -> set[str]:
    """The slots of which an operator reads the shape alone, for the gradients that it gives."""
    row = op.row
    if not isinstance(row, GradOpDef) or row.forward is None or row.forward.grads is None:
        return {"X"} if op.type == "fill_zeros_like" else set()
    wanted = [slot.removesuffix(GRAD) for slot, values in op.outputs.items() if any(v.name != EMPTY for v in values)]
    rules = {slot: row.forward.grads[slot].reads for slot in wanted}
    return {s for s in op.inputs if all(s not in reads or row.forward.reads_shape(s, slot) for slot, reads in rules.items())}


def _keep_shape(inner: Graph, value: Value, kept: Value) -> None:
    """Keep a placeholder, made in the forward graph, in the place of a value whose shape is known at run time only."""
    forward = kept.graph
    made = next((op.output("Out") for op in kept.readers if op.type == "stand_in"), None)
    if made is None:
        made = forward.add_value(f"{kept.name}@SHAPE", kept.shape, kept.dtype)
        forward.add_op("stand_in", {"X": [kept]}, {"Out": [made]}, role=BACKWARD, forward=kept.writer)
    inner.replace(value, add_residual(forward, made)[inner])


def _pass_in_shape(op: Op, inner: Graph, value: Value) -> None:
    """Make a placeholder of a known shape once, outside of the gradient operator, and pass it in."""
    graph, given = op.graph, op.inputs.get("X", ())
    found = next((v for v in given if v.writer is not None and v.writer.type == "stand_in" and v.type == value.type), None)
    if found is not None:
        return inner.replace(value, inner.inputs[given.index(found)])
    made = graph.add_value(f"{value.name}@SHAPE", value.shape, value.dtype)
    attrs = {"shape": list(value.shape or ()), "dtype": value.dtype}
    graph.add_op("stand_in", {}, {"Out": [made]}, attrs, before=op, role=op.role, forward=op.forward)
    for each in op.graphs.values():
        own = each.add_input(each.values.fresh(value.name), value.shape, value.dtype)
        each.inputs.pop()
        if each is inner:  # the operand keeps the name; the new input, which is unread, takes its place among the residuals
            each.inputs[each.inputs.index(value)] = own
        each.inputs.insert(len(given), value if each is inner else own)
    graph.set_inputs(op, "X", [*given, made])
