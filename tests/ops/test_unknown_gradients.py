"""Gradients are built of extents that only the run knows: they have to give what they give where the extents are declared.

First derivatives are kernels, which see arrays; second ones are built of operators before there are any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import graphad as ga
import graphad.layers as L
from graphad.errors import GraphadError, ShapeError
from graphad.ops import REGISTRY, ControlDef, GradOpDef, OpDef, lookup
from graphad.ops.sample import Sample
from graphad.testing.samples import SAMPLES, samples_of
from graphad.types import Array


def derivatives(definition: OpDef, sample: Sample, extents_known: bool) -> Sequence[Array]:
    """The first and the second derivatives of the sum of the sines of an operator's results."""
    feeds: dict[str, Array] = {}
    inputs: dict[str, list[ga.Variable]] = {}
    with ga.program_guard(ga.Program()) as program:
        for slot, values in sample.slots().items():
            for number, value in enumerate(values):
                shape = value.shape if extents_known else [-1] * value.ndim
                name = f"{slot}_{number}"
                data = L.data(name, shape, append_batch_size=False, dtype=str(value.dtype), stop_gradient=value.dtype.kind != "f")
                inputs.setdefault(slot, []).append(data)
                feeds[name] = value
        block = program.global_block()
        outputs = {slot: [block.create_var(name=f"out_{slot}")] for slot in definition.outputs}
        block.append_op(definition.type, inputs=inputs, outputs=outputs, attrs=sample.attrs)
        slots = inputs if sample.differentiate is None else sample.differentiate
        sources = [var for slot in slots for var in inputs.get(slot, ()) if not var.stop_gradient]
        results = [outputs[slot][0] for slot in sample.outputs or definition.outputs]
        first = gradients([var for var in results if "float" in str(var.dtype)], sources)
        second = gradients(first, sources)
    with np.errstate(all="ignore"):
        found: Sequence[Array] = ga.Executor().run(program, feed=feeds, fetch_list=[*first, *second])
    return found


def gradients(results: Sequence[Any], sources: Sequence[Any]) -> list[Any]:
    terms = [L.reduce_sum(L.sin(var)) for var in results]
    found = ga.gradients(L.sums(terms), sources) if terms else []
    return [var for var in found if var is not None]


def compared(type: str) -> int:
    """On how many of an operator's samples both agree; what has no second derivative, or has to know its extents, is left out."""
    definition, count = lookup(type), 0
    for sample in samples_of(type):
        if not all(isinstance(value, np.ndarray) for values in sample.slots().values() for value in values):
            continue
        try:
            expected = derivatives(definition, sample, True)
        except GraphadError:
            continue
        try:
            found = derivatives(definition, sample, False)
        except ShapeError as error:
            if "known" not in str(error):
                raise  # it comes from what the gradient is made of
            continue
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8, err_msg=f"{type} {sample.attrs}")
        count += 1
    return count


def differentiable() -> list[str]:
    rows: Mapping[str, OpDef] = REGISTRY
    return [
        type
        for type, definition in sorted(rows.items())
        if type in SAMPLES
        and definition.grads
        and not (definition.random or definition.ordered or isinstance(definition, GradOpDef | ControlDef))
        and not any(slot.variadic for slot in definition.outputs.values())
    ]


@pytest.mark.parametrize("type", ["qr", "svd", "matmul_v2", "reduce_mean", "softmax", "concat", "conv2d", "slice", "layer_norm"])
def test_second_derivatives_with_extents_that_are_not_known(type: str) -> None:
    assert compared(type)


@pytest.mark.long
def test_second_derivatives_of_all_operators_with_extents_that_are_not_known() -> None:
    assert sum(map(compared, differentiable())) > 800
