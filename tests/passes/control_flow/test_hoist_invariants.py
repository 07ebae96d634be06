"""Loop-invariant operators are hoisted in front of the loop, if they cannot fail there."""

from __future__ import annotations

import numpy as np
import pytest

import graphad as ga
from graphad.ops import operator
from graphad.ops.inference import same_float
from graphad.ops.traits import FUNCTION
from graphad.passes.control_flow import HoistInvariants
from graphad.testing import check_pass
from tests.graphs import types
from tests.passes.control_flow.programs import counted, differentiated_program, ops_of, rewritten, same, values, with_gradients
from tests.scratch import operators

HOIST = "hoist-invariants"
TANH_W = "tanh(X=w) -> (Out=t)\n elementwise_mul(X=h, Y=t) -> (Out=h)"


def body(graph: ga.Graph) -> list[str]:
    (loop,) = (op for op in graph.ops if op.type == "while")
    return types(loop.graphs["sub_block"])


@pytest.mark.parametrize("n", [0, 1, 3])
def test_what_is_alike_moves_and_values_stay(n: int) -> None:
    program = counted(TANH_W, inside="var t: float64[2]")
    graph = rewritten(program, HOIST)
    assert types(graph) == ["fill_constant", "less_than", "tanh", "while", "mean"]
    assert body(graph) == ["elementwise_mul", "increment", "less_than"]
    assert same(program, graph, ["h", "loss"], n=np.array([n]))
    assert graph.why("t").splitlines()[2].strip() == "made by hoist-invariants, rule hoist"


def test_what_says_that_it_cannot_fail_moves() -> None:
    """Maxima without nan, and an operator of another package."""
    with operators():
        operator("X -> Out", name="halved", infer=same_float, grad=None, **FUNCTION)(lambda X: X / 2.0)
        inside = "elementwise_fmax(X=w, Y=w) -> (Out=s)\n halved(X=s) -> (Out=t)\n elementwise_mul(X=h, Y=t) -> (Out=h)"
        graph = rewritten(counted(inside, inside="var s: float64[2]\n var t: float64[2]"), HOIST)
        assert types(graph)[2:] == ["elementwise_fmax", "halved", "while", "mean"]


def test_a_chain_moves_and_only_its_end_is_captured() -> None:
    program = counted(
        "tanh(X=w) -> (Out=a)\n square(X=a) -> (Out=b)\n elementwise_mul(X=h, Y=b) -> (Out=h)",
        inside="var a: float64[2]\n var b: float64[2]",
    )
    graph = rewritten(program, HOIST)
    (loop,) = ops_of(graph, "while")
    assert [value.name for value in loop.inputs["X"]] == ["h", "i", "more", "w", "n", "b"]
    assert same(program, graph, ["h"], n=np.array([4]))


def test_a_constant_goes_with_what_reads_it_and_stays_for_the_others() -> None:
    text = """fill_constant() -> (Out=two) {shape=[2], value=2.0, dtype="float64"}
    elementwise_mul(X=w, Y=two) -> (Out=t)
    elementwise_mul(X=h, Y=t) -> (Out=h)
    elementwise_add(X=h, Y=two) -> (Out=h)"""
    program = counted(text, inside="var t: float64[2]\n var two: float64[2]")
    graph = rewritten(program, HOIST)
    assert types(graph).count("fill_constant") == 2
    assert body(graph)[0] == "fill_constant"
    assert same(program, graph, ["h"], n=np.array([2]))


@pytest.mark.parametrize(
    "text",
    [
        "gather(X=w, Index=at) -> (Out=t)",
        "uniform_random() -> (Out=t) {shape=[2], min=0.0, max=1.0, seed=3, dtype='float64'}".replace("'", '"'),
        "elementwise_add(X=p, Y=q) -> (Out=t)",
        "elementwise_pow(X=k, Y=k) -> (Out=s)\n cast(X=s) -> (Out=t) {out_dtype='float64'}".replace("'", '"'),
    ],
    ids=["index", "random", "extents", "integer power"],
)
def test_what_may_fail_or_is_random_stays(text: str) -> None:
    declared = "var at: int64[1]\n var p: float64[-1]\n var q: float64[-1]\n var k: int64[2]"
    program = counted(
        text + "\n elementwise_mul(X=h, Y=t) -> (Out=h)",
        declared=declared,
        around="h, w, at, p, q, k",
        inside="var t: float64[2]\n var s: int64[2]",
    )
    before = ga.lower(program)
    graph = rewritten(program, HOIST)
    assert str(graph) == str(before)


