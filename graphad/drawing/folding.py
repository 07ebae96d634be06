"""Repeated layers: found once, drawn once, with how often they occur and in what the copies differ.

    mul ─▶ add ─▶ tanh ─▶ mul ─▶ add ─▶ tanh ─▶ mul ─▶ add ─▶ tanh      ⇒      ┌ 3 times ──────────────┐
                                                                                │ ▶ mul ─▶ add ─▶ tanh ┄│┄▶ the next
                                                                                └───────────────────────┘

Operators of the forward get a signature each; a run of signatures that follows upon itself, and whose operators read one another in
the same way, is a repetition. What the backward and the optimizer made of an operator goes with it, so each layer is drawn together
with its gradients and updates. The runs are tandem repeats (Main and Lorentz, 1984), here found by comparing the sequence with itself
moved by each period; the way that copies read one another is compared as in hash-consing, place by place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from graphad.drawing.nesting import CARRIED, Arrow, Nesting, inner_results_of, is_absent, operands_of
from graphad.drawing.pairs import Pairs, gradient_of
from graphad.ir import Graph, Node, Op, Value
from graphad.ir.residuals import forward_graph
from graphad.program import FORWARD, Block

LEAST_SAVED = 4  # operators: a repetition that spares fewer is drawn as it is
MOST_PERIODS, MOST_TRIED, MOST_TURNS = 4000, 400, 64
LEVELS = 3
NOTABLE = 0.1  # of the operators: what another order has to spare to be worth it


@dataclass
class Repeat:
    """A repetition.

    Attributes:
        count: how many copies there are.
        members: the operators of the copy that is drawn.
        copies: the operators of the forward of each copy.
        differs: in what the copies differ, one a line; ``differing`` are the names of attributes, and ``shapes``.
    """

    count: int
    members: list[Op]
    copies: list[list[Op]]
    differs: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)


@dataclass
class Folding:
    """The nodes that are drawn once: for each node that is not drawn its representative, and by repetition the copy that each node is in.

    ``given`` are drawn values that an operator outside of the copies gives to each copy. ``closed`` are operators that stand for a
    whole scope or part, with how many; ``contents`` are those of a part; ``hidden`` is what is only seen inside one. ``bundles`` are
    equal inputs, by the one that is drawn.
    """

    representatives: dict[Node, Node] = field(default_factory=dict)
    places: dict[Node, dict[int, int]] = field(default_factory=dict)
    repeats: list[Repeat] = field(default_factory=list)
    repeats_of: dict[Op, list[Repeat]] = field(default_factory=dict)
    given: set[Value] = field(default_factory=set)
    hidden: set[Node] = field(default_factory=set)
    closed: dict[Op, int] = field(default_factory=dict)
    contents: dict[Op, list[Op]] = field(default_factory=dict)
    bundles: dict[Value, list[Value]] = field(default_factory=dict)

    def copy(self) -> Folding:
        """The same, to which operators that stand for scopes may be added."""
        return replace(
            self,
            representatives=dict(self.representatives),
            hidden=set(self.hidden),
            closed=dict(self.closed),
            contents=dict(self.contents),
        )

    def of(self, node: Node) -> Node:
        """The node that is drawn for a node."""
        while node in self.representatives:
            node = self.representatives[node]
        return node

    def arrows(self, arrows: Iterable[Arrow]) -> list[Arrow]:
        """The arrows between the drawn nodes; those between copies go around, as what a loop carries does."""
        arrows_by_ends: dict[tuple[object, ...], Arrow] = {}
        arrows = list(arrows)
        slot_names = self._merged_slots(arrows)
        for arrow in arrows:
            tail, head = self.of(arrow.tail), self.of(arrow.head)
            if (
                tail is head is not arrow.tail
                or self._returns(tail, head)
                or tail in self.hidden
                or head in self.hidden
                or self._is_doubled(arrow, tail, head)
            ):
                continue
            slots = (
                "" if tail in self.closed else slot_names.get((tail, head, arrow.tail_slot), arrow.tail_slot),
                "" if head in self.closed else slot_names.get((tail, head, arrow.head_slot), arrow.head_slot),
            )
            arrow_ = Arrow(tail, head, self._op(arrow.op), self.value(arrow.value), *slots, arrow.sort, arrow.backward, arrow.up)
            if self._is_between_copies(arrow):
                arrow_ = arrow_._replace(sort=CARRIED, up=not arrow.backward, next=True)
            # Arrows of several copies become one, unless they end in different slots.
            key = (tail, head, *slots, arrow_.next)
            arrows_by_ends.setdefault(key, arrow_)
        return list(arrows_by_ends.values())

    def _merged_slots(self, arrows: Iterable[Arrow]) -> dict[tuple[Node, Node, str], str]:
        """Labels of slots in which one operator reads, or writes, values of several copies: ``X[0]``, ``X[1]`` become ``X[0:2]``.

        By the nodes that are drawn at both ends, and the slot.
        """
        places: dict[tuple[Node, Node, str], set[int]] = {}
        arrow_places = set()
        for arrow in arrows:
            tail, head = self.of(arrow.tail), self.of(arrow.head)
            for slot in (arrow.tail_slot, arrow.head_slot):
                name, index = _indexed(slot)
                if index is not None:
                    places.setdefault((tail, head, name), set()).add(index)
                    if tail is not arrow.tail or head is not arrow.head:
                        # Only where an end was folded: other slots keep their own numbers.
                        arrow_places.add((tail, head, name))
        return {
            (tail, head, f"{name}[{index}]"): f"{name}[{_span(indices)}]"
            for (tail, head, name), indices in places.items()
            if len(indices) > 1 and (tail, head, name) in arrow_places
            for index in indices
        }

    def _returns(self, tail: Node, head: Node) -> bool:
        """Whether a value of a closed scope is read there as well, while others read it, too."""
        return head in self.closed and isinstance(tail, Value) and bool(tail.writers) and self.of(tail.writers[0]) is head

    def _op(self, op: Op) -> Op:
        representative = self.of(op)
        return representative if isinstance(representative, Op) else op

    def value(self, value: Value) -> Value:
        """The value that is drawn for a value."""
        representative = self.of(value)
        return representative if isinstance(representative, Value) else value

    def _is_doubled(self, arrow: Arrow, tail: Node, head: Node) -> bool:
        """Whether the arrow is that of a copy, and the one that is drawn has the same."""
        is_copy = self._is_copied(arrow.tail) and self._is_copied(arrow.head)
        return is_copy and not self._is_between_copies(arrow)

    def _is_copied(self, node: Node) -> bool:
        return node in self.representatives and self.representatives[node] not in self.closed

    def _is_between_copies(self, arrow: Arrow) -> bool:
        tail, head = self.places.get(arrow.tail, {}), self.places.get(arrow.head, {})
        return any(head.get(repeat, copy) != copy for repeat, copy in tail.items())

    def place(self, node: Node, repeat: int, copy: int) -> None:
        """Note which copy a node is in."""
        self.places.setdefault(node, {})[repeat] = copy


def _indexed(slot: str) -> tuple[str, int | None]:
    """The name of a slot, and which of its values: ``X[3]``."""
    name, bracket, index = slot.partition("[")
    return name, int(index[:-1]) if bracket else None


def _span(indices: Collection[int]) -> str:
    """Indices as a slice, if they are one.

    >>> _span({2, 1, 3}), _span({1, 5})
    ('1:4', '…')
    """
    low, high = min(indices), max(indices)
    return f"{low}:{high + 1}" if high - low + 1 == len(indices) else "…"


@dataclass(frozen=True)
class _Run:
    """Copies of ``period`` operators each that follow upon one another."""

    start: int
    period: int
    count: int

    @property
    def saved(self) -> int:
        return self.period * (self.count - 1)

    @property
    def end(self) -> int:
        return self.start + self.period * self.count


def fold_repeats(graph: Graph, nesting: Nesting, least: int = LEAST_SAVED) -> Folding:
    """The repetitions among the operators of a graph and of those nested in its forward, the longest first, then those within what is left.

    Args:
        graph: what is drawn.
        nesting: the same, with all nested graphs.
        least: how many operators of the graph itself a repetition has to spare.
    """
    folding, pairs = Folding(), Pairs(nesting)
    ops = list(graph.ordered_ops())
    # The forward is folded first: the backward and the updates follow their forward operators, and are folded with them.
    _fold_graph([op for op in ops if op.role == FORWARD] or ops, ops, pairs, nesting, folding, least)
    gradients: dict[Graph, list[Graph]] = {}
    for subgraph in nesting.regions:
        forward = forward_graph(subgraph)
        if forward is not None:
            gradients.setdefault(forward, []).append(subgraph)
    updates = [op for op in ops if op.role != FORWARD and not op.graphs]
    for subgraph, region in nesting.regions.items():
        if forward_graph(subgraph) is not None or region.op in folding.representatives:
            continue
        ops = list(subgraph.ordered_ops())
        main = _with_results([op for op in ops if op.role == FORWARD], subgraph)
        gradient_ops = [op for gradient in gradients.get(subgraph, ()) for op in gradient.ordered_ops()]
        if _fold_graph(main, [*ops, *gradient_ops, *updates], pairs, nesting, folding):
            for op in [*(nesting.regions[gradient].op for gradient in gradients.get(subgraph, ())), region.op]:
                _fold_around(op, folding)
    return folding


def _fold_graph(main: list[Op], ops: Sequence[Op], pairs: Pairs, nesting: Nesting, folding: Folding, least: int = LEAST_SAVED) -> bool:
    """Fold the repetitions in ``main``, with what belongs to it among ``ops``; return whether there are any."""
    followers = followers_of(main, ops, pairs, nesting)
    before = len(folding.repeats)
    # Repetitions of repetitions: layers in blocks, blocks in stages.
    for _ in range(LEVELS):
        runs, main = _best_runs(main, least)
        if not runs:
            break
        for run in runs:
            _fold(main, run, followers, nesting, folding)
        copies = folding.representatives.keys()
        main = [op for op in main if op not in copies]
    return len(folding.repeats) > before


def _with_results(ops: Sequence[Op], graph: Graph) -> list[Op]:
    """The operators in order, each copy into a result of the graph right after what it copies: a loop has those at the end of its body."""
    members, copies = set(ops), dict[Op, list[Op]]()
    for op in ops:
        operands, results = list(op.reads()), list(op.writes())
        if len(operands) == len(results) == 1 and results[0] in graph.results and operands[0].writer in members:
            copies.setdefault(operands[0].writers[0], []).append(op)
    copy_ops = {op for followers in copies.values() for op in followers}
    result: list[Op] = []
    # A loop copies all its results at the end of its body, layer after layer: each copy moves to the layer that it belongs to.
    stack = [op for op in reversed(ops) if op not in copy_ops]
    while stack:
        op = stack.pop()
        result.append(op)
        stack += reversed(copies.get(op, ()))
    return result


# -- around loops and branches ---------------------------------------------------------------------
# What enters the copies in a nested graph, and what they leave, is drawn once, too:
#
#     fill_constant ─▶ h0 ─▶ while { h0 … }         fill_constant ─▶ h0 ─▶ while { h0 …, twice }
#     fill_constant ─▶ h1 ─▶       { h1 … }    ⇒


def _fold_around(op: Op, folding: Folding) -> None:
    """Let operands and results of copies be drawn as those of the copy that is drawn."""
    inputs = {operand.inner[0]: operand.outer for operand in operands_of(op) if operand.inner and not is_absent(operand.outer)}
    for inner, outer in inputs.items():
        counterpart = inputs.get(folding.value(inner))
        if counterpart is not None:
            _fold_source(outer, counterpart, op, folding)
    results = {inner[0]: outer for outer, inner in inner_results_of(op) if inner and not is_absent(outer)}
    for inner, outer in results.items():
        counterpart = results.get(folding.value(inner))
        # Only if nothing that is drawn reads it: its arrow would end in nothing.
        if counterpart is not None and counterpart is not outer and all(reader in folding.representatives for reader in outer.readers):
            folding.representatives.setdefault(outer, counterpart)


def _fold_source(value: Value, drawn: Value, op: Op, folding: Folding) -> None:
    """Let a value, and what alone leads to it, be drawn as another one, if only folded operators and those with nested graphs read it."""
    if value is drawn or value in folding.representatives or drawn in folding.representatives:
        return
    if not all(reader is op or reader.graphs or reader in folding.representatives for reader in value.readers):
        return
    writer, counterpart = value.writer, drawn.writer
    if writer is None and counterpart is None:
        folding.representatives[value] = drawn
    # Only where both are made the same way is what makes them folded too, and so on upwards.
    if writer is None or counterpart is None or writer is counterpart or writer.graphs or _signature(writer) != _signature(counterpart):
        return
    folding.representatives[writer] = counterpart
    folding.representatives.update(zip(writer.writes(), counterpart.writes(), strict=True))
    for operand, partner in zip(writer.reads(), counterpart.reads(), strict=True):
        _fold_source(operand, partner, writer, folding)


# -- finding ---------------------------------------------------------------------------------------


def _best_runs(ops: list[Op], least: int) -> tuple[list[_Run], list[Op]]:
    """The runs to fold, and the order that they are in: that of the program, or branch by branch if that spares more.

    Branches that are written side by side, all first operators before all second ones, follow upon one another in the second order:

        a0 a1 a2 b0 b1 b2      ⇒      a0 b0 a1 b1 a2 b2
    """
    runs = list(_runs(ops, least))
    gain_in_order = sum(run.saved for run in runs)
    # One run that spares most of it: no other order can be much better.
    if len(runs) < 2 and gain_in_order > len(ops) / 2:
        return runs, ops
    branches = _by_branches(ops)
    by_branch = list(_runs(branches, least)) if branches != ops else []
    gain = sum(run.saved for run in by_branch) - gain_in_order
    is_better = gain > len(ops) * NOTABLE or (gain >= 0 and len(by_branch) < len(runs))
    return (by_branch, branches) if is_better else (runs, ops)


def _by_branches(ops: Sequence[Op]) -> list[Op]:
    """The operators in an order in which each comes after what it reads, and otherwise right after the last one that it reads of."""
    members = set(ops)
    sources = {op: {value.writers[0] for value in op.reads() if value.writers and value.writers[0] in members} for op in ops}
    counts = {op: len(writers) for op, writers in sources.items()}
    readers: dict[Op, list[Op]] = {}
    for op, writers in sources.items():
        for source in writers:
            readers.setdefault(source, []).append(op)
    order: list[Op] = []
    ready_ops = [op for op in reversed(ops) if not counts[op]]
    while ready_ops:
        op = ready_ops.pop()
        order.append(op)
        fresh = []
        for reader in readers.get(op, ()):
            counts[reader] -= 1
            if not counts[reader]:
                fresh.append(reader)
        # Depth first: a stack, so that what has just become ready comes next, and a branch is followed to its end.
        ready_ops += reversed(fresh)
    return order


def _runs(ops: Sequence[Op], least: int) -> Iterator[_Run]:
    """The runs to fold, which do not overlap: each is one whose copies read one another in the same way."""
    index = {op: i for i, op in enumerate(ops)}
    is_taken = np.zeros(len(ops), bool)
    for candidate in _candidates(ops):
        for run in _variants(candidate):
            if run.saved < least or is_taken[run.start : run.end].any():
                continue
            rotation = _turned(ops, index, run, candidate.end)
            # Longest first; what a run has taken is not part of a later one.
            if rotation is not None:
                is_taken[rotation.start : rotation.end] = True
                yield rotation
                break


def _candidates(ops: Sequence[Op]) -> list[_Run]:
    """Runs by signature alone, the ones that spare most first."""
    numbers: dict[object, int] = {}
    signs = np.array([numbers.setdefault(_signature(op), len(numbers)) for op in ops], np.int64)
    candidates = []
    # For each period the sequence is compared with itself, shifted by the period: where ``period`` or more signatures in a row are equal,
    # a run begins. Vectorized, this costs one comparison of arrays a period.
    for period in range(1, min(len(ops) // 2, MOST_PERIODS) + 1):
        different = np.flatnonzero(signs[:-period] != signs[period:])
        bounds = np.concatenate(([-1], different, [len(ops) - period]))
        lengths = np.diff(bounds) - 1
        for i in np.flatnonzero(lengths >= period):
            candidates.append(_Run(int(bounds[i]) + 1, period, int(lengths[i] + period) // period))
    candidates.sort(key=lambda run: (-run.saved, run.period, run.start))
    return candidates[:MOST_TRIED]


def _variants(run: _Run) -> Iterator[_Run]:
    yield run
    if run.count > 2:
        yield _Run(run.start + run.period, run.period, run.count - 1)
        yield _Run(run.start, run.period, run.count - 1)


def _turned(ops: Sequence[Op], index: Mapping[Op, int], run: _Run, end: int) -> _Run | None:
    """The run moved to where the fewest values go from one copy to the next; None if copies read one another differently."""
    best_turn: tuple[int, int] | None = None
    # A run of copies may begin at any operator of its period. The cut with the fewest values across it is where a reader would cut:
    # between layers.
    room = _room(ops, run)
    for turn in range(min(room, run.period, MOST_TURNS) + 1):
        rotation = replace(run, start=run.start + turn)
        if _is_regular(ops, index, rotation):
            cost = _crossing(ops, index, rotation), turn
            best_turn = cost if best_turn is None or cost < best_turn else best_turn
    return None if best_turn is None else replace(run, start=run.start + best_turn[1])


def _room(ops: Sequence[Op], run: _Run) -> int:
    """The number of operators by which a run may be moved: those after it that go on like it."""
    room = 0
    while room < run.period and run.end + room < len(ops) and _signature(ops[run.end + room]) == _signature(ops[run.start + room]):
        room += 1
    return room


def _is_regular(ops: Sequence[Op], index: Mapping[Op, int], run: _Run) -> bool:
    last = [_sources(ops, index, run, run.count - 1, i) for i in range(run.period)]
    for copy in range(run.count - 1):
        for i, expected in enumerate(last):
            for source, expected_source in zip(_sources(ops, index, run, copy, i), expected, strict=True):
                # In the first copies what the last reads of earlier ones does not exist yet: there it comes from outside.
                reachable = expected_source is None or expected_source[0] <= copy
                if source != (expected_source if reachable else None):
                    return False
    return True


def _sources(ops: Sequence[Op], index: Mapping[Op, int], run: _Run, copy: int, place: int) -> list[tuple[int, int, int] | None]:
    """The sources of an operator's operands: how many copies before, which operator, which result; None for one from outside."""
    sources: list[tuple[int, int, int] | None] = []
    for value in ops[run.start + copy * run.period + place].reads():
        at = index.get(value.writers[0], -1) if value.writers else -1
        if not run.start <= at < run.end:
            sources.append(None)
        else:
            # A place as a copy and a position in it: equal positions in neighboring copies are one source.
            back, position = divmod(at - run.start, run.period)
            sources.append((copy - back, position, list(ops[at].writes()).index(value)))
    return sources


