"""Add up gradients that several operators write.

    f_grad ─▶ w@GRAD ◀─ g_grad          f_grad ─▶ w@GRAD@RENAME@0 ─▶ sum ─▶ w@GRAD
                                   ⇒    g_grad ─▶ w@GRAD@RENAME@1 ──▲

The sum comes directly before the first operator that reads it, else at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphad.ir import SINGLE_WRITER, Graph, Op, Value
from graphad.ir.edits import split_writers
from graphad.passes.backward.create_grad_ops import GradOps
from graphad.passes.backward.find_op_path import OpPath
from graphad.program import BACKWARD
from graphad.rewriting import Pass


@dataclass(frozen=True)
class AccumulateGrads(Pass):
    """Give each writer of a shared gradient a value of its own, and sum them."""

    name = "accumulate-grads"
    requires = (GradOps,)
    establishes = (SINGLE_WRITER,)
    preserves = (OpPath, GradOps)

    def apply(self, graph: Graph) -> bool:
        return accumulate(graph.analyses[GradOps])


def accumulate(grad_ops: GradOps) -> bool:
    """Sum shared gradients in one graph, and in those nested in its grad operators; return whether there were any."""
    graph = grad_ops.adjoints.graph
    changed = any([accumulate(grad_ops.inner[inner]) for op in grad_ops.ops for inner in op.graphs.values()])
    shared = [value for value in grad_ops.gradient.values() if len(value.writers) > 1]
    if not shared:
        return changed
    for i, op in enumerate(graph.ops):
        op.order = i
    for value in shared:
        _accumulate(graph, value)
    return True


def _accumulate(graph: Graph, total: Value) -> None:
    # Before ``split_writers``, which leaves the total without writers.
    forward, first_reader = total.writers[0].forward, min(total.readers, key=_order, default=None)
    parts = split_writers(graph, total, lambda: _part(graph, total))
    graph.add_op("sum", {"X": parts}, {"Out": [total]}, before=first_reader, role=BACKWARD, forward=forward)


def _part(graph: Graph, total: Value) -> Value:
    part = graph.add_version(graph.values.numbered(total.name, "{}@RENAME@{}"))
    part.grad_of, part.kind = total.grad_of, total.kind
    return part


def _order(op: Op) -> int:
    return op.order
