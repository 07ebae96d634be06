"""Cotangents of values: in the forward graph, or, for a nested graph, in a graph of their own that takes residuals from it."""

from __future__ import annotations

from collections.abc import Mapping

from graphad.ir import Graph, Value
from graphad.ir.residuals import add_residual
from graphad.ops.definition import GRAD
from graphad.types import Shape


class Adjoints:
    """The gradient of each value, made on first use: ``y@GRAD``, or ``y@GRAD_0`` if an earlier backward has that name.

    Gradients are made in ``graph``. If that is not the ``forward`` graph, a forward value is read through an input. Operands of the
    forward graph's operator (from operand ``first`` on, which is loop-invariant) are passed in again, as ``arguments``. Any other
    value is one of the ``residuals`` that a run of the forward graph keeps; they are matched when the gradient operator is made.
    """

    def __init__(self, graph: Graph, forward: Graph, first: int = 0) -> None:
        self.graph = graph
        self.forward = forward
        self.gradient: dict[Value, Value] = {}
        self.arguments: dict[int, Value] = {}
        self._names: dict[tuple[str, Shape | None, str | None], str] = {}
        # Looked for in one text of all names: to ask two large tables for each gradient takes far longer.
        self._is_first = graph is forward and not any(GRAD in "\n".join(names) for names in (graph.values.by_name, graph.values.reserved))
        self.residuals: dict[Value, Value] = {}
        self._operands = {} if graph is forward else {value: i for i, value in enumerate(forward.inputs) if i >= first}

    def of_all(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """The gradients of values."""
        if len(values) != 1:
            return tuple(map(self.of, values))
        return (self.gradient.get(values[0]) or self.of(values[0]),)

    def written(self, slots: Mapping[str, tuple[Value, ...]]) -> dict[str, tuple[Value, ...]]:
        """The gradients that one operator writes, of the values in its slots."""
        gradients = {slot: self.of_all(values) for slot, values in slots.items()}
        self.tell_apart(gradients)
        return gradients

    def tell_apart(self, slots: Mapping[str, tuple[Value, ...]]) -> None:
        """Names of their own for gradients that one operator writes: of several versions of a name, the first's keeps the gradient's."""
        if not self.forward.values.contested:
            return  # each value has a name of its own
        gradients = list(dict.fromkeys(gradient for values in slots.values() for gradient in values))
        if len({gradient.name for gradient in gradients}) == len(gradients):
            return
        first: dict[str, Value] = {}
        for gradient in sorted(gradients, key=_version):
            if first.setdefault(gradient.name, gradient) is not gradient:
                self.graph.rename(gradient, self.graph.values.fresh(gradient.name))

    def of(self, value: Value) -> Value:
        """The gradient of a value."""
        gradient = self.gradient.get(value)
        if gradient is None:
            graph, name = self.graph, value.name
            # Versions of a variable share a name, and so do their gradients: each is a version of ``x@GRAD``. But a block's own variable
            # may have another type than the one of its name around it, and what is written under one name is declared once.
            if name not in self.forward.values.contested:
                fresh = name + GRAD if self._is_first else graph.values.fresh(name + GRAD)
            elif (fresh := self._names.get(kind := (name, value.shape, value.dtype), "")) == "":
                fresh = self._names[kind] = graph.values.fresh(name + GRAD)
            gradient = self.gradient[value] = graph.add_version(fresh)
            gradient.grad_of, gradient.kind = value, value.kind
        return gradient

    def given(self, value: Value) -> Value:
        """A gradient that is passed in, of a value."""
        gradient = self.graph.add_input(self.graph.values.fresh(value.name + GRAD), value.shape, value.dtype)
        gradient.grad_of, gradient.kind = value, value.kind
        return gradient

    def read_all(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Forward values as the gradients read them."""
        return values if self.graph is self.forward else tuple(map(self.read, values))

    def read(self, value: Value) -> Value:
        """A forward value as the gradients read it."""
        if self.graph is self.forward:
            return value
        at = self._operands.get(value)
        if at is not None:
            return self.operand(at)
        residual = self.residuals.get(value)
        if residual is None:
            # Until the gradient operator is made, its graph has no owner and no residuals: they are matched then, all at once.
            linked = self.graph.owner is not None
            residual = self.residuals[value] = add_residual(self.forward, value)[self.graph] if linked else self._input(value)
        return residual

    def is_operand(self, value: Value) -> bool:
        """Whether a value of a nested graph is an operand of its operator, so that its gradient here is but a part of that one's."""
        return value in self._operands

    def operand(self, at: int) -> Value:
        """The input for the operand ``at`` of the forward graph's operator."""
        value = self.arguments.get(at)
        if value is None:
            value = self.arguments[at] = self._input(self.forward.inputs[at])
        return value

    def _input(self, value: Value) -> Value:
        name = value.name if value.name not in self.graph.values.by_name else self.graph.values.numbered(value.name, "{}@READ@{}")
        argument = self.graph.add_input(name, value.shape, value.dtype)
        argument.kind = value.kind
        return argument


def _version(gradient: Value) -> int:
    """The place of a gradient's forward value among the others of its name; one that exists from the beginning is first."""
    value = gradient.grad_of
    return -1 if value is None or value.writer is None else value.writer.order
