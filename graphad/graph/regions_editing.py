"""Changes to operators with nested graphs: add and drop operands and results, inline a graph, outline operators into a net.

    add_capture     while(X=[h])              ⇒  while(X=[h, w])             the graph takes one more argument
    drop_operand    while(X=[h, w])           ⇒  while(X=[h])                nothing inside reads it
    drop_result     while(X=[h, k]) -> h, k   ⇒  while(X=[h]) -> h           nothing outside reads it, nor what it is made from inside
    inline_region   net { a = tanh(x) } -> a  ⇒  a = tanh(x)             (graphad.graph.regions_inlining)
    outline         a = tanh(x)               ⇒  net { a = tanh(x) } -> a

What gradients read of a graph (``saved``) stays as it is, or the change is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphad.errors import InvalidGraph
from graphad.graph.graph import Graph
from graphad.graph.nodes import Op, Value
from graphad.graph.regions import carried_count, first_captured, is_forward_loop, is_loop_gradient, operands, outcomes, the_row
from graphad.graph.regions_copying import input_like
from graphad.graph.regions_inlining import gradients_of, has_gradient, inline_region, inline_with_gradients, outline, replace_by_copy


def add_capture(op: Op, value: Value) -> list[Value]:
    """Hand the nested graphs one value more, which a loop does not change.

    Args:
        op: an operator with nested graphs; it may have a gradient, or be one.
        value: a value of the graph around.

    Returns:
        The value's block arguments, one for each nested graph; the existing one if the value is an operand already.

    Raises:
        InvalidGraph: the value is of another graph.

    >>> import graphad as ga
    >>> graph = ga.lower(ga.Program.parse('''program {
    ...   block 0 {
    ...     var x: float32[2]
    ...     var w: float32[2]
    ...     net(X=x) -> (Out=y) {sub_block=block(1)}
    ...   }
    ...   block 1 in 0 {
    ...     tanh(X=x) -> (Out=y)
    ...   }
    ... }'''))
    >>> (net,) = graph.ops
    >>> add_capture(net, graph.given("w"))
    [w]
    >>> print(net)
    net(X=[x, w]) -> (Out=y)
    """
    return [inner[0] for inner in add_captures(op, [value])]


def add_captures(op: Op, values: Sequence[Value]) -> list[list[Value]]:
    """The same for several values at once: for each nested graph, what they are inside.

    Raises:
        InvalidGraph: a value is of another graph.
    """
    for value in values:
        if value.graph is not op.graph:
            raise InvalidGraph(f"{op.type} cannot take {value.name}, which is not in its graph")
    given = list(op.inputs.get(the_row(op).operands, ()))
    at = {value: i for i, value in reversed(list(enumerate(given))) if i >= first_captured(op)}
    more = [value for value in dict.fromkeys(values) if value not in at]
    for graph in op.graphs.values():
        graph.inputs[len(given) : len(given)] = [input_like(graph, value) for value in more]
    at.update((value, len(given) + k) for k, value in enumerate(more))
    if more:
        op.graph.set_inputs(op, the_row(op).operands, [*given, *more])
    return [[graph.inputs[at[value]] for value in values] for graph in op.graphs.values()]


def drop_operand(op: Op, i: int) -> bool:
    """Drop operand ``i`` if no nested graph and no gradient reads it; return whether it was dropped.

    Operands with a fixed position stay: carried values go with ``drop_result``, operands of a gradient that have results with
    those, and cotangents never.
    """
    given = op.inputs.get(the_row(op).operands, ())
    if not _first_that_may_go(op) <= i < len(given) or any(_is_read(graph, graph.inputs[i]) for graph in op.graphs.values()):
        return False
    for graph in op.graphs.values():
        _drop_input(graph, i)
    op.graph.set_inputs(op, the_row(op).operands, [*given[:i], *given[i + 1 :]])
    return True


def _first_that_may_go(op: Op) -> int:
    if not the_row(op).is_grad:
        return first_captured(op)
    return len(outcomes(op)) - _recurrent(op)


def _recurrent(op: Op) -> int:
    """How many of a gradient's results are passed to its next run: those of a loop's carried values."""
    return carried_count(op) if is_loop_gradient(op) else 0


def _drop_input(graph: Graph, i: int) -> None:
    value = graph.inputs[i]
    graph.saved.pop(value, None)
    del graph.inputs[i]
    graph.drop(value)


def _is_read(graph: Graph, value: Value) -> bool:
    """Whether a value of a nested graph is read in it, returned by it, or a residual of its gradient."""
    return bool(value.readers) or graph.is_observed(value)


def drop_result(op: Op, i: int) -> bool:
    """Drop result ``i`` if it is unused; a loop drops the carried value with it.

    The operators that compute it stay; they may be dead then.

    Return False, and change nothing, if the result is read, or in a loop its value in the next iteration is; if it is a loop's
    condition; or if it is the cotangent that a loop's gradient passes on.
    """
    out = outcomes(op)
    if not 0 <= i < len(out) or out[i].readers or op.graph.is_observed(out[i]):
        return False
    loop = is_forward_loop(op)
    if loop and (i == len(out) - 1 or not _only_carried(op, i)):
        return False
    if the_row(op).is_grad and not _forget_summed(op, i):
        return False
    for graph in op.graphs.values():
        result = graph.results.pop(i)
        if loop:
            _drop_input(graph, i)
        graph.journal.touch(*result.writers)
    if loop:
        given = operands(op)
        op.graph.set_inputs(op, the_row(op).operands, [*given[:i], *given[i + 1 :]])
    op.graph.set_outputs(op, the_row(op).results, [*out[:i], *out[i + 1 :]])
    return True


def _only_carried(op: Op, i: int) -> bool:
    (graph,) = op.graphs.values()
    value = graph.inputs[i]
    kept = any(value in each.saved.values() for each in graph.gradients)
    return not value.readers and not kept and all(result is not value or k == i for k, result in enumerate(graph.results))


def _forget_summed(op: Op, i: int) -> bool:
    """Move the operand that a result of a gradient belongs to after those that have results."""
    at, last = i - _recurrent(op), len(outcomes(op)) - _recurrent(op) - 1
    if at < 0:
        return False
    given = list(op.inputs["X"])
    given.insert(last, given.pop(at))
    for graph in op.graphs.values():
        graph.inputs.insert(last, graph.inputs.pop(at))
    op.graph.set_inputs(op, "X", given)
    return True


__all__ = [
    "add_capture",
    "add_captures",
    "drop_operand",
    "drop_result",
    "gradients_of",
    "has_gradient",
    "inline_region",
    "inline_with_gradients",
    "outline",
    "replace_by_copy",
]
