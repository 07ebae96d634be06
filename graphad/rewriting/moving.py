"""Operators that only move elements: what they mean for all extents and dtypes, and proofs of rules about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, permutations, product
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn

from graphad.ops import OpDef
from graphad.ops.inference import reduced_axes
from graphad.rewriting.evaluation import Bound, Slots
from graphad.rewriting.pattern import FOUND, Attribute, Call, Result, Scalar, Several, Term, calls_in, leaves
from graphad.rewriting.smt import Element, Sort, Unsupported, z3

if TYPE_CHECKING:
    from graphad.rewriting.rules import PatternRule

# -- moving ----------------------------------------------------------------------------------------
# The semantics of operators that only move elements, for all extents and dtypes.
#
# A tensor is a ``Grid``: its extents, and for each place the element that is there. ``MOVES`` says, operator by operator, what grids
# become;
# ``tests/rewriting/test_moving.py`` holds it against the kernels. Extents and amounts (paddings, starts, ends) are integers of the solver;
# ranks and axes are tried one by one.

Places = Sequence[Element]
Facts = list[Element]  # what has to hold for operators to take their inputs


@dataclass(frozen=True)
class Grid:
    """A tensor: an extent for each axis, and the element at a place; ``rolled`` is what it is rolled from, and by how much on each axis."""

    extents: tuple[Element, ...]
    at: Callable[[Places], Element]
    rolled: tuple[Grid, Mapping[int, Element]] | None = None

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.extents)


def keeps_elements(rule: PatternRule) -> tuple[str, ...] | None:
    """The assumptions under which a rule leaves all elements where they were; None if that is not seen without the solver.

    Operators that keep the order of the elements are nothing but a change of shape, and a rule is applied only where both sides have one
    shape. So sides that are the same tensor except for such operators are equal.
    """
    before, after = ([_flat(term) for term in terms] for terms in (rule.before, rule.after))
    if None in (*before, *after) or not list(calls_in(rule.before[0])):
        return None
    # The same object, so the same tensor: unknowns of a pattern are one each.
    return () if all(a is b for a, b in zip(before, after, strict=True)) else None


def _flat(term: Term) -> Term | None:
    """The tensor of which a term has the elements in the same order; None if another operator is in between."""
    while isinstance(term, Result):
        definition = term.call.definition
        if not definition.in_order or term.slot != next(iter(definition.outputs)):
            return None
        term = term.call.inputs["X"][0]
    return term


# -- operators -----------------------------------------------------------------------------------


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"axis={axis} of {rank}")
    return axis % rank


def element_sort() -> Sort:
    """The solver's sort for elements, of which nothing is known."""
    return z3.DeclareSort("Element")


def _put(items: Sequence[object], place: int, *new: object, instead: int = 1) -> tuple[Element, ...]:
    return (*items[:place], *new, *items[place + instead :])


def _same(facts: Facts, x: Grid, **_: object) -> list[Grid]:
    return [x]


def _transpose(facts: Facts, x: Grid, *, axis: Sequence[int], **_: object) -> list[Grid]:
    order = [_axis(a, x.rank) for a in axis]
    if sorted(order) != list(range(x.rank)):
        raise ValueError("no order of axes")
    # Axis i of x is where ``axis`` has the number i.
    return [Grid(tuple(x.extents[a] for a in order), lambda places: x.at([places[order.index(i)] for i in range(x.rank)]))]


def _flip(facts: Facts, x: Grid, *, axis: Sequence[int]) -> list[Grid]:
    axes = [_axis(a, x.rank) for a in axis]
    if len(set(axes)) != len(axes):
        raise ValueError("an axis twice")
    # Place p comes from the place that is as far from the other end.
    return [Grid(x.extents, lambda places: x.at([x.extents[i] - 1 - p if i in axes else p for i, p in enumerate(places)]))]


def _concat(facts: Facts, *grids: Grid, axis: int = 0, **_: object) -> list[Grid]:
    joined_axis = _axis(axis, grids[0].rank)

    # From the last part to the first: the innermost choice is the last part, and each earlier one takes the places below its end.
    def at(places: Places) -> Element:
        start: Element = sum(grid.extents[joined_axis] for grid in grids[:-1])
        element = grids[-1].at(_put(places, joined_axis, places[joined_axis] - start))
        for grid in reversed(grids[:-1]):
            start = start - grid.extents[joined_axis]
            inside = places[joined_axis] < start + grid.extents[joined_axis]
            element = z3.If(inside, grid.at(_put(places, joined_axis, places[joined_axis] - start)), element)
        return element

    return [Grid(_put(grids[0].extents, joined_axis, sum(grid.extents[joined_axis] for grid in grids)), at)]


