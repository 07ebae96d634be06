"""Matrices and vectors as numpy and Paddle 2 have them: indices of triangles, distances between rows, determinants, integrals.

Each is made of operators; those that are one operator each are in ``numpy_signatures``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphad.errors import InvalidType, InvalidValue, ShapeError
from graphad.layers.checks import checked_float, checked_int
from graphad.layers.functional import named
from graphad.layers.helper import checked_input, emitted, layer
from graphad.layers.tensor import assign
from graphad.program import Variable
from graphad.types import Array, dtype_name

Axes = int | Sequence[int] | None

# -- indices -------------------------------------------------------------------------------------


def _rows_and_columns(places: tuple[Array, ...], dtype: object, name: str | None) -> Variable:
    return named(assign(np.stack(places).astype(dtype_name(dtype))), name)


@layer
def tril_indices(row: int, col: int | None = None, offset: int = 0, dtype: object = "int64", name: str | None = None) -> Variable:
    """The indices of the elements on and below a diagonal: ``[2, n]``, rows and columns.

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     places = ga.layers.tril_indices(2)
    >>> ga.Executor().run(program, fetch_list=[places])[0].tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    rows = checked_int("layers.tril_indices: row", row, 0)
    columns = rows if col is None else checked_int("layers.tril_indices: col", col, 0)
    return _rows_and_columns(np.tril_indices(rows, checked_int("offset", offset), columns), dtype, name)


@layer
def triu_indices(row: int, col: int | None = None, offset: int = 0, dtype: object = "int64", name: str | None = None) -> Variable:
    """The indices of the elements on and above a diagonal: ``[2, n]``, rows and columns."""
    rows = checked_int("layers.triu_indices: row", row, 0)
    columns = rows if col is None else checked_int("layers.triu_indices: col", col, 0)
    return _rows_and_columns(np.triu_indices(rows, checked_int("offset", offset), columns), dtype, name)


# -- matrices ------------------------------------------------------------------------------------


def _square(what: str, x: object) -> Variable:
    tensor = checked_input(what, x)
    if tensor.ndim < 2:
        raise ShapeError(f"layers.{what} takes matrices [..., n, n], not {tensor!r}")
    return tensor


@layer
def det(x: Variable, name: str | None = None) -> Variable:
    """The determinants of square matrices ``[..., n, n]``."""
    return emitted("determinant", [_square("det", x)], name)  # type: ignore[no-any-return]


@layer
def slogdet(x: Variable, name: str | None = None) -> Variable:
    """The signs of determinants and the logarithms of their absolute values: ``[2, ...]``, as Paddle 2 has it.

    They are those of the determinant itself, so that one beyond the dtype's range is infinite.
    """
    determinant = emitted("determinant", [_square("slogdet", x)])
    return named(emitted("stack", [[determinant.sign(), determinant.abs().log()]], axis=0), name)


@layer
def diagflat(x: Variable, offset: int = 0, name: str | None = None) -> Variable:
    """A matrix with the elements of a tensor, one after the other, on a diagonal."""
    row = checked_input("diagflat", x).flatten()
    return emitted("diag_embed", [row], name, offset=checked_int("layers.diagflat: offset", offset))  # type: ignore[no-any-return]


@layer
def block_diag(inputs: Sequence[Variable], name: str | None = None) -> Variable:
    """Matrices along the diagonal of one matrix; numbers and vectors count as matrices of one row."""
    if not isinstance(inputs, list | tuple) or not inputs:
        raise InvalidType(f"layers.block_diag takes a list of tensors, not {inputs!r}")
    blocks = [_as_matrix(checked_input("block_diag", item)) for item in inputs]
    widths = [block.shape[1] for block in blocks]
    if -1 in widths:
        raise ShapeError(f"layers.block_diag takes matrices of known widths, not {blocks!r}")
    starts = np.cumsum([0, *widths]).tolist()
    # So many columns of zeros before a block and after it.
    sides = [[0, 0, start, starts[-1] - start - width] for start, width in zip(starts, widths, strict=False)]
    rows = [emitted("pad", [block], paddings=side, pad_value=0.0) for block, side in zip(blocks, sides, strict=True)]
    return emitted("concat", [rows], name, axis=0)  # type: ignore[no-any-return]


