"""Checks that every operator of the table has to pass on a sample: inference, float32, first derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphad.ops import GRAD, OpDef, lookup
from graphad.ops.aggregates import Tape
from graphad.ops.definition import AS_INPUT
from graphad.ops.sample import Sample, Value
from graphad.testing.samples import SAMPLES
from graphad.testing.values import arrays, filled, is_float, kind_of, random_like, remade, type_of
from graphad.types import TENSOR, Array, TensorType, joined_shape

Slots = dict[str, list[Value]]


def on_samples(check: Callable[[str, Sample], None], op: str) -> None:
    """Make a check on every sample of an operator; what it raises says on which."""
    for number, sample in enumerate(SAMPLES[op]):
        try:
            check(op, sample)
        except Exception as error:
            error.add_note(f"on sample {number} of {op}")
            raise


def run(definition: OpDef, inputs: Slots, attrs: dict[str, Any]) -> Slots:
    """The operator's outputs; random operators draw from a fixed generator."""
    extra = {"rng": np.random.default_rng(3)} if definition.random else {}
    with np.errstate(all="ignore"):
        return definition.run(inputs, {**attrs, **extra}, list(definition.outputs))


def typed(inputs: Slots) -> dict[str, list[TensorType]]:
    """The types of values."""
    return {s: list(map(type_of, v)) for s, v in inputs.items()}


def check_inference(op_type: str, sample: Sample) -> None:
    """Inferred shapes and dtypes are those of the kernel's outputs."""
    definition, inputs = lookup(op_type), sample.slots()
    inferred = definition.infer_types(typed(inputs), sample.attrs)
    untyped = {id(array) for values in inputs.values() for v in values if isinstance(v, Tape) for array in arrays(v)}
    for slot, values in run(definition, inputs, sample.attrs).items():
        for value, expected in zip(values, inferred[slot], strict=True):
            if value is None:
                continue
            assert kind_of(value) == _kind(definition, slot, inputs), f"{slot} is a {type(value).__name__}"
            for array in arrays(value):
                assert isinstance(array, np.ndarray), f"{slot} is or holds a {type(array).__name__}"
                if not isinstance(value, Tape) and id(array) not in untyped:
                    check_type(slot, array, expected)


def _kind(definition: OpDef, slot: str, inputs: Slots) -> str:
    kind = definition.kinds.get(slot, TENSOR)
    return kind_of(next(iter(inputs.values()))[0]) if kind == AS_INPUT else kind


def check_type(slot: str, array: Array, expected: TensorType) -> None:
    """The array is of the type that was inferred, as far as that is known."""
    assert array.dtype.name == expected.dtype, f"{slot} is {array.dtype}, inferred {expected}"
    assert joined_shape(array.shape, expected.shape) == array.shape, f"{slot} is {array.shape}, inferred {expected}"


def check_float32(op_type: str, sample: Sample) -> None:
    """In float32 the outputs are float32 and near those in float64."""
    definition = lookup(op_type)
    narrow = {s: [remade(v, map(_narrowed, arrays(v))) for v in values] for s, values in sample.slots().items()}
    narrow_outputs = run(definition, narrow, sample.attrs)
    for slot, values in run(definition, sample.slots(), sample.attrs).items():
        for value, narrow_value in zip(values, narrow_outputs[slot], strict=True):
            if value is None or definition.random:
                continue
            for wide_, narrow_ in zip(arrays(value), arrays(narrow_value), strict=True):
                if _follows_inputs(sample) and wide_.dtype == "float64":
                    assert narrow_.dtype == "float32", f"{slot} is {narrow_.dtype} for float32 inputs"
                np.testing.assert_allclose(narrow_, wide_, rtol=2e-4, atol=2e-5)


def _narrowed(array: Array) -> Array:
    return array.astype("float32") if array.dtype == "float64" else array


def check_gradient(op_type: str, sample: Sample) -> None:
    """The grad operator's outputs are central differences of the operator's, weighted with random cotangents."""
    definition = lookup(op_type)
    if not definition.grads:
        return
    assert definition.grad is not None
    inputs = sample.slots()
    outputs = run(definition, inputs, sample.attrs)
    used = sample.outputs or _honoured(definition, outputs)
    rng = np.random.default_rng(5)
    cotangents = {s: [random_like(v, rng) for v in outputs[s]] for s in used}
    slots = differentiated(definition, sample)
    given = {**inputs, **outputs, **{s + GRAD: v for s, v in cotangents.items()}}
    with np.errstate(all="ignore"):
        grads = definition.grad.run(given, sample.attrs, [s + GRAD for s in slots])

    def loss(changed: Slots) -> float:
        result = run(definition, changed, sample.attrs)
        return sum(_inner(value, cotangent) for s in used for value, cotangent in zip(result[s], cotangents[s], strict=True))

    for slot in slots:
        for i, expected in enumerate(differences(loss, inputs, slot)):
            got = filled(grads[slot + GRAD][i], inputs[slot][i])
            _check_near(f"the cotangent of {slot}[{i}]", got, expected, sample.tolerance)


def _check_near(what: str, got: list[Array], expected: list[Array], tolerance: float) -> None:
    for array, difference in zip(got, expected, strict=True):
        assert array.shape == difference.shape, f"{what} has shape {array.shape}"
        np.testing.assert_allclose(array, difference, rtol=tolerance, atol=tolerance, err_msg=what)


def _inner(value: Value, cotangent: Value) -> float:
    return float(sum(np.sum(a * c) for a, c in zip(arrays(value), arrays(cotangent), strict=True)))


def differentiated(definition: OpDef, sample: Sample) -> tuple[str, ...]:
    """The input slots to differentiate with respect to: those of floating point that have a rule."""
    slots = sample.differentiate or tuple(definition.grads or ())
    return tuple(s for s in slots if s in sample.slots() and all(map(is_float, sample.slots()[s])))


def _honoured(definition: OpDef, outputs: Slots) -> tuple[str, ...]:
    """The float outputs whose cotangent some rule reads."""
    read = {s for rule in (definition.grads or {}).values() for s in rule.reads}
    return tuple(s for s, v in outputs.items() if s + GRAD in read and all(map(is_float, v)))


def differences(loss: Callable[[Slots], float], inputs: Slots, slot: str) -> list[list[Array]]:
    """Fourth-order central differences of the loss with respect to every element of every array in a slot."""
    return [[_difference(loss, inputs, slot, i, part) for part in range(len(arrays(v)))] for i, v in enumerate(inputs[slot])]


def _difference(loss: Callable[[Slots], float], inputs: Slots, slot: str, i: int, part: int) -> Array:
    base = arrays(inputs[slot][i])[part]
    grad = np.zeros_like(base)
    for index in np.ndindex(base.shape):
        values = {k: loss(_moved(inputs, slot, i, part, index, k * 1e-3)) for k in (-2, -1, 1, 2)}
        grad[index] = (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / 12e-3
    return grad


def _moved(inputs: Slots, slot: str, i: int, part: int, index: tuple[int, ...], step: float) -> Slots:
    copies = [[array.copy() for array in arrays(value)] for value in inputs[slot]]
    copies[i][part][index] += step
    return {**inputs, slot: [remade(value, copy) for value, copy in zip(inputs[slot], copies, strict=True)]}


def _follows_inputs(sample: Sample) -> bool:
    """Whether the output's dtype comes from the inputs and not from an attribute."""
    return bool(sample.inputs) and not {"dtype", "out_dtype", "out_types"} & set(sample.attrs)
