"""Operators that change only how elements are arranged or repeated: reshape, transpose, squeeze, flatten, expand, tile, flip."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Unpack

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.attributes import Types, given, hinted, is_given, numbers
from graphad.ops.casting import assign
from graphad.ops.definition import NO_INTS, OpDef, operator
from graphad.ops.dimensions import along_axis, reshaped, squeezed, transposed, with_other_extents
from graphad.ops.formulas import as_array
from graphad.ops.inference import matched, normal_axis
from graphad.ops.like import reshape_like, sum_like
from graphad.ops.summation import summed
from graphad.ops.traits import PART_OF_X, Declared
from graphad.types import Array, Shape, Tensor, TensorType, broadcast_shapes, element_count, joined_extent, joined_shape

OF_SHAPE: Declared = {"speculatable": "types", "cheap": True, "of_shape": True, "flops": 0}

# -- shapes known at run time only ---------------------------------------------------------------


@operator(
    "Input -> Out",
    infer=lambda Input: TensorType((), "int64"),
    grad={},
    **OF_SHAPE,
)
def size(Input: Array) -> Array:
    """The number of elements."""
    return as_array(Input.size, "int64")


# -- shapes and axes -------------------------------------------------------------------------------
# Operators that change only how elements are arranged: reshape, transpose, squeeze, flatten, expand, flip.
#
# Those named ``…2`` also give ``XShape``, an empty array whose shape is ``(0, *X.shape)``: all their gradients need of X.

NewShape = Callable[..., Shape]


def _back(dOut: Tensor, X: Tensor = None, XShape: Tensor = None) -> Tensor:
    # XShape is (0, *X.shape): its first axis does not count.
    return reshape_like(dOut, X) if XShape is None else reshape_like(dOut, XShape, skip=1)


def _with_old_shape(new_shape: NewShape) -> Callable[..., tuple[TensorType, TensorType]]:
    def infer(X: TensorType, **attrs: object) -> tuple[TensorType, TensorType]:
        return TensorType(new_shape(X.shape, **attrs), X.dtype), TensorType((0, *X.shape), X.dtype)

    return infer


def _alone(new_shape: NewShape) -> Callable[..., TensorType]:
    return lambda X, **attrs: TensorType(new_shape(X.shape, **attrs), X.dtype)


def _reshaping(new_shape: NewShape, **traits: Unpack[Declared]) -> Callable[[Callable[..., tuple[Array, Array]]], OpDef]:
    """An operator X -> Out XShape; the kernel is the function's."""
    all_traits: Declared = {**traits, "in_order": True}
    return operator("X -> Out XShape?", infer=_with_old_shape(new_shape), grad={"X": _back}, shapes="X XShape", **all_traits)


def _reshaping_alone(new_shape: NewShape, **traits: Unpack[Declared]) -> Callable[[Callable[..., Array]], OpDef]:
    """The same without XShape."""
    all_traits: Declared = {**traits, "in_order": True}
    return operator("X -> Out", infer=_alone(new_shape), grad={"X": lambda X, dOut: reshape_like(dOut, X)}, shapes="X", **all_traits)


def _old_shape(X: Array) -> Array:
    return np.empty((0, *X.shape), X.dtype)


# -- reshape -------------------------------------------------------------------------------------


def _reshaped(old: Shape, *, shape: list[int], allow_zero: bool = False) -> Shape:
    """The new shape: 0 keeps the extent at that place, -1 is what remains."""
    if allow_zero and 0 in shape:
        return _emptied(old, shape)
    if shape.count(-1) > 1 or any(e < -1 for e in shape) or any(e == 0 and i >= len(old) for i, e in enumerate(shape)):
        raise ShapeError(f"X has the shape {list(old)}: shape={shape} must have at most one -1, and 0 only where X has an axis")
    # Copied extents are on both sides, so they cancel, even where they are unknown.
    copied_axes = {i for i, e in enumerate(shape) if e == 0}
    count = element_count(e for i, e in enumerate(old) if i not in copied_axes)
    target_count = element_count(e for e in shape if e > 0)
    # One -1 takes any number that divides; without it the counts are equal.
    is_fitting = count == -1 or (count % target_count == 0 if -1 in shape else count == target_count)
    if not is_fitting:
        raise ShapeError(f"X has the shape {list(old)}: its elements do not fill shape={shape}")
    rest = _rest(old, copied_axes, target_count) if count == -1 else count // target_count
    return tuple(old[i] if e == 0 else joined_extent(rest, e) if e == -1 else e for i, e in enumerate(shape))  # type: ignore[misc]


