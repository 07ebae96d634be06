"""Memory for what kernels write: for results, and for what a kernel forgets within a call."""

from __future__ import annotations

import threading
from math import prod

import numpy as np

from graphad.types import Array, Shape

KEPT_BYTES = 1 << 24
_LINE = 64  # bytes of a cache line
_ALIGNED_FROM = 1 << 15  # bytes, of which the beginning takes 2 microseconds to find: as long as it saves


def aligned(shape: Shape, dtype: np.dtype[np.generic]) -> Array:
    """An array to be filled that begins at a cache line, unless it is small.

    Large arrays of numpy's begin 16 bytes after one; a sum of two arrays takes 1.8 times as long to write there.
    """
    nbytes = prod(shape) * dtype.itemsize
    return np.empty(shape, dtype) if nbytes < _ALIGNED_FROM else np.ndarray(shape, dtype, _from_a_line(nbytes))


def _from_a_line(nbytes: int) -> Array:
    memory = np.empty(nbytes + _LINE, np.uint8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + nbytes]


class _Kept(threading.local):
    """Memory that a thread keeps between calls: asking the system for it takes as long as filling it."""

    def __init__(self) -> None:
        self.memory: dict[str, Array] = {}


_KEPT = _Kept()


def scratch(use: str, shape: Shape, dtype: np.dtype[np.generic]) -> Array:
    """Memory for what is forgotten within the call, one array for each use at a time."""
    count = prod(shape) * dtype.itemsize
    if count > KEPT_BYTES:
        return aligned(shape, dtype)
    array = _KEPT.memory.get(use)
    if array is None or len(array) < count:
        array = _KEPT.memory[use] = _from_a_line(count)
    return np.ndarray(shape, dtype, array)
