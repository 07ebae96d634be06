"""Type rules that many operators share: shapes, axes, dtypes."""

from __future__ import annotations

from graphad.errors import ShapeError
from graphad.types import FLOATS, INTS, Shape, TensorType, broadcast_extent, broadcast_shapes

FAR = (1 << 31) - 1  # the end of a slice that runs to the last element, as in Paddle


def same(X: TensorType, *_: object, **__: object) -> TensorType:
    """The output is like the first input."""
    return X


def same_float(X: TensorType, *_: object, **__: object) -> TensorType:
    """The output is like the first input, which must be floating point."""
    if X.dtype not in FLOATS:
        raise ShapeError(f"X is {X}; a floating-point dtype is expected")
    return X


def same_number(X: TensorType, *_: object, **__: object) -> TensorType:
    """The output is like the first input, which must not be boolean."""
    if X.dtype == "bool":
        raise ShapeError(f"X is {X}; numbers are expected")
    return X


def same_dtypes(**inputs: TensorType | None) -> str:
    """The one dtype of all the inputs given; ShapeError naming two that differ."""
    types = [(name, t) for name, t in inputs.items() if t is not None]
    first, like = types[0]
    for name, t in types[1:]:
        if t.dtype != like.dtype:
            raise ShapeError(f"{first} is {like} but {name} is {t}: their dtypes differ; x.astype(dtype) casts")
    return like.dtype


def aligned(x: Shape, y: Shape, axis: int) -> Shape:
    """The shape of ``y`` padded with ones so that it broadcasts against ``x`` from ``axis`` on.

    Fluid's rule (elementwise operators): ``axis`` is where y's first axis is in x; -1 aligns the last axes.

    >>> aligned((2, 3, 4), (3,), 1), aligned((2, 3, 4), (4,), -1)
    ((3, 1), (4,))
    """
    if axis == -1 or len(y) > len(x):
        return y
    return y + (1,) * (len(x) - axis - len(y))


def broadcast(X: TensorType, Y: TensorType, *, axis: int = -1) -> TensorType:
    """Elementwise over two inputs, the smaller one broadcast."""
    dtype = same_dtypes(X=X, Y=Y)
    if axis != -1 and not 0 <= axis <= len(X.shape) - len(Y.shape):
        # Paddle 2 aligns X with Y where X has fewer axes, Fluid refuses that: so do we, rather than take one for the other.
        why = (
            "is out of range for aligning Y with X"
            if len(Y.shape) <= len(X.shape)
            else "aligns Y with X, which has fewer axes: exchange them"
        )
        raise ShapeError(f"X is {X}, Y is {Y}: axis={axis} {why}")
    try:
        return TensorType(broadcast_shapes(X.shape, aligned(X.shape, Y.shape, axis)), dtype)
    except ShapeError:
        raise ShapeError(f"X is {X} but Y is {Y}: they do not broadcast together (axis={axis})") from None


def arithmetic(X: TensorType, Y: TensorType, *, axis: int = -1) -> TensorType:
    """Like ``broadcast``, of inputs that must not be boolean."""
    return broadcast(same_number(X), Y, axis=axis)


def compared(X: TensorType, Y: TensorType, *, axis: int = -1) -> TensorType:
    """Like ``broadcast``, giving booleans."""
    return TensorType(broadcast(X, Y, axis=axis).shape, "bool")


def normal_axis(axis: int, rank: int, what: str = "axis") -> int:
    """The axis counted from the front; ShapeError if the rank has no such axis."""
    if not -rank <= axis < rank:
        raise ShapeError(f"{what}={axis} is out of range for a tensor of {rank} axes")
    # No rank of 0 comes here: the check refuses every axis of it.
    return axis % rank


def reduced_axes(rank: int, dim: list[int], reduce_all: bool) -> tuple[int, ...]:
    """The axes a reduction runs over: all of them if ``reduce_all`` or none is named."""
    if reduce_all or not dim or rank == 0:
        return tuple(range(rank))
    return tuple(sorted({normal_axis(d, rank, "dim") for d in dim}))


def reduced(X: TensorType, *, dim: list[int] | None = None, keep_dim: bool = False, reduce_all: bool = False, **_: object) -> TensorType:
    """A reduction over ``dim``."""
    axes = reduced_axes(len(X.shape), dim or [], reduce_all)
    shape = (1 if i in axes else e for i, e in enumerate(X.shape) if keep_dim or i not in axes)
    return TensorType(tuple(shape), X.dtype)


def check_index(name: str, index: TensorType) -> None:
    """ShapeError unless the tensor holds integers."""
    if index.dtype not in INTS[1:]:
        raise ShapeError(f"{name} is {index}; an integer dtype is expected")


def matched(a: int, b: int) -> bool:
    """Whether two extents can be the same."""
    return a == b or -1 in (a, b)


__all__ = [
    "FAR",
    "aligned",
    "arithmetic",
    "broadcast",
    "broadcast_extent",
    "check_index",
    "compared",
    "matched",
    "normal_axis",
    "reduced",
    "reduced_axes",
    "same",
    "same_dtypes",
    "same_float",
    "same_number",
]
