"""Samples of the operators in ``graphad.ops.loss_scaling``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.types import Array

GROWTH: dict[str, object] = {"incr_every_n_steps": 3, "decr_every_n_nan_or_inf": 2, "incr_ratio": 2.0, "decr_ratio": 0.5}
TWO = [uniform(2, 3), uniform(3, seed=1)]
OVERFLOWED = [uniform(2, 3), np.array([1.0, np.inf, 2.0])]


def update(X: list[Array], found: bool, scale: float, good: int, bad: int, **attrs: object) -> Sample:
    """The end of a step."""
    steps = {"InGoodSteps": np.array([good], "int32"), "InBadSteps": np.array([bad], "int32")}
    inputs = {"X": X, "FoundInfinite": np.array([found]), "PrevLossScaling": np.array([scale], "float32"), **steps}
    return Sample(inputs, {**GROWTH, **attrs})


SAMPLES: dict[str, list[Sample]] = {
    "check_finite_and_unscale": [
        Sample({"X": TWO, "Scale": np.array([8.0], "float32")}),
        Sample({"X": OVERFLOWED, "Scale": np.array([8.0], "float32")}),
    ],
    "update_loss_scaling": [
        update(TWO, False, 8.0, 2, 0),
        update(OVERFLOWED, True, 8.0, 2, 1),
        update(TWO, False, 3e38, 2, 1),
        update(OVERFLOWED, True, 1.5, 2, 1),
        update(OVERFLOWED, True, 8.0, 2, 1, stop_update=True),
    ],
}
