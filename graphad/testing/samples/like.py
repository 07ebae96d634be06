"""Samples of the operators in ``graphad.ops.like``."""

from __future__ import annotations

from graphad.ops.sample import Sample, uniform

SAMPLES: dict[str, list[Sample]] = {
    "stand_in": [Sample({}, {"shape": [2, 3], "dtype": "float64"}), Sample({"X": uniform(4, 2)})],
    "fill_zeros_like": [Sample({"X": uniform(2, 3)})],
    "fill_any_like": [Sample({"X": uniform(2, 3)}, {"value": 2.0}), Sample({"X": uniform(2)}, {"value": 2.0, "dtype": "int32"})],
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
}
