"""The operator Gradient of ai.onnx.preview.training, read: values and derivatives worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphad.errors import GraphadError
from graphad.interop import onnx
from tests.onnx_models import model, node

TRAINING = "ai.onnx.preview.training"
DOMAINS: Any = {"ai_onnx_preview_training": 1}
X = np.array([[0.5, -1.0], [2.0, 0.25]], "float32")
W = np.array([[1.0, -0.5], [0.5, 2.0]], "float32")
TYPE = ("float32", [2, 2])


def gradient(inputs: str, outputs: str, xs: list[str], y: str, zs: tuple[str, ...] = ()) -> Any:
    return node("Gradient", inputs, outputs, TRAINING, xs=xs, y=y, **({"zs": list(zs)} if zs else {}))


def run(nodes: list[Any], outputs: list[str], inputs: dict[str, np.ndarray[Any, Any]], weights: Any = None) -> list[np.ndarray[Any, Any]]:
    types = {name: (array.dtype.name, list(array.shape)) for name, array in inputs.items()}
    return onnx.load(model(nodes, types, outputs, weights, **DOMAINS)).run(inputs)


def test_of_a_product_by_its_factors() -> None:
    nodes = [node("MatMul", "x w", "h"), node("Tanh", "h", "y"), gradient("w x", "dw", ["w"], "y", ("x",))]
    y, dw = run(nodes, ["y", "dw"], {"x": X}, {"w": W})
    np.testing.assert_allclose(y, np.tanh(X @ W), rtol=1e-6)
    np.testing.assert_allclose(dw, X.T @ (1 - np.tanh(X @ W) ** 2), rtol=1e-5)


def test_by_a_tensor_on_the_way() -> None:
    nodes = [node("MatMul", "x w", "h"), node("Mul", "h h", "y"), gradient("h", "dh", ["h"], "y")]
    np.testing.assert_allclose(run(nodes, ["dh"], {"x": X}, {"w": W})[0], 2 * X @ W, rtol=1e-6)


def test_at_other_values_than_the_graphs_own() -> None:
    nodes = [
        node("MatMul", "x w", "h"),
        node("Mul", "h z", "k"),
        node("Exp", "k", "y"),
        gradient("at z", "dh dz", ["h", "z"], "y"),
    ]
    at, z = np.full((2, 2), 0.5, "float32"), np.float32(0.25) * X
    dh, dz = run(nodes, ["dh", "dz"], {"x": X, "z": z, "at": at}, {"w": W})
    np.testing.assert_allclose(dh, z * np.exp(at * z), rtol=1e-6)
    np.testing.assert_allclose(dz, at * np.exp(at * z), rtol=1e-6)


def test_of_a_gradient() -> None:
    """As in the operator's description: the second derivative is the gradient of the first."""
    nodes = [
        node("Mul", "x x", "xx"),
        node("Mul", "xx x", "cube"),
        node("Mul", "cube w", "o"),
        gradient("x w", "ox ow", ["x", "w"], "o"),
        gradient("x w", "oxx oxw", ["x", "w"], "ox"),
        gradient("x w", "owx -", ["x", "w"], "ow"),
    ]
    ox, ow, oxx, oxw, owx = run(nodes, ["ox", "ow", "oxx", "oxw", "owx"], {"x": X, "w": W})
    for found, wanted in ((ox, 3 * X**2 * W), (ow, X**3), (oxx, 6 * X * W), (oxw, 3 * X**2), (owx, 3 * X**2)):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_of_what_does_not_depend_on_it_is_zero_and_constants_are_points_too() -> None:
    nodes = [
        node("Constant", "", "c", value=X),
        node("Mul", "c x", "y"),
        gradient("c x unread", "dc dx du", ["c", "x", "unread"], "y"),
    ]
    dc, dx, du = run(nodes, ["dc", "dx", "du"], {"x": W, "unread": X})
    np.testing.assert_array_equal(dc, W)
    np.testing.assert_array_equal(dx, X)
    np.testing.assert_array_equal(du, np.zeros_like(X))


def test_a_model_with_gradients_is_differentiated_and_written(tmp_path: Any) -> None:
    nodes = [node("Mul", "x x", "xx"), node("Mul", "xx x", "y"), gradient("x", "dx", ["x"], "y")]
    found = onnx.load(model(nodes, {"x": TYPE}, ["dx"], **DOMAINS))
    second = onnx.gradients(found, wrt=["x"], of=["dx"])
    onnx.save(second, tmp_path / "second.onnx")
    np.testing.assert_allclose(onnx.load(tmp_path / "second.onnx").run({"x": X})[-1], 6 * X, rtol=1e-6)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([gradient("x", "dx", ["x"], "missing")], "'missing' is read before"),
        ([node("Mul", "x x", "y"), gradient("x x", "dx", ["x"], "y")], "xs and zs name 1 tensors, and there are 2 inputs"),
        ([node("Less", "x x", "y"), gradient("x", "dx", ["x"], "y")], "y='y' is no tensor of floats"),
    ],
)
def test_what_cannot_be_differentiated_is_an_error_at_the_node(nodes: list[Any], message: str) -> None:
    with pytest.raises(GraphadError, match=message):
        onnx.load(model(nodes, {"x": TYPE}, ["dx"], **DOMAINS))
