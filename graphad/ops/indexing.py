"""Elements and rows picked by index or mask, and their transposes: gather, scatter, take and put along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.attributes import how_many, one_number
from graphad.ops.casting import as_mask, assign
from graphad.ops.comparison import equal
from graphad.ops.creation import tril_triu
from graphad.ops.definition import operator
from graphad.ops.dimensions import along_one_axis, gathered
from graphad.ops.formulas import as_array
from graphad.ops.indices import from_either_end, from_front, refuse
from graphad.ops.inference import check_index, matched, normal_axis, same_dtypes
from graphad.ops.like import expand_like, fill_any_like, fill_zeros_like, unbroadcast
from graphad.ops.reduction import reduce_prod
from graphad.ops.selection import where
from graphad.ops.shapes import inverse_order, transpose, unsqueeze
from graphad.ops.summation import runs_added
from graphad.types import INTS, Array, Shape, Tensor, TensorType, broadcast_shapes

# -- gather and scatter ----------------------------------------------------------------------------
# Operators that pick elements by index or condition, and their transposes.


def added_rows(rows: Array, ids: Array, count: int) -> Array:
    """``count`` rows of zeros to which ``rows[i]`` is added at ``ids[i]``; repeated ids accumulate."""
    out = np.zeros((count, *rows.shape[1:]), rows.dtype)
    if ids.size:
        different, sums = _sums(rows, ids)
        out[different] = sums
    return out


def _sums(rows: Array, ids: Array) -> tuple[Array, Array]:
    """The different ones of some ids, in order, and of each the sum of its rows."""
    # Sorted, equal ids are neighbors, a run each. The sort is stable, so that rows are added in the order they came in.
    order = np.argsort(ids, kind="stable")
    sorted_ids = ids[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_ids[1:] != sorted_ids[:-1])))
    return sorted_ids[starts], runs_added(rows[order], starts) if len(starts) < len(ids) else rows[order]


# -- along one axis ------------------------------------------------------------------------------


def _picked(X: TensorType, Index: TensorType, axis: int) -> Shape:
    check_index("Index", Index)
    if len(Index.shape) > 2 or (len(Index.shape) == 2 and not matched(Index.shape[1], 1)):
        raise ShapeError(f"Index is {Index}; [], [N] or [N, 1] is expected")
    at = normal_axis(axis, len(X.shape))
    # An Index of [N, 1] counts as [N], as in Paddle.
    return (*X.shape[:at], *Index.shape[:1], *X.shape[at + 1 :])


def _gathered(X: TensorType, Index: TensorType, Axis: TensorType | None = None, *, axis: int = 0, **_: object) -> TensorType:
    shape = _picked(X, Index, axis)
    # Which axis changes its extent is known only when the program runs.
    return TensorType(shape if how_many("Axis", [], Axis, None) == 0 else (-1,) * len(shape), X.dtype)


def _gather_grad(X: Tensor, Index: Tensor, dOut: Tensor, Axis: Tensor, *, axis: int) -> Tensor:
    return ungather(dOut, Index, X, Axis, axis=axis) if Axis is not None else index_add(fill_zeros_like(X), Index, dOut, axis=axis)


@operator(
    "X Index Axis? -> Out",
    infer=_gathered,
    grad={"X": _gather_grad},
    shapes="X",
    linear="X",
    own=True,
    narrow="follows",
    flops=0,
    dimensions=gathered,
)
def gather(X: Array, Index: Array, Axis: Array | None = None, *, axis: int = 0, overwrite: bool = True) -> Array:
    """The slices of X at Index ([N], [N, 1] or []) along ``axis``, or along the axis that is in Axis."""
    return _index_taken(X, Index, axis if Axis is None else normal_axis(one_number(Axis), X.ndim, "Axis"))


def _index_taken(X: Array, Index: Array, axis: int) -> Array:
    """The slices at indices that may count from the end; numpy finds those out of range, the message is ours."""
    try:
        return as_array(np.take(X, Index.reshape(-1) if Index.ndim > 1 else Index, axis=axis))
    except IndexError:
        refuse("Index", Index, -X.shape[axis], X.shape[axis])


def _ungathered(X: TensorType, Index: TensorType, Like: TensorType, Axis: TensorType | None = None, *, axis: int = 0) -> TensorType:
    expected = _gathered(Like, Index, Axis, axis=axis).shape
    if len(expected) != len(X.shape) or not all(map(matched, expected, X.shape)):
        raise ShapeError(f"Like is {Like} and Index is {Index}, so X must be {list(expected)} (axis={axis}), but it is {X}")
    return TensorType(Like.shape, X.dtype)


@operator(
    "X Index Like Axis? -> Out",
    infer=_ungathered,
    grad={"X": lambda Index, dOut, Axis, *, axis: gather(dOut, Index, Axis, axis=axis)},
    linear="X",
)
def ungather(X: Array, Index: Array, Like: Array, Axis: Array | None = None, *, axis: int = 0) -> Array:
    """Zeros in the shape of Like with the slices of X added at Index: the transpose of ``gather``."""
    along = axis if Axis is None else normal_axis(one_number(Axis), Like.ndim, "Axis")
    total: Array = index_add.kernel(np.zeros(Like.shape, X.dtype), Index, X, axis=along)
    return total


@operator(
    "X Index -> Out",
    infer=lambda X, Index, *, dim=0: TensorType(_picked(X, Index, dim), X.dtype),
    grad={"X": lambda X, Index, dOut, *, dim: index_add(fill_zeros_like(X), Index, dOut, axis=dim)},
    shapes="X",
    linear="X",
    flops=0,
    dimensions=gathered,
)
def index_select(X: Array, Index: Array, *, dim: int = 0) -> Array:
    """The slices of X at Index along ``dim``."""
    return _index_taken(X, Index, dim)


def _index_added(X: TensorType, Index: TensorType, AddValue: TensorType, *, axis: int = 0) -> TensorType:
    same_dtypes(X=X, AddValue=AddValue)
    expected = _picked(X, Index, axis)
    if len(expected) != len(AddValue.shape) or not all(map(matched, expected, AddValue.shape)):
        raise ShapeError(f"X is {X} and Index is {Index}, so AddValue must be {list(expected)} (axis={axis}), but it is {AddValue}")
    return X


@operator(
    "X Index AddValue -> Out",
    infer=_index_added,
    grad={
        "X": lambda dOut: dOut,
        "AddValue": lambda Index, dOut, *, axis: gather(dOut, Index, axis=axis),
    },
    linear="X AddValue",
)
def index_add(X: Array, Index: Array, AddValue: Array, *, axis: int = 0) -> Array:
    """X with the slices of AddValue added at Index along ``axis``: with X zero, the transpose of ``gather``."""
    at = axis % X.ndim
    # A scalar Index takes one slice, without the axis.
    value = np.moveaxis(np.expand_dims(AddValue, at) if Index.ndim == 0 else AddValue, at, 0)
    ids = from_either_end("Index", Index, X.shape[at]).reshape(-1)
    # Where extents are known only here, numpy would leave out slices, or repeat one.
    if value.shape != (ids.size, *X.shape[:at], *X.shape[at + 1 :]):
        raise ShapeError(f"X is {list(X.shape)} and Index has {ids.size} places along axis {axis}, but AddValue is {list(AddValue.shape)}")
    return X + np.moveaxis(added_rows(value, ids, X.shape[at]), 0, at)


# -- by coordinates ------------------------------------------------------------------------------


def _nd_gathered(X: TensorType, Index: TensorType) -> TensorType:
    check_index("Index", Index)
    if not Index.shape or not 0 <= Index.shape[-1] <= len(X.shape):
        raise ShapeError(f"Index is {Index}: its last extent has to be known and counts axes of X, which is {X}")
    return TensorType(Index.shape[:-1] + X.shape[Index.shape[-1] :], X.dtype)


@operator(
    "X Index -> Out",
    infer=_nd_gathered,
    grad={"X": lambda X, Index, dOut: scatter_nd_add(fill_zeros_like(X), Index, dOut)},
    shapes="X",
    linear="X",
    flops=0,
)
def gather_nd(X: Array, Index: Array) -> Array:
    """The parts of X at the coordinates in the last axis of Index."""
    # Coordinates of no axis name all of X.
    if not Index.shape[-1]:
        return np.broadcast_to(X, Index.shape[:-1] + X.shape).copy()
    return np.asarray(X[_coordinates(X, Index)])


def _coordinates(X: Array, Index: Array) -> tuple[Array, ...]:
    """The coordinates in the last axis of Index, one array for each axis of X they name."""
    return tuple(from_either_end(f"Index[..., {axis}]", part, X.shape[axis]) for axis, part in enumerate(np.moveaxis(Index, -1, 0)))


def _nd_added(X: TensorType, Index: TensorType, Updates: TensorType) -> TensorType:
    same_dtypes(X=X, Updates=Updates)
    expected = _nd_gathered(X, Index).shape
    if len(expected) != len(Updates.shape) or not all(map(matched, expected, Updates.shape)):
        raise ShapeError(f"X is {X} and Index is {Index}, so Updates must be {list(expected)}, but it is {Updates}")
    return X


@operator(
    "X Index Updates -> Out",
    infer=_nd_added,
    grad={"X": lambda dOut: dOut, "Updates": lambda Index, dOut: gather_nd(dOut, Index)},
    linear="X Updates",
)
def scatter_nd_add(X: Array, Index: Array, Updates: Array) -> Array:
    """X with Updates added at the coordinates in the last axis of Index; repeated coordinates accumulate."""
    out = X.copy()
    # No coordinates: each update is of all of X.
    if not Index.shape[-1]:
        return np.asarray(out + Updates.sum(tuple(range(Index.ndim - 1))))
    np.add.at(out, _coordinates(X, Index), Updates)
    return out


# -- along an axis ---------------------------------------------------------------------------------
# One element, or a few, of every line along an axis: taken by an index, and put back.
#
# ``take_along_axis`` and ``put_along_axis`` (adding into zeros) are each other's transpose.

_PRODUCTS, _EXTREMES = ("mul", "multiply"), ("amin", "amax")
_REDUCE = ("assign", "add", *_PRODUCTS, "mean", *_EXTREMES)


def _check_lines(Input: TensorType, Index: TensorType, axis: int) -> None:
    """ShapeError unless Index has Input's shape, except for the extent of the axis."""
    if Index.dtype not in INTS or Index.dtype == "bool":
        raise ShapeError(f"Index is {Index}; integers are expected")
    # take_along_axis and its kin pair lines along one axis; all others have to agree.
    at = normal_axis(axis, len(Input.shape), "Axis")
    if len(Index.shape) != len(Input.shape) or any(not matched(a, b) for i, (a, b) in enumerate(_pairs(Input, Index)) if i != at):
        raise ShapeError(f"Input is {Input} but Index is {Index}: they may differ along Axis={axis} only")


