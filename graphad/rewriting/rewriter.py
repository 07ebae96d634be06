"""Rules and the worklist that applies them until none applies."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from html import escape
from time import perf_counter
from typing import Any, NamedTuple

from graphad.contexts import binding
from graphad.errors import InvalidType, InvalidValue, PassError
from graphad.ir import Graph, Op, Value
from graphad.ops.definition import did_you_mean
from graphad.program import located
from graphad.showing import Table

# -- what changed ----------------------------------------------------------------------------------
# Cursors in the list of changes of a graph: from its second run on, a pass visits only what changed since the first.

_REMEMBERED = 100_000  # changed operators that are kept for later passes, at least


def in_graph(op: Op) -> bool:
    """Whether an operator has not been removed."""
    return op.graph.ops.count > 0


def operator_count(graph: Graph) -> int:
    """How many operators a graph and those nested in it have."""
    return sum(len(subgraph.ops) for subgraph in graph.tree()) if graph.controls else len(graph.ops)


class ChangeCursor:
    """A cursor in the list of changed operators. If the list gets too long, its start is dropped: then all operators are
    visited again, and the tables that passes keep about the graph are dropped.

    Args:
        who: the pass, for instance; its next cursor goes on where this one was.
        graph: where it works.
    """

    def __init__(self, who: Hashable, graph: Graph) -> None:
        self.journal = graph.journal
        self.key = (who, graph)
        if self.journal.touched is None or len(self.journal.touched) > _REMEMBERED + 8 * operator_count(graph):
            self.journal.touched, self.journal.cursors, self.journal.kept = [], {}, {}
        self.touched = self.journal.touched

    def changed_ops(self) -> list[Op] | None:
        """The operators touched since the last call that are still there, in order, each once; None the first time, for all."""
        # A cursor is a place in one shared list, so a listener costs nothing per change, however many passes listen.
        start = self.journal.cursors.get(self.key)
        self.catch_up()
        return None if start is None else [op for op in dict.fromkeys(self.touched[start:]) if in_graph(op)]

    def catch_up(self) -> None:
        """Move to the end of the list: all changes so far are seen."""
        self.journal.cursors[self.key] = len(self.touched)

    def reset(self) -> None:
        """Visit all operators the next time."""
        self.journal.cursors.pop(self.key, None)


# -- rules and sets of rules -----------------------------------------------------------------------
# Rules, which rewrite the operators around one operator, and sets of them.
#
# A set knows, for an operator and the types of those that it reads from, which rules can apply at all: most operators see none.

Place = tuple[str, int]  # an input slot, and which of the values in it


class Root(NamedTuple):
    """The requirements of a rule on its root operator: the types of the operators that write some of its inputs.

    ``variant`` is passed to the rule when it is tried. It says, for instance, in which order the inputs are matched.
    """

    writers: tuple[tuple[Place, frozenset[str]], ...] = ()
    variant: object = None


_OLD_NAMES = {"aside": "multi_root", "starts": "roots", "looks_at": "dependencies"}


class Rule(ABC):
    """One way to rewrite the operators around an operator.

    Attributes:
        name: what the rule is called in listings, timings and provenance.
        types: the types of its root operators; None for all.
        depth: the length of the longest chain of operators that it matches.
        multi_root: whether it also matches operators next to its root, which read what the root reads or writes.
    """

    name: str = ""
    types: frozenset[str] | None = None
    depth: int = 1
    multi_root: bool = False

    @abstractmethod
    def rewrite(self, op: Op) -> bool:
        """Rewrite the neighborhood of an operator, if the rule applies; ``op.graph.allows(self.name, ...)`` has to agree first."""

    def rewrite_as(self, op: Op, variant: Any) -> bool:
        """Rewrite one of the variants that ``roots`` lists."""
        return self.rewrite(op)

    def roots(self) -> Iterable[Root]:
        """The operators at which the rule can match, by the types of the writers of their inputs."""
        return (Root(),)

    def dependencies(self) -> Iterable[tuple[int, frozenset[str] | None]]:
        """The dependencies of a rule besides its root: the number of operators below, operators of these types (None: any)."""
        return ((distance, None) for distance in range(1, self.depth))

    def __init_subclass__(cls) -> None:
        for old, new in _OLD_NAMES.items():
            if old in vars(cls):
                message = f"{cls.__name__}.{old} is deprecated and goes in the next minor version: call it {new}"
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                setattr(cls, new, vars(cls)[old])

    def __repr__(self) -> str:
        return f"<rule {self.name}>"

    def _repr_html_(self) -> str:
        return f"<div><b>{escape(self.name)}</b> {escape(self.__doc__ or '')}</div>"


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


clocks: ContextVar[tuple[RuleTimings, ...]] = ContextVar("clocks", default=())


@contextmanager
def timing_rules() -> Iterator[RuleTimings]:
    """Within it, the time of every rule is taken: ``with timing_rules() as times: ...; print(times)``."""
    times = RuleTimings()
    with binding(clocks, (*clocks.get(), times)):
        yield times


class RuleSet(Sequence[Rule]):
    """Rules in the order in which they are tried. ``a + b`` joins two sets, ``rules["name"]`` finds a rule, ``str(rules)`` lists them.

    Raises:
        ValueError: two rules have one name.
    """

    def __init__(self, *rules: Rule | Iterable[Rule]) -> None:
        # A pipeline can be gone through as well, and without passes would be taken for no rules.
        parts: list[Any] = [item if isinstance(item, list | tuple | RuleSet | Iterator) else [item] for item in rules]
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

    def __repr__(self) -> str:
        names = [rule.name for rule in self.rules[:4]] + ["..."] * (len(self.rules) > 4)
        return f"<RuleSet of {len(self.rules)} rules: {', '.join(names)}>"

    def _repr_html_(self) -> str:
        return Table(("rule", "before ⇒ after"), tuple((rule.name, _description(rule)) for rule in self.rules)).html()

    def __getitem__(self, index: int | slice | str) -> Rule:  # type: ignore[override]
        if isinstance(index, str):
            match_ = next((rule for rule in self.rules if rule.name == index), None)
            if match_ is None:
                raise InvalidValue(f"no rule is named {index!r}{did_you_mean(index, [r.name for r in self.rules])}")
            return match_
        return self.rules[index]  # type: ignore[return-value]

    def __add__(self, other: Iterable[Rule]) -> RuleSet:
        return RuleSet(self, other)

    def without(self, *names: str) -> RuleSet:
        """The others."""
        return RuleSet(rule for rule in self.rules if rule.name not in names)

    def for_type(self, type: str) -> tuple[Rule, ...]:
        """The rules whose roots are of a type."""
        rules = self._by_type.get(type)
        if rules is None:
            rules = self._by_type[type] = tuple(r for r in self.rules if r.types is None or type in r.types)
        return rules

    @cached_property
    def _by_type(self) -> dict[str, tuple[Rule, ...]]:
        return {}

    def candidates(self, op: Op) -> tuple[tuple[Rule, object], ...]:
        """The rules that can apply at an operator, as far as its type and those of the writers of its inputs say, with their variants."""
        table = self._tables.get(op.type)
        if table is None:
            table = self._tables[op.type] = _Table(self.for_type(op.type))
        return table.candidates(op)

    @cached_property
    def _tables(self) -> dict[str, _Table]:
        return {}

    @cached_property
    def depth(self) -> int:
        """The depth of the deepest rule."""
        return max((rule.depth for rule in self.rules), default=1)

    @cached_property
    def multi_root(self) -> bool:
        """Whether a rule also matches operators next to its root."""
        return any(rule.multi_root for rule in self.rules)

    def __str__(self) -> str:
        width = max((len(rule.name) for rule in self.rules), default=0)
        return "\n".join(f"{rule.name:{width}}  {_description(rule)}".rstrip() for rule in self.rules)


def _description(rule: Rule) -> str:
    text = getattr(rule, "text", None)
    return text or (rule.__doc__ or "").strip().split("\n", 1)[0]


class _Table:
    """The rules for operators of one type, by the types of the operators that write their inputs."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.roots = [(rule, root) for rule in rules for root in rule.roots()]
        self.places = tuple(dict.fromkeys(place for _, root in self.roots for place, _ in root.writers))
        self.known: dict[tuple[str, ...], tuple[tuple[Rule, object], ...]] = {}

    def candidates(self, op: Op) -> tuple[tuple[Rule, object], ...]:
        """The rules that can apply; the same for all operators that read from operators of the same types."""
        # A decision table: which rules can apply depends on these types alone, and programs have few combinations of them.
        types = tuple([_writer_type(op, slot, index) for slot, index in self.places])
        candidates = self.known.get(types)
        if candidates is None:
            of = dict(zip(self.places, types, strict=True))
            fitting = (
                (rule, root) for rule, root in self.roots if all(of[place] in types_accepted for place, types_accepted in root.writers)
            )
            candidates = self.known[types] = tuple((rule, root.variant) for rule, root in fitting)
        return candidates


