"""The traits of operators, checked against their kernels on their samples; and which operators could declare one and do not."""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from types import FrameType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from graphad.errors import GraphadError, InvalidValue
from graphad.ops import GRAD, REGISTRY, ControlDef, GradOpDef, operator
from graphad.ops.aggregates import TensorArray
from graphad.ops.inference import same_float
from graphad.ops.rings import communicates
from graphad.ops.traits import ZEROS, Declared
from graphad.testing.samples import SAMPLES, samples_of
from graphad.testing.samples.valid import computed
from graphad.testing.values import type_of
from graphad.types import FLOATS, TensorType
from tests.scratch import operators

Array = NDArray[Any]
Slots = dict[str, list[Array]]
Attrs = Mapping[str, Any]


def plain() -> Iterator[str]:
    """Operators that give the same on the same inputs, and do nothing else."""
    for type in sorted(SAMPLES):
        definition = REGISTRY[type]
        if not (definition.random or definition.side_effect or isinstance(definition, GradOpDef | ControlDef)):
            yield type


def having(trait: str) -> set[str]:
    """The operators with a trait."""
    return {type for type, definition in REGISTRY.items() if getattr(definition, trait)}


def calls(type: str, optional: bool = False) -> Iterator[tuple[Slots, Attrs]]:
    """The samples of an operator whose inputs are arrays, with the optional ones or without."""
    definition = REGISTRY[type]
    for sample in samples_of(type):
        slots = {slot: values for slot, values in sample.slots().items() if optional or not definition.inputs[slot].optional}
        if slots and all(isinstance(value, np.ndarray) for values in slots.values() for value in values):
            yield slots, sample.attrs


def results(type: str, slots: Mapping[str, Sequence[Array]], attrs: Attrs) -> list[Array] | None:
    """The outputs one after the other; None if the operator does not take the call, or an output is no array."""
    outputs = computed(REGISTRY[type], slots, attrs)
    found = None if outputs is None else [value for values in outputs.values() for value in values]
    return found if found is not None and all(isinstance(value, np.ndarray | np.generic) for value in found) else None


def result(type: str, slots: Mapping[str, Sequence[Array]], attrs: Attrs) -> Array | None:
    found = results(type, slots, attrs)
    return np.asarray(found[0]) if found is not None and len(found) == 1 else None


def alike(a: Array | None, b: Array | None) -> bool:
    """Whether two arrays are there and the same but for rounding."""
    if a is None or b is None or a.shape != b.shape or a.dtype != b.dtype:
        return False
    return np.allclose(a, b, rtol=1e-10, atol=1e-12, equal_nan=True) if a.dtype.kind == "f" else np.array_equal(a, b)


def each(slots: Slots, change: Callable[[Array], Array], only: str = "") -> Slots:
    """The inputs with all arrays changed, or those of one slot."""
    return {slot: [change(value) if only in ("", slot) else value for value in values] for slot, values in slots.items()}


def verdict(type: str, holds: Callable[[str, Slots, Attrs], bool | None], optional: bool = False) -> bool | None:
    """Whether something holds on all samples on which it can be asked, None if there is none."""
    found = [answer for slots, attrs in calls(type, optional) if (answer := holds(type, slots, attrs)) is not None]
    return all(found) if found else None


# -- elementwise ---------------------------------------------------------------------------------


def is_elementwise(type: str, slots: Slots, attrs: Attrs) -> bool | None:
    """Element by element, in another shape, and with one element in the place of many, it gives the same."""
    if len(REGISTRY[type].outputs) != 1 or any(value.size == 0 for values in slots.values() for value in values):
        return None
    attrs = {name: value for name, value in attrs.items() if name != "axis"}
    slots = each(slots, lambda value: np.resize(value, 6))
    whole = result(type, slots, attrs)
    if whole is None or whole.shape != (6,):
        return False
    one_by_one = (alike(result(type, each(slots, itemgetter(slice(i, i + 1))), attrs), whole[i : i + 1]) for i in range(6))
    shaped = result(type, each(slots, lambda value: value.reshape(2, 3)), attrs)
    return all(one_by_one) and alike(shaped, whole.reshape(2, 3)) and all(_stands_for_many(type, slots, attrs, slot) for slot in slots)


def _stands_for_many(type: str, slots: Slots, attrs: Attrs, slot: str) -> bool:
    """Whether one element in a slot stands for as many as there are in the others; there may be no others."""
    one = result(type, each(slots, lambda value: value[:1], slot), attrs)
    return len(slots) == 1 or alike(one, result(type, each(slots, lambda value: np.resize(value[:1], 6), slot), attrs))


BY_ATTRIBUTE = {"affine_channel", "prelu"}  # elementwise in some samples only, where there is one channel
ANNOTATIONS = {"shard_tensor"}  # they return their operand, but what they say is about its dimensions
OF_ONE_STEP = {"sgd", "proximal_gd"}  # of one learning rate, and never of one parameter for many gradients


def test_elementwise() -> None:
    """Those that say so are, and those that are say so."""
    found = {type for type in plain() if verdict(type, is_elementwise)}
    assert found - BY_ATTRIBUTE - OF_ONE_STEP - ANNOTATIONS == having("elementwise")


# -- speculatable --------------------------------------------------------------------------------


SAFE = {"floats": FLOATS[1:], "all": (*FLOATS[1:], "int64", "uint8", "bool")}
EXTREMES = {
    "f": (np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 2.5, 1e300, -1e-320),
    "i": (0, -1, 3, -(2**63), 2**63 - 1),
    "u": (0, 1, 255),
    "b": (True, False),
}


def extremes(like: Array, dtype: str, shift: int) -> Array:
    """Numbers at the ends of a dtype in the shape of an array."""
    numbers = EXTREMES[np.dtype(dtype).kind]
    with np.errstate(all="ignore"):
        return np.resize(np.roll(np.array(numbers), shift), like.shape).astype(dtype)


def accepted(type: str, slots: Slots, attrs: Attrs) -> bool:
    """Whether inference takes inputs of these types."""
    return _infers(type, {slot: [TensorType(v.shape, v.dtype.name) for v in values] for slot, values in slots.items()}, attrs)


def emptied(value: Array, axis: int) -> Array:
    return value[(slice(None),) * axis + (slice(0),)] if value.ndim > axis else value


