"""Programs that go through operators over constants, which folding computes, and under a loss, whose gradient is taken."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphad.testing.call_statements import NEVER, CallProgram
from graphad.testing.call_writer import Names
from graphad.testing.calls import Call, Interest
from graphad.testing.cases import Case
from graphad.testing.choices import Choices
from graphad.testing.swept_calls import converted, exchanged, in_order, loss_of, renumbered, types_of, varied

FOLDED, DIFFERENTIATED = 4, 3  # so many operators a program tries
WIDE = "float64"


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
