"""Classical learners (domain ai.onnx.ml): scalers, encoders, linear models, support vectors, ensembles of trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphad import layers
from graphad.errors import ParseError
from graphad.interop.onnx.handlers.handler import ML, Node, handles
from graphad.interop.onnx.handlers.trees import COMPARISONS, EQUAL, MEMBER, Trees, leaves
from graphad.interop.onnx.operands import UnsupportedModel, Value
from graphad.program import Variable

Numbers = np.ndarray[tuple[int, ...], np.dtype[np.generic]]


def _single(node: Node, x: Value) -> Value:
    return x if x.dtype == "float32" else node.ops.cast(x, out_dtype="float32")


@handles("Scaler", domain=ML)
def _scaler(node: Node) -> Value:
    x = _single(node, node[0])
    offset, scale = (Value(np.asarray(node.attr(name, [default]), "float32")) for name, default in (("offset", 0.0), ("scale", 1.0)))
    # (x - offset) * scale.
    return node.ops.elementwise_mul(node.ops.elementwise_sub(x, offset), scale)


@handles("Normalizer", domain=ML)
def _normalizer(node: Node) -> Value:
    """Rows divided by their sizes; those of size 0 stay."""
    x, ops, kind = _single(node, node[0]), node.ops, str(node.attr("norm", "MAX"))
    axis = [x.rank - 1]
    if kind == "MAX":  # with its sign, as the operator has it; scikit-learn takes that of the absolute values
        size = ops.reduce_max(x, dim=axis, keep_dim=True)
    elif kind == "L1":
        size = ops.reduce_sum(ops.abs(x), dim=axis, keep_dim=True)
    else:
        size = ops.frobenius_norm(x, dim=axis, keep_dim=True)
    return ops.elementwise_div(x, ops.where(ops.equal(size, ops.like(0.0, size)), ops.like(1.0, size), size))


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
    x, ops = node.ops.cast(node[0], out_dtype="int64"), node.ops
    categories = Value(_numbers(node, "cats_strings") if node[0].is_text else np.asarray(node.required("cats_int64s"), "int64"))
    # [..., 1] against [categories].
    return ops.cast(ops.equal(ops.unsqueeze(x, axes=[x.rank]), categories), out_dtype="float32")


@handles("LabelEncoder", domain=ML, since=2)
def _label_encoder(node: Node) -> Value:
    """The value of the key that each element is; a default where it is none."""
    keys, values = _table(node, "keys"), _table(node, "values")
    default = np.asarray(node.attrs["default_tensor"]).ravel() if "default_tensor" in node.attrs else _default(node, values)
    return _looked_up(node, keys, values, default)


def _looked_up(node: Node, keys: Numbers, values: Numbers, default: Numbers) -> Value:
    x, ops, text = node[0], node.ops, node.reader.ends.text
    if (keys.dtype.kind == "O") != x.is_text:
        raise ParseError(f"keys of {'strings' if keys.dtype.kind == 'O' else keys.dtype}, and an input of another type")
    gives_text = values.dtype.kind == "O"
    keys, values, default = (text.encode(array) if array.dtype.kind == "O" else array for array in (keys, values, default))
    is_key = ops.equal(ops.unsqueeze(x, axes=[x.rank]), Value(keys.astype(x.dtype)))
    # NaN is a key like any other, and equals nothing.
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        is_key = ops.logical_or(is_key, ops.logical_and(ops.unsqueeze(ops.isnan_v2(x), axes=[x.rank]), Value(np.isnan(keys))))
    # The first key that equals it; of none the place is 0, and the default is chosen below.
    place = ops.arg_max(ops.cast(is_key, out_dtype="int32"), axis=x.rank)
    numbers = ops.reshape_like(ops.gather(Value(values), ops.reshape(place, shape=[-1]), axis=0), place)
    out = ops.where(ops.reduce_any(is_key, dim=[x.rank], keep_dim=False), numbers, Value(default.astype(values.dtype).reshape(())))
    out.is_text = gives_text
    return out


@handles("CategoryMapper", domain=ML)
def _category_mapper(node: Node) -> Value:
    """From strings to integers, or back."""
    words, numbers = np.asarray(node.required("cats_strings"), object), np.asarray(node.required("cats_int64s"), "int64")
    if node[0].is_text:
        return _looked_up(node, words, numbers, np.asarray([node.attr("default_int64", -1)], "int64"))
    return _looked_up(node, numbers, words, np.asarray([node.attr("default_string", "_Unused")], object))


@handles("ZipMap", domain=ML)
def _zip_map(node: Node) -> Value:
    """A map for each row: from labels to the elements of the row. Inside of the program it is the tensor."""
    out = node.ops.assign(node[0])
    out.keys = list(node.attr("classlabels_strings") or node.required("classlabels_int64s"))
    return out


def _table(node: Node, name: str) -> Numbers:
    """Keys or values: an attribute for each type, or a tensor."""
    kinds: dict[str, np.dtype[Any] | None] = {
        "int64s": np.dtype("int64"),
        "floats": np.dtype("float32"),
        "strings": np.dtype(object),
        "tensor": None,
    }
    for kind, dtype in kinds.items():
        if f"{name}_{kind}" in node.attrs:
            table: Numbers = np.asarray(node.attrs[f"{name}_{kind}"], dtype).ravel()
            return table
    raise ParseError(f"{name} are missing")


def _default(node: Node, values: Numbers) -> Numbers:
    if values.dtype.kind == "O":
        return np.asarray([node.attr("default_string", "_Unused")], object)
    kind, default = ("float", -0.0) if values.dtype.kind == "f" else ("int64", -1)
    return np.asarray([node.attr(f"default_{kind}", default)], values.dtype)


@handles("Binarizer", domain=ML)
def _binarizer(node: Node) -> Value:
    x = node[0]
    mask = node.ops.greater_than(x, node.ops.like(float(node.attr("threshold", 0.0)), x))
    return node.ops.cast(mask, out_dtype=x.dtype)


@handles("ArrayFeatureExtractor", domain=ML)
def _extract(node: Node) -> Value:
    """Places of the last axis; of a vector they are a row."""
    out = node.ops.gather(node[0], node.ops.reshape(node[1], shape=[-1]), axis=node[0].rank - 1)
    return node.ops.unsqueeze(out, axes=[0]) if node[0].rank == 1 else out


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


@handles("SVMClassifier", domain=ML)
def _support_vector_classifier(node: Node) -> list[Value]:
    """The class with most votes of the machines for each pair of classes; without support vectors a linear model."""
    x, ops, labels = _single(node, node[0]), node.ops, _labels(node)
    rho, counts = np.asarray(node.attr("rho", [0.0]), "float32"), [int(count) for count in node.attr("vectors_per_class", [])]
    coefficients, classes = np.asarray(node.required("coefficients"), "float32"), max(len(labels), 1)
    if not sum(counts):
        scores = ops.matmul_v2(x, Value(coefficients.reshape(classes, -1)), trans_y=True)
        scores = ops.elementwise_add(scores, Value(rho[:1]))
        return _classified(node, scores, labels)
    vectors = np.asarray(node.required("support_vectors"), "float32").reshape(sum(counts), -1)
    similar = _kernel(node, x, vectors)
    machines, voting = _pairs_of_classes(coefficients.reshape(-1, sum(counts)), counts)
    scores = ops.elementwise_add(ops.matmul_v2(similar, Value(machines), trans_y=True), Value(rho))
    # A machine's vote goes to the first of its classes where its score is above 0, else to the second.
    wins = ops.cast(ops.greater_than(scores, ops.like(0.0, scores)), out_dtype="float32")
    votes = ops.elementwise_add(ops.matmul_v2(wins, Value(voting[0] - voting[1])), Value(voting[1].sum(0)))
    label = _label(node, labels, ops.arg_max(votes, axis=1))
    if node.attr("prob_a"):
        return [label, _transformed(node, _coupled(node, scores, len(counts)))]
    # Of two classes there is one machine: its score is above 0 for the first, and is given as that of the second.
    if classes == 2:
        scores = ops.concat([ops.scale(scores, scale=-1.0), scores], axis=1)
    return [label, _transformed(node, scores)]


def _pairs_of_classes(coefficients: Numbers, counts: Sequence[int]) -> tuple[Numbers, Numbers]:
    """For each pair i < j the weights of all support vectors; and 1 at i, then 1 at j.

    A vector of class i has one coefficient for each other class: in row j - 1 for a class j after it, in row j for one before it.
    """
    ends = np.cumsum(counts)
    places = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    pairs = [(i, j) for i in range(len(counts)) for j in range(i + 1, len(counts))]
    machines, voting = np.zeros((len(pairs), ends[-1]), "float32"), np.zeros((2, len(pairs), len(counts)), "float32")
    for row, (i, j) in enumerate(pairs):
        machines[row, places[i]] = coefficients[j - 1, places[i]]
        machines[row, places[j]] = coefficients[i, places[j]]
        voting[0, row, i] = voting[1, row, j] = 1.0
    return machines, voting


def _coupled(node: Node, scores: Value, classes: int) -> Value:
    """The probabilities of the classes for which those of all pairs fit best.

    T.-F. Wu, C.-J. Lin, R. C. Weng, Probability estimates for multi-class classification by pairwise coupling, JMLR 5 (2004), algorithm 2:
    p minimizes p' Q p, and iterations go on until all elements of Q p are p' Q p, to 0.005 / classes, as in libsvm.
    """
    ops = node.ops
    a, b = (Value(np.asarray(node.required(name), "float32")) for name in ("prob_a", "prob_b"))
    # J. Platt's: 1 / (1 + exp(a score + b)) is how likely it is the first of a pair.
    first = ops.sigmoid(ops.scale(ops.elementwise_add(ops.elementwise_mul(scores, a), b), scale=-1.0))
    first = ops.elementwise_min(ops.elementwise_max(first, ops.like(1e-7, first)), ops.like(1 - 1e-7, first))
    known = ops.concat(
        [first, ops.scale(first, scale=-1.0, bias=1.0), ops.fill_zeros_like(ops.slice(first, axes=[1], starts=[0], ends=[1]))], axis=1
    )
    # r[i, j] is how likely class i is of i and j: [rows, classes, classes] of the columns of all pairs, then of what is left to 1, then 0.
    pairs = {pair: row for row, pair in enumerate((i, j) for i in range(classes) for j in range(i + 1, classes))}
    places = [
        2 * len(pairs) if i == j else pairs[i, j] if i < j else len(pairs) + pairs[j, i] for i in range(classes) for j in range(classes)
    ]
    r = ops.reshape(ops.gather(known, Value(np.asarray(places)), axis=1), shape=[-1, classes, classes])
    back = ops.transpose(r, axis=[0, 2, 1])
    # Q[t, t] is the sum of the squares of r[j, t], Q[t, j] is -r[j, t] r[t, j].
    diagonal = ops.reduce_sum(ops.square(back), dim=[2], keep_dim=False)
    q = ops.elementwise_sub(ops.diag_embed(diagonal), ops.elementwise_mul(back, r))
    start = ops.variable(ops.fill_any_like(diagonal, value=1.0 / classes))
    most = ops.variable(Value(np.asarray(max(100, classes))))

    def iteration(step: Variable, going: Variable, p: Variable) -> list[Variable]:
        nearer, is_apart = _coupled_once(node, Value(variable=p), q, diagonal)
        goes_on = ops.reduce_any(is_apart, reduce_all=True)
        return [layers.scale(step, scale=1.0, bias=1.0), ops.variable(goes_on), ops.variable(nearer)]

    state = [ops.variable(Value(np.asarray(0, "int64"))), ops.variable(Value(np.asarray(True))), start]
    outputs = layers.while_loop(lambda step, going, _: layers.logical_and(going, layers.less_than(step, most)), iteration, state)
    return Value(variable=outputs[2])


def _coupled_once(node: Node, p: Value, q: Value, diagonal: Value) -> tuple[Value, Value]:
    """An iteration: each class in turn gets the best share for those of the others; rows that are near enough stay. And which are not."""
    ops, classes = node.ops, diagonal.shape[1]

    def column(x: Value, t: int) -> Value:
        return ops.slice(x, axes=[1], starts=[t], ends=[t + 1])

    new, products = p, ops.squeeze(ops.matmul_v2(q, ops.unsqueeze(p, axes=[2])), axes=[2])
    whole = ops.reduce_sum(ops.elementwise_mul(p, products), dim=[1], keep_dim=True)
    apart = ops.reduce_max(ops.abs(ops.elementwise_sub(products, whole)), dim=[1], keep_dim=True)
    is_apart = ops.greater_equal(apart, ops.like(0.005 / classes, apart))
    for t in range(classes):
        own, size = column(products, t), column(diagonal, t)
        more = ops.elementwise_div(ops.elementwise_sub(whole, own), size)
        total = ops.scale(more, scale=1.0, bias=1.0)
        # p' Q p for p[t] + more, all divided by their sum.
        gain = ops.elementwise_add(ops.elementwise_mul(more, size), ops.scale(own, scale=2.0))
        whole = ops.elementwise_div(ops.elementwise_add(whole, ops.elementwise_mul(more, gain)), ops.square(total))
        row = ops.squeeze(ops.slice(q, axes=[1], starts=[t], ends=[t + 1]), axes=[1])
        products = ops.elementwise_div(ops.elementwise_add(products, ops.elementwise_mul(more, row)), total)
        at = Value(np.eye(classes, dtype="float32")[t])
        new = ops.elementwise_div(ops.elementwise_add(new, ops.elementwise_mul(more, at)), total)
    return ops.where(is_apart, new, p), is_apart


def _kernel(node: Node, x: Value, vectors: Numbers) -> Value:
    """The kernel of each row and each vector, a measure of similarity."""
    ops, kind = node.ops, str(node.attr("kernel_type", "LINEAR"))
    gamma, shift, degree = (float(number) for number in node.attr("kernel_params", [0.0, 0.0, 0.0]))
    if kind == "RBF":
        # exp(-gamma |x - v|^2), of [rows, 1, features] less [vectors, features].
        differences = ops.elementwise_sub(ops.unsqueeze(x, axes=[1]), Value(vectors))
        return ops.exp(ops.scale(ops.reduce_sum(ops.square(differences), dim=[2], keep_dim=False), scale=-gamma))
    product = ops.matmul_v2(x, Value(vectors), trans_y=True)
    if kind == "LINEAR":
        return product
    # (gamma x v + shift)^degree, or tanh(gamma x v + shift).
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


def _numbers(node: Node, name: str) -> Numbers:
    """The numbers of strings in an attribute."""
    codes: Numbers = node.reader.ends.text.encode(node.required(name))
    return codes


def _label(node: Node, labels: Numbers, place: Value) -> Value:
    """The labels at places."""
    label = node.ops.gather(Value(labels), place, axis=0)
    label.is_text = bool(node.attr("classlabels_strings"))
    return label


def _labels(node: Node) -> Numbers:
    if node.attr("classlabels_strings"):
        return _numbers(node, "classlabels_strings")
    result = node.attr("classlabels_int64s") or node.attr("classlabels_ints") or []
    return np.asarray(result, "int64")


def _classified(node: Node, scores: Value, labels: Numbers) -> list[Value]:
    """The label of the best score, and the scores."""
    ops = node.ops
    if scores.shape[-1] == 1 and len(labels) == 2:
        scores = ops.concat([ops.scale(scores, scale=-1.0), scores], axis=1)
    label = _label(node, labels, ops.arg_max(scores, axis=1))
    return [label, _transformed(node, scores)]


def _transformed(node: Node, x: Value, transform: str = "") -> Value:
    transform, ops = transform or str(node.attr("post_transform", "NONE")), node.ops
    if transform == "NONE":
        return x
    if transform == "LOGISTIC":
        out = ops.sigmoid(x)
    elif transform == "SOFTMAX":
        out = ops.softmax(x, axis=-1)
    elif transform == "SOFTMAX_ZERO":
        # The softmax of the scores that are not 0, which stay 0; below 1e-7 they count as such, as in onnxruntime.
        is_score = ops.greater_than(ops.abs(x), ops.like(1e-7, x))
        shares = ops.exp(ops.elementwise_sub(x, ops.reduce_max(x, dim=[x.rank - 1], keep_dim=True)))
        shares = ops.where(is_score, shares, ops.fill_zeros_like(x))
        out = ops.elementwise_div(shares, ops.reduce_sum(shares, dim=[x.rank - 1], keep_dim=True))
    else:
        raise UnsupportedModel(f"post_transform {transform!r}")
    return out


# -- trees ---------------------------------------------------------------------------------------


def _trees(node: Node, of: str, count: int) -> Trees:
    trees, ids = node.required("nodes_treeids"), node.required("nodes_nodeids")
    number = {key: i for i, key in enumerate(zip(trees, ids, strict=True))}
    modes = [str(item) for item in node.required("nodes_modes")]
    unknown = sorted({mode for mode in modes if mode != "LEAF" and mode not in COMPARISONS})
    if unknown:
        raise UnsupportedModel(f"trees with comparisons {', '.join(unknown)}")
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
    return Trees(features, values, missing_flags, yes, no, weights, roots, np.asarray(modes))


@dataclass
class _Inner:
    """The inner nodes of a ``TreeEnsemble``; a way leads to a node, or to a leaf, by its number and a flag."""

    modes: list[int]
    features: list[int]
    splits: list[float]
    missing: list[bool]
    yes: list[tuple[int, int]]
    no: list[tuple[int, int]]


def _compared_one_by_one(node: Node) -> _Inner:
    """The inner nodes, of which one that tests membership of a set is a row of nodes, each of which compares with one member.

    x in {a, b}? yes: p, no: q        ⇒        x == a? yes: p, no: (x == b? yes: p, no: q)
    """
    modes = [int(number) for number in np.ravel(node.required("nodes_modes"))]
    yes, no = (
        [(int(to), int(flag)) for to, flag in zip(node.required(f"nodes_{way}nodeids"), node.required(f"nodes_{way}leafs"), strict=True)]
        for way in ("true", "false")
    )
    missing = [bool(flag) for flag in node.attr("nodes_missing_value_tracks_true") or [0] * len(modes)]
    splits = [float(number) for number in np.ravel(node.required("nodes_splits"))]
    inner = _Inner(modes, [int(number) for number in node.required("nodes_featureids")], splits, missing, yes, no)
    tests = [i for i, mode in enumerate(modes) if mode == MEMBER]
    sets = _sets(node) if tests else []
    if len(sets) != len(tests):
        raise ParseError(f"{len(sets)} sets of membership_values for {len(tests)} nodes with BRANCH_MEMBER")
    for i, members in zip(tests, sets, strict=True):
        _compare_with_each(inner, i, members)
    return inner


def _sets(node: Node) -> list[list[float]]:
    """The sets of members, in the order of the nodes that test them: NaN stands between two of them, or at the end of each."""
    numbers = [float(number) for number in np.ravel(node.required("membership_values"))]
    ends = [i for i, number in enumerate(numbers) if np.isnan(number)]
    starts = [0, *(end + 1 for end in ends)]
    sets = [numbers[start:end] for start, end in zip(starts, [*ends, len(numbers)], strict=True)]
    return sets if sets[-1] or not ends else sets[:-1]


def _compare_with_each(inner: _Inner, i: int, members: list[float]) -> None:
    """Let a node compare with the first member, and add nodes for the others; NaN equals none, so that an empty set has it."""
    otherwise, at = inner.no[i], i
    first, *others = members or [np.nan]
    inner.modes[i], inner.splits[i] = EQUAL, first
    for member in others:
        inner.no[at] = (len(inner.modes), 0)
        at = len(inner.modes)
        for column, item in zip(vars(inner).values(), (EQUAL, inner.features[i], member, False, inner.yes[i], otherwise), strict=True):
            column.append(item)


@handles("TreeEnsemble", domain=ML, since=5)
def _tree_ensemble(node: Node) -> Value:
    """Nodes and leaves have numbers of their own; here leaves come after the nodes, in one table."""
    x, ops = node[0], node.ops
    inner = _compared_one_by_one(node)
    count, values = len(inner.modes), np.asarray(node.required("leaf_weights")).ravel()
    # Leaf k is row count + k of the table, which is where a branch leads whose flag says that it ends in a leaf.
    targets, rows = np.asarray(node.required("leaf_targetids")), count + np.arange(len(values))
    weights = np.zeros((count + len(values), int(node.attr("n_targets", 1))), values.dtype)
    weights[rows, targets] = values
    yes, no = (
        np.concatenate([[target + count * is_leaf for target, is_leaf in ways], rows]).astype("int64") for ways in (inner.yes, inner.no)
    )
    rest = np.zeros(len(values))
    modes = np.asarray([*(COMPARISONS[number] for number in inner.modes), *["LEAF"] * len(values)])
    roots = np.asarray(node.required("tree_roots"), "int64")
    trees = Trees(
        np.concatenate([inner.features, rest]).astype("int64"),
        np.concatenate([inner.splits, rest]).astype(x.dtype),
        np.concatenate([inner.missing, rest]).astype(bool),
        yes,
        no,
        weights,
        roots,
        modes,
    )
    transforms = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    out = leaves(node, x, trees, ("AVERAGE", "SUM", "MIN", "MAX")[int(node.attr("aggregate_function", 1))])
    return _transformed(node, ops.cast(out, out_dtype=x.dtype), transforms[int(node.attr("post_transform", 0))])


@handles("TreeEnsembleRegressor", domain=ML)
def _tree_regressor(node: Node) -> Value:
    x = _single(node, node[0])
    trees = _trees(node, "target", int(node.attr("n_targets", 1)))
    out = leaves(node, x, trees, str(node.attr("aggregate_function", "SUM")))
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
    scores = leaves(node, x, trees)
    if "base_values" in node.attrs:
        scores = node.ops.elementwise_add(scores, Value(np.asarray(node.attrs["base_values"], "float32")))
    if binary:
        ops = node.ops
        p = ops.slice(scores, axes=[1], starts=[targets[0]], ends=[targets[0] + 1])
        is_plain = str(node.attr("post_transform", "NONE")) == "NONE"
        first = ops.scale(p, scale=-1.0, bias=1.0) if is_plain else ops.scale(p, scale=-1.0)
        scores = ops.concat([first, p], axis=1)
    label = _label(node, labels, node.ops.arg_max(scores, axis=1))
    return [label, _transformed(node, scores)]
