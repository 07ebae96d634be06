"""Every operator of the table on its samples; an operator without a sample fails."""

from __future__ import annotations

import pkgutil

import pytest

from graphad import ops
from graphad.ops import REGISTRY, ControlDef, GradOpDef
from graphad.ops.sample import Sample
from graphad.testing.samples import SAMPLES
from tests.ops.check import check_float32, check_gradient, check_inference, on_samples
from tests.shares import one_in


def test_every_operator_has_samples() -> None:
    without = [op for op, definition in REGISTRY.items() if op not in SAMPLES and not isinstance(definition, GradOpDef | ControlDef)]
    assert not without, f"no samples for {without}"


def test_every_operator_is_an_attribute_of_the_package() -> None:
    """No module of the package has the name of an operator, which it would hide."""
    hidden = [name for name, definition in REGISTRY.items() if getattr(ops, name) is not definition]
    assert not hidden, f"graphad.ops has something else under {hidden}"
    assert not set(REGISTRY) & {module.name for module in pkgutil.iter_modules(ops.__path__)} - set(ops.__all__)


@pytest.mark.parametrize("op", sorted(SAMPLES))
def test_inference_agrees_with_the_kernel(op: str) -> None:
    on_samples(check_inference, op)


@pytest.mark.parametrize("op", sorted(SAMPLES))
def test_float32_is_near_float64(op: str) -> None:
    on_samples(check_float32, op)


@pytest.mark.parametrize("op", one_in(3, sorted(SAMPLES)))
def test_gradient_is_central_differences(op: str) -> None:
    on_samples(check_gradient, op)


def test_the_sample_that_a_check_fails_on_is_named() -> None:
    def check(op: str, sample: Sample) -> None:
        assert sample is not SAMPLES[op][1]

    with pytest.raises(AssertionError) as caught:
        on_samples(check, "relu")
    assert caught.value.__notes__ == ["on sample 1 of relu"]
