# ruff: noqa: E741
"""Arrays of tensors (``LOD_TENSOR_ARRAY``), and the tapes of loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.aggregates import Tape, TensorArray
from graphad.ops.definition import DType, operator
from graphad.ops.inference import normal_axis
from graphad.types import STEP_SCOPES, TENSOR_ARRAY, Array, Tensor, TensorType

# -- arrays ----------------------------------------------------------------------------------------
# Arrays of tensors (``LOD_TENSOR_ARRAY``): writing makes a new array; reading and writing are each other's gradient.
#
# An array's declared shape and dtype are those of its elements.

_ARRAY = {"Out": TENSOR_ARRAY}
_NO_INTS: list[int] = []


def _index(I: Array) -> int:
    # The usual case first: loops index at every iteration.
    if type(I) is np.ndarray and I.size == 1:
        return int(I.item())
    if np.size(I) != 1:
        raise InvalidValue(f"I is an index: one integer, not an array of {np.size(I)}")
    return int(np.reshape(I, ())[()])


def _check_index(I: TensorType) -> None:
    if I.dtype not in ("int32", "int64") or any(e not in (1, -1) for e in I.shape):
        raise ShapeError(f"I is {I}; an index is one int32 or int64")


def _empty(*, shape: list[int] | None = None, dtype: DType = "float32") -> TensorType | None:
    return None if shape is None else TensorType(tuple(shape), dtype)


@operator("-> Out", infer=_empty, grad={}, kinds=_ARRAY, flops=0)
def create_array(*, shape: list[int] | None = None, dtype: DType = "float32") -> TensorArray:
    """An array without elements; ``shape`` and ``dtype`` are those its elements will have."""
    return TensorArray()


def _written(X: TensorType, I: TensorType, Array: TensorType | None = None, *, fresh: bool = False) -> TensorType:
    _check_index(I)
    return X


@operator(
    "X I Array? -> Out",
    infer=_written,
    # Out is Array except for index I, where it is X: so dX is dOut's tensor at I, and dArray is dOut without it.
    grad={"X": lambda X, I, dOut: read_from_array(dOut, I, X), "Array": lambda I, dOut: clear_in_array(dOut, I)},
    kinds=_ARRAY,
    linear="X Array",
    extends="Array",
    flops=0,
)
def write_to_array(X: Array, I: Array, Array: TensorArray | None = None, *, fresh: bool = False) -> TensorArray:
    """Array with X at index I; without Array a new one: in a program only if ``fresh``, else the one that Out names already."""
    return (TensorArray() if Array is None else Array).write(_index(I), X)


@operator("X I -> Out", infer=lambda X, I: X, grad={"X": lambda I, dOut: clear_in_array(dOut, I)}, kinds=_ARRAY, linear="X")
def clear_in_array(X: TensorArray, I: Array) -> TensorArray:
    """X with nothing at index I."""
    return X.without(_index(I))


def _changed(X: TensorType, I: TensorType, V: TensorType | None = None) -> TensorType:
    _check_index(I)
    return X


# Slots move, and their cotangents move back: what one of the two does the other undoes.
@operator("X I -> Out", infer=_changed, grad={"X": lambda I, dOut: insert_in_array(dOut, I)}, kinds=_ARRAY, linear="X", flops=0)
def erase_in_array(X: TensorArray, I: Array) -> TensorArray:
    """X without slot I, so that later ones move up; X itself if it has none there."""
    return X.erase(_index(I))


@operator(
    "X I V? -> Out",
    infer=_changed,
    grad={"X": lambda I, dOut: erase_in_array(dOut, I), "V": lambda I, V, dOut: read_from_array(dOut, I, V)},
    kinds=_ARRAY,
    linear="X V",
    flops=0,
)
def insert_in_array(X: TensorArray, I: Array, V: Array | None = None) -> TensorArray:
    """X with one slot more, in front of slot I: it holds V, or nothing without that. Later ones move down."""
    return X.insert(_index(I), V)


def _element(X: TensorType, I: TensorType, Like: TensorType | None = None) -> TensorType:
    _check_index(I)
    return X if Like is None else Like


# Of the whole array the gradient is that of one tensor: empty except for index I.
@operator(
    "X I Like? -> Out", infer=_element, grad={"X": lambda I, dOut: write_to_array(dOut, I, fresh=True)}, linear="X", like="Like", flops=0
)
def read_from_array(X: TensorArray, I: Array, Like: Array | None = None) -> Array:
    """The tensor at index I; where nothing is there, or beyond the end, zeros in the shape of Like if that is given."""
    index = _index(I)
    # A gradient reads where nothing was written: the cotangent there is zero.
    if Like is not None and not 0 <= index < len(X):
        return np.zeros_like(Like)
    element = X.read(index)
    if element is None and Like is None:
        raise InvalidValue(f"the array has nothing at index {index}")
    return np.zeros_like(Like) if element is None else element


@operator("X -> Out", infer=lambda X: TensorType((1,), "int64"), grad={}, flops=0)
def lod_array_length(X: TensorArray) -> Array:
    """How many elements the array has."""
    return np.array([len(X)], "int64")


# -- arrays as one tensor ------------------------------------------------------------------------


def _stacked(
    X: TensorType, *, axis: int = 0, use_stack: bool = False, empty_shape: list[int] = _NO_INTS, empty_dtype: str = ""
) -> tuple[TensorType, TensorType]:
    rank = len(X.shape) + use_stack
    # The axis of the elements: new with use_stack, else as long as all of them together.
    at = normal_axis(axis, rank)
    shape = (*X.shape[:at], -1, *X.shape[at + (not use_stack) :])
    return TensorType(shape, X.dtype), TensorType((-1,), "int32")


@operator(
    "X -> Out OutIndex?",
    infer=_stacked,
    grad={"X": lambda X, dOut, *, axis=0, use_stack=False: tensor_to_tensor_array(dOut, X, axis=axis, use_stack=use_stack)},
)
def tensor_array_to_tensor(
    X: TensorArray, *, axis: int = 0, use_stack: bool = False, empty_shape: list[int] = _NO_INTS, empty_dtype: str = ""
) -> tuple[Array, Array]:
    """The elements of an array in one tensor: stacked along a new axis, or concatenated. OutIndex has each one's extent along the axis.

    With ``empty_dtype``, an array without elements is as if its elements, of which there are none, had ``empty_shape``; else it fails.
    """
    items = [X.read(i) for i in range(len(X))]
    if empty_dtype and not items:
        return stack_of_none(empty_shape, empty_dtype, axis, use_stack), extents_along([], axis, use_stack)
    if not items or any(item is None for item in items):
        raise InvalidValue(f"the array has {len(items)} elements, some of them empty: they cannot be put into one tensor")
    joined = np.stack(items, axis) if use_stack else np.concatenate(items, axis)
    return joined, extents_along([item.shape for item in items], axis, use_stack)


def extents_along(shapes: Sequence[Sequence[int]], axis: int, use_stack: bool) -> Array:
    """Paddle's OutIndex: the extent of each element along an axis of the result, 1 where only the result has that axis."""
    if not shapes:
        return np.zeros(0, "int32")
    at = normal_axis(axis, len(shapes[0]) + use_stack)
    return np.array([shape[at] if at < len(shape) else 1 for shape in shapes], "int32")


