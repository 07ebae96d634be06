"""The values proportional to the cotangent that a backward part starts from.

    loss@GRAD ─▶ mean_grad ─▶ h@GRAD ─▶ mul_grad ─▶ w@GRAD          all three: times 2 if the first is

Operators are followed that are linear in such values together, and read nothing else of them than shapes; a loop or branch, if each of
its graphs keeps its results so. What no operator keeps so reads a value as it is: the gradient of a gradient's square does.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence

from graphad.ir import Graph, Op, Value
from graphad.ir.regions import LoopLike, definition_of, operands, results_of
from graphad.ops import GRAD, GradOpDef, OpDef
from graphad.passes.analyses.uninitialized import Certain
from graphad.program import BACKWARD, EMPTY
from graphad.rewriting.constants import uniform_number


def proportional(graph: Graph, starts: Sequence[Op]) -> dict[Value, None]:
    """The values of a backward part that are multiplied by a factor when what some operators of it write is.

    Args:
        graph: a whole graph.
        starts: operators of the backward part, as those that fill in the gradients of losses.
    """
    values = dict.fromkeys(value for op in starts for value in op.writes())
    certain = Certain.of(graph).values
    # One pass in order is enough: the backward part has no cycle, and loops are single operators here.
    for op in graph.ops:
        results = _results(op, values)
        # What may have no value cannot be divided afterwards, nor its gradient: the operator reads gradients as they were.
        if all(value in certain or value.grad_of in certain for value in results):
            values.update(dict.fromkeys(results))
    return values


def keeps(op: Op, scaled: Container[Value]) -> bool:
    """Whether an operator reads scaled gradients as they are, once it is known which values are scaled."""
    return any(value in scaled for value in op.writes())


def _results(op: Op, scaled: Container[Value]) -> list[Value]:
    """The results of an operator that are multiplied by the factor of its scaled operands; none if the operator needs those unscaled."""
    if op.role != BACKWARD or not any(value in scaled for value in op.reads()):
        return []
    if op.graphs and not definition_of(op).is_grad:
        return _results_of_graphs(op, scaled)
    return [value for value in op.writes() if value.name != EMPTY] if _is_linear(op, scaled) else []


def _is_linear(op: Op, scaled: Container[Value]) -> bool:
    """Whether an operator is linear in all scaled values together, and in nothing else that counts, or in the only one of a product."""
    definition = op.definition
    if definition is None or definition.of_shape:
        return False
    slots = [slot for slot, values in op.inputs.items() if any(value in scaled for value in values)]
    if definition.bilinear:
        return len(slots) == 1 and slots[0] in definition.bilinear
    # Gradients are linear in the cotangents together: with only some of them scaled, the others have to be zero.
    linear = _linear_slots(op, definition)
    is_safe = all(is_kept_or_zero(value, scaled) for slot in linear for value in op.inputs.get(slot, ()))
    return is_safe and all(slot in linear or slot in _of_shape(definition) for slot in slots) and not op.attrs.get(definition.offset)


def _linear_slots(op: Op, definition: OpDef) -> Collection[str]:
    if op.graphs:
        return {slot for slot in op.inputs if slot.endswith(GRAD)}
    return {slot for slot, _ in definition.cotangents} if isinstance(definition, GradOpDef) else definition.linear


def is_kept_or_zero(value: Value, scaled: Container[Value]) -> bool:
    """Whether a value is one of those that are multiplied, or zero, which is either."""
    return value in scaled or value.name == EMPTY or uniform_number(value) == 0.0


def _results_of_graphs(op: Op, scaled: Container[Value]) -> list[Value]:
    """The results of a loop or branch that are multiplied: those that are in each of its graphs, where all readers keep them so."""
    # For each way to a result: is it scaled there, and may it pass for that?
    ways: dict[Value, list[tuple[bool, bool]]] = {out: [] for out in results_of(op)}
    for graph in op.graphs.values():
        inside = _inside(op, graph, scaled)
        if inside is None:
            return []
        for out, result in zip(results_of(op), graph.results, strict=True):
            ways[out].append((result in inside, is_kept_or_zero(result, inside)))
    loop = LoopLike.of(op)
    # A loop of no iteration leaves what it started with.
    for out, start in zip(results_of(op), loop.carried if loop is not None else (), strict=False):
        ways[out].append((start in scaled, is_kept_or_zero(start, scaled)))
    scaled_results = [out for out, pairs in ways.items() if any(is_scaled for is_scaled, _ in pairs)]
    return scaled_results if all(may_pass for out in scaled_results for _, may_pass in ways[out]) else []


def _inside(op: Op, graph: Graph, scaled: Container[Value]) -> dict[Value, None] | None:
    """The scaled values of a loop's body or of a branch; None if something there would have to read them unscaled.

    A carried value of a loop is scaled if it starts so, or at zero, and each iteration keeps it so: the greatest fixpoint.
    """
    loop = LoopLike.of(op)
    result_of_argument = {graph.inputs[at]: graph.results[k] for k, at in enumerate(loop.carried_at)} if loop is not None else {}
    starts = dict(zip(graph.inputs, operands(op), strict=False))
    arguments = [v for v, start in starts.items() if start in scaled or (v in result_of_argument and is_kept_or_zero(start, scaled))]
    scaled_values = _within(graph, arguments)
    # All carried values are assumed to be scaled at first. One whose result is not loses that, and others may with it; none ever regains
    # it.
    while losses := [v for v in arguments if v in result_of_argument and not is_kept_or_zero(result_of_argument[v], scaled_values)]:
        arguments = [v for v in arguments if v not in losses]
        scaled_values = _within(graph, arguments)
    if any(starts[v] in scaled and v not in scaled_values for v in starts):
        return None
    # Residuals are factors of gradients of this one.
    is_kept = all(keeps(reader, scaled_values) for value in scaled_values for reader in readers_by_value(value)) and not any(
        v in scaled_values for v in graph.residuals
    )
    return scaled_values if is_kept else None


def _within(graph: Graph, arguments: Sequence[Value]) -> dict[Value, None]:
    """The values of a nested graph that are scaled if these arguments are."""
    values = dict.fromkeys(arguments)
    for op in graph.ops:
        values.update(dict.fromkeys(_results(op, values)))
    return values


def readers_by_value(value: Value) -> list[Op]:
    """The operators that read more of a value than its shape."""
    return [op for op in value.readers if not _reads_shape(op, value)]


def _reads_shape(op: Op, value: Value) -> bool:
    definition = op.definition
    if definition is None or op.graphs:
        return False
    return all(slot in _of_shape(definition) for slot, values in op.inputs.items() if value in values)


def _of_shape(definition: OpDef) -> Container[str]:
    """The slots of which an operator reads nothing but the shape and dtype."""
    if definition.of_shape:
        return definition.inputs
    if isinstance(definition, GradOpDef) and definition.forward is not None:
        return definition.forward.shapes
    return ()


__all__ = ["is_kept_or_zero", "keeps", "proportional", "readers_by_value"]
