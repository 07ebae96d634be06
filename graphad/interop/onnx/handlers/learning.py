"""Classical learners (domain ai.onnx.ml): scalers, encoders, linear models, support vectors, ensembles of trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphad.interop.onnx.handlers.handler import ML, Node, handles
from graphad.interop.onnx.operands import UnsupportedModel, Value

Numbers = np.ndarray[tuple[int, ...], np.dtype[np.generic]]


def _single(node: Node, x: Value) -> Value:
    return x if x.dtype == "float32" else node.ops.cast(x, out_dtype="float32")


@handles("Scaler", domain=ML)
def _scaler(node: Node) -> Value:
    x = _single(node, node[0])
    offset, scale = (Value(np.asarray(node.attr(name, [default]), "float32")) for name, default in (("offset", 0.0), ("scale", 1.0)))
    return node.ops.elementwise_mul(node.ops.elementwise_sub(x, offset), scale)


@handles("Normalizer", domain=ML)
def _normalizer(node: Node) -> Value:
    x, ops, kind = _single(node, node[0]), node.ops, str(node.attr("norm", "MAX"))
    axis = [x.rank - 1]
    if kind == "MAX":
        size = ops.reduce_max(ops.abs(x), dim=axis, keep_dim=True)
    elif kind == "L1":
        size = ops.reduce_sum(ops.abs(x), dim=axis, keep_dim=True)
    else:
        size = ops.frobenius_norm(x, dim=axis, keep_dim=True)
    return ops.elementwise_div(x, size)


@handles("Imputer", domain=ML)
def _imputer(node: Node) -> Value:
    """A number in place of each element that is missing: NaN, or one that says so."""
    x, ops = node[0], node.ops
    kind = "float" if x.is_float else "int64"
    missing, numbers = node.attr(f"replaced_value_{kind}", 0), node.required(f"imputed_value_{kind}s")
    is_missing = ops.isnan_v2(x) if missing != missing else ops.equal(x, ops.like(missing, x))
    return ops.where(is_missing, Value(np.asarray(numbers, x.dtype)), x)


@handles("FeatureVectorizer", domain=ML)
def _vectorizer(node: Node) -> Value:
    parts = [_single(node, node[i]) for i in range(len(node.inputs))]
    return node.ops.concat(parts, axis=1) if len(parts) > 1 else parts[0]


@handles("OneHotEncoder", domain=ML)
def _encoder(node: Node) -> Value:
    """A category that is not listed has zeros."""
    if "cats_int64s" not in node.attrs:
        raise UnsupportedModel("categories that are strings")
    x, ops = node.ops.cast(node[0], out_dtype="int64"), node.ops
    categories = Value(np.asarray(node.attrs["cats_int64s"], "int64"))
    return ops.cast(ops.equal(ops.unsqueeze(x, axes=[x.rank]), categories), out_dtype="float32")


@handles("Binarizer", domain=ML)
def _binarizer(node: Node) -> Value:
    x = node[0]
    mask = node.ops.greater_than(x, node.ops.like(float(node.attr("threshold", 0.0)), x))
    return node.ops.cast(mask, out_dtype=x.dtype)


@handles("ArrayFeatureExtractor", domain=ML)
def _extract(node: Node) -> Value:
    return node.ops.gather(node[0], node.ops.reshape(node[1], shape=[-1]), axis=node[0].rank - 1)


@handles("LinearRegressor", domain=ML)
def _linear_regressor(node: Node) -> Value:
    x, targets = _single(node, node[0]), int(node.attr("targets", 1))
    weights = np.asarray(node.required("coefficients"), "float32").reshape(targets, -1)
    out = node.ops.matmul_v2(x, Value(weights), trans_y=True)
    if "intercepts" in node.attrs:
        out = node.ops.elementwise_add(out, Value(np.asarray(node.attrs["intercepts"], "float32")))
    return _transformed(node, out)


@handles("SVMRegressor", domain=ML)
def _support_vector_regressor(node: Node) -> Value:
    """A sum of kernels between a row and the support vectors (C. Cortes, V. Vapnik, 1995); without these, a linear model."""
    x, ops = _single(node, node[0]), node.ops
    coefficients = np.asarray(node.required("coefficients"), "float32").reshape(1, -1)
    count = int(node.attr("n_supports", 0))
    similar = _kernel(node, x, np.asarray(node.required("support_vectors"), "float32").reshape(count, -1)) if count else x
    out = ops.matmul_v2(similar, Value(coefficients), trans_y=True)
    out = ops.elementwise_add(out, Value(np.asarray(node.attr("rho", [0.0])[:1], "float32")))
    if node.attr("one_class", 0):
        out = ops.where(ops.greater_than(out, ops.like(0.0, out)), ops.like(1.0, out), ops.like(-1.0, out))
    return _transformed(node, out)


def _kernel(node: Node, x: Value, vectors: Numbers) -> Value:
    """How similar each row is to each vector."""
    ops, kind = node.ops, str(node.attr("kernel_type", "LINEAR"))
    gamma, shift, degree = (float(number) for number in node.attr("kernel_params", [0.0, 0.0, 0.0]))
    if kind == "RBF":
        differences = ops.elementwise_sub(ops.unsqueeze(x, axes=[1]), Value(vectors))
        return ops.exp(ops.scale(ops.reduce_sum(ops.square(differences), dim=[2], keep_dim=False), scale=-gamma))
    product = ops.matmul_v2(x, Value(vectors), trans_y=True)
    if kind == "LINEAR":
        return product
    inner = ops.scale(product, scale=gamma, bias=shift)
    if kind not in ("POLY", "SIGMOID"):
        raise UnsupportedModel(f"kernel_type {kind!r}")
    return ops.pow(inner, factor=degree) if kind == "POLY" else ops.tanh(inner)


@handles("LinearClassifier", domain=ML)
def _linear_classifier(node: Node) -> list[Value]:
    x = _single(node, node[0])
    labels = _labels(node)
    weights = np.asarray(node.required("coefficients"), "float32").reshape(len(node.attr("intercepts", [0.0])), -1)
    scores = node.ops.matmul_v2(x, Value(weights), trans_y=True)
    scores = node.ops.elementwise_add(scores, Value(np.asarray(node.attr("intercepts", [0.0]), "float32")))
    return _classified(node, scores, labels)


def _labels(node: Node) -> Numbers:
    if node.attr("classlabels_strings"):
        raise UnsupportedModel("labels that are strings")
    result = node.attr("classlabels_int64s") or node.attr("classlabels_ints") or []
    return np.asarray(result, "int64")


def _classified(node: Node, scores: Value, labels: Numbers) -> list[Value]:
    """The label of the best score, and the scores."""
    ops = node.ops
    if scores.shape[-1] == 1 and len(labels) == 2:
        scores = ops.concat([ops.scale(scores, scale=-1.0), scores], axis=1)
    label = ops.gather(Value(labels), ops.arg_max(scores, axis=1), axis=0)
    return [label, _transformed(node, scores)]


def _transformed(node: Node, x: Value) -> Value:
    transform, ops = str(node.attr("post_transform", "NONE")), node.ops
    if transform == "NONE":
        return x
    if transform == "LOGISTIC":
        out = ops.sigmoid(x)
    elif transform in ("SOFTMAX", "SOFTMAX_ZERO"):
        out = ops.softmax(x, axis=-1)
    else:
        raise UnsupportedModel(f"post_transform {transform!r}")
    return out


# -- trees ---------------------------------------------------------------------------------------


@dataclass
class _Trees:
    """The nodes of all trees in one table; a leaf leads to itself."""

    feature: Numbers
    threshold: Numbers
    missing: Numbers
    yes: Numbers
    no: Numbers
    weights: Numbers
    roots: Numbers
    depth: int
    modes: Numbers


_COMPARISONS = {
    "BRANCH_LEQ": "less_equal",
    "BRANCH_LT": "less_than",
    "BRANCH_GTE": "greater_equal",
    "BRANCH_GT": "greater_than",
    "BRANCH_EQ": "equal",
    "BRANCH_NEQ": "not_equal",
}


def _trees(node: Node, of: str, count: int) -> _Trees:
    trees, ids = node.required("nodes_treeids"), node.required("nodes_nodeids")
    number = {key: i for i, key in enumerate(zip(trees, ids, strict=True))}
    modes = [str(item) for item in node.required("nodes_modes")]
    unknown = sorted({mode for mode in modes if mode != "LEAF" and mode not in _COMPARISONS})
    if unknown:
        raise UnsupportedModel(f"trees with comparisons {', '.join(unknown)}")
    # Leaves lead to themselves, so that all rows take as many steps as the deepest tree has, and no step has a condition.
    indices = np.arange(len(modes))
    leaf = np.asarray([mode == "LEAF" for mode in modes])
    yes, no = (
        np.where(
            leaf, indices, [0 if is_leaf else number[tree, to] for tree, to, is_leaf in zip(trees, node.required(name), leaf, strict=True)]
        )
        for name in ("nodes_truenodeids", "nodes_falsenodeids")
    )
    weights = np.zeros((len(modes), count), "float32")
    names = (f"{of}_treeids", f"{of}_nodeids", f"{of}_ids", f"{of}_weights")
    for tree, at, target, weight in zip(*(node.required(name) for name in names), strict=True):
        weights[number[tree, at], target] += weight
    missing_flags = np.asarray(node.attr("nodes_missing_value_tracks_true") or [0] * len(modes), bool)
    # The format does not mark roots: they are the nodes that no branch leads to.
    children = {*yes[~leaf].tolist(), *no[~leaf].tolist()}
    roots = np.asarray([i for i in range(len(modes)) if i not in children])
    values = np.asarray(node.required("nodes_values"), "float32")
    features = np.asarray(node.required("nodes_featureids"), "int64")
    return _Trees(features, values, missing_flags, yes, no, weights, roots, _depth(yes, no, roots), np.asarray(modes))


def _depth(yes: Numbers, no: Numbers, roots: Numbers) -> int:
    at, depth = np.unique(roots), 0
    while True:
        # Leaves lead to themselves: where a step leads nowhere new, all are leaves.
        after = np.unique(np.concatenate([yes[at], no[at]]))
        if np.array_equal(after, at):
            return depth
        at, depth = after, depth + 1
        if depth > len(yes):
            raise UnsupportedModel("a tree with a cycle")


def _leaves(node: Node, x: Value, trees: _Trees) -> Value:
    """The sum over the trees of the weights of the leaf that each row of x ends in: as many steps as the trees are deep."""
    ops = node.ops
    count = len(trees.roots)
    # Zeros for each row: 0 times the feature would be NaN where that is missing or infinite.
    rows = ops.fill_any_like(ops.slice(x, axes=[1], starts=[0], ends=[1]), value=0.0, dtype="int64")
    at = ops.elementwise_add(rows, Value(trees.roots.astype("int64").reshape(1, count)))

    def looked_up(table: Numbers, places: Value) -> Value:
        return ops.reshape_like(ops.gather(Value(table), ops.reshape(places, shape=[-1]), axis=0), places)

    for _ in range(trees.depth):
        value = ops.take_along_axis(x, looked_up(trees.feature, at), Axis=1)
        threshold = looked_up(trees.threshold, at)
        kinds = [kind for kind in _COMPARISONS if kind in trees.modes] or ["BRANCH_LEQ"]
        goes = ops.one(_COMPARISONS[kinds[0]], value, threshold)
        for kind in kinds[1:]:
            goes = ops.where(looked_up(trees.modes == kind, at), ops.one(_COMPARISONS[kind], value, threshold), goes)
        if trees.missing.any():
            goes = ops.logical_or(goes, ops.logical_and(ops.isnan_v2(value), looked_up(trees.missing, at)))
        at = ops.where(goes, looked_up(trees.yes.astype("int64"), at), looked_up(trees.no.astype("int64"), at))
    result = ops.gather(Value(trees.weights), ops.reshape(at, shape=[-1]), axis=0)
    return ops.reduce_sum(ops.reshape(result, shape=[-1, count, trees.weights.shape[1]]), dim=[1], keep_dim=False)


@handles("TreeEnsembleRegressor", domain=ML)
def _tree_regressor(node: Node) -> Value:
    x = _single(node, node[0])
    trees = _trees(node, "target", int(node.attr("n_targets", 1)))
    out = _leaves(node, x, trees)
    aggregate = str(node.attr("aggregate_function", "SUM"))
    if aggregate == "AVERAGE":
        out = node.ops.scale(out, scale=1.0 / len(trees.roots))
    elif aggregate != "SUM":
        raise UnsupportedModel(f"aggregate_function {aggregate!r}")
    if "base_values" in node.attrs:
        out = node.ops.elementwise_add(out, Value(np.asarray(node.attrs["base_values"], "float32")))
    return _transformed(node, out)


@handles("TreeEnsembleClassifier", domain=ML)
def _tree_classifier(node: Node) -> list[Value]:
    x = _single(node, node[0])
    labels = _labels(node)
    targets = sorted(set(node.required("class_ids")))
    # Two labels with the scores of one class alone: the other's score is 1 - p of a probability, -p of a score before its transform.
    binary = len(labels) == 2 and len(targets) == 1
    trees = _trees(node, "class", max(len(labels), max(targets) + 1))
    scores = _leaves(node, x, trees)
    if "base_values" in node.attrs:
        scores = node.ops.elementwise_add(scores, Value(np.asarray(node.attrs["base_values"], "float32")))
    if binary:
        ops = node.ops
        p = ops.slice(scores, axes=[1], starts=[targets[0]], ends=[targets[0] + 1])
        is_plain = str(node.attr("post_transform", "NONE")) == "NONE"
        first = ops.scale(p, scale=-1.0, bias=1.0) if is_plain else ops.scale(p, scale=-1.0)
        scores = ops.concat([first, p], axis=1)
    label = node.ops.gather(Value(labels), node.ops.arg_max(scores, axis=1), axis=0)
    return [label, _transformed(node, scores)]
