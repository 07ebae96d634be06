"""A nested graph put in the place of its operator, and operators put into a net.

net { a = tanh(x) } -> a      ⇒      a = tanh(x)      ⇒      net { a = tanh(x) } -> a
"""

from __future__ import annotations

from collections.abc import Sequence

from graphad.errors import InvalidGraph
from graphad.graph.clone import ValueMap, input_like
from graphad.graph.graph import Graph
from graphad.graph.nodes import Op, Value
from graphad.graph.regions import control_row, is_loop, operands, outcomes, scopes_of, the_row
from graphad.graph.regions_copying import copy_into, copy_op, fresh_like
from graphad.graph.residuals import add_residual, drop_unread_residuals, gradient_ops, readings
from graphad.ops import REGISTRY, ControlDef, LoopDef
from graphad.program import EMPTY
from graphad.types import FLOATS

# What edits make where an operator has to be made.
LOOP = "while"
BRANCH = "if_else"
CALL = "net"


def has_gradient(op: Op) -> bool:
    """Whether there is a gradient of the operator, which reads what its graphs leave."""
    return bool(gradient_ops(op))


def replace_by_copy(op: Op, nested: Graph, given: Sequence[Value]) -> list[Op]:
    """Put a copy of a nested graph, whose inputs are ``given``, in the place of an operator without gradient; return the operators.

    Raises:
        InvalidGraph: the operator has a gradient.
    """
    if has_gradient(op):
        raise InvalidGraph(f"{op!r} cannot be replaced: a gradient reads what it keeps")
    twins = ValueMap()
    _copied_out(op, nested, given, twins)
    op.graph.remove_op(op)
    return list(twins.ops.values())


def _copied_out(op: Op, nested: Graph, given: Sequence[Value], twins: ValueMap) -> None:
    """Copy a nested graph before its operator, and replace the operator's results by those of the copy."""
    copy_into(nested, op.graph, given, op, _onto(op, nested), twins)
    for out, result in zip(outcomes(op), nested.results, strict=True):
        found = twins.values[result]
        if found is not out and out.name != EMPTY:
            op.graph.substitute(out, found)


def inline(op: Op, name: str | None = None) -> list[Op]:
    """Put the operators of a nested graph in the place of its operator, and those of its gradients in the place of these, if there are any.

    What the operator wrote keeps its name; a value from inside gets a number if its name is taken.

    Args:
        op: a branch or a call; the others of its graphs are gone.
        name: the attribute that holds the graph; it may be left out where there is one.

    Returns:
        The operators of the graph.

    Raises:
        InvalidGraph: it is a loop or a gradient, it has no graph of this name, or something else than its gradient reads its residuals
            (``gradients_of`` is None).

    >>> import graphad as ga
    >>> graph = ga.lower(ga.Program.parse('''program {
    ...   block 0 {
    ...     var x: float32[2]
    ...     net(X=x) -> (Out=y) {sub_block=block(1)}
    ...   }
    ...   block 1 in 0 {
    ...     tanh(X=x) -> (Out=t)
    ...     elementwise_mul(X=t, Y=t) -> (Out=y)
    ...   }
    ... }'''))
    >>> inline(graph.ops.first)
    [tanh(X=x) -> (Out=t), elementwise_mul(X=t, Y=t) -> (Out=y)]
    """
    names = list(op.graphs)
    if control_row(op) is None or (name is None and len(names) > 1) or (name is not None and name not in names):
        raise InvalidGraph(f"{op!r} cannot be inlined: which graph? It has {names or 'none'}, got {name!r}")
    grads = gradients_of(op)
    if is_loop(op) or the_row(op).is_grad or grads is None:
        raise InvalidGraph(f"{op!r} cannot be inlined: it is a loop, or a gradient, or its residuals are read")
    which = 0 if name is None else names.index(name)
    graph, twins = op.graph, ValueMap()
    _copied_out(op, op.graphs[names[which]], operands(op), twins)
    made = list(twins.ops.values())
    kept = [twins.values[value] for value in op.graphs[names[which]].residuals]
    for grad in grads:
        inner, around = list(grad.graphs.values())[which], grad.graph
        _copied_out(grad, inner, [*operands(grad), *(_read_in(around, graph, value) for value in kept)], twins)
        around.remove_op(grad)
    graph.remove_op(op)
    drop_unread_residuals(graph)
    return made


def gradients_of(op: Op) -> list[Op] | None:
    """The gradients of an operator; None where anything else reads what it keeps for them."""
    scopes = scopes_of(op)
    if scopes is None:
        return []
    read, grads = list(readings(scopes)), gradient_ops(op)
    fits = all(len(grad.graphs) == len(op.graphs) and not is_loop(grad) for grad in grads)
    escapes = any(value in value.graph.results or value in value.graph.targets for value in read)
    others = any(reader not in grads for value in read for reader in value.readers)
    return grads if fits and not escapes and not others else None


def _read_in(around: Graph, graph: Graph, value: Value) -> Value:
    """A forward value as a gradient reads it, which may be in a graph of its own."""
    return value if around is graph else add_residual(graph, value)[around]


