"""Write out the iterations of a loop that is known to run a few times.

    i = 0; while(i < 3) { h = f(h); i = i + 1 }      ⇒      h = f(h); h = f(h); h = f(h)
    i = 0; while(i < 64) { h = f(h); i = i + 1 }     ⇒      i = 0; while(i < 64) { h = f(h); i = i + 1; h = f(h); i = i + 1 }      factor=2

How often a loop runs, its trip count says (``graphad.passes.analyses.trip_counts``).
"""

from __future__ import annotations

from dataclasses import dataclass

from graphad import edit
from graphad.errors import InvalidValue
from graphad.ir import Graph, Op
from graphad.ir.regions import is_forward_loop, operands, results_of
from graphad.passes.analyses.known_values import KnownValues
from graphad.passes.analyses.speculation import holds_uncopyable
from graphad.passes.analyses.trip_counts import MOST, count_trips
from graphad.passes.analyses.uninitialized import is_safe
from graphad.rewriting import OnTrial, Pass


@dataclass(frozen=True)
class UnrollWhile(Pass):
    """Replace loops that are known to run at most ``limit`` times by their iterations, the innermost first.

    Loops stay that have a gradient (unroll before differentiating), or hold random operators, which draw again in each iteration.

    Args:
        limit: how many iterations are written out, at most.
        factor: how many iterations a loop with more of them does in one, if their number is a multiple of it; 1: as it was.
        max_ops: how many operators a loop may become, at most.

    Raises:
        ValueError: an option is out of range.
    """

    name = "unroll-while"
    on_trial = OnTrial(programs=("optimizable", "nested", "any"))
    limit: int = 16
    factor: int = 1
    max_ops: int = 10_000

    def __post_init__(self) -> None:
        if self.limit < 0 or self.factor < 1:
            raise InvalidValue(f"unroll-while: limit is 0 or more and factor 1 or more, not limit={self.limit}, factor={self.factor}")

    def apply(self, graph: Graph) -> bool:
        stays: set[Op] = set()
        has_changed = False
        while self._round(graph, stays):
            has_changed = True
        return has_changed

    def _round(self, graph: Graph, stays: set[Op]) -> bool:
        """Try every loop, the innermost first; return whether one was unrolled, so that more may be known of others."""
        known_values, has_changed = KnownValues(graph), False
        stack = [op for subgraph in graph.tree(sealed=False) for op in subgraph.controls if is_forward_loop(op) and op not in stays]
        while stack:
            op = stack.pop()
            new_loops = self._unrolled(op, known_values, stays)
            has_changed |= new_loops is not None
            stack += new_loops or ()
        return has_changed

    def _unrolled(self, op: Op, known: KnownValues, stays: set[Op]) -> list[Op] | None:
        """The loops in what a loop has become, None if it stays as it is; ``stays`` gets a loop that does several iterations in one."""
        (body,) = op.graphs.values()
        if edit.gradients_of(op) != [] or holds_uncopyable((body,)):
            return None
        # Counted far enough for both options: writing all out, and doing several in one.
        count = count_trips(op, known, max(self.limit, MOST if self.factor > 1 else 0))
        size = sum(len(subgraph.ops) for subgraph in body.tree())
        if count is None:
            return None
        if count == 0 and not all(is_safe(out, start) for out, start in zip(results_of(op), operands(op), strict=False)):
            return None
        if count <= self.limit and count * size <= self.max_ops:
            return _written_out(op, count, known) if op.graph.allows("unroll", op) else None
        if self.factor == 1 or count % self.factor or self.factor * size > self.max_ops or not op.graph.allows("unroll-partly", op):
            return None
        longer = edit.unroll(op, self.factor)
        known.note([longer])
        stays.add(longer)
        return []


def _written_out(op: Op, count: int, known: KnownValues) -> list[Op]:
    if count == 0:
        edit.skip(op)
        return []
    # The last iteration replaces the loop itself, so that its results keep their names.
    copies = [member for _ in range(count - 1) for member in edit.peel(op, runs=True)]
    copies += edit.run_once(op)
    controls = [member for op in copies for graph in op.graphs.values() for member in [op, *(c for g in graph.tree() for c in g.controls)]]
    known.note(copies)
    return [member for member in controls if is_forward_loop(member)]
