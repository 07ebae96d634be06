"""Loops in other forms: iterations taken out in front, several in one, a loop in two, a loop that does not run.

    peel     while(h) { f }     ⇒   h = f(h); while(h) { f }                 or, if it may run no iteration, if_else(c) { f } first
    unroll   while(h) { f }     ⇒   while(h) { f; f }
    split    while(h) { f }     ⇒   while(h, 0) { f; count } up to n times; while(h) { f }
    skip     while(h) -> h'     ⇒   h in the place of h'

Each needs a loop without gradient, whose body may be copied: a random operator draws anew in each iteration, a copy would draw the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphad.errors import InvalidGraph
from graphad.graph.clone import input_like
from graphad.graph.graph import Graph
from graphad.graph.nodes import Op, Value
from graphad.graph.provenance import note, recorded
from graphad.graph.regions import LoopLike
from graphad.graph.regions_copying import copy_into, fresh_like
from graphad.graph.regions_editing import insert_carried
from graphad.graph.regions_inlining import BRANCH, add_region_op, gradients_of, replace_by_copy


def peel(op: Op, runs: bool = False) -> list[Op]:
    """Take the first iteration of a loop out of it.

    Args:
        op: a loop.
        runs: whether there is a first iteration for sure, so that it needs no condition. Whoever says so is trusted.

    Returns:
        The operators in front of the loop: those of the iteration, or the branch that holds them.

    Raises:
        InvalidGraph: it is no loop, it has a gradient or is one, or its body cannot be copied.
    """
    loop = _to_rewrite(op, "peeled")
    (body,) = op.graphs.values()
    with recorded(op.graph, "peel", op):
        if runs:
            copies = copy_into(body, op.graph, loop.operands, before=op)
            made, carried = note(copies.ops.values()), [copies.values[result] for result in body.results]
        else:
            made, carried = _first_if_any(loop, body)
    _start_from(loop, carried)
    return made


def run_once(op: Op) -> list[Op]:
    """Put one iteration in the place of a loop that runs one, which whoever says so is trusted with; return its operators.

    Raises:
        InvalidGraph: as for ``peel``.
    """
    loop = _to_rewrite(op, "replaced by an iteration")
    (body,) = op.graphs.values()
    with recorded(op.graph, "run-once", op):
        return note(each for each in replace_by_copy(op, body, loop.operands))


def unroll(op: Op, factor: int) -> Op:
    """Put a loop that does ``factor`` iterations in one in the place of a loop; return it.

    The number of iterations must be a multiple of it, which whoever says so is trusted with: the condition is looked at after each
    ``factor`` iterations only.

    Raises:
        InvalidGraph: as for ``peel``, or ``factor`` is below 1.
    """
    loop = _to_rewrite(op, "unrolled")
    if factor < 1:
        raise InvalidGraph(f"{op!r} can be unrolled by a factor of 1 or more, not {factor}")
    (body,), count = op.graphs.values(), len(loop.results)
    with recorded(op.graph, "unroll", op):
        longer = _with_inputs(op.graph, body)
        carried, captured = longer.inputs[:count], longer.inputs[count:]
        for _ in range(factor):
            copies = copy_into(body, longer, [*carried, *captured])
            carried = [copies.values[result] for result in body.results]
            note(copies.ops.values())
        longer.results = carried
        made = op.graph.add_op(op.type, op.inputs, op.outputs, op.attrs, before=op, role=op.role, graphs={loop.name: longer})
    made.source, made.forward = op.source, op.forward
    op.graph.remove_op(op)
    return made


def split_loop(op: Op, count: int) -> tuple[Op, Op]:
    """Split a loop in two: one that runs at most ``count`` iterations, and one that runs the others.

    Returns:
        The two; the second one is the loop itself.

    Raises:
        InvalidGraph: as for ``peel``, or ``count`` is negative.
    """
    loop = _to_rewrite(op, "split")
    if count < 0:
        raise InvalidGraph(f"{op!r} can be split after 0 iterations or more, not {count}")
    graph, (body,) = op.graph, op.graphs.values()
    with recorded(graph, "split", op):
        inner = _with_inputs(graph, body)
        copies = copy_into(body, inner, inner.inputs)
        note(copies.ops.values())
        inner.results = [copies.values[result] for result in body.results]
        results = [fresh_like(graph, value) for value in loop.results]
        first = graph.add_op(
            op.type,
            {loop.definition.operands: loop.operands, loop.definition.condition: loop.condition},
            {loop.definition.results: results},
            op.attrs,
            before=op,
            role=op.role,
            graphs={loop.name: inner},
        )
        first.source = op.source
        _at_most(LoopLike(first, loop.definition), inner, count)
    _start_from(loop, results)
    return first, op


def skip(op: Op) -> None:
    """Take out a loop that runs no iteration, which whoever says so is trusted with: its results are what it starts from.

    Raises:
        InvalidGraph: it is no loop, or it has a gradient or is one.
    """
    loop = _without_gradient(op, "skipped")
    for out, start in zip(loop.results, loop.carried, strict=True):
        op.graph.substitute(out, start)
    op.graph.remove_op(op)


# -- parts ---------------------------------------------------------------------------------------


def _without_gradient(op: Op, what: str) -> LoopLike:
    loop = LoopLike.of(op)
    if loop is None or loop.is_gradient:
        raise InvalidGraph(f"{op!r} cannot be {what}: it is no loop, or the gradient of one")
    if gradients_of(op) != []:
        raise InvalidGraph(f"{op!r} cannot be {what}: its gradient reads what each iteration leaves")
    return loop


def _to_rewrite(op: Op, what: str) -> LoopLike:
    loop = _without_gradient(op, what)
    bound = next((each for graph in op.graphs.values() for inner in graph.tree() for each in inner.ops if is_bound(each)), None)
    if bound is not None:
        raise InvalidGraph(f"{op!r} cannot be {what}: {bound!r} in it draws random numbers, or runs once per scope, so that it has no copy")
    return loop


def is_bound(op: Op) -> bool:
    """Whether an operator may not be copied: it draws random numbers, each iteration others, or runs once per scope."""
    return "run_once" in op.attrs or (op.row is not None and op.row.random)


def _start_from(loop: LoopLike, carried: Sequence[Value]) -> None:
    """Let a loop start from other values; its condition is the last one."""
    op, row = loop.op, loop.definition
    op.graph.set_inputs(op, row.operands, [*carried, *loop.captured])
    op.graph.set_inputs(op, row.condition, carried[-1:])


def _with_inputs(around: Graph, like: Graph) -> Graph:
    """A graph for an operator of ``around`` with the inputs of another one."""
    made = around.nested()
    made.inputs = [made.add_input(v.name, v.shape, v.dtype, v.var) for v in like.inputs]
    for value, old in zip(made.inputs, like.inputs, strict=True):
        value.kind = old.kind
    return made


def _first_if_any(loop: LoopLike, body: Graph) -> tuple[list[Op], list[Value]]:
    """A branch before a loop that runs its first iteration if the condition holds; with its results."""
    op, graph = loop.op, loop.op.graph
    taken, other = _with_inputs(graph, body), _with_inputs(graph, body)
    copies = copy_into(body, taken, taken.inputs)
    note(copies.ops.values())
    taken.results = [copies.values[result] for result in body.results]
    other.results = other.inputs[: len(body.results)]
    results = [fresh_like(graph, value) for value in loop.results]
    branch = add_region_op(graph, BRANCH, [taken, other], loop.operands, results, loop.condition, before=op, role=op.role)
    branch.source = op.source
    return [branch], results


def _at_most(loop: LoopLike, body: Graph, count: int) -> None:
    """Let a loop end after some iterations, if it has not ended before: it counts them, and goes on as long as both say so."""
    op, graph, (holds,), again = loop.op, loop.op.graph, loop.condition, body.results[-1]
    number, most = _filled(graph, "count", 0, op), _filled(graph, "most", count, op)
    start = _both(graph, holds, number, most, op)
    counted, go, limit = (input_like(body, value) for value in (number, start, most))
    body.inputs.append(limit)
    graph.set_inputs(op, loop.definition.operands, [*loop.operands, most])
    raised = body.add_value("count", (1,), "int64")
    body.add_op("increment", {"X": [counted]}, {"Out": [raised]}, {"step": 1.0}, role=op.role)
    ends = [graph.add_value("count", (1,), "int64"), graph.add_value("go", start.shape, "bool")]
    insert_carried(op, [number, start], [counted, go], [raised, _both(body, again, raised, limit, None)], ends, last=True)


def _filled(graph: Graph, name: str, number: int, before: Op) -> Value:
    value = graph.add_value(name, (1,), "int64")
    graph.add_op("fill_constant", {}, {"Out": [value]}, {"shape": [1], "value": float(number), "dtype": "int64"}, before, before.role)
    return value


def _both(graph: Graph, holds: Value, number: Value, most: Value, before: Op | None) -> Value:
    """Whether a condition holds and a number is below another one."""
    fewer, both = graph.add_value("fewer", (1,), "bool"), graph.add_value("go", (1,), "bool")
    graph.add_op("less_than", {"X": [number], "Y": [most]}, {"Out": [fewer]}, before=before)
    graph.add_op("logical_and", {"X": [holds], "Y": [fewer]}, {"Out": [both]}, before=before)
    return both
