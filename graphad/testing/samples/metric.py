"""Samples of the metrics, and of feed and fetch."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.pool import distinct

SAMPLES: dict[str, list[Sample]] = {
    "accuracy": [
        Sample({"Out": uniform(3, 2), "Indices": np.array([[1, 0], [2, 3], [0, 1]]), "Label": np.array([[0], [3], [2]])}),
        Sample({"Out": uniform(0, 1), "Indices": np.zeros((0, 1), "int64"), "Label": np.zeros((0, 1), "int64")}),
    ],
    "top_k": [Sample({"X": distinct(3, 5)}, {"k": 2}), Sample({"X": distinct(5)}, {"k": 5}), Sample({"X": distinct(2, 2, 3)})],
    "top_k_v2": [
        Sample({"X": distinct(3, 5)}, {"k": 2}),
        Sample({"X": distinct(4, 2, 3)}, {"k": 3, "axis": 0, "largest": False}),
        Sample({"X": distinct(4, 2)}, {"k": 1, "axis": -2, "largest": False}),
        Sample({"X": np.array([[3, 1, 3], [2, 2, 0]])}, {"k": 2}),
    ],
    "feed": [Sample({"X": uniform(2, 3)})],
    "fetch": [Sample({"X": uniform(2, 3)}, {"col": 1})],
}