def _split(facts: Facts, x: Grid, *, num: int = 0, axis: int = 0, sections: Sequence[int] = ()) -> list[Grid]:
    """Equal parts, or parts of any extents: one of the sections may be -1, so only their sum is known."""
    count = len(sections) or num
    if count < 1:
        raise ValueError("split in no parts")
    split_axis = _axis(axis, x.rank)
    # Their extents are unknowns: what is proved holds however the axis is split.
    parts = [z3.FreshInt("part") for _ in range(count)]
    facts.extend([sum(parts) == x.extents[split_axis], *(part >= 0 for part in parts)])
    if not sections:
        facts.extend([part == parts[0] for part in parts])

    def piece(k: int) -> Grid:
        start = sum(parts[:k])
        return Grid(_put(x.extents, split_axis, parts[k]), lambda places: x.at(_put(places, split_axis, places[split_axis] + start)))

    return [piece(k) for k in range(count)]


def _stack(facts: Facts, *grids: Grid, axis: int = 0) -> list[Grid]:
    new_axis = _axis(axis, grids[0].rank + 1)

    def at(places: Places) -> Element:
        inner = _put(places, new_axis)
        element = grids[-1].at(inner)
        for k in reversed(range(len(grids) - 1)):
            element = z3.If(places[new_axis] == k, grids[k].at(inner), element)
        return element

    return [Grid(_put(grids[0].extents, new_axis, z3.IntVal(len(grids)), instead=0), at)]


def _unstack(facts: Facts, x: Grid, *, axis: int = 0, num: int = 0) -> list[Grid]:
    along = _axis(axis, x.rank)
    facts.extend([x.extents[along] == num])

    def piece(k: int) -> Grid:
        return Grid(_put(x.extents, along), lambda places: x.at(_put(places, along, z3.IntVal(k), instead=0)))

    return [piece(k) for k in range(num)]


def _unsqueeze(facts: Facts, x: Grid, *, axes: Sequence[int]) -> list[Grid]:
    for axis in axes:  # one after the other, each counted in what the ones before it left
        x = _with_axis(x, _axis(axis, x.rank + 1))
    return [x]


def _with_axis(x: Grid, along: int) -> Grid:
    return Grid(_put(x.extents, along, z3.IntVal(1), instead=0), lambda places: x.at(_put(places, along)))


def _pad(facts: Facts, x: Grid, *, paddings: Sequence[Element], pad_value: object = 0.0) -> list[Grid]:
    if len(paddings) != 2 * x.rank:
        raise ValueError("paddings of another rank")
    before, after = paddings[::2], paddings[1::2]
    facts.extend(amount >= 0 for amount in paddings)

    def at(places: Places) -> Element:
        inner = [p - b for p, b in zip(places, before, strict=True)]
        # An element is the padding's unless the place, moved back, is in x along every axis.
        inside = z3.And(*(z3.And(i >= 0, i < e) for i, e in zip(inner, x.extents, strict=True)))
        return z3.If(inside, x.at(inner), padding_of(pad_value))

    return [Grid(tuple(e + b + a for e, b, a in zip(x.extents, before, after, strict=True)), at)]


def _expand(facts: Facts, x: Grid, *, shape: Sequence[Element]) -> list[Grid]:
    offset = len(shape) - x.rank
    if offset < 0:
        raise ValueError("fewer axes")
    extents = []
    for i, target in enumerate(shape):
        old = x.extents[i - offset] if i >= offset else z3.IntVal(1)
        # -1 keeps an extent, and only of an axis that is there.
        facts.extend([z3.Or(target == old, old == 1, z3.And(target == -1, z3.BoolVal(i >= offset))), target >= -1])
        extents.append(z3.If(target == -1, old, target))
    return [Grid(tuple(extents), lambda places: x.at([z3.If(e == 1, 0, p) for e, p in zip(x.extents, places[offset:], strict=True)]))]


