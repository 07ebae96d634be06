"""Edits of whole regions: operators copied from graph to graph, operands and results added and dropped, graphs inlined and outlined."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from graphad.errors import InvalidGraph
from graphad.ir.clone import ValueMap, copy_op, input_like
from graphad.ir.graph import Graph
from graphad.ir.nodes import Op, Value
from graphad.ir.provenance import note, recorded
from graphad.ir.regions import (
    LoopLike,
    carried_count,
    control_definition,
    definition_of,
    first_captured,
    is_forward_loop,
    is_loop,
    is_loop_gradient,
    operands,
    results_of,
    scopes_of,
)
from graphad.ir.residuals import as_read_in, drop_unread_residuals, find_forward_op, gradient_ops, readings, residual_inputs
from graphad.ir.tables import WIDE
from graphad.ops import REGISTRY, ControlDef, LoopDef
from graphad.program import EMPTY
from graphad.types import FLOATS

# -- regions copying -------------------------------------------------------------------------------
# Copies of operators from one graph to another: out of a nested graph, or into one.
#
# net { a = tanh(x); b = a * a } -> b     ⇒     a = tanh(x); b = a * a     in the graph around, x and b being values there


def copy_into(
    nested: Graph,
    around: Graph,
    given: Sequence[Value],
    before: Op | None = None,
    onto: Mapping[Value, Value] | None = None,
    mapping: ValueMap | None = None,
) -> ValueMap:
    """Copy the operators of a nested graph into another graph, before one of its operators, or last.

    Args:
        nested: the graph to copy; it is not changed.
        around: the graph to copy to.
        given: the values there that its inputs are.
        before: where the copies go.
        onto: values of the nested graph -> those of ``around`` that are to be written in their place.
        mapping: a value map, which may hold earlier copies, such as those of the forward graph; the new copies are added.

    Returns:
        The copy of each value, operator and graph.
    """
    mapping = ValueMap() if mapping is None else mapping
    mapping.graphs[nested] = around
    mapping.values.update(zip(nested.inputs, given, strict=True))
    mapping.values.update(onto or {})
    # In the order of the table, not of the operators: versions of one name keep their order, so the last stays the final one.
    values = [value for value in nested.values if value not in mapping.values]
    for value in values:
        mapping.values[value] = fresh_like(around, value)
    for op in nested.ordered_ops():
        around.link(copy_op(op, around, mapping), before)
    for value in values:
        if value.grad_of is not None:
            mapping.values[value].grad_of = mapping.values.get(value.grad_of, value.grad_of)
    return mapping


def clone_ops(ops: Sequence[Op], around: Graph, values: ValueMap | None = None, before: Op | None = None) -> ValueMap:
    """Copy operators, with the graphs nested in them, over other values or the same.

    Args:
        ops: operators in topological order.
        around: the graph to copy to.
        values: what the copies read in the place of what the operators read. A value that is not in it, and that none of the operators
            writes, is read itself. The copies are added.
        before: where the copies go; last, if it is not given.

    Returns:
        The copy of each value that is written, of each operator, and of each nested graph. A random operator's copy draws other numbers.

    Raises:
        InvalidGraph: a value that is read is neither in the map nor in the graph ``around``; an operator is a gradient of one with nested
            graphs, or has one; it runs once per scope.
    """
    mapping = ValueMap() if values is None else values
    for op in ops:
        _check_copied(op)
        for value in op.reads():
            if value not in mapping.values and value.graph is not around:
                raise InvalidGraph(f"{op!r} cannot be copied to {around!r}: it reads {value.name}, which has no value there")
            # What none of the copied operators writes is read where it is. Those before in the list have put their copies here.
            mapping.values.setdefault(value, value)
        mapping.values.update((value, fresh_like(around, value)) for value in op.writes())
        counterpart = copy_op(op, around, mapping)
        _draw_anew(counterpart)
        around.link(counterpart, before)
    for op in ops:
        note([mapping.ops[op]])
    return mapping


def _check_copied(op: Op) -> None:
    if gradient_ops(op) or any(residual_inputs(graph) for graph in op.graphs.values()):
        raise InvalidGraph(f"{op!r} cannot be copied: it has a gradient, or is one, and the two belong together")
    if "run_once" in op.attrs or any(
        "run_once" in inner.attrs for graph in op.graphs.values() for part in graph.tree() for inner in part.ops
    ):
        raise InvalidGraph(f"{op!r} cannot be copied: it, or an operator in it, runs once per scope, the copy would run again")


def _draw_anew(op: Op) -> None:
    op.stream = None
    for graph in op.graphs.values():
        for subgraph in graph.tree():
            for inner in subgraph.ops:
                inner.stream = None


def fresh_like(graph: Graph, value: Value) -> Value:
    """A new value like one of another graph, under its name or, if that is taken, one with a number."""
    name = name_in(graph, value)
    result = graph.add_version(name, value.shape, value.dtype, value.var_named(name))
    result.kind = value.kind
    return result


def name_in(graph: Graph, value: Value) -> str:
    """The name that a value of another graph can have in this one: its own, if that is free or declared for it."""
    name, block = value.name, graph.block
    # The block of the target may declare this very variable: an outlined operator brought back gets its name again.
    if name == EMPTY or (
        value.var is not None and name not in graph.values.by_name and block is not None and block.vars.get(name) is value.var
    ):
        return name
    return graph.values.fresh(name)


# -- regions inlining ------------------------------------------------------------------------------
# A nested graph put in the place of its operator, and operators put into a net.
#
# net { a = tanh(x) } -> a      ⇒      a = tanh(x)      ⇒      net { a = tanh(x) } -> a

# What edits make where an operator has to be made.
LOOP = "while"
BRANCH = "if_else"
CALL = "net"


def has_gradient(op: Op) -> bool:
    """Whether there is a gradient of the operator, which reads what its graphs leave."""
    return bool(gradient_ops(op))


def replace_by_copy(op: Op, nested: Graph, inputs: Sequence[Value]) -> list[Op]:
    """Put a copy of a nested graph, whose inputs are ``inputs``, in the place of an operator without gradient; return the operators.

    Raises:
        InvalidGraph: the operator has a gradient.
    """
    if has_gradient(op):
        raise InvalidGraph(f"{op!r} cannot be replaced: a gradient reads what it keeps")
    mapping = ValueMap()
    _copied_out(op, nested, inputs, mapping)
    op.graph.remove_op(op)
    return list(mapping.ops.values())


def _copied_out(op: Op, nested: Graph, inputs: Sequence[Value], mapping: ValueMap) -> None:
    """Copy a nested graph before its operator, and replace the operator's results by those of the copy."""
    copy_into(nested, op.graph, inputs, op, _onto(op, nested), mapping)
    for out, result in zip(results_of(op), nested.results, strict=True):
        value = mapping.values[result]
        if value is not out and out.name != EMPTY:
            op.graph.substitute(out, value)


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
    if control_definition(op) is None or (name is None and len(names) > 1) or (name is not None and name not in names):
        raise InvalidGraph(f"{op!r} cannot be inlined: which graph? It has {names or 'none'}, got {name!r}")
    grads = gradients_of(op)
    if is_loop(op) or definition_of(op).is_grad or grads is None:
        raise InvalidGraph(f"{op!r} cannot be inlined: it is a loop, or a gradient, or its residuals are read")
    place = 0 if name is None else names.index(name)
    graph, mapping = op.graph, ValueMap()
    _copied_out(op, op.graphs[names[place]], operands(op), mapping)
    ops = list(mapping.ops.values())
    values = [mapping.values[value] for value in op.graphs[names[place]].residuals]
    # A gradient is inlined too: its residuals are values beside it now, or residuals of the graph around where it is nested in a gradient
    # itself.
    for grad in grads:
        inner, around = list(grad.graphs.values())[place], grad.graph
        _copied_out(grad, inner, [*operands(grad), *(as_read_in(around, value) for value in values)], mapping)
        around.remove_op(grad)
    graph.remove_op(op)
    drop_unread_residuals(graph)
    return ops


