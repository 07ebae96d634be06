"""``check_analysis``: what an analysis says of values against what they are when random programs run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from graphad.errors import GraphadError, InvalidType, InvalidValue
from graphad.ir import Value, lower
from graphad.ops.callbacks import silent
from graphad.program import Program
from graphad.rewriting.dataflow import Dataflow, Facts
from graphad.testing.calls import Interest
from graphad.testing.cases import Case, Choices, RandomChoices, fitted, random_case
from graphad.testing.shrinking import reduce_program, simplify_arrays
from graphad.testing.sweeps import drawn
from graphad.testing.values import short_text
from graphad.testing.watched import watch

SECONDS = 20.0  # of processor time that making a program small may take
UNFIT = 20  # programs whose inputs are not what the analysis takes them to be, for each one, before the check gives up


@dataclass
class AnalysisChecked:
    """The statistics of a check: programs, arrays, and how many of the arrays the analysis had a fact for."""

    examples: int = 0
    arrays: int = 0
    told: int = 0
    unfit: int = 0

    def __str__(self) -> str:
        return f"nothing wrong on {self.examples} programs: {self.arrays} arrays, of which {self.told} with a fact that says something"


class _Wrong(NamedTuple):
    """A fact that does not hold."""

    value: Value
    fact: Any
    array: Any


class _Unfit(Exception):
    """The inputs are not what the analysis takes them to be."""


class _Found(Exception):
    """A fact does not hold, so that the run may end."""

    def __init__(self, wrong: _Wrong) -> None:
        super().__init__()
        self.wrong = wrong


class WrongFact(AssertionError):
    """An analysis says what is not so.

    Attributes:
        case: the smallest program found, and its arrays.
        value: of its graph, the one that the fact is about.
        fact: what the analysis says.
        array: what the value is, None if there is none.
    """

    def __init__(self, analysis: Dataflow[Any], case: Case, wrong: _Wrong) -> None:
        self.case = case
        self.value, self.fact, self.array = wrong
        arrays = [f"  {name} = {short_text(array)}" for name, array in {**case.feeds, **case.params}.items()]
        message = f"{analysis} says of {self.value!r} {self.fact!r}, but it is {_text(self.array)}"
        origin = f"  made by {self.value.writer!r}" if self.value.writer is not None else f"  an argument of {self.value.graph!r}"
        super().__init__("\n".join([message, origin, str(case.program).rstrip(), *arrays]))


def check_analysis(
    analysis: Dataflow[Any],
    examples: int = 100,
    *,
    seed: int = 0,
    programs: Sequence[Program | Case] | Callable[[Choices], Case] | None = None,
) -> AnalysisChecked:
    """Hold an analysis against runs of random programs: ``analysis.holds`` of each fact and each array of its value.

    Every value is looked at when an operator reads or writes it, in every iteration of loops, in branches and in gradients. What an
    analysis says of inputs (``boundary``) it takes for granted: programs whose arrays are not so are left out.

    Args:
        analysis: a forward analysis that defines ``holds``.
        examples: how many programs.
        seed: the same programs for the same seed.
        programs: a list of them (or of cases), or a function of ``Choices``; None: those that ``check_pass`` draws.

    Returns:
        What was looked at; ``str`` of it is a report.

    Raises:
        WrongFact: a fact does not hold; the program it is shown on was made as small as possible.
        ValueError: the analysis goes backwards, or nothing was checked: it says nothing of any array, or no inputs fit.
    """
    if not isinstance(analysis, Dataflow) or analysis.backward:
        raise InvalidType(f"check_analysis takes a forward Dataflow, not {analysis!r}")
    with silent():
        return _checked(analysis, examples, _cases(programs, seed))


def _checked(analysis: Dataflow[Any], examples: int, cases: Iterator[Case]) -> AnalysisChecked:
    report = AnalysisChecked()
    for case in cases:
        try:
            wrong = _first_wrong(analysis, case, report)
        except _Unfit:
            report.unfit += 1
            # If hardly any program fits there is nothing to hold it against.
            if report.unfit > UNFIT * (report.examples + 1):
                raise InvalidValue(f"{analysis}: the inputs of {report.unfit} programs are not what it takes them to be") from None
            continue
        if wrong is not None:
            raise _Shrinking(analysis, case, wrong).smallest()
        report.examples += 1
        if report.examples >= examples:
            break
    # What says nothing is never wrong.
    if not report.told:
        raise InvalidValue(f"{analysis} says nothing of any of {report.arrays} arrays, so that nothing was checked")
    return report


def _cases(programs: Sequence[Program | Case] | Callable[[Choices], Case] | None, seed: int) -> Iterator[Case]:
    random_program, number = drawn(Interest()), 0
    while True:
        choices = RandomChoices(f"{seed} {number}")
        if programs is None:
            yield random_program(choices)
        elif callable(programs):
            yield programs(choices)
        else:
            program = programs[number % len(programs)]
            yield program if isinstance(program, Case) else random_case(program, number)
        number += 1


def _first_wrong(analysis: Dataflow[Any], case: Case, checked: AnalysisChecked) -> _Wrong | None:
    """The first fact that does not hold in a run, None if all do."""
    program = case.program.clone()
    # The same random numbers each time: a program that is made smaller is wrong for the same reason.
    program.random_seed = program.random_seed or 1
    graph = lower(program)
    try:
        watch(graph, case, _Looking(analysis, analysis.solve(graph), checked).see)
    except _Found as finding:
        return finding.wrong
    return None


class _Looking:
    """Facts, held against the arrays of one run."""

    def __init__(self, analysis: Dataflow[Any], facts: Facts[object], checked: AnalysisChecked) -> None:
        self.analysis, self.facts, self.checked = analysis, facts, checked
        self.run: dict[object, object] = {}

    def see(self, value: Value, array: object) -> None:
        """Look at one array; raise if the fact does not hold."""
        if not isinstance(array, np.ndarray) and not self.analysis.of_presence:
            return
        fact = self.facts[value]
        self.checked.arrays += 1
        self.checked.told += bool(fact != self.analysis.top)
        with np.errstate(all="ignore"):
            holds = self.analysis.holds(fact, array, self.run)
        if holds:
            return
        # The analysis is wrong of what it was given: then the program is not one that it is for.
        if value.given and value.graph.parent is None:
            raise _Unfit
        # The run may overwrite its arrays.
        raise _Found(_Wrong(value, fact, copy(array)))


class _Shrinking:
    """The smallest case so far on which the analysis is wrong of what the same type of operator makes."""

    def __init__(self, analysis: Dataflow[Any], case: Case, wrong: _Wrong) -> None:
        self.analysis, self.case, self.wrong = analysis, case, wrong
        self.deadline = time.process_time() + SECONDS

    def smallest(self) -> WrongFact:
        """Make the program smaller, then the arrays simpler; then the program once more: of equal elements any part is as wrong."""
        self.take(replace(self.case, forward=None, requested=()))
        self.reduce()
        simplify_arrays(self.case, self.take)
        self.reduce()
        return WrongFact(self.analysis, self.case, self.wrong)

    def reduce(self) -> None:
        """Make the program smaller."""
        reduce_program(self.case.program, lambda program: self.take(fitted(self.case, program)))

    def take(self, smaller: Case) -> bool:
        """Whether the same is wrong with another case; it is then the one to go on from."""
        if time.process_time() > self.deadline:
            return False
        try:
            wrong = _first_wrong(self.analysis, smaller, AnalysisChecked())
        except (GraphadError, ArithmeticError, LookupError, ValueError, TypeError, _Unfit):
            return False
        # Another operator's wrong fact is another mistake.
        if wrong is None or _made_by(wrong) != _made_by(self.wrong):
            return False
        self.case, self.wrong = smaller, wrong
        return True


def _text(array: object) -> str:
    return short_text(array) if isinstance(array, np.ndarray) else "not there" if array is None else repr(array)


def _made_by(wrong: _Wrong) -> str:
    return "" if wrong.value.writer is None else wrong.value.writer.type
