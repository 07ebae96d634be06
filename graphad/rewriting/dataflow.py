"""Dataflow analyses: a fact about each value, from the facts about what it is made of (or, backwards, what is made of it).

    @dataclass(frozen=True)
    class Finite(Dataflow[bool]):                # options are fields
        bottom, top = True, False                # the lattice: nothing says otherwise yet; nothing is known
        def join(self, a, b):                    # the least fact that both imply
            return a and b
        def transfer(self, op, facts):           # what an operator makes of facts
            return dict.fromkeys(op.writes(), op.type == "tanh" and facts[op.input("X")])

    Finite().of(graph)[value]                    # computed now, or the one kept

Loops and branches are done here, once: facts follow the ways of values into nested graphs and out of them
(``graphad.ir.regions``). At the argument of a loop's body the initial value is joined with what comes round; after the loop
the initial value is joined with what comes out, since a loop may run no iteration; after branches their results are joined.

Facts only grow: a worklist takes operators in their order until nothing changes, which is the least fixpoint (G. A. Kildall, "A unified
approach to global program optimization", POPL 1973) if transfer functions are monotone. A lattice of infinite height is left upwards
by widening, at block arguments of loops alone, which cut every cycle (P. Cousot and R. Cousot, "Abstract interpretation", POPL 1977).
Facts belong to single-assignment values and go straight from writers to readers, as in the sparse analyses of M. N. Wegman and
F. K. Zadeck ("Constant propagation with conditional branches", TOPLAS 13(2), 1991) and in MLIR's dataflow framework. Both branches
count, unless an analysis knows of a condition that values do not go one way (``follows``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, ClassVar, Generic, Self, TypeVar

from graphad.errors import PassError
from graphad.ir import Graph, Op, Value
from graphad.ir.regions import BACK, KEPT, SUM, Edge, conditions, region_edges
from graphad.rewriting.analysis import cached

F = TypeVar("F")
ROUNDS = 1000  # how often the fact about one block argument may grow


class Facts(dict[Value, F]):
    """The facts of an analysis by value: ``facts[value]`` is ``bottom`` for a value that is not in it."""

    def __init__(self, bottom: F) -> None:
        super().__init__()
        self.bottom = bottom

    def __missing__(self, value: Value) -> F:
        return self.bottom


class Dataflow(ABC, Generic[F]):
    """An analysis of the values of a graph and of those nested in it: a lattice of facts, and a transfer function.

    Derive a frozen dataclass whose fields are its options. Facts are compared with ``==``, so there may be no nan among them.

    Attributes:
        bottom: what is said of a value before anything is found; ``join(bottom, fact)`` is ``fact``.
        top: the fact that is true of every value.
        backward: whether facts go from readers to writers.
        sparse: whether ``transfer`` says only what is more than ``bottom``: what it leaves out is ``bottom`` then, and not ``top``.
        of_presence: whether ``holds`` is also called for values that are not arrays, or None where there is none.
        delay: how often the fact about a block argument of a loop may grow before it is widened.
    """

    bottom: ClassVar[Any] = None
    top: ClassVar[Any]
    backward: ClassVar[bool] = False
    sparse: ClassVar[bool] = False
    of_presence: ClassVar[bool] = False
    delay: ClassVar[int] = 2

    @abstractmethod
    def join(self, a: F, b: F) -> F:
        """The least fact that is true wherever one of two is; neither is ``bottom``."""

    @abstractmethod
    def transfer(self, op: Op, facts: Facts[F]) -> Mapping[Value, F]:
        """The facts about what an operator writes, ``top`` where one is left out (``sparse``: ``bottom``); backwards those about what it
        reads, as far as it has a part in them."""

    def sweep(self, ops: Sequence[Op], facts: Facts[F]) -> None:
        """Let facts go through operators in order, none of which has nested graphs; a form of ``transfer`` for all of them at once."""
        solver = (_Backward if self.backward else _Forward)(self, ops[0].graph, facts)
        transfer = self.transfer if self.backward or self.sparse else solver.completed
        bottom = self.bottom
        for op in ops:
            for value, fact in transfer(op, facts).items():  # as ``put``, without a call for each operator
                if value in facts:
                    solver.raise_to(value, fact)
                elif fact != bottom:
                    facts[value] = fact

    def widen(self, before: F, after: F) -> F:
        """A fact that both imply, such that a sequence of them ends; needed where facts could grow forever."""
        return after

    def boundary(self, value: Value) -> F:
        """The fact about an input of the graph; backwards about any of its values, as the user sees it."""
        return self.bottom if self.backward and not value.graph.is_observed(value) else self.top  # type: ignore[no-any-return]

    def starts(self, graph: Graph) -> Iterable[Value]:
        """The values to ask ``boundary`` about: the inputs of the graph; backwards all of its values."""
        return graph.values if self.backward else graph.inputs

    def along(self, edge: Edge, fact: F) -> F:
        """The fact at the end of an edge into a nested graph, out of it or round a loop: the same, unless values are added up, or kept."""
        return self.top if edge.kind in (SUM, KEPT) and not self.backward else fact

    def follows(self, edge: Edge, facts: Facts[F]) -> bool:
        """Whether values may go along a way, as far as the facts about the conditions of its operator say; forward alone. A way that is
        closed while a condition is ``bottom`` opens when more is known."""
        return True

    def decides(self, op: Op, facts: Facts[F]) -> F:
        """The fact about the conditions of an operator with nested graphs, in a backward analysis."""
        return self.bottom  # type: ignore[no-any-return]

    def enters(self, op: Op) -> bool:
        """Whether to follow facts through the nested graphs of an operator; one that is not entered goes to ``transfer``."""
        return True

    def holds(self, fact: F, array: Any, run: dict[Any, Any]) -> bool:
        """Whether a fact is true of what a value was in a run; ``run`` is for what has to agree between the arrays of one run.

        ``graphad.testing.check_analysis`` holds the analysis to it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what its facts mean: define holds")

    def of(self, graph: Graph) -> Facts[F]:
        """The facts about a graph as it is now: those kept if the graph has not changed, else new ones.

        Raises:
            PassError: the facts about a value grow without end.
        """
        by_analysis: dict[Dataflow[F], Facts[F]] = cached(graph, type(self), lambda _: {})
        if self not in by_analysis:
            by_analysis[self] = self.solve(graph)
        return by_analysis[self]

    def solve(self, graph: Graph) -> Facts[F]:
        """The same, computed now."""
        return (_Backward if self.backward else _Forward)(self, graph).solved()

    def extend(self, facts: Facts[F], ops: Sequence[Op]) -> None:
        """Add the facts about what new operators write, in order, to those found before they were there; of a forward analysis.

        Facts about other values stay: they have to be true still. Of what is read that the facts do not know, nothing is known.
        """
        solver = _Forward(self, ops[0].graph, facts)
        solver.line_up(ops)
        # Edges of the new operators from values outside enter with the facts those have; unknown ones count as top.
        solver.place = {op: i for i, op in enumerate(solver.ops)}
        own_graphs = {graph for op in ops for subgraph in op.graphs.values() for graph in subgraph.tree()}
        sources = (edge.source for edges in solver.edges.values() for edge in edges if edge.source.graph not in own_graphs)
        for value in (*sources, *(value for op in ops for value in op.reads())):
            if value not in facts and not any(op in solver.place for op in value.writers):
                facts[value] = self.top
        solver.settled()

    @classmethod
    def recomputed(cls, graph: Graph, claimed: Mapping[Self, Facts[F]]) -> dict[Self, Facts[F]]:
        """The cached facts, computed again."""
        return {item: item.solve(graph) for item in claimed}


