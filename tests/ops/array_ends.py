"""Loops over arrays that end where memory ends, so that reading on ends the process: ``python -m tests.ops.array_ends``; Linux."""

from __future__ import annotations

import ctypes
import mmap
from itertools import product

import numpy as np

from graphad.ops.window_loops import scattered_by_loop
from graphad.ops.windows import axes
from graphad.types import Array

WINDOWS = ((3, 2, 1), (2, 2, 0), (3, 1, 1))  # extent, stride and padding
EXTENTS = ((4, 4), (5, 7), (2, 15), (9, 16), (3, 33), (40, 2))
_memory: list[mmap.mmap] = []  # kept as long as the arrays in it


def at_the_end(array: Array) -> Array:
    """A copy whose last byte is the last one of a page, where the page after it cannot be read."""
    size = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    _memory.append(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + size), mmap.PAGESIZE, 0):
        raise OSError("mprotect fails")
    copy: Array = np.frombuffer(memory, array.dtype, array.size, size - array.nbytes).reshape(array.shape)
    copy[...] = array
    return copy


def main() -> None:
    """Run the loops of gradients of maxima, which read rows in whole vectors; print ``done`` if the process is still there."""
    for (kernel, stride, padding), extents, samples in product(WINDOWS, EXTENTS, (1, 3)):
        window_axes = axes(extents, (kernel, kernel), strides=(stride, stride), paddings=(padding,) * 4)
        x = np.random.default_rng(0).standard_normal((samples, 1, *extents)).astype("float32")
        peaks = np.zeros((samples, 1, *(axis.count for axis in window_axes)), "float32")
        scattered_by_loop(at_the_end(x), at_the_end(peaks), at_the_end(peaks + 1), window_axes)
    print("done")


if __name__ == "__main__":
    main()
