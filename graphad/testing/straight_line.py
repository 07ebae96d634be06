"""Random flat programs: ``straight_line_program`` draws a program that ends in a scalar loss, and arrays to run it on.

Names are written again and again, inputs among them; some values have stop_gradient, some operators are dead.
"""

from __future__ import annotations

from graphad.testing.cases import Case
from graphad.testing.choices import Choices
from graphad.testing.operators import RECIPES, SHAPES, Call, Writer, computed, harmless


def straight_line_program(choices: Choices, max_ops: int = 12) -> Case:
    """Programs of 1 to ``max_ops`` drawn operators, a loss over one to three of their values, and up to two operators after it."""
    w = Writer(choices)
    for _ in range(choices.integer(1, 2)):
        w.data(stop_gradient=w.rarely())
    for _ in range(choices.integer(0, 2)):
        w.parameter(w.one_of(*filter(None, SHAPES)), trainable=not w.rarely())
    for _ in range(choices.integer(1, max_ops)):
        _statement(w)
    loss = _loss(w)
    for _ in range(choices.integer(0, 2)):
        _statement(w)
    return Case(w.program, loss, w.feeds, w.params)


def _statement(w: Writer) -> None:
    """Append a drawn operator; ``tanh`` where that one has no operands, or makes something large."""
    call = RECIPES[w.one_of(*RECIPES)](w)
    if call is None or not all(harmless(array) for arrays in computed(w, call).values() for array in arrays):
        call = Call("tanh", {"X": [w.one_of(*w.values)]}, {})
    w.append(call)


def _loss(w: Writer) -> str:
    """The mean of a value, or a sum of several; of shape [] or [1], perhaps changed in place. No later operator writes it."""
    parts: list[str] = []
    for name in w.choices.several([*w.values][::-1], 1, 3):
        parts.append(f"part{len(parts)}")
        w.block.append_op(type="mean", inputs={"X": name}, outputs={"Out": parts[-1]})
    w.block.append_op(type="sum", inputs={"X": parts}, outputs={"Out": "loss"})
    if w.rarely():
        w.block.append_op(type="scale", inputs={"X": "loss"}, outputs={"Out": "loss"}, attrs={"scale": 2.0})
    if not w.rarely():
        return "loss"
    w.block.append_op(type="reshape2", inputs={"X": "loss"}, outputs={"Out": "loss1"}, attrs={"shape": [1]})
    return "loss1"
