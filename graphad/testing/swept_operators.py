"""Programs that go through operators over constants, which folding computes, and under a loss, whose gradient is taken."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from graphad.ops import ControlDef, OpDef, lookup
from graphad.ops.sample import Array, Value
from graphad.testing.call_statements import NEVER, CallProgram
from graphad.testing.call_writer import Names
from graphad.testing.calls import Call, Interest, other_attr
from graphad.testing.cases import Case
from graphad.testing.choices import Choices, RandomChoices
from graphad.testing.derivatives import has_slope
from graphad.testing.swept_calls import converted, exchanged, in_order, loss_of, renumbered, types_of, varied

FOLDED, DIFFERENTIATED, SMOOTH = 4, 3, 24  # so many operators a program tries
WIDE = "float64"
STEP, BENT = 1e-4, 3e-4  # how far numbers move, and how much slopes may differ where an operator is smooth
STEEPEST = 1e2  # the slope of what goes into a sum with many others, which would not be seen beside larger ones
SEEDS = 1 << 14
TRIES = 2, 6  # calls tried to find some that differ: so many, and so many for each attribute


def constant_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Operators over constants; every second one with an attribute changed."""
    w = CallProgram(choices, interest)
    for call in _in_turn(choices, interest, start, FOLDED):
        if choices.chance(3):
            call = converted(call, choices.one_of(("int64", "float32", "int32")))
        names: Names = {s: [w.constant(v) if isinstance(v, np.ndarray) else w.new(v) for v in values] for s, values in call.inputs.items()}
        w.append(call, names, overwrite=NEVER)
    return Case(w.program, "", w.feeds, w.params)


def gradient_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Operators over data that can be differentiated, now and then at ties and once more with operands exchanged, and a loss over all."""
    w = CallProgram(choices, interest)
    results: list[str] = []
    for call in _in_turn(choices, interest, start, DIFFERENTIATED):
        kind = choices.one_of(("sample", "sample", "ties", "kinks"))
        call = converted(call, WIDE)
        call = call if kind == "sample" else renumbered(choices, call, kind)
        names = {s: [w.data(v) if isinstance(v, np.ndarray) else w.new(v) for v in values] for s, values in call.inputs.items()}
        results += w.append(call, names, overwrite=NEVER)
        if choices.chance(3):
            results += _again(w, call, names)
    return Case(w.program, loss_of(w, results), w.feeds, w.params)


def slope_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Many operators where they are smooth, in float64: one difference says whether the gradients of all of them are right.

    Every operator comes with all samples and attributes in turn; of half of them only the first result is read.
    """
    w = CallProgram(choices, interest)
    types, results = in_order(types_of(interest)), list[str]()
    for number in range(start * SMOOTH, (start + 1) * SMOOTH):
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
    """The calls of an operator that are smooth and differ in attributes, or which inputs there are, found one by one when needed."""

    def __init__(self, op: OpDef) -> None:
        self.found: dict[str, Call] = {}
        self.left = filter(None, (_smooth(op, number) for number in range(TRIES[0] + TRIES[1] * len(op.attrs))))

    def at(self, turn: int) -> Call | None:
        while len(self.found) <= turn and (call := next(self.left, None)) is not None:
            self.found.setdefault(_key(call), call)
        known = list(self.found.values())
        return known[turn % len(known)] if known else None


def _key(call: Call) -> str:
    attrs = {name: value for name, value in call.attrs.items() if value != call.op.attrs[name].default}
    return f"{sorted(attrs.items(), key=repr)} {[(slot, len(values)) for slot, values in call.inputs.items()]}"


@cache
def _variants(op: OpDef) -> _Variants:
    return _Variants(op)


def _smooth(op: OpDef, turn: int) -> Call | None:
    choices = RandomChoices(f"{op.type} {turn}")
    call = varied(choices, op.type, Interest())
    if call is not None and op.attrs and choices.boolean():
        call = other_attr(choices, call, Interest()) or call
    call = None if call is None else converted(call, WIDE)
    return call if call is not None and _is_smooth(choices, call) else None


def _is_smooth(choices: Choices, call: Call) -> bool:
    """Whether all are tensors, and results have the same slope on both sides, along a random direction, and no steep one."""
    values = [value for slots in (call.inputs, call.outputs) for listed in slots.values() for value in listed]
    if not all(isinstance(value, np.ndarray) and (value.dtype.kind != "f" or _is_wide(value)) for value in values):
        return False
    rng = np.random.default_rng(choices.below(SEEDS))
    ways = {
        s: [rng.uniform(-1, 1, v.shape) if _is_wide(v) and has_slope(call.op, s) else None for v in vs] for s, vs in call.inputs.items()
    }
    moved = [_moved(call, ways, distance) for distance in (-STEP, 0.0, STEP)]
    if any(each is None for each in moved):
        return False
    if any([v.shape for v in each or ()] != [v.shape for v in moved[0] or ()] for each in moved):
        return False
    for below, there, above in zip(*(each or () for each in moved), strict=True):
        left, right = (there - below) / STEP, (above - there) / STEP
        if not (np.abs(right - left) <= BENT * (1 + np.abs(right))).all() or not (np.abs(right) <= STEEPEST).all():
            return False
    return True


def _is_wide(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.dtype(WIDE)


def _moved(call: Call, ways: dict[str, list[Any]], distance: float) -> list[Array] | None:
    """The floating-point results where the inputs are moved some way; None if they cannot be computed."""
    inputs = {s: [v if way is None else v + distance * way for v, way in zip(vs, ways[s], strict=True)] for s, vs in call.inputs.items()}
    there = call.with_inputs(inputs)
    return None if there is None else [v for values in there.outputs.values() for v in values if _is_wide(v)]


def _again(w: CallProgram, call: Call, names: Names) -> list[str]:
    """The call once more, its operands exchanged if it takes that."""
    known = {id(value): name for slot, values in call.inputs.items() for value, name in zip(values, names[slot], strict=True)}
    for inputs in exchanged(call.inputs):
        other = call.with_inputs(inputs)
        if other is not None:
            return w.append(other, {s: [known[id(v)] for v in values] for s, values in inputs.items()}, overwrite=NEVER)
    return []


def _in_turn(choices: Choices, interest: Interest, start: int, count: int) -> Iterator[Call]:
    """Calls of the operators from a place in their order on; another sample each time, and other attributes."""
    types = in_order(types_of(interest))
    for number in range(start * count, (start + 1) * count):
        call = varied(choices, types[number % len(types)], interest)
        if call is not None:
            yield call
