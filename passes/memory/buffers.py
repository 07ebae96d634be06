"""Which operators write fresh arrays: their results alias no operand, and they keep no reference to either."""

from __future__ import annotations

from graphad.graph import Op
from graphad.ops.in_place import can_write


def makes_own(op: Op) -> bool:
    """Whether an operator writes to fresh memory that nothing else aliases, and keeps none of its operands."""
    row = op.row
    if row is None or op.graphs:
        return False
    if op.type == "sum":
        return len(op.inputs.get("X", ())) > 1 and all(v.given or _is_there(v.writer) for v in op.inputs["X"])
    return row.own or (can_write(row) and not row.partial)


def _is_there(writer: Op | None) -> bool:
    """Whether what an operator writes has a value for sure."""
    return writer is not None and writer.row is not None and not writer.row.partial and not writer.graphs
