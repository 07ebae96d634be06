"""Samples of the operators in ``graphad.ops.normalization``."""

from __future__ import annotations

from graphad.ops.sample import Sample, away_from_zero, uniform
from graphad.testing.samples.shared import of_x

STATISTICS = {"Mean": uniform(3, seed=3), "Variance": uniform(3, low=0.5, high=1.5, seed=4)}
VECTORS = {"Scale": uniform(3, low=0.5, high=1.5), "Bias": uniform(3), **STATISTICS}
FIXED: dict[str, object] = {"is_test": True, "epsilon": 1e-3}

SAMPLES: dict[str, list[Sample]] = {
    "lrn": [
        Sample({"X": uniform(1, 4, 2, 1)}, {"n": 3, "alpha": 0.3}),
        Sample({"X": uniform(1, 2, 1, 3)}, {"data_format": "NHWC", "alpha": 0.2, "k": 1.0}, outputs=("Out",)),
    ],
    "window_sum": [Sample({"X": uniform(2, 5)}, {"n": 3}), Sample({"X": uniform(4, 0)}, {"n": 5, "axis": 0})],
    "sync_batch_norm": [Sample({"X": uniform(4, 3, 2, 1), **VECTORS}, {"epsilon": 1e-3}, outputs=("Y",))],
    "batch_norm": [
        Sample({"X": uniform(4, 3, 2, 2), **VECTORS}, {"epsilon": 1e-3, "momentum": 0.8}),
        Sample({"X": uniform(4, 3, 2, 2), **VECTORS}, {"epsilon": 1e-3}, outputs=("Y",)),
        Sample({"X": uniform(3, 2, 2, 3), **VECTORS}, {"data_layout": "NHWC", "epsilon": 1e-3}),
        Sample({"X": uniform(5, 3), **VECTORS}, {"epsilon": 1e-3}),
        Sample({"X": uniform(2, 3, 2, 2), **VECTORS}, FIXED),
        Sample({"X": uniform(2, 3), **VECTORS}, {**FIXED, "trainable_statistics": True}),
        Sample({"X": uniform(2, 3), **VECTORS}, {"use_global_stats": True, "epsilon": 1e-3}),
    ],
    "layer_norm": [
        Sample({"X": uniform(3, 4), "Scale": uniform(4), "Bias": uniform(4)}, {"epsilon": 1e-3}),
        Sample({"X": uniform(3, 4), "Scale": uniform(4), "Bias": uniform(4)}, {"epsilon": 1e-3}, outputs=("Y",)),
        Sample({"X": uniform(2, 3, 2, 2), "Scale": uniform(4)}, {"epsilon": 1e-3, "begin_norm_axis": 2}, outputs=("Y",)),
        Sample({"X": uniform(2, 5)}, {"epsilon": 1e-3}),
        Sample({"X": uniform(0, 5), "Scale": uniform(5)}, {"epsilon": 1e-3}),
    ],
    "instance_norm": [
        Sample({"X": uniform(2, 3, 2, 3), "Scale": uniform(3), "Bias": uniform(3)}, {"epsilon": 1e-3}),
        Sample({"X": uniform(2, 1, 4)}, {"epsilon": 1e-3}),
    ],
    "group_norm": [
        Sample({"X": uniform(2, 4, 2, 3), "Scale": uniform(4), "Bias": uniform(4)}, {"epsilon": 1e-3, "groups": 2}),
        Sample({"X": uniform(2, 3, 2, 2)}, {"epsilon": 1e-3, "groups": 1}),
    ],
    "norm": [
        of_x(away_from_zero(2, 3), axis=1),
        of_x(away_from_zero(2, 3, 2), axis=-2, epsilon=0.1),
        Sample({"X": away_from_zero(2, 3)}, {"axis": 0}, outputs=("Out", "Norm")),
        of_x(uniform(0, 2), axis=1),
    ],
}