def open_sealed(graph: Graph) -> bool:
    """Inline all sealed calls, so that passes see their operators one by one; return whether there was any.

    What differentiates or divides a program calls it first, for its rules are those of operators. The innermost are opened first.
    """
    ops = [op for subgraph in graph.tree() for op in subgraph.controls if op.is_sealed]
    for op in reversed(ops):
        inline(op)
    return bool(ops)


def gradients_of(op: Op) -> list[Op] | None:
    """The gradients of an operator; None where anything else reads what it keeps for them."""
    scopes = scopes_of(op)
    if scopes is None:
        return []
    # The residuals are one value to the graph around. Inlining takes it away, so nothing but gradients of the same form may read it.
    values, grads = list(readings(scopes)), gradient_ops(op)
    has_same_form = all(len(grad.graphs) == len(op.graphs) and not is_loop(grad) for grad in grads)
    escapes = any(value in value.graph.results or value in value.graph.targets for value in values)
    has_other_readers = any(reader not in grads for value in values for reader in value.readers)
    return grads if has_same_form and not escapes and not has_other_readers else None


def _onto(op: Op, nested: Graph) -> dict[Value, Value]:
    """The values outside that the copies write directly: the results of their operator."""
    onto: dict[Value, Value] = {}
    for out, result in zip(results_of(op), nested.results, strict=True):
        # A copy writes the result itself where gradients flow through both in the same way, else ``substitute`` settles it.
        has_same_flow = out.gradient_marks == result.gradient_marks or not (out.dtype is None or out.dtype in FLOATS)
        if result.writers and has_same_flow and out.name != EMPTY:
            onto.setdefault(result, out)
    return onto


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
    graph, inside = ops[0].graph, set(ops)
    with_regions = [op for op in ops if op.graphs]
    with_forward = all(find_forward_op(op) in inside for op in with_regions if definition_of(op).is_grad)
    if not with_forward or not all(inside.issuperset(gradient_ops(op)) for op in with_regions):
        raise InvalidGraph("an operator with nested graphs and its gradient stay together")
    _check_together(ops, inside)
    reads = [value for op in ops for value in op.reads() if not any(w in inside for w in value.writers)]
    inputs = list(dict.fromkeys(reads))
    out = [v for op in ops for v in op.writes() if graph.is_observed(v) or any(r not in inside for r in v.readers)]
    net_graph, mapping = graph.nested(), ValueMap(graphs={graph: graph})
    net_graph.inputs = [input_like(net_graph, value) for value in inputs]
    mapping.values.update(zip(inputs, net_graph.inputs, strict=True))
    for op in ops:
        _copy_in(op, net_graph, mapping)
    net_graph.results = [mapping.values[value] for value in out]
    net = add_region_op(graph, CALL, [net_graph], inputs, out, before=ops[-1].next, role=ops[0].role)
    net.source = ops[0].source
    # Readers first: a value goes with the last operator that it is connected to.
    for op in reversed(ops):
        graph.remove_op(op)
    return net


