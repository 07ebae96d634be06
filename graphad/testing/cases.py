"""Test cases: a program with its loss, the arrays to run it on and the requested outputs; and the random choices that it is made by."""

from __future__ import annotations

import math
import os
import random
import tempfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

from graphad.drawing import draw
from graphad.errors import InvalidValue
from graphad.execution.names import blocks_of, control, writes_old_array
from graphad.ir import lower
from graphad.ops import lookup
from graphad.ops.definition import GRAD
from graphad.program import EMPTY, Block, Operator, Program, Variable
from graphad.program.operator import check
from graphad.types import FLOATS, STEP_SCOPES, TENSOR, Array, Shape

# -- names -----------------------------------------------------------------------------------------
# Which names operators read and write, those with blocks around these, and which nothing reads at the end.


def reads(op: Operator) -> list[str]:
    """The names that an operator reads, in order; an array is written in place."""
    old = op.output("Out") if writes_old_array(op) else []
    return [*op.input_names(), *old]


def always_written(op: Operator) -> set[str]:
    """The names that an operator writes whatever happens."""
    inner = [set().union(*map(always_written, block.ops)) - set(block.vars) for block in blocks_of(op)]
    if not inner:
        return set(op.output_names())
    definition = control(op)
    return set() if definition is not None and definition.may_skip else set.intersection(*inner)


def unread(program: Program) -> list[str]:
    """The names of block 0 whose last value no operator reads, in the order in which they get it: the targets of ``lower``."""
    block, later, has_value = program.global_block(), set[str](), dict[str, bool]()
    # From the end: the last write of a name is the first that is met, and reads after it have been seen.
    for op in reversed(block.ops):
        for name in reversed(op.output_names()):
            if name not in has_value:
                has_value[name] = name not in later and name != EMPTY and block.var_recursive(name).type != STEP_SCOPES
        later.update(reads(op))
    return [name for name, is_unread in reversed(has_value.items()) if is_unread]


def outside_reads(*blocks: Block) -> list[str]:
    """The names around some blocks that they read before they write them."""
    early_reads: dict[str, None] = {}
    for block in blocks:
        written_names = set(block.vars)
        for op in block.ops:
            early_reads.update(dict.fromkeys(name for name in reads(op) if name not in written_names))
            written_names |= always_written(op)
    return list(early_reads)


def outside_writes(*blocks: Block) -> list[str]:
    """The names around some blocks that they write."""
    return list(dict.fromkeys(name for block in blocks for op in block.ops for name in op.output_names() if name not in block.vars))


# -- cases -----------------------------------------------------------------------------------------
# A program to try something on: the program, its loss, and arrays to run it on.


