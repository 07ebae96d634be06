"""Pairs of gradients and their values, and of grad operators and their operators, also across nested graphs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from graphad.drawing.nesting import Nesting
from graphad.ir import Graph, Op, Value
from graphad.ir.regions import control_definition, is_loop_gradient, operands, results_of
from graphad.ir.residuals import find_forward_op, forward_graph, residual_of
from graphad.ops import GRAD
from graphad.program import BACKWARD, OPTIMIZE

# x@GRAD; x@GRAD_0 where a later sweep writes another gradient of x; x@GRAD@RENAME@0 where it is a term of a sum.
_GRADIENT = re.compile(rf"(.+){GRAD}(_\d+)?(@RENAME@\d+)?", re.DOTALL)
_PART = re.compile(r"@RENAME@\d+$")


def gradient_of(value: Value) -> Value | None:
    """The value this is the gradient of, by its name if nothing noted it (a lowered program has names only)."""
    if value.grad_of is not None:
        return value.grad_of
    match = _GRADIENT.fullmatch(value.name)
    return next(_named(value.graph, match[1]), None) if match else None


def is_part(value: Value) -> bool:
    """Whether a value is one of the terms of a gradient."""
    return _PART.search(value.name) is not None


def _named(graph: Graph, name: str) -> Iterator[Value]:
    """The values of a name, the last ones first, then those of the forward graph: a gradient's graph is given what others own."""
    forward = forward_graph(graph)
    for value in reversed(graph.versions(name)):
        # Not the version that an optimizer writes: that is of the next step, and the gradient is that of the value before it.
        if (value.writer is None and forward is None) or (value.writer is not None and value.writer.role != OPTIMIZE):
            yield value
    if forward is not None:
        yield from _named(forward, name)


class Pairs:
    """The gradients of a drawing.

    Attributes:
        forwards: for operators of the backward that turn a gradient of an operator's outputs into one of its inputs that operator.
    """

    def __init__(self, nesting: Nesting) -> None:
        self._nesting = nesting
        self._passed_in: dict[Value, Value] = {}
        self.forwards: dict[Op, Op] = {}
        for graph in nesting.graphs():
            for op in graph.controls:
                self._note_passed_in(op)
        for graph in nesting.graphs():
            for op in graph.ops:
                forward = self.forward(op)
                if forward is not None and forward is not op:
                    self.forwards[op] = forward

    def gradient_of(self, value: Value) -> Value | None:
        """The value this is the gradient of, in the forward graph."""
        forward = value.grad_of or self._passed_in.get(value) or gradient_of(value)
        while forward is not None and (residual := residual_of(forward)) is not None:
            forward = residual
        return forward

    def forward(self, op: Op) -> Op | None:
        """The operator that this one is the gradient of."""
        if self._nesting.role(op) != BACKWARD:
            return None
        return _keeper(op) or self._reader(op)

    def _reader(self, op: Op) -> Op | None:
        outputs = (self.gradient_of(value) for value in op.reads())
        writers = {value.writer for value in outputs if value is not None}
        inputs = (self.gradient_of(value) for value in op.writes())
        return next((reader for value in inputs if value is not None for reader in value.readers if reader in writers), None)

    def _note_passed_in(self, op: Op) -> None:
        """The values that the operands and results of a gradient and of its graphs are gradients of, in the order of the operands."""
        forward, definition = _keeper(op), control_definition(op)
        if forward is None or definition is None or not definition.is_grad:
            return
        inputs, outputs = operands(forward), results_of(forward)
        cotangents, gradients = op.inputs.get(f"Out{GRAD}", ()), op.inputs.get("X", ())
        places = [_place(self.gradient_of(value), outputs) for value in cotangents]
        outer = self._nesting.outer
        results = [_place(outer(value), tuple(map(outer, inputs))) for value in gradients]
        # A loop's gradient gives the cotangents of what the loop carries first, and then those of its operands.
        if is_loop_gradient(op):
            results = [*places, *results]
        self._note(results_of(op), results, inputs)
        for graph, body in zip(op.graphs.values(), forward.graphs.values(), strict=False):
            # The inputs of a gradient's graph are operands, then cotangents, in the order in which they are outside.
            self._note(graph.inputs[len(gradients) :], places, body.results)
            self._note(graph.results, results, body.inputs)

    def _note(self, gradients: Iterable[Value], places: list[int | None], values: tuple[Value, ...] | list[Value]) -> None:
        for gradient, place in zip(gradients, places, strict=False):
            if place is not None and place < len(values):
                self._passed_in[gradient] = values[place]


def _keeper(op: Op) -> Op | None:
    """The forward operator of a gradient with nested graphs, which keeps its residuals; None for other operators."""
    definition = control_definition(op)
    if definition is None or not definition.is_grad:
        return None
    return find_forward_op(op)


def _place(value: Value | None, values: tuple[Value, ...]) -> int | None:
    return next((i for i, v in enumerate(values) if v is value), None)
