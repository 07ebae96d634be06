"""One of several values, chosen by a mask that only a run knows: they have one type, since XLA computes all of them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from graphad.errors import InvalidValue
from graphad.jax.registry import is_traced, refuse, replaces
from graphad.ops import selection
from graphad.types import Tensor


def _number(Mask: Tensor, count: int) -> Tensor:
    if not is_traced(Mask):
        return selection._which(np.asarray(Mask), count)
    if Mask.size != 1:
        raise InvalidValue(f"Mask chooses one of {count}: one integer, not {list(Mask.shape)}")
    number = Mask.reshape(()).astype(jnp.int32)
    refuse((number < 0) | (number >= count), f"Mask chooses one of {count}, and is another number")
    return number


@replaces(selection.select_input.kernel)
def _select_input(X: list[Tensor], Mask: Tensor) -> Tensor:
    number = _number(Mask, len(X))
    # Known while it is traced: then nothing else is computed.
    if isinstance(number, int):
        return selection.select_input.kernel(X, np.asarray(number))
    present = [x for x in X if x is not None]
    if not present:
        raise InvalidValue("none of X has a value: no block that writes one has run")
    # XLA computes all sides; the branch that wrote nothing cannot be the one that is selected.
    return jnp.stack([jnp.zeros_like(present[0]) if x is None else jnp.asarray(x) for x in X])[number]


@replaces(selection.select_output.kernel)
def _select_output(X: Tensor, Mask: Tensor, Like: list[Tensor] | None = None) -> list[Tensor]:
    if not Like:
        raise InvalidValue("Like is empty: it has as many tensors as Out")
    number = _number(Mask, len(Like))
    if isinstance(number, int):
        return [X if i == number else None if x is None else jnp.zeros_like(x) for i, x in enumerate(Like)]
    return [_chosen(X, like, number == i) for i, like in enumerate(Like)]


def _chosen(X: Tensor, like: Tensor, holds: Tensor) -> Tensor:
    if like is not None and like.shape != X.shape:
        refuse(holds, f"X has the shape {list(X.shape)}, and Like[Mask] has {list(like.shape)}")
        return jnp.zeros_like(like)
    return jnp.where(holds, jnp.asarray(X), jnp.zeros((), X.dtype))
