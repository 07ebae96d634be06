"""Kernels in float32 against the same kernels in float64, on inputs on which rounding shows.

The bound is that of a backward stable kernel: an error of so many roundings of the result, and of what roundings of the inputs change
it by. The latter is measured: the float64 kernel is run on inputs with a relative error of 2**-24 up, down, and of random signs. For long
axes the largest such change of any element counts, since a sum of random signs may be small by chance.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from graphad.errors import GraphadError, InvalidValue
from graphad.ops import GRAD, REGISTRY, GradOpDef, OpDef, lookup
from graphad.ops.sample import Sample
from graphad.ops.summation import runs_added
from graphad.testing.samples import SAMPLES, samples_of
from graphad.testing.samples.valid import outputs_of
from graphad.testing.values import arrays, is_float, remade
from graphad.types import Array
from tests.ops.check import Slots, differentiated, run, typed
from tests.ops.hard_values import hard, long, narrowed, perturbed, widened
from tests.shares import one_in

ROUNDING = 2.0**-24
TINY = float(np.finfo("float32").tiny)
LARGEST = float(np.finfo("float32").max)
OUTPUTS = 20_000  # elements that results have together, and their number, up to which an input is tried
MANY = 20


class Bound(NamedTuple):
    """So many roundings of each element, and of the number 1; and why."""

    units: float = 16.0
    of_one: float = 0.0
    reason: str = ""


_TAIL = "1 + erf(x), 1 - tanh(x) ** 2 and a sum of exponentials are rounded near 1, as in torch: far smaller results are right to that"
_NEAR_ONE = ("gelu", "gelu_grad", "log_softmax", "stanh_grad", "flash_attn_grad")
LOOSER = {
    **dict.fromkeys(_NEAR_ONE, Bound(of_one=8.0, reason=_TAIL)),
    "tanh_shrink": Bound(of_one=1.0, reason="X - tanh(X), as in Paddle and torch, cancels near zero"),
    "lstm_unit_grad": Bound(of_one=256.0, reason=f"{_TAIL}, times a state of 30"),
    "log_loss_grad": Bound(512.0, reason="far outside of [0, 1] its two terms cancel"),
    "determinant_grad": Bound(
        of_one=8.0, reason="det(X) inverse(X) of elements of 1e-15 is made of a determinant of 1e-30, whose last digits float32 has not"
    ),
    "ftrl": Bound(8192.0, reason="the difference of two powers of accumulators that are nearly equal"),
    "affine_grid_spread": Bound(512.0, reason="sums of coordinates, which are rounded to float32 first, nearly cancel"),
    **dict.fromkeys(
        ("deformable_conv_grad", "deformable_conv_v1_grad"),
        Bound(64.0, 1024.0, "an offset near 0 is rounded when it is added to a place; its cotangent is a sum of differences of elements"),
    ),
    "grid_sampler_grad": Bound(of_one=64.0, reason="a place near 0 is rounded when it is moved to the middle of the image"),
}
# Samples whose inputs are no numbers to compute with but say where or how many.
LEFT_OUT = {"resample": 1, "resample_spread": 1}
PRODUCTS = ("cumprod", "linear_recurrence")  # of many large numbers: beyond float32 on the way to a result within it


def samples(op: str) -> list[Sample]:
    return SAMPLES[op][: LEFT_OUT.get(op, 2)]


def deviation(
    definition: OpDef, inputs: Slots, attrs: dict[str, object], wanted: list[str], pooled: bool, bound: Bound
) -> tuple[float, str]:
    """The largest error of any element, in parts of its bound, and where it is."""
    wide = widened(inputs)
    narrow_results, results = computed(definition, inputs, attrs, wanted), computed(definition, wide, attrs, wanted)
    others = [other for each in perturbed(wide, ROUNDING) if (other := computed(definition, each, attrs, wanted))]
    worst, place = 0.0, ""
    for number, (got, expected) in enumerate(zip(narrow_results, results, strict=True)):
        if got.dtype != "float32" or expected.dtype != "float64" or got.shape != expected.shape or not got.size:
            continue
        change = np.max([np.zeros_like(expected), *(changed(other[number], expected) for other in others)], axis=0)
        part = error_of(got, expected, np.full_like(expected, change.max()) if pooled else change, bound)
        if part.max() > worst:
            at = np.unravel_index(part.argmax(), part.shape)
            worst, place = float(part.max()), f"result {number} at {list(map(int, at))} is {got[at]!r} instead of {expected[at]!r}"
    return worst, place


def computed(definition: OpDef, inputs: Slots, attrs: dict[str, object], wanted: list[str]) -> list[Array]:
    with np.errstate(all="ignore"):
        try:
            results = definition.run(inputs, attrs, wanted) if isinstance(definition, GradOpDef) else run(definition, inputs, attrs)
        except InvalidValue:  # a label that is not quite 0 or 1
            return []
    return [array for values in results.values() for value in values for array in arrays(value)]


def changed(other: Array, expected: Array) -> Array:
    if other.shape != expected.shape:
        return np.full_like(expected, np.inf)
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.where(other == expected, 0.0, np.abs(other - expected)), nan=np.inf, posinf=np.inf)


def error_of(got: Array, expected: Array, change: Array, bound: Bound) -> Array:
    """The error of each element in parts of its bound; none where both are not finite, or the result is out of float32's range."""
    with np.errstate(all="ignore"):
        beyond = ~(np.abs(expected) < LARGEST)
        size = np.where(np.isfinite(expected), np.abs(expected), 0.0)
        error = np.abs(got.astype("float64") - expected)
        allowed = bound.units * (ROUNDING * size + change + TINY) + bound.of_one * ROUNDING
        part = np.where(beyond & ~np.isfinite(got), 0.0, np.where(error <= 0.0, 0.0, error / allowed))
    return np.where(np.isnan(part), np.inf, part)


