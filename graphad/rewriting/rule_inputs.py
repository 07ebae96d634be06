"""Inputs to test a rule on: types of its tensors, attributes that fit them, arrays of those types, and the place of a match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import permutations, product
from math import gcd, isqrt, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphad.errors import GraphadError, InvalidValue
from graphad.ops.parameters import REQUIRED
from graphad.rewriting.evaluation import Bound, TypeEvaluation
from graphad.rewriting.pattern import Attribute, Call, Constant, Result, Scalar, Several, Term, calls_in, leaves, parts_of
from graphad.types import FLOATS, Array, Shape, TensorType

if TYPE_CHECKING:
    from graphad.rewriting.rules import PatternRule

# -- rule settings ---------------------------------------------------------------------------------
# Types, attributes and arrays in the place of a match, to test a rule on.


@dataclass
class Drawn:
    """Arrays and attributes in the place of a match."""

    values: dict[Term, Array] = field(default_factory=dict)
    lists: dict[Term, list[Array]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    types: Setting | None = None

    def type_of(self, term: Term) -> TensorType:
        """Shape and dtype of the value bound to a term."""
        assert self.types is not None
        return self.types.type_of(term)

    def uses_of(self, term: Term) -> int:
        """One: nothing else is there."""
        return 1

    def __str__(self) -> str:
        tensors = {repr(term): array for term, array in self.values.items() if not isinstance(term, Constant)}
        lists = {repr(term): arrays for term, arrays in self.lists.items()}
        return "\n".join(f"  {name} = {shown(value)}" for name, value in {**tensors, **lists, **self.attrs}.items())


def shown(value: object) -> str:
    """An array with its dtype and shape, or any other value, as text."""
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return f"[{', '.join(map(shown, value))}]"
    return f"{value.dtype}{list(value.shape)} {value.tolist()}" if isinstance(value, np.ndarray | np.generic) else repr(value)


@dataclass
class Setting:
    """Types for the tensors of a pattern, and values for its attributes: in the place of a match, as far as conditions go."""

    values: dict[Term, TensorType] = field(default_factory=dict)
    lists: dict[Term, list[TensorType]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    originals: Mapping[str, Any] = field(default_factory=dict)  # what an example gave, by the name of a parameter
    kinks: tuple[float, ...] = ()
    is_hopeless: bool = False  # whether the first operator takes none of the attributes that were tried
    pair: int | None = None  # which pair of axes comes first for attributes that are integers; None: those that come in turn

    @cached_property
    def shown(self) -> dict[str, str]:
        """The attributes as text."""
        return {name: repr(value) for name, value in self.attrs.items()}

    @cached_property
    def inferred(self) -> _Inferred:
        """The types of all terms."""
        return _Inferred(self)

    def type_of(self, term: Term) -> TensorType:
        """Shape and dtype of the value bound to a term."""
        return self.inferred.of(term)

    def uses_of(self, term: Term) -> int:
        """One: nothing else is there."""
        return 1


class _Inferred(Bound[TensorType], TypeEvaluation):
    """Terms as types, over a ``Setting``."""


# -- rule values -----------------------------------------------------------------------------------
# The values that rules are tested on: elements of arrays by kind of content, and numbers for attributes. Nothing here is random.
#
# A content is a pool of numbers; the elements of an array are taken from it in steps, so that two arrays of one content tie often
# without being equal. ``salt`` says where to start: it differs between the operands of a rule and between its trials.

FLOAT_CONTENTS = ("ordinary", "kinks", "not finite", "zeros", "positive", "halves", "tiny", "equal", "offset", "large")
INT_CONTENTS = ("ordinary", "kinks", "equal", "extreme")
BOOL_CONTENTS = ("mixed", "all true", "all false")
NOT_FOR_FAST = frozenset({"not finite"})  # contents on which a fast rule may do what it likes
DIFFERENTIABLE = ("ordinary", "kinks", "equal", "zeros", "positive")  # contents on which gradients are compared
SMOOTH = ("ordinary", "positive")  # those among them without kinks and ties

FLOAT_NUMBERS = (2.5, 0.0, 1.0, -1.0, 1 / 3, -0.7, 3.0, 0.1, -0.0, 2.0, 0.5, 6.0, -3.0, 7.3)
WILD_NUMBERS = (np.inf, -np.inf, np.nan)  # attributes only of exact rules
INT_NUMBERS = (1, 0, 2, -1, 3, -2, 5)
DTYPE_NAMES = ("float32", "float64", "int32", "int64", "bool")
_STEPS = (1, 3, 5, 7, 11)


def contents_of(dtype: str, exact: bool) -> tuple[str, ...]:
    """The kinds of content that arrays of a dtype have."""
    if dtype == "bool":
        return BOOL_CONTENTS
    if not dtype.startswith("float"):
        return INT_CONTENTS
    return FLOAT_CONTENTS if exact else tuple(c for c in FLOAT_CONTENTS if c not in NOT_FOR_FAST)


def filled(content: str, shape: tuple[int, ...], dtype: str, kinks: Sequence[float], salt: int, exact: bool) -> Array:
    """An array of a kind of content.

    Args:
        content: one of ``contents_of(dtype, exact)``; any name is "ordinary" where the dtype lacks it.
        shape, dtype: of the array.
        kinks: the numbers at which the rule's operators may bend or jump.
        salt: where in the content to start.
        exact: whether numbers at the ends of the dtype's range are among them.
    """
    pool = _pool(content, dtype, tuple(kinks) if content in ("kinks", "equal") else (), exact)
    count, size = prod(shape), len(pool)
    # A step that does not divide the size walks through the whole pool; two salts give other orders, so operands tie here and there.
    step = next(s for s in _STEPS[salt % 3 :] if size % s or size == 1)
    places = np.zeros(count, int) if content == "equal" else np.arange(count) * step
    array: Array = pool[(places + salt * 5) % size].reshape(shape)
    return array


@lru_cache(maxsize=512)
def _pool(content: str, dtype: str, kinks: tuple[float, ...], exact: bool) -> Array:
    if dtype == "bool":
        return np.array({"all true": [True], "all false": [False]}.get(content, [True, False, False, True, True, True, False]))
    if not dtype.startswith("float"):
        return _ints(content, np.dtype(dtype), kinks)
    with np.errstate(all="ignore"):
        return np.array(_floats(content, np.dtype(dtype), kinks, exact), dtype)


def _ints(content: str, dtype: np.dtype[Any], kinks: tuple[float, ...]) -> Array:
    ends = np.iinfo(dtype)
    if content == "extreme":
        # The last one is the least whose square, and the one before it the least power of two whose square, is beyond the end.
        over = 2 ** (ends.bits // 2), isqrt(ends.max) + 1
        return np.array([ends.max, ends.min, 0, ends.max - 1, -1, ends.min + 1, 1, ends.max // 2 + 1, *over], dtype)
    if content in ("kinks", "equal"):
        # The numbers that a rule names, and their neighbors, are where it is wrong first.
        near = [int(k) + d for k in kinks if abs(k) < 1e6 for d in (0, 1, -1)]
        return np.array(list(dict.fromkeys([0, 1, 2, -1, *near])), dtype)
    return np.array([3, -2, 1, 0, -7, 2, 5, -1, 10, -3, 4], dtype)


def _floats(content: str, dtype: np.dtype[Any], kinks: tuple[float, ...], exact: bool) -> list[float]:
    ends = np.finfo(dtype)
    ordinary = _ordinary()
    if content in ("kinks", "equal"):
        return list(_around([0.0, *kinks, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0], dtype))
    if content == "halves":
        return list(_around([0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5, 1e3 + 0.5], dtype)) + (
            [2.0 / ends.eps - 1, 1.0 / ends.eps + 1] if exact else []
        )
    if content == "zeros":
        return [0.0, -0.0, 0.0, 1.5, -0.0, -0.75, 0.0]
    if content == "offset":
        return [1e4 + x for x in ordinary]
    if content == "tiny":
        small = [x * 1e-8 for x in ordinary[:11]]
        return [*small, ends.smallest_subnormal, -ends.tiny, ends.tiny * 1.5, 0.0, -ends.smallest_subnormal * 3] if exact else small
    if content == "large":
        # Where exp overflows and underflows: 709.78 and -745.13 in float64, 88.72 and -103.97 in float32.
        over = [710.5, -745.5, 88.9, -103.5, 1e4, -3e7]
        return [*over, ends.max, -ends.max, ends.max * 0.75, 1e30, -1e20, 40.0] if exact else [*over, 40.0, -30.0, 17.5]
    if content == "positive":
        return [abs(x) for x in ordinary]
    if content == "not finite":
        return [np.nan, 1.25, np.inf, 0.0, -np.inf, -2.5, -0.0, np.inf, ends.max, ends.smallest_subnormal, -1.0]
    return ordinary


@lru_cache(maxsize=1)
def _ordinary() -> list[float]:
    """As normally distributed numbers, without any that are whole, or halves, or equal."""
    return [float(x) for x in np.random.default_rng(20).normal(size=61) * 1.7]


def _around(numbers: Iterable[float], dtype: np.dtype[Any]) -> Iterator[float]:
    """Numbers, and their neighbors on both sides."""
    for number in dict.fromkeys(float(n) for n in numbers):
        center = dtype.type(number)
        yield center
        if number:
            yield np.nextafter(center, dtype.type(np.inf))
            yield np.nextafter(center, dtype.type(-np.inf))


@lru_cache(maxsize=1024)
def kinks_of(numbers: tuple[float, ...]) -> tuple[float, ...]:
    """The numbers at which operators with such attributes may bend: these, their negatives, quotients and differences."""
    # ``relu(a * x + b)`` bends at -b / a, a clip of a difference at a sum of both numbers: candidates from pairs are few and cover
    # compositions of two.
    finite_numbers = [n for n in dict.fromkeys(map(float, numbers)) if np.isfinite(n) and abs(n) < 1e6][:6]
    combinations = [
        n for a in finite_numbers for b in finite_numbers if a != b for n in (*((-b / a, (1 - b) / a) if a else ()), a - b, a + b)
    ]
    return tuple(dict.fromkeys([*finite_numbers, *(-n for n in finite_numbers), *combinations[:24]]))


# -- attributes ----------------------------------------------------------------------------------


@lru_cache(maxsize=1024, typed=True)
def numbers_for(kind: str, rank: int, default: Any, extra: tuple[Any, ...], exact: bool) -> tuple[object, ...]:
    """The values to try for an attribute of a kind, the likeliest first; ``extra`` are numbers that the rule names."""
    options: list[Any] = []
    if kind == "float":
        options = [*FLOAT_NUMBERS, *extra, *(WILD_NUMBERS if exact else ())]
    elif kind == "int":
        # Integers are mostly axes: all of them, from either end.
        options = [*INT_NUMBERS, *range(-rank, rank), *(n for n in extra if n == n and abs(n) < 1e6 and n == int(n))]
        options = [int(n) for n in options]
    elif kind == "bool":
        options = [False, True]
    elif kind == "DType":
        options = [*DTYPE_NAMES, *([default] if isinstance(default, str) else [])]
    elif kind.startswith("list[float]"):
        options = [[n] * max(rank, 1) for n in (1.0, 2.5, 0.5)] + [[2.5, -0.7, 1 / 3, 3.0][:rank]]
    else:
        options = [default]
    return tuple(key.value for key in dict.fromkeys(map(_Keyed, options)))


class _Keyed:
    """A number that is told from others by its text, so that both zeros and nan are values of their own."""

    __slots__ = ("text", "value")

    def __init__(self, value: object) -> None:
        self.value = value
        self.text = repr(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


@lru_cache(maxsize=1024)
def int_lists(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Lists of integers that attributes may be beside a tensor of a shape: orders of axes, axes, shapes, amounts by axis."""
    # All permutations up to four axes (24); beyond, the identity, one swap, and rotations.
    rank = len(shape)
    orders = list(permutations(range(rank))) if rank < 5 else [tuple(range(rank)), (*range(rank - 2), rank - 1, rank - 2)]
    orders += [(*range(1, rank), 0)[:rank], tuple(-1 - a for a in range(rank))]
    axes = [(a,) for a in range(-rank, rank)] + [(0, rank - 1), (rank - 1, 0), (0, 1), (-1, -2), (1, 2)]
    count = prod(shape)
    shapes = [shape, (-1,), (count,), (0, -1), (1, *shape), (*shape, 1), shape[::-1], (-1, *shape[1:]), (2, *shape), (1, -1)]
    amounts = [(0,) * rank, (1,) * rank, (2, *(1,) * (rank - 1)), (0,) * (2 * rank), (1, 0) * rank, (0, 2) * rank, (2, 1) * rank]
    few = [(), (0,), (1,), (2,), (-1,), (3,), (9,), (1, 2), (2, 1), (-2, 1)]
    return tuple(dict.fromkeys(tuple(item) for item in [*orders, *axes, *shapes, *amounts, *few]))


