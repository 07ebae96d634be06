"""Indices: checks that are made when the program runs, sums of rows, and which of two equal indices counts."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphad.errors import InvalidValue
from graphad.jax.bounded import LEAST, Bounded, as_bounded, of_bounded
from graphad.jax.registry import is_traced, like, refuse, replaces
from graphad.jax.xla_array import Known
from graphad.ops import embedding, indexing, indices, selection, sort
from graphad.ops.definition import NO_INTS
from graphad.ops.inference import normal_axis
from graphad.types import Tensor


@replaces(indices.from_either_end)
def _from_either_end(name: str, index: Tensor, extent: int) -> Tensor:
    if not is_traced(index):
        return indices.from_either_end(name, np.asarray(index), extent)
    refuse(jnp.any((index < -extent) | (index >= extent)), f"{name} has an index outside of [-{extent}, {extent})")
    return jnp.where(index < 0, index + extent, index)


@replaces(indices.from_front)
def _from_front(name: str, index: Tensor, extent: int, but: int | None = None) -> Tensor:
    if not is_traced(index):
        return indices.from_front(name, np.asarray(index), extent, but)
    places = index if but is None else jnp.where(index == but, 0, index)
    refuse(jnp.any((places < 0) | (places >= extent)), f"{name} has an index outside of [0, {extent})")
    return places


@replaces(indices.require)
def _require(holds: Tensor, message: str) -> None:
    refuse(like(holds).logical_not(holds), message)


@replaces(indexing.added_rows)
def _added_rows(rows: Tensor, ids: Tensor, count: int) -> Tensor:
    rows = jnp.asarray(rows)
    # A scatter that adds: rows with one id are summed, whatever their order, which numpy needs ``add.at`` for.
    return jnp.zeros((count, *rows.shape[1:]), rows.dtype).at[ids].add(rows)


@replaces(indexing._sums)
def _sums(rows: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """All ids, and of each the sum of the rows of its equals: how many differ depends on values."""
    rows, ids = jnp.asarray(rows), jnp.asarray(ids)
    # ``size`` makes the shape known; what is beyond the ids that differ is filled, and belongs to no row.
    _, groups = jnp.unique(ids, return_inverse=True, size=len(ids))
    return ids, jnp.zeros_like(rows).at[groups].add(rows)[groups]


@replaces(indexing._index_taken)
def _index_taken(X: Tensor, Index: Tensor, axis: int) -> Tensor:
    index = _from_either_end("Index", Index.reshape(-1) if Index.ndim > 1 else Index, X.shape[axis])
    return like([X, index]).take(X, index, axis=axis)


@replaces(indexing.take_along_axis.kernel)
def _take_along_axis(Input: Tensor, Index: Tensor, *, Axis: int) -> Tensor:
    index = _from_either_end("Index", Index, Input.shape[Axis])
    return like([Input, index]).take_along_axis(Input, index, axis=Axis)


@replaces(indexing.multiplex.kernel)
def _multiplex(Ids: Tensor, X: list[Tensor]) -> Tensor:
    ids = jnp.asarray(_from_front("Ids", Ids, len(X))).reshape(-1)
    return jnp.stack([jnp.asarray(x) for x in X])[ids, jnp.arange(len(ids))]


@replaces(embedding.embedding_scatter.kernel)
def _embedding_scatter(X: Tensor, Ids: Tensor, Like: Tensor, *, padding_idx: int = -1) -> Tensor:
    """Rows of the padding are added beyond the end, where they are dropped."""
    count = Like.shape[0]
    ids, rows = Ids.reshape(-1), X.reshape(Ids.size, Like.shape[1])
    places = _from_front("Ids", ids, count, None if padding_idx == -1 else padding_idx)
    if padding_idx != -1:
        # One beyond the last row.
        places = jnp.where(ids == padding_idx, count, places)
    return jnp.zeros(Like.shape, X.dtype).at[places].add(rows, mode="drop")


@replaces(embedding.lookup_table_v2.kernel)
def _lookup_table_v2(W: Tensor, Ids: Tensor, *, padding_idx: int = -1, **_: object) -> Tensor:
    rows = jnp.take(W, _from_front("Ids", Ids, W.shape[0], None if padding_idx == -1 else padding_idx), axis=0)
    return rows if padding_idx == -1 else jnp.where((Ids == padding_idx)[..., None], jnp.zeros((), rows.dtype), rows)


@replaces(sort.histogram.kernel)
def _histogram(X: Tensor, *, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Tensor:
    """Counts by the interval of each element, computed from its value: the ends may depend on values."""
    x = jnp.ravel(jnp.asarray(X)).astype("float64")
    low, high = (jnp.min(x), jnp.max(x)) if min == max and x.size else (jnp.asarray(min, x.dtype), jnp.asarray(max, x.dtype))
    # As in the kernel, an interval of no width is widened by one on both sides.
    low, high = jnp.where(low == high, low - 1, low), jnp.where(low == high, high + 1, high)
    # The last interval is closed on both sides, as numpy's is: the greatest number would have one of its own.
    intervals = jnp.clip(jnp.floor((x - low) * (bins / (high - low))), 0, bins - 1).astype("int32")
    return jnp.zeros(bins, "int64").at[intervals].add(((x >= low) & (x <= high)).astype("int64"))


# -- by mask: as many as there are elements at most ------------------------------------------------


def held(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The indices where a mask is true, in a buffer with room for all of them, and how many there are."""
    flat = jnp.asarray(mask).reshape(-1)
    # XLA knows extents before values, so there is room for as many as there could be; the count says how many are meant.
    (places,) = jnp.nonzero(flat, size=max(flat.size, LEAST), fill_value=0)
    return places, jnp.count_nonzero(flat).astype(jnp.int64)


