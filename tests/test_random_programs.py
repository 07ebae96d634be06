"""Invariants of every program: it lowers, schedules, prints, runs and differentiates as it should."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

import graphad as ga
from graphad.errors import ShapeError
from graphad.ir.verify import verify
from graphad.testing import Case, straight_line_programs
from graphad.types import Array

STEP = 1e-5
many = settings(max_examples=max(40, settings().max_examples), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def run(p: Case, fetch: Collection[str], changed: dict[str, Array] | None = None, executor: ga.Executor | None = None) -> dict[str, Array]:
    """The values of names after a run in a fresh scope, some feeds and parameters changed; an executor prepares the program once."""
    changed, scope, executor = changed or {}, ga.Scope(), executor or ga.Executor()
    for name, array in p.params.items():
        scope.set(name, changed.get(name, array))
    feeds = {**p.feeds, **changed}
    fed = {name: array for name, array in feeds.items() if name not in p.params}
    return dict(zip(fetch, executor.run(p.program, feed=fed, fetch_list=list(fetch), scope=scope), strict=True))


def tapped(p: Case, names: Collection[str], freeze: bool = False) -> tuple[Case, list[str]]:
    """A copy that assigns each value written to one of the names to a tap of its own; or, to ``freeze`` it, from a fed tap."""
    clone = p.clone()
    block, taps = clone.program.global_block(), []
    for i, op in reversed(list(enumerate(block.ops))):
        for name in dict.fromkeys(n for n in op.output_names() if n in names):
            tap, var = f"tap{i}.{name}", block.var(name)
            block.create_var(name=tap, shape=var.shape, dtype=var.dtype, stop_gradient=freeze)
            source, target = (tap, name) if freeze else (name, tap)
            block.insert_op(i + 1, "assign", {"X": source}, {"Out": target})
            taps.append(tap)
    return clone, taps


def frozen(p: Case) -> Case:
    """The program that gradients are the gradients of: values written where gradients stop are constants."""
    cut = {v.name for v in p.program.list_vars() if v.stop_gradient}
    constants = run(*tapped(p, cut))
    clone, _ = tapped(p, cut, freeze=True)
    return Case(clone.program, clone.loss_name, {**p.feeds, **constants}, p.params)


def differences(p: Case, of: Collection[str], name: str) -> Array:
    """Central differences of the sum of all elements of some variables with respect to data or a parameter."""
    start = {**p.feeds, **p.params}[name]
    result, executor = np.zeros_like(start), ga.Executor()
    for index in np.ndindex(start.shape):
        moved = np.zeros_like(start)
        moved[index] = STEP
        up, down = (sum(v.sum() for v in run(p, of, {name: start + m}, executor).values()) for m in (moved, -moved))
        result[index] = (up - down) / (2 * STEP)
    return result


def differentiated(p: Case, targets: Collection[str], sources: Collection[str]) -> dict[str, str]:
    """Append gradients to the program; the name of the gradient for each source that has one."""
    block = p.program.global_block()
    found = ga.gradients([block.var(n) for n in targets], [block.var(n) for n in sources])
    return {source: g.name for source, g in zip(sources, found, strict=True) if g is not None}


def close(got: Array, expected: Array, of: str) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7, err_msg=f"gradient of {of}")


# -- text and order ------------------------------------------------------------------------------


@many
@given(straight_line_programs())
def test_lowering_and_scheduling_gives_the_program_back(p: Case) -> None:
    graph = ga.lower(p.program)
    verify(graph)
    assert str(ga.schedule(graph)) == str(p.program)


@many
@given(straight_line_programs())
def test_text_reads_back(p: Case) -> None:
    ga.append_backward(p.loss)
    text = str(p.program)
    assert str(ga.Program.parse(text)) == text
    assert str(ga.lower(ga.Program.parse(text))) == str(ga.lower(p.program))


def assert_copies_schedule_the_same(p: Case) -> None:
    """A copy of the graph, before and after the backward, equals the graph."""
    graph = ga.lower(p.program)
    clone = graph.clone()
    verify(clone)
    assert (str(clone), str(ga.schedule(clone))) == (str(graph), str(p.program))
    ga.backward_pipeline((p.loss.name,)).run(clone)
    again = clone.clone()
    verify(again)
    assert str(again) == str(clone)
    assert str(ga.schedule(again)) == str(ga.schedule(clone))
    assert str(ga.schedule(graph)) == str(p.program)


@many
@given(straight_line_programs())
def test_copies_of_a_graph_schedule_the_same(p: Case) -> None:
    assert_copies_schedule_the_same(p)


# -- values --------------------------------------------------------------------------------------


@many
@given(straight_line_programs())
def test_backward_leaves_the_forward_values_alone(p: Case) -> None:
    names = [v.name for v in p.program.list_vars()]
    taps, fetched = tapped(p, names)
    before = run(taps, [*names, *fetched])
    ga.append_backward(taps.loss)
    after = run(taps, [*names, *fetched])
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)


@many
@given(straight_line_programs())
def test_what_is_fetched_does_not_change_what_is_computed(p: Case) -> None:
    ga.append_backward(p.loss)
    everything = run(p, [v.name for v in p.program.list_vars()])
    for name, value in everything.items():
        np.testing.assert_array_equal(run(p, [name])[name], value, err_msg=name)


# -- gradients -----------------------------------------------------------------------------------


@many
@given(straight_line_programs())
def test_gradients_are_what_differences_say(p: Case) -> None:
    constant, clone = frozen(p), p.clone()
    found = differentiated(clone, [p.loss.name], p.sources)
    values = run(clone, list(found.values()))
    for source in p.sources:
        zeros = np.zeros_like({**p.feeds, **p.params}[source])
        close(values[found[source]] if source in found else zeros, differences(constant, [p.loss.name], source), source)


@many
@given(straight_line_programs())
def test_append_backward_is_gradients_with_respect_to_parameters(p: Case) -> None:
    clone, trained = p.clone(), [n for n in p.sources if n in p.params]
    assume(trained)
    pairs = {param.name: g.name for param, g in ga.append_backward(p.loss) if param.name in trained}
    found = differentiated(clone, [p.loss.name], trained)
    assert list(pairs) == list(found)
    got, expected = run(p, list(pairs.values())), run(clone, list(found.values()))
    for name, gradient in pairs.items():
        assert gradient == f"{name}@GRAD"
        assert p.program.global_block().var(gradient).declared == p.program.global_block().var(name).declared
        np.testing.assert_array_equal(got[gradient], expected[found[name]], err_msg=name)


@many
@given(straight_line_programs(max_ops=5))
def test_second_derivatives_are_what_differences_say(p: Case) -> None:
    constant, clone = frozen(p), p.clone()
    sources = [n for n in p.sources if not p.program.global_block().var(n).stop_gradient]
    first = differentiated(clone, [p.loss.name], sources)
    assume(first)
    second = differentiated(clone, list(first.values()), sources)
    values = run(clone, list(second.values()))
    of = list(differentiated(constant, [p.loss.name], sources).values())
    for source in sources:
        zeros = np.zeros_like({**p.feeds, **p.params}[source])
        close(values[second[source]] if source in second else zeros, differences(constant, of, source), source)


# -- what these tests have found -----------------------------------------------------------------


def test_second_derivative_with_respect_to_data_that_stops_gradients() -> None:
    program = ga.Program()
    block = program.global_block()
    x = block.create_var(name="x", shape=[2], dtype="float64", stop_gradient=True)
    block.append_op(type="square", inputs={"X": "x"}, outputs={"Out": "y"})
    block.append_op(type="mean", inputs={"X": "y"}, outputs={"Out": "loss"})
    block.append_op(type="tanh", inputs={"X": "x"}, outputs={"Out": "x"})
    (first,) = ga.gradients(block.var("loss"), x)
    (second,) = ga.gradients(first, x)
    assert second is not None
    (got,) = ga.Executor().run(program, feed={"x": [3.0, 5.0]}, fetch_list=[second])
    np.testing.assert_array_equal(got, [1.0, 1.0])


@pytest.mark.parametrize("op_type", ["elementwise_max", "elementwise_min"])
def test_max_and_min_with_axis_where_x_is_broadcast(op_type: str) -> None:
    x, y = [1, 2], [3, 2]
    program = ga.Program()
    block = program.global_block()
    for name, shape in (("x", x), ("y", y)):
        block.create_var(name=name, shape=shape, dtype="float64")
    block.append_op(type=op_type, inputs={"X": "x", "Y": "y"}, outputs={"Out": "z"}, attrs={"axis": 0})
    (gradient,) = ga.gradients(block.var("z"), block.var("x"))
    (got,) = ga.Executor().run(program, feed={"x": np.full(x, 0.5), "y": np.zeros(y)}, fetch_list=[gradient])
    np.testing.assert_array_equal(got, np.full(x, 3.0 if op_type == "elementwise_max" else 0.0))


def test_axis_where_x_has_fewer_axes_is_refused() -> None:
    """Paddle 2 aligns X with Y then, which Fluid refuses."""
    block = ga.Program().global_block()
    for name, shape in (("x", [3]), ("y", [3, 3])):
        block.create_var(name=name, shape=shape, dtype="float64")
    with pytest.raises(ShapeError, match="axis=0 aligns Y with X, which has fewer axes: exchange them"):
        block.append_op(type="elementwise_add", inputs={"X": "x", "Y": "y"}, outputs={"Out": "z"}, attrs={"axis": 0})
