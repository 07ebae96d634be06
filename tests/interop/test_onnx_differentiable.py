"""Inputs that ONNX's schemas mark differentiable have right derivatives of the first and the second order."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="the onnx package, whose schemas these are, is not installed: pip install 'graphad[onnx-tests]'")
differentiable = pytest.importorskip("tests.interop.onnx_differentiable")
check, errors, examples, marked = differentiable.check, differentiable.errors, differentiable.examples, differentiable.marked

SOME = ("BatchNormalization", "Conv", "Einsum", "GRU", "LogSoftmax", "LpPool", "MatMul", "ScatterND", "Where")


@pytest.mark.long  # making the node tests takes seconds
@pytest.mark.parametrize("type", SOME)
def test_some_operators(type: str) -> None:
    assert not any(check(type).values())


@pytest.mark.long
def test_all_operators() -> None:
    wrong = {(type, name): reason for type in marked() for name, reason in check(type).items() if reason}
    assert not wrong
    assert sum(map(len, marked().values())) >= 150


@pytest.mark.long
def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    example = next(examples("Tanh"))
    assert max(errors(example, example.names["input"])) < 1e-7
    monkeypatch.setattr("tests.interop.onnx_differentiable.ga.gradients", lambda targets, sources: [source * 1.0 for source in sources])
    assert errors(example, example.names["input"])[0] > 1e-3