def hard(type: str) -> Iterator[tuple[Slots, Attrs]]:
    """The samples with the hardest numbers in every dtype for which the operator says that it cannot fail, and without elements."""
    for slots, attrs in calls(type, optional=True):
        if not REGISTRY[type].extents.isdisjoint(slots):
            continue
        main = {value.dtype for values in slots.values() for value in values if value.dtype.kind == "f"}
        for dtype in SAFE[REGISTRY[type].safe_dtypes]:
            for shift in range(3):
                yield each(slots, lambda v: extremes(v, dtype if v.dtype in main or not main else v.dtype.name, shift)), attrs  # noqa: B023
        for axis in range(2):
            yield each(slots, lambda value: emptied(value, axis)), attrs  # noqa: B023
        yield each(slots, lambda value: value.reshape(-1)[:0]), attrs


@pytest.mark.parametrize("type", sorted(having("speculatable")))
def test_what_is_speculatable_does_not_fail(type: str) -> None:
    """Where inference accepts the types, it runs, and so does its gradient, whatever the values."""
    definition, tried = REGISTRY[type], 0
    for slots, attrs in hard(type):
        if not accepted(type, slots, attrs):
            continue
        tried += 1
        with np.errstate(all="ignore"):
            outputs = definition.run(slots, attrs, [*definition.outputs])
            if (
                definition.grad is not None
                and all(outputs.values())
                and all(value.dtype.kind == "f" for values in slots.values() for value in values)
            ):
                known = {**slots, **outputs, **{f"{slot}{GRAD}": values for slot, values in outputs.items()}}
                given = {slot: known[slot] for slot in definition.grad.inputs if known.get(slot)}
                definition.grad.run(given, attrs, [f"{slot}{GRAD}" for slot in slots if f"{slot}{GRAD}" in definition.grad.outputs])
    assert tried or not definition.inputs


SIZES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049)  # no two go together by chance


def resized(slots: Slots, sizes: Iterable[int], axis: int) -> Slots:
    """The inputs with other extents along an axis, where they have it: each has the next of the sizes."""
    after = iter(sizes)
    return each(slots, lambda v: np.resize(v, (*v.shape[:axis], next(after), *v.shape[axis + 1 :])) if v.ndim > axis else v)


def fails_for_some_extents(type: str) -> bool:
    """Whether a call fails for some extents of an axis, though large ones that don't fit together are accepted, or need not be."""
    definition = REGISTRY[type]
    for (slots, attrs), axis in itertools.product(calls(type), range(3)):
        if not definition.extents.isdisjoint(slots) or sum(map(len, slots.values())) > len(SIZES) or not accepted(type, slots, attrs):
            continue
        types = {
            slot: [TensorType((*v.shape[:axis], n, *v.shape[axis + 1 :]) if v.ndim > axis else v.shape, v.dtype.name) for v, n in pairs]
            for slot, pairs in _with_sizes(slots)
        }
        if definition.speculatable == "types" and not _infers(type, types, attrs):
            continue
        for extents in ((0,), (1,), (3, 5, 2, 7), (4, 1, 3, 2), (1, 0, 1, 0)):
            small = resized(slots, itertools.cycle(extents), axis)
            with np.errstate(all="ignore"):
                if definition.speculatable == "always" and not accepted(type, small, attrs):
                    return True
                if accepted(type, small, attrs) and computed(definition, small, attrs) is None:
                    return True
                if definition.speculatable == "types" and not accepted(type, small, attrs):
                    return True
    return False


def _with_sizes(slots: Slots) -> list[tuple[str, list[tuple[Array, int]]]]:
    sizes = iter(SIZES)
    return [(slot, [(value, next(sizes)) for value in values]) for slot, values in slots.items()]


def _infers(type: str, types: dict[str, list[TensorType]], attrs: Attrs) -> bool:
    try:
        REGISTRY[type].infer_types(types, attrs)
    except GraphadError:
        return False
    return True


def test_what_is_speculatable_with_unknown_extents_takes_all_of_them() -> None:
    """``always`` fits all extents, ``types`` all for which inference accepts large numbers of which no two are the same."""
    promising = {type for type in plain() if REGISTRY[type].speculatable in ("always", "types")}
    assert {type for type in promising if fails_for_some_extents(type)} == set()


def divides_integers(type: str) -> bool:
    """Whether numpy says of some integers that they are divided by 0, whether or not the kernel listens."""
    definition = REGISTRY[type]
    for slots, attrs in calls(type, optional=True):
        if not definition.extents.isdisjoint(slots):
            continue
        main = {value.dtype for values in slots.values() for value in values if value.dtype.kind == "f"}
        for dtype, shift in itertools.product(("int64", "int8", "uint8", "bool"), range(5)):
            numbers = each(slots, lambda v: extremes(v, dtype if v.dtype in main or not main else v.dtype.name, shift))  # noqa: B023
            if not accepted(type, numbers, attrs):
                continue
            # A kernel that silences numpy is heard all the same.
            with np.errstate(divide="raise", over="ignore", invalid="ignore"), pytest.MonkeyPatch.context() as patch:
                patch.setattr(np, "errstate", lambda **_: contextlib.nullcontext())
                try:
                    definition.run(numbers, attrs, [*definition.outputs])
                except FloatingPointError:
                    return True
    return False


def test_safe_dtypes() -> None:
    """Of those that are speculatable, those that divide integers by 0, or take powers below 0 of it, are safe for floats only."""
    speculatable = {type for type in having("speculatable") if not isinstance(REGISTRY[type], GradOpDef)}
    assert {type for type in speculatable if divides_integers(type)} == {t for t in speculatable if REGISTRY[t].safe_dtypes == "floats"}


FINITE = (0.0, -0.0, -1.0, 1.0, 2.5, 1e100, -1e-320, 710.0, -1e5, 0.5)


def has_infinite_slope(type: str) -> bool:
    """Whether cotangents of 0 come back as something else where the inputs are finite."""
    definition = REGISTRY[type]
    if definition.grad is None or isinstance(definition, ControlDef):
        return False
    for (slots, attrs), shift in itertools.product(calls(type, optional=True), range(len(FINITE))):
        numbers = np.roll(np.array(FINITE), shift)
        given = each(slots, lambda v: np.resize(numbers, v.shape) if v.dtype.kind == "f" else v)  # noqa: B023
        with np.errstate(all="ignore"):
            outputs = definition.run(given, attrs, [*definition.outputs])
            if not all(outputs.values()):
                continue
            known = {**given, **outputs, **{f"{slot}{GRAD}": [np.zeros_like(v) for v in values] for slot, values in outputs.items()}}
            cotangents = definition.grad.run(
                {slot: known[slot] for slot in definition.grad.inputs if known.get(slot)},
                attrs,
                [f"{slot}{GRAD}" for slot in given if f"{slot}{GRAD}" in definition.grad.outputs],
            )
        if not all(np.isfinite(v).all() for values in cotangents.values() for v in values if v is not None):
            return True
    return False


