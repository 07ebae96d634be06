"""The logarithm of the gamma function and its derivatives: Stirling's series where the argument is large, recurrence and reflection else.

Abramowitz and Stegun, "Handbook of Mathematical Functions", 6.1, 6.3 and 6.4.
"""

from __future__ import annotations

import math

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.inference import same_float
from graphad.ops.traits import FUNCTION
from graphad.types import TensorType

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_LARGE = 16.0


def _shifted(x: Array, order: int) -> tuple[Array, Array]:
    """A large argument, and what the terms on the way there add up to: logarithms for order -1, else ``1 / x ** (order + 1)``."""
    steps = np.zeros_like(x)
    x = x.copy()
    while np.any(small := x < _LARGE + max(order, 0)):
        steps[small] += np.log(x[small]) if order < 0 else x[small] ** -(order + 1.0)
        x[small] += 1.0
    return x, steps


def _log_gamma(x: Array) -> Array:
    """For positive numbers."""
    y, steps = _shifted(x, -1)
    series = sum(b / (2 * k * (2 * k - 1)) * y ** (1.0 - 2 * k) for k, b in enumerate(_BERNOULLI, 1))
    return np.asarray((y - 0.5) * np.log(y) - y + 0.5 * math.log(2 * math.pi) + series - steps)


def _poly_gamma(n: int, x: Array) -> Array:
    """The derivative of order ``n + 1`` of the logarithm of gamma, for positive numbers."""
    y, steps = _shifted(x, n)
    if n == 0:
        series = sum(b / (2 * k) * y ** (-2.0 * k) for k, b in enumerate(_BERNOULLI, 1))
        return np.asarray(np.log(y) - 0.5 / y - series - steps)
    terms = (b * math.factorial(2 * k + n - 1) / math.factorial(2 * k) * y ** -(2.0 * k + n) for k, b in enumerate(_BERNOULLI, 1))
    whole = math.factorial(n - 1) * y**-n + math.factorial(n) / 2 * y ** -(n + 1.0) + sum(terms) + math.factorial(n) * steps
    return np.asarray(whole if n % 2 else -whole)


def _cotangent(n: int, x: Array) -> Array:
    """The n-th derivative of ``pi * cot(pi * x)``: a polynomial in the cotangent."""
    polynomial = np.polynomial.Polynomial  # numpy imports it on first use
    derivative, inner = polynomial([0.0, math.pi]), polynomial([-math.pi, 0.0, -math.pi])
    for _ in range(n):
        derivative = derivative.deriv() * inner
    return np.asarray(derivative(1.0 / np.tan(math.pi * (x - np.round(x)))))


def _log_gamma_anywhere(x: Array) -> Array:
    positive = np.where(x > 0, x, 1.0 - x)
    found = _log_gamma(np.where(np.isfinite(positive), positive, 1.0))
    with np.errstate(all="ignore"):
        mirrored = math.log(math.pi) - np.log(np.abs(np.sin(math.pi * (x - np.round(x))))) - found
    result = np.where(x > 0, found, mirrored)
    return np.asarray(np.where(np.isinf(x), np.inf, np.where(np.isnan(x), np.nan, result)))


def _poly_gamma_anywhere(n: int, x: Array) -> Array:
    positive = np.where(x > 0, x, 1.0 - x)
    found = _poly_gamma(n, np.where(np.isfinite(positive), positive, 1.0))
    with np.errstate(all="ignore"):
        mirrored = (found if n % 2 == 0 else -found) - _cotangent(n, x)
    result = np.where(x > 0, found, np.where(x == np.floor(x), np.nan, mirrored))
    limit = np.inf if n == 0 else 0.0
    return np.asarray(np.where(x == np.inf, limit, np.where(np.isnan(x) | (x == -np.inf), np.nan, result)))


def _as(X: Array, value: Array) -> Array:
    return np.asarray(value, X.dtype)


@operator("X -> Out", infer=same_float, grad={"X": lambda X, dOut: dOut * digamma(X)}, **FUNCTION)
def lgamma(X: Array) -> Array:
    """The logarithm of the absolute value of the gamma function; infinite at 0, -1, -2, …"""
    return _as(X, _log_gamma_anywhere(X.astype("float64")))


@operator("X -> Out", infer=same_float, grad={"X": lambda X, dOut: dOut * polygamma(X, n=1)}, **FUNCTION)
def digamma(X: Array) -> Array:
    """The derivative of ``lgamma``; not a number at 0, -1, -2, …"""
    return _as(X, _poly_gamma_anywhere(0, X.astype("float64")))


def _poly_type(x: TensorType, *, n: int) -> TensorType:
    if n < 0:
        raise ShapeError(f"x is {x}: n={n} must not be negative")
    return same_float(x)


def _poly_grad(x: Tensor, dout: Tensor, *, n: int) -> Tensor:
    return dout * polygamma(x, n=n + 1)


@operator("x -> out", infer=_poly_type, grad={"x": _poly_grad}, elementwise=True)
def polygamma(x: Array, *, n: int) -> Array:
    """The n-th derivative of ``digamma``."""
    return _as(x, _poly_gamma_anywhere(n, x.astype("float64")))