def _pairs(a: TensorType, b: TensorType) -> list[tuple[int, int]]:
    return list(zip(a.shape, b.shape, strict=True))


def _along_taken(Input: TensorType, Index: TensorType, *, Axis: int) -> TensorType:
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
    # Where a value was put, Input does not count: its gradient is zero there.
    if Reduce == "assign" or (not Include_self and Reduce != "mean" and Reduce not in _EXTREMES):
        return put_along_axis(dResult, Index, fill_zeros_like(take_along_axis(dResult, Index, Axis=Axis)), Axis=Axis)
    if Reduce == "add":
        return assign(dResult)
    if Reduce in _PRODUCTS:
        return dResult * put_along_axis(fill_any_like(dResult, value=1.0), Index, Value, Axis=Axis, Reduce=Reduce)
    if Reduce == "mean":
        # A mean has as many terms as values were put there, and Input's own unless that does not count.
        hits = _hits(dResult, Index, Axis)
        return dResult / (hits + 1.0) if Include_self else dResult * as_mask(hits == 0.0, dResult)
    share, of_input, _ = _shares(Input, Index, Value, dResult, Axis, Reduce, Include_self)
    return share * of_input


def _value_grad(Input: Tensor, Index: Tensor, Value: Tensor, dResult: Tensor, *, Axis: int, Reduce: str, Include_self: bool) -> Tensor:
    if Reduce == "add":
        return take_along_axis(dResult, Index, Axis=Axis)
    if Reduce == "assign":
        # Of several values for one place the last one stays; the others have no gradient.
        cotangent = take_along_axis(dResult, Index, Axis=Axis)
        return cotangent * as_mask(last_of_each(Index, axis=Axis), dResult)
    if Reduce == "mean":
        hits = _hits(dResult, Index, Axis)
        return take_along_axis(dResult / (hits + 1.0 if Include_self else hits + as_mask(hits == 0.0, hits)), Index, Axis=Axis)
    if Reduce in _PRODUCTS:
        # The cotangent of a factor is the product of all others: of Input and of the other values at its place.
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
    # Without Include_self Input is the result only where no value was put.
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
    # [..., n, n]: which places of a line are the same. Off the diagonal are the pairs of different values.
    equality = as_mask(equal(unsqueeze(index, axes=[rank]), unsqueeze(index, axes=[rank - 1])), Value)
    off_diagonal = tril_triu(equality, diagonal=-1, lower=True) + tril_triu(equality, diagonal=1)
    # A factor is the other value where the places agree, else 1.
    factors = off_diagonal * (unsqueeze(value, axes=[rank - 1]) - 1.0) + 1.0
    return transpose(reduce_prod(factors, dim=[rank]), axis=inverse_order(order))


