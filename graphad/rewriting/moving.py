"""The semantics of operators that only move elements, for all extents and dtypes.

A tensor is a ``Grid``: its extents, and for each place the element that is there. ``MOVES`` says, operator by operator, what grids become;
``tests/rewriting/test_moving.py`` holds it against the kernels. Extents and amounts (paddings, starts, ends) are integers of the solver;
ranks and axes are tried one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphad.rewriting.smt import Unsupported, z3
from graphad.rewriting.soundness import calls_in
from graphad.rewriting.terms import Result, Term

FLAT = frozenset(  # operators that keep the elements in their order, row by row, whatever the shape
    (
        *("assign", "reshape", "reshape2", "squeeze", "squeeze2", "unsqueeze", "unsqueeze2"),
        *("flatten", "flatten2", "flatten_contiguous_range", "reshape_like"),
    )
)
Places = Sequence[Any]
Facts = list[Any]  # what has to hold for operators to take their inputs


@dataclass(frozen=True)
class Grid:
    """A tensor: an extent for each axis, and the element at a place."""

    extents: tuple[Any, ...]
    at: Callable[[Places], Any]

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.extents)


def keeps_elements(rule: Any) -> tuple[str, ...] | None:
    """The assumptions under which a rule leaves all elements where they were; None if that is not seen without the solver.

    Operators that keep the order of the elements are nothing but a change of shape, and a rule is applied only where both sides have one
    shape. So sides that are the same tensor but for such operators are equal.
    """
    before, after = ([_flat(term) for term in terms] for terms in (rule.before, rule.after))
    if None in (*before, *after) or not list(calls_in(rule.before[0])):
        return None
    return () if all(a is b for a, b in zip(before, after, strict=True)) else None


def _flat(term: Term) -> Term | None:
    """The tensor of which a term has the elements in the same order; None if another operator is in between."""
    while isinstance(term, Result):
        if term.call.row.type not in FLAT or term.slot != "Out":
            return None
        term = term.call.inputs["X"][0]
    return term


# -- operators -----------------------------------------------------------------------------------


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise Unsupported(f"axis={axis} of {rank}")
    return axis % rank


def element_sort() -> Any:
    """The solver's sort for elements, of which nothing is known."""
    return z3.DeclareSort("Element")


def _put(items: Sequence[Any], place: int, *new: Any, instead: int = 1) -> tuple[Any, ...]:
    return (*items[:place], *new, *items[place + instead :])


def _same(facts: Facts, x: Grid, **_: Any) -> list[Grid]:
    return [x]


def _transpose(facts: Facts, x: Grid, *, axis: Sequence[int], **_: Any) -> list[Grid]:
    order = [_axis(a, x.rank) for a in axis]
    if sorted(order) != list(range(x.rank)):
        raise Unsupported("no order of axes")
    return [Grid(tuple(x.extents[a] for a in order), lambda places: x.at([places[order.index(i)] for i in range(x.rank)]))]


def _flip(facts: Facts, x: Grid, *, axis: Sequence[int]) -> list[Grid]:
    turned = [_axis(a, x.rank) for a in axis]
    if len(set(turned)) != len(turned):
        raise Unsupported("an axis twice")
    return [Grid(x.extents, lambda places: x.at([x.extents[i] - 1 - p if i in turned else p for i, p in enumerate(places)]))]


def _concat(facts: Facts, *grids: Grid, axis: int = 0, **_: Any) -> list[Grid]:
    along = _axis(axis, grids[0].rank)

    def at(places: Places) -> Any:
        start: Any = sum(grid.extents[along] for grid in grids[:-1])
        element = grids[-1].at(_put(places, along, places[along] - start))
        for grid in reversed(grids[:-1]):
            start = start - grid.extents[along]
            inside = places[along] < start + grid.extents[along]
            element = z3.If(inside, grid.at(_put(places, along, places[along] - start)), element)
        return element

    return [Grid(_put(grids[0].extents, along, sum(grid.extents[along] for grid in grids)), at)]


def _split(facts: Facts, x: Grid, *, num: int = 0, axis: int = 0, sections: Sequence[int] = ()) -> list[Grid]:
    """Equal parts, or parts of any extents: one of the sections may be -1, so only their sum is known."""
    count = len(sections) or num
    if count < 1:
        raise Unsupported("split in no parts")
    along = _axis(axis, x.rank)
    parts = [z3.FreshInt("part") for _ in range(count)]
    facts.extend([sum(parts) == x.extents[along], *(part >= 0 for part in parts)])
    if not sections:
        facts.extend([part == parts[0] for part in parts])

    def piece(k: int) -> Grid:
        start = sum(parts[:k])
        return Grid(_put(x.extents, along, parts[k]), lambda places: x.at(_put(places, along, places[along] + start)))

    return [piece(k) for k in range(count)]


