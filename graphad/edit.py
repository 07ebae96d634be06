"""Edits of graphs: build and copy operators, change operators with nested graphs, and rewrite loops. The library's passes use these.

    with edit.by(graph, "my-tool"):
        for loop in edit.loops(graph):
            edit.peel(loop)

Each edit leaves a valid graph, or raises an ``InvalidGraph`` that says what was expected and what was found, and changes
nothing. What it makes says who made it and from what (``graph.why``). Single operators and values are changed by the methods of ``Graph``.
``docs/edit-a-graph.md`` shows every edit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from graphad.errors import InvalidGraph, InvalidType
from graphad.ir import Builder, Graph, GraphSymbol, Op, Value
from graphad.ir.clone import ValueMap, input_like
from graphad.ir.edits import (
    BRANCH,
    CALL,
    LOOP,
    add_carried,
    add_operand,
    add_operands,
    add_region_op,
    add_result,
    clone_ops,
    gradients_of,
    has_gradient,
    inline,
    insert_carried,
    insert_results,
    is_bound,
    open_sealed,
    outline,
    peel,
    remove_operand,
    remove_result,
    replace_by_copy,
    run_once,
    set_yielded,
    skip,
    split_loop,
    split_writers,
    unroll,
)
from graphad.ir.provenance import recorded
from graphad.ir.regions import BranchLike, CallLike, LoopLike
from graphad.ir.residuals import add_residual, drop_residuals, drop_unread_residuals, replace_residual, take_residuals
from graphad.types import Function

Body = Function  # of symbols, the block arguments, to a symbol or several: what the graph yields


@contextmanager
def by(graph: Graph, author: str) -> Iterator[None]:
    """Record operators that are made meanwhile as made by ``author``: ``op.made_by``, and what ``graph.why`` tells."""
    journal = graph.journal
    before = journal.author, journal.origin
    # Without an origin: what is made here does not come from the operators of a rewrite that may be going on.
    journal.author, journal.origin = author, None
    try:
        yield
    finally:
        journal.author, journal.origin = before


def loops(graph: Graph) -> list[Op]:
    """The loops of a graph and of those nested in it, outer ones first, without gradients of loops."""
    loops_ = [LoopLike.of(op) for subgraph in graph.tree() for op in subgraph.controls]
    return [loop.op for loop in loops_ if loop is not None and not loop.is_gradient]


# -- building ------------------------------------------------------------------------------------


def add_loop(graph: Graph, carried: Sequence[Value], captured: Sequence[Value], body: Body, before: Op | None = None) -> list[Value]:
    """Build a ``while`` loop; return its results, one for each carried value.

    Args:
        graph: where it goes.
        carried: what the carried values start from; the last one is the condition, one boolean.
        captured: other values that the body reads.
        body: takes a symbol for each of them, and returns what the carried values are in the next iteration.
        before: the operator it comes before; last, if it is not given.

    Raises:
        InvalidGraph: the body returns another number of values than are carried, or a value is of another graph.
    """
    return _built(graph, LOOP, [body], carried, captured, (), before, len(carried))


def add_branch(
    graph: Graph, condition: Value, given: Sequence[Value], taken: Body, otherwise: Body, before: Op | None = None
) -> list[Value]:
    """Build an ``if_else``; return its results. ``taken`` and ``otherwise`` take a symbol for each given value, and return the results.

    Raises:
        InvalidGraph: they return different numbers of values, or a value is of another graph.
    """
    return _built(graph, BRANCH, [taken, otherwise], (), given, (condition,), before, None)


def add_call(graph: Graph, given: Sequence[Value], body: Body, before: Op | None = None) -> list[Value]:
    """Build a ``net``; return its results. ``body`` takes a symbol for each given value, and returns the results.

    Raises:
        InvalidGraph: a value is of another graph.
    """
    return _built(graph, CALL, [body], (), given, (), before, None)


def _built(
    graph: Graph,
    op_type: str,
    bodies: Sequence[Body],
    carried: Sequence[Value],
    captured: Sequence[Value],
    condition: Sequence[Value],
    before: Op | None,
    count: int | None,
) -> list[Value]:
    for value in (*carried, *captured, *condition):
        if value.graph is not graph:
            raise InvalidGraph(f"{op_type} cannot read {value.name}, which is not in its graph")
    with recorded(graph, f"add-{op_type}"):
        graphs = [_filled(graph, body, [*carried, *captured]) for body in bodies]
        counts = [len(subgraph.results) for subgraph in graphs]
        # Branches give as many results as each other, and a loop yields as many values as it carries.
        if len({*counts, *(() if count is None else (count,))}) > 1:
            raise InvalidGraph(
                f"{op_type}: its nested graphs yield {counts} values" + ("" if count is None else f", but it carries {count}")
            )
        results = [graph.add_value(value.name, value.shape, value.dtype) for value in graphs[0].results]
        for result, value in zip(results, graphs[0].results, strict=True):
            result.kind = value.kind
        add_region_op(graph, op_type, graphs, [*carried, *captured], results, condition, before)
    return results


def _filled(around: Graph, body: Body, inputs: Sequence[Value]) -> Graph:
    graph = around.nested()
    for value in inputs:
        graph.inputs.append(input_like(graph, value))
    builder = Builder(graph)
    results = body(*map(builder.symbol, graph.inputs))
    symbols = results if isinstance(results, list | tuple) else [results]
    for symbol in symbols:
        if not isinstance(symbol, GraphSymbol) or symbol.value.graph is not graph:
            raise InvalidType(f"what a nested graph yields are symbols of its own, not {symbol!r}")
    graph.results = [symbol.value for symbol in symbols]
    return graph


# -- splitting -----------------------------------------------------------------------------------


def split_call(op: Op, first: Sequence[Op]) -> tuple[Op, Op]:
    """Split a call in two: ``first`` are the operators of its graph that come first, the second call has the others.

    Returns:
        The two calls.

    Raises:
        InvalidGraph: it is not a call, it has a gradient or is one, or one of the first operators reads what one of the others writes.
    """
    call = CallLike.of(op)
    if call is None or call.is_gradient or has_gradient(op):
        raise InvalidGraph(f"{op!r} cannot be split: it is no call, or it has a gradient or is one")
    (body,) = op.graphs.values()
    ops, members = body.ordered_ops(), set(first)
    places = [i for i, candidate in enumerate(ops) if candidate in members]
    if not 0 < len(places) < len(ops) or len(places) < len(members):
        raise InvalidGraph(f"{op!r} is split into some of its {len(ops)} operators and the others, not {len(places)} and the others")
    for member in first:
        for writer in (writer for value in member.reads() for writer in value.writers):
            if writer not in members:
                raise InvalidGraph(f"{member!r} cannot be in the first call: it reads what {writer!r} writes, which is in the second")
    with recorded(op.graph, "split", op):
        new_ops = inline(op)
        # Inlined and outlined again: what one part passes to the other becomes a result and an operand by itself.
        parts = [new_ops[i] for i in places], [candidate for i, candidate in enumerate(new_ops) if i not in set(places)]
        first_call = outline(parts[0])
        return first_call, outline(parts[1])


__all__ = [
    "BRANCH",
    "CALL",
    "LOOP",
    "BranchLike",
    "Builder",
    "CallLike",
    "LoopLike",
    "ValueMap",
    "add_branch",
    "add_call",
    "add_carried",
    "add_loop",
    "add_operand",
    "add_operands",
    "add_region_op",
    "add_residual",
    "add_result",
    "by",
    "clone_ops",
    "drop_residuals",
    "drop_unread_residuals",
    "gradients_of",
    "has_gradient",
    "inline",
    "insert_carried",
    "insert_results",
    "is_bound",
    "loops",
    "open_sealed",
    "outline",
    "peel",
    "remove_operand",
    "remove_result",
    "replace_by_copy",
    "replace_residual",
    "run_once",
    "set_yielded",
    "skip",
    "split_call",
    "split_loop",
    "split_writers",
    "take_residuals",
    "unroll",
]
