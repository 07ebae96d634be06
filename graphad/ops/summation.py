"""Sums whose rounding error does not grow with the length of the axis, and norms that neither overflow nor underflow.

``numpy.add.reduce`` adds pairwise along a contiguous last axis, and one element after the other along any other: over 100,000 rows of
float32 its result is wrong in the fourth digit. Here other axes are added in blocks, and the sums of the blocks in blocks again
(N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 4.2).
"""

from __future__ import annotations

import math

import numpy as np

from graphad.ops.formulas import as_array
from graphad.types import Array, Function

FEW = 64  # rows that are added in sequence
BLOCK = 128  # rows of a block
SMALL = 512  # elements up to which blocks are not worth the effort

Axes = tuple[int, ...]
_reduce: Function = np.add.reduce


def summed(X: Array, axes: Axes | int, keepdims: bool = False) -> Array:
    """The sum over one axis, or over axes that count from the front and rise, in the dtype of X.

    float16, and what is not contiguous, is added in float64. Integers and truth values give what ``numpy.add.reduce`` gives.

    >>> rows = np.full((100_000, 2), 0.1, "float32")
    >>> summed(rows, 0).round().tolist(), np.add.reduce(rows, axis=0).round().tolist()
    ([10000.0, 10000.0], [9999.0, 9999.0])
    """
    if isinstance(axes, int):
        axes = (axes % X.ndim,) if X.ndim else ()
    if X.dtype.kind != "f" or X.size <= SMALL or not axes:
        return as_array(_reduce(X, axis=axes, keepdims=keepdims))
    if X.dtype.itemsize < 8 and (X.dtype.itemsize == 2 or not X.flags.c_contiguous):
        return as_array(_reduce(X, axis=axes, dtype="float64", keepdims=keepdims), X.dtype)
    # numpy adds pairwise along the axis that is contiguous, with an error that grows as log n, but row by row along others, where it grows
    # as n (N. Higham, "The accuracy of floating point summation", 1993). So those are added in blocks of rows.
    trailing = _trailing(X.ndim, axes)
    outer_axes = axes[: len(axes) - len(trailing)]
    if not outer_axes or math.prod([X.shape[a] for a in outer_axes]) <= FEW:
        return as_array(_reduce(X, axis=None if len(axes) == X.ndim else axes, keepdims=keepdims))
    total = _reduce(X, axis=trailing, keepdims=True) if trailing else X
    for axis in reversed(outer_axes):
        total = _in_blocks(total, axis)
    return as_array(total if keepdims else total.reshape([e for i, e in enumerate(X.shape) if i not in axes]))


def runs_added(rows: Array, starts: Array) -> Array:
    """The sums of the runs of rows that begin at ``starts``, which rise from 0; floats of long runs in blocks.

    >>> runs_added(np.full(100_000, 0.1, "float32"), np.array([0, 99_999])).round(1).tolist()
    [9999.900390625, 0.10000000149011612]
    """
    # Each turn puts the sums of a run's blocks in the place of its rows: the error grows with the logarithm of the length.
    while rows.dtype.kind == "f":
        lengths = np.diff(starts, append=len(rows))
        blocks = -(-lengths // BLOCK)
        if lengths.max() <= FEW or len(rows) <= SMALL:
            break
        firsts = np.cumsum(blocks) - blocks  # of each run, its first block
        within = np.arange(blocks.sum()) - np.repeat(firsts, blocks)
        rows, starts = np.add.reduceat(rows, np.repeat(starts, blocks) + within * BLOCK, axis=0), firsts
    return as_array(np.add.reduceat(rows, starts, axis=0))


def power_norm(X: Array, axes: Axes, keepdims: bool = False, order: float = 2.0) -> Array:
    """``summed(|X| ** order) ** (1 / order)``, also where the powers are too large or too small for the dtype.

    >>> f"{power_norm(np.array([3e30, 4e30], 'float32'), (0,)):.3g}"
    '5e+30'
    """
    size = X if X.dtype.kind == "f" else X.astype("float64")
    total = _power_sum(size, axes, order)
    limits = np.finfo(size.dtype)
    # Only where the sum of powers overflowed, or lost digits by underflow, is it computed again of elements over the largest one; nan stays
    # nan.
    lossy = ~((total > limits.tiny / limits.eps) & (total < np.inf)) & (total == total)
    norm = _root(total, order)
    if lossy.any():
        top = np.max(np.abs(size), axis=axes, keepdims=True, initial=0)
        unit = np.where((top == 0) | np.isinf(top), size.dtype.type(1), top)
        norm = np.where(lossy, _root(_power_sum(size / unit, axes, order), order) * unit, norm)
    return as_array(norm if keepdims else norm.reshape([e for i, e in enumerate(X.shape) if i not in axes]), X.dtype)


def _power_sum(size: Array, axes: Axes, order: float) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        return summed(np.square(size) if order == 2.0 else np.abs(size) ** order, axes, True)


def _root(total: Array, order: float) -> Array:
    return as_array(np.sqrt(total) if order == 2.0 else total ** (1.0 / order))


def _trailing(rank: int, axes: Axes) -> Axes:
    """The last axes, as far as all of them are among ``axes``."""
    first = rank
    while first - 1 in axes:
        first -= 1
    return tuple(range(first, rank))


def _in_blocks(x: Array, axis: int) -> Array:
    """The sum along one axis, which is kept with the extent 1: products with ones, which the BLAS adds in blocks of its own."""
    extent, rest = x.shape[axis], math.prod(x.shape[axis + 1 :])
    if extent <= FEW:
        return as_array(_reduce(x, axis=axis, keepdims=True))
    rows = x.reshape(-1, extent, rest)
    # Sums of blocks, then a sum of these, and so on: the error grows with the logarithm of the count, as in pairwise summation (N. Higham,
    # "The accuracy of floating point summation", 1993).
    count, remainder = divmod(extent, BLOCK)
    parts = [_added_rows(rows[:, : count * BLOCK].reshape(-1, BLOCK, rest)).reshape(-1, count, rest)] if count else []
    if remainder:
        parts.append(_added_rows(rows[:, count * BLOCK :])[:, None])
    total = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    shape = (*x.shape[:axis], total.shape[1], *x.shape[axis + 1 :])
    return _in_blocks(total.reshape(shape), axis) if total.shape[1] > 1 else total.reshape(shape)


def _added_rows(x: Array) -> Array:
    """``[batch, rows, width]`` to ``[batch, width]``."""
    return as_array(np.matmul(np.ones(x.shape[1], x.dtype), x))
