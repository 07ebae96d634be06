"""The pass that applies the rules; the rules themselves are tested in test_rules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.passes.cleanup import Simplify
from graphad.testing import check_pass
from graphad.testing.optimizable import optimizable_program
from graphad.testing.training import training_program
from tests.passes.cleanup.programs import graph_of, loop_graph, operators, types

ABC = "x y a b c d: float32[2, 3]"
CLEANUP = "fixpoint(canonical-order, simplify, constant-folding, cse, dead-code)"


@pytest.mark.parametrize(
    ("statements", "left"),
    [
        ("scale(X=x) -> (Out=a)\ntanh(X=a) -> (Out=b)", ["tanh(X=x) -> (Out=b)"]),
        ("relu(X=x) -> (Out=a)\nrelu(X=a) -> (Out=b)", ["relu(X=x) -> (Out=b)"]),
        ("reshape2(X=x) -> (Out=a) {shape=[2, 3]}\nabs(X=a) -> (Out=b)", ["abs(X=x) -> (Out=b)"]),
        ("elementwise_max(X=x, Y=x) -> (Out=a)\nabs(X=a) -> (Out=b)", ["abs(X=x) -> (Out=b)"]),
        ("scale(X=x) -> (Out=a) {scale=-1.0}\nelementwise_sub(X=y, Y=a) -> (Out=b)", ["elementwise_add(X=y, Y=x) -> (Out=b)"]),
        ("elementwise_mul(X=x, Y=x) -> (Out=b)", ["square(X=x) -> (Out=b)"]),
        ("sum(X=[x, y]) -> (Out=a)\nsum(X=[a, x]) -> (Out=b)", ["sum(X=[x, y, x]) -> (Out=b)"]),
        ("sum(X=[x, y]) -> (Out=a)\nsum(X=[x, a]) -> (Out=b)", None),
        ("elementwise_sub(X=x, Y=x) -> (Out=b)", None),
    ],
)
def test_exact_rules(statements: str, left: list[str] | None) -> None:
    graph = graph_of(statements, ABC, ["b"])
    assert Simplify().run(graph) is (left is not None)
    if left is not None:
        assert operators(graph) == left
    assert not Simplify().run(graph)


def test_fast_rules() -> None:
    graph = graph_of("exp(X=x) -> (Out=a)\nlog(X=a) -> (Out=b)\ntanh(X=b) -> (Out=c)", ABC)
    assert not Simplify().run(graph)
    assert Simplify(fast=True).run(graph)
    assert operators(graph) == ["tanh(X=x) -> (Out=c)"]


def test_fast_allows_rounding() -> None:
    assert Simplify().tolerance == 0.0 < Simplify(fast=True).tolerance
    assert str(ga.Pipeline.parse("simplify{fast=true}")) == "simplify{fast=true}"


def test_what_is_requested_keeps_its_name() -> None:
    graph = graph_of("assign(X=x) -> (Out=a)\nrelu(X=a) -> (Out=b)\nrelu(X=b) -> (Out=c)", ABC, ["a", "b", "c"])
    Simplify().run(graph)
    assert {value.name for value in graph.targets} == {"a", "b", "c"}
    assert types(graph) == ["assign", "relu", "assign"]


def test_a_stopped_gradient_stays_stopped() -> None:
    text = """program { block 0 {
      param w: float64[2]  var a: float64[2] stop_gradient  var y: float64[2]
      assign(X=w) -> (Out=a) elementwise_mul(X=a, Y=w) -> (Out=y)
    } }"""
    assert not Simplify().run(ga.lower(ga.Program.parse(text)))


def test_a_value_where_gradients_stop_does_not_get_the_name_of_one_where_they_flow() -> None:
    text = """program { block 0 {
      var x: float64[2]  var a: float64[2] stop_gradient  var y: float64[2]  var z: float64[2]
      sin(X=x) -> (Out=a) elementwise_mul(X=a, Y=x) -> (Out=z) relu(X=z) -> (Out=z) assign(X=a) -> (Out=y)
    } }"""
    graph = ga.lower(ga.Program.parse(text))
    Simplify().run(graph)
    assert graph.value("a").stop_gradient


@pytest.mark.parametrize(
    ("attrs", "left"),
    [
        ('is_test=true, dropout_implementation="upscale_in_train"', ["tanh(X=x) -> (Out=b)"]),
        ("is_test=true, dropout_prob=0.25", ["scale", "tanh"]),
        ("dropout_prob=0.0", ["tanh(X=x) -> (Out=b)"]),
        ("dropout_prob=0.5", None),
    ],
)
def test_dropout_that_drops_nothing(attrs: str, left: list[str] | None) -> None:
    statements = f"dropout(X=x) -> (Out=a, Mask=m) {{{attrs}}}\ntanh(X=a) -> (Out=b)"
    graph = graph_of(statements, "x a b: float32[3]; m: uint8[3]", ["b"])
    assert Simplify().run(graph) is (left is not None)
    assert left is None or left in (operators(graph), types(graph))


def test_slices_of_what_is_not_known_stay() -> None:
    graph = graph_of("slice(Input=x) -> (Out=b) {axes=[0], starts=[0], ends=[9]}", "x b: float32[-1, 3]")
    assert not Simplify().run(graph)
    known = graph_of("slice(Input=x) -> (Out=a) {axes=[0], starts=[0], ends=[9]}\ntanh(X=a) -> (Out=b)", "x a b: float32[2, 3]")
    assert Simplify().run(known)


def test_nested_graphs_are_simplified() -> None:
    graph, inner = loop_graph("assign(X=h) -> (Out=t)\ntanh(X=t) -> (Out=h)")
    assert Simplify().run(graph)
    assert [op.type for op in inner.ops][:1] == ["tanh"]


def test_the_pipeline() -> None:
    text = """fill_constant() -> (Out=a) {shape=[2, 3], value=1.0}
        elementwise_mul(X=a, Y=x) -> (Out=b)
        elementwise_add(X=x, Y=y) -> (Out=c)
        elementwise_add(X=y, Y=b) -> (Out=d)
        elementwise_sub(X=c, Y=d) -> (Out=e)"""
    graph = graph_of(text, "x y a b c d e: float32[2, 3]")
    assert ga.Pipeline.parse(CLEANUP).run(graph)
    assert operators(graph) == ["elementwise_add(X=x, Y=y) -> (Out=c)", "elementwise_sub(X=c, Y=c) -> (Out=e)"]
    assert not ga.Pipeline.parse(CLEANUP).run(graph)
    assert ga.Pipeline.parse(CLEANUP.replace("simplify", "simplify{fast=true}")).run(graph)
    assert types(graph) == ["fill_constant"]


def test_simplify_on_random_programs() -> None:
    assert check_pass("simplify", examples=60).changed > 20


def test_fast_on_random_programs() -> None:
    assert check_pass("simplify{fast=true}", examples=25, programs=partial(optimizable_program, specials=False)).changed > 12


def test_the_pipeline_on_random_programs() -> None:
    assert check_pass(CLEANUP, examples=25).changed > 12
    assert check_pass(CLEANUP, examples=20, programs=training_program).changed > 2


def test_an_increment_by_zero_of_one_output_onto_another() -> None:
    text = """program { block 0 {
      var x: float64[1, 1]  param a: float64[1]  param b: float64[1]  param m: float64[1] fixed  param v: float64[1] fixed
      var y: float64[1, 1]  var t: float64[1]
      batch_norm(X=x, Scale=a, Bias=b, Mean=m, Variance=v) -> (Y=y, MeanOut=m, VarianceOut=v, SavedMean=t, SavedVariance=a)
      increment(X=t) -> (Out=a) {step=0.0}
    } }"""
    graph = ga.lower(ga.Program.parse(text))
    Simplify().run(graph)
    scope = ga.Scope()
    for name in "abmv":
        scope.set(name, np.array([0.5]))
    ga.Executor().run(ga.schedule(graph), {"x": [[2.0]]}, [], scope=scope)
    np.testing.assert_array_equal(scope.get("a"), [2.0])


def overwritten_in_branch(x: ga.Variable) -> Any:
    def taken() -> Any:
        a = ga.layers.tanh(x)
        ga.layers.assign(ga.layers.exp(x), a)
        return ga.layers.sin(a)

    return ga.layers.cond(ga.layers.reduce_sum(x) > 0.0, taken, lambda: x)


def overwritten_in_loop(x: ga.Variable) -> Any:
    def body(i: ga.Variable, z: ga.Variable) -> list[Any]:
        a = ga.layers.tanh(z)
        ga.layers.assign(ga.layers.exp(a), a)
        return [i + 1, ga.layers.sin(a)]

    return ga.layers.while_loop(lambda i, z: i < 2, body, [0, x])[1]


@pytest.mark.parametrize("build", [overwritten_in_branch, overwritten_in_loop])
@pytest.mark.parametrize("pipeline", ["simplify", "simplify, dead-code", CLEANUP])
def test_a_local_that_is_overwritten_in_a_block_with_a_gradient(build: Callable[[ga.Variable], Any], pipeline: str) -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [2], "float64", append_batch_size=False, stop_gradient=False)
        (dx,) = ga.gradients(ga.layers.reduce_sum(build(x)), x)
    assert dx is not None
    graph = ga.lower(program, [dx.name])
    ga.Pipeline.parse(pipeline).run(graph)
    feed = {"x": np.array([0.25, 0.75])}
    (expected,) = ga.Executor().run(program, feed, [dx])
    (got,) = ga.Executor().run(ga.schedule(graph), feed, [dx.name])
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "text",
    [
        "var x: float64[2, 2] var a: float64[2, 2] var b: float64[0, 2] split(X=x) -> (Out=[a, b]) {sections=[2, 0]}",
        "var x: float64[2, 2] var a: float64[2, 2] var s: float64[0, 2, 2] reshape2(X=x) -> (Out=a, XShape=s) {shape=[2, 2]}",
    ],
    ids=["split", "reshape2"],
)
def test_a_result_that_is_unused_is_left_alone(text: str) -> None:
    program = ga.Program.parse(f"program {{ block 0 {{ {text} }} }}")
    other = program.global_block().ops[0].output_names()[-1]
    graph = ga.lower(program, [other])
    Simplify().run(graph)
    assert [value.name for value in graph.targets] == [other]
