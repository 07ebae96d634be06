"""Whether two nested graphs do the same: the same operators in the same order on the same values, whatever those are called."""

from __future__ import annotations

from graphad.graph import Graph, Op, Value
from graphad.graph.nodes import Slots
from graphad.graph.residuals import residual_inputs

_Pairs = dict[Value, Value]


def same_graphs(one: Graph, other: Graph) -> bool:
    """Whether two graphs make the same results of the same inputs by the same operators, each in the order of its own."""
    return _same(one, other, {})


def _same(one: Graph, other: Graph, pairs: _Pairs) -> bool:
    if len(one.ops) != len(other.ops) or len(one.inputs) != len(other.inputs) or residual_inputs(one) or residual_inputs(other):
        return False
    pairs.update(zip(one.inputs, other.inputs, strict=True))
    for a, b in zip(one.ordered_ops(), other.ordered_ops(), strict=True):
        if not _same_op(a, b, pairs):
            return False
    return [pairs.get(value) for value in one.results] == other.results


def _same_op(a: Op, b: Op, pairs: _Pairs) -> bool:
    if a.type != b.type or a.row is None or a.attrs != b.attrs or list(a.graphs) != list(b.graphs):
        return False
    if not _same_slots(a.inputs, b.inputs, pairs) or list(a.outputs) != list(b.outputs):
        return False
    if not all(_same(a.graphs[name], b.graphs[name], pairs) for name in a.graphs):
        return False
    for slot, values in a.outputs.items():
        if len(values) != len(b.outputs[slot]) or any(
            v.stop_gradient != w.stop_gradient for v, w in zip(values, b.outputs[slot], strict=True)
        ):
            return False
        pairs.update(zip(values, b.outputs[slot], strict=True))
    return True


def _same_slots(a: Slots, b: Slots, pairs: _Pairs) -> bool:
    return list(a) == list(b) and all(tuple(pairs.get(v) for v in values) == b[slot] for slot, values in a.items())
