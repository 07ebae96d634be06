"""Softmax, layer and batch normalization, and their gradients as one compiled loop each, which keeps a row in the cache.

numpy takes a call for each operation, and reads and writes all rows in each. Here a row is read two or three times, and only once from
memory. Sums are added in any order, and exponentials are this module's, so the last digits differ from those of
``graphad.ops.rows``; a row gives the same bits whatever is beside it.
"""

from __future__ import annotations

from functools import cache
from math import factorial
from typing import NamedTuple

import numpy as np

from graphad.ops.loops import LONG_VECTORS, argument, function_of
from graphad.types import Array, Function

# Only sums may be taken in another order: in the functions that write results, ``(x - mean) - rest`` has to stay as it is.
_HEAD = '''\
"""Rows, by graphad."""
import numpy as np
from numba import njit
{long vectors}
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

# exp(x - m) and the sum, for n = round((x - m) / log 2) and r the rest: 2^n times a polynomial of r, both rounded to a digit and a half at
# most (S. Moshier, "Methods and programs for mathematical functions", 1989). Added to {round}, n is in the last bits of the sum; moved to
# those of the exponent it is 2^n. The greatest of a row is found among integers of the same order, nan above all.
_SOFTMAX = """\
@intrinsic
def bits_of(typing, x):
    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.{n}))
    return types.{n}(types.{t}), generate

@intrinsic
def number_of(typing, bits):
    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.{t}))
    return types.{t}(types.{n}), generate

@njit(**writes)
def exponential(x):
    bounded = np.{t}({most}) if x > np.{t}({most}) else x
    shifted = bounded * np.{t}(1.4426950408889634) + np.{t}({round})
    n = shifted - np.{t}({round})
    r = (bounded - n * np.{t}({log2})) - n * np.{t}({rest})
    {polynomial}
    power = number_of(np.{n}(np.{n}(bits_of(shifted) << np.{n}({digits})) + np.{n}({one})))
    return np.{t}(0) if x < np.{t}({least}) else (p * r * r + r + np.{t}(1)) * power

@sums
def exponentials(x, m, out):
    long_vectors()
    result = np.{t}(0)
    for i in range(x.size):
        e = exponential(x[i] - m)
        out[i] = e
        result += e
    return result

@njit(**writes)
def greatest(x):
    result = np.{n}(-{signless} - 1)
    for i in range(x.size):
        bits = bits_of(x[i])
        key = np.{n}(bits ^ ({signless} if bits < 0 else 0))
        result = key if key > result else result
    return number_of(np.{n}(result ^ ({signless} if result < 0 else 0)))

@njit(["void({t}[:, ::1], {t}[:, ::1])"], **writes)
def loop(x, out):
    for r in range(x.shape[0]):
        into = out[r]
        s = exponentials(x[r], np.{t}(0), into)
        if not ({safe[0]} <= s <= {safe[1]}):
            s = exponentials(x[r], greatest(x[r]), into)
        factor = np.{t}(1) / s
        for i in range(into.size):
            into[i] *= factor
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
_DEVIATIONS = """\
@sums
def deviations(x, m):
    first, second = np.{t}(0), np.{t}(0)
    for i in range(x.size):
        rest = x[i] - m
        first += rest
        second += rest * rest
    return first, second

"""

_NORMALIZED = f"""{_DEVIATIONS}\
@njit(["void({{t}}[:, ::1], {{t}}[::1], {{t}}[::1], float64, {{t}}[:, ::1], {{t}}[::1], {{t}}[::1])"], **writes)
def loop(x, scale, bias, epsilon, y, mean, variance):
    for r in range(x.shape[0]):
        row, into = x[r], y[r]
        m = total(row) / np.{{t}}(row.size)
        first, second = deviations(row, m)
        rest = first / np.{{t}}(row.size)
        v = second / np.{{t}}(row.size) - rest * rest
        if v < 0:
            v = np.{{t}}(0)
        mean[r], variance[r] = m + rest, v
        factor = np.{{t}}(1.0 / np.sqrt(np.float64(v) + epsilon))
        for i in range(row.size):
            into[i] = ((row[i] - m) - rest) * factor * scale[i] + bias[i]
"""

# The same for channels, over samples and elements; sums over samples are float64's.
_CHANNELS = f"""{_DEVIATIONS}\
@njit(["void({{t}}[:, :, ::1], {{t}}[::1], {{t}}[::1], float64, {{t}}[:, :, ::1], {{t}}[::1], {{t}}[::1], {{t}}[::1])"], **writes)
def loop(x, scale, bias, epsilon, y, mean, variance, inverse):
    count = x.shape[0] * x.shape[2]
    for c in range(x.shape[1]):
        whole, firsts, seconds = 0.0, 0.0, 0.0
        for n in range(x.shape[0]):
            whole += total(x[n, c])
        m = np.{{t}}(whole / count)
        for n in range(x.shape[0]):
            first, second = deviations(x[n, c], m)
            firsts += first
            seconds += second
        firsts /= count
        v = seconds / count - firsts * firsts
        if v < 0:
            v = 0.0
        rest, shift = np.{{t}}(firsts), bias[c]
        mean[c], variance[c], inverse[c] = m + rest, v, 1.0 / np.sqrt(v + epsilon)
        factor = inverse[c] * scale[c]
        for n in range(x.shape[0]):
            row, into = x[n, c], y[n, c]
            for i in range(row.size):
                into[i] = ((row[i] - m) - rest) * factor + shift
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

# The same for channels.
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


# Between these sums of exponentials no digit of a quotient is lost. None has overflowed, as each is at most the sum; one that has
# underflowed, below 2**-126 in float32, is less than 2**-116 of it.
SAFE = 2.0**-10, 2.0**100


class _Exponential(NamedTuple):
    """The numbers of an exponential of a type of floats.

    Attributes:
        n: the integers that are as wide.
        digits: bits of a number after the first, which is not kept.
        one: 1.0, as bits.
        signless: the bits of a number without its sign.
        round: a number whose last digit counts ones, and is the greatest power of two but for a half.
        least, most: from which to which the exponential is a normal number.
        log2, rest: the logarithm of 2, of which the first part has few digits, so that its multiples are exact.
        polynomial: (exp(r) - 1 - r) / r^2, from the last coefficient on.
    """

    t: str
    n: str
    digits: int
    one: int
    signless: int
    round: float
    least: float
    most: float
    log2: float
    rest: float
    polynomial: tuple[float, ...]


_NEAREST = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_EXPONENTIALS = {
    "f": _Exponential(
        *("float32", "int32", 23, 127 << 23, (1 << 31) - 1, 1.5 * 2**23, -87.0, 88.0, 0.693359375, -2.12194440e-4), polynomial=_NEAREST
    ),
    "d": _Exponential(
        *("float64", "int64", 52, 1023 << 52, (1 << 63) - 1, 1.5 * 2**52, -708.0, 709.0, 0.693145751953125, 1.42860682030941723212e-6),
        polynomial=tuple(1 / factorial(k) for k in range(13, 1, -1)),
    ),
}


@cache
def _loop(text: str, char: str) -> Function:
    numbers = _EXPONENTIALS[char]
    first, *others = numbers.polynomial
    terms = [f"p = np.{{t}}({first!r})", *(f"p = p * r + np.{{t}}({other!r})" for other in others)]
    text = (_HEAD + text).replace("{long vectors}", LONG_VECTORS).replace("{polynomial}", "\n    ".join(terms))
    for name, value in (*numbers._asdict().items(), ("safe[0]", SAFE[0]), ("safe[1]", SAFE[1])):
        text = text.replace(f"{{{name}}}", str(value))
    return function_of(text)


def softmax(x: Array, out: Array) -> None:
    """Write the exponentials of each row, scaled to the sum 1; those whose sum is not ``SAFE`` without their greatest."""
    _loop(_SOFTMAX, x.dtype.char)(argument(x), out)


def softmax_grad(out: Array, d: Array, grad: Array) -> None:
    """Write ``out (d - sum(out d))`` of each row."""
    _loop(_SCALED_GRAD, out.dtype.char)(argument(out), argument(d), grad)


def normalized(x: Array, scale: Array, bias: Array, epsilon: float, y: Array, mean: Array, variance: Array) -> None:
    """Write each row less its mean, divided by its standard deviation, scaled and shifted; and both moments."""
    _loop(_NORMALIZED, x.dtype.char)(argument(x), scale, bias, epsilon, y, mean, variance)


def normalized_grad(x: Array, d: Array, mean: Array, inverse: Array, scale: Array, out: Array, totals: Array) -> None:
    """Write the cotangent of x, and into ``totals`` those of scale and bias."""
    totals.fill(0)
    _loop(_NORMALIZED_GRAD, x.dtype.char)(*map(argument, (x, d, mean, inverse, scale)), out, totals, np.zeros_like(totals))


def channels(x: Array, scale: Array, bias: Array, epsilon: float, y: Array, moments: Array) -> None:
    """Write ``[samples, channels, n]`` normalized channel by channel; and mean, variance and inverse deviation ``[3, channels]``."""
    _loop(_CHANNELS, x.dtype.char)(*map(argument, (x, scale, bias)), epsilon, y, *moments)


def channels_grad(x: Array, d: Array, mean: Array, inverse: Array, scale: Array, out: Array, of_scale: Array, of_bias: Array) -> None:
    """Write the cotangents of ``[samples, channels, n]`` that are normalized channel by channel, of their scale and of their bias."""
    _loop(_CHANNELS_GRAD, x.dtype.char)(*map(argument, (x, d, mean, inverse, scale)), out, of_scale, of_bias)