@replaces(indexing.masked_select.kernel)
def _masked_select(X: Tensor, Mask: Tensor) -> Bounded:
    x, mask = jnp.broadcast_arrays(X, Mask)
    places, count = held(mask)
    return Bounded.first(jnp.take(x.reshape(-1), places, mode="clip"), count, 0)


@replaces(indexing.where_index.kernel)
def _where_index(Condition: Tensor) -> Bounded:
    places, count = held(Condition)
    coordinates = jnp.unravel_index(places, Condition.shape)
    rows = jnp.stack(coordinates, axis=1) if coordinates else jnp.zeros((places.size, 0))
    return Bounded.first(rows.astype(jnp.int64), count, 0)


@replaces(sort.unique.kernel)
def _unique(
    X: Tensor, *, dtype: str = "int64", axis: list[int] = NO_INTS, is_sorted: bool = False, **_: object
) -> tuple[Bounded, Bounded, Tensor, Bounded]:
    x, along = jnp.asarray(X), axis[0] if axis else None
    extent = x.size if along is None else x.shape[along]
    if not x.size:
        raise Known(f"X is {x.dtype}{list(x.shape)}, which has no elements")
    # Filled up to the room with the least element, after those that differ: ``inverse`` never names these, so its maximum counts the
    # others.
    out, first, inverse, counts = jnp.unique(x, True, True, True, axis=along, size=max(extent, LEAST))
    # The largest number of a different element, and one: that is how many there are.
    inverse, count, place = inverse.reshape(-1), inverse.max() + 1, 0 if along is None else along % x.ndim
    # By their first occurrences, unless they are sorted; what is beyond the count comes last.
    if not is_sorted and along is None:
        order = jnp.argsort(jnp.where(jnp.arange(len(first)) < count, first, extent), stable=True)
        out, first, inverse, counts = out[order], first[order], jnp.argsort(order)[inverse], counts[order]
    rows = [Bounded.first(part.astype(dtype or "int64"), count, 0) for part in (first, counts)]
    return Bounded.first(out, count, place), rows[0], inverse.astype(dtype or "int64"), rows[1]


@replaces(selection.split_lod_tensor.kernel)
def _split_rows(X: Tensor, Mask: Tensor, *, level: int = 0) -> tuple[Bounded, Bounded]:
    rows = jnp.asarray(Mask).reshape(-1).astype(bool)
    if rows.size != len(X):
        raise InvalidValue(f"Mask has {rows.size} rows, X has {len(X)}")
    return _rows_held(X, rows), _rows_held(X, ~rows)


def _rows_held(X: Tensor, mask: Tensor) -> Bounded:
    places, count = held(mask)
    return Bounded.first(jnp.take(X, places, 0, mode="clip"), count, 0)


