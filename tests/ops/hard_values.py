"""Inputs on which rounding shows: offsets, tiny and huge magnitudes, long axes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphad.ops.sample import Sample, Value
from graphad.testing.values import arrays, remade
from graphad.types import FLOATS, Array
from tests.ops.check import Slots
from tests.ops.variants import places

ELEMENTS = 4_000  # of the largest input with a long axis


def hard(sample: Sample) -> Iterator[tuple[str, Slots]]:
    """The inputs with their floats hard to compute with, each with its name: all inputs scaled, and the first shifted or scaled alone."""
    inputs = sample.slots()
    first = next((s for s, values in inputs.items() if any(map(_has_floats, values))), None)
    if first is None:
        return
    for factor in (1e-3, 1e-7, 30.0, 1e3):
        yield f"all inputs times {factor:g}", {s: [_changed(v, factor, 0.0) for v in values] for s, values in inputs.items()}
    for factor, offset in ((1.0, 1e4), (1e-3, 1.0), (1e-15, 0.0), (1e15, 0.0)):
        changed = [_changed(v, factor, offset) for v in inputs[first]]
        yield f"{first} times {factor:g} plus {offset:g}", {**inputs, first: changed}


def long(sample: Sample) -> Iterator[tuple[str, Slots]]:
    """The inputs with one extent made long wherever it occurs, with new values around zero and far from it."""
    inputs = sample.slots()
    every = places(inputs)
    extents = {place: inputs[place[0]][place[1]].shape[place[2]] for place in every}
    first = next((s for s, values in inputs.items() if any(map(_has_floats, values))), None)
    for extent in sorted(set(extents.values()) - {0, 1}):
        chosen = [place for place in every if extents[place] == extent]
        grown = _grown(inputs, chosen)
        yield f"every extent of {extent} long", grown
        if first is not None:
            yield f"every extent of {extent} long, {first} plus 10000", {**grown, first: [_changed(v, 1.0, 1e4) for v in grown[first]]}


def _has_floats(value: Value) -> bool:
    return any(array.dtype.name in FLOATS for array in arrays(value))


def _changed(value: Value, factor: float, offset: float) -> Value:
    return remade(value, (a * factor + offset if a.dtype.name in FLOATS else a for a in arrays(value)))


def _grown(inputs: Slots, chosen: list[tuple[str, int, int]]) -> Slots:
    rng = np.random.default_rng(9)
    axes = {(s, i): [axis for slot, n, axis in chosen if (slot, n) == (s, i)] for s, i, _ in chosen}
    most = max(map(len, axes.values()))
    rest = max(1, *(inputs[s][i].size for s, i in axes))
    extent = max(int((ELEMENTS / rest) ** (1 / most)), 2)
    return {s: [_longer(v, axes.get((s, i), []), extent, rng) for i, v in enumerate(values)] for s, values in inputs.items()}


def _longer(value: Value, axes: list[int], extent: int, rng: np.random.Generator) -> Value:
    for axis in axes:
        value = np.take(value, rng.integers(0, value.shape[axis], extent), axis=axis)
    if axes and value.dtype.name in FLOATS:
        return value * rng.uniform(0.9, 1.1, value.shape)
    return value


def narrowed(inputs: Slots) -> Slots:
    """The floats rounded to float32."""
    return {s: [remade(v, (_as(a, "float32") for a in arrays(v))) for v in values] for s, values in inputs.items()}


def widened(inputs: Slots) -> Slots:
    """The floats as float64, exactly."""
    return {s: [remade(v, (_as(a, "float64") for a in arrays(v))) for v in values] for s, values in inputs.items()}


def _as(array: Array, dtype: str) -> Array:
    return array.astype(dtype) if array.dtype.name in FLOATS else array


def perturbed(inputs: Slots, size: float) -> Iterator[Slots]:
    """The float64 inputs with a relative error of a size: all up, all down, and of random signs."""
    for seed in range(-2, 3):
        rng = np.random.default_rng(max(seed, 0))

        def moved(array: Array, seed: int = seed, rng: np.random.Generator = rng) -> Array:
            if array.dtype.name not in FLOATS:
                return array
            signs = rng.choice([-1.0, 1.0], array.shape) if seed >= 0 else {-2: 1.0, -1: -1.0}[seed]
            return array * (1.0 + size * signs)

        yield {s: [remade(v, map(moved, arrays(v))) for v in values] for s, values in inputs.items()}
