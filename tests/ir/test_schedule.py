"""From a graph back to names in an order: every reader sees the value it should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphad as ga
from graphad.errors import InvalidGraph, InvalidType
from graphad.ir import Op, Value, write_back
from graphad.program import Program
from graphad.testing import Case, check_case
from graphad.testing.cases import RandomChoices
from graphad.testing.programs import any_program
from tests.conformance import loading
from tests.conformance.test_stored import variables
from tests.graphs import diamond, op, types, written_over

Choose = Callable[[Any], Any]
NAMES = ("a", "b", "c")
GIVEN = {"a": 1.0, "b": 2.0}


def late_reader(graph: ga.Graph, value: Value, before: Op | None = None) -> Value:
    """A new value: tanh of one that may have been written over."""
    out = graph.add_value("late", (2,), "float64")
    graph.add_op("tanh", {"X": [value]}, {"Out": [out]}, before=before)
    return out


def lines(graph: ga.Graph) -> list[str]:
    return [repr(each) for each in ga.schedule(graph).global_block().ops]


# -- order ---------------------------------------------------------------------------------------


def test_operators_in_order_stay_as_they_are() -> None:
    graph = diamond()
    assert [each.type for each in graph.ordered_ops()] == ["tanh", "sin", "exp", "elementwise_add"]


def test_an_operator_before_its_writer_is_moved_after_it_and_the_others_stay() -> None:
    graph = diamond()
    out = graph.add_value("s", (2,), "float64")
    graph.add_op("square", {"X": [graph.value("a")]}, {"Out": [out]}, before=op(graph, "tanh"))
    assert types(graph) == ["square", "tanh", "sin", "exp", "elementwise_add"]
    assert [each.type for each in graph.ordered_ops()] == ["tanh", "sin", "square", "exp", "elementwise_add"]
    assert [each.type for each in ga.schedule(graph).global_block().ops] == ["tanh", "sin", "square", "exp", "elementwise_add"]
    assert types(graph)[0] == "square"


def assert_in_order(program: ga.Program) -> None:
    """A program's operators are appended in order, which spares those after ``lower`` the look."""
    for graph in ga.lower(program).tree():
        taken = graph.ordered_ops()
        places = {each: place for place, each in enumerate(taken)}
        assert all(places[writer] < places[each] for each in taken for value in each.reads() for writer in value.writers)
        graph.check_order()
        assert graph.ordered_ops() == taken


@pytest.mark.parametrize("name", loading.names())
def test_a_lowered_program_is_in_order(name: str) -> None:
    case = loading.load(name)
    program = loading.program_of(case.doc["forward"])
    assert_in_order(program)
    if "grads" in case.doc:
        loading.differentiated(case, program.global_block().var(case.doc["loss"]), variables(program, case))
        assert_in_order(program)


def test_random_programs_are_in_order_when_they_are_lowered() -> None:
    for seed in range(60):
        assert_in_order(any_program(RandomChoices(f"order {seed}")).program)


def test_a_cycle_has_no_order() -> None:
    graph = diamond()
    graph.set_inputs(op(graph, "tanh"), "X", [graph.value("y")])
    with pytest.raises(InvalidGraph, match=r"in a cycle: .*tanh\(X=y\) -> \(Out=h\)"):
        graph.ordered_ops()
    with pytest.raises(InvalidGraph, match="in a cycle"):
        ga.schedule(graph)
    assert not nx.is_directed_acyclic_graph(graph)


def test_an_operator_that_reads_what_it_writes_is_a_cycle() -> None:
    graph = diamond()
    graph.set_inputs(op(graph, "sin"), "X", [graph.value("a")])
    with pytest.raises(InvalidGraph, match="in a cycle"):
        graph.ordered_ops()


@given(st.data(), st.integers(1, 12))
def test_any_order_of_operators_becomes_one_that_computes(data: st.DataObject, count: int) -> None:
    graph = ga.Graph()
    values = [graph.add_input("x", (2,), "float64")]
    for _ in range(count):
        out = graph.add_value("t", (2,), "float64")
        ops = list(graph.ops)
        where = data.draw(st.sampled_from([None, *ops]))
        graph.add_op("sum", {"X": data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))}, {"Out": [out]}, before=where)
        values.append(out)
    ordered = graph.ordered_ops()
    place = {each: i for i, each in enumerate(ordered)}
    assert len(place) == count
    assert all(place[w] < place[each] for each in ordered for v in each.reads() for w in v.writers)


