"""``samples_of``: the valid calls of operators, graphad's own and others'."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from graphad.errors import InvalidValue, ShapeError
from graphad.ops import REGISTRY, ControlDef, GradOpDef, Sample, lookup, operator
from graphad.ops.inference import same
from graphad.testing.samples import SAMPLES, samples_of
from graphad.testing.samples.valid import runs
from graphad.types import Array, TensorType


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    before = dict(REGISTRY)
    yield
    for name in REGISTRY.keys() - before.keys():
        del REGISTRY[name]


def test_every_operator_of_the_library_has_samples_that_run() -> None:
    own = [op_type for op_type, definition in REGISTRY.items() if not isinstance(definition, GradOpDef | ControlDef)]
    without = [op_type for op_type in own if not samples_of(op_type)]
    assert without == ["send_v2", "recv_v2"]  # which need another rank
    failing = [op_type for op_type in own for sample in samples_of(op_type) if not runs(lookup(op_type), sample)]
    assert not failing


def test_samples_are_those_of_the_folder() -> None:
    assert samples_of("tanh") == tuple(SAMPLES["tanh"])


def test_an_operator_brings_its_own() -> None:
    sample = Sample({"X": np.array([4.0])})
    operator("X -> Out", name="with_samples", infer=same, grad={}, samples=[sample])(np.sqrt)
    assert samples_of("with_samples") == (sample,)


def test_an_operator_makes_its_own_when_they_are_needed() -> None:
    calls: list[int] = []

    def samples() -> list[Sample]:
        calls.append(1)
        return [Sample({"X": np.array([4.0])})]

    operator("X -> Out", name="with_late_samples", infer=same, grad={}, samples=samples)(np.sqrt)
    assert not calls
    assert len(samples_of("with_late_samples")) == len(samples_of("with_late_samples")) == len(calls) == 1


def test_without_samples_those_calls_of_the_signature_that_run_are_used() -> None:
    def infer(X: TensorType, Y: TensorType | None, *, power: int) -> TensorType:
        if len(X.shape) != 1:
            raise ShapeError("X has one axis")
        return X

    def kernel(X: Array, Y: Array | None, *, power: int) -> Array:
        return X**power if Y is None else X**power * Y

    operator("X Y? -> Out", name="without_samples", infer=infer, grad={})(kernel)
    samples = samples_of("without_samples")
    assert {sample.slots()["X"][0].shape for sample in samples} == {(3,), (1,)}
    assert {"Y" in sample.inputs for sample in samples} == {True, False}
    assert {sample.attrs["power"] for sample in samples} == {1}


def test_there_are_none_of_an_unknown_operator() -> None:
    with pytest.raises(InvalidValue, match="tanhh"):
        samples_of("tanhh")


def test_calls_with_results_that_are_too_large_do_not_run() -> None:
    """An attribute may say how many results there are, and be drawn as the number of something else."""

    def infer(X: TensorType, *, count: int) -> TensorType:
        return TensorType((count, *X.shape), X.dtype)

    tried: list[int] = []

    def many(X: Array, *, count: int) -> Array:
        tried.append(count)
        return np.stack([X] * count)

    definition = operator("X -> Out", name="many", infer=infer, grad={}, samples=[])(many)
    assert runs(definition, Sample({"X": np.ones(2)}, {"count": 3}))
    assert not runs(definition, Sample({"X": np.ones(2)}, {"count": 100_000_007}))
    assert tried == [3]


@pytest.mark.parametrize(
    ("op_type", "operands"),
    [
        ("expand", lambda count: {"X": np.ones((1, 2)), "ExpandTimes": np.array([count, 1])}),
        ("range", lambda count: {"Start": np.array([0.0]), "End": np.array([float(count)]), "Step": np.array([1.0])}),
        ("range", lambda count: {"Start": np.array([0.0]), "End": np.array([1.0]), "Step": np.array([1.0 / count])}),
    ],
)
def test_calls_whose_operands_say_that_there_are_too_many_results_do_not_run(
    op_type: str, operands: Callable[[int], dict[str, Array]]
) -> None:
    """Where an operand says how many results there are, its type does not: another integer of its type may be a billion."""
    definition = lookup(op_type)
    assert runs(definition, Sample(dict(operands(4))))
    assert not runs(definition, Sample(dict(operands(100_000_007))))
