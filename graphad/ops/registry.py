"""The table of operators, by type."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphad.ops.definition import OpDef

REGISTRY: dict[str, OpDef] = {}
