"""Samples of the operators over tapes."""

from __future__ import annotations

import numpy as np

from graphad.ops.aggregates import Tape
from graphad.ops.sample import Sample, uniform

ONE = Tape().push([uniform(2, 3)])
TWO = Tape().push([uniform(2, 3), uniform(2)]).push([uniform(3, seed=1), uniform()])
COUNTS = Tape().push([uniform(2), np.array([3])])

SAMPLES: dict[str, list[Sample]] = {
    "create_tape": [Sample()],
    "push_tape": [
        Sample({"Scopes": Tape(), "X": [uniform(2, 3)]}, {"count": 1}),
        Sample({"Scopes": TWO, "X": [uniform(2), uniform(2, 2)]}, {"count": 2}),
        Sample({"Scopes": COUNTS, "X": [uniform(2), np.array([4])]}, {"count": 2}),
    ],
    "pop_tape": [
        Sample({"Scopes": ONE}, {"count": 1}),
        Sample({"Scopes": TWO}, {"count": 2}),
        Sample({"Scopes": COUNTS}, {"count": 2}),
    ],
    "tape_has_more": [Sample({"Scopes": Tape()}), Sample({"Scopes": TWO})],
}
