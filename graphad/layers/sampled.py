"""Losses over many classes that look at few of them, and layers that draw: Fluid's ``nce``, ``hsigmoid``, ``sampling_id`` ...

Each draw is an operator of its own, so that the gradient sees the numbers that the loss saw.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.checks import checked_flag, checked_float, checked_int
from graphad.layers.helper import AttrLike, LayerHelper, checked_input, emitted, layer
from graphad.layers.tensor import assign
from graphad.program import Variable
from graphad.program.source import at_users_line
from graphad.types import dtype_name


def _uniform_rows(like: Variable, width: int, seed: int, low: float = 0.0, high: float = 1.0) -> Variable:
    """Numbers of [low, high), ``width`` for each row of a tensor; gradients stop at them."""
    sample: Variable = emitted(
        "uniform_random_batch_size_like",
        [like],
        shape=[-1, width],
        min=low,
        max=high,
        seed=seed,
        dtype=like.dtype if like.dtype in ("float32", "float64") else "float32",
    )
    sample.stop_gradient = True
    return sample


@layer
def sampling_id(x: Variable, min: float = 0.0, max: float = 1.0, seed: int = 0, dtype: object = "float32") -> Variable:
    """A random class for each row of probabilities ``[batch, classes]``, drawn by them: int64 ``[batch]``.

    Args:
        min, max: the range of the uniform numbers that choose, within [0, 1].
        dtype: a hint without effect.
    """
    with at_users_line("layers.sampling_id"):
        probabilities = checked_input("sampling_id", x)
        low, high = checked_float("min", min), checked_float("max", max)
        if probabilities.ndim != 2 or probabilities.shape[1] < 1:
            raise ShapeError(f"it takes probabilities [batch, classes] with known classes, not {x!r}")
    rows = _uniform_rows(probabilities, 1, checked_int("layers.sampling_id: seed", seed), low, high)
    # By inversion: the class is the number of cumulative sums below what was drawn.
    below = emitted("cast", [emitted("cumsum", [probabilities], axis=1) < rows], out_dtype="int64").sum(1)
    # The sum of probabilities may be rounded to less than 1: the last class has the rest.
    ids: Variable = emitted("elementwise_min", [below, emitted("fill_any_like", [below], value=probabilities.shape[1] - 1)])
    ids.stop_gradient = True
    return ids


@layer
def randperm(n: int, out: None = None, dtype: object = "int64", device: None = None, stop_gradient: bool = True, seed: int = 0) -> Variable:
    """The numbers below ``n`` in a random order, each order as likely as the others."""
    if out is not None or device is not None:
        raise InvalidType(f"layers.randperm: out and device mean nothing here, so they are None, not {out!r} and {device!r}")
    count = checked_int("layers.randperm: n", n, 1)
    uniform = emitted("uniform_random", [], shape=[count], min=0.0, max=1.0, seed=seed, dtype="float64")
    # The order of independent uniform numbers is uniform among all orders; in float64 two of them are hardly ever equal.
    _, order = emitted("argsort", [uniform], axis=0)
    result: Variable = emitted("cast", [order], out_dtype=dtype_name(dtype))
    result.stop_gradient = stop_gradient
    return result


# -- noise-contrastive estimation ------------------------------------------------------------------


def _drawn_classes(label: Variable, sampler: str, total: int, count: int, custom: object, seed: int, dtype: str) -> tuple[Variable, Any]:
    """Classes ``[batch, count]`` drawn by a sampler, and a function from classes to their probabilities, in a dtype."""
    samples = _uniform_rows(label, count, seed)
    if sampler == "uniform":
        classes = emitted("cast", [emitted("floor", [samples * float(total)])], out_dtype="int64")
        return classes, lambda ids: emitted("fill_any_like", [ids], value=1.0 / total, dtype=dtype)
    if sampler == "log_uniform":
        # Zipf's law by inverting its distribution: class k has the probability log((k + 2) / (k + 1)) / log(total + 1).
        values = emitted("exp", [samples * math.log(total + 1.0)])
        classes = emitted("cast", [emitted("floor", [values]) - 1.0], out_dtype="int64")
        table = np.log((np.arange(total) + 2.0) / (np.arange(total) + 1.0)) / math.log(total + 1.0)
    else:
        table = np.asarray(custom, dtype="float64").reshape(-1)
        if table.size != total:
            raise InvalidValue(f"custom_dist has a probability for each of the {total} classes, not {table.size}")
        # Inversion again: the number of edges that a uniform number is not below. The last edge, 1, is left out.
        edges = assign(np.cumsum(table / table.sum())[:-1].astype(samples.dtype).reshape(1, 1, -1))
        above = emitted("less_equal", [edges, emitted("unsqueeze", [samples], axes=[2])])
        classes = emitted("cast", [above], out_dtype="int64").sum(2)
    probabilities = assign(table.astype(dtype))
    return classes, lambda ids: _rows(probabilities, ids)


def _rows(table: Variable, ids: Variable) -> Variable:
    """``table[ids]`` for ids of any shape."""
    flat = emitted("gather", [table, emitted("reshape", [ids], shape=[-1])])
    shape = [*ids.shape, *table.shape[1:]]
    return emitted("reshape", [flat], shape=[-1, *shape[1:]])  # type: ignore[no-any-return]


@layer
def nce(
    input: Variable,
    label: Variable,
    num_total_classes: int,
    sample_weight: Variable | None = None,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    num_neg_samples: int | None = None,
    name: str | None = None,
    sampler: str = "uniform",
    custom_dist: object = None,
    seed: int = 0,
    is_sparse: bool = False,
) -> Variable:
    """The loss of noise-contrastive estimation (M. Gutmann and A. Hyvarinen, 2010): ``[batch, 1]``.

    Args:
        input: ``[batch, features]``.
        label: the true classes, ``[batch, 1]``.
        sample_weight: a factor for each sample, ``[batch, 1]``.
        num_neg_samples: how many classes are drawn for each sample: 10 if None.
        sampler: "uniform", "log_uniform" or "custom_dist".
        custom_dist: with "custom_dist" the probability of each class.
        is_sparse: a hint without effect.
    """
    with at_users_line("layers.nce"):
        x, truth = checked_input("nce", input), checked_input("nce", label)
        total = checked_int("num_total_classes", num_total_classes, 1)
        if sampler not in ("uniform", "log_uniform", "custom_dist"):
            raise InvalidValue(f"sampler is 'uniform', 'log_uniform' or 'custom_dist', not {sampler!r}")
        if x.ndim != 2 or x.shape[1] < 1 or truth.shape[-1:] != (1,):
            raise ShapeError(f"it takes features [batch, n] and labels [batch, 1], not {x!r} and {truth!r}")
        checked_flag("is_sparse", is_sparse)
        count = checked_int("num_neg_samples", 10 if num_neg_samples is None else num_neg_samples, 1)
    helper = LayerHelper("nce", name)
    weight = helper.parameter(param_attr, "w", [total, x.shape[1]], x.dtype)
    bias = helper.bias(bias_attr, [total, 1], x.dtype)
    sampled_classes, probability = _drawn_classes(truth, sampler, total, count, custom_dist, checked_int("seed", seed), x.dtype)
    classes = emitted("concat", [[emitted("reshape", [truth], shape=[-1, 1]), sampled_classes]], axis=1)
    logits = emitted("einsum", [[_rows(weight, classes), x]], equation="bcn,bn->bc")
    if bias is not None:
        logits = logits + emitted("squeeze", [_rows(bias, classes)], axes=[2])
    score = emitted("sigmoid", [logits])
    noise = probability(classes) * float(count)
    share = score / (score + noise)
    cost = -(share[:, :1].log() + (1.0 - share[:, 1:]).log().sum(1, keepdim=True))
    return cost if sample_weight is None else cost * sample_weight  # type: ignore[no-any-return]


# -- hierarchical sigmoid --------------------------------------------------------------------------


def _tree(classes: int) -> tuple[object, object]:
    """For each leaf of a complete binary tree the inner nodes above it and the turns there, -1 after the root's child."""
    depth = max(1, math.floor(math.log2(2 * classes - 1)))
    nodes, turns = np.full((classes, depth), -1, "int64"), np.zeros((classes, depth), "int64")
    for leaf in range(classes):
        # Heap order: leaves are numbered from ``classes`` on, the parent of k is k // 2, the turn to k its last bit, and the root is 1.
        code = leaf + classes
        for level in range(code.bit_length() - 1):
            nodes[leaf, level] = (code >> (level + 1)) - 1
            turns[leaf, level] = (code >> level) & 1
    return nodes, turns