def _slice(facts: Facts, x: Grid, *, axes: Sequence[int], starts: Sequence[object], ends: Sequence[object], **_: object) -> list[Grid]:
    extents, first = list(x.extents), [z3.IntVal(0)] * x.rank
    if len({_axis(a, x.rank) for a in axes}) != len(axes) or not len(axes) == len(starts) == len(ends):
        raise ValueError("an axis twice, or bounds for others")
    for axis, start, end in zip(axes, starts, ends, strict=True):
        along = _axis(axis, x.rank)
        size = x.extents[along]
        low, high = (_within(bound, size) for bound in (start, end))
        first[along], extents[along] = low, z3.If(high > low, high - low, 0)
    return [Grid(tuple(extents), lambda places: x.at([p + f for p, f in zip(places, first, strict=True)]))]


def _within(bound: Element, size: Element) -> Element:
    """A bound of a slice as Python takes it: counted from the end if negative, and moved into the tensor."""
    place = z3.If(bound < 0, bound + size, bound)
    return z3.If(place < 0, 0, z3.If(place > size, size, place))


# -- of one element --------------------------------------------------------------------------------
# Sums, means, products and extrema are those of one element where every axis that they are taken over has one; what they are otherwise is
# left open: a function of the place and of the tensor, of which nothing is known.


def _over(x: Grid, axes: Sequence[int], extents: tuple[Element, ...], place_in: Callable[[Places], Places]) -> list[Grid]:
    """The result of a reduction over axes: the element at ``place_in(place)`` if the axes have one element each, an unknown one
    otherwise."""
    alone, several = z3.And(*(x.extents[axis] == 1 for axis in axes)), _unknown(len(extents))
    return [Grid(extents, lambda places: z3.If(alone, x.at(place_in(places)), several(places)))]


def _unknown(rank: int) -> Callable[[Places], Element]:
    """Elements of which nothing is known, one for each place."""
    if not rank:
        element = z3.FreshConst(element_sort(), "several")
        return lambda places: element
    function = z3.FreshFunction(*([z3.IntSort()] * rank), element_sort())
    return lambda places: function(*places)


def _reduction(
    facts: Facts, x: Grid, *, dim: Sequence[int] = (), keep_dim: bool = False, reduce_all: bool = False, **_: object
) -> list[Grid]:
    axes = reduced_axes(x.rank, [_axis(axis, x.rank) for axis in dim] if x.rank else [], reduce_all)
    if keep_dim:
        extents = tuple(z3.IntVal(1) if axis in axes else extent for axis, extent in enumerate(x.extents))
        return _over(x, axes, extents, lambda places: places)
    axes_left = [axis for axis in range(x.rank) if axis not in axes]
    extents = tuple(x.extents[axis] for axis in axes_left)
    return _over(x, axes, extents, lambda p: [p[axes_left.index(axis)] if axis in axes_left else z3.IntVal(0) for axis in range(x.rank)])


def _mean(facts: Facts, x: Grid) -> list[Grid]:
    return _over(x, range(x.rank), (), lambda places: [z3.IntVal(0)] * x.rank)


def _expand_like(facts: Facts, x: Grid, like: Grid, *, axis: int = -1) -> list[Grid]:
    after = like.rank - _first_axis(like, x, axis) - x.rank
    ones = (z3.IntVal(1),) * after
    return _expand(facts, Grid((*x.extents, *ones), lambda places: x.at(places[: x.rank])), shape=like.extents)


def _first_axis(wide: Grid, narrow: Grid, axis: int) -> int:
    """The axis that the first axis of a broadcast operand is aligned with (Fluid's ``axis``; -1: the last ones are aligned)."""
    offset = wide.rank - narrow.rank
    if offset < 0 or axis < -1:
        raise ValueError("aligned at no axis")
    return offset if axis == -1 else min(axis, offset)


def _sum_like(facts: Facts, x: Grid, like: Grid, *, axis: int = -1) -> list[Grid]:
    """A sum over the axes that ``like`` has not, or with one element."""
    offset = _first_axis(x, like, axis)
    outside = [extent for i, extent in enumerate(x.extents) if not offset <= i < offset + like.rank]
    inside = list(zip(x.extents[offset : offset + like.rank], like.extents, strict=True))
    facts.extend(z3.Or(mine == other, other == 1) for mine, other in inside)
    # Only if nothing is summed is an element known; otherwise it is one of which nothing is known but its place.
    alone = z3.And(*(mine == other for mine, other in inside), *(extent == 1 for extent in outside))
    several, zeros = _unknown(like.rank), [z3.IntVal(0)] * x.rank
    return [Grid(like.extents, lambda places: z3.If(alone, x.at(_put(zeros, offset, *places, instead=like.rank)), several(places)))]


