"""Samples of the poolings; the values within a window differ by more than the steps of the differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.ops.sample import Array, Sample, uniform


def distinct(*shape: int) -> Array:
    """Values a tenth apart, in a repeatable disorder."""
    return np.random.default_rng(list(shape)).permutation(int(np.prod(shape))).reshape(shape) / 10.0


GEOMETRIES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 2, 4, 6), {"ksize": [2, 2], "strides": [2, 2]}),
    ((1, 2, 5, 5), {"ksize": [3, 2], "strides": [2, 1], "paddings": [1, 1]}),
    ((1, 2, 5, 4), {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 0, 0, 1], "ceil_mode": True, "exclusive": False}),
    ((1, 1, 5, 4), {"ksize": [3, 3], "strides": [2, 2], "padding_algorithm": "SAME"}),
    ((2, 2, 3, 4), {"ksize": [1, 1], "global_pooling": True}),
    ((1, 2, 4, 6), {"ksize": [2, 3], "adaptive": True}),
    ((1, 2, 5, 4), {"ksize": [3, 3], "adaptive": True}),
]
POOLED = [(2, 2, 2, 3), (1, 2, 3, 6), (1, 2, 3, 2), (1, 1, 3, 2), (2, 2, 1, 1), (1, 2, 2, 3), (1, 2, 3, 3)]

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
}
