"""Rules for operators that choose between values, where the mask is a constant.

select_input(X=[a, b], Mask=1) ⇒ b                     select_output(X=x, Mask=0, Like=[a, b]) ⇒ x, fill_zeros_like(b)
merge_lod_tensor(Mask=True, InTrue=a, ...) ⇒ a         where(Condition=True, X=a, Y=b) ⇒ a
"""

from __future__ import annotations

from dataclasses import dataclass

from graphad.graph import Op, Value
from graphad.passes.analyses.known_values import KnownValues
from graphad.rewriting import Rule
from graphad.rewriting.constants import uniform_number


@dataclass(repr=False)
class _Choice(Rule):
    """A choice by a mask that is a constant."""

    known: KnownValues

    def number(self, op: Op, slot: str) -> int | None:
        """The number that a mask is all over, None if it is not known to be one."""
        value = op.input(slot)
        array = self.known.array(value)
        found = uniform_number(value) if array is None else array.reshape(())[()]
        return None if found is None else int(found)

    def put(self, op: Op, value: Value) -> bool:
        """Replace the operator's result by a value, unless gradients would no longer stop there."""
        out = op.output("Out")
        if (out.stop_gradient and not value.stop_gradient) or out.dtype != value.dtype or not op.graph.allows(self.name, op):
            return False
        op.graph.substitute(out, value)
        return True


class SelectInput(_Choice):
    """One of several values, chosen by a constant: that one."""

    name = "known-select-input"
    types = frozenset(("select_input",))

    def rewrite(self, op: Op) -> bool:
        which = self.number(op, "Mask")
        return which is not None and 0 <= which < len(op.inputs["X"]) and self.put(op, op.inputs["X"][which])


class SelectOutput(_Choice):
    """A ``select_output`` with a constant choice: its input at that place, zeros elsewhere."""

    name = "known-select-output"
    types = frozenset(("select_output",))

    def rewrite(self, op: Op) -> bool:
        which, x, outs = self.number(op, "Mask"), op.input("X"), op.outputs["Out"]
        if which is None or not 0 <= which < len(outs) or (outs[which].stop_gradient and not x.stop_gradient):
            return False
        graph = op.graph
        if not graph.allows(self.name, op):
            return False
        for i, (out, like) in enumerate(zip(outs, op.inputs["Like"], strict=True)):
            if i != which:
                zeros = graph.add_version(graph.values.fresh(out.name), out.shape, out.dtype)
                zeros.kind = out.kind
                graph.add_op("fill_zeros_like", {"X": [like]}, {"Out": [zeros]}, before=op, role=op.role, forward=op.forward)
                graph.substitute(out, zeros)
        graph.substitute(outs[which], x)
        return True


class Merge(_Choice):
    """Rows that all come from one side: that side."""

    name = "known-merge"
    types = frozenset(("merge_lod_tensor",))

    def rewrite(self, op: Op) -> bool:
        number, shape = self.number(op, "Mask"), op.input("Mask").shape
        side = op.inputs.get("InTrue" if number else "InFalse", ())
        if number is None or not side or not shape or min(shape) < 1:
            return False
        return self.put(op, side[0])


class Where(_Choice):
    """Elements that all come from one side: that side, if it need not be broadcast."""

    name = "known-where"
    types = frozenset(("where",))

    def rewrite(self, op: Op) -> bool:
        number = self.number(op, "Condition")
        if number is None:
            return False
        side, shapes = op.input("X" if number else "Y"), [value.shape for value in op.reads()]
        if side.shape is None or -1 in side.shape or side.shape != op.output("Out").shape or None in shapes:
            return False
        return self.put(op, side)


RULES = (SelectInput, SelectOutput, Merge, Where)
