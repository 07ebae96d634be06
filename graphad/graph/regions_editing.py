"""Changes to operators with nested graphs: what is handed in and out, a graph put in the place of its operator, operators put in a net.

    add_capture     while(X=[h])              ⇒  while(X=[h, w])             the graph is handed one value more
    drop_operand    while(X=[h, w])           ⇒  while(X=[h])                nothing inside reads it
    drop_result     while(X=[h, k]) -> h, k   ⇒  while(X=[h]) -> h           nothing outside reads it, nor what it is made from inside
    inline_region   net { a = tanh(x) } -> a  ⇒  a = tanh(x)
    outline         a = tanh(x)               ⇒  net { a = tanh(x) } -> a

What gradients read of a graph (``saved``) stays as it is, or the change is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphad.errors import InvalidGraph
from graphad.graph.clone import Twins, clone_regions
from graphad.graph.graph import Graph
from graphad.graph.nodes import Op, Value
from graphad.graph.regions import carried_count, is_loop, operands, outcomes, the_row
from graphad.ops import GRAD
from graphad.program import EMPTY, Variable
from graphad.types import FLOATS


def has_gradient(op: Op) -> bool:
    """Whether there is a gradient of the operator, which reads what its graphs leave."""
    return any(graph.gradients for graph in op.graphs.values())


def add_capture(op: Op, value: Value) -> list[Value]:
    """Hand the nested graphs one value more, which a loop does not change.

    Args:
        op: an operator with nested graphs; it may have a gradient, or be one.
        value: a value of the graph around.

    Returns:
        What the value is inside, one for each nested graph; that of an operand there is already, if it is handed in.

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
    if value.graph is not op.graph:
        raise InvalidGraph(f"{op.type} cannot be handed {value.name}, which is not in its graph")
    first, before = _first_captured(op), op.inputs.get(the_row(op).operands, ())
    for i in range(first, len(before)):
        if before[i] is value:
            return [graph.inputs[i] for graph in op.graphs.values()]
    op.graph.set_inputs(op, the_row(op).operands, [*before, value])
    return [_insert_input(graph, len(before), value) for graph in op.graphs.values()]


def _first_captured(op: Op) -> int:
    """From which operand on a value is the same in every run: the first ones of a loop change."""
    return carried_count(op) if op.type == "while" else 0


def _insert_input(graph: Graph, at: int, like: Value) -> Value:
    name = like.name if not graph.values.taken(like.name) else graph.values.numbered(like.name, "{}@READ@{}")
    made = graph.add_input(name, like.shape, like.dtype, like.var if like.var is not None and like.var.name == name else None)
    made.kind = like.kind
    graph.inputs.insert(at, graph.inputs.pop())
    return made


