"""Operators of ONNX that are several of graphad's: written as one while nothing changes them, differentiated one by one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.interop import onnx
from graphad.interop.onnx.schema import message
from graphad.program import Block
from graphad.types import Array
from tests.onnx_models import model, node

written: Any = pytest.importorskip("tests.interop.test_onnx_written", reason="onnx is not installed: pip install 'graphad[onnx-tests]'")

RNG = np.random.default_rng(3)
X = RNG.normal(size=(4, 2, 3)).astype("float32")
GATES = {name: RNG.normal(size=shape).astype("float32") for name, shape in (("w", (2, 8, 3)), ("r", (2, 8, 2)), ("b", (2, 16)))}
ZEROS = np.zeros((2, 2, 2), "float32")
LSTM = model(
    [
        node("Constant", "", "h0", value=np.zeros(8, "float32")),
        node("Constant", "", "c0", value=np.zeros(8, "float32")),
        node("Constant", "", "s", value=np.array([2, 2, 2])),
        node("Reshape", "h0 s", "h1"),
        node("Reshape", "c0 s", "c1"),
        node("LSTM", "x w r b - h1 c1", "y h c", hidden_size=2, direction="bidirectional", activations=["Sigmoid", "Tanh", "Relu"] * 2),
        node("Tanh", "h", "z"),
    ],
    {"x": ("float32", ["time", 2, 3])},
    ["y", "z"],
    GATES,
)
WEIGHTS = RNG.integers(-100, 100, (3, 5)).astype("int8")
INTEGERS = model(
    [
        node("DynamicQuantizeLinear", "x", "q s zero"),
        node("MatMulInteger", "q weights zero", "sums"),
        node("Cast", "sums", "floats", to=1),
        node("Mul", "floats s", "y"),
    ],
    {"x": ("float32", ["n", 4, 3])},
    ["y", "s"],
    {"weights": WEIGHTS},
)
TREE = {
    "n_targets": 1,
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [1, 0, 0],
    "nodes_values": [0.25, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [1.5, -2.0],
}
FOREST = model([node("TreeEnsembleRegressor", "x", "y", domain="ai.onnx.ml", **TREE)], {"x": ("float32", ["n", 3])}, ["y"], ai_onnx_ml=3)
MODELS: dict[str, tuple[bytes, Mapping[str, Array], list[str]]] = {
    "recurrent": (LSTM, {"x": X}, ["LSTM", "Tanh"]),
    "integers": (INTEGERS, {"x": X[:, :1].repeat(4, 1)}, ["DynamicQuantizeLinear", "MatMulInteger", "Cast", "Mul"]),
    "trees": (FOREST, {"x": X[:, 0]}, ["TreeEnsembleRegressor"]),
}


def types_of(path: Path) -> list[str]:
    """The operators of a file, without constants, in order; those of nested graphs are not there."""
    proto = message("ModelProto")()
    proto.ParseFromString(path.read_bytes())
    return [each.op_type for each in proto.graph.node if each.op_type != "Constant"]


@pytest.mark.parametrize("name", MODELS)
def test_an_operator_comes_back_as_itself_and_computes_the_same_to_the_last_bit(name: str, tmp_path: Path) -> None:
    data, feeds, types = MODELS[name]
    read = onnx.load(data)
    written.same(read, feeds, tmp_path)
    assert [each for each in types_of(tmp_path / "m.onnx") if each != "Reshape"] == types
    given = written.onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, dict(feeds))
    for one, other in zip(written.ran(tmp_path / "m.onnx", feeds), given, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", MODELS)
def test_passes_and_freezing_leave_it_in_one_piece(name: str, tmp_path: Path) -> None:
    data, feeds, types = MODELS[name]
    read = onnx.load(data)
    frozen, scope = ga.freeze(read.program, read.fetch_names, read.scope(), for_export=True)
    small = onnx.from_program(frozen, read.feed_names, read.fetch_names, scope)
    for got, wanted in zip(written.same(small, feeds, tmp_path), read.run(feeds), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    assert [each for each in types_of(tmp_path / "m.onnx") if each != "Reshape"] == types
    opened, _ = ga.freeze(read.program, read.fetch_names, read.scope())
    assert not any(op.type == "composite" for block in opened.blocks for op in block.ops)


def composite(read: onnx.OnnxModel) -> Any:
    (op,) = [op for op in read.program.global_block().ops if op.type == "composite"]
    return op


def operators(block: Block) -> list[Any]:
    inner = [value for op in block.ops for value in op.attrs.values() if isinstance(value, Block)]
    return [*block.ops, *(op for each in inner for op in operators(each))]


def test_what_is_changed_inside_is_written_as_it_is_now(tmp_path: Path) -> None:
    read = onnx.load(LSTM)
    before = read.run({"x": X})
    (activation, *_) = [op for op in operators(composite(read).attrs["sub_block"]) if op.type == "sigmoid"]
    activation.type = "tanh"
    changed = written.same(read, {"x": X}, tmp_path)
    assert "LSTM" not in types_of(tmp_path / "m.onnx")
    assert np.abs(changed[0] - before[0]).max() > 0.01


def test_operands_that_change_places_inside_are_seen(tmp_path: Path) -> None:
    read = onnx.load(LSTM)
    op = composite(read)
    one, other = op.inputs["Input"][-2:]  # the hidden state and the cell, of one type
    turned = {one: other, other: one}
    for inner in operators(op.attrs["sub_block"]):
        inner.inputs = {slot: [turned.get(name, name) for name in names] for slot, names in inner.inputs.items()}
    written.same(read, {"x": X}, tmp_path)
    assert "LSTM" not in types_of(tmp_path / "m.onnx")


def test_operands_that_are_one_value_are_no_change(tmp_path: Path) -> None:
    read = onnx.load(LSTM)
    op = composite(read)
    *_, one, other = op.inputs["Input"]
    for each in (op, *operators(op.attrs["sub_block"])):
        each.inputs = {slot: [one if name == other else name for name in names] for slot, names in each.inputs.items()}
    written.same(read, {"x": X}, tmp_path)
    assert "LSTM" in types_of(tmp_path / "m.onnx")


@pytest.mark.parametrize("name", MODELS)
def test_a_gradient_has_the_operators_one_by_one(name: str) -> None:
    data, feeds, _ = MODELS[name]
    read = onnx.load(data)
    gradients = onnx.gradients(read, ["x"], read.fetch_names[:1])
    assert not any(op.type == "composite" for block in gradients.program.blocks for op in block.ops)
    assert np.isfinite(gradients.run(feeds)[-1]).all()


def test_gradients_go_straight_through_the_rounding() -> None:
    x = X[:, :1].repeat(4, 1)
    found = onnx.gradients(onnx.load(INTEGERS), ["x"], ["y"]).run({"x": x})[-1]
    inside = (x > x.min()) & (x < x.max())  # the scale depends on the others
    np.testing.assert_allclose(found[inside], np.broadcast_to(WEIGHTS.sum(1), x.shape)[inside], rtol=1e-5)


def test_the_text_is_read_back_and_still_sealed(tmp_path: Path) -> None:
    read = onnx.load(LSTM)
    again = ga.Program.parse(str(read.program))
    onnx.save(again, tmp_path / "m.onnx", feed_names=["x"], fetch_list=read.fetch_names, scope=read.scope())
    assert "LSTM" in types_of(tmp_path / "m.onnx")


def test_a_version_that_the_file_does_not_have_is_written_in_parts(tmp_path: Path) -> None:
    newer = message("ModelProto")()
    newer.ParseFromString(LSTM)
    newer.opset_import[0].version = 22
    read = onnx.load(newer.SerializeToString())
    written.same(read, {"x": X}, tmp_path)
    assert "LSTM" not in types_of(tmp_path / "m.onnx")
    onnx.save(read, tmp_path / "new.onnx", opset=22)
    assert "LSTM" in types_of(tmp_path / "new.onnx")
