"""Samples of the operators over volumes, of transposed convolutions, and of images with the channels last."""

from __future__ import annotations

from typing import Any

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.pool import distinct

GROUPED: dict[str, Any] = {"strides": [2, 1, 1], "paddings": [1, 0, 1], "dilations": [1, 1, 2], "groups": 2}
LAST: dict[str, Any] = {"data_format": "NDHWC", "paddings": [0, 1, 0, 0, 1, 0]}
VOLUME, CUBE = uniform(1, 2, 3, 2, 3), uniform(2, 2, 2, 1, 2)
MEAN: dict[str, Any] = {"pooling_type": "avg", "ksize": [2, 2, 2], "strides": [1, 2, 1], "paddings": [1, 0, 0]}
PEAK: dict[str, Any] = {"pooling_type": "max", "ksize": [2, 2, 2], "strides": [1, 2, 1], "paddings": [1, 0, 0]}
ADAPTIVE: dict[str, Any] = {"pooling_type": "max", "ksize": [2, 1, 2], "adaptive": True, "data_format": "NDHWC"}

SAMPLES: dict[str, list[Sample]] = {
    "conv3d": [
        Sample({"Input": VOLUME, "Filter": CUBE}),
        Sample({"Input": uniform(1, 4, 3, 2, 3), "Filter": uniform(2, 2, 2, 2, 2)}, GROUPED),
        Sample({"Input": uniform(1, 2, 2, 2, 1), "Filter": uniform(1, 1, 2, 2, 1)}, LAST),
        Sample({"Input": uniform(0, 2, 3, 2, 3), "Filter": CUBE}, {"padding_algorithm": "SAME"}),
    ],
    "conv3d_backprop_input": [
        Sample({"Filter": CUBE, "X": uniform(1, 2, 2, 2, 2), "Like": VOLUME}),
        Sample({"Filter": uniform(2, 1, 2, 2, 1), "X": uniform(1, 2, 1, 3, 2), "Like": uniform(1, 2, 2, 2, 1)}, LAST),
    ],
    "conv3d_backprop_filter": [
        Sample({"Input": VOLUME, "X": uniform(1, 2, 2, 2, 2), "Like": CUBE}),
        Sample({"Input": uniform(1, 2, 2, 2, 1), "X": uniform(1, 2, 1, 3, 2), "Like": uniform(2, 1, 2, 2, 1)}, LAST),
    ],
    "conv3d_transpose": [
        Sample({"Input": uniform(1, 2, 2, 1, 2), "Filter": uniform(2, 1, 2, 2, 1)}, {"strides": [2, 1, 1], "output_padding": [1, 0, 0]}),
        Sample({"Input": uniform(1, 1, 2, 1, 2), "Filter": uniform(2, 1, 2, 1, 2)}, {"groups": 2, "data_format": "NDHWC"}),
    ],
    "depthwise_conv2d_transpose": [
        Sample({"Input": uniform(1, 3, 2, 3), "Filter": uniform(3, 1, 2, 2), "Bias": uniform(3)}, {"groups": 3, "strides": [2, 1]}),
        Sample({"Input": uniform(2, 2, 2, 2), "Filter": uniform(2, 2, 2, 2), "Bias": uniform(4)}, {"groups": 2, "data_format": "NHWC"}),
    ],
    "pool3d": [
        Sample({"X": distinct(1, 2, 3, 2, 2)}, PEAK),
        Sample({"X": distinct(1, 2, 3, 2, 2)}, MEAN),
        Sample({"X": distinct(1, 2, 3, 2, 2)}, {**MEAN, "exclusive": False, "ceil_mode": True}),
        Sample({"X": distinct(2, 3, 2, 3, 1)}, ADAPTIVE),
        Sample({"X": distinct(1, 2, 2, 3, 2)}, {"pooling_type": "avg", "ksize": [1, 1, 1], "global_pooling": True, "data_format": "NDHWC"}),
    ],
    "pool3d_spread": [
        Sample({"X": uniform(1, 2, 4, 1, 1), "Like": uniform(1, 2, 3, 2, 2)}, MEAN),
        Sample({"X": uniform(2, 2, 1, 2, 1), "Like": uniform(2, 3, 2, 3, 1)}, {**ADAPTIVE, "pooling_type": "avg"}),
    ],
    "pool3d_gather_max": [
        Sample({"X": distinct(1, 2, 3, 2, 2), "Image": uniform(1, 2, 3, 2, 2)}, PEAK),
        Sample({"X": distinct(2, 3, 2, 3, 1), "Image": uniform(2, 3, 2, 3, 1)}, ADAPTIVE),
    ],
    "pool3d_scatter_max": [
        Sample({"X": distinct(1, 2, 3, 2, 2), "Pooled": uniform(1, 2, 4, 1, 1)}, PEAK),
        Sample({"X": distinct(2, 3, 2, 3, 1), "Pooled": uniform(2, 2, 1, 2, 1)}, ADAPTIVE),
    ],
}