def test_steep() -> None:
    """Of those that are speculatable, those whose slope is infinite somewhere say so."""
    assert {type for type in having("speculatable") if has_infinite_slope(type)} == having("steep")


def test_whole_ties() -> None:
    """Of the reductions to an extremum, which alone have it, the gradients where all elements are equal add up to their number, or to 1."""
    equal = np.full(4, 3.0)
    for type in sorted(type for type in plain() if REGISTRY[type].reduction == "extremum"):
        definition = REGISTRY[f"{type}_grad"]
        slots = {"X": [equal], "Out": [equal[0]], "Out@GRAD": [np.ones(())]}
        gradient = definition.run(slots, {"reduce_all": True, "dim": [0], "keep_dim": False}, ["X@GRAD"])["X@GRAD"][0]
        assert gradient.sum() == (4.0 if REGISTRY[type].whole_ties else 1.0), type
    assert {type for type in having("whole_ties") if REGISTRY[type].reduction != "extremum"} == {"p_norm"}
    assert [REGISTRY["p_norm"].has_whole_ties({"porder": order}) for order in (2.0, math.inf, -math.inf)] == [False, True, True]


# -- linear --------------------------------------------------------------------------------------


def differentiable(type: str, slots: Slots, attrs: Attrs) -> list[Array] | None:
    """The outputs that have cotangents, without those that are not there."""
    definition = REGISTRY[type]
    outputs = computed(definition, slots, attrs)
    if definition.grad is None or outputs is None:
        return None
    found = [value for _, slot in definition.grad.cotangents for value in outputs[slot] if value is not None]
    return found if all(isinstance(value, np.ndarray) and value.dtype.kind == "f" for value in found) else None


def is_linear_in(type: str, slots: Slots, attrs: Attrs, chosen: Iterable[str]) -> bool | None:
    """Whether ``f(2 x - 3 y) = 2 f(x) - 3 f(y)``, where only some slots change."""
    definition, numbers = REGISTRY[type], np.random.default_rng(0)
    chosen = [slot for slot in chosen if slot in slots and all(value.dtype.kind == "f" for value in slots[slot])]
    attrs = {**attrs, definition.offset: 0.0} if definition.offset else attrs
    other = {**slots, **{slot: [numbers.normal(size=x.shape).astype(x.dtype) for x in slots[slot]] for slot in chosen}}
    both = {**slots, **{slot: [2 * x - 3 * y for x, y in zip(slots[slot], other[slot], strict=True)] for slot in chosen}}
    found = [differentiable(type, each, attrs) for each in (slots, other, both)]
    if not chosen or None in found:
        return None
    with np.errstate(invalid="ignore"):  # what is infinite, as the maximum of nothing, is not linear
        return all(np.allclose(2 * x - 3 * y, z, rtol=1e-8, atol=1e-9) for x, y, z in zip(*found, strict=True))


def is_linear(type: str, slots: Slots, attrs: Attrs) -> bool | None:
    return is_linear_in(type, slots, attrs, REGISTRY[type].grads or ())


def is_bilinear(type: str, slots: Slots, attrs: Attrs) -> bool | None:
    found = [is_linear_in(type, slots, attrs, [slot]) for slot in REGISTRY[type].grads or ()]
    return None if None in found or not found else all(found)


def passed_on(type: str, slots: Slots, attrs: Attrs) -> set[str] | None:
    """The slots that can be moved, the output moving alike."""
    before, found = result(type, slots, attrs), set()
    for slot in REGISTRY[type].grads or ():
        moved = slots.get(slot, [np.zeros(0, int)])[0]
        if before is None or moved.shape != before.shape or moved.dtype.kind != "f" or before.dtype != moved.dtype:
            return None
        by = np.random.default_rng(0).normal(size=moved.shape)
        after = result(type, {**slots, slot: [moved + by, *slots[slot][1:]]}, attrs)
        if alike(after, before + by):
            found.add(slot)
    return found


OF_AGGREGATES = {  # of which the samples are no arrays, or the outputs are none
    *("clear_in_array", "erase_in_array", "insert_in_array", "pop_tape", "push_tape"),
    *("read_from_array", "tensor_array_like", "tensor_to_tensor_array", "write_to_array"),
}
ON_ZEROS = {"cholesky"}  # the others are not positive


def test_linear() -> None:
    """Those that say so are, in all that have gradients; and those that are say so."""
    found = {type for type in plain() if verdict(type, is_linear, optional=True)}
    assert found - ON_ZEROS == having("linear") - OF_AGGREGATES - having("ordered")
    assert all(verdict(type, is_linear) for type in having("linear") & having("ordered"))  # of a process that is alone
    assert [type for type in having("linear") if {*REGISTRY[type].linear} != {*(REGISTRY[type].grads or ())}] == []


def is_partly_linear(type: str, slot: str) -> bool | None:
    return verdict(type, lambda of, slots, attrs: is_linear_in(of, slots, attrs, [slot]), optional=True)


def test_partly_linear() -> None:
    """Slots that are linear alone, of operators that are neither linear nor bilinear: those that say so, and no others."""
    types = {type for type in plain() if not (REGISTRY[type].linear or REGISTRY[type].bilinear)}
    found = {(type, slot) for type in types for slot in REGISTRY[type].grads or () if is_partly_linear(type, slot)}
    found = {(type, slot) for type, slot in found if type not in ON_ZEROS}
    assert found == {(type, slot) for type in having("partly_linear") for slot in REGISTRY[type].partly_linear}


def test_bilinear() -> None:
    found = {type for type in plain() if verdict(type, is_bilinear, optional=True) and not REGISTRY[type].linear}
    assert found - ON_ZEROS == having("bilinear")
    assert [type for type in having("bilinear") if {*REGISTRY[type].bilinear} != {*(REGISTRY[type].grads or ())}] == []


def test_passed_on() -> None:
    for type in having("passed_on"):
        found = [each for slots, attrs in calls(type) if (each := passed_on(type, slots, attrs)) is not None]
        assert REGISTRY[type].passed_on <= REGISTRY[type].linear
        assert found
        assert all(REGISTRY[type].passed_on <= slots for slots in found)


