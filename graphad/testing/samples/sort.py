"""Samples of the operators in ``graphad.ops.sort``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.shared import apart, distinct, of_x

NUMBERS = np.array([3.0, 1.0, 3.0, 2.0, 1.0])

SAMPLES: dict[str, list[Sample]] = {
    "top_k": [Sample({"X": distinct(3, 5)}, {"k": 2}), Sample({"X": distinct(5)}, {"k": 5}), Sample({"X": distinct(2, 2, 3)})],
    "top_k_v2": [
        Sample({"X": distinct(3, 5)}, {"k": 2}),
        Sample({"X": distinct(4, 2, 3)}, {"k": 3, "axis": 0, "largest": False}),
        Sample({"X": distinct(4, 2)}, {"k": 1, "axis": -2, "largest": False}),
        Sample({"X": np.array([[3, 1, 3], [2, 2, 0]])}, {"k": 2}),
    ],
    "argsort": [
        of_x(apart(2, 3)),
        of_x(apart(2, 3), axis=0, descending=True),
        of_x(apart(3, 2, 2), axis=-2),
        of_x(uniform()),
        of_x(uniform(0, 2), axis=0),
    ],
    "unique": [
        of_x(NUMBERS),
        of_x(NUMBERS, is_sorted=True, return_index=True, return_inverse=True, return_counts=True, dtype="int32"),
        of_x(np.array([[1, 2], [1, 2], [0, 2]]), axis=[0], is_sorted=True),
        of_x(np.array([], "int64")),
    ],
    "histogram": [
        of_x(uniform(4, 5), bins=6),
        of_x(np.array([0.0, 1.0, 2.0, 2.5, 3.0, 9.0]), bins=3, min=0.0, max=3.0),
        of_x(np.array([2, 2]), bins=4),
        of_x(uniform(0), bins=2),
    ],
    "bincount": [
        Sample({"X": np.array([3, 1, 1, 0])}),
        Sample({"X": np.array([3, 1, 1, 0]), "Weights": uniform(4)}, {"minlength": 6}),
        Sample({"X": np.zeros(0, "int64")}, {"minlength": 2}),
    ],
    "cummax": [
        Sample({"x": distinct(2, 3, 2)}, {"axis": 1}, outputs=("out",)),
        Sample({"x": distinct(2, 3, 2)}, {"axis": 0, "dtype": "int32"}, outputs=("out",)),
        Sample({"x": distinct(4, 1)}, outputs=("out",)),
    ],
    "cummin": [
        Sample({"x": distinct(2, 3, 2)}, {"axis": 1}, outputs=("out",)),
        Sample({"x": distinct(2, 3, 2)}, {"axis": -1}, outputs=("out",)),
        Sample({"x": uniform(0, 2)}, {"axis": 1, "dtype": "int32"}, outputs=("out",)),
    ],
    "similarity_focus": [
        Sample({"X": distinct(2, 2, 3, 4)}, {"axis": 1, "indexes": [0]}),
        Sample({"X": distinct(1, 2, 3, 2)}, {"axis": 3, "indexes": [0, 1]}),
    ],
}
