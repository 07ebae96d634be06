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
        move_count, peak = _reordered(graph, cost)
        graph.analyses[Reordered] = Reordered(cost.peak, peak, move_count)
        return move_count > 0


def _reordered(graph: Graph, cost: Cost) -> tuple[int, int]:
    """Reorder a graph, those nested in it first; return how many operators have other places, and the peak."""
    nested_peaks, move_count = dict[Op, int](), 0
    # Inner graphs first: how much an operator needs besides its results depends on their order.
    for op in graph.controls:
        nested = {inner: _reordered(inner, cost.nested[inner]) for inner in op.graphs.values()}
        nested_peaks[op] = max((peak - cost.nested[inner].given for inner, (_, peak) in nested.items()), default=0)
        move_count += sum(count for count, _ in nested.values())
    initial_order = graph.ordered_ops()
    while True:  # of equals the schedules take those that come first in the given order, so that a better one may lead further
        memory = _Memory(graph, cost, nested_peaks)
        lowest_peak, best_order = memory.peak(memory.live.order), list(memory.live.order)
        for order in (_list_schedule(_ForwardSchedule(memory)), _list_schedule(_BackwardSchedule(memory))[::-1]):
            peak = memory.peak(order)
            if peak < lowest_peak:
                lowest_peak, best_order = peak, order
        # Two orders that differ nowhere are one.
        changed_ops = [op for op, other in zip(best_order, memory.live.order, strict=True) if op is not other]
        if not changed_ops or not graph.allows("reorder", *changed_ops):
            final_order = graph.ordered_ops()
            moves = sum(op is not other for op, other in zip(initial_order, final_order, strict=True))
            return move_count + moves, memory.peak(final_order)
        graph.reorder(best_order)


class _Memory:
    """The dependences between operators of a graph, and the buffers that they touch.

    Attributes:
        live: the liveness in the given order.
        nested_peaks: what operators with nested graphs need besides what they write.
        roots: for each operator the values whose memory it reads or writes, views by their owners.
        permanent: the memory that is there from the beginning or to the end.
        successors: for each operator those that come after it, in every order.
    """

    def __init__(self, graph: Graph, cost: Cost, nested_peaks: Mapping[Op, int]) -> None:
        self.sizes, self.given_bytes = cost.sizes, cost.given
        self.live = Liveness.of(graph)
        self.nested_peaks = nested_peaks
        owner, end = self.live.owner, len(self.live.order)
        self.roots = {op: tuple(dict.fromkeys(owner.get(v, v) for v in (*op.reads(), *op.writes()))) for op in self.live.order}
        self.permanent = {v for v, last in self.live.last.items() if last == end or v.given}
        self.successors = _successors(graph, self.live.order)

    def touch_counts(self) -> dict[Value, int]:
        """The number of operators that touch each memory that is given back."""
        counts: dict[Value, int] = {}
        for roots in self.roots.values():
            for value in roots:
                counts[value] = counts.get(value, 0) + 1
        return counts

    def bytes_written(self, op: Op) -> int:
        return sum(self.sizes[value] for value in op.writes())

    def peak(self, order: Sequence[Op]) -> int:
        """The most bytes that are alive at once, as ``estimated`` counts them."""
        counts, size = self.touch_counts(), self.given_bytes
        highest = size
        for op in order:
            # What an operator writes is there while what it reads is: inputs are freed after it.
            size += self.bytes_written(op)
            highest = max(highest, size + self.nested_peaks.get(op, 0))
            for value in self.roots[op]:
                counts[value] -= 1
                # Its last touch: the memory is free for what is written next.
                if not counts[value] and value not in self.permanent:
                    size -= self.sizes[value]
        return highest