def test_unknown_extents_of_one_value_fit_themselves() -> None:
    program = counted(
        "elementwise_mul(X=p, Y=p) -> (Out=t)\n elementwise_mul(X=h, Y=t) -> (Out=h)",
        declared="var p: float64[-1]",
        inside="var t: float64[-1]",
        around="h, w, p",
    )
    assert "elementwise_mul" in types(rewritten(program, HOIST))


def test_what_may_have_no_value_is_not_read_early() -> None:
    """The branch may not be taken; then the loop must not run, and does not."""
    program = ga.Program.parse("""program {
  block 0 {
    var x: float64[2]
    var h: float64[2]
    var c: bool[1] stop_gradient
    var t: float64[2]
    conditional_block(Cond=c, Input=x) -> (Out=t) {sub_block=block(1)}
    while(X=[h, t], Condition=c) -> (Out=[h, c]) {sub_block=block(2)}
  }
  block 1 in 0 {
    tanh(X=x) -> (Out=t)
  }
  block 2 in 0 {
    var s: float64[2]
    square(X=t) -> (Out=s)
    elementwise_mul(X=h, Y=s) -> (Out=h)
    logical_not(X=c) -> (Out=c)
  }
}""")
    graph = rewritten(program, HOIST)
    assert "square" not in types(graph)
    assert same(program, graph, ["h"], x=np.array([1.0, 2.0]), c=np.array([False]))


def test_out_of_two_loops_at_once_and_a_carried_value_that_does_not_change() -> None:
    program = ga.Program.parse("""program {
  block 0 {
    var h: float64[2]
    var u: float64[2]
    var n: int64[1] stop_gradient
    var i: int64[1] stop_gradient
    var more: bool[1] stop_gradient
    square(X=u) -> (Out=h)
    fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
    less_than(X=i, Y=n) -> (Out=more)
    while(X=[h, u, n, i], Condition=more) -> (Out=[h, u, i, more]) {sub_block=block(1)}
  }
  block 1 in 0 {
    var j: int64[1] stop_gradient
    var again: bool[1] stop_gradient
    fill_constant() -> (Out=j) {shape=[1], value=0.0, dtype="int64"}
    less_than(X=j, Y=i) -> (Out=again)
    while(X=[h, u, i, j], Condition=again) -> (Out=[h, j, again]) {sub_block=block(2)}
    increment(X=i) -> (Out=i)
    less_than(X=i, Y=n) -> (Out=more)
  }
  block 2 in 1 {
    var t: float64[2]
    tanh(X=u) -> (Out=t)
    elementwise_mul(X=h, Y=t) -> (Out=h)
    increment(X=j) -> (Out=j)
    less_than(X=j, Y=i) -> (Out=again)
  }
}""")
    graph = rewritten(program, HOIST)
    assert "tanh" in types(graph)
    assert same(program, graph, ["h"], u=np.array([0.3, 2.0]), n=np.array([4]))


def test_a_gradient_reads_what_moved_and_its_own_invariants_move() -> None:
    program = counted(TANH_W, inside="var t: float64[2]")
    (name,) = with_gradients(["w"], program)
    graph = rewritten(program, HOIST, ["loss", name])
    assert body(graph).count("tanh") == 0
    assert same(program, graph, ["loss", name], n=np.array([3]))
    assert same(program, graph, ["loss", name], n=np.array([0]))


def test_gradients_appended_after_it() -> None:
    program, other = (counted(TANH_W, inside="var t: float64[2]") for _ in range(2))
    moved = ga.schedule(rewritten(other, HOIST))
    (one,), (two,) = with_gradients(["w"], program), with_gradients(["w"], moved)
    np.testing.assert_allclose(values(moved, [two], n=np.array([3])), values(program, [one], n=np.array([3])), rtol=1e-12)


def test_a_limit_on_rewrites() -> None:
    program = counted(
        "tanh(X=w) -> (Out=a)\n sin(X=w) -> (Out=b)\n sum(X=[h, a, b]) -> (Out=h)", inside="var a: float64[2]\n var b: float64[2]"
    )
    graph = ga.lower(program)
    graph.journal.limit = 1
    assert HoistInvariants().run(graph)
    assert "tanh" in types(graph)
    assert "sin" not in types(graph)
    assert same(program, graph, ["h"], n=np.array([2]))


