"""One valid call of an operator, from which the generic tests are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphad.types import Array

Value = Any  # an array, or an aggregate of arrays: a TensorArray, a Tape


@dataclass(frozen=True)
class Sample:
    """Inputs by slot (a list for a variadic one) and attributes; what to differentiate with respect to, and which outputs."""

    inputs: dict[str, Value | list[Value]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    differentiate: tuple[str, ...] | None = None
    outputs: tuple[str, ...] | None = None
    tolerance: float = 1e-6

    def slots(self) -> dict[str, list[Value]]:
        """The inputs, each slot as a list."""
        return {s: list(v) if isinstance(v, list) else [v] for s, v in self.inputs.items()}


def uniform(*shape: int, low: float = -1.0, high: float = 1.0, seed: int = 0) -> Array:
    """Repeatable float64 values in [low, high)."""
    return np.asarray(np.random.default_rng([seed, *shape]).uniform(low, high, shape))


def away_from_zero(*shape: int, seed: int = 0) -> Array:
    """Repeatable float64 values with an absolute value in [0.3, 1.3)."""
    rng = np.random.default_rng([seed, 7, *shape])
    return np.asarray(rng.choice([-1.0, 1.0], shape) * rng.uniform(0.3, 1.3, shape))
