"""Every operator of the table on its samples; an operator without a sample fails."""

from __future__ import annotations

import pytest

from graphad.ops import REGISTRY, ControlDef, GradOpDef
from graphad.ops.sample import Sample
from graphad.testing.samples import SAMPLES
from tests.ops.check import check_float32, check_gradient, check_inference

CASES = [pytest.param(op, sample, id=f"{op}-{i}") for op, samples in sorted(SAMPLES.items()) for i, sample in enumerate(samples)]


def test_every_operator_has_samples() -> None:
    without = [op for op, row in REGISTRY.items() if op not in SAMPLES and not isinstance(row, GradOpDef | ControlDef)]
    assert not without, f"no samples for {without}"


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_inference_agrees_with_the_kernel(op: str, sample: Sample) -> None:
    check_inference(op, sample)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_float32_is_near_float64(op: str, sample: Sample) -> None:
    check_float32(op, sample)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_gradient_is_central_differences(op: str, sample: Sample) -> None:
    check_gradient(op, sample)
