"""ONNX models, read: what they compute, what is folded, their gradients, and what is refused."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import GraphadError, InvalidValue, ParseError
from graphad.interop import onnx
from graphad.interop.onnx.schema import message
from graphad.types import Array
from tests.interop.onnx_hostile import SECONDS, made_up, mutations, refusal
from tests.onnx_models import Infos, attribute, graph, info, model, node, sparse

FLOATS = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], "float32")
W = np.array([[1.0, -0.5], [0.5, 2.0], [-1.0, 0.25]], "float32")
DENSE = model([node("MatMul", "x w", "h"), node("Tanh", "h", "y")], {"x": ("float32", ["batch", 3])}, ["y"], {"w": W})


def operators(program: ga.Program) -> list[str]:
    return [op.type for op in program.global_block().ops]


def test_a_model_is_a_program_with_parameters() -> None:
    found = onnx.load(DENSE)
    assert (found.feed_names, found.fetch_names, list(found.parameters)) == (["x"], ["y"], ["w"])
    assert found.unknown_operators == {}
    assert found.program.global_block().var("x").shape == (-1, 3)
    assert operators(found.program) == ["matmul_v2", "tanh", "assign"]
    np.testing.assert_allclose(found.run({"x": FLOATS})[0], np.tanh(FLOATS @ W), rtol=1e-6)
    np.testing.assert_allclose(found.run({"x": FLOATS[:1]})[0], np.tanh(FLOATS[:1] @ W), rtol=1e-6)
    executor = ga.Executor(profile=True)
    np.testing.assert_array_equal(found.run({"x": FLOATS}, executor)[0], found.run({"x": FLOATS})[0])
    assert executor.profile is not None
    assert executor.profile.runs == 1, "the executor that is passed runs the program"


def test_a_file_and_elements_beside_it(tmp_path: Path) -> None:
    proto = message("ModelProto")()
    proto.ParseFromString(DENSE)
    tensor = proto.graph.initializer[0]
    (tmp_path / "weights.bin").write_bytes(b"1234" + tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    for key, value in (("location", "weights.bin"), ("offset", "4")):
        tensor.external_data.add(key=key, value=value)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.testing.assert_array_equal(onnx.load(tmp_path / "m.onnx").parameters["w"], W)
    with pytest.raises(ParseError, match="the model was read from bytes: give its path"):
        onnx.load(proto.SerializeToString())
    tensor.external_data[0].value = "../weights.bin"
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ParseError, match=r"^\S+\.onnx: tensor .*'\.\./weights\.bin', which is outside of the model's folder"):
        onnx.load(tmp_path / "m.onnx")


def test_shapes_that_a_model_computes_are_folded() -> None:
    """Reshape to [batch, extent 1 * extent 2]: only the batch is not known."""
    nodes = [
        node("Shape", "x", "s"),
        node("Constant", "", "zero", value=np.array(0)),
        node("Constant", "", "one", value=np.array(1)),
        node("Constant", "", "two", value=np.array(2)),
        node("Gather", "s zero", "n"),
        node("Gather", "s one", "a"),
        node("Gather", "s two", "b"),
        node("Mul", "a b", "ab"),
        node("Constant", "", "axes", value=np.array([0])),
        *(node("Unsqueeze", f"{name} axes", f"{name}1") for name in ("n", "ab")),
        node("Concat", "n1 ab1", "shape", axis=0),
        node("Reshape", "x shape", "y"),
    ]
    found = onnx.load(model(nodes, {"x": ("float32", ["batch", 2, 3])}, ["y"]))
    assert found.program.global_block().var("y").shape == (-1, 6)
    x = np.arange(24, dtype="float32").reshape(4, 2, 3)
    np.testing.assert_array_equal(found.run({"x": x})[0], x.reshape(4, 6))


@pytest.mark.parametrize("rows", [0, 3])
def test_a_zero_in_a_shape_is_an_extent_with_allowzero(rows: int) -> None:
    """As exporters write it: the batch, -1, and numbers; and a shape that is an input."""
    nodes = [
        node("Shape", "x", "n", start=0, end=1),
        node("Concat", "n rest", "shape", axis=0),
        node("Reshape", "x shape", "y", allowzero=1),
        node("Reshape", "x given", "z", allowzero=1),
    ]
    types: Infos = {"x": ("float32", ["batch", 4, 6]), "given": ("int64", [2])}
    found = onnx.load(model(nodes, types, ["y", "z"], {"rest": np.array([-1, 3, 2] if rows else [4, 3, 2])}))
    x = np.arange(24 * rows, dtype="float32").reshape(rows, 4, 6)
    given = np.array([rows * 4, 6]) if rows else np.array([7, 0])
    y, z = found.run({"x": x, "given": given})
    np.testing.assert_array_equal(y, x.reshape(rows, 4, 3, 2))
    np.testing.assert_array_equal(z, x.reshape(given))
    gradient = onnx.gradients(found, ["x"], ["z"]).run({"x": x, "given": given})[-1]
    np.testing.assert_array_equal(gradient, np.ones_like(x))


def test_the_text_of_a_model_says_what_goes_in_and_out_without_arrays() -> None:
    assert repr(onnx.load(DENSE)) == "<OnnxModel x -> y: operators 3, parameters 1 with 6 elements>"


def test_inputs_that_decide_the_program_are_bound_or_read_when_it_runs() -> None:
    data = model([node("ReduceSum", "x axes", "y", keepdims=0)], {"x": ("float32", [2, 3]), "axes": ("int64", [1])}, ["y"])
    bound = onnx.load(data, bind={"axes": [1]})
    assert bound.feed_names == ["x"]
    np.testing.assert_array_equal(bound.run({"x": FLOATS})[0], FLOATS.sum(1))
    free = onnx.load(data)
    for axis in (0, 1, 0):
        np.testing.assert_array_equal(free.run({"x": FLOATS, "axes": [axis]})[0], FLOATS.sum(axis))
        np.testing.assert_array_equal(free.run({"x": FLOATS, "axes": [axis]}, ga.Executor())[0], FLOATS.sum(axis))
    assert repr(free) == "<OnnxModel x, axes -> y: its operators depend on axes>"
    with pytest.raises(onnx.UnsupportedModel, match=r"axes .* is not known before the model runs(.|\n)*with axes decides"):
        _ = free.program
    with pytest.raises(InvalidValue, match=r"no input 'axs'; did you mean 'axes'"):
        onnx.load(data, bind={"axs": [1]})


def test_gradients_of_inputs_and_weights_are_those_of_differences() -> None:
    found = onnx.load(DENSE)
    gradients = onnx.gradients(found)
    assert gradients.gradient_names == ["x@GRAD", "w@GRAD"]
    assert gradients.fetch_names == ["y", *gradients.gradient_names]
    y, of_x, of_w = gradients.run({"x": FLOATS})
    slope = 1 - y**2
    np.testing.assert_allclose(of_x, slope @ W.T, rtol=1e-5)
    np.testing.assert_allclose(of_w, FLOATS.T @ slope, rtol=1e-5)
    assert found.fetch_names == ["y"]


def test_gradients_twice() -> None:
    once = onnx.gradients(onnx.load(model([node("Tanh", "x", "y")], {"x": ("float64", [3])}, ["y"])), ["x"], ["y"])
    twice = onnx.gradients(once, ["x"], once.gradient_names)
    x = np.array([0.3, -0.2, 1.0])
    second = twice.run({"x": x})[-1]
    np.testing.assert_allclose(second, -2 * np.tanh(x) * (1 - np.tanh(x) ** 2), rtol=1e-12)
    with pytest.raises(InvalidValue, match="'z' is no input or parameter with floats"):
        onnx.gradients(once, ["z"])


COUNT = graph(
    [node("Add", "a step", "b"), node("Identity", "going", "more"), node("Mul", "a w", "scaled")],
    {"i": ("int64", []), "going": ("bool", []), "a": ("float32", [2])},
    ["more", "b", "scaled"],
)


@pytest.mark.parametrize("trips", [1, 4])
def test_loop_carries_captures_and_stacks(trips: int) -> None:
    nodes = [node("Constant", "", "step", value=np.array([1.0, 2.0], "float32")), node("Loop", "n - x", "last all", body=COUNT)]
    types = {"n": ("int64", []), "x": ("float32", [2])}
    found = onnx.load(model(nodes, types, ["last", "all"], {"w": np.array([2.0, 3.0], "float32")}))
    x = np.array([1.0, -1.0], "float32")
    rows = np.array([x + i * np.array([1.0, 2.0], "float32") for i in range(trips)])
    last, stacked = found.run({"n": np.array(trips), "x": x})
    np.testing.assert_array_equal(last, x + trips * np.array([1.0, 2.0], "float32"))
    np.testing.assert_array_equal(stacked, rows * np.array([2.0, 3.0], "float32"))
    gradient = onnx.gradients(found, ["w"], ["all"]).run({"n": np.array(trips), "x": x})[-1]
    np.testing.assert_allclose(gradient, rows.sum(0), rtol=1e-6)


def test_if_chooses_at_run_time_or_at_load() -> None:
    branches = {f"{name}_branch": graph([node(type, "x", "r")], {}, ["r"]) for name, type in (("then", "Exp"), ("else", "Neg"))}
    choice = model([node("If", "c", "y", **branches)], {"c": ("bool", []), "x": ("float32", [3])}, ["y"])
    found = onnx.load(choice)
    for c, expected in ((True, np.exp(FLOATS[0])), (False, -FLOATS[0])):
        np.testing.assert_allclose(found.run({"c": np.array(c), "x": FLOATS[0]})[0], expected, rtol=1e-6)
        assert "if_else" not in operators(onnx.load(choice, bind={"c": np.array(c)}).program)
        gradient = onnx.gradients(found, ["x"]).run({"c": np.array(c), "x": FLOATS[0]})[-1]
        np.testing.assert_allclose(gradient, expected if c else -np.ones(3), rtol=1e-6)


def test_branches_of_an_if_may_differ_in_extents() -> None:
    """As written gradients have it: a sum over rows where they were repeated, which only the run knows."""
    branches = {
        "then_branch": graph([node("Identity", "x", "r")], {}, ["r"]),
        "else_branch": graph([node("ReduceSum", "x rows", "r")], {}, ["r"]),
    }
    nodes = [node("Constant", "", "rows", value=np.array([0])), node("If", "c", "h", **branches), node("Tanh", "h", "y")]
    found = onnx.load(model(nodes, {"c": ("bool", []), "x": ("float64", [2, 3])}, ["y"]))
    x = np.linspace(-1, 1, 6).reshape(2, 3)
    for c, h in ((True, x), (False, x.sum(0, keepdims=True))):
        np.testing.assert_allclose(found.run({"c": np.array(c), "x": x})[0], np.tanh(h), rtol=1e-12)
        gradient = onnx.gradients(found, ["x"]).run({"c": np.array(c), "x": x})[-1]
        np.testing.assert_allclose(gradient, np.broadcast_to(1 - np.tanh(h) ** 2, x.shape), rtol=1e-12)


def test_branches_of_an_if_may_differ_in_rank() -> None:
    """The axis of unknown extent is dropped where it is 1; what comes after takes one rank only, or both."""
    branches = {
        "then_branch": graph([node("Squeeze", "x last", "r")], {}, ["r"]),
        "else_branch": graph([node("Identity", "x", "r")], {}, ["r"]),
    }
    constants = [node("Constant", "", name, value=np.array([value])) for name, value in (("last", 2), ("one", 1), ("front", 0))]
    test = [node("Shape", "x", "s"), node("Gather", "s last", "n"), node("Equal", "n one", "c"), node("If", "c", "h", **branches)]
    x = np.arange(6, dtype="float32").reshape(2, 3, 1)
    inputs: Infos = {"x": ("float32", ["b", 3, "t"])}
    one = onnx.load(model([*constants, *test, node("Concat", "h w", "y", axis=0)], inputs, ["y"], {"w": W.T}))
    np.testing.assert_array_equal(one.run({"x": x})[0], np.concatenate([x[..., 0], W.T]))
    both = onnx.load(model([*constants, *test, node("ReduceSum", "h", "y", keepdims=0)], inputs, ["y"]))
    assert "if_else" in [op.type for op in both.program.global_block().ops]
    for fed in (x, np.ones((2, 3, 4), "float32")):
        np.testing.assert_allclose(both.run({"x": fed})[0], fed.sum())
        np.testing.assert_array_equal(onnx.gradients(both, ["x"]).run({"x": fed})[-1], np.ones_like(fed))
    with pytest.raises(onnx.UnsupportedModel, match="model: node 6, If: the branches of an If give results of different ranks"):
        onnx.load(model([*constants, *test, node("Tanh", "h", "y")], inputs, ["y"]))


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 4), (2, 3, 1), (1, 3, 1)])
def test_squeeze_drops_what_the_run_finds_to_be_one(shape: tuple[int, ...]) -> None:
    nodes = [node("Squeeze", "x", "h"), node("Exp", "h", "e"), node("ReduceSum", "e", "y", keepdims=0)]
    found = onnx.load(model(nodes, {"x": ("float64", ["b", 3, "t"])}, ["y"]))
    x = np.linspace(-1, 1, np.prod(shape)).reshape(shape)
    np.testing.assert_allclose(found.run({"x": x})[0], np.exp(x).sum(), rtol=1e-12)
    np.testing.assert_allclose(onnx.gradients(found, ["x"]).run({"x": x})[-1], np.exp(x), rtol=1e-12)
    # Where one rank alone fits what comes after, it is the one.
    nodes = [node("Squeeze", "x", "h"), node("Concat", "h w", "y", axis=0)]
    joined = onnx.load(model(nodes, {"x": ("float32", ["b", 1, 3])}, ["y"], {"w": W.T}))
    assert "if_else" not in operators(joined.program)
    # Where the rank goes out of the model it has no one program; it is read for what it is fed.
    undecided = onnx.load(model([node("Squeeze", "x", "y")], {"x": ("float64", ["b", 3, "t"])}, ["y"]))
    np.testing.assert_array_equal(undecided.run({"x": x})[0], x.squeeze())
    with pytest.raises(onnx.UnsupportedModel, match=r"Squeeze without axes of extents \[b, 3, t\]: the ranks of what it gives differ"):
        _ = undecided.program


@pytest.mark.parametrize("kind", ["GRU", "LSTM", "RNN"])
def test_a_state_of_one_sequence_goes_with_a_batch_that_is_open(kind: str) -> None:
    gates = {"GRU": 3, "LSTM": 4, "RNN": 1}[kind]
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=(1, gates * 2, size)).astype("float32") for name, size in (("w", 3), ("r", 2))}
    sizes: Infos = {"x": ("float32", ["t", "b", 3]), "h": ("float32", [1, 1, 2])}
    found = onnx.load(model([node(kind, "x w r - - h", "y", hidden_size=2)], sizes, ["y"], weights))
    closed = onnx.load(model([node(kind, "x w r - - h", "y", hidden_size=2)], {**sizes, "x": ("float32", [4, 1, 3])}, ["y"], weights))
    fed = {"x": rng.normal(size=(4, 1, 3)).astype("float32"), "h": rng.normal(size=(1, 1, 2)).astype("float32")}
    np.testing.assert_array_equal(found.run(fed)[0], closed.run(fed)[0])
    with pytest.raises(GraphadError, match=r"do not fill shape=\[0, 1, 0\]"):
        found.run({**fed, "x": np.ones((4, 2, 3), "float32")})


def test_gradients_go_straight_through_rounding() -> None:
    """y = w . dequantize(quantize(x)): in range the slope is w, beyond it is 0; the same through a product of integers."""
    constants = [node("Constant", "", "scale", value=np.array(0.5, "float32")), node("Constant", "", "zero", value=np.array(10, "uint8"))]
    around = [node("QuantizeLinear", "x scale zero", "q"), node("DequantizeLinear", "q scale zero", "d"), node("MatMul", "d w", "y")]
    x = np.array([[0.3, -1.2, 1000.0]], "float32")
    found = onnx.load(model([*constants, *around], {"x": ("float32", ["n", 3])}, ["y"], {"w": W}))
    np.testing.assert_allclose(onnx.gradients(found, ["x"]).run({"x": x})[-1], [[0.5, 2.5, 0.0]])
    weights = np.array([[2, -1], [1, 4], [-2, 3]], "int8")
    product = [
        node("DynamicQuantizeLinear", "x", "q s z"),
        node("MatMulInteger", "q i z", "p"),
        node("Cast", "p", "f", to=1),
        node("Mul", "f s", "y"),
    ]
    found = onnx.load(model(product, {"x": ("float32", ["n", 3])}, ["y"], {"i": weights}))
    x = np.array([[0.3, -1.2, 0.9]], "float32")
    np.testing.assert_allclose(found.run({"x": x})[0], x @ weights, atol=0.05)
    assert onnx.gradients(found, ["x"]).run({"x": x})[-1][0, 0] == pytest.approx(weights[0].sum(), abs=0.05)


def test_a_known_exponent_is_a_number_without_a_slope() -> None:
    """(-2)^2 has a slope in its base; in its exponent there is none, and no nan comes of it."""
    found = onnx.load(model([node("Pow", "x two", "y")], {"x": ("float32", [2])}, ["y"], {"two": np.array([2.0, 2.0], "float32")}))
    of_x, of_two = onnx.gradients(found, ["x", "two"]).run({"x": np.array([-2.0, 3.0], "float32")})[1:]
    np.testing.assert_array_equal(of_x, [-4.0, 6.0])
    np.testing.assert_array_equal(of_two, [0.0, 0.0])


def test_fewer_places_than_elements_along_axes_of_unknown_extents() -> None:
    """Rows added up by an index, as graph networks do."""
    nodes = [node("ScatterElements", "x i v", "y", axis=0, reduction="add")]
    types = {"x": ("float32", ["n", "m"]), "i": ("int64", ["k", "l"]), "v": ("float32", ["k", "l"])}
    x, i = np.zeros((3, 2), "float32"), np.array([[2], [0], [2]])
    found = onnx.load(model(nodes, types, ["y"])).run({"x": x, "i": i, "v": np.array([[1.0], [2.0], [4.0]], "float32")})[0]
    np.testing.assert_array_equal(found, [[2, 0], [0, 0], [5, 0]])


def test_operators_that_only_shapes_needed_are_dropped() -> None:
    nodes = [node("Shape", "x", "s"), node("Reshape", "x s", "h"), node("Tanh", "h", "y"), node("Exp", "x", "unused")]
    found = onnx.load(model(nodes, {"x": ("float32", [2, 3])}, ["y"]))
    assert operators(found.program) == ["reshape", "tanh", "assign"]


def test_scan_runs_along_an_axis() -> None:
    body = graph(
        [node("Add", "sum x", "more"), node("Identity", "more", "out")], {"sum": ("float32", [2]), "x": ("float32", [2])}, ["more", "out"]
    )
    scan = node("Scan", "start xs", "total sums", body=body, num_scan_inputs=1, scan_input_axes=[1])
    found = onnx.load(model([scan], {"start": ("float32", [2]), "xs": ("float32", [2, 3])}, ["total", "sums"]))
    total, sums = found.run({"start": np.zeros(2, "float32"), "xs": FLOATS})
    np.testing.assert_allclose(sums, np.cumsum(FLOATS, 1).T)
    np.testing.assert_allclose(total, FLOATS.sum(1))


def lstm(x: np.ndarray, w: np.ndarray, r: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By the equations of the operator, gates in the order i, o, f, c."""
    h = c = np.zeros((x.shape[1], r.shape[1]))
    rows = []
    for step in x:
        gates = step @ w.T + h @ r.T + b[: len(b) // 2] + b[len(b) // 2 :]
        i, o, f, new = np.split(gates, 4, axis=1)
        i, o, f = (1 / (1 + np.exp(-each)) for each in (i, o, f))
        c = f * c + i * np.tanh(new)
        h = o * np.tanh(c)
        rows.append(h)
    return np.stack(rows)


def test_lstm_in_both_directions() -> None:
    rng = np.random.default_rng(5)
    x, w, r, b = (rng.normal(size=shape) for shape in ((4, 2, 3), (2, 8, 3), (2, 8, 2), (2, 16)))
    data = model(
        [node("LSTM", "x w r b", "y h c", hidden_size=2, direction="bidirectional")],
        {"x": ("float64", ["time", "batch", 3])},
        ["y", "h"],
        {"w": w, "r": r, "b": b},
    )
    found = onnx.load(data)
    y, h = found.run({"x": x})
    np.testing.assert_allclose(y[:, 0], lstm(x, w[0], r[0], b[0]), rtol=1e-12)
    np.testing.assert_allclose(y[:, 1], lstm(x[::-1], w[1], r[1], b[1])[::-1], rtol=1e-12)
    np.testing.assert_allclose(h, np.stack([y[-1, 0], y[0, 1]]))
    gradient = onnx.gradients(found, ["r"], ["y"]).run({"x": x})[-1]
    step = np.zeros_like(r)
    step[0, 3, 1] = 1e-6
    slope = (lstm(x, w[0], (r + step)[0], b[0]).sum() - lstm(x, w[0], (r - step)[0], b[0]).sum()) / 2e-6
    np.testing.assert_allclose(gradient[0, 3, 1], slope, rtol=1e-6)


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [2, 1]]])
def test_sparse_initializers_are_parameters_with_all_elements(indices: object) -> None:
    weight = sparse(np.array([2, -1], "float32"), indices, (3, 2), "w")
    data = model([node("MatMul", "x w", "y")], {"x": ("float32", ["n", 3])}, ["y"], [weight])
    found = onnx.load(data)
    np.testing.assert_array_equal(found.parameters["w"], np.array([[0, 2], [0, 0], [0, -1]], "float32"), strict=True)
    x = np.arange(6, dtype="float32").reshape(2, 3)
    y, slope = onnx.gradients(found, wrt=["w"]).run({"x": x})
    np.testing.assert_array_equal(y, x @ found.parameters["w"])
    np.testing.assert_array_equal(slope, x.sum(0)[:, None] * np.ones(2))
    bound = onnx.load(data, bind={"w": np.eye(3, 2, dtype="float32")})
    np.testing.assert_array_equal(bound.run({"x": x})[0], x[:, :2])