@layer
def hsigmoid(
    input: Variable,
    label: Variable,
    num_classes: int,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    name: str | None = None,
    path_table: Variable | None = None,
    path_code: Variable | None = None,
    is_custom: bool = False,
    is_sparse: bool = False,
) -> Variable:
    """The loss of a hierarchical softmax (F. Morin and Y. Bengio, 2005), ``[batch, 1]``: decisions from the root to the class.

    Args:
        input: ``[batch, features]``.
        label: the classes, ``[batch, 1]``.
        num_classes: the leaves of a complete binary tree; with ``is_custom`` the number of inner nodes.
        path_table, path_code: with ``is_custom`` the nodes from each sample's class to the root and the turns there, ``[batch, depth]``;
            negative nodes fill the ends.

    A path that is shorter than the longest adds log 2 for each node that is not there, as Paddle's kernel does.
    """
    with at_users_line("layers.hsigmoid"):
        x, truth = checked_input("hsigmoid", input), checked_input("hsigmoid", label)
        count = checked_int("num_classes", num_classes, 2)
        if checked_flag("is_custom", is_custom) != (path_table is not None and path_code is not None):
            raise InvalidValue("is_custom=True comes with path_table and path_code, and they with it")
        if x.ndim != 2 or x.shape[1] < 1:
            raise ShapeError(f"it takes features [batch, n] with known n, not {x!r}")
    helper = LayerHelper("hsigmoid", name)
    inner = count if is_custom else count - 1
    weight = helper.parameter(param_attr, "w", [inner, x.shape[1]], x.dtype)
    bias = helper.bias(bias_attr, [inner, 1], x.dtype)
    if path_table is not None and path_code is not None:
        nodes, turns = path_table, path_code
    else:
        ids = emitted("reshape", [truth], shape=[-1])
        nodes, turns = (emitted("gather", [assign(table), ids]) for table in _tree(count))
    is_node = emitted("cast", [nodes >= 0], out_dtype=x.dtype)
    places = emitted("elementwise_max", [nodes, emitted("fill_any_like", [nodes], value=0)])
    sums = emitted("einsum", [[_rows(weight, places), x]], equation="bdn,bn->bd")
    if bias is not None:
        sums = sums + emitted("squeeze", [_rows(bias, places)], axes=[2])
    sums = emitted("clip", [sums], min=-40.0, max=40.0)
    # Where a path has ended the sum is 0, whose softplus is log 2, the constant that Paddle adds as well.
    sums = sums * is_node
    return (emitted("softplus", [sums]) - sums * emitted("cast", [turns], out_dtype=x.dtype)).sum(1, keepdim=True)  # type: ignore[no-any-return]