def _writer_type(op: Op, slot: str, index: int) -> str:
    values = op.inputs.get(slot, ())
    return values[index].writers[0].type if len(values) > index and values[index].writers else ""


def timed(rule: Rule, op: Op, variant: object, running: tuple[RuleTimings, ...]) -> bool:
    """Try a rule, and add its time to those that are being taken."""
    if not running:
        return rule.rewrite_as(op, variant)
    start = perf_counter()
    has_applied = rule.rewrite_as(op, variant)
    seconds = perf_counter() - start
    for times in running:
        time = times.setdefault(rule.name, RuleTime())
        time.tried, time.applied, time.seconds = time.tried + 1, time.applied + has_applied, time.seconds + seconds
    return has_applied


# -- triggers --------------------------------------------------------------------------------------
# At which operators rules have to be tried again when another operator changed.

ANY = ""  # matches operators of every type
Types = frozenset[str]
Levels = tuple[Types, ...]


class Triggers:
    """By the type of an operator that changed: the types of the roots of rules, one level of readers up, two, ..."""

    def __init__(self, rules: RuleSet) -> None:
        self.depth = rules.depth
        self.up: dict[tuple[str, int], set[str]] = {}
        self.levels: dict[str, Levels] = {}
        self.multi_root = any(rule.multi_root for rule in rules)
        for rule in rules:
            self._add(rule)

    @staticmethod
    def of(rules: RuleSet) -> Triggers:
        """The triggers of a set of rules, made once."""
        triggers: Triggers | None = vars(rules).get("_triggers")
        if triggers is None:
            triggers = vars(rules)["_triggers"] = Triggers(rules)
        return triggers

    def _add(self, rule: Rule) -> None:
        for distance, types in rule.dependencies():
            for op_type in (ANY,) if types is None else types:
                self.up.setdefault((op_type, distance), set()).update((ANY,) if rule.types is None else rule.types)

    def roots(self, op: Op) -> Iterator[Op]:
        """The possible roots of rules that depend on this operator."""
        if self.multi_root:
            yield from self._beside(op, self.depth - 1)
        # Breadth first, a level of readers at a time: a rule with n operators in a chain can be triggered by the one n - 1 below its root.
        level = [op]
        levels = self.levels.get(op.type)
        for types in self._levels(op.type) if levels is None else levels:
            level = list(dict.fromkeys(r for member in level for values in member.outputs.values() for v in values for r in v.readers))
            yield from level if ANY in types else (reader for reader in level if reader.type in types)

    def _levels(self, changed: str) -> Levels:
        # Trailing levels that trigger nothing are cut, so that the walk to the readers ends early.
        types = [frozenset(self.up.get((changed, d), set()) | self.up.get((ANY, d), set())) for d in range(1, self.depth + 1)]
        while types and not types[-1]:
            types.pop()
        self.levels[changed] = tuple(types)
        return self.levels[changed]

    def _beside(self, op: Op, levels: int) -> Iterator[Op]:
        """Operators that read or write what this one and those around it read: where rules with several results can start."""
        for value in op.reads():
            for neighbor in (*value.writers, *value.readers):
                yield neighbor
                yield from _readers(neighbor, self.depth - 1)
            # A rule with several results is rooted at each of them: shared operands may lie several levels below.
            for writer in value.writers if levels > 0 else ():
                yield from self._beside(writer, levels - 1)
        for reader in _readers(op, self.depth - 1):
            yield reader
            for value in reader.reads():
                yield from value.readers