def test_sparse_constants() -> None:
    constant = node("Constant", "", "k", sparse_value=sparse(np.array([3]), [1], (4,)))
    found = onnx.load(model([constant, node("Add", "x k", "y")], {"x": ("int64", [4])}, ["y"]))
    assert found.run({"x": np.ones(4, "int64")})[0].tolist() == [1, 4, 1, 1]


@pytest.mark.parametrize(
    ("elements", "indices", "shape", "error"),
    [
        ([2.0, 3.0], [1, 6], (3, 2), "'w' has an index outside of its extents [3, 2]"),
        ([2.0, 3.0], [[0, 1], [-1, 0]], (3, 2), "'w' has an index outside of its extents [3, 2]"),
        ([2.0, 3.0], [1], (3, 2), "'w' has 2 elements, and indices int64[1]"),
        ([[2.0]], [1], (3, 2), "'w' has elements float32[1, 1]; a vector of numbers is expected"),
        ([2.0], [1], (3, -2), "'w' has the extents [3, -2]; an extent is not negative"),
        ([2.0], [1], (1 << 40, 1 << 20), "elements of float32 are 4,611,686,018,427,387,904 bytes; a constant of this file has at most"),
    ],
)
def test_sparse_tensors_that_are_none(elements: list[float], indices: object, shape: tuple[int, ...], error: str) -> None:
    weight = sparse(np.array(elements, "float32"), indices, shape, "w")
    with pytest.raises(ParseError, match=re.escape(error)):
        onnx.load(model([node("Identity", "w", "y")], {}, ["y"], [weight]))


