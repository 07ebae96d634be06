"""Products of matrices and vectors, sums of products over labeled axes, diagonals, inverses and factorizations."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.creation import tril_triu
from graphad.ops.definition import Typed, operator
from graphad.ops.dimensions import matrix_product, product
from graphad.ops.formulas import as_array
from graphad.ops.inference import matched, normal_axis, same_dtypes
from graphad.ops.like import expand_like, fill_any_like, fill_zeros_like, reshape_like, sum_like, unbroadcast
from graphad.ops.products import in_float32, times
from graphad.ops.shapes import reshape, squeeze, transpose, unsqueeze
from graphad.ops.traits import PRODUCT, Flops, Shapes, Weights
from graphad.types import Array, Shape, Tensor, TensorType, broadcast_extent, broadcast_shapes, element_count, joined_shape

# -- linalg ----------------------------------------------------------------------------------------
# Products of matrices and vectors.

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


def _linalg_turned(t: Tensor, columns: int) -> Tensor:
    """The axes from ``columns`` on before the others: as matrices, the transpose."""
    return transpose(t, axis=[*range(columns, t.ndim), *range(columns)])


def _mul_x_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, x_num_col_dims: int, y_num_col_dims: int) -> Tensor:
    m, n = x_num_col_dims, y_num_col_dims
    # As matrices Out = X Y, so dX = dOut Y^T and dY = X^T dOut; each is brought back to its tensor's shape.
    return reshape_like(mul(dOut, _linalg_turned(Y, n), x_num_col_dims=m, y_num_col_dims=Y.ndim - n), X)


def _mul_y_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, x_num_col_dims: int) -> Tensor:
    m = x_num_col_dims
    return reshape_like(mul(_linalg_turned(X, m), dOut, x_num_col_dims=X.ndim - m, y_num_col_dims=m), Y)


def _mul_channels(attrs: Mapping[str, object], rank: int, out: int) -> tuple[int, int] | None:
    return (rank - 1, out - 1) if attrs["y_num_col_dims"] == rank - 1 else None


def _mul_flops(shapes: Shapes, attrs: Mapping[str, Any]) -> int:
    (x,), (out,) = shapes["X"], shapes["Out"]
    return 2 * math.prod(out) * math.prod(x[attrs["x_num_col_dims"] :])


@operator(
    "X Y -> Out",
    infer=_mul_type,
    grad={"X": _mul_x_grad, "Y": _mul_y_grad},
    shapes="X:X Y:Y",
    speculatable="types",
    bilinear="X Y",
    flops=_mul_flops,
    weights=Weights("Y", _mul_channels),
    **PRODUCT,
    dimensions=product,
)
def mul(X: Array, Y: Array, *, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Array:
    """The product of X and Y as matrices, whose rows are the axes before ``x_num_col_dims`` and ``y_num_col_dims``."""
    rows, columns = X.shape[:x_num_col_dims], Y.shape[y_num_col_dims:]
    inner = math.prod(Y.shape[:y_num_col_dims])
    return times(X.reshape(math.prod(rows), inner), Y.reshape(inner, math.prod(columns))).reshape(rows + columns)


# -- matmul --------------------------------------------------------------------------------------


def _seen(shape: Shape, transposed: bool) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if transposed and len(shape) > 1 else shape


def _matmul_type(X: TensorType, Y: TensorType, *, trans_x: bool = False, trans_y: bool = False) -> TensorType:
    x, y = _seen(X.shape, trans_x), _seen(Y.shape, trans_y)
    # ``y[-2:][0]`` are the rows of a matrix Y, or the extent of a vector.
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
        # The product lost the axis of this one row: it was before the columns of Y, or last if Y is a vector.
        dOut = unsqueeze(dOut, axes=[dOut.ndim - (Y.ndim > 1)])
        X = unsqueeze(X, axes=[0])
    if Y.ndim == 1:
        dOut, Y = unsqueeze(dOut, axes=[dOut.ndim]), unsqueeze(Y, axes=[1])
    return X, Y, dOut


def _matmul_x_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, trans_x: bool, trans_y: bool) -> Tensor:
    # Out = X Y gives dX = dOut Y^T, and for a transposed X its transpose, Y dOut^T, so that nothing has to be transposed afterwards.
    x, y, d = _as_matrices(X, Y, dOut)
    turned_x, turned_y = trans_x and X.ndim > 1, trans_y and Y.ndim > 1
    factors = (y, d) if turned_x else (d, y)
    grad = unbroadcast(matmul_v2(*factors, trans_x=turned_x and turned_y, trans_y=turned_x or not turned_y), x)
    return reshape_like(grad, X) if X.ndim == 1 else grad


def _matmul_y_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, trans_x: bool, trans_y: bool) -> Tensor:
    x, y, d = _as_matrices(X, Y, dOut)
    turned_x, turned_y = trans_x and X.ndim > 1, trans_y and Y.ndim > 1
    # One matrix for the whole batch: its gradient is a sum over the batch, which one large product gives without a batch of small ones.
    if x.ndim > 2 and y.ndim == 2 and not turned_x:
        return _shared_matrix_grad(x, Y, d, turned_y)
    factors = (d, x) if turned_y else (x, d)
    grad = unbroadcast(matmul_v2(*factors, trans_x=turned_y or not turned_x, trans_y=turned_x and turned_y), y)
    return reshape_like(grad, Y) if Y.ndim == 1 else grad


def _shared_matrix_grad(x: Tensor, Y: Tensor, d: Tensor, turned_y: bool) -> Tensor:
    """The cotangent of the one matrix Y that all matrices of x are multiplied by, as one product."""
    left, right = (d, x) if turned_y else (x, d)
    grad = mul(_linalg_turned(left, left.ndim - 1), right, x_num_col_dims=1, y_num_col_dims=right.ndim - 1)
    return reshape_like(grad, Y) if Y.ndim == 1 else grad


_OF_MATRICES: Mapping[tuple[bool, bool], Callable[[Array, Array], Array]] = {
    (False, False): times,
    (False, True): lambda x, y: times(x, y.T),
    (True, False): lambda x, y: times(x.T, y),
    (True, True): lambda x, y: times(x.T, y.T),
}


def _product_of(X: Typed, Y: Typed, *, trans_x: bool = False, trans_y: bool = False) -> Callable[[Array, Array], Array] | None:
    """The product of two matrices; None for tensors of other ranks."""
    return _OF_MATRICES[trans_x, trans_y] if len(X.shape) == len(Y.shape) == 2 else None


def _matrix_product(X: Array, Y: Array, trans_x: bool, trans_y: bool) -> Array:
    of_matrices = _product_of(X, Y, trans_x=trans_x, trans_y=trans_y)
    if of_matrices is not None:
        return of_matrices(X, Y)
    x = X.swapaxes(-1, -2) if trans_x and X.ndim > 1 else X
    y = Y.swapaxes(-1, -2) if trans_y and Y.ndim > 1 else Y
    # numpy multiplies a batch matrix by matrix; with one Y for all, the rows of all are one matrix.
    if x.ndim > 2 and y.ndim == 2 and not trans_x:
        rows = x.shape[:-1]
        return times(x.reshape(math.prod(rows), x.shape[-1]), y).reshape(*rows, y.shape[1])
    return in_float32(np.matmul, x, y)


def _columns(turned: str = "") -> Weights:
    """The channels are the columns of Y; ``turned`` is the attribute that transposes it. A vector Y has none."""

    def channels(attrs: Mapping[str, object], rank: int, out: int) -> tuple[int, int] | None:
        return None if rank < 2 else (rank - 2 if turned and attrs[turned] else rank - 1, out - 1)

    return Weights("Y", channels)


def _matmul_flops(turned: str = "") -> Flops:
    """A product and a sum for each element of the result and place of the inner axis; ``turned`` is the attribute that transposes X."""

    def flops(shapes: Shapes, attrs: Mapping[str, object]) -> int:
        (x,), (out,) = shapes["X"], shapes["Out"]
        inner = x[-2] if turned and len(x) > 1 and attrs[turned] else x[-1]
        # The usual count: multiply and add.
        return 2 * math.prod(out) * inner

    return flops


@operator(
    "X Y -> Out",
    infer=_matmul_type,
    grad={"X": _matmul_x_grad, "Y": _matmul_y_grad},
    specialize=_product_of,
    shapes="X:X Y:Y",
    speculatable="types",
    bilinear="X Y",
    flops=_matmul_flops("trans_x"),
    weights=_columns("trans_y"),
    **PRODUCT,
    dimensions=matrix_product,
)
def matmul_v2(X: Array, Y: Array, *, trans_x: bool = False, trans_y: bool = False) -> Array:
    """The matrix product over the last two axes, the others broadcast; a vector X is a row, a vector Y a column."""
    return _matrix_product(X, Y, trans_x, trans_y)


def _old_matmul_type(X: TensorType, Y: TensorType, *, transpose_X: bool = False, transpose_Y: bool = False, **_: object) -> TensorType:
    product = _matmul_type(X, Y, trans_x=transpose_X, trans_y=transpose_Y)
    return product._replace(shape=product.shape or (1,))


def _old_cotangent(X: Tensor, Y: Tensor, dOut: Tensor, alpha: float) -> Tensor:
    # Two vectors give [1] here, and a scalar in matmul_v2.
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
    flops=_matmul_flops("transpose_X"),
    weights=_columns("transpose_Y"),
    **PRODUCT,
    dimensions=matrix_product,
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


@operator(
    "X Y -> Out",
    infer=_bmm_type,
    grad={"X": lambda Y, dOut: bmm(dOut, transpose(Y, axis=[0, 2, 1])), "Y": lambda X, dOut: bmm(transpose(X, axis=[0, 2, 1]), dOut)},
    speculatable="types",
    bilinear="X Y",
    flops=_matmul_flops(),
    weights=_columns(),
    **PRODUCT,
    dimensions=matrix_product,
)
def bmm(X: Array, Y: Array) -> Array:
    """The matrix product of each of a batch of matrices."""
    return in_float32(np.matmul, X, Y)


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
    return as_array(np.einsum("...i,...i->...", X, Y))


def _addmm_type(Input: TensorType, X: TensorType, Y: TensorType, **_: object) -> TensorType:
    product = _matmul_type(X, Y)
    same_dtypes(Input=Input, X=X)
    if len(product.shape) != 2 or joined_shape(broadcast_shapes(Input.shape, product.shape), product.shape) is None:
        raise ShapeError(f"Input is {Input}, X is {X}, Y is {Y}: Input must broadcast to the product, which is {product}")
    return product


def _addmm_flops(shapes: Shapes, attrs: Mapping[str, object]) -> int:
    (out,) = shapes["Out"]
    # Two scalings and one sum for each element of the result.
    return _matmul_flops()(shapes, attrs) + 3 * math.prod(out)


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
    flops=_addmm_flops,
    **PRODUCT,
)
def addmm(Input: Array, X: Array, Y: Array, *, Alpha: float = 1.0, Beta: float = 1.0) -> Array:
    """``Beta * Input + Alpha * X @ Y``, Input broadcast."""
    return as_array(Input * X.dtype.type(Beta) + (X @ Y) * X.dtype.type(Alpha))


# -- diagonals -------------------------------------------------------------------------------------
# Diagonals of matrices: taken out, put in, and summed; and the products of vectors and blocks that go with them.

# -- out of matrices, and into them --------------------------------------------------------------


def _two_axes(rank: int, axis1: int, axis2: int) -> tuple[int, int]:
    a, b = normal_axis(axis1, rank, "axis1"), normal_axis(axis2, rank, "axis2")
    if a == b:
        raise ShapeError(f"axis1={axis1} and axis2={axis2} are one axis of a tensor of {rank} axes")
    return a, b


def _length(rows: int, columns: int, offset: int) -> int:
    if -1 in (rows, columns):
        return -1
    # An offset to the right leaves fewer columns, one downwards (negative) fewer rows.
    return max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))


def _diagonal_shape(shape: Shape, offset: int, axis1: int, axis2: int) -> Shape:
    a, b = _two_axes(len(shape), axis1, axis2)
    return (*(e for i, e in enumerate(shape) if i not in (a, b)), _length(shape[a], shape[b], offset))


def _diagonal_type(Input: TensorType, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TensorType:
    return TensorType(_diagonal_shape(Input.shape, offset, axis1, axis2), Input.dtype)


@operator(
    "Input -> Out",
    infer=_diagonal_type,
    grad={"Input": lambda Input, dOut, *, offset, axis1, axis2: undiagonal(dOut, Input, offset=offset, axis1=axis1, axis2=axis2)},
    shapes="Input",
    linear="Input",
    flops=0,
)
def diagonal(Input: Array, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonals of the matrices that two axes make, as the last axis; ``offset`` counts columns to the right."""
    return np.array(np.diagonal(Input, offset, axis1, axis2))


