"""Layers of Fluid 1.8 that are not here, why, and what takes their place: what an AttributeError says of them."""

from __future__ import annotations

NAMES = frozenset(("lod_append", "lod_reset", "reorder_lod_tensor_by_rank"))
_WHY = "tensors carry no lengths of sequences (LoD)"
_INSTEAD = "sequences are padded, [batch, time, ...], and layers take their lengths: layers.sequence_pool(x, 'sum', length=lengths)"


def unavailable(name: str) -> tuple[str, str] | None:
    """Why a layer of Fluid 1.8 is not here, and what takes its place; None for other names."""
    return (_WHY, _INSTEAD) if name in NAMES else None
