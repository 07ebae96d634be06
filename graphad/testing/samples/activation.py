"""Samples of the operators in ``graphad.ops.activation``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, away_from_zero, uniform
from graphad.testing.samples.shared import AWAY, EVERYWHERE, apart, of_x, with_

WIDE = [with_(away_from_zero(3, 5) * 6.0), with_(away_from_zero(0, 2))]
PRELU_X = away_from_zero(2, 3, 4)

SAMPLES: dict[str, list[Sample]] = {
    "maxout": [of_x(apart(2, 4, 2), groups=2), of_x(apart(2, 3, 4), groups=4, axis=-1), of_x(uniform(0, 4), groups=2)],
    "maxout_index": [of_x(apart(2, 4, 2), groups=2), of_x(apart(2, 3, 4), groups=2, axis=-1)],
    **{op: AWAY for op in ("abs", "relu")},
    **{op: EVERYWHERE for op in ("sigmoid", "logsigmoid", "silu", "mish", "tanh_shrink")},
    **{op: AWAY for op in ("softsign",)},
    "swish": [with_(uniform(2, 3)), with_(uniform(), beta=1.5)],
    "hard_sigmoid": [with_(away_from_zero(3, 5) * 4), with_(uniform(), slope=0.3, offset=0.4)],
    "hard_swish": [
        *WIDE,
        with_(uniform(2, 3, low=-2.0, high=3.0), threshold=4.0, scale=5.0, offset=2.5),
        with_(uniform(2, 3, low=-2.0, high=3.0), threshold=-1.0),
    ],
    "stanh": [with_(uniform(2, 3)), with_(uniform(), scale_a=0.5, scale_b=2.0)],
    "relu6": [*WIDE, with_(away_from_zero(), threshold=2.0)],
    "leaky_relu": [*AWAY, with_(away_from_zero(2, 3), alpha=0.125)],
    "elu": [*AWAY, with_(away_from_zero(2, 3), alpha=1.5), with_(np.array([800.0, -800.0]))],
    "selu": [*AWAY, with_(away_from_zero(2, 3), scale=1.2, alpha=1.5)],
    "celu": [*AWAY, with_(away_from_zero(2, 3), alpha=1.5)],
    "brelu": [with_(away_from_zero(3, 5) * 2, t_min=-1.0, t_max=1.2), with_(away_from_zero())],
    "thresholded_relu": [with_(away_from_zero(3, 5) * 2), with_(away_from_zero(), threshold=0.1)],
    "hard_shrink": [with_(away_from_zero(3, 5)), with_(away_from_zero(), threshold=0.1)],
    "softshrink": [with_(away_from_zero(3, 5)), with_(away_from_zero(2), **{"lambda": 0.1})],
    "gelu": [*EVERYWHERE, with_(uniform(2, 3), approximate=True)],
    "softplus": [*EVERYWHERE, with_(uniform(2, 3, low=-2.0, high=2.0), beta=2.0, threshold=1.0), with_(np.array([40.0, -40.0]))],
    "softmax": [with_(uniform(2, 3)), with_(uniform(2, 3, 2), axis=1), with_(uniform()), with_(uniform(0, 3))],
    "log_softmax": [with_(uniform(2, 3)), with_(uniform(2, 3, 2), axis=1), with_(uniform()), with_(uniform(0, 3))],
    "prelu": [
        Sample({"X": PRELU_X, "Alpha": uniform(1)}),
        Sample({"X": PRELU_X, "Alpha": uniform(3)}, {"mode": "channel"}),
        Sample({"X": PRELU_X, "Alpha": uniform(1, 3, 1)}, {"mode": "channel"}),
        Sample({"X": PRELU_X, "Alpha": uniform(4)}, {"mode": "channel", "data_format": "NHWC"}),
        Sample({"X": PRELU_X, "Alpha": uniform(1, 3, 4)}, {"mode": "element"}),
    ],
}