def test_trees_by_hand() -> None:
    """x0 <= 0.5: 1; else x1 <= 2: 10, else 100; a second tree always gives 1000."""
    attrs: dict[str, object] = {
        "nodes_treeids": [0, 0, 0, 0, 0, 1],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
        "nodes_featureids": [0, 0, 1, 0, 0, 0],
        "nodes_values": [0.5, 0.0, 2.0, 0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 3, 0, 0, 0],
        "nodes_falsenodeids": [2, 0, 4, 0, 0, 0],
        "target_treeids": [0, 0, 0, 1],
        "target_nodeids": [1, 3, 4, 0],
        "target_ids": [0, 0, 0, 0],
        "target_weights": [1.0, 10.0, 100.0, 1000.0],
        "n_targets": 1,
    }
    ensemble = node("TreeEnsembleRegressor", "x", "y", "ai.onnx.ml", **attrs)
    found = onnx.load(model([ensemble], {"x": ("float32", ["n", 2])}, ["y"], ai_onnx_ml=3))
    x = np.array([[0.5, 9.0], [0.6, 2.0], [0.6, 2.1]], "float32")
    np.testing.assert_array_equal(found.run({"x": x})[0], [[1001.0], [1010.0], [1100.0]])
    # A missing value is not less; with the flag of its node it takes the branch of what is.
    x = np.array([[np.nan, 2.0], [np.inf, np.nan]], "float32")
    np.testing.assert_array_equal(found.run({"x": x})[0], [[1010.0], [1100.0]])
    tracking = node("TreeEnsembleRegressor", "x", "y", "ai.onnx.ml", nodes_missing_value_tracks_true=[0, 0, 1, 0, 0, 0], **attrs)
    found = onnx.load(model([tracking], {"x": ("float32", ["n", 2])}, ["y"], ai_onnx_ml=3))
    np.testing.assert_array_equal(found.run({"x": x})[0], [[1010.0], [1010.0]])


