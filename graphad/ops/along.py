"""One element, or a few, of every line along an axis: taken by an index, and put back.

``take_along_axis`` and ``put_along_axis`` (adding into zeros) are each other's transpose.
"""

from __future__ import annotations

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.basic import assign, fill_any_like, fill_zeros_like
from graphad.ops.creation import tril_triu
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.elementwise import as_mask, equal
from graphad.ops.indices import from_either_end
from graphad.ops.inference import matched, normal_axis, same_dtypes
from graphad.ops.reduce import reduce_prod
from graphad.ops.shapes import inverse_order, transpose, unsqueeze
from graphad.types import INTS, Shape, TensorType

_REDUCE = ("assign", "add", "mul", "multiply")


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


def _put(
    Input: TensorType, Index: TensorType, Value: TensorType, *, Axis: int, Reduce: str = "assign", Include_self: bool = True
) -> TensorType:
    _check_lines(Input, Index, Axis)
    if Reduce not in _REDUCE or not Include_self:
        raise ShapeError(
            f"Reduce={Reduce!r}, Include_self={Include_self}: put_along_axis knows {', '.join(_REDUCE)}, including what is there"
        )
    if len(Value.shape) != len(Index.shape) or not all(matched(a, b) for a, b in _pairs(Value, Index)):
        raise ShapeError(f"Index is {Index} but Value is {Value}: there is one value for each index")
    return TensorType(Input.shape, same_dtypes(Input=Input, Value=Value))


def _take_grad(Input: Tensor, Index: Tensor, dResult: Tensor, *, Axis: int) -> Tensor:
    return put_along_axis(fill_zeros_like(Input), Index, dResult, Axis=Axis, Reduce="add")


def _put_into_grad(Index: Tensor, Value: Tensor, dResult: Tensor, *, Axis: int, Reduce: str) -> Tensor:
    if Reduce == "add":
        return assign(dResult)
    if Reduce == "assign":
        return put_along_axis(dResult, Index, fill_zeros_like(take_along_axis(dResult, Index, Axis=Axis)), Axis=Axis)
    return dResult * put_along_axis(fill_any_like(dResult, value=1.0), Index, Value, Axis=Axis, Reduce=Reduce)


def _value_grad(Input: Tensor, Index: Tensor, Value: Tensor, dResult: Tensor, *, Axis: int, Reduce: str) -> Tensor:
    if Reduce == "add":
        return take_along_axis(dResult, Index, Axis=Axis)
    if Reduce == "assign":
        taken = take_along_axis(dResult, Index, Axis=Axis)
        return taken * as_mask(last_of_each(Index, axis=Axis), dResult)
    return take_along_axis(dResult * Input, Index, Axis=Axis) * _others(Index, Value, Axis)


def _others(Index: Tensor, Value: Tensor, Axis: int) -> Tensor:
    """For each value the product of all others of its line with the same index: factors 1 but where two indices are equal."""
    order = [*(i for i in range(Index.ndim) if i != Axis % Index.ndim), Axis % Index.ndim]
    index, value = transpose(Index, axis=order), transpose(Value, axis=order)
    rank = len(order)
    same = as_mask(equal(unsqueeze(index, axes=[rank]), unsqueeze(index, axes=[rank - 1])), Value)
    other = tril_triu(same, diagonal=-1, lower=True) + tril_triu(same, diagonal=1)
    factors = other * (unsqueeze(value, axes=[rank - 1]) - 1.0) + 1.0
    return transpose(reduce_prod(factors, dim=[rank]), axis=inverse_order(order))


def at(index: Array, axis: int) -> tuple[Array, ...]:
    """The index arrays that pick ``index``, which is checked already, along the axis, line by line."""
    grid: list[Array] = list(np.indices(index.shape, sparse=True))
    grid[axis] = index
    return tuple(grid)


@operator("Input Index -> Result", infer=_taken, grad={"Input": _take_grad}, shapes="Input")
def take_along_axis(Input: Array, Index: Array, *, Axis: int) -> Array:
    """``Result[i, j] = Input[i, Index[i, j]]``, for Axis 1 of a matrix."""
    return np.asarray(Input[at(from_either_end("Index", Index, Input.shape[Axis]), Axis)])


@operator("Input Index Value -> Result", infer=_put, grad={"Input": _put_into_grad, "Value": _value_grad})
def put_along_axis(Input: Array, Index: Array, Value: Array, *, Axis: int, Reduce: str = "assign", Include_self: bool = True) -> Array:
    """``Input[i, Index[i, j]] = Value[i, j]``, for Axis 1 of a matrix, or ``+=`` (add), or ``*=`` (mul, multiply).

    Assigning, the last value counts where an index is given twice.
    """
    out, places = Input.copy(), at(from_either_end("Index", Index, Input.shape[Axis]), Axis)
    if Reduce == "assign":
        out[places] = Value
    elif Reduce != "add":
        np.multiply.at(out, places, Value)
    elif Index.shape[Axis] == 1:
        out[places] += Value
    else:
        np.add.at(out, places, Value)
    return out


def _lines(X: TensorType, *, axis: int) -> TensorType:
    normal_axis(axis, len(X.shape))
    return TensorType(X.shape, "bool")


@operator("X -> Out", infer=_lines, grad={})
def last_of_each(X: Array, *, axis: int) -> Array:
    """Whether no element behind it along ``axis`` equals an element."""
    rows = np.moveaxis(X, axis, -1)
    order = np.argsort(rows, -1, kind="stable")
    ordered = np.take_along_axis(rows, order, -1)
    last = np.ones(rows.shape, bool)
    last[..., :-1] = ordered[..., 1:] != ordered[..., :-1]
    out = np.empty(rows.shape, bool)
    np.put_along_axis(out, order, last, -1)
    return np.ascontiguousarray(np.moveaxis(out, -1, axis))


def one_of(shape: Shape, axis: int) -> Shape:
    """The shape with the extent 1 at the axis."""
    place = normal_axis(axis, len(shape))
    return (*shape[:place], 1, *shape[place + 1 :])
