"""Clip the gradients of variables that say so (``error_clip``), as soon as they are complete.

    g_grad ─▶ h@GRAD ─▶ f_grad          g_grad ─▶ h@GRAD@RAW@0 ─▶ clip ─▶ h@GRAD ─▶ f_grad
                                   ⇒
    while_grad { (h@GRAD) f_grad }      while_grad { (h@GRAD) clip ─▶ f_grad }

The clip comes directly after the operator that completes the gradient: a grad operator, or the sum of what several have written. So it
bounds what the rest of the backward starts from, and what is fetched as ``h@GRAD``. A gradient that comes into a nested graph, that of
what an iteration carries on, is clipped there as well. What a nested graph reads from around it is clipped around it, where its gradient is
complete. The gradient that the backward starts with is not clipped. One that a run may leave without a value is clipped only where what
reads it needs one: in the gradient of the branch that wrote the variable.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import dataclass

from graphad.errors import InvalidValue
from graphad.ir import SINGLE_WRITER, Graph, Op, Value
from graphad.ir.edits import split_writers
from graphad.passes.analyses.uninitialized import Certain, is_needed
from graphad.passes.backward.create_grad_ops import GradOps
from graphad.passes.backward.find_op_path import OpPath
from graphad.program import BACKWARD
from graphad.rewriting import Pass
from graphad.types import FLOATS, TENSOR

Bounds = tuple[float, float]


@dataclass(frozen=True)
class ClipErrors(Pass):
    """Bound each element of the gradients of variables to what their ``error_clip`` says.

    Args:
        variables: names of variables whose gradients are bounded to [low, bound] as well, where they have no ``error_clip``; empty: all, if
            there is a bound.
        bound: the largest element; none: only variables with an ``error_clip`` are clipped.
        low: the smallest element; ``-bound`` if none.
    """

    name = "clip-errors"
    requires = (GradOps, SINGLE_WRITER)
    preserves = (OpPath, GradOps)
    variables: tuple[str, ...] = ()
    bound: float | None = None
    low: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("bound", self.bound), ("low", self.low)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value)):
                raise InvalidValue(f"{name} is a number or none, not {value!r}")
        if self.bound is None and (self.variables or self.low is not None):
            raise InvalidValue("clip-errors with variables or a low needs a bound")
        if self.bound is not None and self.low is not None and self.low > self.bound:
            raise InvalidValue(f"clip-errors bounds to [{self.low!r}, {self.bound!r}], which is empty")

    def apply(self, graph: Graph) -> bool:
        return self._clip(graph.analyses[GradOps], Certain.of(graph).values)

    def _clip(self, grad_ops: GradOps, certain: Container[Value]) -> bool:
        """Clip in one graph, and in those nested in its grad operators; return whether anything was. ``certain`` has a value in any run."""
        graph, gradient_of = grad_ops.adjoints.graph, grad_ops.adjoints.gradient
        # A list and not a generator: all graphs are clipped, not those up to the first change.
        has_changed = any([self._clip(grad_ops.inner[inner], certain) for op in grad_ops.ops for inner in op.graphs.values()])
        clipped = [(value, gradient_of[value], bounds) for value, bounds in self._clipped(grad_ops, certain)]
        # All at once, since each call goes through the graph.
        raw = split_writers(graph, [gradient for _, gradient, _ in clipped if not gradient.given], _raw)
        for value, gradient, bounds in clipped:
            if gradient.given:
                gradient_of[value] = _clip_argument(gradient, bounds)
            else:
                # Directly after its writer, so that nothing reads the raw gradient but the clip.
                _add_clip(raw[gradient][0], gradient, bounds, before=raw[gradient][0].writers[0].next)
        return has_changed or bool(clipped)

    def _clipped(self, grad_ops: GradOps, certain: Container[Value]) -> Iterator[tuple[Value, Bounds]]:
        """The values whose gradients are to be clipped, each with the bounds."""
        for value, gradient in grad_ops.gradient.items():
            bounds = self._bounds(value)
            if bounds is None or value.kind != TENSOR or value.dtype not in FLOATS or grad_ops.adjoints.is_operand(value):
                continue
            can_be_read = gradient in certain or value in certain or is_needed(gradient)
            if can_be_read and (gradient.given or _is_computed(gradient)):
                yield value, bounds

    def _bounds(self, value: Value) -> Bounds | None:
        if value.error_clip is not None:
            return value.error_clip.low, value.error_clip.max
        if self.bound is None or (self.variables and value.name not in self.variables):
            return None
        return -self.bound if self.low is None else self.low, self.bound


def _is_computed(gradient: Value) -> bool:
    """Whether a gradient is computed from others: not what the backward starts with, nor zeros where there is none."""
    return bool(gradient.writers) and any(value.grad_of is not None for value in gradient.writers[0].reads())


def _raw(gradient: Value) -> Value:
    return _like(gradient, "{}@RAW@{}")


def _like(gradient: Value, name: str) -> Value:
    graph = gradient.graph
    version = graph.add_version(graph.values.numbered(gradient.name, name))
    version.grad_of, version.kind = gradient.grad_of, gradient.kind
    return version


def _add_clip(raw: Value, gradient: Value, bounds: Bounds, before: Op | None) -> None:
    writer = raw.grad_of.writer if raw.grad_of is not None else None
    forward = raw.writers[0].forward if raw.writers else writer
    attrs = {"min": bounds[0], "max": bounds[1]}
    raw.graph.add_op("clip", {"X": [raw]}, {"Out": [gradient]}, attrs, before=before, role=BACKWARD, forward=forward)


def _clip_argument(gradient: Value, bounds: Bounds) -> Value:
    """Clip a gradient that comes into a nested graph; all that reads it reads the clipped one, which is returned."""
    graph, clipped = gradient.graph, _like(gradient, "{}@CLIPPED@{}")
    graph.replace(gradient, clipped)
    _add_clip(gradient, clipped, bounds, before=graph.ops.first)
    return clipped
