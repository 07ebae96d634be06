"""Gradients held against differences of what programs compute, to any order, and what holds of every program with gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import graphad as ga
from graphad.layers import nest
from graphad.types import FLOATS

Array = NDArray[Any]
layers: Any = ga.layers
STEP = 1e-5


class Model:
    """A program that a function of variables builds, and the float64 arrays it is run on.

    The function returns variables, whose sines are summed up as ``loss``; or it is given as one scalar by ``scalar=True``.
    """

    def __init__(self, build: Callable[..., Any], params: Mapping[str, Any] | None = None, scalar: bool = False, **feed: Any) -> None:
        self.feed = {name: _array(value) for name, value in feed.items()}
        self.params = {name: _array(value) for name, value in (params or {}).items()}
        self.executor = ga.Executor()
        self.program, startup = ga.Program(), ga.Program()
        self.program.random_seed = 7
        block = self.program.global_block()
        with ga.program_guard(self.program, startup):
            given: dict[str, Any] = {name: _data(name, array) for name, array in self.feed.items()}
            given |= {name: block.create_parameter(name, array.shape, array.dtype) for name, array in self.params.items()}
            self.out = build(**given)
            self.loss = self.out if scalar else _loss(self.out)
        startup.random_seed = 7
        self.initial = ga.Scope()
        self.executor.run(startup, scope=self.initial)

    @property
    def names(self) -> list[str]:
        """The names to differentiate with respect to."""
        return [name for name, array in {**self.feed, **self.params}.items() if array.dtype.name in FLOATS]

    def var(self, name: str) -> ga.Variable:
        return self.program.global_block().var(name)

    def run(self, fetch: Sequence[Any], changed: Mapping[str, Array] | None = None) -> list[Any]:
        """Run on the arrays, some of them changed, in a scope of its own."""
        values = {**self.feed, **self.params, **(changed or {})}
        scope = ga.Scope()
        for name in self.initial.names():
            scope.set(name, self.initial.get(name).copy())
        for name in self.params:
            scope.set(name, values[name])
        feed = {name: values[name] for name in self.feed}
        return self.executor.run(self.program, feed, list(fetch), scope)

    def gradients(
        self, names: Sequence[str] | None = None, target: ga.Variable | None = None, **options: Any
    ) -> dict[str, ga.Variable | None]:
        """Append the gradients of the loss, or of a target, with respect to names."""
        names = self.names if names is None else names
        found = ga.gradients(self.loss if target is None else target, [self.var(name) for name in names], **options)
        return dict(zip(names, found, strict=True))

    def gradient(self, name: str, target: ga.Variable | None = None) -> ga.Variable:
        """Append the gradient with respect to one name, which there has to be."""
        found = self.gradients([name], target)[name]
        assert found is not None
        return found

    def values(self, found: Mapping[str, ga.Variable | None]) -> dict[str, Array]:
        """The values of gradients, zeros where there is none."""
        have = {name: g for name, g in found.items() if g is not None}
        got = dict(zip(have, self.run(list(have.values())), strict=True))
        like = {**self.feed, **self.params}
        return {name: got.get(name, np.zeros_like(like.get(name, 0.0))) for name in found}

    def differences(self, name: str, target: ga.Variable | None = None) -> Array:
        """Central differences of the loss, or of a target, with respect to a fed array or a parameter."""
        start = {**self.feed, **self.params}[name]
        result = np.zeros_like(start)
        for index in np.ndindex(start.shape):
            for sign in (1, -1):
                moved = start.copy()
                moved[index] += sign * STEP
                (value,) = self.run([self.loss if target is None else target], {name: moved})
                result[index] += sign * value.item() / (2 * STEP)
        return result

    def contracted(self, found: Mapping[str, ga.Variable | None], seed: int) -> ga.Variable:
        """The sum of the products of gradients with random arrays: something to differentiate again."""
        rng, parts = np.random.default_rng(seed), []
        with ga.program_guard(self.program, ga.Program()):
            for name, g in found.items():
                if g is not None:
                    weight = f"{name}_weight_{seed}"
                    self.feed[weight] = rng.uniform(0.5, 1.5, {**self.feed, **self.params}[name].shape)
                    parts.append(layers.reduce_sum(g * _data(weight, self.feed[weight], True), reduce_all=True))
            total: ga.Variable = parts[0] if len(parts) == 1 else layers.sum(parts)
        return total


def _array(value: Any) -> Array:
    array = np.asarray(value)
    return array.astype("float64") if array.dtype.kind == "f" else array


def _data(name: str, array: Array, stop: bool = False) -> Any:
    return layers.data(name, list(array.shape), array.dtype, False, stop or array.dtype.kind != "f")


def _loss(out: Any) -> Any:
    parts = [layers.reduce_sum(layers.sin(var), reduce_all=True) for var in nest.flatten(out)]
    return parts[0] if len(parts) == 1 else layers.sum(parts)


def check(model: Model, wrt: Sequence[str] | None = None, order: int = 1) -> Model:
    """Gradients, and those of a product with them, up to an order, are what differences say; the program stays sound."""
    names, target = wrt or model.names, model.loss
    (before,) = model.run([target])
    for k in range(order):
        found = model.gradients(names, target)
        for name, got in model.values(found).items():
            gradient = found[name]
            close(got, model.differences(name, target), f"derivative {k + 1} with respect to {name}")
            assert gradient is None or gradient.tensor_type == model.var(name).tensor_type
        if k + 1 < order:
            target = model.contracted(found, k)
    np.testing.assert_array_equal(model.run([model.loss])[0], before)
    sound(model.program)
    return model


def close(got: Any, expected: Any, of: str = "") -> None:
    assert np.shape(got) == np.shape(expected), of
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8, err_msg=of)


def sound(program: ga.Program) -> None:
    """The program reads back from its text, and comes back from its graph."""
    text = str(program)
    assert str(ga.Program.parse(text)) == text
    assert str(ga.schedule(ga.lower(program))) == text
