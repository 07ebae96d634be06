"""Programs that go through all operators in turn, so that none of their attributes and inputs is left to chance.

Random programs meet every attribute of every operator only after thousands. A sweep goes through them in order: an operator twice
with one attribute or one input changed so that the results differ (what a key that leaves it out merges); an operator over
constants (what folding computes); an operator whose gradient is taken.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from graphad.ops import OpDef, lookup
from graphad.ops.sample import Value
from graphad.testing.attribute_values import candidates_of, canonical
from graphad.testing.call_statements import CallProgram, operators
from graphad.testing.call_writer import Names
from graphad.testing.calls import Call, Interest, Slots, checked, cut_to, finite
from graphad.testing.cases import Case
from graphad.testing.choices import Choices
from graphad.testing.samples import samples_of
from graphad.testing.values import arrays, random_like

TWINS, FOLDED, DIFFERENTIATED = 11, 4, 3  # so many variations, or operators, a program tries; three in four make a difference
EXTENT = 3  # of all axes, where an operator takes that: transposed or not, the shapes are the same
MOST_TRIED = 12
NEARLY = 0.01  # between two attributes that are almost the same


class Variation(NamedTuple):
    """How an operator's second call differs from its first.

    ``kind`` is one of ``attr`` (another value), ``near`` (a number that is almost the same), ``input`` (another value), ``order``
    (two inputs exchanged), and ``again`` (the same call of a random operator); ``name`` is the attribute or slot.
    """

    op_type: str
    kind: str
    name: str = ""


@cache
def variations(types: tuple[str, ...]) -> tuple[Variation, ...]:
    """The attributes and inputs of some operators, in an order that has neighbors far apart."""
    definitions = [lookup(op_type) for op_type in types]
    known = [Variation(op.type, "attr", name) for op in definitions for name in op.attrs]
    known += [Variation(op.type, "near", a.name) for op in definitions for a in op.attrs.values() if a.kind == "float"]
    known += [Variation(op.type, "input", slot) for op in definitions for slot in op.inputs]
    known += [Variation(op.type, "order") for op in definitions if len(op.inputs) > 1 or any(s.variadic for s in op.inputs.values())]
    known += [Variation(op.type, "again") for op in definitions if op.random]
    random.Random("variations").shuffle(known)
    return tuple(known)


@cache
def _order(types: tuple[str, ...]) -> tuple[str, ...]:
    shuffled = list(types)
    random.Random("operators").shuffle(shuffled)
    return tuple(shuffled)


def _types(interest: Interest) -> tuple[str, ...]:
    """The operators of interest, or if there are none, all."""
    return tuple(t for t in interest.types if t in operators()) or operators()


# -- twins ---------------------------------------------------------------------------------------


def twin_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Operators twice, with one attribute or input changed; ``start`` says where in the order of all variations."""
    w = CallProgram(choices, interest)
    known = variations(_types(interest))
    for number in range(start * TWINS, (start + 1) * TWINS):
        pair = _pair(known[number % len(known)]) if known else None
        if pair is not None:
            _write_pair(w, *pair)
    return Case(w.program, "", w.feeds, w.params)


def _write_pair(w: CallProgram, one: Call, other: Call) -> None:
    """Two calls; inputs that are the same objects get one name."""
    first = w.named(one, {})
    known = {id(value): name for slot, names in first.items() for value, name in zip(one.inputs[slot], names, strict=True)}
    same = {slot: [known.get(id(value)) for value in values] for slot, values in other.inputs.items()}
    for call, names in ((one, first), (other, w.named(other, same))):
        w.append(call, names, overwrite=1 << 10)


@cache
def _pair(variation: Variation) -> tuple[Call, Call] | None:
    """Two calls that differ in an attribute or input, and in their results, of the same shapes if there are such."""
    pairs: list[tuple[Call, Call]] = []
    for call in _calls(lookup(variation.op_type)):
        for other in _others(call, variation):
            if other is None or not _differ(call, other):
                continue
            if _shapes(call) == _shapes(other):
                return call, other
            pairs.append((call, other))
    return pairs[0] if pairs else None


def _calls(op: OpDef) -> Iterator[Call]:
    """The samples with all extents the same, and as they are."""
    for number, sample in enumerate(samples_of(op.type)):
        inputs, attrs = sample.slots(), canonical(op, sample.attrs)
        places = [(s, i, a) for s, vs in inputs.items() for i, v in enumerate(vs) if isinstance(v, np.ndarray) for a in range(v.ndim)]
        for slots in (cut_to(inputs, places, EXTENT), inputs):
            call = checked(op, slots, attrs, number)
            if call is not None and call.finite:
                yield call


