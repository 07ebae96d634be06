"""Tensors repeated along their axes: ``tile``, Fluid's older ``expand``, and what both are the transpose of."""

from __future__ import annotations

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.definition import Array, Tensor, operator
from graphad.ops.extents import Types, given, hinted, is_given, numbers
from graphad.ops.inference import matched
from graphad.ops.summation import summed
from graphad.types import Shape, TensorType

NO_INTS: list[int] = []


def _tiling(old: Shape, repeats: list[int]) -> tuple[tuple[int, ...], Shape]:
    """Repeats and extents of the same length, filled with ones in front."""
    rank = max(len(old), len(repeats))
    return (1,) * (rank - len(repeats)) + tuple(repeats), (1,) * (rank - len(old)) + old


def _tiled(old: Shape, repeats: list[int] | None, whole: TensorType | None, each: Types | None, name: str = "repeat_times") -> Shape:
    repeats = given(name, repeats, whole, each)
    if is_given(whole, each):
        repeats = hinted("repeat_times_tensor" if each else "RepeatTimes", repeats, whole, each)
    elif any(r < 0 for r in repeats):
        raise ShapeError(f"repeat_times={repeats} must not be negative")
    times, extents = _tiling(old, repeats)
    return tuple(-1 if e == -1 or r < 0 else r * e for r, e in zip(times, extents, strict=True))


def _tile_type(
    X: TensorType, RepeatTimes: TensorType | None = None, repeat_times_tensor: Types | None = None, *, repeat_times: list[int] | None = None
) -> TensorType:
    return TensorType(_tiled(X.shape, repeat_times, RepeatTimes, repeat_times_tensor), X.dtype)


def _tile_grad(X: Tensor, dOut: Tensor, RepeatTimes: Tensor, repeat_times_tensor: list[Tensor], *, repeat_times: list[int]) -> Tensor:
    return untile(dOut, X, RepeatTimes, repeat_times_tensor, repeat_times=repeat_times)


@operator(
    "X RepeatTimes? repeat_times_tensor*? -> Out",
    infer=_tile_type,
    grad={"X": _tile_grad},
    shapes="X",
    speculatable="extents",
    safe_dtypes="all",
    extents="RepeatTimes repeat_times_tensor",
    linear="X",
    own=True,
    narrow="follows",
    flops=0,
)
def tile(
    X: Array, RepeatTimes: Array | None = None, repeat_times_tensor: list[Array] | None = None, *, repeat_times: list[int] = NO_INTS
) -> Array:
    """X repeated along each axis: as often as the tensors say if there are any, else ``repeat_times``."""
    return np.tile(X, _times(numbers(repeat_times, RepeatTimes, repeat_times_tensor)))


def _times(repeats: list[int]) -> list[int]:
    if any(r < 0 for r in repeats):
        raise InvalidValue(f"a tensor cannot be repeated {repeats} times along its axes: none may be negative")
    return repeats


def _untiled(
    X: TensorType,
    Like: TensorType,
    RepeatTimes: TensorType | None = None,
    repeat_times_tensor: Types | None = None,
    *,
    repeat_times: list[int] | None = None,
) -> TensorType:
    tiled = _tiled(Like.shape, repeat_times, RepeatTimes, repeat_times_tensor)
    if len(tiled) != len(X.shape) or not all(map(matched, tiled, X.shape)):
        raise ShapeError(f"X is {X}: it is not {repeat_times} times Like, which is {Like}")
    return TensorType(Like.shape, X.dtype)


def _untile_grad(dOut: Tensor, RepeatTimes: Tensor, repeat_times_tensor: list[Tensor], *, repeat_times: list[int]) -> Tensor:
    return tile(dOut, RepeatTimes, repeat_times_tensor, repeat_times=repeat_times)


@operator("X Like RepeatTimes? repeat_times_tensor*? -> Out", infer=_untiled, grad={"X": _untile_grad}, linear="X")
def untile(
    X: Array,
    Like: Array,
    RepeatTimes: Array | None = None,
    repeat_times_tensor: list[Array] | None = None,
    *,
    repeat_times: list[int] = NO_INTS,
) -> Array:
    """The sum of the tiles X is made of: the transpose of ``tile``. Only Like's shape is read."""
    repeats, extents = _tiling(Like.shape, _times(numbers(repeat_times, RepeatTimes, repeat_times_tensor)))
    tiled = tuple(r * e for r, e in zip(repeats, extents, strict=True))
    if tiled != X.shape:
        raise InvalidValue(f"X has the shape {list(X.shape)}, but {list(repeats)} times Like has {list(tiled)}")
    split = X.reshape([e for pair in zip(repeats, extents, strict=True) for e in pair])
    return np.asarray(summed(split, tuple(range(0, split.ndim, 2))), X.dtype).reshape(Like.shape)


def _expand_type(
    X: TensorType, ExpandTimes: TensorType | None = None, expand_times_tensor: Types | None = None, *, expand_times: list[int] | None = None
) -> TensorType:
    shape = _tiled(X.shape, expand_times, ExpandTimes, expand_times_tensor, "expand_times")
    if len(shape) != len(X.shape) or (not is_given(ExpandTimes, expand_times_tensor) and len(expand_times or []) != len(shape)):
        raise ShapeError(f"X is {X}: expand takes one number for each axis, not expand_times={expand_times}")
    return TensorType(shape, X.dtype)


def _expand_grad(X: Tensor, dOut: Tensor, ExpandTimes: Tensor, expand_times_tensor: list[Tensor], *, expand_times: list[int]) -> Tensor:
    return untile(dOut, X, ExpandTimes, expand_times_tensor, repeat_times=expand_times)


@operator(
    "X ExpandTimes? expand_times_tensor*? -> Out", infer=_expand_type, grad={"X": _expand_grad}, shapes="X", linear="X", narrow="follows"
)
def expand(
    X: Array, ExpandTimes: Array | None = None, expand_times_tensor: list[Array] | None = None, *, expand_times: list[int] = NO_INTS
) -> Array:
    """X repeated ``expand_times`` along its axes, one number for each."""
    return np.tile(X, _times(numbers(expand_times, ExpandTimes, expand_times_tensor)))
