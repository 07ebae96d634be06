"""Training steps compute what the same steps written by hand in numpy compute; compiled they make few calls more."""

from __future__ import annotations

from typing import Any

import pytest

import graphad as ga
from tests.benchmarks import training_steps

WORKLOADS = pytest.mark.parametrize("make", training_steps.WORKLOADS)


@WORKLOADS
def test_losses_gradients_and_parameters_are_those_computed_by_hand(make: Any) -> None:
    training_steps.check(make())


@pytest.mark.parametrize(("make", "calls"), [(training_steps.small_mlp, 29), (training_steps.mlp, 55), (training_steps.chain, 50)])
def test_a_step_makes_as_many_calls_of_numpy(make: Any, calls: int) -> None:
    """By hand the small one makes 26. More calls than these say that operators are no longer traced, or that unused values are computed."""
    work = make()
    text = ga.to_python(work.main, [work.loss], work.feeds)
    run = text[text.index("    def run(") :]
    assert run.count("np.") - run.count("np.empty") <= calls
    assert "operation(" not in text
