"""One element, or a few, of every line along an axis: taken by an index, and put back.

``take_along_axis`` and ``put_along_axis`` (adding into zeros) are each other's transpose.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.basic import assign, fill_any_like, fill_zeros_like
from graphad.ops.creation import tril_triu
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.elementwise import as_mask, equal
from graphad.ops.indices import from_either_end, refuse
from graphad.ops.inference import matched, normal_axis, same_dtypes
from graphad.ops.reduce import reduce_prod
from graphad.ops.shapes import inverse_order, transpose, unsqueeze
from graphad.types import INTS, Shape, TensorType

_PRODUCTS, _EXTREMES = ("mul", "multiply"), ("amin", "amax")
_REDUCE = ("assign", "add", *_PRODUCTS, "mean", *_EXTREMES)


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
    if Reduce not in _REDUCE:
        raise ShapeError(f"Reduce={Reduce!r} is not one of {', '.join(_REDUCE)}")
    if len(Value.shape) != len(Index.shape) or not all(matched(a, b) for a, b in _pairs(Value, Index)):
        raise ShapeError(f"Index is {Index} but Value is {Value}: there is one value for each index")
    return TensorType(Input.shape, same_dtypes(Input=Input, Value=Value))


def _take_grad(Input: Tensor, Index: Tensor, dResult: Tensor, *, Axis: int) -> Tensor:
    return put_along_axis(fill_zeros_like(Input), Index, dResult, Axis=Axis, Reduce="add")


def _put_into_grad(Input: Tensor, Index: Tensor, Value: Tensor, dResult: Tensor, *, Axis: int, Reduce: str, Include_self: bool) -> Tensor:
    if Reduce == "assign" or (not Include_self and Reduce != "mean" and Reduce not in _EXTREMES):
        return put_along_axis(dResult, Index, fill_zeros_like(take_along_axis(dResult, Index, Axis=Axis)), Axis=Axis)
    if Reduce == "add":
        return assign(dResult)
    if Reduce in _PRODUCTS:
        return dResult * put_along_axis(fill_any_like(dResult, value=1.0), Index, Value, Axis=Axis, Reduce=Reduce)
    if Reduce == "mean":
        hits = _hits(dResult, Index, Axis)
        return dResult / (hits + 1.0) if Include_self else dResult * as_mask(hits == 0.0, dResult)
    share, of_input, _ = _shares(Input, Index, Value, dResult, Axis, Reduce, Include_self)
    return share * of_input


def _value_grad(Input: Tensor, Index: Tensor, Value: Tensor, dResult: Tensor, *, Axis: int, Reduce: str, Include_self: bool) -> Tensor:
    if Reduce == "add":
        return take_along_axis(dResult, Index, Axis=Axis)
    if Reduce == "assign":
        taken = take_along_axis(dResult, Index, Axis=Axis)
        return taken * as_mask(last_of_each(Index, axis=Axis), dResult)
    if Reduce == "mean":
        hits = _hits(dResult, Index, Axis)
        return take_along_axis(dResult / (hits + 1.0 if Include_self else hits + as_mask(hits == 0.0, hits)), Index, Axis=Axis)
    if Reduce in _PRODUCTS:
        return take_along_axis(dResult * Input if Include_self else dResult, Index, Axis=Axis) * _others(Index, Value, Axis)
    share, _, of_value = _shares(Input, Index, Value, dResult, Axis, Reduce, Include_self)
    return take_along_axis(share, Index, Axis=Axis) * of_value


def _hits(like: Tensor, Index: Tensor, Axis: int) -> Tensor:
    """How many values are put at each place."""
    ones = fill_any_like(take_along_axis(like, Index, Axis=Axis), value=1.0)
    return put_along_axis(fill_zeros_like(like), Index, ones, Axis=Axis, Reduce="add")


def _shares(
    Input: Tensor, Index: Tensor, Value: Tensor, dResult: Tensor, Axis: int, Reduce: str, Include_self: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The cotangent of an extremum divided among all that attain it, as in Paddle; masks of the inputs and of the values that do."""
    result = put_along_axis(Input, Index, Value, Axis=Axis, Reduce=Reduce, Include_self=Include_self)
    of_input = as_mask(equal(Input, result), dResult)
    if not Include_self:
        of_input = of_input * as_mask(_hits(dResult, Index, Axis) == 0.0, dResult)
    of_value = as_mask(equal(Value, take_along_axis(result, Index, Axis=Axis)), dResult)
    count = put_along_axis(of_input, Index, of_value, Axis=Axis, Reduce="add")
    return dResult / (count + as_mask(count == 0.0, count)), of_input, of_value


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
    """The index arrays that pick ``index`` along the axis, line by line."""
    grid: list[Array] = list(np.indices(index.shape, sparse=True))
    grid[axis] = index
    return tuple(grid)


