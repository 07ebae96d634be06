"""Executors that run programs through passes first: the same values, and the programs stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad import layers
from graphad.errors import InvalidType, InvalidValue
from graphad.rewriting.passes import PIPELINES
from tests.benchmarks import training_steps


def steps(executor: ga.Executor, work: Any, count: int = 4) -> list[Any]:
    """The losses of some steps, and the parameters after them."""
    scope = ga.Scope()
    executor.run(work.startup, scope=scope)
    losses = [executor.run(work.main, work.feeds, [work.loss], scope)[0] for _ in range(count)]
    return [*losses, *work.parameters(scope).values()]


@pytest.mark.parametrize("passes", PIPELINES)
@pytest.mark.parametrize("make", [training_steps.small_mlp, training_steps.lenet, training_steps.lstm])
def test_training_is_the_same(make: Any, passes: str) -> None:
    work = make()
    text = str(work.main)
    for one, other in zip(steps(ga.Executor(passes=passes), work), steps(ga.Executor(), work), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert str(work.main) == text


def folded() -> tuple[ga.Program, ga.Program, ga.Variable]:
    main, startup = ga.Program(), ga.Program()
    main.random_seed = startup.random_seed = 3
    with ga.program_guard(main, startup):
        x = layers.data("x", [3, 8, 8])
        y = layers.batch_norm(layers.conv2d(x, 4, 3, bias_attr=False), is_test=True)
        same = layers.elementwise_add(layers.relu(y), layers.relu(y))
    return main, startup, same


def test_operators_are_fewer_and_the_profile_shows_those_that_ran() -> None:
    main, startup, y = folded()
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype("float32")
    ran, found = {}, {}
    for passes in (None, "optimize-for-speed"):
        scope, executor = ga.Scope(), ga.Executor(passes=passes, profile=True)
        ga.Executor().run(startup, scope=scope)
        found[passes] = [executor.run(main, {"x": x}, [y], scope)[0] for _ in range(3)][-1]
        assert executor.profile is not None
        ran[passes] = [op.type for op in executor.profile.operators]
    np.testing.assert_allclose(found["optimize-for-speed"], found[None], rtol=1e-4, atol=1e-5)
    assert "batch_norm" in ran[None]
    assert ran[None].count("relu") == 2
    assert "batch_norm" not in ran["optimize-for-speed"]
    assert ran["optimize-for-speed"].count("relu") == 1


def test_a_change_of_the_program_is_seen() -> None:
    main = ga.Program()
    with ga.program_guard(main):
        y = layers.scale(layers.data("x", [2], append_batch_size=False), scale=2.0)
    executor, x = ga.Executor(passes=ga.Pipeline.parse("simplify, dead-code")), np.ones(2, "float32")
    for scale in (2.0, 3.0):
        main.global_block().ops[0].attrs["scale"] = scale
        for _ in range(4):
            assert executor.run(main, {"x": x}, [y])[0].tolist() == [scale, scale]


def test_what_is_no_pass_is_refused() -> None:
    with pytest.raises(InvalidType, match="pipeline is made of passes"):
        ga.Executor(passes=3)
    with pytest.raises(InvalidValue, match="optimize-for-sped"):
        ga.Executor(passes="optimize-for-sped")
    assert str(ga.Pipeline.parse("optimize-for-speed")) == PIPELINES["optimize-for-speed"]