def _crossing(ops: Sequence[Op], index: Mapping[Op, int], run: _Run) -> int:
    sources = (source for i in range(run.period) for source in _sources(ops, index, run, run.count - 1, i))
    return len({source for source in sources if source is not None and source[0] > 0})


def _signature(op: Op) -> object:
    """A key that copies of an operator share: it has no extents and no values of attributes."""
    slots = tuple((slot, len(values)) for slot, values in (*op.inputs.items(), *op.outputs.items()))
    # Ranks and not extents: layers of different widths are repetitions.
    results = tuple((value.dtype, None if value.shape is None else len(value.shape)) for value in op.writes())
    bodies = tuple((name, len(graph.ops)) for name, graph in op.graphs.items())
    return op.type, slots, results, tuple(op.attrs), bodies


# -- what goes with an operator --------------------------------------------------------------------


def followers_of(main: Sequence[Op], ops: Sequence[Op], pairs: Pairs, nesting: Nesting) -> dict[Op, list[tuple[str, Op]]]:
    """For each operator of the forward those that the backward and the optimizer made of it, with how they belong to it."""
    members = set(main)
    readers: dict[Value, Op] = {}
    for op in main:
        for value in op.reads():
            # What has no writer, a parameter for instance, tells an update which operator it belongs to.
            if not value.writers:
                readers.setdefault(value, op)
                readers.setdefault(nesting.outer(value), op)
    followers: dict[Op, list[tuple[str, Op]]] = {}
    for op in ops:
        if op not in members:
            owner = next((o for o in _owners(op, pairs, readers) if o in members), None)
            if owner is not None:
                followers.setdefault(owner, []).append((f"{op.role} {op.type}", op))
    return followers


