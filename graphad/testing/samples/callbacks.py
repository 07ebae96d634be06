"""Samples of the operators in ``graphad.ops.callbacks``.

Nothing is printed, since the counter is beyond the runs that print. Functions of Python get integers: the gradient of one is another,
which has none, so that ``tests/layers/test_callbacks.py`` holds the first derivatives alone.
"""

from __future__ import annotations

import numpy as np

from graphad.ops.callbacks import registered
from graphad.ops.sample import Sample, uniform
from graphad.types import Array

PRINTED = np.array([2], "int64")


def squares(x: Array, y: Array) -> Array:
    """A function of two arrays."""
    return x * x + y


SAMPLES: dict[str, list[Sample]] = {
    "print": [
        Sample({"In": uniform(2, 3), "Counter": PRINTED}, {"first_n": 1}),
        Sample({"In": uniform(), "Counter": PRINTED}, {"first_n": 1, "print_phase": "FORWARD", "message": "x"}),
    ],
    "py_func": [
        Sample({"X": [np.array([[1, -2, 3]]), np.array([[4, 5, 6]])]}, {"function": registered(squares), "out_types": ["int64[-1, -1]"]}),
    ],
}
