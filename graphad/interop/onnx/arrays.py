"""ONNX's tensors (TensorProto) as numpy arrays, and back; elements may lie in a file beside the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from graphad.errors import ParseError
from graphad.interop.protobuf import Desc
from graphad.types import Array

FLOAT, BFLOAT16, STRING = 1, 16, 8
DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
}
PACKED = {21: "uint8", 22: "int8"}  # integers of 4 bits, two in a byte: they are read as those of 8 bits
NUMBER_OF_DTYPE = {name: number for number, name in DTYPES.items()}
# The field of elements that are not in raw_data; the others are in int32_data, float16 as its bits.
_FIELDS = {"float32": "float_data", "float64": "double_data", "int64": "int64_data", "uint32": "uint64_data", "uint64": "uint64_data"}
_EXTERNAL = 1
_LARGEST = 1 << 33  # bytes of one tensor; what a file claims beyond is refused before it is allocated


def to_array(tensor: Desc, folder: Path | None) -> Array:
    """The array of a tensor.

    Args:
        tensor: a TensorProto.
        folder: where files with elements are; None: there are none.

    Returns:
        The array; bfloat16 as float32, integers of 4 bits as those of 8, strings as objects.

    Raises:
        ParseError: an element type that is not known, a number of elements that is not that of the extents, a file outside of the folder.
    """
    label = f"tensor {tensor.name!r}"
    shape = tuple(tensor.dims)
    count = math.prod(shape)
    if any(extent < 0 for extent in shape):
        raise ParseError(f"{label} has the extents {list(shape)}; an extent is not negative")
    if tensor.data_type == STRING:
        return _strings(tensor, label, shape, count)
    if tensor.data_type in PACKED:
        return _unpacked(tensor, label, count, folder).reshape(shape)
    if tensor.data_type != BFLOAT16 and tensor.data_type not in DTYPES:
        codes = ", ".join(map(str, sorted((*DTYPES, *PACKED))))
        raise ParseError(f"{label} has elements of type {tensor.data_type}; known are {codes} and {BFLOAT16}")
    # numpy has no bfloat16: its bits are read as uint16, and are the upper half of a float32.
    dtype = np.dtype("uint16" if tensor.data_type == BFLOAT16 else DTYPES[tensor.data_type]).newbyteorder("<")
    # Before anything is allocated: extents come from the file.
    if count * dtype.itemsize > _LARGEST:
        raise ParseError(f"{label} has the extents {list(shape)}, {count * dtype.itemsize} bytes; a tensor has at most {_LARGEST}")
    elements = _elements(tensor, label, dtype, count, folder)
    if elements.size != count:
        raise ParseError(f"{label} has {elements.size} elements; its extents {list(shape)} are {count}")
    array = elements.reshape(shape)
    return _from_bfloat16(array) if tensor.data_type == BFLOAT16 else array.astype(dtype.newbyteorder("="), copy=False)


def to_dense(sparse: Desc, folder: Path | None, room: Callable[[Sequence[int], str], None]) -> Array:
    """The array of a sparse tensor (SparseTensorProto), zeros included.

    Args:
        sparse: elements that are not 0, and where they are: places counted through all axes, or an index for each axis.
        folder: as of ``to_array``.
        room: raises where an array of a shape and a dtype is too large; a few bytes of a file may ask for any number of zeros.

    Raises:
        ParseError: places that do not belong to the elements, or lie outside of the extents.
    """
    label, shape = f"sparse tensor {sparse.values.name!r}", tuple(sparse.dims)
    if any(extent < 0 for extent in shape):
        raise ParseError(f"{label} has the extents {list(shape)}; an extent is not negative")
    values, places = to_array(sparse.values, folder), to_array(sparse.indices, folder)
    count = values.size
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise ParseError(f"{label} has elements {values.dtype}{list(values.shape)}; a vector of numbers is expected")
    if places.dtype != "int64" or places.shape not in ((count,), (count, len(shape))):
        raise ParseError(f"{label} has {count} elements, and indices {places.dtype}{list(places.shape)}")
    room(shape, values.dtype.name)
    limits = np.asarray(shape if places.ndim == 2 else math.prod(shape), "int64")
    if ((places < 0) | (places >= limits)).any():
        raise ParseError(f"{label} has an index outside of its extents {list(shape)}")
    dense = np.zeros(shape, values.dtype)
    if places.ndim == 2:
        dense[tuple(places.T)] = values
    else:
        dense.reshape(-1)[places] = values
    return dense


def _unpacked(tensor: Desc, label: str, count: int, folder: Path | None) -> Array:
    """Integers of 4 bits: of each byte the lower half comes first, and the last byte may be half full."""
    size = -(-count // 2)
    if size > _LARGEST:
        raise ParseError(f"{label} has {count} elements, {size} bytes; a tensor has at most {_LARGEST}")
    packed = _elements(tensor, label, np.dtype("uint8"), size, folder)
    if packed.size != size:
        raise ParseError(f"{label} has {packed.size} bytes; its {count} elements are {size}")
    halves = np.stack([packed & 15, packed >> 4], -1).ravel()[:count].astype(PACKED[tensor.data_type])
    return halves if tensor.data_type == 21 else (halves ^ 8) - np.int8(8)  # the sign is the highest of the four bits


def _elements(tensor: Desc, what: str, dtype: np.dtype[np.generic], count: int, folder: Path | None) -> Array:
    if tensor.data_location == _EXTERNAL:
        return _whole(_external(tensor, what, count * dtype.itemsize, folder), what, dtype)
    if tensor.HasField("raw_data"):
        return _whole(tensor.raw_data, what, dtype)
    name = dtype.newbyteorder("=").name
    values = list(getattr(tensor, _FIELDS.get(name, "int32_data")))
    # ONNX stores the bits of float16 as int32.
    if name == "float16":
        return np.asarray(values, "uint16").view("float16")
    try:
        return np.asarray(values).astype(dtype) if values else np.empty(0, dtype)
    except (OverflowError, ValueError) as error:
        raise ParseError(f"{what}: {error}") from None


def _whole(data: bytes, what: str, dtype: np.dtype[np.generic]) -> Array:
    if len(data) % dtype.itemsize:
        raise ParseError(f"{what} has {len(data)} bytes, which are no whole elements of {dtype.itemsize}")
    return np.frombuffer(data, dtype)


def _external(tensor: Desc, what: str, size: int, folder: Path | None) -> bytes:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ParseError(f"{what} lies in the file {location!r}, and the model was read from bytes: give its path instead")
    # Resolved first: links and ".." must not lead out of the folder.
    path = (folder / location).resolve()
    if not location or not path.is_relative_to(folder.resolve()):
        raise ParseError(f"{what} lies in {location!r}, which is outside of the model's folder")
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", size))
    except ValueError as error:
        raise ParseError(f"{what} lies in {location!r}: {error}") from None
    if offset < 0 or length != size:
        raise ParseError(f"{what} lies in {location!r} at {offset} with {length} bytes; {size} are expected")
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data: bytes = file.read(length)
    except OSError as error:
        raise ParseError(f"{what} lies in {location!r}, which cannot be read: {error.strerror}") from None
    if len(data) != length:
        raise ParseError(f"{what} lies in {location!r} at {offset}: {len(data)} bytes are there, {length} are expected")
    return data


def _strings(tensor: Desc, what: str, shape: tuple[int, ...], count: int) -> Array:
    strings = [element.decode("utf-8", "surrogateescape") for element in tensor.string_data]
    if len(strings) != count:
        raise ParseError(f"{what} has {len(strings)} strings; its extents {list(shape)} are {count}")
    return np.asarray(strings, object).reshape(shape)


def _from_bfloat16(bits: Array) -> Array:
    return (bits.astype("uint32") << 16).view("float32")


def to_tensor(tensor: Desc, name: str, array: Array) -> None:
    """Put a name and an array into a TensorProto."""
    tensor.name, tensor.data_type = name, NUMBER_OF_DTYPE[array.dtype.name]
    tensor.dims.extend(array.shape)
    tensor.raw_data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