def drop_operand(op: Op, i: int) -> bool:
    """Stop handing in operand ``i``, if no nested graph reads it and no gradient does.

    False, and nothing is done, where something reads it, or where its place says what it is: what a loop carries goes with
    ``drop_result``, what a gradient's results belong to with those, cotangents stay.
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
        return _first_captured(op)
    return len(outcomes(op)) - _recurrent(op)


def _recurrent(op: Op) -> int:
    """How many of a gradient's results are handed to its next run: those of a loop's carried values."""
    return len(op.inputs.get(f"Out{GRAD}", ())) if op.type == "while_grad" else 0


def _drop_input(graph: Graph, i: int) -> None:
    value = graph.inputs[i]
    graph.saved.pop(value, None)
    del graph.inputs[i]
    graph.drop(value)


def _is_read(graph: Graph, value: Value) -> bool:
    """Whether something in a nested graph reads a value, hands it out, or a gradient of the graph reads it."""
    return bool(value.readers) or graph.is_observed(value)


def drop_result(op: Op, i: int) -> bool:
    """Stop handing out result ``i``, if nothing reads it; what a loop carries for it goes with it.

    The operators that made it stay, dead perhaps.

    False, and nothing is done, where something reads the result or, in a loop, what the next iteration is handed of it; where it is
    a loop's condition, or the cotangent that a loop's gradient hands on.
    """
    out = outcomes(op)
    if not 0 <= i < len(out) or out[i].readers or op.graph.is_observed(out[i]):
        return False
    loop = op.type == "while"
    if loop and (i == len(out) - 1 or not _only_handed_on(op, i)):
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


def _only_handed_on(op: Op, i: int) -> bool:
    (graph,) = op.graphs.values()
    value = graph.inputs[i]
    kept = any(value in each.saved.values() for each in graph.gradients)
    return not value.readers and not kept and all(result is not value or k == i for k, result in enumerate(graph.results))


def _forget_summed(op: Op, i: int) -> bool:
    """Put the operand that a result of a gradient belongs to behind those that have results."""
    at, last = i - _recurrent(op), len(outcomes(op)) - _recurrent(op) - 1
    if at < 0:
        return False
    given = list(op.inputs["X"])
    given.insert(last, given.pop(at))
    for graph in op.graphs.values():
        graph.inputs.insert(last, graph.inputs.pop(at))
    op.graph.set_inputs(op, "X", given)
    return True


# -- out of an operator --------------------------------------------------------------------------


def inline_region(op: Op, name: str) -> list[Op]:
    """Put the operators of a nested graph in the place of its operator; return them.

    What the operator wrote keeps its name; a value from inside gets a number if its name is taken.

    Args:
        op: an operator that runs its graph once at most, without a gradient; the others of its graphs are gone.
        name: the attribute that holds the graph.

    Raises:
        InvalidGraph: it is a loop, or has a gradient or is one.

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
    >>> inline_region(graph.ops.first, "sub_block")
    [tanh(X=x) -> (Out=t), elementwise_mul(X=t, Y=t) -> (Out=y)]
    """
    if is_loop(op) or has_gradient(op) or the_row(op).is_grad:
        raise InvalidGraph(f"{op!r} cannot be inlined: it is a loop, or has a gradient, or is one")
    return replace_by_copy(op, op.graphs[name], operands(op))


def replace_by_copy(op: Op, nested: Graph, given: Sequence[Value]) -> list[Op]:
    """Put a copy of a nested graph, whose inputs are ``given``, in the place of an operator without gradient; return the operators.

    Raises:
        InvalidGraph: the operator has a gradient.
    """
    if has_gradient(op):
        raise InvalidGraph(f"{op!r} cannot be replaced: a gradient reads what it keeps")
    graph, twins = op.graph, copy_into(nested, op.graph, given, before=op, onto=_onto(op, nested))
    for out, result in zip(outcomes(op), nested.results, strict=True):
        found = twins.values[result]
        if found is not out:
            stand_in(op, out, found)
    graph.remove_op(op)
    return list(twins.ops.values())


def stand_in(op: Op, out: Value, value: Value) -> None:
    """Make a value stand for what an operator writes, which is about to be removed; a gradient that stopped there does so still."""
    if out.stop_gradient and not value.stop_gradient and _may_have_gradient(out):
        op.graph.add_op("assign", {"X": [value]}, {"Out": [out]}, before=op, role=op.role)
    else:
        op.graph.substitute(out, value)


def _onto(op: Op, nested: Graph) -> dict[Value, Value]:
    """What the operators inside can write at once: the results of their operator."""
    onto: dict[Value, Value] = {}
    for out, result in zip(outcomes(op), nested.results, strict=True):
        same = out.stop_gradient == result.stop_gradient or not _may_have_gradient(out)
        if result.writers and same and out.name != EMPTY:
            onto.setdefault(result, out)
    return onto


def _may_have_gradient(value: Value) -> bool:
    return value.dtype is None or value.dtype in FLOATS


def copy_into(
    nested: Graph, around: Graph, given: Sequence[Value], before: Op | None = None, onto: Mapping[Value, Value] | None = None
) -> Twins:
    """Copy the operators of a nested graph into another graph, before one of its operators, or last.

    Args:
        nested: what is copied; it stays as it is.
        around: the graph to copy to.
        given: the values there that its inputs are.
        before: where the copies go.
        onto: values of the nested graph -> those of ``around`` that are to be written in their place.

    Returns:
        The twin of each value, operator and graph.
    """
    twins = Twins(values=dict(zip(nested.inputs, given, strict=True)), graphs={nested: around})
    twins.values.update(onto or {})
    for value in nested.values:
        if value not in twins.values:
            twins.values[value] = fresh_like(around, value)
    for op in nested.ordered_ops():
        copied = copy_op(op, around, twins)
        around.link(copied, before)
    for value, twin in twins.values.items():
        if value.grad_of is not None and twin.grad_of is None:
            twin.grad_of = twins.values.get(value.grad_of, value.grad_of)
    return twins


def copy_op(op: Op, around: Graph, twins: Twins) -> Op:
    """A copy of an operator over the twins of its values, not yet linked into the graph ``around``."""
    copied = Op(around, op.type, twins.slots(op.inputs), twins.slots(op.outputs), op.attrs)
    copied.role, copied.made_by, copied.source, copied.operator = op.role, op.made_by, op.source, None
    copied.origin = op.origin
    copied.forward = None if op.forward is None else twins.ops.get(op.forward, op.forward)
    copied.graphs = clone_regions(op.graphs, around, twins) if op.graphs else op.graphs
    twins.ops[op] = copied
    return copied


def fresh_like(graph: Graph, value: Value) -> Value:
    """A new value like one of another graph, under its name or, if that is taken, one with a number."""
    name = value.name if value.name == EMPTY else graph.values.fresh(value.name)
    made = graph.add_version(name, value.shape, value.dtype, _var_named(value, name))
    made.kind = value.kind
    return made


def _var_named(value: Value, name: str) -> Variable | None:
    """The variable of a value for one of another name: what counts is whether gradients stop there."""
    if value.var is None or value.var.name == name:
        return value.var
    return Variable.trusted(value.var.block, name, value.shape, value.dtype, True, value.kind) if value.stop_gradient else None


# -- into an operator ----------------------------------------------------------------------------


def outline(ops: Sequence[Op]) -> Op:
    """Make a ``net`` of operators of one graph; it stands where the last of them stood.

    It is handed what they read from around, and hands out what anything around reads or asks for, under its names.

    Args:
        ops: operators that stand in this order; what lies between two of them must be among them.

    Raises:
        InvalidGraph: there are none, they are of several graphs, or a nested graph of theirs has a gradient outside.

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
    reads = [value for op in ops for value in op.reads() if not any(w in inside for w in value.writers)]
    given = list(dict.fromkeys(reads))
    out = [v for op in ops for v in op.writes() if graph.is_observed(v) or any(r not in inside for r in v.readers)]
    nested, twins = graph.nested(), Twins(graphs={graph: graph})
    for value in given:
        inner = _insert_input(nested, len(nested.inputs), value)
        twins.values[value] = inner
    for op in ops:
        _copy_in(op, nested, twins)
    nested.results = [twins.values[value] for value in out]
    net = graph.add_op("net", {"X": given} if given else {}, {"Out": out} if out else {}, before=ops[-1].next, graphs={"sub_block": nested})
    net.role, net.source = ops[0].role, ops[0].source
    for op in reversed(ops):
        graph.remove_op(op)
    return net


def _copy_in(op: Op, nested: Graph, twins: Twins) -> None:
    for value in op.writes():
        twins.values[value] = fresh_like(nested, value)
    nested.link(copy_op(op, nested, twins))
