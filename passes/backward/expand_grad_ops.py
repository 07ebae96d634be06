"""Expand the grad operators on the path into the operators that they are defined by.

    y, y@GRAD ─▶ tanh_grad ─▶ x@GRAD    ⇒    y@GRAD * (1 - y * y) ─▶ x@GRAD

    while { h = f(h) } ... while_grad { f_grad }    ⇒    while { push(tape, h); h = f(h) } ... while { pop(tape) ─▶ f_grad }

What is left on the path are operators with gradient rules of their own, so gradients can be differentiated again,
to any order. Grad operators elsewhere stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphad.graph import Builder, Graph, GraphSymbol, Op, Value
from graphad.graph.regions import is_grad_op
from graphad.ops import GradOpDef
from graphad.passes.backward.find_op_path import OpPath
from graphad.passes.backward.region_expansion import expand_region
from graphad.program import EMPTY
from graphad.rewriting import OnTrial, Pass
from graphad.types import STEP_SCOPES


@dataclass(frozen=True)
class ExpandGradOps(Pass):
    """Replace grad operators on the path by their definitions in terms of other operators."""

    name = "expand-grad-ops"
    tolerance = 1e-9  # a gradient's own kernel may add up in another order
    on_trial = OnTrial(programs=("with-gradients", "any"))
    requires = (OpPath,)

    def apply(self, graph: Graph) -> bool:
        path: OpPath = graph.analyses[OpPath]
        return any([_expand_one(op) for op in path.ops])


def _expand_one(op: Op) -> bool:
    """Expand an operator, if it is a gradient, and everything in its nested graphs."""
    changed = any([_expand_one(inner) for graph in op.graphs.values() for inner in graph.ops])
    if not is_grad_op(op):
        return changed
    if op.graphs:
        expand_region(op)
    else:
        expand(op.graph, op)
    return True


def expand(graph: Graph, op: Op) -> None:
    """Put the operators that a grad operator means in its place; the values it writes stay the same."""
    row = op.row
    assert isinstance(row, GradOpDef)
    written = {slot: values for slot, values in op.outputs.items() if any(v.name != EMPTY for v in values)}
    stem = next(v.name for values in written.values() for v in values if v.name != EMPTY)
    builder = Builder(graph, stem, before=op, role=op.role, forward=op.forward)
    inputs = {slot: [builder.symbol(v) for v in values] for slot, values in op.inputs.items()}
    for slot, values in written.items():
        results = row.meaning(inputs, op.attrs, [slot])[slot]
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
    for slot, values in list(writer.outputs.items()):
        if value in values:
            graph.set_outputs(writer, slot, [old if v is value else v for v in values])
