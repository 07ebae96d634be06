"""Elements and rows picked by masks and indices, where the number of what is picked may depend on values; and written by index."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.along import at, last_of_each, put_along_axis
from graphad.ops.basic import expand_like, fill_any_like, fill_zeros_like, unbroadcast
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.elementwise import as_mask, equal
from graphad.ops.index import gather, scatter_nd_add, where
from graphad.ops.indices import from_front
from graphad.ops.inference import check_index, matched, same_dtypes
from graphad.ops.shapes import unsqueeze
from graphad.types import TensorType, broadcast_shapes

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
    nothing = fill_zeros_like(X)
    whole = where(Mask, nothing, nothing)
    return unbroadcast(scatter_nd_add(whole, where_index(expand_like(Mask, whole)), dY), X)


@operator("X Mask -> Y", infer=_masked_type, grad={"X": _masked_grad}, shapes="X", linear="X")
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
        fits = len(x.shape) == len(X[0].shape) >= 2 and matched(x.shape[0], rows[0])
        if not fits or not all(map(matched, x.shape, X[0].shape)):
            raise ShapeError(f"Ids is {Ids}, X[0] is {X[0]} but X[{i}] is {x}: they need as many rows, of one shape")
    return TensorType(tuple(map(max, *(x.shape for x in X), X[0].shape)), dtype)


def _multiplex_grad(Ids: Tensor, X: list[Tensor], dOut: Tensor) -> list[Tensor]:
    ids = unsqueeze(Ids, axes=list(range(2, dOut.ndim))) if dOut.ndim > 2 else Ids
    return [dOut * as_mask(equal(ids, fill_any_like(ids, value=float(k))), dOut) for k in range(len(X))]


@operator("Ids X* -> Out", infer=_multiplexed, grad={"X": _multiplex_grad}, shapes="X", linear="X")
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


def _sample_grad(X: Tensor, Index: Tensor, dOut: Tensor) -> Tensor:
    return put_along_axis(fill_zeros_like(X), Index, dOut, Axis=1, Reduce="add")


@operator("X Index -> Out", infer=_sampled_type, grad={"X": _sample_grad}, shapes="X", linear="X")
def index_sample(X: Array, Index: Array) -> Array:
    """From each row of X the elements at that row's indices."""
    return np.asarray(X[at(from_front("Index", Index, X.shape[1]), 1)])


def _scattered_type(X: TensorType, Ids: TensorType, Updates: TensorType, **_: Any) -> TensorType:
    check_index("Ids", Ids)
    if not X.shape or len(Ids.shape) not in (1, 2) or (len(Ids.shape) == 2 and not matched(Ids.shape[1], 1)):
        raise ShapeError(f"X is {X}, Ids is {Ids}: rows, and [N] or [N, 1] numbers of rows are expected")
    expected = (Ids.shape[0], *X.shape[1:])
    if len(Updates.shape) != len(expected) or not all(map(matched, Updates.shape, expected)):
        raise ShapeError(f"X is {X} and Ids is {Ids}, so Updates must be {list(expected)}, but it is {Updates}")
    return TensorType(X.shape, same_dtypes(X=X, Updates=Updates))


def _scatter_x_grad(Ids: Tensor, Updates: Tensor, dOut: Tensor) -> Tensor:
    return scatter(dOut, Ids, fill_zeros_like(Updates))


def _scatter_updates_grad(Ids: Tensor, dOut: Tensor, *, overwrite: bool) -> Tensor:
    rows = gather(dOut, Ids)
    if not overwrite:
        return rows
    last = as_mask(last_of_each(Ids, axis=0), dOut)
    return rows * (unsqueeze(last, axes=list(range(Ids.ndim, dOut.ndim))) if dOut.ndim > Ids.ndim else last)


@operator(
    "X Ids Updates -> Out",
    infer=_scattered_type,
    grad={"X": _scatter_x_grad, "Updates": _scatter_updates_grad},
    shapes="Updates",
    linear="X Updates",
)
def scatter(X: Array, Ids: Array, Updates: Array, *, overwrite: bool = True) -> Array:
    """X with the rows at Ids replaced: by the rows of Updates, of which the last counts where an id is given twice; or, without
    ``overwrite``, by the sum of all those of Updates with that id."""
    out = X.copy()
    ids = from_front("Ids", Ids, len(X)).reshape(-1)
    out[ids] = Updates if overwrite else X.dtype.type(0)
    if not overwrite:
        np.add.at(out, ids, Updates)
    return out
