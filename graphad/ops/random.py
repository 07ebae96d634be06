"""Operators that draw random numbers.

Kernels draw from the generator they are given, unless ``seed`` is set: then the numbers are the same at every run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphad.errors import ShapeError
from graphad.ops.casting import as_mask
from graphad.ops.creation import batch_type
from graphad.ops.definition import operator
from graphad.ops.dimensions import masked
from graphad.ops.inference import matched, same_float
from graphad.types import FLOATS, INTS, Array, Tensor, TensorType, checked_shape, element_count

DType = str


def generator(seed: int, rng: np.random.Generator) -> np.random.Generator:
    """The generator to draw from: the given one where no seed is set. A negative seed is one as well, as 64 bits without a sign."""
    return np.random.default_rng(seed % (1 << 64)) if seed else rng


def _floats(*, shape: list[int], dtype: DType = "float32", **_: object) -> TensorType:
    if dtype not in FLOATS:
        raise ShapeError(f"dtype={dtype!r}: random floating-point numbers are {', '.join(FLOATS)}")
    return TensorType(checked_shape(shape), dtype)


def _ints(*, shape: list[int], low: int, high: int, dtype: DType = "int64", **_: object) -> TensorType:
    if dtype not in INTS:
        raise ShapeError(f"dtype={dtype!r}: random integers are {', '.join(INTS)}")
    if low >= high:
        raise ShapeError(f"low={low}, high={high}: there is no integer in [low, high)")
    return TensorType(checked_shape(shape), dtype)


def _drawn(dtype: DType) -> Any:
    """The dtype to draw in: numpy draws single and double precision."""
    return np.float64 if dtype == "float64" else np.float32


def scaled(numbers: Array, factor: object, offset: object) -> Array:
    """Numbers times a factor, plus an offset: both are rounded."""
    return np.asarray(numbers * factor + offset)


@operator("-> Out", infer=_floats, grad={}, random=True)
def uniform_random(
    *,
    shape: list[int],
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    dtype: DType = "float32",
    diag_num: int = 0,
    diag_step: int = 0,
    diag_val: float = 1.0,
    rng: np.random.Generator,
) -> Array:
    """Numbers spread evenly over [min, max); ``diag_num`` elements, ``diag_step`` apart from a row's diagonal, are ``diag_val``."""
    kind = _drawn(dtype)
    # Whether float64 or float32 is drawn decides which numbers of the stream are used.
    out = scaled(generator(seed, rng).random(tuple(shape), kind), kind(max - min), kind(min)).astype(dtype, copy=False)
    if diag_num:
        # The diagonal of a matrix in flat memory, where ``diag_step`` is the length of a row.
        out.reshape(-1)[np.arange(diag_num) * (diag_step + 1)] = diag_val
    return np.asarray(out)


@operator("-> Out", infer=_floats, grad={}, random=True)
def gaussian_random(
    *, shape: list[int], mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: DType = "float32", rng: np.random.Generator
) -> Array:
    """Normally distributed numbers."""
    kind = _drawn(dtype)
    return scaled(generator(seed, rng).standard_normal(tuple(shape), kind), kind(std), kind(mean)).astype(dtype, copy=False)


@operator("-> Out", infer=_floats, grad={}, random=True)
def truncated_gaussian_random(
    *, shape: list[int], mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: DType = "float32", rng: np.random.Generator
) -> Array:
    """Normally distributed numbers; those more than two standard deviations from the mean are drawn again."""
    source = generator(seed, rng)
    numbers = np.asarray(source.standard_normal(tuple(shape), _drawn(dtype)))
    # Drawn again rather than cut off, so that the density within the limits keeps its form.
    while (far := np.abs(numbers) > 2.0).any():
        numbers[far] = source.standard_normal(int(far.sum()), _drawn(dtype))
    return scaled(numbers, _drawn(dtype)(std), _drawn(dtype)(mean)).astype(dtype, copy=False)


@operator("-> Out", infer=_ints, grad={}, random=True)
def randint(*, shape: list[int], low: int, high: int, seed: int = 0, dtype: DType = "int64", rng: np.random.Generator) -> Array:
    """Integers of [low, high), each as likely as the others."""
    return np.asarray(generator(seed, rng).integers(low, high, tuple(shape))).astype(dtype, copy=False)


@operator("X -> Out", infer=same_float, grad={}, random=True)
def bernoulli(X: Array, *, seed: int = 0, rng: np.random.Generator) -> Array:
    """One with the probability X, else zero, in X's dtype."""
    # In float64, which random() draws: a probability such as 1e-9 is not rounded away.
    return np.asarray(generator(seed, rng).random(X.shape) < X).astype(X.dtype)


# -- a batch -------------------------------------------------------------------------------------


