"""Find the operators that carry a gradient from the targets to where it is requested.

    w ─▶ mul ─▶ h ─▶ relu ─▶ loss (target)          on the path: mul, relu
    x ──▲        └▶ argmax ─▶ k                     x has stop_gradient: no gradient for it

An analysis: the graph stays as it is. A value is *varied* if it depends differentiably on a source,
*useful* if the targets depend on it; gradients flow where it is both (activity analysis, as in
A. Griewank and A. Walther, "Evaluating Derivatives", 2008, section 6.2). These are two dataflow analyses, one forward and one backward.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphad.errors import NoGradient
from graphad.ir import Graph, Op, Value
from graphad.ir.regions import KEPT, Edge, definition_of, is_forward_loop, results_of
from graphad.ops import REGISTRY, ControlDef, GradOpDef
from graphad.ops.definition import GradRule
from graphad.program import located
from graphad.rewriting import Pass
from graphad.rewriting.dataflow import Dataflow, Facts
from graphad.types import FLOATS


@dataclass(frozen=True)
class OpPath:
    """The result of ``find-op-path``: the operators on the path in order, the targets, and the active values.

    ``inner`` is the path through each nested graph of the operators on the path; ``carried`` says which of the values that such
    an operator returns (of a loop: carries) have a gradient.
    """

    targets: tuple[Value, ...]
    ops: tuple[Op, ...]
    active: frozenset[Value]
    sources: tuple[Value, ...] = ()
    inner: dict[Graph, OpPath] = field(default_factory=dict)
    carried: dict[Op, tuple[int, ...]] = field(default_factory=dict)


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
        # All versions of a name: what the user excludes is a variable of the program, not one of its values.
        barriers = {v for subgraph in graph.tree() for name in self.no_grad for v in subgraph.versions(name)}
        starts = (
            [source_value(graph, name) for name in self.inputs]
            if self.inputs
            else [v for v in graph.inputs if not v.stop_gradient and v.dtype in FLOATS]
        )
        sources = tuple(v for v in starts if v not in barriers and v.dtype in FLOATS)
        varied = Varied(frozenset(sources), frozenset(barriers)).solve(graph)
        path = _path(graph, varied, Useful(varied, targets).solve(graph), targets)
        graph.analyses[OpPath] = replace(path, sources=sources)
        return False


def source_value(graph: Graph, name: str) -> Value:
    """The value a name stands for when one differentiates with respect to it: the one given from outside, else the final one."""
    first = graph.values.first(name)
    return graph.value(name) if first is None or first.writers else first


# -- activity ------------------------------------------------------------------------------------


# An operator is active if it depends on a source (varied, a forward analysis) and a target depends on it (useful, a backward one); see
# L. Hascoet and V. Pascual, "The Tapenade automatic differentiation tool", 2013.
@dataclass(frozen=True)
class Varied(Dataflow[bool]):
    """The values that depend differentiably on the sources; gradient operators are not entered."""

    sources: frozenset[Value]
    blocked: frozenset[Value] = frozenset()
    bottom, top, sparse = False, True, True

    def join(self, a: bool, b: bool) -> bool:
        return a or b

    def starts(self, graph: Graph) -> Collection[Value]:
        return self.sources

    def boundary(self, value: Value) -> bool:
        return True

    def enters(self, op: Op) -> bool:
        return not definition_of(op).is_grad

    def along(self, edge: Edge, fact: bool) -> bool:
        # Facts enter a block as they are; a result has the declarations of its variable, at which gradients may stop.
        return fact and (edge.target.graph is not edge.op.graph or self.may_vary(edge.target))

    def transfer(self, op: Op, facts: Facts[bool]) -> Mapping[Value, bool]:
        rules = _gradient_rules(op)
        if not _reads_any(op, rules, facts):
            return _NOTHING
        # Of several outputs not all depend on each input: the running mean of batch_norm does not depend on Scale.
        outputs = op.outputs.values() if len(op.outputs) == 1 or not rules else _varied_outputs(op, facts)
        varied, may_vary = {}, self.may_vary
        for values in outputs:
            for value in values:
                if may_vary(value):
                    varied[value] = True
        return varied

    def sweep(self, ops: Sequence[Op], facts: Facts[bool]) -> None:
        registry, blocked = REGISTRY, self.blocked
        for op in ops:
            definition = registry.get(op.type)
            rules = None if definition is None else definition.grads
            if not _reads_any(op, rules, facts):
                continue
            for values in op.outputs.values() if len(op.outputs) == 1 or not rules else _varied_outputs(op, facts):
                for value in values:
                    var = value.var
                    # As ``may_vary``, without calls: every operator comes by here.
                    if (
                        (value.dtype is None or value.dtype in FLOATS)
                        and not (var is not None and var.stop_gradient)
                        and value not in blocked
                    ):
                        facts[value] = True

    def may_vary(self, value: Value) -> bool:
        """Whether a value of this type, and with these declarations, has a gradient."""
        return (value.dtype is None or value.dtype in FLOATS) and not value.stop_gradient and value not in self.blocked


@dataclass(frozen=True)
class Useful(Dataflow[bool]):
    """The varied values that the targets depend on."""

    varied: Facts[bool]
    targets: tuple[Value, ...]
    bottom, top, backward = False, True, True

    def join(self, a: bool, b: bool) -> bool:
        return a or b

    def starts(self, graph: Graph) -> Collection[Value]:
        return self.targets

    def boundary(self, value: Value) -> bool:
        return self.varied[value]

    def enters(self, op: Op) -> bool:
        return not definition_of(op).is_grad

    def along(self, edge: Edge, fact: bool) -> bool:
        return fact and edge.source in self.varied and edge.kind != KEPT

    def sweep(self, ops: Sequence[Op], facts: Facts[bool]) -> None:
        registry, varied = REGISTRY, self.varied
        for op in ops:
            if not _writes_any(op, facts):
                continue
            definition = registry.get(op.type)
            rules = None if definition is None else definition.grads
            if rules is None or len(op.outputs) != 1:
                facts.update(self.transfer(op, facts))
                continue
            inputs = op.inputs
            for slot in inputs:
                if slot in rules:
                    for value in inputs[slot]:
                        if value in varied:
                            facts[value] = True

    def transfer(self, op: Op, facts: Facts[bool]) -> Mapping[Value, bool]:
        if not _writes_any(op, facts):
            return _NOTHING
        # Looked at only on a useful path: an operator without rules elsewhere is no error.
        varied, rules = self.varied, _gradient_rules(op)
        if rules is None:
            _check_differentiable(op)
            return {value: True for value in op.reads() if value in varied}
        slots = rules if len(op.outputs) == 1 else _reached_slots(op, facts)
        useful = {}
        for slot, values in op.inputs.items():
            if slot in slots:
                for value in values:
                    if value in varied:
                        useful[value] = True
        return useful


def _path(graph: Graph, varied: Facts[bool], useful: Facts[bool], targets: tuple[Value, ...]) -> OpPath:
    """The path in a graph and those nested in it, from the facts of both analyses."""
    # Useful facts exist only of varied values, so useful is active. A carried value of a loop is on the path if its result is useful or
    # its block argument is: later iterations read it, too.
    ops = [op for op in graph.ordered_ops() if _writes_any(op, useful)]
    alone = graph.parent is None and not graph.controls
    active = frozenset(useful if alone else [value for value in useful if value.graph is graph])
    path = OpPath(targets, tuple(ops), active, inner={}, carried={})
    for op in [op for op in ops if op.graphs and not definition_of(op).is_grad] if graph.controls else ():
        graphs, loop = [*op.graphs.values()], is_forward_loop(op)
        indices = [k for k, out in enumerate(results_of(op)) if out in useful or (loop and graphs[0].inputs[k] in useful)]
        for subgraph in graphs:
            path.inner[subgraph] = _path(subgraph, varied, useful, tuple(subgraph.results[k] for k in indices))
        path.carried[op] = tuple(k for k in indices if any(g.results[k] in varied or (loop and g.inputs[k] in varied) for g in graphs))
    return path


# -- one operator --------------------------------------------------------------------------------

_NOTHING: Mapping[Value, bool] = {}
_Slots = Mapping[str, GradRule]


def _gradient_rules(op: Op) -> _Slots | None:
    """The rules of an operator by input slot; None stands for all slots: a gradient's, which has no rules before it is expanded."""
    definition = REGISTRY.get(op.type)
    return None if definition is None else definition.grads