def _roll(facts: Facts, x: Grid, *, shifts: Sequence[Element], axis: Sequence[int] = ()) -> list[Grid]:
    """Each place, moved back by the shifts along its axis; without axes all elements are one row, and move together."""
    if not axis:
        return _as_one_row(x, sum(shifts, z3.IntVal(0)))
    if len(axis) != len(shifts) and 1 not in (len(axis), len(shifts)):
        raise ValueError("shifts of other axes")
    # One roll after another is one by the sum, which the solver would have to find out about remainders by a number that it does not know.
    base, earlier = x.rolled or (x, {})
    by_axis = dict(earlier)
    pairs = product(axis, shifts) if 1 in (len(axis), len(shifts)) else zip(axis, shifts, strict=True)  # one goes with each of the others
    for number, shift in pairs:
        by_axis[_axis(number, x.rank)] = by_axis.get(_axis(number, x.rank), 0) + shift
    turns = {i: (shift, x.extents[i]) for i, shift in by_axis.items()}
    rolled = (base, by_axis)
    return [Grid(x.extents, lambda places: base.at([_back(p, *turns[i]) if i in turns else p for i, p in enumerate(places)]), rolled)]


def _back(place: Element, shift: Element, extent: Element) -> Element:
    return z3.If(shift == 0, place, (place - shift) % extent)


def _as_one_row(x: Grid, shift: Element) -> list[Grid]:
    """A tensor whose elements all move by a shift, in the order in which they lie: where they come to is known for 0 only."""
    elsewhere = _unknown(x.rank + 1)
    return [Grid(x.extents, lambda places: z3.If(z3.Or(shift == 0, z3.BoolVal(not x.rank)), x.at(places), elsewhere([shift, *places])))]


# What one operator each means to the solver. Its numpy kernel cannot say that: it needs extents that are numbers, and here they are terms.
# Operators that only change the shape need no entry (``in_order``); any other one without an entry is refused by its name.
MOVES: Mapping[str, Callable[..., list[Grid]]] = {
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
    "expand_like": _expand_like,
    "sum_like": _sum_like,
    "roll": _roll,
    "mean": _mean,
}
REDUCTIONS = ("sum", "mean", "extremum", "product")  # that are of one element that element
AMOUNTS: Mapping[str, Callable[[int], Iterable[int]]] = {  # attributes that are numbers of the solver, and how many there are, by the rank
    "pad.paddings": lambda rank: [2 * rank],
    "expand_v2.shape": lambda rank: range(rank, rank + 3),
    "slice.starts": lambda rank: range(rank + 1),
    "slice.ends": lambda rank: range(rank + 1),
    "roll.shifts": lambda rank: range(rank + 1),
}


def move_of(definition: OpDef) -> Callable[..., list[Grid]] | None:
    """The move of an operator, as the solver sees it; None if it does not move elements."""
    if definition.elementwise and definition.in_order:
        return _same
    return MOVES.get(definition.type, _reduction if definition.reduction in REDUCTIONS else None)


def is_of_one(definition: OpDef) -> bool:
    """Whether an operator makes one element of several, and of one that element."""
    return move_of(definition) in (_reduction, _mean, _sum_like)


def padding_of(value: object) -> Element:
    """The element that a padding is."""
    return z3.Const(f"padding {value!r}", element_sort())


# -- moving proofs ---------------------------------------------------------------------------------
# Proofs that rules which only move elements bring the same element to each place: for all extents, and each rank up to four.

RANKS = range(5)
LENGTHS = (1, 2)  # of lists of tensors
PIECES = (1, 2, 3, 4)


class _Grids(Bound[Grid]):
    """Terms as grids."""

    def __init__(self, choice: _Choice) -> None:
        super().__init__(choice)
        self.facts: Facts = []

    def apply(self, definition: OpDef, inputs: Slots[Grid], attrs: Mapping[str, object]) -> Slots[Grid]:
        operands = [grid for slot in definition.inputs for grid in inputs.get(slot, ())]
        out = next(iter(definition.outputs))
        move = move_of(definition)
        assert move is not None
        return {out: move(self.facts, *operands, **attrs)}

    def filled(self, number: float, like: Grid) -> Grid:
        raise Unsupported("a constant")


