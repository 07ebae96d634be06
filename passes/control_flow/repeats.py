"""Repeated stretches of a sequence of numbers, found by names for all stretches of a length.

    a b c a b c x a b c      the stretch of 3 at 0, 3 and 7

The names of stretches of twice a length are pairs of names (R. Karp, R. Miller and A. Rosenberg, "Rapid identification of repeated
patterns in strings, trees and arrays", 1972), so that any length costs a sort or two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_Names = NDArray[np.int64]


class Repeats:
    """The stretches of a sequence; a negative number occurs once, whatever it is."""

    def __init__(self, tokens: Sequence[int]) -> None:
        names = np.asarray(tokens, np.int64)
        single = np.flatnonzero(names < 0)
        names[single] = np.arange(len(single)) + names.max(initial=0) + 1
        self.count = len(names)
        self.levels: list[_Names] = [names]

    def names(self, length: int) -> _Names:
        """For each place the name of the stretch of a length that starts there: equal names, equal stretches."""
        level = length.bit_length() - 1
        while len(self.levels) <= level:
            half = 1 << (len(self.levels) - 1)
            self.levels.append(_paired(self.levels[-1], half))
        power = 1 << level
        return self.levels[level] if length == power else _paired(self.levels[level], length - power)

    def groups(self, length: int) -> list[list[int]]:
        """The places of stretches of a length that occur more than once without overlap, by the first place."""
        if length < 1 or 2 * length > self.count:
            return []
        names = self.names(length)
        order = np.argsort(names, kind="stable")
        starts = np.flatnonzero(np.diff(names[order], prepend=names[order[0]] - 1))
        ends = np.append(starts[1:], len(order))
        found = [order[a:b] for a, b in zip(starts, ends, strict=True) if order[b - 1] - order[a] >= length]
        return sorted(_apart(places.tolist(), length) for places in found)

    def longest(self, most: int) -> int:
        """The greatest length, at most ``most``, of a stretch that occurs twice without overlap; 0 if there is none."""
        least, most = 0, min(most, self.count // 2)
        while least < most:
            middle = (least + most + 1) // 2
            if self._repeats(middle):
                least = middle
            else:
                most = middle - 1
        return least

    def _repeats(self, length: int) -> bool:
        names = self.names(length)
        _, inverse = np.unique(names, return_inverse=True)
        places = np.arange(len(names))
        last = np.zeros(len(names), np.int64)
        np.maximum.at(last, inverse, places)
        return bool((last[inverse] - places >= length).any())


def _paired(names: _Names, shift: int) -> _Names:
    """Names for pairs of a stretch and the one that starts ``shift`` places on."""
    first, second = names[: len(names) - shift], names[shift:]
    _, found = np.unique(first * (int(names.max(initial=0)) + 1) + second, return_inverse=True)
    return np.asarray(found, np.int64)


def _apart(places: list[int], length: int) -> list[int]:
    """The places of which none overlaps the one before, from the first on."""
    kept: list[int] = []
    for place in places:
        if not kept or place - kept[-1] >= length:
            kept.append(place)
    return kept


def period(tokens: Sequence[int]) -> int:
    """After how many places a sequence is itself again: its length if it is not periodic."""
    borders = [0] * len(tokens)
    for i in range(1, len(tokens)):
        k = borders[i - 1]
        while k and tokens[i] != tokens[k]:
            k = borders[k - 1]
        borders[i] = k + (tokens[i] == tokens[k])
    return len(tokens) - borders[-1] if tokens else 0
