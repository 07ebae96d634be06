"""At which operators rules have to be tried again when another operator changed."""

from __future__ import annotations

from collections.abc import Iterator

from graphad.graph import Op
from graphad.rewriting.rules import Rule, RuleSet

ANY = ""  # matches operators of every type
Types = frozenset[str]
Levels = tuple[Types, ...]


class Triggers:
    """By the type of an operator that changed: the types of operators that rules start at, one level of readers up, two, ..."""

    def __init__(self, rules: RuleSet) -> None:
        self.depth = rules.depth
        self.up: dict[tuple[str, int], set[str]] = {}
        self.levels: dict[str, Levels] = {}
        self.aside = any(rule.aside for rule in rules)
        for rule in rules:
            self._add(rule)

    @staticmethod
    def of(rules: RuleSet) -> Triggers:
        """The triggers of a set of rules, made once."""
        found: Triggers | None = vars(rules).get("_triggers")
        if found is None:
            found = vars(rules)["_triggers"] = Triggers(rules)
        return found

    def _add(self, rule: Rule) -> None:
        for distance, types in rule.looks_at():
            for changed in (ANY,) if types is None else types:
                self.up.setdefault((changed, distance), set()).update((ANY,) if rule.types is None else rule.types)

    def starts(self, op: Op) -> Iterator[Op]:
        """The operators at which rules can start that look at this one."""
        if self.aside:
            yield from self._beside(op, self.depth - 1)
        level = [op]
        for wanted in self.levels.get(op.type) or self._levels(op.type):
            level = list(dict.fromkeys(r for each in level for values in each.outputs.values() for v in values for r in v.readers))
            yield from level if ANY in wanted else (reader for reader in level if reader.type in wanted)

    def _levels(self, changed: str) -> Levels:
        wanted = [frozenset(self.up.get((changed, d), set()) | self.up.get((ANY, d), set())) for d in range(1, self.depth + 1)]
        while wanted and not wanted[-1]:
            wanted.pop()
        self.levels[changed] = tuple(wanted)
        return self.levels[changed]

    def _beside(self, op: Op, levels: int) -> Iterator[Op]:
        """Operators that read or write what this one and those around it read: where rules with several results can start."""
        for value in op.reads():
            for other in (*value.writers, *value.readers):
                yield other
                yield from _readers(other, self.depth - 1)
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