def is_symmetric(type: str, slots: Slots, attrs: Attrs) -> bool | None:
    """Whether a step in one direction, seen from another one, is what it is the other way round."""
    grad, numbers = REGISTRY[type].grad, np.random.default_rng(0)
    x, out = slots[next(iter(slots))][0], result(type, slots, attrs)
    if grad is None or out is None or x.dtype.kind != "f" or x.size < 2:
        return None
    (cotangent, of), (gradient, _) = grad.cotangents[0], grad.written[0]
    known = {**slots, of: [out]}

    def seen(direction: Array, other: Array) -> float:
        given = {slot: known[slot] for slot in grad.inputs if slot in known}
        return float((grad.run({**given, cotangent: [direction]}, attrs, [gradient])[gradient][0] * other).sum())

    a, b = (numbers.normal(size=x.shape) for _ in range(2))
    return out.shape == x.shape and bool(np.isclose(seen(a, b), seen(b, a)))


def test_symmetric() -> None:
    assert all(verdict(type, is_symmetric) for type in having("symmetric"))
    assert not verdict("log_softmax", is_symmetric)


# -- rows ----------------------------------------------------------------------------------------


def has_rows(type: str, slots: Slots, attrs: Attrs) -> bool | None:
    """Whether each row alone, and all of them twice, give the rows of the whole."""
    definition = REGISTRY[type]
    values = [value for slot in definition.rows for value in slots.get(slot, ())]
    if not definition.has_rows(attrs):
        return None
    return are_rows(type, slots, attrs, values)


def are_rows(type: str, slots: Slots, attrs: Attrs, values: Sequence[Array]) -> bool | None:
    """The same of a call of which the operator need not say so; ``values`` are those in the slots of rows."""
    definition = REGISTRY[type]
    if any(value.ndim < 2 for value in values) or len({*map(len, values)}) != 1 or not len(values[0]):
        return None

    def of(places: Sequence[int]) -> list[Array] | None:
        chosen = {slot: [value[list(places)] for value in given] for slot, given in slots.items() if slot in definition.rows}
        outputs = computed(definition, {**slots, **chosen}, attrs)
        found = (
            None
            if outputs is None
            else [value for slot, values in outputs.items() if slot not in definition.statistics for value in values]
        )
        return None if found is None else [value for value in found if len(value)]  # an XShape has nothing but a shape

    count = len(values[0])
    whole, twice, alone = of(range(count)), of([*range(count), *range(count)]), [of([i]) for i in range(count)]
    if whole is None or (definition.along and not _spares_rows(definition.attr(definition.along, attrs), (values[0].ndim, whole[0].ndim))):
        return None
    return twice is not None and None not in alone and all(map(alike, twice, [np.concatenate([*e, *e]) for e in zip(*alone, strict=True)]))


def _spares_rows(axes: Any, ranks: Sequence[int]) -> bool:
    """Whether axis 0 is not among some axes, of the input as of the output."""
    return np.size(axes) > 0 and all(axis % rank != 0 for axis in np.atleast_1d(axes) for rank in ranks)


def test_rows() -> None:
    """Those that say so are row by row, whatever the axis along which they work otherwise."""
    assert [type for type in sorted(having("rows")) if not verdict(type, has_rows, optional=True)] == []
    # An attribute that can name axis 0 is the one that ``along`` says, else rows would be mixed.
    for type in sorted(having("rows") & set(plain())):
        for name in REGISTRY[type].attrs.keys() & {"axis", "axes", "dim"} - {REGISTRY[type].along}:
            first: Any = [0] if REGISTRY[type].attrs[name].kind == "list[int]" else 0
            assert verdict(type, lambda t, slots, attrs: has_rows(t, slots, {**attrs, name: first})) is not False, (type, name)  # noqa: B023
    assert [type for type in having("rows") if REGISTRY[type].elementwise or not REGISTRY[type].rows <= REGISTRY[type].inputs.keys()] == []


def test_apart() -> None:
    """Where it is not said that rows are apart they are not, in some sample; where it is said, statistics do not depend on them."""
    for type in sorted(having("apart")):
        definition, outcomes = REGISTRY[type], set()
        for slots, attrs in calls(type, optional=True):
            if not definition.has_rows(attrs):
                outcomes.add(are_rows(type, slots, attrs, [value for slot in definition.rows for value in slots.get(slot, ())]))
                continue
            moved = {**slots, **{slot: [value[::-1] + 1 for value in slots[slot]] for slot in definition.rows}}
            before, after = (computed(definition, given, attrs) for given in (slots, moved))
            assert before, type
            assert after, type
            assert all(np.array_equal(before[slot], after[slot]) for slot in definition.statistics), type
        assert False in outcomes, f"{type} has independent rows in all samples"
    # Otherwise the statistics of a call are those of its rows.
    assert {type for type in REGISTRY if REGISTRY[type].statistics} <= having("apart")


# -- memory, bits and rounding -------------------------------------------------------------------


def shared(type: str) -> set[str]:
    """The slots with memory of which an output of a sample lies, where what is given lies in a row and where it does not."""
    found = set()
    for slots, attrs in calls(type, optional=True):
        for given in (slots, each(slots, np.asfortranarray)):
            outputs = computed(REGISTRY[type], given, attrs) or {}
            arrays = [value for values in outputs.values() for value in values if isinstance(value, np.ndarray)]
            found |= {slot for slot, values in given.items() for value in values if any(np.shares_memory(value, array) for array in arrays)}
    return found


SOMETIMES = {  # where there is nothing to do, or for running averages that stay: no pass may count on either
    *("adam", "batch_norm", "clip_by_norm", "pad", "pixel_shuffle", "select_input", "softmax_with_cross_entropy", "sum", "sum_like"),
}


def test_views_and_memory_of_its_own() -> None:
    """Those that write into the memory of an input say so, and none of them says that the memory is its own."""
    found = {type: slots for type in plain() if (slots := shared(type)) and type not in SOMETIMES}
    assert found == {type: {REGISTRY[type].view} for type in having("view") if not REGISTRY[type].side_effect}
    assert [type for type in having("own") if type in SOMETIMES or shared(type)] == []


