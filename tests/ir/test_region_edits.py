"""Operators with nested graphs are edited in place: operands and results are added and dropped, graphs inlined and outlined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import InvalidGraph
from graphad.ir import Op
from graphad.ir.edits import add_operand, has_gradient, inline, outline, remove_operand, remove_result
from graphad.ir.residuals import gradient_graphs, residual_inputs
from graphad.ir.verify import verify
from tests.graphs import op, sound, types

LOOP = """program {
  block 0 {
    var h: float64[2]
    var k: float64[2]
    var w: float64[2]
    var n: int64[1] stop_gradient
    var i: int64[1] stop_gradient
    var more: bool[1] stop_gradient
    var scopes: ?[?] STEP_SCOPES
    var loss: float64[]
    fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"}
    less_than(X=i, Y=n) -> (Out=more)
    while(X=[h, k, w, i, n], Condition=more) -> (Out=[h, k, i, more], StepScopes=scopes) {sub_block=block(1)}
    mean(X=h) -> (Out=loss)
  }
  block 1 in 0 {
    elementwise_mul(X=h, Y=w) -> (Out=h)
    square(X=k) -> (Out=k)
    increment(X=i) -> (Out=i)
    less_than(X=i, Y=n) -> (Out=more)
  }
}"""
BRANCH = """program {
  block 0 {
    var x: float64[2]
    var c: bool[1] stop_gradient
    var a: float64[2]
    var b: float64[2]
    var loss: float64[]
    if_else(Cond=c, X=x) -> (Out=[a, b]) {true_block=block(1), false_block=block(2)}
    mean(X=a) -> (Out=loss)
  }
  block 1 in 0 {
    var t: float64[2]
    tanh(X=x) -> (Out=t)
    square(X=t) -> (Out=a)
    sin(X=x) -> (Out=b)
  }
  block 2 in 0 {
    sin(X=x) -> (Out=a)
    assign(X=a) -> (Out=b)
  }
}"""
BACKWARD = "find-op-path{targets=[loss], inputs=[w]}, create-grad-ops, prune-no-grad, accumulate-grads, create-grad-vars"
FEED: dict[str, Any] = {
    "h": np.array([0.5, -0.25]),
    "k": np.array([1.1, 0.9]),
    "w": np.array([0.9, 1.2]),
    "n": np.array([3]),
    "x": np.array([0.5, -0.25]),
    "c": np.array([True]),
}


def parsed(text: str) -> ga.Program:
    return ga.Program.parse(text)


def backward(text: str) -> ga.Graph:
    program = parsed(text)
    ga.gradients([program.global_block().var("loss")], [program.global_block().var(n) for n in ("w" if "w:" in text else "x",)])
    return ga.lower(program)


def run(graph: ga.Graph, *names: str) -> list[Any]:
    program = ga.schedule(graph)
    feed = {name: value for name, value in FEED.items() if name in program.global_block().vars}
    return ga.Executor().run(program, feed=feed, fetch_list=list(names))


def held(graph: ga.Graph, type: str) -> Op:
    verify(graph)
    assert all(sound(each) for each in graph.tree())
    return op(graph, type)


@pytest.mark.parametrize("text", [LOOP, BRANCH])
def test_what_is_captured_can_be_read_inside_and_twice_is_once(text: str) -> None:
    graph = backward(text)
    expected = run(graph, "loss")
    control = op(graph, "while" if text is LOOP else "if_else")
    more = graph.add_value("extra", (2,), "float64")
    graph.add_op("fill_constant", {}, {"Out": [more]}, {"shape": [2], "value": 2.0, "dtype": "float64"}, before=control)
    inner = add_operand(control, more)
    assert add_operand(control, more) == inner
    assert [value.graph for value in inner] == list(control.graphs.values())
    assert run(graph, "loss") == expected
    first = next(each for each in inner[0].graph.ops if each.type in ("elementwise_mul", "tanh"))
    slot = "Y" if first.type == "elementwise_mul" else "X"
    inner[0].graph.set_inputs(first, slot, [inner[0]])
    held(graph, control.type)
    assert run(graph, "loss") != expected


def test_a_gradient_is_handed_a_value() -> None:
    graph = backward(LOOP)
    expected = run(graph, "w@GRAD")
    grad = op(graph, "while_grad")
    (inner,) = add_operand(grad, graph.value("n"))
    verify(graph)
    assert inner.graph.inputs[1] is inner
    np.testing.assert_array_equal(run(graph, "w@GRAD"), expected)
    assert remove_operand(grad, 1)
    assert not remove_operand(grad, 0)
    held(graph, "while_grad")
    np.testing.assert_array_equal(run(graph, "w@GRAD"), expected)


def test_a_carried_value_whose_name_is_wanted_from_before() -> None:
    """The loop overwrites h, and reads the h from before it in every iteration as well."""
    graph = ga.lower(parsed(LOOP))
    loop = op(graph, "while")
    (inner,) = add_operand(loop, graph.value("h#0"))
    square = op(inner.graph, "square")
    inner.graph.set_inputs(square, "X", [inner])
    held(graph, "while")
    np.testing.assert_array_equal(run(graph, "k")[0], FEED["h"] ** 2)


def test_an_operand_that_is_read_stays() -> None:
    graph = ga.lower(parsed(LOOP))
    loop = op(graph, "while")
    assert not any(remove_operand(loop, i) for i in range(-1, 8))
    w = loop.graphs["sub_block"].inputs[4]
    body = loop.graphs["sub_block"]
    body.replace(w, body.inputs[0])
    assert remove_operand(loop, 4)
    assert graph.versions("w")[0] not in held(graph, "while").inputs["X"]
    np.testing.assert_array_equal(run(graph, "h")[0], FEED["h"] ** 8)


def test_an_operand_that_a_gradient_reads_stays() -> None:
    graph = ga.lower(parsed(LOOP))
    ga.Pipeline.parse(BACKWARD).run(graph)
    loop = op(graph, "while")
    body = loop.graphs["sub_block"]
    (inner,) = gradient_graphs(body)
    assert residual_inputs(inner)[inner.inputs[-1]] is body.inputs[0]
    mul = op(body, "elementwise_mul")
    body.set_inputs(mul, "X", [body.inputs[4]])
    assert not remove_result(loop, 0)
    assert not remove_operand(loop, 0)


def test_what_a_loop_carries_and_nothing_reads_goes() -> None:
    program = parsed(LOOP)
    graph = ga.lower(program, ["loss"])
    loop = op(graph, "while")
    assert not remove_result(loop, 1)  # square reads it
    body = loop.graphs["sub_block"]
    square = op(body, "square")
    body.results[1] = body.inputs[1]
    body.remove_op(square)
    expected = run(graph, "loss")
    assert remove_result(loop, 1)
    held(graph, "while")
    assert len(loop.outputs["Out"]) == 3
    assert run(graph, "loss") == expected
    assert not remove_result(loop, 0)  # read after the loop
    assert not remove_result(loop, 2)  # the condition


def test_a_result_that_is_requested_stays() -> None:
    graph = ga.lower(parsed(BRANCH), ["loss", "b"])
    assert not remove_result(op(graph, "if_else"), 1)


def test_a_branch_stops_handing_out_also_with_a_gradient() -> None:
    program = parsed(BRANCH)
    block = program.global_block()
    ga.gradients([block.var("loss")], [block.var("x")])
    graph = ga.lower(program, ["loss", "x@GRAD"])
    expected = run(graph, "loss", "x@GRAD")
    branch = op(graph, "if_else")
    assert remove_result(branch, 1)
    assert len(held(graph, "if_else").outputs["Out"]) == 1
    for one, other in zip(run(graph, "loss", "x@GRAD"), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_gradient_stops_adding_up() -> None:
    program = parsed(LOOP)
    block = program.global_block()
    ga.gradients([block.var("loss")], [block.var("h"), block.var("w")])
    graph = ga.lower(program, ["h@GRAD"])
    expected = run(graph, "h@GRAD")
    grad = op(graph, "while_grad")
    assert not remove_result(grad, 0)
    assert remove_result(grad, 1)
    held(graph, "while_grad")
    np.testing.assert_array_equal(run(graph, "h@GRAD"), expected)


@pytest.mark.parametrize("which", ["true_block", "false_block"])
def test_a_branch_in_the_place_of_its_operator(which: str) -> None:
    graph = ga.lower(parsed(BRANCH), ["loss", "a", "b"])
    names = [value.name for value in graph.targets]
    branch = op(graph, "if_else")
    FEED["c"] = np.array([which == "true_block"])
    expected = run(graph, *names)
    made = inline(branch, which)
    assert made == list(graph.ops)[:-1]
    assert "if_else" not in types(graph)
    assert [value.name for value in graph.targets] == names
    verify(graph)
    for one, other in zip(run(graph, *names), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_loops_and_gradients_are_not_inlined() -> None:
    loop, branch = backward(LOOP), backward(BRANCH)
    for each in (op(loop, "while"), op(loop, "while_grad"), op(branch, "if_else_grad")):
        with pytest.raises(InvalidGraph, match="cannot be inlined: it is a loop, or a gradient"):
            inline(each, next(iter(each.graphs)))
    for each in (op(branch, "if_else"), op(branch, "mean")):
        with pytest.raises(InvalidGraph, match="cannot be inlined: which graph"):
            inline(each)


@pytest.mark.parametrize("which", ["true_block", "false_block"])
def test_a_branch_is_inlined_with_its_gradient(which: str) -> None:
    graph = backward(BRANCH)
    FEED["c"] = np.array([which == "true_block"])
    expected = run(graph, "loss", "x@GRAD")
    branch = op(graph, "if_else")
    assert has_gradient(branch)
    inline(branch, which)
    verify(graph)
    assert not {"if_else", "if_else_grad"} & set(types(graph))
    for one, other in zip(run(graph, "loss", "x@GRAD"), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_net_of_some_operators_and_back() -> None:
    text = """program {
  block 0 {
    var x: float64[2]
    var y: float64[2]
    var z: float64[2]
    var t: float64[2]
    exp(X=x) -> (Out=x)
    tanh(X=x) -> (Out=t)
    elementwise_mul(X=t, Y=x) -> (Out=y)
    elementwise_add(X=y, Y=t) -> (Out=z)
  }
}"""
    graph = ga.lower(parsed(text), ["y", "z"])
    expected, before = run(graph, "y", "z"), str(graph)
    ops = list(graph.ops)
    net = outline(ops[1:3])
    verify(graph)
    assert str(net) == "net(X=x#1) -> (Out=[t, y])"
    np.testing.assert_array_equal(run(graph, "y", "z"), expected)
    inline(net, "sub_block")
    verify(graph)
    assert str(graph) == before
    with pytest.raises(InvalidGraph, match="of operators of one graph"):
        outline([])


def test_a_net_of_loops_with_their_gradients_is_refused() -> None:
    graph = backward(LOOP)
    with pytest.raises(InvalidGraph, match="stay together"):
        outline([op(graph, "while")])
