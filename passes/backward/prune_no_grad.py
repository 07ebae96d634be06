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
from graphad.ops import GRAD, REGISTRY, GradOpDef
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
        kept, narrow, fill = [], [], []
        for op in made.ops:
            written, missing = _gradients_read(op)
            needed, useless = _gradients_written(op, path.active)
            if needed == 0 or (missing and not written):
                graph.remove_op(op)
                continue
            kept.append(op)
            if useless:
                narrow.append(op)
            if missing:
                fill.append(op)
        changed = len(kept) < len(made.ops) or bool(narrow or fill)
        made.ops = kept
        for op in narrow:
            _narrow(graph, op, path.active)
        for op in fill:
            _fill(graph, op)
        return changed


def _gradients_read(op: Op) -> tuple[int, int]:
    """How many of the gradients that the operator reads are written, and how many are not."""
    written = missing = 0
    for slot, _ in _row(op).cotangents:
        for value in op.inputs.get(slot, ()):
            if value.writers:
                written += 1
            else:
                missing += 1
    return written, missing


def _gradients_written(op: Op, active: frozenset[Value]) -> tuple[int, int]:
    """How many of the gradients that the operator writes are of active values, and how many are not."""
    needed = useless = 0
    for values in op.outputs.values():
        for value in values:
            if value.grad_of in active:
                needed += 1
            else:
                useless += 1
    return needed, useless


def _narrow(graph: Graph, op: Op, active: frozenset[Value]) -> None:
    """Leave out the outputs without gradient, and inputs that only they needed."""
    for slot, values in list(op.outputs.items()):
        kept = [value.grad_of in active for value in values]
        if not any(kept):
            graph.set_outputs(op, slot, ())
        elif not all(kept):
            graph.set_outputs(op, slot, [v if keep else graph.add_version(EMPTY) for v, keep in zip(values, kept, strict=True)])
    needed = {slot for rule in _rules(op) for slot in rule.reads}
    for slot in [slot for slot in op.inputs if slot not in needed]:
        graph.set_inputs(op, slot, ())


def _row(op: Op) -> GradOpDef:
    row = REGISTRY[op.type]
    assert isinstance(row, GradOpDef)
    return row


def _rules(op: Op) -> list[GradRule]:
    forward = _row(op).forward
    assert forward is not None and forward.grads is not None
    return [forward.grads[slot.removesuffix(GRAD)] for slot in op.outputs]


def _fill(graph: Graph, op: Op) -> None:
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