def is_uniform(type: str, slots: Slots, attrs: Attrs) -> bool | None:
    """Whether one element has the same bits wherever it stands, in arrays of some lengths."""
    attrs = {name: value for name, value in attrs.items() if name != "axis"}
    for shift, count in itertools.product(range(3), (3, 16, 33)):
        one = each(slots, lambda value: np.resize(np.roll(value.reshape(-1), shift), 1))  # noqa: B023
        alone = result(type, one, attrs)
        many = result(type, each(one, lambda value: np.resize(value, count)), attrs)  # noqa: B023
        if alone is None or many is None or many.tobytes() != np.resize(alone, count).tobytes():
            return False
    return True


def test_uniform() -> None:
    assert having("uniform") <= having("elementwise")
    assert [type for type in having("uniform") if not verdict(type, is_uniform)] == []


HALF = np.dtype("float16")
ROUNDING = 2.0**-11  # of float16: what one number loses when it is stored


def narrow_trials(slots: Slots, elementwise: bool) -> Iterator[Slots]:
    """The inputs with floats that are hard for float16: tiny, large, near one another, and so many that their sum is too large."""
    numbers = np.random.default_rng(0)
    for size, center in ((1e-9, 0.0), (1.0, 0.0), (30.0, 0.0), (1.0, 30.0)):
        yield each(slots, lambda v: numbers.normal(center, size, v.shape) if v.dtype.kind == "f" else v)  # noqa: B023
    if elementwise or sum(value.size for values in slots.values() for value in values) > 30:
        return
    for axis in range(2):
        many = each(slots, lambda v: np.concatenate([v] * 1500, axis) if v.ndim > axis and v.dtype.kind == "f" else v)  # noqa: B023
        yield each(many, lambda v: numbers.uniform(0, 100, v.shape) if v.dtype.kind == "f" else v)


def follows(type: str, slots: Slots, attrs: Attrs) -> bool | None:
    """Whether with inputs and arithmetic of float16 it is hardly further from what it is of exact ones than its inputs are."""
    answers = []
    for exact in narrow_trials(slots, REGISTRY[type].elementwise):
        wides = results(type, exact, attrs)
        narrows = results(type, each(exact, lambda v: v.astype(HALF) if v.dtype.kind == "f" else v), attrs)
        if wides is None or narrows is None:
            continue
        largest = max([np.abs(v).max(initial=0.0) for values in exact.values() for v in values if v.dtype.kind == "f"], default=0.0)
        for wide, narrow in zip(wides, narrows, strict=True):
            # A sum that cancels loses what its operands lose.
            scale = max(1.0, np.abs(wide).max(initial=0.0), largest if REGISTRY[type].linear else 0.0) if wide.dtype.kind == "f" else 0.0
            answers.append(bool(np.allclose(narrow, wide, rtol=0.0, atol=2.5 * ROUNDING * scale)))
    return all(answers) if answers else None


WITH_MATRICES_OF_VECTORS = {"dot", "kron", "mv"}  # they use each number of one operand once, so that memory decides


def test_narrow() -> None:
    """Operators that may be narrow where their inputs are lose nothing there, as exponentials, quotients and sums of many would; products
    gain."""
    said = {type for type in having("narrow") if REGISTRY[type].narrow == "follows"}
    assert [type for type in sorted(said) if not verdict(type, follows, optional=True)] == []
    lost = ("exp", "log", "softmax", "elementwise_div", "reduce_sum", "cumsum", "mean", "layer_norm", "tan", "squared_l2_norm")
    assert [type for type in lost if verdict(type, follows, optional=True)] == []
    products = {type for type in having("bilinear") | having("weights") if not REGISTRY[type].elementwise}
    assert products & set(plain()) - WITH_MATRICES_OF_VECTORS - BY_PLACES | {"addmm"} == {
        type for type in having("narrow") if REGISTRY[type].narrow == "gains"
    }


# -- operations ----------------------------------------------------------------------------------

BY_PLACES = {"deformable_conv", "deformable_conv_v1"}  # products of what is sampled at places that are operands themselves
NEUTRAL = {"alpha": 1.0, "Alpha": 1.0, "Beta": 0.0}


def test_flops_of_products() -> None:
    """Of ones a product is the number of products that it adds up: two operations each, and some for the padding that it multiplies."""
    for type in sorted(having("weights") | {"addmm", "conv2d_backprop_filter", "conv2d_backprop_input", "conv3d_backprop_filter"}):
        definition, shares = REGISTRY[type], list[float]()
        for slots, said in calls(type):
            attrs = {**said, **{name: value for name, value in NEUTRAL.items() if name in definition.attrs}}
            ones = each(slots, np.ones_like)
            outputs = computed(definition, ones, attrs)
            if outputs is None:
                continue
            shapes = {slot: [np.shape(value) for value in values] for slot, values in (*ones.items(), *outputs.items())}
            assert callable(definition.flops), type
            counted = definition.flops(shapes, {name: definition.attr(name, attrs) for name in definition.attrs})
            multiplied = 2 * sum(float(np.sum(value)) for values in outputs.values() for value in values)
            assert multiplied <= counted, type
            shares += [multiplied / counted] if counted else []
        # addmm adds its first operand too; samples at places use several elements for one.
        assert max(shares) == 1.0 if type in having("weights") - BY_PLACES else max(shares) > 0.5, type


class Counted(np.ndarray[Any, Any]):
    """An array that counts for how many elements numpy computes something."""

    elements = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: Any, *inputs: Any, out: Any = (), **options: Any) -> Any:
        plain_inputs = [np.asarray(item) if isinstance(item, Counted) else item for item in inputs]
        if out:
            options["out"] = tuple(np.asarray(item) if isinstance(item, Counted) else item for item in out)
        result = getattr(ufunc, method)(*plain_inputs, **options)
        Counted.elements += max(np.size(plain_inputs[0]), np.size(result[0] if isinstance(result, tuple) else result))
        return result.view(Counted) if isinstance(result, np.ndarray) else result


def operations(type: str) -> list[float]:
    """How much numpy computes for an element of the first input, in the samples of floats."""
    found = []
    for slots, attrs in calls(type, optional=True):
        first = next(iter(slots.values()))[0]
        if first.size and (first.dtype.kind == "f" or not REGISTRY[type].grads):
            Counted.elements = 0
            with np.errstate(all="ignore"):
                REGISTRY[type].run(each(slots, lambda value: value.view(Counted)), attrs, [*REGISTRY[type].outputs])
            found.append(Counted.elements / first.size)
    return found


