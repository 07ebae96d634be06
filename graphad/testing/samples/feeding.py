"""Samples of the operators in ``graphad.ops.feeding``."""

from __future__ import annotations

from graphad.ops.sample import Sample, uniform

SAMPLES: dict[str, list[Sample]] = {
    "feed": [Sample({"X": uniform(2, 3)})],
    "fetch": [Sample({"X": uniform(2, 3)}, {"col": 1})],
}
