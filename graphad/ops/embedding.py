"""Rows of a table by index: embeddings, and their transpose."""

from __future__ import annotations

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.definition import operator
from graphad.ops.indexing import added_rows
from graphad.ops.indices import from_front
from graphad.ops.inference import check_index, matched
from graphad.ops.like import reshape_like
from graphad.types import Array, Tensor, TensorType, element_count

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
    """The rows of W at Ids; zeros where the id is ``padding_idx`` (-1: no id is padding). InvalidValue for another id that is not a row."""
    if padding_idx == -1:
        return np.asarray(np.take(W, from_front("Ids", Ids, len(W)), axis=0))
    # The rows of padding ids are looked up as if they were row 0, and overwritten.
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


@operator(
    "X Ids Like -> Out",
    infer=_embedding_scattered,
    grad={"X": lambda X, Ids, dOut, *, padding_idx: reshape_like(lookup_table_v2(dOut, Ids, padding_idx=padding_idx), X)},
    shapes="X",
    linear="X",
)
def embedding_scatter(X: Array, Ids: Array, Like: Array, *, padding_idx: int = -1) -> Array:
    """Zeros in the shape of Like with the rows of X added at Ids: the transpose of ``lookup_table_v2``."""
    ids, rows = Ids.reshape(-1), X.reshape(Ids.size, Like.shape[1])
    # The rows of the padding are constants, and get no gradient.
    if padding_idx != -1:
        is_counted = ids != padding_idx
        ids, rows = ids[is_counted], rows[is_counted]
    return added_rows(rows, from_front("Ids", ids, Like.shape[0]), Like.shape[0])
