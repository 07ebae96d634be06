"""Loops that run a known number of times are written out."""

from __future__ import annotations

import numpy as np
import pytest

import graphad as ga
from graphad.errors import InvalidValue
from graphad.passes.analyses.known_values import KnownValues
from graphad.passes.control_flow import UnrollWhile
from graphad.testing import Case, check_case, check_pass
from tests.graphs import types
from tests.passes.control_flow.programs import counted, differentiated_program, ops_of, rewritten, same, values, with_gradients

BODY = "elementwise_mul(X=h, Y=w) -> (Out=h)\n tanh(X=h) -> (Out=h)"
LIMIT = 'fill_constant() -> (Out=n) {shape=[1], value=%s, dtype="int64"}'


def known(count: int, body: str = BODY, inside: str = "") -> ga.Program:
    return counted(body, declared=LIMIT % f"{float(count)}", inside=inside)


@pytest.mark.parametrize("count", [0, 1, 2, 16])
def test_as_many_iterations_as_it_runs(count: int) -> None:
    program = known(count)
    graph = rewritten(program, "unroll-while", ["h", "i", "more", "loss"])
    assert not graph.controls
    assert types(graph).count("elementwise_mul") == count
    assert same(program, graph, ["h", "i", "more", "loss"])
    assert graph.value("h").name == "h"


@pytest.mark.parametrize(("count", "limit"), [(17, 16), (3, 2), (1, 0)])
def test_a_loop_that_runs_longer_stays(count: int, limit: int) -> None:
    program = known(count)
    graph = ga.lower(program)
    before = str(graph)
    assert not UnrollWhile(limit=limit).run(graph)
    assert str(graph) == before


def test_a_loop_that_becomes_too_much_stays() -> None:
    graph = ga.lower(known(8))
    assert not UnrollWhile(max_ops=31).run(graph)
    assert UnrollWhile(max_ops=32).run(graph)


def test_a_loop_of_which_nothing_is_known_stays() -> None:
    assert ops_of(rewritten(counted(BODY), "unroll-while"), "while")


@pytest.mark.parametrize(
    ("step", "test", "count"),
    [
        ("increment(X=i) -> (Out=i) {step=2.0}", "less_than(X=i, Y=n) -> (Out=more)", 3),
        ("increment(X=i) -> (Out=i) {step=3.0}", "less_equal(X=i, Y=n) -> (Out=more)", 2),
        ("increment(X=i) -> (Out=i) {step=5.0}", "not_equal(X=i, Y=n) -> (Out=more)", 1),
        ("elementwise_add(X=i, Y=n) -> (Out=i)", "not_equal(X=i, Y=n) -> (Out=more)", 1),
        ("increment(X=i) -> (Out=i)\n elementwise_add(X=i, Y=i) -> (Out=i)", "greater_than(X=n, Y=i) -> (Out=more)", 2),
    ],
)
def test_any_counter(step: str, test: str, count: int) -> None:
    text = str(known(5)).replace("increment(X=i) -> (Out=i)", step)
    head, _, body = text.partition("block 1 in 0")
    program = ga.Program.parse(head + "block 1 in 0" + body.replace("less_than(X=i, Y=n) -> (Out=more)", test))
    graph = rewritten(program, "unroll-while")
    assert not graph.controls
    assert types(graph).count("tanh") == count
    assert same(program, graph, ["h", "i"])


def test_a_loop_whose_condition_something_else_decides() -> None:
    program = ga.Program.parse(str(known(2)).replace("less_than(X=i, Y=n) -> (Out=more)", "assign(X=q) -> (Out=more)", 1))
    assert "while" in str(rewritten(ga.Program.parse(str(program).replace("var h:", "var q: bool[1]\n    var h:", 1)), "unroll-while"))


NESTED = """program {
  block 0 {
    var h: float64[2]
    var w: float64[2]
    var n: int64[1]
    var i: int64[1]
    var more: bool[1]
    fill_constant() -> (Out=n) {shape=[1], value=4.0, dtype="int64"}
    fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
    less_than(X=i, Y=n) -> (Out=more)
    while(X=[h, w, n, i], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
  }
  block 1 in 0 {
    var j: int64[1]
    var again: bool[1]
    fill_constant() -> (Out=j) {shape=[1], value=0.0, dtype="int64"}
    less_than(X=j, Y=LIMIT) -> (Out=again)
    while(X=[h, w, LIMIT, j], Condition=again) -> (Out=[h, j, again]) {sub_block=block(2)}
    increment(X=i) -> (Out=i)
    less_than(X=i, Y=n) -> (Out=more)
  }
  block 2 in 1 {
    elementwise_mul(X=h, Y=w) -> (Out=h)
    increment(X=j) -> (Out=j)
    less_than(X=j, Y=LIMIT) -> (Out=again)
  }
}"""


@pytest.mark.parametrize(("limit", "count"), [("n", 16), ("i", 6)])
def test_a_loop_in_a_loop(limit: str, count: int) -> None:
    """The inner one runs as often as the outer one, or as its counter says, which is known once that is written out."""
    program = ga.Program.parse(NESTED.replace("LIMIT", limit))
    graph = rewritten(program, "unroll-while")
    assert not graph.controls
    assert types(graph).count("elementwise_mul") == count
    assert same(program, graph, ["h"], w=np.array([0.9, 1.1]))


