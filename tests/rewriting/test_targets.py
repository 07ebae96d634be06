"""Requested outputs keep their names and their values, whatever passes do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import InvalidType, InvalidValue
from graphad.ir.verify import verify
from graphad.rewriting import erase_if_dead
from tests.graphs import sound
from tests.rewriting.samples import arrays_of, log_exp, lowered, only, type_names, written

LINES = ("sin", "x", "a"), ("exp", "a", "b"), ("tanh", "a", "c")


def names(graph: ga.Graph) -> list[str]:
    return [value.name for value in graph.targets]


# -- lower ---------------------------------------------------------------------------------------


def test_without_targets_it_is_what_nothing_reads() -> None:
    assert names(lowered(*LINES)) == ["b", "c"]
    assert lowered(*LINES).journal.requested is None


def test_targets_are_names_or_variables() -> None:
    program = written(*LINES)
    block = program.global_block()
    for targets in (["a", "c"], [block.var("a"), "c"], (block.var("a"), block.var("c"))):
        graph = ga.lower(program, targets)  # type: ignore[arg-type]
        assert names(graph) == ["a", "c"]
        assert graph.journal.requested == ("a", "c")


def test_the_same_twice_is_once() -> None:
    assert names(lowered(*LINES, targets=["b", "a", "b"])) == ["b", "a"]


def test_no_targets_are_none() -> None:
    graph = lowered(*LINES, targets=[])
    assert names(graph) == []
    assert graph.journal.requested == ()
    erase_if_dead(only(graph, "exp"))
    erase_if_dead(only(graph, "tanh"))
    assert len(graph.ops) == 0


def test_data_can_be_requested() -> None:
    graph = lowered(*LINES, targets=["x", "b"])
    assert names(graph) == ["x", "b"]
    erase_if_dead(only(graph, "tanh"))
    x = np.ones((2, 3))
    np.testing.assert_array_equal(arrays_of(graph, {"x": x}, ["x"])[0], x)


def test_data_that_nothing_reads_can_be_requested() -> None:
    program = written(*LINES)
    program.global_block().create_var(name="alone", shape=[2], dtype="float32")
    graph = ga.lower(program, ["alone"])
    assert names(graph) == ["alone"]
    assert graph.value("alone").given


@pytest.mark.parametrize(
    ("targets", "kind", "message"),
    [
        (["nothing"], InvalidValue, "the graph has no value 'nothing'"),
        ("b", InvalidType, "targets are a list of variables or their names, not 'b'"),
        ([3], InvalidType, "a value is looked up by its name, not by 3"),
    ],
)
def test_what_cannot_be_requested(targets: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        lowered(*LINES, targets=targets)


def test_a_variable_alone_is_no_list() -> None:
    program = written(*LINES)
    with pytest.raises(InvalidType, match="targets are a list"):
        ga.lower(program, program.global_block().var("b"))  # type: ignore[arg-type]


def test_of_a_name_written_twice_the_last_value_is_meant() -> None:
    lines = ("increment", "x", "x"), ("increment", "x", "x"), ("sin", "x", "y")
    graph = lowered(*lines, targets=["x"])
    assert list(graph.targets) == [graph.value("x#2")]
    erase_if_dead(only(graph, "sin"))
    assert arrays_of(graph, {"x": np.zeros((2, 3))}, ["x"])[0].tolist() == [[2.0] * 3] * 2


def test_persistables_are_kept_without_being_requested() -> None:
    program = ga.Program()
    block = program.global_block()
    block.create_parameter(name="w", shape=[3], dtype="float32")
    for _ in range(2):
        block.append_op(type="increment", inputs={"X": "w"}, outputs={"Out": "w"})
    block.append_op(type="sin", inputs={"X": "w"}, outputs={"Out": "y"})
    graph = ga.lower(program, ["y"])
    assert [graph.is_observed(value) for value in graph.versions("w")] == [False, False, True]
    graph = ga.lower(program, [])
    erase_if_dead(only(graph, "sin"))
    assert type_names(graph) == ["increment", "increment"]


def test_a_copy_asks_for_the_same() -> None:
    graph = lowered(*LINES, targets=["a", "c"])
    clone = graph.clone()
    assert names(clone) == ["a", "c"]
    assert clone.journal.requested == ("a", "c")
    assert all(value.graph is clone for value in clone.targets)


# -- substitute ----------------------------------------------------------------------------------


def test_the_name_is_handed_over() -> None:
    graph = lowered(*LINES, targets=["b", "c"])
    old, new = graph.value("c"), graph.value("b")
    fresh = graph.add_value("fresh", (2, 3), "float64")
    graph.add_op("cos", {"X": [graph.value("a")]}, {"Out": [fresh]})
    graph.substitute(old, fresh)
    assert (fresh.name, old.name) == ("c", "c@OLD@0")
    assert names(graph) == ["b", "c"]
    assert graph.value("c") is fresh
    assert graph.value("b") is new
    assert graph.is_dead(only(graph, "tanh"))
    verify(graph)
    assert sound(graph)


def test_two_targets_that_become_one_value_keep_both_names() -> None:
    graph = lowered(("sin", "x", "a"), ("sin", "x", "b"), ("exp", "b", "y"))
    graph.targets = dict.fromkeys([graph.value("a"), graph.value("b"), graph.value("y")])
    graph.substitute(graph.value("b"), graph.value("a"))
    for op in list(graph.ops):
        erase_if_dead(op)
    verify(graph)
    assert sound(graph)
    assert type_names(graph) == ["sin", "assign", "exp"]
    x = np.ones((2, 3))
    a, b, y = arrays_of(graph, {"x": x}, ["a", "b", "y"])
    np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(y, np.exp(np.sin(x)))


def test_the_name_of_what_is_given_stays_with_it() -> None:
    graph = lowered(("assign", "x", "a"), ("sin", "a", "b"), targets=["a", "b"])
    graph.substitute(graph.value("a"), graph.value("x"))
    assert graph.value("x").given
    assert graph.value("a").writers[0].input("X") is graph.value("x")
    assert only(graph, "sin").input("X") is graph.value("x")
    for op in list(graph.ops):
        erase_if_dead(op)
    verify(graph)
    assert sound(graph)
    assert sorted(type_names(graph)) == ["assign", "sin"]


def test_what_is_not_requested_gives_its_readers_only() -> None:
    graph = lowered(*LINES)
    graph.substitute(graph.value("a"), graph.value("x"))
    assert (graph.value("a").name, list(graph.value("a").readers)) == ("a", [])
    assert len(graph.value("x").readers) == 3


def test_a_persistable_value_is_handed_over_with_its_variable() -> None:
    program = ga.Program()
    block = program.global_block()
    block.create_parameter(name="w", shape=[3], dtype="float32")
    block.append_op(type="increment", inputs={"X": "w"}, outputs={"Out": "w"})
    graph = ga.lower(program)
    old = graph.value("w")
    new = graph.add_value("new", (3,), "float32")
    graph.add_op("scale", {"X": [graph.value("w#0")]}, {"Out": [new]}, {"bias": 1.0})
    graph.substitute(old, new)
    assert (new.name, new.persistable, old.persistable) == ("w", True, False)
    erase_if_dead(only(graph, "increment"))
    assert [str(op) for op in ga.schedule(graph).global_block().ops] == [str(op) for op in ga.schedule(graph.clone()).global_block().ops]
    assert graph.versions("w")[-1] is new
    verify(graph)
    assert sound(graph)


def test_a_version_takes_the_place_of_a_later_one() -> None:
    """x = x + 1; x = relu(relu(x)): the value of the first writing gets the last's place."""
    graph = lowered(("increment", "x", "x"), ("assign", "x", "x"), ("sin", "x", "y"), targets=["x", "y"])
    graph.substitute(graph.value("x#2"), graph.value("x#1"))
    for op in list(graph.ops):
        erase_if_dead(op)
    verify(graph)
    assert sound(graph)
    x, y = arrays_of(graph, {"x": np.zeros((2, 3))}, ["x", "y"])
    assert (x == 1).all()
    np.testing.assert_allclose(y, np.sin(x))


