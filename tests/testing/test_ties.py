"""Gradients at ties are held against differences along directions on which a tie stays one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from graphad import layers
from graphad.program import Program, Variable, program_guard
from graphad.testing.cases import Case
from graphad.testing.checks import examine
from graphad.testing.derivatives import has_whole_ties, keeping_ties
from graphad.testing.trial import BACKWARD, Subject
from tests.mutants.entries import MUTANTS, planted, register

Joining = Callable[[Variable, Variable], Variable]


def maximum(x: Variable, y: Variable) -> Variable:
    return layers.elementwise_max(x, y)


def of_squares(x: Variable, y: Variable) -> Variable:
    return layers.elementwise_max(layers.square(x), layers.square(y))


def of_all(x: Variable, y: Variable) -> Variable:
    return layers.reduce_min(layers.concat([x, y], axis=0))


def at_ties(join: Joining) -> Case:
    program = Program()
    with program_guard(program):
        x, y = (layers.data(name, shape=[3], append_batch_size=False, dtype="float64", stop_gradient=False) for name in "xy")
        loss = layers.reduce_sum(join(x, y))
    return Case(program, loss.name, {"x": np.array([1.0, 2.0, -0.5]), "y": np.array([1.0, 0.25, -0.5])}, {})


def test_equal_numbers_move_equally_and_zeros_do_not_move() -> None:
    arrays = {"x": np.array([1.0, 0.0, 2.0]), "y": np.array([[2.0, 1.0]], "float32"), "z": np.zeros((0, 2))}
    ways = keeping_ties(arrays, np.random.default_rng(1))
    assert {name: way.shape for name, way in ways.items()} == {"x": (3,), "y": (1, 2), "z": (0, 2)}
    assert ways["x"][1] == 0
    assert ways["x"][0] == ways["y"][0, 1] != ways["x"][2] == ways["y"][0, 0]


@pytest.mark.parametrize("numbers", [[1.0, 2.0], [0.0, 0.0, 1.0], []], ids=str)
def test_without_equal_numbers_there_is_no_such_direction(numbers: list[float]) -> None:
    assert keeping_ties({"x": np.array(numbers)}, np.random.default_rng(1)) == {}


def test_a_maximum_that_gives_every_tie_the_whole_is_no_choice() -> None:
    assert has_whole_ties(at_ties(of_all))
    assert not has_whole_ties(at_ties(maximum))


@pytest.mark.parametrize("join", [maximum, of_squares])
def test_a_gradient_that_is_lost_at_ties_is_found(join: Joining) -> None:
    (mutant,) = [mutant for mutant in MUTANTS if mutant.name == "gradient-of-maximum-forgets-ties"]
    subject, case = Subject(", ".join(BACKWARD)), at_ties(join)
    register()
    assert examine(subject, case) is None
    assert "the loss changes by" in str(planted(mutant, lambda: examine(subject, case)))
    assert examine(subject, case) is None