def cases(op: str) -> list[tuple[str, Sample, Slots, bool]]:
    """Hard inputs in float32, each with its name and whether it has a long axis."""
    found = []
    for number, sample in enumerate(samples(op)):
        for pooled, variants in ((False, hard(sample)), (True, long(sample))):
            for name, inputs in variants:
                narrow = narrowed(inputs)
                if "plus" in name and pooled and op in PRODUCTS:
                    continue
                if accepted(lookup(op), narrow, sample):
                    found.append((f"sample {number}, {name}", sample, narrow, pooled))
    return found


def accepted(definition: OpDef, inputs: Slots, sample: Sample) -> bool:
    """Whether inference takes the inputs, and the kernel their values; and what they give is not too large to test."""
    try:
        types = [t for of_slot in definition.infer_types(typed(inputs), sample.attrs).values() for t in of_slot if t is not None]
        if sum(math.prod(map(abs, t.shape)) for t in types) > OUTPUTS or len(types) > MANY:
            return False
        run(definition, inputs, sample.attrs)
    except (GraphadError, MemoryError, ValueError):
        return False
    return True


FLOATING = [
    op for op in sorted(SAMPLES) if not lookup(op).random and any(is_float(v) for s in samples(op) for vs in s.slots().values() for v in vs)
]


@pytest.mark.parametrize("op", one_in(4, FLOATING))
def test_float32_is_as_good_as_its_inputs(op: str) -> None:
    for name, sample, inputs, pooled in cases(op):
        bound = LOOSER.get(op, Bound())
        part, place = deviation(lookup(op), inputs, sample.attrs, [], pooled, bound)
        assert part <= 1, f"{name}: {place}, {part * bound.units:.3g} roundings off"