def _stack(facts: Facts, *grids: Grid, axis: int = 0) -> list[Grid]:
    along = _axis(axis, grids[0].rank + 1)

    def at(places: Places) -> Any:
        inner = _put(places, along)
        element = grids[-1].at(inner)
        for k in reversed(range(len(grids) - 1)):
            element = z3.If(places[along] == k, grids[k].at(inner), element)
        return element

    return [Grid(_put(grids[0].extents, along, z3.IntVal(len(grids)), instead=0), at)]


def _unstack(facts: Facts, x: Grid, *, axis: int = 0, num: int = 0) -> list[Grid]:
    along = _axis(axis, x.rank)
    facts.extend([x.extents[along] == num])

    def piece(k: int) -> Grid:
        return Grid(_put(x.extents, along), lambda places: x.at(_put(places, along, z3.IntVal(k), instead=0)))

    return [piece(k) for k in range(num)]


def _unsqueeze(facts: Facts, x: Grid, *, axes: Sequence[int]) -> list[Grid]:
    if len(axes) != 1:
        raise Unsupported("several new axes")
    along = _axis(axes[0], x.rank + 1)
    return [Grid(_put(x.extents, along, z3.IntVal(1), instead=0), lambda places: x.at(_put(places, along)))]


def _pad(facts: Facts, x: Grid, *, paddings: Sequence[Any], pad_value: Any = 0.0) -> list[Grid]:
    if len(paddings) != 2 * x.rank:
        raise Unsupported("paddings of another rank")
    before, after = paddings[::2], paddings[1::2]
    facts.extend(amount >= 0 for amount in paddings)

    def at(places: Places) -> Any:
        inner = [p - b for p, b in zip(places, before, strict=True)]
        inside = z3.And(*(z3.And(i >= 0, i < e) for i, e in zip(inner, x.extents, strict=True)))
        return z3.If(inside, x.at(inner), padding_of(pad_value))

    return [Grid(tuple(e + b + a for e, b, a in zip(x.extents, before, after, strict=True)), at)]


def _expand(facts: Facts, x: Grid, *, shape: Sequence[Any]) -> list[Grid]:
    offset = len(shape) - x.rank
    if offset < 0:
        raise Unsupported("fewer axes")
    extents = []
    for i, wanted in enumerate(shape):
        old = x.extents[i - offset] if i >= offset else z3.IntVal(1)
        facts.extend([z3.Or(wanted == old, old == 1, z3.And(wanted == -1, z3.BoolVal(i >= offset))), wanted >= -1])
        extents.append(z3.If(wanted == -1, old, wanted))
    return [Grid(tuple(extents), lambda places: x.at([z3.If(e == 1, 0, p) for e, p in zip(x.extents, places[offset:], strict=True)]))]


def _slice(facts: Facts, x: Grid, *, axes: Sequence[int], starts: Sequence[Any], ends: Sequence[Any], **_: Any) -> list[Grid]:
    extents, first = list(x.extents), [z3.IntVal(0)] * x.rank
    if len({_axis(a, x.rank) for a in axes}) != len(axes) or not len(axes) == len(starts) == len(ends):
        raise Unsupported("an axis twice, or bounds for others")
    for axis, start, end in zip(axes, starts, ends, strict=True):
        along = _axis(axis, x.rank)
        size = x.extents[along]
        low, high = (_within(bound, size) for bound in (start, end))
        first[along], extents[along] = low, z3.If(high > low, high - low, 0)
    return [Grid(tuple(extents), lambda places: x.at([p + f for p, f in zip(places, first, strict=True)]))]


def _within(bound: Any, size: Any) -> Any:
    """A bound of a slice as Python takes it: counted from the end if negative, and moved into the tensor."""
    counted = z3.If(bound < 0, bound + size, bound)
    return z3.If(counted < 0, 0, z3.If(counted > size, size, counted))


MOVES: Mapping[str, Callable[..., list[Grid]]] = {
    "assign": _same,
    "transpose": _transpose,
    "transpose2": _transpose,
    "flip": _flip,
    "concat": _concat,
    "split": _split,
    "stack": _stack,
    "unstack": _unstack,
    "unsqueeze": _unsqueeze,
    "pad": _pad,
    "expand_v2": _expand,
    "slice": _slice,
}
AMOUNTS = {("pad", "paddings"), ("expand_v2", "shape"), ("slice", "starts"), ("slice", "ends")}  # numbers of the solver


def padding_of(value: Any) -> Any:
    """The element that a padding is."""
    return z3.Const(f"padding {value!r}", element_sort())