def test_functions_of_the_model() -> None:
    proto = message("ModelProto")()
    proto.ParseFromString(model([node("Twice", "x", "y", "own", by=3.0)], {"x": ("float32", [3])}, ["y"], own=1))
    function = proto.functions.add(name="Twice", domain="own", input=["a"], output=["r"], attribute=["by"])
    constant = node("Constant", "", "k")
    reference = attribute("value_float", 0.0)
    reference.ref_attr_name = "by"
    constant.attribute.append(reference)
    function.node.extend([constant, node("Mul", "a k", "r")])
    function.opset_import.add(domain="", version=18)
    np.testing.assert_array_equal(onnx.load(proto.SerializeToString()).run({"x": FLOATS[0]})[0], 3 * FLOATS[0])


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Nothing", "x", "y")], r"model: node 0, Nothing: there is no such operator"),
        ([node("Tanh", "z", "y")], r"'z' is read before a node or an input gives it"),
        ([node("Cast", "x", "y")], r"node 0, Cast: attribute 'to' is missing"),
        ([node("Tanh", "x", "h"), node("MatMul", "h h", "y")], r"node 1, MatMul: .*\[2, 3\]"),
        ([node("ImageDecoder", "x", "y")], r"node 0, ImageDecoder: there is no such operator"),
    ],
    ids=["unknown", "unread", "attribute", "shapes", "unsupported"],
)
def test_errors_name_the_node(nodes: list[object], message: str) -> None:
    with pytest.raises(GraphadError, match=message):
        onnx.load(model(nodes, {"x": ("float32", [2, 3])}, ["y"]))


