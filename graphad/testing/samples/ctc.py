"""Samples of the operators in ``graphad.ops.ctc``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform

LABELS = np.array([[1, 1], [2, 0]])
STEPS = np.array([4, 2])
COUNTS = np.array([2, 1])
PATHS = np.array([[0, 1, 1, 0, 1, 2], [3, 3, 0, 0, 3, 3]])

SAMPLES: dict[str, list[Sample]] = {
    "warpctc": [
        Sample({"Logits": uniform(3, 1, 3), "Label": np.array([[1, 2]])}, outputs=("Loss",)),
        Sample({"Logits": uniform(4, 2, 3), "Label": LABELS, "LogitsLength": STEPS, "LabelLength": COUNTS}, outputs=("Loss",)),
        Sample({"Logits": uniform(2, 1, 3), "Label": np.array([[0, 0]])}, {"blank": 2}, outputs=("Loss",)),
    ],
    "ctc_lattice": [Sample({"Logits": uniform(4, 2, 3), "Label": LABELS, "LogitsLength": STEPS, "LabelLength": COUNTS[:, None]})],
    "ctc_align": [
        Sample({"Input": PATHS}),
        Sample({"Input": PATHS.astype("int32"), "InputLength": np.array([[6], [4]])}, {"blank": 3, "padding_value": -1}),
        Sample({"Input": PATHS}, {"merge_repeated": False}),
    ],
    "edit_distance": [
        Sample({"Hyps": PATHS, "Refs": np.array([[1, 2, 2], [3, 0, 3]])}),
        Sample(
            {"Hyps": PATHS, "Refs": np.array([[1, 2, 2], [3, 0, 3]]), "HypsLength": np.array([5, 0]), "RefsLength": np.array([3, 2])},
            {"normalized": True},
        ),
    ],
}
