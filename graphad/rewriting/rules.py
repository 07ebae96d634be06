"""Rules, and the worklist that applies them until none applies.

A rule rewrites the operators around one operator. ``rewrite_greedily`` looks at every operator once, and from then on only at
those that changed, or read what changed: what it costs to run a set of rules again is about the size of the change since.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter

from graphad.errors import InvalidType, InvalidValue, PassError
from graphad.graph import Graph, Op

_REMEMBERED = 100_000  # touched operators that are kept for passes to come, at least
_FEW, _MANY, _SHOWN = 1000, 50, 100  # rewrites that are never too many, those for each operator, and how many of them are named


class Rule(ABC):
    """One way to rewrite the operators around an operator.

    Attributes:
        name: what the rule is called in listings, timings and provenance.
        types: the types of the operators that it starts at; None for all.
        depth: how many operators lie one behind the other in what it looks at, at most.
        aside: whether it looks at operators beside the one it starts at, which read what is read or written there.
    """

    name: str = ""
    types: frozenset[str] | None = None
    depth: int = 1
    aside: bool = False

    @abstractmethod
    def rewrite(self, op: Op) -> bool:
        """Rewrite what is around an operator, if the rule applies; ``op.graph.allows(self.name, ...)`` has to agree first."""

    def __repr__(self) -> str:
        return f"<rule {self.name}>"


@dataclass
class RuleTime:
    """How often a rule was tried and applied, and the seconds it took."""

    tried: int = 0
    applied: int = 0
    seconds: float = 0.0


class RuleTimings(dict[str, RuleTime]):
    """Times by rule; its text is a table, the slowest rule first."""

    def __str__(self) -> str:
        rows = sorted(self.items(), key=lambda item: (-item[1].seconds, item[0]))
        head = f"{'time':>10}  {'tried':>8}  {'applied':>8}  rule"
        return "\n".join([head, *(f"{t.seconds * 1e3:7.2f} ms  {t.tried:8}  {t.applied:8}  {name}" for name, t in rows)])


_clocks: list[RuleTimings] = []


@contextmanager
def timing_rules() -> Iterator[RuleTimings]:
    """Within it, the time of every rule is taken: ``with timing_rules() as times: ...; print(times)``."""
    times = RuleTimings()
    _clocks.append(times)
    try:
        yield times
    finally:
        _clocks.pop()


class RuleSet(Sequence[Rule]):
    """Rules in the order in which they are tried. ``a + b`` joins two sets, ``rules["name"]`` finds a rule, ``str(rules)`` lists them.

    Raises:
        ValueError: two rules have one name.
    """

    def __init__(self, *rules: Rule | Iterable[Rule]) -> None:
        parts = (each if isinstance(each, Iterable) else [each] for each in rules)
        self.rules: tuple[Rule, ...] = tuple(rule for part in parts for rule in part)
        for rule in self.rules:
            if not isinstance(rule, Rule):
                raise InvalidType(f"a set of rules is made of rules, not of {rule!r}")
        names = [rule.name for rule in self.rules]
        for rule in self.rules:
            if names.count(rule.name) > 1:
                raise InvalidValue(f"two rules are named {rule.name!r}")

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, index: int | slice | str) -> Rule:  # type: ignore[override]
        if isinstance(index, str):
            found = next((rule for rule in self.rules if rule.name == index), None)
            if found is None:
                raise InvalidValue(f"no rule is named {index!r}; there are {', '.join(r.name for r in self.rules)}")
            return found
        return self.rules[index]  # type: ignore[return-value]

    def __add__(self, other: Iterable[Rule]) -> RuleSet:
        return RuleSet(self, other)

    def without(self, *names: str) -> RuleSet:
        """The others."""
        return RuleSet(rule for rule in self.rules if rule.name not in names)

    def for_type(self, type: str) -> tuple[Rule, ...]:
        """The rules that start at operators of a type."""
        found = self._by_type.get(type)
        if found is None:
            found = self._by_type[type] = tuple(r for r in self.rules if r.types is None or type in r.types)
        return found

    @cached_property
    def _by_type(self) -> dict[str, tuple[Rule, ...]]:
        return {}

    @cached_property
    def depth(self) -> int:
        """The depth of the deepest rule."""
        return max((rule.depth for rule in self.rules), default=1)

    @cached_property
    def aside(self) -> bool:
        """Whether a rule looks at operators beside the one it starts at."""
        return any(rule.aside for rule in self.rules)

    def __str__(self) -> str:
        width = max((len(rule.name) for rule in self.rules), default=0)
        return "\n".join(f"{rule.name:{width}}  {_description(rule)}".rstrip() for rule in self.rules)


def _description(rule: Rule) -> str:
    shown = getattr(rule, "text", None)
    return shown or (rule.__doc__ or "").strip().split("\n", 1)[0]


# -- the worklist --------------------------------------------------------------------------------


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
    count, most = 0, _FEW + _MANY * work.size
    for op in work:
        applied = _first_that_applies(rules.for_type(op.type), op)
        if applied is not None:
            count += 1
            last.append(applied.name)
            if count > most:
                again = ", ".join(sorted(set(last)))
                raise PassError(f"rules still apply after {count} rewrites of {work.size} operators, again and again: {again}")
            sweep(op)
            work.again(op)
    return count > 0


def _first_that_applies(rules: Sequence[Rule], op: Op) -> Rule | None:
    if _clocks:
        return next((rule for rule in rules if _timed(rule, op)), None)
    return next((rule for rule in rules if rule.rewrite(op)), None)


def _timed(rule: Rule, op: Op) -> bool:
    start = perf_counter()
    applied = rule.rewrite(op)
    seconds = perf_counter() - start
    for times in _clocks:
        time = times.setdefault(rule.name, RuleTime())
        time.tried, time.applied, time.seconds = time.tried + 1, time.applied + applied, time.seconds + seconds
    return applied


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


def in_graph(op: Op) -> bool:
    """Whether an operator has not been removed."""
    return op.graph.ops.count > 0


class _Worklist:
    """The operators to look at: all, or those touched since the follower's last run; then those touched meanwhile."""

    def __init__(self, graph: Graph, rules: RuleSet, follower: Hashable) -> None:
        journal = graph.journal
        self.size = count = sum(len(each.ops) for each in graph.tree()) if graph.controls else len(graph.ops)
        if journal.touched is None or len(journal.touched) > _REMEMBERED + 8 * count:
            journal.touched, journal.followers = [], {}
        self.journal = journal
        self.touched = journal.touched
        self.depth = rules.depth
        self.aside = rules.aside
        self.follower = (follower, graph)
        start = journal.followers.get(self.follower)
        everything = start is None
        self.place = len(self.touched) if start is None else start
        self.queue: deque[Op] = deque(op for each in graph.tree() for op in each.ops) if everything else deque()
        self.queued = set(self.queue)

    def __iter__(self) -> Iterator[Op]:
        while True:
            if self.place < len(self.touched):
                self._take_touched()
            if not self.queue:
                break
            op = self.queue.popleft()
            self.queued.discard(op)
            if in_graph(op):
                yield op
        if self.journal.is_exhausted:
            self.journal.followers.pop(self.follower, None)  # the rest is still to be looked at
        else:
            self.journal.followers[self.follower] = len(self.touched)

    def again(self, op: Op) -> None:
        """Look at an operator once more, if it is still there."""
        if in_graph(op):
            self._add(op)

    def _take_touched(self) -> None:
        fresh = dict.fromkeys(self.touched[self.place :])
        self.place = len(self.touched)
        for op in fresh:
            self._add_upwards(op, self.depth - 1)

    def _add_upwards(self, op: Op, levels: int) -> None:
        """Look at an operator, at those beside it, and at those that read what it writes, some levels up."""
        self._add(op)
        if self.aside:
            self._add_beside(op, self.depth - 1)
        for reader in self._readers(op) if levels > 0 else ():
            self._add_upwards(reader, levels - 1)

    def _add_beside(self, op: Op, levels: int) -> None:
        for value in op.reads():
            for other in (*value.writers, *value.readers):
                self._add(other)
                self._add_readers(other, self.depth - 1)
            for writer in value.writers if levels > 0 else ():
                self._add_beside(writer, levels - 1)

    def _add_readers(self, op: Op, levels: int) -> None:
        for reader in self._readers(op) if levels > 0 else ():
            self._add(reader)
            self._add_readers(reader, levels - 1)

    def _readers(self, op: Op) -> Iterator[Op]:
        return (reader for values in op.outputs.values() for value in values for reader in value.readers)

    def _add(self, op: Op) -> None:
        if op not in self.queued:
            self.queued.add(op)
            self.queue.append(op)
