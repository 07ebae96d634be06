"""Samples of the operators in ``graphad.ops.attention``."""

from __future__ import annotations

from graphad.ops.sample import Sample, uniform

HEADS: dict[str, object] = {"q": uniform(1, 1, 2, 2), "k": uniform(1, 2, 2, 2, seed=1), "v": uniform(1, 2, 2, 1, seed=2)}
WEIGHTS: dict[str, object] = {"return_softmax": True}

SAMPLES: dict[str, list[Sample]] = {
    "flash_attn": [
        Sample(HEADS, outputs=("out",)),
        Sample({**HEADS, "attn_mask": uniform(1, 1, 2)}, WEIGHTS, outputs=("out", "softmax", "softmax_lse")),
        Sample({name: uniform(1, 2, 1, 2, seed=i) for i, name in enumerate("qkv")}, {"causal": True}, outputs=("out", "softmax_lse")),
        Sample({"q": uniform(0, 2, 1, 2), "k": uniform(0, 2, 1, 2), "v": uniform(0, 2, 1, 2)}, outputs=("out",)),
    ],
}
