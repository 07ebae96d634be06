"""Arrays and calls that the samples of several modules are made of."""

from __future__ import annotations

import numpy as np

from graphad.ops.sample import Sample, away_from_zero, uniform
from graphad.types import Array

# Of one shape, along a middle axis, one element, the first operand broadcast, both broadcast, without axes, without elements.
OPERANDS = [
    Sample({"X": uniform(2, 3), "Y": away_from_zero(2, 3)}),
    Sample({"X": uniform(2, 3, 4), "Y": away_from_zero(3)}, {"axis": 1}),
    Sample({"X": uniform(2, 3), "Y": away_from_zero(1)}),
    Sample({"X": uniform(3), "Y": away_from_zero(2, 3)}),
    Sample({"X": uniform(2, 1, 4), "Y": away_from_zero(3)}, {"axis": 1}),
    Sample({"X": uniform(2, 3), "Y": away_from_zero(2, 3)}, {"axis": 0}),
    Sample({"X": uniform(), "Y": away_from_zero()}),
    Sample({"X": uniform(0, 3), "Y": away_from_zero(3)}),
]


INDEX_X = uniform(4, 3)


def distinct(*shape: int) -> Array:
    """Values a tenth apart, in a repeatable disorder."""
    # No two are equal: a maximum has one place, and one slope.
    return np.random.default_rng(list(shape)).permutation(int(np.prod(shape))).reshape(shape) / 10.0


def of_x(x: Array, **attrs: object) -> Sample:
    return Sample({"X": x}, attrs)


def pair(x: Array, y: Array, **attrs: object) -> Sample:
    return Sample({"X": x, "Y": y}, attrs)


def apart(*shape: int, seed: int = 0) -> Array:
    """Values of which any two differ by a tenth."""
    count = int(np.prod(shape))
    return np.asarray(np.random.default_rng(seed).permutation(count).reshape(shape) / 10.0 - count / 20.0 + 0.03)


MASK = np.array([[True, False, True], [False, False, True]])
ORDER_X, ROWS = uniform(2, 3), uniform(4, 3)


def ints(*numbers: int) -> Array:
    return np.array(numbers, "int64")


def each(*numbers: int) -> list[Array]:
    """One tensor for each number, of the shape [1] or []."""
    return [np.array([n] if i % 2 else n, "int32") for i, n in enumerate(numbers)]


def with_x(x: Array, **attrs: object) -> Sample:
    return Sample({"X": x}, attrs)


PLACES_X = uniform(2, 3, 4)


def with_(x: Array, **attrs: object) -> Sample:
    return Sample({"X": x}, attrs)


REDUCE_X = away_from_zero(2, 3, 2)
ZEROS = np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.0, -2.0, 0.5]])  # one, two and no zeros in a product


def over(*ranges: tuple[float, float]) -> list[Sample]:
    """A matrix, a scalar and an empty tensor for each range of values."""
    shapes: tuple[tuple[int, ...], ...] = ((2, 3), (), (0, 3))
    return [Sample({"X": uniform(*shape, low=low, high=high)}) for low, high in ranges for shape in shapes]


EVERYWHERE = over((-1.5, 1.5))
AWAY = [with_(away_from_zero(2, 3)), with_(away_from_zero())]