def _emptied(old: Shape, shape: list[int]) -> Shape:
    """A shape without elements. What a -1 stands for beside a 0 cannot be told: it is refused, as in ONNX."""
    if min(shape) < 0 or element_count(old) > 0:
        raise ShapeError(f"X has the shape {list(old)}: with allow_zero, shape={shape} has no elements, and no -1 beside a 0")
    return tuple(shape)


def _rest(old: Shape, copied: set[int], target_count: int) -> int:
    """The extent that remains: the one that is not known, where the others have as many elements before and after; else -1."""
    extents = [e for i, e in enumerate(old) if i not in copied]
    open_ = [e for e in extents if e == -1]
    return open_[0] if len(open_) == 1 and prod(e for e in extents if e != -1) == target_count else -1


def _reshaped_type(
    X: TensorType,
    Shape: TensorType | None = None,
    ShapeTensor: Types | None = None,
    *,
    shape: list[int] | None = None,
    allow_zero: bool = False,
) -> TensorType:
    shape = given("shape", shape, Shape, ShapeTensor)
    if not is_given(Shape, ShapeTensor):
        return TensorType(_reshaped(X.shape, shape=shape, allow_zero=allow_zero), X.dtype)
    extents = hinted("ShapeTensor" if ShapeTensor else "Shape", shape, Shape, ShapeTensor)
    copied = {i for i, e in enumerate(extents) if e == 0 and i < len(X.shape) and not allow_zero}
    return TensorType(tuple(X.shape[i] if i in copied else e for i, e in enumerate(extents)), X.dtype)


def _reshaped_types(
    X: TensorType,
    Shape: TensorType | None = None,
    ShapeTensor: Types | None = None,
    *,
    shape: list[int] | None = None,
    allow_zero: bool = False,
) -> tuple[TensorType, TensorType]:
    return _reshaped_type(X, Shape, ShapeTensor, shape=shape, allow_zero=allow_zero), TensorType((0, *X.shape), X.dtype)


def _in_shape(X: Array, Shape: Array | None, ShapeTensor: list[Array] | None, shape: list[int], allow_zero: bool) -> Array:
    return X.reshape(_reshaped(X.shape, shape=numbers(shape, Shape, ShapeTensor), allow_zero=allow_zero))


@operator(
    "X Shape? ShapeTensor*? -> Out XShape?",
    infer=_reshaped_types,
    grad={"X": _back},
    shapes="X XShape",
    speculatable="extents",
    extents="Shape ShapeTensor",
    in_order=True,
    **PART_OF_X,
    dimensions=reshaped,
)
def reshape2(
    X: Array,
    Shape: Array | None = None,
    ShapeTensor: list[Array] | None = None,
    *,
    shape: list[int] = NO_INTS,
    allow_zero: bool = False,
) -> tuple[Array, Array]:
    """X in another shape: 0 keeps the extent at that place, one -1 is what remains.

    The extents of ShapeTensor, one each, or else those in Shape take the place of ``shape``, which may say what is known of them.
    With ``allow_zero``, as in ONNX, a 0 is an extent of 0.
    """
    return _in_shape(X, Shape, ShapeTensor, shape, allow_zero), _old_shape(X)


@operator(
    "X Shape? ShapeTensor*? -> Out",
    infer=_reshaped_type,
    grad={"X": lambda X, dOut: reshape_like(dOut, X)},
    shapes="X",
    linear="X",
    view="X",
    narrow="follows",
    flops=0,
    in_order=True,
    dimensions=reshaped,
)
def reshape(
    X: Array,
    Shape: Array | None = None,
    ShapeTensor: list[Array] | None = None,
    *,
    shape: list[int] = NO_INTS,
    allow_zero: bool = False,
) -> Array:
    """``reshape2`` without XShape."""
    return _in_shape(X, Shape, ShapeTensor, shape, allow_zero)


# -- transpose -----------------------------------------------------------------------------------


def _transposed(old: Shape, *, axis: list[int], data_format: str = "AnyLayout") -> Shape:
    if sorted(a % len(old) if -len(old) <= a < len(old) else -1 for a in axis) != list(range(len(old))):
        raise ShapeError(f"X has the shape {list(old)}: axis={axis} is not an order of its axes")
    return tuple(old[a] for a in axis)


def inverse_order(axis: list[int]) -> list[int]:
    """The order of axes that undoes ``axis``."""
    order = [a % len(axis) for a in axis]
    # order[k] is the old axis at place k, so axis i of X is at the place where i is.
    return [order.index(i) for i in range(len(order))]


