"""Layers as methods of variables: which there are, what ``help`` and a type checker see, and what is not one."""

from __future__ import annotations

import inspect

import pytest

import graphad as ga
from graphad import layers
from graphad.layers.variable_methods import METHODS
from graphad.program import Variable


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_the_layer_of_its_name(name: str) -> None:
    layer = getattr(layers, name)
    assert getattr(Variable, name) is layer
    first = next(iter(inspect.signature(layer).parameters.values()))
    assert first.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def test_none_hides_a_method_of_arrays() -> None:
    own = {name for cls in Variable.__mro__ for name in vars(cls) if cls.__name__ != "LayerMethods"}
    assert not own & {*METHODS}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("unique", "layers.unique(x), and with return_index=True sorted"),
        ("where", "layers.where(condition, x, y)"),
        ("concat", "layers.concat([x, y], axis)"),
        ("softplus", "layers.softplus(x)"),
        ("median_", "did you mean 'median'"),
    ],
)
def test_what_is_no_method_says_what_does_it(name: str, hint: str) -> None:
    with ga.program_guard(ga.Program()):
        x = layers.data("x", [3], append_batch_size=False)
        with pytest.raises(AttributeError) as caught:
            getattr(x, name)
    assert hint in str(caught.value)


def test_no_gradient_flows_through_what_is_detached() -> None:
    with ga.program_guard(ga.Program()) as program:
        x = layers.data("x", [2], append_batch_size=False, stop_gradient=False)
        (gradient,) = ga.gradients(layers.sum(x.detach() * x), [x])
    assert ga.Executor().run(program, {"x": [2.0, 3.0]}, [gradient])[0].tolist() == [2.0, 3.0]


def test_a_boolean_is_not_taken_as_the_kind_of_a_sort() -> None:
    """The second parameter is numpy's ``kind`` and Paddle's ``descending``."""
    with ga.program_guard(ga.Program()) as program:
        x = layers.assign([1.0, 3.0, 2.0])
        results = ga.Executor().run(program, fetch_list=[x.argsort(0, True), x.sort(0, "stable"), x.sort(descending=True)])
    assert [each.tolist() for each in results] == [[1, 2, 0], [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]
