"""Samples of recurrent cells, attention and normalisations, and of images with the channels last."""

from __future__ import annotations

from typing import Any

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.norm import VECTORS

STEP: dict[str, Any] = {"Input": uniform(1, 6), "HiddenPrev": uniform(1, 2), "Weight": uniform(2, 6, seed=2)}
ONE: dict[str, Any] = {"Input": uniform(2, 3, seed=5), "HiddenPrev": uniform(2, 1), "Weight": uniform(1, 3, seed=2)}
HEADS: dict[str, Any] = {"q": uniform(1, 1, 2, 2), "k": uniform(1, 2, 2, 2, seed=1), "v": uniform(1, 2, 2, 1, seed=2)}
WEIGHTS: dict[str, Any] = {"return_softmax": True}

SAMPLES: dict[str, list[Sample]] = {
    "lstm_unit": [
        Sample({"X": uniform(2, 8), "C_prev": uniform(2, 2)}, {"forget_bias": 0.5}),
        Sample({"X": uniform(2, 4), "C_prev": uniform(2, 1)}, outputs=("H",)),
        Sample({"X": uniform(2, 4), "C_prev": uniform(2, 1)}, outputs=("C",)),
        Sample({"X": uniform(0, 4), "C_prev": uniform(0, 1)}),
    ],
    "gru_unit": [
        Sample(STEP, differentiate=("Weight",)),
        Sample(STEP, outputs=("Hidden",), differentiate=("HiddenPrev",)),
        Sample({**ONE, "Bias": uniform(1, 3, seed=4)}, {"origin_mode": True}, outputs=("Hidden",)),
        Sample(ONE, {"activation": 0, "gate_activation": 2}, outputs=("Gate", "ResetHiddenPrev")),
        Sample({**ONE, "Input": uniform(2, 3, low=1.0, high=2.0)}, {"activation": 3}, differentiate=("Input", "Weight")),
        Sample({"Input": uniform(0, 6), "HiddenPrev": uniform(0, 2), "Weight": uniform(2, 6)}),
    ],
    "flash_attn": [
        Sample(HEADS, outputs=("out",)),
        Sample({**HEADS, "attn_mask": uniform(1, 1, 2)}, WEIGHTS, outputs=("out", "softmax", "softmax_lse")),
        Sample({name: uniform(1, 2, 1, 2, seed=i) for i, name in enumerate("qkv")}, {"causal": True}, outputs=("out", "softmax_lse")),
        Sample({"q": uniform(0, 2, 1, 2), "k": uniform(0, 2, 1, 2), "v": uniform(0, 2, 1, 2)}, outputs=("out",)),
    ],
    "lrn": [
        Sample({"X": uniform(1, 4, 2, 1)}, {"n": 3, "alpha": 0.3}),
        Sample({"X": uniform(1, 2, 1, 3)}, {"data_format": "NHWC", "alpha": 0.2, "k": 1.0}, outputs=("Out",)),
    ],
    "window_sum": [Sample({"X": uniform(2, 5)}, {"n": 3}), Sample({"X": uniform(4, 0)}, {"n": 5, "axis": 0})],
    "sync_batch_norm": [Sample({"X": uniform(4, 3, 2, 1), **VECTORS}, {"epsilon": 1e-3}, outputs=("Y",))],
}
