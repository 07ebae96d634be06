"""Operators that pick elements by index or condition, and their transposes."""

from __future__ import annotations

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.basic import fill_zeros_like, reshape_like, unbroadcast
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.extents import how_many, one_number
from graphad.ops.indices import from_either_end, from_front, refuse
from graphad.ops.inference import check_index, matched, normal_axis, same_dtypes
from graphad.ops.traits import ELEMENTWISE
from graphad.types import Shape, TensorType, broadcast_shapes, element_count


def _added_rows(rows: Array, ids: Array, count: int) -> Array:
    """``count`` rows of zeros to which ``rows[i]`` is added at ``ids[i]``; repeated ids accumulate."""
    out = np.zeros((count, *rows.shape[1:]), rows.dtype)
    if not ids.size:
        return out
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    out[ordered[starts]] = np.add.reduceat(rows[order], starts, axis=0) if len(starts) < len(ids) else rows[order]
    return out


# -- conditions ----------------------------------------------------------------------------------


def _where_type(Condition: TensorType, X: TensorType, Y: TensorType) -> TensorType:
    if Condition.dtype != "bool":
        raise ShapeError(f"Condition is {Condition}; bool is expected")
    dtype = same_dtypes(X=X, Y=Y)
    try:
        return TensorType(broadcast_shapes(Condition.shape, X.shape, Y.shape), dtype)
    except ShapeError:
        raise ShapeError(f"Condition is {Condition}, X is {X}, Y is {Y}: they do not broadcast together") from None


def _chosen_grad(Condition: Tensor, X: Tensor, dOut: Tensor) -> Tensor:
    return unbroadcast(where(Condition, dOut, fill_zeros_like(dOut)), X)


def _other_grad(Condition: Tensor, Y: Tensor, dOut: Tensor) -> Tensor:
    return unbroadcast(where(Condition, fill_zeros_like(dOut), dOut), Y)


@operator(
    "Condition X Y -> Out",
    infer=_where_type,
    grad={"X": _chosen_grad, "Y": _other_grad},
    shapes="X Y",
    safe_dtypes="all",
    **ELEMENTWISE,
    linear="X Y",
    own=True,
    uniform=True,
    flops=0,
)
def where(Condition: Array, X: Array, Y: Array) -> Array:
    """X where Condition holds, else Y; the three broadcast."""
    return np.where(Condition, X, Y)


# -- along one axis ------------------------------------------------------------------------------


def _picked(X: TensorType, Index: TensorType, axis: int) -> Shape:
    check_index("Index", Index)
    if len(Index.shape) > 2 or (len(Index.shape) == 2 and not matched(Index.shape[1], 1)):
        raise ShapeError(f"Index is {Index}; [], [N] or [N, 1] is expected")
    at = normal_axis(axis, len(X.shape))
    return (*X.shape[:at], *Index.shape[:1], *X.shape[at + 1 :])


def _gathered(X: TensorType, Index: TensorType, Axis: TensorType | None = None, *, axis: int = 0, **_: object) -> TensorType:
    shape = _picked(X, Index, axis)
    return TensorType(shape if how_many("Axis", [], Axis, None) == 0 else (-1,) * len(shape), X.dtype)


def _gather_grad(X: Tensor, Index: Tensor, dOut: Tensor, Axis: Tensor, *, axis: int) -> Tensor:
    return ungather(dOut, Index, X, Axis, axis=axis) if Axis is not None else index_add(fill_zeros_like(X), Index, dOut, axis=axis)


@operator("X Index Axis? -> Out", infer=_gathered, grad={"X": _gather_grad}, shapes="X", linear="X", own=True, narrow="follows", flops=0)
def gather(X: Array, Index: Array, Axis: Array | None = None, *, axis: int = 0, overwrite: bool = True) -> Array:
    """The slices of X at Index ([N], [N, 1] or []) along ``axis``, or along the axis that is in Axis."""
    return _taken(X, Index, axis if Axis is None else normal_axis(one_number(Axis), X.ndim, "Axis"))


def _taken(X: Array, Index: Array, axis: int) -> Array:
    """The slices at indices that may count from the end; numpy finds those out of range, the message is ours."""
    try:
        return np.asarray(np.take(X, Index.reshape(-1) if Index.ndim > 1 else Index, axis=axis))
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
    added: Array = index_add.kernel(np.zeros(Like.shape, X.dtype), Index, X, axis=along)
    return added


def _selected(X: TensorType, Index: TensorType, *, dim: int = 0) -> TensorType:
    return TensorType(_picked(X, Index, dim), X.dtype)


def _select_grad(X: Tensor, Index: Tensor, dOut: Tensor, *, dim: int) -> Tensor:
    return index_add(fill_zeros_like(X), Index, dOut, axis=dim)


@operator("X Index -> Out", infer=_selected, grad={"X": _select_grad}, shapes="X", linear="X", flops=0)
def index_select(X: Array, Index: Array, *, dim: int = 0) -> Array:
    """The slices of X at Index along ``dim``."""
    return _taken(X, Index, dim)


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
    value = np.expand_dims(AddValue, axis % X.ndim) if Index.ndim == 0 else AddValue
    rows = _added_rows(np.moveaxis(value, axis, 0), from_either_end("Index", Index, X.shape[axis]).reshape(-1), X.shape[axis])
    return X + np.moveaxis(rows, 0, axis)