def stack_of_none(shape: Sequence[int], dtype: str, axis: int, use_stack: bool) -> Array:
    """The stack, or concatenation, of no elements of a shape."""
    at = normal_axis(axis, len(shape) + use_stack)
    return np.zeros((*shape[:at], 0, *shape[at + (not use_stack) :]), dtype)


def _unstacked(X: TensorType, Like: TensorType | None = None, *, axis: int = 0, use_stack: bool = True) -> TensorType:
    at = normal_axis(axis, len(X.shape))
    middle = () if use_stack else (-1,)
    return Like or TensorType((*X.shape[:at], *middle, *X.shape[at + 1 :]), X.dtype)


def _whole_grad(X: Tensor, dOut: Tensor, Like: Tensor = None, *, axis: int = 0, use_stack: bool = True) -> Tensor:
    return tensor_array_like(dOut, X, Like, axis=axis, use_stack=use_stack)


@operator("X Like? -> Out", infer=_unstacked, grad={"X": _whole_grad}, kinds=_ARRAY, shapes="X", linear="X")
def tensor_to_tensor_array(X: Array, Like: TensorArray | None = None, *, axis: int = 0, use_stack: bool = True) -> TensorArray:
    """A tensor taken apart along an axis: into slices, or into pieces as long as the elements of Like."""
    if use_stack:
        slices = X if axis == 0 else np.moveaxis(X, axis, 0)
        # Slices of a vector are numpy scalars, not arrays.
        return TensorArray(list(slices) if X.ndim > 1 else [np.asarray(item) for item in slices])
    if Like is None:
        raise InvalidValue("without use_stack, Like says how long the pieces are")
    ends = np.cumsum([Like.read(i).shape[axis] for i in range(len(Like))])
    return TensorArray(np.split(X, ends[:-1], axis))


