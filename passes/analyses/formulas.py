"""Floating-point operations by operator type: what the textbook counts, one for each addition, product, comparison and function value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from graphad.graph import Op, Value
from graphad.ops import GRAD, GradOpDef
from graphad.types import Shape

Shapes = Callable[[Value], Shape]  # the shape of a value, with the batch size in the place of unknown extents
Formula = Callable[[Op, Shapes], int]


def flops_of(op: Op, shape: Shapes) -> int:
    """The floating-point operations of an operator without blocks; the elements that it writes where no formula is known.

    A grad operator without a formula of its own counts as its forward operator for each gradient that it writes.
    """
    if isinstance(op.row, GradOpDef) and op.row.forward is not None:
        return _gradient(op, shape)
    formula = FORMULAS.get(op.type)
    if formula is not None:
        return formula(op, shape)
    if op.row is None or op.row.flops is None:
        return _written(op, shape)
    elements = next(filter(None, (*op.inputs.values(), *op.outputs.values())), ())
    return op.row.flops * _count(elements, shape) if op.row.flops else 0


def _count(values: tuple[Value, ...], shape: Shapes) -> int:
    return sum(prod(shape(value)) for value in values)


def _written(op: Op, shape: Shapes) -> int:
    return sum(_count(values, shape) for values in op.outputs.values())


def _sum(op: Op, shape: Shapes) -> int:
    return max(len(op.inputs.get("X", ())) - 1, 0) * _count(op.outputs["Out"], shape)


# -- products ------------------------------------------------------------------------------------


def _attr(op: Op, name: str) -> int:
    row = op.row
    assert row is not None
    return int(row.attr(name, op.attrs))


def _mul(op: Op, shape: Shapes) -> int:
    return 2 * _count(op.outputs["Out"], shape) * prod(shape(op.input("X"))[_attr(op, "x_num_col_dims") :])


def _matmul(turned: str = "") -> Formula:
    def formula(op: Op, shape: Shapes) -> int:
        x = shape(op.input("X"))
        inner = x[-2] if turned and len(x) > 1 and _attr(op, turned) else x[-1]
        return 2 * _count(op.outputs["Out"], shape) * inner

    return formula


def _convolution(outer: str) -> Formula:
    """Two for each weight that an element of a tensor, the slot ``outer``, meets."""

    def formula(op: Op, shape: Shapes) -> int:
        weights = op.inputs.get("Filter") or op.inputs.get("Like") or ()
        values = op.inputs.get(outer) or op.outputs.get(outer, ())
        return 2 * _count(values, shape) * prod(shape(weights[0])[1:])

    return formula


def _pool(op: Op, shape: Shapes) -> int:
    row = op.row
    assert row is not None
    x, out = shape(op.input("X")), shape(op.output("Out"))
    if row.attr("global_pooling", op.attrs):
        return prod(x)
    window: list[int] = row.attr("ksize", op.attrs)
    return prod(out) * prod(window)


# -- gradients -----------------------------------------------------------------------------------


def _gradient(op: Op, shape: Shapes) -> int:
    """The same products again for each gradient; else twice as much as forward, which has one function for each of its values."""
    row = op.row
    assert isinstance(row, GradOpDef)
    assert row.forward is not None
    gradients = [value for values in op.outputs.values() for value in values]
    type = row.forward.type
    if row.forward.flops == 0:
        return 0
    if type not in PRODUCTS:
        return sum(2 * prod(shape(value)) for value in gradients)
    return len(gradients) * _product_behind(op, type, shape)


def _product_behind(op: Op, type: str, shape: Shapes) -> int:
    """The operations of a forward product, from the operands and the cotangent that its gradient reads."""
    outer = next((v for slot, values in op.inputs.items() if slot.endswith(GRAD) for v in values), None)
    if outer is None:
        return 0
    if type.startswith(("conv2d", "depthwise")):
        met = op.inputs.get("Input", ()) if type == "conv2d_transpose" else (outer,)
        weights = next((op.input(slot) for slot in ("Filter", "Input") if slot in op.inputs), outer)
        return 2 * _count(met, shape) * prod(shape(weights)[1:])
    side = next((slot for slot in ("X", "Y") if slot in op.inputs), None)
    return _written(op, shape) if side is None else 2 * prod(shape(op.input(side))) * _other_extent(op, type, side, shape, outer)


def _other_extent(op: Op, type: str, side: str, shape: Shapes, outer: Value) -> int:
    """How long the cotangent is along the axes that one operand does not have."""
    operand, cotangent = shape(op.input(side)), shape(outer)
    if type == "mul":
        columns = _attr(op, f"{side.lower()}_num_col_dims")
        shared = operand[:columns] if side == "X" else operand[columns:]
        return prod(cotangent) // max(prod(shared), 1)
    return cotangent[-1] if side == "X" else (cotangent[-2] if len(cotangent) > 1 else 1)


PRODUCTS: Mapping[str, Formula] = {
    "mul": _mul,
    "matmul": _matmul("transpose_X"),
    "matmul_v2": _matmul("trans_x"),
    "bmm": _matmul(),
    "conv2d": _convolution("Output"),
    "depthwise_conv2d": _convolution("Output"),
    "conv2d_transpose": _convolution("Input"),
}
FORMULAS: Mapping[str, Formula] = {
    **PRODUCTS,
    "addmm": lambda op, shape: _matmul()(op, shape) + 3 * _count(op.outputs["Out"], shape),
    "conv2d_backprop_input": _convolution("X"),
    "conv2d_backprop_filter": _convolution("X"),
    "pool2d": _pool,
    "sum": _sum,
}
