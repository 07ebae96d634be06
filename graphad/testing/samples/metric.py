"""Samples of the operators in ``graphad.ops.metric``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform

SAMPLES: dict[str, list[Sample]] = {
    "accuracy": [
        Sample({"Out": uniform(3, 2), "Indices": np.array([[1, 0], [2, 3], [0, 1]]), "Label": np.array([[0], [3], [2]])}),
        Sample({"Out": uniform(0, 1), "Indices": np.zeros((0, 1), "int64"), "Label": np.zeros((0, 1), "int64")}),
    ],
}
