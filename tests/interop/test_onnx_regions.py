"""Boxes in windows and moved convolutions, read from ONNX: what onnxruntime computes; and their gradients written back, run there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphad.interop import onnx as ours
from graphad.types import Array

onnx = pytest.importorskip("onnx", reason="the onnx package, which makes the models, is not installed: pip install 'graphad[onnx-tests]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'graphad[onnx-tests]'")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 2, 6, 7)).astype("float32")
BOXES = np.array([[0.4, 0.2, 4.6, 5.1], [2.2, 1.4, 6.3, 3.3], [-1.2, 0.5, 3.1, 8.4], [5.0, 4.0, 4.5, 3.0]], "float32")
IMAGES = np.array([2, 0, 2, 1], "int64")  # in no order
KERNEL = RNG.normal(size=(4, 1, 2, 3)).astype("float32")
OFFSETS = RNG.uniform(-1.5, 1.5, size=(3, 24, 4, 3)).astype("float32")
MASK = RNG.normal(size=(3, 12, 4, 3)).astype("float32")


def _model(type: str, feeds: dict[str, Array], opset: int, attrs: dict[str, Any]) -> bytes:
    infos = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for name, a in feeds.items()]
    node = onnx.helper.make_node(type, list(feeds), ["y"], **attrs)
    graph = onnx.helper.make_graph([node], "g", infos, [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None] * 4)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
    return model.SerializeToString()  # type: ignore[no-any-return]


def _compare(data: bytes, feeds: dict[str, Array], tolerance: float = 1e-5) -> None:
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    expected = session.run(None, {name: feeds[name] for name in names})
    for got, wanted in zip(ours.load(data).run(feeds), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("aligned", ["half_pixel", "output_half_pixel"])
def test_averages_of_boxes(ratio: int, aligned: str) -> None:
    attrs = {
        "output_height": 2,
        "output_width": 3,
        "sampling_ratio": ratio,
        "spatial_scale": 0.8,
        "coordinate_transformation_mode": aligned,
    }
    feeds = {"x": X, "boxes": BOXES, "images": IMAGES}
    _compare(_model("RoiAlign", feeds, 16, attrs), feeds)


def test_largest_samples_of_boxes() -> None:
    feeds = {"x": X, "boxes": BOXES, "images": IMAGES}
    _compare(_model("RoiAlign", feeds, 16, {"mode": "max", "output_height": 2, "output_width": 3, "sampling_ratio": 2}), feeds)


def test_largest_elements_of_boxes() -> None:
    feeds = {"x": X, "boxes": np.concatenate([IMAGES[:, None].astype("float32"), BOXES], axis=1)}
    _compare(_model("MaxRoiPool", feeds, 16, {"pooled_shape": [2, 3], "spatial_scale": 0.9}), feeds)


@pytest.mark.parametrize("masked", [False, True])
def test_gradients_of_a_moved_convolution_written_back(masked: bool) -> None:
    attrs = {"pads": [0, 1, 1, 0], "strides": [2, 2], "group": 4, "offset_group": 2, "dilations": [1, 2]}
    x = np.concatenate([X, X[:, ::-1]], axis=1)[:, :, :, :6]
    feeds = {"x": x, "w": KERNEL, "offset": OFFSETS[:, :, :3, :2], "": np.zeros(0, "float32"), "mask": MASK[:, :, :3, :2]}
    feeds = {name: array for name, array in feeds.items() if masked or name in ("x", "w", "offset")}
    infos = {name: array for name, array in feeds.items() if name}
    node = onnx.helper.make_node("DeformConv", list(feeds), ["y"], **attrs)
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape) for name, array in infos.items()]
    graph = onnx.helper.make_graph([node], "g", values, [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None] * 4)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=10)
    gradients = ours.gradients(ours.load(model.SerializeToString()))
    assert len(gradients.gradient_names) == len(infos)
    session = onnxruntime.InferenceSession(ours.saving.as_message(gradients, 18).SerializeToString(), providers=["CPUExecutionProvider"])
    for got, expected in zip(gradients.run(infos), session.run(gradients.fetch_names, infos), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
