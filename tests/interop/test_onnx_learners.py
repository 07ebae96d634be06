"""Classical learners of ai.onnx.ml, integers of 4 bits and draws: against numbers that were worked out by hand or by another way."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphad.errors import GraphadError
from graphad.interop import onnx
from graphad.interop.onnx.arrays import to_array
from graphad.interop.onnx.schema import message
from tests.onnx_models import model, node

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)


def run(type: str, x: Array, outputs: str = "y", version: int = 3, **attrs: Any) -> list[Array]:
    data = model([node(type, "x", outputs, "ai.onnx.ml", **attrs)], {"x": (x.dtype.name, x.shape)}, outputs.split(), ai_onnx_ml=version)
    return onnx.load(data).run({"x": x})


def test_labels_are_values_of_keys_and_a_default() -> None:
    (y,) = run("LabelEncoder", np.array([[3, 4], [7, 5]]), keys_int64s=[3, 5, 7], values_floats=[0.5, 1.5, 2.5], default_float=9.0)
    assert (y.dtype, y.tolist()) == ("float32", [[0.5, 9.0], [2.5, 1.5]])
    keys: dict[str, Any] = {
        "keys_tensor": np.array([1.0, np.nan], "float32"),
        "values_tensor": np.array([10, 20]),
        "default_tensor": np.array([-5]),
    }
    (y,) = run("LabelEncoder", np.array([np.nan, 1.0, 2.0], "float32"), version=4, **keys)
    assert (y.dtype, y.tolist()) == ("int64", [20, 10, -5])


def test_trees_whose_leaves_have_numbers_of_their_own() -> None:
    # x0 <= 1: (x1 < 2: 10 to target 0, else 20 to target 1), else x1 > 3: 20 to target 1, else 40 to target 0.
    attrs: dict[str, Any] = {
        "tree_roots": [0],
        "nodes_modes": np.array([0, 1, 3], "uint8"),
        "nodes_featureids": [0, 1, 1],
        "nodes_splits": np.array([1.0, 2.0, 3.0], "float32"),
        "nodes_truenodeids": [1, 0, 1],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 2],
        "nodes_falseleafs": [0, 1, 1],
        "leaf_targetids": [0, 1, 0],
        "leaf_weights": np.array([10.0, 20.0, 40.0], "float32"),
        "n_targets": 2,
    }
    x = np.array([[1, 1.5], [0, 2], [1.5, 3.5], [2, 3]], "float32")
    (y,) = run("TreeEnsemble", x, version=5, aggregate_function=1, **attrs)
    assert y.tolist() == [[10, 0], [0, 20], [0, 20], [40, 0]]


SETS: dict[str, Any] = {
    # x <= 11: (in the first set: 1 to target 0, else in the second: 10 to target 1, else 100 to target 3), else 1000 to target 2.
    "tree_roots": [0],
    "nodes_modes": np.array([0, 6, 6], "uint8"),
    "nodes_featureids": [0, 0, 0],
    "nodes_splits": np.array([11.0, 232344.0, np.nan], "float32"),
    "nodes_truenodeids": [1, 0, 1],
    "nodes_trueleafs": [0, 1, 1],
    "nodes_falsenodeids": [2, 2, 3],
    "nodes_falseleafs": [1, 0, 1],
    "leaf_targetids": [0, 1, 2, 3],
    "leaf_weights": np.array([1.0, 10.0, 1000.0, 100.0], "float32"),
    "n_targets": 4,
}


@pytest.mark.parametrize("end", [[np.nan], []], ids=["ended", "open"])
def test_trees_that_test_membership_of_sets(end: list[float]) -> None:
    """Either each set has NaN at its end, as in the format's own example, or NaN stands between two."""
    members = np.array([1.2, 3.7, 8, 9, np.nan, 12, 7, *end], "float32")
    x = np.array([[1.2], [3.4], [9], [np.nan], [12], [7]], "float32")
    (y,) = run("TreeEnsemble", x, version=5, aggregate_function=1, membership_values=members, **SETS)
    assert y.tolist() == [[1, 0, 0, 0], [0, 0, 0, 100], [1, 0, 0, 0], [0, 0, 1000, 0], [0, 0, 1000, 0], [0, 10, 0, 0]]
    with pytest.raises(GraphadError, match="3 sets of membership_values for 2 nodes with BRANCH_MEMBER"):
        run("TreeEnsemble", x, version=5, membership_values=np.array([1, np.nan, 2, np.nan, 3], "float32"), **SETS)