@pytest.mark.parametrize("op", one_in(4, [op for op in FLOATING if lookup(op).grads]))
def test_float32_gradients_are_as_good_as_their_inputs(op: str) -> None:
    grad = lookup(op).grad
    assert grad is not None
    for name, sample, inputs, pooled in cases(op):
        outputs = run(lookup(op), inputs, sample.attrs)
        rng = np.random.default_rng(5)
        used = [s for s in sample.outputs or outputs if s + GRAD in grad.inputs and all(map(is_float, outputs[s]))]
        cotangents = {
            s + GRAD: [remade(v, [rng.uniform(-1, 1, a.shape).astype("float32") for a in arrays(v)]) for v in outputs[s]] for s in used
        }
        wanted = [s + GRAD for s in differentiated(lookup(op), sample)]
        bound = LOOSER.get(grad.type, Bound())
        if wanted:
            part, place = deviation(grad, {**inputs, **outputs, **cotangents}, sample.attrs, wanted, pooled, bound)
            assert part <= 1, f"{name}: {place}, {part * bound.units:.3g} roundings off"


# -- long axes -----------------------------------------------------------------------------------

LONG = 100_000


def rows(offset: float, width: int = 3) -> Array:
    return np.asarray(np.random.default_rng(0).normal(offset, 1.0, (LONG, width)), "float32")


