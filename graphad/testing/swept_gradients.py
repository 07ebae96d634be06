"""Programs of gradient operators over data, ``tanh_grad`` and ``tanh_grad_grad``, as programs hold them that are read from elsewhere.

Backwards that are appended to programs hold some of them, those of gradients of gradients never.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np

from graphad.ops import GRAD, REGISTRY, GradOpDef, OpDef, lookup
from graphad.ops.double_gradients import DoubleGradOpDef, LinearDoubleGradOpDef
from graphad.ops.sample import Value
from graphad.testing.calls import Call, Interest, checked
from graphad.testing.cases import Case, Choices
from graphad.testing.operator_programs import NEVER, CallProgram
from graphad.testing.swept_calls import FLOATS_DRAWN, converted, in_order, known_calls
from graphad.testing.values import random_like

OPERATORS = 10  # of a program
MOST_TRIED = 40  # samples of the operator that is differentiated
PREFIXES = ("", "D", "DD")  # Paddle's of cotangents, DX, and of cotangents of those, DDX


def gradient_operator_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Gradient operators on what the operator reads and writes, and random cotangents; every second one again over other cotangents."""
    w = CallProgram(choices, interest)
    types = _gradient_types(interest.types) or _gradient_types(())
    dtype = choices.one_of(FLOATS_DRAWN)
    for number in range(start * OPERATORS, (start + 1) * OPERATORS):
        # Every second time through the types the other spelling.
        turn, place = divmod(number, len(types))
        call = gradient_call(types[place], dtype, turn % 2)
        if call is None:
            continue
        names = {slot: _data(w, values) for slot, values in call.inputs.items()}
        w.append(call, names, overwrite=NEVER)
        again = call.with_inputs({s: [_other(v) if s.endswith(GRAD) else v for v in vs] for s, vs in call.inputs.items()})
        if again is not None and choices.boolean():
            names = {s: _data(w, again.inputs[s]) if s.endswith(GRAD) else slot_names for s, slot_names in names.items()}
            w.append(again, names, overwrite=NEVER)
    return Case(w.program, "", w.feeds, w.params)


def _data(w: CallProgram, values: list[Value]) -> list[str]:
    return [w.data(value) if isinstance(value, np.ndarray) else w.new(value) for value in values]


def _other(value: Value, seed: int = 0) -> Value:
    other = random_like(value, np.random.default_rng(seed))
    return other.astype(value.dtype) if isinstance(other, np.ndarray) else other


@cache
def _gradient_types(types: tuple[str, ...]) -> tuple[str, ...]:
    gradients = [op for op in REGISTRY.values() if isinstance(op, GradOpDef)]
    return in_order(tuple(sorted(op.type for op in gradients if not types or op.type in types or _differentiated(op).type in types)))


def _differentiated(op: GradOpDef) -> OpDef:
    """The operator that a gradient operator, or one of a gradient's gradient, is the derivative of."""
    of: OpDef = op
    while isinstance(of, GradOpDef):
        following = of.forward or getattr(of, "of", None)
        assert isinstance(following, OpDef)
        of = following
    return of


@cache
def gradient_call(op_type: str, dtype: str, turn: int) -> Call | None:
    """A call of a gradient operator, None if none is found.

    Those that give tapes and arrays of tensors are left to loops: what they give is declared where a loop's backward is made.

    Args:
        op_type: its type.
        dtype: of the operator that it belongs to.
        turn: 1 for the other spelling of the slots of an operator that has two.
    """
    op = lookup(op_type)
    assert isinstance(op, GradOpDef)
    for candidate in itertools.islice(known_calls(_differentiated(op)), MOST_TRIED):
        inputs = _inputs(op, converted(candidate, dtype), turn)
        call = inputs and checked(
            op, inputs, {name: value for name, value in candidate.attrs.items() if name in op.attrs}, candidate.number
        )
        if call and call.finite and all(isinstance(v, np.ndarray) for values in call.outputs.values() for v in values):
            return call
    return None


def _inputs(op: GradOpDef, call: Call, turn: int) -> dict[str, list[Value]] | None:
    """Values for the slots of a gradient operator; None if a required one has none."""
    values = {**call.outputs, **call.inputs}
    inputs: dict[str, list[Value]] = {}
    names = set[str]()
    # The first spelling that is met is the one passed.
    for slot in reversed(op.inputs) if turn else op.inputs:
        name = _meant(op, slot)
        value = _value(values, name)
        if not value or name in names:  # Paddle has two spellings of some slots: one of them is passed
            if not op.inputs[slot].optional and name not in names:
                return None
            continue
        names.add(name)
        inputs[slot] = value
    return {slot: inputs[slot] for slot in op.inputs if slot in inputs}


def _meant(op: GradOpDef, slot: str) -> str:
    """The name of a slot as gradient rules spell it: ``DDX`` for ``grad_x@GRAD``."""
    renamed = {**getattr(op, "reads", {}), **getattr(op, "starts", {})}.get(slot, slot)
    inner = getattr(op, "of", None) if renamed != slot else op
    if isinstance(inner, LinearDoubleGradOpDef):
        return slot.replace("grad_x", "X")
    return inner.spelled(renamed) if isinstance(inner, DoubleGradOpDef) else renamed


def _value(values: dict[str, list[Value]], name: str) -> list[Value]:
    """The value of a slot of the operator, or numbers for a cotangent of it; empty if it is neither."""
    if name in values:
        return values[name]
    bare = name.removesuffix(GRAD).removesuffix("New")
    like = next((values[bare.removeprefix(prefix)] for prefix in PREFIXES if bare.removeprefix(prefix) in values), [])
    return [_other(value, len(name)) for value in like if value is not None]
