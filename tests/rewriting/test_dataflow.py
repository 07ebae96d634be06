"""Dataflow analyses: facts through loops, branches and gradients, in both directions; the fixpoint; what is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import networkx as nx
import pytest

import graphad as ga
from graphad.errors import PassError
from graphad.ir.regions import BYPASS, KEPT, Edge, region_edges
from graphad.ir.residuals import residual_inputs
from graphad.passes.backward import FindOpPath, OpPath
from graphad.rewriting import claims_checked
from graphad.rewriting.dataflow import Dataflow, Facts
from graphad.testing.cases import RandomChoices
from graphad.testing.nested import nested_program
from graphad.types import FLOATS
from tests.scratch import passes

LOOP = """program {
  block 0 {
    var h: float64[1]
    var c: bool[1]
    var d: bool[1]
    fill_constant() -> (Out=h) {shape=[1], value=1.0, dtype="float64"}
    while(X=[h, d], Condition=c) -> (Out=[h, c]) {sub_block=block(1)}
    assign(X=h) -> (Out=after)
  }
  block 1 in 0 {
    assign(X=h) -> (Out=seen)
    fill_constant() -> (Out=h) {shape=[1], value=2.0, dtype="float64"}
    logical_and(X=c, Y=d) -> (Out=c)
  }
}"""
BRANCHES = """program {
  block 0 {
    var h: float64[1]
    var k: float64[1]
    var c: bool[1]
    fill_constant() -> (Out=h) {shape=[1], value=1.0, dtype="float64"}
    fill_constant() -> (Out=k) {shape=[1], value=1.0, dtype="float64"}
    conditional_block(Cond=c) -> (Out=[h, k]) {sub_block=block(1)}
  }
  block 1 in 0 {
    fill_constant() -> (Out=h) {shape=[1], value=2.0, dtype="float64"}
    fill_constant() -> (Out=k) {shape=[1], value=1.0, dtype="float64"}
  }
}"""
COUNTER = """program {
  block 0 {
    var i: float64[1]
    var c: bool[1]
    fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="float64"}
    while(X=i, Condition=c) -> (Out=[i, c]) {sub_block=block(1)}
  }
  block 1 in 0 {
    increment(X=i) -> (Out=i) {step=1.0}
    less_than(X=i, Y=i) -> (Out=c)
  }
}"""


@dataclass(frozen=True)
class Constants(Dataflow[Any]):
    """The numbers that a value may be filled with, at most ``most``; "any" if that is not known."""

    most: int = 3
    bottom: ClassVar[Any] = frozenset()
    top: ClassVar[Any] = "any"
    solved: ClassVar[int] = 0

    def join(self, a: Any, b: Any) -> Any:
        return "any" if "any" in (a, b) or len(a | b) > self.most else a | b

    def transfer(self, op: ga.ir.Op, facts: Facts[Any]) -> Mapping[Any, Any]:
        if op.type == "fill_constant":
            return {op.output("Out"): frozenset({op.attrs["value"]})}
        known: Any = {"assign": 0.0, "increment": op.attrs.get("step")}.get(op.type)
        read = "any" if known is None else facts[op.input("X")]
        return dict.fromkeys(op.writes(), read if read == "any" else frozenset(number + known for number in read))

    def solve(self, graph: ga.Graph) -> Facts[Any]:
        type(self).solved += 1
        return super().solve(graph)


@dataclass(frozen=True)
class Unending(Constants):
    """The same without a bound."""

    def join(self, a: Any, b: Any) -> Any:
        return "any" if "any" in (a, b) else a | b


@dataclass(frozen=True)
class Widening(Unending):
    def widen(self, before: Any, after: Any) -> Any:
        return "any"


@dataclass(frozen=True)
class Needed(Dataflow[bool]):
    """Backwards: which values the targets depend on, their conditions included."""

    bottom: ClassVar[Any] = False
    top: ClassVar[Any] = True
    backward: ClassVar[bool] = True

    def join(self, a: bool, b: bool) -> bool:
        return a or b

    def transfer(self, op: ga.ir.Op, facts: Facts[bool]) -> Mapping[Any, bool]:
        return dict.fromkeys(op.reads(), any(facts[value] for value in op.writes()))

    def decides(self, op: ga.ir.Op, facts: Facts[bool]) -> bool:
        return any(facts[value] for value in op.writes())


def lowered(text: str, targets: list[str] | None = None) -> ga.Graph:
    return ga.lower(ga.Program.parse(text), targets)


def body(graph: ga.Graph) -> ga.Graph:
    (op,) = graph.controls
    return next(iter(op.graphs.values()))


def test_a_loop_joins_the_initial_value_with_what_comes_round_and_what_comes_out() -> None:
    graph = lowered(LOOP)
    facts = Constants().of(graph)
    assert facts[body(graph).value("seen")] == {1.0, 2.0}
    assert facts[body(graph).value("h")] == {2.0}
    assert facts[graph.value("after")] == {1.0, 2.0}
    assert facts[graph.value("d")] == "any"


def test_branches_are_joined() -> None:
    graph = lowered(BRANCHES)
    facts = Constants().of(graph)
    assert (facts[graph.value("h")], facts[graph.value("k")]) == ({1.0, 2.0}, {1.0})


def test_facts_may_be_changed_on_their_way() -> None:
    class AtLeastOnce(Constants):
        def along(self, edge: Edge, fact: Any) -> Any:
            return self.bottom if edge.kind == BYPASS else fact

    graph = lowered(LOOP)
    assert AtLeastOnce().of(graph)[graph.value("after")] == {2.0}


def test_a_chain_that_grows_ends_at_the_top_or_by_widening_or_is_refused() -> None:
    graph = lowered(COUNTER)
    assert Constants(most=3).of(graph)[graph.value("i")] == "any"
    assert Widening().of(graph)[graph.value("i")] == "any"
    with pytest.raises(PassError, match=r"Unending\(most=3\) finds no fixpoint: what it says of i#0 still grows"):
        Unending().of(graph)


def test_facts_are_kept_for_each_choice_of_options_until_the_graph_changes() -> None:
    graph, before = lowered(LOOP), Constants.solved
    found = [Constants().of(graph), Constants().of(graph), Constants(most=1).of(graph)]
    assert Constants.solved == before + 2
    assert found[0] is found[1]
    after = graph.value("after")
    assert [facts[after] for facts in found] == [{1.0, 2.0}, {1.0, 2.0}, "any"]
    (fill,) = (op for op in graph.ops if op.type == "fill_constant")
    graph.set_attr(fill, "value", 5.0)
    assert Constants().of(graph)[after] == {2.0, 5.0}


def test_a_pass_may_require_and_preserve_facts_and_a_lie_is_found() -> None:
    class Refill(ga.Pass):
        name = "test-refill"
        requires = (Constants,)
        preserves = (Constants,)

        def __init__(self, value: float) -> None:
            self.value = value

        def apply(self, graph: ga.Graph) -> bool:
            self.facts = Constants().of(graph)
            graph.set_attr(next(op for op in graph.ops if op.type == "fill_constant"), "value", self.value)
            return True

        def __str__(self) -> str:
            return self.name

    with passes(Refill), claims_checked():
        graph, same = lowered(LOOP), Refill(1.0)
        same.run(graph)
        assert Constants().of(graph) is same.facts
        with pytest.raises(PassError, match="says it preserves Constants"):
            Refill(7.0).run(graph)


@pytest.mark.parametrize(("target", "inside", "initial"), [("h", False, True), ("c", False, False)])
def test_backwards_through_a_loop(target: str, inside: bool, initial: bool) -> None:
    graph = lowered(LOOP, [target])
    facts = Needed().of(graph)
    assert facts[graph.value("h#0")] is initial
    assert facts[body(graph).value("seen")] is inside
    assert [facts[graph.value(name)] for name in ("c#0", "d", "after")] == [True, True, False]
    assert facts[body(graph).value("c")]


def test_backwards_what_comes_round_is_needed_too() -> None:
    text = LOOP.replace("var h: float64[1]", "var h: float64[1]\n var g: float64[1]").replace(
        "assign(X=h) -> (Out=seen)", "assign(X=g) -> (Out=h)"
    )
    text = text.replace(
        '    fill_constant() -> (Out=h) {shape=[1], value=2.0, dtype="float64"}\n    logical', "    tanh(X=g) -> (Out=g)\n    logical"
    )
    text = text.replace("Out=[h, c]", "Out=[h, g, c]").replace("X=[h, d]", "X=[h, g, d]")
    graph = lowered(text, ["h"])
    facts = Needed().of(graph)
    assert facts[body(graph).value("g")]
    assert facts[graph.value("g#0")]
    assert not facts[graph.value("g")]


def test_what_adds_up_over_iterations_and_what_is_saved() -> None:
    """The gradient of a loop: of cotangents nothing is known, of what the forward body left what it was."""
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", shape=[1], append_batch_size=False)
        x.stop_gradient = False
        i, n = ga.layers.zeros([1], "int64"), ga.layers.fill_constant([1], "int64", 3)

        def step(i: Any, h: Any) -> list[Any]:
            return [ga.layers.increment(i, in_place=False), ga.layers.tanh(h * x) * ga.layers.fill_constant([1], "float32", 2.0)]

        _, h = ga.layers.while_loop(lambda i, h: ga.layers.less_than(i, n), step, [i, x])
        ga.append_backward(ga.layers.mean(h))
    graph = ga.lower(program)
    facts = Constants().of(graph)
    (gradient,) = (each for op in graph.ops if op.type == "while_grad" for each in op.graphs.values())
    filled = [inner for inner, kept in residual_inputs(gradient).items() if kept.writer is not None and kept.writer.type == "fill_constant"]
    assert filled
    assert [facts[value] for value in filled] == [{2.0}] * len(filled)
    assert facts[graph.value("x@GRAD")] == "any"


def test_an_operator_may_be_left_whole() -> None:
    class Around(Constants):
        def enters(self, op: ga.ir.Op) -> bool:
            return False

    graph = lowered(LOOP)
    facts = Around().of(graph)
    assert facts[graph.value("after")] == "any"
    assert not any(value in facts for value in body(graph).values)


# -- activity, against paths that networkx finds ----------------------------------------------------


def dependences(graph: ga.Graph) -> nx.DiGraph[ga.ir.Value]:
    """From each value to those that depend differentiably on it, in nested graphs, too."""
    found: nx.DiGraph[ga.ir.Value] = nx.DiGraph()
    for op in (op for each in graph.tree() for op in each.ops):
        if op.graphs:
            found.add_edges_from((edge.source, edge.target) for edge in region_edges(op) if edge.kind != KEPT)
            continue
        definition = op.definition
        assert definition is not None
        assert definition.grads is not None
        for (slot, values), (out, written) in product(op.inputs.items(), op.outputs.items()):
            if slot in definition.grads and (len(op.outputs) == 1 or slot in definition.gradient_flows[out]):
                found.add_edges_from(product(values, written))
    stopped = [v for v in found if v.writers and (v.dtype not in (None, *FLOATS) or v.stop_gradient)]
    found.remove_nodes_from(stopped)
    return found


def reached(paths: nx.DiGraph[ga.ir.Value], starts: Iterable[ga.ir.Value]) -> set[ga.ir.Value]:
    return {value for start in starts if start in paths for value in (start, *nx.descendants(paths, start))}


def all_active(path: OpPath) -> set[ga.ir.Value]:
    return set(path.active).union(*map(all_active, path.inner.values()))


def test_what_find_op_path_finds_is_on_a_path_from_a_source_to_a_target() -> None:
    """On random loops and branches, by paths in a graph of values."""
    sizes = []
    for number in range(12):
        case = nested_program(RandomChoices(f"activity {number}"), 2, max_statements=2, max_nested=2)
        graph = ga.lower(case.program)
        FindOpPath(targets=(case.loss_name,)).apply(graph)
        path: OpPath = graph.analyses[OpPath]
        paths = dependences(graph)
        paths.add_nodes_from((*path.sources, *path.targets))
        varied = paths.subgraph(reached(paths, path.sources))
        assert all_active(path) == reached(varied.reverse(), path.targets)
        sizes.append(len(path.inner))
    assert sum(map(bool, sizes)) > 6
