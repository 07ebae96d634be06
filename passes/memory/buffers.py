"""Which operators make arrays of their own: what they write shares no memory with what they read, and they keep neither."""

from __future__ import annotations

from graphad.graph import Op
from graphad.ops.in_place import can_write


def makes_own(op: Op) -> bool:
    """Whether what an operator writes lies in memory that nothing else knows of, and it keeps nothing of what it reads."""
    row = op.row
    if row is None or op.graphs:
        return False
    if op.type == "sum":
        return len(op.inputs.get("X", ())) > 1 and all(v.given or _is_there(v.writer) for v in op.inputs["X"])
    return row.own or (can_write(row) and not row.partial)


def _is_there(writer: Op | None) -> bool:
    """Whether what an operator writes has a value for sure."""
    return writer is not None and writer.row is not None and not writer.row.partial and not writer.graphs