# -- names ---------------------------------------------------------------------------------------


def test_without_contest_every_value_keeps_its_name() -> None:
    assert lines(written_over()) == ["increment(X=x) -> (Out=x)", "increment(X=x) -> (Out=x)", "tanh(X=x) -> (Out=y)"]


def test_a_value_given_from_outside_is_copied_before_it_is_written_over() -> None:
    graph = written_over()
    late_reader(graph, graph.value("x#0"))
    assert lines(graph) == [
        "assign(X=x) -> (Out=x@SAVED@0)",
        "increment(X=x) -> (Out=x)",
        "increment(X=x) -> (Out=x)",
        "tanh(X=x) -> (Out=y)",
        "tanh(X=x@SAVED@0) -> (Out=late)",
    ]


def test_a_value_between_gets_a_name_of_its_own() -> None:
    graph = written_over()
    late_reader(graph, graph.value("x#1"))
    assert lines(graph) == [
        "increment(X=x) -> (Out=x@SAVED@0)",
        "increment(X=x@SAVED@0) -> (Out=x)",
        "tanh(X=x) -> (Out=y)",
        "tanh(X=x@SAVED@0) -> (Out=late)",
    ]


def test_the_final_value_keeps_the_name_though_it_is_written_first() -> None:
    graph = diamond()
    late = graph.add_version("h", (2,), "float64")
    graph.add_op("sigmoid", {"X": [graph.value("x")]}, {"Out": [late]}, before=op(graph, "tanh"))
    assert lines(graph)[:3] == ["sigmoid(X=x) -> (Out=h)", "tanh(X=x) -> (Out=h@SAVED@0)", "sin(X=h@SAVED@0) -> (Out=a)"]


def test_an_early_reader_of_the_given_value_needs_no_copy() -> None:
    graph = written_over()
    late_reader(graph, graph.value("x#0"), before=next(iter(graph.ops)))
    assert lines(graph)[:2] == ["tanh(X=x) -> (Out=late)", "increment(X=x) -> (Out=x)"]


def test_saved_names_are_declared_like_what_they_save() -> None:
    graph = written_over()
    late_reader(graph, graph.value("x#0"))
    assert ga.schedule(graph).global_block().var("x@SAVED@0").declared == ((2,), "float64")


def test_a_saved_name_that_is_taken_is_not_taken_again() -> None:
    graph = written_over()
    late_reader(graph, graph.value("x#0"))
    graph = ga.lower(ga.schedule(graph))
    late_reader(graph, graph.value("x#0"))
    assert lines(graph)[:2] == ["assign(X=x) -> (Out=x@SAVED@0)", "assign(X=x) -> (Out=x@SAVED@1)"]


def test_a_graph_schedules_the_same_every_time() -> None:
    graph = written_over()
    late_reader(graph, graph.value("x#0"))
    assert str(ga.schedule(graph)) == str(ga.schedule(graph))


def test_a_name_the_block_declares_is_not_fresh() -> None:
    program = ga.Program()
    block = program.global_block()
    block.create_var(name="x", shape=[2], dtype="float64")
    block.create_var(name="t", shape=[5], dtype="int64")
    block.append_op(type="tanh", inputs={"X": "x"}, outputs={"Out": "y"})
    graph = ga.lower(program)
    graph.add_op("sin", {"X": [graph.value("y")]}, {"Out": [graph.add_value("t", (2,), "float64")]})
    assert ga.schedule(graph).global_block().var("t").declared == ((5,), "int64")


def test_write_back_keeps_the_operators_that_did_not_change() -> None:
    graph = written_over()
    assert graph.block is not None
    before = list(graph.block.ops)
    late_reader(graph, graph.value("x#1"))
    expected = lines(graph.clone())
    write_back(graph)
    first, second, third, last = graph.block.ops
    assert third is before[2]
    assert first is not before[0]
    assert second is not before[1]
    assert [repr(each) for each in graph.block.ops] == expected
    assert last.output("Out") == ["late"]


# -- any sequence of writes and reads ------------------------------------------------------------


