"""Random operators: numpy's streams, drawn in XLA.

A stream is made of the program's seed, the number of the run, the operator's name and the numbers of the iterations around it, as on the
numpy executor (``Interpreter.generator``); ``pcg64`` draws from it. So an operator draws there what it draws here, in loops as well.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import jax.numpy as jnp
import numpy as np

from graphad.errors import NotLowered
from graphad.jax.operators import kernel_run
from graphad.jax.pcg64 import Generator
from graphad.ops.definition import Inputs, OpDef, Outputs
from graphad.program import Operator, located
from graphad.types import Tensor


class Drawing(Protocol):
    """The lowering that an operator draws in."""

    key: Tensor
    iterations: list[Tensor]

    def stream(self, op: Operator) -> str:
        """The name of the operator's stream."""


def words(lowering: Drawing, op: Operator) -> list[Tensor]:
    """The words that the operator's stream is made of: seed, run, stream, iterations."""
    if lowering.key is None:
        raise NotLowered(located(f"operator {op.type!r} draws random numbers, and the state has no '@random'", op.source))
    stream = zlib.crc32(lowering.stream(op).encode(errors="surrogatepass"))
    key = jnp.asarray(lowering.key)
    iterations = [jnp.asarray(number).astype(np.uint32) for number in lowering.iterations]
    return [*(key[i] for i in range(key.shape[0])), np.uint32(stream), *iterations]


def draw(lowering: Drawing, op: Operator, definition: OpDef, inputs: Inputs, attrs: Mapping[str, Tensor], wanted: Sequence[str]) -> Outputs:
    """Compute the results of a random operator, by slot."""
    return kernel_run(definition, inputs, {**attrs, "rng": Generator(words(lowering, op))}, wanted)