def at(index: Array, axis: int) -> tuple[Array, ...]:
    """The index arrays that pick ``index`` along the axis, line by line."""
    grid: list[Array] = list(np.indices(index.shape, sparse=True))
    grid[axis] = index
    return tuple(grid)


@operator(
    "Input Index -> Result",
    infer=_along_taken,
    grad={"Input": _take_grad},
    shapes="Input",
    linear="Input",
    flops=0,
    dimensions=along_one_axis,
)
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
    # One place for each line: no place occurs twice, so that the plain addition is right and fast.
    if Reduce in ("add", "mean") and Index.shape[Axis] == 1:
        out[places] += Value
    else:
        # ufunc.at, since a place that occurs several times is combined each time.
        _COMBINED[Reduce].at(out, places, Value)
    return _divided(out, places, int(Include_self)) if Reduce == "mean" else out


_COMBINED: dict[str, np.ufunc] = {
    **dict.fromkeys(("add", "mean"), np.add),
    **dict.fromkeys(_PRODUCTS, np.multiply),
    "amin": np.minimum,
    "amax": np.maximum,
}


def _neutral(Reduce: str, dtype: np.dtype[Any]) -> float:
    """The neutral element of a reduction in a dtype."""
    if Reduce not in _EXTREMES:
        return 1 if Reduce in _PRODUCTS else 0
    if dtype.kind == "f":
        return np.inf if Reduce == "amin" else -np.inf
    # bool has no iinfo: its extremes are False and True.
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
    # After a stable sort equal elements are neighbors in their order: the last of each run is the last of all.
    rows = np.moveaxis(X, axis, -1)
    order = np.argsort(rows, -1, kind="stable")
    sorted_rows = np.take_along_axis(rows, order, -1)
    last = np.ones(rows.shape, bool)
    last[..., :-1] = sorted_rows[..., 1:] != sorted_rows[..., :-1]
    out = np.empty(rows.shape, bool)
    np.put_along_axis(out, order, last, -1)
    return np.ascontiguousarray(np.moveaxis(out, -1, axis))


