"""The same values in another dtype or under another name, and conditions as numbers."""

from __future__ import annotations

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.definition import OUT_AS_X, DType, operator
from graphad.ops.inference import same
from graphad.ops.traits import FUNCTION, PART_OF_X
from graphad.types import Array, Tensor, TensorType, dtype_name

# -- copies and affine maps ----------------------------------------------------------------------


@operator(
    "X -> Out",
    infer=same,
    grad={"X": lambda dOut: assign(dOut)},
    partial=True,
    kinds=OUT_AS_X,
    **FUNCTION,
    passed_on="X",
    uniform=True,
    in_order=True,
    **PART_OF_X,
)
def assign(X: Array) -> Array:
    """The same value under another name (arrays are never changed in place, so nothing is copied)."""
    return X


@operator(
    "X -> Out",
    infer=lambda X, *, out_dtype, in_dtype="": TensorType(X.shape, out_dtype),
    grad={"X": lambda X, dOut: cast(dOut, out_dtype=dtype_name(X.dtype))},
    shapes="X",
    **FUNCTION,
    linear="X",
    cheap=True,
    converts="out_dtype",
    uniform=True,
    flops=0,
)
def cast(X: Array, *, out_dtype: DType, in_dtype: DType = "") -> Tensor:
    """X in another dtype."""
    return X.astype(out_dtype)


def _viewed_type(X: TensorType, *, dtype: DType) -> TensorType:
    if np.dtype(X.dtype).itemsize != np.dtype(dtype).itemsize:
        raise ShapeError(f"X is {X}: elements of {dtype} are of another size")
    return TensorType(X.shape, dtype)


@operator("X -> Out", infer=_viewed_type, grad={}, elementwise=True, view="X", flops=0)
def view_dtype(X: Array, *, dtype: DType) -> Array:
    """The bits of X as numbers of another dtype of the same size."""
    return X.view(dtype)


def in_dtype_of(t: Tensor, like: Tensor) -> Tensor:
    """A tensor in the dtype of another one: a cast where it has not that dtype already."""
    dtype = dtype_name(like.dtype)
    return t if dtype_name(t.dtype) == dtype else cast(t, out_dtype=dtype)


def as_mask(condition: Tensor, like: Tensor) -> Tensor:
    """A boolean tensor as zeros and ones of ``like``'s dtype."""
    return cast(condition, out_dtype=dtype_name(like.dtype))
