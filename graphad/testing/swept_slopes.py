"""Programs of many operators at once where all of them are smooth, so that one central difference judges all of their gradients."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from operator import itemgetter
from typing import Any

import numpy as np

from graphad.ops import ControlDef, OpDef, lookup
from graphad.ops.sample import Array, Value
from graphad.testing.attribute_values import candidates_of
from graphad.testing.call_statements import NEVER, CallProgram
from graphad.testing.calls import Call, Interest
from graphad.testing.cases import Case
from graphad.testing.choices import Choices, RandomChoices
from graphad.testing.derivatives import has_slope
from graphad.testing.swept_calls import converted, in_order, known_calls, loss_of, renumbered, types_of

OPERATORS = 8  # of a program
WIDE = "float64"
STEP, BENT = 1e-4, 3e-4  # how far numbers move, and how much slopes may differ where an operator is smooth
STEEPEST = 1e2  # the slope of what goes into a sum with many others, which would not be seen beside larger ones
SEEDS = 1 << 14
TRIES = 80  # calls tried to find some that differ
WORDS = ("str", "DType")  # kinds of attributes that seldom matter to a gradient
NUMBERS = ("sample", "ordinary", "positive")  # on which an operator may be smooth, the first ones preferred


def slope_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Many operators where they are smooth, in float64: one difference says whether the gradients of all of them are right.

    Every operator comes with all samples and attributes in turn; of half of them only the first result is read.
    """
    w = CallProgram(choices, interest)
    types, results = in_order(types_of(interest)), list[str]()
    for number in range(start * OPERATORS, (start + 1) * OPERATORS):
        turn, place = divmod(number, len(types))
        call = smooth_variant(lookup(types[place]), turn)
        if call is not None:
            inputs = {slot: [_input(w, call.op, slot, value) for value in values] for slot, values in call.inputs.items()}
            names = w.append(call, inputs, overwrite=NEVER)
            results += names[:1] if choices.boolean() else names
    return Case(w.program, loss_of(w, results, terms=len(results)), w.feeds, w.params)


def _input(w: CallProgram, op: OpDef, slot: str, value: Value) -> str:
    """A name for an input, which stops gradients if the operator has none with respect to it: what depends on it has no slope."""
    return w.data(value, stop_gradient=not has_slope(op, slot)) if isinstance(value, np.ndarray) else w.new(value)


def smooth_variant(op: OpDef, turn: int) -> Call | None:
    """One of an operator's calls that are smooth, another one each turn; None if there is none, or the operator has no gradient."""
    return None if isinstance(op, ControlDef) or not op.grads else _variants(op).at(turn)


class _Variants:
    """The calls of an operator that are smooth and give other results than those before, found one by one when needed.

    An attribute that changes no result changes no gradient either. Calls whose results stay the same where inputs move come only where
    there are no others.
    """

    def __init__(self, op: OpDef) -> None:
        self.moving: dict[bytes, Call] = {}
        self.still: dict[bytes, Call] = {}
        self.left = itertools.islice(_in_float64(op), TRIES)

    def at(self, turn: int) -> Call | None:
        while len(self.moving) <= turn and (call := next(self.left, None)) is not None:
            self._note(call)
        known = list((self.moving or self.still).values())
        return known[turn % len(known)] if known else None

    def _note(self, call: Call) -> None:
        key = _numbers(call)
        if key in self.moving or key in self.still:
            return
        for kind in NUMBERS:
            choices = RandomChoices(f"{call.op.type} {kind}")
            smooth = call if kind == "sample" else renumbered(choices, call, kind)
            slopes = _slopes(choices, smooth)
            if slopes is not None:
                known = self.moving if any(np.any(slope) for slope in slopes) else self.still
                known[key] = smooth
                return


def _numbers(call: Call) -> bytes:
    """What an operator reads and gives, to see whether another call does the same."""
    tensors = [v for slots in (call.inputs, call.outputs) for values in slots.values() for v in values if isinstance(v, np.ndarray)]
    return b"".join(str(tensor.shape).encode() + tensor.tobytes() for tensor in tensors)


@cache
def _variants(op: OpDef) -> _Variants:
    return _Variants(op)


def _in_float64(op: OpDef) -> Iterator[Call]:
    """The samples, and each with another value for an attribute; what differs in attributes first, names of modes and layouts last."""
    calls = [call for call in dict.fromkeys(converted(call, WIDE) for call in known_calls(op)) if _is_of_floats(call)]
    changes = [(call, {name: value}) for call in calls for name in op.attrs for value in candidates_of(op, call.number, name)]
    random.Random(op.type).shuffle(changes)
    changes.sort(key=lambda change: any(op.attrs[name].kind in WORDS for name in change[1]))
    drafts = [(call, {**call.attrs, **changed}) for call, changed in (*((call, {}) for call in calls), *changes)]
    for call, attrs in _in_rounds(drafts):
        other = call if attrs == call.attrs else call.with_attrs(attrs)
        if other is not None and other.finite and _is_of_floats(other):
            yield other


def _in_rounds(drafts: list[tuple[Call, dict[str, Any]]]) -> list[tuple[Call, dict[str, Any]]]:
    """All that differ in attributes, then those that have the same attributes as one before."""
    counts = Counter[str]()
    rounds = list[int]()
    for call, attrs in drafts:
        key = repr(sorted((name, value) for name, value in attrs.items() if value != call.op.attrs[name].default))
        rounds.append(counts[key])
        counts[key] += 1
    return [draft for _, draft in sorted(zip(rounds, drafts, strict=True), key=itemgetter(0))]


def _is_of_floats(call: Call) -> bool:
    """Whether all are tensors, and those of floating point are float64, with elements in one that has a slope."""
    values = [value for slots in (call.inputs, call.outputs) for listed in slots.values() for value in listed]
    if not all(isinstance(value, np.ndarray) and (value.dtype.kind != "f" or _is_wide(value)) for value in values):
        return False
    return any(_is_wide(v) and np.size(v) and has_slope(call.op, slot) for slot, values in call.inputs.items() for v in values)


def _slopes(choices: Choices, call: Call) -> list[Array] | None:
    """The slopes of the results along a random direction; None if they differ from those to the other side, or are steep."""
    rng = np.random.default_rng(choices.below(SEEDS))
    ways = {
        s: [rng.uniform(-1, 1, v.shape) if _is_wide(v) and has_slope(call.op, s) else None for v in vs] for s, vs in call.inputs.items()
    }
    moved = [_moved(call, ways, distance) for distance in (-STEP, 0.0, STEP)]
    if any(each is None for each in moved):
        return None
    if any([v.shape for v in each or ()] != [v.shape for v in moved[0] or ()] for each in moved):
        return None
    slopes = list[Array]()
    for below, there, above in zip(*(each or () for each in moved), strict=True):
        left, right = (there - below) / STEP, (above - there) / STEP
        if not (np.abs(right - left) <= BENT * (1 + np.abs(right))).all() or not (np.abs(right) <= STEEPEST).all():
            return None
        slopes.append(right)
    return slopes


def _is_wide(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.dtype(WIDE)


def _moved(call: Call, ways: dict[str, list[Any]], distance: float) -> list[Array] | None:
    """The floating-point results where the inputs are moved some way; None if they cannot be computed."""
    inputs = {s: [v if way is None else v + distance * way for v, way in zip(vs, ways[s], strict=True)] for s, vs in call.inputs.items()}
    there = call.with_inputs(inputs)
    return None if there is None else [v for values in there.outputs.values() for v in values if _is_wide(v)]