def test_a_graph_in_itself_and_extents_that_are_too_large() -> None:
    proto = message("ModelProto")()
    proto.ParseFromString(model([node("F", "x", "y", "own")], {"x": ("float32", [1])}, ["y"], own=1))
    proto.functions.add(name="F", domain="own", input=["a"], output=["r"], node=[node("F", "a", "r", "own")])
    with pytest.raises(ParseError, match="more than 64 deep"):
        onnx.load(proto.SerializeToString())
    large = message("ModelProto")()
    large.ParseFromString(DENSE)
    large.graph.initializer[0].dims[:] = [1 << 40, 1 << 20]
    with pytest.raises(ParseError, match="a tensor has at most"):
        onnx.load(large.SerializeToString())


def test_changed_bytes_are_read_or_refused() -> None:
    rng = random.Random(0)
    for _ in range(400):
        data = bytearray(DENSE)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            onnx.load(bytes(data[: rng.randrange(1, len(data) + 1)] if rng.random() < 0.3 else data))
        except GraphadError:
            continue


def test_an_input_that_is_no_tensor_is_refused() -> None:
    proto = message("ModelProto")()
    proto.ParseFromString(DENSE)
    proto.graph.input.add(name="s").type.sequence_type.elem_type.tensor_type.elem_type = 1
    with pytest.raises(onnx.UnsupportedModel, match="input 's' is a sequence"):
        onnx.load(proto.SerializeToString())
    assert info("x", "float32", ["n"]).type.tensor_type.shape.dim[0].dim_param == "n"


