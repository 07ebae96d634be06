"""Samples of resizing, sampling and rearranging images."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.ops.sample import Sample, uniform
from graphad.testing.samples.pool import distinct

LINE, IMAGE, VOLUME = uniform(1, 2, 3), uniform(1, 2, 3, 2), uniform(1, 1, 2, 2, 3)
WINDOWS: dict[str, Any] = {"kernel_sizes": [2, 2], "strides": [1, 2], "paddings": [0, 1, 1, 0], "dilations": [1, 1]}
BORDER: dict[str, Any] = {"padding_mode": "border", "align_corners": False}
POINTS = uniform(1, 1, 2, 2, low=-0.9, high=0.9, seed=3)
SQUARE: dict[str, Any] = {"ksize": [2, 2], "strides": [2, 1], "paddings": [1, 0]}


def named(method: str, **attrs: Any) -> dict[str, Any]:
    """Attributes that say the method too, as Fluid's programs do."""
    return {"interp_method": method, **attrs}


SAMPLES: dict[str, list[Sample]] = {
    "linear_interp": [
        Sample({"X": LINE}, named("linear", out_w=5)),
        Sample({"X": LINE}, {"scale": 2.0, "align_corners": False, "align_mode": 0}),
    ],
    "linear_interp_v2": [
        Sample({"X": uniform(1, 3, 2)}, {"out_w": 4, "data_layout": "NHWC"}),
        Sample({"X": LINE}, {"scale": [1.5], "align_corners": False}),
    ],
    "bilinear_interp": [
        Sample({"X": IMAGE}, {"out_h": 4, "out_w": 3}),
        Sample({"X": IMAGE}, {"scale": 1.7, "align_corners": False}),
        Sample({"X": IMAGE, "OutSize": np.array([2, 5], "int32")}, {"align_corners": False, "align_mode": 0}),
        Sample({"X": uniform(0, 2, 3, 2)}, {"out_h": 2, "out_w": 1}),
    ],
    "bilinear_interp_v2": [
        Sample({"X": IMAGE}, {"scale": [1.5, 2.0], "align_corners": False, "align_mode": 0}),
        Sample({"X": IMAGE, "SizeTensor": [np.array([4], "int32"), np.array([3], "int32")]}, {"scale": [3.0, 3.0]}),
        Sample({"X": IMAGE, "Scale": np.array([1.5])}, {"align_corners": False}, differentiate=("X",)),
    ],
    "nearest_interp": [
        Sample({"X": IMAGE}, {"out_h": 5, "out_w": 3}),
        Sample({"X": IMAGE}, {"out_h": 2, "out_w": 5, "align_corners": False}),
    ],
    "nearest_interp_v2": [
        Sample({"X": IMAGE}, {"scale": [2.0, 2.0], "align_corners": False}),
        Sample({"X": uniform(1, 2, 3, 2)}, {"out_h": 4, "out_w": 3, "data_layout": "NHWC"}),
    ],
    "bicubic_interp": [Sample({"X": IMAGE}, {"out_h": 4, "out_w": 3})],
    "bicubic_interp_v2": [Sample({"X": IMAGE}, {"scale": [2.0, 1.5], "align_corners": False})],
    "trilinear_interp": [Sample({"X": VOLUME}, {"out_d": 3, "out_h": 2, "out_w": 4})],
    "trilinear_interp_v2": [Sample({"X": VOLUME}, {"scale": [1.5], "align_corners": False, "align_mode": 0})],
    "resample": [
        Sample({"X": IMAGE, "Like": uniform(1, 2, 2, 3)}, differentiate=("X",)),
        Sample({"X": IMAGE, "Like": uniform(1, 2, 4, 3), "Scale": np.array([1.5])}, {"align_corners": False}, differentiate=("X",)),
    ],
    "resample_spread": [Sample({"X": uniform(1, 2, 2, 3), "Like": IMAGE}, {"interp_method": "nearest"}, differentiate=("X",))],
    "pixel_shuffle": [
        Sample({"X": uniform(1, 4, 2, 1)}, {"upscale_factor": 2}),
        Sample({"X": uniform(2, 1, 2, 4)}, {"upscale_factor": 2, "data_format": "NHWC"}),
    ],
    "pixel_unshuffle": [
        Sample({"X": uniform(1, 2, 2, 4)}, {"downscale_factor": 2}),
        Sample({"X": uniform(1, 2, 4, 1)}, {"downscale_factor": 2, "data_format": "NHWC"}),
    ],
    "shuffle_channel": [Sample({"X": uniform(1, 6, 1, 2)}, {"group": 2}), Sample({"X": uniform(0, 4, 1, 2)}, {"group": 4})],
    "affine_channel": [
        Sample({"X": uniform(2, 3, 2, 1), "Scale": uniform(3), "Bias": uniform(3, seed=1)}),
        Sample({"X": uniform(2, 2, 1, 3), "Scale": uniform(3), "Bias": uniform(3, seed=1)}, {"data_layout": "NHWC"}),
    ],
    "unfold": [Sample({"X": uniform(1, 2, 3, 3)}, WINDOWS), Sample({"X": uniform(0, 2, 3, 3)}, WINDOWS)],
    "fold_like": [Sample({"X": uniform(1, 8, 6), "Like": uniform(1, 2, 3, 3)}, WINDOWS, differentiate=("X",))],
    "fold": [Sample({"X": uniform(1, 8, 6)}, {**WINDOWS, "output_sizes": [3, 3]})],
    "grid_sampler": [
        Sample({"X": uniform(1, 2, 3, 2), "Grid": POINTS}),
        Sample({"X": uniform(2, 1, 2, 2), "Grid": uniform(2, 1, 1, 2, low=-1.6, high=1.6, seed=5)}, BORDER),
        Sample({"X": uniform(1, 1, 2, 2), "Grid": uniform(1, 1, 3, 2, low=-1.6, high=1.6, seed=7)}, {"align_corners": False}),
    ],
    "affine_grid": [
        Sample({"Theta": uniform(2, 2, 3)}, {"output_shape": [2, 1, 2, 3]}),
        Sample({"Theta": uniform(1, 2, 3)}, {"output_shape": [1, 1, 1, 2], "align_corners": False}),
    ],
    "affine_grid_spread": [Sample({"X": uniform(2, 2, 3, 2)}, {"output_shape": [2, 1, 2, 3]})],
    "max_pool2d_with_index": [
        Sample({"X": distinct(1, 2, 4, 3)}, SQUARE),
        Sample({"X": distinct(1, 2, 3, 4)}, {"ksize": [2, 3], "adaptive": True}),
        Sample({"X": distinct(2, 1, 2, 3)}, {"ksize": [1, 1], "global_pooling": True}),
    ],
    "max_pool3d_with_index": [Sample({"X": distinct(1, 1, 2, 3, 2)}, {"ksize": [2, 2, 1], "strides": [1, 1, 2], "paddings": [0, 1, 0]})],
}
