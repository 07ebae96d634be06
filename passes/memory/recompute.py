"""Compute forward values again in the backward part instead of keeping them.

    forward    mul ─▶ a ─▶ gelu ─▶ h ─▶ ...                     mul ─▶ a ─▶ gelu ─▶ h ─▶ ...
                      ┆            ┆                ⇒                  ┆
    backward        a ┆            ┆ h                                 ┆ a ─▶ gelu ─▶ h@RECOMPUTE
                      gelu_grad    mul_grad                            gelu_grad         mul_grad

Without a budget only what is cheap is computed again, from the smallest cut that is kept for it. With a budget products of
matrices are as well, segment by segment, in as few segments as the budget allows. What is read for its shape alone is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from graphad.errors import InvalidValue, Refused
from graphad.graph import Graph, Op, Value
from graphad.passes.analyses.cost import estimated
from graphad.passes.analyses.formulas import flops_of
from graphad.passes.analyses.liveness import Liveness
from graphad.passes.memory.kept_values import ForwardPart, Kept, is_forward, kept_by_cut, kept_by_segments, shapes_read
from graphad.program import BACKWARD
from graphad.rewriting import Pass

RECOMPUTE = "@RECOMPUTE"


@dataclass(frozen=True)
class Recomputed:
    """What ``recompute`` did: the peak memory in bytes before and behind it, operators that run again, and their operations."""

    before: int
    after: int
    ops: int
    flops: int


@dataclass(frozen=True)
class Recompute(Pass):
    """Keep less of the forward part for the backward part, and compute the rest again.

    ``graph.analyses[Recomputed]`` has the peak memory before and behind it. All values stay the same to the last bit. Operators that
    draw random numbers, have effects or hold blocks do not run again (of loops, ``checkpoint-while`` keeps less).

    Args:
        budget: bytes that the graph may need at once; 0: whatever cheap operators lead to.
        batch: what unknown extents are taken to be.

    Raises:
        Refused: the budget cannot be kept.
        ValueError: the budget is negative.
    """

    name = "recompute"
    establishes = (Recomputed,)
    budget: int = 0
    batch: int = 1

    def __post_init__(self) -> None:
        if self.budget < 0:
            raise InvalidValue(f"a budget is a number of bytes, not {self.budget}")

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
        """How many segments to make (0: the smallest cut), and what comes of it; None if nothing helps."""
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
        count = 1
        while self.budget and count < len(graph.ops):
            yield count
            count = max(count + 1, count * 5 // 4)

    def _tried(self, graph: Graph, before: int, segments: int) -> Recomputed:
        """What would come of it, by a copy."""
        copy = graph.clone()
        made = self._compute_again(copy, segments)
        return Recomputed(before, self._peak(copy), len(made), sum(flops_of(op, self._shape) for op in made))

    def _compute_again(self, graph: Graph, segments: int) -> list[Op]:
        part = ForwardPart(graph, self._bytes)
        kept = kept_by_segments(part, segments) if segments else kept_by_cut(part)
        return _Twins(part, kept).replace_all()

    # -- sizes -----------------------------------------------------------------------------------

    def _shape(self, value: Value) -> tuple[int, ...]:
        return tuple(self.batch if extent == -1 else extent for extent in value.shape or ())

    def _bytes(self, value: Value) -> int:
        return 0 if value.shape is None or value.dtype is None else prod(self._shape(value)) * np.dtype(value.dtype).itemsize

    def _peak(self, graph: Graph) -> int:
        """The most bytes there are at once, without those of stand-ins, which take none."""
        cost, live = estimated(graph, self.batch), Liveness.of(graph)
        shown = {value: bytes for value, bytes in cost.sizes.items() if not value.writers or value.writers[0].type != "stand_in"}
        now = most = cost.given
        gone: dict[int, int] = {}
        for value, end in live.last.items():
            if not value.given:
                gone[end] = gone.get(end, 0) + shown.get(value, 0)
        for place, op in enumerate(live.order):
            now += sum(shown.get(value, 0) for value in op.writes())
            inside = [cost.nested[each].peak - cost.nested[each].given for each in op.graphs.values()]
            most = max(most, now + max(inside, default=0))
            now -= gone.get(place, 0)
        return most


class _Twins:
    """The forward values that are computed again, each once, before the first operator that needs it."""

    def __init__(self, part: ForwardPart, kept: Kept) -> None:
        self.part = part
        self.kept = kept
        self.twin: dict[Value, Value] = {}
        self.shape: dict[Value, Value] = {}
        self.made: list[Op] = []

    def replace_all(self) -> list[Op]:
        """Make the backward part read what is computed again; return the operators that were added."""
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
        """The value computed again from what is kept, with all that this takes."""
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
