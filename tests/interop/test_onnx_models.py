"""ONNX models of others: those that were fetched (.ci/run does), and networks that come with the ``onnx`` package, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.long
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'graphad[onnx-tests]'")
corpus: Any = pytest.importorskip("tests.interop.onnx_corpus", reason="onnx is not installed: pip install 'graphad[onnx-tests]'")

LIGHT = ("light_shufflenet", "light_squeezenet")


def fetched() -> dict[str, Path]:
    try:
        models: dict[str, Path] = corpus.models()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    return models


def test_models_give_what_onnxruntime_gives_at_two_sizes() -> None:
    found = {name: corpus.values(name, path) for name, path in fetched().items()}
    assert not {name: verdict for name, verdict in found.items() if not verdict.endswith("near")}


def test_gradients_of_a_shipped_model_are_central_differences() -> None:
    """Of one; python -m tests.interop.onnx_corpus gradients: of all."""
    (found,) = [corpus.gradients(name, path) for name, path in fetched().items() if name == "faster_whisper/silero_vad_v6"]
    assert "right" in found


@pytest.mark.parametrize("name", LIGHT)
def test_networks_with_random_weights_give_what_onnxruntime_gives(name: str, tmp_path: Path) -> None:
    assert corpus.values(f"light/{name}", corpus.light(name, tmp_path)).endswith("near")


def test_gradients_of_a_network_with_random_weights(tmp_path: Path) -> None:
    verdict = corpus.gradients("light/light_squeezenet", corpus.light("light_squeezenet", tmp_path))
    assert "right" in verdict
    assert " 0 of them" in verdict
