"""Extents of tensors of which one extent is known only when the program runs, and zeros in their shape."""

from __future__ import annotations

import jax.numpy as jnp

from graphad.jax.bounded import Bounded, of_bounded
from graphad.ops import like, shapes
from graphad.types import Tensor


@of_bounded(shapes.size)
def _size(Input: Bounded) -> Tensor:
    return jnp.asarray(Input.size, jnp.int64)


@of_bounded(shapes.shape_)
def _shape(Input: Bounded) -> Tensor:
    return jnp.stack([jnp.asarray(Input.count if extent == -1 else extent, jnp.int32) for extent in Input.shape])


@of_bounded(like.stand_in)
def _stand_in(X: Bounded, *, shape: Tensor = None, dtype: str = "float32") -> Bounded:
    return X.zeros_like()
