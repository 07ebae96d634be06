"""Functions that look at values: norms that are scaled if they have to be, series whose steps depend on the argument, tolerances."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphad.jax.registry import is_traced, refuse, replaces
from graphad.ops import comparison, elementwise, loss, metric, optimizer, products, rows, special, summation
from graphad.ops.inference import aligned
from graphad.types import Tensor


@replaces(products.times)
def _times(x: Tensor, y: Tensor) -> Tensor:
    """XLA divides large products itself."""
    return jnp.dot(x, y)


@replaces(special.error_function)
def _error_function(x: Tensor) -> Tensor:
    return lax.erf(jnp.asarray(x))


@replaces(special._shifted)
def _shifted(x: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """As many steps as the smallest positive number needs; a number that is large already takes none."""
    limit, x = special._LARGE + max(order, 0), jnp.asarray(x)

    def step(_: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        at, steps = state
        small = at < limit
        # Both sides of ``where`` are computed: where no step is taken nothing must be infinite.
        safe = jnp.where(small, at, 1.0)
        term = jnp.log(safe) if order < 0 else safe ** -(order + 1.0)
        return jnp.where(small, at + 1.0, at), jnp.where(small, steps + term, steps)

    result: tuple[Tensor, Tensor] = lax.fori_loop(0, math.ceil(limit), step, (x, jnp.zeros_like(x)))
    return result


@replaces(rows.in_tiles)
def _in_tiles(X: Tensor, length: int) -> bool:
    """XLA makes tiles of its own."""
    return False


@replaces(summation.summed)
def _summed(X: Tensor, axes: Tensor, keepdims: bool = False) -> Tensor:
    """XLA adds in an order of its own; float16 is added in float32."""
    if isinstance(axes, int):
        axes = (axes % X.ndim,) if X.ndim else ()
    if X.dtype.kind != "f":
        return _whole_sum(X, axes, keepdims) if is_traced(X) else np.asarray(X).sum(axis=axes, keepdims=keepdims)
    return jnp.sum(jnp.asarray(X), axis=axes, keepdims=keepdims)


def _whole_sum(X: Tensor, axes: Tensor, keepdims: bool) -> Tensor:
    return jnp.sum(X, axis=axes, keepdims=keepdims, dtype=np.add.reduce(np.ones(1, X.dtype)).dtype)


@replaces(summation.power_norm)
def _power_norm(X: Tensor, axes: Tensor, keepdims: bool = False, order: float = 2.0) -> Tensor:
    """Both the plain and the scaled norm are computed, and chosen from."""
    X = jnp.asarray(X)
    size = X if X.dtype.kind == "f" else X.astype("float64")
    limits = np.finfo(size.dtype)

    def norm_of(x: Tensor) -> Tensor:
        return jnp.sum(jnp.square(x) if order == 2.0 else jnp.abs(x) ** order, axis=axes, keepdims=True)

    def root(total: Tensor) -> Tensor:
        return jnp.sqrt(total) if order == 2.0 else total ** (1.0 / order)

    total = norm_of(size)
    # Squares underflow or overflow outside of this range, as in numpy's kernel, which then scales by the largest element (J. Blue, "A
    # portable Fortran program to find the Euclidean norm of a vector", 1978). nan stays nan.
    lossy = ~((total > limits.tiny / limits.eps) & (total < np.inf)) & (total == total)
    top = jnp.max(jnp.abs(size), axis=axes, keepdims=True, initial=0)
    unit = jnp.where((top == 0) | jnp.isinf(top), jnp.ones((), size.dtype), top)
    norm = jnp.where(lossy, root(norm_of(size / unit)) * unit, root(total))
    return (norm if keepdims else norm.reshape([e for i, e in enumerate(X.shape) if i not in axes])).astype(X.dtype)


@replaces(special._cotangent)
def _cotangent(n: int, x: Tensor) -> Tensor:
    """The n-th derivative of ``pi * cot(pi * x)`` as a polynomial in the cotangent, by Horner's scheme."""
    polynomial = np.polynomial.Polynomial
    derivative, inner = polynomial([0.0, math.pi]), polynomial([-math.pi, 0.0, -math.pi])
    for _ in range(n):
        derivative = derivative.deriv() * inner
    cotangent = 1.0 / jnp.tan(math.pi * (x - jnp.round(x)))
    return jnp.polyval(jnp.asarray(derivative.coef[::-1], x.dtype), cotangent)


