"""Tensors whose length only the run knows: what operators and gradients make of them, against the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="jax, on which programs run as XLA programs, is not installed: pip install 'graphad[jax]'")

import jax

import graphad as ga
from graphad.errors import ExecutionError, NotLowered
from graphad.jax.operators import run
from graphad.ops import lookup
from graphad.types import Array
from tests.jax.agreement import outcome
from tests.jax.programs import QUICK, assert_close, on_numpy, on_xla

MAX_TRIPS = 5
X = np.random.default_rng(0).normal(size=(2, 3))
WEIGHT = np.random.default_rng(1).normal(size=(3, 4))

Made = Callable[[ga.Variable], ga.Variable]


def collected(x: ga.Variable, axis: int = 0, use_stack: bool = True) -> ga.Variable:
    """Of x, tanh(1.5 x), tanh(1.5 tanh(1.5 x)), ... the first n + 1, as one tensor."""
    return collected_with_extents(x, axis, use_stack)[0]


def collected_with_extents(x: ga.Variable, axis: int, use_stack: bool) -> tuple[ga.Variable, ga.Variable]:
    """The tensor, and how long each of those that are in it is along the axis."""
    n = x.block.vars.get("n") or ga.layers.data("n", [1], dtype="int64", append_batch_size=False)
    zero = ga.layers.fill_constant([1], "int64", 0)
    parts = ga.layers.array_write(x, zero)

    def body(i: ga.Variable, h: ga.Variable) -> list[ga.Variable]:
        h = ga.layers.tanh(h * 1.5)
        ga.layers.array_write(h, ga.layers.array_length(parts), parts)
        return [i + 1, h]

    ga.layers.while_loop(lambda i, h: i < n, body, [zero, x])
    return ga.layers.tensor_array_to_tensor(parts, axis=axis, use_stack=use_stack)


def program_of(make: Made, axis: int = 0, use_stack: bool = True, order: int = 1) -> tuple[ga.Program, list[str]]:
    """The sum of the squares of what is made of the tensor, and its derivative by x."""
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [2, 3], dtype="float64", append_batch_size=False, stop_gradient=False)
        loss = ga.layers.reduce_sum(ga.layers.square(make(collected(x, axis, use_stack))))
        names = [loss.name]
        for _ in range(order):
            (found,) = ga.gradients(loss, [x])
            assert found is not None
            names.append(found.name)
            loss = ga.layers.reduce_sum(ga.layers.square(found))
    return program, names


def assert_agrees(program: ga.Program, names: list[str], *counts: int) -> None:
    for n in counts:
        feeds = {"x": X, "n": np.array([n])}
        got, _ = on_xla(program, feeds, {}, names, max_trips=MAX_TRIPS)
        for name, one, other in zip(names, got, on_numpy(program, feeds, {}, names), strict=True):
            assert_close(one, other, f"{name}, n = {n}", 1e-10)


def weight() -> ga.Variable:
    return ga.layers.assign(WEIGHT)


MADE: dict[str, Made] = {
    "it": lambda e: e,
    "a mean": lambda e: ga.layers.reduce_mean(e, dim=[0]),
    "the mean of all": ga.layers.mean,
    "a sum that keeps its axis": lambda e: e - ga.layers.reduce_sum(e, dim=[0], keep_dim=True),
    "a sum over other axes": lambda e: e * ga.layers.reduce_sum(e, dim=[1, 2], keep_dim=True),
    "a maximum": lambda e: ga.layers.reduce_max(e, dim=[0]),
    "a minimum of all": ga.layers.reduce_min,
    "a maximum over another axis": lambda e: ga.layers.reduce_max(e, dim=[-1]),
    "elements": lambda e: ga.layers.exp(e) / (1.0 + ga.layers.square(e)) + e,
    "elements with a row": lambda e: e * ga.layers.assign(WEIGHT.T[:1]),
    "a product": lambda e: ga.layers.matmul(e, weight()),
    "a product over it": lambda e: ga.layers.matmul(
        ga.layers.transpose(ga.layers.reshape(e, [-1, 6]), [1, 0]), ga.layers.reshape(e, [-1, 6])
    ),
    "softmax of rows": lambda e: ga.layers.softmax(e, axis=-1),
    "another order of axes": lambda e: ga.layers.reduce_sum(ga.layers.transpose(e, [1, 0, 2]), dim=[0]),
    "its extents": lambda e: ga.layers.cast(ga.layers.shape(e), "float64") * ga.layers.reduce_sum(e),
    "how many elements it has": lambda e: ga.layers.cast(ga.layers.size(e), "float64") * ga.layers.reduce_sum(e),
}


FEW = ("it", "a product over it", "a maximum")


@pytest.mark.parametrize(
    "make", [pytest.param(make, id=name, marks=[] if name in FEW else pytest.mark.long) for name, make in MADE.items()]
)
def test_what_is_made_of_it(make: Made) -> None:
    assert_agrees(*program_of(make), 3)


@pytest.mark.parametrize(("axis", "use_stack", "extent"), [(0, False, 2), (2, True, 1)])
def test_the_extents_of_what_is_collected(axis: int, use_stack: bool, extent: int) -> None:
    with ga.program_guard(ga.Program()) as program:
        x = ga.layers.data("x", [2, 3], dtype="float64", append_batch_size=False)
        _, extents = collected_with_extents(x, axis, use_stack)
        names = [extents.name, ga.layers.reduce_sum(extents).name]
    assert_agrees(program, names, 0, 3)
    np.testing.assert_array_equal(on_numpy(program, {"x": X, "n": np.array([3])}, {}, names)[0], [extent] * 4)


@pytest.mark.long
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("use_stack", [True, False])
def test_stacked_and_joined_along_each_axis(axis: int, use_stack: bool) -> None:
    assert_agrees(*program_of(lambda e: ga.layers.tanh(e) * e, axis, use_stack), 3)


@pytest.mark.long
def test_lengths_from_the_least_to_the_greatest() -> None:
    assert_agrees(*program_of(lambda e: ga.layers.reduce_mean(ga.layers.exp(e), dim=[0])), 0, 1, MAX_TRIPS)


@pytest.mark.long
def test_second_derivatives() -> None:
    assert_agrees(*program_of(lambda e: ga.layers.reduce_mean(ga.layers.exp(e), dim=[0]), order=2), 3)


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.long)])
def test_elements_by_mask(order: int) -> None:
    """As many as there are that are positive: some, none of them."""
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [2, 3], dtype="float64", append_batch_size=False, stop_gradient=False)
        chosen, mask = ga.layers.masked_select(x, x > 0.0), x > 0.0
        rows = ga.layers.gather_nd(x, ga.layers.where(mask))
        loss = ga.layers.reduce_sum(ga.layers.tanh(chosen) * rows * ga.layers.cast(ga.layers.size(chosen), "float64"))
        names = [chosen.name, loss.name]
        for _ in range(order):
            (found,) = ga.gradients(loss, [x])
            assert found is not None
            names.append(found.name)
            loss = ga.layers.reduce_sum(ga.layers.square(found))
    for array in (X, -abs(X)):
        got, _ = on_xla(program, {"x": array}, {}, names)
        for name, one, other in zip(names, got, on_numpy(program, {"x": array}, {}, names), strict=True):
            assert_close(one, other, name, 1e-10)


def test_branches_over_rows() -> None:
    """Each row takes one side; a side without rows does not run, which what it assigns shows."""
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [2, 3], dtype="float64", append_batch_size=False, stop_gradient=False)
        runs = ga.layers.fill_constant([1], "float64", 0.0)
        both = ga.layers.IfElse(ga.layers.reduce_sum(x, dim=[1], keep_dim=True) > 0.0)
        with both.true_block():
            ga.layers.increment(runs)
            both.output(ga.layers.tanh(both.input(x)) * 2.0)
        with both.false_block():
            both.output(ga.layers.matmul(both.input(x), ga.layers.assign(WEIGHT[:, :3])))
        (y,) = both()
        loss = ga.layers.reduce_sum(ga.layers.square(y))
        (found,) = ga.gradients(loss, [x])
        assert found is not None
    names = [y.name, runs.name, found.name]
    for array in (X, np.abs(X), -np.abs(X), np.array([[1.0, 2, 3], [-1, -2, -3]])):
        got, _ = on_xla(program, {"x": array}, {}, names)
        for name, one, other in zip(names, got, on_numpy(program, {"x": array}, {}, names), strict=True):
            assert_close(one, other, name, 1e-10)


# -- in branches and loops -----------------------------------------------------------------------


def chosen(e: ga.Variable) -> ga.Variable:
    """Of another length, as only the run knows too."""
    n = e.block.program.global_block().var("n")
    two = ga.layers.fill_constant([1], "int64", 2)
    return ga.layers.cond(n < two, lambda: ga.layers.tanh(e), lambda: ga.layers.concat([ga.layers.assign(WEIGHT.T.reshape(2, 2, 3))] * 2))


def carried(e: ga.Variable) -> ga.Variable:
    """Changed by each iteration of a loop."""
    i, n = ga.layers.fill_constant([1], "int64", 0), e.block.program.global_block().var("n")
    _, e = ga.layers.while_loop(lambda i, e: i < n, lambda i, e: [i + 1, ga.layers.tanh(e * 1.5)], [i, e])
    return e


@pytest.mark.long
@pytest.mark.parametrize("make", [chosen, carried])
def test_it_may_be_chosen_by_a_branch_and_carried_by_a_loop(make: Made) -> None:
    assert_agrees(*program_of(make), 1, 3)


def test_an_executor_returns_as_many_elements_as_there_are() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        e = collected(ga.layers.data("x", [2, 3], dtype="float64", append_batch_size=False))
    executor = ga.JaxExecutor(max_trips=MAX_TRIPS)
    for n in (1, 4):
        feeds = {"x": X, "n": np.array([n])}
        (got,) = executor.run(program, feeds, [e])
        assert_close(got, on_numpy(program, feeds, {}, [e])[0], "e")


# -- what is refused -----------------------------------------------------------------------------


def test_what_depends_on_the_length_is_refused_at_the_users_line() -> None:
    program, names = program_of(lambda e: ga.layers.softmax(e, axis=0))
    message = r"'softmax' cannot be lowered to XLA: an input is float64\[at most 6, 2, 3\], an extent of which [\s\S]*test_lengths.py"
    with pytest.raises(NotLowered, match=message):
        on_xla(program, {"x": X, "n": np.array([1])}, {}, names, max_trips=MAX_TRIPS)


def test_only_tensors_of_known_shapes_are_exported() -> None:
    program = ga.Program()
    with ga.program_guard(program):
        e = collected(ga.layers.data("x", [2, 3], dtype="float64", append_batch_size=False))
    with pytest.raises(NotLowered, match=r"'tensor_array_to_tensor.*' has an extent or a length that is known only when the program runs"):
        ga.jax.exported(program, [e], scope=ga.Scope(), max_trips=MAX_TRIPS)


def test_a_tensor_of_another_length_beside_it_is_an_error() -> None:
    """Of the same one it is none: how many elements there are is compared after the run."""
    program, names = program_of(lambda e: e * ga.layers.assign(np.ones((MAX_TRIPS + 1, 2, 3))))
    executor = ga.JaxExecutor(max_trips=MAX_TRIPS)
    executor.run(program, {"x": X, "n": np.array([MAX_TRIPS])}, names)
    with pytest.raises(ExecutionError, match=r"operator 'elementwise_mul' failed: an input has 6 elements where another one has as many"):
        executor.run(program, {"x": X, "n": np.array([1])}, names)


@pytest.mark.long
def test_a_tape_keeps_what_has_an_unknown_length() -> None:
    """A random program: in a branch in a loop, the shape of such an array is kept for the gradient."""
    assert outcome(1191, 2).kind == "agrees"


# -- how many there are, values say ----------------------------------------------------------------


def on_both(type: str, inputs: dict[str, Array], attrs: dict[str, Any]) -> tuple[list[Array], list[Array]]:
    """The results of an operator on XLA and on numpy."""
    definition = lookup(type)
    attrs = definition.own_attrs(attrs)
    expected = definition.run({slot: [array] for slot, array in inputs.items()}, attrs, list(definition.outputs))

    def made(given: dict[str, Any]) -> list[Any]:
        found = run(definition, {slot: [array] for slot, array in given.items()}, attrs, list(definition.outputs))
        return [found[slot][0] for slot in definition.outputs]

    with jax.enable_x64(True):
        return list(map(np.asarray, jax.jit(made, compiler_options=QUICK)(inputs))), [expected[slot][0] for slot in definition.outputs]


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 24))])
def test_boxes_that_remain(seed: int) -> None:
    """Corners are whole numbers, so that many overlaps are exactly a threshold; scores are eighths, so that many are equal."""
    rng = np.random.default_rng(seed)
    (images, classes), count, dtype = rng.integers(1, 4, 2), rng.integers(1, 25), ("float32", "float64")[seed % 2]
    boxes = rng.integers(0, 12, (images, count, 4)).astype(dtype)
    scores = (rng.integers(0, 9, (images, classes, count)) / 8).astype(dtype)
    limits = {"iou_threshold": float(rng.choice([0.0, 0.25, 1 / 3, 0.5])), "score_threshold": float(rng.choice([-np.inf, 0.25, 0.5]))}
    attrs = {"most": int(rng.integers(0, 8)), "center": seed % 5 == 0, **limits}
    for one, other in zip(*on_both("non_max_suppression", {"Boxes": boxes, "Scores": scores}, attrs), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 24))])
def test_distinct_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, rng.integers(1, 5, 3 if seed % 2 else 1)).astype(("float32", "int64", "int32")[seed % 3])
    attrs = {"axis": [int(rng.integers(-x.ndim, x.ndim))] if seed % 4 == 1 else [], "is_sorted": seed % 5 < 2}
    for one, other in zip(*on_both("unique", {"X": x}, attrs), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("axis", "descending"), [(0, True), (1, False)])
def test_rows_of_unknown_number_are_sorted_and_picked(axis: int, descending: bool) -> None:
    """Along the axis of which the extent is not known, and along another one; many elements are equal, some are zeros."""
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [12, 2], append_batch_size=False)
        rows = ga.layers.gather_nd(x, ga.layers.where_index(ga.layers.reduce_min(x, dim=[1]) > -2.5))
        values, order = ga.layers.argsort(rows, axis=axis, descending=descending)
        first = ga.layers.slice(order, [1], [0], [1])
        picked = ga.layers.gather(rows, ga.layers.reshape(ga.layers.fill_constant([2], "int64", -1), [2]))
        again = ga.layers.gather(x, ga.layers.squeeze(first, [1]))
    fetch = [values, order, picked, again]
    feeds = {"x": np.random.default_rng(0).integers(-4, 3, (12, 2)).astype("float32")}
    for one, other in zip(ga.JaxExecutor().run(program, feeds, fetch, ga.Scope()), on_numpy(program, feeds, {}, fetch), strict=True):
        np.testing.assert_array_equal(one, other)
