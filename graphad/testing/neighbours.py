"""Programs beside one that a pass changed: the same but for one or two things.

A pass that forgets a condition is right on most of the programs that it changes, and wrong on some that differ from these in one thing.
What is drawn from nothing seldom has both, what the pass looks for and what it forgets.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import NamedTuple

from graphad.program import EMPTY, Program
from graphad.testing.array_changes import OTHER_ARRAYS
from graphad.testing.calls import Interest
from graphad.testing.cases import Case, Choices, RandomChoices, fitted
from graphad.testing.lawful import missing
from graphad.testing.program_changes import CHANGES, OF_UPDATES, Draw, NothingToChange, changeable, has_no_gradients
from graphad.testing.program_edits import edited
from graphad.testing.programs import case_with_gradients

KEPT, ORIGINS = 8, 64  # programs of one origin, and origins, that are kept
MOST_OPERATORS = 40  # of a program that another one is made of: with each change it may get longer
TRIES = 4  # changes drawn until one leaves a program valid


class Drawn(NamedTuple):
    """A case, the number of the drawn one that it goes back to, and the choices that it was drawn by; None: it is beside another one."""

    case: Case
    origin: int
    choices: RandomChoices | None = None


class Neighbourhood:
    """Programs that a pass changed, or on which its code ran a new way, by the drawn ones that they go back to; and what is beside them.

    Args:
        interest: the constants that attributes and arrays may have, and whether gradients may be clipped.
        often: one program in so many is to be one beside those.

    Attributes:
        changed: how many of the drawn programs it changed.
    """

    def __init__(self, interest: Interest, often: int) -> None:
        self.interest, self.often = interest, often
        self.origins: dict[int, list[tuple[Case, Program, Program]]] = {}
        self.changed = 0
        self.random = random.Random("neighbourhood")

    def note(self, origin: int, case: Case, before: Program, after: Program) -> None:
        """Keep a case, with what the pass got and what it made; it may take the place of another one."""
        if sum(len(block.ops) for block in case.program.blocks) > MOST_OPERATORS:
            return
        # Each drawn program has as many descendants as any other: what is small would soon be all there is.
        cases = self.origins.setdefault(origin, [])
        cases.append((case, before, after))
        if len(cases) > KEPT:
            del cases[self.random.randrange(KEPT)]
        if len(self.origins) > ORIGINS:
            del self.origins[self.random.choice([*self.origins][:-1])]

    def drawn(self, choices: Choices) -> Drawn | None:
        """A case beside one of those; None if there is none, or nothing that was drawn leaves it valid."""
        if not self.origins:
            return None
        origin = choices.one_of([*self.origins])
        case, before, after = choices.one_of(self.origins[origin])
        other = neighbour(choices, case, _touched(before, after), self.interest)
        return None if other is None else Drawn(other, origin)


def neighbour(choices: Choices, case: Case, touched: frozenset[str], interest: Interest) -> Case | None:
    """The case with one or two things changed; None if nothing that was drawn leaves it valid.

    Args:
        choices: where the decisions come from.
        case: it is not changed. Of one with gradients the program is changed that they are of, and gradients are taken again.
        touched: names of results at which changes are mostly made.
        interest: the constants that attributes and arrays may have, and whether gradients may be clipped.
    """
    forward = case if case.forward is None else case.forward
    for _ in range(TRIES):
        other = _changed(choices, forward, interest, touched)
        if other is None or other is forward:
            continue
        if case.forward is not None:
            other = case_with_gradients(replace(other, requested=()), case.order)
        if other is not None:
            return replace(other, altered=True)
    return None


def _touched(before: Program, after: Program) -> frozenset[str]:
    """The names of the results of operators that are not there after a pass, of those that read these, and of what those read."""
    texts = {str(op) for block in after.blocks for op in block.ops}
    ops = [op for block in before.blocks for op in block.ops]
    changed = [op for op in ops if str(op) not in texts]
    written = {name for op in changed for name in op.output_names()}
    read = {name for op in changed for name in op.input_names()}
    beside = (op for op in ops if not written.isdisjoint(op.input_names()) or not read.isdisjoint(op.output_names()))
    return frozenset(written.union(*(op.output_names() for op in beside)) - {EMPTY})


def _changed(choices: Choices, case: Case, interest: Interest, touched: frozenset[str]) -> Case | None:
    if choices.chance(3) or not changeable(case.program):
        return choices.one_of(OTHER_ARRAYS)(choices, case, interest)
    other: Case | None = case
    for _ in range(choices.one_of((1, 1, 2))):
        if other is not None:
            other = _edited(Draw(choices, other.program, interest, touched), other)
    return other


def _edited(draw: Draw, case: Case) -> Case | None:
    choices = draw.choices
    change, keeps_types = choices.one_of(CHANGES if has_no_gradients(case.program) else OF_UPDATES)
    try:
        program = edited(case.program, change(draw), keeps_types)
    except NothingToChange:
        return None
    if program is None:
        return None
    other = fitted(case, program)
    # What nothing writes before a block that may not run reads it stays without a value.
    if missing(other) - missing(case):
        return None
    new_names = [name for name in program.global_block().vars if name not in case.program.global_block().vars]
    return replace(other, requested=(*case.requested, *new_names) if case.requested and choices.boolean() else case.requested)
