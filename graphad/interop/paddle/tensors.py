"""Arrays as Paddle stores them: each after a small header, one file each, or all concatenated in the order of their names.

A tensor is: u32 version, u64 number of levels of detail, for each u64 size and content, u32 version, i32 size of the
TensorDesc, the TensorDesc, the elements. All are little-endian.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping

import numpy as np

from graphad.errors import GraphadError, ParseError
from graphad.interop.paddle.program_desc import message, number_of
from graphad.types import DTYPE_OF_NUMBER, Array


class _Bytes:
    """Bytes read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = memoryview(data), 0

    @property
    def left(self) -> int:
        return len(self.data) - self.place

    def take(self, count: int) -> memoryview:
        if not 0 <= count <= self.left:
            raise ParseError(f"byte {self.place}: {count} bytes are wanted, {self.left} are left")
        self.place += count
        return self.data[self.place - count : self.place]

    def number(self, kind: str) -> int:
        return int(struct.unpack(kind, self.take(struct.calcsize(kind)))[0])


def read_tensor(data: bytes) -> Array:
    """The array of a file that holds one tensor; ParseError if it holds something else."""
    source = _Bytes(data)
    array = _tensor(source)
    if source.left:
        raise ParseError(f"byte {source.place}: {source.left} bytes are left after the tensor")
    return array


def read_tensors(data: bytes, names: Iterable[str]) -> dict[str, Array]:
    """The arrays of a file that holds many, by their names in order; ParseError says at which the file goes wrong."""
    source, arrays = _Bytes(data), {}
    for name in names:
        try:
            arrays[name] = _tensor(source)
        except GraphadError as error:
            raise ParseError(f"tensor {name!r}: {error}") from None
    if source.left:
        raise ParseError(f"byte {source.place}: {source.left} bytes are left after the last of {len(arrays)} tensors")
    return arrays


def _tensor(source: _Bytes) -> Array:
    _check_version(source)
    # No more levels than there are bytes: a damaged file may say any number.
    for _ in range(min(source.number("<Q"), source.left)):
        source.take(source.number("<Q"))
    _check_version(source)
    desc = message("VarType.TensorDesc")()
    try:
        desc.MergeFromString(bytes(source.take(source.number("<i"))))
    except GraphadError:
        raise
    except Exception as error:  # the runtime's DecodeError
        raise ParseError(f"byte {source.place}: not a TensorDesc: {error}") from None
    if desc.data_type not in DTYPE_OF_NUMBER or any(extent < 0 for extent in desc.dims):
        raise ParseError(f"byte {source.place}: a tensor of dtype {desc.data_type} and shape {list(desc.dims)}")
    dtype = np.dtype(DTYPE_OF_NUMBER[desc.data_type]).newbyteorder("<")
    content = source.take(math.prod(desc.dims) * dtype.itemsize)
    # A copy in the machine's byte order, which can be written to; what frombuffer gives is a view of the file's bytes.
    return np.frombuffer(content, dtype).reshape(tuple(desc.dims)).astype(dtype.newbyteorder("="))


def _check_version(source: _Bytes) -> None:
    if version := source.number("<I"):
        raise ParseError(f"byte {source.place}: a tensor of version {version}; version 0 is read here")


def write_tensors(arrays: Mapping[str, Array]) -> bytes:
    """The file that holds the arrays, in the order of their names."""
    return b"".join(_stored(arrays[name]) for name in sorted(arrays))


def _stored(array: Array) -> bytes:
    desc = message("VarType.TensorDesc")(data_type=number_of(array.dtype.name), dims=array.shape).SerializeToString()
    # Version 0, no levels of detail, version 0 of the tensor, and the size of the description that follows.
    head = struct.pack("<IQIi", 0, 0, 0, len(desc)) + bytes(desc)
    return head + array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
