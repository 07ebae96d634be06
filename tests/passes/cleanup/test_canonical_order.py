"""The order that canonical-order gives to inputs."""

from __future__ import annotations

from graphad.ir import schedule
from graphad.passes.cleanup import CanonicalOrder
from graphad.passes.memory import InPlace
from graphad.testing import check_pass
from tests.passes.cleanup.programs import graph_of, loop_graph, operators

ABC = "x y a b c d: float32[3]"


def test_given_values_come_first_then_what_was_defined_first() -> None:
    text = "tanh(X=x) -> (Out=a)\nsin(X=y) -> (Out=b)\nelementwise_add(X=b, Y=a) -> (Out=c)\nelementwise_mul(X=c, Y=y) -> (Out=d)"
    graph = graph_of(text, ABC)
    assert CanonicalOrder().run(graph)
    assert operators(graph)[2:] == ["elementwise_add(X=a, Y=b) -> (Out=c)", "elementwise_mul(X=y, Y=c) -> (Out=d)"]
    assert not CanonicalOrder().run(graph)


def test_constants_come_last() -> None:
    graph = graph_of("fill_constant() -> (Out=c) {shape=[3], value=2.0}\nelementwise_add(X=c, Y=x) -> (Out=d)", ABC)
    CanonicalOrder().run(graph)
    assert operators(graph)[1] == "elementwise_add(X=x, Y=c) -> (Out=d)"


def test_a_value_that_becomes_a_constant_moves() -> None:
    graph = graph_of("tanh(X=x) -> (Out=a)\nsin(X=x) -> (Out=b)\nelementwise_add(X=a, Y=b) -> (Out=c)", ABC)
    assert not CanonicalOrder().run(graph)
    first = graph.value("a").writers[0]
    made = graph.add_op("fill_constant", {}, {"Out": [graph.value("a")]}, {"shape": [3], "value": 1.0, "dtype": "float32"}, before=first)
    graph.set_outputs(first, "Out", [])
    graph.remove_op(first)
    assert made.output("Out") is graph.value("a")
    assert CanonicalOrder().run(graph)
    assert operators(graph)[-1] == "elementwise_add(X=b, Y=a) -> (Out=c)"


def test_others_keep_their_order() -> None:
    text = "tanh(X=x) -> (Out=a)\nsin(X=x) -> (Out=b)\nelementwise_max(X=b, Y=a) -> (Out=c)\nelementwise_add(X=b, Y=a) -> (Out=d) {axis=0}"
    assert not CanonicalOrder().run(graph_of(text, ABC))


def test_marks_of_memory_decide_nothing() -> None:
    """They are dropped with the change; whether an outdated one is still there depends on what has looked at the graph."""
    graph = graph_of("tanh(X=x) -> (Out=a)\nsin(X=y) -> (Out=b)\nelementwise_add(X=b, Y=a) -> (Out=c)", ABC)
    assert InPlace().run(graph)
    assert "inplace" in [*graph.ops][2].attrs
    assert CanonicalOrder().run(graph)
    assert "    elementwise_add(X=a, Y=b) -> (Out=c)\n" in str(schedule(graph))


def test_nested_graphs() -> None:
    graph, inner = loop_graph("elementwise_mul(X=x, Y=h) -> (Out=h)")
    CanonicalOrder().run(graph)
    assert repr(inner.ops.first).startswith("elementwise_mul(X=h")


def test_on_random_programs() -> None:
    assert check_pass("canonical-order", examples=60).changed > 5
