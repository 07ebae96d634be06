"""Samples of the operators in ``graphad.ops.roi_pooling``: corners of boxes are away from where windows jump."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform

BOXES = np.array([[0.3, 0.2, 3.1, 2.9], [1.2, 0.7, 4.6, 3.4], [-1.4, 0.6, 2.2, 5.3]])
COUNTS = np.array([1, 2], "int64")
TWO: dict[str, object] = {"pooled_height": 2, "pooled_width": 3, "spatial_scale": 0.7}
IMAGES = uniform(2, 2, 4, 5)

SAMPLES: dict[str, list[Sample]] = {
    "box_images": [Sample({"X": IMAGES, "ROIs": BOXES, "RoisNum": COUNTS}), Sample({"X": uniform(1, 1, 2, 2), "ROIs": BOXES})],
    "element_places": [Sample({"X": IMAGES}, {"axis": 3}), Sample({"X": uniform(3)}, {"axis": 0})],
    "psroi_windows": [Sample({"X": IMAGES, "ROIs": BOXES}, TWO)],
    "psroi_pool": [
        Sample({"X": uniform(2, 12, 4, 5), "ROIs": BOXES, "RoisNum": COUNTS}, {**TWO, "output_channels": 2}, differentiate=("X",)),
        Sample(
            {"X": uniform(1, 4, 3, 3), "ROIs": BOXES}, {"output_channels": 1, "pooled_height": 2, "pooled_width": 2}, differentiate=("X",)
        ),
    ],
    "prroi_pool": [
        Sample({"X": IMAGES, "ROIs": BOXES, "BatchRoINums": COUNTS}, TWO),
        Sample({"X": uniform(1, 1, 3, 3), "ROIs": np.array([[0.3, 0.4, 1.6, 2.2]])}),
    ],
}