@operator(
    "X -> Out XShape?",
    infer=_with_old_shape(_transposed),
    grad={"X": lambda dOut, XShape=None, *, axis: _transpose_grad(dOut, axis=axis)},
    shapes="XShape",
    speculatable="types",
    dimensions=transposed,
    **PART_OF_X,
)
def transpose2(X: Array, *, axis: list[int], data_format: str = "AnyLayout") -> tuple[Array, Array]:
    """X with its axes in another order."""
    return X.transpose(axis), _old_shape(X)


def _transpose_grad(dOut: Tensor, *, axis: list[int]) -> Tensor:
    return transpose(dOut, axis=inverse_order(axis))


@operator("X -> Out", infer=_alone(_transposed), grad={"X": _transpose_grad}, speculatable="types", dimensions=transposed, **PART_OF_X)
def transpose(X: Array, *, axis: list[int], data_format: str = "AnyLayout") -> Array:
    """``transpose2`` without XShape."""
    return X.transpose(axis)


# -- axes of extent one --------------------------------------------------------------------------


def _squeezed(old: Shape, *, axes: list[int] = NO_INTS) -> Shape:
    if not axes:
        return tuple(e for e in old if e != 1)
    # A scalar has no axis to leave out, and 0 and -1 are accepted for it, as in torch.
    dropped_axes = {normal_axis(a, len(old), "axes") for a in axes if old or a not in (0, -1)}
    # An unknown extent that is to go is taken for 1; a known one that is not 1 stays, as in Paddle.
    return tuple(e for i, e in enumerate(old) if i not in dropped_axes or e not in (1, -1))


@_reshaping(_squeezed, speculatable="types", rows="X", along="axes", dimensions=squeezed, **PART_OF_X)
def squeeze2(X: Array, *, axes: list[int] = NO_INTS) -> tuple[Array, Array]:
    """X without the named axes that have one element (without all such axes if none is named)."""
    return X.reshape(_squeezed(X.shape, axes=axes)), _old_shape(X)


@_reshaping_alone(_squeezed, speculatable="extents", rows="X", along="axes", dimensions=squeezed, **PART_OF_X)
def squeeze(X: Array, *, axes: list[int] = NO_INTS) -> Array:
    """``squeeze2`` without XShape."""
    return X.reshape(_squeezed(X.shape, axes=axes))


def _unsqueezed(old: Shape, *, axes: list[int]) -> Shape:
    new = list(old)
    for axis in axes:
        new.insert(normal_axis(axis, len(new) + 1, "axes"), 1)
    return tuple(new)


@_reshaping(_unsqueezed, speculatable="types", rows="X", along="axes", dimensions=with_other_extents, **PART_OF_X)
def unsqueeze2(X: Array, *, axes: list[int]) -> tuple[Array, Array]:
    """X with an axis of one element inserted at each of ``axes``, in this order."""
    return X.reshape(_unsqueezed(X.shape, axes=axes)), _old_shape(X)


@_reshaping_alone(_unsqueezed, speculatable="extents", rows="X", along="axes", dimensions=with_other_extents, **PART_OF_X)
def unsqueeze(X: Array, *, axes: list[int]) -> Array:
    """``unsqueeze2`` without XShape."""
    return X.reshape(_unsqueezed(X.shape, axes=axes))


# -- flatten -------------------------------------------------------------------------------------


def _flat_range(old: Shape, *, start_axis: int = 1, stop_axis: int = 1) -> Shape:
    # A scalar becomes a vector of one element, as in Paddle.
    if not old:
        return (1,)
    start, stop = normal_axis(start_axis, len(old), "start_axis"), normal_axis(stop_axis, len(old), "stop_axis")
    if start > stop:
        raise ShapeError(f"X has the shape {list(old)}: start_axis={start_axis} comes after stop_axis={stop_axis}")
    return (*old[:start], element_count(old[start : stop + 1]), *old[stop + 1 :])


@_reshaping(_flat_range, speculatable="extents", rows="X", along="start_axis", dimensions=with_other_extents, **PART_OF_X)
def flatten_contiguous_range(X: Array, *, start_axis: int = 1, stop_axis: int = 1) -> tuple[Array, Array]:
    """X with the axes from ``start_axis`` to ``stop_axis`` made one."""
    return X.reshape(_flat_range(X.shape, start_axis=start_axis, stop_axis=stop_axis)), _old_shape(X)


