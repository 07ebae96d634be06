"""The memory of compiled programs: what shares a place, what does not, and what a run takes."""

from __future__ import annotations

import itertools
import re
import tracemalloc
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.execution import MemoryPlan
from graphad.execution.planning import MANY_PLACES, Place, _most_alive, _offsets
from tests.benchmarks import training_steps
from tests.benchmarks.training_steps import Workload

L: Any = ga.layers
SIZE = 1 << 14


def program_of(text: str, *names: str) -> ga.Program:
    declared = " ".join(f"var {name}: float64[{SIZE}]" for name in names)
    return ga.Program.parse(f"program {{ block 0 {{ {declared} {text} }} }}")


def plan_of(text: str, *names: str, fetch: str) -> MemoryPlan:
    return ga.memory_plan(program_of(text, *names), [fetch])


def test_a_chain_takes_one_place() -> None:
    names = [f"t{i}" for i in range(8)]
    text = " ".join(f"tanh(X={a}) -> (Out={b})" for a, b in itertools.pairwise(names))
    plan = plan_of(text, *names, fetch="t7")
    assert (plan.size, plan.most_alive, len(plan.places), len(plan.place_of)) == (SIZE * 8, SIZE * 8, 1, 6)  # t7 is the caller's


def test_what_is_read_later_keeps_its_place() -> None:
    text = "tanh(X=x) -> (Out=a) exp(X=a) -> (Out=b) elementwise_mul(X=a, Y=b) -> (Out=c) exp(X=c) -> (Out=d)"
    plan = plan_of(text, *"xabcd", fetch="d")
    assert plan.size == 2 * SIZE * 8
    ((a,), (b,)) = ([v for v in plan.place_of if v.hint == name] for name in "ab")
    assert plan.place_of[a] is not plan.place_of[b]


def test_a_value_that_a_view_shows_keeps_its_place() -> None:
    text = f"tanh(X=x) -> (Out=a) reshape(X=a) -> (Out=v) {{shape=[{SIZE}]}} exp(X=x) -> (Out=b) elementwise_add(X=v, Y=b) -> (Out=c)"
    program, x = program_of(text, *"xavbc"), np.linspace(-1, 1, SIZE)
    executor = ga.Executor()
    for _ in range(3):
        np.testing.assert_array_equal(executor.run(program, {"x": x}, ["c"])[0], np.tanh(x) + np.exp(x))