class _Choice:
    """Ranks and axes in the place of a match."""

    def __init__(self, values: Mapping[Term, Grid], lists: Mapping[Term, list[Grid]], attrs: Mapping[str, Any]) -> None:
        self.values, self.lists, self.attrs = values, lists, attrs

    def type_of(self, term: Term) -> NoReturn:
        raise Unsupported(f"the shape of {term!r}")

    def uses_of(self, term: Term) -> int:
        return 1


def why_not_moved(rule: PatternRule, timeout: float) -> str | None:
    """Why a rule is not proved to move all elements to the same places; None if it is.

    Args:
        rule: a pattern rule.
        timeout: seconds in all.
    """
    calls = [call for term in (*rule.before, *rule.after) for call in calls_in(term)]
    strange = sorted({call.definition.type for call in calls if move_of(call.definition) is None})
    if strange:
        return f"unsupported: {', '.join(strange)}: neither elementwise, nor a move of elements"
    deadline, count = perf_counter() + timeout, 0
    # Ranks and axes are tried one by one, extents are proved for all at once.
    for choice in _choices(rule):
        if perf_counter() > deadline:
            return "time is over"
        applies, reason = _tried(rule, choice)
        if reason is not None:
            return reason
        count += applies
    return None if count else "unsupported: it applies to no choice of ranks and axes that was tried"


def _tried(rule: PatternRule, choice: _Choice) -> tuple[bool, str | None]:
    """Whether a rule can apply to a choice of ranks and axes, and why it is not proved for that."""
    grids = _Grids(choice)
    try:
        before = [grids.of(term) for term in rule.before]
        premises = [fact for condition in rule.conditions for fact in _premises(condition, choice)]
        after = [grids.of(term) for term in rule.after]
    except Unsupported as error:
        # An operator takes it, and what it makes of it is not known here: a proof for the other choices would be none for all.
        return True, f"unsupported: {error}"
    except (IndexError, ValueError):  # no operator takes it: an axis that is not there, fewer parts than the rule takes
        return False, None
    if any(a.rank != b.rank for a, b in zip(before, after, strict=True)):
        return False, None
    grounds = [grid for grids_ in ([*choice.values.values()], *choice.lists.values()) for grid in grids_]
    premises += [extent >= 0 for grid in grounds for extent in grid.extents] + grids.facts
    # A rule is applied where both sides have the same extents, whatever those are that only a run knows (``evaluation.keeps_types``).
    premises += [a == b for old, new in zip(before, after, strict=True) for a, b in zip(old.extents, new.extents, strict=True)]
    solver = z3.Solver()
    solver.set("timeout", 10_000)
    solver.add(*premises)
    # No operands of these ranks are taken by all operators: nothing is to prove, and the rule counts as not applying.
    if solver.check() == z3.unsat:
        return False, None
    for old, new in zip(before, after, strict=True):
        places = [z3.FreshInt("place") for _ in old.extents]
        solver.push()
        # A place within the extents at which the two sides differ: no solution means that there is none.
        solver.add(*(z3.And(p >= 0, p < e) for p, e in zip(places, old.extents, strict=True)), old.at(places) != new.at(places))
        answer = solver.check()
        solver.pop()
        if answer != z3.unsat:
            reason = "an element comes from elsewhere" if answer == z3.sat else "time is over"
            return True, f"{reason}, with {', '.join(f'{name}={value}' for name, value in choice.attrs.items())}"
    return True, None


def _premises(condition: object, choice: _Choice) -> Iterator[Element]:
    """A condition as a term of the solver: one, or none if it has no meaning there."""
    try:
        # A condition without a meaning here is left out: what is proved from fewer premises holds all the same.
        premise = _value(condition, choice)
        yield premise if z3.is_expr(premise) else z3.BoolVal(bool(premise))
    except (Unsupported, z3.Z3Exception):
        return


def _value(scalar: object, choice: _Choice) -> Element:
    if not isinstance(scalar, Scalar):
        return scalar
    if isinstance(scalar, Attribute) or (scalar.parts and scalar.parts[0] is FOUND):
        return scalar.value(choice)
    parts = [_value(part, choice) for part in scalar.parts]
    # Conditions are functions of Python's; of z3's terms any(), min() and ``not`` would need truth values, which terms have not.
    if scalar.function is any:
        return z3.Or(*(part != 0 for part in parts[0]))
    if scalar.function is min:
        return _least(parts[0])
    if scalar.text.startswith("not ") and z3.is_expr(parts[0]):
        return z3.Not(parts[0])
    return scalar.function(*parts)


