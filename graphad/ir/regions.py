"""Operators with nested graphs: their operands, block arguments and results, and how values get in, around and out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import ClassVar, NamedTuple, Self

from graphad.ir.nodes import Op, Value
from graphad.ir.residuals import residual_inputs
from graphad.ops import GRAD, REGISTRY, BranchDef, CallDef, ControlDef, GradOpDef, LoopDef

# -- regions ---------------------------------------------------------------------------------------
# Operators with nested graphs: their operands, block arguments and results, as values.
#
#     forward     while(X = [carried..., captured...]) -> (Out = [carried...]),  the condition is the last carried value
#                 body: inputs = X, results = Out            the results are the inputs of the next iteration
#     branches    if_else(Cond, X) -> (Out)                  each graph: inputs = X, results = Out
#     gradient    while_grad(X, Out@GRAD) -> (X@GRAD)        its graph: inputs = X, Out@GRAD, then residuals; results = X@GRAD
#
# The inputs of a nested graph are in the order of its operator's operands, its results in that of the operator's results.
#
# Which of these an operator is, its definition says (``graphad.ops.control_flow``). Passes use the interface and not the type:
#
#     loop = LoopLike.of(op)                                  None if it is not a loop
#     loop.carried, loop.captured, loop.body, loop.yielded
#
# ``LoopLike``, ``BranchLike`` and ``CallLike`` have in common the operands, the block arguments, the results, the yielded values, the
# condition and the residuals.

OTHERWISE = "otherwise"  # the second graph of a conditional_block: nothing happens


def control_definition(op: Op) -> ControlDef | None:
    """The definition of an operator that has nested graphs, None for any other."""
    definition = REGISTRY.get(op.type)
    return definition if isinstance(definition, ControlDef) else None


def definition_of(op: Op) -> ControlDef:
    """The definition of an operator known to have nested graphs."""
    definition = REGISTRY[op.type]
    assert isinstance(definition, ControlDef)
    return definition


def is_loop(op: Op) -> bool:
    """Whether the operator runs its graph again and again; the gradient of a loop does too."""
    return isinstance(REGISTRY.get(op.type), LoopDef)


def is_forward_loop(op: Op) -> bool:
    """Whether the operator is a loop, and not the gradient of one."""
    definition = REGISTRY.get(op.type)
    return isinstance(definition, LoopDef) and not definition.is_grad


def is_loop_gradient(op: Op) -> bool:
    """Whether the operator is the gradient of a loop."""
    definition = REGISTRY.get(op.type)
    return isinstance(definition, LoopDef) and definition.is_grad


def operands(op: Op) -> tuple[Value, ...]:
    """The values that an operator passes to its nested graphs."""
    definition = definition_of(op)
    values = op.inputs.get(definition.operands, ())
    # A gradient also gets the cotangents of the results, in the order of the results.
    return values + op.inputs.get(f"Out{GRAD}", ()) if definition.is_grad else values


def results_of(op: Op) -> tuple[Value, ...]:
    """The values that an operator has from its nested graphs."""
    return op.outputs.get(definition_of(op).results, ())


def outcomes(op: Op) -> tuple[Value, ...]:
    """Deprecated: ``results_of``."""
    warnings.warn("outcomes is deprecated and goes in the next minor version: use results_of", DeprecationWarning, stacklevel=2)
    return results_of(op)


def scopes_of(op: Op) -> Value | None:
    """The value that holds the residuals of a forward operator, None if its program has no name for it."""
    values = op.outputs.get(definition_of(op).scopes, ())
    return values[0] if values else None


def carried_count(op: Op) -> int:
    """The number of a loop's operands that are carried from one iteration to the next: the first ones, of a gradient the last ones."""
    definition = definition_of(op)
    return len(op.inputs.get(f"Out{GRAD}", ()) if definition.is_grad else op.outputs.get(definition.results, ()))


