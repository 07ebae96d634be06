"""The worklist that applies rules until none applies.

Every operator is looked at once, and from then on only those that changed, and those that a rule can start at which looks at what
changed: what it costs to run a set of rules again is about the size of the change since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator

from graphad.errors import PassError
from graphad.graph import Graph, Op
from graphad.rewriting.following import Follower, in_graph, operator_count
from graphad.rewriting.rules import Rule, RuleSet, RuleTimings, clocks, timed
from graphad.rewriting.triggers import Triggers

_FEW, _MANY, _SHOWN = 1000, 50, 100  # rewrites that are never too many, those for each operator, and how many of them are named


def rewrite_greedily(graph: Graph, rules: RuleSet, follower: Hashable) -> bool:
    """Apply rules in a graph, and those nested in it, until none applies; return whether one did.

    Args:
        graph: the graph; operators that a rewrite leaves without readers are removed.
        rules: in the order in which they are tried at an operator.
        follower: who asks, the pass for instance: its next run starts from what was touched since this one.

    Raises:
        PassError: the rules still apply after many times as many rewrites as there are operators; the message names those that do.
    """
    work = _Worklist(graph, rules, follower)
    last: deque[str] = deque(maxlen=_SHOWN)
    count, size, running = 0, operator_count(graph), clocks.get()
    for op in work:
        applied = _first_that_applies(rules, op, running)
        if applied is not None:
            count += 1
            last.append(applied.name)
            if count > _FEW + _MANY * size:
                again = ", ".join(sorted(set(last)))
                raise PassError(f"rules still apply after {count} rewrites of {size} operators, again and again: {again}")
            sweep(op)
            work.again(op)
    return count > 0


def _first_that_applies(rules: RuleSet, op: Op, running: tuple[RuleTimings, ...]) -> Rule | None:
    for rule, form in rules.candidates(op):
        if timed(rule, op, form, running):
            return rule
    return None


def sweep(op: Op) -> None:
    """Remove an operator if it is dead, and the operators that die with it."""
    pending = [op]
    while pending:
        op = pending.pop()
        graph = op.graph
        if in_graph(op) and graph.is_dead(op):
            writers = [value.writers[0] for value in op.reads() if value.writers]
            graph.remove_op(op)
            pending += dict.fromkeys(writers)


class _Worklist:
    """The operators to look at: all, or those touched since the follower's last run; then those touched meanwhile."""

    def __init__(self, graph: Graph, rules: RuleSet, who: Hashable) -> None:
        self.follower = Follower(who, graph)
        self.triggers = Triggers.of(rules)
        self.journal = graph.journal
        fresh = self.follower.fresh()
        self.queue: deque[Op] = deque(op for each in graph.tree() for op in each.ops) if fresh is None else deque()
        self.queued = set(self.queue)
        self.take(fresh or [])

    def __iter__(self) -> Iterator[Op]:
        touched, place = self.follower.touched, len(self.follower.touched)
        while True:
            if place < len(touched):
                self.take(list(dict.fromkeys(touched[place:])))
                place = len(touched)
            if not self.queue:
                break
            op = self.queue.popleft()
            self.queued.discard(op)
            if in_graph(op):
                yield op
        if self.journal.is_exhausted:
            self.follower.forget()  # the rest is still to be looked at
        else:
            self.follower.catch_up()

    def again(self, op: Op) -> None:
        """Look at an operator once more, if it is still there."""
        if in_graph(op):
            self.add(op)

    def take(self, touched: list[Op]) -> None:
        """Look at operators that were touched, and at those where rules can start that depend on them."""
        for op in touched:
            self.add(op)
            for start in self.triggers.starts(op):
                self.add(start)

    def add(self, op: Op) -> None:
        """Look at an operator, once."""
        if op not in self.queued:
            self.queued.add(op)
            self.queue.append(op)
