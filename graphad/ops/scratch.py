"""Memory for what a kernel forgets within a call."""

from __future__ import annotations

import threading
from math import prod

import numpy as np

from graphad.types import Array, Shape

KEPT_BYTES = 1 << 24


class _Kept(threading.local):
    """Memory that a thread keeps between calls: asking the system for it takes as long as filling it."""

    def __init__(self) -> None:
        self.memory: dict[str, Array] = {}


_KEPT = _Kept()


def scratch(use: str, shape: Shape, dtype: np.dtype[np.generic]) -> Array:
    """Memory for what is forgotten within the call, one array for each use at a time."""
    count = prod(shape) * dtype.itemsize
    if count > KEPT_BYTES:
        return np.empty(shape, dtype)
    array = _KEPT.memory.get(use)
    if array is None or len(array) < count:
        array = _KEPT.memory[use] = np.empty(count, np.uint8)
    return array[:count].view(dtype).reshape(shape)
