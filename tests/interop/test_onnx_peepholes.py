"""Nodes that are joined where ONNX has one for them, and those that are not; onnxruntime computes what graphad does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.interop import onnx
from tests.onnx_models import Infos, model, node

runtime = pytest.importorskip("tests.interop.test_onnx_written", reason="onnx and onnxruntime are not installed: graphad[onnx-tests]")
proto: Any = pytest.importorskip("onnx")
RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(size=shape).astype("float32")


X: Infos = {"x": ("float32", ["n", 3, "h", "w"])}
ROWS: Infos = {"x": ("float32", ["n", 3])}
SIGNALS: Infos = {"x": ("float32", ["n", 3, "t"])}
IMAGE, ROW, SIGNAL = normal(2, 3, 6, 5), normal(4, 3), normal(2, 3, 7)
BOUNDS = {"l": np.array(-0.5, "float32"), "h": np.array(0.25, "float32")}
INDEX = np.array([[0, -1, 2], [4, -5, 3]])
CONV = {"w": normal(4, 3, 3, 3), "b": normal(4)}
SPREAD, FILTERS = {"w": normal(3, 4, 3, 2), "b": normal(4)}, {"w": normal(4, 3, 3), "b": normal(4)}
MIXED = {"w": normal(3, 2), "b": normal(2), "c": normal(4, 2), "d": normal(1, 1, 2)}
# What is read, what it is fed, and the nodes that are written of it (constants are none).
MODELS: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "a convolution and its bias": (model([node("Conv", "x w b", "y")], X, ["y"], CONV), {"x": IMAGE}, "Conv"),
    "its extents are read too": (
        model([node("Conv", "x w b", "c"), node("Shape", "c", "s"), node("Tanh", "c", "y")], X, ["y", "s"], CONV),
        {"x": IMAGE},
        "Conv Tanh Shape",
    ),
    "a transposed convolution": (
        model([node("ConvTranspose", "x w b", "y", strides=[2, 2], output_padding=[1, 0])], X, ["y"], SPREAD),
        {"x": IMAGE},
        "ConvTranspose",
    ),
    "a convolution of signals": (
        model([node("Conv", "x w b", "c", pads=[1, 1], strides=[2]), node("Relu", "c", "y")], SIGNALS, ["y"], FILTERS),
        {"x": SIGNAL},
        "Conv Relu",
    ),
    "a transposed one": (
        model([node("ConvTranspose", "x w", "y", strides=[2])], SIGNALS, ["y"], {"w": normal(3, 4, 3)}),
        {"x": SIGNAL},
        "ConvTranspose",
    ),
    "windows as many as elements": (
        model([node("MaxPool", "x", "y", kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER")], X, ["y"]),
        {"x": IMAGE},
        "MaxPool",
    ),
    "a convolution of as many": (model([node("Conv", "x w", "y", auto_pad="SAME_UPPER")], X, ["y"], CONV), {"x": IMAGE}, "Conv"),
    "a product and a vector": (model([node("Gemm", "x w b", "y")], ROWS, ["y"], MIXED), {"x": ROW}, "Gemm"),
    "a product and a matrix of its extents": (
        model([node("MatMul", "x w", "p"), node("Add", "c p", "y")], {"x": ("float32", [4, 3])}, ["y"], MIXED),
        {"x": ROW},
        "Gemm",
    ),
    "a product that is turned": (
        model([node("Gemm", "x w b", "y", transB=1)], ROWS, ["y"], {"w": normal(5, 3), "b": normal(5)}),
        {"x": ROW},
        "Gemm",
    ),
    "a product and more rows": (
        model([node("MatMul", "x w", "p"), node("Add", "p c", "y")], {"x": ("float32", [1, 3])}, ["y"], MIXED),
        {"x": ROW[:1]},
        "MatMul Add",
    ),
    "a product and another axis": (
        model([node("MatMul", "x w", "p"), node("Add", "p d", "y")], ROWS, ["y"], MIXED),
        {"x": ROW},
        "MatMul Add",
    ),
    "a product that is read twice": (
        model([node("MatMul", "x w", "p"), node("Add", "p b", "y"), node("Tanh", "p", "z")], ROWS, ["y", "z"], MIXED),
        {"x": ROW},
        "MatMul Add Tanh",
    ),
    "a table": (
        model([node("Gather", "t i", "y")], {"i": ("int64", ["n", 3])}, ["y"], {"t": normal(5, 2)}),
        {"i": INDEX},
        "Gather",
    ),
    "an element of an axis": (model([node("Gather", "x i", "y", axis=1)], X, ["y"], {"i": np.asarray(-2)}), {"x": IMAGE}, "Gather"),
    "slopes": (model([node("PRelu", "x s", "y")], X, ["y"], {"s": normal(3, 1, 1)}), {"x": IMAGE}, "PRelu"),
    "a gate": (model([node("Sigmoid", "x", "s"), node("Mul", "x s", "y")], X, ["y"]), {"x": IMAGE}, "Sigmoid Mul"),
    "bounds": (model([node("Clip", "x l h", "y")], X, ["y"], BOUNDS), {"x": IMAGE}, "Clip"),
    "an ellipsis of other axes": (
        model([node("Einsum", "x w", "y", equation="...ij,...jk")], X, ["y"], {"w": normal(5, 2)}),
        {"x": IMAGE},
        "Einsum",
    ),
    "lengths": (model([node("ReduceL2", "x", "y", axes=[1])], ROWS, ["y"], opset=13), {"x": ROW}, "ReduceL2"),
    "a larger image": (
        model(
            [node("Resize", "x - f", "y", coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
            X,
            ["y"],
            {"f": np.array([1, 1, 2, 2], "float32")},
        ),
        {"x": IMAGE},
        "Resize",
    ),
    "rows, normalized": (
        model([node("LayerNormalization", "x s b", "y")], ROWS, ["y"], {"s": normal(3), "b": normal(3)}, opset=18),
        {"x": ROW},
        "LayerNormalization",
    ),
}  # fmt: skip


def nodes(path: Path) -> Counter[str]:
    return Counter(each.op_type for each in proto.load(str(path)).graph.node if each.op_type != "Constant")


@pytest.mark.parametrize("name", MODELS)
def test_nodes_that_are_left(name: str, tmp_path: Path) -> None:
    data, feeds, wanted = MODELS[name]
    loaded = onnx.load(data)
    frozen, scope = ga.freeze(loaded.program, loaded.fetch_names, loaded.scope())
    runtime.same(onnx.from_program(frozen, loaded.feed_names, loaded.fetch_names, scope), feeds, tmp_path)
    assert nodes(tmp_path / "m.onnx") == Counter(wanted.split())
    runtime.same(loaded, feeds, tmp_path)  # with the weights as they are
    back = onnx.load(tmp_path / "m.onnx")
    for one, other in zip(back.run(feeds), loaded.run(feeds), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_outputs_that_are_the_same_or_inputs_keep_their_names(tmp_path: Path) -> None:
    both = model([node("Tanh", "x", "a"), node("Identity", "a", "b"), node("Identity", "x", "c")], ROWS, ["a", "b", "c"])
    loaded = onnx.load(both)
    runtime.same(loaded, {"x": ROW}, tmp_path)
    assert nodes(tmp_path / "m.onnx") == Counter({"Tanh": 1, "Identity": 2})


def test_weights_keep_their_shapes_unless_they_were_computed(tmp_path: Path) -> None:
    data, feeds, _ = MODELS["a convolution of signals"]
    loaded = onnx.load(data)
    runtime.same(loaded, feeds, tmp_path)
    assert {item.name: list(item.dims) for item in proto.load(str(tmp_path / "m.onnx")).graph.initializer} == {"w": [4, 3, 3], "b": [4]}
