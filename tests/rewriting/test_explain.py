"""Why a rule does not apply: the best partial match, and the condition that failed there."""

from __future__ import annotations

from typing import Any

import pytest

import graphad as ga
from graphad import ops
from graphad.errors import InvalidType
from graphad.rewriting import constant, explain, is_float, rewrite, several
from tests.rewriting.samples import Counting, add_zero, body, filled, log_exp, looping, lowered, only


def reason(rule: Any, graph: ga.Graph, name: str = "y") -> str:
    """The explanation below the first line."""
    first, *rest = explain(rule, graph.value(name)).split("\n")
    assert first.startswith(f"rule {rule.name} does not apply at {graph.value(name).writers[0]!r}")
    return "\n".join(rest).strip()


@rewrite
def deep(x: Any, y: Any, *, a: Any) -> Any:
    """A pattern with several places to fail at."""
    h, other = ops.scale(ops.exp(x), scale=a), ops.sin(y)
    after = ops.elementwise_sub(ops.log(ops.scale(ops.exp(x), scale=a)), other)
    return ops.elementwise_sub(ops.log(h), other), after, h.uses == 1, a > 0


def deep_graph(outer: str = "log", inner: str = "exp", scale: float = 2.0, other: str = "sin", **attrs: Any) -> ga.Graph:
    lines = (inner, "x", "e"), ("scale", "e", "h", {"scale": scale, **attrs}), (outer, "h", "l"), (other, "z", "s")
    return lowered(*lines, ("elementwise_sub", ("l", "s"), "y"))


def test_it_applies() -> None:
    graph = lowered(("exp", "x", "a"), ("log", "a", "y"))
    assert explain(log_exp, graph.value("y")) == "rule log-exp applies at log(X=a) -> (Out=y)"
    assert explain(log_exp, only(graph, "log")) == explain(log_exp, graph.value("y"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"outer": "cos"}, "expected log to write l, found cos(X=h) -> (Out=l)"),
        ({"inner": "cos"}, "expected exp to write e, found cos(X=x) -> (Out=e)"),
        ({"other": "cos"}, "expected sin to write s, found cos(X=z) -> (Out=s)"),
        ({"scale": -2.0}, "the condition (a > 0) does not hold"),
        ({"bias": 1.0}, "expected attribute bias of scale to be 0.0, found 1.0"),
    ],
)
def test_the_place_that_fails(options: dict[str, Any], expected: str) -> None:
    assert reason(deep, deep_graph(**options)) == expected


def test_a_tensor_given_from_outside() -> None:
    graph = lowered(("log", "x", "y"))
    assert reason(log_exp, graph) == "expected exp to write x, which is given from outside"
    assert explain(log_exp, graph.value("x")) == "rule log-exp does not apply at x: no operator writes it"


def test_another_type_at_the_root() -> None:
    graph = lowered(("sin", "x", "y"))
    assert reason(log_exp, graph) == "expected log, found sin(X=x) -> (Out=y)"


def test_a_tensor_that_is_another_one() -> None:
    @rewrite
    def same(x: Any) -> Any:
        return ops.elementwise_sub(ops.exp(x), x), ops.elementwise_sub(ops.exp(ops.assign(x)), x)

    graph = lowered(("exp", "x", "e"), ("elementwise_sub", ("e", "z"), "y"))
    assert reason(same, graph) == "x is x, so it cannot be z"


def test_attributes() -> None:
    @rewrite
    def equal(x: Any, *, a: Any) -> Any:
        return ops.scale(ops.scale(x, scale=a), scale=a), ops.scale(x, scale=a * a), is_float(x)

    @rewrite
    def double(x: Any, *, a: Any) -> Any:
        return ops.scale(ops.scale(x, scale=a), scale=a * 2), ops.scale(x, scale=a * a * 2), is_float(x)

    graph = lowered(("scale", "x", "h", {"scale": 3.0}), ("scale", "h", "y", {"scale": 2.0}))
    assert reason(equal, graph) == "a is 2.0, but attribute scale of scale is 3.0"
    assert reason(double, graph) == "expected attribute scale of scale to be (a * 2) = 6.0, found 2.0"


def test_constants() -> None:
    assert reason(add_zero, lowered(filled("c", 0.5), ("elementwise_add", ("x", "c"), "y"))) == "the condition (c == 0) does not hold"
    assert reason(add_zero, lowered(("elementwise_add", ("x", "z"), "y"))) == "expected z to be filled with one number"

    @rewrite
    def one(x: Any) -> Any:
        return ops.elementwise_mul(x, constant(1.0)), x

    graph = lowered(filled("c", 0.5), ("elementwise_mul", ("x", "c"), "y"))
    assert reason(one, graph) == "expected the number in c to be 1.0, found 0.5"


def test_readers() -> None:
    @rewrite
    def once(x: Any) -> Any:
        h = ops.exp(x)
        return ops.log(h), x, h.uses == 1

    graph = lowered(("exp", "x", "a"), ("log", "a", "y"), ("cos", "a", "z"))
    assert reason(once, graph) == "the condition (exp(x).uses == 1) does not hold"


