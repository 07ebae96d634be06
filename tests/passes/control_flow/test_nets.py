"""Repeated operators become nets; nets become their operators again."""

from __future__ import annotations

import time

import numpy as np
import pytest

import graphad as ga
from graphad.errors import InvalidValue
from graphad.ir import Op
from graphad.passes.control_flow import InlineNet, OutlineRepeated
from graphad.passes.control_flow.fold_branches import same_graphs
from graphad.passes.control_flow.outline_repeated import Repeats, period
from graphad.rewriting import Pipeline
from graphad.testing import check_pass
from tests.graphs import types
from tests.passes.control_flow.programs import counted, differentiated_program, ops_of, rewritten, same, values, with_gradients

X = np.array([[0.5, -0.75], [0.1, 0.2]])


def layers(count: int, act: str = "tanh", extra: str = "") -> ga.Program:
    """So many layers ``h = act(h @ w_i); h = h * h``, and a loss."""
    lines = "\n".join(
        f"mul(X=h{i}, Y=w{i}) -> (Out=a{i})\n {act}(X=a{i}) -> (Out=t{i})\n square(X=t{i}) -> (Out=h{i + 1})" for i in range(count)
    )
    names = [name for i in range(count) for name in (f"w{i}", f"a{i}", f"t{i}", f"h{i}")] + [f"h{count}"]
    declared = "\n".join(f"var {name}: float64[2, 2]" for name in names)
    return ga.Program.parse(
        f"program {{\n block 0 {{\n {declared}\n var loss: float64[]\n {lines}\n {extra}\n mean(X=h{count}) -> (Out=loss)\n }}\n}}"
    )


