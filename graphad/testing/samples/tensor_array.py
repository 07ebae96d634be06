"""Samples of the operators in ``graphad.ops.tensor_array``."""

from __future__ import annotations

import numpy as np

from graphad.ops.aggregates import Tape, TensorArray
from graphad.ops.sample import Sample, uniform
from graphad.types import Array

EQUAL = TensorArray([uniform(2, 3, seed=i) for i in range(3)])
RAGGED = TensorArray([uniform(extent, 2) for extent in (2, 1, 4)])  # can be concatenated, not stacked
GAP = TensorArray([uniform(2, 3)]).write(2, uniform(2, 3, seed=2))  # nothing at 1


def at(index: int, dtype: str = "int64") -> Array:
    """An index as programs have it: one integer in an array of shape [1]."""
    return np.array([index], dtype)


ONE = Tape().push([uniform(2, 3)])
TWO = Tape().push([uniform(2, 3), uniform(2)]).push([uniform(3, seed=1), uniform()])
COUNTS = Tape().push([uniform(2), np.array([3])])

SAMPLES: dict[str, list[Sample]] = {
    "create_array": [Sample(), Sample(attrs={"shape": [2, 3], "dtype": "float64"})],
    "write_to_array": [
        Sample({"X": uniform(2, 3), "I": at(0)}),
        Sample({"X": uniform(2, 3), "I": at(2)}, {"fresh": True}),
        Sample({"X": uniform(2, 3, seed=7), "I": at(1, "int32"), "Array": EQUAL}),
        Sample({"X": uniform(2, 3, seed=7), "I": np.array(5), "Array": EQUAL}),  # leaves a gap
        Sample({"X": uniform(2, 3, seed=7), "I": at(1), "Array": GAP}),
    ],
    "clear_in_array": [Sample({"X": EQUAL, "I": at(1)}), Sample({"X": GAP, "I": at(1)}), Sample({"X": EQUAL, "I": at(7)})],
    "erase_in_array": [
        Sample({"X": EQUAL, "I": at(1)}),
        Sample({"X": GAP, "I": at(0, "int32")}),
        Sample({"X": EQUAL, "I": at(2)}),  # the last one
        Sample({"X": EQUAL, "I": at(7)}),  # beyond the end, as in a gradient: nothing changes
    ],
    "insert_in_array": [
        Sample({"X": EQUAL, "I": at(1), "V": uniform(2, 3, seed=7)}),
        Sample({"X": GAP, "I": np.array(3), "V": uniform(2, 3, seed=7)}),  # at the end
        Sample({"X": EQUAL, "I": at(0, "int32")}),  # a slot without a tensor
        Sample({"X": EQUAL, "I": at(5), "V": uniform(2, 3, seed=7)}),  # leaves a gap
    ],
    "read_from_array": [
        Sample({"X": EQUAL, "I": at(1, "int32")}),
        Sample({"X": GAP, "I": np.array(2)}),
        Sample({"X": EQUAL, "I": at(0), "Like": uniform(2, 3)}),
        Sample({"X": GAP, "I": at(1), "Like": uniform(2, 3)}),
        Sample({"X": EQUAL, "I": at(3), "Like": uniform(2, 3)}),  # beyond the end, as in a gradient: zeros
    ],
    "lod_array_length": [Sample({"X": GAP}), Sample({"X": TensorArray()})],
    "tensor_array_to_tensor": [
        Sample({"X": EQUAL}),
        Sample({"X": EQUAL}, {"axis": -1}),
        Sample({"X": RAGGED}),
        Sample({"X": EQUAL}, {"use_stack": True}),
        Sample({"X": EQUAL}, {"axis": -1, "use_stack": True}),
    ],
    "tensor_to_tensor_array": [
        Sample({"X": uniform(3, 2)}),
        Sample({"X": uniform(2, 3, 2)}, {"axis": 1}),
        Sample({"X": uniform(2, 3)}, {"axis": -1}),
        Sample({"X": uniform(7, 2), "Like": RAGGED}, {"use_stack": False}),
    ],
    "tensor_array_like": [
        Sample({"X": EQUAL, "Like": uniform(3, 2, 3)}),
        Sample({"X": EQUAL, "Like": uniform(2, 3, 3)}, {"axis": 2}),
        Sample({"X": GAP, "Like": uniform(4, 2, 3)}),
        Sample({"X": RAGGED, "Like": uniform(7, 2), "Pieces": RAGGED}, {"use_stack": False}),
    ],
    "create_tape": [Sample()],
    "push_tape": [
        Sample({"Scopes": Tape(), "X": [uniform(2, 3)]}, {"count": 1}),
        Sample({"Scopes": TWO, "X": [uniform(2), uniform(2, 2)]}, {"count": 2}),
        Sample({"Scopes": COUNTS, "X": [uniform(2), np.array([4])]}, {"count": 2}),
    ],
    "pop_tape": [
        Sample({"Scopes": ONE}, {"count": 1}),
        Sample({"Scopes": TWO}, {"count": 2}),
        Sample({"Scopes": COUNTS}, {"count": 2}),
    ],
    "tape_has_more": [Sample({"Scopes": Tape()}), Sample({"Scopes": TWO})],
}
