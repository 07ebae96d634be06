"""Samples of the operators over one input, the activations, and the two-input operators that are not basic."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Array, Sample, away_from_zero, uniform


def _over(*ranges: tuple[float, float]) -> list[Sample]:
    """A matrix, a scalar and an empty tensor for each range of values."""
    shapes: tuple[tuple[int, ...], ...] = ((2, 3), (), (0, 3))
    return [Sample({"X": uniform(*shape, low=low, high=high)}) for low, high in ranges for shape in shapes]


def _with(x: Array, **attrs: object) -> Sample:
    return Sample({"X": x}, attrs)


EVERYWHERE = _over((-1.5, 1.5))
POSITIVE = _over((0.4, 2.0))
INSIDE = _over((-0.8, 0.8))
AWAY = [_with(away_from_zero(2, 3)), _with(away_from_zero())]
WIDE = [_with(away_from_zero(3, 5) * 6.0), _with(away_from_zero(0, 2))]
TRUTHS = [_with(np.array([[True, False], [False, True]])), _with(np.array(True))]
ODD = [_with(np.array([1.0, np.nan, np.inf, -np.inf]))]
SMOOTH = ("exp", "expm1", "square", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan", "asinh", "erf")
POSITIVE_ONLY = ("log", "log2", "log10", "log1p", "sqrt", "rsqrt")
STEPS = ("sign", "floor", "ceil", "round")
PAIRS = [
    Sample({"X": np.array([[True, True], [False, False]]), "Y": np.array([[True, False], [True, False]])}),
    Sample({"X": np.array([[True], [False]]), "Y": np.array([True, False])}),
]
QUOTIENTS = [
    Sample({"X": np.array([[7.3, -7.3, 5.2]]), "Y": np.array([[2.0, 2.0, -3.0]])}),
    Sample({"X": uniform(2, 3, 4, low=4.1, high=4.9), "Y": np.array([1.0, 2.0, -3.0]) * 0.97}, {"axis": 1}),
    Sample({"X": np.array([7, -7]), "Y": np.array([3])}),
]
PRELU_X = away_from_zero(2, 3, 4)

SAMPLES: dict[str, list[Sample]] = {
    **{op: EVERYWHERE for op in SMOOTH},
    **{op: POSITIVE for op in POSITIVE_ONLY},
    **{op: INSIDE for op in ("asin", "acos", "atanh")},
    "acosh": _over((1.2, 3.0)),
    "reciprocal": AWAY,
    **{op: AWAY for op in ("abs", "relu")},
    **{op: [_with(np.array([[0.3, -0.7, 2.6], [-1.2, 1.4, -2.8]])), _with(np.array(0.7))] for op in STEPS},
    "pow": [
        *(_with(away_from_zero(2, 3), factor=factor) for factor in (0.0, 1.0, 2.0, 3.0, -1.0)),
        _with(np.array([0.0, 1.0, -2.0]), factor=2.0),
        _with(np.array([0.0, 1.0, -2.0]), factor=1.0),
        _with(uniform(2, low=0.5, high=2.0), factor=1.7),
        _with(np.array([2, 3]), factor=2.0),
    ],
    "clip": [_with(away_from_zero(3, 5) * 2, min=-0.5, max=0.9), _with(away_from_zero(), min=-3.0, max=3.0)],
    "logical_not": TRUTHS,
    **{op: ODD for op in ("isnan_v2", "isinf_v2", "isfinite_v2")},
    **{op: PAIRS for op in ("logical_and", "logical_or", "logical_xor")},
    "minus": [Sample({"X": uniform(2, 3), "Y": uniform(2, 3, seed=1)})],
    "elementwise_mod": QUOTIENTS,
    "elementwise_floordiv": QUOTIENTS,
    "elementwise_pow": [
        Sample({"X": uniform(2, 3, low=0.5, high=2.0), "Y": uniform(2, 3, low=-2.0, high=2.0)}),
        Sample({"X": uniform(2, 3, 4, low=0.5, high=2.0), "Y": uniform(3)}, {"axis": 1}),
        Sample({"X": np.array([-1.5, 0.0, 2.0, -0.7]), "Y": np.array([2.0, 3.0, -1.0, -2.0])}, differentiate=("X",)),
        Sample({"X": np.array([0.0, 0.0, 0.0]), "Y": np.array([0.0, 1.0, 2.0])}, differentiate=("X",)),
        Sample({"X": uniform(low=1.0, high=2.0), "Y": uniform()}),
        Sample({"X": uniform(0, 3), "Y": uniform(3)}),
    ],
    **{op: EVERYWHERE for op in ("sigmoid", "logsigmoid", "silu", "mish", "tanh_shrink")},
    **{op: AWAY for op in ("softsign",)},
    "swish": [_with(uniform(2, 3)), _with(uniform(), beta=1.5)],
    "hard_sigmoid": [_with(away_from_zero(3, 5) * 4), _with(uniform(), slope=0.3, offset=0.4)],
    "hard_swish": [
        *WIDE,
        _with(uniform(2, 3, low=-2.0, high=3.0), threshold=4.0, scale=5.0, offset=2.5),
        _with(uniform(2, 3, low=-2.0, high=3.0), threshold=-1.0),
    ],
    "stanh": [_with(uniform(2, 3)), _with(uniform(), scale_a=0.5, scale_b=2.0)],
    "relu6": [*WIDE, _with(away_from_zero(), threshold=2.0)],
    "leaky_relu": [*AWAY, _with(away_from_zero(2, 3), alpha=0.125)],
    "elu": [*AWAY, _with(away_from_zero(2, 3), alpha=1.5), _with(np.array([800.0, -800.0]))],
    "selu": [*AWAY, _with(away_from_zero(2, 3), scale=1.2, alpha=1.5)],
    "celu": [*AWAY, _with(away_from_zero(2, 3), alpha=1.5)],
    "brelu": [_with(away_from_zero(3, 5) * 2, t_min=-1.0, t_max=1.2), _with(away_from_zero())],
    "thresholded_relu": [_with(away_from_zero(3, 5) * 2), _with(away_from_zero(), threshold=0.1)],
    "hard_shrink": [_with(away_from_zero(3, 5)), _with(away_from_zero(), threshold=0.1)],
    "softshrink": [_with(away_from_zero(3, 5)), _with(away_from_zero(2), **{"lambda": 0.1})],
    "gelu": [*EVERYWHERE, _with(uniform(2, 3), approximate=True)],
    "softplus": [*EVERYWHERE, _with(uniform(2, 3, low=-2.0, high=2.0), beta=2.0, threshold=1.0), _with(np.array([40.0, -40.0]))],
    "softmax": [_with(uniform(2, 3)), _with(uniform(2, 3, 2), axis=1), _with(uniform()), _with(uniform(0, 3))],
    "log_softmax": [_with(uniform(2, 3)), _with(uniform(2, 3, 2), axis=1), _with(uniform()), _with(uniform(0, 3))],
    "prelu": [
        Sample({"X": PRELU_X, "Alpha": uniform(1)}),
        Sample({"X": PRELU_X, "Alpha": uniform(3)}, {"mode": "channel"}),
        Sample({"X": PRELU_X, "Alpha": uniform(1, 3, 1)}, {"mode": "channel"}),
        Sample({"X": PRELU_X, "Alpha": uniform(4)}, {"mode": "channel", "data_format": "NHWC"}),
        Sample({"X": PRELU_X, "Alpha": uniform(1, 3, 4)}, {"mode": "element"}),
    ],
}
