"""Find the operators that carry a gradient from the targets to where it is asked for.

    w ─▶ mul ─▶ h ─▶ relu ─▶ loss (target)          on the path: mul, relu
    x ──▲        └▶ argmax ─▶ k                     x has stop_gradient: no gradient for it

An analysis: the graph stays as it is. A value is *varied* if it depends differentiably on a source,
*useful* if the targets depend on it; gradients flow where it is both (activity analysis, as in
A. Griewank and A. Walther, "Evaluating Derivatives", 2008, section 6.2). Nested graphs are gone through with what is
varied and useful around them, a loop's until nothing new is found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from graphad.errors import NoGradient
from graphad.ir import Graph, Op, Value
from graphad.ir.regions import definition_of, is_forward_loop, operands, outcomes
from graphad.ops import REGISTRY, ControlDef, GradOpDef
from graphad.ops.definition import GradRule
from graphad.program import located
from graphad.rewriting import Pass
from graphad.types import FLOATS


@dataclass(frozen=True)
class OpPath:
    """What ``find-op-path`` found: the operators on the path in order, the targets, and the active values.

    ``inner`` is the path through each nested graph of the operators on the path; ``carried`` says which of the values that such
    an operator hands out (of a loop: carries) have a gradient.
    """

    targets: tuple[Value, ...]
    ops: tuple[Op, ...]
    active: frozenset[Value]
    sources: tuple[Value, ...] = ()
    inner: Mapping[Graph, OpPath] = field(default_factory=dict)
    carried: Mapping[Op, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class FindOpPath(Pass):
    """Find the operators between the targets and what is to be differentiated (analysis).

    Args:
        targets: names of the values differentiated.
        inputs: names of the values to differentiate with respect to; empty means every value given from
            outside that has not stop_gradient.
        no_grad: names of values without gradient, besides those with stop_gradient.

    Raises:
        NoGradient: an operator on the path has no gradient rule.
    """

    name = "find-op-path"
    establishes = (OpPath,)
    is_analysis = True
    targets: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    no_grad: tuple[str, ...] = ()

    def apply(self, graph: Graph) -> bool:
        targets = tuple(map(graph.value, self.targets))
        blocked = {v for each in graph.tree() for name in self.no_grad for v in each.versions(name)}
        given = [source_value(graph, name) for name in self.inputs] if self.inputs else list(_open_values(graph))
        sources = tuple(v for v in given if v not in blocked and v.dtype in FLOATS)
        search = _Search(blocked)
        carrying = search.forward(graph, sources)
        graph.analyses[OpPath] = replace(search.backward(graph, carrying, targets), sources=sources)
        return False


def source_value(graph: Graph, name: str) -> Value:
    """The value a name stands for when one differentiates with respect to it: the one given from outside, else the final one."""
    versions = graph.versions(name)
    return versions[0] if versions and not versions[0].writers else graph.value(name)


def _open_values(graph: Graph) -> Iterator[Value]:
    return (v for v in graph.inputs if not v.stop_gradient and v.dtype in FLOATS)


class _Search:
    """Forward from the sources, then backward from the targets; ``varied`` holds what is found on the way there, in every graph."""

    def __init__(self, blocked: set[Value]) -> None:
        self.blocked = blocked
        self.varied: set[Value] = set()
        self.carrying: dict[Graph, list[Op]] = {}

    def forward(self, graph: Graph, sources: Iterable[Value]) -> list[Op]:
        """The operators that make something of a varied value."""
        varied, blocked = self.varied, self.blocked
        varied.update(sources)
        carrying = []
        for op in graph.ordered_ops():
            if op.graphs and not definition_of(op).is_grad:
                outputs: Iterable[tuple[Value, ...]] = self._through(op)
            else:
                outputs = _varied_outputs(op, varied) if _carries(op, varied) else ()
            if outputs:
                carrying.append(op)
                for values in outputs:
                    for value in values:
                        if (value.dtype is None or value.dtype in FLOATS) and not value.stop_gradient and value not in blocked:
                            varied.add(value)
        self.carrying[graph] = carrying
        return carrying

    def _through(self, op: Op) -> list[tuple[Value, ...]]:
        """Follow varied values through nested graphs; return what of them is handed out, and what is kept for the gradient."""
        given = operands(op)
        for graph in op.graphs.values():
            sources = {inner for value, inner in zip(given, graph.inputs, strict=False) if value in self.varied}
            self.forward(graph, sources)
            while is_forward_loop(op) and (more := self._fed_back(graph)):
                self.forward(graph, more)
        found = tuple(out for k, out in enumerate(outcomes(op)) if self._has_gradient(op, k))
        return [found, op.outputs.get(definition_of(op).scopes, ())] if found else []

    def _fed_back(self, graph: Graph) -> set[Value]:
        """Inputs of a loop's next iteration that are varied, as has just been found."""
        pairs = zip(graph.inputs, graph.results, strict=False)
        return {given for given, result in pairs if result in self.varied and given not in self.varied}

    def backward(self, graph: Graph, carrying: list[Op], targets: tuple[Value, ...]) -> OpPath:
        """Of the carrying operators those that lead to a target, and the active values."""
        varied, inner, carried = self.varied, dict[Graph, OpPath](), dict[Op, tuple[int, ...]]()
        useful = varied.intersection(targets)
        path: list[Op] = []
        for op in reversed(carrying):
            if not _writes_any(op, useful):
                continue
            path.append(op)
            if op.graphs and not definition_of(op).is_grad:
                carried[op] = self._back_through(op, useful, inner)
                continue
            slots = _reached_slots(op, useful)
            for slot, values in op.inputs.items():
                if slots is None or slot in slots:
                    for value in values:
                        if value in varied:
                            useful.add(value)
        path.reverse()
        return OpPath(targets, tuple(path), frozenset(useful), inner=inner, carried=carried)

    def _back_through(self, op: Op, useful: set[Value], inner: dict[Graph, OpPath]) -> tuple[int, ...]:
        """Find the paths through nested graphs, add what they start from to ``useful``; return which results have a gradient."""
        outs, loop = outcomes(op), is_forward_loop(op)
        wanted = {k for k, out in enumerate(outs) if out in useful}
        for graph in op.graphs.values():
            while True:
                targets = tuple(graph.results[k] for k in sorted(wanted))
                inner[graph] = self.backward(graph, self.carrying[graph], targets)
                more = {k for k in range(len(outs)) if loop and graph.inputs[k] in inner[graph].active} - wanted
                if not more:
                    break
                wanted |= more
            starts = {i for i, value in enumerate(graph.inputs) if value in inner[graph].active} | (wanted if loop else set())
            useful.update(value for i, value in enumerate(operands(op)) if i in starts and value in self.varied)
        return tuple(sorted(k for k in wanted if self._has_gradient(op, k)))

    def _has_gradient(self, op: Op, k: int) -> bool:
        if is_forward_loop(op):
            (graph,) = op.graphs.values()
            return graph.inputs[k] in self.varied or graph.results[k] in self.varied
        return any(graph.results[k] in self.varied for graph in op.graphs.values())


