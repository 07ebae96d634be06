"""Give every operator on the path its grad operator, in reverse order.

    x ─▶ f ─▶ y ─▶ g ─▶ loss          fill_constant ─▶ loss@GRAD ─▶ g_grad ─▶ y@GRAD ─▶ f_grad ─▶ x@GRAD

A grad operator reads what its rules read (inputs and outputs of the operator, gradients of its outputs) and writes
the gradients of all the inputs that have a rule. Nothing is added up or left out yet: a value read by two operators
has a gradient with two writers, and gradients nobody needs are written as well; the next passes see to that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from graphad.errors import InvalidValue
from graphad.graph import SINGLE_WRITER, TYPED, Graph, Op, Value
from graphad.ops import GRAD
from graphad.passes.backward.find_op_path import OpPath
from graphad.program import BACKWARD
from graphad.rewriting import Pass


@dataclass
class GradOps:
    """What ``create-grad-ops`` made: the grad operators in order, and the gradient of each value."""

    first: Op
    ops: list[Op] = field(default_factory=list)
    gradient: dict[Value, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class CreateGradOps(Pass):
    """Make one grad operator for every operator on the path, in reverse order.

    Args:
        target_gradients: names of the values the gradient starts from, one a target; empty, or ``""`` for a
            target, starts from ones.
    """

    name = "create-grad-ops"
    requires = (OpPath,)
    clears = (SINGLE_WRITER, TYPED)
    preserves = (OpPath, GradOps)
    target_gradients: tuple[str, ...] = ()

    def apply(self, graph: Graph) -> bool:
        path: OpPath = graph.analyses[OpPath]
        starts = self.target_gradients or ("",) * len(path.targets)
        if len(starts) != len(path.targets):
            raise InvalidValue(f"{len(starts)} target_gradients are given for {len(path.targets)} targets")
        names = _GradientNames(graph)
        seeds = [_seed(graph, names, target, start) for target, start in zip(path.targets, starts, strict=True)]
        made = GradOps(seeds[0], gradient=names.gradient)
        for op in reversed(path.ops):
            made.ops.append(_grad_op(graph, names, op))
        graph.analyses[GradOps] = made
        return True


class _GradientNames:
    """The gradient of each value, made when first asked for: ``y@GRAD``, or ``y@GRAD_0`` if an earlier backward has that name."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.gradient: dict[Value, Value] = {}
        self.names: dict[str, str] = {}

    def of_all(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return (self.of(values[0]),) if len(values) == 1 else tuple(map(self.of, values))

    def of(self, value: Value) -> Value:
        found = self.gradient.get(value)
        if found is None:
            name = self.names.get(value.name)
            if name is None:
                name = self.names[value.name] = self.graph.values.fresh(value.name + GRAD)
            found = self.gradient[value] = self.graph.add_version(name)
            found.grad_of = value
        return found


def _seed(graph: Graph, names: _GradientNames, target: Value, start: str) -> Op:
    out = {"Out": [names.of(target)]}
    forward = target.writer
    if start:
        return graph.add_op("assign", {"X": [graph.given(start)]}, out, role=BACKWARD, forward=forward)
    if target.shape is None or -1 in target.shape:
        return graph.add_op("fill_any_like", {"X": [target]}, out, {"value": 1.0}, role=BACKWARD, forward=forward)
    attrs = {"shape": list(target.shape), "value": 1.0, "dtype": target.dtype}
    return graph.add_op("fill_constant", {}, out, attrs, role=BACKWARD, forward=forward)


def _grad_op(graph: Graph, names: _GradientNames, op: Op) -> Op:
    grad = None if op.row is None else op.row.grad
    if grad is None:
        raise InvalidValue(f"operator {op.type!r} is a gradient itself: run expand-grad-ops before create-grad-ops")
    inputs = {slot: values for slot, side in grad.given if (values := getattr(op, side).get(slot))}
    for slot, forward in grad.cotangents:
        if values := op.outputs.get(forward):
            inputs[slot] = names.of_all(values)
    outputs = {slot: names.of_all(values) for slot, forward in grad.written if (values := op.inputs.get(forward))}
    made = Op(graph, grad.type, inputs, outputs, op.attrs)
    made.role, made.forward, made.source, made.made_by = BACKWARD, op, op.source, graph.author
    graph.link(made)
    return made
