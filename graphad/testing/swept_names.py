"""Programs over a few names that are written again and again, so that it matters which value of a name is read, kept or overwritten.

Some names are state, some are views of others, and now and then an operator has an effect; often little of it all is requested.
"""

from __future__ import annotations

import numpy as np

from graphad.testing.call_statements import CallProgram
from graphad.testing.calls import Interest
from graphad.testing.cases import Array, Case
from graphad.testing.choices import Choices
from graphad.testing.number_pools import array_of
from graphad.testing.swept_calls import append_over, loss_of, types_of

SHAPES = ((3,), (1,), (2, 2), (1, 3))
DTYPES = ("float64", "float64", "float32", "int64")
EFFECT = 9  # of so many statements one is an effect
PAIRS = ("elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_max")


def name_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Five to nine operators over three names of one type; what is requested is all that is unused, one name, or the loss alone."""
    w = CallProgram(choices, interest)
    shape, dtype = choices.one_of(SHAPES), choices.one_of(DTYPES)
    names = [_start(w, array_of(choices, shape, dtype)) for _ in range(3)]
    for _ in range(choices.integer(5, 9)):
        _statement(w, names)
    if choices.chance(4):
        return Case(w.program, "", w.feeds, w.params, (choices.one_of(names),))
    loss = loss_of(w, names[::-1])
    return Case(w.program, loss, w.feeds, w.params, (loss,) if loss and choices.chance(3) else ())


def _start(w: CallProgram, array: Array) -> str:
    kind = w.choices.below(6)
    if kind < 3:
        return w.state(array)
    if kind == 3:
        return w.parameter(array, trainable=True)
    return w.data(array) if kind == 4 else w.constant(array)


def _statement(w: CallProgram, names: list[str]) -> None:
    """An operator that reads names and writes one of them, or a new one that joins them."""
    name = w.choices.one_of(names)
    value = w.values[name]
    assert isinstance(value, np.ndarray)
    if w.choices.chance(EFFECT):
        w.apply("fetch", {"X": [name]}, {"col": 0})
        return
    target = w.choices.one_of((*names, *names, ""))
    kind = w.choices.below(8)
    if kind < 2 and w.interest.types and (written := _of_interest(w, name)):
        names.append(written)
        return
    if kind == 2:
        target = w.constant(np.full_like(value, w.choices.one_of((0, 1, 2))), target or None)
    elif kind == 3:
        view = w.apply("reshape", {"X": [name]}, {"shape": list(value.shape)})
        target = view or ""
    elif kind == 4:
        target = w.apply(w.choices.one_of(PAIRS), {"X": [name], "Y": [w.choices.one_of(names)]}, {}, target or None) or ""
    elif kind == 5:
        target = w.apply("increment", {"X": [name]}, {"step": float(w.choices.integer(1, 2))}, name) or ""
    elif kind == 6 and value.dtype.kind == "f":
        target = w.apply(w.choices.one_of(("tanh", "square", "exp")), {"X": [name]}, {}, target or None) or ""
    else:
        op_type, attrs = w.choices.one_of((("assign", {}), ("scale", {"scale": 2.0, "bias": 1.0})))
        target = w.apply(op_type, {"X": [name]}, attrs, target or None) or ""
    if target and target not in names:
        names.append(target)


def _of_interest(w: CallProgram, name: str) -> str:
    """An operator of interest over a name; the name of its result, if that has the type of the other names."""
    written = append_over(w, w.choices.one_of(types_of(w.interest)), name, 2)
    return next((each for each in written if each in w.like(w.values[name])), "")