def one_of(shape: Shape, axis: int) -> Shape:
    """The shape with the extent 1 at the axis."""
    place = normal_axis(axis, len(shape))
    return (*shape[:place], 1, *shape[place + 1 :])


# -- masks and indices -----------------------------------------------------------------------------
# Elements and rows picked by masks and indices, where the number of what is picked may depend on values; and written by index.

# -- by mask -------------------------------------------------------------------------------------


@operator("Condition -> Out", infer=lambda Condition: TensorType((-1, len(Condition.shape)), "int64"), grad={})
def where_index(Condition: Array) -> Array:
    """The coordinates of all elements that are not zero, a row each, in the order of memory."""
    return np.asarray(np.argwhere(Condition), "int64")


def _masked_type(X: TensorType, Mask: TensorType) -> TensorType:
    if Mask.dtype != "bool":
        raise ShapeError(f"Mask is {Mask}; bool is expected")
    try:
        broadcast_shapes(X.shape, Mask.shape)
    except ShapeError:
        raise ShapeError(f"X is {X} but Mask is {Mask}: they do not broadcast together") from None
    return TensorType((-1,), X.dtype)


def _masked_grad(X: Tensor, Mask: Tensor, dY: Tensor) -> Tensor:
    # Zeros in the shape that X and Mask broadcast to.
    blank = fill_zeros_like(X)
    zeros = where(Mask, blank, blank)
    return unbroadcast(scatter_nd_add(zeros, where_index(expand_like(Mask, zeros)), dY), X)


