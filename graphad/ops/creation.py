"""Tensors made from attributes and ids: constants given by value, ranges, one-hot codes, triangles."""

from __future__ import annotations

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.indices import from_front
from graphad.ops.inference import check_index, matched, same_dtypes
from graphad.types import TensorType, checked_shape, element_count

DType = str

NO_INTS: list[int] = []
NO_FLOATS: list[float] = []

# -- one-hot codes -------------------------------------------------------------------------------


def _hot_type(X: TensorType, *, depth: int, dtype: DType = "float32", allow_out_of_range: bool = False) -> TensorType:
    check_index("X", X)
    return TensorType((*X.shape, depth), dtype)


@operator("X -> Out", infer=_hot_type, grad={}, rows="X", flops=0)
def one_hot_v2(X: Array, *, depth: int, dtype: DType = "float32", allow_out_of_range: bool = False) -> Array:
    """One at each id along a new last axis; InvalidValue for an id outside ``depth`` unless that is allowed (then zeros)."""
    if not allow_out_of_range:
        from_front("X", X, depth)
    return np.asarray(X[..., None] == np.arange(depth), dtype)


def _column_hot_type(X: TensorType, *, depth: int, dtype: DType = "float32", allow_out_of_range: bool = False) -> TensorType:
    if not X.shape or not matched(X.shape[-1], 1):
        raise ShapeError(f"X is {X}; its last extent must be 1")
    return _hot_type(TensorType(X.shape[:-1], X.dtype), depth=depth, dtype=dtype)


@operator("X -> Out", infer=_column_hot_type, grad={}, rows="X", flops=0)
def one_hot(X: Array, *, depth: int, dtype: DType = "float32", allow_out_of_range: bool = False) -> Array:
    """Like ``one_hot_v2`` for ids whose last extent is 1, which the depth replaces."""
    coded: Array = one_hot_v2.kernel(X[..., 0], depth=depth, dtype=dtype, allow_out_of_range=allow_out_of_range)
    return coded


# -- constants -----------------------------------------------------------------------------------


def _valued(*, shape: list[int], dtype: DType, **_: object) -> TensorType:
    return TensorType(checked_shape(shape), dtype)


@operator("-> Out", infer=_valued, grad={}, flops=0)
def assign_value(
    *,
    shape: list[int],
    dtype: DType,
    bool_values: list[int] = NO_INTS,
    fp32_values: list[float] = NO_FLOATS,
    fp64_values: list[float] = NO_FLOATS,
    int32_values: list[int] = NO_INTS,
    int64_values: list[int] = NO_INTS,
    values: list[float] = NO_FLOATS,
) -> Array:
    """A constant given element by element, in whichever list is not empty; InvalidValue if the count does not fit the shape."""
    given = next((v for v in (bool_values, fp32_values, fp64_values, int32_values, int64_values, values) if len(v)), NO_FLOATS)
    if len(given) != element_count(shape):
        raise InvalidValue(f"{len(given)} values do not fill the shape {shape}")
    return np.array(given, dtype).reshape(shape)


def _eye_type(*, num_rows: int, num_columns: int = -1, dtype: DType = "float32") -> TensorType:
    return TensorType(checked_shape((num_rows, num_rows if num_columns == -1 else num_columns)), dtype)


@operator("-> Out", infer=_eye_type, grad={}, speculatable="extents", flops=0)
def eye(*, num_rows: int, num_columns: int = -1, dtype: DType = "float32") -> Array:
    """Ones on the diagonal, zeros elsewhere; a square where ``num_columns`` is -1."""
    return np.eye(num_rows, num_rows if num_columns == -1 else num_columns, dtype=dtype)


def _range_type(Start: TensorType, End: TensorType, Step: TensorType) -> TensorType:
    for name, t in (("Start", Start), ("End", End), ("Step", Step)):
        if not matched(element_count(t.shape), 1):
            raise ShapeError(f"{name} is {t}; one element is expected")
    return TensorType((-1,), same_dtypes(Start=Start, End=End, Step=Step))


@operator("Start End Step -> Out", name="range", infer=_range_type, grad={}, flops=0)
def range_(Start: Array, End: Array, Step: Array) -> Array:
    """The numbers from Start up to End (left out) in steps of Step."""
    return np.arange(Start.item(), End.item(), Step.item(), dtype=Start.dtype)


# -- triangles -----------------------------------------------------------------------------------


def _triangle_type(X: TensorType, **_: object) -> TensorType:
    if len(X.shape) < 2:
        raise ShapeError(f"X is {X}; at least two axes are expected")
    return X


def _triangle_grad(dOut: Tensor, *, diagonal: int, lower: bool) -> Tensor:
    return tril_triu(dOut, diagonal=diagonal, lower=lower)


@operator("X -> Out", infer=_triangle_type, grad={"X": _triangle_grad}, speculatable="extents", linear="X", flops=0)
def tril_triu(X: Array, *, diagonal: int = 0, lower: bool = False) -> Array:
    """The part of each matrix on and below (``lower``) or above a diagonal, zeros elsewhere."""
    return np.tril(X, diagonal) if lower else np.triu(X, diagonal)
