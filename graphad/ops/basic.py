"""Operators that others are made of: constants, copies, affine maps, sums, and shapes taken from a tensor at run time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from graphad.errors import InvalidValue, ShapeError
from graphad.ops.aggregates import Aggregate
from graphad.ops.definition import AS_INPUT, Array, Tensor, Typed, operator
from graphad.ops.extents import Types, given, hinted, numbers
from graphad.ops.formulas import filled, like
from graphad.ops.inference import aligned, matched, same, same_dtypes
from graphad.ops.summation import summed
from graphad.ops.traits import ELEMENTWISE, FUNCTION, PART_OF_X
from graphad.types import FLOATS, Shape, TensorType, broadcast_shapes, checked_shape, dtype_name, element_count, joined_shape

DType = str
NO_INTS: list[int] = []
_AS_X = {"Out": AS_INPUT}


# -- constants -----------------------------------------------------------------------------------


def _filled(
    ValueTensor: TensorType | None = None,
    ShapeTensor: TensorType | None = None,
    ShapeTensorList: Types | None = None,
    *,
    shape: list[int] | None = None,
    value: float = 0.0,
    dtype: DType = "float32",
) -> TensorType:
    if ValueTensor is not None and (len(ValueTensor.shape) > 1 or not matched(element_count(ValueTensor.shape), 1)):
        raise ShapeError(f"ValueTensor is {ValueTensor}; one element is expected")
    if ValueTensor is not None and ValueTensor.dtype != dtype:
        raise ShapeError(f"ValueTensor is {ValueTensor}, but dtype={dtype!r} is requested")
    slot = "ShapeTensorList" if ShapeTensorList else "ShapeTensor"
    known = given("shape", shape, ShapeTensor, ShapeTensorList)
    return TensorType(checked_shape(hinted(slot, known, ShapeTensor, ShapeTensorList)), dtype)


def _value_grad(ValueTensor: Tensor, dOut: Tensor) -> Tensor:
    return sum_like(dOut, ValueTensor) if dOut.ndim else reshape_like(dOut, ValueTensor)


@operator(
    "ValueTensor? ShapeTensor? ShapeTensorList*? -> Out",
    infer=_filled,
    grad={"ValueTensor": _value_grad},
    shapes="ValueTensor",
    speculatable="extents",
    extents="ShapeTensor ShapeTensorList",
    linear="ValueTensor",
    flops=0,
)
def fill_constant(
    ValueTensor: Array | None = None,
    ShapeTensor: Array | None = None,
    ShapeTensorList: list[Array] | None = None,
    *,
    shape: list[int] = NO_INTS,
    value: float = 0.0,
    dtype: DType = "float32",
) -> Array:
    """A tensor of one value: ``value``, or that in ValueTensor. Tensors may say the extents in place of ``shape``."""
    extents = numbers(shape, ShapeTensor, ShapeTensorList)
    if any(e < 0 for e in extents):
        raise InvalidValue(f"a tensor of the shape {list(extents)} cannot be filled: an extent is negative")
    return np.full(tuple(extents), value if ValueTensor is None else ValueTensor.reshape(()), dtype)


@operator(
    "X -> Out",
    infer=same,
    grad={},
    partial=True,
    kinds=_AS_X,
    safe_dtypes="all",
    **FUNCTION,
    cheap=True,
    uniform=True,
    of_shape=True,
    flops=0,
)
def fill_zeros_like(X: Array) -> Array:
    """Zeros in the shape and dtype of X."""
    return X.zeros_like() if isinstance(X, Aggregate) else X if X is None else np.zeros_like(X)


def _filled_like(X: TensorType, *, value: float, dtype: DType = "") -> TensorType:
    return TensorType(X.shape, dtype or X.dtype)


@operator("X -> Out", infer=_filled_like, grad={}, safe_dtypes="all", **FUNCTION, cheap=True, uniform=True, of_shape=True, flops=0)
def fill_any_like(X: Array, *, value: float, dtype: DType = "") -> Tensor:
    """One value in the shape of X."""
    return filled(X, value, dtype or X.dtype.name)


def _stood_in(X: TensorType | None = None, *, shape: list[int] | None = None, dtype: DType = "float32") -> TensorType:
    return X or TensorType(checked_shape(shape or ()), dtype)


@operator("X? -> Out", infer=_stood_in, grad={}, speculatable="types", safe_dtypes="all", cheap=True, of_shape=True, flops=0)
def stand_in(X: Array | None = None, *, shape: list[int] | None = None, dtype: DType = "float32") -> Array:
    """Zeros in the shape and dtype of X, or as said, that take no memory: for operators that read nothing but those."""
    return _without_memory(tuple(shape or ()), dtype) if X is None else _without_memory(X.shape, X.dtype.name)


@lru_cache(maxsize=4096)
def _without_memory(shape: Shape, dtype: str) -> Array:
    return np.broadcast_to(np.zeros((), dtype), shape)


# -- copies and affine maps ----------------------------------------------------------------------


@operator(
    "X -> Out",
    infer=same,
    grad={"X": lambda dOut: assign(dOut)},
    partial=True,
    kinds=_AS_X,
    **FUNCTION,
    passed_on="X",
    uniform=True,
    **PART_OF_X,
)
def assign(X: Array) -> Array:
    """The same value under another name (arrays are never changed in place, so nothing is copied)."""
    return X


def _scale_grad(dOut: Tensor, *, scale: float) -> Tensor:
    return dOut if scale == 1.0 else _scaled(dOut, scale=scale)


def _scaled(X: Tensor, *, scale: float) -> Tensor:
    return scale_(X, scale=scale)


@operator("X -> Out", name="scale", infer=same, grad={"X": _scale_grad}, **FUNCTION, linear="X", offset="bias", uniform=True, flops=2)
def scale_(X: Array, *, scale: float = 1.0, bias: float = 0.0, bias_after_scale: bool = True) -> Tensor:
    """``scale * X + bias``, or ``scale * (X + bias)``; the dtype of X is kept."""
    s, b = like(scale, X), like(bias, X)
    return X * s + b if bias_after_scale else (X + b) * s


@operator("X -> Out", infer=same, grad={"X": lambda dOut: assign(dOut)}, **FUNCTION, linear="X", offset="step", passed_on="X", uniform=True)
def increment(X: Array, *, step: float = 1.0) -> Tensor:
    """X + step; programs often write it back to X, which makes a new value under the old name."""
    return X + like(step, X)


def _cast_type(X: TensorType, *, out_dtype: DType, in_dtype: DType = "") -> TensorType:
    return TensorType(X.shape, out_dtype)


@operator(
    "X -> Out",
    infer=_cast_type,
    grad={"X": lambda X, dOut: cast(dOut, out_dtype=dtype_name(X.dtype))},
    shapes="X",
    safe_dtypes="all",
    **FUNCTION,
    linear="X",
    cheap=True,
    uniform=True,
    flops=0,
)
def cast(X: Array, *, out_dtype: DType, in_dtype: DType = "") -> Tensor:
    """X in another dtype."""
    return X.astype(out_dtype)


def in_dtype_of(t: Tensor, like: Tensor) -> Tensor:
    """A tensor in the dtype of another one: a cast where it has not that dtype already."""
    dtype = dtype_name(like.dtype)
    return t if dtype_name(t.dtype) == dtype else cast(t, out_dtype=dtype)


# -- sums ----------------------------------------------------------------------------------------


def _sum_type(X: list[TensorType]) -> TensorType:
    same_dtypes(**{f"X[{i}]": x for i, x in enumerate(X)})
    for i, x in enumerate(X):
        if len(x.shape) != len(X[0].shape) or not all(map(matched, x.shape, X[0].shape)):
            raise ShapeError(f"X[0] is {X[0]} but X[{i}] is {x}: a sum adds tensors of one shape")
    return TensorType(tuple(max(es) for es in zip(*(x.shape for x in X), strict=True)), X[0].dtype)


@operator(
    "X* -> Out",
    name="sum",
    infer=_sum_type,
    grad={"X": lambda X, dOut: [assign(dOut) for _ in X]},
    partial=True,
    kinds=_AS_X,
    shapes="X",
    **ELEMENTWISE,
    linear="X",
    passed_on="X",
    uniform=True,
)
def sum_(X: list[Array]) -> Array:
    """The elementwise sum of all inputs that have a value, added left to right."""
    given = [x for x in X if x is not None]
    total = given[0] if given else None
    for x in given[1:]:
        total = total + x
    return total  # type: ignore[return-value]


# -- shapes known at run time only ---------------------------------------------------------------


@operator(
    "Input -> Out",
    infer=lambda Input: TensorType((), "int64"),
    grad={},
    speculatable="types",
    safe_dtypes="all",
    cheap=True,
    of_shape=True,
    flops=0,
)
def size(Input: Array) -> Array:
    """The number of elements."""
    return np.asarray(Input.size, "int64")


def _broadcasts_to(shape: Shape, wanted: Shape) -> bool:
    try:
        return joined_shape(broadcast_shapes(shape, wanted), wanted) is not None
    except ShapeError:
        return False


def _summed_like(X: TensorType, Like: TensorType, *, axis: int = -1) -> TensorType:
    if not _broadcasts_to(aligned(X.shape, Like.shape, axis), X.shape):
        raise ShapeError(f"X is {X}: it cannot be summed to the shape of Like, which is {Like}")
    return TensorType(Like.shape, X.dtype)


def _summing_like(X: Typed, Like: Typed, *, axis: int = -1) -> Callable[[Array, Array], Array] | None:
    """The function that sums over the axes of one element in Like; None where extents are not known, or a reshape is needed too."""
    if -1 in X.shape or -1 in Like.shape or dtype_name(X.dtype) not in FLOATS:  # numpy adds narrow integers up in a wider type
        return None
    axes, rest = _summed_axes(X.shape, Like.shape, axis)
    return (lambda X, Like: summed(X, axes)) if axes and rest == tuple(Like.shape) else None


def _summed_axes(shape: Shape, like: Shape, axis: int) -> tuple[Shape, Shape]:
    """The axes that are summed, and the extents of the others."""
    wide = aligned(shape, like, axis)
    padded = (1,) * (len(shape) - len(wide)) + wide
    axes = tuple(i for i, (a, b) in enumerate(zip(shape, padded, strict=True)) if a != b)
    return axes, tuple(e for i, e in enumerate(shape) if i not in axes)


@operator(
    "X Like -> Out",
    infer=_summed_like,
    specialize=_summing_like,
    grad={"X": lambda X, dOut, *, axis=-1: expand_like(dOut, X, axis=axis)},
    shapes="X",
    linear="X",
    flops=1,
)
def sum_like(X: Array, Like: Array, *, axis: int = -1) -> Array:
    """X summed over the axes along which Like would be broadcast to it: the transpose of ``expand_like``.

    ``axis`` is where Like's first axis is in X (-1: the last axes are aligned). Only Like's shape is read.
    """
    axes, _ = _summed_axes(X.shape, Like.shape, axis)
    return np.asarray(summed(X, axes), X.dtype).reshape(Like.shape) if axes else X.reshape(Like.shape)


def _expanded_like(X: TensorType, Like: TensorType, *, axis: int = -1) -> TensorType:
    if not _broadcasts_to(aligned(Like.shape, X.shape, axis), Like.shape):
        raise ShapeError(f"X is {X}: it does not broadcast to the shape of Like, which is {Like}")
    return TensorType(Like.shape, X.dtype)


@operator(
    "X Like -> Out",
    infer=_expanded_like,
    grad={"X": lambda X, dOut, *, axis=-1: sum_like(dOut, X, axis=axis)},
    shapes="X",
    speculatable="types",
    safe_dtypes="all",
    linear="X",
    view="X",
    flops=0,
)
def expand_like(X: Array, Like: Array, *, axis: int = -1) -> Array:
    """X broadcast to the shape of Like, ``axis`` being where its first axis is in Like. Only Like's shape is read."""
    return np.broadcast_to(X.reshape(aligned(Like.shape, X.shape, axis)), Like.shape)


def _reshaped_like(X: TensorType, Like: TensorType, *, skip: int = 0) -> TensorType:
    shape = Like.shape[skip:]
    if not matched(element_count(X.shape), element_count(shape)):
        raise ShapeError(f"X is {X}: it cannot be reshaped to {list(shape)}, the shape of Like")
    return TensorType(shape, X.dtype)


@operator(
    "X Like -> Out", infer=_reshaped_like, grad={"X": lambda X, dOut: reshape_like(dOut, X)}, shapes="X", linear="X", view="X", flops=0
)
def reshape_like(X: Array, Like: Array, *, skip: int = 0) -> Array:
    """X in the shape of Like without its first ``skip`` axes (1 for an XShape). Only Like's shape is read."""
    return X.reshape(Like.shape[skip:])


def unbroadcast(cotangent: Tensor, like: Tensor, axis: int = -1) -> Tensor:
    """The cotangent of a broadcast input: nothing to do where the shapes are known to agree."""
    if tuple(cotangent.shape) == tuple(like.shape) and -1 not in like.shape:
        return cotangent
    return sum_like(cotangent, like, axis=axis)
