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
        r"nms",
        "merges boxes along the lines of a text",
        "layers.multiclass_nms or layers.matrix_nms choose boxes",
    ),
    (
        r"proposal|retinanet|generate_mask",
        "detection with a different number of boxes for each image",
        "choose boxes in numpy from fetched results; layers.iou_similarity and layers.box_coder are there",
    ),
    (r"roi_?|psroi|prroi|deformable", "samples regions of images", "layers.grid_sampler(x, grid) samples an image at given places"),
    (
        r"py_reader|double_buffer|read_file|^load$",
        "readers in the graph",
        "feed arrays: train(cost, reader=...), or Executor.run(program, feed)",
    ),
    (r"data_norm", "its statistics come from what is passed as its gradients", "layers.batch_norm"),
    (r"filter_by_instag|^hash$|similarity_focus", "no operator", "compute it in numpy and feed it, or write the operator"),
)


def unavailable(name: str) -> tuple[str, str] | None:
    """Why a layer of Fluid 1.8 is not here, and what takes its place; None for other names."""
    if name not in NAMES:
        return None
    return next((why, instead) for pattern, why, instead in _REASONS if re.search(pattern, name))


# fmt: off
NAMES = frozenset((
   
    
    "collect_fpn_proposals", "create_py_reader_by_data", "data_norm",
    "deformable_roi_pooling", "distribute_fpn_proposals", "double_buffer",
    "filter_by_instag", "generate_mask_labels", "generate_proposal_labels",
    "generate_proposals", "hash", "load", "locality_aware_nms", "lod_append", "lod_reset",
    "prroi_pool", "psroi_pool", "py_reader", "read_file",
    "reorder_lod_tensor_by_rank", "retinanet_detection_output", "roi_perspective_transform",
    "similarity_focus", 
   
))
# fmt: on
