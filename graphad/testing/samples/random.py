"""Samples of the operators in ``graphad.ops.random``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform

SAMPLES: dict[str, list[Sample]] = {
    "randint": [
        Sample(attrs={"shape": [2, 3], "low": -2, "high": 3}),
        Sample(attrs={"shape": [], "low": 0, "high": 3, "dtype": "int32", "seed": 7}),
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
