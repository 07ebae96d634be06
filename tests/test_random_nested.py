"""Invariants of every program with nested blocks: it runs as its operators say, and its gradients are those of the operators that ran."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, given, settings

import graphad as ga
from graphad.ir.verify import verify
from graphad.testing import Case, nested_programs
from graphad.types import Array
from tests.nested_meaning import Meaning, differences, unrolled
from tests.test_random_programs import assert_copies_schedule_the_same, close, differentiated, frozen, run
from tests.test_random_programs import differences as differences_of_gradients

MARGIN = 1e-3
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
many = settings(max_examples=max(40, settings().max_examples), suppress_health_check=SLOW)
some = settings(many, max_examples=settings().max_examples)


# -- text and order ------------------------------------------------------------------------------


@some
@given(nested_programs())
def test_text_reads_back(p: Case) -> None:
    text = str(p.program)
    assert str(ga.Program.parse(text)) == text
    assert str(p.clone().program) == text


@some
@given(nested_programs())
def test_lowering_and_scheduling_gives_the_program_back(p: Case) -> None:
    graph = ga.lower(p.program)
    verify(graph)
    again = ga.schedule(graph)
    assert str(again) == str(p.program)
    assert_runs_alike(p, again)


@some
@given(nested_programs())
def test_copies_of_a_graph_schedule_the_same(p: Case) -> None:
    assert_copies_schedule_the_same(p)


# -- values --------------------------------------------------------------------------------------


def same(got: Any, expected: Any, of: str) -> None:
    """Equal to the last bit; arrays of tensors element by element."""
    if isinstance(expected, list):
        assert len(got) == len(expected), of
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            np.testing.assert_array_equal(a, b, err_msg=f"{of}[{i}]")
    else:
        np.testing.assert_array_equal(got, expected, err_msg=of)


def assert_runs_alike(p: Case, program: ga.Program) -> None:
    """Another program has the values of block 0 that this one has."""
    expected = Meaning(p).run().values
    got = run(Case(program, p.loss_name, p.feeds, p.params), list(expected))
    for name, value in expected.items():
        same(got[name], value, name)


@some
@given(nested_programs())
def test_the_interpreter_runs_what_the_operators_say(p: Case) -> None:
    assert_runs_alike(p, p.program)
    assert_runs_alike(p, p.program.clone(for_test=True))


@some
@given(nested_programs())
def test_pruning_keeps_the_loss(p: Case) -> None:
    (loss,) = run(p, [p.loss.name]).values()
    pruned = p.program.prune(p.loss)
    feeds = {name: array for name, array in p.feeds.items() if pruned.global_block().has_var(name)}
    (got,) = run(Case(pruned, p.loss_name, feeds, p.params), [p.loss.name]).values()
    same(got, loss, p.loss.name)


@some
@given(nested_programs())
def test_backward_leaves_the_forward_values_alone(p: Case) -> None:
    clone = p.clone()
    ga.append_backward(clone.loss)
    assert_runs_alike(p, clone.program)


@some
@given(nested_programs())
def test_the_text_of_a_backward_reads_back_and_runs(p: Case) -> None:
    found = differentiated(p, [p.loss.name], p.sources)
    text = str(p.program)
    again = Case(ga.Program.parse(text), p.loss_name, p.feeds, p.params)
    assert str(again.program) == text
    assert str(ga.schedule(ga.lower(again.program))) == text
    expected = run(p, list(found.values()))
    for name, value in run(again, list(found.values())).items():
        same(value, expected[name], name)


# -- gradients -----------------------------------------------------------------------------------


def gradient_values(p: Case, sources: Collection[str], order: int = 1) -> dict[str, Array]:
    """For each source the gradient of the loss, or of order 2 that of the sum of its gradients; zeros where there is none."""
    clone = p.clone()
    found = {"": p.loss.name}
    for _ in range(order):
        found = differentiated(clone, list(found.values()), sources) if found else {}
    values = run(clone, list(found.values()))
    arrays = {**p.feeds, **p.params}
    return {name: values[found[name]] if name in found else np.zeros_like(arrays[name]) for name in sources}


def equal(got: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    for name, gradient in expected.items():
        np.testing.assert_allclose(got[name], gradient, rtol=1e-9, atol=1e-12, err_msg=f"gradient of {name}")


def steady(p: Case) -> None:
    """Only programs of which a small change takes no other way."""
    assume(Meaning(p).run().margin > MARGIN)


@many
@given(nested_programs(max_statements=2))
def test_gradients_are_what_differences_say(p: Case) -> None:
    steady(p)
    for source, gradient in gradient_values(p, p.sources).items():
        close(gradient, differences(p, source), source)


@some
@given(nested_programs())
def test_gradients_are_those_of_what_ran(p: Case) -> None:
    equal(gradient_values(p, p.sources), gradient_values(unrolled(p), p.sources))


@some
@given(nested_programs())
def test_append_backward_is_gradients_with_respect_to_parameters(p: Case) -> None:
    trained = [name for name in p.sources if name in p.params]
    assume(trained)
    expected = gradient_values(p, trained)
    pairs = {param.name: g.name for param, g in ga.append_backward(p.loss)}
    assert all(gradient == f"{name}@GRAD" for name, gradient in pairs.items())
    got = run(p, list(pairs.values()))
    equal({name: got[pairs[name]] if name in pairs else np.zeros_like(p.params[name]) for name in trained}, expected)


@some
@given(nested_programs(max_depth=2, max_statements=1, max_nested=3))
def test_second_derivatives_are_those_of_what_ran(p: Case) -> None:
    equal(gradient_values(p, p.sources, order=2), gradient_values(unrolled(p), p.sources, order=2))


@some
@given(nested_programs(max_depth=2, max_statements=1, max_nested=2))
def test_second_derivatives_are_what_differences_say(p: Case) -> None:
    steady(p)
    constant = frozen(unrolled(p))
    of = list(differentiated(constant, [constant.loss.name], p.sources).values())
    for source, gradient in gradient_values(p, p.sources, order=2).items():
        close(gradient, differences_of_gradients(constant, of, source), source)
