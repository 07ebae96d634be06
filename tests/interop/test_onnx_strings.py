"""Strings are moved, compared and looked up; maps are made at the end. Inside of a program they are numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphad.errors import GraphadError
from graphad.interop import onnx
from graphad.interop.onnx.schema import message
from tests.onnx_models import model, node

WORDS = np.array([["a", "bc"], ["bc", "ä"]], object)


def read(nodes: list[Any], outputs: str = "y", **inputs: Any) -> onnx.OnnxModel:
    """A model; an input whose dtype is ``str`` holds strings."""
    infos = {name: ("float32" if dtype == "str" else dtype, shape) for name, (dtype, shape) in inputs.items()}
    proto = message("ModelProto")()
    proto.ParseFromString(model(nodes, infos, outputs.split(), ai_onnx_ml=2))
    for info in proto.graph.input:
        if inputs[info.name][0] == "str":
            info.type.tensor_type.elem_type = 8
    return onnx.load(proto.SerializeToString())


def learner(type: str, inputs: str, outputs: str, **attrs: Any) -> Any:
    return node(type, inputs, outputs, "ai.onnx.ml", **attrs)


def test_strings_are_moved_and_compared() -> None:
    nodes = [
        node("Transpose", "x", "t"),
        node("Equal", "x t", "e"),
        node("Where", "e x w", "v"),
        node("Concat", "v t", "y", axis=0),
    ]
    found = read(nodes, "y e", x=("str", ["n", "n"]), w=("str", [1]))
    y, e = found.run({"x": WORDS, "w": np.array(["new"])})
    assert e.tolist() == [[True, True], [True, True]]
    assert y.tolist() == [*WORDS.tolist(), *WORDS.T.tolist()]
    y, e = found.run({"x": [["p", "q"], ["r", "s"]], "w": ["new"]})
    assert y.tolist() == [["p", "new"], ["new", "s"], ["p", "r"], ["q", "s"]]


def test_strings_are_looked_up_and_given() -> None:
    nodes = [
        learner("LabelEncoder", "x", "i", keys_strings=["a", "bc"], values_int64s=[3, 4]),
        learner("LabelEncoder", "i", "y", keys_int64s=[3], values_strings=["three"], default_string="none"),
        learner("CategoryMapper", "x", "c", cats_strings=["ä"], cats_int64s=[7]),
        learner("OneHotEncoder", "x", "h", cats_strings=["bc", "a"]),
    ]
    i, y, c, h = read(nodes, "i y c h", x=("str", [2, 2])).run({"x": WORDS})
    assert (i.tolist(), c.tolist()) == ([[3, 4], [4, -1]], [[-1, -1], [-1, 7]])
    assert y.tolist() == [["three", "none"], ["none", "none"]]
    assert h.tolist() == [[[0, 1], [1, 0]], [[1, 0], [0, 0]]]


def test_a_classifier_gives_its_labels_and_a_map_for_each_row(tmp_path: Path) -> None:
    nodes = [
        learner(
            "LinearClassifier", "x", "label scores", coefficients=[1.0, -1.0], intercepts=[0.0, 0.5], classlabels_strings=["no", "yes"]
        ),
        learner("ZipMap", "scores", "y", classlabels_strings=["no", "yes"]),
    ]
    found = read(nodes, "label y", x=("float32", ["n", 1]))
    label, maps = found.run({"x": np.array([[1.0], [-1.0]], "float32")})
    assert label.tolist() == ["no", "yes"]
    assert maps == [{"no": 1.0, "yes": -0.5}, {"no": -1.0, "yes": 1.5}]
    gradients = onnx.gradients(found, wrt=["x"])
    assert gradients.run({"x": np.ones((1, 1), "float32")})[:2] == [["no"], [{"no": 1.0, "yes": -0.5}]]
    for each in (found, gradients):
        same(each, {"x": np.array([[1.0], [-1.0]], "float32")}, tmp_path)


def same(found: onnx.OnnxModel, feeds: dict[str, Any], folder: Path) -> None:
    """Write a model: the checker accepts it, onnxruntime and the reader compute what it computes."""
    onnxruntime, checker = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx.checker")
    expected = found.run(feeds)
    onnx.save(found, folder / "written.onnx")
    checker.check_model(str(folder / "written.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(folder / "written.onnx", providers=["CPUExecutionProvider"])
    again = onnx.load(folder / "written.onnx")
    assert (again.feed_names, again.fetch_names) == (found.feed_names, found.fetch_names)
    for results in (session.run(None, feeds), again.run(feeds)):
        for got, wanted in zip(results, expected, strict=True):
            if isinstance(wanted, list):
                assert [sorted(row) for row in got] == [sorted(row) for row in wanted]
                np.testing.assert_allclose(
                    [[row[key] for key in sorted(row)] for row in got], [[row[key] for key in sorted(row)] for row in wanted]
                )
            elif wanted.dtype == object:
                assert np.asarray(got).tolist() == wanted.tolist()
            else:
                np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_strings_that_a_model_names_are_written(tmp_path: Path) -> None:
    nodes = [
        learner("LabelEncoder", "x", "i", keys_strings=["a", "bc"], values_int64s=[3, 4]),
        learner("LabelEncoder", "i", "y", keys_int64s=[3], values_strings=["three"], default_string="none"),
        learner("OneHotEncoder", "x", "h", cats_strings=["bc", "a"]),
        node("Gather", "x k", "g", axis=1),
        node("Equal", "g w", "e"),
        node("Shape", "g", "s"),
    ]
    constants = [node("Constant", "", "k", value=np.array([1])), node("Constant", "", "w", value_strings=["bc"])]
    found = read([*constants, *nodes], "i y h e s", x=("str", ["n", 2]))
    found.run({"x": np.array([["new", "a"]], object)})  # a string that was fed is not written
    for words in (WORDS, np.array([["p", "q"]], object)):
        same(found, {"x": words}, tmp_path)
    assert b"new" not in (tmp_path / "written.onnx").read_bytes()


def test_labels_of_trees_that_are_strings_are_written(tmp_path: Path) -> None:
    trees: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "class_treeids": [0] * 6,
        "class_nodeids": [1, 1, 1, 2, 2, 2],
        "class_ids": [0, 1, 2, 0, 1, 2],
        "class_weights": [0.5, 0.25, 0.25, 0.25, 0.0, 0.75],
        "classlabels_strings": ["low", "middle", "high"],
    }
    nodes = [
        learner("TreeEnsembleClassifier", "x", "label scores", **trees),
        learner("LabelEncoder", "label", "i", keys_strings=["high", "low"], values_int64s=[1, 2]),
        learner("ZipMap", "scores", "maps", classlabels_strings=["low", "middle", "high"]),
    ]
    for outputs in ("label maps i", "i"):
        found = read(nodes, outputs, x=("float32", ["n", 1]))
        same(found, {"x": np.array([[1.0], [-1.0]], "float32")}, tmp_path)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (node("Transpose", "x", "y"), "the output 'y' has strings that are fed, which are numbers inside of the model"),
        (node("Equal", "x z", "y"), "strings that are fed are compared with one another"),
    ],
)
def test_strings_that_are_fed_and_given_back_are_not_written(made: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(onnx.CannotWrite, match=message):
        onnx.save(read([made], x=("str", ["n", "n"]), z=("str", ["n", "n"])), tmp_path / "y.onnx")


def test_what_changes_strings_is_refused() -> None:
    with pytest.raises(GraphadError, match="node 0, Cast: of strings, which are only moved, compared and looked up"):
        read([node("Cast", "x", "y", to=1)], x=("str", [2]))
    found = read([node("Identity", "x", "y")], x=("str", [2]))
    with pytest.raises(TypeError, match="a string is expected, not 1"):
        found.run({"x": [1, 2]})
