"""Samples of the operators in ``graphad.ops.matching``: true boxes of two images, padded."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform

NEAR = uniform(2, 3, 4, low=0.0, seed=2)
COUNTS = np.array([2, 3])
MATCHES = np.array([[0, -1, 1, -1], [-1, 2, -1, 0]], "int32")
LOSSES = uniform(2, 4, low=0.0, seed=4)
ANCHORS = np.array(
    [[0.0, 0.0, 15.0, 15.0], [8.0, 0.0, 23.0, 15.0], [0.0, 8.0, 15.0, 31.0], [16.0, 16.0, 31.0, 31.0], [-9.0, 0.0, 6.0, 15.0]]
)
TRUE = {
    "GtBoxes": np.array([[[1.0, 2.0, 14.0, 17.0], [18.0, 15.0, 30.0, 30.0]], [[6.0, 1.0, 20.0, 13.0], [0.0, 0.0, 9.0, 9.0]]]),
    "IsCrowd": np.array([[0, 0], [0, 1]], "int32"),
    "ImInfo": np.array([[32.0, 32.0, 1.0], [32.0, 32.0, 1.25]]),
}

SAMPLES: dict[str, list[Sample]] = {
    "bipartite_match": [
        Sample({"DistMat": NEAR}),
        Sample({"DistMat": NEAR, "Length": COUNTS}, {"match_type": "per_prediction", "dist_threshold": 0.4}),
        Sample({"DistMat": uniform(2, 3, low=0.0)}),
        Sample({"DistMat": uniform(1, 0, 3)}),
    ],
    "target_assign": [
        Sample({"X": uniform(2, 3, 2), "MatchIndices": MATCHES}),
        Sample({"X": uniform(2, 3, 4, 2), "MatchIndices": MATCHES}, {"mismatch_value": 2}),
        Sample(
            {"X": np.arange(6).reshape(2, 3, 1), "MatchIndices": MATCHES, "NegIndices": np.array([[1, -1], [0, 2]], "int32")},
            {"mismatch_value": 7},
        ),
    ],
    "mine_hard_examples": [
        Sample({"ClsLoss": LOSSES, "MatchIndices": MATCHES, "MatchDist": LOSSES[::-1].copy()}),
        Sample(
            {"ClsLoss": LOSSES, "MatchIndices": MATCHES, "MatchDist": LOSSES, "LocLoss": LOSSES[:, ::-1].copy()},
            {"mining_type": "hard_example", "sample_size": 2},
        ),
    ],
    "rpn_target_assign": [
        Sample({"Anchor": ANCHORS, **TRUE}, {"rpn_positive_overlap": 0.5, "use_random": False, "rpn_batch_size_per_im": 3}),
        Sample({"Anchor": ANCHORS, **TRUE, "Length": np.array([1, 1])}, {"rpn_straddle_thresh": -1.0, "rpn_batch_size_per_im": 2}),
    ],
    "retinanet_target_assign": [
        Sample({"Anchor": ANCHORS, **TRUE, "GtLabels": np.array([[2, 1], [3, 1]], "int32")}),
        Sample(
            {"Anchor": ANCHORS, **TRUE, "GtLabels": np.array([[2, 1], [3, 1]], "int32"), "Length": np.array([2, 0])},
            {"positive_overlap": 0.4},
        ),
    ],
}
