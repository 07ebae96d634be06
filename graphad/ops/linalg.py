"""Products of matrices and vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.basic import reshape_like, unbroadcast
from graphad.ops.definition import Array, Tensor, Typed, operator
from graphad.ops.inference import matched, same_dtypes
from graphad.ops.shapes import reshape, transpose, unsqueeze
from graphad.ops.traits import PRODUCT
from graphad.types import Shape, TensorType, broadcast_shapes, element_count, joined_shape

# -- mul -----------------------------------------------------------------------------------------


def _mul_type(X: TensorType, Y: TensorType, *, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> TensorType:
    m, n = x_num_col_dims, y_num_col_dims
    if not 0 < m < len(X.shape) or not 0 < n < len(Y.shape):
        raise ShapeError(f"X is {X}, Y is {Y}: x_num_col_dims={m} and y_num_col_dims={n} must leave axes on both sides")
    if not matched(element_count(X.shape[m:]), element_count(Y.shape[:n])):
        columns, rows = list(X.shape[m:]), list(Y.shape[:n])
        raise ShapeError(
            f"X is {X}, Y is {Y}: the columns {columns} of X (x_num_col_dims={m}) must match the rows {rows} of Y (y_num_col_dims={n})"
        )
    return TensorType(X.shape[:m] + Y.shape[n:], same_dtypes(X=X, Y=Y))


def _turned(t: Tensor, columns: int) -> Tensor:
    """The axes from ``columns`` on before the others: as matrices, the transpose."""
    return transpose(t, axis=[*range(columns, t.ndim), *range(columns)])


def _mul_x_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, x_num_col_dims: int, y_num_col_dims: int) -> Tensor:
    m, n = x_num_col_dims, y_num_col_dims
    return reshape_like(mul(dOut, _turned(Y, n), x_num_col_dims=m, y_num_col_dims=Y.ndim - n), X)


def _mul_y_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, x_num_col_dims: int) -> Tensor:
    m = x_num_col_dims
    return reshape_like(mul(_turned(X, m), dOut, x_num_col_dims=X.ndim - m, y_num_col_dims=m), Y)


@operator(
    "X Y -> Out",
    infer=_mul_type,
    grad={"X": _mul_x_grad, "Y": _mul_y_grad},
    shapes="X:X Y:Y",
    speculatable="types",
    bilinear="X Y",
    **PRODUCT,
)
def mul(X: Array, Y: Array, *, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Array:
    """The product of X and Y as matrices, whose rows are the axes before ``x_num_col_dims`` and ``y_num_col_dims``."""
    rows, columns = X.shape[:x_num_col_dims], Y.shape[y_num_col_dims:]
    inner = math.prod(Y.shape[:y_num_col_dims])
    product = X.reshape(math.prod(rows), inner) @ Y.reshape(inner, math.prod(columns))
    return product.reshape(rows + columns)


# -- matmul --------------------------------------------------------------------------------------


def _seen(shape: Shape, transposed: bool) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if transposed and len(shape) > 1 else shape


def _matmul_type(X: TensorType, Y: TensorType, *, trans_x: bool = False, trans_y: bool = False) -> TensorType:
    x, y = _seen(X.shape, trans_x), _seen(Y.shape, trans_y)
    if not x or not y or not matched(x[-1], y[-2:][0]):
        raise ShapeError(f"X is {X}, Y is {Y}: the columns of X must match the rows of Y (trans_x={trans_x}, trans_y={trans_y})")
    try:
        batch = broadcast_shapes(x[:-2], y[:-2])
    except ShapeError:
        raise ShapeError(f"X is {X}, Y is {Y}: the axes before the last two do not broadcast together") from None
    return TensorType(batch + x[-2:-1] + (y[-1:] if len(y) > 1 else ()), same_dtypes(X=X, Y=Y))


def _as_matrices(X: Tensor, Y: Tensor, dOut: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A vector X as one row, a vector Y as one column, and the cotangent of their product to fit."""
    if X.ndim == 1:
        dOut = unsqueeze(dOut, axes=[dOut.ndim - (Y.ndim > 1)])
        X = unsqueeze(X, axes=[0])
    if Y.ndim == 1:
        dOut, Y = unsqueeze(dOut, axes=[dOut.ndim]), unsqueeze(Y, axes=[1])
    return X, Y, dOut