LONG_AXES: dict[str, dict[str, object]] = {
    "reduce_sum": {"dim": [0]},
    "reduce_mean": {"dim": [0]},
    "mean": {},
    "softmax": {"axis": 0},
    "log_softmax": {"axis": 0},
    "logsumexp": {"axis": [0]},
    "p_norm": {"axis": 0, "porder": 3.0},
    "frobenius_norm": {"dim": [0]},
    "cumsum": {"axis": 0},
    "logcumsumexp": {"axis": 0},
    "norm": {"axis": 0},
    "squared_l2_norm": {},
}


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("op", LONG_AXES)
def test_over_a_hundred_thousand_rows(op: str, offset: float) -> None:
    part, place = deviation(lookup(op), {"X": [rows(offset)]}, LONG_AXES[op], [], True, Bound())
    assert part <= 1, f"{place}, {part * Bound().units:.3g} roundings off"


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_rows_that_are_added_at_a_hundred_thousand_repeated_places(offset: float) -> None:
    ids = {"Ids": [np.zeros(LONG, "int64")], "Updates": [rows(offset)]}
    part, place = deviation(lookup("scatter"), {"X": [np.zeros((2, 3), "float32")], **ids}, {"overwrite": False}, [], True, Bound())
    assert part <= 1, f"{place}, {part * Bound().units:.3g} roundings off"
    rng = np.random.default_rng(1)
    starts = np.flatnonzero(rng.random(LONG) < 1e-3)
    starts[0] = 0
    added = runs_added(rows(offset), starts)
    np.testing.assert_allclose(added, np.add.reduceat(rows(offset).astype("float64"), starts, axis=0), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("op", ["batch_norm", "layer_norm", "instance_norm", "group_norm"])
def test_the_moments_of_data_far_from_zero(op: str) -> None:
    x = rows(1e4, width=1).reshape(1, 1, -1) if op != "batch_norm" else rows(1e4)
    one = [np.ones(x.shape[1], "float32")] if op != "layer_norm" else []
    scales = {"Scale": one, "Bias": one} if one else {}
    running = {"Mean": one, "Variance": one} if op == "batch_norm" else {}
    attrs = {"groups": 1} if op == "group_norm" else {"begin_norm_axis": 2} if op == "layer_norm" else {"momentum": 0.0} if running else {}
    results = run(lookup(op), {"X": [x], **scales, **running}, attrs)
    wide = np.asarray(x, "float64").reshape(len(x), -1) if running else np.asarray(x, "float64").reshape(1, -1).T
    variance = {"batch_norm": "VarianceOut", "instance_norm": "SavedVariance"}.get(op, "Variance")
    expected = wide.var(axis=0)
    expected = 1 / np.sqrt(expected + 1e-5) if op == "instance_norm" else expected
    np.testing.assert_allclose(np.ravel(results[variance][0]), expected, rtol=1e-5)
    exact = wide - wide.mean(axis=0)
    normalized = (exact / np.sqrt((exact * exact).mean(axis=0) + 1e-5)).T.reshape(x.shape) if op != "batch_norm" else None
    normalized = exact / np.sqrt((exact * exact).mean(axis=0) + 1e-5) if normalized is None else normalized
    shift = 1.0 if one else 0.0
    np.testing.assert_allclose(results["Y"][0], normalized + shift, rtol=1e-6, atol=4 * ROUNDING)


@pytest.mark.parametrize("op", ["batch_norm", "layer_norm"])
def test_gradients_of_data_far_from_zero(op: str) -> None:
    x = rows(1e4, width=1)[:1000].reshape((-1, 1) if op == "batch_norm" else (1, -1))
    one, d = np.ones(1, "float32"), rows(0.0, width=1)[:1000].reshape(x.shape)
    attrs: dict[str, object] = {"momentum": 0.0} if op == "batch_norm" else {}
    inputs: dict[str, list[Array]] = {
        "X": [x],
        **({"Scale": [one], "Bias": [one], "Mean": [one], "Variance": [one]} if op == "batch_norm" else {}),
    }

    def gradient(dtype: str) -> Array:
        given = {slot: [np.asarray(value[0], dtype)] for slot, value in inputs.items()}
        results = run(lookup(op), given, attrs)
        return np.asarray(run(lookup(f"{op}_grad"), {**given, **results, f"Y{GRAD}": [np.asarray(d, dtype)]}, attrs)[f"X{GRAD}"][0])

    np.testing.assert_allclose(gradient("float32"), gradient("float64"), rtol=1e-5, atol=1e-5)


# One takes a value in the dtype that it writes, so that it casts nothing; of the others the dtype is that of places.
SAME = {"fill_constant", "cummax", "cummin"}
CASTING = sorted(
    t for t, op in REGISTRY.items() if isinstance(op, OpDef) and op.grad and {"dtype", "out_dtype"} & op.attrs.keys() and t not in SAME
)


@pytest.mark.parametrize("op_type", CASTING)
def test_gradients_have_the_dtype_of_what_they_are_of_where_results_are_cast(op_type: str) -> None:
    op, compared = lookup(op_type), 0
    for sample in samples_of(op_type):
        inputs = sample.slots()
        narrow, wide = (gradients_of(op, inputs, {**sample.attrs, **casts(op, dtype)}) for dtype in ("float32", "float64"))
        for slot in narrow.keys() & wide.keys():
            like = inputs[slot.removesuffix(GRAD)][0]
            if isinstance(like, np.ndarray) and like.dtype.kind == "f":
                assert narrow[slot].dtype == wide[slot].dtype == like.dtype
                np.testing.assert_allclose(narrow[slot], wide[slot], rtol=1e-5, atol=1e-6)
                compared += 1
    assert compared


def casts(op: OpDef, dtype: str) -> dict[str, str]:
    return {name: dtype for name in ("dtype", "out_dtype") if name in op.attrs}


def gradients_of(op: OpDef, inputs: Slots, attrs: dict[str, Any]) -> dict[str, Array]:
    """The gradients of the sum of all results."""
    outputs = outputs_of(op, inputs, attrs)
    assert op.grad is not None
    assert outputs is not None
    ones = {f"{slot}{GRAD}": [np.ones_like(v) for v in values] for slot, values in outputs.items() if values[0] is not None}
    given = {slot: values for slot, values in {**outputs, **inputs, **ones}.items() if slot in op.grad.inputs}
    with np.errstate(all="ignore"):
        found = op.grad.run(given, attrs, [slot for slot in op.grad.outputs if slot.removesuffix(GRAD) in inputs])
    return {slot: values[0] for slot, values in found.items()}


def test_a_squared_norm_of_many_elements_is_added_exactly() -> None:
    values = np.random.default_rng(0).standard_normal(4_000_000).astype("float32")
    norm = float(lookup("squared_l2_norm")(values)[0])
    assert norm == pytest.approx(float(np.square(values, dtype="float64").sum()), rel=2 * ROUNDING)
