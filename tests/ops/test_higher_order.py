"""Second and third derivatives of every operator on its samples, through programs, against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.ops import GRAD, lookup
from graphad.types import FLOATS
from tests.ops.check import differentiated, run
from tests.ops.sample import Array, Sample
from tests.ops.test_operators import SAMPLES

STEP = 2e-3
CASES = [
    pytest.param(op, sample, id=f"{op}-{i}")
    for op, samples in sorted(SAMPLES.items())
    if lookup(op).grads
    for i, sample in enumerate(samples)
    if differentiated(lookup(op), sample)
]


class Derivatives:
    """The sum of an operator's outputs with random weights, and its derivatives in random directions, as one program."""

    def __init__(self, op: str, sample: Sample, order: int) -> None:
        self.rng = np.random.default_rng(11)
        self.program = ga.Program()
        self.program.random_seed = 5
        self.feed: dict[str, Array] = {}
        row = lookup(op)
        slots = {slot: [self.variable(a) for a in arrays] for slot, arrays in sample.slots().items()}
        self.inputs = [v for slot in differentiated(row, sample) for v in slots[slot]]
        outputs = self.outputs(op, slots, sample)
        scalar = self.weighted(outputs)
        self.gradients: list[ga.Variable | None] = []
        self.scalar = scalar
        for _ in range(order):
            self.scalar = scalar
            self.gradients = ga.gradients(scalar, self.inputs)
            reached = [g for g in self.gradients if g is not None]
            if not reached:
                return
            scalar = self.weighted(reached)

    def variable(self, array: Array) -> ga.Variable:
        name = f"in_{len(self.feed)}"
        self.feed[name] = array
        return self.program.global_block().create_var(name, array.shape, array.dtype.name)

    def outputs(self, op: str, slots: dict[str, list[ga.Variable]], sample: Sample) -> list[ga.Variable]:
        row = lookup(op)
        arrays = run(row, sample.slots(), sample.attrs)
        names = {s: [f"{s}_{i}" for i in range(len(v))] for s, v in arrays.items() if all(a is not None for a in v)}
        self.program.global_block().append_op(op, slots, names, sample.attrs)
        read = {s for rule in (row.grads or {}).values() for s in rule.reads}
        used = sample.outputs or tuple(s for s in names if s + GRAD in read)
        found = [self.program.global_block().var(n) for s in used for n in names[s]]
        return [v for v in found if v.dtype in FLOATS]

    def weighted(self, values: list[ga.Variable]) -> ga.Variable:
        """A weighted sum of everything in the values; the weights do not depend on the inputs."""
        total: Any = None
        for value in values:
            weight = self.variable(self.rng.uniform(-1, 1, value.shape))
            weight.stop_gradient = True
            term = ga.ops.reduce_sum(value * weight, reduce_all=True)
            total = term if total is None else total + term
        assert isinstance(total, ga.Variable)
        return total

    def run(self, fetch: list[ga.Variable], **changed: Array) -> list[Array]:
        return ga.Executor().run(self.program, feed={**self.feed, **changed}, fetch_list=fetch, scope=ga.Scope())

    def difference(self, variable: ga.Variable) -> Array:
        base = self.feed[variable.name]
        result = np.zeros_like(base)
        for index in np.ndindex(base.shape):
            value = {k: self.moved(variable.name, index, k * STEP) for k in (-2, -1, 1, 2)}
            result[index] = (8 * (value[1] - value[-1]) - (value[2] - value[-2])) / (12 * STEP)
        return result

    def moved(self, name: str, index: tuple[int, ...], step: float) -> float:
        array = self.feed[name].copy()
        array[index] += step
        return float(self.run([self.scalar], **{name: array})[0])


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize(("op", "sample"), CASES)
def test_derivatives_are_central_differences(op: str, sample: Sample, order: int) -> None:
    case = Derivatives(op, sample, order)
    for variable, gradient in zip(case.inputs, case.gradients, strict=True):
        expected = case.difference(variable)
        if gradient is None:
            np.testing.assert_allclose(expected, 0.0, atol=1e-6)
            continue
        (got,) = case.run([gradient])
        np.testing.assert_allclose(got, expected, rtol=5e-5, atol=5e-6, err_msg=f"order {order} with respect to {variable.name}")
