"""Slots that a row says its gradient rules read only the shape of: anything of that shape gives the same gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from graphad.ops import GRAD, REGISTRY, lookup, operator
from graphad.ops.inference import same
from graphad.ops.sample import Sample, Value, uniform
from graphad.testing.samples import SAMPLES
from graphad.testing.samples.valid import computed
from graphad.testing.values import random_like
from tests.ops.check import Slots, on_samples, run
from tests.ops.test_traits import having


def stand_in(value: Value) -> Value:
    """Zeros without memory, as ``stand_in`` makes them, for an array; an aggregate as it is."""
    return lookup("stand_in")(value) if isinstance(value, np.ndarray) else value


def gradient(op_type: str, sample: Sample, slot: str, changed: Slots) -> list[Value]:
    """The cotangent by the rule of an input, with some of the slots that it reads changed."""
    definition, inputs = lookup(op_type), sample.slots()
    outputs = run(definition, inputs, sample.attrs)
    rng = np.random.default_rng(5)
    cotangents = {slot + GRAD: [None if v is None else random_like(v, rng) for v in values] for slot, values in outputs.items()}
    grad = definition.grad
    assert grad is not None
    given = {slot: values for slot, values in {**outputs, **inputs, **changed, **cotangents}.items() if slot in grad.inputs}
    with np.errstate(all="ignore"):
        return list(grad.meaning(given, sample.attrs, [slot + GRAD])[slot + GRAD])


def check(op_type: str, sample: Sample) -> None:
    definition = lookup(op_type)
    values = {**run(definition, sample.slots(), sample.attrs), **sample.slots()}
    for rule in (slot for slot in definition.grads or () if slot in sample.inputs):
        changed = {slot: list(map(stand_in, given)) for slot, given in values.items() if definition.reads_shape(slot, rule)}
        for got, expected in zip(gradient(op_type, sample, rule, changed), gradient(op_type, sample, rule, {}), strict=True):
            if isinstance(got, np.ndarray):
                np.testing.assert_array_equal(got, expected, err_msg=rule)


@pytest.mark.parametrize("op", [op for op in sorted(SAMPLES) if REGISTRY[op].shapes])
def test_only_the_shape_is_read(op: str) -> None:
    on_samples(check, op)


def test_a_row_that_says_so_wrongly_is_found() -> None:
    row = operator("X -> Out", name="square_said_wrongly", infer=same, grad={"X": lambda X, dOut: dOut * X * 2.0}, shapes="X")(np.square)
    try:
        with pytest.raises(AssertionError):
            check("square_said_wrongly", Sample({"X": uniform(3)}))
    finally:
        del REGISTRY["square_said_wrongly"], REGISTRY["square_said_wrongly_grad"]
    assert row.shapes == {"X"}
    assert "square_said_wrongly" not in SAMPLES


# -- operands that need not be there ----------------------------------------------------------------


ROWS = np.arange(6.0).reshape(2, 3)
LACKING: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "select_input": {"X": [ROWS, None], "Mask": [np.array([0])]},
    "merge_lod_tensor": {"Mask": [np.ones((2, 1), bool)], "InTrue": [ROWS], "InFalse": [None]},
}


def test_lazy() -> None:
    """Operands that are not chosen may be without a value, also where the gradient reads them."""
    assert having("lazy") == {*LACKING, "select_input_grad"}
    for type, slots in LACKING.items():
        outputs = computed(REGISTRY[type], slots, {})
        assert outputs is not None
        assert np.array_equal(outputs["Out"][0], ROWS)