def _matmul_x_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, trans_x: bool, trans_y: bool) -> Tensor:
    x, y, d = _as_matrices(X, Y, dOut)
    turned_x, turned_y = trans_x and X.ndim > 1, trans_y and Y.ndim > 1
    factors = (y, d) if turned_x else (d, y)
    grad = unbroadcast(matmul_v2(*factors, trans_x=turned_x and turned_y, trans_y=turned_x or not turned_y), x)
    return reshape_like(grad, X) if X.ndim == 1 else grad


def _matmul_y_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, trans_x: bool, trans_y: bool) -> Tensor:
    x, y, d = _as_matrices(X, Y, dOut)
    turned_x, turned_y = trans_x and X.ndim > 1, trans_y and Y.ndim > 1
    if x.ndim > 2 and y.ndim == 2 and not turned_x:
        return _shared_matrix_grad(x, Y, d, turned_y)
    factors = (d, x) if turned_y else (x, d)
    grad = unbroadcast(matmul_v2(*factors, trans_x=turned_y or not turned_x, trans_y=turned_x and turned_y), y)
    return reshape_like(grad, Y) if Y.ndim == 1 else grad


def _shared_matrix_grad(x: Tensor, Y: Tensor, d: Tensor, turned_y: bool) -> Tensor:
    """The cotangent of the one matrix Y that all matrices of x are multiplied by, as one product."""
    left, right = (d, x) if turned_y else (x, d)
    grad = mul(_turned(left, left.ndim - 1), right, x_num_col_dims=1, y_num_col_dims=right.ndim - 1)
    return reshape_like(grad, Y) if Y.ndim == 1 else grad


_OF_MATRICES: Mapping[tuple[bool, bool], Callable[[Array, Array], Array]] = {
    (False, False): np.matmul,
    (False, True): lambda x, y: np.matmul(x, y.T),
    (True, False): lambda x, y: np.matmul(x.T, y),
    (True, True): lambda x, y: np.matmul(x.T, y.T),
}


def _product_of(X: Typed, Y: Typed, *, trans_x: bool = False, trans_y: bool = False) -> Callable[[Array, Array], Array] | None:
    """The product of two matrices; None for tensors of other ranks."""
    return _OF_MATRICES[trans_x, trans_y] if len(X.shape) == len(Y.shape) == 2 else None


def _matrix_product(X: Array, Y: Array, trans_x: bool, trans_y: bool) -> Array:
    product = _product_of(X, Y, trans_x=trans_x, trans_y=trans_y)
    if product is not None:
        return product(X, Y)
    x = X.swapaxes(-1, -2) if trans_x and X.ndim > 1 else X
    y = Y.swapaxes(-1, -2) if trans_y and Y.ndim > 1 else Y
    if x.ndim > 2 and y.ndim == 2 and not trans_x:
        rows = x.shape[:-1]
        return (x.reshape(math.prod(rows), x.shape[-1]) @ y).reshape(*rows, y.shape[1])
    return np.asarray(np.matmul(x, y))


@operator(
    "X Y -> Out",
    infer=_matmul_type,
    grad={"X": _matmul_x_grad, "Y": _matmul_y_grad},
    specialize=_product_of,
    shapes="X:X Y:Y",
    speculatable="types",
    bilinear="X Y",
    **PRODUCT,
)
def matmul_v2(X: Array, Y: Array, *, trans_x: bool = False, trans_y: bool = False) -> Array:
    """The matrix product over the last two axes, the others broadcast; a vector X is a row, a vector Y a column."""
    return _matrix_product(X, Y, trans_x, trans_y)


def _old_matmul_type(X: TensorType, Y: TensorType, *, transpose_X: bool = False, transpose_Y: bool = False, **_: object) -> TensorType:
    product = _matmul_type(X, Y, trans_x=transpose_X, trans_y=transpose_Y)
    return product._replace(shape=product.shape or (1,))


def _old_cotangent(X: Tensor, Y: Tensor, dOut: Tensor, alpha: float) -> Tensor:
    d = reshape(dOut, shape=[]) if X.ndim == 1 and Y.ndim == 1 else dOut
    return d * alpha


def _old_x_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, transpose_X: bool, transpose_Y: bool, alpha: float) -> Tensor:
    return _matmul_x_grad(X, Y, _old_cotangent(X, Y, dOut, alpha), trans_x=transpose_X, trans_y=transpose_Y)


