"""Refusals of control-flow layers: the message names both sides and the user's line, and the programs stay as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from tests.control import Given, Row, S, T, V, layers, refused, write

LOOPS: list[Row] = [
    (lambda g: layers.while_loop(True, lambda x: x, [g.x]), T, r"layers.while_loop: cond is True; a function is expected"),
    (lambda g: layers.while_loop(lambda x: g.p, None, [g.x]), T, r"body is None; a function is expected"),
    (lambda g: g.loop(lambda x: x, g.x), T, r"loop_vars is Variable x: float32\[3\]; a list of variables is expected"),
    (lambda g: g.loop(lambda x: x, {"x": g.x}), T, r"loop_vars is {'x'.*a list of variables"),
    (lambda g: g.loop(lambda: [], []), V, r"loop_vars is empty"),
    (lambda g: g.loop(lambda x: x, [None]), V, r"loop_vars is empty"),
    (lambda g: g.loop(lambda x, s: [x, s], [g.x, "s"]), T, r"loop_vars holds 's'; a Variable, a number or an array is expected"),
    (lambda g: g.loop(lambda x: x, [2**63]), V, r"9223372036854775808 does not fit into int64"),
    (lambda g: g.loop(lambda x: x, [np.array(["a"])]), V, r"dtype 'str\d*' is not supported"),
    # conditions
    (lambda g: layers.while_loop(lambda x: True, lambda x: x, [g.x]), T, r"cond returns True; a boolean Variable of one element"),
    (lambda g: layers.while_loop(lambda x: x, lambda x: x, [g.x]), S, r"cond returns 'while_loop_0.tmp_0', float32\[3\]; a boolean"),
    (lambda g: layers.while_loop(lambda x: g.flags, lambda x: x, [g.x]), S, r"cond returns 'flags', bool\[3\]"),
    (
        lambda g: layers.while_loop(lambda x: g.array, lambda x: x, [g.x]),
        S,
        r"cond returns 'array_write_0.out_0', an array of float32\[3\]",
    ),
    (lambda g: layers.while_loop(lambda x: None, lambda x: x, [g.x]), T, r"cond returns None"),
    (
        lambda g: layers.while_loop(g.turns(g.p, g.k), lambda x: x, [g.x]),
        S,
        r"cond returns 'k', int64\[1\]",
    ),
    (
        lambda g: layers.while_loop(g.turns(g.p, g.mask), lambda x: x, [g.x]),
        S,
        r"cond returns bool\[1\] before the loop, but bool\[-1, 1\] after body",
    ),
    # structures
    (lambda g: g.loop(lambda x, y: [x], [g.x, g.y]), V, r"body returns a list of 1, but loop_vars has a list of 2"),
    (lambda g: g.loop(lambda x, y: x, [g.x, g.y]), V, r"body returns Variable while.*, but loop_vars has a list of 2"),
    (lambda g: g.loop(lambda x, y: None, [g.x, g.y]), V, r"body returns None, but loop_vars has a list of 2"),
    (lambda g: g.loop(lambda x: [x, x], [g.x]), V, r"body returns a list of 2, but loop_vars has a list of 1"),
    (lambda g: g.loop(lambda x, d: (x, {"b": x}), [g.x, {"a": g.y}]), V, r"body returns a dict of 'b', but .* a dict of 'a' at \[1\]"),
    (lambda g: g.loop(lambda x, d: [x, [d[0], None]], [g.x, [g.y, 1]]), V, r"body returns None, but loop_vars has 1 at \[1\]\[1\]"),
    (lambda g: g.loop(lambda x: "x", [g.x]), T, r"what body returns holds 'x'; a Variable, a number or an array is expected"),
    # types
    (lambda g: g.loop(lambda x, y: [x, g.short], [g.x, g.y]), S, r"loop variable 1 is float32\[3\], but .* 'short', float32\[4, 3\]\n"),
    (
        lambda g: g.loop(lambda x: layers.concat([x, x]), [g.x]),
        S,
        r"variable 0 is float32\[3\], but .* float32\[6\]; shape_invariants, or -1",
    ),
    (
        lambda g: g.loop(lambda x: g.batch, [g.short]),
        S,
        r"loop variable 0 is float32\[4, 3\], but body returns 'batch', float32\[-1, 4\]; s",
    ),
    (lambda g: g.loop(lambda x: g.double, [g.x]), S, r"loop variable 0 is float32\[3\], but body returns 'double', float64\[3\]\n"),
    (lambda g: g.loop(lambda d: {"a": 0.5}, [{"a": 3}]), S, r"loop variable 0\['a'\] is int64\[\], but body returns 0.5, float32\[\]\n"),
    (lambda g: g.loop(lambda x: 0.5, [g.x]), S, r"loop variable 0 is float32\[3\], but body returns 0.5, float32\[\]"),
    (lambda g: g.loop(lambda x: g.array, [g.x]), S, r"variable 0 is float32\[3\], but body returns 'arr.*', an array of float32\[3\]"),
    (lambda g: g.loop(lambda a: g.x, [g.array]), S, r"variable 0 is an array of float32\[3\], but body returns 'x', float32\[3\]"),
    (lambda g: g.loop(lambda a: layers.create_array("int64"), [g.array]), S, r"an array of float32\[3\], but .* an array of int64\[\?\]"),
    # shape invariants
    (lambda g: g.loop(lambda x: x, [g.x], shape_invariants=3), T, r"shape_invariants is 3; a list of shapes is expected"),
    (lambda g: g.loop(lambda x: x, [g.x], shape_invariants=[[3], [3]]), V, r"shape_invariants has 2 shapes for 1 loop variables"),
    (lambda g: g.loop(lambda x: x, [g.x], shape_invariants=["3"]), T, r"a shape is a list of ints, not '3'"),
    (lambda g: g.loop(lambda x: x, [g.x], shape_invariants=[[4]]), S, r"invariants\[0\] is \[4\], but .* starts as float32\[3\]"),
    (lambda g: g.loop(lambda x: x, [g.x], shape_invariants=[[-1, 3]]), S, r"invariants\[0\] is \[-1, 3\], but .* starts as float32\[3\]"),
    # in the block
    (lambda g: g.loop(lambda x: layers.concat([x, g.seq]), [g.x]), S, r"'concat'"),
    (lambda g: g.loop(lambda x: (g.main.create_block(), x)[1], [g.x]), V, r"block 2 was begun inside and is still open: call rollback"),
    (lambda g: layers.while_loop(lambda x: g.p, lambda x: x, [g.x], is_test=3), T, r"attribute 'is_test' is bool, got int 3"),
]
BRANCHES: list[Row] = [
    (lambda g: layers.cond(True, lambda: g.x, lambda: g.y), T, r"layers.cond: pred is True; a boolean Variable of one element"),
    (lambda g: layers.cond(g.x, lambda: g.x, lambda: g.y), S, r"layers.cond: pred is 'x', float32\[3\]; a boolean"),
    (lambda g: layers.cond(g.unknown, lambda: g.x, lambda: g.y), S, r"layers.cond: pred is 'unknown', float32\[\?\]; a boolean"),
    (lambda g: layers.cond(g.p, g.x, lambda: g.y), T, r"layers.cond: true_fn is Variable x: float32\[3\]; a function is expected"),
    (lambda g: layers.cond(g.p, lambda: g.y, 3), T, r"false_fn is 3; a function is expected"),
    (lambda g: layers.cond(g.p, lambda: g.x), V, r"true_fn returns Variable x: float32\[3\], but false_fn returns None\n"),
    (lambda g: layers.cond(g.p, lambda: [g.x, g.y], lambda: g.x), V, r"true_fn returns a list of 2, but false_fn returns Variable x"),
    (lambda g: layers.cond(g.p, lambda: [g.x, [g.y]], lambda: [g.x, []]), V, r"returns a list of 1, but false_fn .* a list of 0 at \[1\]"),
    (lambda g: layers.cond(g.p, lambda: {"a": g.x}, lambda: {"b": g.x}), V, r"returns a dict of 'a', but false_fn returns a dict of 'b'"),
    (lambda g: layers.cond(g.p, lambda: "a", lambda: "b"), T, r"what true_fn returns holds 'a'; a Variable, a number or an array"),
    (lambda g: layers.cond(g.p, lambda: 1, lambda: "b"), T, r"what false_fn returns holds 'b'"),
    (
        lambda g: layers.cond(g.p, lambda: g.x, lambda: g.short),
        S,
        r"true_fn returns 'x', float32\[3\], but .* 'short', float32\[4, 3\]: both",
    ),
    (
        lambda g: layers.cond(g.p, lambda: [1, {"a": g.x}], lambda: [1, {"a": g.double}]),
        S,
        r"'x', float32.*'double', float64\[3\] at \[1\]\['a",
    ),
    (lambda g: layers.cond(g.p, lambda: g.x, lambda: layers.concat([g.x, g.y])), S, r"'x', float32\[3\], but .*\[6\]"),
    (lambda g: layers.cond(g.p, lambda: g.k, lambda: 0.5), S, r"true_fn returns 'k', int64\[1\], but false_fn returns 0.5, float32\[1\]"),
    (lambda g: layers.cond(g.p, lambda: g.x, lambda: 0.5), S, r"true_fn returns 'x', float32\[3\], but false_fn returns 0.5, float32\[\]"),
    (lambda g: layers.cond(g.p, lambda: True, lambda: 2), S, r"true_fn returns True, bool\[\], but false_fn returns 2, int64\[\]"),
    (
        lambda g: layers.cond(g.p, lambda: g.array, lambda: g.x),
        S,
        r"an array of float32\[3\], but false_fn returns 'x', float32\[3\]: both",
    ),
    (
        lambda g: layers.cond(g.p, lambda: layers.fc(g.batch, 2), lambda: layers.fc(g.batch, 3)),
        S,
        r"float32\[-1, 2\], but .*float32\[-1, 3\]",
    ),
    (lambda g: layers.case(g.p), T, r"layers.case: pred_fn_pairs is Variable p: .*; a list of pairs is expected"),
    (lambda g: layers.case([]), V, r"layers.case: pred_fn_pairs is empty; at least one pair is expected"),
    (lambda g: layers.case([(g.p, lambda: 1), g.p]), T, r"pred_fn_pairs\[1\] is Variable p: .*; a pair of a test and a function"),
    (lambda g: layers.case([(g.p, lambda: 1), (g.x, lambda: 2)]), S, r"the test of pred_fn_pairs\[1\] is 'x', float32\[3\]; a boolean"),
    (lambda g: layers.case([(g.p, 3)]), T, r"the function of pred_fn_pairs\[0\] is 3; a function is expected"),
    (lambda g: layers.case([(g.p, lambda: 1)], 3), T, r"layers.case: default is 3; a function is expected"),
    (
        lambda g: layers.case([(g.p, lambda: 1), (g.p, lambda: g.x)]),
        S,
        r"layers.case: the function of pred_fn_pairs\[0\] returns 1, .*\[1\] re",
    ),
    (
        lambda g: layers.case([(g.p, lambda: g.x)], lambda: None),
        V,
        r"layers.case: the function of .*\[0\] returns .*, but default returns None",
    ),
    (lambda g: layers.switch_case(1, [lambda: 1]), T, r"layers.switch_case: branch_index is 1; an integer Variable of one element is"),
    (lambda g: layers.switch_case(g.x, [lambda: 1]), S, r"branch_index is 'x', float32\[3\]; an integer Variable"),
    (lambda g: layers.switch_case(g.p, [lambda: 1]), S, r"branch_index is 'p', bool\[1\]; an integer Variable"),
    (lambda g: layers.switch_case(g.k, 3), T, r"branch_fns is 3; a dict or a list of functions is expected"),
    (lambda g: layers.switch_case(g.k, {}), V, r"branch_fns is empty; at least one function is expected"),
    (lambda g: layers.switch_case(g.k, {"1": lambda: 1}), T, r"branch_fns has the index '1'; an int is expected"),
    (lambda g: layers.switch_case(g.k, {True: lambda: 1}), T, r"branch_fns has the index True; an int is expected"),
    (lambda g: layers.switch_case(g.k, [(1, lambda: 1), (1, lambda: 2)]), V, r"branch_fns has an index twice: 1, 1"),
    (lambda g: layers.switch_case(g.k, {1: 3}), T, r"branch_fns\[1\] is 3; a function is expected"),
    (lambda g: layers.switch_case(g.k, {1: lambda: 1}, 3), T, r"layers.switch_case: default is 3; a function is expected"),
    (
        lambda g: layers.switch_case(g.k, {1: lambda: g.x, 4: lambda: g.k}),
        S,
        r"switch_case: branch_fns\[1\] returns 'x', .*branch_fns\[4\] re",
    ),
]
ARRAYS: list[Row] = [
    (lambda g: layers.create_array("float33"), T, r"layers.create_array: 'float33' is not a dtype"),
    (lambda g: layers.create_array("float32", 3), T, r"initialized_list is a list of Variables, not 3"),
    (lambda g: layers.create_array("float32", [g.x, 3]), T, r"initialized_list is a list of Variables, not \[Variable x.*, 3\]"),
    (lambda g: layers.create_array("float32", [g.x, g.k]), V, r"the array is of float32, but initialized_list\[1\] is int64\[1\]"),
    (
        lambda g: layers.create_array("float32", [g.x, g.short]),
        S,
        r"writes Out = .* as float32\[4, 3\], but it is declared as float32\[3\]",
    ),
    (lambda g: layers.array_write(3, 0), T, r"layers.array_write: x is a Variable, not 3"),
    (lambda g: layers.array_write(g.x, None), T, r"i is an integer Variable of one element or a number, not None"),
    (lambda g: layers.array_write(g.x, True), T, r"i is an integer Variable of one element or a number, not True"),
    (lambda g: layers.array_write(g.x, -1), V, r"i is an index from 0 on, not -1"),
    (lambda g: layers.array_write(g.x, g.y), S, r"'write_to_array': I is float32\[3\]; an index is one int32 or int64"),
    (lambda g: layers.array_write(g.x, 0, g.y), T, r"layers.array_write: array is an array of tensors, not Variable y"),
    (lambda g: layers.array_write(g.k, 1, g.array), S, r"Out = 'array_write_0.out_0' as int64\[1\], but it is declared as float32"),
    (lambda g: layers.array_read(g.x, 0), T, r"layers.array_read: array is an array of tensors, not Variable x"),
    (lambda g: layers.array_read(g.array, g.flags), S, r"'read_from_array': I is bool\[3\]; an index"),
    (lambda g: layers.array_length([g.x]), T, r"layers.array_length: array is an array of tensors, not \[Variable x"),
]


@pytest.mark.parametrize(("build", "error", "message"), LOOPS)
def test_loops(build: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    refused(build, error, message)


@pytest.mark.parametrize(("build", "error", "message"), BRANCHES)
def test_branches(build: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    refused(build, error, message)


@pytest.mark.parametrize(("build", "error", "message"), ARRAYS)
def test_arrays(build: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    refused(build, error, message)


def test_the_line_is_that_of_the_call() -> None:
    given = Given()
    with ga.program_guard(given.main), pytest.raises(S) as caught:
        layers.while_loop(
            lambda x: given.p,
            lambda x: given.short,
            [given.x],
        )
    line = test_the_line_is_that_of_the_call.__code__.co_firstlineno + 3
    assert f"written at {__file__}:{line}" in str(caught.value)


@pytest.mark.parametrize("layer", ["while_loop", "cond", "inner"])
def test_an_error_of_the_users_own_comes_through_and_leaves_nothing(layer: str) -> None:
    def failing(*_: Any) -> Any:
        write("scale", given.unknown, X=layers.fc(given.batch, 2))
        raise ZeroDivisionError("mine")

    given = Given()
    given.unknown.declare((-1, 2), "float32")
    before = given.texts()
    builds = {
        "while_loop": lambda: given.loop(failing, [given.x]),
        "cond": lambda: layers.cond(given.p, lambda: layers.fc(given.batch, 3), failing),
        "inner": lambda: layers.cond(given.p, lambda: given.loop(lambda x: layers.cond(given.p, failing), [given.x])),
    }
    with ga.program_guard(given.main, given.startup), pytest.raises(ZeroDivisionError, match="mine"):
        builds[layer]()
    assert given.texts() == before


def test_what_is_made_in_a_block_cannot_be_read_outside() -> None:
    given = Given()
    kept: list[Any] = []

    def body(x: Any) -> Any:
        kept.append(x + 1.0)
        return kept[0]

    with ga.program_guard(given.main, given.startup):
        given.loop(body, [given.x])
        with pytest.raises(V, match=r"operator 'scale' reads 'scale_0.tmp_0', which no block here declares"):
            kept[0] + 1.0