def test_shapes() -> None:
    lines = filled("c", 0.0), ("elementwise_add", ("x", "c"), "y")
    assert reason(add_zero, lowered(*lines, shapes={"x": (3,)})) == "y is float64[2, 3], what comes after is float64[3]"

    @rewrite
    def self_sub(x: Any, y: Any) -> Any:
        return ops.elementwise_sub(ops.elementwise_add(x, y), y), x, is_float(x)

    lines = ("elementwise_add", ("x", "z"), "h"), ("elementwise_sub", ("h", "z"), "y")
    assert reason(self_sub, lowered(*lines, shapes={"x": (-1,), "z": (-1,)})) == "y is float64[7], what comes after is float64[1]"
    text = reason(self_sub, lowered(*lines, shapes={"x": (-1,), "z": (4,)}))
    assert text.startswith("with unknown extents of one size what comes before does not fit: ")


def test_an_unknown_type() -> None:
    graph = lowered(("exp", "x", "a"), ("log", "a", "y"))
    graph.set_type(graph.value("y"), None, None)
    assert reason(log_exp, graph) == "the shape or the dtype of something is not known"


def test_a_condition_on_an_unknown_type() -> None:
    @rewrite
    def twice(x: Any) -> Any:
        return ops.elementwise_add(x, x), x * 2.0, is_float(x)

    graph = lowered(("elementwise_add", ("x", "x"), "y"))
    graph.set_type(graph.value("x"), None, None)
    assert reason(twice, graph) == "the type of x is not known"


def test_lists() -> None:
    @rewrite
    def flat(xs: Any = several, ys: Any = several, zs: Any = several) -> Any:
        return ops.sum([*xs, ops.sum(ys), *zs]), ops.sum([*xs, *ys, *zs])

    graph = lowered(("sum", ["a", "b"], "y"))
    assert "given from outside" in reason(flat, graph)

    @rewrite
    def pair(x: Any, y: Any) -> Any:
        return ops.sum([x, y]), ops.sum([y, x])

    graph = lowered(("sum", ["a", "b", "c"], "y"))
    assert reason(pair, graph) == "the list in slot X of sum(X=[a, b, c]) -> (Out=y) is not [x, y]"


def test_several_results() -> None:
    @rewrite
    def both(x: Any) -> Any:
        return (ops.sin(x), ops.cos(ops.exp(x))), (ops.sin(ops.assign(x)), ops.cos(ops.exp(x)))

    text = reason(both, lowered(("sin", "x", "y"), ("tanh", "x", "z")))
    assert text == "no operator is cos(exp(x)), beside what was found so far"


def test_an_operator_that_would_wait_for_itself() -> None:
    @rewrite
    def merged(x: Any, y: Any) -> Any:
        half = ops.split(ops.concat([x, y], axis=0), num=2, axis=0)
        return (ops.relu(x), ops.elementwise_add(x, ops.relu(y))), (ops.relu(half[0]), ops.elementwise_add(x, ops.relu(half[1])))

    graph = lowered(("relu", "x", "y"), ("relu", "y", "r"), ("elementwise_add", ("x", "r"), "s"), shapes={"x": (2, 3)})
    assert reason(merged, graph) == "an operator would wait for itself"


def test_a_name_that_is_requested() -> None:
    @rewrite
    def no_copy(x: Any) -> Any:
        return ops.assign(x), x

    assert reason(no_copy, lowered(("assign", "x", "y"))) == "y is requested by name"


def test_the_order_that_comes_farthest_is_told() -> None:
    """c + log(exp(x)): the other order fails at once, this one at exp."""

    @rewrite
    def swapped(x: Any, y: Any) -> Any:
        return ops.elementwise_add(ops.log(ops.exp(x)), ops.sin(y)), ops.elementwise_add(x, ops.sin(y))

    graph = lowered(("cos", "x", "e"), ("log", "e", "l"), ("sin", "x", "s"), ("elementwise_add", ("s", "l"), "y"))
    assert reason(swapped, graph) == "expected exp to write e, found cos(X=x) -> (Out=e)"


def test_in_nested_graphs() -> None:
    inner = body(looping())
    assert "expected exp to write" in explain(rewrite(tanh_exp), inner.value("tanh_1.tmp_0"))


def tanh_exp(x: Any) -> Any:
    return ops.tanh(ops.exp(x)), ops.tanh(ops.exp(ops.assign(x)))


def test_a_rule_written_in_python() -> None:
    graph = lowered(("sin", "x", "y"))
    assert explain(Counting(), graph.value("y")) == "rule counting is written in Python: it starts at any operator"
    assert explain(Counting(types=frozenset({"b", "a"})), graph.value("y")).endswith("it starts at a, b")


def test_explaining_changes_nothing() -> None:
    graph = lowered(("exp", "x", "a"), ("log", "a", "y"))
    before = str(graph), graph.journal.edits, graph.journal.rewrites
    explain(log_exp, graph.value("y"))
    assert (str(graph), graph.journal.edits, graph.journal.rewrites) == before


@pytest.mark.parametrize("node", [3, "y", None])
def test_only_nodes_can_be_explained(node: Any) -> None:
    with pytest.raises(InvalidType, match="an operator or a value"):
        explain(log_exp, node)
