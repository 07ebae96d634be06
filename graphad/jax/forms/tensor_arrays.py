# ruff: noqa: E741
"""Arrays of tensors and tapes: with indices that are known as they are, else as buffers."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from graphad.errors import InvalidValue
from graphad.jax.bounded import Bounded, of_bounded
from graphad.jax.registry import is_traced, refuse, replaces, room
from graphad.jax.stacks import Buffer, TapeBuffer, as_buffer, zeros_of
from graphad.jax.xla_array import Known
from graphad.ops import aggregates, like, tensor_array
from graphad.ops.aggregates import TensorArray
from graphad.ops.inference import normal_axis
from graphad.types import Tensor


def _index(I: Tensor) -> Tensor:
    return I.reshape(()) if is_traced(I) else tensor_array._index(np.asarray(I))


def _pair(X: Tensor, I: Tensor) -> tuple[Tensor, Tensor]:
    """The array and the index: a buffer, unless both the array and the index are known."""
    index = _index(I)
    if isinstance(X, Buffer) or is_traced(index):
        return as_buffer(X, 0), index
    return X, index


@replaces(tensor_array.write_to_array.kernel)
def _write_to_array(X: Tensor, I: Tensor, Array: Tensor = None, *, fresh: bool = False) -> Tensor:
    if Array is None:
        Array = Buffer.empty(room()) if is_traced(I) else TensorArray()
    array, index = _pair(Array, I)
    return array.write(index, X)


@replaces(tensor_array.clear_in_array.kernel)
def _clear_in_array(X: Tensor, I: Tensor) -> Tensor:
    array, index = _pair(X, I)
    return array.without(index)


@replaces(tensor_array.erase_in_array.kernel)
def _erase_in_array(X: Tensor, I: Tensor) -> Tensor:
    array, index = _pair(X, I)
    return array.erase(index)


@replaces(tensor_array.insert_in_array.kernel)
def _insert_in_array(X: Tensor, I: Tensor, V: Tensor = None) -> Tensor:
    # A traced index needs a buffer, which has to have room for one slot more before it is made.
    array, index = (as_buffer(X, len(X) + 1), _index(I)) if is_traced(I) and not isinstance(X, Buffer) else _pair(X, I)
    return array.insert(index, V)


@replaces(tensor_array.read_from_array.kernel)
def _read_from_array(X: Tensor, I: Tensor, Like: Tensor = None) -> Tensor:
    array, index = _pair(X, I)
    if not isinstance(array, Buffer):
        element = tensor_array.read_from_array.kernel(array, np.asarray(index), None if Like is None else np.zeros(0))
        return jnp.zeros_like(Like) if Like is not None and isinstance(element, np.ndarray) and element.shape == (0,) else element
    if array.data is None and Like is not None:
        return jnp.zeros_like(Like)
    if Like is None:
        # XLA clamps indices silently: what the kernel refuses is noted, and raised after the run.
        at = jnp.clip(index, 0, array.capacity - 1)
        refuse((index < 0) | (index >= array.length) | ~jnp.asarray(array.filled)[at], "the array has nothing at the index that is read")
        return array.read(index)
    # With Like an empty place reads as zeros: that is a cotangent which no iteration has written.
    inside = (index >= 0) & (index < array.capacity)
    return jnp.where(inside, array.read(index), jnp.zeros((), array.data.dtype))


@replaces(tensor_array.lod_array_length.kernel)
def _lod_array_length(X: Tensor) -> Tensor:
    if isinstance(X, Buffer):
        return jnp.asarray(X.length, jnp.int64).reshape(1) if is_traced(X.length) else np.array([int(X.length)], "int64")
    return np.array([len(X)], "int64")


def _items(X: Tensor) -> list[Tensor]:
    if isinstance(X, Buffer):
        return [X.data[i] for i in range(len(X))]
    items = [X.read(i) for i in range(len(X))]
    if not items or any(item is None for item in items):
        raise InvalidValue(f"the array has {len(items)} elements, some of them empty: they cannot be put into one tensor")
    return items


@replaces(tensor_array.tensor_array_to_tensor.kernel)
def _tensor_array_to_tensor(
    X: Tensor, *, axis: int = 0, use_stack: bool = False, empty_shape: list[int] | tuple[()] = (), empty_dtype: str = ""
) -> Tensor:
    if isinstance(X, Buffer) and is_traced(X.length):
        return _joined(X, normal_axis(axis, X.rank + use_stack), use_stack)
    if empty_dtype and not len(X):
        none = jnp.asarray(tensor_array.stack_of_none(empty_shape, empty_dtype, axis, use_stack))
        return none, jnp.zeros(0, "int32")
    items = [jnp.asarray(item) for item in _items(X)]
    extents = tensor_array.extents_along([item.shape for item in items], axis, use_stack)
    return (jnp.stack(items, axis) if use_stack else jnp.concatenate(items, axis)), jnp.asarray(extents)


def _joined(X: Buffer, axis: int, use_stack: bool) -> tuple[Bounded, Bounded]:
    """The elements of an array whose length only the run knows, and the extents of each."""
    is_there = jnp.arange(X.capacity) < X.length
    refuse((X.length == 0) | (is_there & ~jnp.asarray(X.filled)).any(), "the array has no elements, or some of them are empty")
    data = jnp.moveaxis(X.data, 0, axis)
    # The elements of a Buffer have one shape, that of its data without the first axis.
    (extent,) = tensor_array.extents_along([X.data.shape[1:]], axis, use_stack)
    extents = Bounded.first(jnp.full(X.capacity, extent, "int32"), X.length, 0)
    if use_stack:
        return Bounded.first(data, X.length, axis), extents
    long = data.shape[axis + 1]
    merged = data.reshape(*data.shape[:axis], -1, *data.shape[axis + 2 :])
    return Bounded.first(merged, X.length * long, axis), extents


@of_bounded(tensor_array.tensor_to_tensor_array)
def _taken_apart(X: Tensor, Like: Tensor = None, *, axis: int = 0, use_stack: bool = True) -> Buffer:
    """A tensor whose extent only the run knows, in slices or pieces."""
    at = normal_axis(axis, X.ndim)
    if X.axis != at or not (use_stack or isinstance(Like, Buffer)):
        raise Known(f"X is {X!r}, of which an extent is known only when the program runs")
    long = 1 if use_stack else Like.data.shape[1 + at]
    parts = X.data.reshape(*X.data.shape[:at], -1, long, *X.data.shape[at + 1 :])
    data = jnp.moveaxis(parts.squeeze(at + 1) if use_stack else parts, at, 0)
    count = X.count // long
    return Buffer(data, jnp.arange(data.shape[0]) < count, count)


@of_bounded(tensor_array.tensor_array_like)
def _put_together(X: Tensor, Like: Bounded, Pieces: Tensor = None, *, axis: int = 0, use_stack: bool = True) -> Bounded:
    """The elements of an array in the shape of such a tensor, zeros for those that it has not."""
    long = 1 if use_stack else Pieces.data.shape[1 + normal_axis(axis, Like.ndim)]
    buffer = as_buffer(X, Like.capacity // long)
    if buffer.data is None:
        return Like.zeros_like()
    whole, _ = _joined(Buffer(buffer.data, np.ones(buffer.capacity, bool), Like.count // long), normal_axis(axis, Like.ndim), use_stack)
    return whole.sized(Like.capacity)


@replaces(tensor_array.tensor_to_tensor_array.kernel)
def _tensor_to_tensor_array(X: Tensor, Like: Tensor = None, *, axis: int = 0, use_stack: bool = True) -> Tensor:
    X = jnp.asarray(X)
    if use_stack:
        return TensorArray(list(jnp.moveaxis(X, axis, 0)))
    if Like is None:
        raise InvalidValue("without use_stack, Like says how long the pieces are")
    ends = np.cumsum([item.shape[axis] for item in _items(Like)])
    return TensorArray(jnp.split(X, ends[:-1], axis))


@replaces(tensor_array.tensor_array_like.kernel)
def _tensor_array_like(X: Tensor, Like: Tensor, Pieces: Tensor = None, *, axis: int = 0, use_stack: bool = True) -> Tensor:
    if isinstance(X, Buffer):
        count = Like.shape[axis] if use_stack else len(Pieces)
        # A buffer is as long as its capacity; only the elements that ``Like`` has count.
        X = TensorArray([X.data[i] for i in range(count)]) if X.data is not None else TensorArray()
    elements = dict(X.items())
    if use_stack:
        rows = jnp.moveaxis(jnp.zeros_like(Like), axis, 0)
        items = [jnp.asarray(elements.get(i, row)) for i, row in enumerate(rows)]
        return jnp.stack(items, axis) if items else jnp.zeros_like(Like)
    if Pieces is None:
        raise InvalidValue("without use_stack, Pieces says how long the pieces are")
    pieces = _items(Pieces)
    return jnp.concatenate([jnp.asarray(elements.get(i, jnp.zeros_like(piece))) for i, piece in enumerate(pieces)], axis)


# -- tapes ---------------------------------------------------------------------------------------


@of_bounded(tensor_array.push_tape)
@replaces(tensor_array.push_tape.kernel)
def _push_tape(Scopes: Tensor, X: list[Tensor], *, count: int) -> Tensor:
    return Scopes.push(X)


@replaces(tensor_array.pop_tape.kernel)
def _pop_tape(Scopes: Tensor, *, count: int) -> Tensor:
    tape, items = Scopes.pop()
    return tape, list(items)


@replaces(tensor_array.tape_has_more.kernel)
def _tape_has_more(Scopes: Tensor) -> Tensor:
    if isinstance(Scopes, TapeBuffer) and is_traced(Scopes.length):
        return (Scopes.length > 0).reshape(1)
    return np.array([len(Scopes) > 0])


replaces(aggregates.zeros_like, like.fill_zeros_like.kernel)(zeros_of)