# -- sampled softmax -------------------------------------------------------------------------------


@layer
def sampled_softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    num_samples: int,
    num_true: int = 1,
    remove_accidental_hits: bool = True,
    use_customized_samples: bool = False,
    customized_samples: Variable | None = None,
    customized_probabilities: Variable | None = None,
    seed: int = 0,
) -> Variable:
    """The cross entropy of a softmax over the true classes and ``num_samples`` that are drawn (S. Jean et al., 2015): ``[batch, 1]``.

    Args:
        logits: ``[batch, classes]``.
        label: ``[batch, num_true]``.
        remove_accidental_hits: whether a drawn class that is a true one counts for nothing.
        use_customized_samples: take ``customized_samples`` ``[batch, num_true + num_samples]``, the true classes first, and their
            probabilities. Else they are drawn by the log-uniform distribution, with replacement. (Paddle draws without.)
    """
    with at_users_line("layers.sampled_softmax_with_cross_entropy"):
        x, truth = checked_input("sampled_softmax_with_cross_entropy", logits), checked_input("sampled_softmax_with_cross_entropy", label)
        has_samples = customized_samples is not None and customized_probabilities is not None
        if checked_flag("use_customized_samples", use_customized_samples) != has_samples:
            raise InvalidValue("use_customized_samples=True comes with customized_samples and customized_probabilities, and they with it")
        true, count = checked_int("num_true", num_true, 1), checked_int("num_samples", num_samples, 1)
        if x.ndim != 2 or x.shape[1] < 1 or truth.shape[-1] != true:
            raise ShapeError(f"it takes logits [batch, classes] and labels [batch, {true}], not {x!r} and {truth!r}")
    if customized_samples is not None and customized_probabilities is not None:
        classes, probabilities = customized_samples, customized_probabilities
    else:
        sampled_classes, probability = _drawn_classes(truth, "log_uniform", x.shape[1], count, None, checked_int("seed", seed), x.dtype)
        classes = emitted("concat", [[truth, sampled_classes]], axis=1)
        probabilities = probability(classes) * float(count)
    scores = emitted("take_along_axis", [x, classes], Axis=1)
    if checked_flag("remove_accidental_hits", remove_accidental_hits):
        scores = scores - _hits(truth, classes, true, x.dtype) * 1e20
    # Less the logarithm of how often a class is drawn: frequent classes would count too much (Y. Bengio, J.-S. Senécal, 2003).
    scores = scores - emitted("cast", [probabilities.log()], out_dtype=x.dtype)
    share = np.zeros((1, true + count))
    share[0, :true] = 1.0 / true
    return -(emitted("log_softmax", [scores], axis=1) * assign(share.astype(x.dtype))).sum(1, keepdim=True)  # type: ignore[no-any-return]


def _hits(truth: Variable, classes: Variable, true: int, dtype: str) -> Variable:
    """A mask, in floats, of the drawn classes that are one of the true ones; the true ones themselves are zeros."""
    is_equal = emitted("equal", [emitted("unsqueeze", [classes], axes=[2]), emitted("unsqueeze", [truth], axes=[1])])
    sampled_classes = np.ones((1, classes.shape[1]))
    sampled_classes[0, :true] = 0.0
    hits = emitted("cast", [emitted("reduce_any", [is_equal], dim=[2])], out_dtype=dtype) * assign(sampled_classes.astype(dtype))
    hits.stop_gradient = True
    return hits  # type: ignore[no-any-return]