# -- by coordinates ------------------------------------------------------------------------------


def _nd_gathered(X: TensorType, Index: TensorType) -> TensorType:
    check_index("Index", Index)
    if not Index.shape or not 0 <= Index.shape[-1] <= len(X.shape):
        raise ShapeError(f"Index is {Index}: its last extent has to be known and counts axes of X, which is {X}")
    return TensorType(Index.shape[:-1] + X.shape[Index.shape[-1] :], X.dtype)


def _gather_nd_grad(X: Tensor, Index: Tensor, dOut: Tensor) -> Tensor:
    return scatter_nd_add(fill_zeros_like(X), Index, dOut)


@operator("X Index -> Out", infer=_nd_gathered, grad={"X": _gather_nd_grad}, shapes="X", linear="X", flops=0)
def gather_nd(X: Array, Index: Array) -> Array:
    """The parts of X at the coordinates in the last axis of Index."""
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
    if not Index.shape[-1]:
        return np.asarray(out + Updates.sum(tuple(range(Index.ndim - 1))))
    np.add.at(out, _coordinates(X, Index), Updates)
    return out


# -- embeddings ----------------------------------------------------------------------------------


def _check_table(W: TensorType, Ids: TensorType) -> None:
    check_index("Ids", Ids)
    if len(W.shape) != 2:
        raise ShapeError(f"W is {W}; [rows, width] is expected")


def _looked_up(W: TensorType, Ids: TensorType, **_: object) -> TensorType:
    _check_table(W, Ids)
    return TensorType((*Ids.shape, W.shape[1]), W.dtype)


def _table_grad(W: Tensor, Ids: Tensor, dOut: Tensor, *, padding_idx: int) -> Tensor:
    return embedding_scatter(dOut, Ids, W, padding_idx=padding_idx)


@operator("W Ids -> Out", infer=_looked_up, grad={"W": _table_grad}, shapes="W", linear="W", rows="Ids", flops=0)
def lookup_table_v2(
    W: Array, Ids: Array, *, padding_idx: int = -1, is_sparse: bool = False, is_distributed: bool = False, remote_prefetch: bool = False
) -> Array:
    """The rows of W at Ids; zeros where the id is ``padding_idx`` (-1: no id is padding). InvalidValue for another id that is no row."""
    if padding_idx == -1:
        return np.asarray(np.take(W, from_front("Ids", Ids, len(W)), axis=0))
    rows = np.take(W, from_front("Ids", Ids, len(W), but=padding_idx), axis=0)
    rows[Ids == padding_idx] = 0
    return rows


def _column_looked_up(W: TensorType, Ids: TensorType, **_: object) -> TensorType:
    _check_table(W, Ids)
    if not Ids.shape or not matched(Ids.shape[-1], 1):
        raise ShapeError(f"Ids is {Ids}; its last extent must be 1")
    return TensorType((*Ids.shape[:-1], W.shape[1]), W.dtype)


@operator("W Ids -> Out", infer=_column_looked_up, grad={"W": _table_grad}, shapes="W", linear="W", rows="Ids", flops=0)
def lookup_table(
    W: Array, Ids: Array, *, padding_idx: int = -1, is_sparse: bool = False, is_distributed: bool = False, remote_prefetch: bool = False
) -> Array:
    """Like ``lookup_table_v2`` for Ids whose last extent is 1, which the width of W replaces."""
    rows: Array = lookup_table_v2.kernel(W, Ids[..., 0], padding_idx=padding_idx)
    return rows


def _embedding_scattered(X: TensorType, Ids: TensorType, Like: TensorType, *, padding_idx: int = -1) -> TensorType:
    _check_table(Like, Ids)
    rows, width = element_count(X.shape[:-1]), X.shape[-1:]
    if not width or not matched(rows, element_count(Ids.shape)) or not matched(width[0], Like.shape[1]):
        raise ShapeError(f"X is {X}: it has no row for every id of Ids, which is {Ids}, of the width of Like, which is {Like}")
    return TensorType(Like.shape, X.dtype)


def _rows_back(X: Tensor, Ids: Tensor, dOut: Tensor, *, padding_idx: int) -> Tensor:
    return reshape_like(lookup_table_v2(dOut, Ids, padding_idx=padding_idx), X)


@operator("X Ids Like -> Out", infer=_embedding_scattered, grad={"X": _rows_back}, shapes="X", linear="X")
def embedding_scatter(X: Array, Ids: Array, Like: Array, *, padding_idx: int = -1) -> Array:
    """Zeros in the shape of Like with the rows of X added at Ids: the transpose of ``lookup_table_v2``."""
    ids, rows = Ids.reshape(-1), X.reshape(Ids.size, Like.shape[1])
    if padding_idx != -1:
        counted = ids != padding_idx
        ids, rows = ids[counted], rows[counted]
    return _added_rows(rows, from_front("Ids", ids, Like.shape[0]), Like.shape[0])
