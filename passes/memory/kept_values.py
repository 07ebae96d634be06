"""Which values of the forward part are kept for the backward part, and which are computed again.

forward    w ─▶ mul ─▶ a ─▶ gelu ─▶ h ─▶ mul ─▶ ...          kept: a, the minimum cut between expensive and needed values
backward                a ─▶ gelu_grad    h ─▶ mul_grad      computed again: h
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import accumulate

import networkx as nx

from graphad.graph import Graph, Op, Value
from graphad.ops import GRAD, GradOpDef
from graphad.passes.analyses.formulas import PRODUCTS
from graphad.program import EMPTY, FORWARD
from graphad.types import TENSOR

Kept = frozenset[Value]


class ForwardPart:
    """The operators of the forward part, and the values of it that the rest reads.

    Args:
        graph: a whole graph with backward operators.
        bytes_of: the bytes of a value.

    Attributes:
        ops: the forward operators in order.
        needed: the forward values that other operators read more of than the shape.
    """

    def __init__(self, graph: Graph, bytes_of: Callable[[Value], int]) -> None:
        self.graph = graph
        self.bytes_of = bytes_of
        ordered = graph.ordered_ops()
        self.ops = [op for op in ordered if op.role == FORWARD]
        self.rest = [op for op in ordered if op.role != FORWARD]
        read = (value for op in self.rest for slot, values in op.inputs.items() if slot not in shapes_read(op) for value in values)
        self.needed = dict.fromkeys(value for value in read if is_forward(value) and not self.is_there(value))

    def is_there(self, value: Value) -> bool:
        """Whether a value is in memory until the end anyway."""
        return value.given or not value.writers or self.graph.is_observed(value)


def shapes_read(op: Op) -> set[str]:
    """The slots of which an operator of the backward part reads nothing but the shape, for the gradients that it gives."""
    row = op.row
    if not isinstance(row, GradOpDef) or row.forward is None or row.forward.grads is None:
        return {"X"} if op.type == "fill_zeros_like" else set()
    forward, grads = row.forward, row.forward.grads
    wanted = [slot.removesuffix(GRAD) for slot, values in op.outputs.items() if any(v.name != EMPTY for v in values)]
    return {s for s in op.inputs if all(s not in grads[slot].reads or forward.reads_shape(s, slot) for slot in wanted)}


def is_forward(value: Value) -> bool:
    """Whether a value is a tensor that the forward part computes."""
    return value.writer is not None and value.writer.role == FORWARD and value.kind == TENSOR


def can_repeat(op: Op) -> bool:
    """Whether an operator computes the same when it runs again, and does nothing else."""
    row = op.row
    if row is None or op.graphs or row.random or row.side_effect:
        return False
    return all(value.kind == TENSOR for value in (*op.reads(), *op.writes()))


def is_cheap(op: Op) -> bool:
    """Whether to run an operator again takes no longer than to read what it wrote, or nearly so: no product of matrices."""
    return can_repeat(op) and op.type not in PRODUCTS and op.type not in _DEAR


_DEAR = frozenset({"addmm", "conv2d_backprop_input", "conv2d_backprop_filter", "cumprod", "linear_recurrence", "top_k", "top_k_v2"})


# -- the smallest cut ----------------------------------------------------------------------------


def kept_by_cut(part: ForwardPart) -> Kept:
    """The fewest bytes from which all that is needed can be computed by cheap operators.

    A minimum cut between the values that are expensive to recompute and those that are needed: cutting through a value keeps it.
    """
    network: nx.DiGraph[object] = nx.DiGraph()
    network.add_nodes_from(("source", "sink"))
    pending, seen = list(part.needed), set(part.needed)
    for value in part.needed:
        network.add_edge((value, "out"), "sink")
    while pending:
        value = pending.pop()
        network.add_edge((value, "in"), (value, "out"), capacity=part.bytes_of(value))
        for given in _made_from(value):
            if given is None:
                network.add_edge("source", (value, "in"))
            elif not part.is_there(given):
                network.add_edge((given, "out"), (value, "in"))
                if given not in seen:
                    seen.add(given)
                    pending.append(given)
    _, (reached, _) = nx.minimum_cut(network, "source", "sink", flow_func=nx.algorithms.flow.boykov_kolmogorov)
    return frozenset(value for value in seen if (value, "in") in reached and (value, "out") not in reached)


def _made_from(value: Value) -> Iterator[Value | None]:
    """The values that a value is computed from; None if it is not to be recomputed."""
    writer = value.writer
    if writer is None or not is_cheap(writer):
        yield None
    else:
        yield from writer.reads()


# -- segments ------------------------------------------------------------------------------------


def kept_by_segments(part: ForwardPart, count: int) -> Kept:
    """The values that are live at the ends of ``count`` segments of about the same size, and those that cannot be recomputed.

    Within a segment all is recomputed from the values kept before it (T. Chen, B. Xu, C. Zhang and C. Guestrin, "Training deep
    nets with sublinear memory cost", 2016). A segment ends, near its nominal end, where the fewest bytes are live.
    """
    ops = part.ops
    place = {op: i for i, op in enumerate(ops)}
    alive = [v for op in ops for v in op.writes() if not part.is_there(v)]
    ends = {v: max((place[r] for r in v.readers if r in place), default=-1) for v in alive}
    cuts = _cuts([sum(map(part.bytes_of, op.writes())) for op in ops], _live(part, alive, place, ends), count)
    return frozenset(v for v in alive if not can_repeat(v.writers[0]) or _is_cut(cuts, place[v.writers[0]], ends[v]))


def _is_cut(cuts: list[int], made: int, end: int) -> bool:
    """Whether a segment ends between the writer of a value and its last reader."""
    return bisect_right(cuts, end) > bisect_right(cuts, made)


def _live(part: ForwardPart, alive: Collection[Value], place: Mapping[Op, int], ends: Mapping[Value, int]) -> list[int]:
    """The bytes that are alive between each operator and the one before it."""
    changes = [0] * (len(part.ops) + 2)
    for value in alive:
        if value.writer is not None and ends[value] >= 0:
            changes[place[value.writer] + 1] += part.bytes_of(value)
            changes[ends[value] + 1] -= part.bytes_of(value)
    return list(accumulate(changes))


def _cuts(made: list[int], live: list[int], count: int) -> list[int]:
    """Places to cut: where the least is alive in the quarter of a segment around each nominal end."""
    sums = list(accumulate(made))
    width = max(len(made) // (8 * count), 1)
    cuts = []
    for k in range(1, count):
        at = bisect_left(sums, sums[-1] * k / count)
        cuts.append(min(range(max(at - width, 1), min(at + width + 1, len(made))), key=lambda i: (live[i], abs(i - at)), default=at))
    return sorted(cuts)
