"""Factors of matrices: singular values, eigenvalues of symmetric matrices, orthogonal and triangular factors.

Signs of factors are LAPACK's. Gradients are those of the papers named at the rules; they hold where the values that they divide by
differ: two equal singular values or eigenvalues have no vectors of their own, and the gradient through those is not finite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphad.errors import InvalidValue, NoGradient, ShapeError
from graphad.ops.creation import tril_triu
from graphad.ops.definition import operator
from graphad.ops.formulas import as_array, like
from graphad.ops.joining import concat
from graphad.ops.like import fill_any_like, fill_zeros_like
from graphad.ops.linalg import diag_embed, matmul_v2, solved, transposed, triangular_solve
from graphad.ops.selection import where
from graphad.ops.shapes import shape_, unsqueeze
from graphad.ops.slicing import slice_
from graphad.types import Array, Shape, Tensor, TensorType


def _sides(name: str, t: TensorType) -> tuple[Shape, int, int, int]:
    """The axes before the matrix, its extents and the smaller of them, -1 where one is not known."""
    if len(t.shape) < 2:
        raise ShapeError(f"{name} is {t}; matrices [..., m, n] are expected")
    if t.dtype not in ("float32", "float64"):
        raise ShapeError(f"{name} is {t}; float32 or float64 is expected")
    *batch, rows, columns = t.shape
    return tuple(batch), rows, columns, -1 if -1 in (rows, columns) else min(rows, columns)


def _factors(function: Callable[..., Any], *operands: object) -> tuple[Array, ...]:
    """A factorization of numpy's linear algebra; NoSolution where it finds none."""
    return tuple(as_array(factor) for factor in solved(function, *operands))


def _without_infinities(X: Array) -> Array:
    """nan for infinities, so that an iteration ends: LAPACK's for singular values may not where a number is infinite."""
    return np.where(np.isinf(X), like(np.nan, X), X)


def _sum(terms: list[Tensor], like: Tensor) -> Tensor:
    """The sum of the parts of a gradient; zeros if no output has a cotangent."""
    total = None
    for term in terms:
        total = term if total is None else total + term
    return fill_zeros_like(like) if total is None else total


def _is_square(t: Tensor) -> bool:
    """Whether a matrix is known to have as many rows as columns."""
    rows, columns = t.shape[-2:]
    return bool(rows == columns != -1)


def _quotients(values: Tensor, others: Tensor) -> Tensor:
    """``1 / (others[j] - values[i])`` off the diagonal, zeros on it."""
    differences = unsqueeze(others, axes=[others.ndim - 1]) - unsqueeze(values, axes=[values.ndim])
    ones = fill_any_like(differences, value=1.0)
    # The diagonal, where the difference is zero, is taken out before the division.
    off = ones - tril_triu(tril_triu(ones, lower=True), lower=False)
    return off / where(off > 0.0, differences, ones)


# -- singular values -----------------------------------------------------------------------------


def _svd_type(X: TensorType, *, full_matrices: bool = False) -> tuple[TensorType, TensorType, TensorType]:
    batch, rows, columns, least = _sides("X", X)
    width, height = (rows, columns) if full_matrices else (least, least)
    shapes = ((*batch, rows, width), (*batch, least), (*batch, height, columns))
    u, s, v = (TensorType(shape, X.dtype) for shape in shapes)
    return u, s, v