# -- rule inputs -----------------------------------------------------------------------------------
# Inputs to test a rule on: the types of its tensors with attributes that fit them, and arrays of those types.
#
# The operators of a pattern are walked from the leaves on. At each, values are tried for the attributes that it binds until its type
# inference takes them; then the conditions have to hold, and the replacement must have the types of the pattern, as in a match
# in a graph. All choices are rotated, never drawn at random, and depend on nothing but the rule's structure.

Example = Callable[["np.random.Generator"], Mapping[str, object]]

DTYPES = ("float64", "float32", "int64", "int32", "bool")
SHAPES: tuple[Shape, ...] = (
    *((2, 3), (3, 3), (5,), (), (2, 3, 4), (3, 3, 3), (1,), (0,), (0, 3)),
    *((2, 1, 3), (1, 3), (2, 0), (4, 1), (2, 1, 3, 5), (2, 2, 2, 2), (6,), (1, 1, 2)),
)
PAIRS: tuple[tuple[Shape, ...], ...] = (  # operands that are not broadcast: products, tables and indices, convolutions
    # Extents that are all alike, in other numbers of axes: which axis meets which depends on the operator, and no type shows it.
    *(((3, 3), (3, 3, 3)), ((3, 3, 3), (3, 3)), ((3,), (3, 3)), ((3, 3, 3), (3,)), ((2, 3, 4), (2, 3, 1))),
    *(((3, 3), (3,), (3, 3)), ((3, 3), (3, 3), (3,)), ((3, 3), (3, 3, 3), (3,)), ((3, 3, 3), (3, 3), (3, 3))),
    *(((2, 3), (3, 5)), ((2, 3), (5, 3)), ((4, 2, 3), (4, 3, 5)), ((4, 2, 3), (4, 5, 3)), ((7, 3), (5,)), ((7, 3), (4, 1))),
    *(((2, 3, 4), (3,)), ((2, 3), (2,)), ((4, 5), (4, 1)), ((2, 3, 5, 6), (4, 3, 3, 2)), ((7, 3), (2, 2)), ((5,), (5,))),
    *(((2, 3, 5, 6), (4, 3, 3, 2), (4,)), ((2, 3), (3, 5), (5,)), ((2, 6), (6,), (6,)), ((2, 3), (3, 5), (2, 5))),
    ((2, 3, 4, 5), (3,), (3,), (3,), (3,)),
)
TRIES = 8  # how often attributes are sought for one choice of types
INFERENCES = 40  # how many values are tried for the attributes of one operator
_PRIME = 17  # at least as many as there are numbers for an attribute, as far as all pairs of them are to meet
_STRIDES = (7, 5, 11, 13, 3, 17)
BUDGET = 12000  # how many are tried for one rule


