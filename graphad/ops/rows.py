"""Softmax and moments of many rows, a tile of them at a time, which stays in the cache.

    exp(x - max(x)) / sum(...)   ⇒   for each tile:  out = exp(x);  sums = out @ ones;  out /= sums

Three things cost more in numpy than the arithmetic, and are avoided here. Reducing the last axis is a call for each row: sums are products
with ones instead, and sums of squares inner products, both BLAS's. Where each row meets one number of its own, or each row the same row,
numpy repeats the smaller operand in a buffer of 8192 elements: not so where a row is longer than the buffer. And what the cache cannot
hold is written to memory and read again by each call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from graphad.ops import row_loops
from graphad.ops.formulas import Tracer, Untraceable, as_array
from graphad.ops.loops import may_compile
from graphad.ops.row_loops import SAFE
from graphad.ops.scratch import aligned, scratch
from graphad.types import Array

TILE = 1 << 19  # bytes of a tile
LEAST = 1 << 12  # elements from which on tiles pay, where the alternative is compiled
ONE_TILE = 1 << 15  # elements up to which a softmax is one tile, and to set numpy's buffer takes longer than it saves
FEW = 32  # numbers that Python compares more quickly than numpy
SHORT, DOT = 16, 64  # elements: shorter rows are quicker as they are, for longer ones an inner product of BLAS pays
NEAR = 32  # elements of rows from which on the means of random ones are mostly less than half a standard deviation
DIGITS = 1 << 14  # elements of a row up to which BLAS adds products as exactly as numpy, which adds pairwise
LONG, UNBUFFERED, BUFFERED = 256, 64, 1 << 10  # elements: rows so long need no buffer, others one that stays in the nearest cache
NEGLIGIBLE = 2.0**-21  # what a mean may be off by, in standard deviations
LARGE = 2.0**40  # a factor of a column up to which its product with that of a row is far from overflow, and squares of a row


def in_tiles(X: Array, length: int) -> bool:
    """Whether rows of a length can be worked on by the functions of this module."""
    return X.dtype.char in "fd" and length >= SHORT


def many(X: Array, length: int) -> bool:
    """Whether that is quicker than the calls which a compiled program would make."""
    return in_tiles(X, length) and X.size >= LEAST


def many_short(X: Array, length: int) -> bool:
    """The same for gradients, whose sums of products lose digits where rows are so long."""
    return many(X, length) and length <= DIGITS


def as_rows(X: Array, *shape: int) -> Array:
    """An array in the shape that is worked on in tiles; Untraceable for a tracer, since what is done depends on values."""
    if isinstance(X, Tracer):
        raise Untraceable("rows in tiles")
    rows = np.ascontiguousarray(X)
    return rows if rows.shape[1:] == shape[1:] else rows.reshape(shape)  # a view of the same shape takes as long as a small kernel


def spread(numbers: Array, like: Array) -> Array:
    """A number for each row of ``[samples, rows, n]``, to be combined with them: repeated, if rows are short and the samples share that."""
    samples, _, length = like.shape
    return numbers[:, None] if length >= LONG or samples == 1 else np.repeat(numbers, length).reshape(-1, length)


@contextmanager
def row_buffers(x: Array) -> Iterator[None]:
    """Let numpy combine rows of ``[samples, rows, n]`` with what is ``spread``, or with a row, as fast as it can."""
    together = x.shape[2] * (x.shape[1] if len(x) > 1 else 1)  # numpy takes axes together that lie in order in all operands
    before = np.setbufsize(UNBUFFERED if together >= LONG else BUFFERED)
    try:
        yield
    finally:
        np.setbufsize(before)


def _tiles(count: int, nbytes: int) -> Iterator[slice]:
    """As many of ``count`` at a time as a tile has room for, of so many bytes each."""
    step = max(1, TILE // max(nbytes, 1))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _summed(x: Array, y: Array) -> Array:
    """The inner product of each row of x with that of y, or with y: the same for a row, whatever rows are beside it."""
    if x.shape[-1] > DIGITS:
        count = x.shape[-1] // DIGITS
        pieces = (each[..., : count * DIGITS].reshape(*each.shape[:-1], count, DIGITS) for each in (x, y))
        ends = (each[..., count * DIGITS :] for each in (x, y))
        return as_array(np.vecdot(*pieces).sum(-1) + np.vecdot(*ends))
    return as_array(np.vecdot(x, y) if x.shape[-1] >= DOT else np.einsum("...n,...n->...", x, y))


# -- softmax -------------------------------------------------------------------------------------


def softmax_rows(x: Array) -> Array:
    """The exponentials of each row of ``[rows, n]``, scaled to the sum 1."""
    if may_compile(x):
        out = np.empty(x.shape, x.dtype)
        row_loops.softmax(x, out)
        return out
    out, ones = np.empty_like(x), _ones(x.shape[1], x.dtype)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if x.size < ONE_TILE:
            _softmax_tile(x, out, ones)
            return out
        with row_buffers(x[None]):
            for tile in _tiles(len(x), ones.nbytes):
                _softmax_tile(x[tile], out[tile], ones)
    return out


def _all_safe(sums: Array) -> bool:
    """Whether all sums are between the bounds, which nan is not."""
    if sums.size <= FEW:
        return all(SAFE[0] <= number <= SAFE[1] for number in sums.tolist())
    return bool(sums.min() >= SAFE[0] and sums.max() <= SAFE[1])


@lru_cache(maxsize=64)
def _ones(count: int, dtype: np.dtype[np.generic]) -> Array:
    ones = np.ones(count, dtype)
    ones.flags.writeable = False
    return ones


def _softmax_tile(x: Array, out: Array, ones: Array) -> None:
    # Without the greatest of each row, which takes as long as all the rest: it is for rows whose exponentials are too large or too small.
    np.exp(x, out=out)
    sums = _summed(out, ones)
    if not _all_safe(sums):
        safe = (sums >= SAFE[0]) & (sums <= SAFE[1])
        rows = x[~safe]
        rows -= np.maximum.reduce(rows, axis=1, keepdims=True)
        np.exp(rows, out=rows)
        out[~safe], sums[~safe] = rows, _summed(rows, ones)
    np.divide(out, sums[:, None], out=out)


def softmax_rows_grad(out: Array, d: Array) -> Array:
    """The cotangent of the argument of ``softmax_rows``, from the result and its cotangent: ``out (d - sum(out d))`` for each row."""
    grad = aligned(out.shape, out.dtype)
    if may_compile(out, d):
        row_loops.softmax_grad(out, d, grad)
        return grad
    with row_buffers(out[None]):
        for tile in _tiles(len(out), out.shape[1] * out.itemsize):
            part, into = out[tile], grad[tile]
            np.subtract(d[tile], _summed(part, d[tile])[:, None], out=into)
            np.multiply(into, part, out=into)
    return grad


# -- moments -------------------------------------------------------------------------------------


class Centered(NamedTuple):
    """A tile ``[samples, rows, n]`` of which each row has the mean 0 over samples and elements, and its moments ``[rows]`` in float64."""

    place: slice
    rows: Array
    mean: Array
    variance: Array


def centered_tiles(x: Array) -> Iterator[Centered]:
    """Some rows of ``[samples, rows, n]`` at a time, less their means, in memory that the next ones are written to.

    The mean is that of the deviations from a rounded mean, and the variance is corrected by it (T. Chan, G. Golub and R. LeVeque,
    "Algorithms for computing the sample variance", 1983, eq. 1.7): float32 numbers around 10,000 keep all their digits. A mean of less than
    a standard deviation needs no correction: it is as exact as the numbers.
    """
    samples, rows, length = x.shape
    ones, count = np.ones(length, x.dtype), samples * length
    for place in _tiles(rows, count * x.itemsize):
        tile = x[:, place]
        mean = _added(_summed(tile, ones)) / count
        rounded = mean.astype(x.dtype)
        deviations = np.subtract(tile, spread(rounded, tile), out=scratch("deviations", tile.shape, x.dtype))
        variance = _added(_summed(deviations, deviations)) / count
        far = ~(np.abs(mean) <= np.sqrt(variance))  # nan is far
        if not far.any():
            yield Centered(place, deviations, mean, variance)
            continue
        # With r the rounded mean: mean = r + E[x - r], and variance = E[(x - r)^2] - E[x - r]^2.
        rest = np.where(far, _added(_summed(deviations, ones)) / count, 0.0)
        variance = np.maximum(variance - rest * rest, 0.0)
        negligible = np.abs(rest) <= NEGLIGIBLE * np.sqrt(variance)
        if not negligible.all():
            deviations -= spread(np.where(negligible, 0.0, rest).astype(x.dtype), tile)
        yield Centered(place, deviations, np.where(far, rounded + rest, mean), variance)


def _added(sums: Array) -> Array:
    """The sums of samples added up, in float64."""
    return as_array(np.add.reduce(sums, axis=0, dtype="float64"))


def normalized_rows(x: Array, scale: Array | None, bias: Array | None, epsilon: float) -> tuple[Array, Array, Array]:
    """Each row of ``[rows, n]`` less its mean, divided by its standard deviation, scaled and shifted element by element; mean, variance.

    That is ``x * A + B`` with ``A = inverse ⊗ scale`` and ``B = 1 ⊗ bias - (mean inverse) ⊗ scale``: BLAS writes matrices of rank two in a
    third of the time in which numpy repeats a row or a column. The variance as the mean of squares less the square of the mean loses a
    third of a bit at most where the mean is less than half a standard deviation; from other rows, and from short ones, their rounded mean
    is taken first, and the same is done with the rest.
    """
    rows, length = x.shape
    if may_compile(x) and length <= DIGITS:
        y, (mean, variance), vectors = aligned(x.shape, x.dtype), np.empty((2, rows), x.dtype), np.empty((2, length), x.dtype)
        vectors[0] = 1 if scale is None else scale
        vectors[1] = 0 if bias is None else bias
        row_loops.normalized(x, vectors[0], vectors[1], epsilon, y, mean, variance)
        return y, mean, variance
    columns = np.zeros((2, 2, length), x.dtype)
    columns[:, 0] = 1 if scale is None else scale
    columns[1, 1] = 0 if bias is None else bias
    if not np.abs(columns[1]).max() <= LARGE:  # nan is not; infinite A and B would cancel each other
        y, mean, variance = normalized_rows(x, None, None, epsilon)
        return y * columns[1, 0] + columns[1, 1], mean, variance
    y, (mean, variance), ones = aligned(x.shape, x.dtype), np.empty((2, rows), x.dtype), _ones(length, x.dtype)
    for place in _tiles(rows, ones.nbytes):
        moments = _moments(x[place], ones)
        near = 4.0 * moments[0] ** 2 <= (moments[1] if length >= NEAR else -1.0)  # nan is not
        # Each kind by itself, so that a row has the same bits whatever is beside it.
        for some, work in ((near, _scale_and_shift), (~near, _center_and_scale)):
            if some.all():
                work(x[place], columns, moments, epsilon, y[place])
            elif some.any():
                part, their_moments = x[place][some], moments[:, some]
                work(part, columns, their_moments, epsilon, part)
                y[place][some], moments[:, some] = part, their_moments
        mean[place], variance[place] = moments
    return y, mean, variance


def _moments(x: Array, ones: Array) -> Array:
    """Mean and variance of each row, ``[2, rows]`` in float64."""
    result = np.empty((2, len(x)))
    result[0], result[1] = _summed(x, ones), _summed(x, x)
    result /= x.shape[1]
    result[1] -= result[0] * result[0]
    return result


def _scale_and_shift(x: Array, columns: Array, moments: Array, epsilon: float, out: Array) -> None:
    """``x * A + B``, which may be written over x."""
    factors, inverse = np.zeros((2, len(x), 2), x.dtype), 1.0 / np.sqrt(moments[1] + epsilon)
    factors[0, :, 0], factors[1, :, 0], factors[1, :, 1] = inverse, -moments[0] * inverse, 1.0
    a, b = scratch("terms", (2, *x.shape), x.dtype)
    np.matmul(factors[0], columns[0], out=a)
    np.multiply(x, a, out=a)
    np.matmul(factors[1], columns[1], out=b)
    np.add(a, b, out=out)


def _center_and_scale(x: Array, columns: Array, moments: Array, epsilon: float, out: Array) -> None:
    """The same of rows without their rounded means, and their moments more exactly."""
    rounded = moments[0].astype(x.dtype)
    with row_buffers(x[None]):
        rest = np.subtract(x, rounded[:, None], out=scratch("deviations", x.shape, x.dtype))
    moments[...] = _moments(rest, _ones(x.shape[1], x.dtype))
    _scale_and_shift(rest, columns, moments, epsilon, out)
    moments[0] += rounded


def normalized_channels(x: Array, scale: Array, bias: Array, epsilon: float) -> tuple[Array, Array]:
    """``[samples, channels, n]`` normalized, scaled and shifted channel by channel; mean, variance and its inverse square root."""
    y, moments = aligned(x.shape, x.dtype), np.empty((3, x.shape[1]), x.dtype)
    if may_compile(x, scale, bias) and x.shape[2] <= DIGITS:
        row_loops.channels(x, scale, bias, epsilon, y, moments)
        return y, moments
    with row_buffers(x):
        for place, rows, mean, variance in centered_tiles(x):
            moments[0, place], moments[1, place], moments[2, place] = mean, variance, inverse_root(variance, epsilon, x.dtype)
            rows *= spread(moments[2, place] * scale[place], rows)
            np.add(rows, spread(bias[place], rows), out=y[:, place])
    return y, moments


def inverse_root(variance: Array, epsilon: float, dtype: np.dtype[np.generic]) -> Array:
    """``1 / sqrt(variance + epsilon)``, rounded to a dtype."""
    return (1.0 / np.sqrt(variance + epsilon)).astype(dtype)


class RowGrad(NamedTuple):
    """The gradients of a normalization of rows ``[rows, n]``, scaled and shifted element by element, with respect to its inputs."""

    x: Array
    scale: Array
    bias: Array


def through_rows(x: Array, d: Array, mean: Array, inverse: Array, scale: Array | None) -> RowGrad:
    """The cotangents for that of the result, d; ``mean`` and ``inverse``, of the standard deviation, are those of each row.

    With hat = (x - mean) inverse and g = d scale, that of x is ``(g - mean(g) - hat mean(g hat)) inverse``: it is projected away from the
    two directions that the normalization takes away (J. L. Ba, J. R. Kiros and G. E. Hinton, "Layer normalization", 2016).
    """
    rows, length = x.shape
    out, ones = aligned(x.shape, x.dtype), _ones(length, x.dtype)
    column = ones if scale is None else np.ascontiguousarray(scale, x.dtype)
    columns, totals = np.zeros((3, 2, length), x.dtype), np.zeros((2, length), x.dtype)
    if may_compile(x, d, mean, inverse):
        row_loops.normalized_grad(x, d, mean, inverse, column, out, totals)
        return RowGrad(out, totals[0], totals[1])
    columns[0, 0], columns[1:, 0] = column, 1
    for place in _tiles(rows, ones.nbytes):
        part, cotangent, middle, factor = x[place], d[place], mean[place], inverse[place]
        if not (np.abs(middle) * factor).max() <= 0.5:  # nan is not: what is far from 0 loses digits
            with row_buffers(x[None]):
                part = np.subtract(part, middle[:, None], out=scratch("deviations", part.shape, x.dtype))
            middle = _summed(part, ones) / length
        a, b = scratch("terms", (2, *part.shape), x.dtype)
        np.multiply(cotangent, part, out=a)
        # With hat = x factor + shift: sums of d hat and of d over all rows, means of g and of g hat over each.
        shifts = np.ones((2, len(part)), x.dtype)
        shift = np.multiply(middle, -factor, out=shifts[0])
        totals += np.matmul(shifts, cotangent)
        totals[0] += np.matmul(factor, a)
        constant = _summed(cotangent, column) / length
        along = _summed(a, column) / length * factor + shift * constant
        # The cotangent is d (factor ⊗ scale) - x (factor² along ⊗ 1) - factor (constant + shift along) ⊗ 1.
        weights, negative = np.zeros((3, len(part), 2), x.dtype), -factor
        weights[0, :, 0], weights[1, :, 0], weights[2, :, 0] = factor, negative * factor * along, negative * (constant + shift * along)
        np.matmul(weights[0], columns[0], out=a)
        np.multiply(a, cotangent, out=a)
        np.matmul(weights[1], columns[1], out=b)
        np.multiply(b, part, out=b)
        np.add(a, b, out=a)
        np.matmul(weights[2], columns[2], out=b)
        np.add(a, b, out=out[place])
    return RowGrad(out, totals[0], totals[1])


def through_channels(x: Array, d: Array, mean: Array, inverse: Array, scale: Array) -> RowGrad:
    """``through_rows`` of ``[samples, channels, n]`` that are normalized, scaled and shifted channel by channel."""
    samples, channels, length = x.shape
    out, ones, count = aligned(x.shape, x.dtype), _ones(length, x.dtype), samples * length
    scale_grad, bias_grad = np.empty((2, channels), x.dtype)
    if may_compile(x, d, mean, inverse, scale):
        row_loops.channels_grad(x, d, mean, inverse, scale, out, scale_grad, bias_grad)
        return RowGrad(out, scale_grad, bias_grad)
    with row_buffers(x):
        for place in _tiles(channels, count * x.itemsize):
            part, cotangent = x[:, place], d[:, place]
            hat = np.subtract(part, spread(mean[place], part), out=scratch("deviations", part.shape, x.dtype))
            # Moments are over samples and elements: each sum is one number for a channel.
            rest = _added(_summed(hat, ones)) / count
            if not (np.abs(rest) * inverse[place]).max() <= NEGLIGIBLE:  # nan is not
                hat -= spread(rest.astype(x.dtype), part)
            hat *= spread(inverse[place], part)
            along, constant = _added(_summed(cotangent, hat)), _added(_summed(cotangent, ones))
            scale_grad[place], bias_grad[place] = along, constant
            hat *= spread((along / count).astype(x.dtype), part)
            hat += spread((constant / count).astype(x.dtype), part)
            np.subtract(cotangent, hat, out=hat)
            np.multiply(hat, spread(inverse[place] * scale[place], part), out=out[:, place])
    return RowGrad(out, scale_grad, bias_grad)