def _others(call: Call, variation: Variation) -> Iterator[Call | None]:
    if variation.kind == "attr":
        for value in candidates_of(call.op, call.number, variation.name)[:MOST_TRIED]:
            yield call.with_attrs({**call.attrs, variation.name: value})
    elif variation.kind == "near":
        number = call.op.attr(variation.name, call.attrs)
        yield call.with_attrs({**call.attrs, variation.name: number + NEARLY}) if isinstance(number, float) else None
    elif variation.kind == "input":
        yield from map(call.with_inputs, _changed(call.inputs, variation.name))
    elif variation.kind == "order":
        yield from map(call.with_inputs, _exchanged(call.inputs))
    else:
        yield call


def _changed(inputs: Slots, slot: str) -> Iterator[Slots]:
    """The inputs with another value in a slot: other numbers, or the same in another order."""
    for i, value in enumerate(inputs.get(slot, ())):
        if isinstance(value, np.ndarray) and value.size:
            others: list[Value] = [np.ascontiguousarray(value[..., ::-1]) if value.ndim else value, np.roll(value, 1)]
            if value.dtype.kind == "f":
                others.insert(0, np.abs(random_like(value, np.random.default_rng(5))).astype(value.dtype))
            for other in others:
                yield {**inputs, slot: [*inputs[slot][:i], other, *inputs[slot][i + 1 :]]}


def _exchanged(inputs: Slots) -> Iterator[Slots]:
    """The inputs with two of one type exchanged."""
    places = [(slot, i) for slot, values in inputs.items() for i, value in enumerate(values) if isinstance(value, np.ndarray)]
    for (s, i), (t, j) in itertools.combinations(places, 2):
        one, other = inputs[s][i], inputs[t][j]
        if one.shape == other.shape and one.dtype == other.dtype:
            changed = {slot: list(values) for slot, values in inputs.items()}
            changed[s][i], changed[t][j] = other, one
            yield changed


def _differ(one: Call, other: Call) -> bool:
    if one.op.random:
        return True
    pairs = zip(_outputs(one), _outputs(other), strict=False)
    return any(a.shape != b.shape or a.dtype != b.dtype or not np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)


def _outputs(call: Call) -> list[np.ndarray]:
    return [array for values in call.outputs.values() for value in values for array in arrays(value)]


def _shapes(call: Call) -> list[object]:
    return [(array.shape, array.dtype) for array in _outputs(call)]


# -- constants, gradients ------------------------------------------------------------------------


def constant_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Operators over constants; every second one with an attribute changed."""
    w = CallProgram(choices, interest)
    for call in _in_turn(choices, interest, start, FOLDED):
        names: Names = {s: [w.constant(v) if isinstance(v, np.ndarray) else w.new(v) for v in values] for s, values in call.inputs.items()}
        w.append(call, names, overwrite=1 << 10)
    return Case(w.program, "", w.feeds, w.params)


def gradient_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Operators over data that can be differentiated, and a loss over all their results, each element with a weight of its own."""
    w = CallProgram(choices, interest)
    parts: list[str] = []
    for call in _in_turn(choices, interest, start, DIFFERENTIATED):
        names = {s: [w.data(v) if isinstance(v, np.ndarray) else w.new(v) for v in values] for s, values in call.inputs.items()}
        for name in w.append(call, names, overwrite=1 << 10):
            parts += _part(w, name)
    loss = (w.apply("sum", {"X": parts}, {}) or "") if len(parts) > 1 else "".join(parts)
    return Case(w.program, loss, w.feeds, w.params)


def _part(w: CallProgram, name: str) -> list[str]:
    value = w.values[name]
    if not isinstance(value, np.ndarray) or value.dtype != "float64" or not value.size or not finite(value) or name in w.underivable:
        return []
    weights = w.constant(np.round(np.random.default_rng(value.size).uniform(0.5, 1.5, value.shape), 2))
    product = w.apply("elementwise_mul", {"X": [name], "Y": [weights]}, {})
    part = w.apply("reduce_sum", {"X": [product]}, {"reduce_all": True}) if product else None
    return [part] if part else []


def _in_turn(choices: Choices, interest: Interest, start: int, count: int) -> Iterator[Call]:
    """Calls of the operators from a place in their order on; every second one with an attribute changed, another sample each time."""
    types = _order(_types(interest))
    for number in range(start * count, (start + 1) * count):
        op = lookup(types[number % len(types)])
        calls = _known_calls(op)
        if not calls:
            continue
        call = choices.one_of(calls)
        names = [name for name in op.attrs if candidates_of(op, call.number, name)]
        if names and choices.boolean():
            name = choices.one_of([n for n in interest.attrs if n in names] or names)
            other = call.with_attrs({**call.attrs, name: choices.one_of(candidates_of(op, call.number, name))})
            call = other if other is not None and other.finite else call
        yield call


@cache
def _known_calls(op: OpDef) -> tuple[Call, ...]:
    return tuple(_calls(op))
