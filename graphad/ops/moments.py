"""Mean and variance over some axes, and what a normalization by them sends back: shared by the normalizations.

Everything but ``fast_through_moments`` is in terms of operators, for arrays and symbols alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from graphad.errors import ShapeError
from graphad.ops.basic import cast, reshape_like, size
from graphad.ops.definition import Array, Tensor
from graphad.ops.elementwise import elementwise_add, elementwise_mul
from graphad.ops.inference import matched, same_dtypes, same_float
from graphad.ops.reduce import reduce_mean
from graphad.ops.summation import summed
from graphad.ops.unary import rsqrt
from graphad.types import TensorType, dtype_name


class Moments(NamedTuple):
    """X less its mean, the mean, the variance and its inverse square root, the axes kept with the extent 1."""

    centered: Any
    mean: Any
    variance: Any
    inverse: Any


def moments(X: Tensor, dim: Sequence[int], epsilon: float) -> Moments:
    """The moments of X over the axes ``dim``; epsilon is added to the variance before its root is taken."""
    mean = reduce_mean(X, dim=list(dim), keep_dim=True)
    centered = X - mean
    variance = reduce_mean(centered * centered, dim=list(dim), keep_dim=True)
    return Moments(centered, mean, variance, rsqrt(variance + epsilon))


def through_moments(d: Tensor, m: Moments, dim: Sequence[int], d_mean: Tensor = None, d_variance: Tensor = None) -> Tensor:
    """The cotangent of X: d is that of ``centered * inverse``, the others, if given, those of the moments."""
    axes = list(dim)
    hat = m.centered * m.inverse
    cotangent = (d - reduce_mean(d, dim=axes, keep_dim=True) - hat * reduce_mean(d * hat, dim=axes, keep_dim=True)) * m.inverse
    if d_mean is not None:
        cotangent = cotangent + reshape_like(d_mean, m.mean) * _share(m)
    if d_variance is not None:
        cotangent = cotangent + m.centered * (reshape_like(d_variance, m.mean) * _share(m) * 2.0)
    return cotangent


def _share(m: Moments) -> Tensor:
    """One divided by the number of elements each moment is taken of."""
    dtype = dtype_name(m.mean.dtype)
    return cast(size(m.mean), out_dtype=dtype) / cast(size(m.centered), out_dtype=dtype)


def fast_through_moments(d: Array, hat: Array, inverse: Array, axes: tuple[int, ...]) -> Array:
    """``through_moments`` in as few passes as numpy allows; ``hat`` is ``centered * inverse``."""
    count = max(hat.size // max(inverse.size, 1), 1)
    out = hat * (summed(d * hat, axes, True) / -count)
    out += d
    out -= summed(d, axes, True) / count
    out *= inverse
    return out


def total(*terms: Tensor) -> Tensor:
    """The sum of the terms that are there, None if none is."""
    there = [t for t in terms if t is not None]
    return sum(there[1:], there[0]) if there else None


def times(cotangent: Tensor, factor: Any) -> Tensor:
    """The product, None if there is no cotangent."""
    return None if cotangent is None else cotangent * factor


def affine(X: Tensor, Scale: Tensor, Bias: Tensor, axis: int) -> Tensor:
    """X scaled and shifted along an axis, where scale and shift are given."""
    scaled = X if Scale is None else elementwise_mul(X, Scale, axis=axis)
    return scaled if Bias is None else elementwise_add(scaled, Bias, axis=axis)


def check_vectors(X: TensorType, extent: int, **vectors: TensorType | None) -> None:
    """ShapeError unless X is floating point and the vectors given have X's dtype and the extent."""
    same_dtypes(X=same_float(X), **vectors)
    for name, vector in vectors.items():
        if vector is not None and not (len(vector.shape) == 1 and matched(vector.shape[0], extent)):
            raise ShapeError(f"X is {X} but {name} is {vector}: {extent} values are expected")
