"""A case on which a pass is wrong, made as small as possible: the program first, then the arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from graphad.errors import GraphadError
from graphad.testing.cases import Array, Case
from graphad.testing.differentiated import with_gradients
from graphad.testing.equivalence import observe
from graphad.testing.examine import examine
from graphad.testing.fitted import fitted
from graphad.testing.reduction import reduce_program
from graphad.testing.subject import Subject
from graphad.testing.trial import Finding
from graphad.types import TENSOR

SECONDS = 20.0  # of processor time that making it small may take
SINGLY = 12  # elements that an array may have for each to be made simpler by itself


def smallest(subject: Subject, case: Case, finding: Finding) -> tuple[Case, Finding]:
    """The case made as small as possible while the same thing is wrong, and what then is.

    It ends early where it takes too long, or is interrupted; what was found is never lost.
    """
    shrinking = _Shrinking(subject, case, finding)
    with suppress(KeyboardInterrupt, _OutOfTime):
        shrinking.run()
    return shrinking.case, shrinking.finding


class _OutOfTime(Exception):
    """It took too long."""


class _Shrinking:
    """The smallest case so far, and what is wrong with it."""

    def __init__(self, subject: Subject, case: Case, finding: Finding) -> None:
        self.subject, self.case, self.finding = subject, case, finding
        self.deadline = time.process_time() + SECONDS
        self.values = _intermediate_values(case)

    def run(self) -> None:
        """Make the program smaller, then the arrays simpler, and both again while that goes on."""
        if self.case.forward is not None:
            self.shrink_forward(self.case.forward, self.case.order)
        self.take(replace(self.case, forward=None))
        for _ in range(2):
            size = _size(self.case)
            with suppress(GraphadError):  # inference does not accept the program, so that it stays whole
                reduce_program(self.case.program, lambda program: self.take(fitted(self.case, program, self.values)))
            simplify_arrays(self.case, self.take)
            if self.case.requested:
                self.take(replace(self.case, requested=()))
            if _size(self.case) == size:
                break

    def shrink_forward(self, forward: Case, order: int) -> None:
        """Make the program smaller that was differentiated, and differentiate it anew each time; gradients alone are hard to shrink."""
        fewest = next((fewer for fewer in range(1, order + 1) if self.take_gradients(forward, fewer)), None)
        if fewest is not None:
            values = _intermediate_values(forward)
            reduce_program(forward.program, lambda program: self.take_gradients(fitted(forward, program, values), fewest))

    def take_gradients(self, forward: Case, order: int) -> bool:
        """``take`` for a case with the gradients of another one."""
        self.check_time()
        case = with_gradients(replace(forward, requested=()), order)
        return case is not None and self.take(case)

    def take(self, smaller: Case) -> bool:
        """Whether the same is wrong with another case; it is then the one to go on from."""
        self.check_time()
        try:
            finding = examine(self.subject, smaller, {self.finding.kind})
        except (GraphadError, ArithmeticError, LookupError, ValueError, TypeError):
            return False
        if finding is None or (finding.kind, finding.mark) != (self.finding.kind, self.finding.mark) or not _runs(smaller):
            return False
        self.case, self.finding = smaller, finding
        return True

    def check_time(self) -> None:
        """Raise where it takes too long."""
        if time.process_time() > self.deadline:
            raise _OutOfTime


def _runs(case: Case) -> bool:
    try:
        observe(case.program, case, [])
    except Exception:  # a kernel may raise anything
        return False
    return True


def _intermediate_values(case: Case) -> dict[str, Array]:
    """The final values of the tensors of a case's program, which smaller programs are fed where nothing writes them any more."""
    variables = case.program.global_block().vars.values()
    written = {name for op in case.program.global_block().ops for name in op.output_names()}
    names = [var.name for var in variables if var.type == TENSOR and var.name in written]
    try:
        return {name: value for name, value in observe(case.program, case, names).values.items() if isinstance(value, np.ndarray)}
    except (GraphadError, ArithmeticError):
        return {}


def _size(case: Case) -> str:
    return str(case.program)


def simplify_arrays(case: Case, is_bad: Callable[[Case], bool]) -> Case:
    """The case with simpler arrays, as far as that leaves it bad: 0, 1 or -1 everywhere, 1, 2, 3...; then element by element."""
    for name in (*case.feeds, *case.params):
        for array in _simpler_arrays(_arrays(case)[name]):
            changed = _with_array(case, name, array)
            if is_bad(changed):
                case = changed
                break
        else:
            case = _simplify_elements(case, name, is_bad)
    return case


def _simplify_elements(case: Case, name: str, is_bad: Callable[[Case], bool]) -> Case:
    array = _arrays(case)[name]
    for place in range(array.size if array.size <= SINGLY else 0):
        for number in _simpler_numbers(array.flat[place]):
            simpler = _arrays(case)[name].copy()
            simpler.flat[place] = number
            changed = _with_array(case, name, simpler)
            if is_bad(changed):
                case = changed
                break
    return case


def _arrays(case: Case) -> dict[str, Array]:
    return {**case.feeds, **case.params}


def _with_array(case: Case, name: str, array: Array) -> Case:
    if name in case.feeds:
        return replace(case, feeds={**case.feeds, name: array})
    return replace(case, params={**case.params, name: array})


def _simpler_arrays(array: Array) -> Iterator[Array]:
    counted = np.arange(1, array.size + 1).reshape(array.shape).astype(array.dtype)
    candidates = [np.zeros_like(array), np.ones_like(array), counted]
    if array.dtype.kind in "fi":
        candidates.insert(2, -np.ones_like(array))
    return (each for each in candidates if not np.array_equal(each, array))


def _simpler_numbers(number: object) -> Iterator[float]:
    value = float(number)  # type: ignore[arg-type]
    simple = [0.0, 1.0, -1.0, 2.0, *([float(round(value))] if np.isfinite(value) else [])]
    return iter(simple[: simple.index(value)] if value in simple else simple)