@operator("X Mask -> Y", infer=_masked_type, grad={"X": _masked_grad}, shapes="X", linear="X", flops=0)
def masked_select(X: Array, Mask: Array) -> Array:
    """The elements of X where Mask holds, in a row; the two broadcast."""
    x, mask = np.broadcast_arrays(X, Mask)
    return np.asarray(x[mask])


# -- one of several ------------------------------------------------------------------------------


def _multiplexed(Ids: TensorType, X: list[TensorType]) -> TensorType:
    check_index("Ids", Ids)
    dtype = same_dtypes(**{f"X[{i}]": x for i, x in enumerate(X)})
    rows = Ids.shape[:1]
    if len(Ids.shape) != 2 or not matched(Ids.shape[1], 1):
        raise ShapeError(f"Ids is {Ids}; [rows, 1] is expected")
    for i, x in enumerate(X):
        is_fitting = len(x.shape) == len(X[0].shape) >= 2 and matched(x.shape[0], rows[0])
        if not is_fitting or not all(map(matched, x.shape, X[0].shape)):
            raise ShapeError(f"Ids is {Ids}, X[0] is {X[0]} but X[{i}] is {x}: they need as many rows, of one shape")
    return TensorType(tuple(map(max, *(x.shape for x in X), X[0].shape)), dtype)


def _multiplex_grad(Ids: Tensor, X: list[Tensor], dOut: Tensor) -> list[Tensor]:
    ids = unsqueeze(Ids, axes=list(range(2, dOut.ndim))) if dOut.ndim > 2 else Ids
    return [dOut * as_mask(equal(ids, fill_any_like(ids, value=float(k))), dOut) for k in range(len(X))]


@operator("Ids X* -> Out", infer=_multiplexed, grad={"X": _multiplex_grad}, shapes="X", linear="X", flops=0)
def multiplex(Ids: Array, X: list[Array]) -> Array:
    """Row i of ``X[Ids[i]]``, for every i; InvalidValue for an id that is not the number of an input."""
    ids = from_front("Ids", Ids, len(X)).reshape(-1)
    out = np.empty_like(X[0])
    for k, x in enumerate(X):
        out[ids == k] = x[ids == k]
    return out


# -- by index ------------------------------------------------------------------------------------


def _sampled_type(X: TensorType, Index: TensorType) -> TensorType:
    check_index("Index", Index)
    if len(X.shape) != 2 or len(Index.shape) != 2 or not matched(X.shape[0], Index.shape[0]):
        raise ShapeError(f"X is {X}, Index is {Index}: two matrices with as many rows are expected")
    return TensorType(Index.shape, X.dtype)