def first_captured(op: Op) -> int:
    """The number of the first captured operand, the same in every run of a forward operator's graphs: a loop carries those before it."""
    definition = REGISTRY[op.type]
    return len(op.outputs.get(definition.results, ())) if isinstance(definition, LoopDef) and not definition.is_grad else 0


def added_count(op: Op) -> int:
    """The number of results, the last ones, that are added up over the iterations of a loop's gradient."""
    return len(results_of(op)) - carried_count(op) if is_loop_gradient(op) else 0


def is_grad_op(op: Op) -> bool:
    """Whether the operator is the gradient of another one, to be expanded before it can be differentiated."""
    definition = REGISTRY.get(op.type)
    return definition.is_grad if isinstance(definition, ControlDef) else isinstance(definition, GradOpDef)


def has_effects(op: Op) -> bool:
    """Whether an operator does something besides computing its outputs, itself or in a nested graph; one of an unknown type might."""
    definition = op.definition
    if definition is None or definition.side_effect:
        return True
    return any(
        inner.definition is None or inner.definition.side_effect
        for graph in op.graphs.values()
        for subgraph in graph.tree()
        for inner in subgraph.ops
    )


def has_ordered_effects(op: Op) -> bool:
    """Whether an operator, itself or in a nested graph, has effects in an order that has to stay, as a collective does."""
    definition = REGISTRY.get(op.type)
    if definition is not None and definition.ordered:
        return True
    return any(has_ordered_effects(inner) for graph in op.graphs.values() for inner in graph.ops)


# -- interfaces ----------------------------------------------------------------------------------


