"""Samples of operators whose places, extents or bounds may come as tensors, and of paddings and crops."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.ops.sample import Array, Sample, uniform


def _ints(*numbers: int) -> Array:
    return np.array(numbers, "int64")


def _each(*numbers: int) -> list[Array]:
    """One tensor for each number, of the shape [1] or []."""
    return [np.array([n] if i % 2 else n, "int32") for i, n in enumerate(numbers)]


def _of(x: Array, **attrs: Any) -> Sample:
    return Sample({"X": x}, attrs)


X = uniform(2, 3, 4)
RESHAPES = [
    Sample({"X": X, "Shape": _ints(4, -1)}),
    Sample({"X": X, "Shape": _ints(4, 6)}, {"shape": [4, -1]}),
    Sample({"X": X, "ShapeTensor": _each(0, 6, 2)}, {"shape": [0, -1, -1]}),
    Sample({"X": X, "ShapeTensor": _each(24), "Shape": _ints(2, 12)}),
]
CUT = {"axes": [0, 2], "starts": [0, 0], "ends": [1, 3]}
IMAGE, VOLUME = uniform(1, 2, 3, 2), uniform(1, 1, 2, 3, 2)
LAST_IMAGE, LAST_VOLUME = uniform(1, 3, 2, 1), uniform(1, 2, 3, 2, 1)
MODES_2D = [(mode, [1, 0, 1, 1]) for mode in ("constant", "reflect", "edge")]
MODES_3D = [(mode, [1, 1, 0, 2, 1, 0]) for mode in ("constant", "reflect", "replicate", "circular")]
SET = {"axes": [0, 2], "starts": [0, -1], "ends": [2, -5], "steps": [1, -2]}
ONE_ROW = {"axes": [0], "starts": [1], "ends": [2], "steps": [1], "decrease_axes": [0]}

SAMPLES: dict[str, list[Sample]] = {
    "reshape2": RESHAPES,
    "reshape": RESHAPES,
    "expand_v2": [
        Sample({"X": uniform(3, 1), "Shape": _ints(2, 3, 4)}),
        Sample({"X": uniform(3, 1), "expand_shapes_tensor": _each(2, -1, 2)}, {"shape": [2, -1, -1]}),
    ],
    "tile": [
        Sample({"X": uniform(2, 3), "RepeatTimes": _ints(2, 1)}),
        Sample({"X": uniform(3), "repeat_times_tensor": _each(2, 2)}, {"repeat_times": [2, -1]}),
    ],
    "untile": [
        Sample({"X": uniform(4, 3), "Like": uniform(2, 3), "RepeatTimes": _ints(2, 1)}),
        Sample({"X": uniform(2, 6), "Like": uniform(3), "repeat_times_tensor": _each(2, 2)}),
    ],
    "expand": [
        _of(uniform(2, 3), expand_times=[2, 1]),
        Sample({"X": uniform(2, 1), "ExpandTimes": _ints(1, 3)}),
        Sample({"X": uniform(2, 1), "expand_times_tensor": _each(2, 2)}, {"expand_times": [-1, 2]}),
        _of(uniform(0, 2), expand_times=[2, 2]),
    ],
    "slice": [
        Sample({"Input": X, "StartsTensor": _ints(0, -3), "EndsTensor": _ints(1, 100)}, {"axes": [0, 2]}),
        Sample({"Input": X, "EndsTensorList": _each(1, 3)}, {**CUT, "ends": [-1, -1], "infer_flags": [-1, 1], "decrease_axis": [0]}),
        Sample({"Input": X, "StartsTensorList": _each(0, 1)}, {**CUT, "infer_flags": [1, -1]}),
    ],
    "strided_slice": [
        Sample({"Input": X, "StridesTensor": _ints(1, 2)}, CUT),
        Sample({"Input": X, "StartsTensorList": _each(1, 3), "StridesTensorList": _each(-1, -2)}, {"axes": [1, 2], "ends": [-9, 0]}),
    ],
    "unslice": [
        Sample({"X": uniform(1, 3, 3), "Like": X, "StartsTensor": _ints(0, 0)}, {**CUT, "infer_flags": [1, 1]}),
        Sample({"X": uniform(2, 3, 2), "Like": X, "StridesTensorList": _each(-2)}, {"axes": [2], "starts": [3], "ends": [0]}),
    ],
    "gather": [
        Sample({"X": uniform(4, 3), "Index": _ints(2, 0, 2), "Axis": _ints(1)}),
        Sample({"X": uniform(4, 3), "Index": np.array(1), "Axis": np.array(-2)}),
    ],
    "gather_nd": [
        Sample({"X": uniform(2, 3), "Index": np.zeros((2, 0), "int64")}),
        Sample({"X": uniform(), "Index": np.zeros((1, 0), "int64")}),
    ],
    "scatter_nd_add": [Sample({"X": uniform(3), "Index": np.zeros((2, 0), "int64"), "Updates": uniform(2, 3)})],
    "ungather": [
        Sample({"X": uniform(4, 2), "Index": _ints(2, 2), "Like": uniform(4, 3), "Axis": _ints(1)}),
        Sample({"X": uniform(2, 3), "Index": _ints(3, 0), "Like": uniform(4, 3)}),
    ],
    "fill_constant": [
        Sample({"ShapeTensor": _ints(2, 3)}, {"value": 1.5, "dtype": "float64"}),
        Sample({"ShapeTensorList": _each(2, 0)}, {"shape": [2, -1], "dtype": "int64", "value": 3.0}),
        Sample({"ValueTensor": uniform(1)}, {"shape": [2, 2], "dtype": "float64"}, differentiate=()),
        Sample({"ValueTensor": uniform()}, {"shape": [], "dtype": "float64"}, differentiate=()),
    ],
    "fill_constant_batch_size_like": [
        Sample({"Input": uniform(4, 2)}, {"shape": [-1, 3], "value": 2.0}),
        Sample({"Input": uniform(4, 2)}, {"shape": [2, 7], "input_dim_idx": 1, "output_dim_idx": 1, "dtype": "int64"}),
        Sample({"Input": uniform(0, 2)}, {"shape": [1], "dtype": "float64"}),
    ],
    "crop_tensor": [
        _of(X, shape=[1, -1, 2], offsets=[1, 1, 0]),
        _of(X, shape=[2, 2, 2]),
        Sample({"X": X, "Shape": _ints(1, 2, 3), "Offsets": _ints(0, 1, 1)}),
        Sample({"X": X, "ShapeTensor": _each(1, 2, 3), "OffsetsTensor": _each(1, 0, 1)}, {"shape": [1, -1, 3]}),
    ],
    "crop": [
        _of(X, shape=[1, 2, 2], offsets=[1, 1, 0]),
        Sample({"X": X, "Y": uniform(1, 2, 3), "Offsets": _ints(0, 1, 1)}),
    ],
    "uncrop": [
        Sample({"X": uniform(1, 2, 2), "Like": X}, {"offsets": [1, 1, 0]}),
        Sample({"X": uniform(1, 2, 2), "Like": X, "Offsets": _ints(1, 1, 0)}),
        Sample({"X": uniform(1, 2, 2), "Like": X, "OffsetsTensor": _each(0, 0, 2)}),
    ],
    "set_value": [
        Sample({"Input": X, "ValueTensor": uniform(2, 3, 2)}, SET),
        Sample({"Input": X, "ValueTensor": uniform(3, 1)}, SET),
        Sample({"Input": X, "ValueTensor": uniform(3, 4)}, ONE_ROW),
        Sample({"Input": X, "ValueTensor": uniform(1, 3, 4)}, {**ONE_ROW, "none_axes": [0]}),
        Sample({"Input": X, "ValueTensor": uniform(3, 1, 4)}, {**ONE_ROW, "none_axes": [2]}),
        Sample({"Input": X}, {**ONE_ROW, "fp32_values": [1.0, 2.0, 3.0, 4.0], "shape": [4], "dtype": "float64"}),
        Sample(
            {"Input": X, "ValueTensor": uniform(), "StartsTensorList": _each(1), "EndsTensorList": _each(3), "StepsTensorList": _each(1)},
            {"axes": [1]},
        ),
    ],
    "unbind": [_of(X), _of(X, axis=-2), _of(uniform(2, 0), axis=0)],
    "reverse": [_of(X, axis=[0]), _of(X, axis=[1, -1])],
    "pad2d": [
        *(_of(IMAGE, paddings=p, mode=m, pad_value=0.5) for m, p in MODES_2D),
        *(_of(LAST_IMAGE, paddings=p, mode=m, data_format="NHWC") for m, p in MODES_2D),
        Sample({"X": IMAGE, "Paddings": np.array([2, 1, 0, 1], "int32")}, {"mode": "reflect"}),
        _of(uniform(0, 2, 3, 2), paddings=[1, 1, 0, 0], mode="edge"),
    ],
    "unpad2d": [
        *(Sample({"X": uniform(1, 2, 4, 4), "Like": IMAGE}, {"paddings": p, "mode": m}) for m, p in MODES_2D),
        Sample({"X": uniform(1, 2, 5, 2), "Like": IMAGE, "Paddings": _ints(1, 1, 0, 0)}, {"mode": "reflect"}),
    ],
    "pad3d": [
        *(_of(VOLUME, paddings=p, mode=m, value=-1.0) for m, p in MODES_3D),
        *(_of(LAST_VOLUME, paddings=p, mode=m, data_format="NDHWC") for m, p in MODES_3D),
        Sample({"X": VOLUME, "Paddings": _ints(0, 1, 1, 0, 1, 1)}, {"mode": "circular"}),
    ],
    "unpad3d": [
        *(Sample({"X": uniform(1, 1, 3, 5, 4), "Like": VOLUME}, {"paddings": p, "mode": m}) for m, p in MODES_3D),
        Sample({"X": uniform(1, 1, 2, 4, 2), "Like": VOLUME, "Paddings": _ints(0, 0, 0, 1, 0, 0)}, {"mode": "replicate"}),
    ],
}
