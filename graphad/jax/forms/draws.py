"""Draws: numpy's generator in XLA, and truncated distributions by rejection sampling."""

from __future__ import annotations

from math import prod

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphad.jax.pcg64 import Generator, normals, words_of
from graphad.jax.registry import replaces, rounded
from graphad.ops import random
from graphad.types import Tensor


@replaces(random.generator)
def generator(seed: int, rng: Tensor) -> Tensor:
    """The generator to draw from."""
    return Generator([np.uint32(word) for word in words_of(seed % (1 << 64))]) if seed else rng


@replaces(random.scaled)
def _scaled(numbers: Tensor, factor: Tensor, offset: Tensor) -> Tensor:
    return rounded(numbers * factor) + offset


@replaces(random.truncated_gaussian_random.kernel)
def _truncated(*, shape: list[int], mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: str = "float32", rng: Tensor) -> Tensor:
    """The stream of draws is long enough for all rounds: one in 22 is too far away, and is drawn again."""
    count, kind = prod(shape), random._drawn(dtype)
    places = count + count // 8 + 128
    stream = normals(generator(seed, rng).words, places, kind)

    def again(state: Tensor) -> Tensor:
        numbers, position = state
        far = jnp.abs(numbers) > 2.0
        # The kernel draws again for those that are too far, in order: the running sum gives each its place in the stream.
        new = stream[jnp.minimum(position + jnp.cumsum(far) - 1, places - 1)]
        return jnp.where(far, new, numbers), position + far.sum()

    first = (stream[:count], jnp.asarray(count))
    numbers, _ = lax.while_loop(lambda state: (jnp.abs(state[0]) > 2.0).any() & (state[1] < places), again, first)
    return _scaled(numbers, kind(std), kind(mean)).astype(dtype).reshape(shape)
