"""Samples of the operators in ``graphad.ops.indexing``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.shared import INDEX_X, MASK, ORDER_X, ROWS, ints, of_x

# Places that occur twice: cotangents are added there, and of what is written the last one stays.
TWICE_EACH = np.array([2, 0, 2])


TWICE = np.array([[2, 0, 2], [1, 1, 0]])
REPEATED = np.array([2, 0, 2])

SAMPLES: dict[str, list[Sample]] = {
    "gather": [
        *[
            Sample({"X": INDEX_X, "Index": TWICE_EACH}),
            Sample({"X": INDEX_X, "Index": TWICE_EACH[:, None]}, {"axis": 1}),
            Sample({"X": INDEX_X, "Index": np.array(1)}, {"axis": -1}),
            Sample({"X": uniform(3), "Index": TWICE_EACH}),
            Sample({"X": INDEX_X, "Index": np.array([], "int64")}),
        ],
        *[
            Sample({"X": uniform(4, 3), "Index": ints(2, 0, 2), "Axis": ints(1)}),
            Sample({"X": uniform(4, 3), "Index": np.array(1), "Axis": np.array(-2)}),
        ],
    ],
    "index_select": [Sample({"X": INDEX_X, "Index": TWICE_EACH}, {"dim": 1}), Sample({"X": INDEX_X, "Index": np.array([3, 3], "int32")})],
    "index_add": [
        Sample({"X": INDEX_X, "Index": TWICE_EACH, "AddValue": uniform(3, 3)}),
        Sample({"X": INDEX_X, "Index": TWICE_EACH, "AddValue": uniform(4, 3)}, {"axis": -1}),
        Sample({"X": INDEX_X, "Index": np.array(1), "AddValue": uniform(4)}, {"axis": 1}),
    ],
    "gather_nd": [
        *[
            Sample({"X": INDEX_X, "Index": np.array([[1, 2], [1, 2], [0, 0]])}),
            Sample({"X": INDEX_X, "Index": np.array([[[3]], [[3]]])}),  # one number: whole rows
            Sample({"X": INDEX_X, "Index": np.array([1, 2])}),
        ],
        *[
            Sample({"X": uniform(2, 3), "Index": np.zeros((2, 0), "int64")}),  # no number: all of X, twice
            Sample({"X": uniform(), "Index": np.zeros((1, 0), "int64")}),
        ],
    ],
    "scatter_nd_add": [
        *[
            Sample({"X": INDEX_X, "Index": np.array([[1, 2], [1, 2], [0, 0]]), "Updates": uniform(3)}),
            Sample({"X": INDEX_X, "Index": np.array([[3], [3]]), "Updates": uniform(2, 3)}),
        ],
        *[Sample({"X": uniform(3), "Index": np.zeros((2, 0), "int64"), "Updates": uniform(2, 3)})],
    ],
    "take_along_axis": [
        Sample({"Input": uniform(3, 4), "Index": np.array([[1, 0], [3, 3], [2, 0]])}, {"Axis": 1}),
        Sample({"Input": uniform(3, 4), "Index": np.array([[1, 0, 2, 2]])}, {"Axis": 0}),
    ],
    "put_along_axis": [
        *[
            Sample({"Input": uniform(3, 4), "Index": np.array([[1, 0], [3, 2], [2, 0]]), "Value": uniform(3, 2)}, {"Axis": 1}),
            Sample(
                {"Input": uniform(3, 4), "Index": np.array([[1, 0], [3, 3], [2, 0]]), "Value": uniform(3, 2)}, {"Axis": -1, "Reduce": "add"}
            ),
            Sample({"Input": uniform(3, 4), "Index": np.array([[1], [3], [2]]), "Value": uniform(3, 1)}, {"Axis": 1, "Reduce": "add"}),
        ],
        *[
            *(
                Sample({"Input": ORDER_X, "Index": TWICE, "Value": uniform(2, 3, seed=1)}, {"Axis": 1, "Reduce": reduce})
                for reduce in ("assign", "add", "mul", "multiply")
            ),
            *(
                Sample({"Input": ORDER_X, "Index": TWICE, "Value": uniform(2, 3, seed=1)}, {"Axis": 1, "Reduce": reduce})
                for reduce in ("mean", "amin", "amax")
            ),
            *(
                Sample(
                    {"Input": ORDER_X, "Index": TWICE, "Value": uniform(2, 3, seed=1)},
                    {"Axis": -1, "Reduce": reduce, "Include_self": False},
                )
                for reduce in ("assign", "add", "mul", "mean", "amin", "amax")
            ),
            Sample(
                # One factor that is zero, and two: the gradient of a product may not divide by it.
                {"Input": ORDER_X, "Index": TWICE, "Value": np.array([[0.0, 2.0, 0.5], [0.0, 0.0, 1.0]])},
                {"Axis": -1, "Reduce": "mul"},
            ),
            Sample(
                {"Input": ORDER_X, "Index": np.array([[1, 0, 1], [1, 1, 0]]), "Value": uniform(2, 3, seed=1)}, {"Axis": 0, "Reduce": "mul"}
            ),
            Sample({"Input": ORDER_X, "Index": np.array([[1, 0, 1], [1, 1, 0]]), "Value": uniform(2, 3, seed=1)}, {"Axis": 0}),
        ],
    ],
    "where_index": [
        Sample({"Condition": MASK}),
        Sample({"Condition": np.array([0.0, 2.0])}),
        Sample({"Condition": np.array(True)}),
        Sample({"Condition": np.zeros((0, 2), bool)}),
    ],
    "masked_select": [
        Sample({"X": ORDER_X, "Mask": MASK}),
        Sample({"X": ORDER_X, "Mask": MASK[0]}),  # the mask is broadcast, and below X
        Sample({"X": uniform(3), "Mask": MASK}),
        Sample({"X": ORDER_X, "Mask": np.zeros((2, 3), bool)}),  # nothing is left
        Sample({"X": uniform(), "Mask": np.array(True)}),
    ],
    "multiplex": [
        Sample({"Ids": np.array([[1], [0], [1]]), "X": [uniform(3, 2), uniform(3, 2, seed=1)]}),
        Sample({"Ids": np.array([[0], [2]], "int32"), "X": [uniform(2, 2, 2, seed=i) for i in range(3)]}),
    ],
    "index_sample": [Sample({"X": ORDER_X, "Index": TWICE}), Sample({"X": ORDER_X, "Index": np.zeros((2, 0), "int64")})],
    "scatter": [
        Sample({"X": ROWS, "Ids": np.array([3, 1]), "Updates": uniform(2, 3, seed=1)}),
        Sample({"X": ROWS, "Ids": REPEATED, "Updates": uniform(3, 3, seed=1)}),
        Sample({"X": ROWS, "Ids": REPEATED[:, None], "Updates": uniform(3, 3, seed=1)}, {"overwrite": False}),
        Sample({"X": uniform(4), "Ids": REPEATED, "Updates": uniform(3, seed=1)}),
        Sample({"X": ROWS, "Ids": np.array([], "int64"), "Updates": uniform(0, 3)}),
    ],
    "last_of_each": [of_x(TWICE, axis=1), of_x(TWICE, axis=0), of_x(REPEATED, axis=0), of_x(np.zeros((2, 0), "int64"), axis=-1)],
    "ungather": [
        Sample({"X": uniform(4, 2), "Index": ints(2, 2), "Like": uniform(4, 3), "Axis": ints(1)}),
        Sample({"X": uniform(2, 3), "Index": ints(3, 0), "Like": uniform(4, 3)}),
    ],
    "gather_tree": [
        Sample(
            {
                "Ids": np.array([[[2, 2]], [[6, 1]], [[3, 9]]]),
                "Parents": np.array([[[0, 0]], [[1, 1]], [[1, 0]]]),
            }
        ),
        Sample({"Ids": np.array([[[1], [2]]], "int32"), "Parents": np.zeros((1, 2, 1), "int32")}),
    ],
}
