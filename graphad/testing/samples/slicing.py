"""Samples of the operators in ``graphad.ops.slicing``."""

from __future__ import annotations

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.shared import PLACES_X, each, ints, with_x

CUT = {"axes": [0, 2], "starts": [0, 0], "ends": [1, 3]}
SET = {"axes": [0, 2], "starts": [0, -1], "ends": [2, -5], "steps": [1, -2]}  # from the last column back to the first
ROWS_OR_COLUMNS = ((0, 0, 2), (0, 1, 3), (1, 0, 1), (1, 1, 3))  # axis, start and end, as most users write them
ONE_ROW = {"axes": [0], "starts": [1], "ends": [2], "steps": [1], "decrease_axes": [0]}


PARTS = {"axes": [0, 2], "starts": [0, -3], "ends": [1, 100]}  # ends beyond the extent are cut to it

SAMPLES: dict[str, list[Sample]] = {
    "slice": [
        *[
            Sample({"Input": PLACES_X, "StartsTensor": ints(0, -3), "EndsTensor": ints(1, 100)}, {"axes": [0, 2]}),
            Sample(
                {"Input": PLACES_X, "EndsTensorList": each(1, 3)}, {**CUT, "ends": [-1, -1], "infer_flags": [-1, 1], "decrease_axis": [0]}
            ),
            Sample({"Input": PLACES_X, "StartsTensorList": each(0, 1)}, {**CUT, "infer_flags": [1, -1]}),
        ],
        *[
            Sample({"Input": PLACES_X}, PARTS),
            Sample({"Input": PLACES_X}, {**PARTS, "decrease_axis": [0], "infer_flags": [1, 1]}),
            Sample({"Input": uniform(2)}, {"axes": [0], "starts": [-1], "ends": [2**31 - 1], "decrease_axis": [0]}),  # Paddle's ``x[-1]``
            Sample({"Input": PLACES_X}, {"axes": [1], "starts": [2], "ends": [1]}),  # nothing
            *[Sample({"Input": uniform(3, 4)}, {"axes": [1], "starts": [start], "ends": [2**31 - 1]}) for start in (1, -1)],  # to the end
            *[Sample({"Input": uniform(3, 4)}, {"axes": [axis], "starts": [start], "ends": [end]}) for axis, start, end in ROWS_OR_COLUMNS],
        ],
    ],
    "strided_slice": [
        *[
            Sample({"Input": PLACES_X, "StridesTensor": ints(1, 2)}, CUT),
            Sample(
                {"Input": PLACES_X, "StartsTensorList": each(1, 3), "StridesTensorList": each(-1, -2)}, {"axes": [1, 2], "ends": [-9, 0]}
            ),
        ],
        *[
            Sample({"Input": PLACES_X}, {"axes": [1, 2], "starts": [0, 3], "ends": [3, -100], "strides": [2, -1]}),
            Sample({"Input": PLACES_X}, {"axes": [2], "starts": [-1], "ends": [0], "strides": [-2]}),
        ],
    ],
    "unslice": [
        *[
            Sample({"X": uniform(1, 3, 3), "Like": PLACES_X, "StartsTensor": ints(0, 0)}, {**CUT, "infer_flags": [1, 1]}),
            Sample({"X": uniform(2, 3, 2), "Like": PLACES_X, "StridesTensorList": each(-2)}, {"axes": [2], "starts": [3], "ends": [0]}),
        ],
        *[
            Sample({"X": uniform(1, 3, 3), "Like": PLACES_X}, PARTS),
            Sample({"X": uniform(3, 3), "Like": PLACES_X}, {**PARTS, "decrease_axis": [0]}),
            Sample({"X": uniform(2, 3, 2), "Like": PLACES_X}, {"axes": [2], "starts": [3], "ends": [0], "strides": [-2]}),
        ],
    ],
    "crop_tensor": [
        with_x(PLACES_X, shape=[1, -1, 2], offsets=[1, 1, 0]),
        with_x(PLACES_X, shape=[2, 2, 2]),
        Sample({"X": PLACES_X, "Shape": ints(1, 2, 3), "Offsets": ints(0, 1, 1)}),
        Sample({"X": PLACES_X, "ShapeTensor": each(1, 2, 3), "OffsetsTensor": each(1, 0, 1)}, {"shape": [1, -1, 3]}),
    ],
    "crop": [
        with_x(PLACES_X, shape=[1, 2, 2], offsets=[1, 1, 0]),
        Sample({"X": PLACES_X, "Y": uniform(1, 2, 3), "Offsets": ints(0, 1, 1)}),
    ],
    "uncrop": [
        Sample({"X": uniform(1, 2, 2), "Like": PLACES_X}, {"offsets": [1, 1, 0]}),
        Sample({"X": uniform(1, 2, 2), "Like": PLACES_X, "Offsets": ints(1, 1, 0)}),
        Sample({"X": uniform(1, 2, 2), "Like": PLACES_X, "OffsetsTensor": each(0, 0, 2)}),
    ],
    "set_value": [
        Sample({"Input": PLACES_X, "ValueTensor": uniform(2, 3, 2)}, SET),
        Sample({"Input": PLACES_X, "ValueTensor": uniform(3, 1)}, SET),
        Sample({"Input": PLACES_X, "ValueTensor": uniform(3, 4)}, ONE_ROW),
        Sample({"Input": PLACES_X, "ValueTensor": uniform(1, 3, 4)}, {**ONE_ROW, "none_axes": [0]}),
        Sample({"Input": PLACES_X, "ValueTensor": uniform(3, 1, 4)}, {**ONE_ROW, "none_axes": [2]}),
        Sample({"Input": PLACES_X}, {**ONE_ROW, "fp32_values": [1.0, 2.0, 3.0, 4.0], "shape": [4], "dtype": "float64"}),
        Sample(
            {
                "Input": PLACES_X,
                "ValueTensor": uniform(),
                "StartsTensorList": each(1),
                "EndsTensorList": each(3),
                "StepsTensorList": each(1),
            },
            {"axes": [1]},
        ),
    ],
    "unbind": [with_x(PLACES_X), with_x(PLACES_X, axis=-2), with_x(uniform(2, 0), axis=0)],
    "reverse": [with_x(PLACES_X, axis=[0]), with_x(PLACES_X, axis=[1, -1])],
}
