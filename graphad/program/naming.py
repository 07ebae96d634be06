"""Unique names as Fluid makes them: ``fc_0``, ``fc_1``, then ``fc_0.w_0``, ``fc_0.tmp_0``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

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
        self._undoable: list[tuple[str, int]] = []
        self._watchers = 0

    def generate(self, key: str) -> str:
        """``key_<n>``, n counting up from 0 past the names that are taken."""
        prefix = "" if key.startswith(self.prefix) else self.prefix
        n = self.counts.get(key, 0)
        if self._watchers:
            self._undoable.append((key, n))
        while self.taken(name := f"{prefix}{key}_{n}"):
            n += 1
        self.counts[key] = n + 1
        return name

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Within it, an error takes back the names that were generated."""
        start = len(self._undoable)
        self._watchers += 1
        try:
            yield
        except BaseException:
            for key, count in reversed(self._undoable[start:]):
                self.counts[key] = count
            del self._undoable[start:]
            raise
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._undoable.clear()

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
