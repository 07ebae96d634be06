"""Samples of the operators in ``graphad.ops.scan``."""

from __future__ import annotations

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.shared import REDUCE_X, ZEROS, of_x, with_

SAMPLES: dict[str, list[Sample]] = {
    "logcumsumexp": [
        of_x(uniform(2, 3)),
        of_x(uniform(2, 3) * 30.0, axis=0, reverse=True),
        of_x(uniform(2, 2, 2), flatten=True),
        of_x(uniform(2, 3), flatten=True, reverse=True),
        of_x(uniform()),
        of_x(uniform(0, 2)),
    ],
    "cumsum": [
        with_(REDUCE_X),
        with_(REDUCE_X, axis=1, reverse=True),
        with_(REDUCE_X, axis=0, exclusive=True),
        with_(REDUCE_X, axis=1, exclusive=True, reverse=True),
        with_(REDUCE_X, flatten=True, exclusive=True),
        with_(uniform()),
        with_(uniform(0, 2)),
    ],
    "cumprod": [
        with_(REDUCE_X, dim=1),
        with_(REDUCE_X, dim=-1, exclusive=True),
        with_(ZEROS, dim=1, reverse=True),
        with_(ZEROS, dim=0, exclusive=True, reverse=True),
        with_(uniform(0, 2), dim=1),
    ],
    "linear_recurrence": [
        Sample({"A": REDUCE_X, "B": uniform(2, 3, 2)}, {"axis": 1}),
        Sample({"A": ZEROS, "B": uniform(3, 3)}, {"axis": 0, "reverse": True}),
    ],
}
