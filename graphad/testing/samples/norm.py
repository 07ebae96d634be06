"""Samples of the normalisations."""

from __future__ import annotations

from typing import Any

from graphad.ops.sample import Sample, uniform

STATISTICS = {"Mean": uniform(3, seed=3), "Variance": uniform(3, low=0.5, high=1.5, seed=4)}
VECTORS = {"Scale": uniform(3, low=0.5, high=1.5), "Bias": uniform(3), **STATISTICS}
FIXED: dict[str, Any] = {"is_test": True, "epsilon": 1e-3}

SAMPLES: dict[str, list[Sample]] = {
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
}
