"""Random flat programs for hypothesis: ``programs()`` draws a program that ends in a scalar loss, and arrays to run it on.

Names are written again and again, inputs among them; some values have stop_gradient, some operators are dead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import graphad as ga
from tests.random_operators import RECIPES, SHAPES, Array, Call, Draw, Writer, computed, harmless


@dataclass(frozen=True, repr=False)
class RandomProgram:
    """A program with its loss, and float64 (indices: int64) arrays for its data and parameters."""

    program: ga.Program
    loss: ga.Variable
    feeds: dict[str, Array]
    params: dict[str, Array]

    @property
    def sources(self) -> list[str]:
        """What one can differentiate with respect to: floating-point data and the parameters that train.

        A name that is written before it is read stands for what is written, so it is not among them.
        """
        ops = self.program.global_block().ops[::-1]
        read_first = {n: n in op.input_names() for op in ops for n in (*op.output_names(), *op.input_names())}
        trained = [p.name for p in self.program.all_parameters() if p.trainable]
        return [n for n in (*self.feeds, *trained) if read_first.get(n, True) and not n.startswith("i")]

    def clone(self) -> RandomProgram:
        """A copy whose program can be changed."""
        twin = self.program.clone()
        return RandomProgram(twin, twin.global_block().var(self.loss.name), self.feeds, self.params)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def __repr__(self) -> str:
        arrays = [f"{name} = {array.tolist()}" for name, array in {**self.feeds, **self.params}.items()]
        return "\n".join([f"\n{self.program}loss {self.loss.name}", *arrays, ""])


@st.composite
def programs(draw: Draw, max_ops: int = 12) -> RandomProgram:
    """Programs of 1 to ``max_ops`` drawn operators, a loss over one to three of their values, and up to two operators behind it."""
    w = Writer(draw)
    for _ in range(draw(st.integers(1, 2))):
        w.data(stop_gradient=w.rarely())
    for _ in range(draw(st.integers(0, 2))):
        w.parameter(w.one_of(*filter(None, SHAPES)), trainable=not w.rarely())
    for _ in range(draw(st.integers(1, max_ops))):
        _statement(w)
    loss = _loss(w)
    for _ in range(draw(st.integers(0, 2))):
        _statement(w)
    return RandomProgram(w.program, w.block.var(loss), w.feeds, w.params)


def _statement(w: Writer) -> None:
    """Append a drawn operator; ``tanh`` where that one has no operands, or makes something large."""
    call = RECIPES[w.one_of(*RECIPES)](w)
    if call is None or not all(harmless(array) for arrays in computed(w, call).values() for array in arrays):
        call = Call("tanh", {"X": [w.one_of(*w.values)]}, {})
    w.append(call)


def _loss(w: Writer) -> str:
    """The mean of a value, or a sum of several; of shape [] or [1], perhaps changed in place. No later operator writes it."""
    parts: list[str] = []
    for name in w.draw(st.lists(st.sampled_from([*w.values][::-1]), min_size=1, max_size=3)):
        parts.append(f"part{len(parts)}")
        w.block.append_op(type="mean", inputs={"X": name}, outputs={"Out": parts[-1]})
    w.block.append_op(type="sum", inputs={"X": parts}, outputs={"Out": "loss"})
    if w.rarely():
        w.block.append_op(type="scale", inputs={"X": "loss"}, outputs={"Out": "loss"}, attrs={"scale": 2.0})
    if not w.rarely():
        return "loss"
    w.block.append_op(type="reshape2", inputs={"X": "loss"}, outputs={"Out": "loss1"}, attrs={"shape": [1]})
    return "loss1"
