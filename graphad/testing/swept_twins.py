"""Programs with an operator twice, one thing changed, so that the results differ: what is merged by a key that leaves it out.

Random programs meet every attribute of every operator only after thousands. A sweep goes through them in order.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from graphad.ops import GRAD, OpDef, lookup
from graphad.ops.sample import Value
from graphad.testing.attribute_values import candidates_of
from graphad.testing.call_statements import COMMON, NEVER, CallProgram
from graphad.testing.calls import Call, Interest, Slots
from graphad.testing.cases import Case
from graphad.testing.choices import Choices
from graphad.testing.samples.valid import computed
from graphad.testing.swept_calls import converted, exchanged, known_calls, loss_of, types_of
from graphad.testing.values import arrays, random_like

TWINS = 11  # so many pairs a program
MOST_TRIED = 12
TIMES = 8  # so often a pair comes whose gradients may differ: these are compared now and then
NUMBERS = {"near": 0.01, "nearer": 1e-9, "zero": 0.0}  # how little attributes differ that are numbers: zeros in their sign
DTYPES = ("float64", "float32", "int64")  # of the first time through all variations, the second, and so on


class Variation(NamedTuple):
    """How an operator's second call differs from its first.

    ``kind`` is one of ``attr`` (another value), ``near`` and ``nearer`` (a number that is almost the same), ``zero`` (a zero of
    the other sign), ``input`` (another value), ``order`` (two inputs exchanged), ``tied`` (the same where the inputs are
    equal and the results are too, but perhaps not the gradients), and ``again`` (the same call of a random operator);
    ``name`` is the attribute or slot.
    """

    op: OpDef
    kind: str
    name: str = ""


@cache
def variations(definitions: tuple[OpDef, ...]) -> tuple[Variation, ...]:
    """The attributes and inputs of some operators, common and random ones first, in an order that has neighbors far apart."""
    known = [Variation(op, "attr", name) for op in definitions for name in op.attrs]
    known += [Variation(op, kind, a.name) for op in definitions for a in op.attrs.values() if a.kind == "float" for kind in NUMBERS]
    known += [Variation(op, "input", slot) for op in definitions for slot in op.inputs]
    known += [Variation(op, "order") for op in definitions if len(op.inputs) > 1 or any(s.variadic for s in op.inputs.values())]
    known += [Variation(op, "tied") for op in definitions for _ in range(TIMES) if op.grads and len(op.inputs) > 1]
    known += [Variation(op, "again") for op in definitions if op.random]
    random.Random("variations").shuffle(known)
    return tuple(sorted(known, key=lambda variation: variation.op.type not in COMMON and variation.kind != "again"))


def twin_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Operators twice, with one attribute or input changed; ``start`` says where in the order of all variations."""
    w = CallProgram(choices, interest)
    tied: list[str] = []
    for variation, turn in _pairs(tuple(map(lookup, types_of(interest)))).piece(start * TWINS, TWINS):
        pair = _pair(variation, turn)
        if pair is not None:
            written = _write_pair(w, variation.kind, *pair)
            tied += written if variation.kind == "tied" else []
    return Case(w.program, loss_of(w, tied), w.feeds, w.params)


class _Pairs:
    """The variations that make a difference, found one by one when they are needed; after the last come those of another dtype."""

    def __init__(self, definitions: tuple[OpDef, ...]) -> None:
        self.found: list[tuple[Variation, int]] = []
        self.left = self._all(definitions)

    def _all(self, definitions: tuple[OpDef, ...]) -> Iterator[tuple[Variation, int]]:
        for turn in itertools.count():
            yield from ((v, turn) for v in variations(definitions) if _pair(v, turn % len(DTYPES)) is not None)
            if not self.found:
                return

    def piece(self, start: int, count: int) -> list[tuple[Variation, int]]:
        """So many variations from a place on, each with the number of the time through them."""
        self.found += itertools.islice(self.left, max(0, start + count - len(self.found)))
        return [(variation, turn % len(DTYPES)) for variation, turn in self.found[start : start + count]]


@cache
def _pairs(definitions: tuple[OpDef, ...]) -> _Pairs:
    return _Pairs(definitions)


def _write_pair(w: CallProgram, kind: str, one: Call, other: Call) -> list[str]:
    """Two calls, and the names of their results; inputs that are the same objects get one name.

    Zeros of the two signs differ in what divides by them.
    """
    given: dict[str, list[str | None]] = {}
    if kind == "tied":
        given = {slot: [w.data(v) if isinstance(v, np.ndarray) else None for v in values] for slot, values in one.inputs.items()}
    first = w.named(one, given)
    known = {id(value): name for slot, names in first.items() for value, name in zip(one.inputs[slot], names, strict=True)}
    same = {slot: [known.get(id(value)) for value in values] for slot, values in other.inputs.items()}
    results: list[str] = []
    for call, names in ((one, first), (other, w.named(other, same))):
        written = w.append(call, names, overwrite=NEVER)
        results += written
        if kind == "zero" and written and isinstance(value := w.values[written[0]], np.ndarray):
            w.emit("reciprocal", {"X": written[:1]}, {"Out": [w.unique("t")]}, {}, {"Out": [_inverse(value)]})
    return results


