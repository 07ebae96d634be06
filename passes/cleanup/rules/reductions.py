"""Reductions, and products of matrices."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, disable-error-code="operator"

from __future__ import annotations

from graphad import ops
from graphad.passes.cleanup.rules.library import Library
from graphad.rewriting import compute, is_float
from graphad.rewriting.pattern import called

library = Library()
exact, fast = library.exact, library.fast


def single_axis(rng):
    """A tensor with an axis of one element, reduced over that."""
    return {"x": rng.normal(size=(2, 1, 3)), "d": [1], "k": True, "r": False}


def two_matrices(rng):
    """Two matrices to multiply, the first or the second turned."""
    return {"x": rng.normal(size=(3, 3)), "y": rng.normal(size=(3, 3)), "a": [1, 0], "s": bool(rng.integers(2)), "t": bool(rng.integers(2))}


def whole_tensor(rng):
    """A tensor to be expanded, reshaped or transposed, and then reduced."""
    return {"x": rng.normal(size=(1, 3)), "s": [2, 3], "a": [1, 0]}


# -- reductions ----------------------------------------------------------------------------------


# That the axes have one element is no condition: both sides have one shape, so nothing else can be reduced.


@exact(example=single_axis)
def sum_over_one_element(x, *, d, k, r):
    return ops.reduce_sum(x, dim=d, keep_dim=k, reduce_all=r), x


@exact(example=single_axis)
def mean_over_one_element(x, *, d, k, r):
    # The mean of integers would be of another dtype.
    return ops.reduce_mean(x, dim=d, keep_dim=k, reduce_all=r), x, is_float(x)


@exact(example=single_axis)
def max_over_one_element(x, *, d, k, r):
    return ops.reduce_max(x, dim=d, keep_dim=k, reduce_all=r), x


@exact(example=single_axis)
def min_over_one_element(x, *, d, k, r):
    return ops.reduce_min(x, dim=d, keep_dim=k, reduce_all=r), x


@exact(example=single_axis)
def product_over_one_element(x, *, d, k, r):
    return ops.reduce_prod(x, dim=d, keep_dim=k, reduce_all=r), x


@exact
def mean_of_one_element(x):
    return ops.mean(x), x, is_float(x)


@fast(example=whole_tensor)
def mean_of_expanded(x, *, s):
    return ops.mean(ops.expand_v2(x, shape=s)), ops.mean(x), is_float(x)


@fast(example=lambda rng: {"x": rng.normal(size=(2, 3)), "s": [6]})
def mean_of_reshaped(x, *, s):
    return ops.mean(ops.reshape2(x, shape=s)), ops.mean(x), is_float(x)


@fast(example=whole_tensor)
def mean_of_transposed(x, *, a):
    # The same elements in another order: only rounding differs.
    return ops.mean(ops.transpose2(x, axis=a)), ops.mean(x), is_float(x)


@fast
def mean_of_scaled(x, *, a, b):
    return ops.mean(ops.scale(x, scale=a, bias=b)), ops.scale(ops.mean(x), scale=a, bias=b), is_float(x)


@fast(example=lambda rng: {"x": rng.normal(size=(2, 3)), "d": [1], "k": False, "r": False, "a": 2.5})
def sum_of_scaled_elements(x, *, a, d, k, r):
    product = ops.scale(x, scale=a)
    total = ops.scale(ops.reduce_sum(x, dim=d, keep_dim=k, reduce_all=r), scale=a)
    # Of integers the product may wrap round at another place.
    return ops.reduce_sum(product, dim=d, keep_dim=k, reduce_all=r), total, is_float(x) & (product.uses == 1)


def joined(first, second):
    """The axes of two lists, each once, counted from the front."""
    # Axes count in the same tensor, since the inner sum keeps them.
    return sorted({*first, *second})


def counted_from_front(first, second):
    """Whether both lists name axes, and none from the end."""
    # Counted from both ends, one axis could be in both lists, as 1 and as -1. An empty list means all axes.
    return bool(first) and bool(second) and min(*first, *second) >= 0


@fast(example=lambda rng: {"x": rng.normal(size=(2, 3)), "d": [1], "e": [0]})
def sum_of_sums(x, *, d, e):
    inner = ops.reduce_sum(x, dim=d, keep_dim=True)
    total = ops.reduce_sum(x, dim=compute(joined, d, e), keep_dim=True)
    return ops.reduce_sum(inner, dim=e, keep_dim=True), total, is_float(x) & compute(counted_from_front, d, e)


# -- products of matrices ------------------------------------------------------------------------


def identity(**attrs):
    """The operator ``eye`` in a pattern: one without inputs has no tensor of the pattern to say that it is in one."""
    # Built without an operand, so nothing says which pattern it belongs to: ``called`` makes the term.
    return called(ops.lookup("eye"), (), attrs)


def turned(axis):
    """Whether an order of axes exchanges the last two."""
    rank = len(axis)
    return rank > 1 and [a % rank for a in axis] == [*range(rank - 2), rank - 1, rank - 2]


@exact(example=two_matrices)
def matmul_of_transposed(x, y, *, a, s, t):
    product = ops.matmul_v2(ops.transpose2(x, axis=a), y, trans_x=s, trans_y=t)
    # For matrices alone: of more axes an order may move others than the last two.
    return product, ops.matmul_v2(x, y, trans_x=~s, trans_y=t), compute(turned, a) & (x.ndim == 2) & (y.ndim == 2)


@exact(example=two_matrices)
def matmul_by_transposed(x, y, *, a, s, t):
    product = ops.matmul_v2(x, ops.transpose2(y, axis=a), trans_x=t, trans_y=s)
    return product, ops.matmul_v2(x, y, trans_x=t, trans_y=~s), compute(turned, a) & (x.ndim == 2) & (y.ndim == 2)


@exact(example=two_matrices)
def old_matmul_of_transposed(x, y, *, a, s, t, f):
    product = ops.matmul(ops.transpose2(x, axis=a), y, transpose_X=s, transpose_Y=t, alpha=f)
    after = ops.matmul(x, y, transpose_X=~s, transpose_Y=t, alpha=f)
    return product, after, compute(turned, a) & (x.ndim == 2) & (y.ndim == 2)


@exact(example=two_matrices)
def old_matmul_by_transposed(x, y, *, a, s, t, f):
    product = ops.matmul(x, ops.transpose2(y, axis=a), transpose_X=t, transpose_Y=s, alpha=f)
    after = ops.matmul(x, y, transpose_X=t, transpose_Y=~s, alpha=f)
    return product, after, compute(turned, a) & (x.ndim == 2) & (y.ndim == 2)


@fast(example=lambda rng: {"x": rng.normal(size=(2, 3, 4)), "y": rng.normal(size=(2, 3, 5)), "a": [0, 2, 1], "s": False, "t": False})
def batched_matmul_of_transposed(x, y, *, a, s, t):
    product = ops.matmul_v2(ops.transpose2(x, axis=a), y, trans_x=s, trans_y=t)
    return product, ops.matmul_v2(x, y, trans_x=~s, trans_y=t), compute(turned, a)


@fast(example=lambda rng: {"x": rng.normal(size=(2, 3, 4)), "y": rng.normal(size=(2, 5, 4)), "a": [0, 2, 1], "s": False, "t": False})
def batched_matmul_by_transposed(x, y, *, a, s, t):
    product = ops.matmul_v2(x, ops.transpose2(y, axis=a), trans_x=t, trans_y=s)
    return product, ops.matmul_v2(x, y, trans_x=t, trans_y=~s), compute(turned, a)


# Not exact: an infinity times the zeros of the identity is nan.
@fast(example=lambda rng: {"x": rng.normal(size=(2, 3)), "n": 3, "d": "float64", "s": False})
def matmul_by_identity(x, *, n, d, s):
    return ops.matmul_v2(x, identity(num_rows=n, dtype=d), trans_y=s), x


@fast(example=lambda rng: {"x": rng.normal(size=(2, 3)), "n": 2, "d": "float64", "s": False})
def matmul_of_identity(x, *, n, d, s):
    return ops.matmul_v2(identity(num_rows=n, dtype=d), x, trans_x=s), x


@fast(example=lambda rng: {"x": rng.normal(size=(2, 3)), "n": 3, "d": "float64"})
def mul_by_identity(x, *, n, d):
    return ops.mul(x, identity(num_rows=n, dtype=d)), x


@fast(example=lambda rng: {"x": rng.normal(size=(2, 3)), "y": rng.normal(size=(3, 2)), "a": 2.5, "s": False, "t": False})
def matmul_of_scaled(x, y, *, a, s, t):
    product = ops.scale(x, scale=a)
    after = ops.matmul(x, y, transpose_X=s, transpose_Y=t, alpha=a)
    return ops.matmul(product, y, transpose_X=s, transpose_Y=t), after, is_float(x) & (product.uses == 1)
