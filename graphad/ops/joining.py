"""Operators that put tensors together and take them apart again: each with its transpose."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.definition import operator
from graphad.ops.dimensions import along_one_axis, one_axis_less
from graphad.ops.formulas import as_array
from graphad.ops.inference import matched, normal_axis, same_dtypes
from graphad.ops.traits import PART_OF_X, Declared
from graphad.types import Array, Shape, TensorType, joined_shape

NO_INTS: list[int] = []
_COPIED_TOGETHER: Declared = {
    "speculatable": "types",
    "linear": "X",
    "rows": "X",
    "along": "axis",
    "own": True,
    "narrow": "follows",
    "flops": 0,
}
_CONCATENATED: Declared = {**_COPIED_TOGETHER, "dimensions": along_one_axis}
_STACKED: Declared = {**_COPIED_TOGETHER, "dimensions": one_axis_less}


def _alike(tensors: Sequence[TensorType], apart_from: int | None = None) -> Shape:
    """The joined shape of tensors that may differ along one axis only; ShapeError naming two that do not fit."""
    same_dtypes(**{f"X[{i}]": x for i, x in enumerate(tensors)})
    joint_shape: Shape | None = _without(tensors[0].shape, apart_from)
    for i, x in enumerate(tensors):
        # What is known of one tensor is known of all: a later one is held against the shape of those before, not against the first.
        joint_shape = None if joint_shape is None else joined_shape(joint_shape, _without(x.shape, apart_from))
        if joint_shape is None or len(x.shape) != len(tensors[0].shape):
            but = "" if apart_from is None else f" except for axis {apart_from}"
            raise ShapeError(f"X[0] is {tensors[0]} but X[{i}] is {x}: their shapes must agree{but}")
    assert joint_shape is not None
    return joint_shape


def _without(shape: Shape, axis: int | None) -> Shape:
    return shape if axis is None else shape[:axis] + shape[axis + 1 :]


def _with(shape: Shape, axis: int, extent: int) -> Shape:
    return (*shape[:axis], extent, *shape[axis:])


# -- concat and split ----------------------------------------------------------------------------


def _concatenated(X: list[TensorType], *, axis: int = 0, **_: object) -> TensorType:
    at = normal_axis(axis, len(X[0].shape))
    # One of a lower rank is refused below, with both shapes; here it must not stop with an IndexError.
    extents = [x.shape[at] for x in X if at < len(x.shape)]
    # One tensor alone keeps its extent, be it a named one.
    return TensorType(_with(_alike(X, at), at, extents[0] if len(extents) == 1 else -1 if -1 in extents else sum(extents)), X[0].dtype)


@operator(
    "X* -> Out",
    infer=_concatenated,
    grad={"X": lambda X, dOut, *, axis: split_like(dOut, X, axis=axis)},
    shapes="X",
    **_CONCATENATED,
)
def concat(X: list[Array], *, axis: int = 0, num: int = 0, sections: list[int] = NO_INTS) -> Array:
    """The inputs concatenated along ``axis``."""
    return np.concatenate(X, axis=axis)


def _split_as(X: TensorType, Like: list[TensorType], *, axis: int = 0) -> list[TensorType]:
    whole_type = _concatenated(Like, axis=axis)
    if joined_shape(whole_type.shape, X.shape) is None:
        raise ShapeError(f"X is {X}: it is not made of pieces like Like, which together are {whole_type}")
    return [TensorType(like.shape, X.dtype) for like in Like]


@operator("X Like* -> Out*", infer=_split_as, grad={"X": lambda dOut, *, axis: concat(dOut, axis=axis)}, linear="X", view="X", flops=0)
def split_like(X: Array, Like: list[Array], *, axis: int = 0) -> list[Array]:
    """Pieces of X along ``axis`` in the shapes of Like: the transpose of ``concat``."""
    return _cut(X, [like.shape[axis] for like in Like], axis)


def _cut(X: Array, extents: list[int], axis: int) -> list[Array]:
    # Slices, not copies: the trait ``view`` of split and split_like says so.
    ends = np.cumsum(extents)
    return [_part(X, axis, end - extent, end) for extent, end in zip(extents, ends, strict=True)]


def _part(X: Array, axis: int, start: int, stop: int) -> Array:
    return X[(builtins.slice(None),) * (axis % X.ndim) + (builtins.slice(start, stop),)]


def _extents(shape: Shape, axis: int, num: int, sections: list[int]) -> list[int]:
    """The extents of the pieces; -1 where not known."""
    extent = shape[normal_axis(axis, len(shape))]
    error = ShapeError(f"X has the shape {list(shape)}: axis {axis} cannot be split with num={num}, sections={sections}")
    if (num < 1 and not sections) or sections.count(-1) > 1 or any(s < -1 for s in sections):
        raise error
    if not sections:
        if extent != -1 and extent % num:
            raise error
        return [-1 if extent == -1 else extent // num] * num
    # One section may be -1, which is what the others leave.
    rest = -1 if extent == -1 else extent - sum(s for s in sections if s != -1)
    if extent != -1 and (rest < 0 if -1 in sections else rest != 0):
        raise error
    return [rest if s == -1 else s for s in sections]


def _split_type(X: TensorType, *, num: int = 0, sections: list[int] = NO_INTS, axis: int = 0) -> list[TensorType]:
    extents = _extents(X.shape, axis, num, sections)
    at = normal_axis(axis, len(X.shape))
    return [TensorType(_with(_without(X.shape, at), at, e), X.dtype) for e in extents]


@operator(
    "X -> Out*",
    infer=_split_type,
    grad={"X": lambda dOut, *, axis: concat(dOut, axis=axis)},
    speculatable="extents",
    rows="X",
    along="axis",
    **PART_OF_X,
    dimensions=along_one_axis,
)
def split(X: Array, *, num: int = 0, sections: list[int] = NO_INTS, axis: int = 0) -> list[Array]:
    """X cut along ``axis`` into ``num`` equal pieces, or into pieces of the extents ``sections`` (one may be -1)."""
    return _cut(X, _extents(X.shape, axis, num, sections), axis)


# -- stack and unstack ---------------------------------------------------------------------------


def _stacked(X: list[TensorType], *, axis: int = 0) -> TensorType:
    at = normal_axis(axis, len(X[0].shape) + 1)
    return TensorType(_with(_alike(X), at, len(X)), X[0].dtype)


@operator(
    "X* -> Y",
    infer=_stacked,
    grad={"X": lambda X, dY, *, axis: unstack(dY, axis=axis, num=len(X))},
    shapes="X",
    **_STACKED,
)
def stack(X: list[Array], *, axis: int = 0) -> Array:
    """The inputs along a new axis."""
    return np.stack(X, axis=axis)


def _unstacked(X: TensorType, *, axis: int = 0, num: int = 0) -> list[TensorType]:
    at = normal_axis(axis, len(X.shape))
    count = X.shape[at]
    if count == -1 and num < 1:
        raise ShapeError(f"X is {X}: the extent along axis={axis} or num has to be known, since there is an output for each place")
    if num > 0 and not matched(count, num):
        raise ShapeError(f"X is {X}: it cannot be unstacked into num={num} along axis={axis}")
    # The number of outputs is part of the program's structure, so it may not wait for the run.
    return [TensorType(_without(X.shape, at), X.dtype)] * (num if num > 0 else count)


@operator(
    "X -> Y*",
    infer=_unstacked,
    grad={"X": lambda dY, *, axis: stack(dY, axis=axis)},
    speculatable="extents",
    **PART_OF_X,
    dimensions=one_axis_less,
)
def unstack(X: Array, *, axis: int = 0, num: int = 0) -> list[Array]:
    """The slices of X along ``axis``, without that axis."""
    # Copies: results own their memory, and slices of one axis lie apart.
    return [as_array(part) for part in np.moveaxis(X, axis, 0)]
