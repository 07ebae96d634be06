"""The graph's few ways of changing: they keep readers and writers right, and refuse nonsense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import graphad as ga
from graphad.errors import InvalidGraph, InvalidType, InvalidValue
from tests import graphs
from tests.graphs import diamond, op, sound, types, written_over

# -- looking -------------------------------------------------------------------------------------


def test_a_name_written_again_is_another_version() -> None:
    graph = written_over()
    assert [repr(v) for v in graph.versions("x")] == ["x#0", "x#1", "x#2"]
    assert [v.version for v in graph.versions("x")] == [0, 1, 2]
    first, second, last = map(repr, graph.ops)
    assert (first, second) == ("increment(X=x#0) -> (Out=x#1)", "increment(X=x#1) -> (Out=x#2)")
    assert last == "tanh(X=x#2) -> (Out=y)"


def test_a_name_stands_for_its_final_value() -> None:
    graph = written_over()
    assert graph.value("x") is graph.versions("x")[2] is graph.value("x#2")
    assert graph.value("x#0") is graph.inputs[0]
    assert repr(graph.value("y")) == "y"
    assert graph.versions("nothing") == ()


@pytest.mark.parametrize("name", ["z", "x#3", "x#-1", "x#", "#0", ""])
def test_asking_for_a_value_that_is_not_there(name: str) -> None:
    with pytest.raises(InvalidValue, match="the graph has no value"):
        written_over().value(name)


def test_a_wrong_name_gets_a_hint() -> None:
    program = ga.Program()
    program.global_block().create_var(name="weights", shape=[2])
    program.global_block().append_op(type="tanh", inputs={"X": "weights"}, outputs={"Out": "y"})
    with pytest.raises(InvalidValue, match="did you mean 'weights'"):
        ga.lower(program).value("weight")


def test_given_makes_an_input_of_what_the_block_declares() -> None:
    program = ga.Program()
    program.global_block().create_var(name="x", shape=[2], dtype="float64")
    graph = ga.lower(program)
    assert graph.versions("x") == ()
    x = graph.given("x")
    assert (x.shape, x.dtype, graph.inputs) == ((2,), "float64", [x])
    assert graph.given("x") is x
    with pytest.raises(InvalidValue, match="no value 'z'"):
        graph.given("z")


def test_operators_know_their_lines_and_makers() -> None:
    graph = diamond()
    tanh = op(graph, "tanh")
    assert tanh.made_by is None
    assert tanh.source is not None
    assert tanh.source.file == graphs.__file__
    graph.journal.author = "some-pass"
    made = graph.add_op("assign", {"X": [graph.value("h")]}, {"Out": [graph.add_value("c")]}, role="backward", forward=tanh)
    assert (made.made_by, made.forward, made.source, made.role) == ("some-pass", tanh, tanh.source, "backward")


# -- changing ------------------------------------------------------------------------------------


def test_add_op_puts_it_before_another_one_or_last() -> None:
    graph = diamond()
    h = graph.value("h")
    graph.add_op("assign", {"X": [h]}, {"Out": [graph.add_value("c")]}, before=op(graph, "exp"))
    graph.add_op("square", {"X": [h]}, {"Out": [graph.add_value("d")]})
    assert types(graph) == ["tanh", "sin", "assign", "exp", "elementwise_add", "square"]
    assert types(graph)[::-1] == [each.type for each in reversed(graph.ops)]
    assert [each.type for each in h.readers] == ["sin", "exp", "assign", "square"]


def test_operators_have_places() -> None:
    graph = diamond()
    ops = list(graph.ops)
    assert [graph.ops[place] for place in range(-len(ops), len(ops))] == ops * 2
    assert graph.ops[1:3] == ops[1:3]
    assert graph.ops[::-1] == ops[::-1]
    for place in (len(ops), -len(ops) - 1):
        with pytest.raises(IndexError, match=f"operator {place} of a graph that has {len(ops)}"):
            graph.ops[place]


def test_values_have_no_places() -> None:
    with pytest.raises(TypeError, match=r"graph.value\('x'\) is the last value"):
        diamond().values["x"]


def test_a_taken_name_gets_a_number() -> None:
    graph = diamond()
    assert [graph.add_value("h").name for _ in range(3)] == ["h_0", "h_1", "h_2"]
    assert graph.add_version("h").name == "h"


def test_remove_op_takes_along_what_is_then_unused() -> None:
    graph = diamond()
    made = graph.add_op("assign", {"X": [graph.value("h")]}, {"Out": [graph.add_value("c")]})
    graph.remove_op(made)
    assert graph.versions("c") == ()
    assert types(graph) == ["tanh", "sin", "exp", "elementwise_add"]
    assert made not in graph.value("h").readers
    assert made not in graph


def test_remove_op_keeps_what_is_given_from_outside() -> None:
    graph = diamond()
    x = graph.value("x")
    graph.remove_op(op(graph, "tanh"))
    assert graph.value("x") is x
    assert graph.inputs == [x]
    assert not x.readers
    assert graph.value("h").writer is None


def test_operators_can_be_removed_and_added_while_one_looks_at_them() -> None:
    graph = diamond()
    for each in graph.ops:
        if each.type in ("sin", "exp"):
            graph.add_op("cos", {"X": [each.input("X")]}, {"Out": [each.output("Out")]}, before=each)
            graph.remove_op(each)
    assert types(graph) == ["tanh", "cos", "cos", "elementwise_add"]
    assert [repr(v.writer) for v in op(graph, "elementwise_add").reads()] == ["cos(X=h) -> (Out=a)", "cos(X=h) -> (Out=b)"]


def test_replace_changes_every_reader() -> None:
    graph = diamond()
    graph.replace(graph.value("h"), graph.value("x"))
    assert [repr(each) for each in graph.value("x").readers] == ["tanh(X=x) -> (Out=h)", "sin(X=x) -> (Out=a)", "exp(X=x) -> (Out=b)"]
    assert not graph.value("h").readers


def test_replace_in_several_slots_of_one_operator() -> None:
    graph = diamond()
    add, h = op(graph, "elementwise_add"), graph.value("h")
    graph.set_inputs(add, "Y", [graph.value("a")])
    graph.replace(graph.value("a"), h)
    assert (add.inputs["X"], add.inputs["Y"]) == ((h,), (h,))
    assert not graph.value("a").readers


def test_replace_keeps_the_order_of_slots() -> None:
    graph = diamond()
    graph.replace(graph.value("a"), graph.value("h"))
    assert repr(op(graph, "elementwise_add")) == "elementwise_add(X=h, Y=b) -> (Out=y)"


def test_set_inputs_and_set_outputs() -> None:
    graph = diamond()
    sin, c = op(graph, "sin"), graph.add_value("c", (2,), "float64")
    graph.set_outputs(sin, "Out", [c])
    graph.set_inputs(sin, "X", [graph.value("x")])
    assert (c.writers, graph.value("a").writers) == ([sin], [])
    assert sin in graph.value("x").readers
    assert sin not in graph.value("h").readers
    graph.set_outputs(sin, "Out", ())
    assert sin.outputs == {}
    assert graph.versions("c") == ()


def test_rename() -> None:
    graph = written_over()
    graph.rename(graph.value("x#1"), "between")
    assert repr(next(iter(graph.ops))) == "increment(X=x#0) -> (Out=between)"
    assert [repr(v) for v in graph.versions("x")] == ["x#0", "x#1"]
    assert graph.value("between").writer is next(iter(graph.ops))


def test_every_edit_is_counted() -> None:
    graph = diamond()
    h, tanh = graph.value("h"), op(graph, "tanh")
    edits: list[Callable[[], object]] = [
        lambda: graph.add_value("c"),
        lambda: graph.add_op("assign", {"X": [h]}, {"Out": [graph.value("c")]}),
        lambda: graph.set_type(graph.value("c"), (2,), "float64"),
        lambda: graph.rename(h, "g"),
        lambda: graph.replace(h, graph.value("x")),
        lambda: graph.set_inputs(op(graph, "sin"), "X", [h]),
        lambda: graph.set_outputs(tanh, "Out", [graph.value("c")]),
        lambda: graph.remove_op(tanh),
    ]
    for edit in edits:
        before = graph.journal.edits + graph.journal.typings
        edit()
        assert graph.journal.edits + graph.journal.typings > before


# -- refusing ------------------------------------------------------------------------------------

OTHER = diamond()
GONE = op(OTHER, "exp")
OTHER.remove_op(GONE)
REFUSED: dict[str, Callable[[ga.Graph], object]] = {
    "add_op reads another graph's value": lambda g: g.add_op("tanh", {"X": [OTHER.value("h")]}, {"Out": [g.value("y")]}),
    "add_op writes another graph's value": lambda g: g.add_op("fill_constant", {}, {"Out": [OTHER.value("h")]}),
    "add_op before another graph's operator": lambda g: g.add_op("fill_constant", {}, {"Out": [g.value("y")]}, before=op(OTHER, "tanh")),
    "add_op before a removed operator": lambda g: g.add_op("fill_constant", {}, {"Out": [g.value("y")]}, before=GONE),
    "remove_op of another graph": lambda g: g.remove_op(op(OTHER, "tanh")),
    "remove_op of a removed operator": lambda g: g.remove_op(GONE),
    "set_inputs of another graph's operator": lambda g: g.set_inputs(op(OTHER, "tanh"), "X", [g.value("x")]),
    "set_inputs to another graph's value": lambda g: g.set_inputs(op(g, "tanh"), "X", [OTHER.value("x")]),
    "set_outputs of another graph's operator": lambda g: g.set_outputs(op(OTHER, "tanh"), "Out", [g.value("x")]),
    "set_outputs to another graph's value": lambda g: g.set_outputs(op(g, "tanh"), "Out", [g.value("h"), OTHER.value("x")]),
    "replace another graph's value": lambda g: g.replace(OTHER.value("h"), g.value("h")),
    "replace by another graph's value": lambda g: g.replace(g.value("h"), OTHER.value("h")),
    "rename another graph's value": lambda g: g.rename(OTHER.value("h"), "fresh"),
    "set_type of another graph's value": lambda g: g.set_type(OTHER.value("h"), (2,), "float64"),
}


@pytest.mark.parametrize("edit", REFUSED.values(), ids=REFUSED)
def test_what_is_of_another_graph_is_refused(edit: Callable[[ga.Graph], object]) -> None:
    graph, other = diamond(), str(OTHER)
    before = str(graph)
    with pytest.raises(InvalidGraph, match="not in this graph"):
        edit(graph)
    assert (str(graph), str(OTHER)) == (before, other)
    assert sound(graph)
    assert sound(OTHER)


@pytest.mark.parametrize("slots", [("h", "other"), ("other", "y")])
def test_a_refused_operator_leaves_no_trace(slots: tuple[str, str]) -> None:
    graph = diamond()
    value = {"h": graph.value("h"), "y": graph.value("y"), "other": OTHER.value("h")}
    with pytest.raises(InvalidGraph, match="not in this graph"):
        graph.add_op("assign", {"X": [graph.value("h")]}, {"Out": [value[name] for name in slots]})
    assert sound(graph)


def test_renaming_to_a_name_that_is_taken_is_refused() -> None:
    graph = diamond()
    with pytest.raises(InvalidValue, match="cannot rename h to 'a'"):
        graph.rename(graph.value("h"), "a")
    assert graph.value("h").name == "h"


NONSENSE: dict[str, Callable[[Any, Any], object]] = {
    "add_op reads a name": lambda g, _: g.add_op("tanh", {"X": ["x"]}, {"Out": [g.value("y")]}),
    "add_op reads a value without brackets": lambda g, x: g.add_op("tanh", {"X": x}, {"Out": [g.value("y")]}),
    "remove_op of nothing": lambda g, x: g.remove_op(None),
    "replace by a name": lambda g, x: g.replace(x, "h"),
    "rename to a number": lambda g, x: g.rename(x, 3),
    "value of a number": lambda g, _: g.value(3),
}


@pytest.mark.parametrize("edit", NONSENSE.values(), ids=NONSENSE)
def test_things_of_the_wrong_type_are_refused(edit: Callable[[Any, Any], object]) -> None:
    graph = diamond()
    with pytest.raises(InvalidType):
        edit(graph, graph.value("x"))
