"""Give every operator on the path its grad operator, in reverse order.

    x ─▶ f ─▶ y ─▶ g ─▶ loss          fill_constant ─▶ loss@GRAD ─▶ g_grad ─▶ y@GRAD ─▶ f_grad ─▶ x@GRAD

    while { h = f(h, w) } ─▶ loss     loss@GRAD ─▶ while_grad { f_grad } ─▶ h@GRAD, w@GRAD

A grad operator reads what its rules read (inputs and outputs of the operator, gradients of its outputs) and writes
the gradients of all the inputs that have a rule. An operator with nested graphs gets one whose graphs are their backwards.
Nothing is added up or left out yet: a value read by two operators has a gradient with two writers, and gradients that
are not needed are written as well; the next passes see to both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphad.errors import InvalidValue, Refused
from graphad.ir import SINGLE_WRITER, TYPED, Graph, Op, Value
from graphad.ir.nodes import Slots
from graphad.ir.regions import definition_of, first_captured, operands, results_of, scopes_of
from graphad.ir.residuals import take_residuals
from graphad.ops import GRAD, REGISTRY, ControlDef, GradOpDef, lookup
from graphad.passes.backward.adjoints import Adjoints
from graphad.passes.backward.find_op_path import OpPath
from graphad.program import BACKWARD
from graphad.rewriting import Pass
from graphad.types import STEP_SCOPES


@dataclass
class GradOps:
    """The results of ``create-grad-ops``: the grad operators in order, and the gradient of each value.

    ``inner`` is the same for the graphs nested in grad operators.
    """

    path: OpPath
    adjoints: Adjoints
    ops: list[Op] = field(default_factory=list)
    first: Op | None = None
    inner: dict[Graph, GradOps] = field(default_factory=dict)

    @property
    def gradient(self) -> Mapping[Value, Value]:
        """The gradient of each value that has one."""
        return self.adjoints.gradient


@dataclass(frozen=True)
class CreateGradOps(Pass):
    """Make one grad operator for every operator on the path, in reverse order.

    Args:
        target_gradients: names of the values the gradient starts from, one a target; empty, or ``""`` for a
            target, starts from ones.

    Raises:
        ValueError: find-op-path had no targets, or ``target_gradients`` are not as many.
        Refused: an operator on the path is a gradient itself: run expand-grad-ops first.
    """

    name = "create-grad-ops"
    requires = (OpPath,)
    clears = (SINGLE_WRITER, TYPED)
    establishes = (GradOps,)
    preserves = (OpPath, GradOps)
    target_gradients: tuple[str, ...] = ()

    def apply(self, graph: Graph) -> bool:
        path: OpPath = graph.analyses[OpPath]
        if not path.targets:
            raise InvalidValue("there is nothing to differentiate: find-op-path had no targets, as in find-op-path{targets=[loss]}")
        starts = self.target_gradients or ("",) * len(path.targets)
        if len(starts) != len(path.targets):
            raise InvalidValue(f"{len(starts)} target_gradients are given for {len(path.targets)} targets")
        _refuse_gradients(path)
        grad_ops = GradOps(path, Adjoints(graph, graph))
        seeds = [_seed(grad_ops.adjoints, target, start) for target, start in zip(path.targets, starts, strict=True)]
        grad_ops.first = seeds[0]
        _reverse(grad_ops)
        graph.analyses[GradOps] = grad_ops
        return True


def _seed(adjoints: Adjoints, target: Value, start: str) -> Op:
    graph, out, forward = adjoints.graph, {"Out": [adjoints.of(target)]}, target.writer
    if start:
        return graph.add_op("assign", {"X": [graph.given(start)]}, out, role=BACKWARD, forward=forward)
    # Paddle's backward starts from ``fill_constant``, which takes a shape that is known.
    if target.shape is None or -1 in target.shape:
        return graph.add_op("fill_any_like", {"X": [target]}, out, {"value": 1.0}, role=BACKWARD, forward=forward)
    attrs = {"shape": list(target.shape), "value": 1.0, "dtype": target.dtype}
    return graph.add_op("fill_constant", {}, out, attrs, role=BACKWARD, forward=forward)


def _refuse_gradients(path: OpPath) -> None:
    """Refuse gradient operators on the path to be differentiated, with and without blocks."""
    differentiable: set[str] = set()  # types without blocks
    for op in path.ops:
        if not op.graphs and op.type in differentiable:
            continue
        is_gradient = definition_of(op).is_grad if op.graphs else op.definition is None or op.definition.grad is None
        if not op.graphs and not is_gradient:
            differentiable.add(op.type)
        if is_gradient:
            raise Refused(f"operator {op.type!r} is a gradient itself: run expand-grad-ops before create-grad-ops")
        if op.graphs and not definition_of(op).gradient:
            raise Refused(f"operator {op.type!r} has no gradient: its definition names none for its nested graphs")
        for graph in op.graphs.values():
            _refuse_gradients(path.inner[graph])


def _reverse(grad_ops: GradOps) -> None:
    # Reverse accumulation: all readers of a value come before its writer here, so its gradient is complete, or has as many writers as
    # there are readers on the path, when the writer's turn comes. ``accumulate-grads`` sums those.
    adjoints, gradients = grad_ops.adjoints, dict.fromkeys(op.type for op in grad_ops.path.ops if not op.graphs)
    for op_type in gradients:
        gradients[op_type] = REGISTRY[op_type].grad
    for op in reversed(grad_ops.path.ops):
        grad_ops.ops.append(_region_grad(grad_ops, op) if op.graphs else _grad_op(adjoints, op, gradients[op.type]))


def _grad_op(adjoints: Adjoints, op: Op, grad: GradOpDef | None) -> Op:
    assert grad is not None  # _refuse_gradients has looked
    graph, gradient, of = adjoints.graph, adjoints.gradient, adjoints.of
    # Slots that the forward operator left empty are left out here, too. ``attrs`` is shared with it: no operator changes its own.
    inputs: Slots = {}
    for slot, side in grad.given:
        values = (op.inputs if side == "inputs" else op.outputs).get(slot)
        if values:
            inputs[slot] = values if graph is adjoints.forward else adjoints.read_all(values)
    for slot, forward in grad.cotangents:
        if values := op.outputs.get(forward):
            inputs[slot] = tuple([gradient.get(value) or of(value) for value in values])
    outputs: Slots = {}
    for slot, forward in grad.written:
        if values := op.inputs.get(forward):
            outputs[slot] = tuple([gradient.get(value) or of(value) for value in values])
    if adjoints.forward.values.contested:
        adjoints.tell_apart(outputs)
    new_op = Op(graph, grad.type, inputs, outputs, op.attrs)
    new_op.role = BACKWARD
    new_op.forward = op
    new_op.source = op.source
    new_op.made_by = graph.journal.author
    graph.append(new_op)
    return new_op


# -- operators with nested graphs ----------------------------------------------------------------


def _region_grad(grad_ops: GradOps, op: Op) -> Op:
    """The gradient of an operator with nested graphs: its graphs are their backwards."""
    definition, adjoints, path = definition_of(op), grad_ops.adjoints, grad_ops.path
    gradient = lookup(definition.gradient)
    assert isinstance(gradient, ControlDef)
    places, values = path.carried[op], operands(op)
    first = first_captured(op)
    # The results of the gradient: one cotangent for each carried value, in the place of the cotangent of what the iteration made of it;
    # then the gradients of loop-invariant operands, which are sums over the iterations. A branch has only the latter (``first`` is 0).
    sum_places = [i for i in range(first, len(values)) if any(g.inputs[i] in path.inner[g].active for g in op.graphs.values())]
    # ``starts``: the inputs of the forward graph whose gradients the backward graph returns.
    starts = [*places, *sum_places] if first else sum_places
    inner = [_backward_graph(adjoints.graph, graph, path.inner[graph], places, starts, first) for graph in op.graphs.values()]
    arguments = _share_arguments(inner, sum_places, len(places))
    inputs = {gradient.condition: adjoints.read_all(op.inputs[definition.condition])} if gradient.condition else {}
    inputs |= {"X": adjoints.read_all(tuple(values[i] for i in arguments))} if arguments else {}
    inputs[gradient.scopes] = (adjoints.read(_scopes(op)),)
    inputs[f"Out{GRAD}"] = adjoints.of_all(tuple(results_of(op)[k] for k in places))
    outputs = adjoints.written({f"X{GRAD}": tuple(values[i] for i in starts)} if starts else {})
    attrs = {name: value for name, value in op.attrs.items() if name == "is_scalar_condition"}
    graphs = {name: nested_ops.adjoints.graph for name, nested_ops in zip(gradient.blocks, inner, strict=True)}
    grad_ops.inner.update((nested_ops.adjoints.graph, nested_ops) for nested_ops in inner)
    return adjoints.graph.add_op(gradient.type, inputs, outputs, attrs, role=BACKWARD, forward=op, graphs=graphs)


def _backward_graph(around: Graph, graph: Graph, path: OpPath, carried: tuple[int, ...], starts: list[int], first: int) -> GradOps:
    """The backward of a nested graph: from the cotangents of its results, its arguments, to the gradients of its inputs."""
    adjoints = Adjoints(around.nested(), graph, first)
    grad_ops = GradOps(path, adjoints)
    operands_read = {value for op in path.ops for value in op.reads()}
    results = [graph.results[k] for k in carried]
    for result in results:
        start = adjoints.given(result)
        # The argument is the gradient of the result, unless the graph adds to it: then it is one of several contributions, as a copy.
        if result in operands_read or results.count(result) > 1:
            adjoints.graph.add_op("assign", {"X": [start]}, {"Out": [adjoints.of(result)]}, role=BACKWARD, forward=result.writer)
        else:
            adjoints.gradient[result] = start
    _reverse(grad_ops)
    adjoints.graph.results = [adjoints.of(graph.inputs[i]) for i in starts]
    return grad_ops


def _share_arguments(inner: list[GradOps], summed: list[int], cotangents: int) -> list[int]:
    """Give all graphs the same inputs: operands with summed gradients, other operands that they read, cotangents, residuals."""
    # Operands whose gradients are summed come first, since results and operands of a gradient are matched from the start.
    arguments = [*summed, *sorted({i for branch in inner for i in branch.adjoints.arguments} - set(summed))]
    for nested_ops in inner:
        graph, adjoints = nested_ops.adjoints.graph, nested_ops.adjoints
        starts = graph.inputs[:cotangents]
        graph.inputs = [*(adjoints.operand(i) for i in arguments), *starts]
        take_residuals(graph, adjoints.forward, adjoints.residuals)
    return arguments


def _scopes(op: Op) -> Value:
    """The residuals that an operator keeps for its gradient; it gets a result for them if its program has none."""
    value = scopes_of(op)
    if value is None:
        graph, slot = op.graph, definition_of(op).scopes
        value = graph.add_value(f"{results_of(op)[0].name}@SCOPES")
        value.kind = STEP_SCOPES
        graph.set_outputs(op, slot, [value])
    return value
