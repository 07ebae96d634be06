"""Layers of Fluid 1.8 that are not here, why, and what takes their place: what an AttributeError says of them."""

from __future__ import annotations

import re

_REASONS = (
    (
        r"lod_|reorder_lod",
        "tensors carry no lengths of sequences (LoD)",
        "sequences are padded, [batch, time, ...], and layers take their lengths: layers.sequence_pool(x, 'sum', length=lengths)",
    ),
    (
        r"roi_?|deformable",
        "samples regions of images whose windows are moved or turned",
        "layers.roi_align, psroi_pool and prroi_pool, or layers.grid_sampler(x, grid), which samples an image at given places",
    ),
    (r"data_norm", "its statistics come from what is passed as its gradients", "layers.batch_norm"),
    (
        r"filter_by_instag",
        "keeps rows by their tags, which Fluid gives levels of detail (LoD)",
        "layers.masked_select, or layers.gather(x, rows)",
    ),
)


def unavailable(name: str) -> tuple[str, str] | None:
    """Why a layer of Fluid 1.8 is not here, and what takes its place; None for other names."""
    if name not in NAMES:
        return None
    return next((why, instead) for pattern, why, instead in _REASONS if re.search(pattern, name))


NAMES = frozenset(
    (
        "data_norm",
        "deformable_roi_pooling",
        "filter_by_instag",
        "lod_append",
        "lod_reset",
        "reorder_lod_tensor_by_rank",
        "roi_perspective_transform",
    )
)
