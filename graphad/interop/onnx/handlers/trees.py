"""Ensembles of trees: every row goes down all trees at once, one level after the other.

    x <= 1 ? leaf 10 : (x <= 3 ? leaf 20 : leaf 40)      node       0    1    2    3    4
                                                         threshold  1    NaN  3    NaN  NaN
                                                         next       1    1    3    3    4

The two ways of a node lead to neighbors: ``next`` where the comparison does not hold (1 is leaf 40's side here), the place after it where
it does. No number is at most NaN, and a leaf leads to itself. So a level is a few lookups in tables, over one vector of all rows and trees;
trees come by their depths, the deepest first, and those that are done drop out of the vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphad.errors import ParseError
from graphad.interop.onnx.handlers.handler import Node
from graphad.interop.onnx.operands import UnsupportedModel, Value

Numbers = np.ndarray[tuple[int, ...], np.dtype[Any]]
COMPARISONS = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")  # numbers 0 to 5 of TreeEnsemble
EQUAL, MEMBER = 4, 6  # its numbers of comparisons with a number, and of membership of a set
_STAYING = 0.8  # of the trees of the vector: where fewer than these go on, the others are cut off it


@dataclass
class Trees:
    """The nodes of all trees in one table, as a file has them; a leaf leads to itself.

    Attributes:
        feature, threshold, modes: what a node compares, and how.
        missing: whether it goes the way of yes where the feature is NaN, whatever the comparison says.
        yes, no: where its ways lead.
        weights: what its targets get of a leaf, [nodes, targets].
        roots: the first node of each tree.
    """

    feature: Numbers
    threshold: Numbers
    missing: Numbers
    yes: Numbers
    no: Numbers
    weights: Numbers
    roots: Numbers
    modes: Numbers


@dataclass
class _Levels:
    """The tables that lookups are in; the first places are the roots.

    Attributes:
        going: how many trees go on at each level, the first ones.
        equal: places that compare for equality; the others for being at most the threshold.
        late: places that NaN goes the way of yes from, and that no value in place of NaN would.
    """

    feature: Numbers
    threshold: Numbers
    next: Numbers
    weights: Numbers
    going: list[int]
    equal: Numbers
    late: Numbers


def _at_most(trees: Trees) -> Trees:
    """The trees with two comparisons alone, at most and equal: they say what is below, above or unequal, some with their ways swapped."""
    modes, threshold, missing = trees.modes, trees.threshold.copy(), trees.missing.copy()
    is_above, is_unequal = np.isin(modes, ("BRANCH_GTE", "BRANCH_GT")), modes == "BRANCH_NEQ"
    # x < t where x is at most the number before t; there is none before -inf, and none is below it.
    below = np.isin(modes, ("BRANCH_LT", "BRANCH_GTE"))
    before = np.where(threshold == -np.inf, np.nan, np.nextafter(threshold, -np.inf, dtype=threshold.dtype))
    # Nothing is above NaN: then all are at most the threshold.
    threshold = np.where(is_above & np.isnan(threshold), np.inf, np.where(below, before, threshold)).astype(threshold.dtype)
    # The way of NaN is that of no, unless it is marked; swapped it is that of yes. NaN differs from all numbers.
    missing = np.where(is_above, ~missing, missing & ~is_unequal)
    swapped = is_above | is_unequal
    yes, no = np.where(swapped, trees.no, trees.yes), np.where(swapped, trees.yes, trees.no)
    kinds = np.where(modes == "LEAF", modes, np.where(np.isin(modes, ("BRANCH_EQ", "BRANCH_NEQ")), "BRANCH_EQ", "BRANCH_LEQ"))
    return Trees(trees.feature, threshold, missing, yes, no, trees.weights, trees.roots, kinds)


def _depths(trees: Trees) -> Numbers:
    """How many comparisons the longest way down each tree has; UnsupportedModel for a cycle, or trees that share nodes."""
    at, tree, depths = trees.roots, np.arange(len(trees.roots)), np.zeros(len(trees.roots), "int64")
    is_leaf, seen, level = trees.modes == "LEAF", 0, 0
    while True:
        inner = ~is_leaf[at]
        at, tree, level = at[inner], tree[inner], level + 1
        if not len(at):
            return depths
        depths[tree] = level
        seen += len(at)
        if seen > 4 * len(is_leaf):
            raise UnsupportedModel("a tree with a cycle, or trees that share their nodes")
        at, tree = np.concatenate([trees.no[at], trees.yes[at]]), np.concatenate([tree, tree])


def _levels(trees: Trees, features: int) -> _Levels:
    """Places for all nodes, level by level; a leaf that several nodes lead to has several."""
    depths, leaf = _depths(trees), trees.modes == "LEAF"
    order = np.argsort(-depths, kind="stable")
    nodes, nexts, at, first = [trees.roots[order]], list[Numbers](), trees.roots[order], 0
    while len(at):
        inner, places = ~leaf[at], first + np.arange(len(at))
        first += len(at)
        # The children of the i-th inner node are the places 2 i and 2 i + 1 after this level.
        nexts.append(np.where(inner, first + 2 * (np.cumsum(inner) - 1), places))
        at = np.stack([trees.no[at[inner]], trees.yes[at[inner]]], 1).ravel()
        nodes.append(at)
    source = np.concatenate(nodes)
    is_leaf, is_equal = leaf[source], trees.modes[source] == "BRANCH_EQ"
    threshold = np.where(is_leaf, np.nan, trees.threshold[source]).astype(trees.threshold.dtype)
    missing = trees.missing[source] & ~is_leaf
    late = missing & (is_equal | np.isnan(threshold))
    # Columns after those of x have -inf in place of NaN, which is at most any threshold.
    feature = np.where(is_leaf, 0, trees.feature[source]) + np.where(missing & ~late, features, 0)
    going = [int((depths > level).sum()) for level in range(depths.max(initial=0))]
    return _Levels(feature, threshold, np.concatenate(nexts), trees.weights[source], going, is_equal, late)


def leaves(node: Node, x: Value, trees: Trees, aggregate: str = "SUM") -> Value:
    """The weights of the leaves that each row of x ends in, of all trees."""
    ops, count = node.ops, len(trees.roots)
    width = int(trees.feature.max(initial=0)) + 1
    if x.shape[1] == -1:  # an error of the run, if there are fewer
        x = ops.gather(x, Value(np.arange(width)), axis=1)
    if x.shape[1] < width:
        raise ParseError(f"a tree compares feature {width - 1}, and there are {x.shape[1]}")
    tables = _levels(_at_most(trees), x.shape[1])
    if (tables.feature >= x.shape[1]).any():
        x = ops.concat([x, ops.where(ops.isnan_v2(x), ops.like(-np.inf, x), x)], axis=1)
    places = _descended(node, x, tables, count)
    # [trees, rows] as [rows, trees], so that the sums over trees go along the last axis.
    flat = ops.reshape(ops.transpose(places, axis=[1, 0]), shape=[-1])
    targets = tables.weights.shape[1]
    result = ops.reshape(ops.gather(Value(tables.weights), flat, axis=0), shape=[-1, count, targets])
    if aggregate in ("MIN", "MAX"):
        if targets != 1:
            raise UnsupportedModel(f"aggregate_function {aggregate!r} of several targets")
        return (ops.reduce_min if aggregate == "MIN" else ops.reduce_max)(result, dim=[1], keep_dim=False)
    total = ops.reduce_sum(result, dim=[1], keep_dim=False)
    if aggregate not in ("SUM", "AVERAGE"):
        raise UnsupportedModel(f"aggregate_function {aggregate!r}")
    return total if aggregate == "SUM" else ops.scale(total, scale=1.0 / count)


def _descended(node: Node, x: Value, tables: _Levels, count: int) -> Value:
    """The places of the leaves, [trees, rows]."""
    ops, width = node.ops, x.shape[1]
    values, zero = ops.reshape(x, shape=[-1]), Value(np.asarray([0], "int64"))
    size = ops.reshape(ops.cast(ops.size(x), out_dtype="int64"), shape=[1])
    rows = ops.unsqueeze(ops.range(zero, size, Value(np.asarray([width], "int64"))), axes=[0])
    # Where the rows begin in ``values``, for each tree; and where they are in the trees, whose roots come first.
    starts = ops.elementwise_add(rows, Value(np.zeros((count, 1), "int64")))
    at = ops.elementwise_add(ops.fill_zeros_like(rows), Value(np.arange(count, dtype="int64").reshape(count, 1)))
    done, here = list[Value](), count
    at, starts = (ops.reshape(each, shape=[-1]) for each in (at, starts))
    for going in tables.going:
        if going < _STAYING * here:
            by_tree = ops.reshape(at, shape=[here, -1])
            done.append(ops.slice(by_tree, axes=[0], starts=[going], ends=[here]))
            at, starts = (
                ops.reshape(ops.slice(each, axes=[0], starts=[0], ends=[going]), shape=[-1])
                for each in (by_tree, ops.reshape(starts, shape=[here, -1]))
            )
            here = going
        at = _one_down(node, values, tables, at, starts)
    at = ops.reshape(at, shape=[here, -1])
    return ops.concat([at, *done[::-1]], axis=0) if done else at


def _one_down(node: Node, values: Value, tables: _Levels, at: Value, starts: Value) -> Value:
    """The places after one comparison."""
    ops = node.ops

    def of(table: Numbers) -> Value:
        return ops.gather(Value(table), at, axis=0)

    value, threshold = ops.gather(values, ops.elementwise_add(of(tables.feature), starts), axis=0), of(tables.threshold)
    holds = ops.less_equal(value, threshold)
    if tables.equal.any():
        holds = ops.where(of(tables.equal), ops.equal(value, threshold), holds)
    if tables.late.any():
        holds = ops.logical_or(holds, ops.logical_and(ops.isnan_v2(value), of(tables.late)))
    return ops.elementwise_add(of(tables.next), ops.cast(holds, out_dtype="int64"))
