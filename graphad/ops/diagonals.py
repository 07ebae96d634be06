"""Diagonals of matrices: taken out, put in, and summed; and the products of vectors and blocks that go with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.basic import expand_like, reshape_like, sum_like
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.inference import matched, normal_axis, same_dtypes
from graphad.ops.linalg import matmul_v2
from graphad.ops.shapes import unsqueeze
from graphad.types import Shape, TensorType

# -- out of matrices, and into them --------------------------------------------------------------


def _two_axes(rank: int, axis1: int, axis2: int) -> tuple[int, int]:
    a, b = normal_axis(axis1, rank, "axis1"), normal_axis(axis2, rank, "axis2")
    if a == b:
        raise ShapeError(f"axis1={axis1} and axis2={axis2} are one axis of a tensor of {rank} axes")
    return a, b


def _length(rows: int, columns: int, offset: int) -> int:
    if -1 in (rows, columns):
        return -1
    return max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))


def _diagonal_shape(shape: Shape, offset: int, axis1: int, axis2: int) -> Shape:
    a, b = _two_axes(len(shape), axis1, axis2)
    return (*(e for i, e in enumerate(shape) if i not in (a, b)), _length(shape[a], shape[b], offset))


def _diagonal_type(Input: TensorType, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TensorType:
    return TensorType(_diagonal_shape(Input.shape, offset, axis1, axis2), Input.dtype)


def _diagonal_grad(Input: Tensor, dOut: Tensor, *, offset: int, axis1: int, axis2: int) -> Tensor:
    return undiagonal(dOut, Input, offset=offset, axis1=axis1, axis2=axis2)


@operator("Input -> Out", infer=_diagonal_type, grad={"Input": _diagonal_grad}, shapes="Input", linear="Input")
def diagonal(Input: Array, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonals of the matrices that two axes make, as the last axis; ``offset`` counts columns to the right."""
    return np.array(np.diagonal(Input, offset, axis1, axis2))