@replaces(optimizer.clip_by_norm.kernel)
def _clip_by_norm(X: Tensor, *, max_norm: float) -> Tensor:
    norm = _power_norm(X, tuple(range(X.ndim)))
    return jnp.where(norm <= max_norm, X, X * (X.dtype.type(max_norm) / norm))


@replaces(optimizer._trust)
def _trust(param: Tensor, step: Tensor) -> Tensor:
    param_norm, step_norm = (_power_norm(tensor, tuple(range(tensor.ndim))) for tensor in (param, step))
    return jnp.where((param_norm != 0) & (step_norm != 0), param_norm / step_norm, jnp.ones((), param.dtype))


@replaces(metric.accuracy.kernel)
def _accuracy(Out: Tensor, Indices: Tensor, Label: Tensor) -> Tensor:
    hits = (jnp.asarray(Indices) == jnp.asarray(Label).reshape(-1, 1)).any(axis=1).sum()
    count = len(Indices)
    return (hits / max(count, 1)).astype(Out.dtype), hits.astype(np.int32), np.asarray(count, np.int32)


@replaces(loss.sigmoid_cross_entropy_with_logits.kernel)
def _sigmoid_cross_entropy(X: Tensor, Label: Tensor, *, ignore_index: int = -100, normalize: bool = False) -> Tensor:
    X, Label = jnp.asarray(X), jnp.asarray(Label)
    is_counted = Label != ignore_index
    losses = jnp.where(is_counted, jnp.maximum(X, 0) - X * Label.astype(X.dtype) + jnp.log1p(jnp.exp(-jnp.abs(X))), 0)
    return losses / jnp.maximum(is_counted.sum(), 1e-5).astype(X.dtype) if normalize else losses


@replaces(loss.nll_loss.kernel)
def _nll_loss(X: Tensor, Label: Tensor, Weight: Tensor = None, *, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    X, Label = jnp.asarray(X), jnp.asarray(Label)
    # Ignored labels look up class 0, and count with the weight 0.
    label = jnp.expand_dims(jnp.where(Label == ignore_index, 0, Label), 1)
    refuse(((label < 0) | (label >= X.shape[1])).any(), f"Label has an index outside of [0, {X.shape[1]})")
    counts = jnp.expand_dims(Label != ignore_index, 1).astype(X.dtype)
    weights = counts if Weight is None else jnp.asarray(Weight)[label] * counts
    losses = (-jnp.take_along_axis(X, label, axis=1) * weights)[:, 0]
    if reduction == "none":
        return losses, np.zeros((), X.dtype)
    whole = weights.sum()
    return losses.sum() / (jnp.where(whole != 0, whole, 1) if reduction == "mean" else 1), whole


@replaces(comparison._bound)
def _bound(name: str, text: str, tensor: Tensor) -> Tensor:
    return comparison._bound(name, text, tensor) if tensor is None or not is_traced(tensor) else tensor.reshape(())


@replaces(elementwise.elementwise_pow.function)
def _power(X: Tensor, Y: Tensor, *, axis: int = -1) -> Tensor:
    X, exponent = jnp.asarray(X), jnp.asarray(Y if axis == -1 else Y.reshape(aligned(X.shape, Y.shape, axis)))
    if X.dtype.kind in "fu":
        return jnp.power(X, exponent)
    # As the kernel: powers below zero by float64, rounded; all others by squaring, which is exact.
    power = jnp.rint(jnp.power(X.astype("float64"), exponent.astype("float64")))
    limits = np.iinfo(X.dtype)
    whole = jnp.where(jnp.isfinite(power), jnp.clip(power, limits.min, limits.max), 0).astype(X.dtype)
    return jnp.where(exponent < 0, whole, _whole_power(X, jnp.maximum(exponent, 0)))


def _whole_power(x: Tensor, exponent: Tensor) -> Tensor:
    """Integer powers by squaring, which wrap around as numpy's do."""
    x, exponent = jnp.broadcast_arrays(x, exponent)
    total = jnp.ones_like(x)
    for bit in range(np.iinfo(exponent.dtype).bits - 1):
        total = jnp.where((exponent >> bit) & 1 == 1, total * x, total)
        x = x * x
    return total
