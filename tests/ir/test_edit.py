"""Edits of graphs: what each keeps of random nested programs, bit for bit, what it refuses, and who is said to have made what."""

from __future__ import annotations

import ast
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import graphad as ga
from graphad import edit, ops
from graphad.errors import InvalidGraph, InvalidType
from graphad.ir import Graph, Op, Value
from graphad.ir.regions import BranchLike, CallLike, LoopLike
from graphad.ir.verify import verify
from graphad.passes import DeadCode
from graphad.testing import Case, nested_programs
from tests.graphs import op, types
from tests.pages import examples
from tests.source_tree import ROOT
from tests.test_random_nested import assert_runs_alike

some = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large])
COUNTED = """program {
  block 0 {
    var h: float64[2]
    var w: float64[2]
    var n: int64[1] stop_gradient
    var i: int64[1] stop_gradient
    var more: bool[1] stop_gradient
    fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
    less_than(X=i, Y=n) -> (Out=more)
    while(X=[h, w, i, n], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)}
  }
  block 1 in 0 {
    elementwise_mul(X=h, Y=w) -> (Out=h)
    increment(X=i) -> (Out=i)
    less_than(X=i, Y=n) -> (Out=more)
  }
}"""
NET = """program {
  block 0 {
    var x: float64[2]
    var y: float64[2]
    net(X=x) -> (Out=y) {sub_block=block(1)}
  }
  block 1 in 0 {
    var a: float64[2]
    var b: float64[2]
    tanh(X=x) -> (Out=a)
    square(X=a) -> (Out=b)
    elementwise_add(X=b, Y=x) -> (Out=y)
  }
}"""


def lowered(text: str) -> Graph:
    return ga.lower(ga.Program.parse(text))


def result(graph: Graph, name: str, n: int = 0) -> np.ndarray:
    feed = {"h": np.array([0.5, -0.25]), "w": np.array([0.9, 1.2]), "n": np.array([n]), "x": np.array([0.3, 0.7])}
    program = ga.schedule(graph)
    given = {name: value for name, value in feed.items() if name in program.global_block().vars}
    (found,) = ga.Executor().run(program, feed=given, fetch_list=[name])
    return np.asarray(found)


def kinds(graph: Graph, interface: type[LoopLike | BranchLike | CallLike]) -> list[Op]:
    found = [interface.of(each) for inner in graph.tree() for each in inner.controls]
    return [each.op for each in found if each is not None and not each.is_gradient]


def edited(p: Case, change: Callable[[Op], object], interface: type[LoopLike | BranchLike | CallLike]) -> None:
    """Change each such operator of a program, the innermost first, where that is not refused; the values of block 0 stay."""
    graph = ga.lower(p.program)
    for each in reversed(kinds(graph, interface)):
        with suppress(InvalidGraph):
            change(each)
        verify(graph)
    assert_runs_alike(p, ga.schedule(graph))


# -- what stays ----------------------------------------------------------------------------------


@some
@given(nested_programs())
def test_peeling_keeps_what_is_computed(p: Case) -> None:
    edited(p, edit.peel, LoopLike)


@some
@given(nested_programs())
def test_peeling_twice_keeps_what_is_computed(p: Case) -> None:
    edited(p, lambda loop: (edit.peel(loop), edit.peel(loop)), LoopLike)


@some
@given(nested_programs())
def test_splitting_a_loop_keeps_what_is_computed(p: Case) -> None:
    edited(p, lambda loop: edit.split_loop(loop, 1), LoopLike)
    edited(p, lambda loop: edit.split_loop(loop, 0), LoopLike)


@some
@given(nested_programs())
def test_an_unused_carried_value_comes_and_goes(p: Case) -> None:
    def change(loop: Op) -> None:
        before = str(loop)
        start = loop.graph.add_value("start", (1,), "float32")
        loop.graph.add_op("fill_constant", {}, {"Out": [start]}, {"shape": [1], "value": 3.0, "dtype": "float32"}, before=loop)
        _, out = edit.add_carried(loop, start)
        verify(loop.graph)
        assert out in LoopLike.of(loop).results  # type: ignore[union-attr]
        assert edit.remove_result(loop, loop.outputs["Out"].index(out))
        assert str(loop) == before

    edited(p, change, LoopLike)


