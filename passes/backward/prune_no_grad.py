"""Drop grad operators that have nothing to do, and fill in the zeros that the others still read.

    a@GRAD (nobody wrote it) ─▶ f_grad ─▶ x@GRAD                          f_grad is dropped
    a@GRAD ─▶ g_grad ─▶ x@GRAD (x has no gradient)                   ⇒    g_grad is dropped
    a@GRAD ───────────────────▶ split_grad ─▶ x@GRAD                      a@GRAD ───────────────────▶ split_grad ─▶ x@GRAD
    b@GRAD (nobody wrote it) ──▲                                          b ─▶ fill_zeros_like ─▶ b@GRAD ──▲

An operator goes if all its outputs are without gradient, or if it reads gradients and none of them was written.
What stays writes only gradients that are needed and reads only what those need.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphad.graph import Graph, Op, Value
from graphad.ops import GRAD, GradOpDef
from graphad.ops.definition import GradRule
from graphad.passes.backward.create_grad_ops import GradOps
from graphad.passes.backward.find_op_path import OpPath
from graphad.program import BACKWARD, EMPTY
from graphad.rewriting import Pass


@dataclass(frozen=True)
class PruneNoGrad(Pass):
    """Drop grad operators without gradient on one of their sides; fill zeros where a survivor reads a missing gradient."""

    name = "prune-no-grad"
    requires = (OpPath, GradOps)
    preserves = (OpPath, GradOps)

    def apply(self, graph: Graph) -> bool:
        path: OpPath = graph.analyses[OpPath]
        made: GradOps = graph.analyses[GradOps]
        before = len(made.ops)
        made.ops = [op for op in made.ops if _kept(graph, op, path.active)]
        changed = len(made.ops) != before
        for op in made.ops:
            changed |= _narrow(graph, op, path.active)
            changed |= _fill(graph, op)
        return changed


def _kept(graph: Graph, op: Op, active: frozenset[Value]) -> bool:
    """Remove the operator unless it passes a written gradient on to an active value."""
    if _reads_gradient(op) and _writes_active(op, active):
        return True
    graph.remove_op(op)
    return False


def _reads_gradient(op: Op) -> bool:
    gradients = [value for slot, values in op.inputs.items() if slot.endswith(GRAD) for value in values]
    return not gradients or any(value.writers for value in gradients)


def _writes_active(op: Op, active: frozenset[Value]) -> bool:
    for values in op.outputs.values():
        for value in values:
            if value.grad_of in active:
                return True
    return False


def _narrow(graph: Graph, op: Op, active: frozenset[Value]) -> bool:
    """Leave out the outputs without gradient, and inputs that only they needed."""
    changed = False
    for slot, values in list(op.outputs.items()):
        kept = [value.grad_of in active for value in values]
        if not any(kept):
            graph.set_outputs(op, slot, ())
            changed = True
        elif not all(kept):
            graph.set_outputs(op, slot, [v if keep else graph.add_version(EMPTY) for v, keep in zip(values, kept, strict=True)])
            changed = True
    if changed:
        needed = {slot for rule in _rules(op) for slot in rule.reads}
        for slot in [slot for slot in op.inputs if slot not in needed]:
            graph.set_inputs(op, slot, ())
    return changed


def _rules(op: Op) -> list[GradRule]:
    row = op.row
    assert isinstance(row, GradOpDef) and row.forward is not None and row.forward.grads is not None
    return [row.forward.grads[slot.removesuffix(GRAD)] for slot in op.outputs]


def _fill(graph: Graph, op: Op) -> bool:
    """Zeros for the gradients that the operator reads and nobody wrote; a slot it can do without is left out instead."""
    missing = [slot for slot, values in op.inputs.items() if slot.endswith(GRAD) and not all(v.writers for v in values)]
    for slot in missing:
        values = op.inputs[slot]
        if not any(v.writers for v in values) and all(slot in rule.optional or slot not in rule.reads for rule in _rules(op)):
            graph.set_inputs(op, slot, ())
            continue
        for value in values:
            if not value.writers and value.grad_of is not None:
                graph.add_op("fill_zeros_like", {"X": [value.grad_of]}, {"Out": [value]}, before=op, role=BACKWARD, forward=op.forward)
    return bool(missing)