@pytest.mark.parametrize("view", ["c_identity(X=a) -> (Out=v)", "barrier(X=a) -> (Out=v)"])
def test_a_value_that_an_ordered_view_shows_keeps_its_place(view: str) -> None:
    text = f"tanh(X=x) -> (Out=a) {view} exp(X=x) -> (Out=b) exp(X=b) -> (Out=c)"
    program, x = ga.Program.parse(str(program_of(text, *"xavbc")).replace(str(SIZE), "4")), np.linspace(-1, 1, 4)
    executor = ga.Executor()
    for _ in range(3):
        for found, expected in zip(executor.run(program, {"x": x}, ["v", "c"]), (np.tanh(x), np.exp(np.exp(x))), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("make", training_steps.WORKLOADS)
def test_the_plan_takes_hardly_more_than_what_is_alive(make: Any) -> None:
    work = make()
    plan = ga.memory_plan(work.main, [work.loss], work.feeds)
    assert plan.size <= 1.1 * plan.most_alive
    assert str(plan).startswith(f"{plan.size:,} bytes for {len(plan.place_of)} values")


def test_places_that_live_at_one_time_do_not_overlap() -> None:
    work = training_steps.mlp()
    places = ga.memory_plan(work.main, [work.loss], work.feeds).places
    for i, one in enumerate(places):
        for other in places[i + 1 :]:
            if one.start <= other.end and other.start <= one.end:
                assert one.offset + one.nbytes <= other.offset or other.offset + other.nbytes <= one.offset


@pytest.mark.parametrize("longest", [3, 40, 5_000])
def test_very_many_places_do_not_overlap_either(longest: int) -> None:
    rng = np.random.default_rng(0)
    starts = rng.integers(0, 5_000, MANY_PLACES + 500)
    ends, sizes = starts + rng.integers(0, longest, starts.size), 64 * rng.integers(1, 9, starts.size)
    places = [Place(int(start), int(end), int(size)) for start, end, size in zip(starts, ends, sizes, strict=True)]
    size = _offsets(places)
    at = np.array([place.offset for place in places])
    at_once = (starts[:, None] <= ends) & (starts <= ends[:, None])
    apart = (at[:, None] + sizes[:, None] <= at) | (at + sizes <= at[:, None])
    assert (apart | ~at_once | np.eye(at.size, dtype=bool)).all()
    assert size == (at + sizes).max() <= 1.5 * _most_alive(places)


def extra(work: Workload) -> tuple[int, int]:
    """The bytes of the plan, and the most that a run takes beyond them and what it leaves in the scope."""
    scope, executor = ga.Scope(), ga.Executor()
    executor.run(work.startup, scope=scope)
    for _ in range(4):
        executor.run(work.main, work.feeds, [work.loss], scope)
    tracemalloc.start()
    try:
        executor.run(work.main, work.feeds, [work.loss], scope)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return ga.memory_plan(work.main, [work.loss], work.feeds).size, most


def test_a_run_allocates_next_to_nothing_beside_the_plan() -> None:
    planned, taken = extra(training_steps.mlp())
    assert planned > 800_000
    assert taken < planned / 20


def test_the_chart_is_svg_with_a_box_for_each_place() -> None:
    plan = plan_of("tanh(X=x) -> (Out=a) exp(X=a) -> (Out=b) elementwise_mul(X=a, Y=b) -> (Out=c) exp(X=c) -> (Out=d)", *"xabcd", fetch="d")
    root = ElementTree.fromstring(plan.svg())
    boxes = [each for each in root if each.tag.endswith("rect")]
    assert len(boxes) == len(plan.places) == 2
    assert any(re.search(r"^a\b", next(iter(box)).text or "") for box in boxes)


# -- whose arrays are whose ----------------------------------------------------------------------


def trained() -> tuple[ga.Program, ga.Executor, ga.Scope, ga.Variable]:
    program, startup, scope = ga.Program(), ga.Program(), ga.Scope()
    with ga.program_guard(program, startup):
        x = L.data("x", [4], "float64")
        loss = L.mean(L.square(L.fc(x, 4, param_attr="w", bias_attr=False)))
        ga.optimizer.SGD(0.1).minimize(loss)
    executor = ga.Executor()
    executor.run(startup, scope=scope)
    return program, executor, scope, loss


def test_what_a_caller_holds_never_changes() -> None:
    program, executor, scope, loss = trained()
    x, held = np.ones((3, 4)), []
    for _ in range(6):
        results = executor.run(program, {"x": x}, [loss, "w@GRAD", "w"], scope)
        held.append(([*results, scope.get("w")], [array.copy() for array in (*results, scope.get("w"))]))
    for arrays, copies in held:
        for array, copy in zip(arrays, copies, strict=True):
            np.testing.assert_array_equal(array, copy)
    assert (x == 1).all()


def test_the_array_of_an_old_value_is_written_to_again_if_nothing_else_holds_it() -> None:
    program, executor, scope, loss = trained()
    feed, seen = {"x": np.ones((3, 4))}, []
    for _ in range(8):
        executor.run(program, feed, [loss], scope)
        seen.append(scope.arrays["w"].__array_interface__["data"][0])
    assert len(set(seen[3:])) == 2  # one after the other


def test_a_scope_that_two_executors_write_to_stays_right() -> None:
    program, executor, scope, loss = trained()
    other, expected_state = ga.Executor(), ga.Scope()
    expected_state.set("w", scope.get("w"))
    expected_state.set("learning_rate_0", scope.get("learning_rate_0"))
    feed = {"x": np.ones((3, 4))}
    for turn in range(8):
        (mixed,) = (executor, other)[turn % 2].run(program, feed, [loss], scope)
        (wanted,) = ga.Executor(mode="interpreted").run(program, feed, [loss], expected_state)
        np.testing.assert_array_equal(mixed, wanted)
    np.testing.assert_array_equal(scope.get("w"), expected_state.get("w"))


def test_parameters_are_updated_as_soon_as_their_gradients_are_there() -> None:
    work = training_steps.mlp()
    lines = ga.to_python(work.main, [work.loss], work.feeds).splitlines()
    made = [next(i for i, line in enumerate(lines) if f"out=w{k}_GRAD)" in line) for k in (3, 2, 1)]
    updated = [next(i for i, line in enumerate(lines) if f"w{k}_2 = " in line) for k in (3, 2, 1)]
    assert [i for pair in zip(made, updated, strict=True) for i in pair] == sorted([*made, *updated])