def _two_axes(old: Shape, *, axis: int = 1) -> Shape:
    if not 0 <= axis <= len(old):
        raise ShapeError(f"X has the shape {list(old)}: axis={axis} is out of range")
    return element_count(old[:axis]), element_count(old[axis:])


@_reshaping(_two_axes, speculatable="extents", rows="X", along="axis", dimensions=with_other_extents, **PART_OF_X)
def flatten2(X: Array, *, axis: int = 1) -> tuple[Array, Array]:
    """X as a matrix: the axes before ``axis`` make the rows, the others the columns."""
    return X.reshape(_two_axes(X.shape, axis=axis)), _old_shape(X)


@_reshaping_alone(
    _two_axes,
    linear="X",
    rows="X",
    along="axis",
    view="X",
    narrow="follows",
    flops=0,
    dimensions=with_other_extents,
)
def flatten(X: Array, *, axis: int = 1) -> Array:
    """``flatten2`` without XShape."""
    return X.reshape(_two_axes(X.shape, axis=axis))


# -- expand --------------------------------------------------------------------------------------


def _expanded(old: Shape, *, shape: list[int]) -> Shape:
    lead = len(shape) - len(old)
    if lead < 0 or any(e == -1 for e in shape[:lead]):
        raise ShapeError(f"X has the shape {list(old)}: it cannot be expanded to shape={shape}")
    # -1 keeps an old axis; a new axis in front has no old extent to keep.
    target = (*shape[:lead], *(o if e == -1 else e for o, e in zip(old, shape[lead:], strict=True)))
    if min(target, default=0) < -1 or any(o not in (1, -1, w) for o, w in zip(old, target[lead:], strict=True)):
        raise ShapeError(f"X has the shape {list(old)}: it cannot be expanded to shape={shape}")
    return target


def _expanded_type(
    X: TensorType, Shape: TensorType | None = None, expand_shapes_tensor: Types | None = None, *, shape: list[int] | None = None
) -> TensorType:
    shape = given("shape", shape, Shape, expand_shapes_tensor)
    if not is_given(Shape, expand_shapes_tensor):
        return TensorType(_expanded(X.shape, shape=shape), X.dtype)
    extents = hinted("expand_shapes_tensor" if expand_shapes_tensor else "Shape", shape, Shape, expand_shapes_tensor)
    if len(extents) < len(X.shape):
        raise ShapeError(f"X is {X}: it cannot be expanded to {len(extents)} axes")
    return TensorType(tuple(extents), X.dtype)


@operator(
    "X Shape? expand_shapes_tensor*? -> Out",
    infer=_expanded_type,
    grad={"X": lambda X, dOut: sum_like(dOut, X)},
    shapes="X",
    speculatable="extents",
    extents="Shape expand_shapes_tensor",
    **PART_OF_X,
)
def expand_v2(
    X: Array, Shape: Array | None = None, expand_shapes_tensor: list[Array] | None = None, *, shape: list[int] = NO_INTS
) -> Array:
    """X broadcast to ``shape``, or to the extents in the tensors given in its place; -1 keeps X's extent."""
    return np.broadcast_to(X, _expanded(X.shape, shape=numbers(shape, Shape, expand_shapes_tensor)))


def _expanded_as(X: TensorType, Y: TensorType | None = None, *, target_shape: list[int] = NO_INTS) -> TensorType:
    target = tuple(target_shape) if Y is None else Y.shape
    try:
        # The target decides: where X is wider, the joined shape is not the target's, or there is none.
        shape = joined_shape(broadcast_shapes(X.shape, target), target)
    except ShapeError:
        shape = None
    if shape is None:
        raise ShapeError(f"X is {X}: it does not broadcast to {list(target)}, the shape of Y")
    return TensorType(shape, X.dtype)


@operator("X Y? -> Out", infer=_expanded_as, grad={"X": lambda X, dOut: sum_like(dOut, X)}, shapes="X", speculatable="types", **PART_OF_X)
def expand_as_v2(X: Array, Y: Array | None = None, *, target_shape: list[int] = NO_INTS) -> Array:
    """X broadcast to the shape of Y, or to ``target_shape`` without Y."""
    return np.broadcast_to(X, tuple(target_shape) if Y is None else Y.shape)


# -- order along an axis -------------------------------------------------------------------------


def _along_axes(X: TensorType, *, axis: list[int] = NO_INTS, shifts: list[int] = NO_INTS) -> TensorType:
    for number in axis:
        normal_axis(number, len(X.shape))
    return X


