"""Rows of a table by index: embeddings, and their transpose; ids by their hash."""

from __future__ import annotations

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.definition import operator
from graphad.ops.dimensions import looked_up
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


@operator("W Ids -> Out", infer=_looked_up, grad={"W": _table_grad}, shapes="W", linear="W", rows="Ids", flops=0, dimensions=looked_up)
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


@operator(
    "W Ids -> Out", infer=_column_looked_up, grad={"W": _table_grad}, shapes="W", linear="W", rows="Ids", flops=0, dimensions=looked_up
)
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


# -- ids by their hash -----------------------------------------------------------------------------

_PRIMES = (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261)


def _hash_type(X: TensorType, *, num_hash: int = 1, mod_by: int = 100000) -> TensorType:
    if len(X.shape) != 2 or X.dtype not in ("int32", "int64") or X.shape[1] == 0:
        raise ShapeError(f"X is {X}; int32 or int64 [rows, ids] is expected")
    if num_hash < 1 or mod_by < 1:
        raise InvalidValue(f"num_hash={num_hash}, mod_by={mod_by}: numbers above 0 are expected")
    return TensorType((X.shape[0], num_hash, 1), "int64")


def _turned(value: Array, bits: int) -> Array:
    """The bits of 64 rotated to the left."""
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


def _xxh64(rows: Array, seed: int) -> Array:
    """The 64-bit hash of each row of bytes, whose number is a multiple of 4 (Y. Collet, the xxHash specification, version 0.1.1)."""
    p1, p2, p3, p4, p5 = map(np.uint64, _PRIMES)
    size, at = rows.shape[1], 0
    words = np.ascontiguousarray(rows[:, : size // 8 * 8]).view("<u8")
    start = np.uint64(seed)

    def mixed(total: Array, word: Array) -> Array:
        return np.asarray(_turned(total + word * p2, 31) * p1)

    # All arithmetic is modulo 2**64, as numpy's is on unsigned numbers.
    result = np.full(len(rows), start + p5, "uint64")
    if size >= 32:
        lanes = [np.full(len(rows), first, "uint64") for first in (start + p1 + p2, start + p2, start, start - p1)]
        while at + 4 <= words.shape[1]:
            lanes = [mixed(lane, words[:, at + number]) for number, lane in enumerate(lanes)]
            at += 4
        result = sum((_turned(lane, bits) for lane, bits in zip(lanes[1:], (7, 12, 18), strict=True)), _turned(lanes[0], 1))
        for lane in lanes:
            result = (result ^ mixed(np.zeros_like(lane), lane)) * p1 + p4
    result = result + np.uint64(size)
    for place in range(at, words.shape[1]):
        result = _turned(result ^ mixed(np.zeros_like(result), words[:, place]), 27) * p1 + p4
    if size % 8:
        last = np.ascontiguousarray(rows[:, -4:]).view("<u4")[:, 0].astype("uint64")
        result = _turned(result ^ (last * p1), 23) * p2 + p3
    result = (result ^ (result >> np.uint64(33))) * p2
    result = (result ^ (result >> np.uint64(29))) * p3
    return np.asarray(result ^ (result >> np.uint64(32)))


@operator("X -> Out", name="hash", infer=_hash_type, grad={}, flops=0)
def hash_(X: Array, *, num_hash: int = 1, mod_by: int = 100000) -> Array:
    """Each row of ids as ``num_hash`` numbers below ``mod_by``: xxHash of its bytes, with the seeds 0, 1, 2 ..., as in Paddle."""
    rows = np.ascontiguousarray(X).astype(X.dtype.newbyteorder("<"), copy=False).view("uint8").reshape(len(X), X.shape[1] * X.itemsize)
    with np.errstate(over="ignore"):
        hashes = [_xxh64(rows, seed) % np.uint64(mod_by) for seed in range(num_hash)]
    return np.stack(hashes, 1).astype("int64")[..., None]
