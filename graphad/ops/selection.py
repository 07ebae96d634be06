"""Choosing between values by a condition: element by element, row by row, or one of several tensors."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.aggregates import zeros_like
from graphad.ops.definition import AS_INPUT, operator
from graphad.ops.formulas import as_array
from graphad.ops.inference import same_dtypes
from graphad.ops.like import fill_zeros_like, unbroadcast
from graphad.ops.traits import ELEMENTWISE
from graphad.types import Array, Tensor, TensorType, broadcast_shapes, common_extent, joined_shape

# -- conditions ----------------------------------------------------------------------------------


def _where_type(Condition: TensorType, X: TensorType, Y: TensorType) -> TensorType:
    if Condition.dtype != "bool":
        raise ShapeError(f"Condition is {Condition}; bool is expected")
    dtype = same_dtypes(X=X, Y=Y)
    try:
        return TensorType(broadcast_shapes(Condition.shape, X.shape, Y.shape), dtype)
    except ShapeError:
        raise ShapeError(f"Condition is {Condition}, X is {X}, Y is {Y}: they do not broadcast together") from None


@operator(
    "Condition X Y -> Out",
    infer=_where_type,
    grad={
        # A condition has no cotangent: its gradients are the two ways.
        "X": lambda Condition, X, dOut: unbroadcast(where(Condition, dOut, fill_zeros_like(dOut)), X),
        "Y": lambda Condition, Y, dOut: unbroadcast(where(Condition, fill_zeros_like(dOut), dOut), Y),
    },
    shapes="X Y",
    **ELEMENTWISE,
    linear="X Y",
    own=True,
    uniform=True,
    flops=0,
)
def where(Condition: Array, X: Array, Y: Array) -> Array:
    """X where Condition holds, else Y; the three broadcast."""
    return np.where(Condition, X, Y)


# -- rows and branches -----------------------------------------------------------------------------
# Choosing between values by a mask: one of several tensors, or row by row. Joining and splitting are each other's gradient.

_LIKE_X = {"Out": AS_INPUT}


def _which(Mask: Array, count: int) -> int:
    if np.size(Mask) != 1 or not 0 <= int(np.reshape(Mask, ())[()]) < count:
        raise InvalidValue(f"Mask chooses one of {count}: one integer from 0 on, not {as_array(Mask).tolist()}")
    return int(np.reshape(Mask, ())[()])


def _chosen(X: list[TensorType], Mask: TensorType) -> TensorType:
    first = X[0]
    for i, x in enumerate(X):
        if x.dtype != first.dtype or len(x.shape) != len(first.shape):
            raise ShapeError(f"X[0] is {first} but X[{i}] is {x}: what is chosen from has one rank and dtype")
    # Which one is chosen is not known before the run: extents that differ are unknown.
    shape = tuple(reduce(common_extent, es) for es in zip(*(x.shape for x in X), strict=True))
    return TensorType(shape, first.dtype)


@operator(
    "X* Mask -> Out",
    infer=_chosen,
    grad={"X": lambda X, Mask, dOut: select_output(dOut, Mask, X)},
    partial=True,
    lazy="X",
    kinds=_LIKE_X,
    shapes="X",
    linear="X",
    flops=0,
)
def select_input(X: list[Tensor], Mask: Array) -> Any:
    """``X[Mask]``; the others need not have a value."""
    number = _which(Mask, len(X))
    if X[number] is None:
        raise InvalidValue(f"Mask chooses X[{number}], which has no value: no block that writes it has run")
    return X[number]


def _like(X: TensorType, Mask: TensorType, Like: list[TensorType] | None = None) -> list[TensorType]:
    if not Like:
        raise ShapeError("Like is empty; only the gradients of Paddle's programs do without: it has as many tensors as Out")
    for i, like in enumerate(Like):
        if like.dtype != X.dtype or len(like.shape) != len(X.shape):
            raise ShapeError(f"X is {X} but Like[{i}] is {like}: X is one of the outputs, which have the rank and dtype of Like")
    # X or zeros: which of the outputs is X is not known before the run, either.
    return [TensorType(tuple(map(common_extent, X.shape, like.shape)), X.dtype) for like in Like]


@operator(
    "X Mask Like*? -> Out*",
    infer=_like,
    grad={"X": lambda Mask, dOut: select_input(dOut, Mask)},
    partial=True,
    kinds=_LIKE_X,
    linear="X",
    view="X",
    flops=0,
)
def select_output(X: Tensor, Mask: Array, Like: list[Tensor] | None = None) -> list[Tensor]:
    """X at ``Out[Mask]``, zeros in the shape of Like everywhere else (nothing where Like has no value)."""
    if not Like:
        raise InvalidValue("Like is empty: it has as many tensors as Out")
    number = _which(Mask, len(Like))
    # An output of which Like has no value stays without one: nothing says what shape its zeros would be.
    return [X if i == number else None if like is None else zeros_like(like) for i, like in enumerate(Like)]


# -- rows ----------------------------------------------------------------------------------------


def _rows(Mask: Array, count: int | None = None) -> Array:
    rows = np.reshape(Mask, -1).astype(bool)
    if count is not None and len(rows) != count:
        raise InvalidValue(f"Mask has {len(rows)} rows, X has {count}")
    return rows


def _some_rows(X: TensorType, Mask: TensorType, *, level: int = 0) -> tuple[TensorType, TensorType]:
    if not X.shape:
        raise ShapeError(f"X is {X}: it has no rows to split")
    part = TensorType((-1, *X.shape[1:]), X.dtype)
    return part, part


@operator(
    "X Mask -> OutTrue OutFalse",
    infer=_some_rows,
    grad={"X": lambda Mask, dOutTrue, dOutFalse: merge_lod_tensor(Mask, dOutTrue, dOutFalse)},
    linear="X",
    flops=0,
)
def split_lod_tensor(X: Array, Mask: Array, *, level: int = 0) -> tuple[Array, Array]:
    """The rows of X where the mask holds, and the others."""
    rows = _rows(Mask, len(X))
    return X[rows], X[~rows]


def _all_rows(
    Mask: TensorType, InTrue: TensorType | None = None, InFalse: TensorType | None = None, X: TensorType | None = None, *, level: int = 0
) -> TensorType:
    types = [t for t in (InTrue, InFalse) if t is not None]
    if not types:
        raise ShapeError("neither InTrue nor InFalse is given")
    if not all(t.shape for t in types):
        raise ShapeError(f"InTrue is {InTrue}, InFalse is {InFalse}: what has no rows cannot be merged")
    if len(types) == 2 and (types[0].dtype != types[1].dtype or joined_shape(types[0].shape[1:], types[1].shape[1:]) is None):
        raise ShapeError(f"InTrue is {InTrue} but InFalse is {InFalse}: their rows do not go into one tensor")
    count = Mask.shape[0] if Mask.shape else -1
    return TensorType((count, *types[0].shape[1:]), types[0].dtype)


@operator(
    "Mask InTrue? InFalse? X? -> Out",
    infer=_all_rows,
    grad={
        "InTrue": lambda Mask, dOut: split_lod_tensor(dOut, Mask)[0],
        "InFalse": lambda Mask, dOut: split_lod_tensor(dOut, Mask)[1],
    },
    partial=True,
    lazy="InTrue InFalse",
    linear="InTrue InFalse",
    flops=0,
)
def merge_lod_tensor(
    Mask: Array, InTrue: Array | None = None, InFalse: Array | None = None, X: Array | None = None, *, level: int = 0
) -> Array:
    """The rows of InTrue where the mask holds and those of InFalse elsewhere; a side without rows need not have a value."""
    rows = _rows(Mask)
    branch = InFalse if InTrue is None else InTrue
    if branch is None:
        raise InvalidValue("neither InTrue nor InFalse has a value: no branch has run")
    out = np.empty((len(rows), *branch.shape[1:]), branch.dtype)
    # Boolean indexing keeps the order, so each side's rows go where they were taken from.
    for side, side_rows in ((InTrue, rows), (InFalse, ~rows)):
        if side is not None:
            if len(side) != side_rows.sum():
                raise InvalidValue(f"{int(side_rows.sum())} rows are to come from a branch that has {len(side)}")
            out[side_rows] = side
        elif side_rows.any():
            raise InvalidValue(f"{int(side_rows.sum())} rows are to come from a branch that did not run")
    return out