def _successors(graph: Graph, order: Sequence[Op]) -> dict[Op, list[Op]]:
    """For each operator those that have to come after it: its readers, who overwrites what it touches, and the next with effects."""
    # As keys of dicts: each once, and in an order that does not depend on hashes.
    successors: dict[Op, dict[Op, None]] = {op: {} for op in order}
    effects = [op for op in order if has_effects(op)]
    for one, other in pairwise(effects):
        successors[one][other] = None
    for value in graph.values:
        for writer in value.writers:
            successors[writer].update((reader, None) for reader in value.readers if reader is not writer)
    # A name is one memory in the schedule: whoever reads the old value goes before what writes the new one.
    for name in graph.values.by_name:
        for old, new in pairwise(graph.versions(name)):
            pairs = ((toucher, writer) for writer in new.writers for toucher in _touchers(old))
            for toucher, writer in pairs:
                # In the order as it was: only that direction is a constraint.
                if toucher.order < writer.order:
                    successors[toucher][writer] = None
    return {op: list(others) for op, others in successors.items()}


# -- list schedules --------------------------------------------------------------------------------


class _ForwardSchedule:
    """Schedules from the first operator on: written buffers become live, those that are not touched any more are freed."""

    def __init__(self, memory: _Memory) -> None:
        self.memory = memory
        self.successors = memory.successors
        self.touches_left = memory.touch_counts()

    def growth(self, op: Op) -> int:
        """The bytes by which an operator makes the live memory grow."""
        memory = self.memory
        # This operator is the last that touches it.
        dead_values = (v for v in memory.roots[op] if self.touches_left[v] == 1 and v not in memory.permanent)
        return memory.bytes_written(op) - sum(memory.sizes[v] for v in dead_values)

    def place(self, op: Op) -> list[Value]:
        """Note that an operator has its place; return the values that only one more operator touches."""
        for value in self.memory.roots[op]:
            self.touches_left[value] -= 1
        return [value for value in self.memory.roots[op] if self.touches_left[value] == 1]


class _BackwardSchedule(_ForwardSchedule):
    """From the last operator back: what an operator touches comes to life there, unless one after it does, and what it writes ends."""

    def __init__(self, memory: _Memory) -> None:
        super().__init__(memory)
        self.successors = _reversed(memory.successors)
        self.alive: set[Value] = set(memory.permanent)

    def growth(self, op: Op) -> int:
        memory = self.memory
        live_values = (v for v in memory.roots[op] if v not in self.alive and v not in memory.permanent)
        return sum(memory.sizes[v] for v in live_values) - memory.bytes_written(op)

    def place(self, op: Op) -> list[Value]:
        live_values = [value for value in self.memory.roots[op] if value not in self.alive]
        self.alive.update(live_values)
        return live_values


def _reversed(successors: Mapping[Op, Sequence[Op]]) -> dict[Op, list[Op]]:
    predecessors: dict[Op, list[Op]] = {op: [] for op in successors}
    for op, others in successors.items():
        for other in others:
            predecessors[other].append(op)
    return predecessors


def _list_schedule(schedule: _ForwardSchedule) -> list[Op]:
    """The operators, each as soon as all before it have a place and no other one that is ready changes the memory by less."""
    waiting = dict.fromkeys(schedule.successors, 0)
    for others in schedule.successors.values():
        for other in others:
            waiting[other] += 1
    sign = -1 if isinstance(schedule, _BackwardSchedule) else 1  # of equals the first one, or the last one
    heap = [(schedule.growth(op), sign * op.order, op) for op, count in waiting.items() if not count]
    heapify(heap)
    ready_ops = {op for _, _, op in heap}
    order: list[Op] = []
    while heap:
        growth, number, op = heappop(heap)
        if op not in ready_ops:
            continue
        # Growths change as other operators get their places. Entries out of date stay, and are pushed again with what is true now.
        if growth != schedule.growth(op):
            heappush(heap, (schedule.growth(op), number, op))
            continue
        ready_ops.remove(op)
        order.append(op)
        # Whose growth may have changed: operators that touch what this one touched last, and those that are ready now.
        touchers = dict.fromkeys(t for v in schedule.place(op) for t in _touchers(v) if t in ready_ops)
        for other in schedule.successors[op]:
            waiting[other] -= 1
            if not waiting[other]:
                ready_ops.add(other)
                touchers[other] = None
        for other in touchers:
            heappush(heap, (schedule.growth(other), sign * other.order, other))
    return order


def _touchers(value: Value) -> tuple[Op, ...]:
    return (*value.readers, *value.writers)
