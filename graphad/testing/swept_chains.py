"""Programs in which operators read each other's results, every operator after every other one."""

from __future__ import annotations

import numpy as np

from graphad.testing.call_statements import CallProgram
from graphad.testing.calls import Interest
from graphad.testing.cases import Case
from graphad.testing.choices import Choices
from graphad.testing.number_pools import NON_FINITE, SHORT
from graphad.testing.swept_calls import DTYPES, append_over, converted, in_order, loss_of, renumbered, types_of, varied

CHAINS = 3  # so many pairs of operators a program
WIDE = ("float32", "float64")  # what a pass makes narrower
LINKS = (  # what stands between operators of interest: copies, views, arithmetic
    "assign",
    "scale",
    "cast",
    "reshape",
    "reshape2",
    "transpose2",
    "slice",
    "squeeze2",
    "unsqueeze2",
    "elementwise_add",
    "elementwise_mul",
    "tanh",
    "concat",
    "dropout",
)


def chain_sweep(choices: Choices, interest: Interest, start: int) -> Case:
    """Pairs of operators, the second over a result of the first; what lies before and between them is perhaps read once more.

    Operators of interest come with each other in every second turn, and else with what often stands between them.
    """
    w = CallProgram(choices, interest)
    w.non_finite = choices.chance(4)
    w.stopped = choices.one_of((2, 6, 16))
    w.kinds = (*interest.kinds, *(NON_FINITE,) * (3 * w.non_finite))
    types = in_order(types_of(interest))
    around = tuple(dict.fromkeys((*types, *LINKS))) if interest.types else types
    dtype = choices.one_of(WIDE if interest.kinds == SHORT else DTYPES)
    results: list[str] = []
    for number in range(start * CHAINS, (start + 1) * CHAINS):
        turn, place = divmod(number, len(types))
        partners, step = (around, turn) if not interest.types else ((types, around)[turn % 2], turn // 2)
        pair = [types[place], partners[(place + step) % len(partners)]]
        results += _chain(w, pair[::-1] if choices.boolean() else pair, dtype)
    return Case(w.program, loss_of(w, results), w.feeds, w.params)


def _chain(w: CallProgram, types: list[str], dtype: str) -> list[str]:
    """One operator after another; the names of the results, the last first."""
    written: list[str] = []
    names = _first(w, types[0], dtype)
    sources = [name for name in w.block.ops[-1].input_names() if isinstance(w.values[name], np.ndarray)] if names else []
    for op_type in types[1:]:
        written = names + written
        tensors = [name for name in names if isinstance(w.values[name], np.ndarray)]
        names = append_over(w, op_type, w.choices.one_of(tensors), 8) if tensors else []
    written = names + written
    for known in (sources, written[len(names) :]):
        if names and known and w.choices.chance(3):
            written += append_over(w, w.choices.one_of(("tanh", "scale", types[0])), w.choices.one_of(known), 8)
    return written


def _first(w: CallProgram, op_type: str, dtype: str) -> list[str]:
    call = varied(w.choices, op_type, w.interest)
    if call is None:
        return []
    call = converted(call, dtype)
    if w.non_finite or w.choices.chance(3):
        call = renumbered(w.choices, call, w.choices.one_of(w.kinds))
    known = {slot: [_known(w, value) for value in values] for slot, values in call.inputs.items()}
    pairs = {slot: list(zip(values, known[slot], strict=True)) for slot, values in call.inputs.items()}
    other = call.with_inputs({slot: [value if name is None else w.values[name] for value, name in each] for slot, each in pairs.items()})
    return w.append(call, w.named(call, {}), overwrite=8) if other is None else w.append(other, w.named(other, known), overwrite=8)


def _known(w: CallProgram, value: object) -> str | None:
    """A constant, or a name of the type, or neither."""
    if not isinstance(value, np.ndarray) or not value.size:
        return None
    kind = w.choices.below(6)
    if kind == 5:
        return w.number_like(value)
    names = w.like(value) if kind > 2 else []
    return w.choices.one_of(names) if names else None