class Inputs:
    """A generator of the inputs of one rule.

    Args:
        rule: a pattern rule.
        exact: whether numbers at the ends of the dtypes' ranges are among the attributes and the elements.
    """

    def __init__(self, rule: PatternRule, exact: bool) -> None:
        self.rule = rule
        self.exact = exact
        self.leaves = list(dict.fromkeys(leaf for term in rule.before for leaf in leaves(term)))
        self.calls = list(dict.fromkeys(reversed([call for term in rule.before for call in calls_in(term)])))
        self.numbers = tuple(_literals(rule))
        self.turn = 0
        self.budget = BUDGET

    # -- types and attributes ------------------------------------------------------------------------

    def profiles(self) -> list[tuple[Shape, ...]]:
        """Shapes for the leaves: all alike, broadcast in several ways, and those that products and tables take."""
        # The likeliest to fit come first, since the budget may end: all of one shape, operands of products, then broadcasting.
        count = len(self.leaves)
        alike = [(shape,) * count for shape in SHAPES]
        if count < 2 or all(isinstance(leaf, Constant) for leaf in self.leaves[1:]):
            return alike
        broadcasts = [tuple(part(shape, i) for i in range(count)) for shape in SHAPES if shape for part in _BROADCAST]
        open_ended = [shapes for shapes in PAIRS if len(shapes) == count]
        return list(dict.fromkeys([*alike[:6], *open_ended, *alike[6:12], *broadcasts[::5], *alike[12:], *broadcasts[1::5]]))

    def dtypes_of(self, dtype: str) -> Iterator[tuple[str, ...]]:
        """Dtypes for the leaves: all alike, or some of another dtype, as conditions and indices are."""
        count = len(self.leaves)
        yield (dtype,) * count
        for second_dtype in () if dtype == "bool" else ("bool", "int64") if dtype in FLOATS else ("bool",):
            for places in [*((i,) for i in range(count)), *((i, j) for i in range(count) for j in range(i))]:
                if second_dtype != dtype and len(places) < count:
                    yield tuple(second_dtype if i in places else dtype for i in range(count))

    def setting(self, shapes: tuple[Shape, ...], dtypes: tuple[str, ...]) -> Setting | None:
        """Attributes with which the rule applies to tensors of some types; None if none are found."""
        for _ in range(TRIES if self.has_choices else 1):
            if self.budget <= 0:
                break
            self.turn += 1
            setting = self._leaf_types(shapes, dtypes)
            if setting is not None and self._fits(setting):
                return setting
            # No other choice of attributes would let the rule apply to these types.
            if setting is not None and setting.is_hopeless:
                break
        return None

    def axis_settings(self, dtypes: tuple[str, ...]) -> Iterator[Setting]:
        """Settings in which attributes are axes, in all pairs, of tensors whose extents are all alike: where no type shows a wrong axis."""
        names = {name for call in self.calls for name, (kind, _) in _unbound(call, {}) if _is_axis(kind)}
        for rank in (3, 2) if names else ():
            shapes, count = ((3,) * rank,) * len(self.leaves), 2 * rank
            for pair in range(0, count**2, count if len(names) == 1 else 1):
                self.turn += 1
                setting = self._leaf_types(shapes, dtypes)
                if setting is None:
                    continue
                setting.pair = pair
                if self._fits(setting):
                    yield setting

    @cached_property
    def has_choices(self) -> bool:
        """Whether there is more to choose than types: attributes, numbers, or how many tensors a list has."""
        has_attributes = any(_attributes_in(value) for call in self.calls for value in call.attrs.values())
        return has_attributes or any(
            isinstance(t, Several) or (isinstance(t, Constant) and isinstance(t.number, Attribute)) for t in self.leaves
        )

    def _leaf_types(self, shapes: tuple[Shape, ...], dtypes: tuple[str, ...]) -> Setting | None:
        setting = Setting()
        for i, (leaf, shape, dtype) in enumerate(zip(self.leaves, shapes, dtypes, strict=True)):
            if isinstance(leaf, Several):
                setting.lists[leaf] = [TensorType(shape, dtype)] * ((self.turn + 2 * i + 1) % 4)
            elif isinstance(leaf, Constant):
                if not self._set_number(setting, leaf, dtype, i):
                    return None
                shape = (shape, (), (1,) * len(shape))[(self.turn + i) % 3 if len(self.leaves) > 1 else 0]
                setting.values[leaf] = TensorType(shape, dtype)
            else:
                setting.values[leaf] = TensorType(shape, dtype)
        return setting

    def _set_number(self, setting: Setting, leaf: Constant, dtype: str, place: int) -> bool:
        """Choose the number of a constant, or see whether a dtype has the one that the rule names."""
        if not isinstance(leaf.number, Attribute):
            return isinstance(leaf.number, Scalar) or _has(dtype, leaf.number)
        options = [n for n in numbers_for("float", 0, None, self.numbers, self.exact) if _has(dtype, n)]
        number = setting.attrs.setdefault(leaf.number.name, np.dtype(dtype).type(options[self._rotated(place, len(options))]).item())
        return _has(dtype, number)

    def _rotated(self, place: int, count: int) -> int:
        """The option of the attribute at a place: the columns of an orthogonal array, in which all pairs meet."""
        # Bush's construction of an orthogonal array of strength 2 (K. A. Bush, "Orthogonal arrays of index unity", 1952): line (a, b),
        # column c holds a * c + b modulo a prime.
        line = self.turn * 101 % _PRIME**2
        return (line % _PRIME * place + line // _PRIME) % _PRIME % count if count <= _PRIME else (line + 7 * place) % count

    def _fits(self, setting: Setting) -> bool:
        """Choose the attributes of a setting; whether there are some with which the rule applies."""
        return self._bind(setting, iter(self.calls)) and self.applies(setting)

    def _bind(self, setting: Setting, calls: Iterator[Call]) -> bool:
        """Choose the attributes of the operators in their order, so that each takes its inputs."""
        for place, call in enumerate(calls):
            try:
                types = [t for terms in call.inputs.values() for t in terms if not isinstance(t, Several)]
                types_known = [setting.type_of(t) for t in types if not isinstance(t, Constant) or t in setting.values]
            except Exception:
                return False
            shape = types_known[0].shape if types_known else next((ts[0].shape for ts in setting.lists.values() if ts), (2, 3))
            # If the first operator takes nothing, other attributes of later ones will not help: the choice of types is given up.
            if not self._bind_call(setting, call, shape):
                setting.is_hopeless = place == 0
                return False
        return True

    def _bind_call(self, setting: Setting, call: Call, shape: Shape) -> bool:
        unbound = dict(_unbound(call, setting.attrs))
        if not unbound:
            self.budget -= 1
            return _takes(setting, call)
        choices = [self._options(kind, shape, len(setting.attrs) + i, setting.pair) for i, kind in enumerate(unbound.values())]
        choices = self._of_one_length(choices, call, setting)
        # Lists have many forms that do not fit; numbers nearly always do, or none does.
        most = INFERENCES if any(kind.startswith("list") for kind, _ in unbound.values()) else 6
        for count, values in enumerate(product(*choices) if len(choices) == 1 else _diagonal(choices)):
            if count > most or self.budget <= 0:
                break
            self.budget -= 1
            setting.attrs.update(zip(unbound, values, strict=True))
            if _takes(setting, call):
                return True
        for name in unbound:
            setting.attrs.pop(name, None)
        return False

    def _of_one_length(self, choices: list[list[object]], call: Call, setting: Setting) -> list[list[object]]:
        """The choices for an operator's lists, of one length where there are several: starts and ends, one for each axis."""
        values = [setting.attrs.get(value.name) for value in call.attrs.values() if isinstance(value, Attribute)]
        lengths = [len(value) for value in values if isinstance(value, list)]
        if not lengths and sum(isinstance(options[0], list) for options in choices) < 2:
            return choices
        length = lengths[0] if lengths else (1, 1, 2)[self.turn % 3]
        alike: list[list[object]] = [[item for item in options if isinstance(item, list) and len(item) == length] for options in choices]
        return [some or options for some, options in zip(alike, choices, strict=True)]

    def _options(self, kind: tuple[str, object], shape: Shape, place: int, pair: int | None) -> list[object]:
        text, default = kind
        if pair is not None and _is_axis(text):
            # Line (a, b) of the orthogonal array has the axes b and a + b at its first two places.
            count = max(2 * len(shape), 1)
            axis = (pair % count * place + pair // count) % count - len(shape)
            return [axis] if text == "int" else [[axis], *map(list, int_lists(shape))]
        if text.startswith("list[int]"):
            options: list[Any] = [list(item) for item in int_lists(shape)]
        else:
            plain = default if isinstance(default, int | float | str | bool) else None
            options = list(numbers_for(text, len(shape), plain, self.numbers, self.exact))
        start, step = self._rotated(place, len(options)), _STRIDES[(self.turn + place) % len(_STRIDES)]
        # A stride without a common factor visits every option before one comes again.
        step = step if gcd(step, len(options)) == 1 else 1
        return [options[(start + i * step) % len(options)] for i in range(len(options))]

    def applies(self, setting: Setting) -> bool:
        """Whether the rule matches there: its conditions hold, and both sides have the same types.

        Raises:
            ValueError: what comes after cannot be made, for another reason than types that do not fit.
        """
        # A pattern that does not fit these types, or a condition that cannot be asked of them, only says that there is no match.
        try:
            old = [setting.type_of(term) for term in self.rule.before]
            if not all(condition.value(setting) for condition in self.rule.conditions):
                return False
        except Exception:
            return False
        try:
            return old == [setting.type_of(term) for term in self.rule.after]
        except (GraphadError, ValueError, TypeError, IndexError):
            return False
        except Exception as error:
            types = "\n".join(f"  {name} = {value}" for name, value in [*setting.values.items(), *setting.attrs.items()])
            place = f"\n  defined at {self.rule.source}" if self.rule.source else ""
            raise InvalidValue(
                f"rule {self.rule.name} is wrong: what comes after fails, {error}\n  {self.rule.text}{place}\n{types}"
            ) from None

    def of_example(self, values: Mapping[str, Any]) -> Setting | None:
        """The setting that an example is one of; None if the rule does not apply there."""
        setting = Setting(originals=values)
        names = {attribute.name for call in self.calls for value in call.attrs.values() for attribute in _attributes_in(value)}
        setting.attrs.update({name: value for name, value in values.items() if name in names})
        self.turn += 1
        like = next((np.asarray(v) for v in values.values() if isinstance(v, np.ndarray)), np.zeros((2, 3)))
        for i, leaf in enumerate(self.leaves):
            name = getattr(leaf, "name", "")
            if isinstance(leaf, Several):
                setting.lists[leaf] = [_type(a) for a in values.get(name) or [like] * ((self.turn + i) % 3)]
            elif isinstance(leaf, Constant):
                if isinstance(leaf.number, Attribute) and leaf.number.name in values:
                    setting.attrs[leaf.number.name] = values[leaf.number.name]
                if not self._set_number(setting, leaf, like.dtype.name, i):
                    return None
                setting.values[leaf] = _type(like)
            else:
                setting.values[leaf] = _type(np.asarray(values.get(name, like)))
        return setting if self._fits(setting) else None

    # -- arrays --------------------------------------------------------------------------------------

    def arrays(self, setting: Setting, content: str, salt: int) -> Drawn:
        """Arrays of a setting's types, with a kind of content."""
        # Of the setting, not of the call: arrays of all contents share them.
        kinks = setting.kinks = setting.kinks or self._kinks(setting)
        sample = Drawn(attrs=setting.attrs, types=setting)
        main = next((t.dtype for t in setting.values.values() if t.dtype in FLOATS), "")
        for i, leaf in enumerate(self.leaves):
            if isinstance(leaf, Several):
                sample.lists[leaf] = [self._array(t, content, main, kinks, salt + i + 4 * j) for j, t in enumerate(setting.lists[leaf])]
            elif isinstance(leaf, Constant):
                number = leaf.number.value(setting) if isinstance(leaf.number, Scalar) else leaf.number
                type = setting.values[leaf]
                sample.values[leaf] = np.full(type.shape, np.asarray(number).astype(type.dtype), type.dtype)
            else:
                sample.values[leaf] = self._array(setting.values[leaf], content, main, kinks, salt + i)
        return sample

    def _array(self, type: TensorType, content: str, main: str, kinks: tuple[float, ...], salt: int) -> Array:
        if type.dtype.startswith("int") and main:  # an index, or a label, beside floats
            near = [0, 1, 2, 1, 0, 2, *(int(k) for k in kinks if 0 <= k < 5 and k == int(k))] if salt % 3 else [0, 1, 1]
            pool = np.array(near, type.dtype)
            count = prod(type.shape)
            return pool[(np.arange(count) + salt) % len(pool)].reshape(type.shape)
        if content not in contents_of(type.dtype, self.exact):
            content = contents_of(type.dtype, self.exact)[salt % 3]
        return filled(content, type.shape, type.dtype, kinks, salt, self.exact)

    def _kinks(self, setting: Setting) -> tuple[float, ...]:
        bound = [v for v in setting.attrs.values() if isinstance(v, int | float)]
        return kinks_of(tuple(float(n) + 0.0 for n in (*self.numbers, *bound, *self._defaults)))  # zeros of both signs are one key

    @cached_property
    def _defaults(self) -> tuple[float, ...]:
        """The numbers that operators of the pattern have where the rule names none."""
        attrs = ((call, attr) for call in self.calls for attr in call.definition.attrs.values())
        return tuple(attr.default for call, attr in attrs if isinstance(attr.default, float) and attr.name not in call.attrs)


def example_arrays(inputs: Inputs, setting: Setting) -> Drawn:
    """The arrays that an example gave, and what the rule needs besides."""
    sample = inputs.arrays(setting, "ordinary", 0)
    for leaf in inputs.leaves:
        name = getattr(leaf, "name", "")
        if isinstance(leaf, Several) and setting.originals.get(name):
            sample.lists[leaf] = [np.asarray(a) for a in setting.originals[name]]
        elif name in setting.originals and not isinstance(leaf, Constant):
            sample.values[leaf] = np.asarray(setting.originals[name])
    return sample


def _type(array: Array) -> TensorType:
    return TensorType(array.shape, array.dtype.name)


def _has(dtype: str, number: Any) -> bool:
    """Whether arrays of a dtype hold a number as it is, except for rounding."""
    if dtype.startswith("float"):
        return True
    integral = bool(np.isfinite(number)) and number == int(number)
    return integral and (dtype != "bool" or number in (0, 1))


def _takes(setting: Setting, call: Call) -> bool:
    """Whether an operator takes its inputs, with the attributes that are bound."""
    slot = next(iter(call.definition.outputs))
    try:
        setting.inferred._call(call) if call.definition.outputs[slot].variadic else setting.inferred.of(Result(call, slot))
    except Exception:
        return False
    return True


def _diagonal(choices: list[list[object]]) -> Iterator[tuple[object, ...]]:
    """Combinations of options: first the one in front, then those that differ from it in one place, then others."""
    # Pairs of attributes fail more often than not where both are wrong: one is varied at a time before both are.
    first = tuple(options[0] for options in choices)
    yield first
    longest = max(map(len, choices))
    for step in range(1, longest):
        for i, options in enumerate(choices):
            if step < len(options):
                yield (*first[:i], options[step], *first[i + 1 :])
    for step in range(1, 4 * longest):
        yield tuple(options[(step * (2 * i + 1) + step // len(options)) % len(options)] for i, options in enumerate(choices))


_BROADCAST: tuple[Callable[[Shape, int], Shape], ...] = (
    lambda shape, i: shape[1:] if i else shape,
    lambda shape, i: shape if i else (1, *shape[1:]),
    lambda shape, i: (*shape[:-1], 1) if i % 2 else (1, *shape[1:]),
    lambda shape, i: shape if i else (),
)


def _is_axis(kind: str) -> bool:
    """Whether attributes of a kind may be axes."""
    return kind == "int" or kind.startswith("list[int]")


def _unbound(call: Call, bound: Mapping[str, object]) -> Iterator[tuple[str, tuple[str, object]]]:
    """The attributes of the rule that an operator binds, with the kind and the default of the operator's attribute."""
    for name, value in call.attrs.items():
        attr = call.definition.attrs[name]
        if isinstance(value, Attribute) and value.name not in bound:
            yield value.name, (attr.kind, None if attr.default is REQUIRED else attr.default)
        elif isinstance(value, list | tuple):
            yield from ((item.name, (attr.kind[5:-1], None)) for item in value if isinstance(item, Attribute) and item.name not in bound)


def _attributes_in(value: object) -> list[Attribute]:
    return [part for part in parts_of(value) if isinstance(part, Attribute)]


def _literals(rule: PatternRule) -> Iterator[float]:
    """The numbers that a rule names: in its conditions, attributes and constants."""
    calls = [call for term in (*rule.before, *rule.after) for call in calls_in(term)]
    values = [*rule.conditions, *(value for call in calls for value in call.attrs.values())]
    terms = [term for call in calls for ts in call.inputs.values() for term in ts]
    values += [term.number for term in terms if isinstance(term, Constant)]
    literals = [n for value in values for n in parts_of(value) if isinstance(n, int | float) and not isinstance(n, bool)]
    return iter(dict.fromkeys(float(n) for n in literals if n == n))
