"""Samples of the operators in ``graphad.ops.proposals``: scores that are all different, boxes of which some overlap."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.shared import distinct
from graphad.testing.samples.suppression import BOXES, CALL, SCORES

SIZES = np.array([[15.0, 15.0], [30.0, 12.0]])
CENTERS = np.stack(np.meshgrid([8.0, 24.0, 40.0], [8.0, 24.0]), -1)[:, :, None]
ANCHORS = np.concatenate([CENTERS - SIZES / 2, CENTERS + SIZES / 2], -1)
PROPOSED = {
    "Scores": distinct(2, 2, 2, 3),
    "BboxDeltas": uniform(2, 8, 2, 3, low=-0.4, high=0.4, seed=3),
    "Anchors": ANCHORS,
    "Variances": np.ones((2, 3, 2, 4)),
}
EXTENTS = np.array([[32.0, 48.0, 1.0], [30.0, 40.0, 1.25]])
ROIS = np.array([[0.0, 0.0, 20.0, 30.0], [5.0, 5.0, 200.0, 250.0], [3.0, 1.0, 90.0, 70.0], [0.0, 9.0, 400.0, 300.0]])
LEVELS: dict[str, object] = {"min_level": 2, "max_level": 4, "refer_level": 3, "refer_scale": 100}

SAMPLES: dict[str, list[Sample]] = {
    "generate_proposals": [
        Sample({**PROPOSED, "ImInfo": EXTENTS}, {"post_nms_topN": 4}),
        Sample({**PROPOSED, "ImInfo": EXTENTS}, {"pre_nms_topN": 5, "nms_thresh": 0.7, "eta": 0.9, "min_size": 18.0}),
    ],
    "generate_proposals_v2": [
        Sample({**PROPOSED, "ImShape": EXTENTS[:, :2].copy()}, {"post_nms_topN": 4}),
        Sample({**PROPOSED, "ImShape": EXTENTS[:, :2].copy()}, {"pixel_offset": False, "min_size": 12.0}),
    ],
    "distribute_fpn_proposals": [
        Sample({"FpnRois": ROIS, "RoisNum": np.array([1, 3], "int32")}, LEVELS),
        Sample({"FpnRois": ROIS}, {**LEVELS, "pixel_offset": False}),
    ],
    "collect_fpn_proposals": [
        Sample({"MultiLevelRois": [ROIS[:3], ROIS[1:]], "MultiLevelScores": [distinct(3, 1), distinct(3, 1) + 0.05]}, {"post_nms_topN": 4}),
        Sample(
            {
                "MultiLevelRois": [ROIS[:3], ROIS[1:]],
                "MultiLevelScores": [distinct(3, 1), distinct(3, 1) + 0.05],
                "MultiLevelRoIsNum": [np.array([1, 2], "int32"), np.array([3, 0], "int32")],
            },
            {"post_nms_topN": 3},
        ),
    ],
    "retinanet_detection_output": [
        Sample(
            {
                "BBoxes": [uniform(2, 12, 4, low=-0.3, high=0.3), uniform(2, 4, 4, low=-0.3, high=0.3, seed=1)],
                "Scores": [distinct(2, 12, 2) / 5, distinct(2, 4, 2) / 2 + 0.01],
                "Anchors": [ANCHORS.reshape(-1, 4), ANCHORS.reshape(-1, 4)[:4]],
                "ImInfo": EXTENTS,
            },
            {"score_threshold": 0.3, "nms_top_k": 6, "keep_top_k": 5},
        ),
    ],
    "locality_aware_nms": [
        Sample({"BBoxes": BOXES, "Scores": SCORES}, CALL),
        Sample(
            {"BBoxes": BOXES * 10, "Scores": SCORES},
            {**CALL, "nms_top_k": -1, "keep_top_k": -1, "normalized": False, "background_label": 0},
        ),
    ],
}
