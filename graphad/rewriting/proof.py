"""Rules are held against random inputs when they are made.

A rule's tensors are drawn as arrays of a few shapes and dtypes, its attributes by their kinds; what the operators refuse, and what
the conditions exclude, is drawn again. Where the rule applies, before and after are computed by the operators' kernels and compared.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphad.errors import GraphadError, InvalidValue
from graphad.rewriting.evaluation import Arrays
from graphad.rewriting.terms import Attribute, Call, Constant, Result, Scalar, Several, Term
from graphad.types import TensorType

Array = NDArray[Any]
Example = Callable[[np.random.Generator], Mapping[str, Any]]

ENOUGH, TRIES = 8, 400
SHAPES = ((2, 3), (3,), (), (2, 1, 3), (3, 3))
DTYPES = ("float64", "float64", "float32", "int64", "bool")
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 1e300, 1e-320)
TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 1e-2}
_NUMBERS: Mapping[str, tuple[Any, ...]] = {
    "float": (0.0, 1.0, -1.0, 2.0, 0.5, 3.0),
    "int": (-1, 0, 1, 2, 3),
    "bool": (False, True),
    "DType": ("float64", "float32", "int64", "bool"),
}


@dataclass
class Drawn:
    """Arrays and attributes in the place of a match."""

    values: dict[Term, Array] = field(default_factory=dict)
    lists: dict[Term, list[Array]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    results: Arrays | None = None

    def type_of(self, term: Term) -> TensorType:
        """Shape and dtype of what a term stands for."""
        assert self.results is not None
        array = self.results.of(term)
        return TensorType(array.shape, array.dtype.name)

    def uses_of(self, term: Term) -> int:
        """One: nothing else is there."""
        return 1

    def __str__(self) -> str:
        given = {repr(term): array for term, array in self.values.items() if not isinstance(term, Constant)}
        lists = {repr(term): arrays for term, arrays in self.lists.items()}
        shown = [f"{name} = {_shown(value)}" for name, value in {**given, **lists, **self.attrs}.items()]
        return "\n".join(f"  {line}" for line in shown)


def _shown(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return f"[{', '.join(map(_shown, value))}]"
    return f"{value.dtype}{list(value.shape)} {value.tolist()}" if isinstance(value, np.ndarray | np.generic) else repr(value)


def prove(rule: Any, exact: bool, example: Example | None = None) -> None:
    """Compare a rule's sides on random inputs, always the same ones.

    Args:
        rule: a pattern rule.
        exact: every bit has to agree, and nan and infinities are among the inputs; else rounding may differ.
        example: draws inputs that the rule applies to.

    Raises:
        ValueError: the sides differ, with the inputs; or the rule applied to too few of the inputs drawn.
    """
    rng = np.random.default_rng(zlib.crc32(rule.text.encode()))
    applied = 0
    with np.errstate(all="ignore"):
        for attempt in range(TRIES):
            drawn = _draw(rule, rng, example, special=exact and attempt % 2 == 1, attempt=attempt)
            applied += _compare(rule, drawn, exact)
            if applied >= ENOUGH and attempt + 1 >= len(SHAPES) * len(DTYPES):
                return
    if not applied:
        raise InvalidValue(
            f"rule {rule.name} applied to none of {TRIES} random inputs, so it is not proved: {rule.text}\n"
            "  give @rewrite(example=...), which draws inputs that it applies to"
        )


def applicable(rule: Any, rng: np.random.Generator, example: Example | None = None) -> Drawn | None:
    """Random inputs that a rule applies to; None if none are found."""
    with np.errstate(all="ignore"):
        start = int(rng.integers(len(SHAPES) * len(DTYPES)))
        for attempt in range(start, start + TRIES):
            drawn = _draw(rule, rng, example, special=False, attempt=attempt)
            if _before(rule, drawn) is not None:
                return drawn
    return None


def _compare(rule: Any, drawn: Drawn, exact: bool) -> bool:
    """Whether the rule applies to what was drawn; an error if it is wrong there."""
    sides = _before(rule, drawn)
    if sides is None:
        return False
    before, arrays = sides
    try:
        after = [np.asarray(arrays.of(term)) for term in rule.after]
    except GraphadError:
        return False
    except Exception as error:
        raise InvalidValue(f"rule {rule.name} is wrong: what comes after fails, {error}\n  {rule.text}\n{drawn}") from None
    for old, new in zip(before, after, strict=True):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            return False
        if not _agree(old, new, exact):
            raise InvalidValue(
                f"rule {rule.name} is wrong: {rule.text}\n{drawn}\n  before: {_shown(old)}\n  after:  {_shown(new)}"
                + ("\n  @rewrite(fast=True) allows what differs by rounding, or where something is not finite" if exact else "")
            )
    return True


def _before(rule: Any, drawn: Drawn) -> tuple[list[Array], Arrays] | None:
    """What comes before, if the operators take what was drawn and the conditions hold."""
    arrays = drawn.results = Arrays(drawn)
    try:
        before = [np.asarray(arrays.of(term)) for term in rule.before]
        holds = all(condition.value(drawn) for condition in rule.conditions)
    except Exception:
        return None
    return (before, arrays) if holds else None


def _agree(old: Array, new: Array, exact: bool) -> bool:
    if exact or old.dtype.kind != "f":
        return np.array_equal(old, new, equal_nan=old.dtype.kind == "f")
    finite = np.isfinite(old)
    if not np.all(finite):
        return True
    return bool(np.allclose(new, old, rtol=TOLERANCE[old.dtype.name], atol=TOLERANCE[old.dtype.name]))


# -- drawing -------------------------------------------------------------------------------------


def _draw(rule: Any, rng: np.random.Generator, example: Example | None, special: bool, attempt: int | None = None) -> Drawn:
    """Arrays and attributes; shapes and dtypes come in turns with the attempts, so that each meets each, or at random."""
    drawn = Drawn()
    given = dict(example(rng)) if example is not None else {}
    turn, place = divmod(int(rng.integers(len(SHAPES) * len(DTYPES))) if attempt is None else attempt, len(DTYPES))
    shape, dtype = SHAPES[(turn + place) % len(SHAPES)], DTYPES[place]
    leaves = list(dict.fromkeys(_leaves(rule.before)))
    dtype = dtype if all(_can_hold(dtype, term) for term in leaves) else "float64"
    for name, kind in _attribute_kinds(rule.before):
        drawn.attrs[name] = given[name] if name in given else _number(kind, rng, len(shape))
    for term in leaves:
        if isinstance(term, Several):
            drawn.lists[term] = given.get(term.name) or [_array(rng, shape, dtype, special) for _ in range(rng.integers(0, 3))]
        elif isinstance(term, Constant):
            drawn.values[term] = np.full(_part(rng, shape), _constant(term, drawn, dtype), dtype)
            if isinstance(term.number, Attribute):
                drawn.attrs[term.number.name] = drawn.values[term].flat[0].item()
        else:
            drawn.values[term] = np.asarray(given[repr(term)]) if repr(term) in given else _array(rng, _part(rng, shape), dtype, special)
    return drawn


def _can_hold(dtype: str, term: Term) -> bool:
    """Whether an array of a dtype can be filled with the number that a pattern's constant is."""
    if not isinstance(term, Constant) or isinstance(term.number, Scalar) or dtype.startswith("float"):
        return True
    return bool(np.isfinite(term.number)) and bool(np.asarray(term.number).astype(dtype) == term.number)