def _reads_any(op: Op, rules: _Slots | None, varied: Facts[bool]) -> bool:
    """Whether an operator makes something that depends differentiably on a varied value."""
    inputs = op.inputs
    for slot in inputs:
        if rules is None or slot in rules:
            for value in inputs[slot]:
                if value in varied:
                    return True
    return False


def _writes_any(op: Op, useful: Facts[bool]) -> bool:
    outputs = op.outputs
    for slot in outputs:
        for value in outputs[slot]:
            if value in useful:
                return True
    return False


def _varied_outputs(op: Op, varied: Facts[bool]) -> list[tuple[Value, ...]]:
    """The outputs from which a gradient flows to a varied input, of an operator with rules and several outputs."""
    flows = REGISTRY[op.type].gradient_flows
    slots = {slot for slot, values in op.inputs.items() if any(value in varied for value in values)}
    return [values for slot, values in op.outputs.items() if not slots.isdisjoint(flows[slot])]


def _reached_slots(op: Op, useful: Facts[bool]) -> Collection[str]:
    """The input slots to which gradients flow from useful outputs, of an operator with rules and several outputs."""
    flows = REGISTRY[op.type].gradient_flows
    return {slot for out, values in op.outputs.items() if any(value in useful for value in values) for slot in flows[out]}


def _check_differentiable(op: Op) -> None:
    """NoGradient for an operator without rules that is not a gradient."""
    definition = REGISTRY.get(op.type)
    if not isinstance(definition, GradOpDef | ControlDef):
        why = "is not registered" if definition is None else "has no gradient rule"
        raise NoGradient(located(f"operator {op.type!r} is on the way to the target but {why}: {op!r}", op.source))
