"""Hand-written grad kernels compute what the rules mean, on every sample and for every choice of what is wanted."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from graphad.ops import GRAD, REGISTRY, GradOpDef
from graphad.ops.sample import Sample
from graphad.testing.samples import SAMPLES
from graphad.types import FLOATS
from tests.ops.check import Slots, run

FAST = sorted(op for op, definition in REGISTRY.items() if isinstance(definition.grad, GradOpDef) and definition.grad.fast is not None)
CASES = [pytest.param(op, sample, id=f"{op}-{i}") for op in FAST for i, sample in enumerate(SAMPLES[op])]


def grad_inputs(op: str, sample: Sample, dtype: str) -> tuple[GradOpDef, Slots]:
    """The grad operator and all it may read, the cotangents of the sample's outputs included (of the first output if it names none)."""
    definition = REGISTRY[op]
    assert definition.grad is not None
    inputs = {s: [a.astype(dtype) if a.dtype.name in FLOATS else a for a in v] for s, v in sample.slots().items()}
    outputs = run(definition, inputs, sample.attrs)
    required = [s for s in definition.outputs if s + GRAD in definition.grad.inputs and not definition.grad.inputs[s + GRAD].optional]
    rng = np.random.default_rng(5)
    cotangents = {s + GRAD: [rng.uniform(-1, 1, a.shape).astype(dtype) for a in outputs[s]] for s in sample.outputs or required}
    return definition.grad, {**inputs, **outputs, **cotangents}


def wanted_slots(grad: GradOpDef, given: Slots) -> list[list[str]]:
    """Every choice of cotangents of the floating-point inputs that are there."""
    slots = [s for s in grad.outputs if any(a.dtype.name in FLOATS for a in given.get(s.removesuffix(GRAD), []))]
    return [list(choice) for n in range(1, len(slots) + 1) for choice in combinations(slots, n)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("op", "sample"), CASES)
def test_fast_kernel_is_the_meaning(op: str, sample: Sample, dtype: str) -> None:
    grad, given = grad_inputs(op, sample, dtype)
    tolerance = 1e-10 if dtype == "float64" else 1e-4
    for wanted in wanted_slots(grad, given):
        fast, meant = grad.run(given, sample.attrs, wanted), grad.meaning(given, sample.attrs, wanted)
        assert sorted(fast) == sorted(wanted)
        for slot in wanted:
            assert fast[slot][0].dtype == dtype
            np.testing.assert_allclose(fast[slot][0], meant[slot][0], rtol=tolerance, atol=tolerance, err_msg=f"{slot} of {wanted}")


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_fast_kernel_leaves_its_inputs_alone(op: str, sample: Sample) -> None:
    grad, given = grad_inputs(op, sample, "float64")
    for arrays in given.values():
        for array in arrays:
            array.flags.writeable = False
    for wanted in wanted_slots(grad, given):
        grad.run(given, sample.attrs, wanted)