def _readers(op: Op, levels: int) -> Iterator[Op]:
    for values in op.outputs.values() if levels > 0 else ():
        for value in values:
            for reader in value.readers:
                yield reader
                yield from _readers(reader, levels - 1)


# -- worklist --------------------------------------------------------------------------------------
# The worklist that applies rules until none applies.
#
# Every operator is looked at once, and from then on only those that changed, and those that a rule can start at which looks at what
# changed: what it costs to run a set of rules again is about the size of the change since.

_FEW, _MANY, _REMEMBERED = 1000, 50, 100  # rewrites that are never too many, those for each operator, how many at least are named
_RETURNS = 0.25  # of ``_FEW``, and rewrites for each operator, that may make nothing but what was there before
_SHOWN, _WIDTH = 3, 200  # rules that are shown, not only named, and characters of each


def rewrite_greedily(graph: Graph, rules: RuleSet, follower: Hashable) -> bool:
    """Apply rules in a graph, and those nested in it, until none applies; return whether one did.

    Args:
        graph: the graph; operators that a rewrite leaves without readers are removed.
        rules: in the order in which they are tried at an operator.
        follower: the pass, for instance: its next run visits only what was touched since this one.

    Raises:
        PassError: the rules find no end: as many rewrites as there are operators made only what was there before, or many times as
            many were made at all; the message names the rules.
    """
    work = _Worklist(graph, rules, follower)
    count, size, timings = 0, operator_count(graph), clocks.get()
    last: deque[Rule] = deque(maxlen=_REMEMBERED + 2 * size)  # rules that undo each other take turns, each at all operators
    returns: _Returns | None = None
    for op in work:
        place = len(work.log)
        rule = _first_that_applies(rules, op, timings)
        if rule is not None:
            count += 1
            last.append(rule)
            if returns is not None:
                returns.see(op, work.log[place:])
            elif count > _FEW + size:
                returns = _Returns(graph)
            # Termination is the author's claim: each rewrite should make something smaller. Rules that undo each other show here.
            if count > _FEW + _MANY * size or (returns is not None and returns.count > _RETURNS * (_FEW + size)):
                raise PassError(located(_no_end(last, f"{count} rewrites of {size} operators"), op.source))
            # The operator may be a root once more; what the rewrite made and touched comes back through the journal.
            erase_if_dead(op)
            work.again(op)
    return count > 0


