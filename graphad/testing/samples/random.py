"""Samples of the operators in ``graphad.ops.random``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform

SAMPLES: dict[str, list[Sample]] = {
    "randint": [
        Sample(attrs={"shape": [2, 3], "low": -2, "high": 3}),
        Sample(attrs={"shape": [], "low": 0, "high": 3, "dtype": "int32", "seed": 7}),
    ],
    "seed": [Sample(), Sample(attrs={"seed": 7})],
    "uniform_random_batch_size_like": [
        Sample({"Input": uniform(3, 2)}, {"shape": [-1, 2]}),
        Sample({"Input": uniform(2, 4)}, {"shape": [2, -1], "input_dim_idx": 1, "output_dim_idx": 1, "min": 0.0, "dtype": "float64"}),
    ],
    "gaussian_random_batch_size_like": [
        Sample({"Input": uniform(3, 2)}, {"shape": [-1, 2]}),
        Sample({"Input": uniform(2, 4)}, {"shape": [5, 2], "output_dim_idx": 1, "mean": 3.0, "seed": 7, "dtype": "float64"}),
    ],
    "bernoulli": [Sample({"X": uniform(2, 3, low=0.0)}), Sample({"X": uniform()})],
    "dropout": [
        Sample({"X": uniform(2, 3)}),
        Sample({"X": uniform(2, 3)}, {"dropout_prob": 0.3, "dropout_implementation": "upscale_in_train"}),
        Sample({"X": uniform(2, 3), "Seed": np.array([5])}, {"dropout_prob": 0.3}),
        Sample({"X": uniform(2, 3)}, {"dropout_prob": 1.0, "dropout_implementation": "upscale_in_train"}),
        Sample({"X": uniform(2, 3)}, {"dropout_prob": 0.3, "is_test": True}),
        Sample({"X": uniform()}, {"fix_seed": True, "seed": 3}),
    ],
}
