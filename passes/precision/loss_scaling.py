"""Scale the gradient that the backward part starts from, and undo that where gradients leave it.

fill_constant{value=1} ─▶ loss@GRAD ─▶ ... ─▶ w@GRAD ─▶ sgd

  ⇒    fill_constant{value=s} ─▶ loss@GRAD ─▶ ... ─▶ w@GRAD@SCALED ─▶ scale{1 / s} ─▶ w@GRAD ─▶ sgd

The gradient of the loss itself leaves the backward part too where it is requested.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphad.errors import Refused
from graphad.graph import Graph, Op, Value
from graphad.ops import GradOpDef
from graphad.program import BACKWARD, EMPTY

GRADIENT = "@GRAD"


def scale_loss(graph: Graph, factor: float) -> bool:
    """Do so in a whole graph; return whether anything changed: a loss that is scaled already stays.

    Raises:
        Refused: there is no backward part that starts from constants of 1.
    """
    starts = [op for op in graph.ops if _is_start(op)]
    if not starts:
        raise Refused("the loss cannot be scaled: the graph has no backward part that starts from the gradient of a loss")
    if any(op.attrs["value"] == factor for op in starts):
        return False
    if any(op.attrs["value"] != 1.0 for op in starts):
        raise Refused(f"the loss cannot be scaled by {factor}: its gradient starts from {starts[0].attrs['value']}, not from 1")
    proportional = _proportional(starts)
    leaving = [v for op in graph.ops if op.role == BACKWARD for v in op.writes() if v in proportional and _leaves(graph, v)]
    if not graph.allows("scale-loss", *starts):
        return False
    for op in starts:
        graph.set_attr(op, "value", factor)
    for value in leaving:
        _unscale(graph, value, 1.0 / factor)
    return True


def _is_start(op: Op) -> bool:
    if op.role != BACKWARD or op.type not in ("fill_constant", "fill_any_like") or not op.attrs.get("value"):
        return False
    return GRADIENT in op.output("Out").name and "@TEMP@" not in op.output("Out").name


def _proportional(starts: Sequence[Op]) -> set[Value]:
    """The values of the backward part that scale with the gradient of the loss: those that are made of it differentiably.

    Their number of elements does not, nor where they are above zero.
    """
    found = {value for op in starts for value in op.writes()}
    pending = list(found)
    while pending:
        value = pending.pop()
        for reader in value.readers:
            if reader.role == BACKWARD and any(value in values and _passes_on(reader, slot) for slot, values in reader.inputs.items()):
                new = [made for made in reader.writes() if made not in found]
                found.update(new)
                pending += new
    return found


def _passes_on(op: Op, slot: str) -> bool:
    """Whether what an operator writes scales with an input."""
    if op.row is None or op.graphs:
        return True
    return slot.endswith(GRADIENT) if isinstance(op.row, GradOpDef) else slot in (op.row.grads or ())


def _leaves(graph: Graph, value: Value) -> bool:
    """Whether a gradient is requested, or read by something outside of the backward part."""
    if GRADIENT not in value.name or value.name == EMPTY:
        return False
    return graph.is_observed(value) or any(op.role != BACKWARD for op in value.readers)


def _unscale(graph: Graph, value: Value, factor: float) -> None:
    """Let the writer of a gradient write a scaled one, from which the gradient is made."""
    writer = value.writers[0]
    scaled = graph.add_value(f"{value.name}@SCALED", value.shape, value.dtype)
    scaled.grad_of = value.grad_of
    for reader in [op for op in value.readers if op.role == BACKWARD]:
        for slot, values in list(reader.inputs.items()):
            if value in values:
                graph.set_inputs(reader, slot, [scaled if v is value else v for v in values])
    graph.add_op("scale", {"X": [scaled]}, {"Out": [value]}, {"scale": factor}, before=writer.next, role=BACKWARD, forward=writer)
    for slot, values in list(writer.outputs.items()):
        if value in values:
            graph.set_outputs(writer, slot, [scaled if v is value else v for v in values])