def _no_end(last: Iterable[Rule], after: str) -> str:
    """The message that rules find no end: their names, and what the first few do."""
    rules = sorted({rule.name: rule for rule in last}.items())
    sources = [getattr(rule, "source", None) for _, rule in rules[:_SHOWN]]
    texts = [f"\n  {rule!r:.{_WIDTH}}{'' if s is None else f', defined at {s}'}" for (_, rule), s in zip(rules, sources, strict=False)]
    return f"rules still apply after {after}, again and again: {', '.join(name for name, _ in rules)}{''.join(texts)}"


_DEPTH = 3  # of operators of one line that tell a term from another
Term = tuple[Hashable, ...]


class _Returns:
    """Rewrites that make nothing but what was there before: rules go round in a circle, or add the same again and again.

    Fresh values are made all the time, so what is made is compared by where it comes from. Each operator that was there when this began
    has a line of descendants: what a rewrite makes goes on with the line of the operator of its type that was matched, else with that of
    the root. A term says the type and attributes of an operator, and of each operand which value it is, if that was there at the start;
    else its term, some levels deep, if it is of the same line; else its line. A rule that moves an operator through n others sees n lines,
    so that its rewrites are all new.
    """

    def __init__(self, graph: Graph) -> None:
        ops = [op for subgraph in graph.tree(sealed=False) for op in subgraph.ops]
        self.journal = graph.journal
        self.line: dict[Op, Op] = {op: op for op in ops}
        self.made: set[Op] = set()
        self.terms: set[tuple[Op, Term]] = {(op, self._term(op, op, _DEPTH)) for op in ops}
        self.count = 0

    def see(self, root: Op, touched: Sequence[Op]) -> None:
        """Count one rewrite, if all that it made and touched was there before in its line."""
        new_ops = [op for op in dict.fromkeys(touched) if op not in self.line and in_graph(op)]
        old_ops = [op for op in dict.fromkeys([root, *self.journal.matched]) if op in self.line]
        for op in new_ops:
            # Each operator that was matched has one heir, so that two of a type keep two lines.
            heir = next((old for old in old_ops if old.type == op.type), None)
            if heir is not None:
                old_ops.remove(heir)
            self.line[op] = self.line.get(root, root) if heir is None else self.line[heir]
        self.made.update(new_ops)
        results = [*new_ops, root] if in_graph(root) else new_ops
        terms = {(self.line[op], self._term(op, self.line[op], _DEPTH)) for op in results if op in self.line}
        self.count += bool(terms) and terms <= self.terms
        self.terms |= terms

    def _term(self, op: Op, line: Op, depth: int) -> Term:
        attrs = tuple([(name, repr(value)) for name, value in sorted(op.attrs.items())])
        inputs = tuple([(slot, *(self._operand(value, line, depth) for value in values)) for slot, values in op.inputs.items()])
        return (op.type, attrs, inputs, *([op] if op.graphs else []))

    def _operand(self, value: Value, line: Op, depth: int) -> Hashable:
        writer = value.writer
        if writer is None or writer not in self.made:
            return value
        if self.line[writer] is not line:
            return self.line[writer], writer.type
        return self._term(writer, line, depth - 1) if depth else writer.type