def weights(count: int) -> dict[str, np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    return {"h0": X, **{f"w{i}": X + i / 4 for i in range(count)}}


def graph_of(net: Op) -> ga.Graph:
    (graph,) = net.graphs.values()
    return graph


@pytest.mark.parametrize("count", [2, 3, 4, 5, 9])
def test_every_layer_is_a_net_and_all_are_alike(count: int) -> None:
    program = layers(count)
    graph = rewritten(program, "outline-repeated")
    assert types(graph) == ["net"] * count + ["mean"]
    first, *others = map(graph_of, ops_of(graph, "net"))
    assert types(first) == ["mul", "tanh", "square"]
    assert all(same_graphs(first, other) for other in others)
    assert same(program, graph, ["loss"], **weights(count))
    assert str(rewritten(program, "outline-repeated, inline-net")) == str(ga.lower(program))


def test_a_single_layer_is_none() -> None:
    assert not OutlineRepeated().run(ga.lower(layers(1)))


def test_layers_apart_from_each_other() -> None:
    lines = "sin(X=t0) -> (Out=b)\n cos(X=b) -> (Out=c)"
    text = (
        str(layers(4))
        .replace("mul(X=h2", f"{lines}\n mul(X=h2")
        .replace("var loss", "var b: float64[2, 2]\n var c: float64[2, 2]\n var loss")
    )
    graph = rewritten(ga.Program.parse(text), "outline-repeated")
    assert len(ops_of(graph, "net")) >= 2
    assert {len(graph_of(net).ops) for net in ops_of(graph, "net")} <= {3, 6}


def test_what_is_connected_in_another_way_is_no_repetition() -> None:
    text = str(layers(2)).replace("square(X=t1) -> (Out=h2)", "square(X=a1) -> (Out=h2)")
    assert "net" not in types(rewritten(ga.Program.parse(text), "outline-repeated"))


def test_what_is_requested_of_one_layer_only_makes_it_another() -> None:
    program = layers(3)
    graph = rewritten(program, "outline-repeated", ["loss", "t1"])
    assert types(graph).count("net") == 2
    assert same(program, graph, ["loss", "t1"], **weights(3))


def test_min_ops() -> None:
    program = layers(4)
    assert types(rewritten(program, "outline-repeated{min_ops=4}")) == ["net", "net", "mean"]
    assert "net" not in types(rewritten(program, "outline-repeated{min_ops=7}"))
    with pytest.raises(InvalidValue, match="min_ops=0"):
        OutlineRepeated(min_ops=0)


def test_the_steps_of_an_unrolled_loop() -> None:
    declared = 'fill_constant() -> (Out=n) {shape=[1], value=4.0, dtype="int64"}'
    program = counted(
        "elementwise_mul(X=h, Y=w) -> (Out=a)\n tanh(X=a) -> (Out=t)\n elementwise_add(X=t, Y=w) -> (Out=h)",
        declared=declared,
        inside="var a: float64[2]\n var t: float64[2]",
    )
    graph = rewritten(program, "unroll-while, outline-repeated")
    assert [types(graph_of(net)) for net in ops_of(graph, "net")] == [["elementwise_mul", "tanh", "elementwise_add"]] * 4
    assert same(program, graph, ["loss"])


def test_gradients_of_nets_and_of_their_operators() -> None:
    given, names = weights(4), ["h0", "w0", "w3"]
    program, other = layers(4), layers(4)
    outlined = ga.schedule(rewritten(other, "outline-repeated"))
    expected = values(program, with_gradients(names, program), **given)
    found = with_gradients(names, outlined)
    inlined = rewritten(outlined, "inline-net", ["loss", *found])
    assert ops_of(ga.lower(outlined), "net_grad")
    assert not inlined.controls
    for program in (outlined, ga.schedule(inlined)):
        for one, two in zip(values(program, found, **given), expected, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)


def test_forward_and_backward_are_outlined_where_both_are_there() -> None:
    program = layers(4)
    names = with_gradients(["w0", "w3"], program)
    graph = rewritten(program, "outline-repeated", ["loss", *names])
    assert len(ops_of(graph, "net")) > 4
    assert same(program, graph, ["loss", *names], **weights(4))
    back = rewritten(ga.schedule(graph), "inline-net", ["loss", *names])
    assert same(program, back, ["loss", *names], **weights(4))


def test_nets_in_nets_in_branches() -> None:
    program = ga.Program.parse("""program {
  block 0 {
    var x: float64[2]
    var c: bool[1]
    var y: float64[2]
    if_else(Cond=c, X=x) -> (Out=y) {true_block=block(1), false_block=block(3)}
  }
  block 1 in 0 {
    net(X=x) -> (Out=y) {sub_block=block(2)}
  }
  block 2 in 1 {
    net(X=x) -> (Out=y) {sub_block=block(4)}
    square(X=y) -> (Out=y)
  }
  block 3 in 0 {
    sin(X=x) -> (Out=y)
  }
  block 4 in 2 {
    tanh(X=x) -> (Out=y)
  }
}""")
    graph = rewritten(program, "inline-net")
    assert not ops_of(graph, "net")
    (branch,) = graph.ops
    assert types(branch.graphs["true_block"]) == ["tanh", "square"]
    assert same(program, graph, ["y"], x=X[0], c=np.array([True]))


def test_a_random_operator_of_a_net_draws_what_it_drew_where_that_was() -> None:
    draw = 'uniform_random() -> (Out=d) {shape=[2], min=0.0, max=1.0, dtype="float64"}\n elementwise_mul(X=x, Y=d) -> (Out=y)'
    text = f"""program {{
  block 0 {{
    var x: float64[2]
    var y: float64[2]
    var d: float64[2]
    {draw}
    net(X=x) -> (Out=y) {{sub_block=block(1)}}
  }}
  block 1 in 0 {{
    var %s: float64[2]
    {draw.replace("=d", "=%s")}
  }}
}}"""
    for name in ("d", "e"):
        program = ga.Program.parse(text.replace("%s", name))
        program.random_seed = 3
        graph = rewritten(program, "inline-net")
        assert not graph.controls
        assert same(program, graph, ["y"], x=X[0])


def test_dropout_in_every_layer_drops_what_it_dropped() -> None:
    program = layers(3)
    text = str(program)
    for i in range(3):
        drawn = f'uniform_random() -> (Out=r{i}) {{shape=[2, 2], dtype="float64"}}\n elementwise_mul(X=r{i}, Y=t{i}) -> (Out=q{i})'
        text = text.replace(f"square(X=t{i})", f"{drawn}\n square(X=q{i})")
        text = text.replace("var loss", f"var r{i}: float64[2, 2]\n var q{i}: float64[2, 2]\n var loss")
    program = ga.Program.parse(text)
    program.random_seed = 7
    graph = rewritten(program, "outline-repeated")
    assert types(graph) == ["net"] * 3 + ["mean"]
    assert same(program, graph, ["loss"], **weights(3))


# -- what is sealed ------------------------------------------------------------------------------

SEALED = """program {
  block 0 {
    var x: float64[2]
    var y: float64[2]
    var z: float64[2]
    composite(X=x, Input=x) -> (Out=[y, z]) {sub_block=block(1), name="Pair"}
  }
  block 1 in 0 {
    var a: float64[2]
    var b: float64[2]
    var c: float64[2]
    scale(X=x) -> (Out=a) {scale=1.0}
    tanh(X=a) -> (Out=b)
    tanh(X=a) -> (Out=c)
    elementwise_mul(X=b, Y=c) -> (Out=y)
    square(X=b) -> (Out=z)
  }
}"""
INSIDE = ["scale", "tanh", "tanh", "elementwise_mul", "square"]


def test_passes_do_not_look_into_what_is_sealed() -> None:
    graph = ga.lower(ga.Program.parse(SEALED), ["y"])
    Pipeline.parse("inline-net, fixpoint(simplify, cse, constant-folding, dead-code), fuse-elementwise, outline-repeated{min_ops=2}").run(
        graph
    )
    (op,) = graph.ops
    assert types(graph_of(op)) == INSIDE
    assert len(op.outputs["Out"]) == 2  # the results keep their places, read or not


def test_what_is_sealed_is_opened_to_be_differentiated() -> None:
    program = ga.Program.parse(SEALED)
    block = program.global_block()
    block.var("x").stop_gradient = False
    ga.gradients([block.var("y")], [block.var("x")])
    assert types(ga.lower(program))[:5] == INSIDE
    (found,) = ga.Executor().run(program, {"x": X[0]}, ["x@GRAD"])
    np.testing.assert_allclose(found, 2 * np.tanh(X[0]) * (1 - np.tanh(X[0]) ** 2))


def test_what_is_sealed_is_opened_for_tangents_and_narrow_types() -> None:
    for text in ("jvp{targets=[y], inputs=[x]}", "mixed-precision"):
        graph = ga.lower(ga.Program.parse(SEALED), ["y"])
        Pipeline.parse(text).run(graph)
        assert not graph.controls
        assert {*INSIDE} <= {*types(graph)}


# -- repeats -------------------------------------------------------------------------------------


def naive(tokens: list[int], length: int) -> list[list[int]]:
    places: dict[tuple[int, ...], list[int]] = {}
    for i in range(len(tokens) - length + 1):
        found = places.setdefault(tuple(tokens[i : i + length]), [])
        if not found or i - found[-1] >= length:
            found.append(i)
    return sorted(found for found in places.values() if len(found) > 1)


@pytest.mark.parametrize("seed", range(20))
def test_repeats_against_trying_all(seed: int) -> None:
    tokens = np.random.default_rng(seed).integers(0, 3, 30).tolist()
    repeats = Repeats(tokens)
    for length in range(1, 16):
        assert repeats.groups(length) == naive(tokens, length)
    assert repeats.longest(30) == max(length for length in range(16) if length == 0 or naive(tokens, length))


def test_what_is_alone_is_not_repeated() -> None:
    assert Repeats([-1, 0, -1, 0, -1]).longest(5) == 1
    assert Repeats([]).longest(3) == 0


def test_period() -> None:
    assert [period(list(map(ord, text))) for text in ("", "a", "aaaa", "ababab", "ababa", "abc")] == [0, 1, 1, 2, 2, 3]


def test_many_operators_take_seconds() -> None:
    program = ga.Program()
    block = program.global_block()
    block.create_var(name="v0", shape=[2], dtype="float32")
    kinds = np.random.default_rng(0).choice(["tanh", "sin", "exp", "square"], 3000).tolist()
    for i, kind in enumerate(kinds):
        block.append_op(type=kind, inputs={"X": f"v{i}"}, outputs={"Out": f"v{i + 1}"})
    graph = ga.lower(program)
    start = time.perf_counter()
    OutlineRepeated().apply(graph)
    assert time.perf_counter() - start < 10
    InlineNet().apply(graph)
    assert str(graph) == str(ga.lower(program))


def test_random_programs() -> None:
    check_pass(OutlineRepeated(min_ops=2), examples=60)
    assert check_pass(InlineNet(), examples=60).changed


def test_random_programs_there_and_back() -> None:
    assert check_pass(OutlineRepeated(min_ops=1) | InlineNet(), examples=60, seed=4).changed


def test_random_programs_with_gradients() -> None:
    assert check_pass(OutlineRepeated(min_ops=1), examples=30, programs=differentiated_program, seed=2).changed
    assert check_pass(InlineNet(), examples=30, programs=differentiated_program, seed=2).changed