def _inverse(value: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(1 / value, value.dtype)


# -- pairs -----------------------------------------------------------------------------------------


@cache
def _pair(variation: Variation, turn: int) -> tuple[Call, Call] | None:
    """Two calls that differ in an attribute or input, and in their results, of the same shapes if there are such."""
    pairs: list[tuple[Call, Call]] = []
    if variation.kind == "tied":
        return next(filter(None, map(_tied, known_calls(variation.op))), None)
    for call in known_calls(variation.op):
        call = converted(call, DTYPES[turn]) if turn else call
        one = call.with_attrs({**call.attrs, variation.name: 0.0}) if variation.kind == "zero" else call
        if one is None:
            continue
        for other in _others(one, variation):
            if other is None or not _differ(one, other, variation.kind == "zero"):
                continue
            if _shapes(one) == _shapes(other):
                return one, other
            pairs.append((one, other))
    return pairs[0] if pairs else None


def _others(call: Call, variation: Variation) -> Iterator[Call | None]:
    if variation.kind == "attr":
        for value in candidates_of(call.op, call.number, variation.name)[:MOST_TRIED]:
            yield call.with_attrs({**call.attrs, variation.name: value})
    elif variation.kind in NUMBERS:
        number = call.op.attr(variation.name, call.attrs)
        if isinstance(number, float):
            yield call.with_attrs({**call.attrs, variation.name: -0.0 if variation.kind == "zero" else number + NUMBERS[variation.kind]})
    elif variation.kind == "input":
        yield from map(call.with_inputs, _changed(call.inputs, variation.name))
    elif variation.kind == "order":
        yield from map(call.with_inputs, exchanged(call.inputs))
    else:
        yield call


def _tied(call: Call) -> tuple[Call, Call] | None:
    """The call with one number in two inputs, and with these exchanged, if the gradients of the two differ then."""
    slots = [slot for slot, values in call.inputs.items() if len(values) == 1 and isinstance(values[0], np.ndarray)]
    for s, t in itertools.combinations(slots, 2):
        one, like = call.inputs[s][0], call.inputs[t][0]
        if one.shape != like.shape or one.dtype != like.dtype:
            continue
        other = one.copy()
        pair = [call.with_inputs({**call.inputs, s: [a], t: [b]}) for a, b in ((one, other), (other, one))]
        if pair[0] is not None and pair[1] is not None and _gradients_differ(pair[0], s, t):
            return pair[0], pair[1]
    return None


def _gradients_differ(call: Call, s: str, t: str) -> bool:
    """Whether the gradients with respect to two inputs differ."""
    if call.op.grad is None:
        return False
    cotangents: Slots = {slot + GRAD: [v if v is None else np.ones_like(v) for v in values] for slot, values in call.outputs.items()}
    given = {slot: values for slot, values in {**call.outputs, **call.inputs, **cotangents}.items() if slot in call.op.grad.inputs}
    found = computed(call.op.grad, given, call.attrs)
    gradients = [None if found is None else (found.get(slot + GRAD) or [None])[0] for slot in (s, t)]
    return not (gradients[0] is gradients[1] is None) and not np.array_equal(*gradients)  # type: ignore[arg-type]


def _changed(inputs: Slots, slot: str) -> Iterator[Slots]:
    """The inputs with another value in a slot: other numbers, or the same in another order."""
    for i, value in enumerate(inputs.get(slot, ())):
        if isinstance(value, np.ndarray) and value.size:
            others: list[Value] = [np.ascontiguousarray(value[..., ::-1]) if value.ndim else value, np.roll(value, 1)]
            if value.dtype.kind == "f":
                others.insert(0, np.abs(random_like(value, np.random.default_rng(5))).astype(value.dtype))
            for other in others:
                yield {**inputs, slot: [*inputs[slot][:i], other, *inputs[slot][i + 1 :]]}


def _differ(one: Call, other: Call, signs: bool) -> bool:
    """Whether the results differ, with ``signs`` also in the signs of zeros."""
    return one.op.random or any(_unlike(a, b, signs) for a, b in zip(_outputs(one), _outputs(other), strict=False))


def _unlike(one: np.ndarray, other: np.ndarray, signs: bool) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return True
    floating = one.dtype.kind == "f"
    if not np.array_equal(one, other, equal_nan=floating):
        return True
    return signs and floating and not np.array_equal(np.signbit(one), np.signbit(other))


def _outputs(call: Call) -> list[np.ndarray]:
    return [array for values in call.outputs.values() for value in values for array in arrays(value)]


def _shapes(call: Call) -> list[object]:
    return [(array.shape, array.dtype) for array in _outputs(call)]