@pytest.mark.parametrize(("count", "factor", "copies"), [(20, 5, 5), (20, 4, 4), (20, 3, 1), (40_000, 2, 2)])
def test_some_iterations_in_one(count: int, factor: int, copies: int) -> None:
    program = known(count)
    graph = rewritten(program, f"unroll-while{{factor={factor}}}")
    (loop,) = ops_of(graph, "while")
    assert types(loop.graphs["sub_block"]).count("tanh") == copies
    assert count > 100 or same(program, graph, ["h", "i", "more"])
    if copies > 1:
        assert KnownValues(graph).iterations(loop, count) == count // factor


def test_random_operators_draw_anew_in_each_iteration() -> None:
    draw = 'uniform_random() -> (Out=d) {shape=[2], min=0.0, max=1.0, dtype="float64"}\n elementwise_add(X=h, Y=d) -> (Out=h)'
    assert ops_of(rewritten(known(2, draw, "var d: float64[2]"), "unroll-while"), "while")


def test_a_loop_that_has_a_gradient_stays() -> None:
    program = known(2)
    (name,) = with_gradients(["w"], program)
    graph = rewritten(program, "unroll-while", ["loss", name])
    assert ops_of(graph, "while_grad")
    assert same(program, graph, ["loss", name])


def test_the_gradient_after_it_is_that_of_the_loop() -> None:
    program, other = known(5), known(5)
    unrolled = ga.schedule(rewritten(other, "unroll-while"))
    names, same_names = with_gradients(["h", "w"], program), with_gradients(["h", "w"], unrolled)
    for one, two in zip(values(program, names), values(unrolled, same_names), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-12)


def test_arrays_are_written_one_after_the_other() -> None:
    program = known(3, "write_to_array(X=h, I=i) -> (Out=a)\n tanh(X=h) -> (Out=h)")
    text = str(program).replace(
        "var loss:", "var a: float64[2] LOD_TENSOR_ARRAY\n    var last: float64[2]\n    var two: int64[1]\n    var loss:"
    )
    text = text.replace("fill_constant()", 'create_array() -> (Out=a) {dtype="float64"}\n    fill_constant()', 1).replace(
        "[h, w, n, i]", "[h, a, n, i]"
    )
    text = text.replace("-> (Out=[h, i, more])", "-> (Out=[h, a, i, more])")
    read = (
        'fill_constant() -> (Out=two) {shape=[1], value=2.0, dtype="int64"}\n    read_from_array(X=a, I=two) -> (Out=last)\n    mean(X=h)'
    )
    program = ga.Program.parse(text.replace("mean(X=h)", read))
    graph = rewritten(program, "unroll-while")
    assert not graph.controls
    assert same(program, graph, ["last", "h"])


def test_options_are_checked() -> None:
    for options in ("limit=-1", "factor=0"):
        with pytest.raises(InvalidValue, match="factor 1 or more"):
            ga.Pipeline.parse(f"unroll-while{{{options}}}")


def test_random_programs() -> None:
    assert check_pass(UnrollWhile(), examples=60).changed


def test_random_programs_some_iterations_in_one() -> None:
    assert check_pass(UnrollWhile(limit=0, factor=2), examples=60).changed


def test_random_programs_with_gradients() -> None:
    check_pass(UnrollWhile(), examples=40, programs=differentiated_program, seed=2)


def test_what_a_tape_gives_needs_no_type() -> None:
    text = """program {
      block 0 {
        var i: int64[1]
        var n: int64[1]
        var more: bool[1]
        var scopes: ?[?] STEP_SCOPES
        var tape: float32[] STEP_SCOPES
        fill_constant() -> (Out=i) {shape=[1], dtype="int64"}
        fill_constant() -> (Out=n) {shape=[1], dtype="int64", value=2.0}
        less_than(X=i, Y=n) -> (Out=more)
        while(Condition=more, X=[tape, i, n]) -> (StepScopes=scopes, Out=[i, more]) {sub_block=block(1)}
      }
      block 1 in 0 {
        var rest: float32[] STEP_SCOPES
        var top: ?[?]
        pop_tape(Scopes=tape) -> (Out=rest, X=top) {count=1}
        increment(X=i) -> (Out=i)
        less_than(X=i, Y=n) -> (Out=more)
      }
    }"""
    graph = ga.lower(ga.Program.parse(text))
    assert UnrollWhile().run(graph)
    assert [op.type for op in graph.ops].count("pop_tape") == 2


def test_an_array_of_tensors_that_an_iteration_makes_has_no_shape() -> None:
    text = """program { block 0 {
        var i: int64[1] var n: int64[1] var c: bool[1] var s: ?[?] STEP_SCOPES
        fill_constant() -> (Out=i) {shape=[1], dtype="int64"} fill_constant() -> (Out=n) {shape=[1], dtype="int64", value=2.0}
        less_than(X=i, Y=n) -> (Out=c)
        while(Condition=c, X=[i, n]) -> (StepScopes=s, Out=[i, c]) {sub_block=block(1)}
    } block 1 in 0 {
        var made: ?[?] LOD_TENSOR_ARRAY
        create_array() -> (Out=made) increment(X=i) -> (Out=i) less_than(X=i, Y=n) -> (Out=c)
    } }"""
    check_case("unroll-while", Case(ga.Program.parse(text), requested=("i",)))
