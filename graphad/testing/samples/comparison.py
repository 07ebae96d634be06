"""Samples of the operators in ``graphad.ops.comparison``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.shared import MASK, OPERANDS, of_x, pair, with_

COMPARISONS = ("less_than", "less_equal", "greater_than", "greater_equal", "equal", "not_equal")


INTS, BITS = np.array([[5, -3], [12, 7]]), np.array([6, 1])


TRUTHS = [with_(np.array([[True, False], [False, True]])), with_(np.array(True))]
ODD = [with_(np.array([1.0, np.nan, np.inf, -np.inf]))]


PAIRS = [
    Sample({"X": np.array([[True, True], [False, False]]), "Y": np.array([[True, False], [True, False]])}),
    Sample({"X": np.array([[True], [False]]), "Y": np.array([True, False])}),
]

SAMPLES: dict[str, list[Sample]] = {
    **dict.fromkeys(COMPARISONS, OPERANDS),
    **{op: [pair(INTS, INTS[::-1].copy()), pair(INTS, BITS), pair(MASK, MASK[0])] for op in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "bitwise_not": [of_x(INTS), of_x(MASK), of_x(np.array(7, "uint8"))],
    **{
        op: [
            Sample({"Input": uniform(2, 3), "Other": uniform(2, 3) + 1e-6}, {"rtol": "1e-4"}),
            Sample({"Input": np.array([np.nan, 1.0]), "Other": np.array([np.nan, 1.0])}, {"equal_nan": True}),
            Sample({"Input": uniform(2), "Other": uniform(2) + 0.5, "Rtol": np.array([0.0]), "Atol": np.array(1.0)}),
        ]
        for op in ("isclose", "allclose")
    },
    "equal_all": [pair(INTS, INTS), pair(INTS, BITS), pair(uniform(), uniform())],
    "logical_not": TRUTHS,
    **{op: ODD for op in ("isnan_v2", "isinf_v2", "isfinite_v2")},
    **{op: PAIRS for op in ("logical_and", "logical_or", "logical_xor")},
}