# -- files that mean no good -----------------------------------------------------------------------


@pytest.mark.parametrize("name", made_up())
def test_files_that_ask_for_too_much_are_refused_or_read_in_no_time(name: str) -> None:
    start = time.process_time()  # other processes may take long
    answer = refusal(made_up()[name])
    assert answer == ("read" if name in ("no outputs", "deep", "huge product", "endless") else "ParseError")
    assert time.process_time() - start < SECONDS


def test_a_few_mutations_are_read_or_refused() -> None:
    assert {refusal(data) for data in mutations(300, seed=3)} >= {"read", "ParseError"}


# -- the same model said otherwise -----------------------------------------------------------------


def network() -> tuple[list[Any], dict[str, np.ndarray]]:
    """A small network with shapes at run time, and its weights."""
    rng = np.random.default_rng(3)
    weights = {name: rng.normal(size=shape).astype("float32") for name, shape in (("w", (3, 4)), ("b", (4,)), ("v", (2, 5)))}
    nodes = [
        node("Gemm", "x w b", "h"),
        node("Relu", "h", "r"),
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Concat", "n rest", "shape", axis=0),
        node("Reshape", "r shape", "p"),
        node("MatMul", "p v", "q"),
        node("Sigmoid", "q", "y"),
    ]
    return nodes, weights