UNCOUNTED = {"arg_max", "arg_min", "dot", "mv"}  # numpy has a function of its own for them, which says nothing
OTHERWISE = {"gelu", "cummax", "cummin"}  # numpy has no such function: a series, and places that are found besides maxima


def test_flops() -> None:
    """An operator computes for each element about as much as it says: numpy's calls are counted, by the elements that they compute."""
    said = {type: flops for type in plain() if isinstance(flops := REGISTRY[type].flops, int) and flops}
    wrong = {}
    for type in said.keys() - UNCOUNTED - OTHERWISE:
        counts = operations(type)
        if not 0.4 * max(counts) <= said[type] <= 2.5 * max(counts):
            wrong[type] = (said[type], counts)
    assert wrong == {}


def is_commutative(type: str, slots: Slots, attrs: Attrs) -> bool | None:
    """Whether two inputs that change places give the same bits."""
    if len(slots) != 2 or len(REGISTRY[type].inputs) != 2 or attrs or any(len(values) != 1 for values in slots.values()):
        return None
    (a, x), (b, y) = slots.items()
    found, other = result(type, slots, attrs), result(type, {a: y, b: x}, attrs)
    return None if found is None else other is not None and found.shape == other.shape and found.tobytes() == other.tobytes()


WITH_TIES = {"elementwise_max", "elementwise_min", "elementwise_fmax", "elementwise_fmin"}  # of which one has the gradient
WITH_A_SIGN = {"square_error_cost"}  # whose zeros would have the other one in gradients


def test_commutative() -> None:
    found = {type for type in plain() if verdict(type, is_commutative)}
    assert found - WITH_TIES - WITH_A_SIGN == having("commutative")


# -- declaring -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "words"), [({"narrow": "yes"}, "'gains' or 'follows'"), ({"safe_dtypes": "ints"}, "'all' or 'floats'")])
def test_a_trait_that_is_none_of_its_words_is_refused(said: Declared, words: str) -> None:
    with operators(), pytest.raises(InvalidValue, match=f"operator 'strange' says .*; it may be {words}"):
        operator("X -> Out", name="strange", infer=same_float, grad=None, **said)(lambda X: X)


@pytest.mark.parametrize(("said", "of"), [({"linear": "Y"}, "input slot"), ({"view": "Z"}, "input slot"), ({"along": "axis"}, "attribute")])
def test_a_trait_that_names_what_is_not_there_is_refused(said: Declared, of: str) -> None:
    with operators(), pytest.raises(ValueError, match=f"is no {of} of it"):
        operator("X -> Out", name="strange", infer=same_float, grad=None, **said)(lambda X: X)


def test_weights() -> None:
    """Channels of the output grow with the slices of the weights that they are made of."""

    def grows(type: str, slots: Slots, attrs: Attrs) -> bool | None:
        definition, before = REGISTRY[type], result(type, slots, attrs)
        assert definition.weights is not None
        slot, channels = definition.weights
        own = {name: definition.attr(name, attrs) for name in definition.attrs}
        axes = None if before is None else channels(own, slots[slot][0].ndim, before.ndim)
        if before is None or axes is None:
            return None
        factors = np.linspace(0.5, 2.0, before.shape[axes[1]])
        wide = [np.moveaxis(factors.reshape(-1, *[1] * (x.ndim - 1)), 0, at) for x, at in zip((slots[slot][0], before), axes, strict=True)]
        after = result(type, each(slots, lambda weights: weights * wide[0], slot), attrs)
        return after is not None and np.allclose(after, before * wide[1])

    verdicts = {type: verdict(type, grows) for type in plain() if REGISTRY[type].weights}
    assert verdicts.keys() == having("weights")
    assert False not in verdicts.values()
    undecided = {type for type, said in verdicts.items() if said is None}
    assert undecided == {"depthwise_conv2d_transpose"}, "all its samples have groups, where no slice is one channel"
    products = {type for type in plain() if REGISTRY[type].narrow == "gains" and REGISTRY[type].outputs.keys() & {"Output"}}
    assert products <= having("weights"), "a convolution has weights"


def test_in_order() -> None:
    """An operator declares that it gives the elements of its first input in their order exactly if it does in all samples."""
    kept = set()
    for type in plain():
        found = [(np.asarray(next(iter(slots.values()))[0]), computed(REGISTRY[type], slots, attrs)) for slots, attrs in calls(type)]
        pairs = [(x, np.asarray(next(iter(outputs.values()))[0])) for x, outputs in found if outputs]
        same = (x.dtype == y.dtype and np.array_equal(x.ravel(), y.ravel(), equal_nan=x.dtype.kind == "f") for x, y in pairs)
        if pairs and all(same):
            kept.add(type)
    assert having("in_order") == kept - ANNOTATIONS


def test_fills() -> None:
    """All elements are the number in the attribute; what fills at all is what depends on no element, and has one output of equal ones."""
    assert having("fills") == {"fill_constant", "fill_any_like", "fill_zeros_like"}
    for type in sorted(having("fills")):
        definition = REGISTRY[type]
        for sample in samples_of(type):
            slots = {slot: values for slot, values in sample.slots().items() if not definition.inputs[slot].optional}
            filled = result(type, slots, sample.attrs)
            if filled is not None:
                number = 0.0 if definition.fills == ZEROS else definition.attr(definition.fills, sample.attrs)
                assert np.array_equal(filled, np.full_like(filled, number), equal_nan=filled.dtype.kind == "f"), type


def test_reduction() -> None:
    """Over other axes rows stay rows; over the first one, sums of parts add up, and means of parts of one size have the whole's mean.

    Of one element all of them are that element, unless they say that they are others.
    """
    x = np.random.default_rng(0).normal(size=(4, 3, 2))
    for type in sorted(having("reduction")):
        definition = REGISTRY[type]
        value = x if accepted(type, {"X": [x]}, {}) and definition.grads else x > 0
        rows = result(type, {"X": [value]}, {"dim": [1]})
        assert rows is not None
        assert alike(rows[:1], result(type, {"X": [value[:1]]}, {"dim": [1]})), type
        if definition.reduction != "other":
            assert alike(result(type, {"X": [x[:1]]}, {"dim": [0], "keep_dim": True}), x[:1]), type
        if definition.reduction in ("sum", "mean"):
            whole, *halves = (result(type, {"X": [part]}, {"dim": [0]}) for part in (x, x[:2], x[2:]))
            together = np.asarray(halves).sum(axis=0)
            assert alike(whole, together if definition.reduction == "sum" else together / 2), type
    assert having("reduction") == {type for type in plain() if {"dim", "reduce_all"} <= REGISTRY[type].attrs.keys()}
    assert {type: REGISTRY[type].reduction for type in having("reduction") if REGISTRY[type].linear} == {
        "reduce_sum": "sum",
        "reduce_mean": "mean",
    }


