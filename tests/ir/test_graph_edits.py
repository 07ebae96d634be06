"""Whatever is done to a graph through its own methods, operators and values agree on who reads and writes what."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import graphad as ga
from graphad.errors import InvalidGraph
from graphad.ir import Op, Value
from graphad.ir.residuals import residual_inputs
from graphad.ir.verify import verify
from tests.graphs import diamond, sound

Choose = Callable[[Any], Any]
EDITS = st.lists(
    st.sampled_from(["add", "write", "append", "remove", "replace", "rename", "inputs", "outputs", "empty"]), min_size=1, max_size=12
)


def random_edit(graph: ga.Graph, choose: Choose, kind: str) -> None:
    """Change the graph somewhere; what comes out need not make sense."""
    ops = list(graph.ops)

    def value() -> Value:
        chosen: Value = choose(list(graph.values))
        return chosen

    if kind == "add" or not ops:
        out = graph.add_value("new", (2,), "float64")
        graph.add_op("sum", {"X": [value(), value()]}, {"Out": [out]}, before=choose(ops) if ops else None)
        return
    if kind == "write":
        graph.add_op("sum", {"X": [value(), value()]}, {"Out": [value()]})
        return
    if kind == "append":
        graph.append(Op(graph, "sum", {"X": (value(), value())}, {"Out": (value(),)}, {}))
        return
    if kind == "replace":
        graph.replace(value(), value())
        return
    if kind == "rename":
        old = value()
        graph.rename(old, graph.values.numbered(old.name, "{}_{}"))
        return
    chosen: Op = choose(ops)
    if kind == "remove":
        graph.remove_op(chosen)
    elif kind == "inputs":
        graph.set_inputs(chosen, next(iter(chosen.inputs), "X"), [value(), value()])
    elif kind == "outputs":
        graph.set_outputs(chosen, "Out", [value(), *chosen.outputs.get("Out", ())[:1]])
    else:
        graph.set_inputs(chosen, "X", ())


@given(st.data(), EDITS)
def test_any_edits_keep_readers_and_writers_right(data: st.DataObject, kinds: list[str]) -> None:
    graph = diamond()
    for kind in kinds:
        random_edit(graph, lambda nodes: data.draw(st.sampled_from(nodes)), kind)
        assert sound(graph), f"{kind}\n{graph}"
    assert sound(graph.clone())
    assert str(graph.clone()) == str(graph)


def order_of(graph: ga.Graph) -> list[Op] | str:
    """The operators in order, or why they have none."""
    try:
        return graph.ordered_ops()
    except InvalidGraph as error:
        return str(error)


@settings(max_examples=150)
@given(st.data(), EDITS)
def test_after_any_edits_the_order_that_a_graph_knows_is_the_one_that_a_look_finds(data: st.DataObject, kinds: list[str]) -> None:
    graph = diamond()
    for kind in kinds:
        random_edit(graph, lambda nodes: data.draw(st.sampled_from(nodes)), kind)
        known = order_of(graph)
        with contextlib.suppress(InvalidGraph):
            graph.check_order()
        assert order_of(graph) == known


def test_a_gradient_reads_what_became_one_value_through_one_input() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [2], "float64", append_batch_size=False, stop_gradient=False)
        c = ga.layers.data("c", [1], "bool", append_batch_size=False)
        y = ga.layers.cond(c, lambda: ga.layers.sin(x) * ga.layers.cos(x), lambda: x)
        ga.gradients(y, x)
    graph = ga.lower(program)
    forward, gradient = (next(each for each in graph.ops if each.type == kind).graphs["true_block"] for kind in ("if_else", "if_else_grad"))
    sine, cosine = forward.value("sin_0.tmp_0"), forward.value("cos_0.tmp_0")
    assert [*residual_inputs(gradient).values()] == forward.residuals == [sine, cosine]
    forward.replace(cosine, sine)
    assert [*residual_inputs(gradient).values()] == forward.residuals == [sine]
    assert gradient.inputs[-1:] == [*residual_inputs(gradient)]
    assert sound(gradient)
    verify(graph)
