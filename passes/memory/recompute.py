"""Compute forward values again in the backward part instead of keeping them.

    forward    mul ─▶ a ─▶ gelu ─▶ h ─▶ ...                     mul ─▶ a ─▶ gelu ─▶ h ─▶ ...
                      ┆            ┆                ⇒                  ┆
    backward        a ┆            ┆ h                                 ┆ a ─▶ gelu ─▶ h@RECOMPUTE
                      gelu_grad    mul_grad                            gelu_grad         mul_grad

Without a budget only cheap operators are recomputed, from a minimum cut that is kept. With a budget products of matrices are as
well, segment by segment, in as few segments as the budget allows. Values that are read for their shape alone are not kept.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

import networkx as nx

from graphad.errors import InvalidValue, Refused
from graphad.ir import Graph, Op, Value
from graphad.passes.analyses.cost import bytes_of, estimated, extents, flops_of
from graphad.passes.analyses.shapes_read import shapes_read
from graphad.passes.backward.prune_no_grad import STANDS_IN
from graphad.program import BACKWARD, FORWARD
from graphad.rewriting import OnTrial, Pass
from graphad.types import TENSOR

# -- what is kept ----------------------------------------------------------------------------------
# Which values of the forward part are kept for the backward part, and which are computed again.
#
# forward    w ─▶ mul ─▶ a ─▶ gelu ─▶ h ─▶ mul ─▶ ...          kept: a, the minimum cut between expensive and needed values
# backward                a ─▶ gelu_grad    h ─▶ mul_grad      computed again: h

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
        ops = graph.ordered_ops()
        self.ops = [op for op in ops if op.role == FORWARD]
        self.rest = [op for op in ops if op.role != FORWARD]
        values_read = (value for op in self.rest for slot, values in op.inputs.items() if slot not in shapes_read(op) for value in values)
        # What is stored between forward and backward: forward values that others read, unless it is their shape alone that is read.
        self.needed = dict.fromkeys(value for value in values_read if is_forward(value) and not self.is_there(value))

    def is_there(self, value: Value) -> bool:
        """Whether a value is in memory until the end anyway."""
        return value.given or not value.writers or self.graph.is_observed(value)


def is_forward(value: Value) -> bool:
    """Whether a value is a tensor that the forward part computes."""
    return value.writer is not None and value.writer.role == FORWARD and value.kind == TENSOR


def can_repeat(op: Op) -> bool:
    """Whether an operator computes the same when it runs again, and does nothing else."""
    definition = op.definition
    if definition is None or op.graphs or definition.random or definition.side_effect:
        return False
    return all(value.kind == TENSOR for value in (*op.reads(), *op.writes()))


def is_cheap(op: Op) -> bool:
    """Whether to run an operator again takes no longer than to read what it wrote, or nearly so: no product of matrices."""
    return can_repeat(op) and op.definition is not None and not (op.definition.narrow == "gains" or op.definition.costly)


# -- the smallest cut ----------------------------------------------------------------------------


def kept_by_cut(part: ForwardPart) -> Kept:
    """The fewest bytes from which all that is needed can be computed by cheap operators.

    A minimum cut between the values that are expensive to recompute and those that are needed: cutting through a value keeps it.
    """
    network: nx.DiGraph[object] = nx.DiGraph()
    # Each value is two nodes, whose edge weighs its bytes; all other edges weigh infinitely much, so that only values are cut through
    # (L. R. Ford and D. R. Fulkerson, "Maximal flow through a network", 1956).
    network.add_nodes_from(("source", "sink"))
    stack, candidates = list(part.needed), set(part.needed)
    for value in part.needed:
        network.add_edge((value, "out"), "sink")
    while stack:
        value = stack.pop()
        network.add_edge((value, "in"), (value, "out"), capacity=part.bytes_of(value))
        for source in _made_from(value):
            if source is None:
                network.add_edge("source", (value, "in"))
            elif not part.is_there(source):
                network.add_edge((source, "out"), (value, "in"))
                if source not in candidates:
                    candidates.add(source)
                    stack.append(source)
    _, (source_side, _) = nx.minimum_cut(network, "source", "sink", flow_func=nx.algorithms.flow.boykov_kolmogorov)
    # A value is kept if the cut goes between its two nodes.
    return frozenset(value for value in candidates if (value, "in") in source_side and (value, "out") not in source_side)


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
    # Between two cuts nothing is kept, so a value is kept if its live range, writer to last forward reader, contains a cut.
    place = {op: i for i, op in enumerate(ops)}
    values = [v for op in ops for v in op.writes() if not part.is_there(v)]
    ends = {v: max((place[r] for r in v.readers if r in place), default=-1) for v in values}
    cuts = _cuts([sum(map(part.bytes_of, op.writes())) for op in ops], _live(part, values, place, ends), count)
    return frozenset(
        v for v in values if not can_repeat(v.writers[0]) or bisect_right(cuts, ends[v]) > bisect_right(cuts, place[v.writers[0]])
    )


def _live(part: ForwardPart, alive: Collection[Value], place: Mapping[Op, int], ends: Mapping[Value, int]) -> list[int]:
    """The bytes that are alive between each operator and the one before it."""
    # Differences of a sum: each live range adds at its start and takes off at its end, in linear time.
    changes = [0] * (len(part.ops) + 2)
    for value in alive:
        if value.writer is not None and ends[value] >= 0:
            changes[place[value.writer] + 1] += part.bytes_of(value)
            changes[ends[value] + 1] -= part.bytes_of(value)
    return list(accumulate(changes))


def _cuts(sizes: list[int], live: list[int], count: int) -> list[int]:
    """Places to cut: where the least is alive in the quarter of a segment around each nominal end."""
    sums = list(accumulate(sizes))
    width = max(len(sizes) // (8 * count), 1)
    cuts = []
    for k in range(1, count):
        at = bisect_left(sums, sums[-1] * k / count)
        cuts.append(min(range(max(at - width, 1), min(at + width + 1, len(sizes))), key=lambda i: (live[i], abs(i - at)), default=at))
    return sorted(cuts)


# -- the pass --------------------------------------------------------------------------------------

RECOMPUTE = "@RECOMPUTE"


@dataclass(frozen=True)
class Recomputed:
    """The results of ``recompute``: the peak memory in bytes before and after it, operators that run again, and their operations."""

    before: int
    after: int
    ops: int
    flops: int


@dataclass(frozen=True)
class Recompute(Pass):
    """Keep less of the forward part for the backward part, and compute the rest again.

    ``graph.analyses[Recomputed]`` has the peak memory before and after it. All values stay the same to the last bit. Operators that
    draw random numbers, have effects or hold blocks do not run again (of loops, ``checkpoint-while`` keeps less).

    Args:
        budget: bytes that the graph may need at once; 0: whatever cheap operators lead to.
        batch: what unknown extents of the data are taken to be; the others follow by inference.

    Raises:
        Refused: the budget cannot be kept.
        ValueError: the budget is negative, or ``batch`` below 1.
    """

    name = "recompute"
    on_trial = OnTrial(programs=("deep", "any"), after_backward=True)
    establishes = (Recomputed,)
    budget: int = 0
    batch: int = 1

    def __post_init__(self) -> None:
        if self.budget < 0:
            raise InvalidValue(f"a budget is a number of bytes, not {self.budget}")
        if self.batch < 1:
            raise InvalidValue(f"recompute takes a batch of 1 sample at least, not batch={self.batch}")

    def apply(self, graph: Graph) -> bool:
        before = self._peak(graph)
        best = None if self.budget and before <= self.budget else self._best(graph, before)
        if best is None:
            graph.analyses[Recomputed] = Recomputed(before, before, 0, 0)
            return False
        segments, expected = best
        rewrites = graph.journal.rewrites
        self._compute_again(graph, segments)
        graph.analyses[Recomputed] = expected
        return graph.journal.rewrites > rewrites

    def _best(self, graph: Graph, before: int) -> tuple[int, Recomputed] | None:
        """The number of segments to make (0: the minimum cut), and its results; None if nothing helps."""
        attempts = []
        # The minimum cut comes first, since it recomputes only cheap operators; then segments, from few to many.
        for segments in self._segments(graph):
            attempts.append((segments, self._tried(graph, before, segments)))
            if self.budget and attempts[-1][1].after <= self.budget:
                break
        # Of those that fit, the one that computes the least again.
        fitting = [item for item in attempts if item[1].after <= (self.budget or before - 1)]
        if fitting:
            return min(fitting, key=lambda item: item[1].flops)
        if not self.budget:
            return None
        least = min(candidate.after for _, candidate in attempts)
        raise Refused(f"the graph needs {before} bytes at once, with recompute {least} at least: not the {self.budget} of the budget")

    def _segments(self, graph: Graph) -> Iterator[int]:
        yield 0
        count, forward = 1, sum(op.role == FORWARD for op in graph.ops)
        while self.budget and count < forward:
            yield count
            # Geometric steps: trying a number costs a copy of the graph.
            count = max(count + 1, count * 5 // 4)

    def _tried(self, graph: Graph, before: int, segments: int) -> Recomputed:
        """Its results, tried on a copy."""
        copy = graph.clone()
        ops = self._compute_again(copy, segments)
        return Recomputed(before, self._peak(copy), len(ops), self._flops(copy, ops))

    def _compute_again(self, graph: Graph, segments: int) -> list[Op]:
        shapes = extents(graph, self.batch)
        part = ForwardPart(graph, lambda value: bytes_of(value, shapes))
        values = kept_by_segments(part, segments) if segments else kept_by_cut(part)
        return _Copies(part, values).replace_all()

    # -- sizes -----------------------------------------------------------------------------------

    def _flops(self, graph: Graph, ops: list[Op]) -> int:
        shapes = extents(graph, self.batch)
        return sum(flops_of(op, lambda value: shapes.get(value, ())) for op in ops)

    def _peak(self, graph: Graph) -> int:
        """The most bytes there are at once."""
        return estimated(graph, self.batch).peak


class _Copies:
    """The forward values that are computed again, each once, before the first operator that needs it."""

    def __init__(self, part: ForwardPart, residuals: Kept) -> None:
        self.part = part
        self.kept = residuals
        self.copies: dict[Value, Value] = {}
        self.shape: dict[Value, Value] = {}
        self.made: list[Op] = []

    def replace_all(self) -> list[Op]:
        """Make the backward part read the recomputed values; return the operators that were added."""
        # In order, so that a value is recomputed right before its first reader, and later readers share the copy.
        for op in self.part.rest:
            shapes = shapes_read(op)
            for slot, values in list(op.inputs.items()):
                if any(map(self._is_lost, values)) and not self._replace(op, slot, slot in shapes):
                    return self.made
        return self.made

    def _is_lost(self, value: Value) -> bool:
        return is_forward(value) and value not in self.kept and not self.part.is_there(value)

    def _replace(self, op: Op, slot: str, shape_only: bool) -> bool:
        """Let an operator read other values in a slot; False where no more rewrites are allowed."""
        graph, values = op.graph, op.inputs[slot]
        if not graph.allows("keep-shape" if shape_only else "compute-again", op):
            return False
        new = self._stand_in if shape_only else self._again
        graph.set_inputs(op, slot, [new(v, op) if self._is_lost(v) else v for v in values])
        return True

    # -- values ----------------------------------------------------------------------------------

    def _again(self, value: Value, before: Op) -> Value:
        """The value recomputed from kept ones, with all operators that this takes."""
        stack = [value]
        # Depth first, without recursion: a chain of recomputed operators may be as long as the program.
        while stack:
            writer = stack[-1].writer
            assert writer is not None
            operands = [v for v in writer.reads() if self._is_lost(v) and v not in self.copies]
            if operands:
                stack += operands
                continue
            if stack.pop() not in self.copies:
                self._repeat(writer, before)
        return self.copies[value]

    def _repeat(self, op: Op, before: Op) -> None:
        """Let an operator of the forward part run again."""
        graph = op.graph
        inputs = {slot: [self.copies.get(v, v) for v in values] for slot, values in op.inputs.items()}
        outputs = {slot: [self._new(v) for v in values] for slot, values in op.outputs.items()}
        self.made.append(graph.add_op(op.type, inputs, outputs, op.attrs, before=before, role=BACKWARD, forward=op))

    def _new(self, value: Value) -> Value:
        graph = value.graph
        name = graph.values.fresh(value.name + RECOMPUTE)
        # Where gradients stop at the value, or are clipped, those of the gradients do at the copy.
        result = self.copies[value] = graph.add_version(name, value.shape, value.dtype, value.var_named(name))
        return result

    def _stand_in(self, value: Value, before: Op) -> Value:
        """Something of the value's shape that takes no memory."""
        graph, writer = value.graph, value.writer
        assert writer is not None
        if value in self.shape:
            return self.shape[value]
        result = self.shape[value] = graph.add_value(value.name + STANDS_IN, value.shape, value.dtype)
        # Of an open shape it reads the value, right after its writer: from there on the value itself need not be kept.
        if value.shape is None or -1 in value.shape:
            graph.add_op("stand_in", {"X": [value]}, {"Out": [result]}, before=writer.next, role=BACKWARD, forward=writer)
        else:
            attrs = {"shape": list(value.shape), "dtype": value.dtype}
            graph.add_op("stand_in", {}, {"Out": [result]}, attrs, before=before, role=BACKWARD, forward=writer)
        return result
