"""Random operators have streams of their own: whatever passes rename, move and remove, and however a program is stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import InvalidValue
from graphad.interop import from_json, to_json
from graphad.interop.paddle.program_desc import dump_program, load_program
from graphad.ir.verify import verify
from graphad.program import RANDOM_STREAM, random_streams
from tests.graphs import op

Array = np.ndarray[Any, Any]
DRAW = '{shape=[3], dtype="float64"}'


def program_of(*lines: str) -> ga.Program:
    names = "".join(f"var {name}: float64[3] " for name in "abcdyz")
    return ga.Program.parse(f"program seed 7 {{ block 0 {{ {names} {' '.join(lines)} }} }}")


def ran(program: ga.Program, *names: str) -> list[Array]:
    return list(ga.Executor().run(program, fetch_list=list(names), scope=ga.Scope()))


def streams(program: ga.Program) -> list[str]:
    return list(random_streams(program).values())


def same(found: list[Array], expected: list[Array]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


TWICE = (f"uniform_random() -> (Out=a) {DRAW}", "sin(X=a) -> (Out=y)", f"uniform_random() -> (Out=a) {DRAW}", "cos(X=a) -> (Out=z)")


def test_an_operator_draws_from_the_stream_of_what_it_writes() -> None:
    assert streams(program_of(*TWICE)) == ["a", "a#1"]
    y, z = ran(program_of(*TWICE), "y", "z")
    assert not np.array_equal(np.arcsin(y), np.arccos(z))


def test_a_renamed_operator_draws_what_it_drew() -> None:
    program = program_of(f"uniform_random() -> (Out=a) {DRAW}", "sin(X=a) -> (Out=y)")
    graph = ga.lower(program)
    graph.rename(graph.value("a"), "other")
    renamed = ga.schedule(graph)
    assert renamed.global_block().ops[0].attrs[RANDOM_STREAM] == "a"
    same(ran(renamed, "y"), ran(program, "y"))


def test_dropout_that_is_computed_again_from_its_seed_drops_the_same() -> None:
    draws = "seed() -> (Out=s) seed() -> (Out=t)"
    drops = [f"dropout(X=x, Seed={seed}) -> (Out={out}, Mask=m{out})" for seed, out in (("s", "a"), ("s", "b"), ("t", "c"))]
    names = " ".join(f"var {name}: float64[64]" for name in "xabc")
    text = f"program seed 7 {{ block 0 {{ {names} {draws} {' '.join(drops)} }} }}"
    x = np.arange(1.0, 65.0)
    a, b, c = ga.Executor().run(ga.Program.parse(text), {"x": x}, ["a", "b", "c"], scope=ga.Scope())
    np.testing.assert_array_equal(a, b)
    assert 0 < np.count_nonzero(a != c) < 64


def test_an_operator_draws_what_it_drew_without_the_one_before_it() -> None:
    program = program_of(*TWICE)
    graph = ga.lower(program, ["z"])
    ga.Pipeline.parse("dead-code").run(graph)
    assert [each.type for each in graph.ops] == ["uniform_random", "cos"]
    same(ran(ga.schedule(graph), "z"), ran(program, "z"))


def test_the_name_of_another_value_does_not_change_what_is_drawn() -> None:
    """simplify gives the random operator the requested name of its copy."""
    program = program_of(f"uniform_random() -> (Out=a) {DRAW}", "assign(X=a) -> (Out=b)", "relu(X=b) -> (Out=c)", "relu(X=c) -> (Out=y)")
    graph = ga.lower(program, ["b", "y"])
    graph.substitute(graph.value("b"), graph.value("a"))
    graph.remove_op(op(graph, "assign"))
    ga.Pipeline.parse("simplify").run(graph)
    same(ran(ga.schedule(graph), "b", "y"), ran(program, "b", "y"))


def test_a_program_says_no_more_than_it_has_to() -> None:
    program = program_of(*TWICE)
    assert str(ga.schedule(ga.lower(program))) == str(program)
    assert RANDOM_STREAM not in str(program)
    said = program_of('uniform_random() -> (Out=a) {random_stream="a", shape=[3], dtype="float64"}', "sin(X=a) -> (Out=y)")
    assert str(ga.schedule(ga.lower(said))) == str(said)
    same(ran(said, "y"), ran(program, "y"))


@pytest.mark.parametrize(
    "store", [lambda p: ga.Program.parse(str(p)), lambda p: from_json(to_json(p)), lambda p: load_program(dump_program(p))]
)
def test_a_stream_is_stored(store: Any) -> None:
    program = program_of('uniform_random() -> (Out=a) {shape=[3], dtype="float64", random_stream="b"}')
    again = store(program)
    again.random_seed = program.random_seed
    assert streams(again) == ["b"]
    same(ran(again, "a"), ran(program, "a"))


def test_an_operator_that_a_pass_makes_has_a_stream_of_its_own() -> None:
    graph = ga.lower(program_of(f"uniform_random() -> (Out=a) {DRAW}", "sin(X=a) -> (Out=y)"))
    graph.rename(graph.value("a"), "b")
    new = graph.add_version("a", (3,), "float64")
    graph.add_op("uniform_random", {}, {"Out": [new]}, {"shape": [3], "dtype": "float64"})
    verify(graph)
    program = ga.schedule(graph)
    assert streams(program) == ["a", "a#1"]
    assert streams(ga.schedule(ga.lower(program))) == ["a", "a#1"]
    a, b = ran(program, "a", "b")
    assert not np.array_equal(a, b)


def test_two_operators_that_draw_from_one_stream_are_refused() -> None:
    program = program_of('uniform_random() -> (Out=a) {random_stream="b", shape=[3]}', f"uniform_random() -> (Out=b) {DRAW}")
    for use in (ga.lower, ran):
        with pytest.raises(InvalidValue, match=r"\(Out=b\) and .*\(Out=a\) would both draw from the random stream 'b'"):
            use(program)


@pytest.mark.parametrize("stream", ["3", '""', "[1]"])
def test_a_stream_is_a_name(stream: str) -> None:
    program = program_of(f"uniform_random() -> (Out=a) {{random_stream={stream}, shape=[3]}}")
    with pytest.raises(InvalidValue, match="random_stream is a name, not"):
        ga.lower(program)


def dropped() -> tuple[ga.Program, list[str]]:
    """Dropout before and in a loop, in a branch and in a net-like function; the loss and its gradient."""
    program = ga.Program()
    program.random_seed = 11
    with ga.program_guard(program, ga.Program()):
        x = ga.layers.data("x", [4], "float64", append_batch_size=False, stop_gradient=False)
        h = ga.layers.assign(ga.layers.dropout(ga.layers.sin(x), 0.5))
        yes = ga.layers.fill_constant([1], "bool", True)
        h = ga.layers.cond(yes, lambda: ga.layers.dropout(h, 0.5), lambda: ga.layers.dropout(h * 2.0, 0.25))
        _, h = ga.layers.while_loop(lambda i, h: i < 3, lambda i, h: [i + 1, ga.layers.dropout(h + x, 0.25)], [0, h])
        loss = ga.layers.reduce_sum(h * ga.layers.dropout(x, 0.5))
        (gradient,) = ga.gradients(loss, [x])
    assert gradient is not None
    return program, [loss.name, gradient.name]


PIPELINES = [
    "fold-branches",
    "canonical-order, cse",
    "fixpoint(simplify, cse, constant-folding, fold-branches, dead-code)",
    "dead-code, recompute, in-place",
    "checkpoint-while{recursive=true}, hoist-invariants",
    "unroll-while, fuse-elementwise",
    "outline-repeated{min_ops=1}, inline-net",
]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_passes_of_the_library_change_nothing_that_is_drawn(pipeline: str) -> None:
    program, names = dropped()
    feed = {"x": np.arange(1.0, 5.0)}
    expected = ga.Executor().run(program, feed, names, scope=ga.Scope())
    graph = ga.lower(program, names)
    ga.Pipeline.parse(pipeline).run(graph)
    again = ga.Program.parse(str(ga.schedule(graph)))
    found = ga.Executor().run(again, feed, names, scope=ga.Scope())
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)
