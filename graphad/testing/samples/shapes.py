"""Samples of the operators in ``graphad.ops.shapes``."""

from __future__ import annotations

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.shared import PLACES_X, each, ints, with_, with_x

RESHAPED = [
    Sample({"X": PLACES_X, "Shape": ints(4, -1)}),
    Sample({"X": PLACES_X, "Shape": ints(4, 6)}, {"shape": [4, -1]}),
    Sample({"X": PLACES_X, "ShapeTensor": each(0, 6, 2)}, {"shape": [0, -1, -1]}),  # 0 copies the extent of X
    Sample({"X": PLACES_X, "ShapeTensor": each(24), "Shape": ints(2, 12)}),  # of three ways to say a shape the list wins, then the tensor
    Sample({"X": uniform(2, 0), "Shape": ints(0, 3)}, {"shape": [-1, 3], "allow_zero": True}),  # here 0 is an extent
    Sample({"X": uniform(2, 0)}, {"shape": [0, 3], "allow_zero": True}),
]


RESHAPES = [with_(PLACES_X, shape=[0, -1]), with_(PLACES_X, shape=[4, 6]), with_(uniform(1), shape=[]), with_(uniform(0, 3), shape=[-1, 3])]
TRANSPOSES = [with_(PLACES_X, axis=[2, 0, 1]), with_(uniform(2, 3), axis=[1, 0]), with_(uniform(), axis=[])]
SQUEEZES = [with_(uniform(1, 3, 1), axes=[0]), with_(uniform(1, 3, 1)), with_(uniform(1, 3, 1), axes=[-1, 1])]
UNSQUEEZES = [with_(uniform(2, 3), axes=[0, 2]), with_(uniform(2, 3), axes=[-1]), with_(uniform(), axes=[0])]
FLATTENS = [with_(PLACES_X), with_(PLACES_X, axis=2), with_(PLACES_X, axis=0), with_(uniform(0, 2, 3))]

SAMPLES: dict[str, list[Sample]] = {
    "size": [Sample({"Input": uniform(2, 3)})],
    "reshape2": [*RESHAPED, *RESHAPES],
    "reshape": [*RESHAPED, *RESHAPES],
    "expand_v2": [
        *[
            Sample({"X": uniform(3, 1), "Shape": ints(2, 3, 4)}),
            Sample({"X": uniform(3, 1), "expand_shapes_tensor": each(2, -1, 2)}, {"shape": [2, -1, -1]}),
        ],
        *[with_(uniform(3, 1), shape=[2, -1, 4]), with_(uniform(), shape=[2]), with_(uniform(1, 3), shape=[1, 3])],
    ],
    "tile": [
        *[
            Sample({"X": uniform(2, 3), "RepeatTimes": ints(2, 1)}),
            Sample({"X": uniform(3), "repeat_times_tensor": each(2, 2)}, {"repeat_times": [2, -1]}),
        ],
        *[with_(uniform(2, 3), repeat_times=[2, 1]), with_(uniform(3), repeat_times=[2, 2]), with_(uniform(2, 3), repeat_times=[3])],
    ],
    "untile": [
        *[
            Sample({"X": uniform(4, 3), "Like": uniform(2, 3), "RepeatTimes": ints(2, 1)}),
            Sample({"X": uniform(2, 6), "Like": uniform(3), "repeat_times_tensor": each(2, 2)}),
        ],
        *[
            Sample({"X": uniform(4, 3), "Like": uniform(2, 3)}, {"repeat_times": [2, 1]}),
            Sample({"X": uniform(2, 6), "Like": uniform(3)}, {"repeat_times": [2, 2]}),
        ],
    ],
    "expand": [
        with_x(uniform(2, 3), expand_times=[2, 1]),
        Sample({"X": uniform(2, 1), "ExpandTimes": ints(1, 3)}),
        Sample({"X": uniform(2, 1), "expand_times_tensor": each(2, 2)}, {"expand_times": [-1, 2]}),
        with_x(uniform(0, 2), expand_times=[2, 2]),
    ],
    **{
        op: [
            Sample(attrs={"shape": [2, 3], "dtype": "float64"}),
            Sample(attrs={"shape": [2, 3], "seed": 7}),
            Sample(attrs={"shape": []}),
            Sample(attrs={"shape": [0, 2], "dtype": "float16"}),
        ]
        for op in ("uniform_random", "gaussian_random", "truncated_gaussian_random")
    },
    "transpose2": TRANSPOSES,
    "transpose": TRANSPOSES,
    "squeeze2": SQUEEZES,
    "squeeze": SQUEEZES,
    "unsqueeze2": UNSQUEEZES,
    "unsqueeze": UNSQUEEZES,
    "flatten_contiguous_range": [
        with_(PLACES_X),
        with_(PLACES_X, start_axis=0, stop_axis=-1),
        with_(PLACES_X, start_axis=1, stop_axis=2),
        with_(uniform()),
    ],
    "flatten2": FLATTENS,
    "flatten": FLATTENS,
    "expand_as_v2": [
        Sample({"X": uniform(3, 1), "Y": uniform(2, 3, 4)}, differentiate=("X",)),
        with_(uniform(3, 1), target_shape=[2, 3, 4]),
    ],
    "flip": [with_(PLACES_X, axis=[0]), with_(PLACES_X, axis=[0, -1])],
    "roll": [with_(PLACES_X, shifts=[1], axis=[1]), with_(PLACES_X, shifts=[1, -2], axis=[0, 2]), with_(PLACES_X, shifts=[3])],
    "shape": [Sample({"Input": PLACES_X}), Sample({"Input": uniform()})],
}
