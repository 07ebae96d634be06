"""Changes of the arrays that a program runs on, of their dtype, and of what is requested of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from graphad.program import Program
from graphad.testing.calls import Interest
from graphad.testing.cases import MIXED, NARROW, NON_FINITE, SHORT, WIDE, Case, Choices, array_of, fitted, renumbered_case, retyped
from graphad.testing.lawful import fits_extents
from graphad.testing.program_changes import has_no_gradients
from graphad.testing.program_edits import edited
from graphad.types import TENSOR, Array

NUMBERS = (0.0, 1.0, -1.0, 2.0, -0.0)
OtherArrays = Callable[[Choices, Case, Interest], Case | None]


def _other_numbers(choices: Choices, case: Case, interest: Interest) -> Case | None:
    return renumbered_case(choices, case, interest.kinds)


def _of_constants(choices: Choices, case: Case, interest: Interest) -> Case | None:
    """An array is filled with one number: one that the pass knows, or the program, or a simple one."""
    known = [*interest.constants.numbers, *_constants(case.program)]
    number = choices.one_of(known if known and choices.boolean() else NUMBERS)
    return _with_array(choices, case, lambda array: np.full_like(array, number) if array.dtype.kind in "fi" else ~array)


def _constants(program: Program) -> list[float]:
    """The numbers that are attributes of a program's operators, but not ones that are very large."""
    values = (value for block in program.blocks for op in block.ops for value in op.attrs.values())
    return [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 100]


def _equal(choices: Choices, case: Case, interest: Interest) -> Case | None:
    """Two arrays of one type are equal."""
    arrays = case.arrays
    pairs = [
        (one, other)
        for one, a in arrays.items()
        for other, b in arrays.items()
        if one != other and isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and (a.shape, a.dtype) == (b.shape, b.dtype)
    ]
    if not pairs:
        return None
    one, other = choices.one_of(pairs)
    return case.with_array(one, arrays[other].copy())


def _other_rows(choices: Choices, case: Case, interest: Interest) -> Case | None:
    """Of an axis that is declared with an unknown extent there are fewer rows, one or none, or more, in one array or all.

    Where no extent is unknown, the first one of arrays of one shape becomes so: two of them need not be the same.
    """
    opened = case if _open_names(case) else _opened(choices, case)
    names = [] if opened is None else _open_names(opened)
    if opened is None or not names:
        return None
    extent = choices.one_of((1, 1, 0, 3))
    for name in [choices.one_of(names)] if opened is not case or choices.boolean() else names:
        shape = opened.program.global_block().vars[name].declared[0] or ()
        array = opened.feeds[name]
        for axis in [axis for axis, declared in enumerate(shape) if declared == -1]:
            array = np.take(array, np.arange(extent) % array.shape[axis], axis) if array.shape[axis] else array
        opened = opened.with_array(name, array)
    return opened if fits_extents(opened) else None


def _open_names(case: Case) -> list[str]:
    """What is fed that has elements and an unknown extent."""
    variables = case.program.global_block().vars
    return [n for n, a in case.feeds.items() if isinstance(a, np.ndarray) and a.size and -1 in (variables[n].declared[0] or ())]


def _opened(choices: Choices, case: Case) -> Case | None:
    """The case with the first extents of what is fed unknown, of all arrays of one shape."""
    floats = {name: array for name, array in case.feeds.items() if isinstance(array, np.ndarray) and array.dtype.kind == "f"}
    shapes = [array.shape for array in floats.values() if array.ndim and array.size]
    if not shapes or not has_no_gradients(case.program):
        return None
    shape = choices.one_of(shapes)
    names = [name for name, array in floats.items() if array.shape == shape]

    def edit(copy: Program) -> None:
        for name in names:
            var = copy.global_block().vars[name]
            var.declare((-1, *shape[1:]), var.declared[1])

    program = edited(case.program, edit)
    return None if program is None else fitted(case, program)


def _one_element(choices: Choices, case: Case, interest: Interest) -> Case | None:
    """One element of an array is another number."""

    def other(array: Array) -> Array:
        if not array.size:
            return array
        # Integers stay small: an operator may take one for an extent, or an index of an array that grows.
        kind = choices.one_of(interest.kinds) if array.dtype.kind == "f" else "integers"
        array = array.copy()
        array.flat[choices.below(array.size)] = array_of(choices, (1,), str(array.dtype), kind)[0]
        return array

    return _with_array(choices, case, other)


def _not_finite(choices: Choices, case: Case, interest: Interest) -> Case | None:
    """Elements of an array are nan or infinite; what is computed is requested, since a sum with nan hides all else."""
    names = [name for name, array in case.arrays.items() if isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.size]
    if interest.kinds == SHORT or not names:
        return None
    name, kind = choices.one_of(names), choices.one_of((MIXED, NON_FINITE))
    array = case.arrays[name]
    other = case.with_array(name, array_of(choices, array.shape, str(array.dtype), kind))
    return _requesting(other, _written(case.program)) if choices.boolean() else other


def _other_dtype(choices: Choices, case: Case, interest: Interest) -> Case | None:
    """All floats are of the other width."""
    dtypes = choices.permutation((NARROW, WIDE))
    return retyped(case.clone(), *dtypes)


def _other_request(choices: Choices, case: Case, interest: Interest) -> Case | None:
    """Another value is requested as well, or the loss alone."""
    if case.loss_name and choices.chance(3):
        return replace(case, requested=(case.loss_name,))
    names = _written(case.program)
    return _requesting(case, [choices.one_of(names)]) if names else None


def _requesting(case: Case, names: list[str]) -> Case:
    """The case, of which further values are requested."""
    return replace(case, requested=tuple(dict.fromkeys((*case.targets, *names))))


def _written(program: Program) -> list[str]:
    """The tensors that operators of the first block write."""
    block = program.global_block()
    names = (name for op in block.ops for name in op.output_names() if name in block.vars and block.vars[name].type == TENSOR)
    return [*dict.fromkeys(names)]


def _with_array(choices: Choices, case: Case, change: Callable[[Array], Array]) -> Case | None:
    arrays = {name: array for name, array in case.arrays.items() if isinstance(array, np.ndarray)}
    if not arrays:
        return None
    # Mostly it is a single number that decides something.
    single = [name for name, array in arrays.items() if array.size == 1]
    name = choices.one_of(single if single and choices.boolean() else [*arrays])
    return case.with_array(name, change(arrays[name]))


OTHER_ARRAYS: tuple[OtherArrays, ...] = (
    _other_numbers,
    _of_constants,
    _of_constants,
    _equal,
    _other_rows,
    _other_rows,
    _one_element,
    _not_finite,
    _not_finite,
    _other_dtype,
    _other_request,
)
