"""Tensors made of numbers: constants, ones like another, copies, ranges, grids, one-hot codes, triangles."""

from __future__ import annotations

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.attributes import Types, given, hinted, numbers
from graphad.ops.casting import in_dtype_of
from graphad.ops.definition import NO_INTS, DType, operator
from graphad.ops.dimensions import filled, one_hot_encoded
from graphad.ops.indices import from_front
from graphad.ops.inference import check_index, matched, normal_axis, same_dtypes
from graphad.ops.like import fill_any_like, fill_zeros_like, reshape_like, sum_like
from graphad.ops.reduction import reduce_sum
from graphad.types import Array, Tensor, TensorType, checked_shape, element_count

# -- constants -----------------------------------------------------------------------------------


def _filled(
    ValueTensor: TensorType | None = None,
    ShapeTensor: TensorType | None = None,
    ShapeTensorList: Types | None = None,
    *,
    shape: list[int] | None = None,
    value: float = 0.0,
    dtype: DType = "float32",
) -> TensorType:
    if ValueTensor is not None and (len(ValueTensor.shape) > 1 or not matched(element_count(ValueTensor.shape), 1)):
        raise ShapeError(f"ValueTensor is {ValueTensor}; one element is expected")
    if ValueTensor is not None and ValueTensor.dtype != dtype:
        raise ShapeError(f"ValueTensor is {ValueTensor}, but dtype={dtype!r} is requested")
    slot = "ShapeTensorList" if ShapeTensorList else "ShapeTensor"
    extents = given("shape", shape, ShapeTensor, ShapeTensorList)
    return TensorType(checked_shape(hinted(slot, extents, ShapeTensor, ShapeTensorList)), dtype)


@operator(
    "ValueTensor? ShapeTensor? ShapeTensorList*? -> Out",
    infer=_filled,
    grad={"ValueTensor": lambda ValueTensor, dOut: sum_like(dOut, ValueTensor) if dOut.ndim else reshape_like(dOut, ValueTensor)},
    shapes="ValueTensor",
    speculatable="extents",
    extents="ShapeTensor ShapeTensorList",
    linear="ValueTensor",
    fills="value",
    flops=0,
)
def fill_constant(
    ValueTensor: Array | None = None,
    ShapeTensor: Array | None = None,
    ShapeTensorList: list[Array] | None = None,
    *,
    shape: list[int] = NO_INTS,
    value: float = 0.0,
    dtype: DType = "float32",
) -> Array:
    """A tensor of one value: ``value``, or that in ValueTensor. Tensors may say the extents in place of ``shape``."""
    extents = numbers(shape, ShapeTensor, ShapeTensorList)
    if any(e < 0 for e in extents):
        raise InvalidValue(f"a tensor of the shape {list(extents)} cannot be filled: an extent is negative")
    return np.full(tuple(extents), value if ValueTensor is None else ValueTensor.reshape(()), dtype)


# -- creation --------------------------------------------------------------------------------------
# Tensors made from attributes and ids: constants given by value, ranges, one-hot codes, triangles.

NO_FLOATS: list[float] = []

# -- one-hot codes -------------------------------------------------------------------------------


def _hot_type(X: TensorType, *, depth: int, dtype: DType = "float32", allow_out_of_range: bool = False) -> TensorType:
    check_index("X", X)
    return TensorType((*X.shape, depth), dtype)


@operator("X -> Out", infer=_hot_type, grad={}, rows="X", flops=0, dimensions=one_hot_encoded)
def one_hot_v2(X: Array, *, depth: int, dtype: DType = "float32", allow_out_of_range: bool = False) -> Array:
    """One at each id along a new last axis; InvalidValue for an id outside ``depth`` unless that is allowed (then zeros)."""
    if not allow_out_of_range:
        from_front("X", X, depth)
    return np.asarray(X[..., None] == np.arange(depth), dtype)


def _column_hot_type(X: TensorType, *, depth: int, dtype: DType = "float32", allow_out_of_range: bool = False) -> TensorType:
    if not X.shape or not matched(X.shape[-1], 1):
        raise ShapeError(f"X is {X}; its last extent must be 1")
    return _hot_type(TensorType(X.shape[:-1], X.dtype), depth=depth, dtype=dtype)


@operator("X -> Out", infer=_column_hot_type, grad={}, rows="X", flops=0, dimensions=one_hot_encoded)
def one_hot(X: Array, *, depth: int, dtype: DType = "float32", allow_out_of_range: bool = False) -> Array:
    """Like ``one_hot_v2`` for ids whose last extent is 1, which the depth replaces."""
    out: Array = one_hot_v2.kernel(X[..., 0], depth=depth, dtype=dtype, allow_out_of_range=allow_out_of_range)
    return out


# -- constants -----------------------------------------------------------------------------------


@operator("-> Out", infer=lambda *, shape, dtype, **_: TensorType(checked_shape(shape), dtype), grad={}, flops=0)
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
    # The list that is not empty says the values; Paddle stores a list for each kind of dtype.
    values_ = next((v for v in (bool_values, fp32_values, fp64_values, int32_values, int64_values, values) if len(v)), NO_FLOATS)
    if len(values_) != element_count(shape):
        raise InvalidValue(f"{len(values_)} values do not fill the shape {shape}")
    return np.array(values_, dtype).reshape(shape)


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
    # As numpy counts: ceil((End - Start) / Step), so rounding decides whether a last number just below End is there.
    return np.arange(Start.item(), End.item(), Step.item(), dtype=Start.dtype)


# -- triangles -----------------------------------------------------------------------------------


def _triangle_type(X: TensorType, **_: object) -> TensorType:
    if len(X.shape) < 2:
        raise ShapeError(f"X is {X}; at least two axes are expected")
    return X


