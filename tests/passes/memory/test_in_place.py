"""Operators that compute into the memory of an input: marked where that is right, honoured, and noticed where it is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import graphad as ga
from graphad.ops import REGISTRY, Sample
from graphad.ops.out_kernels import INPLACE, takes_required, writer, writes_into
from graphad.passes.memory.in_place import InPlace
from graphad.testing import check_case, check_pass
from graphad.testing.cases import random_case
from graphad.testing.samples import SAMPLES

Array = NDArray[Any]
X = np.linspace(0.25, 2.0, 6).reshape(2, 3)


def program_of(text: str, *names: str) -> ga.Program:
    declared = " ".join(f"var {name}: float64[2, 3]" for name in names)
    return ga.Program.parse(f"program {{ block 0 {{ {declared} {text} }} }}")


def marked(program: ga.Program, targets: list[str] | None = None) -> ga.Program:
    graph = ga.lower(program, targets)
    InPlace().run(graph)
    return ga.schedule(graph)


def marks(program: ga.Program) -> dict[str, list[str]]:
    ops = [op for block in program.blocks for op in block.ops]
    return {op.output_names()[0]: op.attrs[INPLACE] for op in ops if INPLACE in op.attrs}


def run(program: ga.Program, *fetch: str, **feeds: Array) -> list[Array]:
    return ga.Executor().run(program, feed=feeds, fetch_list=list(fetch))


def test_what_lies_in_memory_in_another_order_is_added_up_as_before() -> None:
    """A turned array stays turned in place: its sum rounds otherwise than that of a new array."""
    text = """program { block 0 { var x: float32[7, 5, 3] var k: float32[3, 7, 5] transpose(X=x) -> (Out=t) {axis=[2, 0, 1]}
    scale(X=t) -> (Out=u) {scale=1.1} elementwise_mul(X=u, Y=k) -> (Out=v) reduce_sum(X=v) -> (Out=s) {reduce_all=true} } }"""
    for seed in range(5):  # four of them are told apart where it is wrong
        check_case("in-place", random_case(ga.Program.parse(text), seed))


# -- which ---------------------------------------------------------------------------------------


def test_a_chain_is_one_buffer() -> None:
    text = "exp(X=x) -> (Out=a) scale(X=a) -> (Out=b) {scale=2.0} tanh(X=b) -> (Out=c) elementwise_add(X=x, Y=c) -> (Out=d)"
    program = program_of(text, "x", "a", "b", "c", "d")
    after = marked(program)
    assert marks(after) == {"b": ["Out:X"], "c": ["Out:X"], "d": ["Out:Y"]}
    assert str(ga.Program.parse(str(after))) == str(after)
    np.testing.assert_array_equal(run(after, "d", x=X)[0], run(program, "d", x=X)[0])


REFUSED = {
    "it is given": ("tanh(X=x) -> (Out=a)", None),
    "it is read later": ("exp(X=x) -> (Out=a) tanh(X=a) -> (Out=b) elementwise_mul(X=x, Y=a) -> (Out=c)", None),
    "it is requested": ("exp(X=x) -> (Out=a) tanh(X=a) -> (Out=b)", ["a", "b"]),
    "a view of it is left": ("exp(X=x) -> (Out=a) assign(X=a) -> (Out=c) tanh(X=a) -> (Out=b) mul(X=c, Y=y) -> (Out=d)", None),
    "it is a view itself": ("reshape(X=x) -> (Out=a) {shape=[2, 3]} tanh(X=a) -> (Out=b)", None),
    "it may be a view": ("sum(X=x) -> (Out=a) tanh(X=a) -> (Out=b)", None),
    "it is added once more": ("exp(X=x) -> (Out=a) sum(X=[a, x, a]) -> (Out=b)", None),
    "it is of another dtype": (
        'var flags: bool[2, 3] exp(X=x) -> (Out=a) isnan_v2(X=a) -> (Out=flags) cast(X=flags) -> (Out=b) {out_dtype="float64"}',
        None,
    ),
    "the operator is unknown": ("exp(X=x) -> (Out=a) my_own(X=a) -> (Out=b)", None),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_not_marked_since(reason: str) -> None:
    text, targets = REFUSED[reason]
    text = "var d: float64[2, 3] " + text
    assert "b" not in marks(marked(program_of(text, "x", "y", "a", "b", "c"), targets))


def test_what_a_nested_graph_reads_is_left_alone() -> None:
    text = """program { block 0 { var x: float64[2, 3] var a: float64[2, 3] var b: float64[2, 3] var c: float64[2, 3] var p: bool[1]
    exp(X=x) -> (Out=a) if_else(Cond=p, X=a) -> (Out=c) {true_block=block(1), false_block=block(2)} tanh(X=a) -> (Out=b) }
    block 1 in 0 { var t: float64[2, 3] tanh(X=a) -> (Out=t) exp(X=t) -> (Out=c) } block 2 in 0 { assign(X=a) -> (Out=c) } }"""
    assert marks(marked(ga.Program.parse(text))) == {"c": ["Out:X"]}


def test_what_a_gradient_reads_is_left_alone() -> None:
    program = program_of("var loss: float64[] exp(X=x) -> (Out=a) tanh(X=a) -> (Out=b) mean(X=b) -> (Out=loss)", "x", "a", "b")
    ga.gradients([program.global_block().var("loss")], [program.global_block().var("x")])
    assert "a" not in marks(marked(program))
    assert "b" not in marks(marked(program))


def test_a_second_run_takes_marks_away_that_are_no_longer_true() -> None:
    graph = ga.lower(program_of("exp(X=x) -> (Out=a) tanh(X=a) -> (Out=b)", "x", "a", "b"))
    assert InPlace().run(graph)
    assert not InPlace().run(graph)
    graph.add_op("tanh", {"X": [graph.value("a")]}, {"Out": [graph.add_value("c", (2, 3), "float64")]})
    assert InPlace().run(graph)
    assert INPLACE not in next(op for op in graph.ops if op.output("Out").name == "b").attrs


# -- the executor --------------------------------------------------------------------------------
# It plans memory by itself, and computes the same whatever is marked.


def test_a_wrong_mark_does_no_harm() -> None:
    text = "exp(X=x) -> (Out=a) assign(X=a) -> (Out=v) scale(X=a) -> (Out=b) {scale=2.0%s} elementwise_add(X=v, Y=b) -> (Out=c)"
    for mark in ("", ', inplace=["Out:X"]'):
        program = program_of(text % mark, "x", "a", "v", "b", "c")
        executor = ga.Executor()
        for _ in range(3):
            (c,) = executor.run(program, {"x": X}, ["c"])
            np.testing.assert_array_equal(c, np.exp(X) * 3.0)


def test_a_mark_is_not_honoured_where_the_input_is_read_later() -> None:
    text = 'exp(X=x) -> (Out=a) scale(X=a) -> (Out=b) {scale=2.0, inplace=["Out:X"]} elementwise_add(X=a, Y=b) -> (Out=c)'
    program = program_of(text, "x", "a", "b", "c")
    np.testing.assert_array_equal(run(program, "c", x=X)[0], np.exp(X) * 3.0)
    np.testing.assert_array_equal(run(marked(program), "a", "b", x=X)[0], np.exp(X))


def test_arrays_that_were_fed_are_never_written_to() -> None:
    x = X.copy()
    text = 'scale(X=x) -> (Out=a) {scale=2.0, inplace=["Out:X"]} reshape(X=x) -> (Out=v) {shape=[2, 3]}'
    text += ' scale(X=v) -> (Out=b) {scale=2.0, inplace=["Out:X"]}'
    results = run(program_of(text, "x", "a", "v", "b"), "a", "b", x=x)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(results, [X * 2.0, X * 2.0])


def test_an_input_that_turns_out_to_be_smaller_is_not_used() -> None:
    text = """program { block 0 { var x: float64[-1, 3] var y: float64[-1, 3] var a: float64[-1, 3] var b: float64[-1, 3]
    exp(X=x) -> (Out=a) elementwise_add(X=a, Y=y) -> (Out=b) } }"""
    after = marked(ga.Program.parse(text))
    assert marks(after) == {"b": ["Out:X"]}
    np.testing.assert_array_equal(run(after, "b", x=X[:1], y=X)[0], np.exp(X[:1]) + X)


def test_in_a_loop() -> None:
    text = """program { block 0 { var h: float64[2000] var i: int64[1] var n: int64[1] var more: bool[1]
    fill_constant() -> (Out=i) {shape=[1], value=0.0, dtype="int64"} fill_constant() -> (Out=n) {shape=[1], value=20.0, dtype="int64"}
    less_than(X=i, Y=n) -> (Out=more) while(X=[h, i, n], Condition=more) -> (Out=[h, i, more]) {sub_block=block(1)} }
    block 1 in 0 { var a: float64[2000] tanh(X=h) -> (Out=a) scale(X=a) -> (Out=h) {scale=1.5} increment(X=i) -> (Out=i)
    less_than(X=i, Y=n) -> (Out=more) } }"""
    program, h = ga.Program.parse(text), np.linspace(-1.0, 1.0, 2000)
    after = marked(program)
    assert marks(after) == {"h": ["Out:X"]}
    np.testing.assert_array_equal(run(after, "h", h=h)[0], run(program, "h", h=h)[0])


# -- the functions -------------------------------------------------------------------------------


def dtypes(sample: Sample) -> list[np.dtype[Any]]:
    return [array.dtype for given in sample.slots().values() for array in given]


WRITERS = [
    (type, i)
    for type, samples in sorted(SAMPLES.items())
    for i, sample in enumerate(samples)
    if REGISTRY[type].elementwise
    and takes_required(REGISTRY[type], sample.inputs)
    and writes_into(REGISTRY[type], dtypes(sample), sample.attrs)
]


@pytest.mark.parametrize(("type", "number"), WRITERS)
@pytest.mark.parametrize("times", [1, 37])
def test_a_writer_gives_the_bits_of_the_kernel(type: str, number: int, times: int) -> None:
    """Also into the memory of an input, and for arrays longer than a vector of the processor."""
    definition, sample = REGISTRY[type], SAMPLES[type][number]
    slots = sample.slots()
    if len({a.shape for given in slots.values() for a in given}) == 1:
        slots = {s: [np.concatenate([np.atleast_1d(a)] * times) for a in given] for s, given in slots.items()}
    arrays = [a.copy() for given in slots.values() for a in given]
    ((expected,),) = definition.run(slots, sample.attrs, [*definition.outputs]).values()
    write = writer(definition, sample.attrs, dtypes(sample), expected.dtype)
    assert write is not None
    out = np.empty_like(expected)
    write(arrays, out)
    np.testing.assert_array_equal(out, expected)
    for i in [i for i, array in enumerate(arrays) if (array.shape, array.dtype) == (expected.shape, expected.dtype)]:
        write = writer(definition, sample.attrs, dtypes(sample), expected.dtype, [i])
        assert write is not None
        given = [array.copy() for array in arrays]
        write(given, given[i])
        np.testing.assert_array_equal(given[i], expected)


# -- random programs -----------------------------------------------------------------------------


def test_on_random_programs() -> None:
    assert check_pass(InPlace(), examples=60).changed > 10


def test_a_pass_after_it_that_gives_a_value_another_reader_drops_the_marks() -> None:
    """cse lets z read a, whose memory b was about to be computed into."""
    text = "sin(X=x) -> (Out=a) exp(X=a) -> (Out=b) sin(X=x) -> (Out=c) square(X=c) -> (Out=d) elementwise_add(X=b, Y=d) -> (Out=y)"
    program = program_of(text, *"xabcdy")
    graph = ga.lower(program, ["y"])
    ga.Pipeline.parse("in-place, cse").run(graph)
    again = ga.schedule(graph)
    assert marks(again) == {}
    (expected,), (got,) = run(program, "y", x=X), run(again, "y", x=X)
    np.testing.assert_array_equal(got, expected)


def test_marks_stay_where_nothing_changes_the_graph() -> None:
    text = "sin(X=x) -> (Out=a) exp(X=a) -> (Out=b) square(X=b) -> (Out=y)"
    graph = ga.lower(program_of(text, *"xaby"), ["y"])
    ga.Pipeline.parse("in-place, annotate-cost, cse, dead-code").run(graph)
    once = ga.schedule(graph.clone())
    assert marks(once) == {"b": ["Out:X"], "y": ["Out:X"]}
    assert marks(ga.schedule(ga.lower(once, ["y"]))) == marks(once)
    changed = ga.lower(once, ["y"])
    changed.rename(changed.value("a"), "other")
    assert not InPlace().run(changed.clone())
    assert marks(ga.schedule(changed)) == {}
