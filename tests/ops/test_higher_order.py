"""First to third derivatives of every operator on its samples, through programs, against central differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphad as ga
from graphad.ops import GRAD, lookup
from graphad.ops.aggregates import Tape, TensorArray
from graphad.ops.sample import Sample, Value
from graphad.testing.samples import SAMPLES
from graphad.testing.values import type_of
from graphad.types import FLOATS, Array
from tests.ops.check import differentiated, run
from tests.shares import one_in

STEP = 2e-3
FEW, MOST = 2, 12  # elements of an input that are moved one by one: in make test, and with make test-all
CASES = [
    pytest.param(op, sample, id=f"{op}-{i}")
    for op, samples in sorted(SAMPLES.items())
    if lookup(op).grads
    for i, sample in enumerate(samples)
    if differentiated(lookup(op), sample)
]


class Derivatives:
    """The sum of an operator's outputs with random weights, and its derivatives in random directions, as one program.

    Attributes:
        scalars: that sum, and the sums of the derivatives of each order but the last with random weights.
        gradients: the derivatives of each scalar with respect to each input.
    """

    def __init__(self, op: str, sample: Sample, order: int) -> None:
        self.rng = np.random.default_rng(11)
        self.program = ga.Program()
        self.program.random_seed = 5
        self.executor = ga.Executor()
        self.block = self.program.global_block()
        self.feed: dict[str, Array] = {}
        self.inputs: list[ga.Variable] = []
        slots = self.slots(sample, differentiated(lookup(op), sample))
        outputs = self.outputs(op, slots, sample)
        assert outputs, "there is nothing to differentiate"
        self.scalars: list[ga.Variable] = []
        self.gradients: list[list[ga.Variable | None]] = []
        reached: list[ga.Variable | None] = [*outputs]
        while len(self.scalars) < order and (found := [each for each in reached if each is not None]):
            self.scalars.append(self.weighted(found))
            reached = ga.gradients(self.scalars[-1], self.inputs)
            self.gradients.append(reached)

    def variable(self, array: Array) -> ga.Variable:
        name = f"in_{len(self.feed)}"
        self.feed[name] = array
        return self.block.create_var(name, array.shape, array.dtype.name)

    def slots(self, sample: Sample, differentiated: tuple[str, ...]) -> dict[str, list[ga.Variable]]:
        """Variables for the inputs; what of it is fed for the slots to differentiate with respect to becomes ``inputs``."""
        found: dict[str, list[ga.Variable]] = {}
        for slot, values in sample.slots().items():
            before = len(self.feed)
            found[slot] = list(map(self.given, values))
            if slot in differentiated:
                self.inputs += [self.block.var(name) for name in list(self.feed)[before:]]
        return found

    def given(self, value: Value) -> ga.Variable:
        """A variable with this value: an array is fed, an aggregate made of fed arrays."""
        if isinstance(value, TensorArray):
            shape, dtype = type_of(value)
            array = self.written("create_array", {}, shape=list(shape), dtype=dtype)
            for index, item in value.items():
                array = self.written("write_to_array", {"X": self.given(item), "I": self.index(index), "Array": array})
            return array
        if isinstance(value, Tape):
            tape = self.written("create_tape", {})
            for entry in value.entries():
                tape = self.written("push_tape", {"Scopes": tape, "X": list(map(self.given, entry))}, count=len(entry))
            return tape
        return self.variable(value)

    def written(self, op: str, inputs: dict[str, Any], **attrs: Any) -> ga.Variable:
        name = self.program.names.generate(op)
        self.block.append_op(op, inputs, {"Out": name}, attrs)
        return self.block.var(name)

    def index(self, index: int) -> ga.Variable:
        return self.written("fill_constant", {}, shape=[1], value=float(index), dtype="int64")

    def outputs(self, op: str, slots: dict[str, list[ga.Variable]], sample: Sample) -> list[ga.Variable]:
        """The tensors of floating point that the operator gives."""
        definition = lookup(op)
        values = run(definition, sample.slots(), sample.attrs)
        names = {s: [f"{s}_{i}" for i in range(len(v))] for s, v in values.items() if all(a is not None for a in v)}
        self.block.append_op(op, slots, names, sample.attrs)
        read = {s for rule in (definition.grads or {}).values() for s in rule.reads}
        used = sample.outputs or tuple(s for s in names if s + GRAD in read)
        found = [t for s in used for n, v in zip(names[s], values[s], strict=True) for t in self.tensors(self.block.var(n), v)]
        return [v for v in found if v.dtype in FLOATS]

    def tensors(self, variable: ga.Variable, value: Value) -> list[ga.Variable]:
        """The tensors in a variable that has this value."""
        if isinstance(value, TensorArray):
            read = [self.written("read_from_array", {"X": variable, "I": self.index(index)}) for index, _ in value.items()]
            return [t for v, (_, item) in zip(read, value.items(), strict=True) for t in self.tensors(v, item)]
        if isinstance(value, Tape):
            return self.popped(variable, value) if len(value) else []
        variable.declare(*type_of(value))
        return [variable]

    def popped(self, variable: ga.Variable, tape: Tape) -> list[ga.Variable]:
        rest, entry = tape.pop()
        names = [f"{variable.name}.{i}" for i in range(len(entry))]
        below = f"{variable.name}.rest"
        self.block.append_op("pop_tape", {"Scopes": variable}, {"Out": below, "X": names}, {"count": len(entry)})
        top = [t for name, item in zip(names, entry, strict=True) for t in self.tensors(self.block.var(name), item)]
        return top + self.tensors(self.block.var(below), rest)

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
        return self.executor.run(self.program, feed={**self.feed, **changed}, fetch_list=fetch, scope=ga.Scope())

    def directions(self, variable: ga.Variable, most: int) -> Iterator[Array]:
        """Each element of an input by itself; of one with more elements than ``most``, some, and all of them together."""
        base = self.feed[variable.name]
        chosen = range(base.size) if base.size <= most else sorted(self.rng.choice(base.size, most - 1, replace=False))
        for place in chosen:
            unit = np.zeros(base.shape)
            unit.flat[place] = 1.0
            yield unit
        if base.size > most:
            drawn = self.rng.uniform(0.5, 1, base.shape) * self.rng.choice((-1.0, 1.0), base.shape)
            yield drawn / np.linalg.norm(drawn)

    def slopes(self, variable: ga.Variable, direction: Array) -> Array:
        """The derivatives of the scalars along a direction."""
        value = {k: self.moved(variable.name, k * STEP * direction) for k in (-2, -1, 1, 2)}
        return np.asarray((8 * (value[1] - value[-1]) - (value[2] - value[-2])) / (12 * STEP))

    def moved(self, name: str, step: Array) -> Array:
        return np.array(self.run(self.scalars, **{name: self.feed[name] + step}), "float64").reshape(-1)


@pytest.mark.parametrize(("op", "sample"), one_in(3, CASES))
def test_derivatives_are_central_differences(op: str, sample: Sample) -> None:
    """Along a direction that moves every element of an input, and along an element; with make test-all, along up to twelve."""
    check_derivatives(op, sample, FEW)


@pytest.mark.long
@pytest.mark.parametrize(("op", "sample"), CASES)
def test_derivatives_with_respect_to_single_elements_are_central_differences(op: str, sample: Sample) -> None:
    check_derivatives(op, sample, MOST)


def check_derivatives(op: str, sample: Sample, most: int) -> None:
    case = Derivatives(op, sample, 3)
    named = {g.name: g for gradients in case.gradients for g in gradients if g is not None}
    values = dict(zip(named, case.run([*named.values()]), strict=True))
    for i, variable in enumerate(case.inputs):
        found = [values[g.name] if (g := gradients[i]) is not None else None for gradients in case.gradients]
        for direction in case.directions(variable, most):
            for order, (got, expected) in enumerate(zip(found, case.slopes(variable, direction), strict=True), 1):
                terms = np.zeros(1) if got is None else got * direction
                allowed = 1e-6 if got is None else 5e-6 + 5e-5 * float(np.abs(terms).sum())
                place = f"order {order} with respect to {variable.name} along {direction.tolist()}"
                assert abs(float(terms.sum()) - expected) <= allowed, f"{place}: {terms.sum()}, but differences say {expected}"
