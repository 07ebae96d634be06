"""Make nets of repeated sequences of operators, such as the layers of a network or the steps of an unrolled loop.

    mul, add, tanh, mul, add, tanh, mul, add, tanh      ⇒      net { mul, add, tanh }, net { ... }, net { ... }

Repeated stretches of the operators in their order are looked for, the longest first; one that repeats itself is cut into what it
repeats. A stretch is contiguous in a topological order, so it can always become one operator.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from graphad.errors import InvalidValue
from graphad.ir import Graph, Op, Value
from graphad.ir.edits import outline
from graphad.program import EMPTY
from graphad.rewriting import Pass
from graphad.types import TENSOR

# -- repeated stretches ----------------------------------------------------------------------------
# Repeated stretches of a sequence of numbers, found by names for all stretches of a length.
#
#     a b c a b c x a b c      the stretch of 3 at 0, 3 and 7
#
# The names of stretches of twice a length are pairs of names (R. Karp, R. Miller and A. Rosenberg, "Rapid identification of repeated
# patterns in strings, trees and arrays", 1972), so that any length costs a sort or two.

_Names = NDArray[np.int64]


class Repeats:
    """The repeated substrings of a sequence of numbers; a negative number equals no other."""

    def __init__(self, tokens: Sequence[int]) -> None:
        names = np.asarray(tokens, np.int64)
        # Numbers of their own for those that match nothing, so that no stretch with one in it is ever repeated.
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
        # Sorted by name, equal stretches are neighbors; one that repeats has its first and last place a length apart at least.
        names = self.names(length)
        order = np.argsort(names, kind="stable")
        starts = np.flatnonzero(np.diff(names[order], prepend=names[order[0]] - 1))
        ends = np.append(starts[1:], len(order))
        repeats = [order[a:b] for a, b in zip(starts, ends, strict=True) if order[b - 1] - order[a] >= length]
        return sorted(_apart(places.tolist(), length) for places in repeats)

    def longest(self, most: int) -> int:
        """The greatest length, at most ``most``, of a stretch that occurs twice without overlap; 0 if there is none."""
        # Bisection: a stretch that occurs twice has parts that do.
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
    """Numbers for pairs of a substring and the one that starts ``shift`` places later."""
    first, second = names[: len(names) - shift], names[shift:]
    # A pair as one number; ``unique`` then numbers the distinct pairs from 0, so that names stay small.
    _, numbers = np.unique(first * (int(names.max(initial=0)) + 1) + second, return_inverse=True)
    return np.asarray(numbers, np.int64)


def _apart(places: list[int], length: int) -> list[int]:
    """The places, from the first on, without those that overlap the one before."""
    starts: list[int] = []
    for place in places:
        if not starts or place - starts[-1] >= length:
            starts.append(place)
    return starts


def period(tokens: Sequence[int]) -> int:
    """After how many places a sequence is itself again: its length if it is not periodic."""
    # The failure function of D. Knuth, J. Morris and V. Pratt, "Fast pattern matching in strings", 1977: the longest proper border of each
    # prefix.
    borders = [0] * len(tokens)
    for i in range(1, len(tokens)):
        k = borders[i - 1]
        while k and tokens[i] != tokens[k]:
            k = borders[k - 1]
        borders[i] = k + (tokens[i] == tokens[k])
    return len(tokens) - borders[-1] if tokens else 0


# -- the pass --------------------------------------------------------------------------------------

_ALONE = -1  # the token of an operator that stays where it is


@dataclass(frozen=True)
class OutlineRepeated(Pass):
    """Make nets with equal graphs of repeated operators: of the same types, attributes and shapes, connected in the same way.

    Operators with nested graphs, with side effects, that write persistable variables or what is not a tensor stay where they are.

    Args:
        min_ops: how many operators a net has, at least.

    Raises:
        ValueError: ``min_ops`` is below 1.
    """

    name = "outline-repeated"
    min_ops: int = 3

    def __post_init__(self) -> None:
        if self.min_ops < 1:
            raise InvalidValue(f"outline-repeated: a net has one operator or more, not min_ops={self.min_ops}")

    def apply(self, graph: Graph) -> bool:
        return any([_Outlining(subgraph, self.min_ops).run() for subgraph in list(graph.tree(sealed=False))])


@dataclass
class _Outlining:
    """One graph: its operators in order, each with a token, equal for operators that are alike."""

    graph: Graph
    min_ops: int
    ops: list[Op] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def run(self) -> bool:
        """Outline repeated stretches; return whether there were any."""
        if len(self.graph.ops) < 2 * self.min_ops:
            return False
        self.ops = self.graph.ordered_ops()
        numbers: dict[object, int] = {}
        self.tokens = [numbers.setdefault(_kind(op), len(numbers)) if self._may_move(op) else _ALONE for op in self.ops]
        has_changed, most, repeats = False, len(self.ops), Repeats(self.tokens)
        # Longest first. Where no stretch of a length can be outlined (its operators are wired differently each time), shorter ones are
        # tried, an eighth shorter at a time: all lengths would be quadratic.
        while (length := repeats.longest(most)) >= self.min_ops:
            any_cut = any([self._cut(places, length) for places in repeats.groups(length)])
            has_changed |= any_cut
            repeats = Repeats(self.tokens) if any_cut else repeats
            most = length if any_cut else length - max(1, length // 8)
        return has_changed

    def _may_move(self, op: Op) -> bool:
        definition = op.definition
        if definition is None or op.graphs or definition.side_effect or definition.is_absent or "run_once" in op.attrs:
            return False
        if any(value.kind != TENSOR for value in op.reads()):
            return False
        return not any(v.kind != TENSOR or v.persistable or v.name == EMPTY or len(v.writers) > 1 for v in op.writes())

    def _cut(self, places: list[int], length: int) -> bool:
        """Outline the stretches of a length at some places, or their repeated parts."""
        start = places[0]
        stretch = self.tokens[start : start + length]
        if _ALONE in stretch:
            return False
        period_length = period(stretch)
        # A stretch that repeats itself, as layers of one kind do: outline the period, taken at its first occurrence.
        if 2 * period_length <= length:
            while start and self.tokens[start - 1] != _ALONE and self.tokens[start - 1] == self.tokens[start - 1 + period_length]:
                start -= 1
            # The fewest whole periods that make a net of ``min_ops`` operators.
            length = period_length * -(-self.min_ops // period_length)
            places = list(_occurrences(self.tokens, self.tokens[start : start + length], start))
        return self._outline_alike([place for place in places if _ALONE not in self.tokens[place : place + length]], length)

    def _outline_alike(self, places: list[int], length: int) -> bool:
        """Outline the substrings of operators that are connected like another one of them."""
        alike: dict[object, list[int]] = {}
        for place in places:
            ops = self.ops[place : place + length]
            if _is_connected(ops):
                alike.setdefault(_wiring(ops), []).append(place)
        has_changed = False
        for place in (place for group in alike.values() if len(group) > 1 for place in group):
            ops = self.ops[place : place + length]
            if self.graph.allows("outline", *ops):
                outline(ops)
                # Outlined operators match nothing any more, and the numbers of those after them stay what they are.
                self.tokens[place : place + length] = [_ALONE] * length
                has_changed = True
        return has_changed


def _occurrences(tokens: list[int], pattern: list[int], start: int) -> Iterator[int]:
    """The places from ``start`` on where a pattern occurs, without overlap."""
    first, length, place = pattern[0], len(pattern), start
    while place + length <= len(tokens):
        # The first token is compared by itself: no list is made for nearly all places.
        if tokens[place] == first and tokens[place : place + length] == pattern:
            yield place
            place += length
        else:
            place += 1


# -- equality ------------------------------------------------------------------------------------


def _kind(op: Op) -> Hashable:
    """A key that is equal for operators that are alike."""
    reads = tuple((slot, tuple((v.shape, v.dtype) for v in values)) for slot, values in op.inputs.items())
    writes = tuple((slot, tuple((v.shape, v.dtype, v.gradient_marks) for v in values)) for slot, values in op.outputs.items())
    return op.type, op.role, repr(sorted(op.attrs.items())) if op.attrs else "", reads, writes


def _wiring(ops: Sequence[Op]) -> Hashable:
    """The connections of operators, and which of their results are used elsewhere, up to the names of values."""
    # Values are numbered by first occurrence: two stretches are wired alike if the sequences of numbers are equal.
    number: dict[Value, int] = {}
    inside, graph = set(ops), ops[0].graph
    reads = tuple(tuple(number.setdefault(value, len(number)) for value in (*op.reads(), *op.writes())) for op in ops)
    out = tuple(graph.is_observed(v) or any(reader not in inside for reader in v.readers) for op in ops for v in op.writes())
    return reads, out


def _is_connected(ops: Sequence[Op]) -> bool:
    """Whether operators are connected by the values that they pass to each other."""
    inside, members, stack = set(ops), {ops[0]}, [ops[0]]
    while stack:
        op = stack.pop()
        near = [*(w for v in op.reads() for w in v.writers), *(r for v in op.writes() for r in v.readers)]
        fresh = [member for member in dict.fromkeys(near) if member in inside and member not in members]
        members.update(fresh)
        stack += fresh
    return len(members) == len(inside)
