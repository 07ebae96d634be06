"""Unique names as Fluid makes them: ``fc_0``, ``fc_1``, then ``fc_0.w_0``, ``fc_0.tmp_0``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_NUMBERED = re.compile(r"(.+?)_(\d+)(?:\.|$)")


class UniqueNames:
    """A counter per key; each program has its own, so equal programs get equal names.

    >>> names = UniqueNames()
    >>> names.generate("fc"), names.generate("fc"), names.generate("fc_0.w")
    ('fc_0', 'fc_1', 'fc_0.w_0')
    """

    def __init__(self, prefix: str = "", taken: Callable[[str], bool] = lambda name: False) -> None:
        self.prefix = prefix
        self.taken = taken
        self.counts: dict[str, int] = {}

    def generate(self, key: str) -> str:
        """``key_<n>``, n counting up from 0 past the names that are taken."""
        prefix = "" if key.startswith(self.prefix) else self.prefix
        n = self.counts.get(key, 0)
        while self.taken(name := f"{prefix}{key}_{n}"):
            n += 1
        self.counts[key] = n + 1
        return name

    def skip(self, names: Iterable[str]) -> None:
        """Never generate what these names were generated from."""
        for name in names:
            for match in filter(None, (_NUMBERED.match(name), re.fullmatch(r"(.+)_(\d+)", name))):
                key, n = match[1], int(match[2])
                self.counts[key] = max(self.counts.get(key, 0), n + 1)

    def copy(self, taken: Callable[[str], bool]) -> UniqueNames:
        """The same counters, counting on separately for another program."""
        twin = UniqueNames(self.prefix, taken)
        twin.counts = dict(self.counts)
        return twin
