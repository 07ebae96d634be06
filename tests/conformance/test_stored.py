"""The conformance cases as they are stored: forward values, and gradients to 1e-7 of the largest entry."""

from __future__ import annotations

import pytest

import graphad as ga
from tests.conformance.loading import Case, assert_gradients, close, differentiated, has_blocks, load, names, program_of, run

STORED = [case for case in map(load, names()) if not case.name.startswith("opt_")]
CASES = pytest.mark.parametrize("case", STORED, ids=lambda case: case.name)


def variables(program: ga.Program, case: Case) -> dict[str, ga.Variable]:
    """The variables that labels stand for: leaves by name, taps by the reference's name."""
    block = program.global_block()
    taps = {label: block.var(name) for label, name in case.doc["taps"].items() if block.has_var(name)}
    return taps | {name: var for name, var in block.vars.items() if name in case.doc["feeds"] or name in case.doc["params"]}


def test_there_are_cases_of_every_kind() -> None:
    assert len(STORED) == 48
    assert sum(map(has_blocks, STORED)) == 12


@CASES
def test_forward_values(case: Case) -> None:
    program, values = program_of(case.doc["forward"]), case.group("forward")
    for expected, got in zip(values.values(), run(program, case, list(values)), strict=True):
        if expected.dtype.kind == "f":
            close(got, expected)
    if "loss_value" in case.doc:
        assert run(program, case, [case.doc["loss"]])[0] == pytest.approx(case.doc["loss_value"], rel=1e-12)


@CASES
def test_gradients(case: Case) -> None:
    program = program_of(case.doc["forward"])
    found = differentiated(case, program.global_block().var(case.doc["loss"]), variables(program, case))
    assert_gradients(program, case, found)
    text = str(program)
    assert str(ga.Program.parse(text)) == text
    assert str(ga.schedule(ga.lower(program))) == text


@CASES
def test_lower_and_schedule_give_the_program_back(case: Case) -> None:
    program = program_of(case.doc["forward"])
    assert str(ga.schedule(ga.lower(program))) == str(program)
    assert str(ga.Program.parse(str(program))) == str(program)
