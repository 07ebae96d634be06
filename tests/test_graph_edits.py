"""Whatever is done to a graph through its own methods, operators and values agree on who reads and writes what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import graphad as ga
from graphad.graph import Op, Value
from tests.graphs import diamond, sound

Choose = Callable[[Any], Any]


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


@given(st.data(), st.lists(st.sampled_from(["add", "remove", "replace", "rename", "inputs", "outputs", "empty"]), min_size=1, max_size=12))
def test_any_edits_keep_readers_and_writers_right(data: st.DataObject, kinds: list[str]) -> None:
    graph = diamond()
    for kind in kinds:
        random_edit(graph, lambda nodes: data.draw(st.sampled_from(nodes)), kind)
        assert sound(graph), f"{kind}\n{graph}"
    assert sound(graph.clone())
    assert str(graph.clone()) == str(graph)