def _least(items: Sequence[Element]) -> Element:
    least = items[0] if items else z3.IntVal(0)
    for item in items[1:]:
        least = z3.If(item < least, item, least)
    return least


# -- choices -------------------------------------------------------------------------------------


def _choices(rule: PatternRule) -> Iterator[_Choice]:
    """All ranks, axes and lengths of lists."""
    tensors = list(dict.fromkeys(leaf for term in rule.before for leaf in leaves(term)))
    list_leaves = [leaf for leaf in tensors if isinstance(leaf, Several)]
    single = [leaf for leaf in tensors if not isinstance(leaf, Several)]
    broadcasts = any(
        move_of(call.definition) in (_expand_like, _sum_like) for term in (*rule.before, *rule.after) for call in calls_in(term)
    )
    # Ranks and axes decide how a term is built, so they are enumerated; extents and amounts stay symbols. Operands that are joined have as
    # many axes as one another, those of which one is broadcast to the other may have fewer.
    for ranks in product(RANKS, repeat=len(single)) if broadcasts else ([rank] * max(len(single), 1) for rank in RANKS):
        for lengths in product(*([LENGTHS] * len(list_leaves))):
            values = {leaf: _grid(repr(leaf), rank) for leaf, rank in zip(single, ranks, strict=False)}
            lists: dict[Term, list[Grid]] = {
                leaf: [_grid(f"{leaf!r}.{i}", ranks[0]) for i in range(length)] for leaf, length in zip(list_leaves, lengths, strict=True)
            }
            options: dict[str, list[object]] = {}
            for rank in sorted(set(ranks)):
                for name, choices in _options(rule, rank):
                    options.setdefault(name, []).extend(choice for choice in choices if choice not in options.get(name, ()))
            for combination in product(*options.values()):
                yield _Choice(values, lists, dict(zip(options, combination, strict=True)))


def _grid(name: str, rank: int) -> Grid:
    extents = tuple(z3.Int(f"{name} extent {i}") for i in range(rank))
    if not rank:
        return Grid((), lambda places: z3.Const(name, element_sort()))
    element = z3.Function(name, *([z3.IntSort()] * rank), element_sort())
    return Grid(extents, lambda places: element(*places))


def _options(rule: PatternRule, rank: int) -> Iterator[tuple[str, list[object]]]:
    """The values for each attribute of the rule."""
    for call in dict.fromkeys(c for term in reversed(rule.before) for c in reversed(list(calls_in(term)))):
        for name, value in call.attrs.items():
            if isinstance(value, Attribute):
                yield value.name, list(_values(call, name, value.name, rank))
            elif isinstance(value, list | tuple):  # ``shifts=[n], axis=[a]``: each is an attribute of the rule by itself
                yield from ((item.name, _item_values(call, name, item.name, rank)) for item in value if isinstance(item, Attribute))


def _item_values(call: Call, name: str, symbol: str, rank: int) -> list[object]:
    """The values for one item of an attribute that is a list."""
    if name in ("axis", "axes", "dim"):
        return [*range(-rank - 1, rank + 1)]
    return [z3.Int(symbol) if f"{call.definition.type}.{name}" in AMOUNTS else symbol]


def _values(call: Call, name: str, symbol: str, rank: int) -> Iterator[object]:
    kind = call.definition.attrs[name].kind
    if f"{call.definition.type}.{name}" in AMOUNTS:
        yield from ([z3.Int(f"{symbol} {i}") for i in range(count)] for count in AMOUNTS[f"{call.definition.type}.{name}"](rank))
    elif call.definition.type.startswith("transpose") and name == "axis":
        yield from (list(order) for order in permutations(range(rank)))
        yield [-1 - a for a in range(rank)]
    elif name in ("axis", "axes", "dim") and kind.startswith("list"):
        # Every other axis counted from the end, so that both ways are tried without all combinations of them.
        subsets = chain.from_iterable(combinations(range(rank), count) for count in range(rank + 1))
        yield from ([a if i % 2 else a - rank for i, a in enumerate(axes)] for axes in subsets)
    elif name == "axis":
        yield from range(-rank - 1, rank + 1)
    elif name == "num":
        yield from PIECES
    elif name == "sections":
        yield from ([0] * count for count in (0, *PIECES))
    elif kind == "bool":
        yield from (False, True)
    else:
        yield [] if kind.startswith("list") else symbol
