"""Samples of the operators in ``graphad.ops.conv``."""

from __future__ import annotations

from graphad.ops.sample import Sample, uniform

GROUPED: dict[str, object] = {"strides": [2, 1], "paddings": [1, 2], "dilations": [1, 2], "groups": 2}
UNEVEN: dict[str, object] = {"strides": [2, 2], "paddings": [0, 1, 2, 0]}  # above, below, left, right
SAME: dict[str, object] = {"strides": [2, 3], "padding_algorithm": "SAME"}  # an odd sum of paddings has the larger part at the end

CONV2D = [
    Sample({"Input": uniform(2, 3, 5, 4), "Filter": uniform(2, 3, 3, 2)}),
    Sample({"Input": uniform(2, 4, 5, 4), "Filter": uniform(6, 2, 3, 2), "Bias": uniform(6)}, GROUPED),
    Sample({"Input": uniform(1, 2, 6, 5), "Filter": uniform(3, 2, 3, 3)}, UNEVEN),
    Sample({"Input": uniform(1, 2, 6, 5), "Filter": uniform(3, 2, 3, 3)}, SAME),
    Sample({"Input": uniform(1, 2, 6, 5), "Filter": uniform(3, 2, 1, 1)}, {"padding_algorithm": "VALID", "paddings": [3, 3]}),  # not padded
    Sample({"Input": uniform(0, 2, 4, 4), "Filter": uniform(3, 2, 3, 3)}),
]
DEPTHWISE = [
    Sample({"Input": uniform(2, 3, 5, 4), "Filter": uniform(3, 1, 3, 2), "Bias": uniform(3)}, {"groups": 3}),
    # Two filters for a channel.
    Sample({"Input": uniform(1, 2, 5, 4), "Filter": uniform(4, 1, 2, 2)}, {"groups": 2, "strides": [2, 2], "paddings": [1, 1]}),
]


WINDOWS: dict[str, object] = {"kernel_sizes": [2, 2], "strides": [1, 2], "paddings": [0, 1, 1, 0], "dilations": [1, 1]}


GROUPED_VOLUMES: dict[str, object] = {"strides": [2, 1, 1], "paddings": [1, 0, 1], "dilations": [1, 1, 2], "groups": 2}
LAST: dict[str, object] = {"data_format": "NDHWC", "paddings": [0, 1, 0, 0, 1, 0]}
VOLUME, CUBE = uniform(1, 2, 3, 2, 3), uniform(2, 2, 2, 1, 2)

SAMPLES: dict[str, list[Sample]] = {
    "conv2d": CONV2D,
    "depthwise_conv2d": DEPTHWISE,
    "conv2d_backprop_input": [
        Sample({"Filter": uniform(2, 3, 3, 2), "X": uniform(2, 2, 3, 3), "Like": uniform(2, 3, 5, 4)}),
        Sample({"Filter": uniform(6, 2, 3, 2), "X": uniform(2, 6, 3, 6), "Like": uniform(2, 4, 5, 4)}, GROUPED),
        Sample({"Filter": uniform(3, 2, 3, 3), "X": uniform(1, 3, 3, 3), "Like": uniform(1, 2, 6, 5)}, UNEVEN),
        Sample({"Filter": uniform(3, 2, 3, 3), "X": uniform(1, 3, 3, 2), "Like": uniform(1, 2, 6, 5)}, SAME),
    ],
    "conv2d_backprop_filter": [
        Sample({"Input": uniform(2, 3, 5, 4), "X": uniform(2, 2, 3, 3), "Like": uniform(2, 3, 3, 2)}),
        Sample({"Input": uniform(2, 4, 5, 4), "X": uniform(2, 6, 3, 6), "Like": uniform(6, 2, 3, 2)}, GROUPED),
        Sample({"Input": uniform(1, 2, 6, 5), "X": uniform(1, 3, 3, 3), "Like": uniform(3, 2, 3, 3)}, UNEVEN),
    ],
    "conv2d_transpose": [
        Sample({"Input": uniform(2, 2, 3, 3), "Filter": uniform(2, 3, 3, 2)}),
        Sample(
            {"Input": uniform(2, 4, 3, 2), "Filter": uniform(4, 2, 3, 3), "Bias": uniform(4)},
            {"groups": 2, "strides": [2, 2], "paddings": [1, 0]},
        ),
        Sample({"Input": uniform(1, 2, 3, 3), "Filter": uniform(2, 1, 3, 3)}, {"strides": [2, 3], "output_padding": [1, 2]}),
        # Of the sizes that a convolution makes 3 x 3 of.
        Sample({"Input": uniform(1, 2, 3, 3), "Filter": uniform(2, 1, 3, 3)}, {"strides": [2, 2], "output_size": [8, 7]}),
    ],
    "unfold": [Sample({"X": uniform(1, 2, 3, 3)}, WINDOWS), Sample({"X": uniform(0, 2, 3, 3)}, WINDOWS)],
    "fold_like": [Sample({"X": uniform(1, 8, 6), "Like": uniform(1, 2, 3, 3)}, WINDOWS, differentiate=("X",))],
    "fold": [Sample({"X": uniform(1, 8, 6)}, {**WINDOWS, "output_sizes": [3, 3]})],
    "conv3d": [
        Sample({"Input": VOLUME, "Filter": CUBE}),
        Sample({"Input": uniform(1, 4, 3, 2, 3), "Filter": uniform(2, 2, 2, 2, 2)}, GROUPED_VOLUMES),
        Sample({"Input": uniform(1, 2, 2, 2, 1), "Filter": uniform(1, 1, 2, 2, 1)}, LAST),
        Sample({"Input": uniform(0, 2, 3, 2, 3), "Filter": CUBE}, {"padding_algorithm": "SAME"}),
    ],
    "conv3d_backprop_input": [
        Sample({"Filter": CUBE, "X": uniform(1, 2, 2, 2, 2), "Like": VOLUME}),
        Sample({"Filter": uniform(2, 1, 2, 2, 1), "X": uniform(1, 2, 1, 3, 2), "Like": uniform(1, 2, 2, 2, 1)}, LAST),
    ],
    "conv3d_backprop_filter": [
        Sample({"Input": VOLUME, "X": uniform(1, 2, 2, 2, 2), "Like": CUBE}),
        Sample({"Input": uniform(1, 2, 2, 2, 1), "X": uniform(1, 2, 1, 3, 2), "Like": uniform(2, 1, 2, 2, 1)}, LAST),
    ],
    "conv3d_transpose": [
        Sample({"Input": uniform(1, 2, 2, 1, 2), "Filter": uniform(2, 1, 2, 2, 1)}, {"strides": [2, 1, 1], "output_padding": [1, 0, 0]}),
        Sample({"Input": uniform(1, 1, 2, 1, 2), "Filter": uniform(2, 1, 2, 1, 2)}, {"groups": 2, "data_format": "NDHWC"}),
    ],
    "depthwise_conv2d_transpose": [
        Sample({"Input": uniform(1, 3, 2, 3), "Filter": uniform(3, 1, 2, 2), "Bias": uniform(3)}, {"groups": 3, "strides": [2, 1]}),
        Sample({"Input": uniform(2, 2, 2, 2), "Filter": uniform(2, 2, 2, 2), "Bias": uniform(4)}, {"groups": 2, "data_format": "NHWC"}),
    ],
}
