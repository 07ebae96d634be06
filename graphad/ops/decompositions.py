"""Inverses, Cholesky factors, powers of matrices and solutions of linear systems; gradients as in Giles, "An extended collection of
matrix derivative results for forward and reverse mode algorithmic differentiation" (2008)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.basic import fill_zeros_like, unbroadcast
from graphad.ops.creation import tril_triu
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.inference import matched, same_dtypes
from graphad.ops.linalg import matmul_v2
from graphad.ops.shapes import squeeze, transpose, unsqueeze
from graphad.types import TensorType, broadcast_shapes


def _check_square(name: str, t: TensorType) -> None:
    if len(t.shape) < 2 or not matched(t.shape[-1], t.shape[-2]):
        raise ShapeError(f"{name} is {t}; square matrices are expected")
    if t.dtype not in ("float32", "float64"):
        raise ShapeError(f"{name} is {t}; float32 or float64 is expected")


def _square(X: TensorType, **_: Any) -> TensorType:
    _check_square("the input", X)
    return X


def _turned(t: Tensor) -> Tensor:
    return transpose(t, axis=[*range(t.ndim - 2), t.ndim - 1, t.ndim - 2])


def _computed(function: Callable[..., Any], *arrays: Array) -> Array:
    """A function of numpy's linear algebra; InvalidValue where it finds no solution."""
    try:
        return np.asarray(function(*arrays))
    except np.linalg.LinAlgError as error:
        raise InvalidValue(f"there is no solution: {str(error).lower()}") from None


# -- inverses and powers -------------------------------------------------------------------------


def _inverse_grad(Output: Tensor, dOutput: Tensor) -> Tensor:
    turned = _turned(Output)
    return -matmul_v2(matmul_v2(turned, dOutput), turned)


@operator("Input -> Output", infer=_square, grad={"Input": _inverse_grad})
def inverse(Input: Array) -> Array:
    """The inverse of each matrix; InvalidValue if one has none."""
    return _computed(np.linalg.inv, Input)


def _power_grad(X: Tensor, dOut: Tensor, *, n: int) -> Tensor:
    """The sum over the places of a factor of the products before it and after it."""
    if n == 0:
        return fill_zeros_like(X)
    base = _turned(X) if n > 0 else _turned(inverse(X))
    grad = dOut
    for i in range(1, abs(n)):
        grad = matmul_v2(grad, base) + matmul_v2(matrix_power(base, n=i), dOut)
    return grad if n > 0 else -matmul_v2(matmul_v2(base, grad), base)


@operator("X -> Out", infer=_square, grad={"X": _power_grad})
def matrix_power(X: Array, *, n: int) -> Array:
    """The n-th power of each matrix, that of the inverse where ``n`` is negative."""
    return np.array(_computed(lambda x: np.linalg.matrix_power(x, n), X))


# -- triangles -----------------------------------------------------------------------------------


def _solved_type(X: TensorType, Y: TensorType, matrix: str = "X", right: str = "Y", **_: Any) -> TensorType:
    _check_square(matrix, X)
    if len(Y.shape) < 2 or not matched(X.shape[-1], Y.shape[-2]):
        raise ShapeError(f"{matrix} is {X}, {right} is {Y}: they have to have as many rows")
    try:
        batch = broadcast_shapes(X.shape[:-2], Y.shape[:-2])
    except ShapeError:
        raise ShapeError(f"{matrix} is {X}, {right} is {Y}: the axes before the last two do not broadcast together") from None
    return TensorType((*batch, *Y.shape[-2:]), same_dtypes(**{matrix: X, right: Y}))


def _triangular_y_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, upper: bool, transpose: bool, unitriangular: bool) -> Tensor:
    grad = triangular_solve(X, dOut, upper=upper, transpose=not transpose, unitriangular=unitriangular)
    return unbroadcast(grad, Y)


def _triangular_x_grad(X: Tensor, Out: Tensor, dOut: Tensor, *, upper: bool, transpose: bool, unitriangular: bool) -> Tensor:
    back = triangular_solve(X, dOut, upper=upper, transpose=not transpose, unitriangular=unitriangular)
    whole = matmul_v2(Out, back, trans_y=True) if transpose else matmul_v2(back, Out, trans_y=True)
    off = (1 if upper else -1) if unitriangular else 0
    return unbroadcast(-tril_triu(whole, diagonal=off, lower=not upper), X)


