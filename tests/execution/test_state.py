"""State that outlives a run: scopes, initialization that happens once, and random numbers that can be repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from tests.execution.test_executor import Array, layer, run, written

# -- scopes --------------------------------------------------------------------------------------


def test_persistable_values_stay_in_the_scope_and_others_go() -> None:
    program = written(("scale", {"X": "x"}, "y"), x=[2])
    count = program.global_block().create_var("count", [1], "float32", persistable=True)
    program.global_block().append_op("increment", {"X": count}, {"Out": count})
    scope, other = ga.Scope(), ga.Scope()
    for each in (scope, other):
        each.set("count", np.zeros(1, "float32"))
    for _ in range(3):
        run(program, {"x": [1, 2]}, scope=scope)
    assert [float(each.get("count")[0]) for each in (scope, other)] == [3.0, 0.0]
    assert scope.names() == ["count"]


def test_two_persistable_names_of_one_value_do_not_share_memory() -> None:
    program = written()
    block = program.global_block()
    w = block.create_parameter("w", [2])
    block.append_op("assign", {"X": w}, {"Out": block.create_var("old", [2], "float32", persistable=True)})
    block.append_op("increment", {"X": w}, {"Out": w})
    scope = ga.Scope()
    scope.set("w", np.zeros(2, "float32"))
    for _ in range(2):
        run(program, scope=scope)
    np.testing.assert_array_equal([scope.get("w"), scope.get("old")], [[2, 2], [1, 1]])


def test_a_scope_does_not_share_memory_with_what_was_fed() -> None:
    program = written(x=[2])
    kept = program.global_block().create_var("kept", [2, 1], "float32", persistable=True)
    program.global_block().append_op("reshape2", {"X": "x"}, {"Out": kept}, {"shape": [2, 1]})
    scope, x = ga.Scope(), np.ones(2, "float32")
    run(program, {"x": x}, scope=scope)
    x += 1
    np.testing.assert_array_equal(scope.get("kept"), [[1], [1]])


def test_a_scope_copies_what_is_set_and_gives_it_read_only() -> None:
    scope, array = ga.Scope(), np.zeros(2)
    scope.set("a", array)
    array += 1
    np.testing.assert_array_equal(scope.get("a"), 0)
    with pytest.raises(ValueError, match="read-only"):
        scope.get("a")[0] = 1.0


def test_a_scope_forgets_what_is_erased() -> None:
    scope = ga.Scope()
    for name in "abc":
        scope.set(name, 1.0)
    scope.erase("a")
    scope.erase(["b", "unknown"])
    assert scope.names() == ["c"]
    with pytest.raises(ValueError, match="the scope has no value for 'a'; has the startup program been run in it"):
        scope.get("a")
    with pytest.raises(TypeError, match="stores arrays by name, not by 3"):
        scope.set(3, 1.0)  # type: ignore[arg-type]


def test_scope_guard_sets_and_restores_the_global_scope() -> None:
    outer, scope = ga.Scope(), ga.Scope()
    _main, startup, _ = layer()
    with ga.scope_guard(outer):
        with ga.scope_guard(scope):
            ga.Executor().run(startup)
            assert ga.global_scope() is scope
        assert ga.global_scope() is outer
    assert scope.has("fc_0.w_0")
    assert not outer.names()
    with pytest.raises(TypeError, match="scope_guard takes a Scope, not 3"), ga.scope_guard(3):  # type: ignore[arg-type]
        pass


def read(value: Array) -> Array:
    """tanh of a float32 parameter of two elements, with this value in the scope."""
    program = written()
    program.global_block().append_op("tanh", {"X": program.global_block().create_parameter("w", [2])}, {"Out": "y"})
    scope = ga.Scope()
    scope.set("w", value)
    return run(program, fetch=["y"], scope=scope)[0]


def test_a_value_in_the_scope_takes_the_declared_dtype() -> None:
    got = read(np.array([0.25, 0.5]))
    assert got.dtype == "float32"
    np.testing.assert_array_equal(got, read(np.array([0.25, 0.5], "float32")))


def test_a_value_in_the_scope_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="'w'"):
        read(np.ones(5, "float32"))


# -- initialization ------------------------------------------------------------------------------


def started(startup: ga.Program, scope: ga.Scope, **options: Any) -> Array:
    run(startup, scope=scope, **options)
    return scope.get("fc_0.w_0").copy()


def test_initialization_runs_once_in_a_scope() -> None:
    _, startup, _ = layer()
    scope = ga.Scope()
    first = started(startup, scope)
    np.testing.assert_array_equal(started(startup, scope), first)
    assert not np.array_equal(started(startup, ga.Scope()), first)


def test_reinitialize_runs_it_again() -> None:
    _, startup, _ = layer()
    scope = ga.Scope()
    first = started(startup, scope)
    assert not np.array_equal(started(startup, scope, reinitialize=True), first)


def test_an_erased_value_is_initialized_again_and_the_others_stay() -> None:
    _, startup, _ = layer()
    scope = ga.Scope()
    first = started(startup, scope)
    scope.set("fc_0.b_0", np.full(3, 7, "float32"))
    scope.erase("fc_0.w_0")
    assert not np.array_equal(started(startup, scope), first)
    np.testing.assert_array_equal(scope.get("fc_0.b_0"), 7)


def test_a_layer_added_later_is_initialized_later() -> None:
    main, startup, y = layer()
    scope = ga.Scope()
    first = started(startup, scope)
    with ga.program_guard(main, startup):
        ga.layers.fc(y, 2)
    np.testing.assert_array_equal(started(startup, scope), first)
    assert scope.has("fc_1.w_0")


# -- random numbers ------------------------------------------------------------------------------


def dropouts(random_seed: int, *seeds: int) -> Callable[[ga.Scope], list[Array]]:
    program = ga.Program()
    program.random_seed = random_seed
    with ga.program_guard(program):
        x = ga.layers.data("x", [50], append_batch_size=False)
        fetch = [ga.layers.dropout(x, 0.5, seed=seed) for seed in seeds]
    return lambda scope: run(program, {"x": np.ones(50, "float32")}, fetch, scope)


def same(a: list[Array], b: list[Array]) -> list[bool]:
    return [np.array_equal(x, y) for x, y in zip(a, b, strict=True)]


def test_a_random_seed_repeats_runs_from_a_fresh_scope() -> None:
    runs, scopes = dropouts(3, 0, 0), (ga.Scope(), ga.Scope())
    first, second = ([runs(scope), runs(scope)] for scope in scopes)
    assert [same(a, b) for a, b in zip(first, second, strict=True)] == [[True, True]] * 2
    assert same(first[0], first[1]) == [False, False], "every run draws its own numbers"
    assert not np.array_equal(first[0][0], first[0][1]), "every operator draws its own numbers"


def test_other_random_seeds_draw_other_numbers() -> None:
    assert same(dropouts(3, 0)(ga.Scope()), dropouts(4, 0)(ga.Scope())) == [False]
    assert same(dropouts(0, 0)(ga.Scope()), dropouts(0, 0)(ga.Scope())) == [False]


def test_an_operators_seed_fixes_it_for_every_run() -> None:
    runs, scope = dropouts(0, 4, 4, 5), ga.Scope()
    first = runs(scope)
    assert same(first, runs(scope)) == [True] * 3
    assert [np.array_equal(first[0], first[1]), np.array_equal(first[0], first[2])] == [True, False]


def test_training_is_the_same_twice_with_a_random_seed() -> None:
    results = []
    for _ in range(2):
        main, startup = ga.Program(), ga.Program()
        main.random_seed = startup.random_seed = 9
        with ga.program_guard(main, startup):
            hidden = ga.layers.dropout(ga.layers.fc(ga.layers.data("x", [4]), 8), 0.3)
            cost = ga.layers.mean(hidden * hidden)
            ga.optimize(cost)
        scope = ga.Scope()
        run(startup, scope=scope)
        results.append([float(run(main, {"x": np.ones((2, 4), "float32")}, [cost], scope)[0]) for _ in range(4)])
    assert results[0] == results[1]
    assert len(set(results[0])) == 4


@pytest.mark.parametrize(
    ("array", "error"),
    [([2**70], "InvalidType"), (["1"], "InvalidType"), ([1j], "InvalidType"), (np.ma.masked_equal([1.0, 2.0], 1.0), "InvalidValue")],
)
def test_a_scope_stores_arrays_of_numbers_only(array: Any, error: str) -> None:
    scope = ga.Scope()
    with pytest.raises(getattr(ga.errors, error), match="'w'"):
        scope.set("w", array)
    assert not scope.has("w")


@pytest.mark.parametrize("mode", ["interpreted", "compiled"])
def test_an_initialization_beside_a_loop_runs_once(mode: str) -> None:
    """A program with loops is compiled at its first run, with the initialization in it, and again for the runs after that."""
    program = ga.Program.parse(
        """program {
          block 0 {
            var x: float32[2]  var w: float32[2] persistable  var i: int64[1]  var n: int64[1]  var c: bool[1]  var s: ?[?] STEP_SCOPES
            assign(X=x) -> (Out=w) {run_once=true}
            scale(X=w) -> (Out=w) {scale=2.0}
            fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
            fill_constant() -> (Out=n) {shape=[1], value=2.0, dtype="int64"}
            less_than(X=i, Y=n) -> (Out=c)
            while(Condition=c, X=[i, n]) -> (Out=[i, c], StepScopes=s) {sub_block=block(1)}
          }
          block 1 in 0 {
            increment(X=i) -> (Out=i)
            less_than(X=i, Y=n) -> (Out=c)
          }
        }"""
    )
    executor, feed = ga.Executor(mode=mode), {"x": np.ones(2, "float32")}
    for _ in range(2):  # the second time in a scope in which nothing has run
        scope = ga.Scope()
        assert [executor.run(program, feed, ["w"], scope)[0][0] for _ in range(3)] == [2.0, 4.0, 8.0]
