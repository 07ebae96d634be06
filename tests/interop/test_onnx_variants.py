"""Files that say the same in other ways give the same outputs and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphad.interop import onnx
from tests.onnx_models import model, node
from tests.shares import one_in

proto = pytest.importorskip("onnx", reason="the onnx package, which converts files, is not installed: pip install 'graphad[onnx-tests]'")
variants = pytest.importorskip("tests.onnx_variants")
VARIANTS, in_if, in_loop = variants.VARIANTS, variants.in_if, variants.in_loop

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(size=shape).astype("float32")


NETWORKS = {
    "dense": model(
        [node("Gemm", "x w b", "h"), node("Relu", "h", "r"), node("MatMul", "r v", "y")],
        {"x": ("float32", ["batch", 3])},
        ["y"],
        {"w": normal(3, 4), "b": normal(4), "v": normal(4, 2)},
        opset=13,
    ),
    "images": model(
        [
            node("Conv", "x w b", "c", pads=[1, 1, 1, 1], strides=[2, 2]),
            node("BatchNormalization", "c scale shift mean var", "n"),
            node("LeakyRelu", "n", "r", alpha=0.1),
            node("GlobalAveragePool", "r", "g"),
            node("Flatten", "g", "f"),
            node("Softmax", "f", "y", axis=1),
        ],
        {"x": ("float32", ["batch", 2, 6, 5])},
        ["y"],
        {"w": normal(3, 2, 3, 3), "b": normal(3), "scale": normal(3), "shift": normal(3), "mean": normal(3), "var": np.abs(normal(3)) + 1},
        opset=14,
    ),
    "sequences": model(
        [node("GRU", "x w r b", "ys last", hidden_size=3), node("ReduceSum", "ys axes", "y", keepdims=0)],
        {"x": ("float32", ["time", "batch", 2])},
        ["y"],
        {"w": normal(1, 9, 2), "r": normal(1, 9, 3), "b": normal(1, 18), "axes": np.array([0])},
        opset=14,
    ),
    "attention": model(
        [
            node("MatMul", "x q", "a"),
            node("MatMul", "x k", "b"),
            node("Transpose", "b", "t", perm=[0, 2, 1]),
            node("MatMul", "a t", "s"),
            node("Softmax", "s", "p", axis=2),
            node("MatMul", "p x", "y"),
        ],
        {"x": ("float32", ["batch", "time", 4])},
        ["y"],
        {"q": normal(4, 4), "k": normal(4, 4)},
        opset=13,
    ),
}
SHAPES = {"dense": (None, 3), "images": (None, 2, 6, 5), "sequences": (4, None, 2), "attention": (None, 3, 4)}


def with_gradients(data: bytes, feeds: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    """The output of a network, and its gradients by the input and the weights, in the order of their names."""
    loaded = onnx.load(data)
    found = onnx.gradients(loaded)
    results = dict(zip(found.fetch_names, found.run(feeds), strict=True))
    gradients = {name.removesuffix("@GRAD"): results[name] for name in found.gradient_names}
    return [results["y"], *(gradients[name] for name in sorted(gradients) if results["y"].size)]


@pytest.mark.parametrize("variant", one_in(2, VARIANTS))
@pytest.mark.parametrize("network", NETWORKS)
def test_outputs_and_gradients_are_the_same(network: str, variant: str) -> None:
    data = NETWORKS[network]
    made = VARIANTS[variant](proto.load_from_string(data)).SerializeToString()
    for batch in (1, 3):
        x = RNG.normal(size=[batch if extent is None else extent for extent in SHAPES[network]]).astype("float32")
        wanted = with_gradients(data, {"x": x})
        for which in (True, False) if variant == "in an If" else (None,):
            feeds = {"x": x} if which is None else {"x": x, "which": np.asarray(which)}
            found = with_gradients(made, feeds)
            assert len(found) == len(wanted)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def test_nested_in_each_other() -> None:
    data = NETWORKS["dense"]
    made = in_if(in_loop(proto.load_from_string(data))).SerializeToString()
    x = normal(2, 3)
    for one, other in zip(with_gradients(made, {"x": x, "which": np.asarray(True)}), with_gradients(data, {"x": x}), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)
