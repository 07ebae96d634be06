"""The product of two matrices, in parts where BLAS does those faster than the whole.

    x [2, 1024], y [1024, 3072]:   x @ y   ⇒   x[:, :162] @ y[:162] + x[:, 162:324] @ y[162:324] + ...

BLAS copies a matrix into an order of its own before it multiplies by it (K. Goto and R. van de Geijn, "Anatomy of high-performance
matrix multiplication", 2008). For a few rows the copy takes longer than the product. OpenBLAS does without it where the product is small,
so that a large one is made of small ones: with two rows a third of the time or less, with twelve the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphad.ops.formulas import as_array
from graphad.types import Array

FEW_ROWS, FEW_COLUMNS = range(2, 13), range(2, 9)  # a single one is a vector, which is never copied
NOT_COPIED = 100**3  # OpenBLAS's bound for the multiplications of a product without a copy,
NOT_COPIED_RESULTS = 1200  # and for the results, if the second matrix lies transposed
LEAST_PART = 8  # rows or columns of a part: with fewer the calls take longer than the copy
LEAST_SIZE = 1 << 15  # elements of the large matrix


_dot: Callable[[Array, Array], Array] = np.dot


def in_float32(function: Callable[..., Any], *arrays: Array) -> Array:
    """Call a sum of products; of float16 in float32, and rounded once: BLAS has no float16, and numpy without it is slow."""
    if arrays[0].dtype != np.float16:
        return as_array(function(*arrays))
    return as_array(function(*(array.astype(np.float32) for array in arrays))).astype(np.float16)


def times(x: Array, y: Array) -> Array:
    """``x @ y`` of two matrices."""
    if x.dtype == np.float16:
        return in_float32(times, x, y)
    (rows, depth), columns = x.shape, y.shape[1]
    # BLAS copies both factors into its own layout, which for few rows takes longer than the product itself.
    if x.dtype.kind == "f" and rows in FEW_ROWS and depth * columns >= LEAST_SIZE:
        if y.flags.c_contiguous:
            return _by_depth(x, y, NOT_COPIED // (rows * columns))
        if y.flags.f_contiguous:
            return _by_columns(x, y, min(NOT_COPIED // (rows * depth), NOT_COPIED_RESULTS // rows))
    if x.dtype.kind == "f" and columns in FEW_COLUMNS and rows * depth >= LEAST_SIZE and x.flags.c_contiguous and y.flags.c_contiguous:
        return _by_rows(x, y, NOT_COPIED // (columns * depth))
    return _dot(x, y)


def _by_depth(x: Array, y: Array, step: int) -> Array:
    """The sum of products of some columns of x with as many rows of y."""
    depth = len(y)
    if not LEAST_PART <= step < depth:
        return _dot(x, y)
    # The first part makes the array, the others are added into it.
    total = _dot(x[:, :step], y[:step])
    for start in range(step, depth, step):
        np.add(total, _dot(x[:, start : start + step], y[start : start + step]), out=total)
    return total


def _by_columns(x: Array, y: Array, step: int) -> Array:
    columns = y.shape[1]
    if not LEAST_PART <= step < columns:
        return _dot(x, y)
    return np.concatenate([_dot(x, y[:, start : start + step]) for start in range(0, columns, step)], axis=1)


def _by_rows(x: Array, y: Array, step: int) -> Array:
    if not LEAST_PART <= step < len(x):
        return _dot(x, y)
    return np.concatenate([_dot(x[start : start + step], y) for start in range(0, len(x), step)], axis=0)
