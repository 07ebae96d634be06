"""Samples of the losses and of taking and putting along an axis."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Array, Sample, away_from_zero, uniform


def weights(*shape: int, seed: int = 0) -> Array:
    """Positive values, for probabilities and soft labels."""
    return uniform(*shape, low=0.1, high=0.9, seed=seed)


LABELS = np.array([[1], [4], [-100], [0]])
ACROSS = np.array([[[1, 0, 3, 2]], [[3, 3, -1, 0]]])

SAMPLES: dict[str, list[Sample]] = {
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
    "take_along_axis": [
        Sample({"Input": uniform(3, 4), "Index": np.array([[1, 0], [3, 3], [2, 0]])}, {"Axis": 1}),
        Sample({"Input": uniform(3, 4), "Index": np.array([[1, 0, 2, 2]])}, {"Axis": 0}),
    ],
    "put_along_axis": [
        Sample({"Input": uniform(3, 4), "Index": np.array([[1, 0], [3, 2], [2, 0]]), "Value": uniform(3, 2)}, {"Axis": 1}),
        Sample(
            {"Input": uniform(3, 4), "Index": np.array([[1, 0], [3, 3], [2, 0]]), "Value": uniform(3, 2)}, {"Axis": -1, "Reduce": "add"}
        ),
        Sample({"Input": uniform(3, 4), "Index": np.array([[1], [3], [2]]), "Value": uniform(3, 1)}, {"Axis": 1, "Reduce": "add"}),
    ],
}
