"""Running nested blocks: loops, branches and nets work on names, and do what their operators say, in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from tests.execution.test_executor import run
from tests.nested_programs import (
    FLAG,
    Local,
    N,
    Row,
    add,
    constant,
    count_to,
    do,
    fetched,
    if_else,
    let,
    nested,
    net,
    summing,
    when,
    while_,
)

# -- loops ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_loop_runs_as_often_as_its_condition_says(n: int) -> None:
    s, i, goes_on = run(summing(), {"n": [n], "s": [100], "x": [2]}, ["s", "i", "i_goes_on"])
    assert (s.tolist(), i.tolist(), goes_on.tolist()) == ([100 + 2 * n], [n], [False])


@pytest.mark.parametrize("shape", [[], [1], [1, 1]])
def test_a_condition_is_one_boolean_of_any_rank(shape: list[int]) -> None:
    program = nested(while_("more", do("logical_not", {"X": "more"}, "more"), add("s", "s", "s")), more=(shape, "bool"), s=[1])
    assert fetched(program, "s", more=np.full(shape, True), s=[3]) == [6]
    assert fetched(program, "s", more=np.full(shape, False), s=[3]) == [3]


def test_a_body_runs_in_order_on_the_names_around_it() -> None:
    program = nested(*count_to("n", let("old", "a"), let("a", "b"), let("b", "old")), n=N, a=[1], b=[1])
    assert [fetched(program, "a", n=[n], a=[1], b=[2]) for n in range(3)] == [[1], [2], [1]]
    overwritten = nested(*count_to("n", let("a", "b"), let("b", "a")), n=N, a=[1], b=[1])
    assert fetched(overwritten, "b", n=[1], a=[1], b=[2]) == [2]


def test_a_value_overwritten_without_being_read_stays_if_there_is_no_iteration() -> None:
    program = nested(*count_to("n", do("cast", {"X": "i"}, "last", out_dtype="float32")), n=N, last=[1])
    assert [fetched(program, "last", n=[n], last=[-1]) for n in range(4)] == [[-1], [0], [1], [2]]


def test_writes_go_out_through_two_levels() -> None:
    inner = count_to("m", add("s", "x", "s"), i="j")
    program = nested(*count_to("n", *inner), n=N, m=N, s=[1], x=[1])
    assert [fetched(program, "s", n=[n], m=[m], s=[0], x=[1]) for n, m in ((0, 3), (3, 0), (2, 3))] == [[0], [0], [6]]


def test_a_body_sees_the_names_of_every_block_around_it() -> None:
    inner = count_to("i", add("s", "own", "s"), i="j")
    program = nested(*count_to("n", do("scale", {"X": "x"}, "own", scale=10.0), *inner), n=N, s=[1], x=[1])
    assert fetched(program, "s", n=[4], s=[0], x=[1]) == [10 * (0 + 1 + 2 + 3)]


def test_a_name_declared_inside_hides_the_one_around() -> None:
    body: list[Row] = [Local("t"), do("scale", {"X": "x"}, "t", scale=3.0), add("s", "t", "s")]
    program = nested(*count_to("n", *body), do("scale", {"X": "t"}, "after"), n=N, s=[1], x=[1], t=[1])
    s, t, after = run(program, {"n": [2], "s": [0], "x": [1], "t": [50]}, ["s", "t", "after"])
    assert [float(v[0]) for v in (s, t, after)] == [6, 50, 50]


def test_blocks_beside_each_other_may_use_one_name() -> None:
    body: list[Row] = [Local("t"), do("scale", {"X": "x"}, "t", scale=3.0), add("s", "t", "s")]
    program = nested(net(*body), net(*body), *count_to("n", *body), n=N, s=[1], x=[1])
    assert fetched(program, "s", n=[2], s=[0], x=[1]) == [12]


def test_names_of_a_body_are_fresh_in_each_iteration() -> None:
    body: list[Row] = [
        Local("t"),
        if_else("first", [do("tanh", {"X": "x"}, "t")]),
        add("s", "t", "s"),
        do("less_than", {"X": "n", "Y": "i"}, "first"),
    ]
    program = nested(*count_to("n", *body), n=N, s=[1], x=[1], first=FLAG)
    assert fetched(program, "s", n=[1], s=[0], x=[0], first=[True]) == [0]
    with pytest.raises(ValueError, match="'elementwise_add' reads 't' before any operator wrote it: no block that writes it has run"):
        run(program, {"n": [2], "s": [0], "x": [0], "first": [True]}, ["s"])


def test_a_loop_can_stand_in_a_branch_in_a_loop() -> None:
    inner = if_else("flag", count_to("m", add("s", "x", "s"), i="j"), [do("scale", {"X": "s"}, "s", scale=2.0)])
    program = nested(*count_to("n", inner, do("logical_not", {"X": "flag"}, "flag")), n=N, m=N, s=[1], x=[1], flag=FLAG)
    expected, flag = 1.0, True
    for n in range(5):
        assert fetched(program, "s", n=[n], m=[3], s=[1], x=[1], flag=[True]) == [expected]
        expected, flag = (expected + 3 if flag else expected * 2), not flag


# -- branches and nets ---------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [[], [1]])
def test_if_else_runs_one_of_two_blocks(shape: list[int]) -> None:
    program = nested(
        if_else("c", [do("tanh", {"X": "x"}, "y")], [do("scale", {"X": "x"}, "y", scale=3.0)]), c=(shape, "bool"), x=[1], y=[1]
    )
    assert fetched(program, "y", c=np.full(shape, False), x=[2]) == [6]
    assert fetched(program, "y", c=np.full(shape, True), x=[0]) == [0]


@pytest.mark.parametrize(("c", "expected"), [(True, [1, 20]), (False, [10, 2])])
def test_what_only_the_other_branch_writes_stays_as_it_was(c: bool, expected: list[float]) -> None:
    program = nested(if_else("c", [let("a", "x")], [let("b", "y")]), c=FLAG, a=[1], b=[1], x=[1], y=[1])
    a, b = run(program, {"c": [c], "a": [10], "b": [20], "x": [1], "y": [2]}, ["a", "b"])
    assert [float(a[0]), float(b[0])] == expected


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_branches_nest(outer: bool, inner: bool) -> None:
    ways = [[constant("y", 10 * o + i)] for o in (1, 0) for i in (1, 0)]
    program = nested(if_else("c", [if_else("d", ways[0], ways[1])], [if_else("d", ways[2], ways[3])]), c=FLAG, d=FLAG, y=[1])
    assert fetched(program, "y", c=[outer], d=[inner]) == [10 * outer + inner]


@pytest.mark.parametrize(("sizes", "runs"), [([2], True), ([0], False), ([1, 3], True), ([3, 0], False)])
def test_a_condition_that_is_no_scalar_holds_if_no_tensor_is_empty(sizes: list[int], runs: bool) -> None:
    names = [f"c{i}" for i in range(len(sizes))]
    feed: dict[str, Any] = {name: np.zeros(size, "float32") for name, size in zip(names, sizes, strict=True)}
    variables = {name: [-1] for name in names}
    one = nested(when(names, let("y", "x"), is_scalar_condition=False), x=[1], y=[1], **variables)
    assert fetched(one, "y", x=[1], y=[0], **feed) == [runs]
    two = nested(if_else(names, [let("y", "x")], [constant("y", 7)], is_scalar_condition=False), x=[1], y=[1], **variables)
    assert fetched(two, "y", x=[1], y=[0], **feed) == [1 if runs else 7]


@pytest.mark.parametrize("c", [True, False])
def test_a_conditional_block_leaves_what_it_does_not_write(c: bool) -> None:
    program = nested(when("c", add("y", "x", "y")), c=FLAG, x=[1], y=[1])
    assert fetched(program, "y", c=[c], x=[1], y=[5]) == [5 + c]


def test_select_input_chooses_between_what_has_a_value() -> None:
    program = nested(
        when("c", do("scale", {"X": "x"}, "a", scale=2.0)),
        do("logical_not", {"X": "c"}, "d"),
        when("d", do("scale", {"X": "x"}, "b", scale=3.0)),
        do("cast", {"X": "c"}, "mask", out_dtype="int32"),
        do("select_input", {"X": ["b", "a"], "Mask": "mask"}, "y"),
        do("scale", {"X": "y"}, "z"),
        c=FLAG,
        x=[1],
        a=[1],
        b=[1],
    )
    assert [fetched(program, "z", c=[c], x=[1]) for c in (True, False)] == [[2], [3]]


def test_rows_come_from_the_branch_that_ran() -> None:
    branches = when("s", let("a", "x")), when("t", let("b", "z"))
    merge = do("merge_lod_tensor", {"Mask": "m", "InTrue": "a", "InFalse": "b"}, "y")
    program = nested(*branches, merge, m=([2, 1], "bool"), s=FLAG, t=FLAG, x=[-1, 1], z=[-1, 1], a=[-1, 1], b=[-1, 1])
    m = np.array([[True], [False]])
    assert fetched(program, "y", s=[True], t=[True], m=m, x=[[1]], z=[[2]]) == [[1], [2]]
    assert fetched(program, "y", s=[True], t=[False], m=~m | m, x=[[1], [3]]) == [[1], [3]]
    assert fetched(program, "y", s=[False], t=[True], m=m & ~m, z=[[1], [3]]) == [[1], [3]]


def test_a_sum_leaves_out_what_a_branch_not_taken_would_have_written() -> None:
    program = nested(when("c", let("a", "x")), do("sum", {"X": ["a", "x"]}, "y"), c=FLAG, a=[1], x=[1])
    assert [fetched(program, "y", c=[c], x=[4]) for c in (True, False)] == [[8], [4]]


def test_a_net_runs_once() -> None:
    program = nested(net(add("s", "x", "s"), net(add("s", "x", "s"))), s=[1], x=[1])
    assert fetched(program, "s", s=[0], x=[3]) == [6]


# -- arrays of tensors ---------------------------------------------------------------------------


def squares() -> ga.Program:
    """An array of the squares below n, and the sum of its elements in a second loop."""
    square = [do("cast", {"X": "i"}, "f", out_dtype="float32"), do("elementwise_mul", {"X": "f", "Y": "f"}, "f2")]
    write = do("write_to_array", {"X": "f2", "I": "i"}, "array")
    read = [do("read_from_array", {"X": "array", "I": "j"}, "item"), add("total", "item", "total")]
    return nested(
        do("create_array", {}, "array", shape=[1]),
        *count_to("n", *square, write),
        do("lod_array_length", {"X": "array"}, "length"),
        constant("total", 0),
        *count_to("length", *read, i="j"),
        n=N,
    )


@pytest.mark.parametrize("n", [0, 1, 4])
def test_an_array_written_in_one_loop_is_read_in_another(n: int) -> None:
    array, length, total = run(squares(), {"n": [n]}, ["array", "length", "total"])
    assert [item.tolist() for item in array] == [[i * i] for i in range(n)]
    assert (length.tolist(), total.tolist()) == ([n], [sum(i * i for i in range(n))])


def test_a_fetched_array_is_the_callers_own_list() -> None:
    program = nested(do("write_to_array", {"X": "x", "I": "i"}, "a"), let("b", "a"), x=[2], i=N)
    x = np.ones(2, "float32")
    a, b = run(program, {"x": x, "i": [1]}, ["a", "b"])
    assert isinstance(a, list)
    assert a[0] is b[0] is None
    a[1] += 5
    assert (x.tolist(), b[1].tolist()) == ([1, 1], [1, 1])


def test_an_array_taken_apart_and_put_together() -> None:
    taken = do("tensor_to_tensor_array", {"X": "x"}, "rows")
    turned = do("tensor_array_to_tensor", {"X": "rows"}, "y", axis=1, use_stack=True)
    program = nested(taken, turned, x=[3, 2])
    x = np.arange(6.0, dtype="float32").reshape(3, 2)
    assert fetched(program, "y", x=x) == x.T.tolist()
