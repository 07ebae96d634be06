"""Rules, which rewrite the operators around one operator, and sets of them.

A set knows, for an operator and the types of those that it reads from, which rules can apply at all: most operators see none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple

from graphad.errors import InvalidType, InvalidValue
from graphad.graph import Op
from graphad.ops.definition import did_you_mean

Place = tuple[str, int]  # an input slot, and which of the values in it


class Start(NamedTuple):
    """A way in which a rule can start at an operator: the types that the writers of some of its inputs have to be of.

    ``form`` is passed to the rule when it is tried; it says for instance in which order the inputs are matched.
    """

    writers: tuple[tuple[Place, frozenset[str]], ...] = ()
    form: Any = None


class Rule(ABC):
    """One way to rewrite the operators around an operator.

    Attributes:
        name: what the rule is called in listings, timings and provenance.
        types: the types of the operators that it starts at; None for all.
        depth: the length of the longest chain of operators that it looks at.
        aside: whether it looks at operators beside the one it starts at, which read what is read or written there.
    """

    name: str = ""
    types: frozenset[str] | None = None
    depth: int = 1
    aside: bool = False

    @abstractmethod
    def rewrite(self, op: Op) -> bool:
        """Rewrite the neighborhood of an operator, if the rule applies; ``op.graph.allows(self.name, ...)`` has to agree first."""

    def rewrite_as(self, op: Op, form: Any) -> bool:
        """Rewrite in one of the forms that ``starts`` names."""
        return self.rewrite(op)

    def starts(self) -> Iterable[Start]:
        """Where the rule can start, as far as the operators that write its inputs say."""
        return (Start(),)

    def looks_at(self) -> Iterable[tuple[int, frozenset[str] | None]]:
        """The dependencies of a rule besides its root: the number of operators below, operators of these types (None: any)."""
        return ((distance, None) for distance in range(1, self.depth))

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


clocks: ContextVar[tuple[RuleTimings, ...]] = ContextVar("clocks", default=())


@contextmanager
def timing_rules() -> Iterator[RuleTimings]:
    """Within it, the time of every rule is taken: ``with timing_rules() as times: ...; print(times)``."""
    times = RuleTimings()
    before = clocks.set((*clocks.get(), times))
    try:
        yield times
    finally:
        clocks.reset(before)


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
                raise InvalidValue(f"no rule is named {index!r}{did_you_mean(index, [r.name for r in self.rules])}")
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

    def candidates(self, op: Op) -> tuple[tuple[Rule, Any], ...]:
        """The rules that can apply at an operator, as far as its type and those of the writers of its inputs say, with their forms."""
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
    def aside(self) -> bool:
        """Whether a rule looks at operators beside the one it starts at."""
        return any(rule.aside for rule in self.rules)

    def __str__(self) -> str:
        width = max((len(rule.name) for rule in self.rules), default=0)
        return "\n".join(f"{rule.name:{width}}  {_description(rule)}".rstrip() for rule in self.rules)


def _description(rule: Rule) -> str:
    shown = getattr(rule, "text", None)
    return shown or (rule.__doc__ or "").strip().split("\n", 1)[0]


class _Table:
    """The rules for operators of one type, by the types of the operators that write their inputs."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.starts = [(rule, start) for rule in rules for start in rule.starts()]
        self.places = tuple(dict.fromkeys(place for _, start in self.starts for place, _ in start.writers))
        self.known: dict[tuple[str, ...], tuple[tuple[Rule, Any], ...]] = {}

    def candidates(self, op: Op) -> tuple[tuple[Rule, Any], ...]:
        """The rules that can apply; the same for all operators that read from operators of the same types."""
        types = tuple([_writer_type(op, slot, index) for slot, index in self.places])
        found = self.known.get(types)
        if found is None:
            of = dict(zip(self.places, types, strict=True))
            fitting = ((rule, start) for rule, start in self.starts if all(of[place] in wanted for place, wanted in start.writers))
            found = self.known[types] = tuple((rule, start.form) for rule, start in fitting)
        return found


def _writer_type(op: Op, slot: str, index: int) -> str:
    values = op.inputs.get(slot, ())
    return values[index].writers[0].type if len(values) > index and values[index].writers else ""


def timed(rule: Rule, op: Op, form: Any, running: tuple[RuleTimings, ...]) -> bool:
    """Try a rule, and add its time to those that are being taken."""
    if not running:
        return rule.rewrite_as(op, form)
    start = perf_counter()
    applied = rule.rewrite_as(op, form)
    seconds = perf_counter() - start
    for times in running:
        time = times.setdefault(rule.name, RuleTime())
        time.tried, time.applied, time.seconds = time.tried + 1, time.applied + applied, time.seconds + seconds
    return applied