NUMBERS = {"zero": np.array([0]), "rest": np.array([2, 2])}


def disguised() -> dict[str, bytes]:
    """The network with its weights elsewhere, in a branch, in a loop, and for other operator sets."""
    nodes, weights = network()
    x: Infos = {"x": ("float32", ["n", 3])}
    constants = [node("Constant", "", name, value=array) for name, array in NUMBERS.items()]
    plain = graph([*constants, *nodes], {}, ["y"])
    turn = graph(
        [node("Identity", "going", "more"), *constants, *nodes],
        {"i": ("int64", []), "going": ("bool", [])},
        ["more", "y"],
    )
    once = [node("Constant", "", "one", value=np.array(1)), node("Loop", "one -", "all", body=turn), node("Squeeze", "all axis", "y")]
    always = [node("ReduceMax", "x", "m", keepdims=0), node("Less", "m large", "c")]
    branch = node("If", "c", "y", then_branch=plain, else_branch=graph([*constants, *nodes[:-1], node("Tanh", "q", "y")], {}, ["y"]))
    return {
        "plain": model(nodes, x, ["y"], {**weights, **NUMBERS}),
        "constants": model(
            [*(node("Constant", "", name, value=array) for name, array in {**weights, **NUMBERS}.items()), *nodes], x, ["y"]
        ),
        "inputs": model(nodes, {**x, **{name: ("float32", array.shape) for name, array in weights.items()}}, ["y"], NUMBERS),
        "defaults": model(
            nodes, {**x, **{name: ("float32", array.shape) for name, array in weights.items()}}, ["y"], {**weights, **NUMBERS}
        ),
        "branch": model([*always, branch], x, ["y"], {**weights, "large": np.array(1e9, "float32")}, opset=13),
        "loop": model(once, x, ["y"], {**weights, "axis": np.array([0])}),
        "opset 13": model(nodes, x, ["y"], {**weights, **NUMBERS}, opset=13),
        "opset 22": model(nodes, x, ["y"], {**weights, **NUMBERS}, opset=22),
    }


