"""Checks of an operator with blocks, from any source: its blocks, its condition, and the names that its gradient passes in."""

from __future__ import annotations

from graphad.errors import InvalidValue
from graphad.ops import ControlDef, Slot
from graphad.program.block import Block
from graphad.program.operator import Operator
from graphad.program.source import located

# The attributes of a gradient that name values inside its blocks, each with the slot whose values they are.
INSIDE = {"original_input": ("inputs", "X"), "original_output_grad": ("inputs", "Out@GRAD"), "original_input_grad": ("outputs", "X@GRAD")}


def check_control(op: Operator, row: ControlDef) -> None:
    """Refuse an operator without the blocks or the condition it needs, or with blocks in the wrong place.

    Raises:
        ValueError: the message names the operator, its block, and what is wrong.
    """
    for name in row.blocks:
        inner = op.attrs.get(name)
        if not isinstance(inner, Block):
            raise InvalidValue(f"operator {op.type!r} in block {op.block.idx} has no block as its attribute {name!r}")
        if inner in op.block.chain() or (not row.is_grad and inner.parent is not op.block):
            raise InvalidValue(
                f"operator {op.type!r} is in block {op.block.idx}, but holds block {inner.idx}, whose parent is {inner.parent_idx}"
            )
    if row.condition and not op.input(row.condition):
        raise InvalidValue(f"operator {op.type!r} in block {op.block.idx} has nothing in its input slot {row.condition}")


def check_runnable(op: Operator, row: ControlDef) -> None:
    """Refuse what only a reader may let through: ``check_control``, slots that lack their names, and names inside that do not fit.

    Paddle's own gradients of operators with blocks do not have all of the names inside, so that readers keep such operators.

    Raises:
        ValueError: the message names the operator, what is wrong, and the user's line.
    """
    try:
        check_control(op, row)
        for side, slots in (("input", row.inputs), ("output", row.outputs)):
            for slot in slots.values():
                _check_count(op, side, slot, len((op.inputs if side == "input" else op.outputs).get(slot.name, ())))
        if row.is_grad:
            _check_inside(op, row)
    except InvalidValue as error:
        raise InvalidValue(located(str(error), op.source)) from None


def _check_count(op: Operator, side: str, slot: Slot, count: int) -> None:
    if not count and not slot.optional and not slot.variadic:
        raise InvalidValue(f"operator {op.type!r}: {side} slot {slot.name!r} is missing")
    if count > 1 and not slot.variadic:
        raise InvalidValue(f"operator {op.type!r}: {side} slot {slot.name!r} takes one name, got {count}")


def _check_inside(op: Operator, row: ControlDef) -> None:
    for attr, (side, slot) in INSIDE.items():
        names, count = op.attrs.get(attr), len(row.blocks) * len(getattr(op, side).get(slot, ()))
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise InvalidValue(f"operator {op.type!r}: attribute {attr!r} is a list of names inside its blocks, not {names!r}")
        if len(names) != count:
            raise InvalidValue(
                f"operator {op.type!r}: attribute {attr!r} has {len(names)} names, but slot {slot} has {count} values for its blocks"
            )