@operator(
    "X Index -> Out",
    infer=_sampled_type,
    grad={"X": lambda X, Index, dOut: put_along_axis(fill_zeros_like(X), Index, dOut, Axis=1, Reduce="add")},
    shapes="X",
    linear="X",
    flops=0,
)
def index_sample(X: Array, Index: Array) -> Array:
    """The elements of each row of X at that row's indices."""
    return np.asarray(X[at(from_front("Index", Index, X.shape[1]), 1)])


def _scattered_type(X: TensorType, Ids: TensorType, Updates: TensorType, **_: object) -> TensorType:
    check_index("Ids", Ids)
    if not X.shape or len(Ids.shape) not in (1, 2) or (len(Ids.shape) == 2 and not matched(Ids.shape[1], 1)):
        raise ShapeError(f"X is {X}, Ids is {Ids}: rows, and [N] or [N, 1] numbers of rows are expected")
    expected = (Ids.shape[0], *X.shape[1:])
    if len(Updates.shape) != len(expected) or not all(map(matched, Updates.shape, expected)):
        raise ShapeError(f"X is {X} and Ids is {Ids}, so Updates must be {list(expected)}, but it is {Updates}")
    return TensorType(X.shape, same_dtypes(X=X, Updates=Updates))


def _scatter_updates_grad(Ids: Tensor, dOut: Tensor, *, overwrite: bool) -> Tensor:
    rows = gather(dOut, Ids)
    if not overwrite:
        return rows
    # Of the rows for one id the last one stayed; the others have no gradient.
    last = as_mask(last_of_each(Ids, axis=0), dOut)
    return rows * (unsqueeze(last, axes=list(range(Ids.ndim, dOut.ndim))) if dOut.ndim > Ids.ndim else last)


@operator(
    "X Ids Updates -> Out",
    infer=_scattered_type,
    grad={"X": lambda Ids, Updates, dOut: scatter(dOut, Ids, fill_zeros_like(Updates)), "Updates": _scatter_updates_grad},
    shapes="Updates",
    linear="X Updates",
)
def scatter(X: Array, Ids: Array, Updates: Array, *, overwrite: bool = True) -> Array:
    """X with the rows at Ids replaced: by the rows of Updates, of which the last counts where an id is given twice; or, without
    ``overwrite``, by the sum of all those of Updates with that id."""
    out = X.copy()
    ids = from_front("Ids", Ids, len(X)).reshape(-1)
    if overwrite:
        out[ids] = Updates
    elif ids.size:
        different, sums = _sums(Updates, ids)
        out[different] = sums
    return out


# -- beams ---------------------------------------------------------------------------------------


def _tree_type(Ids: TensorType, Parents: TensorType) -> TensorType:
    check_index("Ids", Ids)
    check_index("Parents", Parents)
    if len(Ids.shape) != 3 or len(Parents.shape) != 3 or not all(map(matched, Ids.shape, Parents.shape)):
        raise ShapeError(f"Ids is {Ids} but Parents is {Parents}: [T, N, beams] is expected of both")
    return Ids


@operator("Ids Parents -> Out", infer=_tree_type, grad={}, costly=True)
def gather_tree(Ids: Array, Parents: Array) -> Array:
    """The sequences of a beam search ``[T, N, beams]``: of each beam at the last step, what its ancestors chose."""
    beam = np.broadcast_to(np.arange(Ids.shape[2]), Ids.shape[1:])
    rows = []
    # From the last step back: each step's parents say which beam of the step before is meant.
    for t in range(len(Ids) - 1, -1, -1):
        rows.append(np.take_along_axis(Ids[t], beam, axis=1))
        beam = np.take_along_axis(from_front("Parents", Parents[t], Ids.shape[2]), beam, axis=1)
    return np.stack(rows[::-1]) if rows else Ids.copy()
