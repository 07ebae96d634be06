"""Samples of the operators in ``graphad.ops.suppression``: boxes of which some overlap, and scores that are all different."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample

BOXES = np.array(
    [
        [[0.1, 0.1, 0.5, 0.5], [0.15, 0.1, 0.55, 0.5], [0.6, 0.6, 0.9, 0.8], [0.2, 0.2, 0.5, 0.6]],
        [[0.0, 0.0, 1.0, 0.4], [0.0, 0.1, 0.9, 0.5], [0.3, 0.5, 0.4, 0.9], [0.3, 0.5, 0.4, 0.8]],
    ]
)
SCORES = np.array(
    [
        [[0.21, 0.12, 0.33, 0.44], [0.91, 0.82, 0.13, 0.74], [0.05, 0.66, 0.57, 0.38]],
        [[0.41, 0.52, 0.23, 0.14], [0.31, 0.02, 0.63, 0.94], [0.75, 0.86, 0.17, 0.08]],
    ]
)
CALL = {"score_threshold": 0.1, "nms_top_k": 3, "keep_top_k": 3}

SAMPLES: dict[str, list[Sample]] = {
    "multiclass_nms3": [
        Sample({"BBoxes": BOXES, "Scores": SCORES}, CALL),
        Sample({"BBoxes": BOXES * 10, "Scores": SCORES}, {**CALL, "nms_top_k": -1, "keep_top_k": -1, "normalized": False, "nms_eta": 0.9}),
        Sample({"BBoxes": BOXES, "Scores": SCORES}, {**CALL, "score_threshold": 1.0}),
    ],
    "matrix_nms": [
        Sample({"BBoxes": BOXES, "Scores": SCORES}, {**CALL, "post_threshold": 0.2}),
        Sample({"BBoxes": BOXES, "Scores": SCORES}, {**CALL, "post_threshold": 0.0, "use_gaussian": True, "background_label": -1}),
    ],
}