@operator("Input Index -> Result", infer=_taken, grad={"Input": _take_grad}, shapes="Input", linear="Input", flops=0)
def take_along_axis(Input: Array, Index: Array, *, Axis: int) -> Array:
    """``Result[i, j] = Input[i, Index[i, j]]``, for Axis 1 of a matrix."""
    try:
        return np.asarray(Input[at(Index, Axis)])
    except IndexError:
        refuse("Index", Index, -Input.shape[Axis], Input.shape[Axis])


@operator("Input Index Value -> Result", infer=_put, grad={"Input": _put_into_grad, "Value": _value_grad})
def put_along_axis(Input: Array, Index: Array, Value: Array, *, Axis: int, Reduce: str = "assign", Include_self: bool = True) -> Array:
    """``Input[i, Index[i, j]] = Value[i, j]``, for Axis 1 of a matrix, or ``+=`` (add), or ``*=`` (mul, multiply), or what is there and
    all values put there reduced to their mean, amin or amax. Without ``Include_self`` what is there does not count.

    Assigning, the last value counts where an index is given twice.
    """
    out, places = Input.copy(), at(from_either_end("Index", Index, Input.shape[Axis]), Axis)
    if Reduce == "assign":
        out[places] = Value
        return out
    if not Include_self:
        out[places] = _neutral(Reduce, out.dtype)
    if Reduce in ("add", "mean") and Index.shape[Axis] == 1:
        out[places] += Value
    else:
        _COMBINED[Reduce].at(out, places, Value)
    return _divided(out, places, int(Include_self)) if Reduce == "mean" else out


_COMBINED: dict[str, np.ufunc] = {
    **dict.fromkeys(("add", "mean"), np.add),
    **dict.fromkeys(_PRODUCTS, np.multiply),
    "amin": np.minimum,
    "amax": np.maximum,
}


def _neutral(Reduce: str, dtype: np.dtype[Any]) -> Any:
    """What a reduction starts from."""
    if Reduce not in _EXTREMES:
        return 1 if Reduce in _PRODUCTS else 0
    if dtype.kind == "f":
        return np.inf if Reduce == "amin" else -np.inf
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    most, least = (True, False) if limits is None else (limits.max, limits.min)
    return most if Reduce == "amin" else least


def _divided(total: Array, places: tuple[Array, ...], own: int) -> Array:
    """Sums divided by the number of their terms; whole numbers are rounded down, as in Paddle."""
    counts = np.zeros(total.shape, "int64")
    np.add.at(counts, places, 1)
    counts = np.where(counts > 0, counts + own, 1)
    return (total / counts.astype(total.dtype) if total.dtype.kind == "f" else total // counts).astype(total.dtype, copy=False)


def _lines(X: TensorType, *, axis: int) -> TensorType:
    normal_axis(axis, len(X.shape))
    return TensorType(X.shape, "bool")


@operator("X -> Out", infer=_lines, grad={})
def last_of_each(X: Array, *, axis: int) -> Array:
    """Whether no later element along ``axis`` equals an element."""
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
