"""Freezing: what follows from the weights alone is computed once, and the program gives what it gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.errors import InvalidType, InvalidValue

layers: Any = ga.layers
RNG = np.random.default_rng(0)
IMAGE = RNG.normal(size=(2, 3, 6, 6)).astype("float32")


def normalized(layer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: layers.relu(layers.batch_norm(layer(x), is_test=True))


MODELS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "conv2d": (normalized(lambda x: layers.conv2d(x, 4, 3, bias_attr=False)), ["conv2d", "elementwise_add", "relu"]),
    "conv2d with a bias": (normalized(lambda x: layers.conv2d(x, 4, 3)), ["conv2d", "elementwise_add", "relu"]),
    "conv2d_transpose": (
        normalized(lambda x: layers.conv2d_transpose(x, 4, filter_size=3)),
        ["conv2d_transpose", "elementwise_add", "relu"],
    ),
    "fc": (normalized(lambda x: layers.fc(x, 4)), ["mul", "elementwise_add", "relu"]),
    "two in a row": (
        lambda x: layers.conv2d_transpose(MODELS["conv2d"][0](x), 2, filter_size=2, act=None),
        ["conv2d", "elementwise_add", "relu", "conv2d_transpose", "elementwise_add"],
    ),
    "scales by one number": (
        lambda x: layers.scale(layers.scale(layers.tanh(layers.scale(layers.conv2d(x, 4, 3), 0.5, 0.2, bias_after_scale=False))), 3.0, 1.0),
        ["conv2d", "elementwise_add", "tanh", "scale"],
    ),
}  # fmt: skip


def trained(build: Callable[[Any], Any]) -> tuple[ga.Program, Any, ga.Scope]:
    """A program, its result, and a scope in which every parameter and statistic is a random number that is not 0."""
    main, startup = ga.Program(), ga.Program()
    with ga.program_guard(main, startup):
        result = build(layers.data("x", [3, 6, 6]))
    scope = ga.Scope()
    ga.Executor().run(startup, scope=scope)
    for name in scope.names():
        scope.set(name, RNG.uniform(0.5, 1.5, scope.get(name).shape).astype("float32"))
    return main, result, scope


@pytest.mark.parametrize("which", MODELS)
def test_normalizations_are_in_the_weights(which: str) -> None:
    build, types = MODELS[which]
    program, result, scope = trained(build)
    text, values = str(program), {name: scope.get(name).copy() for name in scope.names()}
    frozen, weights = ga.freeze(program, [result], scope)
    assert [op.type for op in frozen.global_block().ops] == types
    (before,) = ga.Executor().run(program, {"x": IMAGE}, [result], scope)
    (after,) = ga.Executor().run(frozen, {"x": IMAGE}, [result.name], weights)
    np.testing.assert_allclose(after, before, rtol=2e-5, atol=2e-5)
    assert str(program) == text
    assert scope.names() == list(values)
    for name, array in values.items():
        np.testing.assert_array_equal(scope.get(name), array)
    assert {var.name for var in frozen.list_vars() if var.persistable} == set(weights.names())


def test_what_a_run_changes_is_not_known() -> None:
    def build(x: Any) -> Any:
        count = layers.create_global_var([1], 1.0, "float32", persistable=True, name="count")
        layers.increment(count)
        return layers.reduce_mean(x) * count

    program, result, scope = trained(build)
    frozen, weights = ga.freeze(program, [result], scope)
    executor = ga.Executor()
    runs = [[executor.run(p, {"x": IMAGE}, [result.name], s)[0] for _ in range(3)] for p, s in ((program, scope), (frozen, weights))]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert runs[0][0] != runs[0][1]


def test_refusals() -> None:
    program, result, scope = trained(MODELS["fc"][0])
    with pytest.raises(InvalidType, match="freeze takes a Program, not 3"):
        ga.freeze(3, [result])  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match="fetch_list is a list of variables or their names"):
        ga.freeze(program, result, scope)
    with pytest.raises(InvalidValue, match="fetch_list: the program has no variable 'nothing'"):
        ga.freeze(program, ["nothing"], scope)
