"""The values that rules are tested on: elements of arrays by kind of content, and numbers for attributes. Nothing here is random.

A content is a pool of numbers; the elements of an array are taken from it in steps, so that two arrays of one content tie often
without being equal. ``salt`` says where to start: it differs between the operands of a rule and between its trials.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

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
    count, size = int(np.prod(shape)), len(pool)
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
        return np.array([ends.max, ends.min, 0, ends.max - 1, -1, ends.min + 1, 1, ends.max // 2 + 1], dtype)
    if content in ("kinks", "equal"):
        near = [int(k) + d for k in kinks if abs(k) < 1e6 for d in (0, 1, -1)]
        return np.array(list(dict.fromkeys([0, 1, 2, -1, *near])), dtype)
    return np.array([3, -2, 1, 0, -7, 2, 5, -1, 10, -3, 4], dtype)


def _floats(content: str, dtype: np.dtype[Any], kinks: tuple[float, ...], exact: bool) -> list[Any]:
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


def _around(numbers: Iterable[float], dtype: np.dtype[Any]) -> Iterator[Any]:
    """Numbers, and their neighbors on both sides."""
    for number in dict.fromkeys(float(n) for n in numbers):
        here = dtype.type(number)
        yield here
        if number:
            yield np.nextafter(here, dtype.type(np.inf))
            yield np.nextafter(here, dtype.type(-np.inf))


def kinks_of(numbers: Iterable[float]) -> tuple[float, ...]:
    """The numbers at which operators with such attributes may bend: these, their negatives, quotients and differences."""
    own = [n for n in dict.fromkeys(map(float, numbers)) if np.isfinite(n) and abs(n) < 1e6][:6]
    derived = [n for a in own for b in own if a != b for n in (*((-b / a, (1 - b) / a) if a else ()), a - b, a + b)]
    return tuple(dict.fromkeys([*own, *(-n for n in own), *derived[:24]]))


# -- attributes ----------------------------------------------------------------------------------


@lru_cache(maxsize=1024, typed=True)
def numbers_for(kind: str, rank: int, default: Any, extra: tuple[Any, ...], exact: bool) -> tuple[Any, ...]:
    """The values to try for an attribute of a kind, the likeliest first; ``extra`` are numbers that the rule names."""
    options: list[Any] = []
    if kind == "float":
        options = [*FLOAT_NUMBERS, *extra, *(WILD_NUMBERS if exact else ())]
    elif kind == "int":
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
    return tuple(keyed.value for keyed in dict.fromkeys(map(_Keyed, options)))


class _Keyed:
    """A number that is told from others by its text, so that both zeros and nan are values of their own."""

    __slots__ = ("text", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.text = repr(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


@lru_cache(maxsize=1024)
def int_lists(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Lists of integers that attributes may be beside a tensor of a shape: orders of axes, axes, shapes, amounts by axis."""
    rank = len(shape)
    orders = list(permutations(range(rank))) if rank < 5 else [tuple(range(rank)), (*range(rank - 2), rank - 1, rank - 2)]
    orders += [(*range(1, rank), 0)[:rank], tuple(-1 - a for a in range(rank))]
    axes = [(a,) for a in range(-rank, rank)] + [(0, rank - 1), (rank - 1, 0), (0, 1), (-1, -2), (1, 2)]
    count = int(np.prod(shape))
    shapes = [shape, (-1,), (count,), (0, -1), (1, *shape), (*shape, 1), shape[::-1], (-1, *shape[1:]), (2, *shape), (1, -1)]
    amounts = [(0,) * rank, (1,) * rank, (2, *(1,) * (rank - 1)), (0,) * (2 * rank), (1, 0) * rank, (0, 2) * rank, (2, 1) * rank]
    few = [(), (0,), (1,), (2,), (-1,), (3,), (9,), (1, 2), (2, 1), (-2, 1)]
    return tuple(dict.fromkeys(tuple(each) for each in [*orders, *axes, *shapes, *amounts, *few]))