@pytest.mark.parametrize("name", disguised())
@pytest.mark.parametrize("batch", [1, 4])
def test_the_same_model_said_otherwise_gives_the_same_numbers_and_gradients(name: str, batch: int) -> None:
    _, weights = network()
    x = np.random.default_rng(batch).normal(size=(batch, 3)).astype("float32")
    answers = []
    for each in ("plain", name):
        found = onnx.load(disguised()[each])
        fed = {"x": x, **{key: array for key, array in weights.items() if key in found.feed_names}}
        answers.append(onnx.gradients(found, ["x", "w", "b", "v"] if each != "constants" else ["x"]).run(fed))
        y = found.run(fed)[0]
        np.testing.assert_allclose(y, answers[-1][0], rtol=1e-6)
    for one, other in zip(*answers, strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


# -- running: what follows from weights alone is computed once ---------------------------------------


def prepared_types(found: onnx.OnnxModel) -> list[str]:
    """The operators of the program that ``run`` computes."""
    return [op.type for block in found.__dict__["_running"].program.blocks for op in block.ops]


def test_what_follows_from_weights_is_computed_once_and_the_program_stays() -> None:
    nodes = [
        node("Transpose", "w", "v", perm=[1, 0]),
        node("Mul", "v v", "vv"),
        node("Gemm", "x vv", "h", transB=1),
        node("Tanh", "h", "y"),
    ]
    found = onnx.load(model(nodes, {"x": ("float32", ["batch", 2])}, ["y"], {"w": W.T[:2, :3].copy()}))
    text = str(found.program)
    x = np.array([[0.5, -1.0]], "float32")
    plain = ga.Executor().run(found.program, {"x": x}, found.fetch_names, found.scope())
    for _ in range(3):
        np.testing.assert_allclose(found.run({"x": x})[0], plain[0], rtol=1e-6)
    assert str(found.program) == text
    assert "transpose" not in prepared_types(found)
    assert prepared_types(found).count("elementwise_mul") == 0


SCALE, SHIFT, MEAN = (np.asarray(numbers, "float32") for numbers in ([2.0, -0.5, 1.5], [1.0, 0.25, -2.0], [0.1, 0.2, 0.3]))


def normalized(w: Array, last: str = "Relu") -> bytes:
    """A convolution whose channels are put last, shifted and scaled there."""
    nodes = [
        node("Conv", "x w", "c"),
        node("Transpose", "c", "t", perm=[0, 2, 3, 1]),
        node("Sub", "t mean", "s"),
        node("Mul", "s scale", "m"),
        node("Add", "shift m", "z"),
        node(last, "z", "y"),
    ]
    return model(nodes, {"x": ("float32", ["n", 2, 4, 4])}, ["y"], {"w": w, "mean": MEAN, "scale": SCALE, "shift": SHIFT})


def test_scales_of_channels_go_into_the_weights_of_the_product() -> None:
    rng = np.random.default_rng(0)
    found = onnx.load(normalized(rng.normal(size=(3, 2, 3, 3)).astype("float32")))
    x = rng.normal(size=(2, 2, 4, 4)).astype("float32")
    plain = ga.Executor().run(found.program, {"x": x}, found.fetch_names, found.scope())
    np.testing.assert_allclose(found.run({"x": x})[0], plain[0], rtol=1e-5, atol=1e-6)
    assert sorted(prepared_types(found)) == ["assign", "conv2d", "elementwise_add", "relu", "transpose"]


def test_whole_numbers_are_not_scaled_since_their_sums_are_exact() -> None:
    found = onnx.load(normalized(np.ones((3, 2, 3, 3), "float32"), "Round"))
    x = np.random.default_rng(0).integers(0, 255, (2, 2, 4, 4)).astype("float32")
    plain = ga.Executor().run(found.program, {"x": x}, found.fetch_names, found.scope())
    assert (found.run({"x": x})[0] == plain[0]).all()
    assert "elementwise_mul" in prepared_types(found)


def test_weights_of_float16_are_widened_once() -> None:
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(30, 4)).astype("float16"), rng.normal(size=(2, 30)).astype("float16")
    found = onnx.load(model([node("MatMul", "x w", "y")], {"x": ("float16", ["n", 30])}, ["y"], {"w": w}))
    for _ in range(2):
        (y,) = found.run({"x": x})
        assert y.dtype == np.float16
        assert (y == (x.astype("float32") @ w.astype("float32")).astype("float16")).all()
    running = found.__dict__["_running"]
    assert {running.scope.get(name).dtype.name for name in running.scope.names()} == {"float32"}


def test_a_run_follows_changes_of_the_program() -> None:
    found = onnx.load(DENSE)
    for _ in range(3):
        before = found.run({"x": FLOATS})[0]
    tanh = next(op for op in found.program.global_block().ops if op.type == "tanh")
    tanh.type = "sin"
    np.testing.assert_allclose(found.run({"x": FLOATS})[0], np.sin(np.arctanh(before)), rtol=1e-5)


def test_inputs_that_nothing_reads_are_fed_all_the_same() -> None:
    found = onnx.load(model([node("Tanh", "x", "y")], {"x": ("float32", [2, 3]), "unread": ("float32", [2])}, ["y"]))
    np.testing.assert_allclose(found.run({"x": FLOATS, "unread": np.ones(2, "float32")})[0], np.tanh(FLOATS), rtol=1e-6)
    with pytest.raises(InvalidValue, match=r"feed 'unread' has shape \[3\]"):
        found.run({"x": FLOATS, "unread": np.ones(3, "float32")})


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_wide_unsigned_integers_are_read_moved_and_written(dtype: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'graphad[onnx-tests]'")
    nodes = [
        node("Gather", "table x", "g"),
        node("Concat", "g u", "c", axis=0),
        node("Where", "m c largest", "w"),
        node("Cast", "w", "f", to=11),
        node("Transpose", "w", "t", perm=[1, 0]),
    ]
    largest = np.asarray([[np.iinfo(dtype).max]], dtype)
    weights = {"table": np.arange(12).reshape(4, 3).astype(dtype), "largest": largest}
    found = onnx.load(model(nodes, {"x": ("int64", ["n"]), "u": (dtype, [2, 3]), "m": ("bool", [3])}, ["t", "f"], weights))
    assert ga.Program.parse(str(found.program)).global_block().var("u").dtype == dtype
    onnx.save(found, tmp_path / "m.onnx")
    fed = {"x": np.array([1, 3]), "u": np.arange(6).reshape(2, 3).astype(dtype), "m": np.array([True, False, True])}
    wanted = np.where(fed["m"], np.concatenate([weights["table"][fed["x"]], fed["u"]]), largest)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    for t, f in (found.run(fed), session.run(None, fed), onnx.load(tmp_path / "m.onnx").run(fed)):
        assert t.dtype == dtype
        assert (t == wanted.T).all()
        assert (f == wanted.astype("float64")).all()
