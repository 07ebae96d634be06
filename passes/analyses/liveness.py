"""Liveness: until which operator each value of a graph is needed, in the order in which the operators are scheduled.

0  a = tanh(x)        a ▉▉▉            x is given, so it lives all the time
1  b = assign(a)      b  ┆▉▉▉          b is a view: the memory of a, needed until b is
2  c = exp(b)         c     ▉▉▉▉▉      c is requested, so it lives to the end
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from graphad.ir import Graph, Op, Value
from graphad.rewriting import Analysis
from graphad.rewriting.dataflow import Dataflow, Facts


@dataclass(frozen=True)
class Liveness(Analysis):
    """The live ranges of the values of one graph; the graphs nested in it have analyses of their own.

    Attributes:
        order: the operators as they are scheduled.
        last: for each value the place in ``order`` of the last operator that needs its memory: a reader of it or of a view of it, else
            its writer; ``len(order)`` for what lives to the end: what is given, requested, returned or kept for a gradient.
        owner: for each value that is a view the value in whose memory it lies.

    >>> import graphad as ga
    >>> text = "program { block 0 { var x: float32[2] tanh(X=x) -> (Out=y) exp(X=y) -> (Out=z) } }"
    >>> graph = ga.lower(ga.Program.parse(text))
    >>> Liveness.of(graph).last
    {x: 2, y: 1, z: 2}
    """

    order: tuple[Op, ...]
    last: dict[Value, int]
    owner: dict[Value, Value]

    @classmethod
    def compute(cls, graph: Graph) -> Liveness:
        order = tuple(graph.ordered_ops())
        lasting = frozenset([*graph.inputs, *graph.results, *graph.residuals, *graph.targets])
        places = _LastNeed(lasting).solve(graph)
        return cls(order, {value: min(places[value], len(order)) for value in graph.values}, dict(_views(order)))

    def live_at(self, place: int) -> list[Value]:
        """The values that have memory of their own while the operator at a place runs: what it writes included."""
        return [
            v for v, end in self.last.items() if v not in self.owner and end >= place and (not v.writers or v.writers[0].order <= place)
        ]


@dataclass(frozen=True)
class _LastNeed(Dataflow[int]):
    """The place of the last operator that needs the memory of a value: one that writes or reads it, or its views."""

    lasting: frozenset[Value]
    bottom, top, backward, sparse = -1, sys.maxsize, True, True

    def join(self, a: int, b: int) -> int:
        return max(a, b)

    def enters(self, op: Op) -> bool:
        return False

    def boundary(self, value: Value) -> int:
        if value in self.lasting or (value.persistable and value.graph.is_observed(value)):
            return self.top
        # What is never read still has memory while its writer runs.
        return max((op.order for op in value.writers), default=self.bottom if value.readers else self.top)

    def transfer(self, op: Op, facts: Facts[int]) -> dict[Value, int]:
        viewed = _viewed(op)
        # Reading a view reads the memory of what it is a view of.
        return {value: max(op.order, *(facts[view] for view in op.writes())) if value is viewed else op.order for value in op.reads()}


def _viewed(op: Op) -> Value | None:
    """The value in whose memory the results of an operator lie."""
    slot = op.definition.view if op.definition is not None else ""
    return next(iter(op.inputs.get(slot, ())), None)


def _views(order: tuple[Op, ...]) -> Iterator[tuple[Value, Value]]:
    owner: dict[Value, Value] = {}
    for op in order:
        viewed = _viewed(op)
        if viewed is None:
            continue
        for value in op.writes():
            # A view of a view holds the memory of the first.
            owner[value] = owner.get(viewed, viewed)
            yield value, owner[value]
