"""Samples of the operators in ``graphad.ops.pooling``."""

from __future__ import annotations

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.shared import distinct

# Windows that cover the image, that overlap, that go beyond its end; and images that adaptive windows divide, and do not.
GEOMETRIES: list[tuple[tuple[int, ...], dict[str, object]]] = [
    ((2, 2, 4, 6), {"ksize": [2, 2], "strides": [2, 2]}),
    ((1, 2, 5, 5), {"ksize": [3, 2], "strides": [2, 1], "paddings": [1, 1]}),
    ((1, 2, 5, 4), {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 0, 0, 1], "ceil_mode": True, "exclusive": False}),
    ((1, 1, 5, 4), {"ksize": [3, 3], "strides": [2, 2], "padding_algorithm": "SAME"}),
    ((2, 2, 3, 4), {"ksize": [1, 1], "global_pooling": True}),
    ((1, 2, 4, 6), {"ksize": [2, 3], "adaptive": True}),  # windows of 2 x 2
    ((1, 2, 5, 4), {"ksize": [3, 3], "adaptive": True}),  # windows of two extents, which overlap
]
POOLED = [(2, 2, 2, 3), (1, 2, 3, 6), (1, 2, 3, 2), (1, 1, 3, 2), (2, 2, 1, 1), (1, 2, 2, 3), (1, 2, 3, 3)]


SQUARE: dict[str, object] = {"ksize": [2, 2], "strides": [2, 1], "paddings": [1, 0]}


MEAN: dict[str, object] = {"pooling_type": "avg", "ksize": [2, 2, 2], "strides": [1, 2, 1], "paddings": [1, 0, 0]}
PEAK: dict[str, object] = {"pooling_type": "max", "ksize": [2, 2, 2], "strides": [1, 2, 1], "paddings": [1, 0, 0]}
ADAPTIVE: dict[str, object] = {"pooling_type": "max", "ksize": [2, 1, 2], "adaptive": True, "data_format": "NDHWC"}

SAMPLES: dict[str, list[Sample]] = {
    "pool2d": [Sample({"X": distinct(*x)}, {**attrs, "pooling_type": kind}) for kind in ("max", "avg") for x, attrs in GEOMETRIES],
    "pool2d_spread": [
        Sample({"X": uniform(*out), "Like": uniform(*x)}, {**attrs, "pooling_type": "avg"})
        for out, (x, attrs) in zip(POOLED, GEOMETRIES, strict=True)
    ],
    "pool2d_gather_max": [Sample({"X": distinct(*x), "Image": uniform(*x)}, {**attrs, "pooling_type": "max"}) for x, attrs in GEOMETRIES],
    "pool2d_scatter_max": [
        Sample({"X": distinct(*x), "Pooled": uniform(*out)}, {**attrs, "pooling_type": "max"})
        for out, (x, attrs) in zip(POOLED, GEOMETRIES, strict=True)
    ],
    "max_pool2d_with_index": [
        Sample({"X": distinct(1, 2, 4, 3)}, SQUARE),
        Sample({"X": distinct(1, 2, 3, 4)}, {"ksize": [2, 3], "adaptive": True}),
        Sample({"X": distinct(2, 1, 2, 3)}, {"ksize": [1, 1], "global_pooling": True}),
    ],
    "max_pool3d_with_index": [Sample({"X": distinct(1, 1, 2, 3, 2)}, {"ksize": [2, 2, 1], "strides": [1, 1, 2], "paddings": [0, 1, 0]})],
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
