"""Operators that are several operators in one."""

from __future__ import annotations

from typing import Any

from graphad.ops.control import Block, CallDef, region_operator

FUSED_ELEMENTWISE = "fused_elementwise"


@region_operator("X*? -> Out*? Scope?", CallDef, FUSED_ELEMENTWISE, scopes="Scope", blocks=("sub_block",), gradient="net_grad", fused=True)
def fused_elementwise(X: Any, *, sub_block: Block) -> Any:
    """Run the block, whose operators are elementwise: the executor does it piece by piece, as large as a cache."""