def _owners(op: Op, pairs: Pairs, readers: Mapping[Value, Op]) -> Iterator[Op]:
    """The operators of the forward that an operator may belong to, the likeliest first."""
    # By what the backward noted, then by the names of gradients, then by the parameter that is updated.
    yield from (o for o in (op.forward, pairs.forward(op)) if o is not None)
    for value in (*op.writes(), *op.reads()):
        source = value.grad_of or gradient_of(value)
        if source is not None:
            yield from source.writers[:1]
            yield from (readers[source] for _ in range(source in readers))
        if value in readers and not value.writers:
            yield readers[value]


# -- folding ---------------------------------------------------------------------------------------


def _fold(main: Sequence[Op], run: _Run, followers: Mapping[Op, list[tuple[str, Op]]], nesting: Nesting, folding: Folding) -> None:
    copies = [list(main[run.start + k * run.period : run.start + (k + 1) * run.period]) for k in range(run.count)]
    copies_by_key = [_keyed(copy, followers) for copy in copies]
    looks = [tuple((key, *op.outputs, *map(is_absent, op.writes())) for key, op in ops.items()) for ops in copies_by_key]
    kinds = Counter(looks)
    prototype = max(range(run.count), key=lambda k: (kinds[looks[k]], -k))  # the most usual copy: the first one often lacks a gradient
    common_values = _outside(copies_by_key, nesting)
    copy_ops = [set(ops.values()) for ops in copies_by_key]
    repeat = Repeat(run.count, list(copies_by_key[prototype].values()), copies)
    number = len(folding.repeats)
    for k, ops in enumerate(copies_by_key):
        for key, op in ops.items():
            counterpart = copies_by_key[prototype].get(key)
            folding.place(op, number, k)
            for value in op.writes():
                folding.place(value, number, k)
            if counterpart is not None and k != prototype:
                _represent(op, counterpart, common_values, nesting, folding)
                _represent_given(op, counterpart, (copy_ops[k], copy_ops[prototype]), folding)
        for value in (nesting.outer(value) for op in ops.values() for value in op.reads()):
            if not value.writers and value not in common_values:
                folding.place(value, number, k)
    repeat.differs, repeat.differing = _differences(copies)
    folding.repeats.append(repeat)
    for op in repeat.members:
        folding.repeats_of.setdefault(op, []).append(repeat)


