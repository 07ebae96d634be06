"""Kernels agree with inference on any input that it accepts: unknown extents, none, no axes, other dtypes."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

from graphad.errors import GraphadError, ShapeError
from graphad.ops import REGISTRY, OpDef, lookup, operator
from graphad.ops.inference import same
from graphad.ops.sample import Sample, uniform
from graphad.testing.samples import SAMPLES
from graphad.types import TensorType
from tests.ops.check import Slots, check_type, on_samples, run, typed
from tests.ops.variants import DTYPES, Place, Types, emptied, in_dtype, numbers_dtype, single, unknown

OF_COUNTS = """
crop crop_tensor expand expand_v2 fill_constant gather pad2d pad3d reshape reshape2 slice strided_slice tile ungather unpad2d unpad3d
unslice untile
"""
# Operators that have to know an extent: why, as their messages say it.
NEEDS = {
    **dict.fromkeys(OF_COUNTS.split(), "how long it is has to be known before the program runs"),
    **dict.fromkeys(("unbind", "unstack"), "has to be known, since there is an output for each place"),
    **dict.fromkeys(("gather_nd", "scatter_nd_add"), "its last extent has to be known and counts axes of X"),
    "bpr_loss": "two classes or more are expected, and their number must be known",
    **dict.fromkeys(("deformable_conv", "deformable_conv_v1"), "only the number of images may be unknown"),
    "flash_attn": r"with D known is expected|known lengths, the first not above the second, are expected",
    "grid_sampler": "with known channels and spatial extents above 0",
    "gru_unit": r"\[D, 3 D\] with D known is expected",
    "shuffle_channel": "the number of channels must be known",
}
# Operators whose rank depends on whether extents are one: unknown ones that are named are taken to be, as in Paddle, others not to be.
RANK_BY_EXTENT = ("squeeze", "squeeze2")
# Slots that gradient rules fill, with something of a shape that fits: nothing checks that it does.
BY_RULES = {"Like", "Image", "Pooled"}


# -- extents that are not known beforehand -------------------------------------------------------


@pytest.mark.parametrize("op", sorted(SAMPLES))
def test_unknown_extents_are_inferred_or_refused_with_a_reason(op: str) -> None:
    on_samples(check_unknown, op)


def check_unknown(op: str, sample: Sample) -> None:
    definition = lookup(op)
    outputs = run(definition, sample.slots(), sample.attrs)
    for chosen, types in unknown(sample):
        if op in RANK_BY_EXTENT and not _are_ones(sample, chosen):
            continue
        try:
            inferred = definition.infer_types(types, sample.attrs)
        except ShapeError as refusal:
            check_refusal(op, types, str(refusal))
        else:
            check_outputs(outputs, inferred)


def check_refusal(op: str, types: Types, message: str) -> None:
    """The operator is one of those that may refuse, and says why."""
    assert op in NEEDS, f"{op} refuses {types}: {message}"
    assert re.search(NEEDS[op], message), f"{op} does not say why it refuses {types}: {message}"


def _are_ones(sample: Sample, chosen: list[Place]) -> bool:
    shape, axes = sample.slots()["X"][0].shape, sample.attrs.get("axes", [])
    named = {axis % len(shape) for axis in axes}
    return bool(axes) and all(axis not in named or shape[axis] == 1 for _, _, axis in chosen)


def check_outputs(outputs: Slots, inferred: dict[str, list[TensorType]]) -> None:
    """The outputs that are tensors are of the inferred types."""
    for slot, values in outputs.items():
        assert len(values) == len(inferred[slot]), f"{slot} has {len(values)} values, {len(inferred[slot])} inferred"
        for value, expected in zip(values, inferred[slot], strict=True):
            if isinstance(value, np.ndarray) and expected is not None:
                check_type(slot, value, expected)


# -- values that inference may take --------------------------------------------------------------


@pytest.mark.parametrize("op", [op for op in sorted(SAMPLES) if not BY_RULES & lookup(op).inputs.keys()])
def test_without_elements_or_axes_the_kernel_gives_what_is_inferred(op: str) -> None:
    on_samples(check_small, op)


def check_small(op: str, sample: Sample) -> None:
    for what, inputs in (*emptied(sample), *single(sample)):
        check_value(lookup(op), inputs, sample.attrs, what)


@pytest.mark.parametrize("op", [op for op, samples in sorted(SAMPLES.items()) if samples and numbers_dtype(samples[0])])
def test_in_every_dtype_the_kernel_gives_what_is_inferred(op: str) -> None:
    for dtype in DTYPES:
        sample = in_dtype(SAMPLES[op][0], dtype)
        check_value(lookup(op), sample.slots(), sample.attrs, dtype)


def check_value(definition: OpDef, inputs: Slots, attrs: dict[str, Any], what: str) -> None:
    """The kernel computes all that inference accepts, or says which value is at fault: an index out of bounds."""
    try:
        inferred = definition.infer_types(typed(inputs), attrs)
    except ShapeError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            outputs = run(definition, inputs, attrs)
        except GraphadError:
            return
    try:
        check_outputs(outputs, inferred)
    except AssertionError as wrong:
        raise AssertionError(f"{what}: {typed(inputs)}, {attrs}: {wrong}") from None


# -- the tests can fail --------------------------------------------------------------------------


def test_an_operator_that_needs_what_it_does_not_say_is_found() -> None:
    def infer(X: TensorType) -> TensorType:
        if -1 in X.shape:
            raise ShapeError("no")
        return X

    with pytest.raises(AssertionError, match="refuses"):
        _checked(check_unknown, infer)


def test_inference_that_takes_an_unknown_extent_for_another_is_found() -> None:
    with pytest.raises(AssertionError, match="inferred"):
        _checked(check_unknown, lambda X: TensorType(tuple(abs(e) for e in X.shape), X.dtype))


def test_a_kernel_that_makes_something_of_nothing_is_found() -> None:
    def check(op: str, sample: Sample) -> None:
        for what, inputs in emptied(sample):
            check_value(lookup(op), inputs, sample.attrs, what)

    with pytest.raises(AssertionError, match=r"(axis 0 has no elements|every extent of 2 is 0)"):
        _checked(check, same)


def _checked(check: Any, infer: Any) -> None:
    def kernel(X: Any) -> Any:
        return X if X.size else np.zeros((1, 3))

    row = operator("X -> Out", name="said_wrongly", infer=infer, grad={})(kernel)
    try:
        check(row.type, Sample({"X": uniform(2, 3)}))
    finally:
        del REGISTRY[row.type]
