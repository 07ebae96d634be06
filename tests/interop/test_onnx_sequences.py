"""Sequences of tensors: lists where their length is known at load, arrays of the program where a run knows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphad.errors import GraphadError
from graphad.interop import onnx
from tests.onnx_models import graph, model, node

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'graphad[onnx-tests]'")
Array = np.ndarray[Any, Any]
X = np.array([[0.5, -1.0, 2.0], [0.25, 0.5, -0.75]], "float32")
TYPES: dict[str, Any] = {"x": ("float32", ["rows", 3]), "n": ("int64", [])}
STEP: dict[str, Any] = {"i": ("int64", []), "going": ("bool", []), "s": ("float32", [])}
GOES_ON = node("Identity", "going", "more")
YES = {"yes": np.array(True), "zero": np.array(0), "last": np.array(-1)}


def loop(*nodes: Any, inputs: str, outputs: str, more: str = "t") -> Any:
    """A Loop of ``n`` iterations that carries a sequence, ``s`` before an iteration."""
    return node("Loop", f"n yes {inputs}", outputs, body=graph([GOES_ON, *nodes], STEP, ["more", *more.split()]))


def read(nodes: list[Any], outputs: str = "y") -> onnx.OnnxModel:
    return onnx.load(model(nodes, TYPES, outputs.split(), YES))


def check(found: onnx.OnnxModel, wanted: Array, slope: Array, feeds: dict[str, Any], folder: Path) -> None:
    """The output and its gradient by x; what is written of them and run by onnxruntime, and what is read again."""
    gradients = onnx.gradients(found, wrt=["x"])
    onnx.save(found, folder / "again.onnx")
    onnx.save(gradients, folder / "gradients.onnx")
    session = onnxruntime.InferenceSession(folder / "gradients.onnx")
    for y, dx in (gradients.run(feeds), session.run(None, feeds), onnx.load(folder / "gradients.onnx").run(feeds)):
        np.testing.assert_allclose(y, wanted, rtol=1e-6)
        np.testing.assert_allclose(dx, slope, rtol=1e-5)
    np.testing.assert_allclose(onnx.load(folder / "again.onnx").run(feeds)[0], wanted, rtol=1e-6)


@pytest.mark.parametrize("n", [1, 3])
def test_a_loop_collects_as_many_tensors_as_a_run_says(n: int, tmp_path: Path) -> None:
    body = [node("Cast", "i", "f", to=1), node("Mul", "x f", "p"), node("SequenceInsert", "s p", "t")]
    found = read([node("SequenceEmpty", "", "e"), loop(*body, inputs="e", outputs="z"), node("ConcatFromSequence", "z", "y", axis=0)])
    factors = np.repeat(np.arange(n, dtype="float32"), len(X))[:, None]
    check(found, np.tile(X, (n, 1)) * factors, np.full_like(X, sum(range(n))), {"x": X, "n": np.array(n)}, tmp_path)


def test_a_loop_without_a_round_gives_a_sequence_without_tensors() -> None:
    body = [node("SequenceInsert", "s x", "t")]
    found = read([node("SequenceEmpty", "", "e"), loop(*body, inputs="e", outputs="z"), node("SequenceLength", "z", "y")])
    assert found.run({"x": X, "n": np.array(0)})[0] == 0
    assert found.run({"x": X, "n": np.array(2)})[0] == 2


def test_a_loop_reads_what_it_collected(tmp_path: Path) -> None:
    body = [node("SequenceAt", "s last", "a"), node("Mul", "a x", "p"), node("SequenceInsert", "s p", "t")]
    nodes = [node("SequenceConstruct", "x", "e"), loop(*body, inputs="e", outputs="z"), node("SequenceAt", "z last", "y")]
    check(read(nodes), X**4, 4 * X**3, {"x": X, "n": np.array(3)}, tmp_path)


def test_rows_of_an_open_extent_are_taken_by_the_number_of_the_iteration(tmp_path: Path) -> None:
    body = [node("SequenceAt", "rows i", "r"), node("Mul", "r r", "q"), node("SequenceInsert", "s q", "t")]
    nodes = [
        node("SplitToSequence", "x", "rows", axis=0, keepdims=0),
        node("SequenceEmpty", "", "e"),
        loop(*body, inputs="e", outputs="z"),
        node("ConcatFromSequence", "z", "y", axis=0, new_axis=1),
    ]
    check(read(nodes), X**2, 2 * X, {"x": X, "n": np.array(2)}, tmp_path)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_graph_is_applied_to_each_row_of_an_open_extent(keepdims: int, tmp_path: Path) -> None:
    body = graph([node("Exp", "a", "b")], {"a": ("float32", [3])}, ["b"])
    nodes = [
        node("SplitToSequence", "x", "rows", axis=0, keepdims=keepdims),
        node("SequenceMap", "rows", "z", body=body),
        node("ConcatFromSequence", "z", "y", axis=0, new_axis=1 - keepdims),
    ]
    found = onnx.load(model(nodes, {"x": TYPES["x"]}, ["y"]))
    check(found, np.exp(X), np.exp(X), {"x": X}, tmp_path)


def test_a_carried_tensor_whose_open_extent_grows_keeps_no_name(tmp_path: Path) -> None:
    body = [node("Mul", "s s", "q"), node("Concat", "s q", "t", axis=0)]
    found = read([loop(*body, inputs="x", outputs="y")])
    assert [str(extent) for extent in found.program.global_block().var("y").shape] == ["-1", "3"]
    check(found, np.concatenate([X, X**2, X**2, X**4]), 1 + 4 * X + 4 * X**3, {"x": X, "n": np.array(2)}, tmp_path)


@pytest.mark.parametrize("choice", [True, False])
def test_branches_give_sequences_of_different_lengths(choice: bool, tmp_path: Path) -> None:
    three, one = [node("SequenceConstruct", "x x x", "r")], [node("Neg", "x", "m"), node("SequenceConstruct", "m", "r")]
    branches = {"then_branch": graph(three, {}, ["r"]), "else_branch": graph(one, {}, ["r"])}
    nodes = [node("If", "c", "z", **branches), node("ConcatFromSequence", "z", "y", axis=0)]
    found = onnx.load(model(nodes, {"x": TYPES["x"], "c": ("bool", [])}, ["y"]))
    wanted, slope = (np.tile(X, (3, 1)), 3.0) if choice else (-X, -1.0)
    check(found, wanted, np.full_like(X, slope), {"x": X, "c": np.array(choice)}, tmp_path)


def test_an_output_may_be_a_sequence(tmp_path: Path) -> None:
    nodes = [node("Exp", "x", "e"), node("SequenceConstruct", "x e", "y"), node("Neg", "x", "z")]
    found = onnx.load(model(nodes, {"x": TYPES["x"]}, ["y", "z"]))
    onnx.save(found, tmp_path / "again.onnx")
    for each in (found, onnx.load(tmp_path / "again.onnx")):
        (one, other), z = each.run({"x": X})
        np.testing.assert_array_equal(one, X)
        np.testing.assert_allclose(other, np.exp(X), rtol=1e-6)
        np.testing.assert_array_equal(z, -X)
    np.testing.assert_array_equal(onnx.gradients(found).run({"x": X})[-1], np.full_like(X, -1.0))  # of the outputs that are tensors


@pytest.mark.parametrize(
    ("place", "order"), [("zero", [3, 2, 1, 0]), ("last", [1, 2, 3, 0]), ("i", [1, 2, 3, 0])], ids=["first", "last but one", "computed"]
)
def test_a_tensor_is_inserted_at_a_place(place: str, order: list[int], tmp_path: Path) -> None:
    """One tensor is there, the first times one; what iteration i inserts is x**2 times i + 1."""
    body = [node("Cast", "i", "f", to=1), node("Add", "f one", "k"), node("Mul", "q k", "p"), node("SequenceInsert", f"s p {place}", "t")]
    constant = node("Constant", "", "one", value=np.array(1.0, "float32"))
    nodes = [constant, node("Mul", "x x", "q"), node("SequenceConstruct", "x", "e"), loop(*body, inputs="e", outputs="z")]
    found = read([*nodes, node("ConcatFromSequence", "z", "y", axis=0)])
    tensors = [X, X**2, 2 * X**2, 3 * X**2]  # by numbers: what is there at first, and what each iteration inserts
    check(found, np.concatenate([tensors[i] for i in order]), 1 + 12 * X, {"x": X, "n": np.array(3)}, tmp_path)


LEFT = {"": [1, 2, 3], " last": [1, 2, 3], " zero": [3, 4, 5], " i": [2, 4, 5]}


@pytest.mark.parametrize("place", LEFT)
def test_a_loop_erases_tensors(place: str, tmp_path: Path) -> None:
    """Of x times 1 to 5 two are erased."""
    collect = [node("Cast", "i", "f", to=1), node("Add", "f one", "k"), node("Mul", "x k", "p"), node("SequenceInsert", "s p", "t")]
    erase = [node("SequenceErase", f"s{place}", "t")]
    nodes = [
        node("Constant", "", "one", value=np.array(1.0, "float32")),
        node("Constant", "", "two", value=np.array(2)),
        node("SequenceEmpty", "", "e"),
        loop(*collect, inputs="e", outputs="c"),
        node("Loop", "two yes c", "d", body=graph([GOES_ON, *erase], STEP, ["more", "t"])),
        node("ConcatFromSequence", "d", "y", axis=0),
    ]
    left = LEFT[place]
    slopes = np.full_like(X, sum(left))
    check(read(nodes), np.concatenate([X * k for k in left]), slopes, {"x": X, "n": np.array(5)}, tmp_path)


def test_what_loops_keep_as_sequences_is_read_again(tmp_path: Path) -> None:
    """Rows of other extents in each iteration: the gradient takes them off one after the other."""
    body = [node("Mul", "s s", "q"), node("Concat", "s q", "t", axis=0)]
    gradients = onnx.gradients(read([loop(*body, inputs="x", outputs="y")]), wrt=["x"])
    onnx.save(gradients, tmp_path / "gradients.onnx")
    assert b"SequenceErase" in (tmp_path / "gradients.onnx").read_bytes()
    again, feeds = onnx.load(tmp_path / "gradients.onnx"), {"x": X, "n": np.array(2)}
    for found, wanted in zip(again.run(feeds), gradients.run(feeds), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_conditions_that_a_loop_keeps_as_a_sequence_are_booleans(tmp_path: Path) -> None:
    grow, turn = [node("Mul", "s s", "q"), node("Concat", "s q", "r", axis=0)], [node("Neg", "s", "r")]
    branches = {"then_branch": graph(grow, {}, ["r"]), "else_branch": graph(turn, {}, ["r"])}
    body = [node("Equal", "i zero", "first"), node("If", "first", "t", **branches)]
    found = read([loop(*body, inputs="x", outputs="y")])
    check(found, np.concatenate([-X, -(X**2)]), -1 - 2 * X, {"x": X, "n": np.array(2)}, tmp_path)


def test_a_sequence_of_empty_tensors_is_filled_by_a_loop() -> None:
    """Before the loop its tensors have no elements, after each iteration one more has: Size is what the run finds."""
    empty = node("Constant", "", "none", value=np.zeros((0, 3), "float32"))
    body = [node("SequenceAt", "s zero", "a"), node("Concat", "a x", "b", axis=0), node("SequenceErase", "s zero", "r")]
    nodes = [empty, node("SequenceConstruct", "none none", "e"), loop(*body, node("SequenceInsert", "r b", "t"), inputs="e", outputs="z")]
    found = read([*nodes, node("SequenceAt", "z last", "l"), node("Size", "l", "y")])
    assert found.run({"x": X, "n": np.array(3)})[0] == 2 * X.size


def test_what_is_not_read_of_sequences_says_so() -> None:
    wrong = model([node("SequenceConstruct", "x", "e"), node("Exp", "e", "y")], {"x": TYPES["x"]}, ["y"])
    with pytest.raises(GraphadError, match="node 1, Exp: a sequence, where a tensor is expected"):
        onnx.load(wrong)
