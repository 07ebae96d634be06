"""Patterns with several outputs and several results, and what keeps its shape."""

from __future__ import annotations

from typing import Any

import pytest

import graphad as ga
from graphad import ops
from graphad.rewriting import PatternRule, compute, is_float, rewrite
from tests.rewriting.samples import agrees, applied, greedily, log_exp, lowered, only, scales, type_names

# -- several outputs, several results --------------------------------------------------------------


@rewrite
def join_of_split(x: Any, *, n: Any) -> Any:
    a, b = ops.split(x, num=n, axis=0)[:2]
    return ops.concat([a, b], axis=0), x


def halves(*order: str) -> ga.Graph:
    lines = ("split", "x", (["a", "b"],), {"num": 2, "axis": 0}), ("concat", (list(order),), "c", {"axis": 0}), ("sin", "c", "y")
    return lowered(*lines, shapes={"x": (4, 3)})


def test_the_outputs_of_one_operator() -> None:
    assert applied(join_of_split, halves("a", "b")) == ["sin"]
    assert not greedily(halves("b", "a"), join_of_split)
    assert not greedily(halves("a", "a"), join_of_split)


def test_one_of_two_slots() -> None:
    @rewrite
    def largest(x: Any) -> Any:
        values, _ = ops.top_k(x, k=1)
        return ops.relu(values), ops.top_k(ops.relu(x), k=1)[0]

    graph = lowered(("top_k", "x", ("v", "i"), {"k": 1}), ("relu", "v", "y"), targets=["y"])
    assert applied(largest, graph) == ["relu", "top_k"]
    graph = lowered(("top_k", "x", ("v", "i"), {"k": 1}), ("relu", "i", "y"), targets=["y"])
    assert not greedily(graph, largest)


@rewrite
def sin_and_cos(x: Any) -> Any:
    h = ops.assign(x)
    return (ops.sin(x), ops.cos(x)), (ops.sin(h), ops.cos(h))


def test_two_results_at_once() -> None:
    graph = lowered(("sin", "x", "a"), ("exp", "x", "e"), ("cos", "x", "b"))
    assert sorted(applied_once(sin_and_cos, graph)) == ["assign", "cos", "exp", "sin"]
    assert only(graph, "sin").input("X") is only(graph, "cos").input("X") is only(graph, "assign").output("Out")


def test_the_second_result_is_found_among_many() -> None:
    """The first that reads the same is of another form: the next one is tried."""

    @rewrite
    def pair(x: Any) -> Any:
        return (ops.sin(x), ops.scale(x, scale=2.0)), (ops.sin(ops.assign(x)), ops.elementwise_add(x, x))

    others = [("scale", "x", f"s{i}", {"scale": float(i)}) for i in range(5)]
    graph = lowered(("sin", "x", "a"), *others)
    assert applied(pair, graph).count("scale") == 4
    assert graph.value("s2").writers[0].type == "elementwise_add"


def test_results_one_after_the_other() -> None:
    @rewrite
    def both(x: Any) -> Any:
        h = ops.exp(x)
        return (h, ops.log(h)), (h, x)

    graph = lowered(("exp", "x", "e"), ("log", "e", "l"), ("sin", "l", "y"), targets=["e", "y"])
    assert applied_once(both, graph) == ["exp", "sin"]
    inverse = rewrite(log_and_exp)
    graph = lowered(("exp", "x", "e"), ("log", "e", "l"), ("sin", "l", "y"), targets=["e", "y"])
    assert applied_once(inverse, graph) == ["exp", "sin"]


def log_and_exp(x: Any) -> Any:
    h = ops.exp(x)
    return (ops.log(h), h), (x, h)


def applied_once(rule: PatternRule, graph: ga.Graph) -> list[str]:
    """The types after one application of the rule."""
    before, names = graph.clone(), [value.name for value in graph.targets]
    assert any(rule.rewrite(op) for op in graph.ops)
    assert agrees(before, graph, names)
    return type_names(graph)


# -- shapes and dtypes ---------------------------------------------------------------------------


@rewrite
def sub_self(x: Any, y: Any) -> Any:
    return ops.elementwise_sub(ops.elementwise_add(x, y), y), x, is_float(x)


@rewrite
def zero_like_sum(x: Any, y: Any, z: Any) -> Any:
    add = ops.elementwise_add
    return ops.fill_any_like(add(add(x, y), z), value=0.0), ops.fill_any_like(add(x, y), value=0.0)


