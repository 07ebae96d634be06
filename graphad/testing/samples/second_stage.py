"""Samples of the operators in ``graphad.ops.second_stage``: proposals of two images, near true boxes and far from them."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample

TRUE: dict[str, object] = {
    "ImInfo": np.array([[40.0, 50.0, 1.0], [30.0, 40.0, 2.0]]),
    "GtClasses": np.array([[2, 1], [1, 0]], "int32"),
    "IsCrowd": np.array([[0, 1], [0, 0]], "int32"),
}
ROIS = np.array([[3.0, 2.0, 14.0, 15.0], [20.0, 8.0, 33.0, 30.0], [40.0, 1.0, 45.0, 9.0], [9.0, 9.0, 50.0, 40.0], [0.0, 50.0, 8.0, 60.0]])
CALL: dict[str, object] = {
    **TRUE,
    "RpnRois": ROIS,
    "GtBoxes": np.array([[[2.0, 3.0, 15.0, 14.0], [18.0, 9.0, 31.0, 31.0]], [[5.0, 4.0, 24.0, 19.0], [0.0, 0.0, 0.0, 0.0]]]),
    "RoisNum": np.array([3, 2], "int32"),
}
SMALL: dict[str, object] = {"batch_size_per_im": 4, "fg_fraction": 0.5, "fg_thresh": 0.5, "class_nums": 3}
POLYGONS = np.array(
    [
        [[[[2.0, 3.0], [15.0, 4.0], [9.0, 14.0]]], [[[18.0, 9.0], [31.0, 9.0], [31.0, 31.0]]]],
        [[[[5.0, 4.0], [24.0, 5.0], [12.0, 19.0]]], [[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]]],
    ]
)
MASKS: dict[str, object] = {**TRUE, "GtSegms": POLYGONS, "Rois": ROIS, "RoisNum": np.array([3, 2], "int32")}

SAMPLES: dict[str, list[Sample]] = {
    "generate_proposal_labels": [
        Sample(CALL, {**SMALL, "use_random": False}),
        Sample({**CALL, "Length": np.array([1, 1])}, {**SMALL, "fg_fraction": 0.25}),
        Sample({**CALL, "MaxOverlap": np.array([0.5, 0.6, 1.0, 0.2, 0.7])}, {**SMALL, "is_cascade_rcnn": True, "is_cls_agnostic": True}),
    ],
    "generate_mask_labels": [
        Sample(
            {**MASKS, "LabelsInt32": np.array([[2], [1], [0], [1], [0]], "int32")},
            {"num_classes": 3, "resolution": 5},
        ),
        Sample(
            {**MASKS, "LabelsInt32": np.array([[0], [1], [0], [0], [0]], "int32"), "PointsNum": np.array([[[3], [3]], [[3], [0]]])},
            {"num_classes": 2, "resolution": 4},
        ),
    ],
}