def _check_together(ops: Sequence[Op], inside: set[Op]) -> None:
    """Refuse operators if one between them, which is left out, depends on some of them and others depend on it."""
    # ``dependents``: operators between, not among them, that depend on one of them. If one of them depends on such an operator, the
    # net would wait for itself.
    dependents, op = set[Op](), ops[0]
    while op is not ops[-1] and op.next is not None:
        op = op.next
        for writer in (writer for value in op.reads() for writer in value.writers):
            if op not in inside and (writer in inside or writer in dependents):
                dependents.add(op)
            elif op in inside and writer in dependents:
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
    definition = REGISTRY.get(op_type)
    if not isinstance(definition, ControlDef) or definition.is_grad or len(definition.blocks) != len(graphs):
        has = f"it has {len(definition.blocks)}" if isinstance(definition, ControlDef) else "it has none"
        raise InvalidGraph(f"{op_type} is no operator with {len(graphs)} nested graphs: {has}, or is a gradient")
    for inner in graphs:
        if (len(inner.inputs), len(inner.results)) != (len(given), len(out)):
            takes = f"takes {len(inner.inputs)} values and yields {len(inner.results)}"
            raise InvalidGraph(f"a nested graph of {op_type} {takes}, but there are {len(given)} operands and {len(out)} results")
    # A loop's condition is the last value that it carries: operand, argument and result at one place.
    tests = given[len(out) - 1 : len(out)] if isinstance(definition, LoopDef) else condition
    slots = {**({definition.operands: given} if given else {}), **({definition.condition: tests} if definition.condition else {})}
    results = {definition.results: out} if out else {}
    return graph.add_op(op_type, slots, results, before=before, role=role, graphs=dict(zip(definition.blocks, graphs, strict=True)))


