"""Definite assignment: the values that certainly exist whenever their graph runs, and those that may be uninitialized."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from graphad.ir import Graph, Op, Value
from graphad.ir.regions import Edge, LoopLike, operands, results_of
from graphad.ir.residuals import residual_of
from graphad.program import EMPTY
from graphad.rewriting import Analysis
from graphad.rewriting.dataflow import Dataflow, Facts
from graphad.types import TENSOR

# -- values that may be uninitialized --------------------------------------------------------------
# Values that may be uninitialized: reading one is an error, except for operators with optional inputs.
#
#     conditional_block(c) { y = tanh(x) } -> y;  select_output(Like=[y, ...])      folded to what y was before: is there anything?
#
# A program in which some operator may write a name can be run without it; one in which none does cannot.


def is_safe(out: Value, value: Value) -> bool:
    """Whether a value can be read where ``out`` was: it is there for sure, or all readers need one anyway."""
    return not _may_be_missing(value) or all(map(_needs_all, out.readers))


def _may_be_missing(value: Value) -> bool:
    """Whether a value is given to the whole program, as far as one can see only to operators that do not need one."""
    # Out through the operators around, to where the value is written or given to the whole program.
    while value.given and (owner := value.graph.owner) is not None:
        residual = residual_of(value)
        value = operands(owner)[value.graph.inputs.index(value)] if residual is None else residual
    if not value.given:
        return any(op.definition is not None and op.definition.is_absent for op in value.writers)
    return not value.persistable and not any(map(_needs_all, value.readers))


def _needs_all(op: Op) -> bool:
    return op.definition is not None and not op.definition.partial and not op.graphs


# -- certain ---------------------------------------------------------------------------------------
# Which values there are for certain whenever their graph runs.
#
#     if_else(c) { y = tanh(x) } else { y is left as it was } -> y       if there was no y, reading it may fail
#
# What is given to the whole program, data and parameters, is taken to be there; but not if it has the name of something that operators
# write, unless one that needs a value reads it: then it may be what a branch would have left as it was.


@dataclass(frozen=True)
class Certain(Analysis):
    """The values of a graph, and of those nested in it, that no run leaves without a value."""

    values: frozenset[Value]

    @classmethod
    def compute(cls, graph: Graph) -> Certain:
        facts = _There().solve(graph)
        return cls(frozenset(value for subgraph in graph.tree() for value in subgraph.values if facts[value]))


@dataclass(frozen=True)
class _There(Dataflow[bool]):
    """Definite assignment: true of a value that is there on all ways to where it is read.

    Attributes:
        missing: totals of the gradients of loops that may have no value; found by solving.
    """

    bottom, top, of_presence = True, False, True
    missing: frozenset[Value] = frozenset()

    def solve(self, graph: Graph) -> Facts[bool]:
        # A total to which no iteration adds is zeros like the operand, so there is none without an operand. No edge leads from one to the
        # other, since no value does; each round finds a total more, or is the last.
        facts = super().solve(graph)
        missing = self.missing | {total for operand, total in _totals(graph) if not facts[operand]}
        return facts if missing == self.missing else replace(self, missing=missing).solve(graph)

    def join(self, a: bool, b: bool) -> bool:
        return a and b

    def boundary(self, value: Value) -> bool:
        # The only value of its name is data, which is fed; of several, the first may be what a branch leaves where it is not taken.
        return value.persistable or value.graph.values.number(value) is None or is_needed(value)

    def transfer(self, op: Op, facts: Facts[bool]) -> dict[Value, bool]:
        return dict.fromkeys(op.writes(), _writes_surely(op, facts))

    def holds(self, fact: bool, array: object, run: dict[Any, Any]) -> bool:
        return not fact or array is not None

    def along(self, edge: Edge, fact: bool) -> bool:
        """A cotangent that is left out is nowhere in a gradient's graph."""
        return fact and edge.source.name != EMPTY and edge.target not in self.missing


def _totals(graph: Graph) -> Iterator[tuple[Value, Value]]:
    """The sums that gradients of loops accumulate over their iterations, each after the operand whose gradient it is."""
    for op in (op for subgraph in graph.tree() for op in subgraph.controls):
        loop = LoopLike.of(op)
        if loop is not None and loop.is_gradient:
            yield from zip(loop.captured, results_of(op)[len(loop.carried_at) :], strict=False)


def is_needed(value: Value) -> bool:
    """Whether an operator of its graph that needs a value reads it, or what copies are made of it: then the graph cannot run without."""
    waiting = [value]
    for copy in waiting:
        for op in (op for op in copy.readers if op.definition is not None and not op.graphs):
            if _needs_all(op):
                return True
            # An operator that can do without a value passes the question on to whatever reads what it makes of this one alone.
            if list(op.reads()) == [copy]:
                waiting += op.writes()
    return False


def _writes_surely(op: Op, there: Facts[bool]) -> bool:
    """Whether an operator that runs writes its results for certain; a partial one may pass on a missing value."""
    definition = op.definition
    if definition is None or definition.is_absent or "run_once" in op.attrs:
        return False
    # What is taken out of an aggregate may have been put in without a value.
    takes_out = any(v.kind != TENSOR for v in op.reads()) and any(v.kind == TENSOR for v in op.writes())
    return not definition.partial or (not takes_out and all(there[value] for value in op.reads()))