def _as_matrix(x: Variable) -> Variable:
    if x.ndim > 2:
        raise ShapeError(f"layers.block_diag takes matrices, not {x!r}")
    return x if x.ndim == 2 else x.reshape(1, -1)


@layer
def vander(x: Variable, n: int | None = None, increasing: bool = False, name: str | None = None) -> Variable:
    """The powers of a vector's elements as rows, ``n`` of them (as many as elements), the highest first unless ``increasing``."""
    column = checked_input("vander", x).reshape(-1, 1)
    count = column.shape[0] if n is None else checked_int("layers.vander: n", n, 0)
    if count < 0:
        raise ShapeError(f"layers.vander: the extent of {x!r} is not known; give n")
    powers = range(count) if increasing else range(count - 1, -1, -1)
    # Powers 0 and 1 need no pow, whose gradient at 0 is then no question.
    ones = column._on("fill_any_like", value=1.0)
    columns = [ones if not power else column if power == 1 else column**power for power in powers]
    return emitted("concat", [columns], name, axis=1)  # type: ignore[no-any-return]


# -- factors -------------------------------------------------------------------------------------


@layer
def qr(x: Variable, mode: str = "reduced", name: str | None = None) -> Any:
    """An orthogonal factor and an upper triangle, ``x = q @ r``, of matrices ``[..., m, n]``.

    Args:
        x: float32 or float64.
        mode: "reduced": q has min(m, n) columns; "complete": m; "r": the triangle alone.

    Returns:
        q and r; r alone in mode "r".

    >>> import graphad as ga
    >>> with ga.program_guard(ga.Program()) as program:
    ...     q, r = ga.layers.qr(ga.layers.assign([[3.0, 5.0], [4.0, 0.0]]))
    >>> abs(ga.Executor().run(program, fetch_list=[r])[0]).round(3).tolist()
    [[5.0, 3.0], [0.0, 4.0]]
    """
    q, r = emitted("qr", [checked_input("qr", x)], mode=mode)
    return named(r, name) if mode == "r" else (q, named(r, name))


@layer
def svdvals(x: Variable, name: str | None = None) -> Variable:
    """The singular values of matrices ``[..., m, n]``, the largest first: ``[..., min(m, n)]``."""
    return named(emitted("svd", [_square("svdvals", x)])[1], name)


@layer
def eigvalsh(x: Variable, UPLO: str = "L", name: str | None = None) -> Variable:
    """The eigenvalues of symmetric matrices ``[..., n, n]``, the least first, of which one triangle is read: "L" or "U"."""
    return named(emitted("eigh", [_square("eigvalsh", x)], UPLO=UPLO)[0], name)


@layer
def pinv(x: Variable, rcond: float = 1e-15, name: str | None = None) -> Variable:
    """The Moore-Penrose inverse of matrices ``[..., m, n]``: ``[..., n, m]``.

    Args:
        x: float32 or float64.
        rcond: singular values up to this share of the largest count as zero.

    Its gradient is that of the singular value decomposition, so that singular values have to differ.
    """
    u, values, vh = emitted("svd", [_square("pinv", x)])
    most = values.max(-1, keepdims=True)
    above = (values > most * checked_float("layers.pinv: rcond", rcond)).astype(values.dtype)
    # 1 in place of what counts as zero, whose share is taken out again.
    inverted = above / (values * above + (1.0 - above))
    turned = [emitted("transpose", [factor], axis=[*range(factor.ndim - 2), factor.ndim - 1, factor.ndim - 2]) for factor in (vh, u)]
    return named((turned[0] * inverted.unsqueeze(-2)) @ turned[1], name)


# -- norms and distances -------------------------------------------------------------------------


