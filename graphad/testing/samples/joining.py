"""Samples of the operators in ``graphad.ops.joining``."""

from __future__ import annotations

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.shared import PLACES_X, with_

THREE = [uniform(2, 1), uniform(2, 3), uniform(2, 2)]

SAMPLES: dict[str, list[Sample]] = {
    "concat": [
        Sample({"X": THREE}, {"axis": 1}),
        Sample({"X": THREE}, {"axis": -1, "num": 0, "sections": [1, 3, 2]}),
        Sample({"X": [uniform(0, 3), uniform(2, 3)]}),
    ],
    "split_like": [Sample({"X": uniform(2, 6), "Like": THREE}, {"axis": 1}), Sample({"X": uniform(2, 6), "Like": THREE}, {"axis": -1})],
    "split": [
        with_(uniform(2, 6), num=3, axis=1),
        with_(uniform(2, 6), sections=[1, -1, 2], axis=-1),
        with_(uniform(3, 2), sections=[3, 0]),
    ],
    "stack": [
        Sample({"X": [uniform(2, 3), uniform(2, 3, seed=1)]}, {"axis": 1}),
        Sample({"X": [uniform(), uniform(seed=1)]}, {"axis": -1}),
    ],
    "unstack": [with_(PLACES_X, axis=1, num=3), with_(uniform(2))],
}
