"""Compute forward values again in the backward part instead of keeping them.

    forward    mul ─▶ a ─▶ gelu ─▶ h ─▶ ...                     mul ─▶ a ─▶ gelu ─▶ h ─▶ ...
                      ┆            ┆                ⇒                  ┆
    backward        a ┆            ┆ h                                 ┆ a ─▶ gelu ─▶ h@RECOMPUTE
                      gelu_grad    mul_grad                            gelu_grad         mul_grad

Without a budget only cheap operators are recomputed, from a minimum cut that is kept. With a budget products of matrices are as
well, segment by segment, in as few segments as the budget allows. Values that are read for their shape alone are not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphad.errors import InvalidValue, Refused
from graphad.graph import Graph, Op, Value
from graphad.passes.analyses.cost import estimated
from graphad.passes.analyses.extents import bytes_of, extents
from graphad.passes.analyses.formulas import flops_of
from graphad.passes.memory.kept_values import ForwardPart, Kept, is_forward, kept_by_cut, kept_by_segments, shapes_read
from graphad.program import BACKWARD, FORWARD
from graphad.rewriting import Pass

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
        found = None if self.budget and before <= self.budget else self._best(graph, before)
        if found is None:
            graph.analyses[Recomputed] = Recomputed(before, before, 0, 0)
            return False
        segments, expected = found
        rewrites = graph.journal.rewrites
        self._compute_again(graph, segments)
        graph.analyses[Recomputed] = expected
        return graph.journal.rewrites > rewrites

    def _best(self, graph: Graph, before: int) -> tuple[int, Recomputed] | None:
        """The number of segments to make (0: the minimum cut), and its results; None if nothing helps."""
        tried = []
        for segments in self._segments(graph):
            tried.append((segments, self._tried(graph, before, segments)))
            if self.budget and tried[-1][1].after <= self.budget:
                break
        fitting = [each for each in tried if each[1].after <= (self.budget or before - 1)]
        if fitting:
            return min(fitting, key=lambda each: each[1].flops)
        if not self.budget:
            return None
        least = min(found.after for _, found in tried)
        raise Refused(f"the graph needs {before} bytes at once, with recompute {least} at least: not the {self.budget} of the budget")

    def _segments(self, graph: Graph) -> Iterator[int]:
        yield 0
        count, forward = 1, sum(op.role == FORWARD for op in graph.ops)
        while self.budget and count < forward:
            yield count
            count = max(count + 1, count * 5 // 4)

    def _tried(self, graph: Graph, before: int, segments: int) -> Recomputed:
        """Its results, tried on a copy."""
        copy = graph.clone()
        made = self._compute_again(copy, segments)
        return Recomputed(before, self._peak(copy), len(made), self._flops(copy, made))

    def _compute_again(self, graph: Graph, segments: int) -> list[Op]:
        shapes = extents(graph, self.batch)
        part = ForwardPart(graph, lambda value: bytes_of(value, shapes))
        kept = kept_by_segments(part, segments) if segments else kept_by_cut(part)
        return _Twins(part, kept).replace_all()

    # -- sizes -----------------------------------------------------------------------------------

    def _flops(self, graph: Graph, made: list[Op]) -> int:
        shapes = extents(graph, self.batch)
        return sum(flops_of(op, lambda value: shapes.get(value, ())) for op in made)

    def _peak(self, graph: Graph) -> int:
        """The most bytes there are at once."""
        return estimated(graph, self.batch).peak


class _Twins:
    """The forward values that are computed again, each once, before the first operator that needs it."""

    def __init__(self, part: ForwardPart, kept: Kept) -> None:
        self.part = part
        self.kept = kept
        self.twin: dict[Value, Value] = {}
        self.shape: dict[Value, Value] = {}
        self.made: list[Op] = []

    def replace_all(self) -> list[Op]:
        """Make the backward part read the recomputed values; return the operators that were added."""
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
        pending = [value]
        while pending:
            writer = pending[-1].writer
            assert writer is not None
            missing = [v for v in writer.reads() if self._is_lost(v) and v not in self.twin]
            if missing:
                pending += missing
                continue
            if pending.pop() not in self.twin:
                self._repeat(writer, before)
        return self.twin[value]

    def _repeat(self, op: Op, before: Op) -> None:
        """Let an operator of the forward part run again."""
        graph = op.graph
        inputs = {slot: [self.twin.get(v, v) for v in values] for slot, values in op.inputs.items()}
        outputs = {slot: [self._new(v) for v in values] for slot, values in op.outputs.items()}
        self.made.append(graph.add_op(op.type, inputs, outputs, op.attrs, before=before, role=BACKWARD, forward=op))

    def _new(self, value: Value) -> Value:
        graph = value.graph
        made = self.twin[value] = graph.add_value(value.name + RECOMPUTE, value.shape, value.dtype)
        return made

    def _stand_in(self, value: Value, before: Op) -> Value:
        """Something of the value's shape that takes no memory."""
        graph, writer = value.graph, value.writer
        assert writer is not None
        if value in self.shape:
            return self.shape[value]
        made = self.shape[value] = graph.add_value(f"{value.name}@SHAPE", value.shape, value.dtype)
        if value.shape is None or -1 in value.shape:
            graph.add_op("stand_in", {"X": [value]}, {"Out": [made]}, before=writer.next, role=BACKWARD, forward=writer)
        else:
            attrs = {"shape": list(value.shape), "dtype": value.dtype}
            graph.add_op("stand_in", {}, {"Out": [made]}, attrs, before=before, role=BACKWARD, forward=writer)
        return made
