"""The inputs of gradients of which only the shape is read, so that nothing else has to be kept for them."""

from __future__ import annotations

from graphad.ir import Op
from graphad.ops import GRAD, GradOpDef
from graphad.program import EMPTY


def shapes_read(op: Op) -> set[str]:
    """The slots of which an operator of the backward part reads nothing but the shape, for the gradients that it gives."""
    definition = op.definition
    if not isinstance(definition, GradOpDef) or definition.forward is None or definition.forward.grads is None:
        return {*op.inputs} if definition is not None and definition.of_shape else set()
    # A slot may be read in full for one gradient and for its shape for another: what counts are those that are written.
    forward, grads = definition.forward, definition.forward.grads
    slots = [slot.removesuffix(GRAD) for slot, values in op.outputs.items() if any(v.name != EMPTY for v in values)]
    return {s for s in op.inputs if all(s not in grads[slot].reads or forward.reads_shape(s, slot) for slot in slots)}
