"""Changes to operators with nested graphs: add and remove operands, results and carried values.

    add_operand      while(X=[h])              ⇒  while(X=[h, w])             the graph takes one more argument
    remove_operand   while(X=[h, w])           ⇒  while(X=[h])                nothing inside reads it
    add_carried      while(X=[h]) -> h         ⇒  while(X=[h, k]) -> h, k     the graph yields its argument as it is, until told otherwise
    add_result       if_else(X) -> y           ⇒  if_else(X) -> y, z          each graph yields a value more
    set_yielded      { ... } -> h              ⇒  { ... } -> h2
    remove_result    while(X=[h, k]) -> h, k   ⇒  while(X=[h]) -> h           nothing outside reads it, nor what it is made from inside

What gradients read of a graph (its residuals) stays as it is, or the change is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphad.errors import InvalidGraph
from graphad.graph.clone import input_like
from graphad.graph.graph import Graph
from graphad.graph.nodes import Op, Value
from graphad.graph.regions import (
    LoopLike,
    carried_count,
    control_row,
    first_captured,
    is_forward_loop,
    is_loop,
    is_loop_gradient,
    operands,
    outcomes,
    the_row,
)
from graphad.graph.residuals import gradient_ops


def add_operand(op: Op, value: Value) -> list[Value]:
    """Pass one value more to the nested graphs, which a loop does not change.

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
    >>> add_operand(net, graph.given("w"))
    [w]
    >>> print(net)
    net(X=[x, w]) -> (Out=y)
    """
    return [inner[0] for inner in add_operands(op, [value])]


def add_operands(op: Op, values: Sequence[Value]) -> list[list[Value]]:
    """The same for several values at once: for each nested graph, what they are inside.

    Raises:
        InvalidGraph: a value is of another graph.
    """
    _check_regions(op)
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


def _check_regions(op: Op) -> None:
    if control_row(op) is None:
        raise InvalidGraph(f"{op!r} has no nested graphs: only operators like while, if_else and net have operands and results to edit")


# -- carried values and results ------------------------------------------------------------------


def add_carried(op: Op, start: Value) -> tuple[Value, Value]:
    """Let a loop carry one value more, before its condition. The body yields it as it is, until ``set_yielded`` says otherwise.

    Args:
        op: a loop; it may have a gradient, of which the value is then no part.
        start: a value of the graph around: what the loop starts from.

    Returns:
        The block argument, and the result: what the value is after the last iteration.

    Raises:
        InvalidGraph: it is no loop or the gradient of one, or the value is of another graph.
    """
    loop = _loop_to_edit(op)
    if start.graph is not op.graph:
        raise InvalidGraph(f"{op.type} cannot carry {start.name}, which is not in its graph")
    (body,) = op.graphs.values()
    argument, result = input_like(body, start), _result_like(op, start)
    insert_carried(loop.op, [start], [argument], [argument], [result])
    return argument, result


def insert_carried(
    op: Op, starts: Sequence[Value], arguments: Sequence[Value], yielded: Sequence[Value], results: Sequence[Value], last: bool = False
) -> None:
    """Let a loop carry values whose parts are all there: before the condition, or after it where they end with a new one.

    Args:
        op: a loop.
        starts, results: values of the graph around, which no other operator writes.
        arguments, yielded: values of the body; the arguments are given to it, and not among its inputs yet.
        last: whether they come last: the last one is the condition then.

    Raises:
        InvalidGraph: it is no loop or the gradient of one, or the numbers differ.
    """
    loop = _loop_to_edit(op)
    counts = [len(starts), len(arguments), len(yielded), len(results)]
    if len(set(counts)) > 1:
        raise InvalidGraph(f"{op.type} carries as many starts as arguments, yielded values and results, not {counts}")
    row, (body,), at = loop.definition, op.graphs.values(), carried_count(op) - (not last)
    before, after = operands(op), outcomes(op)
    new = dict.fromkeys(arguments)
    inputs = [value for value in body.inputs if value not in new]
    body.inputs = [*inputs[:at], *arguments, *inputs[at:]]
    body.results = [*body.results[:at], *yielded, *body.results[at:]]
    op.graph.set_inputs(op, row.operands, [*before[:at], *starts, *before[at:]])
    op.graph.set_outputs(op, row.results, [*after[:at], *results, *after[at:]])
    if last:
        op.graph.set_inputs(op, row.condition, starts[-1:])


def add_result(op: Op, values: Sequence[Value]) -> Value:
    """Let a branch or a call have one result more; return it.

    Args:
        op: an operator that runs a graph once at most; it may have a gradient, of which the value is then no part.
        values: what each of its nested graphs yields for it, in their order.

    Raises:
        InvalidGraph: it is a loop (``add_carried``) or a gradient, there is not one value for each graph, or one is of another graph.
    """
    _check_regions(op)
    graphs = list(op.graphs.values())
    if is_loop(op) or the_row(op).is_grad:
        raise InvalidGraph(f"{op!r} cannot have another result: it is a loop, for which there is add_carried, or a gradient")
    if len(values) != len(graphs) or any(value.graph is not graph for value, graph in zip(values, graphs, strict=True)):
        raise InvalidGraph(f"{op.type} has {len(graphs)} nested graphs, each of which yields a value of its own; got {list(values)}")
    result = _result_like(op, values[0])
    insert_results(op, [result], [[value] for value in values])
    return result


def insert_results(op: Op, results: Sequence[Value], yielded: Sequence[Sequence[Value]]) -> None:
    """Add results that are there, as values of the graph around, to a branch or a call; ``yielded`` are those of each nested graph."""
    for graph, values in zip(op.graphs.values(), yielded, strict=True):
        graph.results = [*graph.results, *values]
    op.graph.set_outputs(op, the_row(op).results, [*outcomes(op), *results])


def set_yielded(op: Op, result: Value, values: Sequence[Value]) -> None:
    """Let the nested graphs of an operator yield other values for a result.

    Args:
        op: a loop, branch or call without gradient.
        result: one of its results.
        values: a value of each nested graph, in their order.

    Raises:
        InvalidGraph: it is a gradient or has one, the value is no result, or there is not one value for each graph.
    """
    _check_regions(op)
    outs, graphs = outcomes(op), list(op.graphs.values())
    if result not in outs:
        raise InvalidGraph(f"{result!r} is no result of {op.type}, whose results are {list(outs)}")
    if the_row(op).is_grad or gradient_ops(op):
        raise InvalidGraph(f"{op!r} cannot yield something else: it has a gradient, or is one, which would stay as it was")
    if len(values) != len(graphs) or any(value.graph is not graph for value, graph in zip(values, graphs, strict=True)):
        raise InvalidGraph(f"{op.type} has {len(graphs)} nested graphs, each of which yields a value of its own; got {list(values)}")
    place = outs.index(result)
    for graph, value in zip(graphs, values, strict=True):
        graph.journal.edits += 1
        graph.journal.touch(op, *graph.results[place].writers)
        graph.results = [value if i == place else old for i, old in enumerate(graph.results)]


def _loop_to_edit(op: Op) -> LoopLike:
    loop = LoopLike.of(op)
    if loop is None or loop.is_gradient:
        raise InvalidGraph(f"{op!r} carries no values: it is no loop, or the gradient of one")
    return loop


def _result_like(op: Op, value: Value) -> Value:
    result = op.graph.add_value(value.name, value.shape, value.dtype)
    result.kind = value.kind
    return result


# -- removing ------------------------------------------------------------------------------------


def remove_operand(op: Op, i: int) -> bool:
    """Remove operand ``i`` if no nested graph and no gradient reads it; return whether it was removed.

    Operands with a fixed position stay: carried values go with ``remove_result``, operands of a gradient that have results with
    those, and cotangents never.
    """
    _check_regions(op)
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
    del graph.inputs[i]
    graph.drop(value)


def _is_read(graph: Graph, value: Value) -> bool:
    """Whether a value of a nested graph is read in it, returned by it, or a residual of its gradient."""
    return bool(value.readers) or graph.is_observed(value)


def remove_result(op: Op, i: int) -> bool:
    """Remove result ``i`` if it is unused; a loop drops the carried value with it.

    The operators that compute it stay; they may be dead then.

    Return False, and change nothing, if the result is read, or in a loop its value in the next iteration is; if it is a loop's
    condition; or if it is the cotangent that a loop's gradient passes on.
    """
    _check_regions(op)
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
    kept = value in graph.residuals
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
