"""Programs of many operators at once where all of them are smooth, so that one central difference judges all of their gradients."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from graphad.ops import ControlDef, OpDef, lookup
from graphad.ops.sample import Array, Value
from graphad.testing.call_statements import NEVER, CallProgram
from graphad.testing.calls import Call, Interest, other_attr
from graphad.testing.cases import Case
from graphad.testing.choices import Choices, RandomChoices
from graphad.testing.derivatives import has_slope
from graphad.testing.swept_calls import converted, in_order, loss_of, types_of, varied

OPERATORS = 8  # of a program
WIDE = "float64"
STEP, BENT = 1e-4, 3e-4  # how far numbers move, and how much slopes may differ where an operator is smooth
STEEPEST = 1e2  # the slope of what goes into a sum with many others, which would not be seen beside larger ones
SEEDS = 1 << 14
TRIES = 2, 6  # calls tried to find some that differ: so many, and so many for each attribute


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