def _copy_in(op: Op, nested: Graph, mapping: ValueMap) -> None:
    for value in op.writes():
        mapping.values[value] = fresh_like(nested, value)
    nested.link(copy_op(op, nested, mapping))


# -- regions editing -------------------------------------------------------------------------------
# Changes to operators with nested graphs: add and remove operands, results and carried values.
#
#     add_operand      while(X=[h])              ⇒  while(X=[h, w])             the graph takes one more argument
#     remove_operand   while(X=[h, w])           ⇒  while(X=[h])                nothing inside reads it
#     add_carried      while(X=[h]) -> h         ⇒  while(X=[h, k]) -> h, k     the graph yields its argument as it is, until told otherwise
#     add_result       if_else(X) -> y           ⇒  if_else(X) -> y, z          each graph yields a value more
#     set_yielded      { ... } -> h              ⇒  { ... } -> h2
#     remove_result    while(X=[h, k]) -> h, k   ⇒  while(X=[h]) -> h           nothing outside reads it, nor what it is made from inside
#
# What gradients read of a graph (its residuals) stays as it is, or the change is refused.


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
    """The same for several values at once; for each nested graph it returns their block arguments.

    Raises:
        InvalidGraph: a value is of another graph.
    """
    _check_regions(op)
    for value in values:
        if value.graph is not op.graph:
            raise InvalidGraph(f"{op.type} cannot take {value.name}, which is not in its graph")
    inputs = list(op.inputs.get(definition_of(op).operands, ()))
    # Of a value passed twice the first place counts. Carried operands are no match: inside they are something else from the second
    # iteration on.
    at = {value: i for i, value in reversed(list(enumerate(inputs))) if i >= first_captured(op)}
    more = [value for value in dict.fromkeys(values) if value not in at]
    for graph in op.graphs.values():
        graph.inputs[len(inputs) : len(inputs)] = [input_like(graph, value) for value in more]
    at.update((value, len(inputs) + k) for k, value in enumerate(more))
    if more:
        op.graph.set_inputs(op, definition_of(op).operands, [*inputs, *more])
    return [[graph.inputs[at[value]] for value in values] for graph in op.graphs.values()]


