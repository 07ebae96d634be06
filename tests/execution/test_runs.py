"""Runs that know nothing of one another: several threads on one executor, and a limit on the iterations of a run."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import ExecutionError, TooManyIterations

L = ga.layers
THREADS, ROUNDS, RUNS = 4, 12, 6


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that take turns as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def recurrent() -> tuple[ga.Program, list[str]]:
    """A loop, a linear layer and their gradients: the program, and what to fetch."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = L.data("x", [8], "float64")
        _, h = L.while_loop(lambda i, h: i < 10, lambda i, h: [i + 1, L.tanh(h * 1.1)], [0, x])
        loss = L.mean(L.square(L.fc(h, 4, param_attr="w", bias_attr=False)))
        ga.append_backward(loss)
    return program, [loss.name, "w@GRAD"]


def scope() -> ga.Scope:
    filled = ga.Scope()
    filled.set("w", np.ones((8, 4)))
    return filled


def in_threads(work: Any) -> None:
    """Run ``work(k)`` in each thread, all starting at once; the first error of any is raised."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(THREADS)

    def run(k: int) -> None:
        try:
            barrier.wait()
            work(k)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.usefixtures("hasty")
def test_threads_on_one_executor_do_not_mix_their_runs() -> None:
    program, fetch = recurrent()
    feeds = [{"x": np.full((4, 8), float(k))} for k in range(THREADS)]
    wanted = [ga.Executor().run(program, feed, fetch, scope()) for feed in feeds]
    for _ in range(ROUNDS):
        executor = ga.Executor()

        def work(k: int, executor: ga.Executor = executor) -> None:
            mine = scope()
            for _ in range(RUNS):
                for one, other in zip(executor.run(program, feeds[k], fetch, mine), wanted[k], strict=True):
                    np.testing.assert_array_equal(one, other)

        in_threads(work)


@pytest.mark.usefixtures("hasty")
def test_runs_that_share_a_scope_read_it_as_it_was_between_two_runs() -> None:
    program = ga.Program()
    names = [f"w{i}" for i in range(20)]
    for name in names:
        program.global_block().create_parameter(name, [1])
        program.global_block().append_op("increment", {"X": name}, {"Out": name})
    shared = ga.Scope()
    for name in names:
        shared.set(name, np.zeros(1, "float32"))
    executor = ga.Executor()

    def work(k: int) -> None:
        for _ in range(50):
            values = {float(value[0]) for value in executor.run(program, {}, names, shared)}
            assert len(values) == 1, f"some parameters are of one run and some of another: {values}"

    in_threads(work)


def test_a_program_that_many_threads_run_is_prepared_once_a_thread() -> None:
    program, fetch = recurrent()
    executor = ga.Executor()
    for _ in range(3):
        in_threads(lambda k: executor.run(program, {"x": np.ones((1, 8))}, fetch, scope()))
    (idle,) = executor._idle.values()
    assert 1 <= len(idle) <= THREADS


def test_what_a_run_keeps_is_in_the_order_of_the_program() -> None:
    program = ga.Program()
    names = [f"p{i * 7 % 20}" for i in range(20)]
    for name in names:
        program.global_block().create_parameter(name, [1])
        program.global_block().append_op("fill_constant", {}, {"Out": name}, {"shape": [1], "value": 1.0})
    filled = ga.Scope()
    ga.Executor().run(program, scope=filled)
    assert filled.names() == names


# -- a limit on the iterations -------------------------------------------------------------------


def nested_loops() -> tuple[ga.Program, ga.Variable, int]:
    """Three iterations of a loop of n iterations each; and the line of the inner loop."""
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x, n = L.data("x", [2], "float64"), L.data("n", [1], "int64", append_batch_size=False)

        def outer(i: ga.Variable, h: ga.Variable) -> list[ga.Variable]:
            _, h = L.while_loop(lambda j, h: j < n, lambda j, h: [j + 1, h * 0.5], [0, h])
            return [i + 1, h]

        line = outer.__code__.co_firstlineno + 1
        _, h = L.while_loop(lambda i, h: i < 3, outer, [0, x])
    return program, h, line


def run(program: ga.Program, fetch: Any, n: int, **options: Any) -> Any:
    return ga.Executor(**options).run(program, {"x": np.ones((1, 2)), "n": np.array([n])}, fetch, ga.Scope())[0]


@pytest.mark.parametrize("n", [2, 40])  # 40: the blocks have become functions
def test_all_iterations_of_a_run_are_counted(n: int) -> None:
    program, h, _ = nested_loops()
    limit = 3 + 3 * n
    np.testing.assert_array_equal(run(program, h, n, max_iterations=limit), run(program, h, n))
    for check_finite in (False, True):
        with pytest.raises(TooManyIterations, match=f"'while': the loops of this run take more than max_iterations={limit - 1}"):
            run(program, h, n, max_iterations=limit - 1, check_finite=check_finite)


def test_the_error_names_the_loop_and_leaves_the_executor_usable() -> None:
    program, h, line = nested_loops()
    executor = ga.Executor(max_iterations=9)
    feed = {"x": np.ones((1, 2)), "n": np.array([9])}
    with pytest.raises(TooManyIterations) as caught:
        executor.run(program, feed, h, ga.Scope())
    assert isinstance(caught.value, ExecutionError)
    assert "of which this one has run 8" in str(caught.value)
    assert re.search(rf"written at .*{re.escape(Path(__file__).name)}:{line}$", str(caught.value))
    for _ in range(2):  # each run counts anew
        executor.run(program, feed | {"n": np.array([2])}, h, ga.Scope())


def test_a_loop_without_end_ends() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        (i,) = L.while_loop(lambda i: i > -1, lambda i: [i + 1], [0])
    before = ga.Scope()
    with pytest.raises(TooManyIterations, match="max_iterations=1000 "):
        ga.Executor(max_iterations=1000).run(program, fetch_list=[i], scope=before)
    assert (before.names(), before.runs) == ([], 0)


def test_no_iteration_at_all() -> None:
    program, h, _ = nested_loops()
    with pytest.raises(TooManyIterations):
        run(program, h, 0, max_iterations=0)


def test_what_is_run_again_for_a_gradient_is_not_counted_twice() -> None:
    program = ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = L.data("x", [2], "float64", append_batch_size=False)
        x.stop_gradient = False

        def outer(i: ga.Variable, h: ga.Variable) -> list[ga.Variable]:
            return [i + 1, L.while_loop(lambda j, h: j < 4, lambda j, h: [j + 1, L.tanh(h)], [0, h])[1]]

        h = L.while_loop(lambda i, h: i < 5, outer, [0, x])[1]
        (gradient,) = ga.gradients(h, x)
    assert gradient is not None
    graph = ga.lower(program, [gradient])
    ga.Pipeline.parse("checkpoint-while{every=2}").run(graph)
    executor = ga.Executor(max_iterations=25)
    (plain,), (again,) = (executor.run(p, {"x": np.ones(2)}, gradient.name, ga.Scope()) for p in (program, ga.schedule(graph)))
    np.testing.assert_array_equal(plain, again)
    with pytest.raises(TooManyIterations):
        ga.Executor(max_iterations=24).run(program, {"x": np.ones(2)}, gradient.name, ga.Scope())


@pytest.mark.parametrize(("limit", "error"), [(-1, ValueError), (1.5, TypeError), ("3", TypeError), (True, TypeError)])
def test_a_limit_is_a_count(limit: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="max_iterations"):
        ga.Executor(max_iterations=limit)