def _batch_floats(Input: TensorType, *, dtype: DType = "float32", **attrs: Any) -> TensorType:
    if dtype not in FLOATS:
        raise ShapeError(f"dtype={dtype!r}: random floating-point numbers are {', '.join(FLOATS)}")
    return batch_type(Input, dtype=dtype, **attrs)


def _batch_shape(Input: Array, shape: list[int], input_dim_idx: int, output_dim_idx: int) -> list[int]:
    like = TensorType(Input.shape, Input.dtype.name)
    return list(batch_type(like, shape=shape, input_dim_idx=input_dim_idx, output_dim_idx=output_dim_idx).shape)


@operator("Input -> Out", infer=_batch_floats, grad={}, random=True)
def uniform_random_batch_size_like(
    Input: Array,
    *,
    shape: list[int],
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    dtype: DType = "float32",
    rng: np.random.Generator,
) -> Array:
    """Numbers spread evenly over [min, max), of the extents ``shape``; that at ``output_dim_idx`` is Input's at ``input_dim_idx``."""
    extents = _batch_shape(Input, shape, input_dim_idx, output_dim_idx)
    return np.asarray(uniform_random.kernel(shape=extents, min=min, max=max, seed=seed, dtype=dtype, rng=rng))


@operator("Input -> Out", infer=_batch_floats, grad={}, random=True)
def gaussian_random_batch_size_like(
    Input: Array,
    *,
    shape: list[int],
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: DType = "float32",
    rng: np.random.Generator,
) -> Array:
    """Normally distributed numbers, of the extents ``shape``; that at ``output_dim_idx`` is Input's at ``input_dim_idx``."""
    extents = _batch_shape(Input, shape, input_dim_idx, output_dim_idx)
    return np.asarray(gaussian_random.kernel(shape=extents, mean=mean, std=std, seed=seed, dtype=dtype, rng=rng))


@operator("-> Out", infer=lambda *, seed=0: TensorType((1,), "int32"), grad={}, random=True)
def seed(*, seed: int = 0, rng: np.random.Generator) -> Array:
    """A seed for ``dropout``, so that it drops the same where it is computed again: ``seed``, or a new number at each run if that is 0."""
    return np.asarray([seed], "int32") if seed else np.asarray(rng.integers(1, 2**31 - 1, (1,))).astype("int32", copy=False)


# -- dropout -------------------------------------------------------------------------------------


def _dropout_type(
    X: TensorType, Seed: TensorType | None = None, *, dropout_prob: float = 0.5, **_: object
) -> tuple[TensorType, TensorType]:
    if Seed is not None and not matched(element_count(Seed.shape), 1):
        raise ShapeError(f"Seed is {Seed}; one element is expected")
    if not 0 <= dropout_prob <= 1:
        raise ShapeError(f"dropout_prob={dropout_prob} is no probability")
    return same_float(X), TensorType(X.shape, "uint8")


def _kept_scale(dropout_prob: float, is_test: bool, dropout_implementation: str) -> float:
    """The factor on kept elements, by which their mean stays (or, in a test, becomes) that of training."""
    if dropout_implementation == "upscale_in_train":
        # Paddle's two ways: the mean of training is either kept in training, or imitated in a test.
        return 1.0 if is_test or dropout_prob == 1.0 else 1.0 / (1.0 - dropout_prob)
    return 1.0 - dropout_prob if is_test else 1.0


def _dropout_grad(Mask: Tensor, dOut: Tensor, *, dropout_prob: float, is_test: bool, dropout_implementation: str) -> Tensor:
    scale = _kept_scale(dropout_prob, is_test, dropout_implementation)
    return dOut * scale if is_test else dOut * as_mask(Mask, dOut) * scale


@operator("X Seed? -> Out Mask", infer=_dropout_type, grad={"X": _dropout_grad}, random=True, flops=2, dimensions=masked)
def dropout(
    X: Array,
    Seed: Array | None = None,
    *,
    dropout_prob: float = 0.5,
    is_test: bool = False,
    fix_seed: bool = False,
    seed: int = 0,
    dropout_implementation: str = "downgrade_in_infer",
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """X with each element set to zero with a probability; Mask has ones where it is kept. In a test nothing is dropped.

    "upscale_in_train" divides by the probability to be kept when training, "downgrade_in_infer" multiplies by it in a test.
    """
    scale = X.dtype.type(_kept_scale(dropout_prob, is_test, dropout_implementation))
    if is_test:
        return np.asarray(X * scale), np.ones(X.shape, np.uint8)
    # A seed in a tensor comes first, then the attribute, if it is to be used.
    seed_value = int(Seed.reshape(-1)[0]) if Seed is not None else seed if fix_seed else 0
    # In float32 whatever X is of, so that the same elements are dropped in every dtype.
    mask = np.asarray(generator(seed_value, rng).random(X.shape, np.float32) >= dropout_prob)
    return np.asarray(X * (mask * scale)), mask.astype(np.uint8)
