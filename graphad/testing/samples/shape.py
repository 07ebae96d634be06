"""Samples of the operators that rearrange, cut and join tensors."""

from __future__ import annotations

from graphad.ops.sample import Array, Sample, uniform


def _with(x: Array, **attrs: object) -> Sample:
    return Sample({"X": x}, attrs)


X = uniform(2, 3, 4)
RESHAPES = [_with(X, shape=[0, -1]), _with(X, shape=[4, 6]), _with(uniform(1), shape=[]), _with(uniform(0, 3), shape=[-1, 3])]
TRANSPOSES = [_with(X, axis=[2, 0, 1]), _with(uniform(), axis=[])]
SQUEEZES = [_with(uniform(1, 3, 1), axes=[0]), _with(uniform(1, 3, 1)), _with(uniform(1, 3, 1), axes=[-1, 1])]
UNSQUEEZES = [_with(uniform(2, 3), axes=[0, 2]), _with(uniform(2, 3), axes=[-1]), _with(uniform(), axes=[0])]
FLATTENS = [_with(X), _with(X, axis=2), _with(X, axis=0), _with(uniform(0, 2, 3))]
THREE = [uniform(2, 1), uniform(2, 3), uniform(2, 2)]
PARTS = {"axes": [0, 2], "starts": [0, -3], "ends": [1, 100]}

SAMPLES: dict[str, list[Sample]] = {
    "reshape2": RESHAPES,
    "reshape": RESHAPES,
    "transpose2": TRANSPOSES,
    "transpose": TRANSPOSES,
    "squeeze2": SQUEEZES,
    "squeeze": SQUEEZES,
    "unsqueeze2": UNSQUEEZES,
    "unsqueeze": UNSQUEEZES,
    "flatten_contiguous_range": [_with(X), _with(X, start_axis=0, stop_axis=-1), _with(X, start_axis=1, stop_axis=2), _with(uniform())],
    "flatten2": FLATTENS,
    "flatten": FLATTENS,
    "expand_v2": [_with(uniform(3, 1), shape=[2, -1, 4]), _with(uniform(), shape=[2]), _with(uniform(1, 3), shape=[1, 3])],
    "expand_as_v2": [
        Sample({"X": uniform(3, 1), "Y": uniform(2, 3, 4)}, differentiate=("X",)),
        _with(uniform(3, 1), target_shape=[2, 3, 4]),
    ],
    "tile": [_with(uniform(2, 3), repeat_times=[2, 1]), _with(uniform(3), repeat_times=[2, 2]), _with(uniform(2, 3), repeat_times=[3])],
    "untile": [
        Sample({"X": uniform(4, 3), "Like": uniform(2, 3)}, {"repeat_times": [2, 1]}),
        Sample({"X": uniform(2, 6), "Like": uniform(3)}, {"repeat_times": [2, 2]}),
    ],
    "flip": [_with(X, axis=[0]), _with(X, axis=[0, -1])],
    "roll": [_with(X, shifts=[1], axis=[1]), _with(X, shifts=[1, -2], axis=[0, 2]), _with(X, shifts=[3])],
    "shape": [Sample({"Input": X}), Sample({"Input": uniform()})],
    "concat": [
        Sample({"X": THREE}, {"axis": 1}),
        Sample({"X": THREE}, {"axis": -1, "num": 0, "sections": [1, 3, 2]}),
        Sample({"X": [uniform(0, 3), uniform(2, 3)]}),
    ],
    "split_like": [Sample({"X": uniform(2, 6), "Like": THREE}, {"axis": 1}), Sample({"X": uniform(2, 6), "Like": THREE}, {"axis": -1})],
    "split": [
        _with(uniform(2, 6), num=3, axis=1),
        _with(uniform(2, 6), sections=[1, -1, 2], axis=-1),
        _with(uniform(3, 2), sections=[3, 0]),
    ],
    "stack": [
        Sample({"X": [uniform(2, 3), uniform(2, 3, seed=1)]}, {"axis": 1}),
        Sample({"X": [uniform(), uniform(seed=1)]}, {"axis": -1}),
    ],
    "unstack": [_with(X, axis=1, num=3), _with(uniform(2))],
    "slice": [
        Sample({"Input": X}, PARTS),
        Sample({"Input": X}, {**PARTS, "decrease_axis": [0], "infer_flags": [1, 1]}),
        Sample({"Input": uniform(2)}, {"axes": [0], "starts": [-1], "ends": [2**31 - 1], "decrease_axis": [0]}),
        Sample({"Input": X}, {"axes": [1], "starts": [2], "ends": [1]}),
    ],
    "strided_slice": [
        Sample({"Input": X}, {"axes": [1, 2], "starts": [0, 3], "ends": [3, -100], "strides": [2, -1]}),
        Sample({"Input": X}, {"axes": [2], "starts": [-1], "ends": [0], "strides": [-2]}),
    ],
    "unslice": [
        Sample({"X": uniform(1, 3, 3), "Like": X}, PARTS),
        Sample({"X": uniform(3, 3), "Like": X}, {**PARTS, "decrease_axis": [0]}),
        Sample({"X": uniform(2, 3, 2), "Like": X}, {"axes": [2], "starts": [3], "ends": [0], "strides": [-2]}),
    ],
    "pad": [
        _with(uniform(2, 3), paddings=[1, 0, 2, 3], pad_value=0.5),
        _with(uniform(), paddings=[]),
        _with(uniform(0, 2), paddings=[1, 1, 0, 0]),
    ],
}
