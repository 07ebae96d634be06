"""A call from documentation: what is written, what numpy says, and arrays to try it on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
rng = np.random.default_rng(0)

A = rng.normal(size=(2, 3, 4))
B = rng.normal(size=(2, 3, 4))
M = rng.normal(size=(3, 4))
N = rng.normal(size=(3, 4))
K = rng.normal(size=(4, 5))
V = rng.normal(size=(4,))
P = rng.uniform(0.5, 2.0, size=(3, 4))  # positive
Q = rng.uniform(0.1, 0.9, size=(3, 4))  # probabilities
IDS = np.array([2, 0, 1], dtype="int64")
MASK = np.array([True, False, True])
IMAGE = rng.normal(size=(2, 4, 5, 6))
LAST = IMAGE.transpose(0, 2, 3, 1)  # NHWC
LABEL = np.array([[1], [0], [3]], dtype="int64")


@dataclass(frozen=True)
class Call:
    """One call: what is written, what numpy says, on which arrays."""

    text: str
    call: Callable[..., Any]
    reference: Callable[..., Any]
    arrays: tuple[Array, ...]
    slope: bool = True
    fixed: tuple[int, ...] = ()  # arrays that Fluid gives no gradient, such as labels

    def __str__(self) -> str:
        return self.text