def is_of_shape(type: str, slots: Slots, attrs: Attrs) -> bool | None:
    """Whether other elements in arrays of the same shapes and dtypes give the same."""
    others = [results(type, each(slots, change), attrs) for change in (np.copy, np.ones_like, np.zeros_like)]
    first = others[0]
    if first is None or any(found is None for found in others):
        return None
    return all(found is not None and all(map(alike, map(np.asarray, first), map(np.asarray, found))) for found in others)


DEGENERATE = {"cholesky", "inverse"}  # of matrices of ones or zeros there is only one answer: none
OF_COUNTS = {"box_images"}  # by how many boxes an image has, which no other numbers of the samples can be
ALIKE = {"allclose", "equal_all", "isclose"}  # arrays that are made equal are equal


def test_of_shape() -> None:
    found = {type for type in plain() if verdict(type, is_of_shape, optional=True)}
    assert found - DEGENERATE - ALIKE - OF_COUNTS == {type for type in plain() if REGISTRY[type].of_shape}


def is_placeholder(type: str, slots: Slots, attrs: Attrs) -> bool | None:
    """Whether the elements of an output are one in memory; None where there is only one."""
    found = result(type, slots, attrs)
    return None if found is None or found.size < 2 else not any(found.strides)


def test_placeholder() -> None:
    found = {type for type in plain() if verdict(type, is_placeholder, optional=True)}
    assert found == having("placeholder") <= having("of_shape")


def converted_by(type: str) -> set[str]:
    """The attributes with a dtype in which the output is the input."""
    definition = REGISTRY[type]
    if len(definition.inputs) != 1 or len(definition.outputs) != 1:
        return set()

    def converts(name: str) -> Callable[[str, Slots, Attrs], bool | None]:
        def answer(type: str, slots: Slots, attrs: Attrs) -> bool | None:
            ((value, *more),) = slots.values()
            dtype, found = definition.attr(name, attrs) or value.dtype.name, result(type, slots, attrs)
            return not more and found is not None and found.dtype == dtype and alike(found, value.astype(dtype))

        return answer

    return {name for name, attr in definition.attrs.items() if attr.kind == "DType" and verdict(type, converts(name))}


def test_converts() -> None:
    found = {type: names for type in plain() if (names := converted_by(type))}
    # The dtype of a cast's input is an attribute of it too, which says nothing.
    assert {type: names - {"in_dtype"} for type, names in found.items()} == {type: {REGISTRY[type].converts} for type in having("converts")}


def test_like() -> None:
    """Where there is nothing in the aggregate, there are zeros in its shape and dtype; where there is something it does not count."""
    # Of the operators that read an aggregate and write a tensor, those that may be told of one more.
    aggregates = {type for type in SAMPLES if any(isinstance(v, TensorArray) for s in samples_of(type) for v in s.slots().get("X", ()))}
    told = {type for type in aggregates if (slot := REGISTRY[type].inputs.get("Like")) is not None and slot.optional}
    assert having("like") == {type for type in told if not REGISTRY[type].kinds}
    for type in sorted(having("like")):
        definition, (first, *_) = REGISTRY[type], REGISTRY[type].inputs
        outcomes = set()
        for sample in samples_of(type):
            like = np.full((4, 1), 7.0, "float32")
            slots = {**sample.slots(), definition.like: [like]}
            (found,) = (value for values in definition.run(slots, sample.attrs, tuple(definition.outputs)).values() for value in values)
            empty = definition.run({**slots, first: [TensorArray()]}, sample.attrs, tuple(definition.outputs))
            ((zeros,),) = empty.values()
            assert alike(zeros, np.zeros((4, 1), "float32")), type
            outcomes.add(found.shape == like.shape)
        assert outcomes == {True, False}, type


def test_extends() -> None:
    """It keeps what the aggregate has elsewhere; without one it is as with an empty one."""
    assert having("extends") == {type for type in SAMPLES if "fresh" in REGISTRY[type].attrs}
    for type in sorted(having("extends")):
        definition = REGISTRY[type]
        for sample in samples_of(type):
            slots: dict[str, list[Any]] = dict(sample.slots())
            old = TensorArray().write(0, np.array(1.5)).write(9, np.array(2.5))
            arrays = []
            for extended in ([old], [TensorArray()], []):
                ((array,),) = definition.run({**slots, definition.extends: extended}, sample.attrs, tuple(definition.outputs)).values()
                arrays.append(array)
            kept, fresh, absent = arrays
            changed = [at for at in range(len(fresh)) if fresh.read(at) is not None]
            assert (len(changed), len(absent), len(kept)) == (1, len(fresh), max(10, len(fresh)))
            assert all(kept.read(at) is old.read(at) for at in {0, 9} - set(changed))
            assert all(array.read(changed[0]) is fresh.read(changed[0]) for array in arrays)


def test_lazy() -> None:
    """An operand that is not chosen may be without a value, and the result is the same; some are not chosen in some sample."""
    lazy = {type for type in having("lazy") if not isinstance(REGISTRY[type], GradOpDef)}
    assert {"select_input", "merge_lod_tensor"} <= lazy
    assert {type for type in having("lazy") if not REGISTRY[type].partial} == set()
    for type in sorted(lazy):
        definition, spared = REGISTRY[type], 0
        for sample in samples_of(type):
            slots: dict[str, list[Any]] = dict(sample.slots())
            before = computed(definition, slots, sample.attrs)
            for slot in definition.lazy & slots.keys():
                for chosen in range(len(slots[slot])):
                    without = [None if at == chosen else value for at, value in enumerate(slots[slot])]
                    after = computed(definition, {**slots, slot: without}, sample.attrs)
                    if before is not None and after is not None:
                        spared += 1
                        assert all(map(alike, before["Out"], after["Out"])), type
        assert spared, f"{type} needs all operands in all samples"


WITH_A_USER = {"print", "py_func"}  # who sees in which order they ran


def test_ordered() -> None:
    """Effects have an order if other ranks or the user wait for them: nothing that only computes has."""
    collective = {type for type in REGISTRY if communicates(type)}
    assert having("ordered") == collective | {type for type in REGISTRY if type.removesuffix("_grad") in WITH_A_USER}


