"""Paddle's own gradients of loops: ``while_grad`` is lowered, run and differentiated as it is."""

from __future__ import annotations

import numpy as np
import pytest

import graphad as ga
from graphad.interop.paddle.program_desc import dump_program, load_program
from graphad.interop.report import refusals, unknown_operators
from graphad.ir.verify import verify
from tests.interop.stored import after, cases
from tests.interop.test_paddle_branches import STEP, gradients, ran

NAMES = ["while_nested", "while_power_3", "while_rnn", "while_tensor_array", "while_with_cond_inside", "while_zero_iterations"]
EACH = pytest.mark.parametrize("name", NAMES)


@EACH
def test_the_gradient_is_that_of_central_differences(name: str) -> None:
    case, program = cases()[name], load_program(after(name))
    assert not refusals(program)
    assert not unknown_operators(program)
    asked, rng = gradients(case), np.random.default_rng(1)
    given = {**case.group("param"), **case.group("feed")}
    assert asked
    found = ran(program, case, given, list(asked.values()))
    for of, gradient in zip(asked, found, strict=True):
        direction = rng.standard_normal(given[of].shape)
        ends = [ran(program, case, {**given, of: given[of] + s * STEP * direction}, [case.doc["loss"]])[0] for s in (1, -1)]
        slope = float((ends[0] - ends[1]).sum()) / (2 * STEP)
        assert float((gradient * direction).sum()) == pytest.approx(slope, rel=1e-6, abs=1e-7), of
    assert dump_program(program) == after(name), "running changed the program"


@EACH
def test_the_graph_is_valid_and_can_be_scheduled(name: str) -> None:
    case, program = cases()[name], load_program(after(name))
    graph = ga.lower(program)
    verify(graph)
    asked = list(gradients(case).values())
    given = {**case.group("param"), **case.group("feed")}
    for one, other in zip(ran(program, case, given, asked), ran(ga.schedule(graph), case, given, asked), strict=True):
        np.testing.assert_array_equal(one, other)


def test_loops_without_one_value_for_a_name_are_refused_with_it() -> None:
    program = load_program(after("while_power_3"))
    block = next(op for op in program.global_block().ops if op.type == "while").attrs["sub_block"]
    name = "assign_0.tmp_0"
    assert any(name in op.output_names() for op in block.ops)
    block.append_op("tanh", {"X": name}, {"Out": "late"})
    with pytest.raises(ga.errors.InvalidValue, match=rf"its loop reads '{name}' again after writing it"):
        ga.lower(program)


def test_a_counter_that_the_gradient_counts_back_is_what_it_was_before_the_loop() -> None:
    case, program = cases()["while_tensor_array"], load_program(after("while_tensor_array"))
    given = {**case.group("param"), **case.group("feed")}
    loop = next(op for op in program.global_block().ops if op.type == "while")
    (counter,) = {n for op in loop.attrs["sub_block"].ops if op.type == "increment" for n in op.output_names()}
    (count,) = ran(program, case, given, [counter])
    assert count.tolist() == [0]


def test_it_can_be_differentiated_again() -> None:
    case, program = cases()["while_power_3"], load_program(after("while_power_3"))
    given = {**case.group("param"), **case.group("feed")}
    of, first = next(iter(gradients(case).items()))
    block = program.global_block()
    with ga.program_guard(program):
        (second,) = ga.gradients(block.var(first), block.var(of))
    assert second is not None, "the gradient depends on it"
    rng = np.random.default_rng(2)
    direction = rng.standard_normal(given[of].shape)
    ends = [ran(program, case, {**given, of: given[of] + s * STEP * direction}, [first])[0].sum() for s in (1, -1)]
    (found,) = ran(program, case, given, [second.name])
    assert float((found * direction).sum()) == pytest.approx((ends[0] - ends[1]) / (2 * STEP), rel=1e-5, abs=1e-6)
