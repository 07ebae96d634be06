"""Special functions: the error function, the logarithm of the gamma function and its derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.definition import operator
from graphad.ops.formulas import as_array, primitive
from graphad.ops.inference import same_float
from graphad.ops.traits import FUNCTION
from graphad.types import Array, TensorType

# -- error function --------------------------------------------------------------------------------
# The error function on arrays: in float64 by the rational Chebyshev approximations of W. J. Cody (Math. Comp. 23, 1969).
#
# In float32 one rational function, evaluated in float64, is right to 0.55 units in the last place.

# Numerator and denominator for |x| <= 0.46875, for |x| <= 4, and beyond; highest power first.
NEAR = (
    (1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
MIDDLE = (
    (
        *(2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1, 2.98635138197400131e2),
        *(8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3),
    ),
    (
        *(1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3),
        *(3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
    ),
)
FAR = (
    (
        *(1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1),
        *(1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4),
    ),
    (1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3),
)


# erf(x) / x in x * x for |x| <= 3.95: a minimax fit whose relative error is below 2.4e-9. Beyond, erf(x) is 1 in float32.
SINGLE = (
    (
        *(6.658840974433087e-06, 0.0004076583908886138, 0.004205979625210214),
        *(0.055641442206631496, 0.19261468102099752, 1.1283791697167658),
    ),
    (
        *(2.5299411089922656e-07, 7.161300177546925e-05, 0.0014123414636375313, 0.016242328925038196),
        *(0.11732159281872376, 0.5040337420572206, 1.0),
    ),
)

CHUNK = 4096  # elements at a time, so that the intermediate arrays stay in the cache


@primitive
def error_function(x: Array) -> Array:
    """erf(x) elementwise, to the precision of x's dtype."""
    flat = x.astype("float64" if x.dtype.itemsize > 4 else "float32", copy=False).reshape(-1)
    out = np.empty_like(flat)
    # In float32 one approximation serves for all sizes.
    reach = _chunk if flat.dtype == "float64" else _single
    for start in range(0, flat.size, CHUNK):
        out[start : start + CHUNK] = reach(flat[start : start + CHUNK])
    return out.reshape(x.shape).astype(x.dtype, copy=False)


def _chunk(x: Array) -> Array:
    size = np.abs(x)
    top = size.max()
    if top <= 0.46875:
        return _near(x)
    # W. Cody, 1969: three rational approximations, for |x| up to 0.46875, up to 4, and beyond; the last two are of erfc.
    out = _near(np.clip(x, -0.46875, 0.46875))
    for reach, low, high in ((_middle, 0.46875, 4.0), (_far, 4.0, np.inf)):
        # ``not <=`` keeps nan: it takes the last branch, and stays nan.
        if not top <= low:
            at = np.flatnonzero((size > low) & (size <= high))
            out[at] = np.copysign(1.0 - reach(size[at]), x[at])
    return out


def _single(x: Array) -> Array:
    # At 3.95 erf is 1 to the precision of float32.
    wide = np.clip(x, -3.95, 3.95).astype("float64")
    return as_array(wide * _ratio(SINGLE, wide * wide))


def _near(x: Array) -> Array:
    return as_array(x * _ratio(NEAR, x * x))


def _middle(x: Array) -> Array:
    return as_array(_ratio(MIDDLE, x) * np.exp(-x * x))


def _far(x: Array) -> Array:
    # Beyond 8 erfc is below what a float64 near 1 can show.
    x = np.minimum(x, 8.0)
    z = 1.0 / (x * x)
    return as_array((1.0 / math.sqrt(math.pi) - z * _ratio(FAR, z)) / x * np.exp(-x * x))


def _ratio(coefficients: tuple[Sequence[float], Sequence[float]], x: Array) -> Array:
    above, below = (_polynomial(c, x) for c in coefficients)
    # Into the numerator, which is nowhere else.
    return np.divide(above, below, out=above)


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    # Horner's scheme, in place.
    total: Array = x * coefficients[0]
    for c in coefficients[1:-1]:
        total += c
        total *= x
    total += coefficients[-1]
    return total


# -- gamma -----------------------------------------------------------------------------------------
# The logarithm of the gamma function and its derivatives: Stirling's series where the argument is large, recurrence and reflection else.
#
# Abramowitz and Stegun, "Handbook of Mathematical Functions", 6.1, 6.3 and 6.4.

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_LARGE = 16.0


def _shifted(x: Array, order: int) -> tuple[Array, Array]:
    """A large argument, and what the terms on the way there add up to: logarithms for order -1, else ``1 / x ** (order + 1)``."""
    steps = np.zeros_like(x)
    x = x.copy()
    # gamma(x + 1) = x gamma(x): each step up takes one term off.
    while np.any(small := x < _LARGE + max(order, 0)):
        steps[small] += np.log(x[small]) if order < 0 else x[small] ** -(order + 1.0)
        x[small] += 1.0
    return x, steps


