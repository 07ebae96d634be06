"""Samples of the operators in ``graphad.ops.roi``."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.ops.sample import Sample, uniform

IMAGES = uniform(2, 2, 4, 5)
BOXES = np.array([[0.3, 0.2, 3.1, 2.9], [1.2, 0.7, 4.6, 3.4], [-1.4, 0.6, 2.2, 5.3]])  # the last goes beyond the image
COUNTS = np.array([1, 2], "int64")
TWO: dict[str, object] = {"pooled_height": 2, "pooled_width": 2}
ARGMAX = np.array([[[[3, -1]], [[0, 3]]], [[[19, 7]], [[7, 7]]]], "int64")  # -1: of a window without elements
ONE = np.array([1, 1], "int32")
OFFSETS = uniform(1, 8, 3, 2, low=0.1, high=0.9, seed=3)  # never near a whole number, where the slope jumps
SMALL: dict[str, Any] = {"X": uniform(1, 1, 3, 3, seed=5), "ROIs": np.array([[0.1, 0.2, 2.4, 2.3]])}
PARTS: dict[str, object] = {"deformable_groups": 2, "groups": 2, "strides": [1, 2], "paddings": [1, 0], "dilations": [2, 1]}

SAMPLES: dict[str, list[Sample]] = {
    "roi_align": [
        Sample({"X": IMAGES, "ROIs": BOXES, "RoisNum": COUNTS}, {**TWO, "sampling_ratio": 2}, differentiate=("X",)),
        Sample({"X": IMAGES, "ROIs": BOXES, "RoisNum": COUNTS}, {**TWO, "aligned": True, "spatial_scale": 0.5}, differentiate=("X",)),
        Sample(SMALL, {"pooled_width": 3}, differentiate=("X",)),
        Sample({"X": uniform(1, 2, 3, 2), "ROIs": uniform(0, 4)}, TWO, differentiate=("X",)),
    ],
    "roi_align_spread": [
        Sample({"X": uniform(3, 2, 2, 2), "Like": IMAGES, "ROIs": BOXES, "RoisNum": COUNTS}, TWO, differentiate=("X",)),
    ],
    "roi_pool": [
        Sample({"X": IMAGES, "ROIs": BOXES, "RoisNum": COUNTS}, TWO, differentiate=("X",), outputs=("Out",)),
        Sample({**SMALL, "ROIs": np.array([[4.0, 1.0, 5.0, 2.0]])}, {**TWO, "spatial_scale": 0.7}, differentiate=("X",), outputs=("Out",)),
    ],
    "roi_pool_gather_max": [Sample({"X": IMAGES, "Argmax": ARGMAX, "RoisNum": ONE}, differentiate=("X",))],
    "roi_pool_scatter_max": [
        Sample({"X": uniform(2, 2, 1, 2), "Argmax": ARGMAX, "Like": IMAGES, "RoisNum": ONE}, differentiate=("X",)),
    ],
    "window_places": [
        Sample({"Like": OFFSETS}, {"image": [4, 3], "kernel": [2, 2], "strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1]}),
    ],
    "deformable_conv": [
        Sample({"Input": uniform(1, 2, 4, 3), "Offset": OFFSETS, "Mask": uniform(1, 4, 3, 2, seed=4), "Filter": uniform(2, 2, 2, 2)}),
        Sample(
            {
                "Input": uniform(2, 2, 3, 3),
                "Offset": uniform(2, 8, 3, 2, low=-0.9, high=-0.1, seed=7),
                "Mask": uniform(2, 4, 3, 2, seed=8),
                "Filter": uniform(2, 1, 2, 1),
            },
            PARTS,
        ),
    ],
    "deformable_conv_v1": [
        Sample({"Input": uniform(1, 1, 4, 3), "Offset": OFFSETS, "Filter": uniform(2, 1, 2, 2)}),
        Sample({"Input": uniform(1, 1, 4, 3), "Offset": OFFSETS + 2.0, "Filter": uniform(1, 1, 2, 2)}),
    ],
}