def _keyed(copy: Sequence[Op], followers: Mapping[Op, list[tuple[str, Op]]]) -> dict[object, Op]:
    """The operators of a copy, by place, and what goes with each by kind and number."""
    ops_by_key: dict[object, Op] = {}
    for i, op in enumerate(copy):
        ops_by_key[i] = op
        counts: Counter[str] = Counter()
        for kind, follower in followers.get(op, ()):
            # By kind and number: the second gradient of a kind in one copy goes with the second in another.
            ops_by_key[i, kind, counts[kind]] = follower
            counts[kind] += 1
    return ops_by_key


def _outside(keyed: Sequence[Mapping[object, Op]], nesting: Nesting) -> set[Value]:
    """Values given from outside that several copies read."""
    copy_of: dict[Value, int] = {}
    common_values = set()
    for k, ops in enumerate(keyed):
        for op in ops.values():
            for value in map(nesting.outer, op.reads()):
                # The first copy that reads it is noted; a second one makes it common.
                if not value.writers and copy_of.setdefault(value, k) != k:
                    common_values.add(value)
    return common_values


def _represent(op: Op, counterpart: Op, shared: set[Value], nesting: Nesting, folding: Folding) -> None:
    """One operator is drawn for another, and so are its results and what it alone is given."""
    folding.representatives[op] = counterpart
    for slot, values in op.outputs.items():
        # Not strict: what goes with an operator is paired by its kind, and one copy's gradient may have more terms, or lack one.
        for value, partner in zip(values, counterpart.outputs.get(slot, ()), strict=False):
            if value is not partner and value not in folding.representatives and not is_absent(partner):
                folding.representatives[value] = partner
    for slot, values in op.inputs.items():
        partners = counterpart.inputs.get(slot, ())
        for value, partner in zip(map(nesting.outer, values), map(nesting.outer, partners), strict=False):
            # What only this copy is given, such as its own parameters, is drawn as those of the copy that is drawn.
            alone = not value.writers and value not in shared and not partner.writers and partner not in shared
            if alone and value.persistable == partner.persistable and value is not partner and value not in folding.representatives:
                folding.representatives[value] = partner


