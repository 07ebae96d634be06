"""Paddle's own gradients of branches: ``conditional_block_grad`` is lowered, run and differentiated as it is."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.interop.paddle.program_desc import dump_program, load_program
from graphad.interop.report import refusals, unknown_operators
from graphad.ir.verify import verify
from tests.conformance.loading import Case, close
from tests.interop.stored import after, cases, forward

NAMES = ["cond_false_branch", "cond_nested_tf", "cond_true_branch", "cond_two_outputs_identity", "switch_case_three"]
EACH = pytest.mark.parametrize("name", NAMES)
STEP = 1e-6


def conditions(case: Case) -> list[dict[str, Any]]:
    """All values of the feeds that choose a branch."""
    chosen = {n: v for n, v in case.group("feed").items() if v.dtype.kind != "f"}
    values = [[np.full_like(v, choice) for choice in ((False, True) if v.dtype.kind == "b" else (0, 1, 2))] for v in chosen.values()]
    return [dict(zip(chosen, each, strict=True)) for each in itertools.product(*values)]


def gradients(case: Case) -> dict[str, str]:
    """The gradients of what is given, by the name of what they are of."""
    given = {**case.group("param"), **case.group("feed")}
    return {name: grad["grad_var"] for name, grad in case.doc["grads"].items() if name in given and grad.get("grad_var")}


def ran(program: ga.Program, case: Case, given: dict[str, Any], fetch: list[str]) -> list[Any]:
    scope, params = ga.Scope(), case.group("param")
    for name in params:
        scope.set(name, given[name])
    return ga.Executor().run(program, {n: v for n, v in given.items() if n not in params}, fetch, scope=scope)


@EACH
def test_every_branch_has_the_gradient_of_central_differences(name: str) -> None:
    case, program = cases()[name], load_program(after(name))
    assert not refusals(program)
    assert not unknown_operators(program)
    asked, rng = gradients(case), np.random.default_rng(1)
    assert asked
    for chosen in conditions(case):
        given = {**case.group("param"), **case.group("feed"), **chosen}
        found = ran(program, case, given, list(asked.values()))
        for of, gradient in zip(asked, found, strict=True):
            direction = rng.standard_normal(given[of].shape)
            ends = [ran(program, case, {**given, of: given[of] + s * STEP * direction}, [case.doc["loss"]])[0] for s in (1, -1)]
            slope = float((ends[0] - ends[1]).sum()) / (2 * STEP)
            assert float((gradient * direction).sum()) == pytest.approx(slope, rel=1e-6, abs=1e-7), (chosen, of)
    assert dump_program(program) == after(name), "running changed the program"


@EACH
def test_lowered_and_scheduled_it_is_the_same(name: str) -> None:
    case, program = cases()[name], load_program(after(name))
    asked = list(gradients(case).values())
    graph = ga.lower(program, asked)
    verify(graph)
    ga.Pipeline.parse("simplify, cse, constant-folding, dead-code").run(graph)
    scheduled = ga.schedule(graph)
    assert dump_program(program) == after(name), "lowering changed the program"
    stored = load_program(dump_program(scheduled))
    for chosen in conditions(case):
        given = {**case.group("param"), **case.group("feed"), **chosen}
        for other in (scheduled, stored):
            for expected, got in zip(ran(program, case, given, asked), ran(other, case, given, asked), strict=True):
                close(got, expected)


@EACH
def test_its_second_derivatives_are_graphads_own(name: str) -> None:
    case, paddles = cases()[name], load_program(after(name))
    plain = load_program(forward(name))
    found = {}
    asked = {of: gradient for of, gradient in gradients(case).items() if of == "x"} or gradients(case)
    of, first = next(iter(asked.items()))
    for program in (paddles, plain):
        block = program.global_block()
        (of_loss,) = ga.gradients(block.var(case.doc["loss"]), block.var(of)) if program is plain else (block.var(first),)
        (second,) = ga.gradients(of_loss, block.var(of))
        found[program] = second
    for chosen in conditions(case):
        given = {**case.group("param"), **case.group("feed"), **chosen}
        assert (found[paddles] is None) == (found[plain] is None)
        if found[plain] is not None:
            got, expected = (ran(program, case, given, [second.name])[0] for program, second in found.items() if second is not None)
            close(got, expected)


def test_without_its_forward_operator_it_is_refused() -> None:
    text = str(load_program(after("cond_true_branch")))
    lines = [line for line in text.splitlines() if "conditional_block(Cond=p" not in line]
    program = ga.Program.parse("\n".join(lines))
    with pytest.raises(ValueError, match=r"gradient of the conditional_block that writes the scope '\w+'; 0 do"):
        ga.lower(program)