def written_names(choose: Choose, count: int) -> ga.Graph:
    """A graph of operators that write a few names again and again: m = a number times n, plus a number."""
    program = ga.Program()
    block = program.global_block()
    for name in GIVEN:
        block.create_var(name=name, shape=[], dtype="float64")
    for i in range(count):
        block.append_op(
            type="scale",
            inputs={"X": choose([n for n in NAMES if block.has_var(n)])},
            outputs={"Out": choose(NAMES)},
            attrs={"scale": -1.0, "bias": float(i + 3)},
        )
    return ga.lower(program)


def add_readers(graph: ga.Graph, choose: Choose, count: int) -> dict[str, Value]:
    """Readers of any versions, anywhere; some write one more version of a name. What each reads, by what it writes."""
    result: dict[str, Value] = {}
    for i in range(count):
        value = choose(list(graph.values))
        probe = graph.add_value(f"probe{i}", (), "float64")
        graph.add_op("assign", {"X": [value]}, {"Out": [probe]}, before=choose([None, *graph.ops]))
        result[probe.name] = value
        if choose([False, False, True]):
            again = graph.add_version(choose(NAMES), (), "float64")
            attrs = {"scale": 1.0, "bias": 100.0 * (i + 1)}
            graph.add_op("scale", {"X": [probe]}, {"Out": [again]}, attrs, before=choose([None, *graph.ops]))
    return result


def meaning(graph: ga.Graph) -> dict[Value, float]:
    """The number each value is."""
    numbers = {v: GIVEN[v.name] for v in graph.inputs}
    for each in nx.topological_sort(graph):
        if isinstance(each, Op):
            x = numbers[each.input("X")]
            numbers[each.output("Out")] = x * each.attrs.get("scale", 1.0) + each.attrs.get("bias", 0.0)
    return numbers


@given(st.data(), st.integers(1, 8), st.integers(0, 6))
def test_every_reader_sees_the_value_it_should(data: st.DataObject, writes: int, reads: int) -> None:
    def choose(items: Any) -> Any:
        return data.draw(st.sampled_from(items))

    graph = written_names(choose, writes)
    probes = add_readers(graph, choose, reads)
    numbers = meaning(graph)
    expected = {name: numbers[value] for name, value in probes.items()}
    expected |= {name: numbers[graph.value(name)] for name in NAMES if graph.versions(name)}
    program = ga.schedule(graph)
    assert str(ga.schedule(ga.lower(program))) == str(program)
    write_back(graph)
    assert graph.block is not None
    for each in (program, graph.block.program):
        fed = {v.name: GIVEN[v.name] for v in graph.inputs}
        got = ga.Executor().run(each, feed=fed, fetch_list=list(expected))
        assert dict(zip(expected, map(float, got), strict=True)) == expected, f"\n{graph}{each}"


def test_two_values_of_one_name_that_one_operator_writes_get_two_names() -> None:
    text = "program { block 0 { var x: float32[4] top_k_v2(X=x) -> (Out=y, Indices=i) {k=2} } }"
    graph = ga.lower(ga.Program.parse(text))
    (op,) = graph.ops
    again = graph.add_version("y", (2,), "int64")
    graph.set_outputs(op, "Indices", [again])
    (written,) = ga.schedule(graph).global_block().ops
    assert written.outputs == {"Out": ["y@SAVED@0"], "Indices": ["y"]}


@pytest.mark.parametrize("other", [ga.Program(), None, "graph {}"])
def test_what_is_no_graph_is_refused(other: Any) -> None:
    with pytest.raises(InvalidType, match="schedule takes a Graph, not") as raised:
        ga.schedule(other)
    assert ("graphad.lower(program) makes one" in str(raised.value)) == isinstance(other, ga.Program)


def test_own_variable_of_a_branch_keeps_off_a_name_around_that_is_written_there_now() -> None:
    text = """program {
      block 0 {
        var x: float64[1]
        var y: float64[2, 2]
        var z: float64[2, 2]
        var flag: bool[1]
        var scopes: ?[?] STEP_SCOPES
        assign(X=y) -> (Out=z)
        if_else(Cond=flag, X=[x, z]) -> (Scope=scopes, Out=z) {true_block=block(1), false_block=block(2)}
      }
      block 1 in 0 {
        var z: float64[1]
        tanh(X=x) -> (Out=z)
      }
      block 2 in 0 {
        scale(X=z) -> (Out=z) {scale=3.0}
      }
    }"""
    case = Case(Program.parse(text), feeds={"x": np.ones(1), "y": np.eye(2), "flag": np.array([True])})
    check_case("simplify", case)
