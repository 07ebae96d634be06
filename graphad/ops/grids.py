"""Constants in the shape of a batch, numbers at equal distances, and grids."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.basic import fill_any_like, fill_zeros_like, in_dtype_of, reshape_like
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.inference import check_index, matched, normal_axis, same_dtypes
from graphad.ops.reduce import reduce_sum
from graphad.types import TensorType, checked_shape, element_count

DType = str

# -- a batch -------------------------------------------------------------------------------------


def _batch_type(
    Input: TensorType, *, shape: list[int], input_dim_idx: int = 0, output_dim_idx: int = 0, dtype: DType = "float32", **_: Any
) -> TensorType:
    extents = list(checked_shape(shape))
    place = normal_axis(output_dim_idx, len(extents), "output_dim_idx")
    extents[place] = Input.shape[normal_axis(input_dim_idx, len(Input.shape), "input_dim_idx")] if Input.shape else 1
    if -1 in extents[:place] + extents[place + 1 :]:
        raise ShapeError(f"shape={shape} may leave out the extent at output_dim_idx={output_dim_idx} only")
    return TensorType(tuple(extents), dtype)


@operator("Input -> Out", infer=_batch_type, grad={}, of_shape=True)
def fill_constant_batch_size_like(
    Input: Array, *, shape: list[int], value: float = 0.0, input_dim_idx: int = 0, output_dim_idx: int = 0, dtype: DType = "float32"
) -> Array:
    """A tensor of one value, of the extents ``shape`` with that of Input at ``input_dim_idx`` in the place ``output_dim_idx``."""
    like = TensorType(Input.shape, Input.dtype.name)
    return np.full(_batch_type(like, shape=shape, input_dim_idx=input_dim_idx, output_dim_idx=output_dim_idx).shape, value, dtype)


# -- equal distances -----------------------------------------------------------------------------


def _spaced_type(Start: TensorType, Stop: TensorType, Num: TensorType, *, dtype: DType = "float32") -> TensorType:
    check_index("Num", Num)
    for name, t in (("Start", Start), ("Stop", Stop), ("Num", Num)):
        if not matched(element_count(t.shape), 1):
            raise ShapeError(f"{name} is {t}; one element is expected")
    same_dtypes(Start=Start, Stop=Stop)
    return TensorType((-1,), dtype)


def _shares(Start: Tensor, Num: Tensor, dtype: str) -> Tensor:
    return linspace(fill_zeros_like(Start), fill_any_like(Start, value=1.0), Num, dtype=dtype)


def _summed_like(cotangent: Tensor, like: Tensor) -> Tensor:
    return in_dtype_of(reshape_like(reduce_sum(cotangent, reduce_all=True), like), like)


def _start_grad(Start: Tensor, Num: Tensor, dOut: Tensor, *, dtype: str) -> Tensor:
    return _summed_like(dOut * (1.0 - _shares(Start, Num, dtype)), Start)


def _stop_grad(Stop: Tensor, Num: Tensor, dOut: Tensor, *, dtype: str) -> Tensor:
    return _summed_like(dOut * _shares(Stop, Num, dtype), Stop)


@operator(
    "Start Stop Num -> Out",
    infer=_spaced_type,
    grad={"Start": _start_grad, "Stop": _stop_grad},
    shapes="Start:Start Stop:Stop",
    linear="Start Stop",
)
def linspace(Start: Array, Stop: Array, Num: Array, *, dtype: DType = "float32") -> Array:
    """Num numbers from Start to Stop, both included, at equal distances; whole numbers are cut. InvalidValue for Num below 1."""
    if Num.item() < 1:
        raise InvalidValue(f"Num is {Num.item()}; at least one number is expected")
    return np.asarray(np.linspace(Start.item(), Stop.item(), Num.item())).astype(dtype)


# -- grids ---------------------------------------------------------------------------------------


def _grid_types(X: list[TensorType]) -> list[TensorType]:
    dtype = same_dtypes(**{f"X[{i}]": x for i, x in enumerate(X)})
    for i, x in enumerate(X):
        if len(x.shape) > 1:
            raise ShapeError(f"X[{i}] is {x}; a vector is expected")
    return [TensorType(tuple(element_count(x.shape) for x in X), dtype)] * len(X)


def _grid_grad(X: list[Tensor], dOut: list[Tensor]) -> list[Tensor]:
    return [reshape_like(reduce_sum(d, dim=[k for k in range(len(X)) if k != i]) if len(X) > 1 else d, X[i]) for i, d in enumerate(dOut)]


@operator("X* -> Out*", infer=_grid_types, grad={"X": _grid_grad}, shapes="X", linear="X")
def meshgrid(X: list[Array]) -> list[Array]:
    """For every vector a tensor that varies along the axis of its number, as that vector does."""
    return [np.array(each) for each in np.meshgrid(*(x.reshape(-1) for x in X), indexing="ij")]
