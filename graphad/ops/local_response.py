"""Local response normalization (Krizhevsky et al. 2012) over neighboring channels."""

from __future__ import annotations

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.conv import channel_axis
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.inference import normal_axis, same_float
from graphad.ops.unary import pow_
from graphad.ops.windows import check_images
from graphad.types import TensorType


def _window_type(X: TensorType, *, n: int, axis: int = 1) -> TensorType:
    if n < 1 or n % 2 == 0:
        raise ShapeError(f"n={n}: an odd number above 0 is expected")
    normal_axis(axis, len(X.shape))
    return X


def _window_grad(dOut: Tensor, *, n: int, axis: int) -> Tensor:
    return window_sum(dOut, n=n, axis=axis)


@operator("X -> Out", infer=_window_type, grad={"X": _window_grad}, linear="X")
def window_sum(X: Array, *, n: int, axis: int = 1) -> Array:
    """The sum of every element and its ``n - 1`` nearest neighbors along an axis: its own transpose."""
    x, out = np.moveaxis(X, axis, 0), np.array(X, order="C")
    into = np.moveaxis(out, axis, 0)
    for step in range(1, min(n // 2, len(x) - 1) + 1):
        into[step:] += x[:-step]
        into[:-step] += x[step:]
    return out


def _lrn_type(
    X: TensorType,
    *,
    n: int = 5,
    k: float = 2.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
    data_format: str = "AnyLayout",
    is_test: bool = False,
) -> tuple[TensorType, TensorType]:
    check_images(data_format, X=same_float(X))
    if min(k, alpha, beta) <= 0:
        raise ShapeError(f"k={k}, alpha={alpha}, beta={beta}: numbers above 0 are expected")
    _window_type(X, n=n)
    return X, X


def _lrn_grad(
    X: Tensor, MidOut: Tensor, dOut: Tensor = None, dMidOut: Tensor = None, *, n: int, alpha: float, beta: float, data_format: str
) -> Tensor:
    direct, through = None, dMidOut
    if dOut is not None:
        direct = dOut * pow_(MidOut, factor=-beta)
        share = direct * X / MidOut * -beta
        through = share if through is None else through + share
    spread = window_sum(through, n=n, axis=channel_axis(data_format) % 4) * X * (2.0 * alpha)
    return spread if direct is None else direct + spread


@operator("X -> Out MidOut", infer=_lrn_type, grad={"X": _lrn_grad}, rows="X")
def lrn(
    X: Array,
    *,
    n: int = 5,
    k: float = 2.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
    data_format: str = "AnyLayout",
    is_test: bool = False,
) -> tuple[Array, Array]:
    """X divided by MidOut to the power ``beta``; MidOut is ``k`` plus ``alpha`` times the squares of ``n`` neighboring channels."""
    squares = window_sum.kernel(np.square(X), n=n, axis=channel_axis(data_format) % 4)
    middle = np.asarray(squares * X.dtype.type(alpha) + X.dtype.type(k))
    return np.asarray(X * middle ** X.dtype.type(-beta)), middle