@some
@given(nested_programs())
def test_a_carried_value_that_stays_changes_nothing(p: Case) -> None:
    def change(loop: Op) -> None:
        start = loop.graph.add_value("start", (1,), "float32")
        loop.graph.add_op("fill_constant", {}, {"Out": [start]}, {"shape": [1], "value": 3.0, "dtype": "float32"}, before=loop)
        argument, out = edit.add_carried(loop, start)
        builder = edit.Builder(argument.graph)
        edit.set_yielded(loop, out, [ops.tanh(builder.symbol(argument)).value])

    edited(p, change, LoopLike)


@some
@given(nested_programs())
def test_splitting_a_call_keeps_what_is_computed(p: Case) -> None:
    edited(p, lambda call: edit.split_call(call, next(iter(call.graphs.values())).ordered_ops()[:1]), CallLike)


@some
@given(nested_programs())
def test_inlining_a_call_and_outlining_it_keeps_what_is_computed(p: Case) -> None:
    edited(p, lambda call: edit.outline(edit.inline(call)), CallLike)


@some
@given(nested_programs())
def test_a_result_more_of_a_branch_changes_nothing(p: Case) -> None:
    def change(branch: Op) -> None:
        values = []
        for graph in branch.graphs.values():
            values.append(graph.add_value("more", (1,), "float32"))
            graph.add_op("fill_constant", {}, {"Out": values[-1:]}, {"shape": [1], "value": 3.0, "dtype": "float32"})
        edit.add_result(branch, values)

    edited(p, change, BranchLike)


@some
@given(nested_programs())
def test_copies_change_nothing(p: Case) -> None:
    graph = ga.lower(p.program)
    for each in graph.tree():
        for one in each.ordered_ops():
            with suppress(InvalidGraph):
                edit.clone_ops([one], each, before=one.next)
    verify(graph)
    assert_runs_alike(p, ga.schedule(graph))


# -- loops ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_a_split_loop_runs_as_often(trips: int, count: int) -> None:
    graph = lowered(COUNTED)
    first, second = edit.split_loop(op(graph, "while"), count)
    verify(graph)
    assert types(graph).count("while") == 2
    assert second.inputs["X"][0] is first.outputs["Out"][0]
    np.testing.assert_array_equal(result(graph, "h", trips), result(lowered(COUNTED), "h", trips))
    np.testing.assert_array_equal(result(graph, "i", trips), [trips])


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_a_peeled_loop_runs_as_often(trips: int) -> None:
    graph = lowered(COUNTED)
    (branch,) = edit.peel(op(graph, "while"))
    verify(graph)
    assert branch.type == "if_else"
    np.testing.assert_array_equal(result(graph, "h", trips), result(lowered(COUNTED), "h", trips))
    if trips:
        graph = lowered(COUNTED)
        assert [each.type for each in edit.peel(op(graph, "while"), runs=True)] == ["elementwise_mul", "increment", "less_than"]
        np.testing.assert_array_equal(result(graph, "h", trips), result(lowered(COUNTED), "h", trips))


def test_an_unrolled_loop_computes_the_same() -> None:
    graph = lowered(COUNTED)
    longer = edit.unroll(op(graph, "while"), 3)
    verify(graph)
    assert len(longer.graphs["sub_block"].ops) == 9
    np.testing.assert_array_equal(result(graph, "h", 6), result(lowered(COUNTED), "h", 6))


def test_a_loop_that_is_not_run_is_skipped() -> None:
    graph = lowered(COUNTED)
    edit.skip(op(graph, "while"))
    verify(graph)
    assert "while" not in types(graph)
    np.testing.assert_array_equal(result(graph, "h", 0), [0.5, -0.25])


def test_a_copy_of_a_loop_that_starts_without_a_value() -> None:
    """The first loop overwrites the name of what both start without."""
    graph = lowered("""program {
  block 0 {
    var x: float64[2]
    var n: int64[1]
    var y: float64[2]
    net(X=[x, n]) -> (Out=y) {sub_block=block(1)}
  }
  block 1 in 0 {
    var o: float64[2]
    var i: int64[1]
    var more: bool[1]
    fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
    less_than(X=i, Y=n) -> (Out=more)
    while(X=[x, i, n], Condition=more) -> (Out=[o, i, more]) {sub_block=block(2)}
    assign(X=o) -> (Out=y)
  }
  block 2 in 1 {
    tanh(X=x) -> (Out=o)
    increment(X=i) -> (Out=i)
    less_than(X=i, Y=n) -> (Out=more)
  }
}""")
    body = op(graph, "net").graphs["sub_block"]
    edit.clone_ops([op(body, "while")], body, before=op(body, "while").next)
    verify(graph)
    np.testing.assert_array_equal(result(graph, "y", 2), np.tanh([0.3, 0.7]))


