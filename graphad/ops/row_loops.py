"""Softmax, layer normalization, their gradients and that of batch normalization as one compiled loop each, which keeps a row in the cache.

numpy takes a call for each operation, and reads and writes all rows in each. Here a row is read two or three times, and only once from
memory. The exponentials stay numpy's. Sums are added in any order, so the last digits differ from those of ``graphad.ops.rows``; a row
gives the same bits whatever is beside it.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from graphad.ops.loops import argument, function_of
from graphad.types import Array, Function

# Only sums may be taken in another order: in the functions that write results, ``(x - mean) - rest`` has to stay as it is.
_HEAD = '''\
"""Rows, by graphad."""
import numpy as np
from numba import njit

sums = njit(nogil=True, cache={cached}, error_model="numpy", fastmath={"reassoc", "contract"})
writes = dict(nogil=True, cache={cached}, error_model="numpy", fastmath={"contract"})

@sums
def total(x):
    result = np.{t}(0)
    for i in range(x.size):
        result += x[i]
    return result

@sums
def inner(x, y):
    result = np.{t}(0)
    for i in range(x.size):
        result += x[i] * y[i]
    return result

@sums
def deviation(x, m):
    result = np.{t}(0)
    for i in range(x.size):
        result += x[i] - m
    return result

'''

# The exponentials of rows, scaled to the sum 1; those with sums outside of the bounds are left, and counted.
_SCALED = """\
@njit(["intp({t}[:, ::1], float64, float64, boolean[::1])"], **writes)
def loop(rows, least, most, left):
    count = 0
    for r in range(rows.shape[0]):
        row = rows[r]
        s = total(row)
        left[r] = s < least or s > most
        if left[r]:
            count += 1
            continue
        factor = np.{t}(1) / s
        for i in range(row.size):
            row[i] *= factor
    return count
"""

_SCALED_GRAD = """\
@njit(["void({t}[:, ::1], {t}[:, ::1], {t}[:, ::1])"], **writes)
def loop(out, d, grad):
    for r in range(out.shape[0]):
        row, cotangent, into = out[r], d[r], grad[r]
        along = inner(row, cotangent)
        for i in range(row.size):
            into[i] = (cotangent[i] - along) * row[i]
"""

# With m a rounded mean: mean = m + E[x - m], and variance = E[(x - m)^2] - E[x - m]^2 (T. Chan, G. Golub and R. LeVeque, "Algorithms for
# computing the sample variance", 1983, eq. 1.7).
_NORMALIZED = """\
@sums
def deviations(x, m):
    first, second = np.{t}(0), np.{t}(0)
    for i in range(x.size):
        rest = x[i] - m
        first += rest
        second += rest * rest
    return first, second

@njit(["void({t}[:, ::1], {t}[::1], {t}[::1], float64, {t}[:, ::1], {t}[::1], {t}[::1])"], **writes)
def loop(x, scale, bias, epsilon, y, mean, variance):
    for r in range(x.shape[0]):
        row, into = x[r], y[r]
        m = total(row) / np.{t}(row.size)
        first, second = deviations(row, m)
        rest = first / np.{t}(row.size)
        v = second / np.{t}(row.size) - rest * rest
        if v < 0:
            v = np.{t}(0)
        mean[r], variance[r] = m + rest, v
        factor = np.{t}(1.0 / np.sqrt(np.float64(v) + epsilon))
        for i in range(row.size):
            into[i] = ((row[i] - m) - rest) * factor * scale[i] + bias[i]
"""

# With hat = (x - mean) inverse and g = d scale the cotangent of x is (g - mean(g) - hat mean(g hat)) inverse. Sums over rows are of 64 rows
# first, since float32 loses digits where thousands of numbers are added one by one.
_NORMALIZED_GRAD = """\
@sums
def along(x, d, scale, m, rest):
    first, second = np.{t}(0), np.{t}(0)
    for i in range(x.size):
        g = d[i] * scale[i]
        first += g
        second += g * ((x[i] - m) - rest)
    return first, second

