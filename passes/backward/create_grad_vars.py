"""Declare the gradients: each gets the shape and dtype of what it is the gradient of; the requested ones become targets.

x: float32[-1, 3]          x: float32[-1, 3]
x@GRAD: ?             ⇒    x@GRAD: float32[-1, 3]
"""

from __future__ import annotations

from dataclasses import dataclass

from graphad.ir import TYPED, Graph, Op
from graphad.passes.backward.create_grad_ops import GradOps
from graphad.passes.backward.find_op_path import OpPath
from graphad.rewriting import Pass


@dataclass(frozen=True)
class CreateGradVars(Pass):
    """Infer the shapes and dtypes of the values that the backward made."""

    name = "create-grad-vars"
    requires = (GradOps,)
    establishes = (TYPED,)
    preserves = (OpPath, GradOps)

    def apply(self, graph: Graph) -> bool:
        grad_ops: GradOps = graph.analyses[GradOps]
        has_changed = declare(grad_ops)
        source_gradients = [grad_ops.gradient.get(source) for source in grad_ops.path.sources]
        graph.targets |= dict.fromkeys([*grad_ops.path.targets, *(g for g in source_gradients if g is not None and g.writers)])
        return has_changed


def declare(grad_ops: GradOps) -> bool:
    """Infer types in one graph from the first grad operator on, and in graphs nested in those; return whether there were any to infer."""
    graph = grad_ops.adjoints.graph
    op: Op | None = grad_ops.first or graph.ops.first
    # By ``grad_of`` alone: a gradient has the type of its value, so nothing is inferred.
    has_changed = any([declare(grad_ops.inner[inner]) for member in grad_ops.ops for inner in member.graphs.values()])
    while op is not None:
        for values in op.outputs.values():
            for value in values:
                if value.shape is None and (of := value.grad_of) is not None and of.shape is not None:
                    graph.set_type(value, of.shape, of.dtype)
                    has_changed = True
        op = op.next
    return has_changed
