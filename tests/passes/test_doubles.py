"""No pass knows an operator by its name: on programs of doubles, which have the definitions of the library's operators and other names,
passes do what they do on the programs themselves.

So an operator of another package that promises what one of the library's does takes part in every pass. Left as they are: operators
that ``tests/test_operator_names.py`` lists, each of which a rule is about, and those that passes make and find equal to the program's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import GraphadError
from graphad.ops import REGISTRY, ControlDef, GradOpDef
from graphad.ops.definition import GRAD_SUFFIX
from graphad.settings import changed_settings
from graphad.testing.calls import Interest
from graphad.testing.cases import Case, RandomChoices
from graphad.testing.programs import KINDS, any_program
from graphad.testing.trial import as_pass, standard_preparation
from tests.every_pass import trials
from tests.scratch import operators
from tests.test_operator_names import ASKED

DOUBLE = "double_of_"
MADE = {"sum", "fill_constant"}  # by the backward: cse merges them with those of the program
NAMED = MADE | {name for module, (names, _) in ASKED.items() if module.startswith(("passes.", "ir.schedule")) for name in names.split()}
WITH_PATTERNS = {"simplify", "fixpoint"}  # rules are written about operators: sigmoid is 1 / (1 + exp(-x))
# Each with the passes that it needs before it, or, where it can follow them, after those of the backward.
PIPELINES = [
    (pipeline, prepare or standard_preparation(pipeline))
    for pipeline, prepare in trials([])
    if re.split(r"\W", pipeline)[0] not in WITH_PATTERNS
]
EACH = pytest.mark.parametrize(("pipeline", "prepare"), PIPELINES, ids=lambda text: str(text)[:40])


@pytest.fixture(scope="module", autouse=True)
def doubles() -> Iterator[None]:
    """Definitions under other names: of operators, loops and branches, and of the gradients of what has no blocks."""
    with operators(), changed_settings(reproducers=""):
        library = dict(REGISTRY)
        forward = {
            type: definition
            for type, definition in library.items()
            if not isinstance(definition, GradOpDef) and not (isinstance(definition, ControlDef) and definition.is_grad)
        }
        REGISTRY.update({DOUBLE + type: replace(definition, type=DOUBLE + type) for type, definition in forward.items()})
        for type, definition in library.items():
            if isinstance(definition, GradOpDef) and definition.forward is not None and definition.forward.type in forward:
                double = REGISTRY[DOUBLE + definition.forward.type]
                REGISTRY[DOUBLE + type] = replace(definition, type=DOUBLE + type, forward=double)
        yield


def doubled(program: ga.Program) -> ga.Program:
    """The program with doubles of its operators."""
    copy = program.clone()
    for block in copy.blocks:
        for op in block.ops:
            if op.type.removesuffix(GRAD_SUFFIX) not in NAMED and DOUBLE + op.type in REGISTRY:
                op.type = DOUBLE + op.type
    return copy


def original(text: str) -> str:
    return text.replace(DOUBLE, "")


def after(pipeline: str, prepare: str, case: Case, program: ga.Program) -> tuple[str, bool]:
    """The graph that passes make of a program, or what they refuse it with, in the library's names; and whether they changed it."""
    graph, changed = ga.lower(program, case.targets), False
    try:
        if prepare:
            as_pass(prepare, case.loss_name).run(graph)
        changed = bool(as_pass(pipeline, case.loss_name).run(graph))
    except GraphadError as error:
        return original(f"{type(error).__name__}: {error}"), changed
    return original(str(graph)), changed


def programs(pipeline: str, count: int) -> Iterator[Case]:
    """Random programs on which the first of the passes has something to do."""
    kinds = [KINDS[name][1] for name in as_pass(pipeline, "loss").parts()[0].on_trial.programs if name in KINDS] or [any_program]
    for i in range(count):
        choices = RandomChoices(f"doubles {i}")
        yield choices.one_of(kinds)(choices, Interest())


def check(pipeline: str, prepare: str, count: int) -> int:
    """Hold the passes on doubles against those on the programs; return how many programs they changed."""
    changes = 0
    for case in programs(pipeline, count):
        if prepare and not case.loss_name:
            continue  # the backward is of a loss
        expected, changed = after(pipeline, prepare, case, case.program)
        assert after(pipeline, prepare, case, doubled(case.program))[0] == expected
        changes += changed
    return changes


@EACH
def test_passes_do_the_same_on_doubles(pipeline: str, prepare: str) -> None:
    check(pipeline, prepare, 8)


@pytest.mark.long
@EACH
def test_passes_do_the_same_on_more_doubles(pipeline: str, prepare: str) -> None:
    only_look = ("find-op-path", "clip-errors", "annotate-cost")
    assert check(pipeline, prepare, 100) or pipeline.startswith(only_look), "no program was changed"


def test_doubles_are_run_alike() -> None:
    for case in programs("dead-code", 40):
        for a, b in zip(run(case, case.program), run(case, doubled(case.program)), strict=True):
            np.testing.assert_array_equal(a, b)


def run(case: Case, program: ga.Program) -> list[Any]:
    scope = ga.Scope()
    for name, array in case.params.items():
        scope.set(name, array)
    return ga.Executor().run(program, case.feeds, [case.loss_name] if case.loss_name else [], scope)


def test_a_pass_that_knows_a_name_is_found() -> None:
    """Rules are about operators, so that there are programs on which simplify does something else."""
    with pytest.raises(AssertionError):
        check("simplify", "", 60)
