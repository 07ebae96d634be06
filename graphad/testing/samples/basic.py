"""Samples of the basic, elementwise and comparison operators."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, away_from_zero, uniform

PAIRS = [
    Sample({"X": uniform(2, 3), "Y": away_from_zero(2, 3)}),
    Sample({"X": uniform(2, 3, 4), "Y": away_from_zero(3)}, {"axis": 1}),
    Sample({"X": uniform(2, 3), "Y": away_from_zero(1)}),
    Sample({"X": uniform(3), "Y": away_from_zero(2, 3)}),
    Sample({"X": uniform(2, 1, 4), "Y": away_from_zero(3)}, {"axis": 1}),
    Sample({"X": uniform(2, 3), "Y": away_from_zero(2, 3)}, {"axis": 0}),
    Sample({"X": uniform(), "Y": away_from_zero()}),
    Sample({"X": uniform(0, 3), "Y": away_from_zero(3)}),
]
ELEMENTWISE = ("add", "sub", "mul", "div", "max", "min")
COMPARISONS = ("less_than", "less_equal", "greater_than", "greater_equal", "equal", "not_equal")

SAMPLES: dict[str, list[Sample]] = {
    "fill_constant": [Sample(attrs={"shape": [2, 3], "value": 1.5, "dtype": "float64"}), Sample(attrs={"shape": [], "dtype": "int64"})],
    "stand_in": [Sample({}, {"shape": [2, 3], "dtype": "float64"}), Sample({"X": uniform(4, 2)})],
    "fill_zeros_like": [Sample({"X": uniform(2, 3)})],
    "fill_any_like": [Sample({"X": uniform(2, 3)}, {"value": 2.0}), Sample({"X": uniform(2)}, {"value": 2.0, "dtype": "int32"})],
    "assign": [Sample({"X": uniform(2, 3)})],
    "scale": [
        Sample({"X": uniform(2, 3)}, {"scale": 3.0, "bias": 1.0}),
        Sample({"X": uniform(2)}, {"scale": 3.0, "bias": 1.0, "bias_after_scale": False}),
    ],
    "increment": [Sample({"X": uniform(1)}, {"step": 2.5})],
    "cast": [Sample({"X": uniform(2, 3)}, {"out_dtype": "float64"}), Sample({"X": np.array([0, 2])}, {"out_dtype": "bool"})],
    "sum": [Sample({"X": [uniform(2, 3), uniform(2, 3, seed=1), uniform(2, 3, seed=2)]}), Sample({"X": [uniform(2)]})],
    "size": [Sample({"Input": uniform(2, 3)})],
    "sum_like": [
        Sample({"X": uniform(2, 3, 4), "Like": uniform(3, 1)}),
        Sample({"X": uniform(2, 3, 4), "Like": uniform(3)}, {"axis": 1}),
        Sample({"X": uniform(2, 3), "Like": uniform(2, 3)}),
    ],
    "expand_like": [
        Sample({"X": uniform(3, 1), "Like": uniform(2, 3, 4)}),
        Sample({"X": uniform(3), "Like": uniform(2, 3, 4)}, {"axis": 1}),
    ],
    "reshape_like": [
        Sample({"X": uniform(2, 6), "Like": uniform(3, 4)}),
        Sample({"X": uniform(2, 3), "Like": uniform(0, 6)}, {"skip": 1}),
    ],
    **{f"elementwise_{name}": PAIRS for name in ELEMENTWISE},
    **dict.fromkeys(COMPARISONS, PAIRS),
}
