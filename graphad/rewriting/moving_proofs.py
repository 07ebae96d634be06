"""Proofs that rules which only move elements bring the same element to each place: for all extents, and each rank up to four."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, permutations, product
from time import perf_counter
from typing import Any

from graphad.ops import OpDef
from graphad.rewriting.evaluation import Evaluation, Slots
from graphad.rewriting.moving import AMOUNTS, MOVES, Grid, element_sort
from graphad.rewriting.smt import Unsupported, z3
from graphad.rewriting.soundness import calls_in, leaves
from graphad.rewriting.terms import FOUND, Attribute, Call, Scalar, Several, Term

RANKS = range(5)
LENGTHS = (1, 2)  # of lists of tensors
PIECES = (1, 2, 3, 4)


class _Grids(Evaluation):
    """Terms as grids."""

    def __init__(self, found: _Choice) -> None:
        super().__init__(found)
        self.facts: list[Any] = []

    def leaf(self, term: Term) -> Any:
        return self.found.lists[term] if isinstance(term, Several) else self.found.values[term]

    def apply(self, row: OpDef, inputs: Slots, attrs: Mapping[str, Any]) -> Slots:
        operands = [grid for slot in row.inputs for grid in inputs.get(slot, ())]
        out = next(iter(row.outputs))
        return {out: MOVES[row.type](self.facts, *operands, **attrs)}

    def filled(self, number: Any, like: Any) -> Any:
        raise Unsupported("a constant")


class _Choice:
    """Ranks and axes in the place of a match."""

    def __init__(self, values: Mapping[Term, Grid], lists: Mapping[Term, list[Grid]], attrs: Mapping[str, Any]) -> None:
        self.values, self.lists, self.attrs = values, lists, attrs

    def type_of(self, term: Term) -> Any:
        raise Unsupported(f"the shape of {term!r}")

    def uses_of(self, term: Term) -> int:
        return 1


def why_not_moved(rule: Any, timeout: float) -> str | None:
    """Why a rule is not proved to move all elements to the same places; None if it is.

    Args:
        rule: a pattern rule.
        timeout: seconds in all.
    """
    strange = sorted({call.row.type for term in (*rule.before, *rule.after) for call in calls_in(term)} - set(MOVES))
    if strange:
        return f"unsupported: {', '.join(strange)}: neither elementwise, nor a move of elements"
    deadline, applied = perf_counter() + timeout, 0
    for choice in _choices(rule):
        if perf_counter() > deadline:
            return "time is over"
        applies, reason = _tried(rule, choice)
        if reason is not None:
            return reason
        applied += applies
    return None if applied else "unsupported: it applies to no choice of ranks and axes that was tried"


def _tried(rule: Any, choice: _Choice) -> tuple[bool, str | None]:
    """Whether a rule can apply to a choice of ranks and axes, and why it is not proved for that."""
    grids = _Grids(choice)
    try:
        before = [grids.of(term) for term in rule.before]
        premises = [fact for condition in rule.conditions for fact in _premises(condition, choice)]
        after = [grids.of(term) for term in rule.after]
    except (Unsupported, IndexError):  # IndexError: fewer parts than the rule takes
        return False, None
    if any(a.rank != b.rank for a, b in zip(before, after, strict=True)):
        return False, None
    grounds = [grid for grids_ in ([*choice.values.values()], *choice.lists.values()) for grid in grids_]
    premises += [extent >= 0 for grid in grounds for extent in grid.extents] + grids.facts
    premises += [a == b for old, new in zip(before, after, strict=True) for a, b in zip(old.extents, new.extents, strict=True)]
    solver = z3.Solver()
    solver.set("timeout", 10_000)
    solver.add(*premises)
    if solver.check() == z3.unsat:
        return False, None
    for old, new in zip(before, after, strict=True):
        places = [z3.FreshInt("place") for _ in old.extents]
        solver.push()
        solver.add(*(z3.And(p >= 0, p < e) for p, e in zip(places, old.extents, strict=True)), old.at(places) != new.at(places))
        answer = solver.check()
        solver.pop()
        if answer != z3.unsat:
            found = "an element comes from elsewhere" if answer == z3.sat else "time is over"
            return True, f"{found}, with {', '.join(f'{name}={value}' for name, value in choice.attrs.items())}"
    return True, None


def _premises(condition: Any, choice: _Choice) -> Iterator[Any]:
    """A condition as a term of the solver: one, or none if it has no meaning there."""
    try:
        held = _value(condition, choice)
        yield held if z3.is_expr(held) else z3.BoolVal(bool(held))
    except (Unsupported, z3.Z3Exception):
        return


def _value(scalar: Any, choice: _Choice) -> Any:
    if not isinstance(scalar, Scalar):
        return scalar
    if isinstance(scalar, Attribute) or (scalar.parts and scalar.parts[0] is FOUND):
        return scalar.value(choice)
    parts = [_value(part, choice) for part in scalar.parts]
    if scalar.function is any:
        return z3.Or(*(part != 0 for part in parts[0]))
    if scalar.function is min:
        return _least(parts[0])
    if scalar.text.startswith("not ") and z3.is_expr(parts[0]):
        return z3.Not(parts[0])
    return scalar.function(*parts)


def _least(items: Sequence[Any]) -> Any:
    least = items[0] if items else z3.IntVal(0)
    for item in items[1:]:
        least = z3.If(item < least, item, least)
    return least


# -- choices -------------------------------------------------------------------------------------


def _choices(rule: Any) -> Iterator[_Choice]:
    """All ranks, axes and lengths of lists."""
    tensors = list(dict.fromkeys(leaf for term in rule.before for leaf in leaves(term)))
    several = [leaf for leaf in tensors if isinstance(leaf, Several)]
    for rank, *lengths in product(RANKS, *([LENGTHS] * len(several))):
        values = {leaf: _grid(repr(leaf), rank) for leaf in tensors if not isinstance(leaf, Several)}
        lists: dict[Term, list[Grid]] = {
            leaf: [_grid(f"{leaf!r}.{i}", rank) for i in range(length)] for leaf, length in zip(several, lengths, strict=True)
        }
        options = dict(_options(rule, rank))
        for chosen in product(*options.values()):
            yield _Choice(values, lists, dict(zip(options, chosen, strict=True)))


def _grid(name: str, rank: int) -> Grid:
    extents = tuple(z3.Int(f"{name} extent {i}") for i in range(rank))
    if not rank:
        return Grid((), lambda places: z3.Const(name, element_sort()))
    element = z3.Function(name, *([z3.IntSort()] * rank), element_sort())
    return Grid(extents, lambda places: element(*places))


def _options(rule: Any, rank: int) -> Iterator[tuple[str, list[Any]]]:
    """The values for each attribute of the rule."""
    for call in dict.fromkeys(c for term in reversed(rule.before) for c in reversed(list(calls_in(term)))):
        for name, value in call.attrs.items():
            if isinstance(value, Attribute):
                yield value.name, list(_values(call, name, value.name, rank))


def _values(call: Call, name: str, symbol: str, rank: int) -> Iterator[Any]:
    kind = call.row.attrs[name].kind
    if (call.row.type, name) in AMOUNTS:
        counts = {"pad": [2 * rank], "slice": range(rank + 1), "expand_v2": range(rank, rank + 3)}[call.row.type]
        yield from ([z3.Int(f"{symbol} {i}") for i in range(count)] for count in counts)
    elif call.row.type.startswith("transpose") and name == "axis":
        yield from (list(order) for order in permutations(range(rank)))
        yield [-1 - a for a in range(rank)]
    elif name in ("axis", "axes") and kind.startswith("list"):
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
