"""What every operator of the table must satisfy, checked on a sample: inference, float32, first derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphad.ops import GRAD, OpDef, lookup
from graphad.types import FLOATS, TensorType, joined_shape
from tests.ops.sample import Array, Sample

Slots = dict[str, list[Array]]


def run(row: OpDef, inputs: Slots, attrs: dict[str, Any]) -> Slots:
    """The operator's outputs; random operators draw from a fixed generator."""
    extra = {"rng": np.random.default_rng(3)} if row.random else {}
    with np.errstate(all="ignore"):
        return row.run(inputs, {**attrs, **extra}, list(row.outputs))


def typed(inputs: Slots) -> dict[str, list[TensorType]]:
    """The types of arrays."""
    return {s: [TensorType(a.shape, a.dtype.name) for a in v] for s, v in inputs.items()}


def check_inference(op_type: str, sample: Sample) -> None:
    """Inferred shapes and dtypes are those of the kernel's outputs, also when every extent is unknown beforehand."""
    row = lookup(op_type)
    outputs = run(row, sample.slots(), sample.attrs)
    inferred = row.infer_types(typed(sample.slots()), sample.attrs)
    for slot, arrays in outputs.items():
        for array, expected in zip(arrays, inferred[slot], strict=True):
            assert array is None or isinstance(array, np.ndarray), f"{slot} is a {type(array).__name__}"
            if array is not None:
                assert array.dtype.name == expected.dtype, f"{slot} is {array.dtype}, inferred {expected}"
                assert joined_shape(array.shape, expected.shape) == array.shape, f"{slot} is {array.shape}, inferred {expected}"


def check_float32(op_type: str, sample: Sample) -> None:
    """In float32 the outputs are float32 and near those in float64."""
    row = lookup(op_type)
    narrow = {s: [a.astype("float32") if a.dtype == "float64" else a for a in v] for s, v in sample.slots().items()}
    for slot, arrays in run(row, sample.slots(), sample.attrs).items():
        for wide_, narrow_ in zip(arrays, run(row, narrow, sample.attrs)[slot], strict=True):
            if wide_ is None or row.random:
                continue
            if _follows_inputs(sample) and wide_.dtype == "float64":
                assert narrow_.dtype == "float32", f"{slot} is {narrow_.dtype} for float32 inputs"
            np.testing.assert_allclose(narrow_, wide_, rtol=2e-4, atol=2e-5)


def check_gradient(op_type: str, sample: Sample) -> None:
    """The grad operator's outputs are central differences of the operator's, weighted with random cotangents."""
    row = lookup(op_type)
    if not row.grads:
        return
    assert row.grad is not None
    inputs = sample.slots()
    outputs = run(row, inputs, sample.attrs)
    used = sample.outputs or _honoured(row, outputs)
    rng = np.random.default_rng(5)
    cotangents = {s: [np.asarray(rng.uniform(-1, 1, a.shape)) for a in outputs[s]] for s in used}
    slots = differentiated(row, sample)
    given = {**inputs, **outputs, **{s + GRAD: v for s, v in cotangents.items()}}
    with np.errstate(all="ignore"):
        grads = row.grad.run(given, sample.attrs, [s + GRAD for s in slots])

    def loss(changed: Slots) -> float:
        result = run(row, changed, sample.attrs)
        return float(sum(np.sum(a * c) for s in used for a, c in zip(result[s], cotangents[s], strict=True)))

    for slot in slots:
        for i, expected in enumerate(differences(loss, inputs, slot)):
            got = grads[slot + GRAD][i]
            assert got.shape == inputs[slot][i].shape, f"d{slot} has shape {got.shape}"
            np.testing.assert_allclose(got, expected, rtol=sample.tolerance, atol=sample.tolerance, err_msg=f"cotangent of {slot}[{i}]")


def differentiated(row: OpDef, sample: Sample) -> tuple[str, ...]:
    """The input slots to differentiate with respect to: those of floating point that have a rule."""
    slots = sample.differentiate or tuple(row.grads or ())
    return tuple(s for s in slots if s in sample.slots() and all(a.dtype.name in FLOATS for a in sample.slots()[s]))


def _honoured(row: OpDef, outputs: Slots) -> tuple[str, ...]:
    """The float outputs whose cotangent some rule reads."""
    read = {s for rule in (row.grads or {}).values() for s in rule.reads}
    return tuple(s for s, v in outputs.items() if s + GRAD in read and all(a is not None and a.dtype.name in FLOATS for a in v))


def differences(loss: Callable[[Slots], float], inputs: Slots, slot: str) -> list[Array]:
    """Fourth-order central differences of the loss with respect to every element of a slot."""
    return [_difference(loss, inputs, slot, i) for i in range(len(inputs[slot]))]


def _difference(loss: Callable[[Slots], float], inputs: Slots, slot: str, i: int) -> Array:
    base = inputs[slot][i]
    grad = np.zeros_like(base)
    for index in np.ndindex(base.shape):
        values = {k: _moved(loss, inputs, slot, i, index, k * 1e-3) for k in (-2, -1, 1, 2)}
        grad[index] = (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / 12e-3
    return grad


def _moved(loss: Callable[[Slots], float], inputs: Slots, slot: str, i: int, index: tuple[int, ...], step: float) -> float:
    arrays = [a.copy() for a in inputs[slot]]
    arrays[i][index] += step
    return loss({**inputs, slot: arrays})


def _follows_inputs(sample: Sample) -> bool:
    """Whether the output's dtype comes from the inputs and not from an attribute."""
    return bool(sample.inputs) and not {"dtype", "out_dtype"} & set(sample.attrs)