class RegionOp:
    """An operator with nested graphs, as its interface shows it. ``of(op)`` is None where the operator does not have the interface."""

    __slots__ = ("definition", "op")
    declared: ClassVar[type[ControlDef]] = ControlDef

    def __init__(self, op: Op, definition: ControlDef) -> None:
        self.op = op
        self.definition = definition

    @classmethod
    def of(cls, op: Op) -> Self | None:
        """The interface of an operator, None if its definition does not declare it."""
        definition = REGISTRY.get(op.type)
        return cls(op, definition) if isinstance(definition, cls.declared) else None

    @property
    def is_gradient(self) -> bool:
        """Whether it is the gradient of another operator."""
        return self.definition.is_grad

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values passed to the nested graphs."""
        return operands(self.op)

    @property
    def results(self) -> tuple[Value, ...]:
        """The values that come from the nested graphs."""
        return results_of(self.op)

    @property
    def condition(self) -> tuple[Value, ...]:
        """The values that decide which nested graph runs first, or whether one does; none if nothing is decided."""
        return self.op.inputs.get(self.definition.condition, ())

    @property
    def residuals(self) -> Value | None:
        """The value that holds what the gradient reads of the runs; of a gradient, that of its forward operator."""
        if not self.definition.is_grad:
            return scopes_of(self.op)
        return self.op.input(self.definition.scopes)

    def arguments(self, name: str) -> list[Value]:
        """The block arguments of a nested graph, one for each operand."""
        return self.op.graphs[name].inputs[: len(self.operands)]

    def yielded(self, name: str) -> list[Value]:
        """The values that a nested graph returns, one for each result."""
        return self.op.graphs[name].results


class LoopLike(RegionOp):
    """A loop: it runs its graph again and again, and what the graph yields are its arguments in the next iteration.

    How often it runs is an analysis' to say: ``graphad.passes.analyses.TripCounts``.
    """

    __slots__ = ()
    declared = LoopDef

    @property
    def name(self) -> str:
        """The attribute that holds the body."""
        return self.definition.blocks[0]

    @property
    def carried_at(self) -> range:
        """The places of the carried values among the operands; among the results they come first."""
        if not self.definition.is_grad:
            return range(len(self.op.outputs.get(self.definition.results, ())))
        count = len(self.operands)
        return range(count - carried_count(self.op), count)

    @property
    def carried(self) -> tuple[Value, ...]:
        """The operands that the carried values start from."""
        at = self.carried_at
        return self.operands[at.start : at.stop]

    @property
    def captured(self) -> tuple[Value, ...]:
        """The operands that are the same in every iteration."""
        at = self.carried_at
        return self.operands[: at.start] + self.operands[at.stop :]

    @property
    def goes_on(self) -> Value:
        """The value of the body that decides whether there is another iteration."""
        (body,) = self.op.graphs.values()
        return body.results[-1]


class BranchLike(RegionOp):
    """A branch: it runs one of its graphs, the first one where the condition holds, else the second."""

    __slots__ = ()
    declared = BranchDef


class CallLike(RegionOp):
    """A call: it runs its graph once."""

    __slots__ = ()
    declared = CallDef

    @property
    def is_fused(self) -> bool:
        """Whether the graph is to stay in one piece: the executor runs it as one operator."""
        return isinstance(self.definition, CallDef) and self.definition.fused

    @property
    def stays_whole(self) -> bool:
        """Whether passes put the graph in no other place: it is fused, or sealed."""
        return self.is_fused or self.op.is_sealed


def types_of(interface: type[RegionOp]) -> frozenset[str]:
    """The types of the forward operators, those of plugins included, that have an interface."""
    return frozenset(name for name, definition in REGISTRY.items() if isinstance(definition, interface.declared) and not definition.is_grad)


# -- region edges ----------------------------------------------------------------------------------
# How values get into nested graphs, round loops and out again: what an analysis has to know of an operator with blocks.
#
#     while(X = [h#0, w]) -> (Out = h#1) { graph (h, w) { h2 = h * w } -> h2 }
#
#     ENTRY   h#0 -> h, w#0 -> w      operands become block arguments
#     BACK    h2  -> h                results are the arguments of the next iteration
#     EXIT    h2  -> h#1              results leave; of branches, those of each
#     BYPASS  h#0 -> h#1              a loop that runs no iteration leaves what it was given
#
# Gradients have two more: SAVED, from a value of the forward graph to the argument that stands for it, and SUM, from a result to what
# adds up over the iterations of a loop (zeros if there is none). MLIR's ``RegionBranchOpInterface`` says the same of its operations.
#
#     KEPT    h -> scopes             residuals are kept: those of all runs are one value

ENTRY, BACK, EXIT, BYPASS, SAVED, SUM, KEPT = "entry", "back", "exit", "bypass", "saved", "sum", "kept"


class Edge(NamedTuple):
    """One way that a value may go: what ``target`` is may be what ``source`` is. ``op`` is the operator with the nested graphs."""

    source: Value
    target: Value
    kind: str
    op: Op


def region_edges(op: Op) -> Iterator[Edge]:
    """All ways of values into the nested graphs of an operator, out of them, and around."""
    inputs, outs, loop, scopes = operands(op), results_of(op), LoopLike.of(op), scopes_of(op)
    # Result k of a loop is carried to block argument ``at[k]``: of a forward loop the first ones, of a gradient the last ones. Results
    # after those are sums.
    at = range(len(outs)) if loop is None else loop.carried_at
    for graph in op.graphs.values():
        if scopes is not None:
            yield from [Edge(value, scopes, KEPT, op) for value in graph.residuals]
        yield from (Edge(value, inner, ENTRY, op) for value, inner in zip(inputs, graph.inputs, strict=False))
        yield from (Edge(residual, inner, SAVED, op) for inner, residual in residual_inputs(graph).items())
        for k, (result, out) in enumerate(zip(graph.results, outs, strict=True)):
            yield Edge(result, out, EXIT if k < len(at) else SUM, op)
            if loop is not None and k < len(at):
                yield Edge(result, graph.inputs[at[k]], BACK, op)
                yield Edge(inputs[at[k]], out, BYPASS, op)


def conditions(op: Op) -> tuple[Value, ...]:
    """The values that decide which nested graph of an operator runs, and how often."""
    values = op.inputs.get(definition_of(op).condition, ())
    loop = LoopLike.of(op)
    # A gradient of a loop runs once for each kept iteration, so nothing in its body decides.
    return (*values, loop.goes_on) if loop is not None and not loop.is_gradient else values
