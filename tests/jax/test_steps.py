"""The benchmark of training steps measures the same steps on both sides."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jax", reason="jax, on which programs run as XLA programs, is not installed: pip install 'graphad[jax]'")

from tests.benchmarks import jax_steps


@pytest.mark.long
@pytest.mark.parametrize("make", jax_steps.SMALL)
def test_programs_and_direct_jax_train_alike(make: Any) -> None:
    jax_steps.check(make)