# -- building ------------------------------------------------------------------------------------


def built() -> tuple[Graph, list[Value]]:
    """h = h * w three times."""
    graph = lowered("program {\n  block 0 {\n    var h: float64[2]\n    var w: float64[2]\n  }\n}")
    h, w = graph.given("h"), graph.given("w")
    i, n, more = graph.add_value("i", (1,), "int64"), graph.add_value("n", (1,), "int64"), graph.add_value("more", (1,), "bool")
    for value, number in ((i, 0.0), (n, 3.0)):
        graph.add_op("fill_constant", {}, {"Out": [value]}, {"shape": [1], "value": number, "dtype": "int64"})
    graph.add_op("less_than", {"X": [i], "Y": [n]}, {"Out": [more]})

    def body(h: ga.ops.Symbol, i: ga.ops.Symbol, more: ga.ops.Symbol, w: ga.ops.Symbol, n: ga.ops.Symbol) -> list[ga.ops.Symbol]:
        again = ops.increment(i)
        return [ops.elementwise_mul(h, w), again, ops.less_than(again, n)]

    return graph, edit.add_loop(graph, [h, i, more], [w, n], body)


def test_a_loop_is_built() -> None:
    graph, (end, *_) = built()
    verify(graph)
    np.testing.assert_array_equal(result(graph, end.name), np.array([0.5, -0.25]) * [0.9, 1.2] * [0.9, 1.2] * [0.9, 1.2])


def test_a_branch_and_a_call_are_built() -> None:
    graph = lowered("program {\n  block 0 {\n    var x: float64[2]\n    var c: bool[1]\n  }\n}")
    x, c = graph.given("x"), graph.given("c")
    (y,) = edit.add_branch(graph, c, [x], ops.tanh, lambda x: ops.square(x))
    (z,) = edit.add_call(graph, [y], lambda y: ops.exp(y))
    verify(graph)
    for flag, function in ((True, np.tanh), (False, np.square)):
        feed = {"x": np.array([0.3, 0.7]), "c": np.array([flag])}
        (found,) = ga.Executor().run(ga.schedule(graph), feed=feed, fetch_list=[z.name])
        np.testing.assert_array_equal(found, np.exp(function(feed["x"])))


# -- refusals ------------------------------------------------------------------------------------

EDITS_OF_LOOPS: tuple[Callable[[Op], object], ...] = (
    edit.peel,
    lambda loop: edit.unroll(loop, 2),
    lambda loop: edit.split_loop(loop, 2),
    edit.run_once,
    edit.skip,
)


def refused(change: Callable[[Graph], object], match: str, text: str = COUNTED, error: type[Exception] = InvalidGraph) -> None:
    """A change is refused, and the graph is as it was."""
    graph = lowered(text)
    before = str(graph)
    with pytest.raises(error, match=match):
        change(graph)
    verify(graph)
    assert str(graph) == before


def test_what_is_no_loop_is_refused() -> None:
    for change in EDITS_OF_LOOPS:
        refused(lambda graph, change=change: change(op(graph, "net")), "it is no loop", NET)  # type: ignore[misc]
    refused(lambda graph: edit.add_carried(op(graph, "net"), graph.value("x")), "carries no values", NET)


def test_numbers_and_places_that_do_not_fit_are_refused() -> None:
    refused(lambda graph: edit.unroll(op(graph, "while"), 0), "by a factor of 1 or more, not 0")
    refused(lambda graph: edit.split_loop(op(graph, "while"), -1), "after 0 iterations or more, not -1")
    refused(lambda graph: edit.add_operand(op(graph, "less_than"), graph.value("n")), "has no nested graphs")
    refused(lambda graph: edit.add_result(op(graph, "while"), []), "it is a loop, for which there is add_carried")
    refused(lambda graph: edit.add_result(op(graph, "net"), [graph.value("x")]), "1 nested graphs, each of which yields", NET)
    refused(lambda graph: edit.set_yielded(op(graph, "net"), graph.value("x"), []), "x is no result of net", NET)
    refused(lambda graph: edit.add_call(graph, [graph.value("x")], lambda x: 1), "symbols of its own, not 1", NET, InvalidType)