def _svd_grad(
    X: Tensor, U: Tensor, S: Tensor, VH: Tensor, dU: Tensor = None, dS: Tensor = None, dVH: Tensor = None, *, full_matrices: bool
) -> Tensor:
    """J. Townsend, "Differentiating the singular value decomposition" (2016), with M's skew part as in M. Giles (2008), section 3.8."""
    if full_matrices and X.shape[-1] != X.shape[-2]:
        if dU is not None or dVH is not None:
            raise NoGradient("svd with full_matrices=True and a matrix that is not square: its further vectors have no gradient")
        U, S, VH = svd(X)
    V = transposed(VH)
    # As a row and as a column S multiplies the columns, or the rows, of a matrix: that is a product with diag(S).
    row, column = unsqueeze(S, axes=[S.ndim - 1]), unsqueeze(S, axes=[S.ndim])
    inner, outer = [], []
    if dS is not None:
        inner.append(diag_embed(dS))
    # F[i, j] = 1 / (s_j^2 - s_i^2).
    F = None if dU is None and dVH is None else _quotients(S * S, S * S)
    if dU is not None:
        product = matmul_v2(U, dU, trans_x=True)
        inner.append((product - transposed(product)) * F * row)
        # What lies outside of the space that U spans. Nothing does where U is square: what rounding leaves there, divided by a singular
        # value near 0, would be anything.
        if not _is_square(U):
            outer.append(matmul_v2((dU - matmul_v2(U, product)) / row, V, trans_y=True))
    if dVH is not None:
        dV = transposed(dVH)
        product = matmul_v2(V, dV, trans_x=True)
        inner.append(column * ((product - transposed(product)) * F))
        if not _is_square(V):
            outer.append(matmul_v2(U / row, dV - matmul_v2(V, product), trans_y=True))
    # dX = U (inner) V' + what lies outside: (1 - U U') dU S^-1 V' and U S^-1 dV' (1 - V V').
    middle = [matmul_v2(matmul_v2(U, _sum(inner, S)), V, trans_y=True)] if inner else []
    return _sum([*middle, *outer], S)


@operator("X -> U S VH", infer=_svd_type, grad={"X": _svd_grad}, costly=True)
def svd(X: Array, *, full_matrices: bool = False) -> tuple[Array, Array, Array]:
    """Singular values, the largest first, and vectors: ``X = U diag(S) VH``, matrices ``[..., m, n]``.

    U has min(m, n) columns and VH so many rows, or m and n with ``full_matrices``. InvalidValue if the iteration does not
    converge, as with nan and infinities.
    """
    U, S, VH = _factors(np.linalg.svd, _without_infinities(X), full_matrices)
    return U, S, VH


# -- symmetric eigenvalues -----------------------------------------------------------------------


def _eigh_type(X: TensorType, *, UPLO: str = "L") -> tuple[TensorType, TensorType]:
    batch, rows, columns, _ = _sides("X", X)
    if -1 not in (rows, columns) and rows != columns:
        raise ShapeError(f"X is {X}; square matrices are expected")
    if UPLO not in ("L", "U"):
        raise InvalidValue(f"UPLO={UPLO!r}: the triangle is 'L' or 'U'")
    return TensorType((*batch, rows), X.dtype), X


def _eigh_grad(
    Eigenvalues: Tensor, Eigenvectors: Tensor, dEigenvalues: Tensor = None, dEigenvectors: Tensor = None, *, UPLO: str
) -> Tensor:
    """M. Giles (2008), section 3.1: ``V (diag(dw) + F * (V' dV)) V'`` with ``F[i, j] = 1 / (w_j - w_i)``."""
    V, inner = Eigenvectors, []
    if dEigenvalues is not None:
        inner.append(diag_embed(dEigenvalues))
    if dEigenvectors is not None:
        inner.append(_quotients(Eigenvalues, Eigenvalues) * matmul_v2(V, dEigenvectors, trans_x=True))
    full = matmul_v2(matmul_v2(V, _sum(inner, V)), V, trans_y=True)
    # One triangle is read, and stands for the other: it gets the cotangents of both, the diagonal that of one.
    both = full + transposed(full)
    lower = UPLO == "L"
    triangle = tril_triu(both, lower=lower)
    return triangle - tril_triu(tril_triu(full, lower=True), lower=False)


@operator("X -> Eigenvalues Eigenvectors", infer=_eigh_type, grad={"X": _eigh_grad}, costly=True)
def eigh(X: Array, *, UPLO: str = "L") -> tuple[Array, Array]:
    """Eigenvalues of symmetric matrices, the least first, and eigenvectors as columns; one triangle is read, the lower or the upper.

    InvalidValue if the iteration does not converge.
    """
    values, vectors = _factors(np.linalg.eigh, X, UPLO)
    return values, vectors


# -- orthogonal and triangular factors -----------------------------------------------------------

_MODES = ("reduced", "complete", "r")


def _qr_type(X: TensorType, *, mode: str = "reduced") -> tuple[TensorType, TensorType]:
    batch, rows, columns, least = _sides("X", X)
    if mode not in _MODES:
        raise InvalidValue(f"mode={mode!r}: one of {', '.join(map(repr, _MODES))} is expected")
    height = rows if mode == "complete" else least
    # As in Paddle, Q has no elements where it is not requested.
    q = (0,) if mode == "r" else (*batch, rows, height)
    return TensorType(q, X.dtype), TensorType((*batch, height, columns), X.dtype)