SORTS = frozenset({"sort", "argsort", "partition", "argpartition", "lexsort"})


def work(type: str, slots: Slots, attrs: Attrs) -> tuple[int, bool]:
    """How many functions a kernel calls, and whether one of them sorts."""
    calls, sorts = 0, False

    def count(_: FrameType, event: str, function: object) -> None:
        nonlocal calls, sorts
        calls += event in ("call", "c_call")
        sorts |= event == "c_call" and getattr(function, "__name__", "") in SORTS

    before = sys.getprofile()
    with np.errstate(all="ignore"):
        computed(REGISTRY[type], slots, attrs)  # what is made once is made here
        sys.setprofile(count)
        try:
            computed(REGISTRY[type], slots, attrs)
        finally:
            sys.setprofile(before)
    return calls, sorts


def sorts_or_loops(type: str) -> bool:
    """Whether a kernel sorts, or calls many times as much where an axis has eight times as many elements."""
    for slots, attrs in [*calls(type, optional=True)][:4]:
        if sum(value.size for values in slots.values() for value in values) > 200:
            continue
        number, sorts = work(type, slots, attrs)
        for axis in range(2):
            long = each(slots, lambda value: np.concatenate([value] * 8, axis) if value.ndim > axis else value)  # noqa: B023
            sorts |= (
                accepted(type, long, attrs)
                and computed(REGISTRY[type], long, attrs) is not None
                and work(type, long, attrs)[0] > 4 * number
            )
        if sorts:
            return True
    return False


OF_INDICES = {"embedding_scatter", "index_add", "last_of_each", "scatter", "ungather"}  # which are few beside the rows that they move
LOOPS_OF_NUMPY = {  # one call goes over an axis, or the samples are too small or too particular to be made longer
    *("bincount", "crf_decoding", "crf_lattice", "ctc_lattice", "cumprod", "histogram", "linear_chain_crf", "linear_recurrence"),
    *("eigh", "logcumsumexp", "qr", "roi_align", "roi_align_spread", "rpn_target_assign", "svd"),
    *("generate_proposal_labels", "generate_proposals", "generate_proposals_v2", "psroi_pool", "retinanet_detection_output"),
}


def test_costly() -> None:
    """Operators that sort, or loop over an axis, declare it, and no others do."""
    found = {type for type in plain() if sorts_or_loops(type)}
    assert found - OF_INDICES == having("costly") - LOOPS_OF_NUMPY
    assert LOOPS_OF_NUMPY <= having("costly")
    assert not having("costly") & (having("elementwise") | having("cheap") | having("view") | having("reduction") | having("in_order"))


def only_moves(type: str, slots: Slots, attrs: Attrs) -> bool | None:
    """Whether all numbers that it writes are numbers that it reads, or attributes, or 0 or 1; None where there are none to tell by."""
    outputs = computed(REGISTRY[type], slots, attrs) or {}
    written = [value for values in outputs.values() for value in values if isinstance(value, np.ndarray) and value.dtype.kind == "f"]
    numbers = {number for values in slots.values() for value in values if value.dtype.kind == "f" for number in value.ravel().tolist()}
    if not any(value.size for value in written) or not numbers - {0.0, 1.0}:
        return None
    said = {float(value) for value in attrs.values() if isinstance(value, int | float)}
    return numbers | said | {0.0, 1.0} >= {number for value in written for number in value.ravel().tolist()}


COMPARING = {  # they choose among what they read, by comparing
    *(
        "argsort",
        "brelu",
        "clip",
        "elementwise_fmax",
        "elementwise_fmin",
        "elementwise_heaviside",
        "elementwise_max",
        "elementwise_min",
        "hard_shrink",
    ),
    *("max_pool2d_with_index", "max_pool3d_with_index", "maxout", "pool2d_gather_max", "pool3d_gather_max", "reduce_amax", "reduce_amin"),
    *("bipartite_match", "collect_fpn_proposals", "distribute_fpn_proposals", "generate_mask_labels", "similarity_focus"),
    *("cummax", "cummin", "reduce_max", "reduce_min", "relu", "relu6", "roi_pool", "thresholded_relu", "top_k", "top_k_v2", "unique"),
}
BY_PRODUCTS = {"nearest_interp", "nearest_interp_v2"}  # with a matrix of zeros and ones
COUNTING = {"element_places", "range", "window_places"}  # they make numbers of extents


def test_no_operations() -> None:
    """Operators that only move elements count no operations, and all others do."""
    verdicts = {type: verdict(type, only_moves, optional=True) for type in plain()}
    free = {type for type in verdicts if REGISTRY[type].flops == 0}
    assert {type for type in free if verdicts[type] is False} == COUNTING
    assert {type for type, moves in verdicts.items() if moves} - free == COMPARING | BY_PRODUCTS


def test_cheap() -> None:
    """Operators that may be computed again at each use count no operations for the elements that they write."""
    assert {"cast", "fill_any_like", "shape"} <= having("cheap")
    assert [type for type in having("cheap") if REGISTRY[type].flops != 0] == []
    assert [type for type in having("cheap") if not (REGISTRY[type].of_shape or REGISTRY[type].elementwise)] == []


def test_what_updates_keep_is_read_and_written_in_its_type() -> None:
    kept = having("state")
    assert {"momentum", "adam", "ftrl"} <= kept
    updates = {type for type, definition in REGISTRY.items() if "ParamOut" in definition.outputs}
    assert updates == {type for type, definition in REGISTRY.items() if definition.state is not None}
    for type in sorted(updates):
        definition = REGISTRY[type]
        assert definition.state is not None
        written = {each.output for each in definition.state if each.output}
        assert {"ParamOut", *written} == set(definition.outputs)
        assert {each.factor for each in definition.state if each.factor} <= definition.attrs.keys()
        for slots, attrs in calls(type, optional=True):
            outputs = computed(definition, slots, attrs)
            assert outputs is not None
            for each in definition.state:
                if each.output in outputs and each.slot in slots:
                    assert type_of(outputs[each.output][0]) == type_of(slots[each.slot][0])


def test_a_slot_that_is_kept_is_a_slot() -> None:
    with operators(), pytest.raises(InvalidValue, match="keeps 'Moment', which is no input slot of it; it has Param, Grad"):
        operator("Param Grad -> ParamOut", infer=lambda Param, Grad: Param, grad=None, state="Moment:moment")(lambda Param, Grad: Param)
