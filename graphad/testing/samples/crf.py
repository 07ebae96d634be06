"""Samples of the operators in ``graphad.ops.crf``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, Value, uniform

TAGS = np.array([[0, 1, 1], [2, 0, 2]])
LENGTHS = np.array([3, 2])


def chain(seed: int = 0) -> dict[str, Value]:
    """Two sequences of three steps, and three tags."""
    return {"Emission": uniform(2, 3, 3, seed=seed), "Transition": uniform(5, 3, seed=seed + 1)}


COST = ("LogLikelihood",)

SAMPLES: dict[str, list[Sample]] = {
    "matrix_recurrence": [
        Sample({"A": uniform(2, 3, 2, 2), "B": uniform(2, 3, 2)}),
        Sample({"A": uniform(1, 3, 2, 2), "B": uniform(1, 3, 2)}, {"reverse": True}),
        Sample({"A": uniform(1, 0, 2, 2), "B": uniform(1, 0, 2)}),
    ],
    "linear_chain_crf": [
        Sample({**chain(), "Label": TAGS}, outputs=COST),
        Sample({**chain(2), "Label": TAGS[:, :, None], "Length": LENGTHS}, outputs=COST),
        Sample({"Emission": uniform(1, 1, 2), "Transition": uniform(4, 2), "Label": np.array([[1]])}, outputs=COST),
    ],
    "crf_lattice": [Sample({**chain(), "Label": TAGS, "Length": LENGTHS[:, None]})],
    "crf_decoding": [
        Sample({**chain()}),
        Sample({**chain(), "Length": LENGTHS}),
        Sample({**chain(), "Label": TAGS, "Length": LENGTHS}),
    ],
}