def _tall_qr_grad(Q: Tensor, R: Tensor, dQ: Tensor, dR: Tensor) -> Tensor:
    """The cotangent of X with m >= n: ``Q (triu(dR) + L R^-T) + (1 - Q Q') dQ R^-T``, with L below the diagonal of ``T - T'``, ``T = Q' dQ
    - dR R'``.

    The adjoint of dQ = Q W + (1 - Q Q') dX R^-1 and dR = Q' dX - W R, where W is skew and has below its diagonal what Q' dX R^-1 has there
    (S. F. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions", 2010). L has no last column, and the last
    term is none where Q is square: then nothing is divided by R's last element, which is near 0 where X is singular.
    """
    terms, outer = [], None
    if dQ is not None:
        inside = matmul_v2(Q, dQ, trans_x=True)
        terms.append(inside - transposed(inside))
        outer = None if _is_square(Q) else dQ - matmul_v2(Q, inside)
    if dR is not None:
        dR = tril_triu(dR, lower=False)
        product = matmul_v2(R, dR, trans_y=True)
        terms.append(product - transposed(product))
    middle = _over(tril_triu(_sum(terms, R), diagonal=-1, lower=True), R)
    total = matmul_v2(Q, middle if dR is None else middle + dR)
    return total if outer is None else total + _over(outer, R)


def _over(Y: Tensor, R: Tensor) -> Tensor:
    """``Y R^-T``: of X R' = Y, or R X' = Y'."""
    return transposed(triangular_solve(R, transposed(Y), upper=True))


def _qr_grad(X: Tensor, Q: Tensor, R: Tensor, dQ: Tensor = None, dR: Tensor = None, *, mode: str) -> Tensor:
    rows, columns = X.shape[-2:]
    if mode == "r":
        # Q is made again, since the rule reads it.
        Q, R = qr(X, mode="reduced")
        dQ = None
    elif mode == "complete" and rows > columns:
        raise NoGradient("qr in mode 'complete' of a matrix with more rows than columns: its further vectors have no gradient")
    if dQ is None and dR is None:
        return fill_zeros_like(X)
    if -1 not in (rows, columns) and rows >= columns:
        return _tall_qr_grad(Q, R, dQ, dR)
    # Of X = [A, B] the square part A = Q U is factored, and R = [U, Q' B]. Where an extent is not known, B may have no columns.
    B, U = _columns(X, Q, rows, columns)[1], _columns(R, Q, rows, columns)[0]
    if dR is None:
        dA = _tall_qr_grad(Q, U, dQ, None)
        return _beside(dA, fill_zeros_like(B))
    dU, dV = _columns(dR, Q, rows, columns)
    through = matmul_v2(B, dV, trans_y=True)
    return _beside(_tall_qr_grad(Q, U, through if dQ is None else dQ + through, dU), matmul_v2(Q, dV))


def _columns(t: Tensor, Q: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """As many columns of a matrix as Q has, and the others."""
    along = [t.ndim - 1]
    if -1 not in (rows, columns):
        return slice_(t, axes=along, starts=[0], ends=[rows]), slice_(t, axes=along, starts=[rows], ends=[columns])
    width = slice_(shape_(Q), axes=[0], starts=[Q.ndim - 1], ends=[Q.ndim])
    most = np.iinfo("int32").max
    left = slice_(t, None, width, axes=along, starts=[0], ends=[most], infer_flags=[-1])
    return left, slice_(t, width, None, axes=along, starts=[0], ends=[most], infer_flags=[-1])


def _beside(left: Tensor, right: Tensor) -> Tensor:
    return concat([left, right], axis=left.ndim - 1)


@operator("X -> Q R", infer=_qr_type, grad={"X": _qr_grad}, costly=True)
def qr(X: Array, *, mode: str = "reduced") -> tuple[Array, Array]:
    """An orthogonal factor and an upper triangle: ``X = Q R``, matrices ``[..., m, n]``.

    Q has min(m, n) columns, or m in mode "complete"; in mode "r" it is not computed, and has no elements. The gradient takes the
    first min(m, n) columns of X to be independent.
    """
    if mode == "r":
        return np.zeros(0, X.dtype), as_array(np.linalg.qr(X, "r"))
    Q, R = _factors(np.linalg.qr, X, mode)
    return Q, R
