"""Samples of the operators in ``graphad.ops.vision``."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, uniform

LINE, IMAGE, VOLUME = uniform(1, 2, 3), uniform(1, 2, 3, 2), uniform(1, 1, 2, 2, 3)
BORDER: dict[str, object] = {"padding_mode": "border", "align_corners": False}
POINTS = uniform(1, 1, 2, 2, low=-0.9, high=0.9, seed=3)  # all within the image, which is [-1, 1]


def named(method: str, **attrs: object) -> dict[str, object]:
    """Attributes that say the method too, as Fluid's programs do."""
    return {"interp_method": method, **attrs}


BOXES = np.array([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.1], [2.0, 2.0, 1.5, 1.0]]])  # the last with its corners exchanged
FAR = uniform(1, 1, 1, 2, low=-4.0, high=4.0, seed=11)  # from so far outside points are reflected more than once

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
        # A size wins over a scale.
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
    "grid_sampler": [
        Sample({"X": uniform(1, 2, 3, 2), "Grid": POINTS}),
        Sample({"X": uniform(2, 1, 2, 2), "Grid": uniform(2, 1, 1, 2, low=-1.6, high=1.6, seed=5)}, BORDER),
        Sample({"X": uniform(1, 1, 2, 2), "Grid": uniform(1, 1, 3, 2, low=-1.6, high=1.6, seed=7)}, {"align_corners": False}),
        Sample({"X": uniform(1, 1, 1, 3), "Grid": FAR}, {"padding_mode": "reflection"}),
        Sample({"X": uniform(1, 1, 1, 3), "Grid": FAR}, {"mode": "nearest", "padding_mode": "reflection", "align_corners": False}),
        Sample({"X": uniform(1, 1, 2, 3), "Grid": POINTS}, {"mode": "bicubic"}),
        Sample({"X": uniform(1, 1, 2, 3), "Grid": POINTS[:, :, :1]}, {"mode": "bicubic", "padding_mode": "reflection"}),
        Sample({"X": uniform(1, 1, 2, 1, 3), "Grid": uniform(1, 1, 2, 1, 3, low=-0.9, high=0.9, seed=9)}, BORDER),
    ],
    "affine_grid": [
        Sample({"Theta": uniform(2, 2, 3)}, {"output_shape": [2, 1, 2, 3]}),
        Sample({"Theta": uniform(1, 3, 4)}, {"output_shape": [1, 1, 2, 1, 3], "align_corners": False}),
        Sample({"Theta": uniform(1, 2, 3)}, {"output_shape": [1, 1, 1, 2], "align_corners": False}),
    ],
    "affine_grid_spread": [Sample({"X": uniform(2, 2, 3, 2)}, {"output_shape": [2, 1, 2, 3]})],
    "non_max_suppression": [
        Sample({"Boxes": BOXES, "Scores": np.array([[[0.9, 0.8, 0.7]]])}, {"most": 3, "iou_threshold": 0.5}),
        Sample({"Boxes": BOXES, "Scores": np.array([[[0.2, 0.8, 0.7], [0.5, 0.1, 0.6]]])}, {"most": 1, "score_threshold": 0.55}),
        Sample({"Boxes": BOXES, "Scores": np.array([[[0.9, 0.8, 0.7]]])}, {"most": 2, "center": True}),
    ],
}
