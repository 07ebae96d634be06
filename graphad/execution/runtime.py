"""The functions that compiled programs call besides numpy and kernels: for values that may be missing, and arrays that the caller gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from sys import getrefcount

import numpy as np

from graphad.execution.iterations import Replay
from graphad.ops.aggregates import Checkpoints, TensorArray, settled
from graphad.ops.aggregates import zeros_like as _zeros_like
from graphad.references import COUNTING, PASSED
from graphad.types import Tensor


class Changed(Exception):
    """A run does something that the program was not compiled for; ``operator`` is the number of the one whose result had another type."""

    def __init__(self, operator: int = -1) -> None:
        super().__init__(operator)
        self.operator = operator


class Absent:
    """Stands for no value. Nothing can be computed with it."""

    __slots__ = ()
    # Tells numpy not to compute with it as with an array of one object, which would succeed: ``array + ABSENT`` is a TypeError.
    __array_ufunc__ = None

    def __array__(self, *args: Tensor, **options: Tensor) -> Tensor:
        raise Changed

    def __bool__(self) -> bool:
        raise Changed


ABSENT = Absent()


def own(value: Tensor) -> Tensor:
    """A value as a copy for the caller: an array of tensors as a list."""
    if value is ABSENT:
        raise Changed
    if isinstance(value, TensorArray):
        return [None if item is None else own(item) for item in map(value.read, range(len(value)))]
    return value.copy() if isinstance(value, np.ndarray) else value


def own_or_taken(value: Tensor) -> Tensor:
    """A value for the caller: a copy, unless nothing but the caller's one name for it has it."""
    # The references: the run's variable, the parameter here, and the argument of getrefcount itself.
    alone = type(value) is np.ndarray and value.base is None and value.flags.writeable and getrefcount(value) <= 1 + PASSED + COUNTING
    return value if alone else own(value)


def copied(value: Tensor) -> Tensor:
    """A copy of an array; an aggregate, which never changes, as it is."""
    return value.copy() if isinstance(value, np.ndarray) else value


def given(value: Tensor) -> Tensor:
    """A value that has to be there."""
    if value is ABSENT:
        raise Changed
    return value


def present(value: Tensor) -> Tensor:
    """A value, None if there is none: as operators take it that can do without."""
    return None if value is ABSENT else value


def settled_or_absent(value: Tensor) -> Tensor:
    """The result of an operator that may write nothing, or a tuple of them."""
    if isinstance(value, tuple):
        return tuple(ABSENT if item is None else item for item in value)
    return ABSENT if value is None else value


def truth(value: Tensor) -> bool:
    """The truth value of a condition that may not be one boolean."""
    if type(value) is not np.ndarray or value.dtype != bool or value.size != 1:
        raise Changed
    return bool(value.reshape(())[()])


def added(total: Tensor, term: Tensor) -> Tensor:
    """A total and a term; None is nothing."""
    return total if term is ABSENT else term if total is None else settled(total + term)


def total_or_zeros(total: Tensor, like: Tensor) -> Tensor:
    """A total, or zeros where nothing was added."""
    return total if total is not None else ABSENT if like is ABSENT else _zeros_like(like)


def replayed(
    starts: list[tuple[Tensor, ...]],
    count: int,
    every: int,
    again: Callable[..., tuple[tuple[Tensor, ...], tuple[Tensor, ...]]],
    iterations: list[int],
) -> Iterator[Tensor]:
    """The residuals of each iteration of a loop, the last one first, by running iterations again.

    Args:
        starts: what every ``every``th of ``count`` iterations started from, or the first one if that is 0.
        again: runs an iteration: what it carries on, and its residuals.
        iterations: where random operators look up the number of the iteration.
    """

    def iteration(frame: dict[str, Tensor], number: int) -> Tensor:
        iterations.append(number)
        frame["carried"], residuals = again(*frame["carried"])
        iterations.pop()
        return residuals

    return Replay(Checkpoints([{"carried": start} for start in starts], count, every, {}, ()), iteration).residuals()


HELPERS = {
    item.__name__: item
    for item in (own, own_or_taken, copied, given, present, settled_or_absent, truth, added, total_or_zeros, replayed, Changed)
}