def _undiagonal_type(X: TensorType, Like: TensorType, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TensorType:
    expected = _diagonal_shape(Like.shape, offset, axis1, axis2)
    if len(expected) != len(X.shape) or not all(map(matched, expected, X.shape)):
        raise ShapeError(f"X is {X}: it is not a diagonal of Like, which is {Like} (offset={offset}, axis1={axis1}, axis2={axis2})")
    return TensorType(Like.shape, X.dtype)


@operator(
    "X Like -> Out",
    infer=_undiagonal_type,
    grad={"X": lambda dOut, *, offset, axis1, axis2: diagonal(dOut, offset=offset, axis1=axis1, axis2=axis2)},
    linear="X",
    flops=0,
)
def undiagonal(X: Array, Like: Array, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Zeros in the shape of Like with X on a diagonal: the transpose of ``diagonal``."""
    out = np.zeros(Like.shape, X.dtype)
    view = np.moveaxis(out, _two_axes(out.ndim, axis1, axis2), (-2, -1))
    # A positive offset moves columns, a negative one rows; ``view`` writes to ``out``.
    at = np.arange(X.shape[-1])
    view[..., at + max(-offset, 0), at + max(offset, 0)] = X
    return out


def _embedded_type(Input: TensorType, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> TensorType:
    if not Input.shape:
        raise ShapeError(f"Input is {Input}; at least one axis is expected")
    extent = -1 if Input.shape[-1] == -1 else Input.shape[-1] + abs(offset)
    shape = list(Input.shape[:-1])
    # In ascending order, so that each new axis gets its own number.
    for axis in sorted(_two_axes(len(shape) + 2, dim1, dim2)):
        shape.insert(axis, extent)
    return TensorType(tuple(shape), Input.dtype)


@operator(
    "Input -> Out",
    infer=_embedded_type,
    grad={"Input": lambda dOut, *, offset, dim1, dim2: diagonal(dOut, offset=offset, axis1=dim1, axis2=dim2)},
    linear="Input",
    flops=0,
)
def diag_embed(Input: Array, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Square matrices with the last axis of Input on a diagonal, along two new axes."""
    shape = _embedded_type(TensorType(Input.shape, Input.dtype.name), offset=offset, dim1=dim1, dim2=dim2).shape
    # Only the shape is read: one zero, broadcast, takes no memory.
    out: Array = undiagonal.kernel(Input, np.broadcast_to(Input.dtype.type(0), shape), offset=offset, axis1=dim1, axis2=dim2)
    return out


def _diag_type(X: TensorType, *, offset: int = 0, padding_value: float = 0.0) -> TensorType:
    if len(X.shape) not in (1, 2):
        raise ShapeError(f"X is {X}; a vector or a matrix is expected")
    return _embedded_type(X, offset=offset) if len(X.shape) == 1 else _diagonal_type(X, offset=offset)


@operator(
    "X -> Out",
    infer=_diag_type,
    grad={"X": lambda X, dOut, *, offset: diagonal(dOut, offset=offset) if X.ndim == 1 else undiagonal(dOut, X, offset=offset)},
    shapes="X",
    linear="X",
    offset="padding_value",
    flops=0,
)
def diag_v2(X: Array, *, offset: int = 0, padding_value: float = 0.0) -> Array:
    """The diagonal of a matrix, or the matrix with a vector on its diagonal and ``padding_value`` elsewhere."""
    if X.ndim == 2:
        return np.array(np.diagonal(X, offset))
    out = np.full((len(X) + abs(offset),) * 2, padding_value, X.dtype)
    at = np.arange(len(X))
    # A positive offset is above the diagonal, a negative one below.
    out[at + max(-offset, 0), at + max(offset, 0)] = X
    return out


def _old_diag_type(Diagonal: TensorType) -> TensorType:
    if len(Diagonal.shape) != 1:
        raise ShapeError(f"Diagonal is {Diagonal}; a vector is expected")
    return _embedded_type(Diagonal)


@operator("Diagonal -> Out", infer=_old_diag_type, grad={"Diagonal": lambda dOut: diagonal(dOut)}, linear="Diagonal", flops=0)
def diag(Diagonal: Array) -> Array:
    """The matrix with a vector on its diagonal."""
    return np.diag(Diagonal)


# -- sums and products ---------------------------------------------------------------------------


def _trace_grad(Input: Tensor, dOut: Tensor, *, offset: int, axis1: int, axis2: int) -> Tensor:
    place = {"offset": offset, "axis1": axis1, "axis2": axis2}
    return undiagonal(expand_like(unsqueeze(dOut, axes=[dOut.ndim]), diagonal(Input, **place)), Input, **place)


@operator(
    "Input -> Out",
    infer=lambda Input, **attrs: TensorType(_diagonal_type(Input, **attrs).shape[:-1], Input.dtype),
    grad={"Input": _trace_grad},
    shapes="Input",
    linear="Input",
)
def trace(Input: Array, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The sums of diagonals."""
    # ``np.trace`` would widen small integers.
    return as_array(np.add.reduce(np.diagonal(Input, offset, axis1, axis2), axis=-1, dtype=Input.dtype))


def _kron_type(X: TensorType, Y: TensorType) -> TensorType:
    rank = max(len(X.shape), len(Y.shape))
    x, y = ((1,) * (rank - len(t.shape)) + t.shape for t in (X, Y))
    return TensorType(tuple(-1 if -1 in (a, b) else a * b for a, b in zip(x, y, strict=True)), same_dtypes(X=X, Y=Y))


def _interleaved(X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    """X and Y with axes of one element, so that their plain product is the blocks of the Kronecker product."""
    # (a, 1) times (1, b) at each axis: extents a and b beside each other, which a reshape joins to a * b.
    rank = max(X.ndim, Y.ndim)
    x = unsqueeze(X, axes=[0] * (rank - X.ndim)) if X.ndim < rank else X
    y = unsqueeze(Y, axes=[0] * (rank - Y.ndim)) if Y.ndim < rank else Y
    return (unsqueeze(x, axes=list(range(1, 2 * rank, 2))), unsqueeze(y, axes=list(range(0, 2 * rank, 2)))) if rank else (x, y)


def _kron_x_grad(X: Tensor, Y: Tensor, dOut: Tensor) -> Tensor:
    x, y = _interleaved(X, Y)
    # ``x * y`` is read for its shape alone.
    return reshape_like(sum_like(reshape_like(dOut, x * y) * y, x), X)


def _kron_y_grad(X: Tensor, Y: Tensor, dOut: Tensor) -> Tensor:
    x, y = _interleaved(X, Y)
    return reshape_like(sum_like(reshape_like(dOut, x * y) * x, y), Y)


@operator("X Y -> Out", infer=_kron_type, grad={"X": _kron_x_grad, "Y": _kron_y_grad}, bilinear="X Y")
def kron(X: Array, Y: Array) -> Array:
    """The Kronecker product: Y times each element of X, block by block."""
    return as_array(np.kron(X, Y))


def _mv_type(X: TensorType, Vec: TensorType) -> TensorType:
    if len(X.shape) != 2 or len(Vec.shape) != 1 or not matched(X.shape[1], Vec.shape[0]):
        raise ShapeError(f"X is {X}, Vec is {Vec}: a matrix and a vector as long as its rows are expected")
    return TensorType(X.shape[:1], same_dtypes(X=X, Vec=Vec))


@operator(
    "X Vec -> Out",
    infer=_mv_type,
    grad={
        "X": lambda Vec, dOut: unsqueeze(dOut, axes=[1]) * unsqueeze(Vec, axes=[0]),
        "Vec": lambda X, dOut: matmul_v2(X, dOut, trans_x=True),
    },
    bilinear="X Vec",
    flops=2,
)
def mv(X: Array, Vec: Array) -> Array:
    """The product of a matrix and a vector."""
    return as_array(X @ Vec)


# -- sums over labeled axes -----------------------------------------------------------------------
# Sums of products over labeled axes, computed pair by pair as products of matrices in the order that numpy's ``einsum_path`` finds.

# -- equations -----------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _terms(equation: str, ranks: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """The labels of each operand and of the result, with new labels for the axes of an ellipsis."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    subscripts = left.split(",")
    if len(subscripts) != len(ranks) or any(c not in string.ascii_letters for t in (*subscripts, right) for c in t.replace("...", "", 1)):
        raise ShapeError(f"equation {equation!r} does not fit {len(ranks)} operands: letters, '...' and ',' are expected, and '->' once")
    # Letters for the axes of an ellipsis: none that the equation uses.
    spare = [c for c in string.ascii_letters if c not in equation]
    counts = [rank - len(t.replace("...", "")) for t, rank in zip(subscripts, ranks, strict=True)]
    if any(n < 0 or (n and "..." not in t) for t, n in zip(subscripts, counts, strict=True)):
        raise ShapeError(f"equation {equation!r} does not fit operands of {list(ranks)} axes")
    rest = "".join(spare[: max(n for n in counts)])
    # Ellipses are aligned from the end, as broadcasting is: one of fewer axes has the last of the labels.
    terms = tuple(t.replace("...", rest[len(rest) - n :]) for t, n in zip(subscripts, counts, strict=True))
    return terms, _result(equation, terms, rest, right if arrow else None)


def _result(equation: str, terms: tuple[str, ...], rest: str, right: str | None) -> str:
    counts = Counter("".join(terms))
    if right is None:
        # numpy's implicit form: the labels that occur once, in alphabetical order, after the ellipsis.
        return rest + "".join(sorted(c for c, n in counts.items() if n == 1 and c not in rest))
    if rest and "..." not in right:
        raise ShapeError(f"equation {equation!r} has an ellipsis among the operands, but not in the result")
    result = right.replace("...", rest)
    if len(set(result)) < len(result) or any(c not in counts for c in result):
        raise ShapeError(f"equation {equation!r}: the labels of the result are different ones of the operands")
    return result


def _extents(equation: str, shapes: list[Shape]) -> tuple[dict[str, int], str]:
    """The extent of each label, and the labels of the result."""
    terms, result = _terms(equation, tuple(map(len, shapes)))
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        extents_of_term: dict[str, int] = {}
        for label, extent in zip(term, shape, strict=True):
            # Between operands 1 fits any extent; within one a label that occurs twice (a diagonal) needs one extent.
            joint_extent = broadcast_extent(extents.get(label, 1), extent)
            if joint_extent is None or (extents_of_term.setdefault(label, extent) not in (extent, -1) and extent != -1):
                raise ShapeError(f"equation {equation!r} does not fit operands of the shapes {[list(s) for s in shapes]}: label {label!r}")
            extents[label] = joint_extent
    return extents, result


# -- computing -----------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _order(equation: str, shapes: tuple[Shape, ...]) -> list[tuple[int, ...]]:
    """The order of pairwise contractions: numpy's greedy choice."""
    if len(shapes) < 3:
        return [tuple(range(len(shapes)))]
    # Zeros broadcast to the shapes: numpy looks at extents alone, and no memory is needed.
    path = np.einsum_path(equation, *(np.broadcast_to(0.0, s) for s in shapes), optimize="greedy")[0]
    return [tuple(step) for step in path[1:]]


def _contracted(equation: str, terms: tuple[str, ...], arrays: list[Array], result: str) -> Array:
    operands = list(zip(terms, arrays, strict=True))
    for step in _order(f"{','.join(terms)}->{result}", tuple(a.shape for a in arrays)):
        group = [operands.pop(i) for i in sorted(step, reverse=True)][::-1]
        # A contraction of several operands is done by pairs, from the left; labels that a later operand or the result has stay.
        while len(group) > 1:
            names = set(result).union(*(t for t, _ in operands), *(t for t, _ in group[2:]))
            group[:2] = [_pair(*group[0], *group[1], names)]
        operands += group
    (term, array), *_ = operands
    return as_array(np.einsum(f"{term}->{result}", array))


def _alone(term: str, array: Array, names: set[str]) -> tuple[str, Array]:
    """An operand with each label once, without those that nothing else has."""
    indices = "".join(dict.fromkeys(c for c in term if c in names))
    return indices, array if indices == term else as_array(np.einsum(f"{term}->{indices}", array))


def _pair(term: str, array: Array, other_term: str, other: Array, names: set[str]) -> tuple[str, Array]:
    """Two operands as one: a product of matrices over what both have and nothing else needs."""
    # Labels are in one of four groups: batch (both have them and they stay), inner (both have them and they are summed), left and right.
    # That is a stack of products of matrices [batch, left, inner] @ [batch, inner, right], which BLAS computes.
    # An axis of one element beside a wide one with its label is broadcast. It is dropped, since the wide one has the
    # extent.
    wide, other_wide = _wide(term, array), _wide(other_term, other)
    term, array = _dropped(term, array, other_wide - wide)
    other_term, other = _dropped(other_term, other, wide - other_wide)
    term, array = _alone(term, array, names | set(other_term))
    other_term, other = _alone(other_term, other, names | set(term))
    common = [c for c in term if c in other_term]
    batch, inner = [c for c in common if c in names], [c for c in common if c not in names]
    left, right = [c for c in term if c not in common], [c for c in other_term if c not in common]
    x, y = _arranged(term, array, batch, left, inner), _arranged(other_term, other, batch, inner, right)
    # Without inner labels these are [batch, left, 1] and [batch, 1, right]: a plain product, broadcast.
    product = x @ y if inner else x * y
    extents = {**dict(zip(other_term, other.shape, strict=True)), **dict(zip(term, array.shape, strict=True))}
    labels = [*batch, *left, *right]
    return "".join(labels), product.reshape([extents[c] for c in labels])


def _wide(term: str, array: Array) -> set[str]:
    return {c for c, extent in zip(term, array.shape, strict=True) if extent != 1}


def _dropped(term: str, array: Array, labels: set[str]) -> tuple[str, Array]:
    """Without the axes of labels that have one element here and more elsewhere."""
    axes = tuple(i for i, c in enumerate(term) if c in labels)
    return ("".join(c for c in term if c not in labels), array.squeeze(axes)) if axes else (term, array)


def _arranged(term: str, array: Array, batch: list[str], rows: list[str], columns: list[str]) -> Array:
    permuted_array = array.transpose([term.index(c) for c in (*batch, *rows, *columns)])
    shape, n, m = permuted_array.shape, len(batch), len(batch) + len(rows)
    return permuted_array.reshape(*shape[:n], int(np.prod(shape[n:m])), int(np.prod(shape[m:])))


# -- the operator --------------------------------------------------------------------------------


def _einsum_type(Operands: list[TensorType], *, equation: str) -> tuple[TensorType, list[TensorType], list[TensorType]]:
    dtype = same_dtypes(**{f"Operands[{i}]": t for i, t in enumerate(Operands)})
    extents, result = _extents(equation, [t.shape for t in Operands])
    old = [TensorType((0, *t.shape), dtype) for t in Operands]
    return TensorType(tuple(extents[c] for c in result), dtype), [TensorType((0,), dtype)] * len(old), old


def _einsum_grad(Operands: list[Tensor], dOut: Tensor, *, equation: str) -> list[Tensor]:
    terms, result = _terms(equation, tuple(t.ndim for t in Operands))
    return [_operand_grad(i, Operands, terms, result, dOut) for i in range(len(Operands))]


def _operand_grad(i: int, operands: list[Tensor], terms: tuple[str, ...], result: str, dOut: Tensor) -> Tensor:
    """The cotangent of operand ``i`` of an einsum: the product of dOut and all other operands; labels that occur twice are put back on the
    diagonal.

    Ones in the shape of the operand stand in for axes that all others lack, or may be broadcast along.
    """
    # einsum is linear in each operand, and its gradient an einsum: of the cotangent and the other operands, for the operand's labels.
    stages, operand, term = _without_repeats(operands[i], terms[i])
    other_operands = [(t, x) for k, (t, x) in enumerate(zip(terms, operands, strict=True)) if k != i]
    reads = [(result, dOut), *other_operands]
    # A label of the operand gets its extent from the cotangent or another operand; where the operand has extent 1, from a broadcast.
    wide = {c for t, x in other_operands for c, extent in zip(t, x.shape, strict=True) if extent not in (1, -1)}
    narrow = {c for c, extent in zip(term, operand.shape, strict=True) if extent == 1}.intersection(c for t, _ in other_operands for c in t)
    if set(term) - wide - narrow - set(result):
        reads.append((term, fill_any_like(operand, value=1.0)))
    grad = unbroadcast(einsum([x for _, x in reads], equation=f"{','.join(t for t, _ in reads)}->{term}"), operand)
    for cotangent, first, second in reversed(stages):
        grad = undiagonal(grad, cotangent, axis1=first, axis2=second)
    return grad


def _without_repeats(x: Tensor, term: str) -> tuple[list[tuple[Tensor, int, int]], Tensor, str]:
    """The operand's diagonal over each label that occurs twice, and the steps that led there."""
    stages: list[tuple[Tensor, int, int]] = []
    while len(set(term)) < len(term):
        label = next(c for c in term if term.count(c) > 1)
        first, second = [i for i, c in enumerate(term) if c == label][:2]
        stages.append((x, first, second))
        x = diagonal(x, axis1=first, axis2=second)
        # A diagonal is the last axis of its result.
        term = "".join(c for i, c in enumerate(term) if i not in (first, second)) + label
    return stages, x, term


@operator("Operands* -> Out InnerCache*? XShape*?", infer=_einsum_type, grad={"Operands": _einsum_grad})
def einsum(Operands: list[Array], *, equation: str) -> tuple[Array, list[Array], list[Array]]:
    """Einstein's sum: ``ij,jk->ik`` is a product of matrices. Axes of one element are broadcast; ``...`` stands for the axes not named.

    A label that one operand has twice runs over the diagonal; without ``->`` the result has the labels that occur once, in their order.
    InnerCache is empty: nothing is kept for the gradient.
    """
    terms, result = _terms(equation, tuple(a.ndim for a in Operands))
    out = _contracted(equation, terms, Operands, result)
    empty = [np.empty((0,), out.dtype) for _ in Operands]
    old = [np.empty((0, *a.shape), a.dtype) for a in Operands]
    # A transpose or diagonal is a view of the operand; results own their memory.
    return out.copy() if len(Operands) == 1 and np.may_share_memory(out, Operands[0]) else out, empty, old


# -- inverses and factorizations -------------------------------------------------------------------
# Inverses, Cholesky factors, powers of matrices and solutions of linear systems; gradients as in Giles, "An extended collection of
# matrix derivative results for forward and reverse mode algorithmic differentiation" (2008).


def _check_square(name: str, t: TensorType) -> None:
    if len(t.shape) < 2 or not matched(t.shape[-1], t.shape[-2]):
        raise ShapeError(f"{name} is {t}; square matrices are expected")
    if t.dtype not in ("float32", "float64"):
        raise ShapeError(f"{name} is {t}; float32 or float64 is expected")


def _square(X: TensorType, **_: object) -> TensorType:
    _check_square("the input", X)
    return X


def transposed(t: Tensor) -> Tensor:
    """Each matrix of a stack transposed."""
    return transpose(t, axis=[*range(t.ndim - 2), t.ndim - 1, t.ndim - 2])


class NoSolution(InvalidValue):
    """A linear system has no solution for the numbers that it got."""


def solved(function: Callable[..., Any], *operands: object) -> Any:
    """Call a function of numpy's linear algebra; NoSolution where it finds none."""
    try:
        return function(*operands)
    except np.linalg.LinAlgError as error:
        raise NoSolution(f"there is no solution: {str(error).lower()}") from None


def _computed(function: Callable[..., object], *arrays: Array) -> Array:
    return as_array(solved(function, *arrays))


# -- inverses and powers -------------------------------------------------------------------------


def _inverse_grad(Output: Tensor, dOutput: Tensor) -> Tensor:
    adjoint = transposed(Output)
    # d(X^-1) = -X^-1 dX X^-1, transposed.
    return -matmul_v2(matmul_v2(adjoint, dOutput), adjoint)


@operator("Input -> Output", infer=_square, grad={"Input": _inverse_grad})
def inverse(Input: Array) -> Array:
    """The inverse of each matrix; InvalidValue if one has none."""
    return _computed(np.linalg.inv, Input)


def _determinant_type(Input: TensorType) -> TensorType:
    _check_square("the input", Input)
    return TensorType(Input.shape[:-2], Input.dtype)


def _determinant_grad(Input: Tensor, Out: Tensor, dOut: Tensor) -> Tensor:
    """det(X) X^-T (J. Magnus and H. Neudecker, Matrix Differential Calculus, 1988)."""
    return reshape(dOut * Out, shape=[*([0] * dOut.ndim), 1, 1]) * transposed(inverse(Input))


@operator("Input -> Out", infer=_determinant_type, grad={"Input": _determinant_grad})
def determinant(Input: Array) -> Array:
    """The determinant of each matrix; its gradient is that of matrices that have an inverse."""
    return as_array(np.linalg.det(Input), Input.dtype)


def _power_grad(X: Tensor, dOut: Tensor, *, n: int) -> Tensor:
    """The sum over the places of a factor of the products before it and after it."""
    if n == 0:
        return fill_zeros_like(X)
    base = transposed(X) if n > 0 else transposed(inverse(X))
    grad = dOut
    # Horner's scheme for the sum of base^i dOut base^(n-1-i).
    for i in range(1, abs(n)):
        grad = matmul_v2(grad, base) + matmul_v2(matrix_power(base, n=i), dOut)
    # d(X^-1) = -X^-1 dX X^-1.
    return grad if n > 0 else -matmul_v2(matmul_v2(base, grad), base)


@operator("X -> Out", infer=_square, grad={"X": _power_grad})
def matrix_power(X: Array, *, n: int) -> Array:
    """The n-th power of each matrix, that of the inverse where ``n`` is negative."""
    # numpy returns X itself for n = 1; results own their memory.
    return np.array(_computed(lambda x: np.linalg.matrix_power(x, n), X))


# -- triangles -----------------------------------------------------------------------------------


def _solved_type(X: TensorType, Y: TensorType, matrix: str = "X", right: str = "Y", **_: object) -> TensorType:
    _check_square(matrix, X)
    if len(Y.shape) < 2 or not matched(X.shape[-1], Y.shape[-2]):
        raise ShapeError(f"{matrix} is {X}, {right} is {Y}: they have to have as many rows")
    try:
        batch = broadcast_shapes(X.shape[:-2], Y.shape[:-2])
    except ShapeError:
        raise ShapeError(f"{matrix} is {X}, {right} is {Y}: the axes before the last two do not broadcast together") from None
    return TensorType((*batch, *Y.shape[-2:]), same_dtypes(**{matrix: X, right: Y}))


def _triangular_y_grad(X: Tensor, Y: Tensor, dOut: Tensor, *, upper: bool, transpose: bool, unitriangular: bool) -> Tensor:
    # T(X) A = Y: the cotangent of Y solves the transposed system.
    grad = triangular_solve(X, dOut, upper=upper, transpose=not transpose, unitriangular=unitriangular)
    return unbroadcast(grad, Y)


def _triangular_x_grad(X: Tensor, Out: Tensor, dOut: Tensor, *, upper: bool, transpose: bool, unitriangular: bool) -> Tensor:
    back = triangular_solve(X, dOut, upper=upper, transpose=not transpose, unitriangular=unitriangular)
    # dT = -S A^T, with S that solution; for T(X) = X^T its transpose.
    gradient = matmul_v2(Out, back, trans_y=True) if transpose else matmul_v2(back, Out, trans_y=True)
    # The diagonal of a unitriangular matrix is not read.
    off = (1 if upper else -1) if unitriangular else 0
    return unbroadcast(-tril_triu(gradient, diagonal=off, lower=not upper), X)


@operator("X Y -> Out", infer=_solved_type, grad={"X": _triangular_x_grad, "Y": _triangular_y_grad}, shapes="Y", partly_linear="Y")
def triangular_solve(X: Array, Y: Array, *, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Array:
    """``A`` with ``T(X) A = Y``, where ``T(X)`` is the upper or lower triangle of X, transposed if requested, with ones on its diagonal
    if ``unitriangular``; InvalidValue if there is a zero on the diagonal."""
    triangle = np.triu(X, int(unitriangular)) if upper else np.tril(X, -int(unitriangular))
    if unitriangular:
        triangle = triangle + np.eye(X.shape[-1], dtype=X.dtype)
    return _computed(np.linalg.solve, triangle.swapaxes(-1, -2) if transpose else triangle, Y)


def _cholesky_grad(Out: Tensor, dOut: Tensor, *, upper: bool) -> Tensor:
    # I. Murray, "Differentiation of the Cholesky decomposition" (2016): S = L^-T Phi(L^T dL) L^-1, symmetrized, where Phi
    # is the lower triangle with half the diagonal.
    lower, d = (transposed(Out), transposed(dOut)) if upper else (Out, dOut)
    product = matmul_v2(lower, tril_triu(d, lower=True), trans_x=True)
    half = (tril_triu(product, lower=True) + tril_triu(product, diagonal=-1, lower=True)) * 0.5
    solved_left = triangular_solve(lower, half, upper=False, transpose=True)
    grad = triangular_solve(lower, transposed(solved_left), upper=False, transpose=True)
    return (grad + transposed(grad)) * 0.5


@operator("X -> Out", infer=_square, grad={"X": _cholesky_grad})
def cholesky(X: Array, *, upper: bool = False) -> Array:
    """The lower triangle L with ``L Lᵀ = X``, or the upper one; of X that is not symmetric, the half of X + Xᵀ is taken.

    InvalidValue if a matrix is not positive definite.
    """
    lower = _computed(np.linalg.cholesky, (X + X.swapaxes(-1, -2)) * X.dtype.type(0.5))
    return np.ascontiguousarray(lower.swapaxes(-1, -2)) if upper else lower


# -- systems -------------------------------------------------------------------------------------


def _system_type(X: TensorType, Y: TensorType) -> TensorType:
    solution = _solved_type(X, Y._replace(shape=(*Y.shape, 1)) if len(Y.shape) == 1 else Y)
    return solution if len(Y.shape) > 1 else solution._replace(shape=solution.shape[:-1])


def _system_y_grad(X: Tensor, Y: Tensor, dOut: Tensor) -> Tensor:
    if Y.ndim == 1:
        column = solve(transposed(X), unsqueeze(dOut, axes=[dOut.ndim]))
        return unbroadcast(squeeze(column, axes=[column.ndim - 1]), Y)
    return unbroadcast(solve(transposed(X), dOut), Y)


def _system_x_grad(X: Tensor, Y: Tensor, Out: Tensor, dOut: Tensor) -> Tensor:
    out, d = (unsqueeze(t, axes=[t.ndim]) if Y.ndim == 1 else t for t in (Out, dOut))
    # X A = Y: dX = -S A^T, where S solves X^T S = dA.
    return unbroadcast(-matmul_v2(solve(transposed(X), d), out, trans_y=True), X)


@operator("X Y -> Out", infer=_system_type, grad={"X": _system_x_grad, "Y": _system_y_grad}, shapes="Y", partly_linear="Y")
def solve(X: Array, Y: Array) -> Array:
    """``A`` with ``X A = Y``; a vector Y is one column. InvalidValue if X is singular."""
    array = _computed(np.linalg.solve, X, Y[:, None] if Y.ndim == 1 else Y)
    return array[..., 0] if Y.ndim == 1 else array


def _factor_grad(Y: Tensor, Out: Tensor, dOut: Tensor, *, upper: bool) -> Tensor:
    """With A the product of the factor, the cotangent of A is -S Outᵀ, S solving the same system; A is symmetric in the factor."""
    outer = matmul_v2(cholesky_solve(dOut, Y, upper=upper), Out, trans_y=True)
    symmetric_sum = outer + transposed(outer)
    triangle = tril_triu(Y, lower=not upper)
    grad = matmul_v2(triangle, symmetric_sum) if upper else matmul_v2(symmetric_sum, triangle)
    return unbroadcast(-tril_triu(grad, lower=not upper), Y)


@operator(
    "X Y -> Out",
    infer=lambda X, Y, *, upper=False: _solved_type(Y, X, "Y", "X"),
    grad={"X": lambda X, Y, dOut, *, upper: unbroadcast(cholesky_solve(dOut, Y, upper=upper), X), "Y": _factor_grad},
    shapes="X",
    partly_linear="X",
)
def cholesky_solve(X: Array, Y: Array, *, upper: bool = False) -> Array:
    """The solution of ``A Out = X`` where Y is the Cholesky factor of A: ``Y Yᵀ``, or ``Yᵀ Y`` if ``upper``."""
    # A = L L^T: forward with L, then backward with its transpose.
    first = triangular_solve.kernel(Y, X, upper=upper, transpose=upper)
    return as_array(triangular_solve.kernel(Y, first, upper=upper, transpose=not upper))
