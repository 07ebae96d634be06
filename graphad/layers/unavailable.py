"""Layers of Fluid 1.8 that are not here, why, and what takes their place: what an AttributeError says of them."""

from __future__ import annotations

import re

_REASONS = (
    (
        r"sequence_(pool|first_step|last_step|softmax|conv|pad|unpad|reverse|concat|slice|scatter|enumerate|expand|expand_as|reshape)$",
        "works on sequences of different lengths (LoD)",
        "pad to [batch, time, ...] and weight the steps with layers.sequence_mask(lengths)",
    ),
    (
        r"lod_|reorder_lod|dynamic_(lstm|gru|lstmp)$|DynamicRNN",
        "works on sequences of different lengths (LoD)",
        "pad to [batch, time, ...]; layers.rnn(cell, inputs, sequence_length=lengths) runs a cell over them",
    ),
    (
        r"nms|proposal|detection_output|rpn|retinanet|ssd_loss|target_assign|bipartite|generate_mask|multi_box|yolov3_loss",
        "detection with a different number of boxes for each image",
        "choose boxes in numpy from fetched results; layers.iou_similarity and layers.box_coder are there",
    ),
    (r"roi_?|psroi|prroi|deformable", "samples regions of images", "layers.grid_sampler(x, grid) samples an image at given places"),
    (
        r"beam|Decode|decode$|Helper",
        "decoding with a beam, which grows as it runs",
        "layers.while_loop with layers.topk, layers.gather_nd and layers.gather_tree",
    ),
    (
        r"py_reader|double_buffer|read_file|^load$",
        "readers in the graph",
        "feed arrays: train(cost, reader=...), or Executor.run(program, feed)",
    ),
    (r"py_func", "Python in the graph", "an operator of one's own: @graphad.operator"),
    (r"Print", "prints as it runs", "fetch the value: executor.run(program, feed, fetch_list=[name]), or the pass probe-numerics"),
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
    "BasicDecoder", "BeamSearchDecoder", "DecodeHelper", "Decoder", "DynamicRNN", "GreedyEmbeddingHelper", "Print", "SampleEmbeddingHelper",
    "TrainingHelper", "beam_search", "beam_search_decode", "bipartite_match",
    "collect_fpn_proposals", "create_py_reader_by_data", "data_norm",
    "deformable_roi_pooling", "detection_output", "distribute_fpn_proposals", "double_buffer", "dynamic_decode", "dynamic_gru",
    "dynamic_lstm", "dynamic_lstmp", "filter_by_instag", "generate_mask_labels", "generate_proposal_labels",
    "generate_proposals", "hash", "load", "locality_aware_nms", "lod_append", "lod_reset", "matrix_nms",
    "multi_box_head", "multiclass_nms", "prroi_pool", "psroi_pool", "py_func", "py_reader", "read_file",
    "reorder_lod_tensor_by_rank", "retinanet_detection_output", "retinanet_target_assign", "roi_perspective_transform",
    "rpn_target_assign", "sequence_concat", "sequence_conv", "sequence_enumerate", "sequence_expand", "sequence_expand_as",
    "sequence_first_step", "sequence_last_step", "sequence_pad", "sequence_pool", "sequence_reshape", "sequence_reverse",
    "sequence_scatter", "sequence_slice", "sequence_softmax", "sequence_unpad", "similarity_focus", "ssd_loss", "target_assign",
    "yolov3_loss",
))
# fmt: on
