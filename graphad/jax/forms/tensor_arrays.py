# ruff: noqa: E741
"""Arrays of tensors and tapes: with indices that are known as they are, else as buffers."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from graphad.errors import InvalidValue
from graphad.jax.registry import is_traced, refuse, replaces, room
from graphad.jax.stacks import Buffer, TapeBuffer, as_buffer, zeros_of
from graphad.ops import aggregates, like, tensor_array
from graphad.ops.aggregates import TensorArray
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
def _tensor_array_to_tensor(X: Tensor, *, axis: int = 0, use_stack: bool = False) -> Tensor:
    items = [jnp.asarray(item) for item in _items(X)]
    return jnp.stack(items, axis) if use_stack else jnp.concatenate(items, axis)


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