def _old_y_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, transpose_X: bool, transpose_Y: bool, alpha: float) -> Tensor:
    return _matmul_y_grad(X, Y, _old_cotangent(X, Y, dOut, alpha), trans_x=transpose_X, trans_y=transpose_Y)


@operator(
    "X Y -> Out",
    infer=_old_matmul_type,
    grad={"X": _old_x_grad, "Y": _old_y_grad},
    shapes="X:X Y:Y",
    speculatable="types",
    bilinear="X Y",
    **PRODUCT,
)
def matmul(X: Array, Y: Array, *, transpose_X: bool = False, transpose_Y: bool = False, alpha: float = 1.0) -> Array:
    """``alpha`` times the matrix product; of two vectors it has the shape [1]."""
    product = _matrix_product(X, Y, transpose_X, transpose_Y) * X.dtype.type(alpha)
    return np.atleast_1d(product)


# -- batches of matrices, vectors ----------------------------------------------------------------


def _bmm_type(X: TensorType, Y: TensorType) -> TensorType:
    if len(X.shape) != 3 or len(Y.shape) != 3 or not matched(X.shape[0], Y.shape[0]):
        raise ShapeError(f"X is {X}, Y is {Y}: [batch, n, k] and [batch, k, m] are expected")
    return _matmul_type(X, Y)


def _bmm_x_grad(Y: Tensor, dOut: Tensor) -> Tensor:
    return bmm(dOut, transpose(Y, axis=[0, 2, 1]))


def _bmm_y_grad(X: Tensor, dOut: Tensor) -> Tensor:
    return bmm(transpose(X, axis=[0, 2, 1]), dOut)


@operator("X Y -> Out", infer=_bmm_type, grad={"X": _bmm_x_grad, "Y": _bmm_y_grad}, speculatable="types", bilinear="X Y", **PRODUCT)
def bmm(X: Array, Y: Array) -> Array:
    """The matrix product of each of a batch of matrices."""
    return np.asarray(np.matmul(X, Y))


def _dot_type(X: TensorType, Y: TensorType) -> TensorType:
    if len(X.shape) not in (1, 2) or len(X.shape) != len(Y.shape) or not all(map(matched, X.shape, Y.shape)):
        raise ShapeError(f"X is {X}, Y is {Y}: two vectors, or two matrices, of one shape are expected")
    return TensorType(X.shape[:-1], same_dtypes(X=X, Y=Y))


@operator(
    "X Y -> Out",
    infer=_dot_type,
    grad={
        "X": lambda Y, dOut: unsqueeze(dOut, axes=[dOut.ndim]) * Y,
        "Y": lambda X, dOut: unsqueeze(dOut, axes=[dOut.ndim]) * X,
    },
    speculatable="types",
    bilinear="X Y",
    own=True,
    flops=2,
    commutative=True,
)
def dot(X: Array, Y: Array) -> Array:
    """The inner product of two vectors, or of each pair of rows."""
    return np.asarray(np.einsum("...i,...i->...", X, Y))


def _addmm_type(Input: TensorType, X: TensorType, Y: TensorType, **_: object) -> TensorType:
    product = _matmul_type(X, Y)
    same_dtypes(Input=Input, X=X)
    if len(product.shape) != 2 or joined_shape(broadcast_shapes(Input.shape, product.shape), product.shape) is None:
        raise ShapeError(f"Input is {Input}, X is {X}, Y is {Y}: Input must broadcast to the product, which is {product}")
    return product


@operator(
    "Input X Y -> Out",
    infer=_addmm_type,
    grad={
        "Input": lambda Input, dOut, *, Beta: unbroadcast(dOut * Beta, Input),
        "X": lambda Y, dOut, *, Alpha: matmul_v2(dOut, Y, trans_y=True) * Alpha,
        "Y": lambda X, dOut, *, Alpha: matmul_v2(X, dOut, trans_x=True) * Alpha,
    },
    shapes="Input",
    speculatable="extents",
    **PRODUCT,
)
def addmm(Input: Array, X: Array, Y: Array, *, Alpha: float = 1.0, Beta: float = 1.0) -> Array:
    """``Beta * Input + Alpha * X @ Y``, Input broadcast."""
    return np.asarray(Input * X.dtype.type(Beta) + (X @ Y) * X.dtype.type(Alpha))