def _undiagonal_type(X: TensorType, Like: TensorType, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TensorType:
    expected = _diagonal_shape(Like.shape, offset, axis1, axis2)
    if len(expected) != len(X.shape) or not all(map(matched, expected, X.shape)):
        raise ShapeError(f"X is {X}: it is not a diagonal of Like, which is {Like} (offset={offset}, axis1={axis1}, axis2={axis2})")
    return TensorType(Like.shape, X.dtype)


def _undiagonal_grad(dOut: Tensor, *, offset: int, axis1: int, axis2: int) -> Tensor:
    return diagonal(dOut, offset=offset, axis1=axis1, axis2=axis2)


@operator("X Like -> Out", infer=_undiagonal_type, grad={"X": _undiagonal_grad}, linear="X")
def undiagonal(X: Array, Like: Array, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Zeros in the shape of Like with X on a diagonal: the transpose of ``diagonal``."""
    out = np.zeros(Like.shape, X.dtype)
    view = np.moveaxis(out, _two_axes(out.ndim, axis1, axis2), (-2, -1))
    at = np.arange(X.shape[-1])
    view[..., at + max(-offset, 0), at + max(offset, 0)] = X
    return out


def _embedded_type(Input: TensorType, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> TensorType:
    if not Input.shape:
        raise ShapeError(f"Input is {Input}; at least one axis is expected")
    extent = -1 if Input.shape[-1] == -1 else Input.shape[-1] + abs(offset)
    shape = list(Input.shape[:-1])
    for axis in sorted(_two_axes(len(shape) + 2, dim1, dim2)):
        shape.insert(axis, extent)
    return TensorType(tuple(shape), Input.dtype)


def _embed_grad(dOut: Tensor, *, offset: int, dim1: int, dim2: int) -> Tensor:
    return diagonal(dOut, offset=offset, axis1=dim1, axis2=dim2)


@operator("Input -> Out", infer=_embedded_type, grad={"Input": _embed_grad}, linear="Input")
def diag_embed(Input: Array, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Square matrices with the last axis of Input on a diagonal, along two new axes."""
    shape = _embedded_type(TensorType(Input.shape, Input.dtype.name), offset=offset, dim1=dim1, dim2=dim2).shape
    filled: Array = undiagonal.kernel(Input, np.broadcast_to(Input.dtype.type(0), shape), offset=offset, axis1=dim1, axis2=dim2)
    return filled


def _diag_type(X: TensorType, *, offset: int = 0, padding_value: float = 0.0) -> TensorType:
    if len(X.shape) not in (1, 2):
        raise ShapeError(f"X is {X}; a vector or a matrix is expected")
    return _embedded_type(X, offset=offset) if len(X.shape) == 1 else _diagonal_type(X, offset=offset)


def _diag_grad(X: Tensor, dOut: Tensor, *, offset: int) -> Tensor:
    return diagonal(dOut, offset=offset) if X.ndim == 1 else undiagonal(dOut, X, offset=offset)


@operator("X -> Out", infer=_diag_type, grad={"X": _diag_grad}, shapes="X", linear="X", offset="padding_value")
def diag_v2(X: Array, *, offset: int = 0, padding_value: float = 0.0) -> Array:
    """The diagonal of a matrix, or the matrix with a vector on its diagonal and ``padding_value`` elsewhere."""
    if X.ndim == 2:
        return np.array(np.diagonal(X, offset))
    out = np.full((len(X) + abs(offset),) * 2, padding_value, X.dtype)
    at = np.arange(len(X))
    out[at + max(-offset, 0), at + max(offset, 0)] = X
    return out


def _old_diag_type(Diagonal: TensorType) -> TensorType:
    if len(Diagonal.shape) != 1:
        raise ShapeError(f"Diagonal is {Diagonal}; a vector is expected")
    return _embedded_type(Diagonal)


@operator("Diagonal -> Out", infer=_old_diag_type, grad={"Diagonal": lambda dOut: diagonal(dOut)}, linear="Diagonal")
def diag(Diagonal: Array) -> Array:
    """The matrix with a vector on its diagonal."""
    return np.diag(Diagonal)


# -- sums and products ---------------------------------------------------------------------------


def _trace_type(Input: TensorType, **attrs: Any) -> TensorType:
    return TensorType(_diagonal_type(Input, **attrs).shape[:-1], Input.dtype)


def _trace_grad(Input: Tensor, dOut: Tensor, *, offset: int, axis1: int, axis2: int) -> Tensor:
    place = {"offset": offset, "axis1": axis1, "axis2": axis2}
    return undiagonal(expand_like(unsqueeze(dOut, axes=[dOut.ndim]), diagonal(Input, **place)), Input, **place)


@operator("Input -> Out", infer=_trace_type, grad={"Input": _trace_grad}, shapes="Input", linear="Input")
def trace(Input: Array, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The sums of diagonals."""
    return np.asarray(np.add.reduce(np.diagonal(Input, offset, axis1, axis2), axis=-1, dtype=Input.dtype))


def _kron_type(X: TensorType, Y: TensorType) -> TensorType:
    rank = max(len(X.shape), len(Y.shape))
    x, y = ((1,) * (rank - len(t.shape)) + t.shape for t in (X, Y))
    return TensorType(tuple(-1 if -1 in (a, b) else a * b for a, b in zip(x, y, strict=True)), same_dtypes(X=X, Y=Y))


def _interleaved(X: Tensor, Y: Tensor) -> tuple[Tensor, Tensor]:
    """X and Y with axes of one element, so that their plain product is the blocks of the Kronecker product."""
    rank = max(X.ndim, Y.ndim)
    x = unsqueeze(X, axes=[0] * (rank - X.ndim)) if X.ndim < rank else X
    y = unsqueeze(Y, axes=[0] * (rank - Y.ndim)) if Y.ndim < rank else Y
    return (unsqueeze(x, axes=list(range(1, 2 * rank, 2))), unsqueeze(y, axes=list(range(0, 2 * rank, 2)))) if rank else (x, y)


def _kron_x_grad(X: Tensor, Y: Tensor, dOut: Tensor) -> Tensor:
    x, y = _interleaved(X, Y)
    return reshape_like(sum_like(reshape_like(dOut, x * y) * y, x), X)


def _kron_y_grad(X: Tensor, Y: Tensor, dOut: Tensor) -> Tensor:
    x, y = _interleaved(X, Y)
    return reshape_like(sum_like(reshape_like(dOut, x * y) * x, y), Y)


@operator("X Y -> Out", infer=_kron_type, grad={"X": _kron_x_grad, "Y": _kron_y_grad}, bilinear="X Y")
def kron(X: Array, Y: Array) -> Array:
    """The Kronecker product: Y times each element of X, block by block."""
    return np.asarray(np.kron(X, Y))


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
)
def mv(X: Array, Vec: Array) -> Array:
    """The product of a matrix and a vector."""
    return np.asarray(X @ Vec)
