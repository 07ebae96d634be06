"""The operator Gradient of ai.onnx.preview.training, which no runtime has: it is read as the gradients themselves."""

from __future__ import annotations

from collections.abc import Sequence

from graphad.backward import gradients
from graphad.interop.onnx.handlers.handler import TRAINING, Node, handles
from graphad.interop.onnx.operands import Operand, UnsupportedModel, Value


@handles("Gradient", domain=TRAINING)
def _gradient(node: Node) -> list[Value | None]:
    """The derivatives of the sum of y's elements with respect to ``xs``, at the values of the inputs, which stand for ``xs`` and ``zs``.

    Where these are the tensors of those names, what was read of y is differentiated, else the nodes between are read again.
    """
    xs, zs, y = list(node.required("xs")), list(node.attr("zs", [])), str(node.required("y"))
    if len(node.inputs) != len(xs) + len(zs):
        raise UnsupportedModel(f"xs and zs name {len(xs) + len(zs)} tensors, and there are {len(node.inputs)} inputs")
    ops, current = node.ops, node.ops.program.current_block()
    if current.idx:
        raise UnsupportedModel("Gradient in a nested graph")
    points: Sequence[Operand] = node.inputs
    target = node.reader.found(y)
    are_own = all(point is node.reader.found(name) for name, point in zip([*xs, *zs], points, strict=True))
    if not are_own or any(point is None or point.array is not None for point in points[: len(xs)]):
        # Copies of the points, so that derivatives are with respect to these inputs alone, not to whatever else they are made of.
        points = [None if point is None else Value(variable=ops.variable(ops.assign(_recorded(node, point)))) for point in points]
        target = node.reader.again(y, dict(zip([*xs, *zs], points, strict=True)))
    if target is None or not target.is_float:
        raise UnsupportedModel(f"y={y!r} is no tensor of floats")
    sources = [ops.variable(point) for point in points[: len(xs)] if point is not None]
    for source in sources:
        source.stop_gradient = False
    derivatives = gradients([ops.variable(target)], sources)
    pairs = zip(points[: len(xs)], derivatives, strict=True)
    return [
        Value(variable=derivative) if derivative is not None else ops.fill_zeros_like(_recorded(node, point))
        for point, derivative in pairs
        if point
    ]


def _recorded(node: Node, value: Operand) -> Value:
    """A value as a variable of the program, also where it is known."""
    assert value is not None
    return Value(variable=node.ops.variable(value))
