"""Operators with nested graphs: their operands, block arguments and results, as values.

    forward     while(X = [carried..., captured...]) -> (Out = [carried...]),  the condition is the last carried value
                body: inputs = X, results = Out            the results are the inputs of the next iteration
    branches    if_else(Cond, X) -> (Out)                  each graph: inputs = X, results = Out
    gradient    while_grad(X, Out@GRAD) -> (X@GRAD)        its graph: inputs = X, Out@GRAD, then residuals; results = X@GRAD

The inputs of a nested graph are in the order of its operator's operands, its results in that of the operator's results.
"""

from __future__ import annotations

from graphad.errors import InvalidGraph
from graphad.graph.nodes import Op, Value
from graphad.ops import GRAD, REGISTRY, ControlDef, GradOpDef

OTHERWISE = "otherwise"  # the second graph of a conditional_block: nothing happens


def control_row(op: Op) -> ControlDef | None:
    """The definition of an operator that has nested graphs, None for any other."""
    row = REGISTRY.get(op.type)
    return row if isinstance(row, ControlDef) else None


def the_row(op: Op) -> ControlDef:
    """The definition of an operator known to have nested graphs."""
    row = REGISTRY[op.type]
    assert isinstance(row, ControlDef)
    return row


def is_loop(op: Op) -> bool:
    """Whether the operator runs its graph again and again."""
    return op.type in ("while", "while_grad")


def operands(op: Op) -> tuple[Value, ...]:
    """The values that an operator passes to its nested graphs."""
    row = the_row(op)
    given = op.inputs.get(row.operands, ())
    return given + op.inputs.get(f"Out{GRAD}", ()) if row.is_grad else given


def outcomes(op: Op) -> tuple[Value, ...]:
    """The values that an operator has from its nested graphs."""
    return op.outputs.get(the_row(op).results, ())


def scopes_of(op: Op) -> Value | None:
    """The value that holds the residuals of a forward operator, None if its program has no name for it."""
    found = op.outputs.get(the_row(op).scopes, ())
    return found[0] if found else None


def forward_op(op: Op) -> Op:
    """The operator that this one is the gradient of, in the forward graph: the one that keeps what it reads."""
    kept = op.input(the_row(op).scopes)
    while kept in kept.graph.saved:
        kept = kept.graph.saved[kept]
    if kept.writer is None:
        raise InvalidGraph(f"{op!r} is a gradient, but the operator that kept {kept!r} for it is not in the graph")
    return kept.writer


def carried_count(op: Op) -> int:
    """How many of a loop's operands are carried from one iteration to the next: the first ones."""
    return len(outcomes(op)) if op.type == "while" else len(op.inputs.get(f"Out{GRAD}", ()))


def is_grad_op(op: Op) -> bool:
    """Whether the operator is the gradient of another one, to be expanded before it can be differentiated."""
    row = REGISTRY.get(op.type)
    return row.is_grad if isinstance(row, ControlDef) else isinstance(row, GradOpDef)


def has_effects(op: Op) -> bool:
    """Whether an operator does something besides computing its outputs, itself or in a nested graph; one of an unknown type might."""
    row = op.row
    if row is None or row.side_effect:
        return True
    return any(inner.row is None or inner.row.side_effect for graph in op.graphs.values() for each in graph.tree() for inner in each.ops)
