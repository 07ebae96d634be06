"""Equal inputs that the same operators read, drawn once.

feature_0   feature_1  …  feature_59               feature_0 … feature_59
    └───────────┼─────────────┘             ⇒      60 of float32[-1, 3]
             concat                                          │
                                                          concat
"""

from __future__ import annotations

from graphad.drawing.folding import Folding
from graphad.ir import Graph, Value

LEAST = 12  # inputs: so many side by side are wider than a page


def bundle_inputs(graph: Graph, folding: Folding) -> None:
    """Let the first of many inputs stand for all that have its type and are read in the same slots, and that no gradient flows to."""
    bundles: dict[tuple[object, ...], list[Value]] = {}
    for value in graph.values:
        if value.readers and value.stop_gradient and not value.writers and folding.of(value) is value:
            # The slots count: inputs of one operator in different slots mean different things.
            slots = frozenset((op, slot) for op in value.readers for slot, values in op.inputs.items() if value in values)
            bundles.setdefault((str(value.type), value.persistable, slots), []).append(value)
    for first, *others in bundles.values():
        if len(others) >= LEAST - 1:
            folding.bundles[first] = [first, *others]
            folding.representatives |= dict.fromkeys(others, first)
