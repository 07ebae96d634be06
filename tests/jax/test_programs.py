"""Programs with blocks on XLA, against the interpreter: stored cases, random nested ones, loops whose trip count is not known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="jax, on which programs run as XLA programs, is not installed: pip install 'graphad[jax]'")

import jax

import graphad as ga
from graphad.errors import ExecutionError, NotLowered
from graphad.jax.stacks import as_buffer, as_tape_buffer
from graphad.ops.aggregates import Tape, TensorArray
from tests.conformance.loading import differentiated, load, names, program_of
from tests.conformance.test_stored import variables
from tests.jax.agreement import REFUSED, outcome
from tests.jax.programs import assert_close, on_numpy, on_xla
from tests.optimizer.test_optimizer import MAKE, assert_five_steps
from tests.shares import one_in

STORED = [name for name in names() if not name.startswith("opt_")]
PAGE = Path(__file__).parents[2] / "docs" / "jax.md"
RANDOM = range(100, 500)  # seeds of random nested programs
LOWERED = 0.97  # of them
FEW = [name for name in STORED if any(word in name for word in ("while", "cond", "array", "lenet", "double_grad"))]


def assert_stored(name: str) -> None:
    case = load(name)
    program = program_of(case.doc["forward"])
    found = differentiated(case, program.global_block().var(case.doc["loss"]), variables(program, case))
    fetch = [case.doc["loss"], *(g.name for g in found.values() if g is not None)]
    feeds, params = case.group("feed"), case.group("param")
    expected = on_numpy(program, feeds, params, fetch)
    got, _ = on_xla(program, feeds, params, fetch, max_trips=32)
    for each, one, other in zip(fetch, got, expected, strict=True):
        assert_close(one, other, each)


@pytest.mark.parametrize("name", one_in(3, FEW))
def test_stored_cases_with_blocks(name: str) -> None:
    assert_stored(name)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in STORED if name not in FEW])
def test_other_stored_cases(name: str) -> None:
    assert_stored(name)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] if name != "opt_adam" else []) for name in MAKE])
def test_stored_cases_of_optimizers(name: str) -> None:
    assert_five_steps(name, ga.JaxExecutor().run)


def test_some_random_nested_programs() -> None:
    """Of the last one second derivatives too, through a branch whose condition depends on values."""
    assert sum(outcome(seed, 2 if seed == 7 else 1).kind == "agrees" for seed in range(8)) >= 6


def test_a_branch_that_is_known_to_go_one_way_where_its_gradient_does_not_know_it() -> None:
    assert outcome(1177).kind == "agrees"


def test_arrays_of_tensors_in_both_forms_are_added() -> None:
    """Of the gradients of an array one may come from a loop, as a buffer, and another not."""
    array, buffer = TensorArray([np.ones(2)]), as_buffer(TensorArray([jax.numpy.full(2, 2.0)]), 3)
    for total in (array + buffer, buffer + array):
        np.testing.assert_array_equal(total.read(0), [3.0, 3.0])


@pytest.mark.parametrize("first", [0, 1])
def test_entries_of_a_tape_of_which_one_lacks_an_element_of_an_array(first: int) -> None:
    """A cotangent lacks the elements that are zero, and as a row of a stack it has them."""
    whole = TensorArray([np.ones(2), np.full(2, 2.0)])
    tape = as_tape_buffer(Tape(), 2)
    for entry in [whole, whole.without(1)][:: 1 - 2 * first]:
        tape = tape.push([entry])
    popped = []
    for _ in range(2):
        tape, (array,) = tape.pop()
        popped.append([np.asarray(array.read(i)).tolist() for i in range(len(array))])
    assert popped == [[[1.0, 1.0], [0.0, 0.0]], [[1.0, 1.0], [2.0, 2.0]]][:: 1 - 2 * first]


def test_an_array_that_a_loop_in_a_loop_of_unknown_trips_extends() -> None:
    """The array has room for all iterations of both; how long it is at the end only the run says."""
    program = ga.Program()
    with ga.program_guard(program):
        x, n = ga.layers.data("x", [2], dtype="float64"), ga.layers.data("n", [1], dtype="int64", append_batch_size=False)
        zero, three = ga.layers.fill_constant([1], "int64", 0), ga.layers.fill_constant([1], "int64", 3)
        parts = ga.layers.array_write(x, zero)

        def inner(j: ga.Variable, h: ga.Variable) -> list[ga.Variable]:
            ga.layers.array_write(h, ga.layers.array_length(parts), parts)
            return [j + 1, ga.layers.tanh(h * 1.5)]

        def outer(i: ga.Variable, h: ga.Variable) -> list[ga.Variable]:
            _, h = ga.layers.while_loop(lambda j, h: j < three, inner, [ga.layers.fill_constant([1], "int64", 0), h])
            return [i + 1, h]

        ga.layers.while_loop(lambda i, h: i < n, outer, [zero, x])
        last = ga.layers.array_read(parts, ga.layers.array_length(parts) - 1)
    feeds = {"x": X[:, :2], "n": np.array([4])}
    (got,), _ = on_xla(program, feeds, {}, [last], max_trips=4)
    assert_close(got, on_numpy(program, feeds, {}, [last])[0], "last")


def test_an_array_that_is_longer_in_an_iteration_than_around_the_loop() -> None:
    """Its cotangent, in which a place is written whose number only the run knows, has room for all of it."""
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [2, 3], dtype="float64", append_batch_size=False, stop_gradient=False)
        i, three, one = (ga.layers.fill_constant([1], "int64", n) for n in (0, 3, 1))
        around = ga.layers.array_write(x, ga.layers.fill_constant([1], "int64", 0))

        def body(i: ga.Variable, h: ga.Variable) -> list[ga.Variable]:
            block = program.current_block()
            longer = block.create_var("longer", type="LOD_TENSOR_ARRAY", dtype="float64")
            block.append_op(type="write_to_array", inputs={"X": [h], "I": [one], "Array": [around]}, outputs={"Out": [longer]})
            return [i + 1, ga.layers.tanh(ga.layers.array_read(longer, one)) + ga.layers.array_read(longer, one - 1)]

        _, h = ga.layers.while_loop(lambda i, h: i < three, body, [i, x])
        (g,) = ga.gradients(ga.layers.reduce_sum(h * h), [x])
    (got,), _ = on_xla(program, {"x": X}, {}, [g])
    assert_close(got, on_numpy(program, {"x": X}, {}, [g])[0], "dx")


@pytest.mark.long
@pytest.mark.parametrize("seed", [731628])
def test_random_programs_that_were_wrong(seed: int) -> None:
    assert outcome(seed).kind == "agrees"


def test_a_loop_whose_counter_says_the_place_of_a_slice() -> None:
    """Written out, with its gradient: XLA knows a counter in a loop by its type alone."""
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", [2, 3], dtype="float64", append_batch_size=False, stop_gradient=False)
        i, two = ga.layers.fill_constant([1], "int64", 0), ga.layers.fill_constant([1], "int64", 2)
        _, h = ga.layers.while_loop(
            lambda i, h: i < two, lambda i, h: [i + 1, h + ga.layers.tanh(ga.layers.slice(x, [0], [i], [i + 1]))], [i, x * 0.0]
        )
        (g,) = ga.gradients(ga.layers.reduce_sum(h * h), [x])
        assert g is not None
    (got, dx), _ = on_xla(program, {"x": X}, {}, [h, g])
    expected, expected_dx = on_numpy(program, {"x": X}, {}, [h, g])
    assert_close(got, expected, "h")
    assert_close(dx, expected_dx, "dx")


@pytest.mark.long
def test_an_array_that_has_several_names_in_a_loop() -> None:
    """Its room is counted once, by the outermost loop, whatever copies of it are called."""
    assert outcome(1855, 2).kind == "agrees"


@pytest.mark.long
@pytest.mark.parametrize("seed", [31, 159, 599])
def test_second_derivatives_through_branches(seed: int) -> None:
    """Branches in branches, tapes of one entry, and a branch in a loop that always goes one way: only its gradient does not know it."""
    assert outcome(seed, 2).kind == "agrees"


@pytest.mark.long
@pytest.mark.parametrize("seed", [91015, 91327])
def test_second_derivatives_of_arrays_that_lack_an_element(seed: int) -> None:
    """An element that an iteration clears has an empty cotangent."""
    assert outcome(seed, 2).kind == "agrees"


@pytest.mark.long
@pytest.mark.parametrize("start", RANDOM[::50])
def test_random_nested_programs(start: int) -> None:
    """None differs, and what is not lowered has a reason that the page gives. ``python -m tests.jax.agreement`` runs more."""
    kinds = {outcome(seed, 1 + seed % 2).kind for seed in range(start, start + 50)}
    assert "agrees" in kinds
    assert kinds <= {"agrees", "not lowered"}


@pytest.mark.long
def test_most_random_nested_programs_are_lowered() -> None:
    """One count of all of them, since how many of fifty are not is chance."""
    kinds = [outcome(seed, 1 + seed % 2, compiled=False).kind for seed in RANDOM]
    assert kinds.count("lowered") >= LOWERED * len(RANDOM)


def test_the_page_gives_the_reasons_for_which_programs_are_not_lowered() -> None:
    section = " ".join(PAGE.read_text(encoding="utf-8").split("## What is not lowered")[1].split())
    assert [words for words in REFUSED.values() if words not in section] == []


# -- loops ---------------------------------------------------------------------------------------


def loop(trips: int | None, order: int = 1) -> ga.Program:
    """``h = tanh(h * x)`` in a loop, and derivatives; how often it runs is a constant, or fed."""
    program = ga.Program()
    with ga.program_guard(program):
        x = ga.layers.data("x", shape=[3], dtype="float64", stop_gradient=False)
        i = ga.layers.fill_constant([1], "int64", 0)
        n = (
            ga.layers.data("n", shape=[1], dtype="int64", append_batch_size=False)
            if trips is None
            else ga.layers.fill_constant([1], "int64", trips)
        )
        _, h = ga.layers.while_loop(lambda i, h: i < n, lambda i, h: [i + 1, ga.layers.tanh(h * x)], [i, x])
        g = ga.layers.reduce_sum(h * h)
        for _ in range(order):
            (found,) = ga.gradients(g, [x])
            assert found is not None
            g = found
        ga.layers.assign(g, program.global_block().create_var("result", dtype="float64"))
    return program


X = np.random.default_rng(0).normal(size=(2, 3))


@pytest.mark.parametrize(("trips", "order"), [(0, 1), (1, 1), (7, 1), (5, 2)])
def test_a_loop_of_known_trips(trips: int, order: int) -> None:
    program = loop(trips, order)
    (got,), _ = on_xla(program, {"x": X}, {}, ["result"])
    assert_close(got, on_numpy(program, {"x": X}, {}, ["result"])[0], "result", 1e-10)


def test_a_loop_of_known_trips_is_one_loop_of_xlas() -> None:
    function = ga.to_jax(loop(50), ["result"])
    with jax.enable_x64(True):
        text = jax.jit(function).lower({"x": X}, {}).as_text()
    assert text.count("stablehlo.tanh") <= 2
    assert text.count("stablehlo.while") == 2


@pytest.mark.parametrize("trips", [0, 1, 9])
def test_a_loop_of_unknown_trips_takes_a_bound(trips: int) -> None:
    program, feeds = loop(None), {"x": X, "n": np.array([trips])}
    (got,), _ = on_xla(program, feeds, {}, ["result"], max_trips=9)
    assert_close(got, on_numpy(program, feeds, {}, ["result"])[0], "result", 1e-10)


def test_a_loop_of_unknown_trips_without_a_bound_is_refused_at_the_users_line() -> None:
    with pytest.raises(NotLowered, match=r"operator 'while': how often it runs depends on 'less_than.*max_trips=[\s\S]*test_programs.py"):
        ga.JaxExecutor().run(loop(None), {"x": X, "n": np.array([3])}, ["result"], ga.Scope())


def test_more_trips_than_the_bound_are_an_error() -> None:
    executor, scope = ga.JaxExecutor(max_trips=4), ga.Scope()
    with pytest.raises(ExecutionError, match="the loop takes more than max_trips=4 iterations"):
        executor.run(loop(None), {"x": X, "n": np.array([5])}, ["result"], scope)
    assert not scope.names()


def test_a_loop_of_unknown_trips_without_a_gradient_needs_no_bound() -> None:
    program = loop(None, order=0)
    (got,) = ga.JaxExecutor().run(program, {"x": X, "n": np.array([30])}, ["result"], ga.Scope())
    assert_close(got, on_numpy(program, {"x": X, "n": np.array([30])}, {}, ["result"])[0], "result")


def test_jax_differentiates_a_loop_of_known_trips_as_graphad_does() -> None:
    function = ga.to_jax(loop(6, order=0), ["result"])
    with jax.enable_x64(True):
        got = jax.grad(lambda x: function({"x": x}, {})[0][0].sum())(jax.numpy.asarray(X))
    (expected,) = on_numpy(loop(6), {"x": X}, {}, ["result"])
    assert_close(np.asarray(got), expected, "dx", 1e-9)


def test_values_are_printed_in_the_order_of_the_program(capfd: pytest.CaptureFixture[str]) -> None:
    with ga.program_guard(ga.Program()) as program:
        x = ga.layers.data("x", [2], append_batch_size=False)
        ga.layers.Print(x * 2.0, message="first")
        ga.layers.Print(ga.layers.assign(np.array([3, 4])), message="a constant")
        out = ga.layers.Print(x + 1.0, message="last")
    executor = ga.JaxExecutor()
    for _ in range(2):
        executor.run(program, feed={"x": np.ones(2, "float32")}, fetch_list=[out])
    jax.effects_barrier()
    lines = capfd.readouterr().out.splitlines()
    assert [line.split(": ")[1] for line in lines if "message" in line] == ["first", "a constant", "last"] * 2


def test_functions_of_python_are_refused() -> None:
    with ga.program_guard(ga.Program()) as program:
        x = ga.layers.data("x", [2], append_batch_size=False)
        out = ga.layers.py_func(np.sin, x, program.global_block().create_var("y", [2], "float32"))
    with pytest.raises(NotLowered, match=r"'py_func': it calls the function 'numpy.sin' of Python, which XLA cannot[\s\S]*written at"):
        ga.JaxExecutor().run(program, feed={"x": np.ones(2, "float32")}, fetch_list=[out])