def _carries(op: Op, varied: set[Value]) -> bool:
    """Whether an operator makes something that depends differentiably on a varied value."""
    definition = REGISTRY.get(op.type)
    slots = None if definition is None or isinstance(definition, GradOpDef | ControlDef) else definition.grads
    for slot, values in op.inputs.items():
        if slots is None or slot in slots:
            for value in values:
                if value in varied:
                    return True
    return False


def _varied_outputs(op: Op, varied: set[Value]) -> Collection[tuple[Value, ...]]:
    """The outputs from which a gradient flows to a varied input; of an operator without rules, or with one output, all."""
    definition = REGISTRY.get(op.type)
    if len(op.outputs) == 1 or definition is None or isinstance(definition, GradOpDef | ControlDef) or not definition.grads:
        return op.outputs.values()
    inputs = {slot for slot, values in op.inputs.items() if not varied.isdisjoint(values)}
    return [values for slot, values in op.outputs.items() if not inputs.isdisjoint(definition.gradient_flows[slot])]


def _reached_slots(op: Op, useful: set[Value]) -> Collection[str] | None:
    """The input slots to which gradients flow from useful outputs; None stands for all."""
    slots = _differentiable_slots(op)
    if slots is None or len(op.outputs) == 1:
        return slots
    flows = REGISTRY[op.type].gradient_flows
    return {slot for out, values in op.outputs.items() if not useful.isdisjoint(values) for slot in flows[out]}


def _writes_any(op: Op, useful: set[Value]) -> bool:
    for values in op.outputs.values():
        for value in values:
            if value in useful:
                return True
    return False


def _differentiable_slots(op: Op) -> Mapping[str, GradRule] | None:
    definition = REGISTRY.get(op.type)
    if isinstance(definition, GradOpDef | ControlDef):
        return None
    if definition is None or definition.grads is None:
        why = "is not registered" if definition is None else "has no gradient rule"
        raise NoGradient(located(f"operator {op.type!r} is on the way to the target but {why}: {op!r}", op.source))
    return definition.grads
