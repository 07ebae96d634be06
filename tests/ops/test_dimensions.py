"""Which dimensions may be cut, held against the kernels: parts of the inputs give the parts, or the parts of the sums, of the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pytest

from graphad.ops import REGISTRY, ControlDef, GradOpDef, OpDef
from graphad.ops.dimensions import dimensions
from graphad.ops.traits import Dimensions, Label, Labels
from graphad.testing.samples import SAMPLES, samples_of
from graphad.testing.samples.valid import computed
from graphad.types import Array

Slots = dict[str, list[Array]]
Shapes = dict[str, list[tuple[int, ...]]]
PARTS = 2
JOIN: Mapping[str, Callable[[Sequence[Array]], Array]] = {
    "sum": lambda parts: np.asarray(sum(parts)),
    "mean": lambda parts: np.asarray(sum(parts) / len(parts)),
    "max": lambda parts: np.max(parts, axis=0),
    "min": lambda parts: np.min(parts, axis=0),
}


def shapes(slots: Slots) -> Shapes:
    return {slot: [np.shape(value) for value in values] for slot, values in slots.items()}


def calls() -> Iterator[tuple[OpDef, Slots, dict[str, object], tuple[Shapes, Shapes]]]:
    """The samples of all operators, and calls of their gradients on them."""
    for type in sorted(SAMPLES):
        definition = REGISTRY[type]
        if definition.random or definition.ordered or isinstance(definition, GradOpDef | ControlDef):
            continue
        for sample in samples_of(type):
            slots = sample.slots()
            if not all(isinstance(value, np.ndarray) for values in slots.values() for value in values):
                continue
            yield definition, slots, sample.attrs, ({}, {})
            gradient = REGISTRY.get(f"{type}_grad")
            outs = computed(definition, slots, sample.attrs)
            floats = all(value.dtype.kind == "f" for slot in definition.grads or () for value in slots.get(slot, ()))
            if isinstance(gradient, GradOpDef) and outs is not None and floats:
                yield gradient, _gradient_slots(gradient, slots, outs), sample.attrs, (shapes(slots), shapes(outs))


def _gradient_slots(gradient: GradOpDef, slots: Slots, outs: Slots) -> Slots:
    rng = np.random.default_rng(0)
    everything = {**slots, **outs}
    found = {slot: everything[slot] for slot, _ in gradient.given if slot in everything}
    for slot, of in gradient.cotangents:
        if of in outs and all(np.asarray(value).dtype.kind == "f" for value in outs[of]):
            found[slot] = [np.asarray(rng.normal(size=np.shape(value))).astype(np.asarray(value).dtype) for value in outs[of]]
    return found


def results(definition: OpDef, slots: Slots, attrs: Mapping[str, object], given: Shapes) -> Slots | None:
    """The results of an operator; None if it does not take the call."""
    wanted = list(definition.outputs)
    if isinstance(definition, GradOpDef):
        wanted = [slot for slot, of in definition.written if of in given]
    try:
        with np.errstate(all="ignore"):
            made = definition.run(slots, attrs, wanted)
    except Exception:
        return None
    found = {slot: list(made[slot]) for slot in wanted if made.get(slot)}
    if any(not isinstance(value, np.ndarray | np.generic) for values in found.values() for value in values):
        return None
    return {slot: [np.asarray(v) for v in values] for slot, values in found.items()}


def cut(array: Array, labels: Labels, index: Label, part: int) -> Array:
    for axis, label in enumerate(labels):
        if label == index:
            return np.split(array, PARTS, axis)[part]
    return array


def extents(found: Dimensions, given: Slots, made: Slots, index: Label) -> set[int]:
    """How many places an index has, wherever it is."""
    pairs = [(value.shape, labels) for slot, values in given.items() for value, labels in zip(values, found.inputs[slot], strict=True)]
    pairs += [(value.shape, labels) for slot, values in made.items() for value, labels in zip(values, found.outputs[slot], strict=True)]
    return {extent for shape, labels in pairs for extent, label in zip(shape, labels, strict=True) if label == index}


def local_attrs(found: Dimensions, attrs: Mapping[str, object], index: Label) -> dict[str, object]:
    """The attributes that say extents, for a part."""
    new = dict(attrs)
    for name, labels in found.shapes.items():
        given = attrs.get(name)
        if isinstance(given, list) and len(given) == len(labels):
            new[name] = [e // PARTS if e > 0 and label == index else e for e, label in zip(given, labels, strict=True)]
    return new


def check(definition: OpDef, given: Slots, attrs: Mapping[str, object], forward: tuple[Shapes, Shapes], cuts: list[str]) -> bool:
    """Cut the call along each index; False if it has none, or the operator does not take the call."""
    made = results(definition, given, attrs, forward[0])
    if made is None:
        return False
    found = dimensions(definition, shapes(given), shapes(made), attrs, forward)
    if found is None:
        return False
    assert {slot: len(values) for slot, values in given.items()} == {slot: len(found.inputs[slot]) for slot in given}, definition
    labels = dict.fromkeys(label for side in (found.inputs, found.outputs) for each in side.values() for dims in each for label in dims)
    for index in (label for label in labels if label is not None):
        if any(extent % PARTS for extent in extents(found, given, made, index)):
            continue
        parts = []
        for part in range(PARTS):
            own = {s: [cut(v, d, index, part) for v, d in zip(values, found.inputs[s], strict=True)] for s, values in given.items()}
            parts.append(results(definition, own, local_attrs(found, attrs, index), forward[0]))
        cuts.append(f"{definition.type}:{index}")
        compare(definition, found, made, index, parts)
    return True


def compare(definition: OpDef, found: Dimensions, made: Slots, index: Label, parts: Sequence[Slots | None]) -> None:
    ours = [part for part in parts if part is not None]
    assert len(ours) == PARTS, f"{definition.type}: a part along {index!r} is not computed"
    for slot, values in made.items():
        for i, value in enumerate(values):
            labels, each = found.outputs[slot][i], [part[slot][i] for part in ours]
            kind = found.reduced.get(index)
            what = f"{definition.type}, {slot} cut along {index!r}"
            if index in labels:
                scale = 1 / PARTS if kind == "mean" else 1.0  # the gradient of a mean is that of the part's mean
                joined = np.concatenate(each, labels.index(index)) * np.asarray(scale, value.dtype if scale != 1.0 else int)
            else:
                joined = JOIN[kind](each) if kind is not None else each[0]
            np.testing.assert_allclose(np.asarray(joined, float), np.asarray(value, float), rtol=1e-6, atol=1e-9, err_msg=what)


def test_parts_of_the_inputs_give_parts_of_the_outputs() -> None:
    cuts: list[str] = []
    known = {definition.type for definition, given, attrs, forward in calls() if check(definition, given, attrs, forward, cuts)}
    types = {cut.partition(":")[0] for cut in cuts}
    assert len(known) > 350  # docs/distribution.md says so of operators and gradients
    assert len(types) > 320  # and that so many of them were cut along some index
    assert {"mul", "matmul_v2_grad", "conv2d", "conv2d_grad", "softmax_with_cross_entropy_grad", "reshape", "layer_norm_grad"} <= types


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((8, 784), (8, 28, 28), [(0,), (1,)]),
        ((-1, 784), (-1, 1, 28, 28), [(0,), (1,)]),
        ((4, 6, 8), (24, 8), [(0,), (1,)]),
        ((2, 3), (3, 2), [(0,)]),
    ],
)
def test_a_reshape_keeps_what_begins_alike(old: tuple[int, ...], new: tuple[int, ...], expected: list[tuple[int, ...]]) -> None:
    """784 and 28 begin with the same elements if both are cut evenly."""
    found = dimensions(REGISTRY["reshape"], {"X": [old]}, {"Out": [new]}, {"shape": list(new)})
    assert found is not None
    (labels,), (made,) = found.inputs["X"], found.outputs["Out"]
    shared = {label for label in labels if label is not None}
    assert shared == {label for label in made if label is not None}
    assert len(shared) == len(expected)


@pytest.mark.parametrize(("axes", "expected"), [([], None), ([1], ("rows", None, "rows")), ([0, 1], (None, None, "rows"))])
def test_what_might_be_squeezed_is_not_cut(axes: list[int], expected: tuple[str | None, ...] | None) -> None:
    """A part of one place would be left out."""
    found = dimensions(REGISTRY["squeeze2"], {"X": [(2, 1, 3)]}, {"Out": [(2, 3)]}, {"axes": axes})
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert tuple(None if label is None else "rows" for label in found.inputs["X"][0]) == expected


def test_an_extent_that_is_known_on_one_side_only_may_be_broadcast() -> None:
    """-1 may be 1, of which every part needs the whole, or the other's extent."""
    known, unknown = {"Out": [(2, 3)]}, {"Out": [(-1, 3)]}
    assert dimensions(REGISTRY["expand_like"], {"X": [(-1, 3)], "Like": [(2, 3)]}, known, {"axis": -1}) is None
    assert dimensions(REGISTRY["sum_like"], {"X": [(2, 3)], "Like": [(-1, 3)]}, unknown, {"axis": -1}) is None
    assert dimensions(REGISTRY["bmm"], {"X": [(-1, 1, 1)], "Y": [(2, 1, 1)]}, {"Out": [(2, 1, 1)]}, {}) is None


def test_slopes_of_each_element_are_not_read_beside_some_of_the_rows() -> None:
    assert dimensions(REGISTRY["prelu"], {"X": [(3, 2)], "Alpha": [(1, 2)]}, {"Out": [(3, 2)]}, {}) is not None
    assert dimensions(REGISTRY["prelu"], {"X": [(3, 2)], "Alpha": [(3, 2)]}, {"Out": [(3, 2)]}, {}) is None