@pytest.mark.parametrize(("shape", "wanted"), [([4], [[2, 0]]), ([2, 2], [[1, 0], [3, 2]])])
def test_places_of_the_last_axis(shape: list[int], wanted: list[list[int]]) -> None:
    """Of a vector they are a row, as the operator's reference has it."""
    places = np.array([2, 0] if len(shape) == 1 else [1, 0])
    found = model([node("ArrayFeatureExtractor", "x i", "y", "ai.onnx.ml")], {"x": ("int64", shape)}, ["y"], {"i": places}, ai_onnx_ml=1)
    assert onnx.load(found).run({"x": np.arange(4).reshape(shape)})[0].tolist() == wanted


HOLDS: dict[str, Callable[[float, float], bool]] = {
    "BRANCH_LEQ": operator.le,
    "BRANCH_LT": operator.lt,
    "BRANCH_GTE": operator.ge,
    "BRANCH_GT": operator.gt,
    "BRANCH_EQ": operator.eq,
    "BRANCH_NEQ": operator.ne,
}


def grown(rng: np.random.Generator, depth: int, tree: int, nodes: list[dict[str, Any]], leaves: list[dict[str, Any]]) -> int:
    """A tree of random shape and comparisons; the number of its root."""
    at = [each["treeids"] for each in nodes].count(tree)
    numbers = [0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    made: dict[str, Any] = dict.fromkeys(("truenodeids", "falsenodeids", "featureids", "missing_value_tracks_true"), 0)
    made |= {"treeids": tree, "nodeids": at, "modes": "LEAF", "values": 0.0}
    nodes.append(made)
    if depth == 0 or rng.random() < 0.2:
        leaves.append({"treeids": tree, "nodeids": at, "ids": int(rng.integers(2)), "weights": float(rng.integers(1, 1000))})
        return at
    made |= {"modes": str(rng.choice([*HOLDS])), "values": float(rng.choice(numbers)), "featureids": int(rng.integers(3))}
    made["missing_value_tracks_true"] = int(rng.integers(2))
    made["truenodeids"] = grown(rng, depth - 1, tree, nodes, leaves)
    made["falsenodeids"] = grown(rng, depth - 1, tree, nodes, leaves)
    return at


def walked(row: Array, nodes: list[dict[str, Any]], leaves: list[dict[str, Any]]) -> Array:
    """What the leaves give that a row ends in, node by node."""
    sums, by_place = np.zeros(2), {(each["treeids"], each["nodeids"]): each for each in nodes}
    for tree in {each["treeids"] for each in nodes}:
        at = by_place[tree, 0]
        while at["modes"] != "LEAF":
            x = row[at["featureids"]]
            holds = HOLDS[at["modes"]](x, float(np.float32(at["values"]))) or (np.isnan(x) and at["missing_value_tracks_true"])
            at = by_place[tree, at["truenodeids" if holds else "falsenodeids"]]
        for leaf in leaves:
            if (leaf["treeids"], leaf["nodeids"]) == (tree, at["nodeids"]):
                sums[leaf["ids"]] += leaf["weights"]
    return sums


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("features", [3, "f"])
def test_trees_of_all_comparisons_go_the_way_of_each_row(seed: int, features: int | str) -> None:
    rng, nodes, leaves = np.random.default_rng(seed), list[dict[str, Any]](), list[dict[str, Any]]()
    for tree in range(8):
        grown(rng, int(rng.integers(8)), tree, nodes, leaves)
    attrs: dict[str, Any] = {f"nodes_{name}": [each[name] for each in nodes] for name in nodes[0]}
    attrs |= {f"target_{name}": [each[name] for each in leaves] for name in leaves[0]}
    trees = node("TreeEnsembleRegressor", "x", "y", "ai.onnx.ml", n_targets=2, **attrs)
    found = onnx.load(model([trees], {"x": ("float32", ["n", features])}, ["y"], ai_onnx_ml=3))
    x = rng.choice(np.array([0, 1, -1, 0.5, np.inf, -np.inf, np.nan, 1e-45], "float32"), size=(200, 3))
    np.testing.assert_array_equal(found.run({"x": x})[0], [walked(row, nodes, leaves) for row in x])
    assert found.run({"x": x[:0]})[0].shape == (0, 2)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"nodes_featureids": [3, 0, 0]}, "a tree compares feature 3, and there are 3"),
        ({"nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"]}, "a tree with a cycle, or trees that share their nodes"),
    ],
)
def test_trees_that_are_none(changes: dict[str, Any], error: str) -> None:
    attrs: dict[str, Any] = {"nodes_featureids": [0, 0, 0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_treeids": [0, 0, 0]}
    attrs |= {"nodes_nodeids": [0, 1, 2], "nodes_truenodeids": [1, 1, 0], "nodes_falsenodeids": [2, 2, 0], "nodes_values": [0.0, 0.0, 0.0]}
    attrs |= {"target_treeids": [0], "target_nodeids": [1], "target_ids": [0], "target_weights": [1.0], **changes}
    trees = node("TreeEnsembleRegressor", "x", "y", "ai.onnx.ml", **attrs)
    with pytest.raises(GraphadError, match=error):
        onnx.load(model([trees], {"x": ("float32", ["n", 3])}, ["y"], ai_onnx_ml=3))


def test_a_softmax_that_leaves_zeros_out() -> None:
    attrs: dict[str, Any] = {
        "coefficients": [1.0, 0.0, 0.0, 1.0, 0.0, 0.0],
        "intercepts": [0.0, 0.0, 0.0],
        "classlabels_ints": [4, 5, 6],
        "post_transform": "SOFTMAX_ZERO",
    }
    labels, shares = run("LinearClassifier", np.array([[1, 2], [0, -3], [-1, 0]], "float32"), "labels shares", **attrs)
    assert labels.tolist() == [5, 4, 5]
    # Of the scores [1, 2, 0], [0, -3, 0] and [-1, 0, 0] those that are not 0 share the whole.
    expected = np.array([[1 / (1 + np.e), np.e / (1 + np.e), 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(shares, expected, rtol=1e-6)


@pytest.mark.parametrize("counts", [[2, 1], [2, 1, 2]])
def test_machines_of_pairs_of_classes_vote(counts: list[int]) -> None:
    total, pairs = sum(counts), [(i, j) for i in range(len(counts)) for j in range(i + 1, len(counts))]
    x, vectors = RNG.normal(size=(4, 3)).astype("float32"), RNG.normal(size=(total, 3)).astype("float32")
    weights, rho = RNG.normal(size=(len(counts) - 1, total)).astype("float32"), RNG.normal(size=len(pairs)).astype("float32")
    attrs: dict[str, Any] = {
        "coefficients": weights.ravel().tolist(),
        "support_vectors": vectors.ravel().tolist(),
        "rho": rho.tolist(),
        "vectors_per_class": counts,
        "kernel_type": "RBF",
        "kernel_params": [0.5, 0.0, 0.0],
        "classlabels_ints": [5 + i for i in range(len(counts))],
    }
    label, scores = run("SVMClassifier", x, "label scores", 1, **attrs)
    kernel = np.exp(-0.5 * ((x[:, None] - vectors) ** 2).sum(-1))
    ends = np.cumsum(counts)
    votes, wanted = np.zeros((len(x), len(counts))), np.zeros((len(x), len(pairs)))
    for row, (i, j) in enumerate(pairs):
        parts = [(i, weights[j - 1]), (j, weights[i])]
        wanted[:, row] = rho[row] + sum(kernel[:, ends[c] - counts[c] : ends[c]] @ w[ends[c] - counts[c] : ends[c]] for c, w in parts)
        votes[np.arange(len(x)), np.where(wanted[:, row] > 0, i, j)] += 1
    np.testing.assert_array_equal(label, 5 + votes.argmax(1))
    np.testing.assert_allclose(scores, np.hstack([-wanted, wanted]) if len(counts) == 2 else wanted, rtol=1e-4, atol=1e-5)


def coupled(r: Array) -> Array:
    """The probabilities of classes, of those of pairs: a system of linear equations (Wu, Lin and Weng, equation 15)."""
    count = len(r)
    q = np.diag((r**2).sum(0)) - r.T * r
    system = np.block([[q, np.ones((count, 1))], [np.ones((1, count)), np.zeros((1, 1))]])
    found: Array = np.linalg.solve(system, np.eye(count + 1)[-1])[:-1]
    return found


@pytest.mark.parametrize("count", [2, 3, 5])
def test_probabilities_of_support_vectors(count: int, tmp_path: Path) -> None:
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    x, vectors = RNG.normal(size=(6, 3)).astype("float32"), RNG.normal(size=(2 * count, 3)).astype("float32")
    weights = RNG.normal(size=(count - 1, 2 * count)).astype("float32")
    rho, a, b = RNG.normal(size=(3, len(pairs))).astype("float32")
    attrs: dict[str, Any] = {
        "coefficients": weights.ravel().tolist(),
        "support_vectors": vectors.ravel().tolist(),
        "rho": rho.tolist(),
        "vectors_per_class": [2] * count,
        "kernel_params": [0.0, 0.0, 0.0],
        "classlabels_ints": list(range(count)),
    }
    svm = node("SVMClassifier", "x", "label scores", "ai.onnx.ml", prob_a=a.tolist(), prob_b=b.tolist(), **attrs)
    found = onnx.load(model([svm], {"x": ("float32", ["n", 3])}, ["label", "scores"], ai_onnx_ml=1))
    (_, shares), scores = found.run({"x": x}), np.zeros((6, len(pairs)))
    for row, (i, j) in enumerate(pairs):
        machine = np.zeros(2 * count)
        machine[2 * i : 2 * i + 2], machine[2 * j : 2 * j + 2] = weights[j - 1, 2 * i : 2 * i + 2], weights[i, 2 * j : 2 * j + 2]
        scores[:, row] = x @ vectors.T @ machine + rho[row]
    for share, score in zip(shares, scores, strict=True):
        r = np.zeros((count, count))
        for (i, j), p in zip(pairs, 1 / (1 + np.exp(a * score + b)), strict=True):
            r[i, j], r[j, i] = p, 1 - p
        np.testing.assert_allclose(share, coupled(r), atol=0.02)  # libsvm's iteration stops at 0.005 / classes of the equations
    onnxruntime = pytest.importorskip("onnxruntime")
    gradients = onnx.gradients(found, wrt=["x"], of=["scores"])
    onnx.save(gradients, tmp_path / "gradients.onnx")
    onnx.save(found, tmp_path / "model.onnx")
    for each in (found, gradients):
        path = tmp_path / ("model.onnx" if each is found else "gradients.onnx")
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        for got, wanted in zip(session.run(None, {"x": x}), each.run({"x": x}), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    own = model([svm], {"x": ("float32", [6, 3])}, ["label", "scores"], ai_onnx_ml=1)
    label, wanted = onnxruntime.InferenceSession(_typed(own), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_array_equal(found.run({"x": x})[0], label)
    np.testing.assert_allclose(shares, wanted, rtol=1e-5, atol=1e-6)


def _typed(data: bytes) -> bytes:
    """The model with the types of its outputs, which onnxruntime needs of operators that the onnx package has no inference for."""
    made = onnx.model.parsed(data, "model")
    for each, kind in zip(made.graph.output, (7, 1), strict=True):
        each.type.tensor_type.elem_type = kind
    typed: bytes = made.SerializeToString()
    return typed


@pytest.mark.parametrize(("kind", "wanted"), [(21, [1, 15, 8]), (22, [1, -1, -8])])
@pytest.mark.parametrize("field", ["raw_data", "int32_data"])
def test_integers_of_four_bits_lie_two_in_a_byte(kind: int, wanted: list[int], field: str) -> None:
    data = {"raw_data": b"\xf1\x08"} if field == "raw_data" else {"int32_data": [0xF1, 0x08]}
    array = to_array(message("TensorProto")(name="w", data_type=kind, dims=[3], **data), None)
    assert (array.dtype.name, array.tolist()) == ({21: "uint8", 22: "int8"}[kind], wanted)


def test_draws_have_the_probabilities_of_their_logits() -> None:
    shares = np.array([[0.1, 0.6, 0.3]], "float32")
    data = model([node("Multinomial", "x", "y", sample_size=4000, dtype=7, seed=1.0)], {"x": ("float32", [1, 3])}, ["y"])
    (y,) = onnx.load(data).run({"x": np.log(shares)})
    assert (y.shape, y.dtype.name) == ((1, 4000), "int64")
    np.testing.assert_allclose(np.bincount(y[0], minlength=3) / 4000, shares[0], atol=0.04)  # five standard deviations
