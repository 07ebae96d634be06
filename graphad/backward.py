"""Gradients of programs: ``append_backward`` and ``gradients``, each a pipeline of passes over the lowered program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set

import networkx as nx

from graphad.errors import InvalidType, InvalidValue, NoGradient
from graphad.ir import Graph, Op, Value, lower, write_back
from graphad.ir.edits import open_sealed
from graphad.ir.regions import is_grad_op
from graphad.ops import GRAD
from graphad.passes import AccumulateGrads, ClipErrors, CreateGradOps, CreateGradVars, ExpandGradOps, FindOpPath, PruneNoGrad
from graphad.passes.backward import GradOps
from graphad.passes.backward.find_op_path import source_value
from graphad.program import BACKWARD, Block, Parameter, Program, Variable, located, name_in, rewrite_gradients
from graphad.rewriting import Pipeline, diagnoses_only
from graphad.types import element_count, joined_shape

Names = tuple[str, ...]
Named = Sequence[Variable | str] | Set[Variable | str]  # a list or a set of variables, or their names
Callback = Callable[[Block, dict[str, object]], object]


def backward_pipeline(
    targets: Names,
    inputs: Names = (),
    no_grad: Names = (),
    target_gradients: Names = (),
    expand: bool = False,
    clip_errors: bool = False,
) -> Pipeline:
    """The passes that build the backward of ``targets``: five of them.

    ``expand`` puts two more in front, for graphs that hold gradients already: they make the grad operators on
    the way differentiable. ``clip_errors`` puts one in that bounds the gradients of variables with an ``error_clip``.

    >>> print(backward_pipeline(("loss",)))
    find-op-path{targets=[loss]}, create-grad-ops, prune-no-grad, accumulate-grads, create-grad-vars
    """
    find = FindOpPath(targets, inputs, no_grad)
    clips = [ClipErrors()] if clip_errors else []
    build = Pipeline(find, CreateGradOps(target_gradients), PruneNoGrad(), AccumulateGrads(), *clips, CreateGradVars())
    return Pipeline(find, ExpandGradOps(), build) if expand else build


def append_backward(
    loss: Variable,
    parameter_list: Named | None = None,
    no_grad_set: Named | None = None,
    callbacks: Sequence[Callback] | None = None,
    checkpoints: None = None,
) -> list[tuple[Parameter, Variable]]:
    """Append the backward of a scalar loss to the program it lives in.

    Args:
        loss: a variable of one element that an operator of block 0 writes; its gradient is 1.
        parameter_list: parameters, or their names, to return gradients of, in this order; None means all trainable ones
            that reach the loss, in the order of their making.
        no_grad_set: variables, or their names, without gradient, besides those with ``stop_gradient``.
        callbacks: functions ``callback(block, context)``, as in Fluid: each is called after each operator of the backward is
            appended to its block, except for the one that the gradient starts with, and may append operators itself. ``context`` has
            the name of the forward variable for the name of each gradient, and the operator as ``"__current_op_desc__"``.
        checkpoints: None; to compute forward values again instead of keeping them is a pass, ``recompute``.

    Returns:
        (parameter, its gradient) pairs; the gradient of ``w`` is the variable ``w@GRAD``, of w's shape and dtype. That of a variable
        with an ``error_clip`` is bounded when it is complete, before anything is computed from it (the pass ``clip-errors``).

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: the loss has more than one element or no operator makes it; a parameter in ``parameter_list`` does not
            reach it (the message says why); an operator on the way has no gradient rule; a callback cannot be called, or checkpoints
            are given. The program is then as it was.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()):
    ...     x = ga.layers.data("x", shape=[3])
    ...     loss = ga.layers.mean(ga.layers.fc(x, size=1))
    ...     [(p.name, g.name) for p, g in ga.append_backward(loss)]
    [('fc_0.w_0', 'fc_0.w_0@GRAD'), ('fc_0.b_0', 'fc_0.b_0@GRAD')]
    """
    program = _checked_loss(loss)
    callbacks = _checked_callbacks(callbacks)
    if checkpoints is not None:
        raise InvalidValue("append_backward takes no checkpoints: graphad.Executor(passes='recompute') computes again what is cheap")
    rewrite_gradients(program)
    graph = lower(program)
    pairs = build_backward(graph, loss, parameter_list, no_grad_set)
    block = program.global_block()
    # An error, of a callback for instance, takes back the whole backward. Without callbacks and nested graphs block 0 alone grows.
    with program.atomic() if callbacks or graph.controls else program.appending():
        # By identity: operators of the forward part stay the objects that they were, so whatever else is there afterwards is new.
        before = {id(op) for any_block in program.blocks for op in any_block.ops} if callbacks else set()
        write_back(graph)
        if callbacks:
            _call_back(block, before, _forward_names(graph), callbacks, start=loss.name + GRAD)
    return [(param, block.vars[gradient.name]) for param, gradient in pairs]


def build_backward(
    graph: Graph, loss: Variable, parameter_list: Named | None = None, no_grad_set: Named | None = None
) -> list[tuple[Parameter, Value]]:
    """``append_backward`` on a lowered program: (parameter, gradient value) pairs, the graph not yet scheduled."""
    program = _checked_loss(loss)
    _check_made(graph, loss)
    parameters = _parameters(program, parameter_list)
    no_grad = _names("no_grad_set", program, no_grad_set)
    open_sealed(graph)
    with diagnoses_only():
        clip_errors = any(var.error_clip is not None for var in program.list_vars())
        backward_pipeline((loss.name,), no_grad=no_grad, expand=_has_grad_ops(graph), clip_errors=clip_errors).run(graph)
    grad_ops: GradOps = graph.analyses[GradOps]
    found = [_gradient_of(graph, grad_ops, param.name) for param in parameters]
    # Parameters that were named must have a gradient; of all parameters, those that the loss does not depend on are left out.
    for param, gradient in zip(parameters, found, strict=True) if parameter_list is not None else ():
        if gradient is None:
            raise NoGradient(f"parameter {param.name!r} has no gradient: {_why_not(graph, param.name, loss.name, no_grad)}")
    return [(param, gradient) for param, gradient in zip(parameters, found, strict=True) if gradient is not None]


def gradients(targets: object, inputs: object, target_gradients: object = None, no_grad_set: Named | None = None) -> list[Variable | None]:
    """Append the gradients of targets with respect to inputs to their program.

    Args:
        targets: one variable or a list; the gradients of several are added up.
        inputs: one variable or a list: data, parameters or intermediate variables (of a name written more than once, the
            value given from outside, else the last one).
        target_gradients: for each target a variable of its shape to start from, or None for ones.
        no_grad_set: variables, or their names, without gradient.

    Returns:
        For each input the variable that holds its gradient, of the input's shape and dtype; None if it does not reach a target.
        Called on the results again it gives higher derivatives, to any order. They are derivatives: ``error_clip`` of variables bounds what
        ``append_backward`` and ``minimize`` make, not these.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: the variables are of different programs; numbers or shapes of target_gradients do not fit.
    """
    return append_gradients(targets, inputs, target_gradients, no_grad_set)


def append_gradients(
    targets: object, inputs: object, target_gradients: object = None, no_grad_set: Named | None = None, clip_errors: bool = False
) -> list[Variable | None]:
    """``gradients``, bounded on their way by the ``error_clip`` of variables where ``clip_errors`` says so."""
    outputs, sources = _variables("targets", targets), _variables("inputs", inputs)
    if not outputs:
        raise InvalidValue("gradients needs at least one target")
    if not sources:
        return []
    program = _one_program([*outputs, *sources])
    starts = _starts(outputs, target_gradients)
    rewrite_gradients(program)
    graph = lower(program)
    # A declared variable that no operator touches is no value of the graph yet.
    for var in (*outputs, *sources):
        graph.given(var.name)
    names = tuple(v.name for v in outputs), tuple(v.name for v in sources)
    open_sealed(graph)
    with diagnoses_only():
        backward_pipeline(*names, _names("no_grad_set", program, no_grad_set), starts, _has_grad_ops(graph), clip_errors).run(graph)
    grad_ops: GradOps = graph.analyses[GradOps]
    gradients_by_name = {v.name: _gradient_of(graph, grad_ops, v.name) for v in sources}
    write_back(graph)
    block = program.global_block()
    return [None if (g := gradients_by_name.get(v.name)) is None else block.var(g.name) for v in sources]


def calc_gradient(
    targets: object, inputs: object, target_gradients: object = None, no_grad_set: Named | None = None
) -> Variable | list[Variable | None] | None:
    """``gradients`` as Fluid called it: for one input the variable itself, or None, not a list of one.

    >>> import graphad as fluid
    >>> with fluid.program_guard(fluid.Program()):
    ...     x = fluid.data("x", [2])
    ...     x.stop_gradient = False
    ...     fluid.backward.calc_gradient(x * x, x)
    Variable x@GRAD: float32[2]
    """
    results = gradients(targets, inputs, target_gradients, no_grad_set)
    return results[0] if len(results) == 1 else results


# -- results -------------------------------------------------------------------------------------


def _gradient_of(graph: Graph, grad_ops: GradOps, name: str) -> Value | None:
    """The gradient with respect to the value a name stands for, as the only value of its own name."""
    if name not in graph.values.by_name:
        return None
    gradient = grad_ops.gradient.get(source_value(graph, name))
    if gradient is None or not gradient.writers:
        return None
    # Between passes a name has versions. Here the last one gets the plain name, by which users fetch ``w@GRAD``.
    if graph.values.contested and gradient.name in graph.values.contested:
        for version in graph.versions(gradient.name):
            if version is not gradient:
                graph.rename(version, graph.values.numbered(gradient.name, "{}_{}"))
    return gradient


def _has_grad_ops(graph: Graph) -> bool:
    seen = {op.type: op for subgraph in graph.tree() for op in subgraph.ops}
    return any(map(is_grad_op, seen.values()))


# -- callbacks -----------------------------------------------------------------------------------
# What a callback sees is a block that ends with the operator it is called for, so that what it appends comes directly after it.


def _checked_callbacks(callbacks: object) -> Sequence[Callback]:
    if callbacks is None:
        return ()
    if not isinstance(callbacks, list | tuple):
        raise InvalidType(f"callbacks is a list of functions of (block, context), not {callbacks!r}")
    for callback in callbacks:
        if not callable(callback):
            raise InvalidValue(f"'callback' must be a callable object, a function of (block, context), not {callback!r}")
    return callbacks


def _forward_names(graph: Graph) -> dict[str, str]:
    """The name of the forward value by that of its gradient, in a graph and those nested in its grad operators."""
    pending: list[GradOps] = [graph.analyses[GradOps]]
    names: dict[str, str] = {}
    while pending:
        grad_ops = pending.pop()
        names |= {gradient.name: value.name for value, gradient in grad_ops.gradient.items()}
        pending += grad_ops.inner.values()
    return names


def _call_back(
    block: Block, before: Collection[int], forward: Mapping[str, str], callbacks: Sequence[Callback], start: str | None = None
) -> None:
    """Append the operators of the backward again, one by one, nested blocks before the operator that holds them, and call for each."""
    ops = block.ops
    first = next((i for i, op in enumerate(ops) if op.role == BACKWARD and id(op) not in before), len(ops))
    block.ops = ops[:first]
    for op in ops[first:]:
        is_new = id(op) not in before
        for nested in [value for value in op.attrs.values() if is_new and isinstance(value, Block)]:
            _call_back(nested, before, forward, callbacks)
        block.ops.append(op)
        if op.role != BACKWARD or not is_new or (op.output_names() == [start] and not op.input_names()):
            continue
        # Terms of one gradient have names of their own, w@GRAD@RENAME@0 and on.
        by_result = {name: forward.get(name.split("@RENAME@")[0], name.split(GRAD)[0]) for name in op.output_names() if GRAD in name}
        context: dict[str, object] = {**forward, **by_result, "__current_op_desc__": op}
        for callback in callbacks:
            callback(block=block, context=context)  # type: ignore[call-arg]  # by keyword, as Fluid calls them


# -- reasons -------------------------------------------------------------------------------------


def _why_not(graph: Graph, name: str, loss: str, no_grad: Names) -> str:
    """Why no gradient flows from the loss to a value: it is not on the path, or what cuts it off."""
    if not graph.versions(name):
        return "no operator reads it"
    start, target = source_value(graph, name), graph.value(loss)
    if reason := _cut(start, no_grad):
        return reason
    # What depends on the value and leads to the loss, as networkx sees the graph; along it the first cut is the reason.
    way = (nx.descendants(graph, start) | {start}) & (nx.ancestors(graph, target) | {target})
    if target not in way:
        return f"it is not on the path: no operator that reads it leads to {loss!r}"
    for op in (op for op in graph.ordered_ops() if op in way):
        for value in (v for v in op.reads() if v in way):
            if reason := _cut_between(op, value, way):
                return f"the way to the loss is cut by {reason}"
        for out in (v for v in op.writes() if v in way):
            if reason := _cut(out, no_grad):
                return f"the way to the loss is cut by {reason}"
    return "the way to the loss is cut by operators without gradient"


def _cut(value: Value, no_grad: Names) -> str:
    if value.name in no_grad:
        return f"no_grad_set, which holds {value.name!r}"
    return f"stop_gradient of {value.name!r}" if value.stop_gradient else ""


def _cut_between(op: Op, value: Value, way: Collection[Value | Op]) -> str:
    """Why no gradient flows through an operator from its outputs on the way to a value that it reads; empty if one does."""
    definition = op.definition
    slots = [slot for slot, values in op.inputs.items() if value in values]
    if definition is None or definition.grads is None:
        return ""
    if not any(slot in definition.grads for slot in slots):
        return located(f"operator {op.type!r}, which has no gradient with respect to {', '.join(slots)}", op.source)
    # A gradient rule may use some cotangents only: the one that comes from the loss may not be among them.
    outputs = [slot for slot, values in op.outputs.items() if any(out in way for out in values)]
    if any(slot in definition.gradient_flows[out] for slot in slots for out in outputs):
        return ""
    return located(f"operator {op.type!r}, whose {', '.join(outputs)} does not depend on {', '.join(slots)}", op.source)


# -- arguments -----------------------------------------------------------------------------------


def _checked_loss(loss: object) -> Program:
    if not isinstance(loss, Variable):
        raise InvalidType(f"loss is a Variable, not {loss!r}")
    if loss.block.idx:
        raise InvalidValue(f"the loss is a variable of block 0, but {loss.name!r} is one of block {loss.block.idx}")
    if element_count(loss.shape) != 1:
        raise InvalidValue(
            f"the loss is a scalar, but {loss.name!r} has shape {list(loss.shape)}: reduce it, for instance with layers.mean"
        )
    return loss.block.program


def _check_made(graph: Graph, loss: Variable) -> None:
    # The last version of a name is what users see under it.
    versions = graph.versions(loss.name)
    if not versions or not versions[-1].writers:
        kind = "a parameter" if isinstance(loss, Parameter) else "data"
        raise InvalidValue(f"no operator makes the loss {loss.name!r}: it is {kind}, which depends on nothing")
    if loss.stop_gradient:
        raise NoGradient(f"the loss {loss.name!r} has stop_gradient set: nothing would get a gradient")


def _parameters(program: Program, parameter_list: Named | None) -> list[Parameter]:
    if parameter_list is None:
        return [p for p in program.all_parameters() if p.trainable]
    block = program.global_block()
    return [block.var(name) for name in _names("parameter_list", program, parameter_list)]  # type: ignore[misc]


def _names(what: str, program: Program, argument: object) -> Names:
    if argument is None:
        return ()
    if not isinstance(argument, list | tuple | set | frozenset):
        raise InvalidType(f"{what} is a list of variables or their names, not {argument!r}")
    for item in argument:
        if not isinstance(item, str | Variable):
            raise InvalidType(f"{what} holds variables or their names, not {item!r}")
    names = [item if isinstance(item, str) else name_in(what, program.global_block(), item) for item in argument]
    # The order of a set of strings changes from process to process, and that of operators must not.
    return tuple(sorted(names) if isinstance(argument, set | frozenset) else names)


def _variables(what: str, argument: object) -> list[Variable]:
    variables: list[Variable] = []
    for item in argument if isinstance(argument, list | tuple) else [argument]:
        if not isinstance(item, Variable):
            raise InvalidType(f"{what} are Variables, not {item!r}")
        variables.append(item)
    return variables


def _one_program(variables: Sequence[Variable]) -> Program:
    # By identity: programs have no equality of their own.
    programs = {id(v.block.program): v for v in variables}
    if len(programs) > 1:
        first, second, *_ = programs.values()
        raise InvalidValue(
            f"{first.name!r} and {second.name!r} are variables of different programs: "
            f"{first.block.program.identity} and {second.block.program.identity}"
        )
    return variables[0].block.program


def _starts(targets: Sequence[Variable], cotangents: object) -> Names:
    if cotangents is None:
        return ()
    items = cotangents if isinstance(cotangents, list | tuple) else [cotangents]
    if len(items) != len(targets):
        raise InvalidValue(f"{len(items)} target_gradients are given for {len(targets)} targets")
    return tuple(_start(target, item) for target, item in zip(targets, items, strict=True))


def _start(target: Variable, start: object) -> str:
    if start is None:
        return ""
    if not isinstance(start, Variable):
        raise InvalidType(f"target_gradients are Variables or None, not {start!r}")
    if start.dtype != target.dtype:
        raise InvalidValue(f"target {target.name!r} is {target.dtype}, its gradient {start.name!r} is {start.dtype}")
    # Extents that are not known fit any.
    if joined_shape(target.shape, start.shape) is None:
        raise InvalidValue(f"target {target.name!r} has shape {list(target.shape)}, its gradient {start.name!r} has {list(start.shape)}")
    return name_in("target_gradients", target.block, start)
