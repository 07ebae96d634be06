"""Arrays for random programs: ordinary numbers, and those at which rewrites that look right go wrong.

The numbers come from pools that are made once; an array is a piece of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from graphad.testing.cases import Array
from graphad.testing.choices import Choices
from graphad.types import FLOATS, Shape

SIZE = 4096
KINKS = (0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0, 1.5, -1.5, 2.5, -2.5, 2.0)
KINDS = ("ordinary", "ties", "kinks", "zeros", "large", "tiny", "offset")
SHORT = ("ordinary", "ties", "kinks", "zeros")  # that fit into float16
NON_FINITE = "nan and infinities"
MIXED = "mixed"
STEEP = "steep"  # that float16 holds, whose exponentials it does not


def _ordinary(rng: np.random.Generator) -> Array:
    return np.round(rng.uniform(-1.5, 1.5, SIZE), 3)


def _one_of(*numbers: float) -> Callable[[np.random.Generator], Array]:
    return lambda rng: rng.choice(np.array(numbers), SIZE)


def _mixed(rng: np.random.Generator) -> Array:
    """Half of all numbers ordinary, the others those at which something goes wrong, side by side: it may go wrong at one alone."""
    hard = rng.choice(np.array([*KINKS, -0.0, 0.0, 89.0, -710.0, 1e4 + 0.3, 1e-8, 1e-40, math.nan, math.inf, -math.inf]), SIZE)
    return np.where(rng.random(SIZE) < 0.5, _ordinary(rng), hard)


POOLS: dict[str, Callable[[np.random.Generator], Array]] = {
    "ordinary": _ordinary,
    "positive": lambda rng: np.round(rng.uniform(0.3, 1.7, SIZE), 3),
    STEEP: _one_of(8.0, -9.0, 10.0, -11.5, 11.5, 12.0, -12.5, 12.5),
    "ties": _one_of(0.75, 0.75, -1.25),
    "kinks": _one_of(*KINKS),
    "zeros": _one_of(0.0, -0.0, 0.0, -0.0, 1.0),
    "large": _one_of(100.0, -100.0, 1000.0, -1000.0, 89.0, 710.0, 0.5),
    "tiny": _one_of(1e-3, -1e-8, 1e-20, -1e-40, 1e-300, 1e-7),
    "offset": lambda rng: 1e4 + np.round(rng.normal(0.0, 1.0, SIZE), 3),
    MIXED: _mixed,
    NON_FINITE: _one_of(math.nan, math.inf, -math.inf, 0.0, 1.5, -0.25),
    "integers": lambda rng: rng.integers(-4, 5, SIZE),
    "large integers": _one_of(2**24, 2**24 + 1, -(2**24) - 1, 2**31 - 1, 2**31 - 2, -7),
    "booleans": lambda rng: rng.integers(0, 2, SIZE),
}


@cache
def pool(kind: str, dtype: str) -> Array:
    """The numbers of a kind in a dtype."""
    with np.errstate(all="ignore"):
        numbers = POOLS[kind](np.random.default_rng([len(kind), *kind.encode()])).astype(dtype)
    numbers.flags.writeable = False
    return numbers


def array_of(choices: Choices, shape: Shape, dtype: str, kind: str = "ordinary") -> Array:
    """An array of numbers of a kind; of integers, large ones for ``large``, or booleans where the dtype has no others."""
    if dtype not in FLOATS:
        kind = "booleans" if dtype == "bool" else "large integers" if kind == "large" else "integers"
    count = math.prod(shape)
    numbers = pool(kind, dtype)
    start = choices.below(SIZE - min(count, SIZE - 1))
    piece = numbers[start : start + count] if count < SIZE else np.resize(numbers, count)
    return piece.reshape(shape).copy()