def _onto(op: Op, nested: Graph) -> dict[Value, Value]:
    """The values outside that the copies write directly: the results of their operator."""
    onto: dict[Value, Value] = {}
    for out, result in zip(outcomes(op), nested.results, strict=True):
        same = out.stop_gradient == result.stop_gradient or not _may_have_gradient(out)
        if result.writers and same and out.name != EMPTY:
            onto.setdefault(result, out)
    return onto


def _may_have_gradient(value: Value) -> bool:
    return value.dtype is None or value.dtype in FLOATS


def outline(ops: Sequence[Op]) -> Op:
    """Make a ``net`` of operators of one graph; it takes the place of the last of them.

    Its arguments are what they read from outside; its results are what is read or requested outside, under the same names.

    Args:
        ops: operators in this order; what is between two of them must be among them.

    Raises:
        InvalidGraph: there are none, they are of several graphs, a nested graph of theirs has a gradient outside, or an operator between
            two of them that depends on one, and on which another depends, is not among them.

    >>> import graphad as ga
    >>> graph = ga.lower(ga.Program.parse('''program {
    ...   block 0 {
    ...     var x: float32[2]
    ...     tanh(X=x) -> (Out=t)
    ...     elementwise_mul(X=t, Y=t) -> (Out=y)
    ...   }
    ... }'''))
    >>> outline(list(graph.ops))
    net(X=x) -> (Out=y)
    """
    if not ops or any(op.graph is not ops[0].graph for op in ops):
        raise InvalidGraph("a net is made of operators of one graph")
    if any(has_gradient(op) or (op.graphs and the_row(op).is_grad) for op in ops):
        raise InvalidGraph("an operator with nested graphs and its gradient stay where they are")
    graph, inside = ops[0].graph, set(ops)
    _check_together(ops, inside)
    reads = [value for op in ops for value in op.reads() if not any(w in inside for w in value.writers)]
    given = list(dict.fromkeys(reads))
    out = [v for op in ops for v in op.writes() if graph.is_observed(v) or any(r not in inside for r in v.readers)]
    nested, twins = graph.nested(), ValueMap(graphs={graph: graph})
    nested.inputs = [input_like(nested, value) for value in given]
    twins.values.update(zip(given, nested.inputs, strict=True))
    for op in ops:
        _copy_in(op, nested, twins)
    nested.results = [twins.values[value] for value in out]
    net = add_region_op(graph, CALL, [nested], given, out, before=ops[-1].next, role=ops[0].role)
    net.source = ops[0].source
    for op in reversed(ops):
        graph.remove_op(op)
    return net


def _check_together(ops: Sequence[Op], inside: set[Op]) -> None:
    """Refuse operators of which one waits for an operator in between that waits for another one."""
    waiting, op = set[Op](), ops[0]
    while op is not ops[-1] and op.next is not None:
        op = op.next
        for writer in (writer for value in op.reads() for writer in value.writers):
            if op not in inside and (writer in inside or writer in waiting):
                waiting.add(op)
            elif op in inside and writer in waiting:
                raise InvalidGraph(f"{op!r} and what it waits for are to be in one net, but {writer!r} between them is left out")


def add_region_op(
    graph: Graph,
    op_type: str,
    graphs: Sequence[Graph],
    given: Sequence[Value],
    out: Sequence[Value],
    condition: Sequence[Value] = (),
    before: Op | None = None,
    role: str | None = None,
) -> Op:
    """A new operator over nested graphs that are filled already.

    Args:
        graph: where it goes.
        op_type: an operator with as many nested graphs.
        graphs: its nested graphs, made by ``graph.nested()``, each with an input for each operand and a result for each of the results.
        given, out: its operands and results. Of a loop the first operands are those it carries, as many as there are results; the
            last of them is the condition.
        condition: the values that decide, of a branch; of a loop that is known.
        before: the operator it comes before; last, if it is not given.
        role: its role; forward, if it is not given.

    Raises:
        InvalidGraph: numbers differ, or the operator is not one with nested graphs.
    """
    row = REGISTRY.get(op_type)
    if not isinstance(row, ControlDef) or row.is_grad or len(row.blocks) != len(graphs):
        has = f"it has {len(row.blocks)}" if isinstance(row, ControlDef) else "it has none"
        raise InvalidGraph(f"{op_type} is no operator with {len(graphs)} nested graphs: {has}, or is a gradient")
    for inner in graphs:
        if (len(inner.inputs), len(inner.results)) != (len(given), len(out)):
            takes = f"takes {len(inner.inputs)} values and yields {len(inner.results)}"
            raise InvalidGraph(f"a nested graph of {op_type} {takes}, but there are {len(given)} operands and {len(out)} results")
    tests = given[len(out) - 1 : len(out)] if isinstance(row, LoopDef) else condition
    slots = {**({row.operands: given} if given else {}), **({row.condition: tests} if row.condition else {})}
    results = {row.results: out} if out else {}
    return graph.add_op(op_type, slots, results, before=before, role=role, graphs=dict(zip(row.blocks, graphs, strict=True)))


def _copy_in(op: Op, nested: Graph, twins: ValueMap) -> None:
    for value in op.writes():
        twins.values[value] = fresh_like(nested, value)
    nested.link(copy_op(op, nested, twins))