@operator(
    "X -> Out",
    infer=_triangle_type,
    grad={"X": lambda dOut, *, diagonal, lower: tril_triu(dOut, diagonal=diagonal, lower=lower)},
    speculatable="extents",
    linear="X",
    flops=0,
)
def tril_triu(X: Array, *, diagonal: int = 0, lower: bool = False) -> Array:
    """The part of each matrix on and below (``lower``) or above a diagonal, zeros elsewhere."""
    # A choice of elements and no product with a mask: 0 * inf would be nan.
    return np.tril(X, diagonal) if lower else np.triu(X, diagonal)


@operator(
    "-> Out",
    infer=lambda *, shape=None, dtype="float32": TensorType(tuple(shape or ()), dtype),
    grad={},
    partial=True,
    flops=0,
    dimensions=filled,
)
def undefined(*, shape: list[int] | None = None, dtype: DType = "float32") -> None:
    """No value: what a branch that does not write a variable leaves of one that had none."""
    return None


# -- grids -----------------------------------------------------------------------------------------
# Constants in the shape of a batch, numbers at equal distances, and grids.

# -- a batch -------------------------------------------------------------------------------------


def batch_type(
    Input: TensorType, *, shape: list[int], input_dim_idx: int = 0, output_dim_idx: int = 0, dtype: DType = "float32", **_: object
) -> TensorType:
    """The type of a tensor whose extent at ``output_dim_idx`` is that of Input at ``input_dim_idx``."""
    extents = list(checked_shape(shape))
    place = normal_axis(output_dim_idx, len(extents), "output_dim_idx")
    extents[place] = Input.shape[normal_axis(input_dim_idx, len(Input.shape), "input_dim_idx")] if Input.shape else 1
    # The extent that the batch gives may be open, no other.
    if -1 in extents[:place] + extents[place + 1 :]:
        raise ShapeError(f"shape={shape} may leave out the extent at output_dim_idx={output_dim_idx} only")
    return TensorType(tuple(extents), dtype)


@operator("Input -> Out", infer=batch_type, grad={}, of_shape=True, flops=0)
def fill_constant_batch_size_like(
    Input: Array, *, shape: list[int], value: float = 0.0, input_dim_idx: int = 0, output_dim_idx: int = 0, dtype: DType = "float32"
) -> Array:
    """A tensor of one value, of the extents ``shape`` with that of Input at ``input_dim_idx`` in the place ``output_dim_idx``."""
    like = TensorType(Input.shape, Input.dtype.name)
    return np.full(batch_type(like, shape=shape, input_dim_idx=input_dim_idx, output_dim_idx=output_dim_idx).shape, value, dtype)


# -- equal distances -----------------------------------------------------------------------------


def _spaced_type(Start: TensorType, Stop: TensorType, Num: TensorType, *, dtype: DType = "float32") -> TensorType:
    check_index("Num", Num)
    for name, t in (("Start", Start), ("Stop", Stop), ("Num", Num)):
        if not matched(element_count(t.shape), 1):
            raise ShapeError(f"{name} is {t}; one element is expected")
    same_dtypes(Start=Start, Stop=Stop)
    return TensorType((-1,), dtype)


# The share of Stop in each number: 0 at the first, 1 at the last.
def _shares(Start: Tensor, Num: Tensor, dtype: str) -> Tensor:
    return linspace(fill_zeros_like(Start), fill_any_like(Start, value=1.0), Num, dtype=dtype)


def _summed_like(cotangent: Tensor, like: Tensor) -> Tensor:
    return in_dtype_of(reshape_like(reduce_sum(cotangent, reduce_all=True), like), like)


@operator(
    "Start Stop Num -> Out",
    infer=_spaced_type,
    grad={
        "Start": lambda Start, Num, dOut, *, dtype: _summed_like(dOut * (1.0 - _shares(Start, Num, dtype)), Start),
        "Stop": lambda Stop, Num, dOut, *, dtype: _summed_like(dOut * _shares(Stop, Num, dtype), Stop),
    },
    shapes="Start:Start Stop:Stop",
    linear="Start Stop",
)
def linspace(Start: Array, Stop: Array, Num: Array, *, dtype: DType = "float32") -> Array:
    """Num numbers from Start to Stop, both included, at equal distances; whole numbers are cut. InvalidValue for Num below 1."""
    if Num.item() < 1:
        raise InvalidValue(f"Num is {Num.item()}; at least one number is expected")
    # In double precision and rounded once, so that the last number is Stop itself.
    return np.asarray(np.linspace(Start.item(), Stop.item(), Num.item())).astype(dtype)


# -- grids ---------------------------------------------------------------------------------------


def _grid_types(X: list[TensorType]) -> list[TensorType]:
    dtype = same_dtypes(**{f"X[{i}]": x for i, x in enumerate(X)})
    for i, x in enumerate(X):
        if len(x.shape) > 1:
            raise ShapeError(f"X[{i}] is {x}; a vector is expected")
    return [TensorType(tuple(element_count(x.shape) for x in X), dtype)] * len(X)


def _grid_grad(X: list[Tensor], dOut: list[Tensor]) -> list[Tensor]:
    # Grid i varies along axis i alone, so the cotangents along all others add up.
    return [reshape_like(reduce_sum(d, dim=[k for k in range(len(X)) if k != i]) if len(X) > 1 else d, X[i]) for i, d in enumerate(dOut)]


@operator("X* -> Out*", infer=_grid_types, grad={"X": _grid_grad}, shapes="X", linear="X", flops=0)
def meshgrid(X: list[Array]) -> list[Array]:
    """The coordinate grids of vectors: a tensor for each, which varies along the axis of its number as the vector does."""
    return [np.array(array) for array in np.meshgrid(*(x.reshape(-1) for x in X), indexing="ij")]
