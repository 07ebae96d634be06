"""Operators that cse merges, and those that it must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.ir.regions import operands
from graphad.passes.cleanup import Cse
from graphad.passes.cleanup.operator_keys import frozen
from graphad.testing import Case, check_case, check_pass
from tests.passes.cleanup.programs import graph_of, loop_graph, operators, types

ABC = "x y z a b c d e: float32[3]"


def test_equal_operators_are_one() -> None:
    graph = graph_of("tanh(X=x) -> (Out=a)\ntanh(X=x) -> (Out=b)\nelementwise_sub(X=a, Y=b) -> (Out=c)", ABC)
    assert Cse().run(graph)
    assert operators(graph) == ["tanh(X=x) -> (Out=a)", "elementwise_sub(X=a, Y=a) -> (Out=c)"]
    assert not Cse().run(graph)


def test_what_becomes_equal_is_merged_too() -> None:
    text = "tanh(X=x) -> (Out=a)\ntanh(X=x) -> (Out=b)\nsin(X=a) -> (Out=c)\nsin(X=b) -> (Out=d)\nelementwise_sub(X=c, Y=d) -> (Out=e)"
    graph = graph_of(text, ABC)
    Cse().run(graph)
    assert types(graph) == ["tanh", "sin", "elementwise_sub"]


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ("elementwise_add(X=x, Y=y)", "elementwise_add(X=y, Y=x)", True),
        ("elementwise_sub(X=x, Y=y)", "elementwise_sub(X=y, Y=x)", False),
        ("elementwise_max(X=x, Y=y)", "elementwise_max(X=y, Y=x)", False),
        ("scale(X=x) {scale=2.0}", "scale(X=x) {scale=2.0, bias=0.0}", True),
        ("scale(X=x) {scale=2.0}", "scale(X=x) {scale=3.0}", False),
        ("scale(X=x) {bias=0.0}", "scale(X=x) {bias=-0.0}", False),
        ("scale(X=x) {bias=nan}", "scale(X=x) {bias=nan}", True),
        ("uniform_random() {shape=[3]}", "uniform_random() {shape=[3]}", False),
        ("fill_constant() {shape=[3], value=1.0}", "fill_constant() {shape=[3], value=1.0}", True),
        ('fill_constant() {shape=[3], dtype="float32"}', "fill_constant() {shape=[3]}", True),
        ("reshape(X=x) {shape=[3]}", "reshape(X=x) {shape=[-1]}", False),
        ("sum(X=[x, y])", "sum(X=[y, x])", False),
    ],
)
def test_what_is_equal(first: str, second: str, merged: bool) -> None:
    statements = [_writing(first, "a"), _writing(second, "b"), "elementwise_sub(X=a, Y=b) -> (Out=c)"]
    graph = graph_of("\n".join(statements), ABC)
    assert Cse().run(graph) is merged


def _writing(statement: str, name: str) -> str:
    call, _, attrs = statement.partition(" ")
    call, attrs = (statement, "") if not attrs.startswith("{") else (call, attrs)
    return f"{call} -> (Out={name}) {attrs}".rstrip()


def test_a_name_written_again_is_another_value() -> None:
    graph = graph_of("tanh(X=x) -> (Out=a)\nsin(X=x) -> (Out=x)\ntanh(X=x) -> (Out=b)\nelementwise_sub(X=a, Y=b) -> (Out=c)", ABC)
    assert not Cse().run(graph)


def test_both_names_stay_if_both_are_requested() -> None:
    graph = graph_of("tanh(X=x) -> (Out=a)\ntanh(X=x) -> (Out=b)\ntanh(X=x) -> (Out=c)", ABC)
    assert Cse().run(graph)
    assert operators(graph)[0] == "tanh(X=x) -> (Out=a)"
    assert sorted(operators(graph)[1:]) == ["assign(X=a) -> (Out=b)", "assign(X=a) -> (Out=c)"]
    assert not Cse().run(graph)


def test_where_gradients_stop_differs() -> None:
    text = """program { block 0 {
      var x: float32[3]  var a: float32[3]  var b: float32[3] stop_gradient  var c: float32[3]
      tanh(X=x) -> (Out=a) tanh(X=x) -> (Out=b) elementwise_sub(X=a, Y=b) -> (Out=c)
    } }"""
    assert not Cse().run(ga.lower(ga.Program.parse(text)))


def test_where_gradients_are_clipped_differs() -> None:
    """Else a copy that clips takes the place of the second constant, is folded into one, and merged again, without end."""
    text = """program { block 0 {
      var a: float32[1]  var b: float32[1] error_clip=[-0.5, 0.5]  var c: float32[1]
      fill_constant() -> (Out=a) {shape=[1]} fill_constant() -> (Out=b) {shape=[1]} elementwise_sub(X=a, Y=b) -> (Out=c)
    } }"""
    assert not Cse().run(ga.lower(ga.Program.parse(text)))


def test_attributes_are_compared_with_their_types() -> None:
    values = [1, 1.0, True, "1", 0.0, -0.0, [1], [1.0], [], None]
    assert len({frozen(value) for value in values}) == len(values)
    assert frozen([float("nan")]) == frozen([float("nan")])


# -- nested graphs -------------------------------------------------------------------------------


def test_a_value_from_before_a_loop_is_captured() -> None:
    graph, inner = loop_graph("tanh(X=x) -> (Out=t)\nelementwise_mul(X=h, Y=t) -> (Out=h)", "tanh(X=x) -> (Out=k)\n")
    assert Cse().run(graph)
    (loop,) = graph.controls
    assert "tanh" not in {op.type for op in inner.ops}
    assert len(operands(loop)) == len(inner.inputs)
    assert not Cse().run(graph)


def test_what_depends_on_the_iteration_stays() -> None:
    graph, inner = loop_graph("tanh(X=h) -> (Out=h)", "tanh(X=h) -> (Out=k)\n")
    assert not Cse().run(graph)
    assert "tanh" in {op.type for op in inner.ops}


def test_a_cheap_operator_is_not_captured() -> None:
    graph, _ = loop_graph(
        "reshape(X=x) -> (Out=t) {shape=[3]}\nelementwise_mul(X=h, Y=t) -> (Out=h)", "reshape(X=x) -> (Out=k) {shape=[3]}\n"
    )
    assert "reshape" in types(graph)
    Cse().run(graph)
    (loop,) = graph.controls
    assert "reshape" in {op.type for inner in loop.graphs.values() for op in inner.ops}


def test_branches_do_not_share() -> None:
    more = "".join(f"  block {i} in 0 {{\n    tanh(X=x) -> (Out=a)\n  }}\n" for i in (1, 2))
    text = "if_else(Cond=c, X=x) -> (Out=a, Scope=s) {true_block=block(1), false_block=block(2)}"
    assert not Cse().run(graph_of(text, "x a: float32[3]; c: bool[1]; s: ?[?] STEP_SCOPES", None, more))


# -- as a whole ----------------------------------------------------------------------------------


def test_the_table_is_kept_and_checked() -> None:
    graph = graph_of("tanh(X=x) -> (Out=a)\nsin(X=x) -> (Out=b)\nelementwise_sub(X=a, Y=b) -> (Out=c)", ABC)
    assert not Cse().run(graph)
    first, second, _ = graph.ops
    new = graph.add_value("n", (3,), "float32")
    graph.add_op("tanh", {"X": [graph.value("x")]}, {"Out": [new]}, before=first)
    graph.substitute(second.output("Out"), new)
    assert Cse().run(graph)
    assert operators(graph)[0] == "tanh(X=x) -> (Out=n)"
    assert types(graph).count("tanh") == 1


def test_on_random_programs() -> None:
    assert check_pass("cse", examples=120).changed > 16  # one in five; constants of losses, which are alike, are data


def looping(second: str = "tanh", start: str = "x") -> ga.Graph:
    """Two loops over ``x``: of ``tanh``, and of another operator from another start; the difference of their results."""
    layers, program = ga.layers, ga.Program()
    with ga.program_guard(program, ga.Program()):
        x, y = (layers.data(name, [4], append_batch_size=False) for name in "xy")
        n = layers.data("n", [1], "int64", append_batch_size=False)

        def loop(function: Any, first: Any) -> Any:
            start = [layers.zeros([1], "int64"), first]
            return layers.while_loop(lambda i, h: layers.less_than(i, n), lambda i, h: [i + 1, function(h) * y], start)[1]

        result = loop(layers.tanh, x) - loop(getattr(layers, second), x if start == "x" else y)
    return ga.lower(program, [result.name])


@pytest.mark.parametrize(("options", "loops"), [({}, 1), ({"second": "sigmoid"}, 2), ({"start": "y"}, 2)])
def test_equal_loops_are_one(options: dict[str, str], loops: int) -> None:
    graph = looping(**options)
    assert Cse().run(graph) is True
    assert types(graph).count("while") == loops
    assert not Cse().run(graph)


@pytest.mark.parametrize(("other", "count"), [(lambda x: ga.layers.exp(x), 1), (lambda x: ga.layers.uniform_random([4]), 2)])
def test_equal_branches_are_one_and_random_ones_are_not(other: Any, count: int) -> None:
    layers, program = ga.layers, ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = layers.data("x", [4], append_batch_size=False)
        test = layers.data("test", [1], "bool", append_batch_size=False)
        one, two = (layers.cond(test, lambda: layers.tanh(x), lambda: other(x)) for _ in range(2))
        y = one + two
    graph = ga.lower(program, [y.name])
    Cse().run(graph)
    assert types(graph).count("if_else") == count


def test_loops_that_become_equal_are_one() -> None:
    """An operator in one of them is merged first."""
    layers, program = ga.layers, ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = layers.data("x", [4], append_batch_size=False)
        test = layers.data("test", [1], "bool", append_batch_size=False)
        once = layers.cond(test, lambda: (lambda t: t * t)(layers.tanh(x)), lambda: x)
        twice = layers.cond(test, lambda: layers.tanh(x) * layers.tanh(x), lambda: x)
        result = once - twice
    graph = ga.lower(program, [result.name])
    assert Cse().run(graph)
    assert types(graph).count("if_else") == 1


def test_loops_whose_residuals_a_gradient_reads_stay() -> None:
    layers, program = ga.layers, ga.Program()
    with ga.program_guard(program, ga.Program()):
        x = layers.data("x", [4], append_batch_size=False)
        x.stop_gradient = False
        test = layers.data("test", [1], "bool", append_batch_size=False)
        result = layers.cond(test, lambda: layers.tanh(x), lambda: x) * layers.cond(test, lambda: layers.tanh(x), lambda: x)
        gradients = ga.gradients(layers.reduce_sum(result), x)
    graph = ga.lower(program, [each.name for each in gradients if each is not None])
    Cse().run(graph)
    assert types(graph).count("if_else") == 2


def test_what_has_no_finite_slope_is_not_read_from_around_a_block_that_may_not_run() -> None:
    """The gradient of ``acos`` at -1 is infinite: where the loop does not run, 0 times it is nan, and x0 had a gradient of 0."""
    text = """program {
      block 0 {
        var x: float64[1] var y: float64[1] var o: float64[1] var runs: bool[1] var scopes: ?[?] STEP_SCOPES var loss: float64[]
        acos(X=x) -> (Out=y)
        while(Condition=runs, X=x) -> (StepScopes=scopes, Out=[o, runs]) {sub_block=block(1)}
        reduce_sum(X=o) -> (Out=loss)
      }
      block 1 in 0 { acos(X=x) -> (Out=o) }
    }"""
    feeds = {"x": np.array([-1.0]), "runs": np.array([False]), "o": np.array([1.0])}
    check_case("cse", Case(ga.Program.parse(text), "loss", feeds))