def _pieces_of(dOut: Tensor, X: Tensor, Pieces: Tensor = None, *, axis: int = 0, use_stack: bool = True) -> Tensor:
    return tensor_to_tensor_array(dOut, None if use_stack else Pieces, axis=axis, use_stack=use_stack)


@operator("X Like Pieces? -> Out", infer=lambda X, Like, Pieces=None, *, axis=0, use_stack=True: Like, grad={"X": _pieces_of}, linear="X")
def tensor_array_like(X: TensorArray, Like: Array, Pieces: TensorArray | None = None, *, axis: int = 0, use_stack: bool = True) -> Array:
    """The elements of an array put into a tensor of the shape of Like, zeros where the array has none.

    Without ``use_stack`` they are joined, and Pieces has elements of the shapes that they have, or would have.
    """
    if use_stack:
        result = np.zeros_like(Like)
        slices = np.moveaxis(result, axis, 0)
        for index, item in X.items():
            slices[index] = item
        return result
    if Pieces is None:
        raise InvalidValue("without use_stack, Pieces says how long the pieces are")
    entries = dict(X.items())
    return np.concatenate([entries[i] if i in entries else np.zeros_like(Pieces.read(i)) for i in range(len(Pieces))], axis)


# -- tapes -----------------------------------------------------------------------------------------
# Tapes: what the iterations of a loop pass to its gradient. Pushing and popping are each other's gradient.
#
# Loops get them when a gradient of a loop is differentiated again (``expand-grad-ops``).

_TAPE = {"Out": STEP_SCOPES}
_TAPE_TYPE = TensorType((), "float32")  # a placeholder: a tape has no shape


@operator("-> Out", infer=lambda: _TAPE_TYPE, grad={}, kinds=_TAPE, flops=0)
def create_tape() -> Tape:
    """An empty tape."""
    return Tape()


@operator(
    "Scopes X* -> Out",
    infer=lambda Scopes, X, *, count: Scopes,
    grad={
        "Scopes": lambda dOut, *, count: pop_tape(dOut, count=count)[0],
        "X": lambda dOut, *, count: pop_tape(dOut, count=count)[1],
    },
    partial=True,
    kinds=_TAPE,
    linear="Scopes X",
    flops=0,
)
def push_tape(Scopes: Tape, X: list[Tensor], *, count: int) -> Tape:
    """The tape with one more entry, the ``count`` values in X; one of them may be missing."""
    return Scopes.push(X)


@operator(
    "Scopes -> Out X*",
    infer=lambda Scopes, *, count: (Scopes, [None] * count),
    grad={"Scopes": lambda dOut, dX, *, count: push_tape(dOut, dX, count=count)},
    partial=True,
    kinds=_TAPE,
    linear="Scopes",
    flops=0,
)
def pop_tape(Scopes: Tape, *, count: int) -> tuple[Tape, list[object]]:
    """The tape without its last entry, and the ``count`` tensors of that."""
    return Scopes.pop()


@operator("Scopes -> Out", infer=lambda Scopes: TensorType((1,), "bool"), grad={}, flops=0)
def tape_has_more(Scopes: Tape) -> Array:
    """Whether the tape has an entry left."""
    return np.array([len(Scopes) > 0])
