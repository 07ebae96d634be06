"""Operators that dead-code removes, and those that it keeps."""

from __future__ import annotations

import pytest

import graphad as ga
from graphad.errors import InvalidValue
from graphad.ir.regions import operands, results_of
from graphad.passes.cleanup import DeadCode
from graphad.rewriting import verification
from graphad.testing import check_pass
from graphad.testing.nested import nested_program
from tests.passes.cleanup.programs import graph_of, loop_graph, operators, types


def test_operators_that_nothing_reads_go_with_what_they_read() -> None:
    graph = graph_of("exp(X=x) -> (Out=a)\nsin(X=a) -> (Out=b)\ntanh(X=x) -> (Out=y)", "x a b y: float32[3]", ["y"])
    assert DeadCode().run(graph)
    assert operators(graph) == ["tanh(X=x) -> (Out=y)"]
    assert not DeadCode().run(graph)


def test_what_is_requested_by_default_stays() -> None:
    graph = graph_of("exp(X=x) -> (Out=a)\ntanh(X=x) -> (Out=y)", "x a y: float32[3]")
    assert not DeadCode().run(graph)
    assert types(graph) == ["exp", "tanh"]


def test_persistable_values_stay() -> None:
    graph = ga.lower(ga.Program.parse("program { block 0 { param w: float32[3] exp(X=w) -> (Out=w) } }"), [])
    assert not DeadCode().run(graph)


def test_effects_stay_in_nested_graphs_too() -> None:
    more = "  block 1 in 0 {\n    fetch(X=x) -> (Out=f) {col=0}\n    tanh(X=x) -> (Out=y)\n  }\n"
    graph = graph_of("net(X=x) -> (Out=y) {sub_block=block(1)}\nexp(X=x) -> (Out=z)", "x y z f: float32[3]", ["z"], more)
    assert DeadCode().run(graph)
    (net,) = graph.controls
    assert results_of(net) == ()
    assert [op.type for op in net.graphs["sub_block"].ops] == ["fetch"]


def test_an_unknown_operator_stays() -> None:
    graph = graph_of("strange(X=x) -> (Out=a)\ntanh(X=x) -> (Out=y)", "x a y: float32[3]", ["y"])
    assert not DeadCode().run(graph)


# -- keep ----------------------------------------------------------------------------------------


def test_keep_says_what_is_requested() -> None:
    graph = graph_of("exp(X=x) -> (Out=a)\nsin(X=a) -> (Out=b)\ntanh(X=x) -> (Out=y)", "x a b y: float32[3]")
    assert DeadCode(keep=("a",)).run(graph)
    assert operators(graph) == ["exp(X=x) -> (Out=a)"]
    assert [value.name for value in graph.targets] == ["a"]
    assert not DeadCode(keep=("a",)).run(graph)


def test_keeping_an_unknown_name_is_an_error() -> None:
    graph = graph_of("exp(X=x) -> (Out=alpha)", "x alpha: float32[3]")
    with pytest.raises(InvalidValue, match="did you mean 'alpha'"):
        DeadCode(keep=("alphq",)).run(graph)


def test_keep_from_text() -> None:
    assert ga.Pipeline.parse("dead-code{keep=[a, b]}").passes == (DeadCode(keep=("a", "b")),)


# -- nested graphs -------------------------------------------------------------------------------


def test_a_value_that_only_feeds_itself_is_not_carried() -> None:
    graph, inner = loop_graph("tanh(X=h) -> (Out=h)\nelementwise_add(X=k, Y=h) -> (Out=k)")
    assert DeadCode().run(graph)
    (loop,) = graph.controls
    assert [value.name for value in results_of(loop)] == ["h", "i", "more"]
    assert [op.type for op in inner.ops] == ["tanh", "increment", "less_than"]
    assert len(operands(loop)) == len(inner.inputs)
    assert not DeadCode().run(graph)


def test_a_value_that_another_carried_value_needs_is_carried() -> None:
    graph, _ = loop_graph("elementwise_add(X=h, Y=k) -> (Out=h)\nsin(X=k) -> (Out=k)")
    DeadCode().run(graph)
    (loop,) = graph.controls
    assert [value.name for value in results_of(loop)] == ["h", "k", "i", "more"]


def test_unused_operands_are_dropped() -> None:
    graph, inner = loop_graph("tanh(X=h) -> (Out=h)\nelementwise_mul(X=k, Y=x) -> (Out=k)")
    assert "x" in {value.name for value in inner.inputs}
    DeadCode().run(graph)
    (loop,) = graph.controls
    assert "x" not in {value.name for value in (*inner.inputs, *operands(loop))}


def test_results_of_branches_that_nothing_reads_go() -> None:
    more = "".join(f"  block {i} in 0 {{\n    {f}(X=x) -> (Out=a)\n    {f}(X=y) -> (Out=b)\n  }}\n" for i, f in ((1, "tanh"), (2, "sin")))
    text = "if_else(Cond=c, X=[x, y]) -> (Out=[a, b], Scope=s) {true_block=block(1), false_block=block(2)}"
    graph = graph_of(text, "x y a b: float32[3]; c: bool[1]; s: ?[?] STEP_SCOPES", ["a"], more)
    assert DeadCode().run(graph)
    (branch,) = graph.controls
    assert [value.name for value in operands(branch)] == ["x"]
    assert [[op.type for op in inner.ops] for inner in branch.graphs.values()] == [["tanh"], ["sin"]]


def test_a_loop_with_a_gradient_keeps_its_signature_until_the_gradient_goes() -> None:
    graph, _ = loop_graph("elementwise_mul(X=h, Y=x) -> (Out=h)\nsin(X=k) -> (Out=k)")
    program = ga.schedule(graph)
    block = program.global_block()
    (grad,) = ga.gradients([block.var("loss")], [block.var("x")])
    assert grad is not None
    both = ga.lower(program, ["loss", grad.name])
    before = [len(results_of(op)) for op in both.controls]
    DeadCode().run(both)
    assert [len(results_of(op)) for op in both.controls] == before
    DeadCode(keep=("loss",)).run(both)
    assert [op.type for op in both.controls] == ["while"]
    assert len(results_of(next(iter(both.controls)))) == 3


# -- as a whole ----------------------------------------------------------------------------------


def test_a_second_run_looks_at_what_changed() -> None:
    graph = graph_of("exp(X=x) -> (Out=a)\nsin(X=a) -> (Out=b)\ntanh(X=x) -> (Out=y)", "x a b y: float32[3]", ["b", "y"])
    assert not DeadCode().run(graph)
    graph.substitute(graph.value("b"), graph.value("y"))
    assert DeadCode().run(graph)
    assert sorted(types(graph)) == ["assign", "tanh"]


def test_each_removal_counts() -> None:
    graph = graph_of("exp(X=x) -> (Out=a)\nsin(X=a) -> (Out=b)\ntanh(X=x) -> (Out=y)", "x a b y: float32[3]", ["y"])
    graph.journal.limit = 1
    DeadCode().run(graph)
    assert types(graph) == ["exp", "tanh"]


def test_a_long_dead_chain_goes_in_one_walk() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", shape=[3], append_batch_size=False)
        dead = live = x
        for _ in range(3000):
            dead, live = ga.layers.tanh(dead), ga.layers.tanh(live)
    graph = ga.lower(program, [live])
    with verification(False):
        DeadCode().run(graph)
    assert len(graph.ops) == 3000


def test_on_random_programs() -> None:
    assert check_pass("dead-code", examples=80).changed > 10
    assert check_pass("dead-code", examples=25, programs=nested_program).changed > 10