@of_bounded(selection.merge_lod_tensor)
@replaces(selection.merge_lod_tensor.kernel)
def _merged_rows(Mask: Tensor, InTrue: Tensor = None, InFalse: Tensor = None, X: Tensor = None, *, level: int = 0) -> Tensor:
    rows = jnp.asarray(Mask).reshape(-1).astype(bool)
    result: Tensor = None
    for side, mask in ((InTrue, rows), (InFalse, ~rows)):
        count = jnp.count_nonzero(mask)
        if side is None:
            refuse(count > 0, "rows are to come from a branch that did not run")
            continue
        side = as_bounded(side, 0, 0)
        refuse(side.count != count, "other rows are to come from a branch than it has")
        # The k-th row that the mask takes is the k-th of its side.
        part = jnp.take(side.data, jnp.cumsum(mask) - 1, 0, mode="clip")
        result = part if result is None else jnp.where(mask.reshape(-1, *(1,) * (part.ndim - 1)), part, result)
    if result is None:
        raise InvalidValue("neither InTrue nor InFalse has a value: no branch has run")
    return result


@of_bounded(sort.argsort)
def _order_of_bounded(X: Bounded, *, axis: int = -1, descending: bool = False) -> tuple[Bounded, Bounded]:
    """Sorted with what is beyond the count last, whatever it is."""
    at = normal_axis(axis, X.ndim)
    places = lax.broadcasted_iota(jnp.int64, X.data.shape, at)
    is_there = lax.broadcasted_iota(jnp.int64, X.data.shape, X.axis) < X.count
    # Descending is ascending from the end, and read from the end: so of equal ones the first comes first.
    operands = [is_there if descending else ~is_there, X.data, places]
    operands = [jnp.flip(x, at) for x in operands] if descending else operands
    _, *ordered = lax.sort(operands, dimension=at, is_stable=True, num_keys=2)
    values, indices = (jnp.flip(x, at) for x in ordered) if descending else ordered
    return Bounded.first(values, X.count, X.axis), Bounded.first(indices, X.count, X.axis)


@of_bounded(indexing.gather)
def _slices_of_bounded(X: Tensor, Index: Tensor, Axis: Tensor = None, *, axis: int = 0, overwrite: bool = True) -> Tensor:
    at = normal_axis(axis, X.ndim)
    if Axis is not None or (isinstance(X, Bounded) and (X.axis != at or Index.ndim > 1)) or (isinstance(Index, Bounded) and Index.axis):
        raise Known(f"X is {X!r} and Index {Index!r}, an extent of which is known only when the program runs")
    data, extent = (X.data, X.count) if isinstance(X, Bounded) else (X, X.shape[at])
    places = jnp.asarray(Index.data if isinstance(Index, Bounded) else Index)
    places = places.reshape(-1) if places.ndim > 1 else places
    is_there = jnp.arange(places.size).reshape(places.shape) < (Index.count if isinstance(Index, Bounded) else places.size)
    refuse((is_there & ((places < -extent) | (places >= extent))).any(), "Index has an index outside of the extent of X")
    result = jnp.take(jnp.asarray(data), jnp.where(places < 0, places + extent, places), at, mode="clip")
    return Bounded.first(result, Index.count, at) if isinstance(Index, Bounded) else result


@of_bounded(indexing.gather_nd)
def _gathered_rows(X: Tensor, Index: Bounded) -> Bounded:
    _check_rows(X, Index)
    rows = X[tuple(jnp.moveaxis(Index.data, -1, 0))] if Index.shape[-1] else jnp.broadcast_to(X, (Index.capacity, *X.shape))
    return Bounded.first(rows, Index.count, Index.axis)


@of_bounded(indexing.scatter_nd_add)
def _added_at_rows(X: Tensor, Index: Tensor, Updates: Tensor) -> Tensor:
    """Scatter-add; padding beyond the number of rows adds zeros to the first element."""
    places, parts = as_bounded(Index, 0, 0), as_bounded(Updates, 0, 0)
    capacity = max(places.capacity, parts.capacity)
    places, parts = places.sized(capacity), parts.sized(capacity)
    _check_rows(X, places)
    refuse((places.count != parts.count) & (parts.count > 0), "Index and Updates have different numbers of rows")
    if not places.shape[-1]:
        return X + parts.data.sum(axis=0)
    return jnp.asarray(X).at[tuple(jnp.moveaxis(places.data, -1, 0))].add(parts.data)


def _check_rows(X: Tensor, Index: Bounded) -> None:
    if isinstance(X, Bounded) or Index.axis or Index.ndim != 2:
        raise Known(f"X is {X!r} and Index {Index!r}, an extent of which is known only when the program runs")
    for axis in range(Index.shape[-1]):
        _from_either_end(f"Index[..., {axis}]", Index.data[:, axis], X.shape[axis])