def _first_that_applies(rules: RuleSet, op: Op, running: tuple[RuleTimings, ...]) -> Rule | None:
    for rule, variant in rules.candidates(op):
        if timed(rule, op, variant, running):
            return rule
    return None


def erase_if_dead(op: Op) -> None:
    """Remove an operator if it is dead, and the operators that die with it."""
    # A stack, not recursion: a chain of dead operators may be longer than Python's stack.
    stack = [op]
    while stack:
        op = stack.pop()
        graph = op.graph
        if in_graph(op) and graph.is_dead(op):
            writers = [value.writers[0] for value in op.reads() if value.writers]
            graph.remove_op(op)
            stack += dict.fromkeys(writers)


class _Worklist:
    """The operators to look at: all, or those touched since the cursor was last moved; then those touched meanwhile."""

    def __init__(self, graph: Graph, rules: RuleSet, who: Hashable) -> None:
        self.cursor = ChangeCursor(who, graph)
        self.triggers = Triggers.of(rules)
        self.journal, self.log = graph.journal, self.cursor.touched
        changed_ops = self.cursor.changed_ops()
        self.queue: deque[Op] = deque()
        if changed_ops is None:
            self.queue.extend(op for subgraph in graph.tree(sealed=False) for op in subgraph.ops)
        self.queued = set(self.queue)
        self.take(changed_ops or [])

    def __iter__(self) -> Iterator[Op]:
        log, place = self.log, len(self.log)
        while True:
            # Changes since the last look come first into the queue, so that an operator is in it at most once however often it changed.
            if place < len(log):
                self.take(list(dict.fromkeys(log[place:])))
                place = len(log)
            if not self.queue:
                break
            op = self.queue.popleft()
            self.queued.discard(op)
            if in_graph(op):
                yield op
        if self.journal.is_exhausted:
            self.cursor.reset()  # the rest is still to be looked at
        else:
            self.cursor.catch_up()

    def again(self, op: Op) -> None:
        """Look at an operator once more, if it is still there."""
        if in_graph(op):
            self.add(op)

    def take(self, touched: list[Op]) -> None:
        """Look at operators that were touched, and at those where rules can start that depend on them."""
        for op in touched:
            self.add(op)
            for root in self.triggers.roots(op):
                self.add(root)

    def add(self, op: Op) -> None:
        """Look at an operator, once."""
        if op not in self.queued:
            self.queued.add(op)
            self.queue.append(op)
