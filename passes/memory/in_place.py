"""Let elementwise operators compute into the memory of an input that nothing reads any more.

    a ─▶ exp ─▶ b ─▶ scale ─▶ c          ⇒          a ─▶ exp ─▶ b ─▶ scale{inplace=["Out:X"]} ─▶ c      c in the memory of b

An input qualifies if the operator is its last reader; it has the shape and dtype of the output; it was made by an operator that makes
memory of its own, and no reader returns a view of it or keeps it; and it is not an input, a target or a result of the graph, captured by a
nested graph, or a residual.

Run this pass last: the marks are true of the graph as it is, and any change to it drops them. They are for who reads the program: graphad's
executor plans its memory by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphad.ir import Graph, Op, Value
from graphad.ir.graph import drop_outdated_marks
from graphad.ops.out_kernels import INPLACE, makes_array, takes_required, writes_into
from graphad.rewriting import Pass
from graphad.types import TENSOR

# -- fresh arrays ----------------------------------------------------------------------------------
# Which operators write fresh arrays: their results alias no operand, and they keep no reference to either.


def makes_own(op: Op) -> bool:
    """Whether an operator writes to fresh memory that nothing else aliases, and keeps none of its operands."""
    definition = op.definition
    if definition is None or op.graphs:
        return False
    # A sum of one tensor, or of one that is there, passes its operand on.
    if definition.summands:
        parts = op.inputs.get(definition.summands, ())
        return len(parts) > 1 and all(v.given or _is_there(v.writer) for v in parts)
    if definition.own:
        return True
    dtypes = [value.dtype for value in op.reads()]
    return (
        None not in dtypes
        and not definition.partial
        and takes_required(definition, op.inputs)
        and makes_array(definition, dtypes, op.attrs)
    )


def _is_there(writer: Op | None) -> bool:
    """Whether what an operator writes has a value for sure."""
    return writer is not None and writer.definition is not None and not writer.definition.partial and not writer.graphs


# -- the pass --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InPlace(Pass):
    """Mark outputs that are computed into the memory of an input."""

    name = "in-place"
    idempotent = True

    def apply(self, graph: Graph) -> bool:
        return any([_mark_graph(subgraph) for subgraph in graph.tree(sealed=False)])


def _mark_graph(graph: Graph) -> bool:
    before = _marks(graph)
    drop_outdated_marks(graph)
    order = graph.ordered_ops()
    lasting = {*graph.results, *graph.residuals}
    for op in order:
        _mark(op, lasting)
    return _marks(graph) != before


def _marks(graph: Graph) -> dict[Op, list[str]]:
    return {op: op.attrs[INPLACE] for op in graph.ops if INPLACE in op.attrs}


def _mark(op: Op, lasting: set[Value]) -> None:
    """Give an operator the mark that it should have."""
    slot = _reusable_slot(op, lasting)
    marks, old = ([] if slot is None else [f"Out:{slot}"]), op.attrs.get(INPLACE, [])
    if marks != old and op.graph.allows("in-place", op):
        op.graph.set_attr(op, INPLACE, marks)


def _reusable_slot(op: Op, lasting: set[Value]) -> str | None:
    """The slot of the input whose memory the output may use."""
    definition = op.definition
    if (
        definition is None
        or not definition.elementwise
        or not takes_required(definition, op.inputs)
        or [*op.outputs] != ["Out"]
        or not makes_own(op)
    ):
        return None
    # The kernel in its ``out=`` form computes the same bits; an operator without one would compute a new array and copy it.
    dtypes = [value.dtype for value in op.reads()]
    if None in dtypes or not writes_into(definition, dtypes, op.attrs):
        return None
    out = op.output("Out")
    for slot, values in op.inputs.items():
        if _has_type_of(values[0], out) and values.count(values[0]) == 1 and _is_free(values[0], op, lasting):
            return slot
    return None


def _has_type_of(value: Value, out: Value) -> bool:
    return value.type is not None and value.type == out.type and value.kind == out.kind == TENSOR


def _is_free(value: Value, op: Op, lasting: set[Value]) -> bool:
    """Whether the memory of a value is unaliased, and dead after an operator."""
    if not value.writers or value.given or value.persistable or value in lasting or value.graph.is_observed(value):
        return False
    if not makes_own(value.writers[0]):
        return False
    # A reader after this one would see the overwritten memory; one before may have returned a view of it, or kept it.
    return all(reader is op or (reader.order < op.order and makes_own(reader)) for reader in value.readers)
