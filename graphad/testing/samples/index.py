"""Samples of the operators that pick elements, and of constants given by value."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform

X = uniform(4, 3)
TWICE = np.array([2, 0, 2])
MIXED = np.array([[True, False, True], [False, False, True]])
TABLE_IDS = [
    Sample({"W": X, "Ids": np.array([[1, 3], [1, 0]])}),
    Sample({"W": X, "Ids": np.array([[1, 3], [1, 0]], "int32")}, {"padding_idx": 1}),
    Sample({"W": X, "Ids": np.array([], "int64")}),
]
COLUMN_IDS = [
    Sample({"W": X, "Ids": np.array([[1], [3], [1]])}),
    Sample({"W": X, "Ids": np.array([[[1], [2]], [[3], [2]]])}, {"padding_idx": 2}),
]
FLOATS = {"shape": [2, 2], "dtype": "float64", "fp32_values": [1.0, 2.5, 3.0, 4.0]}

SAMPLES: dict[str, list[Sample]] = {
    "where": [
        Sample({"Condition": MIXED, "X": uniform(2, 3), "Y": uniform(2, 3, seed=1)}),
        Sample({"Condition": MIXED, "X": uniform(3), "Y": uniform(2, 1)}),
        Sample({"Condition": np.array(True), "X": uniform(2), "Y": uniform()}),
    ],
    "gather": [
        Sample({"X": X, "Index": TWICE}),
        Sample({"X": X, "Index": TWICE[:, None]}, {"axis": 1}),
        Sample({"X": X, "Index": np.array(1)}, {"axis": -1}),
        Sample({"X": uniform(3), "Index": TWICE}),
        Sample({"X": X, "Index": np.array([], "int64")}),
    ],
    "index_select": [Sample({"X": X, "Index": TWICE}, {"dim": 1}), Sample({"X": X, "Index": np.array([3, 3], "int32")})],
    "index_add": [
        Sample({"X": X, "Index": TWICE, "AddValue": uniform(3, 3)}),
        Sample({"X": X, "Index": TWICE, "AddValue": uniform(4, 3)}, {"axis": -1}),
        Sample({"X": X, "Index": np.array(1), "AddValue": uniform(4)}, {"axis": 1}),
    ],
    "gather_nd": [
        Sample({"X": X, "Index": np.array([[1, 2], [1, 2], [0, 0]])}),
        Sample({"X": X, "Index": np.array([[[3]], [[3]]])}),
        Sample({"X": X, "Index": np.array([1, 2])}),
    ],
    "scatter_nd_add": [
        Sample({"X": X, "Index": np.array([[1, 2], [1, 2], [0, 0]]), "Updates": uniform(3)}),
        Sample({"X": X, "Index": np.array([[3], [3]]), "Updates": uniform(2, 3)}),
    ],
    "lookup_table_v2": TABLE_IDS,
    "lookup_table": COLUMN_IDS,
    "embedding_scatter": [
        Sample({"X": uniform(2, 2, 3), "Ids": np.array([[1, 3], [1, 0]]), "Like": X}),
        Sample({"X": uniform(3, 3), "Ids": np.array([[1], [3], [1]]), "Like": X}, {"padding_idx": 3}),
    ],
    "one_hot_v2": [
        Sample({"X": np.array([[1, 0]])}, {"depth": 3}),
        Sample({"X": np.array([1, 5])}, {"depth": 3, "dtype": "int32", "allow_out_of_range": True}),
    ],
    "one_hot": [Sample({"X": np.array([[1], [0]])}, {"depth": 3})],
    "assign_value": [
        Sample(attrs=FLOATS),
        Sample(attrs={"shape": [2], "dtype": "bool", "bool_values": [1, 0]}),
        Sample(attrs={"shape": [], "dtype": "int64", "int64_values": [7]}),
        Sample(attrs={"shape": [0], "dtype": "float32"}),
    ],
    "eye": [Sample(attrs={"num_rows": 2, "dtype": "float64"}), Sample(attrs={"num_rows": 2, "num_columns": 3, "dtype": "int64"})],
    "range": [
        Sample({"Start": np.array(1), "End": np.array(7), "Step": np.array(2)}),
        Sample({"Start": np.array([1.0]), "End": np.array([0.0]), "Step": np.array([-0.25])}),
    ],
    "tril_triu": [
        Sample({"X": X}),
        Sample({"X": uniform(2, 3, 3)}, {"diagonal": -1, "lower": True}),
        Sample({"X": uniform(2, 0)}, {"diagonal": 1}),
    ],
}