def _check_regions(op: Op) -> None:
    if control_definition(op) is None:
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
        InvalidGraph: it is not a loop or the gradient of one, or the value is of another graph.
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
        InvalidGraph: it is not a loop or the gradient of one, or the numbers differ.
    """
    loop = _loop_to_edit(op)
    counts = [len(starts), len(arguments), len(yielded), len(results)]
    if len(set(counts)) > 1:
        raise InvalidGraph(f"{op.type} carries as many starts as arguments, yielded values and results, not {counts}")
    definition, (body,), at = loop.definition, op.graphs.values(), carried_count(op) - (not last)
    before, after = operands(op), results_of(op)
    new = dict.fromkeys(arguments)
    # Arguments may have been made as inputs of the body already: they move to their places.
    inputs = [value for value in body.inputs if value not in new]
    body.inputs = [*inputs[:at], *arguments, *inputs[at:]]
    body.results = [*body.results[:at], *yielded, *body.results[at:]]
    op.graph.set_inputs(op, definition.operands, [*before[:at], *starts, *before[at:]])
    op.graph.set_outputs(op, definition.results, [*after[:at], *results, *after[at:]])
    if last:
        op.graph.set_inputs(op, definition.condition, starts[-1:])


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
    if is_loop(op) or definition_of(op).is_grad:
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
    op.graph.set_outputs(op, definition_of(op).results, [*results_of(op), *results])


def set_yielded(op: Op, result: Value, values: Sequence[Value]) -> None:
    """Let the nested graphs of an operator yield other values for a result.

    Args:
        op: a loop, branch or call without gradient.
        result: one of its results.
        values: a value of each nested graph, in their order.

    Raises:
        InvalidGraph: it is a gradient or has one, the value is not a result, or there is not one value for each graph.
    """
    _check_regions(op)
    outs, graphs = results_of(op), list(op.graphs.values())
    if result not in outs:
        raise InvalidGraph(f"{result!r} is no result of {op.type}, whose results are {list(outs)}")
    if definition_of(op).is_grad or gradient_ops(op):
        raise InvalidGraph(f"{op!r} cannot yield something else: it has a gradient, or is one, which would stay as it was")
    if len(values) != len(graphs) or any(value.graph is not graph for value, graph in zip(values, graphs, strict=True)):
        raise InvalidGraph(f"{op.type} has {len(graphs)} nested graphs, each of which yields a value of its own; got {list(values)}")
    place = outs.index(result)
    for graph, value in zip(graphs, values, strict=True):
        graph.journal.edits += 1
        # What was yielded may be dead now, so its writers are looked at again.
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
    inputs = op.inputs.get(definition_of(op).operands, ())
    # Carried values and the cotangents are matched by position with results, so they have no way out here.
    if not _first_that_may_go(op) <= i < len(inputs) or any(_is_read(graph, graph.inputs[i]) for graph in op.graphs.values()):
        return False
    for graph in op.graphs.values():
        _drop_input(graph, i)
    op.graph.set_inputs(op, definition_of(op).operands, [*inputs[:i], *inputs[i + 1 :]])
    return True


def _first_that_may_go(op: Op) -> int:
    if not definition_of(op).is_grad:
        return first_captured(op)
    return len(results_of(op)) - _recurrent(op)


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
    out = results_of(op)
    if not 0 <= i < len(out) or out[i].readers or op.graph.is_observed(out[i]):
        return False
    loop = is_forward_loop(op)
    if loop and (i == len(out) - 1 or not _only_carried(op, i)):
        return False
    if definition_of(op).is_grad and not _forget_summed(op, i):
        return False
    for graph in op.graphs.values():
        result = graph.results.pop(i)
        # Result i of a loop belongs to argument i: both go.
        if loop:
            _drop_input(graph, i)
        graph.journal.touch(*result.writers)
    if loop:
        inputs = operands(op)
        op.graph.set_inputs(op, definition_of(op).operands, [*inputs[:i], *inputs[i + 1 :]])
    op.graph.set_outputs(op, definition_of(op).results, [*out[:i], *out[i + 1 :]])
    return True


def _only_carried(op: Op, i: int) -> bool:
    (graph,) = op.graphs.values()
    value = graph.inputs[i]
    is_residual = value in graph.residuals
    return not value.readers and not is_residual and all(result is not value or k == i for k, result in enumerate(graph.results))


def _forget_summed(op: Op, i: int) -> bool:
    """Move the operand that a result of a gradient belongs to after those that have results."""
    # The results of a gradient after the recurrent ones belong to the first operands, one each. An operand without a result comes after all
    # that have one.
    at, last = i - _recurrent(op), len(results_of(op)) - _recurrent(op) - 1
    if at < 0:
        return False
    inputs = list(op.inputs["X"])
    inputs.insert(last, inputs.pop(at))
    for graph in op.graphs.values():
        graph.inputs.insert(last, graph.inputs.pop(at))
    op.graph.set_inputs(op, "X", inputs)
    return True


# -- loops editing ---------------------------------------------------------------------------------
# Loops in other forms: iterations taken out in front, several in one, a loop in two, a loop that does not run.
#
#     peel     while(h) { f }     ⇒   h = f(h); while(h) { f }                 or, if it may run no iteration, if_else(c) { f } first
#     unroll   while(h) { f }     ⇒   while(h) { f; f }
#     split    while(h) { f }     ⇒   while(h, 0) { f; count } up to n times; while(h) { f }
#     skip     while(h) -> h'     ⇒   h in the place of h'
#
# Each needs a loop without gradient, whose body may be copied: a random operator draws again in each iteration, a copy would draw the same.


def peel(op: Op, runs: bool = False) -> list[Op]:
    """Take the first iteration of a loop out of it.

    Args:
        op: a loop.
        runs: whether there is a first iteration for sure, so that it needs no condition. The caller is trusted.

    Returns:
        The operators in front of the loop: those of the iteration, or the branch that holds them.

    Raises:
        InvalidGraph: it is not a loop, it has a gradient or is one, or its body cannot be copied.
    """
    loop = _to_rewrite(op, "peeled")
    (body,) = op.graphs.values()
    with recorded(op.graph, "peel", op):
        if runs:
            copies = copy_into(body, op.graph, loop.operands, before=op)
            ops, starts = note(copies.ops.values()), [copies.values[result] for result in body.results]
        else:
            ops, starts = _first_if_any(loop, body)
    _start_from(loop, starts)
    return ops


def run_once(op: Op) -> list[Op]:
    """Replace a loop that runs one iteration by that iteration; return its operators. That it runs one is not checked.

    Raises:
        InvalidGraph: as for ``peel``.
    """
    loop = _to_rewrite(op, "replaced by an iteration")
    (body,) = op.graphs.values()
    with recorded(op.graph, "run-once", op):
        return note(member for member in replace_by_copy(op, body, loop.operands))


def unroll(op: Op, factor: int) -> Op:
    """Put a loop that does ``factor`` iterations in one in the place of a loop; return it.

    The number of iterations must be a multiple of it, which is not checked: the condition is looked at after each
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
        states, constants = longer.inputs[:count], longer.inputs[count:]
        # Each copy goes on from what the one before leaves; what is not carried is the same for all.
        for _ in range(factor):
            copies = copy_into(body, longer, [*states, *constants])
            states = [copies.values[result] for result in body.results]
            note(copies.ops.values())
        longer.results = states
        new_op = op.graph.add_op(op.type, op.inputs, op.outputs, op.attrs, before=op, role=op.role, graphs={loop.name: longer})
    new_op.source, new_op.forward = op.source, op.forward
    op.graph.remove_op(op)
    return new_op


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
    # The first loop runs a copy of the body, with a counter beside its condition; the loop itself starts from what that leaves.
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
    """Take out a loop that runs no iteration, which is not checked: its results are what it starts from.

    Raises:
        InvalidGraph: it is not a loop, or it has a gradient or is one.
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
    bound = next((member for graph in op.graphs.values() for inner in graph.tree() for member in inner.ops if is_bound(member)), None)
    if bound is not None:
        raise InvalidGraph(f"{op!r} cannot be {what}: {bound!r} in it draws random numbers, or runs once per scope, so that it has no copy")
    return loop


def is_bound(op: Op) -> bool:
    """Whether an operator may not be copied: it draws random numbers, each iteration others, or runs once per scope."""
    return "run_once" in op.attrs or (op.definition is not None and op.definition.random)


def _start_from(loop: LoopLike, carried: Sequence[Value]) -> None:
    """Let a loop start from other values; its condition is the last one."""
    op, definition = loop.op, loop.definition
    op.graph.set_inputs(op, definition.operands, [*carried, *loop.captured])
    op.graph.set_inputs(op, definition.condition, carried[-1:])


def _with_inputs(around: Graph, like: Graph) -> Graph:
    """A graph for an operator of ``around`` with the inputs of another one."""
    graph = around.nested()
    graph.inputs = [graph.add_input(v.name, v.shape, v.dtype, v.var) for v in like.inputs]
    for value, old in zip(graph.inputs, like.inputs, strict=True):
        value.kind = old.kind
    return graph


def _first_if_any(loop: LoopLike, body: Graph) -> tuple[list[Op], list[Value]]:
    """A branch before a loop that runs its first iteration if the condition holds; with its results."""
    op, graph = loop.op, loop.op.graph
    yes, no = _with_inputs(graph, body), _with_inputs(graph, body)
    copies = copy_into(body, yes, yes.inputs)
    note(copies.ops.values())
    yes.results = [copies.values[result] for result in body.results]
    no.results = no.inputs[: len(body.results)]
    results = [fresh_like(graph, value) for value in loop.results]
    branch = add_region_op(graph, BRANCH, [yes, no], loop.operands, results, loop.condition, before=op, role=op.role)
    branch.source = op.source
    return [branch], results


def _at_most(loop: LoopLike, body: Graph, count: int) -> None:
    """Let a loop end after some iterations, if it has not ended before: it counts them, and goes on as long as both say so."""
    op, graph, (holds,), condition = loop.op, loop.op.graph, loop.condition, body.results[-1]
    number, most = _filled(graph, "count", 0, op), _filled(graph, "most", count, op)
    # The new condition is carried last. The old one stays a carried value: the second loop starts from it.
    start = _both(graph, holds, number, most, op)
    counter, go, limit = (input_like(body, value) for value in (number, start, most))
    body.inputs.append(limit)
    graph.set_inputs(op, loop.definition.operands, [*loop.operands, most])
    next_count = body.add_value("count", (1,), "int64")
    body.add_op("increment", {"X": [counter]}, {"Out": [next_count]}, {"step": 1.0}, role=op.role)
    ends = [graph.add_value("count", (1,), "int64"), graph.add_value("go", start.shape, "bool")]
    insert_carried(op, [number, start], [counter, go], [next_count, _both(body, condition, next_count, limit, None)], ends, last=True)


def _filled(graph: Graph, name: str, number: int, before: Op) -> Value:
    value = graph.add_value(name, (1,), "int64")
    graph.add_op("fill_constant", {}, {"Out": [value]}, {"shape": [1], "value": float(number), "dtype": "int64"}, before, before.role)
    return value


def _both(graph: Graph, holds: Value, number: Value, most: Value, before: Op | None) -> Value:
    """Whether a condition holds and a number is below another one."""
    fewer, result = graph.add_value("fewer", (1,), "bool"), graph.add_value("go", (1,), "bool")
    graph.add_op("less_than", {"X": [number], "Y": [most]}, {"Out": [fewer]}, before=before)
    graph.add_op("logical_and", {"X": [holds], "Y": [fewer]}, {"Out": [result]}, before=before)
    return result


# -- splitting -------------------------------------------------------------------------------------
# A value that several operators write, as a value for each of them.


def split_writers(graph: Graph, shared: Sequence[Value], part: Callable[[Value], Value]) -> dict[Value, list[Value]]:
    """Make each operator that writes one of these values write a ``part`` of its own instead; return these, and nothing writes the values.

    All values and all writers are taken at once: one by one, an operator that writes very many of them would be looked through for each.
    """
    writers = {value: dict.fromkeys(value.writers) for value in shared}
    all_ops = dict.fromkeys(op for ops in writers.values() for op in ops)
    places = {op: _places_written(op, writers) for op in all_ops if max(map(len, op.outputs.values())) > WIDE}
    outputs = {op: {slot: list(values) for slot, values in op.outputs.items()} for op in places}
    parts: dict[Value, list[Value]] = {}
    for value, ops in writers.items():
        new, value.writers = list[Value](), []
        for op in ops:
            # An operator may write one value several times, in several slots: each is a part. They are set at once, past ``set_outputs``:
            # that would take the value out of its lists of writers, which are empty already.
            if op in places:
                for slot, i in places[op][value]:
                    new.append(_part_written(value, op, part))
                    outputs[op][slot][i] = new[-1]
                continue
            for slot, values in op.outputs.items():
                if len(values) == 1:  # nearly always
                    if values[0] is value:
                        own_part = part(value)
                        own_part.writers.append(op)
                        new.append(own_part)
                        op.outputs[slot] = (own_part,)
                elif value in values:
                    own = [_part_written(value, op, part) if other is value else other for other in values]
                    op.outputs[slot] = tuple(own)
                    new += [a for a, b in zip(own, values, strict=True) if b is value]
        parts[value] = new
    for op, slots in outputs.items():
        op.outputs.update((slot, tuple(values)) for slot, values in slots.items())
    graph.journal.edits += 1
    graph.journal.touch(*all_ops)
    return parts


def _places_written(op: Op, among: Container[Value]) -> dict[Value, list[tuple[str, int]]]:
    """The places at which an operator writes some values: slots, and positions in them."""
    places: dict[Value, list[tuple[str, int]]] = {}
    for slot, values in op.outputs.items():
        for i, value in enumerate(values):
            if value in among:
                places.setdefault(value, []).append((slot, i))
    return places


def _part_written(value: Value, op: Op, part: Callable[[Value], Value]) -> Value:
    new = part(value)
    new.writers.append(op)
    return new
