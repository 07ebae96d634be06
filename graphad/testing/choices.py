"""What a random program is drawn from: a sequence of small numbers.

A generator asks a ``Choices`` for integers, elements, permutations; all of them come down to one number each in [0, n), and the
numbers are kept. The same numbers give the same program again, a prefix of them a similar one: that is how the search mutates
programs (R. Padhye and others, Semantic fuzzing with Zest, ISSTA 2019). Random choices come from a seed alone, so that nothing
that was imported or ran before has a part in them.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from graphad.testing.cases import Case

T = TypeVar("T")
P = ParamSpec("P")


class Choices(ABC):
    """Where a generator of programs takes its decisions from. Earlier elements are the simpler ones."""

    @abstractmethod
    def below(self, count: int) -> int:
        """A number from 0 to ``count`` - 1; ``count`` is at least 1."""

    def integer(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def boolean(self) -> bool:
        return bool(self.below(2))

    def chance(self, one_in: int) -> bool:
        """True once in ``one_in`` times."""
        return self.below(one_in) == one_in - 1

    def one_of(self, elements: Sequence[T]) -> T:
        """One of the elements, of which there is at least one."""
        return elements[self.below(len(elements))]

    def several(self, elements: Sequence[T], least: int, most: int) -> list[T]:
        """``least`` to ``most`` elements, the same one perhaps more than once."""
        return [self.one_of(elements) for _ in range(self.integer(least, most))]

    def permutation(self, elements: Sequence[T]) -> list[T]:
        """The elements in another order."""
        left = list(elements)
        return [left.pop(self.below(len(left))) for _ in range(len(left))]


class RandomChoices(Choices):
    """Choices from a seed.

    Args:
        seed: a text; equal texts give equal choices.
        prefix: numbers to take first, modulo how many there are to choose from; after them the choices are random.

    >>> choices = RandomChoices("seed")
    >>> numbers = [choices.below(10) for _ in range(3)]
    >>> replay = RandomChoices("another seed", prefix=choices.numbers)
    >>> [replay.below(10) for _ in range(3)] == numbers
    True
    """

    def __init__(self, seed: str, prefix: Sequence[int] = ()) -> None:
        self.random = random.Random(seed).random
        self.prefix = prefix
        self.numbers: list[int] = []

    def below(self, count: int) -> int:
        drawn = len(self.numbers)
        number = self.prefix[drawn] % count if drawn < len(self.prefix) else int(self.random() * count)
        self.numbers.append(number)
        return number


Generator = Callable[Concatenate[Choices, P], Case]


class Programs(Protocol):
    """A source of random programs: a function of choices."""

    def __call__(self, choices: Choices, /) -> Case: ...
