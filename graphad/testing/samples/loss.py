"""Samples of the operators in ``graphad.ops.loss``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, away_from_zero, uniform
from graphad.types import Array


def weights(*shape: int, seed: int = 0) -> Array:
    """Positive values, for probabilities and soft labels."""
    return uniform(*shape, low=0.1, high=0.9, seed=seed)


# -100 is the usual ``ignore_index``: such a row has no loss, and no gradient.
LABELS = np.array([[1], [4], [-100], [0]])
ACROSS = np.array([[[1, 0, 3, 2]], [[3, 3, -1, 0]]])


SIGNS = np.array([[1.0], [0.0], [1.0]])
CLASSES = np.array([[1], [3], [0]])
PIXELS = np.array([[[0, 2]], [[-100, 1]]])

SAMPLES: dict[str, list[Sample]] = {
    "hinge_loss": [Sample({"Logits": away_from_zero(3, 1), "Labels": SIGNS}), Sample({"Logits": uniform(0, 1), "Labels": uniform(0, 1)})],
    "modified_huber_loss": [
        # With z = (2 y - 1) x one on each branch: -4 z below -1, (1 - z)^2 below 1, and 0.
        Sample({"X": np.array([[-1.7], [0.4], [1.5]]), "Y": SIGNS}, differentiate=("X",)),
        Sample({"X": uniform(3, 1), "Y": SIGNS}, differentiate=("X",), outputs=("Out",)),
    ],
    "rank_loss": [
        Sample({"Label": weights(3, 1), "Left": uniform(3, 1), "Right": uniform(3, 1, seed=1)}),
        Sample({"Label": weights(2), "Left": uniform(2), "Right": uniform(2, seed=1)}),
    ],
    "margin_rank_loss": [
        Sample({"X1": uniform(3, 1), "X2": uniform(3, 1, seed=1), "Label": 2 * SIGNS - 1}, {"margin": 0.1}, outputs=("Out",))
    ],
    "cos_sim": [
        Sample({"X": away_from_zero(3, 2), "Y": away_from_zero(3, 2, seed=1)}),
        Sample({"X": away_from_zero(2, 2, 2), "Y": away_from_zero(1, 2, 2, seed=1)}, outputs=("Out",)),
        Sample({"X": away_from_zero(3, 2), "Y": away_from_zero(3, 2, seed=1)}, outputs=("XNorm", "YNorm")),
    ],
    "nll_loss": [
        Sample({"X": uniform(3, 4), "Label": CLASSES[:, 0], "Weight": weights(4)}),
        Sample({"X": uniform(3, 4), "Label": CLASSES[:, 0], "Weight": weights(4)}, {"reduction": "sum"}),
        Sample({"X": uniform(2, 3, 1, 2), "Label": PIXELS, "Weight": weights(3)}, {"reduction": "none"}, outputs=("Out",)),
        Sample({"X": uniform(2, 3, 1, 2), "Label": PIXELS}, outputs=("Out",)),
        Sample({"X": uniform(2, 3), "Label": np.array([-100, -100])}, outputs=("Out",)),  # all ignored: weights of 0 in all
        Sample({"X": uniform(0, 3), "Label": np.zeros(0, "int64")}, {"reduction": "none"}, outputs=("Out",)),
    ],
    "cross_entropy2": [
        Sample({"X": weights(3, 4), "Label": CLASSES}),
        Sample({"X": weights(3, 4), "Label": CLASSES}, {"ignore_index": 3}, outputs=("Y",)),
        Sample({"X": weights(3, 4), "Label": CLASSES}, outputs=("MatchX",)),
    ],
    "bpr_loss": [Sample({"X": uniform(3, 4), "Label": CLASSES}), Sample({"X": uniform(2, 1, 3), "Label": np.array([[[0]], [[2]]])})],
    "sigmoid_focal_loss": [
        Sample({"X": uniform(4, 2), "Label": np.array([[0], [1], [2], [-1]]), "FgNum": np.array([2])}),
        Sample({"X": uniform(2, 2), "Label": np.array([[0], [1]]), "FgNum": np.array([0])}, {"gamma": 1.5, "alpha": 0.4}),
    ],
    "label_smooth": [
        Sample({"X": weights(2, 3)}, {"epsilon": 0.2}),
        Sample({"X": weights(2, 3), "PriorDist": weights(1, 3, seed=1)}, {"epsilon": 0.3}),
    ],
    "square_error_cost": [Sample({"X": uniform(2, 3), "Y": uniform(2, 3, seed=1)}), Sample({"X": uniform(), "Y": uniform(seed=1)})],
    "huber_loss": [
        Sample({"X": uniform(4, 1), "Y": uniform(4, 1, seed=1)}, {"delta": 0.5}),
        Sample({"X": uniform(4, 1), "Y": uniform(4, 1, seed=1)}, {"delta": 0.5}, outputs=("Out",)),
        Sample({"X": uniform(0, 2), "Y": uniform(0, 2)}, {"delta": 1.0}),
    ],
    "smooth_l1_loss": [
        Sample({"X": uniform(3, 2), "Y": uniform(3, 2, seed=1)}, {"sigma": 1.5}),
        Sample(
            {
                "X": uniform(3, 2, 2),
                "Y": uniform(3, 2, 2, seed=1),
                "InsideWeight": weights(3, 2, 2),
                "OutsideWeight": weights(3, 2, 2, seed=1),
            },
            differentiate=("X", "Y"),
        ),
    ],
    "kldiv_loss": [
        Sample({"X": uniform(2, 3), "Target": weights(2, 3)}, {"reduction": reduction})
        for reduction in ("none", "sum", "mean", "batchmean")
    ]
    + [Sample({"X": uniform(), "Target": weights()}, {"reduction": "batchmean"})],
    "bce_loss": [Sample({"X": weights(3, 2), "Label": weights(3, 2, seed=1)}), Sample({"X": weights(), "Label": weights(seed=1)})],
    "log_loss": [Sample({"Predicted": weights(3, 1), "Labels": weights(3, 1, seed=1)}, {"epsilon": 1e-2})],
    "sigmoid_cross_entropy_with_logits": [
        Sample({"X": away_from_zero(3, 2), "Label": weights(3, 2)}),
        Sample({"X": away_from_zero(3, 2), "Label": np.array([[0.0, 1], [-100, 1], [0, 0]])}, {"normalize": True}, differentiate=("X",)),
    ],
    "cross_entropy": [
        Sample({"X": weights(4, 5), "Label": LABELS}),
        Sample({"X": weights(2, 3, 4), "Label": np.array([[[3], [0], [2]], [[1], [7], [2]]])}, {"ignore_index": 7}),
        Sample({"X": weights(4, 5), "Label": weights(4, 5, seed=1)}, {"soft_label": True}),
    ],
    "softmax_with_cross_entropy": [
        Sample({"Logits": uniform(4, 5), "Label": LABELS}),
        Sample({"Logits": uniform(4, 5), "Label": LABELS}, outputs=("Loss",)),
        Sample({"Logits": uniform(2, 4, 4), "Label": ACROSS}, {"axis": 1, "ignore_index": -1}, outputs=("Loss",)),
        Sample({"Logits": uniform(4, 5), "Label": weights(4, 5)}, {"soft_label": True}),
        Sample({"Logits": uniform(2, 3, 2), "Label": weights(2, 3, 2)}, {"soft_label": True, "axis": 1}),
        Sample({"Logits": weights(4, 5), "Label": LABELS}, {"use_softmax": False}),
        Sample({"Logits": weights(4, 5), "Label": weights(4, 5, seed=1)}, {"use_softmax": False, "soft_label": True}),
        Sample({"Logits": uniform(0, 5), "Label": np.zeros((0, 1), "int64")}),
    ],
}
