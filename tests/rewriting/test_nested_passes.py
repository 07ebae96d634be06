"""Passes on the graphs nested in operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import InvalidGraph
from graphad.rewriting import Timings, observing
from tests.rewriting.samples import Apply, arrays_of, body, looping, type_names
from tests.scratch import Swap, passes


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    with passes(Swap, Apply):
        yield


def two_deep() -> ga.Graph:
    """A branch in a loop; sin is outside, in the loop, and in both branches."""
    layers: Any = ga.layers

    def choose(y: Any) -> Any:
        return layers.cond(layers.mean(y) < 0.5, lambda: layers.sin(y), lambda: layers.sin(layers.exp(y)))

    program = ga.Program()
    with ga.program_guard(program):
        x = layers.sin(layers.data("x", shape=[3], append_batch_size=False))
        layers.while_loop(lambda i, y: i < 2.0, lambda i, y: [i + 1.0, choose(layers.sin(y))], [0.0, x])
    return ga.lower(program)


def sines(graph: ga.Graph) -> list[int]:
    return [sum(op.type == "sin" for op in each.ops) for each in graph.tree()]


def test_only_what_is_nested_changes() -> None:
    graph = two_deep()
    assert sines(graph) == [1, 1, 1, 1]
    assert ga.nested(Swap()).run(graph)
    assert sines(graph) == [1, 0, 0, 0]
    assert not ga.nested(Swap()).run(graph)


def test_the_innermost_come_first() -> None:
    seen: list[ga.Graph] = []
    graph = two_deep()
    with observing(lambda each, inner, step: seen.append(inner)):
        ga.nested(Swap()).run(graph)
    *inner, outer = seen
    assert outer is graph
    assert inner == [each for each in graph.tree() if each is not graph][::-1]


def test_all_passes_run_on_one_graph_before_the_next() -> None:
    seen: list[tuple[str, int]] = []
    graph = two_deep()
    places = {each: i for i, each in enumerate(graph.tree())}
    with observing(lambda each, inner, step: seen.append((step.text, places[inner]))):
        ga.nested(Swap(), Swap(old="exp", new="tanh")).run(graph)
    second = "swap{old=exp, new=tanh}"
    assert seen[:4] == [("swap", 3), (second, 3), ("swap", 2), (second, 2)]


def test_without_nested_graphs_nothing_happens() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        ga.layers.sin(ga.layers.data("x", shape=[3]))
    assert not ga.nested(Swap()).run(ga.lower(program))


def test_results_are_those_of_the_operators_put_there() -> None:
    graph = two_deep()
    (name,) = [value.name for value in graph.targets if value.dtype == "float32" and value.shape == (3,)]
    x = np.array([1.2, 1.5, 1.7], "float32")
    (before,) = arrays_of(graph, {"x": x}, [name])
    ga.nested(Swap(new="sin", old="exp")).run(graph)
    (after,) = arrays_of(graph, {"x": x}, [name])
    assert not np.allclose(before, after)
    ga.nested(Swap(old="sin", new="assign")).run(graph)
    (passed,) = arrays_of(graph, {"x": x}, [name])
    np.testing.assert_array_equal(passed, np.sin(x))


def test_a_nested_graph_that_is_broken_is_told() -> None:
    def forget(self: ga.Pass, graph: ga.Graph) -> bool:
        graph.results = graph.results[1:]
        graph.journal.edits += 1
        return True

    forgetting = type("Forgetting", (ga.Pass,), {"name": "forgetting", "apply": forget, "__str__": lambda self: "forgetting"})()
    with pytest.raises(InvalidGraph, match=r"after pass nested\(forgetting\): nested: .*returns 2 values, but the operator writes 3"):
        ga.nested(forgetting).run(looping())


def test_a_pass_may_be_run_on_one_nested_graph() -> None:
    graph = looping()
    assert Swap(old="tanh").run(body(graph))
    assert type_names(body(graph)).count("cos") == 2
    assert graph.journal.history == [], "a pipeline cannot say it"


def test_the_history_has_what_ran_on_the_whole_graph() -> None:
    graph = two_deep()
    (Swap() | ga.nested(Swap(), Swap(old="exp"))).run(graph)
    assert [str(each) for each in graph.journal.history] == ["swap", "nested(swap, swap{old=exp})"]


def test_it_reads_back_from_text() -> None:
    text = "swap, nested(swap{old=a}, fixpoint(nested(swap)))"
    assert str(ga.Pipeline.parse(text)) == text
    assert ga.Pipeline.parse("nested(swap)").passes == (ga.nested(Swap()),)
    assert ga.nested(Swap()) != ga.nested(Swap(), Swap())
    assert hash(ga.nested(Swap())) == hash(ga.nested(Swap()))


def test_steps_in_nested_graphs_are_timed() -> None:
    timings = Timings()
    with observing(timings):
        ga.nested(Swap()).run(two_deep())
    assert [step.name for step in timings.steps] == ["swap", "swap", "swap", "nested"]
    assert str(timings).count("swap") == 4