@rewrite
def turned_zeros(x: Any) -> Any:
    return ops.transpose(ops.fill_any_like(x, value=0.0), axis=[1, 0]), ops.fill_any_like(x, value=0.0)


def added(x: tuple[int, ...], y: tuple[int, ...]) -> ga.Graph:
    lines = ("elementwise_add", ("x", "y"), "h"), ("elementwise_sub", ("h", "y"), "s"), ("sin", "s", "r")
    return lowered(*lines, shapes={"x": x, "y": y})


@pytest.mark.parametrize(
    ("x", "y", "same"),
    [
        ((2, 3), (2, 3), True),
        ((2, 3), (3,), True),
        ((3,), (2, 3), False),
        ((1, 3), (2, 3), False),
        ((-1, 3), (3,), True),
        ((-1, 3), (1, 3), True),
        ((-1, 3), (-1, 3), False),
        ((-1, 3), (2, 3), False),
        ((2, 3), (-1, 3), True),  # two rows come out, or it does not run
        ((-1,), (), True),
    ],
)
def test_what_is_written_keeps_its_shape_whatever_the_unknown_extents_are(x: tuple[int, ...], y: tuple[int, ...], same: bool) -> None:
    """An unknown extent may be 1, which is broadcast; a value of 2 rows may meet an unknown number of them."""
    assert greedily(added(x, y), sub_self) is same


def test_what_three_unknown_extents_make_is_not_what_two_of_them_make() -> None:
    lines = ("elementwise_add", ("x", "y"), "h"), ("elementwise_add", ("h", "z"), "s"), ("fill_any_like", "s", "r", {"value": 0.0})
    assert greedily(lowered(*lines), zero_like_sum)
    assert not greedily(lowered(*lines, shapes=dict.fromkeys("xyz", (-1,))), zero_like_sum)


def test_two_unknown_extents_of_one_tensor_differ() -> None:
    lines = ("fill_any_like", "x", "z", {"value": 0.0}), ("transpose", "z", "r", {"axis": [1, 0]})
    assert greedily(lowered(*lines, shapes={"x": (3, 3)}), turned_zeros)
    assert not greedily(lowered(*lines, shapes={"x": (2, 3)}), turned_zeros)
    assert not greedily(lowered(*lines, shapes={"x": (-1, -1)}), turned_zeros)


def test_a_type_that_is_not_known() -> None:
    graph = lowered(("exp", "x", "a"), ("log", "a", "b"), ("sin", "b", "y"))
    graph.properties.discard("typed")
    graph.set_type(graph.value("b"), None, None)
    assert not greedily(graph, log_exp)


def test_conditions_on_shapes_and_dtypes() -> None:
    @rewrite
    def long_rows(x: Any) -> Any:
        return ops.relu(x), ops.elementwise_max(x, ops.fill_any_like(x, value=0.0)), x.ndim == 2, x.shape[1] >= 3, x.dtype == "float32"

    relu = ("relu", "x", "y")
    assert greedily(lowered(relu, dtype="float32"), long_rows)
    assert not greedily(lowered(relu, dtype="float64"), long_rows)
    assert not greedily(lowered(relu, dtype="float32", shapes={"x": (2, 2)}), long_rows)
    assert not greedily(lowered(relu, dtype="float32", shapes={"x": (5,)}), long_rows)


def test_conditions_are_computed() -> None:
    @rewrite
    def close(x: Any, *, a: Any, b: Any) -> Any:
        after = ops.scale(x, scale=compute(max, a, b) * compute(min, a, b))
        return ops.scale(ops.scale(x, scale=a), scale=b), after, is_float(x), ~(a == b) & ((a > 1) | (-b < 2 - 5))

    assert greedily(scales({"scale": 2.0}, {"scale": 0.5}), close)
    assert greedily(scales({"scale": 0.5}, {"scale": 4.0}), close)
    assert not greedily(scales({"scale": 0.5}, {"scale": 3.0}), close)
    assert not greedily(scales({"scale": 2.0}, {"scale": 2.0}), close)


@rewrite
def only_reader(x: Any) -> Any:
    h = ops.exp(x)
    return ops.log(h), x, h.uses == 1


def test_a_tensor_with_other_readers() -> None:
    lines = ("exp", "x", "a"), ("log", "a", "b"), ("sin", "b", "y")
    assert applied(only_reader, lowered(*lines)) == ["sin"]
    assert not greedily(lowered(*lines, ("cos", "a", "z")), only_reader)
    assert not greedily(lowered(*lines, targets=["a", "y"]), only_reader), "being requested is a use"
