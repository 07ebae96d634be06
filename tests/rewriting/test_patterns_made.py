"""Replacements by rules: operators with the line of the old ones, under the requested names."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphad as ga
from graphad import ops
from graphad.program import BACKWARD
from graphad.rewriting import is_float, rewrite
from tests.rewriting.samples import (
    add_zero,
    agrees,
    applied,
    body,
    filled,
    greedily,
    log_exp,
    looping,
    lowered,
    only,
    relu_twice,
    type_names,
)
from tests.scratch import Swap

# -- what is made --------------------------------------------------------------------------------


@rewrite
def square_form(x: Any) -> Any:
    size = ops.abs(x)
    return ops.square(x), ops.scale(size * size, scale=1.0), is_float(x)


def test_new_operators_stand_where_the_old_one_did_and_know_its_line() -> None:
    graph = lowered(("exp", "x", "a"), ("square", "a", "b"), ("sin", "b", "y"))
    line = only(graph, "square").source
    graph.journal.author = "test"
    assert applied(square_form, graph) == ["exp", "abs", "elementwise_mul", "scale", "sin"]
    assert [op.type for op in graph.ops] == type_names(graph)
    made = [op for op in graph.ops if op.made_by == "test"]
    assert [op.type for op in made] == ["abs", "elementwise_mul", "scale"]
    assert {op.source for op in made} == {line}


def test_new_operators_have_the_role_of_the_old_ones_and_gradients_stay_gradients() -> None:
    graph = lowered(("tanh", "x", "a"), ("mean", "a", "y"))
    graph.block.vars["x"].stop_gradient = False  # type: ignore[union-attr]
    ga.backward_pipeline(("y",), inputs=("x",)).run(graph)
    x, old = graph.value("x"), graph.value("x@GRAD").writers[0]
    forward = old.forward
    fresh = graph.add_value("more", (2, 3), "float64")
    graph.add_op("relu", {"X": [graph.value("x@GRAD")]}, {"Out": [fresh]}, role=BACKWARD, forward=forward)
    again = graph.add_value("again", (2, 3), "float64")
    again.grad_of = x
    graph.add_op("relu", {"X": [fresh]}, {"Out": [again]}, role=BACKWARD, forward=forward)
    graph.targets[again] = None
    greedily(graph, relu_twice)
    (new,) = [op for op in graph.ops if op.type == "relu"]
    assert (new.role, new.forward, new.source) == (BACKWARD, forward, forward.source)  # type: ignore[union-attr]
    assert graph.value("again").grad_of is x
    assert graph.value("again").writer is new


def test_a_stopped_gradient_stays_stopped() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", shape=[3], append_batch_size=False, stop_gradient=False)
        h = ga.layers.relu(ga.layers.relu(x))
        h.stop_gradient = True
        y = ga.layers.mean(h * x)
    graph = ga.lower(program)
    greedily(graph, relu_twice)
    assert only(graph, "relu").output("Out").stop_gradient
    ga.backward_pipeline((y.name,), inputs=("x",)).run(graph)
    (gradient,) = ga.Executor().run(ga.schedule(graph), {"x": np.array([1.0, 2.0, -3.0], "float32")}, ["x@GRAD"])
    np.testing.assert_allclose(gradient, np.array([1, 2, 0]) / 3, rtol=1e-6)


def test_what_is_requested_keeps_its_name() -> None:
    graph = lowered(("exp", "x", "a"), ("sin", "a", "b"), ("exp", "b", "c"), ("log", "c", "y"))
    assert applied(log_exp, graph) == ["exp", "sin"]
    assert graph.value("y").writer is only(graph, "sin")


def test_what_is_given_is_copied_to_a_name_that_is_requested() -> None:
    graph = lowered(("exp", "x", "a"), ("log", "a", "y"))
    assert applied(log_exp, graph) == ["assign"]
    assert not greedily(graph, log_exp)


def test_a_constant_operand_of_a_requested_result() -> None:
    graph = lowered(filled("c", 0.0), ("elementwise_add", ("x", "c"), "y"))
    assert applied(add_zero, graph) == ["assign"]


def test_an_assign_that_gives_a_value_its_name_stays() -> None:
    @rewrite
    def no_copy(x: Any) -> Any:
        return ops.assign(x), x

    assert not greedily(lowered(("assign", "x", "y")), no_copy)
    inside = lowered(("assign", "x", "a"), ("sin", "a", "y"))
    assert applied(no_copy, inside) == ["sin"]


def test_in_nested_graphs_too() -> None:
    graph = looping()
    Swap(old="tanh", new="relu").run(body(graph))
    before = graph.clone()
    names = [value.name for value in graph.targets]
    assert greedily(graph, relu_twice)
    assert agrees(before, graph, names)
    assert type_names(body(graph)).count("relu") == 1


def test_what_a_nested_graph_hands_out() -> None:
    @rewrite
    def no_copy(x: Any) -> Any:
        return ops.assign(x), x

    graph = looping()
    before, names = graph.clone(), [value.name for value in graph.targets]
    assert greedily(graph, no_copy)
    assert "assign" not in type_names(body(graph))
    assert agrees(before, graph, names)