@dataclass(frozen=True, repr=False)
class Case:
    """A program with its loss, and arrays for its data and its persistable variables.

    Args:
        program: what is run.
        loss_name: the scalar to differentiate; empty if there is none.
        feeds: arrays by the name of the data.
        params: arrays by the name of the persistable variable.
        requested: the names that the program is lowered for; none stands for the loss, the gradients of the sources, and all final
            values that no operator reads.
        forward: the case that this one was made of by appending gradients, if it was.
        order: how often it was differentiated.
        altered: whether it was made of another one by changing something: it may not run, and its loss may bend where it does.
    """

    program: Program
    loss_name: str = ""
    feeds: dict[str, Array] = field(default_factory=dict)
    params: dict[str, Array] = field(default_factory=dict)
    requested: tuple[str, ...] = ()
    forward: Case | None = None
    order: int = 0
    altered: bool = False

    @property
    def loss(self) -> Variable:
        """The loss; ValueError if there is none."""
        if not self.loss_name:
            raise InvalidValue("this case has no loss")
        return self.program.global_block().var(self.loss_name)

    @cached_property
    def targets(self) -> list[str]:
        """The names that are requested, as far as the program declares them."""
        variables = self.program.global_block().vars
        if self.requested:
            return [name for name in self.requested if name in variables]
        gradients = [f"{name}{GRAD}" for name in (*self.feeds, *self.params)]
        loss = [self.loss_name] if self.loss_name else []
        return list(dict.fromkeys([*loss, *unread(self.program), *(name for name in gradients if name in variables)]))

    @cached_property
    def sources(self) -> list[str]:
        """The names to differentiate with respect to: floating-point data and the parameters that train.

        A name of which the first that happens is that it is overwritten stands for what is written, so it is not among them.
        """
        data = [name for name, array in self.feeds.items() if array.dtype.kind == "f"]
        parameters = [p.name for p in self.program.all_parameters() if p.trainable]
        overwritten = self._overwritten()
        return [name for name in (*data, *parameters) if name not in overwritten]

    def _overwritten(self) -> set[str]:
        """The names of block 0 that are written for certain before anything reads them."""
        seen, found = set[str](), set[str]()
        for op in self.program.global_block().ops:
            seen.update(reads(op))
            found.update(always_written(op).difference(seen))
            seen.update(found)
        return found

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays of its data and of its persistable variables."""
        return {**self.feeds, **self.params}

    def with_array(self, name: str, array: Array) -> Case:
        """The case with another array."""
        if name in self.feeds:
            return replace(self, feeds={**self.feeds, name: array})
        return replace(self, params={**self.params, name: array})

    def clone(self) -> Case:
        """A copy whose program can be changed."""
        return replace(self, program=self.program.clone())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(f"{self!r}\n{_picture(self.program)}\n" if len(self.program.blocks) > 1 else repr(self))

    def __repr__(self) -> str:
        arrays = [f"{name} = {array.tolist()}" for name, array in {**self.feeds, **self.params}.items()]
        return "\n".join([f"\n{self.program}loss {self.loss_name}", *arrays, ""])


def _picture(program: Program) -> str:
    """The path of the drawing of a program, or why there is none."""
    path = Path(tempfile.gettempdir()) / f"nested-program-{os.getpid()}.svg"
    try:
        return f"drawn in {draw(program, path, timeout=20.0)}"
    except Exception as error:
        return f"not drawn: {error}"


# -- fitted ----------------------------------------------------------------------------------------
# Arrays for a program that has none, or has others than it had: what fits is kept, cut to shape, the rest is drawn.

UNKNOWN = 2  # the extent of an axis that no declaration gives


def random_case(program: Program, seed: int = 0, loss_name: str = "") -> Case:
    """A program with random arrays for all it takes from outside.

    Raises:
        ValueError: the seed is negative.

    >>> program = Program.parse("program { block 0 { var x: float64[-1, 3] tanh(X=x) -> (Out=y) } }")
    >>> random_case(program).feeds["x"].shape
    (2, 3)
    """
    if seed < 0:
        raise InvalidValue(f"a seed is 0 or more, not {seed}")
    program = completed(program)
    return fitted(Case(program, loss_name), program, seed=seed)


def completed(program: Program) -> Program:
    """A copy in which the variables that operators write are declared with shape and dtype, as far as they can be inferred.

    Raises:
        ValueError: an operator does not fit what it reads.
    """
    copy = program.clone()
    _infer(copy.global_block())
    return copy


def _infer(block: Block) -> None:
    for op in block.ops:
        for inner in blocks_of(op):
            _infer(inner)
        check(op, lookup(op.type))


def fitted(case: Case, program: Program, values: Mapping[str, Array] = MappingProxyType({}), seed: int = 0) -> Case:
    """The case of another program: with the arrays of this case as far as they fit, and the loss if an operator still writes it.

    ``values`` are arrays for names that nothing writes any more; what neither has is drawn. What is missing on purpose, since a block
    that would write it does not run, stays missing.
    """
    missing_names = _missing(case) if case.program is not program else set()
    feeds: dict[str, Array] = {}
    params: dict[str, Array] = {}
    for value in lower(program).inputs:
        if value.kind == TENSOR and value.shape is not None and value.name not in missing_names:
            arrays, old_arrays = (params, case.params) if value.persistable else (feeds, case.feeds)
            arrays[value.name] = _array(value.name, value.shape, value.dtype, {**values, **old_arrays}, seed)
    for name, var in program.global_block().vars.items():
        if var.persistable and name in case.params and name not in params:
            params[name] = _array(name, *var.declared, case.params, seed)
    # A loss that no operator writes any more is none.
    written_names = {name for op in program.global_block().ops for name in op.output_names()}
    return Case(program, case.loss_name if case.loss_name in written_names else "", feeds, params, case.requested)


def _missing(case: Case) -> set[str]:
    """The names that only blocks of a case's program write, and that are neither fed nor parameters."""
    written_names = {name for op in case.program.global_block().ops if blocks_of(op) for name in op.output_names()}
    return (
        written_names - set(case.feeds) - set(case.params) - {name for op in case.program.global_block().ops for name in always_written(op)}
    )


