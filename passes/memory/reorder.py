"""Put the operators of a graph into an order in which less is alive at once.

    a = exp(x)                              a = exp(x)
    b = tanh(x)                             s = sum(a)        a is not needed any more
    s = sum(a)                ⇒             b = tanh(x)
    t = sum(b)                              t = sum(b)

Finding the order with the lowest peak is NP-complete (R. Sethi, "Complete register allocation problems", 1975). Two list schedules are
tried: one from the first operator on takes, of those that are ready, the one after which the fewest bytes are alive; the other does the
same from the last operator back. The better one is taken if its peak is below that of the given order, which stays otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import pairwise

from graphad.errors import InvalidValue
from graphad.ir import Graph, Op, Value
from graphad.ir.regions import has_effects
from graphad.passes.analyses.cost import Cost, estimated, short
from graphad.passes.analyses.liveness import Liveness
from graphad.rewriting import Pass


@dataclass(frozen=True)
class Reordered:
    """The results of ``reorder``: the peak memory of the graph in bytes before and after it, and how many operators changed places."""

    before: int
    after: int
    moved: int

    def __str__(self) -> str:
        return f"{short(self.before)}B -> {short(self.after)}B at the peak; {self.moved} operators have other places"


@dataclass(frozen=True)
class Reorder(Pass):
    """Order the operators so that the peak of memory falls; it never rises.

    ``print(graph.analyses[Reordered])`` says what it was before and after it. Every value is computed by the same operators from the same
    values, so all stay the same to the last bit. Operators with effects keep their order, and what overwrites a name comes after those that
    read what it was. The peak is that of ``graphad.passes.analyses.estimated``.

    Args:
        batch: what unknown extents of the data are taken to be; the others follow by inference.

    Raises:
        ValueError: ``batch`` is below 1.
    """

    name = "reorder"
    idempotent = True
    establishes = (Reordered,)
    batch: int = 1

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InvalidValue(f"reorder takes a batch of 1 sample at least, not batch={self.batch}")

    def apply(self, graph: Graph) -> bool:
        cost = estimated(graph, self.batch)
        moved, peak = _reordered(graph, cost)
        graph.analyses[Reordered] = Reordered(cost.peak, peak, moved)
        return moved > 0


def _reordered(graph: Graph, cost: Cost) -> tuple[int, int]:
    """Reorder a graph, those nested in it first; return how many operators have other places, and the peak."""
    inside, moved = dict[Op, int](), 0
    for op in graph.controls:
        nested = {inner: _reordered(inner, cost.nested[inner]) for inner in op.graphs.values()}
        inside[op] = max((peak - cost.nested[inner].given for inner, (_, peak) in nested.items()), default=0)
        moved += sum(count for count, _ in nested.values())
    first = graph.ordered_ops()
    while True:  # of equals the schedules take those that come first in the given order, so that a better one may lead further
        memory = _Memory(graph, cost, inside)
        least, best_order = memory.peak(memory.live.order), list(memory.live.order)
        for order in (_scheduled(_Forward(memory)), _scheduled(_Backward(memory))[::-1]):
            peak = memory.peak(order)
            if peak < least:
                least, best_order = peak, order
        changed = [op for op, other in zip(best_order, memory.live.order, strict=True) if op is not other]
        if not changed or not graph.allows("reorder", *changed):
            now = graph.ordered_ops()
            return moved + sum(op is not other for op, other in zip(first, now, strict=True)), memory.peak(now)
        graph.reorder(best_order)


class _Memory:
    """What the operators of a graph need: which wait for which, and whose memory they touch.

    Attributes:
        live: the liveness in the given order.
        inside: what operators with nested graphs need besides what they write.
        roots: for each operator the values whose memory it reads or writes, views by their owners.
        lasting: the memory that is there from the beginning or to the end.
        after: for each operator those that come after it, in every order.
    """

    def __init__(self, graph: Graph, cost: Cost, inside: Mapping[Op, int]) -> None:
        self.sizes, self.given_bytes = cost.sizes, cost.given
        self.live = Liveness.of(graph)
        self.inside = inside
        owner, end = self.live.owner, len(self.live.order)
        self.roots = {op: tuple(dict.fromkeys(owner.get(v, v) for v in (*op.reads(), *op.writes()))) for op in self.live.order}
        self.lasting = {v for v, last in self.live.last.items() if last == end or v.given}
        self.after = _successors(graph, self.live.order)

    def touched(self) -> dict[Value, int]:
        """How many operators touch each memory that is given back."""
        counts: dict[Value, int] = {}
        for roots in self.roots.values():
            for value in roots:
                counts[value] = counts.get(value, 0) + 1
        return counts

    def written(self, op: Op) -> int:
        return sum(self.sizes[value] for value in op.writes())

    def peak(self, order: Sequence[Op]) -> int:
        """The most bytes that are alive at once, as ``estimated`` counts them."""
        counts, size = self.touched(), self.given_bytes
        highest = size
        for op in order:
            size += self.written(op)
            highest = max(highest, size + self.inside.get(op, 0))
            for value in self.roots[op]:
                counts[value] -= 1
                if not counts[value] and value not in self.lasting:
                    size -= self.sizes[value]
        return highest


def _successors(graph: Graph, order: Sequence[Op]) -> dict[Op, list[Op]]:
    """For each operator those that have to come after it: its readers, who overwrites what it touches, and the next with effects."""
    after: dict[Op, dict[Op, None]] = {op: {} for op in order}
    effects = [op for op in order if has_effects(op)]
    for one, other in pairwise(effects):
        after[one][other] = None
    for value in graph.values:
        for writer in value.writers:
            after[writer].update((reader, None) for reader in value.readers if reader is not writer)
    for name in graph.values.by_name:
        for old, new in pairwise(graph.versions(name)):
            pairs = ((toucher, writer) for writer in new.writers for toucher in _touching(old))
            for toucher, writer in pairs:
                if toucher.order < writer.order:
                    after[toucher][writer] = None
    return {op: list(others) for op, others in after.items()}


# -- list schedules --------------------------------------------------------------------------------


class _Forward:
    """From the first operator on. What is written comes, what nothing touches any more goes."""

    def __init__(self, memory: _Memory) -> None:
        self.memory = memory
        self.next = memory.after
        self.left = memory.touched()

    def change(self, op: Op) -> int:
        """How many bytes more are alive after an operator than before it."""
        memory = self.memory
        gone = (v for v in memory.roots[op] if self.left[v] == 1 and v not in memory.lasting)
        return memory.written(op) - sum(memory.sizes[v] for v in gone)

    def take(self, op: Op) -> list[Value]:
        """Note that an operator has its place; return the values that only one more operator touches."""
        for value in self.memory.roots[op]:
            self.left[value] -= 1
        return [value for value in self.memory.roots[op] if self.left[value] == 1]


class _Backward(_Forward):
    """From the last operator back: what an operator touches comes to life there, unless one after it does, and what it writes ends."""

    def __init__(self, memory: _Memory) -> None:
        super().__init__(memory)
        self.next = _reversed(memory.after)
        self.alive: set[Value] = set(memory.lasting)

    def change(self, op: Op) -> int:
        memory = self.memory
        new = (v for v in memory.roots[op] if v not in self.alive and v not in memory.lasting)
        return sum(memory.sizes[v] for v in new) - memory.written(op)

    def take(self, op: Op) -> list[Value]:
        new = [value for value in self.memory.roots[op] if value not in self.alive]
        self.alive.update(new)
        return new


def _reversed(after: Mapping[Op, Sequence[Op]]) -> dict[Op, list[Op]]:
    before: dict[Op, list[Op]] = {op: [] for op in after}
    for op, others in after.items():
        for other in others:
            before[other].append(op)
    return before


def _scheduled(way: _Forward) -> list[Op]:
    """The operators, each as soon as all before it have a place and no other one that is ready changes the memory by less."""
    waiting = dict.fromkeys(way.next, 0)
    for others in way.next.values():
        for other in others:
            waiting[other] += 1
    sign = -1 if isinstance(way, _Backward) else 1  # of equals the first one, or the last one
    heap = [(way.change(op), sign * op.order, op) for op, count in waiting.items() if not count]
    heapify(heap)
    ready_ops = {op for _, _, op in heap}
    order: list[Op] = []
    while heap:
        change, number, op = heappop(heap)
        if op not in ready_ops:
            continue
        if change != way.change(op):  # something that it shares with others, of which it is a view, has changed
            heappush(heap, (way.change(op), number, op))
            continue
        ready_ops.remove(op)
        order.append(op)
        touchers = dict.fromkeys(t for v in way.take(op) for t in _touching(v) if t in ready_ops)
        for other in way.next[op]:
            waiting[other] -= 1
            if not waiting[other]:
                ready_ops.add(other)
                touchers[other] = None
        for other in touchers:
            heappush(heap, (way.change(other), sign * other.order, other))
    return order


def _touching(value: Value) -> tuple[Op, ...]:
    return (*value.readers, *value.writers)
