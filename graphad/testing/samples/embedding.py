"""Samples of the operators in ``graphad.ops.embedding``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.shared import INDEX_X

TABLE_IDS = [
    Sample({"W": INDEX_X, "Ids": np.array([[1, 3], [1, 0]])}),
    Sample({"W": INDEX_X, "Ids": np.array([[1, 3], [1, 0]], "int32")}, {"padding_idx": 1}),
    Sample({"W": INDEX_X, "Ids": np.array([], "int64")}),
]
COLUMN_IDS = [
    Sample({"W": INDEX_X, "Ids": np.array([[1], [3], [1]])}),
    Sample({"W": INDEX_X, "Ids": np.array([[[1], [2]], [[3], [2]]])}, {"padding_idx": 2}),
]

SAMPLES: dict[str, list[Sample]] = {
    "lookup_table_v2": TABLE_IDS,
    "lookup_table": COLUMN_IDS,
    "embedding_scatter": [
        Sample({"X": uniform(2, 2, 3), "Ids": np.array([[1, 3], [1, 0]]), "Like": INDEX_X}),
        Sample({"X": uniform(3, 3), "Ids": np.array([[1], [3], [1]]), "Like": INDEX_X}, {"padding_idx": 3}),
    ],
    "hash": [
        Sample({"X": np.array([[1, 2], [3, 4], [12345, -7]])}, {"num_hash": 2, "mod_by": 1000}),
        Sample({"X": np.arange(18, dtype="int32").reshape(2, 9)}, {"mod_by": 100000007}),
    ],
}
