"""Types of tensors: a shape with -1 for unknown extents, and a dtype by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphad.errors import InvalidType, InvalidValue, ShapeError

Shape = tuple[int, ...]
Sizes = int | Mapping[str, int]  # numbers for extents that are not known: one for all, or by their names
Array = NDArray[Any]  # of any dtype: what a kernel may do with it, inference says
# An array of numpy's or jax's, or a symbol that stands for one: they have a shape, a dtype and arithmetic. Any, and no protocol or union:
# kernels and rules run over each of them as they are, results are numpy's Any, absent operands None, and what fits, inference says. mypy
# finds 1,343 errors with a protocol, 2,056 with a union of the classes; of a sample of them none is a mistake.
Tensor = Any
Function = Callable[..., Any]  # with parameters of its own: a kernel, a gradient rule, the body of a block

FLOATS = ("float16", "float32", "float64")
INTS = ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *INTS)

# The kinds of variable: a tensor, a list of tensors, what a block keeps for its gradient.
TENSOR, TENSOR_ARRAY, STEP_SCOPES = "LOD_TENSOR", "LOD_TENSOR_ARRAY", "STEP_SCOPES"
KINDS = (TENSOR, TENSOR_ARRAY, STEP_SCOPES)

# The dtype numbers of Fluid's serialized programs (framework.proto, VarType.Type).
DTYPE_OF_NUMBER = {0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "float16", 5: "float32", 6: "float64", 20: "uint8", 21: "int8"}


class Extent(int):
    """An extent that is not known before the program runs, and has a name: of two of one name, each run has one number.

    It is -1 to whatever does not ask for names. One object stands for a name, so ``is`` compares names.

    Raises:
        ValueError: the name is empty.

    >>> batch = Extent("batch")
    >>> batch == -1, batch.name, [batch, 4], Extent("batch") is batch
    (True, 'batch', [batch, 4], True)
    """

    name: str
    text: str

    def __new__(cls, name: str) -> Extent:
        existing = _EXTENTS.get(name)
        if existing is not None:
            return existing
        if not isinstance(name, str):
            raise InvalidType(f"the name of an extent is a string, not {name!r}")
        if not name:
            raise InvalidValue("the name of an extent is not empty")
        extent = super().__new__(cls, -1)
        extent.name, extent.text = name, json.dumps(name) if name in NOT_NAMES else bare_or_quoted(name)
        # Of two threads that make the name at the same time, both get the same object.
        return _EXTENTS.setdefault(name, extent)

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__

    def __reduce__(self) -> tuple[type[Extent], tuple[str]]:
        return Extent, (self.name,)

    def __deepcopy__(self, memo: object) -> Extent:
        return self


_EXTENTS: dict[str, Extent] = {}


def has_names(shape: Shape) -> bool:
    """Whether an extent of a shape has a name: an ``Extent`` is equal to -1, whatever its name."""
    return bool(_EXTENTS) and Extent in map(type, shape)  # most processes have no names at all


_BARE = re.compile(r"[A-Za-z_][\w.@/-]*(?<!-)", re.ASCII)


NOT_NAMES = ("inf", "nan")


def bare_or_quoted(name: str) -> str:
    """The name as texts have it: quoted if it is not made of plain characters."""
    return name if _BARE.fullmatch(name) else json.dumps(name)


class TensorType(NamedTuple):
    """Shape and dtype of a tensor; an extent of -1 is not known before the program runs, and may have a name (``Extent``)."""

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


def checked_shape(shape: Iterable[int | str]) -> Shape:
    """The shape as a tuple of ints, each extent -1 or not negative, and of at most 64 bits; a string is an extent's name."""
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise InvalidType(f"a shape is a list of ints, not {shape!r}")
    extents = tuple(shape)
    if _INT.issuperset(map(type, extents)) and (not extents or (min(extents) >= -1 and max(extents) < _TOO_LARGE)):  # type: ignore[operator]
        return extents  # type: ignore[return-value]
    return tuple(_checked(extent, extents) for extent in extents)


_TOO_LARGE = 1 << 63
_INT = frozenset((int,))


def _checked(extent: object, extents: Sequence[object]) -> int:
    if isinstance(extent, str):
        return Extent(extent)
    if isinstance(extent, Extent):
        return extent
    if isinstance(extent, bool) or not isinstance(extent, int | np.integer):
        raise InvalidType(f"a shape is a list of ints, not {list(extents)!r}")
    if extent < -1:
        raise InvalidValue(f"shape {list(extents)} has the extent {extent}; an extent is -1 (unknown) or not negative")
    if extent >= _TOO_LARGE:
        raise InvalidValue(f"an extent has at most 64 bits, not {int(extent).bit_length()}")
    return int(extent)


def same_extent(a: int, b: int) -> bool:
    """Whether two extents are known to be the same number: two numbers that are equal, or two of one name.

    >>> same_extent(3, 3), same_extent(Extent("batch"), Extent("batch")), same_extent(-1, -1), same_extent(Extent("batch"), -1)
    (True, True, False, False)
    """
    return a is b if type(a) is Extent else a == b != -1


def same_shape(a: Shape, b: Shape) -> bool:
    """Whether two shapes are known to be the same."""
    return len(a) == len(b) and all(map(same_extent, a, b))


def common_extent(a: int, b: int) -> int:
    """The extent of what is of one or of the other: -1 without a name where they may differ."""
    return a if a is b or a == b != -1 else -1


def joined_extent(a: int, b: int) -> int | None:
    """The extent that agrees with both, with its name where one of them has one; None if they disagree."""
    if a == b:
        return a if type(a) is Extent else b
    if b == -1:
        return a
    return b if a == -1 else None


def joined_shape(a: Shape, b: Shape) -> Shape | None:
    """The shape that agrees with both ``a`` and ``b``; None if they disagree.

    >>> joined_shape((-1, 3), (8, -1)), joined_shape((2,), (3,))
    ((8, 3), None)
    """
    if len(a) != len(b):
        return None
    extents = tuple(map(joined_extent, a, b))
    return None if None in extents else extents  # type: ignore[return-value]


def broadcast_extent(a: int, b: int) -> int | None:
    """The extent of ``a`` broadcast with ``b`` by numpy's rule, None if they do not fit."""
    if a == 1:
        return b
    if a == b:
        # Of two unknown extents only those of one name, which are one object, are known to be equal.
        return b if a is b or a != -1 else -1
    if b == 1 or b == -1:
        return a
    return b if a == -1 else None


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Numpy's broadcasting over shapes that may have unknown extents.

    >>> broadcast_shapes((-1, 3), (1,), (4, 1))
    (4, 3)
    """
    first, *others = shapes
    result = tuple(first)
    for shape in others:
        rank = max(len(result), len(shape))
        full_shape = (1,) * (rank - len(shape)) + tuple(shape)
        extents = tuple(map(broadcast_extent, (1,) * (rank - len(result)) + result, full_shape))
        if None in extents:
            raise ShapeError("shapes " + " and ".join(str(list(s)) for s in shapes) + " do not broadcast together")
        result = extents  # type: ignore[assignment]
    return result


def element_count(shape: Iterable[int]) -> int:
    """The number of elements; where an extent is unknown, that extent if it alone is not 1, else -1."""
    count, open_ = 1, None
    for extent in shape:
        if extent != -1:
            count *= extent
        elif open_ is not None:
            return -1
        else:
            open_ = extent
    return count if open_ is None else open_ if count == 1 else -1
