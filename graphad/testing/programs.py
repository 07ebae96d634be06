"""``any_program``: random programs of every kind, those that ``check_pass`` draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from graphad.backward import append_backward, gradients
from graphad.errors import GraphadError
from graphad.program import Program, Variable
from graphad.testing.calls import Interest
from graphad.testing.cases import KINKS, NARROW, WIDE, Case, Choices, array_of, retyped
from graphad.testing.nested import nested_program
from graphad.testing.open_extents import type_checks
from graphad.testing.operator_programs import operator_program
from graphad.testing.optimizable import optimizable_program
from graphad.testing.straight_line import straight_line_program
from graphad.testing.training import deep_program, trainable_program, training_program
from graphad.types import Array, Shape

# -- hardened --------------------------------------------------------------------------------------
# Other dtypes, extents and numbers for programs that were drawn with smooth numbers in float64.

LARGEST = 1.0  # numbers stay in [-1, 1], which keeps loops from making anything large
EXTENT = 3  # of the axes that get another extent


def hardened(choices: Choices, case: Case, extents: bool = False) -> Case:
    """The case in float32 in half of all cases; with equal elements, kinks or zeros of both signs fed in a third.

    Args:
        choices: where the decisions come from.
        case: a program in float64; it is changed.
        extents: whether axes of extent 3 may get the extent 1 or 5. No operator of the program may name the number otherwise
            than in ``shape``.
    """
    extent = choices.one_of((EXTENT, EXTENT, 1, 5)) if extents else EXTENT
    if extent != EXTENT:
        case = _resized(case, extent)
    if choices.chance(3):
        kind = choices.one_of(("ties", "kinks", "zeros"))
        case.feeds.update((name, _numbers(choices, array, kind)) for name, array in case.feeds.items() if array.dtype == WIDE)
    return retyped(case, WIDE, NARROW) if choices.boolean() else case


def _numbers(choices: Choices, array: Array, kind: str) -> Array:
    largest = LARGEST if kind != "ties" else max(KINKS)
    values = array_of(choices, array.shape, WIDE, kind)
    return np.where(np.abs(values) <= largest, values, 0.5) * (0.5 if kind == "ties" else 1.0)


# -- extents -------------------------------------------------------------------------------------


def _resized(case: Case, extent: int) -> Case:
    """The case with another extent for the axes of extent 3; as it was if its types do not fit then."""
    program = case.program.clone()
    for var in program.list_vars():
        shape, dtype = var.declared
        if shape is not None and dtype != "bool":
            var.declare(_shape(shape, extent), dtype)
    for op in itertools.chain.from_iterable(block.ops for block in program.blocks):
        if "shape" in op.attrs:
            op.attrs["shape"] = list(_shape(tuple(op.attrs["shape"]), extent))
    # Extents that an operator relates to each other may no longer fit.
    if not type_checks(program):
        return case
    feeds, params = ({name: _recut(array, extent) for name, array in arrays.items()} for arrays in (case.feeds, case.params))
    return Case(program, case.loss_name, feeds, params)


def _shape(shape: Shape, extent: int) -> Shape:
    return tuple(extent if e == EXTENT else e for e in shape)


def _recut(array: Array, extent: int) -> Array:
    """The array with its axes of extent 3 repeated or cut; a matrix made wider is made smaller, so that products do not grow."""
    for axis in (axis for axis, e in enumerate(array.shape) if e == EXTENT):
        array = np.take(array, np.arange(extent) % EXTENT, axis)
    return array * math.sqrt(EXTENT / extent) if array.dtype == WIDE and extent > EXTENT and array.ndim == 2 else array


# -- differentiated --------------------------------------------------------------------------------
# Programs that have been differentiated already, so that passes get gradients, and the gradient operators of every operator.

MOST_ONCE = 30  # operators up to which a program that was differentiated once is differentiated again: it gets four times as large


def differentiated(choices: Choices, case: Case) -> Case | None:
    """The case with gradients of its loss appended; in a sixth of the cases gradients of those as well, in another a loss made of them.

    Args:
        choices: where the decisions come from.
        case: a case with a loss. It is not changed.

    Returns:
        A case with the same loss, or one made of gradients. None if it has no loss, nothing to differentiate with respect to, or an
        operator on the way has no gradient rule.

    >>> from graphad.testing.cases import RandomChoices
    >>> from graphad.testing.cases import random_case
    >>> program = Program.parse("program { block 0 { var x: float64[3] square(X=x) -> (Out=y) mean(X=y) -> (Out=loss) } }")
    >>> case = differentiated(RandomChoices("seed"), random_case(program, loss_name="loss"))
    >>> "x@GRAD" in case.program.global_block().vars
    True
    """
    sources = case.sources if case.loss_name else []
    if not sources:
        return None
    copy = case.clone()
    names = [name for name in sources if not choices.chance(4)] or sources
    kind = choices.below(6)
    try:
        first = _first(choices, copy, names)
        # Second gradients of long programs are far longer.
        is_twice = kind == 0 and sum(len(block.ops) for block in copy.program.blocks) <= MOST_ONCE
        if first and is_twice:
            _second(copy.program, first, names)
        if first and kind == 2 and (total := _sum_of_squares(copy.program, first)):
            return replace(copy, loss_name=total)
    except GraphadError:
        return None
    return replace(copy, forward=case, order=1 + is_twice) if first else None


def case_with_gradients(case: Case, order: int) -> Case | None:
    """The case with the gradients of its loss with respect to all its sources, and of those in turn; None where there are none."""
    copy = case.clone()
    block = copy.program.global_block()
    try:
        first = [g for g in gradients(copy.loss, [block.var(name) for name in copy.sources]) if g is not None] if case.loss_name else []
        if order > 1 and first:
            _second(copy.program, first, copy.sources)
    except GraphadError:
        return None
    return replace(copy, forward=case, order=order) if first else None


def _first(choices: Choices, case: Case, sources: list[str]) -> list[Variable]:
    """The gradients of the loss: those that ``append_backward`` gives parameters if there are any, or with respect to some names."""
    if case.program.all_parameters() and choices.boolean():
        return [gradient for _, gradient in append_backward(case.loss)]
    block = case.program.global_block()
    return [g for g in gradients(case.loss, [block.var(name) for name in sources]) if g is not None]


def _second(program: Program, first: list[Variable], sources: list[str]) -> None:
    """The gradients of the sum of squares of gradients."""
    block = program.global_block()
    total = _sum_of_squares(program, first)
    if total:
        gradients(block.var(total), [block.var(name) for name in sources])


def _sum_of_squares(program: Program, first: list[Variable]) -> str:
    """The name of the sum of squares of up to two gradients, empty if they stop gradients themselves."""
    block = program.global_block()
    parts = []
    for gradient in first[:2]:
        # A sum adds one dtype; a gradient that stops gradients has no second one.
        if gradient.dtype != first[0].dtype or gradient.stop_gradient:
            continue
        squares, part = (program.names.generate(stem) for stem in ("squares", "part"))
        block.append_op("square", {"X": gradient}, {"Out": squares})
        block.append_op("reduce_sum", {"X": squares}, {"Out": part}, {"reduce_all": True})
        parts.append(part)
    if not parts:
        return ""
    total: str = program.names.generate("total")
    block.append_op("sum", {"X": parts}, {"Out": total})
    return total


# -- programs --------------------------------------------------------------------------------------
# ``any_program``: random programs of every kind, those that ``check_pass`` draws.


def small_optimizable(choices: Choices, interest: Interest) -> Case:
    """An ``optimizable_program`` of few statements, in any dtype and with any extents."""
    return hardened(choices, optimizable_program(choices, max_statements=choices.one_of((1, 1, 2)), most_trips=7), extents=True)


def small_nested(choices: Choices, interest: Interest) -> Case:
    """A ``nested_program`` of few statements, in any dtype and with any extents."""
    case = nested_program(choices, max_depth=choices.one_of((1, 1, 2)), max_statements=1, max_nested=2, most_trips=7)
    return hardened(choices, case, extents=True)


def small_straight_line(choices: Choices, interest: Interest) -> Case:
    """A ``straight_line_program`` of few operators, in any dtype."""
    return hardened(choices, straight_line_program(choices, max_ops=6))


def small_training(choices: Choices, interest: Interest) -> Case:
    """A ``training_program`` of at most one hidden layer."""
    return training_program(choices, max_layers=1, types=interest.types)


def trainable(choices: Choices, interest: Interest) -> Case:
    """A ``trainable_program``."""
    return trainable_program(choices)


def deep(choices: Choices, interest: Interest) -> Case:
    """A ``deep_program``."""
    return deep_program(choices)


def with_gradients(choices: Choices, interest: Interest) -> Case:
    """A program of any kind with gradients of its loss, if it has one that can be differentiated."""
    case = _program(choices, interest)
    return case if _has_gradients(case) else differentiated(choices, case) or case


Kind = Callable[[Choices, Interest], Case]
KINDS: dict[str, tuple[int, Kind]] = {  # how many of a hundred programs are of a kind
    "operators": (45, operator_program),
    "optimizable": (20, small_optimizable),
    "nested": (13, small_nested),
    "straight-line": (12, small_straight_line),
    "training": (10, small_training),
    "trainable": (0, trainable),
    "deep": (0, deep),
    "with-gradients": (0, with_gradients),
}
_TABLE = tuple(generator for share, generator in KINDS.values() for _ in range(share))


def any_program(choices: Choices, interest: Interest | None = None) -> Case:
    """A small program of any kind; a quarter of all have been differentiated, once or twice.

    Args:
        choices: where the decisions come from.
        interest: operators and attributes to prefer, where the kind of program has a choice of them.

    >>> from graphad.testing.cases import RandomChoices
    >>> case = any_program(RandomChoices("seed"))
    >>> bool(case.program.global_block().ops)
    True
    """
    case = _program(choices, interest or Interest())
    if not case.loss_name or not choices.chance(3) or _has_gradients(case):
        return case
    return differentiated(choices, case) or case


def _program(choices: Choices, interest: Interest) -> Case:
    return choices.one_of(_TABLE)(choices, interest)


def _has_gradients(case: Case) -> bool:
    return any(op.role != "forward" for op in case.program.global_block().ops)
