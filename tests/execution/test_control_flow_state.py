"""Runs of nested blocks: what outlives them, random numbers, memory; and copies of programs with blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.execution.compiled import FIRST
from graphad.execution.names import blocks_of
from graphad.ops.aggregates import StepScopes
from tests.execution.test_executor import run, watched
from tests.nested_programs import FLAG, N, Row, add, append, constant, count_to, do, fetched, if_else, nested, net, summing, when

# -- what outlives a run -------------------------------------------------------------------------


def counting(*more: Row) -> tuple[ga.Program, ga.Scope]:
    """A program that counts its iterations in a persistable variable of a scope."""
    program = ga.Program()
    block = program.global_block()
    block.create_var("n", [1], "int64")
    block.create_var("x", [1], "float32")
    block.create_var("count", [1], "float32", persistable=True)
    append(block, *count_to("n", do("increment", {"X": "count"}, "count"), *more))
    scope = ga.Scope()
    scope.set("count", np.zeros(1, "float32"))
    return program, scope


def test_persistable_variables_written_in_a_loop_stay_in_the_scope() -> None:
    program, scope = counting(when("i_goes_on", do("increment", {"X": "count"}, "count", step=10.0)))
    for n in (2, 0, 3):
        run(program, {"n": [n], "x": [0]}, scope=scope)
    assert (scope.get("count").tolist(), scope.names(), scope.runs) == ([55], ["count"], 3)


# -- random numbers ------------------------------------------------------------------------------


def noise(seed: int) -> ga.Program:
    """Random numbers: an array of n x 2, one of n after the inner loop."""
    drawn = do("uniform_random", {}, "r", shape=[3], min=0.0, max=1.0)
    at = [do("scale", {"X": "i"}, "twice", scale=2.0), add("twice", "j", "k")]
    inner = count_to("two", drawn, *at, do("write_to_array", {"X": "r", "I": "k"}, "inside"), i="j")
    last = [do("uniform_random", {}, "q", shape=[3], min=0.0, max=1.0), do("write_to_array", {"X": "q", "I": "i"}, "outside")]
    arrays = [do("create_array", {}, name, shape=[3]) for name in ("inside", "outside")]
    program = nested(*arrays, constant("two", 2, "int64"), *count_to("n", *inner, *last), n=N)
    program.random_seed = seed
    return program


def drawn(program: ga.Program, scope: ga.Scope) -> list[tuple[float, ...]]:
    arrays = run(program, {"n": [3]}, ["inside", "outside"], scope)
    return [tuple(item.tolist()) for array in arrays for item in array]


@pytest.mark.parametrize("seed", [0, 5])
def test_every_iteration_and_every_run_draws_its_own_numbers(seed: int) -> None:
    program, scope = noise(seed), ga.Scope()
    both = drawn(program, scope) + drawn(program, scope)
    assert len(set(both)) == len(both) == 18


def test_a_random_seed_repeats_what_a_loop_draws() -> None:
    first, second = (drawn(noise(5), ga.Scope()) for _ in range(2))
    assert first == second
    assert set(first).isdisjoint(drawn(noise(6), ga.Scope()))
    assert set(drawn(noise(0), ga.Scope())).isdisjoint(drawn(noise(0), ga.Scope()))


# -- memory --------------------------------------------------------------------------------------
# Of the interpreter: a function's memory is planned (``test_memory_plan``).


@pytest.fixture
def interpreted() -> Iterator[None]:
    before = FIRST.set(0)
    yield
    FIRST.reset(before)


@pytest.mark.usefixtures("interpreted")
def test_values_of_a_body_are_freed_after_their_last_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = [do("tanh", {"X": a}, b) for a, b in (("x", "t0"), ("t0", "t1"), ("t1", "t2"))]
    program = nested(*count_to("n", *chain), n=N, x=[8])
    with watched(monkeypatch, "tanh") as alive:
        run(program, {"n": [3], "x": np.ones(8, "float32")})
    assert alive == [0, 1, 1] * 3 + [0]


@pytest.mark.usefixtures("interpreted")
def test_a_carried_value_is_freed_when_it_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    program = nested(*count_to("n", do("tanh", {"X": "x"}, "x")), do("scale", {"X": "x"}, "y"), n=N, x=[8])
    with watched(monkeypatch, "tanh") as alive:
        run(program, {"n": [4], "x": np.ones(8, "float32")}, ["y"])
    assert alive == [0, 1, 1, 1, 0]


@pytest.mark.usefixtures("interpreted")
def test_what_a_loop_reads_from_outside_lives_as_long_as_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = count_to("n", add("s", "a", "s"), do("tanh", {"X": "s"}, "unread"))
    program = nested(do("tanh", {"X": "x"}, "a"), *loop, do("tanh", {"X": "x"}, "b"), n=N, x=[8], s=[8])
    with watched(monkeypatch, "tanh") as alive:
        run(program, {"n": [3], "x": np.ones(8, "float32"), "s": np.ones(8, "float32")}, ["s"])
    assert alive == [0, 1, 1, 1, 0, 0]


@pytest.mark.usefixtures("interpreted")
def test_values_of_a_branch_are_freed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    body = [do("tanh", {"X": "x"}, "t"), do("tanh", {"X": "t"}, "y")]
    program = nested(if_else("c", body, []), do("tanh", {"X": "y"}, "z"), c=FLAG, x=[8], y=[8])
    with watched(monkeypatch, "tanh") as alive:
        run(program, {"c": [True], "x": np.ones(8, "float32")}, ["z"])
    assert alive == [0, 1, 1, 0]


def test_nothing_is_kept_for_a_gradient_that_was_not_requested() -> None:
    body = [do("tanh", {"X": "x"}, "t"), add("s", "t", "s")]
    program = nested(*count_to("n", *body), if_else("c", body, body), when("c", *body), net(*body), c=FLAG, n=N, s=[1], x=[1])
    names = [name for name, var in program.global_block().vars.items() if var.type == "STEP_SCOPES"]
    kept: list[Any] = run(program, {"n": [5], "c": [False], "s": [0], "x": [1]}, names)
    assert all(isinstance(scopes, StepScopes) for scopes in kept)
    assert [(scopes.nbytes, scopes.count) for scopes in kept] == [(0, 5), (0, 1), (0, 1), (0, 1)]


# -- copies --------------------------------------------------------------------------------------


def everything() -> ga.Program:
    """Loops, branches, nets and arrays, down to the third level."""
    body = if_else("c", [add("s", "x", "s"), when("c", add("s", "x", "s"))], [net(do("scale", {"X": "s"}, "s", scale=2.0))])
    write = do("write_to_array", {"X": "s", "I": "i"}, "array")
    arrays = [do("create_array", {}, "array", shape=[1])]
    program = nested(*arrays, *count_to("n", body, write), do("scale", {"X": "s"}, "z"), n=N, c=FLAG, s=[1], x=[1])
    append(program.global_block(), do("tanh", {"X": "x"}, "aside"))
    return program


def outcomes(program: ga.Program) -> list[Any]:
    feeds: list[dict[str, Any]] = [{"n": [n], "c": [c], "s": [1], "x": [1]} for n in (0, 3) for c in (True, False)]
    return [[float(z[0]), [float(item[0]) for item in array]] for z, array in (run(program, feed, ["z", "array"]) for feed in feeds)]


def test_a_program_with_blocks_reads_back_from_its_text() -> None:
    program = everything()
    parsed = ga.Program.parse(str(program))
    assert str(parsed) == str(program)
    assert outcomes(parsed) == outcomes(program) == [[1, []], [1, []], [7, [3, 5, 7]], [8, [2, 4, 8]]]


@pytest.mark.parametrize("for_test", [False, True])
def test_a_clone_holds_its_own_blocks(for_test: bool) -> None:
    program = everything()
    before = str(program)
    clone = program.clone(for_test=for_test)
    held = [block for each in clone.blocks for op in each.ops for block in blocks_of(op)]
    assert sorted(block.idx for block in held) == list(range(1, len(clone.blocks)))
    assert all(block is clone.blocks[block.idx] for block in held)
    assert outcomes(clone) == outcomes(program)
    assert str(program) == before
    assert ("is_test=true" in str(clone)) == for_test


def test_an_operator_changed_in_a_clones_body_leaves_the_original_alone() -> None:
    program = summing()
    clone = program.clone()
    append(clone.block(1), add("s", "x", "s"))
    assert [fetched(p, "s", n=[2], s=[0], x=[1]) for p in (program, clone)] == [[2], [4]]


def test_pruning_keeps_a_loop_that_is_needed_with_all_it_reads() -> None:
    program = everything()
    pruned = program.prune("z")
    assert "tanh" not in str(pruned)
    assert not pruned.global_block().has_var("aside")
    assert [z for z, _ in outcomes(program)] == [fetched(pruned, "z", n=[n], c=[c], s=[1], x=[1])[0] for n in (0, 3) for c in (True, False)]


def test_pruning_drops_a_loop_that_is_not_needed() -> None:
    pruned = everything().prune("aside")
    assert [op.type for op in pruned.global_block().ops] == ["tanh"]
    assert fetched(pruned, "aside", x=[0]) == [0]
