"""Samples of the operators in ``graphad.ops.casting``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform

SAMPLES: dict[str, list[Sample]] = {
    "assign": [Sample({"X": uniform(2, 3)})],
    "view_dtype": [
        Sample({"X": np.array([1, -2, 3], "int32")}, {"dtype": "float32"}),
        Sample({"X": np.array([1, -(2**62)])}, {"dtype": "float64"}),
    ],
    "cast": [
        Sample({"X": uniform(2, 3)}, {"out_dtype": "float64"}),
        Sample({"X": np.array([0, 2])}, {"out_dtype": "bool"}),
        Sample({"X": np.array([3, -2], "int32")}, {"out_dtype": "int64"}),
        Sample({"X": np.array([3, -(2**31)])}, {"out_dtype": "int32"}),
        Sample({"X": np.array([1, -2])}, {"out_dtype": "float32"}),
    ],
}
