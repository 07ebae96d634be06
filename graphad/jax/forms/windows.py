"""Windows: convolutions are XLA's, and views by strides are gathers.

correlated(x, filter)          lax.conv_general_dilated
spread, filter_cotangent       its transposes, in the image and in the filter
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphad.jax.registry import like, replaces
from graphad.ops import conv, maxima, pooling
from graphad.ops import windows as geometry
from graphad.ops.windows import Axes, Axis
from graphad.types import Tensor


def _around(axis: Axis) -> tuple[int, int]:
    """The padding with which XLA has as many windows; below zero where the last elements are in none."""
    return axis.before, (axis.count - 1) * axis.stride + axis.reach - axis.before - axis.size


def _convolved(x: Tensor, filter_: Tensor, window_axes: Axes, groups: int) -> Tensor:
    letters = "DHW"[-len(window_axes) :]
    return lax.conv_general_dilated(
        x,
        filter_,
        window_strides=[a.stride for a in window_axes],
        padding=[_around(a) for a in window_axes],
        rhs_dilation=[a.dilation for a in window_axes],
        dimension_numbers=(f"NC{letters}", f"OI{letters}", f"NC{letters}"),
        feature_group_count=groups,
        # In full float32: by default accelerators round the factors to fewer bits.
        precision=lax.Precision.HIGHEST,
    )


@replaces(conv.correlated)
def _correlated(x: Tensor, filter_: Tensor, window_axes: Axes, groups: int) -> Tensor:
    conv._check_filter(filter_.shape, window_axes)
    geometry.check_fit("X", x.shape, (len(x), groups * filter_.shape[1], *(a.size for a in window_axes)))
    return _convolved(jnp.asarray(x), jnp.asarray(filter_), window_axes, groups)


@replaces(conv.spread)
def _spread(filter_: Tensor, y: Tensor, window_axes: Axes, groups: int) -> Tensor:
    conv._check_filter(filter_.shape, window_axes)
    image = jax.ShapeDtypeStruct((len(y), groups * filter_.shape[1], *(a.size for a in window_axes)), y.dtype)
    # A convolution is linear in each of its factors, so both of its gradients are transposes, which XLA has as convolutions.
    back = jax.linear_transpose(lambda x: _convolved(x, jnp.asarray(filter_), window_axes, groups), image)
    return back(jnp.asarray(y))[0]


@replaces(conv.filter_cotangent)
def _filter_cotangent(x: Tensor, y: Tensor, window_axes: Axes, shape: tuple[int, ...], groups: int) -> Tensor:
    conv._check_filter(shape, window_axes)
    filter_ = jax.ShapeDtypeStruct(shape, x.dtype)
    back = jax.linear_transpose(lambda f: _convolved(jnp.asarray(x), f, window_axes, groups), filter_)
    return back(jnp.asarray(y))[0]


@replaces(geometry.windows)
def _windows(x: Tensor, window_axes: Axes) -> Tensor:
    """``[N, C, *kernel, *counts]`` of padded x, gathered axis by axis."""
    rank = len(window_axes)
    for i, axis in enumerate(window_axes):
        places = np.arange(axis.kernel)[:, None] * axis.dilation + np.arange(axis.count) * axis.stride
        x = like(x).take(x, places, axis=2 + 2 * i)
    return x.transpose(0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2))


@replaces(geometry.padded)
def _padded(x: Tensor, window_axes: Axes, value: Tensor = 0) -> Tensor:
    geometry.check_fit("X", x.shape[2:], tuple(a.size for a in window_axes))
    around = [(0, 0, 0), (0, 0, 0), *((a.before, a.padded - a.before - a.size, 0) for a in window_axes)]
    return lax.pad(jnp.asarray(x), jnp.asarray(value, x.dtype), around)


def _with_lowest(X: Tensor, window_axes: Axes) -> Tensor:
    return _padded(X, window_axes, -np.inf if X.dtype.kind == "f" else np.iinfo(X.dtype).min)


@replaces(pooling.largest)
def _largest(X: Tensor, window_axes: Axes) -> Tensor:
    """Axis by axis; XLA makes one loop of it, so that nothing is cut into pieces for the cache."""
    x = _with_lowest(X, window_axes)
    for number, axis in enumerate(window_axes, 2):
        lead = (slice(None),) * number
        x = functools.reduce(jnp.maximum, [x[(*lead, axis.at(k))] for k in range(axis.kernel)])
    return x


@replaces(maxima.scattered)
def _scattered(X: Tensor, peaks: Tensor, pooled: Tensor, window_axes: Axes) -> Tensor:
    """Each element of the windows is spread with gaps as wide as the stride; XLA adds them up in one loop."""
    x, zero = _with_lowest(X, window_axes), jnp.zeros((), pooled.dtype)
    todo: Tensor = np.ones(peaks.shape, bool)
    image: Tensor = None
    for place in np.ndindex(*(a.kernel for a in window_axes)):
        at = [a.at(k) for a, k in zip(window_axes, place, strict=True)]
        # Of equal elements the first gets the gradient, as in numpy: what has been given is taken off the list.
        is_peak = (x[(..., *at)] == peaks) & todo
        todo = todo ^ is_peak
        around = [(s.start, a.padded - s.stop, a.stride - 1) for a, s in zip(window_axes, at, strict=True)]
        part = lax.pad(jnp.where(is_peak, pooled, zero), zero, [(0, 0, 0), (0, 0, 0), *around])
        image = part if image is None else image + part
    return image[(..., *(a.inside for a in window_axes))]
