"""One element, or a few, of every line along an axis: taken by an index, and put back.

``take_along_axis`` and ``put_along_axis`` (adding into zeros) are each other's transpose.
"""

from __future__ import annotations

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.basic import assign, fill_zeros_like
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.inference import matched, normal_axis, same_dtypes
from graphad.types import INTS, Shape, TensorType


def _check_lines(Input: TensorType, Index: TensorType, axis: int) -> None:
    """ShapeError unless Index has Input's shape, but for the extent of the axis."""
    if Index.dtype not in INTS or Index.dtype == "bool":
        raise ShapeError(f"Index is {Index}; integers are expected")
    at = normal_axis(axis, len(Input.shape), "Axis")
    if len(Index.shape) != len(Input.shape) or any(not matched(a, b) for i, (a, b) in enumerate(_pairs(Input, Index)) if i != at):
        raise ShapeError(f"Input is {Input} but Index is {Index}: they may differ along Axis={axis} only")


def _pairs(a: TensorType, b: TensorType) -> list[tuple[int, int]]:
    return list(zip(a.shape, b.shape, strict=True))


def _taken(Input: TensorType, Index: TensorType, *, Axis: int) -> TensorType:
    _check_lines(Input, Index, Axis)
    return TensorType(Index.shape, Input.dtype)


def _put(Input: TensorType, Index: TensorType, Value: TensorType, *, Axis: int, Reduce: str = "assign") -> TensorType:
    _check_lines(Input, Index, Axis)
    if Reduce not in ("assign", "add"):
        raise ShapeError(f"Reduce={Reduce!r} is not 'assign' or 'add'")
    if len(Value.shape) != len(Index.shape) or not all(matched(a, b) for a, b in _pairs(Value, Index)):
        raise ShapeError(f"Index is {Index} but Value is {Value}: there is one value for each index")
    return TensorType(Input.shape, same_dtypes(Input=Input, Value=Value))


def _take_grad(Input: Tensor, Index: Tensor, dResult: Tensor, *, Axis: int) -> Tensor:
    return put_along_axis(fill_zeros_like(Input), Index, dResult, Axis=Axis, Reduce="add")


def _put_into_grad(Index: Tensor, dResult: Tensor, *, Axis: int, Reduce: str) -> Tensor:
    if Reduce == "add":
        return assign(dResult)
    return put_along_axis(dResult, Index, fill_zeros_like(take_along_axis(dResult, Index, Axis=Axis)), Axis=Axis)


def at(index: Array, axis: int) -> tuple[Array, ...]:
    """The index arrays that pick ``index`` along the axis, line by line."""
    grid: list[Array] = list(np.indices(index.shape, sparse=True))
    grid[axis] = index
    return tuple(grid)


@operator("Input Index -> Result", infer=_taken, grad={"Input": _take_grad}, shapes="Input")
def take_along_axis(Input: Array, Index: Array, *, Axis: int) -> Array:
    """``Result[i, j] = Input[i, Index[i, j]]``, for Axis 1 of a matrix."""
    return np.asarray(Input[at(Index, Axis)])


@operator(
    "Input Index Value -> Result",
    infer=_put,
    grad={"Input": _put_into_grad, "Value": lambda Index, dResult, *, Axis: take_along_axis(dResult, Index, Axis=Axis)},
)
def put_along_axis(Input: Array, Index: Array, Value: Array, *, Axis: int, Reduce: str = "assign") -> Array:
    """``Input[i, Index[i, j]] = Value[i, j]``, for Axis 1 of a matrix, or ``+=``. Assigning, an index is given once only."""
    out = Input.copy()
    if Reduce == "assign":
        out[at(Index, Axis)] = Value
    elif Index.shape[Axis] == 1:
        out[at(Index, Axis)] += Value
    else:
        np.add.at(out, at(Index, Axis), Value)
    return out


def one_of(shape: Shape, axis: int) -> Shape:
    """The shape with the extent 1 at the axis."""
    place = normal_axis(axis, len(shape))
    return (*shape[:place], 1, *shape[place + 1 :])
