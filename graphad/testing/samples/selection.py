"""Samples of the operators in ``graphad.ops.selection``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform

THREE = [uniform(2, 3, seed=i) for i in range(3)]
UNEQUAL = [uniform(2, 3), uniform(4, 3)]
MIXED_ROWS = np.array([[True], [False], [True], [True]])
YES, NO = np.ones((4, 1), bool), np.zeros(4, bool)


MIXED = np.array([[True, False, True], [False, False, True]])

SAMPLES: dict[str, list[Sample]] = {
    "select_input": [
        Sample({"X": THREE, "Mask": np.array([2], "int32")}),
        Sample({"X": THREE, "Mask": np.array(0)}),
        Sample({"X": THREE[:2], "Mask": np.array([True])}),
        Sample({"X": UNEQUAL, "Mask": np.array([1])}),
        Sample({"X": THREE[:1], "Mask": np.array([0])}),
    ],
    "select_output": [
        Sample({"X": uniform(2, 3), "Mask": np.array([1], "int32"), "Like": THREE}),
        Sample({"X": uniform(4, 3), "Mask": np.array(True), "Like": UNEQUAL}),
    ],
    "split_lod_tensor": [
        Sample({"X": uniform(4, 2), "Mask": MIXED_ROWS}),
        Sample({"X": uniform(4), "Mask": MIXED_ROWS[:, 0]}),
        Sample({"X": uniform(4, 2), "Mask": YES}),
        Sample({"X": uniform(4, 2), "Mask": NO}),
    ],
    "merge_lod_tensor": [
        Sample({"Mask": MIXED_ROWS, "InTrue": uniform(3, 2), "InFalse": uniform(1, 2, seed=1)}),
        Sample({"Mask": MIXED_ROWS, "InTrue": uniform(3, 2), "InFalse": uniform(1, 2, seed=1), "X": uniform(4, 2)}),
        Sample({"Mask": YES, "InTrue": uniform(4, 2), "InFalse": uniform(0, 2)}),
        Sample({"Mask": YES, "InTrue": uniform(4, 2)}),
        Sample({"Mask": NO, "InFalse": uniform(4, 2)}),
    ],
    "where": [
        Sample({"Condition": MIXED, "X": uniform(2, 3), "Y": uniform(2, 3, seed=1)}),
        Sample({"Condition": MIXED, "X": uniform(3), "Y": uniform(2, 1)}),
        Sample({"Condition": np.array(True), "X": uniform(2), "Y": uniform()}),
    ],
}
