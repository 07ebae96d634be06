"""Operators that are several operators in one."""

from __future__ import annotations

from typing import Any

from graphad.ops.control import ControlDef
from graphad.ops.definition import operator
from graphad.ops.symbol import REGISTRY
from graphad.types import STEP_SCOPES

FUSED_ELEMENTWISE = "fused_elementwise"


def _nothing(*_: Any, **__: Any) -> Any:
    raise AssertionError("an operator with blocks is run by the executor")


@operator("X*? -> Out*? Scope?", name=FUSED_ELEMENTWISE, infer=_nothing, grad=None)
def _fused_elementwise(X: Any, *, sub_block: Any) -> Any:
    """Run the block, whose operators are elementwise: the executor does it piece by piece, as large as a cache."""


_fused_elementwise.attrs["sub_block"] = _fused_elementwise.attrs["sub_block"]._replace(kind="Block")
fused_elementwise = ControlDef(**{**vars(_fused_elementwise), "kinds": {"Scope": STEP_SCOPES}, "scopes": "Scope", "blocks": ("sub_block",)})
REGISTRY[FUSED_ELEMENTWISE] = fused_elementwise
