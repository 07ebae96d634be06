"""Types that only runs know, such as how many tensors a loop puts into an array: later functions are made for what the first runs had."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import ExecutionError, GraphadError
from graphad.testing.cases import RandomChoices
from graphad.testing.programs import any_program
from tests.execution.test_compiled import alike, functions

layers: Any = ga.layers
RUNS = 6  # the third is by a function that knows what the first two had


def stacking(axis: int = 0, use_stack: bool = True) -> tuple[ga.Program, ga.Variable]:
    """tanh of all steps of a loop of n iterations, put into one tensor."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = layers.data("x", shape=[4], dtype="float64")
        n = layers.data("n", shape=[1], append_batch_size=False, dtype="int64")

        def iteration(i: Any, s: Any, steps: Any) -> list[Any]:
            s = layers.tanh(s * 2.0 + 0.5)
            return [i + 1, s, layers.array_write(s, i, steps)]

        start = [layers.fill_constant([1], "int64", 0), x, layers.create_array("float64")]
        (_, _, steps) = layers.while_loop(lambda i, *_: layers.less_than(i, n), iteration, start)
        rows = layers.tensor_array_to_tensor(steps, axis=axis, use_stack=use_stack)[0]
        out = layers.exp(rows) * 2.0
    return program, out


def feeds(n: int) -> dict[str, Any]:
    return {"x": np.linspace(-1, 1, 12).reshape(3, 4), "n": np.array([n])}


def test_what_comes_after_a_loop_is_traced_once_runs_have_said_what_it_is() -> None:
    program, out = stacking()
    executor = ga.Executor()
    results = [executor.run(program, feeds(5), [out])[0] for _ in range(RUNS)]
    (function,) = functions(executor)
    assert "np.exp(tensor_array_to_tensor_0_tmp_0" in function.source.text.replace("np_exp", "np.exp")
    wanted = ga.Executor(mode="interpreted").run(program, feeds(5), [out])[0]
    assert all(np.array_equal(result, wanted) for result in results)


@pytest.mark.parametrize(("axis", "use_stack"), [(0, True), (1, True), (0, False), (1, False)])
def test_other_trip_counts_are_right_though_the_feeds_are_of_one_type(axis: int, use_stack: bool) -> None:
    program, out = stacking(axis, use_stack)
    executor, reference = ga.Executor(), ga.Executor(mode="interpreted")
    for n in (3, 3, 3, 5, 3, 5, 5, 2, 2, 3):
        (found,), (wanted,) = (each.run(program, feeds(n), [out]) for each in (executor, reference))
        assert np.array_equal(found, wanted)


def test_a_type_that_changes_from_run_to_run_is_not_assumed() -> None:
    program, out = stacking()
    executor = ga.Executor()
    for n in (2, 3, 2, 3, 2, 3):
        assert executor.run(program, feeds(n), [out])[0].shape == (n, 3, 4)
    (function,) = functions(executor)
    assert "raise Changed" not in function.source.text


def test_an_earlier_result_is_not_written_over_by_the_next_run() -> None:
    """Elements of an array may be what was fetched before."""
    program, out = stacking()
    executor = ga.Executor()
    results = [executor.run(program, {**feeds(4), "x": np.full((3, 4), k / 7)}, [out])[0] for k in range(RUNS)]
    for k, result in enumerate(results):
        (wanted,) = ga.Executor(mode="interpreted").run(program, {**feeds(4), "x": np.full((3, 4), k / 7)}, [out])
        assert np.array_equal(result, wanted)


@pytest.mark.parametrize("index", [[2], [-1], [[0]]])
def test_one_slice_is_a_view(index: Any) -> None:
    program = ga.Program.parse(
        f"program {{ block 0 {{ var x: float64[3, 4] var i: int64{list(np.shape(index))} var y: float64[1, 4] var z: float64[1, 4] "
        "gather(X=x, Index=i) -> (Out=y) {axis=0} exp(X=y) -> (Out=z) } }"
    )
    x = np.arange(12.0).reshape(3, 4)
    executor = ga.Executor()
    for _ in range(RUNS):
        (z,) = executor.run(program, {"x": x, "i": np.array(index)}, ["z"])
        assert np.array_equal(z, np.exp(x[np.ravel(index)]))
    (function,) = functions(executor)
    assert ".item(), ...]" in function.source.text
    with pytest.raises(ExecutionError, match="Index"):
        executor.run(program, {"x": x, "i": np.full(np.shape(index), 3)}, ["z"])


@pytest.mark.parametrize("seed", range(12))
def test_many_runs_of_any_program_are_alike(seed: int) -> None:
    p = any_program(RandomChoices(f"many runs {seed}"))
    p.program.random_seed = p.program.random_seed or 7
    executors = [ga.Executor(mode=mode) for mode in ("compiled", "interpreted")]
    scopes = [ga.Scope(), ga.Scope()]
    for scope in scopes:
        for name, array in p.params.items():
            scope.set(name, array)
    for _ in range(RUNS):
        found: list[Any] = []
        for executor, scope in zip(executors, scopes, strict=True):
            try:
                found.append(executor.run(p.program, dict(p.feeds), [p.loss_name], scope))
            except GraphadError as error:
                found.append(type(error))
        assert alike(*found)
