"""Find the operators that carry a gradient from the targets to where it is asked for.

    w ─▶ mul ─▶ h ─▶ relu ─▶ loss (target)          on the path: mul, relu
    x ──▲        └▶ argmax ─▶ k                     x has stop_gradient: no gradient for it

An analysis: the graph stays as it is. A value is *varied* if it depends differentiably on a source,
*useful* if the targets depend on it; gradients flow where it is both (activity analysis, as in
A. Griewank and A. Walther, "Evaluating Derivatives", 2008, section 6.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphad.errors import NoGradient
from graphad.graph import Graph, Op, Value
from graphad.ops import REGISTRY, GradOpDef
from graphad.ops.definition import GradRule
from graphad.program import located
from graphad.rewriting import Pass
from graphad.types import FLOATS


@dataclass(frozen=True)
class OpPath:
    """What ``find-op-path`` found: the operators on the path in order, the targets, and the active values."""

    targets: tuple[Value, ...]
    ops: tuple[Op, ...]
    active: frozenset[Value]


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
    targets: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    no_grad: tuple[str, ...] = ()

    def apply(self, graph: Graph) -> bool:
        targets = tuple(map(graph.value, self.targets))
        blocked = {v for name in self.no_grad for v in graph.versions(name)}
        sources = {source_value(graph, name) for name in self.inputs} if self.inputs else set(_open_values(graph))
        carrying, varied = _varied(graph.ordered_ops(), {v for v in sources - blocked if v.dtype in FLOATS}, blocked)
        path, useful = _useful(carrying, set(targets), varied)
        graph.analyses[OpPath] = OpPath(targets, tuple(path), frozenset(useful))
        return False


def source_value(graph: Graph, name: str) -> Value:
    """The value a name stands for when one differentiates with respect to it: the one given from outside, else the final one."""
    versions = graph.versions(name)
    return versions[0] if versions and not versions[0].writers else graph.value(name)


def _open_values(graph: Graph) -> Iterator[Value]:
    return (v for v in graph.inputs if not v.stop_gradient and v.dtype in FLOATS)


def _varied(ops: list[Op], sources: set[Value], blocked: set[Value]) -> tuple[list[Op], set[Value]]:
    """The operators that make something of a varied value, and all varied values."""
    varied, carrying = set(sources), []
    for op in ops:
        if _carries(op, varied):
            carrying.append(op)
            for values in op.outputs.values():
                for value in values:
                    if (value.dtype is None or value.dtype in FLOATS) and not value.stop_gradient and value not in blocked:
                        varied.add(value)
    return carrying, varied


def _carries(op: Op, varied: set[Value]) -> bool:
    """Whether an operator makes something that depends differentiably on a varied value."""
    row = REGISTRY.get(op.type)
    slots = None if row is None or isinstance(row, GradOpDef) else row.grads
    for slot, values in op.inputs.items():
        if slots is None or slot in slots:
            for value in values:
                if value in varied:
                    return True
    return False


def _useful(carrying: list[Op], targets: set[Value], varied: set[Value]) -> tuple[list[Op], set[Value]]:
    """Of the carrying operators those that lead to a target, and the active values."""
    useful = targets & varied
    path: list[Op] = []
    for op in reversed(carrying):
        if not _writes_any(op, useful):
            continue
        path.append(op)
        slots = _differentiable_slots(op)
        for slot, values in op.inputs.items():
            if slots is None or slot in slots:
                for value in values:
                    if value in varied:
                        useful.add(value)
    path.reverse()
    return path, useful


def _writes_any(op: Op, useful: set[Value]) -> bool:
    for values in op.outputs.values():
        for value in values:
            if value in useful:
                return True
    return False


def _differentiable_slots(op: Op) -> Mapping[str, GradRule] | None:
    row = REGISTRY.get(op.type)
    if isinstance(row, GradOpDef):
        return None
    if row is None or row.grads is None:
        why = "is not registered" if row is None else "has no gradient rule"
        raise NoGradient(located(f"operator {op.type!r} is on the way to the target but {why}: {op!r}", op.source))
    return row.grads