def flipped(X: TensorType, *, axis: list[int]) -> TensorType:
    """The type of a tensor whose elements are in the reverse order along axes; ShapeError where one is named twice."""
    if len({normal_axis(number, len(X.shape)) for number in axis}) < len(axis):
        raise ShapeError(f"X is {X}: axis={axis} names an axis twice")
    return X


@operator(
    "X -> Out",
    infer=flipped,
    grad={"X": lambda dOut, *, axis: flip(dOut, axis=axis)},
    speculatable="extents",
    **PART_OF_X,
    dimensions=along_axis,
)
def flip(X: Array, *, axis: list[int]) -> Array:
    """X in reverse order along each of ``axis``."""
    return np.flip(X, tuple(axis))


@operator(
    "X -> Out",
    infer=_along_axes,
    grad={"X": lambda dOut, *, shifts, axis: roll(dOut, shifts=[-s for s in shifts], axis=axis) if shifts else assign(dOut)},
    linear="X",
    narrow="follows",
    flops=0,
    dimensions=along_axis,
)
def roll(X: Array, *, shifts: list[int], axis: list[int] = NO_INTS) -> Array:
    """X moved along each of ``axis``, what leaves at the end coming back at the front; all of X as one row without ``axis``."""
    # Without axes all shifts are along the one flat axis, so they add up.
    return np.roll(X, tuple(shifts), tuple(axis)) if axis else np.roll(X, sum(shifts))


@operator(
    "Input -> Out",
    name="shape",
    infer=lambda Input: TensorType((len(Input.shape),), "int32"),
    grad={},
    **OF_SHAPE,
)
def shape_(Input: Array) -> Array:
    """The extents of a tensor."""
    return np.array(Input.shape, "int32")


def wide(Y: Tensor, X: Tensor, axis: int) -> Tensor:
    """Y with axes of one element after its own, so that its first axis is at ``axis`` of X: ready for plain broadcasting."""
    return Y if axis == -1 or Y.ndim > X.ndim else unsqueeze(Y, axes=list(range(Y.ndim, X.ndim - axis)))


# -- repeated elements -----------------------------------------------------------------------------
# Tensors repeated along their axes: ``tile``, Fluid's older ``expand``, and what both are the transpose of.


def _tiling(old: Shape, repeats: list[int]) -> tuple[tuple[int, ...], Shape]:
    """Repeats and extents of the same length, filled with ones in front."""
    rank = max(len(old), len(repeats))
    return (1,) * (rank - len(repeats)) + tuple(repeats), (1,) * (rank - len(old)) + old


def _tiled(old: Shape, repeats: list[int] | None, tensor: TensorType | None, parts: Types | None, name: str = "repeat_times") -> Shape:
    repeats = given(name, repeats, tensor, parts)
    if is_given(tensor, parts):
        repeats = hinted("repeat_times_tensor" if parts else "RepeatTimes", repeats, tensor, parts)
    elif any(r < 0 for r in repeats):
        raise ShapeError(f"repeat_times={repeats} must not be negative")
    times, extents = _tiling(old, repeats)
    # A negative number stands for one that only the run knows, and makes the extent unknown; 1 keeps it.
    return tuple(e if r == 1 else -1 if e == -1 or r < 0 else r * e for r, e in zip(times, extents, strict=True))


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
    tiled_shape = _tiled(Like.shape, repeat_times, RepeatTimes, repeat_times_tensor)
    if len(tiled_shape) != len(X.shape) or not all(map(matched, tiled_shape, X.shape)):
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
    tiled_shape = tuple(r * e for r, e in zip(repeats, extents, strict=True))
    if tiled_shape != X.shape:
        raise InvalidValue(f"X has the shape {list(X.shape)}, but {list(repeats)} times Like has {list(tiled_shape)}")
    # (repeats, extent) at each axis: the sum over the repeats is what all tiles add up to.
    tiles = X.reshape([e for pair in zip(repeats, extents, strict=True) for e in pair])
    return as_array(summed(tiles, tuple(range(0, tiles.ndim, 2))), X.dtype).reshape(Like.shape)


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
    "X ExpandTimes? expand_times_tensor*? -> Out",
    infer=_expand_type,
    grad={"X": _expand_grad},
    shapes="X",
    linear="X",
    narrow="follows",
    flops=0,
)
def expand(
    X: Array, ExpandTimes: Array | None = None, expand_times_tensor: list[Array] | None = None, *, expand_times: list[int] = NO_INTS
) -> Array:
    """X repeated ``expand_times`` along its axes, one number for each."""
    return np.tile(X, _times(numbers(expand_times, ExpandTimes, expand_times_tensor)))
