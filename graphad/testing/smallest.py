"""A case on which a pass is wrong, made as small as possible: the program first, then the arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from graphad.errors import GraphadError
from graphad.testing.cases import Array, Case
from graphad.testing.examine import Finding, examine
from graphad.testing.fitted import fitted
from graphad.testing.reduction import reduce_program
from graphad.testing.subject import Subject
from graphad.testing.twin import Twin


def smallest(subject: Subject, case: Case, finding: Finding, twin: Twin | None = None) -> tuple[Case, Finding]:
    """The case made as small as possible while the same kind of thing is wrong, and what then is."""

    def wrong(smaller: Case) -> Finding | None:
        try:
            found = examine(subject, smaller, twin, only=finding.kind)
        except (GraphadError, ArithmeticError, LookupError):
            return None
        return found if found is not None and found.kind == finding.kind else None

    program = reduce_program(case.program, lambda smaller: wrong(fitted(case, smaller)) is not None)
    small = with_simpler_arrays(fitted(case, program), lambda simpler: wrong(simpler) is not None)
    again = wrong(small)
    return (case, finding) if again is None else (small, again)


def with_simpler_arrays(case: Case, is_bad: Callable[[Case], bool]) -> Case:
    """The case with zeros, ones or 1, 2, 3... for as many of its arrays as leave it bad."""
    for name in (*case.feeds, *case.params):
        for array in _simpler({**case.feeds, **case.params}[name]):
            fed = name in case.feeds
            simpler = replace(case, feeds={**case.feeds, name: array}) if fed else replace(case, params={**case.params, name: array})
            if is_bad(simpler):
                case = simpler
                break
    return case


def _simpler(array: Array) -> list[Array]:
    counted = np.arange(1, array.size + 1).reshape(array.shape)
    return [np.zeros_like(array), np.ones_like(array), counted.astype(array.dtype)]