@operator("X Y -> Out", infer=_solved_type, grad={"X": _triangular_x_grad, "Y": _triangular_y_grad}, shapes="Y")
def triangular_solve(X: Array, Y: Array, *, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Array:
    """``A`` with ``T(X) A = Y``, where ``T(X)`` is the upper or lower triangle of X, transposed if so asked, with ones on its diagonal
    if ``unitriangular``; InvalidValue if there is a zero on the diagonal."""
    triangle = np.triu(X, int(unitriangular)) if upper else np.tril(X, -int(unitriangular))
    if unitriangular:
        triangle = triangle + np.eye(X.shape[-1], dtype=X.dtype)
    return _computed(np.linalg.solve, triangle.swapaxes(-1, -2) if transpose else triangle, Y)


def _cholesky_grad(Out: Tensor, dOut: Tensor, *, upper: bool) -> Tensor:
    lower, d = (_turned(Out), _turned(dOut)) if upper else (Out, dOut)
    product = matmul_v2(lower, tril_triu(d, lower=True), trans_x=True)
    halved = (tril_triu(product, lower=True) + tril_triu(product, diagonal=-1, lower=True)) * 0.5
    left = triangular_solve(lower, halved, upper=False, transpose=True)
    grad = triangular_solve(lower, _turned(left), upper=False, transpose=True)
    return (grad + _turned(grad)) * 0.5


@operator("X -> Out", infer=_square, grad={"X": _cholesky_grad})
def cholesky(X: Array, *, upper: bool = False) -> Array:
    """The lower triangle L with ``L Lᵀ = X``, or the upper one; of X that is not symmetric, the half of X + Xᵀ is taken.

    InvalidValue if a matrix is not positive definite.
    """
    lower = _computed(np.linalg.cholesky, (X + X.swapaxes(-1, -2)) * X.dtype.type(0.5))
    return np.ascontiguousarray(lower.swapaxes(-1, -2)) if upper else lower


# -- systems -------------------------------------------------------------------------------------


def _as_columns(X: TensorType, Y: TensorType) -> TensorType:
    return Y._replace(shape=(*Y.shape, 1)) if len(Y.shape) == 1 else Y


def _system_type(X: TensorType, Y: TensorType) -> TensorType:
    solved = _solved_type(X, _as_columns(X, Y))
    return solved if len(Y.shape) > 1 else solved._replace(shape=solved.shape[:-1])


def _system_y_grad(X: Tensor, Y: Tensor, dOut: Tensor) -> Tensor:
    if Y.ndim == 1:
        columns = unsqueeze(dOut, axes=[dOut.ndim])
        return unbroadcast(_last_axis_gone(solve(_turned(X), columns)), Y)
    return unbroadcast(solve(_turned(X), dOut), Y)


def _last_axis_gone(t: Tensor) -> Tensor:
    return squeeze(t, axes=[t.ndim - 1])


def _system_x_grad(X: Tensor, Y: Tensor, Out: Tensor, dOut: Tensor) -> Tensor:
    out, d = (unsqueeze(t, axes=[t.ndim]) if Y.ndim == 1 else t for t in (Out, dOut))
    return unbroadcast(-matmul_v2(solve(_turned(X), d), out, trans_y=True), X)


@operator("X Y -> Out", infer=_system_type, grad={"X": _system_x_grad, "Y": _system_y_grad}, shapes="Y")
def solve(X: Array, Y: Array) -> Array:
    """``A`` with ``X A = Y``; a vector Y is one column. InvalidValue if X is singular."""
    found = _computed(np.linalg.solve, X, Y[:, None] if Y.ndim == 1 else Y)
    return found[..., 0] if Y.ndim == 1 else found


def _factored_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, upper: bool) -> Tensor:
    return unbroadcast(cholesky_solve(dOut, Y, upper=upper), X)


def _factor_grad(Y: Tensor, Out: Tensor, dOut: Tensor, *, upper: bool) -> Tensor:
    """With A the product of the factor, the cotangent of A is -S Outᵀ, S solving the same system; A is symmetric in the factor."""
    outer = matmul_v2(cholesky_solve(dOut, Y, upper=upper), Out, trans_y=True)
    both = outer + _turned(outer)
    triangle = tril_triu(Y, lower=not upper)
    grad = matmul_v2(triangle, both) if upper else matmul_v2(both, triangle)
    return unbroadcast(-tril_triu(grad, lower=not upper), Y)


@operator(
    "X Y -> Out",
    infer=lambda X, Y, *, upper=False: _solved_type(Y, X, "Y", "X"),
    grad={"X": _factored_grad, "Y": _factor_grad},
    shapes="X",
)
def cholesky_solve(X: Array, Y: Array, *, upper: bool = False) -> Array:
    """The solution of ``A Out = X`` where Y is the Cholesky factor of A: ``Y Yᵀ``, or ``Yᵀ Y`` if ``upper``."""
    first = triangular_solve.kernel(Y, X, upper=upper, transpose=upper)
    return np.asarray(triangular_solve.kernel(Y, first, upper=upper, transpose=not upper))