@njit(["void({t}[:, ::1], {t}[:, ::1], {t}[::1], {t}[::1], {t}[::1], {t}[:, ::1], {t}[:, ::1], {t}[:, ::1])"], **writes)
def loop(x, d, mean, inverse, scale, out, totals, parts):
    of_scale, of_bias = parts[0], parts[1]
    count = np.{t}(x.shape[1])
    for r in range(x.shape[0]):
        row, cotangent, into = x[r], d[r], out[r]
        m, factor = mean[r], inverse[r]
        rest = deviation(row, m) / count
        first, second = along(row, cotangent, scale, m, rest)
        constant, slope = first / count, second * factor * factor / count
        for i in range(row.size):
            middle = (row[i] - m) - rest
            into[i] = (cotangent[i] * scale[i] - constant - middle * slope) * factor
        for i in range(row.size):
            of_scale[i] += cotangent[i] * (((row[i] - m) - rest) * factor)
            of_bias[i] += cotangent[i]
        if r % 64 == 63 or r == x.shape[0] - 1:
            for k in range(2):
                for i in range(row.size):
                    totals[k, i] += parts[k, i]
                    parts[k, i] = 0
"""

# The same for channels, over samples and elements; sums over samples are float64's.
_CHANNELS_GRAD = """\
@sums
def along(x, d, m, rest):
    first, second = np.{t}(0), np.{t}(0)
    for i in range(x.size):
        first += d[i]
        second += d[i] * ((x[i] - m) - rest)
    return first, second

@njit(["void({t}[:, :, ::1], {t}[:, :, ::1], {t}[::1], {t}[::1], {t}[::1], {t}[:, :, ::1], {t}[::1], {t}[::1])"], **writes)
def loop(x, d, mean, inverse, scale, out, of_scale, of_bias):
    count = x.shape[0] * x.shape[2]
    for c in range(x.shape[1]):
        m, factor, rests, firsts, seconds = mean[c], inverse[c], 0.0, 0.0, 0.0
        for n in range(x.shape[0]):
            rests += deviation(x[n, c], m)
        rest = np.{t}(rests / count)
        for n in range(x.shape[0]):
            first, second = along(x[n, c], d[n, c], m, rest)
            firsts += first
            seconds += second
        of_bias[c], of_scale[c] = firsts, seconds * factor
        constant, slope, whole = np.{t}(firsts / count), np.{t}(seconds * factor * factor / count), factor * scale[c]
        for n in range(x.shape[0]):
            row, cotangent, into = x[n, c], d[n, c], out[n, c]
            for i in range(row.size):
                into[i] = (cotangent[i] - constant - ((row[i] - m) - rest) * slope) * whole
"""


@cache
def _loop(text: str, dtype: str) -> Function:
    return function_of((_HEAD + text).replace("{t}", dtype))


def scaled(rows: Array, bounds: tuple[float, float], left: Array) -> int:
    """Scale each row to the sum 1, in place. Those whose sums are outside of the bounds are left, marked and counted."""
    count: int = _loop(_SCALED, rows.dtype.name)(rows, *bounds, left)
    return count


def softmax_grad(out: Array, d: Array, grad: Array) -> None:
    """Write ``out (d - sum(out d))`` of each row."""
    _loop(_SCALED_GRAD, out.dtype.name)(argument(out), argument(d), grad)


def normalized(x: Array, scale: Array, bias: Array, epsilon: float, y: Array, mean: Array, variance: Array) -> None:
    """Write each row less its mean, divided by its standard deviation, scaled and shifted; and both moments."""
    _loop(_NORMALIZED, x.dtype.name)(argument(x), scale, bias, epsilon, y, mean, variance)


def normalized_grad(x: Array, d: Array, mean: Array, inverse: Array, scale: Array, out: Array, totals: Array) -> None:
    """Write the cotangent of x, and into ``totals`` those of scale and bias."""
    totals.fill(0)
    _loop(_NORMALIZED_GRAD, x.dtype.name)(*map(argument, (x, d, mean, inverse, scale)), out, totals, np.zeros_like(totals))


def channels_grad(x: Array, d: Array, mean: Array, inverse: Array, scale: Array, out: Array, of_scale: Array, of_bias: Array) -> None:
    """Write the cotangents of ``[samples, channels, n]`` that are normalized channel by channel, of their scale and of their bias."""
    _loop(_CHANNELS_GRAD, x.dtype.name)(*map(argument, (x, d, mean, inverse, scale)), out, of_scale, of_bias)
