"""Refusals of layers that make constants or overwrite a Variable: with the user's line, and the program unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from tests.control import Row, S, T, V, layers, refused

REFUSED: list[Row] = [
    (lambda g: layers.fill_constant([1], "float32", "1"), T, r"layers.fill_constant: value is a number, not '1'"),
    (lambda g: layers.fill_constant([1], "float32", [1]), T, r"value is a number, not \[1\]"),
    (lambda g: layers.fill_constant([1], "float32", np.ones(1)), T, r"value is a number, not array"),
    (lambda g: layers.fill_constant([1], "float32", g.x), T, r"value is a number, not Variable x"),
    (lambda g: layers.fill_constant("float32", [1], 1), T, r"a shape is a list of ints, not 'float32'"),
    (lambda g: layers.fill_constant([-1, 2], "float32", 1), V, r"the shape \[-1, 2\] has an unknown extent"),
    (lambda g: layers.fill_constant([1], "float31", 1), T, r"'float31' is not a dtype"),
    (lambda g: layers.fill_constant([1], "int64", 2**63), V, r"9223372036854775808 does not fit into int64"),
    (lambda g: layers.fill_constant([2], "int32", 2**60), V, r"1152921504606846976 does not fit into int32"),
    (lambda g: layers.fill_constant([1], "float32", 1, out=3), T, r"out is a Variable to write into, not 3"),
    (
        lambda g: layers.fill_constant([1], "float32", 1, out=g.x),
        S,
        r"writes Out = 'x' as float32\[1\], but it is declared as float32\[3\]",
    ),
    (lambda g: layers.zeros([1.0], "float32"), T, r"a shape is a list of ints, not \[1.0\]"),
    (lambda g: layers.truncated_gaussian_random([3]), T, r"truncated_gaussian_random takes shape, .* by keyword, not \(\[3\],\)"),
    (lambda g: layers.mean(g.x, 1), T, r"layers.mean: name is a string, not 1"),
    (lambda g: layers.randint([3], 0, 5), T, r"layers.randint: low is an int, not \[3\]"),
    (lambda g: layers.randint(shape=[3], low=5, high=5), S, r"there is no integer in \[low, high\)"),
    (lambda g: layers.uniform_random([3], "int64"), S, r"random floating-point numbers are"),
    (lambda g: layers.eye("3"), T, r"attribute 'num_rows' is int"),
    (lambda g: layers.range(0, "9", 1, "int64"), T, r"layers.range: end is a number or a Variable of one element, not '9'"),
    (lambda g: layers.range(0, 9, 0.5, "int64"), V, r"step is 0.5, which is 0 as int64; it leads nowhere"),
    (lambda g: layers.range(g.x, 9, 1, "float32"), S, r"Start is float32\[3\]; one element is expected"),
    (lambda g: layers.assign("x"), T, r"layers.assign: input is a Variable, a number or an array, not 'x'"),
    (lambda g: layers.assign(g.x, "y"), T, r"output is a Variable to write into, not 'y'"),
    (lambda g: layers.assign(g.x, g.double), S, r"writes Out = 'double' as float32\[3\], but it is declared as float64\[3\]"),
    (lambda g: layers.assign(1.5, g.k), S, r"writes Out = 'k' as float32\[1\], but it is declared as int64\[1\]"),
    (lambda g: layers.assign(1.5, g.x), S, r"writes Out = 'x' as float32\[\], but it is declared as float32\[3\]"),
    (lambda g: layers.increment(3), T, r"layers.increment: x is a tensor Variable, not 3"),
    (lambda g: layers.increment(g.array), T, r"x is a tensor Variable, not Variable array_write_0.out_0"),
    (lambda g: layers.increment(g.x, "1"), T, r"value is a number, not '1'"),
    (lambda g: layers.increment(g.x, g.y), T, r"value is a number, not Variable y"),
    (lambda g: layers.increment(g.k, 0.5), V, r"'k' holds int64, to which 0.5, no whole number, cannot be added"),
    (lambda g: layers.sums([]), V, r"layers.sums: input is empty"),
    (lambda g: layers.sums([g.x, 1.0]), T, r"input\[1\] is a tensor Variable, not 1.0"),
    (lambda g: layers.sums([g.x, g.short]), S, r"a sum adds tensors of one shape"),
    (lambda g: layers.sums("x"), T, r"input is a tensor Variable, not 'x'"),
    (lambda g: layers.less_than(1, 2), T, r"layers.less_than: x is 1 and y is 2; at least one of them is a Variable"),
    (lambda g: layers.equal(g.x, "y"), T, r"layers.equal: y is a tensor Variable, not 'y'"),
    (lambda g: layers.equal(g.array, g.x), T, r"x is a tensor Variable, not"),
    (lambda g: layers.less_than(g.x, g.double), S, r"operator 'less_than'"),
    (lambda g: layers.less_than(g.x, g.y, cond=g.p), S, r"writes Out = 'p' as bool\[3\], but it is declared as bool\[1\]"),
    (lambda g: layers.less_than(g.k, 1, cond=g.k), S, r"writes Out = 'k' as bool\[1\], but it is declared as int64\[1\]"),
    (lambda g: layers.less_than(g.x, g.y, cond=True), T, r"cond is a Variable to write into, not True"),
    (lambda g: layers.logical_not(True), T, r"layers.logical_not: x is a tensor Variable, not True"),
    (lambda g: layers.logical_and(g.p, g.flags, out=g.p), S, r"writes Out = 'p' as bool\[3\]"),
]


@pytest.mark.parametrize(("build", "error", "message"), REFUSED)
def test_refused(build: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    refused(build, error, message)


def seen() -> ga.Variable:
    return ga.default_main_program().global_block().var("seen")


@pytest.mark.parametrize(
    "write",
    [
        lambda var: layers.assign(1, var),
        lambda var: layers.assign(seen(), var),
        lambda var: layers.increment(var),
        lambda var: layers.fill_constant([1], "int64", 1, out=var),
        lambda var: layers.sums([seen(), seen()], out=var),
    ],
)
def test_what_the_current_block_does_not_see_is_not_overwritten(write: Callable[[ga.Variable], Any]) -> None:
    program = ga.Program()
    with ga.program_guard(program):
        program.global_block().create_var("seen", [1], "int64")
        hidden = program.create_block().create_var("hidden", [1], "int64")
        program.rollback()
        before = str(program)
        with pytest.raises(V, match=r"is 'hidden', which neither block 0 nor one around it declares\n  written at"):
            write(hidden)
    assert str(program) == before
