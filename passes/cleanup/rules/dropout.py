"""Dropout that drops nothing. These rules are written in Python: checking a rule has no random numbers to give to the operator."""

from __future__ import annotations

from graphad.ir import Op, Value
from graphad.rewriting import Rule


class DropoutInTest(Rule):
    """dropout(x, is_test=True) ⇒ x, or scale(x, scale=1 - dropout_prob) where training does not upscale"""

    name = "dropout-in-test"
    types = frozenset({"dropout"})

    def rewrite(self, op: Op) -> bool:
        if not op.attrs.get("is_test", False):
            return False
        upscaled = op.attrs.get("dropout_implementation", "downgrade_in_infer") == "upscale_in_train"
        return _scaled(self, op, 1.0 if upscaled else 1.0 - float(op.attrs.get("dropout_prob", 0.5)))


class DropoutOfNothing(Rule):
    """dropout(x, dropout_prob=0.0) ⇒ x"""

    name = "dropout-of-nothing"
    types = frozenset({"dropout"})

    def rewrite(self, op: Op) -> bool:
        return op.attrs.get("dropout_prob", 0.5) == 0.0 and _scaled(self, op, 1.0)


def _scaled(rule: Rule, op: Op, scale: float) -> bool:
    """Put X times a number in the place of Out, if the mask is not read."""
    graph, x, out, mask = op.graph, op.input("X"), op.output("Out"), op.output("Mask")
    # The mask is drawn: if it is read, it has to be the one that was applied.
    if mask.readers or graph.is_observed(mask) or x.shape is None or out.shape is None or out.stop_gradient != x.stop_gradient:
        return False
    if not (out.readers or graph.is_observed(out)) or not graph.allows(rule.name, op):
        return False
    graph.substitute(out, x if scale == 1.0 else _made(op, x, out, scale))
    return True


def _made(op: Op, x: Value, out: Value, scale: float) -> Value:
    new = op.graph.add_value(f"{out.name}.scaled", out.shape, out.dtype)
    new_op = op.graph.add_op("scale", {"X": [x]}, {"Out": [new]}, {"scale": scale}, before=op, role=op.role)
    new_op.source, new_op.forward = op.source, op.forward
    new.grad_of = out.grad_of
    return new