@layer
def vector_norm(x: Variable, p: float = 2.0, axis: Axes = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The norm ``p`` of vectors along one axis, or of all elements; ``inf`` and ``-inf`` are the largest and the smallest size."""
    tensor, order = checked_input("vector_norm", x), checked_float("layers.vector_norm: p", p)
    # What the norm tends to as p grows, or falls.
    if math.isinf(order):
        return named(tensor.abs().max(axis, keepdim) if order > 0 else tensor.abs().min(axis, keepdim), name)
    if order == 0:
        return named((tensor != 0.0).astype(tensor.dtype).sum(axis, keepdim), name)
    if order == 1:
        return named(tensor.abs().sum(axis, keepdim), name)
    total = (tensor.square() if order == 2 else tensor.abs() ** order).sum(axis, keepdim)
    return named(total.sqrt() if order == 2 else total ** (1 / order), name)


@layer
def matrix_norm(x: Variable, p: Any = "fro", axis: Sequence[int] = (-2, -1), keepdim: bool = False, name: str | None = None) -> Variable:
    """The norm of matrices in two axes.

    Args:
        x: a tensor of two axes or more.
        p: "fro": the root of the sum of squares; 1, -1, inf, -inf: the largest or the smallest sum of a column, of a row; 2, -2, "nuc":
            the largest singular value, the smallest, the sum of all.
        axis: the axes of rows and of columns.
        keepdim: whether both stay, with extent 1.

    Raises:
        ValueError: ``p`` is another one.
    """
    tensor = checked_input("matrix_norm", x)
    rows, columns = (checked_int("layers.matrix_norm: axis", item) % tensor.ndim for item in axis)
    if p == "fro":
        return named(tensor.square().sum([rows, columns], keepdim).sqrt(), name)
    if p in (2, -2, "nuc"):
        order = [axis_number for axis_number in range(tensor.ndim) if axis_number not in (rows, columns)]
        values = emitted("svd", [emitted("transpose", [tensor], axis=[*order, rows, columns])])[1]
        total = values.sum(-1) if p == "nuc" else values.max(-1) if p == 2 else values.min(-1)
        return named(total.unsqueeze(sorted((rows, columns))) if keepdim else total, name)
    if p not in (1, -1, math.inf, -math.inf):
        raise InvalidValue(f"layers.matrix_norm: p is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, not {p!r}")
    # The sum of a column goes over its rows.
    summed, across = (rows, columns) if abs(p) == 1 else (columns, rows)
    sums = tensor.abs().sum(summed, keepdims=True)
    out = sums.max(across, keepdims=True) if p > 0 else sums.min(across, keepdims=True)
    return named(out if keepdim else out.squeeze([rows, columns]), name)


@layer
def cdist(x: Variable, y: Variable, p: float = 2.0, compute_mode: str | None = None, name: str | None = None) -> Variable:
    """The distances of the rows ``[..., n, d]`` of one tensor from those of another: ``[..., n, m]``. ``compute_mode`` is a hint."""
    first, second = checked_input("cdist", x), checked_input("cdist", y)
    return vector_norm(first.unsqueeze(-2) - second.unsqueeze(-3), p, -1, name=name)


@layer
def pdist(x: Variable, p: float = 2.0, compute_mode: str | None = None, name: str | None = None) -> Variable:
    """The distances of each two rows of a matrix ``[n, d]``, n known: ``[n * (n - 1) / 2]``. ``compute_mode`` is a hint."""
    matrix = checked_input("pdist", x)
    if matrix.ndim != 2 or matrix.shape[0] < 0:
        raise ShapeError(f"layers.pdist takes a matrix with a known number of rows, not {matrix!r}")
    # The pairs of a triangle without its diagonal, in scipy's order.
    rows, others = np.triu_indices(matrix.shape[0], 1)
    return vector_norm(matrix.gather(assign(rows)) - matrix.gather(assign(others)), p, -1, name=name)


@layer
def renorm(x: Variable, p: float, axis: int, max_norm: float, name: str | None = None) -> Variable:
    """The parts of a tensor at each place along an axis, scaled down to a norm where theirs is larger."""
    tensor, along = checked_input("renorm", x), checked_int("layers.renorm: axis", axis)
    # The norm of a part goes over all axes but its own.
    rest = [other for other in range(tensor.ndim) if other != along % tensor.ndim]
    norms, limit = vector_norm(tensor, p, rest, keepdim=True), checked_float("layers.renorm: max_norm", max_norm)
    # A factor of 1 where the norm is below the limit: limit / max(norm, limit).
    return named(tensor * (limit / norms.maximum(limit)), name)


# -- elements ------------------------------------------------------------------------------------


@layer
def hypot(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """``sqrt(x * x + y * y)``, without overflow in between."""
    first, second = checked_input("hypot", x).abs(), checked_input("hypot", y).abs()
    # The larger one is taken out, so that no square overflows.
    long, short = first.maximum(second), first.minimum(second)
    # Where both are zero the quotient is of zero by one.
    safe = long + (long == 0.0).astype(long.dtype)
    return named(long * ((short / safe).square() + 1.0).sqrt(), name)


@layer
def signbit(x: Variable, name: str | None = None) -> Variable:
    """Whether elements are less than zero; -0.0 is not."""
    return named(checked_input("signbit", x) < 0, name)


@layer
def copysign(x: Variable, y: Any, name: str | None = None) -> Variable:
    """The size of x with the sign of y, which is positive for zeros."""
    size = checked_input("copysign", x).abs()
    negative = y < 0 if isinstance(y, Variable) else assign(np.asarray(y) < 0)
    return named(size * (1.0 - 2.0 * negative.astype(size.dtype)), name)


@layer
def ldexp(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """``x * 2**y``."""
    tensor = checked_input("ldexp", x)._floating()
    return named(tensor * 2.0 ** checked_input("ldexp", y).astype(tensor.dtype), name)


@layer
def sinc(x: Variable, name: str | None = None) -> Variable:
    """``sin(pi * x) / (pi * x)``, 1 at zero."""
    angle = checked_input("sinc", x)._floating() * math.pi
    # At zero 0 / 1 + 1.
    is_zero = (angle == 0.0).astype(angle.dtype)
    return named(angle.sin() / (angle + is_zero) + is_zero, name)


# -- integrals -----------------------------------------------------------------------------------


def _trapezoids(what: str, y: object, x: object, dx: float | None, axis: int) -> Variable:
    values = checked_input(what, y)
    along = checked_int(f"layers.{what}: axis", axis) % values.ndim
    if x is not None and dx is not None:
        raise InvalidType(f"layers.{what}: x and dx both say where the values are: give one of them")
    count = values.shape[along]
    if count < 1:
        raise ShapeError(f"layers.{what}: the extent of {values!r} along the axis is known")
    # The mean of neighbors, times their distance.
    pairs = _part(values, along, 1, count) + _part(values, along, 0, count - 1)
    if x is None:
        return pairs * (0.5 * (1.0 if dx is None else checked_float(f"layers.{what}: dx", dx)))
    places = checked_input(what, x)
    # Places of one axis hold for every line of values.
    at = along if places.ndim > 1 else 0
    steps = _part(places, at, 1, count) - _part(places, at, 0, count - 1)
    return pairs * (steps if places.ndim > 1 else steps.reshape(-1, *[1] * (values.ndim - along - 1))) * 0.5


def _part(x: Variable, axis: int, start: int, end: int) -> Variable:
    return emitted("slice", [x], axes=[axis], starts=[start], ends=[end])  # type: ignore[no-any-return]


@layer
def trapezoid(y: Variable, x: Variable | None = None, dx: float | None = None, axis: int = -1, name: str | None = None) -> Variable:
    """The integral along an axis by the trapezoidal rule, of values at places ``x`` or ``dx`` (1) apart."""
    return named(_trapezoids("trapezoid", y, x, dx, axis).sum(axis), name)


@layer
def cumulative_trapezoid(
    y: Variable, x: Variable | None = None, dx: float | None = None, axis: int = -1, name: str | None = None
) -> Variable:
    """The integrals up to each value but the first, by the trapezoidal rule."""
    return named(_trapezoids("cumulative_trapezoid", y, x, dx, axis).cumsum(axis), name)