def _array(name: str, shape: Shape | None, dtype: str | None, known: Mapping[str, Array], seed: int) -> Array:
    shape, dtype = shape or (), dtype or "float32"
    old = known.get(name)
    if old is not None and old.dtype == dtype and old.ndim == len(shape):
        extents = tuple(have if extent == -1 else extent for have, extent in zip(old.shape, shape, strict=True))
        if all(extent <= have for extent, have in zip(extents, old.shape, strict=True)):
            return old[tuple(slice(extent) for extent in extents)].copy(order="C")
    return _drawn(name, tuple(UNKNOWN if extent == -1 else extent for extent in shape), dtype, seed)


def _drawn(name: str, shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        return rng.integers(0, 3, shape).astype(dtype)
    return np.round(rng.uniform(-1.5, 1.5, shape), 3).astype(dtype)


# -- dtypes ----------------------------------------------------------------------------------------

WIDE, NARROW = "float64", "float32"


def retyped(case: Case, old: str, new: str) -> Case:
    """The case with one dtype in the place of another; its program is changed."""
    for var in case.program.list_vars():
        shape, dtype = var.declared
        if dtype == old:
            var.declare(shape, new)
    for op in (op for block in case.program.blocks for op in block.ops):
        op.attrs.update({name: new for name, value in op.attrs.items() if value == old})
        defaults = (attr.name for attr in lookup(op.type).attrs.values() if attr.kind == "DType" and attr.default == old)
        op.attrs.update({name: new for name in defaults if name not in op.attrs})
    feeds, params = (
        {name: array.astype(new) if array.dtype == old else array for name, array in arrays.items()} for arrays in (case.feeds, case.params)
    )
    return replace(case, feeds=feeds, params=params)


# -- choices ---------------------------------------------------------------------------------------
# What a random program is drawn from: a sequence of small numbers.
#
# A generator asks a ``Choices`` for integers, elements, permutations; all of them come down to one number each in [0, n), and the
# numbers are kept. The same numbers give the same program again, a prefix of them a similar one: that is how the search mutates
# programs (R. Padhye and others, Semantic fuzzing with Zest, ISSTA 2019). Random choices come from a seed alone, so that nothing
# that was imported or ran before has a part in them.

T = TypeVar("T")
P = ParamSpec("P")


class Choices(ABC):
    """The source of a generator's decisions. Earlier elements are the simpler ones."""

    @abstractmethod
    def below(self, count: int) -> int:
        """A number from 0 to ``count`` - 1; ``count`` is at least 1."""

    def in_turn(self, count: int, following: int) -> int:
        """The number whose turn it is; where choices are replayed, the number of the first time."""
        return following

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
        rest = list(elements)
        return [rest.pop(self.below(len(rest))) for _ in range(len(rest))]


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
        count_so_far = len(self.numbers)
        number = self.prefix[count_so_far] % count if count_so_far < len(self.prefix) else int(self.random() * count)
        self.numbers.append(number)
        return number

    def in_turn(self, count: int, following: int) -> int:
        count_so_far = len(self.numbers)
        self.numbers.append(self.prefix[count_so_far] % count if count_so_far < len(self.prefix) else following)
        return self.numbers[-1]


Generator = Callable[Concatenate[Choices, P], Case]


class Programs(Protocol):
    """A source of random programs: a function of choices."""

    def __call__(self, choices: Choices, /) -> Case: ...


# -- number pools ----------------------------------------------------------------------------------
# Arrays for random programs: ordinary numbers, and those at which rewrites that look right go wrong.
#
# The numbers come from pools that are made once; an array is a piece of one.

SIZE = 4096
KINKS = (0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0, 1.5, -1.5, 2.5, -2.5, 2.0)
KINDS = ("ordinary", "ties", "kinks", "zeros", "large", "tiny", "offset")
FLOAT16 = 65504.0  # its largest number
SHORT = ("ordinary", "ties", "kinks", "zeros")  # that fit into float16
NON_FINITE = "nan and infinities"
MIXED = "mixed"
STEEP = "steep"  # that float16 holds, whose exponentials it does not


def _ordinary(rng: np.random.Generator) -> Array:
    return np.round(rng.uniform(-1.5, 1.5, SIZE), 3)


def _one_of(*numbers: float) -> Callable[[np.random.Generator], Array]:
    return lambda rng: rng.choice(np.array(numbers), SIZE)


def _mixed(rng: np.random.Generator) -> Array:
    """Half of all numbers ordinary, the others those at which something goes wrong, side by side: it may go wrong at one alone."""
    hard = rng.choice(np.array([*KINKS, -0.0, 0.0, 89.0, -710.0, 1e4 + 0.3, 1e-8, 1e-40, math.nan, math.inf, -math.inf]), SIZE)
    return np.where(rng.random(SIZE) < 0.5, _ordinary(rng), hard)


def _large_integers(rng: np.random.Generator) -> Array:
    """Integers at the limits of float32, int32 and float64, or just beyond, and such whose squares are beyond those of int32 and int64."""
    numbers = [2**24, 2**24 + 1, -(2**24) - 1, 2**31 - 1, 2**31 - 2, -7, 2**53 + 1, -(2**62) - 1, 46341, 2**16, 3037000500]
    return rng.choice(np.array(numbers), SIZE)


POOLS: dict[str, Callable[[np.random.Generator], Array]] = {
    "ordinary": _ordinary,
    "positive": lambda rng: np.round(rng.uniform(0.3, 1.7, SIZE), 3),
    STEEP: _one_of(8.0, -9.0, 10.0, -11.5, 11.5, 12.0, -12.5, 12.5),
    "ties": _one_of(0.75, 0.75, -1.25),
    "kinks": _one_of(*KINKS),
    "zeros": _one_of(0.0, -0.0, 0.0, -0.0, 1.0),
    "large": _one_of(100.0, -100.0, 1000.0, -1000.0, 89.0, 710.0, 0.5),
    "tiny": _one_of(1e-3, -1e-8, 1e-20, -1e-40, 1e-300, 1e-7, 2e-5, 4e-4, -3e-4),  # those that bounds keep away from zero, too
    "offset": lambda rng: 1e4 + np.round(rng.normal(0.0, 1.0, SIZE), 3),
    MIXED: _mixed,
    NON_FINITE: _one_of(math.nan, math.inf, -math.inf, 0.0, 1.5, -0.25),
    "integers": lambda rng: rng.integers(-4, 5, SIZE),
    "large integers": _large_integers,
    "booleans": lambda rng: rng.integers(0, 2, SIZE),
}


@cache
def pool(kind: str, dtype: str) -> Array:
    """The numbers of a kind in a dtype."""
    with np.errstate(all="ignore"):
        numbers = POOLS[kind](np.random.default_rng([len(kind), *kind.encode()])).astype(dtype)
    numbers.flags.writeable = False
    return numbers


def array_of(choices: Choices, shape: Shape, dtype: str, kind: str = "ordinary") -> Array:
    """An array of numbers of a kind; of integers, large ones for ``large`` and ``offset``, or booleans where the dtype has no others."""
    if dtype not in FLOATS:
        kind = "booleans" if dtype == "bool" else "large integers" if kind in ("large", "offset") else "integers"
    count = math.prod(shape)
    numbers = pool(kind, dtype)
    start = choices.below(SIZE - min(count, SIZE - 1))
    piece = numbers[start : start + count] if count < SIZE else np.resize(numbers, count)
    return piece.reshape(shape).copy()


def renumbered_case(choices: Choices, case: Case, kinds: Sequence[str]) -> Case:
    """The same program on other numbers, about half of its arrays: of one of the kinds.

    Indices and limits of loops become other integers as well: where the program does not run on them, it says nothing. They stay
    small: an operator may take one for an extent, and an array of 2 ** 31 rows fills the memory.
    """
    kind = choices.one_of(kinds)

    def other(array: Array) -> Array:
        chosen_kind = "integers" if array.dtype.kind in "iu" else kind
        return array_of(choices, array.shape, str(array.dtype), chosen_kind) if choices.boolean() else array

    arrays = [
        {name: other(array) if isinstance(array, np.ndarray) else array for name, array in by_name.items()}
        for by_name in (case.feeds, case.params)
    ]
    return replace(case, feeds=arrays[0], params=arrays[1])


# -- requests --------------------------------------------------------------------------------------
# What random cases request of their programs: mostly all that is unused, else less, or more.

ALL_IN, ALONE, EVERYTHING = 8, 6, 7  # of so many cases one requests the loss alone, and one every tensor that is written


def requested_names(choices: Choices, case: Case) -> tuple[str, ...]:
    """The names to request; none stands for the default of a case."""
    kind = choices.below(ALL_IN)
    if kind == ALONE and case.loss_name:
        return (case.loss_name,)
    if kind != EVERYTHING:
        return ()
    block = case.program.global_block()
    written_names = dict.fromkeys(name for op in block.ops for name in op.output_names())
    return tuple(name for name in written_names if name in block.vars and block.vars[name].type == TENSOR)
