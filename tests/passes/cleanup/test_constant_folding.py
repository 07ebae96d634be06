"""Operators that constant-folding computes, and those that it leaves to the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.passes.cleanup import ConstantFolding
from graphad.passes.cleanup.constant_arrays import constant_for
from graphad.testing import check_pass
from tests.passes.cleanup.programs import graph_of, types

FILLED = "fill_constant() -> (Out=a) {shape=[3], value=2.0}\nfill_constant() -> (Out=b) {shape=[3], value=3.0}\n"
ABC = "x a b c d: float32[3]"


def test_operators_over_constants_are_computed() -> None:
    graph = graph_of(FILLED + "elementwise_mul(X=a, Y=b) -> (Out=c)\nscale(X=c) -> (Out=d) {bias=1.0}", ABC)
    assert ConstantFolding().run(graph)
    (op,) = graph.ops
    assert (op.type, op.attrs["value"], op.output("Out").name) == ("fill_constant", 7.0, "d")
    assert not ConstantFolding().run(graph)


def test_what_is_not_uniform_is_listed() -> None:
    graph = graph_of("eye() -> (Out=a) {num_rows=2}\nscale(X=a) -> (Out=b) {scale=-1.0}", "a b: float32[2, 2]")
    assert ConstantFolding().run(graph)
    (op,) = graph.ops
    assert op.type == "assign_value"
    assert [str(v) for v in op.attrs["fp32_values"]] == ["-1.0", "0.0", "0.0", "-1.0"]


def test_ranges_become_known() -> None:
    text = "".join(
        f'fill_constant() -> (Out={n}) {{shape=[1], value={v}, dtype="int64"}}\n' for n, v in (("s", 0.0), ("e", 4.0), ("t", 1.0))
    )
    graph = graph_of(
        text + "range(Start=s, End=e, Step=t) -> (Out=r)\nscale(X=r) -> (Out=q) {scale=2.0}", "s e t: int64[1]; r q: int64[-1]"
    )
    ConstantFolding().run(graph)
    (op,) = graph.ops
    assert op.attrs["int64_values"] == [0, 2, 4, 6]
    assert graph.value("q").shape == (4,)


@pytest.mark.parametrize(("shape", "folded"), [("[2, 3]", True), ("[-1, 3]", False)])
@pytest.mark.parametrize("op", ["shape(Input=x) -> (Out=s)", "size(Input=x) -> (Out=s)", "fill_zeros_like(X=x) -> (Out=s)"])
def test_static_shapes(op: str, shape: str, folded: bool) -> None:
    kind = {"shape": "int32[2]", "size": "int64[]", "fill_zeros_like": f"float32{shape}"}[op.partition("(")[0]]
    graph = graph_of(op, f"x: float32{shape}; s: {kind}")
    before = ga.schedule(graph)
    assert ConstantFolding().run(graph) is folded
    feed = {"x": np.ones((2, 3), "float32")}
    after = ga.schedule(graph)
    fed = feed if after.global_block().ops[0].inputs else {}
    old, new = ga.Executor().run(before, feed=feed, fetch_list=["s"])[0], ga.Executor().run(after, feed=fed, fetch_list=["s"])[0]
    assert old.dtype == new.dtype
    np.testing.assert_array_equal(old, new)


def test_random_operators_stay() -> None:
    graph = graph_of("fill_constant() -> (Out=a) {shape=[3], value=0.5}\nbernoulli(X=a) -> (Out=b)", ABC)
    assert not ConstantFolding().run(graph)


def test_what_a_kernel_refuses_is_left_to_the_run() -> None:
    text = 'fill_constant() -> (Out=i) {shape=[1], value=7.0, dtype="int64"}\none_hot_v2(X=i) -> (Out=a) {depth=3}'
    graph = graph_of(text, "i: int64[1]; a: float32[1, 3]")
    assert not ConstantFolding().run(graph)
    with pytest.raises(ga.errors.GraphadError, match=r"X\[0\] is 7, .* \[0, 3\) is the range"):
        ga.Executor().run(ga.schedule(graph), fetch_list=["a"])


def test_what_a_kernel_refuses_stays_where_it_may_never_run() -> None:
    # A window of 3 by 2 has four places in an image of 4 by 3, and not six.
    attrs = "{image=[4, 3], kernel=[3, 2], strides=[1, 1], paddings=[0, 0], dilations=[1, 1]}"
    graph = graph_of(f"window_places(Like=x) -> (Out=a) {attrs}", "x a: float64[1, 8, 3, 2]")
    assert not ConstantFolding().run(graph)


def test_the_limit_is_about_what_is_listed() -> None:
    text = "fill_constant() -> (Out=a) {shape=[8], value=2.0}\nscale(X=a) -> (Out=b) {scale=3.0}\ncumsum(X=b) -> (Out=c)"
    graph = graph_of(text, "a b c: float32[8]")
    assert ConstantFolding(limit=4).run(graph)
    assert types(graph) == ["fill_constant", "cumsum"]
    assert ConstantFolding(limit=8).run(graph)
    assert types(graph) == ["assign_value"]


def test_a_listed_constant_of_equal_elements_is_filled() -> None:
    graph = graph_of('assign_value() -> (Out=a) {shape=[3], dtype="float32", fp32_values=[2.0, 2.0, 2.0]}', ABC)
    assert ConstantFolding().run(graph)
    assert types(graph) == ["fill_constant"]


def test_requested_constants_keep_their_names() -> None:
    graph = graph_of(FILLED + "elementwise_add(X=a, Y=b) -> (Out=c)\nelementwise_sub(X=a, Y=b) -> (Out=d)", ABC)
    ConstantFolding().run(graph)
    assert {value.name for value in graph.targets} == {"c", "d"}


SAMPLES: list[tuple[str, list[Any]]] = [
    ("float64", [0.1, -0.0, float("nan"), float("inf"), 5e-324]),
    ("float32", [0.1, -0.0, float("nan"), float("-inf"), 1e-45]),
    ("float16", [0.1, -0.0, float("nan"), float("inf"), 6e-8]),
    ("int64", [2**53 + 1, -(2**63), 2**63 - 1]),
    ("int32", [-(2**31), 2**31 - 1, 0]),
    ("int16", [-(2**15), 5]),
    ("int8", [-128, 127]),
    ("uint8", [0, 255]),
    ("bool", [True, False]),
]


@pytest.mark.parametrize(("dtype", "items"), [(d, s) for d, found in SAMPLES for s in (found, found[:1], found[-1:] * 3)])
def test_constants_are_exact_through_the_text_of_a_program(dtype: str, items: list[Any]) -> None:
    array = np.array(items, dtype)
    found = constant_for(array, array.shape)
    assert found is not None
    program = ga.Program()
    block = program.global_block()
    out = block.create_var(name="out", shape=list(array.shape), dtype=dtype)
    block.append_op(found[0], inputs={}, outputs={"Out": [out]}, attrs=found[1])
    (again,) = ga.Executor().run(ga.Program.parse(str(program)), fetch_list=["out"])
    assert again.dtype == array.dtype
    np.testing.assert_array_equal(again, array)
    if array.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(again[~np.isnan(again)]), np.signbit(array[~np.isnan(array)]))


def test_zeros_of_both_signs_are_not_uniform() -> None:
    found = constant_for(np.array([0.0, -0.0]), (2,))
    assert found is not None
    assert found[0] == "assign_value"


def test_on_random_programs() -> None:
    assert check_pass("constant-folding", examples=60).changed > 10


def test_a_constant_that_reads_its_value_is_none_of_its_own() -> None:
    filled = "fill_constant(ValueTensor=x) -> (Out=a) {shape=[3], value=2.0}\nscale(X=a) -> (Out=b) {bias=1.0}"
    graph = graph_of(filled, "x: float32[1]; a b: float32[3]")
    ConstantFolding().run(graph)
    (result,) = ga.Executor().run(ga.schedule(graph), feed={"x": np.array([5.0], "float32")}, fetch_list=["b"])
    np.testing.assert_array_equal(result, np.full(3, 6.0, "float32"))


def test_a_filled_result_of_an_open_declaration_has_the_extents_of_its_operands() -> None:
    graph = graph_of(
        "round(X=x) -> (Out=a)\nfill_zeros_like(X=a) -> (Out=b)\nfill_zeros_like(X=b) -> (Out=c)", "x a b: float32[3, 3]; c: float32[-1, 3]"
    )
    assert ConstantFolding(limit=4).run(graph)
    (op,) = [op for op in graph.ops if "c" in {value.name for value in op.writes()}]
    assert op.attrs["shape"] == [3, 3]
    (result,) = ga.Executor().run(ga.schedule(graph), fetch_list=["c"])
    np.testing.assert_array_equal(result, np.zeros((3, 3), "float32"))
