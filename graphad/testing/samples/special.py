"""Samples of the operators in ``graphad.ops.special``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.shared import of_x

POSITIVE = np.array([0.3, 1.0, 2.0, 5.5, 30.0])
ANYWHERE = np.array([-0.5, -1.3, -2.7, 0.7, 4.2])

SAMPLES: dict[str, list[Sample]] = {
    "lgamma": [of_x(POSITIVE), of_x(ANYWHERE), of_x(uniform(0))],
    "digamma": [of_x(POSITIVE), of_x(ANYWHERE), of_x(uniform())],
    "polygamma": [Sample({"x": POSITIVE[1:]}, {"n": n}) for n in (0, 1, 3)] + [Sample({"x": ANYWHERE[1:]}, {"n": 2})],
}
