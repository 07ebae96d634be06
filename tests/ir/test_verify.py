"""Every rule of the verifier, broken by the smallest graph that breaks it, and by nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import graphad as ga
from graphad.errors import InvalidGraph
from graphad.ir import SINGLE_WRITER, TYPED, Op
from graphad.ir.verify import RULES, verify
from graphad.rewriting import run_pass, verification
from graphad.types import Extent
from tests.scratch import passes

Edit = Callable[[ga.Graph], object]
HERE = re.escape(__file__)


def tower() -> ga.Graph:
    """tanh(x) -> h, elementwise_add(h, x) -> y, mean(y) -> loss."""
    program = ga.Program()
    block = program.global_block()
    block.create_var(name="x", shape=[2, 3], dtype="float64")
    block.append_op(type="tanh", inputs={"X": "x"}, outputs={"Out": "h"})
    block.append_op(type="elementwise_add", inputs={"X": "h", "Y": "x"}, outputs={"Out": "y"})
    block.append_op(type="mean", inputs={"X": "y"}, outputs={"Out": "loss"})
    return ga.lower(program)


def loop() -> ga.Graph:
    """while(more) { sin(k) -> k, logical_not(more) -> more }; x beside it."""
    program = ga.Program()
    block = program.global_block()
    block.create_var(name="k", shape=[2, 3], dtype="float64")
    block.create_var(name="more", shape=[1], dtype="bool")
    body = program.create_block()
    body.append_op(type="sin", inputs={"X": "k"}, outputs={"Out": "k"})
    body.append_op(type="logical_not", inputs={"X": "more"}, outputs={"Out": "more"})
    inputs, outputs = {"X": "k", "Condition": "more"}, {"Out": ["k", "more"], "StepScopes": "scopes"}
    block.append_op(type="while", inputs=inputs, outputs=outputs, attrs={"sub_block": body})
    block.append_op(type="assign", inputs={"X": "k"}, outputs={"Out": "x"})
    return ga.lower(program)


def body(graph: ga.Graph) -> ga.Graph:
    """The graph nested in the loop."""
    return op(graph, "while").graphs["sub_block"]


def branch() -> ga.Graph:
    """y = sin(tanh(x)) if c, else x; its gradient."""
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [2, 3], "float64", append_batch_size=False, stop_gradient=False)
        c = ga.layers.data("c", [1], "bool", append_batch_size=False)
        y = ga.layers.cond(c, lambda: ga.layers.sin(ga.layers.tanh(x)), lambda: x)
        ga.gradients(y, x)
    return ga.lower(program)


def branch_gradient(graph: ga.Graph) -> ga.Graph:
    """The graph of the gradient of the branch that is taken; it reads tanh(x) of the forward graph."""
    return op(graph, "if_else_grad").graphs["true_block"]


def op(graph: ga.Graph, type: str) -> Op:
    (found,) = [each for each in graph.ops if each.type == type]
    return found


# -- one edit a rule (some have several ways to break) --------------------------------------------


def touch_a_value_of_another_graph(graph: ga.Graph) -> None:
    graph.value("y").graph = ga.Graph()


def forget_a_reader(graph: ga.Graph) -> None:
    del graph.value("h").readers[op(graph, "elementwise_add")]


def forget_a_writer(graph: ga.Graph) -> None:
    graph.set_inputs(op(graph, "mean"), "X", [graph.value("x")])
    graph.properties -= {SINGLE_WRITER}
    graph.value("y").writers.clear()


def invent_a_reader(graph: ga.Graph) -> None:
    graph.value("h").readers[op(graph, "mean")] = None


def invent_a_writer(graph: ga.Graph) -> None:
    graph.properties -= {SINGLE_WRITER}
    graph.value("y").writers.append(op(graph, "tanh"))


def read_what_nothing_writes(graph: ga.Graph) -> None:
    graph.set_inputs(op(graph, "mean"), "X", [graph.add_value("ghost", (2, 3), "float64")])


def write_what_is_given(graph: ga.Graph) -> None:
    graph.add_op("fill_constant", {}, {"Out": [graph.value("x")]}, {"shape": [2, 3], "dtype": "float64"}, before=op(graph, "tanh"))


def write_twice(graph: ga.Graph) -> None:
    graph.add_op("sigmoid", {"X": [graph.value("x")]}, {"Out": [graph.value("h")]}, before=op(graph, "elementwise_add"))


def write_one_name_twice(graph: ga.Graph) -> None:
    values, places = graph.add_version("both", (2, 1), "float64"), graph.add_version("both", (2, 1), "int64")
    graph.add_op("top_k_v2", {"X": [graph.value("h")]}, {"Out": [values], "Indices": [places]})


def draw_the_same_twice(graph: ga.Graph) -> None:
    for name in ("a", "b"):
        drawn = graph.add_value(name, (2,), "float32")
        graph.add_op("uniform_random", {}, {"Out": [drawn]}, {"shape": [2]}).stream = "a"


def wait_for_itself(graph: ga.Graph) -> None:
    graph.set_inputs(op(graph, "tanh"), "X", [graph.value("y")])


def leave_a_slot_empty(graph: ga.Graph) -> None:
    graph.set_inputs(op(graph, "elementwise_add"), "Y", ())


def fill_an_unknown_slot(graph: ga.Graph) -> None:
    graph.set_inputs(op(graph, "elementwise_add"), "Z", [graph.value("x")])


def crowd_a_slot(graph: ga.Graph) -> None:
    graph.set_inputs(op(graph, "elementwise_add"), "Y", [graph.value("x"), graph.value("x")])


def make_a_value_without_type(graph: ga.Graph) -> None:
    graph.add_op("assign", {"X": [graph.value("h")]}, {"Out": [graph.add_value("copy")]})


def pass_in_too_much(graph: ga.Graph) -> None:
    graph.set_inputs(op(graph, "while"), "X", [*op(graph, "while").inputs["X"], graph.versions("k")[0]])


def return_too_much(graph: ga.Graph) -> None:
    body(graph).results.insert(0, body(graph).value("k"))


def ask_for_something_else_than_the_last_value(graph: ga.Graph) -> None:
    graph.set_inputs(op(graph, "while"), "Condition", [graph.versions("k")[0]])


def take_a_value_of_another_graph(graph: ga.Graph) -> None:
    body(graph).inputs[0] = graph.value("x")


def return_a_value_of_another_graph(graph: ga.Graph) -> None:
    body(graph).results[0] = graph.value("x")


def keep_a_value_of_another_graph(graph: ga.Graph) -> None:
    body(graph).residuals.append(graph.value("x"))


def keep_a_value_twice(graph: ga.Graph) -> None:
    inner = branch_gradient(graph)
    op(graph, "if_else").graphs["true_block"].residuals *= 2
    inner.add_input("again", (2, 3), "float64")


def keep_what_no_gradient_takes(graph: ga.Graph) -> None:
    forward = op(graph, "if_else").graphs["true_block"]
    forward.residuals.append(forward.inputs[0])


def take_residuals_out_of_place(graph: ga.Graph) -> None:
    inner = branch_gradient(graph)
    inner.set_type(inner.inputs[0], (3, 2), "float64")
    inner.inputs.reverse()


def nest_a_graph_twice(graph: ga.Graph) -> None:
    loop = op(graph, "while")
    loop.graphs = {"sub_block": loop.graphs["sub_block"].clone()}


def misshape_a_gradient(graph: ga.Graph) -> None:
    gradient = graph.add_value("h@GRAD", (3, 2), "float64")
    gradient.grad_of = graph.value("h")
    graph.add_op("fill_constant", {}, {"Out": [gradient]}, {"shape": [3, 2], "dtype": "float64"})


def name_two_numbers(graph: ga.Graph) -> None:
    graph.value("h").shape = (2, Extent("n"))
    graph.value("y").shape = (Extent("n"), 3)


BREAKS: dict[Edit, tuple[str, str]] = {
    touch_a_value_of_another_graph: ("in_graph", "operator elementwise_add: it touches y, which is not in the graph"),
    forget_a_reader: ("linked", "operator elementwise_add: it reads h, which does not know it as a reader"),
    forget_a_writer: ("linked", "operator elementwise_add: it writes y, which does not know it as a writer"),
    invent_a_reader: ("linked", "value h: it is linked to mean(X=y) -> (Out=loss), which does not read it"),
    invent_a_writer: ("linked", "value y: it is linked to tanh(X=x) -> (Out=h), which does not write it"),
    read_what_nothing_writes: ("written", "value ghost: mean(X=ghost) -> (Out=loss) reads it, but nothing writes it"),
    write_what_is_given: ("written", "value x: it is given from outside and written inside"),
    write_twice: ("one_writer", "value h: it is written 2 times: by tanh(X=x) -> (Out=h) and by sigmoid(X=x) -> (Out=h)"),
    write_one_name_twice: ("distinct_names", "operator top_k_v2: it writes both twice, as both#0 and as both#1"),
    draw_the_same_twice: (
        "distinct_streams",
        "operator uniform_random: it draws from the random stream 'a', as uniform_random() -> (Out=a) does",
    ),
    wait_for_itself: ("acyclic", "operators wait for one another in a cycle"),
    leave_a_slot_empty: ("slots_filled", "operator elementwise_add: input slot Y is empty"),
    fill_an_unknown_slot: ("slots_filled", "operator elementwise_add: it has an input slot Z; its definition has X, Y"),
    crowd_a_slot: ("slots_filled", "operator elementwise_add: input slot Y holds 2 values"),
    pass_in_too_much: ("nested", "operator while: sub_block takes 2 values, but 3 are passed in and 0 are residuals"),
    return_too_much: ("nested", "operator while: sub_block returns 3 values, but the operator writes 2"),
    ask_for_something_else_than_the_last_value: ("nested", "operator while: its condition k#0 is not the last value it carries"),
    take_a_value_of_another_graph: ("nested", "operator while: sub_block takes or returns x, which is not in it"),
    return_a_value_of_another_graph: ("nested", "operator while: sub_block takes or returns x, which is not in it"),
    keep_a_value_of_another_graph: ("nested", "operator while: sub_block takes or returns x, which is not in it"),
    keep_a_value_twice: ("nested", "operator if_else: true_block keeps tanh_0.tmp_0 twice"),
    keep_what_no_gradient_takes: ("nested", "operator if_else_grad: true_block takes 2 values, but 1 are passed in and 2 are residuals"),
    take_residuals_out_of_place: (
        "nested",
        "true_block takes cond_0.tmp_0@GRAD, which is float64[3, 2], as the residual tanh_0.tmp_0, which is float64[2, 3]",
    ),
    nest_a_graph_twice: ("nested", "operator while: sub_block says that it is nested in None"),
    make_a_value_without_type: ("typed", "value copy: it has no type"),
    misshape_a_gradient: ("gradients_fit", "value h@GRAD: it is float64[3, 2], but what it is the gradient of, h, is float64[2, 3]"),
    name_two_numbers: ("extents_agree", "value y: its extent n is 2, but n is 3 in h, which is float64[2, n]"),
}


WITHOUT_LINE = ("typed", "gradients_fit", "distinct_names", "distinct_streams")  # what a pass made for no operator in particular


def start(edit: Edit) -> ga.Graph:
    """The graph that an edit breaks: one with a nested graph, or one without."""
    if edit in (keep_a_value_twice, keep_what_no_gradient_takes, take_residuals_out_of_place):
        return branch()
    return loop() if BREAKS[edit][0] == "nested" else tower()


CASES = pytest.mark.parametrize("edit", BREAKS, ids=lambda edit: edit.__name__)


def test_a_lowered_program_keeps_all_rules() -> None:
    verify(tower())
    verify(loop())
    verify(branch())


def test_every_rule_has_a_case() -> None:
    assert {rule for rule, _ in BREAKS.values()} == {rule.__name__ for rule in RULES}


@CASES
def test_the_edit_breaks_its_rule_and_no_other(edit: Edit) -> None:
    graph = start(edit)
    edit(graph)
    assert [rule.__name__ for rule in RULES if list(rule(graph))] == [BREAKS[edit][0]]


@CASES
def test_the_message_names_rule_node_and_line(edit: Edit) -> None:
    graph = start(edit)
    edit(graph)
    rule, complaint = BREAKS[edit]
    with pytest.raises(InvalidGraph, match=f"(?s)^{rule}: .*{re.escape(complaint)}.*") as raised:
        verify(graph)
    if rule not in (
        "typed",
        "gradients_fit",
        "distinct_names",
        "distinct_streams",
    ):  # what a pass made for no operator in particular has no line
        assert re.search(rf"written at {HERE}:\d+", str(raised.value))


@CASES
def test_the_message_names_the_pass(edit: Edit) -> None:
    graph = start(edit)
    with passes(), pytest.raises(InvalidGraph, match=rf"^after pass break-it: {BREAKS[edit][0]}: "):
        run_pass(breaking(edit), graph)


@CASES
def test_nothing_is_checked_with_verification_off(edit: Edit) -> None:
    with passes(), verification(False):
        assert run_pass(breaking(edit), start(edit))


def breaking(edit: Edit) -> ga.Pass:
    class Break(ga.Pass):
        name = "break-it"

        def apply(self, graph: ga.Graph) -> bool:
            edit(graph)
            return True

        def __str__(self) -> str:
            return self.name

    return Break()


def test_the_message_shows_the_operators_around_a_value_and_who_made_them() -> None:
    with passes(), pytest.raises(InvalidGraph) as raised:
        run_pass(breaking(write_twice), tower())
    lines = str(raised.value).splitlines()
    assert "  tanh(X=x) -> (Out=h: float64[2, 3])" in lines
    assert "  sigmoid(X=x) -> (Out=h: float64[2, 3])    made by break-it" in lines
    assert "  elementwise_add(X=h, Y=x) -> (Out=y: float64[2, 3])" in lines


def test_the_cycle_is_shown() -> None:
    graph = tower()
    wait_for_itself(graph)
    with pytest.raises(InvalidGraph, match="in a cycle: ") as raised:
        verify(graph)
    cycle = str(raised.value).splitlines()[0].split("in a cycle: ")[1]
    assert set(cycle.split(" -> ")) == {"tanh(X=y)", "(Out=h)", "h", "elementwise_add(X=h, Y=x)", "(Out=y)", "y"}


def test_a_cycle_is_reported_at_an_operator_on_it() -> None:
    graph = tower()
    wait_for_itself(graph)
    graph.add_op("sin", {"X": [graph.value("x")]}, {"Out": [graph.add_value("s", (2, 3), "float64")]}, before=op(graph, "tanh"))
    with pytest.raises(InvalidGraph, match=r"acyclic: operator (tanh|elementwise_add): "):
        verify(graph)


@pytest.mark.parametrize(("edit", "claim"), [(write_twice, SINGLE_WRITER), (make_a_value_without_type, TYPED)])
def test_a_rule_about_a_property_holds_only_for_graphs_that_claim_it(edit: Edit, claim: str) -> None:
    graph = tower()
    edit(graph)
    graph.properties.discard(claim)
    verify(graph)


def test_a_value_may_be_unwritten_between_passes() -> None:
    graph = tower()
    graph.properties.discard(SINGLE_WRITER)
    read_what_nothing_writes(graph)
    verify(graph)