def test_values_of_other_graphs_are_refused() -> None:
    other = lowered(NET).value("x")
    refused(lambda graph: edit.add_carried(op(graph, "while"), other), "cannot carry x, which is not in its graph")
    refused(lambda graph: edit.add_operand(op(graph, "while"), other), "cannot take x, which is not in its graph")
    refused(lambda graph: edit.add_call(graph, [other], ops.tanh), "cannot read x, which is not in its graph")
    body = lowered(NET).ops.first
    assert body is not None
    inner = body.graphs["sub_block"].ordered_ops()
    refused(lambda graph: edit.clone_ops(inner[1:2], graph), "it reads a, which has no value there")


def test_operators_with_something_between_are_not_outlined() -> None:
    def change(graph: Graph) -> None:
        first, _, last = op(graph, "net").graphs["sub_block"].ordered_ops()
        edit.outline([first, last])

    refused(change, r"elementwise_add.*are to be in one net, but square.*is left out", NET)


def test_parts_of_a_call_in_the_wrong_order_are_refused() -> None:
    def change(graph: Graph) -> None:
        net = op(graph, "net")
        edit.split_call(net, net.graphs["sub_block"].ordered_ops()[1:])

    refused(change, r"square.*cannot be in the first call: it reads what tanh.*writes", NET)
    refused(lambda graph: edit.split_call(op(graph, "net"), []), "into some of its 3 operators and the others, not 0", NET)


def test_random_loops_are_not_copied() -> None:
    random = """var d: float64[2]
    var m: uint8[2]
    dropout(X=h) -> (Out=d, Mask=m)
    assign(X=d) -> (Out=h)"""
    text = COUNTED.replace("elementwise_mul(X=h, Y=w) -> (Out=h)", random)
    for change in EDITS_OF_LOOPS[:3]:
        refused(lambda graph, change=change: change(op(graph, "while")), "dropout.*draws random numbers", text)  # type: ignore[misc]


# -- who did it ----------------------------------------------------------------------------------


def test_what_an_edit_makes_says_so() -> None:
    graph = lowered(COUNTED)
    made = edit.peel(op(graph, "while"), runs=True)
    assert {each.made_by for each in made} == {"peel"}
    assert "from while -> h, i, more" in graph.why(made[0])
    assert graph.journal.author is None


def test_what_an_edit_makes_says_for_whom() -> None:
    graph = lowered(COUNTED)
    with edit.by(graph, "my-tool"):
        first, _ = edit.split_loop(op(graph, "while"), 2)
    assert first.made_by == "my-tool"
    assert "made by my-tool, rule split\n" in graph.why(first)
    graph = lowered(NET)
    one, other = edit.split_call(op(graph, "net"), op(graph, "net").graphs["sub_block"].ordered_ops()[:1])
    assert (one.made_by, other.made_by) == ("split", "split")


def test_dead_code_takes_a_carried_value_that_is_unused() -> None:
    graph = lowered(COUNTED)
    loop = op(graph, "while")
    _, out = edit.add_carried(loop, graph.value("w"))
    assert out in loop.outputs["Out"]
    ga.Pipeline(DeadCode()).run(graph)
    assert len(op(graph, "while").outputs["Out"]) == 3


# -- the public edits --------------------------------------------------------------------------------

QUESTIONS = {  # of residuals, which change nothing
    *("as_read_in", "find_forward_op", "forward_graph", "forward_op", "gradient_graphs", "is_read", "residual_inputs", "residual_of"),
}


def test_passes_edit_by_what_is_public() -> None:
    imported: set[str] = set()
    for path in (ROOT / "passes").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module in ("graphad.ir.edits", "graphad.ir.residuals"):
                imported.update(name.name for name in node.names)
    assert imported - QUESTIONS - {*edit.__all__} == set()
    assert {"inline", "split_writers", "add_residual"} <= imported


def test_the_page_runs_every_edit() -> None:
    code = "".join(example.code for name, example in examples().items() if name.startswith("edit-a-graph"))
    functions = [name for name in edit.__all__ if isinstance(getattr(edit, name), FunctionType)]
    assert [name for name in functions if f"edit.{name}(" not in code] == []
    page = (ROOT / "docs" / "edit-a-graph.md").read_text(encoding="utf-8")
    assert [name for name in edit.__all__ if f"`{name}`" not in page and f"edit.{name}" not in code] == []