# -- schedule ------------------------------------------------------------------------------------


def test_a_name_handed_over_is_that_of_the_program() -> None:
    graph = lowered(("exp", "x", "a"), ("sin", "a", "b"), ("exp", "b", "c"), ("log", "c", "y"), ("cos", "b", "z"), targets=["y", "z"])
    assert log_exp.rewrite(only(graph, "log"))
    program = ga.schedule(graph)
    assert [list(op.outputs.values()) for op in program.global_block().ops] == [[["a"]], [["y"]], [["z"]]]
    (y, z) = ga.Executor().run(program, {"x": np.ones((2, 3))}, ["y", "z"], scope=ga.Scope())
    np.testing.assert_allclose(z, np.cos(y))


def test_a_target_keeps_its_name_where_its_name_is_wanted_by_two() -> None:
    """Another value of the name lives as long: it gets another name, the target does not."""
    graph = lowered(("increment", "x", "x"), ("sin", "x", "s"), ("increment", "x", "x"), targets=["x", "s"])
    late = graph.add_value("late", (2, 3), "float64")
    graph.add_op("elementwise_add", {"X": [graph.value("x#1")], "Y": [graph.value("x#2")]}, {"Out": [late]})
    graph.targets[late] = None
    x, late_value = arrays_of(graph, {"x": np.zeros((2, 3))}, ["x", "late"])
    assert (x == 2).all()
    assert (late_value == 3).all()