def _represent_given(op: Op, counterpart: Op, copies: tuple[set[Op], set[Op]], folding: Folding) -> None:
    """Draw once the values that one operator gives to each copy, and nothing else reads: the gradients of terms, the parts of a split."""
    for slot, values in op.inputs.items():
        for value, partner in zip(values, counterpart.inputs.get(slot, ()), strict=False):
            if value is partner or value in folding.representatives or not _come_from_one_slot(value, partner):
                continue
            # Each of the two is read by its copy alone, so that nothing else loses its operand.
            if value.writers[0] not in copies[0] and all(copies[k].issuperset(member.readers) for k, member in enumerate((value, partner))):
                folding.representatives[value] = partner
                folding.given.add(partner)


def _come_from_one_slot(value: Value, partner: Value) -> bool:
    """Whether one operator writes two values in one slot."""
    writer = value.writer
    return writer is not None and any(value in values and partner in values for values in writer.outputs.values())


def _differences(copies: Sequence[Sequence[Op]]) -> tuple[list[str], list[str]]:
    lines: list[str] = []
    names: dict[str, None] = {}
    for ops in zip(*copies, strict=True):
        for name in ops[0].attrs:
            values = [op.attrs.get(name) for op in ops]
            if not isinstance(values[0], Block) and not _is_name(name, values) and any(value != values[0] for value in values):
                lines.append(f"{ops[0].type}: {name} = {_listed(values)}")
                names[name] = None
        for i, result in enumerate(ops[0].writes()):
            types = [list(op.writes())[i].type for op in ops]
            if any(type != result.type for type in types):
                lines.append(f"{ops[0].type}: {_listed(types)}")
                # Said once, whichever extents differ.
                names["shapes"] = None
    return lines, list(names)


def _is_name(name: str, values: Sequence[object]) -> bool:
    """Whether an attribute names something, so that it differs everywhere."""
    return any(isinstance(value, str) for value in values) or name.startswith("op_")


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values)) if len(values) <= 12 else f"{', '.join(map(str, values[:6]))}, …, {values[-1]}"
