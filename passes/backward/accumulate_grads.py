"""Add up gradients that several operators write.

    f_grad ─▶ w@GRAD ◀─ g_grad          f_grad ─▶ w@GRAD@RENAME@0 ─▶ sum ─▶ w@GRAD
                                   ⇒    g_grad ─▶ w@GRAD@RENAME@1 ──▲

The sum comes directly before the first operator that reads it, else at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from graphad.ir import SINGLE_WRITER, Graph, Value
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
    has_changed = any([accumulate(grad_ops.inner[inner]) for op in grad_ops.ops for inner in op.graphs.values()])
    totals = [value for value in grad_ops.gradient.values() if len(value.writers) > 1]
    if not totals:
        return has_changed
    graph.ops.numbered()
    forward = {value: value.writers[0].forward for value in totals}  # ``split_writers`` leaves them without writers
    for total, parts in split_writers(graph, totals, _part).items():
        # All parts are written before the first reader: in reverse order the readers of a forward value come before its writer.
        first_reader = min(total.readers, key=attrgetter("order"), default=None)
        graph.add_op("sum", {"X": parts}, {"Out": [total]}, before=first_reader, role=BACKWARD, forward=forward[total])
    return True


def _part(total: Value) -> Value:
    graph = total.graph
    part = graph.add_version(graph.values.numbered(total.name, "{}@RENAME@{}"))
    part.grad_of, part.kind = total.grad_of, total.kind
    return part
