"""Samples of the operators in ``graphad.ops.elementwise``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, away_from_zero, uniform
from graphad.testing.samples.shared import AWAY, EVERYWHERE, OPERANDS, ROWS, apart, of_x, over, pair, with_

ELEMENTWISE = ("add", "sub", "mul", "div", "max", "min")


POSITIVE = over((0.4, 2.0))
INSIDE = over((-0.8, 0.8))
SMOOTH = ("exp", "expm1", "square", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan", "asinh", "erf")
POSITIVE_ONLY = ("log", "log2", "log10", "log1p", "sqrt", "rsqrt")
STEPS = ("sign", "floor", "ceil", "round", "rint")


# Of all signs, and no multiples: a quotient has no slope where it is a whole number.
QUOTIENTS = [
    Sample({"X": np.array([[7.3, -7.3, 5.2]]), "Y": np.array([[2.0, 2.0, -3.0]])}),
    Sample({"X": uniform(2, 3, 4, low=4.1, high=4.9), "Y": np.array([1.0, 2.0, -3.0]) * 0.97}, {"axis": 1}),
    Sample({"X": np.array([7, -7]), "Y": np.array([3])}),
]

SAMPLES: dict[str, list[Sample]] = {
    "scale": [
        Sample({"X": uniform(2, 3)}, {"scale": 3.0, "bias": 1.0}),
        Sample({"X": uniform(2)}, {"scale": 3.0, "bias": 1.0, "bias_after_scale": False}),
    ],
    "increment": [Sample({"X": uniform(1)}, {"step": 2.5})],
    "sum": [Sample({"X": [uniform(2, 3), uniform(2, 3, seed=1), uniform(2, 3, seed=2)]}), Sample({"X": [uniform(2)]})],
    **{f"elementwise_{name}": OPERANDS for name in ELEMENTWISE},
    "trunc": [of_x(np.array([-1.7, -0.2, 0.4, 2.9])), of_x(np.array([1, -2]))],
    "clip": [
        *[
            Sample({"X": ROWS, "Min": np.array([-0.25]), "Max": np.array(0.5)}, {"min": 0.0, "max": 0.0}),  # tensors win over attributes
            Sample({"X": ROWS, "Min": np.array(-0.25)}, {"min": 9.0, "max": 0.5}),
            Sample({"X": ROWS, "Max": np.array([0.25])}, {"min": -0.5, "max": 0.0}),
            Sample({"X": uniform(), "Min": np.array([2.0])}, {"min": 0.0, "max": 3.0}),
            # The lower bound above the upper one, which wins.
            Sample({"X": ROWS, "Min": np.array(0.7), "Max": np.array([0.25])}, {"min": 0.0, "max": 0.0}),
        ],
        *[with_(away_from_zero(3, 5) * 2, min=-0.5, max=0.9), with_(away_from_zero(), min=-3.0, max=3.0)],
    ],
    **{
        op: [
            pair(apart(2, 3), apart(2, 3, seed=1) + 0.05),
            pair(apart(2, 3), apart(2, seed=1) + 0.05, axis=0),
            pair(uniform(0, 2), uniform(2)),
        ]
        for op in ("elementwise_fmax", "elementwise_fmin")
    },
    "elementwise_heaviside": [
        pair(away_from_zero(2, 3), uniform(3)),
        # At 0 the result is Y, so there alone Y has a gradient, and X has no slope.
        Sample({"X": np.array([[0.0, -1.0], [2.0, 0.0]]), "Y": uniform(2)}, {"axis": 0}, differentiate=("Y",)),
    ],
    "atan2": [
        Sample({"X1": away_from_zero(2, 3), "X2": away_from_zero(2, 3, seed=1)}),
        Sample({"X1": away_from_zero(3), "X2": away_from_zero(2, 1, seed=1)}),
    ],
    "lerp": [
        Sample({"X": uniform(2, 3), "Y": uniform(2, 3, seed=1), "Weight": uniform(2, 3, seed=2)}),
        Sample({"X": uniform(2, 3), "Y": uniform(3, seed=1), "Weight": uniform()}),
    ],
    **{op: EVERYWHERE for op in SMOOTH},
    **{op: POSITIVE for op in POSITIVE_ONLY},
    **{op: INSIDE for op in ("asin", "acos", "atanh")},
    "acosh": over((1.2, 3.0)),
    "reciprocal": AWAY,
    **{op: [with_(np.array([[0.3, -0.7, 2.6], [-1.2, 1.4, -2.8]])), with_(np.array(0.7))] for op in STEPS},
    "pow": [
        *(with_(away_from_zero(2, 3), factor=factor) for factor in (0.0, 1.0, 2.0, 3.0, -1.0)),
        # The slope factor * x ** (factor - 1) at 0: 0 where the factor is 2, and 1, not nan, where it is 1.
        with_(np.array([0.0, 1.0, -2.0]), factor=2.0),
        with_(np.array([0.0, 1.0, -2.0]), factor=1.0),
        with_(uniform(2, low=0.5, high=2.0), factor=1.7),
        with_(np.array([2, 3]), factor=2.0),
    ],
    "minus": [Sample({"X": uniform(2, 3), "Y": uniform(2, 3, seed=1)})],
    "elementwise_mod": QUOTIENTS,
    "elementwise_floordiv": QUOTIENTS,
    "elementwise_pow": [
        Sample({"X": uniform(2, 3, low=0.5, high=2.0), "Y": uniform(2, 3, low=-2.0, high=2.0)}),
        Sample({"X": uniform(2, 3, 4, low=0.5, high=2.0), "Y": uniform(3)}, {"axis": 1}),
        # The slope along Y has log(X), which negative numbers do not have.
        Sample({"X": np.array([-1.5, 0.0, 2.0, -0.7]), "Y": np.array([2.0, 3.0, -1.0, -2.0])}, differentiate=("X",)),
        # y x ** (y - 1) at 0: 0, 1 and 0.
        Sample({"X": np.array([0.0, 0.0, 0.0]), "Y": np.array([0.0, 1.0, 2.0])}, differentiate=("X",)),
        Sample({"X": uniform(low=1.0, high=2.0), "Y": uniform()}),
        Sample({"X": uniform(0, 3), "Y": uniform(3)}),
    ],
}