class _Solver(ABC, Generic[F]):
    """The facts so far, and the operators to look at: those from ``cursor`` on, and those in ``again``."""

    def __init__(self, analysis: Dataflow[F], graph: Graph, facts: Facts[F] | None = None) -> None:
        self.analysis = analysis
        self.graph = graph
        self.facts: Facts[F] = Facts(analysis.bottom) if facts is None else facts
        self.ops: list[Op] = []
        self.place: dict[Op, int] = {}
        self.edges: dict[Op, list[Edge]] = {}
        self.ways: dict[Value, list[tuple[Edge, Value]]] = defaultdict(list)  # from a value on, in the direction of the analysis
        self.rounds: dict[Value, int] = {}  # where loops come round -> how often the fact there grew
        self.found: list[tuple[Value, F]] = []  # facts on their way
        self.cursor = 0
        self.again: list[int] = []
        self.waiting: set[int] = set()

    @abstractmethod
    def visit(self, op: Op) -> None:
        """Let facts go through an operator."""

    def completed(self, op: Op, facts: Facts[F]) -> Mapping[Value, F]:
        """The transfer of an operator, with ``top`` for results that it leaves out."""
        facts_after, top = self.analysis.transfer(op, facts), self.analysis.top
        # Of a value with several writers, between passes of the backward, one transfer function does not know all.
        return {v: facts_after.get(v, top) if len(v.writers) == 1 else top for values in op.outputs.values() for v in values}

    def solved(self) -> Facts[F]:
        """Go on until nothing changes; one visit in order is enough where no facts go through nested graphs."""
        self.enter(self.graph)
        if self.edges:
            self.place = {op: i for i, op in enumerate(self.ops)}
        self.put({value: self.analysis.boundary(value) for value in self.analysis.starts(self.graph)})
        self.settle()
        if self.edges:
            return self.settled()
        if self.ops:
            self.analysis.sweep(self.ops, self.facts)
        return self.facts

    def settled(self) -> Facts[F]:
        """Visit operators, some again and again, until nothing changes."""
        # Kildall's algorithm (G. Kildall, "A unified approach to global program optimization", 1973), with the operators in topological
        # order. Each is visited once by the cursor; those whose inputs grew since are in a heap by place, so that an operator is visited
        # after those before it.
        while self.again or self.cursor < len(self.ops):
            if self.again:
                place = heappop(self.again)
                self.waiting.discard(place)
            else:
                place = self.cursor
                self.cursor += 1
            self.visit(self.ops[place])
            if self.found:
                self.settle()
        return self.facts

    def enter(self, graph: Graph) -> None:
        """Line up the operators of a graph."""
        ops = graph.ordered_ops()
        if self.analysis.backward:
            ops.reverse()
        if graph.controls:
            self.line_up(ops)
        else:
            self.ops += ops

    def line_up(self, ops: Sequence[Op]) -> None:
        """Line up operators, those of nested graphs after the operator that has them."""
        backward, analysis = self.analysis.backward, self.analysis
        for op in ops:
            self.ops.append(op)
            if not op.graphs or not analysis.enters(op):
                continue
            edges = self.edges[op] = list(region_edges(op))
            for edge in edges:
                start, end = (edge.target, edge.source) if backward else (edge.source, edge.target)
                self.ways[start].append((edge, end))
                if edge.kind == BACK:
                    # Facts that go round a loop are counted, since they are widened after so many rounds.
                    self.rounds[end] = 0
            for subgraph in op.graphs.values():
                self.enter(subgraph)

    def put(self, new_facts: Mapping[Value, F]) -> None:
        """Join facts with what is known of their values."""
        facts, bottom = self.facts, self.analysis.bottom
        for value, fact in new_facts.items():
            # Without nested graphs (``place`` is empty) each value is written once, in order: its fact is final, and nothing has to be
            # joined.
            if self.place or value in facts:
                self.raise_to(value, fact)
            elif fact != bottom:
                facts[value] = fact

    def raise_to(self, value: Value, fact: F) -> None:
        """Join a fact with what is known of a value, and pass on what is new."""
        facts, bottom = self.facts, self.analysis.bottom
        # Facts only go up in the lattice, from bottom. Together with widening where loops come round that bounds the number of visits.
        old = facts.get(value, bottom)
        if fact in (old, bottom):
            return
        new = fact if old == bottom else self.analysis.join(old, fact)
        if value in self.rounds:
            new = self.widened(value, old, new)
        if new == old:
            return
        facts[value] = new
        if self.place:
            analysis, forward = self.analysis, not self.analysis.backward
            for edge, end in self.ways.get(value, ()):
                if not forward or analysis.follows(edge, facts):
                    self.found.append((end, analysis.along(edge, new)))
            self.look_again(value)

    def settle(self) -> None:
        """Pass on what is new to where values go."""
        while self.found:
            self.raise_to(*self.found.pop())

    def widened(self, value: Value, old: F, new: F) -> F:
        """The fact about a value where a loop comes round; see ``Dataflow.widen``."""
        if new == old:
            return old
        count = self.rounds[value] = self.rounds[value] + 1
        # A lattice of finite height ends by itself, widening ends any other; what is left is a mistake in the analysis.
        if count > ROUNDS:
            raise PassError(f"{self.analysis} finds no fixpoint: what it says of {value!r} still grows, from {old!r} to {new!r}; see widen")
        return new if old == self.analysis.bottom or count <= self.analysis.delay else self.analysis.widen(old, new)

    def look_again(self, value: Value) -> None:
        """Line up what depends on a value, unless its turn comes anyway."""
        for op in value.writers if self.analysis.backward else value.readers:
            # Those from the cursor on are visited in any case; of the ones before, each waits once.
            place = self.place.get(op, self.cursor)
            if place >= self.cursor or place in self.waiting:
                continue
            # An operator with regions is visited again only for its condition, which may open an edge: other facts pass along its edges at
            # once.
            if self.analysis.backward or op not in self.edges or value in conditions(op):
                self.waiting.add(place)
                heappush(self.again, place)


class _Forward(_Solver[F]):
    def visit(self, op: Op) -> None:
        if op in self.edges:
            self.enter_regions(op, self.edges[op])
            return
        if facts := self.analysis.transfer(op, self.facts) if self.analysis.sparse else self.completed(op, self.facts):
            self.put(facts)

    def enter_regions(self, op: Op, edges: list[Edge]) -> None:
        """Join facts into the targets of the edges that may be taken; the facts of results grow from there. Results that are no edge's
        target are set to top."""
        for edge in edges:
            if self.analysis.follows(edge, self.facts):
                self.raise_to(edge.target, self.analysis.along(edge, self.facts[edge.source]))
        targets = {edge.target for edge in edges}
        for value in op.writes():
            if value not in targets:
                self.raise_to(value, self.analysis.top)


class _Backward(_Solver[F]):
    def visit(self, op: Op) -> None:
        edges = self.edges.get(op)
        if edges is None:
            if facts := self.analysis.transfer(op, self.facts):
                self.put(facts)
            return
        for edge in edges:
            self.raise_to(edge.source, self.analysis.along(edge, self.facts[edge.target]))
        for value in conditions(op):
            self.raise_to(value, self.analysis.decides(op, self.facts))
