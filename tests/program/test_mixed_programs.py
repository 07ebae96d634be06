"""Variables of one program in another: an error that names both, but for a program and its copies, which are of one family."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga

Line = tuple[ga.Program, ga.Program, ga.Variable, ga.Variable]
L = ga.layers


def line() -> Line:
    """A linear regression: the program, its startup program, its data and its cost."""
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        x = L.data("x", [2], "float64")
        cost = L.mean(L.fc(x, 1, param_attr="w", bias_attr=False))
    return main, startup, x, cost


USES: list[Callable[[ga.Variable], Any]] = [
    lambda x: L.tanh(x),
    lambda x: L.fc(x, 3),
    lambda x: L.mean(x),
    lambda x: x + 1.0,
    lambda x: 1.0 - x,
    lambda x: x * x,
    lambda x: L.data("own", [2]) + x,
    lambda x: x + L.data("own", [2]),
    lambda x: L.cond(L.mean(L.data("own", [2])) < 1.0, lambda: x * 2.0, lambda: x),
    lambda x: L.while_loop(lambda i, h: i < 3, lambda i, h: [i + 1, h * 2.0], [0, x]),
]


@pytest.mark.parametrize("use", USES)
def test_a_layer_refuses_a_variable_of_another_program(use: Callable[[ga.Variable], Any]) -> None:
    main, _, x, _ = line()
    other = ga.Program()
    before = str(main)
    with ga.program_guard(other), pytest.raises(ValueError, match="is of another program") as caught:
        use(x)
    assert "Variable x: float64[-1, 2]" in str(caught.value)
    for program in (main, other):
        assert str(program.identity) in str(caught.value)
    assert re.search(r"written at \S*test_mixed_programs\.py:\d+", str(caught.value))
    assert str(main) == before
    assert all("x" not in op.input_names() for block in other.blocks for op in block.ops)


def test_programs_are_named_by_number_and_line() -> None:
    main, *_ = line()
    assert re.fullmatch(r"program \d+ \(created at \S*test_mixed_programs\.py:\d+\)", str(main.identity))
    assert re.fullmatch(rf"program \d+, a copy of program {main.identity.number} \(created at .*\)", str(main.clone().identity))
    assert repr(main).startswith(f"<Program {main.identity.number}: ")
    assert str(ga.default_main_program().identity) == "the default main program"


def optimized(cost: ga.Variable) -> ga.Variable:
    ga.optimizer.SGD(0.1).minimize(cost)
    return cost


LOOKUPS: list[Callable[[Line, ga.Variable], Any]] = [
    lambda ours, x: ga.Executor().run(ours[0], {"x": np.ones((1, 2))}, [x]),
    lambda ours, x: ga.lower(ours[0], [x]),
    lambda ours, x: ours[0].prune(x),
    lambda ours, x: ga.append_backward(ours[3], no_grad_set=[x]),
    lambda ours, x: ga.append_backward(ours[3], parameter_list=[x]),
    lambda ours, x: ga.gradients(ours[3], ours[2], no_grad_set=[x]),
    lambda ours, x: ga.gradients(ours[2] * 1.0, ours[2], target_gradients=[x]),
    lambda ours, x: ga.train(optimized(ours[3]), [[np.ones((1, 2))]], feed_list=[x], progress=False),
    lambda ours, x: ga.train(optimized(ours[3]), [[np.ones((1, 2))]], metrics={"x": x}, progress=False),
]


@pytest.mark.parametrize("use", LOOKUPS)
def test_a_variable_of_another_program_is_not_taken_by_name(use: Callable[[Line, ga.Variable], Any]) -> None:
    ours, (_, _, x, _) = line(), line()
    with ga.scope_guard(ga.Scope()), pytest.raises(ValueError, match="is of another program") as caught:
        use(ours, x)
    assert str(ours[0].identity) in str(caught.value)
    assert str(x.block.program.identity) in str(caught.value)


def test_a_learning_rate_of_another_program_is_refused() -> None:
    main, _, _, cost = line()
    main.global_block().create_var("rate", [1], "float64", persistable=True)
    rate = ga.Program().global_block().create_var("rate", [1], "float64", persistable=True)
    with pytest.raises(ValueError, match=r"learning_rate: Variable rate.* is of another program"):
        ga.optimizer.SGD(rate).minimize(cost)


def run(program: ga.Program, fetch: Any) -> Any:
    scope = ga.Scope()
    scope.set("w", [[1.0], [2.0]])
    return ga.Executor().run(program, {"x": np.ones((1, 2))}, fetch, scope=scope)[0]


@pytest.mark.parametrize("copied", [ga.Program.clone, lambda p: p.clone(for_test=True), copy.deepcopy, lambda p: ga.schedule(ga.lower(p))])
def test_a_program_and_its_copies_are_of_one_family(copied: Callable[[ga.Program], ga.Program]) -> None:
    main, _, x, cost = line()
    clone = copied(main)
    assert run(clone, cost) == run(clone.clone(), cost) == 3.0
    before = str(main)
    with ga.program_guard(clone):
        shifted, same = cost + 1.0, L.mean(x)
    assert str(main) == before
    assert shifted.block.program is same.block.program is clone
    assert run(clone, shifted) == 4.0
    assert run(clone, same) == 1.0


def test_blocks_are_of_their_program() -> None:
    main = ga.Program()
    with ga.program_guard(main):
        x = L.data("x", [2], "float64")
        out = L.cond(L.mean(x) < 2.0, lambda: L.tanh(x) * x, lambda: x)
    assert run(main.clone(), out).tolist() == [[np.tanh(1.0)] * 2]
    with pytest.raises(ValueError, match="is of another program"), ga.program_guard(ga.Program()):
        out + 1.0


def test_arithmetic_outside_of_every_guard_goes_to_the_programs_own_operators() -> None:
    main, _, _, cost = line()
    assert (cost + 1.0).block.program is main
