"""Gradients of blocks that work on names: each value of a name has its own, whoever overwrites it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.testing.cases import completed
from tests.differences import Model, check
from tests.nested_programs import Row, add, append, count_to, do, if_else, let, net, when

START = do("fill_constant", {}, "y", shape=[3], value=0.5, dtype="float64")
X, W, Y = [0.4, -0.7, 1.1], [0.9, 0.6, -0.8], [0.3, 0.5, 0.2]


def rows(*statements: Row, out: str = "y") -> Callable[..., Any]:
    """A function that appends operators to block 0, and returns the variables of some names."""

    def build(**given: Any) -> list[Any]:
        block = ga.default_main_program().global_block()
        append(block, *statements)
        return [block.var(name) for name in out.split()]

    return build


def times(x: str, y: str, out: str) -> Row:
    return do("elementwise_mul", {"X": x, "Y": y}, out)


def tanh(x: str, out: str) -> Row:
    return do("tanh", {"X": x}, out)


def zeros(model: Model, *names: str) -> None:
    """The gradients with respect to names are variables whose values are exactly zero."""
    found = model.gradients(names)
    assert all(g is not None for g in found.values())
    for name, got in model.values(found).items():
        np.testing.assert_array_equal(got, np.zeros_like({**model.feed, **model.params}[name]), strict=True)


# -- loops ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 4])
def test_a_loop_in_place(n: int) -> None:
    check(Model(rows(*count_to("n", times("y", "w", "y"))), {"w": W}, y=Y, n=[n]))


def test_without_iterations_a_carried_value_has_the_identity_and_a_captured_one_zeros() -> None:
    model = Model(rows(*count_to("n", times("y", "w", "y"))), {"w": W}, y=Y, n=[0])
    got = model.values(model.gradients(["y", "w"]))
    np.testing.assert_array_equal(got["y"], np.cos(Y))
    zeros(model, "w")


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_carried_name_used_before_the_loop_and_after_it(n: int) -> None:
    loop = count_to("n", times("y", "w", "y"))
    check(Model(rows(tanh("y", "a"), *loop, times("a", "y", "b"), tanh("y", "c"), out="a b c"), {"w": W}, y=Y, n=[n]))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_name_overwritten_without_being_read(n: int) -> None:
    check(Model(rows(tanh("y", "a"), *count_to("n", times("x", "x", "y")), times("a", "y", "z"), out="z"), x=X, y=Y, n=[n]))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_name_overwritten_twice_in_one_iteration(n: int) -> None:
    body = [tanh("y", "a"), times("a", "x", "y"), do("sin", {"X": "y"}, "b"), add("a", "b", "y")]
    check(Model(rows(*count_to("n", *body)), x=X, y=Y, n=[n]))


@pytest.mark.parametrize("n", [0, 2])
def test_what_a_loop_reads_is_overwritten_after_it(n: int) -> None:
    check(Model(rows(*count_to("n", times("y", "w", "y")), tanh("y", "w"), add("y", "w", "z"), out="z w"), w=W, y=Y, n=[n]))


def test_two_loops_carry_one_name() -> None:
    first, second = count_to("n", times("y", "w", "y")), count_to("n", do("sin", {"X": "y"}, "y"), add("y", "w", "y"), i="j")
    check(Model(rows(*first, tanh("y", "a"), *second, out="y a"), {"w": W}, y=Y, n=[2]))


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_a_stored_swap_means_what_its_operators_say_in_order(n: int) -> None:
    aliased = [times("a", "w", "c"), let("a", "b"), let("b", "a"), add("b", "c", "a")]
    check(Model(rows(*count_to("n", *aliased), out="a b"), {"w": W}, a=X, b=Y, n=[n]))


@pytest.mark.parametrize(("n", "m"), [(0, 2), (2, 0), (2, 3)])
def test_a_loop_in_a_loop_works_on_names_two_levels_out(n: int, m: int) -> None:
    inner = count_to("m", times("z", "y", "z"), tanh("z", "z"), i="j")
    body = [*inner, add("y", "w", "y"), times("z", "w", "z")]
    check(Model(rows(*count_to("n", *body), out="y z"), {"w": W}, y=Y, z=X, n=[n], m=[m]))


def test_an_inner_loop_runs_as_often_as_the_outer_counter_says() -> None:
    inner = count_to("i", times("y", "w", "y"), add("y", "x", "y"), i="j")
    check(Model(rows(*count_to("n", *inner)), {"w": W}, x=X, y=Y, n=[4]))


# -- branches ------------------------------------------------------------------------------------

BRANCHES = pytest.mark.parametrize("kind", [if_else, lambda c, true: when(c, *true)], ids=["if_else", "conditional_block"])
TAKEN = pytest.mark.parametrize("c", [True, False])


@TAKEN
@BRANCHES
def test_an_outer_name_overwritten_in_a_branch(kind: Any, c: bool) -> None:
    """Taken, its old value has no gradient through the branch; not taken, it has all of it."""
    model = Model(rows(tanh("x", "y"), kind("c", [times("w", "w", "y")]), tanh("y", "z"), out="z"), {"w": W}, x=X, c=[c])
    check(model)
    zeros(model, "x" if c else "w")


@TAKEN
@BRANCHES
def test_an_outer_name_read_and_overwritten_in_a_branch(kind: Any, c: bool) -> None:
    branch = kind("c", [times("y", "w", "y"), do("sin", {"X": "y"}, "y")])
    check(Model(rows(tanh("y", "a"), branch, times("a", "y", "z"), out="z"), {"w": W}, y=Y, c=[c]))


@TAKEN
def test_each_branch_overwrites_what_the_other_leaves(c: bool) -> None:
    branch = if_else("c", [times("a", "w", "a")], [tanh("b", "b"), times("b", "a", "b")])
    check(Model(rows(branch, out="a b"), {"w": W}, a=X, b=Y, c=[c]))


@TAKEN
def test_what_only_the_branch_not_taken_reads_has_zeros(c: bool) -> None:
    model = Model(rows(START, if_else("c", [tanh("a", "y")], [times("b", "x", "y")])), a=X, b=W, x=Y, c=[c])
    check(model)
    zeros(model, *("bx" if c else "a"))


def test_what_a_branch_is_handed_and_does_not_use_has_zeros() -> None:
    branch = if_else("c", [tanh("a", "unused"), tanh("b", "y")], [tanh("a", "y")])
    zeros(Model(rows(START, branch), a=X, b=W, c=[True]), "a")


@pytest.mark.parametrize("rows_of_x", [0, 2])
def test_a_block_that_runs_where_there_is_something_to_run_on(rows_of_x: int) -> None:
    block = when(["x"], do("reduce_sum", {"X": "x"}, "s", dim=[0]), times("y", "s", "y"), is_scalar_condition=False)
    check(Model(rows(block), x=np.linspace(0.5, 1, 3 * rows_of_x).reshape(rows_of_x, 3), y=Y))


# -- one in the other ----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 4])
def test_a_branch_in_a_loop_reads_and_overwrites_what_the_loop_carries(n: int) -> None:
    flip = do("logical_not", {"X": "c"}, "c")
    body: list[Row] = [flip, if_else("c", [times("y", "w", "y")], [tanh("y", "y"), add("y", "x", "y")])]
    check(Model(rows(*count_to("n", *body)), {"w": W}, x=X, y=Y, c=[False], n=[n]))


@TAKEN
@pytest.mark.parametrize("n", [0, 3])
def test_a_loop_in_a_branch_in_a_loop(n: int, c: bool) -> None:
    inner = count_to("m", times("y", "w", "y"), i="j")
    flip = do("logical_not", {"X": "c"}, "c")
    check(Model(rows(*count_to("n", if_else("c", inner, [add("y", "x", "y")]), flip)), {"w": W}, x=X, y=Y, c=[c], n=[n], m=[2]))


def test_a_net_is_as_its_operators() -> None:
    body = [tanh("y", "a"), times("a", "w", "y"), add("y", "a", "y")]
    inside, outside = (check(Model(rows(*given), {"w": W}, y=Y)) for given in ([net(*body)], body))
    np.testing.assert_array_equal(inside.run(["w@GRAD", "y@GRAD"]), outside.run(["w@GRAD", "y@GRAD"]))


@pytest.mark.parametrize("n", [0, 2])
def test_nets_and_loops_in_each_other(n: int) -> None:
    body = [net(times("y", "w", "y"), net(tanh("y", "y"), add("y", "x", "y")))]
    check(Model(rows(net(tanh("x", "x"), *count_to("n", *body), times("y", "x", "y"))), {"w": W}, x=X, y=Y, n=[n]))


@pytest.mark.parametrize("c", [True, False])
def test_four_levels_deep(c: bool) -> None:
    innermost = count_to("m", times("y", "w", "y"), tanh("y", "a"), add("a", "x", "x"), i="k")
    branch = if_else("c", [net(*innermost), do("sin", {"X": "x"}, "x")], [times("y", "x", "y")])
    body = [*count_to("m", branch, i="j"), do("logical_not", {"X": "c"}, "c")]
    check(Model(rows(*count_to("n", *body), out="x y"), {"w": W}, x=X, y=Y, c=[c], n=[2], m=[2]))


def test_two_values_of_a_name_that_one_loop_reads_have_gradients_of_their_own() -> None:
    """After the copies are gone, the loop carries one x and reads the other, which was swapped with y."""
    text = """program { block 0 { var x: float64[2] var y: float64[2] var t: float64[2] var go: bool[1]
        var s: ?[?] STEP_SCOPES var loss: float64[]
        assign(X=x) -> (Out=t) assign(X=y) -> (Out=x) assign(X=t) -> (Out=y)
        while(Condition=go, X=x) -> (StepScopes=s, Out=[y, go]) {sub_block=block(1)} reduce_sum(X=y) -> (Out=loss) }
        block 1 in 0 { scale(X=x) -> (Out=y) {scale=3.0} fill_constant() -> (Out=go) {shape=[1], value=0.0, dtype="bool"} } }"""
    passes = "fuse-elementwise, simplify, find-op-path{targets=[loss]}, create-grad-ops, prune-no-grad, accumulate-grads, create-grad-vars"
    graph = ga.lower(ga.Program.parse(text))
    ga.Pipeline.parse(passes).run(graph)
    program = ga.schedule(graph)
    for runs, expected in ((False, [[1.0, 1.0], [0.0, 0.0]]), (True, [[0.0, 0.0], [3.0, 3.0]])):
        feed = {"x": np.ones(2), "y": np.ones(2), "go": np.array([runs])}
        got = ga.Executor().run(program, feed, ["x@GRAD", "y@GRAD"])
        np.testing.assert_array_equal(got, expected)


def test_a_gradient_of_a_blocks_own_variable_is_told_from_that_of_its_name_outside() -> None:
    program = ga.Program.parse("""program {
  block 0 {
    var x: float64[1, 1]
    var w: float64[1]
    var c: bool[1] stop_gradient
    var y: float64[1, 1]
    var z: float64[1]
    var of_y: float64[]
    var of_z: float64[]
    var loss: float64[]
    if_else(Cond=c, X=[x, w]) -> (Out=[y, z]) {true_block=block(1), false_block=block(2)}
    mean(X=y) -> (Out=of_y)
    mean(X=z) -> (Out=of_z)
    sum(X=[of_y, of_z]) -> (Out=loss)
  }
  block 1 in 0 {
    sum(X=x) -> (Out=y)
    scale(X=w) -> (Out=z)
  }
  block 2 in 0 {
    var x: float64[1]
    tanh(X=w) -> (Out=x)
    expand_v2(X=x) -> (Out=z) {shape=[1]}
    fill_constant() -> (Out=y) {shape=[1, 1], dtype="float64"}
  }
}""")
    block = program.global_block()
    gradients = ga.gradients(block.var("loss"), [block.var("x"), block.var("w")])
    # What operators give is what is declared of it.
    assert str(completed(program)) == str(program)
    feeds = {"x": np.ones((1, 1)), "w": np.array([0.5]), "c": np.array([False])}
    of_x, of_w = ga.Executor().run(program, feeds, gradients)
    np.testing.assert_array_equal(of_x, [[0.0]])
    np.testing.assert_allclose(of_w, [1 - np.tanh(0.5) ** 2], rtol=1e-12)
