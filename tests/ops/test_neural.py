"""Operators of neural networks: every way a kernel takes through its data, what they refuse, and what is known of their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphad.errors import InvalidValue, ShapeError
from graphad.ops import conv, lookup
from graphad.ops.sample import uniform
from graphad.types import Array, TensorType

Shape = tuple[int, ...]

# -- every way through a convolution -------------------------------------------------------------

WAYS: dict[str, tuple[Shape, Shape, dict[str, Any]]] = {
    "lines": ((5, 3, 8, 9), (4, 3, 3, 3), {"paddings": [1, 1]}),
    "lines, dilated groups": ((5, 4, 9, 8), (6, 2, 2, 3), {"dilations": [2, 1], "groups": 2}),
    "gaps": ((5, 3, 9, 9), (4, 3, 3, 3), {"strides": [2, 2], "paddings": [1, 0]}),
    "folded": ((5, 3, 4, 4), (30, 3, 3, 3), {"paddings": [1, 1]}),
    "folded groups": ((5, 4, 3, 3), (24, 2, 2, 2), {"groups": 2}),
    "pointwise": ((5, 3, 4, 4), (6, 3, 1, 1), {}),
    "pointwise, gaps, groups": ((5, 4, 5, 4), (6, 2, 1, 1), {"strides": [2, 3], "groups": 2}),
    "depthwise": ((3, 4, 6, 5), (8, 1, 3, 2), {"groups": 4, "paddings": [1, 0]}),
    "one window": ((2, 3, 3, 3), (4, 3, 3, 3), {}),
}


def correlated(x: Array, w: Array, *, strides: list[int], paddings: list[int], dilations: list[int], groups: int) -> Array:
    """The convolution by its definition, one window after the other."""
    x = np.pad(x, [(0, 0), (0, 0), (paddings[0],) * 2, (paddings[1],) * 2])
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    counts = [(e - r) // s + 1 for e, r, s in zip(x.shape[2:], reach, strides, strict=True)]
    out = np.zeros((len(x), len(w), *counts))
    channels, features = w.shape[1], len(w) // groups
    for f, i, j in np.ndindex(len(w), *counts):
        group = f // features
        top, left = i * strides[0], j * strides[1]
        part = x[:, group * channels : (group + 1) * channels, top : top + reach[0] : dilations[0], left : left + reach[1] : dilations[1]]
        out[:, f, i, j] = (part * w[f]).sum((1, 2, 3))
    return out


@pytest.mark.parametrize("memory", [1, 1 << 22])
@pytest.mark.parametrize("way", WAYS)
def test_convolutions_are_what_their_definition_says(way: str, memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    image, filter_, attrs = WAYS[way]
    monkeypatch.setattr(conv, "COLUMN_BYTES", memory)
    x, w = uniform(*image), uniform(*filter_, seed=1)
    whole: dict[str, Any] = {"strides": [1, 1], "paddings": [0, 0], "dilations": [1, 1], "groups": 1, **attrs}
    expected = correlated(x, w, **whole)
    np.testing.assert_allclose(lookup("conv2d")(x, w, **attrs), expected, rtol=1e-10, atol=1e-12)
    d = uniform(*expected.shape, seed=2)
    inner = float(np.sum(expected * d))
    to_input, to_filter = lookup("conv2d_backprop_input")(w, d, x, **attrs), lookup("conv2d_backprop_filter")(x, d, w, **attrs)
    np.testing.assert_allclose([np.sum(to_input * x), np.sum(to_filter * w)], inner, rtol=1e-10)
    other = uniform(*image, seed=3)
    np.testing.assert_allclose(np.sum(to_input * other), np.sum(correlated(other, w, **whole) * d), rtol=1e-10)
    other = uniform(*filter_, seed=4)
    np.testing.assert_allclose(np.sum(to_filter * other), np.sum(correlated(x, other, **whole) * d), rtol=1e-10)


def test_results_do_not_share_the_memory_kept_between_calls() -> None:
    x, w = uniform(2, 3, 8, 8), uniform(4, 3, 3, 3)
    first = lookup("conv2d")(x, w)
    kept = first.copy()
    lookup("conv2d")(-x, w)
    lookup("conv2d_backprop_input")(w, first, x)
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("op", ["conv2d", "pool2d", "conv2d_transpose"])
def test_channels_may_be_last(op: str) -> None:
    attrs: dict[str, Any] = {"strides": [2, 1], "paddings": [1, 0]}
    others = [] if op == "pool2d" else [uniform(4, 4, 3, 2)]
    attrs |= {"pooling_type": "avg", "ksize": [3, 2]} if op == "pool2d" else {}
    x = uniform(2, 4, 5, 6)
    first = lookup(op)(x, *others, **attrs)
    last = lookup(op)(np.moveaxis(x, 1, -1), *others, **attrs, data_format="NHWC")
    np.testing.assert_allclose(np.moveaxis(last, -1, 1), first, rtol=1e-12)


def test_softmax_of_many_lines_is_that_of_each() -> None:
    x = uniform(700, 200)
    np.testing.assert_array_equal(lookup("softmax")(x)[300:301], lookup("softmax")(x[300:301]))


# -- known values --------------------------------------------------------------------------------


def test_the_index_of_a_maximum_is_its_number_in_the_channel() -> None:
    x = np.array([[[[1.0, 1.0, 0.0], [1.0, 5.0, 7.0]]]])
    out, mask = lookup("max_pool2d_with_index").kernel(x, ksize=[2, 2], strides=[1, 1])
    assert out.tolist() == [[[[5.0, 7.0]]]]
    assert (mask.tolist(), mask.dtype) == ([[[[4, 5]]]], np.int32)


def test_the_first_of_equal_maxima_gets_the_cotangent() -> None:
    back = lookup("pool2d_scatter_max")(np.ones((1, 1, 2, 2)), np.ones((1, 1, 1, 1)), pooling_type="max", ksize=[2, 2])
    assert back.tolist() == [[[[1.0, 0.0], [0.0, 0.0]]]]


def test_resizing_to_the_same_extents_changes_nothing() -> None:
    x = uniform(2, 3, 4, 5)
    for method in ("bilinear", "nearest", "bicubic"):
        for aligned in (True, False):
            attrs = {"out_h": 4, "out_w": 5, "align_corners": aligned, "align_mode": 0}
            np.testing.assert_allclose(lookup(f"{method}_interp")(x, **attrs), x, rtol=1e-12, err_msg=f"{method} {aligned}")


def test_a_label_that_counts_for_nothing_costs_nothing() -> None:
    loss, weight = lookup("nll_loss")(uniform(2, 3), np.array([-100, -100]))
    assert (float(loss), float(weight)) == (0.0, 0.0)


def test_causal_attention_of_the_first_is_its_own_value() -> None:
    q, v = uniform(1, 3, 1, 2), uniform(1, 3, 1, 2, seed=1)
    np.testing.assert_allclose(lookup("flash_attn")(q, q, v, causal=True)[0, 0], v[0, 0])


# -- refusals ------------------------------------------------------------------------------------

IMAGE, FLOAT = (2, 4, 6, 6), "float32"
WRONG: list[tuple[str, list[Shape], dict[str, Any], str]] = [
    ("conv2d", [IMAGE, (4, 3, 3, 3)], {}, "groups=1 of 3 channels"),
    ("conv2d", [IMAGE, (4, 4, 3, 3)], {"data_format": "CHWN"}, "data_format='CHWN'"),
    ("conv2d", [IMAGE, (4, 4, 3, 3)], {"strides": [1, 0]}, "strides"),
    ("conv2d", [IMAGE, (4, 4, 7, 7)], {}, "does not fit"),
    ("conv3d", [IMAGE, (4, 4, 3, 3)], {}, "five axes"),
    ("conv3d", [(1, 2, 3, 3, 3), (2, 2, 2, 2, 2)], {"paddings": [1, 1]}, "paddings"),
    ("conv2d_transpose", [IMAGE, (4, 4, 3, 3)], {"padding_algorithm": "SAME"}, "SAME"),
    ("conv2d_transpose", [IMAGE, (3, 4, 3, 3)], {}, "first axis"),
    ("conv2d_transpose", [IMAGE, (4, 4, 3, 3)], {"output_padding": [1]}, "output_padding"),
    ("conv2d_transpose", [IMAGE, (4, 4, 3, 3)], {"output_size": [20, 20]}, "windows"),
    ("pool2d", [IMAGE], {"pooling_type": "min", "ksize": [2, 2]}, "pooling_type"),
    ("pool2d", [IMAGE], {"pooling_type": "max", "ksize": [2, 2], "paddings": [2, 2]}, "padding only"),
    ("pool3d", [IMAGE], {"pooling_type": "max", "ksize": [2, 2, 2]}, "five axes"),
    ("bilinear_interp", [IMAGE], {}, "cannot be resized"),
    ("bilinear_interp", [IMAGE], {"out_h": 2, "out_w": 2, "interp_method": "nearest"}, "interp_method"),
    ("linear_interp", [IMAGE], {"out_w": 2}, "four axes|three axes"),
    ("pixel_shuffle", [IMAGE], {"upscale_factor": 3}, "does not divide"),
    ("pixel_unshuffle", [IMAGE], {"downscale_factor": 4}, "does not divide"),
    ("shuffle_channel", [IMAGE], {"group": 3}, "does not divide"),
    ("shuffle_channel", [(2, -1, 6, 6)], {"group": 2}, "known"),
    ("affine_channel", [IMAGE, (3,), (4,)], {}, "4 values"),
    ("fold", [(1, 8, 5)], {"output_sizes": [3, 3], "kernel_sizes": [2], "strides": [1], "paddings": [0], "dilations": [1]}, "windows"),
    ("grid_sampler", [IMAGE, (2, 3, 3, 2)], {"mode": "cubic"}, "bilinear, bicubic or nearest"),
    ("grid_sampler", [IMAGE, (2, 3, 3, 2)], {"padding_mode": "wrap"}, "zeros, border or reflection"),
    ("grid_sampler", [IMAGE, (2, 3, 3, 3)], {}, "points"),
    ("affine_grid", [(2, 3, 3)], {"output_shape": [2, 1, 4, 4]}, "2, 3"),
    ("lrn", [IMAGE], {"n": 4}, "odd"),
    ("lstm_unit", [(2, 8), (2, 3)], {}, "4 D"),
    ("gru_unit", [(2, 6), (2, 2), (2, 5)], {}, "3 D"),
    ("gru_unit", [(2, 6), (2, 2), (2, 6)], {"activation": 4}, "relu"),
    ("flash_attn", [(1, 2, 3, 4)] * 3, {"dropout": 0.5}, "dropout"),
    ("flash_attn", [(1, -1, 3, 4)] * 3, {"causal": True}, "known lengths"),
    ("flash_attn", [(1, 2, 3, 4), (1, 2, 1, 4), (1, 2, 1, 4)], {}, "agree"),
    ("hinge_loss", [(2, 1), (3, 1)], {}, "one shape"),
    ("cos_sim", [(2, 3), (3, 3)], {}, "rows"),
    ("celu", [IMAGE], {"alpha": 0.0}, "divides"),
]


@pytest.mark.parametrize(("op", "shapes", "attrs", "message"), WRONG, ids=[f"{w[0]}-{i}" for i, w in enumerate(WRONG)])
def test_inference_refuses(op: str, shapes: list[Shape], attrs: dict[str, Any], message: str) -> None:
    definition = lookup(op)
    required = [slot.name for slot in definition.inputs.values() if not slot.optional]
    inputs = {slot: [TensorType(shape, FLOAT)] for slot, shape in zip(required, shapes, strict=True)}
    with pytest.raises(ShapeError, match=message):
        definition.infer_types(inputs, attrs)


@pytest.mark.parametrize("op", ["nll_loss", "cross_entropy2", "bpr_loss"])
def test_a_label_that_is_no_class_is_refused(op: str) -> None:
    label = np.array([0, 3]) if op == "nll_loss" else np.array([[0], [3]])
    with pytest.raises(InvalidValue, match=r"Label\[1(, 0)?\] is 3, .* \[0, 3\) is the range"):
        lookup(op)(uniform(2, 3, low=0.1), label)


def test_labels_of_the_modified_huber_loss_are_zero_or_one() -> None:
    with pytest.raises(InvalidValue, match="0 and 1"):
        lookup("modified_huber_loss")(uniform(2, 1), np.array([[0.0], [-1.0]]))
