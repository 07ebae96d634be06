"""Residuals are results of the operator that keeps them; what gradients read of them follows from operands and positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import InvalidGraph, InvalidValue
from graphad.ir import Graph
from graphad.ir.residuals import (
    add_residual,
    drop_all_unread_residuals,
    forward_graph,
    forward_op,
    gradient_graphs,
    gradient_ops,
    is_gradient_graph,
    readings,
    residual_inputs,
)
from graphad.ir.verify import verify
from graphad.types import Extent, TensorType
from tests.backward.test_gradients_control import rows, tanh, times
from tests.differences import Model, layers
from tests.graphs import op
from tests.nested_programs import count_to, net

W, Y = np.array([0.9, 0.6, -0.8]), np.array([0.3, 0.5, 0.2])


def powers(nested: bool = False) -> Model:
    """h = tanh(h) * w, four times, or three times four times."""
    body = [tanh("y", "a"), times("a", "w", "y")]
    inner = count_to("m", *body, i="j") if nested else body
    feed: dict[str, Any] = {"m": [4], "n": [3]} if nested else {"n": [4]}
    return Model(rows(*count_to("n", *inner)), {"w": W}, y=Y, **feed)


def kept(graph: Graph) -> dict[str, list[str]]:
    """By operator with nested graphs, what a run of its first graph keeps."""
    return {
        each.type: [value.name for value in next(iter(each.graphs.values())).residuals] for inner in graph.tree() for each in inner.controls
    }


def test_a_gradient_makes_what_it_reads_results_of_the_forward_operator() -> None:
    model = powers()
    assert kept(ga.lower(model.program)) == {"while": []}
    model.gradients(["y"])
    graph = ga.lower(model.program)
    loop, gradient = op(graph, "while"), op(graph, "while_grad")
    body, inner = loop.graphs["sub_block"], gradient.graphs["sub_block"]
    assert [value.name for value in body.residuals] == ["a"]  # tanh's result: w is passed in
    assert (forward_op(gradient), forward_graph(inner), gradient_ops(loop), gradient_graphs(body)) == (loop, body, [gradient], [inner])
    assert residual_inputs(inner) == {inner.inputs[-1]: body.residuals[0]}
    assert is_gradient_graph(inner)
    assert not is_gradient_graph(body)
    assert "residuals (a)" in str(graph)
    assert "a: float64[3] = residual a" in str(graph)


def of_both(model: Model) -> dict[str, ga.Variable]:
    """The gradient of y, and of w by a backward of its own."""
    return {name: model.gradient(name) for name in "yw"}


def test_two_gradients_of_a_loop_share_its_residuals() -> None:
    alone, both = powers(), powers()
    expected, got = alone.values(alone.gradients(["y", "w"])), both.values(of_both(both))
    for name in "yw":
        np.testing.assert_array_equal(got[name], expected[name])
    graph = ga.lower(both.program)
    verify(graph)
    body, (one, other) = op(graph, "while").graphs["sub_block"], gradient_graphs(op(graph, "while").graphs["sub_block"])
    assert len(one.inputs) - len(residual_inputs(one)) == len(other.inputs) - len(residual_inputs(other))
    assert [*residual_inputs(one).values()] == [*residual_inputs(other).values()] == body.residuals
    again = ga.lower(ga.schedule(graph))
    assert str(again) == str(graph)


def test_a_gradient_declares_no_residual_that_only_another_one_reads() -> None:
    def body(i: Any, y: Any) -> Any:
        return [i + 1, layers.tanh(layers.sin(y)) * w]

    program = ga.Program()
    with ga.program_guard(program):
        y, w = (layers.data(name, [3], "float64", append_batch_size=False, stop_gradient=False) for name in "yw")
        last = layers.while_loop(lambda i, y: i < 3, body, [layers.zeros([1], "int64"), y])[1]
        ga.gradients(last, y, no_grad_set={w})
        ga.gradients(last, w, no_grad_set={y})
    graph = ga.lower(program)
    blocks = [each.attrs["sub_block"] for each in program.global_block().ops if each.type == "while_grad"]
    reads = [{name for each in block.ops for name in each.input_names() if name not in block.vars} for block in blocks]
    union = {value.name for value in op(graph, "while").graphs["sub_block"].residuals}
    assert set().union(*reads) >= union
    for block in ga.schedule(graph).blocks[2:]:
        assert all(any(name in (*each.input_names(), *each.output_names()) for each in block.ops) for name in block.vars)


def test_what_no_gradient_reads_any_more_is_no_longer_kept() -> None:
    model = powers(nested=True)
    model.gradients(["y", "w"])
    graph = ga.lower(model.program, [model.loss.name])
    loops = [each for inner in graph.tree() for each in inner.controls if each.type == "while"]
    assert all(each.graphs["sub_block"].residuals for each in loops)
    trimmed = graph.clone()
    ga.Pipeline.parse("dead-code").run(trimmed)
    verify(trimmed)
    assert kept(trimmed) == {"while": []}
    graph.remove_op(op(graph, "while_grad"))
    assert "@SAVED" not in str(ga.schedule(graph))
    assert any(each.graphs["sub_block"].residuals for each in loops)  # a schedule changes no graph
    assert drop_all_unread_residuals(graph)
    assert not any(each.graphs["sub_block"].residuals for each in loops)
    assert not drop_all_unread_residuals(graph)


def test_a_residual_that_is_added_reaches_every_gradient() -> None:
    model = powers()
    of_both(model)
    graph = ga.lower(model.program)
    body = op(graph, "while").graphs["sub_block"]
    inputs = add_residual(body, body.inputs[0])
    assert [*inputs] == gradient_graphs(body)
    assert all(residual_inputs(inner)[value] is body.inputs[0] for inner, value in inputs.items())
    verify(graph)
    assert add_residual(body, body.inputs[0]) == inputs
    with pytest.raises(InvalidGraph, match="it is not in this graph"):
        add_residual(body, graph.inputs[0])


def test_a_net_is_inlined_with_both_of_its_gradients() -> None:
    model = Model(rows(net(tanh("y", "a"), times("a", "w", "y"))), {"w": W}, y=Y)
    found = of_both(model)
    expected = model.values(found)
    graph = ga.lower(model.program)
    ga.Pipeline.parse("inline-net").run(graph)
    assert not graph.controls
    model.program = ga.schedule(graph)
    for name, got in model.values({name: model.var(each.name) for name, each in found.items()}).items():
        np.testing.assert_array_equal(got, expected[name])


def test_a_gradient_of_another_operator_than_that_of_its_block_is_refused() -> None:
    text = """program { block 0 {
      var x: float64[2]
      net(X=x) -> (Out=y, Scope=one) {sub_block=block(1)}
      net(X=y) -> (Out=z, Scope=other) {sub_block=block(2)}
      fill_constant() -> (Out=z@GRAD) {shape=[2], value=1.0, dtype="float64"}
      net_grad(Scope=one, Out@GRAD=z@GRAD) -> (X@GRAD=y@GRAD)
        {sub_block=block(3), original_input=[], original_output_grad=["g"], original_input_grad=["d"]}
    } block 1 in 0 { tanh(X=x) -> (Out=y) } block 2 in 0 { tanh(X=y) -> (Out=z) } block 3 in 2 {
      var g: float64[2]
      tanh_grad(Out=z, Out@GRAD=g) -> (X@GRAD=d)
    } }"""
    with pytest.raises(InvalidValue, match="its block 3 reads 'z' of block 2, whose runs are not kept in one"):
        ga.lower(ga.Program.parse(text))


def test_the_old_names_say_what_takes_their_place() -> None:
    model = powers()
    model.gradients(["y"])
    graph = ga.lower(model.program)
    body, inner = op(graph, "while").graphs["sub_block"], op(graph, "while_grad").graphs["sub_block"]
    with pytest.warns(DeprecationWarning, match="use parent, or forward_graph"):
        assert (graph.father, body.father, inner.father) == (None, graph, body)
    with pytest.warns(DeprecationWarning, match="use residual_inputs"):
        assert inner.saved == residual_inputs(inner)
    with pytest.warns(DeprecationWarning, match="use gradient_graphs"):
        assert body.gradients == [inner]


@pytest.mark.parametrize(("number", "extent"), [(True, 1), (False, -1)])
def test_a_condition_that_is_replaced_has_one_type_in_both_directions(number: bool, extent: int) -> None:
    # ``not c`` is made by the rule and may have the declared extent; c itself is declared by its data, as unknown.
    program = ga.Program()
    with ga.program_guard(program):
        h = layers.data("h", [3], "float64", append_batch_size=False, stop_gradient=False)
        c = layers.data("c", [-1], "bool", append_batch_size=False)

        def body(i: Any, h: Any) -> Any:
            go = program.current_block().create_var("go", shape=[1], dtype="bool")
            layers.logical_xor(layers.fill_constant([1], "bool", number), c, out=go)
            return [i + 1, layers.cond(go, lambda: layers.tanh(h), lambda: h * 3.0)]

        last = layers.while_loop(lambda i, h: i < 3, body, [layers.zeros([1], "int64"), h])[1]
        (dh,) = (gradient.name for gradient in ga.gradients(last, h) if gradient is not None)
    graph = ga.lower(program, [dh])
    assert ga.Pipeline.parse("simplify").run(graph)
    verify(graph)
    inner = op(graph, "while_grad").graphs["sub_block"]
    (argument,) = [value for value in inner.inputs if value.dtype == "bool"]
    residual = residual_inputs(inner)[argument]
    assert "logical_xor" not in str(graph)
    assert (argument.type, argument.shape) == (residual.type, (extent,))
    feed = {"h": W, "c": np.array([number])}
    before, after = (ga.Executor().run(each, feed, [dh])[0] for each in (program, ga.schedule(graph)))
    np.testing.assert_array_equal(after, before)


def test_the_type_of_a_residual_is_that_of_the_inputs_that_stand_for_it() -> None:
    model = powers(nested=True)
    of_both(model)
    graph = ga.lower(model.program)
    loops = [each.graphs["sub_block"] for inner in graph.tree() for each in inner.controls if each.type == "while"]
    for body in loops:
        value = body.residuals[0]
        body.set_type(value, (-1,), value.dtype)
        assert all(stands.shape == (-1,) for stands in readings(value))
    verify(graph)


def test_an_equal_value_keeps_what_was_known_of_the_one_that_it_replaces() -> None:
    graph = Graph()
    x = graph.add_input("x", (-1, 3), "float64")
    known, open_ = graph.add_value("known", (Extent("batch"), 3), "float64"), graph.add_value("open", (-1, -1), "float64")
    for value in (known, open_):
        graph.add_op("tanh", {"X": [x]}, {"Out": [value]})
    end = graph.add_value("end", (-1, 3), "float64")
    graph.add_op("tanh", {"X": [known]}, {"Out": [end]})
    graph.substitute(known, open_)
    assert str(open_.type) == str(TensorType((Extent("batch"), 3), "float64"))
    graph.substitute(open_, x)  # what is given stays as it is declared
    assert str(x.type) == str(TensorType((-1, 3), "float64"))
