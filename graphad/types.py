"""Types of tensors: a shape with -1 for unknown extents, and a dtype by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphad.errors import InvalidType, InvalidValue, ShapeError

Shape = tuple[int, ...]
Array = NDArray[Any]  # of any dtype: what a kernel may do with it, inference says
Tensor = Any  # an array, or a symbol that stands for one: both have a shape, a dtype and arithmetic
Function = Callable[..., Any]  # with parameters of its own: a kernel, a gradient rule, the body of a block

FLOATS = ("float16", "float32", "float64")
INTS = ("bool", "uint8", "int8", "int16", "int32", "int64")
DTYPES = (*FLOATS, *INTS)

# The kinds of variable: a tensor, a list of tensors, what a block keeps for its gradient.
TENSOR, TENSOR_ARRAY, STEP_SCOPES = "LOD_TENSOR", "LOD_TENSOR_ARRAY", "STEP_SCOPES"
KINDS = (TENSOR, TENSOR_ARRAY, STEP_SCOPES)

# The dtype numbers of Fluid's serialized programs (framework.proto, VarType.Type).
DTYPE_OF_NUMBER = {0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "float16", 5: "float32", 6: "float64", 20: "uint8", 21: "int8"}


class TensorType(NamedTuple):
    """Shape and dtype of a tensor; an extent of -1 is not known before the program runs."""

    shape: Shape
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def dtype_name(dtype: Any) -> str:
    """The canonical name of a dtype given as a name, a numpy dtype, a Python type or Fluid's number.

    >>> dtype_name(np.float64), dtype_name("float32"), dtype_name(5), dtype_name(bool)
    ('float64', 'float32', 'float32', 'bool')
    """
    if isinstance(dtype, str) and dtype in DTYPES:
        return dtype
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        if dtype not in DTYPE_OF_NUMBER:
            raise InvalidValue(f"{dtype} is not the number of a dtype; known are {sorted(DTYPE_OF_NUMBER)}")
        return DTYPE_OF_NUMBER[dtype]
    try:
        name = str(np.dtype(dtype).name)
    except TypeError:
        raise InvalidType(f"{dtype!r} is not a dtype; known are {', '.join(DTYPES)}") from None
    if name not in DTYPES:
        raise InvalidValue(f"dtype {name!r} is not supported; supported are {', '.join(DTYPES)}")
    return name


def as_float(value: float | np.number) -> float:
    """A number as a float; InvalidValue if it is a whole number beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        raise InvalidValue(f"no float is as large as a whole number of {int(value).bit_length()} bits") from None


def checked_shape(shape: Iterable[int]) -> Shape:
    """The shape as a tuple of ints, each extent -1 or not negative, and of at most 64 bits."""
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise InvalidType(f"a shape is a list of ints, not {shape!r}")
    extents = tuple(shape)
    for extent in extents:
        if isinstance(extent, bool) or not isinstance(extent, int | np.integer):
            raise InvalidType(f"a shape is a list of ints, not {list(extents)!r}")
        if extent < -1:
            raise InvalidValue(f"shape {list(extents)} has the extent {extent}; an extent is -1 (unknown) or not negative")
        if extent >= 1 << 63:
            raise InvalidValue(f"an extent has at most 64 bits, not {int(extent).bit_length()}")
    return tuple(int(extent) for extent in extents)


def joined_extent(a: int, b: int) -> int | None:
    """The extent that agrees with both, None if they disagree."""
    if a == b or b == -1:
        return a
    return b if a == -1 else None


def joined_shape(a: Shape, b: Shape) -> Shape | None:
    """The shape that agrees with both ``a`` and ``b``; None if they disagree.

    >>> joined_shape((-1, 3), (8, -1)), joined_shape((2,), (3,))
    ((8, 3), None)
    """
    if len(a) != len(b):
        return None
    joined = tuple(map(joined_extent, a, b))
    return None if None in joined else joined  # type: ignore[return-value]


def broadcast_extent(a: int, b: int) -> int | None:
    """The extent of ``a`` broadcast with ``b`` by numpy's rule, None if they do not fit."""
    if a == 1 or a == b:
        return b
    if b == 1 or b == -1:
        return a
    return b if a == -1 else None


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Numpy's broadcasting over shapes that may have unknown extents.

    >>> broadcast_shapes((-1, 3), (1,), (4, 1))
    (4, 3)
    """
    rank = max(map(len, shapes))
    result: Shape = (1,) * rank
    for shape in shapes:
        padded = (1,) * (rank - len(shape)) + tuple(shape)
        extents = [broadcast_extent(a, b) for a, b in zip(result, padded, strict=True)]
        if None in extents:
            raise ShapeError("shapes " + " and ".join(str(list(s)) for s in shapes) + " do not broadcast together")
        result = tuple(e for e in extents if e is not None)
    return result


def element_count(shape: Iterable[int]) -> int:
    """The number of elements, -1 if an extent is unknown."""
    count = 1
    for extent in shape:
        if extent == -1:
            return -1
        count *= extent
    return count
