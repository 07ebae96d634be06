"""Which operators write fresh arrays: their results alias no operand, and they keep no reference to either."""

from __future__ import annotations

from graphad.graph import Op
from graphad.ops.in_place import makes_array, takes_required


def makes_own(op: Op) -> bool:
    """Whether an operator writes to fresh memory that nothing else aliases, and keeps none of its operands."""
    row = op.row
    if row is None or op.graphs:
        return False
    if op.type == "sum":
        return len(op.inputs.get("X", ())) > 1 and all(v.given or _is_there(v.writer) for v in op.inputs["X"])
    if row.own:
        return True
    dtypes = [value.dtype for value in op.reads()]
    return None not in dtypes and not row.partial and takes_required(row, op.inputs) and makes_array(row, dtypes, op.attrs)


def _is_there(writer: Op | None) -> bool:
    """Whether what an operator writes has a value for sure."""
    return writer is not None and writer.row is not None and not writer.row.partial and not writer.graphs