def test_random_programs() -> None:
    assert check_pass(HoistInvariants(), examples=60).changed


def test_random_programs_with_gradients() -> None:
    assert check_pass(HoistInvariants(), examples=12, programs=differentiated_program, seed=2).changed


def branching(again: bool = False) -> tuple[ga.Program, ga.Variable]:
    """A loop with a branch, or a branch in a branch, whose operators read what no iteration changes."""
    layers, program = ga.layers, ga.Program()
    with ga.program_guard(program, ga.Program()):
        x, w = (layers.data(name, [4], "float64", append_batch_size=False) for name in "xw")
        x.stop_gradient = w.stop_gradient = False
        n, c = layers.data("n", [1], "int64", append_batch_size=False), layers.data("c", [1], "bool", append_batch_size=False)

        def taken(h: ga.Variable) -> ga.Variable:
            one = layers.tanh(layers.sigmoid(w)) * h
            return layers.cond(c, lambda: one + layers.exp(w), lambda: one) if again else one

        def body(i: ga.Variable, h: ga.Variable) -> list[ga.Variable]:
            return [i + 1, layers.cond(c, lambda: taken(h), lambda: h + layers.sin(h) * layers.cos(w))]

        _, h = layers.while_loop(lambda i, h: layers.less_than(i, n), body, [layers.zeros([1], "int64"), x])
        loss = layers.reduce_sum(h)
    return program, loss


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("n", [0, 2])
@pytest.mark.parametrize("c", [False, True])
def test_out_of_branches_in_loops(again: bool, n: int, c: bool) -> None:
    program, loss = branching(again)
    with ga.program_guard(program, ga.Program()):
        gradients = [each.name for each in ga.gradients(loss, [program.global_block().var(name) for name in "xw"]) if each is not None]
    feed = {"x": np.linspace(-1, 1, 4), "w": np.linspace(0, 1, 4), "n": np.array([n]), "c": np.array([c])}
    graph = ga.lower(program, [loss.name, *gradients])
    ga.Pipeline.parse(HOIST).run(graph)
    moved = ["sigmoid", "tanh", "cos", *(["exp"] if again else [])]
    assert set(moved) <= set(types(graph))
    (loop,) = (op for op in graph.ops if op.type == "while")
    assert not set(moved) & {op.type for inner in loop.graphs["sub_block"].tree() for op in inner.ops}
    wanted = ga.Executor().run(program, feed, [loss.name, *gradients])
    for one, other in zip(ga.Executor().run(ga.schedule(graph), feed, [loss.name, *gradients]), wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_branches_outside_of_loops_stay() -> None:
    layers, program = ga.layers, ga.Program()
    with ga.program_guard(program, ga.Program()):
        x, c = layers.data("x", [4], append_batch_size=False), layers.data("c", [1], "bool", append_batch_size=False)
        y = layers.cond(c, lambda: layers.tanh(x), lambda: layers.exp(x))
    graph = ga.lower(program, [y.name])
    assert not HoistInvariants().run(graph)


SQRT_W = "sqrt(X=w) -> (Out=t)\n elementwise_mul(X=h, Y=t) -> (Out=h)"


def test_an_infinite_slope_stays_in_a_loop_that_may_not_run_until_its_gradient_is_there() -> None:
    """The gradient of a loop without iterations is 0; in front of the loop it would be 0 * inf."""
    program = counted(SQRT_W, inside="var t: float64[2]")
    assert body(rewritten(program, HOIST))[0] == "sqrt"
    clone = program.clone()
    with_gradients(["h"], clone)
    assert "sqrt" in types(rewritten(clone, HOIST))


def test_an_infinite_slope_leaves_a_loop_that_runs() -> None:
    two = 'fill_constant() -> (Out=two) {shape=[1], value=2.0, dtype="int64"}'
    counting = str(counted(SQRT_W, n="two", inside="var t: float64[2]"))
    program = counting.replace("var n: int64[1] stop_gradient", "var two: int64[1] stop_gradient").replace(
        "less_than", f"{two}\n less_than", 1
    )
    assert "sqrt" in types(rewritten(ga.Program.parse(program), HOIST))