def _log_gamma(x: Array) -> Array:
    """The logarithm of gamma, for positive numbers."""
    y, steps = _shifted(x, -1)
    # Stirling's series; with arguments from 16 on eight terms reach the last digit.
    series = sum(b / (2 * k * (2 * k - 1)) * y ** (1.0 - 2 * k) for k, b in enumerate(_BERNOULLI, 1))
    return as_array((y - 0.5) * np.log(y) - y + 0.5 * math.log(2 * math.pi) + series - steps)


def _poly_gamma(n: int, x: Array) -> Array:
    """The derivative of order ``n + 1`` of the logarithm of gamma, for positive numbers."""
    # The asymptotic series (M. Abramowitz and I. Stegun, 6.4.11) is for large arguments: a smaller one is shifted up by the recurrence,
    # whose terms are ``steps``.
    y, steps = _shifted(x, n)
    if n == 0:
        series = sum(b / (2 * k) * y ** (-2.0 * k) for k, b in enumerate(_BERNOULLI, 1))
        return as_array(np.log(y) - 0.5 / y - series - steps)
    terms = (b * math.factorial(2 * k + n - 1) / math.factorial(2 * k) * y ** -(2.0 * k + n) for k, b in enumerate(_BERNOULLI, 1))
    total = math.factorial(n - 1) * y**-n + math.factorial(n) / 2 * y ** -(n + 1.0) + sum(terms) + math.factorial(n) * steps
    return as_array(total if n % 2 else -total)


def _cotangent(n: int, x: Array) -> Array:
    """The n-th derivative of ``pi * cot(pi * x)``: a polynomial in the cotangent."""
    polynomial = np.polynomial.Polynomial  # numpy imports it on first use
    # cot' = -1 - cot^2: the derivative of a polynomial in the cotangent is one again.
    derivative, inner = polynomial([0.0, math.pi]), polynomial([-math.pi, 0.0, -math.pi])
    for _ in range(n):
        derivative = derivative.deriv() * inner
    # cot(pi x) has the period 1: less its nearest integer, a large argument keeps its digits.
    return as_array(derivative(1.0 / np.tan(math.pi * (x - np.round(x)))))


def _log_gamma_anywhere(x: Array) -> Array:
    # Anything finite in the place of infinity and nan, which are set at the end.
    positive = np.where(x > 0, x, 1.0 - x)
    array = _log_gamma(np.where(np.isfinite(positive), positive, 1.0))
    with np.errstate(all="ignore"):
        # gamma(x) gamma(1 - x) = pi / sin(pi x).
        reflection = math.log(math.pi) - np.log(np.abs(np.sin(math.pi * (x - np.round(x))))) - array
    result = np.where(x > 0, array, reflection)
    return as_array(np.where(np.isinf(x), np.inf, np.where(np.isnan(x), np.nan, result)))


def _poly_gamma_anywhere(n: int, x: Array) -> Array:
    positive = np.where(x > 0, x, 1.0 - x)
    array = _poly_gamma(n, np.where(np.isfinite(positive), positive, 1.0))
    with np.errstate(all="ignore"):
        # The same reflection, differentiated n + 1 times: the sign alternates.
        reflection = (array if n % 2 == 0 else -array) - _cotangent(n, x)
    # At 0, -1, -2, … there are poles.
    result = np.where(x > 0, array, np.where(x == np.floor(x), np.nan, reflection))
    limit = np.inf if n == 0 else 0.0
    return as_array(np.where(x == np.inf, limit, np.where(np.isnan(x) | (x == -np.inf), np.nan, result)))


def _as(X: Array, value: Array) -> Array:
    return as_array(value, X.dtype)


@operator("X -> Out", infer=same_float, grad={"X": lambda X, dOut: dOut * digamma(X)}, **FUNCTION, steep=True)
def lgamma(X: Array) -> Array:
    """The logarithm of the absolute value of the gamma function; infinite at 0, -1, -2, …"""
    return _as(X, _log_gamma_anywhere(X.astype("float64")))


@operator("X -> Out", infer=same_float, grad={"X": lambda X, dOut: dOut * polygamma(X, n=1)}, **FUNCTION, steep=True)
def digamma(X: Array) -> Array:
    """The derivative of ``lgamma``; not a number at 0, -1, -2, …"""
    return _as(X, _poly_gamma_anywhere(0, X.astype("float64")))


def _poly_type(x: TensorType, *, n: int) -> TensorType:
    if n < 0:
        raise ShapeError(f"x is {x}: n={n} must not be negative")
    return same_float(x)


@operator("x -> out", infer=_poly_type, grad={"x": lambda x, dout, *, n: dout * polygamma(x, n=n + 1)}, elementwise=True)
def polygamma(x: Array, *, n: int) -> Array:
    """The n-th derivative of ``digamma``."""
    return _as(x, _poly_gamma_anywhere(n, x.astype("float64")))