def test_what_was_requested_reads_back() -> None:
    graph = lowered(*LINES, targets=["a", "c"])
    erase_if_dead(only(graph, "exp"))
    again = ga.lower(ga.schedule(graph), ["a", "c"])
    assert str(again) == str(graph)


def test_gradients_that_stop_at_the_old_value_stop_at_the_new_one() -> None:
    """In a whole program, where no name is requested, and in a nested graph alike."""
    for graph, around in stopped_programs():
        old = graph.value("a")
        fresh = graph.add_value("fresh", old.shape, old.dtype)
        graph.add_op("sin", {"X": [graph.value("x")]}, {"Out": [fresh]}, before=only(graph, "exp"))
        graph.substitute(old, fresh)
        erase_if_dead(only(graph, "tanh"))
        verify(around)
        assert only(graph, "exp").input("X").stop_gradient
        assert not graph.value("x").stop_gradient


def test_a_value_where_gradients_flow_does_not_stop_them_for_its_other_readers() -> None:
    for graph, around in stopped_programs():
        graph.substitute(graph.value("a"), graph.value("x"))
        erase_if_dead(only(graph, "tanh"))
        verify(around)
        assert only(graph, "exp").input("X").stop_gradient
        assert not graph.value("x").stop_gradient
        assert only(graph, "cos").input("X") is graph.value("x")


def stopped_programs() -> list[tuple[ga.Graph, ga.Graph]]:
    """x -> tanh -> a (where gradients stop) -> exp -> y; x -> cos -> z: as a program, and as the body of a net."""
    lines = "tanh(X=x) -> (Out=a) exp(X=a) -> (Out=y) cos(X=x) -> (Out=z)"
    types = "var x: float64[2] var y: float64[2] var z: float64[2]"
    local = "var a: float64[2] stop_gradient"
    plain = ga.lower(ga.Program.parse(f"program {{ block 0 {{ {types} {local} {lines} }} }}"))
    call = f"block 0 {{ {types} net(X=x) -> (Out=[y, z]) {{sub_block=block(1)}} }}"
    nested = ga.lower(ga.Program.parse(f"program {{ {call} block 1 in 0 {{ {local} {lines} }} }}"))
    return [(plain, plain), (only(nested, "net").graphs["sub_block"], nested)]


def test_a_value_where_gradients_stop_keeps_its_name_to_itself() -> None:
    """The name of a requested value where gradients flow stays with one where they do."""
    text = """program { block 0 { var x: float64[2] var a: float64[2] stop_gradient var b: float64[2] var y: float64[2]
      tanh(X=x) -> (Out=a) assign(X=a) -> (Out=b) exp(X=a) -> (Out=y) } }"""
    graph = ga.lower(ga.Program.parse(text), ["b", "y"])
    graph.substitute(graph.value("b"), graph.value("a"))
    verify(graph)
    assert not graph.value("b").stop_gradient
    assert only(graph, "exp").input("X").stop_gradient


def test_an_operator_never_gets_one_name_for_two_values() -> None:
    """The operator that writes w writes t as well; w is overwritten with t, which cannot become the operator's second w."""
    program = ga.Program.parse("""program { block 0 { var x: float32[2, 4] param w: float32[2] var t: float32[2] var y: float32[2, 4]
      layer_norm(X=x) -> (Y=y, Mean=w, Variance=t) assign(X=t) -> (Out=w) } }""")
    graph = ga.lower(program)
    graph.substitute(graph.value("w"), graph.value("t"))
    for op in list(graph.ops):
        erase_if_dead(op)
    verify(graph)
    norm, copy = ga.schedule(graph).global_block().ops
    assert norm.outputs == {"Y": ["y"], "Mean": ["w"], "Variance": ["t"]}
    assert (copy.input("X"), copy.output("Out")) == (["t"], ["w"])
