"""Samples of the operators in ``graphad.ops.rnn``."""

from __future__ import annotations

from graphad.ops.sample import Sample, uniform

STEP: dict[str, object] = {"Input": uniform(1, 6), "HiddenPrev": uniform(1, 2), "Weight": uniform(2, 6, seed=2)}
ONE: dict[str, object] = {"Input": uniform(2, 3, seed=5), "HiddenPrev": uniform(2, 1), "Weight": uniform(1, 3, seed=2)}

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
}
