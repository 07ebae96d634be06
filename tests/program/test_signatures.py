"""Operators that are alike are checked once: what that must not change."""

import pytest

import graphad as ga
from graphad import layers as L
from graphad import ops
from graphad.errors import ShapeError
from graphad.ops import REGISTRY
from graphad.ops.inference import same_float
from graphad.program import signatures
from graphad.types import Extent, TensorType


@pytest.fixture
def block() -> ga.Block:
    block = ga.Program().global_block()
    block.create_var("x", [2, 3], "float32")
    return block


def test_each_operator_has_a_list_of_its_own(block: ga.Block) -> None:
    shape = [3, 2]
    first, second = (block.append_op("reshape2", {"X": "x"}, {"Out": f"y{i}", "XShape": f"s{i}"}, {"shape": shape}) for i in range(2))
    shape.append(9)
    first.attrs["shape"].append(8)
    assert second.attrs["shape"] == [3, 2]


@pytest.mark.parametrize("value", [2, 2.0, True])
def test_a_value_is_stored_in_the_same_form_each_time(block: ga.Block, value: object) -> None:
    kinds = []
    for i in range(2):
        try:
            kinds.append(type(block.append_op("scale", {"X": "x"}, {"Out": f"y{i}"}, {"scale": value}).attrs["scale"]))
        except TypeError:
            kinds.append(TypeError)
    assert kinds == [TypeError if value is True else float] * 2


def test_a_negative_zero_stays_one_after_a_zero(block: ga.Block) -> None:
    attrs = [block.append_op("scale", {"X": "x"}, {"Out": f"y{i}"}, {"bias": bias}).attrs for i, bias in enumerate((0.0, -0.0, 0.0))]
    assert [str(each["bias"]) for each in attrs] == ["0.0", "-0.0", "0.0"]


def test_extents_of_different_names_are_not_alike() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        results = [L.relu(L.data(f"x{i}", [extent, 3])) for i, extent in enumerate((None, "batch", "length", "batch"))]
    assert [str(var.shape[0]) for var in results] == ["-1", "batch", "length", "batch"]
    assert results[1].shape[0] is Extent("batch")


def test_the_second_mistake_is_refused_like_the_first(block: ga.Block) -> None:
    block.create_var("narrow", [2], "float32")
    block.append_op("elementwise_add", {"X": "x", "Y": "x"}, {"Out": "y"})
    messages = []
    for name in ("a", "a"):
        with pytest.raises(ShapeError) as caught:
            block.append_op("elementwise_add", {"X": "x", "Y": "narrow"}, {"Out": name})
        messages.append(str(caught.value).partition("\n  written")[0])
    assert messages[0] == messages[1]
    assert "narrow" in messages[0]
    assert [op.type for op in block.ops] == ["elementwise_add"]


def test_outputs_need_names_of_their_own_the_second_time(block: ga.Block) -> None:
    block.append_op("split", {"X": "x"}, {"Out": ["a", "b", "c"]}, {"axis": 1, "num": 3})
    with pytest.raises(ValueError, match="writes 'd' twice"):
        block.append_op("split", {"X": "x"}, {"Out": ["d", "e", "d"]}, {"axis": 1, "num": 3})


def test_a_name_written_again_keeps_its_declaration(block: ga.Block) -> None:
    block.create_var("y", [3, 3], "float32")
    block.append_op("relu", {"X": "x"}, {"Out": "z"})
    with pytest.raises(ShapeError, match="declared as"):
        block.append_op("relu", {"X": "x"}, {"Out": "y"})


def test_inference_is_asked_once_for_each_signature_and_forgets_after_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def infer(X: TensorType) -> TensorType:
        asked.append(X)
        return same_float(X)

    definition = ops.operator("X -> Out", name="counted_in_signatures", infer=infer, grad=None)(lambda X: X)
    monkeypatch.setattr(signatures, "_MOST", 2)
    block = ga.Program().global_block()
    try:
        for i, shape in enumerate(([2], [2], [3], [2], [4], [2])):
            block.create_var(f"x{i}", shape, "float32")
            block.append_op(definition.type, {"X": f"x{i}"}, {"Out": f"y{i}"})
    finally:
        del REGISTRY[definition.type]
    assert [type.shape for type in asked] == [(2,), (3,), (4,), (2,)]
    assert [block.var(f"y{i}").shape for i in range(6)] == [(2,), (2,), (3,), (2,), (4,), (2,)]


def test_a_block_given_by_its_index_is_one_of_each_program() -> None:
    for _ in range(2):
        program = ga.Program()
        inner = program.create_block(0)
        program.rollback()
        block = program.global_block()
        block.create_var("go", [1], "bool")
        op = block.append_op("conditional_block", {"Cond": "go"}, {}, {"sub_block": inner.idx})
        assert op.attrs["sub_block"] is inner