def _constant(term: Constant, drawn: Drawn, dtype: str) -> Any:
    number = term.number.value(drawn) if isinstance(term.number, Scalar) else term.number
    return number if dtype.startswith("float") or (np.isfinite(number) and number == int(number)) else 1


def _part(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape, or at times one that is broadcast to it."""
    if not shape or rng.random() < 0.7:
        return shape
    return shape[1:] if rng.random() < 0.5 else (1, *shape[1:])


def _array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, special: bool) -> Array:
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype == "int64":
        return np.asarray(rng.integers(-3, 4, shape))
    array = np.asarray(rng.normal(size=shape) * 1.5)
    if special:
        array = np.where(rng.random(shape) < 0.4, rng.choice(SPECIAL, shape), array)
    return np.asarray(array, dtype)


def _number(kind: str, rng: np.random.Generator, ndim: int) -> Any:
    if kind.startswith("list[int]"):
        choices = [list(rng.permutation(ndim)), [int(rng.integers(-1, 3)) for _ in range(rng.integers(1, 3))]]
        return [int(i) for i in choices[rng.integers(2)]]
    numbers = _NUMBERS.get(kind, (None,))
    return numbers[rng.integers(len(numbers))]


def _attribute_kinds(results: tuple[Result, ...]) -> Iterator[tuple[str, str]]:
    """The rule's attributes, with the kinds of those of the operators where they stand."""
    for call in dict.fromkeys(c for r in results for c in _calls(r)):
        for name, value in call.attrs.items():
            kind = call.row.attrs[name].kind
            if isinstance(value, Attribute):
                yield value.name, kind
            elif isinstance(value, list | tuple):
                yield from ((item.name, kind[5:-1]) for item in value if isinstance(item, Attribute))
        for terms in call.inputs.values():
            yield from ((t.number.name, "float") for t in terms if isinstance(t, Constant) and isinstance(t.number, Attribute))


def _leaves(results: tuple[Result, ...]) -> Iterator[Term]:
    for call in dict.fromkeys(c for r in results for c in _calls(r)):
        yield from (t for terms in call.inputs.values() for t in terms if not isinstance(t, Result))


def _calls(term: Term) -> Iterator[Call]:
    if isinstance(term, Result):
        yield term.call
        for terms in term.call.inputs.values():
            for each in terms:
                yield from _calls(each)
