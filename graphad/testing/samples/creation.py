"""Samples of the operators in ``graphad.ops.creation``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.shared import INDEX_X, each, ints

FLOATS = {"shape": [2, 2], "dtype": "float64", "fp32_values": [1.0, 2.5, 3.0, 4.0]}

SAMPLES: dict[str, list[Sample]] = {
    "fill_constant": [
        *[Sample(attrs={"shape": [2, 3], "value": 1.5, "dtype": "float64"}), Sample(attrs={"shape": [], "dtype": "int64"})],
        *[
            Sample({"ShapeTensor": ints(2, 3)}, {"value": 1.5, "dtype": "float64"}),
            Sample({"ShapeTensorList": each(2, 0)}, {"shape": [2, -1], "dtype": "int64", "value": 3.0}),
            Sample({"ValueTensor": uniform(1)}, {"shape": [2, 2], "dtype": "float64"}, differentiate=()),
            Sample({"ValueTensor": uniform()}, {"shape": [], "dtype": "float64"}, differentiate=()),
        ],
    ],
    "undefined": [Sample(), Sample(attrs={"shape": [2, 3], "dtype": "float64"})],
    "one_hot_v2": [
        Sample({"X": np.array([[1, 0]])}, {"depth": 3}),
        Sample({"X": np.array([1, 5])}, {"depth": 3, "dtype": "int32", "allow_out_of_range": True}),  # a row of zeros
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
        Sample({"Start": np.array([-1]), "End": np.array([2]), "Step": np.array([1])}),  # as places, the first is the last
    ],
    "tril_triu": [
        Sample({"X": INDEX_X}),
        Sample({"X": uniform(2, 3, 3)}, {"diagonal": -1, "lower": True}),
        Sample({"X": uniform(2, 0)}, {"diagonal": 1}),
    ],
    "linspace": [
        Sample({"Start": np.array(0.5), "Stop": np.array([2.0]), "Num": np.array(5)}, {"dtype": "float64"}),
        Sample({"Start": np.array([1.0]), "Stop": np.array([2.0]), "Num": np.array([1], "int32")}, {"dtype": "float64"}),  # the start alone
        Sample({"Start": np.array(0), "Stop": np.array(10), "Num": np.array(4)}, {"dtype": "int64"}),
    ],
    "meshgrid": [
        Sample({"X": [uniform(2), uniform(3, seed=1)]}),
        Sample({"X": [uniform(2), uniform(1), uniform(2, seed=1)]}),
        Sample({"X": [uniform(2)]}),
        Sample({"X": [uniform(2), uniform()]}),
    ],
    "fill_constant_batch_size_like": [
        Sample({"Input": uniform(4, 2)}, {"shape": [-1, 3], "value": 2.0}),
        Sample({"Input": uniform(4, 2)}, {"shape": [2, 7], "input_dim_idx": 1, "output_dim_idx": 1, "dtype": "int64"}),
        Sample({"Input": uniform(0, 2)}, {"shape": [1], "dtype": "float64"}),
    ],
}
