"""Samples of the operators in ``graphad.ops.padding``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.shared import ints, with_, with_x

IMAGE, VOLUME = uniform(1, 2, 3, 2), uniform(1, 1, 2, 3, 2)
LAST_IMAGE, LAST_VOLUME = uniform(1, 3, 2, 1), uniform(1, 2, 3, 2, 1)
MODES_2D = [(mode, [1, 0, 1, 1]) for mode in ("constant", "reflect", "edge")]
MODES_3D = [(mode, [1, 1, 0, 2, 1, 0]) for mode in ("constant", "reflect", "replicate", "circular")]

SAMPLES: dict[str, list[Sample]] = {
    "pad2d": [
        *(with_x(IMAGE, paddings=p, mode=m, pad_value=0.5) for m, p in MODES_2D),
        *(with_x(LAST_IMAGE, paddings=p, mode=m, data_format="NHWC") for m, p in MODES_2D),
        Sample({"X": IMAGE, "Paddings": np.array([2, 1, 0, 1], "int32")}, {"mode": "reflect"}),
        with_x(uniform(0, 2, 3, 2), paddings=[1, 1, 0, 0], mode="edge"),
    ],
    "unpad2d": [
        *(Sample({"X": uniform(1, 2, 4, 4), "Like": IMAGE}, {"paddings": p, "mode": m}) for m, p in MODES_2D),
        Sample({"X": uniform(1, 2, 5, 2), "Like": IMAGE, "Paddings": ints(1, 1, 0, 0)}, {"mode": "reflect"}),
    ],
    "pad3d": [
        *(with_x(VOLUME, paddings=p, mode=m, value=-1.0) for m, p in MODES_3D),
        *(with_x(LAST_VOLUME, paddings=p, mode=m, data_format="NDHWC") for m, p in MODES_3D),
        Sample({"X": VOLUME, "Paddings": ints(0, 1, 1, 0, 1, 1)}, {"mode": "circular"}),
    ],
    "unpad3d": [
        *(Sample({"X": uniform(1, 1, 3, 5, 4), "Like": VOLUME}, {"paddings": p, "mode": m}) for m, p in MODES_3D),
        Sample({"X": uniform(1, 1, 2, 4, 2), "Like": VOLUME, "Paddings": ints(0, 0, 0, 1, 0, 0)}, {"mode": "replicate"}),
    ],
    "pad": [
        with_(uniform(2, 3), paddings=[1, 0, 2, 3], pad_value=0.5),
        with_(uniform(), paddings=[]),
        with_(uniform(0, 2), paddings=[1, 1, 0, 0]),
    ],
}
